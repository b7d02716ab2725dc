//! `Cache-Control` (RFC 9111 section 5.2), and fields that are meant for some caches alone (RFC 9213).

use http::{HeaderId, Headers, StoredHead, elements};

/// A number of seconds that is larger counts as this one (RFC 9111 section 1.2.2).
pub const DELTA_SECONDS_MAX: u64 = 1 << 31;

/// The fields of a message, on its way or kept.
pub trait Fields {
    /// The values of all fields of a name.
    fn values<'f>(&'f self, name: &'f [u8]) -> impl Iterator<Item = &'f [u8]>;
    /// The values of all fields with this id.
    fn values_known(&self, id: HeaderId) -> impl Iterator<Item = &[u8]>;
}

impl Fields for Headers {
    fn values<'f>(&'f self, name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
        self.all(name)
    }

    fn values_known(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.all_known(id)
    }
}

impl Fields for StoredHead {
    fn values<'f>(&'f self, name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
        self.all(name)
    }

    fn values_known(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.all_known(id)
    }
}

/// What a directive says that may name fields: `private`, `private="set-cookie"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// It is not there.
    #[default]
    Absent,
    /// It is about these fields alone.
    Fields(Vec<Vec<u8>>),
    /// It is about the whole response.
    Whole,
}

impl Scope {
    /// Whether it is about the whole response.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    fn add(&mut self, argument: Option<&[u8]>) {
        let fields: Vec<Vec<u8>> = match argument {
            Some(list) => elements(list).map(<[u8]>::to_ascii_lowercase).collect(),
            None => Vec::new(),
        };
        match self {
            Self::Whole => {}
            _ if fields.is_empty() => *self = Self::Whole,
            Self::Absent => *self = Self::Fields(fields),
            Self::Fields(known) => known.extend(fields),
        }
    }
}

/// A response's directives. What is malformed is taken as strictly as it can be meant (RFC 9111 section 4.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Fresh for so many seconds.
    pub max_age: Option<u64>,
    /// The same for shared caches.
    pub s_maxage: Option<u64>,
    /// Not to be stored.
    pub no_store: bool,
    /// To be validated before it is used.
    pub no_cache: Scope,
    /// For one user.
    pub private: Scope,
    /// May be stored although it would not be.
    pub public: bool,
    /// Never to be used stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// To be stored only by who understands the status.
    pub must_understand: bool,
    /// Does not change while it is fresh.
    pub immutable: bool,
    /// Must not be changed on the way.
    pub no_transform: bool,
    /// May be used for so many seconds while it is fetched again (RFC 5861).
    pub stale_while_revalidate: Option<u64>,
    /// May be used for so many seconds when the fetch fails (RFC 5861).
    pub stale_if_error: Option<u64>,
}

/// A request's directives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// The client wants nothing older.
    pub max_age: Option<u64>,
    /// The client takes what is stale by so many seconds; without a number by any.
    pub max_stale: Option<u64>,
    /// The client wants it fresh for so many seconds more.
    pub min_fresh: Option<u64>,
    /// The client wants it validated.
    pub no_cache: bool,
    /// The client wants nothing of it stored.
    pub no_store: bool,
    /// The client wants what is stored, or a 504.
    pub only_if_cached: bool,
    /// The client takes what is stale by so many seconds when the fetch fails.
    pub stale_if_error: Option<u64>,
}

/// Name and argument of a directive, the argument without its quotes.
fn split(element: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let equals = element.iter().position(|byte| *byte == b'=');
    let (name, argument) = match equals {
        Some(at) => (element.get(..at)?, element.get(at + 1..)),
        None => (element, None),
    };
    if name.is_empty() {
        return None;
    }
    Some((name.to_ascii_lowercase(), argument.map(unquoted)))
}

fn unquoted(argument: &[u8]) -> Vec<u8> {
    let Some(inside) = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return argument.to_vec();
    };
    let mut out = Vec::with_capacity(inside.len());
    let mut escaped = false;
    for byte in inside {
        if *byte == b'\\' && !escaped {
            escaped = true;
        } else {
            out.push(*byte);
            escaped = false;
        }
    }
    out
}

/// Seconds; none for what is no number of seconds.
#[must_use]
pub fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.min(DELTA_SECONDS_MAX))
}

/// Two lifetimes that contradict one another: the shorter one.
fn shorter(known: Option<u64>, argument: Option<&[u8]>) -> Option<u64> {
    // NOTE: one that makes no sense makes the response stale (RFC 9111 section 4.2.1).
    let said = argument.and_then(delta_seconds).unwrap_or(0);
    Some(known.map_or(said, |known| known.min(said)))
}

