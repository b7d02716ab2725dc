//! Which engine the tables of a shard lie in.

use std::{path::Path, sync::Arc};

use commands::config::{Kind as _, Settings, TablesEngine, TablesRead};
use engine::{Engine, FjallEngine, FjallOptions, PageCache};

use crate::{StoreError, descriptors};

/// Folders of a shard, by engine: what one wrote no other can read.
const FOLDERS: [(TablesEngine, &str); 2] = [(TablesEngine::Fjall, "tables"), (TablesEngine::Rocksdb, "rocksdb")];

/// The folder of tables that are in RocksDB.
pub const ROCKSDB: &str = "rocksdb";

/// Opens the tables of a shard, or makes them.
///
/// # Errors
///
/// They are in another engine, this build has not the engine, or that fails.
pub fn open(shard: &Path, settings: &Settings, memory_bytes_max: u64) -> Result<Arc<dyn Engine>, StoreError> {
    let wanted = settings.tables_engine;
    if let Some((other, name)) = FOLDERS.iter().find(|(engine, name)| *engine != wanted && shard.join(name).exists()) {
        return Err(StoreError::OtherEngine { path: shard.join(name), engine: other.text() });
    }
    match wanted {
        TablesEngine::Fjall => {
            let files_max = descriptors::of_tables(settings.maxclients.0);
            let page_cache = match settings.tables_read {
                TablesRead::Auto => PageCache::Auto,
                TablesRead::Direct => PageCache::Past,
                TablesRead::Cached | TablesRead::Threads => PageCache::Through,
            };
            let options = FjallOptions { memory_bytes_max, files_max, page_cache, ..FjallOptions::default() };
            Ok(Arc::new(FjallEngine::open(&shard.join("tables"), &options)?))
        }
        #[cfg(feature = "rocksdb")]
        TablesEngine::Rocksdb => {
            let files_max = u16::try_from(descriptors::of_tables(settings.maxclients.0)).unwrap_or(u16::MAX);
            let options = engine::RocksOptions { memory_bytes_max, files_max, ..engine::RocksOptions::default() };
            Ok(Arc::new(engine::RocksEngine::open(&shard.join(ROCKSDB), &options)?))
        }
        #[cfg(not(feature = "rocksdb"))]
        TablesEngine::Rocksdb => Err(StoreError::NoRocksdb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stay_in_the_engine_that_made_them() {
        let shard = tempfile::tempdir().unwrap();
        let fjall = Settings::default();
        let rocksdb = Settings { tables_engine: TablesEngine::Rocksdb, ..Settings::default() };
        let first = open(shard.path(), &rocksdb, 16 << 20);
        let (settings, engine) = if cfg!(feature = "rocksdb") {
            drop(first.unwrap());
            (&fjall, "rocksdb")
        } else {
            assert!(first.is_err_and(|error| error.to_string().contains("--features rocksdb")));
            drop(open(shard.path(), &fjall, 16 << 20).unwrap());
            (&rocksdb, "fjall")
        };
        let Err(error) = open(shard.path(), settings, 16 << 20) else { panic!("the other one was opened") };
        assert!(error.to_string().contains(&format!("say `tables-engine {engine}`")), "{error}");
    }
}
