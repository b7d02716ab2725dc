//! The addresses that servers begin with (`init-addr`).

use std::net::{IpAddr, SocketAddr};

use balance::ServerId;
use haproxycfg::{
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{Config, InitAddr, LogDestination, LogTarget, Proxy, Server, ServerAddress},
};
use tokio::time::Instant;

use super::lookup::{Lookup, preferred};
use crate::live::{Instance, Target};

/// Gives every server with a name an address, as its `init-addr` says, and every log target with one too; returns what
/// HAProxy would say about it.
///
/// `current` tells the address that a server has now, by backend, server and host name: at a reload, a server keeps it if
/// its name still has it.
pub fn settle(
    config: &mut Config,
    lookup: &dyn Lookup,
    current: &dyn Fn(&str, &str, &str) -> Option<IpAddr>,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for line in config.global.logs.iter_mut() {
        settle_log(line, lookup, &mut diagnostics);
    }
    let mut failed = false;
    for proxy in &mut config.proxies {
        for line in proxy.logs.iter_mut() {
            settle_log(line, lookup, &mut diagnostics);
        }
        if !proxy.kind.has_backend() || proxy.disabled {
            continue;
        }
        let Proxy { name, servers, .. } = proxy;
        for server in servers {
            let Some(host) = server.fqdn.clone() else { continue };
            let now = current(name, &server.name, &host);
            let said = settle_server(name, server, &host, lookup, now);
            failed |= said.as_ref().is_some_and(|said| said.severity == Severity::Alert);
            diagnostics.extend(said);
        }
    }
    if failed {
        diagnostics.push(Diagnostic::whole(Severity::Alert, "Failed to initialize server(s) addr."));
    }
    diagnostics
}

fn settle_server(
    backend: &str,
    server: &mut Server,
    host: &str,
    lookup: &dyn Lookup,
    current: Option<IpAddr>,
) -> Option<Diagnostic> {
    let subject = format!("'server {backend}/{}' : ", server.name);
    let location = server.location.clone();
    let say = |severity, text: String| {
        Some(Diagnostic {
            prefix: Prefix::Place,
            location: Some(location.clone()),
            ..Diagnostic::whole(severity, format!("{subject}{text}"))
        })
    };
    let mut tried = false;
    for method in &server.init_addr {
        match method {
            // There is no state file: what is known from before is in `current`.
            InitAddr::Last => {}
            InitAddr::Libc => {
                tried = true;
                let addresses = lookup.lookup(host).unwrap_or_default();
                let kept = current.filter(|current| addresses.contains(current));
                if let Some(address) = kept.or_else(|| preferred(&addresses, server.prefer_ipv4)) {
                    server.address = ServerAddress::Ip(address);
                    return None;
                }
            }
            InitAddr::None => {
                server.address = ServerAddress::Unresolved;
                let text = format!("could not resolve address '{host}', disabling server.");
                return tried.then(|| say(Severity::Warning, text)).flatten();
            }
            InitAddr::Ip(address) => {
                server.address = ServerAddress::Ip(*address);
                let text = format!("could not resolve address '{host}', falling back to configured address.");
                return tried.then(|| say(Severity::Warning, text)).flatten();
            }
        }
    }
    let text = if tried { "could not resolve address" } else { "no method found to resolve address" };
    say(Severity::Alert, format!("{text} '{host}'."))
}

fn settle_log(line: &mut LogTarget, lookup: &dyn Lookup, diagnostics: &mut Vec<Diagnostic>) {
    let LogDestination::UdpHost { host, port } = &line.destination else { return };
    match lookup.lookup(host).ok().and_then(|addresses| addresses.first().copied()) {
        Some(address) => line.destination = LogDestination::Udp(SocketAddr::new(address, *port)),
        None => {
            let text = format!("'log' : could not resolve address '{host}'.");
            diagnostics.push(Diagnostic::whole(Severity::Alert, text));
        }
    }
}

/// Takes servers without an address out of service until [`super::look_again`] finds one. Once for each instance, before
/// its workers serve.
pub fn mark_unresolved(instance: &Instance) {
    let now_ms = instance.process.milliseconds(Instant::now().into_std());
    for proxy in &instance.proxies {
        for server in proxy.servers.iter() {
            if server.config.fqdn.is_some() && server.target() == Target::Unresolved {
                let mut farm = proxy.farm();
                farm.set_unresolved(ServerId::new(server.index.0 as usize), "", now_ms);
                // HAProxy says nothing of it but at start.
                while farm.poll_event().is_some() {}
            }
        }
    }
}
