//! Slots on their way: each range by a machine of its own. Several groups at once, and of two groups one range after the other.

use std::collections::BTreeMap;

use super::{Action, Controller};
use crate::{
    fence::Cause,
    migration::{CopyProgress, Migration, MoveStep, due},
    model::{Address, Cluster, Epoch, ServerKind},
    pauses::Pause,
    slots::{Move, Phase, SlotEvent},
};

/// How long the end of a pause is looked for.
const PAUSE_WATCHED_MS: u64 = 5_000;

/// A copy, as whoever runs it sees it.
#[derive(Clone, Debug, Default)]
pub struct CopySeen {
    /// How far it is; how many bytes it lags behind is for the controller to say. Nothing if none runs.
    pub progress: Option<CopyProgress>,
    /// One that was to end has not ended yet.
    pub is_ending: bool,
}

#[derive(Clone, Debug)]
struct Moving {
    machine: Migration,
    /// The target had all when it was looked at last, and its replicas had not.
    lacked_replicas: bool,
}

/// All that is on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// By the first slot.
    all: BTreeMap<u16, Moving>,
    /// Pauses that were asked for: each has a number of its own.
    asked: u64,
    /// A pause that ends when the server knows of this epoch: it began then.
    watched: Vec<(Address, Epoch, u64)>,
}

impl Controller {
    /// How far a range is, if it was looked at.
    #[must_use]
    pub fn migration(&self, what: Move) -> Option<&Migration> {
        self.moves.all.get(&what.slots.first).map(|one| &one.machine).filter(|machine| machine.what() == what)
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

    /// A copy has failed, or could not begin.
    pub fn handle_copy_failed(&mut self, what: Move, now: u64) {
        if let Some(one) = self.moves.all.get_mut(&what.slots.first).filter(|one| one.machine.what() == what) {
            one.machine.handle_copy_failed(now);
        }
    }

    /// A server has confirmed a pause that it was asked for then: that of a move, if it is one.
    pub(super) fn handle_move_paused(&mut self, number: u64, asked_at: u64, until: u64) {
        self.moves.all.values_mut().for_each(|one| one.machine.handle_paused(number, asked_at, until));
    }

    /// What became of slots was written; this is the cluster after it.
    pub fn handle_slots_written(&mut self, cluster: &Cluster, (what, event): (Move, SlotEvent), now: u64) {
        if event != SlotEvent::Switch {
            return;
        }
        let master = |group| cluster.groups.get(group).map(|group: &crate::Group| group.master.clone());
        if let Some(one) = self.moves.all.get_mut(&what.slots.first) {
            if let (Some(since), Some(source)) = (one.machine.paused_at(), master(&what.from)) {
                self.moves.watched.push((source, cluster.epoch, since));
            }
            one.machine.handle_switched();
        }
        // The proxies hear of both at once.
        self.fence.release(Cause::Move(what.slots.first));
        self.tell_first(master(&what.to), cluster.epoch, now);
    }

    /// What is to be done about slots on their way. Of several steps that write, only the first is to be done before this is asked again:
    /// the others were decided for the cluster as it was.
    pub fn poll_moves(
        &mut self,
        now: u64,
        cluster: &Cluster,
        (moving, can_copy): (&[(Move, Phase)], bool),
        mut copy_of: impl FnMut(Move) -> CopySeen,
    ) -> Vec<Action> {
        let is_there = |machine: &Migration| moving.iter().any(|(what, _)| machine.what() == *what);
        self.moves.all.retain(|_, one| is_there(&one.machine));
        let mut actions = Vec::new();
        self.look_at_pauses(cluster, now, &mut actions);
        for (what, phase) in due(moving, usize::from(cluster.moves.parallel.max(1))) {
            let seen = copy_of(what);
            self.poll_move(now, cluster, (what, phase, can_copy), seen, &mut actions);
        }
        self.held = self.pausing().map(|what| what.from).collect();
        self.release_slots();
        actions
    }

    fn poll_move(
        &mut self,
        now: u64,
        cluster: &Cluster,
        (what, phase, can_copy): (Move, Phase, bool),
        seen: CopySeen,
        actions: &mut Vec<Action>,
    ) {
        let Some(group) = cluster.groups.get(&what.from) else { return };
        let source_offset = self.fresh(cluster, &group.master, now).map(|seen| seen.offset);
        let is_redis = group.kind() == ServerKind::Redis;
        let cause = Cause::Move(what.slots.first);
        let is_held = self.fence.done_at(cause).is_some();
        let pause_number = Pause::Move(self.moves.asked).number(self.term.unwrap_or(0));
        let new = || Moving { machine: Migration::new(what), lacked_replicas: false };
        let mut one = self.moves.all.remove(&what.slots.first).unwrap_or_else(new);
        if seen.is_ending {
            self.moves.all.insert(what.slots.first, one);
            return;
        }
        let progress = seen.progress.map(|progress| {
            let lag_bytes = source_offset.map_or(u64::MAX, |offset| offset.saturating_sub(progress.offset));
            CopyProgress { lag_bytes, ..progress }
        });
        let landscape = self.landscape(cluster, can_copy, pause_number);
        let steps = landscape.poll(&mut one.machine, now, phase, progress.as_ref());
        let ends_pause = steps.iter().any(|step| matches!(step, MoveStep::EndPause { .. }));
        if one.machine.lacks_replicas() {
            one.lacked_replicas = true;
        } else if std::mem::take(&mut one.lacked_replicas) && ends_pause {
            let target = cluster.groups.get(&what.to).map(|group| group.master.to_string()).unwrap_or_default();
            let why = format!("{target} had all, and not as many replicas of it as must have each write (ack)");
            actions.push(Action::Problem(what, why));
        }
        self.moves.all.insert(what.slots.first, one);
        if is_redis && self.fence.holds(cause) && !is_held {
            actions.push(Action::Unblock(group.master.clone()));
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
                step => {
                    self.moves.asked += u64::from(matches!(step, MoveStep::Pause { .. }));
                    actions.push(Action::Move(what, step));
                }
            }
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
        let waited = |(server, _, since): (Address, Epoch, u64)| Action::Waited(server, now.saturating_sub(since));
        actions.extend(over.into_iter().map(waited));
    }
}
