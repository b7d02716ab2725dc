//! TLS of listening sockets and of servers.

use std::sync::Arc;

use sample::Expression as Expr;

/// `bind ... ssl`.
#[derive(Clone, Debug)]
pub struct BindTls {
    /// Its certificates; the first is that of clients which ask for no name that is known.
    pub entries: Vec<tls::Entry>,
    /// `strict-sni`.
    pub strict_sni: bool,
}

/// `server ... ssl`, or `check-ssl`.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// What is wanted of the server.
    pub options: Arc<tls::ClientOptions>,
    /// `sni`.
    pub sni: Option<Arc<Expr>>,
    /// `ssl`: of requests.
    pub of_requests: bool,
    /// `check-ssl`, or `ssl` where checks go where requests go.
    pub of_checks: bool,
    /// `check-sni`.
    pub check_sni: Option<String>,
    /// `check-alpn`.
    pub check_protocols: Option<Vec<Vec<u8>>>,
    /// Tells connections under these conditions from others.
    pub fingerprint: [u8; 32],
}

/// `tune.ssl.*` and what else holds for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsTune {
    /// `tune.ssl.cachesize`: sessions that are kept.
    pub cached_sessions_max: usize,
    /// `tune.ssl.lifetime`: how long sessions can be resumed.
    pub lifetime: std::time::Duration,
    /// `tune.ssl.capture-buffer-size` and `tune.ssl.keylog`.
    pub keeps: tls::Keeps,
}

impl Default for TlsTune {
    fn default() -> Self {
        Self {
            cached_sessions_max: 20_000,
            lifetime: std::time::Duration::from_secs(300),
            keeps: tls::Keeps::default(),
        }
    }
}
