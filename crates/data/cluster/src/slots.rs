//! The states of a slot.
//!
//! ```text
//!            assign              begin              start              switch             cleared
//!  Offline ----------> Online(a) ------> Planned ----------> Copying ----------> Clearing --------> Online(b)
//!     ^                 |    ^              | cancel            | cancel
//!     |     release     |    |              |                   v        cleared
//!     +-----------------+    +--------------+                Undoing ----------------------------> Online(a)
//! ```
//!
//! Ranges that begin to move together stay apart by their `part`, the first slot of each: neighbours are moved one after the other,
//! or at once, and never as one. Up to the switch the slot is served by the group that it comes from, after it by the one that it goes to. The switch is one
//! change of the cluster, so there is no moment at which it is both's or nobody's. All states are kept by the coordinator: what dies
//! in the middle is gone on with, or cancelled.

use serde::{Deserialize, Serialize};

/// A group by number.
pub type GroupId = u32;

/// The slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// First and last slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlotRange {
    /// The first.
    pub first: u16,
    /// The last, which belongs to it.
    pub last: u16,
}

impl SlotRange {
    /// All slots.
    pub const ALL: Self = Self { first: 0, last: SLOTS - 1 };

    /// A range, if it is one.
    ///
    /// # Errors
    ///
    /// A slot that there is not, or the last stands before the first.
    pub fn new(first: u16, last: u16) -> Result<Self, NoRange> {
        if first <= last && last < SLOTS { Ok(Self { first, last }) } else { Err(NoRange { first, last }) }
    }

    /// Its slots.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }

    /// How many they are.
    #[must_use]
    pub fn count(self) -> u16 {
        self.last - self.first + 1
    }

    /// Whether a slot is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl std::fmt::Display for SlotRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            write!(formatter, "{}", self.first)
        } else {
            write!(formatter, "{}-{}", self.first, self.last)
        }
    }
}

/// Slots that go from one group to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The slots.
    pub slots: SlotRange,
    /// Where they are.
    pub from: GroupId,
    /// Where they go.
    pub to: GroupId,
}

/// Not a range of slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first} to {last} are no slots: the first is not above the last, and the last slot is {}", SLOTS - 1)]
pub struct NoRange {
    first: u16,
    last: u16,
}

/// How far a slot is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It is to move; nothing has been done.
    Planned,
    /// Its keys are copied, and what changes meanwhile.
    Copying,
    /// It has moved; what the former group has of it is removed.
    Clearing,
    /// It stays; what the other group has got of it is removed.
    Undoing,
}

/// What is with a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum SlotState {
    /// Nobody serves it.
    #[default]
    Offline,
    /// A group serves it.
    Online {
        /// Which.
        group: GroupId,
    },
    /// It is on its way.
    Migrating {
        /// Where it comes from.
        from: GroupId,
        /// Where it goes to.
        to: GroupId,
        /// How far it is.
        phase: Phase,
        /// The first slot of the range that it moves with.
        #[serde(default)]
        part: u16,
    },
}

/// What happens to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEvent {
    /// A group gets it, with no keys.
    Assign(GroupId),
    /// Its group gives it up, with its keys.
    Release,
    /// It is to move.
    Begin(GroupId),
    /// The copy begins.
    Start,
    /// It has moved.
    Switch,
    /// The group that does not have it has nothing of it any more.
    Cleared,
    /// It stays where it is.
    Cancel,
}

/// A step that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStep {
    /// It is served already.
    #[error("it belongs to group {0} already: move it")]
    Served(GroupId),
    /// Nobody serves it.
    #[error("no group serves it: give it to one (slot set)")]
    Offline,
    /// It is where it is to go.
    #[error("group {0} has it already")]
    There(GroupId),
    /// It is on its way.
    #[error("it is on its way from group {from} to group {to}: wait for that, or cancel it")]
    Moving {
        /// Where it comes from.
        from: GroupId,
        /// Where it goes to.
        to: GroupId,
    },
    /// It has moved and cannot go back that way.
    #[error("it has moved to group {0} already: move it back")]
    Moved(GroupId),
    /// It is not on its way.
    #[error("it is not on its way")]
    NotMoving,
}

impl SlotState {
    /// Who serves it.
    #[must_use]
    pub fn owner(self) -> Option<GroupId> {
        match self {
            Self::Offline => None,
            Self::Online { group } => Some(group),
            Self::Migrating { to, phase: Phase::Clearing, .. } => Some(to),
            Self::Migrating { from, .. } => Some(from),
        }
    }

