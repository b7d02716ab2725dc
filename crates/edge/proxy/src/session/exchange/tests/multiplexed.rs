//! A client connection for tests that carries several exchanges at a time, and is no HTTP/1: events, each with the number of its
//! exchange. What the client has not read yet is bounded for all of them together.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use http::ResponseHead;
use net::PlainSocket;

use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    exchange::ClientStream,
    transaction::Transaction,
};

/// Bytes of bodies that the client has not read.
const UNREAD_MAX: usize = 3_000;

/// What the client hears of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An interim response with this status.
    Interim(u16),
    /// The head of the answer, as text.
    Head(String),
    /// A piece of its body, framed as the head says.
    Data(Vec<u8>),
    /// The answer is whole.
    End,
    /// The answer is over, and not whole.
    CutOff,
}

#[derive(Debug, Default)]
struct State {
    /// What the client has not read.
    events: VecDeque<(usize, Event)>,
    unread: usize,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl State {
    fn tell(&mut self, number: usize, event: Event) {
        self.events.push_back((number, event));
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The connection, as the client has it.
#[derive(Clone, Debug, Default)]
pub struct Connection(Rc<RefCell<State>>);

impl Connection {
    /// The part that an exchange gets; and what the client sends its request's body by.
    pub fn begin(&self, number: usize) -> (Part, Upload) {
        let upload = Upload::default();
        let uploaded = upload.clone();
        let part = Part {
            connection: self.clone(),
            number,
            uploaded,
            here: Vec::new(),
            waiting: Vec::new(),
            has_ended: false,
            is_whole: false,
            is_shut: false,
        };
        (part, upload)
    }

    /// What comes next.
    pub fn poll_next(&self, context: &Context<'_>) -> Poll<(usize, Event)> {
        let mut state = self.0.borrow_mut();
        let Some((number, event)) = state.events.pop_front() else {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        if let Event::Data(data) = &event {
            state.unread -= data.len();
            state.writers.drain(..).for_each(Waker::wake);
        }
        Poll::Ready((number, event))
    }
}

/// The body of a request on its way, framed as its head says.
#[derive(Clone, Debug, Default)]
pub struct Upload(Rc<RefCell<Uploaded>>);

#[derive(Debug, Default)]
struct Uploaded {
    bytes: Vec<u8>,
    has_ended: bool,
    reader: Option<Waker>,
}

impl Upload {
    pub fn send(&self, bytes: &[u8]) {
        self.change(|uploaded| uploaded.bytes.extend_from_slice(bytes));
    }

    /// The client sends no more: its request is whole, or it has left.
    pub fn end(&self) {
        self.change(|uploaded| uploaded.has_ended = true);
    }

    fn change(&self, how: impl FnOnce(&mut Uploaded)) {
        let mut uploaded = self.0.borrow_mut();
        how(&mut uploaded);
        if let Some(reader) = uploaded.reader.take() {
            reader.wake();
        }
    }
}

/// A client's side of one exchange.
#[derive(Debug)]
pub struct Part {
    connection: Connection,
    number: usize,
    uploaded: Upload,
    here: Vec<u8>,
    waiting: Vec<u8>,
    has_ended: bool,
    is_whole: bool,
    /// The client knows already.
    is_shut: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_shut {
            return;
        }
        let event = if self.is_whole { Event::End } else { Event::CutOff };
        self.connection.0.borrow_mut().tell(self.number, event);
    }
}

impl Part {
    /// Sends as much of `bytes` as may go.
    fn poll_data(&self, bytes: &[u8], context: &Context<'_>) -> Poll<usize> {
        let mut state = self.connection.0.borrow_mut();
        let count = bytes.len().min(UNREAD_MAX - state.unread);
        if count == 0 && !bytes.is_empty() {
            state.writers.push(context.waker().clone());
            return Poll::Pending;
        }
        if count > 0 {
            state.unread += count;
            state.tell(self.number, Event::Data(bytes[..count].to_vec()));
        }
        Poll::Ready(count)
    }
}

impl Source for Part {
    fn received(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let mut uploaded = self.uploaded.0.borrow_mut();
        let bytes = std::mem::take(&mut uploaded.bytes);
        if bytes.is_empty() && !uploaded.has_ended {
            uploaded.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.here.extend_from_slice(&bytes);
        self.has_ended |= bytes.is_empty();
        Poll::Ready(Ok(bytes.len()))
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for Part {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    fn unsent_len(&self) -> usize {
        self.waiting.len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let Poll::Ready(count) = self.poll_data(&self.waiting, context) else {
                return Poll::Pending;
            };
            self.waiting.drain(..count);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_flush(context))?;
        self.poll_data(bytes, context).map(Ok)
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for Part {
    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn is_full(&self) -> bool {
        self.here.len() >= UNREAD_MAX
    }

    fn rest(&mut self) {
        self.here.shrink_to_fit();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_flush(context))?;
        self.end();
        self.connection.0.borrow_mut().tell(self.number, Event::End);
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }

    fn failed(&self) -> Failed {
        Box::pin(std::future::pending())
    }

    fn break_off(&mut self) {
        self.is_whole = false;
    }
}

impl ClientStream for Part {
    fn give_up_receiving(&mut self) {
        self.has_ended = true;
    }

    fn write_interim(&mut self, head: &ResponseHead) {
        self.connection.0.borrow_mut().tell(self.number, Event::Interim(head.status()));
    }

    fn write_head(&mut self, transaction: &mut Transaction, _: bool) -> usize {
        assert!(self.waiting.is_empty(), "nothing comes before the head");
        let mut text = Vec::new();
        transaction.response.write_to(&mut text);
        let written = text.len();
        self.connection.0.borrow_mut().tell(self.number, Event::Head(String::from_utf8(text).unwrap()));
        written
    }

    fn write_tunnel_head(&mut self, head: &ResponseHead) {
        let mut text = Vec::new();
        head.write_to(&mut text);
        self.connection.0.borrow_mut().tell(self.number, Event::Head(String::from_utf8(text).unwrap()));
    }

    fn end(&mut self) {
        assert!(!std::mem::replace(&mut self.is_whole, true), "an answer ends once");
    }

    fn vanish(&mut self) {}
}
