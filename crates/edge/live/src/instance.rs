//! A configuration that runs: proxies and servers with their state and numbers.
//!
//! An [`Instance`] is made from a checked configuration and replaced as a whole by a reload. What outlives reloads, the
//! process' own numbers, stands in [`Process`]. Numbers and server states of proxies that are still there after a reload
//! are carried over by name.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use haproxycfg::model::{Config, ProxyIndex};
use logs::LogTargets;

use crate::{
    caches::LiveCache, limits::IdleMarks, peering::Hub, process::Process, proxy::LiveProxy, resolvers::LiveResolvers,
    tables::Tables, tls_store::TlsStore,
};

/// A running configuration.
#[derive(Debug)]
pub struct Instance {
    /// What it runs.
    pub config: Arc<Config>,
    /// `tune.vars.*-max-size`.
    pub variable_limits: Arc<sample::VariableLimits>,
    /// Which load of the configuration this is, from 1.
    pub generation: u64,
    /// In the order of [`Config::proxies`].
    pub proxies: Vec<Arc<LiveProxy>>,
    /// Stick tables.
    pub tables: Arc<Tables>,
    /// Proxies with a backend side by name.
    pub backends: HashMap<Arc<str>, ProxyIndex>,
    /// In the order of [`Config::resolvers`].
    pub resolvers: Vec<Arc<LiveResolvers>>,
    /// In the order of [`Config::caches`].
    pub caches: Vec<Arc<LiveCache>>,
    /// How many descriptors may be in use before idle connections to servers are given up.
    pub idle_marks: IdleMarks,
    /// The process it runs in.
    pub process: Arc<Process>,
    /// The `log` lines of the `global` section.
    pub log_targets: LogTargets,
    /// What lines about TLS name, as it stands now.
    pub tls: TlsStore,
}

impl Instance {
    /// The `cache` section of this name.
    #[must_use]
    pub fn cache(&self, name: &str) -> Option<&Arc<LiveCache>> {
        self.caches.iter().find(|cache| *cache.spec.name == *name)
    }

    /// The variables of a connection that has none of its own yet.
    #[must_use]
    #[inline]
    pub fn stream_variables(&self) -> sample::StreamVariables {
        sample::StreamVariables::new(Arc::clone(&self.process.variables), Arc::clone(&self.variable_limits))
    }

    /// What a peer may send, as far as the configuration says.
    #[must_use]
    #[inline]
    pub fn limits(&self, accept_invalid: bool) -> http::Limits {
        let tune = &self.config.global.tune;
        let head = tune.bufsize.saturating_sub(tune.maxrewrite);
        http::Limits {
            head_bytes_max: head,
            target_bytes_max: head,
            headers_max: tune.http_maxhdr,
            trailer_bytes_max: head,
            accept_invalid,
            ..http::Limits::default()
        }
    }

    /// The proxy at a place.
    #[must_use]
    #[inline]
    pub fn proxy(&self, index: ProxyIndex) -> Option<&Arc<LiveProxy>> {
        self.proxies.get(index.0 as usize)
    }

    /// The `resolvers` section of that name.
    #[must_use]
    pub fn resolvers_named(&self, name: &str) -> Option<&Arc<LiveResolvers>> {
        self.resolvers.iter().find(|section| *section.config.name == *name)
    }

    /// The proxy with a backend side of that name.
    #[must_use]
    pub fn backend(&self, name: &str) -> Option<&Arc<LiveProxy>> {
        self.backends.get(name).and_then(|index| self.proxy(*index))
    }
}

/// What every worker, check, log and command sees: the process and the instance that runs now.
#[derive(Debug)]
pub struct Shared {
    /// The process.
    pub process: Arc<Process>,
    /// Peers that share stick tables.
    pub peers: Arc<Hub>,
    instance: RwLock<Arc<Instance>>,
}

impl Shared {
    /// Runs `instance`.
    #[must_use]
    pub fn new(process: Arc<Process>, peers: Arc<Hub>, instance: Arc<Instance>) -> Self {
        Self { process, peers, instance: RwLock::new(instance) }
    }

    /// The instance that runs now. Workers keep their own copy for the request path and are told of a new one.
    #[must_use]
    pub fn instance(&self) -> Arc<Instance> {
        Arc::clone(&self.instance.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the instance and returns the one before.
    pub fn replace(&self, instance: Arc<Instance>) -> Arc<Instance> {
        std::mem::replace(&mut *self.instance.write().unwrap_or_else(PoisonError::into_inner), instance)
    }
}
