//! The chunked transfer coding: RFC 9112 section 7.1.
//!
//! The decoder buffers nothing. It goes over the bytes as they pass and says which are data, so a proxy forwards them as
//! they are and still knows where the message ends. Size lines and trailers go through it byte by byte, data is skipped.
//!
//! ```text
//!          +---------------------------------------------------------+
//!          v                                                         |
//!   Size -> [Extension] -> SizeLf -> Data -> DataCr -> DataLf --------+
//!                            | size 0
//!                            v
//!                 +-> LineStart -> Name -> Value -> ValueLf --+
//!                 |      |                                    |
//!                 +------|------------------------------------+
//!                        v
//!                      EndLf -> Done
//! ```

use std::num::NonZeroUsize;

use crate::bytes::{TOKEN, is_blank, is_control};
use crate::error::{ParseError, ParseErrorKind as Kind};
use crate::header_id::HeaderId;
use crate::limits::Limits;
use basics::hex;

/// Sizes above this are refused, as by HAProxy: receivers that store them in fewer bits, signed, or as floats take them for others.
const CHUNK_SIZE_MAX: u64 = (1 << 52) - 1;

/// Digits of a chunk size, leading zeros included.
const SIZE_DIGITS_MAX: u8 = 16;

/// Bytes kept of a trailer name, enough to tell every forbidden one.
const NAME_KEPT: usize = 24;

/// What the first bytes of a slice are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPart {
    /// This many bytes of size lines, line ends or trailers. Zero when the slice is empty.
    Framing(usize),
    /// This many bytes of data.
    Data(usize),
    /// This many bytes of framing, and then the body has ended.
    End(usize),
}

/// What a slice holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkProgress {
    /// How many of its bytes belong to the body. All, unless the body ended.
    pub consumed: usize,
    /// How many of these are data.
    pub data_len: usize,
    /// Whether the body ended.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8 },
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    LineStart,
    Name,
    Value,
    ValueLf,
    EndLf,
    Done,
}

/// Inside chunk extensions: `*( ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
    AfterValue,
}

