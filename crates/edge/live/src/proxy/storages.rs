//! The storages of a cache: which stay over a reload, which are opened, and what is done for them while they are in use.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use ::accelerator::loaded::Storages;
use cache::{
    Time,
    bans::{Lurker, LurkerSettings},
    index::Cache,
    storage::{
        Stevedore,
        disk::{Compaction, Disk, DiskNews, RealFiles},
    },
};
use haproxycfg::model::{StorageKind, StorageSpec};
use runtime::log::{Level, write};

use crate::background::Background;

/// What a storage has where nothing is said (varnishd's default for `malloc`).
const STORAGE_BYTES: u64 = 100 << 20;
/// What short-lived objects, and those for one client, may take at most.
const TRANSIENT_BYTES: u64 = 256 << 20;
/// Objects whose time is over that are removed in one go. The thread does something else in between.
const EXPIRED_AT_ONCE_MAX: usize = 500;
/// Seconds between two looks where nothing is to be done sooner.
const PAUSE_MAX: f64 = 1.0;
/// And where something is.
const PAUSE_MIN: f64 = 0.01;
/// Seconds between two tries whether a disk takes something again.
const PROBE_PAUSE: f64 = 5.0;

/// Opens the storages of a cache. Those that it has already stay; objects of others leave.
pub(super) fn open(specs: &[StorageSpec], cache: &Arc<Cache>, before: Option<(&[StorageSpec], &Storages)>) -> Storages {
    let kept = |spec: &StorageSpec| {
        let (specs, storages) = before?;
        specs.iter().any(|before| before == spec).then(|| storages.of_name(&spec.name).cloned()).flatten()
    };
    let one = |spec: &StorageSpec| kept(spec).unwrap_or_else(|| open_one(spec, cache));
    let mut named: Vec<_> = specs.iter().filter(|spec| spec.name != "Transient").map(one).collect();
    if named.is_empty() {
        let default = StorageSpec { name: "s0".to_owned(), kind: StorageKind::Malloc(None) };
        let unnamed = before.filter(|(specs, _)| specs.iter().all(|spec| spec.name == "Transient"));
        let kept = unnamed.and_then(|(_, storages)| storages.named.first().cloned());
        named.push(kept.unwrap_or_else(|| open_one(&default, cache)));
    }
    let transient = match specs.iter().find(|spec| spec.name == "Transient") {
        Some(spec) => one(spec),
        None => before.filter(|(specs, _)| specs.iter().all(|spec| spec.name != "Transient")).map_or_else(
            || Arc::new(Stevedore::malloc("Transient", TRANSIENT_BYTES)),
            |(_, storages)| Arc::clone(&storages.transient),
        ),
    };
    // While a disk takes nothing, its objects go where there is memory.
    let memory = named.iter().find(|storage| storage.disk().is_none()).unwrap_or(&transient);
    named
        .iter()
        .chain([&transient])
        .filter(|storage| storage.disk().is_some())
        .for_each(|disk| disk.falls_back_to(memory));
    let storages = Storages::new(named, transient);
    if before.is_some() {
        remove_others(cache, &storages);
    }
    storages
}

/// Removes objects of storages that are no longer there.
fn remove_others(cache: &Cache, storages: &Storages) {
    let stays = |storage: &Arc<Stevedore>| {
        storages.named.iter().chain([&storages.transient]).any(|known| Arc::ptr_eq(known, storage))
    };
    let parts = (0..).map_while(|part| cache.objects_of(part));
    parts.flatten().filter(|object| !stays(object.storage())).for_each(|object| cache.remove(&object));
}

fn open_one(spec: &StorageSpec, cache: &Arc<Cache>) -> Arc<Stevedore> {
    let memory = |bytes| Arc::new(Stevedore::malloc(&spec.name, bytes));
    match &spec.kind {
        StorageKind::Malloc(bytes) => memory(bytes.unwrap_or(STORAGE_BYTES)),
        StorageKind::File { path, bytes } => match open_file(&spec.name, Path::new(path), *bytes, cache) {
            Ok(storage) => storage,
            Err(error) => {
                let bytes = STORAGE_BYTES.min(*bytes);
                write(
                    Level::Alert,
                    format_args!(
                        "storage {}: {error}. Objects are kept in memory instead, {bytes} bytes at most, and do not survive this process.",
                        spec.name
                    ),
                );
                memory(bytes)
            }
        },
    }
}

