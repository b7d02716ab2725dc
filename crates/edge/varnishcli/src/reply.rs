//! Replies: a status, a length, a text.
//!
//! ```text
//! 200 23      \n     13 bytes: three digits, a space, eight for the length
//! text of 23 bytes\n
//! ```

use serde::{Deserialize, Serialize};

/// Bytes of a reply before its text.
pub const HEAD_BYTES: usize = 13;
/// Bytes of a text that is read, at most.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// What a reply says of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u16)]
pub enum Status {
    /// The line was no command.
    Syntax = 100,
    /// There is no such command.
    Unknown = 101,
    /// The command is known and does nothing here.
    Unimplemented = 102,
    /// Arguments are missing.
    TooFew = 104,
    /// There are too many arguments.
    TooMany = 105,
    /// An argument cannot be.
    Parameter = 106,
    /// The client has to say who it is first, or may not do this.
    Authentication = 107,
    /// Done.
    Ok = 200,
    /// Done, but there is more to say than cli_limit allows.
    Truncated = 201,
    /// It cannot be done now.
    Cannot = 300,
    /// The worker does not answer.
    Communication = 400,
    /// The connection ends.
    Close = 500,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it says of its command. Replies of others may have any number.
    pub status: u16,
    /// The text.
    pub text: Vec<u8>,
}

impl Reply {
    /// A reply with that text.
    #[must_use]
    pub fn new(status: Status, text: impl Into<Vec<u8>>) -> Self {
        Self { status: status as u16, text: text.into() }
    }

    /// Whether its command was done.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok as u16 || self.status == Status::Truncated as u16
    }

    /// Cuts the text to less than `bytes` (the parameter cli_limit), and says so by the status.
    pub fn limit(&mut self, bytes: usize) {
        if self.text.len() > bytes {
            self.text.truncate(bytes.saturating_sub(1));
            if self.status == Status::Ok as u16 {
                self.status = Status::Truncated as u16;
            }
        }
    }

    /// As it goes over the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{:<3} {:<8}\n", self.status, self.text.len()).into_bytes();
        bytes.extend(&self.text);
        bytes.push(b'\n');
        bytes
    }
}

/// Replies out of a stream of bytes: the client's side.
#[derive(Debug, Default)]
pub struct ReplyReader {
    buffer: Vec<u8>,
}

impl ReplyReader {
    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// The next reply, once it is whole. `Err` when this is no reply, and then there is none any more.
    ///
    /// # Errors
    /// When the bytes are no reply; with a message.
    #[expect(clippy::should_implement_trait, reason = "it goes on when more bytes have come")]
    pub fn next(&mut self) -> Result<Option<Reply>, &'static str> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [status @ .., _] = head.first_chunk::<4>().ok_or("not a reply")?;
        let head_text = std::str::from_utf8(head).map_err(|_| "not a reply: the head is no text")?;
        let is_head = head.get(3) == Some(&b' ') && head.last() == Some(&b'\n');
        let status = std::str::from_utf8(status).ok().and_then(|text| text.trim().parse().ok());
        let length = head_text.get(4..).and_then(|text| text.trim().parse::<usize>().ok());
        let (true, Some(status), Some(length)) = (is_head, status, length) else {
            return Err("not a reply of the management protocol");
        };
        if length > TEXT_BYTES_MAX {
            return Err("a reply that is larger than any may be");
        }
        let Some(text) = rest.get(..length) else { return Ok(None) };
        match rest.get(length) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err("a reply that does not end where it says"),
        }
        let reply = Reply { status, text: text.to_vec() };
        self.buffer.drain(..HEAD_BYTES + length + 1);
        Ok(Some(reply))
    }
}
