//! Commands that change a part of a string.

use keyspace::{Bytes, Failure, changes::EventClass};

use crate::Context;

use super::{check_length, grow};

pub(super) fn append(context: &mut Context<'_>) -> Result<(), Failure> {
    let (key, added) = (context.words.at(1), context.words.at(2));
    let len = match context.keys.look::<Bytes>(key)? {
        Some(value) => value.len(),
        None => {
            context.keys.set(key, keyspace::Value::String(Bytes::from_slice(added)), keyspace::Expiry::Clear)?;
            return changed(context, key, "append", added.len());
        }
    };
    check_length(context, len as u64 + added.len() as u64)?;
    if let Some(value) = context.keys.get_mut::<Bytes>(key)? {
        value.extend_from_slice(added);
        grow(value, len);
    }
    changed(context, key, "append", len + added.len())
}

pub(super) fn set_range(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let offset = context.words.integer(2)?;
    let offset = u64::try_from(offset).map_err(|_| Failure::text("ERR offset is out of range"))?;
    let written = context.words.at(3);
    let len = context.keys.look::<Bytes>(key)?.map_or(0, |value| value.len());
    if written.is_empty() {
        context.reply.count(len);
        return Ok(());
    }
    let end = offset + written.len() as u64;
    check_length(context, end)?;
    let (start, end) = (offset as usize, end as usize);
    let value = context.keys.get_or_insert::<Bytes>(key, |_| Bytes::new())?;
    grow(value, end);
    if let Some(part) = value.get_mut(start..end) {
        part.copy_from_slice(written);
    }
    changed(context, key, "setrange", len.max(end))
}

fn changed(context: &mut Context<'_>, key: &[u8], event: &'static str, len: usize) -> Result<(), Failure> {
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, event, key);
    context.reply.count(len);
    Ok(())
}
