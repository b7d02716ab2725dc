//! `CLIENT`: about connections.

use crate::{
    Context, Failure, SessionId,
    session::ReplyMode,
    table::{Categories, Command, Flags},
};

const GROUP: &str = "connection";
const FLAGS: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("CLIENT", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::CONNECTION)
    .docs("2.4.0", "depends on the subcommand", "About connections.")
    .subcommands(&[
        Command::new("GETNAME", 2, getname).flags(FLAGS).group(GROUP, Categories::CONNECTION).docs(
            "2.6.9",
            "O(1)",
            "The name of the connection.",
        ),
        Command::new("ID", 2, id).flags(FLAGS).group(GROUP, Categories::CONNECTION).docs(
            "5.0.0",
            "O(1)",
            "The number of the connection.",
        ),
        Command::new("REPLY", 3, reply).flags(FLAGS).group(GROUP, Categories::CONNECTION).docs(
            "3.2.0",
            "O(1)",
            "Says whether commands are answered.",
        ),
        Command::new("UNBLOCK", -3, unblock)
            .flags(FLAGS.union(Flags::ADMIN))
            .group(GROUP, Categories::CONNECTION)
            .docs("5.0.0", "O(log N) for N waiting clients", "Ends another connection's waiting for keys."),
    ])];

fn getname(context: &mut Context<'_>) -> Result<(), Failure> {
    let name = &context.session.name;
    context.reply.bulk_or_null(Some(name.as_slice()).filter(|name| !name.is_empty()));
    Ok(())
}

fn id(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.integer(context.session.id.0 as i64);
    Ok(())
}

fn reply(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.is(2, "ON") {
        context.session.reply_mode = ReplyMode::On;
        context.reply.ok();
    } else if words.is(2, "OFF") {
        context.session.reply_mode = ReplyMode::Off;
    } else if words.is(2, "SKIP") {
        if context.session.reply_mode != ReplyMode::Off {
            context.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(Failure::Syntax);
    }
    Ok(())
}

fn unblock(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let error = match words.len() {
        3 => None,
        4 if words.is(3, "TIMEOUT") => None,
        4 if words.is(3, "ERROR") => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        4 => return Err(Failure::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(Failure::Syntax),
    };
    let id = words.integer(2)?;
    let waited = u64::try_from(id).is_ok_and(|id| context.shared.end_blocking(SessionId(id), error));
    context.reply.integer(i64::from(waited));
    Ok(())
}
