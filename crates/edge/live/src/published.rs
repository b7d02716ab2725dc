//! What this process publishes in Varnish's shared memory: the log of proxies that run VCL, and their counters.
//!
//! Each worker thread counts for itself ([`Tally`]); [`Published::update`] adds up and writes the sums where readers see them, several
//! times a second. So counting costs a request no more than a store, and every figure is exact.

use std::{
    collections::HashMap,
    fmt::Write as _,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::Instant,
};

use accelerator::{
    loaded::Loaded,
    log::{LogLimits, LogSink},
    publication::{Mask, Publication},
};
use cache::{index::Cache, storage::Stevedore};
use telemetry::vsl::VslTag;
use vcl::program::BackendIndex;
use vsm::{
    Publisher, VsmError, WorkingDirectory,
    counters::{Counters, Main, Mgt, Sma, Tally, Vbe},
    instance_path,
    log::{Log, LogId, LogWriter},
};

/// What is published. It goes with the process.
pub struct Published {
    log: Arc<Log>,
    main: Counters<Main>,
    manager: Option<Mutex<(Publisher, Counters<Mgt>)>>,
    tallies: Mutex<Vec<Arc<Tally<Main>>>>,
    limits: LogLimits,
    /// Writes records of no transaction, from any thread.
    writer: Mutex<LogWriter>,
    state: Mutex<State>,
    started: Instant,
    // NOTE: last, so that readers see the instance end when all else has gone.
    _directory: WorkingDirectory,
}

/// What changes with the configuration.
struct State {
    worker: Publisher,
    storages: HashMap<String, (Arc<Stevedore>, Counters<Sma>)>,
    backends: HashMap<String, Arc<Counters<Vbe>>>,
    shown: Shown,
}

/// What runs.
#[derive(Default)]
pub struct Shown {
    /// Caches.
    pub caches: Vec<Arc<Cache>>,
    /// Storages.
    pub storages: Vec<Arc<Stevedore>>,
    /// Programs that requests may begin in.
    pub programs: Vec<Arc<Loaded>>,
    /// Programs that only finish what runs in them.
    pub leaving: u64,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Shown {
    fn is_the_same(&self, other: &Self) -> bool {
        fn are<T>(some: &[Arc<T>], others: &[Arc<T>]) -> bool {
            some.len() == others.len() && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
        }
        are(&self.caches, &other.caches)
            && are(&self.storages, &other.storages)
            && are(&self.programs, &other.programs)
            && self.leaving == other.leaving
    }
}

impl std::fmt::Debug for Published {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Published").finish_non_exhaustive()
    }
}

impl Published {
    /// Takes the folder and begins.
    ///
    /// # Errors
    /// When another instance has it, or the system refuses.
    pub fn create(wanted: &Publication) -> Result<Arc<Self>, VsmError> {
        let directory = WorkingDirectory::create_for_worker(&instance_path(&wanted.workdir))?;
        let manager = match directory.is_own() {
            true => {
                let mut manager = directory.manager()?;
                // Tools show it in their first line.
                let name = rustix::system::uname().nodename().to_bytes().to_vec();
                manager.publish("Arg", "-i", &name)?;
                let counters = manager.counters::<Mgt>("MGT")?;
                counters.set(Mgt::child_start, 1);
                Some(Mutex::new((manager, counters)))
            }
            // A manager has it, who publishes for itself.
            false => None,
        };
        let mut worker = directory.worker()?;
        let main = worker.counters::<Main>("MAIN")?;
        let log = worker.log(wanted.space)?;
        for tag in VslTag::ALL {
            log.set_written(*tag, wanted.mask.writes(*tag));
        }
        let state = State { worker, storages: HashMap::new(), backends: HashMap::new(), shown: Shown::default() };
        Ok(Arc::new(Self {
            writer: Mutex::new(log.writer()),
            log,
            main,
            manager,
            tallies: Mutex::default(),
            limits: wanted.limits,
            state: Mutex::new(state),
            started: Instant::now(),
            _directory: directory,
        }))
    }

    /// What a worker thread writes with and counts in.
    #[must_use]
    pub fn sink(&self) -> Rc<LogSink> {
        let tally = Arc::<Tally<Main>>::default();
        lock(&self.tallies).push(Arc::clone(&tally));
        LogSink::new(self.log.writer(), tally, self.limits)
    }

