//! Slots on their way: each range by a machine of its own. Several groups at once, and of two groups one range after the other.

use std::collections::BTreeMap;

use cluster::{
    Address, Epoch, ServerKind,
    fence::Cause,
    migration::{CopyProgress, Migration, MoveStep, due},
    pace::{Pacer, Seen, Slowed},
    pauses::Pause,
    plan::Move,
    slots::{Phase, SlotEvent},
};

use super::{Conductor, steps::Orders};
use crate::{
    link::{Order, Paused, end_pause},
    mover::{CopyTask, Copying, End},
};

/// Slots that one command walks: a server answers nobody meanwhile.
const WALKED_AT_ONCE: u16 = 16;
/// Keys that are removed by one command.
const REMOVED_AT_ONCE: u32 = 250;
/// Such commands in one round. Together they are what others may have to wait for.
const REMOVALS_AT_ONCE: usize = 4;
/// Keys of a Redis that are looked at by one command.
const CLEARED_AT_ONCE: u32 = 500;
/// How long the end of a pause is looked for.
const PAUSE_WATCHED_MS: u64 = 5_000;

/// A range on its way.
struct UnderWay {
    machine: Migration,
    copy: Option<Box<dyn Copying>>,
    /// Copies that were asked to end and have not yet.
    ending: Vec<Box<dyn Copying>>,
    progress: Option<CopyProgress>,
    failure: Option<String>,
    /// The target had all when it was looked at last, and its replicas had not.
    lacked_replicas: bool,
    /// When the copy began: its speed is counted from there.
    began_at: u64,
    /// The first slot of which the group that does not have them may still have keys.
    clears_from: u16,
    pace: Pacer,
    /// When the pace was decided on, and how many bytes there were.
    measured: (u64, u64),
    bytes_per_second: u64,
    slowed: Option<Slowed>,
}

/// All that is on its way, by the first slot.
#[derive(Default)]
pub struct Moves {
    all: BTreeMap<u16, UnderWay>,
    /// The longest answer of servers since it was looked at, in microseconds.
    latencies: BTreeMap<Address, u64>,
    /// A pause that ends when the server knows of this epoch: it began then.
    pauses: Vec<(Address, Epoch, u64)>,
    /// Pauses that were asked for: each has a number of its own.
    pause_count: u64,
    /// The longest pause of slots so far, in milliseconds.
    pub longest_pause_ms: u64,
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
    /// Keys that there are to be copied, about.
    pub keys_about: u64,
    /// Keys that it has copied each second.
    pub keys_per_second: Option<u64>,
    /// Bytes that it copies each second.
    pub bytes_per_second: Option<u64>,
    /// What it is slowed down by.
    pub slowed: Option<Slowed>,
    /// Times that a copy began.
    pub attempts: u32,
    /// Why it does not go on, or went wrong last.
    pub problem: Option<String>,
}

impl Moves {
    /// A server has confirmed a pause: that of a move, or of something else.
    pub(super) fn handle_paused(&mut self, paused: &Paused) {
        for one in self.all.values_mut() {
            one.machine.handle_paused(paused.number, paused.asked_at, paused.until);
        }
    }

    /// A server has answered, after so many microseconds.
    pub(super) fn handle_answered(&mut self, server: &Address, took_us: u64) {
        let longest = self.latencies.entry(server.clone()).or_default();
        *longest = took_us.max(*longest);
    }

    /// A Redis has nothing of a range any more.
    pub(super) fn handle_all_cleared(&mut self, first: u16) {
        if let Some(one) = self.all.values_mut().find(|one| one.clears_from == first) {
            one.clears_from = one.machine.what().slots.last.saturating_add(1);
        }
    }

    pub(super) fn handle_cleared(&mut self, first: u16, count: u64) {
        // Fewer than could be: there are no more. An answer to a question that was asked twice says nothing new.
        if let Some(one) = self.all.values_mut().find(|one| one.clears_from == first)
            && count < u64::from(REMOVED_AT_ONCE)
        {
            one.clears_from = first.saturating_add(WALKED_AT_ONCE);
        }
    }
}

