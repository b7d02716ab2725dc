//! Commands that take elements from the ends of lists.

use keyspace::{
    Bytes, Failure, Keys,
    changes::EventClass,
    number,
    value::{List, list::End},
};
use resp::Reply;

use crate::{
    Context,
    arguments::{at_least_one, positive},
    server::{Progress, changing_steps},
};

use super::{limit, push_event};

fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

/// `LEFT` or `RIGHT`.
pub(super) fn end(word: &[u8]) -> Result<End, Failure> {
    if word.eq_ignore_ascii_case(b"left") {
        Ok(End::Head)
    } else if word.eq_ignore_ascii_case(b"right") {
        Ok(End::Tail)
    } else {
        Err(Failure::Syntax)
    }
}

/// Tells of elements that were taken, and removes a list without elements.
fn popped(keys: &mut Keys<'_>, key: &[u8], end: End, count: usize, empty: bool) -> Result<(), Failure> {
    keys.notify(EventClass::LIST, pop_event(end), key);
    if empty {
        keys.remove_if(key, List::is_empty)?;
    }
    keys.modified_by(key, count);
    Ok(())
}

/// Answers with elements from an end on.
fn give(reply: &mut Reply<'_>, list: &List, end: End, count: usize) {
    reply.array(count);
    give_some(reply, list, end, count);
}

fn give_some(reply: &mut Reply<'_>, list: &List, end: End, count: usize) {
    let mut left = count;
    let each = |element: &[u8]| {
        reply.bulk(element);
        left -= 1;
        left > 0
    };
    match end {
        End::Head => list.each_from(0, each),
        End::Tail => list.each_back(0, each),
    }
}

pub(super) fn pop(context: &mut Context<'_>, end: End) -> Result<(), Failure> {
    let key = context.words.at(1);
    let count = match context.words.len() {
        2 => None,
        3 => Some(positive(context.words.at(2), None)?),
        _ => {
            let name = pop_event(end);
            return Err(Failure::owned(format!("ERR wrong number of arguments for '{name}' command")));
        }
    };
    if count == Some(0) {
        match context.keys.look::<List>(key)? {
            Some(_) => context.reply.array(0),
            None => context.reply.null_array(),
        }
        return Ok(());
    }
    // One element is taken at once.
    if count.is_some_and(|count| context.session.takes_steps(count, context.shared)) {
        let len = context.keys.look::<List>(key)?.map_or(0, List::len);
        let taken = count.unwrap_or(1).min(len);
        if context.session.takes_steps(taken, context.shared) {
            return pop_in_steps(context, key, end, taken, false);
        }
    }
    let Some(list) = context.keys.get_mut::<List>(key)? else {
        match count {
            None => context.reply.null(),
            Some(_) => context.reply.null_array(),
        }
        return Ok(());
    };
    let taken = count.unwrap_or(1).min(list.len());
    match count {
        None => context.reply.bulk_or_null(list.peek(end).as_deref()),
        Some(_) => give(&mut context.reply, list, end, taken),
    }
    list.drop_at(end, taken);
    let empty = list.is_empty();
    popped(&mut context.keys, key, end, taken, empty)
}

/// Takes so many elements as there are, answers with them, and with the key if that is not clear.
fn pop_in_steps(
    context: &mut Context<'_>,
    key: &[u8],
    end: End,
    taken: usize,
    is_of_several: bool,
) -> Result<(), Failure> {
    let mut left = taken;
    let key = Bytes::from_slice(key);
    let step = move |context: &mut Context<'_>, budget: usize| {
        let key = key.as_slice();
        if left == taken {
            if is_of_several {
                context.reply.array(2);
                context.reply.bulk(key);
            }
            context.reply.array(taken);
        }
        let some = left.min(budget);
        left -= some;
        let mut empty = false;
        if let Some(list) = context.keys.get_mut::<List>(key)? {
            give_some(&mut context.reply, list, end, some);
            list.drop_at(end, some);
            empty = list.is_empty();
        }
        if left == 0 {
            popped(&mut context.keys, key, end, taken, empty)?;
            if is_of_several {
                propagate_pop(context, key, end, Some(taken));
            }
        }
        Ok(Progress::over_if(left == 0))
    };
    context.work_on(taken, changing_steps(step))
}

/// Takes an element from one of the lists, answers with the list's name and it. Returns whether there was one.
pub(super) fn pop_one(context: &mut Context<'_>, keys: &[&[u8]], end: End) -> Result<bool, Failure> {
    for key in keys {
        let Some(list) = context.keys.get_mut::<List>(key)? else { continue };
        context.reply.array(2);
        context.reply.bulk(key);
        context.reply.bulk_or_null(list.peek(end).as_deref());
        list.drop_at(end, 1);
        let empty = list.is_empty();
        popped(&mut context.keys, key, end, 1, empty)?;
        propagate_pop(context, key, end, None);
        return Ok(true);
    }
    Ok(false)
}

