//! What two threads leave for each other, and how they wake one another.
//!
//! Each direction has one [`Mailbox`] with one batch in it. Whoever leaves something puts his batch in and gets the emptied one
//! of the other back, so buffers go round and nothing is allocated for a command. Whoever has nothing to do says that he goes
//! to sleep, looks into his mailboxes once more, and sleeps if they are empty; whoever leaves something wakes him only then.
//!
//! IMPORTANT: the order is what keeps a wake-up from being lost. The sleeper stores `asleep` and then takes the lock of the
//! mailbox; the other takes that lock, leaves the batch, lets go of it and then loads `asleep`. Whichever had the lock first,
//! the other sees what he did before: the batch is found, or `asleep` is.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use commands::SessionId;
use mio::Waker;

/// An emptied batch keeps buffers up to this.
const CAPACITY_KEPT: usize = 1024 * 1024;

/// Events of sessions in their order, with their bytes one after another.
#[derive(Debug)]
pub struct Batch<E> {
    events: VecDeque<(SessionId, E)>,
    bytes: Vec<u8>,
    /// How many bytes have been taken out.
    taken: usize,
    /// The number of the batch, or of the one that was run last.
    pub number: u64,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Self { events: VecDeque::new(), bytes: Vec::new(), taken: 0, number: 0 }
    }
}

impl<E> Batch<E> {
    /// Adds an event whose bytes follow those of the ones before.
    pub fn push(&mut self, session: SessionId, event: E, bytes: &[u8]) {
        self.events.push_back((session, event));
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next event.
    pub fn next(&mut self) -> Option<(SessionId, E)> {
        let next = self.events.pop_front();
        if next.is_none() {
            self.clear();
        }
        next
    }

    /// Takes the bytes of the event that was taken.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.taken;
        self.taken += len;
        self.bytes.get(from..self.taken).unwrap_or_default()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many bytes there are that have not been taken.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len() - self.taken.min(self.bytes.len())
    }

    fn clear(&mut self) {
        self.taken = 0;
        self.bytes.clear();
        self.bytes.shrink_to(CAPACITY_KEPT);
    }

    /// Takes over all of another, which nothing has been taken out of.
    fn append(&mut self, other: &mut Self) {
        self.events.append(&mut other.events);
        self.bytes.extend_from_slice(&other.bytes);
        self.number = other.number;
        other.clear();
    }
}

#[derive(Debug)]
struct Slot<E> {
    batch: Batch<E>,
    /// There is something in it.
    is_full: bool,
    /// There was too much for more: whoever leaves batches wants to know when this one has been taken.
    wants_room: bool,
}

/// Where one thread leaves a batch for another.
#[derive(Debug)]
pub struct Mailbox<E>(Mutex<Slot<E>>);

impl<E> Default for Mailbox<E> {
    fn default() -> Self {
        Self(Mutex::new(Slot { batch: Batch::default(), is_full: false, wants_room: false }))
    }
}

impl<E> Mailbox<E> {
    fn slot(&self) -> MutexGuard<'_, Slot<E>> {
        // What it guards is whole between statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a batch, which is empty then; with what is there already if that is at most so many bytes. Returns whether it was.
    pub fn leave(&self, batch: &mut Batch<E>, len_max: usize) -> bool {
        let mut slot = self.slot();
        if !slot.is_full {
            std::mem::swap(&mut slot.batch, batch);
            slot.is_full = true;
        } else if slot.batch.bytes_len() <= len_max {
            slot.batch.append(batch);
        } else {
            slot.wants_room = true;
            return false;
        }
        true
    }

    /// Takes what is there in exchange for an empty batch. Returns nothing if nothing is, and whether the other waits for room.
    pub fn take(&self, batch: &mut Batch<E>) -> Option<bool> {
        let mut slot = self.slot();
        if !slot.is_full {
            return None;
        }
        slot.is_full = false;
        std::mem::swap(&mut slot.batch, batch);
        Some(std::mem::take(&mut slot.wants_room))
    }

    /// Whether something is there.
    pub fn is_full(&self) -> bool {
        self.slot().is_full
    }
}

/// Wakes a thread that sleeps in its poll.
#[derive(Debug)]
pub struct Alarm {
    asleep: AtomicBool,
    waker: Arc<Waker>,
}

