//! What a checked configuration says: the typed result that the edge runs.
//!
//! Nothing here is raw text any more. Names have become indexes, defaults have been applied, expressions are
//! compiled. A `listen` section is one [`Proxy`] with both sides, as in HAProxy. What only steers the parser, and what the
//! parser refuses, is not here.

mod accelerator;
mod acme;
mod balance;
mod bind;
mod cache_section;
mod capture;
mod cgi;
mod check;
mod cookie;
mod fcgi_app;
mod files;
mod filter;
mod global;
mod http_action;
mod logs;
mod mail;
mod options;
mod peers;
mod program;
mod proxy;
mod redirect;
mod reply;
mod resolvers;
mod ring;
mod rule;
mod send_file;
mod server;
mod shared_cache;
mod source;
mod stats;
mod stick;
mod stream_action;
mod switching;
mod tcp_action;
mod timeouts;
mod tls;
mod tune;
mod users;
mod variable;

use std::{collections::BTreeMap, sync::Arc};

pub use self::{
    balance::{Algorithm, Balance},
    bind::{AcceptMode, Bind, BindAddress, BindProtocol, UnixOptions},
    capture::{Capture, CaptureCookie},
    cgi::Cgi,
    check::{
        CheckAction, CheckConfig, CheckConnect, CheckExpect, CheckExpectation, CheckMessage, CheckPort, CheckProtocol,
        CheckSend, CheckStep, ExternalCheck, StringMatch,
    },
    cookie::{Cookie, CookieMode},
    fcgi_app::{FcgiApp, FcgiParam, PassedHeader},
    files::{Charset, FileService, Folder, Names, OpenFileCache, Symlinks},
    filter::{Amount, Bandwidth, BandwidthLimit, Compression, Filter, Sharing, Trace},
    global::{Global, Identity},
    http_action::{
        HeaderMatch, HttpAction, NormalizeUri, PatternChange, PatternChangeKind, PluginCall, Service, TimeoutKind,
        TimeoutValue,
    },
    logs::{LogDestination, LogLineFormat, LogTarget},
    mail::{MailAlert, MailAlertLevel, Mailer, MailerAddress},
    options::{ForwardFor, Options, RestrictNames},
    peers::{Peer, Peers},
    program::Program,
    proxy::{ConnectionMode, HttpReuse, LoadServerState, Mode, Proxy, ProxyKind, TcpKeepalive},
    redirect::{Redirect, RedirectKind},
    reply::{ErrorReply, Reply, ReplyBody},
    resolvers::{NameServer, Resolve, ResolveOptions, Resolvers, ResolversIndex},
    ring::{LogForward, Ring},
    rule::{AddressPart, Rule},
    send_file::{NamedBy, SendFile},
    server::{
        InitAddr, Namespace, ProxyOptions, SendProxy, Server, ServerAddress, ServerPort, ServerProtocol,
        WebSocketProtocol,
    },
    source::{SourceAddress, UseSource},
    stats::{CliLevel, SeverityOutput, Stats, StatsSocket},
    stick::{STICK_COUNTERS, StickAction, StickRule, StickTable, TableIndex, TagValue, Track},
    stream_action::StreamAction,
    switching::{BackendTarget, PersistRule, ServerTarget, UseBackend, UseServer},
    tcp_action::TcpAction,
    timeouts::Timeouts,
    tls::{
        BindTls, CertificateLine, CertificateList, LineError, LineOptions, ListReader, ServerTls, TlsFiles, TlsTune,
    },
    tune::Tune,
    users::{Password, User, Userlist},
    variable::{SetVariable, VariableValue},
};
pub use accelerator::{Accelerator, StorageKind, StorageSpec};
pub use acme::{Acme, AcmeCertificate, ChallengeKind, ExternalAccount, MacAlgorithm};
pub use cache_section::CacheSection;
pub use shared_cache::{DiskTier, SharedCache};

/// A place in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File as given on the command line.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

/// Index of a proxy in [`Config::proxies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyIndex(pub u32);

/// Index of a server in [`Proxy::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(pub u32);

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The `global` sections.
    pub global: Global,
    /// Every frontend, backend and listen section in order of appearance.
    pub proxies: Vec<Arc<Proxy>>,
    /// `resolvers` sections in order; `default` is always there.
    pub resolvers: Vec<Resolvers>,
    /// `userlist` sections by name.
    pub userlists: BTreeMap<String, Userlist>,
    /// `stick-table` lines in order of appearance.
    pub stick_tables: Vec<StickTable>,
    /// `ring` sections, and rings that `log` lines with a stream address imply.
    pub rings: Vec<Ring>,
    /// `log-forward` sections.
    pub log_forwards: Vec<LogForward>,
    /// `peers` sections in order of appearance.
    pub peers: Vec<Peers>,
    /// `program` sections in order of appearance.
    pub programs: Vec<Program>,
    /// `cache` sections in order of appearance.
    pub caches: Vec<CacheSection>,
    /// `acme` sections in order of appearance.
    pub acme: Vec<Arc<Acme>>,
    /// Certificates that come by themselves.
    pub acme_certificates: Vec<AcmeCertificate>,
    /// Whether any expression asks about the body of requests, as far as it is there.
    pub asks_request_body: bool,
    /// The same for responses.
    pub asks_response_body: bool,
    /// Whether any section answers with files or by programs that are started: paths have one spelling there.
    pub has_origins: bool,
    /// Lists of patterns: of files and of ACLs. They may change at run time.
    pub patterns: sample::PatternReferences,
    /// Files that lines about TLS name. They may be replaced at run time.
    pub tls_files: TlsFiles,
}
