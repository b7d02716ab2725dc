//! Commands that bring a value to another key, or another database.

use keyspace::{
    Bytes, Database, Expiry, Failure, Keys, Millis, NEVER, Value,
    changes::EventClass,
    value::{copying::Copying, walk},
};

use crate::{
    Context,
    server::{Progress, Work},
};

const SAME: Failure = Failure::text("ERR source and destination objects are the same");

pub(super) fn rename(context: &mut Context<'_>) -> Result<(), Failure> {
    if !rename_key(context, true)? {
        return Err(Failure::NoSuchKey);
    }
    context.reply.ok();
    Ok(())
}

pub(super) fn rename_if_absent(context: &mut Context<'_>) -> Result<(), Failure> {
    let renamed = rename_key(context, false)?;
    context.reply.integer(i64::from(renamed));
    Ok(())
}

/// Returns whether the key has the new name now.
fn rename_key(context: &mut Context<'_>, overwrite: bool) -> Result<bool, Failure> {
    let (from, to) = (context.words.at(1), context.words.at(2));
    if !context.keys.contains(from)? {
        return Err(Failure::NoSuchKey);
    }
    if from == to {
        return Ok(overwrite);
    }
    if !overwrite && context.keys.contains(to)? {
        return Ok(false);
    }
    let Some((value, expire_at)) = context.keys.take(from)? else { return Ok(false) };
    put(&mut context.keys, to, value, expire_at)?;
    context.keys.modified(from);
    context.keys.touched(to);
    context.keys.notify(EventClass::GENERIC, "rename_from", from);
    context.keys.notify(EventClass::GENERIC, "rename_to", to);
    Ok(true)
}

/// Gives a key a value and an expiry, as if it had not been there.
fn put(keys: &mut Keys<'_>, key: &[u8], value: Value, expire_at: Millis) -> Result<(), Failure> {
    keys.remove(key)?;
    keys.set(key, value, if expire_at == NEVER { Expiry::Clear } else { Expiry::At(expire_at) })
}

/// A database by its number.
fn database(context: &Context<'_>, number: i64) -> Result<usize, Failure> {
    let number = usize::try_from(number).ok();
    number.filter(|number| *number < context.shared.settings.databases.0 as usize).ok_or(Failure::DatabaseRange)
}

/// An argument that is an integer of 32 bits.
fn short_integer(context: &Context<'_>, index: usize) -> Result<i64, Failure> {
    let number = context.words.integer(index)?;
    if i32::try_from(number).is_err() {
        let text = format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        return Err(Failure::owned(text));
    }
    Ok(number)
}

pub(super) fn move_to(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let to = database(context, short_integer(context, 2)?)?;
    if to == context.keys.db {
        return Err(SAME);
    }
    if !context.keys.contains(key)? || context.keys.on(to).contains(key)? {
        context.reply.integer(0);
        return Ok(());
    }
    // What is in memory goes as it is; records of elements stand under their database.
    let value = context.keys.peek(key)?.and_then(|entry| entry.value.as_ref());
    let weight = value.filter(|value| value.elements().is_some()).map_or(0, walk::weight);
    if context.session.takes_steps(weight, context.shared)
        && let Some(copying) = begin_copy(context, key, to)?
    {
        return context.work_on(weight, MoveInSteps { copying, to });
    }
    if let Some((value, expire_at)) = context.keys.take(key)? {
        put_moved(context, value, expire_at, to)?;
    }
    context.reply.integer(1);
    Ok(())
}

/// Gives what was taken from a key to the same key of another database.
fn put_moved(context: &mut Context<'_>, value: Value, expire_at: Millis, to: usize) -> Result<(), Failure> {
    let key = context.words.at(1);
    let mut there = context.keys.on(to);
    put(&mut there, key, value, expire_at)?;
    there.touched(key);
    context.keys.modified(key);
    context.keys.notify(EventClass::GENERIC, "move_from", key);
    context.keys.on(to).notify(EventClass::GENERIC, "move_to", key);
    Ok(())
}

/// MOVE of a large value: it is copied, and the last step removes it where it was.
#[derive(Debug)]
struct MoveInSteps {
    copying: Copying,
    to: usize,
}

impl Work for MoveInSteps {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let key = context.words.at(1);
        let Some(copy) = copy_some(context, &mut self.copying, budget)? else { return Ok(Progress::More) };
        let expire_at = context.keys.expire_at(key)?.unwrap_or(NEVER);
        context.keys.remove(key)?;
        put_moved(context, copy, expire_at, self.to)?;
        context.reply.integer(1);
        Ok(Progress::Done)
    }

    fn remains(&mut self) -> Vec<Value> {
        self.copying.remains().into_iter().collect()
    }
}