fn open_file(name: &str, path: &Path, bytes: u64, cache: &Arc<Cache>) -> std::io::Result<Arc<Stevedore>> {
    let files = Box::new(RealFiles::open(path, bytes)?);
    let (storage, found) = Stevedore::file(name, files, bytes, cache, basics::clock::seconds())?;
    match found.started_empty {
        Some(why) => write(Level::Warning, format_args!("storage {name}: {}: {why}", path.display())),
        None => write(
            Level::Notice,
            format_args!(
                "storage {name}: {} has {} objects and {} bans ({} expired, {} dropped)",
                path.display(),
                found.objects,
                found.bans,
                found.expired,
                found.dropped
            ),
        ),
    }
    Ok(storage)
}

/// What is done for a cache while it is in use.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    state: Mutex<State>,
    /// Whether somebody waits for a disk.
    is_syncing: Arc<AtomicBool>,
    /// Whether disks are being tried.
    is_probing: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    lurker: Lurker,
    compactions: Vec<Compaction>,
    /// Bytes of journals when they were last synchronised.
    synced_bytes: u64,
    /// When disks that take nothing are tried again.
    probe_at: Time,
}

impl Upkeep {
    /// Removes what is over, tests what bans are about, keeps journals short: a little of it. In what time it wants to be called
    /// again.
    pub(super) fn tend(
        &self,
        cache: &Arc<Cache>,
        disks: &[Arc<Disk>],
        lurker: LurkerSettings,
        background: &Background,
    ) -> Duration {
        let now = basics::clock::seconds();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, next) = cache.expire(now, EXPIRED_AT_ONCE_MAX);
        let lurks = state.lurker.step(cache, now, lurker);
        cache.bans().drop_unused();
        let compacts = state.compact(cache, disks);
        self.sync(&mut state, disks, background);
        self.look_after(&mut state, disks, (now, background));
        if count == EXPIRED_AT_ONCE_MAX || compacts {
            return Duration::ZERO;
        }
        let due = next.map_or(PAUSE_MAX, |next| next - now);
        Duration::from_secs_f64(due.min(lurks.unwrap_or(PAUSE_MAX)).clamp(PAUSE_MIN, PAUSE_MAX))
    }

    /// Says when a disk takes nothing any more, and tries whether it does again.
    fn look_after(&self, state: &mut State, disks: &[Arc<Disk>], (now, background): (Time, &Background)) {
        for news in disks.iter().filter_map(|disk| disk.take_news()) {
            match news {
                DiskNews::Failing(error) => write(
                    Level::Alert,
                    format_args!(
                        "the cache's disk takes nothing: {error}. Objects are kept in memory until it does; make room, or give the cache less of the disk."
                    ),
                ),
                DiskNews::Works => write(Level::Notice, format_args!("the cache's disk takes objects again")),
            }
        }
        if now < state.probe_at || disks.iter().all(|disk| !disk.is_failing()) || self.is_probing.swap(true, Relaxed) {
            return;
        }
        state.probe_at = now + PROBE_PAUSE;
        let (is_probing, disks) = (Arc::clone(&self.is_probing), disks.to_vec());
        background.run(move || {
            disks.iter().for_each(|disk| disk.probe());
            is_probing.store(false, Relaxed);
        });
    }

    /// What journals have noted is on the disk a moment later, so that a loss of power brings no banned object back.
    fn sync(&self, state: &mut State, disks: &[Arc<Disk>], background: &Background) {
        let bytes = disks.iter().map(|disk| disk.journal_bytes()).sum();
        if bytes == state.synced_bytes || self.is_syncing.swap(true, Relaxed) {
            return;
        }
        state.synced_bytes = bytes;
        let (is_syncing, disks) = (Arc::clone(&self.is_syncing), disks.to_vec());
        background.run(move || {
            for disk in disks {
                if let Err(error) = disk.sync() {
                    write(Level::Warning, format_args!("the cache's journal cannot be synchronised: {error}"));
                }
            }
            is_syncing.store(false, Relaxed);
        });
    }
}

impl State {
    /// Goes on with journals that are written anew; whether there are any.
    fn compact(&mut self, cache: &Arc<Cache>, disks: &[Arc<Disk>]) -> bool {
        if self.compactions.is_empty() {
            let begun = disks.iter().filter(|disk| disk.wants_compaction()).map(|disk| Compaction::begin(disk, cache));
            self.compactions = begun.filter_map(noted).collect();
        }
        self.compactions = std::mem::take(&mut self.compactions)
            .into_iter()
            .filter_map(|mut compaction| match noted(compaction.step(cache)) {
                Some(false) => Some(compaction),
                Some(true) | None => None,
            })
            .collect();
        !self.compactions.is_empty()
    }
}

fn noted<T>(result: std::io::Result<T>) -> Option<T> {
    result.inspect_err(|error| write(Level::Warning, format_args!("the cache's journal: {error}"))).ok()
}
