//! One request and its response, or one TCP session: everything that rules, samples and logs can ask about it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use http::{RequestHead, ResponseHead};
use sample::StreamVariables;
use telemetry::Counter;

use super::{filter::StreamFilters, heads::Heads, persistence::Persistence, proxy_protocol::Refused};
use crate::{
    counters::Traffic,
    live::{Instance, LiveProxy, LiveServer},
    net::Stream,
    stick::{Counters, Stick},
    worker::{Clock, Worker},
};

/// What a PROXY protocol header says beside addresses.
#[derive(Clone, Debug, Default)]
pub struct ProxyFields {
    /// The host name that the client asked for.
    pub authority: Option<Vec<u8>>,
    /// The number of the connection.
    pub unique_id: Option<Vec<u8>>,
    /// The network namespace.
    pub namespace: Option<String>,
}

/// What few connections have.
#[derive(Debug, Default)]
pub struct More {
    /// What the PROXY protocol header said beside addresses.
    pub proxy_fields: OnceCell<ProxyFields>,
    /// Why there is no session on it.
    pub refused: Cell<Option<Refused>>,
    /// Entries of stick tables that it tracks.
    pub counters: RefCell<Option<Counters>>,
}

/// What the first bytes of a TCP session are, as far as HTTP goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RawHead {
    /// Too few to tell.
    #[default]
    Unknown,
    /// The head of a request.
    Request,
    /// Something else.
    Other,
}

/// The client's connection, as long as it lasts.
#[derive(Debug)]
pub struct ClientSide {
    /// Where it came from; `None` for a unix socket. The PROXY protocol and `set-src` change it.
    pub source: Cell<Option<SocketAddr>>,
    /// Where it came from before any change.
    pub original_source: Option<SocketAddr>,
    /// Where the PROXY protocol or `set-dst` say that it went to.
    pub changed_destination: Cell<Option<SocketAddr>>,
    /// Where it went to, asked of the kernel when first needed.
    pub original_destination: OnceCell<Option<SocketAddr>>,
    /// Whether a PROXY protocol header came first.
    pub received_proxy: bool,
    /// What few connections have. It goes along when another configuration takes over.
    pub more: OnceCell<Rc<More>>,
    /// The socket.
    pub stream: Rc<Stream>,
    /// Variables: those of the session stay from one request to the next.
    pub variables: RefCell<StreamVariables>,
    /// The frontend.
    pub frontend: Arc<LiveProxy>,
    /// Which of the frontend's listeners accepted it.
    pub listener: usize,
    /// When it was accepted.
    pub accepted: Instant,
    /// When it was accepted, since the Unix epoch.
    pub accepted_at: Duration,
    /// Its number in the process.
    pub id: u64,
}

impl ClientSide {
    /// Counts the same for the frontend and for the listener, as far as that is counted for itself.
    pub fn count(&self, worker: usize, counter: impl Fn(&Traffic) -> &Counter) {
        counter(self.frontend.frontend.traffic.of(worker)).increment();
        if let Some(listener) = self.frontend.listener_traffic(self.listener, worker) {
            counter(listener).increment();
        }
    }

    /// The same connection under another configuration's frontend. Session variables go along.
    #[must_use]
    pub fn under(&self, frontend: Arc<LiveProxy>, no_variables: StreamVariables) -> Self {
        Self {
            source: self.source.clone(),
            original_source: self.original_source,
            changed_destination: self.changed_destination.clone(),
            original_destination: self.original_destination.clone(),
            received_proxy: self.received_proxy,
            more: self.more.clone(),
            stream: Rc::clone(&self.stream),
            variables: RefCell::new(self.variables.replace(no_variables)),
            frontend,
            listener: self.listener,
            accepted: self.accepted,
            accepted_at: self.accepted_at,
            id: self.id,
        }
    }

    /// Where it went to, after any change.
    #[must_use]
    pub fn destination(&self) -> Option<SocketAddr> {
        self.changed_destination.get().or_else(|| self.original_destination())
    }

