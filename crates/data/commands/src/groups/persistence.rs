//! Commands that bring data to the disk, and the end of the server.
//!
//! Data is in the log as soon as a command is answered, as `appendfsync` says; what Redis calls saving is here a checkpoint of
//! the tables, after which a start has less of the log to run again.

use keyspace::Failure;

use crate::{
    Context,
    server::{Command, Request},
    table::{Categories, Flags},
};

const GROUP: &str = "server";
const FLAGS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);
const SAVING: Flags = FLAGS.union(Flags::NO_ASYNC_LOADING);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("BGREWRITEAOF", 1, rewrite_log).flags(SAVING).group(GROUP, Categories::empty()).docs(
        "1.0.0",
        "O(1)",
        "Begins a checkpoint. The log needs no rewriting: it loses the part that the tables have.",
    ),
    Command::new("BGSAVE", -1, background_save)
        .flags(SAVING)
        .group(GROUP, Categories::empty())
        .docs("1.0.0", "O(1)", "Begins a checkpoint.")
        .syntax("[SCHEDULE@3.2.2]"),
    Command::new("LASTSAVE", 1, last_save)
        .flags(Flags::LOADING.union(Flags::STALE).union(Flags::FAST))
        .group(GROUP, Categories::ADMIN.union(Categories::DANGEROUS))
        .docs("1.0.0", "O(1)", "Returns when the last checkpoint ended, in seconds since 1970."),
    Command::new("SAVE", 1, save).flags(SAVING.union(Flags::NO_MULTI)).group(GROUP, Categories::empty()).docs(
        "1.0.0",
        "O(N) for N keys that changed since the last one",
        "Makes a checkpoint, and waits for it.",
    ),
    Command::new("SHUTDOWN", -1, shutdown)
        .flags(FLAGS.union(Flags::NO_MULTI).union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::empty())
        .docs("1.0.0", "O(N) for N keys that changed since the last checkpoint", "Ends the server.")
        .syntax("[nosave_save<NOSAVE|SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]"),
];

fn save(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.shared.persistence.in_progress {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    // What changed and is not in the log must not become part of the tables.
    if let Some(reason) = &context.shared.condition.refuse_writes {
        return Err(Failure::owned(reason.clone()));
    }
    context.shared.outbox.push(Request::Save);
    context.reply.ok();
    Ok(())
}

fn background_save(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if !(words.len() == 1 || words.len() == 2 && words.is(1, "SCHEDULE")) {
        return Err(Failure::Syntax);
    }
    if context.shared.persistence.in_progress {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    context.shared.outbox.push(Request::Checkpoint);
    context.reply.simple("Background saving started");
    Ok(())
}

fn rewrite_log(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.shared.outbox.wants_checkpoint() {
        return Err(Failure::text("ERR Background append only file rewriting already in progress"));
    }
    context.shared.outbox.push(Request::Checkpoint);
    context.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn last_save(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.integer(context.shared.persistence.last_checkpoint / 1000);
    Ok(())
}

fn shutdown(context: &mut Context<'_>) -> Result<(), Failure> {
    let (mut save, mut no_save, mut abort) = (false, false, false);
    for index in 1..context.words.len() {
        let word = |name| context.words.is(index, name);
        if word("SAVE") && !no_save {
            save = true;
        } else if word("NOSAVE") && !save {
            no_save = true;
        } else if word("ABORT") {
            abort = true;
        } else if !word("NOW") && !word("FORCE") {
            return Err(Failure::Syntax);
        }
    }
    if abort && context.words.len() > 2 {
        return Err(Failure::Syntax);
    }
    if abort {
        if !std::mem::take(&mut context.shared.shutdown.waits) {
            return Err(Failure::text("ERR No shutdown in progress."));
        }
        context.shared.outbox.push(Request::AbortShutdown);
        context.reply.ok();
        return Ok(());
    }
    if let Some(running) =
        context.shared.scripting.running.as_deref().filter(|_| context.shared.scripting.is_busy && !no_save)
    {
        // Half of what a script does must not reach the disk.
        return Err(running.busy_failure());
    }
    context.shared.shutdown.without_checkpoint = no_save;
    context.shared.shutdown.is_asked = true;
    Ok(())
}
