//! Replies as values.

/// A reply, of either version of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a line.
    Simple(Vec<u8>),
    /// `-`: an error in a line, `!`: one of any bytes. Its first word is its code.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`: any bytes.
    Bulk(Vec<u8>),
    /// `=`: any bytes with a format.
    Verbatim {
        /// `txt`, `mkd`
        format: [u8; 3],
        /// The bytes behind it.
        text: Vec<u8>,
    },
    /// `_`, and `$-1` of the older protocol.
    Null,
    /// `*-1` of the older protocol.
    NullArray,
    /// `#`
    Boolean(bool),
    /// `,`
    Double(f64),
    /// `(`: the digits of a whole number of any size.
    BigNumber(Vec<u8>),
    /// `*`
    Array(Vec<Self>),
    /// `~`
    Set(Vec<Self>),
    /// `>`: what was not asked for.
    Push(Vec<Self>),
    /// `%`: in the order in which they came.
    Map(Vec<(Self, Self)>),
    /// `|`: a reply with something besides.
    Attributed {
        /// What is besides it.
        attributes: Vec<(Self, Self)>,
        /// The reply itself.
        value: Box<Self>,
    },
}

impl Value {
    /// The bytes of what is a string, of whichever kind.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) | Self::BigNumber(bytes) | Self::Verbatim { text: bytes, .. } => {
                Some(bytes)
            }
            Self::Attributed { value, .. } => value.as_bytes(),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Attributed { value, .. } => value.as_integer(),
            _ => None,
        }
    }

    /// The text of an error, if it is one.
    #[must_use]
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Self::Error(text) => Some(text),
            Self::Attributed { value, .. } => value.as_error(),
            _ => None,
        }
    }

    /// The elements of an array, a set or a push.
    #[must_use]
    pub fn as_slice(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            Self::Attributed { value, .. } => value.as_slice(),
            _ => None,
        }
    }

    /// Whether it is nothing, of whichever kind.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullArray)
    }
}
