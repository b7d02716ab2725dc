//! What a response says of its own life, as Varnish reads it.

use std::borrow::Cow;

use cache::policy::{date, directives::ResponseDirectives, freshness};
use http::{HeaderId, Headers};

use super::{Backend, Decisions, whole};

impl Backend {
    /// What the response says of its own life.
    pub(super) fn judge(&mut self, now: f64) {
        let settings = &self.loaded.settings;
        let read = as_varnish_reads(&self.host.response.headers);
        let headers = &*read;
        let (directives, is_targeted) = ResponseDirectives::of(headers, &[]);
        let age = freshness::age_value(headers) as f64;
        let exchange = freshness::Exchange { requested: whole(self.host.started), received: whole(now) };
        let status = self.host.response.status();
        let heuristic = freshness::Heuristic::None;
        let said = freshness::lifetime(status, headers, &directives, is_targeted, exchange, heuristic);
        let is_pass = self.host.is_pass;
        let says_nothing =
            matches!(said.source, freshness::LifetimeSource::Nothing | freshness::LifetimeSource::Heuristic);
        let ttl = match (status, says_nothing) {
            (200 | 203 | 204 | 300 | 301 | 304 | 404 | 410 | 414, true) => settings.default_ttl,
            (200 | 203 | 204 | 300 | 301 | 302 | 304 | 307 | 404 | 410 | 414, false) => said.seconds as f64,
            _ => -1.0,
        };
        let said_grace = directives.stale_while_revalidate.filter(|_| ttl >= 0.0);
        let grace = said_grace.map_or(settings.default_grace, |seconds| seconds as f64);
        drop(read);
        self.host.named_filters = None;
        self.host.decisions = Decisions {
            // What is for one client has no life, unless the program gives it one.
            ttl: if is_pass { 0.0 } else { ttl },
            grace: if is_pass { 0.0 } else { grace },
            keep: if is_pass { 0.0 } else { settings.default_keep },
            age,
            is_uncacheable: self.host.is_pass,
            streams: true,
            gzips: false,
            gunzips: false,
            has_includes: false,
            storage: None,
            turn: if is_pass { 0 } else { self.loaded.storages.take_turn() },
        };
        self.record_ttl(&directives, now);
    }
}

/// The fields in the form in which the rules of RFC 9111 come to what Varnish makes of them: blanks may stand around a directive's `=`,
/// and a date in other letters is none.
fn as_varnish_reads(headers: &Headers) -> Cow<'_, Headers> {
    let mut read = Cow::Borrowed(headers);
    let has_blanks = |line: &[u8]| line.windows(2).any(|pair| matches!(pair, b" =" | b"= " | b"\t=" | b"=\t"));
    if let Some(line) = headers.first(b"cache-control").filter(|line| has_blanks(line)) {
        let line = without_blanks(line);
        read.to_mut().set(b"Cache-Control", &line);
    }
    if headers.first_known(HeaderId::Expires).is_some_and(|line| !date::is_in_usual_letters(line)) {
        read.to_mut().remove_known(HeaderId::Expires);
    }
    read
}

fn without_blanks(line: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b'=').collect();
    let last = parts.len() - 1;
    let trimmed = parts.iter().enumerate().map(|(place, part)| {
        let part = if place > 0 { part.trim_ascii_start() } else { part };
        if place < last { part.trim_ascii_end() } else { part }
    });
    trimmed.collect::<Vec<_>>().join(&b'=')
}

/// Whether the names of a Vary field can be used: each is a token of no more than 127 bytes, and commas stand between them.
pub(super) fn is_usable_vary(headers: &Headers) -> bool {
    const NAME_BYTES_MAX: usize = 127;
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
    };
    let mut lines = headers.all_known(HeaderId::Vary);
    lines.all(|line| line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varnish_reads() {
        let read = |name: &[u8], value: &[u8]| {
            let mut headers = Headers::default();
            headers.add(name, value);
            as_varnish_reads(&headers).first(name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(read(b"cache-control", b"max-age = 1, public").as_deref(), Some("max-age=1, public"));
        assert_eq!(read(b"expires", b"THU, 18 Aug 2050 02:01:18 GMT"), None);
        assert!(read(b"expires", b"Thu, 18 Aug 2050 02:01:18 GMT").is_some());
    }

    #[test]
    fn names_of_vary() {
        let is_usable = |value: &[u8]| {
            let mut headers = Headers::default();
            headers.add(b"Vary", value);
            is_usable_vary(&headers)
        };
        assert!(is_usable(b"accept-encoding, Cookie") && is_usable(b"*"));
        assert!(!is_usable(b": foo") && !is_usable(b"a b") && !is_usable(&[b'a'; 128]));
    }
}
