//! Slots on their way: each range by a machine of its own. Several groups at once, and of two groups one range after the other. What copies
//! them is told how fast it may be; what is removed is removed part by part.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Action, Controller, Decision, Record,
    clearing::{Cleared, Clearing},
};
use crate::{
    fence::Cause,
    migration::{CopyProgress, Migration, MoveStep, due},
    model::{Address, Cluster, Epoch, ServerKind},
    pace::{Pacer, Seen, Slowed},
    pauses::Pause,
    slots::{Move, Phase, SlotEvent},
};

/// How long the end of a pause is looked for.
const PAUSE_WATCHED_MS: u64 = 5_000;

/// What tells copies of a controller from each other.
pub type CopyNumber = u64;

/// What becomes of a copy, as whoever runs it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyNews {
    /// How far it is; how many bytes it lags behind is for the controller to say.
    Progress(CopyProgress),
    /// It goes on no more, or could not begin, and why.
    Failed(String),
    /// It could not begin: the target knows a later epoch than it was begun in.
    Outdated(String),
    /// The target gets nothing more from it. It is forgotten.
    Ended,
}

/// How a range is, for people and programs.
#[derive(Clone, Debug, Default)]
pub struct MoveSeen {
    /// How far the copy is that runs.
    pub progress: Option<CopyProgress>,
    /// Keys that it has copied each second, while it copies all.
    pub keys_per_second: Option<u64>,
    /// Bytes that it copies each second.
    pub bytes_per_second: Option<u64>,
    /// What it is slowed down by.
    pub slowed: Option<Slowed>,
    /// Times that a copy began.
    pub attempts: u32,
    /// What went wrong last.
    pub problem: Option<String>,
}

/// A copy that runs.
#[derive(Clone, Debug)]
struct Copy {
    number: CopyNumber,
    /// The cluster that it was begun in.
    epoch: Epoch,
    progress: Option<CopyProgress>,
    began_at: u64,
    pace: Pacer,
    /// When the pace was decided on, and how many bytes there were.
    measured: (u64, u64),
    bytes_per_second: u64,
    slowed: Option<Slowed>,
    /// What whoever runs it was told last.
    told_rate: Option<Option<u64>>,
    /// The same of whether commands on the slots wait.
    told_paused: bool,
}

impl Copy {
    fn new(number: CopyNumber, epoch: Epoch, now: u64) -> Self {
        Self {
            number,
            epoch,
            progress: None,
            began_at: now,
            pace: Pacer::default(),
            measured: (now, 0),
            bytes_per_second: 0,
            slowed: None,
            told_rate: None,
            told_paused: false,
        }
    }

    fn measure(&mut self, now: u64) {
        let bytes = self.progress.as_ref().map_or(0, |progress| progress.bytes);
        let passed = now.saturating_sub(self.measured.0).max(1);
        self.bytes_per_second = bytes.saturating_sub(self.measured.1) * 1_000 / passed;
        self.measured = (now, bytes);
    }
}

#[derive(Clone, Debug)]
struct Moving {
    machine: Migration,
    /// The target had all when it was looked at last, and its replicas had not.
    lacked_replicas: bool,
    copy: Option<Copy>,
    /// Copies that are to end and have not yet: nothing is done about the slots before, as it could reach the target by these.
    ending: BTreeSet<CopyNumber>,
    clearing: Option<Clearing>,
    problem: Option<String>,
}

impl Moving {
    fn new(what: Move) -> Self {
        let (machine, ending) = (Migration::new(what), BTreeSet::new());
        Self { machine, lacked_replicas: false, copy: None, ending, clearing: None, problem: None }
    }

    /// Ends the copy, if one runs.
    fn end_copy(&mut self, to_stop: &mut Vec<CopyNumber>) {
        if let Some(copy) = self.copy.take() {
            self.ending.insert(copy.number);
            to_stop.push(copy.number);
        }
    }
}

