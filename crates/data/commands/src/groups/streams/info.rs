//! XINFO: streams, groups and consumers as they are.

use resp::Reply;

use crate::{
    Context, Failure,
    table::{Access, Categories, Command, Flags, KeySpec},
    value::{
        Stream,
        stream::{Consumer, ConsumerNumber, Group, Id},
    },
};

use super::{
    GROUP,
    groups::{bad_subcommand, no_group},
    write_id,
};

const READS: &[KeySpec] = &[KeySpec::one(2, Access::RO.union(Access::ACCESS))];

/// XINFO.
pub const COMMANDS: &[Command] = &[Command::new("XINFO", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::STREAM)
    .docs("5.0.0", "", "Commands that tell about streams.")
    .subcommands(&[
        Command::new("CONSUMERS", 4, consumers)
            .flags(Flags::READONLY)
            .keys(READS)
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "The consumers of a group."),
        Command::new("GROUPS", 3, groups).flags(Flags::READONLY).keys(READS).group(GROUP, Categories::STREAM).docs(
            "5.0.0",
            "O(1)",
            "The groups of a stream.",
        ),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::STREAM).docs(
            "5.0.0",
            "O(1)",
            "The subcommands.",
        ),
        Command::new("STREAM", -3, stream).flags(Flags::READONLY).keys(READS).group(GROUP, Categories::STREAM).docs(
            "5.0.0",
            "O(1)",
            "A stream's numbers, or all of it.",
        ),
    ])];

fn count(reply: &mut Reply<'_>, count: u64) {
    reply.count(usize::try_from(count).unwrap_or(usize::MAX));
}

fn count_or_null(reply: &mut Reply<'_>, number: Option<u64>) {
    match number {
        Some(number) => count(reply, number),
        None => reply.null(),
    }
}

fn lag(reply: &mut Reply<'_>, lag: Option<i64>) {
    match lag {
        Some(lag) => reply.integer(lag),
        None => reply.null(),
    }
}

fn consumers(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, name) = (context.words.at(2), context.words.at(3));
    let now = context.now();
    let stream = context.keys.get::<Stream>(key)?.ok_or(Failure::NoSuchKey)?;
    let group = stream.groups.get(name).ok_or_else(|| no_group(key, name))?;
    let reply = &mut context.reply;
    reply.array(group.consumers_len());
    for consumer in group.consumers() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"pending");
        reply.count(consumer.pending_len());
        reply.bulk(b"idle");
        reply.integer(now.saturating_sub(consumer.seen).max(0));
    }
    Ok(())
}

fn groups(context: &mut Context<'_>) -> Result<(), Failure> {
    let stream = context.keys.get::<Stream>(context.words.at(2))?.ok_or(Failure::NoSuchKey)?;
    let reply = &mut context.reply;
    reply.array(stream.groups.len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.count(group.consumers_len());
        reply.bulk(b"pending");
        reply.count(group.pending_len());
        reply.bulk(b"last-delivered-id");
        write_id(reply, group.last);
        reply.bulk(b"entries-read");
        count_or_null(reply, group.entries_read);
        reply.bulk(b"lag");
        lag(reply, stream.lag(group));
    }
    Ok(())
}

/// What is told: numbers alone, or all with so many entries of each kind at most.
fn detail(context: &Context<'_>) -> Result<Option<usize>, Failure> {
    const COUNT: i64 = 10;
    let words = context.words;
    let count = match words.len() {
        3 => return Ok(None),
        4 if words.is(3, "FULL") => COUNT,
        6 if words.is(3, "FULL") && words.is(4, "COUNT") => words.integer(5)?,
        _ => return Err(bad_subcommand(context)),
    };
    let count = if count < 0 { COUNT } else { count };
    Ok(Some(if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) }))
}

fn stream(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let full = detail(context);
    let stream = context.keys.get::<Stream>(words.at(2))?.ok_or(Failure::NoSuchKey)?;
    let full = full?;
    let reply = &mut context.reply;
    reply.map(if full.is_some() { 9 } else { 10 });
    reply.bulk(b"length");
    count(reply, stream.len());
    reply.bulk(b"radix-tree-keys");
    reply.count(stream.nodes_len());
    // There is no radix tree: the nodes and a root.
    reply.bulk(b"radix-tree-nodes");
    reply.count(stream.nodes_len() + 1);
    reply.bulk(b"last-generated-id");
    write_id(reply, stream.last_id);
    reply.bulk(b"max-deleted-entry-id");
    write_id(reply, stream.max_deleted_id);
    reply.bulk(b"entries-added");
    count(reply, stream.entries_added);
    reply.bulk(b"recorded-first-entry-id");
    write_id(reply, stream.first_id);
    match full {
        None => ends(reply, stream),
        Some(at_most) => everything(reply, stream, at_most),
    }
    Ok(())
}

fn ends(reply: &mut Reply<'_>, stream: &Stream) {
    reply.bulk(b"groups");
    reply.count(stream.groups.len());
    let all = Id::MIN..=Id::MAX;
    for (name, backwards) in [("first-entry", false), ("last-entry", true)] {
        reply.bulk(name.as_bytes());
        if stream.find(all.clone(), backwards, |entry| entry.reply(reply)).is_none() {
            reply.null();
        }
    }
}

fn everything(reply: &mut Reply<'_>, stream: &Stream, at_most: usize) {
    reply.bulk(b"entries");
    let header = reply.defer();
    let mut given = 0;
    stream.each(Id::MIN..=Id::MAX, false, |entry| {
        entry.reply(reply);
        given += 1;
        given < at_most
    });
    reply.finish_array(header, given);
    reply.bulk(b"groups");
    reply.array(stream.groups.len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"last-delivered-id");
        write_id(reply, group.last);
        reply.bulk(b"entries-read");
        count_or_null(reply, group.entries_read);
        reply.bulk(b"lag");
        lag(reply, stream.lag(group));
        reply.bulk(b"pel-count");
        reply.count(group.pending_len());
        reply.bulk(b"pending");
        write_pending(reply, group, None, at_most);
        reply.bulk(b"consumers");
        reply.array(group.consumers_len());
        for (number, consumer) in group.numbers().zip(group.consumers()) {
            write_consumer(reply, group, number, consumer, at_most);
        }
    }
}

/// What is pending in a group, with whom it is, or what is with one consumer.
fn write_pending(reply: &mut Reply<'_>, group: &Group, of: Option<ConsumerNumber>, at_most: usize) {
    let header = reply.defer();
    let mut given = 0;
    group.each_pending(Id::MIN..=Id::MAX, of, |id, pending| {
        if given == at_most {
            return false;
        }
        given += 1;
        reply.array(if of.is_none() { 4 } else { 3 });
        write_id(reply, id);
        if of.is_none() {
            reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
        }
        reply.integer(pending.delivered);
        count(reply, pending.count);
        true
    });
    reply.finish_array(header, given);
}

fn write_consumer(reply: &mut Reply<'_>, group: &Group, number: ConsumerNumber, consumer: &Consumer, at_most: usize) {
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen);
    reply.bulk(b"pel-count");
    reply.count(consumer.pending_len());
    reply.bulk(b"pending");
    write_pending(reply, group, Some(number), at_most);
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[&str] = &[
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    The consumers of a group.",
        "GROUPS <key>",
        "    The groups of a stream.",
        "STREAM <key> [FULL [COUNT <count>]]",
        "    The numbers of a stream; with FULL, entries and groups too.",
        "HELP",
        "    Print this help.",
    ];
    context.reply.array(LINES.len());
    LINES.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}
