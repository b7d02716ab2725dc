//! QUEUE PUSH.

use keyspace::{
    Bytes, Failure,
    value::{Queue, queue::time},
};
use queue::{Durability, Full, Header, NewMessage, Overflow, Published, Settings};
use resp::Reply;

use crate::Context;

use super::{
    Begun, begin, head, note,
    options::{BATCH_MAX, millis, unknown},
};

/// What is urgent is lower; as in beanstalkd, nothing said is in the middle of what people write.
const PRIORITY: u32 = 1024;
/// How long a publisher waits for room if nobody says (`OVERFLOW block`).
const BLOCK_MS: u64 = 30_000;

/// What stands behind the key.
struct Batch<'a> {
    messages: Vec<NewMessage<'a>>,
    /// The reply is one id, and no array.
    is_short: bool,
    block_ms: Option<u64>,
}

/// What all messages have in common.
#[derive(Default)]
struct Common<'a> {
    message: NewMessage<'a>,
    headers: Vec<(&'a [u8], &'a [u8])>,
    block_ms: Option<u64>,
}

pub(super) fn push(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let mut common =
        Common { message: NewMessage { priority: PRIORITY, ..NewMessage::default() }, ..Common::default() };
    let batch = parse(context, begun, &mut common)?;
    check(context, &batch)?;
    if context.keys.look::<Queue>(begun.key)?.is_none() {
        context.keys.get_or_insert(begun.key, |_| Queue::new(Header::new(time(begun.now), Settings::default())))?;
    }
    promise(context, begun)?;
    let queue = super::queue_mut(context, begun.key)?;
    let settings = queue.header().settings;
    let mut at = queue.at(begun.now);
    let published = at.publish(&batch.messages);
    let has_changed = at.has_changed();
    match published {
        Ok(published) => {
            reply(context, &batch, &published);
            if batch.is_short {
                log_short(context, begun);
            } else {
                log_batch(context, begun);
            }
            note(context, begun, "qpush");
            Ok(())
        }
        Err(full) => {
            if has_changed {
                // Some of what was due was done before it turned out that there is no room.
                context.keys.changes.propagate_encoded(head(b"TIDY", &[begun.key], begun.now, 0));
                note(context, begun, "qtidy");
            }
            refuse(context, begun, (settings, full, batch))
        }
    }
}

/// The words behind the key: a body alone, or options and bodies.
fn parse<'a>(context: &Context<'a>, begun: Begun<'a>, common: &'a mut Common<'a>) -> Result<Batch<'a>, Failure> {
    let words = context.words;
    if words.len() == begun.from + 1 {
        let message = NewMessage { body: words.at(begun.from), ..common.message };
        return Ok(Batch { messages: vec![message], is_short: true, block_ms: None });
    }
    let mut at = begun.from;
    let text = |at: usize| Some(words.at(at + 1));
    while at < words.len() {
        let is = |name: &str| words.is(at, name) && words.len() > at + 1;
        if is("BODY") || is("IDBODY") {
            break;
        } else if is("ID") {
            common.message.id = text(at);
        } else if is("GROUP") {
            common.message.group = text(at);
        } else if is("REPLYTO") {
            common.message.reply_to = text(at);
        } else if is("PRIORITY") {
            let wrong = Failure::text("ERR PRIORITY is a number from 0, the most urgent, to 4294967295");
            common.message.priority = u32::try_from(words.integer(at + 1)?).map_err(|_| wrong)?;
        } else if is("DELAY") {
            common.message.delay_ms = Some(millis(words, at + 1, "DELAY")?);
        } else if is("EXPIRE") {
            common.message.expire_ms = Some(millis(words, at + 1, "EXPIRE")?);
        } else if is("BLOCK") {
            common.block_ms = Some(millis(words, at + 1, "BLOCK")?);
        } else if is("HEADER") && words.len() > at + 2 {
            common.headers.push((words.at(at + 1), words.at(at + 2)));
            at += 1;
        } else {
            return Err(unknown(words, at));
        }
        at += 2;
    }
    let common = &*common;
    let base = NewMessage { headers: &common.headers, ..common.message };
    let bodies = words.from(at + 1);
    let messages: Vec<_> = if words.is(at, "BODY") {
        bodies.iter().map(|body| NewMessage { body, ..base }).collect()
    } else if words.is(at, "IDBODY") && bodies.len().is_multiple_of(2) {
        if base.id.is_some() {
            return Err(Failure::text("ERR ID is of one message: with IDBODY, each has its own"));
        }
        bodies
            .chunks_exact(2)
            .map(|pair| NewMessage {
                id: pair.first().copied(),
                body: pair.last().copied().unwrap_or_default(),
                ..base
            })
            .collect()
    } else {
        return Err(Failure::text(
            "ERR QUEUE PUSH ends with BODY and bodies, or with IDBODY and an id and a body each",
        ));
    };
    if base.id.is_some() && messages.len() > 1 {
        return Err(Failure::text("ERR ID is of one message: IDBODY gives each message its own"));
    }
    Ok(Batch { messages, is_short: false, block_ms: common.block_ms })
}

