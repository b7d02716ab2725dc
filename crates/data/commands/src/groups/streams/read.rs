//! Entries behind those that are known, and clients that wait for some.

use resp::{Protocol, Reply};

use crate::{
    Bytes, Context, Failure, Millis, Session,
    changes::EventClass,
    number,
    table::{Access, Begin, Categories, Command, Find, Flags, KeySpec},
    value::{
        Stream,
        stream::{Id, Pending},
    },
};

use super::{GROUP, claim_words, create_consumer_words, has_entries_behind, set_id_words, strict_id, text, write_id};

const fn keys(from: isize) -> KeySpec {
    KeySpec {
        begin: Begin::Keyword("STREAMS", from),
        find: Find::Range { last: -1, step: 1, limit: 2 },
        access: Access::RO.union(Access::ACCESS),
    }
}

/// Commands that read on.
pub const COMMANDS: &[Command] = &[
    Command::new("XREAD", -4, xread)
        .flags(Flags::READONLY.union(Flags::BLOCKING))
        .keys(&[keys(1)])
        .key_places(places)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries", "The entries of streams behind those given; waits if there are none."),
    Command::new("XREADGROUP", -7, xreadgroup)
        .flags(Flags::WRITE.union(Flags::BLOCKING))
        .keys(&[keys(4)])
        .key_places(places)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries", "Entries that no consumer of a group was given, or this one's own."),
];

/// The keys are the first half of what follows `STREAMS`. A group or a consumer of that name is none.
fn places(words: &[&[u8]], places: &mut Vec<usize>) {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("BLOCK") || is("COUNT") {
            at += 1;
        } else if is("GROUP") {
            at += 2;
        } else if is("STREAMS") {
            let rest = words.len() - at - 1;
            if rest.is_multiple_of(2) {
                places.extend(at + 1..at + 1 + rest / 2);
            }
            return;
        } else if !is("NOACK") {
            return;
        }
        at += 1;
    }
}

/// A blocked client that set no count is not given more than this at once.
const COUNT_OF_BLOCKED: i64 = 1000;

struct Query<'a> {
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// Entries are not to be acknowledged.
    no_ack: bool,
    count: i64,
    /// Whether to wait, and until when.
    block: Option<Option<Millis>>,
    block_text: &'a [u8],
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
}

fn parse<'a>(context: &Context<'a>, with_group: bool) -> Result<Query<'a>, Failure> {
    let words = context.words;
    let mut query = Query { group: None, no_ack: false, count: 0, block: None, block_text: b"", keys: &[], ids: &[] };
    let mut at = 1;
    let mut streams = None;
    while at < words.len() {
        let more = words.len() - at - 1;
        if words.is(at, "BLOCK") && more > 0 {
            if context.session.internal && context.session.deny_blocking {
                let name = text(words.at(0));
                let text = format!("ERR {name} command is not allowed with BLOCK option from scripts");
                return Err(Failure::owned(text));
            }
            at += 1;
            query.block_text = words.at(at);
            let millis = number::integer(query.block_text)
                .map_err(|_| Failure::text("ERR timeout is not an integer or out of range"))?;
            if millis < 0 {
                return Err(Failure::text("ERR timeout is negative"));
            }
            query.block = Some((millis > 0).then(|| context.now().saturating_add(millis)));
        } else if words.is(at, "COUNT") && more > 0 {
            at += 1;
            query.count = words.integer(at)?.max(0);
        } else if words.is(at, "STREAMS") && more > 0 {
            streams = Some(at + 1);
            break;
        } else if words.is(at, "GROUP") && more >= 2 {
            if !with_group {
                let text = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
                return Err(Failure::text(text));
            }
            query.group = Some((words.at(at + 1), words.at(at + 2)));
            at += 2;
        } else if words.is(at, "NOACK") {
            if !with_group {
                let text = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";
                return Err(Failure::text(text));
            }
            query.no_ack = true;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    let both = words.from(streams.ok_or(Failure::Syntax)?);
    if !both.len().is_multiple_of(2) {
        let text = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
        return Err(Failure::text(text));
    }
    if with_group && query.group.is_none() {
        return Err(Failure::text("ERR Missing GROUP option for XREADGROUP"));
    }
    (query.keys, query.ids) = both.split_at(both.len() / 2);
    Ok(query)
}

/// Makes a client wait for the streams. Ids that stand for what is there now are replaced by it.
fn wait(context: &mut Context<'_>, query: &Query<'_>, ids: &[Option<Id>]) {
    let Some(deadline) = query.block.filter(|_| !context.session.deny_blocking) else {
        context.reply.null_array();
        return;
    };
    let mut nothing = Vec::new();
    Reply::new(&mut nothing, context.reply.protocol()).null_array();
    let count = number::integer_bytes(if query.count == 0 { COUNT_OF_BLOCKED } else { query.count });
    let texts: Vec<Bytes> = ids.iter().map(|id| id.map_or_else(|| Bytes::from_slice(b">"), Id::text)).collect();
    let mut words: Vec<&[u8]> = vec![context.words.at(0)];
    if let Some((group, consumer)) = query.group {
        words.extend([b"GROUP", group, consumer]);
    }
    if query.no_ack {
        words.push(b"NOACK");
    }
    words.extend([b"COUNT", count.as_slice(), b"BLOCK", query.block_text, b"STREAMS"]);
    words.extend(query.keys);
    words.extend(texts.iter().map(|text| text.as_slice()));
    let keys = query.keys.iter().map(|key| Bytes::from_slice(key)).collect();
    context.session.block(&words, keys, deadline, nothing);
}

fn key_header(reply: &mut Reply<'_>, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Keys with their entries: a map, or an array of pairs in the older protocol.
fn finish(reply: &mut Reply<'_>, header: resp::Deferred, served: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.finish_array(header, served),
        Protocol::Resp3 => reply.finish_map(header, served),
    }
}

fn limit(count: i64) -> usize {
    if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) }
}

