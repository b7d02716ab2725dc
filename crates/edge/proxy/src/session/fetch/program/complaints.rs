//! What a program complains about while it answers a request, on its way to a log.

use std::{sync::Arc, time::SystemTime};

use fastcgi::ErrorLines;
use logs::{LogLevel, LogLine, LogTargets, WorkerLog};

/// The complaints about one request after the other.
#[derive(Debug)]
pub struct Complaints {
    lines: ErrorLines,
    log: WorkerLog,
    targets: Arc<LogTargets>,
}

impl Complaints {
    /// Those of a program whose log this is.
    pub fn new(log: &WorkerLog, targets: &Arc<LogTargets>) -> Self {
        Self { lines: ErrorLines::default(), log: log.clone(), targets: Arc::clone(targets) }
    }

    /// Another request begins.
    pub fn begin(&mut self, targets: &Arc<LogTargets>) {
        self.finish();
        self.targets = Arc::clone(targets);
    }

    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.targets.is_empty() {
            self.lines.push(bytes, say(&self.log, &self.targets));
        }
    }

    /// The request is over.
    pub fn finish(&mut self) {
        self.lines.finish(say(&self.log, &self.targets));
    }
}

/// Sends lines to a log.
fn say(log: &WorkerLog, targets: &LogTargets) -> impl FnMut(&str) {
    move |line| log.send(targets, &LogLine::new(LogLevel::Error, line.as_bytes()), SystemTime::now())
}

impl Drop for Complaints {
    fn drop(&mut self) {
        self.finish();
    }
}
