//! TLS of listening sockets and of servers.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use sample::Expression as Expr;

/// Reads lines that a list of certificates gets at run time, as a `bind` line would.
pub trait ListReader: fmt::Debug + Send + Sync {
    /// The options of a certificate: those of its line, and of the `bind` line for what that does not say.
    ///
    /// # Errors
    /// When they contradict each other.
    fn options(&self, line: Option<&LineOptions>) -> Result<tls::ServerOptions, LineError>;

    /// A line as a command has it; `files` are those that it may name.
    ///
    /// # Errors
    /// What is wrong with it, or that it names no certificate.
    fn line(&self, files: TlsFiles, text: &str) -> Result<CertificateLine, LineError>;

    /// The path of a certificate that a command names: below `crt-base`.
    fn certificate_path(&self, name: &str) -> String;

    /// The same for a line that listens for QUIC.
    fn of_quic(&self) -> Arc<dyn ListReader>;
}

/// What is wrong with a line of a list, in HAProxy's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(pub String);

/// Options of a line of a list.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// As `show ssl crt-list` has them.
    pub shown: String,
    /// As whoever has read them understands them.
    pub read: Arc<dyn Any + Send + Sync>,
}

/// `bind ... ssl`.
#[derive(Clone, Debug)]
pub struct BindTls {
    /// Its certificates; the first is that of clients which ask for no name that is known.
    pub entries: Vec<tls::Entry>,
    /// `strict-sni`.
    pub strict_sni: bool,
    /// Its `crt-list` files, and the folders that a `crt` of it names.
    pub lists: Vec<Arc<CertificateList>>,
    /// What lines that such a list gets at run time are read with.
    pub reader: Arc<dyn ListReader>,
}

/// A `crt-list` file, or a folder of certificates.
#[derive(Clone, Debug)]
pub struct CertificateList {
    /// Its path.
    pub name: Arc<str>,
    /// It is a folder: its lines are certificates of it and nothing else.
    pub is_folder: bool,
    /// How many lines it has, with those that name no certificate; 0 for a folder.
    pub line_count: u32,
    /// What it names, in order.
    pub lines: Vec<CertificateLine>,
}

/// A certificate of a list.
#[derive(Clone, Debug)]
pub struct CertificateLine {
    /// Its line, from 1; 0 in a folder.
    pub number: u32,
    /// What configurations call the certificate.
    pub certificate: Arc<str>,
    /// Options in brackets.
    pub options: Option<Arc<LineOptions>>,
    /// Names that it is for, instead of its own.
    pub filters: Vec<String>,
}

/// Files that lines about TLS name, by path.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// `ca-file`, `ca-verify-file`.
    pub anchors: BTreeMap<Arc<str>, tls::TrustAnchors>,
    /// `crl-file`.
    pub revocation: BTreeMap<Arc<str>, tls::RevocationLists>,
    /// `tls-ticket-keys`, in the order of their first mention.
    pub ticket_keys: Vec<Arc<tls::TicketKeys>>,
}

/// `server ... ssl`, or `check-ssl`.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// What is wanted of the server.
    pub options: Arc<tls::ClientOptions>,
    /// What the certificate is called that the server is shown.
    pub certificate: Option<Arc<str>>,
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
