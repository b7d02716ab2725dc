//! What transactions do to values: no file, no clock. Times are milliseconds that somebody hands in.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    CoordError, Versioned,
    transaction::{LeaseId, Revision, Transaction, VALUE_MAX, Write},
};

/// Changes that are kept for those who watch.
const CHANGES_MAX: usize = 4_096;

/// Something that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub revision: Revision,
    /// The name.
    pub key: String,
    /// Its value since; nothing if it has none any more.
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Vec<u8>,
    version: Revision,
    lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl_ms: u64,
    ends_at: u64,
}

/// Values by name, with what changed lately.
#[derive(Debug, Default)]
pub struct Table {
    entries: BTreeMap<String, Entry>,
    revision: Revision,
    leases: BTreeMap<LeaseId, Lease>,
    last_lease: LeaseId,
    changes: VecDeque<Change>,
    /// Changes up to here are not kept any more.
    forgotten: Revision,
}

impl Table {
    /// One with values as they were at a revision.
    #[must_use]
    pub fn from_values(revision: Revision, values: Vec<(String, Versioned)>) -> Self {
        let entry = |(key, Versioned { value, version })| (key, Entry { value, version, lease: None });
        Self { entries: values.into_iter().map(entry).collect(), revision, forgotten: revision, ..Self::default() }
    }

    /// The last revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Goes on to a revision that has already been given.
    ///
    /// # Errors
    ///
    /// It is before the last one.
    pub fn skip_to(&mut self, revision: Revision) -> Result<(), String> {
        if revision < self.revision {
            return Err(format!("revision {revision} stands behind {}", self.revision));
        }
        self.revision = revision;
        self.forgotten = revision;
        Ok(())
    }

    /// A value.
    #[must_use]
    pub fn read(&self, key: &str) -> Option<Versioned> {
        let entry = self.entries.get(key)?;
        Some(Versioned { value: entry.value.clone(), version: entry.version })
    }

