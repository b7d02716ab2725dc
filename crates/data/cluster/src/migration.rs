//! A range of slots on its way to another group.
//!
//! ```text
//!  Planned -> copy -> follow -> pause at the source -> the target has all -> switch (one change of the cluster) -> tell the target,
//!             then the source -> clear the source -> done
//! ```
//!
//! The pause is longer than what is left of the source's lease, and it gets no new one before it knows of the switch: if it cannot be
//! told, it serves no more when the pause is over. So the two never serve a slot at the same time. Whatever dies, the coordinator
//! knows the phase: a copy is made again, or cancelled; what has been switched is only cleared.

use serde::{Deserialize, Serialize};

use crate::{
    model::Address,
    slots::{Move, Phase, SlotEvent},
};

/// How far a copy is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Keys that have been copied.
    pub keys: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// All keys have been copied once: what follows are changes.
    pub is_following: bool,
    /// Bytes of changes that are not there yet.
    pub lag_bytes: u64,
    /// Up to where of the source's log the target has everything.
    pub offset: u64,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// Write down that something has happened to the slots.
    Write(SlotEvent),
    /// Begin to copy, from nothing.
    StartCopy {
        /// The master of the group that has the slots.
        source: Address,
        /// The master of the group that gets them.
        target: Address,
    },
    /// Have commands on the slots wait at the source, and give it no lease.
    Pause {
        /// Which.
        source: Address,
        /// For how long.
        ms: u64,
    },
    /// End the pause, and give leases again.
    EndPause {
        /// Which.
        source: Address,
    },
    /// End the copy.
    StopCopy,
    /// Remove some of what a group has of slots that are the other one's.
    Clear {
        /// Its master.
        server: Address,
    },
}

/// What is seen of a move from outside.
#[derive(Clone, Debug)]
pub struct MoveView<'a> {
    /// The present master of the group that the slots come from.
    pub source: &'a Address,
    /// The present master of the group that they go to.
    pub target: &'a Address,
    /// Whether both serve.
    pub both_serve: bool,
    /// The copy that runs.
    pub copy: Option<&'a CopyProgress>,
    /// When the source was asked for its offset, and what it said.
    pub source_offset: Option<(u64, u64)>,
    /// How much of the source's lease is left.
    pub lease_left_ms: u64,
    /// Whether the source can pause: a server has one pause at a time.
    pub may_pause: bool,
    /// How much longer than a store's pause the wait for proxies may take where the source is a Redis.
    pub fence_ms: u64,
    /// What the target's replicas have, if it is a Redis some of whose replicas must have each write: it does not wait for them itself.
    pub target_copies: Option<TargetCopies>,
}

/// What a Redis and its replicas have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetCopies {
    /// How many replicas must have all.
    pub needed: usize,
    /// When the master was asked for its offset, and what it said.
    pub master: Option<(u64, u64)>,
    /// The offsets of the replicas that follow it.
    pub replicas: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// A copy runs, between these two.
    Copying { source: Address, target: Address },
    /// The source was asked to pause.
    Pausing { since: u64 },
    /// It does. The target has all since then, its replicas need that offset, and lack it.
    Paused { at: u64, until: u64, complete_at: Option<u64>, needs: Option<u64>, lacks: bool },
    /// The target has the slots.
    Switched,
}

/// Which moves are gone on with: one copy for each two groups, so many in all, in the order of their slots. What is to be removed is
/// removed besides, one range of a group at a time, while the next range is copied.
#[must_use]
pub fn due(moving: &[(Move, Phase)], copies_max: usize) -> Vec<(Move, Phase)> {
    let mut due: Vec<(Move, Phase)> = Vec::new();
    // Copies that have begun go on before others begin.
    for wanted in [Phase::Clearing, Phase::Undoing, Phase::Copying, Phase::Planned] {
        for (one, phase) in moving.iter().filter(|(_, phase)| *phase == wanted) {
            let is_copy = |phase: Phase| matches!(phase, Phase::Copying | Phase::Planned);
            let copies = due.iter().filter(|(_, phase)| is_copy(*phase)).count();
            let is_taken = match *phase {
                Phase::Clearing => due.iter().any(|(other, phase)| *phase == Phase::Clearing && other.from == one.from),
                // Each may have commands wait, which must end.
                Phase::Undoing | Phase::Copying => false,
                _ => due.iter().any(|(other, phase)| is_copy(*phase) && (other.from, other.to) == (one.from, one.to)),
            };
            if !is_taken && (*phase != Phase::Planned || copies < copies_max) {
                due.push((*one, *phase));
            }
        }
    }
    due
}

