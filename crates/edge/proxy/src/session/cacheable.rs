//! Whether a cache between client and edge might keep a response.

use http::Headers;

/// What a cache may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cacheable {
    /// The response.
    pub response: bool,
    /// Its cookies with it.
    pub cookies: bool,
}

/// What a cache may keep of a response to such a request, by HAProxy's reckoning (RFC 7231 section 6.1, RFC 7234 section 3).
#[must_use]
pub fn cacheable(method: &[u8], status: u16, headers: &Headers) -> Cacheable {
    const NOTHING: Cacheable = Cacheable { response: false, cookies: false };
    const ALL: Cacheable = Cacheable { response: true, cookies: true };
    if status < 200 || headers.first(b"pragma").is_some_and(|value| value.eq_ignore_ascii_case(b"no-cache")) {
        return NOTHING;
    }
    let mut is_fresh = headers.first(b"expires").is_some();
    let safe = matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE");
    let by_default = matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 404 | 405 | 410 | 414 | 501);
    let mut found = if safe && by_default { ALL } else { NOTHING };
    for directive in headers.all(b"cache-control").flat_map(http::elements) {
        let directive = directive.to_ascii_lowercase();
        match directive.as_slice() {
            b"public" => found = ALL,
            b"private" | b"no-cache" | b"no-store" | b"max-age=0" | b"s-maxage=0" => found = NOTHING,
            other if other.starts_with(b"no-cache=\"set-cookie") => found.cookies = false,
            other => is_fresh |= other.starts_with(b"max-age") || other.starts_with(b"s-maxage"),
        }
    }
    // Nothing says for how long it may be kept, or how to ask whether it still holds.
    let is_kept = is_fresh || headers.first(b"etag").is_some() || headers.first(b"last-modified").is_some();
    if is_kept { found } else { NOTHING }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_caches_may_keep() {
        let check = |method: &str, status, fields: &[(&str, &str)], response, cookies| {
            let mut headers = Headers::new();
            for (name, value) in fields {
                headers.add(name.as_bytes(), value.as_bytes());
            }
            let found = cacheable(method.as_bytes(), status, &headers);
            assert_eq!(found, Cacheable { response, cookies }, "{method} {status} {fields:?}");
        };
        let tag = ("ETag", "1");
        check("GET", 200, &[], false, false);
        for fresh in [tag, ("Last-Modified", "x"), ("Expires", "x"), ("Cache-Control", "s-maxage=7")] {
            check("GET", 200, &[fresh], true, true);
            check("POST", 200, &[fresh], false, false);
            check("GET", 302, &[fresh], false, false);
        }
        check("GET", 101, &[tag, ("Cache-Control", "public")], false, false);
        check("POST", 302, &[("Cache-Control", "max-age=5, Public")], true, true);
        check("GET", 200, &[("Cache-Control", "public")], false, false);
        check("GET", 200, &[tag, ("Cache-Control", "private")], false, false);
        check("GET", 200, &[tag, ("Cache-Control", "max-age=0"), ("Cache-Control", "public")], true, true);
        check("GET", 200, &[tag, ("Cache-Control", "no-cache=\"Set-Cookie, x\"")], true, false);
        check("GET", 200, &[tag, ("Pragma", "no-cache"), ("Cache-Control", "public")], false, false);
    }
}
