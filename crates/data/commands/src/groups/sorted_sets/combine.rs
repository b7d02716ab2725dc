//! Unions, intersections and differences. Sets take part in them as if all scores were 1.

use hashbrown::{HashMap, hash_map::Entry};
use keyspace::{
    Bytes, Failure, Keys, Value, number,
    value::{Set, SortedSet, sorted_set::Member},
};
use rustc_hash::FxBuildHasher;

use crate::{
    Context,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::{
    GROUP,
    range::{members_header, write_member},
    steps::Combining,
};

const READ: Access = Access::RO.union(Access::ACCESS);

const READS: &[KeySpec] = &[KeySpec::counted(1, READ)];
const STORES: &[KeySpec] = &[KeySpec::one(1, Access::OW.union(Access::UPDATE)), KeySpec::counted(2, READ)];

const fn reading(command: Command) -> Command {
    command.flags(Flags::READONLY).keys(READS).group(GROUP, Categories::SORTED_SET)
}

const fn storing(command: Command) -> Command {
    command.flags(Flags::WRITE.union(Flags::DENYOOM)).keys(STORES).group(GROUP, Categories::SORTED_SET)
}

/// Commands that combine sets.
pub const COMMANDS: &[Command] = &[
    reading(Command::new("ZUNION", -3, |context| give(context, Operation::Union)))
        .docs("6.2.0", "O(N)+O(M*log(M)), N: members of all sets, M: of the result", "Returns the members of all sets.")
        .syntax("numkeys:integer key#0... [WEIGHTS/weight:integer...] [AGGREGATE/aggregate<SUM|MIN|MAX>] [WITHSCORES]"),
    reading(Command::new("ZINTER", -3, |context| give(context, Operation::Intersection)))
        .docs(
            "6.2.0",
            "O(N*K)+O(M*log(M)), N: members of the smallest of K sets, M: of the result",
            "Returns the members that are in all sets.",
        )
        .syntax("numkeys:integer key#0... [WEIGHTS/weight:integer...] [AGGREGATE/aggregate<SUM|MIN|MAX>] [WITHSCORES]"),
    reading(Command::new("ZDIFF", -3, |context| give(context, Operation::Difference)))
        .docs(
            "6.2.0",
            "O(N*K+M*log(M)), N: members of the first of K sets, M: of the result",
            "Returns the members of the first set that are in no other.",
        )
        .syntax("numkeys:integer key#0... [WITHSCORES]"),
    reading(Command::new("ZINTERCARD", -3, zintercard))
        .docs("7.0.0", "O(N*K), N: members of the smallest of K sets", "Counts the members that are in all sets.")
        .syntax("numkeys:integer key#0... [LIMIT/limit:integer]"),
    storing(Command::new("ZUNIONSTORE", -4, |context| store(context, Operation::Union, "zunionstore")))
        .docs("2.0.0", "O(N)+O(M*log(M)), N: members of all sets, M: of the result", "Stores the members of all sets.")
        .syntax(
            "destination#0 numkeys:integer key#1... [WEIGHTS/weight:integer...] [AGGREGATE/aggregate<SUM|MIN|MAX>]",
        ),
    storing(Command::new("ZINTERSTORE", -4, |context| store(context, Operation::Intersection, "zinterstore")))
        .docs(
            "2.0.0",
            "O(N*K)+O(M*log(M)), N: members of the smallest of K sets, M: of the result",
            "Stores the members that are in all sets.",
        )
        .syntax(
            "destination#0 numkeys:integer key#1... [WEIGHTS/weight:integer...] [AGGREGATE/aggregate<SUM|MIN|MAX>]",
        ),
    storing(Command::new("ZDIFFSTORE", -4, |context| store(context, Operation::Difference, "zdiffstore")))
        .docs(
            "6.2.0",
            "O(N*K+M*log(M)), N: members of the first of K sets, M: of the result",
            "Stores the members of the first set that are in no other.",
        )
        .syntax("destination#0 numkeys:integer key#1..."),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of a member in several sets become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        [("SUM", Self::Sum), ("MIN", Self::Min), ("MAX", Self::Max)]
            .into_iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, aggregate)| aggregate)
            .ok_or(Failure::Syntax)
    }

    pub(super) fn of(self, left: f64, right: f64) -> f64 {
        match self {
            // Infinities of both signs make 0.
            Self::Sum => or_zero(left + right),
            Self::Min => {
                if right < left {
                    right
                } else {
                    left
                }
            }
            Self::Max => {
                if right > left {
                    right
                } else {
                    left
                }
            }
        }
    }
}

