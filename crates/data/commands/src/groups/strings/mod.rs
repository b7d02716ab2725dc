//! Strings.

mod arithmetic;
mod change;
mod read;
mod set;
mod subsequence;

use keyspace::{Bytes, Failure, Millis, NEVER, number};

use crate::{
    Context,
    server::{Command, Wide},
    table::{Access, Categories, Flags, KeySpec, Replies},
};

const GROUP: &str = "string";
/// A longer string is copied over several turns; up to there it takes some 2 ms. Its reply is given as far as the client reads, which
/// those who bound clients' output, and wait for it to pile up, are not to see of common lengths.
const LONG: usize = 8 << 20;
/// So many bytes are copied as fast as an element of a collection is given.
const BYTES_AS_ONE: usize = 64;

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("GET", 2, read::get)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Returns the value of a key.").syntax("key#0"),
    Command::new("SET", -3, set::set)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE).union(Access::VARIABLE_FLAGS))])
        .access(set::access)
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Sets a key to a string, whatever its former value.").syntax("key#0 value [condition<NX|XX>@2.6.12] [GET@6.2.0] [expiration<EX/seconds:integer@2.6.12|PX/milliseconds:integer@2.6.12|EXAT/unix-time-seconds:unix-time@6.2.0|PXAT/unix-time-milliseconds:unix-time@6.2.0|KEEPTTL@6.0.0>]"),
    Command::new("SETNX", 3, set::set_if_absent)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::INSERT))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Sets a key to a string if the key does not exist.").syntax("key#0 value"),
    Command::new("SETEX", 4, set::set_with_seconds)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("2.0.0", "O(1)", "Sets a key to a string that expires after some seconds.").syntax("key#0 seconds:integer value"),
    Command::new("PSETEX", 4, set::set_with_milliseconds)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("2.6.0", "O(1)", "Sets a key to a string that expires after some milliseconds.").syntax("key#0 milliseconds:integer value"),
    Command::new("GETSET", 3, set::get_and_set)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Sets a key to a string and returns its former value.").syntax("key#0 value"),
    Command::new("GETEX", -2, read::get_and_expire)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("6.2.0", "O(1)", "Returns the value of a key, and sets or removes its expiry.").syntax("key#0 [expiration<EX/seconds:integer|PX/milliseconds:integer|EXAT/unix-time-seconds:unix-time|PXAT/unix-time-milliseconds:unix-time|PERSIST>]"),
    Command::new("GETDEL", 2, read::get_and_delete)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::DELETE))])
        .group(GROUP, Categories::STRING)
        .docs("6.2.0", "O(1)", "Returns the value of a key and removes the key.").syntax("key#0"),
    Command::new("MGET", -2, read::get_many)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .wide(Wide::of_keys(1, Replies::Joined))
        .docs("1.0.0", "O(N) for N keys", "Returns the values of keys.").syntax("key#0..."),
    Command::new("MSET", -3, set::set_many)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::range(1, -1, 2, Access::OW.union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .wide(Wide::of_keys(2, Replies::Last))
        .docs("1.0.1", "O(N) for N keys", "Sets keys to strings.").syntax("key_value{key#0 value}..."),
    Command::new("MSETNX", -3, set::set_many_if_absent)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::range(1, -1, 2, Access::OW.union(Access::INSERT))])
        .group(GROUP, Categories::STRING)
        .wide(Wide { unless_there: Some(set::set_many), ..Wide::of_keys(2, Replies::Last) })
        .docs("1.0.1", "O(N) for N keys", "Sets keys to strings if none of the keys exists.").syntax("key_value{key#0 value}..."),
    Command::new("STRLEN", 2, read::length)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO)])
        .group(GROUP, Categories::STRING)
        .docs("2.2.0", "O(1)", "Returns the length of a string.").syntax("key#0"),
    Command::new("GETRANGE", 4, read::range)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .docs("2.4.0", "O(N) for N bytes given", "Returns a part of a string.").syntax("key#0 start:integer end:integer"),
    Command::new("SUBSTR", 4, read::range)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(N) for N bytes given", "The same as GETRANGE.").syntax("key#0 start:integer end:integer"),
    Command::new("SETRANGE", 4, change::set_range)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs(
            "2.2.0",
            "O(N) for N bytes written",
            "Overwrites a part of a string; zero bytes fill a gap before it.",
        ).syntax("key#0 offset:integer value"),
    Command::new("APPEND", 3, change::append)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::INSERT))])
        .group(GROUP, Categories::STRING)
        .docs("2.0.0", "O(1), memory is taken ahead", "Appends to a string, or sets it if the key does not exist.").syntax("key#0 value"),
    Command::new("INCR", 2, arithmetic::increment)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Adds one to the integer of a key; a missing key counts as 0.").syntax("key#0"),
    Command::new("DECR", 2, arithmetic::decrement)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Subtracts one from the integer of a key; a missing key counts as 0.").syntax("key#0"),
    Command::new("INCRBY", 3, arithmetic::increment_by)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Adds to the integer of a key; a missing key counts as 0.").syntax("key#0 increment:integer"),
    Command::new("DECRBY", 3, arithmetic::decrement_by)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Subtracts from the integer of a key; a missing key counts as 0.").syntax("key#0 decrement:integer"),
    Command::new("INCRBYFLOAT", 3, arithmetic::increment_by_float)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("2.6.0", "O(1)", "Adds to the number of a key; a missing key counts as 0.").syntax("key#0 increment:double"),
    Command::new("LCS", -3, subsequence::longest)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::range(1, 1, 1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .docs("7.0.0", "O(N*M) for two strings of N and M bytes", "Returns the longest common subsequence of two strings.").syntax("key1#0 key2#0 [LEN] [IDX] [MINMATCHLEN/len:integer] [WITHMATCHLEN]"),
];

