//! What the wires tell Varnish's log: connections of clients and backends, bytes, and the ends of transactions. What a program of VCL
//! does is logged by `accelerator` itself.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use accelerator::{
    backend::{AcceptedBody, Recoding},
    client::Client,
    log::{Account, BackendConnection, CloseReason, Log, SessionLog},
    machine::{self, Backend},
};
use cache::esi::{Note, Severity};
use http::{BodyLength, HeaderId, ResponseHead};
use net::Stream;
use telemetry::vsl::VslTag;
use vsm::counters::{Counters, Main, Vbe};

use super::{
    body::Sink as _,
    fetch::{Answer, AnswerBody, HeadEnd, Unfetched, Unreachable, Upstream},
    object_fetch::{Origin, wall_clock},
    transaction::{ClientSide, Transaction},
};
use crate::worker::Worker;

/// The log of a request that a program of VCL answers, while its response goes out.
#[derive(Debug, Default)]
pub struct VarnishLog {
    log: Log,
    account: Account,
}

impl VarnishLog {
    /// Takes over the log of a request whose response is about to go out.
    pub fn take(&mut self, client: &mut Client) {
        self.log = client.take_log();
    }

    /// A head of so many bytes has been sent.
    pub fn head_sent(&mut self, bytes: usize) {
        self.account.response_head += bytes as u64;
    }

    /// The response's head has been written, in so many bytes; the client's connection is kept or not.
    pub fn head_written(&mut self, response: &ResponseHead, keeps: bool, bytes: usize) {
        self.account.response_head += bytes as u64;
        if !self.log.is_on() {
            return;
        }
        self.log.field(VslTag::RespHeader, b"Connection", if keeps { b"keep-alive" } else { b"close" });
        if let Some(coding) = response.headers.first_known(HeaderId::TransferEncoding) {
            self.log.field(VslTag::RespHeader, b"Transfer-Encoding", coding);
        }
    }

    /// Adds the bodies to the account of a fetch that was for this request alone.
    pub fn add_bodies(&self, account: &mut Account) {
        account.request_body += self.account.request_body;
        account.response_body += self.account.response_body;
    }

    /// The body has been decompressed, so many bytes to so many.
    pub fn gunzipped(&mut self, bytes: Option<(u64, u64)>) {
        if let Some((compressed, plain)) = bytes {
            self.log.count(Main::n_gunzip);
            self.log.gzip("U D", (compressed, plain), compressed);
        }
    }

    /// So much of both bodies has been moved.
    pub fn bodies_moved(&mut self, received: u64, sent: u64) {
        self.account.request_body += received;
        self.account.response_body += sent;
    }
}

impl Transaction {
    /// The request is over, and its response too.
    pub(super) fn end_varnish_log(&mut self) {
        let VarnishLog { log, account } = &mut self.log.varnish;
        if log.is_on() {
            log.end_request(Account { request_head: self.asked.head_bytes, ..*account }, wall_clock());
        }
    }
}

/// The log of a client's connection, which begins when it is first asked for.
pub fn session(worker: &Worker, side: &ClientSide) -> Option<Rc<SessionLog>> {
    let begin = || {
        let sink = worker.log_sink()?;
        let number = worker.shared.process.transaction_numbers.fetch_add(1, Relaxed);
        let listener = side.frontend.listeners.get(side.listener).map_or("-", |listener| &*listener.name);
        let end = |address: Option<std::net::SocketAddr>| {
            address.map_or_else(|| "0.0.0.0 0".to_owned(), |address| format!("{} {}", address.ip(), address.port()))
        };
        let (client, server) = (end(side.original_source), end(side.original_destination()));
        let opened = side.accepted_at.as_secs_f64();
        let says = format_args!("{client} {listener} {server}");
        let descriptor = side.stream.as_deref().map_or(-1, descriptor);
        let comes_first = side.frontend.settings().binds.get(side.listener).is_some_and(|bind| bind.accept_proxy);
        let transport = if comes_first { "PROXY" } else { "HTTP/1" };
        Some(Rc::new(SessionLog::begin(&sink, (number, transport), says, (opened, descriptor), wall_clock)))
    };
    side.session_log.get_or_init(begin).clone()
}

