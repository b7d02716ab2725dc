//! XGROUP: groups and consumers come and go.

use keyspace::{
    Bytes, Failure,
    changes::EventClass,
    value::{
        Stream,
        stream::{Consumer, Group, Id},
    },
};

use crate::{
    Context,
    server::{Command, Progress, changing_steps},
    table::{Access, Categories, Flags, KeySpec},
};

use super::{GROUP, id, strict_id, text};

const CREATES: Flags = Flags::WRITE.union(Flags::DENYOOM);

/// XGROUP.
pub const COMMANDS: &[Command] = &[Command::new("XGROUP", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::STREAM)
    .docs("5.0.0", "", "Manages consumer groups.")
    .subcommands(&[
        Command::new("CREATE", -5, create)
            .flags(CREATES)
            .keys(&[KeySpec::one(2, Access::RW.union(Access::INSERT))])
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "Creates a group.")
            .syntax("key#0 groupname id<id|new_id=\"$\"> [MKSTREAM] [ENTRIESREAD/entries_read:integer]"),
        Command::new("CREATECONSUMER", 5, create_consumer)
            .flags(CREATES)
            .keys(&[KeySpec::one(2, Access::RW.union(Access::INSERT))])
            .group(GROUP, Categories::STREAM)
            .docs("6.2.0", "O(1)", "Adds a consumer to a group.")
            .syntax("key#0 groupname consumername"),
        Command::new("DELCONSUMER", 5, delete_consumer)
            .flags(Flags::WRITE)
            .keys(&[KeySpec::one(2, Access::RW.union(Access::DELETE))])
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(N) for N pending entries", "Removes a consumer with its pending entries.")
            .syntax("key#0 groupname consumername"),
        Command::new("DESTROY", 4, destroy)
            .flags(Flags::WRITE)
            .keys(&[KeySpec::one(2, Access::RW.union(Access::DELETE))])
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(N) for N pending entries", "Removes a group.")
            .syntax("key#0 groupname"),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::STREAM).docs(
            "5.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("SETID", -5, set_id)
            .flags(Flags::WRITE)
            .keys(&[KeySpec::one(2, Access::RW.union(Access::UPDATE))])
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "Sets the last delivered entry of a group.")
            .syntax("key#0 groupname id<id|new_id=\"$\"> [ENTRIESREAD/entries_read:integer]"),
    ])];

