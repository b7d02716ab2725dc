//! Slots on their way: each range by a machine of its own, one at a time for each pair of groups.

use std::collections::BTreeMap;

use cluster::{
    Address, GroupId, ServerKind,
    fence::Cause,
    migration::{CopyProgress, Migration, MoveStep, MoveView},
    plan::Move,
    slots::{Phase, SlotEvent},
};

use super::{Conductor, steps::Orders};
use crate::{
    connection::command,
    link::Order,
    mover::{Copying, End},
};

/// Slots that one command walks: a server answers nobody meanwhile.
const WALKED_AT_ONCE: u16 = 16;
/// Keys that are removed by one command.
const CLEARED_AT_ONCE: u32 = 500;
/// Who gets the slots is told of it before the others; after so many milliseconds these are told in any case.
const TOLD_FIRST_MS: u64 = 500;
/// How long requests to a Redis wait at the proxies at most, once these have been heard, in milliseconds.
const HELD_MAX_MS: u64 = 10_000;

/// A range on its way.
struct UnderWay {
    machine: Migration,
    copy: Option<Box<dyn Copying>>,
    /// Copies that were asked to end and have not yet.
    ending: Vec<Box<dyn Copying>>,
    progress: Option<CopyProgress>,
    failure: Option<String>,
    /// When the copy began: its speed is counted from there.
    began_at: u64,
    /// The first slot of which the former group may still have keys.
    clears_from: u16,
}

/// All that is on its way, by the first slot.
#[derive(Default)]
pub struct Moves {
    all: BTreeMap<u16, UnderWay>,
    /// Who is told of a change before others, and until when they wait for that.
    first: Option<(Vec<Address>, u64)>,
    held: Vec<GroupId>,
    is_waiting: Vec<Address>,
}

/// How far a range is, for people and programs.
#[derive(Clone, Debug)]
pub struct Shown {
    /// What moves.
    pub what: Move,
    /// How far it is.
    pub phase: Phase,
    /// The copy.
    pub progress: Option<CopyProgress>,
    /// Keys that it has copied each second.
    pub keys_per_second: Option<u64>,
    /// Times that a copy began.
    pub attempts: u32,
    /// Why it does not go on, or went wrong last.
    pub problem: Option<String>,
}

impl Moves {
    /// Whether a group gets no leases for the moment.
    pub(super) fn holds(&self, group: GroupId) -> bool {
        self.held.contains(&group)
    }

    /// Whether a server may be told of the cluster now.
    pub(super) fn may_tell(&self, server: &Address) -> bool {
        !self.is_waiting.contains(server)
    }

    /// Has servers be told of the last change before others, until a time at the latest.
    pub(super) fn tell_first(&mut self, servers: Vec<Address>, now: u64) {
        self.first = Some((servers, now + TOLD_FIRST_MS));
    }

    pub(super) fn handle_paused(&mut self, first: u16, now: u64, until: u64) {
        if let Some(one) = self.all.get_mut(&first) {
            one.machine.handle_paused(now, until);
        }
    }

    /// A Redis has nothing of a range any more.
    pub(super) fn handle_all_cleared(&mut self, first: u16) {
        if let Some(one) = self.all.values_mut().find(|one| one.clears_from == first) {
            one.clears_from = one.machine.what().slots.last.saturating_add(1);
        }
    }

    pub(super) fn handle_cleared(&mut self, first: u16, count: u64) {
        // An answer to a question that was asked twice says nothing new.
        if let Some(one) = self.all.values_mut().find(|one| one.clears_from == first)
            && count == 0
        {
            one.clears_from = first.saturating_add(WALKED_AT_ONCE);
        }
    }
}

impl UnderWay {
    /// Takes over how far the copy is, and whether those that are to end have ended.
    fn look_at_copy(&mut self, source_offset: Option<u64>) {
        self.ending.retain(|copy| !copy.has_ended());
        match self.copy.as_mut().map(|copy| copy.progress()) {
            None => {}
            Some(Ok(progress)) => {
                let lag_bytes = source_offset.map_or(u64::MAX, |offset| offset.saturating_sub(progress.offset));
                self.progress = Some(CopyProgress { lag_bytes, ..progress });
            }
            Some(Err(problem)) => {
                self.end_copy();
                self.failure = Some(problem);
                self.machine.handle_copy_failed();
            }
        }
    }

    fn keys_per_second(&self, now: u64) -> Option<u64> {
        let keys = self.progress.as_ref().filter(|progress| !progress.is_following)?.keys;
        Some(keys * 1_000 / now.saturating_sub(self.began_at).max(1))
    }

    fn end_copy(&mut self) {
        if let Some(mut copy) = self.copy.take() {
            copy.ask_to_end();
            self.ending.push(copy);
        }
        self.progress = None;
    }
}

