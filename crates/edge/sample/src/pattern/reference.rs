//! Lists of patterns that outlive the reading of a configuration: files, which everything that names them shares, and the
//! patterns of each ACL. They may be looked at and changed while they are used.
//!
//! ```text
//!   PatternReference            patterns as text, in order, by version; one lock, taken by whoever changes them
//!     `-- PatternExpression     the same, compiled for one way of matching; readers go here
//!           `-- LiveIndex       behind a lock of several parts: a reader takes its thread's own, a change takes all
//! ```
//!
//! Why such a lock: a change may come with every request (`set-map`), so nothing that copies the whole for a change will do,
//! and a lock in one part makes the readers of all workers wait for each other's cache line. Measured, looking a string up in
//! 50,000: 44 ns without any lock; in this one 63 ns on one thread and 57 ns on each of two at once; in a lock in one part
//! 59 ns and 113 ns.
//!
//! Patterns that stand in an ACL itself are compiled into it, without any lock. Only when they are changed for the first time
//! an expression is made of them that is looked into instead.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use std::collections::BTreeMap;

use crossbeam_utils::sync::ShardedLock;

use super::MatchMethod;
use super::elements::{Element, Elements};
use super::live::LiveIndex;
use super::tree::Slot;
use crate::bytes::Bytes;
use crate::number;
use crate::value::{Type, Value};

/// Whether patterns that stand in an ACL were ever changed in this process. While none were, which is nearly always, an ACL
/// needs to look no further than this: there may be hundreds of them to a request.
static INLINE_CHANGED: AtomicBool = AtomicBool::new(false);

/// What distance the handles of elements keep. Scripts expect pointers.
const HANDLE_STEP: u64 = 64;
const HANDLE_FIRST: u64 = 0x5500_0000_0000;

const IS_ACL: u8 = 1;
const IS_MAP: u8 = 2;

/// How patterns are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compilation {
    pub(crate) method: MatchMethod,
    pub(crate) ignore_case: bool,
    /// Whether names may be looked up, while the configuration is read.
    pub(crate) resolves: bool,
    /// The type of a map's values; nothing in ACLs.
    pub(crate) output: Option<Type>,
}

impl Compilation {
    /// Whether HAProxy would keep one list for both.
    fn shares_list_with(self, other: Self) -> bool {
        let kind = |method| match method {
            MatchMethod::Found | MatchMethod::Bool => 0,
            MatchMethod::Int | MatchMethod::Len => 1,
            MatchMethod::Version => 2,
            MatchMethod::Ip => 3,
            MatchMethod::Bin => 4,
            MatchMethod::Str => 5,
            MatchMethod::Beg => 6,
            MatchMethod::Sub | MatchMethod::Dir | MatchMethod::Dom | MatchMethod::End => 7,
            MatchMethod::Reg => 8,
            MatchMethod::Regm => 9,
            MatchMethod::Method => 10,
            MatchMethod::Group => 11,
        };
        kind(self.method) == kind(other.method)
            && (self.ignore_case, self.resolves, self.output) == (other.ignore_case, other.resolves, other.output)
    }

    fn slot(self, number: u64, element: &Element) -> Result<Slot, String> {
        let value = match (self.output, &element.value) {
            (Some(output), Some(text)) => Some(value(text, output).ok_or_else(|| unreadable(text))?),
            _ => None,
        };
        Ok(Slot { element: number, value })
    }
}

fn unreadable(text: &[u8]) -> String {
    format!("unable to parse '{}'", String::from_utf8_lossy(text))
}

/// A map's value of type `output`.
pub(crate) fn value(text: &Arc<[u8]>, output: Type) -> Option<Value<'static>> {
    match output {
        // Nothing is zero.
        Type::Sint => match number::read_int64(text) {
            (value, used) if used == text.len() => Some(Value::Sint(value)),
            _ => None,
        },
        Type::Addr => {
            let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
            Some(Value::address(address))
        }
        _ => Some(Value::Str(Bytes::Shared(Arc::clone(text)))),
    }
}

/// The patterns of a reference, compiled for one way of matching.
#[derive(Debug)]
pub(crate) struct PatternExpression {
    pub(crate) compilation: Compilation,
    index: ShardedLock<LiveIndex>,
}

