//! What a client's cookies say, and what of them the server is not to see.

use haproxycfg::model::{Cookie, CookieMode, ServerIndex};
use http::{CookiePiece, HeaderId, Headers};

use super::date::{Dates, Stale};

/// What became of the client's cookie, as the log names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presented {
    /// There was none: `N`.
    #[default]
    Absent,
    /// It names no server: `I`.
    Invalid,
    /// Its server is down: `D`.
    Down,
    /// It names a server: `V`.
    Valid,
    /// The client stayed away for too long: `E`.
    Expired,
    /// It was given too long ago: `O`.
    Old,
    /// The server was chosen otherwise, or persistence does not count: `U`.
    Unused,
}

impl Presented {
    /// The log's letter.
    #[must_use]
    pub fn letter(self) -> u8 {
        match self {
            Self::Absent => b'N',
            Self::Invalid => b'I',
            Self::Down => b'D',
            Self::Valid => b'V',
            Self::Expired => b'E',
            Self::Old => b'O',
            Self::Unused => b'U',
        }
    }
}

/// Whom a value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nobody.
    Unknown,
    /// Only servers that are down.
    Down,
    /// A server to use, and whether it is up.
    Server(ServerIndex, bool),
}

/// What there is to know of a client's cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// What became of them.
    pub presented: Presented,
    /// The server to use.
    pub server: Option<ServerIndex>,
    /// The dates.
    pub dates: Dates,
}

/// Goes through a request's cookies at `now` seconds since the epoch, and takes out what the server is not to see. Without
/// `may_choose` none of them chooses a server.
pub fn follow(
    headers: &mut Headers,
    cookie: &Cookie,
    now: u64,
    may_choose: bool,
    mut lookup: impl FnMut(&[u8]) -> Lookup,
) -> Visit {
    let mut visit = Visit::default();
    headers.rewrite_known(HeaderId::Cookie, without_blanks);
    let prefix = cookie.mode == CookieMode::Prefix;
    let pieces = headers.all_known(HeaderId::Cookie).flat_map(|field| http::cookie_pieces(field, 0));
    for (_, value) in pieces.filter_map(|piece| ours(&piece, cookie)) {
        let server = if prefix {
            value.split(|byte| *byte == b'~').next().unwrap_or_default()
        } else {
            read_dates(value, cookie, now, &mut visit)
        };
        choose(&mut visit, server, may_choose, &mut lookup);
    }
    if visit.presented != Presented::Absent {
        hide(headers, cookie);
    }
    visit
}

/// The field without blanks around the equals signs of its cookies: HAProxy takes them out when it looks for its own cookie.
fn without_blanks(field: &[u8]) -> Option<Vec<u8>> {
    if !field.windows(2).any(|pair| matches!(pair, [b'=', b' ' | b'\t'] | [b' ' | b'\t', b'='])) {
        return None;
    }
    let mut out = Vec::with_capacity(field.len());
    let mut copied = 0;
    for piece in http::cookie_pieces(field, 0) {
        let text = field.get(piece.start..piece.end)?;
        let Some(equals) = text.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (text.get(..equals)?.trim_ascii_end(), text.get(equals + 1..)?.trim_ascii_start());
        out.extend_from_slice(field.get(copied..piece.start + name.len())?);
        out.push(b'=');
        copied = piece.end - value.len();
    }
    out.extend_from_slice(field.get(copied..)?);
    Some(out)
}

fn ours<'a>(piece: &CookiePiece<'a>, cookie: &Cookie) -> Option<(&'a [u8], &'a [u8])> {
    piece.cookie().filter(|(name, _)| *name == cookie.name)
}

/// The server's part of the value; empty when its dates forbid it.
fn read_dates<'a>(value: &'a [u8], cookie: &Cookie, now: u64, visit: &mut Visit) -> &'a [u8] {
    let (server, dates) = Dates::part(value);
    visit.dates.last_seen = dates.last_seen.or(visit.dates.last_seen);
    visit.dates.first_seen = dates.first_seen.or(visit.dates.first_seen);
    let Some(stale) = visit.dates.stale(cookie, now) else { return server };
    visit.dates = Dates::default();
    visit.presented = match stale {
        Stale::Expired => Presented::Expired,
        Stale::Old => Presented::Old,
    };
    b""
}

fn choose(visit: &mut Visit, value: &[u8], may_choose: bool, lookup: &mut impl FnMut(&[u8]) -> Lookup) {
    if visit.server.is_some() {
        return;
    }
    // An empty value is nobody's: a client may have learned it from a server without one.
    let found = if may_choose && !value.is_empty() { lookup(value) } else { Lookup::Unknown };
    visit.presented = match (found, visit.presented) {
        (Lookup::Server(server, is_up), _) => {
            visit.server = Some(server);
            if is_up { Presented::Valid } else { Presented::Down }
        }
        (Lookup::Down, _) => Presented::Down,
        (Lookup::Unknown, before @ (Presented::Down | Presented::Expired | Presented::Old)) => before,
        (Lookup::Unknown, _) if may_choose => Presented::Invalid,
        (Lookup::Unknown, _) => Presented::Unused,
    };
}

/// Takes our cookie out where it is the proxy's alone, or the server's part of it where the rest is the application's.
fn hide(headers: &mut Headers, cookie: &Cookie) {
    match cookie.mode {
        CookieMode::Prefix => headers.rewrite_known(HeaderId::Cookie, |field| without_prefix(field, cookie)),
        CookieMode::Insert if cookie.indirect => {
            headers.rewrite_known(HeaderId::Cookie, |field| without_ours(field, cookie));
            headers.retain_known(|id, _, value| id != HeaderId::Cookie || !value.is_empty());
        }
        _ => {}
    }
}

fn without_prefix(field: &[u8], cookie: &Cookie) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(field.len());
    let mut copied = 0;
    for piece in http::cookie_pieces(field, 0) {
        let Some((_, value)) = ours(&piece, cookie) else { continue };
        let Some(tilde) = value.iter().position(|byte| *byte == b'~') else { continue };
        let equals = field.get(piece.start..piece.end)?.iter().position(|byte| *byte == b'=')?;
        out.extend_from_slice(field.get(copied..=piece.start + equals)?);
        out.extend_from_slice(value.get(tilde + 1..)?);
        copied = piece.end;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(field.get(copied..)?);
    Some(out)
}

/// The field without our cookie and its attributes; what stays keeps its form.
fn without_ours(field: &[u8], cookie: &Cookie) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(field.len());
    let (mut gap, mut any_gap, mut others) = (false, false, false);
    for piece in http::cookie_pieces(field, 0) {
        if ours(&piece, cookie).is_some() || (gap && piece.is_attribute()) {
            gap = true;
            any_gap = true;
            continue;
        }
        let text = field.get(piece.start..piece.end)?;
        if !gap {
            out.extend_from_slice(field.get(piece.start.saturating_sub(1)..piece.end)?);
        } else if out.is_empty() {
            out.extend_from_slice(text.trim_ascii_start());
        } else {
            out.truncate(out.trim_ascii_end().len());
            out.extend_from_slice(field.get(piece.start - 1..piece.start)?);
            out.push(b' ');
            out.extend_from_slice(text.trim_ascii_start());
        }
        gap = false;
        others |= !piece.is_attribute();
    }
    any_gap.then(|| if others { out } else { Vec::new() })
}
