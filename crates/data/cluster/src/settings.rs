//! Settings of stores that the cluster keeps, by redis.conf's names: of all stores, of a group's, of one. What is said of fewer stores
//! wins. What a value may be, only the stores know: here it is text.
//!
//! Each entry has the epoch in which it was written. A store tells which of them it was told last ([`StoreSettings::mark`]), so that it is
//! told what has changed since, and nothing else: what somebody has set on it alone stays as long as the cluster says nothing new about it.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::slots::GroupId;

/// A change of the cluster by number.
type Epoch = u64;

/// A value, or that there is none any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The value; none: it was taken back, and stores that were told it are to forget it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The change that wrote it.
    pub epoch: Epoch,
}

type Entries = BTreeMap<String, Entry>;

/// Whose setting it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All stores'.
    Cluster,
    /// That of a group's stores.
    Group(GroupId),
    /// That of one store, by its name among the nodes.
    Server(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => formatter.write_str("all stores"),
            Self::Group(group) => write!(formatter, "group {group}"),
            Self::Server(id) => write!(formatter, "server {id}"),
        }
    }
}

/// A value that a store is to have, and by whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective<'a> {
    /// The value.
    pub value: &'a str,
    /// Whose setting it is.
    pub scope: Scope,
}

/// A store, as its settings see it.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Its group.
    pub group: GroupId,
    /// Its name among the nodes.
    pub id: &'a str,
}

/// All that the cluster keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreSettings {
    #[serde(skip_serializing_if = "Entries::is_empty")]
    all: Entries,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<GroupId, Entries>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    servers: BTreeMap<String, Entries>,
}

