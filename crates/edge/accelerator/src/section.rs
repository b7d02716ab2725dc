//! HAProxy's own cache (`cache` sections, `cache-use`, `cache-store`): its policy, which is a small part of RFC 7234.
//!
//! Only whole answers of 200 to GET are kept. Nothing is asked about, nobody waits, and what varies does so by `Accept-Encoding` and
//! `Referer` alone. Rules decide which requests are looked up and which responses are stored.

use cache::{
    index::Digest,
    object::{Lifetime, Object},
    policy::conditional,
};
use http::{HeaderId, Headers, Method, RequestHead, ResponseHead, Version, elements, parse_http_date};
use sha2::{Digest as _, Sha256};

/// Values of `Accept-Encoding` that are looked at; a request that has so many is not looked up.
const ENCODINGS_MAX: usize = 16;
/// An `Age` is no larger than this.
const AGE_MAX: i64 = 2_147_483_648;

const IDENTITY: u32 = 1 << 0;
const STAR: u32 = 1 << 9;
const OTHER: u32 = 1 << 10;

/// Encodings that are known, by their bits.
const ENCODINGS: [(&[u8], u32); 11] = [
    (b"identity", IDENTITY),
    (b"gzip", 1 << 1),
    (b"x-gzip", 1 << 1),
    (b"compress", 1 << 2),
    (b"x-compress", 1 << 2),
    (b"deflate", 1 << 3),
    (b"br", 1 << 4),
    (b"exi", 1 << 5),
    (b"pack200-gzip", 1 << 6),
    (b"zstd", 1 << 7),
    (b"aes128gcm", 1 << 8),
];

/// `Vary` names `Accept-Encoding`.
const BY_ENCODING: u8 = 1;
/// `Vary` names `Referer`.
const BY_REFERER: u8 = 2;

/// What a section says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `max-object-size`: bytes of a response with its head.
    pub object_bytes_max: u64,
    /// `max-age`: seconds that a response lives at most.
    pub age_max: i64,
    /// `process-vary`.
    pub varies: bool,
    /// `max-secondary-entries`.
    pub secondary_max: usize,
}

/// A request that `cache-use` has looked at.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it is stored under; `None` for one without a host.
    pub digest: Option<Digest>,
    /// Whether it is neither looked up nor stored.
    pub is_ignored: bool,
    /// Whether it is not looked up, because the client wants none that is stored. As in HAProxy what comes replaces that.
    pub refreshes: bool,
    /// Whether the response may not be stored although it was looked up (`no-store`).
    pub is_unstorable: bool,
    /// What it says in the fields that responses may vary by; `None` where it says too much.
    secondary: Option<Secondary>,
}

/// What a request says in the fields that responses may vary by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Secondary {
    /// Encodings that it takes.
    encodings: u32,
    /// A sum of its `Referer`.
    referer: u32,
}

impl Asked {
    /// What a request asks.
    #[must_use]
    pub fn of(request: &RequestHead) -> Self {
        let headers = &request.headers;
        let is_read = matches!(request.method_kind(), Method::Get | Method::Head);
        let mut asked = Self {
            digest: digest(request),
            is_ignored: request.version() != Version::Http11
                || !is_read
                || headers.contains_known(HeaderId::Authorization),
            refreshes: false,
            is_unstorable: false,
            secondary: Secondary::of(headers),
        };
        let mut says_more = false;
        for value in headers.all_known(HeaderId::CacheControl).flat_map(elements) {
            says_more = true;
            let is = |name: &[u8]| value.get(..name.len()).is_some_and(|front| front.eq_ignore_ascii_case(name));
            asked.refreshes |= [&b"max-age"[..], b"no-cache", b"max-stale", b"min-fresh"].into_iter().any(is);
            asked.is_unstorable |= is(b"no-store");
        }
        let pragma = headers.first_known(HeaderId::Pragma);
        asked.refreshes |= !says_more && pragma.is_some_and(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
        asked
    }

    /// Whether a stored response is one for this request, as far as it varies.
    #[must_use]
    pub fn takes(&self, stored: &Object) -> bool {
        let key = stored.variant().map(|variant| &*variant.key).unwrap_or_default();
        match (Key::read(key), self.secondary) {
            (Key { by: 0, .. }, _) => true,
            (_, None) => false,
            (stored, Some(own)) => stored.answers(own),
        }
    }
}

impl Secondary {
    fn of(headers: &Headers) -> Option<Self> {
        let referer = headers.first(b"referer").map_or(0, sum);
        Some(Self { encodings: encodings(headers)?, referer })
    }
}

/// What a stored response varies by, and what its request said there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    by: u8,
    encodings: u32,
    referer: u32,
}

