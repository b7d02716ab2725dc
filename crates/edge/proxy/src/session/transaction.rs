//! One request and its response, or one TCP session: everything that rules, samples and logs can ask about it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use accelerator::{log::SessionLog, note::Note};
use haproxycfg::model::PluginCall;
use http::{RequestHead, ResponseHead};
use live::{Instance, LiveProxy, LiveServer, counters::Traffic};
use net::Stream;
use sample::StreamVariables;
use telemetry::Counter;

use super::{
    caching::Caching, context::wall_clock, ending::Ending, filter::StreamFilters, heads::Heads,
    persistence::Persistence, protocol::Protocol, proxy_protocol::Refused, varnish_log::VarnishLog,
};
use crate::{
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
    /// All that it says, if something is about TLS: a program of VCL may ask for that.
    pub tlvs: Option<Arc<[u8]>>,
}

/// Fields that few connections need.
#[derive(Debug, Default)]
pub struct ConnectionExtras {
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
    /// Where it came from; `None` for a unix socket. The PROXY protocol and rules on the connection change it.
    pub source: Cell<Option<SocketAddr>>,
    /// Where it came from before any change.
    pub original_source: Option<SocketAddr>,
    /// Where the PROXY protocol or rules on the connection say that it went to.
    pub changed_destination: Cell<Option<SocketAddr>>,
    /// Where it went to, asked of the kernel when first needed.
    pub original_destination: OnceCell<Option<SocketAddr>>,
    /// Whether a PROXY protocol header came first.
    pub received_proxy: bool,
    /// What few connections have. It goes along when another configuration takes over.
    pub more: OnceCell<Rc<ConnectionExtras>>,
    /// Which HTTP it speaks.
    pub protocol: Protocol,
    /// Its socket; `None` for what no client has asked for, and over QUIC.
    pub stream: Option<Rc<Stream>>,
    /// What its handshake has agreed on, over QUIC.
    pub handshaken: Option<Arc<tls::Handshaken>>,
    /// Variables of the session, which stay from one exchange to the next.
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
    /// Its log, where a program of VCL answers and that is published.
    pub session_log: OnceCell<Option<Rc<SessionLog>>>,
}

impl ClientSide {
    /// No listener has this number.
    const NOBODYS_LISTENER: usize = usize::MAX;

    /// Whether no client stands behind it.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.listener == Self::NOBODYS_LISTENER
    }

    /// What stands in a client's place where something is fetched that no client has asked for, at this time.
    #[must_use]
    pub fn nobody(instance: &Instance, frontend: Arc<LiveProxy>, now: Instant) -> Self {
        Self {
            source: Cell::new(None),
            original_source: None,
            changed_destination: Cell::new(None),
            original_destination: OnceCell::new(),
            received_proxy: false,
            more: OnceCell::new(),
            protocol: Protocol::default(),
            stream: None,
            handshaken: None,
            variables: RefCell::new(instance.stream_variables()),
            frontend,
            listener: Self::NOBODYS_LISTENER,
            accepted: now,
            accepted_at: wall_clock(),
            id: instance.process.next_session_id.fetch_add(1, Relaxed),
            session_log: OnceCell::from(None),
        }
    }

    /// What a request on it may be, under this configuration.
    #[must_use]
    pub fn request_limits(&self, instance: &Instance) -> http::Limits {
        let limits = instance.limits(self.frontend.settings().options.accept_invalid_http_request);
        self.frontend.relaxed(limits, http::Sender::Client)
    }

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
            protocol: self.protocol,
            stream: self.stream.clone(),
            handshaken: self.handshaken.clone(),
            variables: RefCell::new(self.variables.replace(no_variables)),
            frontend,
            listener: self.listener,
            accepted: self.accepted,
            accepted_at: self.accepted_at,
            id: self.id,
            session_log: self.session_log.clone(),
        }
    }

    /// Whether the client speaks TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.protocol == Protocol::Http3 || self.stream.as_ref().is_some_and(|stream| stream.secure().is_some())
    }

    /// Where it went to, by the kernel.
    #[must_use]
    pub fn original_destination(&self) -> Option<SocketAddr> {
        *self.original_destination.get_or_init(|| self.stream.as_ref()?.local_address())
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

/// A body as far as rules and samples have seen it.
#[derive(Debug, Default)]
pub struct SeenBody {
    /// Its data, decoded, as far as a rule waited for it or asks about it.
    pub bytes: Vec<u8>,
    /// Whether that is all of it.
    pub complete: bool,
    /// Its announced length.
    pub announced: Option<u64>,
}

/// What one side of a TCP session has sent, while content rules look at it.
#[derive(Debug, Default)]
pub struct SeenBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether no more of them can come.
    pub closed: bool,
}

