//! What health checks send and expect.

use sample::{Expression as Expr, LogFormat};

use super::{ServerAddress, ServerProtocol, SetVariable};

/// What the checks of a backend's servers do.
#[derive(Clone, Debug, Default)]
pub struct CheckConfig {
    /// What is spoken.
    pub protocol: CheckProtocol,
    /// The steps, the connection included; empty is a connection and nothing else.
    pub steps: Vec<CheckStep>,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
    /// The program, if one checks.
    pub external: Option<ExternalCheck>,
}

/// What a check speaks. What differs is the wording of reports: each is a sequence of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckProtocol {
    /// Nothing: a connection will do.
    #[default]
    Connection,
    /// `option tcp-check`.
    Tcp,
    /// `option httpchk`.
    Http,
    /// `option redis-check`.
    Redis,
    /// `option mysql-check`.
    Mysql,
    /// `option pgsql-check`.
    Pgsql,
    /// `option smtpchk`.
    Smtp,
    /// `option ldap-check`.
    Ldap,
    /// `option spop-check`.
    Spop,
    /// `option ssl-hello-chk`.
    Ssl,
    /// `option external-check`: a program does.
    External,
    /// `agent-check` of a server line.
    Agent,
}

/// `external-check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalCheck {
    /// `command`.
    pub command: String,
    /// `path`.
    pub path: Option<String>,
}

/// A step of a check.
#[derive(Clone, Debug)]
pub struct CheckStep {
    /// What it does.
    pub action: CheckAction,
    /// `comment`.
    pub comment: Option<String>,
    /// Its number in messages, from 1; 0 is the connection that no line asks for.
    pub number: u32,
}

/// What a step of a check does.
#[derive(Clone, Debug)]
pub enum CheckAction {
    /// `http-check connect`, `tcp-check connect`.
    Connect(CheckConnect),
    /// `tcp-check send` and its like.
    Send(CheckSend),
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
    /// `http-check expect`, `tcp-check expect`.
    Expect(Box<CheckExpect>),
    /// `set-var`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
}

impl CheckAction {
    /// Whether it talks to the server.
    #[must_use]
    pub fn is_exchange(&self) -> bool {
        !matches!(self, Self::SetVar(_) | Self::UnsetVar(_))
    }
}

/// The connection of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckConnect {
    /// `port`.
    pub port: Option<CheckPort>,
    /// `addr`.
    pub address: Option<ServerAddress>,
    /// `send-proxy`.
    pub send_proxy: bool,
    /// `linger`.
    pub linger: bool,
    /// `via-socks4`.
    pub via_socks4: bool,
    /// `default`: as the server's own connections.
    pub default: bool,
    /// No line asks for it.
    pub implicit: bool,
    /// `proto`.
    pub protocol: Option<ServerProtocol>,
}

/// The port that a check connects to.
#[derive(Clone, Debug)]
pub enum CheckPort {
    /// A number.
    Fixed(u16),
    /// What an expression says at the time.
    Expression(Expr),
}

/// What a check sends.
#[derive(Clone, Debug)]
pub enum CheckSend {
    /// `send`, `send-binary`.
    Bytes(Vec<u8>),
    /// `send-lf`.
    Format(LogFormat),
    /// `send-binary-lf`: hexadecimal digits once it is written out.
    HexFormat(LogFormat),
}

/// `http-check expect`, `tcp-check expect`.
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

impl CheckExpect {
    /// An expectation without options.
    #[must_use]
    pub fn plain(what: CheckExpectation) -> Self {
        Self {
            negate: false,
            what,
            min_recv: None,
            ok_status: None,
            error_status: None,
            timeout_status: None,
            on_success: None,
            on_error: None,
            status_code: None,
        }
    }
}

/// What a check expects.
#[derive(Clone, Debug)]
pub enum CheckExpectation {
    /// `status`: ranges.
    Status(Vec<(u16, u16)>),
    /// `rstatus`.
    StatusRegex(sample::Regex),
    /// `string` of an HTTP body.
    Body(Vec<u8>),
    /// `rstring` of an HTTP body.
    BodyRegex(sample::Regex),
    /// `string-lf` of an HTTP body.
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
    /// `string`.
    Text(Vec<u8>),
    /// `binary`.
    Binary(Vec<u8>),
    /// `rstring`.
    TextRegex(sample::Regex),
    /// `rbinary`: of what came, as hexadecimal digits.
    BinaryRegex(sample::Regex),
    /// `string-lf`.
    TextFormat(LogFormat),
    /// `binary-lf`.
    BinaryFormat(LogFormat),
    /// What no words of the language can say.
    Message(CheckMessage),
}

/// A message of a protocol that a check understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMessage {
    /// The greeting of MySQL.
    MysqlGreeting,
    /// MySQL's answer to a login, behind the greeting.
    MysqlLogin,
    /// LDAP's answer to a bind.
    LdapBind,
    /// The greeting of a SPOP agent.
    SpopHello,
    /// The line of an agent.
    AgentLine,
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
