//! `cache` sections that run.

use std::{sync::Arc, time::Duration};

use ::accelerator::section::Limits;
use cache::{index::Cache, storage::Stevedore};
use haproxycfg::model::CacheSection;

/// Objects that are removed in one go, between which the control thread does something else.
const EXPIRED_AT_ONCE_MAX: usize = 500;
/// How often it is looked for such objects. Whoever asks for one of them does not find it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// A `cache` section.
#[derive(Debug)]
pub struct LiveCache {
    /// What the configuration says of it.
    pub spec: CacheSection,
    /// Its bounds, for the policy.
    pub limits: Limits,
    /// What it stores.
    pub cache: Arc<Cache>,
    /// Where.
    pub storage: Arc<Stevedore>,
}

impl LiveCache {
    /// One that a configuration describes; the one `before` stays if it is the same.
    #[must_use]
    pub fn new(spec: &CacheSection, before: &[Arc<Self>]) -> Arc<Self> {
        if let Some(before) = before.iter().find(|before| before.spec == *spec) {
            return Arc::clone(before);
        }
        let limits = Limits {
            object_bytes_max: spec.object_bytes_max,
            age_max: spec.age_max,
            varies: spec.varies,
            secondary_max: spec.secondary_max,
        };
        let storage = Arc::new(Stevedore::malloc(&spec.name, spec.bytes));
        Arc::new(Self { spec: spec.clone(), limits, cache: Cache::new(), storage })
    }

    /// Removes what is over, and says when to come again.
    pub fn tend(&self) -> Duration {
        let now = basics::clock::seconds();
        let (count, _) = self.cache.expire(now, EXPIRED_AT_ONCE_MAX);
        if count == EXPIRED_AT_ONCE_MAX { Duration::ZERO } else { PAUSE }
    }
}
