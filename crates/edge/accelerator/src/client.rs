//! A client's request.
//!
//! [`Client::begin`] and each report of what came of a [`Step`] give the next step, until one ends the request.

mod filters;
mod heads;
mod host;
mod includes;
mod object;
mod record;
mod step;
mod synth;

use std::{cell::Cell, rc::Rc, sync::Arc};

use cache::{
    index::{Digest, Fetch, Found, Outcome, Query},
    object::{Kind, Object},
};
use http::{HeaderId, RequestHead, ResponseHead, Version};
use sha2::{Digest as _, Sha256};
use telemetry::vsl::VslTag;
use vcl::{
    action::Action,
    modules::FunctionId,
    run::{self, Backend as Target, Workspace},
    subroutine::Subroutine,
};
use vsm::counters::Main;

pub use crate::common::Numbers;
use crate::{
    backend::{AskedBy, Backend, Order, Recoding},
    common::{Common, Connection, ConnectionWishes, DirectorFacts, status_of},
    fields,
    loaded::Loaded,
    log::{BEREQ, Log, RESP},
    note::Note,
    output::Part,
};
use fields::weaken_tag;
use host::{ClientHost, LookupWishes};
pub use includes::Includes;
use object::{known_length, said_length, seconds_of};
pub use step::{DeliveredBody, Delivery, Fetched, Pipe, Step};

/// Bytes and fields that a head gets on its way to a client: so many fit without taking more memory.
const HEAD_ROOM: (usize, usize) = (512, 12);

/// The machine.
pub struct Client {
    loaded: Arc<Loaded>,
    host: ClientHost,
    workspace: Workspace,
    /// The fetch that this request is to make, until `vcl_miss` has decided.
    fetch: Option<(Fetch, Option<Arc<Object>>)>,
    refresh: Option<Box<Order>>,
    next_xid: Numbers,
    is_hit: bool,
    is_head: bool,
    has_body: bool,
    has_failed: bool,
    /// Whether another program has handed the request to this one, which cannot hand it on.
    is_switched: bool,
    /// Whether what is delivered has been passed.
    is_passing: bool,
    /// Whether it was passed although there is an object, and the number of that fetch.
    passes_hit: bool,
    passed_xid: Option<u64>,
    /// What has become of it.
    note: Note,
    /// What has become of its fetch, once that is known.
    fetch_note: Option<Rc<Cell<&'static str>>>,
}

/// Why a program's answer does not lead on.
enum Wrong {
    /// `return (fail)`, or the program could not go on.
    Failed,
}

impl Client {
    /// A request. `next_xid` gives numbers of transactions; `has_body` says whether a body follows the head.
    pub fn new(
        loaded: &Arc<Loaded>,
        mut request: RequestHead,
        connection: Connection,
        now: f64,
        next_xid: Numbers,
        has_body: bool,
    ) -> Self {
        fields::split_target(&mut request, loaded.settings.is_https_known);
        let is_head = request.method() == b"HEAD";
        let received = loaded.keeps_received.then(|| request.clone());
        let mut common = Common::new(loaded, connection, now);
        let length = || std::str::from_utf8(request.headers.first_known(HeaderId::ContentLength)?).ok()?.parse().ok();
        common.wishes.body_length = if has_body { length() } else { Some(0) };
        let host = ClientHost {
            common,
            xid: next_xid(),
            started: now,
            named: Vec::new(),
            request,
            original: None,
            backend_request: RequestHead::default(),
            response: ResponseHead::default(),
            body: Vec::new(),
            object: None,
            hint: None,
            hasher: Sha256::new(),
            digest: None,
            lookup: LookupWishes::default(),
            restarts: 0,
            is_hitmiss: false,
            is_hitpass: false,
            identity: None,
            storage: None,
            purged: None,
            esi_level: 0,
            received,
            named_filters: None,
            leaves_includes: false,
            top: None,
        };
        Self {
            workspace: Workspace::new(loaded.settings.workspace_client),
            loaded: Arc::clone(loaded),
            host,
            fetch: None,
            refresh: None,
            next_xid,
            is_hit: false,
            is_head,
            has_body,
            has_failed: false,
            is_switched: false,
            is_passing: false,
            passes_hit: false,
            passed_xid: None,
            note: Note::default(),
            fetch_note: None,
        }
    }

