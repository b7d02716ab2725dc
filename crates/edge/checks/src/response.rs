//! What has come from a server during a check: head and body, as far as they fit.

use http::{BodyLength, ChunkedDecoder, Limits, Method, Parsed, ResponseHead, ResponseParser};

/// A response that is being received. It never holds more than the size of a buffer.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) head: ResponseHead,
    parser: ResponseParser,
    limits: Limits,
    /// Bytes of a head that is not complete, or of chunks that are not.
    raw: Vec<u8>,
    body: Vec<u8>,
    rest: Rest,
    method: Method,
    bytes_max: usize,
    taken: usize,
    broken: bool,
}

/// What is still to come.
#[derive(Debug)]
enum Rest {
    Head,
    Length(u64),
    Chunks(Box<ChunkedDecoder>),
    UntilClose,
    Nothing,
}

impl Received {
    /// Nothing yet, of a response to a request with `method`.
    pub(super) fn new(method: Method, bytes_max: usize) -> Self {
        let limits = Limits { head_bytes_max: bytes_max, trailer_bytes_max: bytes_max, ..Limits::default() };
        Self {
            head: ResponseHead::new(),
            parser: ResponseParser::new(),
            limits,
            raw: Vec::new(),
            body: Vec::new(),
            rest: Rest::Head,
            method,
            bytes_max,
            taken: 0,
            broken: false,
        }
    }

    /// Whether the head is there.
    pub(super) fn has_head(&self) -> bool {
        !matches!(self.rest, Rest::Head)
    }

    /// Whether what came is not HTTP.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether nothing more can be taken: the response has ended, or there is no room.
    pub(super) fn is_complete(&self) -> bool {
        self.broken || matches!(self.rest, Rest::Nothing) || self.room() == 0
    }

    /// Bytes that may still be taken.
    pub(super) fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.taken)
    }

    /// The body so far, without chunk sizes.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Takes bytes in.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.taken += bytes.len();
        if let Rest::Head = self.rest {
            self.add_to_head(bytes);
            self.take_head();
        } else {
            self.take_body(bytes);
        }
    }

    /// Adds to what there is of a head, and behind it. Nobody else reads these bytes, so what is refused in traffic does no
    /// harm here: pages of health are often made by scripts that end lines with LF alone.
    fn add_to_head(&mut self, bytes: &[u8]) {
        for (place, byte) in bytes.iter().enumerate() {
            match byte {
                b'\r' | b'\n' if self.raw.is_empty() => continue,
                b'\n' if self.raw.last() != Some(&b'\r') => self.raw.extend_from_slice(b"\r\n"),
                byte => self.raw.push(*byte),
            }
            if self.raw.ends_with(b"\r\n\r\n") {
                self.raw.extend_from_slice(bytes.get(place + 1..).unwrap_or_default());
                return;
            }
        }
    }

    fn take_head(&mut self) {
        match self.parser.parse(&self.raw, &self.limits, &mut self.head) {
            Ok(Parsed::Incomplete) => self.broken = self.room() == 0,
            Ok(Parsed::Complete { consumed }) => {
                self.rest = match http::response_body_length(&self.head, self.method) {
                    BodyLength::None => Rest::Nothing,
                    BodyLength::Exact(0) => Rest::Nothing,
                    BodyLength::Exact(length) => Rest::Length(length),
                    BodyLength::Chunked => Rest::Chunks(Box::new(ChunkedDecoder::new(&self.limits))),
                    BodyLength::UntilClose => Rest::UntilClose,
                };
                let raw = std::mem::take(&mut self.raw);
                self.take_body(raw.get(consumed..).unwrap_or_default());
            }
            Err(_) => self.broken = true,
        }
    }

    fn take_body(&mut self, bytes: &[u8]) {
        match &mut self.rest {
            Rest::Head | Rest::Nothing => {}
            Rest::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                self.body.extend_from_slice(bytes.get(..count).unwrap_or_default());
                *left -= count as u64;
                if *left == 0 {
                    self.rest = Rest::Nothing;
                }
            }
            Rest::UntilClose => self.body.extend_from_slice(bytes),
            Rest::Chunks(decoder) => {
                self.raw.extend_from_slice(bytes);
                match decoder.decode_into(&self.raw, &mut self.body) {
                    Ok(progress) => {
                        self.raw.drain(..progress.consumed.min(self.raw.len()));
                        if progress.done {
                            self.rest = Rest::Nothing;
                        }
                    }
                    Err(_) => self.broken = true,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The response in pieces of every size gives the same body.
    fn check(response: &[u8], body: Option<&[u8]>, complete: bool) {
        for piece in [1, 3, 7, response.len()] {
            let mut received = Received::new(Method::Get, 1_000);
            for bytes in response.chunks(piece) {
                received.take(bytes);
            }
            assert_eq!(received.is_broken(), body.is_none(), "{piece}");
            if let Some(body) = body {
                assert!(received.has_head());
                assert_eq!(received.body(), body, "{piece}");
                assert_eq!(received.is_complete(), complete, "{piece}");
            }
        }
    }

    #[test]
    fn bodies_of_each_kind() {
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Some(b"hello"), true);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", Some(b"hello"), false);
        check(b"HTTP/1.1 204 No\r\n\r\n", Some(b""), true);
        check(b"HTTP/1.0 200 OK\r\n\r\nhello", Some(b"hello"), false);
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
        check(chunks, Some(b"hello world"), true);
        check(b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\nall\nis\n\nwell\n", Some(b"all\nis\n\nwell\n"), false);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello", Some(b"hello"), true);
        check(b"\r\n\nHTTP/1.1 200 OK\nContent-Length: 5\n\nhello", Some(b"hello"), true);
        check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", None, true);
        check(b"220 mail.example.org ESMTP\r\n", None, true);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", None, true);
    }

    #[test]
    fn no_more_than_a_buffer_is_kept() {
        let mut received = Received::new(Method::Get, 100);
        received.take(b"HTTP/1.0 200 OK\r\n\r\n");
        while !received.is_complete() {
            let piece = vec![b'x'; received.room().min(7)];
            received.take(&piece);
        }
        assert_eq!(received.body().len(), 100 - 19);
        let mut endless = Received::new(Method::Get, 100);
        while !endless.is_complete() {
            endless.take(b"HTTP/1.1 200 OK\r\nX: yyyyyyyyy\r\nZ: ".get(..endless.room().min(30)).unwrap());
        }
        assert!(endless.is_broken());
    }
}
