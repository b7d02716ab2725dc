//! What is done with the server's cookie, and the one that the client is given.

use haproxycfg::model::{Cookie, CookieMode};
use http::{HeaderId, Headers};

use super::date::{self, Dates};

/// What the response's side of the cookie came to, as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing: `N`.
    Nothing,
    /// The server set one and it was left alone: `P`.
    Passive,
    /// The server's was deleted: `D`.
    Deleted,
    /// One was inserted: `I`.
    Inserted,
    /// The server's was rewritten or prefixed: `R`.
    Rewritten,
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
            Self::Inserted => b'I',
            Self::Rewritten => b'R',
            Self::Updated => b'U',
        }
    }
}

/// What is known when a response is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct ResponseSide<'a> {
    /// The `cookie` value of the server that answered, if it has one; `None` when what answered is no server.
    pub server: Option<Option<&'a [u8]>>,
    /// Whether the server is the one that the request asked for.
    pub direct: bool,
    /// The dates of the request's cookie.
    pub dates: Dates,
    /// Whether the request was a POST.
    pub is_post: bool,
    /// Whether caches may keep the response.
    pub is_cacheable: bool,
    /// Seconds since the epoch.
    pub now: u64,
}

/// Gives the client the cookie of its server where the configuration wants it.
pub fn give(headers: &mut Headers, cookie: &Cookie, side: ResponseSide<'_>) -> Given {
    let given = treat_the_servers(headers, cookie, side);
    let Some(value) = side.server.filter(|_| must_insert(cookie, side, given)) else { return given };
    headers.add(b"set-cookie", &set_cookie(cookie, value, side));
    if cookie.nocache && side.is_cacheable {
        headers.add(b"cache-control", b"private");
    }
    if value.is_some() && side.direct { Given::Updated } else { Given::Inserted }
}

/// Leaves, deletes or changes a cookie of ours that the server has set.
fn treat_the_servers(headers: &mut Headers, cookie: &Cookie, side: ResponseSide<'_>) -> Given {
    let is_ours = |field: &[u8]| http::set_cookie(field).is_some_and(|(name, ..)| name == cookie.name);
    if !headers.all_known(HeaderId::SetCookie).any(is_ours) {
        return Given::Nothing;
    }
    if cookie.preserve {
        return Given::Passive;
    }
    let replaced = side.server.is_some() && cookie.mode == CookieMode::Insert;
    if replaced || side.direct && cookie.indirect {
        headers.retain_known(|id, _, field| id != HeaderId::SetCookie || !is_ours(field));
        return Given::Deleted;
    }
    let Some(server) = side.server.flatten() else { return Given::Passive };
    let prefix = match cookie.mode {
        CookieMode::Rewrite => false,
        CookieMode::Prefix => true,
        CookieMode::Passive | CookieMode::Insert => return Given::Passive,
    };
    headers.rewrite_known(HeaderId::SetCookie, |field| {
        let (name, value, rest) = http::set_cookie(field).filter(|_| is_ours(field))?;
        let own = if prefix { [b"~", value].concat() } else { Vec::new() };
        Some([name, b"=", server, &own, rest].concat())
    });
    Given::Rewritten
}

fn must_insert(cookie: &Cookie, side: ResponseSide<'_>, given: Given) -> bool {
    if cookie.mode != CookieMode::Insert || given == Given::Passive || cookie.postonly && !side.is_post {
        return false;
    }
    let Dates { last_seen, first_seen } = side.dates;
    let moves_last = match last_seen {
        Some(last) => last < side.now,
        None => date::max_idle(cookie).is_some(),
    };
    // The first date appears or vanishes with `maxlife`.
    !side.direct || moves_last || date::max_life(cookie).is_some() != first_seen.is_some()
}

fn set_cookie(cookie: &Cookie, value: Option<&[u8]>, side: ResponseSide<'_>) -> Vec<u8> {
    let mut out = [&cookie.name, &b"="[..]].concat();
    match value {
        // The client is to forget the server that it was with.
        None => out.extend_from_slice(b"; Expires=Thu, 01-Jan-1970 00:00:01 GMT"),
        Some(value) => {
            out.extend_from_slice(value);
            let lives = date::max_life(cookie).is_some();
            if lives || date::max_idle(cookie).is_some() {
                out.push(b'|');
                out.extend_from_slice(&date::encode(side.now));
            }
            if lives {
                out.push(b'|');
                out.extend_from_slice(&date::encode(side.dates.first_seen.unwrap_or(side.now)));
            }
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
