//! Numbers for the header names that a proxy looks for, so that finding one is comparing bytes, not names.

macro_rules! header_ids {
    ($($variant:ident, $name:literal;)*) => {
        /// A well-known header name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum HeaderId {
            /// Any other name.
            #[default]
            Other = 0,
            $(#[doc = $name] $variant,)*
        }

        impl HeaderId {
            const NAMED: &'static [(HeaderId, &'static str)] = &[$((HeaderId::$variant, $name),)*];
            /// How many ids there are.
            pub(crate) const COUNT: usize = Self::NAMED.len() + 1;
        }
    };
}

header_ids! {
    Accept, "accept";
    AcceptCharset, "accept-charset";
    AcceptEncoding, "accept-encoding";
    AcceptLanguage, "accept-language";
    AcceptRanges, "accept-ranges";
    Age, "age";
    Allow, "allow";
    Authorization, "authorization";
    CacheControl, "cache-control";
    Connection, "connection";
    ContentDisposition, "content-disposition";
    ContentEncoding, "content-encoding";
    ContentLanguage, "content-language";
    ContentLength, "content-length";
    ContentLocation, "content-location";
    ContentRange, "content-range";
    ContentType, "content-type";
    Cookie, "cookie";
    Date, "date";
    ETag, "etag";
    Expect, "expect";
    Expires, "expires";
    Forwarded, "forwarded";
    Host, "host";
    Http2Settings, "http2-settings";
    IfMatch, "if-match";
    IfModifiedSince, "if-modified-since";
    IfNoneMatch, "if-none-match";
    IfRange, "if-range";
    IfUnmodifiedSince, "if-unmodified-since";
    KeepAlive, "keep-alive";
    LastModified, "last-modified";
    Location, "location";
    MaxForwards, "max-forwards";
    Origin, "origin";
    Pragma, "pragma";
    ProxyAuthenticate, "proxy-authenticate";
    ProxyAuthorization, "proxy-authorization";
    ProxyConnection, "proxy-connection";
    Range, "range";
    Referer, "referer";
    RetryAfter, "retry-after";
    SecWebSocketAccept, "sec-websocket-accept";
    SecWebSocketKey, "sec-websocket-key";
    Server, "server";
    SetCookie, "set-cookie";
    StrictTransportSecurity, "strict-transport-security";
    Te, "te";
    Trailer, "trailer";
    TransferEncoding, "transfer-encoding";
    Upgrade, "upgrade";
    UserAgent, "user-agent";
    Vary, "vary";
    Via, "via";
    WwwAuthenticate, "www-authenticate";
    XForwardedFor, "x-forwarded-for";
    XForwardedProto, "x-forwarded-proto";
    XRequestedWith, "x-requested-with";
}

/// Slots of the table; a power of two with room enough that the hash below has no collision.
const SLOTS: usize = 256;

/// Room for the longest name above, in whole words.
const NAME_ROOM: usize = 32;

/// A well-known name, made ready for comparing it to any spelling in whole words, without a look at its length.
#[derive(Clone, Copy)]
struct Known {
    /// In lower case, padded with zeros.
    lower: [u8; NAME_ROOM],
    /// 0x20 for each letter: what makes both cases of it, and nothing else, the lower one.
    letters: [u8; NAME_ROOM],
    /// All bits of each byte of the name, none behind it.
    covered: [u8; NAME_ROOM],
    len: usize,
    id: HeaderId,
}

/// A perfect hash of the names above, letter case ignored: length, first, middle and last byte.
const fn slot(first: u8, middle: u8, last: u8, len: usize) -> usize {
    let bytes = (first | 0x20) as usize * 92 + (middle | 0x20) as usize * 147 + (last | 0x20) as usize * 174;
    (bytes + len * 78) % SLOTS
}

#[expect(clippy::indexing_slicing, clippy::panic, reason = "evaluated at compile time: a mistake does not build")]
const fn table() -> [Known; SLOTS] {
    let zeros = [0; NAME_ROOM];
    let nothing = Known { id: HeaderId::Other, len: 0, lower: zeros, letters: zeros, covered: zeros };
    let mut table = [nothing; SLOTS];
    let mut index = 0;
    while index < HeaderId::NAMED.len() {
        let (id, name) = HeaderId::NAMED[index];
        let name = name.as_bytes();
        let known = &mut table[slot(name[0], name[name.len() / 2], name[name.len() - 1], name.len())];
        if known.len != 0 {
            panic!("two header names in one slot: change the factors of the hash");
        }
        known.id = id;
        known.len = name.len();
        let mut at = 0;
        while at < name.len() {
            known.lower[at] = name[at].to_ascii_lowercase();
            known.letters[at] = if name[at].is_ascii_alphabetic() { 0x20 } else { 0 };
            known.covered[at] = 0xff;
            at += 1;
        }
        index += 1;
    }
    table
}

static TABLE: [Known; SLOTS] = table();

