//! Commands that give keys strings.

use keyspace::{
    Bytes, Expiry, Failure, Millis, Value,
    changes::{Encoded, EventClass},
    number,
};

use crate::{
    Context,
    server::{Progress, reading_steps},
    table::Access,
};

use super::{BYTES_AS_ONE, LONG, expiry_of};

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
    let mut expires: Option<(&str, &[u8])> = None;
    let mut at = 3;
    while at < words.len() {
        if words.is(at, "NX") && options.condition != Condition::Present {
            options.condition = Condition::Absent;
        } else if words.is(at, "XX") && options.condition != Condition::Absent {
            options.condition = Condition::Present;
        } else if words.is(at, "GET") {
            options.get = true;
        } else if words.is(at, "KEEPTTL") && expires.is_none() {
            options.expiry = Expiry::Keep;
        } else if options.expiry == Expiry::Clear
            && at + 1 < words.len()
            && let Some(unit) = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|unit| words.is(at, unit))
            && expires.is_none_or(|(former, _)| former == unit)
        {
            expires = Some((unit, words.at(at + 1)));
            at += 1;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    if let Some((unit, text)) = expires {
        options.expiry = Expiry::At(expiry_of(context, unit, text, "set")?);
    }
    Ok(options)
}

/// What SET does with its key: what the answer is made of is read, else it is overwritten unseen.
pub(super) fn access(words: &[&[u8]]) -> Access {
    if words.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"GET")) {
        Access::RW | Access::ACCESS | Access::UPDATE
    } else {
        Access::OW | Access::UPDATE
    }
}

pub(super) fn set(context: &mut Context<'_>) -> Result<(), Failure> {
    let options = set_options(context)?;
    with_value(context, 2, move |context, value| set_value(context, &options, value))
}

/// Has the value at a place among the words copied, over several turns if it is long, then does something with it.
fn with_value<F>(context: &mut Context<'_>, place: usize, mut then: F) -> Result<(), Failure>
where
    F: FnMut(&mut Context<'_>, Bytes) -> Result<(), Failure> + 'static,
{
    let word = context.words.at(place);
    if word.len() <= LONG {
        return then(context, Bytes::from_slice(word));
    }
    let mut value = Vec::with_capacity(word.len());
    let step = move |context: &mut Context<'_>, budget: usize| {
        let word = context.words.at(place);
        let end = word.len().min(value.len().saturating_add(budget.saturating_mul(BYTES_AS_ONE)));
        value.extend_from_slice(word.get(value.len()..end).unwrap_or_default());
        if value.len() < word.len() {
            return Ok(Progress::More);
        }
        then(context, Bytes::from_vec(std::mem::take(&mut value)))?;
        Ok(Progress::Done)
    };
    context.work_on(word.len() / BYTES_AS_ONE, reading_steps(step))
}

fn set_value(context: &mut Context<'_>, options: &SetOptions, value: Bytes) -> Result<(), Failure> {
    let key = context.words.at(1);
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
    match options.expiry {
        Expiry::At(at) => put_until(context, 2, value, at)?,
        expiry => put_value(context, key, value, expiry)?,
    }
    if !options.get {
        context.reply.ok();
    }
    Ok(())
}

/// Gives a key a string.
fn put(context: &mut Context<'_>, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Failure> {
    put_value(context, key, Bytes::from_slice(value), expiry)
}

fn put_value(context: &mut Context<'_>, key: &[u8], value: Bytes, expiry: Expiry) -> Result<(), Failure> {
    context.keys.set(key, Value::String(value), expiry)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, "set", key);
    Ok(())
}

/// Gives the key a string that expires, the word at a place. The log has times, not spans.
fn put_until(context: &mut Context<'_>, place: usize, value: Bytes, at: Millis) -> Result<(), Failure> {
    let (key, word) = (context.words.at(1), context.words.at(place));
    put_value(context, key, value, Expiry::At(at))?;
    context.keys.notify(EventClass::GENERIC, "expire", key);
    let mut instead = Encoded::default();
    instead.command(5);
    instead.word(b"SET");
    instead.word(key);
    instead.received_word(context.session.sent.as_ref(), place, word);
    instead.word(b"PXAT");
    instead.word(&number::integer_bytes(at));
    context.keys.changes.propagate_encoded(instead);
    Ok(())
}

pub(super) fn set_if_absent(context: &mut Context<'_>) -> Result<(), Failure> {
    with_value(context, 2, |context, value| {
        let key = context.words.at(1);
        let is_there = context.keys.contains(key)?;
        if !is_there {
            put_value(context, key, value, Expiry::Clear)?;
        }
        context.reply.integer(i64::from(!is_there));
        Ok(())
    })
}

pub(super) fn set_with_seconds(context: &mut Context<'_>) -> Result<(), Failure> {
    set_with(context, "EX", "setex")
}

pub(super) fn set_with_milliseconds(context: &mut Context<'_>) -> Result<(), Failure> {
    set_with(context, "PX", "psetex")
}

fn set_with(context: &mut Context<'_>, unit: &str, command: &str) -> Result<(), Failure> {
    let at = expiry_of(context, unit, context.words.at(2), command)?;
    with_value(context, 3, move |context, value| {
        put_until(context, 3, value, at)?;
        context.reply.ok();
        Ok(())
    })
}

pub(super) fn get_and_set(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, value) = (context.words.at(1), context.words.at(2));
    match context.keys.get::<Bytes>(key)? {
        Some(former) => context.reply.bulk(former),
        None => context.reply.null(),
    }
    put(context, key, value, Expiry::Clear)?;
    let words = [b"SET".as_slice(), key, value];
    context.keys.changes.propagate_instead(vec![words.iter().map(|word| Bytes::from_slice(word)).collect()]);
    Ok(())
}

/// The keys and values of MSET and MSETNX.
fn pairs<'a>(context: &Context<'a>, command: &str) -> Result<&'a [[&'a [u8]; 2]], Failure> {
    match context.words.from(1).as_chunks::<2>() {
        (pairs, []) => Ok(pairs),
        _ => Err(Failure::owned(format!("ERR wrong number of arguments for '{command}' command"))),
    }
}

pub(super) fn set_many(context: &mut Context<'_>) -> Result<(), Failure> {
    for [key, value] in pairs(context, "mset")? {
        put(context, key, value, Expiry::Clear)?;
    }
    context.reply.ok();
    Ok(())
}

pub(super) fn set_many_if_absent(context: &mut Context<'_>) -> Result<(), Failure> {
    let pairs = pairs(context, "msetnx")?;
    for [key, _] in pairs {
        if context.keys.contains(key)? {
            context.reply.integer(0);
            return Ok(());
        }
    }
    for [key, value] in pairs {
        put(context, key, value, Expiry::Clear)?;
    }
    context.reply.integer(1);
    Ok(())
}