/// The same with several elements of it.
pub(super) fn pop_some(context: &mut Context<'_>, keys: &[&[u8]], end: End, count: usize) -> Result<bool, Failure> {
    for key in keys {
        let len = context.keys.look::<List>(key)?.map_or(0, List::len);
        if context.session.takes_steps(count.min(len), context.shared) {
            pop_in_steps(context, key, end, count.min(len), true)?;
            return Ok(true);
        }
        let Some(list) = context.keys.get_mut::<List>(key)? else { continue };
        let taken = count.min(list.len());
        context.reply.array(2);
        context.reply.bulk(key);
        give(&mut context.reply, list, end, taken);
        list.drop_at(end, taken);
        let empty = list.is_empty();
        popped(&mut context.keys, key, end, taken, empty)?;
        propagate_pop(context, key, end, Some(taken));
        return Ok(true);
    }
    Ok(false)
}

/// What is propagated does not wait and names the one list.
fn propagate_pop(context: &mut Context<'_>, key: &[u8], end: End, count: Option<usize>) {
    let name: &[u8] = match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    };
    let mut words = vec![Bytes::from_slice(name), Bytes::from_slice(key)];
    words.extend(count.map(|count| number::integer_bytes(count as i64)));
    context.keys.changes.propagate_instead(vec![words]);
}

/// The lists, the end and the count of `LMPOP` and `BLMPOP`, whose words from a place on are the same.
pub(super) fn some_of<'a>(context: &Context<'a>, from: usize) -> Result<(&'a [&'a [u8]], End, usize), Failure> {
    let words = context.words;
    let keys = at_least_one(words.at(from), "ERR numkeys should be greater than 0")?;
    let place = keys.checked_add(from + 1).filter(|place| *place < words.len()).ok_or(Failure::Syntax)?;
    let end = end(words.at(place))?;
    let count = match words.len() - place {
        1 => 1,
        3 if words.is(place + 1, "COUNT") => at_least_one(words.at(place + 2), "ERR count should be greater than 0")?,
        // An option that comes twice is refused only after the first was read.
        len if len > 3 && words.is(place + 1, "COUNT") => {
            at_least_one(words.at(place + 2), "ERR count should be greater than 0")?;
            return Err(Failure::Syntax);
        }
        _ => return Err(Failure::Syntax),
    };
    Ok((words.from(from + 1).get(..keys).unwrap_or_default(), end, count))
}

pub(super) fn lmpop(context: &mut Context<'_>) -> Result<(), Failure> {
    let (keys, end, count) = some_of(context, 1)?;
    if !pop_some(context, keys, end, count)? {
        context.reply.null_array();
    }
    Ok(())
}

/// Moves an element between lists, or within one, and answers with it. Returns whether there was one.
pub(super) fn move_one(context: &mut Context<'_>, from: End, to: End) -> Result<bool, Failure> {
    let (source, destination) = (context.words.at(1), context.words.at(2));
    if context.keys.look::<List>(source)?.is_none() {
        return Ok(false);
    }
    context.keys.look::<List>(destination)?;
    let limit = limit(&context.shared.settings);
    let Some(list) = context.keys.get_mut::<List>(source)? else { return Ok(false) };
    let Some(element) = list.peek(from).map(|element| Bytes::from_slice(&element)) else { return Ok(false) };
    list.drop_at(from, 1);
    if source == destination {
        list.push(to, &element, limit);
        context.keys.touched(destination);
        context.keys.notify(EventClass::LIST, push_event(to), destination);
        popped(&mut context.keys, source, from, 1, false)?;
    } else {
        let empty = list.is_empty();
        context.keys.get_or_insert(destination, |_| List::new())?.push(to, &element, limit);
        context.keys.touched(destination);
        context.keys.notify(EventClass::LIST, push_event(to), destination);
        popped(&mut context.keys, source, from, 1, empty)?;
    }
    context.reply.bulk(&element);
    Ok(true)
}

pub(super) fn lmove(context: &mut Context<'_>) -> Result<(), Failure> {
    let (from, to) = (end(context.words.at(3))?, end(context.words.at(4))?);
    if !move_one(context, from, to)? {
        context.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(context: &mut Context<'_>) -> Result<(), Failure> {
    if !move_one(context, End::Tail, End::Head)? {
        context.reply.null();
    }
    Ok(())
}
