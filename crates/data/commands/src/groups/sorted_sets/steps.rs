//! Unions, intersections and differences of large sets, and large ranges that are stored, in steps. Nothing changes before the last
//! one.

use keyspace::{
    Failure, Value,
    value::{
        Kind as _, SortedSet,
        sorted_set::{Building, Ranks},
    },
};

use crate::{
    Context,
    server::{Progress, Work},
};

use super::{
    combine::{Aggregate, Operation, Purpose, Query, Source, or_zero},
    limits,
    range::{members_header, write_member},
    store_set,
};

#[derive(Debug)]
enum Phase {
    /// Members are found.
    Find,
    /// They are put in order.
    Sort,
    /// They are given, so many so far.
    Give(SortedSet, usize),
}

/// A combination.
#[derive(Debug)]
pub(super) struct Combining {
    operation: Operation,
    purpose: Purpose,
    event: &'static str,
    aggregate: Aggregate,
    with_scores: bool,
    /// Members are counted up to that many; 0: all.
    limit: usize,
    /// The places of the sets among the words, with their weights, the one to go through first in front.
    sources: Vec<(usize, f64)>,
    phase: Phase,
    /// Which of them it has come to, and how far.
    at: usize,
    cursor: u64,
    building: Building,
    count: usize,
}

impl Combining {
    /// What is to be done with sets that were looked up, if that is too much for one go, with about how many elements it is about.
    pub(super) fn of(
        context: &Context<'_>,
        query: &Query<'_>,
        operation: Operation,
        purpose: Purpose,
        event: &'static str,
    ) -> Option<(usize, Self)> {
        let len = |place: usize| Source::of(&context.keys, context.words.at(place)).len();
        let first = if purpose == Purpose::Store { 3 } else { 2 };
        let all: usize = (first..first + query.keys.len()).map(len).sum();
        if !context.session.takes_steps(all, context.shared) {
            return None;
        }
        let mut sources: Vec<(usize, f64)> = (first..).zip(query.weights.iter().copied()).collect();
        // As in one go: the order decides how sums are rounded.
        if operation != Operation::Difference {
            sources.sort_by_key(|(place, _)| len(*place));
        }
        let elements = match operation {
            Operation::Union => all,
            _ => sources.first().map_or(0, |(place, _)| len(*place)).saturating_mul(sources.len()),
        };
        let work = Self {
            operation,
            purpose,
            event,
            aggregate: query.aggregate,
            with_scores: query.with_scores,
            limit: query.limit,
            sources,
            phase: Phase::Find,
            at: 0,
            cursor: 0,
            building: Building::new(context.keys.seed()),
            count: 0,
        };
        Some((elements, work))
    }

    /// Finds more of a union. Returns whether all were found.
    fn unite(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        let (aggregate, seed) = (self.aggregate, context.keys.seed());
        let mut left = budget;
        while left > 0
            && let Some((place, weight)) = self.sources.get(self.at).copied()
        {
            context.keys.peek(context.words.at(place))?;
            let (building, mut had) = (&mut self.building, 1);
            let source = Source::of(&context.keys, context.words.at(place));
            let next = source.scan(self.cursor, left, seed, |name, score| {
                building.put(name, or_zero(weight * score), |former, score| aggregate.of(former, score));
                had += 1;
            });
            self.cursor = next.unwrap_or(0);
            self.at += usize::from(next.is_none());
            left = left.saturating_sub(had);
        }
        Ok(self.at >= self.sources.len())
    }

