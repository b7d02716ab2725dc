//! Entries behind those that are known, and clients that wait for some.

use std::ops::RangeInclusive;

use keyspace::{
    Bytes, Failure, Millis, number,
    value::{Stream, stream::Id},
};
use resp::{Deferred, Protocol, Reply};

use crate::{
    Context, Session,
    server::{Command, Progress, Work},
    table::{Access, Begin, Categories, ElementWords, Find, Flags, KeySpec},
};

use super::{GROUP, claims::Claims, group_reading::GroupReading, has_entries_behind, range::Given, strict_id, text};

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
        .elements(ElementWords::Streams)
        .flags(Flags::READONLY.union(Flags::BLOCKING))
        .keys(&[keys(1)])
        .key_places(places)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries", "Returns entries after the given ids; can wait until there are any.").syntax("[COUNT/count:integer] [BLOCK/milliseconds:integer] STREAMS/streams{key#0... id...}"),
    Command::new("XREADGROUP", -7, xreadgroup)
        .elements(ElementWords::Streams)
        .flags(Flags::WRITE.union(Flags::BLOCKING))
        .keys(&[keys(4)])
        .key_places(places)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries", "Returns new entries to a consumer of a group, or its own pending ones.").syntax("GROUP/group_consumer{group consumer} [COUNT/count:integer] [BLOCK/milliseconds:integer] [NOACK] STREAMS/streams{key#0... id...}"),
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
    /// The place of the first of them among the words.
    keys_at: usize,
    ids: &'a [&'a [u8]],
}

fn parse<'a>(context: &Context<'a>, with_group: bool) -> Result<Query<'a>, Failure> {
    let words = context.words;
    let mut query =
        Query { group: None, no_ack: false, count: 0, block: None, block_text: b"", keys: &[], keys_at: 0, ids: &[] };
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
    query.keys_at = streams.ok_or(Failure::Syntax)?;
    let both = words.from(query.keys_at);
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
    if let Some(blocked) = &mut context.session.blocked {
        blocked.sent = Some(context.words.0.iter().map(|word| Bytes::from_slice(word)).collect());
    }
}

pub(super) fn key_header(reply: &mut Reply<'_>, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Keys with their entries: a map, or an array of pairs in the older protocol.
pub(super) fn finish(reply: &mut Reply<'_>, header: resp::Deferred, served: usize) {
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
    session.ready_key().is_none_or(|ready| ready.as_slice() == key)
}

fn xread(context: &mut Context<'_>) -> Result<(), Failure> {
    let query = parse(context, false)?;
    let retrying = context.session.retry.is_some();
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
    // The places of the streams that have something, and what is to be read of them.
    let mut served = Vec::new();
    for (number, (key, id)) in query.keys.iter().zip(&ids).enumerate() {
        let Some(stream) = context.keys.found::<Stream>(key) else { continue };
        if is_ready(context.session, key)
            && has_entries_behind(stream, *id)
            && let Some(from) = id.next()
        {
            served.push((query.keys_at + number, from..=Id::MAX));
        }
    }
    if served.is_empty() {
        context.keys.check()?;
        wait(context, &query, &ids.into_iter().map(Some).collect::<Vec<_>>());
        return Ok(());
    }
    let at_most = limit(query.count);
    context.try_on(|| Reading {
        served: served.clone(),
        at: 0,
        at_most,
        given: Given::new(at_most),
        header: None,
        entries: None,
    })
}

/// XREAD, as far as it has come.
#[derive(Debug)]
struct Reading {
    served: Vec<(usize, RangeInclusive<Id>)>,
    /// Which of them it has come to.
    at: usize,
    /// How many entries are given of each.
    at_most: usize,
    given: Given,
    header: Option<Deferred>,
    entries: Option<Deferred>,
}

impl Work for Reading {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let header = *self.header.get_or_insert_with(|| context.reply.defer());
        let mut left = budget;
        while let Some((place, ids)) = self.served.get_mut(self.at) {
            let key = context.words.at(*place);
            let reply = &mut context.reply;
            let entries = *self.entries.get_or_insert_with(|| {
                key_header(reply, key);
                reply.defer()
            });
            let before = self.given.count;
            let stream = context.keys.look::<Stream>(key)?;
            if stream.is_some_and(|stream| !self.given.go_on(&mut context.reply, stream, ids, false, left)) {
                return Ok(Progress::More);
            }
            left = left.saturating_sub(self.given.count - before).max(1);
            context.reply.finish_array(entries, self.given.count);
            (self.entries, self.given) = (None, Given::new(self.at_most));
            self.at += 1;
        }
        finish(&mut context.reply, header, self.at);
        Ok(Progress::Done)
    }
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
    let mut served = Vec::new();
    let mut elements = 0_usize;
    for (number, (key, id)) in query.keys.iter().zip(&ids).enumerate() {
        let Some(stream) = context.keys.found::<Stream>(key) else { continue };
        let Some(found) = stream.groups.get(group) else { continue };
        if !is_ready(context.session, key) || id.is_none() && !has_entries_behind(stream, found.last) {
            continue;
        }
        served.push((query.keys_at + number, *id));
        let there = match id {
            Some(_) => {
                found.number_of(consumer).and_then(|number| found.consumer(number)).map_or(0, |it| it.pending_len())
            }
            None => {
                let lag = stream.lag(found).and_then(|lag| u64::try_from(lag).ok()).unwrap_or(u64::MAX);
                usize::try_from(lag.min(stream.len())).unwrap_or(usize::MAX)
            }
        };
        elements = elements.saturating_add(there.min(limit(query.count)));
    }
    if served.is_empty() {
        context.keys.check()?;
        wait(context, &query, &ids);
        context.keys.changes.propagate_instead(Vec::new());
        return Ok(());
    }
    let at_most = limit(query.count);
    let [group, consumer] = [group, consumer].map(Bytes::from_slice);
    let no_ack = query.no_ack;
    let work = GroupReading {
        served,
        at: 0,
        named: 0,
        at_most,
        group,
        consumer,
        no_ack,
        given: 0,
        header: None,
        entries: None,
        log: Claims::default(),
    };
    context.work_on(elements, work)
}

/// The key must hold a stream with the group. A client that waited learns that they have gone.
fn check_group(context: &mut Context<'_>, key: &[u8], group: &[u8]) -> Result<(), Failure> {
    const GONE: Failure = Failure::text("UNBLOCKED the stream key no longer exists");
    const NO_GROUP: Failure = Failure::text("NOGROUP the consumer group this client was blocked on no longer exists");
    let retrying = context.session.retry.is_some();
    let stream = match context.keys.get::<Stream>(key) {
        Err(Failure::WrongType) if retrying => return Err(GONE),
        other => other?,
    };
    match stream {
        Some(stream) if stream.groups.contains_key(group) => Ok(()),
        Some(_) if retrying => Err(NO_GROUP),
        None if retrying => Err(GONE),
        _ => Err(Failure::quoting(&[
            b"NOGROUP No such key '",
            key,
            b"' or consumer group '",
            group,
            b"' in XREADGROUP with GROUP option",
        ])),
    }
}
