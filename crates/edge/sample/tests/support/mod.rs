//! A context made by hand, and the real HAProxy beside it.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub mod stick;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::Headers;
use sample::*;

pub const HAPROXY: &str = "/usr/sbin/haproxy";

/// Files by path.
#[derive(Default)]
pub struct Files(pub BTreeMap<String, Vec<u8>>);

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).cloned().ok_or_else(|| "No such file or directory".to_owned())
    }
}

/// Calls `action` with what parsing needs.
pub fn with_parser<T>(files: &Files, action: impl FnOnce(&mut ParseContext<'_>) -> T) -> T {
    let mut patterns = PatternReferences::new();
    action(&mut ParseContext::new("test.cfg", 7, "fe", true, files, &mut patterns))
}

pub fn expression(text: &str) -> Result<Expression, Error> {
    expression_with(text, &Files::default())
}

pub fn expression_with(text: &str, files: &Files) -> Result<Expression, Error> {
    with_parser(files, |parser| Expression::parse_text(text, parser))
}

/// A stream in the middle of everything.
pub struct Stream {
    pub now: Duration,
    pub offset: i32,
    pub client: Option<Connection<'static>>,
    pub upstream: Option<Connection<'static>>,
    pub method: String,
    pub uri: String,
    pub version: (u8, u8),
    pub headers: Headers,
    pub body: Vec<u8>,
    pub has_request: bool,
    pub status: Option<u16>,
    pub response_headers: Headers,
    pub request_buffer: Option<Vec<u8>>,
    pub response_buffer: Option<Vec<u8>>,
    pub buffer_closed: bool,
    pub variables: RefCell<StreamVariables>,
    pub captures: RefCell<Vec<Option<Vec<u8>>>>,
    pub response_captures: Vec<Option<Vec<u8>>>,
    pub fields: LogFields<'static>,
    pub request_line: Option<String>,
    pub random: Cell<u64>,
    pub frontend: Option<Frontend<'static>>,
    pub backend: Option<Backend<'static>>,
    pub server: Option<Server<'static>>,
    pub debugged: RefCell<Vec<String>>,
}

impl Default for Stream {
    fn default() -> Self {
        let mut variables = StreamVariables::new(Arc::new(ProcessVariables::new()), VariableLimits::default());
        variables.start_request();
        Stream {
            now: Duration::new(1_700_000_000, 123_456_000),
            offset: 3600,
            client: None,
            upstream: None,
            method: "GET".to_owned(),
            uri: "/".to_owned(),
            version: (1, 1),
            headers: Headers::new(),
            body: Vec::new(),
            has_request: true,
            status: None,
            response_headers: Headers::new(),
            request_buffer: None,
            response_buffer: None,
            buffer_closed: false,
            variables: RefCell::new(variables),
            captures: RefCell::new(vec![None, None]),
            response_captures: Vec::new(),
            fields: LogFields::default(),
            request_line: None,
            random: Cell::new(0),
            frontend: Some(Frontend {
                id: 2,
                name: "fe",
                default_backend: Some("app"),
                client_timeout_ms: Some(5000),
                http: true,
            }),
            backend: None,
            server: None,
            debugged: RefCell::new(Vec::new()),
        }
    }
}

impl Stream {
    /// A request for `uri` with these headers.
    pub fn request(uri: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = Stream { uri: uri.to_owned(), ..Stream::default() };
        for (name, value) in headers {
            stream.headers.add(name.as_bytes(), value.as_bytes());
        }
        stream
    }

    /// A response with these headers.
    pub fn response(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut stream = Stream { status: Some(status), ..Stream::default() };
        for (name, value) in headers {
            stream.response_headers.add(name.as_bytes(), value.as_bytes());
        }
        stream
    }

    pub fn set(&self, name: &str, value: Value<'static>) {
        let name = VariableName::parse(name.as_bytes()).unwrap();
        assert!(self.variables.borrow_mut().set(&name, value));
    }

    fn body(&self) -> Body<'_> {
        Body { bytes: &self.body, complete: true, announced: Some(self.body.len() as u64) }
    }
}

