//! Trailers behind bodies whose length was announced, between ends that are told what to do.

use std::task::Waker;

use super::*;

#[derive(Default)]
struct From {
    received: Vec<u8>,
    may_trail: bool,
    trailers: Option<&'static [u8]>,
}

impl Source for From {
    fn received(&self) -> &[u8] {
        &self.received
    }

    fn consume(&mut self, count: usize) {
        self.received.drain(..count);
    }

    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }

    fn may_trail(&self) -> bool {
        self.may_trail
    }

    fn poll_trailers(&mut self, _: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.trailers.map_or(Poll::Pending, |lines| Poll::Ready(lines.to_vec()))
    }
}

#[derive(Default)]
struct To {
    waiting: Vec<u8>,
    sent: Vec<u8>,
    takes_trailers: bool,
    awaits: bool,
    trailers: Option<Vec<u8>>,
}

impl Sink for To {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    fn unsent_len(&self) -> usize {
        self.waiting.len()
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whether the last byte ends the message is known before it goes.
        assert!(self.waiting.is_empty() || self.awaits == self.takes_trailers);
        self.sent.append(&mut self.waiting);
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        self.sent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }

    fn await_trailers(&mut self) -> bool {
        self.awaits = self.takes_trailers;
        self.takes_trailers
    }

    fn put_trailers(&mut self, lines: &[u8]) {
        assert!(self.waiting.is_empty());
        self.trailers = Some(lines.to_vec());
    }
}

fn poll(pump: &mut BodyPump, from: &mut From, to: &mut To) -> bool {
    match pump.poll(from, to, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => {
            result.unwrap();
            true
        }
        Poll::Pending => false,
    }
}

#[test]
fn trailers_are_awaited_where_both_ends_can() {
    for is_small in [false, true] {
        let mut pump = BodyPump::new(BodyLength::Exact(3), &Limits::default(), false);
        let mut from = From { received: b"abc".to_vec(), may_trail: true, ..From::default() };
        let mut to = To { takes_trailers: true, ..To::default() };
        if is_small {
            pump.approve(&from).unwrap();
            pump.append_small(&mut from, &mut to, 100);
        }
        assert!(!poll(&mut pump, &mut from, &mut to) && to.awaits);
        assert_eq!((&to.sent[..], &to.trailers), (&b"abc"[..], &None));
        from.trailers = Some(b"a: b\r\n");
        assert!(poll(&mut pump, &mut from, &mut to));
        assert_eq!(to.trailers.as_deref(), Some(&b"a: b\r\n"[..]));
        // Sent again, they go along.
        let mut second = To { takes_trailers: true, waiting: b"abc".to_vec(), ..To::default() };
        pump.begin_again(&from, &mut second);
        from.trailers = None;
        assert!(poll(&mut pump, &mut from, &mut second));
        assert_eq!((&second.sent[..], second.trailers.as_deref()), (&b"abc"[..], Some(&b"a: b\r\n"[..])));
    }
}

#[test]
fn nothing_is_awaited_elsewhere() {
    for (length, may_trail, takes_trailers) in [
        (BodyLength::Exact(3), true, false),
        (BodyLength::Exact(3), false, true),
        (BodyLength::Exact(3), false, false),
        (BodyLength::None, true, true),
    ] {
        let mut pump = BodyPump::new(length, &Limits::default(), false);
        let received = if length == BodyLength::None { Vec::new() } else { b"abc".to_vec() };
        let mut from = From { received, may_trail, ..From::default() };
        let mut to = To { takes_trailers, ..To::default() };
        assert!(poll(&mut pump, &mut from, &mut to));
        assert_eq!((to.awaits, to.trailers), (false, None));
    }
    // One that could take none is followed by one that can.
    let mut pump = BodyPump::new(BodyLength::Exact(3), &Limits::default(), false);
    let mut from = From { received: b"abc".to_vec(), may_trail: true, trailers: Some(b"a: b\r\n") };
    assert!(poll(&mut pump, &mut from, &mut To::default()));
    let mut second = To { takes_trailers: true, waiting: b"abc".to_vec(), ..To::default() };
    pump.begin_again(&from, &mut second);
    assert!(poll(&mut pump, &mut from, &mut second) && second.trailers.is_some());
}
