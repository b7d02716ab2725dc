//! Bounds on what clients take: output that they do not read, queries that do not end, the memory of all of them.

use keyspace::{Failure, Millis};
use resp::Reply;

use crate::{
    Session, SessionId,
    client_info::{self, ClientType},
    config::LogLevel,
    session::Close,
};

use super::{Server, Shared, sessions::Sessions};

/// Room that a client's query and output keep while it is used.
const BUFFER_KEPT: usize = 16 * 1024;
/// How long a client is silent before it keeps no room.
const IDLE_MS: Millis = 2_000;
/// How often clients are looked at.
const SWEEP_MS: Millis = 1_000;
/// A client with less than this is closed because memory is short only if many like it fill memory together.
const WORTH_CLOSING: usize = 1024 * 1024;
/// One with less than this never is.
const WORTH_CLOSING_OF_MANY: usize = BUFFER_KEPT;
/// The part of `maxmemory` from which on clients fill it together, and that what is answered in one go may take.
const MANY_SHARE: u64 = 4;
/// So much may be answered in one go in any case.
const ANSWERED_AT_ONCE: u64 = 16 << 20;
/// A shorter reply of a command in a transaction is given in any case: an error that says why it is not would be as long.
const SHORT_REPLY: usize = 256;

/// What is watched of clients.
#[derive(Debug)]
pub(crate) struct Limits {
    /// From how much output on a client is looked at.
    pub(super) output_watched: usize,
    /// `maxmemory-clients`; 0 for none.
    pub(super) clients_bound: usize,
    /// What all clients take, as far as it was looked at.
    clients_memory: usize,
    /// What long replies that were made in one go in this turn take.
    pub(super) made_at_once: usize,
    next_sweep: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self { output_watched: usize::MAX, clients_bound: 0, clients_memory: 0, made_at_once: 0, next_sweep: 0 }
    }
}

impl Limits {
    pub(super) fn clock_was_set(&mut self, by: Millis) {
        self.next_sweep = self.next_sweep.saturating_add(by);
    }
}

/// What a client takes that goes on: one that is being closed has given up all but itself.
fn memory_kept(session: &Session) -> usize {
    if session.close == Close::Now { 0 } else { client_info::memory(session) }
}

