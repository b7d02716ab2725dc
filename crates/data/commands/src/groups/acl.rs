//! `ACL`: users, and what they may do.

use std::fmt::Write as _;

use keyspace::Failure;
use resp::Reply;

use crate::{
    Context,
    acl::{self, CATEGORIES, Denied, RuleError, Selector, User},
    server::{Command, Table},
    table::{Categories, Flags},
};

use super::help;

const GROUP: &str = "server";
const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);
const EASY: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);

const fn admin(name: &'static str, arity: i32, handler: crate::server::Handler) -> Command {
    Command::new(name, arity, handler).flags(ADMIN).group(GROUP, Categories::empty())
}

const fn easy(name: &'static str, arity: i32, handler: crate::server::Handler) -> Command {
    Command::new(name, arity, handler).flags(EASY).group(GROUP, Categories::empty())
}

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("ACL", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::empty())
    .docs("6.0.0", "depends on the subcommand", "Manages users and their permissions.")
    .subcommands(&[
        easy("CAT", -2, cat)
            .docs("6.0.0", "O(N) for N commands", "Lists the categories, or the commands of one.")
            .syntax("[categoryname]"),
        admin("DELUSER", -3, deluser)
            .docs("6.0.0", "O(N) for N clients", "Removes users and closes their connections.")
            .syntax("username..."),
        admin("DRYRUN", -4, dryrun)
            .docs("7.0.0", "O(1)", "Says whether a user may run a command, without running it.")
            .syntax("username command [arg...]"),
        easy("GENPASS", -2, genpass).docs("6.0.0", "O(1)", "Returns a random password.").syntax("[bits:integer]"),
        admin("GETUSER", 3, getuser)
            .docs("6.0.0", "O(N) for N rules", "Returns the rules of a user.")
            .syntax("username"),
        easy("HELP", 2, show_help).docs("6.0.0", "O(1)", "Lists the subcommands."),
        admin("LIST", 2, list).docs(
            "6.0.0",
            "O(N) for N users",
            "Returns the rules of all users, in the form of files.",
        ),
        admin("LOAD", 2, load).docs("6.0.0", "O(N) for N users", "Loads all users from their file."),
        admin("LOG", -2, log)
            .docs("6.0.0", "O(N) for N entries", "Lists recently denied commands.")
            .syntax("[operation<count:integer|RESET>]"),
        admin("SAVE", 2, save).docs("6.0.0", "O(N) for N users", "Writes all users to their file."),
        admin("SETUSER", -3, setuser)
            .secrets(|words, places| places.extend(2..words.len()))
            .docs("6.0.0", "O(N) for N rules", "Creates or changes a user: all rules or none.")
            .syntax("username [rule...]"),
        admin("USERS", 2, users).docs("6.0.0", "O(N) for N users", "Lists the names of all users."),
        easy("WHOAMI", 2, whoami).docs("6.0.0", "O(1)", "Returns the name of the connection's user."),
    ])];

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn setuser(context: &mut Context<'_>) -> Result<(), Failure> {
    let name = context.words.at(2);
    if acl::has_spaces(name) {
        return Err(Failure::text("ERR Usernames can't contain spaces or null characters"));
    }
    let shared = &mut *context.shared;
    let all_channels = shared.new_users_have_channels();
    let mut user = match shared.sessions.acl.user(name) {
        Some(user) => User::clone(user),
        None => User::new(name, all_channels),
    };
    let rules = acl::merge_selectors(context.words.from(3)).map_err(|begin| {
        Failure::quoting(&[b"ERR Unmatched parenthesis in acl selector starting at '", &begin, b"'."])
    })?;
    for rule in rules {
        user.apply(&rule, &shared.table, all_channels).map_err(|error: RuleError| {
            let error = error.to_string();
            Failure::quoting(&[b"ERR Error in ACL SETUSER modifier '", &rule, b"': ", error.as_bytes()])
        })?;
    }
    shared.replace_user(context.session, user);
    context.reply.ok();
    Ok(())
}

