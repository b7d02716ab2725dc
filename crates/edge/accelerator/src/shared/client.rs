//! A client's request.

use std::sync::Arc;

use cache::{
    index::{Digest, Fetch, Found, Outcome, Query, Waiting},
    object::{Kind, Object},
    policy::{
        directives::RequestDirectives,
        reuse::{Reuse, WhyValidate},
    },
};
use http::{HeaderId, Method, RequestHead, ResponseHead, Version};

use super::{
    Backend, Order, Shared, age_of, digest, host, judge, path,
    status::{self, Forward, Handled},
    whole,
};
use crate::{
    backend::Recoding,
    client::{DeliveredBody, Delivery, Fetched, Pipe},
    log::Log,
    output::{self, Part},
};

/// What is to be done next for a request.
#[derive(Debug)]
pub enum Step {
    /// Wait for the fetch of another request; then [`Client::woken`].
    Wait(Waiting),
    /// Have an object fetched, in a task that lives longer than this request; then [`Client::fetched`] or [`Client::passed`].
    Fetch(Box<Order>),
    /// Ask the origin for this client alone: drive the machine, hand on its response by [`Client::passed`].
    Pass(Box<Backend>),
    /// Bytes both ways, after this request.
    Pipe(Box<Pipe>),
    /// This goes to the client; that is the end.
    Deliver(Box<Delivery>),
    /// The client gets the page of this status.
    Fail(u16),
}

/// The machine.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    request: RequestHead,
    digest: Digest,
    asked: RequestDirectives,
    has_body: bool,
    now: f64,
    refresh: Option<Box<Order>>,
    has_waited: bool,
}

impl Client {
    /// A request; `has_body` says whether a body follows the head.
    #[must_use]
    pub fn new(shared: &Arc<Shared>, request: RequestHead, now: f64, has_body: bool) -> Self {
        let digest = digest(&host(&request), path(&request));
        let asked = RequestDirectives::of(&request.headers);
        Self { shared: Arc::clone(shared), request, digest, asked, has_body, now, refresh: None, has_waited: false }
    }

    /// The first step.
    pub fn begin(&mut self) -> Step {
        let method = self.request.method_kind();
        if http::wants_upgrade(&self.request) || method == Method::Connect {
            return Step::Pipe(Box::new(Pipe {
                backend: None,
                request: std::mem::take(&mut self.request),
                log: Log::default(),
            }));
        }
        if !matches!(method, Method::Get | Method::Head) {
            return self.pass(Forward::Method);
        }
        // RFC 9110 section 13.1: these are for the origin, as is whatever a body may mean.
        let headers = &self.request.headers;
        if self.has_body || headers.contains(b"if-match") || headers.contains(b"if-unmodified-since") {
            return self.pass(Forward::Bypass);
        }
        if self.asked.no_store {
            return self.pass(Forward::Request);
        }
        self.look(false)
    }

    /// The fetch of another request has ended.
    pub fn woken(&mut self, outcome: &Outcome, now: f64) -> Step {
        self.now = now;
        self.has_waited = true;
        match outcome {
            Outcome::Published(object) => {
                let answers = object.kind() == Kind::Ordinary
                    && object.fresh_until() > now
                    && object.variant().is_some_and(|variant| variant.answers(&self.request.headers));
                // It was fetched while this request waited: it is as fresh as any that could be fetched.
                if answers { self.hit(object, None) } else { self.look(object.lifetime().ttl <= 0.0) }
            }
            Outcome::Private => self.look(true),
            Outcome::Failed(status) => {
                let stored = self.shared.cache.peek(&self.query()).filter(|stored| {
                    judge::may_answer_disconnected(stored, now)
                        || judge::may_answer_after_error(stored, self.asked, now)
                });
                match stored {
                    Some(stored) => self.hit(&stored, None),
                    None => Step::Fail(*status),
                }
            }
        }
    }

    /// The fetch that this request had made has come to a head.
    pub fn fetched(&mut self, fetched: Fetched, now: f64) -> Step {
        self.now = now;
        match fetched {
            Fetched::Own(object, head) => self.deliver(&object, *head),
            Fetched::Object(object) => self.hit(&object, None),
            Fetched::Nothing => Step::Fail(503),
        }
    }

    /// The origin's response to a request that was passed, or that is not stored; `None` if there is none.
    pub fn passed(&mut self, head: Option<ResponseHead>, length: Option<u64>, now: f64) -> Step {
        let Some(mut head) = head else { return Step::Fail(503) };
        // NOTE: what the client asked the origin itself, the origin has answered.
        let has_asked = matches!(head.status(), 206 | 304) || self.request.method_kind() != Method::Get;
        let part = if has_asked { Part::Whole } else { output::finish(&self.request, &mut head, length, false, now) };
        Step::Deliver(Box::new(Delivery { head, body: DeliveredBody::Passed(part), closes: false }))
    }

    /// An object that this request wants fetched in the background.
    pub fn take_refresh(&mut self) -> Option<Box<Order>> {
        self.refresh.take()
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &RequestHead {
        &self.request
    }

    fn query(&self) -> Query<'_> {
        Query::new(self.digest.0, self.request.target(), &self.request.headers, self.now)
    }

