//! Readers of published memory: of this program, or of Debian's varnishd.

mod counters;
mod index;
mod log;

pub use counters::{CounterDescription, CounterReader, CounterValue};
pub use index::{Change, Entry, Reader};
pub use log::{LogEvent, LogReader, Record, Start};

/// Looks at bytes as if they were an index, the words of a log and a description of counters: for fuzzing.
#[doc(hidden)]
pub fn survives(data: &[u8]) {
    let _ = index::parse(&String::from_utf8_lossy(data), "");
    counters::survives(data);
    log::survives(data);
}