    /// Whether a group has to do with it.
    #[must_use]
    pub fn concerns(self, id: GroupId) -> bool {
        match self {
            Self::Offline => false,
            Self::Online { group } => group == id,
            Self::Migrating { from, to, .. } => from == id || to == id,
        }
    }

    /// What it is after something has happened.
    ///
    /// # Errors
    ///
    /// That cannot happen to it now.
    pub fn after(self, event: SlotEvent) -> Result<Self, NoStep> {
        use {Phase as P, SlotEvent as E, SlotState as S};
        Ok(match (self, event) {
            (S::Offline, E::Assign(group)) => S::Online { group },
            (S::Online { group }, E::Assign(_)) => return Err(NoStep::Served(group)),
            (S::Online { .. } | S::Offline, E::Release) => S::Offline,
            (S::Online { group }, E::Begin(to)) if group == to => return Err(NoStep::There(to)),
            (S::Online { group }, E::Begin(to)) => S::Migrating { from: group, to, phase: P::Planned, part: 0 },
            (S::Offline, E::Begin(_)) => return Err(NoStep::Offline),
            (S::Migrating { from, to, phase: P::Planned, part }, E::Start) => {
                S::Migrating { from, to, phase: P::Copying, part }
            }
            (S::Migrating { from, to, phase: P::Copying, part }, E::Switch) => {
                S::Migrating { from, to, phase: P::Clearing, part }
            }
            (S::Migrating { to, phase: P::Clearing, .. }, E::Cleared) => S::Online { group: to },
            (S::Migrating { from, phase: P::Undoing, .. }, E::Cleared) => S::Online { group: from },
            (S::Migrating { to, phase: P::Clearing, .. }, E::Cancel) => return Err(NoStep::Moved(to)),
            (S::Migrating { from, phase: P::Planned, .. }, E::Cancel) => S::Online { group: from },
            (S::Migrating { from, to, part, .. }, E::Cancel) => S::Migrating { from, to, phase: P::Undoing, part },
            (S::Migrating { from, to, .. }, _) => return Err(NoStep::Moving { from, to }),
            (_, E::Start | E::Switch | E::Cleared | E::Cancel) => return Err(NoStep::NotMoving),
        })
    }
}

/// The states of all slots. Written as ranges of slots that are in the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SlotRun>", into = "Vec<SlotRun>")]
pub struct SlotMap(Box<[SlotState]>);

/// Slots behind each other in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRun {
    /// The slots.
    #[serde(flatten)]
    pub slots: SlotRange,
    /// Their state.
    #[serde(flatten)]
    pub state: SlotState,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self(vec![SlotState::Offline; usize::from(SLOTS)].into())
    }
}

impl SlotMap {
    /// The state of a slot.
    #[must_use]
    pub fn state(&self, slot: u16) -> SlotState {
        self.0.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Who serves a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<GroupId> {
        self.state(slot).owner()
    }

    /// The same after something has happened to some slots: to all of them, or none.
    ///
    /// # Errors
    ///
    /// The slot to which it cannot happen, and why.
    pub fn after(&self, slots: SlotRange, event: SlotEvent) -> Result<Self, (u16, NoStep)> {
        let mut map = self.clone();
        for slot in slots.iter() {
            if let Some(state) = map.0.get_mut(usize::from(slot)) {
                *state = state.after(event).map_err(|problem| (slot, problem))?;
                if let (SlotState::Migrating { part, .. }, SlotEvent::Begin(_)) = (state, event) {
                    *part = slots.first;
                }
            }
        }
        Ok(map)
    }

    /// Slots behind each other that are in the same state.
    #[must_use]
    pub fn runs(&self) -> Vec<SlotRun> {
        let mut runs: Vec<SlotRun> = Vec::new();
        for (slot, state) in (0..SLOTS).zip(self.0.iter()) {
            match runs.last_mut() {
                Some(run) if run.state == *state => run.slots.last = slot,
                _ => runs.push(SlotRun { slots: SlotRange { first: slot, last: slot }, state: *state }),
            }
        }
        runs
    }

    /// The ranges that a group serves.
    #[must_use]
    pub fn owned_by(&self, group: GroupId) -> Vec<SlotRange> {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.owner(*slot) == Some(group)) {
            match ranges.last_mut() {
                Some(range) if range.last + 1 == slot => range.last = slot,
                _ => ranges.push(SlotRange { first: slot, last: slot }),
            }
        }
        ranges
    }

