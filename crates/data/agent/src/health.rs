//! Whether the coordinator answers, and whether it is the one that the agent began by: a thread asks it again and again, so that people are
//! told within two seconds.
//!
//! etcd that was made anew, or restored from a backup, answers as the one before it did. It is known by what it calls itself, and by the
//! changes behind the record ([`cluster::history`]). An agent does not go on by it: it votes as before. If the new one knows all that the
//! host's folder knows (the cluster was rescued meanwhile, say), the agent begins anew.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use cluster::{
    history::{History, Relation},
    record::Standing,
};
use coord::{Coordinator, Revision, keys::Keys};
use serde_json::{Value, json};

use crate::records::other_coordinator;

/// How often it is asked.
const EACH: Duration = Duration::from_millis(400);
/// One that has been silent for so long does not answer.
const PATIENCE: Duration = Duration::from_millis(1_400);

#[derive(Debug)]
struct Inner {
    answered_at: Instant,
    problem: Option<String>,
    /// It is another one than before.
    other: Option<String>,
}

/// How the coordinator is.
#[derive(Debug)]
pub struct Health {
    place: String,
    inner: Mutex<Inner>,
}

/// What is known of the coordinator.
#[derive(Debug, Default)]
struct Seen {
    identity: u64,
    past: Option<(History, Revision)>,
}

impl Seen {
    /// Takes what it says now. Says why it is another one than before, if it is.
    fn take(&mut self, identity: u64, past: Option<(History, Revision)>) -> Option<Standing> {
        let is_renamed = self.identity != 0 && identity != 0 && self.identity != identity;
        let found = match (&self.past, &past) {
            (Some(_), None) => Some(Standing::None),
            (Some((known, version)), Some((told, at))) => match known.relation_of(told) {
                Relation::Forked { after } => Some(Standing::Forked { after }),
                Relation::Behind => Some(Standing::Older),
                _ if is_renamed || at < version => Some(Standing::Continues),
                _ => None,
            },
            (None, _) if is_renamed => Some(if past.is_none() { Standing::None } else { Standing::Continues }),
            (None, _) => None,
        };
        if found.is_none() {
            *self = Self { identity, past };
        }
        found
    }
}

impl Health {
    /// That of one that has just answered.
    #[must_use]
    pub fn new(place: String) -> Arc<Self> {
        Arc::new(Self { place, inner: Mutex::new(Inner { answered_at: Instant::now(), problem: None, other: None }) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to ask it. `begin_anew` is called again and again while another coordinator answers.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn watch(
        self: &Arc<Self>,
        coordinator: Arc<dyn Coordinator>,
        keys: Keys,
        begin_anew: impl Fn() + Send + 'static,
    ) -> io::Result<()> {
        let health = Arc::clone(self);
        let ask = move || {
            let mut seen = Seen::default();
            loop {
                let read = coordinator.read(&keys.past());
                let mut inner = health.inner();
                match read {
                    Ok(found) => {
                        let past = found.and_then(|found| {
                            Some((serde_json::from_slice::<History>(&found.value).ok()?, found.version))
                        });
                        inner.answered_at = Instant::now();
                        inner.problem = None;
                        inner.other = seen.take(coordinator.identity(), past).map(other_coordinator);
                    }
                    Err(error) => inner.problem = Some(error.to_string()),
                }
                let is_other = inner.other.is_some();
                drop(inner);
                if is_other {
                    begin_anew();
                }
                thread::sleep(EACH);
            }
        };
        thread::Builder::new().name("health".into()).spawn(ask).map(drop)
    }

    /// How it is, for people.
    #[must_use]
    pub fn shown(&self) -> Value {
        let inner = self.inner();
        let silent = inner.answered_at.elapsed();
        let (state, problem) = match &inner.other {
            _ if silent >= PATIENCE => {
                ("down", Some(inner.problem.clone().unwrap_or_else(|| "it does not answer".to_owned())))
            }
            Some(other) => ("other", Some(other.clone())),
            None => ("up", None),
        };
        json!({ "place": self.place, "state": state, "silent_ms": silent.as_millis() as u64, "problem": problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_coordinator_at_the_same_place_is_noticed() {
        let history = |changes: u64, mark: &str| {
            (0..changes).fold(History::default(), |history, number| history.next(&format!("{mark}{number}"), true))
        };
        let at = |changes, revision| Some((history(changes, "a"), revision));
        for (identity, past, expected) in [
            (7, at(5, 40), None),
            (7, at(6, 41), None),
            // Emptied; restored; another cluster; rescued.
            (7, None, Some(Standing::None)),
            (7, at(4, 90), Some(Standing::Older)),
            (7, Some((history(9, "b"), 90)), Some(Standing::Forked { after: 0 })),
            (7, at(7, 9), Some(Standing::Continues)),
            (8, at(7, 90), Some(Standing::Continues)),
        ] {
            let mut seen = Seen::default();
            assert_eq!(seen.take(7, at(5, 40)), None);
            assert_eq!(seen.take(identity, past.clone()), expected, "{identity} {past:?}");
            if expected.is_some() {
                // It stays another one.
                assert_eq!(seen.take(identity, past), expected);
            }
        }
        // Records of an earlier version have no histories.
        let mut seen = Seen::default();
        assert_eq!((seen.take(7, None), seen.take(7, None), seen.take(7, at(1, 4))), (None, None, None));
    }
}
