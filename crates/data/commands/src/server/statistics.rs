//! What is counted.

use std::collections::BTreeMap;

use super::{FoundCommand, histogram::Histogram};

/// Kinds of errors that are counted apart; scripts may raise any.
const ERROR_KINDS_MAX: usize = 128;
/// The rest.
const OTHER_ERRORS: &str = "OTHER";

/// What is counted of one command.
#[derive(Debug, Clone, Default)]
pub struct CommandStatistics {
    /// How often it ran.
    pub calls: u64,
    /// How long, in microseconds.
    pub time_us: u64,
    /// How often it was refused before it ran.
    pub rejected: u64,
    /// How often it failed.
    pub failed: u64,
    /// How long it took how often; nothing before it ran, or if nobody wants to know.
    pub times: Option<Box<Histogram>>,
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// By the commands' numbers.
    pub commands: Vec<CommandStatistics>,
    /// Commands that ran.
    pub processed: u64,
    /// Connections that came.
    pub connections: u64,
    /// Connections that were refused: there were too many.
    pub refused_connections: u64,
    /// Error replies.
    pub errors: u64,
    /// Error replies by their first word.
    pub error_kinds: BTreeMap<Box<str>, u64>,
    /// Clients that wait for keys.
    pub blocked: usize,
    /// Clients that were closed because clients took too much memory.
    pub evicted_clients: u64,
    /// How often a client's commands had to wait until it has read.
    pub unread_pauses: u64,
    /// Bytes that clients sent.
    pub input_bytes: u64,
    /// Bytes that clients were sent.
    pub output_bytes: u64,
    /// Reads from clients.
    pub reads: u64,
    /// Writes to clients.
    pub writes: u64,
    /// Those of them by threads of sockets.
    pub threaded_reads: u64,
    /// The same of writes.
    pub threaded_writes: u64,
    /// The most memory that was in use.
    pub peak_memory: u64,
    /// What each second brought lately.
    pub rates: Rates,
}

/// A first word that is longer is none.
const KIND_LEN_MAX: usize = 31;

impl Statistics {
    pub(super) fn new(commands: usize) -> Self {
        Self { commands: vec![CommandStatistics::default(); commands], ..Self::default() }
    }

    /// Begins to count anew. Who waits, waits.
    pub fn reset(&mut self) {
        *self = Self { blocked: self.blocked, rates: self.rates.restarted(), ..Self::new(self.commands.len()) };
    }

    pub(crate) fn of(&mut self, found: FoundCommand) -> Option<&mut CommandStatistics> {
        self.commands.get_mut(found.index)
    }

    /// Counts an error reply by its first word.
    pub fn count_error(&mut self, text: impl AsRef<[u8]>) {
        self.errors += 1;
        let text = text.as_ref();
        let end = text.iter().take(KIND_LEN_MAX).position(|byte| *byte == b' ');
        let kind = end.and_then(|end| str::from_utf8(text.get(..end)?).ok()).unwrap_or("ERR");
        let kind = if self.error_kinds.len() < ERROR_KINDS_MAX || self.error_kinds.contains_key(kind) {
            kind
        } else {
            OTHER_ERRORS
        };
        match self.error_kinds.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.error_kinds.insert(kind.into(), 1);
            }
        }
    }

    pub(super) fn clock_was_set(&mut self, by: keyspace::Millis) {
        self.rates.last = self.rates.last.map(|(at, sums)| (at.saturating_add(by), sums));
    }

    /// Notes how much has been counted by now, for the rates.
    pub(super) fn sample(&mut self, now: keyspace::Millis) {
        let sums = [self.processed, self.input_bytes, self.output_bytes];
        self.rates.sample(now, sums);
    }
}

/// How many samples a rate is the mean of.
const SAMPLES: usize = 16;

/// What each second brought, over the last samples: commands, bytes in, bytes out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    last: Option<(keyspace::Millis, [u64; 3])>,
    samples: [[u64; 3]; SAMPLES],
    next: usize,
}

impl Rates {
    fn restarted(self) -> Self {
        Self { last: self.last.map(|(at, _)| (at, [0; 3])), ..self }
    }

    fn sample(&mut self, now: keyspace::Millis, sums: [u64; 3]) {
        if let Some((at, former)) = self.last {
            let elapsed = now.saturating_sub(at).unsigned_abs();
            if elapsed == 0 {
                return;
            }
            let mut rates = [0; 3];
            for ((rate, sum), former) in rates.iter_mut().zip(sums).zip(former) {
                *rate = sum.saturating_sub(former).saturating_mul(1000) / elapsed;
            }
            if let Some(sample) = self.samples.get_mut(self.next) {
                *sample = rates;
            }
            self.next = (self.next + 1) % SAMPLES;
        }
        self.last = Some((now, sums));
    }

    /// The means.
    pub fn means(&self) -> [u64; 3] {
        let mut means = [0; 3];
        for (index, mean) in means.iter_mut().enumerate() {
            let sum: u64 = self.samples.iter().filter_map(|sample| sample.get(index)).sum();
            *mean = sum / SAMPLES as u64;
        }
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word_and_scripts_cannot_make_any_number_of_kinds() {
        let mut statistics = Statistics::new(1);
        statistics.count_error("ERR one");
        statistics.count_error("ERR two");
        statistics.count_error("WRONGTYPE x");
        for number in 0..1000 {
            statistics.count_error(format!("MINE{number} y"));
        }
        assert_eq!(statistics.errors, 1003);
        assert_eq!(statistics.error_kinds.get("ERR"), Some(&2));
        assert_eq!(statistics.error_kinds.len(), ERROR_KINDS_MAX + 1);
        assert_eq!(statistics.error_kinds.values().sum::<u64>(), 1003);
    }

    #[test]
    fn a_rate_is_what_a_second_brings() {
        let mut rates = Rates::default();
        for second in 0..=SAMPLES as u64 {
            rates.sample(second as i64 * 100, [second * 10, 0, second]);
        }
        assert_eq!(rates.means(), [100, 0, 10]);
    }
}