impl Context for Stream {
    fn cache_hit(&self) -> Option<&str> {
        Some("pages")
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn local_offset(&self, _: i64) -> i32 {
        self.offset
    }

    fn random(&self) -> u64 {
        let next = self.random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.set(next);
        next
    }

    fn process(&self) -> Process<'_> {
        Process { hostname: "machine", thread: 3, pid: 4321, stopping: false }
    }

    fn environment(&self, name: &[u8]) -> Option<Bytes<'_>> {
        (name == b"SITE").then(|| "example".into())
    }

    fn client(&self) -> Option<Connection<'_>> {
        self.client
    }

    fn client_information(&self) -> Option<TcpInformation> {
        Some(TcpInformation { rtt_us: 12_345, rttvar_us: 499, lost: 3, ..TcpInformation::default() })
    }

    fn upstream(&self) -> Option<Connection<'_>> {
        self.upstream
    }

    fn listener(&self) -> Option<Listener<'_>> {
        Some(Listener { id: 9, name: Some("front"), connections: 17 })
    }

    fn frontend(&self) -> Option<Frontend<'_>> {
        self.frontend
    }

    fn backend(&self) -> Option<Backend<'_>> {
        self.backend
    }

    fn server(&self) -> Option<Server<'_>> {
        self.server
    }

    fn request(&self) -> Option<Request<'_>> {
        self.has_request.then(|| Request {
            to_proxy: false,
            method: self.method.as_bytes(),
            uri: self.uri.as_bytes(),
            uri_prefix: b"",
            version: self.version,
            headers: &self.headers,
            body: self.body(),
            first: true,
        })
    }

    fn response(&self) -> Option<Response<'_>> {
        self.status.map(|status| Response {
            status,
            reason: b"OK",
            version: (1, 1),
            headers: &self.response_headers,
            body: self.body(),
        })
    }

    fn request_buffer(&self) -> Option<Buffer<'_>> {
        self.request_buffer.as_ref().map(|bytes| Buffer { bytes, closed: self.buffer_closed })
    }

    fn response_buffer(&self) -> Option<Buffer<'_>> {
        self.response_buffer.as_ref().map(|bytes| Buffer { bytes, closed: self.buffer_closed })
    }

    fn frontend_metric(&self, name: &str, metric: FrontendMetric) -> Option<i64> {
        (name == "fe").then_some(match metric {
            FrontendMetric::Connections => 11,
            FrontendMetric::RequestRate => 12,
            FrontendMetric::SessionRate => 13,
        })
    }

    fn backend_metric(&self, name: &str, metric: BackendMetric) -> Option<i64> {
        (name == "app").then_some(match metric {
            BackendMetric::Connections => 21,
            BackendMetric::ConnectionsFree => 22,
            BackendMetric::SessionRate => 23,
            BackendMetric::ConnectionSlots => -1,
            BackendMetric::UsableServers => 2,
            BackendMetric::Queue => 5,
            BackendMetric::AverageQueue => 3,
        })
    }

    fn server_metric(&self, backend: &str, server: &str, metric: ServerMetric) -> Option<i64> {
        (backend == "app" && server == "a").then_some(match metric {
            ServerMetric::Connections => 31,
            ServerMetric::ConnectionsFree => -1,
            ServerMetric::Up => 1,
            ServerMetric::Queue => 34,
            ServerMetric::SessionRate => 35,
            ServerMetric::Weight => 100,
            ServerMetric::InitialWeight => 101,
            ServerMetric::UserWeight => 102,
        })
    }

    fn variable(&self, name: &VariableName) -> Option<Value<'static>> {
        self.variables.borrow().find(name)
    }

    fn has_scope(&self, scope: Scope) -> bool {
        self.variables.borrow().has_scope(scope)
    }

    fn set_variable(&self, name: &VariableName, value: Value<'static>) -> bool {
        self.variables.borrow_mut().set(name, value)
    }

    fn unset_variable(&self, name: &VariableName) -> bool {
        self.variables.borrow_mut().unset(name)
    }

    fn request_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        self.captures.borrow().get(slot)?.clone().map(Into::into)
    }

    fn response_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        self.response_captures.get(slot)?.as_deref().map(Into::into)
    }

    fn set_capture(&self, direction: Direction, slot: usize, value: &[u8]) -> bool {
        match self.captures.borrow_mut().get_mut(slot) {
            Some(capture) if direction == Direction::Request => {
                *capture = Some(value.iter().copied().take(10).collect());
                true
            }
            _ => false,
        }
    }

    fn request_line(&self) -> Option<Bytes<'_>> {
        self.request_line.as_deref().map(Into::into)
    }

    fn authenticates(&self, list: &str, user: &[u8], password: &[u8]) -> bool {
        list == "admins" && user == b"Aladdin" && password == b"open sesame"
    }

    fn in_group(&self, list: &str, user: &[u8], group: &[u8]) -> bool {
        list == "admins" && user == b"Aladdin" && group == b"ops"
    }

    fn unique_id(&self) -> Option<Bytes<'_>> {
        Some("unique".into())
    }

    fn priority(&self) -> Option<(i64, i64)> {
        Some((1, -2))
    }

    fn last_rule(&self) -> Option<RuleLocation> {
        Some(RuleLocation { file: "a.cfg".into(), line: 12 })
    }

    fn log_fields(&self) -> LogFields<'_> {
        self.fields
    }

    fn debug(&self, destination: &str, line: &str) {
        self.debugged.borrow_mut().push(format!("{destination} {line}"));
    }
}

