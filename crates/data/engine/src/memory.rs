//! Records in memory, with a disk that is pretended: for tests, simulation, and caches that need no disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Batch, Bounds, Direction, Engine, Key, LogOffset, Records, Result, Scan, Value};

/// How many records a scan fetches at a time.
const SCAN_CHUNK: usize = 64;

/// An engine in memory. It knows what would survive a crash: [`crash`](Self::crash) gives that.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Arc<Image>,
    /// What is on the pretended disk.
    synced: Arc<Image>,
    /// What was written since, batch by batch; kept only by an engine that may crash.
    unsynced: Vec<Batch>,
    keeps_unsynced: bool,
}

#[derive(Debug, Default, Clone)]
struct Image {
    records: BTreeMap<Key, Value>,
    applied: Option<LogOffset>,
    bytes: u64,
}

impl Image {
    fn apply(&mut self, batch: &Batch) {
        for (key, change) in batch.iter() {
            let former = match change {
                Some(value) => {
                    self.bytes += (key.len() + value.len()) as u64;
                    self.records.insert(key.clone(), value.clone())
                }
                None => self.records.remove(key),
            };
            if let Some(former) = former {
                self.bytes = self.bytes.saturating_sub((key.len() + former.len()) as u64);
            }
        }
        self.applied = batch.applied().or(self.applied);
    }
}

impl MemoryEngine {
    /// An empty engine. What it holds is gone with it.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty engine that also keeps what was written since the last sync, for [`crash`](Self::crash).
    pub fn with_crash_images() -> Self {
        let engine = Self::default();
        engine.state().keeps_unsynced = true;
        engine
    }

    /// How many batches were written since the last sync.
    pub fn unsynced(&self) -> usize {
        self.state().unsynced.len()
    }

    /// What a machine finds that lost its power now: all that was synced, and the first `batches` of what was written since
    /// (as a disk may have got to some of it).
    #[must_use]
    pub fn crash(&self, batches: usize) -> Self {
        let state = self.state();
        let mut image = state.synced.clone();
        for batch in state.unsynced.iter().take(batches) {
            Arc::make_mut(&mut image).apply(batch);
        }
        Self {
            state: Mutex::new(State {
                now: Arc::clone(&image),
                synced: image,
                unsynced: Vec::new(),
                keeps_unsynced: state.keeps_unsynced,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn image(&self) -> Arc<Image> {
        Arc::clone(&self.state().now)
    }
}

impl Records for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.state().now.records.get(key).cloned())
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        Snapshot(self.image()).scan(bounds, direction)
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        Ok(self.state().now.applied)
    }
}

impl Engine for MemoryEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        let mut state = self.state();
        // Copies all records if a snapshot or a scan is looking at them.
        Arc::make_mut(&mut state.now).apply(batch);
        if state.keeps_unsynced {
            state.unsynced.push(batch.clone());
        }
        Ok(())
    }

    fn snapshot(&self) -> Arc<dyn Records> {
        Arc::new(Snapshot(self.image()))
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state();
        let State { now, synced, unsynced, keeps_unsynced } = &mut *state;
        if *keeps_unsynced {
            for batch in unsynced.drain(..) {
                Arc::make_mut(synced).apply(&batch);
            }
        } else {
            // A second copy of the records would be kept for nobody.
            Arc::make_mut(synced).applied = now.applied;
        }
        Ok(())
    }

    fn durable(&self) -> Option<LogOffset> {
        self.state().synced.applied
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn memory_bytes(&self) -> u64 {
        let image = self.image();
        image.bytes + (image.records.len() as u64) * 64
    }
}

struct Snapshot(Arc<Image>);

impl Records for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.0.records.get(key).cloned())
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        let mut rest = bounds.public();
        let image = Arc::clone(&self.0);
        Box::new(
            std::iter::from_fn(move || {
                if rest.is_empty() {
                    return None;
                }
                let range = image.records.range::<[u8], _>(rest.as_range());
                let pair = |(key, value): (&Key, &Value)| (key.clone(), value.clone());
                let chunk: Vec<(Key, Value)> = match direction {
                    Direction::Forward => range.take(SCAN_CHUNK).map(pair).collect(),
                    Direction::Backward => range.rev().take(SCAN_CHUNK).map(pair).collect(),
                };
                let (last, _) = chunk.last()?;
                rest = rest.behind(last, direction);
                Some(chunk)
            })
            .flatten()
            .map(Ok),
        )
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        Ok(self.0.applied)
    }
}
