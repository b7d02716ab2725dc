//! What a person does with a queue: PURGE, PAUSE, RESUME, MOVE, REMOVE, REDRIVE, TIDY.

use keyspace::{
    Failure,
    value::{Queue, queue::time},
};
use queue::{Filter, Header, Look, Message, MessageId, Settings};

use crate::Context;

use super::{
    NO_QUEUE, begin, begin_behind, changed, is_log,
    options::{BATCH_MAX, Choice, choice, id, millis, unknown},
    queue_mut,
};

pub(super) fn pause(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words;
    let until = match words.len() - begun.from {
        0 => u64::MAX,
        1 => time(begun.now).saturating_add(millis(words, begun.from, "a pause")?),
        _ => return Err(unknown(words, begun.from + 1)),
    };
    queue_mut(context, begun.key)?.at(begun.now).pause(until);
    changed(context, begun, "qpause");
    context.reply.ok();
    Ok(())
}

pub(super) fn resume(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    queue_mut(context, begun.key)?.at(begun.now).pause(0);
    changed(context, begun, "qresume");
    context.reply.ok();
    Ok(())
}

pub(super) fn tidy(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let queue = queue_mut(context, begun.key)?;
    let steps = queue.at(begun.now).come_due();
    if steps > 0 {
        changed(context, begun, "qtidy");
    }
    context.reply.count(steps);
    Ok(())
}

pub(super) fn purge(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let choice = choice(context, begun.from, &["STATE", "COUNT"])?;
    if choice.state.is_none() && choice.count.is_some() {
        return Err(Failure::text("ERR COUNT goes with STATE: without them, QUEUE PURGE removes all messages at once"));
    }
    let queue = queue_mut(context, begun.key)?;
    let count = match choice.state {
        Some(look) => queue.at(begun.now).purge(look, choice.count.unwrap_or(BATCH_MAX)),
        None => queue.purge(begun.now),
    };
    if count > 0 || choice.state.is_none() {
        changed(context, begun, "qpurge");
    }
    context.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) fn remove(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let words = context.words.from(begun.from);
    if words.is_empty() || words.len() > BATCH_MAX && !is_log(context) {
        return Err(Failure::owned(format!("ERR QUEUE REMOVE takes from 1 to {BATCH_MAX} ids")));
    }
    let ids = words.iter().map(|word| id(word)).collect::<Result<Vec<_>, _>>()?;
    let queue = queue_mut(context, begun.key)?;
    let mut at = queue.at(begun.now);
    let count = ids.into_iter().filter(|id| at.remove(*id)).count();
    if count > 0 {
        changed(context, begun, "qremove");
    }
    context.reply.count(count);
    Ok(())
}

pub(super) fn redrive(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let choice = choice(context, begun.from, &["REASON", "COUNT", "FROM", "IDS"])?;
    let reason = choice.reason.map(|place| context.words.at(place));
    let queue = queue_mut(context, begun.key)?;
    let mut at = queue.at(begun.now);
    let (count, next) = if choice.ids.is_empty() {
        let from = choice.from.unwrap_or(MessageId(0));
        let redriven = at.redrive(&Filter { reason, from, count: choice.count.unwrap_or(BATCH_MAX) });
        (redriven.count, redriven.next)
    } else {
        (choice.ids.iter().filter(|id| at.redrive_one(**id)).count() as u64, None)
    };
    if count > 0 {
        changed(context, begun, "qredrive");
    }
    context.reply.array(2);
    context.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    context.reply.bulk_or_null(next.map(|next| next.to_string().into_bytes()).as_deref());
    Ok(())
}

pub(super) fn move_messages(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin_behind(context, 4)?;
    let (words, to) = (context.words, context.words.at(3));
    if to == begun.key {
        return Err(Failure::text("ERR source and destination are the same queue"));
    }
    let Choice { ids, state, count, .. } = choice(context, begun.from, &["STATE", "COUNT", "IDS"])?;
    // Whatever the destination is, it is known before anything has changed.
    context.keys.look::<Queue>(to)?;
    let bytes_max = context.shared.settings.queue_message_max.0;
    let from = context.keys.look::<Queue>(begun.key)?.ok_or(NO_QUEUE)?;
    let found = from.look(begun.now, |queue| {
        let ids = if ids.is_empty() {
            queue.ids_of(state.unwrap_or(Look::Ready), None, count.unwrap_or(BATCH_MAX))
        } else {
            ids
        };
        queue.find_to_move(&ids, bytes_max)
    });
    if found.is_empty() {
        context.reply.integer(0);
        return Ok(());
    }
    let (len, bytes) = (found.len() as u64, found.iter().map(|one| one.state.size).sum());
    let there = context.keys.get_or_insert(to, |_| Queue::new(Header::new(time(begun.now), Settings::default())))?;
    if !there.header().has_room(len, bytes) {
        return Err(Failure::text(
            "QUEUEFULL The destination has no room: move fewer messages (COUNT), or raise its MAXLEN and MAXBYTES",
        ));
    }
    let mut there = there.at(begun.now);
    for one in &found {
        let message = Message::decode(&one.record).map_err(|reason| Failure::owned(format!("ERR {reason}")))?;
        there.take_in(&message);
    }
    let mut here = queue_mut(context, begun.key)?.at(begun.now);
    let removed = found.iter().filter(|one| here.remove(one.receipt.id)).count();
    super::log(context, &[begun.key, to], begun, begun.from..words.len());
    super::note(context, begun, "qmove");
    context.keys.touched(to);
    context.keys.notify(keyspace::changes::EventClass::QUEUE, "qmove", to);
    context.reply.count(removed);
    Ok(())
}
