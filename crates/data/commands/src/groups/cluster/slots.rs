//! The keys of slots.

use keyspace::{Failure, Walked, slot};

use crate::{
    Context,
    cluster::{SLOTS, SlotRange},
};

use super::DISABLED;

/// Keys that are looked at together.
const STEP: usize = 256;

pub(super) fn slot(context: &Context<'_>, place: usize) -> Result<u16, Failure> {
    let number = context.words.integer(place)?;
    let slot = u16::try_from(number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    slot.ok_or(Failure::text("ERR Invalid or out of range slot"))
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
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
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
