//! Gathers the lines of one turn of the event loop and sends them together.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io::IoSlice,
    net::SocketAddr,
    os::fd::OwnedFd,
    rc::Rc,
    sync::{Arc, Weak},
    task::{Poll, Waker},
    time::SystemTime,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags, SocketType, ipproto},
};

use super::{
    dates::Dates,
    line::LogLine,
    loss::Loss,
    message::Message,
    output::{Output, Outputs},
    targets::{LogTargets, Target},
};

/// Lines that wait for one output before they are sent in any case.
const BATCH_LINES_MAX: usize = 32;
/// Bytes that wait for one output before they are sent in any case.
const BATCH_BYTES_MAX: usize = 16 * 1024;

/// Sends lines; each thread has its own.
#[derive(Debug)]
pub struct LogSender {
    outputs: Arc<Outputs>,
    dates: Dates,
    sockets: UdpSockets,
    batches: Vec<Batch>,
}

/// Lines that wait for one output.
#[derive(Debug)]
struct Batch {
    /// Gone when the configuration that named it is.
    output: Weak<Output>,
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl LogSender {
    /// A sender without lines.
    #[must_use]
    pub fn new(outputs: Arc<Outputs>) -> Self {
        Self { outputs, dates: Dates::default(), sockets: UdpSockets::default(), batches: Vec::new() }
    }

    /// Queues a line for every target that takes its level; full batches are sent at once, the others by
    /// [`LogSender::flush`].
    pub fn queue(&mut self, targets: &LogTargets, line: &LogLine<'_>, now: SystemTime) {
        if targets.is_empty() {
            return;
        }
        self.queue_with(targets, line.level as u8, now, |target, level, dates, out| {
            target.header.write(out, line, level, dates, target.form.bytes_max);
        });
    }

    /// Queues a line of someone else. One without a level goes to all targets.
    pub(super) fn queue_message(&mut self, targets: &LogTargets, message: &Message<'_>, now: SystemTime) {
        let level = message.priority.map_or(0, |(_, level)| level);
        self.queue_with(targets, level, now, |target, level, dates, out| {
            message.write(out, &target.form, level, dates);
        });
    }

    fn queue_with(
        &mut self,
        targets: &LogTargets,
        level: u8,
        now: SystemTime,
        write: impl Fn(&Target, u8, &Dates, &mut Vec<u8>),
    ) {
        self.dates.set(now);
        for (target, level) in targets.for_level(level) {
            let place = self.batches.iter().position(|batch| batch.output.as_ptr() == Arc::as_ptr(&target.output));
            let index = place.unwrap_or_else(|| {
                self.batches.push(Batch {
                    output: Arc::downgrade(&target.output),
                    bytes: Vec::new(),
                    ends: Vec::new(),
                });
                self.batches.len() - 1
            });
            let Some(batch) = self.batches.get_mut(index) else { continue };
            write(target, level, &self.dates, &mut batch.bytes);
            batch.ends.push(batch.bytes.len());
            if batch.ends.len() >= BATCH_LINES_MAX || batch.bytes.len() >= BATCH_BYTES_MAX {
                batch.send(&mut self.sockets, &self.outputs);
            }
        }
    }

    /// Whether lines wait.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.batches.iter().any(|batch| !batch.ends.is_empty())
    }

    /// Sends what waits.
    pub fn flush(&mut self) {
        for batch in &mut self.batches {
            batch.send(&mut self.sockets, &self.outputs);
        }
        self.batches.retain(|batch| batch.output.strong_count() > 0);
    }
}

impl Drop for LogSender {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Batch {
    fn lines(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| self.bytes.get(std::mem::replace(&mut start, *end)..*end).unwrap_or_default())
    }

    fn send(&mut self, sockets: &mut UdpSockets, outputs: &Outputs) {
        if self.ends.is_empty() {
            return;
        }
        let output = self.output.upgrade();
        let loss = match output.as_deref() {
            Some(Output::Udp(address)) => sockets.send(*address, self.lines()),
            Some(Output::Unix(socket)) => socket.send(self.lines()),
            Some(Output::Descriptor(descriptor)) => descriptor.write(&self.bytes, &self.ends),
            Some(Output::File(file)) => file.write(&self.bytes, &self.ends),
            Some(Output::Ring(ring)) => Loss { dropped: ring.write(self.lines()), ..Loss::default() },
            Some(Output::Nowhere) | None => {
                let mut loss = Loss::default();
                loss.fail(self.ends.len() as u64, Errno::NODEV.into());
                loss
            }
        };
        outputs.count(loss, output.as_deref());
        self.bytes.clear();
        self.ends.clear();
    }
}