/// Notes why a connection is about to end.
pub fn closes(side: &ClientSide, reason: CloseReason) {
    if let Some(Some(session)) = side.session_log.get() {
        session.closes(reason);
    }
}

/// Notes something about a connection.
pub fn note(side: &ClientSide, tag: VslTag, text: &str) {
    if let Some(Some(session)) = side.session_log.get() {
        session.write(tag, format_args!("{text}"));
    }
}

/// Has a request logged that has just been received.
pub fn begin(worker: &Worker, transaction: &Transaction, client: &mut Client) {
    let Some(sink) = worker.log_sink() else { return };
    if let Some(session) = session(worker, &transaction.client) {
        session.link(client.xid());
        if !transaction.asked.wants_keep_alive {
            let is_old = transaction.asked.version == http::Version::Http10
                && !transaction.request.headers.contains_known(HeaderId::Connection);
            session.closes(if is_old { CloseReason::ReqHttp10 } else { CloseReason::ReqClose });
        }
    }
    let first_byte = transaction.timeline.first_byte.unwrap_or_else(|| worker.now());
    client.log_to(Some(&sink), "rxreq", wall_clock_at(worker, first_byte));
}

/// Notes what came instead of a request, and what was answered.
pub fn refused(worker: &Worker, transaction: &Transaction, bytes: &[u8], status: u16) {
    let Some(sink) = worker.log_sink().filter(|_| transaction.client.frontend.accelerator.is_some()) else { return };
    let Some(session) = session(worker, &transaction.client) else { return };
    let number = worker.shared.process.transaction_numbers.fetch_add(1, Relaxed);
    session.link(number);
    session.closes(CloseReason::RxJunk);
    let mut log = Log::request(Some(&sink), number, session.number(), "rxreq");
    let first_byte = transaction.timeline.first_byte.unwrap_or_else(|| worker.now());
    log.timestamp("Start", wall_clock_at(worker, first_byte));
    log.timestamp("Req", wall_clock());
    log.count(Main::client_req);
    if status == 400 {
        log.count(Main::client_req_400);
    }
    log.end_refused(bytes, status, transaction.log.varnish.account.response_head);
}

/// The body of a request that was to be kept has not come, or is too large: the request is over.
pub fn body_lost(transaction: &Transaction, client: &mut machine::Client) {
    closes(&transaction.client, CloseReason::RxBody);
    if let Some(client) = client.program() {
        let mut log = client.take_log();
        log.record(VslTag::FetchError, b"straight insufficient bytes");
        log.end_request(Account { request_head: transaction.asked.head_bytes, ..Account::default() }, wall_clock());
    }
}

/// Takes over the log of a request whose response is about to go out.
pub fn response(transaction: &mut Transaction, client: &mut machine::Client, closes: bool) {
    let Some(client) = client.program() else { return };
    transaction.answered.cache = client.note();
    if let Some(Some(session)) = transaction.client.session_log.get() {
        if client.has_failed() {
            session.closes(CloseReason::VclFailure);
        } else if closes && transaction.asked.wants_keep_alive {
            session.closes(CloseReason::RespClose);
        }
    }
    transaction.log.varnish.take(client);
}

/// A time of this process by the calendar.
fn wall_clock_at(worker: &Worker, when: Instant) -> f64 {
    wall_clock() - worker.now().saturating_duration_since(when).as_secs_f64()
}

