//! The head of a request.

use crate::body_length::Framing;
use crate::header_id::HeaderId;
use crate::headers::{Headers, Part, Span};
use crate::method::Method;
use crate::target::{Target, TargetForm};
use crate::version::Version;

/// Request line and header fields. All bytes are in the arena of the headers, so a head is recycled as one.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The header fields.
    pub headers: Headers,
    pub(crate) method: Span,
    pub(crate) target: Span,
    pub(crate) version: Version,
    /// As received when it is to be kept as such, under relaxed parsing; empty otherwise.
    pub(crate) odd_version: Span,
    /// What the sender said about the body.
    pub(crate) framing: Framing,
}

impl RequestHead {
    /// It has no body any more, whatever the sender said.
    pub fn forget_body(&mut self) {
        self.framing = Framing::default();
        self.headers.remove_known(crate::HeaderId::ContentLength);
        self.headers.remove_known(crate::HeaderId::TransferEncoding);
    }

    /// All of its body is known, of so many bytes, whatever the sender said.
    pub fn know_length(&mut self, length: u64) {
        self.framing = Framing { length: Some(length), ..Framing::default() };
        self.headers.remove_known(crate::HeaderId::TransferEncoding);
        self.headers.remove_known(crate::HeaderId::ContentLength);
        self.headers.add_number(crate::HeaderId::ContentLength, length);
    }

