//! Keys that commands which take several turns have for themselves.
//!
//! By name, in all databases: a transaction or `MOVE` may mean another database than its client's.

use crate::{
    Bytes,
    hash_index::{HashIndex, Hashed},
};

#[derive(Debug)]
struct Hold {
    key: Bytes,
    readers: usize,
    writers: usize,
    /// The client whose command writes it; nobody if it does not matter whose.
    owner: u64,
}

impl Hashed for Hold {
    fn name(&self) -> &[u8] {
        &self.key
    }
}

/// The busy keys. One command may hold very many.
#[derive(Debug)]
pub(crate) struct Busy {
    keys: HashIndex<Hold>,
}

impl Busy {
    /// None yet.
    pub(crate) fn new(seed: u64) -> Self {
        Self { keys: HashIndex::new(seed) }
    }

    /// Whether a key is one.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.get(key).is_some()
    }

    /// Whether a command that reads a key, or one that may change it, has to wait.
    pub(crate) fn refuses(&self, key: &[u8], reads: bool) -> bool {
        self.keys.get(key).is_some_and(|hold| hold.writers > 0 || !reads)
    }

    /// The same for a command that may name a key twice and has it already.
    pub(crate) fn refuses_owner(&self, key: &[u8], reads: bool, owner: u64) -> bool {
        self.keys.get(key).is_some_and(|hold| match reads {
            true => hold.writers > 0,
            false => hold.readers > 0 || hold.owner != owner,
        })
    }

    /// A command has a key from now on; others may read it if it is shared.
    pub(crate) fn hold(&mut self, key: &Bytes, is_shared: bool) {
        self.hold_for(key, is_shared, 0);
    }

    /// The same for a command that may name it twice.
    pub(crate) fn hold_for(&mut self, key: &Bytes, is_shared: bool, owner: u64) {
        let hash = self.keys.hash(key);
        if let Some(hold) = self.keys.get_mut_hashed(hash, key) {
            *(if is_shared { &mut hold.readers } else { &mut hold.writers }) += 1;
        } else {
            let (readers, writers) = (usize::from(is_shared), usize::from(!is_shared));
            self.keys.insert_new(hash, Hold { key: key.clone(), readers, writers, owner });
        }
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
