//! Hashes.

mod increment;
mod random;

use keyspace::{
    Failure,
    changes::EventClass,
    value::{Form, Hash, hash::HashLimits},
};
use resp::Reply;

use crate::{
    Context,
    arguments::{self, ScanOptions},
    config::Settings,
    server::{Command, Handler, Progress, Scanning, Wide, giving_steps},
    session::Rest,
    table::{Access, Categories, ElementWords, Flags, KeySpec, Replies},
};

const GROUP: &str = "hash";
const READ: Flags = Flags::READONLY.union(Flags::FAST);
const WRITE: Flags = Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST);

const fn command(name: &'static str, arity: i32, handler: Handler, flags: Flags, keys: &'static [KeySpec]) -> Command {
    Command::new(name, arity, handler).flags(flags).keys(keys).group(GROUP, Categories::HASH)
}

const LOOKED_AT: &[KeySpec] = &[KeySpec::one(1, Access::RO)];
const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];
const UPDATES: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::UPDATE))];
const INCREMENTS: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))];
const INSERTS: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::INSERT))];
const DELETES: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::DELETE))];

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    command("HDEL", -3, hdel, Flags::WRITE.union(Flags::FAST), DELETES)
        .elements(ElementWords::names(2, 1))
        .docs("2.0.0", "O(N) for N fields to be removed", "Removes fields.")
        .syntax("key#0 field...")
        .wide(Wide::new(1, Replies::Sum)),
    command("HEXISTS", 3, hexists, READ, LOOKED_AT)
        .elements(ElementWords::name(2))
        .docs("2.0.0", "O(1)", "Says whether a field exists.")
        .syntax("key#0 field"),
    command("HGET", 3, hget, READ, READS)
        .elements(ElementWords::name(2))
        .docs("2.0.0", "O(1)", "Returns the value of a field.")
        .syntax("key#0 field"),
    command("HGETALL", 2, hgetall, Flags::READONLY, READS)
        .docs("2.0.0", "O(N) for N fields", "Returns all fields with their values.")
        .syntax("key#0"),
    command("HINCRBY", 4, increment::hincrby, WRITE, INCREMENTS)
        .elements(ElementWords::name(2))
        .docs("2.0.0", "O(1)", "Adds to the integer of a field.")
        .syntax("key#0 field increment:integer"),
    command("HINCRBYFLOAT", 4, increment::hincrbyfloat, WRITE, INCREMENTS)
        .elements(ElementWords::name(2))
        .docs("2.6.0", "O(1)", "Adds to the number of a field.")
        .syntax("key#0 field increment:double"),
    command("HKEYS", 2, hkeys, Flags::READONLY, READS)
        .docs("2.0.0", "O(N) for N fields", "Returns the names of all fields.")
        .syntax("key#0"),
    command("HLEN", 2, hlen, READ, LOOKED_AT).docs("2.0.0", "O(1)", "Returns the number of fields.").syntax("key#0"),
    command("HMGET", -3, hmget, READ, READS)
        .elements(ElementWords::names(2, 1))
        .docs("2.0.0", "O(N) for N fields asked for", "Returns the values of some fields.")
        .syntax("key#0 field...")
        .wide(Wide::new(1, Replies::Joined)),
    command("HMSET", -4, hmset, WRITE, UPDATES)
        .elements(ElementWords::names(2, 2))
        .docs("2.0.0", "O(N) for N fields to be set", "Sets fields, as HSET does.")
        .syntax("key#0 field_value{field value}...")
        .wide(Wide::new(2, Replies::Last)),
    command("HRANDFIELD", -2, random::hrandfield, Flags::READONLY, READS)
        .docs("6.2.0", "O(N) for N fields given", "Returns random fields.")
        .syntax("key#0 [options{count:integer [WITHVALUES]}]"),
    command("HSCAN", -3, hscan, Flags::READONLY, READS)
        .docs("2.8.0", "O(1) a call, O(N) for a walk over N fields", "Walks over the fields in steps.")
        .syntax("key#0 cursor:integer [MATCH/pattern:pattern] [COUNT/count:integer]"),
    command("HSET", -4, hset, WRITE, UPDATES)
        .elements(ElementWords::names(2, 2))
        .docs("2.0.0", "O(N) for N fields to be set", "Sets fields.")
        .syntax("key#0 field_value{field value}...")
        .wide(Wide::new(2, Replies::Sum)),
    command("HSETNX", 4, hsetnx, WRITE, INSERTS)
        .elements(ElementWords::name(2))
        .docs("2.0.0", "O(1)", "Sets a field if it does not exist.")
        .syntax("key#0 field value"),
    command("HSTRLEN", 3, hstrlen, READ, LOOKED_AT)
        .elements(ElementWords::name(2))
        .docs("3.2.0", "O(1)", "Returns the length of a field's value.")
        .syntax("key#0 field"),
    command("HVALS", 2, hvals, Flags::READONLY, READS)
        .docs("2.0.0", "O(N) for N fields", "Returns the values of all fields.")
        .syntax("key#0"),
];

fn limits(settings: &Settings) -> HashLimits {
    settings.hash_limits()
}

fn hget(context: &mut Context<'_>) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    context.reply.bulk_or_null(hash.and_then(|hash| hash.get(context.words.at(2))).as_deref());
    Ok(())
}

fn hmget(context: &mut Context<'_>) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    let names = context.words.from(2);
    let start = context.reply.position();
    context.reply.array(names.len());
    for name in names {
        context.reply.bulk_or_null(hash.and_then(|hash| hash.get(name)).as_deref());
        if let Some(failure) = context.shared.refused_at_once(context.reply.position() - start, "the reply") {
            return Err(failure);
        }
    }
    Ok(())
}

