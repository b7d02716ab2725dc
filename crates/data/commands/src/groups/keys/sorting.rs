//! The way of SORT: elements are collected with what they are sorted by, run by run, then given in order.
//!
//! In steps, others go on meanwhile. The key itself is busy; what patterns lead to is not known before, so each key that was looked
//! up is held from then on, as one that others may read and not change: what is given is what all of them have when the last one is
//! looked up. One that another command is about to change is waited for; such a command never waits for anybody.

use std::{cmp::Ordering, collections::VecDeque, ops::Range};

use keyspace::{
    Bytes, Expiry, Failure, Keys, Value,
    changes::EventClass,
    number,
    value::{Hash, Kind as _, List, list::End},
};

use crate::{
    Context,
    runs::Runs,
    server::{Progress, Work},
    words::Words,
};

use super::sort::Options;

/// What an element is sorted by.
#[derive(Debug)]
enum Weight {
    Number(f64),
    Text(Option<Bytes>),
}

type Weighed = (Weight, Bytes);

/// What a lookup found.
enum PatternValue {
    Value(Option<Bytes>),
    /// Another command is about to change the key.
    Busy,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Collect,
    Give,
    /// It has taken effect, or failed; what it had is freed.
    Leave,
}

/// A SORT.
#[derive(Debug)]
pub(super) struct Sorting {
    options: Options,
    /// How many elements the key has, and which of them are given, by their numbers in the result.
    len: usize,
    wanted: Range<usize>,
    /// The elements keep their own order, or get the opposite one.
    as_it_is: bool,
    is_reversed: bool,
    /// It is done in steps: what it looks up is held.
    holds: bool,
    held: Vec<Bytes>,
    phase: Phase,
    /// How far collecting has come: the number of the next element, and for a set the cursor.
    at: usize,
    cursor: u64,
    /// Elements that are not weighed yet, and those that are.
    raw: VecDeque<Bytes>,
    weighed: Vec<Weighed>,
    runs: Runs<Weighed>,
    /// How many elements have been passed by or given.
    taken: usize,
    /// The element that is being given, with what was found for it.
    current: Option<(Bytes, Vec<Option<Bytes>>)>,
    /// What is stored.
    list: List,
    failure: Option<Failure>,
}

/// What a function of C sees of a text: what stands before the first zero byte.
fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn number_of(text: &[u8]) -> Result<f64, Failure> {
    const NOT: Failure = Failure::text("ERR One or more scores can't be converted into double");
    // As strtod has it: blanks in front are skipped, and nothing at all is zero.
    let text = c_string(text).trim_ascii_start();
    if text.is_empty() { Ok(0.0) } else { number::parse_float(text).ok_or(NOT) }
}

fn ascending(one: &Weighed, other: &Weighed) -> Ordering {
    match (&one.0, &other.0) {
        // Of equal numbers those decide that were sorted, so that the result does not depend on their first order.
        (Weight::Number(first), Weight::Number(second)) => first.total_cmp(second).then_with(|| one.1.cmp(&other.1)),
        (Weight::Text(first), Weight::Text(second)) => first.cmp(second),
        _ => Ordering::Equal,
    }
}

impl Sorting {
    pub(super) fn new(
        options: Options,
        len: usize,
        wanted: Range<usize>,
        as_it_is: bool,
        has_order: bool,
        holds: bool,
    ) -> Self {
        Self {
            is_reversed: options.descending && has_order,
            options,
            len,
            at: if as_it_is && has_order { wanted.start } else { 0 },
            taken: if as_it_is { wanted.start } else { 0 },
            wanted,
            as_it_is,
            holds,
            held: Vec::new(),
            phase: Phase::Collect,
            cursor: 0,
            raw: VecDeque::new(),
            weighed: Vec::new(),
            runs: Runs::default(),
            current: None,
            list: List::new(),
            failure: None,
        }
    }

