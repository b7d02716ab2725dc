//! The programs of VCL that answer a proxy's requests, and their cache.
//!
//! Programs come and go while requests run: each request takes the active one when it begins ([`Accelerator::active`]) and keeps it to
//! its end, so a program that was replaced lasts as long as its last request. All of them use one cache.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ::accelerator::{
    lasting::Lasting,
    load::{load, unload},
    loaded::{Backends, Loaded, Parts, Storages},
    settings::{NotSet, Settings},
};
use balance::ServerId;
use cache::index::Cache;
use haproxycfg::model::{self, StorageSpec};
use vcl::{
    program::{BackendIndex, Program},
    run::{Backend, Failure},
};

use super::{
    ConnectionSettings, LiveProxy,
    storages::{self, Upkeep},
};
use crate::background::Background;

/// Objects that may leave for one, where varnishd's parameters do not say (`nuke_limit`).
const NUKE_LIMIT: u64 = 50;

/// The programs of a proxy.
#[derive(Debug)]
pub struct Accelerator {
    /// The cache.
    pub cache: Arc<Cache>,
    /// Where its objects are.
    pub storages: Arc<Storages>,
    /// Where the number of the next transaction comes from.
    pub numbers: Arc<AtomicU64>,
    lasting: Arc<Lasting>,
    programs: RwLock<Programs>,
    upkeep: Arc<Upkeep>,
    specs: Vec<StorageSpec>,
    /// Whether programs come from a manager.
    is_managed: bool,
    /// Under a manager: what its parameters say of connections.
    connections: ConnectionSettings,
}

/// A program of VCL that runs. Who holds one runs a request in it.
#[derive(Debug)]
pub struct Running {
    /// The program.
    pub loaded: Arc<Loaded>,
    /// Where its backends are.
    pub targets: Arc<Targets>,
}

impl Running {
    /// The name of a backend that is asked.
    #[must_use]
    pub fn name_of(&self, backend: Backend) -> &str {
        self.loaded.name_of(backend).unwrap_or("-")
    }
}

#[derive(Debug)]
struct Programs {
    settings: Settings,
    loaded: Vec<Arc<Running>>,
    labels: Vec<(String, String)>,
    active: Option<Arc<Running>>,
    /// Programs that were discarded while requests ran in them.
    leaving: Vec<Arc<Running>>,
}

/// The proxies that a program's backends are, by their index.
#[derive(Debug, Default)]
pub struct Targets {
    places: OnceLock<Vec<Place>>,
    /// What an administrator says of each.
    verdicts: OnceLock<Vec<AtomicU8>>,
    /// When that was said of those of which it was.
    changes: Mutex<HashMap<BackendIndex, f64>>,
}

/// Where a backend is.
#[derive(Debug)]
pub enum Place {
    /// A section of the configuration.
    Section(Weak<LiveProxy>),
    /// A proxy that is there for this program alone.
    Own(Arc<LiveProxy>),
    /// Nowhere.
    Nowhere,
}

/// What an administrator says of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Its checks decide.
    Auto,
    /// It is healthy.
    Healthy,
    /// It is sick.
    Sick,
}

impl Targets {
    /// Targets that are known.
    #[must_use]
    pub fn at(places: Vec<Place>) -> Self {
        let targets = Self::default();
        targets.set(places);
        targets
    }

    fn set(&self, places: Vec<Place>) {
        let _ = self.verdicts.set(places.iter().map(|_| AtomicU8::new(Verdict::Auto as u8)).collect());
        let _ = self.places.set(places);
    }

    /// The proxy of a backend.
    #[must_use]
    pub fn proxy(&self, backend: Backend) -> Option<Arc<LiveProxy>> {
        let Backend::Declared(index) = backend else { return None };
        match self.places.get()?.get(index.0 as usize)? {
            Place::Section(proxy) => proxy.upgrade(),
            Place::Own(proxy) => Some(Arc::clone(proxy)),
            Place::Nowhere => None,
        }
    }

    /// What an administrator says of a backend.
    #[must_use]
    pub fn verdict(&self, backend: BackendIndex) -> Verdict {
        let said = self.verdicts.get().and_then(|all| all.get(backend.0 as usize)).map(|said| said.load(Relaxed));
        match said {
            Some(said) if said == Verdict::Healthy as u8 => Verdict::Healthy,
            Some(said) if said == Verdict::Sick as u8 => Verdict::Sick,
            _ => Verdict::Auto,
        }
    }

    /// Notes what an administrator says of a backend.
    pub fn set_verdict(&self, backend: BackendIndex, verdict: Verdict) {
        if let Some(said) = self.verdicts.get().and_then(|all| all.get(backend.0 as usize))
            && said.swap(verdict as u8, Relaxed) != verdict as u8
        {
            let now = basics::clock::seconds();
            self.changes.lock().unwrap_or_else(PoisonError::into_inner).insert(backend, now);
        }
    }

