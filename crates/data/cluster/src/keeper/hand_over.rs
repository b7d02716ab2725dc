//! A master that gives its place to a replica while both are well: its commands wait, the replica gets what is left, then it is the
//! master. The pause lasts longer than its votes, and voters promise to give no new ones: if the former master is lost in between, it
//! serves no more when the pause is over.

use super::{Keeper, Role, Step};
use crate::{
    model::{Address, Group, InSync},
    pauses::Pause,
};

/// Why a master does not give its place away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOverError {
    /// One is under way.
    #[error("{0} is about to become the master already")]
    UnderWay(Address),
    /// It is the master.
    #[error("{0} is the master already")]
    IsMaster(Address),
    /// It would lose what was acknowledged.
    #[error(
        "{0} does not have all that its master has (it is not in sync yet): wait until `tidegate cluster status` says so"
    )]
    NotInSync(Address),
    /// It took too long.
    #[error("{0} did not get all that its master has in time; the master goes on")]
    TooLate(Address),
}

#[derive(Clone, Debug)]
pub(super) struct HandOver {
    to: Address,
    began_at: u64,
    /// When the master's commands began to wait.
    paused_at: Option<u64>,
}

impl HandOver {
    /// Who becomes the master, when that was asked for, and since when the master's commands wait.
    pub(super) fn parts(&self) -> (Address, u64, Option<u64>) {
        (self.to.clone(), self.began_at, self.paused_at)
    }

    pub(super) fn paused(&mut self, _server: &Address, now: u64, _until: u64) {
        self.paused_at.get_or_insert(now);
    }

    /// Whether a pause is for this. A Redis gives its pauses no numbers.
    pub(super) fn has_pause(&self, term: u64, number: u64) -> bool {
        number == 0 || number == Pause::HandOver(self.began_at).number(term)
    }

    /// It is to be paused again.
    pub(super) fn paused_no_more(&mut self) {
        self.paused_at = None;
    }
}

impl Keeper {
    /// Begins to make a replica the master. [`Keeper::handing_over_to`] says whether that is still under way.
    ///
    /// # Errors
    ///
    /// It is the master, does not have all data, or another one is about to become the master.
    pub fn hand_over(&mut self, to: &Address, group: &Group, in_sync: &InSync, now: u64) -> Result<(), HandOverError> {
        if let Some(under_way) = &self.hand_over {
            return Err(HandOverError::UnderWay(under_way.to.clone()));
        }
        if group.master == *to {
            return Err(HandOverError::IsMaster(to.clone()));
        }
        if !in_sync.of(group).members.contains(to) {
            return Err(HandOverError::NotInSync(to.clone()));
        }
        self.hand_over = Some(HandOver { to: to.clone(), began_at: now, paused_at: None });
        Ok(())
    }

    /// The number of the pause of a hand-over that began at a time.
    pub(super) fn pause_number(&self, began_at: u64) -> u64 {
        Pause::HandOver(began_at).number(self.term)
    }

    /// Who is about to become the master.
    #[must_use]
    pub fn handing_over_to(&self) -> Option<&Address> {
        self.hand_over.as_ref().map(|hand_over| &hand_over.to)
    }

    /// Whether there is nothing else to be decided.
    pub(super) fn go_on_handing_over(
        &mut self,
        now: u64,
        group: &Group,
        in_sync: &InSync,
        steps: &mut Vec<Step>,
    ) -> bool {
        let Some(hand_over) = self.hand_over.clone() else { return false };
        let is_too_late = now >= hand_over.began_at + self.patience.hand_over_ms;
        let lost = self.fresh(&group.master, now).is_none();
        if is_too_late || lost || !in_sync.members.contains(&hand_over.to) {
            self.hand_over = None;
            self.forget_pauses(now);
            steps.push(Step::EndPause { server: group.master.clone(), number: self.pause_number(hand_over.began_at) });
            return false;
        }
        let Some(paused_at) = hand_over.paused_at else {
            // What is still to learn of a new epoch would let its commands go on.
            if self.fresh(&group.master, now).is_some_and(|seen| seen.epoch == self.epoch) {
                let (server, ms, number) =
                    (group.master.clone(), self.pause_ms(), self.pause_number(hand_over.began_at));
                steps.push(Step::Pause { server, ms, number });
            }
            return true;
        };
        let goal =
            self.fresh(&group.master, now).filter(|seen| seen.asked_at >= paused_at && seen.role == Role::Master);
        // What took effect before the pause is a part of what it had only if it says that this pause is on.
        let number = self.pause_number(hand_over.began_at);
        let goal = goal.filter(|seen| seen.pauses.contains(&number));
        let is_fenced = self.is_fenced(now, &group.master);
        if let (Some(goal), Some(seen)) = (goal, self.fresh(&hand_over.to, now))
            && seen.offset >= goal.offset
            && is_fenced
        {
            let reason = format!("{} was asked for as the master", hand_over.to);
            self.backoff.note_chosen(false);
            steps.push(Step::Elect { master: hand_over.to, reason, may_lose: false });
        }
        true
    }
}