    fn compare(&self) -> impl Fn(&Weighed, &Weighed) -> Ordering + use<> {
        let (as_it_is, descending) = (self.as_it_is, self.options.descending);
        move |one: &Weighed, other: &Weighed| match (as_it_is, descending) {
            (true, _) => Ordering::Equal,
            (false, false) => ascending(one, other),
            (false, true) => ascending(other, one),
        }
    }

    /// What a pattern stands for with an element in the place of its star: the value of a key, or of a hash's field.
    fn look_up(
        &mut self,
        keys: &mut Keys<'_>,
        words: Words<'_>,
        pattern: usize,
        element: &[u8],
    ) -> Result<PatternValue, Failure> {
        let pattern = words.at(pattern);
        if pattern == b"#" {
            return Ok(PatternValue::Value(Some(Bytes::from_slice(element))));
        }
        let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(PatternValue::Value(None)) };
        let (before, after) = (pattern.get(..star).unwrap_or_default(), pattern.get(star + 1..).unwrap_or_default());
        let arrow = after.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < after.len());
        let (after, field) = match arrow {
            Some(arrow) => (after.get(..arrow).unwrap_or_default(), after.get(arrow + 2..)),
            None => (after, None),
        };
        let key = [before, element, after].concat();
        if self.holds {
            let is_own = self.options.store.is_some_and(|place| words.at(place) == key);
            if !is_own && keys.space().busy.refuses(&key, true) {
                return Ok(PatternValue::Busy);
            }
            let key = Bytes::from_slice(&key);
            keys.space().busy.hold(&key, true);
            self.held.push(key);
        }
        let found = match field {
            Some(field) => keys
                .get::<Hash>(&key)
                .map(|hash| hash.and_then(|hash| hash.get(field)).map(|value| Bytes::from_slice(&value))),
            None => keys.get::<Bytes>(&key).map(Option::<&Bytes>::cloned),
        };
        match found {
            Err(Failure::WrongType) => Ok(PatternValue::Value(None)),
            other => other.map(PatternValue::Value),
        }
    }

    /// Reads the next elements.
    fn read(&mut self, context: &mut Context<'_>, budget: usize) -> Result<(), Failure> {
        let end = if self.as_it_is { self.wanted.end } else { self.len };
        let to = self.at.saturating_add(budget).min(end);
        let is_reversed = self.as_it_is && self.is_reversed;
        let numbers = if is_reversed { self.len - to..self.len - self.at } else { self.at..to };
        let raw = &mut self.raw;
        // It may have been found expired.
        let Some(entry) = context.keys.peek(context.words.at(1))? else {
            self.at = end;
            return Ok(());
        };
        match entry.value.as_ref() {
            Some(Value::List(list)) if !numbers.is_empty() => list.each_from(numbers.start, |element| {
                raw.push_back(Bytes::from_slice(element));
                raw.len() < numbers.len()
            }),
            Some(Value::SortedSet(set)) => set.each(numbers, false, |member| raw.push_back(member.name.clone())),
            Some(Value::Set(set)) => {
                let (at, wanted) = (&mut self.at, self.as_it_is.then(|| self.wanted.clone()));
                self.cursor = set.scan_once(self.cursor, budget, |member| {
                    if wanted.as_ref().is_none_or(|wanted| wanted.contains(at)) {
                        raw.push_back(member.bytes());
                    }
                    *at += 1;
                });
                self.at = if self.cursor == 0 { end } else { self.at.min(end) };
                return Ok(());
            }
            _ => {}
        }
        if is_reversed {
            raw.make_contiguous().reverse();
        }
        self.at = to;
        Ok(())
    }

    /// Weighs the elements that were read. Returns whether it has come to the end of them.
    fn weigh(&mut self, context: &mut Context<'_>) -> Result<bool, Failure> {
        while let Some(element) = self.raw.pop_front() {
            let text = match self.options.by.filter(|_| !self.as_it_is) {
                Some(pattern) => match self.look_up(&mut context.keys, context.words, pattern, &element)? {
                    PatternValue::Value(text) => text,
                    PatternValue::Busy => {
                        self.raw.push_front(element);
                        return Ok(false);
                    }
                },
                None if self.as_it_is => None,
                None => Some(element.clone()),
            };
            let weight = if self.options.by_text || self.as_it_is {
                // Redis compares with strcoll, and all bytes where the result is stored.
                let is_cut = self.options.store.is_none() && text.as_ref().is_some_and(|text| text.contains(&0));
                Weight::Text(if is_cut { text.map(|text| Bytes::from_slice(c_string(&text))) } else { text })
            } else {
                // Zero and minus zero are the same.
                Weight::Number(text.map_or(Ok(0.0), |text| number_of(&text))? + 0.0)
            };
            self.weighed.push((weight, element));
        }
        Ok(true)
    }

    /// Returns whether all was collected.
    fn collect(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        if self.raw.is_empty() {
            self.read(context, budget)?;
        }
        if !self.weigh(context)? {
            return Ok(false);
        }
        let compare = self.compare();
        self.runs.add(std::mem::take(&mut self.weighed), compare);
        Ok(self.at >= if self.as_it_is { self.wanted.end } else { self.len })
    }

    /// Returns whether all was given.
    fn give(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        let compare = self.compare();
        let limit = context.shared.settings.list_limit();
        for _ in 0..budget {
            if self.taken >= self.wanted.end {
                return Ok(true);
            }
            if self.current.is_none() {
                self.current = self.runs.next(&compare).map(|(_, element)| (element, Vec::new()));
            }
            let Some((element, mut results)) = self.current.take() else { return Ok(true) };
            if self.taken < self.wanted.start {
                self.taken += 1;
                continue;
            }
            if self.options.get.is_empty() {
                results.push(Some(element.clone()));
            }
            while let Some(pattern) = self.options.get.get(results.len()) {
                match self.look_up(&mut context.keys, context.words, *pattern, &element)? {
                    PatternValue::Value(value) => results.push(value),
                    PatternValue::Busy => {
                        self.current = Some((element, results));
                        return Ok(false);
                    }
                }
            }
            self.taken += 1;
            for result in results {
                if self.options.store.is_some() {
                    self.list.push(End::Tail, result.as_deref().unwrap_or_default(), limit);
                } else {
                    context.reply.bulk_or_null(result.as_deref());
                }
            }
        }
        Ok(self.taken >= self.wanted.end)
    }

    fn store(&mut self, context: &mut Context<'_>, target: usize) -> Result<(), Failure> {
        let target = context.words.at(target);
        let list = std::mem::take(&mut self.list);
        let count = list.len();
        if count == 0 {
            if context.keys.remove(target)? {
                context.keys.modified(target);
                context.keys.notify(EventClass::GENERIC, "del", target);
            }
        } else {
            context.keys.set(target, list.into_value(), Expiry::Clear)?;
            context.keys.modified_by(target, count);
            context.keys.notify(EventClass::LIST, "sortstore", target);
        }
        context.reply.count(count);
        Ok(())
    }

    /// Goes on, but for what becomes of failures. Returns whether it has taken effect.
    fn advance(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        if self.phase == Phase::Collect {
            if self.collect(context, budget)? {
                self.phase = Phase::Give;
                if self.options.store.is_none() {
                    context.reply.array(self.wanted.len() * self.options.get.len().max(1));
                }
            }
            return Ok(false);
        }
        if !self.give(context, budget)? {
            return Ok(false);
        }
        if let Some(target) = self.options.store {
            self.store(context, target)?;
        }
        Ok(true)
    }
}

impl Work for Sorting {
    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        if self.phase != Phase::Leave {
            match self.advance(context, budget) {
                Ok(false) => return Ok(Progress::More),
                Ok(true) => {}
                Err(failure) => self.failure = Some(failure),
            }
            self.phase = Phase::Leave;
        }
        if self.runs.shed() {
            return Ok(Progress::More);
        }
        self.failure.take().map_or(Ok(Progress::Done), Err)
    }

    fn remains(&mut self) -> Vec<Value> {
        vec![std::mem::take(&mut self.list).into_value()]
    }

    fn held(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.held)
    }
}