fn deluser(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    if names.contains(&acl::DEFAULT) {
        return Err(Failure::text("ERR The 'default' user cannot be removed"));
    }
    let removed: Vec<&[u8]> = names.iter().copied().filter(|name| context.shared.sessions.acl.remove(name)).collect();
    if !removed.is_empty() {
        context.shared.close_users(context.session, |user| removed.contains(&user.name.as_slice()));
    }
    context.reply.count(removed.len());
    Ok(())
}

/// The fields of a selector: how many, and the pairs.
const SELECTOR_FIELDS: usize = 3;

fn describe_selector(reply: &mut Reply<'_>, selector: &Selector, table: &Table) {
    reply.bulk(b"commands");
    reply.bulk(selector.describe_commands(table).as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
}

fn getuser(context: &mut Context<'_>) -> Result<(), Failure> {
    let Some(user) = context.shared.sessions.acl.user(context.words.at(2)) else {
        context.reply.null();
        return Ok(());
    };
    let (reply, table) = (&mut context.reply, &context.shared.table);
    reply.map(SELECTOR_FIELDS + 3);
    reply.bulk(b"flags");
    let flags: Vec<&str> = user.flags().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    user.passwords.iter().for_each(|password| reply.bulk(password.as_bytes()));
    let mut selectors = user.selectors();
    if let Some(root) = selectors.next() {
        describe_selector(reply, root, table);
    }
    reply.bulk(b"selectors");
    let others: Vec<&Selector> = selectors.collect();
    reply.array(others.len());
    for selector in others {
        reply.map(SELECTOR_FIELDS);
        describe_selector(reply, selector, table);
    }
    Ok(())
}

fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    let (reply, shared) = (&mut context.reply, &context.shared);
    let lines = shared.sessions.acl.lines(&shared.table);
    let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    Ok(())
}

fn users(context: &mut Context<'_>) -> Result<(), Failure> {
    let (reply, acl) = (&mut context.reply, &context.shared.sessions.acl);
    reply.array(acl.users().len());
    acl.users().for_each(|user| reply.bulk(&user.name));
    Ok(())
}

fn whoami(context: &mut Context<'_>) -> Result<(), Failure> {
    match &context.session.access.user {
        Some(user) => context.reply.bulk(&user.name),
        None => context.reply.null(),
    }
    Ok(())
}

fn cat(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 3 {
        return Err(help::unknown("ACL", words));
    }
    let Some(name) = words.get(2) else {
        context.reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|(_, name)| context.reply.bulk(name.as_bytes()));
        return Ok(());
    };
    let category = acl::category(name)
        .ok_or_else(|| Failure::quoting(&[b"ERR Unknown category '", name.get(..128).unwrap_or(name), b"'"]))?;
    let all = context.shared.table.all();
    let members: Vec<String> = all
        .iter()
        .filter(|found| found.command.all_categories().contains(category))
        .map(|found| found.full_name())
        .collect();
    context.reply.array(members.len());
    members.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
    Ok(())
}

fn genpass(context: &mut Context<'_>) -> Result<(), Failure> {
    const BITS: i64 = 256;
    const BITS_MAX: i64 = 4096;
    let words = context.words;
    if words.len() > 3 {
        return Err(help::unknown("ACL", words));
    }
    let bits = if words.len() == 3 { words.integer(2)? } else { BITS };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(Failure::owned(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {BITS_MAX}"
        )));
    }
    let digits = usize::try_from(bits).unwrap_or_default().div_ceil(4);
    let mut password = String::new();
    while password.len() < digits {
        for byte in context.shared.sessions.secrets.draw() {
            let _ = write!(password, "{byte:02x}");
        }
    }
    password.truncate(digits);
    context.reply.bulk(password.as_bytes());
    Ok(())
}

