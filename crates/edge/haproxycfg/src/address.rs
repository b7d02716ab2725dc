//! Addresses as HAProxy writes them: `[stream+|dgram+][family@]address[:port[-port]]`.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Longest path of a unix socket, with room for the suffix that replaces it during a restart, as in HAProxy.
const UNIX_PATH_LEN_MAX: usize = 107 - 10;

/// Longest name of an abstract socket.
const ABSTRACT_NAME_LEN_MAX: usize = 107;

/// Longest literal of an IPv6 address in brackets.
const BRACKETED_LEN_MAX: usize = 47;

/// What an address may have at the place where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepts {
    /// A port may be there.
    pub port: bool,
    /// A port must be there.
    pub port_mandatory: bool,
    /// A range of ports may be there.
    pub port_range: bool,
    /// An offset, `:+10`, may be there.
    pub port_offset: bool,
    /// Streams.
    pub stream: bool,
    /// Datagrams; the default if streams may be there too.
    pub datagram: bool,
    /// `fd@N`.
    pub descriptor: bool,
    /// Names of hosts.
    pub name: bool,
    /// `quic4@` and `quic6@`.
    pub quic: bool,
}

impl Accepts {
    /// What stands in `bind`.
    pub const BIND: Self = Self {
        port: true,
        port_mandatory: true,
        port_range: true,
        port_offset: false,
        stream: true,
        datagram: false,
        descriptor: true,
        name: false,
        quic: false,
    };
    /// What stands in `server`.
    pub const SERVER: Self = Self {
        port: true,
        port_mandatory: false,
        port_range: false,
        port_offset: true,
        stream: true,
        datagram: false,
        descriptor: false,
        name: true,
        quic: false,
    };
    /// What stands in `source`.
    pub const SOURCE: Self = Self {
        port: true,
        port_mandatory: false,
        port_range: false,
        port_offset: false,
        stream: true,
        datagram: false,
        descriptor: false,
        name: false,
        quic: false,
    };
    /// What stands in `log`.
    pub const LOG: Self = Self {
        port: true,
        port_mandatory: false,
        port_range: false,
        port_offset: false,
        stream: true,
        datagram: true,
        descriptor: true,
        name: true,
        quic: false,
    };
}

/// A family that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ipv4@` and the like.
    V4,
    /// `ipv6@` and the like.
    V6,
}

/// Where an address leads, without the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name that has to be resolved, to an address of this family if one was asked for.
    Name(String, Option<Family>),
    /// Path of a unix socket.
    Unix(String),
    /// Name of an abstract unix socket.
    Abstract(String),
    /// An inherited descriptor.
    Descriptor(i32),
}

/// The port of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// None was given.
    None,
    /// One, or from one to another.
    Range(u16, u16),
    /// Relative to another port.
    Offset(i32),
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Without the port.
    pub host: Host,
    /// The port.
    pub port: Port,
    /// Datagrams rather than a stream.
    pub datagram: bool,
    /// QUIC over these.
    pub quic: bool,
}

impl Address {
    /// The address and port of a socket, port 0 if there was none; `None` if it is not IP.
    #[must_use]
    pub fn socket(&self) -> Option<SocketAddr> {
        let Host::Ip(ip) = self.host else { return None };
        let port = match self.port {
            Port::Range(low, _) => low,
            Port::None | Port::Offset(_) => 0,
        };
        Some(SocketAddr::new(ip, port))
    }
}

