//! The cluster as the coordinator has it: read, and changed by who has seen its last version.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{
    Cluster, Epoch, GroupId,
    ballot::Incarnation,
    controller::{self, pending::PendingRecord},
    history::{History, Relation},
    leading::Leader,
    model::InSync,
    plan::Move,
    record::{self, RecordCopy, Standing},
    slots::Phase,
};
use coord::{CoordError, Coordinator, Revision, Transaction, keys::Keys};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{chance, error::AgentError};

/// How the cluster is called in the coordinator.
pub const CLUSTER: &str = "main";
/// Changes of which one transaction removes the record.
const REMOVED_MAX: usize = 100;
/// Groups whose replicas in sync one transaction writes: etcd takes 128 conditions and writes unless it is told otherwise.
const IN_SYNC_MAX: usize = 100;
/// Bytes of chance in a change of the record.
const MARK_LEN: usize = 6;
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
    /// What it is told from others by (see [`cluster::history`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
    /// The cluster after it.
    pub cluster: Cluster,
}

impl Change {
    fn without_cluster(self) -> Self {
        Self { cluster: Cluster::default(), ..self }
    }
}

/// An agent, as it registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Where its REST is.
    pub api: String,
    /// The port that its host's proxy is to have.
    pub port: u16,
    /// The address of its host; empty: the host's name is one.
    #[serde(default)]
    pub address: String,
    /// Its version.
    pub version: String,
    /// Since when: seconds since 1970.
    pub at: u64,
}

/// A start of an agent, as it is written down before it votes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterRecord {
    /// For how long its votes count, in milliseconds.
    pub lease_ms: u64,
}

/// The cluster as it was read or written last.
pub struct Records {
    coordinator: Arc<dyn Coordinator>,
    keys: Keys,
    /// The cluster.
    pub cluster: Cluster,
    /// The same, for threads that only look.
    pub shared: Arc<Cluster>,
    /// The leader that the coordinator names.
    leader: Option<(Leader, Revision)>,
    /// The term that this process has begun.
    own_term: Option<u64>,
    /// The present run of each host's voter.
    pub incarnations: BTreeMap<String, Incarnation>,
    /// Agents that are registered.
    pub agents: BTreeMap<String, Registration>,
    /// What was read first: changes after it are told.
    revision: Revision,
    /// Its slots that are on their way, which are asked for at every turn.
    moving: Vec<(Move, Phase)>,
    version: Revision,
    in_sync: BTreeMap<GroupId, (InSync, Revision)>,
    /// The changes behind it.
    history: (History, Revision),
    /// What waits for a person.
    pending: (PendingRecord, Revision),
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

/// A value as the coordinator has it.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Chance by which a change of the record is told from all others.
///
/// # Errors
///
/// The system gives no random number.
pub fn mark() -> Result<String, AgentError> {
    chance::digits::<MARK_LEN>().map_err(|error| AgentError::Other(error.to_string()))
}

/// Why an agent that runs does not go on by what the coordinator has.
#[must_use]
pub fn other_coordinator(standing: Standing) -> String {
    let has = match standing {
        Standing::None => "it knows of no cluster".to_owned(),
        Standing::Older => "it knows the cluster as it was before".to_owned(),
        Standing::Forked { after } => format!("it has another history of the cluster since change {after}"),
        Standing::Continues => "it is another one, and knows the cluster".to_owned(),
    };
    format!("the coordinator is not the one that this agent began by: {has}")
}

/// What a voter writes at its start. What a process before this one has sent and comes late finds another version than it has seen:
/// otherwise the number of the later start, and with it all that this voter promises, would be lost.
fn start_of_voting(keys: &Keys, host: &str, record: &VoterRecord, seen: Revision) -> Transaction {
    let key = keys.voter(host);
    Transaction::new().if_version(&key, seen).put(&key, json(record))
}

impl Records {
    /// Reads the cluster; one that is not there is empty, in epoch 0.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer, or has what makes no sense.
    pub fn read(coordinator: Arc<dyn Coordinator>, keys: Keys) -> Result<Self, AgentError> {
        let (revision, all) = coordinator.list(&keys.all())?;
        let mut records = Self::none(coordinator, keys);
        for (key, found) in all {
            records.take(&key, Some(&found.value), found.version)?;
        }
        records.revision = revision;
        Ok(records)
    }

