//! COMMAND: what the table knows of its commands.

use keyspace::{Failure, glob};
use resp::Reply;

use crate::{
    Context,
    acl::{self, CATEGORIES},
    server::{Command, FoundCommand},
    syntax,
    table::{Access, Begin, Categories, Find, Flags, KeySpec},
};

const GROUP: &str = "server";
const EASY: Flags = Flags::LOADING.union(Flags::STALE);

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("COMMAND", -1, all)
    .flags(EASY)
    .group(GROUP, Categories::CONNECTION)
    .docs("2.8.13", "O(N) for N commands", "Describes all commands.")
    .subcommands(&[
        Command::new("COUNT", 2, count).flags(EASY).group(GROUP, Categories::CONNECTION).docs(
            "2.8.13",
            "O(1)",
            "Returns the number of commands.",
        ),
        Command::new("DOCS", -2, docs)
            .flags(EASY)
            .group(GROUP, Categories::CONNECTION)
            .docs("7.0.0", "O(N) for N commands", "Returns the documentation of commands.")
            .syntax("[command-name...]"),
        Command::new("GETKEYS", -4, getkeys)
            .flags(EASY)
            .group(GROUP, Categories::CONNECTION)
            .docs("2.8.13", "O(N) for N words", "Returns the keys among the words of a command.")
            .syntax("command [arg...]"),
        Command::new("GETKEYSANDFLAGS", -4, getkeysandflags)
            .flags(EASY)
            .group(GROUP, Categories::CONNECTION)
            .docs(
                "7.0.0",
                "O(N) for N words",
                "Returns the keys among the words of a command, and how the command uses each.",
            )
            .syntax("command [arg...]"),
        Command::new("HELP", 2, help).flags(EASY).group(GROUP, Categories::CONNECTION).docs(
            "5.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("INFO", -2, info)
            .flags(EASY)
            .group(GROUP, Categories::CONNECTION)
            .docs("2.8.13", "O(N) for N commands", "Describes some commands.")
            .syntax("[command-name...]"),
        Command::new("LIST", -2, list)
            .flags(EASY)
            .group(GROUP, Categories::CONNECTION)
            .docs("7.0.0", "O(N) for N commands", "Lists the names of the commands.")
            .syntax("[FILTERBY/filterby<MODULE/module-name|ACLCAT/category|PATTERN/pattern:pattern>]"),
    ])];

/// Those that Redis tells: not what may be propagated although it changes no key.
const FLAGS: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::ALLOW_BUSY, "allow_busy"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
];

const ACCESS: &[(Access, &str)] = &[
    (Access::RO, "RO"),
    (Access::RW, "RW"),
    (Access::OW, "OW"),
    (Access::RM, "RM"),
    (Access::ACCESS, "access"),
    (Access::UPDATE, "update"),
    (Access::INSERT, "insert"),
    (Access::DELETE, "delete"),
    (Access::NOT_KEY, "not_key"),
    (Access::INCOMPLETE, "incomplete"),
    (Access::VARIABLE_FLAGS, "variable_flags"),
];

fn access_names(access: Access) -> Vec<&'static str> {
    ACCESS.iter().filter(|(flag, _)| access.contains(*flag)).map(|(_, name)| *name).collect()
}

fn simple_set(reply: &mut Reply<'_>, names: &[impl AsRef<str>]) {
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name.as_ref()));
}

/// The places of keys as old clients understand them: the first, the last, and how far apart.
fn legacy_places(command: &Command) -> (i64, i64, i64) {
    let mut places: Option<(i64, i64, i64)> = None;
    for keys in command.keys {
        let (Begin::Index(index), Find::Range { last, step, .. }) = (keys.begin, keys.find) else { continue };
        let first = index as i64;
        let last = if last >= 0 { first + last as i64 } else { last as i64 };
        places = Some(match places {
            None => (first, last, step as i64),
            Some((former, former_last, _)) => {
                // A last one that is counted from the end is behind all others.
                let last = if last < 0 || former_last < 0 { last.min(former_last) } else { last.max(former_last) };
                (former.min(first), last, 1)
            }
        });
    }
    places.unwrap_or((0, 0, 0))
}

