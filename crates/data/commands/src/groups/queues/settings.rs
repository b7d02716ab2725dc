//! QUEUE CREATE and QUEUE CONFIGURE.

use keyspace::{
    Failure,
    value::{Queue, queue::time},
};
use queue::{Durability, Header, Overflow, Settings};

use crate::{Context, config::Fsync, words::Words};

use super::{
    begin, changed, is_log,
    options::{millis, unknown},
    queue, queue_mut,
};

/// The words of both.
pub(super) const SYNTAX: &str = "key#0 [MAXLEN/messages:integer] [MAXBYTES/bytes:integer] [OVERFLOW/overflow] [MAXDEAD/dead:integer] [ATTEMPTS/attempts:integer] [TIMEOUT/timeout:integer] [DELAY/delay:integer] [EXPIRE/expire:integer] [WINDOW/window:integer] [DURABILITY/durability]";

fn number(words: Words<'_>, place: usize, name: &str) -> Result<u64, Failure> {
    let wrong = || Failure::owned(format!("ERR {name} is a number from 0, which stands for no bound"));
    words.integer(place).ok().and_then(|number| u64::try_from(number).ok()).ok_or_else(wrong)
}

/// The names of what becomes of too many messages.
pub(super) fn overflow_name(overflow: Overflow) -> &'static str {
    match overflow {
        Overflow::Reject => "reject",
        Overflow::DropOldest => "drop-oldest",
        Overflow::Block => "block",
    }
}

/// How safe messages are, as one sets it.
pub(super) fn durability_text(durability: Durability) -> String {
    match durability {
        Durability::Store => "written".to_owned(),
        Durability::Synced => "synced".to_owned(),
        Durability::Replicas(count) => format!("replicas:{count}"),
    }
}

fn durability(context: &Context<'_>, word: &[u8]) -> Result<Durability, Failure> {
    let replicas = || {
        let count = word.to_ascii_lowercase();
        let count = count.strip_prefix(b"replicas:").and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        count.filter(|count| *count > 0)
    };
    if word.eq_ignore_ascii_case(b"written") {
        Ok(Durability::Store)
    } else if word.eq_ignore_ascii_case(b"synced") {
        if context.shared.settings.appendfsync == Fsync::Always || is_log(context) {
            return Ok(Durability::Synced);
        }
        Err(Failure::text(
            "ERR DURABILITY synced needs a store with `appendfsync always`: it is set for all keys of a store, not for one queue",
        ))
    } else if let Some(count) = replicas() {
        Ok(Durability::Replicas(count))
    } else if word.eq_ignore_ascii_case(b"none") {
        Err(Failure::text("ERR DURABILITY none is not there: a store answers no write before its log has it"))
    } else {
        Err(Failure::text("ERR DURABILITY is one of written, synced, replicas:COUNT"))
    }
}

/// Reads settings from a word on.
fn read(context: &Context<'_>, from: usize, mut settings: Settings) -> Result<Settings, Failure> {
    let words = context.words;
    let mut at = from;
    while at < words.len() {
        let is = |name: &str| words.is(at, name) && words.len() > at + 1;
        let next = at + 1;
        if is("MAXLEN") {
            settings.messages_max = number(words, next, "MAXLEN")?;
        } else if is("MAXBYTES") {
            settings.bytes_max = number(words, next, "MAXBYTES")?;
        } else if is("MAXDEAD") {
            settings.dead_max = number(words, next, "MAXDEAD")?;
        } else if is("ATTEMPTS") {
            let wrong = Failure::text("ERR ATTEMPTS is a number of deliveries; 0 stands for no bound");
            settings.attempts_max = u32::try_from(number(words, next, "ATTEMPTS")?).map_err(|_| wrong)?;
        } else if is("TIMEOUT") {
            settings.timeout_ms = millis(words, next, "TIMEOUT")?;
        } else if is("DELAY") {
            settings.delay_ms = millis(words, next, "DELAY")?;
        } else if is("EXPIRE") {
            settings.expire_ms = millis(words, next, "EXPIRE")?;
        } else if is("WINDOW") {
            settings.window_ms = millis(words, next, "WINDOW")?;
        } else if is("OVERFLOW") {
            settings.overflow = [Overflow::Reject, Overflow::DropOldest, Overflow::Block]
                .into_iter()
                .find(|overflow| words.is(next, overflow_name(*overflow)))
                .ok_or(Failure::text("ERR OVERFLOW is one of reject, drop-oldest, block"))?;
        } else if is("DURABILITY") {
            settings.durability = durability(context, words.at(next))?;
        } else {
            return Err(unknown(words, at));
        }
        at += 2;
    }
    Ok(settings)
}

pub(super) fn create(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let settings = read(context, begun.from, Settings::default())?;
    if context.keys.look::<Queue>(begun.key)?.is_some() {
        return Err(Failure::text("BUSYKEY The queue is there already: QUEUE CONFIGURE changes its settings"));
    }
    context.keys.get_or_insert(begun.key, |_| Queue::new(Header::new(time(begun.now), settings)))?;
    changed(context, begun, "qcreate");
    context.reply.ok();
    Ok(())
}

pub(super) fn configure(context: &mut Context<'_>) -> Result<(), Failure> {
    let begun = begin(context)?;
    let settings = queue(context, begun.key)?.header().settings;
    let settings = read(context, begun.from, settings)?;
    queue_mut(context, begun.key)?.at(begun.now).configure(settings);
    changed(context, begun, "qconfigure");
    context.reply.ok();
    Ok(())
}
