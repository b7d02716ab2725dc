//! Entries appended and removed.

use keyspace::{
    Bytes, Failure,
    changes::EventClass,
    number,
    value::{
        Stream,
        stream::{Bound, Id, NODE_BYTES_MAX, unsigned},
    },
};

use crate::{
    Context,
    server::{Command, Progress, Shared, Work, changing_steps},
    table::{Access, Categories, ElementWords, Flags, KeySpec},
    words::Words,
};

use super::{GROUP, INVALID_ID, strict_id, strict_ids};

/// Commands that append and remove.
pub const COMMANDS: &[Command] = &[
    Command::new("XADD", -5, xadd)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1), and O(N) for N entries that are trimmed", "Appends an entry.").syntax("key#0 [NOMKSTREAM@6.2.0] [trim{strategy<MAXLEN|MINID@6.2.0> [operator<equal=\"=\"|approximately=\"~\">] threshold [LIMIT/count:integer@6.2.0]}] id_or_auto<auto_id=\"*\"|id> field_value{field value}..."),
    Command::new("XTRIM", -4, xtrim)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::one(1, Access::RW.union(Access::DELETE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(N) for N entries removed", "Removes the oldest entries, down to a length or up to an id.").syntax("key#0 trim{strategy<MAXLEN|MINID@6.2.0> [operator<equal=\"=\"|approximately=\"~\">] threshold [LIMIT/count:integer@6.2.0]}"),
    Command::new("XDEL", -3, xdel)
        .elements(ElementWords::Entries { first: 2, are_read: true, are_pending: false })
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::DELETE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1) for each entry", "Removes entries by id.").syntax("key#0 id..."),
    Command::new("XLEN", 2, xlen)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO)])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1)", "Returns the number of entries.").syntax("key#0"),
    Command::new("XSETID", -3, xsetid)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(1)", "Sets the last id of a stream; for replication.").syntax("key#0 last-id [ENTRIESADDED/entries_added:integer@7.0.0] [MAXDELETEDID/max_deleted_entry_id@7.0.0]"),
];

/// How entries are removed.
#[derive(Debug, Clone, Copy)]
struct Trim {
    bound: Bound,
    /// With `~`: whole nodes only, and no more entries than this unless it is 0.
    limit: Option<u64>,
}

/// Trimming as far as it has come.
#[derive(Debug, Clone, Copy)]
struct Trimming {
    trim: Trim,
    removed: u64,
}

impl Trim {
    /// What trimming is about, in the measure of steps.
    fn elements(self, stream: &Stream, shared: &Shared) -> usize {
        let count_max = shared.step_limits.from.saturating_mul(ENTRIES_AS_ONE);
        let surplus = stream.surplus(self.bound, count_max as u64);
        let goes = self.limit.filter(|limit| *limit > 0).map_or(surplus, |limit| limit.min(surplus));
        usize::try_from(goes).unwrap_or(usize::MAX) / ENTRIES_AS_ONE
    }
}

impl Trimming {
    /// Removes some entries. Returns whether that was all.
    fn go_on(&mut self, stream: &mut Stream, budget: usize) -> bool {
        let Trim { bound, limit } = self.trim;
        let left = limit.map(|limit| if limit == 0 { 0 } else { limit - self.removed.min(limit) });
        let at_once = budget.saturating_mul(ENTRIES_AS_ONE) as u64;
        if limit.is_some_and(|limit| limit > 0) && left == Some(0) {
            return true;
        }
        // Whole nodes, as many as a step may; what that leaves is within a node.
        let is_last = left.is_some_and(|left| left > 0 && left <= at_once) || budget == usize::MAX;
        let removed = stream.trim(bound, if is_last { left } else { Some(at_once) });
        self.removed += removed;
        if is_last {
            return true;
        }
        if removed > 0 {
            return false;
        }
        self.removed += stream.trim(bound, left);
        true
    }
}

/// The id of a new entry.
#[derive(Debug, Clone, Copy)]
enum NewId {
    /// `*`
    Automatic,
    /// `ms-*`
    AutomaticSequence(u64),
    /// All of it.
    Given(Id),
}

