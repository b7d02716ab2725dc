//! What can be wrong with an expression, a condition or a log format.

use thiserror::Error;

/// Why something was refused, for those who decide on more than the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A word that HAProxy 2.6 does not have.
    Unknown,
    /// A word of HAProxy 2.6 that is not supported here.
    Unsupported,
    /// An argument that is missing, in excess or malformed.
    Argument,
    /// A converter or a matching method that does not fit the type before it.
    Type,
    /// A word at a place where what it needs is not there.
    Place,
    /// A file that cannot be read or holds something malformed.
    File,
    /// Malformed otherwise.
    Syntax,
}

/// A refused expression, condition or log format. Its text is HAProxy's message, and the nearest known word if there is
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}{}", near.as_ref().map(|near| format!(", did you mean '{near}' ?")).unwrap_or_default())]
pub struct Error {
    kind: ErrorKind,
    message: String,
    word: Option<String>,
    near: Option<String>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), word: None, near: None }
    }

    pub(crate) fn word(mut self, word: &[u8]) -> Self {
        self.word = Some(String::from_utf8_lossy(word).into_owned());
        self
    }

    pub(crate) fn near(mut self, near: Option<&str>) -> Self {
        self.near = near.map(str::to_owned);
        self
    }

    /// The same error with more said around its message.
    pub(crate) fn context(mut self, context: impl FnOnce(&str) -> String) -> Self {
        self.message = context(&self.message);
        self
    }

    /// The sort of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message alone, without the suggestion.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The word at fault, to point at in its line.
    #[must_use]
    pub fn culprit(&self) -> Option<&str> {
        self.word.as_deref()
    }

    /// The known word nearest to the one at fault.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.near.as_deref()
    }
}
