//! Strings that are numbers.

use keyspace::{Bytes, Expiry, Failure, Value, changes::EventClass, long_double::LongDouble, number};

use crate::Context;

pub(super) fn increment(context: &mut Context<'_>) -> Result<(), Failure> {
    add(context, 1)
}

pub(super) fn decrement(context: &mut Context<'_>) -> Result<(), Failure> {
    add(context, -1)
}

pub(super) fn increment_by(context: &mut Context<'_>) -> Result<(), Failure> {
    add(context, context.words.integer(2)?)
}

pub(super) fn decrement_by(context: &mut Context<'_>) -> Result<(), Failure> {
    let by = context.words.integer(2)?;
    add(context, by.checked_neg().ok_or(Failure::text("ERR decrement would overflow"))?)
}

fn add(context: &mut Context<'_>, by: i64) -> Result<(), Failure> {
    let key = context.words.at(1);
    let former = match context.keys.look::<Bytes>(key)? {
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

/// The result is what is propagated, so that no other machine's arithmetic can come to another one.
pub(super) fn increment_by_float(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let former = match context.keys.look::<Bytes>(key)? {
        Some(text) => LongDouble::argument(text)?,
        None => LongDouble::ZERO,
    };
    let by = LongDouble::argument(context.words.at(2))?;
    let sum = former.plus(by).filter(|sum| sum.is_finite());
    let text = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?.text();
    context.reply.bulk(&text);
    context.keys.set(key, Value::String(text.clone()), Expiry::Keep)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, "incrbyfloat", key);
    let words = vec![Bytes::from_slice(b"SET"), Bytes::from_slice(key), text, Bytes::from_slice(b"KEEPTTL")];
    context.keys.changes.propagate_instead(vec![words]);
    Ok(())
}
