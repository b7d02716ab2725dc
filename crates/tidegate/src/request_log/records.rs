//! Transactions with all of their records, as varnishlog shows them.

use std::io::{self, Write};

use telemetry::ring::{Block, Record};

use super::printable;

/// The transaction and its records, one a line.
pub(super) fn long(output: &mut impl Write, block: &Block<'_>, shown: impl Fn(&Record<'_>) -> bool) -> io::Result<()> {
    let cut = if block.is_truncated() { ", cut: it was too long for the memory of the log" } else { "" };
    writeln!(output, "*   transaction {}, {}{cut}", block.id(), clock(block.time_us()))?;
    for record in block.records().filter(shown) {
        writeln!(output, "-   {:<14} {}", name(&record), printable(record.text))?;
    }
    writeln!(output)
}

/// A record behind the number of its transaction.
pub(super) fn raw(output: &mut impl Write, block: &Block<'_>, record: &Record<'_>) -> io::Result<()> {
    writeln!(output, "{:>10} {:<14} {}", block.id(), name(record), printable(record.text))
}

pub(super) fn name(record: &Record<'_>) -> String {
    record.tag().map_or_else(|| record.number.to_string(), |tag| tag.name().to_owned())
}

/// The time of day in UTC.
fn clock(time_us: u64) -> String {
    let (seconds, microseconds) = (time_us / 1_000_000, time_us % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{microseconds:06} UTC")
}
