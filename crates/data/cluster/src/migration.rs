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
    /// Remove some of what the former group has of the slots.
    Clear {
        /// Its master.
        source: Address,
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
    /// How much longer than a store's pause the wait for proxies may take where the source is a Redis.
    pub fence_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// A copy runs, between these two.
    Copying { source: Address, target: Address },
    /// The source was asked to pause.
    Pausing { since: u64 },
    /// It does.
    Paused { at: u64, until: u64 },
}

/// One move. Volatile: what must last is the phase, which the coordinator has.
#[derive(Clone, Debug)]
pub struct Migration {
    what: Move,
    stage: Stage,
    /// Times that a copy began.
    pub attempts: u32,
}

/// Changes that may be missing when the pause begins, in bytes.
const LAG_MAX: u64 = 256 << 10;
/// How long the last of them are waited for, in milliseconds.
const CATCH_UP_MS: u64 = 1_500;
/// How much longer a pause is than what it is for.
const MARGIN_MS: u64 = 500;

impl Migration {
    /// A move that is to be gone on with.
    #[must_use]
    pub fn new(what: Move) -> Self {
        Self { what, stage: Stage::Idle, attempts: 0 }
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

    /// The copy has failed: it begins anew.
    pub fn handle_copy_failed(&mut self) {
        self.stage = Stage::Idle;
    }

    /// The source has confirmed that commands wait until then.
    pub fn handle_paused(&mut self, now: u64, until: u64) {
        if matches!(self.stage, Stage::Pausing { .. }) {
            self.stage = Stage::Paused { at: now, until };
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
                stop.into_iter().chain([MoveStep::Clear { source: view.source.clone() }]).collect()
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
        if !is_close || !view.both_serve {
            return Vec::new();
        }
        self.stage = Stage::Pausing { since: now };
        vec![MoveStep::Pause { source: view.source.clone(), ms: view.lease_left_ms.max(CATCH_UP_MS) + MARGIN_MS }]
    }

    fn switch(&mut self, now: u64, view: &MoveView<'_>) -> Vec<MoveStep> {
        match self.stage {
            Stage::Idle if view.both_serve => {
                self.attempts += 1;
                let (source, target) = (view.source.clone(), view.target.clone());
                self.stage = Stage::Copying { source: source.clone(), target: target.clone() };
                vec![MoveStep::StartCopy { source, target }]
            }
            Stage::Paused { at, until } => {
                let has_all = view.source_offset.filter(|(asked_at, _)| *asked_at >= at).is_some_and(|(_, offset)| {
                    view.copy.is_some_and(|copy| copy.is_following && copy.offset >= offset)
                });
                // The pause must outlast the lease: then nobody serves the slots who should not.
                let is_safe = now + view.lease_left_ms < until;
                if has_all && is_safe {
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
