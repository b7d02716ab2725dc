//! The addresses that servers begin with (`init-addr`).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use balance::ServerId;
use haproxycfg::{
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{Config, InitAddr, LogDestination, LogTarget, Mailer, MailerAddress, Proxy, Server, ServerAddress},
};
use net::Target;
use tokio::time::Instant;

use super::lookup::{Lookup, preferred};
use crate::Instance;

/// What is known of a server from before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Where it was.
    pub address: Option<IpAddr>,
    /// Whether that is out of a state file, which is what `init-addr last` means; otherwise it is where a server of the
    /// former configuration is, which it keeps if its name still has that address.
    pub is_saved: bool,
    /// Host and port that a server of a service stood for.
    pub service_host: Option<(String, u16)>,
}

/// Gives every server with a name an address, as its `init-addr` says, and every log target with one too; returns what
/// HAProxy would say about it.
///
/// `known` tells what is known of a server of a backend from before.
pub fn settle(
    config: &mut Config,
    lookup: &dyn Lookup,
    known: &dyn Fn(&str, &Server) -> Option<Known>,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for line in config.global.logs.iter_mut() {
        settle_log(line, lookup, &mut diagnostics);
    }
    let mut failed = false;
    // Nobody else has them yet.
    for proxy in config.proxies.iter_mut().map(Arc::make_mut) {
        for line in proxy.logs.iter_mut() {
            settle_log(line, lookup, &mut diagnostics);
        }
        if let Some(app) = &mut proxy.fcgi_app {
            for line in &mut Arc::make_mut(app).logs {
                settle_log(line, lookup, &mut diagnostics);
            }
        }
        if !proxy.kind.has_backend() || proxy.disabled {
            continue;
        }
        for mailer in proxy.mail.iter_mut().flat_map(|mail| &mut mail.mailers) {
            settle_mailer(mailer, lookup, &mut diagnostics);
        }
        let Proxy { name, servers, .. } = proxy;
        for server in servers {
            let Some(host) = server.fqdn.clone().or_else(|| server.service.clone()) else { continue };
            let before = known(name, server).unwrap_or_default();
            let said = settle_server(name, server, &host, lookup, before);
            failed |= said.as_ref().is_some_and(|said| said.severity == Severity::Alert);
            diagnostics.extend(said);
        }
    }
    for section in &mut config.peers {
        for peer in &mut section.peers {
            // Once: as in HAProxy, a peer does not move while a process lives.
            let Some(host) = peer.server.fqdn.clone() else { continue };
            let said = settle_server(&section.name, &mut peer.server, &host, lookup, Known::default());
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
    before: Known,
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
    if server.service.is_some() {
        server.service_host = before.service_host;
    }
    for method in &server.init_addr {
        match method {
            // Who is resolved at run time is moved then.
            InitAddr::Last => {
                if let Some(address) = before.address.filter(|_| before.is_saved || server.resolvers.is_some()) {
                    server.address = ServerAddress::Ip(address);
                    return None;
                }
            }
            InitAddr::Libc if server.fqdn.is_none() => {}
            InitAddr::Libc => {
                tried = true;
                let addresses = lookup.lookup(host).unwrap_or_default();
                let kept = before.address.filter(|address| addresses.contains(address));
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

fn settle_mailer(mailer: &mut Mailer, lookup: &dyn Lookup, diagnostics: &mut Vec<Diagnostic>) {
    let MailerAddress::Host(host, port) = &mailer.address else { return };
    match lookup.lookup(host).ok().and_then(|addresses| addresses.first().copied()) {
        Some(address) => mailer.address = MailerAddress::Inet(SocketAddr::new(address, *port)),
        None => {
            let text = format!("'mailer {}' : could not resolve address '{host}'.", mailer.name);
            diagnostics.push(Diagnostic::whole(Severity::Alert, text));
        }
    }
}

/// Takes servers without an address out of service until one is found. Once for each instance, before
/// its workers serve.
pub fn mark_unresolved(instance: &Instance) {
    let now_ms = instance.process.milliseconds(Instant::now().into_std());
    for proxy in &instance.proxies {
        for server in proxy.servers.iter() {
            let is_named = server.config.fqdn.is_some() || server.config.service.is_some();
            if is_named && server.target() == Target::Unresolved {
                let mut farm = proxy.farm();
                farm.set_unresolved(ServerId::new(server.index.0 as usize), "", now_ms);
                // HAProxy says nothing of it but at start.
                while farm.poll_event().is_some() {}
            }
        }
    }
}
