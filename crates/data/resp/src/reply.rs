//! Replies, written straight into a client's output.

use crate::{
    command::write_bulk,
    double::{DOUBLE_LEN_MAX, format_double},
    number::{length, write_prefixed},
};

/// Which version of the protocol a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What everybody speaks until `HELLO 3`.
    #[default]
    Resp2,
    /// With types for maps, sets, doubles and others, and with pushes.
    Resp3,
}

/// Room that is held for the header of a collection whose length is not known yet.
const DEFERRED_LEN: usize = 4;

/// A header that is still to be written: [`Reply::defer`] made it, one of [`Reply::finish_array`] and its sisters takes it.
/// What is in the output after it has to stay there until then. Of several, the last made is finished first.
#[derive(Debug, Clone, Copy)]
#[must_use = "without its header the reply is broken"]
pub struct Deferred {
    position: usize,
}

/// Writes replies to a client's output. What the older protocol has no type for, it gets as what Redis gives it.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    /// Replies in `protocol` go to the end of `out`.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// Goes on in another version: what a client that has just chosen one gets to read.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The version in use.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// How much output there is: a place to go back to by [`truncate`](Self::truncate).
    #[inline]
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written after a place.
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Takes back what was written after a place, to write it again further down.
    pub fn take_from(&mut self, position: usize) -> Vec<u8> {
        self.out.split_off(position.min(self.out.len()))
    }

    /// Bytes that are a reply, or several, already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// `+QUEUED`
    #[inline]
    pub fn queued(&mut self) {
        self.raw(b"+QUEUED\r\n");
    }

    /// A line. It has no line breaks in it.
    #[inline]
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        debug_assert!(!text.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "a simple string is one line");
        self.out.reserve(text.len() + 3);
        self.out.push(b'+');
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// An error; `text` begins with its code: `ERR no such key`. Line breaks become blanks, those at the end go.
    #[cold]
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let kept = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        self.out.push(b'-');
        let text = text.get(..kept).unwrap_or_default();
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.raw(b"\r\n");
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        write_prefixed(self.out, b':', number);
    }

    /// A number of things.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.integer(length(count));
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        write_bulk(self.out, bytes);
    }

    /// A number as a string.
    #[inline]
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A string if there is one, else [`null`](Self::null).
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A text with its format of three letters: `txt`, `mkd`.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                write_prefixed(self.out, b'=', length(text.len() + 4));
                self.raw(&format);
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    /// Nothing, where there might have been a string.
    #[inline]
    pub fn null(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where there might have been an array.
    #[inline]
    pub fn null_array(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The header of an array; its elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        write_prefixed(self.out, b'*', length(len));
    }

    /// The header of a map: a key and a value each. The older protocol gets an array of both.
    #[inline]
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len.saturating_mul(2)),
            Protocol::Resp3 => write_prefixed(self.out, b'%', length(len)),
        }
    }

    /// The header of a set, an array in the older protocol.
    #[inline]
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => write_prefixed(self.out, b'~', length(len)),
        }
    }

    /// The header of what nobody asked for: messages of channels, invalidations. An array in the older protocol.
    #[inline]
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => write_prefixed(self.out, b'>', length(len)),
        }
    }

    /// The header of attributes, keys and values of which follow, and then the reply that they belong to. The older protocol
    /// has none: `false` says to leave them out.
    #[must_use]
    pub fn attribute(&mut self, len: usize) -> bool {
        let has_them = self.protocol == Protocol::Resp3;
        if has_them {
            write_prefixed(self.out, b'|', length(len));
        }
        has_them
    }

    /// A double; a string in the older protocol.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                // The length of its text is below 32, so it takes one digit or two, and is put in front afterwards.
                self.out.reserve(DOUBLE_LEN_MAX + 7);
                let deferred = self.defer();
                let start = self.out.len();
                format_double(self.out, number);
                let len = self.out.len() - start;
                self.raw(b"\r\n");
                self.finish(deferred, b'$', len);
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                format_double(self.out, number);
                self.raw(b"\r\n");
            }
        }
    }

    /// A double whose text was made elsewhere.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// True or false; 1 or 0 in the older protocol.
    #[inline]
    pub fn boolean(&mut self, truth: bool) {
        self.raw(match (self.protocol, truth) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// A whole number of any size, as its digits; a string in the older protocol.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Holds room for the header of a collection whose length turns out later.
    pub fn defer(&mut self) -> Deferred {
        let position = self.out.len();
        self.raw(&[0; DEFERRED_LEN]);
        Deferred { position }
    }

    /// The header of an array.
    pub fn finish_array(&mut self, deferred: Deferred, len: usize) {
        self.finish(deferred, b'*', len);
    }

    /// The header of a map of so many pairs.
    pub fn finish_map(&mut self, deferred: Deferred, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.finish(deferred, b'*', len.saturating_mul(2)),
            Protocol::Resp3 => self.finish(deferred, b'%', len),
        }
    }

    /// The header of a set.
    pub fn finish_set(&mut self, deferred: Deferred, len: usize) {
        self.finish(deferred, if self.protocol == Protocol::Resp2 { b'*' } else { b'~' }, len);
    }

    /// The room held is that of a header of one digit. Only for longer ones has what follows to move.
    fn finish(&mut self, Deferred { position }: Deferred, prefix: u8, len: usize) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(len).as_bytes();
        let header = std::iter::once(prefix).chain(digits.iter().copied()).chain(*b"\r\n");
        let end = position + DEFERRED_LEN;
        debug_assert!(end <= self.out.len(), "nothing was taken back beyond the header");
        if end <= self.out.len() {
            self.out.splice(position..end, header);
        }
    }

    fn line(&mut self, prefix: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(prefix);
        self.raw(text);
        self.raw(b"\r\n");
    }
}
