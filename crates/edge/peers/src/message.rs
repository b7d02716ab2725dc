//! Messages: a class, a type, and for types from 128 on the length of what follows.

use thiserror::Error;

use crate::varint::{self, Reader};

pub(crate) const CLASS_CONTROL: u8 = 0;
pub(crate) const CLASS_ERROR: u8 = 1;
pub(crate) const CLASS_TABLE: u8 = 10;
pub(crate) const CLASS_RESERVED: u8 = 255;

pub(crate) const UPDATE: u8 = 0x80;
pub(crate) const UPDATE_INCREMENTAL: u8 = 0x81;
pub(crate) const DEFINE: u8 = 0x82;
pub(crate) const SWITCH: u8 = 0x83;
pub(crate) const ACK: u8 = 0x84;
pub(crate) const UPDATE_TIMED: u8 = 0x85;
pub(crate) const UPDATE_INCREMENTAL_TIMED: u8 = 0x86;

/// Types from this on have a length.
const WITH_LENGTH: u8 = 0x80;
/// Most bytes of a length.
const LENGTH_LEN_MAX: usize = 5;
/// Most bytes before what follows.
pub(crate) const HEAD_LEN_MAX: usize = 2 + LENGTH_LEN_MAX;

/// What peers say about learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Tell me all that you know.
    ResyncRequest,
    /// That was all, and I know all.
    ResyncFinished,
    /// That was all that I know, and there is more.
    ResyncPartial,
    /// I got all that.
    ResyncConfirm,
    /// I live.
    Heartbeat,
}

impl Control {
    pub(crate) const fn bytes(self) -> [u8; 2] {
        [CLASS_CONTROL, self as u8]
    }

    pub(crate) const fn of(kind: u8) -> Option<Self> {
        match kind {
            0 => Some(Self::ResyncRequest),
            1 => Some(Self::ResyncFinished),
            2 => Some(Self::ResyncPartial),
            3 => Some(Self::ResyncConfirm),
            4 => Some(Self::Heartbeat),
            _ => None,
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its class.
    pub class: u8,
    /// Its type.
    pub kind: u8,
    /// What follows.
    pub payload: &'a [u8],
    /// How long the whole is.
    pub len: usize,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// It is longer than this process takes.
    #[error("the message is too long")]
    TooLong,
    /// It is none.
    #[error("the message makes no sense")]
    Protocol,
}

impl FrameError {
    /// What the peer is told.
    pub(crate) const fn bytes(self) -> [u8; 2] {
        match self {
            Self::Protocol => [CLASS_ERROR, 0],
            Self::TooLong => [CLASS_ERROR, 1],
        }
    }
}

/// The message at the front of `bytes`; nothing while it is not whole.
///
/// # Errors
/// When there can be none.
pub fn frame(bytes: &[u8], len_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let [class, kind, rest @ ..] = bytes else { return Ok(None) };
    let (class, kind) = (*class, *kind);
    if kind < WITH_LENGTH {
        return Ok(Some(Frame { class, kind, payload: &[], len: 2 }));
    }
    let mut reader = Reader::new(rest.get(..LENGTH_LEN_MAX).unwrap_or(rest));
    let Some(len) = reader.integer() else {
        return if rest.len() < LENGTH_LEN_MAX { Ok(None) } else { Err(FrameError::Protocol) };
    };
    if len > len_max as u64 {
        return Err(FrameError::TooLong);
    }
    let head = rest.len().min(LENGTH_LEN_MAX) - reader.rest().len();
    let payload = rest.get(head..).and_then(|rest| rest.get(..len as usize));
    Ok(payload.map(|payload| Frame { class, kind, payload, len: 2 + head + payload.len() }))
}

/// Appends a message of a table.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.extend_from_slice(&[CLASS_TABLE, kind]);
    varint::put(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// Appends an acknowledgement of an update of a table, by the number that the peer gave to the table.
pub(crate) fn put_ack(out: &mut Vec<u8>, table: u64, update: u32) {
    let mut payload = Vec::with_capacity(14);
    varint::put(&mut payload, table);
    payload.extend_from_slice(&update.to_be_bytes());
    put(out, ACK, &payload);
}

/// Reads an acknowledgement.
pub(crate) fn ack(payload: &[u8]) -> Option<(u64, u32)> {
    let mut reader = Reader::new(payload);
    Some((reader.integer()?, reader.word()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_when_they_are_whole() {
        let mut bytes = Vec::new();
        put(&mut bytes, UPDATE, &[7; 300]);
        assert_eq!(bytes.len(), 2 + 2 + 300);
        for len in 0..bytes.len() {
            assert_eq!(frame(&bytes[..len], 300), Ok(None), "{len}");
        }
        bytes.push(9);
        let found = frame(&bytes, 300).unwrap().unwrap();
        assert_eq!((found.class, found.kind, found.payload, found.len), (CLASS_TABLE, UPDATE, &[7; 300][..], 304));
        assert_eq!(frame(&bytes, 299), Err(FrameError::TooLong));
        assert_eq!(frame(&[10, 0x80, 255, 255, 255, 255, 255], 300), Err(FrameError::Protocol));
        assert_eq!(frame(&[10, 0x80, 255, 255, 255, 255], 300), Ok(None));
        let beat = Control::Heartbeat.bytes();
        assert_eq!(frame(&beat, 300), Ok(Some(Frame { class: 0, kind: 4, payload: &[], len: 2 })));
    }

    #[test]
    fn acknowledgements() {
        let mut bytes = Vec::new();
        put_ack(&mut bytes, 300, 0xdead_beef);
        let found = frame(&bytes, 100).unwrap().unwrap();
        assert_eq!((found.kind, ack(found.payload)), (ACK, Some((300, 0xdead_beef))));
        assert_eq!(ack(&[1, 0, 0, 0]), None);
    }

    #[test]
    fn controls_have_numbers() {
        for number in 0..5 {
            assert_eq!(Control::of(number).unwrap().bytes(), [0, number]);
        }
        assert_eq!(Control::of(5), None);
    }
}
