//! How far logs were, as hosts remember it. A store whose folder was set back says where its log ends now, and cannot know where it ended
//! before; when all hosts have lost power, no leader remembers it either. So the leader tells voters how far the servers of each group were
//! at least, each host writes that down, and tells the next leader.
//!
//! Only what a server had durably counts: that it can have lost by nothing but its disk or its folder.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Epoch, GroupId};

/// How far the master of a group and those in sync with it were at least.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heights {
    /// The epoch in which the master became the master: another one's log may end earlier.
    pub config_epoch: Epoch,
    /// Where logs ended, by the names of servers.
    pub of: BTreeMap<String, u64>,
}

/// Those of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllHeights(BTreeMap<GroupId, Heights>);

impl AllHeights {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a group.
    #[must_use]
    pub fn of(&self, group: GroupId) -> Option<&Heights> {
        self.0.get(&group)
    }

    /// The latest epoch in which one of the masters became the master.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.values().map(|known| known.config_epoch).max().unwrap_or(0)
    }

    /// Takes over what somebody else knows: of a later master all of it, of the same one what is higher. Says whether anything is news.
    pub fn take(&mut self, others: &Self) -> bool {
        let mut is_news = false;
        for (group, told) in &others.0 {
            is_news |= self.take_group(*group, told);
        }
        is_news
    }

    /// The same of one group.
    pub fn take_group(&mut self, group: GroupId, told: &Heights) -> bool {
        let known = self.0.entry(group).or_default();
        if told.config_epoch < known.config_epoch {
            return false;
        }
        if told.config_epoch > known.config_epoch {
            known.clone_from(told);
            return true;
        }
        let mut is_news = false;
        for (server, height) in &told.of {
            let own = known.of.entry(server.clone()).or_default();
            is_news |= *height > *own;
            *own = (*own).max(*height);
        }
        is_news
    }

    /// A group's master is the same, though its epoch is another one.
    pub fn renew(&mut self, group: GroupId, before: Epoch, after: Epoch) {
        if let Some(known) = self.0.get_mut(&group).filter(|known| known.config_epoch == before) {
            known.config_epoch = after;
        }
    }

    /// Forgets all but these.
    pub fn retain(&mut self, is_kept: impl Fn(GroupId, &Heights) -> bool) {
        self.0.retain(|group, known| is_kept(*group, known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(config_epoch: Epoch, of: &[(&str, u64)]) -> AllHeights {
        let of = of.iter().map(|(id, height)| ((*id).to_owned(), *height)).collect();
        AllHeights([(1, Heights { config_epoch, of })].into())
    }

    #[test]
    fn what_is_higher_or_of_a_later_master_counts() {
        let mut known = heights(3, &[("a", 100), ("b", 90)]);
        assert!(!known.take(&heights(3, &[("a", 80), ("b", 90)])));
        assert!(known.take(&heights(3, &[("b", 95), ("c", 10)])));
        assert_eq!(known, heights(3, &[("a", 100), ("b", 95), ("c", 10)]));
        assert!(!known.take(&heights(2, &[("a", 500)])));
        // Another master: its log may end earlier.
        assert!(known.take(&heights(4, &[("b", 60)])));
        assert_eq!(known, heights(4, &[("b", 60)]));
        known.renew(1, 3, 9);
        assert_eq!(known.of(1).map(|known| known.config_epoch), Some(4));
        known.renew(1, 4, 9);
        assert_eq!(known, heights(9, &[("b", 60)]));
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, r#"{"1":{"config_epoch":9,"of":{"b":60}}}"#);
        assert_eq!(serde_json::from_str::<AllHeights>(&text).unwrap(), known);
    }
}
