//! Members put, scored and removed.

use keyspace::{
    Bytes, Failure,
    changes::EventClass,
    number,
    value::{
        SortedSet,
        sorted_set::{Member, Ranks},
    },
};

use crate::{
    Context,
    server::{Command, Progress, Wide, Work},
    table::{Access, Categories, ElementWords, Flags, KeySpec, Replies},
};

use super::{Between, GROUP, between_indices, limits};

const WRITE: Flags = Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST);
const DELETES: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::DELETE))];

/// Scores are looked at before any member is put.
const ADDS: Wide = Wide {
    of_keys: false,
    unless_there: None,
    from: |words| {
        let mut options = AddOptions::default();
        let count = words.iter().skip(2).take_while(|word| options.take(word)).count();
        if options.increment { usize::MAX } else { 2 + count }
    },
    group: 2,
    replies: Replies::Sum,
    check: Some(|words| words.iter().step_by(2).try_for_each(|score| number::float(score).map(drop))),
};

/// Commands that change a set.
pub const COMMANDS: &[Command] = &[
    Command::new("ZADD", -4, zadd)
        .elements(ElementWords::names(3, 1))
        .flags(WRITE)
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::SORTED_SET)
        .docs("1.2.0", "O(log(N)) for each member, N: members of the set", "Adds members, or changes their scores.").syntax("key#0 [condition<NX|XX>@3.0.2] [comparison<GT|LT>@6.2.0] [change=CH@3.0.2] [increment=INCR@3.0.2] score_member{score:double member}...")
        .wide(ADDS),
    Command::new("ZINCRBY", 4, zincrby)
        .elements(ElementWords::name(3))
        .flags(WRITE)
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::SORTED_SET)
        .docs(
            "1.2.0",
            "O(log(N)), N: members of the set",
            "Adds to the score of a member; adds the member if it does not exist.",
        ).syntax("key#0 increment:integer member"),
    Command::new("ZREM", -3, zrem)
        .elements(ElementWords::names(2, 1))
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(DELETES)
        .group(GROUP, Categories::SORTED_SET)
        .docs("1.2.0", "O(M*log(N)) for M of N members", "Removes members.").syntax("key#0 member...")
        .wide(Wide::new(1, Replies::Sum)),
    Command::new("ZREMRANGEBYRANK", 4, zremrangebyrank)
        .flags(Flags::WRITE)
        .keys(DELETES)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.0.0", "O(log(N)+M), M: members removed", "Removes the members between two ranks.").syntax("key#0 start:integer stop:integer"),
    Command::new("ZREMRANGEBYSCORE", 4, zremrangebyscore)
        .flags(Flags::WRITE)
        .keys(DELETES)
        .group(GROUP, Categories::SORTED_SET)
        .docs("1.2.0", "O(log(N)+M), M: members removed", "Removes the members between two scores.").syntax("key#0 min:double max:double"),
    Command::new("ZREMRANGEBYLEX", 4, zremrangebylex)
        .flags(Flags::WRITE)
        .keys(DELETES)
        .group(GROUP, Categories::SORTED_SET)
        .docs("2.8.9", "O(log(N)+M), M: members removed", "Removes the members between two names, where all scores are equal.").syntax("key#0 min max"),
];

/// What ZADD puts, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AddOptions {
    /// `NX`: only members that are not there.
    pub only_new: bool,
    /// `XX`: only members that are.
    pub only_present: bool,
    /// `GT`: only to greater scores.
    pub greater: bool,
    /// `LT`: only to lower ones.
    pub lower: bool,
    /// `CH`: those whose score changed are counted too.
    pub count_changed: bool,
    /// `INCR`: the score is added, the sum is the answer.
    pub increment: bool,
}

impl AddOptions {
    /// Takes an option, if it is one.
    fn take(&mut self, word: &[u8]) -> bool {
        let Self { only_new, only_present, greater, lower, count_changed, increment } = self;
        let options = [
            ("NX", only_new),
            ("XX", only_present),
            ("GT", greater),
            ("LT", lower),
            ("CH", count_changed),
            ("INCR", increment),
        ];
        for (name, option) in options {
            if word.eq_ignore_ascii_case(name.as_bytes()) {
                *option = true;
                return true;
            }
        }
        false
    }

