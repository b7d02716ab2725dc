//! Ranges of members.

use keyspace::{
    Failure,
    value::{
        SortedSet,
        sorted_set::{Member, Ranks},
    },
};
use resp::{Protocol, Reply};

use crate::{
    Context,
    server::{Command, Progress, giving_steps},
    session::Rest,
    table::{Access, Categories, Flags, KeySpec},
};

use super::{Between, GROUP, between_indices, steps::RangeStoring};

const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];

const fn reading(command: Command) -> Command {
    command.flags(Flags::READONLY).keys(READS).group(GROUP, Categories::SORTED_SET)
}

/// Commands that give ranges.
pub const COMMANDS: &[Command] = &[
    reading(Command::new("ZRANGE", -4, |context| range(context, None, None))).docs(
        "1.2.0",
        "O(log(N)+M), M: members given",
        "Returns the members between two ranks, scores or names, in either order.",
    ).syntax("key#0 start stop [sortby<BYSCORE|BYLEX>@6.2.0] [REV@6.2.0] [LIMIT/offset_count{offset:integer count:integer}@6.2.0] [WITHSCORES]"),
    reading(Command::new("ZREVRANGE", -4, |context| range(context, Some(By::Rank), Some(true)))).docs(
        "1.2.0",
        "O(log(N)+M), M: members given",
        "Returns the members between two ranks, the last one first.",
    ).syntax("key#0 start:integer stop:integer [WITHSCORES]"),
    reading(Command::new("ZRANGEBYSCORE", -4, |context| range(context, Some(By::Score), Some(false)))).docs(
        "1.0.5",
        "O(log(N)+M), M: members given",
        "Returns the members between two scores.",
    ).syntax("key#0 min:double max:double [WITHSCORES@2.0.0] [LIMIT/offset_count{offset:integer count:integer}]"),
    reading(Command::new("ZREVRANGEBYSCORE", -4, |context| range(context, Some(By::Score), Some(true)))).docs(
        "2.2.0",
        "O(log(N)+M), M: members given",
        "Returns the members between two scores, the highest first.",
    ).syntax("key#0 max:double min:double [WITHSCORES] [LIMIT/offset_count{offset:integer count:integer}]"),
    reading(Command::new("ZRANGEBYLEX", -4, |context| range(context, Some(By::Name), Some(false)))).docs(
        "2.8.9",
        "O(log(N)+M), M: members given",
        "Returns the members between two names, where all scores are equal.",
    ).syntax("key#0 min max [LIMIT/offset_count{offset:integer count:integer}]"),
    reading(Command::new("ZREVRANGEBYLEX", -4, |context| range(context, Some(By::Name), Some(true)))).docs(
        "2.8.9",
        "O(log(N)+M), M: members given",
        "Returns the members between two names, the last one first, where all scores are equal.",
    ).syntax("key#0 max min [LIMIT/offset_count{offset:integer count:integer}]"),
    Command::new("ZRANGESTORE", -5, zrangestore)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::UPDATE)), KeySpec::one(2, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::SORTED_SET)
        .docs("6.2.0", "O(log(N)+M), M: members stored", "Stores the members of a range in another key.").syntax("dst#0 src#1 min max [sortby<BYSCORE|BYLEX>] [REV] [LIMIT/offset_count{offset:integer count:integer}]"),
];

/// What the bounds of a range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

enum Bounds<'a> {
    Indices(i64, i64),
    Between(Between<'a>),
}

struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative: all.
    limit: i64,
}

