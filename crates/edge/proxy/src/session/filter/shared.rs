//! A limit of bandwidth that all streams with the same key share, by a rate in a stick table.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use stick::{Handle, Key, Limit, Table};

use crate::worker::Clock;

/// An entry that a stream's limit refers to; given back when nobody needs it any more.
#[derive(Debug)]
pub struct Entry {
    table: Arc<Table>,
    handle: Handle,
    clock: Rc<Clock>,
}

impl Entry {
    /// The entry of a key, which is made if there is none; none when the table is full.
    #[must_use]
    pub fn of(table: &Arc<Table>, key: &Key<'_>, clock: &Rc<Clock>) -> Option<Rc<Self>> {
        let (handle, ()) = table.track(key.bytes(), clock.milliseconds(), |entry| entry.touch())?;
        Some(Rc::new(Self { table: Arc::clone(table), handle, clock: Rc::clone(clock) }))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.release(self.handle, self.clock.milliseconds(), |entry| entry.touch());
    }
}

/// One stream's part of the limit.
#[derive(Debug)]
pub struct SharedLimiter {
    entry: Rc<Entry>,
    limit: Limit,
    /// Nothing goes before.
    until: Option<Instant>,
}

impl SharedLimiter {
    /// The part of a stream that refers to `entry`.
    #[must_use]
    pub fn new(entry: Rc<Entry>, limit: Limit) -> Self {
        Self { entry, limit, until: None }
    }

    /// How many of `waiting` bytes may go now; 0 when it has to be waited until [`SharedLimiter::ready_at`].
    pub fn allowance(&mut self, waiting: usize, now: Instant) -> usize {
        if self.until.is_some_and(|until| now < until) {
            return 0;
        }
        let Entry { table, handle, clock } = &*self.entry;
        let share = table.with(*handle, clock.milliseconds(), |entry| entry.share(&self.limit, waiting as u64));
        let Some(share) = share else { return waiting };
        self.until = (share.wait_ms > 0).then(|| now + Duration::from_millis(share.wait_ms));
        usize::try_from(share.now).unwrap_or(usize::MAX)
    }

    /// Takes bytes that went into account.
    pub fn spend(&mut self, bytes: usize) {
        let Entry { table, handle, clock } = &*self.entry;
        table.with(*handle, clock.milliseconds(), |entry| entry.spend(&self.limit, bytes as u64));
    }

    /// When bytes may go again.
    #[must_use]
    pub fn ready_at(&self) -> Option<Instant> {
        self.until
    }
}
