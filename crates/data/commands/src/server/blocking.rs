//! Clients that wait for keys.
//!
//! A command that finds nothing asks its session to [`block`](crate::Session::block). When one of its keys has changed, the
//! same command is run again, looking at [that key](crate::Session::ready_key) alone, first come, first served, until it no
//! longer blocks. So a blocking command is written like any other, and all types wait in the same way.
//!
//! Keys become ready in the order in which they changed, and only when the command that changed them, or the whole
//! transaction, is over. What a command that is served changes itself makes keys ready in turn. A client waits for a type,
//! which the group of its command says: a key of another type does not wake it. As long as a key is there, the next one in
//! its queue is served. Those who wait for streams are woken whatever became of the key: their groups vanish with it.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use keyspace::{Bytes, Millis, Value, bytes::heap_bytes, value::queue::time};
use resp::Reply;

use crate::{
    Session, SessionId,
    pubsub::fit,
    session::{Close, Retry},
};

use super::{Command, Server, Shared, Table};

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    List,
    SortedSet,
    Stream,
    /// A queue that may have a message to give.
    Message,
    /// A queue that may have room.
    Room,
    Anything,
}

/// What a key has for those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offer {
    of: Awaited,
    /// Of a queue: it may have a message to give, and room.
    gives: bool,
    has_room: bool,
    /// When it may have one that it does not have now.
    next: Option<Millis>,
}

impl Awaited {
    fn by(command: Option<&Command>, words: &[Bytes]) -> Self {
        let is_push = || words.get(1).is_some_and(|name| name.eq_ignore_ascii_case(b"PUSH"));
        match command.map(|command| command.group) {
            Some("queue") if is_push() => Self::Room,
            Some("queue") => Self::Message,
            Some("list") => Self::List,
            Some("sorted-set") => Self::SortedSet,
            Some("stream") => Self::Stream,
            _ => Self::Anything,
        }
    }

    fn is(self, value: Option<Offer>) -> bool {
        match self {
            Self::List | Self::SortedSet => value.is_some_and(|offer| offer.of == self),
            Self::Message => value.is_some_and(|offer| offer.gives),
            // A queue that is gone has room for all.
            Self::Room => value.is_none_or(|offer| offer.has_room),
            // Whoever waits in a group is to learn that it has gone with its stream.
            Self::Stream | Self::Anything => true,
        }
    }

    fn of(value: &Value, now: Millis) -> Offer {
        let plain = |of| Offer { of, gives: false, has_room: false, next: None };
        match value {
            Value::List(_) => plain(Self::List),
            Value::SortedSet(_) => plain(Self::SortedSet),
            Value::Stream(_) => plain(Self::Stream),
            Value::Queue(queue) => {
                let header = queue.header();
                Offer {
                    of: Self::Anything,
                    gives: header.may_give(time(now)),
                    has_room: header.has_room(1, 1),
                    next: queue.next_due(now),
                }
            }
            // Whoever waits for a queue is to learn that the key is something else now.
            _ => Offer { of: Self::Anything, gives: true, has_room: true, next: None },
        }
    }
}

/// What a key that somebody waits for takes in the session's list and in the table of all, with the least that a tree takes.
const QUEUE_BYTES: usize =
    2 * size_of::<(usize, Bytes)>() + size_of::<Queue>() + 11 * size_of::<(u64, SessionId, Awaited)>();

/// Who waits for a key.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By order, the first one first.
    waiters: BTreeMap<u64, (SessionId, Awaited)>,
    /// How many of them want to know even if the key is gone.
    keen: usize,
}

impl Queue {
    fn insert(&mut self, order: u64, id: SessionId, awaited: Awaited) {
        if self.waiters.insert(order, (id, awaited)).is_none() {
            self.keen += usize::from(awaited.is(None));
        }
    }

    fn remove(&mut self, order: u64) {
        if let Some((_, awaited)) = self.waiters.remove(&order) {
            self.keen -= usize::from(awaited.is(None));
        }
    }

