//! What every role of Tidegate runs on: processes, worker threads and listening sockets.
//!
//! The crate knows nothing of HTTP, of `haproxy.cfg` or of any other role. A role implements
//! [`process::Role`] and [`process::Service`], and [`process::run`] does the rest:
//!
//! ```text
//! master process            keeps every listening socket, checks configurations, starts workers
//!   └─ worker process       one at a time, besides old ones that are draining
//!        ├─ control thread  a `Service`: takes each configuration, drains
//!        └─ worker-1..N     `Workers`: one tokio `LocalRuntime` each, with its own `Acceptor`s
//! ```
//!
//! - [`listen`]: what to listen on ([`ListenSpec`]), the sockets, and accepting in three modes.
//! - [`workers`]: the threads.
//! - [`process`]: master and worker process, reload, upgrade, drain, privileges, systemd.
//! - [`log`]: where messages of this crate go.

pub mod listen;
pub mod log;
mod namespace;
pub mod process;
mod system;

pub use self::system::{register, set_tcp_fast_open_connect, set_tcp_repair, tcp_information};
pub mod workers;

pub use listen::{
    AcceptMode, Accepted, Acceptor, AcceptorHandle, AcceptorSeed, Address, ConnectionGuard, DatagramSeed,
    DatagramSocket, DatagramUse, ListenSpec, Listener, Peer, Stream, UnixPermissions, abstract_address, abstract_name,
};
pub use namespace::{enter_namespace, in_namespace, open_namespace};
pub use workers::{WorkerContext, WorkerOptions, Workers};