/// A socket for each family, opened when the first line needs it.
#[derive(Debug, Default)]
struct UdpSockets {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
}

impl UdpSockets {
    fn send<'a>(&mut self, address: SocketAddr, lines: impl ExactSizeIterator<Item = &'a [u8]>) -> Loss {
        let mut loss = Loss::default();
        let (slot, family) = match address {
            SocketAddr::V4(_) => (&mut self.v4, AddressFamily::INET),
            SocketAddr::V6(_) => (&mut self.v6, AddressFamily::INET6),
        };
        if slot.is_none() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP)) {
                Ok(socket) => *slot = Some(socket),
                Err(error) => {
                    loss.fail(lines.len() as u64, error.into());
                    return loss;
                }
            }
        }
        let Some(socket) = slot.as_ref() else { return loss };
        let address = SocketAddrAny::from(address);
        let slices: Vec<[IoSlice<'_>; 1]> = lines.map(|line| [IoSlice::new(line)]).collect();
        let mut controls: Vec<_> = slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<_> = slices
            .iter()
            .zip(&mut controls)
            .map(|(slice, control)| MMsgHdr::new_with_addr(&address, slice, control))
            .collect();
        let mut sent = 0;
        while let Some(rest) = messages.get_mut(sent..).filter(|rest| !rest.is_empty()) {
            let left = rest.len() as u64;
            match rustix::net::sendmmsg(socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(0) | Err(Errno::AGAIN | Errno::NOBUFS) => {
                    loss.dropped += left;
                    return loss;
                }
                Ok(count) => sent += count,
                // Too long for a datagram: the others may fit.
                Err(error @ Errno::MSGSIZE) => {
                    loss.fail(1, error.into());
                    sent += 1;
                }
                Err(error) => {
                    loss.fail(left, error.into());
                    return loss;
                }
            }
        }
        loss
    }
}

/// A worker's sender, with a task that sends what a turn of the event loop has gathered. Clones are the same sender.
#[derive(Clone, Debug)]
pub struct WorkerLog(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    sender: RefCell<LogSender>,
    flusher: RefCell<Option<Waker>>,
    /// Whether the flusher has been woken and has not run yet.
    woken: Cell<bool>,
}

impl WorkerLog {
    /// A sender; [`WorkerLog::run`] is to be spawned beside it.
    #[must_use]
    pub fn new(outputs: Arc<Outputs>) -> Self {
        Self(Rc::new(Inner {
            sender: RefCell::new(LogSender::new(outputs)),
            flusher: RefCell::new(None),
            woken: Cell::new(false),
        }))
    }

    /// Sends a line to the targets that take its level, at the end of this turn of the event loop.
    pub fn send(&self, targets: &LogTargets, line: &LogLine<'_>, now: SystemTime) {
        let mut sender = self.0.sender.borrow_mut();
        sender.queue(targets, line, now);
        if sender.is_waiting() && !self.0.woken.get() {
            match &*self.0.flusher.borrow() {
                Some(flusher) => {
                    self.0.woken.set(true);
                    flusher.wake_by_ref();
                }
                // Nobody will do it later.
                None => sender.flush(),
            }
        }
    }

    /// Sends what waits, now: before the worker ends.
    pub fn flush(&self) {
        self.0.sender.borrow_mut().flush();
    }

    /// Sends what each turn of the event loop has gathered: the task woken by the first line runs after the tasks that
    /// were ready then, so it finds the lines of all of them. Never ends.
    pub async fn run(self) {
        poll_fn::<(), _>(|context| {
            let mut flusher = self.0.flusher.borrow_mut();
            if !flusher.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *flusher = Some(context.waker().clone());
            }
            drop(flusher);
            self.0.woken.set(false);
            self.flush();
            Poll::Pending
        })
        .await;
    }
}
