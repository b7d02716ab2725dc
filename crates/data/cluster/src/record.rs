//! A copy of the coordinator's record, and whether the coordinator's own goes on from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    history::{ChangeNumber, History, Relation, Rescued},
    model::{Cluster, GroupId, InSync},
};

/// What a folder has of the coordinator's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCopy {
    /// When it was written: seconds since 1970.
    pub at: u64,
    /// The cluster.
    pub cluster: Cluster,
    /// Who of groups is in sync.
    #[serde(default)]
    pub in_sync: BTreeMap<GroupId, InSync>,
    /// Since when that is so: seconds since 1970.
    #[serde(default)]
    pub in_sync_since: BTreeMap<GroupId, u64>,
    /// The term of the last leader.
    #[serde(default)]
    pub term: u64,
    /// The changes that made it so.
    #[serde(default)]
    pub history: History,
}

/// What a coordinator's record is to a host that knows a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It goes on from what the host knows.
    Continues,
    /// There is none.
    None,
    /// It is as it was before.
    Older,
    /// It has another history.
    Forked {
        /// The last change that both know.
        after: ChangeNumber,
    },
}

/// Whether a record has later news of who is in sync than another one of the same epoch.
fn has_later_in_sync(of: &RecordCopy, than: &RecordCopy) -> bool {
    let rank = |in_sync: &InSync| (in_sync.config_epoch, in_sync.serial);
    of.in_sync.iter().any(|(group, known)| than.in_sync.get(group).is_none_or(|other| rank(other) < rank(known)))
}

/// Whether what a host knows beyond the base of a rescue of most hosts cannot have been served by: without its vote there were enough others,
/// and none of them knew it.
fn is_harmless(copy: &RecordCopy, rescue: &Rescued) -> bool {
    let has_shrunk = |(group, base): (&GroupId, &InSync)| {
        copy.in_sync.get(group).is_some_and(|known| {
            known.config_epoch == base.config_epoch && base.members.iter().any(|member| !known.members.contains(member))
        })
    };
    rescue.has_majority && copy.cluster.voters() == rescue.voters && !rescue.in_sync.iter().any(has_shrunk)
}

