//! Lists.

mod blocking;
mod pop;
mod search;

use keyspace::{
    Failure,
    changes::EventClass,
    value::{
        List,
        list::{End, NodeLimit},
    },
};
use resp::Reply;

use crate::{
    Context,
    config::Settings,
    server::{Command, Handler, Progress, Wide, Work, giving_steps},
    session::Rest,
    table::{Access, Categories, Flags, KeySpec, Replies},
};

const GROUP: &str = "list";
const WRITE: Flags = Flags::WRITE.union(Flags::DENYOOM);
const FAST_WRITE: Flags = WRITE.union(Flags::FAST);
const BLOCKS: Flags = Flags::WRITE.union(Flags::BLOCKING).union(Flags::NOSCRIPT);

const fn command(name: &'static str, arity: i32, handler: Handler, flags: Flags, keys: &'static [KeySpec]) -> Command {
    Command::new(name, arity, handler).flags(flags).keys(keys).group(GROUP, Categories::LIST)
}

const POP: Access = Access::RW.union(Access::ACCESS).union(Access::DELETE);
const INSERT: Access = Access::RW.union(Access::INSERT);
const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];
const INSERTS: &[KeySpec] = &[KeySpec::one(1, INSERT)];
const DELETES: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::DELETE))];
const POPS: &[KeySpec] = &[KeySpec::one(1, POP)];
const POPS_ALL_BUT_LAST: &[KeySpec] = &[KeySpec::range(1, -2, 1, POP)];
const MOVES: &[KeySpec] = &[KeySpec::one(1, POP), KeySpec::one(2, INSERT)];

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    command("BLMOVE", 6, blocking::blmove, BLOCKS.union(Flags::DENYOOM), MOVES)
        .docs("6.2.0", "O(1)", "Moves an element from one list to another; waits until there is one.")
        .syntax("source#0 destination#1 wherefrom<LEFT|RIGHT> whereto<LEFT|RIGHT> timeout:double"),
    command(
        "BLMPOP",
        -5,
        blocking::blmpop,
        Flags::WRITE.union(Flags::BLOCKING).union(Flags::MOVABLE_KEYS),
        &[KeySpec::counted(2, POP)],
    )
    .docs(
        "7.0.0",
        "O(N+M) for N keys and M elements",
        "Removes and returns elements of the first list that has any; waits until one has.",
    )
    .syntax("timeout:double numkeys:integer key#0... where<LEFT|RIGHT> [COUNT/count:integer]"),
    command("BLPOP", -3, blocking::blpop, BLOCKS, POPS_ALL_BUT_LAST)
        .docs(
            "2.0.0",
            "O(N) for N keys",
            "Removes and returns the first element of the first list that has any; waits until one has.",
        )
        .syntax("key#0... timeout:double"),
    command("BRPOP", -3, blocking::brpop, BLOCKS, POPS_ALL_BUT_LAST)
        .docs(
            "2.0.0",
            "O(N) for N keys",
            "Removes and returns the last element of the first list that has any; waits until one has.",
        )
        .syntax("key#0... timeout:double"),
    command("BRPOPLPUSH", 4, blocking::brpoplpush, BLOCKS.union(Flags::DENYOOM), MOVES)
        .docs("2.2.0", "O(1)", "Moves the last element of a list to the head of another; waits until there is one.")
        .syntax("source#0 destination#1 timeout:double"),
    command("LINDEX", 3, lindex, Flags::READONLY, READS)
        .docs("1.0.0", "O(N) for N elements up to the index; O(1) for the ends", "Returns the element at an index.")
        .syntax("key#0 index:integer"),
    command("LINSERT", 5, search::linsert, WRITE, INSERTS)
        .docs(
            "2.2.0",
            "O(N) for N elements up to the one it is put beside",
            "Inserts an element before or after another.",
        )
        .syntax("key#0 where<BEFORE|AFTER> pivot element"),
    command("LLEN", 2, llen, Flags::READONLY.union(Flags::FAST), &[KeySpec::one(1, Access::RO)])
        .docs("1.0.0", "O(1)", "Returns the number of elements.")
        .syntax("key#0"),
    command("LMOVE", 5, pop::lmove, WRITE, MOVES)
        .docs("6.2.0", "O(1)", "Moves an element from one list to another.")
        .syntax("source#0 destination#1 wherefrom<LEFT|RIGHT> whereto<LEFT|RIGHT>"),
    command("LMPOP", -4, pop::lmpop, Flags::WRITE.union(Flags::MOVABLE_KEYS), &[KeySpec::counted(1, POP)])
        .docs(
            "7.0.0",
            "O(N+M) for N keys and M elements",
            "Removes and returns elements of the first list that has any.",
        )
        .syntax("numkeys:integer key#0... where<LEFT|RIGHT> [COUNT/count:integer]"),
    command("LPOP", -2, |context| pop::pop(context, End::Head), Flags::WRITE.union(Flags::FAST), POPS)
        .docs("1.0.0", "O(N) for N elements", "Removes and returns the first elements.")
        .syntax("key#0 [count:integer@6.2.0]"),
    command("LPOS", -3, search::lpos, Flags::READONLY, READS)
        .docs(
            "6.0.6",
            "O(N) for N elements; less if the match is near an end, or MAXLEN says so",
            "Returns the indices of the elements that equal a value.",
        )
        .syntax("key#0 element [RANK/rank:integer] [COUNT/num-matches:integer] [MAXLEN/len:integer]"),
    command("LPUSH", -3, |context| push(context, End::Head), FAST_WRITE, INSERTS)
        .docs("1.0.0", "O(N) for N elements added", "Inserts elements before the first.")
        .syntax("key#0 element...")
        .wide(Wide::new(1, Replies::Last)),
    command("LPUSHX", -3, |context| push_if_there(context, End::Head), FAST_WRITE, INSERTS)
        .docs("2.2.0", "O(N) for N elements added", "Inserts elements before the first, if the list exists.")
        .syntax("key#0 element...")
        .wide(Wide::new(1, Replies::Last)),
    command("LRANGE", 4, lrange, Flags::READONLY, READS)
        .docs(
            "1.0.0",
            "O(S+N) for S elements between the nearer end and the first one, and N elements given",
            "Returns the elements in a range of indices.",
        )
        .syntax("key#0 start:integer stop:integer"),
    command("LREM", 4, search::lrem, Flags::WRITE, DELETES)
        .docs("1.0.0", "O(N+M) for N elements of which M are removed", "Removes the elements that equal a value.")
        .syntax("key#0 count:integer element"),
    command("LSET", 4, lset, WRITE, &[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .docs("1.0.0", "O(N) for N elements; O(1) for the ends", "Replaces the element at an index.")
        .syntax("key#0 index:integer element"),
    command("LTRIM", 4, ltrim, Flags::WRITE, DELETES)
        .docs("1.0.0", "O(N) for N elements removed", "Removes the elements outside of a range of indices.")
        .syntax("key#0 start:integer stop:integer"),
    command("RPOP", -2, |context| pop::pop(context, End::Tail), Flags::WRITE.union(Flags::FAST), POPS)
        .docs("1.0.0", "O(N) for N elements", "Removes and returns the last elements.")
        .syntax("key#0 [count:integer@6.2.0]"),
    command("RPOPLPUSH", 3, pop::rpoplpush, WRITE, MOVES)
        .docs("1.2.0", "O(1)", "Moves the last element of a list to the head of another.")
        .syntax("source#0 destination#1"),
    command("RPUSH", -3, |context| push(context, End::Tail), FAST_WRITE, INSERTS)
        .docs("1.0.0", "O(N) for N elements added", "Appends elements after the last.")
        .syntax("key#0 element...")
        .wide(Wide::new(1, Replies::Last)),
    command("RPUSHX", -3, |context| push_if_there(context, End::Tail), FAST_WRITE, INSERTS)
        .docs("2.2.0", "O(N) for N elements added", "Appends elements after the last, if the list exists.")
        .syntax("key#0 element...")
        .wide(Wide::new(1, Replies::Last)),
];

/// Elements that are removed with their node, or compared, cost as much as one that is removed by itself.
const ELEMENTS_AS_ONE: usize = 16;

fn limit(settings: &Settings) -> NodeLimit {
    settings.list_limit()
}

fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

fn push(context: &mut Context<'_>, end: End) -> Result<(), Failure> {
    let key = context.words.at(1);
    let limit = limit(&context.shared.settings);
    let strings = context.words.from(2);
    let list = context.keys.get_or_insert(key, |_| List::new())?;
    strings.iter().for_each(|string| list.push(end, string, limit));
    context.reply.count(list.len());
    context.keys.modified_by(key, strings.len());
    context.keys.notify(EventClass::LIST, push_event(end), key);
    Ok(())
}

fn push_if_there(context: &mut Context<'_>, end: End) -> Result<(), Failure> {
    if context.keys.look::<List>(context.words.at(1))?.is_some() {
        return push(context, end);
    }
    context.reply.integer(0);
    Ok(())
}

fn llen(context: &mut Context<'_>) -> Result<(), Failure> {
    let list = context.keys.get::<List>(context.words.at(1))?;
    context.reply.count(list.map_or(0, List::len));
    Ok(())
}

/// The place of a number that counts from the end if it is negative.
fn place(number: i64, len: usize) -> Option<usize> {
    let place = if number < 0 { number.checked_add_unsigned(len as u64)? } else { number };
    usize::try_from(place).ok().filter(|place| *place < len)
}

/// The range between two such numbers, both included: where it begins and how many it has.
fn range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let signed = len as i64;
    let start = if start < 0 { start.saturating_add(signed).max(0) } else { start };
    let stop = if stop < 0 { stop.saturating_add(signed) } else { stop.min(signed - 1) };
    if start > stop || start >= signed {
        return (0, 0);
    }
    (start as usize, (stop - start + 1) as usize)
}