impl PatternExpression {
    /// Looks into the index, which nobody changes for that long.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&LiveIndex) -> T) -> T {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut LiveIndex) -> T) -> T {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug, Default)]
struct State {
    elements: Elements,
    /// The version that is in use.
    version: u32,
    /// The last version that was prepared.
    prepared: u32,
    /// Entries as HAProxy counts them: once for each list that they go into, and once back when they are removed.
    entries: u64,
    expressions: Vec<Arc<PatternExpression>>,
    /// Indexes of versions that are not in use, one for each expression.
    others: BTreeMap<u32, Vec<LiveIndex>>,
    /// Where in the configuration it is used.
    uses: Vec<Use>,
}

/// What uses a list of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Acl,
    Map,
    /// An ACL with `-M`.
    AclOnMap,
}

#[derive(Debug)]
struct Use {
    kind: &'static str,
    file: Arc<str>,
    line: u32,
}

/// A list of patterns.
#[derive(Debug)]
pub struct PatternReference {
    path: Option<Box<str>>,
    two_columns: bool,
    kinds: AtomicU8,
    id: OnceLock<i64>,
    /// The ACL in which they stand, and how they are compiled there.
    inline: Option<(&'static str, Compilation)>,
    /// What to look into instead of what was compiled into the ACL.
    changed: OnceLock<Arc<PatternExpression>>,
    state: Mutex<State>,
}

/// What a look-up found in one list of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// How it was matched.
    pub method: MatchMethod,
    /// Whether letter case was ignored.
    pub ignore_case: bool,
    /// What was found.
    pub hit: Option<Hit>,
}

/// The pattern that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Whether HAProxy would have found it in a tree.
    pub in_tree: bool,
    /// The pattern, if there is one: `-m bool` has none.
    pub key: Option<Arc<[u8]>>,
    /// A map's value and its type.
    pub value: Option<(Arc<[u8]>, Type)>,
}

impl PatternReference {
    /// The patterns of a file.
    pub(crate) fn of_file(path: &str, two_columns: bool, elements: Elements) -> Self {
        PatternReference {
            path: Some(path.into()),
            two_columns,
            kinds: AtomicU8::new(0),
            id: OnceLock::new(),
            inline: None,
            changed: OnceLock::new(),
            state: Mutex::new(State { elements, ..State::default() }),
        }
    }

