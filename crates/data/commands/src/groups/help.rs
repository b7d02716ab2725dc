//! HELP of commands that have subcommands.

use keyspace::Failure;

use crate::{Context, words::Words};

/// Answers with the subcommands and what each does, in the form that Redis gives to it.
pub(crate) fn reply(context: &mut Context<'_>, container: &str, lines: &[(&str, &str)]) {
    context.reply.array(1 + 2 * (lines.len() + 1));
    context.reply.simple(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (usage, what) in lines.iter().chain([&("HELP", "Prints this help.")]) {
        context.reply.simple(usage);
        context.reply.simple(format!("    {what}"));
    }
}

/// What is said of a subcommand whose words do not fit.
pub(crate) fn unknown(container: &str, words: Words<'_>) -> Failure {
    let name = words.at(1);
    Failure::quoting(&[
        b"ERR unknown subcommand or wrong number of arguments for '",
        name.get(..128).unwrap_or(name),
        b"'. Try ",
        container.as_bytes(),
        b" HELP.",
    ])
}