    /// Finds more of anything else. Returns whether all were found.
    fn find(&mut self, context: &Context<'_>, budget: usize) -> bool {
        let source = |place: usize| Source::of(&context.keys, context.words.at(place));
        let Some((place, weight)) = self.sources.get(self.at).copied() else { return true };
        let (building, aggregate) = (&mut self.building, self.aggregate);
        let seed = context.keys.seed();
        let others: Vec<_> = self.sources.iter().skip(1).map(|(place, weight)| (source(*place), *weight)).collect();
        let (operation, purpose, limit, count) = (self.operation, self.purpose, self.limit, &mut self.count);
        let next = source(place).scan(self.cursor, (budget / self.sources.len()).max(1), seed, |name, score| {
            let score = if operation == Operation::Difference {
                others.iter().all(|(other, _)| other.score(name).is_none()).then_some(score)
            } else {
                others.iter().try_fold(or_zero(weight * score), |sum, (other, weight)| {
                    Some(aggregate.of(sum, other.score(name)? * weight))
                })
            };
            match score {
                None => {}
                Some(_) if purpose == Purpose::Count => *count += usize::from(limit == 0 || *count < limit),
                Some(score) => building.put(name, score, |_, score| score),
            }
        });
        self.cursor = next.unwrap_or(0);
        next.is_none() || limit > 0 && *count >= limit
    }
}

impl Work for Combining {
    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        match &mut self.phase {
            Phase::Find => {
                let is_over = if self.operation == Operation::Union {
                    self.unite(context, budget)?
                } else {
                    for (place, _) in &self.sources {
                        context.keys.peek(context.words.at(*place))?;
                    }
                    self.find(context, budget)
                };
                if !is_over {
                    return Ok(Progress::More);
                }
                if self.purpose == Purpose::Count {
                    context.reply.count(self.count);
                    return Ok(Progress::Done);
                }
                self.phase = Phase::Sort;
                Ok(Progress::More)
            }
            Phase::Sort => {
                if !self.building.sort(budget) {
                    return Ok(Progress::More);
                }
                let set = std::mem::replace(&mut self.building, Building::new(0)).finish(limits(context));
                if self.purpose == Purpose::Store {
                    let count = store_set(context, context.words.at(1), set, self.event)?;
                    context.reply.count(count);
                    return Ok(Progress::Done);
                }
                members_header(&mut context.reply, set.len(), self.with_scores);
                self.phase = Phase::Give(set, 0);
                Ok(Progress::More)
            }
            Phase::Give(set, given) => {
                let (reply, to) = (&mut context.reply, set.len().min(given.saturating_add(budget)));
                set.each(*given..to, false, |member| write_member(reply, member, self.with_scores));
                *given = to;
                Ok(if to < set.len() { Progress::More } else { Progress::Done })
            }
        }
    }

    fn remains(&mut self) -> Vec<Value> {
        let set = match std::mem::replace(&mut self.phase, Phase::Sort) {
            Phase::Give(set, _) => set,
            _ => std::mem::replace(&mut self.building, Building::new(0)).into_unordered(),
        };
        vec![set.into_value()]
    }
}

/// ZRANGESTORE of many members.
#[derive(Debug)]
pub(super) struct RangeStoring {
    /// Those that are left.
    ranks: Ranks,
    building: Building,
}

impl RangeStoring {
    pub(super) fn new(ranks: Ranks, seed: u64) -> Self {
        Self { ranks, building: Building::new(seed) }
    }
}

impl Work for RangeStoring {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        if !self.ranks.is_empty() {
            let to = self.ranks.end.min(self.ranks.start.saturating_add(budget));
            let building = &mut self.building;
            if let Some(set) = context.keys.look::<SortedSet>(context.words.at(2))? {
                set.each(self.ranks.start..to, false, |member| {
                    building.put(&member.name, member.score, |_, score| score)
                });
            }
            self.ranks.start = to;
            return Ok(Progress::More);
        }
        if !self.building.sort(budget) {
            return Ok(Progress::More);
        }
        let set = std::mem::replace(&mut self.building, Building::new(0)).finish(limits(context));
        let count = store_set(context, context.words.at(1), set, "zrangestore")?;
        context.reply.count(count);
        Ok(Progress::Done)
    }

    fn remains(&mut self) -> Vec<Value> {
        vec![std::mem::replace(&mut self.building, Building::new(0)).into_unordered().into_value()]
    }
}