    /// The first step.
    pub fn begin(&mut self) -> Step {
        self.record_request();
        self.arrive()
    }

    /// The request is the program's from now on.
    fn arrive(&mut self) -> Step {
        self.host.named = fields::named_by_connection(&self.host.request.headers);
        fields::collect(&mut self.host.request.headers, b"Cache-Control", b", ");
        fields::collect(&mut self.host.request.headers, b"Cookie", b"; ");
        self.forward_address();
        if self.loaded.program.uses(FunctionId::StdRollback) {
            self.host.original = Some(Box::new(self.host.request.clone()));
        }
        self.receive()
    }

    /// The program that takes the request over, as it came; `None` if no program has that label.
    pub fn switched(&mut self, loaded: Option<&Arc<Loaded>>) -> Step {
        let received = self.host.received.clone().filter(|_| !self.is_switched);
        let (Some(loaded), Some(received)) = (loaded, received) else {
            let why = b"return(vcl) to a label that is gone, or not from the active VCL";
            self.host.common.record(VslTag::VCL_Error, why);
            return self.synth(503, b"VCL failed");
        };
        let text = format!("{} via {}", loaded.name, self.loaded.name);
        self.host.common.record(VslTag::VCL_use, text.as_bytes());
        self.loaded = Arc::clone(loaded);
        self.host.common.loaded = Arc::clone(loaded);
        self.workspace = Workspace::new(loaded.settings.workspace_client);
        self.is_switched = true;
        self.host.request = received;
        self.arrive()
    }

    /// The fetch of another request has ended.
    pub fn woken(&mut self, outcome: &Outcome, now: f64) -> Step {
        self.host.common.now = now;
        self.host.common.log.timestamp("Waitinglist", now);
        match outcome {
            Outcome::Published(_) => self.lookup(false),
            Outcome::Private => self.lookup(true),
            Outcome::Failed(status) => self.synth(*status, b"Service Unavailable"),
        }
    }

    /// The fetch that this request had made has come to a head.
    pub fn fetched(&mut self, fetched: Fetched, now: f64) -> Step {
        self.host.common.now = now;
        self.record_fetched(now);
        match fetched {
            Fetched::Object(object) | Fetched::Own(object, _) => {
                self.host.object = Some(object);
                self.deliver_object()
            }
            Fetched::Nothing => self.synth(503, b"Service Unavailable"),
        }
    }

    /// The backend's response to a request that was passed; `None` if there is none.
    pub fn passed(&mut self, head: Option<ResponseHead>, length: Option<u64>, now: f64) -> Step {
        self.host.common.now = now;
        self.record_fetched(now);
        let Some(head) = head else { return self.synth(503, b"Service Unavailable") };
        self.host.object = None;
        self.host.response = head;
        self.host.response.headers.remove_known(HeaderId::Age);
        self.head_of_delivery(None, now);
        self.host.common.log.response_head(RESP, &self.host.response);
        let outcome = self.run(Subroutine::Deliver);
        if let Some(step) = self.after_deliver(outcome) {
            return step;
        }
        let part = self.finish((length, false), false, None);
        self.end(DeliveredBody::Passed(part))
    }

    /// Whether there is one for [`Client::take_refresh`].
    #[must_use]
    pub fn wants_refresh(&self) -> bool {
        self.refresh.is_some()
    }

    /// An object that this request wants fetched in the background, whatever becomes of the request itself.
    pub fn take_refresh(&mut self) -> Option<Box<Order>> {
        self.refresh.take()
    }

    /// What the program has asked of the connection and the request's body.
    #[must_use]
    pub fn wishes(&self) -> ConnectionWishes {
        self.host.common.wishes
    }

    /// The log of this request, for what happens to its response: it is taken when that is delivered.
    pub fn take_log(&mut self) -> Log {
        std::mem::take(&mut self.host.common.log)
    }

    /// Memory for the response's head.
    pub fn lend(&mut self, mut response: ResponseHead) {
        response.clear();
        self.host.response = response;
    }

    /// The request's head as it is now, and with it its memory.
    pub fn take_request(&mut self) -> RequestHead {
        std::mem::take(&mut self.host.request)
    }

