//! A request to the origin, and what becomes of its response.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use cache::{
    body::Cursor,
    index::{Digest, Fetch, Found, Query},
    object::{Filler, Kind, Lifetime, Object, Variant},
    policy::{
        directives::RequestDirectives,
        invalidation,
        storing::NotStored,
        update::{self, HeadSays},
        vary,
    },
};
use http::{HeaderId, Headers, Method, RequestHead, ResponseHead};

use super::{
    Shared, age_of, bytes_max, digest, host, judge, path,
    status::{self, Forward, Handled},
};
use crate::{
    backend::{Accepted, AcceptedBody, Recoding, Stored},
    fields,
};

/// Seconds that requests for a response that was not to be stored do not wait for each other.
const UNCACHEABLE_FOR: f64 = 120.0;

/// Statuses that say that the origin cannot answer now (RFC 5861 section 4).
const fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// What is to be sent to the origin, and for whom.
#[derive(Debug)]
pub struct Order {
    pub(super) shared: Arc<Shared>,
    /// The client's request.
    pub(super) request: RequestHead,
    pub(super) asked: RequestDirectives,
    pub(super) digest: Digest,
    pub(super) fetch: Option<Fetch>,
    pub(super) stale: Option<Arc<Object>>,
    pub(super) why: Forward,
    /// Whether it goes on as it is, for this client alone.
    pub(super) is_pass: bool,
    /// Whether it asks for a part.
    pub(super) is_range: bool,
    pub(super) has_body: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Step {
    /// Send [`Backend::request`] to the origin; then [`Backend::responded`] or [`Backend::failed`].
    Ask,
    /// The response goes to whoever waits.
    Accept(Box<Accepted>),
    /// There is nothing for whoever waits but the failure.
    Abandon,
}

/// The machine.
#[derive(Debug)]
pub struct Backend {
    order: Order,
    sent: RequestHead,
    started: f64,
    /// Whether the request asks about the stale object.
    asks: bool,
}

impl Backend {
    /// A request that begins now.
    #[must_use]
    pub fn new(order: Order, now: f64) -> Self {
        let mut sent = fields::backend_request(&order.request, &[], order.is_pass, false);
        if order.is_range {
            for id in [HeaderId::Range, HeaderId::IfRange] {
                if let Some(line) = order.request.headers.first_known(id) {
                    sent.headers.add_known(id, line);
                }
            }
        }
        status::via(&mut sent.headers, order.request.version(), &order.shared.name);
        let mut backend = Self { order, sent, started: now, asks: false };
        if let Some(stale) = backend.order.stale.clone().filter(|_| !backend.order.is_pass) {
            backend.asks = judge::ask_about(&mut backend.sent.headers, &stale);
        }
        backend
    }

    /// The first step.
    pub fn begin(&mut self) -> Step {
        self.ask()
    }

    fn ask(&mut self) -> Step {
        if let Some(fetch) = &mut self.order.fetch {
            fetch.asks_now();
        }
        Step::Ask
    }

    /// What is sent.
    #[must_use]
    pub fn request(&self) -> &RequestHead {
        &self.sent
    }

    /// Whether the body of the client's request goes along.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        self.order.has_body
    }

    /// The head of a response has come.
    pub fn responded(&mut self, mut head: ResponseHead, now: f64) -> Step {
        fields::remove_connection(&mut head.headers);
        if self.order.is_pass {
            return self.passed(head, now);
        }
        if head.status() == 304 {
            return self.not_modified(&head, now);
        }
        let stale = self.order.stale.clone();
        if is_failure(head.status())
            && let Some(stale) = &stale
            && judge::may_answer_after_error(stale, self.order.asked, now)
        {
            return self.answer_stale(stale, "stale-if-error", now);
        }
        match judge::lifetime(&self.order.request.headers, head.status(), &head.headers, (self.started, now)) {
            Ok(lifetime) => {
                let kept = judge::kept(&head, &head.headers);
                self.store(head, kept, lifetime, AcceptedBody::Backend(Recoding::None))
            }
            Err(why) => self.relay(head, why, now),
        }
    }

    /// No response has come.
    pub fn failed(&mut self, now: f64) -> Step {
        let stale = self.order.stale.clone().filter(|_| !self.order.is_pass);
        match stale.filter(|stale| judge::may_answer_disconnected(stale, now)) {
            Some(stale) => self.answer_stale(&stale, "the origin does not answer", now),
            None => Step::Abandon,
        }
    }

    /// Nothing comes of it: those who wait fail with this status.
    pub fn abandon(&mut self, status: u16) {
        if let Some(fetch) = self.order.fetch.take() {
            fetch.failed(status);
        }
    }

