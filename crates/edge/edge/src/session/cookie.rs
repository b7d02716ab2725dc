//! The persistence cookie: which server a client's cookie names, and what the client is given.
//!
//! Pure over header blocks. The value may carry two dates behind the server's (`srv|last|first`), each in 30 bits of
//! seconds as five base64 letters, when `maxidle` or `maxlife` asks for them; in prefix mode the server's value stands
//! before a `~` and the application's own follows.

use std::time::Duration;

use haproxycfg::model::{Cookie, CookieMode};
use http::Headers;

/// What a client's cookie says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Absent,
    /// It names this server value.
    Server {
        /// The value of the `server` line's `cookie`.
        value: Vec<u8>,
        /// When the client was last seen, if that is tracked: seconds.
        last_seen: Option<u64>,
        /// When the client was given it, if that is tracked: seconds.
        given: Option<u64>,
    },
    /// Its dates say that it is too old to be used.
    Expired,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Seconds to which dates are rounded so that a client is not given a new cookie with each response.
const DATE_STEP: u64 = 64;
const DATE_MASK: u64 = (1 << 30) - 1;

fn encode_date(seconds: u64) -> [u8; 5] {
    let value = seconds & DATE_MASK;
    std::array::from_fn(|place| {
        let digit = (value >> (24 - 6 * place)) & 63;
        ALPHABET.get(digit as usize).copied().unwrap_or(b'A')
    })
}

fn decode_date(text: &[u8], now: u64) -> Option<u64> {
    if text.len() != 5 {
        return None;
    }
    let mut value = 0;
    for letter in text {
        value = value << 6 | ALPHABET.iter().position(|known| known == letter)? as u64;
    }
    // The date's upper bits are those that bring it nearest to now.
    Some((now & !DATE_MASK) | value)
}

/// Splits `name=value` and gives back both without surrounding blanks.
fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            (pair.get(..at).unwrap_or_default().trim_ascii(), pair.get(at + 1..).unwrap_or_default().trim_ascii())
        }
        None => (pair.trim_ascii(), b""),
    }
}

/// Looks for the persistence cookie in a request, at `now` seconds since the epoch.
#[must_use]
pub fn find(headers: &Headers, cookie: &Cookie, now: u64) -> Found {
    for line in headers.all(b"cookie") {
        for pair in line.split(|byte| *byte == b';') {
            let (name, value) = split_pair(pair);
            if name == cookie.name.as_slice() {
                return read(value, cookie, now);
            }
        }
    }
    Found::Absent
}

fn read(value: &[u8], cookie: &Cookie, now: u64) -> Found {
    if cookie.mode == CookieMode::Prefix {
        let Some(at) = value.iter().position(|byte| *byte == b'~') else { return Found::Absent };
        return Found::Server { value: value.get(..at).unwrap_or_default().to_vec(), last_seen: None, given: None };
    }
    let mut parts = value.split(|byte| *byte == b'|');
    let server = parts.next().unwrap_or_default().to_vec();
    let last_seen = parts.next().and_then(|text| decode_date(text, now));
    let given = parts.next().and_then(|text| decode_date(text, now));
    let too_old = |date: Option<u64>, limit: Option<Duration>| match (date, limit) {
        (Some(date), Some(limit)) => now.abs_diff(date) > limit.as_secs() + DATE_STEP,
        // A tracked age without a date: the cookie dates from before tracking began.
        (None, Some(_)) => true,
        _ => false,
    };
    if too_old(last_seen, cookie.maxidle) || too_old(given, cookie.maxlife) {
        return Found::Expired;
    }
    Found::Server { value: server, last_seen, given }
}

/// Takes the cookie out of a request before the server sees it (`insert indirect`), or in prefix mode only the prefix.
pub fn hide(headers: &mut Headers, cookie: &Cookie) {
    let wanted = cookie.name.as_slice();
    let prefix = cookie.mode == CookieMode::Prefix;
    headers.rewrite(|name, line| {
        if !name.eq_ignore_ascii_case(b"cookie") {
            return None;
        }
        let mut changed = false;
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for pair in line.split(|byte| *byte == b';') {
            let (name, value) = split_pair(pair);
            if name != wanted {
                kept.push(pair.trim_ascii().to_vec());
                continue;
            }
            changed = true;
            if prefix {
                let at = value.iter().position(|byte| *byte == b'~').map_or(0, |at| at + 1);
                kept.push([name, b"=", value.get(at..).unwrap_or_default()].concat());
            }
        }
        changed.then(|| kept.join(&b"; "[..]))
    });
    headers.retain(|name, value| !(name.eq_ignore_ascii_case(b"cookie") && value.is_empty()));
}

