//! What makes files: flushes of sealed buffers, and merges of files.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use lsm_tree::{AbstractTree as _, Tree};

use super::{MERGED_FROM, RETRY_DELAY, RUNS_MAX, RUNS_MIN, SEALED_MAX, Shared};
use crate::writer::guarded;
use crate::{Bounds, Error, LogOffset, Result};

/// What there is to do, and how it goes.
#[derive(Default)]
pub(super) struct Maintenance {
    state: Mutex<State>,
    changed: Condvar,
    /// Flushes and merges that are under way.
    working: AtomicUsize,
    /// What a merge takes of memory where records are long.
    bytes_of_a_merge: AtomicU64,
    /// Read by merges that may be made beside each other, written by one that may not.
    merging: RwLock<()>,
}

#[derive(Default)]
struct State {
    /// Offsets of the sealed buffers, oldest first.
    sealed: VecDeque<Option<LogOffset>>,
    durable: Option<LogOffset>,
    /// Flushes so far: each may give merges something to do.
    flushes: u64,
    /// After so many flushes nothing was found that could be merged.
    nothing_to_merge_after: Option<u64>,
    /// Threads that look for something to merge, or merge it.
    merging: usize,
    flush_failure: Option<Failure>,
    merge_failure: Option<Failure>,
    is_stopping: bool,
}

impl State {
    fn has_nothing_to_merge(&self) -> bool {
        self.nothing_to_merge_after == Some(self.flushes)
    }
}

/// An error that is told more than once.
struct Failure(io::ErrorKind, String);

impl Failure {
    fn of(error: &Error) -> Self {
        match error {
            Error::Io(error) => Self(error.kind(), error.to_string()),
            error => Self(io::ErrorKind::Other, with_sources(error)),
        }
    }

    fn error(&self) -> Error {
        // Without the kind a full disk could not be told from a broken one.
        Error::Io(io::Error::new(self.0, self.1.clone()))
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}

impl Maintenance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits before the disk is tried again, but not if it is time to end.
    fn pause<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout_while(state, RETRY_DELAY, |state| !state.is_stopping);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn durable(&self) -> Option<LogOffset> {
        self.state().durable
    }

    pub(super) fn is_making_files(&self) -> bool {
        self.working.load(Ordering::Relaxed) > 0
    }

    pub(super) fn bytes_of_a_merge(&self) -> u64 {
        self.bytes_of_a_merge.load(Ordering::Relaxed)
    }

    /// Does what makes files.
    fn work<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.working.fetch_add(1, Ordering::Relaxed);
        let result = guarded(work);
        self.working.fetch_sub(1, Ordering::Relaxed);
        result
    }

    pub(super) fn set_durable(&self, applied: Option<LogOffset>) {
        self.state().durable = applied;
    }

    pub(super) fn sealed(&self, applied: Option<LogOffset>) {
        self.state().sealed.push_back(applied);
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.state().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits until a batch may be written, or says why it may not.
    pub(super) fn wait_for_room(&self, tree: &Tree, merge_bytes_max: u64) -> Result<()> {
        let mut state = self.state();
        loop {
            if let Some(failure) = &state.flush_failure {
                return Err(failure.error());
            }
            let Runs { max: runs_max, bytes, .. } = Runs::of(tree, merge_bytes_max);
            self.bytes_of_a_merge.store(bytes, Ordering::Relaxed);
            let runs = tree.l0_run_count();
            if let Some(failure) = state.merge_failure.as_ref().filter(|_| runs >= runs_max) {
                return Err(failure.error());
            }
            // Nobody waits for a merge that nobody will make.
            let has_runs_left = runs < runs_max || state.merging == 0 && state.has_nothing_to_merge();
            if (state.sealed.len() < SEALED_MAX && has_runs_left) || state.is_stopping {
                return Ok(());
            }
            state = self.wait(state);
        }
    }
}

/// So many blocks a merge and a flush have besides one of each run of level 0: one of the next level, and what becomes of them.
const BLOCKS_BESIDE: u64 = 6;

/// The tree's last level.
const LAST_LEVEL: u8 = 6;
/// How many times as large as a level the next one may become.
const LEVEL_RATIO: u64 = 10;

/// How many runs level 0 may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// From how many on they are merged.
    merged_from: u8,
    /// With how many writes wait for merges.
    max: usize,
    /// What a merge of so many takes of memory, where they are fewer than elsewhere.
    bytes: u64,
}

impl Runs {
    /// A merge has a block of each run in memory, and a record that is longer than a block is one by itself: where records are
    /// very long, runs are merged a few at a time.
    fn of(tree: &Tree, merge_bytes_max: u64) -> Self {
        let version = tree.current_version();
        let tables = version.l0().iter().flat_map(|run| run.iter());
        let block_bytes = tables.map(|table| table.metadata.file_size / table.metadata.data_block_count.max(1));
        Self::with(block_bytes.max().unwrap_or(0), merge_bytes_max)
    }

