//! Addresses of machines that may be given as names.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
};

/// The number of an address that may be a name.
///
/// # Errors
///
/// Nobody knows the name.
pub fn resolved(host: &str) -> io::Result<IpAddr> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let mut found = (host, 0).to_socket_addrs()?;
    found.next().map(|address| address.ip()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}
