//! `server` lines.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use balance::{Observe, OnError};

use super::{Location, ProxyIndex, ResolveOptions, ResolversIndex, ServerIndex, ServerTls, SourceAddress};

/// A `server` line, `default-server` applied.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent keyword of the server line")]
pub struct Server {
    /// Where it is in the configuration.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// `id`, or the next free number in the backend.
    pub id: u32,
    /// Host name, when the address was given as one.
    pub fqdn: Option<String>,
    /// Name of the SRV records that it is made of, when the address was given as one.
    pub service: Option<String>,
    /// Host and port that a server of a service stood for before: what runs the configuration fills it in.
    pub service_host: Option<(String, u16)>,
    /// `resolvers`: who looks the name up at run time.
    pub resolvers: Option<ResolversIndex>,
    /// `resolve-net`, `resolve-opts`.
    pub resolve: ResolveOptions,
    /// Address; `None` until a host name resolves (`init-addr none`).
    pub address: ServerAddress,
    /// How the port of the connection follows from the configuration.
    pub port: ServerPort,
    /// `weight`.
    pub weight: u32,
    /// `backup`.
    pub backup: bool,
    /// `disabled`.
    pub disabled: bool,
    /// `maxconn`; 0 is no limit.
    pub maxconn: u32,
    /// `minconn`; 0 is none.
    pub minconn: u32,
    /// `maxqueue`; 0 is no limit.
    pub maxqueue: u32,
    /// `slowstart`.
    pub slowstart: Duration,
    /// `cookie`: its value.
    pub cookie: Option<Vec<u8>>,
    /// `redir`.
    pub redir: Option<Vec<u8>>,
    /// `check`.
    pub check: bool,
    /// `inter`, `fastinter`, `downinter`.
    pub inter: Duration,
    /// See `inter`.
    pub fastinter: Option<Duration>,
    /// See `inter`.
    pub downinter: Option<Duration>,
    /// `rise`.
    pub rise: u32,
    /// `fall`.
    pub fall: u32,
    /// `window`: how many of the last checks are looked at, instead of `rise` and `fall`.
    pub window: Option<u8>,
    /// `threshold`: how many of them must be good.
    pub threshold: Option<u8>,
    /// `initial`: how many are taken for good at the start.
    pub initial: Option<u8>,
    /// `port`: of checks.
    pub check_port: Option<u16>,
    /// `addr`: of checks.
    pub check_address: Option<ServerAddress>,
    /// `check-send-proxy`.
    pub check_send_proxy: bool,
    /// `agent-check`.
    pub agent_check: bool,
    /// `agent-inter`.
    pub agent_inter: Duration,
    /// `agent-port`.
    pub agent_port: Option<u16>,
    /// `agent-addr`.
    pub agent_address: Option<IpAddr>,
    /// `agent-send`.
    pub agent_send: Vec<u8>,
    /// `observe`.
    pub observe: Observe,
    /// `on-error`.
    pub on_error: OnError,
    /// `error-limit`.
    pub error_limit: u32,
    /// `on-marked-down shutdown-sessions`.
    pub on_marked_down_shutdown_sessions: bool,
    /// `on-marked-up shutdown-backup-sessions`.
    pub on_marked_up_shutdown_backup_sessions: bool,
    /// `send-proxy`, `send-proxy-v2`.
    pub send_proxy: Option<SendProxy>,
    /// `proxy-v2-options`.
    pub proxy_options: ProxyOptions,
    /// `socks4`: the SOCKS4 proxy on the way.
    pub socks4: Option<SocketAddr>,
    /// `check-via-socks4`.
    pub check_via_socks4: bool,
    /// `namespace`.
    pub namespace: Option<Namespace>,
    /// `source`.
    pub source: Option<SourceAddress>,
    /// `pool-max-conn`; -1 is no limit, 0 keeps none.
    pub pool_max_conn: i32,
    /// `pool-purge-delay`.
    pub pool_purge_delay: Duration,
    /// `pool-low-conn`.
    pub pool_low_conn: u32,
    /// `max-reuse`; -1 is no limit.
    pub max_reuse: i32,
    /// `init-addr` order.
    pub init_addr: Vec<InitAddr>,
    /// `resolve-prefer`.
    pub prefer_ipv4: bool,
    /// `tcp-ut`.
    pub tcp_user_timeout: Option<Duration>,
    /// `tfo`.
    pub tfo: bool,
    /// `non-stick`: nobody is remembered to belong to it.
    pub non_stick: bool,
    /// `track`: backend and server.
    pub track: Option<(ProxyIndex, ServerIndex)>,
    /// Something else in the configuration names it, so it cannot be taken away at run time.
    pub is_referenced: bool,
    /// `id` was given.
    pub is_id_forced: bool,
    /// `log-proto octet-count`: for servers of rings.
    pub octet_count: bool,
    /// Tidegate's: `accept-legacy-http-response`, heads that break the rules without a doubt about their end pass.
    pub accept_legacy_http_response: bool,
    /// `ssl`, `check-ssl`.
    pub tls: Option<Arc<ServerTls>>,
    /// `proto`: what is spoken to it, whatever TLS has agreed on.
    pub protocol: Option<ServerProtocol>,
    /// `check-proto`.
    pub check_protocol: Option<ServerProtocol>,
    /// `ws`: how WebSockets get there.
    pub websocket: WebSocketProtocol,
}

