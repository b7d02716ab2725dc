//! How long a response is fresh (RFC 9111 section 4.2).

use http::{HeaderId, Headers, parse_http_date};

use super::directives::{DELTA_SECONDS_MAX, ResponseDirectives, delta_seconds};

/// When a response was asked for and came, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request went out.
    pub requested: i64,
    /// The response's head was there.
    pub received: i64,
}

/// What a cache does with responses that do not say how long they are fresh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heuristic {
    /// A part of the time since their last change (RFC 9111 section 4.2.2), so many seconds at most.
    LastModified {
        /// The part, 0.1 mostly.
        part: f64,
        /// At most.
        most: u64,
    },
    /// This many seconds, as Varnish's `default_ttl`.
    Fixed(u64),
    /// They are not fresh.
    None,
}

/// Where a lifetime comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// `s-maxage`
    SMaxage,
    /// `max-age`
    MaxAge,
    /// `Expires`
    Expires,
    /// A guess.
    Heuristic,
    /// Nothing says anything.
    Nothing,
}

/// How long a response is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Seconds from its making on.
    pub seconds: u64,
    /// Why.
    pub source: LifetimeSource,
}

/// Statuses that may be kept although they do not say for how long (RFC 9110 section 15.1).
#[must_use]
pub const fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// When the response was made: its `Date`, or when it came (RFC 9110 section 6.6.1).
#[must_use]
pub fn made_at(headers: &Headers, exchange: Exchange) -> i64 {
    headers
        .first_known(HeaderId::Date)
        .and_then(|date| parse_http_date(date, exchange.received))
        .unwrap_or(exchange.received)
}

/// The value of `Age`: its first line; what makes no sense counts as not there, and what is too large as very old.
#[must_use]
pub fn age_value(headers: &Headers) -> u64 {
    let Some(line) = headers.first_known(HeaderId::Age) else { return 0 };
    let first = line.split(|byte| *byte == b',').next().unwrap_or_default();
    delta_seconds(first.trim_ascii()).unwrap_or(0)
}

/// How old the response was when it came (RFC 9111 section 4.2.3).
#[must_use]
pub fn initial_age(headers: &Headers, exchange: Exchange) -> u64 {
    let date = headers.first_known(HeaderId::Date).and_then(|date| parse_http_date(date, exchange.received));
    let apparent = date.map_or(0, |date| seconds(exchange.received - date));
    let delay = seconds(exchange.received - exchange.requested);
    apparent.max(age_value(headers).saturating_add(delay))
}

/// How old it is now.
#[must_use]
pub fn current_age(initial: u64, exchange: Exchange, now: i64) -> u64 {
    initial.saturating_add(seconds(now - exchange.received))
}

/// A span of time; a clock that was set back counts for none.
fn seconds(span: i64) -> u64 {
    u64::try_from(span).unwrap_or(0)
}

/// How long a response is fresh in a shared cache (RFC 9111 section 4.2.1).
#[must_use]
pub fn lifetime(
    status: u16,
    headers: &Headers,
    directives: &ResponseDirectives,
    is_targeted: bool,
    exchange: Exchange,
    heuristic: Heuristic,
) -> Lifetime {
    let of = |seconds, source| Lifetime { seconds, source };
    if let Some(seconds) = directives.s_maxage {
        return of(seconds, LifetimeSource::SMaxage);
    }
    if let Some(seconds) = directives.max_age {
        return of(seconds, LifetimeSource::MaxAge);
    }
    if !is_targeted && headers.contains_known(HeaderId::Expires) {
        // NOTE: what is no time, `0` above all, is in the past (RFC 9111 section 5.3). So is what is said twice and differently.
        let mut lines = headers.all_known(HeaderId::Expires);
        let first = lines.next().unwrap_or_default();
        let expires = if lines.all(|line| line == first) { parse_http_date(first, exchange.received) } else { None };
        let fresh = expires.map_or(0, |expires| seconds(expires - made_at(headers, exchange)));
        return of(fresh.min(DELTA_SECONDS_MAX), LifetimeSource::Expires);
    }
    if !is_heuristically_cacheable(status) && !directives.public {
        return of(0, LifetimeSource::Nothing);
    }
    match heuristic {
        Heuristic::LastModified { part, most } => {
            let modified =
                headers.first_known(HeaderId::LastModified).and_then(|line| parse_http_date(line, exchange.received));
            match modified {
                Some(modified) => {
                    let unchanged = seconds(made_at(headers, exchange) - modified);
                    of(((unchanged as f64 * part) as u64).min(most), LifetimeSource::Heuristic)
                }
                None => of(0, LifetimeSource::Nothing),
            }
        }
        Heuristic::Fixed(seconds) => of(seconds, LifetimeSource::Heuristic),
        Heuristic::None => of(0, LifetimeSource::Nothing),
    }
}
