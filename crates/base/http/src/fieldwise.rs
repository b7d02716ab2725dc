//! Heads whose fields come one by one, rather than as lines: HTTP/2 and HTTP/3.
//!
//! What may stand in a field and what fields may stand beside each other is judged as strictly as in lines, since what comes of
//! it is written as lines to a server, or to a client: RFC 9113 sections 8.2 and 8.3, and beyond them what the parser asks of HTTP/1.

mod response;

pub use self::response::FieldwiseResponse;
use crate::authority::names_host;
use crate::body_length::{Framing, parse_content_length};
use crate::bytes::{TOKEN, find_control, find_target_end, is_blank};
use crate::chunked::may_not_trail;
use crate::error::ParseErrorKind as Kind;
use crate::header_id::HeaderId;
use crate::limits::Limits;
use crate::method::Method;
use crate::request::RequestHead;
use crate::target::{TargetForm, host_matches};
use crate::version::Version;

/// Why the fields that came are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A field, or how fields go together, is malformed.
    #[error("{0}")]
    Malformed(Kind),
    /// A pseudo-field that is unknown, there twice, behind other fields, or missing.
    #[error("pseudo-field that is unknown, repeated, misplaced or missing")]
    PseudoField,
    /// A name with a letter in upper case.
    #[error("field name with a letter in upper case")]
    UpperCase,
    /// A field that is about the connection.
    #[error("field about the connection, which HTTP/2 does not have")]
    ConnectionField,
    /// `te` that is not `trailers`.
    #[error("TE other than trailers")]
    Te,
    /// White space around a value.
    #[error("white space around a value")]
    Blank,
}

impl From<Kind> for FieldError {
    fn from(kind: Kind) -> Self {
        Self::Malformed(kind)
    }
}

/// The pseudo-fields of a request, in memory that is used again.
#[derive(Debug, Default)]
pub struct PseudoFields {
    scheme: Vec<u8>,
    authority: Vec<u8>,
    method: Vec<u8>,
    path: Vec<u8>,
    protocol: Vec<u8>,
    /// Crumbs of cookies, joined (RFC 9113 section 8.2.3).
    cookie: Vec<u8>,
}

impl PseudoFields {
    /// `:scheme`.
    #[must_use]
    pub fn scheme(&self) -> &[u8] {
        &self.scheme
    }

    /// `:authority`, or else the host.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        &self.authority
    }

    /// `:protocol` of a CONNECT that is to begin one (RFC 8441), which the head has as an Upgrade; empty otherwise.
    #[must_use]
    pub fn protocol(&self) -> &[u8] {
        &self.protocol
    }

    fn clear(&mut self) {
        let Self { scheme, authority, method, path, protocol, cookie } = self;
        [scheme, authority, method, path, protocol, cookie].into_iter().for_each(Vec::clear);
    }
}

/// Builds a request's head of the fields that [`FieldwiseRequest::field`] is given, in the order received.
#[derive(Debug)]
pub struct FieldwiseRequest<'r> {
    head: &'r mut RequestHead,
    pseudo: &'r mut PseudoFields,
    name_bytes_max: usize,
    /// What `:authority`, `:scheme`, `:path` and `:method` have come.
    seen: u8,
    has_fields: bool,
    has_cookie: bool,
    has_host: bool,
    host_differs: bool,
    length: Option<u64>,
    knows_protocols: bool,
}

const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const AUTHORITY: u8 = 4;
const PATH: u8 = 8;
const PROTOCOL: u8 = 16;

impl<'r> FieldwiseRequest<'r> {
    /// Begins a head in the memory of another one.
    pub fn new(head: &'r mut RequestHead, pseudo: &'r mut PseudoFields, limits: &Limits) -> Self {
        head.clear();
        pseudo.clear();
        let name_bytes_max = limits.name_bytes_max;
        Self {
            head,
            pseudo,
            name_bytes_max,
            seen: 0,
            has_fields: false,
            has_cookie: false,
            has_host: false,
            host_differs: false,
            length: None,
            knows_protocols: false,
        }
    }

    /// The same, where clients were told that CONNECT may name a protocol (RFC 8441).
    #[must_use]
    pub fn knowing_protocols(self, knows_protocols: bool) -> Self {
        Self { knows_protocols, ..self }
    }

