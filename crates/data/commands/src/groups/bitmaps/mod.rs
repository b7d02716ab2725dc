//! Strings as rows of bits; the first one is the highest of the first byte.

mod combine;
mod field;
mod search;

use keyspace::{Bytes, Failure, changes::EventClass, number};

use crate::{
    Context,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::strings::grow;

const GROUP: &str = "bitmap";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("SETBIT", 4, setbit)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.2.0", "O(1)", "Sets or clears a bit of a string.").syntax("key#0 offset:integer value:integer"),
    Command::new("GETBIT", 3, getbit)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.2.0", "O(1)", "Returns a bit of a string.").syntax("key#0 offset:integer"),
    Command::new("BITCOUNT", -2, search::bitcount)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.6.0", "O(N) for N bytes", "Counts the bits that are set.").syntax("key#0 [index{start:integer end:integer [index_unit<BYTE|BIT>@7.0.0]}]"),
    Command::new("BITPOS", -3, search::bitpos)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("2.8.7", "O(N) for N bytes", "Returns the position of the first set or clear bit.").syntax("key#0 bit:integer [index{start:integer [end_index{end:integer [index_unit<BYTE|BIT>@7.0.0]}]}]"),
    Command::new("BITOP", -4, combine::bitop)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[
            KeySpec::one(2, Access::OW.union(Access::UPDATE)),
            KeySpec::range(3, -1, 1, Access::RO.union(Access::ACCESS)),
        ])
        .group(GROUP, Categories::BITMAP)
        .docs("2.6.0", "O(N) for the longest of N bytes", "Combines strings bit by bit.").syntax("operation destkey#0 key#1..."),
    Command::new("BITFIELD", -2, field::bitfield)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE).union(Access::VARIABLE_FLAGS))])
        .access(field::access)
        .group(GROUP, Categories::BITMAP)
        .docs("3.2.0", "O(1) for each operation", "Reads and changes integers of any width within a string.").syntax("key#0 [operation<GET/encoding_offset{encoding offset:integer}|write{[OVERFLOW/wrap_sat_fail<WRAP|SAT|FAIL>] write_operation<SET/encoding_offset_value{encoding offset:integer value:integer}|INCRBY/encoding_offset_increment{encoding offset:integer increment:integer}>}>...]"),
    Command::new("BITFIELD_RO", -2, field::bitfield_readonly)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::BITMAP)
        .docs("6.0.0", "O(1) for each operation", "Reads integers of any width within a string.").syntax("key#0 [GET/encoding_offset{encoding offset:integer}...*]"),
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