    /// The first one behind `after` whom a key with such a value interests.
    fn next(&self, after: u64, value: Option<Offer>) -> Option<(u64, SessionId)> {
        if value.is_none() && self.keen == 0 {
            return None;
        }
        let mut behind = self.waiters.range((Excluded(after), Unbounded));
        behind.find(|(_, (_, awaited))| awaited.is(value)).map(|(order, (id, _))| (*order, *id))
    }
}

fn awaited_by(table: &Table, words: &[Bytes]) -> Awaited {
    Awaited::by(words.first().and_then(|name| table.by_name(name)).map(|found| found.command), words)
}

impl Shared {
    /// Puts a session into the queues of the keys that it waits for.
    pub(super) fn wait(&mut self, session: &mut Session) {
        let Some(blocked) = &mut session.blocked else { return };
        let deadline = session.calling.as_ref().and_then(|calling| calling.deadline);
        blocked.deadline = [blocked.deadline, deadline].into_iter().flatten().min();
        self.sessions.blocked.order += 1;
        blocked.order = self.sessions.blocked.order;
        let awaited = awaited_by(&self.table, &blocked.words);
        for key in &blocked.keys {
            let queue = self.sessions.blocked.queues.entry((blocked.db, key.clone())).or_default();
            queue.insert(blocked.order, session.id, awaited);
        }
        let words = blocked.words.iter().chain(blocked.sent.iter().flatten());
        blocked.bytes = words.map(|word| size_of::<Bytes>() + heap_bytes(word)).sum::<usize>()
            + blocked.keys.iter().map(|key| QUEUE_BYTES + 2 * heap_bytes(key)).sum::<usize>();
        self.statistics.blocked += 1;
        if let Some(deadline) = blocked.deadline {
            self.sessions.blocked.deadlines.insert((deadline, session.id));
        }
    }

    /// Takes a session out of the queues of keys.
    pub(crate) fn unblock(&mut self, session: &mut Session) {
        let Some(blocked) = session.blocked.take() else { return };
        for key in blocked.keys {
            let name = (blocked.db, key);
            if let Some(queue) = self.sessions.blocked.queues.get_mut(&name) {
                queue.remove(blocked.order);
                if queue.waiters.is_empty() {
                    self.sessions.blocked.queues.remove(&name);
                    self.sessions.blocked.alarms.forget(&name);
                    fit(&mut self.sessions.blocked.queues);
                }
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.sessions.blocked.deadlines.remove(&(deadline, session.id));
        }
        self.statistics.blocked -= 1;
    }

    /// Has those who wait for a key be asked again at a time, unless they are before.
    pub(crate) fn wake_at(&mut self, db: usize, key: &[u8], at: Millis) {
        self.sessions.blocked.alarms.set((db, Bytes::from_slice(key)), at);
    }

    /// Ends a session's waiting: with an error, or as if its time were over. Returns whether it waited.
    pub fn end_blocking(&mut self, id: SessionId, error: Option<&str>) -> bool {
        let Some(mut session) = self.sessions.by_id.get_mut(&id).and_then(Option::take) else { return false };
        let waited = session.blocked.is_some();
        if let Some(blocked) = &session.blocked {
            if !blocked.muted {
                match error {
                    None => session.output.bytes.extend_from_slice(&blocked.on_timeout),
                    Some(error) => {
                        self.statistics.count_error(error);
                        let name = blocked.words.first().map_or(&b""[..], |name| name);
                        if let Some(statistics) = self.table.by_name(name).and_then(|found| self.statistics.of(found)) {
                            statistics.failed += 1;
                        }
                        // It tells of no key, so it may go out although another node serves by now.
                        if session.output.bytes.is_empty() {
                            session.output.promise.forget();
                        }
                        Reply::new(&mut session.output.bytes, session.protocol).error(error);
                    }
                }
            }
            self.unblock(&mut session);
            self.sessions.schedule.runnable.push_back(id);
        }
        self.sessions.by_id.insert(id, Some(session));
        self.send(id, b"");
        waited
    }
}

impl Server {
    /// Runs the commands again that wait for a key, as long as they find something.
    pub(super) fn serve_waiting(&mut self, db: usize, key: &Bytes) {
        let name = (db, key.clone());
        if !self.shared.sessions.blocked.queues.contains_key(&name) {
            return;
        }
        // What ran until now may have taken long enough for the key to expire.
        let by_now = self.time_by_now();
        let began = std::mem::replace(&mut self.now, by_now);
        self.serve_those_who_wait(&name);
        self.now = began;
    }

