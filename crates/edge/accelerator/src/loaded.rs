//! A program with what it makes when it is loaded: directors, and what stands for its backends.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use cache::{index::Cache, storage::Stevedore};
use vcl::{
    program::{BackendIndex, ObjectIndex, Policy as DeclaredPolicy, Program},
    run::{Backend, Failure},
};

use crate::{
    directors::{Choice, Director, Members, Neighbours, Policy, Wishes},
    lasting::Lasting,
    settings::Settings,
};

/// How deep directors may choose one another.
const DEPTH_MAX: usize = 16;

/// What the world around knows of backends.
pub trait Backends: Send + Sync {
    /// Whether a backend of the program may be asked.
    fn is_healthy(&self, backend: BackendIndex) -> bool;

    /// When that changed, in seconds since 1970; 0 if it never did.
    fn changed(&self, backend: BackendIndex) -> f64 {
        let _ = backend;
        0.0
    }

    /// The last results of its probe, a bit for each, the last one the lowest, good ones set.
    fn probes(&self, backend: BackendIndex) -> u64 {
        let _ = backend;
        0
    }
}

/// All of them may be asked.
#[derive(Clone, Copy, Debug)]
pub struct AllHealthy;

impl Backends for AllHealthy {
    fn is_healthy(&self, _: BackendIndex) -> bool {
        true
    }
}

/// Where objects are kept, in the order in which they were given (`-s`).
#[derive(Debug)]
pub struct Storages {
    /// Named storages, which are used in turn where nothing else is said.
    pub named: Vec<Arc<Stevedore>>,
    /// What is short-lived or for one client.
    pub transient: Arc<Stevedore>,
    /// Whose turn it is.
    next: AtomicUsize,
}

impl Storages {
    /// The one of this name.
    #[must_use]
    pub fn of_name(&self, name: &str) -> Option<&Arc<Stevedore>> {
        self.named.iter().chain([&self.transient]).find(|storage| storage.name() == name)
    }

    /// Storages of which the first named one is the next.
    #[must_use]
    pub fn new(named: Vec<Arc<Stevedore>>, transient: Arc<Stevedore>) -> Self {
        Self { named, transient, next: AtomicUsize::new(0) }
    }

    /// The place among the named ones of the one whose turn it is.
    pub(crate) fn take_turn(&self) -> usize {
        match self.named.len() {
            0 | 1 => 0,
            count => self.next.fetch_add(1, Ordering::Relaxed) % count,
        }
    }

    /// Says how many objects may leave for one.
    pub fn limit_nukes(&self, objects: u64) {
        self.named.iter().chain([&self.transient]).for_each(|storage| storage.limit_nukes(objects));
    }

    /// The one at this place among the named ones.
    pub(crate) fn at(&self, place: usize) -> &Arc<Stevedore> {
        self.named.get(place).unwrap_or(&self.transient)
    }
}

/// A program that runs.
pub struct Loaded {
    /// Its name (`boot`, or what `vcl.load` says).
    pub name: String,
    /// The program.
    pub program: Arc<Program>,
    /// Parameters.
    pub settings: Settings,
    /// The cache.
    pub cache: Arc<Cache>,
    /// Storages.
    pub storages: Arc<Storages>,
    /// Whether requests are kept as they came: for what pages include, and for other programs.
    pub(crate) keeps_received: bool,
    backends: Arc<dyn Backends>,
    /// Objects of modules, by their index.
    objects: Arc<[OnceLock<Made>]>,
    /// Directors of VCL 3.
    directors: Arc<[Director]>,
    /// What outlives the program.
    pub lasting: Arc<Lasting>,
    /// How `Via` names it.
    pub(crate) via: Box<[u8]>,
}

/// How `Via` names who runs under these parameters.
fn via_of() -> Box<[u8]> {
    Box::from(&b"1.1 varnish (Varnish/7.1)"[..])
}

