//! The shard director: a ring on which each backend has many points. A key belongs to the backend of the next point, so that backends
//! that come and go move no more keys than they must.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vcl::{program::ObjectIndex, run::Backend};

use super::{Choice, Healthy, Neighbours, hash_32};

/// Points of a backend of weight 1 where nothing else is said (`.reconfigure(replicas)`).
pub(crate) const REPLICAS: i64 = 67;
/// Points of a ring at most: each takes 8 bytes.
const POINTS_MAX: usize = 1 << 20;

/// A backend of the ring.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardBackend {
    pub backend: Backend,
    /// What its points are made of: its name if nothing else was said.
    pub name: Vec<u8>,
    pub ident: Option<Vec<u8>>,
    /// Seconds in which it gets its requests little by little; `None` for the director's.
    pub rampup: Option<f64>,
    pub weight: f64,
}

impl ShardBackend {
    fn label(&self) -> &[u8] {
        self.ident.as_deref().unwrap_or(&self.name)
    }

    fn is_same(&self, other: &Self) -> bool {
        if self.ident.is_none() && other.ident.is_none() {
            return self.backend == other.backend;
        }
        self.label() == other.label()
    }
}

/// A change that waits for the ring to be made anew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// All backends go.
    Clear,
    /// One comes.
    Add(ShardBackend),
    /// All of a backend go.
    RemoveBackend(Backend),
    /// The one of this name goes.
    RemoveIdent(Vec<u8>),
}

/// A shard director.
#[derive(Debug, Default)]
pub struct Shard(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    backends: Vec<ShardBackend>,
    /// Places on the ring with the place of their backend, in order.
    ring: Vec<(u32, u32)>,
    warmup: f64,
    rampup: f64,
    associated: Option<ObjectIndex>,
}

/// A way along the ring.
struct Walk<'w, N> {
    state: &'w State,
    neighbours: &'w N,
    at: usize,
    seen: Vec<bool>,
    seen_count: usize,
    /// Places of the backend before the last one that counted, and of that.
    previous: Option<usize>,
    last: Option<usize>,
}

impl<N: Neighbours> Walk<'_, N> {
    /// Goes on to the next backend after `skip` others that count; those count that are healthy, or all.
    fn next(&mut self, skip: i64, only_healthy: bool) -> Option<usize> {
        let mut skip = skip;
        while self.seen_count < self.state.backends.len() {
            let (_, host) = *self.state.ring.get(self.at)?;
            let place = host as usize;
            self.at = (self.at + 1) % self.state.ring.len();
            let slot = self.seen.get_mut(place)?;
            if std::mem::replace(slot, true) {
                continue;
            }
            self.seen_count += 1;
            let backend = self.state.backends.get(place)?.backend;
            let is_healthy = self.neighbours.is_healthy(backend);
            if !is_healthy && only_healthy {
                continue;
            }
            if skip == 0 {
                self.previous = self.last.or(self.previous);
                self.last = Some(place);
                return Some(place);
            }
            skip -= 1;
            if is_healthy {
                self.previous = Some(place);
            }
        }
        None
    }
}

impl Shard {
    /// `.set_warmup(probability)`
    pub fn set_warmup(&self, probability: f64) {
        self.write().warmup = probability;
    }

    /// `.set_rampup(duration)`
    pub fn set_rampup(&self, seconds: f64) {
        self.write().rampup = seconds;
    }

    /// `.associate(param)`
    pub fn associate(&self, set: Option<ObjectIndex>) {
        self.write().associated = set;
    }

    pub(crate) fn associated(&self) -> Option<ObjectIndex> {
        self.read().associated
    }

    /// All backends.
    #[must_use]
    pub fn members(&self) -> Vec<Backend> {
        self.read().backends.iter().map(|member| member.backend).collect()
    }

    /// Backends with what they are called on the ring, and seconds of their rampup.
    #[must_use]
    pub fn described(&self) -> Vec<(Backend, String, f64)> {
        let state = self.read();
        let describe = |member: &ShardBackend| {
            let label = String::from_utf8_lossy(member.label()).into_owned();
            (member.backend, label, member.rampup.unwrap_or(state.rampup))
        };
        state.backends.iter().map(describe).collect()
    }

