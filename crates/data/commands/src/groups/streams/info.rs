//! XINFO: streams, groups and consumers as they are.

use std::ops::Bound;

use keyspace::{
    Bytes, Failure,
    value::{
        Stream,
        stream::{Consumer, ConsumerNumber, Group, Id, Pending},
    },
};
use resp::Reply;

use crate::{
    Context,
    server::{Command, Progress, Work},
    table::{Access, Categories, Flags, KeySpec},
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
    .docs("5.0.0", "", "Describes streams.")
    .subcommands(&[
        Command::new("CONSUMERS", 4, consumers)
            .flags(Flags::READONLY)
            .keys(READS)
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "Lists the consumers of a group.")
            .syntax("key#0 groupname"),
        Command::new("GROUPS", 3, groups)
            .flags(Flags::READONLY)
            .keys(READS)
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "Lists the groups of a stream.")
            .syntax("key#0"),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::STREAM).docs(
            "5.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("STREAM", -3, stream)
            .flags(Flags::READONLY)
            .keys(READS)
            .group(GROUP, Categories::STREAM)
            .docs("5.0.0", "O(1)", "Describes a stream, or returns all of it.")
            .syntax("key#0 [FULL/full{[COUNT/count:integer]}]"),
    ])];

fn count(reply: &mut Reply<'_>, count: u64) {
    reply.count(usize::try_from(count).unwrap_or(usize::MAX));
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
        write_progress(reply, stream, group);
    }
    Ok(())
}

/// How far a group has come.
fn write_progress(reply: &mut Reply<'_>, stream: &Stream, group: &Group) {
    reply.bulk(b"last-delivered-id");
    write_id(reply, group.last);
    reply.bulk(b"entries-read");
    match group.entries_read {
        Some(read) => count(reply, read),
        None => reply.null(),
    }
    reply.bulk(b"lag");
    match stream.lag(group) {
        Some(lag) => reply.integer(lag),
        None => reply.null(),
    }
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
    let Some(at_most) = full? else {
        numbers(&mut context.reply, stream, 10);
        ends(&mut context.reply, stream);
        return Ok(());
    };
    let elements = elements(stream, at_most);
    context.work_on(elements, Everything { at_most, at: At::Numbers, group: None, consumer: None })
}

