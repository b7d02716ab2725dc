//! What a plugin answers.

use std::{
    fmt,
    io::{self, Read, Write},
};

/// Writes a body: it gets what is left of the request's body, and where the bytes go.
pub(crate) type Writer = Box<dyn FnOnce(&mut dyn Read, &mut dyn Write) -> io::Result<()> + Send>;

/// An answer. How long its body is, and whether the connection goes on, is not the plugin's business.
#[derive(Debug)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Body,
}

/// The body of an answer.
#[derive(Default)]
pub enum Body {
    /// None.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// What a function writes, as the client takes it. An error cuts the answer off, so that nobody takes a part for the whole.
    Written(Writer),
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Bytes(bytes) => formatter.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Self::Written(_) => formatter.write_str("Written"),
        }
    }
}

impl Answer {
    /// One without fields and without a body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Empty }
    }

    /// With one more field.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With text as its body.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.header("content-type", "text/plain; charset=utf-8").bytes(text.into().into_bytes())
    }

    /// With these bytes as its body.
    #[must_use]
    pub fn bytes(mut self, bytes: Vec<u8>) -> Self {
        self.body = Body::Bytes(bytes);
        self
    }

    /// With a body that a function writes while the client takes it. It gets what is left of the request's body, too: an answer may be made of
    /// it while it comes, without either in memory.
    #[must_use]
    pub fn written(
        mut self,
        write: impl FnOnce(&mut dyn Read, &mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> Self {
        self.body = Body::Written(Box::new(write));
        self
    }
}
