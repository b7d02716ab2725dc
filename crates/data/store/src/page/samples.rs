//! What was counted in each second of the last hour.

use std::collections::VecDeque;

use commands::Server;
use keyspace::Millis;
use serde_json::{Value, json};

/// From one sample to the next.
pub const STEP_MS: Millis = 1000;
/// So many are kept: an hour, and the one before its first second.
const KEPT_MAX: usize = 3601;
/// How many steps a chart has.
pub const SLOTS: usize = 60;

/// Counters as they were at some second. Those of events only grow, but for `CONFIG RESETSTAT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Seconds since 1970.
    pub at: i64,
    /// Commands, and those that failed.
    pub commands: u64,
    /// Error replies.
    pub errors: u64,
    /// Keys that were asked for: found, not there, read from the tables.
    pub hits: u64,
    /// Not there.
    pub misses: u64,
    /// Read from the tables.
    pub loads: u64,
    /// Bytes from clients and to them.
    pub input: u64,
    /// To them.
    pub output: u64,
    /// Keys that expired, and that made way.
    pub expired: u64,
    /// That made way.
    pub evicted: u64,
    /// Bytes of the log.
    pub log: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// Memory that is allocated, in bytes.
    pub memory: u64,
    /// How many bytes of the log the tables are behind.
    pub behind: u64,
}

impl Sample {
    /// That of this moment.
    pub fn of(server: &Server, now: Millis, used: u64) -> Self {
        let (statistics, figures, space) = (server.statistics(), server.persistence_figures(), &server.keyspace);
        Self {
            at: now.div_euclid(STEP_MS),
            commands: statistics.processed,
            errors: statistics.errors,
            hits: space.hits,
            misses: space.misses,
            loads: space.loads,
            input: statistics.input_bytes,
            output: statistics.output_bytes,
            expired: space.expired,
            evicted: space.evicted,
            log: figures.log.1,
            clients: server.sessions_len() as u64,
            memory: used,
            behind: figures.log.1.saturating_sub(figures.applied),
        }
    }
}

/// A column of charts: events are added up over a step, of a state the greatest value counts.
struct Column {
    name: &'static str,
    is_state: bool,
    of: fn(&Sample) -> u64,
}

const COLUMNS: &[Column] = &[
    Column { name: "commands", is_state: false, of: |sample| sample.commands },
    Column { name: "errors", is_state: false, of: |sample| sample.errors },
    Column { name: "hits", is_state: false, of: |sample| sample.hits },
    Column { name: "misses", is_state: false, of: |sample| sample.misses },
    Column { name: "loads", is_state: false, of: |sample| sample.loads },
    Column { name: "input", is_state: false, of: |sample| sample.input },
    Column { name: "output", is_state: false, of: |sample| sample.output },
    Column { name: "expired", is_state: false, of: |sample| sample.expired },
    Column { name: "evicted", is_state: false, of: |sample| sample.evicted },
    Column { name: "log", is_state: false, of: |sample| sample.log },
    Column { name: "clients", is_state: true, of: |sample| sample.clients },
    Column { name: "memory", is_state: true, of: |sample| sample.memory },
    Column { name: "behind", is_state: true, of: |sample| sample.behind },
];

/// The last hour, second by second. A second in which the loop did not come has no sample.
#[derive(Debug, Default)]
pub struct Samples(VecDeque<Sample>);

impl Samples {
    /// Adds the next one.
    pub fn push(&mut self, sample: Sample) {
        // A clock that was set back begins anew.
        if self.0.back().is_some_and(|last| last.at >= sample.at) {
            if self.0.back().is_some_and(|last| last.at == sample.at) {
                return;
            }
            self.0.clear();
        }
        self.0.push_back(sample);
        if self.0.len() > KEPT_MAX {
            self.0.pop_front();
        }
    }

    /// The steps of a chart that ends at a second, as columns. A step of which nothing is known is missing at the front only.
    pub fn points(&self, end: i64, step: i64) -> Value {
        let first = end - step * SLOTS as i64;
        let known_from = self.0.front().map_or(end, |sample| sample.at);
        // What was before the first sample is not known: a step counts from the sample that it begins with.
        let skipped = usize::try_from(((known_from - first).max(0) + step - 1) / step).unwrap_or(SLOTS).min(SLOTS);
        let mut columns = serde_json::Map::new();
        columns.insert("n".into(), json!(SLOTS - skipped));
        for column in COLUMNS {
            let mut values = vec![0_u64; SLOTS];
            for (before, sample) in self.0.iter().zip(self.0.iter().skip(1)) {
                let Ok(place) = usize::try_from((sample.at - first - 1).div_euclid(step)) else { continue };
                let Some(value) = values.get_mut(place) else { continue };
                let (now, then) = ((column.of)(sample), (column.of)(before));
                // Counters that were reset have counted what they say.
                let added = now.checked_sub(then).unwrap_or(now);
                *value = if column.is_state { (*value).max(now) } else { *value + added };
            }
            columns.insert(column.name.into(), json!(values.get(skipped..)));
        }
        Value::Object(columns)
    }

    /// The second of the last sample.
    pub fn end(&self) -> i64 {
        self.0.back().map_or(0, |sample| sample.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64, commands: u64, memory: u64) -> Sample {
        Sample { at, commands, memory, ..Sample::default() }
    }

    #[test]
    fn events_are_added_up_and_of_states_the_greatest_counts() {
        let mut samples = Samples::default();
        for (at, commands, memory) in [(100, 10, 5), (101, 13, 9), (102, 13, 7), (104, 20, 6), (105, 2, 8)] {
            samples.push(sample(at, commands, memory));
        }
        let points = samples.points(105, 1);
        assert_eq!(points["n"], 5);
        assert_eq!(points["commands"], json!([3, 0, 0, 7, 2]), "counters were reset in the end");
        assert_eq!(points["memory"], json!([9, 7, 0, 6, 8]));
        // 46 to 105 by tens: the step that begins with the first sample is known, the one before is not.
        let points = samples.points(110, 10);
        assert_eq!(points["n"], 1);
        assert_eq!((&points["commands"], &points["memory"]), (&json!([12]), &json!([9])));
    }

    #[test]
    fn an_hour_is_kept_and_a_clock_set_back_begins_anew() {
        let mut samples = Samples::default();
        for at in 0..5000 {
            samples.push(sample(at, at as u64, 1));
        }
        assert_eq!((samples.0.len(), samples.end()), (KEPT_MAX, 4999));
        let points = samples.points(4999, 60);
        assert_eq!(points["n"], 60);
        assert!(points["commands"].as_array().unwrap().iter().all(|value| *value == 60));
        samples.push(sample(3000, 1, 1));
        assert_eq!((samples.0.len(), samples.end()), (1, 3000));
    }
}