/// Notes the connection on which a request went to a backend.
pub fn reached(worker: &Worker, backend: &mut Backend, name: &str, exchange: &Transaction, answer: &Answer<'_>) {
    let counters = counters(worker, backend, name);
    let (Some(log), AnswerBody::Server { upstream, .. }) = (backend.log(), &answer.body) else { return };
    log.asks(counters);
    let connected = exchange.timeline.connected.unwrap_or_else(|| worker.now());
    let connection = BackendConnection {
        name,
        descriptor: upstream.connection.codec.stream().map_or(-1, |stream| descriptor(stream)),
        ends: (exchange.route.destination, exchange.route.source),
        is_reused: upstream.reused,
    };
    if exchange.route.resent {
        // NOTE: a connection that was kept had been closed by the backend; nothing of it is known any more.
        log.backend_opened(BackendConnection { is_reused: true, ..connection }, wall_clock_at(worker, connected));
        log.backend_gone();
    }
    log.backend_opened(connection, wall_clock_at(worker, connected));
}

/// The published counters of a backend.
fn counters(worker: &Worker, backend: &Backend, name: &str) -> Option<Arc<Counters<Vbe>>> {
    worker.shared.process.published()?.backend(backend.program()?, name)
}

/// Notes the connection of a request that got no response; gives what was sent.
#[must_use]
pub fn left_alone(
    worker: &Worker,
    backend: &mut Backend,
    name: &str,
    exchange: &Transaction,
    why: &Unfetched,
) -> Account {
    let counters = counters(worker, backend, name);
    let Some(log) = backend.log() else { return Account::default() };
    log.asks(counters);
    if let (Some(counters), Unfetched::Unreachable(why)) = (log.backend_counters(), why) {
        count_unreachable(counters, why);
    }
    match why {
        Unfetched::NoResponse { reused, .. } => {
            let connected = exchange.timeline.connected.unwrap_or_else(|| worker.now());
            let ends = (exchange.route.destination, exchange.route.source);
            let connection = BackendConnection { name, descriptor: -1, ends, is_reused: *reused };
            log.backend_opened(connection, wall_clock_at(worker, connected));
            return Account { response_head: 0, ..account_of(exchange) };
        }
        Unfetched::Unreachable(Unreachable::Refused(_) | Unreachable::Handshake(_) | Unreachable::ConnectTimeout) => {
            log.count(Main::backend_fail)
        }
        Unfetched::Unreachable(Unreachable::QueueFull | Unreachable::QueueTimeout) => log.count(Main::backend_busy),
        Unfetched::Unreachable(Unreachable::NoServer) => log.count(Main::backend_unhealthy),
        _ => {}
    }
    Account::default()
}

/// Counts why no connection to a backend was to be had.
fn count_unreachable(counters: &Counters<Vbe>, why: &Unreachable) {
    let reason = match why {
        Unreachable::NoServer => Vbe::unhealthy,
        Unreachable::QueueFull | Unreachable::QueueTimeout => Vbe::busy,
        Unreachable::ConnectTimeout => Vbe::fail_etimedout,
        Unreachable::Handshake(_) => Vbe::fail_other,
        Unreachable::Refused(error) => match rustix::io::Errno::from_io_error(error) {
            Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => Vbe::fail_eacces,
            Some(rustix::io::Errno::ADDRNOTAVAIL) => Vbe::fail_eaddrnotavail,
            Some(rustix::io::Errno::CONNREFUSED) => Vbe::fail_econnrefused,
            Some(rustix::io::Errno::NETUNREACH | rustix::io::Errno::HOSTUNREACH) => Vbe::fail_enetunreach,
            Some(rustix::io::Errno::TIMEDOUT) => Vbe::fail_etimedout,
            _ => Vbe::fail_other,
        },
        _ => return,
    };
    counters.add(reason, 1);
}

/// A fetch ends with nothing.
pub fn abandoned(backend: &mut Backend, account: Account) {
    if let Some(log) = backend.log() {
        log.backend_closed(Some(CloseReason::RespClose));
        log.end_fetch(account, None);
    }
}

/// The logs of a pipe: the client's request and what goes to the backend.
pub struct Piped {
    log: Log,
    /// Bytes of the heads: as it came, and as it goes.
    heads: (u64, u64),
    /// Bytes that had been counted before.
    before: (u64, u64),
}