impl Conductor {
    /// Every range that is on its way.
    #[must_use]
    pub fn shown_moves(&self) -> Vec<Shown> {
        let shown = |(what, phase): (Move, Phase)| {
            let one = self.moves.all.get(&what.slots.first).filter(|one| one.machine.what() == what);
            let absent = self.mover.is_none().then(|| "this version cannot copy slots yet".to_owned());
            Shown {
                what,
                phase,
                progress: one.and_then(|one| one.progress.clone()),
                keys_per_second: one.and_then(|one| one.keys_per_second(self.now())),
                attempts: one.map_or(0, |one| one.machine.attempts),
                problem: one.and_then(|one| one.failure.clone()).or(absent),
            }
        };
        self.records.moving().iter().copied().map(shown).collect()
    }

    pub(super) fn conduct_moves(&mut self, now: u64, orders: &mut Orders) {
        let moving = self.records.moving().to_vec();
        self.moves.all.retain(|first, one| {
            moving.iter().any(|(what, _)| what.slots.first == *first && one.machine.what() == *what)
        });
        self.note_who_is_told_first(now);
        // One range at a time: the others wait for their turn.
        if let Some((what, phase)) = moving.iter().find(|(_, phase)| *phase != Phase::Planned).or(moving.first()) {
            self.conduct_move(now, *what, *phase, orders);
        }
        self.release_slots();
        self.moves.held =
            self.moves.all.values().filter(|one| one.machine.is_pausing()).map(|one| one.machine.what().from).collect();
    }

    /// Requests wait no longer on slots whose move does not need that (any more).
    fn release_slots(&mut self) {
        for first in self.fencing.held_for_moves() {
            if !self.moves.all.get(&first).is_some_and(|one| one.machine.is_pausing()) {
                self.fencing.fence.release(Cause::Move(first));
            }
        }
    }

    /// A server as what copies slots is told of it.
    fn end_of(&self, address: Address) -> End {
        let kind = self.kind_of(&address);
        let credentials = self.credentials.of(&address).cloned();
        End { address, kind, credentials }
    }

    /// What a server is.
    pub(super) fn kind_of(&self, address: &Address) -> ServerKind {
        let mut servers = self.records.cluster.servers();
        servers.find(|(_, server)| server.address == *address).map_or(ServerKind::Store, |(_, server)| server.kind)
    }

    /// Who gets slots knows it before who gives them, so that clients are sent back and forth as little as can be.
    fn note_who_is_told_first(&mut self, now: u64) {
        let epoch = self.records.cluster.epoch;
        let knows = |conductor: &Self, address: &Address| {
            let group = conductor.records.cluster.group_of(address);
            let keeper = group.and_then(|group| conductor.keepers.get(&group));
            keeper.and_then(|keeper| keeper.fresh(address, now)).is_some_and(|seen| seen.epoch >= epoch)
        };
        let is_over = self
            .moves
            .first
            .as_ref()
            .is_none_or(|(first, until)| now >= *until || first.iter().all(|address| knows(self, address)));
        self.moves.is_waiting = match &self.moves.first {
            Some((first, _)) if !is_over => {
                let all = self.records.cluster.servers().map(|(_, server)| server.address.clone());
                all.filter(|address| !first.contains(address)).collect()
            }
            _ => Vec::new(),
        };
        if is_over {
            self.moves.first = None;
        }
    }

    fn conduct_move(&mut self, now: u64, what: Move, phase: Phase, orders: &mut Orders) {
        let cluster = &self.records.cluster;
        let master = |group| cluster.groups.get(&group).map(|group| group.master.clone());
        let (Some(source), Some(target)) = (master(what.from), master(what.to)) else { return };
        let seen = |group: GroupId, address: &Address| self.keepers.get(&group)?.fresh(address, now);
        let (from, to) = (seen(what.from, &source).cloned(), seen(what.to, &target).cloned());
        let kind = cluster.groups.get(&what.from).map_or(ServerKind::Store, cluster::Group::kind);
        let lease_until = match kind {
            ServerKind::Store => {
                self.keepers.get(&what.from).map_or(u64::MAX, |keeper| keeper.lease_until(cluster.epoch))
            }
            // It has none: proxies are waited for instead.
            ServerKind::Redis => now,
        };
        let patience = self.options.patience;
        let is_changing = [what.from, what.to].iter().any(|group| self.fencing.fence.holds(Cause::Master(*group)));
        let held_at = self.fencing.fence.done_at(Cause::Move(what.slots.first));
        let one = self.moves.all.entry(what.slots.first).or_insert_with(|| UnderWay {
            machine: Migration::new(what),
            copy: None,
            ending: Vec::new(),
            progress: None,
            failure: None,
            began_at: now,
            clears_from: what.slots.first,
        });
        one.look_at_copy(from.as_ref().map(|seen| seen.offset));
        if !one.ending.is_empty() {
            return;
        }
        if let Some(held_at) = held_at {
            one.machine.handle_paused(held_at, held_at + HELD_MAX_MS);
        }
        let progress = one.progress.clone();
        let view = MoveView {
            source: &source,
            target: &target,
            both_serve: from.is_some() && to.is_some() && self.mover.is_some() && !is_changing,
            copy: progress.as_ref(),
            source_offset: from.as_ref().map(|seen| (seen.asked_at, seen.offset)),
            lease_left_ms: lease_until.saturating_sub(now),
            fence_ms: if kind.is_store() { 0 } else { patience.lease_ms + patience.margin_ms },
        };
        let steps = one.machine.poll_steps(now, phase, &view);
        if !kind.is_store() && self.fencing.fence.holds(Cause::Move(what.slots.first)) && held_at.is_none() {
            orders.entry(source.clone()).or_default().push(Order::Unblock);
        }
        for step in steps {
            self.conduct_step(what, step, orders);
        }
    }

