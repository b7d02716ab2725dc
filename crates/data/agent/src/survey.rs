//! What each slot has and takes, as the masters say: they are asked by whoever serves the request, some slots at a time.

use std::{collections::BTreeMap, io, thread, time::Duration};

use cluster::{Address, SLOTS};
use resp::Value;

use crate::connection::{Connection, Login, command};

/// Slots of one question: a server serves nobody else meanwhile.
const ASKED_AT_ONCE: u16 = 16;
/// The same where nothing is walked.
const LOADS_AT_ONCE: u16 = 4_096;
/// How long a load is watched.
const WATCHED: Duration = Duration::from_secs(2);
/// How long a server has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What slots are weighed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Each the same.
    Slots,
    /// Their keys.
    Keys,
    /// Their bytes, about.
    Bytes,
    /// What their commands take.
    Load,
}

impl Measure {
    /// By its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Slots, Self::Keys, Self::Bytes, Self::Load].into_iter().find(|measure| measure.word() == word)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Keys => "keys",
            Self::Bytes => "bytes",
            Self::Load => "load",
        }
    }

    fn field(self) -> &'static [u8] {
        match self {
            Self::Slots | Self::Keys => b"key-count",
            Self::Bytes => b"memory-bytes",
            Self::Load => b"cpu-usec",
        }
    }
}

/// What is to be asked of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The masters.
    pub masters: Vec<Address>,
    /// What is asked for.
    pub measure: Measure,
}

/// The weights of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// By what.
    pub measure: Measure,
    /// Slots that weigh something.
    pub weights: BTreeMap<u16, u64>,
}

/// A master has not said what its slots weigh. It may be asked again.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// One of them does not answer.
    #[error("{master}: {source}")]
    Master {
        /// Which.
        master: Address,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread of this program.
    #[error("a master was not asked")]
    NotAsked,
}

impl Survey {
    /// Asks.
    ///
    /// # Errors
    ///
    /// Who does not answer, and why.
    pub fn run(&self, login: &Login) -> Result<Measured, SurveyError> {
        let mut weights = self.ask(login)?;
        if self.measure == Measure::Load {
            thread::sleep(WATCHED);
            // What they have taken since the servers began says less than what they take now.
            let later = self.ask(login)?;
            weights = later
                .into_iter()
                .map(|(slot, load)| (slot, load - weights.get(&slot).copied().unwrap_or(0).min(load)))
                .collect();
        }
        weights.retain(|_, weight| *weight > 0);
        Ok(Measured { measure: self.measure, weights })
    }

    fn ask(&self, login: &Login) -> Result<BTreeMap<u16, u64>, SurveyError> {
        // Each has slots of its own, and takes as long as it has keys.
        thread::scope(|scope| {
            let failed = |master: &Address| {
                let master = master.clone();
                move |source| SurveyError::Master { master, source }
            };
            let ask = |master| move || self.ask_one(master, login).map_err(failed(master));
            let asked: Vec<_> = self.masters.iter().map(|master| scope.spawn(ask(master))).collect();
            let mut weights = BTreeMap::new();
            for one in asked {
                weights.extend(one.join().unwrap_or(Err(SurveyError::NotAsked))?);
            }
            Ok(weights)
        })
    }

    fn ask_one(&self, master: &Address, login: &Login) -> io::Result<BTreeMap<u16, u64>> {
        let mut weights = BTreeMap::new();
        let mut connection = Connection::open_as(master, PATIENCE, login)?;
        let is_load = self.measure == Measure::Load;
        let step = if is_load { LOADS_AT_ONCE } else { ASKED_AT_ONCE };
        for first in (0..SLOTS).step_by(usize::from(step)) {
            let (first, last) = (first.to_string(), (first + (step - 1)).min(SLOTS - 1).to_string());
            let mut words = vec!["CLUSTER", "SLOT-STATS", "SLOTSRANGE", &first, &last];
            if is_load {
                words.extend(["METRIC", "cpu-usec"]);
            }
            for reply in connection.ask(&[command(&words)])? {
                if let Some(error) = reply.as_error() {
                    return Err(io::Error::other(String::from_utf8_lossy(error).into_owned()));
                }
                let all = reply.as_slice().unwrap_or_default();
                weights.extend(all.iter().filter_map(|one| weight_of(one, self.measure.field())));
            }
        }
        Ok(weights)
    }
}

/// A slot and a field of it.
fn weight_of(one: &Value, field: &[u8]) -> Option<(u16, u64)> {
    let [slot, fields] = one.as_slice()? else { return None };
    let slot = u16::try_from(slot.as_integer()?).ok()?;
    let fields = fields.as_slice()?;
    let mut pairs = fields.iter().zip(fields.iter().skip(1)).step_by(2);
    let found = pairs.find(|(name, _)| name.as_bytes() == Some(field))?.1;
    Some((slot, u64::try_from(found.as_integer()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_slot_is_found() {
        let bytes = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let fields = vec![bytes("key-count"), Value::Integer(7), bytes("cpu-usec"), Value::Integer(9)];
        let one = Value::Array(vec![Value::Integer(5), Value::Array(fields)]);
        assert_eq!(weight_of(&one, b"key-count"), Some((5, 7)));
        assert_eq!(weight_of(&one, b"cpu-usec"), Some((5, 9)));
        assert_eq!(weight_of(&one, b"memory-bytes"), None);
        assert_eq!(Measure::parse("bytes"), Some(Measure::Bytes));
        assert_eq!(Measure::parse("weight"), None);
    }
}