    /// Where it went to, by the kernel.
    #[must_use]
    pub fn original_destination(&self) -> Option<SocketAddr> {
        *self.original_destination.get_or_init(|| self.stream.local_address())
    }
}

/// When things happened; `None` if they did not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    /// The wait for this request began: the end of the one before, or of the handshakes.
    pub idle_since: Option<Instant>,
    /// Its first byte came.
    pub first_byte: Option<Instant>,
    /// Its head was complete.
    pub request: Option<Instant>,
    /// It left the queues.
    pub dequeued: Option<Instant>,
    /// The server's connection stood.
    pub connected: Option<Instant>,
    /// The response's head was complete.
    pub response: Option<Instant>,
    /// All was over.
    pub end: Option<Instant>,
}

/// Why and in which state it ended: the first two letters of HAProxy's termination state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// Who is to blame: `-`, `C`, `S`, `P`, `L`, `R`, `I`, `D`, `K`, `c` or `s`.
    pub cause: u8,
    /// Until where it came: `-`, `R`, `Q`, `C`, `H`, `D`, `L` or `T`.
    pub phase: u8,
}

impl Termination {
    /// As it should be.
    pub const NORMAL: Self = Self { cause: b'-', phase: b'-' };

    /// Names a cause and a phase.
    #[must_use]
    pub const fn new(cause: u8, phase: u8) -> Self {
        Self { cause, phase }
    }
}

/// What became of the persistence cookie: the last two letters of the termination state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieState {
    /// What the client had.
    pub request: u8,
    /// What was done in the response.
    pub response: u8,
}

impl Default for CookieState {
    fn default() -> Self {
        Self { request: b'N', response: b'N' }
    }
}

/// What was captured for the log.
#[derive(Debug, Default)]
pub struct Captures {
    /// By slot.
    pub request: Vec<Option<Vec<u8>>>,
    /// By slot.
    pub response: Vec<Option<Vec<u8>>>,
}

/// What rules said about connections by `Connection: close`, which a message of the other side does not say for this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedByRules {
    /// In a response: the client's.
    pub client: bool,
    /// In a request: the server's.
    pub server: bool,
}