    fn conduct_step(&mut self, what: Move, step: MoveStep, orders: &mut Orders) {
        let slots = (what.slots.first, what.slots.last);
        let now = self.now();
        let ends = match &step {
            MoveStep::StartCopy { source, target } => Some((self.end_of(source.clone()), self.end_of(target.clone()))),
            _ => None,
        };
        let source_kind = self.records.cluster.groups.get(&what.from).map_or(ServerKind::Store, cluster::Group::kind);
        let Some(one) = self.moves.all.get_mut(&what.slots.first) else { return };
        match step {
            MoveStep::StartCopy { .. } => {
                let (Some(mover), Some((source, target))) = (&self.mover, ends) else { return };
                match mover.start(&source, &target, what.slots) {
                    Ok(copy) => {
                        one.copy = Some(copy);
                        one.began_at = now;
                    }
                    Err(problem) => {
                        one.machine.handle_copy_failed();
                        one.failure = Some(problem);
                    }
                }
            }
            MoveStep::StopCopy => one.end_copy(),
            MoveStep::Pause { source, .. } if source_kind == ServerKind::Redis => {
                self.fencing.fence.hold(Cause::Move(what.slots.first), vec![what.slots], None);
                orders.entry(source).or_default().push(Order::Unblock);
            }
            MoveStep::EndPause { .. } if source_kind == ServerKind::Redis => {
                self.fencing.fence.release(Cause::Move(what.slots.first));
            }
            MoveStep::Pause { source, ms } => {
                orders.entry(source).or_default().push(Order::Pause { slots, ms });
            }
            MoveStep::EndPause { source } => {
                orders.entry(source).or_default().push(Order::Do(command(&["CLUSTER", "PAUSE", "END"])));
            }
            MoveStep::Clear { source } => {
                // What the copy would hand on is not removed.
                if !one.ending.is_empty() {
                    return;
                }
                if source_kind == ServerKind::Redis && one.clears_from <= slots.1 {
                    orders.entry(source).or_default().push(Order::Clear { slots, count: CLEARED_AT_ONCE });
                    return;
                }
                let first = one.clears_from;
                if first > slots.1 {
                    self.write_move(what, SlotEvent::Cleared);
                } else {
                    let slots = (first, slots.1.min(first + (WALKED_AT_ONCE - 1)));
                    orders.entry(source).or_default().push(Order::Clear { slots, count: CLEARED_AT_ONCE });
                }
            }
            MoveStep::Write(event) => self.write_move(what, event),
        }
    }

    fn write_move(&mut self, what: Move, event: SlotEvent) {
        let Move { slots, from, to } = what;
        let text = match event {
            SlotEvent::Start => format!("slots {slots}: the copy from group {from} to group {to} begins"),
            SlotEvent::Switch => format!("slots {slots} have moved from group {from} to group {to}"),
            SlotEvent::Cleared => format!("slots {slots}: group {from} has nothing of them any more"),
            _ => format!("slots {slots}: {event:?}"),
        };
        let next = self.records.cluster.with_slots(slots, event).map_err(Into::into);
        match next.and_then(|next| self.records.change(next, "move", &text)) {
            Ok(()) => {
                self.note(&text);
                if event == SlotEvent::Switch {
                    // The proxies hear of both at once.
                    self.fencing.fence.release(Cause::Move(slots.first));
                    let target = self.records.cluster.groups.get(&to);
                    let first = target.map(|group| vec![group.master.clone()]).unwrap_or_default();
                    let now = self.now();
                    self.moves.tell_first(first, now);
                }
            }
            Err(error) => {
                self.note(&format!("slots {slots}: {error}"));
                if let Err(error) = self.records.refresh() {
                    self.note(&format!("the coordinator cannot be read: {error}"));
                }
            }
        }
    }
}
