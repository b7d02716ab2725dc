//! `SLOWLOG`: commands that took long.

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

use super::help;

const GROUP: &str = "server";
const FLAGS: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE);
const COUNT_DEFAULT: usize = 10;

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("SLOWLOG", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::empty())
    .docs("2.2.12", "depends on the subcommand", "Shows slow commands.")
    .subcommands(&[
        Command::new("GET", -2, get)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs(
                "2.2.12",
                "O(N) for N commands",
                "Returns the last commands that took longer than `slowlog-log-slower-than`.",
            )
            .syntax("[count:integer]"),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::empty()).docs(
            "6.2.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("LEN", 2, len).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.2.12",
            "O(1)",
            "Counts the slow commands that are kept.",
        ),
        Command::new("RESET", 2, reset).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.2.12",
            "O(N) for N commands",
            "Removes all slow commands.",
        ),
    ])];

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        (
            "GET [<count>]",
            "Returns the last <count> commands (default: 10, -1: all), each with its number, time, microseconds, words, the client's address and name.",
        ),
        ("LEN", "Counts the slow commands that are kept."),
        ("RESET", "Removes all slow commands."),
    ];
    help::reply(context, "SLOWLOG", LINES);
    Ok(())
}

fn get(context: &mut Context<'_>) -> Result<(), Failure> {
    let log = &context.shared.slow.log;
    let count = match context.words.len() {
        2 => COUNT_DEFAULT,
        3 => {
            let count = context.words.integer(2).ok().filter(|count| *count >= -1);
            let count = count.ok_or(Failure::text("ERR count should be greater than or equal to -1"))?;
            usize::try_from(count).unwrap_or(usize::MAX)
        }
        _ => return Err(help::unknown("SLOWLOG", context.words)),
    };
    context.reply.array(count.min(log.len()));
    for command in log.iter().take(count) {
        context.reply.array(6);
        context.reply.integer(command.id as i64);
        context.reply.integer(command.at);
        context.reply.integer(command.time_us as i64);
        context.reply.array(command.words.len());
        command.words.iter().for_each(|word| context.reply.bulk(word));
        context.reply.bulk(command.address.as_bytes());
        context.reply.bulk(&command.name);
    }
    Ok(())
}

fn len(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.count(context.shared.slow.log.len());
    Ok(())
}

fn reset(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.slow.log.clear();
    context.reply.ok();
    Ok(())
}
