//! The folder of a store, and those of its shards in it.

use std::{
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{
    StoreError, messages,
    running::{self, Running},
};

/// Which shard of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNumber(pub u16);

impl ShardNumber {
    /// The one that every store has.
    pub const FIRST: Self = Self(0);
}

impl fmt::Display for ShardNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Where a shard has its data, in the folder of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFolder(PathBuf);

impl ShardFolder {
    /// That of a shard.
    #[must_use]
    pub fn of(root: &Path, number: ShardNumber) -> Self {
        Self(root.join(format!("shard-{number}")))
    }

    /// That of the first shard.
    #[must_use]
    pub fn first(root: &Path) -> Self {
        Self::of(root, ShardNumber::FIRST)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where its log is.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Where its tables are, unless they are in RocksDB.
    #[must_use]
    pub fn tables(&self) -> PathBuf {
        self.0.join("tables")
    }
}

/// The folder of a store that this process has for itself, as long as this is there.
#[derive(Debug)]
pub struct StoreFolder {
    root: PathBuf,
    /// Keeps others out.
    lock: File,
}

impl StoreFolder {
    /// Takes it, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// Another process has it, or it cannot be written.
    pub fn take(root: &Path) -> Result<Self, StoreError> {
        make(root)?;
        Ok(Self { root: root.to_owned(), lock: running::lock(root)? })
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// That of a shard.
    #[must_use]
    pub fn shard(&self, number: ShardNumber) -> ShardFolder {
        ShardFolder::of(&self.root, number)
    }

    /// Says in the folder who serves it.
    pub fn tell_place(&self, running: &Running) {
        if let Err(error) = running.write(&self.lock) {
            messages::warn(&format!("who serves the folder cannot be written into its file `lock`: {error}"));
        }
    }
}

/// Makes a folder and those above it, unless they are there.
pub fn make(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|source| StoreError::Folder { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_folder_of_its_own_in_one_that_the_process_has_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        let store = StoreFolder::take(&root).unwrap();
        assert!(StoreFolder::take(&root).is_err(), "it is taken");
        assert_eq!(store.shard(ShardNumber(3)).log(), root.join("shard-3/log"));
        assert_eq!(store.shard(ShardNumber::FIRST), ShardFolder::first(&root));
        drop(store);
        assert!(StoreFolder::take(&root).is_ok());
    }
}
