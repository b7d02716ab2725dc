//! Sockets, buffers and timers as the data path uses them.

pub mod buffer;
pub mod connect;
mod namespace;
pub(crate) mod socks4;
pub mod splice;
pub mod stream;
pub mod timer;

pub use buffer::{Buffer, BufferPool};
pub use namespace::Namespaces;
pub use splice::Splice;
pub use stream::{Socket, Stream};
pub use timer::Deadline;

/// Whether `address` belongs to this machine: the kernel lets a socket be bound to nothing else.
#[must_use]
pub fn is_local(address: std::net::IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}
