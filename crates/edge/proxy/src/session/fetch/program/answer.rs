//! What a program says, as a response: a head, and a body framed as in HTTP/1.

use std::num::NonZeroUsize;

use fastcgi::{AnswerHead, head_end};
use http::{BodyLength, Limits, Method, Parsed, ResponseHead, ResponseParser, response_body_length};

use crate::session::{context::wall_clock, fetch::HeadEnd, incoming::Taken};

/// What becomes of the bytes behind a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// They are none of the response: it has no body.
    Left,
    /// So many more are the body; what is more than was announced is not.
    Exact(u64),
    /// They become chunks.
    MadeChunks,
    /// They are chunks.
    Chunks,
}

/// What a program says of one request.
#[derive(Debug)]
pub struct ProgramAnswer {
    method: Method,
    /// What came before the head was whole.
    text: Vec<u8>,
    /// How much of that has been searched.
    scanned: usize,
    framing: Option<Framing>,
    here: Taken,
    /// The program has said its last word.
    has_ended: bool,
    is_local_redirect: bool,
}

impl ProgramAnswer {
    /// Nothing of the answer to a request has come.
    pub fn new(method: Method) -> Self {
        let (text, here) = (Vec::new(), Taken::default());
        Self { method, text, scanned: 0, framing: None, here, has_ended: false, is_local_redirect: false }
    }

    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.framing {
            None => self.text.extend_from_slice(bytes),
            Some(framing) => self.push_body(framing, bytes),
        }
    }

    fn push_body(&mut self, framing: Framing, bytes: &[u8]) {
        let here = &mut self.here;
        let mut add = |bytes: &[u8]| {
            here.add(|into| {
                into.extend_from_slice(bytes);
                (bytes.len(), bytes.len())
            });
        };
        match framing {
            Framing::Left => {}
            Framing::Chunks => add(bytes),
            Framing::Exact(left) => {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                add(bytes.get(..most).unwrap_or_default());
                self.framing = Some(Framing::Exact(left - most as u64));
            }
            Framing::MadeChunks => {
                if let Some(length) = NonZeroUsize::new(bytes.len()) {
                    here.add(|into| {
                        into.reserve(bytes.len() + 16);
                        http::write_chunk_start(length, into);
                        into.extend_from_slice(bytes);
                        http::write_chunk_end(into);
                        (bytes.len(), bytes.len())
                    });
                }
            }
        }
    }

    /// The program has said its last word.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) && self.framing == Some(Framing::MadeChunks) {
            self.here.add(|into| {
                http::write_last_chunk(into);
                (0, 0)
            });
        }
    }

    /// Whether the program has said its last word.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether all that the program says is another path, which is to be answered with.
    pub fn is_local_redirect(&self) -> bool {
        self.is_local_redirect
    }

    /// Whether nothing has come.
    pub fn is_empty(&self) -> bool {
        self.framing.is_none() && self.text.is_empty()
    }

    /// Whether all of the response has come, though the program may go on.
    pub fn is_complete(&self) -> bool {
        match self.framing {
            None => false,
            Some(Framing::Left | Framing::Exact(0)) => true,
            Some(_) => self.has_ended,
        }
    }

    /// The head, once it is whole.
    pub fn take_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
    ) -> Option<Result<(), HeadEnd>> {
        if self.framing.is_some() {
            return None;
        }
        let Some(end) = head_end(&self.text, self.scanned) else {
            self.scanned = self.text.len();
            return (self.text.len() > limits.head_bytes_max).then_some(Err(HeadEnd::Junk));
        };
        let text = std::mem::take(&mut self.text);
        let (written, body) = text.split_at_checked(end).unwrap_or_default();
        let framing = self.make_head(written, body.len(), (parser, limits, head));
        Some(framing.map(|framing| {
            self.framing = Some(framing);
            self.push_body(framing, body);
            if std::mem::take(&mut self.has_ended) {
                self.end();
            }
        }))
    }

    fn make_head(
        &mut self,
        written: &[u8],
        body: usize,
        (parser, limits, head): (&mut ResponseParser, &Limits, &mut ResponseHead),
    ) -> Result<Framing, HeadEnd> {
        let mut text = Vec::with_capacity(written.len() + 128);
        let found = AnswerHead::write(written, &mut text).map_err(|_| HeadEnd::Junk)?;
        self.is_local_redirect = found.is_local_redirect;
        if !found.has_date {
            text.extend_from_slice(b"date: ");
            text.extend_from_slice(&http::http_date(wall_clock().as_secs()));
            text.extend_from_slice(b"\r\n");
        }
        let has_none = self.method == Method::Head || matches!(found.status, 204 | 304);
        let says_length = found.has_length || found.has_transfer_encoding;
        if !says_length && !has_none {
            // As HAProxy has it: a body that is there whole has a length.
            match self.has_ended {
                true => text.extend_from_slice(format!("content-length: {body}\r\n").as_bytes()),
                false => text.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            }
        }
        text.extend_from_slice(b"\r\n");
        match parser.parse(&text, limits, head) {
            Ok(Parsed::Complete { consumed }) if consumed == text.len() => {}
            _ => return Err(HeadEnd::Junk),
        }
        Ok(match response_body_length(head, self.method) {
            BodyLength::None => Framing::Left,
            BodyLength::Exact(length) => Framing::Exact(length),
            BodyLength::Chunked if found.has_transfer_encoding => Framing::Chunks,
            BodyLength::Chunked => Framing::MadeChunks,
            // What is encoded in another way than by chunks has no end that anybody could see.
            BodyLength::UntilClose => return Err(HeadEnd::Junk),
        })
    }

    /// What has come of the body and was not consumed.
    #[inline]
    pub fn received(&self) -> &[u8] {
        self.here.bytes()
    }

    /// So many bytes are done with.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let _ = self.here.consume(count);
    }

    /// Gives memory back that holds nothing.
    pub fn rest(&mut self) {
        self.here.rest();
        if self.text.is_empty() {
            self.text = Vec::new();
        }
    }
}