    fn none(coordinator: Arc<dyn Coordinator>, keys: Keys) -> Self {
        Self {
            coordinator,
            keys,
            cluster: Cluster::default(),
            shared: Arc::default(),
            leader: None,
            own_term: None,
            incarnations: BTreeMap::new(),
            agents: BTreeMap::new(),
            revision: 0,
            moving: Vec::new(),
            version: 0,
            in_sync: BTreeMap::new(),
            history: Default::default(),
            pending: Default::default(),
            last: VecDeque::new(),
        }
    }

    /// Reads the cluster again: somebody else has changed it.
    ///
    /// # Errors
    ///
    /// Those of [`Records::read`], or what is there does not go on from what is known. What is known stays then.
    pub fn refresh(&mut self) -> Result<(), AgentError> {
        let read = Self::read(Arc::clone(&self.coordinator), self.keys.clone())?;
        match record::standing(&self.copy(), &read.copy()) {
            Standing::Continues => {
                *self = Self { own_term: self.own_term, ..read };
                Ok(())
            }
            standing => Err(AgentError::Other(other_coordinator(standing))),
        }
    }

    /// All that a folder keeps of it, as of the last change of the cluster itself.
    #[must_use]
    pub fn copy(&self) -> RecordCopy {
        RecordCopy {
            cluster: self.cluster.clone(),
            in_sync: self.in_sync.iter().map(|(group, (in_sync, _))| (*group, in_sync.clone())).collect(),
            term: self.leader().map_or(0, |leader| leader.term),
            history: self.history.0.clone(),
            at: self.last.front().map_or(0, |change| change.at),
            ..RecordCopy::default()
        }
    }

    /// The changes behind it.
    #[must_use]
    pub fn history_of_record(&self) -> &History {
        &self.history.0
    }

    /// The revision that everything is of, or later.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether changes go on from what is known, as far as they say.
    ///
    /// # Errors
    ///
    /// They are of a coordinator that has another history.
    pub fn look_at(&self, changes: &[coord::Change]) -> Result<(), AgentError> {
        let past = self.keys.past();
        for change in changes.iter().filter(|change| change.key == past && change.revision > self.history.1) {
            let Some(value) = &change.value else { return Err(AgentError::Other(other_coordinator(Standing::None))) };
            let told: History = parsed(&past, value)?;
            match self.history.0.relation_of(&told) {
                Relation::Forked { after } => {
                    return Err(AgentError::Other(other_coordinator(Standing::Forked { after })));
                }
                Relation::Behind => return Err(AgentError::Other(other_coordinator(Standing::Older))),
                Relation::Same | Relation::Continues | Relation::Unknown => {}
            }
        }
        Ok(())
    }

    /// Takes over what somebody has changed, this agent or another one.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    pub fn take_change(&mut self, change: &coord::Change) -> Result<(), AgentError> {
        self.take(&change.key, change.value.as_deref(), change.revision)
    }

    fn take(&mut self, key: &str, value: Option<&[u8]>, version: Revision) -> Result<(), AgentError> {
        let name = |prefix: &str| key.strip_prefix(prefix).map(str::to_owned);
        let keys = self.keys.clone();
        if key == keys.state() {
            if let Some(value) = value.filter(|_| version > self.version) {
                self.set_cluster(parsed(key, value)?);
                self.version = version;
            }
        } else if key == keys.leader() {
            if self.leader.as_ref().is_none_or(|(_, known)| version > *known) {
                self.leader = value.map(|value| Ok::<_, AgentError>((parsed(key, value)?, version))).transpose()?;
            }
        } else if let Some(group) = name(&keys.in_sync_all()).and_then(|number| number.parse().ok()) {
            if let Some(value) = value
                && self.in_sync.get(&group).is_none_or(|(_, known)| version > *known)
            {
                self.in_sync.insert(group, (parsed(key, value)?, version));
            }
        } else if key == keys.past() {
            if let Some(value) = value.filter(|_| version > self.history.1) {
                self.history = (parsed(key, value)?, version);
            }
        } else if key == keys.pending() {
            if let Some(value) = value.filter(|_| version > self.pending.1) {
                self.pending = (parsed(key, value)?, version);
            }
        } else if let Some(host) = name(&keys.voters_all()) {
            let known = self.incarnations.entry(host).or_default();
            *known = version.max(*known);
        } else if let Some(host) = name(&keys.agents_all()) {
            match value {
                Some(value) => drop(self.agents.insert(host, parsed(key, value)?)),
                None => drop(self.agents.remove(&host)),
            }
        } else if key.starts_with(&keys.history())
            && let Some(value) = value
        {
            let change: Change = parsed(key, value)?;
            if self.last.front().is_none_or(|last| last.epoch < change.epoch) {
                self.last.push_front(change.without_cluster());
                self.last.truncate(LAST_MAX);
            }
        }
        Ok(())
    }

