//! The keys of slots.

use keyspace::{Failure, Walked, slot};

use crate::{
    Context,
    cluster::{Peer, Redirect, SLOTS, SlotRange},
};

use super::DISABLED;

/// Keys that are looked at together.
const STEP: usize = 256;

pub(super) const NO_SLOT: Failure = Failure::text("ERR Invalid or out of range slot");

pub(super) fn slot(context: &Context<'_>, place: usize) -> Result<u16, Failure> {
    let number = context.words.integer(place)?;
    let slot = u16::try_from(number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    slot.ok_or(NO_SLOT)
}

/// First and last slot, out of two words.
pub(super) fn range(context: &Context<'_>, place: usize) -> Result<SlotRange, Failure> {
    let (first, last) = (slot(context, place)?, slot(context, place + 1)?);
    if first > last {
        return Err(Failure::text("ERR the first slot is greater than the last one"));
    }
    Ok((first, last))
}

/// Goes through the keys of slots, in memory or not, until `each` wants no more.
fn walk(context: &mut Context<'_>, slots: SlotRange, mut each: impl FnMut(Walked) -> bool) -> Result<(), Failure> {
    let now = context.now();
    let mut cursor = slot::cursor(usize::from(slots.0));
    loop {
        let mut found = Vec::new();
        cursor = context.keys.walk(cursor, STEP, &mut found)?;
        let is_there = |walked: &Walked| walked.expire_at > now && slot::cluster_slot(&walked.key) <= slots.1;
        let goes_on = found.into_iter().filter(is_there).all(&mut each);
        if !goes_on || cursor == 0 || slot::of_cursor(cursor) > usize::from(slots.1) {
            return Ok(());
        }
    }
}

pub(super) fn count(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let slot = slot(context, 2)?;
    let mut count = 0;
    walk(context, (slot, slot), |_| {
        count += 1;
        true
    })?;
    context.reply.integer(count);
    Ok(())
}

/// Keys of a slot whose size is looked at: that of the others is reckoned from them.
const MEASURED: u64 = 32;
/// Elements of a value that are.
const SAMPLES: usize = 5;

/// What a slot has.
#[derive(Default)]
struct Content {
    keys: u64,
    measured: u64,
    bytes: u64,
}

pub(super) fn statistics(context: &mut Context<'_>) -> Result<(), Failure> {
    if !context.words.is(2, "SLOTSRANGE") {
        return Err(Failure::Syntax);
    }
    let (first, last) = range(context, 3)?;
    let is_load_alone = match context.words.len() {
        5 => false,
        7 if context.words.is(5, "METRIC") && context.words.is(6, "CPU-USEC") => true,
        _ => return Err(Failure::Syntax),
    };
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let own: Vec<u16> = (first..=last).filter(|slot| membership.owns(*slot)).collect();
    let loads: Vec<u64> =
        own.iter().map(|slot| membership.load.get(usize::from(*slot)).copied().unwrap_or(0)).collect();
    let mut contents: Vec<Content> = own.iter().map(|_| Content::default()).collect();
    if !is_load_alone && !own.is_empty() {
        let mut measured: Vec<(usize, keyspace::Bytes)> = Vec::new();
        walk(context, (first, last), |walked| {
            if let Ok(place) = own.binary_search(&slot::cluster_slot(&walked.key))
                && let Some(content) = contents.get_mut(place)
            {
                content.keys += 1;
                if content.keys <= MEASURED {
                    measured.push((place, walked.key));
                }
            }
            true
        })?;
        for (place, key) in measured {
            let bytes = context.keys.peek(&key)?.map_or(0, |entry| entry.footprint(SAMPLES));
            if let Some(content) = contents.get_mut(place) {
                (content.measured, content.bytes) = (content.measured + 1, content.bytes + bytes as u64);
            }
        }
    }
    context.reply.array(own.len());
    for ((slot, load), content) in own.iter().zip(loads).zip(contents) {
        context.reply.array(2);
        context.reply.integer(i64::from(*slot));
        context.reply.map(if is_load_alone { 1 } else { 3 });
        if !is_load_alone {
            let bytes =
                (u128::from(content.bytes) * u128::from(content.keys) / u128::from(content.measured.max(1))) as u64;
            context.reply.bulk(b"key-count");
            context.reply.integer(content.keys as i64);
            context.reply.bulk(b"memory-bytes");
            context.reply.integer(bytes as i64);
        }
        context.reply.bulk(b"cpu-usec");
        context.reply.integer(load as i64);
    }
    Ok(())
}

pub(super) fn keys(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let slot = slot(context, 2)?;
    let wanted = usize::try_from(context.words.integer(3)?);
    let wanted = wanted.map_err(|_| Failure::text("ERR Invalid slot or number of keys"))?;
    let found = some(context, (slot, slot), wanted)?;
    context.reply.array(found.len());
    found.iter().for_each(|walked| context.reply.bulk(&walked.key));
    Ok(())
}

fn some(context: &mut Context<'_>, slots: SlotRange, wanted: usize) -> Result<Vec<Walked>, Failure> {
    let mut found = Vec::new();
    if wanted > 0 {
        walk(context, slots, |walked| {
            found.push(walked);
            found.len() < wanted
        })?;
    }
    Ok(found)
}

/// Keys that are removed at once.
const DELETED_MAX: usize = 1000;

pub(super) fn delete(context: &mut Context<'_>) -> Result<(), Failure> {
    let slots = range(context, 2)?;
    let wanted = usize::try_from(context.words.integer(4)?).map_err(|_| Failure::NotInteger)?;
    let peer = context.session.standing.peer;
    let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
    match peer {
        Peer::Mover { pass } => {
            if let Some(slot) = (slots.0..=slots.1).find(|slot| !membership.may_fill(*slot, pass)) {
                return Err(Redirect::Fenced { slot }.failure());
            }
        }
        // Whoever removes what is there wants nothing more to come.
        _ => membership.end_movers(slots),
    }
    if let Some(slot) = (slots.0..=slots.1).find(|slot| membership.owns(*slot)) {
        return Err(Failure::owned(format!(
            "ERR slot {slot} is this node's own: its keys are removed by no more than DEL"
        )));
    }
    let found = some(context, slots, wanted.min(DELETED_MAX))?;
    let mut words: Vec<keyspace::Bytes> = vec![keyspace::Bytes::from_slice(b"DEL")];
    for walked in found {
        if context.keys.remove(&walked.key)? {
            context.keys.modified(&walked.key);
            words.push(walked.key);
        }
    }
    context.reply.integer(words.len() as i64 - 1);
    let effects = if words.len() > 1 { vec![words] } else { Vec::new() };
    context.keys.changes.propagate_instead(effects);
    Ok(())
}
