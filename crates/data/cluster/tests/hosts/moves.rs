//! Units of slots on their way: what copies them, and the agent that leads, which has it done as the crate `agent` does.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use cluster::{
    controller::{Action, CopySeen},
    migration::{CopyProgress, MoveStep},
    plan::Move,
    slots::SlotEvent,
};

use super::{
    World,
    host::{Agent, UnderWay, Written},
    log::{What, slots_of, unit_of},
    world::{Commit, HOSTS, Message, Planted},
};

/// A round that takes longer is given up.
const ROUND_MS: u64 = 400;
/// Entries that are sent in one step.
const SENT_AT_ONCE: u64 = 60;

/// What copies a unit from one store to another. It belongs to an agent's process.
pub struct Mover {
    host: usize,
    agent_run: u64,
    term: u64,
    epoch: u64,
    unit: usize,
    source: usize,
    target: usize,
    source_run: Option<String>,
    target_run: Option<String>,
    is_asked: bool,
    pub is_admitted: bool,
    /// How far of the source's log it has read, the number of the last entry, and what is still to be sent.
    read: usize,
    last: u64,
    queue: VecDeque<(usize, What)>,
    /// What is on its way to the target, and what is in its log but not safe.
    in_flight: Vec<usize>,
    unsafe_: VecDeque<(usize, usize)>,
    applied: usize,
    is_following: bool,
    pub has_failed: bool,
    wants_end: bool,
    pub has_ended: bool,
}

impl World {
    /// Copies go on.
    pub fn movers(&mut self) {
        for id in 0..self.movers.len() {
            if !self.movers[id].has_ended {
                self.go_on_copying(id);
            }
        }
    }

    fn go_on_copying(&mut self, id: usize) {
        let one = &self.movers[id];
        let (host, source, target, unit) = (one.host, one.source, one.target, one.unit);
        if self.hosts[host].agent.is_none() || self.hosts[host].runs != one.agent_run {
            self.movers[id].has_ended = true;
            return;
        }
        if self.now < self.hosts[host].asleep_until {
            return;
        }
        if one.wants_end {
            self.movers[id].has_ended = self.random.one_in(3);
            return;
        }
        if one.has_failed {
            return;
        }
        if !one.is_asked {
            let is_cut = self.network.is_cut(host, self.stores[target].host);
            (self.movers[id].is_asked, self.movers[id].has_failed) = (true, is_cut);
            self.send_surely((HOSTS + 1 + id, target), (host, Message::Admit { server: target, mover: id }));
        }
        let is_other = |run: &Option<String>, now: &String| run.as_ref().is_some_and(|run| run != now);
        let is_gone = is_other(&one_of(self, id).target_run, &self.stores[target].run)
            || is_other(&one_of(self, id).source_run, &self.stores[source].run)
            || one_of(self, id).is_admitted && self.stores[target].master.is_some();
        if is_gone {
            self.movers[id].has_failed = true;
            return;
        }
        if !self.movers[id].is_admitted {
            return;
        }
        let can_read = self.store_runs(source) && !self.network.is_cut(host, self.stores[source].host);
        if can_read {
            self.read_source(id, source, unit);
        }
        let can_send = !self.network.is_cut(host, self.stores[target].host);
        if can_send {
            for _ in 0..self.random.below(SENT_AT_ONCE) {
                let Some((upto, what)) = self.movers[id].queue.pop_front() else { break };
                self.movers[id].in_flight.push(upto);
                let message = Message::Fill { server: target, mover: id, what, upto };
                self.send_surely((HOSTS + 1 + id, target), (host, message));
            }
        }
        let safe = self.stores[target].safe();
        let one = &mut self.movers[id];
        while let Some((upto, index)) = one.unsafe_.front().copied()
            && index <= safe
            // It is one stream: what was sent before is there before.
            && one.in_flight.iter().all(|other| *other > upto)
        {
            one.unsafe_.pop_front();
            one.applied = one.applied.max(upto);
        }
        if one.source_run.is_some() && one.queue.is_empty() && one.in_flight.is_empty() && one.unsafe_.is_empty() {
            (one.applied, one.is_following) = (one.read, true);
        }
    }

    fn read_source(&mut self, id: usize, source: usize, unit: usize) {
        let (one, store) = (&mut self.movers[id], &mut self.stores[source]);
        let end = store.log.len();
        if one.source_run.is_none() {
            // A copy of all, and then its log.
            if !self.random.one_in(10) {
                return;
            }
            one.source_run = Some(store.run.clone());
            let ids: Vec<u64> = store.log.state(unit).iter().copied().collect();
            one.queue.extend(ids.into_iter().map(|id| (0, What::Copied { unit, id })));
        } else {
            let is_same =
                one.read == 0 || store.log.entries().get(one.read - 1).is_some_and(|(number, _)| *number == one.last);
            if !is_same {
                one.has_failed = true;
                return;
            }
            for (place, (_, what)) in store.log.entries().iter().enumerate().skip(one.read) {
                let what = match *what {
                    What::Write { unit, id } => What::Copied { unit, id },
                    what => what,
                };
                if what.unit() == unit {
                    one.queue.push_back((place + 1, what));
                }
            }
        }
        one.read = end;
        one.last = store.log.entries().last().map_or(0, |(number, _)| *number);
    }

