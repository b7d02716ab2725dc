//! What a shard needs of the process around it: clocks, and a place for messages.

use std::time::Duration;

use commands::config::LogLevel;
use keyspace::Millis;

/// The process around a shard. A simulation has one of its own.
pub trait World {
    /// Milliseconds since 1970. Somebody may set this clock.
    fn now(&self) -> Millis;

    /// How much time has gone by since some moment, by a clock that nobody sets.
    fn elapsed(&self) -> Duration;

    /// Says something to whoever runs the process.
    fn say(&self, level: LogLevel, text: &str);

    /// Says what is good to know.
    fn notice(&self, text: &str) {
        self.say(LogLevel::Notice, text);
    }

    /// Says what somebody should do something about.
    fn warn(&self, text: &str) {
        self.say(LogLevel::Warning, text);
    }
}