    /// What is stored has not changed (RFC 9111 section 4.3.3).
    fn not_modified(&mut self, not_modified: &ResponseHead, now: f64) -> Step {
        let asked = std::mem::take(&mut self.asks);
        let stale = self.order.stale.clone().filter(|_| asked);
        let stale = stale.filter(|stale| {
            update::is_about(&not_modified.headers, &stale.head().unpacked().headers, super::whole(now))
        });
        let Some(stale) = stale else {
            if !asked {
                return self.failed(now);
            }
            // It is about something else: what there is now is asked for.
            self.order.stale = None;
            self.sent.headers.remove(b"if-none-match");
            self.sent.headers.remove_known(HeaderId::IfModifiedSince);
            return self.ask();
        };
        let mut head = stale.head().unpacked();
        judge::remove_named(&mut head.headers);
        update::update(&mut head.headers, &not_modified.headers);
        match judge::lifetime(&self.order.request.headers, head.status(), &head.headers, (self.started, now)) {
            Ok(lifetime) => {
                let kept = judge::kept(&head, &not_modified.headers);
                self.store(head, kept, lifetime, AcceptedBody::Stale(stale))
            }
            Err(why) => {
                self.order.shared.cache.remove(&stale);
                self.mark(why, head.status(), now);
                self.tell(&mut head, Some(304), false, Some(why.words()));
                accept(None, head, AcceptedBody::Stale(stale))
            }
        }
    }

    /// Stores of a response what is kept; the client gets its body from there.
    fn store(
        &mut self,
        mut head: ResponseHead,
        mut kept: ResponseHead,
        lifetime: Lifetime,
        body: AcceptedBody,
    ) -> Step {
        let shared = Arc::clone(&self.order.shared);
        let storage = &shared.storage(lifetime.ends() - lifetime.origin).usable();
        let is_validated = matches!(body, AcceptedBody::Stale(_));
        let length = content_length(&head.headers);
        fields::keep_for_object(&mut kept.headers, false);
        if let Some(length) = length {
            kept.headers.add_number(HeaderId::ContentLength, length);
        }
        let fits = length.is_none_or(|length| length <= bytes_max(storage));
        let started =
            fits.then(|| Object::start(&shared.cache, storage, Kind::Ordinary, kept, lifetime).ok()).flatten();
        let status = is_validated.then_some(304);
        if is_validated {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds")]
            status::age(&mut head.headers, (lifetime.ttl.max(0.0) as u64).min(self.age_at_arrival(lifetime)));
        }
        let Some((object, filler)) = started else {
            self.order.fetch.take().into_iter().for_each(Fetch::is_private);
            self.tell(&mut head, status, false, Some("there is no room for it"));
            return accept(None, head, body);
        };
        let names = vary::names(&head.headers).unwrap_or_default();
        let fetch = self.order.fetch.take().map(|mut fetch| {
            if !names.is_empty() {
                fetch.varies_by(Variant::of(names, &self.sent.headers));
            }
            fetch
        });
        self.tell(&mut head, status, true, None);
        accept(Some(Stored { object, filler, fetch, streams: true, includes: None }), head, body)
    }

