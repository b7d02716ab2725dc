//! From `bind` lines to what the runtime listens on, and back.

use haproxycfg::model::{AcceptMode, Bind, BindAddress, Config, Proxy, ProxyIndex};
use runtime::{Address, ListenSpec, UnixPermissions};

use super::identities;

/// Whose listener it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A `bind` line of a proxy.
    Proxy {
        /// The proxy.
        proxy: ProxyIndex,
        /// Which of its `bind` lines.
        bind: usize,
    },
    /// A `stats socket` line.
    StatsSocket(usize),
    /// The local peer of a `peers` section.
    Peers(usize),
    /// A `bind` line of a `log-forward` section.
    LogForward {
        /// The section.
        section: usize,
        /// Which of its `bind` lines.
        bind: usize,
    },
    /// A `dgram-bind` line of a `log-forward` section.
    LogDatagrams {
        /// The section.
        section: usize,
        /// Which of its `dgram-bind` lines.
        bind: usize,
    },
}

impl Owner {
    fn name(self) -> String {
        match self {
            Self::Proxy { proxy, bind } => format!("proxy {} {bind}", proxy.0),
            Self::StatsSocket(index) => format!("stats {index}"),
            Self::Peers(index) => format!("peers {index}"),
            Self::LogForward { section, bind } => format!("log-forward {section} {bind}"),
            Self::LogDatagrams { section, bind } => format!("log-datagrams {section} {bind}"),
        }
    }

    /// Reads the name that `specs` gave to a listener.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let mut words = name.split(' ');
        match (words.next()?, words.next()?, words.next()) {
            ("proxy", proxy, Some(bind)) => {
                Some(Self::Proxy { proxy: ProxyIndex(proxy.parse().ok()?), bind: bind.parse().ok()? })
            }
            ("stats", index, None) => Some(Self::StatsSocket(index.parse().ok()?)),
            ("log-forward", section, Some(bind)) => {
                Some(Self::LogForward { section: section.parse().ok()?, bind: bind.parse().ok()? })
            }
            ("log-datagrams", section, Some(bind)) => {
                Some(Self::LogDatagrams { section: section.parse().ok()?, bind: bind.parse().ok()? })
            }
            ("peers", index, None) => Some(Self::Peers(index.parse().ok()?)),
            _ => None,
        }
    }
}

/// Everything that a configuration listens on.
pub fn specs(config: &Config) -> Vec<ListenSpec> {
    let mut specs = Vec::new();
    for (proxy, index) in config.proxies.iter().zip(0..) {
        if proxy.disabled {
            continue;
        }
        for (bind, line) in proxy.binds.iter().enumerate() {
            let owner = Owner::Proxy { proxy: ProxyIndex(index), bind };
            let mut spec = spec(owner, line_backlog(proxy, line), line);
            let kind = if proxy.kind.has_backend() { "proxy" } else { "frontend" };
            spec.place = place(line, kind, &proxy.name);
            specs.push(spec);
        }
    }
    for (index, socket) in config.global.stats_sockets.iter().enumerate() {
        let mut spec = spec(Owner::StatsSocket(index), None, &socket.bind);
        spec.place = place(&socket.bind, "frontend", "GLOBAL");
        // Commands are rare: one socket in the hands of whichever worker is free.
        spec.mode = runtime::AcceptMode::Dispatch;
        spec.commands_reach = socket.level as u8 + 1;
        specs.push(spec);
    }
    for (index, peers) in config.peers.iter().enumerate() {
        if let Some(bind) = peers.bind.as_ref().filter(|_| !peers.disabled) {
            let mut spec = spec(Owner::Peers(index), bind.backlog, bind);
            spec.place = place(bind, "peers", &peers.name);
            specs.push(spec);
        }
    }
    for (section, forward) in config.log_forwards.iter().enumerate() {
        for (bind, line) in forward.binds.iter().enumerate() {
            let backlog = line.backlog.or(forward.backlog).or(Some(forward.maxconn));
            let mut spec = spec(Owner::LogForward { section, bind }, backlog, line);
            spec.place = place(line, "log-forward", &forward.name);
            // Connections are few and stay for long: one socket in the hands of whichever worker is free.
            spec.mode = runtime::AcceptMode::Dispatch;
            specs.push(spec);
        }
        for (bind, line) in forward.datagram_binds.iter().enumerate() {
            let mut spec = spec(Owner::LogDatagrams { section, bind }, None, line);
            spec.place = place(line, "log-forward", &forward.name);
            if let Address::Ip(address) = spec.address {
                spec.address = Address::Datagrams(address);
                specs.push(spec);
            }
        }
    }
    specs
}

/// How an error says which line could not be had.
fn place(bind: &Bind, kind: &str, name: &str) -> String {
    format!("Binding [{}:{}] for {kind} {name}: ", bind.location.file, bind.location.line)
}

fn line_backlog(proxy: &Proxy, bind: &Bind) -> Option<u32> {
    bind.backlog.or(proxy.backlog).or(bind.maxconn).or(proxy.maxconn)
}

fn spec(owner: Owner, backlog: Option<u32>, bind: &Bind) -> ListenSpec {
    let address = match &bind.address {
        BindAddress::Inet(address) => Address::Ip(*address),
        BindAddress::Quic(address) => Address::SharedDatagrams(*address),
        BindAddress::Unix(path) => Address::Unix(path.into()),
        BindAddress::Abstract(name) => Address::Abstract(name.clone()),
        BindAddress::Descriptor(number) => Address::Inherited(*number),
    };
    let mut spec = ListenSpec::new(owner.name(), address);
    spec.mode = match bind.accept {
        AcceptMode::Reuseport => runtime::AcceptMode::ReusePort,
        AcceptMode::Shared => runtime::AcceptMode::Shared,
        AcceptMode::Dispatch => runtime::AcceptMode::Dispatch,
    };
    spec.backlog = backlog;
    spec.interface.clone_from(&bind.interface);
    spec.namespace.clone_from(&bind.namespace);
    spec.transparent = bind.transparent;
    spec.v6only = bind.v6only;
    spec.tcp_fast_open = bind.tfo;
    spec.defer_accept = bind.defer_accept;
    spec.maxseg = bind.mss;
    spec.tcp_user_timeout = bind.tcp_user_timeout;
    spec.workers = bind.threads.iter().map(|number| number.saturating_sub(1) as usize).collect();
    spec.unix = UnixPermissions {
        mode: bind.unix.mode,
        uid: identities::user(bind.unix.user.as_ref()),
        gid: identities::group(bind.unix.group.as_ref()),
    };
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for owner in [
            Owner::Proxy { proxy: ProxyIndex(3), bind: 1 },
            Owner::StatsSocket(0),
            Owner::Peers(2),
            Owner::LogForward { section: 1, bind: 2 },
            Owner::LogDatagrams { section: 3, bind: 4 },
        ] {
            assert_eq!(Owner::of(&owner.name()), Some(owner));
        }
        assert_eq!(Owner::of("proxy x"), None);
    }
}
