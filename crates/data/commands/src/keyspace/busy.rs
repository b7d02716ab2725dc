//! Keys that commands which take several turns have for themselves.
//!
//! By name, in all databases: a transaction or `MOVE` may mean another database than its client's.

use rustc_hash::FxHashMap;

use crate::Bytes;

#[derive(Debug, Default)]
struct Hold {
    readers: usize,
    writers: usize,
}

/// The busy keys.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    keys: FxHashMap<Bytes, Hold>,
}

impl Busy {
    /// Whether a key is one.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.contains_key(key)
    }

    /// Whether a command that reads a key, or one that may change it, has to wait.
    pub(crate) fn refuses(&self, key: &[u8], reads: bool) -> bool {
        self.keys.get(key).is_some_and(|hold| hold.writers > 0 || !reads)
    }

    /// A command has a key from now on; others may read it if it is shared.
    pub(crate) fn hold(&mut self, key: &Bytes, is_shared: bool) {
        let hold = self.keys.entry(key.clone()).or_default();
        let count = if is_shared { &mut hold.readers } else { &mut hold.writers };
        *count += 1;
    }

    /// It has it no longer.
    pub(crate) fn release(&mut self, key: &Bytes, is_shared: bool) {
        let Some(hold) = self.keys.get_mut(key) else { return };
        let count = if is_shared { &mut hold.readers } else { &mut hold.writers };
        *count = count.saturating_sub(1);
        if hold.readers + hold.writers == 0 {
            self.keys.remove(key);
        }
    }
}
