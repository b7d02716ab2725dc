//! What makes data outlive the process: the log, and the tables behind it.
//!
//! The log is the truth. Each turn of the loop appends its effects, and writes them if it is time ([`Persistence::commit`]); the tables
//! follow by checkpoints. A checkpoint begins at the end of a turn, at an offset of the log; the keys that were dirty then are handed
//! in over the following turns, and become one batch that a thread writes with the offset ([`Persistence::advance`]). So
//! recovery is: read the offset in the tables, run the log again from there.

mod beginning;
mod checkpoint;
mod commit;
pub mod engines;
mod gathering;
mod owed;
mod reading;
mod threads;

pub use beginning::files_of_redis;

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool, mpsc},
    thread,
    time::{Duration, Instant},
};

use commands::{
    Millis, Server, Session, SessionId,
    config::{Fsync, Settings, TablesRead},
    host::PersistenceFigures,
    keyspace::{Collection, Gather, Taken},
    server::{Load, Warmup},
};
use engine::{Answer, Job, Readers, ReadersOptions, Report, Tables, Writer, WriterOptions};
use mio::Waker;
use oplog::{Log, Offset, ReplicationId, disk::RealDisk};

use crate::{
    StoreError, clock,
    effects::{Effect, Effects},
    messages,
    point::Point,
    records::ShardTables,
    running::{self, Running},
    until,
};

use threads::{SyncRequest, start_maintainer, start_syncer};

/// The smallest segment of the log.
const SEGMENT_LEN_MIN: u64 = 64 << 10;
/// How often it is looked for log that is not to be kept any more.
const RETAIN_MS: Millis = 1_000;

/// What a reader's thread was asked for.
enum Asked {
    /// A key, for a command that waits.
    Key(Load),
    /// Elements, for a command that waits; and when.
    Elements(SessionId, Instant),
    /// Keys of a database whose time has come.
    Due(usize),
    /// A piece of a collection that comes into memory.
    Piece(Gather),
}

/// What is being removed from the tables in the background.
#[derive(Debug, Clone, Copy)]
enum Removal {
    /// An emptied database, and the step.
    Database(u8, usize),
    /// The elements of a collection that is no more.
    Collection(Collection),
}

/// What is no more, and is to be removed once the tables say so durably: removed earlier, a crash would have the log run again on
/// tables from before, which lack what the commands of then still saw.
#[derive(Debug, Default)]
struct Gone {
    databases: Vec<u8>,
    collections: Vec<Collection>,
}

/// How far a checkpoint is.
enum Checkpoint {
    None,
    /// Keys are being handed in.
    Collecting,
    /// Waits until the batch before it is written.
    Collected,
}

