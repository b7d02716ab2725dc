//! Opens the log and the tables of a shard, or makes them, and starts its threads.

use std::{io, path::Path, rc::Rc, sync::Arc};

use commands::config::Settings;
use engine::Engine;
use keyspace::MaxmemoryPolicy;
use mio::Waker;
use oplog::{Log, Offset, Recovered, ReplicationId, disk::RealDisk};
use shard::{Opened, World, applied_of_log};

use crate::{
    StoreError, beginning, clock, engines,
    folder::{self, ShardFolder, ShardNumber, StoreFolder},
    messages,
    point::Point,
    role, until,
    workers::ThreadWorkers,
    world::ProcessWorld,
};

/// The smallest segment of the log.
pub const SEGMENT_LEN_MIN: u64 = 64 << 10;
/// What the tables' buffers and cache take at least.
const TABLES_MEMORY_MIN: u64 = 16 << 20;

/// Log and tables of a shard on the machine's disks.
pub type Persistence = shard::Persistence<RealDisk, ThreadWorkers>;

/// A shard on the machine's disks.
pub type Shard = shard::Shard<RealDisk, ThreadWorkers>;

/// Opens the folder of a shard, or makes it. With a point, the log is cut there.
///
/// # Errors
///
/// The folder cannot be written, what is in it is damaged or does not fit together, or the system has no threads.
pub fn open(
    store: &StoreFolder,
    number: ShardNumber,
    settings: &Settings,
    until: Option<Point>,
    waker: Arc<Waker>,
) -> Result<Persistence, StoreError> {
    let folder = store.shard(number);
    let is_new = !folder.path().exists();
    folder::make(folder.path())?;
    if is_new && number == ShardNumber::FIRST {
        beginning::tell(store.root());
    }
    warn_of_little(settings);
    let engine = engines::open(folder.path(), settings, tables_memory(settings))?;
    let random = Random::new()?;
    let (log, recovered) = open_log(&folder, settings, until, (&*engine, &random))?;
    let applied = applied_of_log(&log, &*engine)?;
    let mut log = log;
    if let Some(point) = until {
        match until::cut(&mut log, applied, point, folder.path(), random.id, clock::now().unsigned_abs())? {
            Some(aside) => messages::warn(&format!("back at {point}; what came later is in {}", aside.display())),
            None => messages::warn(&format!("nothing in the log is later than {point}")),
        }
    }
    let workers = ThreadWorkers::start(&log, &engine, settings, waker)?;
    let opened = Opened { log, last_time_ms: recovered.last_time_ms, applied };
    let world: Rc<dyn World> = ProcessWorld::new();
    let mut persistence = Persistence::new(opened, engine, random.seed, settings, (workers, world))?;
    if role::has_followed(store.root()) {
        persistence.set_of_others();
    }
    Ok(persistence)
}

/// Random numbers for what is made.
struct Random {
    id: ReplicationId,
    salt: u32,
    seed: u64,
}

impl Random {
    fn new() -> Result<Self, StoreError> {
        let mut random = [0; 32];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
        let (id, rest) = random.split_at(20);
        let (salt, seed) = rest.split_at(4);
        Ok(Self {
            id: ReplicationId::from_random(id.try_into().unwrap_or_default()),
            salt: u32::from_ne_bytes(salt.try_into().unwrap_or_default()),
            seed: u64::from_ne_bytes(seed.try_into().unwrap_or_default()),
        })
    }
}

fn open_log(
    folder: &ShardFolder,
    settings: &Settings,
    until: Option<Point>,
    (engine, random): (&dyn Engine, &Random),
) -> Result<(Log<RealDisk>, Recovered), StoreError> {
    let log_folder = folder.log();
    folder::make(&log_folder)?;
    let now_ms = clock::now().unsigned_abs();
    let segment_len = settings.log_segment_size.0.max(SEGMENT_LEN_MIN);
    let log_options = oplog::Options { segment_len, ..oplog::Options::new(random.id, random.salt) };
    let open = || Log::open(RealDisk, &log_folder, log_options.clone(), now_ms);
    let (log, recovered) = match open() {
        Ok(opened) => opened,
        Err(error) => {
            let applied = engine.applied()?.map_or(Offset(0), |offset| Offset(offset.0));
            let aside = until::give_up_damaged(error, applied, until, folder.path(), segment_len)?;
            let (mut log, recovered) = open()?;
            begin_other_history(&mut log, random.id, now_ms, &aside)?;
            (log, recovered)
        }
    };
    if let Some(cut) = &recovered.cut {
        messages::warn(&format!(
            "the log ends at offset {}: what follows in {} was being written when the store or the machine went down ({})",
            cut.offset,
            cut.segment.display(),
            cut.reason
        ));
    }
    Ok((log, recovered))
}

/// A log whose end was given up tells another history from there on.
fn begin_other_history(
    log: &mut Log<RealDisk>,
    id: ReplicationId,
    now_ms: u64,
    aside: &Path,
) -> Result<(), StoreError> {
    log.set_replication_id(id, now_ms)?;
    log.syncer().sync()?;
    messages::warn(&format!("the log was cut at offset {}; what came later is in {}", log.end(), aside.display()));
    Ok(())
}

/// Says that keys cannot have what the tables need.
pub fn warn_of_little(settings: &Settings) {
    if (1..TABLES_MEMORY_MIN).contains(&settings.maxmemory.0) {
        messages::warn(&format!(
            "maxmemory is {} bytes, less than the {} MB that the tables' buffers and cache may take: commands that need memory \
             are refused when they are full",
            settings.maxmemory.0,
            TABLES_MEMORY_MIN >> 20
        ));
    }
}

/// The part of memory that the tables' buffers and cache may take.
fn tables_memory(settings: &Settings) -> u64 {
    const LEAST: u64 = TABLES_MEMORY_MIN;
    const WITHOUT_BOUND: u64 = 128 << 20;
    match settings.maxmemory.0 {
        0 => WITHOUT_BOUND,
        // All keys are in memory, and nothing is read from the tables.
        bound if settings.maxmemory_policy != MaxmemoryPolicy::NoEviction && settings.tables_size_max.0 == 0 => {
            (bound / 32).clamp(LEAST / 4, 256 << 20)
        }
        bound => (bound / 4).clamp(LEAST, 1 << 30),
    }
}
