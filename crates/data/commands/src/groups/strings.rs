//! Strings.

use crate::{
    Bytes, Context, Failure, Millis, Value,
    changes::EventClass,
    keyspace::{Expiry, NEVER},
    number,
    table::{Access, Categories, Command, Flags, KeySpec},
};

const GROUP: &str = "string";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("GET", 2, get)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "What a key holds."),
    Command::new("SET", -3, set)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE).union(Access::VARIABLE_FLAGS))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Gives a key a string, whatever it held before."),
    Command::new("INCR", 2, |context| increment(context, 1))
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::STRING)
        .docs("1.0.0", "O(1)", "Adds one to the integer that a key holds; 0 if it is not there."),
];

fn get(context: &mut Context<'_>) -> Result<(), Failure> {
    match context.keys.get::<Bytes>(context.words.at(1))? {
        Some(value) => context.reply.bulk(value),
        None => context.reply.null(),
    }
    Ok(())
}

/// Whether SET depends on what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    Absent,
    Present,
}

struct SetOptions {
    condition: Condition,
    /// The former value is the answer.
    get: bool,
    expiry: Expiry,
}

fn set_options(context: &Context<'_>) -> Result<SetOptions, Failure> {
    let words = context.words;
    let mut options = SetOptions { condition: Condition::Always, get: false, expiry: Expiry::Clear };
    let mut at = 3;
    while at < words.len() {
        if words.is(at, "NX") && options.condition != Condition::Present {
            options.condition = Condition::Absent;
        } else if words.is(at, "XX") && options.condition != Condition::Absent {
            options.condition = Condition::Present;
        } else if words.is(at, "GET") {
            options.get = true;
        } else if words.is(at, "KEEPTTL") && options.expiry == Expiry::Clear {
            options.expiry = Expiry::Keep;
        } else if options.expiry == Expiry::Clear
            && at + 1 < words.len()
            && let Some(unit) = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|unit| words.is(at, unit))
        {
            options.expiry = Expiry::At(expiry_of(context, unit, words.at(at + 1), "set")?);
            at += 1;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// The time that an option of expiry (`EX`, `PX`, `EXAT`, `PXAT`) stands for.
pub(crate) fn expiry_of(context: &Context<'_>, unit: &str, text: &[u8], command: &str) -> Result<Millis, Failure> {
    let invalid = || Failure::owned(format!("ERR invalid expire time in '{command}' command"));
    let number = number::integer(text)?;
    if number <= 0 {
        return Err(invalid());
    }
    let millis = if unit.starts_with("EX") { number.checked_mul(1000).ok_or_else(invalid)? } else { number };
    let at = if unit.ends_with("AT") { Some(millis) } else { millis.checked_add(context.now()) };
    at.filter(|at| *at != NEVER).ok_or_else(invalid)
}

fn set(context: &mut Context<'_>) -> Result<(), Failure> {
    let options = set_options(context)?;
    let (key, value) = (context.words.at(1), context.words.at(2));
    let mut present = None;
    if options.get {
        present = Some(match context.keys.get::<Bytes>(key)? {
            Some(former) => {
                context.reply.bulk(former);
                true
            }
            None => {
                context.reply.null();
                false
            }
        });
    }
    if options.condition != Condition::Always {
        let present = match present {
            Some(present) => present,
            None => context.keys.contains(key)?,
        };
        if present != (options.condition == Condition::Present) {
            if !options.get {
                context.reply.null();
            }
            return Ok(());
        }
    }
    context.keys.set(key, Value::String(Bytes::from_slice(value)), options.expiry)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, "set", key);
    if let Expiry::At(at) = options.expiry {
        context.keys.notify(EventClass::GENERIC, "expire", key);
        // The log has times, not spans.
        let words = [b"SET".as_slice(), key, value, b"PXAT", &number::integer_bytes(at)];
        context.keys.changes.propagate_instead(vec![words.iter().map(|word| Bytes::from_slice(word)).collect()]);
    }
    if !options.get {
        context.reply.ok();
    }
    Ok(())
}

fn increment(context: &mut Context<'_>, by: i64) -> Result<(), Failure> {
    let key = context.words.at(1);
    let former = match context.keys.get::<Bytes>(key)? {
        Some(text) => number::integer(text)?,
        None => 0,
    };
    let value = former.checked_add(by).ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    context.keys.set(key, Value::String(number::integer_bytes(value)), Expiry::Keep)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, "incrby", key);
    context.reply.integer(value);
    Ok(())
}
