//! Replies into [`Value`]s, for whoever is a client.
//!
//! Elements that are whole are taken out of the buffer at once, so a reply of a gigabyte is not held twice. Lines are as the
//! protocol has them, with a carriage return and a line feed: servers have no reason for leniency.

use crate::{number::parse_integer, value::Value};

/// For how many elements there is room at once, whatever a header says.
const ELEMENTS_AT_ONCE: usize = 1_024;

/// What a reply may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Collections within collections.
    pub depth_max: usize,
    /// Bytes of memory that a value may take, all that is in it included.
    pub memory_len_max: usize,
    /// Longest line.
    pub line_len_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self { depth_max: 64, memory_len_max: 1024 * 1024 * 1024, line_len_max: 64 * 1024 }
    }
}

/// A reply that cannot be read. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No type begins with this byte.
    #[error("a reply begins with the byte {0:#04x}")]
    UnknownType(u8),
    /// A line that is longer than any may be.
    #[error("a line of a reply is too long")]
    LineTooLong,
    /// A line or string without the line break that ends it.
    #[error("a reply lacks a line break")]
    NoLineBreak,
    /// Not a number, a length or a truth where one has to be.
    #[error("a reply has a wrong number or length")]
    InvalidNumber,
    /// Collections within collections, too many of them.
    #[error("a reply is nested too deeply")]
    TooDeep,
    /// It would take more memory than allowed.
    #[error("a reply is too large")]
    TooLarge,
}

/// How far a reply has come.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyProgress {
    /// More is to come.
    Incomplete {
        /// How many bytes of the buffer are not needed any more.
        consumed: usize,
        /// At least how many bytes are missing behind the buffer.
        needed: usize,
    },
    /// It is whole.
    Complete {
        /// How many bytes of the buffer are not needed any more.
        consumed: usize,
        /// The reply.
        value: Value,
    },
}

/// Reads replies, one after the other. Each time, the buffer given begins behind what was consumed the last time. An error is
/// final.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// Collections that are not complete, the outermost first.
    stack: Vec<Collection>,
    /// The string whose line has been read.
    bulk: Option<(BulkKind, usize)>,
    /// How much of the line at the buffer's beginning has been searched for its end.
    searched: usize,
    /// How much memory the reply takes so far.
    memory_len: usize,
}

#[derive(Clone, Copy, Debug)]
enum BulkKind {
    Bulk,
    Error,
    Verbatim,
}

#[derive(Clone, Copy, Debug)]
enum CollectionKind {
    Array,
    Set,
    Push,
    Map,
    /// Keys and values, then what they belong to.
    Attribute,
}

#[derive(Debug)]
struct Collection {
    kind: CollectionKind,
    missing: usize,
    elements: Vec<Value>,
}

/// What was found at a place.
enum Element {
    Value(Value),
    Opened,
    Missing(usize),
}

impl ReplyParser {
    /// One at the beginning of a reply.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with the reply that `buffer` continues.
    ///
    /// # Errors
    ///
    /// The bytes are no reply, or one beyond the limits.
    pub fn parse(&mut self, buffer: &[u8], limits: &ReplyLimits) -> Result<ReplyProgress, ReplyError> {
        let mut consumed = 0;
        loop {
            let rest = buffer.get(consumed..).unwrap_or_default();
            let (taken, element) = match self.bulk {
                Some((kind, len)) => self.take_bulk(rest, kind, len)?,
                None => self.take_line(rest, limits)?,
            };
            consumed += taken;
            match element {
                Element::Missing(needed) => return Ok(ReplyProgress::Incomplete { consumed, needed }),
                Element::Opened => {}
                Element::Value(value) => {
                    if let Some(value) = self.add(value) {
                        self.memory_len = 0;
                        return Ok(ReplyProgress::Complete { consumed, value });
                    }
                }
            }
        }
    }

    /// Whether some of a reply has been consumed and more is to come.
    #[must_use]
    pub fn is_within_reply(&self) -> bool {
        !self.stack.is_empty() || self.bulk.is_some()
    }