/// A client that waited is given what it was woken for.
fn is_ready(session: &Session, key: &[u8]) -> bool {
    session.ready_key.as_ref().is_none_or(|ready| ready.as_slice() == key)
}

fn xread(context: &mut Context<'_>) -> Result<(), Failure> {
    let query = parse(context, false)?;
    let retrying = context.session.retrying;
    let mut ids = Vec::with_capacity(query.ids.len());
    for (key, text) in query.keys.iter().zip(query.ids) {
        let last = match context.keys.get::<Stream>(key) {
            Ok(stream) => stream.map(|stream| stream.last_id),
            Err(Failure::WrongType) if retrying => None,
            Err(failure) => return Err(failure),
        };
        ids.push(match *text {
            b"$" => last.unwrap_or(Id::MIN),
            b">" => {
                let text = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                            <consumer> option.";
                return Err(Failure::text(text));
            }
            text => strict_id(text, 0)?,
        });
    }
    let mut header = None;
    let mut served = 0;
    for (key, id) in query.keys.iter().zip(&ids) {
        let Some(stream) = context.keys.found::<Stream>(key) else { continue };
        if !is_ready(context.session, key) || !has_entries_behind(stream, *id) {
            continue;
        }
        header = header.or_else(|| Some(context.reply.defer()));
        served += 1;
        key_header(&mut context.reply, key);
        let entries = context.reply.defer();
        let mut given = 0;
        if let Some(from) = id.next() {
            let reply = &mut context.reply;
            stream.each(from..=Id::MAX, false, |entry| {
                entry.reply(reply);
                given += 1;
                given < limit(query.count)
            });
        }
        context.reply.finish_array(entries, given);
    }
    match header {
        Some(header) => finish(&mut context.reply, header, served),
        None => {
            context.keys.check()?;
            wait(context, &query, &ids.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
    Ok(())
}

fn xreadgroup(context: &mut Context<'_>) -> Result<(), Failure> {
    let query = parse(context, true)?;
    let Some((group, consumer)) = query.group else { return Err(Failure::Syntax) };
    let mut ids = Vec::with_capacity(query.ids.len());
    for (key, id) in query.keys.iter().zip(query.ids) {
        check_group(context, key, group)?;
        ids.push(match *id {
            b"$" => {
                let text = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
                            this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID \
                            would just return an empty result set.";
                return Err(Failure::text(text));
            }
            b">" => None,
            text => Some(strict_id(text, 0)?).filter(|id| *id != Id::MAX),
        });
    }
    let mut log = Vec::new();
    let mut header = None;
    let mut served = 0;
    for (key, id) in query.keys.iter().zip(&ids) {
        let Some(stream) = context.keys.found::<Stream>(key) else { continue };
        let Some(last) = stream.groups.get(group).map(|group| group.last) else { continue };
        if !is_ready(context.session, key) || id.is_none() && !has_entries_behind(stream, last) {
            continue;
        }
        header = header.or_else(|| Some(context.reply.defer()));
        served += 1;
        key_header(&mut context.reply, key);
        see_consumer(context, key, group, consumer, &mut log)?;
        match id {
            Some(id) => give_history(context, key, (group, consumer), *id, &query, &mut log)?,
            None => give_new(context, key, (group, consumer), &query, &mut log)?,
        }
        context.keys.changes.dirty += 1;
    }
    match header {
        Some(header) => {
            finish(&mut context.reply, header, served);
            context.keys.changes.propagate_instead(log);
        }
        None => {
            context.keys.check()?;
            wait(context, &query, &ids);
            context.keys.changes.propagate_instead(Vec::new());
        }
    }
    Ok(())
}

/// The key must hold a stream with the group. A client that waited learns that they have gone.
fn check_group(context: &mut Context<'_>, key: &[u8], group: &[u8]) -> Result<(), Failure> {
    const GONE: Failure = Failure::text("UNBLOCKED the stream key no longer exists");
    const NO_GROUP: Failure = Failure::text("NOGROUP the consumer group this client was blocked on no longer exists");
    let retrying = context.session.retrying;
    let stream = match context.keys.get::<Stream>(key) {
        Err(Failure::WrongType) if retrying => return Err(GONE),
        other => other?,
    };
    match stream {
        Some(stream) if stream.groups.contains_key(group) => Ok(()),
        Some(_) if retrying => Err(NO_GROUP),
        None if retrying => Err(GONE),
        _ => Err(Failure::owned(format!(
            "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
            text(key),
            text(group)
        ))),
    }
}

/// Notes that a consumer is there, and adds it if it is new.
fn see_consumer(
    context: &mut Context<'_>,
    key: &[u8],
    group_name: &[u8],
    consumer: &[u8],
    log: &mut Vec<Vec<Bytes>>,
) -> Result<(), Failure> {
    let now = context.now();
    let Some(stream) = context.keys.get_mut::<Stream>(key)? else { return Ok(()) };
    let Some(group) = stream.groups.get_mut(group_name) else { return Ok(()) };
    if let Some(number) = group.number_of(consumer) {
        if let Some(consumer) = group.consumer_mut(number) {
            consumer.seen = now;
        }
        return Ok(());
    }
    group.add_consumer(consumer, now);
    stream.changes();
    log.push(create_consumer_words(key, group_name, consumer));
    context.keys.changes.dirty += 1;
    context.keys.notify(EventClass::STREAM, "xgroup-createconsumer", key);
    Ok(())
}

/// What the consumer was given before, from behind an id on.
fn give_history(
    context: &mut Context<'_>,
    key: &[u8],
    (group_name, consumer): (&[u8], &[u8]),
    id: Id,
    query: &Query<'_>,
    log: &mut Vec<Vec<Bytes>>,
) -> Result<(), Failure> {
    let now = context.now();
    let header = context.reply.defer();
    let mut given = 0;
    if let Some(stream) = context.keys.get_mut::<Stream>(key)?
        && let Some(group) = stream.groups.get(group_name)
        && let Some(consumer) = group.number_of(consumer).and_then(|number| group.consumer(number))
    {
        let from = id.next().unwrap_or(Id::MAX);
        let ids: Vec<Id> = consumer.pending.range(from..).take(limit(query.count)).copied().collect();
        given = ids.len();
        for id in ids {
            let reply = &mut context.reply;
            let present = stream.get(id, |entry| entry.reply(reply)).is_some();
            if !present {
                context.reply.array(2);
                write_id(&mut context.reply, id);
                context.reply.null_array();
            }
            if stream.has_failed() {
                return Ok(());
            }
            stream.changes();
            if let Some(group) = stream.groups.get_mut(group_name).filter(|_| present) {
                group.give_again(id, now);
                // How often it was given is known after a replay too; Redis does not propagate that.
                if let Some(pending) = group.pending().get(&id) {
                    log.push(claim_words(key, group_name, group, id, pending));
                }
            }
        }
    }
    context.reply.finish_array(header, given);
    Ok(())
}

/// What nobody of the group was given yet.
fn give_new(
    context: &mut Context<'_>,
    key: &[u8],
    (group_name, consumer): (&[u8], &[u8]),
    query: &Query<'_>,
    log: &mut Vec<Vec<Bytes>>,
) -> Result<(), Failure> {
    let now = context.now();
    let header = context.reply.defer();
    let mut ids = Vec::new();
    if let Some(stream) = context.keys.get_mut::<Stream>(key)?
        && let Some(last) = stream.groups.get(group_name).map(|group| group.last)
    {
        if let Some(from) = last.next() {
            let reply = &mut context.reply;
            stream.each(from..=Id::MAX, false, |entry| {
                entry.reply(reply);
                ids.push(entry.id);
                ids.len() < limit(query.count)
            });
        }
        if stream.has_failed() {
            return Ok(());
        }
        stream.changes();
        for id in &ids {
            stream.advance(group_name, *id);
            let Some(group) = stream.groups.get_mut(group_name) else { break };
            let Some(number) = group.number_of(consumer).filter(|_| !query.no_ack) else { continue };
            let pending = Pending { delivered: now, count: 1, consumer: number };
            group.give(*id, pending);
            log.push(claim_words(key, group_name, group, *id, &pending));
        }
        // XCLAIM's LASTID says how far the group is, but not how many entries it has read.
        if !ids.is_empty()
            && let Some(group) = stream.groups.get(group_name)
        {
            log.push(set_id_words(key, group_name, group));
        }
    }
    context.reply.finish_array(header, ids.len());
    Ok(())
}
