//! Entries that were given and not acknowledged.

use keyspace::{
    Failure, Millis,
    value::{
        Stream,
        stream::{Group, Id},
    },
};
use resp::Reply;

use crate::{
    Context,
    server::{Command, Progress, changing_steps, reading_steps},
    table::{Access, Categories, ElementWords, Flags, KeySpec},
    words::Words,
};

use super::{GROUP, interval_end, interval_start, no_group, strict_ids, write_id};

/// Commands about pending entries.
pub const COMMANDS: &[Command] = &[
    Command::new("XACK", -4, xack)
        .elements(ElementWords::Entries { first: 3, are_read: false, are_pending: true })
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1) for each entry", "Acknowledges entries, which are then no longer pending.")
        .syntax("key#0 group id..."),
    Command::new("XPENDING", -3, xpending)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STREAM)
        .docs(
            "5.0.0",
            "O(N) for N entries given, or looked at for their idle time",
            "Lists the pending entries of a group.",
        )
        .syntax("key#0 group [filters{[IDLE/min-idle-time:integer@6.2.0] start end count:integer [consumer]}]"),
];

fn xack(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, group_name) = (context.words.at(1), context.words.at(2));
    let found = context.keys.get::<Stream>(key)?.is_some_and(|stream| stream.groups.contains_key(group_name));
    if !found {
        context.reply.integer(0);
        return Ok(());
    }
    let mut ids = strict_ids(context.words.from(3))?.into_iter();
    let (elements, mut acknowledged) = (ids.len(), 0);
    let step = move |context: &mut Context<'_>, budget: usize| {
        let (key, name) = (context.words.at(1), context.words.at(2));
        if let Some(group) = context.keys.get_mut::<Stream>(key)?.and_then(|stream| stream.groups.get_mut(name)) {
            acknowledged += ids.by_ref().take(budget).filter(|id| group.acknowledge(*id)).count();
            if ids.len() > 0 {
                return Ok(Progress::More);
            }
        }
        context.keys.changes.dirty += acknowledged as u64;
        context.reply.count(acknowledged);
        Ok(Progress::Done)
    };
    context.work_on(elements, changing_steps(step))
}

/// Which pending entries are asked for.
#[derive(Debug)]
struct Query {
    idle_at_least: Millis,
    from: Id,
    to: Id,
    count: usize,
    /// The place of a consumer's name among the words.
    consumer: usize,
}

fn parse(words: Words<'_>) -> Result<Option<Query>, Failure> {
    if words.len() == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&words.len()) {
        return Err(Failure::Syntax);
    }
    let (mut idle_at_least, mut at) = (0, 3);
    if words.is(3, "IDLE") {
        idle_at_least = words.integer(4)?;
        if words.len() < 8 {
            return Err(Failure::Syntax);
        }
        at = 5;
    }
    let count = usize::try_from(words.integer(at + 2)?).unwrap_or(0);
    let (from, to) = (interval_start(words.at(at))?, interval_end(words.at(at + 1))?);
    Ok(Some(Query { idle_at_least, from, to, count, consumer: at + 3 }))
}

fn xpending(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let query = parse(words)?;
    let (key, name) = (words.at(1), words.at(2));
    let group = context.keys.get::<Stream>(key)?.and_then(|stream| stream.groups.get(name));
    let group = group.ok_or_else(|| no_group(key, name))?;
    let Some(mut query) = query else {
        summarize(&mut context.reply, group);
        return Ok(());
    };
    let there = group.pending_len();
    let elements = if query.idle_at_least > 0 { there } else { query.count.min(there) };
    let (mut header, mut given) = (None, 0);
    let step = move |context: &mut Context<'_>, budget: usize| {
        let header = *header.get_or_insert_with(|| context.reply.defer());
        let (now, words) = (context.now(), context.words);
        let stream = context.keys.look::<Stream>(words.at(1))?;
        let group = stream.and_then(|stream| stream.groups.get(words.at(2)));
        let is_over = group.is_none_or(|group| {
            let consumer = words.get(query.consumer);
            list(&mut context.reply, group, consumer, &mut query, now, &mut given, budget)
        });
        if is_over {
            context.reply.finish_array(header, given);
        }
        Ok(Progress::over_if(is_over))
    };
    context.work_on(elements, reading_steps(step))
}

fn summarize(reply: &mut Reply<'_>, group: &Group) {
    reply.array(4);
    reply.count(group.pending_len());
    let Some((first, last)) = group.pending_ends() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, first);
    write_id(reply, last);
    let busy = || group.consumers().filter(|consumer| consumer.pending_len() > 0);
    reply.array(busy().count());
    for consumer in busy() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_integer(i64::try_from(consumer.pending_len()).unwrap_or(i64::MAX));
    }
}

/// Gives some more of what is asked for, of which the query has no longer to do. Returns whether that was all.
fn list(
    reply: &mut Reply<'_>,
    group: &Group,
    consumer: Option<&[u8]>,
    query: &mut Query,
    now: Millis,
    given: &mut usize,
    budget: usize,
) -> bool {
    if query.from > query.to || *given >= query.count {
        return true;
    }
    let of = match consumer.map(|name| group.number_of(name)) {
        Some(None) => return true,
        of => of.flatten(),
    };
    let (mut looked_at, mut rest) = (0, None);
    group.each_pending(query.from..=query.to, of, |id, pending| {
        if looked_at >= budget {
            rest = Some(id);
            return false;
        }
        looked_at += 1;
        if query.idle_at_least != 0 && now.saturating_sub(pending.delivered) < query.idle_at_least {
            return true;
        }
        reply.array(4);
        write_id(reply, id);
        reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
        reply.integer(now.saturating_sub(pending.delivered).max(0));
        reply.count(usize::try_from(pending.count).unwrap_or(usize::MAX));
        *given += 1;
        *given < query.count
    });
    if let Some(id) = rest {
        query.from = id;
    }
    rest.is_none()
}
