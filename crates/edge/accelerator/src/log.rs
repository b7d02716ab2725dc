//! What a transaction writes into Varnish's log (VSL), and what it counts.
//!
//! A [`Log`] is one transaction: records are gathered in its buffer and go into the shared memory at its end, as one batch. Where
//! nothing is published it is empty, and recording costs a test. The clock is handed in like everywhere in this crate.

mod session;

use std::{
    cell::RefCell,
    fmt::{self, Write as _},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use http::{BodyLength, Headers, RequestHead, ResponseHead};
use telemetry::vsl::VslTag;
use vcl::{action::Action, run::Answer, subroutine::Subroutine};
use vsm::{
    counters::{Counters, Main, Tally, Vbe},
    log::{LONG_ROOM, LogBuffer, LogId, LogWriter, Record, SHORT_ROOM, microseconds},
};

pub use session::{CloseReason, SessionLog};

/// Transactions whose memory a thread keeps for the next ones.
const SPARE_MAX: usize = 64;
/// Where the transactions of a thread go.
#[derive(Debug)]
pub struct LogSink {
    writer: LogWriter,
    tally: Arc<Tally<Main>>,
    limits: LogLimits,
    /// Where records are made that go out on their own.
    single: RefCell<LogBuffer>,
    #[expect(clippy::vec_box, reason = "a `Log` is a pointer wide, because it moves along with its transaction")]
    spare: RefCell<Vec<Box<Open>>>,
}

/// How much is gathered.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// `vsl_buffer`: bytes of records before they go out.
    pub buffer: usize,
    /// `vsl_reclen`: bytes of a record.
    pub record: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { buffer: 16 << 10, record: 255 }
    }
}

impl LogSink {
    /// The sink of a thread.
    #[must_use]
    pub fn new(writer: LogWriter, tally: Arc<Tally<Main>>, limits: LogLimits) -> Rc<Self> {
        let single = LogBuffer::new(LogId::NONE, limits.buffer).with_record_bytes(limits.record);
        Rc::new(Self { writer, tally, limits, single: RefCell::new(single), spare: RefCell::default() })
    }

    /// Writes a record on its own, at once.
    fn single(&self, tag: VslTag, id: LogId, text: impl FnOnce(&mut Record<'_, LONG_ROOM>)) {
        let mut buffer = self.single.borrow_mut();
        buffer.reuse(id);
        if let Some(mut record) = buffer.compose(&self.writer, tag) {
            text(&mut record);
            record.end();
            buffer.flush_singly(&self.writer);
        }
    }

    /// Writes a link to a request on its own, at once.
    fn link_request(&self, from: u64, number: u64, reason: &[u8]) {
        self.single(VslTag::Link, LogId::client(vxid(from)), |record| {
            record.push(b"req ");
            record.push_number(u64::from(vxid(number)));
            record.push(reason);
        });
    }

    /// Says that a page's request gives rise to one for what it includes. The page's own log may be closed.
    pub fn link(&self, page: u64, number: u64) {
        self.link_request(page, number, b" esi");
    }

    /// Adds to a counter.
    pub fn count(&self, counter: Main, amount: u64) {
        self.tally.add(counter, amount);
    }

    /// Takes from a gauge.
    pub fn uncount(&self, counter: Main, amount: u64) {
        self.tally.subtract(counter, amount);
    }

    fn open(self: &Rc<Self>, id: LogId) -> Box<Open> {
        let mut open = self.spare.borrow_mut().pop().unwrap_or_else(|| {
            let buffer = LogBuffer::new(id, self.limits.buffer).with_record_bytes(self.limits.record);
            Box::new(Open { sink: None, buffer, first_us: 0, last: 0.0, last_us: 0, backend: None, counters: None })
        });
        (open.first_us, open.last, open.backend, open.counters) = (0, 0.0, None, None);
        open.buffer.reuse(id);
        open.sink = Some(Rc::clone(self));
        open
    }
}

/// Number of a transaction as the log has it.
fn vxid(number: u64) -> u32 {
    // The number of a client's request, of a session or of a fetch: 30 bits.
    (number & 0x3fff_ffff) as u32
}

/// The log of a transaction that runs.
#[derive(Debug)]
struct Open {
    sink: Option<Rc<LogSink>>,
    buffer: LogBuffer,
    /// When it began, in microseconds.
    first_us: u64,
    /// Its last timestamp, in seconds and in microseconds.
    last: f64,
    last_us: u64,
    /// The connection to the backend, as records name it.
    backend: Option<String>,
    /// What is published of the backend that was asked.
    counters: Option<Arc<Counters<Vbe>>>,
}

/// A connection to a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendConnection<'n> {
    /// The backend's name.
    pub name: &'n str,
    /// Its descriptor.
    pub descriptor: i32,
    /// The backend's end and this one; none for a unix socket.
    pub ends: (Option<SocketAddr>, Option<SocketAddr>),
    /// Whether it had been used before.
    pub is_reused: bool,
}