/// One move. Volatile: what must last is the phase, which the coordinator has.
#[derive(Clone, Debug)]
pub struct Migration {
    what: Move,
    stage: Stage,
    /// No copy begins before then.
    again_at: u64,
    /// Times that a copy began.
    pub attempts: u32,
}

/// Changes that may be missing when the pause begins, in bytes.
const LAG_MAX: u64 = 256 << 10;
/// How long the last of them are waited for, in milliseconds.
const CATCH_UP_MS: u64 = 1_500;
/// How long after a copy has failed the next one begins.
const AGAIN_MS: u64 = 1_000;
/// How much longer a pause is than what it is for.
const MARGIN_MS: u64 = 500;

impl Migration {
    /// A move that is to be gone on with.
    #[must_use]
    pub fn new(what: Move) -> Self {
        Self { what, stage: Stage::Idle, again_at: 0, attempts: 0 }
    }

    /// What moves.
    #[must_use]
    pub fn what(&self) -> Move {
        self.what
    }

    /// Whether the source's commands on the slots may wait because of this.
    #[must_use]
    pub fn is_pausing(&self) -> bool {
        matches!(self.stage, Stage::Pausing { .. } | Stage::Paused { .. })
    }

    /// Whether the target has all, and its replicas have not.
    #[must_use]
    pub fn lacks_replicas(&self) -> bool {
        matches!(self.stage, Stage::Paused { lacks: true, .. })
    }

    /// The copy has failed: it begins anew after a while. A target that refuses everything would have the source make copies without end.
    pub fn handle_copy_failed(&mut self, now: u64) {
        self.stage = Stage::Idle;
        self.again_at = now + AGAIN_MS;
    }

    /// The source has confirmed that commands wait until then; it was asked at `now`.
    pub fn handle_paused(&mut self, now: u64, until: u64) {
        if matches!(self.stage, Stage::Pausing { .. }) {
            self.stage = Stage::Paused { at: now, until, complete_at: None, needs: None, lacks: false };
        }
    }

    /// The coordinator knows that the target has the slots: nobody waits because of this any more.
    pub fn handle_switched(&mut self) {
        self.stage = Stage::Switched;
    }

    /// When commands on the slots began to wait.
    #[must_use]
    pub fn paused_at(&self) -> Option<u64> {
        match self.stage {
            Stage::Paused { at, .. } => Some(at),
            _ => None,
        }
    }

    /// What is to be done now, in a phase that the coordinator knows.
    pub fn poll_steps(&mut self, now: u64, phase: Phase, view: &MoveView<'_>) -> Vec<MoveStep> {
        match phase {
            Phase::Planned if view.both_serve => vec![MoveStep::Write(SlotEvent::Start)],
            Phase::Planned => Vec::new(),
            Phase::Copying => self.copy(now, view),
            Phase::Clearing => {
                let was_copying = std::mem::replace(&mut self.stage, Stage::Idle) != Stage::Idle;
                let stop = was_copying.then_some(MoveStep::StopCopy);
                stop.into_iter().chain([MoveStep::Clear { server: view.source.clone() }]).collect()
            }
            Phase::Undoing => {
                let mut steps = self.begin_anew(view);
                steps.push(MoveStep::Clear { server: view.target.clone() });
                steps
            }
        }
    }

    fn begin_anew(&mut self, view: &MoveView<'_>) -> Vec<MoveStep> {
        let was_pausing = self.is_pausing();
        let ran = std::mem::replace(&mut self.stage, Stage::Idle) != Stage::Idle;
        let end = was_pausing.then(|| MoveStep::EndPause { source: view.source.clone() });
        end.into_iter().chain(ran.then_some(MoveStep::StopCopy)).collect()
    }

