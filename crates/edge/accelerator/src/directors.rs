//! What chooses a backend: directors of the module `directors`, and those of VCL 3.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use vcl::run::Backend;

/// How a director chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// One after the other.
    RoundRobin,
    /// The first healthy one; a sticky one stays where it is as long as that is healthy.
    Fallback {
        /// Whether it stays.
        sticky: bool,
    },
    /// At random, by weights.
    Random,
    /// By a key, by weights: the same key goes to the same backend.
    Hash,
}

/// A director.
#[derive(Debug)]
pub struct Director {
    policy: Policy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<(Backend, f64)>,
    next: usize,
}

impl Director {
    /// One without backends.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, state: Mutex::default() }
    }

    /// Adds a backend.
    pub fn add(&self, backend: Backend, weight: f64) {
        self.lock().members.push((backend, weight));
    }

    /// Removes a backend.
    pub fn remove(&self, backend: Backend) {
        let mut state = self.lock();
        state.members.retain(|(member, _)| *member != backend);
        state.next = 0;
    }

    /// All backends.
    #[must_use]
    pub fn members(&self) -> Vec<Backend> {
        self.lock().members.iter().map(|(backend, _)| *backend).collect()
    }

    /// The backend for the next request: `key` decides where the policy asks for one, `random` (from 0 to 1) where it is chance.
    pub fn choose(&self, key: &[u8], random: f64, is_healthy: impl Fn(Backend) -> bool) -> Option<Backend> {
        let mut state = self.lock();
        match self.policy {
            Policy::RoundRobin => {
                let count = state.members.len();
                let place = (0..count)
                    .map(|step| (state.next + step) % count)
                    .find(|place| state.members.get(*place).is_some_and(|(backend, _)| is_healthy(*backend)))?;
                state.next = place + 1;
                state.members.get(place).map(|(backend, _)| *backend)
            }
            Policy::Fallback { sticky } => {
                let start = if sticky { state.next } else { 0 };
                let count = state.members.len();
                let place = (0..count)
                    .map(|step| (start + step) % count)
                    .find(|place| state.members.get(*place).is_some_and(|(backend, _)| is_healthy(*backend)))?;
                state.next = place;
                state.members.get(place).map(|(backend, _)| *backend)
            }
            Policy::Random => pick(&state.members, random, is_healthy),
            Policy::Hash => pick(&state.members, fraction_of(key), is_healthy),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The member at this part of the sum of weights. One that is sick leaves its part to the others.
fn pick(members: &[(Backend, f64)], part: f64, is_healthy: impl Fn(Backend) -> bool) -> Option<Backend> {
    let at = |members: &[(Backend, f64)]| {
        let sum: f64 = members.iter().map(|(_, weight)| weight.max(0.0)).sum();
        let mut left = part * sum;
        members
            .iter()
            .find(|(_, weight)| {
                left -= weight.max(0.0);
                left < 0.0
            })
            .map(|(backend, _)| *backend)
    };
    let first = at(members)?;
    if is_healthy(first) {
        return Some(first);
    }
    let healthy: Vec<(Backend, f64)> = members.iter().filter(|(backend, _)| is_healthy(*backend)).copied().collect();
    at(&healthy)
}

/// A number from 0 to 1 that follows from a key.
fn fraction_of(key: &[u8]) -> f64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}