/// The value of an expression as text; none when there is nothing.
pub fn text(expression: &Expression, context: &dyn Context, options: Options) -> Option<String> {
    let value = expression.evaluate(context, options).value()?.into_text()?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

/// A running HAProxy, ended with the test.
pub struct HaProxy {
    child: Child,
    pub port: u16,
    directory: std::path::PathBuf,
}

impl HaProxy {
    /// Whether there is one to run; says so if not.
    pub fn is_installed() -> bool {
        let installed = std::path::Path::new(HAPROXY).exists();
        if !installed {
            println!("{HAPROXY} is not installed: nothing to compare with");
        }
        installed
    }

    /// Starts it with a configuration in which `PORT` is the port to listen on. Somebody may be quicker and take that: then with another one.
    pub fn start(configuration: &str) -> Self {
        const TRIES: usize = 5;
        (0..TRIES).find_map(|_| Self::try_start(configuration)).unwrap()
    }

    /// `None` if it ends before it listens.
    fn try_start(configuration: &str) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = std::env::temp_dir().join(format!("sample-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("haproxy.cfg");
        std::fs::write(&path, configuration.replace("PORT", &port.to_string())).unwrap();
        let check = Command::new(HAPROXY).args(["-c", "-f"]).arg(&path).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        let child = Command::new(HAPROXY)
            .args(["-db", "-q", "-f"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut haproxy = HaProxy { child, port, directory };
        // It listens a moment after it started.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if haproxy.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(haproxy)
    }

    /// Sends bytes and reads everything that comes back until the end.
    pub fn exchange(&self, request: &[u8]) -> Vec<u8> {
        Self::exchange_with(self.port, request)
    }

    /// The same with another port that it listens on.
    pub fn exchange_with(port: u16, request: &[u8]) -> Vec<u8> {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(request).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Sends a request and gives the body of the response.
    pub fn body(&self, request: &[u8]) -> String {
        let answer = self.exchange(request);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        match answer.split_once("\r\n\r\n") {
            Some((_, body)) => body.to_owned(),
            None => answer,
        }
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
