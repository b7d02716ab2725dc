//! Response heads as old or careless servers write them (`Limits::accept_legacy`).
//!
//! Nothing of this is in the strict parser's way. Where that refuses a head for a reason that can be mended without a doubt
//! about where the message ends, the head is written anew in the strict form, and the strict parser judges the result. So
//! whatever passes goes to the client in one form that nobody can read in two ways.

use super::{EMPTY_LINES_MAX, Parsed, ResponseParser, window};
use crate::body_length::parse_content_length;
use crate::bytes::{is_blank, trim};
use crate::error::{ParseError, ParseErrorKind as Kind};
use crate::limits::Limits;
use crate::response::ResponseHead;
use crate::version::Version;

/// Parses a head that the strict parser has refused with `error`.
#[cold]
pub(super) fn parse(
    input: &[u8],
    limits: &Limits,
    head: &mut ResponseHead,
    error: ParseError,
) -> Result<Parsed, ParseError> {
    let window = window(input, limits);
    if !may_be_mended(error.kind, window) {
        return Err(error);
    }
    let Some(mended) = mend(window) else {
        let is_too_large = input.len() >= limits.head_bytes_max;
        return if is_too_large {
            Err(ParseError::new(Kind::HeadTooLarge, limits.head_bytes_max))
        } else {
            Ok(Parsed::Incomplete)
        };
    };
    // The room for a head is a bound on what a server sends. What was mended may be some line ends longer.
    let room = mended.text.len().saturating_add(1).max(limits.head_bytes_max);
    let strict = Limits { head_bytes_max: room, ..*limits };
    let parsed = ResponseParser::new().state.response(&mended.text, &strict, head);
    head.in_doubt |= mended.in_doubt;
    match parsed {
        Ok(Parsed::Complete { .. }) => Ok(Parsed::Complete { consumed: mended.consumed }),
        // A whole head has an end.
        Ok(Parsed::Incomplete) => Err(error),
        Err(wrong) => Err(ParseError { offset: wrong.offset.min(mended.consumed as u64), ..wrong }),
    }
}

fn may_be_mended(kind: Kind, window: &[u8]) -> bool {
    match kind {
        Kind::BareLf
        | Kind::ObsoleteFold
        | Kind::StatusLine
        | Kind::InvalidStatus
        | Kind::UnsupportedVersion
        | Kind::SpaceBeforeColon
        | Kind::RepeatedLength
        | Kind::InvalidLength
        | Kind::LengthAndEncoding
        | Kind::EncodingOnHttp10 => true,
        // Empty lines before the status line.
        Kind::InvalidVersion => matches!(window, [b'\r', b'\n', ..] | [b'\n', ..]),
        _ => false,
    }
}

/// A head in the strict form, as far as it could be brought into it.
struct Mended {
    text: Vec<u8>,
    /// How many bytes of the input it stands for.
    consumed: usize,
    in_doubt: bool,
}

/// A field whose name is a part of the input and whose value may be several lines joined.
struct Field<'a> {
    name: &'a [u8],
    value: Vec<u8>,
}

impl Field<'_> {
    fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Brings a head into the strict form; none when its end has not come yet.
fn mend(input: &[u8]) -> Option<Mended> {
    let mut lines = Lines { input, at: 0 };
    let mut status_line = lines.next()?;
    for _ in 0..EMPTY_LINES_MAX {
        if status_line.is_empty() {
            status_line = lines.next()?;
        }
    }
    let mut fields: Vec<Field<'_>> = Vec::new();
    // What is no field, and what continues none, is left to the strict parser to refuse.
    let mut odd_lines: Vec<&[u8]> = Vec::new();
    loop {
        let line = lines.next()?;
        if line.is_empty() {
            break;
        }
        let is_fold = line.first().copied().is_some_and(is_blank);
        match (line.iter().position(|byte| *byte == b':'), fields.last_mut()) {
            // RFC 9112 section 5.2: a fold becomes a blank.
            (_, Some(last)) if is_fold => {
                last.value.push(b' ');
                last.value.extend_from_slice(trim(line));
            }
            (Some(colon), _) if !is_fold => {
                let (name, value) = line.split_at(colon);
                // RFC 9112 section 5.1: a proxy removes white space before the colon of a response's field.
                let value = trim(value.get(1..).unwrap_or_default()).to_vec();
                fields.push(Field { name: name.trim_ascii_end(), value });
            }
            _ => odd_lines.push(line),
        }
    }
    let (version, rest) = version(status_line);
    let framing = settle_framing(&mut fields, version);
    let version = if framing.raises_version { Version::Http11.as_bytes() } else { version };
    let mut text = Vec::with_capacity(lines.at + 64);
    text.extend_from_slice(version);
    let status = rest.trim_ascii_start();
    if !rest.is_empty() {
        text.push(b' ');
    }
    text.extend_from_slice(status);
    text.extend_from_slice(b"\r\n");
    for Field { name, value } in &fields {
        for part in [name, &b": "[..], trim(value), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    for line in odd_lines {
        text.extend_from_slice(line);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    Some(Mended { text, consumed: lines.at, in_doubt: framing.in_doubt })
}

/// Lines that end with LF, with or without a CR before it.
struct Lines<'a> {
    input: &'a [u8],
    /// Where the next one begins.
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.input.get(self.at..)?;
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        let line = rest.get(..end)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// The version by whose rules a response with this status line is read, and what follows it.
fn version(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (version, rest) = line.split_at(end);
    let known: &[u8] = match version {
        [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] => {
            let is_later = *major > b'1' || (*major == b'1' && *minor >= b'1');
            if is_later { Version::Http11.as_bytes() } else { Version::Http10.as_bytes() }
        }
        other => other,
    };
    (known, rest)
}

#[derive(Clone, Copy, Default)]
struct Framed {
    /// The connection ends with this message.
    in_doubt: bool,
    /// Chunks need HTTP/1.1.
    raises_version: bool,
}

/// Leaves one field to say how long the body is, where all of them agree. Where they do not, they stay for the strict
/// parser to refuse.
fn settle_framing(fields: &mut Vec<Field<'_>>, version: &[u8]) -> Framed {
    let encodings: Vec<&[u8]> =
        fields.iter().filter(|field| field.is(b"transfer-encoding")).map(|field| trim(&field.value)).collect();
    let is_chunked = matches!(encodings.as_slice(), [one] if one.eq_ignore_ascii_case(b"chunked"));
    let has_encoding = !encodings.is_empty();
    let lengths: Vec<Option<u64>> = fields
        .iter()
        .filter(|field| field.is(b"content-length"))
        .flat_map(|field| field.value.split(|byte| *byte == b',').map(|one| parse_content_length(trim(one)).ok()))
        .collect();
    if is_chunked {
        // RFC 9112 section 6.3: the coding counts, and the length is not passed on.
        fields.retain(|field| !field.is(b"content-length"));
        let raises_version = version == Version::Http10.as_bytes();
        return Framed { in_doubt: raises_version || !lengths.is_empty(), raises_version };
    }
    if let [Some(first), rest @ ..] = lengths.as_slice()
        && !has_encoding
        && rest.iter().all(|other| *other == Some(*first))
    {
        let mut text = Some(first.to_string().into_bytes());
        fields.retain_mut(|field| {
            if !field.is(b"content-length") {
                return true;
            }
            text.take().map(|text| field.value = text).is_some()
        });
    }
    Framed::default()
}

#[cfg(test)]
mod tests;