/// What is spoken to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProtocol {
    /// `none`: bytes.
    None,
    /// `h1`.
    Http1,
    /// `h2`.
    Http2,
    /// `fcgi`.
    Fcgi,
    /// `scgi`.
    Scgi,
    /// `uwsgi`.
    Uwsgi,
}

impl ServerProtocol {
    /// Whether programs speak it, which are told of variables.
    #[must_use]
    pub fn is_of_programs(self) -> bool {
        matches!(self, Self::Fcgi | Self::Scgi | Self::Uwsgi)
    }

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Http1 => "h1",
            Self::Http2 => "h2",
            Self::Fcgi => "fcgi",
            Self::Scgi => "scgi",
            Self::Uwsgi => "uwsgi",
        }
    }
}

/// How WebSockets get to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebSocketProtocol {
    /// As everything else does, if it can be so.
    #[default]
    Auto,
    /// By an Upgrade of HTTP/1.1.
    Http1,
    /// By CONNECT of HTTP/2 (RFC 8441).
    Http2,
}

impl Server {
    /// Whether a connection to it may carry several requests at a time.
    #[must_use]
    pub fn may_speak_http2(&self) -> bool {
        match self.protocol {
            Some(protocol) => protocol == ServerProtocol::Http2,
            None => {
                let offers =
                    |tls: &ServerTls| tls.of_requests && tls.options.protocols.iter().any(|name| name == b"h2");
                self.tls.as_deref().is_some_and(offers)
            }
        }
    }

    /// Whether WebSockets go there by HTTP/1, though other requests may not: HTTP/2 needs a server that knows RFC 8441.
    #[must_use]
    pub fn has_websockets_by_http1(&self) -> bool {
        let offers_http1 =
            |tls: &ServerTls| tls.of_requests && tls.options.protocols.iter().any(|name| name == b"http/1.1");
        match self.websocket {
            WebSocketProtocol::Http1 => true,
            WebSocketProtocol::Http2 => false,
            WebSocketProtocol::Auto => self.protocol.is_none() && self.tls.as_deref().is_some_and(offers_http1),
        }
    }
}

/// Address of a server, without the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// Not resolved yet.
    Unresolved,
    /// IP.
    Ip(IpAddr),
    /// Path of a unix socket.
    Unix(String),
    /// Abstract unix socket.
    Abstract(String),
}

/// Port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPort {
    /// `:80`.
    Fixed(u16),
    /// None given: the port that the client connected to.
    Same,
    /// `:+10` or `:-10`: relative to the client's.
    Offset(i32),
}

/// `init-addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitAddr {
    /// `last`.
    Last,
    /// `libc`.
    Libc,
    /// `none`.
    None,
    /// An address.
    Ip(IpAddr),
}

/// `send-proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProxy {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// `proxy-v2-options`: fields of the PROXY header version 2 beside addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyOptions {
    /// `authority`: the host name that the client asked for.
    pub authority: bool,
    /// `crc32c`: a checksum.
    pub crc32c: bool,
    /// `unique-id`: the id of the request, by `unique-id-format`.
    pub unique_id: bool,
    /// `ssl`: what is known of the client's TLS; the others belong to it.
    pub tls: bool,
    /// `cert-cn`: the common name of the client's certificate.
    pub certificate_name: bool,
    /// `cert-key`: the kind and the bits of the key that the client was shown.
    pub certificate_key: bool,
    /// `cert-sig`: how the certificate is signed that the client was shown.
    pub certificate_signature: bool,
    /// `ssl-cipher`.
    pub cipher: bool,
}

/// `namespace` of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// That of the machine.
    Named(Arc<str>),
    /// `*`: the one that the client's PROXY header names.
    FromProxyHeader,
}