    /// An empty head.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Becomes a copy of another head, in the memory that is there, with room for so many more bytes and fields.
    pub fn copy_from(&mut self, other: &Self, bytes: usize, fields: usize) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.copy_from(&other.headers, bytes, fields);
        *self = Self { headers, ..*other };
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.method = Span::default();
        self.target = Span::default();
        self.version = Version::default();
        self.odd_version = Span::default();
        self.framing = Framing::default();
    }

    /// Empties the head and gives it this request line.
    pub fn start(&mut self, method: &[u8], target: &[u8], version: Version) {
        self.clear();
        self.set_method(method);
        self.set_target(target);
        self.version = version;
    }

    /// The method as received.
    #[inline]
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.headers.bytes(self.method)
    }

    /// The method as one of those that a proxy tells apart.
    #[inline]
    #[must_use]
    pub fn method_kind(&self) -> Method {
        Method::of(self.method())
    }

    /// The whole request target.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &[u8] {
        self.headers.bytes(self.target)
    }

    /// The target taken apart.
    #[must_use]
    pub fn target_parts(&self) -> Target<'_> {
        Target::split(self.method_kind(), self.target())
    }

    /// The path without query. `/` when an absolute target has none; empty for `*` and for CONNECT.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        let parts = self.target_parts();
        if parts.path.is_empty() && !parts.authority.is_empty() && self.method_kind() != Method::Connect {
            b"/"
        } else {
            parts.path
        }
    }

    /// What follows the question mark; None without one.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.target_parts().query
    }

    /// Path and query as received; empty for `*`, for CONNECT and for an absolute target that has neither.
    #[must_use]
    pub fn path_and_query(&self) -> &[u8] {
        let span = self.path_span(true);
        self.headers.bytes(span)
    }

    /// `host:port` of an absolute target or of CONNECT, without user information; empty when the target names none.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        self.target_parts().host_and_port()
    }

    /// The version by whose rules the request is read.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The version as it goes on the wire.
    #[must_use]
    pub fn version_bytes(&self) -> &[u8] {
        if self.odd_version.is_empty() { self.version.as_bytes() } else { self.headers.bytes(self.odd_version) }
    }

    /// Gives the request another method.
    pub fn set_method(&mut self, method: &[u8]) {
        self.method = self.intern_encoded(&[Part::New(method)]);
    }

    /// Gives the request another version.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
        self.odd_version = Span::default();
    }

    /// Gives the request another target as a whole.
    ///
    /// As in every setter of target and method here, bytes that would end the target (blanks and control bytes) are
    /// written percent-encoded, so that no rule can be made to write a second request line.
    pub fn set_target(&mut self, target: &[u8]) {
        self.target = self.intern_encoded(&[Part::New(target)]);
    }

    /// Gives the target the spelling that rules compare and that servers get, where it can be written in several ways.
    ///
    /// The port of an absolute target, or of the Host of a CONNECT, is left out where it is the scheme's own, as HAProxy
    /// does. A path that is empty is `/` (RFC 3986 section 6.2.3): `http://h?x=1` is no way around a rule about paths. It
    /// stays empty in an OPTIONS without query, which asks for the server as a whole (RFC 9112 section 3.2.4). A request
    /// without Host gets the one that its target names: no rule about hosts is got around by leaving it out.
    pub fn normalize_target(&mut self) {
        if self.target().first() != Some(&b'/') {
            self.drop_default_port();
            self.fill_path();
            self.fill_host();
        }
    }

    /// RFC 9112 section 3.2.2: the target of an absolute form says which host is meant, where Host does not.
    #[cold]
    fn fill_host(&mut self) {
        let parts = self.target_parts();
        if parts.form == TargetForm::Absolute && !self.headers.contains_known(HeaderId::Host) {
            let host = parts.host_and_port().to_vec();
            self.headers.add_front(b"host", &host);
        }
    }

    #[cold]
    fn fill_path(&mut self) {
        let parts = self.target_parts();
        let asks_for_all = self.method_kind() == Method::Options && parts.query.is_none();
        if parts.form == TargetForm::Absolute && parts.path.is_empty() && !asks_for_all {
            self.set_path(b"/");
        }
    }

    /// Leaves the port out of an absolute target, or of the Host of a CONNECT, where it is the scheme's own.
    #[cold]
    pub fn drop_default_port(&mut self) {
        let parts = self.target_parts();
        let authority = parts.host_and_port();
        let ports: &[&[u8]] = match parts.form {
            TargetForm::Authority => &[b":80", b":443"],
            TargetForm::Absolute if parts.scheme.eq_ignore_ascii_case(b"http") => &[b":80", b":"],
            TargetForm::Absolute if parts.scheme.eq_ignore_ascii_case(b"https") => &[b":443", b":"],
            _ => &[],
        };
        let Some(host) = ports.iter().find_map(|port| authority.strip_suffix(*port)).map(<[u8]>::to_vec) else {
            return;
        };
        if parts.form == TargetForm::Absolute {
            let before = parts.scheme.len() + b"://".len() + parts.authority.len();
            let port = authority.len() - host.len();
            let target = self.target();
            let (start, rest) = target.split_at_checked(before).unwrap_or((target, &[]));
            let start = start.get(..start.len() - port).unwrap_or(start);
            let target = [start, rest].concat();
            self.set_target(&target);
        }
        self.headers.rewrite_known(HeaderId::Host, |_| Some(host.clone()));
    }

    /// Gives a target that names a host and port (an absolute one, or CONNECT's) another one; user information stays. Nothing
    /// happens to others.
    pub fn set_authority(&mut self, host: &[u8]) {
        let parts = self.target_parts();
        let old = parts.host_and_port();
        if old.is_empty() || old == host {
            return;
        }
        let scheme = if parts.form == TargetForm::Absolute { parts.scheme.len() + b"://".len() } else { 0 };
        let (before, gone) = (scheme + parts.authority.len() - old.len(), old.len());
        let target = self.target();
        let (start, rest) = target.split_at_checked(before).unwrap_or((target, &[]));
        let target = [start, host, rest.get(gone..).unwrap_or_default()].concat();
        self.set_target(&target);
    }

    /// Gives the target another path, keeping what stands before and after it. A target without path (`*`, CONNECT) is
    /// replaced as a whole.
    pub fn set_path(&mut self, path: &[u8]) {
        self.replace(self.path_span(false), path);
    }

    /// Gives the target another path and query.
    pub fn set_path_and_query(&mut self, path_and_query: &[u8]) {
        self.replace(self.path_span(true), path_and_query);
    }

    /// Gives the target another query. As in HAProxy, an empty one leaves a question mark that is there, and adds none.
    pub fn set_query(&mut self, query: &[u8]) {
        let (mark, old): (&[u8], _) = match self.target_parts().query {
            Some(old) => (b"", old.len()),
            None if query.is_empty() => return,
            None => (b"?", 0),
        };
        let end = self.target.start as usize + self.target.len as usize;
        let before = Span::between(self.target.start as usize, end - old);
        self.target = self.intern_encoded(&[Part::Kept(before), Part::New(mark), Part::New(query)]);
    }

    /// Appends request line, fields and the empty line.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write_with(out, &[]);
    }

    /// Like [`RequestHead::write_to`], with more fields after those of the head.
    pub fn write_with(&self, out: &mut Vec<u8>, more: &[(&[u8], &[u8])]) {
        self.write_request_line(out);
        self.headers.write_to(out);
        write_fields(out, more);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the request line alone.
    pub fn write_request_line(&self, out: &mut Vec<u8>) {
        let (method, target, version) = (self.method(), self.target(), self.version_bytes());
        out.reserve(method.len() + target.len() + version.len() + 4 + self.headers.arena_len() + 2);
        out.extend_from_slice(method);
        out.push(b' ');
        out.extend_from_slice(target);
        out.push(b' ');
        out.extend_from_slice(version);
        out.extend_from_slice(b"\r\n");
    }

    /// Where in the arena the path is, with or without query.
    fn path_span(&self, with_query: bool) -> Span {
        let parts = self.target_parts();
        let query = parts.query.map_or(0, |query| query.len() + 1);
        let whole = self.target;
        let end = whole.start as usize + whole.len as usize;
        let path_end = if with_query { end } else { end - query };
        Span::between(end - query - parts.path.len(), path_end)
    }

    /// Puts `new` in the place of `old`, which is the target's path.
    fn replace(&mut self, old: Span, new: &[u8]) {
        let whole = self.target;
        let parts = self.target_parts();
        let is_whole = parts.path.is_empty() && parts.scheme.is_empty();
        let before = Span { start: whole.start, len: if is_whole { 0 } else { old.start - whole.start } };
        let after_start = old.start + old.len;
        let after = Span { start: after_start, len: whole.start + whole.len - after_start };
        self.target = self.intern_encoded(&[Part::Kept(before), Part::New(new), Part::Kept(after)]);
    }

    /// Lays the parts down, percent-encoding what would end a target.
    fn intern_encoded(&mut self, parts: &[Part<'_>]) -> Span {
        let span = self.headers.intern_parts(parts);
        let ends = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
        if !self.headers.bytes(span).iter().any(ends) {
            return span;
        }
        let mut encoded = Vec::with_capacity(self.headers.bytes(span).len() + 16);
        for byte in self.headers.bytes(span) {
            if ends(byte) {
                crate::percent::push_encoded(*byte, &mut encoded);
            } else {
                encoded.push(*byte);
            }
        }
        self.headers.intern(&encoded)
    }
}

/// Appends each field as a line. The values are the proxy's own and are written as they are.
pub(crate) fn write_fields(out: &mut Vec<u8>, fields: &[(&[u8], &[u8])]) {
    for (name, value) in fields {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests;
