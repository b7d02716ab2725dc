//! Settings of several words, and those with rules of their own.

use super::{InvalidValue, kinds::Kind};

/// All words, whether they came apart, as from a file, or in one, as from `CONFIG SET`.
fn apart(words: &[&[u8]]) -> Vec<String> {
    let texts = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    texts.flat_map(|text| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// `save`: after how many seconds with how many changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavePoints {
    /// Seconds and changes.
    pub points: Vec<(u64, u64)>,
    /// Whether nobody has said them.
    pub is_default: bool,
}

impl Default for SavePoints {
    fn default() -> Self {
        Self { points: vec![(3600, 1), (300, 100), (60, 10_000)], is_default: true }
    }
}

impl SavePoints {
    /// What stays of them where a file's line, or the command line, names others: all that was said before.
    pub(super) fn added_to(&self, values: &[&[u8]]) -> Option<String> {
        let is_none = values.iter().all(|value| value.is_empty());
        (!self.is_default && !is_none).then(|| self.text())
    }
}

impl Kind for SavePoints {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::SavePoints;
        let words = apart(words);
        if !words.len().is_multiple_of(2) {
            return Err(invalid());
        }
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<u64>().ok()).ok_or_else(invalid);
        let points = words.chunks_exact(2).map(|pair| match (number(pair.first())?, number(pair.get(1))?) {
            (0, _) => Err(invalid()),
            point => Ok(point),
        });
        points.collect::<Result<_, _>>().map(|points| Self { points, is_default: false })
    }
    fn text(&self) -> String {
        let points: Vec<_> = self.points.iter().map(|(seconds, changes)| format!("{seconds} {changes}")).collect();
        points.join(" ")
    }
}

/// Percentiles, each from 0 to 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl Kind for Percentiles {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let percentile = |word: String| match word.parse::<f64>() {
            Ok(number) if (0.0..=100.0).contains(&number) => Ok(number),
            Ok(number) if !number.is_nan() => Err(InvalidValue::PercentileBounds),
            _ => Err(InvalidValue::Percentile),
        };
        apart(words).into_iter().map(percentile).collect::<Result<_, _>>().map(Self)
    }
    fn text(&self) -> String {
        let texts: Vec<_> = self.0.iter().map(f64::to_string).collect();
        texts.join(" ")
    }
}

/// `oom-score-adj-values`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomScores(pub [i64; 3]);

impl Kind for OomScores {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        const BOUNDS: std::ops::RangeInclusive<i64> = -2000..=2000;
        let words = apart(words);
        let scores = words.iter().map(|word| word.parse::<i64>().ok().filter(|score| BOUNDS.contains(score)));
        let scores = scores.collect::<Option<Vec<_>>>().ok_or(InvalidValue::OomScore)?;
        match *scores {
            [master, replica, child] if master <= replica && replica <= child => Ok(Self([master, replica, child])),
            [_, _, _] => Err(InvalidValue::OomOrder),
            _ => Err(InvalidValue::WordCount),
        }
    }
    fn text(&self) -> String {
        let [master, replica, child] = self.0;
        format!("{master} {replica} {child}")
    }
}

/// `shutdown-on-sigint` and `shutdown-on-sigterm`: words that `SHUTDOWN` knows; none: as without any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShutdownOnSignal(pub String);

impl ShutdownOnSignal {
    /// Whether a word is said.
    pub fn has(&self, word: &str) -> bool {
        self.0.split(' ').any(|said| said == word)
    }
}

impl Kind for ShutdownOnSignal {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let is_empty = words.is_empty();
        let words: Vec<String> = apart(words).iter().map(|word| word.to_ascii_lowercase()).collect();
        let known = ["default", "save", "nosave", "now", "force"];
        if is_empty || !words.iter().all(|word| known.contains(&word.as_str())) {
            return Err(InvalidValue::NotOneOf(known.to_vec()));
        }
        let has = |name: &str| words.iter().any(|word| word == name);
        if has("save") && has("nosave") {
            return Err(InvalidValue::SaveAndNoSave);
        }
        let said: Vec<_> = known.into_iter().skip(1).filter(|word| has(word)).collect();
        Ok(Self(said.join(" ")))
    }
    fn text(&self) -> String {
        if self.0.is_empty() { "default".into() } else { self.0.clone() }
    }
}

/// `replicaof`: a master's host and port; none: `no one`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master(pub Option<(String, u16)>);

impl Kind for Master {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        match words {
            [b""] => Ok(Self(None)),
            [host, port] if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") => Ok(Self(None)),
            [host, port] => {
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                let port = port.ok_or(InvalidValue::MasterPort)?;
                Ok(Self(Some((String::from_utf8_lossy(host).into_owned(), port))))
            }
            _ => Err(InvalidValue::WordCount),
        }
    }
    fn text(&self) -> String {
        self.0.as_ref().map(|(host, port)| format!("{host} {port}")).unwrap_or_default()
    }
}

/// Permissions in octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Octal(pub u32);

impl Kind for Octal {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        match apart(words).as_slice() {
            [word] => u32::from_str_radix(word, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .map(Self)
                .ok_or(InvalidValue::NotInteger),
            _ => Err(InvalidValue::WordCount),
        }
    }
    fn text(&self) -> String {
        format!("{:o}", self.0)
    }
}

/// The name of a file in the folder, without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(pub String);

impl Kind for FileName {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        match words {
            [word] if word.contains(&b'/') => Err(InvalidValue::NotFileName),
            [word] => String::from_utf8(word.to_vec()).map(Self).map_err(|_| InvalidValue::NotUtf8),
            _ => Err(InvalidValue::WordCount),
        }
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

/// `activedefrag`: only `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDefragmentation;

impl Kind for NoDefragmentation {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        match words {
            [word] if word.eq_ignore_ascii_case(b"no") => Ok(Self),
            [word] if word.eq_ignore_ascii_case(b"yes") => Err(InvalidValue::Defragmentation),
            _ => Err(InvalidValue::NotFlag),
        }
    }
    fn text(&self) -> String {
        "no".into()
    }
}
