//! Listening sockets.

use std::net::{SocketAddr, ToSocketAddrs};

use mio::net::TcpListener;

use commands::config::Settings;

use crate::StoreError;

/// Opens all addresses of the settings. One that begins with `-` may fail, as in Redis.
pub fn open(settings: &Settings) -> Result<Vec<TcpListener>, StoreError> {
    let mut listeners = Vec::new();
    let port = settings.port.0 as u16;
    for host in settings.bind.0.split_ascii_whitespace().filter(|_| port != 0) {
        let (host, optional) = host.strip_prefix('-').map_or((host, false), |host| (host, true));
        let host = if host == "*" { "0.0.0.0" } else { host };
        let address = format!("{host}:{port}");
        let failed = |source| StoreError::Listen { address: address.clone(), source };
        let resolved: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(failed)?.collect();
        for address in resolved {
            match TcpListener::bind(address) {
                Ok(listener) => listeners.push(listener),
                Err(_) if optional => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(listeners)
}
