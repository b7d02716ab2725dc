//! The cluster as the coordinator has it: read, and changed by who has seen its last version.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{Cluster, Epoch, GroupId, model::InSync, plan::Move, slots::Phase};
use coord::{Coordinator, Revision, Transaction, keys::Keys};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::AgentError;

/// Changes of which one transaction removes the record.
const REMOVED_MAX: usize = 100;
/// Changes that are at hand without a question to the coordinator.
const LAST_MAX: usize = 50;

/// A change of the cluster, as its history has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The epoch that it made.
    pub epoch: Epoch,
    /// When: seconds since 1970.
    pub at: u64,
    /// Who or what made it.
    pub by: String,
    /// What it was, for people.
    pub what: String,
    /// The cluster after it.
    pub cluster: Cluster,
}

impl Change {
    fn without_cluster(self) -> Self {
        Self { cluster: Cluster::default(), ..self }
    }
}

/// The cluster as it was read or written last.
pub struct Records {
    coordinator: Arc<dyn Coordinator>,
    keys: Keys,
    /// The cluster.
    pub cluster: Cluster,
    /// Its slots that are on their way, which are asked for at every turn.
    moving: Vec<(Move, Phase)>,
    version: Revision,
    in_sync: BTreeMap<GroupId, (InSync, Revision)>,
    /// The last changes that were read or made, the last first, without the clusters after them.
    last: VecDeque<Change>,
}

fn parsed<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, AgentError> {
    serde_json::from_slice(value).map_err(|error| {
        let problem = format!(
            "{error}; it is not as any command writes it: put an earlier one back (history), or restore the folder"
        );
        AgentError::Unreadable { place: key.to_owned(), problem }
    })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

impl Records {
    /// Reads the cluster; one that is not there is empty, in epoch 0.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer, or has what makes no sense.
    pub fn read(coordinator: Arc<dyn Coordinator>, keys: Keys) -> Result<Self, AgentError> {
        let mut records = Self {
            coordinator,
            keys,
            cluster: Cluster::default(),
            moving: Vec::new(),
            version: 0,
            in_sync: BTreeMap::new(),
            last: VecDeque::new(),
        };
        records.refresh()?;
        Ok(records)
    }

    /// Reads the cluster again: somebody else has changed it.
    ///
    /// # Errors
    ///
    /// Those of [`Records::read`].
    pub fn refresh(&mut self) -> Result<(), AgentError> {
        let key = self.keys.state();
        if let Some(found) = self.coordinator.read(&key)? {
            self.set_cluster(parsed(&key, &found.value)?);
            self.version = found.version;
        }
        let mut in_sync = BTreeMap::new();
        for (key, found) in self.coordinator.list(&self.keys.in_sync_all())?.1 {
            if let Some(group) = key.rsplit('/').next().and_then(|number| number.parse().ok()) {
                in_sync.insert(group, (parsed(&key, &found.value)?, found.version));
            }
        }
        self.in_sync = in_sync;
        let history = self.history()?;
        self.last = history.into_iter().rev().take(LAST_MAX).map(Change::without_cluster).collect();
        Ok(())
    }

    fn set_cluster(&mut self, cluster: Cluster) {
        self.moving = cluster.moving();
        self.cluster = cluster;
    }

    /// Slots that are on their way.
    #[must_use]
    pub fn moving(&self) -> &[(Move, Phase)] {
        &self.moving
    }

    /// The last changes, the last first; the clusters after them are left out.
    #[must_use]
    pub fn last_changes(&self) -> &VecDeque<Change> {
        &self.last
    }

    /// Who of a group is in sync.
    #[must_use]
    pub fn in_sync(&self, group: GroupId) -> InSync {
        self.in_sync.get(&group).map(|(in_sync, _)| in_sync.clone()).unwrap_or_default()
    }

    /// Writes who of a group is in sync, if nobody was quicker.
    ///
    /// # Errors
    ///
    /// Somebody was, or the coordinator does not answer.
    pub fn write_in_sync(&mut self, group: GroupId, in_sync: InSync) -> Result<(), AgentError> {
        let key = self.keys.in_sync(group);
        let seen = self.in_sync.get(&group).map_or(0, |(_, version)| *version);
        // It belongs to a master: whoever has another one in mind changes nothing.
        let transaction = Transaction::new()
            .if_version(self.keys.state(), self.version)
            .if_version(&key, seen)
            .put(&key, json(&in_sync));
        let version = self.coordinator.commit(transaction)?;
        self.in_sync.insert(group, (in_sync, version));
        Ok(())
    }

    /// Changes the cluster, with its line in the history, if nobody was quicker.
    ///
    /// # Errors
    ///
    /// Somebody was, or the coordinator does not answer.
    pub fn change(&mut self, cluster: Cluster, by: &str, what: &str) -> Result<(), AgentError> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let change = Change { epoch: cluster.epoch, at, by: by.to_owned(), what: what.to_owned(), cluster };
        let transaction = Transaction::new()
            .if_version(self.keys.state(), self.version)
            .if_version(self.keys.change(change.epoch), 0)
            .put(self.keys.state(), json(&change.cluster))
            .put(self.keys.change(change.epoch), json(&change));
        self.version = self.coordinator.commit(transaction)?;
        self.set_cluster(change.cluster.clone());
        self.last.push_front(change.without_cluster());
        self.last.truncate(LAST_MAX);
        Ok(())
    }

    /// All changes that are kept, the first first.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer, or has what makes no sense.
    pub fn history(&self) -> Result<Vec<Change>, AgentError> {
        let (_, all) = self.coordinator.list(&self.keys.history())?;
        all.into_iter().map(|(key, found)| parsed(&key, &found.value)).collect()
    }

    /// Removes all but the last changes; returns how many are gone.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer.
    pub fn forget_history(&self, keep: usize) -> Result<usize, AgentError> {
        let (_, all) = self.coordinator.list(&self.keys.history())?;
        let gone: Vec<String> = all.iter().take(all.len().saturating_sub(keep)).map(|(key, _)| key.clone()).collect();
        for some in gone.chunks(REMOVED_MAX) {
            let transaction = some.iter().fold(Transaction::new(), |transaction, key| transaction.delete(key));
            self.coordinator.commit(transaction)?;
        }
        Ok(gone.len())
    }
}
