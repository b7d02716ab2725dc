//! What a plugin is asked.

use std::io::{self, Read};

use http::RequestHead;

/// A request, as a server behind the edge would get it: rules have been applied to it.
pub struct Request<'a> {
    head: &'a RequestHead,
    arguments: &'a [String],
    body: &'a mut dyn Read,
}

/// A body has more bytes than the plugin wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body has more than {0} bytes")]
pub struct TooLarge(pub usize);

impl<'a> Request<'a> {
    pub(crate) fn new(head: &'a RequestHead, arguments: &'a [String], body: &'a mut dyn Read) -> Self {
        Self { head, arguments, body }
    }

    /// `GET`
    #[must_use]
    pub fn method(&self) -> &'a [u8] {
        self.head.method()
    }

    /// The path as it was sent, without the query: `/a%20b`.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.head.path()
    }

    /// What stands behind `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.head.query()
    }

    /// The first value of a field; in letters of any size.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut fields = self.head.headers.iter();
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// All fields in their order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.head.headers.iter()
    }

    /// The words behind the plugin's name in the configuration.
    #[must_use]
    pub fn arguments(&self) -> &'a [String] {
        self.arguments
    }

    /// The body, which is received as it is read: a client that sends slowly lets the reader wait. It fails when the client leaves.
    pub fn body(&mut self) -> &mut dyn Read {
        &mut *self.body
    }

    /// The whole body.
    ///
    /// # Errors
    /// The client left; or [`TooLarge`], within an error of the kind [`io::ErrorKind::FileTooLarge`], if there are more than `most` bytes.
    pub fn read_body(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        self.body.take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, TooLarge(most)));
        }
        Ok(bytes)
    }
}
