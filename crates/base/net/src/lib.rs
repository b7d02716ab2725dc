//! Streams, buffers, timers, pipes between sockets, files to sockets, and opening connections, as a data path uses them on tokio.
//!
//! Knows no protocol but SOCKS4 and no configuration: what a connection is opened with stands in
//! [`ConnectOptions`](connect::ConnectOptions).

pub mod buffer;
pub mod connect;
mod keepalive;
mod memory;
mod namespace;
mod send_file;
pub mod socks4;
pub mod source;
pub mod splice;
pub mod stream;
pub mod timer;

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt as _};

use socket2::SockAddr;

pub use buffer::{Buffer, BufferPool};
pub use connect::Target;
pub use keepalive::Keepalive;
pub use memory::MemoryStream;
pub use namespace::Namespaces;
pub use send_file::poll_send_file;
pub use source::Source;
pub use splice::Splice;
pub use stream::{PlainSocket, SecureStream, Socket, Stream};
pub use timer::Deadline;

/// The address of `abns@NAME`, as listeners have it: short and long ones are different names.
///
/// # Errors
/// When it is too long.
pub fn abstract_address(name: &str) -> io::Result<SockAddr> {
    let name = runtime::abstract_name(name)?;
    SockAddr::unix(OsStr::from_bytes(&[&[0], &name[..]].concat()))
}

/// Whether `address` belongs to this machine: the kernel lets a socket be bound to nothing else.
#[must_use]
pub fn is_local(address: std::net::IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}
