//! The process, as a shard sees it.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use commands::config::LogLevel;
use keyspace::Millis;
use shard::World;

use crate::{clock, messages};

/// The machine's clocks, and the store's messages.
#[derive(Debug)]
pub struct ProcessWorld {
    begin: Instant,
}

impl ProcessWorld {
    /// From now on.
    pub fn new() -> Rc<Self> {
        Rc::new(Self { begin: Instant::now() })
    }
}

impl World for ProcessWorld {
    fn now(&self) -> Millis {
        clock::now()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn say(&self, level: LogLevel, text: &str) {
        messages::say(level, text);
    }
}
