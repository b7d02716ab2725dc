//! Listening sockets: what to listen on, making the sockets, and accepting from them.

mod accept;
mod bind;
mod guard;
mod neighbours;
mod spec;
mod table;
mod threads;

pub use accept::{
    Accepted, Acceptor, AcceptorHandle, AcceptorSeed, DatagramSeed, DatagramSocket, DatagramUse, Peer, Stream,
};
pub(crate) use accept::{NoConnection, SeedSource, accept_one};
pub use bind::BindError;
pub(crate) use bind::{begin, plain};
pub use guard::{ConnectionCounts, ConnectionGuard};
pub(crate) use guard::{Count, InUse, LastUse};
pub(crate) use neighbours::neighbour;
pub use spec::{AcceptMode, Address, ListenSpec, UnixPermissions, abstract_address, abstract_name};
pub use table::Listener;
pub(crate) use table::{Prepared, SocketKey, SocketTable};
pub(crate) use threads::AcceptorThreads;
