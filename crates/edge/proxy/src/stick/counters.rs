//! What a request or a connection tracks, and when that is counted.

use std::{cell::RefMut, rc::Rc, sync::Arc};

use haproxycfg::model::{STICK_COUNTERS, TableIndex};
use sample::{StickAnswer, Value};
use stick::{DataType, Entry, Handle, Key, Query, Table};

use live::Tables;

use crate::{
    session::{ClientSide, Transaction},
    worker::Clock,
};

/// A tracked entry.
#[derive(Clone, Copy, Debug)]
struct Counter {
    table: TableIndex,
    handle: Handle,
    /// Whether a rule of the backend tracks it.
    of_backend: bool,
}

/// Tracked entries, whose references are given back when this is dropped.
#[derive(Debug)]
pub struct Counters {
    tables: Arc<Tables>,
    clock: Rc<Clock>,
    slots: [Option<Counter>; STICK_COUNTERS],
}

impl Counters {
    fn new(tables: Arc<Tables>, clock: Rc<Clock>) -> Self {
        Self { tables, clock, slots: [None; STICK_COUNTERS] }
    }

    fn get(&self, number: usize) -> Option<(&Arc<Table>, Counter)> {
        let counter = (*self.slots.get(number)?)?;
        Some((self.tables.get(counter.table)?, counter))
    }

