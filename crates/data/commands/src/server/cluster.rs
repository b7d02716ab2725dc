//! A node of a cluster: commands whose keys are elsewhere are sent there, those on slots that are paused wait.

use keyspace::{Bytes, Failure, Millis};

use crate::{
    Session, SessionId,
    cluster::{Membership, Peer, Redirect, SlotPause},
    session::{Close, Transaction},
    table::Flags,
};

use super::{FoundCommand, Server, Shared, dispatch::WordList, passing_on::PASSED_ON};

/// A command that waits for a new master's first lease: not an answer to anybody.
pub(super) const AWAITS_LEASE: Failure = Failure::text("TRYAGAIN the command waits for the master's first lease");

impl Shared {
    /// Microseconds of the clock that never goes back.
    pub(crate) fn stopwatch(&self) -> u64 {
        (self.clock.stopwatch)()
    }

    /// Whether this node runs a command of a client because it has a lease, or would run it without one. `now_us`: by the stopwatch.
    ///
    /// # Errors
    ///
    /// Why it does not run it.
    #[inline(never)]
    pub(super) fn admitted_by_cluster(
        &self,
        session: &Session,
        found: FoundCommand,
        words: &[&[u8]],
        now_us: u64,
    ) -> Result<bool, Failure> {
        let Some(membership) = &self.cluster else { return Ok(false) };
        if let Some(error) = membership.refuses_term(session.standing.term) {
            return Err(Failure::owned(error.to_string()));
        }
        if self.is_passed_on(session, found) {
            return Err(PASSED_ON);
        }
        let routed = match &session.transaction {
            Some(transaction) if found.command.flags.contains(Flags::RUNS_TRANSACTION) => {
                self.route_queued(membership, session, transaction, now_us)
            }
            _ => self.route_command(membership, session, found, words, now_us),
        };
        routed.map_err(|redirect| match redirect {
            Redirect::Down if membership.awaits_lease(now_us) => AWAITS_LEASE,
            redirect => self.turned_away(session, found, &redirect),
        })
    }

    fn route_command(
        &self,
        membership: &Membership,
        session: &Session,
        found: FoundCommand,
        words: &[&[u8]],
        now_us: u64,
    ) -> Result<bool, Redirect> {
        let flags = found.command.flags;
        let places = found.command.key_places_of(words);
        let keys = places.into_iter().filter_map(|place| words.get(place).copied());
        let slot = membership.route(keys, flags, self.standing_for(session, found), now_us)?;
        membership.routed.set(slot);
        // Who reads from a replica takes what it has: that is told without a lease.
        let is_own = slot.is_some_and(|slot| membership.owns(slot));
        Ok(!matches!(session.standing.peer, Peer::Mover { .. }) && (is_own || flags.contains(Flags::WRITE)))
    }

    /// All commands of a transaction, again: slots may have moved since they were queued.
    fn route_queued(
        &self,
        membership: &Membership,
        session: &Session,
        transaction: &Transaction,
        now_us: u64,
    ) -> Result<bool, Redirect> {
        let mut is_under_lease = false;
        for command in &transaction.commands {
            let words: WordList<'_> = command.iter().map(Bytes::as_slice).collect();
            if let Some(found) = self.table.find(&words) {
                is_under_lease |= self.route_command(membership, session, found, &words, now_us)?;
            }
        }
        Ok(is_under_lease)
    }

    /// Whether what a slot has can be told to a session.
    ///
    /// # Errors
    ///
    /// Where it is to ask instead.
    pub(crate) fn admits_slot(&self, session: &Session, slot: usize) -> Result<(), Failure> {
        let Some(membership) = &self.cluster else { return Ok(()) };
        let slot = u16::try_from(slot).unwrap_or(u16::MAX);
        let admitted = membership.route_slot(slot, Flags::READONLY, session.standing, self.stopwatch());
        admitted.map_err(|redirect| redirect.failure())
    }

    /// The first slot from one on that is not this node's own.
    pub(crate) fn end_of_own_slots(&self, first: usize) -> usize {
        let owns = |slot: &usize| {
            let slot = u16::try_from(*slot).unwrap_or(u16::MAX);
            self.cluster.as_ref().is_none_or(|membership| membership.owns(slot))
        };
        (first..keyspace::slot::SLOTS).find(|slot| !owns(slot)).unwrap_or(keyspace::slot::SLOTS)
    }

    /// Whether a session may not do what is the agent's: it belongs to somebody else, and this node to a cluster.
    pub(crate) fn is_steered_by_others(&self, session: &Session) -> bool {
        session.standing.term.is_none() && self.cluster.as_ref().is_some_and(|cluster| cluster.topology.is_some())
    }

    /// Whether a command has to wait until its slots have come to rest.
    pub(super) fn waits_for_slots(&self, session: &Session, found: FoundCommand, words: &[&[u8]]) -> bool {
        let Some(membership) = self.cluster.as_ref().filter(|membership| !membership.pauses.is_empty()) else {
            return false;
        };
        let now = self.stopwatch();
        let is_paused = |found: FoundCommand, words: &[&[u8]]| {
            let places = found.command.key_places_of(words);
            let mut keys = places.iter().filter_map(|place| words.get(*place)).peekable();
            let is_of_all = keys.peek().is_none() && found.command.flags.contains(Flags::WRITE);
            is_of_all || keys.any(|key| membership.is_paused(keyspace::slot::cluster_slot(key), now))
        };
        let queued = |command: &Vec<Bytes>| {
            let words: WordList<'_> = command.iter().map(Bytes::as_slice).collect();
            self.table.find(&words).is_some_and(|found| is_paused(found, &words))
        };
        match &session.transaction {
            Some(transaction) if found.command.flags.contains(Flags::RUNS_TRANSACTION) => {
                transaction.commands.iter().any(queued)
            }
            // What is queued changes nothing yet.
            Some(_) => false,
            None => is_paused(found, words),
        }
    }

