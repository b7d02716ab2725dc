//! A store's tables at the end of its log, while the store goes on: links to their files, brought to that moment elsewhere.
//!
//! The tables on the disk are those of some checkpoint, and what came since is in the log. So what of the log they do not have is
//! copied beside the links, and run on them as a start of the store would. The store's own files are only read: tables are in files
//! that never change, and the log is a copy.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use commands::{
    Server,
    config::{Integer, Memory, Settings, Text},
};
use mio::{Poll, Token, Waker};

use crate::{
    StoreError,
    backup::{Linked, Links},
    clock, engines,
    folder::{ShardFolder, ShardNumber, StoreFolder},
    messages, opening,
};

/// What running the log again, and the tables meanwhile, may take of memory, in bytes, besides the commands' own.
const MEMORY: u64 = 256 << 20;
/// The most databases that a store can have.
const DATABASES: i64 = 128;

/// Tables of one moment. What is on the disk for them goes with the value.
pub struct Still {
    /// All records.
    pub tables: Arc<dyn engine::Records>,
    /// Which moment it is: the offset of the log.
    pub offset: u64,
    _links: Links,
}

impl Still {
    /// Makes it of the folder of a store, which may be served.
    ///
    /// # Errors
    ///
    /// The folder is none of a store, or cannot be written; data that is damaged.
    pub fn of(dir: &Path) -> Result<Self, StoreError> {
        let folder = ShardFolder::first(dir);
        if !folder.log().is_dir() {
            return Err(StoreError::NoStore { path: dir.to_owned() });
        }
        let rocksdb = folder.path().join(engines::ROCKSDB);
        if rocksdb.exists() {
            return Err(StoreError::NotForRocksdb { action: "tidegate export", path: rocksdb });
        }
        // What is exported may go to stdout.
        messages::open_stderr();
        let links = Links::new(folder.path())?;
        let linked = links.all(folder.path(), None)?;
        if linked.applied < linked.end {
            bring_to_end(&links.folder, &linked)?;
        }
        let tables = engine::open_frozen(&scratch(&links.folder, &linked))?;
        let applied = tables.applied()?.map_or(0, |offset| offset.0);
        if applied != linked.end.0 {
            // What the disk does not take, a store that ends leaves to its log.
            return Err(StoreError::ExportBehind { applied, end: linked.end.0 });
        }
        Ok(Self { tables, offset: linked.end.0, _links: links })
    }
}

/// The folder of the store that runs the rest of the log on copies.
fn replay(links: &Path) -> PathBuf {
    links.join("replay")
}

/// Where the tables are in the end.
fn scratch(links: &Path, linked: &Linked) -> PathBuf {
    if linked.applied < linked.end { ShardFolder::first(&replay(links)).tables() } else { links.join("tables") }
}

/// Has a store of its own run on the tables what the log has besides.
fn bring_to_end(links: &Path, linked: &Linked) -> Result<(), StoreError> {
    let root = replay(links);
    let folder = ShardFolder::first(&root);
    let failed = |source: io::Error| StoreError::Folder { path: root.clone(), source };
    fs::create_dir_all(folder.log()).map_err(failed)?;
    fs::rename(links.join("tables"), folder.tables()).map_err(failed)?;
    for (name, len) in &linked.segments {
        // IMPORTANT: a copy, and of what is good: a log is appended to, and its end cut, where it lies.
        let mut from = File::open(links.join("log").join(name)).map_err(failed)?.take(*len);
        let mut to = File::create(folder.log().join(name)).map_err(failed)?;
        io::copy(&mut from, &mut to).map_err(failed)?;
    }
    let settings = Settings {
        dir: Text(root.display().to_string()),
        maxmemory: Memory(MEMORY),
        databases: Integer(DATABASES),
        // What a command could do when it ran it can do again.
        proto_max_bulk_len: Memory(i64::MAX as u64),
        // Nobody else asks for it, so the end of the log is all that is looked at.
        log_retention_size: Memory(1),
        ..Settings::default()
    };
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
    let store = StoreFolder::take(&root)?;
    let mut persistence = opening::open(&store, ShardNumber::FIRST, &settings, None, waker)?;
    let tables = persistence.tables();
    let (seed, now) = (tables.key_seed(), clock::now());
    let stopwatch = Rc::new(clock::stopwatch());
    let mut server = Server::new(settings, seed, seed, now, Some(Box::new(tables)), stopwatch);
    persistence.recover(&mut server)?;
    Ok(persistence.close(&mut server, clock::now())?)
}
