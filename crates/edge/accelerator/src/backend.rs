//! A fetch: a request to a backend, and what becomes of the response.

mod error;
mod filters;
mod host;
mod judge;
mod record;
mod step;
mod store;

use std::{cell::Cell, net::SocketAddr, rc::Rc, sync::Arc};

use cache::{
    index::{Digest, Fetch},
    object::{Object, Variant},
    policy::update,
};
use http::{HeaderId, Headers, RequestHead, ResponseHead};
use telemetry::vsl::VslTag;
use vcl::{
    action::Action,
    modules::FunctionId,
    program::Endpoint,
    run::{self, Backend as Target, Workspace},
    subroutine::Subroutine,
};
use vsm::counters::Main;

use crate::{
    common::{Common, Connection, Numbers, record_unset},
    fields,
    loaded::Loaded,
    log::{BEREQ, BERESP, CloseReason, Log},
    output,
};
use filters::Filters;
pub use host::Timeouts;
use host::{BackendHost, Decisions};
pub(crate) use record::AskedBy;
pub use step::{Accepted, AcceptedBody, Coding, Codings, IncludeFinder, Reading, Recoding, Step, Stored};

/// What is to be fetched, and for whom.
pub struct Order {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) request: RequestHead,
    pub(crate) client_request: Headers,
    pub(crate) connection: Connection,
    pub(crate) hint: Option<Target>,
    pub(crate) identity: Option<Vec<u8>>,
    pub(crate) digest: Option<Digest>,
    pub(crate) fetch: Option<Fetch>,
    pub(crate) stale: Option<Arc<Object>>,
    pub(crate) is_background: bool,
    pub(crate) is_hitmiss: bool,
    pub(crate) is_pass: bool,
    /// Whether what is passed becomes an object nevertheless: it goes into a page.
    pub(crate) is_included: bool,
    pub(crate) is_hitpass: bool,
    pub(crate) xid: u64,
    pub(crate) is_head: bool,
    pub(crate) log: Log,
    pub(crate) next_xid: Numbers,
    pub(crate) asked_by: AskedBy,
    /// Who wants to know whether the response was stored, and why not.
    pub(crate) note: Option<Rc<Cell<&'static str>>>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Order").field("xid", &self.xid).finish_non_exhaustive()
    }
}

/// The machine.
pub struct Backend {
    loaded: Arc<Loaded>,
    host: BackendHost,
    workspace: Workspace,
    client_request: Headers,
    fetch: Option<Fetch>,
    has_body: bool,
    is_included: bool,
    is_head: bool,
    next_xid: Numbers,
    asked_by: AskedBy,
    note: Option<Rc<Cell<&'static str>>>,
    /// Whether the fetch asks whether what is there has changed.
    has_conditions: bool,
    /// Whether the program wants the backend's connection closed.
    closes_backend: bool,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Backend").field("xid", &self.host.xid).finish_non_exhaustive()
    }
}

/// An answer of the program that outlives its run.
struct Answered {
    action: Action,
    status: Option<u16>,
    text: Option<Vec<u8>>,
    seconds: Option<f64>,
}

impl Backend {
    /// A fetch that begins now. `has_body` says whether the client's request has a body that goes along.
    #[must_use]
    pub fn new(order: Order, now: f64, has_body: bool) -> Self {
        let loaded = order.loaded;
        let mut request = order.request;
        let mut has_conditions = false;
        if let Some(stale) = &order.stale
            && stale.body().length().is_some()
            && stale.head().status() == 200
        {
            has_conditions = true;
            cache::policy::conditional::ask_about(&mut request.headers, &stale.head().unpacked().headers);
        }
        request.headers.set(b"X-Varnish", order.xid.to_string().as_bytes());
        let mut common = Common::new(&loaded, order.connection, now);
        common.log = order.log;
        let host = BackendHost {
            common,
            xid: order.xid,
            started: now,
            received: now,
            original: loaded.program.uses(FunctionId::StdRollback).then(|| Box::new(request.clone())),
            request,
            response: ResponseHead::default(),
            body: Vec::new(),
            drops_body: false,
            hint: order.hint,
            identity: order.identity,
            asked: None,
            named_filters: None,
            digest: order.digest,
            decisions: Decisions::default(),
            timeouts: Timeouts::default(),
            retries: 0,
            stale: order.stale,
            was_304: false,
            is_background: order.is_background,
            is_hitmiss: order.is_hitmiss,
            is_hitpass: order.is_hitpass,
            is_pass: order.is_pass,
        };
        Self {
            workspace: Workspace::new(loaded.settings.workspace_backend),
            loaded,
            host,
            client_request: order.client_request,
            fetch: order.fetch,
            has_body,
            is_included: order.is_included,
            is_head: order.is_head,
            next_xid: order.next_xid,
            asked_by: order.asked_by,
            note: order.note,
            has_conditions,
            closes_backend: false,
        }
    }

