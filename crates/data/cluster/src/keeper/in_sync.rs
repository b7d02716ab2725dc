//! Who has all that was acknowledged: how a replica gets among those, and how it leaves them.
//!
//! The coordinator's record is changed in this order:
//!
//! 1. The master is told to count so that both records are covered, the present one and the next (see [`super::counting`]). Orders have
//!    numbers, so one that comes late is refused.
//! 2. It has said that it does, at a time when most voters listen to no leader before this one: so no other process of it serves by
//!    something that an earlier leader has said.
//! 3. What its log had *then*, so all that was acknowledged before, must be on as many of the next members as their record promises.
//! 4. The next record is written by compare-and-swap, and the master is told to count for it alone. A write of which nobody knows
//!    whether it was done stays among those that must be covered.
//!
//! When what was promised before is enough for the next record, 1 to 3 are skipped: the only replica is written off at once, say.

use super::{
    Keeper, Observation, Role, Situation, Step,
    counting::{Count, Ordered},
};
use crate::{
    ballot::Verdict,
    model::{Address, Group, InSync},
};

/// A replica that is farther behind, in bytes, is not waited for yet.
const LAG_MAX: u64 = 1 << 20;

/// How far the change of who is in sync has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Joining {
    /// What the master was told last.
    ordered: Option<Ordered>,
    /// The process of the master that has obeyed this leader.
    obedient_run: Option<String>,
    /// What the next members must have.
    goal: Option<Goal>,
    /// What was to be written, and may be there or come any time: the coordinator did not say.
    asked: Vec<InSync>,
}

#[derive(Clone, Debug)]
struct Goal {
    next: Vec<Address>,
    /// The order after which nothing else was acknowledged.
    serial: u64,
    offset: u64,
}

/// What stands while a keeper decides.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    pub(super) now: u64,
    pub(super) situation: &'a Situation<'a>,
    pub(super) group: &'a Group,
    pub(super) in_sync: &'a InSync,
}

impl Keeper {
    fn next_in_sync(in_sync: &InSync, members: Vec<Address>) -> InSync {
        InSync { config_epoch: in_sync.config_epoch, members, ack: None, serial: in_sync.serial + 1 }
    }

