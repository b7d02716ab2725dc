//! QUEUE PEEK and QUEUE STAT: what only looks.

use keyspace::{Failure, value::queue::time};
use queue::{Header, Look};
use resp::Reply;

use crate::Context;

use super::{
    begin,
    options::{BATCH, choice},
    queue,
    settings::{durability_text, overflow_name},
    show,
};

pub(super) fn peek(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let choice = choice(context, begun.from, &["STATE", "COUNT", "FROM", "IDS"])?;
    let look = choice.state.unwrap_or(Look::Ready);
    if choice.from.is_some() && !matches!(look, Look::Dead | Look::All) {
        return Err(Failure::text("ERR FROM goes with STATE dead and STATE all, which are in the order of ids"));
    }
    let bytes_max = context.shared.settings.queue_message_max.0.max(1);
    let queue = queue(context, begun.key)?;
    let seen = queue.look(begun.now, |queue| {
        let ids = if choice.ids.is_empty() {
            queue.ids_of(look, choice.from, choice.count.unwrap_or(BATCH))
        } else {
            choice.ids
        };
        let mut left = Some(bytes_max);
        // A reply is not longer than any may be: the first one is always in it.
        let within = ids.into_iter().filter_map(|id| queue.look(id)).take_while(|seen| {
            let fits = left.is_some();
            left = left.and_then(|left| left.checked_sub(seen.state.size));
            fits
        });
        within.collect::<Vec<_>>()
    });
    context.reply.array(seen.len());
    seen.iter().try_for_each(|one| show::seen(&mut context.reply, one))
}

/// A map that is being written.
struct Figures<'a, 'b> {
    reply: &'a mut Reply<'b>,
    len: usize,
}

impl Figures<'_, '_> {
    fn number(&mut self, name: &str, number: u64) {
        self.reply.bulk(name.as_bytes());
        self.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        self.len += 1;
    }

    fn text(&mut self, name: &str, text: &[u8]) {
        self.reply.bulk(name.as_bytes());
        self.reply.bulk(text);
        self.len += 1;
    }

    /// A rate of so many in a thousand seconds, as so many in a second.
    fn rate(&mut self, name: &str, per_1000_s: u64) {
        self.reply.bulk(name.as_bytes());
        self.reply.double(per_1000_s as f64 / 1000.0);
        self.len += 1;
    }
}

pub(super) fn stat(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let now = time(begun.now);
    let queue = queue(context, begun.key)?;
    let figures = queue.look(begun.now, |queue| queue.figures());
    let header = queue.header().clone();
    let map = context.reply.defer();
    let mut out = Figures { reply: &mut context.reply, len: 0 };
    for (name, count) in [
        ("ready", figures.ready),
        ("delayed", figures.delayed),
        ("reserved", figures.reserved),
        ("behind", figures.behind),
        ("dead", figures.dead),
        ("bytes", header.counts.bytes),
        ("dead-bytes", header.counts.dead_bytes),
        ("oldest-ms", figures.oldest_ms.unwrap_or(0)),
        ("created", header.created),
    ] {
        out.number(name, count);
    }
    for (name, count) in header.statistics.totals.named() {
        out.number(&name.replace('_', "-"), count);
    }
    let (came, went) = header.statistics.rates.per_1000_s(now);
    out.rate("rate-in", came);
    out.rate("rate-out", went);
    of_settings(&mut out, &header, now);
    of_others(&mut out, &header);
    let len = out.len;
    context.reply.finish_map(map, len);
    Ok(())
}

fn of_settings(out: &mut Figures<'_, '_>, header: &Header, now: u64) {
    let paused_ms = if header.paused_until == u64::MAX { u64::MAX } else { header.paused_until.saturating_sub(now) };
    out.number("paused-ms", paused_ms);
    let settings = &header.settings;
    for (name, number) in [
        ("maxlen", settings.messages_max),
        ("maxbytes", settings.bytes_max),
        ("maxdead", settings.dead_max),
        ("attempts", u64::from(settings.attempts_max)),
        ("timeout", settings.timeout_ms),
        ("delay", settings.delay_ms),
        ("expire", settings.expire_ms),
        ("window", settings.window_ms),
    ] {
        out.number(name, number);
    }
    out.text("overflow", overflow_name(settings.overflow).as_bytes());
    out.text("durability", durability_text(settings.durability).as_bytes());
}

fn of_others(out: &mut Figures<'_, '_>, header: &Header) {
    let waits: Vec<_> = header.statistics.waits.each().collect();
    out.reply.bulk(b"waits");
    out.reply.map(waits.len());
    for (below_ms, count) in waits {
        out.reply.bulk_integer(i64::try_from(below_ms).unwrap_or(i64::MAX));
        out.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let reasons = header.statistics.reasons();
    out.reply.bulk(b"reasons");
    out.reply.map(reasons.len());
    for (reason, count) in reasons {
        out.reply.bulk(if reason.is_empty() { b"others" } else { reason });
        out.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let consumers = header.statistics.consumers();
    out.reply.bulk(b"consumers");
    out.reply.array(consumers.len());
    for (name, consumer) in consumers {
        let map = out.reply.defer();
        let mut one = Figures { reply: &mut *out.reply, len: 0 };
        one.text("name", name);
        one.number("seen", consumer.seen);
        one.number("delivered", consumer.delivered);
        one.number("deleted", consumer.deleted);
        let len = one.len;
        out.reply.finish_map(map, len);
    }
    out.len += 3;
}