impl Piped {
    /// A connection to the backend stands, with the head of the request about to go out.
    pub fn begin(
        worker: &Worker,
        transaction: &mut Transaction,
        (log, origin, name): (Log, &Origin, &str),
        upstream: &Upstream<'_>,
    ) -> Self {
        let mut piped = Self {
            log,
            heads: (transaction.asked.head_bytes, upstream.connection.codec.unsent_len() as u64),
            before: (transaction.bytes_in, transaction.bytes_out),
        };
        if piped.log.is_on() {
            let published = worker.shared.process.published();
            let counters =
                published.zip(origin.program()).and_then(|(published, program)| published.backend(program, name));
            piped.log.asks(counters);
            let connection = BackendConnection {
                name,
                descriptor: upstream.connection.codec.stream().map_or(-1, |stream| descriptor(stream)),
                ends: (transaction.route.destination, transaction.route.source),
                is_reused: upstream.reused,
            };
            piped.log.backend_opened(connection, wall_clock());
            transaction.log.varnish.log.timestamp("Pipe", wall_clock());
        }
        piped
    }

    /// Both sides have ended.
    pub fn end(mut self, transaction: &mut Transaction) {
        let (head, to_backend) = self.heads;
        let (up, down) = (transaction.bytes_in - self.before.0, transaction.bytes_out - self.before.1);
        if let Some(counters) = self.log.backend_counters() {
            counters.add(Vbe::pipe_hdrbytes, to_backend);
            counters.add(Vbe::pipe_out, up);
            counters.add(Vbe::pipe_in, down);
        }
        self.log.backend_closed(Some(CloseReason::TxPipe));
        self.log.end_fetch(Account::default(), None);
        transaction.log.varnish.log.end_pipe([head, to_backend, up, down], wall_clock());
        if let Some(Some(session)) = transaction.client.session_log.get() {
            session.closes(CloseReason::TxPipe);
        }
    }
}

fn descriptor(stream: &Stream) -> i32 {
    stream.number().unwrap_or(-1)
}

/// Why a fetch failed, in Varnish's words.
pub fn words(name: &str, why: &Unfetched) -> String {
    match why {
        Unfetched::Unreachable(why) => match why {
            Unreachable::NoServer => format!("backend {name}: unhealthy"),
            Unreachable::QueueFull | Unreachable::QueueTimeout => format!("backend {name}: busy"),
            Unreachable::Refused(error) => {
                let number = error.raw_os_error().unwrap_or(0);
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                format!("backend {name}: fail errno {number} ({text})")
            }
            Unreachable::ConnectTimeout => format!("backend {name}: fail errno 110 (Connection timed out)"),
            Unreachable::Handshake(failure) => format!("backend {name}: fail TLS ({failure})"),
            other => format!("backend {name}: {other:?}"),
        },
        Unfetched::NoResponse { end, .. } => match end {
            HeadEnd::Empty => "HTC eof (-1)".to_owned(),
            HeadEnd::Broken => "backend closed".to_owned(),
            HeadEnd::Junk => "http format error".to_owned(),
            HeadEnd::Timeout => "first byte timeout".to_owned(),
            other => format!("no response: {other:?}"),
        },
        Unfetched::Refused { .. } => "refused by rules".to_owned(),
    }
}

/// The heads of a request that a backend has answered.
pub fn account_of(exchange: &Transaction) -> Account {
    // Start line with its two spaces and line end, fields with a colon, a space and a line end, an empty line.
    const START: usize = 4;
    const FIELD: usize = 4;
    const END: usize = 2;
    let (request, response) = (&exchange.request, &exchange.response);
    let line = request.method().len() + request.target().len() + request.version_bytes().len() + START;
    let status = response.version_bytes().len() + "200".len() + response.reason().len() + START;
    let fields = |headers: &http::Headers| headers.text_len() + headers.len() * FIELD + END;
    Account {
        request_head: (line + fields(&request.headers)) as u64,
        response_head: (status + fields(&response.headers)) as u64,
        ..Account::default()
    }
}

