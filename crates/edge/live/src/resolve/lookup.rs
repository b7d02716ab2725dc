//! Who knows the addresses of a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, ToSocketAddrs as _},
};

use haproxycfg::model::{Config, InitAddr, LogDestination, MailerAddress};

/// Addresses that are kept of one name; more are left out.
const ADDRESSES_MAX: usize = 256;

/// Finds addresses.
pub trait Lookup: Send + Sync {
    /// The addresses of a host in order of preference. May take seconds.
    ///
    /// # Errors
    /// When the host has none, or nobody can be asked.
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The C library: files, DNS and whatever else the machine is set up for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        for address in (host, 0).to_socket_addrs()? {
            if !addresses.contains(&address.ip()) && addresses.len() < ADDRESSES_MAX {
                addresses.push(address.ip());
            }
        }
        if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) }
    }
}

/// Answers that were given before, by name; names without an answer are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Recorded(pub BTreeMap<String, Vec<IpAddr>>);

impl Recorded {
    /// Looks up every name that a configuration leaves open.
    #[must_use]
    pub fn of(config: &Config, lookup: &dyn Lookup) -> Self {
        let names: BTreeSet<&str> = server_names(config).chain(log_names(config)).chain(mailer_names(config)).collect();
        let answer = |name: &str| Some((name.to_owned(), lookup.lookup(name).ok()?));
        Self(names.into_iter().filter_map(answer).collect())
    }
}

impl Lookup for Recorded {
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.get(host).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn server_names(config: &Config) -> impl Iterator<Item = &str> {
    let servers = config.proxies.iter().flat_map(|proxy| &proxy.servers);
    let peers = config.peers.iter().flat_map(|peers| &peers.peers).map(|peer| &peer.server);
    let asked = servers.chain(peers).filter(|server| server.init_addr.contains(&InitAddr::Libc));
    asked.filter_map(|server| server.fqdn.as_deref())
}

fn log_names(config: &Config) -> impl Iterator<Item = &str> {
    let lines = config.global.logs.iter().chain(config.proxies.iter().flat_map(|proxy| &proxy.logs));
    lines.filter_map(|line| match &line.destination {
        LogDestination::UdpHost { host, .. } => Some(host.as_str()),
        _ => None,
    })
}

fn mailer_names(config: &Config) -> impl Iterator<Item = &str> {
    let mails = config.proxies.iter().filter(|proxy| !proxy.disabled).filter_map(|proxy| proxy.mail.as_ref());
    mails.flat_map(|mail| &mail.mailers).filter_map(|mailer| match &mailer.address {
        MailerAddress::Host(host, _) => Some(host.as_str()),
        MailerAddress::Inet(_) => None,
    })
}

/// The address to use of several: the first, or the first IPv4 one if that is preferred.
pub(super) fn preferred(addresses: &[IpAddr], prefer_ipv4: bool) -> Option<IpAddr> {
    addresses.iter().find(|address| prefer_ipv4 && address.is_ipv4()).or_else(|| addresses.first()).copied()
}
