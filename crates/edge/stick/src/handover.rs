//! The contents of tables in bytes, for the process that serves after this one, and entries for a table that takes another
//! one's place.
//!
//! What belongs to this process alone (`conn_cur`) is left out: what is tracked here is released here. Rates are only taken by
//! a table that counts over the same period. The bytes are described in `docs/formats/stick-handover.md`.

use std::{borrow::Cow, sync::Arc};

use thiserror::Error;

use crate::{
    data::{DataType, Kind},
    definition::Definition,
    key::KeyType,
    table::Table,
    updates::StoredValue,
};

const MAGIC: &[u8; 5] = b"TGst\x01";
const END: u8 = 0;
const TABLE: u8 = 1;
const ENTRY: u8 = 2;
/// Bytes of a number at most: 64 bits by sevens.
const NUMBER_LEN_MAX: usize = 10;

/// The bytes are not what [`Writer`] makes. What was read before counts all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the contents of stick tables are malformed")]
pub struct Malformed;

/// Writes tables.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    len_max: usize,
    left_out: u64,
}

impl Writer {
    /// Writes no more than `len_max` bytes.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        Self { out: MAGIC.to_vec(), len_max, left_out: 0 }
    }

    /// Writes a table and its entries, as far as there is room.
    pub fn table(&mut self, table: &Table, now: u64) {
        let definition = table.definition();
        let types: Vec<DataType> = definition.layout.types().filter(|data| !data.is_local()).collect();
        let key = KeyType::ALL.iter().position(|key| *key == definition.key).unwrap_or_default();
        let mut header = vec![TABLE, key as u8];
        put_bytes(&mut header, definition.name.as_bytes());
        put(&mut header, u64::from(definition.expire_ms));
        header.push(types.len() as u8);
        for data in &types {
            header.extend([*data as u8, definition.layout.len(*data) as u8]);
            put(&mut header, u64::from(definition.layout.period_ms(*data)));
        }
        if self.out.len() + header.len() >= self.len_max {
            self.left_out += u64::from(table.len());
            return;
        }
        self.out.extend_from_slice(&header);
        let mut entry = Vec::new();
        table.entries(now, |key, remaining_ms, values| {
            entry.clear();
            entry.push(ENTRY);
            put_bytes(&mut entry, key);
            put(&mut entry, remaining_ms);
            for (_, _, value) in values.iter().filter(|(data, ..)| !data.is_local()) {
                put_value(&mut entry, value);
            }
            // Room is kept for the end.
            if self.out.len() + entry.len() < self.len_max {
                self.out.extend_from_slice(&entry);
            } else {
                self.left_out += 1;
            }
        });
    }

    /// All bytes, and how many entries had no room.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        self.out.push(END);
        (self.out, self.left_out)
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &StoredValue) {
    match value {
        StoredValue::Signed(number) => put(out, u64::from(number.cast_unsigned())),
        StoredValue::Unsigned(number) => put(out, u64::from(*number)),
        StoredValue::Long(number) => put(out, *number),
        StoredValue::Rate { elapsed_ms, current, previous } => {
            for number in [elapsed_ms, current, previous] {
                put(out, u64::from(*number));
            }
        }
        StoredValue::Word(word) => put_bytes(out, word.as_deref().unwrap_or_default().as_bytes()),
    }
}

/// A type that entries of a table hold, how many of it, and the period of its rates.
#[derive(Clone, Copy, Debug)]
struct Stored {
    data: DataType,
    len: u32,
    period_ms: u32,
}

/// The table that is read.
#[derive(Debug)]
struct Section {
    name: String,
    key: KeyType,
    expires: bool,
    stored: Vec<Stored>,
}

/// Reads what [`Writer`] wrote.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    section: Option<Section>,
}

