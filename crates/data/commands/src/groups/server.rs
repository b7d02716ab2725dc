//! Commands about the server.

use std::ops::Range;

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

const GROUP: &str = "server";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("DBSIZE", 1, dbsize)
        .flags(Flags::READONLY.union(Flags::FAST))
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Returns the number of keys in the database."),
    Command::new("MONITOR", 1, monitor)
        .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
        .group(GROUP, Categories::empty())
        .docs("1.0.0", "O(1)", "Shows all commands that run."),
    Command::new("LOLWUT", -1, lolwut)
        .flags(Flags::READONLY.union(Flags::FAST))
        .group(GROUP, Categories::empty())
        .docs("5.0.0", "O(1)", "Returns the version of Redis that the store follows.")
        .syntax("[VERSION/version:integer]"),
    Command::new("FLUSHDB", -1, flushdb)
        .flags(Flags::WRITE)
        .group(GROUP, Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("1.0.0", "O(N) for N keys", "Removes all keys of the database.")
        .syntax("[async<ASYNC@4.0.0|SYNC@6.2.0>]"),
    Command::new("FLUSHALL", -1, flushall)
        .flags(Flags::WRITE)
        .group(GROUP, Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("1.0.0", "O(N) for N keys", "Removes all keys of all databases.")
        .syntax("[async<ASYNC@4.0.0|SYNC@6.2.0>]"),
];

fn monitor(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.session.deny_blocking {
        return Err(Failure::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !context.session.listening.monitors {
        context.shared.monitor(context.session);
        context.reply.ok();
    }
    Ok(())
}

fn lolwut(context: &mut Context<'_>) -> Result<(), Failure> {
    let text = format!("Redis ver. {}\n", crate::REDIS_VERSION);
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn dbsize(context: &mut Context<'_>) -> Result<(), Failure> {
    let db = context.keys.db;
    let len = context.keys.space().database(db).map_or(0, keyspace::Database::len);
    context.reply.count(len);
    Ok(())
}

/// ASYNC and SYNC are the same here: memory is given back as the keys go, what is on disk goes in the background.
fn check_mode(context: &Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() == 1 || words.len() == 2 && (words.is(1, "ASYNC") || words.is(1, "SYNC")) {
        return Ok(());
    }
    Err(Failure::Syntax)
}

/// Tells who watches or waits for a key of emptied databases.
fn touch_all(context: &mut Context<'_>, dbs: Range<usize>) -> Result<(), Failure> {
    for (db, key) in context.shared.sessions.watches.by_key.keys().chain(context.shared.sessions.blocked.queues.keys())
    {
        if dbs.contains(db) && context.keys.on(*db).contains(key)? {
            context.keys.on(*db).touched(key);
        }
    }
    Ok(())
}

fn flushdb(context: &mut Context<'_>) -> Result<(), Failure> {
    check_mode(context)?;
    let db = context.keys.db;
    touch_all(context, db..db + 1)?;
    context.keys.clear()?;
    context.keys.changes.dirty += 1;
    context.keys.changes.flushed = true;
    context.reply.ok();
    Ok(())
}

fn flushall(context: &mut Context<'_>) -> Result<(), Failure> {
    check_mode(context)?;
    let all = 0..context.keys.space().len();
    touch_all(context, all.clone())?;
    for db in all {
        context.keys.on(db).clear()?;
    }
    context.keys.changes.dirty += 1;
    context.keys.changes.flushed = true;
    if !context.shared.settings.save.points.is_empty() {
        // Redis saves here, and counts anew: of nothing there is nothing to save.
        context.shared.changes_at_checkpoint = context.keys.changes.dirty;
    }
    context.reply.ok();
    Ok(())
}