    /// The part of requests that go to the next backend, and seconds of a rampup where a backend has none of its own.
    #[must_use]
    pub fn ramp(&self) -> (f64, f64) {
        let state = self.read();
        (state.warmup, state.rampup)
    }

    /// Makes changes and the ring anew. Gives what is to be said about it, and whether there are backends.
    pub(crate) fn reconfigure(&self, changes: &[Change], replicas: i64) -> (Vec<String>, bool) {
        let mut notes = Vec::new();
        if changes.is_empty() {
            return (notes, true);
        }
        let mut state = self.write();
        let from = changes.iter().rposition(|change| *change == Change::Clear);
        if from.is_some() {
            state.backends.clear();
        }
        for change in changes.iter().skip(from.map_or(0, |place| place + 1)) {
            match change {
                Change::Clear => {}
                Change::Add(backend) => match state.backends.iter().find(|known| known.is_same(backend)) {
                    Some(known) => {
                        let slash = if known.ident.is_some() { "/" } else { "" };
                        notes.push(format!(
                            "backend {}{slash}{} already exists - skipping",
                            String::from_utf8_lossy(&known.name),
                            String::from_utf8_lossy(known.ident.as_deref().unwrap_or_default())
                        ));
                    }
                    None => state.backends.push(backend.clone()),
                },
                Change::RemoveBackend(backend) => state.backends.retain(|known| known.backend != *backend),
                Change::RemoveIdent(ident) => state.backends.retain(|known| known.label() != ident.as_slice()),
            }
        }
        state.ring = ring_of(&state.backends, replicas);
        (notes, !state.backends.is_empty())
    }

    /// The backend for a request.
    #[must_use]
    pub fn choose(&self, choice: &Choice<'_>, neighbours: &impl Neighbours) -> Option<Backend> {
        let state = self.read();
        let parameters = choice.shard;
        let count = state.backends.len();
        if count == 0 || state.ring.is_empty() {
            return None;
        }
        let start = state.ring.partition_point(|(point, _)| *point < parameters.key).min(state.ring.len() - 1);
        let seen = vec![false; count];
        let mut walk = Walk { state: &state, neighbours, at: start, seen, seen_count: 0, previous: None, last: None };
        let backend_at = |place: Option<usize>| Some(state.backends.get(place?)?.backend);
        let alternative = parameters.alternative.clamp(0, i64::try_from(count).unwrap_or(i64::MAX) - 1);
        if alternative > 0 && walk.next(alternative - 1, parameters.healthy == Healthy::All).is_none() {
            return backend_at(walk.previous);
        }
        let Some(chosen) = walk.next(0, parameters.healthy != Healthy::Ignore) else {
            return backend_at(walk.previous);
        };
        let chosen = state.backends.get(chosen)?;
        let warmup = if parameters.warmup < 0.0 { state.warmup } else { parameters.warmup };
        let is_plain = alternative > 0 || parameters.healthy == Healthy::Ignore || !parameters.rampup && warmup == 0.0;
        if is_plain {
            return Some(chosen.backend);
        }
        let Some(second) = walk.next(0, true) else { return Some(chosen.backend) };
        let second = state.backends.get(second)?;
        // Seconds that are left of a backend's rampup, and all of them.
        let ramp_of = |member: &ShardBackend| {
            let ramp = member.rampup.unwrap_or(state.rampup);
            let left = if ramp > 0.0 { ramp - (choice.now - neighbours.changed(member.backend)) } else { 0.0 };
            (left, ramp)
        };
        let (left, ramp) = ramp_of(chosen);
        let stays = if left > 0.0 {
            !parameters.rampup || ramp_of(second).0 > 0.0 || choice.random * ramp < ramp - left
        } else {
            warmup == 0.0 || choice.random > warmup
        };
        Some(if stays { chosen.backend } else { second.backend })
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The points of all backends, in order.
fn ring_of(backends: &[ShardBackend], replicas: i64) -> Vec<(u32, u32)> {
    let most = POINTS_MAX / backends.len().max(1);
    let mut ring = Vec::new();
    for (backend, place) in backends.iter().zip(0_u32..) {
        let wanted = (replicas as f64 * backend.weight).clamp(0.0, most as f64) as usize;
        ring.extend((0..wanted).map(|number| (hash_32(&[backend.label(), number.to_string().as_bytes()]), place)));
    }
    ring.sort_unstable();
    ring
}
