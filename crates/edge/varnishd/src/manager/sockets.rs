//! Ports of `-a`: kept from the start, so that a worker that is started again has the same.

use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// A port that is kept. Nobody listens there: connections are refused while there is no worker.
#[derive(Debug)]
pub struct Reservation {
    /// The address, with the port that it has.
    pub address: SocketAddr,
    _socket: Socket,
}

impl Reservation {
    /// Keeps an address; port 0 is any that is free.
    ///
    /// # Errors
    /// When somebody else has it.
    pub fn new(address: SocketAddr) -> Result<Self, String> {
        let why = |error: std::io::Error| {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text);
            format!("Could not get socket {address}: {text}")
        };
        if address.port() != 0 && is_taken(address) {
            return Err(format!("Could not get socket {address}: Address already in use"));
        }
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(why)?;
        socket.set_reuse_address(true).map_err(why)?;
        // A worker's sockets share the port.
        socket.set_reuse_port(true).map_err(why)?;
        if address.is_ipv6() {
            socket.set_only_v6(true).map_err(why)?;
        }
        socket.bind(&address.into()).map_err(why)?;
        let address = socket.local_addr().map_err(why)?.as_socket().unwrap_or(address);
        Ok(Self { address, _socket: socket })
    }
}

/// Whether somebody listens there, who may allow others to.
fn is_taken(address: SocketAddr) -> bool {
    let Ok(socket) = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)) else { return false };
    let _ = socket.set_reuse_address(true);
    if address.is_ipv6() {
        let _ = socket.set_only_v6(true);
    }
    socket.bind(&address.into()).is_err()
}