impl UnderWay {
    fn new(what: Move, now: u64) -> Self {
        Self {
            machine: Migration::new(what),
            copy: None,
            ending: Vec::new(),
            progress: None,
            failure: None,
            lacked_replicas: false,
            began_at: now,
            clears_from: what.slots.first,
            pace: Pacer::default(),
            measured: (now, 0),
            bytes_per_second: 0,
            slowed: None,
        }
    }

    /// Takes over how far the copy is, and whether those that are to end have ended.
    fn look_at_copy(&mut self, source_offset: Option<u64>, now: u64) {
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
                self.machine.handle_copy_failed(now);
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
                keys_about: self.size_about(what).0,
                keys_per_second: one.and_then(|one| one.keys_per_second(self.now())),
                bytes_per_second: one.filter(|one| one.copy.is_some()).map(|one| one.bytes_per_second),
                slowed: one.filter(|one| one.copy.is_some()).and_then(|one| one.slowed),
                attempts: one.map_or(0, |one| one.machine.attempts),
                problem: one.and_then(|one| one.failure.clone()).or(absent),
            }
        };
        self.records.moving().iter().copied().map(shown).collect()
    }

    /// Keys and bytes of some slots, if all slots of their group have the same.
    pub(super) fn size_about(&self, what: Move) -> (u64, u64) {
        let cluster = &self.records.cluster;
        let Some(group) = cluster.groups.get(&what.from) else { return (0, 0) };
        let (keys, bytes) = self.figures.size(&group.master);
        let owned = u64::from(cluster.slots.count_of(what.from)).max(1);
        let share = |all: u64| all * u64::from(what.slots.count()) / owned;
        (share(keys), share(bytes))
    }

    pub(super) fn conduct_moves(&mut self, now: u64, orders: &mut Orders) {
        let moving = self.records.moving().to_vec();
        self.moves.all.retain(|first, one| {
            moving.iter().any(|(what, _)| what.slots.first == *first && one.machine.what() == *what)
        });
        self.note_pauses(now);
        let parallel = usize::from(self.records.cluster.moves.parallel.max(1));
        for (what, phase) in due(&moving, parallel) {
            self.conduct_move(now, what, phase, orders);
        }
        let pausing = self.moves.all.values().filter(|one| one.machine.is_pausing());
        self.controller.hold_leases(pausing.map(|one| one.machine.what().from));
        self.release_slots();
        self.set_paces(now);
    }

    /// Whether commands wait for slots: what is not about these has time.
    pub(super) fn is_hurried(&self) -> bool {
        self.controller.is_telling()
            || !self.moves.pauses.is_empty()
            || self.moves.all.values().any(|one| one.machine.is_pausing())
    }

    /// Copies are as fast as they may be.
    fn set_paces(&mut self, now: u64) {
        let cluster = &self.records.cluster;
        let copies = self.moves.all.values().filter(|one| one.copy.is_some()).count();
        let master = |group| cluster.groups.get(&group).map(|group| &group.master);
        let Moves { all, latencies, .. } = &mut self.moves;
        let mut has_decided = false;
        for one in all.values_mut().filter(|one| one.copy.is_some()) {
            if one.pace.is_due(now) {
                let what = one.machine.what();
                let servers = [master(what.from), master(what.to)].into_iter().flatten();
                let latency_us = servers.filter_map(|server| latencies.get(server)).max().copied().unwrap_or(0);
                let bytes = one.progress.as_ref().map_or(0, |progress| progress.bytes);
                let passed = now.saturating_sub(one.measured.0).max(1);
                one.bytes_per_second = bytes.saturating_sub(one.measured.1) * 1_000 / passed;
                one.measured = (now, bytes);
                one.pace.decide(now, Seen { bytes_per_second: one.bytes_per_second, latency_us }, &cluster.moves);
                has_decided = true;
            }
            let (rate, slowed) = one.pace.rate(&cluster.moves, copies);
            one.slowed = slowed;
            if let Some(copy) = &mut one.copy {
                copy.set_rate(rate);
            }
        }
        if has_decided || copies == 0 {
            latencies.clear();
        }
    }

    /// Whether a server knows of an epoch.
    fn knows(&self, address: &Address, epoch: u64, now: u64) -> bool {
        let seen = self.controller.fresh(&self.records.cluster, address, now);
        seen.is_some_and(|seen| seen.epoch >= epoch)
    }

    /// Pauses are over when the server knows who has the slots now.
    fn note_pauses(&mut self, now: u64) {
        let pauses = std::mem::take(&mut self.moves.pauses);
        let (over, rest): (Vec<_>, Vec<_>) =
            pauses.into_iter().partition(|(server, epoch, _)| self.knows(server, *epoch, now));
        // One that has died says nothing of its pause.
        self.moves.pauses = rest.into_iter().filter(|(_, _, since)| now < since + PAUSE_WATCHED_MS).collect();
        for (server, _, since) in over {
            let took = now.saturating_sub(since);
            self.moves.longest_pause_ms = self.moves.longest_pause_ms.max(took);
            self.note(&format!("commands on slots of {server} waited for {took} ms at most"));
        }
    }

    /// Requests wait no longer on slots whose move does not need that (any more).
    fn release_slots(&mut self) {
        let held_for = |cause| if let Cause::Move(first) = cause { Some(first) } else { None };
        let held: Vec<u16> = self.controller.fence.causes().filter_map(held_for).collect();
        for first in held {
            if !self.moves.all.get(&first).is_some_and(|one| one.machine.is_pausing()) {
                self.controller.fence.release(Cause::Move(first));
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

    fn conduct_move(&mut self, now: u64, what: Move, phase: Phase, orders: &mut Orders) {
        let cluster = &self.records.cluster;
        let Some(source) = cluster.groups.get(&what.from).map(|group| group.master.clone()) else { return };
        let target = cluster.groups.get(&what.to).map(|group| group.master.to_string()).unwrap_or_default();
        let is_store = self.kind_of(&source).is_store();
        let source_offset = self.controller.fresh(cluster, &source, now).map(|seen| seen.offset);
        let is_held = self.controller.fence.done_at(Cause::Move(what.slots.first)).is_some();
        let one = self.moves.all.entry(what.slots.first).or_insert_with(|| UnderWay::new(what, now));
        one.look_at_copy(source_offset, now);
        if !one.ending.is_empty() {
            return;
        }
        let pause_number = Pause::Move(self.moves.pause_count).number(self.controller.term().unwrap_or(0));
        let landscape = self.controller.landscape(cluster, self.mover.is_some(), pause_number);
        let paused_at = one.machine.paused_at();
        let steps = landscape.poll(&mut one.machine, now, phase, one.progress.as_ref());
        let count = steps.iter().filter(|step| matches!(step, MoveStep::Pause { .. })).count();
        self.moves.pause_count += count as u64;
        if one.machine.lacks_replicas() {
            one.lacked_replicas = true;
        } else if std::mem::take(&mut one.lacked_replicas)
            && steps.iter().any(|step| matches!(step, MoveStep::EndPause { .. }))
        {
            one.failure =
                Some(format!("{target} had all, and not as many replicas of it as must have each write (ack)"));
        }
        if !is_store && self.controller.fence.holds(Cause::Move(what.slots.first)) && !is_held {
            orders.entry(source.clone()).or_default().push(Order::Unblock);
        }
        for step in steps {
            if let (MoveStep::Write(SlotEvent::Switch), Some(since)) = (&step, paused_at) {
                self.moves.pauses.push((source.clone(), self.records.cluster.epoch + 1, since));
            }
            self.conduct_step(what, step, orders);
        }
    }

    fn conduct_step(&mut self, what: Move, step: MoveStep, orders: &mut Orders) {
        let slots = (what.slots.first, what.slots.last);
        let (now, epoch) = (self.now(), self.records.cluster.epoch);
        let is_hurried = self.is_hurried();
        let task = match &step {
            MoveStep::StartCopy { source, target } => {
                let (source, target) = (self.end_of(source.clone()), self.end_of(target.clone()));
                Some(CopyTask { source, target, slots: what.slots, epoch })
            }
            _ => None,
        };
        let source_kind = self.records.cluster.groups.get(&what.from).map_or(ServerKind::Store, cluster::Group::kind);
        let cleared_kind = match &step {
            MoveStep::Clear { server } => self.kind_of(server),
            _ => ServerKind::Store,
        };
        let Some(one) = self.moves.all.get_mut(&what.slots.first) else { return };
        match step {
            // Each change is told to everybody: it waits until those know what they need to know.
            MoveStep::Write(SlotEvent::Start) if is_hurried => {}
            MoveStep::StartCopy { .. } => {
                let (Some(mover), Some(task)) = (&self.mover, task) else { return };
                match mover.start(&task) {
                    Ok(copy) => {
                        one.copy = Some(copy);
                        (one.began_at, one.measured) = (now, (now, 0));
                    }
                    Err(problem) => {
                        one.machine.handle_copy_failed(now);
                        one.failure = Some(problem);
                    }
                }
            }
            MoveStep::StopCopy => one.end_copy(),
            MoveStep::Pause { source, .. } if source_kind == ServerKind::Redis => {
                self.controller.fence.hold(Cause::Move(what.slots.first), vec![what.slots], None);
                orders.entry(source).or_default().push(Order::Unblock);
            }
            MoveStep::EndPause { .. } if source_kind == ServerKind::Redis => {
                self.controller.fence.release(Cause::Move(what.slots.first));
            }
            MoveStep::Pause { source, ms, number } => {
                orders.entry(source).or_default().push(Order::Pause { slots, ms, number, is_once: true });
            }
            MoveStep::EndPause { source, number } => {
                orders.entry(source).or_default().push(end_pause(number));
            }
            MoveStep::Clear { server } => {
                // What the copy would hand on is not removed, and nobody who waits for slots waits for this.
                if !one.ending.is_empty() || is_hurried {
                    return;
                }
                if cleared_kind == ServerKind::Redis && one.clears_from <= slots.1 {
                    orders.entry(server).or_default().push(Order::Clear { slots, count: CLEARED_AT_ONCE });
                    return;
                }
                let first = one.clears_from;
                if first > slots.1 {
                    self.write_move(what, SlotEvent::Cleared);
                } else {
                    let orders = orders.entry(server).or_default();
                    for first in (first..=slots.1).step_by(usize::from(WALKED_AT_ONCE)).take(REMOVALS_AT_ONCE) {
                        let slots = (first, slots.1.min(first + (WALKED_AT_ONCE - 1)));
                        orders.push(Order::Clear { slots, count: REMOVED_AT_ONCE });
                    }
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
            SlotEvent::Cleared => {
                let owner = self.records.cluster.slots.owner(slots.first);
                let other = if owner == Some(from) { to } else { from };
                format!("slots {slots}: group {other} has nothing of them any more")
            }
            _ => format!("slots {slots}: {event:?}"),
        };
        let next = self.records.cluster.with_slots(slots, event).map_err(Into::into);
        match next.and_then(|next| self.records.change(next, "move", &text)) {
            Ok(()) => {
                self.note(&text);
                if event == SlotEvent::Switch {
                    if let Some(one) = self.moves.all.get_mut(&slots.first) {
                        one.machine.handle_switched();
                        one.end_copy();
                    }
                    // The proxies hear of both at once.
                    self.controller.fence.release(Cause::Move(slots.first));
                    let target = self.records.cluster.groups.get(&to).map(|group| group.master.clone());
                    let (now, epoch) = (self.now(), self.records.cluster.epoch);
                    self.controller.tell_first(target, epoch, now);
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