/// The time that an option of expiry (`EX`, `PX`, `EXAT`, `PXAT`) stands for.
pub(crate) fn expiry_of(context: &Context<'_>, unit: &str, text: &[u8], command: &str) -> Result<Millis, Failure> {
    let invalid = || Failure::owned(format!("ERR invalid expire time in '{command}' command"));
    let number = number::integer(text)?;
    if number <= 0 {
        return Err(invalid());
    }
    let millis = if unit.starts_with("EX") { number.checked_mul(1000).ok_or_else(invalid)? } else { number };
    let at = if unit.ends_with("AT") { Some(millis) } else { millis.checked_add(context.counted_from()) };
    // The largest number of all stands for keys that do not expire.
    at.map(|at| at.min(NEVER - 1)).ok_or_else(invalid)
}

/// Whether a string may become that long.
pub(crate) fn check_length(context: &Context<'_>, len: u64) -> Result<(), Failure> {
    if len > context.shared.settings.proto_max_bulk_len.0 && !context.session.replaying {
        Err(Failure::TooLong)
    } else {
        Ok(())
    }
}

/// The longest string that Redis keeps in the same piece of memory as its header.
const EMBEDDED_LEN_MAX: usize = 44;

/// The form that a string has, in Redis' names.
///
/// Redis keeps a string that was changed in place in a form of its own. So does this: what was changed in place has room
/// to grow or lies on the heap without need, and what was set has not.
pub fn encoding(string: &Bytes) -> &'static str {
    let changed = string.spilled() && (string.len() <= string.inline_size() || string.capacity() > string.len());
    if changed || string.len() > EMBEDDED_LEN_MAX {
        "raw"
    } else if number::parse_integer(string).is_some() {
        "int"
    } else {
        "embstr"
    }
}

/// Makes a string as long at least, for a change in place, by which it will be known (see [`encoding`]).
pub(crate) fn grow(string: &mut Bytes, len: usize) {
    if len > EMBEDDED_LEN_MAX && string.len() < len {
        // A vector fills what it grows by at once, which matters for hundreds of megabytes.
        let mut whole = std::mem::take(string).into_vec();
        whole.resize(len, 0);
        *string = Bytes::from_vec(whole);
    } else if string.len() < len {
        string.resize(len, 0);
    }
    if string.len() <= EMBEDDED_LEN_MAX && (!string.spilled() || string.capacity() == string.len()) {
        string.reserve(string.inline_size() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_was_changed_in_place_is_known() {
        for (text, fresh) in [("12", "int"), ("a", "embstr"), ("a string of more than 16", "embstr"), ("", "embstr")] {
            let mut string = Bytes::from_slice(text.as_bytes());
            assert_eq!(encoding(&string), fresh);
            grow(&mut string, 0);
            assert_eq!((encoding(&string), string.as_slice()), ("raw", text.as_bytes()));
            grow(&mut string, 40);
            assert_eq!((encoding(&string), string.len()), ("raw", 40));
            grow(&mut string, 4000);
            assert_eq!((encoding(&string), string.len()), ("raw", 4000));
            assert!(string.iter().skip(text.len()).all(|byte| *byte == 0));
        }
    }
}