/// Log and tables of a shard.
pub struct Persistence {
    tables: ShardTables,
    writer: Writer,
    reports: mpsc::Receiver<Report>,
    log: Log<RealDisk>,
    /// When the log was appended to last.
    log_time: u64,
    fsync: Fsync,
    sync_requests: mpsc::SyncSender<SyncRequest>,
    /// Up to where a sync that was asked for will make the log durable.
    asked: Offset,
    /// How many clients the last sync has let go on that have not written since.
    awaited: usize,
    /// Up to where the log was durable then.
    let_go_at: Offset,
    /// Since when what was appended waits for more; nothing if nothing does.
    group_began: Option<Instant>,
    sync_failures: mpsc::Receiver<String>,
    maintain_requests: mpsc::SyncSender<()>,
    /// Where the log ended at the start, as long as nothing has been written since: segments are prepared from then on.
    idle_at: Option<Offset>,
    readers: Readers,
    answers: mpsc::Receiver<(Asked, Answer)>,
    answer: mpsc::Sender<(Asked, Answer)>,
    /// When the tables are asked again for keys whose time has come, and of which database.
    next_due: (Millis, usize),
    waker: Arc<Waker>,
    /// The loop has been woken for the answers that wait.
    is_told: Arc<AtomicBool>,
    loads: Vec<Load>,
    warmups: Vec<Warmup>,
    /// Collections that are to come into memory, and how many are being read.
    gatherings: VecDeque<Gather>,
    gathering: usize,
    /// Until when elements are read off the loop first.
    cold_until: Millis,
    checkpoint: Checkpoint,
    last_checkpoint: Millis,
    last_checkpoint_offset: Offset,
    /// When the tables were made durable last, how long that checkpoint took, and how many there were.
    last_done: Millis,
    last_done_ms: Millis,
    checkpoints: u64,
    /// How often everything was merged because somebody wanted it.
    merges: u64,
    /// The last attempt failed.
    failed: bool,
    /// How many requests the readers' threads have not answered yet.
    outstanding: usize,
    /// Whether collections come into memory.
    gathers: bool,
    taken: Vec<Taken>,
    /// When a turn handed in last.
    taken_at: Instant,
    /// Memory is short: dirty keys are to become clean.
    pressed: bool,
    record_bytes: owed::RecordBytes,
    /// As the checkpoint under way, the one that is being written, and the one that is not durable yet have it.
    marked_gone: Gone,
    frozen_gone: Gone,
    written_gone: Gone,
    /// What can be removed.
    removable: Vec<Removal>,
    removing: Option<Removal>,
    /// A step of it is with the writer.
    remove_asked: bool,
    /// Records of emptied databases that were removed since everything was merged.
    emptied_records: usize,
    /// Whether a step of that has been made: the first one drops files.
    has_begun: bool,
    /// The offset that the tables have.
    applied: Offset,
    /// The offset that the tables have durably, and when the log was last looked through for what is not kept any more.
    synced: (Offset, Millis),
    /// When the batch that is being written was handed over.
    submitted: Millis,
    /// For how much log a batch was written, and how long that took.
    drained: Option<(u64, Millis)>,
    /// The log could not be written: the reason.
    trouble: Option<String>,
    /// Those of the log; they end when nobody can ask them any more.
    threads: Vec<thread::JoinHandle<()>>,
    /// Keeps others out of the folder.
    lock: File,
}

impl Persistence {
    /// Opens the folder of a shard, or makes it.
    pub fn open(settings: &Settings, until: Option<Point>, waker: Arc<Waker>) -> Result<Self, StoreError> {
        let root = PathBuf::from(&settings.dir.0);
        let folder = root.join("shard-0");
        let make = |path: &Path| {
            fs::create_dir_all(path).map_err(|source| StoreError::Folder { path: path.to_owned(), source })
        };
        let is_new = !folder.exists();
        make(&folder)?;
        let lock = running::lock(&root)?;
        if is_new {
            beginning::tell(&root);
        }
        warn_of_little(settings);
        let engine = engines::open(&folder, settings, tables_memory(settings))?;
        let applied = engine.applied()?.map(|offset| Offset(offset.0));
        let log_folder = folder.join("log");
        make(&log_folder)?;
        let mut random = [0; 32];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
        let (id, rest) = random.split_at(20);
        let (salt, seed) = rest.split_at(4);
        let id = ReplicationId::from_random(id.try_into().unwrap_or_default());
        let salt = u32::from_ne_bytes(salt.try_into().unwrap_or_default());
        let now = clock::now();
        let segment_len = settings.log_segment_size.0.max(SEGMENT_LEN_MIN);
        let log_options = oplog::Options { segment_len, ..oplog::Options::new(id, salt) };
        let open = || Log::open(RealDisk, &log_folder, log_options.clone(), now.unsigned_abs());
        let mut given_up = None;
        let (mut log, recovered) = match open() {
            Ok(opened) => opened,
            Err(error) => {
                let applied = applied.unwrap_or(Offset(0));
                given_up = Some(until::give_up_damaged(error, applied, until, &folder, segment_len)?);
                open()?
            }
        };
        if let Some(aside) = given_up {
            log.set_replication_id(id, now.unsigned_abs())?;
            log.syncer().sync()?;
            messages::warn(&format!(
                "the log was cut at offset {}; what came later is in {}",
                log.end(),
                aside.display()
            ));
        }
        if let Some(cut) = &recovered.cut {
            messages::warn(&format!(
                "the log ends at offset {}: what follows in {} was being written when the store or the machine went down ({})",
                cut.offset,
                cut.segment.display(),
                cut.reason
            ));
        }
        if applied.is_none() && log.first() > Offset(0) {
            return Err(StoreError::TablesMissing { first: log.first().0 });
        }
        let applied = applied.unwrap_or(log.first());
        if applied > log.end() {
            return Err(StoreError::LogBehind { applied: applied.0, end: log.end().0 });
        }
        if let Some(point) = until {
            match until::cut(&mut log, applied, point, &folder, id, now.unsigned_abs())? {
                Some(aside) => messages::warn(&format!("back at {point}; what came later is in {}", aside.display())),
                None => messages::warn(&format!("nothing in the log is later than {point}")),
            }
        }
        set_retention(&mut log, settings);
        let new_seed = u64::from_ne_bytes(seed.try_into().unwrap_or_default());
        let tables = ShardTables::new(Tables::new(Arc::clone(&engine)), new_seed, settings)?;
        let (report, reports) = mpsc::channel();
        let report_waker = Arc::clone(&waker);
        let writer = Writer::start(Arc::clone(&engine), &WriterOptions::default(), move |done| {
            let _ = report.send(done);
            let _ = report_waker.wake();
        })?;
        let (answer, answers) = mpsc::channel();
        let is_ring_wanted = settings.tables_read != TablesRead::Threads;
        let readers = Readers::start(&engine, &ReadersOptions { is_ring_wanted, ..ReadersOptions::default() })?;
        let (sync_requests, sync_failures, syncer) = start_syncer(&log, Arc::clone(&waker))?;
        let (maintain_requests, maintainer) = start_maintainer(&log)?;
        let end = log.end();
        Ok(Self {
            tables,
            writer,
            reports,
            fsync: settings.appendfsync,
            log,
            log_time: recovered.last_time_ms.unwrap_or(0),
            sync_requests,
            asked: Offset(0),
            awaited: 0,
            let_go_at: Offset(0),
            group_began: None,
            sync_failures,
            maintain_requests,
            idle_at: Some(end),
            readers,
            answers,
            answer,
            waker,
            is_told: Arc::default(),
            loads: Vec::new(),
            warmups: Vec::new(),
            gatherings: VecDeque::new(),
            gathering: 0,
            cold_until: 0,
            next_due: (now, 0),
            checkpoint: Checkpoint::None,
            last_checkpoint: now,
            last_checkpoint_offset: applied,
            last_done: now,
            last_done_ms: 0,
            checkpoints: 0,
            merges: 0,
            failed: false,
            outstanding: 0,
            gathers: true,
            taken: Vec::new(),
            taken_at: Instant::now(),
            pressed: false,
            record_bytes: owed::RecordBytes::default(),
            marked_gone: Gone::default(),
            frozen_gone: Gone::default(),
            written_gone: Gone::default(),
            removable: Vec::new(),
            removing: None,
            remove_asked: false,
            emptied_records: 0,
            has_begun: false,
            applied,
            synced: (applied, now),
            submitted: now,
            drained: None,
            trouble: None,
            threads: vec![syncer, maintainer],
            lock,
        })
    }