impl StoreSettings {
    /// Whether nothing was ever said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.groups.is_empty() && self.servers.is_empty()
    }

    fn entries(&self, scope: &Scope) -> Option<&Entries> {
        match scope {
            Scope::Cluster => Some(&self.all),
            Scope::Group(group) => self.groups.get(group),
            Scope::Server(id) => self.servers.get(id),
        }
    }

    /// The value that is kept there.
    #[must_use]
    pub fn value(&self, scope: &Scope, name: &str) -> Option<&str> {
        self.entries(scope)?.get(name)?.value.as_deref()
    }

    /// All values that are kept, by whom they are for.
    pub fn values(&self) -> impl Iterator<Item = (Scope, &str, &str)> {
        let all = std::iter::once((Scope::Cluster, &self.all));
        let groups = self.groups.iter().map(|(group, entries)| (Scope::Group(*group), entries));
        let servers = self.servers.iter().map(|(id, entries)| (Scope::Server(id.clone()), entries));
        all.chain(groups).chain(servers).flat_map(|(scope, entries)| {
            let values = entries.iter().filter_map(|(name, entry)| Some((name.as_str(), entry.value.as_deref()?)));
            values.map(move |(name, value)| (scope.clone(), name, value))
        })
    }

    /// Keeps a value, or takes it back. A value that was never told needs no mark that it is gone.
    pub fn set(&mut self, scope: &Scope, name: &str, value: Option<String>, epoch: Epoch) {
        let entries = match scope {
            Scope::Cluster => &mut self.all,
            Scope::Group(group) => self.groups.entry(*group).or_default(),
            Scope::Server(id) => self.servers.entry(id.clone()).or_default(),
        };
        if value.is_some() || entries.contains_key(name) {
            entries.insert(name.to_owned(), Entry { value, epoch });
        }
    }

    /// Says everything anew in an epoch: stores may have been told something else by a record that is lost.
    pub fn renew(&mut self, epoch: Epoch) {
        let entries = std::iter::once(&mut self.all).chain(self.groups.values_mut()).chain(self.servers.values_mut());
        entries.flat_map(BTreeMap::values_mut).for_each(|entry| entry.epoch = epoch);
    }

    /// Forgets what is kept of others than these.
    pub fn retain(&mut self, is_there: impl Fn(&Scope) -> bool) {
        self.groups.retain(|group, _| is_there(&Scope::Group(*group)));
        self.servers.retain(|id, _| is_there(&Scope::Server(id.clone())));
    }

    /// What is said about a store, by those of whom fewer are meant first.
    fn layers<'a>(&'a self, which: Which<'a>) -> impl Iterator<Item = (Scope, &'a Entries)> {
        let scopes = [Scope::Server(which.id.to_owned()), Scope::Group(which.group), Scope::Cluster];
        scopes.into_iter().filter_map(|scope| self.entries(&scope).map(|entries| (scope, entries)))
    }

    /// What a store is to have, by name.
    #[must_use]
    pub fn effective<'a>(&'a self, which: Which<'a>) -> BTreeMap<&'a str, Effective<'a>> {
        let mut found = BTreeMap::new();
        for (scope, entries) in self.layers(which) {
            for (name, entry) in entries {
                if let Some(value) = &entry.value {
                    found.entry(name.as_str()).or_insert_with(|| Effective { value, scope: scope.clone() });
                }
            }
        }
        found
    }

    /// What a store is told along with its settings, and says when it is asked which it was told last.
    #[must_use]
    pub fn mark(&self, which: Which<'_>) -> String {
        format!("{} {}", self.latest(which), which.group)
    }

    fn latest(&self, which: Which<'_>) -> Epoch {
        self.layers(which).flat_map(|(_, entries)| entries.values()).map(|entry| entry.epoch).max().unwrap_or(0)
    }

    /// What a store is to be told that was told `mark` last: names with their values, none where it is the store's own default again.
    /// A store that was told nothing yet, or in another group, or by a record that is later than this one, is told everything.
    #[must_use]
    pub fn due<'a>(&'a self, which: Which<'a>, mark: &str) -> Vec<(&'a str, Option<&'a str>)> {
        if mark == self.mark(which) || mark.is_empty() && self.latest(which) == 0 {
            return Vec::new();
        }
        let told = mark.split_once(' ').and_then(|(epoch, group)| {
            let (epoch, group) = (epoch.parse::<Epoch>().ok()?, group.parse::<GroupId>().ok()?);
            (group == which.group && epoch <= self.latest(which)).then_some(epoch)
        });
        let effective = self.effective(which);
        let value = |name: &'a str| (name, effective.get(name).map(|effective| effective.value));
        let mut names: Vec<&str> = match told {
            Some(told) => {
                let entries = self.layers(which).flat_map(|(_, entries)| entries);
                entries.filter(|(_, entry)| entry.epoch > told).map(|(name, _)| name.as_str()).collect()
            }
            // What another group has said may be all that it knows.
            None => {
                let others = self.groups.values().flatten().map(|(name, _)| name.as_str());
                let own = self.layers(which).flat_map(|(_, entries)| entries.keys()).map(String::as_str);
                if mark.is_empty() { own.collect() } else { own.chain(others).collect() }
            }
        };
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{change::tests::two_groups, model::Cluster};

    fn changes(all: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    }

    const FIRST: Which<'_> = Which { group: 1, id: "n1" };
    const SECOND: Which<'_> = Which { group: 2, id: "n3" };

    #[test]
    fn what_is_said_of_fewer_stores_wins() {
        let cluster = two_groups()
            .with_settings(&Scope::Cluster, &changes(&[("maxmemory", Some("1gb")), ("timeout", Some("5"))]))
            .with_settings(&Scope::Group(1), &changes(&[("maxmemory", Some("2gb"))]))
            .with_settings(&Scope::Server("n1".into()), &changes(&[("timeout", Some("7"))]));
        let shown = |which| {
            let effective = cluster.settings.effective(which);
            effective.iter().map(|(name, one)| format!("{name}={} ({})", one.value, one.scope)).collect::<Vec<_>>()
        };
        assert_eq!(shown(FIRST), ["maxmemory=2gb (group 1)", "timeout=7 (server n1)"]);
        assert_eq!(shown(SECOND), ["maxmemory=1gb (all stores)", "timeout=5 (all stores)"]);
        assert_eq!(cluster.settings.values().count(), 4);
        let text = serde_json::to_string(&cluster).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap(), cluster);
        assert!(!serde_json::to_string(&two_groups()).unwrap().contains("settings"), "none take no room");
    }

    #[test]
    fn a_store_is_told_what_has_changed_since_it_was_told_last() {
        let none = two_groups();
        assert_eq!(none.settings.due(FIRST, ""), []);
        let one = none.with_settings(&Scope::Cluster, &changes(&[("maxmemory", Some("1gb")), ("timeout", Some("5"))]));
        let all = vec![("maxmemory", Some("1gb")), ("timeout", Some("5"))];
        assert_eq!(one.settings.due(FIRST, ""), all);
        let told = one.settings.mark(FIRST);
        assert_eq!(one.settings.due(FIRST, &told), []);
        let two = one.with_settings(&Scope::Group(1), &changes(&[("timeout", Some("9"))]));
        assert_eq!(two.settings.due(FIRST, &told), [("timeout", Some("9"))]);
        assert_eq!(two.settings.due(SECOND, &one.settings.mark(SECOND)), [], "this is not about the other group");
        // Taken back: it is what all stores have again; then nothing is said any more.
        let three = two.with_settings(&Scope::Group(1), &changes(&[("timeout", None)]));
        assert_eq!(three.settings.due(FIRST, &two.settings.mark(FIRST)), [("timeout", Some("5"))]);
        let four = three.with_settings(&Scope::Cluster, &changes(&[("timeout", None), ("hz", None)]));
        assert_eq!(four.settings.due(FIRST, &three.settings.mark(FIRST)), [("timeout", None)]);
        // Who was away for long hears of all of it.
        assert_eq!(four.settings.due(FIRST, &told), [("timeout", None)]);
    }

    #[test]
    fn a_store_that_was_told_elsewhere_is_told_everything() {
        let cluster = two_groups()
            .with_settings(&Scope::Cluster, &changes(&[("maxmemory", Some("1gb"))]))
            .with_settings(&Scope::Group(2), &changes(&[("timeout", Some("9"))]));
        let told = cluster.settings.mark(SECOND);
        // It is in group 1 now, where nobody has said anything of `timeout`.
        let moved = Which { group: 1, id: "n3" };
        assert_eq!(cluster.settings.due(moved, &told), [("maxmemory", Some("1gb")), ("timeout", None)]);
        // By a record that is lost.
        assert_eq!(cluster.settings.due(FIRST, "99 1"), [("maxmemory", Some("1gb")), ("timeout", None)]);
    }

    /// A record of before was brought back, and goes on: what a store was told by the lost one is told anew, whatever is said next.
    #[test]
    fn what_is_renewed_is_told_to_stores_that_know_a_lost_record() {
        let before = two_groups().with_settings(&Scope::Cluster, &changes(&[("maxmemory", Some("1gb"))]));
        let lost = before.with_settings(&Scope::Cluster, &changes(&[("maxmemory", Some("2gb"))]));
        let told = lost.settings.mark(FIRST);
        let mut rescued = before;
        rescued.epoch += 1_000_000;
        rescued.settings.renew(rescued.epoch);
        let later = rescued.with_settings(&Scope::Group(1), &changes(&[("timeout", Some("9"))]));
        assert_eq!(later.settings.due(FIRST, &told), [("maxmemory", Some("1gb")), ("timeout", Some("9"))]);
        assert_eq!(later.settings.due(FIRST, &later.settings.mark(FIRST)), []);
    }

    #[test]
    fn settings_go_with_what_they_are_of() {
        let cluster = two_groups()
            .with_settings(&Scope::Server("n2".into()), &changes(&[("timeout", Some("9"))]))
            .with_settings(&Scope::Cluster, &changes(&[("timeout", Some("1"))]));
        let replica = cluster.servers().find(|(_, server)| server.id == "n2").unwrap().1.address.clone();
        let left = cluster.without_server(1, &replica, Some(0)).unwrap();
        assert_eq!(left.settings.values().collect::<Vec<_>>(), [(Scope::Cluster, "timeout", "1")]);
    }
}
