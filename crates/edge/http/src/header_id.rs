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

/// Bytes of the longest name above.
const NAME_LEN_MAX: usize = 25;

/// A well-known name, made ready for comparing it to any spelling in whole words.
#[derive(Clone, Copy)]
struct Known {
    id: HeaderId,
    len: usize,
    /// In lower case, padded with zeros.
    lower: [u8; NAME_LEN_MAX],
    /// 0x20 for each letter: what makes both cases of it, and nothing else, the lower one.
    letters: [u8; NAME_LEN_MAX],
}

/// A perfect hash of the names above, letter case ignored: length, first, middle and last byte.
const fn slot(first: u8, middle: u8, last: u8, len: usize) -> usize {
    let bytes = (first | 0x20) as usize * 67 + (middle | 0x20) as usize * 125 + (last | 0x20) as usize * 7;
    (bytes + len * 204) % SLOTS
}

#[expect(clippy::indexing_slicing, clippy::panic, reason = "evaluated at compile time: a mistake does not build")]
const fn table() -> [Known; SLOTS] {
    let nothing = Known { id: HeaderId::Other, len: 0, lower: [0; NAME_LEN_MAX], letters: [0; NAME_LEN_MAX] };
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
        let (Some(first), Some(middle), Some(last)) = (name.first(), name.get(name.len() / 2), name.last()) else {
            return HeaderId::Other;
        };
        match TABLE.get(slot(*first, *middle, *last, name.len())) {
            Some(known) if known.is(name) => known.id,
            _ => HeaderId::Other,
        }
    }

    /// The name in lower case, as HAProxy writes names; empty for [`HeaderId::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.get((self as usize).wrapping_sub(1)).map_or("", |(_, name)| name)
    }
}

impl Known {
    /// Whether `name` is a spelling of this name.
    #[inline]
    fn is(&self, name: &[u8]) -> bool {
        if name.len() != self.len {
            return false;
        }
        let (lower, letters) = (self.lower.get(..self.len), self.letters.get(..self.len));
        let (lower, letters) = (lower.unwrap_or_default(), letters.unwrap_or_default());
        if self.len < 8 {
            return name.iter().zip(lower).zip(letters).all(|((byte, lower), letter)| byte | letter == *lower);
        }
        let same = |name: &[u8; 8], lower: &[u8; 8], letters: &[u8; 8]| {
            u64::from_ne_bytes(*name) | u64::from_ne_bytes(*letters) == u64::from_ne_bytes(*lower)
        };
        let words = name.as_chunks().0.iter().zip(lower.as_chunks().0).zip(letters.as_chunks().0);
        let ends = (name.last_chunk(), lower.last_chunk(), letters.last_chunk());
        let (Some(name), Some(lower), Some(letters)) = ends else { return false };
        same(name, lower, letters) && words.into_iter().all(|((name, lower), letters)| same(name, lower, letters))
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
