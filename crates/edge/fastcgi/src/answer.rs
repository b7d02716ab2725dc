//! The head of what a program answers (RFC 3875 section 6), as the head of an HTTP response.
//!
//! ```text
//!  Status: 404 Gone away      ─▶  HTTP/1.1 404 Gone away
//!  Content-Type: text/html        Content-Type: text/html
//! ```
//!
//! A program may end lines by LF alone. Whether names and values are well-formed is for the parser of responses to judge, to which this
//! text goes.

use thiserror::Error;

/// Why what a program says is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeadError {
    /// The status is no number from 200 to 999.
    #[error("the program answers with a status that is none")]
    Status,
    /// A line has no colon.
    #[error("the program answers with a line that is no field of a head")]
    Line,
}

/// What a program has said of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The status.
    pub status: u16,
    /// Whether it says how long the body is.
    pub has_length: bool,
    /// Whether it says that the body is encoded for its transfer.
    pub has_transfer_encoding: bool,
    /// Whether it says when it was made.
    pub has_date: bool,
    /// Whether all that it says is another path, which is to be answered with (RFC 3875 section 6.2.2).
    pub is_local_redirect: bool,
}

/// How many bytes a head has that `bytes` begin with, its empty line included; none if that line is not there. The first `scanned` bytes
/// have been looked at before.
#[must_use]
pub fn head_end(bytes: &[u8], scanned: usize) -> Option<usize> {
    // An empty line may have begun in what was looked at before.
    let mut from = scanned.saturating_sub(2);
    if from == 0 {
        match bytes {
            [b'\n', ..] => return Some(1),
            [b'\r', b'\n', ..] => return Some(2),
            _ => {}
        }
    }
    while let Some(found) = memchr::memchr(b'\n', bytes.get(from..)?) {
        from += found + 1;
        match bytes.get(from..)? {
            [b'\n', ..] => return Some(from + 1),
            [b'\r', b'\n', ..] => return Some(from + 2),
            _ => {}
        }
    }
    None
}

impl AnswerHead {
    /// Appends the head of a response that a program's head means, without its empty line.
    ///
    /// # Errors
    /// Why it means none.
    pub fn write(head: &[u8], out: &mut Vec<u8>) -> Result<Self, HeadError> {
        let mut found = Self {
            status: 0,
            has_length: false,
            has_transfer_encoding: false,
            has_date: false,
            is_local_redirect: false,
        };
        let (mut reason, mut has_location): (&[u8], _) = (b"", false);
        let (mut is_local, mut is_alone) = (false, true);
        for (place, line) in lines(head).enumerate() {
            if place == 0 && line.starts_with(b"HTTP/") {
                // As servers of uwsgi and SCGI answer.
                let status = line.iter().position(|byte| *byte == b' ').and_then(|at| line.get(at..));
                (found.status, reason) = read_status(status.unwrap_or_default())?;
                continue;
            }
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                continue;
            }
            let colon = memchr::memchr(b':', line).ok_or(HeadError::Line)?;
            let (name, value) = line.split_at_checked(colon).unwrap_or_default();
            if name.eq_ignore_ascii_case(b"status") {
                (found.status, reason) = read_status(value.get(1..).unwrap_or_default())?;
            }
            if name.eq_ignore_ascii_case(b"location") {
                is_alone &= !has_location;
                (has_location, is_local) = (true, is_local_path(value.get(1..).unwrap_or_default().trim_ascii()));
            } else {
                // What of the body is said counts for nothing: there is none.
                is_alone &= name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"));
            }
            found.has_length |= name.eq_ignore_ascii_case(b"content-length");
            found.has_transfer_encoding |= name.eq_ignore_ascii_case(b"transfer-encoding");
            found.has_date |= name.eq_ignore_ascii_case(b"date");
        }
        if found.status == 0 {
            found.is_local_redirect = is_local && is_alone;
            (found.status, reason) = if has_location { (302, &b"Found"[..]) } else { (200, &b"OK"[..]) };
        }
        if reason.is_empty() {
            reason = http::reason_phrase(found.status).as_bytes();
        }
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(found.status.to_string().as_bytes());
        out.push(b' ');
        out.extend_from_slice(reason);
        write_fields(head, out);
        Ok(found)
    }
}

/// Whether a location is a path of this server, as the target of a request has it.
fn is_local_path(value: &[u8]) -> bool {
    value.starts_with(b"/")
        && !value.starts_with(b"//")
        && value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#')
}

/// Appends the fields that are of the answer rather than of the program's connection.
fn write_fields(head: &[u8], out: &mut Vec<u8>) {
    let mut is_written = true;
    for (place, line) in lines(head).enumerate() {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            // A field goes on (RFC 9112 section 5.2).
            if is_written && place > 0 {
                out.push(b' ');
                out.extend_from_slice(line.trim_ascii());
            }
            continue;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let left_out: [&[u8]; 4] = [b"status", b"connection", b"keep-alive", b"proxy-connection"];
        let is_status = place == 0 && line.starts_with(b"HTTP/");
        is_written = !is_status && left_out.iter().all(|other| !other.eq_ignore_ascii_case(name));
        if is_written {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The lines of a head, without their ends and without the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty())
}

/// The number and the words of a status. One below 200 would begin another head.
fn read_status(value: &[u8]) -> Result<(u16, &[u8]), HeadError> {
    let value = value.trim_ascii();
    let (digits, reason) = value.split_at_checked(3).ok_or(HeadError::Status)?;
    let status = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let status: u16 = status.and_then(|text| text.parse().ok()).ok_or(HeadError::Status)?;
    if status < 200 || !matches!(reason.first(), None | Some(b' ' | b'\t')) {
        return Err(HeadError::Status);
    }
    Ok((status, reason.trim_ascii()))
}
