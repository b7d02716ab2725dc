//! `FUNCTION`: libraries of functions.

use keyspace::{Failure, glob};

use crate::{
    Context,
    scripting::{
        flags::NAMES,
        functions::{Library, Registered, RestorePolicy},
    },
    server::{Command, scripts},
    table::{Categories, Flags},
};

use super::GROUP;

const CHANGES: Flags = Flags::NOSCRIPT.union(Flags::WRITE);

/// The subcommands.
pub(super) const SUBCOMMANDS: &[Command] = &[
    Command::new("DELETE", 3, delete)
        .flags(CHANGES)
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(1)", "Removes a library.")
        .syntax("library-name"),
    Command::new("DUMP", 2, dump).flags(Flags::NOSCRIPT).group(GROUP, Categories::SCRIPTING).docs(
        "7.0.0",
        "O(N) for N functions",
        "Returns all libraries as bytes.",
    ),
    Command::new("FLUSH", -2, flush)
        .flags(CHANGES)
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(N) for N functions", "Removes all libraries.")
        .syntax("[async<ASYNC|SYNC>]"),
    Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::SCRIPTING).docs(
        "7.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    Command::new("KILL", 2, kill)
        .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(1)", "Ends the running function, if it has written nothing."),
    Command::new("LIST", -2, list)
        .flags(Flags::NOSCRIPT)
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(N) for N functions", "Lists the libraries with their functions.")
        .syntax("[LIBRARYNAME/library-name-pattern] [WITHCODE]"),
    Command::new("LOAD", -3, load)
        .flags(CHANGES.union(Flags::DENYOOM))
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(1), and what the library does", "Loads a library.")
        .syntax("[REPLACE] function-code"),
    Command::new("RESTORE", -3, restore)
        .flags(CHANGES.union(Flags::DENYOOM))
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(N) for N functions", "Loads libraries from FUNCTION DUMP.")
        .syntax("serialized-value [policy<FLUSH|APPEND|REPLACE>]"),
    Command::new("STATS", 2, stats)
        .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "O(1)", "Shows the running function, and counts libraries and functions."),
];

/// Libraries changed: that is propagated.
fn changed(context: &mut Context<'_>) {
    context.keys.changes.dirty += 1;
}

fn wrong_number(context: &Context<'_>) -> Failure {
    let name = String::from_utf8_lossy(context.words.at(1));
    Failure::owned(format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."))
}

fn delete(context: &mut Context<'_>) -> Result<(), Failure> {
    if !context.shared.scripting.functions.delete(context.words.at(2)) {
        return Err(Failure::text("ERR Library not found"));
    }
    changed(context);
    context.reply.ok();
    Ok(())
}

fn dump(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.bulk(&context.shared.scripting.functions.dump(true));
    Ok(())
}

fn flush(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 3 {
        return Err(wrong_number(context));
    }
    if words.len() == 3 && !words.is(2, "SYNC") && !words.is(2, "ASYNC") {
        return Err(Failure::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    context.shared.scripting.functions.flush();
    changed(context);
    context.reply.ok();
    Ok(())
}

fn kill(context: &mut Context<'_>) -> Result<(), Failure> {
    scripts::kill(context.shared.scripting.running.as_deref_mut(), false)?;
    context.reply.ok();
    Ok(())
}

fn load(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (options, code) = words.from(2).split_at(words.len() - 3);
    let mut replace = false;
    for option in options {
        if !option.eq_ignore_ascii_case(b"REPLACE") {
            return Err(Failure::owned(format!("ERR Unknown option given: {}", String::from_utf8_lossy(option))));
        }
        replace = true;
    }
    // What the log has was loaded once: a slower machine must not lose it.
    let bounded = !context.session.replaying;
    let code = code.first().copied().unwrap_or_default();
    let shared = &mut *context.shared;
    let name = shared.scripting.functions.load(code, replace, bounded, &shared.clock.stopwatch)?;
    changed(context);
    context.reply.bulk(&name);
    Ok(())
}

fn restore(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 4 {
        return Err(wrong_number(context));
    }
    let policy = match words.get(3) {
        None => RestorePolicy::Append,
        Some(_) if words.is(3, "APPEND") => RestorePolicy::Append,
        Some(_) if words.is(3, "REPLACE") => RestorePolicy::Replace,
        Some(_) if words.is(3, "FLUSH") => RestorePolicy::Flush,
        Some(_) => {
            return Err(Failure::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let shared = &mut *context.shared;
    shared.scripting.functions.restore(words.at(2), policy, &shared.clock.stopwatch)?;
    changed(context);
    context.reply.ok();
    Ok(())
}

fn stats(context: &mut Context<'_>) -> Result<(), Failure> {
    let shared = &mut *context.shared;
    if let Some(running) = shared.scripting.running.as_deref().filter(|running| running.is_script) {
        return Err(running.busy_failure());
    }
    let reply = &mut context.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match shared.scripting.running.as_deref() {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            let elapsed_us = (shared.clock.stopwatch)().saturating_sub(running.begun_us);
            reply.integer((elapsed_us / 1000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.count(shared.scripting.functions.libraries().len());
    reply.bulk(b"functions_count");
    reply.count(shared.scripting.functions.len());
    Ok(())
}

fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (mut with_code, mut pattern) = (false, None);
    let mut index = 2;
    while let Some(word) = words.get(index) {
        index += 1;
        if !with_code && word.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let name = words.get(index).ok_or(Failure::text("ERR library name argument was not given"))?;
            pattern = Some(name);
            index += 1;
        } else {
            return Err(Failure::owned(format!("ERR Unknown argument {}", String::from_utf8_lossy(word))));
        }
    }
    let libraries = context.shared.scripting.functions.libraries();
    let wanted: Vec<(&Vec<u8>, &Library)> = libraries
        .filter(|(name, _)| pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, name)))
        .collect();
    let reply = &mut context.reply;
    reply.array(wanted.len());
    for (name, library) in wanted {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        library.functions.values().for_each(|function| list_function(reply, function));
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn list_function(reply: &mut resp::Reply<'_>, function: &Registered) {
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(&function.name);
    reply.bulk(b"description");
    reply.bulk_or_null(function.description.as_deref());
    reply.bulk(b"flags");
    let flags = || NAMES.iter().filter(|(_, flag)| function.flags.contains(*flag));
    reply.set(flags().count());
    flags().for_each(|(name, _)| reply.simple(name));
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    super::answer_help(
        context,
        &[
            "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "DELETE <library>",
            "    Remove a library.",
            "DUMP",
            "    Return all libraries as bytes, for RESTORE.",
            "FLUSH [ASYNC|SYNC]",
            "    Remove all libraries. Both modes are the same here.",
            "KILL",
            "    End the running function, if it has written nothing.",
            "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
            "    List the libraries with their functions, and their code.",
            "LOAD [REPLACE] <code>",
            "    Load a library. Its first line is `#!lua name=<library>`.",
            "RESTORE <payload> [FLUSH|APPEND|REPLACE]",
            "    Load libraries from DUMP: instead of the present ones, beside them (the default), or instead of those with the",
            "    same names.",
            "STATS",
            "    Show the running function, and count libraries and functions.",
            "HELP",
            "    Print this help.",
        ],
    )
}