    /// Looks for what may answer (RFC 9111 section 4).
    fn look(&mut self, is_impatient: bool) -> Step {
        let is_head = self.request.method_kind() == Method::Head;
        let mut why = Forward::Miss;
        // What most requests ask for, the index knows by itself.
        if is_head || self.asked != RequestDirectives::default() {
            if let Some(object) = self.shared.cache.peek(&self.query()) {
                match judge::reuse(&object, self.asked, self.now) {
                    Reuse::Serve | Reuse::ServeStale => return self.hit(&object, None),
                    Reuse::ServeAndRefresh if is_head || self.asked.only_if_cached => return self.hit(&object, None),
                    Reuse::ServeAndRefresh => {}
                    Reuse::Validate(WhyValidate::Stale | WhyValidate::NoCache) => why = Forward::Stale,
                    Reuse::Validate(_) => why = Forward::Request,
                }
            }
            if self.asked.only_if_cached {
                return Step::Fail(504);
            }
            if is_head {
                return self.pass(if why == Forward::Request { Forward::Stale } else { why });
            }
        }
        self.look_up(why, is_impatient)
    }

    fn look_up(&mut self, why: Forward, is_impatient: bool) -> Step {
        let validates = (why != Forward::Miss).then_some(0.0);
        let is_range = self.request.headers.contains_known(HeaderId::Range);
        let query = Query { ttl: validates, grace: validates, is_impatient, is_unshared: is_range, ..self.query() };
        match self.shared.cache.lookup(&query) {
            Found::Hit(object) => self.hit(&object, None),
            Found::Grace { object, fetch } => self.hit(&object, fetch),
            Found::Miss { fetch, stale } => Step::Fetch(self.order(Some(fetch), stale, why)),
            Found::HitForMiss { fetch, .. } => Step::Fetch(self.order(Some(fetch), None, why)),
            Found::HitForPass(_) => self.pass(why),
            Found::Busy(waiting) => Step::Wait(waiting),
        }
    }

    fn order(&self, fetch: Option<Fetch>, stale: Option<Arc<Object>>, why: Forward) -> Box<Order> {
        let is_stale = stale.is_some();
        let is_range = !is_stale && self.request.headers.contains_known(HeaderId::Range);
        let why = match why {
            Forward::Miss if is_stale => Forward::Stale,
            Forward::Miss if is_range => Forward::Partial,
            why => why,
        };
        Box::new(Order {
            shared: Arc::clone(&self.shared),
            request: self.request.clone(),
            asked: self.asked,
            digest: self.digest,
            fetch,
            stale,
            why,
            is_pass: false,
            is_range,
            has_body: false,
        })
    }

    fn pass(&mut self, why: Forward) -> Step {
        let order = Order { is_pass: true, is_range: false, has_body: self.has_body, ..*self.order(None, None, why) };
        Step::Pass(Box::new(Backend::new(order, self.now)))
    }

    /// Answers with what is stored; with `fetch` it is fetched again meanwhile.
    fn hit(&mut self, object: &Arc<Object>, fetch: Option<Fetch>) -> Step {
        object.count_hit();
        if let Some(fetch) = fetch {
            self.refresh = Some(self.order(Some(fetch), Some(Arc::clone(object)), Forward::Stale));
        }
        let mut head = object.head().unpacked();
        judge::remove_named(&mut head.headers);
        status::age(&mut head.headers, age_of(object, self.now));
        let version = head.version();
        status::via(&mut head.headers, version, &self.shared.name);
        let ttl = whole((object.fresh_until() - self.now).floor());
        let detail = (ttl < 0).then_some("stale");
        status::tell(&mut head.headers, &self.shared.name, Handled::Hit { ttl, detail, collapsed: self.has_waited });
        self.deliver(object, head)
    }

    fn deliver(&self, object: &Arc<Object>, mut head: ResponseHead) -> Step {
        head.set_version(Version::Http11);
        let said = head.headers.first_known(HeaderId::ContentLength);
        let said = said.and_then(|said| std::str::from_utf8(said).ok()?.parse().ok());
        let length = object.body().length().or(said).filter(|_| head.status() != 204);
        // RFC 9111 section 4.3.2: without Last-Modified the time counts when it was made.
        let made = head.headers.first_known(HeaderId::Date).map(<[u8]>::to_vec);
        let made = made.filter(|_| !head.headers.contains_known(HeaderId::LastModified));
        if let Some(made) = &made {
            head.headers.add_known(HeaderId::LastModified, made);
        }
        if head.status() == 200 && length.is_some() {
            head.headers.set(b"accept-ranges", b"bytes");
        }
        let part = output::finish(&self.request, &mut head, length, true, self.now);
        if made.is_some() {
            head.headers.remove_known(HeaderId::LastModified);
        }
        let body = DeliveredBody::Object { object: Arc::clone(object), part, recoding: Recoding::None };
        Step::Deliver(Box::new(Delivery { head, body, closes: false }))
    }
}
