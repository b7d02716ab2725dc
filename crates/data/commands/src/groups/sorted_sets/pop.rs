//! Members taken from either end, and clients that wait for some.

use keyspace::{
    Bytes, Failure, Millis,
    changes::EventClass,
    number,
    value::{SortedSet, sorted_set::Member},
};
use resp::{Protocol, Reply};

use crate::{
    Context, arguments,
    server::{Command, Progress, changing_steps},
    table::{Access, Categories, Flags, KeySpec},
};

use super::GROUP;

const TAKES: Access = Access::RW.union(Access::ACCESS).union(Access::DELETE);
const BLOCKING: Flags = Flags::WRITE.union(Flags::NOSCRIPT).union(Flags::FAST).union(Flags::BLOCKING);

/// Commands that take members.
pub const COMMANDS: &[Command] = &[
    Command::new("ZPOPMIN", -2, |context| zpop(context, Side::Min))
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs("5.0.0", "O(log(N)*M), M: members taken", "Removes and returns the members with the lowest scores.")
        .syntax("key#0 [count:integer]"),
    Command::new("ZPOPMAX", -2, |context| zpop(context, Side::Max))
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs("5.0.0", "O(log(N)*M), M: members taken", "Removes and returns the members with the highest scores.")
        .syntax("key#0 [count:integer]"),
    Command::new("BZPOPMIN", -3, |context| bzpop(context, Side::Min))
        .flags(BLOCKING)
        .keys(&[KeySpec::range(1, -2, 1, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs("5.0.0", "O(log(N))", "Removes and returns the member with the lowest score; waits until there is one.")
        .syntax("key#0... timeout:double"),
    Command::new("BZPOPMAX", -3, |context| bzpop(context, Side::Max))
        .flags(BLOCKING)
        .keys(&[KeySpec::range(1, -2, 1, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs("5.0.0", "O(log(N))", "Removes and returns the member with the highest score; waits until there is one.")
        .syntax("key#0... timeout:double"),
    Command::new("ZMPOP", -4, zmpop)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::counted(1, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs(
            "7.0.0",
            "O(K)+O(M*log(N)) for K keys, M: members taken",
            "Removes and returns members of the first sorted set that has any.",
        )
        .syntax("numkeys:integer key#0... where<MIN|MAX> [COUNT/count:integer]"),
    Command::new("BZMPOP", -5, bzmpop)
        .flags(Flags::WRITE.union(Flags::BLOCKING))
        .keys(&[KeySpec::counted(2, TAKES)])
        .group(GROUP, Categories::SORTED_SET)
        .docs(
            "7.0.0",
            "O(K)+O(M*log(N)) for K keys, M: members taken",
            "Removes and returns members of the first sorted set that has any; waits until one has.",
        )
        .syntax("timeout:double numkeys:integer key#0... where<MIN|MAX> [COUNT/count:integer]"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Min,
    Max,
}

impl Side {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        if word.eq_ignore_ascii_case(b"MIN") {
            Ok(Self::Min)
        } else if word.eq_ignore_ascii_case(b"MAX") {
            Ok(Self::Max)
        } else {
            Err(Failure::Syntax)
        }
    }

    const fn event(self) -> &'static str {
        if matches!(self, Self::Min) { "zpopmin" } else { "zpopmax" }
    }

    const fn command(self) -> &'static [u8] {
        if matches!(self, Self::Min) { b"ZPOPMIN" } else { b"ZPOPMAX" }
    }
}

/// How members are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One array, member and score in turns.
    Flat,
    /// An array of pairs.
    Pairs,
    /// The key in front.
    KeyAndFlat,
    /// The key, then an array of pairs.
    KeyAndPairs,
}

impl Form {
    /// What stands in front of so many members.
    fn begin(self, reply: &mut Reply<'_>, key: &[u8], count: usize) {
        match self {
            Self::Flat => reply.array(count * 2),
            Self::Pairs => reply.array(count),
            Self::KeyAndFlat => {
                reply.array(count * 2 + 1);
                reply.bulk(key);
            }
            Self::KeyAndPairs => {
                reply.array(2);
                reply.bulk(key);
                reply.array(count);
            }
        }
    }

    const fn has_pairs(self) -> bool {
        matches!(self, Self::Pairs | Self::KeyAndPairs)
    }
}

fn zpop(context: &mut Context<'_>, side: Side) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 3 {
        return Err(Failure::Syntax);
    }
    let count = words.get(2).map(|count| arguments::positive(count, None)).transpose()?;
    let key = words.at(1);
    let there = context.keys.look::<SortedSet>(key)?.is_some();
    if !there || count == Some(0) {
        context.reply.array(0);
        return Ok(());
    }
    let pairs = count.is_some() && context.reply.protocol() == Protocol::Resp3;
    let form = if pairs { Form::Pairs } else { Form::Flat };
    if let Some(count) = count.filter(|count| context.session.takes_steps(*count, context.shared)) {
        let count = count.min(context.keys.look::<SortedSet>(key)?.map_or(0, SortedSet::len));
        return take_in_steps(context, key, side, count, form);
    }
    take(context, key, side, count.unwrap_or(1), form)?;
    Ok(())
}

/// The same in steps. So many are there.
fn take_in_steps(context: &mut Context<'_>, key: &[u8], side: Side, count: usize, form: Form) -> Result<(), Failure> {
    let mut left = count;
    let key = Bytes::from_slice(key);
    let step = move |context: &mut Context<'_>, budget: usize| {
        let key = key.as_slice();
        if left == count {
            form.begin(&mut context.reply, key, count);
        }
        let some = left.min(budget);
        left -= some;
        let mut members = Vec::with_capacity(some);
        if let Some(set) = context.keys.get_mut::<SortedSet>(key)? {
            let ranks = if side == Side::Min { 0..some } else { set.len() - some..set.len() };
            set.remove_ranks(ranks, |member| members.push(member));
        }
        if side == Side::Max {
            members.reverse();
        }
        members.iter().for_each(|member| give(&mut context.reply, member, form.has_pairs()));
        if left == 0 {
            taken(context, key, side, count)?;
            if form == Form::KeyAndPairs {
                propagate_several(context, key, side, count);
            }
        }
        Ok(Progress::over_if(left == 0))
    };
    context.work_on(count, changing_steps(step))
}

fn give(reply: &mut Reply<'_>, member: &Member, as_pair: bool) {
    if as_pair {
        reply.array(2);
    }
    reply.bulk(&member.name);
    reply.double(member.score);
}

/// Tells of members that were taken.
fn taken(context: &mut Context<'_>, key: &[u8], side: Side, count: usize) -> Result<(), Failure> {
    context.keys.modified_by(key, count);
    context.keys.notify(EventClass::SORTED_SET, side.event(), key);
    context.keys.remove_if(key, SortedSet::is_empty)?;
    Ok(())
}

/// Takes members from a key that has some; returns how many.
fn take(context: &mut Context<'_>, key: &[u8], side: Side, count: usize, form: Form) -> Result<usize, Failure> {
    let Some(set) = context.keys.get_mut::<SortedSet>(key)? else { return Ok(0) };
    let len = set.len();
    let count = count.min(len);
    let ranks = if side == Side::Min { 0..count } else { len - count..len };
    let mut members = Vec::with_capacity(count);
    set.remove_ranks(ranks, |member| members.push(member));
    if side == Side::Max {
        members.reverse();
    }
    form.begin(&mut context.reply, key, count);
    members.iter().for_each(|member| give(&mut context.reply, member, form.has_pairs()));
    taken(context, key, side, count)?;
    Ok(count)
}

/// The first key that has members; for a client that has waited only the key that became ready counts.
fn first_with_members<'k>(context: &mut Context<'_>, keys: &[&'k [u8]]) -> Result<Option<&'k [u8]>, Failure> {
    let ready = context.session.ready_key().map(Bytes::as_slice);
    for key in keys.iter().filter(|key| ready.is_none_or(|ready| ready == **key)) {
        if context.keys.look::<SortedSet>(key)?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Waits for keys, or answers that there is nothing if waiting is not possible.
fn wait(context: &mut Context<'_>, keys: &[&[u8]], deadline: Option<Millis>) {
    if context.session.deny_blocking {
        context.reply.null_array();
        return;
    }
    let mut nothing = Vec::new();
    Reply::new(&mut nothing, context.reply.protocol()).null_array();
    let keys = keys.iter().map(|key| Bytes::from_slice(key)).collect();
    context.session.block(context.words.0, keys, deadline, nothing);
}

fn bzpop(context: &mut Context<'_>, side: Side) -> Result<(), Failure> {
    let words = context.words;
    let keys = words.0.get(1..words.len() - 1).unwrap_or_default();
    let deadline = arguments::deadline(words.at(words.len() - 1), context.now())?;
    let Some(key) = first_with_members(context, keys)? else {
        wait(context, keys, deadline);
        return Ok(());
    };
    take(context, key, side, 1, Form::KeyAndFlat)?;
    context.keys.changes.propagate_instead(vec![super::words(&[side.command(), key])]);
    Ok(())
}

struct Several<'a> {
    keys: &'a [&'a [u8]],
    side: Side,
    count: usize,
}

fn several<'a>(words: crate::words::Words<'a>, number_at: usize) -> Result<Several<'a>, Failure> {
    let number = arguments::at_least_one(words.at(number_at), "ERR numkeys should be greater than 0")?;
    let side_at = number.saturating_add(number_at + 1);
    let keys = words.0.get(number_at + 1..side_at).filter(|_| side_at < words.len()).ok_or(Failure::Syntax)?;
    let side = Side::parse(words.at(side_at))?;
    let count = match words.from(side_at + 1) {
        [] => 1,
        [name, count, rest @ ..] if name.eq_ignore_ascii_case(b"COUNT") => {
            let count = arguments::at_least_one(count, "ERR count should be greater than 0")?;
            if !rest.is_empty() {
                return Err(Failure::Syntax);
            }
            count
        }
        _ => return Err(Failure::Syntax),
    };
    Ok(Several { keys, side, count })
}

fn take_several(context: &mut Context<'_>, key: &[u8], several: &Several<'_>) -> Result<(), Failure> {
    if context.session.takes_steps(several.count, context.shared) {
        let count = several.count.min(context.keys.look::<SortedSet>(key)?.map_or(0, SortedSet::len));
        if context.session.takes_steps(count, context.shared) {
            return take_in_steps(context, key, several.side, count, Form::KeyAndPairs);
        }
    }
    let taken = take(context, key, several.side, several.count, Form::KeyAndPairs)?;
    propagate_several(context, key, several.side, taken);
    Ok(())
}

/// What is propagated does not wait and names the one key.
fn propagate_several(context: &mut Context<'_>, key: &[u8], side: Side, count: usize) {
    let count = number::integer_bytes(count as i64);
    context.keys.changes.propagate_instead(vec![super::words(&[side.command(), key, &count])]);
}

fn zmpop(context: &mut Context<'_>) -> Result<(), Failure> {
    let several = several(context.words, 1)?;
    match first_with_members(context, several.keys)? {
        Some(key) => take_several(context, key, &several),
        None => {
            context.reply.null_array();
            Ok(())
        }
    }
}

fn bzmpop(context: &mut Context<'_>) -> Result<(), Failure> {
    let several = several(context.words, 2)?;
    let deadline = arguments::deadline(context.words.at(1), context.now())?;
    match first_with_members(context, several.keys)? {
        Some(key) => take_several(context, key, &several),
        None => {
            wait(context, several.keys, deadline);
            Ok(())
        }
    }
}
