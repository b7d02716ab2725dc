//! A program of VCL that runs for a proxy, and its cache.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use ::accelerator::{
    load::load,
    loaded::{Backends, Loaded, Parts, Storages},
};
use cache::{index::Cache, storage::Stevedore};
use haproxycfg::model::{self, StorageSpec};
use vcl::{program::BackendIndex, run::Backend};

use super::LiveProxy;

/// What a storage has where nothing is said (varnishd's default for `malloc`).
const STORAGE_BYTES: u64 = 100 << 20;
/// What short-lived objects, and those for one client, may take at most.
const TRANSIENT_BYTES: u64 = 256 << 20;

/// A program of VCL that runs.
#[derive(Debug)]
pub struct Accelerator {
    /// The program.
    pub loaded: Arc<Loaded>,
    /// Where its backends are.
    pub targets: Arc<Targets>,
    /// Where the number of the next transaction comes from.
    pub numbers: Arc<AtomicU64>,
    specs: Vec<StorageSpec>,
}

/// The proxies that a program's backends are, by their index.
#[derive(Debug, Default)]
pub struct Targets(OnceLock<Vec<Weak<LiveProxy>>>);

impl Targets {
    /// The proxy of a backend.
    #[must_use]
    pub fn proxy(&self, backend: Backend) -> Option<Arc<LiveProxy>> {
        let Backend::Declared(index) = backend else { return None };
        self.0.get()?.get(index.0 as usize)?.upgrade()
    }
}

struct Health(Arc<Targets>);

impl Backends for Health {
    fn is_healthy(&self, backend: BackendIndex) -> bool {
        // NOTE: a proxy without servers says so itself, by an error that names it.
        self.0
            .proxy(Backend::Declared(backend))
            .is_some_and(|proxy| proxy.direct.is_some() || proxy.farm().usable() > 0)
    }
}

impl Accelerator {
    /// The one that a configuration describes; the cache of the one `before` stays if its storages are the same.
    #[must_use]
    pub fn new(described: &model::Accelerator, before: Option<&Self>, numbers: &Arc<AtomicU64>) -> Option<Arc<Self>> {
        let program = Arc::clone(described.program.as_ref()?);
        let before = before.filter(|before| before.specs == described.storages);
        let (cache, storages) = match before {
            Some(before) => (Arc::clone(&before.loaded.cache), Arc::clone(&before.loaded.storages)),
            None => (Cache::new(), Arc::new(storages(&described.storages))),
        };
        let targets = Arc::new(Targets::default());
        let parts = Parts {
            name: described.name.clone(),
            settings: described.settings.clone(),
            cache,
            storages,
            backends: Box::new(Health(Arc::clone(&targets))),
        };
        // It has been tried when the configuration was checked.
        let loaded = load(program, parts).ok()?;
        Some(Arc::new(Self { loaded, targets, numbers: Arc::clone(numbers), specs: described.storages.clone() }))
    }

    /// Tells it where its backends are, once all proxies are there.
    pub fn find_backends(&self, proxies: &[Arc<LiveProxy>]) {
        let of_name = |name: &str| {
            let found = proxies.iter().find(|proxy| proxy.settings.kind.has_backend() && *proxy.settings.name == *name);
            found.map_or_else(Weak::new, Arc::downgrade)
        };
        let targets = self.loaded.program.backends.iter().map(|backend| of_name(&backend.name)).collect();
        let _ = self.targets.0.set(targets);
    }

    /// The name of a backend that is asked.
    #[must_use]
    pub fn name_of(&self, backend: Backend) -> &str {
        self.loaded.name_of(backend).unwrap_or("-")
    }

    /// The number of the next transaction.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }
}

fn storages(specs: &[StorageSpec]) -> Storages {
    let make = |spec: &StorageSpec| Arc::new(Stevedore::malloc(&spec.name, spec.bytes.unwrap_or(STORAGE_BYTES)));
    let mut named: Vec<_> = specs.iter().filter(|spec| spec.name != "Transient").map(make).collect();
    if named.is_empty() {
        named.push(Arc::new(Stevedore::malloc("s0", STORAGE_BYTES)));
    }
    let transient = specs.iter().find(|spec| spec.name == "Transient").map(make);
    Storages {
        named,
        transient: transient.unwrap_or_else(|| Arc::new(Stevedore::malloc("Transient", TRANSIENT_BYTES))),
    }
}