/// All that is on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// By the first slot.
    all: BTreeMap<u16, Moving>,
    /// Pauses that were asked for: each has a number of its own.
    asked: u64,
    /// The cluster as it was looked at last.
    epoch: Epoch,
    /// A pause that ends when the server knows of this epoch: it began then.
    watched: Vec<(Address, Epoch, u64)>,
    /// Copies that have begun: each has a number of its own, whoever led meanwhile.
    copies: CopyNumber,
    /// Copies that are to be told to end.
    to_stop: Vec<CopyNumber>,
    /// Pauses that nobody needs any more, as their copies have failed.
    to_end: Vec<(Address, u64)>,
    /// The longest answer of servers since paces were decided on, in microseconds.
    latencies: BTreeMap<Address, u64>,
    /// The longest pause of slots so far, in milliseconds.
    longest_pause_ms: u64,
}

impl Moves {
    /// Those of a controller that has nothing to do with these any more.
    pub(super) fn forgotten(&self) -> Self {
        Self { copies: self.copies, ..Self::default() }
    }
}

impl Controller {
    /// How far a range is, if it was looked at.
    #[must_use]
    pub fn migration(&self, what: Move) -> Option<&Migration> {
        self.moves.of(what).map(|one| &one.machine)
    }

    /// How a range is, for people and programs.
    #[must_use]
    pub fn move_seen(&self, what: Move, now: u64) -> MoveSeen {
        let Some(one) = self.moves.of(what) else { return MoveSeen::default() };
        let copy = one.copy.as_ref();
        let progress = copy.and_then(|copy| copy.progress.clone());
        let keys_per_second = copy.and_then(|copy| {
            let keys = copy.progress.as_ref().filter(|progress| !progress.is_following)?.keys;
            Some(keys * 1_000 / now.saturating_sub(copy.began_at).max(1))
        });
        MoveSeen {
            progress,
            keys_per_second,
            bytes_per_second: copy.map(|copy| copy.bytes_per_second),
            slowed: copy.and_then(|copy| copy.slowed),
            attempts: one.machine.attempts,
            problem: one.problem.clone(),
        }
    }

    /// The longest pause of slots so far, in milliseconds.
    #[must_use]
    pub fn longest_pause_ms(&self) -> u64 {
        self.moves.longest_pause_ms
    }

    /// The ranges whose commands may wait.
    pub fn pausing(&self) -> impl Iterator<Item = Move> {
        self.moves.all.values().filter(|one| one.machine.is_pausing()).map(|one| one.machine.what())
    }

