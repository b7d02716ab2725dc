//! SORT: the elements of a list, a set or a sorted set, by themselves or by what other keys hold.

use keyspace::{Failure, Value};

use crate::Context;

use super::sorting::Sorting;

/// What is asked for; patterns and keys by their places among the words.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) descending: bool,
    pub(super) by_text: bool,
    limit: Option<(i64, i64)>,
    pub(super) store: Option<usize>,
    pub(super) by: Option<usize>,
    pub(super) get: Vec<usize>,
}

/// The keys among a command's words: the one to sort, and the one to store in.
pub(super) fn places(words: &[&[u8]], places: &mut Vec<usize>) {
    places.push(1);
    let mut store = None;
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("LIMIT") {
            at += 2;
        } else if is("GET") || is("BY") {
            at += 1;
        } else if is("STORE") && at + 1 < words.len() {
            at += 1;
            store = Some(at);
        }
        at += 1;
    }
    places.extend(store);
}

fn options(context: &Context<'_>, may_store: bool) -> Result<Options, Failure> {
    let words = context.words;
    let mut options = Options::default();
    let may_read_all = context.may_read_all_keys();
    let mut at = 2;
    while at < words.len() {
        let following = words.len() - at - 1;
        if words.is(at, "ASC") {
            options.descending = false;
        } else if words.is(at, "DESC") {
            options.descending = true;
        } else if words.is(at, "ALPHA") {
            options.by_text = true;
        } else if words.is(at, "LIMIT") && following >= 2 {
            options.limit = Some((words.integer(at + 1)?, words.integer(at + 2)?));
            at += 2;
        } else if words.is(at, "STORE") && following >= 1 && may_store {
            at += 1;
            options.store = Some(at);
        } else if words.is(at, "BY") && following >= 1 {
            at += 1;
            options.by = Some(at);
            if !may_read_all && words.at(at).contains(&b'*') {
                return Err(Failure::text("ERR BY option of SORT denied due to insufficient ACL permissions."));
            }
        } else if words.is(at, "GET") && following >= 1 {
            at += 1;
            if !may_read_all {
                return Err(Failure::text("ERR GET option of SORT denied due to insufficient ACL permissions."));
            }
            options.get.push(at);
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// How many elements there are, and whether their own order is one that means something.
fn measure(value: Option<&Value>) -> Result<(usize, bool), Failure> {
    Ok(match value {
        None => (0, true),
        Some(Value::List(list)) => (list.len(), true),
        Some(Value::Set(set)) => (set.len(), false),
        Some(Value::SortedSet(set)) => (set.len(), true),
        Some(_) => return Err(Failure::WrongType),
    })
}

/// The part of so many elements that a limit leaves.
fn range(len: usize, limit: Option<(i64, i64)>) -> std::ops::Range<usize> {
    let (start, count) = limit.unwrap_or((0, -1));
    let start = usize::try_from(start).unwrap_or(0).min(len);
    let count = usize::try_from(count).unwrap_or(len);
    start..start.saturating_add(count).min(len)
}

pub(super) fn sort(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, true)
}

pub(super) fn sort_readonly(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, false)
}

fn run(context: &mut Context<'_>, may_store: bool) -> Result<(), Failure> {
    let mut options = options(context, may_store)?;
    let (len, has_order) = measure(context.keys.value(context.words.at(1))?)?;
    // A pattern that is the same for all sorts nothing. What is kept, or seen by a script, has an order all the same.
    let mut as_it_is = options.by.is_some_and(|pattern| !context.words.at(pattern).contains(&b'*'));
    if as_it_is && !has_order && (options.store.is_some() || context.session.internal) {
        as_it_is = false;
        options.by_text = true;
        options.by = None;
    }
    let wanted = range(len, options.limit);
    let elements = if as_it_is { wanted.len() } else { len };
    let is_long = context.session.takes_steps(elements, context.shared);
    let work = Sorting::new(options, len, wanted, as_it_is, has_order, is_long);
    context.work_on(elements, work)
}
