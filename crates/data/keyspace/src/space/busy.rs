//! Keys that commands which take several turns have for themselves.
//!
//! By name, in all databases: a transaction or `MOVE` may mean another database than its client's. Of a command that has very many,
//! hashes are noted instead of names: a copy of each would take longer than what is done with it. Two keys of one hash are the same
//! key then, so somebody may wait in vain, once in a long while.

use rustc_hash::FxHashSet;

use crate::{
    Bytes,
    hash_index::{HashIndex, Hashed},
};

#[derive(Debug)]
struct Hold {
    key: Bytes,
    readers: usize,
    writers: usize,
}

impl Hashed for Hold {
    fn name(&self) -> &[u8] {
        &self.key
    }
}

/// Very many keys of one command.
#[derive(Debug)]
struct WideHold {
    owner: u64,
    is_shared: bool,
    hashes: FxHashSet<u64>,
}

impl WideHold {
    fn refuses(&self, hash: u64, reads: bool) -> bool {
        !(reads && self.is_shared) && self.hashes.contains(&hash)
    }
}

/// The busy keys.
#[derive(Debug)]
pub struct Busy {
    keys: HashIndex<Hold>,
    wide: Vec<WideHold>,
}

impl Busy {
    /// None yet.
    pub(crate) fn new(seed: u64) -> Self {
        Self { keys: HashIndex::new(seed), wide: Vec::new() }
    }

    /// Whether a key is one.
    pub fn has(&self, key: &[u8]) -> bool {
        if self.keys.is_empty() && self.wide.is_empty() {
            return false;
        }
        let hash = self.keys.hash(key);
        self.keys.get_hashed(hash, key).is_some() || self.wide.iter().any(|hold| hold.hashes.contains(&hash))
    }

    /// Whether a command that reads a key, or one that may change it, has to wait.
    pub fn refuses(&self, key: &[u8], reads: bool) -> bool {
        let hash = self.keys.hash(key);
        self.is_held(hash, key, reads) || self.wide.iter().any(|hold| hold.refuses(hash, reads))
    }

    fn is_held(&self, hash: u64, key: &[u8], reads: bool) -> bool {
        self.keys.get_hashed(hash, key).is_some_and(|hold| hold.writers > 0 || !reads)
    }

    /// A command has a key from now on; others may read it if it is shared.
    pub fn hold(&mut self, key: &Bytes, is_shared: bool) {
        let hash = self.keys.hash(key);
        if let Some(hold) = self.keys.get_mut_hashed(hash, key) {
            *(if is_shared { &mut hold.readers } else { &mut hold.writers }) += 1;
        } else {
            let (readers, writers) = (usize::from(is_shared), usize::from(!is_shared));
            self.keys.insert_new(hash, Hold { key: key.clone(), readers, writers });
        }
    }

    /// It has it no longer.
    pub fn release(&mut self, key: &Bytes, is_shared: bool) {
        let Some(hold) = self.keys.get_mut(key) else { return };
        let count = if is_shared { &mut hold.readers } else { &mut hold.writers };
        *count = count.saturating_sub(1);
        if hold.readers + hold.writers == 0 {
            self.keys.remove(key);
        }
    }

    /// A command is about to hold so many keys.
    pub fn begin_wide(&mut self, owner: u64, is_shared: bool, keys: usize) {
        let hashes = FxHashSet::with_capacity_and_hasher(keys, rustc_hash::FxBuildHasher);
        self.wide.push(WideHold { owner, is_shared, hashes });
    }

    /// It holds one more, which it may hold already. Returns false if it has to wait for it.
    pub fn hold_wide(&mut self, owner: u64, key: &[u8]) -> bool {
        let hash = self.keys.hash(key);
        let Some(own) = self.wide.iter().position(|hold| hold.owner == owner) else { return true };
        let is_shared = self.wide.get(own).is_some_and(|hold| hold.is_shared);
        let mut others = self.wide.iter().enumerate().filter(|(index, _)| *index != own);
        if self.is_held(hash, key, is_shared) || others.any(|(_, hold)| hold.refuses(hash, is_shared)) {
            return false;
        }
        if let Some(hold) = self.wide.get_mut(own) {
            hold.hashes.insert(hash);
        }
        true
    }

    /// It holds none any more.
    pub fn release_wide(&mut self, owner: u64) {
        self.wide.retain(|hold| hold.owner != owner);
    }
}