    /// The first step.
    pub fn begin(&mut self) -> Step {
        let Common { log, now, loaded, .. } = &mut self.host.common;
        log.record(VslTag::VCL_use, loaded.name.as_bytes());
        log.timestamp("Start", *now);
        self.record_request();
        self.fetch()
    }

    fn fetch(&mut self) -> Step {
        match self.run(Subroutine::BackendFetch) {
            Some(answer) if answer.action == Action::Fetch => self.ask(),
            Some(answer) => self.elsewhere(&answer),
            None => self.error(503, b"VCL failed"),
        }
    }

    /// What is sent to the backend.
    #[must_use]
    pub fn request(&self) -> &RequestHead {
        &self.host.request
    }

    /// Whether the body of the client's request goes along.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        self.has_body && !self.host.drops_body
    }

    /// How long the backend may take.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        let declared = match self.host.asked {
            Some(Target::Declared(index)) => self.loaded.program.backends.get(index.0 as usize),
            _ => None,
        };
        let [connect, first_byte, between_bytes] = self.loaded.settings.backend_timeouts;
        let first = |set: f64, declared: Option<f64>, parameter: Option<f64>| {
            if set > 0.0 { set } else { declared.or(parameter).unwrap_or(0.0) }
        };
        let own = self.host.timeouts;
        Timeouts {
            connect: first(own.connect, declared.and_then(|backend| backend.connect_timeout), connect),
            first_byte: first(own.first_byte, declared.and_then(|backend| backend.first_byte_timeout), first_byte),
            between_bytes: first(
                own.between_bytes,
                declared.and_then(|backend| backend.between_bytes_timeout),
                between_bytes,
            ),
        }
    }

    /// Whether the connection of the response that was accepted is closed (`beresp.http.Connection`).
    #[must_use]
    pub fn closes_backend(&self) -> bool {
        self.closes_backend
    }

    /// The client, and where it connected to.
    #[must_use]
    pub fn client_ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let connection = &self.host.common.connection;
        (connection.client, connection.server)
    }

    /// The number of the fetch.
    #[must_use]
    pub fn xid(&self) -> u64 {
        self.host.xid
    }

    /// The program that it runs in.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.loaded.name
    }

    /// The log of this fetch: what happens on the wire is written there too.
    pub fn log(&mut self) -> &mut Log {
        &mut self.host.common.log
    }

    /// The head of a response has come.
    pub fn responded(&mut self, head: ResponseHead, now: f64) -> Step {
        self.host.common.now = now;
        self.host.received = now;
        self.host.response = head;
        let log = &mut self.host.common.log;
        log.timestamp("Beresp", now);
        log.response_head(BERESP, &self.host.response);
        if self.host.response.reason().is_empty() {
            let reason = output::reason(self.host.response.status());
            self.host.response.set_reason(reason);
        }
        if !self.host.response.headers.contains(b"date") {
            let date = http::http_date(whole(now).unsigned_abs());
            self.host.response.headers.add(b"Date", &date);
            self.host.common.log.field(VslTag::BerespHeader, b"Date", &date);
        }
        fields::collect(&mut self.host.response.headers, b"Cache-Control", b", ");
        fields::collect(&mut self.host.response.headers, b"Vary", b", ");
        self.host.was_304 = false;
        if self.says_wrongly_none() {
            self.host.common.record(VslTag::Error, b"Body cannot be fetched");
            return self.fail();
        }
        // NOTE: a tunnel past the program is opened by `return (pipe)` alone.
        if http::begins_tunnel(self.host.response.status(), self.host.request.method_kind()) {
            self.host.common.record(VslTag::Error, b"A tunnel is no response");
            return self.fail();
        }
        if self.host.response.status() == 304 && !self.host.is_pass && !(self.has_conditions && self.revalidate()) {
            self.host.common.record(VslTag::Error, b"304 response but not conditional fetch");
            return self.fail();
        }
        self.judge(now);
        let Some(answer) = self.run(Subroutine::BackendResponse) else { return self.error(503, b"VCL failed") };
        match answer.action {
            Action::Deliver => {
                self.host.common.log.timestamp("Process", now);
                self.accept(None)
            }
            Action::Pass => {
                let seconds = answer.seconds.unwrap_or(self.host.decisions.ttl);
                self.host.common.log.timestamp("Process", now);
                self.accept(Some(seconds))
            }
            Action::Retry => self.retry(),
            _ => self.elsewhere(&answer),
        }
    }

    /// No response has come.
    pub fn failed(&mut self, why: &str, now: f64) -> Step {
        self.host.common.now = now;
        self.host.received = now;
        let log = &mut self.host.common.log;
        log.record(VslTag::FetchError, why.as_bytes());
        log.backend_closed(Some(CloseReason::RxBad));
        log.timestamp("Beresp", now);
        self.fail()
    }

    /// The body of an accepted response has broken off before anybody saw anything of it. `fetch` is what would have put it into the
    /// cache.
    pub fn body_failed(&mut self, fetch: Option<Fetch>, why: &str, now: f64) -> Step {
        self.host.common.now = now;
        self.fetch = fetch;
        if let Some(fetch) = &mut self.fetch {
            fetch.varies_by(Variant::default());
        }
        self.host.common.log.record(VslTag::FetchError, why.as_bytes());
        self.fail()
    }

    /// Nothing comes of it: those who wait for the fetch fail with this status.
    pub fn abandon(&mut self, status: u16) {
        if let Some(fetch) = self.fetch.take() {
            fetch.failed(status);
        }
    }

    /// There is no response that could be used.
    fn fail(&mut self) -> Step {
        self.host.common.log.count(Main::fetch_failed);
        self.error(503, b"Backend fetch failed")
    }

    fn ask(&mut self) -> Step {
        let Common { log, now, .. } = &mut self.host.common;
        log.timestamp("Fetch", *now);
        let target = self.host.resolved(self.host.hint);
        match target.filter(|target| self.loaded.is_healthy(*target)) {
            Some(target) => {
                self.host.asked = Some(target);
                self.name_host(target);
                if let Some(fetch) = &mut self.fetch {
                    fetch.asks_now();
                }
                Step::Ask(target)
            }
            None => {
                let log = &mut self.host.common.log;
                match target.or(self.host.hint) {
                    Some(backend @ Target::Declared(_)) => {
                        let name = self.loaded.name_of(backend).unwrap_or_default();
                        match self.loaded.goes_nowhere(backend) {
                            true => log.record(VslTag::FetchError, b"No backend"),
                            false => {
                                log.write(VslTag::FetchError, format_args!("backend {name}: unhealthy"));
                                log.count(Main::backend_unhealthy);
                            }
                        }
                    }
                    Some(director) => {
                        let name = self.loaded.name_of(director).unwrap_or_default();
                        log.write(VslTag::FetchError, format_args!("Director {name} returned no backend"));
                    }
                    None => log.record(VslTag::FetchError, b"No backend"),
                }
                let now = self.host.common.now;
                self.host.common.log.timestamp("Beresp", now);
                self.fail()
            }
        }
    }

    /// Whether a response that has no body says how long it is (RFC 9110 section 8.6); a length of 0 is forgotten.
    fn says_wrongly_none(&mut self) -> bool {
        let response = &mut self.host.response;
        if response.status() != 204 {
            return false;
        }
        let says = response.headers.first_known(HeaderId::ContentLength).is_some_and(|length| length != b"0");
        response.headers.remove_known(HeaderId::ContentLength);
        says && !self.is_head
    }

    /// Takes a 304 for what it is about; whether it is about anything.
    fn revalidate(&mut self) -> bool {
        let Some(stale) = self.host.stale.clone().filter(|stale| stale.body().length().is_some()) else { return false };
        let not_modified = std::mem::replace(&mut self.host.response, stale.head().unpacked());
        update::update(&mut self.host.response.headers, &not_modified.headers);
        if stale.head().first(b"etag").is_some_and(|tag| tag.starts_with(b"W/")) {
            // NOTE: what was compressed here still is not what the backend speaks of.
            fields::weaken_tag(&mut self.host.response.headers);
        }
        let (log, response) = (&mut self.host.common.log, &self.host.response);
        if log.is_on() {
            log.response_line(BERESP, response);
            for (name, value) in response.headers.iter().filter(|(name, _)| !not_modified.headers.contains(name)) {
                log.field(VslTag::BerespHeader, name, value);
            }
        }
        self.host.was_304 = true;
        true
    }

    /// Names the host to a backend that is asked without one.
    fn name_host(&mut self, target: Target) {
        let Target::Declared(index) = target else { return };
        if self.host.request.headers.contains_known(HeaderId::Host) {
            return;
        }
        let Some(backend) = self.loaded.program.backends.get(index.0 as usize) else { return };
        let host = match (&backend.host_header, &backend.endpoint) {
            (Some(host), _) | (None, Endpoint::Host { host, .. }) => host,
            (None, Endpoint::Path(_)) => "0.0.0.0",
            (None, Endpoint::None | Endpoint::Given) => return,
        };
        self.host.common.log.field(VslTag::BereqHeader, b"Host", host.as_bytes());
        self.host.request.headers.add(b"Host", host.as_bytes());
    }

    fn accept(&mut self, passes_for: Option<f64>) -> Step {
        if !self.is_head && self.host.response.headers.first_known(HeaderId::ContentLength) == Some(b"0") {
            // Nothing is no gzip.
            self.host.response.headers.remove(b"content-encoding");
        }
        if self.has_no_body() {
            let decisions = &mut self.host.decisions;
            (decisions.gzips, decisions.gunzips, decisions.has_includes) = (false, false, false);
            self.host.named_filters = None;
        }
        let filters = match Filters::of(&self.host.filters()) {
            Ok(filters) if self.has_no_body() => Filters { has_includes: false, ..filters },
            Ok(filters) => filters,
            Err(unknown) => {
                let unknown = String::from_utf8_lossy(unknown).into_owned();
                self.host.common.log.write(VslTag::FetchError, format_args!("Filter '...{unknown}' not found"));
                return self.fail();
            }
        };
        if filters.has_includes && self.host.response.status() == 206 && !self.host.was_304 {
            self.host.common.record(VslTag::FetchError, b"Attempted ESI on partial (206) response");
            return self.fail();
        }
        // What is stored already, and a part of something, stay as they are, whatever the program wants of others.
        let stays = self.host.was_304 || self.host.response.status() == 206;
        let filters = if stays { Filters::default() } else { filters };
        self.host.decisions.has_includes = filters.has_includes;
        let recoding = self.recoding(filters);
        if !self.host.was_304 {
            self.record_filters(recoding);
        }
        self.closes_backend = fields::closes(&self.host.response.headers);
        let decisions = &self.host.decisions;
        // NOTE: who does not understand gzip gets it decompressed, which is done to an object.
        let is_understood =
            !(self.loaded.settings.gzip && recoding == Recoding::Test) || fields::accepts_gzip(&self.client_request);
        let is_untouched =
            is_understood && matches!(recoding, Recoding::None | Recoding::Test) && !decisions.has_includes;
        if self.host.is_pass && !self.is_included && is_untouched && decisions.streams {
            self.host.common.log.record(VslTag::Storage, b"malloc Transient");
            let mut head = std::mem::take(&mut self.host.response);
            fields::remove_connection(&mut head.headers);
            if recoding == Recoding::Test && self.loaded.settings.gzip {
                fields::vary_by_encoding(&mut head.headers);
            }
            let body = AcceptedBody::Backend(Recoding::None);
            return Step::Accept(Box::new(Accepted { stored: None, head, body }));
        }
        let is_gzip = self.delivers_gzip(filters);
        let mut head = std::mem::take(&mut self.host.response);
        fields::keep_for_object(&mut head.headers, self.host.is_pass);
        let body = match self.host.stale.take().filter(|_| self.host.was_304) {
            Some(stale) => AcceptedBody::Stale(stale),
            None => AcceptedBody::Backend(recoding),
        };
        let is_changed = !matches!(recoding, Recoding::None | Recoding::Test);
        if is_changed {
            head.headers.remove_known(HeaderId::ContentLength);
        }
        if is_changed || self.host.decisions.has_includes {
            // RFC 9110 section 8.8.3: what has been compressed or decompressed here is not the same, byte by byte.
            fields::weaken_tag(&mut head.headers);
        }
        if is_gzip && self.loaded.settings.gzip {
            fields::vary_by_encoding(&mut head.headers);
        }
        if is_gzip {
            head.headers.set(b"Content-Encoding", b"gzip");
        } else if is_changed {
            head.headers.remove(b"content-encoding");
        }
        self.store(head, body, passes_for)
    }

    fn has_no_body(&self) -> bool {
        let response = &self.host.response;
        let length = response.headers.first_known(HeaderId::ContentLength);
        self.is_head
            || matches!(response.status(), 100..=199 | 204 | 304)
            || length.is_some_and(|length| length == b"0")
    }

    /// Whether who understands gzip gets the body in gzip.
    fn delivers_gzip(&self, filters: Filters) -> bool {
        let is_gzip = fields::is_gzip(&self.host.response.headers);
        let last = filters.codings.all().last();
        filters.packs_page || last.map_or(is_gzip, |last| last != Coding::Gunzip)
    }

    fn recoding(&self, filters: Filters) -> Recoding {
        if self.has_no_body() {
            return Recoding::None;
        }
        // NOTE: a page is stored plain, so that what it includes can be put between its bytes; gzip is made when it is delivered.
        filters.recoding()
    }

    fn retry(&mut self) -> Step {
        self.host.retries += 1;
        if self.host.retries > self.loaded.settings.max_retries {
            // NOTE: the program makes the error; one that retries that, too, fails.
            if self.host.common.subroutine == Subroutine::BackendError {
                self.host.common.record(VslTag::VCL_Error, b"Too many retries, failing");
                return Step::Abandon;
            }
            self.host.common.record(VslTag::VCL_Error, b"Too many retries, delivering 503");
            return self.error(503, b"Backend fetch failed");
        }
        self.host.body.clear();
        let xid = (self.next_xid)();
        self.host.xid = xid;
        let Common { log, now, .. } = &mut self.host.common;
        log.backend_closed(Some(CloseReason::RespClose));
        log.timestamp("Retry", *now);
        log.change_number(xid, "bereq", "retry");
        log.request_head(BEREQ, &self.host.request);
        let text = xid.to_string();
        record_unset(&self.host.request.headers, b"x-varnish", (log, BEREQ));
        log.field(VslTag::BereqHeader, b"X-Varnish", text.as_bytes());
        self.host.request.headers.set(b"X-Varnish", text.as_bytes());
        self.fetch()
    }

    fn elsewhere(&mut self, answer: &Answered) -> Step {
        match answer.action {
            Action::Error => {
                let reason = answer.text.clone().unwrap_or_default();
                self.error(answer.status.unwrap_or(503), &reason)
            }
            Action::Retry => self.retry(),
            Action::Abandon => Step::Abandon,
            _ => Step::Abandon,
        }
    }

    fn run(&mut self, subroutine: Subroutine) -> Option<Answered> {
        self.host.common.log.call(subroutine);
        self.host.common.subroutine = subroutine;
        let answer = run::run(&self.loaded.program, subroutine, &mut self.host, &self.workspace);
        if std::mem::take(&mut self.host.common.has_banned)
            && let Some(fetch) = &mut self.fetch
        {
            fetch.has_banned();
        }
        match &answer {
            Ok(answer) => {
                let Common { log, now, .. } = &mut self.host.common;
                if answer.action == Action::Pass && subroutine == Subroutine::BackendResponse {
                    let seconds = answer.seconds.unwrap_or(self.host.decisions.ttl);
                    log.write(VslTag::TTL, format_args!("HFP {seconds:.0} 0 0 {now:.0} uncacheable"));
                }
                log.answered(answer);
            }
            Err(failure) => {
                self.host.common.log.write(VslTag::VCL_Error, format_args!("{failure}"));
                self.host.common.log.returned(Action::Fail);
            }
        }
        let answered = match answer {
            Ok(answer) if answer.action == Action::Fail => None,
            Ok(answer) => Some(Answered {
                action: answer.action,
                status: answer
                    .status
                    .and_then(|status| u16::try_from(status % 1000).ok())
                    .filter(|status| *status >= 100),
                text: answer.text.map(<[u8]>::to_vec),
                seconds: answer.seconds,
            }),
            Err(_) => None,
        };
        if answered.is_none() {
            self.host.common.log.count(Main::vcl_fail);
        }
        self.workspace.clear();
        answered
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}
