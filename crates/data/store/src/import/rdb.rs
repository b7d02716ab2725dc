//! An RDB file, entry by entry, as commands that make what it has.

use std::io::BufRead;

use super::{Problem, source::Source, value};
use keyspace::rdb::crc64::crc64;

/// What files that are RDB begin with.
pub const MAGIC: &[u8; 5] = b"REDIS";
/// The newest version that is read: those of Redis 7.2 and Valkey 8.
const VERSION_MAX: u32 = 11;
/// The version that payloads of `RESTORE` are given: Redis 7.0's. What is in them is known by its type.
const PAYLOAD_VERSION: u16 = 10;

/// A part of the file that makes something.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// What follows is in this database.
    Database(u64),
    /// The stream that follows the file goes on in this database.
    StreamDatabase(u64),
    /// A library of functions.
    Library(Vec<u8>),
    /// A key.
    Key {
        /// Its name.
        name: Vec<u8>,
        /// When it expires, in milliseconds since 1970.
        expires: Option<u64>,
        /// What `RESTORE` takes.
        payload: Vec<u8>,
    },
}

/// Reads the head of a file, up to its version.
///
/// # Errors
///
/// It is of another kind, or of a later version.
pub fn begin<R: BufRead>(source: &mut Source<R>) -> Result<(), Problem> {
    let magic: [u8; 5] = source.array()?;
    let version: [u8; 4] = source.array()?;
    let version = std::str::from_utf8(&version).ok().and_then(|text| text.parse::<u32>().ok());
    match version {
        Some(1..=VERSION_MAX) if magic == *MAGIC => Ok(()),
        Some(_) if magic == *MAGIC => Err(Problem::Format(source.at, "a later version of Redis has written it")),
        _ => Err(Problem::Format(source.at, "it is no RDB file")),
    }
}

/// The next entry; nothing at the end, whose checksum is right.
///
/// # Errors
///
/// The file is damaged, or has what is not there.
pub fn next<R: BufRead>(source: &mut Source<R>) -> Result<Option<Entry>, Problem> {
    match next_head(source)? {
        None => Ok(None),
        Some(Head::Other(entry)) => Ok(Some(entry)),
        Some(Head::Key { name, expires, form }) => {
            Ok(Some(Entry::Key { name, expires, payload: next_payload(source, form)? }))
        }
    }
}

/// What `RESTORE` takes, of the value that comes next.
///
/// # Errors
///
/// As of [`next`].
pub fn next_payload<R: BufRead>(source: &mut Source<R>, form: u8) -> Result<Vec<u8>, Problem> {
    source.begin_copy(form);
    value::skip(form, source)?;
    Ok(payload(source.end_copy()))
}

/// What `RESTORE` takes, of a value with its form in front.
#[must_use]
pub fn payload(mut value: Vec<u8>) -> Vec<u8> {
    value.extend_from_slice(&PAYLOAD_VERSION.to_le_bytes());
    let sum = crc64(&value);
    value.extend_from_slice(&sum.to_le_bytes());
    value
}

/// What stands before a key's value, or an entry that is no key.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// A value of this form follows.
    Key {
        /// The key.
        name: Vec<u8>,
        /// When it expires, in milliseconds since 1970.
        expires: Option<u64>,
        /// How the value is written.
        form: u8,
    },
    /// Something else, which is whole.
    Other(Entry),
}

/// The next entry up to its value, which is to be read next; nothing at the end, whose checksum is right.
///
/// # Errors
///
/// Those of [`next`].
pub fn next_head<R: BufRead>(source: &mut Source<R>) -> Result<Option<Head>, Problem> {
    let mut expires = None;
    loop {
        let [code] = source.array()?;
        match code {
            // Figures of whoever wrote it.
            250 => {
                let name = source.string()?;
                let value = source.string()?;
                let db = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                if let Some(db) = db.filter(|_| name == b"repl-stream-db") {
                    return Ok(Some(Head::Other(Entry::StreamDatabase(db))));
                }
            }
            // How large tables are to be, and slots.
            251 => (0..2).try_for_each(|_| source.number().map(drop))?,
            244 => (0..3).try_for_each(|_| source.number().map(drop))?,
            // How often and when a key was used.
            249 => source.skip(1)?,
            248 => drop(source.number()?),
            252 => expires = Some(u64::from_le_bytes(source.array()?)),
            253 => expires = Some(u64::from(u32::from_le_bytes(source.array()?)) * 1000),
            254 => return source.number().map(|db| Some(Head::Other(Entry::Database(db)))),
            245 => return source.string().map(|code| Some(Head::Other(Entry::Library(code)))),
            255 => return end(source).map(|()| None),
            246 | 247 => {
                return Err(Problem::Format(source.at, "what a module, or a test version of Redis, has written"));
            }
            form => {
                let name = source.string()?;
                return Ok(Some(Head::Key { name, expires, form }));
            }
        }
    }
}

fn end<R: BufRead>(source: &mut Source<R>) -> Result<(), Problem> {
    let sum = source.sum;
    // Files before version 5 have none.
    if source.is_at_end()? {
        return Ok(());
    }
    let said = u64::from_le_bytes(source.array()?);
    // `rdbchecksum no` writes nothing.
    if said == 0 || said == sum { Ok(()) } else { Err(Problem::Format(source.at, "its checksum is wrong")) }
}
