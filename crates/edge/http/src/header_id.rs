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
        }
    };
}

header_ids! {
    Accept, "Accept";
    AcceptCharset, "Accept-Charset";
    AcceptEncoding, "Accept-Encoding";
    AcceptLanguage, "Accept-Language";
    AcceptRanges, "Accept-Ranges";
    Age, "Age";
    Allow, "Allow";
    Authorization, "Authorization";
    CacheControl, "Cache-Control";
    Connection, "Connection";
    ContentDisposition, "Content-Disposition";
    ContentEncoding, "Content-Encoding";
    ContentLanguage, "Content-Language";
    ContentLength, "Content-Length";
    ContentLocation, "Content-Location";
    ContentRange, "Content-Range";
    ContentType, "Content-Type";
    Cookie, "Cookie";
    Date, "Date";
    ETag, "ETag";
    Expect, "Expect";
    Expires, "Expires";
    Forwarded, "Forwarded";
    Host, "Host";
    IfMatch, "If-Match";
    IfModifiedSince, "If-Modified-Since";
    IfNoneMatch, "If-None-Match";
    IfRange, "If-Range";
    IfUnmodifiedSince, "If-Unmodified-Since";
    KeepAlive, "Keep-Alive";
    LastModified, "Last-Modified";
    Location, "Location";
    MaxForwards, "Max-Forwards";
    Origin, "Origin";
    Pragma, "Pragma";
    ProxyAuthenticate, "Proxy-Authenticate";
    ProxyAuthorization, "Proxy-Authorization";
    ProxyConnection, "Proxy-Connection";
    Range, "Range";
    Referer, "Referer";
    RetryAfter, "Retry-After";
    SecWebSocketAccept, "Sec-WebSocket-Accept";
    SecWebSocketKey, "Sec-WebSocket-Key";
    Server, "Server";
    SetCookie, "Set-Cookie";
    StrictTransportSecurity, "Strict-Transport-Security";
    Te, "TE";
    Trailer, "Trailer";
    TransferEncoding, "Transfer-Encoding";
    Upgrade, "Upgrade";
    UserAgent, "User-Agent";
    Vary, "Vary";
    Via, "Via";
    WwwAuthenticate, "WWW-Authenticate";
    XForwardedFor, "X-Forwarded-For";
    XForwardedProto, "X-Forwarded-Proto";
    XRequestedWith, "X-Requested-With";
}

/// Slots of the table; a power of two with room enough that the hash below has no collision.
const SLOTS: usize = 256;

/// A perfect hash of the names above, letter case ignored: length, first, middle and last byte.
const fn slot(first: u8, middle: u8, last: u8, len: usize) -> usize {
    let mixed = (first | 0x20) as usize * 67 + (middle | 0x20) as usize * 125 + (last | 0x20) as usize * 7 + len * 204;
    mixed % SLOTS
}

#[expect(clippy::indexing_slicing, clippy::panic, reason = "evaluated at compile time: a mistake does not build")]
const fn table() -> [u8; SLOTS] {
    let mut table = [0u8; SLOTS];
    let mut index = 0;
    while index < HeaderId::NAMED.len() {
        let name = HeaderId::NAMED[index].1.as_bytes();
        let slot = slot(name[0], name[name.len() / 2], name[name.len() - 1], name.len());
        if table[slot] != 0 {
            panic!("two header names in one slot: change the factors of the hash");
        }
        table[slot] = HeaderId::NAMED[index].0 as u8;
        index += 1;
    }
    table
}

static TABLE: [u8; SLOTS] = table();

impl HeaderId {
    /// The id of `name`, letter case ignored.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> HeaderId {
        let (Some(first), Some(middle), Some(last)) = (name.first(), name.get(name.len() / 2), name.last()) else {
            return HeaderId::Other;
        };
        let number = TABLE.get(slot(*first, *middle, *last, name.len())).copied().unwrap_or(0);
        match Self::NAMED.get(usize::from(number).wrapping_sub(1)) {
            Some((id, known)) if name.eq_ignore_ascii_case(known.as_bytes()) => *id,
            _ => HeaderId::Other,
        }
    }

    /// The usual spelling of the name; empty for [`HeaderId::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.get((self as usize).wrapping_sub(1)).map_or("", |(_, name)| name)
    }
}
