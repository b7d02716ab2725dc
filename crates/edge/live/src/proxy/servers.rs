//! The servers of a proxy: those of its configuration, and those that came at run time (`add server`).
//!
//! The request path takes a configured server without a lock, as ever. Those that were added stand behind, each at the
//! place that it has in the farm; a place that is empty waits for the next one.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::LiveServer;

/// The servers of a proxy, by their place in its farm.
///
/// NOTE: the lock in it is held for a copy and nothing else, so it may be taken under the farm's.
#[derive(Debug, Default)]
pub struct Servers {
    configured: Box<[Arc<LiveServer>]>,
    added: RwLock<Vec<Option<Arc<LiveServer>>>>,
    has_added: AtomicBool,
}

impl Servers {
    /// Those of a configuration.
    #[must_use]
    pub fn new(configured: Vec<Arc<LiveServer>>) -> Self {
        Self { configured: configured.into(), ..Self::default() }
    }

    /// The server at a place.
    #[inline]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<Arc<LiveServer>> {
        match self.configured.get(place) {
            Some(server) => Some(Arc::clone(server)),
            None => self.added_at(place),
        }
    }

    /// Works on the server at a place.
    #[inline]
    pub fn with<R>(&self, place: usize, work: impl FnOnce(&LiveServer) -> R) -> Option<R> {
        match self.configured.get(place) {
            Some(server) => Some(work(server)),
            None => self.added_at(place).map(|server| work(&server)),
        }
    }

    #[cold]
    fn added_at(&self, place: usize) -> Option<Arc<LiveServer>> {
        let place = place.checked_sub(self.configured.len())?;
        self.added.read().unwrap_or_else(PoisonError::into_inner).get(place).cloned().flatten()
    }

    /// Those that came at run time and are still there, in the order in which they came.
    fn all_added(&self) -> Vec<Arc<LiveServer>> {
        if !self.has_added.load(Relaxed) {
            return Vec::new();
        }
        let mut servers: Vec<_> =
            self.added.read().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect();
        servers.sort_by_key(|server| server.key);
        servers
    }

    /// Every server that is there now, in order.
    pub fn iter(&self) -> impl Iterator<Item = Arc<LiveServer>> {
        let configured = self.configured.iter().filter(|server| !server.is_gone.load(Relaxed));
        configured.cloned().chain(self.all_added())
    }

    /// The first result that a server gives, in order.
    pub fn find_map<R>(&self, mut find: impl FnMut(&LiveServer) -> Option<R>) -> Option<R> {
        let configured = self.configured.iter().filter(|server| !server.is_gone.load(Relaxed));
        for server in configured {
            if let Some(found) = find(server) {
                return Some(found);
            }
        }
        self.all_added().iter().find_map(|server| find(server))
    }

    /// The server of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Arc<LiveServer>> {
        self.iter().find(|server| &*server.config.name == name)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.find_map(|_| Some(())).is_none()
    }

    /// Puts one that came at run time at the place that the farm gave it.
    pub fn add(&self, place: usize, server: Arc<LiveServer>) {
        let Some(place) = place.checked_sub(self.configured.len()) else { return };
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        let missing = (place + 1).saturating_sub(added.len());
        added.extend(std::iter::repeat_n(None, missing));
        if let Some(vacant) = added.get_mut(place) {
            *vacant = Some(server);
        }
        self.has_added.store(true, Relaxed);
    }

    /// Takes one away: one of the configuration is no longer shown.
    pub fn remove(&self, place: usize) {
        match self.configured.get(place) {
            Some(server) => server.is_gone.store(true, Relaxed),
            None => {
                let Some(place) = place.checked_sub(self.configured.len()) else { return };
                if let Some(server) = self.added.write().unwrap_or_else(PoisonError::into_inner).get_mut(place) {
                    *server = None;
                }
            }
        }
    }
}

/// Those of the configuration.
#[cfg(test)]
impl std::ops::Index<usize> for Servers {
    type Output = Arc<LiveServer>;

    fn index(&self, place: usize) -> &Self::Output {
        &self.configured[place]
    }
}
