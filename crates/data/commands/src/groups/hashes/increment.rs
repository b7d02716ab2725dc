//! Numbers in fields.

use keyspace::{Bytes, Failure, changes::EventClass, long_double::LongDouble, number, value::Hash};

use crate::Context;

use super::limits;

pub(super) fn hincrby(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(1), context.words.at(2));
    let by = context.words.integer(3)?;
    let former = match context.keys.look::<Hash>(key)?.and_then(|hash| hash.get(name)) {
        Some(text) => number::parse_integer(&text).ok_or(Failure::text("ERR hash value is not an integer"))?,
        None => 0,
    };
    let value = former.checked_add(by).ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    let limits = limits(&context.shared.settings);
    context.keys.get_or_insert(key, Hash::new)?.set(name, &number::integer_bytes(value), limits);
    context.keys.modified(key);
    context.keys.notify(EventClass::HASH, "hincrby", key);
    context.reply.integer(value);
    Ok(())
}

pub(super) fn hincrbyfloat(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(1), context.words.at(2));
    let by = LongDouble::argument(context.words.at(3))?;
    if !by.is_finite() {
        return Err(Failure::text("ERR value is NaN or Infinity"));
    }
    let former = match context.keys.look::<Hash>(key)?.and_then(|hash| hash.get(name)) {
        Some(text) => LongDouble::parse(&text).ok_or(Failure::text("ERR hash value is not a float"))?,
        None => LongDouble::ZERO,
    };
    let sum = former.plus(by).filter(|sum| sum.is_finite());
    let text = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?.text();
    let limits = limits(&context.shared.settings);
    context.keys.get_or_insert(key, Hash::new)?.set(name, &text, limits);
    context.keys.modified(key);
    context.keys.notify(EventClass::HASH, "hincrbyfloat", key);
    context.reply.bulk(&text);
    // The sum is rounded: what is propagated is what came out.
    let words = [b"HSET".as_slice(), key, name, &text];
    context.keys.changes.propagate_instead(vec![words.into_iter().map(Bytes::from_slice).collect()]);
    Ok(())
}
