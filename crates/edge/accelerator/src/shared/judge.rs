//! What the policy says of messages, for objects.

use cache::{
    object::{Lifetime, Object},
    policy::{
        conditional,
        directives::{RequestDirectives, ResponseDirectives, Scope},
        freshness::{self, Exchange, Heuristic, LifetimeSource},
        reuse::{self, Reuse, Stored},
        storing::{self, NotStored},
    },
};
use http::{HeaderId, Headers, Method, ResponseHead};

use super::{age_of, whole};

/// Fields that are meant for caches of a site's own, and count instead of `Cache-Control` (RFC 9213).
const TARGETED: [&[u8]; 2] = [b"tidegate-cache-control", b"cdn-cache-control"];

/// A tenth of the time that a response was unchanged, a day at most (RFC 9111 section 4.2.2).
const HEURISTIC: Heuristic = Heuristic::LastModified { part: 0.1, most: 86_400 };

/// Seconds that a response is kept when it is stale: it may be validated, and is better than nothing when the origin is gone.
const KEEP: f64 = 3_600.0;

/// A response's directives for this cache.
pub(super) fn directives(headers: &Headers) -> ResponseDirectives {
    ResponseDirectives::of(headers, &TARGETED).0
}

/// How long a response to a GET may live here.
///
/// # Errors
/// Why it may not.
pub(super) fn lifetime(
    request: &Headers,
    status: u16,
    response: &Headers,
    (requested, received): (f64, f64),
) -> Result<Lifetime, NotStored> {
    let (directives, is_targeted) = ResponseDirectives::of(response, &TARGETED);
    storing::may_store(Method::Get, request, status, response, &directives)?;
    let exchange = Exchange { requested: whole(requested), received: whole(received) };
    let fresh = freshness::lifetime(status, response, &directives, is_targeted, exchange, HEURISTIC);
    // NOTE: the RFC lets it be guessed; a cookie is mostly for one user, so somebody has to say that it is not.
    if response.contains_known(HeaderId::SetCookie) && !lets_cookie_live(fresh) {
        return Err(NotStored::Nothing);
    }
    let stale = stored(&directives, fresh, 0);
    let may_be_stale = !stale.forbids_stale();
    let ttl = if directives.no_cache.is_whole() { 0 } else { fresh.seconds };
    let grace = directives.stale_while_revalidate.filter(|_| may_be_stale).unwrap_or(0);
    let on_error = directives.stale_if_error.filter(|_| may_be_stale).unwrap_or(0);
    if ttl == 0 && grace == 0 && on_error == 0 && !has_validator(response) {
        return Err(NotStored::Nothing);
    }
    let age = freshness::initial_age(response, exchange);
    Ok(Lifetime {
        origin: received - age as f64,
        ttl: ttl as f64,
        grace: grace as f64,
        keep: KEEP.max(on_error as f64),
    })
}

/// Whether a server that gives this lifetime lets everybody have the response's cookie for a while.
fn lets_cookie_live(lifetime: freshness::Lifetime) -> bool {
    !matches!(lifetime.source, LifetimeSource::Heuristic | LifetimeSource::Nothing) && lifetime.seconds > 0
}

/// What is stored of a response that these fields have brought or changed: not what is for the one client that asked.
pub(super) fn kept(head: &ResponseHead, news: &Headers) -> ResponseHead {
    let mut kept = head.clone();
    if news.contains_known(HeaderId::SetCookie) {
        // NOTE: how long the response lives may have been said before there was this cookie.
        let (directives, is_targeted) = ResponseDirectives::of(news, &TARGETED);
        let exchange = Exchange { requested: 0, received: 0 };
        let lifetime = freshness::lifetime(head.status(), news, &directives, is_targeted, exchange, Heuristic::None);
        if !lets_cookie_live(lifetime) {
            kept.headers.remove_known(HeaderId::SetCookie);
        }
    }
    remove_named(&mut kept.headers);
    kept
}

fn has_validator(response: &Headers) -> bool {
    response.contains(b"etag") || response.contains_known(HeaderId::LastModified)
}

fn stored(directives: &ResponseDirectives, lifetime: freshness::Lifetime, age: u64) -> Stored<'_> {
    Stored { directives, lifetime, age, has_validator: true }
}

/// What an object says, as far as it decides whether it may be used.
struct Judged {
    directives: ResponseDirectives,
    lifetime: freshness::Lifetime,
    age: u64,
}

impl Judged {
    fn of(object: &Object, now: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole seconds, as they were put in"
        )]
        let seconds = object.lifetime().ttl.max(0.0) as u64;
        let head = object.head();
        let directives = ResponseDirectives::of(head, &TARGETED).0;
        let is_said = directives.max_age.is_some()
            || directives.s_maxage.is_some()
            || head.first_known(HeaderId::Expires).is_some();
        let source = if is_said || seconds > 0 { LifetimeSource::MaxAge } else { LifetimeSource::Nothing };
        Self { directives, lifetime: freshness::Lifetime { seconds, source }, age: age_of(object, now) }
    }

    fn stored(&self) -> Stored<'_> {
        stored(&self.directives, self.lifetime, self.age)
    }
}

/// What is done with an object for a request.
pub(super) fn reuse(object: &Object, asked: RequestDirectives, now: f64) -> Reuse {
    reuse::reuse(&Judged::of(object, now).stored(), asked, true)
}

/// Whether a stale object may answer because the origin gave nothing (RFC 9111 section 4.2.4: the cache is disconnected).
pub(super) fn may_answer_disconnected(object: &Object, now: f64) -> bool {
    !Judged::of(object, now).stored().forbids_stale()
}

/// Whether a stale object may answer because the origin answered with an error (RFC 5861 section 4).
pub(super) fn may_answer_after_error(object: &Object, asked: RequestDirectives, now: f64) -> bool {
    reuse::may_serve_after_error(&Judged::of(object, now).stored(), asked, true)
}

/// Removes the fields that `no-cache` and `private` name: they were for the first one who asked (RFC 9111 sections 5.2.2.4 and
/// 5.2.2.7).
pub(super) fn remove_named(headers: &mut Headers) {
    let directives = directives(headers);
    for scope in [directives.no_cache, directives.private] {
        if let Scope::Fields(names) = scope {
            headers.retain(|name, _| !names.iter().any(|named| named.eq_ignore_ascii_case(name)));
        }
    }
}

/// Puts into a request what asks about an object; whether there is anything to ask about.
pub(super) fn ask_about(request: &mut Headers, object: &Object) -> bool {
    object.body().length().is_some() && conditional::ask_about(request, &object.head().unpacked().headers)
}
