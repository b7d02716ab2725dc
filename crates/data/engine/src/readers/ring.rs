//! One thread that looks up many records at once: it asks the kernel for all that they need in one call (io_uring), and goes on with
//! whichever comes first. A read costs a third of the CPU time that it takes in a thread of its own.
//!
//! What cannot be done so is handed to the threads that wait for their reads: large blocks, files whose index is not to be seen,
//! and whatever went wrong, which they meet again and report.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use io_uring::{IoUring, opcode, types::Fd};
use rustix::event::{EventfdFlags, eventfd};

use super::{Answer, Done, Request, Shared};
use crate::writer::guarded;
use crate::{Engine, Key, Lookup, Piece, Step};

/// How many reads are under way at most: more make a disk no faster.
const READS_MAX: usize = 64;
/// The longest piece that is read here: there may be as many in memory as reads under way.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// What says that the bell has rung; other numbers are those of slots.
const BELL: u64 = u64::MAX;
/// How long the kernel is left alone when it has no memory for a call.
const PAUSE: Duration = Duration::from_millis(1);

/// What buffers are aligned to, for reads that want it.
const PAGE: usize = 4096;

/// The thread, and what waits for it.
pub(super) struct Ring {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

/// A lookup that waits to begin.
struct Waiter {
    key: Key,
    /// Whether its neighbours are likely to be wanted too.
    keeps: bool,
    done: Done,
}

struct Waiting {
    requests: Mutex<VecDeque<Waiter>>,
    /// The thread is about to wait for the kernel: who has something for it rings.
    is_asleep: AtomicBool,
    is_stopping: AtomicBool,
    bell: OwnedFd,
}

impl Waiting {
    fn requests(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // It fails only at a count that no number of rings reaches.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl Ring {
    /// Starts the thread, named `read-ring`. Fails where the kernel has no io_uring or does not allow it.
    pub(super) fn start(engine: &Arc<dyn Engine>, shared: &Arc<Shared>) -> io::Result<Self> {
        let entries = (READS_MAX * 2) as u32;
        // Fails at once if it is not allowed; the thread makes one of its own, as only one may use it.
        IoUring::new(entries)?;
        let waiting = Arc::new(Waiting {
            requests: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let (engine, shared, theirs) = (Arc::clone(engine), Arc::clone(shared), Arc::clone(&waiting));
        let run = move || match Reading::new(entries, engine, shared, theirs) {
            Ok(mut reading) => reading.run(),
            Err((waiting, shared)) => hand_over_all(&waiting, &shared),
        };
        let thread = std::thread::Builder::new().name("read-ring".to_owned()).spawn(run)?;
        Ok(Self { waiting, thread: Some(thread) })
    }

    /// Queues a lookup. It may begin only after [`flush`](Self::flush).
    pub(super) fn submit(&self, key: Key, done: Done, requests_max: usize) -> Result<(), (Key, Done)> {
        let mut requests = self.waiting.requests();
        if requests.len() >= requests_max {
            return Err((key, done));
        }
        requests.push_back(Waiter { key, keeps: false, done });
        Ok(())
    }

    /// Queues a lookup of a record whose neighbours are likely to be wanted too, however many wait.
    pub(super) fn push(&self, key: Key, done: Done) {
        self.waiting.requests().push_back(Waiter { key, keeps: true, done });
    }

    /// Wakes the thread, if it sleeps and there is something to do.
    pub(super) fn flush(&self) {
        if !self.waiting.requests().is_empty() {
            self.waiting.ring();
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.requests().len()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.waiting.is_stopping.store(true, Ordering::SeqCst);
        self.waiting.ring();
        if let Some(thread) = self.thread.take() {
            // Panics of the engine are caught; one of a callback has been printed.
            let _ = thread.join();
        }
    }
}

/// A lookup whose piece is being read.
struct Flight {
    lookup: Box<dyn Lookup>,
    key: Key,
    done: Done,
    piece: Piece,
}

/// Bytes that begin at a page of memory.
#[derive(Default, Clone)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// Room for so many bytes.
    fn reserve(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < self.start + len {
            self.bytes = vec![0; len.next_multiple_of(PAGE) + PAGE];
            let address = self.bytes.as_ptr().addr();
            self.start = address.next_multiple_of(PAGE) - address;
        }
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    fn filled(&self, part: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(self.start..)?.get(part)
    }
}

/// What the thread has.
struct Reading {
    ring: IoUring,
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    waiting: Arc<Waiting>,
    flights: Vec<Option<Flight>>,
    /// Where the kernel writes: one for each slot. IMPORTANT: none is moved or freed while its flight is under way.
    buffers: Vec<Buffer>,
    free: Vec<usize>,
    /// Where the bell's count is read to, and whether that is under way.
    count: Box<[u8; 8]>,
    is_bell_watched: bool,
}

impl Reading {
    fn new(
        entries: u32,
        engine: Arc<dyn Engine>,
        shared: Arc<Shared>,
        waiting: Arc<Waiting>,
    ) -> Result<Self, (Arc<Waiting>, Arc<Shared>)> {
        // Completions are handled when this thread asks for them, not whenever the kernel has one (Linux 6.1).
        let quiet = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let Ok(ring) = quiet.or_else(|_| IoUring::new(entries)) else { return Err((waiting, shared)) };
        Ok(Self {
            ring,
            engine,
            shared,
            waiting,
            flights: (0..READS_MAX).map(|_| None).collect(),
            buffers: vec![Buffer::default(); READS_MAX],
            free: (0..READS_MAX).collect(),
            count: Box::default(),
            is_bell_watched: false,
        })
    }

    fn run(&mut self) {
        let mut completions = Vec::with_capacity(READS_MAX + 1);
        loop {
            self.begin();
            let is_idle = self.free.len() == READS_MAX;
            if is_idle && self.waiting.is_stopping.load(Ordering::SeqCst) && self.waiting.requests().is_empty() {
                return;
            }
            self.watch_bell();
            self.waiting.is_asleep.store(true, Ordering::SeqCst);
            // Whoever came before that did not ring.
            let has_work = !self.free.is_empty() && !self.waiting.requests().is_empty();
            let is_over = is_idle && self.waiting.is_stopping.load(Ordering::SeqCst);
            let wanted = usize::from(!has_work && !is_over);
            let waited = self.ring.submit_and_wait(wanted);
            self.waiting.is_asleep.store(false, Ordering::SeqCst);
            if let Err(error) = waited
                && error.kind() != io::ErrorKind::Interrupted
            {
                std::thread::sleep(PAUSE);
            }
            completions.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            for (slot, result) in completions.drain(..) {
                match usize::try_from(slot) {
                    Ok(slot) if slot < READS_MAX => self.land(slot, result),
                    _ => self.is_bell_watched = false,
                }
            }
        }
    }

    /// Begins as many lookups as there are slots.
    fn begin(&mut self) {
        while !self.free.is_empty() {
            let Some(Waiter { key, keeps, done }) = self.waiting.requests().pop_front() else { return };
            match self.engine.lookup(&key, keeps) {
                Some(lookup) => self.step(lookup, key, done, None),
                None => self.hand_over(key, done),
            }
        }
    }

    /// Has a lookup go on, with the bytes in a slot's buffer that it asked for.
    fn step(&mut self, mut lookup: Box<dyn Lookup>, key: Key, done: Done, read: Option<(usize, Range<usize>)>) {
        let bytes = read.as_ref().and_then(|(slot, part)| self.buffers.get(*slot)?.filled(part.clone()));
        let step = guarded(|| lookup.step(bytes));
        if let Some((slot, _)) = read {
            self.free.push(slot);
        }
        match step {
            Ok(Step::Found(value)) => done(Answer::Get(Ok(value))),
            Ok(Step::Read(piece)) if (1..=PIECE_BYTES_MAX).contains(&piece.len) => {
                self.read(Flight { lookup, key, done, piece });
            }
            // A panic is one of the engine; it would panic again.
            Err(error @ crate::Error::Broken(_)) => done(Answer::Get(Err(error))),
            Ok(Step::Read(_) | Step::Waits) | Err(_) => self.hand_over(key, done),
        }
    }

    /// Has the kernel read what a lookup needs, with the next call.
    fn read(&mut self, flight: Flight) {
        let Some(slot) = self.free.pop() else { return self.hand_over(flight.key, flight.done) };
        let Some(buffer) = self.buffers.get_mut(slot) else { return self.hand_over(flight.key, flight.done) };
        let (from, len, _) = flight.piece.span();
        let file = Fd(flight.piece.file.as_raw_fd());
        // No longer than PIECE_BYTES_MAX and two pages.
        let entry = opcode::Read::new(file, buffer.reserve(len).as_mut_ptr(), len as u32).offset(from);
        let entry = entry.build().user_data(slot as u64);
        #[expect(unsafe_code, reason = "the kernel is told where to write")]
        // SAFETY: the buffer is the slot's own, which is neither moved nor freed nor used before the completion has come, and the
        // flight keeps the file open: the slot is taken until then, and dropping this waits for it.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match (pushed, self.flights.get_mut(slot)) {
            (Ok(()), Some(place)) => *place = Some(flight),
            // There is room for more than there are slots.
            _ => {
                self.free.push(slot);
                self.hand_over(flight.key, flight.done);
            }
        }
    }

    /// Goes on with a lookup whose piece has been read.
    fn land(&mut self, slot: usize, result: i32) {
        let Some(flight) = self.flights.get_mut(slot).and_then(Option::take) else { return };
        let Flight { lookup, key, done, piece } = flight;
        let (.., part) = piece.span();
        // A read that is aligned may end where the file does.
        if usize::try_from(result).is_ok_and(|len| len >= part.end) {
            self.step(lookup, key, done, Some((slot, part)));
        } else {
            self.free.push(slot);
            self.hand_over(key, done);
        }
    }

    /// Has the kernel say when somebody rings.
    fn watch_bell(&mut self) {
        if self.is_bell_watched {
            return;
        }
        let bell = Fd(self.waiting.bell.as_fd().as_raw_fd());
        let entry = opcode::Read::new(bell, self.count.as_mut_ptr(), 8).build().user_data(BELL);
        #[expect(unsafe_code, reason = "the kernel is told where to write")]
        // SAFETY: the eight bytes are this thread's own and nobody else's before the completion has come; dropping this waits for it.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        self.is_bell_watched = pushed.is_ok();
    }

    fn hand_over(&self, key: Key, done: Done) {
        self.shared.push(Request::Get(key), done);
    }
}

/// The ring could not be made after all: what waits for it, and whatever comes, is the other threads'.
fn hand_over_all(waiting: &Waiting, shared: &Shared) {
    loop {
        while let Some(Waiter { key, done, .. }) = { waiting.requests().pop_front() } {
            shared.push(Request::Get(key), done);
        }
        if waiting.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        waiting.is_asleep.store(true, Ordering::SeqCst);
        if waiting.requests().is_empty() && !waiting.is_stopping.load(Ordering::SeqCst) {
            let _ = rustix::io::read(&waiting.bell, &mut [0; 8]);
        }
        waiting.is_asleep.store(false, Ordering::SeqCst);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // IMPORTANT: the kernel writes into buffers until it has said that it does not.
        self.waiting.is_asleep.store(true, Ordering::SeqCst);
        self.waiting.ring();
        while self.is_bell_watched || self.flights.iter().any(Option::is_some) {
            if self.ring.submit_and_wait(1).is_err() {
                std::thread::sleep(PAUSE);
            }
            let landed: Vec<u64> = self.ring.completion().map(|entry| entry.user_data()).collect();
            for slot in landed {
                match usize::try_from(slot).ok().and_then(|slot| self.flights.get_mut(slot)) {
                    Some(flight) => *flight = None,
                    None => self.is_bell_watched = false,
                }
            }
        }
    }
}