/// An object of a module.
#[derive(Debug)]
pub(crate) enum Made {
    Director(Director),
    /// `directors.shard_param`, as `vcl_init` left it.
    ShardParameters(Mutex<Wishes>),
    Blob(Arc<[u8]>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Loaded").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a program is loaded with.
pub struct Parts {
    /// Its name.
    pub name: String,
    /// Parameters.
    pub settings: Settings,
    /// The cache.
    pub cache: Arc<Cache>,
    /// Storages.
    pub storages: Arc<Storages>,
    /// What is known of backends.
    pub backends: Arc<dyn Backends>,
    /// What earlier programs left.
    pub lasting: Arc<Lasting>,
}

impl Neighbours for Loaded {
    fn is_healthy(&self, backend: Backend) -> bool {
        Self::is_healthy(self, backend)
    }

    fn changed(&self, backend: Backend) -> f64 {
        match backend {
            Backend::Declared(index) => self.backends.changed(index),
            Backend::Host(_) => 0.0,
            _ => {
                let members = self.director(backend).map(Director::members).unwrap_or_default();
                members.into_iter().map(|member| self.changed(member)).fold(0.0, f64::max)
            }
        }
    }
}

impl Loaded {
    /// A program whose `vcl_init` has not been run.
    pub(crate) fn new(program: Arc<Program>, parts: Parts) -> Arc<Self> {
        let directors = program.directors.iter().map(declared_director).collect();
        let objects = program.objects.iter().map(|_| OnceLock::new()).collect();
        let Parts { name, settings, cache, storages, backends, lasting } = parts;
        // NOTE: a word in a comment costs a copy of each request's head, and nothing else.
        let may_include = program.sources.iter().any(|source| source.name != "Builtin" && source.text.contains("esi"));
        let keeps_received = may_include || !program.labels.is_empty();
        let via = via_of();
        Arc::new(Self {
            keeps_received,
            name,
            program,
            settings,
            cache,
            storages,
            backends,
            objects,
            directors,
            lasting,
            via,
        })
    }

    /// The same program, with what it has made, under other parameters: for requests that begin from now on.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            name: self.name.clone(),
            program: Arc::clone(&self.program),
            via: via_of(),
            keeps_received: self.keeps_received,
            settings,
            cache: Arc::clone(&self.cache),
            storages: Arc::clone(&self.storages),
            backends: Arc::clone(&self.backends),
            objects: Arc::clone(&self.objects),
            directors: Arc::clone(&self.directors),
            lasting: Arc::clone(&self.lasting),
        })
    }

    /// Whether it is a backend that is nowhere (`backend name none`).
    #[must_use]
    pub fn goes_nowhere(&self, backend: Backend) -> bool {
        let Backend::Declared(index) = backend else { return false };
        let declared = self.program.backends.get(index.0 as usize);
        declared.is_some_and(|declared| declared.endpoint == vcl::program::Endpoint::None)
    }

    /// Whether a backend, or any backend of a director, may be asked.
    #[must_use]
    pub fn is_healthy(&self, backend: Backend) -> bool {
        match backend {
            Backend::Declared(index) => {
                let declared = self.program.backends.get(index.0 as usize);
                declared.is_some_and(|declared| declared.endpoint != vcl::program::Endpoint::None)
                    && self.backends.is_healthy(index)
            }
            Backend::Host(_) => true,
            _ => self
                .director(backend)
                .is_some_and(|director| director.members().iter().any(|member| self.is_healthy(*member))),
        }
    }

    /// The backend that is asked in the end, through any directors. `choice` says what each of them goes by.
    pub(crate) fn resolve<'c>(
        &self,
        backend: Backend,
        choice: impl Fn(&Director, Option<ObjectIndex>) -> Choice<'c>,
    ) -> Option<Backend> {
        let mut backend = backend;
        for _ in 0..DEPTH_MAX {
            let object = match backend {
                Backend::Declared(_) | Backend::Host(_) => return Some(backend),
                Backend::Object(object) => Some(object),
                Backend::Director(_) => None,
            };
            let director = self.director(backend)?;
            backend = director.choose(&choice(director, object), self)?;
        }
        None
    }

    /// A number from 0 to 1, by chance.
    pub(crate) fn draw(&self, now: f64) -> f64 {
        self.lasting.draw(now)
    }

    /// The backend or director of a name.
    pub(crate) fn named(&self, name: &str) -> Option<Backend> {
        let place = |found: Option<usize>| found.and_then(|place| u32::try_from(place).ok());
        if let Some(place) = place(self.program.backends.iter().position(|backend| backend.name == name)) {
            return Some(Backend::Declared(BackendIndex(place)));
        }
        let object = place(self.program.objects.iter().position(|object| object.name == name))?;
        let object = ObjectIndex(object);
        matches!(self.made(object), Some(Made::Director(_))).then_some(Backend::Object(object))
    }

    /// What `vcl_init` left of a set of parameters for shard directors.
    pub(crate) fn shard_set(&self, set: ObjectIndex) -> Wishes {
        match self.made(set) {
            Some(Made::ShardParameters(wishes)) => *wishes.lock().unwrap_or_else(PoisonError::into_inner),
            _ => Wishes::default(),
        }
    }

    pub(crate) fn set_shard_set(&self, set: ObjectIndex, said: Wishes) {
        if let Some(Made::ShardParameters(wishes)) = self.made(set) {
            *wishes.lock().unwrap_or_else(PoisonError::into_inner) = said;
        }
    }

    /// The name of a backend or director that the program does not declare as a backend.
    #[must_use]
    pub fn name_of(&self, backend: Backend) -> Option<&str> {
        match backend {
            Backend::Declared(index) => {
                self.program.backends.get(index.0 as usize).map(|backend| backend.name.as_str())
            }
            Backend::Director(place) => {
                self.program.directors.get(place as usize).map(|director| director.name.as_str())
            }
            Backend::Object(index) => self.program.objects.get(index.0 as usize).map(|object| object.name.as_str()),
            Backend::Host(_) => None,
        }
    }

    /// What kind of director one is (`round-robin`); nothing for a backend.
    #[must_use]
    pub fn kind_of(&self, director: Backend) -> Option<&'static str> {
        self.director(director).map(Director::kind)
    }

    /// The last results of a backend's probe, a bit for each, the last one the lowest, good ones set.
    #[must_use]
    pub fn probes(&self, backend: BackendIndex) -> u64 {
        self.backends.probes(backend)
    }

    /// What a director chooses from; nothing for a backend.
    #[must_use]
    pub fn members(&self, director: Backend) -> Option<Vec<Backend>> {
        self.director(director).map(Director::members)
    }

    /// A director that the program has declared or made.
    #[must_use]
    pub fn director(&self, backend: Backend) -> Option<&Director> {
        match backend {
            Backend::Director(place) => self.directors.get(place as usize),
            Backend::Object(index) => match self.made(index)? {
                Made::Director(director) => Some(director),
                Made::ShardParameters(_) | Made::Blob(_) => None,
            },
            _ => None,
        }
    }

    pub(crate) fn made(&self, object: ObjectIndex) -> Option<&Made> {
        self.objects.get(object.0 as usize)?.get()
    }

    pub(crate) fn make(&self, object: ObjectIndex, made: Made) -> Result<(), Failure> {
        let place = self.objects.get(object.0 as usize).ok_or(Failure::NoAnswer)?;
        place.set(made).map_err(|_| Failure::Host("an object is made once".to_owned()))
    }
}

fn declared_director(declared: &vcl::program::Director) -> Director {
    let policy = match declared.policy {
        DeclaredPolicy::Random => Policy::Random,
        DeclaredPolicy::RoundRobin => Policy::RoundRobin,
        DeclaredPolicy::Client | DeclaredPolicy::Hash => Policy::OldHash,
        DeclaredPolicy::Fallback => Policy::Fallback { sticky: false },
    };
    let members = Members::new(policy);
    for (index, weight) in &declared.members {
        members.add(Backend::Declared(*index), *weight);
    }
    Director::Members(members)
}