    fn age_at_arrival(&self, lifetime: Lifetime) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds")]
        let age = (self.started - lifetime.origin).max(0.0) as u64;
        age
    }

    /// Hands a response on without storing it.
    fn relay(&mut self, mut head: ResponseHead, why: NotStored, now: f64) -> Step {
        if !is_failure(head.status())
            && !self.order.is_range
            && let Some(old) = self.order.stale.take()
        {
            // There is something newer, although it is not kept.
            self.order.shared.cache.remove(&old);
        }
        self.mark(why, head.status(), now);
        self.tell(&mut head, None, false, Some(why.words()));
        accept(None, head, AcceptedBody::Backend(Recoding::None))
    }

    /// Tells who waits that this response is not for them, and those who come that they need not wait.
    fn mark(&mut self, why: NotStored, status: u16, now: f64) {
        let Some(fetch) = self.order.fetch.take() else { return };
        let is_of_request = matches!(why, NotStored::Authorization | NotStored::RequestNoStore);
        if is_of_request || self.order.is_range || is_failure(status) {
            return fetch.is_private();
        }
        let lifetime = Lifetime { origin: now, ttl: UNCACHEABLE_FOR, grace: 0.0, keep: 0.0 };
        let shared = &self.order.shared;
        match Object::start(&shared.cache, &shared.memory, Kind::HitForMiss, ResponseHead::default(), lifetime) {
            Ok((marker, filler)) => {
                filler.finish();
                fetch.publish(marker);
            }
            Err(_) => fetch.is_private(),
        }
    }

    /// Answers with what is stored although it is stale.
    fn answer_stale(&mut self, stale: &Arc<Object>, detail: &'static str, now: f64) -> Step {
        // NOTE: who waits is told that there is nothing new, and decides for itself whether the old will do.
        self.abandon(503);
        let mut head = stale.head().unpacked();
        judge::remove_named(&mut head.headers);
        status::age(&mut head.headers, age_of(stale, now));
        let ttl = super::whole(stale.fresh_until() - now);
        let version = head.version();
        status::via(&mut head.headers, version, &self.order.shared.name);
        let handled = Handled::Hit { ttl, detail: Some(detail), collapsed: false };
        status::tell(&mut head.headers, &self.order.shared.name, handled);
        accept(None, head, AcceptedBody::Stale(Arc::clone(stale)))
    }

    /// A response to a request that goes on as it is: what it changes of what is stored.
    fn passed(&mut self, mut head: ResponseHead, now: f64) -> Step {
        let method = self.order.request.method_kind();
        if !invalidation::is_safe(method) && invalidation::is_success(head.status()) {
            self.invalidate(&head.headers);
        }
        if method == Method::Head && head.status() == 200 && self.order.why != Forward::Request {
            self.update_by_head(&head.headers, now);
        }
        self.tell(&mut head, None, false, None);
        accept(None, head, AcceptedBody::Backend(Recoding::None))
    }

    /// RFC 9111 section 4.4.
    fn invalidate(&self, response: &Headers) {
        let (host, path) = (host(&self.order.request), path(&self.order.request));
        let cache = &self.order.shared.cache;
        cache.purge(digest(&host, path));
        for path in invalidation::also_invalid(response, &host, path) {
            cache.purge(digest(&host, &path));
        }
    }

    /// What a HEAD says about what is stored: it is fresh again, or is not the same any more (RFC 9111 section 4.3.5).
    fn update_by_head(&self, response: &Headers, now: f64) {
        let order = &self.order;
        let query = Query::new(order.digest.0, order.request.target(), &order.request.headers, now);
        let Some(stored) = order.shared.cache.peek(&query).filter(|stored| stored.body().length().is_some()) else {
            return;
        };
        if stored.head().status() != 200 {
            return;
        }
        let mut head = stored.head().unpacked();
        match update::head_says(response, &head.headers) {
            HeadSays::Same => {}
            HeadSays::Other => {
                order.shared.cache.remove(&stored);
                return;
            }
            HeadSays::Nothing => return,
        }
        update::update(&mut head.headers, response);
        head = judge::kept(&head, response);
        let Ok(lifetime) = judge::lifetime(&order.request.headers, 200, &head.headers, (self.started, now)) else {
            order.shared.cache.remove(&stored);
            return;
        };
        // NOTE: without room the stored one stays, stale as it is.
        let _ = self.replace(&stored, head, lifetime, &query);
    }

    fn replace(&self, stored: &Object, head: ResponseHead, lifetime: Lifetime, query: &Query<'_>) -> Option<()> {
        let cache = &self.order.shared.cache;
        let names = vary::names(&head.headers).unwrap_or_default();
        let (object, mut filler) = Object::start(cache, stored.storage(), Kind::Ordinary, head, lifetime).ok()?;
        copy_body(stored, &mut filler)?;
        let query = Query { always_misses: true, is_impatient: true, is_unshared: true, ..*query };
        if let Found::Miss { mut fetch, .. } = cache.lookup(&query) {
            if !names.is_empty() {
                fetch.varies_by(Variant::of(names, query.headers));
            }
            filler.finish();
            fetch.publish(object);
        }
        Some(())
    }

    /// Says in a response what became of it.
    fn tell(&self, head: &mut ResponseHead, status: Option<u16>, stored: bool, detail: Option<&'static str>) {
        let name = &self.order.shared.name;
        let version = head.version();
        status::via(&mut head.headers, version, name);
        let handled = Handled::Forwarded { why: self.order.why, status, stored, detail };
        status::tell(&mut head.headers, name, handled);
    }
}

/// Copies the body of an object that is whole; `None` if the storage has no room, or the disk has lost a piece.
fn copy_body(from: &Object, to: &mut Filler) -> Option<()> {
    let (mut cursor, mut context) = (Cursor::default(), Context::from_waker(Waker::noop()));
    loop {
        match from.poll_next(&mut cursor, &mut context) {
            Poll::Ready(Ok(Some(chunk))) => to.push(chunk).ok()?,
            Poll::Ready(Ok(None)) => return Some(()),
            Poll::Ready(Err(_)) | Poll::Pending => return None,
        }
    }
}

fn accept(stored: Option<Stored>, head: ResponseHead, body: AcceptedBody) -> Step {
    Step::Accept(Box::new(Accepted { stored, head, body }))
}

fn content_length(headers: &Headers) -> Option<u64> {
    std::str::from_utf8(headers.first_known(HeaderId::ContentLength)?).ok()?.parse().ok()
}
