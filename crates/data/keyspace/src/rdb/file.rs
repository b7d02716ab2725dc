//! Whole RDB files: what Redis saves, and what a master gives a replica that begins.
//!
//! A [`FileWriter`] gets keys one after another and gives bytes to a sink, some ten kilobytes at a time. It keeps nothing of what it
//! has written, and takes a collection whose elements are records one element after another; so a file of any size takes as much
//! memory as its longest string. Who writes says where keys come from and where bytes go: a file, a socket, another thread.

mod records;
mod whole;

use std::io::{self, Write};

use super::crc64;
use crate::encoding::Writer;

/// So many bytes are gathered before the sink gets them.
const PIECE_LEN: usize = 64 << 10;
/// Strings of this length and more go to the sink as they are: to compress one takes half of its length besides.
const LONG_STRING: usize = 16 << 20;
/// The first bytes of what stands between keys.
mod opcode {
    pub const FUNCTION: u8 = 245;
    pub const AUXILIARY: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRES_MS: u8 = 252;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// Which servers are to read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FileVersion {
    /// Redis 5 and 6, and all later ones. It has no functions.
    Nine,
    /// Redis 7 and Valkey.
    #[default]
    Ten,
}

impl FileVersion {
    /// The number that stands in the file.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Nine => 9,
            Self::Ten => 10,
        }
    }
}

/// How a file is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions {
    /// For whom.
    pub version: FileVersion,
    /// Strings of more than 20 bytes are compressed if that makes them shorter, as with `rdbcompression yes`.
    pub compress: bool,
    /// Whoever reads it has queues: another store.
    pub has_queues: bool,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The sink takes nothing more.
    #[error(transparent)]
    Sink(#[from] io::Error),
    /// A key's value cannot be read or understood.
    #[error("the value of the key '{key}' cannot be written: {reason}")]
    Value {
        /// Which, as text that is safe to print.
        key: String,
        /// Why.
        reason: String,
    },
    /// The version has no place for it.
    #[error("RDB version {0} has no functions")]
    NoFunctions(u16),
}

impl FileError {
    fn value(key: &[u8], reason: impl ToString) -> Self {
        /// As much of a key is told.
        const KEY_MAX: usize = 100;
        let key = key.get(..KEY_MAX).unwrap_or(key).escape_ascii().to_string();
        Self::Value { key, reason: reason.to_string() }
    }
}

/// What a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Its bytes.
    pub bytes: u64,
    /// Keys of all databases.
    pub keys: u64,
    /// Databases that have keys.
    pub databases: u64,
    /// Libraries of functions.
    pub libraries: u64,
}

/// Writes a file: first what it says of itself ([`auxiliary`](Self::auxiliary)), then libraries, then databases, each with its keys,
/// and the [end](Self::finish).
pub struct FileWriter<'a> {
    sink: &'a mut dyn Write,
    options: FileOptions,
    buffer: Vec<u8>,
    /// The checksum of what the sink has.
    sum: u64,
    written: Written,
}

impl<'a> FileWriter<'a> {
    /// Begins a file.
    pub fn new(sink: &'a mut dyn Write, options: FileOptions) -> Self {
        let buffer = format!("REDIS{:04}", options.version.number()).into_bytes();
        Self { sink, options, buffer, sum: 0, written: Written::default() }
    }

    /// Something that the file says of itself. Redis tells nothing of names that it does not know.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn auxiliary(&mut self, name: &str, value: &str) -> Result<(), FileError> {
        self.put(|writer| {
            writer.byte(opcode::AUXILIARY);
            writer.string(name.as_bytes());
            writer.string(value.as_bytes());
        })
    }

    /// A library of functions, by its text.
    ///
    /// # Errors
    ///
    /// Those of the sink; the version has no libraries.
    pub fn library(&mut self, code: &[u8]) -> Result<(), FileError> {
        if self.options.version < FileVersion::Ten {
            return Err(FileError::NoFunctions(self.options.version.number()));
        }
        self.written.libraries += 1;
        self.put(|writer| {
            writer.byte(opcode::FUNCTION);
            writer.string(code);
        })
    }

    /// The keys of a database follow. How many they are, and how many expire, is a hint.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn database(&mut self, db: usize, keys: u64, expires: u64) -> Result<(), FileError> {
        self.written.databases += 1;
        self.put(|writer| {
            writer.byte(opcode::DATABASE);
            writer.count(db);
            writer.byte(opcode::SIZES);
            writer.number(keys);
            writer.number(expires);
        })
    }

    /// What is in front of a key's value.
    fn begin_key(&mut self, key: &[u8], expire_at_ms: Option<u64>, form: u8) -> Result<(), FileError> {
        self.written.keys += 1;
        if let Some(at_ms) = expire_at_ms {
            self.put(|writer| {
                writer.byte(opcode::EXPIRES_MS);
                writer.fixed(at_ms);
            })?;
        }
        self.put(|writer| writer.byte(form))?;
        self.string(key)
    }

    /// Ends the file: its checksum, and all that the sink has not got yet.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn finish(mut self) -> Result<Written, FileError> {
        self.put(|writer| writer.byte(opcode::END))?;
        self.flush()?;
        let sum = self.sum;
        self.put(|writer| writer.fixed(sum))?;
        self.flush()?;
        self.sink.flush()?;
        Ok(self.written)
    }

    /// Writes something short.
    fn put(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), FileError> {
        write(&mut Writer::new(&mut self.buffer, self.options.compress));
        if self.buffer.len() >= PIECE_LEN { self.flush() } else { Ok(()) }
    }

    /// Writes a string of any length.
    fn string(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        if bytes.len() < LONG_STRING {
            return self.put(|writer| writer.string(bytes));
        }
        self.put(|writer| writer.count(bytes.len()))?;
        self.raw(bytes)
    }

    /// Writes bytes as they are.
    fn raw(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        if bytes.len() < PIECE_LEN {
            return self.put(|writer| writer.raw(bytes));
        }
        self.flush()?;
        self.give(bytes)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let given = self.give(&buffer);
        buffer.clear();
        // What one long string took is not kept.
        buffer.shrink_to(2 * PIECE_LEN);
        self.buffer = buffer;
        given
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.sum = crc64::continued(self.sum, bytes);
        self.written.bytes += bytes.len() as u64;
        self.sink.write_all(bytes)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
