//! Replies that are given over several turns, as far as their clients read them.
//!
//! What a command gives of a large collection, it gives with the elements as they were when it ran
//! ([`Portions`](keyspace::value::Portions)). Its client's next commands wait; nobody else does. While a client has much to read,
//! nothing more is made for it, so a reply may be larger than memory. One that reads so slowly that what changes meanwhile fills
//! memory is closed, and so is one whose reply cannot be completed.

use keyspace::{KEYS_PER_STEP, Millis};
use resp::Reply;

use crate::{
    Session, SessionId, client_info,
    config::LogLevel,
    session::{Close, Pieces, Rest, Unfinished},
};

use super::{Server, Shared};

/// A command that gives more elements than this gives them in portions.
pub const PORTION_MIN: usize = 1_000;
/// A longer reply is not left where what is sent would be taken out in front of it, again and again. Shorter ones pile up, as in Redis.
pub(super) const LONG_OUTPUT: usize = 8 << 20;
/// Nothing more is made for a client that has so much to read.
pub(super) const OUTPUT_MAX: usize = 256 * 1024;
/// How long all portions of a turn may take together, in microseconds.
const TURN_US: u64 = 1_000;
/// The clock is looked at after so many records.
const RECORDS_PER_LOOK: usize = 16;
/// The most records of one portion.
const RECORDS_MAX: usize = 4_096;
/// The most memory that what changed since may take for one client.
const FORMER_BYTES_MAX: usize = 64 << 20;

impl Session {
    /// Whether a command that gives so many elements gives them in portions: in a transaction or a script all is done in one go.
    pub fn takes_turns(&self, elements: usize, shared: &Shared) -> bool {
        elements > shared.step_limits.portion_min && !self.deny_blocking && !self.internal && self.replies_wanted()
    }

    /// Leaves the rest of the reply for later turns; its header is written.
    pub fn go_on_with(&mut self, rest: Rest, shared: &mut Shared) {
        self.portions = Some(Box::new(Unfinished::new(rest)));
        self.loading += 1;
        shared.sessions.schedule.portioned.push_back(self.id);
    }
}

impl Shared {
    /// Gives a client a long reply that is made. It waits for it already.
    pub(super) fn go_on_answering(&mut self, id: SessionId, reply: Pieces) {
        let Some(mut session) = self.sessions.by_id.get_mut(&id).and_then(Option::take) else { return };
        session.portions = Some(Box::new(Unfinished::new(Rest::Made(reply))));
        self.sessions.schedule.portioned.push_back(id);
        self.bound_output(&mut session);
        self.sessions.by_id.insert(id, Some(session));
        self.send(id, b"");
    }

    /// Closes a client in the middle of a reply, and says why.
    #[cold]
    fn close_for(&mut self, session: &mut Session, reason: &str) {
        session.close = Close::Now;
        let client = client_info::describe(session, self.clock.now, 0);
        self.say(LogLevel::Warning, format!("Client {client} is closed in the middle of a reply: {reason}"));
    }

    /// Takes back what was left for later: the command failed.
    #[cold]
    pub(super) fn cancel_portions(&mut self, session: &mut Session) {
        if session.portions.take().is_some() {
            session.loading -= 1;
        }
    }
}

impl Server {
    /// Whether [`go_on`](Self::go_on) has something to do at once.
    pub fn can_go_on(&self) -> bool {
        if self.has_steps()
            || !self.shared.sessions.schedule.runnable.is_empty()
            || !self.shared.sessions.schedule.to_go_on.is_empty()
        {
            return true;
        }
        if self.has_readers() {
            return true;
        }
        let sessions = self
            .shared
            .sessions
            .schedule
            .portioned
            .iter()
            .filter_map(|id| self.shared.sessions.by_id.get(id)?.as_deref());
        sessions.into_iter().any(|session| session.output.bytes.len() < OUTPUT_MAX)
    }

