//! Slots on their way, as they are carried out: what copies them and how fast, and what is removed.

use std::collections::BTreeMap;

use cluster::{
    Address, ServerKind,
    controller::{Action, CopySeen},
    migration::{CopyProgress, MoveStep},
    pace::{Pacer, Seen, Slowed},
    slots::{Move, Phase, SlotEvent},
};

use super::{Conductor, steps::Orders};
use crate::{
    link::{Order, end_pause},
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
/// A range on its way.
struct UnderWay {
    what: Move,
    copy: Option<Box<dyn Copying>>,
    /// Copies that were asked to end and have not yet.
    ending: Vec<Box<dyn Copying>>,
    progress: Option<CopyProgress>,
    failure: Option<String>,
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
    /// A server has answered, after so many microseconds.
    pub(super) fn handle_answered(&mut self, server: &Address, took_us: u64) {
        let longest = self.latencies.entry(server.clone()).or_default();
        *longest = took_us.max(*longest);
    }

    /// A Redis has nothing of a range any more.
    pub(super) fn handle_all_cleared(&mut self, first: u16) {
        if let Some(one) = self.all.values_mut().find(|one| one.clears_from == first) {
            one.clears_from = one.what.slots.last.saturating_add(1);
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
            what,
            copy: None,
            ending: Vec::new(),
            progress: None,
            failure: None,
            began_at: now,
            clears_from: what.slots.first,
            pace: Pacer::default(),
            measured: (now, 0),
            bytes_per_second: 0,
            slowed: None,
        }
    }

    /// How the copy is by now; a failure, if it has failed.
    fn look_at_copy(&mut self) -> (CopySeen, Option<String>) {
        self.ending.retain(|copy| !copy.has_ended());
        let failure = match self.copy.as_mut().map(|copy| copy.progress()) {
            None => None,
            Some(Ok(progress)) => {
                self.progress = Some(progress);
                None
            }
            Some(Err(problem)) => {
                self.end_copy();
                Some(problem)
            }
        };
        (CopySeen { progress: self.progress.clone(), is_ending: !self.ending.is_empty() }, failure)
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
            let one = self.moves.all.get(&what.slots.first).filter(|one| one.what == what);
            let absent = self.mover.is_none().then(|| "this version cannot copy slots yet".to_owned());
            Shown {
                what,
                phase,
                progress: one.and_then(|one| one.progress.clone()),
                keys_about: self.size_about(what).0,
                keys_per_second: one.and_then(|one| one.keys_per_second(self.now())),
                bytes_per_second: one.filter(|one| one.copy.is_some()).map(|one| one.bytes_per_second),
                slowed: one.filter(|one| one.copy.is_some()).and_then(|one| one.slowed),
                attempts: self.controller.migration(what).map_or(0, |machine| machine.attempts),
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
        self.moves.all.retain(|_, one| moving.iter().any(|(what, _)| one.what == *what));
        let mut seen = BTreeMap::new();
        for (what, _) in &moving {
            let one = self.moves.all.entry(what.slots.first).or_insert_with(|| UnderWay::new(*what, now));
            let (copy, failure) = one.look_at_copy();
            seen.insert(what.slots.first, copy);
            if let Some(failure) = failure {
                one.failure = Some(failure);
                self.controller.handle_copy_failed(*what, now);
            }
        }
        let can_copy = self.mover.is_some();
        let copy_of = |what: Move| seen.remove(&what.slots.first).unwrap_or_default();
        let actions = self.controller.poll_moves(now, &self.records.cluster, (&moving, can_copy), copy_of);
        let mut written = None;
        for action in actions {
            match action {
                Action::Move(what, step) => {
                    let event = self.conduct_step(what, step, orders);
                    written = written.or(event.map(|event| (what, event)));
                }
                Action::Unblock(server) => orders.entry(server).or_default().push(Order::Unblock),
                Action::Problem(what, why) => {
                    if let Some(one) = self.moves.all.get_mut(&what.slots.first) {
                        one.failure = Some(why);
                    }
                }
                Action::Waited(server, ms) => {
                    self.moves.longest_pause_ms = self.moves.longest_pause_ms.max(ms);
                    self.note(&format!("commands on slots of {server} waited for {ms} ms at most"));
                }
                Action::Note(text) => self.note(&text),
                Action::Step(..) => {}
            }
        }
        if let Some((what, event)) = written {
            self.write_move(what, event);
        }
        self.set_paces(now);
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
                let what = one.what;
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

    /// Does a step, but for what is to be written: that is given back.
    fn conduct_step(&mut self, what: Move, step: MoveStep, orders: &mut Orders) -> Option<SlotEvent> {
        let slots = (what.slots.first, what.slots.last);
        match step {
            MoveStep::StartCopy { source, target } => self.start_copy(what, source, target),
            MoveStep::StopCopy => {
                if let Some(one) = self.moves.all.get_mut(&what.slots.first) {
                    one.end_copy();
                }
            }
            MoveStep::Pause { source, ms, number } => {
                orders.entry(source).or_default().push(Order::Pause { slots, ms, number, is_once: true });
            }
            MoveStep::EndPause { source, number } => orders.entry(source).or_default().push(end_pause(number)),
            MoveStep::Clear { server } => return self.clear(what, server, orders),
            MoveStep::Write(event) => return Some(event),
        }
        None
    }

    fn start_copy(&mut self, what: Move, source: Address, target: Address) {
        let now = self.now();
        let (source, target) = (self.end_of(source), self.end_of(target));
        let task = CopyTask { source, target, slots: what.slots, epoch: self.records.cluster.epoch };
        let (Some(mover), Some(one)) = (&self.mover, self.moves.all.get_mut(&what.slots.first)) else { return };
        match mover.start(&task) {
            Ok(copy) => {
                one.copy = Some(copy);
                (one.began_at, one.measured) = (now, (now, 0));
            }
            Err(problem) => {
                one.failure = Some(problem);
                self.controller.handle_copy_failed(what, now);
            }
        }
    }

    /// Has some of a range removed, until nothing is left. What the copy would hand on is not.
    fn clear(&mut self, what: Move, server: Address, orders: &mut Orders) -> Option<SlotEvent> {
        let is_store = self.kind_of(&server).is_store();
        let one = self.moves.all.get(&what.slots.first).filter(|one| one.ending.is_empty())?;
        let (first, last) = (one.clears_from, what.slots.last);
        if first > last {
            return Some(SlotEvent::Cleared);
        }
        let orders = orders.entry(server).or_default();
        if !is_store {
            orders.push(Order::Clear { slots: (what.slots.first, last), count: CLEARED_AT_ONCE });
            return None;
        }
        for first in (first..=last).step_by(usize::from(WALKED_AT_ONCE)).take(REMOVALS_AT_ONCE) {
            let slots = (first, last.min(first + (WALKED_AT_ONCE - 1)));
            orders.push(Order::Clear { slots, count: REMOVED_AT_ONCE });
        }
        None
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
                if event == SlotEvent::Switch
                    && let Some(one) = self.moves.all.get_mut(&slots.first)
                {
                    one.end_copy();
                }
                let now = self.now();
                self.controller.handle_slots_written(&self.records.cluster, (what, event), now);
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
