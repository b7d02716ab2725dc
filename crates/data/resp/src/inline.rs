//! Inline commands: words in a line, as people type them into telnet. Quotes are those of Redis' command line and
//! configuration file:
//!
//! - `"..."` knows `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`; a backslash before anything else stands for that.
//! - `'...'` knows `\'` alone.
//! - A closing quote is followed by a blank or the end. Quotes may begin within a word.

use std::ops::Range;

/// A quote without its partner, or with something right behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unbalanced quotes")]
pub struct UnbalancedQuotes;

/// What `isspace` takes for a blank. Between words all of them separate; see [`ends_word`].
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// What ends a word: not all that separates words does, so a vertical tab in one stays.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Splits a line into words. The words' bytes go to `bytes`, where they lie to `ranges`; both are appended to.
///
/// # Errors
///
/// Quotes do not match; what was appended until then stays.
pub fn split_arguments(
    line: &[u8],
    bytes: &mut Vec<u8>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = bytes.len();
        rest = word(rest, bytes)?;
        ranges.push(start..bytes.len());
    }
}

/// Where the words of a line without quotes lie, `offset` added; `false` if it has quotes: then it needs
/// [`split_arguments`].
pub(crate) fn split_plain(line: &[u8], offset: usize, ranges: &mut Vec<Range<usize>>) -> bool {
    if memchr::memchr2(b'"', b'\'', line).is_some() {
        return false;
    }
    let mut start = None;
    for (position, &byte) in line.iter().enumerate() {
        match start {
            None if !is_blank(byte) => start = Some(position),
            Some(from) if ends_word(byte) => {
                ranges.push(offset + from..offset + position);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        ranges.push(offset + from..offset + line.len());
    }
    true
}

/// Appends the word that `rest` begins with; what is behind it.
fn word<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [] => return Ok(rest),
            [b'"', tail @ ..] => return double_quoted(tail, bytes),
            [b'\'', tail @ ..] => return single_quoted(tail, bytes),
            [byte, tail @ ..] => {
                rest = tail;
                if ends_word(*byte) {
                    return Ok(rest);
                }
                bytes.push(*byte);
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'"', tail @ ..] => return behind_quote(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if let (Some(high), Some(low)) = (basics::hex::value(*high), basics::hex::value(*low)) =>
            {
                bytes.push(high << 4 | low);
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                tail
            }
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'\\', b'\'', tail @ ..] => {
                bytes.push(b'\'');
                tail
            }
            [b'\'', tail @ ..] => return behind_quote(tail),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                tail
            }
        };
    }
}

/// A closing quote ends its word, so only a blank may follow.
fn behind_quote(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// Appends a word in quotes, as `MONITOR` and redis-cli show it: [`split_arguments`] gives it back.
pub fn quote_argument(out: &mut Vec<u8>, word: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    out.reserve(word.len() + 2);
    out.push(b'"');
    for byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]),
        }
    }
    out.push(b'"');
}
