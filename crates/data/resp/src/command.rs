//! Commands as arrays of bulk strings: what clients send, and what the log is made of.

use crate::number::{length, write_prefixed};

/// Appends a command.
pub fn encode_command<A: AsRef<[u8]>>(out: &mut Vec<u8>, arguments: &[A]) {
    encode_command_header(out, arguments.len());
    for argument in arguments {
        encode_argument(out, argument.as_ref());
    }
}

/// Appends what a command of so many words begins with. The words follow by [`encode_argument`].
#[inline]
pub fn encode_command_header(out: &mut Vec<u8>, arguments: usize) {
    write_prefixed(out, b'*', length(arguments));
}

/// Appends a word of a command.
#[inline]
pub fn encode_argument(out: &mut Vec<u8>, argument: &[u8]) {
    write_bulk(out, argument);
}

/// How many bytes [`encode_command`] would append.
#[must_use]
pub fn encoded_command_len<A: AsRef<[u8]>>(arguments: &[A]) -> usize {
    let line = |number: usize| 4 + number.checked_ilog10().map_or(0, |digits| usize::try_from(digits).unwrap_or(0));
    let words = arguments.iter().map(|argument| argument.as_ref().len());
    line(arguments.len()) + words.map(|len| line(len) + len + 2).sum::<usize>()
}

/// A bulk string. One check of the room suffices for all of it.
#[inline]
pub(crate) fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    /// Longest first line.
    const LINE_LEN_MAX: usize = 24;
    out.reserve(LINE_LEN_MAX + bytes.len() + 2);
    write_prefixed(out, b'$', length(bytes.len()));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
