//! A program with what it makes when it is loaded: directors, and what stands for its backends.

use std::sync::{Arc, OnceLock};

use cache::{index::Cache, storage::Stevedore};
use vcl::{
    program::{BackendIndex, ObjectIndex, Policy as DeclaredPolicy, Program},
    run::{Backend, Failure},
};

use crate::{
    directors::{Director, Policy},
    settings::Settings,
};

/// What the world around knows of backends.
pub trait Backends: Send + Sync {
    /// Whether a backend of the program may be asked.
    fn is_healthy(&self, backend: BackendIndex) -> bool;
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
    /// Named storages; the first one is used where nothing else is said.
    pub named: Vec<Arc<Stevedore>>,
    /// What is short-lived or for one client.
    pub transient: Arc<Stevedore>,
}

impl Storages {
    /// The one of this name.
    #[must_use]
    pub fn of_name(&self, name: &str) -> Option<&Arc<Stevedore>> {
        self.named.iter().chain([&self.transient]).find(|storage| storage.name() == name)
    }

    /// The one that is used where nothing else is said.
    #[must_use]
    pub fn default_one(&self) -> &Arc<Stevedore> {
        self.named.first().unwrap_or(&self.transient)
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
    backends: Arc<dyn Backends>,
    /// Objects of modules, by their index.
    objects: Arc<[OnceLock<Made>]>,
    /// Directors of VCL 3.
    directors: Arc<[Director]>,
}

/// An object of a module.
#[derive(Debug)]
pub(crate) enum Made {
    Director(Director),
    Blob(Vec<u8>),
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
}

impl Loaded {
    /// A program whose `vcl_init` has not been run.
    pub(crate) fn new(program: Arc<Program>, parts: Parts) -> Arc<Self> {
        let directors = program.directors.iter().map(declared_director).collect();
        let objects = program.objects.iter().map(|_| OnceLock::new()).collect();
        let Parts { name, settings, cache, storages, backends } = parts;
        Arc::new(Self { name, program, settings, cache, storages, backends, objects, directors })
    }

    /// The same program, with what it has made, under other parameters: for requests that begin from now on.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            name: self.name.clone(),
            program: Arc::clone(&self.program),
            settings,
            cache: Arc::clone(&self.cache),
            storages: Arc::clone(&self.storages),
            backends: Arc::clone(&self.backends),
            objects: Arc::clone(&self.objects),
            directors: Arc::clone(&self.directors),
        })
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

    /// The backend that is asked in the end, through any directors.
    #[must_use]
    pub fn resolve(&self, backend: Backend, key: &[u8], random: f64) -> Option<Backend> {
        const DEPTH_MAX: usize = 16;
        let mut backend = backend;
        for _ in 0..DEPTH_MAX {
            match backend {
                Backend::Declared(_) | Backend::Host(_) => return Some(backend),
                _ => backend = self.director(backend)?.choose(key, random, |member| self.is_healthy(member))?,
            }
        }
        None
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

    /// What a director chooses from; nothing for a backend.
    #[must_use]
    pub fn members(&self, director: Backend) -> Option<Vec<Backend>> {
        self.director(director).map(Director::members)
    }

    pub(crate) fn director(&self, backend: Backend) -> Option<&Director> {
        match backend {
            Backend::Director(place) => self.directors.get(place as usize),
            Backend::Object(index) => match self.made(index)? {
                Made::Director(director) => Some(director),
                Made::Blob(_) => None,
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
        DeclaredPolicy::Client | DeclaredPolicy::Hash => Policy::Hash,
        DeclaredPolicy::Fallback => Policy::Fallback { sticky: false },
    };
    let director = Director::new(policy);
    for (index, weight) in &declared.members {
        director.add(Backend::Declared(*index), *weight);
    }
    director
}