    /// The time when what runs now has run so far, sleep that is still to come included.
    fn time_by_now(&self) -> Millis {
        let host = self.shared.host.time_us().and_then(|us| Millis::try_from(us / 1000).ok());
        let slept = Millis::try_from(self.shared.debug.sleep_us / 1000).unwrap_or(Millis::MAX);
        self.now.max(host.unwrap_or(Millis::MIN)).saturating_add(slept)
    }

    fn serve_those_who_wait(&mut self, name: &(usize, Bytes)) {
        let (db, key) = (name.0, &name.1);
        let mut after = 0;
        while self.shared.sessions.blocked.queues.contains_key(name) {
            let now = self.now;
            // One that cannot be read is left to the command that asks for it next.
            let mut keys = self.keys(db, now);
            let Ok(entry) = keys.peek(key) else { return keys.space.forgive() };
            let value = entry.and_then(|entry| entry.value.as_ref()).map(|value| Awaited::of(value, now));
            self.flush_expired();
            let blocked = &mut self.shared.sessions.blocked;
            let Some(next) = blocked.queues.get(name).and_then(|queue| queue.next(after, value)) else {
                if let Some(at) = value.and_then(|offer| offer.next) {
                    blocked.alarms.set(name.clone(), at);
                }
                return;
            };
            after = next.0;
            self.retry(next.1, key);
        }
    }

    fn retry(&mut self, id: SessionId, key: &Bytes) {
        let Some(mut session) = self.shared.sessions.by_id.get_mut(&id).and_then(Option::take) else { return };
        // One whose connection is about to be closed would take elements with it.
        if session.close == Close::No
            && let Some(mut blocked) = session.blocked.take()
        {
            session.retry = Some(Retry { ready_key: key.clone(), received_as: blocked.sent.take() });
            let words: Vec<&[u8]> = blocked.words.iter().map(|word| word.as_slice()).collect();
            let mut output = std::mem::take(&mut session.output.bytes);
            let answered = output.len();
            self.call(&mut session, &mut output, &words);
            let retry = session.retry.take();
            if blocked.muted {
                output.truncate(answered);
            }
            session.output.bytes = output;
            let still = session.blocked.take().is_some();
            // The place in the queues stays the one it had.
            drop(words);
            blocked.sent = retry.and_then(|retry| retry.received_as);
            session.blocked = Some(blocked);
            if !still {
                self.shared.unblock(&mut session);
                self.shared.sessions.schedule.runnable.push_back(id);
                self.list_output(&mut session);
            }
        }
        self.shared.sessions.by_id.insert(id, Some(session));
    }

    /// Answers those whose time is over.
    pub(super) fn time_out_blocked(&mut self, now: Millis) {
        while let Some((deadline, id)) = self.shared.sessions.blocked.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.shared.sessions.blocked.deadlines.remove(&(deadline, id));
            self.shared.end_blocking(id, None);
        }
    }

    /// Runs the commands again that wait for something that comes without a command.
    pub(super) fn ring_alarms(&mut self, now: Millis) {
        self.now = now;
        // A command that finds nothing sets the next one, later than now.
        while let Some((db, key)) = self.shared.sessions.blocked.alarms.take_due(now) {
            self.serve_waiting(db, &key);
        }
    }

    pub(super) fn blocked_deadline(&self) -> Option<Millis> {
        let blocked = &self.shared.sessions.blocked;
        let deadline = blocked.deadlines.first().map(|(deadline, _)| *deadline);
        deadline.into_iter().chain(blocked.alarms.next()).min()
    }
}
