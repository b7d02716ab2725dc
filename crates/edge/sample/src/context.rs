//! What an expression is evaluated against.
//!
//! The edge implements [`Context`] over its own structures; everything has a default that says "not there", so that a
//! context without a stream (a rule on a connection, a health check) or a test writes only what it has. Samples borrow from
//! the context, so methods take `&self`; what an expression may change (variables, captures) is behind interior mutability
//! on the side of the implementer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Headers;

use crate::bytes::Bytes;
use crate::log_fields::LogFields;
use crate::value::Value;
use crate::variables::{Scope, VariableName};

/// The side of a message that a fetch valid on both sides reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The request.
    Request,
    /// The response.
    Response,
}

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The side that `hdr`, `cookie` and `payload` read.
    pub direction: Direction,
    /// Whether what is there is all there will be. Without it, what is not there may still come, and a condition may
    /// answer that it cannot tell yet.
    pub is_final: bool,
}

impl Options {
    /// A request, complete as far as rules are concerned: what `http-request` rules use.
    pub const REQUEST: Options = Options { direction: Direction::Request, is_final: true };
    /// A response, complete: what `http-response` rules use.
    pub const RESPONSE: Options = Options { direction: Direction::Response, is_final: true };
    /// A request that is still coming in: what `tcp-request content` rules use before `inspect-delay` is over.
    pub const REQUEST_PARTIAL: Options = Options { direction: Direction::Request, is_final: false };
    /// A response that is still coming in.
    pub const RESPONSE_PARTIAL: Options = Options { direction: Direction::Response, is_final: false };
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// An internet address and port.
    Inet(SocketAddr),
    /// A unix or abstract socket.
    Unix,
}

impl Address {
    /// The internet address.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Address::Inet(address) => Some(address.ip()),
            Address::Unix => None,
        }
    }

    /// The port.
    #[must_use]
    pub fn port(self) -> Option<u16> {
        match self {
            Address::Inet(address) => Some(address.port()),
            Address::Unix => None,
        }
    }
}

/// A connection with a client or a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection<'a> {
    /// Where it comes from, after the PROXY protocol and `set-src`.
    pub source: Option<Address>,
    /// Where it goes to, after the PROXY protocol and `set-dst`.
    pub destination: Option<Address>,
    /// Where it came from before any rule changed it; the same as `source` if none.
    pub original_source: Option<Address>,
    /// Where it went to before any rule changed it; the same as `destination` if none.
    pub original_destination: Option<Address>,
    /// Major version of HTTP spoken on it.
    pub http_major: u8,
    /// HAProxy's number for what went wrong with it; 0 is nothing.
    pub error_code: u8,
    /// The words for it.
    pub error_text: &'a str,
    /// Whether a PROXY protocol header came first.
    pub received_proxy: bool,
    /// The authority in that header.
    pub proxy_authority: Option<&'a [u8]>,
    /// The unique id in that header.
    pub proxy_unique_id: Option<&'a [u8]>,
    /// Whether it is encrypted.
    pub encrypted: bool,
}

/// What the kernel says of a TCP connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInformation {
    /// Round trip time in microseconds.
    pub rtt_us: u32,
    /// Its variance in microseconds.
    pub rttvar_us: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments acknowledged selectively.
    pub sacked: u32,
    /// Segments lost.
    pub lost: u32,
    /// Segments being sent again.
    pub retransmitted: u32,
    /// Forward acknowledged segments.
    pub fackets: u32,
    /// The reordering metric.
    pub reordering: u32,
}

/// The process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process<'a> {
    /// Name of the machine.
    pub hostname: &'a str,
    /// Number of the thread, from 0.
    pub thread: u32,
    /// Process id.
    pub pid: u32,
    /// Whether it is stopping softly.
    pub stopping: bool,
}

/// The bind line that accepted a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listener<'a> {
    /// Its number.
    pub id: u32,
    /// Its name, if it was given one.
    pub name: Option<&'a str>,
    /// Connections on it now.
    pub connections: u32,
}

/// The frontend of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frontend<'a> {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// The name of its default backend.
    pub default_backend: Option<&'a str>,
    /// `timeout client` in milliseconds.
    pub client_timeout_ms: Option<u64>,
    /// Whether it is in HTTP mode.
    pub http: bool,
}

/// The backend of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backend<'a> {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// `timeout server` in milliseconds.
    pub server_timeout_ms: Option<u64>,
    /// `timeout tunnel` in milliseconds.
    pub tunnel_timeout_ms: Option<u64>,
    /// The server timeout of this stream in milliseconds, which a rule may have changed.
    pub current_server_timeout_ms: Option<u64>,
    /// The tunnel timeout of this stream in milliseconds, which a rule may have changed.
    pub current_tunnel_timeout_ms: Option<u64>,
    /// Whether it is in HTTP mode.
    pub http: bool,
}

