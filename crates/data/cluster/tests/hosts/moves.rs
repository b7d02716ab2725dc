//! Units of slots on their way: what copies them, and the agent that leads, which has it done as the crate `agent` does.

use std::collections::VecDeque;

use cluster::{
    Address, SlotRange,
    controller::{Action, Cleared, CopyNews},
    migration::CopyProgress,
};

use super::{
    World,
    host::Agent,
    log::{What, unit_of},
    planted::Planted,
    world::{HOSTS, Message},
};

/// A part of what is to be removed: slots, and where a Redis' walk goes on.
pub type Part = (SlotRange, Option<String>);

/// A round that takes longer is given up.
pub const ROUND_MS: u64 = 400;
/// Entries that are sent in one step.
const SENT_AT_ONCE: u64 = 60;

/// What copies a unit from one store to another. It belongs to an agent's process.
#[derive(Default)]
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
    /// The target knows more of the cluster than was known when it began.
    is_outdated: bool,
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
                let is_store = !self.is_redis(server);
                let (one, store) = (&mut self.movers[mover], &mut self.stores[server]);
                // A Redis takes it from anybody, so who came before is ended there.
                // By its name, one that has begun later is not taken for one of before, whatever comes first.
                let is_overtaken = !is_store && store.movers.get(&one.unit).is_some_and(|other| *other > mover);
                let is_refused = store.master.is_some()
                    || is_overtaken
                    || is_store && (one.term < store.term || one.epoch < store.epoch || store.owns(one.unit));
                if is_refused {
                    one.is_outdated = is_store && one.epoch < store.epoch;
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
                let may_fill = store.movers.get(&one.unit) == Some(&mover)
                    && (!store.server.kind.is_store() || one.term >= store.term);
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

    pub fn look_at_copies(&mut self, agent: &mut Agent, clock: u64) {
        let Agent { copies, controller, .. } = agent;
        copies.retain(|number, copy| {
            let copy = &self.movers[*copy];
            let news = match copy.has_failed {
                true if copy.is_outdated => CopyNews::Outdated(String::new()),
                true => CopyNews::Failed(String::new()),
                false => CopyNews::Progress(CopyProgress {
                    is_following: copy.is_following,
                    offset: copy.applied as u64,
                    ..CopyProgress::default()
                }),
            };
            controller.handle_copy(*number, news, clock);
            if copy.has_ended {
                controller.handle_copy(*number, CopyNews::Ended, clock);
            }
            !copy.has_ended
        });
    }

    pub fn index_of(&self, address: &Address) -> usize {
        self.stores.iter().position(|store| store.server.address == *address).unwrap()
    }

    pub fn have_cleared(
        &mut self,
        (host, agent): (usize, &mut Agent),
        clock: u64,
        (server, parts): (&Address, Vec<Part>),
    ) {
        let Some(server) = self.found(server) else { return };
        let term = agent.controller.term().unwrap_or(0);
        // One round at a time.
        if agent.clearing.get(&server).is_some_and(|since| clock < since + ROUND_MS) {
            return;
        }
        agent.clearing.insert(server, clock);
        if self.planted == Some(Planted::ClearsAgainLater) && self.random.one_in(4) {
            let again = Message::Clear { from: host, server, term, parts: parts.clone(), asked_at: 0 };
            let at = self.now + self.random.below(5_000);
            self.network.put(at, host, self.stores[server].host, again);
        }
        let message = Message::Clear { from: host, server, term, parts, asked_at: clock };
        self.send_in_order((host, server), (host, message));
    }

    pub fn conduct_move(&mut self, (host, agent): (usize, &mut Agent), clock: u64, action: Action) {
        let term = agent.controller.term().unwrap_or(0);
        match action {
            Action::StartCopy { number, what, source, target } => {
                // By the former address nobody is found, so the copy ends at once.
                let (Some(source), Some(target)) = (self.found(&source), self.found(&target)) else {
                    agent.controller.handle_copy(number, CopyNews::Ended, clock);
                    return;
                };
                agent.copies.insert(number, self.movers.len());
                let (unit, epoch) = (unit_of(what.slots.first), agent.record.cluster.epoch);
                let agent_run = self.hosts[host].runs;
                self.movers.push(Mover { host, agent_run, term, epoch, unit, source, target, ..Mover::default() });
            }
            Action::StopCopy(number) => match agent.copies.get(&number) {
                Some(copy) => self.movers[*copy].wants_end = true,
                None => agent.controller.handle_copy(number, CopyNews::Ended, clock),
            },
            Action::PauseSlots { server, slots, ms, number } => {
                let Some(server) = self.found(&server) else { return };
                let unit = Some(unit_of(slots.first));
                let message = Message::Pause { from: host, server, term, number, unit, ms, asked_at: clock };
                self.send_in_order((host, server), (host, message));
            }
            Action::EndPause { server, number } => {
                let Some(server) = self.found(&server) else { return };
                self.send_in_order((host, server), (host, Message::EndPause { server, term, number }));
            }
            _ => {}
        }
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
            Message::Clear { from, server, term, ref parts, asked_at } => {
                if self.is_redis(server) {
                    let (done, host) = (self.clear_at_redis(server, parts), self.stores[server].host);
                    self.send((host, from), Message::Cleared { term, server, parts: done, asked_at });
                    return;
                }
                let store = &mut self.stores[server];
                if !store.takes_term(term) || store.master.is_some() {
                    return;
                }
                let mut done = Vec::new();
                for (part, _) in parts {
                    let (number, unit) = (self.next_number(), unit_of(part.first));
                    let store = &mut self.stores[server];
                    store.movers.remove(&unit);
                    if store.owns(unit) {
                        continue;
                    }
                    // With the first part of a unit all of it goes.
                    if !store.log.state(unit).is_empty() {
                        store.log.push(number, What::Clear { unit });
                    }
                    done.push((part.first, Cleared::Keys(0)));
                }
                let host = self.stores[server].host;
                self.send((host, from), Message::Cleared { term, server, parts: done, asked_at });
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
            Message::Cleared { term, server, ref parts, asked_at } => {
                let is_of_now = agent.controller.term() == Some(term) && clock <= asked_at + ROUND_MS;
                if is_of_now && agent.clearing.get(&server) == Some(&asked_at) {
                    agent.clearing.remove(&server);
                    let address = &self.stores[server].server.address;
                    parts.iter().for_each(|(first, what)| agent.controller.handle_cleared(address, *first, what));
                }
            }
            _ => {}
        }
    }
}

fn one_of(world: &World, id: usize) -> &Mover {
    &world.movers[id]
}