/// How far the request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestStage {
    /// Its head is not complete.
    #[default]
    Awaited,
    /// Its head is complete and valid.
    Complete,
    /// There will be none: what came is invalid, too late or cut off.
    Invalid,
}

/// What is known of the request beside its head.
#[derive(Debug, Default)]
pub struct Asked {
    /// How far it has come.
    pub stage: RequestStage,
    /// Whether it is not the first on its connection.
    pub is_follower: bool,
    /// Scheme and authority, where the protocol names them apart, as long as no rule has made another target.
    pub url_prefix: Vec<u8>,
    /// The version in which the client spoke.
    pub version: http::Version,
    /// Whether the client's connection may be kept, as far as the client is concerned.
    pub wants_keep_alive: bool,
    /// Whether the client asked to change the protocol.
    pub wants_upgrade: bool,
    /// Whether the key of its WebSocket handshake was made here: who reads what the server proves by it is not the client.
    pub makes_key: bool,
    /// The target that it had before a backend went on with another one (`try-files`, an index file).
    pub original_target: Option<Box<[u8]>>,
    /// Where its path is as it is usually spelled, if the client spelled it otherwise; empty if it names nothing.
    pub usual_location: Option<Arc<[u8]>>,
    /// Whether nothing of it is left on the client's connection, though a body may have been.
    pub is_over: bool,
    /// Its body.
    pub body: SeenBody,
    /// Bytes of its head, as they came.
    pub head_bytes: u64,
    /// What the client of a TCP session has sent.
    pub raw: SeenBytes,
    /// Whether that is a request of HTTP, whose head then stands in [`Transaction::request`].
    pub raw_head: RawHead,
}

impl Asked {
    /// Whether its head is complete and valid.
    #[must_use]
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.stage == RequestStage::Complete
    }

    /// Whether what came is no valid request.
    #[must_use]
    #[inline]
    pub fn is_invalid(&self) -> bool {
        self.stage == RequestStage::Invalid
    }
}

/// What is known of the response beside its head.
#[derive(Debug, Default)]
pub struct Answered {
    /// Whether its head is complete.
    pub has_head: bool,
    /// The status that the client was sent, 0 before.
    pub status: u16,
    /// Bytes of its body that the client was sent.
    pub body_bytes: u64,
    /// What answered in place of a server, as the log names it (`<STATS>`).
    pub by: Option<&'static str>,
    /// What became of it in the cache of a program of VCL.
    pub cache: Note,
    /// Whether it is for the statistics page's own sake: for itself, its files and the numbers that it draws.
    pub is_for_page: bool,
    /// Its body.
    pub body: SeenBody,
    /// What the server of a TCP session has sent.
    pub raw: SeenBytes,
}

/// Where it goes, and what it took to get there.
#[derive(Debug, Default)]
pub struct Route {
    /// The backend.
    pub backend: Option<Arc<LiveProxy>>,
    /// The server.
    pub server: Option<Arc<LiveServer>>,
    /// This end's address of the server's connection.
    pub source: Option<SocketAddr>,
    /// The other end's.
    pub destination: Option<SocketAddr>,
    /// Which HTTP it speaks.
    pub protocol: Protocol,
    /// What TLS on it has agreed on.
    pub tls: Option<Arc<tls::Handshaken>>,
    /// How the request is bound to a server.
    pub persistence: Persistence,
    /// What became of the cookie that binds it.
    pub cookie: CookieState,
    /// Connection retries.
    pub retries: u32,
    /// Whether it went to another server than it was first given to.
    pub redispatched: bool,
    /// Whether the request was sent to a server before and is sent again.
    pub resent: bool,
    /// Requests before it in the server's queue.
    pub server_queue: u32,
    /// Requests before it in the backend's queue.
    pub backend_queue: u32,
}

/// What rules have said of it.
#[derive(Debug, Default)]
pub struct ByRules {
    /// `set-timeout server`.
    pub server_timeout: Cell<Option<Duration>>,
    /// How long a connection may take, where a program says so.
    pub connect_timeout: Cell<Option<Duration>>,
    /// `set-timeout tunnel`.
    pub tunnel_timeout: Cell<Option<Duration>>,
    /// Priority class and offset in queues.
    pub priority: Cell<(i64, i64)>,
    /// `strict-mode off`: what rules rewrite may fail without a word, until the set's end.
    pub soft_rewrites: bool,
    /// `disable-l7-retry`.
    pub l7_retry_disabled: Cell<bool>,
    /// Which connections a rule has given a `Connection: close`.
    pub closes: ClosedByRules,
    /// Where the rule stands that ended it.
    pub last_rule: RefCell<Option<haproxycfg::model::Location>>,
    /// What filters keep of it, if any does.
    pub filters: OnceCell<Box<StreamFilters>>,
    /// What `cache` sections have of it, if any has.
    pub caching: Option<Box<Caching>>,
    /// `use-service plugin.NAME`: what answers in a server's place.
    pub plugin: Option<Arc<PluginCall>>,
}

