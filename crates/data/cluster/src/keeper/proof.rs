//! Whether a new process of a master still has all that was acknowledged. Its folder may have been set back: the machine to a snapshot, the
//! disk to a copy of before. Then its log ends too early, it says so without knowing it, and its replicas, which have everything, would
//! copy what is left of it.
//!
//! It must have what it had durably, as hosts remember it ([`super::fallen`]). And a replica in sync has nothing that its master has not: neither
//! does it go on behind the master's end, nor does it tell a history that the master does not tell ([`super::logs`]). So a
//! process of the master that is new to the keeper gets votes only when each of those in sync has been heard and none is ahead of it.
//! If it lacks something, the master has *lost a part of its log*: it is given up as if it had ended, nothing is told to it, and one of those in
//! sync takes its place. If none of these has more, it becomes the master anew, for a reason that says what may be lost.
//!
//! A member that is silent is waited for ([`PROOF_MS`]) as long as nothing speaks against the master, after that it
//! is not in sync any more. What a replica has is safe meanwhile: a store that was told to keep what it has refuses to copy a master that
//! lacks it ([`super::Bond`]).

use super::{Keeper, Observation};
use crate::model::{Address, Group, InSync};

/// How long members in sync that are silent are waited for, in milliseconds, before a new process of their master serves without them.
/// They are being started too, if all of it has lost power.
const PROOF_MS: u64 = 5_000;

/// A master has less than one of those in sync, or than it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostPart {
    /// Where its log ends.
    pub(super) end: u64,
    /// Who has more, or has had it: itself.
    member: Address,
    /// Up to where.
    had: u64,
    /// Its log is as long as it was, and another one.
    is_other: bool,
}

/// What is known of the master's process.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof {
    run: String,
    /// Since when it is known.
    since: u64,
    is_proven: bool,
    lost: Option<LostPart>,
}

impl LostPart {
    /// Why it is not the master any more, for people.
    pub(super) fn text(&self, master: &Address) -> String {
        let Self { end, member, had, is_other } = self;
        let who = if member == master { "it had".to_owned() } else { format!("{member} has") };
        if *is_other {
            return format!("has another log than before ({who} one up to {had} that it knows nothing of)");
        }
        format!("has lost a part of its log (it ends at {end}, and {who} it up to {had})")
    }
}

impl Keeper {
    /// Compares the master with what it had, and with those in sync. `is_believed`: most voters have said what they remember.
    pub(super) fn look_at_proof(&mut self, now: u64, group: &Group, in_sync: &InSync, is_believed: bool) {
        let Some(master) = self.fresh(&group.master, now).cloned() else { return };
        if self.proof.run != master.run {
            self.proof = Proof { run: master.run.clone(), since: now, ..Proof::default() };
        }
        if self.proof.is_proven || self.proof.lost.is_some() {
            return;
        }
        let compared: Vec<Option<Result<(), LostPart>>> =
            in_sync.members.iter().map(|member| self.compared(member, group, &master, now)).collect();
        let own = self.master_had(group, &master).map(|had| {
            let is_other = master.offset >= had;
            // Nothing of another one is sure to be of this time.
            let end = if is_other { 0 } else { master.offset };
            LostPart { end, member: group.master.clone(), had, is_other }
        });
        self.proof.is_proven =
            is_believed && own.is_none() && compared.iter().all(|found| matches!(found, Some(Ok(()))));
        self.proof.lost = compared.into_iter().flatten().find_map(Result::err).or(own);
    }

    /// Whether a member has no more than the master; nothing as long as that cannot be said.
    fn compared(
        &self,
        member: &Address,
        group: &Group,
        master: &Observation,
        now: u64,
    ) -> Option<Result<(), LostPart>> {
        let seen = self.heard_within(member, now, self.patience.replica_ms)?;
        // How long a log of another history is says nothing of the master: the member has fallen.
        if self.has_another_log(member) {
            return Some(Ok(()));
        }
        let lost = |end| Some(Err(LostPart { end, member: member.clone(), had: seen.offset, is_other: false }));
        let bond = seen.bond.filter(|bond| bond.since == group.config_epoch);
        if let Some(refusal) = bond.and_then(|bond| bond.refusal) {
            return lost(refusal.until);
        }
        let history = seen.history_before(seen.offset);
        if history.is_some_and(|history| master.lacks(history)) {
            // A master that was asked later knows what its replica knew before.
            return if seen.answered_at <= master.asked_at { lost(seen.common_with(master)) } else { None };
        }
        if seen.offset <= master.offset {
            // What it said before this process was there is not all that it has got of the one before.
            return (seen.asked_at >= self.proof.since).then_some(Ok(()));
        }
        // A master that was asked later has at least what its replica had before.
        if seen.answered_at <= master.asked_at { lost(master.offset) } else { None }
    }

    /// What the master's process has lost, if it has.
    pub(super) fn lost_part(&self, group: &Group) -> Option<&LostPart> {
        let run = self.members.get(&group.master)?.last.as_ref().map(|last| &last.run);
        self.proof.lost.as_ref().filter(|_| run == Some(&self.proof.run))
    }

    /// The same for people: what has become of the master.
    #[must_use]
    pub fn master_loss(&self, group: &Group) -> Option<String> {
        self.lost_part(group).map(|lost| lost.text(&group.master))
    }

    /// Whether a process of the master may get votes.
    pub(super) fn is_proven(&self, run: &str) -> bool {
        self.proof.is_proven && self.proof.run == run
    }

    /// Whether members that are silent stay in sync for the moment.
    pub(super) fn waits_for_proof(&self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        !self.proof.is_proven && in_sync.needed(group) > 0 && now < self.proof.since + PROOF_MS
    }

    /// What the master has lost, if none of those in sync has more than it: it goes on with what it has.
    pub(super) fn lost_by_all(&self, group: &Group, best: u64) -> Option<&LostPart> {
        self.lost_part(group).filter(|lost| best <= lost.end)
    }
}
