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
//!
//! The source's end counts only if the source has said with it that this very pause is on, and that nothing took effect before it that
//! the end does not cover: one that was ended in between, or has gone with its process, is none. Votes for other processes of the source
//! must be over by then. And it counts for the two masters that the copy goes on between, and no others.
//!
//! What the target acknowledges is on as many of its replicas as must have it only if it was told which those are. A process that was just
//! started has not been; one that serves has. So a copy begins at a target that serves, and goes on as long as it is the same process.

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
    /// Keys at the target have other times to live than they are to be served with: a Redis gets those while commands on the slots wait.
    #[serde(default)]
    pub lacks_times: bool,
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
        /// What tells this pause from all others.
        number: u64,
    },
    /// End the pause, and give leases again.
    EndPause {
        /// Which.
        source: Address,
        /// Which pause.
        number: u64,
    },
    /// End the copy.
    StopCopy,
    /// Remove some of what a group has of slots that are the other one's.
    Clear {
        /// Its master.
        server: Address,
    },
}

/// What the source has said last.
#[derive(Clone, Copy, Debug)]
pub struct SourceSeen<'a> {
    /// When it was asked.
    pub asked_at: u64,
    /// Where its log ends.
    pub offset: u64,
    /// Pauses that are on there; nothing if it is a Redis: requests wait at the proxies.
    pub pauses: Option<&'a [u64]>,
}

/// The process of the target, as it was seen last.
#[derive(Clone, Copy, Debug)]
pub struct TargetSeen<'a> {
    /// Which it is.
    pub run: &'a str,
    /// Whether it serves: what it acknowledges is where it must be.
    pub serves: bool,
    /// Whether it knows the cluster as it is: it takes nothing any more that is meant for slots that it does not have.
    pub is_told: bool,
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
    /// What the source has said.
    pub seen: Option<SourceSeen<'a>>,
    /// How much of the source's lease is left; nothing as long as not enough voters have said what they gave it.
    pub lease_left_ms: Option<u64>,
    /// For how long votes for other processes of the source than the one that was seen may still count; nothing if that is not known.
    pub other_leases_ms: Option<u64>,
    /// Whether the source can pause: one that hands over has all its commands wait.
    pub may_pause: bool,
    /// The number that a pause would have.
    pub pause_number: u64,
    /// The target, if it answers.
    pub target_seen: Option<TargetSeen<'a>>,
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

/// The masters between which a copy goes on, and the process of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ends {
    source: Address,
    target: Address,
    target_run: String,
}

