//! What the configuration says of connections, as `net` takes it.

use std::net::SocketAddr;

use haproxycfg::model::{SourceAddress, TcpKeepalive, UseSource};
use net::{Keepalive, Source};

/// How keep-alive probes.
#[must_use]
pub fn keepalive(configured: TcpKeepalive) -> Keepalive {
    let TcpKeepalive { count, idle, interval } = configured;
    Keepalive { count, idle, interval }
}

/// `source`: where a connection comes from that is opened for this client, or for none.
#[must_use]
pub fn source(configured: &SourceAddress, client: Option<SocketAddr>) -> Source<'_> {
    let foreign = match (&configured.usesrc, client) {
        (Some(UseSource::Client), Some(client)) => Some(client),
        // Whoever opens a connection for a request has found the address in its header.
        (Some(UseSource::ClientIp | UseSource::Header { .. }), Some(client)) => Some(SocketAddr::new(client.ip(), 0)),
        (Some(UseSource::Address(address)), _) => Some(*address),
        _ => None,
    };
    let SourceAddress { address, ports, interface, .. } = configured;
    Source { address: *address, ports: *ports, interface: interface.as_deref(), foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_lends_its_address_as_configured() {
        let client: SocketAddr = "192.0.2.7:4711".parse().unwrap();
        let other: SocketAddr = "192.0.2.9:80".parse().unwrap();
        let without_port = SocketAddr::new(client.ip(), 0);
        for (usesrc, for_client, for_none) in [
            (None, None, None),
            (Some(UseSource::Client), Some(client), None),
            (Some(UseSource::ClientIp), Some(without_port), None),
            (Some(UseSource::Header { name: "x".into(), occurrence: 1 }), Some(without_port), None),
            (Some(UseSource::Address(other)), Some(other), Some(other)),
        ] {
            let address = "127.0.0.1:0".parse().unwrap();
            let configured = SourceAddress { address, ports: None, interface: None, usesrc };
            assert_eq!(source(&configured, Some(client)).foreign, for_client, "{configured:?}");
            assert_eq!(source(&configured, None).foreign, for_none, "{configured:?}");
        }
    }
}