/// Follows one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Of the size being read, or of the data still to come.
    remaining: u64,
    /// Bytes of the body so far.
    position: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
    name_len: usize,
    name: [u8; NAME_KEPT],
    extension_bytes_max: usize,
    trailer_bytes_max: usize,
    name_bytes_max: usize,
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        ChunkedDecoder {
            state: State::Size { digits: 0 },
            remaining: 0,
            position: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            name_len: 0,
            name: [0; NAME_KEPT],
            extension_bytes_max: limits.extension_bytes_max,
            trailer_bytes_max: limits.trailer_bytes_max,
            name_bytes_max: limits.name_bytes_max,
        }
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many of the next bytes are surely data.
    #[must_use]
    pub fn data_ahead(&self) -> u64 {
        if self.state == State::Data { self.remaining } else { 0 }
    }

    /// How many bytes of trailers it has passed, without the line end after the last one.
    #[must_use]
    pub fn trailer_len(&self) -> usize {
        // The empty line begins like a trailer.
        self.trailer_bytes - usize::from(matches!(self.state, State::EndLf | State::Done))
    }

    /// How many bytes of the empty line that ends the body it has passed.
    #[must_use]
    pub fn empty_line_len(&self) -> usize {
        match self.state {
            State::EndLf => 1,
            State::Done => 2,
            _ => 0,
        }
    }

    /// Passes over up to `len` bytes of data that went by unseen; how many that were. At most
    /// [`ChunkedDecoder::data_ahead`].
    pub fn account(&mut self, len: u64) -> u64 {
        let taken = len.min(self.data_ahead());
        self.remaining -= taken;
        self.position += taken;
        if taken > 0 && self.remaining == 0 {
            self.state = State::DataCr;
        }
        taken
    }

    /// Goes over the longest part of `input` that is of one kind.
    ///
    /// # Errors
    /// When the bytes are not a chunked body within the limits. The decoder stays where the error is.
    pub fn next_part(&mut self, input: &[u8]) -> Result<ChunkPart, ParseError> {
        if self.state == State::Data && !input.is_empty() {
            let taken = self.account(input.len() as u64);
            // Not more than the length of the slice, so it fits.
            return Ok(ChunkPart::Data(usize::try_from(taken).unwrap_or(input.len())));
        }
        if self.state == State::Done {
            return Ok(ChunkPart::End(0));
        }
        let mut passed = 0;
        for byte in input {
            self.state = self.framing_byte(*byte).map_err(|kind| ParseError { kind, offset: self.position })?;
            self.position += 1;
            passed += 1;
            match self.state {
                State::Done => return Ok(ChunkPart::End(passed)),
                State::Data => break,
                _ => {}
            }
        }
        Ok(ChunkPart::Framing(passed))
    }

    /// Goes over `input` up to its end or that of the body.
    ///
    /// # Errors
    /// As [`ChunkedDecoder::next_part`].
    pub fn advance(&mut self, input: &[u8]) -> Result<ChunkProgress, ParseError> {
        self.advance_with(input, |_| {})
    }

    /// Like [`ChunkedDecoder::advance`], appending the data to `out`.
    ///
    /// # Errors
    /// As [`ChunkedDecoder::next_part`]; the data before the error has been appended.
    pub fn decode_into(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<ChunkProgress, ParseError> {
        self.advance_with(input, |data| out.extend_from_slice(data))
    }

    /// Like [`ChunkedDecoder::advance`], giving each run of data to `data`.
    ///
    /// # Errors
    /// As [`ChunkedDecoder::next_part`].
    pub fn advance_with<'a>(
        &mut self,
        input: &'a [u8],
        mut data: impl FnMut(&'a [u8]),
    ) -> Result<ChunkProgress, ParseError> {
        let mut progress = ChunkProgress::default();
        loop {
            let rest = input.get(progress.consumed..).unwrap_or_default();
            match self.next_part(rest)? {
                ChunkPart::Framing(0) => return Ok(progress),
                ChunkPart::Framing(len) => progress.consumed += len,
                ChunkPart::Data(len) => {
                    data(rest.get(..len).unwrap_or_default());
                    progress.consumed += len;
                    progress.data_len += len;
                }
                ChunkPart::End(len) => {
                    progress.consumed += len;
                    progress.done = true;
                    return Ok(progress);
                }
            }
        }
    }

    /// The state after one byte that is not data.
    #[inline]
    fn framing_byte(&mut self, byte: u8) -> Result<State, Kind> {
        match (self.state, byte) {
            (State::Size { digits }, byte) => self.size_byte(digits, byte),
            (State::Extension(extension), byte) => {
                self.extension_bytes += 1;
                if self.extension_bytes > self.extension_bytes_max {
                    return Err(Kind::ChunkExtensionTooLong);
                }
                extension.after(byte)
            }
            (State::SizeLf, b'\n') if self.remaining == 0 => Ok(State::LineStart),
            (State::SizeLf, b'\n') => Ok(State::Data),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => {
                self.extension_bytes = 0;
                Ok(State::Size { digits: 0 })
            }
            (State::DataCr, _) => Err(Kind::MissingChunkEnd),
            (State::SizeLf | State::DataLf | State::ValueLf | State::EndLf, byte) if byte != b'\n' => Err(Kind::BareCr),
            (State::EndLf, _) => Ok(State::Done),
            (State::Data | State::Done, _) => Ok(self.state),
            (_, byte) => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > self.trailer_bytes_max {
                    return Err(Kind::TrailersTooLarge);
                }
                self.trailer_byte(byte)
            }
        }
    }

    fn size_byte(&mut self, digits: u8, byte: u8) -> Result<State, Kind> {
        if let Some(digit) = hex::value(byte) {
            if digits == SIZE_DIGITS_MAX {
                return Err(Kind::ChunkSizeTooLong);
            }
            if self.remaining > CHUNK_SIZE_MAX >> 4 {
                return Err(Kind::ChunkSizeTooLarge);
            }
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(State::Size { digits: digits + 1 });
        }
        match byte {
            b'\n' => Err(Kind::BareLf),
            0 => Err(Kind::Nul),
            b'\r' if digits > 0 => Ok(State::SizeLf),
            b';' if digits > 0 => Ok(State::Extension(Extension::BeforeName)),
            _ => Err(Kind::InvalidChunkSize),
        }
    }

    /// RFC 9112 section 7.1.2, as strict as the fields of a head.
    fn trailer_byte(&mut self, byte: u8) -> Result<State, Kind> {
        match (self.state, byte) {
            (_, 0) => Err(Kind::Nul),
            (State::ValueLf, _) => Ok(State::LineStart),
            (_, b'\n') => Err(Kind::BareLf),
            (State::LineStart, b'\r') => Ok(State::EndLf),
            (State::LineStart, b':') => Err(Kind::EmptyName),
            (State::LineStart, byte) if is_blank(byte) => Err(Kind::ObsoleteFold),
            (State::LineStart | State::Name, byte) if TOKEN.has(byte) => {
                if self.state == State::LineStart {
                    self.name_len = 0;
                }
                if self.name_len >= self.name_bytes_max {
                    return Err(Kind::NameTooLong);
                }
                if let Some(kept) = self.name.get_mut(self.name_len) {
                    *kept = byte;
                }
                self.name_len += 1;
                Ok(State::Name)
            }
            (State::Name, b':') => match self.name.get(..self.name_len).map(HeaderId::of) {
                Some(id) if may_not_trail(id) => Err(Kind::ForbiddenTrailer),
                _ => Ok(State::Value),
            },
            (State::Name, b'\r') => Err(Kind::MissingColon),
            (State::Name, byte) if is_blank(byte) => Err(Kind::SpaceBeforeColon),
            (State::Value, b'\r') => Ok(State::ValueLf),
            (State::Value, byte) if !is_control(byte) => Ok(State::Value),
            (State::Value, _) => Err(Kind::ControlByte),
            _ => Err(Kind::InvalidNameByte),
        }
    }
}

