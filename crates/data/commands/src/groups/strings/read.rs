//! Commands that read a string, and those that also do something with its key.

use std::ops::Range;

use keyspace::{Bytes, Failure, Millis, NEVER, changes::EventClass, number};

use crate::{
    Context,
    server::{Progress, Work},
};

use super::{BYTES_AS_ONE, LONG, expiry_of};

pub(super) fn get(context: &mut Context<'_>) -> Result<(), Failure> {
    match context.keys.get::<Bytes>(context.words.at(1))? {
        Some(value) if value.len() > LONG => {
            let all = 0..value.len();
            return give_long(context, all);
        }
        Some(value) => context.reply.bulk(value),
        None => context.reply.null(),
    }
    Ok(())
}

/// A key that holds anything but a string is as good as absent here.
pub(super) fn get_many(context: &mut Context<'_>) -> Result<(), Failure> {
    let start = context.reply.position();
    context.reply.array(context.words.len() - 1);
    for key in context.words.from(1) {
        match context.keys.get::<Bytes>(key) {
            Ok(Some(value)) => context.reply.bulk(value),
            Ok(None) | Err(Failure::WrongType) => context.reply.null(),
            Err(failure) => return Err(failure),
        }
        if let Some(failure) = context.shared.refused_at_once(context.reply.position() - start, "the reply") {
            return Err(failure);
        }
    }
    Ok(())
}

pub(super) fn length(context: &mut Context<'_>) -> Result<(), Failure> {
    let len = context.keys.get::<Bytes>(context.words.at(1))?.map_or(0, |value| value.len());
    context.reply.count(len);
    Ok(())
}

pub(super) fn range(context: &mut Context<'_>) -> Result<(), Failure> {
    let (start, end) = (context.words.integer(2)?, context.words.integer(3)?);
    let value = context.keys.get::<Bytes>(context.words.at(1))?.map_or(&[][..], |value| value);
    let part = part(value.len(), start, end);
    if part.len() > LONG {
        return give_long(context, part);
    }
    context.reply.bulk(value.get(part).unwrap_or_default());
    Ok(())
}

/// Gives so much of the key's string, over several turns.
fn give_long(context: &mut Context<'_>, part: Range<usize>) -> Result<(), Failure> {
    context.work_on(part.len() / BYTES_AS_ONE, Giving { at: part.start, part })
}

/// A long string that is being given.
#[derive(Debug)]
struct Giving {
    part: Range<usize>,
    at: usize,
}

impl Work for Giving {
    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let value = context.keys.look::<Bytes>(context.words.at(1))?.map_or(&[][..], |value| value);
        if self.at == self.part.start {
            context.reply.raw(format!("${}\r\n", self.part.len()).as_bytes());
        }
        let end = self.part.end.min(self.at.saturating_add(budget.saturating_mul(BYTES_AS_ONE)));
        context.reply.raw(value.get(self.at..end).unwrap_or_default());
        self.at = end;
        if self.at < self.part.end {
            return Ok(Progress::More);
        }
        context.reply.raw(b"\r\n");
        Ok(Progress::Done)
    }
}

/// From one index to another, both included; negative ones count from the end.
fn part(len: usize, start: i64, end: i64) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// What GETEX does with the key's expiry.
enum Change {
    None,
    Persist,
    At { at: Millis, absolute: bool },
}

pub(super) fn get_and_expire(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut persist = false;
    let mut option: Option<(&str, &[u8])> = None;
    let mut at = 2;
    while at < words.len() {
        if words.is(at, "PERSIST") && option.is_none() {
            persist = true;
        } else if !persist
            && at + 1 < words.len()
            && let Some(unit) = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|unit| words.is(at, unit))
            && option.is_none_or(|(former, _)| former == unit)
        {
            at += 1;
            option = Some((unit, words.at(at)));
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    let key = words.at(1);
    // The value's type is complained of before the time is.
    if context.keys.get::<Bytes>(key)?.is_none() {
        context.reply.null();
        return Ok(());
    }
    let change = match option {
        Some((unit, text)) => {
            let at = expiry_of(context, unit, text, "getex")?;
            Change::At { at, absolute: unit.ends_with("AT") }
        }
        None if persist => Change::Persist,
        None => Change::None,
    };
    if let Some(value) = context.keys.peek(key)?.and_then(|entry| entry.value.as_ref())
        && let keyspace::Value::String(value) = value
    {
        context.reply.bulk(value);
    }
    let (event, instead) = match change {
        Change::None => return Ok(()),
        Change::Persist => {
            if context.keys.expire_at(key)? == Some(NEVER) {
                return Ok(());
            }
            context.keys.set_expire_at(key, NEVER)?;
            ("persist", vec![Bytes::from_slice(b"PERSIST"), Bytes::from_slice(key)])
        }
        Change::At { at, absolute: true } if context.has_passed(at) => {
            context.keys.remove(key)?;
            ("del", vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)])
        }
        Change::At { at, .. } => {
            context.keys.set_expire_at(key, at)?;
            let at = number::integer_bytes(at);
            ("expire", vec![Bytes::from_slice(b"PEXPIREAT"), Bytes::from_slice(key), at])
        }
    };
    context.keys.modified(key);
    context.keys.notify(EventClass::GENERIC, event, key);
    context.keys.changes.propagate_instead(vec![instead]);
    Ok(())
}

pub(super) fn get_and_delete(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let Some(value) = context.keys.get::<Bytes>(key)? else {
        context.reply.null();
        return Ok(());
    };
    context.reply.bulk(value);
    context.keys.remove(key)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::GENERIC, "del", key);
    let instead = vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)];
    context.keys.changes.propagate_instead(vec![instead]);
    Ok(())
}