fn key_spec(reply: &mut Reply<'_>, keys: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    simple_set(reply, &access_names(keys.access));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    let integer = |reply: &mut Reply<'_>, name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    };
    match keys.begin {
        Begin::Index(index) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            reply.map(1);
            integer(reply, "index", index as i64);
        }
        Begin::Keyword(word, from) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            integer(reply, "startfrom", from as i64);
        }
        Begin::Unknown => {
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
        }
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match keys.find {
        Find::Range { last, step, limit } => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            reply.map(3);
            integer(reply, "lastkey", last as i64);
            integer(reply, "keystep", step as i64);
            integer(reply, "limit", limit as i64);
        }
        Find::Count { number, first, step } => {
            reply.bulk(b"keynum");
            reply.bulk(b"spec");
            reply.map(3);
            integer(reply, "keynumidx", number as i64);
            integer(reply, "firstkey", first as i64);
            integer(reply, "keystep", step as i64);
        }
        Find::Unknown => {
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
        }
    }
}

fn describe(reply: &mut Reply<'_>, name: &str, command: &Command) {
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(i64::from(command.arity));
    let mut flags = command.flags;
    // Clients that only know of the three numbers below have to be told that those are not all.
    let plain = |keys: &KeySpec| matches!((keys.begin, keys.find), (Begin::Index(_), Find::Range { .. }));
    flags.set(Flags::MOVABLE_KEYS, command.key_places.is_some() || !command.keys.iter().all(plain));
    let flags: Vec<&str> = FLAGS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
    simple_set(reply, &flags);
    let (first, last, step) = legacy_places(command);
    [first, last, step].into_iter().for_each(|number| reply.integer(number));
    let all = command.all_categories();
    let categories: Vec<String> =
        CATEGORIES.iter().filter(|(flag, _)| all.contains(*flag)).map(|(_, name)| format!("@{name}")).collect();
    simple_set(reply, &categories);
    // Hints for proxies of clusters: there are none yet.
    reply.set(0);
    reply.set(command.keys.len());
    command.keys.iter().for_each(|keys| key_spec(reply, keys));
    if command.subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(command.subcommands.len());
        for one in command.subcommands {
            describe(reply, &sub_name(command, one), one);
        }
    }
}

fn sub_name(container: &Command, command: &Command) -> String {
    format!("{}|{}", container.name, command.name).to_ascii_lowercase()
}

/// The commands that are no subcommands.
fn commands(context: &Context<'_>) -> Vec<FoundCommand> {
    context.shared.table.all().into_iter().filter(|found| found.container.is_none()).collect()
}

/// A command, or a subcommand as `container|name`.
fn find(context: &Context<'_>, name: &[u8]) -> Option<FoundCommand> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let words: Vec<&[u8]> = parts.by_ref().collect();
    let found = context.shared.table.find(&words)?;
    (found.container.is_some() == (words.len() == 2)).then_some(found)
}

fn all(context: &mut Context<'_>) -> Result<(), Failure> {
    let commands = commands(context);
    context.reply.array(commands.len());
    commands.iter().for_each(|found| describe(&mut context.reply, &found.full_name(), found.command));
    Ok(())
}

fn count(context: &mut Context<'_>) -> Result<(), Failure> {
    let count = commands(context).len();
    context.reply.count(count);
    Ok(())
}

fn info(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    if names.is_empty() {
        return all(context);
    }
    context.reply.array(names.len());
    for name in names {
        match find(context, name) {
            Some(found) => describe(&mut context.reply, &found.full_name(), found.command),
            None => context.reply.null(),
        }
    }
    Ok(())
}

fn document(reply: &mut Reply<'_>, command: &Command) {
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group),
        ("complexity", command.complexity),
    ];
    let arguments = syntax::arguments(command.syntax).unwrap_or_default();
    reply.map(texts.len() + usize::from(!arguments.is_empty()) + usize::from(!command.subcommands.is_empty()));
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        syntax::write(reply, &arguments);
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        for one in command.subcommands {
            reply.bulk(sub_name(command, one).as_bytes());
            document(reply, one);
        }
    }
}

fn docs(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    let found: Vec<FoundCommand> = if names.is_empty() {
        commands(context)
    } else {
        names.iter().filter_map(|name| find(context, name)).collect()
    };
    context.reply.map(found.len());
    for found in found {
        context.reply.bulk(found.full_name().as_bytes());
        document(&mut context.reply, found.command);
    }
    Ok(())
}

fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let is_wanted: Box<dyn Fn(&FoundCommand) -> bool> = if words.len() == 2 {
        Box::new(|_| true)
    } else if words.len() == 5 && words.is(2, "FILTERBY") && words.is(3, "MODULE") {
        Box::new(|_| false)
    } else if words.len() == 5 && words.is(2, "FILTERBY") && words.is(3, "ACLCAT") {
        let name = words.at(4).to_ascii_lowercase();
        let category = acl::category(&name);
        Box::new(move |found| category.is_some_and(|category| found.command.all_categories().contains(category)))
    } else if words.len() == 5 && words.is(2, "FILTERBY") && words.is(3, "PATTERN") {
        let pattern = words.at(4);
        Box::new(move |found| glob::matches_ignoring_case(pattern, found.full_name().as_bytes()))
    } else {
        return Err(Failure::Syntax);
    };
    let names: Vec<String> =
        context.shared.table.all().iter().filter(|found| is_wanted(found)).map(FoundCommand::full_name).collect();
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
    Ok(())
}

/// The command in the words from the third on, with the places of its keys among them.
fn keys_of(context: &Context<'_>) -> Result<(FoundCommand, Vec<usize>), Failure> {
    let words = context.words.from(2);
    let found = context.shared.table.find(words).filter(|found| found.command.subcommands.is_empty());
    let found = found.ok_or(Failure::text("ERR Invalid command specified"))?;
    // Channels that belong to slots are found as keys are, and are none.
    let has_keys = found.command.keys.iter().any(|keys| !keys.access.contains(Access::NOT_KEY));
    if !has_keys && found.command.key_places.is_none() {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !found.command.takes(words.len()) {
        return Err(Failure::text("ERR Invalid number of arguments specified for command"));
    }
    let places = found.command.key_places_of(words);
    if places.is_empty() && !found.command.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Err(Failure::text("ERR Invalid arguments specified for command"));
    }
    Ok((found, places))
}

fn getkeys(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words.from(2);
    let (_, places) = keys_of(context)?;
    context.reply.array(places.len());
    places.iter().for_each(|place| context.reply.bulk(words.get(*place).copied().unwrap_or_default()));
    Ok(())
}

fn getkeysandflags(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words.from(2);
    let (found, _) = keys_of(context)?;
    let accesses = found.command.key_accesses(words);
    context.reply.array(accesses.len());
    for (place, access) in accesses {
        context.reply.array(2);
        context.reply.bulk(words.get(place).copied().unwrap_or_default());
        simple_set(&mut context.reply, &access_names(access));
    }
    Ok(())
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[&str] = &[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Describes all commands.",
        "COUNT",
        "    Returns the number of commands.",
        "DOCS [<command-name> ...]",
        "    Returns the documentation of commands.",
        "GETKEYS <full-command>",
        "    Returns the keys among the words of a command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Returns the keys among the words of a command, and how the command uses each.",
        "INFO [<command-name> ...]",
        "    Describes some commands.",
        "LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    Lists the names of the commands.",
        "HELP",
        "    Print this help.",
    ];
    context.reply.array(LINES.len());
    LINES.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::groups::testing::Shard;

    #[test]
    fn flags_are_those_that_redis_tells() {
        let mut shard = Shard::new();
        let client = shard.client();
        let info = shard.ask(client, "COMMAND INFO save");
        assert!(info.contains("*4 +admin +noscript +no_async_loading +no_multi "), "{info}");
        assert!(!shard.ask(client, "COMMAND INFO publish").contains("may_replicate"));
    }

    #[test]
    fn docs_have_the_words_that_a_command_takes() {
        let mut shard = Shard::new();
        let client = shard.client();
        let docs = shard.ask(client, "COMMAND DOCS psetex");
        let arguments = "$9 arguments *3 \
            *6 $4 name $3 key $4 type $3 key $14 key_spec_index :0 \
            *4 $4 name $12 milliseconds $4 type $7 integer \
            *4 $4 name $5 value $4 type $6 string ";
        assert!(docs.starts_with("*2 $6 psetex *10 ") && docs.ends_with(arguments), "{docs}");
        let docs = shard.ask(client, "COMMAND DOCS acl|log");
        assert!(docs.contains("$4 type $10 pure-token $5 token $5 RESET "), "{docs}");
        assert!(!shard.ask(client, "COMMAND DOCS ping").contains("$5 flags *0"));
    }
}