fn lindex(context: &mut Context<'_>) -> Result<(), Failure> {
    let Some(list) = context.keys.get::<List>(context.words.at(1))? else {
        context.reply.null();
        return Ok(());
    };
    let place = place(context.words.integer(2)?, list.len());
    context.reply.bulk_or_null(place.and_then(|place| list.get(place)).as_deref());
    Ok(())
}

fn lrange(context: &mut Context<'_>) -> Result<(), Failure> {
    let (start, stop) = (context.words.integer(2)?, context.words.integer(3)?);
    let Some(list) = context.keys.get::<List>(context.words.at(1))? else {
        context.reply.array(0);
        return Ok(());
    };
    let (start, count) = range(start, stop, list.len());
    if context.session.takes_turns(count, context.shared)
        && let Some(portions) = list.portions(start, count)
    {
        context.reply.array(count);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
        return Ok(());
    }
    if context.session.takes_steps(count, context.shared) {
        let mut given = 0;
        let step = move |context: &mut Context<'_>, budget: usize| {
            if given == 0 {
                context.reply.array(count);
            }
            if let Some(list) = context.keys.look::<List>(context.words.at(1))? {
                give_some(&mut context.reply, list, start + given, budget.min(count - given));
            }
            given = given.saturating_add(budget).min(count);
            Ok(Progress::over_if(given == count))
        };
        return context.work_on(count, giving_steps(step));
    }
    context.reply.array(count);
    give_some(&mut context.reply, list, start, count);
    Ok(())
}