/// Bytes of a transaction's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The request's head.
    pub request_head: u64,
    /// Its body.
    pub request_body: u64,
    /// The response's head.
    pub response_head: u64,
    /// Its body.
    pub response_body: u64,
}

impl Account {
    /// The sum of two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            request_head: self.request_head + other.request_head,
            request_body: self.request_body + other.request_body,
            response_head: self.response_head + other.response_head,
            response_body: self.response_body + other.response_body,
        }
    }
}

/// The log of a transaction, or nothing. Dropping it ends it.
#[derive(Debug, Default)]
pub struct Log(Option<Box<Open>>);

impl Log {
    /// A client's request: `parent` is the session or request that it comes from, `reason` how (`rxreq`, `esi`).
    #[must_use]
    pub fn request(sink: Option<&Rc<LogSink>>, number: u64, parent: u64, reason: &str) -> Self {
        let Some(sink) = sink else { return Self::default() };
        let mut log = Self(Some(sink.open(LogId::client(vxid(number)))));
        log.begin("req", parent, reason);
        log
    }

    /// A fetch that this request gives rise to (`fetch`, `bgfetch`, `pass`, `pipe`). It is linked to here.
    #[must_use]
    pub fn fetch(&mut self, number: u64, reason: &str) -> Self {
        let Some(open) = &self.0 else { return Self::default() };
        let Some(sink) = &open.sink else { return Self::default() };
        let parent = u64::from(open.buffer.id().vxid());
        let mut log = Self(Some(sink.open(LogId::backend(vxid(number)))));
        log.begin("bereq", parent, reason);
        self.link("bereq", number, reason);
        log
    }

    fn begin(&mut self, kind: &str, parent: u64, reason: &str) {
        self.numbered(VslTag::Begin, kind, parent, reason);
    }

    /// Says which transaction this one gives rise to.
    pub fn link(&mut self, kind: &str, number: u64, reason: &str) {
        self.numbered(VslTag::Link, kind, number, reason);
    }

    /// A record about another transaction.
    fn numbered(&mut self, tag: VslTag, kind: &str, number: u64, reason: &str) {
        if let Some(mut record) = self.compose::<SHORT_ROOM>(tag) {
            record.push(kind.as_bytes());
            record.push(b" ");
            record.push_number(u64::from(vxid(number)));
            record.push(b" ");
            record.push(reason.as_bytes());
            record.end();
        }
    }

    /// A client's address and port, and the listener that it came to.
    pub fn request_start(&mut self, client: Option<SocketAddr>, listener: &str) {
        if let Some(mut record) = self.compose::<LONG_ROOM>(VslTag::ReqStart) {
            match client {
                Some(client) => {
                    record.push_address(client.ip());
                    record.push(b" ");
                    record.push_number(u64::from(client.port()));
                }
                None => record.push(b"0.0.0.0 0"),
            }
            record.push(b" ");
            record.push(listener.as_bytes());
            record.end();
        }
    }