/// Entries that go in whole nodes cost as much as one that is changed.
const ENTRIES_AS_ONE: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Options {
    trimming: Option<Trimming>,
    only_present: bool,
    id: NewId,
    /// The place of the id.
    id_at: usize,
}

fn options(context: &Context<'_>, adding: bool) -> Result<Options, Failure> {
    const TWO: Failure =
        Failure::text("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
    let words = context.words;
    let (mut bound, mut approximate, mut limit) = (None, false, None);
    let (mut only_present, mut id) = (false, NewId::Automatic);
    let mut at = 2;
    while at < words.len() {
        let more = words.len() - 1 - at;
        if adding && words.at(at) == b"*" {
            break;
        } else if more > 0 && (words.is(at, "MAXLEN") || words.is(at, "MINID")) {
            if bound.is_some() {
                return Err(TWO);
            }
            let by_len = words.is(at, "MAXLEN");
            approximate = more >= 2 && words.at(at + 1) == b"~";
            if approximate || more >= 2 && words.at(at + 1) == b"=" {
                at += 1;
            }
            bound = Some(if by_len {
                let len = words.integer(at + 1)?;
                Bound::Len(u64::try_from(len).map_err(|_| Failure::text("ERR The MAXLEN argument must be >= 0."))?)
            } else {
                Bound::From(strict_id(words.at(at + 1), 0)?)
            });
            at += 1;
        } else if more > 0 && words.is(at, "LIMIT") {
            let given = words.integer(at + 1)?;
            limit = Some(u64::try_from(given).map_err(|_| Failure::text("ERR The LIMIT argument must be >= 0."))?);
            at += 1;
        } else if adding && words.is(at, "NOMKSTREAM") {
            only_present = true;
        } else if adding {
            id = new_id(words.at(at))?;
            break;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    if bound.is_none() && limit.is_some_and(|limit| limit > 0) {
        let text = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
        return Err(Failure::text(text));
    }
    if bound.is_none() && !adding {
        return Err(Failure::text("ERR syntax error, XTRIM must be called with a trimming strategy"));
    }
    if limit.is_some() && !approximate {
        return Err(Failure::text("ERR syntax error, LIMIT cannot be used without the special ~ option"));
    }
    let limit = approximate.then(|| limit.unwrap_or_else(|| limit_by_default(context)));
    let trimming = bound.map(|bound| Trimming { trim: Trim { bound, limit }, removed: 0 });
    Ok(Options { trimming, only_present, id, id_at: at })
}

/// A hundred nodes: what may go at once unless a client says otherwise.
fn limit_by_default(context: &Context<'_>) -> u64 {
    match context.shared.settings.stream_limits().entries.saturating_mul(100) {
        0 => 10_000,
        entries => entries.min(1_000_000),
    }
}

fn new_id(text: &[u8]) -> Result<NewId, Failure> {
    if let Some(ms) = text.strip_suffix(b"-*") {
        return unsigned(ms).map(NewId::AutomaticSequence).ok_or(INVALID_ID);
    }
    strict_id(text, 0).map(NewId::Given)
}

/// The id that an entry gets behind the last one.
fn next_id(wanted: NewId, last: Id, now: u64) -> Result<Id, Failure> {
    const LOW: Failure =
        Failure::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    const EXHAUSTED: Failure =
        Failure::text("ERR The stream has exhausted the last possible ID, unable to add more items");
    if last == Id::MAX {
        return Err(EXHAUSTED);
    }
    let id = match wanted {
        NewId::Automatic if now > last.ms => Id::new(now, 0),
        NewId::Automatic => last.next().ok_or(EXHAUSTED)?,
        NewId::AutomaticSequence(ms) if ms == last.ms => Id::new(ms, last.sequence.checked_add(1).ok_or(LOW)?),
        NewId::AutomaticSequence(ms) => Id::new(ms, 0),
        NewId::Given(id) => id,
    };
    if id > last { Ok(id) } else { Err(LOW) }
}

fn xadd(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let options = options(context, true)?;
    let pairs = words.from(options.id_at + 1);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Failure::text("ERR wrong number of arguments for 'xadd' command"));
    }
    if matches!(options.id, NewId::Given(Id::MIN)) {
        return Err(Failure::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = words.at(1);
    let now = u64::try_from(context.now()).unwrap_or(0);
    let last = match context.keys.look::<Stream>(key)? {
        Some(stream) => stream.last_id,
        None if options.only_present => {
            context.reply.null();
            return Ok(());
        }
        None => Id::MIN,
    };
    let id = next_id(options.id, last, now)?;
    if pairs.iter().map(|word| word.len()).sum::<usize>() > NODE_BYTES_MAX {
        return Err(Failure::text("ERR Elements are too large to be stored"));
    }
    let elements = match options.trimming {
        Some(trimming) => {
            let stream = context.keys.look::<Stream>(key)?;
            stream.map_or(0, |stream| trimming.trim.elements(stream, context.shared))
        }
        None => 0,
    };
    context.work_on(elements, Adding { options, id, is_added: false })
}

/// XADD: an entry is added, then others may go.
#[derive(Debug)]
struct Adding {
    options: Options,
    id: Id,
    is_added: bool,
}

impl Work for Adding {
    fn changes(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let words = context.words;
        let key = words.at(1);
        let pairs = words.from(self.options.id_at + 1);
        let limits = context.shared.settings.stream_limits();
        let stream = context.keys.get_or_insert(key, |_| Stream::default())?;
        if !self.is_added {
            stream.append(self.id, pairs, limits);
            self.is_added = true;
        }
        if let Some(trimming) = &mut self.options.trimming
            && !trimming.go_on(stream, budget)
        {
            return Ok(Progress::More);
        }
        let trim = self.options.trimming.map(|trimming| trimming.trim);
        let trimmed = self.options.trimming.map_or(0, |trimming| trimming.removed);
        let exact = trim.map(|trim| trimmed_to(stream, trim.bound));
        context.reply.bulk(&self.id.text());
        context.keys.modified(key);
        context.keys.notify(EventClass::STREAM, "xadd", key);
        if trimmed > 0 {
            context.keys.notify(EventClass::STREAM, "xtrim", key);
        }
        let approximate = trim.is_some_and(|trim| trim.limit.is_some());
        if approximate || !matches!(self.options.id, NewId::Given(_)) {
            // The log says what happened: this id, and this many entries that stayed.
            let mut instead = trim_words(words, if approximate { exact } else { trim.map(|trim| trim.bound) });
            if self.options.only_present {
                instead.push(Bytes::from_slice(b"NOMKSTREAM"));
            }
            instead.push(self.id.text());
            instead.extend(pairs.iter().map(|word| Bytes::from_slice(word)));
            context.keys.changes.propagate_instead(vec![instead]);
        }
        Ok(Progress::Done)
    }
}

/// The bound that leaves exactly what a stream has now.
fn trimmed_to(stream: &Stream, bound: Bound) -> Bound {
    match bound {
        Bound::Len(_) => Bound::Len(stream.len()),
        Bound::From(_) if stream.is_empty() => Bound::From(Id::MAX),
        Bound::From(_) => Bound::From(stream.first_id),
    }
}

/// Name and key of a command, with a bound that is exact.
fn trim_words(words: Words<'_>, bound: Option<Bound>) -> Vec<Bytes> {
    let mut new = super::super::sorted_sets::words(&[words.at(0), words.at(1)]);
    match bound {
        Some(Bound::Len(len)) => {
            new.extend([Bytes::from_slice(b"MAXLEN"), Bytes::from_slice(b"=")]);
            new.push(number::integer_bytes(i64::try_from(len).unwrap_or(i64::MAX)));
        }
        Some(Bound::From(id)) => {
            new.extend([Bytes::from_slice(b"MINID"), Bytes::from_slice(b"="), id.text()]);
        }
        None => {}
    }
    new
}

fn xtrim(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let Some(mut trimming) = options(context, false)?.trimming else { return Err(Failure::Syntax) };
    let stream = context.keys.look::<Stream>(key)?;
    let elements = stream.map_or(0, |stream| trimming.trim.elements(stream, context.shared));
    let step = move |context: &mut Context<'_>, budget: usize| {
        let (key, trim) = (context.words.at(1), trimming.trim);
        let mut exact = trim.bound;
        if let Some(stream) = context.keys.get_mut::<Stream>(key)? {
            if !trimming.go_on(stream, budget) {
                return Ok(Progress::More);
            }
            exact = trimmed_to(stream, trim.bound);
        }
        let removed = usize::try_from(trimming.removed).unwrap_or(usize::MAX);
        if removed > 0 {
            context.keys.modified_by(key, removed);
            context.keys.notify(EventClass::STREAM, "xtrim", key);
            if trim.limit.is_some() {
                context.keys.changes.propagate_instead(vec![trim_words(context.words, Some(exact))]);
            }
        }
        context.reply.count(removed);
        Ok(Progress::Done)
    };
    context.work_on(elements, changing_steps(step))
}

fn xdel(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    if context.keys.look::<Stream>(key)?.is_none() {
        context.reply.integer(0);
        return Ok(());
    }
    let mut ids = strict_ids(context.words.from(2))?.into_iter();
    let (elements, mut removed) = (ids.len(), 0);
    let step = move |context: &mut Context<'_>, budget: usize| {
        let key = context.words.at(1);
        if let Some(stream) = context.keys.get_mut::<Stream>(key)? {
            removed += ids.by_ref().take(budget).filter(|id| stream.remove(*id)).count();
            if ids.len() > 0 {
                return Ok(Progress::More);
            }
        }
        if removed > 0 {
            context.keys.modified_by(key, removed);
            context.keys.notify(EventClass::STREAM, "xdel", key);
        }
        context.reply.count(removed);
        Ok(Progress::Done)
    };
    context.work_on(elements, changing_steps(step))
}

fn xlen(context: &mut Context<'_>) -> Result<(), Failure> {
    let len = context.keys.get::<Stream>(context.words.at(1))?.map_or(0, Stream::len);
    context.reply.count(usize::try_from(len).unwrap_or(usize::MAX));
    Ok(())
}

fn xsetid(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let id = strict_id(words.at(2), 0)?;
    let (mut entries_added, mut max_deleted) = (None, Id::MIN);
    let mut at = 3;
    while at < words.len() {
        if words.is(at, "ENTRIESADDED") && at + 1 < words.len() {
            let added = words.integer(at + 1)?;
            entries_added =
                Some(u64::try_from(added).map_err(|_| Failure::text("ERR entries_added must be positive"))?);
        } else if words.is(at, "MAXDELETEDID") && at + 1 < words.len() {
            max_deleted = strict_id(words.at(at + 1), 0)?;
            if id < max_deleted {
                let text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                return Err(Failure::text(text));
            }
        } else {
            return Err(Failure::Syntax);
        }
        at += 2;
    }
    let key = words.at(1);
    let stream = context.keys.look::<Stream>(key)?.ok_or(Failure::NoSuchKey)?;
    if stream.last_present().is_some_and(|last| id < last) {
        return Err(Failure::text("ERR The ID specified in XSETID is smaller than the target stream top item"));
    }
    if !stream.is_empty() && entries_added.is_some_and(|added| stream.len() > added) {
        let text = "ERR The entries_added specified in XSETID is smaller than the target stream length";
        return Err(Failure::text(text));
    }
    if let Some(stream) = context.keys.get_mut::<Stream>(key)? {
        stream.last_id = id;
        stream.entries_added = entries_added.unwrap_or(stream.entries_added);
        if max_deleted != Id::MIN {
            stream.max_deleted_id = max_deleted;
        }
    }
    // Redis tells nobody who watches the key.
    context.keys.changes.dirty += 1;
    context.keys.notify(EventClass::STREAM, "xsetid", key);
    context.reply.ok();
    Ok(())
}
