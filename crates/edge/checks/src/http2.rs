//! HTTP/2 under a check: what it writes as a request of HTTP/1 goes out in frames, and what comes in frames is read as HTTP/1.

use std::io;

use h2::{ClientConnection, Event, RequestOptions, Settings};
use http::{BodyLength, Limits, Method, Parsed, RequestHead, RequestParser, ResponseHead, response_body_length};

/// One request and its answer over HTTP/2.
#[derive(Debug)]
pub(super) struct Http2 {
    machine: ClientConnection,
    is_secure: bool,
    limits: Limits,
    method: Method,
    /// Came from the server and was not read by the machine.
    received: Vec<u8>,
    /// To be read by the check, from `read` on.
    ready: Vec<u8>,
    read: usize,
    is_chunked: bool,
    has_ended: bool,
}

impl Http2 {
    /// One whose heads are no larger than a buffer.
    pub(super) fn new(is_secure: bool, bytes_max: usize) -> Self {
        let limits = Limits { head_bytes_max: bytes_max, trailer_bytes_max: bytes_max, ..Limits::default() };
        Self {
            machine: ClientConnection::new(Settings::default(), limits),
            is_secure,
            limits,
            method: Method::Get,
            received: Vec::new(),
            ready: Vec::new(),
            read: 0,
            is_chunked: false,
            has_ended: false,
        }
    }

    /// Takes a request of HTTP/1; what is to be sent.
    ///
    /// # Errors
    /// When it is none, or the server takes none.
    pub(super) fn write(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut head = RequestHead::new();
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "request that HTTP/2 does not know");
        let Ok(Parsed::Complete { consumed }) = RequestParser::new().parse(request, &self.limits, &mut head) else {
            return Err(wrong());
        };
        let body = request.get(consumed..).unwrap_or_default();
        self.method = head.method_kind();
        (self.has_ended, self.is_chunked) = (false, false);
        self.ready.clear();
        self.read = 0;
        let options = RequestOptions { is_secure: self.is_secure, ends: body.is_empty(), ..RequestOptions::default() };
        let key = self.machine.send_request(&head, &options).ok_or_else(wrong)?;
        if !body.is_empty() {
            // NOTE: less than a buffer, which each server has room for.
            self.machine.send_data(key, body, true);
        }
        Ok(self.output())
    }

    /// What is to be sent.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.machine.take_output(&mut out);
        self.machine.note_unsent(0);
        out
    }

    /// Takes what has come from the server.
    ///
    /// # Errors
    /// When it is not HTTP/2, or no answer.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let (mut head, mut used) = (ResponseHead::new(), 0);
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        loop {
            match self.machine.next(&received, &mut used, &mut head) {
                Ok(None) => break,
                Ok(Some(Event::Response { ends, .. })) => {
                    if head.status() >= 200 {
                        self.is_chunked = response_body_length(&head, self.method) == BodyLength::Chunked;
                        head.write_to(&mut self.ready);
                        self.has_ended |= ends;
                    }
                }
                Ok(Some(Event::Data { stream, from, to, ends })) => {
                    let data = received.get(from..to).unwrap_or_default();
                    self.machine.consumed(stream, data.len());
                    match self.is_chunked {
                        true => http::write_chunk(data, &mut self.ready),
                        false => self.ready.extend_from_slice(data),
                    }
                    if ends {
                        self.ends();
                    }
                }
                Ok(Some(Event::Trailers(_))) => self.ends(),
                Ok(Some(Event::Reset { code, .. })) => return Err(wrong(format!("stream reset: {}", code.name()))),
                Ok(Some(_)) => {}
                Err(error) => return Err(wrong(error.to_string())),
            }
        }
        self.received = received.get(used..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn ends(&mut self) {
        self.has_ended = true;
        if self.is_chunked {
            http::write_last_chunk(&mut self.ready);
        }
    }

    /// Reads what is ready as HTTP/1; `None` if there is nothing and more may come.
    pub(super) fn read(&mut self, room: &mut [u8]) -> Option<usize> {
        let ready = self.ready.get(self.read..).unwrap_or_default();
        if ready.is_empty() {
            return self.has_ended.then_some(0);
        }
        let count = ready.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), ready.get(..count)) {
            to.copy_from_slice(from);
        }
        self.read += count;
        Some(count)
    }
}