/// Gives so many elements from one on.
fn give_some(reply: &mut Reply<'_>, list: &List, from: usize, count: usize) {
    let mut left = count;
    if count > 0 {
        list.each_from(from, |element| {
            reply.bulk(element);
            left -= 1;
            left > 0
        });
    }
}

fn lset(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let len = context.keys.look::<List>(key)?.ok_or(Failure::NoSuchKey)?.len();
    let place = place(context.words.integer(2)?, len).ok_or(Failure::IndexRange)?;
    let limit = limit(&context.shared.settings);
    if let Some(list) = context.keys.get_mut::<List>(key)? {
        list.set(place, context.words.at(3), limit);
    }
    context.keys.modified(key);
    context.keys.notify(EventClass::LIST, "lset", key);
    context.reply.ok();
    Ok(())
}

fn ltrim(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let (start, stop) = (context.words.integer(2)?, context.words.integer(3)?);
    let Some(len) = context.keys.look::<List>(key)?.map(List::len) else {
        context.reply.ok();
        return Ok(());
    };
    let (head, count) = range(start, stop, len);
    let work = Trimming { head, tail: len - head - count, removed: len - count };
    context.work_on((len - count) / ELEMENTS_AS_ONE, work)
}

/// What LTRIM has still to remove.
#[derive(Debug)]
struct Trimming {
    head: usize,
    tail: usize,
    /// All that it removes.
    removed: usize,
}

impl Work for Trimming {
    fn changes(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let key = context.words.at(1);
        let budget = budget.saturating_mul(ELEMENTS_AS_ONE);
        let tail = self.tail.min(budget);
        let head = self.head.min(budget - tail);
        let mut empty = false;
        if let Some(list) = context.keys.get_mut::<List>(key)? {
            list.drop_at(End::Tail, tail);
            list.drop_at(End::Head, head);
            empty = list.is_empty();
        }
        (self.head, self.tail) = (self.head - head, self.tail - tail);
        if self.head + self.tail > 0 {
            return Ok(Progress::More);
        }
        context.keys.notify(EventClass::LIST, "ltrim", key);
        if empty {
            context.keys.remove_if(key, List::is_empty)?;
        }
        context.keys.modified_by(key, self.removed);
        context.reply.ok();
        Ok(Progress::Done)
    }
}
