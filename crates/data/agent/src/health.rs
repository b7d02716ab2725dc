//! Whether the coordinator answers: a thread asks it again and again, so that people are told within two seconds.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use coord::Coordinator;
use serde_json::{Value, json};

/// How often it is asked.
const EACH: Duration = Duration::from_millis(400);
/// One that has been silent for so long does not answer.
const PATIENCE: Duration = Duration::from_millis(1_400);

#[derive(Debug)]
struct Inner {
    answered_at: Instant,
    problem: Option<String>,
}

/// How the coordinator is.
#[derive(Debug)]
pub struct Health {
    place: String,
    inner: Mutex<Inner>,
}

impl Health {
    /// That of one that has just answered.
    #[must_use]
    pub fn new(place: String) -> Arc<Self> {
        Arc::new(Self { place, inner: Mutex::new(Inner { answered_at: Instant::now(), problem: None }) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to ask it for a value.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn watch(self: &Arc<Self>, coordinator: Arc<dyn Coordinator>, key: String) -> io::Result<()> {
        let health = Arc::clone(self);
        let ask = move || {
            loop {
                let problem = coordinator.read(&key).err().map(|error| error.to_string());
                let mut inner = health.inner();
                if problem.is_none() {
                    inner.answered_at = Instant::now();
                }
                inner.problem = problem;
                drop(inner);
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
        let is_down = silent >= PATIENCE;
        let problem = is_down.then(|| inner.problem.clone().unwrap_or_else(|| "it does not answer".to_owned()));
        json!({
            "place": self.place,
            "state": if is_down { "down" } else { "up" },
            "silent_ms": silent.as_millis() as u64,
            "problem": problem,
        })
    }
}
