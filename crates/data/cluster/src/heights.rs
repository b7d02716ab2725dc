//! How far logs were, as hosts remember it. A store whose folder was set back says where its log ends now, and cannot know where it ended
//! before; when all hosts have lost power, no leader remembers it either. So the leader tells voters how far the servers of each group were
//! at least, each host writes that down, and tells the next leader.
//!
//! Only what a server had durably counts: that it can have lost by nothing but its disk or its folder.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{Cluster, Epoch, GroupId};

/// How far the master of a group and those in sync with it were at least.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heights {
    /// The epoch in which the master's time began ([`crate::model::Group::reign`]): another one's log may end earlier.
    #[serde(rename = "config_epoch")]
    pub reign: Epoch,
    /// Where logs ended, by the names of servers.
    pub of: BTreeMap<String, u64>,
    /// The history that each of these logs told there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histories: BTreeMap<String, String>,
}

/// Those of all groups. A copy costs nothing until one of the two changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllHeights(Arc<BTreeMap<GroupId, Heights>>);

impl Serialize for AllHeights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AllHeights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(|all| Self(Arc::new(all)))
    }
}

impl Heights {
    /// With what somebody else knows, if that is news: of a later master all of it, of the same one what is higher.
    fn with(&self, told: &Self) -> Option<Self> {
        if told.reign != self.reign {
            return (told.reign > self.reign).then(|| told.clone());
        }
        let is_higher = |(server, height): &(&String, &u64)| self.of.get(*server).is_none_or(|own| own < *height);
        let mut higher = told.of.iter().filter(is_higher).peekable();
        higher.peek()?;
        let mut next = self.clone();
        for (server, height) in higher {
            next.of.insert(server.clone(), *height);
            match told.histories.get(server) {
                Some(history) => next.histories.insert(server.clone(), history.clone()),
                None => next.histories.remove(server),
            };
        }
        Some(next)
    }
}

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

    /// The latest epoch in which the time of one of the masters began.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.values().map(|known| known.reign).max().unwrap_or(0)
    }

    /// Takes over what somebody else knows: of a later master all of it, of the same one what is higher. Says whether anything is news.
    pub fn take(&mut self, others: &Self) -> bool {
        let mut is_news = false;
        for (group, told) in &*others.0 {
            is_news |= self.take_group(*group, told);
        }
        is_news
    }

    /// The same of one group.
    pub fn take_group(&mut self, group: GroupId, told: &Heights) -> bool {
        let news = match self.0.get(&group) {
            Some(known) => known.with(told),
            None => Some(told.clone()),
        };
        let is_news = news.is_some();
        news.map(|news| Arc::make_mut(&mut self.0).insert(group, news));
        is_news
    }

    /// Forgets groups but these.
    pub fn retain(&mut self, is_kept: impl Fn(GroupId, &Heights) -> bool) {
        if self.0.iter().any(|(group, known)| !is_kept(*group, known)) {
            Arc::make_mut(&mut self.0).retain(|group, known| is_kept(*group, known));
        }
    }

    /// Forgets groups and servers that a cluster has no more.
    pub fn forget_gone(&mut self, cluster: &Cluster) {
        let has = |group: &GroupId, server: &String| {
            cluster.groups.get(group).is_some_and(|group| group.servers.iter().any(|one| one.id == *server))
        };
        let mut all = self.0.iter();
        if all.all(|(id, known)| cluster.groups.contains_key(id) && known.of.keys().all(|server| has(id, server))) {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        all.retain(|group, _| cluster.groups.contains_key(group));
        for (group, known) in all {
            known.of.retain(|server, _| has(group, server));
            known.histories.retain(|server, _| has(group, server));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(reign: Epoch, of: &[(&str, u64)]) -> AllHeights {
        let of = of.iter().map(|(id, height)| ((*id).to_owned(), *height)).collect();
        AllHeights(Arc::new([(1, Heights { reign, of, histories: BTreeMap::new() })].into()))
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
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, r#"{"1":{"config_epoch":4,"of":{"b":60}}}"#);
        assert_eq!(serde_json::from_str::<AllHeights>(&text).unwrap(), known);
    }

    #[test]
    fn a_copy_stays_as_it_was_and_what_is_gone_is_forgotten() {
        let mut known = heights(3, &[("a", 100), ("b", 90)]);
        let copy = known.clone();
        assert!(!known.take(&copy) && Arc::ptr_eq(&known.0, &copy.0), "nothing is copied where nothing is news");
        assert!(known.take(&heights(3, &[("a", 101)])));
        assert_eq!(copy, heights(3, &[("a", 100), ("b", 90)]));
        let with = |history: &str, height| {
            let histories = [("b".to_owned(), history.to_owned())].into();
            AllHeights(Arc::new([(1, Heights { reign: 3, of: [("b".to_owned(), height)].into(), histories })].into()))
        };
        let mut of_b = heights(3, &[("a", 100), ("b", 90)]);
        let history = |known: &AllHeights| known.of(1).and_then(|known| known.histories.get("b").cloned());
        assert!(of_b.take(&with("x", 95)) && !of_b.take(&with("y", 95)));
        assert_eq!(history(&of_b).as_deref(), Some("x"), "that of where it ended first");
        assert!(of_b.take(&heights(3, &[("b", 99)])));
        assert_eq!(history(&of_b), None);
        let server = |id: &str| crate::Server { id: id.into(), ..crate::change::tests::server(1) };
        let cluster = Cluster::default().with_group(1, vec![server("a")], 0).unwrap();
        known.forget_gone(&cluster);
        assert_eq!(known, heights(3, &[("a", 101)]));
        known.forget_gone(&Cluster::default());
        assert!(known.is_empty());
    }
}