fn log(context: &mut Context<'_>) -> Result<(), Failure> {
    const SHOWN: usize = 10;
    let words = context.words;
    if words.len() > 3 {
        return Err(help::unknown("ACL", words));
    }
    let mut count = SHOWN;
    if words.is(2, "RESET") {
        context.shared.sessions.acl.log.clear();
        context.reply.ok();
        return Ok(());
    } else if words.len() == 3 {
        count = usize::try_from(words.integer(2)?).unwrap_or(0);
    }
    let now = context.now();
    let (reply, log) = (&mut context.reply, &context.shared.sessions.acl.log);
    let entries = log.entries().take(count);
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(i64::try_from(entry.count).unwrap_or(i64::MAX));
        for (name, value) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.place.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double((now - entry.at) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

fn dryrun(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let command = words.from(3);
    let Some(user) = context.shared.sessions.acl.user(words.at(2)) else {
        return Err(Failure::quoting(&[b"ERR User '", words.at(2), b"' not found"]));
    };
    let found = context.shared.table.find(command).filter(|found| {
        // The name of a container does not do for what is none of its subcommands.
        found.container.is_some() || found.command.subcommands.is_empty() || command.len() == 1
    });
    let Some(found) = found else {
        return Err(Failure::quoting(&[b"ERR Command '", words.at(3), b"' not found"]));
    };
    let name = found.full_name();
    if !found.command.takes(command.len()) {
        return Err(Failure::owned(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let word = |place: usize| text(command.get(place).copied().unwrap_or_default());
    let denied = match user.check(found, command) {
        Ok(()) => {
            context.reply.ok();
            return Ok(());
        }
        Err(Denied::Command) => format!("run the '{name}' command"),
        Err(Denied::Key(place)) => format!("access the '{}' key", word(place)),
        Err(Denied::Channel(place)) => format!("access the '{}' channel", word(place)),
    };
    context.reply.bulk(format!("This user has no permissions to {denied}").as_bytes());
    Ok(())
}

fn check_file(context: &Context<'_>) -> Result<(), Failure> {
    if context.shared.sessions.acl.file.is_none() {
        return Err(Failure::text(
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order \
             to store users in the Redis configuration.",
        ));
    }
    Ok(())
}

fn load(context: &mut Context<'_>) -> Result<(), Failure> {
    check_file(context)?;
    context.shared.load_users(context.session).map_err(|reason| Failure::owned(format!("ERR {reason}")))?;
    context.reply.ok();
    Ok(())
}

fn save(context: &mut Context<'_>) -> Result<(), Failure> {
    check_file(context)?;
    let lines = context.shared.sessions.acl.lines(&context.shared.table);
    let written = context.shared.sessions.acl.file.as_ref().map_or(Ok(()), |file| file.write(&lines));
    written.map_err(|reason| Failure::owned(format!("ERR There was an error trying to save the ACLs: {reason}")))?;
    context.reply.ok();
    Ok(())
}

fn show_help(context: &mut Context<'_>) -> Result<(), Failure> {
    help::reply(
        context,
        "ACL",
        &[
            ("CAT [<category>]", "Lists the categories, or the commands of one."),
            ("DELUSER <username> [<username> ...]", "Removes users and closes their connections."),
            ("DRYRUN <username> <command> [<arg> ...]", "Says whether a user may run a command, without running it."),
            ("GETUSER <username>", "Returns the rules of a user."),
            ("GENPASS [<bits>]", "Returns a random password, of 256 bits or as many."),
            ("LIST", "Returns the rules of all users, in the form of files."),
            ("LOAD", "Loads all users from their file."),
            ("LOG [<count> | RESET]", "Lists recently denied commands, or removes the list."),
            ("SAVE", "Writes all users to their file."),
            ("SETUSER <username> <rule> [<rule> ...]", "Creates or changes a user: all rules or none."),
            ("USERS", "Lists the names of all users."),
            ("WHOAMI", "Returns the name of the connection's user."),
        ],
    );
    Ok(())
}
