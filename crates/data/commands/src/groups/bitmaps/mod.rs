//! Strings as rows of bits; the first one is the highest of the first byte.

mod field;
mod search;

use crate::{
    Bytes, Context, Failure, Value,
    changes::EventClass,
    keyspace::Expiry,
    number,
    table::{Access, Categories, Command, Flags, KeySpec},
};

use super::strings::grow;

const GROUP: &str = "bitmap";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("SETBIT", 4, setbit)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.2.0", "O(1)", "Sets or clears a bit of a string."),
    Command::new("GETBIT", 3, getbit)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.2.0", "O(1)", "A bit of a string."),
    Command::new("BITCOUNT", -2, search::bitcount)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.6.0", "O(N) for N bytes", "How many bits are set."),
    Command::new("BITPOS", -3, search::bitpos)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.8.7", "O(N) for N bytes", "The first bit that is set, or that is clear."),
    Command::new("BITOP", -4, bitop)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[
            KeySpec::one(2, Access::OW.union(Access::UPDATE)),
            KeySpec::range(3, -1, 1, Access::RO.union(Access::ACCESS)),
        ])
        .group(GROUP, Categories::BITMAP)
        .docs("2.6.0", "O(N) for the longest of N bytes", "Combines strings bit by bit."),
    Command::new("BITFIELD", -2, field::bitfield)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE).union(Access::VARIABLE_FLAGS))])
        .group(GROUP, Categories::BITMAP)
        .docs("3.2.0", "O(1) for each operation", "Reads and changes integers of any width within a string."),
    Command::new("BITFIELD_RO", -2, field::bitfield_readonly)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("6.0.0", "O(1) for each operation", "Reads integers of any width within a string."),
];

/// The offset of a bit. With `width`, `#n` is that of the `n`th integer of so many bits.
fn offset(context: &Context<'_>, index: usize, width: Option<u8>) -> Result<u64, Failure> {
    const INVALID: Failure = Failure::text("ERR bit offset is not an integer or out of range");
    let text = context.words.at(index);
    let (text, unit) = match (text, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, u64::from(width)),
        _ => (text, 1),
    };
    let number = number::parse_integer(text).and_then(|number| u64::try_from(number).ok());
    let offset = number.and_then(|number| number.checked_mul(unit)).filter(|offset| i64::try_from(*offset).is_ok());
    let bytes_max = context.shared.settings.proto_max_bulk_len.0;
    let within = |offset: &u64| offset >> 3 < bytes_max || context.session.replaying;
    offset.filter(within).ok_or(INVALID)
}

fn setbit(context: &mut Context<'_>) -> Result<(), Failure> {
    const INVALID: Failure = Failure::text("ERR bit is not an integer or out of range");
    let key = context.words.at(1);
    let offset = offset(context, 2, None)?;
    let bit = number::parse_integer(context.words.at(3)).filter(|bit| *bit == 0 || *bit == 1).ok_or(INVALID)?;
    let absent = !context.keys.contains(key)?;
    let string = context.keys.get_or_insert::<Bytes>(key, |_| Bytes::new())?;
    let (place, mask) = ((offset >> 3) as usize, 0x80u8 >> (offset & 7));
    let grows = string.len() <= place;
    grow(string, place + 1);
    let mut former = false;
    if let Some(byte) = string.get_mut(place) {
        former = *byte & mask != 0;
        *byte = if bit == 1 { *byte | mask } else { *byte & !mask };
    }
    if absent || grows || former != (bit == 1) {
        context.keys.modified(key);
        context.keys.notify(EventClass::STRING, "setbit", key);
    }
    context.reply.integer(i64::from(former));
    Ok(())
}

fn getbit(context: &mut Context<'_>) -> Result<(), Failure> {
    let offset = offset(context, 2, None)?;
    let string = context.keys.get::<Bytes>(context.words.at(1))?;
    let byte = string.and_then(|string| string.get((offset >> 3) as usize).copied()).unwrap_or(0);
    context.reply.integer(i64::from(byte >> (7 - (offset & 7)) & 1));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

/// Combines a source into what came of those before it. Each is as long as it has to be: zeros follow its end.
fn combine(operation: Operation, result: &mut Vec<u8>, source: &[u8], is_first: bool) {
    if is_first {
        result.extend_from_slice(source);
        if operation == Operation::Not {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        return;
    }
    if result.len() < source.len() {
        result.resize(source.len(), 0);
    }
    let common = result.iter_mut().zip(source);
    match operation {
        Operation::And => {
            common.for_each(|(byte, other)| *byte &= other);
            result.iter_mut().skip(source.len()).for_each(|byte| *byte = 0);
        }
        Operation::Or => common.for_each(|(byte, other)| *byte |= other),
        Operation::Xor => common.for_each(|(byte, other)| *byte ^= other),
        Operation::Not => {}
    }
}

fn bitop(context: &mut Context<'_>) -> Result<(), Failure> {
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
    let target = words.at(2);
    let mut result = Vec::new();
    for (number, key) in words.from(3).iter().enumerate() {
        let source = context.keys.get::<Bytes>(key)?.map_or(&[][..], |string| string);
        combine(operation, &mut result, source, number == 0);
    }
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
