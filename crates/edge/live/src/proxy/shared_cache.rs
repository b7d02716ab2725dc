//! A cache by RFC 9111 for a proxy.

use std::{io, sync::Arc, time::Duration};

use ::accelerator::shared::Shared;
use cache::{
    bans::LurkerSettings,
    index::Cache,
    storage::{Stevedore, disk::RealFiles},
};
use haproxycfg::model::{self, DiskTier};

use super::storages::Upkeep;
use crate::background::Background;

/// A cache that runs.
#[derive(Debug)]
pub struct SharedCache {
    /// What its machines use.
    pub shared: Arc<Shared>,
    /// Why it is in memory alone although it has a disk.
    pub disk_trouble: Option<String>,
    upkeep: Arc<Upkeep>,
    spec: model::SharedCache,
}

impl SharedCache {
    /// The one that a configuration describes. What the one `before` has stored stays, but for what is in storages that changed.
    #[must_use]
    pub fn new(described: &model::SharedCache, before: Option<&Arc<Self>>) -> Arc<Self> {
        if let Some(before) = before.filter(|before| before.spec == *described) {
            return Arc::clone(before);
        }
        // NOTE: an index that knows a disk's objects knows no other disk.
        let before = before.filter(|before| before.spec.disk == described.disk);
        let cache = before.map_or_else(Cache::new, |before| Arc::clone(&before.shared.cache));
        let memory = match before.filter(|before| before.spec.bytes == described.bytes) {
            Some(before) => Arc::clone(&before.shared.memory),
            None => Arc::new(Stevedore::malloc("memory", described.bytes)),
        };
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(&before.shared.memory, &memory)) {
            forget(&cache, &before.shared.memory);
        }
        let opened = match before {
            Some(before) => Ok(before.shared.disk.clone()),
            None => described.disk.as_ref().map(|tier| open(tier, &cache)).transpose(),
        };
        let (disk, disk_trouble) = match opened {
            Ok(disk) => (disk, before.and_then(|before| before.disk_trouble.clone())),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(disk) = &disk {
            disk.falls_back_to(&memory);
        }
        let shared = Shared { name: described.name.clone(), cache, memory, disk };
        let upkeep = before.map(|before| Arc::clone(&before.upkeep)).unwrap_or_default();
        Arc::new(Self { shared: Arc::new(shared), disk_trouble, upkeep, spec: described.clone() })
    }

    /// Does a little of what a cache needs while it is in use; when it wants to be called again.
    pub fn tend(&self, background: &Background) -> Duration {
        let disks: Vec<_> = self.shared.disk.iter().filter_map(|storage| storage.disk().cloned()).collect();
        self.upkeep.tend(&self.shared.cache, &disks, LurkerSettings::default(), background)
    }
}

/// Removes what a storage holds that is not used any more.
fn forget(cache: &Cache, storage: &Arc<Stevedore>) {
    for objects in (0..).map_while(|part| cache.objects_of(part)) {
        objects.iter().filter(|object| Arc::ptr_eq(object.storage(), storage)).for_each(|object| cache.remove(object));
    }
}

fn open(tier: &DiskTier, cache: &Arc<Cache>) -> io::Result<Arc<Stevedore>> {
    let now = basics::clock::seconds();
    let files = RealFiles::open(&tier.path, tier.bytes)?;
    Ok(Stevedore::file("disk", Box::new(files), tier.bytes, cache, now)?.0)
}
