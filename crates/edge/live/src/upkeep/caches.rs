//! Removing objects of caches whose time is over, and keeping the journals of their disks short.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cache::{
    index::Cache,
    storage::disk::{Compaction, Disk},
};

use crate::Shared;

/// How often it is looked for what has expired. Whoever asks for such an object does not find it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Objects that are removed in one go, between which the control thread does something else.
const BATCH: usize = 500;

/// Removes expired objects of all caches until it is dropped. One of these runs in the process, on any thread.
pub async fn run(shared: Arc<Shared>) {
    loop {
        let instance = shared.instance();
        let of_proxies = instance.proxies.iter().filter_map(|proxy| proxy.shared_cache.as_ref());
        let mut caches: Vec<(Arc<Cache>, Option<Arc<Disk>>)> = of_proxies
            .map(|cache| {
                let disk = cache.shared.disk.as_ref().and_then(|storage| storage.disk().cloned());
                (Arc::clone(&cache.shared.cache), disk)
            })
            .collect();
        caches.extend(instance.caches.iter().map(|section| (Arc::clone(&section.cache), None)));
        drop(instance);
        for (cache, disk) in caches {
            while cache.expire(now(), BATCH).0 == BATCH {
                tokio::task::yield_now().await;
            }
            if let Some(disk) = disk.filter(|disk| disk.wants_compaction()) {
                compact(&disk, &cache).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

async fn compact(disk: &Arc<Disk>, cache: &Cache) {
    let mut step = Compaction::begin(disk, cache);
    let failure = loop {
        match step {
            Ok(mut compaction) => match compaction.step(cache) {
                Ok(true) => return,
                Ok(false) => step = Ok(compaction),
                Err(error) => break error,
            },
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    runtime::log::write(
        runtime::log::Level::Warning,
        format_args!("shared-cache: the journal of its disk cannot be written anew: {failure}"),
    );
}