impl Alarm {
    /// One for a thread that does not sleep.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { asleep: AtomicBool::new(false), waker }
    }

    /// The thread goes to sleep. It has to look into its mailboxes after this, and must not sleep if there is something.
    pub fn set(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The thread does not sleep.
    pub fn unset(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Something was left for the thread: wakes it if it sleeps.
    pub fn ring(&self) -> io::Result<()> {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use mio::{Events, Poll, Token};

    use super::*;

    #[test]
    fn batches_go_round_in_order() {
        let mailbox = Mailbox::default();
        let (mut mine, mut theirs) = (Batch::default(), Batch::default());
        assert_eq!(mailbox.take(&mut theirs), None);
        for (number, text) in [(1, "one"), (2, "two!")] {
            mine.push(SessionId(number), text.len(), text.as_bytes());
            mine.number = number;
            assert!(mailbox.leave(&mut mine, 3));
            assert!(mine.is_empty() && mine.bytes_len() == 0);
        }
        mine.push(SessionId(3), 0, b"");
        assert!(!mailbox.leave(&mut mine, 6), "seven bytes are there");
        assert_eq!(mailbox.take(&mut theirs), Some(true));
        assert_eq!(theirs.number, 2);
        let mut found = Vec::new();
        while let Some((session, len)) = theirs.next() {
            found.push((session.0, theirs.take(len).to_vec()));
        }
        assert_eq!(found, [(1, b"one".to_vec()), (2, b"two!".to_vec())]);
        assert!(mailbox.leave(&mut mine, 6));
        assert_eq!(mailbox.take(&mut theirs), Some(false));
        assert_eq!(theirs.next(), Some((SessionId(3), 0)));
    }

    struct Side {
        poll: Poll,
        own: Arc<Alarm>,
        other: Arc<Alarm>,
        inbox: Arc<Mailbox<u64>>,
        outbox: Arc<Mailbox<u64>>,
    }

    impl Side {
        /// Waits as lanes do. A wake-up that is lost shows as a sleep without an end.
        fn receive(&mut self, batch: &mut Batch<u64>) {
            const PATIENCE: Duration = Duration::from_secs(30);
            let mut events = Events::with_capacity(8);
            loop {
                if self.inbox.take(batch).is_some() {
                    return;
                }
                self.own.set();
                if !self.inbox.is_full() {
                    self.poll.poll(&mut events, Some(PATIENCE)).unwrap();
                    assert!(!events.is_empty(), "nobody woke it");
                }
                self.own.unset();
            }
        }

        fn send(&mut self, batch: &mut Batch<u64>) {
            assert!(self.outbox.leave(batch, usize::MAX));
            self.other.ring().unwrap();
        }
    }

    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u64 = 30_000;
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        let alarms =
            polls.each_ref().map(|poll| Arc::new(Alarm::new(Arc::new(Waker::new(poll.registry(), Token(0)).unwrap()))));
        let boxes = [Arc::new(Mailbox::default()), Arc::new(Mailbox::default())];
        let side = |poll, own: usize| Side {
            poll,
            own: Arc::clone(&alarms[own]),
            other: Arc::clone(&alarms[1 - own]),
            inbox: Arc::clone(&boxes[own]),
            outbox: Arc::clone(&boxes[1 - own]),
        };
        let [first, second] = polls;
        let (mut near, mut far) = (side(first, 0), side(second, 1));
        let echo = thread::Builder::new().name("echo".into()).spawn(move || {
            let (mut inbox, mut outbox) = (Batch::default(), Batch::default());
            let mut last = 0;
            while last < ROUNDS {
                far.receive(&mut inbox);
                while let Some((session, number)) = inbox.next() {
                    last = number;
                    outbox.push(session, number, b"");
                }
                far.send(&mut outbox);
            }
        });
        let (mut inbox, mut outbox) = (Batch::default(), Batch::default());
        let (mut sent, mut back) = (0, 0);
        while back < ROUNDS {
            // Sometimes several are on their way, mostly one: then both go to sleep each time.
            while sent < ROUNDS && sent <= back + sent % 3 {
                sent += 1;
                outbox.push(SessionId(sent), sent, b"");
                near.send(&mut outbox);
            }
            near.receive(&mut inbox);
            while let Some((session, number)) = inbox.next() {
                back += 1;
                assert_eq!((session.0, number), (back, back));
            }
        }
        echo.unwrap().join().unwrap();
    }
}