    /// When an administrator has last said something else of a backend; 0 for never.
    fn said_at(&self, backend: BackendIndex) -> f64 {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).get(&backend).copied().unwrap_or(0.0)
    }
}

struct Health(Arc<Targets>);

impl Backends for Health {
    fn is_healthy(&self, backend: BackendIndex) -> bool {
        let proxy = || self.0.proxy(Backend::Declared(backend));
        match self.0.verdict(backend) {
            Verdict::Sick => false,
            Verdict::Healthy => proxy().is_some(),
            // NOTE: a proxy without servers says so itself, by an error that names it.
            Verdict::Auto => {
                proxy().is_some_and(|proxy| proxy.direct.is_some() || proxy.has_folders() || proxy.farm().usable() > 0)
            }
        }
    }

    fn changed(&self, backend: BackendIndex) -> f64 {
        let Some(proxy) = self.0.proxy(Backend::Declared(backend)) else { return 0.0 };
        let now_ms = proxy.process.milliseconds(Instant::now());
        let wall_clock = basics::clock::seconds();
        let of_checks = wall_clock - proxy.farm().backend_stats(now_ms).last_change_s as f64;
        of_checks.max(self.0.said_at(backend))
    }

    fn probes(&self, backend: BackendIndex) -> u64 {
        let Some(proxy) = self.0.proxy(Backend::Declared(backend)) else { return 0 };
        proxy.farm().probes(ServerId::new(0)).map_or(0, |history| history.bits())
    }
}

impl Accelerator {
    /// The one that a configuration describes; the cache of the one `before` stays, with the storages that are still named, and its
    /// programs too if they come from a manager.
    #[must_use]
    pub fn new(
        described: &model::Accelerator,
        before: Option<&Arc<Self>>,
        numbers: &Arc<AtomicU64>,
    ) -> Option<Arc<Self>> {
        let is_same =
            |before: &&Arc<Self>| before.specs == described.storages && before.is_managed && described.is_managed;
        if let Some(before) = before.filter(is_same) {
            return Some(Arc::clone(before));
        }
        let cache = before.map_or_else(Cache::new, |before| Arc::clone(&before.cache));
        let kept = before.map(|before| (before.specs.as_slice(), &*before.storages));
        let storages = Arc::new(storages::open(&described.storages, &cache, kept));
        let upkeep = before.map(|before| Arc::clone(&before.upkeep)).unwrap_or_default();
        let programs = Programs {
            settings: Settings {
                hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                ..described.settings.clone()
            },
            loaded: Vec::new(),
            labels: Vec::new(),
            active: None,
            leaving: Vec::new(),
        };
        if described.is_managed {
            storages.limit_nukes(NUKE_LIMIT);
        }
        let accelerator = Self {
            cache,
            storages,
            numbers: Arc::clone(numbers),
            lasting: before.map_or_else(Arc::default, |before| Arc::clone(&before.lasting)),
            programs: RwLock::new(programs),
            upkeep,
            specs: described.storages.clone(),
            is_managed: described.is_managed,
            connections: ConnectionSettings::default(),
        };
        if let Some(program) = &described.program {
            // It has been tried when the configuration was checked.
            accelerator.load(&described.name, Arc::clone(program), Targets::default()).ok()?;
            accelerator.activate(&described.name);
        }
        Some(Arc::new(accelerator))
    }

    /// Tells the program of the configuration where its backends are, once all proxies are there.
    pub fn find_backends(&self, proxies: &[Arc<LiveProxy>]) {
        let Some(active) = self.active().filter(|_| !self.is_managed) else { return };
        let of_name = |name: &str| {
            let found = proxies.iter().find(|proxy| proxy.settings.kind.has_backend() && *proxy.settings.name == *name);
            found.map_or(Place::Nowhere, |proxy| Place::Section(Arc::downgrade(proxy)))
        };
        active.targets.set(active.loaded.program.backends.iter().map(|backend| of_name(&backend.name)).collect());
    }

    /// Does a little of what a cache needs while it is in use; when it wants to be called again.
    pub fn tend(&self, background: &Background) -> Duration {
        let disks: Vec<_> = self.storages.named.iter().filter_map(|storage| storage.disk().cloned()).collect();
        self.upkeep.tend(&self.cache, &disks, self.settings().lurker, background)
    }

    /// Whether programs come from a manager, varnishd's: then its parameters say how connections are served.
    #[must_use]
    pub fn connections(&self) -> Option<&ConnectionSettings> {
        self.is_managed.then_some(&self.connections)
    }