    /// Puts a value where it belongs: `Some` if that is nowhere, as it is the reply.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        while let Some(collection) = self.stack.last_mut() {
            collection.elements.push(value);
            collection.missing = collection.missing.saturating_sub(1);
            if collection.missing > 0 {
                return None;
            }
            value = self.stack.pop()?.into_value();
        }
        Some(value)
    }

    fn take_bulk(&mut self, rest: &[u8], kind: BulkKind, len: usize) -> Result<(usize, Element), ReplyError> {
        let Some((bytes, behind)) = rest.split_at_checked(len).filter(|(_, behind)| behind.len() >= 2) else {
            return Ok((0, Element::Missing(len.saturating_add(2) - rest.len())));
        };
        if !behind.starts_with(b"\r\n") {
            return Err(ReplyError::NoLineBreak);
        }
        let value = match (kind, bytes) {
            (BulkKind::Bulk, _) => Value::Bulk(bytes.to_vec()),
            (BulkKind::Error, _) => Value::Error(bytes.to_vec()),
            (BulkKind::Verbatim, [a, b, c, b':', text @ ..]) => {
                Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() }
            }
            (BulkKind::Verbatim, _) => return Err(ReplyError::InvalidNumber),
        };
        self.bulk = None;
        Ok((len + 2, Element::Value(value)))
    }

    fn take_line(&mut self, rest: &[u8], limits: &ReplyLimits) -> Result<(usize, Element), ReplyError> {
        let found = memchr::memchr(b'\r', rest.get(self.searched..).unwrap_or_default());
        let end = found.map_or(rest.len(), |found| self.searched + found);
        if end > limits.line_len_max {
            return Err(ReplyError::LineTooLong);
        }
        self.searched = end;
        match rest.get(end + 1) {
            None => return Ok((0, Element::Missing(1))),
            Some(b'\n') => {}
            Some(_) => return Err(ReplyError::NoLineBreak),
        }
        self.searched = 0;
        let (&kind, text) = rest.get(..end).and_then(<[u8]>::split_first).ok_or(ReplyError::UnknownType(b'\r'))?;
        self.charge(size_of::<Value>().saturating_add(text.len()), limits)?;
        let element = match kind {
            b'+' => Element::Value(Value::Simple(text.to_vec())),
            b'-' => Element::Value(Value::Error(text.to_vec())),
            b':' => Element::Value(Value::Integer(parse_integer(text).ok_or(ReplyError::InvalidNumber)?)),
            b'$' if text == b"-1" => Element::Value(Value::Null),
            b'$' => self.open_bulk(BulkKind::Bulk, text, limits)?,
            b'!' => self.open_bulk(BulkKind::Error, text, limits)?,
            b'=' => self.open_bulk(BulkKind::Verbatim, text, limits)?,
            b'_' if text.is_empty() => Element::Value(Value::Null),
            b'#' if text == b"t" => Element::Value(Value::Boolean(true)),
            b'#' if text == b"f" => Element::Value(Value::Boolean(false)),
            b',' => Element::Value(Value::Double(parse_double(text).ok_or(ReplyError::InvalidNumber)?)),
            b'(' => Element::Value(Value::BigNumber(check_digits(text)?.to_vec())),
            b'*' if text == b"-1" => Element::Value(Value::NullArray),
            b'*' => self.open(CollectionKind::Array, text, limits)?,
            b'~' => self.open(CollectionKind::Set, text, limits)?,
            b'>' => self.open(CollectionKind::Push, text, limits)?,
            b'%' => self.open(CollectionKind::Map, text, limits)?,
            b'|' => self.open(CollectionKind::Attribute, text, limits)?,
            b'_' | b'#' => return Err(ReplyError::InvalidNumber),
            other => return Err(ReplyError::UnknownType(other)),
        };
        Ok((end + 2, element))
    }

    fn open_bulk(&mut self, kind: BulkKind, text: &[u8], limits: &ReplyLimits) -> Result<Element, ReplyError> {
        let len = parse_length(text)?;
        self.charge(len, limits)?;
        self.bulk = Some((kind, len));
        Ok(Element::Opened)
    }

    fn open(&mut self, kind: CollectionKind, text: &[u8], limits: &ReplyLimits) -> Result<Element, ReplyError> {
        let len = parse_length(text)?;
        let missing = match kind {
            CollectionKind::Map => len.checked_mul(2),
            CollectionKind::Attribute => len.checked_mul(2).and_then(|elements| elements.checked_add(1)),
            _ => Some(len),
        };
        let missing = missing.ok_or(ReplyError::TooLarge)?;
        if self.stack.len() >= limits.depth_max {
            return Err(ReplyError::TooDeep);
        }
        let collection = Collection { kind, missing, elements: Vec::with_capacity(missing.min(ELEMENTS_AT_ONCE)) };
        if missing == 0 {
            return Ok(Element::Value(collection.into_value()));
        }
        self.stack.push(collection);
        Ok(Element::Opened)
    }

    fn charge(&mut self, len: usize, limits: &ReplyLimits) -> Result<(), ReplyError> {
        self.memory_len = self.memory_len.saturating_add(len);
        if self.memory_len > limits.memory_len_max { Err(ReplyError::TooLarge) } else { Ok(()) }
    }
}

impl Collection {
    fn into_value(self) -> Value {
        let mut elements = self.elements;
        match self.kind {
            CollectionKind::Array => Value::Array(elements),
            CollectionKind::Set => Value::Set(elements),
            CollectionKind::Push => Value::Push(elements),
            CollectionKind::Map => Value::Map(pairs(elements)),
            CollectionKind::Attribute => {
                let value = elements.pop().unwrap_or(Value::Null);
                Value::Attributed { attributes: pairs(elements), value: Box::new(value) }
            }
        }
    }
}

fn pairs(elements: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn parse_length(text: &[u8]) -> Result<usize, ReplyError> {
    parse_integer(text).and_then(|len| usize::try_from(len).ok()).ok_or(ReplyError::InvalidNumber)
}

fn parse_double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => Some(f64::NAN),
        [b'-' | b'0'..=b'9', ..] => {
            std::str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
        }
        _ => None,
    }
}

fn check_digits(text: &[u8]) -> Result<&[u8], ReplyError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) { Ok(text) } else { Err(ReplyError::InvalidNumber) }
}
