//! Actions of the HTTP rule sets.

use std::{borrow::Cow, sync::Arc, time::Duration};

use sample::{Expression as Expr, LogFormat};

use super::{Redirect, Reply, StreamAction};

/// Actions of `http-request`, `http-response` and `http-after-response`. The parser refuses those that do not belong.
#[derive(Clone, Debug)]
pub enum HttpAction {
    /// `allow`.
    Allow,
    /// `deny`.
    Deny(Reply),
    /// `tarpit`.
    Tarpit(Reply),
    /// `reject`.
    Reject,
    /// `silent-drop`.
    SilentDrop,
    /// `return`.
    Return(Reply),
    /// `redirect`.
    Redirect(Redirect),
    /// `auth`.
    Auth {
        /// `realm`.
        realm: Option<Vec<u8>>,
    },
    /// `add-header`.
    AddHeader(String, LogFormat),
    /// `set-header`.
    SetHeader(String, LogFormat),
    /// `del-header`.
    DelHeader(HeaderMatch),
    /// `replace-header`.
    ReplaceHeader {
        /// The field.
        name: String,
        /// What to match in the whole value.
        regex: sample::Regex,
        /// Text with `\1` references, as a log-format string.
        format: LogFormat,
    },
    /// `replace-value`.
    ReplaceValue {
        /// The field.
        name: String,
        /// What to match in each comma-separated value.
        regex: sample::Regex,
        /// Text.
        format: LogFormat,
    },
    /// `replace-path`.
    ReplacePath(sample::Regex, LogFormat),
    /// `replace-pathq`.
    ReplacePathq(sample::Regex, LogFormat),
    /// `replace-uri`.
    ReplaceUri(sample::Regex, LogFormat),
    /// `set-method`.
    SetMethod(LogFormat),
    /// `set-path`.
    SetPath(LogFormat),
    /// `set-pathq`.
    SetPathq(LogFormat),
    /// `set-query`.
    SetQuery(LogFormat),
    /// `set-uri`.
    SetUri(LogFormat),
    /// `set-status`.
    SetStatus {
        /// Status.
        status: u16,
        /// `reason`.
        reason: Option<String>,
    },
    /// `set-timeout server|tunnel`.
    SetTimeout(TimeoutKind, TimeoutValue),
    /// `strict-mode`.
    StrictMode(bool),
    /// `disable-l7-retry`.
    DisableL7Retry,
    /// `early-hint`.
    EarlyHint(String, LogFormat),
    /// `wait-for-body`.
    WaitForBody {
        /// `time`.
        time: Duration,
        /// `at-least`: bytes; 0 is the whole body or a full buffer.
        at_least: usize,
    },
    /// `normalize-uri`.
    NormalizeUri(NormalizeUri),
    /// `use-service`.
    UseService(Service),
    /// `cache-use`: the section.
    CacheUse(Arc<str>),
    /// `cache-store`: the section.
    CacheStore(Arc<str>),
    /// `set-map`, `del-map`, `add-acl`, `del-acl`.
    ChangePatterns(PatternChange),
    /// What rules of both modes have.
    Stream(StreamAction),
}

/// A change of a list of patterns.
#[derive(Clone, Debug)]
pub struct PatternChange {
    /// The file that names the list.
    pub path: String,
    /// The key.
    pub key: LogFormat,
    /// What is done with it.
    pub kind: PatternChangeKind,
}

/// What is done with a key of a list of patterns.
#[derive(Clone, Debug)]
pub enum PatternChangeKind {
    /// `set-map`: it gets this value.
    Set(LogFormat),
    /// `add-acl`: it is added if it is not there.
    Add,
    /// `del-map`, `del-acl`: it is deleted.
    Delete,
}

/// `normalize-uri`'s normalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalizeUri {
    /// `fragment-encode`.
    FragmentEncode,
    /// `fragment-strip`.
    FragmentStrip,
    /// `path-merge-slashes`.
    PathMergeSlashes,
    /// `path-strip-dot`.
    PathStripDot,
    /// `path-strip-dotdot`; `full`.
    PathStripDotdot {
        /// `full`.
        full: bool,
    },
    /// `percent-decode-unreserved`; `strict`.
    PercentDecodeUnreserved {
        /// `strict`.
        strict: bool,
    },
    /// `percent-to-uppercase`; `strict`.
    PercentToUppercase {
        /// `strict`.
        strict: bool,
    },
    /// `query-sort-by-name`.
    QuerySortByName,
}

/// What `set-timeout` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// `server`.
    Server,
    /// `tunnel`.
    Tunnel,
}

/// To what `set-timeout` changes it.
#[derive(Clone, Debug)]
pub enum TimeoutValue {
    /// Known at parse.
    Fixed(Duration),
    /// Milliseconds from an expression.
    Expr(Expr),
}

/// `del-header`'s matching.
#[derive(Clone, Debug)]
pub enum HeaderMatch {
    /// The name.
    Name(String),
    /// `-m beg`.
    Prefix(String),
    /// `-m end`.
    Suffix(String),
    /// `-m sub`.
    Contains(String),
    /// `-m reg`.
    Regex(sample::Regex),
}

/// What the process answers in a server's place (`use-service`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// `prometheus-exporter`: its numbers.
    PrometheusExporter,
    /// `plugin.NAME`: a plugin of the program.
    Plugin(Arc<PluginCall>),
}

/// A plugin that answers, and the words behind its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCall {
    /// Its name.
    pub name: Box<str>,
    /// These words.
    pub arguments: Vec<String>,
}

impl Service {
    /// How it is written.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::PrometheusExporter => "prometheus-exporter".into(),
            Self::Plugin(call) => format!("plugin.{}", call.name).into(),
        }
    }
}