    /// Goes on with what takes several turns: replies that are given in portions, and commands in steps, for about a millisecond
    /// each.
    pub fn go_on(&mut self, now: Millis) {
        self.shared.sessions.limits.made_at_once = 0;
        self.let_readers_go_on();
        let shared = &mut self.shared;
        shared.sessions.schedule.runnable.extend(shared.sessions.schedule.to_go_on.drain(..));
        if shared.sessions.schedule.portioned.is_empty()
            && shared.tasks.is_empty()
            && shared.sessions.schedule.runnable.is_empty()
        {
            return;
        }
        self.now = now;
        self.shared.clock.now = now;
        if !self.shared.tasks.is_empty() {
            self.go_on_with_tasks();
        }
        let end = (self.shared.clock.stopwatch)() + TURN_US;
        for _ in 0..self.shared.sessions.schedule.portioned.len() {
            let Some(id) = self.shared.sessions.schedule.portioned.pop_front() else { break };
            if self.give_portion(id, OUTPUT_MAX, end) {
                self.shared.sessions.schedule.portioned.push_back(id);
            }
            if (self.shared.clock.stopwatch)() > end {
                break;
            }
        }
        self.keyspace.forget_walks();
        self.run_runnable();
    }

    /// Brings all that takes several turns to its end at once: the tables are about to be closed.
    pub fn finish_replies(&mut self) {
        self.finish_tasks();
        self.after_command();
        // Those who waited may not begin others.
        let from = std::mem::replace(&mut self.shared.step_limits.from, usize::MAX);
        while let Some(id) = self.shared.sessions.schedule.portioned.pop_front() {
            while self.give_portion(id, usize::MAX, u64::MAX) {}
        }
        self.run_runnable();
        self.shared.step_limits.from = from;
    }

    /// Gives a client a portion. Returns whether there is more.
    fn give_portion(&mut self, id: SessionId, output_max: usize, end: u64) -> bool {
        let Some(mut session) = self.shared.sessions.by_id.get_mut(&id).and_then(Option::take) else { return false };
        let has_more = self.give_portion_to(&mut session, output_max, end);
        self.shared.sessions.account(&mut session);
        self.list_output(&mut session);
        self.shared.sessions.by_id.insert(id, Some(session));
        has_more
    }

    fn give_portion_to(&mut self, session: &mut Session, output_max: usize, end: u64) -> bool {
        let Some(mut unfinished) = session.portions.take() else { return false };
        if session.close != Close::No {
            return false;
        }
        let has_room = session.output.bytes.len() < output_max;
        if !has_room && unfinished.bytes() > FORMER_BYTES_MAX {
            let mb = FORMER_BYTES_MAX >> 20;
            self.shared.close_for(session, &format!("what changed behind a reply that it does not read takes {mb} MB"));
            return false;
        }
        let mut is_over = Ok(false);
        if has_room {
            session.last_interaction = self.now;
            let stopwatch = &self.shared.clock.stopwatch;
            let records_max = RECORDS_MAX.min(self.shared.step_limits.portion_min);
            let mut records = 0;
            let room = output_max - session.output.bytes.len();
            let mut reply = Reply::new(&mut session.output.bytes, session.protocol);
            is_over = match &mut unfinished.rest {
                Rest::Elements(portions) => portions.write(&mut reply, |reply| {
                    records += 1;
                    let looks = records % RECORDS_PER_LOOK == 0;
                    records >= records_max || reply.position() >= output_max || looks && stopwatch() > end
                }),
                Rest::Made(pieces) => Ok(pieces.take(&mut session.output.bytes, room)),
                Rest::Keys(walk) => {
                    let is_over = self.keyspace.step_walk(walk, KEYS_PER_STEP.min(self.shared.step_limits.portion_min));
                    if is_over {
                        walk.borrow_mut().reply(&mut reply);
                    }
                    Ok(is_over)
                }
            };
        }
        match is_over {
            Ok(false) => {}
            Ok(true) => {
                session.output.bytes.append(&mut unfinished.later);
                session.loading -= 1;
                self.shared.sessions.schedule.runnable.push_back(session.id);
            }
            // An error in the middle of a reply would be taken for an element.
            Err(ref reason) => {
                self.shared.statistics.count_error(reason);
                self.shared.close_for(session, &format!("the rest of its reply cannot be read: {reason}"));
            }
        }
        let has_more = matches!(is_over, Ok(false));
        if has_more {
            session.portions = Some(unfinished);
        }
        self.shared.bound_output(session);
        has_more
    }
}