    fn copy(&mut self, now: u64, view: &MoveView<'_>) -> Vec<MoveStep> {
        let Stage::Copying { source, target } = &self.stage else { return self.switch(now, view) };
        if source != view.source || target != view.target {
            // One of the masters is another one: what was copied may be gone.
            return self.begin_anew(view);
        }
        let is_close = view.copy.is_some_and(|copy| copy.is_following && copy.lag_bytes <= LAG_MAX);
        // Without replicas that could have all the pause would be in vain.
        let has_replicas = view.target_copies.as_ref().is_none_or(|copies| copies.replicas.len() >= copies.needed);
        if !is_close || !view.both_serve || !view.may_pause || !has_replicas {
            return Vec::new();
        }
        self.stage = Stage::Pausing { since: now };
        vec![MoveStep::Pause { source: view.source.clone(), ms: view.lease_left_ms.max(CATCH_UP_MS) + MARGIN_MS }]
    }

    fn switch(&mut self, now: u64, view: &MoveView<'_>) -> Vec<MoveStep> {
        match self.stage {
            Stage::Idle if view.both_serve && now >= self.again_at => {
                self.attempts += 1;
                let (source, target) = (view.source.clone(), view.target.clone());
                self.stage = Stage::Copying { source: source.clone(), target: target.clone() };
                vec![MoveStep::StartCopy { source, target }]
            }
            Stage::Paused { at, until, complete_at, needs, .. } => {
                let has_all = view.source_offset.filter(|(asked_at, _)| *asked_at >= at).is_some_and(|(_, offset)| {
                    view.copy.is_some_and(|copy| copy.is_following && copy.offset >= offset)
                });
                let complete_at = complete_at.or_else(|| has_all.then_some(now));
                let needs = needs.or_else(|| view.target_copies.as_ref()?.offset_since(complete_at?));
                let is_copied = view.target_copies.as_ref().is_none_or(|copies| copies.have(needs));
                self.stage = Stage::Paused { at, until, complete_at, needs, lacks: has_all && !is_copied };
                // The pause must outlast the lease: then nobody serves the slots who should not.
                let is_safe = now + view.lease_left_ms < until;
                if has_all && is_copied && is_safe {
                    vec![MoveStep::Write(SlotEvent::Switch)]
                } else if now >= at + CATCH_UP_MS || now >= until {
                    self.begin_anew(view)
                } else {
                    Vec::new()
                }
            }
            Stage::Pausing { since } if now >= since + CATCH_UP_MS + view.fence_ms => self.begin_anew(view),
            _ => Vec::new(),
        }
    }
}

impl TargetCopies {
    /// The master's offset, if it was asked since a moment.
    fn offset_since(&self, moment: u64) -> Option<u64> {
        self.master.filter(|(asked_at, _)| *asked_at >= moment).map(|(_, offset)| offset)
    }