    /// What comes to a store from what fills a unit.
    pub fn fill(&mut self, message: &Message) {
        match *message {
            Message::Admit { server, mover } => {
                let number = self.next_number();
                let (one, store) = (&mut self.movers[mover], &mut self.stores[server]);
                let is_refused =
                    one.term < store.term || one.epoch < store.epoch || store.master.is_some() || store.owns(one.unit);
                if is_refused {
                    one.has_failed = true;
                    return;
                }
                store.term = one.term;
                store.movers.insert(one.unit, mover);
                (one.is_admitted, one.target_run) = (true, Some(store.run.clone()));
                store.log.push(number, What::Clear { unit: one.unit });
            }
            Message::Fill { server, mover, what, upto } => {
                let number = self.next_number();
                let planted = self.planted;
                let (one, store) = (&mut self.movers[mover], &mut self.stores[server]);
                if let Some(place) = one.in_flight.iter().position(|other| *other == upto) {
                    one.in_flight.swap_remove(place);
                }
                let may_fill = store.movers.get(&one.unit) == Some(&mover) && one.term >= store.term;
                let may_fill = may_fill || planted == Some(Planted::AnyMover);
                if !may_fill || store.master.is_some() || one.target_run.as_ref() != Some(&store.run) {
                    one.has_failed = true;
                    return;
                }
                store.log.push(number, what);
                one.unsafe_.push_back((upto, store.log.len()));
            }
            _ => {}
        }
    }

    /// What is to be done about all that is on its way.
    pub fn conduct_moves(&mut self, host: usize, clock: u64) -> Option<(Commit, Written)> {
        let mut agent = self.hosts[host].agent.take()?;
        let moving = agent.moving();
        agent.moves.retain(|_, one| {
            let is_there = moving.iter().any(|(what, _)| one.what == *what);
            if !is_there {
                one.copy.iter().chain(&one.ending).for_each(|copy| self.movers[*copy].wants_end = true);
            }
            is_there
        });
        let mut seen = BTreeMap::new();
        for (what, _) in &moving {
            let copy = self.look_at_copy(&mut agent, *what, clock);
            seen.insert(what.slots.first, copy);
        }
        let cluster = Arc::clone(&agent.record.cluster);
        let copy_of = |what: Move| seen.remove(&what.slots.first).unwrap();
        let actions = agent.controller.poll_moves(clock, &cluster, (&moving, true), copy_of);
        let mut written = None;
        for action in actions {
            let Action::Move(what, step) = action else { continue };
            if crate::number("TELL").is_some_and(|tell| tell > 1) && !matches!(step, MoveStep::Clear { .. }) {
                eprintln!("{} {host} ({clock}) has slots {}: {step:?}", self.now, what.slots);
            }
            let event = self.conduct_step((host, &mut agent), clock, what, step);
            written = written.or(event.map(|event| (what, event)));
        }
        let mut commit = written.and_then(|(what, event)| {
            let next = cluster.with_slots(what.slots, event).ok()?;
            Some((Commit::State { cluster: next, guard: agent.guard() }, Written::Slots(what, event)))
        });
        if commit.is_none()
            && let Some((slots, event)) = agent.requests.pop()
            && let Ok(next) = cluster.with_slots(slots, event)
        {
            commit = Some((Commit::State { cluster: next, guard: agent.guard() }, Written::Other));
        }
        self.hosts[host].agent = Some(agent);
        commit
    }

    fn look_at_copy(&mut self, agent: &mut Agent, what: Move, clock: u64) -> CopySeen {
        let new = || UnderWay { what, copy: None, ending: Vec::new(), clears_since: None, is_cleared: false };
        let one = agent.moves.entry(what.slots.first).or_insert_with(new);
        one.ending.retain(|copy| !self.movers[*copy].has_ended);
        if let Some(copy) = one.copy.filter(|copy| self.movers[*copy].has_failed) {
            one.copy = None;
            self.movers[copy].wants_end = true;
            one.ending.push(copy);
            agent.controller.handle_copy_failed(what, clock);
        }
        let progress = one.copy.map(|copy| {
            let copy = &self.movers[copy];
            CopyProgress { is_following: copy.is_following, offset: copy.applied as u64, ..CopyProgress::default() }
        });
        CopySeen { progress, is_ending: !one.ending.is_empty() }
    }