impl Session {
    /// Whether it may be closed for the memory that it takes, if that is as much.
    fn may_be_closed(&self, at_least: usize) -> bool {
        !self.no_evict && self.close != Close::Now && self.memory >= at_least
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Sessions {
    fn count_clients_memory(&mut self) {
        let mut sum = 0;
        for session in self.by_id.values_mut().filter_map(Option::as_deref_mut) {
            session.memory = memory_kept(session);
            sum += session.memory;
        }
        self.limits.clients_memory = sum;
    }

    /// Takes note of what a client takes now.
    pub(super) fn account(&mut self, session: &mut Session) {
        if self.limits.clients_bound > 0 {
            let memory = memory_kept(session);
            let former = std::mem::replace(&mut session.memory, memory);
            self.limits.clients_memory = (self.limits.clients_memory + memory).saturating_sub(former);
        }
    }

    /// A client that goes takes nothing any more.
    pub(super) fn forget_memory(&mut self, session: &mut Session) {
        let former = std::mem::take(&mut session.memory);
        self.limits.clients_memory = self.limits.clients_memory.saturating_sub(former);
    }

    /// The client that takes the most of those that may be closed for it.
    fn largest_client(&self, at_least: usize) -> Option<SessionId> {
        let sessions = self.by_id.values().filter_map(Option::as_deref);
        let may_go = sessions.filter(|session| session.may_be_closed(at_least));
        may_go.max_by_key(|session| (session.memory, session.id)).map(|session| session.id)
    }
}

impl Shared {
    /// Looks again at the settings.
    pub(crate) fn refresh_limits(&mut self) {
        let limits = &self.settings.client_output_buffer_limit;
        let all = [limits.normal, limits.pubsub].into_iter().flat_map(|limit| [limit.hard, limit.soft]);
        let least = all.filter(|bytes| *bytes > 0).min();
        let bound = length(self.settings.maxmemory_clients.bytes(self.settings.maxmemory.0));
        let had_bound = self.sessions.limits.clients_bound > 0;
        self.sessions.limits.clients_bound = bound;
        self.sessions.limits.output_watched =
            least.map_or(usize::MAX, length).min(if bound > 0 { bound } else { usize::MAX });
        if bound > 0 && !had_bound {
            self.sessions.count_clients_memory();
        }
    }

    /// Closes a client that is not in run, if it has more output than it may.
    #[cold]
    pub(super) fn check_output(&mut self, id: SessionId) {
        let Some(mut session) = self.sessions.by_id.get_mut(&id).and_then(Option::take) else { return };
        let len = session.unsent();
        if self.is_output_over(&mut session, len) {
            self.close_for_output(&mut session);
        }
        self.sessions.account(&mut session);
        self.sessions.by_id.insert(id, Some(session));
    }

    /// Closes a client that has more output than it may.
    pub(super) fn bound_output(&mut self, session: &mut Session) {
        let len = session.unsent();
        if len > self.sessions.limits.output_watched && self.is_output_over(session, len) {
            self.close_for_output(session);
        }
    }

    /// Closes a client for what it has not read, and says so in Redis' words.
    #[cold]
    pub(super) fn close_for_output(&mut self, session: &mut Session) {
        if session.close != Close::Now {
            let client = client_info::describe(session, self.clock.now, 0);
            let text = format!("Client {client} scheduled to be closed ASAP for overcoming of output buffer limits.");
            self.say(LogLevel::Warning, text);
        }
        session.close = Close::Now;
        session.output.bytes = Vec::new();
    }

    /// Whether a client is closed for output that it does not read: then it piles up.
    pub(super) fn bounds_output(&self, session: &Session) -> bool {
        let limits = &self.settings.client_output_buffer_limit;
        let limit = if ClientType::of(session) == ClientType::Pubsub { limits.pubsub } else { limits.normal };
        limit.hard > 0 || limit.soft > 0 || self.sessions.limits.clients_bound > 0
    }

    /// Whether a client has so much output that it is to be closed: more than the hard limit, or more than the soft one for
    /// too long.
    pub(super) fn is_output_over(&self, session: &mut Session, len: usize) -> bool {
        let limits = &self.settings.client_output_buffer_limit;
        let limit = match ClientType::of(session) {
            ClientType::Pubsub => limits.pubsub,
            _ => limits.normal,
        };
        let bound = self.sessions.limits.clients_bound;
        let excess = client_info::excess(len) as u64;
        if limit.hard > 0 && excess >= limit.hard || bound > 0 && len > bound && !session.no_evict {
            return true;
        }
        if limit.soft == 0 || excess < limit.soft {
            session.output.soft_limit_since = None;
            return false;
        }
        let since = *session.output.soft_limit_since.get_or_insert(self.clock.now);
        self.clock.now - since > limit.soft_seconds.saturating_mul(1000)
    }

    /// The most that one command may answer whose arguments, and not the data, say how much that is.
    pub(crate) fn reply_max(&self, session: &Session) -> usize {
        let limits = &self.settings.client_output_buffer_limit;
        let limit = if ClientType::of(session) == ClientType::Pubsub { limits.pubsub } else { limits.normal };
        let hard = if limit.hard > 0 { limit.hard.saturating_add(BUFFER_KEPT as u64) } else { u64::MAX };
        length(hard.min(self.settings.proto_max_bulk_len.0))
    }

    /// The most that is answered in one go, by a command that does not give its reply in portions, a transaction or a script: more would
    /// take memory, all at once, that others need.
    pub(crate) fn answered_at_once_max(&self) -> usize {
        match self.settings.maxmemory.0 {
            0 => usize::MAX,
            bound => length((bound / MANY_SHARE).max(ANSWERED_AT_ONCE)),
        }
    }

    /// Why so much cannot be answered in one go, if that is so.
    #[inline]
    pub(crate) fn refused_at_once(&self, len: usize, what: &str) -> Option<Failure> {
        let is_too_long = len as u64 > ANSWERED_AT_ONCE && len > self.answered_at_once_max();
        is_too_long.then(|| self.refusal_at_once(what))
    }

    #[cold]
    fn refusal_at_once(&self, what: &str) -> Failure {
        let mb = self.answered_at_once_max() >> 20;
        Failure::owned(format!(
            "ERR {what} would take more than {mb} MB at once, a quarter of maxmemory: ask for less at a time"
        ))
    }

    /// Bounds what a transaction has answered by now; its last command did so from `start` on. The commands run in any case. What must
    /// not be kept is not: that reply, or all, if the client is to be closed for what it has not read.
    #[inline]
    pub(super) fn bound_transaction(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        (begin, start): (usize, usize),
    ) {
        if session.close == Close::Now {
            output.truncate(start);
        }
        if output.len() > self.sessions.limits.output_watched && self.is_output_over(session, output.len()) {
            self.close_for_output(session);
            *output = Vec::new();
            return;
        }
        if output.len() - start > SHORT_REPLY
            && let Some(failure) = self.refused_at_once(
                output.len() - begin,
                "the command has run and its reply is left out: those of this transaction",
            )
        {
            output.truncate(start);
            let text = failure.bytes();
            self.statistics.count_error(&text);
            Reply::new(output, session.protocol).error(text);
        }
    }

    fn evict_client(&mut self, id: SessionId, why: &str) {
        self.statistics.evicted_clients += 1;
        let now = self.clock.now;
        if let Some(client) = self.sessions.get_mut(id).map(|session| client_info::describe(session, now, 0)) {
            self.say(LogLevel::Notice, format!("Evicting client: {client} ({why})"));
        }
        self.kill(id);
    }

    /// Closes clients while all of them take more than `maxmemory-clients`, those that take the most first.
    pub(super) fn evict_clients(&mut self) {
        if self.sessions.limits.clients_bound == 0
            || self.sessions.limits.clients_memory <= self.sessions.limits.clients_bound
        {
            return;
        }
        self.sessions.count_clients_memory();
        while self.sessions.limits.clients_memory > self.sessions.limits.clients_bound {
            let Some(id) = self.sessions.largest_client(1) else { return };
            self.evict_client(id, "clients take more than maxmemory-clients");
        }
    }
}

impl Server {
    /// Closes the client that takes the most memory, if that is much, and at least so many bytes. If no client takes much, but
    /// all together do, closes the largest ones, until they have given back `excess`. Returns whether any was closed. For when memory
    /// is over its bound and has nothing else to give: clients that never read, or never end what they send, must not stop all others.
    pub fn relieve(&mut self, at_least: u64, excess: u64) -> bool {
        const WHY: &str = "memory is over maxmemory, and what clients take is all that could leave it";
        let shared = &mut self.shared;
        shared.sessions.count_clients_memory();
        if let Some(id) = shared.sessions.largest_client(WORTH_CLOSING.max(length(at_least))) {
            shared.evict_client(id, WHY);
            return true;
        }
        let together = shared.sessions.limits.clients_memory as u64;
        if together < at_least.max(shared.settings.maxmemory.0 / MANY_SHARE) {
            return false;
        }
        let sessions = shared.sessions.by_id.values().filter_map(Option::as_deref);
        let may_go = sessions.filter(|session| session.may_be_closed(WORTH_CLOSING_OF_MANY));
        let mut largest: Vec<_> = may_go.map(|session| (session.memory, session.id)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = length(excess.max(1));
        for (memory, id) in &largest {
            shared.evict_client(*id, WHY);
            left = left.saturating_sub(*memory);
            if left == 0 {
                break;
            }
        }
        !largest.is_empty()
    }

    /// Closes clients while all of them take more than `maxmemory-clients`: before keys go for what they take.
    pub fn evict_clients(&mut self) {
        self.shared.evict_clients();
    }

    /// Looks at all clients each second: gives back the room that they do not need, and closes those whose output has been
    /// over its soft limit for too long.
    pub(super) fn sweep_clients(&mut self, now: Millis) {
        if now < self.shared.sessions.limits.next_sweep {
            return;
        }
        self.shared.sessions.limits.next_sweep = now + SWEEP_MS;
        let mut watched = Vec::new();
        for session in self.shared.sessions.by_id.values_mut().filter_map(Option::as_deref_mut) {
            let kept = if now - session.last_interaction > IDLE_MS { 0 } else { BUFFER_KEPT };
            for buffer in [&mut session.query.bytes, &mut session.output.bytes] {
                if buffer.is_empty() && buffer.capacity() > kept {
                    buffer.shrink_to(kept);
                }
            }
            if session.unsent() > self.shared.sessions.limits.output_watched {
                watched.push(session.id);
            }
        }
        for id in watched {
            self.shared.check_output(id);
            self.shared.send(id, b"");
        }
    }
}