/// Reads an address. `$NAME` and `${NAME}` stand for the environment here even outside of quotes.
///
/// # Errors
/// HAProxy's message.
pub fn parse(text: &str, accepts: Accepts, environment: &BTreeMap<String, String>) -> Result<Address, String> {
    let expanded = expand(text, environment);
    if expanded.is_empty() {
        return Err(format!("'{text}' resolves to an empty address (environment variable missing?)"));
    }
    let mut rest = expanded.as_str();
    let mut datagram = accepts.datagram;
    if let Some(after) = rest.strip_prefix("stream+") {
        rest = after;
        datagram = false;
    } else if let Some(after) = rest.strip_prefix("dgram+") {
        rest = after;
        datagram = true;
    }
    let (prefix, after) = match rest.split_once('@') {
        Some((prefix, after)) if PREFIXES.contains(&prefix) => (prefix, after),
        _ => ("", rest),
    };
    match prefix {
        "uxst" | "tcp" | "tcp4" | "tcp6" => datagram = false,
        "uxdg" | "udp" | "udp4" | "udp6" => datagram = true,
        _ => {}
    }
    let (host, port) = match prefix {
        "quic4" | "quic6" if !accepts.quic => {
            return Err(format!(
                "unsupported stream protocol for datagram family address '{text}'; QUIC is not possible here."
            ));
        }
        "sockpair" => {
            return Err(format!("'{text}': pairs of sockets are for HAProxy's own processes and are not supported"));
        }
        "fd" => (Host::Descriptor(descriptor(after, text, accepts)?), Port::None),
        "abns" => (Host::Abstract(path(after, text, ABSTRACT_NAME_LEN_MAX)?), Port::None),
        "unix" | "uxst" | "uxdg" => (Host::Unix(path(after, text, UNIX_PATH_LEN_MAX)?), Port::None),
        "" if after.starts_with('/') => (Host::Unix(path(after, text, UNIX_PATH_LEN_MAX)?), Port::None),
        _ => {
            let family = match prefix {
                "ipv4" | "tcp4" | "udp4" | "quic4" => Some(Family::V4),
                "ipv6" | "tcp6" | "udp6" | "quic6" => Some(Family::V6),
                _ => None,
            };
            internet(after, text, family, accepts)?
        }
    };
    if datagram && !accepts.datagram {
        return Err(format!("dgram-type address not acceptable in '{text}'"));
    }
    if !datagram && !accepts.stream {
        return Err(format!("stream-type address not acceptable in '{text}'"));
    }
    Ok(Address { host, port, datagram, quic: prefix.starts_with("quic") })
}

const PREFIXES: &[&str] = &[
    "unix", "uxdg", "uxst", "abns", "ip", "ipv4", "ipv6", "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "quic4",
    "quic6", "fd", "sockpair",
];

fn descriptor(text: &str, whole: &str, accepts: Accepts) -> Result<i32, String> {
    let number: i32 = text
        .parse()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(|| format!("file descriptor '{text}' is not a valid integer in '{whole}'"))?;
    if !accepts.descriptor {
        return Err(format!("a file descriptor is not acceptable here in '{whole}'"));
    }
    Ok(number)
}

fn path(text: &str, whole: &str, length_max: usize) -> Result<String, String> {
    if text.len() > length_max {
        return Err(format!("socket path '{whole}' too long (max {length_max})"));
    }
    Ok(text.to_owned())
}

fn internet(text: &str, whole: &str, family: Option<Family>, accepts: Accepts) -> Result<(Host, Port), String> {
    // Whatever comes last: a bracket closes an address without a port, a colon precedes a port.
    let separator = text.rfind([']', ':']).filter(|position| text.as_bytes().get(*position) == Some(&b':'));
    let (host, port) = match separator {
        Some(_) if !accepts.port => return Err(format!("port specification not permitted here in '{whole}'")),
        Some(position) => (text.get(..position).unwrap_or_default(), text.get(position + 1..).unwrap_or_default()),
        None if accepts.port_mandatory => return Err(format!("missing port specification in '{whole}'")),
        None => (text, ""),
    };
    let port = port_of(port, whole, accepts)?;
    let host = match literal(host, family) {
        Some(ip) => Host::Ip(ip),
        None if is_host_name(host) && accepts.name => Host::Name(host.to_owned(), family),
        None => return Err(format!("invalid address: '{host}' in '{whole}'")),
    };
    Ok((host, port))
}

