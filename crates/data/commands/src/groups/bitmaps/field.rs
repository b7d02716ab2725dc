//! BITFIELD: integers of any width at any place of a string.

use keyspace::{Bytes, Failure, changes::EventClass};

use crate::{Context, table::Access};

use super::{grow, offset};

#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// An integer's type: `i8`, `u12`.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u8,
}

#[derive(Clone, Copy)]
struct Operation {
    action: Action,
    width: Width,
    offset: u64,
    overflow: Overflow,
}

impl Width {
    fn read(text: &[u8]) -> Result<Self, Failure> {
        let (signed, digits, bits_max) = match text {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => (false, &[][..], 0),
        };
        let bits = keyspace::number::parse_integer(digits).filter(|bits| (1..=bits_max).contains(bits));
        let text = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        Ok(Self { signed, bits: bits.ok_or(Failure::text(text))? as u8 })
    }

    fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The number that the lowest bits of another one are.
    fn wrapped(self, number: i128) -> i128 {
        let bits = number & ((1 << self.bits) - 1);
        if self.signed && bits > self.most() { bits - (1 << self.bits) } else { bits }
    }

    /// A number as one of this type; nothing if there is none and that is to be an error.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        match overflow {
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(self.least(), self.most())),
            Overflow::Fail => (self.least()..=self.most()).contains(&number).then_some(number),
        }
    }
}

impl Operation {
    fn last_bit(&self) -> u64 {
        self.offset + u64::from(self.width.bits) - 1
    }

    /// The bytes that it touches.
    fn bytes(&self) -> std::ops::RangeInclusive<usize> {
        (self.offset >> 3) as usize..=(self.last_bit() >> 3) as usize
    }

    /// How many bits of the last byte lie behind it.
    fn behind(&self) -> u32 {
        7 - (self.last_bit() & 7) as u32
    }

    fn read(&self, string: &[u8]) -> i128 {
        let bits =
            self.bytes().fold(0u128, |bits, place| bits << 8 | u128::from(string.get(place).copied().unwrap_or(0)));
        self.width.wrapped((bits >> self.behind()) as i128)
    }

    fn write(&self, string: &mut [u8], number: i128) {
        let mask = ((1u128 << self.width.bits) - 1) << self.behind();
        let mut bits = (number as u128) << self.behind() & mask;
        let mut mask = mask;
        for place in self.bytes().rev() {
            if let Some(byte) = string.get_mut(place) {
                *byte = *byte & !(mask as u8) | bits as u8;
            }
            bits >>= 8;
            mask >>= 8;
        }
    }
}

fn operations(context: &Context<'_>) -> Result<Vec<Operation>, Failure> {
    let words = context.words;
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < words.len() {
        let following = words.len() - at - 1;
        if words.is(at, "OVERFLOW") && following >= 1 {
            overflow = match words.at(at + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(Failure::text("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let is_get = words.is(at, "GET") && following >= 2;
        let is_set = words.is(at, "SET") && following >= 3;
        let is_add = words.is(at, "INCRBY") && following >= 3;
        if !is_get && !is_set && !is_add {
            return Err(Failure::Syntax);
        }
        let width = Width::read(words.at(at + 1))?;
        let offset = offset(context, at + 2, Some(width.bits))?;
        let action = match (is_get, is_set) {
            (true, _) => Action::Get,
            (_, true) => Action::Set(words.integer(at + 3)?),
            _ => Action::Add(words.integer(at + 3)?),
        };
        operations.push(Operation { action, width, offset, overflow });
        at += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

/// What BITFIELD does with its key.
pub(super) fn access(words: &[&[u8]]) -> Access {
    if only_reads_fields(words) { Access::RO | Access::ACCESS } else { Access::RW | Access::ACCESS | Access::UPDATE }
}

/// Whether a BITFIELD changes nothing.
fn only_reads_fields(words: &[&[u8]]) -> bool {
    let mut rest = words.get(2..).unwrap_or_default();
    while let Some((word, following)) = rest.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let arguments = if is("GET") {
            2
        } else if is("OVERFLOW") {
            1
        } else {
            return false;
        };
        rest = following.get(arguments..).unwrap_or_default();
    }
    true
}

pub(super) fn bitfield(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, false)
}

pub(super) fn bitfield_readonly(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, true)
}

fn run(context: &mut Context<'_>, readonly: bool) -> Result<(), Failure> {
    let operations = operations(context)?;
    let key = context.words.at(1);
    let last_written =
        operations.iter().filter(|one| !matches!(one.action, Action::Get)).map(Operation::last_bit).max();
    let Some(last_written) = last_written else {
        let string = context.keys.get::<Bytes>(key)?.map_or(&[][..], |string| string);
        context.reply.array(operations.len());
        operations.iter().for_each(|one| context.reply.integer(one.read(string) as i64));
        return Ok(());
    };
    if readonly {
        return Err(Failure::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let absent = !context.keys.contains(key)?;
    let string = context.keys.get_or_insert::<Bytes>(key, |_| Bytes::new())?;
    let former_len = string.len();
    grow(string, (last_written >> 3) as usize + 1);
    let grown = string.len() != former_len || absent;
    let mut changes = 0;
    context.reply.array(operations.len());
    for one in &operations {
        let former = one.read(string);
        let number = match one.action {
            Action::Get => {
                context.reply.integer(former as i64);
                continue;
            }
            Action::Add(by) => former + i128::from(by),
            // A negative number for an unsigned integer is a large one.
            Action::Set(number) if one.width.signed => i128::from(number),
            Action::Set(number) => i128::from(number as u64),
        };
        let Some(number) = one.width.fit(number, one.overflow) else {
            context.reply.null();
            continue;
        };
        one.write(string, number);
        changes += u64::from(grown || number != former);
        context.reply.integer(if matches!(one.action, Action::Set(_)) { former } else { number } as i64);
    }
    if changes > 0 {
        context.keys.modified(key);
        // Each one counts.
        context.keys.changes.dirty += changes - 1;
        context.keys.notify(EventClass::STRING, "setbit", key);
    } else if grown {
        // Every number was too large, but there was made room for them.
        context.keys.modified(key);
    }
    Ok(())
}