impl Extension {
    fn after(self, byte: u8) -> Result<State, Kind> {
        use Extension::{AfterName, AfterQuoted, AfterValue, BeforeName, BeforeValue, Escaped, Name, Quoted, Value};
        let next = match (self, byte) {
            (_, b'\n') => return Err(Kind::BareLf),
            (_, 0) => return Err(Kind::Nul),
            (Name | Value | AfterQuoted, b'\r') => return Ok(State::SizeLf),
            (Quoted | Escaped, byte) if is_control(byte) => return Err(Kind::InvalidChunkExtension),
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) => Quoted,
            (BeforeName | BeforeValue | AfterName | AfterValue, byte) if is_blank(byte) => self,
            (Name, byte) if is_blank(byte) => AfterName,
            (Value | AfterQuoted, byte) if is_blank(byte) => AfterValue,
            (Name | AfterName | Value | AfterQuoted | AfterValue, b';') => BeforeName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeValue, b'"') => Quoted,
            (BeforeName | Name, byte) if TOKEN.has(byte) => Name,
            (BeforeValue | Value, byte) if TOKEN.has(byte) => Value,
            _ => return Err(Kind::InvalidChunkExtension),
        };
        Ok(State::Extension(next))
    }
}

/// Fields that decide framing, routing or the connection come too late in trailers (RFC 9110 section 6.5.1): somebody
/// who merges trailers into the head would read another message.
pub(crate) fn may_not_trail(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::ContentLength
            | HeaderId::TransferEncoding
            | HeaderId::Host
            | HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::Te
            | HeaderId::Trailer
            | HeaderId::Upgrade
            | HeaderId::Expect
            | HeaderId::MaxForwards
            | HeaderId::ContentEncoding
            | HeaderId::ContentType
            | HeaderId::ContentRange
            | HeaderId::Authorization
            | HeaderId::ProxyAuthorization
            | HeaderId::Cookie
            | HeaderId::SetCookie
    )
}

/// Appends the size line of a chunk with this many bytes of data.
pub fn write_chunk_start(len: NonZeroUsize, out: &mut Vec<u8>) {
    let len = len.get();
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        let nibble = u8::try_from(len >> (place * 4) & 15).unwrap_or(0);
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends what follows the data of a chunk.
pub fn write_chunk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole chunk; nothing when `data` is empty, as that would end the body.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if let Some(len) = NonZeroUsize::new(data.len()) {
        write_chunk_start(len, out);
        out.extend_from_slice(data);
        write_chunk_end(out);
    }
}

/// Appends the last chunk and an empty trailer block, which end a body.
pub fn write_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

#[cfg(test)]
mod tests;