    fn check(&self, members: usize) -> Result<(), Failure> {
        if self.only_new && self.only_present {
            return Err(Failure::text("ERR XX and NX options at the same time are not compatible"));
        }
        if [self.only_new, self.greater, self.lower].into_iter().filter(|option| *option).count() > 1 {
            return Err(Failure::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increment && members > 1 {
            return Err(Failure::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }
}

fn zadd(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut options = AddOptions::default();
    let mut at = 2;
    while options.take(words.at(at)) {
        at += 1;
    }
    add(context, options, at)
}

fn zincrby(context: &mut Context<'_>) -> Result<(), Failure> {
    add(context, AddOptions { increment: true, ..AddOptions::default() }, 2)
}

fn add(context: &mut Context<'_>, options: AddOptions, first: usize) -> Result<(), Failure> {
    let words = context.words;
    let pairs = words.from(first);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    options.check(pairs.len() / 2)?;
    let mut members: smallvec::SmallVec<[(f64, &[u8]); 8]> = smallvec::SmallVec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks_exact(2) {
        let [score, name] = pair else { continue };
        members.push((number::float(score)?, name));
    }
    let outcome = put(context, words.at(1), &members, options, if options.increment { "zincr" } else { "zadd" })?;
    match (options.increment, outcome.score) {
        (true, Some(score)) => context.reply.double(score),
        (true, None) => context.reply.null(),
        (false, _) => context.reply.count(outcome.added + if options.count_changed { outcome.changed } else { 0 }),
    }
    Ok(())
}

/// What became of members.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Added {
    /// Members that are new.
    pub added: usize,
    /// Members whose score changed.
    pub changed: usize,
    /// The last member's score, unless the options left it out.
    pub score: Option<f64>,
}

/// Puts members into the set of a key.
pub(crate) fn put(
    context: &mut Context<'_>,
    key: &[u8],
    members: &[(f64, &[u8])],
    options: AddOptions,
    event: &'static str,
) -> Result<Added, Failure> {
    let mut outcome = Added::default();
    let limits = limits(context);
    let first_len = members.first().map_or(0, |(_, name)| name.len());
    if options.increment
        && let [(by, name)] = members
    {
        // It is the only thing that may go wrong once the key is there.
        let score = context.keys.look::<SortedSet>(key)?.and_then(|set| set.score(name));
        if score.is_some_and(|score| (score + by).is_nan()) && !options.only_new {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
    }
    let seed = context.keys.space().seed;
    let set = if options.only_present {
        match context.keys.get_mut::<SortedSet>(key)? {
            Some(set) => set,
            None => return Ok(outcome),
        }
    } else {
        context.keys.get_or_insert(key, |seed| SortedSet::new(seed, limits, first_len))?
    };
    for (score, name) in members {
        outcome.score = None;
        match set.score(name) {
            Some(_) if options.only_new => {}
            Some(former) => {
                let score = if options.increment { former + score } else { *score };
                if options.lower && score >= former || options.greater && score <= former {
                    continue;
                }
                outcome.score = Some(score);
                if score != former {
                    set.change_score(name, score);
                    outcome.changed += 1;
                }
            }
            None if options.only_present => {}
            None => {
                set.insert_new(seed, limits, Member { score: *score, name: Bytes::from_slice(name) });
                outcome.score = Some(*score);
                outcome.added += 1;
            }
        }
    }
    if outcome.added + outcome.changed > 0 {
        context.keys.modified_by(key, outcome.added + outcome.changed);
        context.keys.notify(EventClass::SORTED_SET, event, key);
    }
    Ok(outcome)
}

fn zrem(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let mut removed = 0;
    if let Some(set) = context.keys.get_mut::<SortedSet>(key)? {
        removed = context.words.from(2).iter().filter(|name| set.remove(name).is_some()).count();
    }
    finish_removal(context, "zrem", removed)
}

/// Tells of members that were removed, and answers how many.
fn finish_removal(context: &mut Context<'_>, event: &'static str, removed: usize) -> Result<(), Failure> {
    let key = context.words.at(1);
    if removed > 0 {
        context.keys.modified_by(key, removed);
        context.keys.notify(EventClass::SORTED_SET, event, key);
        context.keys.remove_if(key, SortedSet::is_empty)?;
    }
    context.reply.count(removed);
    Ok(())
}

fn remove_range(
    context: &mut Context<'_>,
    event: &'static str,
    ranks: impl FnOnce(&SortedSet) -> Ranks,
) -> Result<(), Failure> {
    let ranks = context.keys.look::<SortedSet>(context.words.at(1))?.map_or(0..0, ranks);
    context.work_on(ranks.len(), RangeRemoval { ranks, event, removed: 0 })
}

/// The removal of what is left of a range.
#[derive(Debug)]
struct RangeRemoval {
    ranks: Ranks,
    event: &'static str,
    removed: usize,
}

impl Work for RangeRemoval {
    fn changes(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let count = self.ranks.len().min(budget);
        if count > 0
            && let Some(set) = context.keys.get_mut::<SortedSet>(context.words.at(1))?
        {
            // What is behind those moves to their ranks.
            set.remove_ranks(self.ranks.start..self.ranks.start + count, |_| self.removed += 1);
        }
        self.ranks.end -= count;
        if !self.ranks.is_empty() {
            return Ok(Progress::More);
        }
        finish_removal(context, self.event, self.removed)?;
        Ok(Progress::Done)
    }
}

fn zremrangebyrank(context: &mut Context<'_>) -> Result<(), Failure> {
    let (first, last) = (context.words.integer(2)?, context.words.integer(3)?);
    remove_range(context, "zremrangebyrank", |set| between_indices(first, last, set.len()))
}

fn zremrangebyscore(context: &mut Context<'_>) -> Result<(), Failure> {
    let range = Between::scores(context.words.at(2), context.words.at(3))?;
    remove_range(context, "zremrangebyscore", |set| range.ranks(set))
}

fn zremrangebylex(context: &mut Context<'_>) -> Result<(), Failure> {
    let range = Between::names(context.words.at(2), context.words.at(3))?;
    remove_range(context, "zremrangebylex", |set| range.ranks(set))
}
