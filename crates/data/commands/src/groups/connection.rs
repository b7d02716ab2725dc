//! Commands about the connection.

use crate::{
    Context, Failure,
    session::Close,
    table::{Categories, Command, Flags},
};

const GROUP: &str = "connection";
const EASY: Flags = Flags::FAST.union(Flags::LOADING).union(Flags::STALE);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("PING", -1, ping).flags(Flags::FAST).group(GROUP, Categories::CONNECTION).docs(
        "1.0.0",
        "O(1)",
        "Answers, to show that the server is there.",
    ),
    Command::new("ECHO", 2, echo).flags(EASY).group(GROUP, Categories::CONNECTION).docs(
        "1.0.0",
        "O(1)",
        "Answers with the text that it is given.",
    ),
    Command::new("SELECT", 2, select).flags(EASY).group(GROUP, Categories::CONNECTION).docs(
        "1.0.0",
        "O(1)",
        "Changes the database of the connection.",
    ),
    Command::new("QUIT", -1, quit)
        .flags(EASY.union(Flags::NOSCRIPT).union(Flags::NO_AUTH).union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::CONNECTION)
        .docs("1.0.0", "O(1)", "Closes the connection."),
];

fn ping(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.len() > 2 {
        return Err(Failure::text("ERR wrong number of arguments for 'ping' command"));
    }
    if context.session.is_subscriber_only() {
        context.reply.array(2);
        context.reply.bulk(b"pong");
        context.reply.bulk(context.words.at(1));
        return Ok(());
    }
    match context.words.get(1) {
        Some(text) => context.reply.bulk(text),
        None => context.reply.simple("PONG"),
    }
    Ok(())
}

fn echo(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.bulk(context.words.at(1));
    Ok(())
}

fn select(context: &mut Context<'_>) -> Result<(), Failure> {
    let Some(number) = crate::number::parse_integer(context.words.at(1)) else {
        return Err(Failure::text("ERR invalid DB index"));
    };
    let number = usize::try_from(number).ok().filter(|number| *number < context.shared.settings.databases);
    context.session.db = number.ok_or(Failure::DatabaseRange)?;
    context.reply.ok();
    Ok(())
}

fn quit(context: &mut Context<'_>) -> Result<(), Failure> {
    context.session.close = Close::AfterOutput;
    context.reply.ok();
    Ok(())
}
