//! BITCOUNT and BITPOS: bits in a range.

use keyspace::{Bytes, Failure};

use crate::{
    Context,
    server::{Progress, reading_steps},
};

/// Bits that are counted as fast as an element of a collection is given: whole bytes.
const BITS_AS_ONE: usize = 8 * 1024;

/// A range as commands have it: two indices of bytes or of bits, both included, negative ones from the end. The bits that
/// it covers; nothing if it is empty.
fn bits_between(len: usize, start: i64, end: i64, in_bits: bool) -> Option<(usize, usize)> {
    let unit = if in_bits { 1 } else { 8 };
    let total = len as i64 * 8 / unit;
    let from_start = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(total - 1));
    (start <= end).then(|| ((start * unit) as usize, (end * unit + unit - 1) as usize))
}

/// Whether a word says that a range is of bits.
fn is_in_bits(context: &Context<'_>, index: usize) -> Result<bool, Failure> {
    match context.words.get(index) {
        None => Ok(false),
        Some(word) if word.eq_ignore_ascii_case(b"BIT") => Ok(true),
        Some(word) if word.eq_ignore_ascii_case(b"BYTE") => Ok(false),
        Some(_) => Err(Failure::Syntax),
    }
}

/// The bits of a byte from one to another, both included.
fn mask(first: usize, last: usize) -> u8 {
    (0xff >> first) & (0xff << (7 - last))
}

/// How many bits of a range are set.
fn count(string: &[u8], first: usize, last: usize) -> u64 {
    let (first_byte, last_byte) = (first / 8, last / 8);
    let within = string.get(first_byte..=last_byte).unwrap_or_default();
    let (words, rest) = within.as_chunks::<8>();
    let whole: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    let all = whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    let outside = |byte: usize, mask: u8| string.get(byte).map_or(0, |byte| u64::from((byte & !mask).count_ones()));
    all - outside(first_byte, mask(first % 8, 7)) - outside(last_byte, mask(0, last % 8))
}

/// The first bit of a range that is as wanted.
fn position(string: &[u8], first: usize, last: usize, wanted: bool) -> Option<usize> {
    // So that what is looked for is always a one.
    let flip = if wanted { 0 } else { 0xff };
    let in_byte = |place: usize, mask: u8| {
        let byte = (string.get(place)? ^ flip) & mask;
        (byte != 0).then(|| place * 8 + byte.leading_zeros() as usize)
    };
    let (first_byte, last_byte) = (first / 8, last / 8);
    let begin = mask(first % 8, if first_byte == last_byte { last % 8 } else { 7 });
    if let Some(position) = in_byte(first_byte, begin) {
        return Some(position);
    }
    if first_byte == last_byte {
        return None;
    }
    let middle = string.get(first_byte + 1..last_byte).unwrap_or_default();
    let (words, _) = middle.as_chunks::<8>();
    let same = [flip; 8];
    let skipped = words.iter().take_while(|word| **word == same).count() * 8;
    let rest = middle.get(skipped..).unwrap_or_default();
    match rest.iter().position(|byte| *byte != flip) {
        Some(place) => in_byte(first_byte + 1 + skipped + place, 0xff),
        None => in_byte(last_byte, mask(0, last % 8)),
    }
}

pub(super) fn bitcount(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let Some(string) = context.keys.get::<Bytes>(words.at(1))? else {
        context.reply.integer(0);
        return Ok(());
    };
    let len = string.len();
    let range = match words.len() {
        2 => bits_between(len, 0, -1, false),
        4 | 5 => {
            let (start, end) = (words.integer(2)?, words.integer(3)?);
            if start < 0 && end < 0 && start > end {
                context.reply.integer(0);
                return Ok(());
            }
            let in_bits = is_in_bits(context, 4)?;
            bits_between(len, start, end, in_bits)
        }
        _ => return Err(Failure::Syntax),
    };
    let Some((mut first, last)) = range else {
        context.reply.integer(0);
        return Ok(());
    };
    let mut set = 0;
    let step = move |context: &mut Context<'_>, budget: usize| {
        let to = last.min((first | 7).saturating_add(budget.saturating_mul(BITS_AS_ONE)));
        if let Some(string) = context.keys.look::<Bytes>(context.words.at(1))? {
            set += count(string, first, to);
        }
        first = to + 1;
        if first > last {
            context.reply.integer(set as i64);
        }
        Ok(Progress::over_if(first > last))
    };
    context.work_on((last - first) / BITS_AS_ONE, reading_steps(step))
}

pub(super) fn bitpos(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let wanted = match words.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(Failure::text("ERR The bit argument must be 1 or 0.")),
    };
    let Some(string) = context.keys.get::<Bytes>(words.at(1))? else {
        context.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let len = string.len();
    let range = match words.len() {
        3 => bits_between(len, 0, -1, false),
        4..=6 => {
            let start = words.integer(3)?;
            let in_bits = is_in_bits(context, 5)?;
            let end = if words.len() > 4 { words.integer(4)? } else { -1 };
            bits_between(len, start, end, in_bits)
        }
        _ => return Err(Failure::Syntax),
    };
    let value = context.keys.peek(words.at(1))?.and_then(|entry| entry.value.as_ref());
    let position = match (range, value) {
        (Some((first, last)), Some(keyspace::Value::String(string))) => {
            match position(string, first, last, wanted) {
                Some(position) => position as i64,
                // Behind the end there are zeros, unless an end was given.
                None if !wanted && words.len() <= 4 => last as i64 + 1,
                None => -1,
            }
        }
        _ => -1,
    };
    context.reply.integer(position);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_searched_as_bit_by_bit() {
        let mut random = keyspace::random::Random::new(3);
        for round in 0..2000 {
            let len = 1 + random.below(40) as usize;
            let plain = [0x00, 0xff][round % 2];
            let mut string = vec![plain; len];
            for _ in 0..random.below(3) {
                let place = random.below(len as u64) as usize;
                string[place] = random.draw() as u8;
            }
            let first = random.below(len as u64 * 8) as usize;
            let last = first + random.below((len * 8 - first) as u64) as usize;
            let is_set = |bit: &usize| string[bit / 8] >> (7 - bit % 8) & 1 == 1;
            assert_eq!(count(&string, first, last), (first..=last).filter(is_set).count() as u64);
            for wanted in [true, false] {
                let expected = (first..=last).find(|bit| is_set(bit) == wanted);
                assert_eq!(position(&string, first, last, wanted), expected, "{string:?} {first} {last} {wanted}");
            }
        }
    }
}
