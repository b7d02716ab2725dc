//! BITOP: strings combined bit by bit.

use keyspace::{Bytes, Expiry, Failure, Value, changes::EventClass};

use crate::{
    Context,
    server::{Progress, Work},
};

/// So many bytes are combined as fast as an element of a collection is given.
const BYTES_AS_ONE: usize = 64;
/// A source takes as long as so many bytes in any case.
const BYTES_OF_KEY: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

/// Source after source is combined into what came of those before it, piece by piece. Each is as long as it has to be: zeros follow
/// its end.
#[derive(Debug)]
struct Combining {
    operation: Operation,
    /// The source that is being combined, and how far that has come.
    source: usize,
    at: usize,
    result: Vec<u8>,
}

impl Combining {
    /// Combines a piece of so many bytes at most. Returns how many it had; none if the source has been combined.
    fn go_on(&mut self, source: &[u8], bytes_max: usize) -> usize {
        let (from, is_first) = (self.at, self.source == 0);
        let end = if is_first { source.len() } else { source.len().max(self.result.len()) };
        let to = end.min(from.saturating_add(bytes_max));
        let piece = source.get(from..to.min(source.len())).unwrap_or_default();
        if self.result.len() < to {
            if self.result.capacity() == 0 {
                // Not filled before it is reached.
                self.result.reserve_exact(source.len());
            }
            self.result.resize(to, 0);
        }
        let result = self.result.get_mut(from..to).unwrap_or_default();
        let common = result.iter_mut().zip(piece);
        match self.operation {
            Operation::Not => common.for_each(|(byte, other)| *byte = !*other),
            Operation::And if !is_first => {
                common.for_each(|(byte, other)| *byte &= other);
                result.iter_mut().skip(piece.len()).for_each(|byte| *byte = 0);
            }
            Operation::And | Operation::Or => common.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => common.for_each(|(byte, other)| *byte ^= other),
        }
        self.at = to;
        to - from
    }

    /// Gives the target what came of it.
    fn finish(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let target = context.words.at(2);
        let result = std::mem::take(&mut self.result);
        let len = result.len();
        if len > 0 {
            context.keys.set(target, Value::String(Bytes::from_vec(result)), Expiry::Clear)?;
            context.keys.modified(target);
            context.keys.notify(EventClass::STRING, "set", target);
        } else if context.keys.remove(target)? {
            context.keys.modified(target);
            context.keys.notify(EventClass::GENERIC, "del", target);
        }
        context.reply.count(len);
        Ok(())
    }
}

impl Work for Combining {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let words = context.words;
        let mut left = budget.saturating_mul(BYTES_AS_ONE);
        while left > 0 {
            let Some(key) = words.get(3 + self.source) else {
                self.finish(context)?;
                return Ok(Progress::Done);
            };
            let source = context.keys.look::<Bytes>(key)?.map_or(&[][..], |string| string);
            let had = self.go_on(source, left);
            left = left.saturating_sub(had + BYTES_OF_KEY);
            if self.at >= source.len().max(if self.source == 0 { 0 } else { self.result.len() }) {
                (self.source, self.at) = (self.source + 1, 0);
            }
        }
        Ok(Progress::More)
    }
}

pub(super) fn bitop(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let operation = match words.at(1).to_ascii_lowercase().as_slice() {
        b"and" => Operation::And,
        b"or" => Operation::Or,
        b"xor" => Operation::Xor,
        b"not" => Operation::Not,
        _ => return Err(Failure::Syntax),
    };
    if operation == Operation::Not && words.len() != 4 {
        return Err(Failure::text("ERR BITOP NOT must be called with a single source key."));
    }
    // It fails before anything is done if one of them is no string; each counts as a hit or a miss.
    let mut bytes = 0_usize;
    for key in words.from(3) {
        let len = context.keys.get::<Bytes>(key)?.map_or(0, |string| string.len());
        bytes = bytes.saturating_add(len).saturating_add(BYTES_OF_KEY);
    }
    context.work_on(bytes / BYTES_AS_ONE, Combining { operation, source: 0, at: 0, result: Vec::new() })
}