pub(super) fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What is asked for.
pub(super) struct Query<'a> {
    pub(super) keys: &'a [&'a [u8]],
    pub(super) weights: Vec<f64>,
    pub(super) aggregate: Aggregate,
    pub(super) with_scores: bool,
    /// 0: none.
    pub(super) limit: usize,
}

/// Which options there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Give,
    Store,
    Count,
}

fn parse<'a>(
    context: &mut Context<'a>,
    number_at: usize,
    operation: Operation,
    purpose: Purpose,
) -> Result<Query<'a>, Failure> {
    let words = context.words;
    let number = words.integer(number_at)?;
    if number < 1 {
        let name = String::from_utf8_lossy(words.at(0)).to_ascii_lowercase();
        return Err(Failure::owned(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let keys = words.from(number_at + 1).get(..number).ok_or(Failure::Syntax)?;
    for key in keys {
        if !matches!(context.keys.value(key)?, None | Some(Value::SortedSet(_) | Value::Set(_))) {
            return Err(Failure::WrongType);
        }
    }
    let weighted = operation != Operation::Difference && purpose != Purpose::Count;
    let mut query = Query { keys, weights: vec![1.0; number], aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
    let mut at = number_at + 1 + number;
    while at < words.len() {
        let left = words.len() - at;
        if weighted && left > number && words.is(at, "WEIGHTS") {
            for (weight, text) in query.weights.iter_mut().zip(words.from(at + 1)) {
                *weight = number::parse_float(text).ok_or(Failure::text("ERR weight value is not a float"))?;
            }
            at += number + 1;
        } else if weighted && left >= 2 && words.is(at, "AGGREGATE") {
            query.aggregate = Aggregate::parse(words.at(at + 1))?;
            at += 2;
        } else if purpose == Purpose::Give && words.is(at, "WITHSCORES") {
            query.with_scores = true;
            at += 1;
        } else if purpose == Purpose::Count && left >= 2 && words.is(at, "LIMIT") {
            let limit = words.integer(at + 1).ok().and_then(|limit| usize::try_from(limit).ok());
            query.limit = limit.ok_or(Failure::text("ERR LIMIT can't be negative"))?;
            at += 2;
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok(query)
}

/// A set that takes part.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Sorted(&'a SortedSet),
    Plain(&'a Set),
    Absent,
}

impl<'a> Source<'a> {
    /// What a key holds that was looked up.
    pub(super) fn of(keys: &'a Keys<'_>, key: &[u8]) -> Self {
        let sorted = keys.found::<SortedSet>(key).map(Source::Sorted);
        sorted.or_else(|| keys.found::<Set>(key).map(Source::Plain)).unwrap_or(Source::Absent)
    }

    pub(super) fn len(self) -> usize {
        match self {
            Self::Sorted(set) => set.len(),
            Self::Plain(set) => set.len(),
            Self::Absent => 0,
        }
    }

    pub(super) fn score(self, name: &[u8]) -> Option<f64> {
        match self {
            Self::Sorted(set) => set.score(name),
            Self::Plain(set) => set.contains(name).then_some(1.0),
            Self::Absent => None,
        }
    }

    /// Gives about `count` members from a cursor on; returns where to go on, nothing at the end.
    pub(super) fn scan(self, cursor: u64, count: usize, seed: u64, mut each: impl FnMut(&[u8], f64)) -> Option<u64> {
        match self {
            Self::Sorted(set) => set.scan_once(cursor, count, seed, |member| each(&member.name, member.score)),
            Self::Plain(set) => match set.scan_once(cursor, count, |member| each(&member.text(), 1.0)) {
                0 => None,
                next => Some(next),
            },
            Self::Absent => None,
        }
    }

    /// Calls with members and scores until that says no.
    fn each(self, mut each: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Self::Sorted(set) => {
                set.each_while(0..set.len(), |member| each(&member.name, member.score));
            }
            Self::Plain(set) => {
                set.each_while(|member| each(&member.text(), 1.0));
            }
            Self::Absent => {}
        }
    }
}

/// The sets with their weights; for unions and intersections the smallest first, as the order decides how sums are rounded.
fn sources<'a>(context: &'a Context<'_>, query: &Query<'_>, operation: Operation) -> Vec<(Source<'a>, f64)> {
    let source = |key: &&[u8]| Source::of(&context.keys, key);
    let mut sources: Vec<_> = query.keys.iter().map(source).zip(query.weights.iter().copied()).collect();
    if operation != Operation::Difference {
        sources.sort_by_key(|(source, _)| source.len());
    }
    sources
}

/// Calls with the members that are in all sets until that says no.
fn intersect(sources: &[(Source<'_>, f64)], aggregate: Aggregate, mut each: impl FnMut(&[u8], f64) -> bool) {
    let Some(((smallest, weight), others)) = sources.split_first() else { return };
    smallest.each(|name, score| {
        let mut sum = or_zero(weight * score);
        for (other, weight) in others {
            let Some(score) = other.score(name) else { return true };
            sum = aggregate.of(sum, score * weight);
        }
        each(name, sum)
    });
}

fn unite(sources: &[(Source<'_>, f64)], aggregate: Aggregate) -> Vec<Member> {
    let largest = sources.iter().map(|(source, _)| source.len()).max().unwrap_or(0);
    let mut scores: HashMap<Bytes, f64, FxBuildHasher> = HashMap::with_capacity_and_hasher(largest, FxBuildHasher);
    for (source, weight) in sources {
        source.each(|name, score| {
            let score = or_zero(weight * score);
            match scores.entry(Bytes::from_slice(name)) {
                Entry::Occupied(mut present) => {
                    let sum = aggregate.of(*present.get(), score);
                    present.insert(sum);
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(score);
                }
            }
            true
        });
    }
    scores.into_iter().map(|(name, score)| Member { score, name }).collect()
}

fn subtract(sources: &[(Source<'_>, f64)]) -> Vec<Member> {
    let Some(((first, _), others)) = sources.split_first() else { return Vec::new() };
    let mut members = Vec::new();
    first.each(|name, score| {
        if others.iter().all(|(other, _)| other.score(name).is_none()) {
            members.push(Member { score, name: Bytes::from_slice(name) });
        }
        true
    });
    members
}

fn combine(context: &Context<'_>, query: &Query<'_>, operation: Operation) -> Vec<Member> {
    let sources = sources(context, query, operation);
    match operation {
        Operation::Union => unite(&sources, query.aggregate),
        Operation::Difference => subtract(&sources),
        Operation::Intersection => {
            let mut members = Vec::new();
            intersect(&sources, query.aggregate, |name, score| {
                members.push(Member { score, name: Bytes::from_slice(name) });
                true
            });
            members
        }
    }
}

fn give(context: &mut Context<'_>, operation: Operation) -> Result<(), Failure> {
    let query = parse(context, 1, operation, Purpose::Give)?;
    if let Some((elements, work)) = Combining::of(context, &query, operation, Purpose::Give, "") {
        return context.work_on(elements, work);
    }
    let mut members = combine(context, &query, operation);
    members.sort_unstable_by(Member::compare);
    members_header(&mut context.reply, members.len(), query.with_scores);
    for member in &members {
        write_member(&mut context.reply, member, query.with_scores);
    }
    Ok(())
}

fn store(context: &mut Context<'_>, operation: Operation, event: &'static str) -> Result<(), Failure> {
    let query = parse(context, 2, operation, Purpose::Store)?;
    if let Some((elements, work)) = Combining::of(context, &query, operation, Purpose::Store, event) {
        return context.work_on(elements, work);
    }
    let members = combine(context, &query, operation);
    let count = super::store(context, context.words.at(1), members, event)?;
    context.reply.count(count);
    Ok(())
}

fn zintercard(context: &mut Context<'_>) -> Result<(), Failure> {
    let query = parse(context, 1, Operation::Intersection, Purpose::Count)?;
    if let Some((elements, work)) = Combining::of(context, &query, Operation::Intersection, Purpose::Count, "") {
        return context.work_on(elements, work);
    }
    let sources = sources(context, &query, Operation::Intersection);
    let mut count = 0;
    intersect(&sources, query.aggregate, |_, _| {
        count += 1;
        count != query.limit
    });
    context.reply.count(count);
    Ok(())
}