/// What both forms begin with, of so many pairs.
fn numbers(reply: &mut Reply<'_>, stream: &Stream, pairs: usize) {
    reply.map(pairs);
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

/// How many entries, pending ones, groups and consumers all of a stream is.
fn elements(stream: &Stream, at_most: usize) -> usize {
    let of_group = |group: &Group| {
        let of_consumers = group.consumers().map(|consumer| consumer.pending_len().min(at_most) + 1).sum::<usize>();
        group.pending_len().min(at_most) + of_consumers + 1
    };
    let entries = usize::try_from(stream.len()).unwrap_or(usize::MAX).min(at_most);
    stream.groups().map(|(_, group)| of_group(group)).fold(entries, usize::saturating_add)
}

/// XINFO STREAM FULL, as far as it has come.
#[derive(Debug)]
struct Everything {
    at_most: usize,
    at: At,
    /// The group that is told of, and the consumer.
    group: Option<Bytes>,
    consumer: Option<(Bytes, ConsumerNumber)>,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum At {
    Numbers,
    /// So many entries, from an id on.
    Entries(Id, usize),
    NextGroup,
    /// So much of what is pending in the group, from an id on; with the consumer, if there is one.
    Pending(Id, usize),
    NextConsumer,
    End,
}

impl Everything {
    fn group<'a>(&self, stream: &'a Stream) -> Option<&'a Group> {
        stream.groups.get(self.group.as_ref()?.as_slice())
    }

    /// Writes what comes next, of as many elements as are left of a step.
    fn go_on(&mut self, reply: &mut Reply<'_>, stream: &Stream, left: &mut usize) {
        let mut some = 0;
        self.at = match self.at {
            At::Numbers => {
                numbers(reply, stream, 9);
                let given = usize::try_from(stream.len()).unwrap_or(usize::MAX).min(self.at_most);
                reply.bulk(b"entries");
                reply.array(given);
                At::Entries(Id::MIN, given)
            }
            At::Entries(from, missing) if missing > 0 => {
                let mut next = from;
                stream.each(from..=Id::MAX, false, |entry| {
                    entry.reply(reply);
                    (next, some) = (entry.id.next().unwrap_or(Id::MAX), some + 1);
                    some < missing.min(*left)
                });
                At::Entries(next, if some == 0 { 0 } else { missing - some })
            }
            At::Entries(..) => {
                reply.bulk(b"groups");
                reply.array(stream.groups.len());
                At::NextGroup
            }
            At::NextGroup => {
                let from = self.group.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                match stream.groups.range::<[u8], _>((from, Bound::Unbounded)).next() {
                    Some((name, group)) => {
                        let given = group.pending_len().min(self.at_most);
                        write_group(reply, stream, name, group, given);
                        (self.group, self.consumer) = (Some(name.clone()), None);
                        At::Pending(Id::MIN, given)
                    }
                    None => At::End,
                }
            }
            At::Pending(from, missing) if missing > 0 => {
                let mut next = from;
                if let Some(group) = self.group(stream) {
                    let of = self.consumer.as_ref().map(|(_, number)| *number);
                    group.each_pending(from..=Id::MAX, of, |id, pending| {
                        write_pending(reply, group, of, id, pending);
                        (next, some) = (id.next().unwrap_or(Id::MAX), some + 1);
                        some < missing.min(*left)
                    });
                }
                At::Pending(next, if some == 0 { 0 } else { missing - some })
            }
            At::Pending(..) => {
                if self.consumer.is_none() {
                    reply.bulk(b"consumers");
                    reply.array(self.group(stream).map_or(0, Group::consumers_len));
                }
                At::NextConsumer
            }
            At::NextConsumer => {
                let behind = self.consumer.as_ref().map(|(name, _)| name.as_slice());
                match self.group(stream).and_then(|group| group.consumer_behind(behind)) {
                    Some((number, consumer)) => {
                        let given = consumer.pending_len().min(self.at_most);
                        write_consumer(reply, consumer, given);
                        self.consumer = Some((consumer.name.clone(), number));
                        At::Pending(Id::MIN, given)
                    }
                    None => At::NextGroup,
                }
            }
            At::End => At::End,
        };
        *left = left.saturating_sub(some.max(1));
    }
}

impl Work for Everything {
    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let Some(stream) = context.keys.look::<Stream>(context.words.at(2))? else { return Ok(Progress::Done) };
        let mut left = budget;
        while left > 0 {
            self.go_on(&mut context.reply, stream, &mut left);
            // What cannot be read becomes the answer.
            if matches!(self.at, At::End) || stream.has_failed() {
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }
}

/// A group up to what is pending in it, of which so much is given.
fn write_group(reply: &mut Reply<'_>, stream: &Stream, name: &[u8], group: &Group, given: usize) {
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(name);
    write_progress(reply, stream, group);
    reply.bulk(b"pel-count");
    reply.count(group.pending_len());
    reply.bulk(b"pending");
    reply.array(given);
}

/// What is pending in a group, with whom it is, or what is with one consumer.
fn write_pending(reply: &mut Reply<'_>, group: &Group, of: Option<ConsumerNumber>, id: Id, pending: Pending) {
    reply.array(if of.is_none() { 4 } else { 3 });
    write_id(reply, id);
    if of.is_none() {
        reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
    }
    reply.integer(pending.delivered);
    count(reply, pending.count);
}

/// A consumer up to what is with it, of which so much is given.
fn write_consumer(reply: &mut Reply<'_>, consumer: &Consumer, given: usize) {
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen);
    reply.bulk(b"pel-count");
    reply.count(consumer.pending_len());
    reply.bulk(b"pending");
    reply.array(given);
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[&str] = &[
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    List the consumers of a group.",
        "GROUPS <key>",
        "    List the groups of a stream.",
        "STREAM <key> [FULL [COUNT <count>]]",
        "    Describe a stream; with FULL, also its entries and groups.",
        "HELP",
        "    Print this help.",
    ];
    context.reply.array(LINES.len());
    LINES.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}