/// What the log needs beside all that.
#[derive(Debug, Default)]
pub struct LogState {
    /// `set-log-level`: `Some(None)` is silent.
    pub level: Cell<Option<Option<u8>>>,
    /// Number of the log line of the frontend.
    pub counter: u64,
    /// Whether it was logged before its end (`option logasap`).
    pub is_written: bool,
    /// `unique-id-format`, made at its first use.
    pub unique_id: OnceCell<Vec<u8>>,
    /// The client's cookie, if it is the one of `capture cookie`.
    pub client_cookie: Option<Box<[u8]>>,
    /// The server's.
    pub server_cookie: Option<Box<[u8]>>,
    /// Varnish's log of it, where a program of VCL answers.
    pub varnish: VarnishLog,
}

/// The request line as it came, for the log.
#[derive(Debug, Default)]
pub struct RequestLine {
    /// It.
    pub text: Vec<u8>,
    /// How many bytes of it are the method.
    pub method_len: usize,
}

impl RequestLine {
    /// Forgets it and keeps its memory.
    pub fn clear(&mut self) {
        let Self { text, method_len } = self;
        text.clear();
        *method_len = 0;
    }
}

/// One request and its response, or one TCP session.
///
/// What concerns one side or one purpose stands together, and a group begins anew as a whole: what was left over would be
/// another request's.
#[derive(Debug)]
pub struct Transaction {
    /// Its number in the process; given by [`Transaction::take_number`].
    pub number: u64,
    /// The configuration it runs under.
    pub instance: Arc<Instance>,
    /// The client's connection.
    pub client: Rc<ClientSide>,
    /// Variables: its own, and those of the session.
    pub variables: RefCell<StreamVariables>,
    /// Which worker runs it.
    pub worker: usize,
    /// The worker's clock.
    pub clock: Rc<Clock>,
    /// State of the random numbers of this transaction.
    pub random: Cell<u64>,
    /// Where it comes from: the client's, or what `set-src` says.
    pub source: Cell<Option<SocketAddr>>,
    /// Where the client's PROXY protocol or `set-dst` say that it goes to.
    pub changed_destination: Cell<Option<SocketAddr>>,
    /// Whether there are stick tables at all.
    pub has_tables: bool,
    /// What it tracks in stick tables and is to be remembered there.
    pub stick: RefCell<Option<Box<Stick>>>,
    /// The request's head; meaningful once `Asked::is_complete`.
    pub request: RequestHead,
    /// The response's head; meaningful from `Answered::has_head` on.
    pub response: ResponseHead,
    /// The request line as it came.
    pub line: RequestLine,
    /// Captures.
    pub captures: RefCell<Captures>,
    /// The request beside its head.
    pub asked: Asked,
    /// The response beside its head.
    pub answered: Answered,
    /// Where it goes.
    pub route: Route,
    /// What rules have said of it.
    pub by_rules: ByRules,
    /// What the log needs beside all that.
    pub log: LogState,
    /// When.
    pub timeline: Timeline,
    /// How it ended.
    pub ending: Ending,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
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
        let Heads { request, response, line } = worker.heads.take();
        let has_tables = !instance.tables.is_empty();
        let (source, changed_destination) = (client.source.clone(), client.changed_destination.clone());
        let variables = RefCell::new(client.variables.borrow().of_same_session());
        Self {
            number: 0,
            instance,
            client,
            variables,
            worker: worker.index,
            clock: worker.clock(),
            random: Cell::new(worker.random()),
            source,
            changed_destination,
            has_tables,
            stick: RefCell::new(None),
            request,
            response,
            line,
            captures: RefCell::default(),
            asked: Asked::default(),
            answered: Answered::default(),
            route: Route::default(),
            by_rules: ByRules::default(),
            log: LogState::default(),
            timeline: Timeline::default(),
            ending: Ending::Completed,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Begins the next transaction in the memory of one that is over.
    pub fn restart(&mut self, instance: &Arc<Instance>, client: &Rc<ClientSide>, random_seed: u64) {
        // NOTE: every field is named, so that none can be forgotten.
        let Self {
            number,
            instance: old_instance,
            client: old_client,
            variables,
            worker: _,
            clock: _,
            random,
            source,
            changed_destination,
            has_tables,
            stick,
            request,
            response,
            line,
            captures,
            asked,
            answered,
            route,
            by_rules,
            log,
            timeline,
            ending,
            bytes_in,
            bytes_out,
        } = self;
        if !Arc::ptr_eq(old_instance, instance) {
            *old_instance = Arc::clone(instance);
            // Its places of tables are those of the instance before.
            *stick.get_mut() = None;
            *has_tables = !instance.tables.is_empty();
        }
        if !Rc::ptr_eq(old_client, client) {
            *old_client = Rc::clone(client);
            *variables.get_mut() = client.variables.borrow().of_same_session();
        }
        variables.get_mut().start_request();
        // What nearly every request needs keeps its memory.
        request.clear();
        response.clear();
        line.clear();
        captures.get_mut().clear();
        *asked = Asked::default();
        *answered = Answered::default();
        *route = Route::default();
        *by_rules = ByRules::default();
        *log = LogState::default();
        *timeline = Timeline::default();
        *ending = Ending::Completed;
        (*number, *bytes_in, *bytes_out) = (0, 0, 0);
        random.set(random_seed);
        source.set(client.source.get());
        changed_destination.set(client.changed_destination.get());
    }

    /// Gives it its number. As in HAProxy, what was no request has one only if it is told of, and the silent end of a
    /// connection has none.
    pub fn take_number(&mut self) {
        self.number = self.instance.process.next_stream_id.fetch_add(1, Relaxed);
    }

    /// Notes for logs how much of both bodies moved, without any framing.
    pub fn note_bodies(&mut self, received: u64, sent: u64) {
        self.answered.body_bytes = sent;
        self.log.varnish.bodies_moved(received, sent);
    }

    /// Notes the request line for the log.
    pub fn note_line(&mut self, version: &[u8]) {
        let Self { request, line, asked, .. } = self;
        line.clear();
        line.text.extend_from_slice(request.method());
        line.method_len = line.text.len();
        for part in [&b" "[..], &asked.url_prefix, request.target(), b" ", version] {
            line.text.extend_from_slice(part);
        }
    }

    /// Keeps the target that the client asked for, before a backend goes on with another one.
    pub fn note_original_target(&mut self) {
        let Self { asked, request, .. } = self;
        asked.original_target.get_or_insert_with(|| request.target().into());
    }

    /// Gives back what the next transaction can use again.
    pub fn take_heads(&mut self) -> Heads {
        Heads {
            request: std::mem::take(&mut self.request),
            response: std::mem::take(&mut self.response),
            line: std::mem::take(&mut self.line),
        }
    }

    /// How long after its connection was accepted the transaction began.
    #[must_use]
    pub fn since_accept(&self) -> Duration {
        self.timeline.first_byte.map_or(Duration::ZERO, |begun| begun.saturating_duration_since(self.client.accepted))
    }

    /// Where the client wanted to go, after any change.
    #[must_use]
    #[inline]
    pub fn destination(&self) -> Option<SocketAddr> {
        self.changed_destination.get().or_else(|| self.client.original_destination())
    }

    /// Has what rules said of addresses go for the connection from now on.
    pub fn keep_addresses(&self) {
        self.client.source.set(self.source.get());
        self.client.changed_destination.set(self.changed_destination.get());
    }

    /// The settings of the frontend.
    #[must_use]
    pub fn frontend_settings(&self) -> &haproxycfg::model::Proxy {
        self.client.frontend.settings()
    }

    /// The settings of the backend, or of the frontend before there is one.
    #[must_use]
    pub fn backend_settings(&self) -> &haproxycfg::model::Proxy {
        self.route.backend.as_ref().unwrap_or(&self.client.frontend).settings()
    }

    /// The limits on the responses of a backend with these settings.
    #[must_use]
    #[inline]
    pub fn response_limits(&self, backend: &haproxycfg::model::Proxy) -> http::Limits {
        let limits = self.instance.limits(backend.options.accept_invalid_http_response);
        self.client.frontend.relaxed(limits, http::Sender::Server)
    }

    /// The limits on the head of a response of this server.
    #[inline]
    #[must_use]
    pub fn head_limits(&self, backend: &haproxycfg::model::Proxy, server: &LiveServer) -> http::Limits {
        let accept_legacy = server.config.accept_legacy_http_response;
        http::Limits { accept_legacy, ..self.response_limits(backend) }
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
        self.line.text.get(..self.line.method_len) == Some(b"HEAD")
    }
}
