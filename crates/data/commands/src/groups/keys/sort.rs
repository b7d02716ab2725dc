//! SORT: the elements of a list, a set or a sorted set, by themselves or by what other keys hold.

use std::cmp::Ordering;

use crate::{
    Bytes, Context, Failure, Value,
    changes::EventClass,
    keyspace::{Expiry, Keys},
    number,
    value::{
        Hash, List,
        list::{End, NodeLimit},
    },
};

#[derive(Default)]
struct Options<'a> {
    descending: bool,
    by_text: bool,
    limit: Option<(i64, i64)>,
    store: Option<&'a [u8]>,
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
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

fn options<'a>(context: &Context<'a>, may_store: bool) -> Result<Options<'a>, Failure> {
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
            options.store = Some(words.at(at));
        } else if words.is(at, "BY") && following >= 1 {
            at += 1;
            options.by = Some(words.at(at));
            if !may_read_all && words.at(at).contains(&b'*') {
                return Err(Failure::text("ERR BY option of SORT denied due to insufficient ACL permissions."));
            }
        } else if words.is(at, "GET") && following >= 1 {
            at += 1;
            if !may_read_all {
                return Err(Failure::text("ERR GET option of SORT denied due to insufficient ACL permissions."));
            }
            options.get.push(words.at(at));
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// What a pattern stands for with an element in the place of its star: the value of a key, or of a hash's field.
fn look_up(keys: &mut Keys<'_>, pattern: &[u8], element: &[u8]) -> Result<Option<Bytes>, Failure> {
    if pattern == b"#" {
        return Ok(Some(Bytes::from_slice(element)));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, after) = (pattern.get(..star).unwrap_or_default(), pattern.get(star + 1..).unwrap_or_default());
    let arrow = after.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < after.len());
    let (after, field) = match arrow {
        Some(arrow) => (after.get(..arrow).unwrap_or_default(), after.get(arrow + 2..)),
        None => (after, None),
    };
    let key = [before, element, after].concat();
    let found = match field {
        Some(field) => keys
            .get::<Hash>(&key)
            .map(|hash| hash.and_then(|hash| hash.get(field)).map(|value| Bytes::from_slice(&value))),
        None => keys.get::<Bytes>(&key).map(Option::<&Bytes>::cloned),
    };
    match found {
        Err(Failure::WrongType) => Ok(None),
        other => other,
    }
}

/// The elements in their own order, and whether that is one that means something.
fn elements(value: Option<&Value>) -> Result<(Vec<Bytes>, bool), Failure> {
    Ok(match value {
        None => (Vec::new(), true),
        Some(Value::List(list)) => (list.elements_in_order(), true),
        Some(Value::Set(set)) => (set.members(), false),
        Some(Value::SortedSet(set)) => {
            let mut names = Vec::with_capacity(set.len());
            set.each(0..set.len(), false, |member| names.push(member.name.clone()));
            (names, true)
        }
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

/// What an element is sorted by.
enum Weight {
    Number(f64),
    Text(Option<Bytes>),
}

fn number_of(text: &[u8]) -> Result<f64, Failure> {
    const NOT: Failure = Failure::text("ERR One or more scores can't be converted into double");
    // As strtod has it: blanks in front are skipped, and nothing at all is zero.
    let text = text.trim_ascii_start();
    if text.is_empty() { Ok(0.0) } else { number::parse_float(text).ok_or(NOT) }
}

fn compare(one: &(Weight, Bytes), other: &(Weight, Bytes)) -> Ordering {
    match (&one.0, &other.0) {
        // Of equal numbers those decide that were sorted, so that the result does not depend on their first order.
        (Weight::Number(first), Weight::Number(second)) => first.total_cmp(second).then_with(|| one.1.cmp(&other.1)),
        (Weight::Text(first), Weight::Text(second)) => first.cmp(second),
        _ => Ordering::Equal,
    }
}

/// Sorts what a range will take.
fn sorted(keys: &mut Keys<'_>, elements: Vec<Bytes>, options: &Options<'_>) -> Result<Vec<Bytes>, Failure> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let text = match options.by {
            Some(pattern) => look_up(keys, pattern, &element)?,
            None => Some(element.clone()),
        };
        let weight = if options.by_text {
            Weight::Text(text)
        } else {
            // Zero and minus zero are the same.
            Weight::Number(text.map_or(Ok(0.0), |text| number_of(&text))? + 0.0)
        };
        weighed.push((weight, element));
    }
    if options.descending {
        weighed.sort_by(|one, other| compare(other, one));
    } else {
        weighed.sort_by(compare);
    }
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

pub(super) fn sort(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, true)
}

pub(super) fn sort_readonly(context: &mut Context<'_>) -> Result<(), Failure> {
    run(context, false)
}

fn run(context: &mut Context<'_>, may_store: bool) -> Result<(), Failure> {
    let mut options = options(context, may_store)?;
    let (mut elements, has_order) = elements(context.keys.value(context.words.at(1))?)?;
    // A pattern that is the same for all sorts nothing. What is kept, or seen by a script, has an order all the same.
    let mut as_it_is = options.by.is_some_and(|pattern| !pattern.contains(&b'*'));
    if as_it_is && !has_order && (options.store.is_some() || context.session.internal) {
        as_it_is = false;
        options.by_text = true;
        options.by = None;
    }
    if !as_it_is {
        elements = sorted(&mut context.keys, elements, &options)?;
    } else if options.descending && has_order {
        elements.reverse();
    }
    let elements = elements.get(range(elements.len(), options.limit)).unwrap_or_default();
    let mut results = Vec::with_capacity(elements.len() * options.get.len().max(1));
    for element in elements {
        if options.get.is_empty() {
            results.push(Some(element.clone()));
        }
        for pattern in &options.get {
            results.push(look_up(&mut context.keys, pattern, element)?);
        }
    }
    let Some(target) = options.store else {
        context.reply.array(results.len());
        results.iter().for_each(|result| context.reply.bulk_or_null(result.as_deref()));
        return Ok(());
    };
    store(context, target, &results)?;
    context.reply.count(results.len());
    Ok(())
}

fn store(context: &mut Context<'_>, target: &[u8], results: &[Option<Bytes>]) -> Result<(), Failure> {
    if results.is_empty() {
        if context.keys.remove(target)? {
            context.keys.modified(target);
            context.keys.notify(EventClass::GENERIC, "del", target);
        }
        return Ok(());
    }
    let limit = NodeLimit::new(context.shared.settings.list_max_listpack_size.0);
    let mut list = List::new();
    results.iter().for_each(|result| list.push(End::Tail, result.as_deref().unwrap_or_default(), limit));
    context.keys.set(target, Value::List(Box::new(list)), Expiry::Clear)?;
    context.keys.modified(target);
    context.keys.changes.dirty += results.len() as u64 - 1;
    context.keys.notify(EventClass::LIST, "sortstore", target);
    Ok(())
}
