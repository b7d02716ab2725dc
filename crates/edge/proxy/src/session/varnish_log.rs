//! What the wires tell Varnish's log: connections of clients and backends, bytes, and the ends of transactions. What a program of VCL
//! does is logged by `accelerator` itself.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use accelerator::{
    backend::{AcceptedBody, Recoding},
    client::Client,
    log::{Account, BackendConnection, CloseReason, Log, SessionLog},
    machine::{self, Backend},
};
use http::{BodyLength, HeaderId, ResponseHead};
use net::Stream;
use telemetry::vsl::VslTag;
use vsm::counters::Main;

use super::{
    fetch::{Answer, AnswerBody, HeadEnd, Unfetched, Unreachable},
    object_fetch::wall_clock,
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

    /// The response's head has been written, in so many bytes; the client's connection is kept or not.
    pub fn head_written(&mut self, response: &ResponseHead, keeps: bool, bytes: usize) {
        if !self.log.is_on() {
            return;
        }
        self.log.field(VslTag::RespHeader, b"Connection", if keeps { b"keep-alive" } else { b"close" });
        if let Some(coding) = response.headers.first_known(HeaderId::TransferEncoding) {
            self.log.field(VslTag::RespHeader, b"Transfer-Encoding", coding);
        }
        self.account.response_head += bytes as u64;
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
        Some(Rc::new(SessionLog::begin(&sink, number, says, (opened, descriptor), wall_clock)))
    };
    side.session_log.get_or_init(begin).clone()
}

/// Has a request logged that has just been received.
pub fn begin(worker: &Worker, transaction: &Transaction, client: &mut Client) {
    let Some(sink) = worker.log_sink() else { return };
    if let Some(session) = session(worker, &transaction.client) {
        session.link(client.xid());
        if !transaction.asked.wants_keep_alive {
            session.closes(CloseReason::ReqClose);
        }
    }
    let first_byte = transaction.timeline.first_byte.unwrap_or_else(|| worker.now());
    client.log_to(Some(&sink), "rxreq", wall_clock_at(worker, first_byte));
}

/// Takes over the log of a request whose response is about to go out.
pub fn response(transaction: &mut Transaction, client: &mut machine::Client, closes: bool) {
    let Some(client) = client.program() else { return };
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
    let (Some(log), AnswerBody::Server { upstream, .. }) = (backend.log(), &answer.body) else { return };
    let connected = exchange.timeline.connected.unwrap_or_else(|| worker.now());
    let connection = BackendConnection {
        name,
        descriptor: descriptor(&upstream.connection.wire.stream),
        ends: (exchange.route.destination, exchange.route.source),
        is_reused: upstream.reused,
    };
    log.backend_opened(connection, wall_clock_at(worker, connected));
}

/// Notes the connection of a request that got no response.
pub fn left_alone(worker: &Worker, backend: &mut Backend, name: &str, exchange: &Transaction, why: &Unfetched) {
    let Some(log) = backend.log() else { return };
    match why {
        Unfetched::NoResponse { reused, .. } => {
            let connected = exchange.timeline.connected.unwrap_or_else(|| worker.now());
            let ends = (exchange.route.destination, exchange.route.source);
            let connection = BackendConnection { name, descriptor: -1, ends, is_reused: *reused };
            log.backend_opened(connection, wall_clock_at(worker, connected));
        }
        Unfetched::Unreachable(Unreachable::Refused(_) | Unreachable::ConnectTimeout) => log.count(Main::backend_fail),
        Unfetched::Unreachable(Unreachable::QueueFull | Unreachable::QueueTimeout) => log.count(Main::backend_busy),
        Unfetched::Unreachable(Unreachable::NoServer) => log.count(Main::backend_unhealthy),
        _ => {}
    }
}

fn descriptor(stream: &Stream) -> i32 {
    stream.as_fd().as_raw_fd()
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
}

impl<'l> Fetched<'l> {
    /// A body is about to come, from a backend or from elsewhere.
    pub fn begin(backend: &'l mut Backend, account: Account, answer: Option<&Answer<'_>>, body: &AcceptedBody) -> Self {
        let length = answer.filter(|_| matches!(body, AcceptedBody::Backend(_))).map(|answer| answer.length);
        let recoding = if let AcceptedBody::Backend(recoding) = body { *recoding } else { Recoding::None };
        Self { log: backend.log(), account, length, recoding }
    }

    /// Whether it is delivered while it comes.
    pub fn streams(&mut self, streams: bool) {
        if let (Some(log), Some(length)) = (&mut self.log, self.length) {
            log.fetch_body(length, streams);
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
        log.backend_closed(None);
        if length.is_none() {
            log.count(Main::fetch_failed);
        } else if self.length.is_some() {
            log.timestamp("BerespBody", wall_clock());
        }
        log.end_fetch(self.account, length);
    }
}
