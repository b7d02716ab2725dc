//! FastCGI under a check: what it writes as a request of HTTP/1 goes out in records, and what a program answers is read as HTTP/1.

use std::{io, net::SocketAddr, sync::Arc};

use fastcgi::{
    AnswerHead, Client, Event, Facts, Program, Script, Settings, Variables, head_end, is_hidden, write_pair,
};
use haproxycfg::model::FcgiApp;
use http::{Limits, Parsed, RequestHead, RequestParser};

/// What programs are told to be asked by.
const SOFTWARE: &[u8] = concat!("Tidegate/", env!("CARGO_PKG_VERSION")).as_bytes();

/// One request and its answer over FastCGI.
#[derive(Debug)]
pub(super) struct FastCgi {
    app: Arc<FcgiApp>,
    client: Client,
    ends: (Option<SocketAddr>, Option<SocketAddr>),
    limits: Limits,
    /// Came from the application and was not read by the machine.
    received: Vec<u8>,
    /// What the program has said, as long as its head is not whole.
    said: Vec<u8>,
    has_head: bool,
    /// To be read by the check, from `read` on.
    ready: Vec<u8>,
    read: usize,
    has_ended: bool,
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl FastCgi {
    /// One whose heads are no larger than a buffer, on a connection from one address to another.
    pub(super) fn new(app: Arc<FcgiApp>, bytes_max: usize, ends: (Option<SocketAddr>, Option<SocketAddr>)) -> Self {
        let settings = Settings { keeps_connection: false, requests_max: 1 };
        Self {
            app,
            client: Client::new(settings),
            ends,
            limits: Limits { head_bytes_max: bytes_max, trailer_bytes_max: bytes_max, ..Limits::default() },
            received: Vec::new(),
            said: Vec::new(),
            has_head: false,
            ready: Vec::new(),
            read: 0,
            has_ended: false,
        }
    }

    /// Takes a request of HTTP/1; what is to be sent.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn write(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut head = RequestHead::new();
        let Ok(Parsed::Complete { consumed }) = RequestParser::new().parse(request, &self.limits, &mut head) else {
            return Err(wrong("request that FastCGI does not know"));
        };
        let body = request.get(consumed..).unwrap_or_default();
        let app = &self.app;
        let program = Program { docroot: &app.docroot, index: app.index.as_deref(), path_info: app.path_info.as_ref() };
        let script = Script::of(head.path(), &program).map_err(|_| wrong("path that means no program"))?;
        let facts = Facts {
            method: head.method(),
            uri: head.path_and_query(),
            query: head.query(),
            protocol: head.version_bytes(),
            content_length: Some(body.len() as u64),
            remote: self.ends.0,
            local: self.ends.1,
            is_secure: false,
            docroot: &app.docroot,
            software: SOFTWARE,
        };
        let fields: Vec<(&[u8], &[u8])> = head.headers.iter().filter(|(name, _)| !is_hidden(name)).collect();
        let mut params = Vec::new();
        Variables { facts, script: &script, fields: fields.iter().copied(), overrides: &[] }
            .for_each(|name, value| write_pair(name, value, &mut params));
        let mut out = Vec::new();
        let key = self.client.begin(&params, &mut out).ok_or_else(|| wrong("second request on a connection"))?;
        self.client.write_stdin(key, body, &mut out);
        self.client.end_stdin(key, &mut out);
        Ok(out)
    }

    /// Takes what has come from the application.
    ///
    /// # Errors
    /// When it is not FastCGI, or no answer.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut used = 0;
        loop {
            match self.client.next(&received, &mut used) {
                Ok(None) => break,
                Ok(Some(Event::Stdout { from, to, .. })) => self.say(received.get(from..to).unwrap_or_default())?,
                Ok(Some(Event::StdoutEnd(_) | Event::End { .. })) => {
                    self.has_ended = true;
                    if !self.has_head {
                        return Err(wrong("program that has ended without a head"));
                    }
                }
                Ok(Some(Event::Stderr { .. } | Event::Values(_))) => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        self.received = received.get(used..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_head {
            self.ready.extend_from_slice(bytes);
            return Ok(());
        }
        let scanned = self.said.len();
        self.said.extend_from_slice(bytes);
        let Some(end) = head_end(&self.said, scanned) else {
            return if self.said.len() > self.limits.head_bytes_max {
                Err(wrong("head that is too long"))
            } else {
                Ok(())
            };
        };
        let said = std::mem::take(&mut self.said);
        let (head, body) = said.split_at_checked(end).unwrap_or_default();
        AnswerHead::write(head, &mut self.ready).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.ready.extend_from_slice(b"\r\n");
        self.ready.extend_from_slice(body);
        self.has_head = true;
        Ok(())
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
