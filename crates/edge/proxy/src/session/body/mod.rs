//! Moving a message's body from where it comes from to where it goes.
//!
//! Bytes go out as they came in; the tracker only says which of them belong to the message. What was received waits in
//! the sender's buffer until the receiver has taken it, so a body of any size needs one buffer and a slow receiver slows
//! the sender. A long stretch that cannot hold the message's end is spliced.

mod duplex;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::{
    io,
    task::{Context, Poll, ready},
};

use http::{BodyLength, Limits, ParseError};
use net::{
    PlainSocket, poll_send_file,
    splice::{CopyError, Splice, Spliced},
};

pub use self::{
    duplex::{Duplex, Failed},
    sink::Sink,
    source::{FileSpan, Intake, Source},
};
use super::filter::Stages;

/// Bytes of a file that one connection is sent before others have their turn.
const FILE_TURN_BYTES: u64 = 2 << 20;

/// Bytes that stages gather before they are sent in any case.
const GATHERED_MAX: usize = 16 * 1024;

/// A body on its way.
#[derive(Debug)]
pub struct BodyPump {
    intake: Intake,
    /// What it goes through on its way, if it does not go as it came.
    stages: Option<Box<Stages>>,
    /// Why no more of it comes, while what came goes through the stages.
    failure: Option<PumpFailure>,
    /// Bytes of it that were spliced.
    pub spliced: u64,
    /// A stretch of a file waits for the receiver's socket.
    file_waits: bool,
    pipe: Option<Splice>,
    splice_min: u64,
    pipe_size: usize,
    trailing: Trailing,
    /// What has gone of it, as long as that is little: whoever was refused it can be sent it once more.
    kept: Option<Vec<u8>>,
}

/// Trailers behind a body whose length was announced, which pass where both ends frame their messages.
#[derive(Debug, PartialEq, Eq)]
enum Trailing {
    /// There are none.
    No,
    /// Nobody has asked the ends.
    Possible,
    /// Both ends can.
    Awaited,
    /// These, as lines of HTTP/1.
    Known(Vec<u8>),
}

/// Why a body did not arrive whole.
#[derive(Debug)]
pub enum PumpFailure {
    /// The sender's connection failed.
    Receive(io::Error),
    /// The sender closed before the end.
    CutOff,
    /// The receiver's connection failed.
    Send(io::Error),
    /// The chunks are malformed.
    Malformed(ParseError),
}

/// Bytes of a body that are kept at most: those of a buffer, as in HAProxy.
const KEPT_MAX: usize = 16_384;

/// Notes that these bytes have gone.
#[inline]
fn keep(kept: &mut Option<Vec<u8>>, bytes: &[u8]) {
    let Some(all) = kept else { return };
    if all.len() + bytes.len() <= KEPT_MAX {
        all.extend_from_slice(bytes);
    } else {
        *kept = None;
    }
}

impl BodyPump {
    /// Nobody will be sent it once more.
    #[inline]
    pub fn forget_kept(&mut self) {
        self.kept = None;
    }

    /// A body of this length. With `decode`, chunks are taken apart.
    #[must_use]
    #[inline]
    pub fn new(length: BodyLength, limits: &Limits, decode: bool) -> Self {
        // Chunks are taken apart for a receiver that does not know them (HTTP/1.0).
        let stages = (decode && length == BodyLength::Chunked).then(|| Box::new(Stages::decoding(limits)));
        Self {
            intake: Intake::new(length, limits),
            stages,
            failure: None,
            spliced: 0,
            file_waits: false,
            pipe: None,
            splice_min: 0,
            pipe_size: 0,
            trailing: if matches!(length, BodyLength::Exact(_)) { Trailing::Possible } else { Trailing::No },
            kept: None,
        }
    }

    /// Splices stretches of at least `least` bytes (0: never), through pipes of `pipe_size`.
    pub fn splice_from(&mut self, least: u64, pipe_size: usize) {
        self.splice_min = least;
        self.pipe_size = pipe_size;
    }

    /// Sends the body through `stages`. Chunks that are taken apart for the receiver still are.
    pub fn stage(&mut self, mut stages: Box<Stages>) {
        if let Some(former) = self.stages.take() {
            stages.decode_as(*former);
        }
        self.stages = Some(stages);
    }