    fn set_cluster(&mut self, cluster: Cluster) {
        self.moving = cluster.moving();
        self.shared = Arc::new(cluster.clone());
        self.cluster = cluster;
    }

    /// The leader that the coordinator names.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        self.leader.as_ref().map(|(leader, _)| leader)
    }

    /// The term that this process has begun, if nobody has begun another one since.
    #[must_use]
    pub fn led_term(&self) -> Option<u64> {
        self.own_term.filter(|term| self.leader().is_some_and(|leader| leader.term == *term))
    }

    /// Begins to lead.
    ///
    /// # Errors
    ///
    /// Somebody was quicker, or the coordinator does not answer.
    pub fn lead(&mut self, leader: Leader) -> Result<(), AgentError> {
        let seen = self.leader.as_ref().map_or(0, |(_, version)| *version);
        let key = self.keys.leader();
        let (history, transaction) = self.next_change(Transaction::new().if_version(&key, seen), false)?;
        let version = self.coordinator.commit(transaction.put(&key, json(&leader)))?;
        self.own_term = Some(leader.term);
        self.leader = Some((leader, version));
        self.history = (history, version);
        Ok(())
    }

    /// A transaction that is one more change of the record.
    fn next_change(&self, transaction: Transaction, makes_epoch: bool) -> Result<(History, Transaction), AgentError> {
        let (history, key) = (self.history.0.next(&mark()?, makes_epoch), self.keys.past());
        let transaction = transaction.if_version(&key, self.history.1).put(&key, json(&history));
        Ok((history, transaction))
    }

    /// Writes down that the voter of a host has been started. Gives the number of this start, and what the one before had written.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer.
    pub fn begin_voting(
        coordinator: &dyn Coordinator,
        keys: &Keys,
        host: &str,
        record: &VoterRecord,
    ) -> Result<(Incarnation, VoterRecord), CoordError> {
        loop {
            let found = coordinator.read(&keys.voter(host))?;
            let seen = found.as_ref().map_or(0, |found| found.version);
            match coordinator.commit(start_of_voting(keys, host, record, seen)) {
                Err(CoordError::Conflict { .. }) => {}
                committed => {
                    let before = found.and_then(|found| serde_json::from_slice(&found.value).ok()).unwrap_or_default();
                    return Ok((committed?, before));
                }
            }
        }
    }

    /// What holds for as long as this process leads and no voter has been started anew: what voters have promised holds then too.
    fn guarded(&self) -> Result<Transaction, AgentError> {
        let Some((leader, version)) = self.leader.as_ref().filter(|_| self.led_term().is_some()) else {
            let now = self.leader().map_or_else(|| "nobody".to_owned(), |leader| leader.host.clone());
            return Err(AgentError::Other(format!("this agent does not lead the cluster: {now} does")));
        };
        debug_assert_eq!(Some(leader.term), self.own_term);
        let led = Transaction::new().if_version(self.keys.leader(), *version);
        let hosts = self.incarnations.iter();
        Ok(hosts.fold(led, |led, (host, version)| led.if_version(self.keys.voter(host), *version)))
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

    /// What decisions are made by.
    #[must_use]
    pub fn known(&self) -> controller::Record<'_> {
        controller::Record {
            cluster: &self.cluster,
            moving: &self.moving,
            leader: self.leader(),
            in_sync: &self.in_sync,
            incarnations: &self.incarnations,
            pending: &self.pending.0,
        }
    }

    /// Who of groups is in sync, with the versions of that.
    #[must_use]
    pub fn in_sync_all(&self) -> &BTreeMap<GroupId, (InSync, Revision)> {
        &self.in_sync
    }

    /// The number of the present start of a host's voter.
    #[must_use]
    pub fn incarnation(&self, host: &str) -> Incarnation {
        self.incarnations.get(host).copied().unwrap_or(0)
    }

    /// The address of a host that has registered.
    #[must_use]
    pub fn told_address<'a>(&'a self, host: &'a str) -> Option<&'a str> {
        let agent = self.agents.get(host)?;
        Some(if agent.address.is_empty() { host } else { &agent.address })
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
        let transaction = self
            .guarded()?
            .if_version(self.keys.state(), self.version)
            .if_version(&key, seen)
            .put(&key, json(&in_sync));
        let (history, transaction) = self.next_change(transaction, false)?;
        let version = self.coordinator.commit(transaction)?;
        self.in_sync.insert(group, (in_sync, version));
        self.history = (history, version);
        Ok(())
    }

    /// Writes what waits for a person.
    ///
    /// # Errors
    ///
    /// Somebody else leads, or the coordinator does not answer.
    pub fn write_pending(&mut self, record: PendingRecord) -> Result<(), AgentError> {
        let key = self.keys.pending();
        let transaction = self.guarded()?.if_version(&key, self.pending.1).put(&key, json(&record));
        let version = self.coordinator.commit(transaction)?;
        self.pending = (record, version);
        Ok(())
    }

    /// Changes the cluster, with its line in the history, if nobody was quicker.
    ///
    /// # Errors
    ///
    /// Somebody was, or the coordinator does not answer.
    pub fn change(&mut self, cluster: Cluster, by: &str, what: &str) -> Result<(), AgentError> {
        self.change_with(cluster, Vec::new(), None, (by, what))
    }

    /// The same, with who of some groups is in sync and what waits for a person, all in one.
    ///
    /// # Errors
    ///
    /// Those of [`Records::change`], or it is more than one write can have.
    pub fn change_with(
        &mut self,
        cluster: Cluster,
        in_sync: Vec<(GroupId, InSync)>,
        pending: Option<PendingRecord>,
        (by, what): (&str, &str),
    ) -> Result<(), AgentError> {
        if in_sync.len() > IN_SYNC_MAX {
            return Err(AgentError::Other(format!(
                "{what}: {} groups are concerned, and one write has {IN_SYNC_MAX} at most: bring the hosts back one after the other",
                in_sync.len()
            )));
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (history, transaction) = self.next_change(self.guarded()?, true)?;
        let mark = history.epoch_mark.clone();
        let change = Change { epoch: cluster.epoch, at, by: by.to_owned(), what: what.to_owned(), mark, cluster };
        let mut transaction = transaction
            .if_version(self.keys.state(), self.version)
            .if_version(self.keys.change(change.epoch), 0)
            .put(self.keys.state(), json(&change.cluster))
            .put(self.keys.change(change.epoch), json(&change));
        for (group, in_sync) in &in_sync {
            let (key, seen) = (self.keys.in_sync(*group), self.in_sync.get(group).map_or(0, |(_, version)| *version));
            transaction = transaction.if_version(&key, seen).put(&key, json(in_sync));
        }
        if let Some(pending) = &pending {
            let key = self.keys.pending();
            transaction = transaction.if_version(&key, self.pending.1).put(&key, json(pending));
        }
        self.version = self.coordinator.commit(transaction)?;
        let version = self.version;
        self.history = (history, version);
        self.in_sync.extend(in_sync.into_iter().map(|(group, in_sync)| (group, (in_sync, version))));
        if let Some(pending) = pending {
            self.pending = (pending, version);
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use coord::embedded::Embedded;

    use super::*;

    #[test]
    fn what_a_dead_process_wrote_late_takes_no_number_away() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Embedded::open(folder.path()).unwrap();
        let (keys, record) = (Keys::new("test"), |lease_ms| VoterRecord { lease_ms });
        let (first, before) = Records::begin_voting(&coordinator, &keys, "a", &record(1)).unwrap();
        assert_eq!(before, VoterRecord::default());
        // The next process begins and dies while its write is on its way; the one after it begins.
        let late = start_of_voting(&keys, "a", &record(2), first);
        let (second, before) = Records::begin_voting(&coordinator, &keys, "a", &record(3)).unwrap();
        assert!(second > first);
        assert_eq!(before, record(1));
        assert!(matches!(coordinator.commit(late), Err(CoordError::Conflict { .. })));
        assert_eq!(coordinator.read(&keys.voter("a")).unwrap().unwrap().version, second);
    }
}
