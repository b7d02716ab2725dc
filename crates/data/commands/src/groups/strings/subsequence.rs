//! LCS: the longest common subsequence of two strings.
//!
//! `length(i, j)`, the length for the first `i` bytes of one and the first `j` of the other, follows from the three
//! neighbours before it; the subsequence itself is found by going back from the end along what made the lengths.

use keyspace::{Bytes, Failure};

use crate::Context;

#[derive(Default)]
struct Options {
    length: bool,
    places: bool,
    with_lengths: bool,
    length_min: i64,
}

/// A piece that both strings have: where it begins in each, and its length.
struct Match {
    first: usize,
    second: usize,
    len: usize,
}

struct Lengths {
    columns: usize,
    cells: Vec<u32>,
}

impl Lengths {
    fn of(first: &[u8], second: &[u8]) -> Self {
        let columns = second.len() + 1;
        let mut cells = vec![0u32; columns];
        cells.reserve(columns * first.len());
        for (row, byte) in first.iter().enumerate() {
            cells.push(0);
            for (column, other) in second.iter().enumerate() {
                let above = row * columns + column;
                let at = |index: usize| cells.get(index).copied().unwrap_or(0);
                let cell = if byte == other { at(above) + 1 } else { at(above + 1).max(at(above + columns)) };
                cells.push(cell);
            }
        }
        Self { columns, cells }
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.cells.get(row * self.columns + column).copied().unwrap_or(0)
    }
}

pub(super) fn longest(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut string = |index: usize| match context.keys.get::<Bytes>(words.at(index)) {
        Ok(value) => Ok(value.cloned().unwrap_or_default()),
        Err(Failure::WrongType) => Err(Failure::text("ERR The specified keys must contain string values")),
        Err(failure) => Err(failure),
    };
    let (first, second) = (string(1)?, string(2)?);
    let options = options(context)?;
    let cells = (first.len() as u64 + 1).saturating_mul(second.len() as u64 + 1);
    if cells.saturating_mul(4) > context.shared.settings.proto_max_bulk_len.0 {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Failure::text(text));
    }
    let lengths = Lengths::of(&first, &second);
    let length = i64::from(lengths.at(first.len(), second.len()));
    if options.length {
        context.reply.integer(length);
        return Ok(());
    }
    let (subsequence, matches) = walk(&first, &second, &lengths);
    if !options.places {
        context.reply.bulk(&subsequence);
        return Ok(());
    }
    context.reply.map(2);
    context.reply.bulk(b"matches");
    let wanted = |one: &&Match| options.length_min <= one.len as i64;
    context.reply.array(matches.iter().filter(wanted).count());
    for one in matches.iter().filter(wanted) {
        context.reply.array(if options.with_lengths { 3 } else { 2 });
        for start in [one.first, one.second] {
            context.reply.array(2);
            context.reply.count(start);
            context.reply.count(start + one.len - 1);
        }
        if options.with_lengths {
            context.reply.count(one.len);
        }
    }
    context.reply.bulk(b"len");
    context.reply.integer(length);
    Ok(())
}

fn options(context: &Context<'_>) -> Result<Options, Failure> {
    let words = context.words;
    let mut options = Options::default();
    let mut at = 3;
    while at < words.len() {
        if words.is(at, "IDX") {
            options.places = true;
        } else if words.is(at, "LEN") {
            options.length = true;
        } else if words.is(at, "WITHMATCHLEN") {
            options.with_lengths = true;
        } else if words.is(at, "MINMATCHLEN") && at + 1 < words.len() {
            at += 1;
            options.length_min = words.integer(at)?;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    if options.length && options.places {
        return Err(Failure::text("ERR If you want both the length and indexes, please just use IDX."));
    }
    Ok(options)
}

/// Goes back from the end: gives the subsequence, and the pieces that it consists of, the last one first.
fn walk(first: &[u8], second: &[u8], lengths: &Lengths) -> (Vec<u8>, Vec<Match>) {
    let (mut row, mut column) = (first.len(), second.len());
    let mut subsequence = Vec::with_capacity(lengths.at(row, column) as usize);
    let mut matches: Vec<Match> = Vec::new();
    // Whether the last match may still grow to the front.
    let mut open = false;
    while row > 0 && column > 0 {
        let (byte, other) = (first.get(row - 1).copied(), second.get(column - 1).copied());
        if byte == other {
            subsequence.extend(byte);
            row -= 1;
            column -= 1;
            match matches.last_mut().filter(|_| open) {
                Some(last) => {
                    last.first = row;
                    last.second = column;
                    last.len += 1;
                }
                None => matches.push(Match { first: row, second: column, len: 1 }),
            }
            open = true;
        } else {
            open = false;
            if lengths.at(row - 1, column) > lengths.at(row, column - 1) { row -= 1 } else { column -= 1 }
        }
    }
    subsequence.reverse();
    (subsequence, matches)
}
