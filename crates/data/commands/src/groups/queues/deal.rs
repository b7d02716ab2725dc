//! What a consumer does with a message that it has: DELETE, TOUCH, RELEASE, BURY.

use keyspace::{Failure, value::Queue};
use queue::{Done, Receipt, Stale};

use crate::Context;

use super::{
    Begun, begin, changed, is_log,
    options::{BATCH_MAX, millis, receipt, unknown},
};

/// The error of a receipt that does not count any more.
fn refused(receipt: Receipt, stale: Stale) -> Failure {
    Failure::owned(format!("STALERECEIPT {receipt}: {stale}"))
}

/// Deletes messages: a number, or an error, for each receipt. One receipt is answered without an array.
pub(super) fn delete(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words.from(begun.from);
    if words.is_empty() || words.len() > BATCH_MAX && !is_log(context) {
        return Err(Failure::owned(format!("ERR QUEUE DELETE takes from 1 to {BATCH_MAX} receipts")));
    }
    let receipts = words.iter().map(|word| receipt(word)).collect::<Result<Vec<_>, _>>()?;
    if let [one] = receipts[..] {
        let done = delete_one(context, begun, one)?.map_err(|stale| refused(one, stale))?;
        if done == Done::Deleted {
            changed(context, begun, "qdelete");
        }
        context.reply.integer(i64::from(done == Done::Deleted));
        return Ok(());
    }
    let mut count = 0;
    context.reply.array(receipts.len());
    for one in receipts {
        match delete_one(context, begun, one)? {
            Ok(done) => {
                count += usize::from(done == Done::Deleted);
                context.reply.integer(i64::from(done == Done::Deleted));
            }
            Err(stale) => context.reply.error(refused(one, stale).bytes()),
        }
    }
    if count > 0 {
        changed(context, begun, "qdelete");
    }
    Ok(())
}

fn delete_one(context: &mut Context<'_>, begun: Begun<'_>, one: Receipt) -> Result<Result<Done, Stale>, Failure> {
    let queue = context.keys.get_mut::<Queue>(begun.key)?;
    Ok(queue.map_or(Ok(Done::WasGone), |queue| queue.at(begun.now).delete_done(one)))
}

/// Does something with the message of a receipt.
fn deal<T>(
    context: &mut Context<'_>,
    begun: Begun<'_>,
    event: &'static str,
    act: impl FnOnce(&mut Queue, Receipt) -> Result<T, Stale>,
) -> Result<T, Failure> {
    let receipt = receipt(context.words.at(begun.from))?;
    let queue = context.keys.get_mut::<Queue>(begun.key)?;
    let done = queue.map_or(Err(Stale::Gone), |queue| act(queue, receipt)).map_err(|stale| refused(receipt, stale))?;
    changed(context, begun, event);
    Ok(done)
}

pub(super) fn touch(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words;
    let (mut timeout_ms, mut is_new) = (None, false);
    let mut at = begun.from + 1;
    while at < words.len() {
        if words.is(at, "TIMEOUT") && words.len() > at + 1 {
            timeout_ms = Some(millis(words, at + 1, "TIMEOUT")?);
            at += 1;
        } else if words.is(at, "NEW") {
            is_new = true;
        } else {
            return Err(unknown(words, at));
        }
        at += 1;
    }
    let touched =
        deal(context, begun, "qtouch", |queue, receipt| queue.at(begun.now).touch(receipt, timeout_ms, is_new))?;
    context.reply.bulk(touched.to_string().as_bytes());
    Ok(())
}

pub(super) fn release(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words;
    let (mut delay_ms, mut reason, mut is_counted) = (0, &b"it was given back"[..], true);
    let mut at = begun.from + 1;
    while at < words.len() {
        let has_more = words.len() > at + 1;
        if words.is(at, "DELAY") && has_more {
            delay_ms = millis(words, at + 1, "DELAY")?;
            at += 1;
        } else if words.is(at, "REASON") && has_more {
            reason = words.at(at + 1);
            at += 1;
        } else if words.is(at, "UNCOUNTED") {
            is_counted = false;
        } else {
            return Err(unknown(words, at));
        }
        at += 1;
    }
    deal(context, begun, "qrelease", |queue, receipt| {
        queue.at(begun.now).release(receipt, delay_ms, reason, is_counted)
    })?;
    context.reply.ok();
    Ok(())
}

pub(super) fn bury(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words;
    let at = begun.from + 1;
    let reason = match words.len() - at {
        0 => &b"it was buried"[..],
        2 if words.is(at, "REASON") => words.at(at + 1),
        _ => return Err(unknown(words, at)),
    };
    deal(context, begun, "qbury", |queue, receipt| queue.at(begun.now).bury(receipt, reason))?;
    context.reply.ok();
    Ok(())
}
