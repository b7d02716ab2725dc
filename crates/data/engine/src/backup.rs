//! All records of a shard in one file, taken while it serves.
//!
//! The format stands byte by byte in docs/formats/backup.md: a head, blocks of records in order, and an end with their count
//! and digest. Every part has a checksum of its own, so damage is found where it is, and a file that was cut off is known by
//! its missing end.
//!
//! The digest is a sum over records and does not depend on their order, so the digests of several shards add up to that of the
//! whole, however many shards there are.

use std::io::{self, Read, Write};

use twox_hash::{XxHash3_64, XxHash3_128};

use crate::{Batch, Bounds, Direction, Engine, Error, KEY_LEN_MAX, Key, Offset, Records, Result, VALUE_LEN_MAX, Value};

const MAGIC: [u8; 8] = *b"TIDEBKUP";
const VERSION: u32 = 1;
const HEAD_LEN: usize = 40;
/// A block is written as soon as it is this long; a single record may make it longer.
const BLOCK_LEN: usize = 256 << 10;
/// The longest block that a reader takes: one record more than [`BLOCK_LEN`].
const BLOCK_LEN_MAX: u64 = (BLOCK_LEN + KEY_LEN_MAX + VALUE_LEN_MAX + 8) as u64;
/// How much is restored in one batch.
const BATCH_BYTES: usize = 8 << 20;
/// Instead of a block's length: the end follows.
const END: u64 = u64::MAX;

/// What all records of an engine, a snapshot or a backup come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// How many there are.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sum of their hashes. Two sets of records with the same digest are the same, but for a chance of one in 2^128.
    pub digest: u128,
}

impl Summary {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = XxHash3_128::new();
        hasher.write(&(key.len() as u64).to_le_bytes());
        hasher.write(key);
        hasher.write(value);
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.digest = self.digest.wrapping_add(hasher.finish_128());
    }

    /// What two disjoint sets of records come to.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            records: self.records + other.records,
            bytes: self.bytes + other.bytes,
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

/// What a backup says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupHead {
    /// When it was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// Up to which offset of the log its records are true.
    pub applied: Option<Offset>,
}

/// Reads all records and sums them up.
pub fn summary(records: &dyn Records) -> Result<Summary> {
    let mut summary = Summary::default();
    for record in records.scan(&Bounds::all(), Direction::Forward) {
        let (key, value) = record?;
        summary.add(&key, &value);
    }
    Ok(summary)
}

/// Writes all records of a snapshot, in pieces of some hundred kilobytes. Whoever wants a pause between them pauses in `out`.
pub fn backup(snapshot: &dyn Records, created_ms: u64, out: &mut dyn Write) -> Result<Summary> {
    let applied = snapshot.applied()?;
    let mut head = Vec::with_capacity(HEAD_LEN);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&u32::from(applied.is_some()).to_le_bytes());
    head.extend_from_slice(&created_ms.to_le_bytes());
    head.extend_from_slice(&applied.unwrap_or_default().0.to_le_bytes());
    write_sealed(out, &head)?;
    let mut summary = Summary::default();
    let mut block = Vec::with_capacity(BLOCK_LEN + 4096);
    for record in snapshot.scan(&Bounds::all(), Direction::Forward) {
        let (key, value) = record?;
        summary.add(&key, &value);
        block.extend_from_slice(&(key.len() as u32).to_le_bytes());
        block.extend_from_slice(&(value.len() as u32).to_le_bytes());
        block.extend_from_slice(&key);
        block.extend_from_slice(&value);
        if block.len() >= BLOCK_LEN {
            write_block(out, &block)?;
            block.clear();
            // A record of 500 MB need not be remembered in its size.
            block.shrink_to(BLOCK_LEN * 2);
        }
    }
    if !block.is_empty() {
        write_block(out, &block)?;
    }
    let mut end = END.to_le_bytes().to_vec();
    end.extend_from_slice(&summary.records.to_le_bytes());
    end.extend_from_slice(&summary.bytes.to_le_bytes());
    end.extend_from_slice(&summary.digest.to_le_bytes());
    write_sealed(out, &end)?;
    out.flush()?;
    Ok(summary)
}

fn write_block(out: &mut dyn Write, block: &[u8]) -> io::Result<()> {
    out.write_all(&(block.len() as u64).to_le_bytes())?;
    write_sealed(out, block)
}

/// Bytes and their checksum.
fn write_sealed(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.write_all(&XxHash3_64::oneshot(bytes).to_le_bytes())
}