    /// What the keyspace asks for keys that are not in memory.
    pub fn tables(&self) -> ShardTables {
        self.tables.clone()
    }

    /// Says in the folder who serves it.
    pub fn tell_place(&self, running: &Running) {
        if let Err(error) = running.write(&self.lock) {
            messages::warn(&format!("who serves the folder cannot be written into its file `lock`: {error}"));
        }
    }

    /// Follows settings that have changed.
    pub fn follow(&self, settings: &Settings) {
        self.tables.follow(settings);
        warn_of_little(settings);
    }

    /// Brings a new server to the end of the log. Returns how many commands ran again.
    pub fn recover(&mut self, server: &mut Server) -> Result<u64, StoreError> {
        if let Some(layout) = self.tables.layout()? {
            server.keyspace.set_layout(&layout);
            self.removable = layout.dropped.iter().map(|disk| Removal::Database(*disk, 0)).collect();
        }
        self.tables.read_next_version()?;
        self.removable.extend(self.tables.read_orphans()?.into_iter().map(Removal::Collection));
        for db in 0..server.keyspace.len() {
            let (count, expires) = self.tables.key_counts(db)?;
            if let Some(database) = server.keyspace.database_mut(db) {
                database.set_len(count, expires);
            }
        }
        if let Some(payload) = self.tables.functions()? {
            server.restore_functions(&payload).map_err(StoreError::Functions)?;
        }
        let empty = self.tables.with(|tables| tables.engine().applied())?.is_none();
        if empty {
            server.keyspace.set_complete();
        }
        let mut session = Session::new(SessionId(0), 0);
        session.internal = true;
        session.replaying = true;
        let mut reader = self.log.read(self.applied)?;
        let mut effects = Effects::default();
        let mut count = 0;
        let failed = |offset: Offset, reason| StoreError::Replay { offset: offset.0, reason };
        while let Some(entry) = reader.next()? {
            let run = |effect: Effect<'_>| {
                count += 1;
                server.replay(&mut session, effect.words).map_err(|reason| failed(effect.offset, reason))
            };
            effects.each(&entry, run, failed)?;
        }
        Ok(count)
    }

    /// Begins to measure time anew.
    pub fn clock_was_set_back(&mut self, now: Millis) {
        self.last_checkpoint = self.last_checkpoint.min(now);
        self.next_due.0 = self.next_due.0.min(now);
        self.synced.1 = self.synced.1.min(now);
        self.cold_until = 0;
    }

    /// Gives up what of the log is not to be kept any more.
    fn retain(&mut self, now: Millis) {
        self.synced.1 = now;
        if self.log.retain(self.synced.0, now.unsigned_abs()) > 0 {
            let _ = self.maintain_requests.try_send(());
        }
    }

    /// How things are, for those who ask.
    pub fn figures(&self) -> PersistenceFigures {
        let is_collecting = !matches!(self.checkpoint, Checkpoint::None);
        PersistenceFigures {
            enabled: true,
            in_progress: is_collecting || self.tables.with(|tables| tables.frozen().is_some()),
            last_checkpoint: self.last_done,
            last_checkpoint_ms: self.last_done_ms,
            failed: self.failed,
            checkpoints: self.checkpoints,
            log: (self.log.first().0, self.log.end().0),
            durable: self.log.durable().0,
            applied: self.applied.0,
            log_failed: self.trouble.is_some(),
            reads_by_ring: self.readers.has_ring(),
        }
    }

    /// The name of the log's history.
    pub fn replication_id(&self) -> String {
        self.log.replication_id().to_string()
    }

    /// Waits for what is being read, and hands it to those who wait for it.
    pub fn drain(&mut self, server: &mut Server, now: Millis) {
        self.gathers = false;
        while self.outstanding > 0 {
            self.load(server, now);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Brings the log to the disk, and nothing more.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn close_without_checkpoint(mut self, server: &mut Server, now: Millis) -> Result<(), StoreError> {
        server.finish_tasks();
        self.commit_at_once(server, now)?;
        self.end();
        Ok(())
    }

    /// Brings everything to the disk, so that the next start has nothing to run again. What the disk does not take keeps
    /// nobody from ending: all that was acknowledged is in the log.
    ///
    /// # Errors
    ///
    /// The log cannot be made durable, or the tables are broken.
    pub fn close(mut self, server: &mut Server, now: Millis) -> Result<(), StoreError> {
        server.finish_tasks();
        self.commit_at_once(server, now)?;
        if let Some(reason) = &self.trouble {
            let reason = reason.trim_start_matches("MISCONF ");
            messages::warn(&format!(
                "{reason}: the store ends without what it has not acknowledged; the next start runs more of the log again"
            ));
            self.end();
            return Ok(());
        }
        // One checkpoint may be under way; the last one follows it.
        self.settle(server, now)?;
        if self.log.end() > self.last_checkpoint_offset {
            self.begin_checkpoint(server, now);
            self.settle(server, now)?;
        }
        if self.tables.with(|tables| tables.frozen().is_some()) {
            messages::warn("the tables cannot be written: the next start runs more of the log again");
        }
        let _ = self.writer.submit(Job::Sync);
        self.end();
        Ok(())
    }

    /// Waits for the log's threads: whoever opens the folder next finds nobody in it.
    fn end(self) {
        let Self { sync_requests, maintain_requests, threads, writer, readers, .. } = self;
        drop((sync_requests, maintain_requests, writer, readers));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn set_retention(log: &mut Log<RealDisk>, settings: &Settings) {
    let bound = |value: u64| (value > 0).then_some(value);
    let seconds = settings.log_retention_seconds.0.unsigned_abs();
    log.set_retention(bound(settings.log_retention_size.0), bound(seconds.saturating_mul(1000)));
}

/// What the tables' buffers and cache take at least.
const TABLES_MEMORY_MIN: u64 = 16 << 20;

/// Says that keys cannot have what the tables need.
fn warn_of_little(settings: &Settings) {
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
        bound => (bound / 4).clamp(LEAST, 1 << 30),
    }
}
