//! A master that is gone, and who takes its place.

use super::{Keeper, Step};
use crate::model::{Address, Group, InSync};

/// How long, in milliseconds, replicas are waited for before a master that has come back is preferred.
const CANDIDATES_MS: u64 = 1_500;
/// How long the best of all replicas is waited for when nothing was promised.
const BEST_MS: u64 = 300;

impl Keeper {
    /// From when on the master serves no more; nothing if it still may.
    fn master_fenced_since(&self, now: u64, group: &Group) -> Option<u64> {
        let Some(member) = self.members.get(&group.master) else {
            return (now >= self.unknown_lease_until).then_some(self.unknown_lease_until);
        };
        let since = member.exited_at.unwrap_or(member.lease_until.max(self.began_at));
        (now >= since).then_some(since)
    }

    /// Whether the master is given up: it has ended, or is silent and may not serve any more.
    fn is_master_lost(&self, now: u64, group: &Group) -> bool {
        self.fresh(&group.master, now).is_none() && self.master_fenced_since(now, group).is_some()
    }

    /// A master whose process has ended is not waited for while one of those in sync can take its place at once: nothing is told to
    /// the new process.
    pub(super) fn prefers_others(&self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        let exited = self.members.get(&group.master).and_then(|member| member.exited_at);
        exited.is_some_and(|exited| now < exited + CANDIDATES_MS) && !in_sync.members.is_empty()
    }

    /// How many of those in sync must have said how far they are, so that one of them has all that was acknowledged.
    fn quorum(group: &Group, in_sync: &InSync) -> usize {
        let members = in_sync.members.len();
        let acknowledged = (group.ack as usize).min(members);
        if acknowledged == 0 { 1 } else { members - acknowledged + 1 }
    }

    pub(super) fn elect_if_needed(&self, now: u64, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) {
        if in_sync.members.is_empty() || !self.is_master_lost(now, group) {
            return;
        }
        let Some(fenced_since) = self.master_fenced_since(now, group) else { return };
        // What they said before the master stopped may not be all that they have got of it.
        let heard: Vec<(&Address, u64)> = in_sync
            .members
            .iter()
            .filter_map(|member| self.fresh(member, now).map(|seen| (member, seen)))
            .filter(|(_, seen)| seen.asked_at >= fenced_since)
            .map(|(member, seen)| (member, seen.offset))
            .collect();
        let is_complete = heard.len() == in_sync.members.len();
        let waits_for_best = group.ack == 0 && !is_complete && now < fenced_since + BEST_MS;
        if heard.len() < Self::quorum(group, in_sync) || waits_for_best {
            return;
        }
        if let Some((best, offset)) = heard.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0))) {
            let exited = self.members.get(&group.master).is_some_and(|member| member.exited_at.is_some());
            let what = if exited { "has ended" } else { "does not answer" };
            let reason = format!("{} {what}; {best} has all that was acknowledged (offset {offset})", group.master);
            steps.push(Step::Elect { master: best.clone(), reason });
        }
    }
}