    /// The number of the next transaction.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// The program that a request takes which begins now.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Running>> {
        self.read().active.clone()
    }

    /// The program that has a label.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Option<Arc<Running>> {
        let programs = self.read();
        let (_, name) = programs.labels.iter().find(|(known, _)| known == label)?;
        programs.named(name).cloned()
    }

    /// All programs with the requests that run in each, in the order in which they came; last, marked, those that only finish these.
    #[must_use]
    pub fn programs(&self) -> Vec<(Arc<Running>, usize, bool)> {
        let programs = self.read();
        let is_active =
            |program: &Arc<Running>| programs.active.as_ref().is_some_and(|active| Arc::ptr_eq(active, program));
        let leaving = programs.leaving.iter().map(|program| (program, true));
        let all = programs.loaded.iter().map(|program| (program, false)).chain(leaving);
        all.map(|(program, is_leaving)| {
            let own = 1 + usize::from(is_active(program));
            (Arc::clone(program), Arc::strong_count(program).saturating_sub(own + 1), is_leaving)
        })
        .collect()
    }

    /// The programs that requests may begin in, and how many others only finish theirs.
    #[must_use]
    pub fn loaded(&self) -> (Vec<Arc<Loaded>>, usize) {
        let programs = self.read();
        (programs.loaded.iter().map(|program| Arc::clone(&program.loaded)).collect(), programs.leaving.len())
    }

    /// Loads a program: its `vcl_init` runs. No request takes it before it is active or has a label.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn load(&self, name: &str, program: Arc<Program>, targets: Targets) -> Result<Arc<Running>, Failure> {
        let targets = Arc::new(targets);
        let parts = Parts {
            name: name.to_owned(),
            settings: self.settings(),
            cache: Arc::clone(&self.cache),
            storages: Arc::clone(&self.storages),
            backends: Arc::new(Health(Arc::clone(&targets))),
            lasting: Arc::clone(&self.lasting),
        };
        let running = Arc::new(Running { loaded: load(program, parts)?, targets });
        self.write().loaded.push(Arc::clone(&running));
        Ok(running)
    }

    /// New requests take the program of that name, or with that label, from now on. Whether there is one.
    pub fn activate(&self, name: &str) -> bool {
        let mut programs = self.write();
        let Some(program) = programs.resolve(name).cloned() else { return false };
        programs.active = Some(program);
        true
    }

    /// Gives a program a label, or moves the label.
    pub fn label(&self, label: &str, name: &str) {
        let mut programs = self.write();
        programs.labels.retain(|(known, _)| known != label);
        programs.labels.push((label.to_owned(), name.to_owned()));
    }

    /// Removes a label, or a program that is not active. Requests that run in it go on; [`Accelerator::sweep`] ends it after the last.
    pub fn discard(&self, name: &str) {
        let mut programs = self.write();
        programs.labels.retain(|(known, _)| known != name);
        let (gone, stay) =
            std::mem::take(&mut programs.loaded).into_iter().partition(|program| program.loaded.name == name);
        programs.loaded = stay;
        let gone: Vec<_> = gone;
        programs.leaving.extend(gone);
    }

    /// Ends discarded programs in which no request runs any more, by their `vcl_fini`; their names.
    pub fn sweep(&self) -> Vec<String> {
        let gone: Vec<Arc<Running>> = {
            let mut programs = self.write();
            let all = std::mem::take(&mut programs.leaving);
            let (gone, stay) = all.into_iter().partition(|program| Arc::strong_count(program) == 1);
            programs.leaving = stay;
            gone
        };
        gone.iter()
            .map(|program| {
                // It is over whatever that says.
                let _ = unload(&program.loaded);
                program.loaded.name.clone()
            })
            .collect()
    }

    /// The parameters that requests have which begin now.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.read().settings.clone()
    }

    /// Sets a parameter: for requests that begin from now on, in all programs.
    ///
    /// # Errors
    /// Why it cannot be set.
    pub fn set(&self, name: &str, value: &str) -> Result<(), NotSet> {
        if name == "nuke_limit" {
            let limit = value.parse().map_err(|_| NotSet::Invalid)?;
            self.storages.limit_nukes(limit);
            return Ok(());
        }
        let is_known = self.connections.set(name, value).transpose()?.is_some();
        let mut programs = self.write();
        match programs.settings.set(name, value) {
            Err(NotSet::Unknown) if is_known => return Ok(()),
            set => set?,
        }
        let active = programs.active.as_ref().map(|active| active.loaded.name.clone());
        let settings = programs.settings.clone();
        for program in &mut programs.loaded {
            let loaded = program.loaded.with_settings(settings.clone());
            *program = Arc::new(Running { loaded, targets: Arc::clone(&program.targets) });
        }
        programs.active = active.and_then(|name| programs.named(&name).cloned());
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Programs> {
        self.programs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Programs> {
        self.programs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Programs {
    fn named(&self, name: &str) -> Option<&Arc<Running>> {
        self.loaded.iter().find(|program| program.loaded.name == name)
    }

    fn resolve(&self, name: &str) -> Option<&Arc<Running>> {
        let target = self.labels.iter().find(|(label, _)| label == name).map_or(name, |(_, target)| target);
        self.named(target)
    }
}
