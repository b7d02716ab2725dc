//! Questions of the page's threads to the loop, and what the loop has written down for them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use commands::{
    Server,
    server::{Refusal, Visitor},
};
use mio::Waker;

use super::samples::{Sample, Samples};

/// How long the loop may take to answer: it may be busy with a script, or read its log still.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many questions wait at most; a thread has one.
const WAITING_MAX: usize = 64;

/// The answers to the commands that somebody asks.
pub type Answer = Result<Vec<Vec<u8>>, Refusal>;

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The visitor may not know.
    Refused(Refusal),
    /// The loop does not answer.
    Busy,
}

/// What is asked: who asks, and commands that only look.
struct Question {
    visitor: Visitor,
    commands: &'static [&'static [&'static [u8]]],
    answer: mpsc::SyncSender<Answer>,
}

/// What threads and loop share.
pub struct Questions {
    waker: Arc<Waker>,
    waiting: Mutex<Vec<Question>>,
    /// How many wait: the loop looks at it each turn.
    count: AtomicUsize,
    samples: Mutex<Samples>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Questions {
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { waker, waiting: Mutex::default(), count: AtomicUsize::new(0), samples: Mutex::default() }
    }

    /// Asks the loop, and waits for the answer.
    pub fn ask(
        &self,
        visitor: Visitor,
        commands: &'static [&'static [&'static [u8]]],
    ) -> Result<Vec<Vec<u8>>, NoAnswer> {
        let (answer, answers) = mpsc::sync_channel(1);
        {
            let mut waiting = held(&self.waiting);
            if waiting.len() >= WAITING_MAX {
                return Err(NoAnswer::Busy);
            }
            waiting.push(Question { visitor, commands, answer });
            self.count.store(waiting.len(), Ordering::Release);
        }
        // A loop that cannot be woken comes by itself, ten times a second.
        let _ = self.waker.wake();
        match answers.recv_timeout(PATIENCE) {
            Ok(answer) => answer.map_err(NoAnswer::Refused),
            Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// Whether the loop is asked something.
    pub fn is_asked(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Answers all who wait.
    pub fn answer(&self, server: &mut Server) {
        if !self.is_asked() {
            return;
        }
        let waiting = {
            let mut waiting = held(&self.waiting);
            self.count.store(0, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        for question in waiting {
            // Who has waited for too long is gone.
            let _ = question.answer.try_send(server.visit(&question.visitor, question.commands));
        }
    }

    /// Keeps what the loop counted.
    pub fn note(&self, sample: Sample) {
        held(&self.samples).push(sample);
    }

    /// Does something with what was counted.
    pub fn with_samples<T>(&self, act: impl FnOnce(&Samples) -> T) -> T {
        act(&held(&self.samples))
    }
}