    /// Whether it waits for a limit of bandwidth rather than for either side.
    #[must_use]
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.stages.as_ref().is_some_and(|stages| stages.is_waiting())
    }

    /// Whether the whole message has been received.
    #[must_use]
    #[inline]
    pub fn is_received(&self) -> bool {
        self.intake.has_ended()
    }

    /// Looks at what was received and not looked at before.
    ///
    /// # Errors
    /// When a chunked body is malformed.
    #[inline]
    pub fn approve(&mut self, from: &impl Source) -> Result<(), ParseError> {
        self.intake.approve(from)
    }

    /// Bytes at hand that may go on.
    #[must_use]
    #[inline]
    pub fn approved(&self) -> usize {
        self.intake.approved()
    }

    /// Bytes of the body received so far.
    #[must_use]
    #[inline]
    pub fn received(&self) -> u64 {
        self.intake.received()
    }

    /// Bytes of data received so far, as they are counted.
    #[must_use]
    #[inline]
    pub fn counted(&self) -> u64 {
        self.intake.counted()
    }

    /// Bytes of data received so far, without any framing.
    #[must_use]
    #[inline]
    pub fn data(&self) -> u64 {
        self.intake.data()
    }

    /// The same, which is counted now.
    #[inline]
    pub fn take_counted(&mut self) -> u64 {
        self.intake.take_counted()
    }

    /// Bytes received that wait for the receiver, at their source or in the pipe.
    #[must_use]
    #[inline]
    pub fn held(&self) -> usize {
        self.intake.approved() + self.pipe.as_ref().map_or(0, Splice::held) + usize::from(self.file_waits)
    }

    /// Moves approved bytes behind what `to` has to send, if they are few enough that copying them beats a second
    /// system call.
    #[inline]
    pub fn append_small(&mut self, from: &mut impl Source, to: &mut impl Sink, most: usize) {
        self.expect_trailers(from, to);
        let count = self.intake.approved();
        if self.stages.is_none() && count > 0 && count <= most {
            let bytes = self.intake.bytes(from);
            to.waiting().extend_from_slice(bytes);
            keep(&mut self.kept, bytes);
            self.intake.consume(from, count);
        }
    }

    /// Keeps what goes, from the first byte on, as long as that is little.
    pub fn keep(&mut self) {
        self.kept = self.stages.is_none().then(Vec::new);
    }

    /// What has gone, if all of it was kept. The rest goes as it would have gone.
    #[must_use]
    #[inline]
    pub fn kept(&self) -> Option<&[u8]> {
        self.kept.as_deref()
    }

    /// Begins anew to another receiver, which is given the bytes in another way.
    pub fn begin_again(&mut self, from: &impl Source, to: &mut impl Sink) {
        match self.trailing {
            Trailing::No => {}
            Trailing::Possible => self.expect_trailers(from, to),
            Trailing::Awaited | Trailing::Known(_) => {
                to.await_trailers();
            }
        }
    }

    /// Asks both ends whether trailers may follow, before the last byte has gone.
    #[inline]
    fn expect_trailers(&mut self, from: &impl Source, to: &mut impl Sink) {
        if self.trailing == Trailing::Possible {
            if !from.may_trail() {
                self.trailing = Trailing::No;
            } else if to.await_trailers() {
                self.trailing = Trailing::Awaited;
            }
        }
    }

    /// Moves trailers, once it is known whether there are any.
    fn poll_trailers(&mut self, from: &mut impl Source, to: &mut impl Sink, context: &mut Context<'_>) -> Poll<()> {
        if self.trailing == Trailing::Awaited {
            self.trailing = Trailing::Known(ready!(from.poll_trailers(context)));
        }
        if let Trailing::Known(lines) = &self.trailing {
            to.put_trailers(lines);
        }
        Poll::Ready(())
    }

    /// Drops what was approved: it goes out in another way.
    #[inline]
    pub fn discard(&mut self, from: &mut impl Source) {
        let count = self.intake.approved();
        self.intake.consume(from, count);
    }

    /// Moves what can be moved; ready once the whole message has been sent.
    #[inline]
    pub fn poll(
        &mut self,
        from: &mut impl Source,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        self.expect_trailers(from, to);
        ready!(self.poll_body(from, to, context))?;
        self.poll_trailers(from, to, context).map(Ok)
    }

    fn poll_body(
        &mut self,
        from: &mut impl Source,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        if self.stages.is_some() {
            return self.poll_staged(from, to, context);
        }
        // Nearly always: there is no body, or it was put behind its head.
        if self.intake.approved() == 0 && self.intake.has_ended() {
            return to.poll_flush(context).map_err(PumpFailure::Send);
        }
        let mut sent_of_file = 0;
        loop {
            self.intake.approve(from).map_err(PumpFailure::Malformed)?;
            if self.precedes_file(from, to, context) {
                ready!(to.poll_flush_before(context)).map_err(PumpFailure::Send)?;
            }
            if self.intake.approved() > 0 || to.unsent_len() > 0 {
                ready!(self.poll_forward(from, to, context))?;
                continue;
            }
            if self.intake.has_ended() {
                return Poll::Ready(Ok(()));
            }
            if from.received().is_empty()
                && let Some(socket) = to.plain_socket()
                && let Some(span) = ready!(from.poll_file(context)).map_err(PumpFailure::Receive)?
            {
                if sent_of_file >= FILE_TURN_BYTES {
                    // Others have their turn.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let most = usize::try_from(span.length.min(FILE_TURN_BYTES)).unwrap_or(usize::MAX);
                let sent = poll_send_file(socket, (span.file, span.offset), most, context);
                self.file_waits = sent.is_pending();
                let count = match ready!(sent) {
                    Ok(0) => return Poll::Ready(Err(PumpFailure::CutOff)),
                    Ok(count) => count as u64,
                    Err(error) => return Poll::Ready(Err(PumpFailure::Send(to.note_failure(error)))),
                };
                from.file_sent(count);
                self.intake.account(count);
                self.kept = None;
                sent_of_file += count;
                continue;
            }
            if from.received().is_empty()
                && self.wants_splice()
                && let Some(sockets) = from.plain_socket().zip(to.plain_socket())
                && self.has_pipe()
            {
                if let Some(done) = ready!(self.poll_splice(sockets, context)) {
                    return Poll::Ready(done.map_err(|failure| match failure {
                        PumpFailure::Send(error) => PumpFailure::Send(to.note_failure(error)),
                        failure => failure,
                    }));
                }
                continue;
            }
            ready!(self.intake.poll_more(from, context))?;
        }
    }

    /// Like [`BodyPump::poll`], through stages. What is ready goes out as soon as nothing more can be taken in, so nothing
    /// waits for what the sender may say later. What came before the sender failed goes out as well.
    fn poll_staged(
        &mut self,
        from: &mut impl Source,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        if self.failure.is_none() {
            match ready!(self.poll_through_stages(from, to, context)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(failed @ PumpFailure::Send(_)) => return Poll::Ready(Err(failed)),
                Err(failure) => self.failure = Some(failure),
            }
        }
        if let Some(stages) = &mut self.stages {
            stages.flush(to.waiting());
        }
        ready!(to.poll_flush(context)).map_err(PumpFailure::Send)?;
        Poll::Ready(self.failure.take().map_or(Ok(()), Err))
    }

    fn poll_through_stages(
        &mut self,
        from: &mut impl Source,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        loop {
            self.intake.approve(from).map_err(PumpFailure::Malformed)?;
            let Some(stages) = &mut self.stages else { return Poll::Ready(Ok(())) };
            let mut receives = false;
            if self.intake.approved() > 0 {
                let allowed = stages.allowance(self.intake.approved());
                let bytes = from.received().get(..allowed).unwrap_or_default();
                stages.push(bytes, to.waiting()).map_err(PumpFailure::Malformed)?;
                self.intake.consume(from, allowed);
            }
            if self.intake.approved() == 0 && self.intake.has_ended() {
                stages.finish(to.waiting());
            } else if self.intake.approved() == 0 && to.unsent_len() < GATHERED_MAX {
                match self.intake.poll_more(from, context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Pending => receives = true,
                }
            }
            stages.flush(to.waiting());
            ready!(to.poll_flush(context)).map_err(PumpFailure::Send)?;
            if self.intake.approved() == 0 && self.intake.has_ended() {
                return Poll::Ready(Ok(()));
            }
            if receives {
                return Poll::Pending;
            }
            if self.intake.approved() > 0 {
                ready!(stages.poll_pace(self.intake.approved(), context));
            }
        }
    }

    /// Whether what waits is followed at once by a stretch of a file that is in memory.
    fn precedes_file(&self, from: &mut impl Source, to: &impl Sink, context: &mut Context<'_>) -> bool {
        self.intake.approved() == 0
            && to.unsent_len() > 0
            && to.joins_what_follows()
            && from.received().is_empty()
            && matches!(from.poll_file(context), Poll::Ready(Ok(Some(_))))
    }

    /// Sends once what may go; pending only when the receiver's socket takes nothing now.
    fn poll_forward(
        &mut self,
        from: &mut impl Source,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        let bytes = self.intake.bytes(from);
        let count = ready!(to.poll_send(bytes, context)).map_err(PumpFailure::Send)?;
        keep(&mut self.kept, bytes.get(..count).unwrap_or_default());
        self.intake.consume(from, count);
        Poll::Ready(Ok(()))
    }

    /// Whether what comes next is worth splicing.
    fn wants_splice(&self) -> bool {
        self.splice_min > 0
            && (self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty()) || self.intake.unseen_max() >= self.splice_min)
    }

    fn has_pipe(&mut self) -> bool {
        if self.pipe.is_none() {
            match Splice::new(self.pipe_size) {
                Ok(pipe) => self.pipe = Some(pipe),
                // No descriptors left: the buffer serves as well.
                Err(_) => self.splice_min = 0,
            }
        }
        self.pipe.is_some()
    }

    fn poll_splice(
        &mut self,
        (from, to): (PlainSocket<'_>, PlainSocket<'_>),
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<(), PumpFailure>>> {
        self.kept = None;
        let Some(pipe) = &mut self.pipe else { return Poll::Ready(None) };
        match ready!(pipe.poll(from, to, self.intake.unseen_max(), context)) {
            Ok(Spliced::Moved(count)) => {
                // NOTE: counted when they leave the pipe; `unseen_max` then still covers those inside.
                self.intake.account(count as u64);
                self.spliced += count as u64;
                Poll::Ready(None)
            }
            Ok(Spliced::Ended) if self.intake.close() => Poll::Ready(Some(Ok(()))),
            Ok(Spliced::Ended) => Poll::Ready(Some(Err(PumpFailure::CutOff))),
            Err(CopyError::Read(error)) => Poll::Ready(Some(Err(PumpFailure::Receive(error)))),
            Err(CopyError::Write(error)) => Poll::Ready(Some(Err(PumpFailure::Send(error)))),
        }
    }
}
