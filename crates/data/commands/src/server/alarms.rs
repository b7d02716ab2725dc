//! When those who wait for a key are asked again without anybody having changed it: a message that was delayed is ready, a
//! reservation has run out.

use std::collections::{BTreeSet, HashMap};

use keyspace::{Bytes, Millis};

/// A key of a database.
type Name = (usize, Bytes);

/// A time for each key that somebody waits for, at most.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    by_time: BTreeSet<(Millis, Name)>,
    by_key: HashMap<Name, Millis>,
}

impl Alarms {
    /// Sets a key's time, unless it has an earlier one.
    pub(super) fn set(&mut self, name: Name, at: Millis) {
        if self.by_key.get(&name).is_some_and(|known| *known <= at) {
            return;
        }
        self.forget(&name);
        self.by_key.insert(name.clone(), at);
        self.by_time.insert((at, name));
    }

    /// Nobody waits for a key any more.
    pub(super) fn forget(&mut self, name: &Name) {
        if let Some(at) = self.by_key.remove(name) {
            self.by_time.remove(&(at, name.clone()));
        }
    }

    /// The next key whose time has come.
    pub(super) fn take_due(&mut self, now: Millis) -> Option<Name> {
        let (at, name) = self.by_time.first().filter(|(at, _)| *at <= now).cloned()?;
        self.by_time.remove(&(at, name.clone()));
        self.by_key.remove(&name);
        Some(name)
    }

    /// The next time.
    pub(super) fn next(&self) -> Option<Millis> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_time_the_earliest() {
        let name = |key: &[u8]| (0, Bytes::from_slice(key));
        let mut alarms = Alarms::default();
        alarms.set(name(b"a"), 50);
        alarms.set(name(b"a"), 70);
        alarms.set(name(b"a"), 30);
        alarms.set(name(b"b"), 40);
        assert_eq!(alarms.next(), Some(30));
        assert_eq!(alarms.take_due(29), None);
        assert_eq!(alarms.take_due(100), Some(name(b"a")));
        alarms.forget(&name(b"b"));
        assert_eq!((alarms.take_due(100), alarms.next()), (None, None));
    }
}