impl ResponseDirectives {
    /// Those of a response for a shared cache. The first of `targeted` that the response has and that is valid stands in place of
    /// `Cache-Control` (RFC 9213 section 2.2); then `Expires` says nothing either. The second value tells whether one did.
    #[must_use]
    pub fn of(headers: &impl Fields, targeted: &[&[u8]]) -> (Self, bool) {
        for name in targeted {
            let mut lines = headers.values(name).peekable();
            if lines.peek().is_some() {
                let whole = lines.collect::<Vec<_>>().join(&b","[..]);
                if let Some(directives) = Self::structured(&whole) {
                    return (directives, true);
                }
            }
        }
        let mut directives = Self::default();
        for element in headers.values_known(HeaderId::CacheControl).flat_map(elements) {
            if let Some((name, argument)) = split(element) {
                directives.add(&name, argument.as_deref());
            }
        }
        (directives, false)
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        match name {
            b"max-age" => self.max_age = shorter(self.max_age, argument),
            b"s-maxage" => self.s_maxage = shorter(self.s_maxage, argument),
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache.add(argument),
            b"private" => self.private.add(argument),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            b"no-transform" => self.no_transform = true,
            b"stale-while-revalidate" => {
                self.stale_while_revalidate = shorter(self.stale_while_revalidate, argument);
            }
            b"stale-if-error" => self.stale_if_error = shorter(self.stale_if_error, argument),
            _ => {}
        }
    }

    /// A dictionary of structured fields (RFC 9651 section 3.2), which a targeted field must be; none for what is no such thing or
    /// is empty.
    fn structured(text: &[u8]) -> Option<Self> {
        let mut directives = Self::default();
        let mut is_empty = true;
        for element in elements(text) {
            is_empty = false;
            // Parameters say nothing here.
            let element = element.split(|byte| *byte == b';').next().unwrap_or_default();
            let equals = element.iter().position(|byte| *byte == b'=');
            let (name, value) = match equals {
                Some(at) => (element.get(..at)?, Some(element.get(at + 1..)?)),
                None => (element, None),
            };
            let is_key = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
            if !name.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'*')
                || !name.iter().all(is_key)
            {
                return None;
            }
            match value {
                None | Some(b"?1") => directives.add(name, None),
                Some(b"?0") => {}
                Some(value) if delta_seconds(value).is_some() && value.len() <= 15 => {
                    directives.add(name, Some(value));
                }
                Some(value) if is_bare_item(value) => {
                    // Right as such, but no number of seconds: it says nothing.
                }
                Some(_) => return None,
            }
        }
        (!is_empty).then_some(directives)
    }
}

/// Whether it is a string, token, number or bytes, as far as a directive can have one.
fn is_bare_item(value: &[u8]) -> bool {
    match value.first() {
        Some(b'"') => value.len() >= 2 && value.ends_with(b"\""),
        Some(b':') => value.len() >= 2 && value.ends_with(b":"),
        Some(b'-' | b'0'..=b'9') => {
            let digits = value.strip_prefix(b"-").unwrap_or(value);
            !digits.is_empty() && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        }
        Some(first) => first.is_ascii_alphabetic() || *first == b'*',
        None => false,
    }
}

impl RequestDirectives {
    /// Those of a request. `Pragma: no-cache` says the same as `no-cache` where there is no `Cache-Control` (RFC 9111 section 5.4).
    #[must_use]
    pub fn of(headers: &Headers) -> Self {
        let mut directives = Self::default();
        let mut lines = headers.all_known(HeaderId::CacheControl).peekable();
        if lines.peek().is_none() {
            directives.no_cache = headers
                .all_known(HeaderId::Pragma)
                .flat_map(elements)
                .any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
        }
        for (name, argument) in lines.flat_map(elements).filter_map(split) {
            let argument = argument.as_deref();
            match name.as_slice() {
                b"max-age" => directives.max_age = shorter(directives.max_age, argument),
                b"max-stale" => {
                    // Without a number any age will do; one that makes no sense allows nothing.
                    let said = argument.map_or(Some(u64::MAX), delta_seconds).unwrap_or(0);
                    directives.max_stale = Some(directives.max_stale.map_or(said, |known| known.min(said)));
                }
                b"min-fresh" => {
                    let said = argument.and_then(delta_seconds).unwrap_or(DELTA_SECONDS_MAX);
                    directives.min_fresh = Some(directives.min_fresh.map_or(said, |known| known.max(said)));
                }
                b"no-cache" => directives.no_cache = true,
                b"no-store" => directives.no_store = true,
                b"only-if-cached" => directives.only_if_cached = true,
                b"stale-if-error" => directives.stale_if_error = shorter(directives.stale_if_error, argument),
                _ => {}
            }
        }
        directives
    }
}
