//! Bytes of a sample: borrowed from the message whenever possible, owned only once a converter had to build them.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// A run of bytes that a sample holds.
#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    /// Part of the message, of the configuration or of a constant.
    Borrowed(&'a [u8]),
    /// Built by a fetch or a converter.
    Owned(Vec<u8>),
    /// The value of a variable, shared with the variable.
    Shared(Arc<[u8]>),
}

impl<'a> Bytes<'a> {
    /// The bytes as a vector, copied only if they are not owned yet.
    #[must_use]
    pub fn into_owned(self) -> Vec<u8> {
        match self {
            Bytes::Borrowed(bytes) => bytes.to_vec(),
            Bytes::Owned(bytes) => bytes,
            Bytes::Shared(bytes) => bytes.to_vec(),
        }
    }

    /// The bytes as a shared block, copied only if they are not shared yet.
    #[must_use]
    pub fn into_shared(self) -> Arc<[u8]> {
        match self {
            Bytes::Borrowed(bytes) => Arc::from(bytes),
            Bytes::Owned(bytes) => Arc::from(bytes),
            Bytes::Shared(bytes) => bytes,
        }
    }

    /// The part of the bytes in `range`, cut to what exists. Borrowed bytes stay borrowed.
    #[must_use]
    pub fn slice(self, start: usize, end: usize) -> Bytes<'a> {
        let len = self.len();
        let (start, end) = (start.min(len), end.min(len));
        if start == 0 && end == len {
            return self;
        }
        match self {
            Bytes::Borrowed(bytes) => Bytes::Borrowed(bytes.get(start..end).unwrap_or_default()),
            Bytes::Owned(mut bytes) => {
                bytes.truncate(end);
                bytes.drain(..start.min(end));
                Bytes::Owned(bytes)
            }
            Bytes::Shared(bytes) => Bytes::Owned(bytes.get(start..end).unwrap_or_default().to_vec()),
        }
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for Bytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes<'_> {}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Bytes::Borrowed(bytes)
    }
}

impl<'a> From<&'a str> for Bytes<'a> {
    fn from(text: &'a str) -> Self {
        Bytes::Borrowed(text.as_bytes())
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::Owned(bytes)
    }
}

impl From<String> for Bytes<'_> {
    fn from(text: String) -> Self {
        Bytes::Owned(text.into_bytes())
    }
}

impl<'a> From<Cow<'a, [u8]>> for Bytes<'a> {
    fn from(bytes: Cow<'a, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => Bytes::Borrowed(bytes),
            Cow::Owned(bytes) => Bytes::Owned(bytes),
        }
    }
}