    fn with(block_bytes: u64, merge_bytes_max: u64) -> Self {
        let fit = usize::try_from(merge_bytes_max / block_bytes.max(1)).unwrap_or(RUNS_MAX);
        let max = fit.clamp(RUNS_MIN, RUNS_MAX);
        let bytes = if max < RUNS_MAX { block_bytes * (max as u64 + BLOCKS_BESIDE) } else { 0 };
        Self { merged_from: MERGED_FROM.min(max as u8 - 1), max, bytes }
    }
}

/// Starts the threads.
pub(super) fn start(shared: &Arc<Shared>, mergers: usize) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let flusher = Arc::clone(shared);
    threads.push(std::thread::Builder::new().name("tables-flush".to_owned()).spawn(move || run_flushes(&flusher))?);
    for _ in 0..mergers {
        let merger = Arc::clone(shared);
        threads.push(std::thread::Builder::new().name("tables-merge".to_owned()).spawn(move || run_merges(&merger))?);
    }
    Ok(threads)
}

fn run_flushes(shared: &Shared) {
    let mut state = shared.maintenance.state();
    while !state.is_stopping {
        if state.sealed.is_empty() && state.flush_failure.is_none() {
            state = shared.maintenance.wait(state);
            continue;
        }
        drop(state);
        let failed = flush(shared).is_err();
        state = shared.maintenance.state();
        if failed {
            state = shared.maintenance.pause(state);
        }
    }
}

/// Makes files of all buffers that are sealed now.
pub(super) fn flush(shared: &Shared) -> Result<()> {
    let flushed = shared.maintenance.work(|| {
        let _files = shared.files.read().unwrap_or_else(PoisonError::into_inner);
        // Counted under the lock of flushes: what another one has just written is not counted again.
        let lock = shared.tree.get_flush_lock();
        let (sealed, buffers) = (shared.maintenance.state().sealed.len(), shared.views.sealed_len());
        shared.tree.flush(&lock, shared.snapshots.watermark())?;
        shared.views.renew(&shared.tree, buffers);
        let mut state = shared.maintenance.state();
        // A buffer that was sealed since is counted by the next flush, even if this one took it along.
        for applied in state.sealed.drain(..sealed).collect::<Vec<_>>() {
            state.durable = applied.or(state.durable);
        }
        drop(state);
        forget_old_versions(shared)
    });
    let mut state = shared.maintenance.state();
    state.flush_failure = flushed.as_ref().err().map(Failure::of);
    state.flushes += 1;
    drop(state);
    shared.maintenance.changed.notify_all();
    if flushed.is_err() {
        delete_half_written(shared);
    }
    flushed
}

fn run_merges(shared: &Shared) {
    let mut seen = None;
    let mut state = shared.maintenance.state();
    while !state.is_stopping {
        if seen == Some(state.flushes) && state.merge_failure.is_none() {
            state = shared.maintenance.wait(state);
            continue;
        }
        seen = Some(state.flushes);
        state.merging += 1;
        drop(state);
        let merged = merge(shared);
        state = shared.maintenance.state();
        state.merging -= 1;
        if let Ok(false) = merged {
            state.nothing_to_merge_after = seen;
        }
        state.merge_failure = merged.as_ref().err().map(Failure::of);
        shared.maintenance.changed.notify_all();
        match merged {
            // There may be more to do.
            Ok(true) => seen = None,
            Ok(false) => {}
            Err(_) => {
                drop(state);
                delete_half_written(shared);
                state = shared.maintenance.pause(shared.maintenance.state());
            }
        }
    }
}

/// Makes one merge, if one is due. Returns whether one was.
fn merge(shared: &Shared) -> Result<bool> {
    shared.maintenance.work(|| {
        let _files = shared.files.read().unwrap_or_else(PoisonError::into_inner);
        let runs = Runs::of(&shared.tree, shared.merge_bytes_max());
        let strategy =
            Leveled::default().with_table_target_size(shared.table_bytes).with_l0_threshold(runs.merged_from);
        let strategy = Arc::new(strategy);
        {
            let _beside_others = shared.maintenance.merging.read().unwrap_or_else(PoisonError::into_inner);
            if compact(shared, Arc::clone(&strategy) as _)? {
                return Ok(true);
            }
        }
        if shared.tree.l0_run_count() < usize::from(runs.merged_from) {
            return Ok(false);
        }
        let _alone = shared.maintenance.merging.write().unwrap_or_else(PoisonError::into_inner);
        Ok(compact(shared, strategy)? || pull_down(shared, runs.merged_from)?)
    })
}

