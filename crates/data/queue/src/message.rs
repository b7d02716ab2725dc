//! A message as it came, and as its record has it.

use std::fmt;

use crate::{
    codec::{Malformed, Reader, put_number, put_string},
    limits::{GROUP_LEN_MAX, HEADER_LEN_MAX, HEADER_NAME_LEN_MAX, HEADERS_MAX, ID_LEN_MAX, REPLY_TO_LEN_MAX},
};

/// Names a message of a queue. Later messages have greater numbers, also those of a later queue under the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl MessageId {
    /// Reads what is shown of it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        parse_number(text).map(Self)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Names a message and one of its reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// The number of the reservation.
    pub number: u32,
}

impl Receipt {
    /// Reads what is shown of it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let (id, number) = (text.get(..dash)?, text.get(dash + 1..)?);
        let number = u32::try_from(parse_number(number)?).ok()?;
        Some(Self { id: MessageId::parse(id)?, number })
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.id.0, self.number)
    }
}

/// A message that is to be published.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewMessage<'a> {
    /// What it says.
    pub body: &'a [u8],
    /// Another message with the same id, within the queue's window, is the same message.
    pub id: Option<&'a [u8]>,
    /// Messages of a group are given in order, and none while another one is reserved.
    pub group: Option<&'a [u8]>,
    /// Where an answer goes.
    pub reply_to: Option<&'a [u8]>,
    /// Names and values.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// The lower, the more urgent.
    pub priority: u32,
    /// For how long it waits before it is given; the queue says if this does not.
    pub delay_ms: Option<u64>,
    /// After how long nobody wants it any more; likewise.
    pub expire_ms: Option<u64>,
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A group, or a de-duplication id, without a name.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// Something is too long.
    #[error("{0} is longer than {1} bytes")]
    TooLong(&'static str, usize),
    /// There are too many headers.
    #[error("there are more than {0} headers")]
    TooManyHeaders(usize),
}

impl NewMessage<'_> {
    /// Whether a record can have all of it.
    ///
    /// # Errors
    ///
    /// What is too long, or too many.
    pub fn check(&self) -> Result<(), Unfit> {
        for (what, string, len_max) in [
            ("the id", self.id, ID_LEN_MAX),
            ("the group", self.group, GROUP_LEN_MAX),
            ("the place of the answer", self.reply_to, REPLY_TO_LEN_MAX),
        ] {
            match string {
                Some(string) if string.len() > len_max => return Err(Unfit::TooLong(what, len_max)),
                Some([]) => return Err(Unfit::Empty(what)),
                _ => {}
            }
        }
        if self.headers.len() > HEADERS_MAX {
            return Err(Unfit::TooManyHeaders(HEADERS_MAX));
        }
        for (name, value) in self.headers {
            if name.is_empty() {
                return Err(Unfit::Empty("the name of a header"));
            }
            if name.len() > HEADER_NAME_LEN_MAX {
                return Err(Unfit::TooLong("the name of a header", HEADER_NAME_LEN_MAX));
            }
            if value.len() > HEADER_LEN_MAX {
                return Err(Unfit::TooLong("the value of a header", HEADER_LEN_MAX));
            }
        }
        Ok(())
    }

    /// The bytes that count for the queue's bound: body, headers and names.
    pub fn size(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let names = [self.id, self.group, self.reply_to].into_iter().flatten().map(<[u8]>::len).sum::<usize>();
        (self.body.len() + headers + names) as u64
    }

    pub(crate) fn encode(&self, published: u64, expires: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size() as usize + 32);
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        out.push(
            flag(self.group.is_some(), HAS_GROUP)
                | flag(self.id.is_some(), HAS_ID)
                | flag(self.reply_to.is_some(), HAS_REPLY_TO)
                | flag(!self.headers.is_empty(), HAS_HEADERS)
                | flag(expires > 0, HAS_EXPIRY),
        );
        put_number(&mut out, published);
        put_number(&mut out, u64::from(self.priority));
        if expires > 0 {
            put_number(&mut out, expires);
        }
        [self.group, self.id, self.reply_to].into_iter().flatten().for_each(|string| put_string(&mut out, string));
        if !self.headers.is_empty() {
            put_number(&mut out, self.headers.len() as u64);
            for (name, value) in self.headers {
                put_string(&mut out, name);
                put_string(&mut out, value);
            }
        }
        out.extend_from_slice(self.body);
        out
    }
}

