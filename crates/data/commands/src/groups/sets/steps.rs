//! Unions, intersections and differences of large sets, in steps. Nothing changes before the last one.

use std::ops::Range;

use keyspace::{
    Failure, Keys, Value,
    value::{Kind as _, Set, set::Member},
};
use resp::Deferred;

use crate::{
    Context,
    server::{Progress, Work},
};

use super::{
    algebra::{Operation, keep},
    integers_max,
};

/// What becomes of the members that are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Give,
    Store,
    /// Up to so many, 0 for all.
    Count(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// All members of all sets become the result.
    Unite,
    /// Members of the first set that are in another one are collected.
    Collect,
    /// Each member of the first set is looked for in the others, or among those that were collected.
    Sift,
    /// The result is given.
    Give,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Combining {
    operation: Operation,
    purpose: Purpose,
    /// The places of the sets among the words; that of the one to go through first.
    places: Vec<usize>,
    phase: Phase,
    /// Which of them it has come to, and how far.
    at: usize,
    cursor: u64,
    result: Set,
    gone: Option<Set>,
    count: usize,
    header: Option<Deferred>,
}

impl Combining {
    /// What is to be done with sets that were looked up, if that is too much for one go, with about how many elements it is about.
    pub(super) fn of(
        context: &Context<'_>,
        operation: Operation,
        purpose: Purpose,
        places: Range<usize>,
    ) -> Option<(usize, Self)> {
        let keys = &context.keys;
        let len = |place: &usize| keys.found::<Set>(context.words.at(*place)).map_or(0, Set::len);
        let all: usize = places.clone().map(|place| len(&place)).sum();
        if !context.session.takes_steps(all, context.shared) {
            return None;
        }
        let mut places: Vec<usize> = places.collect();
        let mut phase = Phase::Sift;
        let elements = match operation {
            Operation::Union => {
                phase = Phase::Unite;
                all
            }
            Operation::Intersection => {
                places.sort_by_key(&len);
                places.first().map_or(0, &len).saturating_mul(places.len())
            }
            Operation::Difference => {
                let first = places.first().map_or(0, &len);
                let (looking, collecting) = (first.saturating_mul(places.len()) / 2, all);
                if looking > collecting {
                    phase = Phase::Collect;
                } else if let Some(others) = places.get_mut(1..) {
                    // In the larger ones it is found sooner.
                    others.sort_by_key(|place| std::cmp::Reverse(len(place)));
                }
                looking.min(collecting)
            }
        };
        let seed = keys.seed();
        let at = usize::from(phase == Phase::Collect);
        let gone = (phase == Phase::Collect).then(|| Set::new(seed));
        let result = Set::new(seed);
        let work = Self { operation, purpose, places, phase, at, cursor: 0, result, gone, count: 0, header: None };
        Some((elements, work))
    }

    /// A set; nothing if there is none.
    fn set<'k>(&self, context: &Context<'_>, keys: &'k Keys<'_>, number: usize) -> Option<&'k Set> {
        keys.found(context.words.at(*self.places.get(number)?))
    }

    /// Makes sure that a set is in memory. There may be very many, so a step does so with those that it goes through.
    fn look(&self, context: &mut Context<'_>, number: usize) -> Result<(), Failure> {
        let Some(place) = self.places.get(number) else { return Ok(()) };
        context.keys.look::<Set>(context.words.at(*place)).map(drop)
    }

    fn unite(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        let most = integers_max(&context.shared.settings);
        let mut left = budget;
        while left > 0 && self.at < self.places.len() {
            self.look(context, self.at)?;
            let mut had = 1;
            let place = self.places.get(self.at).copied().unwrap_or(0);
            let (result, set) = (&mut self.result, context.keys.found::<Set>(context.words.at(place)));
            self.cursor = set.map_or(0, |set| {
                set.scan_once(self.cursor, left, |member| {
                    result.add_member(member, most);
                    had += 1;
                })
            });
            self.at += usize::from(self.cursor == 0);
            left = left.saturating_sub(had);
        }
        Ok(self.at >= self.places.len())
    }

    /// Returns whether all was collected.
    fn collect(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        let mut left = budget;
        while left > 0 && self.at < self.places.len() {
            self.look(context, 0)?;
            self.look(context, self.at)?;
            let (Some(first), Some(mut gone)) = (self.set(context, &context.keys, 0), self.gone.take()) else {
                return Ok(true);
            };
            let (mut had, set) = (1, self.set(context, &context.keys, self.at));
            self.cursor = set.map_or(0, |set| {
                set.scan_once(self.cursor, left, |member| {
                    had += 1;
                    if first.contains_member(member) {
                        gone.add_member(member, 0);
                    }
                })
            });
            self.at =
                if gone.len() >= first.len() { self.places.len() } else { self.at + usize::from(self.cursor == 0) };
            self.gone = Some(gone);
            left = left.saturating_sub(had);
        }
        let is_over = self.at >= self.places.len();
        if is_over {
            (self.at, self.cursor) = (0, 0);
        }
        Ok(is_over)
    }

    /// Returns whether all was looked at.
    fn sift(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        // Of those whose members were collected, no more is needed.
        let needed = if self.gone.is_some() { 1 } else { self.places.len() };
        (0..needed).try_for_each(|number| self.look(context, number))?;
        if self.purpose == Purpose::Give && self.header.is_none() {
            self.header = Some(context.reply.defer());
        }
        let most = integers_max(&context.shared.settings);
        let keys = &context.keys;
        let sets: Vec<Option<&Set>> = (0..needed).map(|number| self.set(context, keys, number)).collect();
        let Some((Some(first), others)) = sets.split_first() else { return Ok(true) };
        let intersects = self.operation == Operation::Intersection;
        if intersects && others.iter().any(Option::is_none) {
            return Ok(true);
        }
        let others: Vec<&Set> = others.iter().copied().flatten().collect();
        let (gone, result, count, purpose) = (&self.gone, &mut self.result, &mut self.count, self.purpose);
        let reply = &mut context.reply;
        let mut find = |member: Member<'_>| {
            let is_found = match gone {
                Some(gone) => !gone.contains_member(member),
                None if intersects => others.iter().all(|set| set.contains_member(member)),
                None => !others.iter().any(|set| set.contains_member(member)),
            };
            if !is_found {
                return;
            }
            match purpose {
                Purpose::Give => member.reply(reply),
                Purpose::Store => drop(result.add_member(member, most)),
                Purpose::Count(limit) if limit > 0 && *count >= limit => return,
                Purpose::Count(_) => {}
            }
            *count += 1;
        };
        self.cursor = first.scan_once(self.cursor, (budget / sets.len()).max(1), &mut find);
        Ok(self.cursor == 0 || matches!(self.purpose, Purpose::Count(limit) if limit > 0 && self.count >= limit))
    }

    /// Returns whether all was given.
    fn give(&mut self, context: &mut Context<'_>, budget: usize) -> bool {
        if self.cursor == 0 {
            context.reply.set(self.result.len());
        }
        let reply = &mut context.reply;
        self.cursor = self.result.scan(self.cursor, budget, |member| member.reply(reply));
        self.cursor == 0
    }
}

