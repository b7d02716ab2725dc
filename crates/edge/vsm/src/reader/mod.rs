//! Readers of published memory: of this program, or of Debian's varnishd.

mod counters;
mod index;
mod log;

pub use counters::{CounterDescription, CounterReader, CounterValue};
pub use index::{Change, Entry, Reader};
pub use log::{LogEvent, LogReader, Record, Start};