/// A copy of what a key holds, for a database, if it can be made in steps.
fn begin_copy(context: &mut Context<'_>, key: &[u8], db: usize) -> Result<Option<Copying>, Failure> {
    let disk = context.keys.space().database(db).map_or(0, Database::disk);
    let limits = context.shared.settings.value_limits(context.keys.seed());
    let value = context.keys.peek(key)?.and_then(|entry| entry.value.as_ref());
    Ok(value.and_then(|value| Copying::of(value, disk, limits)))
}

/// Goes on with the copy of the first key's value. Returns it when it is whole.
fn copy_some(context: &mut Context<'_>, copying: &mut Copying, budget: usize) -> Result<Option<Value>, Failure> {
    const UNREADABLE: Failure = Failure::text("ERR the value cannot be read");
    let (seed, source) = (context.keys.seed(), context.keys.space().source().cloned());
    let entry = context.keys.peek(context.words.at(1))?;
    let value = entry.and_then(|entry| entry.value.as_ref()).ok_or(UNREADABLE)?;
    if !copying.go_on(value, budget) {
        return Ok(None);
    }
    copying.finish(value, source.as_ref(), seed).ok_or(UNREADABLE).map(Some)
}

pub(super) fn copy(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (from, to) = (words.at(1), words.at(2));
    let mut replace = false;
    let mut db = context.keys.db;
    let mut at = 3;
    while at < words.len() {
        if words.is(at, "REPLACE") {
            replace = true;
        } else if words.is(at, "DB") && at + 1 < words.len() {
            at += 1;
            db = database(context, short_integer(context, at)?)?;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    if db == context.keys.db && from == to {
        return Err(SAME);
    }
    let Some(weight) = context.keys.value(from)?.map(walk::weight) else {
        context.reply.integer(0);
        return Ok(());
    };
    let mut there = context.keys.on(db);
    if !replace && there.contains(to)? {
        context.reply.integer(0);
        return Ok(());
    }
    if context.session.takes_steps(weight, context.shared)
        && let Some(copying) = begin_copy(context, from, db)?
    {
        return context.work_on(weight, CopyInSteps { copying, db });
    }
    let value = context.keys.peek(from)?.and_then(|entry| entry.value.clone());
    let Some(value) = value else { return Ok(()) };
    put_copy(context, value, db)
}

/// Gives the copy to the key that is to have it.
fn put_copy(context: &mut Context<'_>, value: Value, db: usize) -> Result<(), Failure> {
    let (from, to) = (context.words.at(1), context.words.at(2));
    let expire_at = context.keys.expire_at(from)?.unwrap_or(NEVER);
    let mut there = context.keys.on(db);
    put(&mut there, to, value, expire_at)?;
    there.modified(to);
    there.notify(EventClass::GENERIC, "copy_to", to);
    context.reply.integer(1);
    Ok(())
}

/// COPY of a large value.
#[derive(Debug)]
struct CopyInSteps {
    copying: Copying,
    db: usize,
}

impl Work for CopyInSteps {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let Some(copy) = copy_some(context, &mut self.copying, budget)? else { return Ok(Progress::More) };
        put_copy(context, copy, self.db)?;
        Ok(Progress::Done)
    }

    fn remains(&mut self) -> Vec<Value> {
        self.copying.remains().into_iter().collect()
    }
}

pub(super) fn swap_databases(context: &mut Context<'_>) -> Result<(), Failure> {
    let number = |index: usize, error: &'static str| {
        let number = keyspace::number::parse_integer(context.words.at(index));
        number.filter(|number| i32::try_from(*number).is_ok()).ok_or(Failure::text(error))
    };
    let one = number(1, "ERR invalid first DB index")?;
    let other = number(2, "ERR invalid second DB index")?;
    let (one, other) = (database(context, one)?, database(context, other)?);
    if one != other {
        // Whoever watches or waits for a key sees another one in its place.
        let mut concerned: Vec<(usize, Bytes)> = Vec::new();
        for (db, key) in
            context.shared.sessions.watches.by_key.keys().chain(context.shared.sessions.blocked.queues.keys())
        {
            if [one, other].contains(db)
                && (context.keys.on(one).contains(key)? || context.keys.on(other).contains(key)?)
            {
                concerned.push((*db, key.clone()));
            }
        }
        context.keys.space().swap(one, other);
        context.keys.changes.modified.extend(concerned);
    }
    context.keys.changes.dirty += 1;
    context.reply.ok();
    Ok(())
}
