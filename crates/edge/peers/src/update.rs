//! Updates: an entry with all its values.

use std::sync::Arc;

use stick::{DataType, Definition, KeyType, Kind, Layout, StoredValue, Update};

use crate::{
    cache::{CachedWord, ReceiveCache, SendCache},
    message,
    table::RemoteTable,
    varint::{self, Reader},
};

/// How an update is numbered and timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The number follows from the one before.
    pub(crate) incremental: bool,
    /// The time that is left to the entry is told.
    pub(crate) timed: bool,
}

impl Form {
    pub(crate) const fn of(kind: u8) -> Option<Self> {
        match kind {
            message::UPDATE => Some(Self { incremental: false, timed: false }),
            message::UPDATE_INCREMENTAL => Some(Self { incremental: true, timed: false }),
            message::UPDATE_TIMED => Some(Self { incremental: false, timed: true }),
            message::UPDATE_INCREMENTAL_TIMED => Some(Self { incremental: true, timed: true }),
            _ => None,
        }
    }

    const fn kind(self) -> u8 {
        match (self.incremental, self.timed) {
            (false, false) => message::UPDATE,
            (true, false) => message::UPDATE_INCREMENTAL,
            (false, true) => message::UPDATE_TIMED,
            (true, true) => message::UPDATE_INCREMENTAL_TIMED,
        }
    }
}

/// Appends the message of an update unless it would be longer than `len_max`; whether it was.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    definition: &Definition,
    update: &Update,
    form: Form,
    cache: &mut SendCache,
    len_max: usize,
) -> bool {
    let mut payload = Vec::with_capacity(64);
    if !form.incremental {
        payload.extend_from_slice(&(update.id as u32).to_be_bytes());
    }
    if form.timed {
        payload.extend_from_slice(&u32::try_from(update.remaining_ms).unwrap_or(u32::MAX).to_be_bytes());
    }
    match (definition.key, &*update.key) {
        (KeyType::String, key) => {
            varint::put(&mut payload, key.len() as u64);
            payload.extend_from_slice(key);
        }
        // In network order, where the table has that of the machine.
        (KeyType::Integer, [a, b, c, d]) => {
            payload.extend_from_slice(&u32::from_ne_bytes([*a, *b, *c, *d]).to_be_bytes());
        }
        (_, key) => payload.extend_from_slice(key),
    }
    let mut new_word = None;
    for (_, _, value) in &update.values {
        match value {
            // Negative ones are as long as they get.
            StoredValue::Signed(value) => varint::put(&mut payload, i64::from(*value).cast_unsigned()),
            StoredValue::Unsigned(value) => varint::put(&mut payload, u64::from(*value)),
            StoredValue::Long(value) => varint::put(&mut payload, *value),
            StoredValue::Rate { elapsed_ms, current, previous } => {
                for part in [elapsed_ms, current, previous] {
                    varint::put(&mut payload, u64::from(*part));
                }
            }
            StoredValue::Word(None) => varint::put(&mut payload, 0),
            StoredValue::Word(Some(word)) => {
                if let CachedWord::New(_) = put_word(&mut payload, word, cache) {
                    new_word = Some(word);
                }
            }
        }
    }
    if payload.len() > len_max {
        if let Some(word) = new_word {
            cache.forget(word);
        }
        return false;
    }
    message::put(out, form.kind(), &payload);
    true
}

fn put_word(payload: &mut Vec<u8>, word: &Arc<str>, cache: &mut SendCache) -> CachedWord {
    let sent = cache.send(word);
    let mut inner = Vec::with_capacity(word.len() + 4);
    match sent {
        CachedWord::Known(number) => varint::put(&mut inner, number as u64),
        CachedWord::New(number) => {
            varint::put(&mut inner, number as u64);
            varint::put(&mut inner, word.len() as u64);
            inner.extend_from_slice(word.as_bytes());
        }
    }
    varint::put(payload, inner.len() as u64);
    payload.extend_from_slice(&inner);
    sent
}

/// What an update says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Its number, unless it follows from the one before.
    pub id: Option<u32>,
    /// The time that is left to the entry, in milliseconds.
    pub remaining_ms: Option<u32>,
    /// The key, as tables here have it.
    pub key: Vec<u8>,
    /// The values that `layout` has.
    pub values: Vec<(DataType, u32, StoredValue)>,
}

/// Reads the payload of an update of a peer's table. Of its values those are taken that `layout` has and that may be
/// learned; all are read, as words have to be remembered. `None` when it makes no sense.
#[must_use]
pub fn decode(
    kind: u8,
    payload: &[u8],
    table: &RemoteTable,
    layout: &Layout,
    cache: &mut ReceiveCache,
) -> Option<Decoded> {
    let form = Form::of(kind)?;
    let mut reader = Reader::new(payload);
    let id = if form.incremental { None } else { Some(reader.word()?) };
    let remaining_ms = if form.timed { Some(reader.word()?) } else { None };
    let key = match table.key? {
        KeyType::String => {
            let len = reader.integer()?;
            let key = reader.bytes(len)?;
            let len_max = usize::try_from(table.key_len).ok()?.saturating_sub(1);
            let key = key.get(..len_max).unwrap_or(key);
            let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
            key.get(..end)?.to_vec()
        }
        KeyType::Integer => reader.word()?.to_ne_bytes().to_vec(),
        _ => reader.bytes(table.key_len)?.to_vec(),
    };
    let mut values = Vec::new();
    for data in table.types() {
        for index in 0..table.elements(data) {
            let value = read_value(&mut reader, data, cache)?;
            if !data.is_local() && index < u64::from(layout.len(data)) {
                values.push((data, index as u32, value));
            }
        }
    }
    Some(Decoded { id, remaining_ms, key, values })
}

fn read_value(reader: &mut Reader<'_>, data: DataType, cache: &mut ReceiveCache) -> Option<StoredValue> {
    let first = reader.integer()?;
    Some(match data.kind() {
        Kind::Signed => StoredValue::Signed(first as i32),
        Kind::Unsigned => StoredValue::Unsigned(first as u32),
        Kind::Long => StoredValue::Long(first),
        Kind::Rate => StoredValue::Rate {
            elapsed_ms: first as u32,
            current: reader.integer()? as u32,
            previous: reader.integer()? as u32,
        },
        Kind::Word => StoredValue::Word(if first == 0 { None } else { read_word(reader.bytes(first)?, cache)? }),
    })
}

fn read_word(bytes: &[u8], cache: &mut ReceiveCache) -> Option<Option<Arc<str>>> {
    let mut reader = Reader::new(bytes);
    let number = reader.integer()?;
    if reader.is_empty() {
        return cache.known(number);
    }
    let len = reader.integer()?;
    let word: Arc<str> = String::from_utf8_lossy(reader.bytes(len)?).into();
    cache.learn(number, Arc::clone(&word))?;
    Some(Some(word))
}