impl Work for Combining {
    fn appends(&self) -> bool {
        self.header.is_none()
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let is_over = match self.phase {
            Phase::Unite => self.unite(context, budget)?,
            Phase::Collect => self.collect(context, budget)?,
            Phase::Sift => self.sift(context, budget)?,
            Phase::Give => self.give(context, budget),
        };
        let next = match self.phase {
            phase if !is_over => Some(phase),
            Phase::Collect => Some(Phase::Sift),
            Phase::Unite if self.purpose == Purpose::Give => Some(Phase::Give),
            _ => None,
        };
        if let Some(next) = next {
            self.phase = next;
            return Ok(Progress::More);
        }
        match self.purpose {
            Purpose::Store => {
                let result = std::mem::replace(&mut self.result, Set::new(0));
                keep(context, result, self.operation)?;
            }
            Purpose::Count(_) => context.reply.count(self.count),
            Purpose::Give => {
                if let Some(header) = self.header.take() {
                    context.reply.finish_set(header, self.count);
                }
            }
        }
        Ok(Progress::Done)
    }

    fn remains(&mut self) -> Vec<Value> {
        let result = std::mem::replace(&mut self.result, Set::new(0));
        Some(result).into_iter().chain(self.gone.take()).map(Set::into_value).collect()
    }
}