/// The server of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server<'a> {
    /// Its number in its backend.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
}

/// The body of a message, as much of it as is buffered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Body<'a> {
    /// The bytes there, decoded from chunks.
    pub bytes: &'a [u8],
    /// Whether these are all.
    pub complete: bool,
    /// The length announced, if any.
    pub announced: Option<u64>,
}

/// A request's head, and its body as far as it is buffered.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whether the client takes this for its proxy, so that its credentials stand in `Proxy-Authorization`.
    pub to_proxy: bool,
    /// The method as written.
    pub method: &'a [u8],
    /// The target as written: a path, a complete address or `*`.
    pub uri: &'a [u8],
    /// Scheme and authority, which stand before a path where the protocol names them apart.
    pub uri_prefix: &'a [u8],
    /// Major and minor version.
    pub version: (u8, u8),
    /// The fields.
    pub headers: &'a Headers,
    /// The body.
    pub body: Body<'a>,
    /// Whether it is the first of its connection.
    pub first: bool,
}

/// A response's head, and its body as far as it is buffered.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'a [u8],
    /// Major and minor version.
    pub version: (u8, u8),
    /// The fields.
    pub headers: &'a Headers,
    /// The body.
    pub body: Body<'a>,
}

/// Raw bytes that wait in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffer<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether no more can come: the other side closed, or the buffer is full.
    pub closed: bool,
}

/// A number of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendMetric {
    /// Connections now.
    Connections,
    /// Requests in the last second.
    RequestRate,
    /// New sessions in the last second.
    SessionRate,
}

/// A number of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendMetric {
    /// Connections now.
    Connections,
    /// Connections that its usable servers still take; negative when one of them has no limit.
    ConnectionsFree,
    /// New sessions in the last second.
    SessionRate,
    /// Free places for connections and in queues, over all usable servers; negative when one of them has no limit.
    ConnectionSlots,
    /// Usable servers.
    UsableServers,
    /// Requests that wait, for the backend and for its servers.
    Queue,
    /// That number divided by the usable servers, rounded up; twice that number when there is none.
    AverageQueue,
}

/// A number of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMetric {
    /// Connections now.
    Connections,
    /// Connections that it still takes; negative when it has no limit.
    ConnectionsFree,
    /// 1 when it may get new connections, otherwise 0.
    Up,
    /// Requests that wait for it.
    Queue,
    /// New sessions in the last second.
    SessionRate,
    /// Its weight now, scaled as the statistics show it.
    Weight,
    /// The weight in the configuration.
    InitialWeight,
    /// The weight that an administrator set.
    UserWeight,
}

/// Whose entry of a stick table is asked about.
#[derive(Clone, Debug)]
pub enum StickKey<'a> {
    /// That of a tracked counter: the entry itself, or in another table the entry of the same key.
    Counter(u32),
    /// That of the client's address.
    Source,
    /// That of a value.
    Value(Value<'a>),
}

/// What a stick table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickAnswer {
    /// Nothing is tracked, or what is there cannot be a key of this table.
    NoKey,
    /// There is no entry.
    NoEntry,
    /// The table does not store what was asked for.
    NotStored,
    /// This.
    Value(i64),
}

/// Where a rule stands.
#[derive(Clone, Debug)]
pub struct RuleLocation {
    /// The file.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
}

/// What an expression can ask for. Every method has a default: "not there".
pub trait Context {
    /// Wall clock: time since the Unix epoch.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Seconds by which local time is ahead of UTC at `unix_seconds`.
    fn local_offset(&self, unix_seconds: i64) -> i32 {
        let _ = unix_seconds;
        0
    }

    /// 64 random bits, new ones at each call.
    fn random(&self) -> u64 {
        0
    }