    /// Works on the entry of a counter, if it is tracked.
    pub fn with<R>(&self, number: usize, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<R> {
        let (table, counter) = self.get(number)?;
        table.with(counter.handle, self.clock.milliseconds(), work)
    }

    /// Begins to track the entry of a key, which is made if need be, and works on it.
    fn track(
        &mut self,
        number: usize,
        index: TableIndex,
        key: &Key<'_>,
        of_backend: bool,
        work: impl FnOnce(&mut Entry<'_>),
    ) {
        let Some(table) = self.tables.get(index) else { return };
        let tracked = table.track(key.bytes(), self.clock.milliseconds(), |entry| {
            entry.start();
            work(entry);
        });
        if let (Some((handle, ())), Some(slot)) = (tracked, self.slots.get_mut(number)) {
            *slot = Some(Counter { table: index, handle, of_backend });
        }
    }

    /// Tracks nothing any more.
    pub fn release(&mut self) {
        for slot in &mut self.slots {
            if let Some(counter) = slot.take()
                && let Some(table) = self.tables.get(counter.table)
            {
                table.release(counter.handle, self.clock.milliseconds(), |entry| entry.stop());
            }
        }
    }

    /// Works on all entries of tables that store any of these.
    fn count(&self, stored: &[DataType], work: &impl Fn(&mut Entry<'_>)) {
        for number in 0..STICK_COUNTERS {
            if let Some((table, counter)) = self.get(number)
                && stored.iter().any(|data| table.definition().layout.stores(*data))
            {
                table.with(counter.handle, self.clock.milliseconds(), work);
            }
        }
    }

    fn answer(&self, number: usize, other: Option<&Table>, query: Query) -> StickAnswer {
        let Some((table, counter)) = self.get(number) else { return StickAnswer::NoKey };
        let now = self.clock.milliseconds();
        match other {
            None => answer(table.with(counter.handle, now, |entry| query.answer(entry))),
            Some(other) => answer(other.with_key_of(table, counter.handle, now, |entry| query.answer(entry))),
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.release();
    }
}

fn answer(found: Option<Option<i64>>) -> StickAnswer {
    match found {
        None => StickAnswer::NoEntry,
        Some(None) => StickAnswer::NotStored,
        Some(Some(value)) => StickAnswer::Value(value),
    }
}

/// What a request has to do with stick tables.
#[derive(Debug)]
pub struct Stick {
    /// What it tracks.
    pub counters: Counters,
    /// Keys under which its server is to be remembered, by table.
    pub stores: Vec<(TableIndex, Key<'static>)>,
}

impl Transaction {
    /// What it has to do with stick tables, from now on.
    pub fn stick(&self) -> RefMut<'_, Stick> {
        RefMut::map(self.stick.borrow_mut(), |stick| {
            &mut **stick.get_or_insert_with(|| {
                let counters = Counters::new(Arc::clone(&self.instance.tables), Rc::clone(&self.clock));
                Box::new(Stick { counters, stores: Vec::new() })
            })
        })
    }

    /// Whether it, or its connection, may track anything.
    fn may_track(&self) -> bool {
        self.has_tables && (self.stick.borrow().is_some() || self.client.more.get().is_some())
    }

    /// Whether the connection tracks something under this number.
    fn connection_tracks(&self, number: usize) -> bool {
        self.with_connection(|counters| counters.get(number).is_some()).unwrap_or(false)
    }

    fn with_connection<R>(&self, work: impl FnOnce(&Counters) -> R) -> Option<R> {
        let more = self.client.more.get()?;
        more.counters.borrow().as_ref().map(work)
    }

    /// Works on what is tracked under a number: by the connection, or by the request.
    pub fn with_counter<R>(&self, number: usize, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<R> {
        if self.connection_tracks(number) {
            return self.with_connection(|counters| counters.with(number, work))?;
        }
        self.stick.borrow().as_ref()?.counters.with(number, work)
    }

    /// Begins to track a key for the request. Nothing is tracked under that number yet.
    pub fn track(&self, number: usize, table: TableIndex, key: &Key<'_>, work: impl FnOnce(&mut Entry<'_>)) {
        let of_backend =
            self.route.backend.as_ref().is_some_and(|backend| !Arc::ptr_eq(backend, &self.client.frontend));
        self.stick().counters.track(number, table, key, of_backend, work);
    }

    /// Begins to track a key for the connection, unless something is tracked under that number.
    pub fn track_connection(&self, number: usize, table: TableIndex, key: &Key<'_>) {
        let more = self.client.more.get_or_init(Rc::default);
        let mut counters = more.counters.borrow_mut();
        let counters =
            counters.get_or_insert_with(|| Counters::new(Arc::clone(&self.instance.tables), Rc::clone(&self.clock)));
        if counters.get(number).is_none() {
            counters.track(number, table, key, false, |_| {});
        }
    }

    /// Whether something is tracked under a number.
    #[must_use]
    pub fn is_tracked(&self, number: usize) -> bool {
        let by_request = || self.stick.borrow().as_ref().is_some_and(|stick| stick.counters.get(number).is_some());
        self.connection_tracks(number) || by_request()
    }

    /// Does something to all that is tracked in tables that store any of these.
    fn count_all(&self, stored: &[DataType], work: impl Fn(&mut Entry<'_>)) {
        self.with_connection(|counters| counters.count(stored, &work));
        if let Some(stick) = &*self.stick.borrow() {
            stick.counters.count(stored, &work);
        }
    }

    /// Counts one event.
    fn count_event(&self, counter: DataType, rate: DataType) {
        if self.may_track() {
            self.count_all(&[counter, rate], |entry| entry.count(counter, rate, 1));
        }
    }

    /// Counts a request.
    pub fn count_tracked_request(&self) {
        self.count_event(DataType::HttpReqCnt, DataType::HttpReqRate);
    }

    /// Counts a request for what rules of the backend track since it was counted.
    pub fn count_backend_request(&self) {
        if !self.has_tables {
            return;
        }
        let stick = self.stick.borrow();
        let Some(stick) = stick.as_ref() else { return };
        for number in 0..STICK_COUNTERS {
            if stick.counters.get(number).is_some_and(|(_, counter)| counter.of_backend) {
                stick.counters.with(number, |entry| entry.count(DataType::HttpReqCnt, DataType::HttpReqRate, 1));
            }
        }
    }

    /// Counts an error of the client: what is refused, and answers of the class 4xx.
    pub fn count_tracked_error(&self) {
        self.count_event(DataType::HttpErrCnt, DataType::HttpErrRate);
    }

    /// Counts a failure of a server.
    pub fn count_tracked_failure(&self) {
        self.count_event(DataType::HttpFailCnt, DataType::HttpFailRate);
    }

    /// Counts what the status of a server's response says.
    pub fn count_tracked_status(&self, status: u16) {
        match status {
            400..=499 => self.count_tracked_error(),
            501 | 505 => {}
            500..=599 => self.count_tracked_failure(),
            _ => {}
        }
    }

    /// Counts bytes in both directions.
    pub fn count_tracked_bytes(&self) {
        if !self.may_track() {
            return;
        }
        let (bytes_in, bytes_out) = (self.bytes_in, self.bytes_out);
        let stored = [DataType::BytesInCnt, DataType::BytesInRate, DataType::BytesOutCnt, DataType::BytesOutRate];
        self.count_all(&stored, |entry| {
            if bytes_in > 0 {
                entry.count(DataType::BytesInCnt, DataType::BytesInRate, bytes_in);
            }
            if bytes_out > 0 {
                entry.count(DataType::BytesOutCnt, DataType::BytesOutRate, bytes_out);
            }
        });
    }

    /// The request is over: it tracks nothing any more.
    pub fn end_tracking(&self) {
        if let Some(stick) = &mut *self.stick.borrow_mut() {
            stick.counters.release();
            stick.stores.clear();
        }
    }

    /// What a tracked counter says, or of its key another table.
    pub(crate) fn counter_answer(&self, number: u32, table: Option<&str>, query: Query) -> StickAnswer {
        let other = match table.map(|name| self.instance.tables.named(name)) {
            None => None,
            Some(None) => return StickAnswer::NoKey,
            Some(Some(other)) => Some(&**other),
        };
        let number = number as usize;
        if self.connection_tracks(number) {
            let answer = self.with_connection(|counters| counters.answer(number, other, query));
            return answer.unwrap_or(StickAnswer::NoKey);
        }
        let stick = self.stick.borrow();
        stick.as_ref().map_or(StickAnswer::NoKey, |stick| stick.counters.answer(number, other, query))
    }

    /// What a table says of a value.
    pub(crate) fn value_answer(&self, value: Value<'_>, table: Option<&str>, query: Query, makes: bool) -> StickAnswer {
        let Some(table) = table.and_then(|name| self.instance.tables.named(name)) else { return StickAnswer::NoKey };
        let definition = table.definition();
        let Some(key) = sample::stick_key(value, definition.key, definition.key_len) else { return StickAnswer::NoKey };
        let now = self.clock.milliseconds();
        let found = if makes {
            table.find_or_make(key.bytes(), now, |entry| query.answer(entry))
        } else {
            table.find(key.bytes(), now, |entry| query.answer(entry))
        };
        answer(found)
    }
}

impl ClientSide {
    /// Counts the session for what the connection tracks.
    pub fn count_tracked_session(&self) {
        let Some(more) = self.more.get() else { return };
        let counters = more.counters.borrow();
        let Some(counters) = counters.as_ref() else { return };
        for number in 0..STICK_COUNTERS {
            // As in HAProxy this does not make the entry live longer.
            counters.with(number, |entry| entry.add(DataType::SessCnt, DataType::SessRate, 1));
        }
    }
}
