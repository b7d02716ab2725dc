//! QUEUE RESERVE.

use keyspace::{
    Bytes, Failure,
    value::{Queue, queue::time},
};
use queue::Reservation;
use resp::Reply;

use crate::Context;

use super::{
    Begun, begin, head, is_log, note,
    options::{BATCH_MAX, count, millis, unknown},
    show,
};

struct Options<'a> {
    reservation: Reservation<'a>,
    /// Whether to wait, and for how long; 0 is for ever.
    block_ms: Option<u64>,
}

fn options<'a>(context: &Context<'a>, from: usize) -> Result<Options<'a>, Failure> {
    let words = context.words;
    let reservation = Reservation { count: 1, bytes: u64::MAX, timeout_ms: None, consumer: b"" };
    let mut options = Options { reservation, block_ms: None };
    let mut at = from;
    while at < words.len() {
        let is = |name: &str| words.is(at, name) && words.len() > at + 1;
        if is("COUNT") {
            options.reservation.count = count(words, at + 1)?;
        } else if is("BYTES") {
            let wrong = Failure::text("ERR BYTES is a number of bytes, at least 1");
            let bytes = words.integer(at + 1).ok().and_then(|bytes| u64::try_from(bytes).ok());
            options.reservation.bytes = bytes.filter(|bytes| *bytes > 0).ok_or(wrong)?;
        } else if is("TIMEOUT") {
            options.reservation.timeout_ms = Some(millis(words, at + 1, "TIMEOUT")?);
        } else if is("BLOCK") {
            options.block_ms = Some(millis(words, at + 1, "BLOCK")?);
        } else if is("CONSUMER") {
            options.reservation.consumer = words.at(at + 1);
        } else {
            return Err(unknown(words, at));
        }
        at += 2;
    }
    Ok(options)
}

pub(super) fn reserve(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let options = options(context, begun.from)?;
    // It counts as a use of the key whether there is something or not.
    let queue = context.keys.get::<Queue>(begun.key)?;
    if !queue.is_some_and(|queue| queue.header().may_give(time(begun.now))) {
        return wait(context, begun, options.block_ms);
    }
    let mut reservation = options.reservation;
    if !super::is_log(context) || reservation.bytes == u64::MAX {
        // A reply is not longer than any may be. What comes out of a log says what it was.
        reservation.bytes = reservation.bytes.min(context.shared.settings.queue_message_max.0.max(1));
    }
    let queue = super::queue_mut(context, begun.key)?;
    let mut at = queue.at(begun.now);
    let given = at.reserve(&reservation);
    let has_changed = at.has_changed();
    if has_changed {
        log(context, begun, &reservation);
        note(context, begun, "qreserve");
    }
    if given.is_empty() {
        return wait(context, begun, options.block_ms);
    }
    context.reply.array(given.len());
    for one in &given {
        show::delivery(&mut context.reply, one)?;
    }
    Ok(())
}

/// What was done stands in the log as it was done, whatever is set there.
fn log(context: &mut Context<'_>, begun: Begun<'_>, reservation: &Reservation<'_>) {
    let number = |number: u64| keyspace::number::integer_bytes(i64::try_from(number).unwrap_or(i64::MAX));
    let has_timeout = reservation.timeout_ms.is_some();
    let has_consumer = !reservation.consumer.is_empty();
    let more = 4 + 2 * (usize::from(has_timeout) + usize::from(has_consumer));
    let mut encoded = head(b"RESERVE", &[begun.key], begun.now, more);
    encoded.word(b"COUNT");
    encoded.word(&number(reservation.count.min(BATCH_MAX) as u64));
    encoded.word(b"BYTES");
    encoded.word(&number(reservation.bytes));
    if let Some(timeout_ms) = reservation.timeout_ms {
        encoded.word(b"TIMEOUT");
        encoded.word(&number(timeout_ms));
    }
    if has_consumer {
        encoded.word(b"CONSUMER");
        encoded.word(reservation.consumer);
    }
    context.keys.changes.propagate_encoded(encoded);
}

/// There is nothing: the consumer waits, if it wants to, and is asked again when a message is there, or when one has waited for its time.
fn wait(context: &mut Context<'_>, begun: Begun<'_>, block_ms: Option<u64>) -> Result<(), Failure> {
    let Some(block_ms) = block_ms.filter(|_| !context.session.deny_blocking && !is_log(context)) else {
        context.reply.null_array();
        return Ok(());
    };
    let queue = context.keys.look::<Queue>(begun.key)?;
    if let Some(next) = queue.and_then(|queue| queue.next_due(begun.now)) {
        context.shared.wake_at(context.session.db, begun.key, next);
    }
    let mut on_timeout = Vec::new();
    Reply::new(&mut on_timeout, context.session.protocol).null_array();
    let block_ms = i64::try_from(block_ms).unwrap_or(i64::MAX);
    let deadline = (block_ms > 0).then(|| begun.now.saturating_add(block_ms));
    context.session.block(context.words.0, vec![Bytes::from_slice(begun.key)], deadline, on_timeout);
    Ok(())
}