/// Has the tree do what a strategy finds. Returns whether there was anything.
fn compact(shared: &Shared, strategy: Arc<dyn CompactionStrategy>) -> Result<bool> {
    let before = shared.tree.current_version().id();
    let compacted = shared.tree.compact(strategy, shared.snapshots.watermark());
    shared.views.renew(&shared.tree, 0);
    compacted?;
    forget_old_versions(shared)?;
    Ok(shared.tree.current_version().id() != before)
}

/// Merges level 0 into the level above the first one that has files, and what is too large by that into the next level, and so on.
/// Returns whether there was anything. Nobody else merges meanwhile: what is between the levels would be older than what gets below.
///
/// The tree's strategy takes the level that is fullest, and of it the files that lie between the ends of some files of the next
/// level. Where a record is longer than a file is to be, a level may have one file alone, and that reaches beyond the next level:
/// nothing lies between, and level 0 gets no turn.
fn pull_down(shared: &Shared, merged_from: u8) -> Result<bool> {
    let version = shared.tree.current_version();
    let has_files = |level: &u8| version.level(usize::from(*level)).is_some_and(|level| !level.is_empty());
    let target = (1..=LAST_LEVEL).find(has_files).map_or(LAST_LEVEL, |first| first.saturating_sub(1).max(1));
    drop(version);
    let mut is_any = compact(shared, Arc::new(PullDown(0, target)))?;
    let mut bytes_max = shared.table_bytes.saturating_mul(u64::from(merged_from));
    for level in target..LAST_LEVEL {
        let version = shared.tree.current_version();
        if version.level(level.into()).is_none_or(|level| level.size() <= bytes_max) {
            break;
        }
        drop(version);
        is_any |= compact(shared, Arc::new(PullDown(level, level + 1)))?;
        bytes_max = bytes_max.saturating_mul(LEVEL_RATIO);
    }
    Ok(is_any)
}

/// Merges everything.
pub(super) fn merge_all(shared: &Shared) -> Result<()> {
    shared.maintenance.work(|| {
        let _files = shared.files.read().unwrap_or_else(PoisonError::into_inner);
        forget_old_versions(shared)?;
        let merged = shared.tree.major_compact(shared.table_bytes, shared.snapshots.watermark());
        shared.views.renew(&shared.tree, 0);
        merged?;
        forget_old_versions(shared)
    })
}

/// Drops the files that hold nothing but records within bounds.
pub(super) fn drop_files(shared: &Shared, bounds: &Bounds) -> Result<()> {
    guarded(|| {
        let bounds = bounds.public();
        // The tree waits for all merges before it looks whether there is anything to drop.
        let version = shared.tree.current_version();
        let is_within = |range: &lsm_tree::KeyRange| bounds.contains(range.min()) && bounds.contains(range.max());
        if !version.iter_tables().any(|table| is_within(&table.metadata.key_range)) {
            return Ok(());
        }
        drop(version);
        let dropped = shared.tree.drop_range::<&[u8], _>(bounds.as_range());
        shared.views.renew(&shared.tree, 0);
        dropped?;
        forget_old_versions(shared)
    })
}

/// Lets go of files and buffers that nobody can see any more.
fn forget_old_versions(shared: &Shared) -> Result<()> {
    if let Ok(_writing) = shared.writing.try_lock() {
        // No batch is on its way, so all that has a number is complete: files of before the last merge need not be kept
        // until the next batch.
        shared.snapshots.publish(shared.seqno.get());
    }
    let path = &shared.tree.tree_config().path;
    // Snapshots have what they need themselves, so the newest version of what is complete is the oldest one that is needed.
    let watermark = shared.snapshots.watermark();
    Ok(shared.tree.get_version_history_lock().maintenance(path, watermark)?)
}

/// Deletes what a failed flush or merge has left, or a full disk would stay full.
pub(super) fn delete_half_written(shared: &Shared) {
    let _files = shared.files.write().unwrap_or_else(PoisonError::into_inner);
    // Old versions, snapshots and lookups under way may have tables that the current version has not.
    if shared.tree.version_free_list_len() > 0 || shared.snapshots.is_any_live() || shared.views.is_former_in_use() {
        return;
    }
    let version = shared.tree.current_version();
    let known: HashSet<String> = version.iter_tables().map(|table| table.id().to_string()).collect();
    let Ok(entries) = std::fs::read_dir(shared.tree.tree_config().path.join("tables")) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| known.contains(name)) {
            // It is tried again after the next failure, and when the engine is opened.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_are_merged_at_once_where_records_are_long() {
        const MB: u64 = 1 << 20;
        for (block_bytes, merged_from, max, bytes) in [
            (0, 4, 24, 0),
            (4_096, 4, 24, 0),
            (MB, 4, 24, 0),
            (2 * MB, 4, 16, 44 * MB),
            (10 * MB, 2, 3, 90 * MB),
            (100 * MB, 2, 3, 900 * MB),
        ] {
            assert_eq!(Runs::with(block_bytes, 32 * MB), Runs { merged_from, max, bytes }, "{block_bytes}");
        }
    }
}
