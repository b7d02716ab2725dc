//! Commands that wait for elements.

use keyspace::{Bytes, Failure, Millis, value::list::End};
use resp::Reply;

use crate::{Context, arguments};

use super::pop::{end, move_one, pop_one, pop_some, some_of};

/// Waits for keys, or answers as if that had been in vain where nothing may wait.
fn wait(context: &mut Context<'_>, keys: &[&[u8]], deadline: Option<Millis>, in_vain: impl FnOnce(&mut Reply<'_>)) {
    if context.session.deny_blocking {
        in_vain(&mut context.reply);
        return;
    }
    let mut on_timeout = Vec::new();
    Reply::new(&mut on_timeout, context.session.protocol).null_array();
    let keys = keys.iter().map(|key| Bytes::from_slice(key)).collect();
    context.session.block(context.words.0, keys, deadline, on_timeout);
}

/// The keys to take from: all of the command's, or the one that has become ready.
fn with_keys<T>(
    context: &mut Context<'_>,
    keys: &[&[u8]],
    take: impl FnOnce(&mut Context<'_>, &[&[u8]]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match context.session.ready_key().cloned() {
        Some(ready) => take(context, &[&ready]),
        None => take(context, keys),
    }
}

fn blocking_pop(context: &mut Context<'_>, end: End) -> Result<(), Failure> {
    let last = context.words.len() - 1;
    let deadline = arguments::deadline(context.words.at(last), context.now())?;
    let keys = context.words.0.get(1..last).unwrap_or_default();
    if !with_keys(context, keys, |context, keys| pop_one(context, keys, end))? {
        wait(context, keys, deadline, |reply| reply.null_array());
    }
    Ok(())
}

pub(super) fn blpop(context: &mut Context<'_>) -> Result<(), Failure> {
    blocking_pop(context, End::Head)
}

pub(super) fn brpop(context: &mut Context<'_>) -> Result<(), Failure> {
    blocking_pop(context, End::Tail)
}

pub(super) fn blmpop(context: &mut Context<'_>) -> Result<(), Failure> {
    let (keys, end, count) = some_of(context, 2)?;
    let deadline = arguments::deadline(context.words.at(1), context.now())?;
    if !with_keys(context, keys, |context, keys| pop_some(context, keys, end, count))? {
        wait(context, keys, deadline, |reply| reply.null_array());
    }
    Ok(())
}

fn blocking_move(context: &mut Context<'_>, from: End, to: End, deadline: Option<Millis>) -> Result<(), Failure> {
    if !move_one(context, from, to)? {
        wait(context, &[context.words.at(1)], deadline, |reply| reply.null());
        return Ok(());
    }
    let mut words: Vec<Bytes> = context.words.0.iter().map(|word| Bytes::from_slice(word)).collect();
    words.pop();
    if let Some(name) = words.first_mut() {
        *name = Bytes::from_slice(if context.words.len() == 4 { b"RPOPLPUSH" } else { b"LMOVE" });
    }
    context.keys.changes.propagate_instead(vec![words]);
    Ok(())
}

pub(super) fn blmove(context: &mut Context<'_>) -> Result<(), Failure> {
    let (from, to) = (end(context.words.at(3))?, end(context.words.at(4))?);
    let deadline = arguments::deadline(context.words.at(5), context.now())?;
    blocking_move(context, from, to, deadline)
}

pub(super) fn brpoplpush(context: &mut Context<'_>) -> Result<(), Failure> {
    let deadline = arguments::deadline(context.words.at(3), context.now())?;
    blocking_move(context, End::Tail, End::Head, deadline)
}
