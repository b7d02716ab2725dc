//! Dates in cookies: five letters of base64 for the lower 30 bits of the time since the epoch in units of four seconds.

use haproxycfg::model::Cookie;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Seconds in a unit.
const STEP: u64 = 4;
/// How far in the future a date may lie, for clocks that were wrong: seconds.
const AHEAD_MAX: u64 = 86_400;

/// `seconds`, rounded up.
pub(super) fn encode(seconds: u64) -> [u8; 5] {
    let value = seconds.div_ceil(STEP);
    std::array::from_fn(|place| {
        let digit = (value >> (24 - 6 * place)) & 63;
        ALPHABET.get(digit as usize).copied().unwrap_or(b'A')
    })
}

/// The date at the start of `text` in seconds; `None` when there is none.
pub(super) fn decode(text: &[u8]) -> Option<u64> {
    let mut value = 0;
    for letter in text.get(..5)? {
        value = value << 6 | ALPHABET.iter().position(|known| known == letter)? as u64;
    }
    Some(value * STEP).filter(|seconds| *seconds > 0)
}

/// The two dates behind a server's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dates {
    /// When the client was last seen: seconds since the epoch.
    pub last_seen: Option<u64>,
    /// When it was first given the cookie: seconds since the epoch.
    pub first_seen: Option<u64>,
}

/// Why dates say that a cookie does not count any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    /// `maxidle`.
    Expired,
    /// `maxlife`.
    Old,
}

impl Dates {
    /// Parts a cookie's value into the server's and the dates.
    pub(super) fn part(value: &[u8]) -> (&[u8], Self) {
        let mut parts = value.splitn(3, |byte| *byte == b'|');
        let server = parts.next().unwrap_or_default();
        let last_seen = parts.next().and_then(decode);
        (server, Self { last_seen, first_seen: parts.next().and_then(decode) })
    }

    /// Whether they are too old, or too far in the future, at `now`.
    pub(super) fn stale(&self, cookie: &Cookie, now: u64) -> Option<Stale> {
        let is_off = |date: Option<u64>, limit: Option<u64>| {
            date.zip(limit)
                .is_some_and(|(date, limit)| now.saturating_sub(date) > limit || date.saturating_sub(now) > AHEAD_MAX)
        };
        if is_off(self.first_seen, max_life(cookie)) {
            return Some(Stale::Old);
        }
        is_off(self.last_seen, max_idle(cookie)).then_some(Stale::Expired)
    }
}

/// `maxidle` in seconds; 0 turns it off.
pub(super) fn max_idle(cookie: &Cookie) -> Option<u64> {
    cookie.maxidle.map(|time| time.as_secs()).filter(|seconds| *seconds > 0)
}

/// `maxlife` in seconds; 0 turns it off.
pub(super) fn max_life(cookie: &Cookie) -> Option<u64> {
    cookie.maxlife.map(|time| time.as_secs()).filter(|seconds| *seconds > 0)
}
