//! A snapshot on its way: of a length that is said before, or up to a mark that is.

use super::{LINE_LEN_MAX, LinkError, Position};

/// How long a mark is.
const MARK_LEN: usize = 40;

#[derive(Debug)]
enum Form {
    /// It has not been said yet.
    Unknown,
    /// So many bytes are still to come.
    Length { left: u64, total: u64 },
    /// It ends with these bytes, which are no part of it.
    Mark([u8; MARK_LEN]),
}

/// A snapshot that is being received.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) position: Position,
    form: Form,
    taken: u64,
}

impl Receiving {
    pub(super) fn new(position: Position) -> Self {
        Self { position, form: Form::Unknown, taken: 0 }
    }

    /// How many bytes there are, if that is known, and how many have come.
    pub(super) fn progress(&self) -> (Option<u64>, u64) {
        let total = if let Form::Length { total, .. } = self.form { Some(total) } else { None };
        (total, self.taken)
    }

    /// Takes what belongs to the snapshot out of what has come, and says whether that is its end.
    pub(super) fn take(&mut self, received: &mut Vec<u8>) -> Result<(Vec<u8>, bool), LinkError> {
        if matches!(self.form, Form::Unknown) && !self.take_form(received)? {
            return Ok((Vec::new(), false));
        }
        let (len, behind, is_end) = match &mut self.form {
            Form::Unknown => (0, 0, false),
            Form::Length { left, .. } => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(received.len());
                *left -= len as u64;
                (len, 0, *left == 0)
            }
            Form::Mark(mark) => match find(received, mark) {
                Some(at) => (at, MARK_LEN, true),
                // What may be the beginning of the mark is looked at again.
                None => (received.len().saturating_sub(MARK_LEN - 1), 0, false),
            },
        };
        let rest = received.split_off(len);
        let bytes = std::mem::replace(received, rest);
        received.drain(..behind);
        self.taken += bytes.len() as u64;
        Ok((bytes, is_end))
    }

    /// Reads the line that says how the snapshot comes. Empty lines before it say that the master is busy with it.
    fn take_form(&mut self, received: &mut Vec<u8>) -> Result<bool, LinkError> {
        let empty = received.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        received.drain(..empty);
        let said = |line: &[u8]| LinkError::NoSnapshot(String::from_utf8_lossy(line).into_owned());
        let Some(end) = received.iter().take(LINE_LEN_MAX).position(|byte| *byte == b'\n') else {
            return if received.len() >= LINE_LEN_MAX {
                Err(said(received.get(..80).unwrap_or_default()))
            } else {
                Ok(false)
            };
        };
        let line: Vec<u8> = received.drain(..=end).collect();
        let line = line.trim_ascii_end();
        let form = if let Some(mark) = line.strip_prefix(b"$EOF:") {
            Form::Mark(mark.try_into().map_err(|_| said(line))?)
        } else {
            let digits = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
            let total = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| said(line))?;
            Form::Length { left: total, total }
        };
        self.form = form;
        Ok(true)
    }
}

/// Where a mark begins.
///
/// NOTE: Redis takes the last bytes of what it has read for the mark; the stream that follows may come with it here.
fn find(bytes: &[u8], mark: &[u8; MARK_LEN]) -> Option<usize> {
    let [first, ..] = mark;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| byte == first)?;
        if bytes.get(at..at + MARK_LEN)? == mark {
            return Some(at);
        }
        from = at + 1;
    }
}
