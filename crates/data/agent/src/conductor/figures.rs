//! What servers did in the last minute, second by second.

use std::collections::{BTreeMap, VecDeque};

use cluster::Address;
use serde_json::{Value, json};

use crate::figures::Figures as Sample;

/// Samples that are kept of a server: a minute, and the one before its first second.
const KEPT_MAX: usize = 61;

/// The samples of a server, with when they were taken.
#[derive(Clone, Debug, Default)]
struct Track {
    samples: VecDeque<(u64, Sample)>,
}

/// Those of all servers.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<Address, Track>);

impl Figures {
    /// A server has answered.
    pub fn take(&mut self, server: &Address, now: u64, sample: Sample) {
        let track = self.0.entry(server.clone()).or_default();
        // One that was started anew counts from 0 again.
        if track.samples.back().is_some_and(|(_, last)| last.commands > sample.commands || last.input > sample.input) {
            track.samples.clear();
        }
        track.samples.push_back((now, sample));
        if track.samples.len() > KEPT_MAX {
            track.samples.pop_front();
        }
    }

    /// Forgets servers that have left.
    pub fn retain(&mut self, is_there: impl Fn(&Address) -> bool) {
        self.0.retain(|address, _| is_there(address));
    }

    /// What all servers said last.
    pub fn all(&self) -> BTreeMap<String, Sample> {
        let last = |(server, track): (&Address, &Track)| Some((server.to_string(), track.samples.back()?.1));
        self.0.iter().filter_map(last).collect()
    }

    fn last(&self, server: &Address) -> Option<&Sample> {
        self.0.get(server)?.samples.back().map(|(_, sample)| sample)
    }

    /// The memory of a server, in bytes; 0 if it is not known.
    pub fn memory(&self, server: &Address) -> u64 {
        self.last(server).map_or(0, |sample| sample.memory)
    }

    /// Keys and bytes of a server; 0 if they are not known.
    pub fn size(&self, server: &Address) -> (u64, u64) {
        self.last(server).map_or((0, 0), |sample| (sample.keys, sample.memory))
    }

    /// Commands of a server in the last second or so.
    pub fn rate(&self, server: &Address) -> u64 {
        let rates = self.0.get(server).map(Track::rates).unwrap_or_default();
        rates.last().map_or(0, |(commands, _)| *commands)
    }

    /// What a server does and takes, for the page: how it is now, and commands by second.
    pub fn shown(&self, server: &Address) -> Value {
        let (Some(track), Some(last)) = (self.0.get(server), self.last(server)) else { return Value::Null };
        let rates = track.rates();
        let (per_second, took): (Vec<u64>, Vec<Option<u64>>) = rates.iter().copied().unzip();
        json!({
            "commands": per_second,
            "command_us": took.last().copied().flatten(),
            "round_trip_us": last.round_trip_us,
            "errors": last.errors,
            "input": track.per_second(|sample| sample.input),
            "output": track.per_second(|sample| sample.output),
            "clients": last.clients,
            "memory": last.memory,
            "memory_max": last.memory_max,
            "keys": last.keys,
        })
    }
}

impl Track {
    /// Commands by second between two samples, and how many microseconds one took.
    fn rates(&self) -> Vec<(u64, Option<u64>)> {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        pairs
            .map(|((began, before), (ended, after))| {
                let commands = after.commands.saturating_sub(before.commands);
                let took = after.command_us.saturating_sub(before.command_us);
                (commands * 1_000 / (ended - began).max(1), took.checked_div(commands))
            })
            .collect()
    }

    /// What a counter grew by in the last second.
    fn per_second(&self, of: fn(&Sample) -> u64) -> u64 {
        let mut last = self.samples.iter().rev();
        let (Some((ended, after)), Some((began, before))) = (last.next(), last.next()) else { return 0 };
        of(after).saturating_sub(of(before)) * 1_000 / (ended - began).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_and_a_restart_begins_anew() {
        let server = Address::new("127.0.0.1", 1);
        let mut figures = Figures::default();
        for (at, commands, command_us) in [(0, 10, 100), (1_000, 30, 300), (3_000, 50, 300), (4_000, 50, 300)] {
            figures.take(&server, at, Sample { commands, command_us, memory: at, ..Sample::default() });
        }
        assert_eq!(figures.shown(&server)["commands"], json!([20, 10, 0]));
        assert_eq!((figures.rate(&server), figures.memory(&server)), (0, 4_000));
        assert_eq!(figures.shown(&server)["command_us"], Value::Null);
        figures.take(&server, 5_000, Sample { commands: 1, ..Sample::default() });
        assert_eq!(figures.shown(&server)["commands"], json!([]));
        for at in 0..100 {
            figures.take(&server, 6_000 + at * 1_000, Sample { commands: 2 + at, ..Sample::default() });
        }
        assert_eq!(figures.shown(&server)["commands"].as_array().unwrap().len(), 60);
        figures.retain(|_| false);
        assert_eq!(figures.shown(&server), Value::Null);
    }
}