/// What the response's side of the cookie came to, as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing: `N`.
    Nothing,
    /// The server set one and it was left alone: `P`.
    Passive,
    /// The server's was deleted: `D`.
    Deleted,
    /// The server's was rewritten or prefixed: `R`.
    Rewritten,
    /// One was inserted: `I`.
    Inserted,
    /// One was inserted again to move its date: `U`.
    Updated,
}

impl Given {
    /// The log's letter.
    #[must_use]
    pub fn letter(self) -> u8 {
        match self {
            Self::Nothing => b'N',
            Self::Passive => b'P',
            Self::Deleted => b'D',
            Self::Rewritten => b'R',
            Self::Inserted => b'I',
            Self::Updated => b'U',
        }
    }
}

/// What is known when a response is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct ResponseSide<'a> {
    /// The `cookie` value of the server that answered.
    pub server_value: Option<&'a [u8]>,
    /// What the request's cookie said, if it led to this server.
    pub followed: Option<&'a Found>,
    /// Whether the request was a POST.
    pub is_post: bool,
    /// Seconds since the epoch.
    pub now: u64,
}

/// Gives the client the cookie of its server where the configuration wants it.
pub fn give(headers: &mut Headers, cookie: &Cookie, side: ResponseSide<'_>) -> Given {
    let wanted = cookie.name.as_slice();
    let is_ours = |name: &[u8], line: &[u8]| {
        name.eq_ignore_ascii_case(b"set-cookie")
            && split_pair(line.split(|byte| *byte == b';').next().unwrap_or_default()).0 == wanted
    };
    let from_server = headers.iter().any(|(name, line)| is_ours(name, line));
    match (cookie.mode, side.server_value) {
        (CookieMode::Passive, _) if from_server => return Given::Passive,
        (CookieMode::Passive, _) => return Given::Nothing,
        (CookieMode::Rewrite | CookieMode::Prefix, Some(value)) if from_server => {
            headers.rewrite(|name, line| {
                is_ours(name, line).then(|| rewritten(line, wanted, value, cookie.mode == CookieMode::Prefix))
            });
            mark_private(headers, cookie);
            return Given::Rewritten;
        }
        (CookieMode::Rewrite | CookieMode::Prefix, _) => return Given::Nothing,
        (CookieMode::Insert, _) => {}
    }
    if from_server && cookie.preserve {
        return Given::Passive;
    }
    let mut given = Given::Nothing;
    if from_server && cookie.indirect {
        headers.retain(|name, line| !is_ours(name, line));
        given = Given::Deleted;
    }
    let Some(value) = side.server_value else { return given };
    if cookie.postonly && !side.is_post {
        return given;
    }
    let (first_given, update) = match side.followed {
        Some(Found::Server { last_seen, given, .. }) => {
            let moved =
                cookie.maxidle.is_some() && last_seen.is_none_or(|last| side.now / DATE_STEP != last / DATE_STEP);
            (*given, Some(moved))
        }
        _ => (None, None),
    };
    if update == Some(false) {
        return given;
    }
    headers.add(b"set-cookie", &set_cookie(cookie, value, first_given, side.now));
    mark_private(headers, cookie);
    if update.is_some() { Given::Updated } else { Given::Inserted }
}

fn rewritten(line: &[u8], name: &[u8], value: &[u8], prefix: bool) -> Vec<u8> {
    let end = line.iter().position(|byte| *byte == b';').unwrap_or(line.len());
    let (pair, rest) = line.split_at_checked(end).unwrap_or((line, b""));
    let mut out = [name, b"=", value].concat();
    if prefix {
        out.push(b'~');
        out.extend_from_slice(split_pair(pair).1);
    }
    out.extend_from_slice(rest);
    out
}

fn mark_private(headers: &mut Headers, cookie: &Cookie) {
    if cookie.nocache {
        headers.add(b"cache-control", b"private");
    }
}

