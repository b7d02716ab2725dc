//! Log formats: strings with variables (`%ci`) and expressions (`%[path]`), used for logs and wherever a rule builds text.

mod parse;
mod render;
mod variable;

use crate::expression::Expression;
use crate::place::Sources;

pub use variable::{LOG_VARIABLES, LogVariable, LogVariableEntry};

/// The format of `option httplog`.
pub const HTTP_LOG_FORMAT: &str =
    "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
/// The format of `option httplog clf`.
pub const CLF_LOG_FORMAT: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";
/// The format of `option httplog common`: NCSA's, which web servers write.
pub const COMMON_LOG_FORMAT: &str = "%ci - %[http_auth_user] [%trl] %{+Q}r %ST %BB";
/// The format of `option httplog combined`: the same, the page that led here, and the client's program.
pub const COMBINED_LOG_FORMAT: &str =
    "%ci - %[http_auth_user] [%trl] %{+Q}r %ST %BB \"%{+E}[req.fhdr(referer)]\" \"%{+E}[req.fhdr(user-agent)]\"";
/// The format of `option httplog json`.
pub const JSON_LOG_FORMAT: &str = "{\"time\":\"%ti\",\"client\":\"%ci\",\"user\":\"%{-M}[http_auth_user,json(utf8s)]\",\"method\":\"%{-M}[capture.req.method,json(utf8s)]\",\"host\":\"%{-M}[req.fhdr(host),json(utf8s)]\",\"uri\":\"%{-M}[capture.req.uri,json(utf8s)]\",\"protocol\":\"%{-M}[capture.req.ver,json(utf8s)]\",\"status\":%ST,\"bytes\":%BB,\"duration_ms\":%Ta,\"referer\":\"%{-M}[req.fhdr(referer),json(utf8s)]\",\"user_agent\":\"%{-M}[req.fhdr(user-agent),json(utf8s)]\",\"frontend\":\"%f\",\"backend\":\"%b\",\"server\":\"%s\",\"termination\":\"%ts\"}";
/// The format of `option tcplog`.
pub const TCP_LOG_FORMAT: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";
/// The format of `option httpslog`.
pub const HTTPS_LOG_FORMAT: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc";

/// Whether a preset tells of the request's head more than is captured.
#[must_use]
pub fn reads_request_head(preset: &str) -> bool {
    [COMMON_LOG_FORMAT, COMBINED_LOG_FORMAT, JSON_LOG_FORMAT].contains(&preset)
}

/// How a format is read and written, which depends on what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormatOptions {
    /// Empty fields are written as `-`.
    pub mandatory: bool,
    /// Several spaces become one, and none follows an empty field.
    pub merge_spaces: bool,
    /// Expressions are encoded so that they can stand in an HTTP message.
    pub http: bool,
}

impl LogFormatOptions {
    /// `log-format`, `error-log-format`.
    pub const LOG: Self = LogFormatOptions { mandatory: true, merge_spaces: true, http: false };
    /// What rules put into messages: header values, targets, redirections, bodies (`lf-string`, `lf-file`).
    pub const RULE: Self = LogFormatOptions { mandatory: false, merge_spaces: false, http: true };
    /// `unique-id-format`.
    pub const UNIQUE_ID: Self = LogFormatOptions { mandatory: false, merge_spaces: true, http: true };
    /// Text as it is: `use_backend`, `use-server`, `set-var-fmt`, health checks.
    pub const PLAIN: Self = LogFormatOptions { mandatory: false, merge_spaces: false, http: false };
}

/// What `%{+Q,-E}` switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) quote: bool,
    pub(crate) hexadecimal: bool,
    pub(crate) escape: bool,
    pub(crate) mandatory: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Text(Box<[u8]>),
    /// A space, unless one was written just before.
    Separator,
    Variable(LogVariable, Flags),
    Expression {
        expression: Expression,
        flags: Flags,
        request: bool,
        response: bool,
    },
}

/// A compiled log format.
#[derive(Clone, Debug)]
pub struct LogFormat {
    text: Box<str>,
    items: Box<[Item]>,
    http: bool,
}

impl LogFormat {
    /// The format as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text that it always gives, if there is nothing variable in it.
    #[must_use]
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.items {
            [] => Some(b""),
            [Item::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variables in it, in order.
    pub fn variables(&self) -> impl Iterator<Item = LogVariable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable, _) => Some(*variable),
            _ => None,
        })
    }

    /// What its expressions read.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.items.iter().fold(Sources::NONE, |sources, item| match item {
            Item::Expression { expression, .. } => sources.union(expression.sources()),
            _ => sources,
        })
    }
}
