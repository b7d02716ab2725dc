//! What health checks send and expect.

use std::net::IpAddr;

use sample::{Expression as Expr, LogFormat};

use super::SetVariable;

/// What the checks of a backend's servers do.
#[derive(Clone, Debug, Default)]
pub struct CheckConfig {
    /// Steps after the connection; empty is a plain TCP check.
    pub steps: Vec<CheckStep>,
    /// `option httpchk` is on.
    pub http: bool,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
}

/// A step of a check.
#[derive(Clone, Debug)]
pub enum CheckStep {
    /// `http-check connect`, `tcp-check connect`.
    Connect {
        /// `port`.
        port: Option<u16>,
        /// `addr`.
        address: Option<IpAddr>,
        /// `send-proxy`.
        send_proxy: bool,
        /// `linger`.
        linger: bool,
        /// `default`: with `send-proxy` of the server line.
        default: bool,
    },
    /// `http-check send`, and the request line of `option httpchk`.
    SendHttp {
        /// `meth`.
        method: String,
        /// `uri` or `uri-lf`.
        uri: LogFormat,
        /// `ver`.
        version: String,
        /// `hdr`.
        headers: Vec<(String, LogFormat)>,
        /// `body` or `body-lf`.
        body: Option<LogFormat>,
    },
    /// `http-check expect`.
    ExpectHttp(CheckExpect),
    /// `comment` of the step before.
    Comment(String),
    /// `set-var`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
}

/// `http-check expect`.
#[derive(Clone, Debug)]
pub struct CheckExpect {
    /// `!`.
    pub negate: bool,
    /// What.
    pub what: CheckExpectation,
    /// `min-recv`: bytes.
    pub min_recv: Option<usize>,
    /// `ok-status`, `error-status`, `tout-status` by HAProxy's codes.
    pub ok_status: Option<String>,
    /// See above.
    pub error_status: Option<String>,
    /// See above.
    pub timeout_status: Option<String>,
    /// `on-success`, `on-error`: log-format strings of the description.
    pub on_success: Option<LogFormat>,
    /// See above.
    pub on_error: Option<LogFormat>,
    /// `status-code`.
    pub status_code: Option<Expr>,
}

/// What a check expects.
#[derive(Clone, Debug)]
pub enum CheckExpectation {
    /// `status`: ranges.
    Status(Vec<(u16, u16)>),
    /// `rstatus`.
    StatusRegex(sample::Regex),
    /// `string`.
    Body(Vec<u8>),
    /// `rstring`.
    BodyRegex(sample::Regex),
    /// `string-lf`.
    BodyFormat(LogFormat),
    /// `hdr`, `fhdr`: name and value matches.
    Header {
        /// `fhdr`: the whole value, commas included.
        full: bool,
        /// Name.
        name: StringMatch,
        /// Value.
        value: Option<StringMatch>,
    },
}

/// A text match of a check.
#[derive(Clone, Debug)]
pub enum StringMatch {
    /// `-m str`.
    Exact(LogFormat),
    /// `-m beg`.
    Prefix(LogFormat),
    /// `-m end`.
    Suffix(LogFormat),
    /// `-m sub`.
    Contains(LogFormat),
    /// `-m reg`.
    Regex(sample::Regex),
}
