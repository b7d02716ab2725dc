//! Commands about the time when keys expire.

use keyspace::{Bytes, Failure, Millis, NEVER, changes::EventClass, number};

use crate::Context;

pub(super) fn expire(context: &mut Context<'_>) -> Result<(), Failure> {
    set_expiry(context, "expire", 1000, context.counted_from())
}

pub(super) fn pexpire(context: &mut Context<'_>) -> Result<(), Failure> {
    set_expiry(context, "pexpire", 1, context.counted_from())
}

pub(super) fn expireat(context: &mut Context<'_>) -> Result<(), Failure> {
    set_expiry(context, "expireat", 1000, 0)
}

pub(super) fn pexpireat(context: &mut Context<'_>) -> Result<(), Failure> {
    set_expiry(context, "pexpireat", 1, 0)
}

/// On what it depends whether an expiry is set.
#[derive(Default)]
struct Conditions {
    has_none: bool,
    has_one: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn read(context: &Context<'_>) -> Result<Self, Failure> {
        let mut conditions = Self::default();
        for word in context.words.from(3) {
            let flag = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.has_none,
                b"xx" => &mut conditions.has_one,
                b"gt" => &mut conditions.later,
                b"lt" => &mut conditions.earlier,
                _ => return Err(Failure::owned(format!("ERR Unsupported option {}", String::from_utf8_lossy(word)))),
            };
            *flag = true;
        }
        if conditions.has_none && (conditions.has_one || conditions.later || conditions.earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Failure::text(text));
        }
        if conditions.later && conditions.earlier {
            return Err(Failure::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// A key without expiry counts as one that expires later than any other.
    fn hold(&self, former: Millis, at: Millis) -> bool {
        let has_one = former != NEVER;
        !(self.has_none && has_one
            || self.has_one && !has_one
            || self.later && (!has_one || at <= former)
            || self.earlier && has_one && at >= former)
    }
}

fn set_expiry(context: &mut Context<'_>, command: &str, unit_ms: i64, base: Millis) -> Result<(), Failure> {
    let invalid = || Failure::owned(format!("ERR invalid expire time in '{command}' command"));
    let key = context.words.at(1);
    let conditions = Conditions::read(context)?;
    let at = context.words.integer(2)?.checked_mul(unit_ms).ok_or_else(invalid)?;
    // The largest number of all stands for keys that do not expire.
    let at = at.checked_add(base).ok_or_else(invalid)?.min(NEVER - 1);
    let former = context.keys.expire_at(key)?;
    if !former.is_some_and(|former| conditions.hold(former, at)) {
        context.reply.integer(0);
        return Ok(());
    }
    let (event, instead) = if context.has_passed(at) {
        context.keys.remove(key)?;
        ("del", vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)])
    } else {
        context.keys.set_expire_at(key, at)?;
        ("expire", vec![Bytes::from_slice(b"PEXPIREAT"), Bytes::from_slice(key), number::integer_bytes(at)])
    };
    context.keys.modified(key);
    context.keys.notify(EventClass::GENERIC, event, key);
    context.keys.changes.propagate_instead(vec![instead]);
    context.reply.integer(1);
    Ok(())
}

pub(super) fn ttl(context: &mut Context<'_>) -> Result<(), Failure> {
    let now = context.now();
    answer_time(context, |at| rounded_seconds((at - now).max(0)))
}

pub(super) fn pttl(context: &mut Context<'_>) -> Result<(), Failure> {
    let now = context.now();
    answer_time(context, |at| (at - now).max(0))
}

pub(super) fn expiretime(context: &mut Context<'_>) -> Result<(), Failure> {
    answer_time(context, rounded_seconds)
}

pub(super) fn pexpiretime(context: &mut Context<'_>) -> Result<(), Failure> {
    answer_time(context, |at| at)
}

fn rounded_seconds(ms: Millis) -> i64 {
    ms.saturating_add(500) / 1000
}

fn answer_time(context: &mut Context<'_>, of: impl FnOnce(Millis) -> i64) -> Result<(), Failure> {
    const NO_KEY: i64 = -2;
    const NO_EXPIRY: i64 = -1;
    let key = context.words.at(1);
    let expire_at = context.keys.expire_at(key)?;
    context.keys.asked(key, expire_at.is_some());
    let answer = match expire_at {
        None => NO_KEY,
        Some(NEVER) => NO_EXPIRY,
        Some(at) => of(at),
    };
    context.reply.integer(answer);
    Ok(())
}

pub(super) fn persist(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let expires = context.keys.expire_at(key)?.is_some_and(|at| at != NEVER);
    if expires {
        context.keys.set_expire_at(key, NEVER)?;
        context.keys.modified(key);
        context.keys.notify(EventClass::GENERIC, "persist", key);
    }
    context.reply.integer(i64::from(expires));
    Ok(())
}
