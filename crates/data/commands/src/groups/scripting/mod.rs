//! Scripts and functions.

mod functions;

use keyspace::Failure;

use crate::{
    Context,
    scripting::Scripts,
    server::{
        Command,
        scripts::{self, NO_DEBUGGER},
    },
    table::{Access, Categories, Flags, KeySpec},
};

const GROUP: &str = "scripting";
/// What a script does with its keys, only it knows.
const KEYS: &[KeySpec] = &[KeySpec::counted(2, Access::RW.union(Access::ACCESS).union(Access::UPDATE))];
const KEYS_RO: &[KeySpec] = &[KeySpec::counted(2, Access::RO.union(Access::ACCESS))];
const READ: Flags = Flags::NOSCRIPT
    .union(Flags::STALE)
    .union(Flags::SKIP_MONITOR)
    .union(Flags::NO_MANDATORY_KEYS)
    .union(Flags::MOVABLE_KEYS)
    .union(Flags::RUNS_SCRIPT);
const RUN: Flags = READ.union(Flags::MAY_REPLICATE);

/// The group's commands. The server runs those that evaluate: they call other commands.
pub const COMMANDS: &[Command] = &[
    evaluation("EVAL", KEYS, RUN)
        .docs("2.6.0", "that of the script", "Runs a script.")
        .syntax("script numkeys:integer [key#0...] [arg...]"),
    evaluation("EVALSHA", KEYS, RUN.union(Flags::BY_DIGEST))
        .docs("2.6.0", "that of the script", "Runs a known script, by its SHA-1.")
        .syntax("sha1 numkeys:integer [key#0...] [arg...]"),
    evaluation("EVAL_RO", KEYS_RO, READ.union(Flags::READONLY))
        .docs("7.0.0", "that of the script", "Runs a script that may not write.")
        .syntax("script numkeys:integer [key#0...] [arg...]"),
    evaluation("EVALSHA_RO", KEYS_RO, READ.union(Flags::READONLY).union(Flags::BY_DIGEST))
        .docs("7.0.0", "that of the script", "Runs a known script that may not write.")
        .syntax("sha1 numkeys:integer [key#0...] [arg...]"),
    evaluation("FCALL", KEYS, RUN.union(Flags::CALLS_FUNCTION))
        .docs("7.0.0", "that of the function", "Calls a function.")
        .syntax("function numkeys:integer [key#0...] [arg...]"),
    evaluation("FCALL_RO", KEYS_RO, READ.union(Flags::READONLY).union(Flags::CALLS_FUNCTION))
        .docs("7.0.0", "that of the function", "Calls a function that may not write.")
        .syntax("function numkeys:integer [key#0...] [arg...]"),
    Command::new("SCRIPT", -2, |_| Err(Failure::Syntax))
        .group(GROUP, Categories::empty())
        .docs("2.6.0", "depends on the subcommand", "Manages the known scripts.")
        .subcommands(&[
            Command::new("LOAD", 3, load)
                .flags(Flags::NOSCRIPT.union(Flags::STALE))
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(N) for a script of N bytes", "Loads a script and returns its SHA-1.")
                .syntax("script"),
            Command::new("DEBUG", 3, debug)
                .flags(Flags::NOSCRIPT)
                .group(GROUP, Categories::SCRIPTING)
                .docs(
                    "3.2.0",
                    "O(1)",
                    "Ends the debugging of scripts. The store has no debugger: it refuses `YES` and `SYNC`.",
                )
                .syntax("mode<YES|SYNC|NO>"),
            Command::new("EXISTS", -3, exists)
                .flags(Flags::NOSCRIPT)
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(N) for N scripts", "Says for each of some scripts whether the store knows it.")
                .syntax("sha1..."),
            Command::new("FLUSH", -2, flush_scripts)
                .flags(Flags::NOSCRIPT)
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(N) for N scripts", "Forgets all scripts.")
                .syntax("[async<ASYNC|SYNC>@6.2.0]"),
            Command::new("HELP", 2, help)
                .flags(Flags::LOADING.union(Flags::STALE))
                .group(GROUP, Categories::SCRIPTING)
                .docs("5.0.0", "O(1)", "Lists the subcommands."),
            Command::new("KILL", 2, kill)
                .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(1)", "Ends the running script, if it has written nothing."),
        ]),
    Command::new("FUNCTION", -2, |_| Err(Failure::Syntax))
        .group(GROUP, Categories::empty())
        .docs("7.0.0", "depends on the subcommand", "Manages libraries of functions.")
        .subcommands(functions::SUBCOMMANDS),
];

const fn evaluation(name: &'static str, keys: &'static [KeySpec], flags: Flags) -> Command {
    Command::new(name, -3, |_| Ok(())).flags(flags).keys(keys).group(GROUP, Categories::SCRIPTING)
}

fn scripts<'a>(context: &'a mut Context<'_>) -> Result<&'a mut Scripts, Failure> {
    if context.shared.scripting.scripts.is_none() {
        context.shared.scripting.scripts = Some(Box::new(Scripts::new(&context.shared.clock.stopwatch)?));
    }
    context.shared.scripting.scripts.as_deref_mut().ok_or(Failure::text("ERR no machine of scripts"))
}

fn load(context: &mut Context<'_>) -> Result<(), Failure> {
    let body = context.words.at(2);
    let digest = scripts(context)?.load(body)?;
    context.reply.bulk(digest.as_bytes());
    Ok(())
}

fn exists(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words.from(2);
    context.reply.array(words.len());
    for word in words {
        let known = scripts(context)?.contains(&String::from_utf8_lossy(word));
        context.reply.integer(i64::from(known));
    }
    Ok(())
}

fn debug(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let wanted = words.is(2, "YES") || words.is(2, "SYNC");
    if !wanted && !words.is(2, "NO") {
        return Err(Failure::text("ERR Use SCRIPT DEBUG YES/SYNC/NO"));
    }
    // redis-cli takes no notice of the answer, and sends the script.
    context.session.debugs_next_script = wanted;
    if wanted {
        return Err(NO_DEBUGGER);
    }
    context.reply.ok();
    Ok(())
}

fn flush_scripts(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 3 || words.len() == 3 && !words.is(2, "SYNC") && !words.is(2, "ASYNC") {
        return Err(Failure::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    // The machine goes too, and with it whatever scripts have left in it.
    context.shared.scripting.scripts = None;
    context.reply.ok();
    Ok(())
}

fn kill(context: &mut Context<'_>) -> Result<(), Failure> {
    scripts::kill(context.shared.scripting.running.as_deref_mut(), true)?;
    context.reply.ok();
    Ok(())
}

fn answer_help(context: &mut Context<'_>, lines: &[&str]) -> Result<(), Failure> {
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    answer_help(
        context,
        &[
            "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "DEBUG NO",
            "    End the debugging of scripts. The store has no debugger.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Say for each of some scripts whether the store knows it.",
            "FLUSH [ASYNC|SYNC]",
            "    Forget all scripts. Both modes are the same here.",
            "KILL",
            "    End the running script, if it has written nothing.",
            "LOAD <script>",
            "    Load a script without running it.",
            "HELP",
            "    Print this help.",
        ],
    )
}