impl Key {
    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        Self { by: bytes.first().copied().unwrap_or(0), encodings: number(1), referer: number(5) }
    }

    fn bytes(self) -> Box<[u8]> {
        [&[self.by][..], &self.encodings.to_le_bytes(), &self.referer.to_le_bytes()].concat().into()
    }

    fn answers(self, request: Secondary) -> bool {
        let has_encoding = self.encodings & OTHER == 0 && self.encodings & request.encodings == self.encodings;
        (self.by & BY_ENCODING == 0 || has_encoding) && (self.by & BY_REFERER == 0 || self.referer == request.referer)
    }
}

/// The encodings that a client takes, by their bits; `None` for too many.
fn encodings(headers: &Headers) -> Option<u32> {
    let (mut accepted, mut kept, mut count) = (IDENTITY, u32::MAX, 0);
    // An empty list means that no coding is wanted, no list that any is (RFC 9110 section 12.5.3).
    for line in headers.all(b"accept-encoding") {
        for value in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            count += 1;
            if count == ENCODINGS_MAX {
                return None;
            }
            if value.is_empty() {
                continue;
            }
            match encoding(value) {
                Some((bits, false)) => accepted |= bits,
                Some((bits, true)) => kept &= !bits,
                None => accepted |= OTHER,
            }
        }
    }
    if accepted & STAR != 0 {
        accepted = u32::MAX;
    }
    Some(if count == 0 { u32::MAX } else { accepted & kept })
}

/// The bits of an encoding, and whether it has the weight 0.
fn encoding(value: &[u8]) -> Option<(u32, bool)> {
    let (name, weight) = match value.iter().position(|byte| *byte == b';') {
        Some(at) => (value.get(..at)?.trim_ascii(), value.get(at + 1..)?.trim_ascii()),
        None => (value, &b""[..]),
    };
    let known = ENCODINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, bits)| *bits);
    let bits = known.or((name == b"*").then_some(STAR))?;
    Some((bits, weight == b"q=0"))
}

fn sum(bytes: &[u8]) -> u32 {
    let hash = Sha256::digest(bytes);
    u32::from_le_bytes(hash.first_chunk().copied().unwrap_or_default())
}

/// The host and the URI.
fn digest(request: &RequestHead) -> Option<Digest> {
    let mut hasher = Sha256::new();
    if request.authority().is_empty() {
        hasher.update(b"https://");
        hasher.update(request.headers.first_known(HeaderId::Host)?);
    }
    hasher.update(request.target());
    Some(Digest(hasher.finalize().into()))
}

/// Whether a successful response to this method makes what is stored invalid.
#[must_use]
pub fn invalidates(method: Method, status: u16) -> bool {
    !matches!(method, Method::Options | Method::Get | Method::Head | Method::Trace) && (200..400).contains(&status)
}

/// How a response is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// How long it lives.
    pub lifetime: Lifetime,
    /// What it varies by and for whom; empty for everybody.
    pub key: Box<[u8]>,
}

/// How a response to a GET is stored; `None` if it is not. `head_bytes` is the size of its head.
#[must_use]
pub fn keep(asked: &Asked, response: &ResponseHead, limits: &Limits, head_bytes: u64, now: f64) -> Option<Kept> {
    let headers = &response.headers;
    if asked.digest.is_none() || asked.is_ignored || asked.is_unstorable || response.status() != 200 {
        return None;
    }
    let length = headers.first_known(HeaderId::ContentLength);
    let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<u64>().ok()).unwrap_or(0);
    if length.saturating_add(head_bytes) > limits.object_bytes_max || !is_cacheable(headers) {
        return None;
    }
    let key = vary(asked, headers, limits)?;
    let (lifetime, said) = max_age(headers, limits, now)?;
    let age = match headers.first_known(HeaderId::Age) {
        None => 0,
        // NOTE: as in HAProxy an Age of 0 is none that is understood.
        Some(age) => std::str::from_utf8(age).ok()?.parse::<i64>().ok().filter(|age| *age > 0)?.min(AGE_MAX),
    };
    if age > said && headers.contains_known(HeaderId::Age) {
        return None;
    }
    let origin = now - age as f64;
    Some(Kept { lifetime: Lifetime { origin, ttl: (age + lifetime) as f64, grace: 0.0, keep: 0.0 }, key })
}

