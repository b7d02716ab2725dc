//! Names of positions and of histories.

use std::{fmt, ops::Add};

/// A position in the log: how many bytes of commands come before it. It is Redis' replication offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Add<u64> for Offset {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Which history of the data a log tells: forty hexadecimal digits, as Redis has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicationId([u8; Self::LEN]);

impl ReplicationId {
    /// Its digits.
    pub const LEN: usize = 40;

    /// One of random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; Self::LEN / 2]) -> Self {
        let digit = |value: u8| b"0123456789abcdef".get(usize::from(value & 15)).copied().unwrap_or(b'0');
        let mut id = [b'0'; Self::LEN];
        for (digits, byte) in id.chunks_exact_mut(2).zip(bytes) {
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
        Self(id)
    }

    /// One of its digits; `None` if they are not that.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let id: [u8; Self::LEN] = text.try_into().ok()?;
        id.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(id))
    }

    /// Its digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