    /// Where its records go, if anywhere.
    #[must_use]
    pub fn sink(&self) -> Option<&Rc<LogSink>> {
        self.0.as_ref()?.sink.as_ref()
    }

    /// Whether anything is recorded.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a record in so much room, if there is anywhere to put it.
    #[inline]
    fn compose<const ROOM: usize>(&mut self, tag: VslTag) -> Option<Record<'_, ROOM>> {
        let open = self.0.as_mut()?;
        open.buffer.compose(&open.sink.as_ref()?.writer, tag)
    }

    /// A record.
    #[inline]
    pub fn record(&mut self, tag: VslTag, text: &[u8]) {
        if let Some(open) = &mut self.0
            && let Some(sink) = &open.sink
        {
            open.buffer.record(&sink.writer, tag, text);
        }
    }

    /// A record in several pieces.
    #[inline]
    pub fn pieces(&mut self, tag: VslTag, pieces: &[&[u8]]) {
        if let Some(open) = &mut self.0
            && let Some(sink) = &open.sink
        {
            open.buffer.pieces(&sink.writer, tag, pieces);
        }
    }

    /// A record that is formatted, if there is anywhere to put it.
    pub fn write(&mut self, tag: VslTag, text: fmt::Arguments<'_>) {
        if let Some(mut record) = self.compose::<LONG_ROOM>(tag) {
            // A record takes what fits.
            let _ = record.write_fmt(text);
            record.end();
        }
    }

    /// A field of a message: `name: value`.
    #[inline]
    pub fn field(&mut self, tag: VslTag, name: &[u8], value: &[u8]) {
        if let Some(open) = &mut self.0
            && let Some(sink) = &open.sink
        {
            open.buffer.field(&sink.writer, tag, name, value);
        }
    }

    /// All fields of a message.
    pub fn fields(&mut self, tag: VslTag, headers: &Headers) {
        let Some(open) = &mut self.0 else { return };
        let Some(sink) = &open.sink else { return };
        for line in headers.lines() {
            match line {
                Ok(line) => open.buffer.record(&sink.writer, tag, line),
                Err((name, value)) => open.buffer.field(&sink.writer, tag, name, value),
            }
        }
    }

    /// A request's head.
    pub fn request_head(&mut self, tags: MessageTags, head: &RequestHead) {
        self.record(tags.method, head.method());
        self.record(tags.url, head.target());
        self.record(tags.protocol, head.version_bytes());
        self.fields(tags.header, &head.headers);
    }

    /// A response's head.
    pub fn response_head(&mut self, tags: MessageTags, head: &ResponseHead) {
        if !self.is_on() {
            return;
        }
        self.response_line(tags, head);
        self.fields(tags.header, &head.headers);
    }

    /// The start of a response that has been made anew.
    pub fn response_line(&mut self, tags: MessageTags, head: &ResponseHead) {
        self.record(tags.protocol, head.version_bytes());
        self.status(tags, head.status());
        self.record(tags.reason, head.reason());
    }

    /// The object that answers: its number, its seconds of life left, of grace and keep, and how much of it has come if it has not
    /// come whole (with its length, where that is known).
    pub fn hit(&mut self, number: u64, seconds: [f64; 3], progress: Option<(u64, Option<u64>)>) {
        let Some(mut record) = self.compose::<SHORT_ROOM>(VslTag::Hit) else { return };
        record.push_number(u64::from(vxid(number)));
        for seconds in seconds {
            record.push(if seconds < 0.0 { b" -" } else { b" " });
            record.push_seconds(seconds.abs());
        }
        if let Some((arrived, length)) = progress {
            record.push(b" ");
            record.push_number(arrived);
            if let Some(length) = length {
                record.push(b" ");
                record.push_number(length);
            }
        }
        record.end();
    }

    /// The status of a response.
    pub fn status(&mut self, tags: MessageTags, status: u16) {
        let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
        self.record(tags.status, &[digit(100), digit(10), digit(1)]);
    }

    /// A subroutine of VCL begins.
    pub fn call(&mut self, subroutine: Subroutine) {
        self.record(VslTag::VCL_call, subroutine.log_name());
    }

    /// What a subroutine has answered.
    pub fn answered(&mut self, answer: &Answer<'_>) {
        if answer.action == Action::Fail {
            self.record(VslTag::VCL_Error, answer.text.unwrap_or(b"Failed from VCL"));
        }
        self.returned(answer.action);
    }

    /// What a subroutine has answered, or stands for its answer.
    pub fn returned(&mut self, action: Action) {
        self.record(VslTag::VCL_return, action.name().as_bytes());
    }

    /// When a stage was reached, in seconds since 1970. The first one is when the transaction began.
    pub fn timestamp(&mut self, event: &str, now: f64) {
        let Some(open) = &mut self.0 else { return };
        let now_us = microseconds(now);
        if open.last == 0.0 {
            (open.first_us, open.last_us) = (now_us, now_us);
        }
        let (first, last) = (open.first_us, open.last_us);
        (open.last, open.last_us) = (now, now_us);
        if let Some(mut record) = self.compose::<SHORT_ROOM>(VslTag::Timestamp) {
            record.push(event.as_bytes());
            record.push(b": ");
            record.push_us(now_us);
            // NOTE: clocks may be set back; no time is negative here.
            for before in [first, last] {
                record.push(b" ");
                record.push_us(now_us.saturating_sub(before));
            }
            record.end();
        }
    }

    /// The last timestamp.
    #[must_use]
    pub fn last_timestamp(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |open| open.last)
    }

    /// Goes on as another transaction, after a restart or for a retry.
    pub fn change_number(&mut self, number: u64, kind: &str, reason: &str) {
        if let Some(open) = &mut self.0
            && let Some(sink) = &open.sink
        {
            let id = LogId::client(vxid(number));
            let id = if kind == "bereq" { LogId::backend(id.vxid()) } else { id };
            open.buffer.change_id(&sink.writer, id, kind, reason);
        }
        let last = self.last_timestamp();
        self.timestamp("Start", last);
    }

    /// Which backend is asked: what it does is counted there.
    pub fn asks(&mut self, counters: Option<Arc<Counters<Vbe>>>) {
        if let Some(open) = &mut self.0 {
            open.counters = counters;
        }
    }

    /// What is published of the backend that is asked.
    #[must_use]
    pub fn backend_counters(&self) -> Option<&Counters<Vbe>> {
        self.0.as_ref()?.counters.as_deref()
    }

    /// A connection to the backend stands, since `connected`, and the request goes out on it.
    pub fn backend_opened(&mut self, connection: BackendConnection<'_>, connected: f64) {
        if !self.is_on() {
            return;
        }
        let BackendConnection { name, descriptor, ends: (remote, local), is_reused } = connection;
        self.timestamp("Connected", connected);
        let end = |address: Option<SocketAddr>| {
            address.map_or_else(|| "0.0.0.0 0".to_owned(), |address| format!("{} {}", address.ip(), address.port()))
        };
        let (remote, local) = (end(remote), end(local));
        let how = if is_reused { "reuse" } else { "connect" };
        self.write(VslTag::BackendOpen, format_args!("{descriptor} {name} {remote} {local} {how}"));
        self.count(if is_reused { Main::backend_reuse } else { Main::backend_conn });
        self.count(Main::backend_req);
        self.timestamp("Bereq", connected);
        if let Some(open) = &mut self.0 {
            open.backend = Some(format!("{descriptor} {name}"));
            if let Some(counters) = &open.counters {
                counters.add(Vbe::req, 1);
                counters.add(Vbe::conn, 1);
            }
        }
    }

    /// The connection to the backend, if there is one, ends for a reason, or is kept for others.
    pub fn backend_closed(&mut self, why: Option<CloseReason>) {
        let Some(connection) = self.0.as_mut().and_then(|open| open.backend.take()) else { return };
        if let Some(counters) = self.backend_counters() {
            counters.subtract(Vbe::conn, 1);
        }
        match why {
            Some(reason) => {
                self.write(VslTag::BackendClose, format_args!("{connection} close {}", reason.text()));
            }
            None => {
                self.count(Main::backend_recycle);
                self.write(VslTag::BackendClose, format_args!("{connection} recycle"));
            }
        }
    }

    /// The connection that was kept turns out to be closed: the request goes out on another one.
    pub fn backend_gone(&mut self) {
        self.record(VslTag::FetchError, b"HTC eof (-1)");
        self.backend_closed(Some(CloseReason::RxBad));
        self.count(Main::backend_retry);
    }

    /// How the body of a backend's response comes.
    pub fn fetch_body(&mut self, length: BodyLength, streams: bool) {
        let (number, name, counter) = match length {
            BodyLength::None => (0, "none", Main::fetch_none),
            BodyLength::Exact(0) => (3, "length", Main::fetch_none),
            BodyLength::Exact(_) => (3, "length", Main::fetch_length),
            BodyLength::Chunked => (2, "chunked", Main::fetch_chunked),
            BodyLength::UntilClose => (4, "eof", Main::fetch_eof),
        };
        self.count(counter);
        let how = if streams && !length.is_empty() { "stream" } else { "-" };
        self.write(VslTag::Fetch_Body, format_args!("{number} {name} {how}"));
    }

    /// A body was compressed or decompressed: which and where (`G F`, `U D`), bytes before and after, and those of the compressed form.
    pub fn gzip(&mut self, what: &str, (before, after): (u64, u64), compressed: u64) {
        // Where the compressed bits begin and end: behind a head of 10 bytes, before a tail of 8.
        let last_bit = compressed.saturating_sub(8) * 8;
        self.write(VslTag::Gzip, format_args!("{what} - {before} {after} 80 80 {last_bit}"));
    }

    /// The bytes of a client's request and its response; that is the end.
    pub fn end_request(&mut self, account: Account, now: f64) {
        self.end_included(account, now, false);
    }

    /// The same of a request that a page has made: what it sends counts for the page.
    pub fn end_include(&mut self, account: Account, now: f64) {
        self.end_included(account, now, true);
    }

    fn end_included(&mut self, account: Account, now: f64, is_included: bool) {
        if !self.is_on() {
            return;
        }
        self.timestamp("Resp", now);
        if is_included {
            self.account(VslTag::ReqAcct, account);
            return self.end();
        }
        self.count_many(Main::s_req_hdrbytes, account.request_head);
        self.count_many(Main::s_req_bodybytes, account.request_body);
        self.count_many(Main::s_resp_hdrbytes, account.response_head);
        self.count_many(Main::s_resp_bodybytes, account.response_body);
        self.account(VslTag::ReqAcct, account);
        self.end();
    }

    /// A request that could not be understood, with what came of it and the bytes of the answer; that is the end.
    pub fn end_refused(&mut self, bytes: &[u8], status: u16, answered: u64) {
        self.record(VslTag::HttpGarbage, bytes);
        self.record(VslTag::RespProtocol, b"HTTP/1.1");
        self.status(RESP, status);
        self.record(VslTag::RespReason, http::reason_phrase(status).as_bytes());
        let account = Account { request_head: bytes.len() as u64, response_head: answered, ..Account::default() };
        self.count_many(Main::s_req_hdrbytes, account.request_head);
        self.count_many(Main::s_resp_hdrbytes, account.response_head);
        self.account(VslTag::ReqAcct, account);
        self.end();
    }

    /// The bytes of a request that became a pipe: its head, that to the backend, from the client, to the client. That is the end.
    pub fn end_pipe(&mut self, [head, to_backend, from_client, to_client]: [u64; 4], now: f64) {
        self.timestamp("PipeSess", now);
        self.count_many(Main::s_pipe_hdrbytes, head);
        self.count_many(Main::s_pipe_in, from_client);
        self.count_many(Main::s_pipe_out, to_client);
        self.write(VslTag::PipeAcct, format_args!("{head} {to_backend} {from_client} {to_client}"));
        self.end();
    }

    /// The bytes of a fetch; that is the end. `length` is that of the object's body, if it came whole.
    pub fn end_fetch(&mut self, account: Account, length: Option<u64>) {
        if let Some(length) = length {
            self.write(VslTag::Length, format_args!("{length}"));
        }
        self.account(VslTag::BereqAcct, account);
        if let Some(counters) = self.backend_counters() {
            counters.add(Vbe::bereq_hdrbytes, account.request_head);
            counters.add(Vbe::bereq_bodybytes, account.request_body);
            counters.add(Vbe::beresp_hdrbytes, account.response_head);
            counters.add(Vbe::beresp_bodybytes, account.response_body);
        }
        self.end();
    }

    fn account(&mut self, tag: VslTag, account: Account) {
        let Some(mut record) = self.compose::<LONG_ROOM>(tag) else { return };
        let Account { request_head, request_body, response_head, response_body } = account;
        let (request, response) = (request_head + request_body, response_head + response_body);
        for (place, number) in
            [request_head, request_body, request, response_head, response_body, response].into_iter().enumerate()
        {
            if place > 0 {
                record.push(b" ");
            }
            record.push_number(number);
        }
        record.end();
    }

    /// Adds to a counter.
    #[inline]
    pub fn count(&self, counter: Main) {
        self.count_many(counter, 1);
    }

    /// Adds several to a counter.
    #[inline]
    pub fn count_many(&self, counter: Main, amount: u64) {
        if let Some(sink) = self.sink() {
            sink.count(counter, amount);
        }
    }

    /// All records go out that are there, as others are about to refer to them.
    pub fn flush(&mut self) {
        if let Some(open) = &mut self.0
            && let Some(sink) = &open.sink
        {
            open.buffer.flush(&sink.writer);
        }
    }

    /// Ends the transaction: all its records go out.
    pub fn end(&mut self) {
        if let Some(mut open) = self.0.take()
            && let Some(sink) = open.sink.take()
        {
            open.counters = None;
            open.buffer.end(&sink.writer);
            let mut spare = sink.spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(open);
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Who leaves early closes the connection.
        self.backend_closed(Some(CloseReason::RespClose));
        self.end();
    }
}

