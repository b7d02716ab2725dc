//! Descriptions of counters, as readers want them.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use super::{Format, HEADER_WORDS, Kind, Level, SHOWN, Table};
use crate::memory::Memory;

/// The JSON of a table.
pub(crate) fn json(table: &Table) -> String {
    let mut text = format!(
        r#"{{"version":"1","name":{},"oneliner":{},"order":{},"docs":{},"elements":{},"elem":{{"#,
        quoted(table.name),
        quoted(table.doc),
        table.order,
        quoted(table.doc),
        table.counters.len()
    );
    for (at, counter) in table.counters.iter().enumerate() {
        let separator = if at == 0 { "" } else { "," };
        let (name, doc) = (quoted(counter.name), quoted(counter.doc));
        let (kind, format, level) = (kind_name(counter.kind), format_name(counter.format), level_name(counter.level));
        let index = at * size_of::<u64>();
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            r#"{separator}{name}:{{"type":"{kind}","ctype":"uint64_t","level":"{level}","oneliner":{doc},"format":"{format}","index":{index},"name":{name},"docs":{doc}}}"#
        );
    }
    text.push_str("}}");
    text
}

/// Bytes of a segment with that text.
pub(crate) fn bytes(content: &str) -> usize {
    HEADER_WORDS * size_of::<u64>() + (content.len() + 1).next_multiple_of(8)
}

/// The first word of a segment with that number in its first 4 bytes.
pub(super) fn ready_word(value: u64) -> u64 {
    let mut bytes = [0; 8];
    let low = (value as u32).to_ne_bytes();
    bytes.iter_mut().zip(low).for_each(|(to, from)| *to = from);
    u64::from_ne_bytes(bytes)
}

/// Writes a segment: the body, and then that it is ready.
pub(crate) fn fill(memory: &Memory, id: u64, content: &[u8]) {
    let words = memory.doubles();
    for (chunk, word) in content.chunks(8).zip(words.get(HEADER_WORDS..).unwrap_or_default()) {
        let mut padded = [0; 8];
        padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
    }
    let header = [ready_word(SHOWN), (HEADER_WORDS * size_of::<u64>()) as u64, id];
    let store = |(word, value): (&AtomicU64, u64)| word.store(value, Ordering::Relaxed);
    words.iter().zip(header).skip(1).for_each(store);
    fence(Ordering::Release);
    words.iter().zip(header).take(1).for_each(store);
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Bitmap => "bitmap",
    }
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Integer => "integer",
        Format::Bytes => "bytes",
        Format::Bitmap => "bitmap",
        Format::Duration => "duration",
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Diag => "diag",
        Level::Debug => "debug",
    }
}

/// A JSON string. The tables have plain ASCII; other letters pass as they are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{CounterTable as _, Lck, Main, Mgt, Sma, Smf, Vbe};
    use super::*;

    #[test]
    fn descriptions_are_json_with_all_counters() {
        let tables = [Main::TABLE, Mgt::TABLE, Sma::TABLE, Smf::TABLE, Vbe::TABLE, Lck::TABLE];
        for table in tables {
            let value: serde_json::Value = serde_json::from_str(&json(table)).unwrap();
            assert_eq!(value["elements"], table.counters.len());
            assert_eq!(value["elem"].as_object().unwrap().len(), table.counters.len(), "two with one name");
            assert_eq!(tables.iter().filter(|other| other.id == table.id).count(), 1);
        }
        // As many as Varnish 7.1 has.
        assert_eq!(tables.map(|table| table.counters.len()), [144, 7, 7, 10, 20, 5]);
    }
}