    fn conduct_step(
        &mut self,
        (host, agent): (usize, &mut Agent),
        clock: u64,
        what: Move,
        step: MoveStep,
    ) -> Option<SlotEvent> {
        let (term, unit) = (agent.controller.term().unwrap_or(0), unit_of(what.slots.first));
        let places: Vec<cluster::Address> = self.stores.iter().map(|store| store.server.address.clone()).collect();
        let index = |address: &cluster::Address| places.iter().position(|place| place == address);
        let one = agent.moves.get_mut(&what.slots.first).unwrap();
        match step {
            MoveStep::Write(event) => return Some(event),
            MoveStep::StartCopy { source, target } => {
                one.copy = Some(self.movers.len());
                self.movers.push(Mover {
                    host,
                    agent_run: self.hosts[host].runs,
                    term,
                    epoch: agent.record.cluster.epoch,
                    unit,
                    source: index(&source).unwrap(),
                    target: index(&target).unwrap(),
                    source_run: None,
                    target_run: None,
                    is_asked: false,
                    is_admitted: false,
                    read: 0,
                    last: 0,
                    queue: VecDeque::new(),
                    in_flight: Vec::new(),
                    unsafe_: VecDeque::new(),
                    applied: 0,
                    is_following: false,
                    has_failed: false,
                    wants_end: false,
                    has_ended: false,
                });
            }
            MoveStep::StopCopy => {
                if let Some(copy) = one.copy.take() {
                    self.movers[copy].wants_end = true;
                    one.ending.push(copy);
                }
            }
            MoveStep::Pause { source, ms, number } => {
                let server = index(&source).unwrap();
                let message =
                    Message::Pause { from: host, server, term, number, unit: Some(unit), ms, asked_at: clock };
                self.send_in_order((host, server), (host, message));
            }
            MoveStep::EndPause { source, number } => {
                let server = index(&source).unwrap();
                self.send_in_order((host, server), (host, Message::EndPause { server, term, number }));
            }
            MoveStep::Clear { .. } if !one.ending.is_empty() => {}
            MoveStep::Clear { .. } if one.is_cleared => return Some(SlotEvent::Cleared),
            MoveStep::Clear { server } => {
                if one.clears_since.is_none_or(|since| clock >= since + ROUND_MS) {
                    one.clears_since = Some(clock);
                    let server = index(&server).unwrap();
                    let message = Message::Clear { from: host, server, term, unit, asked_at: clock };
                    self.send_in_order((host, server), (host, message));
                }
            }
        }
        None
    }

    /// Slots' orders, at a store.
    pub fn obey_mover(&mut self, message: &Message, clock: u64) {
        match *message {
            Message::Pause { from, server, term, number, unit, ms, asked_at } => {
                let store = &mut self.stores[server];
                if !store.takes_term(term) {
                    return;
                }
                store.pauses.retain(|pause| pause.0 != number);
                store.pauses.push((number, unit, clock + ms));
                let host = store.host;
                // Counted from before it was sent: it is not over sooner.
                let until = asked_at + ms;
                self.send((host, from), Message::Paused { term, server, number, asked_at, until });
            }
            Message::EndPause { server, term, number } => {
                let store = &mut self.stores[server];
                if store.takes_term(term) {
                    store.pauses.retain(|pause| pause.0 != number);
                }
            }
            Message::Clear { from, server, term, unit, asked_at } => {
                let number = self.next_number();
                let store = &mut self.stores[server];
                if !store.takes_term(term) || store.master.is_some() {
                    return;
                }
                store.movers.remove(&unit);
                if store.owns(unit) {
                    return;
                }
                store.log.push(number, What::Clear { unit });
                let host = store.host;
                self.send((host, from), Message::Cleared { term, unit, asked_at });
            }
            _ => {}
        }
    }

    /// What a store has answered to these.
    pub fn hear_of_moves(&mut self, to: usize, message: &Message) {
        let clock = self.hosts[to].clock(self.now);
        let Some(agent) = &mut self.hosts[to].agent else { return };
        match *message {
            Message::Paused { term, server, number, asked_at, until } => {
                if agent.controller.term() != Some(term) || clock > asked_at + ROUND_MS {
                    return;
                }
                let store = &self.stores[server];
                let address = &store.server.address;
                agent.controller.handle_paused(&agent.record.cluster, address, (number, asked_at, until), clock);
            }
            Message::Cleared { term, unit, asked_at } => {
                if agent.controller.term() == Some(term)
                    && clock <= asked_at + ROUND_MS
                    && let Some(one) = agent.moves.get_mut(&slots_of(unit).first)
                    && one.clears_since == Some(asked_at)
                {
                    one.is_cleared = true;
                }
            }
            _ => {}
        }
    }
}

fn one_of(world: &World, id: usize) -> &Mover {
    &world.movers[id]
}