/// The tags of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageTags {
    /// `ReqMethod`
    pub method: VslTag,
    /// `ReqURL`
    pub url: VslTag,
    /// `ReqProtocol`
    pub protocol: VslTag,
    /// `RespStatus`
    pub status: VslTag,
    /// `RespReason`
    pub reason: VslTag,
    /// `ReqHeader`
    pub header: VslTag,
    /// `ReqUnset`
    pub unset: VslTag,
}

macro_rules! message_tags {
    ($($(#[doc = $doc:literal])* $name:ident: $method:ident $url:ident $protocol:ident $status:ident $reason:ident $header:ident $unset:ident;)*) => {$(
        $(#[doc = $doc])*
        pub const $name: MessageTags = MessageTags {
            method: VslTag::$method,
            url: VslTag::$url,
            protocol: VslTag::$protocol,
            status: VslTag::$status,
            reason: VslTag::$reason,
            header: VslTag::$header,
            unset: VslTag::$unset,
        };
    )*};
}

message_tags! {
    /// A client's request.
    REQ: ReqMethod ReqURL ReqProtocol ReqStatus ReqReason ReqHeader ReqUnset;
    /// The response to a client.
    RESP: RespMethod RespURL RespProtocol RespStatus RespReason RespHeader RespUnset;
    /// A request to a backend.
    BEREQ: BereqMethod BereqURL BereqProtocol BereqStatus BereqReason BereqHeader BereqUnset;
    /// A backend's response.
    BERESP: BerespMethod BerespURL BerespProtocol BerespStatus BerespReason BerespHeader BerespUnset;
}
