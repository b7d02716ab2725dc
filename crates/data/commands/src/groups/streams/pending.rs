//! Entries that were given and not acknowledged.

use crate::{
    Context, Failure, Millis,
    table::{Access, Categories, Command, Flags, KeySpec},
    value::{
        Stream,
        stream::{Group, Id},
    },
};

use super::{GROUP, interval_end, interval_start, no_group, strict_ids, write_id};

/// Commands about pending entries.
pub const COMMANDS: &[Command] = &[
    Command::new("XACK", -4, xack)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1) for each entry", "Acknowledges entries, which are pending no longer."),
    Command::new("XPENDING", -3, xpending)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries given, or looked at for their idle time", "The pending entries of a group."),
];

fn xack(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, group_name) = (context.words.at(1), context.words.at(2));
    let found = context.keys.get::<Stream>(key)?.is_some_and(|stream| stream.groups.contains_key(group_name));
    if !found {
        context.reply.integer(0);
        return Ok(());
    }
    let ids = strict_ids(context.words.from(3))?;
    let mut acknowledged = 0;
    if let Some(group) = context.keys.get_mut::<Stream>(key)?.and_then(|stream| stream.groups.get_mut(group_name)) {
        acknowledged = ids.into_iter().filter(|id| group.acknowledge(*id)).count();
    }
    context.keys.changes.dirty += acknowledged as u64;
    context.reply.count(acknowledged);
    Ok(())
}

/// Which pending entries are asked for.
struct Query<'a> {
    idle_at_least: Millis,
    from: Id,
    to: Id,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn parse<'a>(words: crate::context::Words<'a>) -> Result<Option<Query<'a>>, Failure> {
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
    Ok(Some(Query { idle_at_least, from, to, count, consumer: words.get(at + 3) }))
}

fn xpending(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let query = parse(words)?;
    let now = context.now();
    let (key, name) = (words.at(1), words.at(2));
    let group = context.keys.get::<Stream>(key)?.and_then(|stream| stream.groups.get(name));
    let group = group.ok_or_else(|| no_group(key, name))?;
    match query {
        Some(query) => list(&mut context.reply, group, &query, now),
        None => summarize(&mut context.reply, group),
    }
    Ok(())
}

fn summarize(reply: &mut resp::Reply<'_>, group: &Group) {
    reply.array(4);
    reply.count(group.pending().len());
    let (Some((first, _)), Some((last, _))) = (group.pending().first_key_value(), group.pending().last_key_value())
    else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, *first);
    write_id(reply, *last);
    let busy = || group.consumers().filter(|consumer| !consumer.pending.is_empty());
    reply.array(busy().count());
    for consumer in busy() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_integer(i64::try_from(consumer.pending.len()).unwrap_or(i64::MAX));
    }
}

fn list(reply: &mut resp::Reply<'_>, group: &Group, query: &Query<'_>, now: Millis) {
    let consumer = match query.consumer {
        Some(name) => match group.number_of(name).and_then(|number| group.consumer(number)) {
            Some(consumer) => Some(consumer),
            None => return reply.array(0),
        },
        None => None,
    };
    let header = reply.defer();
    let mut given = 0;
    if query.from <= query.to {
        let ids: Box<dyn Iterator<Item = &Id>> = match consumer {
            Some(consumer) => Box::new(consumer.pending.range(query.from..=query.to)),
            None => Box::new(group.pending().range(query.from..=query.to).map(|(id, _)| id)),
        };
        let entries = ids.filter_map(|id| group.pending().get_key_value(id));
        let idle = entries.filter(|(_, pending)| {
            query.idle_at_least == 0 || now.saturating_sub(pending.delivered) >= query.idle_at_least
        });
        for (id, pending) in idle.take(query.count) {
            reply.array(4);
            write_id(reply, *id);
            reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
            reply.integer(now.saturating_sub(pending.delivered).max(0));
            reply.count(usize::try_from(pending.count).unwrap_or(usize::MAX));
            given += 1;
        }
    }
    reply.finish_array(header, given);
}