    /// The request as it is now, for those who log it.
    #[must_use]
    pub fn request(&self) -> &RequestHead {
        &self.host.request
    }

    /// What has become of it in the cache, and why.
    #[must_use]
    pub fn note(&self) -> Note {
        match &self.fetch_note {
            Some(fetched) if self.note == Note::MISS => Note { why: fetched.get(), ..self.note },
            _ => self.note,
        }
    }

    /// Whether VCL has failed for it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The first thing that VCL said was wrong.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.host.common.first_error.as_deref()
    }

    /// Its number.
    #[must_use]
    pub fn xid(&self) -> u64 {
        self.host.xid
    }

    fn receive(&mut self) -> Step {
        // NOTE: what a program has set before a restart stays, as in Varnish.
        if self.host.restarts == 0 {
            self.host.hint = self.loaded.program.default_backend.map(Target::Declared);
        }
        let answer = match self.run(Subroutine::Recv) {
            Ok(answer) => answer,
            Err(Wrong::Failed) => return self.synth(503, b"VCL failed"),
        };
        if self.loaded.settings.gzip && !matches!(answer.action, Action::Pipe | Action::Pass) {
            // One variant serves all who understand gzip.
            let accepts = fields::accepts_gzip(&self.host.request.headers);
            self.force_encoding(accepts);
        }
        if !matches!(answer.action, Action::Fail | Action::Vcl) {
            self.host.hasher = Sha256::new();
            if self.run(Subroutine::Hash).is_err() {
                return self.synth(503, b"VCL failed");
            }
            self.host.digest = Some(Digest(std::mem::take(&mut self.host.hasher).finalize().into()));
        }
        match answer.action {
            Action::Hash => self.lookup(false),
            Action::Pass => self.pass(),
            Action::Pipe if self.host.esi_level > 0 => {
                let said = b"vcl_recv{} returns pipe for ESI included object.  Doing pass.";
                self.host.common.record(VslTag::VCL_Error, said);
                self.pass()
            }
            Action::Pipe => self.pipe(),
            Action::Purge => self.purge(),
            Action::Vcl => match answer.label {
                Some(label) if self.host.restarts == 0 => Step::Switch(label),
                _ => self.switched(None),
            },
            _ => self.elsewhere(&answer),
        }
    }

    fn lookup(&mut self, is_impatient: bool) -> Step {
        let Some(digest) = self.host.digest else { return self.synth(503, b"VCL failed") };
        let (host, wishes) = (&self.host, self.host.lookup);
        let query = Query {
            digest,
            url: host.request.target(),
            headers: &host.request.headers,
            // NOTE: as in Varnish an object answers that was fresh when the request came, however long that has waited.
            now: host.started,
            ttl: wishes.ttl,
            grace: wishes.grace,
            always_misses: wishes.always_misses,
            is_impatient: is_impatient || wishes.ignores_busy || wishes.always_misses,
            is_unshared: false,
            ignores_vary: wishes.ignores_vary,
        };
        // NOTE: noted behind the look-up, which borrows the request.
        let mut banned = Vec::new();
        let found = self.loaded.cache.lookup_telling(&query, |object| banned.push(object.xid()));
        for number in banned {
            self.host.common.log.write(VslTag::ExpBan, format_args!("{number} banned lookup"));
        }
        match found {
            Found::Hit(object) => {
                self.note = Note::HIT;
                self.hit(object, None)
            }
            Found::Grace { object, fetch } => {
                self.host.common.log.count(Main::cache_hit_grace);
                self.note = Note::GRACE;
                self.hit(object, fetch)
            }
            Found::Miss { fetch, stale } => self.miss(fetch, stale),
            Found::HitForMiss { fetch, object } => {
                self.host.is_hitmiss = true;
                self.record_marker(&object);
                self.miss(fetch, None)
            }
            Found::HitForPass(object) => {
                self.host.is_hitpass = true;
                self.record_marker(&object);
                self.pass()
            }
            Found::Busy(waiting) => Step::Wait(waiting),
        }
    }

    fn hit(&mut self, object: Arc<Object>, fetch: Option<Fetch>) -> Step {
        object.count_hit();
        self.record_hit(&object);
        self.is_hit = true;
        self.host.object = Some(Arc::clone(&object));
        let answer = match self.run(Subroutine::Hit) {
            Ok(answer) => answer,
            Err(Wrong::Failed) => return self.synth(503, b"VCL failed"),
        };
        match answer.action {
            Action::Deliver => {
                if let Some(fetch) = fetch {
                    let log = &self.host.common.log;
                    log.count(Main::s_fetch);
                    log.count(Main::s_bgfetch);
                    self.refresh = Some(self.order(fetch, Some(object), true));
                    let Common { log, now, .. } = &mut self.host.common;
                    log.timestamp("Fetch", *now);
                }
                self.deliver_object()
            }
            Action::Pass => {
                self.host.object = None;
                self.is_hit = false;
                self.passes_hit = true;
                self.pass()
            }
            _ => self.elsewhere(&answer),
        }
    }

    fn miss(&mut self, fetch: Fetch, stale: Option<Arc<Object>>) -> Step {
        self.fetch = Some((fetch, stale));
        self.note = Note::MISS;
        let answer = match self.run(Subroutine::Miss) {
            Ok(answer) => answer,
            Err(Wrong::Failed) => return self.synth(503, b"VCL failed"),
        };
        let taken = self.fetch.take();
        match (answer.action, taken) {
            (Action::Fetch, Some((fetch, stale))) => {
                self.host.common.log.count(Main::cache_miss);
                self.host.common.log.count(Main::s_fetch);
                Step::Fetch(self.order(fetch, stale, false))
            }
            (Action::Pass, _) => self.pass(),
            _ => self.elsewhere(&answer),
        }
    }

    fn order(&mut self, fetch: Fetch, stale: Option<Arc<Object>>, is_background: bool) -> Box<Order> {
        let xid = (self.next_xid)();
        let log = self.host.common.log.fetch(xid, if is_background { "bgfetch" } else { "fetch" });
        let mut request = fields::backend_request(&self.host.request, &self.host.named, false, self.has_body);
        fields::remove_wishes(&mut request.headers);
        if self.loaded.settings.gzip {
            request.headers.set(b"Accept-Encoding", b"gzip");
        }
        let note = Rc::new(Cell::new(""));
        self.fetch_note = Some(Rc::clone(&note));
        Box::new(Order {
            note: Some(note),
            loaded: Arc::clone(&self.loaded),
            request,
            client_request: self.host.request.headers.clone(),
            connection: self.host.common.connection.clone(),
            hint: self.host.hint,
            identity: self.host.identity.clone(),
            digest: self.host.digest,
            fetch: Some(fetch),
            stale,
            is_background,
            is_hitmiss: self.host.is_hitmiss,
            is_pass: false,
            is_included: false,
            is_hitpass: false,
            xid,
            is_head: false,
            asked_by: AskedBy::of(&self.host.request),
            log,
            next_xid: Rc::clone(&self.next_xid),
        })
    }

    fn pass(&mut self) -> Step {
        self.note = match self.host.is_hitpass {
            true => Note::HIT_FOR_PASS,
            false => Note::pass(&self.host.request, self.host.common.subroutine),
        };
        let answer = match self.run(Subroutine::Pass) {
            Ok(answer) => answer,
            Err(Wrong::Failed) => return self.synth(503, b"VCL failed"),
        };
        if answer.action != Action::Fetch {
            return self.elsewhere(&answer);
        }
        let xid = (self.next_xid)();
        self.host.common.log.count(Main::s_pass);
        self.host.common.log.count(Main::s_fetch);
        let order = Order {
            note: None,
            asked_by: AskedBy::of(&self.host.request),
            log: self.host.common.log.fetch(xid, "pass"),
            next_xid: Rc::clone(&self.next_xid),
            loaded: Arc::clone(&self.loaded),
            request: fields::backend_request(&self.host.request, &self.host.named, true, false),
            client_request: self.host.request.headers.clone(),
            connection: self.host.common.connection.clone(),
            hint: self.host.hint,
            identity: self.host.identity.clone(),
            digest: self.host.digest,
            fetch: None,
            stale: None,
            is_background: false,
            is_hitmiss: false,
            is_pass: true,
            is_included: self.host.esi_level > 0,
            is_hitpass: self.host.is_hitpass,
            xid,
            is_head: self.is_head,
        };
        self.is_passing = true;
        self.passed_xid = std::mem::take(&mut self.passes_hit).then_some(xid);
        if order.is_included {
            return Step::Fetch(Box::new(order));
        }
        Step::Pass(Box::new(Backend::new(order, self.host.common.now, self.has_body)))
    }

    fn pipe(&mut self) -> Step {
        self.host.backend_request = fields::piped_request(&self.host.request, &self.host.named);
        self.host.backend_request.headers.set(b"X-Varnish", self.host.xid.to_string().as_bytes());
        let number = (self.next_xid)();
        let Common { log, now, .. } = &mut self.host.common;
        let mut piped = log.fetch(number, "pipe");
        piped.timestamp("Start", *now);
        piped.request_head(BEREQ, &self.host.backend_request);
        let answer = match self.run(Subroutine::Pipe) {
            Ok(answer) => answer,
            Err(Wrong::Failed) => return self.synth(503, b"VCL failed"),
        };
        if answer.action != Action::Pipe {
            return self.elsewhere(&answer);
        }
        let url = self.host.request.target();
        let backend =
            self.host.common.resolve(self.host.hint, &DirectorFacts { key: b"", url, digest: self.host.digest });
        let Common { log, now, .. } = &mut self.host.common;
        log.count(Main::s_pipe);
        self.note = Note::PIPE;
        log.timestamp("Process", *now);
        piped.timestamp("Process", *now);
        Step::Pipe(Box::new(Pipe { backend, request: std::mem::take(&mut self.host.backend_request), log: piped }))
    }

    fn purge(&mut self) -> Step {
        self.host.purged = self.host.digest.map(|digest| self.loaded.cache.purge(digest));
        self.host.common.log.count(Main::n_purges);
        match self.run(Subroutine::Purge) {
            Ok(answer) => self.elsewhere(&answer),
            Err(Wrong::Failed) => self.synth(503, b"VCL failed"),
        }
    }

    fn deliver_object(&mut self) -> Step {
        let Some(object) = self.host.object.clone() else { return self.synth(503, b"Service Unavailable") };
        let (now, settings) = (self.host.common.now, &self.loaded.settings);
        let (gzip_is_on, ranges) = (settings.gzip, settings.ranges);
        object.head().unpack_into(&mut self.host.response, HEAD_ROOM.0, HEAD_ROOM.1);
        self.host.response.set_version(Version::Http11);
        self.head_of_delivery(Some(&object), now);
        if ranges && object.head().status() == 200 && !self.is_passing {
            let headers = &mut self.host.response.headers;
            headers.set_named(HeaderId::AcceptRanges, b"Accept-Ranges", &[b"bytes"]);
        }
        let is_gzip = fields::is_stored_as_gzip(&object);
        if gzip_is_on && is_gzip && !fields::accepts_gzip(&self.host.request.headers) {
            weaken_tag(&mut self.host.response.headers);
        }
        self.host.common.log.response_head(RESP, &self.host.response);
        let outcome = self.run(Subroutine::Deliver);
        if let Some(step) = self.after_deliver(outcome) {
            return step;
        }
        let Some(filters) = self.host.wanted_filters() else { return self.synth(503, b"Service Unavailable") };
        let is_unpacked = filters.gunzips && is_gzip;
        let recoding = match object.page() {
            None if is_unpacked => Recoding::Gunzip,
            Some(page) if page.is_gzip && !is_unpacked => Recoding::Gzip,
            _ => Recoding::None,
        };
        let encoding =
            if is_unpacked { self.host.response.headers.first(b"content-encoding").map(<[u8]>::to_vec) } else { None };
        if is_unpacked {
            self.host.response.headers.remove_known(HeaderId::ContentEncoding);
            if self.is_head {
                self.host.common.log.count(Main::n_gunzip);
            }
        }
        let is_page = object.page().is_some() && filters.includes;
        let length = match () {
            () if is_page || recoding != Recoding::None => None,
            // NOTE: an object that was fetched for HEAD has no body, and says how long it would be.
            () if self.is_head && self.is_passing => said_length(&object),
            () => known_length(&object),
        };
        if is_page {
            weaken_tag(&mut self.host.response.headers);
        }
        let part = self.finish((length, is_page), filters.ranges && self.host.esi_level == 0, encoding.as_deref());
        if !is_page {
            return self.end(DeliveredBody::Object { object, part, recoding });
        }
        if self.is_head || part == Part::Nothing {
            return self.end(DeliveredBody::Made(Vec::new()));
        }
        self.host.common.log.flush();
        let includes = Box::new(Includes::of(self, recoding == Recoding::Gzip));
        self.end(DeliveredBody::Page { object, gzip: recoding == Recoding::Gzip, includes })
    }

    /// What `vcl_deliver` says; `None` to deliver.
    fn after_deliver(&mut self, outcome: Result<Answered, Wrong>) -> Option<Step> {
        let Common { log, now, .. } = &mut self.host.common;
        log.timestamp("Process", *now);
        match outcome {
            Ok(answer) if answer.action == Action::Deliver => None,
            Ok(answer) => Some(self.elsewhere(&answer)),
            Err(Wrong::Failed) => Some(self.synth(503, b"VCL failed")),
        }
    }

    /// Answers that lead to the same from everywhere.
    fn elsewhere(&mut self, answer: &Answered) -> Step {
        match answer.action {
            Action::Restart => self.restart(),
            Action::Synth => {
                let status = answer.status.unwrap_or(200);
                match &answer.text {
                    Some(reason) => self.synth(status, &reason.clone()),
                    None => self.synth(status, b""),
                }
            }
            Action::Pass => self.pass(),
            _ => self.synth(503, b"VCL failed"),
        }
    }

    fn restart(&mut self) -> Step {
        self.host.restarts += 1;
        self.fetch = None;
        self.host.object = None;
        let Common { log, now, .. } = &mut self.host.common;
        if self.host.restarts > self.loaded.settings.max_restarts {
            log.record(VslTag::VCL_Error, b"Too many restarts");
            return self.synth(503, b"Service Unavailable");
        }
        self.host.xid = (self.next_xid)();
        log.timestamp("Restart", *now);
        log.change_number(self.host.xid, "req", "restart");
        self.host.digest = None;
        self.host.is_hitmiss = false;
        self.host.is_hitpass = false;
        self.is_hit = false;
        self.is_passing = false;
        self.passed_xid = None;
        self.record_request();
        self.receive()
    }

    fn end(&mut self, body: DeliveredBody) -> Step {
        let head = std::mem::take(&mut self.host.response);
        let closes = fields::closes(&head.headers);
        Step::Deliver(Box::new(Delivery { head, body, closes }))
    }

    fn run(&mut self, subroutine: Subroutine) -> Result<Answered, Wrong> {
        self.host.common.log.call(subroutine);
        self.host.common.subroutine = subroutine;
        let answer = run::run(&self.loaded.program, subroutine, &mut self.host, &self.workspace);
        match &answer {
            Ok(answer) => self.host.common.log.answered(answer),
            Err(failure) => {
                self.host.common.record(VslTag::VCL_Error, failure.to_string().as_bytes());
                self.host.common.log.returned(Action::Fail);
            }
        }
        let answered = match answer {
            Ok(answer) if answer.action == Action::Fail => Err(Wrong::Failed),
            Ok(answer) => Ok(Answered {
                action: answer.action,
                status: answer.status.and_then(|status| status_of(run::Value::Int(status)).ok()),
                text: answer.text.map(<[u8]>::to_vec),
                label: answer.label.and_then(|label| self.loaded.program.labels.get(label.0 as usize).cloned()),
            }),
            Err(_) => Err(Wrong::Failed),
        };
        if answered.is_err() {
            self.host.common.log.count(Main::vcl_fail);
        }
        self.workspace.clear();
        answered
    }
}

/// An answer of the program that outlives its run.
struct Answered {
    action: Action,
    status: Option<u16>,
    text: Option<Vec<u8>>,
    /// Of the program that takes the request over.
    label: Option<String>,
}

impl Client {
    /// Whether an object answers, and which kind.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.host.object.as_ref().map(|object| object.kind())
    }
}
