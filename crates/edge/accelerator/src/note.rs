//! What became of a request in the cache, and why: what people ask for who wonder why something was not cached.

use http::{Headers, RequestHead, ResponseHead};
use vcl::subroutine::Subroutine;

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// `hit`, `miss`, `pass`, `pipe` or `synth`; empty while nothing is known.
    pub what: &'static str,
    /// What is to be said of it; may be empty.
    pub why: &'static str,
}

impl Note {
    pub(crate) const HIT: Self = Self { what: "hit", why: "" };
    pub(crate) const GRACE: Self = Self { what: "hit", why: "stale, within its grace" };
    pub(crate) const MISS: Self = Self { what: "miss", why: "" };
    pub(crate) const HIT_FOR_PASS: Self =
        Self { what: "pass", why: "the response before said that such requests pass (hit-for-pass)" };
    pub(crate) const PIPE: Self = Self { what: "pipe", why: "the program pipes it" };
    pub(crate) const SYNTH: Self = Self { what: "synth", why: "the program answers itself" };

    /// A request that is passed, in this subroutine.
    pub(crate) fn pass(request: &RequestHead, subroutine: Subroutine) -> Self {
        let has = |name: &[u8]| request.headers.contains(name);
        // NOTE: vcl_hash runs behind vcl_recv, whatever that has said.
        let subroutine = if subroutine == Subroutine::Hash { Subroutine::Recv } else { subroutine };
        let why = match subroutine {
            Subroutine::Recv if !matches!(request.method(), b"GET" | b"HEAD") => "the method is neither GET nor HEAD",
            Subroutine::Recv if has(b"authorization") => "passed in vcl_recv; the request has Authorization",
            Subroutine::Recv if has(b"cookie") => "passed in vcl_recv; the request has a Cookie",
            Subroutine::Recv => "passed in vcl_recv",
            Subroutine::Hit => "passed in vcl_hit",
            Subroutine::Miss => "passed in vcl_miss",
            _ => "passed by the program",
        };
        Self { what: "pass", why }
    }
}

/// Why a response that was fetched for everybody is for one client alone.
pub(crate) fn unstored(head: &ResponseHead, is_marked: bool, ttl: f64) -> &'static str {
    let says = |word: &[u8]| says(&head.headers, word);
    match head.status() {
        _ if head.headers.contains(b"set-cookie") => "not stored: the response sets a cookie",
        _ if says(b"private") => "not stored: Cache-Control says private",
        _ if says(b"no-store") => "not stored: Cache-Control says no-store",
        _ if says(b"no-cache") => "not stored: Cache-Control says no-cache",
        _ if head.headers.first(b"vary").is_some_and(|vary| vary.trim_ascii() == b"*") => "not stored: Vary is *",
        _ if is_marked => "not stored: the program made it uncacheable",
        302 | 303 | 307 | 500.. if ttl <= 0.0 => "not stored: its status is not stored unless it says for how long",
        _ => "not stored: its lifetime is 0",
    }
}

fn says(headers: &Headers, word: &[u8]) -> bool {
    let mut values = headers.all(b"cache-control");
    values.any(|value| {
        let mut directives = value.split(|byte| *byte == b',');
        directives.any(|directive| {
            let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
            name.trim_ascii().eq_ignore_ascii_case(word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &[(&str, &str)], status: u16, is_marked: bool, expected: &str) {
        let mut head = ResponseHead::default();
        head.start(http::Version::Http11, status);
        fields.iter().for_each(|(name, value)| head.headers.add(name.as_bytes(), value.as_bytes()));
        assert_eq!(unstored(&head, is_marked, 0.0), expected, "{fields:?}");
    }

    #[test]
    fn the_reason_is_what_the_response_says() {
        check(&[("Set-Cookie", "a=b")], 200, true, "not stored: the response sets a cookie");
        check(&[("Cache-Control", "max-age=3, PRIVATE=\"x\"")], 200, true, "not stored: Cache-Control says private");
        check(&[("Cache-Control", "no-store")], 200, true, "not stored: Cache-Control says no-store");
        check(&[("Cache-Control", "x-no-store")], 200, true, "not stored: the program made it uncacheable");
        check(&[("Vary", " *")], 200, true, "not stored: Vary is *");
        check(&[], 503, false, "not stored: its status is not stored unless it says for how long");
        check(&[("Cache-Control", "max-age=0")], 200, false, "not stored: its lifetime is 0");
    }

    #[test]
    fn a_request_that_passes_says_what_it_has() {
        let mut request = RequestHead::default();
        request.set_method(b"POST");
        assert_eq!(Note::pass(&request, Subroutine::Recv).why, "the method is neither GET nor HEAD");
        request.set_method(b"GET");
        assert_eq!(Note::pass(&request, Subroutine::Recv).why, "passed in vcl_recv");
        request.headers.add(b"Cookie", b"a=b");
        assert_eq!(Note::pass(&request, Subroutine::Recv).why, "passed in vcl_recv; the request has a Cookie");
        assert_eq!(Note::pass(&request, Subroutine::Miss).why, "passed in vcl_miss");
    }
}