impl<'a> Query<'a> {
    /// Reads what follows the key at a place among the words.
    fn parse(
        words: crate::words::Words<'a>,
        key_at: usize,
        store: bool,
        mut by: Option<By>,
        mut reverse: Option<bool>,
    ) -> Result<Self, Failure> {
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut at = key_at + 3;
        while at < words.len() {
            if !store && words.is(at, "WITHSCORES") {
                with_scores = true;
            } else if words.is(at, "LIMIT") && at + 2 < words.len() {
                (offset, limit) = (words.integer(at + 1)?, words.integer(at + 2)?);
                at += 2;
            } else if reverse.is_none() && words.is(at, "REV") {
                reverse = Some(true);
            } else if by.is_none() && words.is(at, "BYLEX") {
                by = Some(By::Name);
            } else if by.is_none() && words.is(at, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(Failure::Syntax);
            }
            at += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(Failure::text(text));
        }
        if with_scores && by == By::Name {
            return Err(Failure::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (first, second) = (words.at(key_at + 1), words.at(key_at + 2));
        let (min, max) = if reverse { (second, first) } else { (first, second) };
        let bounds = match by {
            By::Rank => Bounds::Indices(words.integer(key_at + 1)?, words.integer(key_at + 2)?),
            By::Score => Bounds::Between(Between::scores(min, max)?),
            By::Name => Bounds::Between(Between::names(min, max)?),
        };
        Ok(Self { bounds, reverse, with_scores, offset, limit })
    }

    /// The ranks that are asked for, counted from the first member in any case.
    fn ranks(&self, set: &SortedSet) -> Ranks {
        let between = match &self.bounds {
            Bounds::Indices(first, last) => {
                let ranks = between_indices(*first, *last, set.len());
                return if self.reverse && !ranks.is_empty() {
                    set.len() - ranks.end..set.len() - ranks.start
                } else {
                    ranks
                };
            }
            Bounds::Between(between) => between.ranks(set),
        };
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX).min(between.len().saturating_sub(offset));
        if count == 0 {
            return 0..0;
        }
        if self.reverse {
            between.end - offset - count..between.end - offset
        } else {
            between.start + offset..between.start + offset + count
        }
    }
}

/// Writes the header of members: those with scores are flat in the older protocol, pairs in the newer one.
pub(super) fn members_header(reply: &mut Reply<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && reply.protocol() == Protocol::Resp2;
    reply.array(if flat { count.saturating_mul(2) } else { count });
}

/// Writes one of them.
pub(super) fn write_member(reply: &mut Reply<'_>, member: &Member, with_score: bool) {
    member.reply(reply, with_score);
}

fn range(context: &mut Context<'_>, by: Option<By>, reverse: Option<bool>) -> Result<(), Failure> {
    let query = Query::parse(context.words, 1, false, by, reverse)?;
    let Some(set) = context.keys.get::<SortedSet>(context.words.at(1))? else {
        context.reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(set);
    let (reverse, with_scores) = (query.reverse, query.with_scores);
    if context.session.takes_turns(ranks.len(), context.shared)
        && let Some(portions) = set.portions(ranks.clone(), reverse, with_scores)
    {
        members_header(&mut context.reply, ranks.len(), with_scores);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
        return Ok(());
    }
    if context.session.takes_steps(ranks.len(), context.shared) {
        let (count, mut left) = (ranks.len(), ranks);
        let step = move |context: &mut Context<'_>, budget: usize| {
            let reply = &mut context.reply;
            if left.len() == count {
                members_header(reply, count, with_scores);
            }
            let some = take_some(&mut left, budget, reverse);
            if let Some(set) = context.keys.look::<SortedSet>(context.words.at(1))? {
                set.each(some, reverse, |member| write_member(reply, member, with_scores));
            }
            Ok(Progress::over_if(left.is_empty()))
        };
        return context.work_on(count, giving_steps(step));
    }
    let reply = &mut context.reply;
    members_header(reply, ranks.len(), with_scores);
    set.each(ranks, reverse, |member| write_member(reply, member, with_scores));
    Ok(())
}

/// Takes some ranks from those that are left, at the end where members are given first.
pub(super) fn take_some(left: &mut Ranks, count: usize, reverse: bool) -> Ranks {
    let count = count.min(left.len());
    if reverse {
        left.end -= count;
        left.end..left.end + count
    } else {
        left.start += count;
        left.start - count..left.start
    }
}

fn zrangestore(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let query = Query::parse(words, 2, true, None, None)?;
    let mut members = Vec::new();
    if let Some(set) = context.keys.get::<SortedSet>(words.at(2))? {
        let ranks = query.ranks(set);
        if context.session.takes_steps(ranks.len(), context.shared) {
            let work = RangeStoring::new(ranks.clone(), context.keys.seed());
            return context.work_on(ranks.len(), work);
        }
        set.each(ranks, false, |member| members.push(member.clone()));
    }
    let count = super::store(context, words.at(1), members, "zrangestore")?;
    context.reply.count(count);
    Ok(())
}
