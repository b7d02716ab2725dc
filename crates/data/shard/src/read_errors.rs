//! What the log is told of records that cannot be read.
//!
//! Whoever asked for one gets the error, as often as it asks; the log gets some lines a minute, and how many there were besides.

use crate::World;
use keyspace::Millis;

/// Lines in a span.
const LINES_MAX: u32 = 10;
/// The span.
const SPAN_MS: Millis = 60_000;

/// How much it was told of late.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadErrors {
    span_began: Millis,
    lines: u32,
    /// Errors that there was no line for.
    untold: u64,
}

impl ReadErrors {
    /// Tells of a record, by what it belongs to, and why it cannot be read.
    pub fn tell(&mut self, world: &dyn World, what: impl FnOnce() -> String, reason: &str) {
        let Some(untold) = self.line(world.now()) else { return };
        let reason = reason.strip_prefix("ERR ").unwrap_or(reason);
        let besides = if untold > 0 { format!(" ({untold} more like this were not told)") } else { String::new() };
        world.warn(&format!("{}: {reason}{besides}", what()));
    }

    /// Counts an error. Returns how many were not told if there is a line for it.
    fn line(&mut self, now: Millis) -> Option<u64> {
        // The clock may have been set back.
        if !(0..SPAN_MS).contains(&(now - self.span_began)) {
            (self.span_began, self.lines) = (now, 0);
        }
        if self.lines >= LINES_MAX {
            self.untold += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_some_lines_a_minute_and_the_number_of_the_others() {
        let mut errors = ReadErrors::default();
        let begin = 1_700_000_000_000;
        let lines: Vec<_> = (0..25).map(|after| errors.line(begin + after)).collect();
        assert_eq!(lines[..10], [Some(0); 10]);
        assert_eq!(lines[10..], [None; 15]);
        assert_eq!(errors.line(begin + SPAN_MS), Some(15));
        assert_eq!(errors.line(begin + SPAN_MS + 1), Some(0));
        assert_eq!(errors.line(begin), Some(0), "the clock was set back");
    }
}
