//! One request and its answer, whatever connection they take.

use std::{io, sync::Arc};

use fastcgi::{Client, EndStatus, RequestKey, write_pair};
use http::{BodyLength, Limits, Method, ResponseHead, ResponseParser, request_body_length};
use logs::WorkerLog;

use crate::session::fetch::{
    HeadEnd, OutgoingHead,
    program::{Complaints, ProgramAnswer, RequestBody, body::Step},
};

/// Bytes of a body that are put into records before these are sent.
const STEP_BYTES: usize = 64 * 1024;

/// Bytes of an answer that wait before no more is received.
const HERE_BYTES_MAX: usize = 16 * 1024;

/// Where records go: what knows their ids, and what is to be sent.
pub type Out<'a> = (&'a mut Client, &'a mut Vec<u8>);

/// A request and its answer.
#[derive(Debug)]
pub struct Exchange {
    /// The request, once the application has been told of it.
    pub key: Option<RequestKey>,
    /// Put here as HTTP/1 frames it, and not yet put into records.
    pub waiting: Vec<u8>,
    /// What the application says.
    pub answer: ProgramAnswer,
    body: RequestBody,
    /// The variables of a request whose length nobody knows yet.
    held_params: Option<Vec<u8>>,
    /// How the application has ended the request.
    end: Option<EndStatus>,
    /// What it was that this side does not ask for: the status of the answer.
    refused: Option<u16>,
    complaints: Complaints,
}

impl Exchange {
    /// One that has not begun.
    pub fn new(log: &WorkerLog) -> Self {
        Self {
            key: None,
            waiting: Vec::new(),
            answer: ProgramAnswer::new(Method::Get),
            body: RequestBody::default(),
            held_params: None,
            end: None,
            refused: None,
            complaints: Complaints::new(log, &Arc::default()),
        }
    }

    /// Begins with a request.
    pub fn start(&mut self, request: &OutgoingHead<'_>, out: Out<'_>) {
        (self.answer, self.end, self.refused) = (ProgramAnswer::new(request.head.method_kind()), None, None);
        (self.key, self.held_params) = (None, None);
        let length = request_body_length(request.head);
        self.body = RequestBody::new(length);
        let program = match &request.program {
            Some(Ok(program)) => program,
            Some(Err(status)) => return self.refused = Some(*status),
            None => return self.refused = Some(500),
        };
        self.complaints.begin(&program.log);
        if self.body.is_unannounced() {
            self.held_params = Some(program.params.clone());
            return;
        }
        let (client, bytes) = out;
        self.begin(&program.params, (&mut *client, &mut *bytes));
        if matches!(length, BodyLength::None | BodyLength::Exact(0) | BodyLength::UntilClose)
            && let Some(key) = self.key
        {
            client.end_stdin(key, bytes);
        }
    }

    fn begin(&mut self, params: &[u8], (client, bytes): Out<'_>) {
        self.key = client.begin(params, bytes);
        if self.key.is_none() {
            self.end = Some(EndStatus::Overloaded);
        }
    }

    /// Puts bytes of the body into records; how many of them were taken.
    pub fn frame(&mut self, bytes: &[u8], (client, out): Out<'_>) -> io::Result<usize> {
        match self.body.take(bytes, STEP_BYTES)? {
            Step::Bytes { count, is_last } => {
                let Some(key) = self.key else { return Ok(bytes.len()) };
                client.write_stdin(key, bytes.get(..count).unwrap_or_default(), out);
                if is_last {
                    client.end_stdin(key, out);
                }
                Ok(if is_last { bytes.len() } else { count })
            }
            Step::Kept => Ok(bytes.len()),
            Step::Whole(body) => {
                if let Some(mut params) = self.held_params.take() {
                    write_pair(b"CONTENT_LENGTH", body.len().to_string().as_bytes(), &mut params);
                    self.begin(&params, (&mut *client, &mut *out));
                }
                if let Some(key) = self.key {
                    client.write_stdin(key, &body, out);
                    client.end_stdin(key, out);
                }
                Ok(bytes.len())
            }
            Step::TooLong => {
                self.refused = Some(413);
                Ok(bytes.len())
            }
        }
    }

    /// Puts into records what waits.
    pub fn frame_waiting(&mut self, (client, out): Out<'_>) -> io::Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut taken = 0;
        while taken < waiting.len() {
            taken += self.frame(waiting.get(taken..).unwrap_or_default(), (&mut *client, &mut *out))?;
        }
        waiting.clear();
        self.waiting = waiting;
        Ok(())
    }

    /// The application complains.
    pub fn complain(&mut self, bytes: &[u8]) {
        self.complaints.push(bytes);
    }

    /// The application has ended the request.
    pub fn end(&mut self, status: EndStatus) {
        self.end = Some(status);
        self.answer.end();
        self.complaints.finish();
    }

    /// How the application has ended the request: it reads nothing more of it then.
    pub fn ended(&self) -> Option<EndStatus> {
        self.end
    }

    /// Whether so much of the answer waits that no more of it is to be received.
    pub fn is_full(&self) -> bool {
        self.answer.received().len() >= HERE_BYTES_MAX
    }

    /// The head of the answer, or why there will be none; nothing as long as that is open.
    pub fn take_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
    ) -> Option<Result<(), HeadEnd>> {
        if let Some(status) = self.refused {
            return Some(Err(HeadEnd::Refused(status)));
        }
        if let Some(taken) = self.answer.take_head(parser, limits, head) {
            return Some(taken);
        }
        match self.end? {
            EndStatus::CannotMultiplex | EndStatus::Overloaded if self.answer.is_empty() => {
                Some(Err(HeadEnd::NotProcessed))
            }
            EndStatus::Complete => Some(Err(HeadEnd::Broken)),
            _ => Some(Err(HeadEnd::Junk)),
        }
    }

    /// Why there is no head where nothing more comes.
    pub fn cut_off(&self) -> HeadEnd {
        if self.answer.is_empty() { HeadEnd::Empty } else { HeadEnd::Broken }
    }
}
