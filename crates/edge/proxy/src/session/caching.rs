//! `cache-use` and `cache-store`: HAProxy's own cache, as rules drive it.

use std::sync::Arc;

use accelerator::{
    fields,
    section::{self, Asked, Kept},
};
use cache::{
    index::{Fetch, Found, Query},
    object::{Filler, Kind, Object, Variant},
};
use http::{BodyLength, ChunkedDecoder, HeaderId, Headers, Limits, Method, ResponseHead};
use live::caches::LiveCache;

use super::{object_fetch::wall_clock, transaction::Transaction};

/// What caches have of a transaction.
#[derive(Debug, Default)]
pub struct Caching {
    asked: Option<Asked>,
    /// What answers.
    pub hit: Option<Hit>,
    store: Option<Store>,
}

/// A response that is stored.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The section.
    pub cache: Arc<LiveCache>,
    /// The response.
    pub object: Arc<Object>,
}

/// A response that is to be stored.
#[derive(Debug)]
struct Store {
    cache: Arc<LiveCache>,
    kept: Kept,
    /// The head as it was when the rule ran.
    head: ResponseHead,
}

fn caching(transaction: &mut Transaction) -> &mut Caching {
    transaction.by_rules.caching.get_or_insert_default()
}

/// `cache-use`: what is stored will answer, if no later rule does.
pub fn look_up(transaction: &mut Transaction, name: &str) {
    let Some(cache) = transaction.instance.cache(name).cloned() else { return };
    let asked = Asked::of(&transaction.request);
    let digest = asked.digest.filter(|_| !asked.is_ignored && !asked.refreshes);
    if let Some(digest) = digest {
        count(transaction, |counts| &counts.lookups);
        let now = wall_clock();
        let is_usable = |object: &&Arc<Object>| {
            object.fresh_until() > now
                && object.body().length().is_some()
                && !object.body().is_broken()
                && asked.takes(object)
        };
        let found = cache.cache.all_of(digest).iter().rev().find(is_usable).cloned();
        if let Some(object) = found {
            count(transaction, |counts| &counts.hits);
            object.count_hit();
            caching(transaction).hit = Some(Hit { cache, object });
        }
    }
    caching(transaction).asked = Some(asked);
}

fn count(transaction: &Transaction, counter: impl Fn(&live::counters::CacheTraffic) -> &telemetry::Counter) {
    let frontend = &transaction.client.frontend;
    let side = match &transaction.route.backend {
        Some(backend) if !Arc::ptr_eq(backend, frontend) => &backend.backend,
        _ => &frontend.frontend,
    };
    counter(side.traffic.of(transaction.worker).cache.get_or_init(Box::default)).increment();
}

/// `cache-store`: the response is stored while it passes, if it may be.
pub fn store(transaction: &mut Transaction, name: &str) {
    let Some(cache) = transaction.instance.cache(name).cloned() else { return };
    let method = transaction.request.method_kind();
    let status = transaction.response.status();
    let Some(caching) = &mut transaction.by_rules.caching else { return };
    let Some(asked) = caching.asked.as_ref().filter(|_| caching.hit.is_none()) else { return };
    if method != Method::Get {
        if let Some(digest) = asked.digest.filter(|_| section::invalidates(method, status)) {
            cache.cache.purge(digest);
        }
        return;
    }
    let response = &mut transaction.response;
    let head_bytes = response.headers.text_len() as u64;
    let Some(kept) = section::keep(asked, response, &cache.limits, head_bytes, wall_clock()) else { return };
    // As in HAProxy it is not told to the first client either.
    response.headers.remove_known(HeaderId::Age);
    let mut head = response.clone();
    fields::remove_connection(&mut head.headers);
    caching.store = Some(Store { cache, kept, head });
}

/// What stores the response of a transaction while it passes; `None` if it is not stored.
#[must_use]
pub fn begin(transaction: &mut Transaction, length: BodyLength, limits: &Limits) -> Option<Storing> {
    let caching = transaction.by_rules.caching.as_mut()?;
    let (store, asked) = (caching.store.take()?, caching.asked.as_ref()?);
    let digest = asked.digest?;
    let Store { cache: section, kept, head } = &store;
    let LiveCache { cache, storage, limits: own, .. } = &**section;
    let now = wall_clock();
    if section::is_secondary(&kept.key) {
        let is_other = |object: &&Arc<Object>| {
            object.fresh_until() > now && object.variant().is_some_and(|variant| variant.key != kept.key)
        };
        if cache.all_of(digest).iter().filter(is_other).count() >= own.secondary_max {
            return None;
        }
    }
    let no_fields = Headers::new();
    let query = Query {
        always_misses: true,
        is_impatient: true,
        is_unshared: true,
        ..Query::new(digest.0, transaction.request.target(), &no_fields, now)
    };
    let Found::Miss { mut fetch, .. } = cache.lookup(&query) else { return None };
    fetch.varies_by(Variant { names: Arc::default(), key: kept.key.clone() });
    let left = own.object_bytes_max.saturating_sub(head.headers.text_len() as u64);
    let (object, mut filler) = Object::start(cache, storage, Kind::Ordinary, head.clone(), kept.lifetime).ok()?;
    if let BodyLength::Exact(length) = length {
        filler.expect(length);
    }
    let decoder = (length == BodyLength::Chunked).then(|| ChunkedDecoder::new(limits));
    Some(Storing { under_way: Some((fetch, filler, object)), decoder, left })
}

/// A response that is stored while it passes. What is dropped before its end is not stored.
#[derive(Debug)]
pub struct Storing {
    under_way: Option<(Fetch, Filler, Arc<Object>)>,
    decoder: Option<ChunkedDecoder>,
    /// Bytes that the object may still have.
    left: u64,
}

impl Storing {
    /// Takes note of bytes that go on, as they came.
    pub fn take(&mut self, bytes: &[u8]) {
        let Some((_, filler, _)) = &mut self.under_way else { return };
        let mut decoded = Vec::new();
        let data = match &mut self.decoder {
            Some(decoder) => decoder.decode_into(bytes, &mut decoded).ok().map(|_| &*decoded),
            None => Some(bytes),
        };
        let fits = data.filter(|data| data.len() as u64 <= self.left);
        match fits.map(|data| (data.len() as u64, filler.write(data))) {
            Some((length, Ok(()))) => self.left -= length,
            _ => self.under_way = None,
        }
    }

    /// All of it has passed.
    pub fn finish(&mut self) {
        if let Some((fetch, filler, object)) = self.under_way.take() {
            filler.finish();
            fetch.publish(object);
        }
    }
}