/// Whether nothing forbids to store it, and something says for how long or how to ask about it.
fn is_cacheable(headers: &Headers) -> bool {
    if headers.first_known(HeaderId::Pragma).is_some_and(|pragma| pragma.eq_ignore_ascii_case(b"no-cache")) {
        return false;
    }
    let (mut may, mut cookies, mut is_fresh) = (true, true, headers.contains_known(HeaderId::Expires));
    for directive in headers.all_known(HeaderId::CacheControl).flat_map(elements) {
        let directive = directive.to_ascii_lowercase();
        match directive.as_slice() {
            b"public" => (may, cookies) = (true, true),
            b"private" | b"no-cache" | b"no-store" | b"max-age=0" | b"s-maxage=0" => (may, cookies) = (false, false),
            other if other.starts_with(b"no-cache=\"set-cookie") => cookies = false,
            other => is_fresh |= other.starts_with(b"max-age") || other.starts_with(b"s-maxage"),
        }
    }
    let has_validator = headers.contains(b"etag") || headers.contains_known(HeaderId::LastModified);
    may && cookies && (is_fresh || has_validator)
}

/// What it varies by; `None` for what is not understood.
fn vary(asked: &Asked, headers: &Headers, limits: &Limits) -> Option<Box<[u8]>> {
    let mut by = 0;
    for name in headers.all_known(HeaderId::Vary).flat_map(elements) {
        by |= match name {
            _ if !limits.varies => return None,
            name if name.eq_ignore_ascii_case(b"accept-encoding") => BY_ENCODING,
            name if name.eq_ignore_ascii_case(b"referer") => BY_REFERER,
            _ => return None,
        };
    }
    if by == 0 {
        return Some(Box::default());
    }
    let own = asked.secondary?;
    let mut used = 0;
    for value in headers.all(b"content-encoding").flat_map(elements) {
        used |= encoding(value)?.0;
    }
    let encodings = if by & BY_ENCODING == 0 { 0 } else { used.max(IDENTITY) };
    let referer = if by & BY_REFERER == 0 { 0 } else { own.referer };
    Some(Key { by, encodings, referer }.bytes())
}

/// Whether an object varies.
#[must_use]
pub fn is_secondary(key: &[u8]) -> bool {
    !key.is_empty()
}

/// Seconds that it lives here, and those that it says itself; `None` for what makes no sense or is over.
fn max_age(headers: &Headers, limits: &Limits, now: f64) -> Option<(i64, i64)> {
    let (mut shared, mut own) = (None, None);
    for directive in headers.all_known(HeaderId::CacheControl).flat_map(elements) {
        let Some(equals) = directive.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = directive.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        if name.eq_ignore_ascii_case(b"s-maxage") {
            shared = Some(leading_number(value)?);
        } else if name.eq_ignore_ascii_case(b"max-age") {
            own = Some(leading_number(value)?);
        }
    }
    let said = match (shared.filter(|age| *age > 0), own.filter(|age| *age > 0)) {
        (Some(age), _) | (None, Some(age)) => Some(age),
        (None, None) if shared.is_none() && own.is_none() => headers.first_known(HeaderId::Expires).map(|expires| {
            let now = whole(now);
            parse_http_date(expires, now).map_or(0, |expires| (expires - now).max(0))
        }),
        (None, None) => None,
    };
    let lifetime = said.map_or(limits.age_max, |said| said.min(limits.age_max));
    (lifetime > 0).then_some((lifetime, said.unwrap_or(0)))
}

/// The number that a text begins with.
fn leading_number(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let digits = std::str::from_utf8(text.get(..end)?).ok().filter(|digits| !digits.is_empty())?;
    Some(digits.parse().unwrap_or(i64::MAX))
}

/// The head that a client gets of a stored response, and whether there is no body with it: the client has it already, or asked by
/// HEAD alone.
#[must_use]
pub fn answer(request: &RequestHead, object: &Object, now: f64) -> (ResponseHead, bool) {
    let mut head = object.head().unpacked();
    head.headers.remove_known(HeaderId::Age);
    head.headers.add_number(HeaderId::Age, whole(object.age(now)).unsigned_abs());
    if !is_unchanged(&request.headers, object, now) {
        return (head, false);
    }
    head.set_status(304);
    head.set_reason(b"Not Modified");
    (head, true)
}

/// Whether the client has what is stored (RFC 7232).
fn is_unchanged(request: &Headers, object: &Object, now: f64) -> bool {
    let stored = object.head();
    if request.contains(b"if-none-match") {
        let own = stored.first(b"etag");
        return request
            .all(b"if-none-match")
            .flat_map(elements)
            .any(|tag| tag == b"*" || own.is_some_and(|own| conditional::weakly_equal(own, tag)));
    }
    let Some(since) = request.first_known(HeaderId::IfModifiedSince) else { return false };
    let read = |id| stored.first_known(id).and_then(|line| parse_http_date(line, whole(now)));
    let stored_at = whole(object.lifetime().origin);
    let modified = read(HeaderId::LastModified).or_else(|| read(HeaderId::Date)).unwrap_or(stored_at);
    parse_http_date(since, whole(now)).is_some_and(|since| modified <= since)
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}