    /// Writes a record that belongs to no transaction, such as a command (`CLI`) or a probe's result.
    pub fn record(&self, tag: VslTag, text: &[u8]) {
        lock(&self.writer).write(tag, LogId::NONE, text);
    }

    /// The log has what the parameter `vsl_mask` says, as it is shown: all tags but those that it names; `false` if it makes no sense.
    pub fn set_mask(&self, shown: &str) -> bool {
        let mut mask = Mask::nothing();
        // Where nothing is masked, the value says so in words.
        let is_understood = !shown.starts_with(['-', '+', 'd']) || mask.change(shown).is_ok();
        if is_understood {
            VslTag::ALL.iter().for_each(|tag| self.log.set_written(*tag, mask.writes(*tag)));
        }
        is_understood
    }

    /// Shows the caches, storages and backends of what runs now. Backends that are still there keep their numbers.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn show(&self, shown: Shown) -> Result<(), VsmError> {
        let mut state = lock(&self.state);
        if state.shown.is_the_same(&shown) {
            return Ok(());
        }
        let State { worker, storages, backends, shown: before } = &mut *state;
        let mut former = std::mem::take(storages);
        for storage in &shown.storages {
            if let Some(name) = unique(storage.name(), |name| storages.contains_key(name)) {
                let counters = match former.remove(&name) {
                    Some((_, counters)) => counters,
                    None => worker.counters::<Sma>(&format!("SMA.{name}"))?,
                };
                storages.insert(name, (Arc::clone(storage), counters));
            }
        }
        for (_, (_, counters)) in former {
            worker.remove(counters)?;
        }
        let mut former = std::mem::take(backends);
        for program in &shown.programs {
            for backend in &program.program.backends {
                let name = format!("VBE.{}.{}", program.name, backend.name);
                let counters = match former.remove(&name) {
                    Some(counters) => counters,
                    None if backends.contains_key(&name) => continue,
                    None => Arc::new(worker.counters::<Vbe>(&name)?),
                };
                backends.insert(name, counters);
            }
        }
        for (_, counters) in former {
            worker.remove_shared(&counters)?;
        }
        *before = shown;
        Ok(())
    }

    /// The counters of a backend of a program.
    #[must_use]
    pub fn backend(&self, program: &str, backend: &str) -> Option<Arc<Counters<Vbe>>> {
        let mut name = String::from("VBE.");
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{program}.{backend}");
        lock(&self.state).backends.get(&name).cloned()
    }

    /// Publishes the sums.
    pub fn update(&self) {
        let uptime = self.started.elapsed().as_secs();
        if let Some(manager) = &self.manager {
            lock(manager).1.set(Mgt::uptime, uptime);
        }
        {
            let tallies = lock(&self.tallies);
            for counter in Main::ALL {
                let sum = tallies.iter().fold(0_u64, |sum, tally| sum.wrapping_add(tally.value(*counter)));
                if sum != self.main.value(*counter) && !is_measured(*counter) {
                    self.main.set(*counter, sum);
                }
            }
            self.main.set(Main::threads, tallies.len() as u64);
            self.main.set(Main::threads_created, tallies.len() as u64);
        }
        self.main.set(Main::uptime, uptime);
        self.main.set(Main::pools, 1);
        self.main.add(Main::summs, 1);
        let figures = self.log.figures();
        self.main.set(Main::shm_records, figures.records);
        self.main.set(Main::shm_writes, figures.writes);
        self.main.set(Main::shm_flushes, figures.flushes);
        self.main.set(Main::shm_cont, figures.contention);
        self.main.set(Main::shm_cycles, figures.cycles);
        let state = lock(&self.state);
        let available = state.shown.programs.len() as u64;
        self.main.set(Main::n_vcl, available + state.shown.leaving);
        self.main.set(Main::n_vcl_avail, available);
        self.main.set(Main::n_vcl_discard, state.shown.leaving);
        self.main.set(Main::n_backend, state.backends.len() as u64);
        self.update_caches(&state);
        for (storage, counters) in state.storages.values() {
            let figures = &storage.counters;
            counters.set(Sma::c_req, figures.requests.load(Relaxed));
            counters.set(Sma::c_fail, figures.failures.load(Relaxed));
            counters.set(Sma::c_bytes, figures.bytes_given.load(Relaxed));
            counters.set(Sma::c_freed, figures.bytes_freed.load(Relaxed));
            counters.set(Sma::g_alloc, figures.pieces.load(Relaxed));
            counters.set(Sma::g_bytes, storage.used());
            counters.set(Sma::g_space, storage.free());
        }
        for program in &state.shown.programs {
            for (index, backend) in (0..).map(BackendIndex).zip(&program.program.backends) {
                if let Some(counters) = state.backends.get(&format!("VBE.{}.{}", program.name, backend.name)) {
                    counters.set(Vbe::happy, program.probes(index));
                }
            }
        }
    }

    fn update_caches(&self, state: &State) {
        let sum =
            |number: fn(&Cache) -> u64| state.shown.caches.iter().map(|cache| number(cache)).fold(0, u64::wrapping_add);
        let set = |counter: Main, number: fn(&Cache) -> u64| self.main.set(counter, sum(number));
        set(Main::n_object, |cache| cache.counters.objects.load(Relaxed));
        set(Main::n_objectcore, |cache| cache.counters.objects.load(Relaxed));
        set(Main::n_objecthead, |cache| cache.counters.digests.load(Relaxed));
        set(Main::n_expired, |cache| cache.counters.expired.load(Relaxed));
        set(Main::n_lru_nuked, |cache| cache.counters.lru_nuked.load(Relaxed));
        set(Main::n_lru_limited, |cache| cache.counters.lru_limited.load(Relaxed));
        set(Main::busy_sleep, |cache| cache.counters.busy_sleep.load(Relaxed));
        set(Main::busy_wakeup, |cache| cache.counters.busy_wakeup.load(Relaxed));
        set(Main::n_obj_purged, |cache| cache.counters.purged.load(Relaxed));
        set(Main::bans_added, |cache| cache.bans().counters().added.load(Relaxed));
        set(Main::bans_deleted, |cache| cache.bans().counters().deleted.load(Relaxed));
        set(Main::bans_tested, |cache| cache.bans().counters().tested.load(Relaxed));
        set(Main::bans_tests_tested, |cache| cache.bans().counters().tests.load(Relaxed));
        set(Main::bans_obj_killed, |cache| cache.bans().counters().objects_killed.load(Relaxed));
        set(Main::bans_lurker_tested, |cache| cache.bans().counters().lurker_tested.load(Relaxed));
        set(Main::bans_lurker_tests_tested, |cache| cache.bans().counters().lurker_tests.load(Relaxed));
        set(Main::bans_lurker_obj_killed, |cache| cache.bans().counters().lurker_killed.load(Relaxed));
        set(Main::bans_dups, |cache| cache.bans().counters().duplicates.load(Relaxed));
        let bans: Vec<_> = state.shown.caches.iter().flat_map(|cache| cache.bans().all()).collect();
        let count = |counter: Main, which: fn(&cache::bans::Ban) -> bool| {
            self.main.set(counter, bans.iter().filter(|ban| which(ban)).count() as u64);
        };
        count(Main::bans, |_| true);
        count(Main::bans_completed, |ban| ban.is_completed());
        count(Main::bans_obj, |ban| ban.expression().is_about_objects());
        count(Main::bans_req, |ban| ban.expression().is_about_requests());
    }
}

