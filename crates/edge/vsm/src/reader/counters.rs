//! A reader of counters.

use std::{collections::HashMap, sync::atomic::Ordering};

use serde_json::Value;

use super::{Entry, Reader};
use crate::{
    counters::{Format, HEADER_WORDS, HIDDEN, Kind, Level},
    memory::Memory,
};

/// What a description says of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDescription {
    /// The name without that of the thing it is of.
    pub name: String,
    /// How it moves.
    pub kind: Kind,
    /// How it is shown.
    pub format: Format,
    /// Who wants to know it.
    pub level: Level,
    /// What it is, in short.
    pub oneliner: String,
    /// What it is.
    pub docs: String,
    /// Its place behind the header, in bytes.
    index: usize,
}

/// A counter and its value.
#[derive(Debug)]
pub struct CounterValue<'a> {
    /// The name of the thing and of the counter: `MAIN.uptime`.
    pub name: String,
    /// What it means.
    pub description: &'a CounterDescription,
    /// The value.
    pub value: u64,
}

/// All counters of an instance.
#[derive(Debug, Default)]
pub struct CounterReader {
    documents: HashMap<u64, Vec<CounterDescription>>,
    segments: Vec<(Entry, Memory, u64)>,
}

impl CounterReader {
    /// Follows what the instance publishes. Memory that is gone already is left out.
    pub fn refresh(&mut self, reader: &Reader) {
        let mut former: Vec<(Entry, Memory, u64)> = std::mem::take(&mut self.segments);
        for entry in reader.entries() {
            match entry.class.as_str() {
                "StatDoc" => {
                    let known = u64::from_str_radix(&entry.ident, 16).is_ok_and(|id| self.documents.contains_key(&id));
                    // One process's descriptions have numbers of its own; another one may reuse them for others.
                    if !known && let Ok(memory) = reader.map(entry) {
                        self.documents.extend(document(&memory, entry));
                    }
                }
                "Stat" => {
                    if let Some(at) = former.iter().position(|(other, ..)| other == entry) {
                        self.segments.push(former.remove(at));
                    } else if let Ok(memory) = reader.map(entry) {
                        let id = double(&memory, entry, 2);
                        self.segments.push((entry.clone(), memory, id));
                    }
                }
                _ => {}
            }
        }
    }

    /// Forgets what it knows, as another process publishes now.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// All counters that are shown, with their values.
    pub fn values(&self) -> impl Iterator<Item = CounterValue<'_>> {
        self.segments.iter().flat_map(|(entry, memory, id)| {
            let is_hidden = double(memory, entry, 0) & u64::from(u32::MAX) == HIDDEN;
            let body = usize::try_from(double(memory, entry, 1)).unwrap_or(HEADER_WORDS * 8);
            let descriptions = self.documents.get(id).filter(|_| !is_hidden).map(Vec::as_slice).unwrap_or_default();
            descriptions.iter().map(move |description| CounterValue {
                name: format!("{}.{}", entry.ident, description.name),
                description,
                value: double(memory, entry, body.saturating_add(description.index) / 8),
            })
        })
    }
}

/// A word of 8 bytes of a segment; 0 where it ends.
fn double(memory: &Memory, entry: &Entry, at: usize) -> u64 {
    let is_inside = at < entry.bytes / 8;
    let word = memory.doubles().get(entry.offset / 8 + at).filter(|_| is_inside);
    word.map_or(0, |word| word.load(Ordering::Acquire))
}

/// The id of a description, and its counters.
fn document(memory: &Memory, entry: &Entry) -> Option<(u64, Vec<CounterDescription>)> {
    let body = usize::try_from(double(memory, entry, 1)).ok()? / 8;
    let mut text: Vec<u8> = (body..entry.bytes / 8).flat_map(|at| double(memory, entry, at).to_ne_bytes()).collect();
    text.truncate(text.iter().position(|byte| *byte == 0)?);
    Some((double(memory, entry, 2), descriptions(&text)))
}

/// The counters of a description, in its order.
fn descriptions(text: &[u8]) -> Vec<CounterDescription> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
    let mut found: Vec<CounterDescription> = value
        .get("elem")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|all| all.values().filter_map(description))
        .collect();
    found.sort_by_key(|description| description.index);
    found
}

fn description(value: &Value) -> Option<CounterDescription> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(CounterDescription {
        name: value.get("name")?.as_str()?.to_owned(),
        kind: match text("type") {
            "gauge" => Kind::Gauge,
            "bitmap" => Kind::Bitmap,
            _ => Kind::Counter,
        },
        format: match text("format") {
            "bytes" => Format::Bytes,
            "bitmap" => Format::Bitmap,
            "duration" => Format::Duration,
            _ => Format::Integer,
        },
        level: match text("level") {
            "diag" => Level::Diag,
            "debug" => Level::Debug,
            _ => Level::Info,
        },
        oneliner: text("oneliner").to_owned(),
        docs: text("docs").to_owned(),
        index: usize::try_from(value.get("index")?.as_u64()?).ok()?,
    })
}

pub(super) fn survives(text: &[u8]) {
    let _ = descriptions(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_description_is_survived(text in r#"[\[\]{}:,"a-z0-9]{0,120}"#) {
            let _ = descriptions(text.as_bytes());
        }
    }
}