impl Ends {
    /// Whether these are not the masters any more, or the target is another process.
    fn are_others(&self, view: &MoveView<'_>) -> bool {
        let is_other_run = view.target_seen.is_some_and(|seen| seen.run != self.target_run);
        self.source != *view.source || self.target != *view.target || is_other_run
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// A copy runs. The source is not asked to pause before then.
    Copying { ends: Ends, pause_from: u64 },
    /// The source was asked to pause.
    Pausing { ends: Ends, number: u64, since: u64 },
    /// It does. The target has all since then, its replicas need that offset, and lack it.
    Paused { ends: Ends, number: u64, at: u64, until: u64, complete_at: Option<u64>, needs: Option<u64>, lacks: bool },
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
    /// Gives the source and the number of a pause that is in vain now.
    pub fn handle_copy_failed(&mut self, now: u64) -> Option<(Address, u64)> {
        let pause = match &self.stage {
            Stage::Pausing { ends, number, .. } | Stage::Paused { ends, number, .. } => {
                Some((ends.source.clone(), *number))
            }
            Stage::Idle | Stage::Copying { .. } | Stage::Switched => None,
        };
        self.stage = Stage::Idle;
        self.again_at = now + AGAIN_MS;
        pause
    }

    /// The copy could not begin, as the target knows more of the cluster than was known then: it begins anew.
    pub fn handle_copy_outdated(&mut self) {
        self.stage = Stage::Idle;
        self.attempts = self.attempts.saturating_sub(1);
    }

    /// The source has confirmed that commands wait until then; it was asked at `at`.
    pub fn handle_paused(&mut self, paused: u64, at: u64, until: u64) {
        if let Stage::Pausing { ends, number, .. } = &self.stage
            && *number == paused
        {
            let (ends, number) = (ends.clone(), *number);
            self.stage = Stage::Paused { ends, number, at, until, complete_at: None, needs: None, lacks: false };
        }
    }

    /// Requests on the slots of a Redis wait at all proxies, since then and until then.
    pub fn handle_held(&mut self, at: u64, until: u64) {
        if let Stage::Pausing { number, .. } = self.stage {
            self.handle_paused(number, at, until);
        }
    }

    /// The coordinator knows that the target has the slots: nobody waits because of this any more.
    pub fn handle_switched(&mut self) {
        self.stage = Stage::Switched;
    }

    /// Whether commands on the slots wait, as far as is known; nothing if no copy runs, or the slots have switched.
    #[must_use]
    pub fn is_paused(&self) -> Option<bool> {
        match self.stage {
            Stage::Copying { .. } | Stage::Pausing { .. } => Some(false),
            Stage::Paused { .. } => Some(true),
            Stage::Idle | Stage::Switched => None,
        }
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
                // A copy of somebody who led before may hand on what is removed: to a target that knows that the slots are its own it
                // hands on nothing.
                let is_told = view.target_seen.is_some_and(|seen| seen.is_told);
                let clear = is_told.then(|| MoveStep::Clear { server: view.source.clone() });
                stop.into_iter().chain(clear).collect()
            }
            Phase::Undoing => {
                let mut steps = self.begin_anew();
                steps.push(MoveStep::Clear { server: view.target.clone() });
                steps
            }
        }
    }

    /// The pause that is on, or was asked for.
    fn end_pause(&self) -> Option<MoveStep> {
        match &self.stage {
            Stage::Pausing { ends, number, .. } | Stage::Paused { ends, number, .. } => {
                Some(MoveStep::EndPause { source: ends.source.clone(), number: *number })
            }
            _ => None,
        }
    }

    fn begin_anew(&mut self) -> Vec<MoveStep> {
        let end = self.end_pause();
        let ran = std::mem::replace(&mut self.stage, Stage::Idle) != Stage::Idle;
        end.into_iter().chain(ran.then_some(MoveStep::StopCopy)).collect()
    }

    /// It was not in time: the copy goes on, commands do too, and they wait again later.
    fn retreat(&mut self, pause_from: u64) -> Vec<MoveStep> {
        let end = self.end_pause();
        if let Stage::Pausing { ends, .. } | Stage::Paused { ends, .. } = &self.stage {
            self.stage = Stage::Copying { ends: ends.clone(), pause_from };
        }
        end.into_iter().collect()
    }

    fn copy(&mut self, now: u64, view: &MoveView<'_>) -> Vec<MoveStep> {
        if let Stage::Copying { ends, .. } | Stage::Pausing { ends, .. } | Stage::Paused { ends, .. } = &self.stage
            && ends.are_others(view)
        {
            // One of the masters is another one: what was copied may be gone, and the other one's commands do not wait.
            return self.begin_anew();
        }
        let Stage::Copying { ends, pause_from } = &self.stage else { return self.switch(now, view) };
        let is_close = view.copy.is_some_and(|copy| copy.is_following && copy.lag_bytes <= LAG_MAX);
        // Without replicas that could have all the pause would be in vain.
        let has_replicas = view.target_copies.as_ref().is_none_or(|copies| copies.replicas.len() >= copies.needed);
        let may_pause = view.may_pause && view.both_serve && now >= *pause_from;
        let Some(lease_left_ms) = view.lease_left_ms.filter(|_| may_pause && is_close && has_replicas) else {
            return Vec::new();
        };
        let (ends, number) = (ends.clone(), view.pause_number);
        self.stage = Stage::Pausing { ends, number, since: now };
        let ms = lease_left_ms.max(CATCH_UP_MS) + MARGIN_MS;
        vec![MoveStep::Pause { source: view.source.clone(), ms, number }]
    }

    fn switch(&mut self, now: u64, view: &MoveView<'_>) -> Vec<MoveStep> {
        match &mut self.stage {
            Stage::Idle if view.both_serve && now >= self.again_at => {
                let Some(seen) = view.target_seen.filter(|seen| seen.serves) else { return Vec::new() };
                self.attempts += 1;
                let (source, target) = (view.source.clone(), view.target.clone());
                let ends = Ends { source, target, target_run: seen.run.to_owned() };
                let (source, target) = (ends.source.clone(), ends.target.clone());
                self.stage = Stage::Copying { ends, pause_from: 0 };
                vec![MoveStep::StartCopy { source, target }]
            }
            Stage::Paused { number, at, until, complete_at, needs, lacks, .. } => {
                let is_on = |seen: &SourceSeen<'_>| {
                    seen.asked_at >= *at && seen.pauses.is_none_or(|pauses| pauses.contains(number))
                };
                let is_whole =
                    |copy: &CopyProgress, end: u64| copy.is_following && !copy.lacks_times && copy.offset >= end;
                let has_all = view
                    .seen
                    .filter(is_on)
                    .is_some_and(|seen| view.copy.is_some_and(|copy| is_whole(copy, seen.offset)));
                *complete_at = complete_at.or_else(|| has_all.then_some(now));
                *needs = needs.or_else(|| view.target_copies.as_ref()?.offset_since((*complete_at)?));
                let is_copied = view.target_copies.as_ref().is_none_or(|copies| copies.have(*needs));
                *lacks = has_all && !is_copied;
                // The pause must outlast the lease: then nobody serves the slots who should not.
                let is_over = view.lease_left_ms.is_some_and(|left| now + left < *until);
                let is_safe = is_over && view.other_leases_ms == Some(0);
                let late_at = (*at + CATCH_UP_MS).min(*until);
                if has_all && is_copied && is_safe && view.target_seen.is_some() {
                    vec![MoveStep::Write(SlotEvent::Switch)]
                } else if let Some(left) = view.other_leases_ms.filter(|left| now + left > late_at) {
                    // A voter that has just started does not know what it gave before. Nobody waits in vain until that is over.
                    self.retreat(now + left)
                } else if now >= late_at {
                    self.retreat(now + AGAIN_MS)
                } else {
                    Vec::new()
                }
            }
            Stage::Pausing { since, .. } if now >= *since + CATCH_UP_MS + view.fence_ms => self.retreat(now + AGAIN_MS),
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
        pauses: Vec<u64>,
        other_leases_ms: Option<u64>,
        run: &'static str,
        serves: bool,
        is_told: bool,
    }

    impl Scene {
        fn new() -> Self {
            let (source, target) = (Address::new("s", 1), Address::new("t", 2));
            let (pauses, run) = (vec![7], "r");
            Self {
                source,
                target,
                copy: None,
                asked_at: 0,
                may_pause: true,
                pauses,
                other_leases_ms: Some(0),
                run,
                serves: true,
                is_told: true,
            }
        }

        fn poll(&self, machine: &mut Migration, now: u64, phase: Phase) -> Vec<MoveStep> {
            let view = MoveView {
                source: &self.source,
                target: &self.target,
                both_serve: true,
                copy: self.copy.as_ref(),
                seen: Some(SourceSeen { asked_at: self.asked_at, offset: 100, pauses: Some(&self.pauses) }),
                lease_left_ms: Some(1_000),
                other_leases_ms: self.other_leases_ms,
                may_pause: self.may_pause,
                pause_number: 7,
                target_seen: Some(TargetSeen { run: self.run, serves: self.serves, is_told: self.is_told }),
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
        scene.serves = false;
        assert!(scene.poll(&mut machine, 1, Phase::Copying).is_empty(), "nobody has told it what to wait for");
        scene.serves = true;
        assert!(matches!(scene.poll(&mut machine, 1, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        assert!(scene.poll(&mut machine, 2, Phase::Copying).is_empty());
        scene.copied(90);
        // Another range of the source pauses.
        scene.may_pause = false;
        assert!(scene.poll(&mut machine, 3, Phase::Copying).is_empty());
        scene.may_pause = true;
        assert!(matches!(
            scene.poll(&mut machine, 4, Phase::Copying)[..],
            [MoveStep::Pause { ms: 2_000, number: 7, .. }]
        ));
        machine.handle_paused(8, 4, 2_004);
        assert!(machine.paused_at().is_none(), "that is another pause");
        machine.handle_paused(7, 4, 2_004);
        assert!(scene.poll(&mut machine, 5, Phase::Copying).is_empty(), "the source's end is not known yet");
        scene.asked_at = 4;
        assert!(scene.poll(&mut machine, 6, Phase::Copying).is_empty(), "the target does not have all");
        scene.copied(100);
        scene.pauses = vec![6, 8];
        assert!(scene.poll(&mut machine, 7, Phase::Copying).is_empty(), "the pause is not on");
        (scene.pauses, scene.other_leases_ms) = (vec![6, 7], Some(900));
        assert!(scene.poll(&mut machine, 7, Phase::Copying).is_empty(), "another process of the source may serve");
        scene.other_leases_ms = Some(0);
        assert_eq!(scene.poll(&mut machine, 7, Phase::Copying), [MoveStep::Write(SlotEvent::Switch)]);
        machine.handle_switched();
        assert!(!machine.is_pausing());
        scene.is_told = false;
        assert_eq!(scene.poll(&mut machine, 8, Phase::Clearing), [MoveStep::StopCopy]);
        scene.is_told = true;
        machine.handle_switched();
        let last = scene.poll(&mut machine, 8, Phase::Clearing);
        assert_eq!(last, [MoveStep::StopCopy, MoveStep::Clear { server: scene.source.clone() }]);
    }

    #[test]
    fn what_is_not_sure_to_be_safe_begins_anew() {
        let (mut scene, mut machine) = (Scene::new(), Migration::new(one(0, 1, 2)));
        scene.poll(&mut machine, 1, Phase::Copying);
        scene.copied(90);
        scene.poll(&mut machine, 2, Phase::Copying);
        machine.handle_paused(7, 2, 2_002);
        // The target did not get the rest in time: commands go on, and wait again later.
        let end = MoveStep::EndPause { source: scene.source.clone(), number: 7 };
        assert_eq!(scene.poll(&mut machine, 2 + CATCH_UP_MS, Phase::Copying), std::slice::from_ref(&end));
        assert!(scene.poll(&mut machine, 1 + CATCH_UP_MS + AGAIN_MS, Phase::Copying).is_empty());
        let again = scene.poll(&mut machine, 2 + CATCH_UP_MS + AGAIN_MS, Phase::Copying);
        assert!(matches!(again[..], [MoveStep::Pause { .. }]));
        machine.handle_paused(7, 2_502, 4_502);
        // A voter has just started, and does not know for whom it voted before: commands go on until that is over.
        (scene.asked_at, scene.other_leases_ms) = (2_502, Some(5_000));
        assert_eq!(scene.poll(&mut machine, 2_502, Phase::Copying), std::slice::from_ref(&end));
        assert!(scene.poll(&mut machine, 7_501, Phase::Copying).is_empty());
        scene.other_leases_ms = Some(0);
        let again = scene.poll(&mut machine, 7_502, Phase::Copying);
        assert!(matches!(again[..], [MoveStep::Pause { .. }]));
        machine.handle_paused(7, 7_502, 9_502);
        // While they wait, the source gets another master: that one's do not wait.
        let former = std::mem::replace(&mut scene.source, Address::new("s", 9));
        (scene.asked_at, scene.copy) = (7_503, None);
        scene.copied(100);
        assert_eq!(scene.poll(&mut machine, 7_504, Phase::Copying), [end, MoveStep::StopCopy]);
        scene.source = former;
        scene.copy = None;
        assert!(matches!(scene.poll(&mut machine, 7_505, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // The target has another master.
        scene.target = Address::new("t", 3);
        assert_eq!(scene.poll(&mut machine, 7_601, Phase::Copying), [MoveStep::StopCopy]);
        assert!(matches!(scene.poll(&mut machine, 7_602, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // It is another process than the one that has acknowledged what was copied.
        scene.run = "another";
        assert_eq!(scene.poll(&mut machine, 7_602, Phase::Copying), [MoveStep::StopCopy]);
        assert!(matches!(scene.poll(&mut machine, 7_602, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // A copy that fails is not begun again at once.
        machine.handle_copy_failed(7_602);
        assert!(scene.poll(&mut machine, 7_601 + AGAIN_MS, Phase::Copying).is_empty());
        assert!(matches!(scene.poll(&mut machine, 7_602 + AGAIN_MS, Phase::Copying)[..], [MoveStep::StartCopy { .. }]));
        // It is cancelled: what the target has got is removed.
        let steps = scene.poll(&mut machine, 8_603, Phase::Undoing);
        assert_eq!(steps, [MoveStep::StopCopy, MoveStep::Clear { server: scene.target.clone() }]);
        assert_eq!(scene.poll(&mut machine, 8_604, Phase::Undoing), [MoveStep::Clear { server: scene.target.clone() }]);
    }

    fn view<'a>(ends: &'a [Address; 2], copy: &'a CopyProgress, copies: Option<TargetCopies>) -> MoveView<'a> {
        MoveView {
            source: &ends[0],
            target: &ends[1],
            both_serve: true,
            copy: Some(copy),
            seen: Some(SourceSeen { asked_at: 1_000, offset: 70, pauses: None }),
            lease_left_ms: Some(0),
            other_leases_ms: Some(0),
            may_pause: true,
            pause_number: 1,
            target_seen: Some(TargetSeen { run: "r", serves: true, is_told: true }),
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
        machine.handle_held(1_000, 9_000);
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
        // Keys that have not got their times yet are waited for.
        let mut machine = paused(&ends, &copy);
        let untimed = CopyProgress { lacks_times: true, ..copy.clone() };
        assert_eq!(machine.is_paused(), Some(true));
        assert_eq!(machine.poll_steps(1_010, Phase::Copying, &view(&ends, &untimed, None)), []);
        assert_eq!(machine.poll_steps(1_020, Phase::Copying, &view(&ends, &copy, None)), switch);
        // Without a replica nothing is made to wait; if it leaves then, the move begins anew, and what waits goes on.
        let mut machine = Migration::new(Move { slots: SlotRange::new(0, 9).unwrap(), from: 1, to: 2 });
        let seen = view(&ends, &copy, copies(Some((900, 500)), &[]));
        assert_eq!(machine.poll_steps(900, Phase::Copying, &seen).len(), 1);
        assert_eq!(machine.poll_steps(950, Phase::Copying, &seen), []);
        let mut machine = paused(&ends, &copy);
        let seen = view(&ends, &copy, copies(Some((1_020, 500)), &[]));
        assert_eq!(machine.poll_steps(1_010, Phase::Copying, &seen), []);
        assert!(machine.lacks_replicas());
        let anew = [MoveStep::EndPause { source: ends[0].clone(), number: 1 }];
        assert_eq!(machine.poll_steps(1_000 + CATCH_UP_MS, Phase::Copying, &seen), anew);
    }
}