    /// The process.
    fn process(&self) -> Process<'_> {
        Process::default()
    }

    /// A variable of the process' environment.
    fn environment(&self, name: &[u8]) -> Option<Bytes<'_>> {
        let _ = name;
        None
    }

    /// Whether `address` belongs to this machine.
    fn is_local_address(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }

    /// The client's connection.
    fn client(&self) -> Option<Connection<'_>> {
        None
    }

    /// What TLS with the client has agreed on.
    fn client_tls(&self) -> Option<Arc<tls::Handshaken>> {
        None
    }

    /// What TLS with the server has agreed on.
    fn upstream_tls(&self) -> Option<Arc<tls::Handshaken>> {
        None
    }

    /// What the kernel says of the client's connection.
    fn client_information(&self) -> Option<TcpInformation> {
        None
    }

    /// The server's connection.
    fn upstream(&self) -> Option<Connection<'_>> {
        None
    }

    /// The bind line that accepted the client.
    fn listener(&self) -> Option<Listener<'_>> {
        None
    }

    /// The frontend.
    fn frontend(&self) -> Option<Frontend<'_>> {
        None
    }

    /// The backend, once there is one.
    fn backend(&self) -> Option<Backend<'_>> {
        None
    }

    /// The server, once one was chosen.
    fn server(&self) -> Option<Server<'_>> {
        None
    }

    /// The request, once its head is complete and as long as it is kept.
    fn request(&self) -> Option<Request<'_>> {
        None
    }

    /// Whether there may be a request where there is none yet: not when what the client sent is none.
    fn request_may_come(&self) -> bool {
        true
    }

    /// The response, once its head is complete and as long as it is kept.
    fn response(&self) -> Option<Response<'_>> {
        None
    }

    /// Raw bytes from the client that wait; none in HTTP mode.
    fn request_buffer(&self) -> Option<Buffer<'_>> {
        None
    }

    /// Raw bytes from the server that wait; none in HTTP mode.
    fn response_buffer(&self) -> Option<Buffer<'_>> {
        None
    }

    /// A number of the frontend called `name`.
    fn frontend_metric(&self, name: &str, metric: FrontendMetric) -> Option<i64> {
        let _ = (name, metric);
        None
    }

    /// A number of the backend called `name`.
    fn backend_metric(&self, name: &str, metric: BackendMetric) -> Option<i64> {
        let _ = (name, metric);
        None
    }

    /// A number of the server called `server` in the backend called `backend`.
    fn server_metric(&self, backend: &str, server: &str, metric: ServerMetric) -> Option<i64> {
        let _ = (backend, server, metric);
        None
    }

    /// Asks about an entry of the stick table called `table`; of a tracked counter's own table without a name.
    fn stick(&self, key: StickKey<'_>, table: Option<&str>, query: stick::Query) -> StickAnswer {
        let _ = (key, table, query);
        StickAnswer::NoKey
    }

    /// Entries of a stick table, and how many it may have.
    fn stick_table_use(&self, table: &str) -> Option<(u32, u32)> {
        let _ = table;
        None
    }

    /// A variable.
    fn variable(&self, name: &VariableName) -> Option<Value<'static>> {
        let _ = name;
        None
    }

    /// Whether variables of `scope` can be used now.
    fn has_scope(&self, scope: Scope) -> bool {
        let _ = scope;
        false
    }

    /// Sets a variable; whether it could be set.
    fn set_variable(&self, name: &VariableName, value: Value<'static>) -> bool {
        let _ = (name, value);
        false
    }

    /// Forgets a variable; whether its scope is there.
    fn unset_variable(&self, name: &VariableName) -> bool {
        let _ = name;
        false
    }

    /// What a declared capture slot of the request holds.
    fn request_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        let _ = slot;
        None
    }

    /// What a declared capture slot of the response holds.
    fn response_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        let _ = slot;
        None
    }

    /// Stores into a capture slot, cut to its length; whether there is such a slot.
    fn set_capture(&self, direction: Direction, slot: usize, value: &[u8]) -> bool {
        let _ = (direction, slot, value);
        false
    }

    /// The request line as it came (`GET /path HTTP/1.1`), kept until the end.
    fn request_line(&self) -> Option<Bytes<'_>> {
        None
    }

    /// The version of the response as it came (`HTTP/1.1`), kept until the end.
    fn response_version(&self) -> Option<(u8, u8)> {
        self.response().map(|response| response.version)
    }

    /// The status code, kept until the end.
    fn status(&self) -> Option<u16> {
        self.response().map(|response| response.status)
    }

    /// How the response is compressed, if it is: a word of `compression algo`.
    fn compression(&self) -> Option<&'static str> {
        None
    }

    /// The name of the `cache` section that the response comes from, if it does.
    fn cache_hit(&self) -> Option<&str> {
        None
    }

    /// The method, kept until the end.
    fn method(&self) -> Option<Bytes<'_>> {
        self.request().map(|request| Bytes::Borrowed(request.method))
    }

    /// Whether `password` is that of `user` in the user list called `list`.
    fn authenticates(&self, list: &str, user: &[u8], password: &[u8]) -> bool {
        let _ = (list, user, password);
        false
    }

    /// Whether `user` belongs to `group` in the user list called `list`.
    fn in_group(&self, list: &str, user: &[u8], group: &[u8]) -> bool {
        let _ = (list, user, group);
        false
    }

    /// The unique id of the stream, made at its first use.
    fn unique_id(&self) -> Option<Bytes<'_>> {
        None
    }

    /// The priority class and the priority offset in queues.
    fn priority(&self) -> Option<(i64, i64)> {
        None
    }

    /// The last rule that ended a rule set.
    fn last_rule(&self) -> Option<RuleLocation> {
        None
    }

    /// The fields of the log line.
    fn log_fields(&self) -> LogFields<'_> {
        LogFields::default()
    }

    /// Receives what the converter `debug` shows.
    fn debug(&self, destination: &str, line: &str) {
        let _ = (destination, line);
    }
}

/// A context with nothing in it but defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Context for Nothing {}