const HAS_GROUP: u8 = 1;
const HAS_ID: u8 = 1 << 1;
const HAS_REPLY_TO: u8 = 1 << 2;
const HAS_HEADERS: u8 = 1 << 3;
const HAS_EXPIRY: u8 = 1 << 4;
const KNOWN: u8 = HAS_GROUP | HAS_ID | HAS_REPLY_TO | HAS_HEADERS | HAS_EXPIRY;

/// What never changes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// When it was published, in milliseconds since 1970.
    pub published: u64,
    /// The lower, the more urgent.
    pub priority: u32,
    /// When it expires; 0 if it does not.
    pub expires: u64,
    /// Its group.
    pub group: Option<&'a [u8]>,
    /// Its de-duplication id.
    pub id: Option<&'a [u8]>,
    /// Where an answer goes.
    pub reply_to: Option<&'a [u8]>,
    /// Names and values.
    pub headers: Vec<(&'a [u8], &'a [u8])>,
    /// What it says.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads its record.
    ///
    /// # Errors
    ///
    /// The record is damaged.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let flags = reader.byte()?;
        if flags & !KNOWN != 0 {
            return Err(Malformed("a message is of a later version"));
        }
        let (published, priority) = (reader.number()?, reader.number_32()?);
        let has = |flag| flags & flag != 0;
        let expires = if has(HAS_EXPIRY) { reader.number()? } else { 0 };
        let mut string = |flag, len_max| has(flag).then(|| reader.string(len_max)).transpose();
        let group = string(HAS_GROUP, GROUP_LEN_MAX)?;
        let id = string(HAS_ID, ID_LEN_MAX)?;
        let reply_to = string(HAS_REPLY_TO, REPLY_TO_LEN_MAX)?;
        let mut headers = Vec::new();
        if has(HAS_HEADERS) {
            let count = reader.number()?;
            if count > HEADERS_MAX as u64 {
                return Err(Malformed("there are too many headers"));
            }
            for _ in 0..count {
                headers.push((reader.string(HEADER_NAME_LEN_MAX)?, reader.string(HEADER_LEN_MAX)?));
            }
        }
        Ok(Self { published, priority, expires, group, id, reply_to, headers, body: reader.0 })
    }

    /// The bytes that count for the queue's bound.
    pub fn size(&self) -> u64 {
        self.as_new().size()
    }

    /// The same to be published again.
    pub fn as_new(&self) -> NewMessage<'_> {
        NewMessage {
            body: self.body,
            id: self.id,
            group: self.group,
            reply_to: self.reply_to,
            headers: &self.headers,
            priority: self.priority,
            delay_ms: Some(0),
            expire_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        let headers = [(&b"type"[..], &b"text/html"[..]), (b"empty", b"")];
        let full = NewMessage {
            body: b"body\0\xff",
            id: Some(b"id"),
            group: Some(b"group"),
            reply_to: Some(b"answers"),
            headers: &headers,
            priority: 7,
            ..NewMessage::default()
        };
        for (message, expires) in [(full, 99), (NewMessage { body: b"plain", ..NewMessage::default() }, 0)] {
            let bytes = message.encode(1_700_000_000_000, expires);
            let found = Message::decode(&bytes).unwrap();
            assert_eq!((found.published, found.expires, found.size()), (1_700_000_000_000, expires, message.size()));
            assert_eq!(found.as_new().encode(found.published, found.expires), bytes);
        }
        let bytes = full.encode(1, 2);
        let head = bytes.len() - full.body.len();
        assert!((0..head).all(|len| Message::decode(&bytes[..len]).is_err()));
    }

    #[test]
    fn receipts_have_one_form() {
        let receipt = Receipt { id: MessageId(12), number: 3 };
        assert_eq!(Receipt::parse(receipt.to_string().as_bytes()), Some(receipt));
        for text in ["", "-", "1-", "-1", "1-+1", "1-4294967296", "x-1", "1-1-1", "+1-1", "18446744073709551616-1"] {
            assert_eq!(Receipt::parse(text.as_bytes()), None, "{text}");
        }
    }
}
