//! Who has all that was acknowledged: how a replica gets among those, and how it leaves them.

use std::collections::BTreeMap;

use super::{Keeper, Observation, Role, Step};
use crate::model::{Address, Group, InSync};

/// A replica that is farther behind, in bytes, is not waited for yet.
const LAG_MAX: u64 = 1 << 20;

/// Replicas that are about to be in sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Joining {
    /// The master's process that was told to wait for them.
    run: Option<String>,
    /// What each must have, once the master waits for it.
    goals: BTreeMap<Address, Option<u64>>,
    /// What was to be written last.
    asked: Option<InSync>,
    /// When the master was told last for how many it is to wait: what it said before says nothing of that.
    told_at: u64,
}

impl Joining {
    pub(super) fn note_told(&mut self, now: u64) {
        self.told_at = now;
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.goals.len()
    }
}

impl Keeper {
    fn next_in_sync(in_sync: &InSync, members: Vec<Address>) -> InSync {
        InSync { config_epoch: in_sync.config_epoch, members, serial: in_sync.serial + 1 }
    }

    /// Those of a write that may have been done, or may be done any time: the coordinator did not say.
    fn doubtful(&self, in_sync: &InSync) -> Option<&InSync> {
        let asked = self.joining.asked.as_ref();
        asked.filter(|asked| asked.config_epoch == in_sync.config_epoch && asked.serial > in_sync.serial)
    }

    /// How many replicas the master is to wait for.
    pub(super) fn wanted_ack(&self, group: &Group, in_sync: &InSync) -> u32 {
        if group.is_strict {
            return group.ack;
        }
        let doubtful = self.doubtful(in_sync).map_or(0, |asked| asked.members.len());
        let there = (in_sync.members.len() + self.joining.count()).max(doubtful);
        group.ack.min(u32::try_from(there).unwrap_or(u32::MAX))
    }

    /// For how many it must wait at least, so that one of those in sync has what is acknowledged.
    pub(super) fn least_ack(group: &Group, in_sync: &InSync) -> u32 {
        if group.is_strict {
            return group.ack;
        }
        group.ack.min(u32::try_from(in_sync.members.len()).unwrap_or(u32::MAX))
    }

    /// A replica's answer, if it follows this master now.
    fn linked<'a>(&'a self, replica: &Address, master: &Address, now: u64) -> Option<&'a Observation> {
        let seen = self.heard_within(replica, now, self.patience.replica_ms)?;
        let follows = matches!(&seen.role, Role::Replica { master: followed, is_linked: true } if followed == master);
        follows.then_some(seen)
    }

    pub(super) fn keep_in_sync(&mut self, now: u64, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) {
        // While the master is silent, or has just been started anew, those in sync may be needed to take its place.
        if self.prefers_others(now, group, in_sync) {
            return;
        }
        let Some(master) = self.fresh(&group.master, now).filter(|seen| seen.role == Role::Master).cloned() else {
            self.joining.goals.clear();
            return;
        };
        // Another process of the master has other settings: what was said to the one before does not hold.
        if self.joining.run.as_ref() != Some(&master.run) {
            self.joining.goals.clear();
            self.joining.run = Some(master.run.clone());
        }
        let (staying, leaving): (Vec<Address>, Vec<Address>) =
            in_sync.members.iter().cloned().partition(|member| self.linked(member, &group.master, now).is_some());
        if !leaving.is_empty() && now < self.began_at + self.patience.replica_ms {
            // They may not have had the time to answer.
            return;
        }
        if !leaving.is_empty() {
            // The next poll tells the master.
            steps.push(Step::WriteInSync(Self::next_in_sync(in_sync, staying)));
            return;
        }
        let candidates: Vec<Address> = group
            .replicas()
            .map(|server| server.address.clone())
            .filter(|address| !staying.contains(address))
            .collect();
        let waits_enough = master.asked_at >= self.joining.told_at && master.ack >= self.wanted_ack(group, in_sync);
        let mut joined = None;
        for replica in candidates {
            let Some(offset) = self.linked(&replica, &group.master, now).map(|seen| seen.offset) else {
                self.joining.goals.remove(&replica);
                continue;
            };
            let Some(goal) = self.joining.goals.get(&replica).copied() else {
                if master.offset.saturating_sub(offset) <= LAG_MAX {
                    self.joining.goals.insert(replica, None);
                }
                continue;
            };
            match goal {
                // From this answer on the master waits for one more: what it had before must get there too.
                None if waits_enough && master.ack >= self.wanted_ack(group, in_sync) => {
                    self.joining.goals.insert(replica, Some(master.offset));
                }
                Some(goal) if waits_enough && offset >= goal && master.ack >= self.wanted_ack(group, in_sync) => {
                    joined.get_or_insert(replica);
                }
                _ => {}
            }
        }
        if let Some(replica) = joined {
            self.joining.goals.remove(&replica);
            let members = staying.into_iter().chain([replica]).collect();
            let next = Self::next_in_sync(in_sync, members);
            self.joining.asked = Some(next.clone());
            steps.push(Step::WriteInSync(next));
        } else if self.doubtful(in_sync).is_some() {
            // Nothing comes of it: the same is written again, and then it cannot be done any more.
            steps.push(Step::WriteInSync(Self::next_in_sync(in_sync, staying)));
        }
    }
}