/// Reads a backup from beginning to end and gives each record to `take`. Checks everything that can be checked.
pub fn read_backup(
    input: &mut dyn Read,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<(BackupHead, Summary)> {
    let head = read_head(input)?;
    let mut summary = Summary::default();
    let mut last: Vec<u8> = Vec::new();
    loop {
        let prefix = read_array::<8>(input)?;
        let len = u64::from_le_bytes(prefix);
        if len == END {
            check_end(input, prefix, &summary)?;
            return Ok((head, summary));
        }
        if len == 0 || len > BLOCK_LEN_MAX {
            return Err(Error::Backup("a block's length is out of bounds"));
        }
        let block = read_sealed(input, len)?;
        let mut rest = block.as_slice();
        while !rest.is_empty() {
            let (key, value) = split_record(&mut rest).ok_or(Error::Backup("a record is cut off"))?;
            if summary.records > 0 && key <= last.as_slice() {
                return Err(Error::Backup("records are out of order"));
            }
            last.clear();
            last.extend_from_slice(key);
            summary.add(key, value);
            take(key, value)?;
        }
    }
}

fn read_head(input: &mut dyn Read) -> Result<BackupHead> {
    let head = read_array::<{ HEAD_LEN - 8 }>(input)?;
    let mut rest = head.as_slice();
    let mut next = |len: usize| rest.split_off(..len).unwrap_or_default();
    if next(8) != MAGIC {
        return Err(Error::Backup("it does not begin like one"));
    }
    if next(4) != VERSION.to_le_bytes() {
        return Err(Error::Backup("its version is unknown"));
    }
    let flags = next(4);
    let created_ms = number(next(8));
    let applied = Offset(number(next(8)));
    check_seal(input, &head)?;
    let applied = match flags {
        [0, 0, 0, 0] => None,
        [1, 0, 0, 0] => Some(applied),
        _ => return Err(Error::Backup("its flags are unknown")),
    };
    Ok(BackupHead { created_ms, applied })
}

fn check_end(input: &mut dyn Read, prefix: [u8; 8], summary: &Summary) -> Result<()> {
    let end = [prefix.as_slice(), &read_array::<32>(input)?].concat();
    check_seal(input, &end)?;
    let expected = [
        prefix.as_slice(),
        &summary.records.to_le_bytes(),
        &summary.bytes.to_le_bytes(),
        &summary.digest.to_le_bytes(),
    ]
    .concat();
    if end != expected {
        return Err(Error::Backup("its records are not those that it says"));
    }
    match input.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::Backup("something follows its end")),
        Err(error) => Err(error.into()),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn split_record<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let key_len = number(rest.split_off(..4)?);
    let value_len = number(rest.split_off(..4)?);
    let key = rest.split_off(..usize::try_from(key_len).ok()?)?;
    let value = rest.split_off(..usize::try_from(value_len).ok()?)?;
    Some((key, value))
}

fn read_array<const LEN: usize>(input: &mut dyn Read) -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    input.read_exact(&mut bytes).map_err(cut_off)?;
    Ok(bytes)
}

/// So many bytes whose checksum follows. Takes memory as they come, not as they are announced.
fn read_sealed(input: &mut dyn Read, len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(len).read_to_end(&mut bytes)?;
    if read as u64 != len {
        return Err(Error::Backup("it is cut off"));
    }
    check_seal(input, &bytes)?;
    Ok(bytes)
}

fn check_seal(input: &mut dyn Read, bytes: &[u8]) -> Result<()> {
    if XxHash3_64::oneshot(bytes).to_le_bytes() != read_array::<8>(input)? {
        return Err(Error::Backup("a checksum does not match"));
    }
    Ok(())
}

fn cut_off(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Backup("it is cut off"),
        _ => error.into(),
    }
}

/// Puts the records of a backup into an empty engine and syncs it. If it fails, the engine is to be thrown away: it has no
/// applied offset then, and some of the records.
pub fn restore(input: &mut dyn Read, engine: &dyn Engine) -> Result<(BackupHead, Summary)> {
    if engine.applied()?.is_some() || engine.scan(&Bounds::all(), Direction::Forward).next().is_some() {
        return Err(Error::Unfit("the engine is not empty"));
    }
    let mut batch = Batch::new();
    let (head, summary) = read_backup(input, |key, value| {
        batch.put(Key::from(key), Value::from(value));
        if batch.bytes() >= BATCH_BYTES {
            engine.write(&std::mem::take(&mut batch))?;
        }
        Ok(())
    })?;
    if let Some(applied) = head.applied {
        batch.set_applied(applied);
    }
    engine.write(&batch)?;
    engine.sync()?;
    Ok((head, summary))
}

#[cfg(test)]
mod tests;