fn port_of(text: &str, whole: &str, accepts: Accepts) -> Result<Port, String> {
    let least = u32::from(accepts.port_mandatory);
    let first = text.chars().next();
    match first {
        None if accepts.port_mandatory => Err(format!("missing port specification in '{whole}'")),
        None => Ok(Port::None),
        Some('0'..='9') => {
            let (low, high) = text.split_once('-').map_or((text, None), |(low, high)| (low, Some(high)));
            if high.is_some() && !accepts.port_range {
                return Err(format!("port range not permitted here in '{whole}'"));
            }
            let number = |text: &str| {
                let invalid = || format!("invalid port '{text}'");
                let number: u32 = text.parse().map_err(|_| invalid())?;
                if number < least { Err(invalid()) } else { u16::try_from(number).map_err(|_| invalid()) }
            };
            let low = number(low)?;
            let high = high.map_or(Ok(low), number)?;
            if low > high {
                return Err(format!("invalid port range '{low}-{high}'"));
            }
            Ok(Port::Range(low, high))
        }
        Some('+' | '-') => {
            if !accepts.port_offset {
                return Err(format!("port offset not permitted here in '{whole}'"));
            }
            text.parse()
                .ok()
                .filter(|offset| (-65_535..=65_535).contains(offset))
                .map(Port::Offset)
                .ok_or_else(|| format!("invalid port '{text}'"))
        }
        Some(character) => Err(format!("invalid character '{character}' in port number '{text}' in '{whole}'")),
    }
}

/// The address that a text is, if it is one.
fn literal(text: &str, family: Option<Family>) -> Option<IpAddr> {
    let text = match text.strip_prefix('[') {
        Some(inner) if (4..=BRACKETED_LEN_MAX).contains(&text.len()) => inner.strip_suffix(']')?,
        Some(_) => return None,
        None => text,
    };
    match text {
        "::" => (family != Some(Family::V4)).then_some(Ipv6Addr::UNSPECIFIED.into()),
        "" | "*" if family == Some(Family::V6) => Some(Ipv6Addr::UNSPECIFIED.into()),
        "" | "*" => Some(Ipv4Addr::UNSPECIFIED.into()),
        _ => {
            let v6 = text.parse::<Ipv6Addr>().ok().filter(|_| family != Some(Family::V4));
            let v4 = || text.parse::<Ipv4Addr>().ok().filter(|_| family != Some(Family::V6));
            v6.map(IpAddr::from).or_else(|| v4().map(IpAddr::from))
        }
    }
}

/// Whether a text may be the name of a host: labels of at most 63 letters, digits, `-` and `_`, 255 in all.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

