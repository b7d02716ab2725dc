//! Scripts and functions.

use crate::{
    Context, Failure,
    scripting::Scripts,
    table::{Access, Categories, Command, Flags, KeySpec},
};

const GROUP: &str = "scripting";
/// What a script does with its keys, only it knows.
const KEYS: &[KeySpec] = &[KeySpec::counted(2, Access::RW.union(Access::ACCESS).union(Access::UPDATE))];
const KEYS_RO: &[KeySpec] = &[KeySpec::counted(2, Access::RO.union(Access::ACCESS))];
const RUN: Flags = Flags::NOSCRIPT.union(Flags::STALE).union(Flags::SKIP_MONITOR).union(Flags::MOVABLE_KEYS);

/// The group's commands. The server runs those that evaluate: they call other commands.
pub const COMMANDS: &[Command] = &[
    evaluation("EVAL", KEYS, RUN).docs("2.6.0", "that of the script", "Runs a script."),
    evaluation("EVALSHA", KEYS, RUN).docs("2.6.0", "that of the script", "Runs a script that is known, by its SHA-1."),
    evaluation("EVAL_RO", KEYS_RO, RUN.union(Flags::READONLY)).docs(
        "7.0.0",
        "that of the script",
        "Runs a script that may not write.",
    ),
    evaluation("EVALSHA_RO", KEYS_RO, RUN.union(Flags::READONLY)).docs(
        "7.0.0",
        "that of the script",
        "Runs a known script that may not write.",
    ),
    Command::new("SCRIPT", -2, |_| Err(Failure::Syntax))
        .group(GROUP, Categories::empty())
        .docs("2.6.0", "depends on the subcommand", "The scripts that are known.")
        .subcommands(&[
            Command::new("LOAD", 3, load)
                .flags(Flags::NOSCRIPT.union(Flags::STALE))
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(N) for a script of N bytes", "Makes a script known and gives its SHA-1."),
            Command::new("EXISTS", -3, exists).flags(Flags::NOSCRIPT).group(GROUP, Categories::SCRIPTING).docs(
                "2.6.0",
                "O(N) for N scripts",
                "Which of some scripts are known.",
            ),
            Command::new("FLUSH", -2, flush_scripts).flags(Flags::NOSCRIPT).group(GROUP, Categories::SCRIPTING).docs(
                "2.6.0",
                "O(N) for N scripts",
                "Forgets all scripts.",
            ),
            Command::new("KILL", 2, |_| Err(Failure::text("NOTBUSY No scripts in execution right now.")))
                .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
                .group(GROUP, Categories::SCRIPTING)
                .docs("2.6.0", "O(1)", "Stops the script that runs: none ever does while another command is read."),
        ]),
    Command::new("FUNCTION", -2, |_| Err(Failure::Syntax))
        .group(GROUP, Categories::SCRIPTING)
        .docs("7.0.0", "depends on the subcommand", "Libraries of functions.")
        .subcommands(&[Command::new("FLUSH", -2, flush)
            .flags(Flags::WRITE.union(Flags::NOSCRIPT))
            .group(GROUP, Categories::SCRIPTING)
            .docs("7.0.0", "O(N) for N functions", "Removes all functions.")]),
];

const fn evaluation(name: &'static str, keys: &'static [KeySpec], flags: Flags) -> Command {
    Command::new(name, -3, |_| Ok(())).flags(flags).keys(keys).group(GROUP, Categories::SCRIPTING)
}

fn scripts<'a>(context: &'a mut Context<'_>) -> Result<&'a mut Scripts, Failure> {
    if context.shared.scripts.is_none() {
        context.shared.scripts = Some(Box::new(Scripts::new()?));
    }
    context.shared.scripts.as_deref_mut().ok_or(Failure::text("ERR no machine of scripts"))
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

fn flush_scripts(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 3 || words.len() == 3 && !words.is(2, "SYNC") && !words.is(2, "ASYNC") {
        return Err(Failure::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    // The machine goes too, and with it whatever scripts have left in it.
    context.shared.scripts = None;
    context.reply.ok();
    Ok(())
}

/// There are no functions yet, so there is nothing to remove.
fn flush(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.ok();
    Ok(())
}