/// Whether the messages are within what is set. What the log has was.
fn check(context: &Context<'_>, batch: &Batch<'_>) -> Result<(), Failure> {
    if batch.messages.len() > BATCH_MAX && !super::is_log(context) {
        let text = format!("ERR there are {} messages, and at most {BATCH_MAX} at once", batch.messages.len());
        return Err(Failure::owned(text));
    }
    let len_max = context.shared.settings.queue_message_max.0;
    for message in &batch.messages {
        message.check().map_err(|unfit| Failure::owned(format!("ERR {unfit}")))?;
        if message.body.len() as u64 > len_max && !super::is_log(context) {
            let len = message.body.len();
            return Err(Failure::owned(format!(
                "ERR a body has {len} bytes, and at most {len_max} (queue-message-max)"
            )));
        }
    }
    Ok(())
}

/// Has the connection wait for as many replicas as the queue wants, from now on.
fn promise(context: &mut Context<'_>, begun: Begun<'_>) -> Result<(), Failure> {
    let queue = context.keys.look::<Queue>(begun.key)?;
    let Some(Durability::Replicas(count)) = queue.map(|queue| queue.header().settings.durability) else {
        return Ok(());
    };
    if super::is_log(context) {
        return Ok(());
    }
    context.shared.promise_at_least(context.session, count as usize).map_or(Ok(()), Err)
}

fn reply(context: &mut Context<'_>, batch: &Batch<'_>, published: &[Published]) {
    if !batch.is_short {
        context.reply.array(published.len());
    }
    published.iter().for_each(|published| context.reply.bulk(published.id.to_string().as_bytes()));
}

/// A body alone might be taken for an option where there is a time before it.
fn log_short(context: &mut Context<'_>, begun: Begun<'_>) {
    let mut encoded = head(b"PUSH", &[begun.key], begun.now, 2);
    encoded.word(b"BODY");
    encoded.received_word(context.session.sent.as_ref(), begun.from, context.words.at(begun.from));
    context.keys.changes.propagate_encoded(encoded);
}

/// All words, with the time.
fn log_batch(context: &mut Context<'_>, begun: Begun<'_>) {
    let len = context.words.len();
    super::log(context, &[begun.key], begun, begun.from..len);
}

/// There is no room: the publisher waits, or is told when to try again.
fn refuse(
    context: &mut Context<'_>,
    begun: Begun<'_>,
    (settings, full, batch): (Settings, Full, Batch<'_>),
) -> Result<(), Failure> {
    let text = if full.may_fit {
        format!(
            "QUEUEFULL The queue has no room for {} more (MAXLEN {}, MAXBYTES {}): retry in {} ms",
            batch.messages.len(),
            settings.messages_max,
            settings.bytes_max,
            full.retry_in_ms
        )
    } else {
        format!(
            "QUEUEFULL The queue never has room for so much at once (MAXLEN {}, MAXBYTES {})",
            settings.messages_max, settings.bytes_max
        )
    };
    if settings.overflow != Overflow::Block || !full.may_fit || context.session.deny_blocking || super::is_log(context)
    {
        return Err(Failure::owned(text));
    }
    let mut on_timeout = Vec::new();
    Reply::new(&mut on_timeout, context.session.protocol).error(&text);
    let wait_ms = i64::try_from(batch.block_ms.unwrap_or(BLOCK_MS)).unwrap_or(i64::MAX);
    let deadline = (wait_ms > 0).then(|| begun.now.saturating_add(wait_ms));
    context.session.block(context.words.0, vec![Bytes::from_slice(begun.key)], deadline, on_timeout);
    Ok(())
}