    /// Whether enough replicas have all up to an offset.
    fn have(&self, offset: Option<u64>) -> bool {
        offset.is_some_and(|offset| self.replicas.iter().filter(|has| **has >= offset).count() >= self.needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SlotRange;

    fn one(first: u16, from: u32, to: u32) -> Move {
        Move { slots: SlotRange::new(first, first + 9).unwrap(), from, to }
    }

    #[test]
    fn pairs_move_at_once_and_ranges_of_a_pair_one_after_the_other() {
        use Phase::{Clearing, Copying, Planned, Undoing};
        for (moving, most, expected) in [
            (&[(0, 1, 3, Planned), (10, 1, 3, Planned), (20, 2, 3, Planned)][..], 4, &[0, 20][..]),
            (&[(0, 1, 3, Planned), (20, 2, 3, Planned)], 1, &[0]),
            // What has begun is gone on with first.
            (&[(0, 1, 3, Planned), (10, 1, 3, Copying), (20, 2, 3, Planned)], 1, &[10]),
            // The next range is copied while the last one is cleared.
            (&[(0, 1, 3, Clearing), (10, 1, 3, Clearing), (20, 1, 3, Planned)], 4, &[0, 20]),
            (&[(0, 1, 3, Undoing), (10, 1, 3, Undoing), (20, 1, 2, Undoing)], 1, &[0, 10, 20]),
            (&[], 4, &[]),
        ] {
            let moving: Vec<(Move, Phase)> =
                moving.iter().map(|(first, from, to, phase)| (one(*first, *from, *to), *phase)).collect();
            let found: Vec<u16> = due(&moving, most).iter().map(|(one, _)| one.slots.first).collect();
            assert_eq!(found, expected, "{moving:?} {most}");
        }
    }

    /// A source and a target that both serve; the copy is where it is said to be.
    struct Scene {
        source: Address,
        target: Address,
        copy: Option<CopyProgress>,
        asked_at: u64,
        may_pause: bool,
    }

    impl Scene {
        fn new() -> Self {
            let (source, target) = (Address::new("s", 1), Address::new("t", 2));
            Self { source, target, copy: None, asked_at: 0, may_pause: true }
        }

        fn poll(&self, machine: &mut Migration, now: u64, phase: Phase) -> Vec<MoveStep> {
            let view = MoveView {
                source: &self.source,
                target: &self.target,
                both_serve: true,
                copy: self.copy.as_ref(),
                source_offset: Some((self.asked_at, 100)),
                lease_left_ms: 1_000,
                may_pause: self.may_pause,
                fence_ms: 0,
                target_copies: None,
            };
            machine.poll_steps(now, phase, &view)
        }

        fn copied(&mut self, offset: u64) {
            self.copy =
                Some(CopyProgress { is_following: true, offset, lag_bytes: 100 - offset, ..CopyProgress::default() });
        }
    }

    #[test]
    fn a_move_copies_pauses_and_switches() {
        let (mut scene, mut machine) = (Scene::new(), Migration::new(one(0, 1, 2)));
        assert_eq!(scene.poll(&mut machine, 0, Phase::Planned), [MoveStep::Write(SlotEvent::Start)]);
        assert!(matches!(scene.poll(&mut machine, 1, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        assert!(scene.poll(&mut machine, 2, Phase::Copying).is_empty());
        scene.copied(90);
        // Another range of the source pauses.
        scene.may_pause = false;
        assert!(scene.poll(&mut machine, 3, Phase::Copying).is_empty());
        scene.may_pause = true;
        assert!(matches!(scene.poll(&mut machine, 4, Phase::Copying)[..], [MoveStep::Pause { ms: 2_000, .. }]));
        machine.handle_paused(4, 2_004);
        assert!(scene.poll(&mut machine, 5, Phase::Copying).is_empty(), "the source's end is not known yet");
        scene.asked_at = 4;
        assert!(scene.poll(&mut machine, 6, Phase::Copying).is_empty(), "the target does not have all");
        scene.copied(100);
        assert_eq!(scene.poll(&mut machine, 7, Phase::Copying), [MoveStep::Write(SlotEvent::Switch)]);
        machine.handle_switched();
        assert!(!machine.is_pausing());
        let last = scene.poll(&mut machine, 8, Phase::Clearing);
        assert_eq!(last, [MoveStep::StopCopy, MoveStep::Clear { server: scene.source.clone() }]);
    }

    #[test]
    fn what_is_not_sure_to_be_safe_begins_anew() {
        let (mut scene, mut machine) = (Scene::new(), Migration::new(one(0, 1, 2)));
        scene.poll(&mut machine, 1, Phase::Copying);
        scene.copied(90);
        scene.poll(&mut machine, 2, Phase::Copying);
        machine.handle_paused(2, 2_002);
        // The target did not get the rest in time.
        let steps = scene.poll(&mut machine, 2 + CATCH_UP_MS, Phase::Copying);
        assert_eq!(steps, [MoveStep::EndPause { source: scene.source.clone() }, MoveStep::StopCopy]);
        scene.copy = None;
        assert!(matches!(scene.poll(&mut machine, 1_600, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // The target has another master.
        scene.target = Address::new("t", 3);
        assert_eq!(scene.poll(&mut machine, 1_601, Phase::Copying), [MoveStep::StopCopy]);
        assert!(matches!(scene.poll(&mut machine, 1_602, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // A copy that fails is not begun again at once.
        machine.handle_copy_failed(1_602);
        assert!(scene.poll(&mut machine, 1_601 + AGAIN_MS, Phase::Copying).is_empty());
        assert!(matches!(scene.poll(&mut machine, 1_602 + AGAIN_MS, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // It is cancelled: what the target has got is removed.
        let steps = scene.poll(&mut machine, 2_603, Phase::Undoing);
        assert_eq!(steps, [MoveStep::StopCopy, MoveStep::Clear { server: scene.target.clone() }]);
        assert_eq!(scene.poll(&mut machine, 2_604, Phase::Undoing), [MoveStep::Clear { server: scene.target.clone() }]);
    }

    fn view<'a>(ends: &'a [Address; 2], copy: &'a CopyProgress, copies: Option<TargetCopies>) -> MoveView<'a> {
        MoveView {
            source: &ends[0],
            target: &ends[1],
            both_serve: true,
            copy: Some(copy),
            source_offset: Some((1_000, 70)),
            lease_left_ms: 0,
            may_pause: true,
            fence_ms: 0,
            target_copies: copies,
        }
    }

    /// A move whose source pauses since 1000, until 9000.
    fn paused(ends: &[Address; 2], copy: &CopyProgress) -> Migration {
        let mut machine = Migration::new(Move { slots: SlotRange::new(0, 9).unwrap(), from: 1, to: 2 });
        let seen = view(ends, copy, None);
        assert!(matches!(machine.poll_steps(900, Phase::Copying, &seen)[..], [MoveStep::StartCopy { .. }]));
        assert!(matches!(machine.poll_steps(950, Phase::Copying, &seen)[..], [MoveStep::Pause { .. }]));
        machine.handle_paused(1_000, 9_000);
        machine
    }

    #[test]
    fn slots_switch_to_a_redis_when_as_many_replicas_have_all_as_must() {
        let ends = [Address::new("h", 1), Address::new("h", 2)];
        let copy = CopyProgress { is_following: true, offset: 70, ..CopyProgress::default() };
        let copies = |master, replicas: &[u64]| Some(TargetCopies { needed: 1, master, replicas: replicas.to_vec() });
        let switch = vec![MoveStep::Write(SlotEvent::Switch)];
        // Stores wait for their replicas themselves.
        let mut machine = paused(&ends, &copy);
        assert_eq!(machine.poll_steps(1_010, Phase::Copying, &view(&ends, &copy, None)), switch);
        assert!(!machine.lacks_replicas());
        let mut machine = paused(&ends, &copy);
        for (now, master, replicas, steps) in [
            // What it said before it had all says nothing.
            (1_010, Some((1_005, 500)), &[500][..], vec![]),
            (1_050, Some((1_040, 530)), &[500, 529], vec![]),
            // It goes on for other slots: those need not be waited for.
            (1_060, Some((1_055, 700)), &[500, 530], switch.clone()),
        ] {
            let seen = view(&ends, &copy, copies(master, replicas));
            assert_eq!(machine.poll_steps(now, Phase::Copying, &seen), steps, "{now}");
            assert_eq!(machine.lacks_replicas(), steps.is_empty(), "{now}");
        }
        // Without a replica nothing is made to wait; if it leaves then, the move begins anew, and what waits goes on.
        let mut machine = Migration::new(Move { slots: SlotRange::new(0, 9).unwrap(), from: 1, to: 2 });
        let seen = view(&ends, &copy, copies(Some((900, 500)), &[]));
        assert_eq!(machine.poll_steps(900, Phase::Copying, &seen).len(), 1);
        assert_eq!(machine.poll_steps(950, Phase::Copying, &seen), []);
        let mut machine = paused(&ends, &copy);
        let seen = view(&ends, &copy, copies(Some((1_020, 500)), &[]));
        assert_eq!(machine.poll_steps(1_010, Phase::Copying, &seen), []);
        assert!(machine.lacks_replicas());
        let anew = [MoveStep::EndPause { source: ends[0].clone() }, MoveStep::StopCopy];
        assert_eq!(machine.poll_steps(1_000 + CATCH_UP_MS, Phase::Copying, &seen), anew);
    }
}
