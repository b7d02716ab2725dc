//! Records of FastCGI (its specification, section 3.3).
//!
//! ```text
//!  version  type  id (2)  length (2)  padding  reserved │ content (length) │ padding
//! ```

use thiserror::Error;

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;

/// Bytes of a record's content at most.
pub const CONTENT_BYTES_MAX: usize = 0xffff;

/// The content of records that are written: a multiple of eight, as the specification recommends, so that none needs padding.
const CONTENT_WRITTEN_MAX: usize = CONTENT_BYTES_MAX & !7;

/// Bytes of a record that must be read whole (END_REQUEST, GET_VALUES_RESULT): an answer to three questions is a fraction of that.
const WHOLE_BYTES_MAX: usize = 4096;

/// The version that there is.
const VERSION: u8 = 1;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request begins.
    BeginRequest,
    /// A request is given up.
    AbortRequest,
    /// A request is over.
    EndRequest,
    /// The variables of a request.
    Params,
    /// The body of a request.
    Stdin,
    /// The answer.
    Stdout,
    /// Complaints for the log.
    Stderr,
    /// A second body, for filters.
    Data,
    /// What the application is, is asked.
    GetValues,
    /// The answer to that.
    GetValuesResult,
    /// The application does not know a type.
    UnknownType,
    /// Another one.
    Other(u8),
}

impl Kind {
    fn of(code: u8) -> Self {
        match code {
            1 => Self::BeginRequest,
            2 => Self::AbortRequest,
            3 => Self::EndRequest,
            4 => Self::Params,
            5 => Self::Stdin,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Data,
            9 => Self::GetValues,
            10 => Self::GetValuesResult,
            11 => Self::UnknownType,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::BeginRequest => 1,
            Self::AbortRequest => 2,
            Self::EndRequest => 3,
            Self::Params => 4,
            Self::Stdin => 5,
            Self::Stdout => 6,
            Self::Stderr => 7,
            Self::Data => 8,
            Self::GetValues => 9,
            Self::GetValuesResult => 10,
            Self::UnknownType => 11,
            Self::Other(code) => code,
        }
    }

    /// Whether it is about the connection, rather than about a request.
    fn is_management(self) -> bool {
        matches!(self, Self::GetValues | Self::GetValuesResult | Self::UnknownType | Self::Other(_))
    }

    /// Whether its content counts only as a whole.
    fn is_whole(self) -> bool {
        matches!(self, Self::EndRequest | Self::GetValuesResult)
    }
}

/// Why nothing more can be read on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// No other version has been specified.
    #[error("a record has version {0}, not 1")]
    Version(u8),
    /// Id 0 stands for the connection.
    #[error("a record about a request has id 0")]
    IdZero,
    /// It is longer than it can be.
    #[error("a record that must be read whole has {0} bytes")]
    TooLong(usize),
    /// It is shorter than it can be.
    #[error("the end of a request has {0} bytes, not 8")]
    TooShort(usize),
    /// What should be names and values is not.
    #[error("values of the application are malformed")]
    Values,
}

/// Appends a record's header. `length` is below 65536.
pub fn write_header(kind: Kind, id: u16, length: usize, out: &mut Vec<u8>) {
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let id = id.to_be_bytes();
    let ([id_high, id_low], [length_high, length_low]) = (id, length);
    out.extend_from_slice(&[VERSION, kind.code(), id_high, id_low, length_high, length_low, 0, 0]);
}

/// Appends bytes of a stream, in as many records as they need; none for no bytes, since an empty record ends a stream.
pub fn write_stream(kind: Kind, id: u16, bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.chunks(CONTENT_WRITTEN_MAX) {
        write_header(kind, id, piece.len(), out);
        out.extend_from_slice(piece);
    }
}

/// A piece of what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of a record's content, from one place of the input to another. A record without content gives one empty piece.
    Bytes {
        /// The record.
        kind: Kind,
        /// The request.
        id: u16,
        /// The first byte.
        from: usize,
        /// Behind the last byte.
        to: usize,
        /// Whether the record has no content: that ends a stream.
        is_empty_record: bool,
    },
    /// A record that counts as a whole has come; its content is [`Reader::whole`].
    Whole {
        /// The record.
        kind: Kind,
        /// The request.
        id: u16,
    },
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Before a header.
    #[default]
    Header,
    /// Within the content of a record.
    Content { kind: Kind, id: u16, left: usize, padding: usize },
    /// Within the padding.
    Padding { left: usize },
}

/// Reads records, however their bytes arrive, and without keeping them.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    whole: Vec<u8>,
}

impl Reader {
    /// The content of the record that was read whole last.
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// Whether nothing of a record has been read that is not over.
    pub fn is_between_records(&self) -> bool {
        matches!(self.state, State::Header)
    }

    /// The next piece of `input`, of which `used` bytes were read before; none if nothing more can be said. Bytes of a header that is
    /// not whole stay unused: they are to be given again, with more behind them.
    pub fn next(&mut self, input: &[u8], used: &mut usize) -> Result<Option<Piece>, RecordError> {
        loop {
            let rest = input.get(*used..).unwrap_or_default();
            match self.state {
                State::Header => {
                    let Some([version, kind, id_high, id_low, high, low, padding, _]) = rest.first_chunk() else {
                        return Ok(None);
                    };
                    if *version != VERSION {
                        return Err(RecordError::Version(*version));
                    }
                    let (kind, id) = (Kind::of(*kind), u16::from_be_bytes([*id_high, *id_low]));
                    if id == 0 && !kind.is_management() {
                        return Err(RecordError::IdZero);
                    }
                    let left = usize::from(u16::from_be_bytes([*high, *low]));
                    if kind.is_whole() {
                        if left > WHOLE_BYTES_MAX {
                            return Err(RecordError::TooLong(left));
                        }
                        self.whole.clear();
                    }
                    *used += HEADER_BYTES;
                    self.state = State::Content { kind, id, left, padding: usize::from(*padding) };
                    if left == 0 {
                        self.state = State::Padding { left: usize::from(*padding) };
                        return Ok(Some(match kind.is_whole() {
                            true => Piece::Whole { kind, id },
                            false => Piece::Bytes { kind, id, from: *used, to: *used, is_empty_record: true },
                        }));
                    }
                }
                State::Content { kind, id, left, padding } => {
                    let taken = left.min(rest.len());
                    if taken == 0 {
                        return Ok(None);
                    }
                    let from = *used;
                    *used += taken;
                    self.state = match left - taken {
                        0 => State::Padding { left: padding },
                        left => State::Content { kind, id, left, padding },
                    };
                    if !kind.is_whole() {
                        return Ok(Some(Piece::Bytes { kind, id, from, to: *used, is_empty_record: false }));
                    }
                    self.whole.extend_from_slice(rest.get(..taken).unwrap_or_default());
                    if taken == left {
                        return Ok(Some(Piece::Whole { kind, id }));
                    }
                }
                State::Padding { left } => {
                    let taken = left.min(rest.len());
                    *used += taken;
                    self.state = State::Padding { left: left - taken };
                    if taken < left {
                        return Ok(None);
                    }
                    self.state = State::Header;
                }
            }
        }
    }
}
