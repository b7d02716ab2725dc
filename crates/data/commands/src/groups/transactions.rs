//! Transactions: commands that run together.

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

const GROUP: &str = "transactions";
const ALWAYS: Flags =
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST).union(Flags::ALLOW_BUSY);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("MULTI", 1, multi).flags(ALWAYS.union(Flags::NOT_QUEUED)).group(GROUP, Categories::TRANSACTION).docs(
        "1.2.0",
        "O(1)",
        "Begins a transaction: the server queues commands until EXEC.",
    ),
    // The server runs it: it calls other commands.
    Command::new("EXEC", 1, |_| Ok(()))
        .flags(
            Flags::NOSCRIPT
                .union(Flags::LOADING)
                .union(Flags::STALE)
                .union(Flags::SKIP_SLOWLOG)
                .union(Flags::RUNS_TRANSACTION)
                .union(Flags::NOT_QUEUED),
        )
        .group(GROUP, Categories::TRANSACTION)
        .docs("1.2.0", "that of the queued commands", "Runs the queued commands, unless a watched key has changed."),
    Command::new("DISCARD", 1, discard)
        .flags(ALWAYS.union(Flags::NOT_QUEUED))
        .group(GROUP, Categories::TRANSACTION)
        .docs("2.0.0", "O(N) for N queued commands", "Drops the queued commands."),
    Command::new("WATCH", -2, watch)
        .flags(ALWAYS.union(Flags::NOT_QUEUED))
        .keys(&[KeySpec::range(1, -1, 1, Access::RO)])
        .group(GROUP, Categories::TRANSACTION)
        .docs("2.2.0", "O(1) for each key", "Makes the next transaction fail if one of the keys changes before it.")
        .syntax("key#0..."),
    Command::new("UNWATCH", 1, unwatch).flags(ALWAYS).group(GROUP, Categories::TRANSACTION).docs(
        "2.2.0",
        "O(1)",
        "Stops watching all keys.",
    ),
];

fn multi(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.session.transaction.is_some() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    context.session.transaction = Some(Box::default());
    context.reply.ok();
    Ok(())
}

fn discard(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.session.transaction.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    context.shared.unwatch(context.session);
    context.reply.ok();
    Ok(())
}

fn watch(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.session.transaction.is_some() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    for key in context.words.from(1) {
        // A key that has expired changes no more.
        context.keys.contains(key)?;
    }
    for key in context.words.from(1) {
        context.shared.watch(context.session, key);
    }
    context.reply.ok();
    Ok(())
}

fn unwatch(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.unwatch(context.session);
    context.reply.ok();
    Ok(())
}