    /// Takes the next field.
    ///
    /// # Errors
    /// When no request may have it, in this place.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldError> {
        if let Some(name) = name.strip_prefix(b":") {
            return self.pseudo_field(name, value);
        }
        self.has_fields = true;
        let id = judge_field(name, value, self.name_bytes_max)?;
        match id {
            HeaderId::Cookie => {
                if self.has_cookie {
                    self.pseudo.cookie.extend_from_slice(b"; ");
                }
                self.has_cookie = true;
                self.pseudo.cookie.extend_from_slice(value);
                return Ok(());
            }
            HeaderId::Host => return self.host(value),
            HeaderId::ContentLength => {
                if self.length.is_some() {
                    return Err(Kind::RepeatedLength.into());
                }
                self.length = Some(parse_content_length(value)?);
            }
            HeaderId::Te if !value.eq_ignore_ascii_case(b"trailers") => return Err(FieldError::Te),
            _ => {}
        }
        self.head.headers.lay_received(name, value, id);
        Ok(())
    }

    /// RFC 9113 section 8.3.1.
    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldError> {
        if self.has_fields {
            return Err(FieldError::PseudoField);
        }
        let (bit, place) = match name {
            b"method" => (METHOD, &mut self.pseudo.method),
            b"scheme" => (SCHEME, &mut self.pseudo.scheme),
            b"authority" => (AUTHORITY, &mut self.pseudo.authority),
            b"path" => (PATH, &mut self.pseudo.path),
            b"protocol" if self.knows_protocols => (PROTOCOL, &mut self.pseudo.protocol),
            _ => return Err(FieldError::PseudoField),
        };
        if self.seen & bit != 0 {
            return Err(FieldError::PseudoField);
        }
        self.seen |= bit;
        let is_right = match bit {
            METHOD | PROTOCOL => {
                !value.is_empty() && value.len() <= self.name_bytes_max && TOKEN.first_outside(value).is_none()
            }
            SCHEME => is_scheme(value),
            PATH => !value.is_empty() && find_target_end(value, 0).is_none(),
            _ => names_host(value),
        };
        if !is_right {
            return Err(match bit {
                METHOD => Kind::InvalidMethod.into(),
                PATH => Kind::InvalidTarget.into(),
                AUTHORITY => Kind::InvalidHost.into(),
                _ => FieldError::PseudoField,
            });
        }
        place.extend_from_slice(value);
        Ok(())
    }

    fn host(&mut self, value: &[u8]) -> Result<(), FieldError> {
        if self.has_host {
            return Err(Kind::RepeatedHost.into());
        }
        self.has_host = true;
        if !names_host(value) {
            return Err(Kind::InvalidHost.into());
        }
        if self.seen & AUTHORITY == 0 {
            self.pseudo.authority.extend_from_slice(value);
        } else {
            let PseudoFields { scheme, authority, .. } = &*self.pseudo;
            self.host_differs = !host_matches(TargetForm::Absolute, scheme, authority, value);
        }
        Ok(())
    }

    /// The fields are all there; whether data follow. How long the body is stands in the head from now on.
    ///
    /// # Errors
    /// When they do not make a request.
    pub fn finish(self, has_body: bool) -> Result<(), FieldError> {
        let Self { head, pseudo, seen, has_cookie, host_differs, length, .. } = self;
        let method = Method::of(&pseudo.method);
        let is_connect = method == Method::Connect;
        // RFC 9113 section 8.5: CONNECT has neither scheme nor path.
        // With a protocol it has both (RFC 8441 section 4), and becomes the request that asks for that in HTTP/1.
        let begins_protocol = seen & PROTOCOL != 0;
        let is_bare = is_connect && !begins_protocol;
        let needed = match (is_connect, begins_protocol) {
            (true, true) => METHOD | AUTHORITY | SCHEME | PATH,
            (true, false) => METHOD | AUTHORITY,
            (false, _) => METHOD | SCHEME | PATH,
        };
        if seen & needed != needed || is_bare && seen & (SCHEME | PATH) != 0 || begins_protocol && !is_connect {
            return Err(FieldError::PseudoField);
        }
        if pseudo.authority.is_empty() {
            return Err(Kind::MissingHost.into());
        }
        if is_connect && length.is_some() {
            return Err(Kind::BodyOnConnect.into());
        }
        if host_differs {
            return Err(Kind::HostMismatch.into());
        }
        let origin_form = pseudo.path.first() == Some(&b'/');
        let asks_for_all = method == Method::Options && pseudo.path == b"*";
        if !(is_bare || origin_form || asks_for_all) {
            return Err(Kind::InvalidTarget.into());
        }
        // RFC 9113 section 8.1.1: what is announced has to come.
        if !has_body && length.is_some_and(|length| length > 0) {
            return Err(Kind::InvalidLength.into());
        }
        drop_default_port(pseudo);
        if has_cookie {
            head.headers.lay_received(b"cookie", &pseudo.cookie, HeaderId::Cookie);
        }
        head.headers.lay_received_first(b"host", &pseudo.authority, HeaderId::Host);
        if begins_protocol {
            head.headers.lay_received(b"connection", b"upgrade", HeaderId::Connection);
            head.headers.lay_received(b"upgrade", &pseudo.protocol, HeaderId::Upgrade);
        }
        head.method = head.headers.intern(if begins_protocol { b"GET" } else { &pseudo.method });
        head.target = head.headers.intern(if is_bare { &pseudo.authority } else { &pseudo.path });
        head.version = Version::Http11;
        // What comes after a CONNECT belongs to the tunnel.
        head.framing = Framing { length, chunked: has_body && length.is_none() && !is_connect };
        if head.framing.chunked {
            head.headers.lay_received(b"transfer-encoding", b"chunked", HeaderId::TransferEncoding);
        }
        Ok(())
    }
}

