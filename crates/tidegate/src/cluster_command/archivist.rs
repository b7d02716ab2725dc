//! What makes backups of an agent's stores for somebody on another host.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agent::backups::{Archivist, BackupError, Content};
use store::{
    StoreError,
    backup::{AtMoment, Begun, Manifest, Offered},
};

use crate::backup_command::with_causes;

/// How many may be under way at the same time.
const UNDER_WAY_MAX: usize = 64;
/// After so long without a question one is given up: whoever began it is gone.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// How far one is.
enum State {
    Begun(Begun),
    AtMoment(AtMoment),
    Offered(Arc<Offered>),
    /// A thread is at it.
    Busy,
}

struct UnderWay {
    dir: PathBuf,
    state: State,
    asked_at: Instant,
}

#[derive(Default)]
struct Inner {
    last_number: u64,
    under_way: BTreeMap<u64, UnderWay>,
    /// The last one of each folder: what of it is still the same need not be read again.
    former: BTreeMap<PathBuf, Arc<Manifest>>,
}

/// All that are under way.
#[derive(Default)]
pub struct Backups(Mutex<Inner>);

fn failed(error: &StoreError) -> BackupError {
    BackupError::Failed(with_causes(error))
}

fn not_yet(number: u64, what: &str) -> BackupError {
    BackupError::Failed(format!("backup {number} {what}"))
}

impl Backups {
    /// Those that are not given up.
    fn look(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = |one: &UnderWay| matches!(one.state, State::Busy);
        inner.under_way.retain(|_, one| is_busy(one) || one.asked_at.elapsed() < GIVEN_UP_AFTER);
        inner
    }

    /// Takes one out for a while; others who ask for it meanwhile are told so.
    fn take(&self, number: u64) -> Result<State, BackupError> {
        let mut inner = self.look();
        let one = inner.under_way.get_mut(&number).ok_or(BackupError::NoBackup(number))?;
        match std::mem::replace(&mut one.state, State::Busy) {
            State::Busy => Err(not_yet(number, "is being read: ask again")),
            state => Ok(state),
        }
    }

    fn put_back(&self, number: u64, state: State) {
        if let Some(one) = self.look().under_way.get_mut(&number) {
            (one.state, one.asked_at) = (state, Instant::now());
        }
    }

    fn forget(&self, number: u64, error: &StoreError) -> BackupError {
        self.look().under_way.remove(&number);
        failed(error)
    }

    fn former(&self, number: u64) -> Option<Arc<Manifest>> {
        let inner = self.look();
        let dir = &inner.under_way.get(&number)?.dir;
        inner.former.get(dir).cloned()
    }

    fn offered(&self, number: u64) -> Result<Arc<Offered>, BackupError> {
        let mut inner = self.look();
        let one = inner.under_way.get_mut(&number).ok_or(BackupError::NoBackup(number))?;
        one.asked_at = Instant::now();
        match &one.state {
            State::Offered(offered) => Ok(Arc::clone(offered)),
            _ => Err(not_yet(number, "was not described yet")),
        }
    }
}

impl Archivist for Backups {
    fn begin(&self, dir: &Path) -> Result<u64, BackupError> {
        if self.look().under_way.len() >= UNDER_WAY_MAX {
            return Err(BackupError::TooMany(UNDER_WAY_MAX));
        }
        let state = State::Begun(Begun::of(dir).map_err(|error| failed(&error))?);
        let mut inner = self.look();
        inner.last_number += 1;
        let number = inner.last_number;
        inner.under_way.insert(number, UnderWay { dir: dir.to_owned(), state, asked_at: Instant::now() });
        Ok(number)
    }

    fn cut(&self, number: u64, until: u64, former_end: Option<u64>) -> Result<(), BackupError> {
        match self.take(number)? {
            State::Begun(begun) => {
                let cut = begun.up_to(until, former_end).map_err(|error| self.forget(number, &error))?;
                self.put_back(number, State::AtMoment(cut));
                Ok(())
            }
            state => {
                self.put_back(number, state);
                Err(not_yet(number, "was cut already"))
            }
        }
    }

    fn describe(&self, number: u64) -> Result<Content, BackupError> {
        let cut = match self.take(number)? {
            State::AtMoment(cut) => cut,
            state => {
                self.put_back(number, state);
                return self.offered(number).map(|offered| Content::of(offered.description().to_vec()));
            }
        };
        let former = self.former(number);
        let offered = Arc::new(cut.offer(former.as_deref()).map_err(|error| self.forget(number, &error))?);
        let description = offered.description().to_vec();
        let manifest = Arc::new(offered.manifest().clone());
        self.put_back(number, State::Offered(offered));
        let mut inner = self.look();
        if let Some(dir) = inner.under_way.get(&number).map(|one| one.dir.clone()) {
            inner.former.insert(dir, manifest);
        }
        Ok(Content::of(description))
    }

    fn file(&self, number: u64, digest: &str) -> Result<Content, BackupError> {
        let offered = self.offered(number)?;
        let (len, bytes) =
            offered.open(digest).map_err(|error| BackupError::Failed(format!("its file {digest}: {error}")))?;
        Ok(Content { len, bytes })
    }

    fn end(&self, number: u64) {
        self.look().under_way.remove(&number);
    }
}