/// Puts the values of the environment's variables in the place of `$NAME` and `${NAME}`.
pub(crate) fn expand(text: &str, environment: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let name_start = usize::from(after.starts_with('{'));
        let named = after.get(name_start..).unwrap_or_default();
        let length = named.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (name, after) = named.split_at_checked(length).unwrap_or((named, ""));
        if let Some(value) = environment.get(name) {
            expanded.push_str(value);
        }
        rest = if name_start == 1 { after.strip_prefix('}').unwrap_or(after) } else { after };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Host {
        Host::Ip(text.parse().unwrap())
    }

    #[test]
    fn addresses() {
        let environment = BTreeMap::from([("ADDR".to_owned(), "10.0.0.9".to_owned())]);
        for (text, accepts, host, port) in [
            (":80", Accepts::BIND, ip("0.0.0.0"), Port::Range(80, 80)),
            ("*:80", Accepts::BIND, ip("0.0.0.0"), Port::Range(80, 80)),
            (":::80", Accepts::BIND, ip("::"), Port::Range(80, 80)),
            ("[::1]:80-90", Accepts::BIND, ip("::1"), Port::Range(80, 90)),
            ("ipv6@:80", Accepts::BIND, ip("::"), Port::Range(80, 80)),
            ("ipv4@*:1", Accepts::BIND, ip("0.0.0.0"), Port::Range(1, 1)),
            ("2001:db8::1:443", Accepts::BIND, ip("2001:db8::1"), Port::Range(443, 443)),
            ("tcp@127.0.0.1:80", Accepts::BIND, ip("127.0.0.1"), Port::Range(80, 80)),
            ("stream+127.0.0.1:80", Accepts::BIND, ip("127.0.0.1"), Port::Range(80, 80)),
            ("/run/x.sock", Accepts::BIND, Host::Unix("/run/x.sock".into()), Port::None),
            ("unix@x.sock", Accepts::BIND, Host::Unix("x.sock".into()), Port::None),
            ("abns@name", Accepts::BIND, Host::Abstract("name".into()), Port::None),
            ("fd@3", Accepts::BIND, Host::Descriptor(3), Port::None),
            ("10.0.0.1", Accepts::SERVER, ip("10.0.0.1"), Port::None),
            ("10.0.0.1:+1000", Accepts::SERVER, ip("10.0.0.1"), Port::Offset(1000)),
            ("10.0.0.1:-1", Accepts::SERVER, ip("10.0.0.1"), Port::Offset(-1)),
            ("10.0.0.1:0", Accepts::SERVER, ip("10.0.0.1"), Port::Range(0, 0)),
            ("[::1]", Accepts::SERVER, ip("::1"), Port::None),
            ("${ADDR}:8080", Accepts::SERVER, ip("10.0.0.9"), Port::Range(8080, 8080)),
            ("$ADDR", Accepts::SERVER, ip("10.0.0.9"), Port::None),
            (
                "web-1.example.com:80",
                Accepts::SERVER,
                Host::Name("web-1.example.com".into(), None),
                Port::Range(80, 80),
            ),
            ("ipv4@web:80", Accepts::SERVER, Host::Name("web".into(), Some(Family::V4)), Port::Range(80, 80)),
        ] {
            let expected = Address { host, port, datagram: false, quic: false };
            assert_eq!(parse(text, accepts, &environment), Ok(expected), "{text}");
        }
        let log = parse("127.0.0.1:514", Accepts::LOG, &environment).unwrap();
        assert!(log.datagram);
        assert!(!parse("tcp@127.0.0.1:514", Accepts::LOG, &environment).unwrap().datagram);
    }

    #[test]
    fn refused_addresses() {
        let environment = BTreeMap::new();
        for (text, accepts, message) in [
            ("10.0.0.1", Accepts::BIND, "missing port specification in '10.0.0.1'"),
            ("10.0.0.1:", Accepts::BIND, "missing port specification in '10.0.0.1:'"),
            (":0", Accepts::BIND, "invalid port '0'"),
            (":65536", Accepts::BIND, "invalid port '65536'"),
            (":90-80", Accepts::BIND, "invalid port range '90-80'"),
            (":8a", Accepts::BIND, "invalid port '8a'"),
            (":x", Accepts::BIND, "invalid character 'x' in port number 'x' in ':x'"),
            (":+1", Accepts::BIND, "port offset not permitted here in ':+1'"),
            ("nowhere.example:80", Accepts::BIND, "invalid address: 'nowhere.example' in 'nowhere.example:80'"),
            ("ipv4@::1:80", Accepts::BIND, "invalid address: '::1' in 'ipv4@::1:80'"),
            ("fd@x", Accepts::BIND, "file descriptor 'x' is not a valid integer in 'fd@x'"),
            ("fd@3", Accepts::SERVER, "a file descriptor is not acceptable here in 'fd@3'"),
            ("udp@1.2.3.4:5", Accepts::SERVER, "dgram-type address not acceptable in 'udp@1.2.3.4:5'"),
            ("1.2.3.4:80-90", Accepts::SERVER, "port range not permitted here in '1.2.3.4:80-90'"),
            ("a/b:80", Accepts::SERVER, "invalid address: 'a/b' in 'a/b:80'"),
            ("$NONE", Accepts::SERVER, "'$NONE' resolves to an empty address (environment variable missing?)"),
        ] {
            assert_eq!(parse(text, accepts, &environment), Err(message.to_owned()), "{text}");
        }
        assert!(parse(&format!("/{}", "x".repeat(200)), Accepts::BIND, &environment).is_err());
    }
}
