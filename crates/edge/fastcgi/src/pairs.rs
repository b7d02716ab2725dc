//! Names and values on the wire: FastCGI's (its specification, section 3.4), SCGI's and uwsgi's.

use thiserror::Error;

/// Bytes of all names and values of a request at most, as they are encoded.
pub const PAIRS_BYTES_MAX: usize = 1 << 20;

/// Why names and values cannot go to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PairError {
    /// There is too much of them.
    #[error("the variables of a request have {0} bytes, which is too much")]
    TooLong(usize),
    /// SCGI ends names and values by a NUL.
    #[error("a variable has a NUL")]
    Nul,
}

/// Appends a length: one byte below 128, four otherwise, the first of which has its highest bit set.
fn write_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = u32::try_from(length).unwrap_or(u32::MAX) | 0x8000_0000;
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends a name and its value as FastCGI has them.
pub fn write_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    write_length(name.len(), out);
    write_length(value.len(), out);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Takes a length off the front.
fn read_length<'a>(bytes: &mut &'a [u8]) -> Option<usize> {
    let rest: &'a [u8] = bytes;
    if let Some((first, rest)) = rest.split_first().filter(|(first, _)| **first < 0x80) {
        *bytes = rest;
        return Some(usize::from(*first));
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*length) & 0x7fff_ffff).ok()
}

/// Reads names and values that are there whole. An error is the last item: what follows it makes no sense.
#[derive(Clone, Debug)]
pub struct Pairs<'a>(Option<&'a [u8]>);

impl<'a> Pairs<'a> {
    /// Those of a record.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Some(bytes))
    }
}

fn read_pair<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, value) = (read_length(bytes)?, read_length(bytes)?);
    let (name, rest) = bytes.split_at_checked(name)?;
    let (value, rest) = rest.split_at_checked(value)?;
    *bytes = rest;
    Some((name, value))
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), ()>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = self.0.filter(|bytes| !bytes.is_empty())?;
        let pair = read_pair(&mut bytes);
        self.0 = pair.map(|_| bytes);
        Some(pair.ok_or(()))
    }
}

/// Appends a request's head as SCGI has it: a netstring of names and values, `CONTENT_LENGTH` first, then `SCGI`.
///
/// # Errors
/// When a name or a value has a NUL, or all of them are too long.
pub fn write_scgi<'a>(
    length: u64,
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), PairError> {
    let mut text = format!("CONTENT_LENGTH\0{length}\0SCGI\x001\0").into_bytes();
    for (name, value) in pairs.filter(|(name, _)| *name != b"CONTENT_LENGTH" && *name != b"SCGI") {
        if name.contains(&0) || value.contains(&0) {
            return Err(PairError::Nul);
        }
        text.extend_from_slice(name);
        text.push(0);
        text.extend_from_slice(value);
        text.push(0);
    }
    if text.len() > PAIRS_BYTES_MAX {
        return Err(PairError::TooLong(text.len()));
    }
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(&text);
    out.push(b',');
    Ok(())
}

/// Appends a request's head as uwsgi has it: modifiers of 0 (WSGI, PSGI, Rack), a length, and names and values with lengths.
///
/// # Errors
/// When all of them are longer than 65535 bytes, which is all that uwsgi can say.
pub fn write_uwsgi<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) -> Result<(), PairError> {
    let mut body = Vec::new();
    for part in pairs.flat_map(|(name, value)| [name, value]) {
        let length = u16::try_from(part.len()).map_err(|_| PairError::TooLong(part.len()))?;
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(part);
    }
    let [low, high] = u16::try_from(body.len()).map_err(|_| PairError::TooLong(body.len()))?.to_le_bytes();
    out.extend_from_slice(&[0, low, high, 0]);
    out.extend_from_slice(&body);
    Ok(())
}