/// One request and its response, or one TCP session.
#[derive(Debug)]
pub struct Transaction {
    /// Its number in the process; given by [`Transaction::take_number`].
    pub number: u64,
    /// Whether it ended before there was a valid request.
    pub bad_request: bool,
    /// Whether nothing of its request is left on the client's connection, though a body may have been.
    pub request_is_over: bool,
    /// Which connections a rule has given a `Connection: close`.
    pub closed_by_rules: ClosedByRules,
    /// The configuration it runs under.
    pub instance: Arc<Instance>,
    /// The client's connection.
    pub client: Rc<ClientSide>,
    /// Which worker runs it.
    pub worker: usize,
    /// The request's head; meaningful from [`Transaction::has_request`] on.
    pub request: RequestHead,
    /// Whether the request's head is complete.
    pub has_request: bool,
    /// Whether it is the first on its connection.
    pub first_request: bool,
    /// The version in which the client spoke.
    pub client_version: http::Version,
    /// Whether the client's connection may be kept, as far as the client is concerned.
    pub wants_keep_alive: bool,
    /// Whether the client asked to change the protocol.
    pub wants_upgrade: bool,
    /// Whether the request was sent to a server before and is sent again.
    pub resent: bool,
    /// The request line as it came, for the log.
    pub request_line: Vec<u8>,
    /// How many bytes of [`Transaction::request_line`] are the method.
    pub method_len: usize,
    /// The body, decoded, as far as a rule waited for it.
    pub body: Vec<u8>,
    /// Whether [`Transaction::body`] is all of it.
    pub body_complete: bool,
    /// What a TCP session has received, while content rules look at it.
    pub raw_request: Vec<u8>,
    /// Whether more of it can come.
    pub raw_request_closed: bool,
    /// Whether it is a request of HTTP, whose head then stands in [`Transaction::request`].
    pub raw_head: RawHead,
    /// The response's body, decoded, as far as a rule waited for it or asks about it.
    pub response_body: Vec<u8>,
    /// Whether [`Transaction::response_body`] is all of it.
    pub response_body_complete: bool,
    /// Announced length of the response's body.
    pub response_announced: Option<u64>,
    /// What a TCP session has received from the server, while content rules look at it.
    pub raw_response: Vec<u8>,
    /// Whether more of it can come.
    pub raw_response_closed: bool,
    /// Announced length of the request's body.
    pub body_announced: Option<u64>,
    /// The response's head; meaningful from [`Transaction::has_response`] on.
    pub response: ResponseHead,
    /// Whether the response's head is complete.
    pub has_response: bool,
    /// The status that the client was sent, 0 before.
    pub status: u16,
    /// Captures.
    pub captures: RefCell<Captures>,
    /// The client's cookie, if it is the one of `capture cookie`.
    pub client_cookie: Option<Box<[u8]>>,
    /// The server's.
    pub server_cookie: Option<Box<[u8]>>,
    /// The backend.
    pub backend: Option<Arc<LiveProxy>>,
    /// The server.
    pub server: Option<Arc<LiveServer>>,
    /// What answered in place of a server, as the log names it (`<STATS>`).
    pub answered_by: Option<&'static str>,
    /// Whether the statistics page asks for its own sake: for itself, its files and the numbers that it draws.
    pub is_page_request: bool,
    /// This end's address of the server's connection.
    pub upstream_source: Option<SocketAddr>,
    /// The other end's.
    pub upstream_destination: Option<SocketAddr>,
    /// When.
    pub timeline: Timeline,
    /// How it ended.
    pub termination: Termination,
    /// How the request is bound to a server.
    pub persistence: Persistence,
    /// What became of the cookie.
    pub cookie_state: CookieState,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Connection retries.
    pub retries: u32,
    /// Whether it went to another server than it was first given to.
    pub redispatched: bool,
    /// Requests before it in the server's queue.
    pub server_queue: u32,
    /// Requests before it in the backend's queue.
    pub backend_queue: u32,
    /// `set-log-level`: `Some(None)` is silent.
    pub log_level: Cell<Option<Option<u8>>>,
    /// `set-timeout server`.
    pub server_timeout: Cell<Option<Duration>>,
    /// `set-timeout tunnel`.
    pub tunnel_timeout: Cell<Option<Duration>>,
    /// Priority class and offset in queues.
    pub priority: Cell<(i64, i64)>,
    /// `strict-mode off`: what rules rewrite may fail without a word, until the set's end.
    pub soft_rewrites: bool,
    /// `disable-l7-retry`.
    pub l7_retry_disabled: Cell<bool>,
    /// Made at its first use.
    pub unique_id: OnceCell<Vec<u8>>,
    /// What filters keep of it, if any does.
    pub filters: OnceCell<Box<StreamFilters>>,
    /// Where the rule stands that ended it.
    pub last_rule: RefCell<Option<haproxycfg::model::Location>>,
    /// Whether there are stick tables at all.
    pub has_tables: bool,
    /// What it tracks in stick tables and is to be remembered there.
    pub stick: RefCell<Option<Box<Stick>>>,
    /// The worker's clock.
    pub clock: Rc<Clock>,
    /// Whether it was logged before its end (`option logasap`).
    pub logged: bool,
    /// Number of the log line of the frontend.
    pub log_counter: u64,
    /// State of the random numbers of this transaction.
    pub random: Cell<u64>,
}

impl Captures {
    fn clear(&mut self) {
        let Self { request, response } = self;
        request.clear();
        response.clear();
    }
}

