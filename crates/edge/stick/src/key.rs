//! Keys of entries.

use std::borrow::Cow;

/// The type of a table's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// `ip`: an IPv4 address in network order.
    Ip,
    /// `ipv6`.
    Ipv6,
    /// `integer`: 32 bits, kept in the machine's order as HAProxy keeps them.
    Integer,
    /// `string`: of any length up to the table's.
    String,
    /// `binary`: of exactly the table's length.
    Binary,
}

impl KeyType {
    /// All.
    pub const ALL: [Self; 5] = [Self::Ip, Self::Ipv6, Self::Integer, Self::String, Self::Binary];

    /// HAProxy's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ipv6 => "ipv6",
            Self::Integer => "integer",
            Self::String => "string",
            Self::Binary => "binary",
        }
    }

    /// The length of its keys, if it is the same in all tables.
    #[must_use]
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            Self::Ip | Self::Integer => Some(4),
            Self::Ipv6 => Some(16),
            Self::String | Self::Binary => None,
        }
    }
}

/// A key to look for: as short as an address without an allocation, or borrowed.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// Up to 16 bytes.
    Short {
        /// They, and what lies behind.
        bytes: [u8; 16],
        /// How many.
        len: usize,
    },
    /// Any number of bytes.
    Long(Cow<'a, [u8]>),
}

impl<'a> Key<'a> {
    /// An IPv4 address.
    #[must_use]
    pub fn ip(address: std::net::Ipv4Addr) -> Self {
        Self::short(&address.octets())
    }

    /// An IPv6 address.
    #[must_use]
    pub fn ipv6(address: std::net::Ipv6Addr) -> Self {
        Self::short(&address.octets())
    }

    /// An integer.
    #[must_use]
    pub fn integer(number: u32) -> Self {
        Self::short(&number.to_ne_bytes())
    }

    /// A text, as much of it as `len_max` allows; a byte of 0 ends it.
    #[must_use]
    pub fn text(text: &'a [u8], len_max: usize) -> Self {
        let text = text.get(..len_max).unwrap_or(text);
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Self::Long(Cow::Borrowed(text.get(..end).unwrap_or(text)))
    }

    /// A block of exactly `len` bytes: cut, or filled up with zeros.
    #[must_use]
    pub fn block(block: &'a [u8], len: usize) -> Self {
        match block.get(..len) {
            Some(block) => Self::Long(Cow::Borrowed(block)),
            None => {
                let mut filled = block.to_vec();
                filled.resize(len, 0);
                Self::Long(Cow::Owned(filled))
            }
        }
    }

    /// The same without borrowing.
    #[must_use]
    pub fn into_owned(self) -> Key<'static> {
        match self {
            Self::Short { bytes, len } => Key::Short { bytes, len },
            Self::Long(bytes) => Key::Long(Cow::Owned(bytes.into_owned())),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { bytes, len } => bytes.get(..*len).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }

    fn short(from: &[u8]) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Self::Short { bytes, len: from.len().min(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_length_of_the_table() {
        assert_eq!(Key::text(b"abcdef", 4).bytes(), b"abcd");
        assert_eq!(Key::text(b"ab\0cd", 4).bytes(), b"ab");
        assert_eq!(Key::text(b"", 4).bytes(), b"");
        assert_eq!(Key::block(b"abcdef", 4).bytes(), b"abcd");
        assert_eq!(Key::block(b"ab", 4).bytes(), b"ab\0\0");
        assert_eq!(Key::ip([192, 0, 2, 1].into()).bytes(), [192, 0, 2, 1]);
        assert_eq!(Key::integer(7).bytes(), 7_u32.to_ne_bytes());
        assert_eq!(Key::ipv6(std::net::Ipv6Addr::LOCALHOST).into_owned().bytes().len(), 16);
    }
}