    /// All values whose names begin so.
    pub fn list(&self, prefix: &str) -> impl Iterator<Item = (String, Versioned)> {
        let from = self.entries.range(prefix.to_owned()..);
        let prefix = prefix.to_owned();
        from.take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(key, entry)| (key.clone(), Versioned { value: entry.value.clone(), version: entry.version }))
    }

    /// Values that go with no lease: those that a restart finds again.
    pub fn lasting(&self) -> impl Iterator<Item = (&String, &[u8], Revision)> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.lease.is_none())
            .map(|(key, entry)| (key, entry.value.as_slice(), entry.version))
    }

    /// Whether a transaction may happen now.
    ///
    /// # Errors
    ///
    /// A condition does not hold, a lease has ended, or a value is too large.
    pub fn check(&self, transaction: &Transaction) -> Result<(), CoordError> {
        for condition in &transaction.conditions {
            let found = self.entries.get(&condition.key).map_or(0, |entry| entry.version);
            if found != condition.version {
                let (key, expected) = (condition.key.clone(), condition.version);
                return Err(CoordError::Conflict { key, expected, found });
            }
        }
        for write in &transaction.writes {
            if let Write::Put { key, value, lease } = write {
                if value.len() > VALUE_MAX {
                    return Err(CoordError::TooLarge { key: key.clone(), len: value.len() });
                }
                if let Some(lease) = lease.filter(|lease| !self.leases.contains_key(lease)) {
                    return Err(CoordError::NoLease(lease));
                }
            }
        }
        Ok(())
    }

    /// Does what a checked transaction says, and returns its revision.
    pub fn apply(&mut self, writes: Vec<Write>) -> Revision {
        if writes.is_empty() {
            return self.revision;
        }
        self.revision += 1;
        let version = self.revision;
        for write in writes {
            match write {
                Write::Put { key, value, lease } => {
                    self.note(key.clone(), Some(value.clone()));
                    self.entries.insert(key, Entry { value, version, lease });
                }
                Write::Delete { key } => {
                    if self.entries.remove(&key).is_some() {
                        self.note(key, None);
                    }
                }
            }
        }
        version
    }

    fn note(&mut self, key: String, value: Option<Vec<u8>>) {
        self.changes.push_back(Change { revision: self.revision, key, value });
        while self.changes.len() > CHANGES_MAX {
            let gone = self.changes.pop_front();
            self.forgotten = gone.map_or(self.forgotten, |change| change.revision);
        }
    }

    /// What has changed after a revision.
    ///
    /// # Errors
    ///
    /// It is too long ago.
    pub fn changes(&self, prefix: &str, after: Revision) -> Result<Vec<Change>, CoordError> {
        if after < self.forgotten {
            return Err(CoordError::Compacted(after));
        }
        let new = self.changes.iter().filter(|change| change.revision > after && change.key.starts_with(prefix));
        Ok(new.cloned().collect())
    }

    /// A new lease.
    pub fn grant(&mut self, ttl_ms: u64, now: u64) -> LeaseId {
        self.last_lease += 1;
        self.leases.insert(self.last_lease, Lease { ttl_ms, ends_at: now.saturating_add(ttl_ms) });
        self.last_lease
    }

    /// Lets a lease last for its time again.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn keep_alive(&mut self, id: LeaseId, now: u64) -> Result<(), CoordError> {
        let lease = self.leases.get_mut(&id).filter(|lease| lease.ends_at > now).ok_or(CoordError::NoLease(id))?;
        lease.ends_at = now.saturating_add(lease.ttl_ms);
        Ok(())
    }

    /// Ends a lease, with what is under it.
    pub fn revoke(&mut self, id: LeaseId) {
        if self.leases.remove(&id).is_none() {
            return;
        }
        let under = self.entries.iter().filter(|(_, entry)| entry.lease == Some(id));
        let gone = under.map(|(key, _)| Write::Delete { key: key.clone() }).collect();
        self.apply(gone);
    }

    /// Ends the leases whose time is over.
    pub fn expire(&mut self, now: u64) {
        let over: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.ends_at <= now).map(|(id, _)| *id).collect();
        for id in over {
            self.revoke(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(table: &mut Table, transaction: Transaction) -> Result<Revision, CoordError> {
        table.check(&transaction)?;
        Ok(table.apply(transaction.writes))
    }

    #[test]
    fn whoever_has_seen_an_old_version_changes_nothing() {
        let mut table = Table::default();
        assert_eq!(commit(&mut table, Transaction::new().if_version("a", 0).put("a", "1").put("b", "1")).unwrap(), 1);
        let late = Transaction::new().if_version("a", 0).put("a", "2").delete("b");
        assert!(matches!(commit(&mut table, late), Err(CoordError::Conflict { expected: 0, found: 1, .. })));
        assert_eq!(table.read("b").unwrap().value, b"1");
        assert_eq!(commit(&mut table, Transaction::new().if_version("a", 1).delete("a")).unwrap(), 2);
        assert_eq!(table.read("a"), None);
        assert_eq!(table.list("").map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn watchers_get_every_change_or_hear_that_they_missed_some() {
        let mut table = Table::default();
        for number in 0..3 {
            commit(&mut table, Transaction::new().put(format!("/x/{number}"), "v").put("/y", "v")).unwrap();
        }
        let seen = table.changes("/x/", 1).unwrap();
        assert_eq!(seen.iter().map(|change| change.key.as_str()).collect::<Vec<_>>(), ["/x/1", "/x/2"]);
        for _ in 0..CHANGES_MAX {
            commit(&mut table, Transaction::new().put("/z", "v")).unwrap();
        }
        assert!(matches!(table.changes("/x/", 1), Err(CoordError::Compacted(1))));
        assert!(table.changes("/x/", 3).unwrap().is_empty());
    }

    #[test]
    fn what_is_under_a_lease_goes_with_it() {
        let mut table = Table::default();
        let lease = table.grant(100, 0);
        commit(&mut table, Transaction::new().put_under("agent", "a", lease).put("other", "b")).unwrap();
        table.keep_alive(lease, 90).unwrap();
        table.expire(150);
        assert!(table.read("agent").is_some());
        table.expire(190);
        assert!(table.read("agent").is_none() && table.read("other").is_some());
        assert!(matches!(table.keep_alive(lease, 190), Err(CoordError::NoLease(_))));
        assert!(matches!(
            commit(&mut table, Transaction::new().put_under("agent", "a", lease)),
            Err(CoordError::NoLease(_))
        ));
        assert_eq!(table.changes("agent", 1).unwrap().last().unwrap().value, None);
    }
}