impl Transaction {
    /// A transaction that has not begun: [`Transaction::restart`] begins it.
    #[must_use]
    pub fn new(instance: Arc<Instance>, client: Rc<ClientSide>, worker: &Worker) -> Self {
        let Heads { request, response, request_line } = worker.heads.take();
        let has_tables = !instance.tables.is_empty();
        Self {
            number: 0,
            bad_request: false,
            request_is_over: false,
            closed_by_rules: ClosedByRules::default(),
            instance,
            client,
            worker: worker.index,
            request,
            has_request: false,
            first_request: true,
            client_version: http::Version::Http11,
            wants_keep_alive: false,
            wants_upgrade: false,
            resent: false,
            request_line,
            method_len: 0,
            body: Vec::new(),
            body_complete: false,
            raw_request: Vec::new(),
            raw_request_closed: false,
            raw_head: RawHead::Unknown,
            response_body: Vec::new(),
            response_body_complete: false,
            response_announced: None,
            raw_response: Vec::new(),
            raw_response_closed: false,
            body_announced: None,
            response,
            has_response: false,
            status: 0,
            captures: RefCell::default(),
            client_cookie: None,
            server_cookie: None,
            backend: None,
            server: None,
            answered_by: None,
            is_page_request: false,
            upstream_source: None,
            upstream_destination: None,
            timeline: Timeline::default(),
            termination: Termination::NORMAL,
            persistence: Persistence::default(),
            cookie_state: CookieState::default(),
            bytes_in: 0,
            bytes_out: 0,
            retries: 0,
            redispatched: false,
            server_queue: 0,
            backend_queue: 0,
            log_level: Cell::new(None),
            server_timeout: Cell::new(None),
            tunnel_timeout: Cell::new(None),
            priority: Cell::new((0, 0)),
            soft_rewrites: false,
            l7_retry_disabled: Cell::new(false),
            unique_id: OnceCell::new(),
            filters: OnceCell::new(),
            last_rule: RefCell::new(None),
            has_tables,
            stick: RefCell::new(None),
            clock: worker.clock(),
            logged: false,
            log_counter: 0,
            random: Cell::new(worker.random()),
        }
    }

    /// Begins the next transaction in the memory of one that is over.
    pub fn restart(&mut self, instance: &Arc<Instance>, client: &Rc<ClientSide>, random_seed: u64) {
        // NOTE: every field is named, so that none can be forgotten: what is left over would be another request's.
        let Self {
            number,
            bad_request,
            request_is_over,
            closed_by_rules,
            instance: old_instance,
            client: old_client,
            worker: _,
            request,
            has_request,
            first_request,
            client_version,
            wants_keep_alive,
            wants_upgrade,
            resent,
            request_line,
            method_len,
            body,
            body_complete,
            raw_request,
            raw_request_closed,
            raw_head,
            response_body,
            response_body_complete,
            response_announced,
            raw_response,
            raw_response_closed,
            body_announced,
            response,
            has_response,
            status,
            captures,
            client_cookie,
            server_cookie,
            backend,
            server,
            answered_by,
            is_page_request,
            upstream_source,
            upstream_destination,
            timeline,
            termination,
            persistence,
            cookie_state,
            bytes_in,
            bytes_out,
            retries,
            redispatched,
            server_queue,
            backend_queue,
            log_level,
            server_timeout,
            tunnel_timeout,
            priority,
            soft_rewrites,
            l7_retry_disabled,
            unique_id,
            filters,
            last_rule,
            has_tables,
            stick,
            clock: _,
            logged,
            log_counter,
            random,
        } = self;
        client.variables.borrow_mut().start_request();
        *number = 0;
        if !Arc::ptr_eq(old_instance, instance) {
            *old_instance = Arc::clone(instance);
            // Its places of tables are those of the instance before.
            *stick.get_mut() = None;
            *has_tables = !instance.tables.is_empty();
        }
        if !Rc::ptr_eq(old_client, client) {
            *old_client = Rc::clone(client);
        }
        request.clear();
        response.clear();
        request_line.clear();
        *method_len = 0;
        (*bad_request, *request_is_over, *has_request, *first_request) = (false, false, false, true);
        *closed_by_rules = ClosedByRules::default();
        *client_version = http::Version::Http11;
        (*wants_keep_alive, *wants_upgrade, *resent) = (false, false, false);
        // Bodies and captures are rare and may be large: their memory goes.
        *body = Vec::new();
        *raw_request = Vec::new();
        *raw_head = RawHead::Unknown;
        (*body_complete, *raw_request_closed, *body_announced) = (false, false, None);
        *response_body = Vec::new();
        *raw_response = Vec::new();
        (*response_body_complete, *raw_response_closed, *response_announced) = (false, false, None);
        (*has_response, *status) = (false, 0);
        captures.get_mut().clear();
        (*client_cookie, *server_cookie) = (None, None);
        (*backend, *server, *answered_by, *is_page_request) = (None, None, None, false);
        (*upstream_source, *upstream_destination) = (None, None);
        *timeline = Timeline::default();
        *termination = Termination::NORMAL;
        (*persistence, *cookie_state) = (Persistence::default(), CookieState::default());
        (*bytes_in, *bytes_out, *retries, *redispatched) = (0, 0, 0, false);
        (*server_queue, *backend_queue) = (0, 0);
        log_level.set(None);
        server_timeout.set(None);
        tunnel_timeout.set(None);
        priority.set((0, 0));
        l7_retry_disabled.set(false);
        unique_id.take();
        filters.take();
        *last_rule.get_mut() = None;
        (*soft_rewrites, *logged, *log_counter) = (false, false, 0);
        random.set(random_seed);
    }