impl<'a> Reader<'a> {
    /// Begins to read.
    ///
    /// # Errors
    /// When these are other bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
        Ok(Self { rest, section: None })
    }

    /// Gives up to `limit` entries to the tables that `find` knows; false when there are no more.
    ///
    /// # Errors
    /// When the bytes are malformed.
    pub fn read(
        &mut self,
        limit: usize,
        now: u64,
        find: impl Fn(&str) -> Option<Arc<Table>>,
    ) -> Result<bool, Malformed> {
        let mut table = self.section.as_ref().and_then(|section| find(&section.name));
        for _ in 0..limit {
            match self.byte()? {
                END => return Ok(false),
                TABLE => {
                    let section = self.section()?;
                    table = find(&section.name);
                    self.section = Some(section);
                }
                ENTRY => self.entry(table.as_deref(), now)?,
                _ => return Err(Malformed),
            }
        }
        Ok(true)
    }

    fn section(&mut self) -> Result<Section, Malformed> {
        let key = *KeyType::ALL.get(usize::from(self.byte()?)).ok_or(Malformed)?;
        let name = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?.to_owned();
        let expires = self.number()? > 0;
        let mut stored = Vec::new();
        for _ in 0..self.byte()? {
            let data = *DataType::ALL.get(usize::from(self.byte()?)).ok_or(Malformed)?;
            let len = u32::from(self.byte()?);
            stored.push(Stored { data, len, period_ms: self.word()? });
        }
        Ok(Section { name, key, expires, stored })
    }

    fn entry(&mut self, table: Option<&Table>, now: u64) -> Result<(), Malformed> {
        let section = self.section.take().ok_or(Malformed)?;
        let key = self.bytes()?;
        let remaining_ms = self.number()?;
        let mut values = Vec::new();
        for Stored { data, len, period_ms } in &section.stored {
            let fits = table.is_some_and(|table| {
                data.kind() != Kind::Rate || table.definition().layout.period_ms(*data) == *period_ms
            });
            for index in 0..*len {
                let value = self.value(data.kind())?;
                if fits {
                    values.push((*data, index, value));
                }
            }
        }
        if let Some(table) = table.filter(|table| table.definition().key == section.key) {
            table.adopt(key, section.expires.then_some(remaining_ms), &values, now);
        }
        self.section = Some(section);
        Ok(())
    }

    fn value(&mut self, kind: Kind) -> Result<StoredValue, Malformed> {
        Ok(match kind {
            Kind::Signed => StoredValue::Signed(self.word()?.cast_signed()),
            Kind::Unsigned => StoredValue::Unsigned(self.word()?),
            Kind::Long => StoredValue::Long(self.number()?),
            Kind::Rate => {
                let [elapsed_ms, current, previous] = [self.word()?, self.word()?, self.word()?];
                StoredValue::Rate { elapsed_ms, current, previous }
            }
            Kind::Word => {
                let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?;
                StoredValue::Word((!text.is_empty()).then(|| text.into()))
            }
        })
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for place in 0..NUMBER_LEN_MAX {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(7 * place as u32).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// A key of another table with the same type of keys, as this one would have it; none if it cannot have it.
fn fitted<'a>(definition: &Definition, key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let len = definition.key_len;
    match definition.key {
        KeyType::String => Some(Cow::Borrowed(key.get(..len).unwrap_or(key))),
        KeyType::Binary if key.len() < len => {
            let mut padded = key.to_vec();
            padded.resize(len, 0);
            Some(Cow::Owned(padded))
        }
        KeyType::Binary => key.get(..len).map(Cow::Borrowed),
        KeyType::Ip | KeyType::Ipv6 | KeyType::Integer => (key.len() == len).then_some(Cow::Borrowed(key)),
    }
}

impl Table {
    /// Takes an entry of a table of the same name over; whether there was room for it. What was counted meanwhile under the
    /// same key is added up.
    pub fn adopt(
        &self,
        key: &[u8],
        remaining_ms: Option<u64>,
        values: &[(DataType, u32, StoredValue)],
        now: u64,
    ) -> bool {
        let definition = self.definition();
        let Some(key) = fitted(definition, key) else { return false };
        if self.find(&key, now, |entry| entry.merge(values)).is_some() {
            return true;
        }
        // Nobody who came meanwhile has to go for one who may never come again.
        if self.len() >= definition.size {
            return false;
        }
        let expire_ms = u64::from(definition.expire_ms);
        let made = self.find_or_make(&key, now, |entry| {
            entry.take(values);
            *entry.expire = now + remaining_ms.map_or(expire_ms, |remaining| remaining.min(expire_ms));
        });
        made.is_some()
    }

    /// Takes over what another table has, if its keys are of the same type.
    pub fn adopt_all(&self, other: &Table, now: u64) {
        let (new, old) = (self.definition(), other.definition());
        if new.key != old.key {
            return;
        }
        other.entries(now, |key, remaining_ms, mut values| {
            values.retain(|(data, ..)| {
                !data.is_local()
                    && (data.kind() != Kind::Rate || new.layout.period_ms(*data) == old.layout.period_ms(*data))
            });
            self.adopt(key, (old.expire_ms > 0).then_some(remaining_ms), &values, now);
        });
    }
}