/// What the coordinator's record is to a host with a copy.
#[must_use]
pub fn standing(copy: &RecordCopy, known: &RecordCopy) -> Standing {
    if known.cluster.epoch == 0 {
        return if copy.cluster.epoch == 0 { Standing::Continues } else { Standing::None };
    }
    if copy.cluster.epoch == 0 {
        return Standing::Continues;
    }
    let is_older = known.cluster.epoch < copy.cluster.epoch
        || known.cluster.epoch == copy.cluster.epoch && has_later_in_sync(copy, known);
    match copy.history.relation_of(&known.history) {
        Relation::Unknown if copy.history.number > 0 => Standing::Older,
        Relation::Unknown | Relation::Same | Relation::Continues if !is_older => Standing::Continues,
        Relation::Unknown | Relation::Same | Relation::Continues | Relation::Behind => Standing::Older,
        Relation::Forked { after } => {
            let head = copy.history.head();
            let was_seen = |rescue: &Rescued| {
                rescue.seen.contains(&head) || rescue.base.number >= after && is_harmless(copy, rescue)
            };
            let unknown = known.history.rescues.iter().filter(|rescue| !copy.history.knows(rescue));
            if unknown.into_iter().any(was_seen) { Standing::Continues } else { Standing::Forked { after } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{change::tests::two_groups, history::tests::history};

    fn copy(changes: u64, from: u64, mark: &str) -> RecordCopy {
        let cluster = crate::Cluster { epoch: 4, ..two_groups() };
        RecordCopy { cluster, history: history(changes, from, mark), ..RecordCopy::default() }
    }

    #[test]
    fn a_copy_of_before_there_were_histories_is_read() {
        let mut text = serde_json::to_value(copy(3, 9, "a")).unwrap();
        text.as_object_mut().unwrap().remove("history").unwrap();
        assert_eq!(serde_json::from_value::<RecordCopy>(text).unwrap().history, History::default());
    }

    #[test]
    fn a_host_begins_by_a_record_that_goes_on_from_its_own() {
        let own = copy(5, 9, "a");
        let standing = |known: &RecordCopy| standing(&own, known);
        assert_eq!(standing(&copy(7, 9, "a")), Standing::Continues);
        assert_eq!(standing(&copy(4, 9, "a")), Standing::Older);
        assert_eq!(standing(&copy(9, 4, "b")), Standing::Forked { after: 3 });
        assert_eq!(standing(&RecordCopy::default()), Standing::None);
        // One that was written before there were histories is older, whatever its epoch.
        let mut without = RecordCopy { history: History::default(), ..own.clone() };
        without.cluster.epoch = 9;
        assert_eq!(standing(&without), Standing::Older);
        // An agent of an earlier version has led meanwhile: it writes no history.
        let mut later = own.clone();
        later.cluster.epoch = 5;
        assert_eq!(standing(&later), Standing::Continues);
        later.cluster.epoch = 3;
        assert_eq!(standing(&later), Standing::Older);
    }

    #[test]
    fn without_histories_epochs_and_who_is_in_sync_count() {
        let in_sync = |serial| InSync { config_epoch: 1, serial, ..InSync::default() };
        let of = |epoch, serial| {
            let mut copy = copy(0, 1, "a");
            copy.cluster.epoch = epoch;
            copy.in_sync.insert(1, in_sync(serial));
            copy
        };
        for (own, known, expected) in [
            ((4, 2), (4, 2), Standing::Continues),
            ((4, 2), (4, 3), Standing::Continues),
            ((4, 2), (4, 1), Standing::Older),
            ((4, 2), (5, 1), Standing::Continues),
            ((4, 2), (3, 9), Standing::Older),
        ] {
            assert_eq!(standing(&of(own.0, own.1), &of(known.0, known.1)), expected, "{own:?} {known:?}");
        }
    }

    #[test]
    fn what_a_rescue_did_not_know_is_no_part_of_what_came_of_it() {
        let base = copy(5, 9, "a");
        let rescued = |has_majority, seen: &[&RecordCopy]| {
            let mut after = base.clone();
            let seen = seen.iter().map(|copy| copy.history.head()).collect();
            let voters = base.cluster.voters().into_iter().map(str::to_owned).collect();
            let in_sync = base.in_sync.clone();
            let rescue = Rescued { seen, voters, has_majority, in_sync, ..Rescued::default() };
            after.history = base.history.rescued("r", rescue);
            after.cluster.epoch += 1_000_000;
            after
        };
        // A host that knows what the rescue was made of, or less.
        for own in [copy(5, 9, "a"), copy(2, 9, "a")] {
            assert_eq!(standing(&own, &rescued(false, &[])), Standing::Continues);
        }
        // It knows more: of few hosts, that may have been served by.
        let own = copy(9, 9, "a");
        assert_eq!(standing(&own, &rescued(false, &[])), Standing::Forked { after: 5 });
        assert_eq!(standing(&own, &rescued(false, &[&own])), Standing::Continues);
        assert_eq!(standing(&own, &rescued(true, &[])), Standing::Continues);
        // The other way round, too, and however long it goes on.
        let mut later = rescued(false, &[]);
        for number in 0..500 {
            later.history = later.history.next(&format!("l{number}"), true);
            assert_eq!(standing(&own, &later), Standing::Forked { after: 5 });
            assert!(matches!(standing(&later, &own), Standing::Forked { .. }));
        }
        // A replica has left those in sync: the master may have acknowledged without it.
        let members = vec![crate::Address::new("b", 2)];
        let mut base = copy(5, 9, "a");
        base.in_sync.insert(1, InSync { config_epoch: 1, members: members.clone(), serial: 1, ..InSync::default() });
        let mut own = base.clone();
        own.history = own.history.next("a6", false);
        own.in_sync.insert(1, InSync { config_epoch: 1, serial: 2, ..InSync::default() });
        let rescue = Rescued {
            voters: base.cluster.voters().into_iter().map(str::to_owned).collect(),
            has_majority: true,
            in_sync: base.in_sync.clone(),
            ..Rescued::default()
        };
        let mut after = base.clone();
        after.history = base.history.rescued("r", rescue);
        after.cluster.epoch += 1_000_000;
        assert_eq!(standing(&own, &after), Standing::Forked { after: 5 });
    }
}
