//! Whether a stored response answers a request (RFC 9111 section 4).

use super::{
    directives::{RequestDirectives, ResponseDirectives, Scope},
    freshness::{Lifetime, LifetimeSource},
};

/// A stored response as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'s> {
    /// Its directives.
    pub directives: &'s ResponseDirectives,
    /// How long it is fresh.
    pub lifetime: Lifetime,
    /// How old it is.
    pub age: u64,
    /// Whether it has something to ask about: an `ETag` or a `Last-Modified`.
    pub has_validator: bool,
}

impl Stored<'_> {
    /// For how many seconds it has been stale; 0 while it is fresh.
    #[must_use]
    pub fn stale_by(&self) -> u64 {
        // NOTE: a response is fresh while its lifetime is greater than its age, so it is stale in the very second.
        if self.lifetime.seconds > self.age { 0 } else { self.age - self.lifetime.seconds + 1 }
    }

    /// Whether it may never be used stale (RFC 9111 section 4.2.4). Of what nobody has given any lifetime, nobody has said either that
    /// others may have it: it is there to be validated.
    #[must_use]
    pub fn forbids_stale(&self) -> bool {
        let directives = self.directives;
        let is_for_validation = self.lifetime.source == LifetimeSource::Nothing
            && directives.stale_while_revalidate.is_none()
            && directives.stale_if_error.is_none();
        directives.must_revalidate
            || directives.proxy_revalidate
            || directives.s_maxage.is_some()
            || directives.no_cache.is_whole()
            || is_for_validation
    }
}

/// Why a stored response is asked about first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyValidate {
    /// It is stale.
    Stale,
    /// It says `no-cache`.
    NoCache,
    /// The request says `no-cache`.
    RequestNoCache,
    /// The request wants it younger.
    RequestMaxAge,
    /// The request wants it fresh for longer.
    RequestMinFresh,
}

/// What is done with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is served.
    Serve,
    /// It is served, and fetched again meanwhile (`stale-while-revalidate`).
    ServeAndRefresh,
    /// It is served although it is stale, since the client takes that (`max-stale`).
    ServeStale,
    /// It is asked about, or fetched again.
    Validate(WhyValidate),
}

/// What is done with what is stored for this request. `honours_request` says whether a client may ask for something fresher; where it
/// may not, only `no-cache` counts that the response says.
#[must_use]
pub fn reuse(stored: &Stored<'_>, request: RequestDirectives, honours_request: bool) -> Reuse {
    if stored.directives.no_cache == Scope::Whole {
        return Reuse::Validate(WhyValidate::NoCache);
    }
    if honours_request {
        if request.no_cache {
            return Reuse::Validate(WhyValidate::RequestNoCache);
        }
        if request.max_age.is_some_and(|most| stored.age > most) && request.max_stale.is_none() {
            return Reuse::Validate(WhyValidate::RequestMaxAge);
        }
        if request.min_fresh.is_some_and(|least| stored.lifetime.seconds.saturating_sub(stored.age) < least) {
            return Reuse::Validate(WhyValidate::RequestMinFresh);
        }
    }
    let stale_by = stored.stale_by();
    if stale_by == 0 {
        return Reuse::Serve;
    }
    if stored.forbids_stale() {
        return Reuse::Validate(WhyValidate::Stale);
    }
    if stored.directives.stale_while_revalidate.is_some_and(|most| stale_by <= most) {
        return Reuse::ServeAndRefresh;
    }
    if honours_request && request.max_stale.is_some_and(|most| stale_by <= most) {
        return Reuse::ServeStale;
    }
    Reuse::Validate(WhyValidate::Stale)
}

/// Whether a stale response may be served because a fetch failed: no connection, or a 500, 502, 503 or 504 (RFC 5861 section 4).
#[must_use]
pub fn may_serve_after_error(stored: &Stored<'_>, request: RequestDirectives, honours_request: bool) -> bool {
    let stale_by = stored.stale_by();
    if stale_by == 0 {
        return true;
    }
    if stored.forbids_stale() {
        return false;
    }
    let of_request = if honours_request { request.stale_if_error } else { None };
    [stored.directives.stale_if_error, of_request].into_iter().flatten().any(|most| stale_by <= most)
}
