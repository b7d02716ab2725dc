//! A master that is gone, and who takes its place.

use super::{Keeper, Step};
use crate::model::{Address, Group, InSync};

/// How long the best of all replicas is waited for when nothing was promised.
const BEST_MS: u64 = 300;

/// How many of those in sync must have said how far they are, so that one of them has all that was acknowledged.
pub(super) fn quorum(group: &Group, in_sync: &InSync) -> usize {
    match in_sync.needed(group) {
        0 => 1,
        acknowledged => in_sync.members.len() - acknowledged + 1,
    }
}

impl Keeper {
    /// Whether servers have had the time to answer: a keeper that has just begun has heard nobody yet.
    #[must_use]
    pub fn had_time(&self, now: u64) -> bool {
        now >= self.began_at + self.patience.master_ms / 2
    }

    /// Whether the master is given up: it is silent, or its process has ended and another one can take its place.
    fn is_master_lost(&self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        (self.had_time(now) && self.is_too_silent(&group.master, now)) || self.prefers_others(now, group, in_sync)
    }

    /// A master whose process has ended, or has lost a part of its log, is not waited for while one of those in sync can take its place at
    /// once: nothing is told to the new process.
    pub(super) fn prefers_others(&self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        let until = self.members.get(&group.master).map_or(0, |member| member.succession_until);
        (now < until || self.lost_part(group).is_some()) && !in_sync.members.is_empty()
    }

    /// Elects another master when the present one is lost. Says whether it is about that.
    pub(super) fn elect_if_needed(&mut self, now: u64, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) -> bool {
        let is_master_lost = self.is_master_lost(now, group, in_sync);
        if self.elect_last_resort(now, group, is_master_lost, steps) {
            return true;
        }
        if in_sync.members.is_empty() {
            return self.go_on_alone(now, group, steps);
        }
        if !is_master_lost {
            return false;
        }
        let Some(fenced_since) = self.fence().filter(|_| self.is_fenced(now, &group.master)) else { return true };
        // What they said before the master stopped may not be all that they have got of it.
        let mut heard: Vec<(&Address, u64)> = in_sync
            .members
            .iter()
            .filter_map(|member| self.fresh(member, now).map(|seen| (member, seen)))
            .filter(|(_, seen)| seen.asked_at >= fenced_since)
            .map(|(member, seen)| (member, seen.offset))
            .collect();
        let is_complete = heard.len() == in_sync.members.len();
        let whole = heard.iter().filter(|(member, _)| !self.has_fallen(member)).count();
        let is_any_whole = whole >= quorum(group, in_sync);
        // NOTE: where the master lacks something, too, nobody is left who may have more: waiting would be for ever.
        let is_best_left = !is_any_whole && is_complete && self.lost_part(group).is_some();
        let is_promised = in_sync.needed(group) > 0;
        heard.retain(|(member, _)| match self.has_fallen(member) {
            true => (is_best_left || !is_promised && !is_any_whole) && !self.has_another_log(member),
            false => true,
        });
        let waits_for_best = !is_promised && !is_complete && now < fenced_since + BEST_MS;
        if (heard.len() < quorum(group, in_sync) && !is_best_left) || waits_for_best {
            return true;
        }
        if heard.is_empty() {
            return self.go_on_alone(now, group, steps);
        }
        if let Some((best, offset)) = heard.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0))) {
            let best = best.clone();
            if let Some(step) = self.goes_on(group, offset) {
                steps.push(step);
                return true;
            }
            let exited = self.prefers_others(now, group, in_sync);
            self.backoff.note_chosen(!exited);
            let what = match self.lost_part(group) {
                Some(lost) => lost.text(&group.master),
                None if exited => "has ended".to_owned(),
                None => "does not answer".to_owned(),
            };
            let fallen = in_sync.members.iter().find_map(|member| Some((member, self.fallen_from(member)?)));
            let fallen = fallen.filter(|_| is_best_left);
            let may_lose = fallen.is_some();
            let has = match fallen {
                Some((member, had)) => format!(
                    "{member} has less than it had, too (up to {had}); {best} has most of what is left (offset {offset}): what was \
                     acknowledged behind that may be lost"
                ),
                None => format!("{best} has all that was acknowledged (offset {offset})"),
            };
            let reason = format!("{} {what}; {has}", group.master);
            steps.push(Step::Elect { master: best, reason, may_lose });
        }
        true
    }

    /// A master that has lost a part of its log, and that none of those in sync has more than: it becomes the master anew. What it knows
    /// no more was another time's, so that others take a copy of what is there.
    fn goes_on(&self, group: &Group, best: u64) -> Option<Step> {
        let (master, lost) = (group.master.clone(), self.lost_by_all(group, best)?);
        let (text, end) = (lost.text(&master), lost.end);
        let reason =
            format!("it {text}, and none of those in sync has more: what was acknowledged behind {end} may be lost");
        Some(Step::Elect { master, reason, may_lose: true })
    }

    /// The same where nobody is in sync, or nobody whose log is the same one.
    fn go_on_alone(&self, now: u64, group: &Group, steps: &mut Vec<Step>) -> bool {
        let is_there = self.fresh(&group.master, now).is_some();
        let step = self.goes_on(group, 0).filter(|_| is_there);
        let is_about_it = step.is_some();
        steps.extend(step);
        is_about_it
    }
}