/// The error of words that fit no subcommand.
pub(super) fn bad_subcommand(context: &Context<'_>) -> Failure {
    let container = text(context.words.at(0)).to_ascii_uppercase();
    let name = context.words.at(1);
    let name = text(name.get(..128).unwrap_or(name)).into_owned();
    Failure::owned(format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."))
}

struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

fn options(context: &Context<'_>, creating: bool) -> Result<Options, Failure> {
    let words = context.words;
    let mut options = Options { make_stream: false, entries_read: None };
    let mut at = 5;
    while at < words.len() {
        if creating && words.is(at, "MKSTREAM") {
            options.make_stream = true;
        } else if words.is(at, "ENTRIESREAD") && at + 1 < words.len() {
            options.entries_read = match words.integer(at + 1)? {
                -1 => None,
                read => Some(
                    u64::try_from(read)
                        .map_err(|_| Failure::text("ERR value for ENTRIESREAD must be positive or -1"))?,
                ),
            };
            at += 1;
        } else {
            return Err(bad_subcommand(context));
        }
        at += 1;
    }
    Ok(options)
}

/// The stream, which must be there.
fn stream<'k>(context: &'k mut Context<'_>) -> Result<&'k Stream, Failure> {
    let text = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                MKSTREAM option to create an empty stream automatically.";
    context.keys.look::<Stream>(context.words.at(2))?.ok_or(Failure::text(text))
}

/// The error of a group that is not there.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Failure {
    Failure::quoting(&[b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"])
}

fn check_group(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(2), context.words.at(3));
    if stream(context)?.groups.contains_key(name) { Ok(()) } else { Err(no_group(key, name)) }
}

fn group_mut<'k>(context: &'k mut Context<'_>) -> Result<Option<&'k mut Group>, Failure> {
    let (key, name) = (context.words.at(2), context.words.at(3));
    Ok(context.keys.get_mut::<Stream>(key)?.and_then(|stream| stream.groups.get_mut(name)))
}

fn create(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (key, name) = (words.at(2), words.at(3));
    let options = options(context, true)?;
    let last = if options.make_stream {
        context.keys.look::<Stream>(key)?.map_or(Id::MIN, |stream| stream.last_id)
    } else {
        stream(context)?.last_id
    };
    if words.len() > 8 {
        return Err(bad_subcommand(context));
    }
    let last = if words.at(4) == b"$" { last } else { strict_id(words.at(4), 0)? };
    let new = !context.keys.contains(key)?;
    let stream = context.keys.get_or_insert(key, |_| Stream::default())?;
    if stream.groups.contains_key(name) {
        return Err(Failure::text("BUSYGROUP Consumer Group name already exists"));
    }
    stream.groups.insert(Bytes::from_slice(name), Group::new(last, options.entries_read));
    context.keys.changes.dirty += 1;
    if new {
        context.keys.touched(key);
    }
    context.keys.notify(EventClass::STREAM, "xgroup-create", key);
    context.reply.ok();
    Ok(())
}

fn set_id(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let options = options(context, false)?;
    check_group(context)?;
    if words.len() != 5 && words.len() != 7 {
        return Err(bad_subcommand(context));
    }
    let last = if words.at(4) == b"$" { stream(context)?.last_id } else { id(words.at(4), 0)? };
    if let Some(group) = group_mut(context)? {
        group.last = last;
        group.entries_read = options.entries_read;
    }
    context.keys.changes.dirty += 1;
    context.keys.notify(EventClass::STREAM, "xgroup-setid", words.at(2));
    context.reply.ok();
    Ok(())
}

fn destroy(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(2), context.words.at(3));
    stream(context)?;
    let removed = context.keys.get_mut::<Stream>(key)?.is_some_and(|stream| stream.remove_group(name));
    if removed {
        // Those who wait in the group are to learn of it.
        context.keys.modified(key);
        context.keys.notify(EventClass::STREAM, "xgroup-destroy", key);
    }
    context.reply.integer(i64::from(removed));
    Ok(())
}

fn create_consumer(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(2), context.words.at(4));
    check_group(context)?;
    // The log does not say when: it was before this start.
    let seen = if context.session.replaying { context.shared.clock.started } else { context.now() };
    let created = match group_mut(context)? {
        Some(group) if group.number_of(name).is_none() => {
            group.add_consumer(name, seen);
            true
        }
        _ => false,
    };
    if created {
        context.keys.changes.dirty += 1;
        context.keys.notify(EventClass::STREAM, "xgroup-createconsumer", key);
    }
    context.reply.integer(i64::from(created));
    Ok(())
}

fn delete_consumer(context: &mut Context<'_>) -> Result<(), Failure> {
    let (group, name) = (context.words.at(3), context.words.at(4));
    check_group(context)?;
    let found = stream(context)?.groups.get(group).and_then(|group| group.consumer(group.number_of(name)?));
    let elements = found.map_or(0, Consumer::pending_len);
    let mut removed = 0;
    let step = move |context: &mut Context<'_>, budget: usize| {
        let (key, name) = (context.words.at(2), context.words.at(4));
        let Some(group) = group_mut(context)? else { return Ok(Progress::Done) };
        if let Some(number) = group.number_of(name) {
            let some = group.empty_consumer(number, budget);
            if group.has_failed() {
                return Ok(Progress::Done);
            }
            removed += some;
            if some == budget {
                return Ok(Progress::More);
            }
            group.remove_consumer(name);
            context.keys.changes.dirty += 1;
            context.keys.notify(EventClass::STREAM, "xgroup-delconsumer", key);
        }
        context.reply.count(removed);
        Ok(Progress::Done)
    };
    context.work_on(elements, changing_steps(step))
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[&str] = &[
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD <entries>]",
        "    Make a group that begins behind <id>; with MKSTREAM, the stream too.",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Add a consumer to a group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove a consumer with what is pending for it.",
        "DESTROY <key> <groupname>",
        "    Remove a group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD <entries>]",
        "    Set the last entry that a group was given.",
        "HELP",
        "    Print this help.",
    ];
    context.reply.array(LINES.len());
    LINES.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}
