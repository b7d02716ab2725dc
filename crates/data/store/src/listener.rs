//! Listening sockets.

use std::net::{SocketAddr, ToSocketAddrs};

use mio::net::TcpListener;

use crate::{Options, StoreError};

/// Opens all addresses of the options.
pub fn open(options: &Options) -> Result<Vec<TcpListener>, StoreError> {
    let mut listeners = Vec::new();
    for host in &options.bind {
        let address = format!("{host}:{}", options.port);
        let failed = |source| StoreError::Listen { address: address.clone(), source };
        let resolved: Vec<SocketAddr> = (host.as_str(), options.port).to_socket_addrs().map_err(failed)?.collect();
        for address in resolved {
            listeners.push(TcpListener::bind(address).map_err(failed)?);
        }
    }
    Ok(listeners)
}