    /// How many slots a group serves.
    #[must_use]
    pub fn count_of(&self, group: GroupId) -> u16 {
        self.0.iter().filter(|state| state.owner() == Some(group)).count() as u16
    }
}

impl TryFrom<Vec<SlotRun>> for SlotMap {
    type Error = NoRange;

    fn try_from(runs: Vec<SlotRun>) -> Result<Self, NoRange> {
        let mut map = Self::default();
        for run in runs {
            for slot in SlotRange::new(run.slots.first, run.slots.last)?.iter() {
                if let Some(state) = map.0.get_mut(usize::from(slot)) {
                    *state = run.state;
                }
            }
        }
        Ok(map)
    }
}

impl From<SlotMap> for Vec<SlotRun> {
    fn from(map: SlotMap) -> Self {
        map.runs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_goes_its_way_and_no_other() {
        let mut state = SlotState::Offline;
        let steps =
            [SlotEvent::Assign(1), SlotEvent::Begin(2), SlotEvent::Start, SlotEvent::Switch, SlotEvent::Cleared];
        let owners: Vec<Option<GroupId>> = steps
            .iter()
            .map(|event| {
                state = state.after(*event).unwrap();
                state.owner()
            })
            .collect();
        assert_eq!(owners, [Some(1), Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(state.after(SlotEvent::Begin(2)), Err(NoStep::There(2)));
        let moving = SlotState::Migrating { from: 1, to: 2, phase: Phase::Clearing, part: 0 };
        assert_eq!(moving.after(SlotEvent::Cancel), Err(NoStep::Moved(2)));
        let planned = SlotState::Migrating { from: 1, to: 2, phase: Phase::Planned, part: 0 };
        assert_eq!(planned.after(SlotEvent::Cancel), Ok(SlotState::Online { group: 1 }));
        // What the target has got already is removed first.
        let copying = SlotState::Migrating { from: 1, to: 2, phase: Phase::Copying, part: 0 };
        let undoing = copying.after(SlotEvent::Cancel).unwrap();
        assert_eq!((undoing.owner(), undoing.after(SlotEvent::Cancel)), (Some(1), Ok(undoing)));
        assert_eq!(undoing.after(SlotEvent::Cleared), Ok(SlotState::Online { group: 1 }));
        assert_eq!(copying.after(SlotEvent::Release), Err(NoStep::Moving { from: 1, to: 2 }));
    }

    #[test]
    fn ranges_change_as_a_whole_and_are_written_short() {
        let all = SlotMap::default().after(SlotRange::ALL, SlotEvent::Assign(1)).unwrap();
        let moving = all.after(SlotRange::new(5, 9).unwrap(), SlotEvent::Begin(2)).unwrap();
        assert_eq!(moving.after(SlotRange::new(0, 7).unwrap(), SlotEvent::Begin(2)).unwrap_err().0, 5);
        assert_eq!(moving.runs().len(), 3);
        let text = serde_json::to_string(&moving).unwrap();
        assert!(text.starts_with(r#"[{"first":0,"last":4,"state":"online","group":1},"#), "{text}");
        assert_eq!(serde_json::from_str::<SlotMap>(&text).unwrap(), moving);
        assert!(serde_json::from_str::<SlotMap>(r#"[{"first":5,"last":4,"state":"offline"}]"#).is_err());
    }

    #[test]
    fn neighbours_that_move_stay_apart() {
        let range = |first, last| SlotRange::new(first, last).unwrap();
        let mut map = SlotMap::default().after(SlotRange::ALL, SlotEvent::Assign(1)).unwrap();
        for slots in [range(0, 9), range(10, 19)] {
            map = map.after(slots, SlotEvent::Begin(2)).unwrap();
        }
        assert_eq!(map.runs().len(), 3);
        let read: SlotMap = serde_json::from_str(&serde_json::to_string(&map).unwrap()).unwrap();
        assert_eq!(read, map);
        // A record of before says nothing of parts.
        let before = r#"[{"first":0,"last":9,"state":"migrating","from":1,"to":2,"phase":"copying"}]"#;
        assert_eq!(serde_json::from_str::<SlotMap>(before).unwrap().owner(3), Some(1));
    }
}
