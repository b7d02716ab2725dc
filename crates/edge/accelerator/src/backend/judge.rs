//! What a response says of its own life, as Varnish reads it.

use http::{HeaderId, Headers, is_http_date_in_usual_letters, parse_http_date};

use super::{Backend, Decisions, whole};

/// Seconds by which a backend's clock may differ from this one (`clock_skew`).
const CLOCK_SKEW: f64 = 10.0;

/// What a response says of its times, as Varnish reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// How long it is fresh; `None` if it does not say.
    pub(super) ttl: Option<f64>,
    /// `stale-while-revalidate`.
    pub(super) grace: Option<f64>,
    pub(super) age: f64,
    pub(super) max_age: f64,
    pub(super) date: i64,
    pub(super) expires: i64,
}

impl Said {
    pub(super) fn of(headers: &Headers, now: f64) -> Self {
        let time = |id| {
            let line = headers.first_known(id).filter(|line| is_http_date_in_usual_letters(line));
            line.and_then(|line| parse_http_date(line, whole(now))).unwrap_or(0)
        };
        let mut said = Self { date: time(HeaderId::Date), expires: time(HeaderId::Expires), ..Self::default() };
        said.age = headers.first_known(HeaderId::Age).map_or(0.0, seconds);
        let line = headers.first(b"cache-control").unwrap_or_default();
        said.grace = directive(line, b"stale-while-revalidate").flatten().map(seconds);
        // NOTE: the first of several counts, and one in quotes is no number, so 0.
        let max_age = directive(line, b"s-maxage").or_else(|| directive(line, b"max-age")).flatten();
        said.max_age = max_age.map_or(0.0, seconds);
        let (expires, made) = (said.expires as f64, said.date as f64);
        said.ttl = match max_age {
            Some(_) => Some(said.max_age),
            // What cannot be read, and 1970, counts as not said.
            None if said.expires == 0 => None,
            None if said.expires < said.date => Some(0.0),
            None if said.date == 0 || (made - now).abs() < CLOCK_SKEW => Some((expires - now).max(0.0)),
            None => Some(expires - made),
        };
        said
    }
}

/// What a directive says, and whether it is there at all. Directives end at commas and blanks; quotes keep together what begins with one.
fn directive<'h>(line: &'h [u8], name: &[u8]) -> Option<Option<&'h [u8]>> {
    let is_separator = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    let mut rest = line;
    loop {
        rest = rest.get(rest.iter().position(|byte| !is_separator(byte))?..)?;
        let end = match rest {
            [b'"', quoted @ ..] => quoted.iter().position(|byte| *byte == b'"').map_or(rest.len(), |at| at + 2),
            _ => rest.iter().position(is_separator).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at_checked(end)?;
        let is_name = word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && word
                .get(name.len())
                .is_none_or(|next| !(next.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(next)));
        if is_name {
            let value = rest.get(name.len()..).unwrap_or_default().trim_ascii_start();
            return Some(value.strip_prefix(b"=").map(<[u8]>::trim_ascii_start));
        }
        rest = after;
    }
}

/// A number of seconds; 0 for what is none.
fn seconds(text: &[u8]) -> f64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits).unwrap_or_default();
    // A fraction is left out.
    if !matches!(rest.trim_ascii_start().first(), None | Some(b',' | b'.' | b';')) {
        return 0.0;
    }
    let number = number.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    number.min(u64::from(u32::MAX)) as f64
}

impl Backend {
    /// What the response says of its own life.
    pub(super) fn judge(&mut self, now: f64) {
        let settings = &self.loaded.settings;
        let said = Said::of(&self.host.response.headers, now);
        let ttl = match (self.host.response.status(), said.ttl) {
            (200 | 203 | 204 | 300 | 301 | 304 | 404 | 410 | 414, None) => settings.default_ttl,
            (200 | 203 | 204 | 300 | 301 | 302 | 304 | 307 | 404 | 410 | 414, Some(seconds)) => seconds,
            _ => -1.0,
        };
        let grace = said.grace.filter(|_| ttl >= 0.0).unwrap_or(settings.default_grace);
        let is_pass = self.host.is_pass;
        self.host.named_filters = None;
        self.host.decisions = Decisions {
            // What is for one client has no life, unless the program gives it one.
            ttl: if is_pass { 0.0 } else { ttl },
            grace: if is_pass { 0.0 } else { grace },
            keep: if is_pass { 0.0 } else { settings.default_keep },
            age: said.age,
            is_uncacheable: is_pass,
            streams: true,
            gzips: false,
            gunzips: false,
            has_includes: false,
            storage: None,
            turn: if is_pass { 0 } else { self.loaded.storages.take_turn() },
        };
        self.record_ttl(&said, now);
    }
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

    /// Tried with Varnish 7.1.
    #[test]
    fn what_varnish_reads() {
        const NOW: f64 = 1_700_000_000.5;
        let at = |seconds: i64| String::from_utf8(http::http_date((1_700_000_000 + seconds) as u64).to_vec()).unwrap();
        let default = -7.0;
        let control = |text: &str| vec![("Cache-Control", text.to_owned())];
        for (fields, ttl, grace) in [
            (vec![], default, default),
            (vec![("Expires", "0".to_owned())], default, default),
            (vec![("Expires", "-1".to_owned())], default, default),
            (vec![("Expires", "Thu, 01 Jan 1970 00:00:00 GMT".to_owned())], default, default),
            (vec![("Expires", at(100))], 99.5, default),
            (vec![("Expires", at(100).to_uppercase())], default, default),
            (vec![("Expires", at(60)), ("Date", at(-3))], 59.5, default),
            (vec![("Expires", at(60)), ("Date", at(-100))], 160.0, default),
            (vec![("Expires", at(-60)), ("Date", at(0))], 0.0, default),
            (control("max-age=5, max-age=9"), 5.0, default),
            (control("max-age=9, max-age=5"), 9.0, default),
            (control("max-age=\"5\""), 0.0, default),
            (control("max-age=5, s-maxage=\"9\""), 0.0, default),
            (control("s-maxage=3, max-age=7"), 3.0, default),
            (control("s-maxage=, max-age=7"), 0.0, default),
            (control("max-age=-1"), 0.0, default),
            (control("max-age=5.5"), 5.0, default),
            (control("max-age = 1, public"), 1.0, default),
            (control("max-age"), default, default),
            (control("max-age=99999999999"), 4_294_967_295.0, default),
            (control("MAX-AGE=5"), 5.0, default),
            (control("xmax-age=5, max-agex=6"), default, default),
            (control("stale-while-revalidate=7, max-age=4"), 4.0, 7.0),
            (control("stale-while-revalidate=\"7\", max-age=4"), 4.0, 0.0),
            (control("foo=\"max-age=5\""), default, default),
            (control("\"max-age=5\""), default, default),
            (control("no-cache=\"x, max-age=5\""), 0.0, default),
        ] {
            let mut headers = Headers::default();
            fields.iter().for_each(|(name, value)| headers.add(name.as_bytes(), value.as_bytes()));
            let said = Said::of(&headers, NOW);
            assert_eq!((said.ttl.unwrap_or(default), said.grace.unwrap_or(default)), (ttl, grace), "{fields:?}");
        }
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