impl HeaderId {
    /// The id of `name`, letter case ignored.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> HeaderId {
        match Known::candidate(name) {
            Some(known) if known.is(name) => known.id,
            _ => HeaderId::Other,
        }
    }

    /// The id of the name that the first `len` bytes of `onward` are. It costs less than [`HeaderId::of`] where more
    /// bytes follow, as in a head.
    #[inline(always)]
    pub(crate) fn at(onward: &[u8], len: usize) -> HeaderId {
        let name = onward.get(..len).unwrap_or_default();
        let Some(known) = Known::candidate(name) else { return HeaderId::Other };
        let same = match onward.first_chunk() {
            Some(blocks) => known.len == len && known.begins(blocks),
            None => known.is(name),
        };
        if same { known.id } else { HeaderId::Other }
    }

    /// The id with this number, [`HeaderId::Other`] for a number that is none's.
    #[inline]
    pub(crate) fn from_number(number: u8) -> HeaderId {
        Self::NAMED.get(usize::from(number).wrapping_sub(1)).map_or(HeaderId::Other, |(id, _)| *id)
    }

    /// The name in lower case, as HAProxy writes names; empty for [`HeaderId::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.get((self as usize).wrapping_sub(1)).map_or("", |(_, name)| name)
    }
}

/// Whether the first and the last bytes of a name, as many as a word has, are a spelling of a known one's of the same length. The two
/// may overlap.
macro_rules! has_same_ends {
    ($word:ty, $known:expr, $name:expr) => {{
        let known: &Known = $known;
        let (letters, lower) = (known.letters.get(..known.len), known.lower.get(..known.len));
        let (letters, lower) = (letters.unwrap_or_default(), lower.unwrap_or_default());
        let first = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| <$word>::from_ne_bytes(*bytes));
        let last = |bytes: &[u8]| bytes.last_chunk().map_or(0, |bytes| <$word>::from_ne_bytes(*bytes));
        first($name) | first(letters) == first(lower) && last($name) | last(letters) == last(lower)
    }};
}

impl Known {
    /// The only name that `name` can be.
    #[inline(always)]
    fn candidate(name: &[u8]) -> Option<&'static Known> {
        let (first, middle, last) = (name.first()?, name.get(name.len() / 2)?, name.last()?);
        TABLE.get(slot(*first, *middle, *last, name.len()))
    }

    /// Whether `name` is a spelling of this name.
    #[inline]
    fn is(&self, name: &[u8]) -> bool {
        if name.len() != self.len {
            return false;
        }
        match self.len {
            16..=NAME_ROOM => has_same_ends!(u128, self, name),
            8..16 => has_same_ends!(u64, self, name),
            4..8 => has_same_ends!(u32, self, name),
            2..4 => has_same_ends!(u16, self, name),
            _ => false,
        }
    }

    /// Whether these bytes begin with a spelling of this name.
    #[inline(always)]
    fn begins(&self, bytes: &[u8; NAME_ROOM]) -> bool {
        let ([bytes, more], [letters, more_letters]) = (words(bytes), words(&self.letters));
        let ([lower, more_lower], [covered, more_covered]) = (words(&self.lower), words(&self.covered));
        ((bytes | letters) ^ lower) & covered | ((more | more_letters) ^ more_lower) & more_covered == 0
    }
}

/// The two halves.
#[inline(always)]
fn words(bytes: &[u8; NAME_ROOM]) -> [u128; 2] {
    match bytes.as_chunks().0 {
        [first, second] => [u128::from_ne_bytes(*first), u128::from_ne_bytes(*second)],
        _ => [0; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::HeaderId;

    #[test]
    fn every_name_in_every_case() {
        for (id, name) in HeaderId::NAMED {
            assert_eq!(id.name(), *name);
            for spelling in [name.to_string(), name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
                assert_eq!(HeaderId::of(spelling.as_bytes()), *id);
                for behind in ["", ": value", ": a value that is longer than any name"] {
                    let line = format!("{spelling}{behind}");
                    assert_eq!(HeaderId::at(line.as_bytes(), spelling.len()), *id, "{line}");
                    assert_eq!(HeaderId::at(line.as_bytes(), spelling.len() - 1), HeaderId::Other, "{line}");
                }
            }
        }
        assert_eq!(HeaderId::Other.name(), "");
    }

    #[test]
    fn one_byte_off_is_another_name() {
        for (id, name) in HeaderId::NAMED {
            for place in 0..name.len() {
                for byte in 0..=255u8 {
                    let mut other = name.as_bytes().to_vec();
                    other[place] = byte;
                    let same = other.eq_ignore_ascii_case(name.as_bytes());
                    assert_eq!(HeaderId::of(&other) == *id, same, "{other:?}");
                }
            }
            assert_ne!(HeaderId::of(&name.as_bytes()[1..]), *id);
            assert_ne!(HeaderId::of(format!("{name}x").as_bytes()), *id);
        }
        assert_eq!(HeaderId::of(b""), HeaderId::Other);
        assert_eq!(HeaderId::of(b"X-Something"), HeaderId::Other);
    }
}