    /// A replica's answer, if it follows this master now.
    fn linked<'a>(&'a self, replica: &Address, master: &Address, now: u64) -> Option<&'a Observation> {
        let seen = self.heard_within(replica, now, self.patience.replica_ms)?;
        let follows = matches!(&seen.role, Role::Replica { master: followed, is_linked: true } if followed == master);
        follows.then_some(seen)
    }

    /// A replica that has just lost this master is waited for: a master that ends closes its connections before it is gone, and then
    /// this replica is the one that can take its place.
    fn may_link_again(&self, replica: &Address, master: &Address, now: u64) -> bool {
        let Some(seen) = self.heard_within(replica, now, self.patience.replica_ms) else { return false };
        let follows = matches!(&seen.role, Role::Replica { master: followed, .. } if followed == master);
        let since = self.members.get(replica).and_then(|member| member.unlinked_since);
        follows && since.is_some_and(|since| now < since + self.patience.replica_ms)
    }

    pub(super) fn keep_in_sync(&mut self, standing: Standing<'_>, steps: &mut Vec<Step>) {
        let Standing { now, situation, group, in_sync } = standing;
        // While the master is silent, or has just been started anew, those in sync may be needed to take its place.
        if self.prefers_others(now, group, in_sync) {
            return;
        }
        let Some(master) = self.fresh(&group.master, now).filter(|seen| seen.role == Role::Master).cloned() else {
            self.joining.goal = None;
            return;
        };
        let is_open = |asked: &InSync| asked.config_epoch == in_sync.config_epoch && asked.serial > in_sync.serial;
        self.joining.asked.retain(is_open);
        let next = self.next_record(standing, &master);
        let records: Vec<&InSync> = self.joining.asked.iter().chain([in_sync, &next]).collect();
        let count = Count::covering(&records, group);
        let order = Ordered::follow(self.joining.ordered.as_ref(), count, &master.run, now);
        let is_obeyed = order.is_obeyed(&master, situation.term);
        if is_obeyed {
            self.joining.obedient_run = Some(master.run.clone());
        } else {
            let (server, count) = (group.master.clone(), order.count.clone());
            steps.push(Step::Count { server, serial: order.serial, count });
        }
        self.judge(standing, &master);
        let is_believed = situation.believed_since.is_some_and(|since| master.asked_at >= since);
        let serial = order.serial;
        self.joining.ordered = Some(order);
        let is_changed = next.members != in_sync.members || next.needed(group) != in_sync.needed(group);
        let is_due = match is_changed {
            // Nothing comes of it: the same is written again, and then what was asked for cannot be done any more.
            false => !self.joining.asked.is_empty(),
            true => self.may_be_written(standing, &next, &master, (is_obeyed && is_believed).then_some(serial)),
        };
        if is_due {
            self.joining.asked.retain(|asked| asked.members != next.members || asked.ack != next.ack);
            self.joining.asked.push(next.clone());
            steps.push(Step::WriteInSync(next));
        }
    }

    /// What is to be written next; the same as there is if nothing is.
    fn next_record(&self, Standing { now, group, in_sync, .. }: Standing<'_>, master: &Observation) -> InSync {
        let is_here = |member: &Address| {
            let follows =
                self.linked(member, &group.master, now).is_some() || self.may_link_again(member, &group.master, now);
            follows && !self.has_fallen(member)
        };
        let mut members: Vec<Address> = in_sync.members.iter().filter(|member| is_here(member)).cloned().collect();
        if members.len() < in_sync.members.len() {
            let has_just_begun = now < self.began_at + self.patience.replica_ms;
            let has_fallen = in_sync.members.iter().any(|member| self.has_fallen(member));
            if !has_fallen && (has_just_begun || self.waits_for_proof(now, group, in_sync)) {
                // They may not have had the time to answer.
                members.clone_from(&in_sync.members);
            }
        } else {
            let joins = |address: &&Address| {
                let Some(seen) = self.linked(address, &group.master, now) else { return false };
                let is_near = master.offset.saturating_sub(seen.offset) <= LAG_MAX;
                // One that the master knows by another address would be waited for in vain.
                is_near && !in_sync.members.contains(address) && master.followers.contains(address)
            };
            members.extend(group.replicas().map(|server| &server.address).find(joins).cloned());
        }
        let ack = group.ack.min(u32::try_from(members.len()).unwrap_or(u32::MAX));
        InSync { ack: Some(ack), ..Self::next_in_sync(in_sync, members) }
    }

    /// Whether each acknowledged write, those to come as well, is on as many of the next members as their record says. `obeyed` is
    /// the number of the order that the master obeys, if it is the last one and nobody else's counts.
    fn may_be_written(
        &mut self,
        Standing { now, group, in_sync, .. }: Standing<'_>,
        next: &InSync,
        master: &Observation,
        obeyed: Option<u64>,
    ) -> bool {
        let is_implied = in_sync.implies(next, group);
        let newcomers: Vec<&Address> = next.members.iter().filter(|member| !in_sync.members.contains(member)).collect();
        if is_implied && newcomers.is_empty() {
            self.joining.goal = None;
            return true;
        }
        let Some(serial) = obeyed else { return false };
        let is_it = |goal: &Goal| goal.serial == serial && goal.next == next.members;
        let offset = match self.joining.goal.as_ref().filter(|goal| is_it(goal)) {
            Some(goal) => goal.offset,
            None => {
                self.joining.goal = Some(Goal { next: next.members.clone(), serial, offset: master.offset });
                master.offset
            }
        };
        let has_it = |member: &Address| {
            let seen = self.heard_within(member, now, self.patience.replica_ms).filter(|seen| seen.offset >= offset);
            seen.is_some_and(|seen| matches!(&seen.role, Role::Replica { master, .. } if *master == group.master))
        };
        let holders = next.members.iter().filter(|member| has_it(member)).count();
        newcomers.into_iter().all(has_it) && (is_implied || holders >= next.needed(group))
    }

    /// Says which process of the master may serve: one that counts so that all that it acknowledges is where it must be.
    fn judge(&mut self, Standing { group, in_sync, .. }: Standing<'_>, master: &Observation) {
        let count = master.counting.as_ref().map(|told| told.count.clone()).unwrap_or_default();
        let mut records = self.joining.asked.iter().chain([in_sync]);
        let is_covered = records.clone().all(|record| count.covers(record, group));
        let waits_enough = !group.is_strict || count.ack >= group.ack;
        let run = match is_covered && waits_enough && master.epoch >= group.config_epoch {
            false => None,
            // Its folder may have been set back.
            true if !self.is_proven(&master.run) => return,
            // Another process of it may still be told what was meant for one before; this one obeys, and takes nothing older.
            true if self.joining.obedient_run.as_ref() == Some(&master.run) => Some(master.run.clone()),
            true if records.all(|record| record.needed(group) == 0) => Some(master.run.clone()),
            // What the leader before has said stands.
            true => return,
        };
        self.promises.verdict = Some(Verdict { config_epoch: group.config_epoch, run });
    }
}
