//! Answers.
//!
//! An answer is read whole before anything of it counts. What it may hold is bounded by its size and by a number of records
//! that the caller gives; names are followed backwards only.

use std::net::IpAddr;

use crate::{Kind, Name};

const CNAME: u16 = 5;
const FLAG_RESPONSE: u16 = 0x8000;
const FLAG_TRUNCATED: u16 = 0x0200;
const MASK_CODE: u16 = 0x000F;
const CODE_NO_SUCH_NAME: u16 = 3;
const CODE_REFUSED: u16 = 5;
/// Bytes of a record's type, class, time to live and length of data.
const FIXED_BYTES: usize = 10;
/// Bytes of a service's priority, weight and port.
const SERVICE_BYTES: usize = 6;

/// A record that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A or AAAA.
    Address(IpAddr),
    /// SRV. Its priority is not looked at, as in HAProxy.
    Service {
        /// Where it is.
        target: Name,
        /// Its port.
        port: u16,
        /// Its share.
        weight: u16,
    },
}

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Records of the answer section.
    pub records: Vec<Record>,
    /// Addresses of the additional section, for services.
    pub additional: Vec<(Name, IpAddr)>,
}

/// Why an answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is malformed.
    #[error("malformed answer")]
    Invalid,
    /// It has not one question.
    #[error("answer without a single question")]
    QuestionCount,
    /// It answers another question.
    #[error("answer to another question")]
    WrongName,
    /// NXDOMAIN.
    #[error("no such name")]
    NoSuchName,
    /// REFUSED.
    #[error("refused")]
    Refused,
    /// Another code that stands for an error.
    #[error("server failure")]
    Failure,
    /// It has no records.
    #[error("no records")]
    Empty,
    /// Aliases that lead nowhere.
    #[error("alias without a target")]
    Alias,
    /// It did not fit.
    #[error("truncated")]
    Truncated,
}

/// Reads a message field by field.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Result<u16, Fault> {
        let bytes = self.message.get(self.at..self.at + 2).ok_or(Fault::Invalid)?;
        self.at += 2;
        Ok(u16::from_be_bytes(bytes.try_into().map_err(|_| Fault::Invalid)?))
    }

    fn name(&mut self) -> Result<Name, Fault> {
        let (name, end) = Name::read(self.message, self.at).ok_or(Fault::Invalid)?;
        self.at = end;
        Ok(name)
    }

    /// Type and data's place of the record whose name has just been read; moves behind it.
    fn record(&mut self) -> Result<(u16, std::ops::Range<usize>), Fault> {
        let fixed = self.message.get(self.at..self.at + FIXED_BYTES).ok_or(Fault::Invalid)?;
        let [kind_high, kind_low, .., length_high, length_low] = fixed else { return Err(Fault::Invalid) };
        let start = self.at + FIXED_BYTES;
        let end = start + usize::from(u16::from_be_bytes([*length_high, *length_low]));
        if end > self.message.len() {
            return Err(Fault::Invalid);
        }
        self.at = end;
        Ok((u16::from_be_bytes([*kind_high, *kind_low]), start..end))
    }

    fn address(&self, kind: u16, data: &std::ops::Range<usize>) -> Result<Option<IpAddr>, Fault> {
        let bytes = self.message.get(data.clone()).unwrap_or_default();
        match Kind::from_code(kind) {
            Some(Kind::A) => <[u8; 4]>::try_from(bytes).map(|octets| Some(octets.into())).map_err(|_| Fault::Invalid),
            Some(Kind::Aaaa) => {
                <[u8; 16]>::try_from(bytes).map(|octets| Some(octets.into())).map_err(|_| Fault::Invalid)
            }
            Some(Kind::Srv) | None => Ok(None),
        }
    }

    fn service(&self, data: &std::ops::Range<usize>) -> Result<Record, Fault> {
        let mut fields = Reader { message: self.message, at: data.start };
        if data.len() <= SERVICE_BYTES {
            return Err(Fault::Invalid);
        }
        let (_priority, weight, port) = (fields.number()?, fields.number()?, fields.number()?);
        let target = fields.name()?;
        if fields.at != data.end {
            return Err(Fault::Invalid);
        }
        Ok(Record::Service { target, port, weight })
    }
}

/// The id of a message, by which its question is found.
#[must_use]
pub(crate) fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Reads the answer to a question about `name`, with up to `records_max` records.
///
/// # Errors
/// What the name server says instead, or what is wrong with the answer.
pub fn decode_response(message: &[u8], name: &Name, records_max: usize) -> Result<Answer, Fault> {
    let mut reader = Reader { message, at: 2 };
    let flags = reader.number()?;
    if flags & FLAG_RESPONSE == 0 {
        return Err(Fault::Invalid);
    }
    match flags & MASK_CODE {
        0 => {}
        CODE_NO_SUCH_NAME => return Err(Fault::NoSuchName),
        CODE_REFUSED => return Err(Fault::Refused),
        _ => return Err(Fault::Failure),
    }
    if reader.number()? != 1 {
        return Err(Fault::QuestionCount);
    }
    let answers = reader.number()?;
    if answers == 0 {
        return Err(Fault::Empty);
    }
    if usize::from(answers) > records_max {
        return Err(Fault::Invalid);
    }
    let (authorities, additional) = (reader.number()?, reader.number()?);
    if reader.name()? != *name {
        return Err(Fault::WrongName);
    }
    let kind = reader.number()?;
    let _class = reader.number()?;
    let is_service = kind == Kind::Srv.code();
    // What there is of services can be used all the same.
    if flags & FLAG_TRUNCATED != 0 && !is_service {
        return Err(Fault::Truncated);
    }
    let mut answer = Answer { records: read_answers(&mut reader, answers, name, is_service)?, ..Answer::default() };
    if is_service {
        for _ in 0..authorities {
            skip_name(&mut reader)?;
            reader.record()?;
        }
        for _ in 0..additional {
            let owner = skip_name(&mut reader)?;
            let (kind, data) = reader.record()?;
            if let (Some(owner), Some(address)) = (owner, reader.address(kind, &data)?) {
                answer.additional.push((owner, address));
            }
        }
    }
    Ok(answer)
}

/// The records of the answer section: each belongs to the name that was asked for, or to what it is an alias of.
fn read_answers(reader: &mut Reader<'_>, count: u16, name: &Name, is_service: bool) -> Result<Vec<Record>, Fault> {
    let mut expected = name.clone();
    let mut records = Vec::new();
    for index in 0..count {
        let owner = reader.name()?;
        if !is_service && owner != expected {
            return Err(if index == 0 { Fault::Invalid } else { Fault::Alias });
        }
        let (kind, data) = reader.record()?;
        if kind == CNAME {
            if index + 1 == count {
                return Err(Fault::Alias);
            }
            expected = Reader { message: reader.message, at: data.start }.name()?;
        } else if let Some(address) = reader.address(kind, &data)? {
            records.push(Record::Address(address));
        } else if kind == Kind::Srv.code() {
            records.push(reader.service(&data)?);
        }
    }
    Ok(records)
}

/// A record's name, which may be the root in sections that only some records of matter.
fn skip_name(reader: &mut Reader<'_>) -> Result<Option<Name>, Fault> {
    if reader.message.get(reader.at) == Some(&0) {
        reader.at += 1;
        return Ok(None);
    }
    reader.name().map(Some)
}