    /// Gives it its number. As in HAProxy, what was no request has one only if it is told of, and the silent end of a
    /// connection has none.
    pub fn take_number(&mut self) {
        self.number = self.instance.process.next_stream_id.fetch_add(1, Relaxed);
    }

    /// Gives back what the next transaction can use again.
    pub fn take_heads(&mut self) -> Heads {
        Heads {
            request: std::mem::take(&mut self.request),
            response: std::mem::take(&mut self.response),
            request_line: std::mem::take(&mut self.request_line),
        }
    }

    /// How long after its connection was accepted the transaction began.
    #[must_use]
    pub fn since_accept(&self) -> Duration {
        self.timeline.first_byte.map_or(Duration::ZERO, |begun| begun.saturating_duration_since(self.client.accepted))
    }

    /// Where the client wanted to go, after any change.
    #[must_use]
    pub fn destination(&self) -> Option<SocketAddr> {
        self.client.destination()
    }

    /// The settings of the frontend.
    #[must_use]
    pub fn frontend_settings(&self) -> &haproxycfg::model::Proxy {
        self.client.frontend.settings()
    }

    /// The settings of the backend, or of the frontend before there is one.
    #[must_use]
    pub fn backend_settings(&self) -> &haproxycfg::model::Proxy {
        self.backend.as_ref().unwrap_or(&self.client.frontend).settings()
    }

    /// Milliseconds from `from` to `to` as logs show them: -1 when one of them never came.
    #[must_use]
    pub fn milliseconds(from: Option<Instant>, to: Option<Instant>) -> i64 {
        match (from, to) {
            (Some(from), Some(to)) => i64::try_from(to.saturating_duration_since(from).as_millis()).unwrap_or(i64::MAX),
            _ => -1,
        }
    }

    /// Whether the client takes this for its proxy (`option http-use-proxy-header`): it names a whole URI.
    #[must_use]
    pub fn asks_proxy(&self) -> bool {
        self.frontend_settings().options.http_use_proxy_header
            && !matches!(self.request.target().first(), Some(b'/' | b'*'))
    }

    /// Whether the request, as far as it was parsed, must have no body in its response.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.request_line.get(..self.method_len) == Some(b"HEAD")
    }
}
