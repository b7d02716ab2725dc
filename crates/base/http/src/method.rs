//! Request methods that change how a message is read.

/// A request method, as far as a proxy tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD: its response has no body.
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// OPTIONS: may have `*` as its target.
    Options,
    /// CONNECT: its target is an authority, and a 2xx response makes the connection a tunnel.
    Connect,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token.
    #[default]
    Other,
}

impl Method {
    /// The method of this name. Methods are told apart by letter case (RFC 9110 section 9.1).
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"CONNECT" => Method::Connect,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }

    /// Whether the request may be sent twice without more effect than once (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Patch | Method::Connect | Method::Other)
    }

    /// Whether the request asks for no change (RFC 9110 section 9.2.1).
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }
}