fn set_cookie(cookie: &Cookie, value: &[u8], first_given: Option<u64>, now: u64) -> Vec<u8> {
    let mut out = [cookie.name.as_slice(), b"=", value].concat();
    if cookie.maxidle.is_some() || cookie.maxlife.is_some() {
        out.push(b'|');
        out.extend_from_slice(&encode_date(now));
        if cookie.maxlife.is_some() {
            out.push(b'|');
            out.extend_from_slice(&encode_date(first_given.unwrap_or(now)));
        }
    }
    out.extend_from_slice(b"; path=/");
    for domain in &cookie.domains {
        out.extend_from_slice(b"; domain=");
        out.extend_from_slice(domain.as_bytes());
    }
    if cookie.httponly {
        out.extend_from_slice(b"; HttpOnly");
    }
    if cookie.secure {
        out.extend_from_slice(b"; Secure");
    }
    for attribute in &cookie.attributes {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(attribute);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn cookie(mode: CookieMode) -> Cookie {
        Cookie { name: "SRV".into(), mode, ..Cookie::default() }
    }

    fn request(line: &[u8]) -> Headers {
        let mut headers = Headers::new();
        headers.add(b"Cookie", line);
        headers
    }

    fn server(value: &[u8]) -> Found {
        Found::Server { value: value.to_vec(), last_seen: None, given: None }
    }

    #[test]
    fn finds_the_cookie_among_others() {
        let insert = cookie(CookieMode::Insert);
        assert_eq!(find(&request(b"a=1; SRV=s2; b=2"), &insert, NOW), server(b"s2"));
        assert_eq!(find(&request(b"XSRV=s2"), &insert, NOW), Found::Absent);
        assert_eq!(find(&request(b"SRV=s1~own"), &cookie(CookieMode::Prefix), NOW), server(b"s1"));
    }

    #[test]
    fn hides_what_the_server_must_not_see() {
        let mut headers = request(b"a=1; SRV=s2; b=2");
        hide(&mut headers, &cookie(CookieMode::Insert));
        assert_eq!(headers.first(b"cookie"), Some(&b"a=1; b=2"[..]));
        let mut headers = request(b"SRV=s2");
        hide(&mut headers, &cookie(CookieMode::Insert));
        assert_eq!(headers.first(b"cookie"), None);
        let mut headers = request(b"SRV=s2~own; x=y");
        hide(&mut headers, &cookie(CookieMode::Prefix));
        assert_eq!(headers.first(b"cookie"), Some(&b"SRV=own; x=y"[..]));
    }

    fn side<'a>(followed: Option<&'a Found>) -> ResponseSide<'a> {
        ResponseSide { server_value: Some(b"s1"), followed, is_post: false, now: NOW }
    }

    #[test]
    fn inserts_once() {
        let mut insert = cookie(CookieMode::Insert);
        insert.nocache = true;
        insert.httponly = true;
        let mut headers = Headers::new();
        assert_eq!(give(&mut headers, &insert, side(None)), Given::Inserted);
        assert_eq!(headers.first(b"set-cookie"), Some(&b"SRV=s1; path=/; HttpOnly"[..]));
        assert_eq!(headers.first(b"cache-control"), Some(&b"private"[..]));
        let followed = server(b"s1");
        assert_eq!(give(&mut Headers::new(), &insert, side(Some(&followed))), Given::Nothing);
        insert.postonly = true;
        assert_eq!(give(&mut Headers::new(), &insert, side(None)), Given::Nothing);
    }

    #[test]
    fn prefixes_and_rewrites_the_servers_own() {
        let mut headers = Headers::new();
        headers.add(b"Set-Cookie", b"SRV=abc; path=/x");
        assert_eq!(give(&mut headers, &cookie(CookieMode::Prefix), side(None)), Given::Rewritten);
        assert_eq!(headers.first(b"set-cookie"), Some(&b"SRV=s1~abc; path=/x"[..]));
        let mut headers = Headers::new();
        headers.add(b"Set-Cookie", b"SRV=abc; path=/x");
        assert_eq!(give(&mut headers, &cookie(CookieMode::Rewrite), side(None)), Given::Rewritten);
        assert_eq!(headers.first(b"set-cookie"), Some(&b"SRV=s1; path=/x"[..]));
    }

    #[test]
    fn ages() {
        let mut insert = cookie(CookieMode::Insert);
        insert.maxidle = Some(Duration::from_secs(600));
        insert.maxlife = Some(Duration::from_secs(3_600));
        let line = set_cookie(&insert, b"s1", Some(NOW - 1_000), NOW);
        let value = line.split(|byte| *byte == b';').next().unwrap().to_vec();
        let soon = find(&request(&value), &insert, NOW + 500);
        assert_eq!(
            soon,
            Found::Server { value: b"s1".to_vec(), last_seen: Some(NOW), given: Some(NOW - 1_000) },
            "dates survive the trip"
        );
        assert_eq!(find(&request(&value), &insert, NOW + 700), Found::Expired);
        assert_eq!(
            give(&mut Headers::new(), &insert, ResponseSide { now: NOW + 500, ..side(Some(&soon)) }),
            Given::Updated
        );
    }
}