    /// Has commands on some slots wait. One that goes on over turns is waited for by whoever asks: what it changes would come later.
    pub(crate) fn begin_slot_pause(&mut self, pause: SlotPause) -> Result<(), Failure> {
        if !self.tasks.is_empty() {
            return Err(Failure::text("TRYAGAIN a command of many keys is still under way"));
        }
        if let Some(membership) = &mut self.cluster {
            membership.begin_pause(pause).map_err(|error| Failure::owned(error.to_string()))?;
        }
        self.refresh_onlookers();
        Ok(())
    }

    /// Has commands go on that waited on slots: they are looked at again, wait longer if another pause is on, and are sent elsewhere if
    /// that is right by now.
    pub(crate) fn end_slot_pause(&mut self, number: Option<u64>) {
        if let Some(membership) = &mut self.cluster {
            membership.end_pause(number);
        }
        self.let_postponed_go();
    }

    /// Has commands go on that wait for a new master's first lease, once it is there or has not come in time.
    pub(crate) fn end_await_of_lease(&mut self) {
        let now = self.stopwatch();
        if self.cluster.as_mut().is_some_and(|membership| membership.end_await(now)) {
            self.let_postponed_go();
        }
    }

    /// Sends those elsewhere who wait for keys that this node has not any more.
    pub(crate) fn redirect_waiting(&mut self) {
        let Some(membership) = self.cluster.as_ref() else { return };
        let now = self.stopwatch();
        let redirected = |session: &Session| {
            let blocked = session.blocked.as_ref().filter(|_| session.close == Close::No)?;
            // Who waits for no key waits for a server, or for the agent.
            if blocked.keys.is_empty() {
                return None;
            }
            let keys = blocked.keys.iter().map(Bytes::as_slice);
            membership.route(keys, Flags::WRITE, session.standing, now).err()
        };
        let all = self.sessions.by_id.iter().filter_map(|(id, session)| Some((*id, redirected(session.as_deref()?)?)));
        let all: Vec<(SessionId, Redirect)> = all.collect();
        for (id, redirect) in all {
            let text = String::from_utf8_lossy(&redirect.failure().bytes()).into_owned();
            self.end_blocking(id, Some(&text));
        }
    }
}

impl Shared {
    /// Whether the log may say that keys have expired, by themselves or because somebody has looked at them: not in a node of a cluster that may
    /// not serve. Commands that name no key (SCAN) run there all the same.
    fn may_expire(&self, now_us: u64) -> bool {
        self.cluster
            .as_ref()
            .is_none_or(|membership| membership.master_since() != u64::MAX && membership.may_serve(now_us))
    }

    /// Whether keys whose time has come stay, unseen.
    pub(crate) fn do_keys_stay(&self) -> bool {
        self.sessions.postponing.is_on() || self.cluster.is_some() && !self.may_expire(self.stopwatch())
    }

    /// The same for a node of a cluster, at a time of the stopwatch.
    pub(super) fn do_keys_stay_at(&self, now_us: u64) -> bool {
        self.sessions.postponing.is_on() || !self.may_expire(now_us)
    }

    /// Notes whether a connection imports (`CLIENT IMPORT-SOURCE`).
    pub(crate) fn set_imports(&mut self, session: &mut Session, imports: bool) {
        self.sessions.importing = self.sessions.importing + usize::from(imports) - usize::from(session.imports);
        session.imports = imports;
    }
}

impl Server {
    /// The time that a session's commands look at keys at. For who fills slots, or imports, nothing has expired: a copy may have a time that
    /// its owner has changed since, which comes later, and what has expired there is removed by the owner.
    #[inline]
    pub(super) fn time_for(&self, session: &Session) -> Millis {
        let is_copying = session.imports || matches!(session.standing.peer, Peer::Mover { .. });
        if is_copying { Millis::MIN } else { self.now }
    }

    /// Whether keys go by themselves when their time has come: not while keys are copied here, for which their owner says so, nor in a node that
    /// may not serve. Where its log ends must say what it has: its folder may have been set back, and voters judge it by that.
    pub fn expires_by_itself(&self) -> bool {
        let is_being_filled = self.shared.cluster.as_ref().is_some_and(|membership| membership.is_being_filled());
        !self.keyspace.is_following
            && !is_being_filled
            && self.shared.may_expire(self.shared.stopwatch())
            && self.shared.sessions.importing == 0
    }

    /// Has keys whose time has come stay, unseen, for as long as something speaks for that.
    pub(super) fn look_whether_keys_stay(&mut self) {
        self.keyspace.expiry_paused = self.shared.do_keys_stay();
    }

    /// Ends pauses of slots whose time is over.
    pub(super) fn end_slot_pause_in_time(&mut self) {
        let now = self.shared.stopwatch();
        if self.shared.cluster.as_mut().is_some_and(|membership| membership.end_pauses_in_time(now)) {
            self.shared.let_postponed_go();
        }
        self.shared.end_await_of_lease();
    }

    /// A turn has ended: what took effect is in the log, if all of it is.
    #[inline]
    pub fn settle_slot_pauses(&mut self) {
        let has_pauses = self.shared.cluster.as_ref().is_some_and(|membership| !membership.pauses.is_empty());
        if has_pauses
            && self.is_quiet()
            && let Some(membership) = &mut self.shared.cluster
        {
            membership.settle_pauses();
        }
    }
}
