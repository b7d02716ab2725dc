//! An engine that fails when told to: full disks, broken disks, flipped bits.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Batch, Bounds, DamagePlace, Direction, Engine, Error, LogOffset, Records, Result, Scan, Value};

/// What a [`FailingEngine`] does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No room is left: writes fail, reads work.
    Full,
    /// Writes fail with an input or output error.
    Write,
    /// Reads fail with an input or output error.
    Read,
    /// Reads find damage.
    Damage,
    /// Every call panics.
    Panic,
}

/// An engine around another one, for tests of what is above.
pub struct FailingEngine {
    inner: Arc<dyn Engine>,
    failure: Mutex<Option<(Failure, u64)>>,
}

impl FailingEngine {
    /// Works until it is told to fail.
    pub fn new(inner: Arc<dyn Engine>) -> Self {
        Self { inner, failure: Mutex::new(None) }
    }

    /// Makes the next `times` calls that this failure is about fail.
    pub fn fail(&self, failure: Failure, times: u64) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((failure, times));
    }

    /// Works from now on.
    pub fn heal(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn take(&self, is_write: bool) -> Option<Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let (kind, times) = failure.as_mut()?;
        let concerned = match kind {
            Failure::Full | Failure::Write => is_write,
            Failure::Read | Failure::Damage => !is_write,
            Failure::Panic => true,
        };
        if !concerned || *times == 0 {
            return None;
        }
        *times -= 1;
        Some(*kind)
    }

    fn check(&self, is_write: bool, key: Option<&[u8]>) -> Result<()> {
        match self.take(is_write) {
            None => Ok(()),
            Some(Failure::Full) => Err(io::Error::from(io::ErrorKind::StorageFull).into()),
            Some(Failure::Write | Failure::Read) => Err(io::Error::other("the disk is broken").into()),
            Some(Failure::Damage) => Err(Error::Damaged {
                place: key.map_or(DamagePlace::Unknown, |key| DamagePlace::At(key.to_vec())),
                file: None,
                source: "a bit is not as it was".into(),
            }),
            #[expect(clippy::panic, reason = "that is what it was told to do")]
            Some(Failure::Panic) => panic!("told to panic"),
        }
    }
}

impl Records for FailingEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.check(false, Some(key))?;
        self.inner.get(key)
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        match self.check(false, None) {
            Ok(()) => self.inner.scan(bounds, direction),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        self.check(false, None)?;
        self.inner.applied()
    }
}

impl Engine for FailingEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        self.check(true, None)?;
        self.inner.write(batch)
    }

    fn snapshot(&self) -> Arc<dyn Records> {
        self.inner.snapshot()
    }

    fn sync(&self) -> Result<()> {
        self.check(true, None)?;
        self.inner.sync()
    }

    fn durable(&self) -> Option<LogOffset> {
        self.inner.durable()
    }

    fn drop_files(&self, bounds: &Bounds) -> Result<()> {
        self.check(true, None)?;
        self.inner.drop_files(bounds)
    }

    fn compact(&self) -> Result<()> {
        self.check(true, None)?;
        self.inner.compact()
    }

    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }

    fn is_making_files(&self) -> bool {
        self.inner.is_making_files()
    }

    fn bytes_to_make_files(&self) -> u64 {
        self.inner.bytes_to_make_files()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
}