/// Whether a counter is taken from somewhere else than the threads' tallies.
fn is_measured(counter: Main) -> bool {
    const MEASURED: [Main; 36] = [
        Main::uptime,
        Main::summs,
        Main::threads,
        Main::threads_created,
        Main::pools,
        Main::shm_records,
        Main::shm_writes,
        Main::shm_flushes,
        Main::shm_cont,
        Main::shm_cycles,
        Main::n_vcl,
        Main::n_vcl_avail,
        Main::n_vcl_discard,
        Main::n_backend,
        Main::n_object,
        Main::n_objectcore,
        Main::n_objecthead,
        Main::n_expired,
        Main::n_lru_nuked,
        Main::n_lru_limited,
        Main::busy_sleep,
        Main::busy_wakeup,
        Main::n_obj_purged,
        Main::bans,
        Main::bans_completed,
        Main::bans_obj,
        Main::bans_req,
        Main::bans_added,
        Main::bans_deleted,
        Main::bans_tested,
        Main::bans_tests_tested,
        Main::bans_obj_killed,
        Main::bans_lurker_tested,
        Main::bans_lurker_tests_tested,
        Main::bans_lurker_obj_killed,
        Main::bans_dups,
    ];
    MEASURED.contains(&counter)
}

/// A name that is free: storages of several programs may be called the same.
fn unique(name: &str, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    const NAMES_MAX: usize = 1000;
    let numbered = (2..NAMES_MAX).map(|number| format!("{name}.{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
