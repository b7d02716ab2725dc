//! What expressions and log-format strings in a check can ask for.

use std::{cell::RefCell, sync::atomic::Ordering::Relaxed, time::Duration};

use haproxycfg::model::Mode;
use live::{LiveProxy, LiveServer};
use sample::{
    Address, Backend, Body, Buffer, Bytes, Connection, Context, Direction, Options, Process, Response, Scope, Server,
    Value, VariableName,
};

use super::{connection, response::Received};

/// Variables that one check may have; more are not set.
const VARIABLES_MAX: usize = 100;

/// The check as an expression sees it.
pub(super) struct CheckContext<'a> {
    pub(super) proxy: &'a LiveProxy,
    pub(super) server: Option<&'a LiveServer>,
    pub(super) connection: Option<&'a connection::Connection>,
    pub(super) received: Option<&'a Received>,
    /// What came, if it is not HTTP.
    pub(super) input: &'a [u8],
    pub(super) is_http: bool,
    pub(super) variables: &'a RefCell<Vec<(VariableName, Value<'static>)>>,
}

/// How a check's expressions are evaluated.
pub(super) const OPTIONS: Options = Options { direction: Direction::Response, is_final: true };

impl Context for CheckContext<'_> {
    fn now(&self) -> Duration {
        basics::clock::since_1970()
    }

    fn local_offset(&self, unix_seconds: i64) -> i32 {
        telemetry::local_offset(unix_seconds)
    }

    fn process(&self) -> Process<'_> {
        let process = &self.proxy.process;
        Process {
            hostname: &process.hostname,
            pid: std::process::id(),
            stopping: process.stopping.load(Relaxed),
            ..Process::default()
        }
    }

    fn environment(&self, name: &[u8]) -> Option<Bytes<'_>> {
        let name = std::str::from_utf8(name).ok()?;
        self.proxy.config.global.environment.get(name).map(|value| Bytes::Borrowed(value.as_bytes()))
    }

    fn upstream(&self) -> Option<Connection<'_>> {
        let stream = &self.connection?.stream;
        Some(Connection {
            source: Some(stream.local_address().map_or(Address::Unix, Address::Inet)),
            destination: Some(stream.peer_address().map_or(Address::Unix, Address::Inet)),
            http_major: 1,
            ..Connection::default()
        })
    }

    fn backend(&self) -> Option<Backend<'_>> {
        let settings = self.proxy.settings();
        Some(Backend { id: settings.id, name: &settings.name, http: settings.mode == Mode::Http, ..Backend::default() })
    }

    fn server(&self) -> Option<Server<'_>> {
        self.server.map(|server| Server { id: server.config.id, name: &server.config.name })
    }

    fn response(&self) -> Option<Response<'_>> {
        let received = self.received.filter(|received| received.has_head())?;
        let head = &received.head;
        Some(Response {
            status: head.status(),
            reason: head.reason(),
            version: (1, u8::from(head.version() == http::Version::Http11)),
            headers: &head.headers,
            body: Body { bytes: received.body(), complete: received.is_complete(), announced: None },
        })
    }

    fn response_buffer(&self) -> Option<Buffer<'_>> {
        (!self.is_http).then_some(Buffer { bytes: self.input, closed: true })
    }

    fn has_scope(&self, scope: Scope) -> bool {
        matches!(scope, Scope::Check | Scope::Process)
    }

    fn variable(&self, name: &VariableName) -> Option<Value<'static>> {
        match name.scope() {
            Scope::Process => self.proxy.process.variables.find(name),
            Scope::Check => {
                let variables = self.variables.borrow();
                variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    fn set_variable(&self, name: &VariableName, value: Value<'static>) -> bool {
        match name.scope() {
            Scope::Process => {
                self.proxy.process.variables.set(name, value);
                true
            }
            Scope::Check => {
                let mut variables = self.variables.borrow_mut();
                if let Some((_, known)) = variables.iter_mut().find(|(found, _)| found == name) {
                    *known = value;
                } else if variables.len() < VARIABLES_MAX {
                    variables.push((name.clone(), value));
                } else {
                    return false;
                }
                true
            }
            _ => false,
        }
    }

    fn unset_variable(&self, name: &VariableName) -> bool {
        if name.scope() == Scope::Check {
            self.variables.borrow_mut().retain(|(found, _)| found != name);
        }
        name.scope() == Scope::Check
    }

    fn status(&self) -> Option<u16> {
        self.response().map(|response| response.status)
    }
}

impl CheckContext<'_> {
    /// The text of a log-format string.
    pub(super) fn render(&self, format: &sample::LogFormat) -> Vec<u8> {
        format.to_vec(self)
    }
}