fn hexists(context: &mut Context<'_>) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    context.reply.integer(i64::from(hash.is_some_and(|hash| hash.contains(context.words.at(2)))));
    Ok(())
}

fn hlen(context: &mut Context<'_>) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    context.reply.count(hash.map_or(0, Hash::len));
    Ok(())
}

fn hstrlen(context: &mut Context<'_>) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    context.reply.count(hash.and_then(|hash| hash.get(context.words.at(2))).map_or(0, |value| value.len()));
    Ok(())
}

fn hgetall(context: &mut Context<'_>) -> Result<(), Failure> {
    let each = |reply: &mut Reply<'_>, name: &[u8], value: &[u8]| {
        reply.bulk(name);
        reply.bulk(value);
    };
    give_all(context, Form::Fields, |reply, len| reply.map(len), each)
}

fn hkeys(context: &mut Context<'_>) -> Result<(), Failure> {
    give_all(context, Form::Names, |reply, len| reply.array(len), |reply, name, _| reply.bulk(name))
}

fn hvals(context: &mut Context<'_>) -> Result<(), Failure> {
    give_all(context, Form::Values, |reply, len| reply.array(len), |reply, _, value| reply.bulk(value))
}

/// Gives something of all fields: in portions if they are very many, or in steps.
fn give_all(
    context: &mut Context<'_>,
    form: Form,
    header: impl Fn(&mut Reply<'_>, usize) + 'static,
    each: impl Fn(&mut Reply<'_>, &[u8], &[u8]) + 'static,
) -> Result<(), Failure> {
    let hash = context.keys.get::<Hash>(context.words.at(1))?;
    let Some(hash) = hash else {
        header(&mut context.reply, 0);
        return Ok(());
    };
    let len = hash.len();
    if context.session.takes_turns(len, context.shared)
        && let Some(portions) = hash.portions(form)
    {
        header(&mut context.reply, len);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
    } else if context.session.takes_steps(len, context.shared) {
        let mut cursor = 0;
        let step = move |context: &mut Context<'_>, budget: usize| {
            let reply = &mut context.reply;
            if cursor == 0 {
                header(reply, len);
            }
            if let Some(hash) = context.keys.look::<Hash>(context.words.at(1))? {
                cursor = hash.scan_once(cursor, budget, |name, value| each(reply, name, value));
            }
            Ok(Progress::over_if(cursor == 0))
        };
        return context.work_on(len, giving_steps(step));
    } else {
        header(&mut context.reply, len);
        hash.each(|name, value| each(&mut context.reply, name, value));
    }
    Ok(())
}

/// Sets the fields of the command; returns how many are new.
fn set_fields(context: &mut Context<'_>, name: &str) -> Result<usize, Failure> {
    let words = context.words;
    if !words.len().is_multiple_of(2) {
        return Err(Failure::owned(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let limits = limits(&context.shared.settings);
    let key = words.at(1);
    let hash = context.keys.get_or_insert(key, Hash::new)?;
    let mut new = 0;
    let mut at = 2;
    while at < words.len() {
        new += usize::from(hash.set(words.at(at), words.at(at + 1), limits));
        at += 2;
    }
    context.keys.modified_by(key, words.len() / 2 - 1);
    context.keys.notify(EventClass::HASH, "hset", key);
    Ok(new)
}

fn hset(context: &mut Context<'_>) -> Result<(), Failure> {
    let new = set_fields(context, "hset")?;
    context.reply.count(new);
    Ok(())
}

fn hmset(context: &mut Context<'_>) -> Result<(), Failure> {
    set_fields(context, "hmset")?;
    context.reply.ok();
    Ok(())
}

fn hsetnx(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(1), context.words.at(2));
    if context.keys.look::<Hash>(key)?.is_some_and(|hash| hash.contains(name)) {
        context.reply.integer(0);
        return Ok(());
    }
    let limits = limits(&context.shared.settings);
    context.keys.get_or_insert(key, Hash::new)?.set(name, context.words.at(3), limits);
    context.keys.modified(key);
    context.keys.notify(EventClass::HASH, "hset", key);
    context.reply.integer(1);
    Ok(())
}

fn hdel(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let Some(hash) = context.keys.get_mut::<Hash>(key)? else {
        context.reply.integer(0);
        return Ok(());
    };
    let mut removed = 0;
    for name in context.words.from(2) {
        removed += usize::from(hash.remove(name));
    }
    let empty = hash.is_empty();
    if removed > 0 {
        context.keys.modified_by(key, removed);
        context.keys.notify(EventClass::HASH, "hdel", key);
        if empty {
            context.keys.remove_if(key, Hash::is_empty)?;
        }
    }
    context.reply.count(removed);
    Ok(())
}

fn hscan(context: &mut Context<'_>) -> Result<(), Failure> {
    let cursor = arguments::cursor(context.words.at(2))?;
    let Some(hash) = context.keys.get::<Hash>(context.words.at(1))? else {
        context.reply.array(2);
        context.reply.bulk(b"0");
        context.reply.array(0);
        return Ok(());
    };
    let (len, count) = (hash.len(), ScanOptions::parse(context.words, 3)?.count);
    context.work_on(count.min(len), Scanning::new(cursor, count, scan_some))
}

fn scan_some(context: &mut Context<'_>, cursor: u64, count: usize) -> Result<(u64, usize), Failure> {
    let options = ScanOptions::parse(context.words, 3)?;
    let Some(hash) = context.keys.look::<Hash>(context.words.at(1))? else { return Ok((0, 0)) };
    let (reply, mut found) = (&mut context.reply, 0);
    let next = hash.scan(cursor, count, |name, value| {
        if options.matches(name) {
            reply.bulk(name);
            reply.bulk(value);
            found += 2;
        }
    });
    Ok((next, found))
}
