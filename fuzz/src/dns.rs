//! What the DNS machine promises about any message of a name server.

use std::net::IpAddr;

use dns::{Hold, Name, Options, Section, ServerKey, Servers, Settings, Updater, decode_response};

/// Servers that believe everything.
#[derive(Default)]
struct Believers([(Option<IpAddr>, bool, u16); 4]);

impl Servers for Believers {
    fn address(&self, server: ServerKey) -> Option<IpAddr> {
        self.0[server].0
    }

    fn set_address(&mut self, server: ServerKey, address: IpAddr, _: Updater) {
        self.0[server].0 = Some(address);
    }

    fn clear_address(&mut self, server: ServerKey) {
        self.0[server].0 = None;
    }

    fn is_unresolved(&self, server: ServerKey) -> bool {
        self.0[server].1
    }

    fn set_unresolved(&mut self, server: ServerKey, _: &str) {
        self.0[server].1 = true;
    }

    fn set_resolved(&mut self, server: ServerKey, _: bool) {
        self.0[server].1 = false;
    }

    fn set_host(&mut self, _: ServerKey, _: Option<&str>) {}

    fn port(&self, server: ServerKey) -> u16 {
        self.0[server].2
    }

    fn set_port(&mut self, server: ServerKey, port: u16) {
        self.0[server].2 = port;
    }

    fn set_weight(&mut self, _: ServerKey, weight: u16) {
        assert!(weight <= 256);
    }
}

/// The bytes are messages, each behind its length; each answers the next question. Whatever they are, a server that is not in
/// maintenance has an address, two servers of a backend never share one, and the machine always goes on.
pub fn machine(mut data: &[u8]) {
    let name = |text: &str| Name::parse(text.as_bytes()).unwrap();
    for (place, kind) in [("a.b", 512), ("_h._t.x", 512)] {
        let _ = decode_response(data, &name(place), kind);
    }
    let hold = Hold { nx: 50, other: 50, refused: 50, timeout: 50, valid: 50, obsolete: 20 };
    let settings = Settings { nameservers: 1, payload_size: 512, retries: 2, resolve_ms: 10, retry_ms: 10, hold };
    let mut section = Section::new(settings, 7);
    let mut servers = Believers::default();
    let options = || Options { prefer_ipv4: true, ..Options::default() };
    for server in 0..2 {
        servers.0[server].1 = true;
        section.add_server(server, 0, options(), name("a.b"), 0);
        servers.0[server + 2].1 = true;
        section.add_service_server(server + 2, 1, options(), &name("_h._t.x"), None, 0);
    }
    let mut now_ms = 0;
    for round in 0..200 {
        let Some(due_ms) = section.poll_timeout() else { panic!("nothing is due any more") };
        now_ms = due_ms.max(now_ms);
        section.handle_timeout(now_ms, &mut servers);
        while let Some(transmit) = section.poll_transmit() {
            section.handle_sent(0, transmit.id, round % 7 != 0);
            let Some((length, rest)) = data.split_first() else { continue };
            let (message, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            data = rest;
            let mut message = message.to_vec();
            if let Some(id) = message.get_mut(..2) {
                id.copy_from_slice(&transmit.id.to_be_bytes());
            }
            section.handle_response(0, &message, now_ms, &mut servers);
        }
        for (address, is_unresolved, _) in servers.0 {
            assert!(is_unresolved || address.is_some());
        }
        if let [(Some(first), false, _), (Some(second), false, _), ..] = servers.0 {
            assert_ne!(first, second);
        }
        if data.is_empty() && round > 20 {
            break;
        }
    }
}
