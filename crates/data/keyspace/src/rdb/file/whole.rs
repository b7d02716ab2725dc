//! Values that stand in their keys' records as a whole, as a file of some version has them. Records have what Redis 7.0 writes,
//! without compression; of an older one's forms those are taken that Redis of any version reads.

use super::{FileError, FileVersion, FileWriter};
use crate::{
    encoding::form,
    rdb::{
        RdbError, Reader, collections,
        listpack::{self, Element},
    },
};

/// Bytes of an id of a stream as raw bytes, and of a time.
const ID_LEN: usize = 16;
const TIME_LEN: usize = 8;

impl FileWriter<'_> {
    /// A key whose value stands in its record, in the form that [`encode_value`](crate::rdb::encode_value) has given it.
    ///
    /// # Errors
    ///
    /// Those of the sink; the value is damaged.
    pub fn whole(&mut self, key: &[u8], expire_at_ms: Option<u64>, value: &[u8]) -> Result<(), FileError> {
        let damaged = |error: RdbError| FileError::value(key, error);
        let mut reader = Reader::new(value);
        let form = reader.byte().map_err(damaged)?;
        let is_old = self.options.version < FileVersion::Ten;
        let written = match form {
            form::HASH_LISTPACK if is_old => form::HASH,
            form::SORTED_SET_LISTPACK if is_old => form::SORTED_SET_2,
            form::LIST_QUICKLIST_2 if is_old => form::LIST,
            form::STREAM_2 if is_old => form::STREAM_1,
            form => form,
        };
        self.begin_key(key, expire_at_ms, written)?;
        if !is_old && !self.options.compress {
            return self.raw(value.get(1..).unwrap_or_default());
        }
        let ended = match form {
            form::HASH_LISTPACK | form::SORTED_SET_LISTPACK if is_old => self.pairs(form, &mut reader),
            form::LIST_QUICKLIST_2 if is_old => self.nodes(&mut reader),
            form::STREAM_2 => self.stream(&mut reader),
            form => self.strings(form, &mut reader),
        };
        match ended {
            Ok(()) if reader.is_empty() => Ok(()),
            Ok(()) => Err(damaged(RdbError::Surplus)),
            Err(Broken::Sink(error)) => Err(error),
            Err(Broken::Value(error)) => Err(damaged(error)),
        }
    }

    /// Strings, of which a value is made, with what stands between them.
    fn strings(&mut self, form: u8, reader: &mut Reader<'_>) -> Result<(), Broken> {
        if matches!(form, form::STRING | form::SET_INTEGERS | form::HASH_LISTPACK | form::SORTED_SET_LISTPACK) {
            return self.copy_string(reader);
        }
        let count = reader.count_of_some()?;
        self.put(|writer| writer.count(count))?;
        for _ in 0..count {
            match form {
                form::SET => self.copy_string(reader)?,
                form::HASH => {
                    self.copy_string(reader)?;
                    self.copy_string(reader)?;
                }
                form::SORTED_SET_2 => {
                    self.copy_string(reader)?;
                    self.copy_raw(reader, TIME_LEN)?;
                }
                form::LIST_QUICKLIST_2 => {
                    self.copy_number(reader)?;
                    self.copy_string(reader)?;
                }
                other => return Err(RdbError::Type(other).into()),
            }
        }
        Ok(())
    }

    /// What stands two by two in a listpack.
    fn pairs(&mut self, form: u8, reader: &mut Reader<'_>) -> Result<(), Broken> {
        let packed = reader.string()?;
        let pairs = collections::pairs(&packed, false)?;
        self.put(|writer| writer.count(pairs.len()))?;
        for [name, value] in pairs {
            self.string(&name.text())?;
            if form == form::HASH_LISTPACK {
                self.string(&value.text())?;
                continue;
            }
            let score = match value {
                Element::Integer(number) => number as f64,
                Element::Text(text) => crate::number::parse_float(text).ok_or(RdbError::Format("score"))?,
            };
            self.put(|writer| writer.double(score))?;
        }
        Ok(())
    }

    /// The elements of a list, out of its nodes.
    fn nodes(&mut self, reader: &mut Reader<'_>) -> Result<(), Broken> {
        let mut count = 0;
        let begin = *reader;
        each_of_nodes(reader, |_| {
            count += 1;
            Ok(())
        })?;
        self.put(|writer| writer.count(count))?;
        *reader = begin;
        each_of_nodes(reader, |element| Ok(self.string(&element.text())?))
    }

    /// A stream; without what the first form has not, for those who read that.
    fn stream(&mut self, reader: &mut Reader<'_>) -> Result<(), Broken> {
        let is_old = self.options.version < FileVersion::Ten;
        let nodes = reader.count()?;
        self.put(|writer| writer.count(nodes))?;
        for _ in 0..nodes {
            self.copy_string(reader)?;
            self.copy_string(reader)?;
        }
        if !is_old {
            let rest = reader.take(reader.len())?;
            return Ok(self.raw(rest)?);
        }
        // How many entries there are, and the last id.
        self.copy_numbers(reader, 3)?;
        // The first id, the last one that was removed, how many there ever were.
        for _ in 0..5 {
            reader.number()?;
        }
        let groups = self.copy_number(reader)?;
        for _ in 0..groups {
            self.copy_string(reader)?;
            self.copy_numbers(reader, 2)?;
            // How many entries the group has read.
            reader.number()?;
            for _ in 0..self.copy_number(reader)? {
                self.copy_raw(reader, ID_LEN + TIME_LEN)?;
                self.copy_number(reader)?;
            }
            for _ in 0..self.copy_number(reader)? {
                self.copy_string(reader)?;
                self.copy_raw(reader, TIME_LEN)?;
                for _ in 0..self.copy_number(reader)? {
                    self.copy_raw(reader, ID_LEN)?;
                }
            }
        }
        Ok(())
    }

    fn copy_string(&mut self, reader: &mut Reader<'_>) -> Result<(), Broken> {
        Ok(self.string(&reader.string()?)?)
    }

    fn copy_number(&mut self, reader: &mut Reader<'_>) -> Result<u64, Broken> {
        let number = reader.number()?;
        self.put(|writer| writer.number(number))?;
        Ok(number)
    }

    fn copy_numbers(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<(), Broken> {
        (0..count).try_for_each(|_| self.copy_number(reader).map(drop))
    }

    fn copy_raw(&mut self, reader: &mut Reader<'_>, len: usize) -> Result<(), Broken> {
        Ok(self.raw(reader.take(len)?)?)
    }
}

/// Calls with the elements of a list's nodes.
fn each_of_nodes(
    reader: &mut Reader<'_>,
    mut each: impl FnMut(Element<'_>) -> Result<(), Broken>,
) -> Result<(), Broken> {
    for _ in 0..reader.count_of_some()? {
        let container = reader.number()?;
        let node = reader.string()?;
        if container == collections::container::PLAIN {
            each(Element::Text(&node))?;
            continue;
        }
        for element in listpack::elements(&node)? {
            each(element?)?;
        }
    }
    Ok(())
}

/// Why a value is not written to its end.
enum Broken {
    Sink(FileError),
    Value(RdbError),
}

impl From<RdbError> for Broken {
    fn from(error: RdbError) -> Self {
        Self::Value(error)
    }
}

impl From<FileError> for Broken {
    fn from(error: FileError) -> Self {
        Self::Sink(error)
    }
}
