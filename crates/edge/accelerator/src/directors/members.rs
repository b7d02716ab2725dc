//! Directors with a list of members.

use std::sync::{Mutex, MutexGuard, PoisonError};

use vcl::run::Backend;

use super::hash_32;

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
    /// By a key, by weights: the same key goes to the same backend as long as the same ones are healthy.
    Hash,
    /// The same in VCL 3, where a sick backend's keys alone go elsewhere.
    OldHash,
}

impl Policy {
    /// Its name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Fallback { .. } => "fallback",
            Self::Random => "random",
            Self::Hash | Self::OldHash => "hash",
        }
    }
}

/// A director with a list of members.
#[derive(Debug)]
pub struct Members {
    policy: Policy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<(Backend, f64)>,
    next: usize,
}

impl Members {
    /// One without backends.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, state: Mutex::default() }
    }

    /// How it chooses.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Adds a backend; one that is there already is there once more.
    pub fn add(&self, backend: Backend, weight: f64) {
        self.lock().members.push((backend, weight));
    }

    /// Removes a backend, once.
    pub fn remove(&self, backend: Backend) {
        let mut state = self.lock();
        let Some(place) = state.members.iter().position(|(member, _)| *member == backend) else { return };
        state.members.remove(place);
        if place < state.next {
            state.next -= 1;
        } else if state.next >= state.members.len() {
            state.next = 0;
        }
    }

    /// All backends with their weights.
    #[must_use]
    pub fn all(&self) -> Vec<(Backend, f64)> {
        self.lock().members.clone()
    }

    /// The place of the one that a fallback director is at.
    #[must_use]
    pub fn current(&self) -> usize {
        self.lock().next
    }

    /// The backend for the next request: `key` decides where the policy asks for one, `random` (from 0 to 1) where it is chance.
    pub fn choose(&self, key: &[u8], random: f64, is_healthy: impl Fn(Backend) -> bool) -> Option<Backend> {
        let mut state = self.lock();
        let first_from = |members: &[(Backend, f64)], start: usize| {
            let count = members.len();
            (0..count).map(|step| (start + step) % count).find_map(|place| {
                members.get(place).filter(|(backend, _)| is_healthy(*backend)).map(|found| (place, found.0))
            })
        };
        match self.policy {
            Policy::RoundRobin => {
                let (place, backend) = first_from(&state.members, state.next)?;
                state.next = (place + 1) % state.members.len();
                Some(backend)
            }
            Policy::Fallback { sticky } => {
                let start = if sticky { state.next } else { 0 };
                let (place, backend) = first_from(&state.members, start)?;
                state.next = place;
                Some(backend)
            }
            Policy::Random => pick_healthy(&state.members, random, is_healthy),
            Policy::Hash => pick_healthy(&state.members, part_of(key), is_healthy),
            Policy::OldHash => {
                let part = part_of(key);
                pick(&state.members, part)
                    .filter(|backend| is_healthy(*backend))
                    .or_else(|| pick_healthy(&state.members, part, is_healthy))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The member at this part of the sum of weights.
fn pick(members: &[(Backend, f64)], part: f64) -> Option<Backend> {
    let sum: f64 = members.iter().map(|(_, weight)| weight.max(0.0)).sum();
    let mut left = part * sum;
    let found = members.iter().find(|(_, weight)| {
        left -= weight.max(0.0);
        left < 0.0
    });
    found.map(|(backend, _)| *backend)
}

/// The same among those that are healthy.
fn pick_healthy(members: &[(Backend, f64)], part: f64, is_healthy: impl Fn(Backend) -> bool) -> Option<Backend> {
    let healthy: Vec<(Backend, f64)> = members.iter().filter(|(backend, _)| is_healthy(*backend)).copied().collect();
    pick(&healthy, part)
}

/// A number from 0 to 1 that follows from a key.
fn part_of(key: &[u8]) -> f64 {
    f64::from(hash_32(&[key])) / (f64::from(u32::MAX) + 1.0)
}