/// A response is about to be passed on; whether its connection goes on behind it.
pub fn pass_begins(backend: &mut Backend, answer: &Answer<'_>) -> bool {
    if let Some(log) = backend.log() {
        log.fetch_body(answer.length, true);
    }
    matches!(answer.body, AnswerBody::Server { keeps: true, .. })
}

/// A response that was passed on has gone out.
pub fn end_pass(backend: &mut Backend, account: Account, keeps: bool) {
    if let Some(log) = backend.log() {
        log.backend_closed(if keeps { None } else { Some(CloseReason::RespClose) });
        log.timestamp("BerespBody", wall_clock());
        log.end_fetch(account, Some(account.response_body));
    }
}

/// The log of a fetch while its body comes.
pub struct Fetched<'l> {
    log: Option<&'l mut Log>,
    account: Account,
    length: Option<BodyLength>,
    recoding: Recoding,
    /// Whether the body is made here, instead of what the backend sent.
    is_made: bool,
    /// Whether the body is that of the object before.
    is_stale: bool,
}

impl<'l> Fetched<'l> {
    /// A body is about to come, from a backend or from elsewhere.
    pub fn begin(backend: &'l mut Backend, account: Account, answer: Option<&Answer<'_>>, body: &AcceptedBody) -> Self {
        let length = answer.filter(|_| matches!(body, AcceptedBody::Backend(_))).map(|answer| answer.length);
        let recoding = if let AcceptedBody::Backend(recoding) = body { *recoding } else { Recoding::None };
        let is_made = matches!(body, AcceptedBody::Made(_));
        let is_stale = matches!(body, AcceptedBody::Stale(_));
        Self { log: backend.log(), account, length, recoding, is_made, is_stale }
    }

    /// Whether it is delivered while it comes.
    pub fn streams(&mut self, streams: bool) {
        if let (Some(log), Some(length)) = (&mut self.log, self.length) {
            log.fetch_body(length, streams);
        }
    }

    /// What is wrong with the page that has come.
    pub fn page_notes(&mut self, notes: &[Note]) {
        if let Some(log) = &mut self.log {
            for note in notes {
                log.count(if note.severity == Severity::Error { Main::esi_errors } else { Main::esi_warnings });
                log.write(VslTag::ESI_xmlerror, format_args!("{note}"));
            }
        }
    }

    /// It has come, or has broken off.
    pub fn pulled(&mut self, bytes: u64, is_reusable: bool, length: Option<u64>) {
        let is_whole = length.is_some();
        self.account.response_body += bytes;
        if let Some(log) = &mut self.log {
            let both = (bytes, length.unwrap_or(0));
            match self.recoding {
                Recoding::Gzip if is_whole => log.gzip("G F", both, both.1),
                Recoding::Gunzip if is_whole => log.gzip("U F", both, both.0),
                _ => {}
            }
            if !is_whole {
                log.record(
                    VslTag::FetchError,
                    match self.length {
                        Some(BodyLength::Exact(_)) => b"straight insufficient bytes",
                        Some(BodyLength::Chunked) => b"chunked read err",
                        _ => b"eof socket fail",
                    },
                );
            }
            log.backend_closed(match (is_reusable, is_whole) {
                (true, _) => None,
                (false, true) => Some(CloseReason::RespClose),
                (false, false) => Some(CloseReason::RxBody),
            });
        }
    }

    /// That is all; `length` is that of the object's body, if it is whole.
    pub fn end(self, length: Option<u64>) {
        let Some(log) = self.log else { return };
        // A response that was not modified has its connection still.
        log.backend_closed(if self.is_made { Some(CloseReason::RespClose) } else { None });
        if length.is_none() {
            log.count(Main::fetch_failed);
        } else if self.length.is_some() || self.is_stale {
            log.timestamp("BerespBody", wall_clock());
        }
        log.end_fetch(self.account, length);
    }
}