    /// Whether commands on slots wait for what is done: what is not about these has time.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.is_telling() || !self.moves.watched.is_empty() || self.pausing().next().is_some()
    }

    /// A server has answered, after so many microseconds.
    pub fn handle_latency(&mut self, server: &Address, took_us: u64) {
        let longest = self.moves.latencies.entry(server.clone()).or_default();
        *longest = took_us.max(*longest);
    }

    /// A server has done a part of what was to be removed, from this slot on.
    pub fn handle_cleared(&mut self, server: &Address, first: u16, cleared: &Cleared) {
        let all = self.moves.all.values_mut().filter_map(|one| one.clearing.as_mut());
        all.for_each(|clearing| clearing.handle_cleared(server, first, cleared));
    }

    /// What has become of a copy.
    pub fn handle_copy(&mut self, number: CopyNumber, news: CopyNews, now: u64) {
        let Moves { all, to_stop, to_end, epoch, .. } = &mut self.moves;
        let epoch = *epoch;
        for one in all.values_mut() {
            let runs = one.copy.as_ref().is_some_and(|copy| copy.number == number);
            match &news {
                CopyNews::Progress(progress) if runs => {
                    if let Some(copy) = &mut one.copy {
                        copy.progress = Some(progress.clone());
                    }
                }
                // The cluster has changed while it was on its way: with what is known by now it begins at once.
                CopyNews::Outdated(_) if one.copy.as_ref().is_some_and(|copy| runs && copy.epoch < epoch) => {
                    one.end_copy(to_stop);
                    one.machine.handle_copy_outdated();
                }
                CopyNews::Failed(why) | CopyNews::Outdated(why) if runs => {
                    one.problem = Some(why.clone());
                    one.end_copy(to_stop);
                    to_end.extend(one.machine.handle_copy_failed(now));
                }
                CopyNews::Ended if runs => {
                    // Nobody has asked it to.
                    one.copy = None;
                    to_end.extend(one.machine.handle_copy_failed(now));
                }
                CopyNews::Ended => drop(one.ending.remove(&number)),
                CopyNews::Progress(_) | CopyNews::Failed(_) | CopyNews::Outdated(_) => {}
            }
        }
        if news == CopyNews::Ended {
            to_stop.retain(|one| *one != number);
        }
    }

    /// A server has confirmed a pause that it was asked for then: that of a move, if it is one.
    pub(super) fn handle_move_paused(&mut self, number: u64, asked_at: u64, until: u64) {
        self.moves.all.values_mut().for_each(|one| one.machine.handle_paused(number, asked_at, until));
    }

    /// What became of slots was written; this is the cluster after it.
    pub(super) fn handle_slots_written(&mut self, cluster: &Cluster, (what, event): (Move, SlotEvent), now: u64) {
        if event != SlotEvent::Switch {
            return;
        }
        let master = |group| cluster.groups.get(group).map(|group: &crate::Group| group.master.clone());
        let Moves { all, watched, to_stop, .. } = &mut self.moves;
        if let Some(one) = all.get_mut(&what.slots.first) {
            if let (Some(since), Some(source)) = (one.machine.paused_at(), master(&what.from)) {
                watched.push((source, cluster.epoch, since));
            }
            one.machine.handle_switched();
            one.end_copy(to_stop);
        }
        // The proxies hear of both at once.
        self.fence.release(Cause::Move(what.slots.first));
        self.tell_first(master(&what.to), cluster.epoch, now);
    }

    /// What is to be done about slots on their way.
    pub(super) fn poll_moves(&mut self, now: u64, record: Record<'_>) -> Vec<Action> {
        let Record { cluster, moving, .. } = record;
        self.moves.epoch = cluster.epoch;
        let Moves { all, to_stop, .. } = &mut self.moves;
        all.retain(|_, one| {
            let is_there = moving.iter().any(|(what, _)| one.machine.what() == *what);
            if !is_there {
                one.end_copy(to_stop);
            }
            is_there
        });
        // NOTE: those of which nobody has heard that their switch was written. Their turn to be cleared may come only when their group serves.
        for (what, _) in moving.iter().filter(|(_, phase)| *phase == Phase::Clearing) {
            if let Some(one) = all.get_mut(&what.slots.first).filter(|one| one.machine.is_pausing()) {
                one.machine.handle_switched();
                one.end_copy(to_stop);
                self.fence.release(Cause::Move(what.slots.first));
            }
        }
        let mut actions = Vec::new();
        self.look_at_pauses(cluster, now, &mut actions);
        for (what, phase) in due(moving, usize::from(cluster.moves.parallel.max(1))) {
            self.poll_move(now, cluster, (what, phase), &mut actions);
        }
        for (server, number) in std::mem::take(&mut self.moves.to_end) {
            // Requests to a Redis wait at the proxies, which are told besides.
            if cluster.kind_of(&server).is_store() {
                actions.push(Action::EndPause { server, number });
            }
        }
        actions.extend(std::mem::take(&mut self.moves.to_stop).into_iter().map(Action::StopCopy));
        self.held = self.pausing().map(|what| what.from).collect();
        self.release_slots();
        self.set_paces(now, cluster, &mut actions);
        actions
    }

    fn poll_move(&mut self, now: u64, cluster: &Cluster, (what, phase): (Move, Phase), actions: &mut Vec<Action>) {
        let Some(group) = cluster.groups.get(&what.from) else { return };
        let source_offset = self.fresh(cluster, &group.master, now).map(|seen| seen.offset);
        let is_redis = group.kind() == ServerKind::Redis;
        let cause = Cause::Move(what.slots.first);
        let is_held = self.fence.done_at(cause).is_some();
        let pause_number = Pause::Move(self.moves.asked).number(self.term.unwrap_or(0));
        let mut one = self.moves.all.remove(&what.slots.first).unwrap_or_else(|| Moving::new(what));
        if !one.ending.is_empty() {
            self.moves.all.insert(what.slots.first, one);
            return;
        }
        let progress = one.copy.as_ref().and_then(|copy| copy.progress.clone()).map(|progress| {
            let lag_bytes = source_offset.map_or(u64::MAX, |offset| offset.saturating_sub(progress.offset));
            CopyProgress { lag_bytes, ..progress }
        });
        let landscape = self.landscape(cluster, pause_number);
        let steps = landscape.poll(&mut one.machine, now, phase, progress.as_ref());
        // NOTE: first of all. Before commands go on, the copy is to know that they do.
        if let (Some(copy), Some(is_paused)) = (&mut one.copy, one.machine.is_paused())
            && copy.told_paused != is_paused
        {
            copy.told_paused = is_paused;
            actions.push(Action::SetPaused { number: copy.number, is_paused });
        }
        let ends_pause = steps.iter().any(|step| matches!(step, MoveStep::EndPause { .. }));
        if one.machine.lacks_replicas() {
            one.lacked_replicas = true;
        } else if std::mem::take(&mut one.lacked_replicas) && ends_pause {
            let target = cluster.groups.get(&what.to).map(|group| group.master.to_string()).unwrap_or_default();
            one.problem =
                Some(format!("{target} had all, and not as many replicas of it as must have each write (ack)"));
        }
        if is_redis && self.fence.holds(cause) && !is_held {
            actions.push(Action::Unblock(group.master.clone()));
        }
        if !matches!(phase, Phase::Clearing | Phase::Undoing) {
            // The same slots may go the same way once more.
            one.clearing = None;
        }
        for step in steps {
            match step {
                // Each change is told to everybody, and what is removed takes time: they wait until those know what they need to know.
                MoveStep::Write(SlotEvent::Start) | MoveStep::Clear { .. } if self.is_hurried() => {}
                MoveStep::Pause { source, .. } if is_redis => {
                    self.moves.asked += 1;
                    self.fence.hold(cause, vec![what.slots], None);
                    actions.push(Action::Unblock(source));
                }
                MoveStep::EndPause { .. } if is_redis => drop(self.fence.release(cause)),
                MoveStep::Pause { source, ms, number } => {
                    self.moves.asked += 1;
                    actions.push(Action::PauseSlots { server: source, slots: what.slots, ms, number });
                }
                MoveStep::EndPause { source, number } => actions.push(Action::EndPause { server: source, number }),
                MoveStep::StartCopy { source, target } => {
                    self.moves.copies += 1;
                    let number = self.moves.copies;
                    one.copy = Some(Copy::new(number, cluster.epoch, now));
                    actions.push(Action::StartCopy { number, what, source, target });
                }
                MoveStep::StopCopy => one.end_copy(&mut self.moves.to_stop),
                // What the copy would still hand on is not removed.
                MoveStep::Clear { .. } if !one.ending.is_empty() => {}
                MoveStep::Clear { server } => {
                    let run = self.fresh(cluster, &server, now).map(|seen| seen.run.clone());
                    one.clear(cluster, (server, run.unwrap_or_default()), (what, phase), actions);
                }
                MoveStep::Write(event) => actions.push(Action::Write(Decision::Slots(what, event))),
            }
        }
        self.moves.all.insert(what.slots.first, one);
    }

    /// Copies are as fast as they may be.
    fn set_paces(&mut self, now: u64, cluster: &Cluster, actions: &mut Vec<Action>) {
        let master = |group| cluster.groups.get(&group).map(|group: &crate::Group| &group.master);
        let Moves { all, latencies, .. } = &mut self.moves;
        let copies = all.values().filter(|one| one.copy.is_some()).count();
        let mut has_decided = false;
        for one in all.values_mut() {
            let (what, Some(copy)) = (one.machine.what(), &mut one.copy) else { continue };
            if copy.pace.is_due(now) {
                let servers = [master(what.from), master(what.to)].into_iter().flatten();
                let latency_us = servers.filter_map(|server| latencies.get(server)).max().copied().unwrap_or(0);
                copy.measure(now);
                let seen = Seen { bytes_per_second: copy.bytes_per_second, latency_us };
                copy.pace.decide(now, seen, &cluster.moves);
                has_decided = true;
            }
            let (rate, slowed) = copy.pace.rate(&cluster.moves, copies);
            copy.slowed = slowed;
            if copy.told_rate != Some(rate) {
                copy.told_rate = Some(rate);
                actions.push(Action::SetRate { number: copy.number, bytes_per_second: rate });
            }
        }
        if has_decided || copies == 0 {
            latencies.clear();
        }
    }

    /// Requests wait no longer on slots whose move does not need that (any more).
    fn release_slots(&mut self) {
        let first_of = |cause| if let Cause::Move(first) = cause { Some(first) } else { None };
        let held: Vec<u16> = self.fence.causes().filter_map(first_of).collect();
        for first in held {
            if !self.pausing().any(|what| what.slots.first == first) {
                self.fence.release(Cause::Move(first));
            }
        }
    }

    /// Pauses are over when the server knows who has the slots now.
    fn look_at_pauses(&mut self, cluster: &Cluster, now: u64, actions: &mut Vec<Action>) {
        let watched = std::mem::take(&mut self.moves.watched);
        let knows = |(server, epoch, _): &(Address, Epoch, u64)| {
            self.fresh(cluster, server, now).is_some_and(|seen| seen.epoch >= *epoch)
        };
        let (over, rest): (Vec<_>, Vec<_>) = watched.into_iter().partition(knows);
        // One that has died says nothing of its pause.
        self.moves.watched = rest.into_iter().filter(|(_, _, since)| now < since + PAUSE_WATCHED_MS).collect();
        for (server, _, since) in over {
            let ms = now.saturating_sub(since);
            self.moves.longest_pause_ms = self.moves.longest_pause_ms.max(ms);
            actions.push(Action::Note(format!("commands on slots of {server} waited for {ms} ms at most")));
        }
    }
}

impl Moves {
    fn of(&self, what: Move) -> Option<&Moving> {
        self.all.get(&what.slots.first).filter(|one| one.machine.what() == what)
    }
}

impl Moving {
    /// Has some of a range removed by a server, in its process of now, until nothing is left.
    fn clear(
        &mut self,
        cluster: &Cluster,
        (server, run): (Address, String),
        (what, phase): (Move, Phase),
        actions: &mut Vec<Action>,
    ) {
        let run = (!cluster.kind_of(&server).is_store()).then_some(run);
        let known = self.clearing.take().filter(|clearing| clearing.is_of(&server, run.as_deref(), phase));
        let clearing = known.unwrap_or_else(|| Clearing::new(server.clone(), run, (phase, what.slots)));
        let parts = clearing.parts();
        if parts.is_empty() {
            actions.push(Action::Write(Decision::Slots(what, SlotEvent::Cleared)));
        }
        let order = |(slots, count, cursor)| Action::Clear { server: server.clone(), slots, count, cursor };
        actions.extend(parts.into_iter().map(order));
        self.clearing = Some(clearing);
    }
}
