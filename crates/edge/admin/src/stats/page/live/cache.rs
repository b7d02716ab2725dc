//! What the page shows of caches.

use serde::Serialize;

use crate::stats::view::{ProxyView, Totals};

#[derive(Debug, Serialize)]
pub(super) struct Cache {
    /// Requests that were looked up since the start, and those of them that were answered.
    lookups: u64,
    hits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<More>,
}

#[derive(Debug, Serialize)]
struct More {
    /// Bytes that came from the cache.
    saved: u64,
    objects: u64,
    bans: u64,
    /// Names, bytes in use, bytes in all.
    storages: Vec<(String, u64, u64)>,
    uncached: Vec<Uncached>,
}

#[derive(Debug, Serialize)]
struct Uncached {
    /// Seconds since the epoch.
    at: u64,
    request: String,
    status: u16,
    why: String,
}

impl Cache {
    /// That of a proxy, if it has one.
    pub(super) fn of(proxy: &ProxyView, is_open: bool) -> Option<Self> {
        let view = proxy.cache.as_ref()?;
        let sides: [Option<&Totals>; 2] =
            [proxy.frontend.as_ref().map(|side| &side.totals), proxy.backend.as_ref().map(|side| &side.totals)];
        let sum = |number: fn(&Totals) -> u64| sides.iter().flatten().map(|totals| number(totals)).sum();
        let uncached = || view.uncached.iter();
        Some(Self {
            lookups: sum(|totals| totals.cache_lookups),
            hits: sum(|totals| totals.cache_hits),
            more: is_open.then(|| More {
                saved: sum(|totals| totals.cache_saved),
                objects: view.objects,
                bans: view.bans,
                storages: view.storages.clone(),
                uncached: uncached()
                    .map(|uncached| Uncached {
                        at: uncached.at.as_secs(),
                        request: uncached.request.clone(),
                        status: uncached.status,
                        why: uncached.why.clone(),
                    })
                    .collect(),
            }),
        })
    }
}
