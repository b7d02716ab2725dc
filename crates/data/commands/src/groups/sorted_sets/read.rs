//! Scores, ranks and numbers of members.

use keyspace::{Failure, number, value::SortedSet};

use crate::{
    Context,
    arguments::{self, ScanOptions},
    server::{Command, Scanning, Wide},
    table::{Access, Categories, ElementWords, Flags, KeySpec, Replies},
};

use super::{Between, GROUP};

const FAST: Flags = Flags::READONLY.union(Flags::FAST);
const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];

/// Commands that ask about members.
pub const COMMANDS: &[Command] = &[
    Command::new("ZCARD", 2, zcard)
        .flags(FAST)
        .keys(&[KeySpec::one(1, Access::RO)])
        .group(GROUP, Categories::SORTED_SET)
        .docs("1.2.0", "O(1)", "Returns the number of members.")
        .syntax("key#0"),
    Command::new("ZSCORE", 3, zscore)
        .elements(ElementWords::name(2))
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("1.2.0", "O(1)", "Returns the score of a member.")
        .syntax("key#0 member"),
    Command::new("ZMSCORE", -3, zmscore)
        .elements(ElementWords::names(2, 1))
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("6.2.0", "O(1) for each member", "Returns the scores of members.")
        .syntax("key#0 member...")
        .wide(Wide::new(1, Replies::Joined)),
    Command::new("ZRANK", 3, |context| rank(context, false))
        .elements(ElementWords::name(2))
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.0.0", "O(log(N))", "Returns how many members are before one.")
        .syntax("key#0 member"),
    Command::new("ZREVRANK", 3, |context| rank(context, true))
        .elements(ElementWords::name(2))
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.0.0", "O(log(N))", "Returns how many members are after one.")
        .syntax("key#0 member"),
    Command::new("ZCOUNT", 4, zcount)
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.0.0", "O(log(N))", "Counts the members between two scores.")
        .syntax("key#0 min:double max:double"),
    Command::new("ZLEXCOUNT", 4, zlexcount)
        .flags(FAST)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.8.9", "O(log(N))", "Counts the members between two names, where all scores are equal.")
        .syntax("key#0 min max"),
    Command::new("ZSCAN", -3, zscan)
        .flags(Flags::READONLY)
        .keys(READS)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.8.0", "O(1) for each call", "Walks over members and scores in steps.")
        .syntax("key#0 cursor:integer [MATCH/pattern:pattern] [COUNT/count:integer]"),
];

fn zcard(context: &mut Context<'_>) -> Result<(), Failure> {
    let count = context.keys.get::<SortedSet>(context.words.at(1))?.map_or(0, SortedSet::len);
    context.reply.count(count);
    Ok(())
}

fn zscore(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<SortedSet>(context.words.at(1))?;
    match set.and_then(|set| set.score(context.words.at(2))) {
        Some(score) => context.reply.double(score),
        None => context.reply.null(),
    }
    Ok(())
}

fn zmscore(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<SortedSet>(context.words.at(1))?;
    let names = context.words.from(2);
    context.reply.array(names.len());
    for name in names {
        match set.and_then(|set| set.score(name)) {
            Some(score) => context.reply.double(score),
            None => context.reply.null(),
        }
    }
    Ok(())
}

fn rank(context: &mut Context<'_>, reverse: bool) -> Result<(), Failure> {
    let set = context.keys.get::<SortedSet>(context.words.at(1))?;
    let found = set.and_then(|set| Some((set.len(), set.rank(context.words.at(2))?.0)));
    match found {
        Some((len, rank)) => context.reply.count(if reverse { len - 1 - rank } else { rank }),
        None => context.reply.null(),
    }
    Ok(())
}

fn zcount(context: &mut Context<'_>) -> Result<(), Failure> {
    let range = Between::scores(context.words.at(2), context.words.at(3))?;
    count(context, range)
}

fn zlexcount(context: &mut Context<'_>) -> Result<(), Failure> {
    let range = Between::names(context.words.at(2), context.words.at(3))?;
    count(context, range)
}

fn count(context: &mut Context<'_>, range: Between<'_>) -> Result<(), Failure> {
    let count = context.keys.get::<SortedSet>(context.words.at(1))?.map_or(0, |set| range.ranks(set).len());
    context.reply.count(count);
    Ok(())
}

fn zscan(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let cursor = arguments::cursor(words.at(2))?;
    let Some(set) = context.keys.get::<SortedSet>(words.at(1))? else {
        context.reply.array(2);
        context.reply.bulk(b"0");
        context.reply.array(0);
        return Ok(());
    };
    let (len, count) = (set.len(), ScanOptions::parse(words, 3)?.count);
    context.work_on(count.min(len), Scanning::new(cursor, count, scan_some))
}

fn scan_some(context: &mut Context<'_>, cursor: u64, count: usize) -> Result<(u64, usize), Failure> {
    let options = ScanOptions::parse(context.words, 3)?;
    let Some(set) = context.keys.look::<SortedSet>(context.words.at(1))? else { return Ok((0, 0)) };
    let small = matches!(set, SortedSet::Small(_));
    let (reply, mut found) = (&mut context.reply, 0);
    let mut score = Vec::with_capacity(resp::DOUBLE_LEN_MAX);
    let next = set.scan(cursor, count, |member| {
        if !options.matches(&member.name) {
            return;
        }
        found += 2;
        reply.bulk(&member.name);
        score.clear();
        // What Redis holds as an integer it gives as one.
        let whole = member.score.trunc() == member.score && member.score.abs() < (i64::MAX / 2) as f64;
        if small && whole {
            score.extend_from_slice(&number::integer_bytes(member.score as i64));
        } else {
            resp::format_double(&mut score, member.score);
        }
        reply.bulk(&score);
    });
    Ok((next.unwrap_or(0), found))
}
