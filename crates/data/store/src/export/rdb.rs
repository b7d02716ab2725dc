//! An RDB file of a shard's tables: of a snapshot of them while they are served, or of a copy on the disk.
//!
//! Records are read in their order, each once, and go to the sink as they come: nothing is gathered but what a [`FileWriter`] does.
//! What the file has is the tables' state, whatever becomes of them meanwhile. Who needs a later moment than that of the last
//! checkpoint has one made first, or brings a copy to it ([`super::still`]).

use std::{collections::BTreeMap, io::Write, ops::Bound, rc::Rc, sync::Arc};

use engine::{
    Direction,
    record::{self, Header, Kind, RecordKey},
};

use shard::records;

use crate::StoreError;
use keyspace::{
    Bytes, Collection, ElementRecords, NEVER, Source, Span,
    rdb::{self, FileError, FileOptions, FileVersion, FileWriter, Written},
    slot::SLOTS,
};

/// What of an export is not in the tables.
#[derive(Debug, Clone, Default)]
pub struct RdbOptions {
    /// How it is written.
    pub file: FileOptions,
    /// Libraries of functions are left out.
    pub without_functions: bool,
    /// No keys: functions alone.
    pub without_keys: bool,
    /// Keys of these slots alone.
    pub slots: Option<(u16, u16)>,
    /// What the file says of itself besides, in order: names and values.
    pub auxiliary: Vec<(&'static str, String)>,
}

/// Writes a file of all that some tables have.
///
/// # Errors
///
/// The sink takes nothing more; something in the tables cannot be read; there are functions, and the version has none.
pub fn write_rdb(
    tables: &Arc<dyn engine::Records>,
    options: &RdbOptions,
    sink: &mut dyn Write,
) -> Result<Written, StoreError> {
    let mut writer = FileWriter::new(sink, options.file);
    writer.auxiliary("redis-ver", commands::REDIS_VERSION).map_err(failed)?;
    writer.auxiliary("redis-bits", &usize::BITS.to_string()).map_err(failed)?;
    for (name, value) in &options.auxiliary {
        writer.auxiliary(name, value).map_err(failed)?;
    }
    if !options.without_functions {
        let libraries = libraries(&**tables)?;
        if options.file.version < FileVersion::Ten && !libraries.is_empty() {
            return Err(StoreError::ExportFunctions { count: libraries.len() });
        }
        libraries.iter().try_for_each(|code| writer.library(code)).map_err(failed)?;
    }
    if options.without_keys {
        return writer.finish().map_err(failed);
    }
    let source = Rc::new(Source::new(Rc::new(Frozen(Arc::clone(tables)))));
    let slots = slots(&**tables, options.slots.unwrap_or((0, u16::MAX)))?;
    for (db, disk) in databases(&**tables)? {
        if let Some(slots) = slots.get(&disk) {
            database(&**tables, (db, disk, slots), &source, &mut writer)?;
        }
    }
    writer.finish().map_err(failed)
}

fn failed(error: FileError) -> StoreError {
    StoreError::Export(error)
}

fn damaged(name: &engine::Key, reason: String) -> StoreError {
    engine::Error::Damaged { place: engine::DamagePlace::At(name.to_vec()), file: None, source: reason.into() }.into()
}

/// The texts of the libraries of functions.
fn libraries(tables: &dyn engine::Records) -> Result<Vec<Vec<u8>>, StoreError> {
    let name = record::meta(0, 0, records::FUNCTIONS);
    let Some(payload) = tables.get(&name)? else { return Ok(Vec::new()) };
    rdb::decode_libraries(&payload).map_err(|error| damaged(&name, error.to_string()))
}

/// The databases by the number that clients give them, each with the one that the tables have for it.
fn databases(tables: &dyn engine::Records) -> Result<Vec<(usize, u8)>, StoreError> {
    let name = record::meta(0, 0, records::LAYOUT);
    let Some(bytes) = tables.get(&name)? else { return Ok(Vec::new()) };
    let layout =
        records::layout_in(&bytes).ok_or_else(|| damaged(&name, "the numbers of databases are cut off".into()))?;
    Ok(layout.disks.into_iter().enumerate().collect())
}

fn count(tables: &dyn engine::Records, db: usize, name: &[u8]) -> Result<u64, StoreError> {
    let value = tables.get(&record::meta(0, db as u8, name))?;
    Ok(value.and_then(|bytes| <[u8; 8]>::try_from(&*bytes).ok()).map_or(0, u64::from_be_bytes))
}

/// The slots that have keys, by the number that the tables have for their database: records stand by their slots first, and a file
/// has one database after another.
fn slots(tables: &dyn engine::Records, wanted: (u16, u16)) -> Result<BTreeMap<u8, Vec<u16>>, StoreError> {
    let mut found: BTreeMap<u8, Vec<u16>> = BTreeMap::new();
    let mut slot = wanted.0;
    // Most slots of few keys are empty, so they are not looked at.
    while let Some(next) = occupied(tables, slot)?.filter(|next| *next <= wanted.1) {
        slot = next + 1;
        let mut bounds = record::range::kind(next, Kind::Key);
        while let Some(record) = tables.scan(&bounds, Direction::Forward).next() {
            let (name, _) = record?;
            let wrong = |reason: record::NotARecord| damaged(&name, reason.to_string());
            let RecordKey::Key { db: disk, .. } = record::decode(&name).map_err(wrong)? else { break };
            found.entry(disk).or_default().push(next);
            let Some(disk) = disk.checked_add(1) else { break };
            bounds.from = record::range::database(next, Kind::Key, disk).from;
        }
    }
    Ok(found)
}

/// The first slot from one on that has records.
fn occupied(tables: &dyn engine::Records, from: u16) -> Result<Option<u16>, StoreError> {
    let bounds = engine::Bounds { to: Bound::Unbounded, ..record::range::slot(from) };
    let first = tables.scan(&bounds, Direction::Forward).next().transpose()?;
    let slot = first.and_then(|(name, _)| name.first_chunk::<2>().map(|slot| u16::from_be_bytes(*slot)));
    Ok(slot.filter(|slot| usize::from(*slot) < SLOTS))
}

/// Writes the keys of a database, which has some.
fn database(
    tables: &dyn engine::Records,
    (db, disk, slots): (usize, u8, &[u16]),
    source: &Rc<Source>,
    writer: &mut FileWriter<'_>,
) -> Result<(), StoreError> {
    let (keys, expires) = (count(tables, db, records::KEY_COUNT)?, count(tables, db, records::EXPIRES_COUNT)?);
    writer.database(db, keys, expires).map_err(failed)?;
    for slot in slots {
        for found in tables.scan(&record::range::database(*slot, Kind::Key, disk), Direction::Forward) {
            let (name, bytes) = found?;
            let wrong = |reason: record::NotARecord| damaged(&name, reason.to_string());
            let RecordKey::Key { key, .. } = record::decode(&name).map_err(wrong)? else { continue };
            let (header, value) = Header::decode(&bytes).map_err(wrong)?;
            let key = header.key.unwrap_or(key.bytes());
            let written = match header.kind {
                records::WHOLE_VALUE => writer.whole(key, header.expire_at_ms, value),
                records::SPREAD => {
                    let descriptor = records::descriptor(disk, &header, value)
                        .ok_or_else(|| damaged(&name, "what it says of its elements is cut off".into()))?;
                    writer.described(key, header.expire_at_ms, &descriptor, source)
                }
                kind => return Err(damaged(&name, format!("its kind {kind} is of a later version"))),
            };
            written.map_err(failed)?;
        }
    }
    Ok(())
}

/// Tables that nobody writes to, as values ask them for elements.
struct Frozen(Arc<dyn engine::Records>);

impl Frozen {
    fn value_of(name: &engine::Key, value: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool, String> {
        let RecordKey::Element { element, .. } = record::decode(name).map_err(records::damaged_element)? else {
            return Ok(true);
        };
        let (name, value) = record::split_whole(element, value).map_err(records::damaged_element)?;
        Ok(each(name, value))
    }
}

/// Nothing is ever changed.
impl ElementRecords for Frozen {
    fn element(&self, of: Collection, name: &[u8]) -> Result<Option<Bytes>, String> {
        let record = record::element(of.slot, of.disk, of.version, name);
        let Some(value) = self.0.get(&record).map_err(|error| records::unreadable(&error))? else { return Ok(None) };
        let mut found = None;
        Self::value_of(&record, &value, &mut |_, value| {
            found = Some(Bytes::from_slice(value));
            true
        })?;
        Ok(found)
    }

    fn scan_elements(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        let direction = if span.backwards { Direction::Backward } else { Direction::Forward };
        for found in self.0.scan(&records::bounds(of, span), direction) {
            let (name, value) = found.map_err(|error| records::unreadable(&error))?;
            if !Self::value_of(&name, &value, each)? {
                break;
            }
        }
        Ok(())
    }

    fn put_element(&self, _: Collection, _: &[u8], _: &[u8]) {}
    fn delete_element(&self, _: Collection, _: &[u8]) {}
    fn put_taken_element(&self, _: Collection, _: &[u8], _: Option<&[u8]>) {}
    fn orphan(&self, _: Collection) {}
    fn begin(&self, _: Collection) {}
    fn adopt(&self, _: Collection) {}
    fn pin(&self, _: Collection) {}
    fn unpin(&self, _: Collection) {}

    fn new_version(&self) -> u64 {
        0
    }
}

const _: () = assert!(NEVER == i64::MAX, "a key without a deadline has none in its record");
