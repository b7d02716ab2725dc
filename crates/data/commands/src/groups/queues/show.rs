//! Messages in replies.

use keyspace::Failure;
use queue::{Delivery, Message, Place, Seen, State};
use resp::Reply;

fn damaged(reason: queue::Malformed) -> Failure {
    Failure::owned(format!("ERR {reason}"))
}

fn number(reply: &mut Reply<'_>, name: &str, number: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn text(reply: &mut Reply<'_>, name: &str, text: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(text);
}

/// A message that was reserved.
pub(super) fn delivery(reply: &mut Reply<'_>, one: &Delivery) -> Result<(), Failure> {
    let message = Message::decode(&one.record).map_err(damaged)?;
    let map = reply.defer();
    text(reply, "id", one.receipt.id.to_string().as_bytes());
    text(reply, "receipt", one.receipt.to_string().as_bytes());
    text(reply, "body", message.body);
    let mut len = 3;
    len += of_state(reply, &one.state);
    if let Place::Reserved { until } = one.state.place {
        number(reply, "until", until);
        len += 1;
    }
    len += of_message(reply, &message);
    reply.finish_map(map, len);
    Ok(())
}

/// A message that was looked at.
pub(super) fn seen(reply: &mut Reply<'_>, one: &Seen) -> Result<(), Failure> {
    let message = Message::decode(&one.record).map_err(damaged)?;
    let map = reply.defer();
    text(reply, "id", one.id.to_string().as_bytes());
    text(reply, "body", message.body);
    let (state, at) = match one.state.place {
        Place::Ready => ("ready", None),
        Place::Delayed { due } => ("delayed", Some(("due", due))),
        Place::Reserved { until } => ("reserved", Some(("until", until))),
        Place::Dead { since } => ("dead", Some(("since", since))),
    };
    text(reply, "state", state.as_bytes());
    let mut len = 3;
    if let Some((name, at)) = at {
        number(reply, name, at);
        len += 1;
    }
    len += of_state(reply, &one.state);
    for (name, value) in [("consumer", &one.state.consumer), ("reason", &one.state.reason)] {
        if !value.is_empty() {
            text(reply, name, value);
            len += 1;
        }
    }
    if one.state.last > 0 {
        number(reply, "last-reserved", one.state.last);
        len += 1;
    }
    len += of_message(reply, &message);
    reply.finish_map(map, len);
    Ok(())
}

/// What has changed of a message. Returns how many pairs it is.
fn of_state(reply: &mut Reply<'_>, state: &State) -> usize {
    number(reply, "attempts", u64::from(state.attempts));
    if state.first == 0 {
        return 1;
    }
    number(reply, "first-reserved", state.first);
    2
}

/// What never changes of a message, but for its body.
fn of_message(reply: &mut Reply<'_>, message: &Message<'_>) -> usize {
    number(reply, "published", message.published);
    number(reply, "priority", u64::from(message.priority));
    let mut len = 2;
    if message.expires > 0 {
        number(reply, "expires", message.expires);
        len += 1;
    }
    for (name, value) in [("group", message.group), ("deduplication-id", message.id), ("reply-to", message.reply_to)] {
        if let Some(value) = value {
            text(reply, name, value);
            len += 1;
        }
    }
    if !message.headers.is_empty() {
        reply.bulk(b"headers");
        reply.map(message.headers.len());
        for (name, value) in &message.headers {
            reply.bulk(name);
            reply.bulk(value);
        }
        len += 1;
    }
    len
}
