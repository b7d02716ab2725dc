//! CLIENT PAUSE: commands wait, all of them or those that write. Whoever runs the server has those that write wait too while there
//! is no room for more.
//!
//! A command that has to wait stays where it is, in front of its client's query; it is parsed and checked again when the pause
//! is over. Meanwhile no key expires and none is evicted: what is not written is not removed either.

use keyspace::{Bytes, Millis};

use crate::{
    Session, SessionId,
    replication::Failover,
    scripting::flags::{self, ScriptFlags},
    table::Flags,
};

use super::{FoundCommand, Server, Shared};

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// All commands wait, not only those that write.
    all: bool,
    /// Its end.
    until: Millis,
}

impl Shared {
    /// Begins a pause, or makes the one that there is longer and stricter.
    pub(crate) fn begin_pause(&mut self, all: bool, until: Millis) {
        let former = self.sessions.postponing.pause.unwrap_or(Pause { all, until });
        self.sessions.postponing.pause = Some(Pause { all: all || former.all, until: until.max(former.until) });
        self.refresh_onlookers();
    }

    /// Ends the pause: those who waited go on.
    pub(crate) fn end_pause(&mut self) {
        self.sessions.postponing.pause = None;
        self.let_postponed_go();
    }

    /// Has commands that write wait until the master has handed over.
    pub(crate) fn begin_failover(&mut self, failover: Failover) {
        self.replication.failover = Some(failover);
        self.sessions.postponing.is_handing_over = true;
        self.refresh_onlookers();
    }

    pub(crate) fn let_postponed_go(&mut self) {
        self.refresh_onlookers();
        for id in std::mem::take(&mut self.sessions.postponing.sessions) {
            if let Some(session) = self.sessions.get_mut(id)
                && std::mem::take(&mut session.postponed)
            {
                self.statistics.blocked -= 1;
                self.sessions.schedule.runnable.push_back(id);
            }
        }
    }

    /// A session that goes waits no more.
    pub(super) fn forget_postponed(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.postponed) {
            self.sessions.postponing.sessions.retain(|id| *id != session.id);
            self.statistics.blocked -= 1;
        }
    }

    /// Whether a command may change something.
    fn may_write(&self, session: &Session, found: FoundCommand, words: &[&[u8]]) -> bool {
        if super::monitor::is_script(found) {
            return self.script_may_write(found, words);
        }
        if found.command.flags.contains(Flags::RUNS_TRANSACTION) {
            let Some(transaction) = &session.transaction else { return false };
            return transaction.commands.iter().any(|command| {
                let words: Vec<&[u8]> = command.iter().map(Bytes::as_slice).collect();
                let found = self.table.find(&words);
                let is_nested = |found: FoundCommand| found.command.flags.contains(Flags::RUNS_TRANSACTION);
                found.is_some_and(|found| !is_nested(found) && self.may_write(session, found, &words))
            });
        }
        found.command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
    }

    fn script_may_write(&self, found: FoundCommand, words: &[&[u8]]) -> bool {
        let word = words.get(1).copied().unwrap_or_default();
        let of = found.command.flags;
        if of.contains(Flags::READONLY) {
            return false;
        }
        let says = if of.contains(Flags::CALLS_FUNCTION) {
            self.scripting.functions.find(word).map(|function| function.flags)
        } else if of.contains(Flags::BY_DIGEST) {
            self.scripting.scripts.as_ref().and_then(|scripts| scripts.flags(&String::from_utf8_lossy(word)))
        } else {
            flags::of_script(word).ok().and_then(|(says, _)| says)
        };
        !says.is_some_and(|says| says.contains(ScriptFlags::NO_WRITES))
    }
}

impl Pause {
    /// The same when the clock was set by so much.
    pub(super) fn moved(self, by: Millis) -> Self {
        Self { until: self.until.saturating_add(by), ..self }
    }

    /// When it has ended.
    pub(super) fn over_at(self) -> Millis {
        self.until.saturating_add(1)
    }
}

impl Server {
    /// Has a command wait, if there is a pause that it falls under.
    pub(super) fn postpone(&mut self, session: &mut Session, found: FoundCommand, words: &[&[u8]]) -> bool {
        if !self.shared.tasks.is_empty() && self.waits_for_tasks(session, found, words) {
            return true;
        }
        if self.shared.waits_for_slots(session, found, words) {
            return self.put_off(session);
        }
        if !self.shared.sessions.postponing.is_on() {
            return false;
        }
        // A transaction that began the pause is over by now.
        self.keyspace.expiry_paused = true;
        let do_all_wait = self.shared.sessions.postponing.pause.is_some_and(|pause| pause.all);
        if session.listening.monitors || !do_all_wait && !self.shared.may_write(session, found, words) {
            return false;
        }
        self.put_off(session)
    }

    pub(super) fn put_off(&mut self, session: &mut Session) -> bool {
        session.postponed = true;
        self.shared.sessions.postponing.sessions.push(session.id);
        self.shared.statistics.blocked += 1;
        true
    }

    /// The master has handed over, or takes writes again: commands that waited run, or are refused.
    pub fn end_failover(&mut self) {
        self.shared.replication.failover = None;
        if std::mem::take(&mut self.shared.sessions.postponing.is_handing_over) {
            self.shared.let_postponed_go();
        }
    }

    /// Whether nothing is under way that may still write, and all that took effect is in the log.
    pub fn is_quiet(&self) -> bool {
        self.has_no_effects() && self.shared.tasks.is_empty()
    }

    /// Says whether there is room for more: commands that write wait until there is.
    pub fn set_no_room(&mut self, has_no_room: bool) {
        if std::mem::replace(&mut self.shared.sessions.postponing.has_no_room, has_no_room) == has_no_room {
            return;
        }
        self.look_whether_keys_stay();
        if !self.shared.sessions.postponing.is_on() {
            self.shared.let_postponed_go();
        }
        self.shared.refresh_onlookers();
    }

    /// Whether nothing of what a session has sent can run for now: for what its command waits, others or a disk must do something.
    pub fn is_waiting(&mut self, id: SessionId) -> bool {
        let session = self.shared.sessions.get_mut(id);
        session.is_some_and(|session| session.postponed || session.loading > 0 || session.blocked.is_some())
    }

    /// Whether a command of a session waits for the end of a pause.
    pub fn is_postponed(&mut self, id: SessionId) -> bool {
        self.shared.sessions.get_mut(id).is_some_and(|session| session.postponed)
    }

    /// Whether there is a pause; one whose time is over ends.
    pub(super) fn is_paused(&mut self) -> bool {
        if self.shared.sessions.postponing.pause.is_some_and(|pause| pause.until < self.now) {
            self.shared.end_pause();
        }
        self.end_slot_pause_in_time();
        self.look_whether_keys_stay();
        self.shared.sessions.postponing.is_on()
    }

    /// Whether no key may be let go: somebody has asked for a pause. That writes wait for room is no reason, as what goes makes some.
    pub(super) fn keeps_keys(&mut self) -> bool {
        self.is_paused();
        let postponing = &self.shared.sessions.postponing;
        postponing.pause.is_some() || postponing.is_handing_over
    }
}
