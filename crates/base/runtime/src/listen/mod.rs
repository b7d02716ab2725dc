//! Listening sockets: what to listen on, making the sockets, and accepting from them.

mod accept;
mod bind;
mod guard;
mod spec;
mod table;
mod threads;

pub use accept::{Accepted, Acceptor, AcceptorHandle, AcceptorSeed, Peer, Stream};
pub use bind::BindError;
pub use guard::{ConnectionCounts, ConnectionGuard};
pub use spec::{AcceptMode, Address, ListenSpec, UnixPermissions};
pub use table::Listener;
pub(crate) use accept::SeedSource;
pub(crate) use guard::Count;
pub(crate) use table::{SocketKey, SocketTable};
pub(crate) use threads::AcceptorThreads;