    /// Patterns that stand in an ACL; `keyword` is its subject.
    pub(crate) fn inline(
        keyword: &'static str,
        compilation: Compilation,
        id: Option<i64>,
        words: &[Arc<[u8]>],
    ) -> Self {
        let mut elements = Elements::with_capacity(words.len());
        for key in words {
            elements.push(Element { version: 0, line: 0, key: Arc::clone(key), value: None });
        }
        PatternReference {
            path: None,
            two_columns: false,
            kinds: AtomicU8::new(IS_ACL),
            id: id.map(OnceLock::from).unwrap_or_default(),
            inline: Some((keyword, compilation)),
            changed: OnceLock::new(),
            state: Mutex::new(State { entries: words.len() as u64, elements, ..State::default() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_use(&self, user: User, file: &Arc<str>, line: u32) {
        let (kinds, kind) = match user {
            User::Acl => (IS_ACL, "acl"),
            User::Map => (IS_MAP, "map"),
            User::AclOnMap => (IS_ACL | IS_MAP, "map"),
        };
        self.kinds.fetch_or(kinds, Ordering::Relaxed);
        self.state().uses.push(Use { kind, file: Arc::clone(file), line });
    }

    pub(crate) fn has_two_columns(&self) -> bool {
        self.two_columns
    }

    pub(crate) fn give_id(&self, id: i64) {
        let _ = self.id.set(id);
    }

    /// The number that `#` refers to; none until the configuration has been read.
    #[must_use]
    pub fn id(&self) -> Option<i64> {
        self.id.get().copied()
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Whether an ACL uses it.
    #[must_use]
    pub fn is_acl(&self) -> bool {
        self.kinds.load(Ordering::Relaxed) & IS_ACL != 0
    }

    /// Whether it is used as a map, be it by an ACL (`-M`).
    #[must_use]
    pub fn is_map(&self) -> bool {
        self.kinds.load(Ordering::Relaxed) & IS_MAP != 0
    }

    /// Whether each pattern has a value.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.two_columns
    }

    /// Where in the configuration it is used, in HAProxy's words.
    #[must_use]
    pub fn description(&self) -> String {
        let state = self.state();
        let place = |usage: &Use| format!("file '{}' line {}", usage.file, usage.line);
        if let Some((keyword, _)) = self.inline {
            return format!("acl '{keyword}' {}", state.uses.first().map(place).unwrap_or_default());
        }
        let path = self.path.as_deref().unwrap_or_default();
        let uses: Vec<String> =
            state.uses.iter().map(|usage| format!("by {} at {}", usage.kind, place(usage))).collect();
        format!("pattern loaded from file '{path}' used {}", uses.join(", "))
    }

    /// The version in use and the last one prepared.
    #[must_use]
    pub fn versions(&self) -> (u32, u32) {
        let state = self.state();
        (state.version, state.prepared)
    }

    /// How many entries there are, as HAProxy counts them.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.state().entries
    }

    /// What ACLs look into instead of what was compiled into them, once that was changed.
    #[inline]
    pub(crate) fn changed(&self) -> Option<&PatternExpression> {
        if INLINE_CHANGED.load(Ordering::Relaxed) { self.changed.get().map(|expression| &**expression) } else { None }
    }

    /// The patterns compiled in this way.
    ///
    /// # Errors
    /// What is wrong with one of them, and its line.
    pub(crate) fn expression(
        &self,
        compilation: Compilation,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Result<Arc<PatternExpression>, (u32, String)> {
        let mut state = self.state();
        if let Some(found) = state.expressions.iter().find(|expression| expression.compilation == compilation) {
            return Ok(Arc::clone(found));
        }
        let index = state.compile(compilation, resolve)?;
        let is_listed = state.expressions.iter().any(|other| other.compilation.shares_list_with(compilation));
        if !is_listed {
            state.entries += state.elements.len() as u64;
        }
        let expression = Arc::new(PatternExpression { compilation, index: ShardedLock::new(index) });
        state.expressions.push(Arc::clone(&expression));
        Ok(expression)
    }

    /// The state for whoever changes it: with an expression even if the patterns stand in an ACL.
    fn changing(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some((_, compilation)) = self.inline
            && state.expressions.is_empty()
            // They were read before, so nothing is wrong with them.
            && let Ok(index) = state.compile(compilation, &|_| None)
        {
            let expression = Arc::new(PatternExpression { compilation, index: ShardedLock::new(index) });
            state.expressions.push(Arc::clone(&expression));
            let _ = self.changed.set(expression);
            INLINE_CHANGED.store(true, Ordering::Release);
        }
        state
    }

    /// Calls `visit` with the handle, key and value of each entry of a version: of the one in use, if none is given.
    pub fn each(&self, version: Option<u32>, mut visit: impl FnMut(u64, &[u8], Option<&[u8]>)) {
        let state = self.state();
        let version = version.unwrap_or(state.version);
        for (number, element) in state.elements.iter().filter(|(_, element)| element.version == version) {
            visit(HANDLE_FIRST + number * HANDLE_STEP, &element.key, element.value.as_deref());
        }
    }

    /// Looks `sample` up in every list.
    #[must_use]
    pub fn look_up(&self, sample: &[u8]) -> Vec<LookUp> {
        let state = self.state();
        if let Some((_, compilation)) = self.inline
            && state.expressions.is_empty()
        {
            let index = state.compile(compilation, &|_| None);
            return index.map(|index| state.look_into(compilation, &index, sample)).into_iter().collect();
        }
        let mut seen: Vec<Compilation> = Vec::new();
        let mut found = Vec::new();
        for expression in &state.expressions {
            let compilation = expression.compilation;
            if !seen.iter().any(|other| other.shares_list_with(compilation)) {
                seen.push(compilation);
                found.push(expression.read(|index| state.look_into(compilation, index, sample)));
            }
        }
        found
    }

    /// Makes another version, to be filled and put in place of the one in use; its number.
    pub fn prepare(&self) -> u32 {
        let mut state = self.state();
        state.prepared = state.prepared.wrapping_add(1);
        state.prepared
    }

    /// Puts a version in place of the one in use and forgets all before it; false if it was never prepared or is over.
    pub fn commit(&self, version: u32) -> bool {
        let mut state = self.changing();
        let ahead = version.wrapping_sub(state.version.wrapping_add(1));
        if ahead >= state.prepared.wrapping_sub(state.version) {
            return false;
        }
        // NOTE: the lock is let go before what is over is freed: that takes a while when it is large.
        let over = state.replace(version);
        let last = version.wrapping_sub(1);
        let forgotten = state.forget(last.wrapping_sub(u32::MAX >> 1), last);
        drop(state);
        drop((over, forgotten));
        true
    }

    /// Adds an entry to a version, to the one in use if none is given.
    ///
    /// # Errors
    /// Why not, in HAProxy's words.
    pub fn add(&self, version: Option<u32>, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let mut state = self.changing();
        let version = version.unwrap_or(state.version);
        state.add(version, key, value)
    }

    /// Gives the entries with this key, of whichever version, another value.
    ///
    /// # Errors
    /// Why not, in HAProxy's words.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let mut state = self.changing();
        let numbers = state.elements.with_key(key);
        if numbers.is_empty() {
            return Err("entry not found".to_owned());
        }
        state.set(&numbers, value);
        Ok(())
    }

    /// Gives the entry with this handle another value.
    ///
    /// # Errors
    /// Why not, in HAProxy's words.
    pub fn set_by_handle(&self, handle: u64, value: &[u8]) -> Result<(), String> {
        let mut state = self.changing();
        match number_of(handle).filter(|number| state.elements.of(*number).is_some()) {
            Some(number) if state.set(&[number], value) => Ok(()),
            Some(_) => Err(unreadable(value)),
            None => Err("key or pattern not found".to_owned()),
        }
    }

    /// `set-map`: gives the entries with this key another value, or adds one.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        let mut state = self.changing();
        let numbers = state.elements.with_key(key);
        if numbers.is_empty() {
            let version = state.version;
            // As in HAProxy, what cannot be read is left out and nobody is told.
            let _ = state.add(version, key, Some(value));
        } else {
            state.set(&numbers, value);
        }
    }

    /// `add-acl`: adds an entry unless there is one with this key.
    pub fn add_once(&self, key: &[u8]) {
        let mut state = self.changing();
        if state.elements.with_key(key).is_empty() {
            let version = state.version;
            let _ = state.add(version, key, None);
        }
    }

    /// Deletes the entries with this key, of whichever version; whether there was any.
    pub fn delete(&self, key: &[u8]) -> bool {
        let mut state = self.changing();
        let numbers = state.elements.with_key(key);
        for number in &numbers {
            state.remove(*number);
        }
        !numbers.is_empty()
    }

    /// Deletes the entry with this handle; whether there was one.
    pub fn delete_by_handle(&self, handle: u64) -> bool {
        let mut state = self.changing();
        number_of(handle).is_some_and(|number| state.remove(number))
    }

    /// Deletes all of a version, of the one in use if none is given.
    pub fn clear(&self, version: Option<u32>) {
        let mut state = self.changing();
        let version = version.unwrap_or(state.version);
        let over = if version == state.version { state.replace(version) } else { Vec::new() };
        let forgotten = state.forget(version, version);
        drop(state);
        drop((over, forgotten));
    }
}

fn number_of(handle: u64) -> Option<u64> {
    let distance = handle.checked_sub(HANDLE_FIRST)?;
    (distance % HANDLE_STEP == 0).then_some(distance / HANDLE_STEP)
}

impl State {
    /// The version in use, compiled.
    fn compile(
        &self,
        compilation: Compilation,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Result<LiveIndex, (u32, String)> {
        let nowhere: &dyn Fn(&str) -> Option<IpAddr> = &|_| None;
        let resolve = if compilation.resolves { resolve } else { nowhere };
        let mut index = LiveIndex::new(compilation.method, compilation.ignore_case);
        index.reserve(self.elements.len());
        for (number, element) in self.elements.iter().filter(|(_, element)| element.version == self.version) {
            let inserted = compilation.slot(number, element).and_then(|slot| index.insert(&element.key, slot, resolve));
            inserted.map_err(|reason| (element.line, reason))?;
        }
        Ok(index)
    }

    fn look_into(&self, compilation: Compilation, index: &LiveIndex, sample: &[u8]) -> LookUp {
        let value = Value::str(sample).cast(compilation.method.input());
        let hit = match compilation.method {
            MatchMethod::Found => None,
            MatchMethod::Bool => match value {
                Some(Value::Sint(value)) if value != 0 => Some(Hit { in_tree: false, key: None, value: None }),
                _ => None,
            },
            _ => value.as_ref().and_then(|value| index.find(value)).map(|slot| {
                let element = self.elements.of(slot.element);
                let text = element.and_then(|element| element.value.clone());
                Hit {
                    in_tree: index.is_in_tree(slot.element),
                    key: element.map(|element| Arc::clone(&element.key)),
                    value: text.zip(slot.value.as_ref().map(Value::kind)),
                }
            }),
        };
        LookUp { method: compilation.method, ignore_case: compilation.ignore_case, hit }
    }

    /// How many lists HAProxy would keep.
    fn lists(&self) -> u64 {
        let mut seen: Vec<Compilation> = Vec::new();
        for expression in &self.expressions {
            if !seen.iter().any(|other| other.shares_list_with(expression.compilation)) {
                seen.push(expression.compilation);
            }
        }
        seen.len() as u64
    }

    /// Calls `change` with each index of a version, until one fails.
    fn each_index<E>(
        &mut self,
        version: u32,
        mut change: impl FnMut(Compilation, &mut LiveIndex) -> Result<(), E>,
    ) -> Result<(), E> {
        if version == self.version {
            let mut expressions = self.expressions.iter();
            return expressions.try_for_each(|expression| {
                let compilation = expression.compilation;
                expression.change(|index| change(compilation, index))
            });
        }
        let expressions = &self.expressions;
        let indexes = self.others.entry(version).or_insert_with(|| new_indexes(expressions));
        expressions.iter().zip(indexes).try_for_each(|(expression, index)| change(expression.compilation, index))
    }

    fn add(&mut self, version: u32, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let element = Element { version, line: 0, key: Arc::from(key), value: value.map(Arc::from) };
        let key = Arc::clone(&element.key);
        let number = self.elements.push(element.clone());
        let added = self.each_index(version, |compilation, index| {
            let slot = compilation.slot(number, &element)?;
            index.insert(&key, slot, &|_| None)
        });
        match added {
            Ok(()) => self.entries += self.lists(),
            Err(_) => {
                self.elements.remove(number);
                let _ = self.each_index(version, |_, index| -> Result<(), ()> {
                    index.remove(&key, number);
                    Ok(())
                });
            }
        }
        added
    }

    /// Gives elements another value; false if that is none for some map.
    fn set(&mut self, numbers: &[u64], value_text: &[u8]) -> bool {
        let text: Arc<[u8]> = Arc::from(value_text);
        let mut outputs = self.expressions.iter().filter_map(|expression| expression.compilation.output);
        if outputs.any(|output| value(&text, output).is_none()) {
            return false;
        }
        for number in numbers {
            let Some(element) = self.elements.of_mut(*number) else { continue };
            element.value = Some(Arc::clone(&text));
            let (key, version) = (Arc::clone(&element.key), element.version);
            let _ = self.each_index(version, |compilation, index| -> Result<(), ()> {
                if let Some(value) = compilation.output.and_then(|output| value(&text, output)) {
                    index.set_value(&key, *number, value);
                }
                Ok(())
            });
        }
        true
    }

    fn remove(&mut self, number: u64) -> bool {
        let Some(element) = self.elements.remove(number) else { return false };
        self.entries = self.entries.saturating_sub(1);
        let _ = self.each_index(element.version, |_, index| -> Result<(), ()> {
            index.remove(&element.key, number);
            Ok(())
        });
        true
    }

    /// Puts the indexes of `version`, or empty ones, in place of those in use, which are returned.
    fn replace(&mut self, version: u32) -> Vec<LiveIndex> {
        let indexes = self.others.remove(&version).unwrap_or_else(|| new_indexes(&self.expressions));
        self.version = version;
        let pairs = self.expressions.iter().zip(indexes);
        pairs.map(|(expression, new)| expression.change(|index| std::mem::replace(index, new))).collect()
    }

    /// Forgets the elements of versions from `first` to `last`, around the end of numbers if need be. Indexes that nobody uses
    /// are returned.
    fn forget(&mut self, first: u32, last: u32) -> Vec<LiveIndex> {
        let is_over = |version: u32| version.wrapping_sub(first) <= last.wrapping_sub(first);
        let forgotten = self.elements.remove_all(|element| is_over(element.version));
        self.entries = self.entries.saturating_sub(forgotten as u64);
        let over: Vec<u32> = self.others.keys().copied().filter(|version| is_over(*version)).collect();
        over.iter().filter_map(|version| self.others.remove(version)).flatten().collect()
    }
}

fn new_indexes(expressions: &[Arc<PatternExpression>]) -> Vec<LiveIndex> {
    let new = |expression: &Arc<PatternExpression>| {
        LiveIndex::new(expression.compilation.method, expression.compilation.ignore_case)
    };
    expressions.iter().map(new).collect()
}