/// Judges a field of trailers.
///
/// # Errors
/// When none may have it.
pub fn judge_trailer(name: &[u8], value: &[u8], limits: &Limits) -> Result<(), FieldError> {
    if name.starts_with(b":") {
        return Err(FieldError::PseudoField);
    }
    let id = judge_field(name, value, limits.name_bytes_max)?;
    if may_not_trail(id) { Err(Kind::ForbiddenTrailer.into()) } else { Ok(()) }
}

/// Judges name and value of a field that is no pseudo-field: RFC 9113 sections 8.2.1 and 8.2.2.
#[inline]
fn judge_field(name: &[u8], value: &[u8], name_bytes_max: usize) -> Result<HeaderId, FieldError> {
    if name.is_empty() {
        return Err(Kind::EmptyName.into());
    }
    if name.len() > name_bytes_max {
        return Err(Kind::NameTooLong.into());
    }
    for byte in name {
        if byte.is_ascii_uppercase() {
            return Err(FieldError::UpperCase);
        }
        if !TOKEN.has(*byte) {
            return Err(Kind::InvalidNameByte.into());
        }
    }
    if let Some(at) = find_control(value, 0) {
        return Err(match value.get(at) {
            Some(b'\r') => Kind::BareCr,
            Some(b'\n') => Kind::BareLf,
            Some(0) => Kind::Nul,
            _ => Kind::ControlByte,
        }
        .into());
    }
    if [value.first(), value.last()].into_iter().flatten().any(|byte| is_blank(*byte)) {
        return Err(FieldError::Blank);
    }
    let id = HeaderId::of(name);
    match id {
        HeaderId::Connection
        | HeaderId::KeepAlive
        | HeaderId::ProxyConnection
        | HeaderId::TransferEncoding
        | HeaderId::Upgrade => Err(FieldError::ConnectionField),
        _ => Ok(id),
    }
}

/// As [`RequestHead::normalize_target`] has it for targets that name an authority: the scheme's own port is left out.
fn drop_default_port(pseudo: &mut PseudoFields) {
    let ports: &[&[u8]] = match pseudo.scheme.as_slice() {
        b"http" => &[b":80", b":"],
        b"https" => &[b":443", b":"],
        _ => &[],
    };
    if let Some(port) = ports.iter().find(|port| pseudo.authority.ends_with(port)) {
        pseudo.authority.truncate(pseudo.authority.len() - port.len());
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests;
