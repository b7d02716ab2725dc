//! The head of a response.

use crate::body_length::Framing;
use crate::headers::{Headers, Part, Span};
use crate::request::write_fields;
use crate::status::reason_phrase;
use crate::version::Version;

/// Status line and header fields. All bytes are in the arena of the headers, so a head is recycled as one.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The header fields.
    pub headers: Headers,
    pub(crate) version: Version,
    /// As received when it is to be kept as such, under relaxed parsing; empty otherwise.
    pub(crate) odd_version: Span,
    /// What the sender said about the body.
    pub(crate) framing: Framing,
    pub(crate) status: u16,
    /// As received when it is not of three digits from 100 up; empty otherwise.
    pub(crate) odd_status: Span,
    pub(crate) reason: Span,
    /// See [`ResponseHead::is_in_doubt`].
    pub(crate) in_doubt: bool,
}

impl ResponseHead {
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
        self.version = Version::default();
        self.odd_version = Span::default();
        self.framing = Framing::default();
        self.status = 0;
        self.odd_status = Span::default();
        self.reason = Span::default();
        self.in_doubt = false;
    }

    /// Empties the head and gives it this version and status, with the usual reason phrase.
    pub fn start(&mut self, version: Version, status: u16) {
        self.clear();
        self.version = version;
        self.set_status(status);
    }

    /// The status.
    #[inline]
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the sender, or the receiver, may see the end of this message elsewhere: the connections that it came and goes
    /// on are not to be used again.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The reason phrase.
    #[must_use]
    pub fn reason(&self) -> &[u8] {
        self.headers.bytes(self.reason)
    }

    /// The version by whose rules the response is read.
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

    /// Gives the response another status and the reason phrase that goes with it. A status outside 100 to 999 becomes
    /// the nearest of these.
    pub fn set_status(&mut self, status: u16) {
        self.status = status.clamp(100, 999);
        self.odd_status = Span::default();
        self.reason = self.headers.intern(reason_phrase(self.status).as_bytes());
    }

    /// Gives the response another reason phrase.
    pub fn set_reason(&mut self, reason: &[u8]) {
        self.reason = self.headers.intern_parts(&[Part::New(reason)]);
        self.headers.blank_line_ends(self.reason.start as usize);
    }

    /// Gives the response another version.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
        self.odd_version = Span::default();
    }

    /// Appends status line, fields and the empty line.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write_with(out, &[]);
    }

    /// Like [`ResponseHead::write_to`], with more fields after those of the head.
    pub fn write_with(&self, out: &mut Vec<u8>, more: &[(&[u8], &[u8])]) {
        self.write_status_line(out);
        self.headers.write_to(out);
        write_fields(out, more);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the status line alone.
    pub fn write_status_line(&self, out: &mut Vec<u8>) {
        let (version, reason) = (self.version_bytes(), self.reason());
        out.reserve(version.len() + reason.len() + 7 + self.headers.arena_len() + 2);
        let status = self.status.clamp(100, 999);
        let digit = |unit: u16| b'0' + u8::try_from(status / unit % 10).unwrap_or(0);
        out.extend_from_slice(version);
        if self.odd_status.is_empty() {
            out.extend_from_slice(&[b' ', digit(100), digit(10), digit(1), b' ']);
        } else {
            for part in [b" ", self.headers.bytes(self.odd_status), b" "] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(reason);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests;
