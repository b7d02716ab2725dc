//! What is to be seen of a proxy's cache.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use cache::storage::Stevedore;

use crate::{LiveProxy, insight::Uncached};

/// A proxy's cache as it is now.
#[derive(Clone, Debug, Default)]
pub struct CacheState {
    /// What is stored.
    pub objects: u64,
    /// Bans that wait for objects.
    pub bans: u64,
    /// Names of storages, bytes in use and bytes in all.
    pub storages: Vec<(String, u64, u64)>,
    /// What was neither answered from it nor stored lately, the latest first.
    pub uncached: Vec<Uncached>,
}

impl CacheState {
    /// That of a proxy, if it has a cache.
    #[must_use]
    pub fn of(proxy: &LiveProxy) -> Option<Self> {
        let (cache, storages): (_, Vec<_>) = if let Some(accelerator) = &proxy.accelerator {
            let storages = &accelerator.storages;
            (&accelerator.cache, storages.named.iter().chain([&storages.transient]).collect())
        } else {
            let shared = &proxy.shared_cache.as_ref()?.shared;
            (&shared.cache, [&shared.memory].into_iter().chain(&shared.disk).collect())
        };
        let storage = |storage: &Arc<Stevedore>| {
            let used = storage.used();
            (storage.name().to_owned(), used, used + storage.free())
        };
        Some(Self {
            objects: cache.counters.objects.load(Relaxed),
            bans: cache.bans().all().iter().filter(|ban| !ban.is_completed()).count() as u64,
            storages: storages.into_iter().map(storage).collect(),
            uncached: proxy.insight.recent(),
        })
    }
}
