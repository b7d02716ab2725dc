//! Unions, intersections and differences.

use keyspace::{
    Expiry, Failure, Keys,
    changes::EventClass,
    value::{Kind, Set, set::Member},
};

use crate::{
    Context,
    arguments::{at_least_one, positive},
};

use super::{
    integers_max,
    steps::{Combining, Purpose},
};

/// Looks all keys up, so that what they hold can be seen together then.
fn look_up(keys: &mut Keys<'_>, names: &[&[u8]]) -> Result<(), Failure> {
    for name in names {
        keys.get::<Set>(name)?;
    }
    Ok(())
}

/// The members that all sets have, one after the other, until `each` says no.
fn intersect(sets: &[Option<&Set>], mut each: impl FnMut(Member<'_>) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    smallest.each_while(|member| {
        let all = others.iter().all(|set| std::ptr::eq(*set, *smallest) || set.contains_member(member));
        !all || each(member)
    });
}

/// The members of the first set that no other one has.
fn subtract(sets: &[Option<&Set>], seed: u64, mut each: impl FnMut(Member<'_>)) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return;
    }
    // Either each member is looked for in all others, or all others' members are collected.
    let looking = first.len() * (others.len() + 1) / 2;
    let collecting = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if looking <= collecting {
        // In the larger ones it is found sooner.
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        first.each(|member| {
            if !others.iter().any(|set| set.contains_member(member)) {
                each(member);
            }
        });
        return;
    }
    let mut gone = Set::new(seed);
    for set in others {
        set.each_while(|member| {
            if first.contains_member(member) {
                gone.add_member(member, usize::MAX >> 1);
            }
            gone.len() < first.len()
        });
        if gone.len() == first.len() {
            return;
        }
    }
    first.each(|member| {
        if !gone.contains_member(member) {
            each(member);
        }
    });
}

fn unite(sets: &[Option<&Set>], result: &mut Set, most: usize) {
    for set in sets.iter().copied().flatten() {
        set.each(|member| {
            result.add_member(member, most);
        });
    }
}

/// What is done with sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

impl Operation {
    fn store_event(self) -> &'static str {
        match self {
            Self::Union => "sunionstore",
            Self::Intersection => "sinterstore",
            Self::Difference => "sdiffstore",
        }
    }
}

/// Answers with the result.
fn give(context: &mut Context<'_>, operation: Operation) -> Result<(), Failure> {
    let names = context.words.from(1);
    look_up(&mut context.keys, names)?;
    let places = 1..context.words.len();
    if let Some((elements, work)) = Combining::of(context, operation, Purpose::Give, places) {
        return context.work_on(elements, work);
    }
    let seed = context.shared.random.draw();
    let reply = &mut context.reply;
    let keys = &context.keys;
    let sets: Vec<Option<&Set>> = names.iter().map(|name| keys.found(name)).collect();
    if operation == Operation::Union {
        let mut result = Set::new(seed);
        unite(&sets, &mut result, integers_max(&context.shared.settings));
        reply.set(result.len());
        result.each(|member| member.reply(reply));
        return Ok(());
    }
    let header = reply.defer();
    let mut count = 0;
    let mut each = |member: Member<'_>| {
        member.reply(reply);
        count += 1;
    };
    if operation == Operation::Intersection {
        intersect(&sets, |member| {
            each(member);
            true
        });
    } else {
        subtract(&sets, seed, each);
    }
    reply.finish_set(header, count);
    Ok(())
}

/// Keeps the result.
fn store(context: &mut Context<'_>, operation: Operation) -> Result<(), Failure> {
    let names = context.words.from(2);
    look_up(&mut context.keys, names)?;
    let places = 2..context.words.len();
    if let Some((elements, work)) = Combining::of(context, operation, Purpose::Store, places) {
        return context.work_on(elements, work);
    }
    let most = integers_max(&context.shared.settings);
    let seed = context.keys.seed();
    let mut result = Set::new(seed);
    let keys = &context.keys;
    let sets: Vec<Option<&Set>> = names.iter().map(|name| keys.found(name)).collect();
    match operation {
        Operation::Union => unite(&sets, &mut result, most),
        Operation::Intersection => intersect(&sets, |member| {
            result.add_member(member, most);
            true
        }),
        Operation::Difference => subtract(&sets, seed, |member| {
            result.add_member(member, most);
        }),
    }
    keep(context, result, operation)
}

/// Gives the destination the result.
pub(super) fn keep(context: &mut Context<'_>, result: Set, operation: Operation) -> Result<(), Failure> {
    let destination = context.words.at(1);
    let len = result.len();
    if len > 0 {
        context.keys.set(destination, result.into_value(), Expiry::Clear)?;
        context.keys.modified(destination);
        context.keys.notify(EventClass::SET, operation.store_event(), destination);
    } else if context.keys.remove(destination)? {
        context.keys.modified(destination);
        context.keys.notify(EventClass::GENERIC, "del", destination);
    }
    context.reply.count(len);
    Ok(())
}

pub(super) fn sinter(context: &mut Context<'_>) -> Result<(), Failure> {
    give(context, Operation::Intersection)
}

pub(super) fn sunion(context: &mut Context<'_>) -> Result<(), Failure> {
    give(context, Operation::Union)
}

pub(super) fn sdiff(context: &mut Context<'_>) -> Result<(), Failure> {
    give(context, Operation::Difference)
}

pub(super) fn sinterstore(context: &mut Context<'_>) -> Result<(), Failure> {
    store(context, Operation::Intersection)
}

pub(super) fn sunionstore(context: &mut Context<'_>) -> Result<(), Failure> {
    store(context, Operation::Union)
}

pub(super) fn sdiffstore(context: &mut Context<'_>) -> Result<(), Failure> {
    store(context, Operation::Difference)
}

pub(super) fn sintercard(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let count = at_least_one(words.at(1), "ERR numkeys should be greater than 0")?;
    let Some(names) = words.from(2).get(..count) else {
        return Err(Failure::text("ERR Number of keys can't be greater than number of args"));
    };
    let mut limit = 0;
    let mut at = 2 + count;
    while at < words.len() {
        if at + 1 == words.len() || !words.is(at, "LIMIT") {
            return Err(Failure::Syntax);
        }
        limit = positive(words.at(at + 1), Some("ERR LIMIT can't be negative"))?;
        at += 2;
    }
    look_up(&mut context.keys, names)?;
    let places = 2..2 + count;
    if let Some((elements, work)) = Combining::of(context, Operation::Intersection, Purpose::Count(limit), places) {
        return context.work_on(elements, work);
    }
    let keys = &context.keys;
    let sets: Vec<Option<&Set>> = names.iter().map(|name| keys.found(name)).collect();
    let mut found = 0;
    intersect(&sets, |_| {
        found += 1;
        limit == 0 || found < limit
    });
    context.reply.count(found);
    Ok(())
}
