//! `blob`: bytes from texts and texts from bytes.

use super::{Arguments, Outcome, argument, fail, kept, text};
use crate::run::{Failure, Value, Workspace};
use basics::hex;

/// How bytes stand in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Identity,
    /// RFC 4648, section 4.
    Base64,
    /// RFC 4648, section 5.
    Base64Url,
    /// The same without padding.
    Base64UrlNoPad,
    /// With `-`, `~` and `_`.
    Base64Cf,
    /// Two digits a byte.
    Hex,
    /// Percent encoding (RFC 3986, section 2.1).
    Url,
}

/// Which letters digits above 9 are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Small ones.
    Lower,
    /// Capitals.
    Upper,
}

/// A text is not of the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingError;

/// An alphabet of base64.
struct Alphabet {
    last: [u8; 2],
    padding: Option<u8>,
}

impl Alphabet {
    const COMMON: &'static [u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    fn of(encoding: Encoding) -> Option<Self> {
        Some(match encoding {
            Encoding::Base64 => Self { last: *b"+/", padding: Some(b'=') },
            Encoding::Base64Url => Self { last: *b"-_", padding: Some(b'=') },
            Encoding::Base64UrlNoPad => Self { last: *b"-_", padding: None },
            Encoding::Base64Cf => Self { last: *b"-~", padding: Some(b'_') },
            Encoding::Identity | Encoding::Hex | Encoding::Url => return None,
        })
    }

    fn sign(&self, value: u32) -> u8 {
        let value = (value & 63) as usize;
        Self::COMMON.iter().chain(&self.last).nth(value).copied().unwrap_or(b'A')
    }

    fn value(&self, sign: u8) -> Option<u32> {
        Some(match sign {
            b'A'..=b'Z' => u32::from(sign - b'A'),
            b'a'..=b'z' => u32::from(sign - b'a') + 26,
            b'0'..=b'9' => u32::from(sign - b'0') + 52,
            sign => u32::try_from(self.last.iter().position(|last| *last == sign)?).ok()? + 62,
        })
    }

    fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
        for group in bytes.chunks(3) {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..=group.len() {
                out.push(self.sign(bits >> (18 - 6 * place)));
            }
            if let Some(padding) = self.padding {
                out.extend(std::iter::repeat_n(padding, 3 - group.len()));
            }
        }
        out
    }

    fn decode(&self, text: &[u8]) -> Result<Vec<u8>, EncodingError> {
        let padding = self.padding.map_or(0, |padding| text.iter().rev().take_while(|sign| **sign == padding).count());
        let (signs, _) = text.split_at_checked(text.len() - padding).ok_or(EncodingError)?;
        // Padding may be left out, in part too; it fills the last group and no more.
        let left = signs.len() % 4;
        if left == 1 || padding > 0 && !(left >= 2 && left + padding <= 4) {
            return Err(EncodingError);
        }
        let mut out = Vec::with_capacity(signs.len() / 4 * 3 + 2);
        for group in signs.chunks(4) {
            let bits = group.iter().try_fold(0_u32, |bits, sign| self.value(*sign).map(|value| bits << 6 | value));
            let bits = bits.ok_or(EncodingError)? << (6 * (4 - group.len()));
            out.extend(bits.to_be_bytes().into_iter().skip(1).take(group.len() - 1));
        }
        Ok(out)
    }
}

fn digit_of(sign: u8) -> Result<u8, EncodingError> {
    hex::value(sign).ok_or(EncodingError)
}

fn push_hex(out: &mut Vec<u8>, byte: u8, case: Case) {
    out.extend(if case == Case::Upper { hex::upper_digits(byte) } else { hex::lower_digits(byte) });
}

/// Bytes as a text.
#[must_use]
pub fn encode(encoding: Encoding, case: Case, bytes: &[u8]) -> Vec<u8> {
    if let Some(alphabet) = Alphabet::of(encoding) {
        return alphabet.encode(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    match encoding {
        Encoding::Hex => bytes.iter().for_each(|byte| push_hex(&mut out, *byte, case)),
        Encoding::Url => {
            for byte in bytes {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                    out.push(*byte);
                } else {
                    out.push(b'%');
                    push_hex(&mut out, *byte, case);
                }
            }
        }
        // A string of VCL ends with its first null byte.
        _ => out.extend(bytes.iter().take_while(|byte| **byte != 0)),
    }
    out
}

/// The bytes that a text stands for.
///
/// # Errors
/// It is not of the encoding.
pub fn decode(encoding: Encoding, text: &[u8]) -> Result<Vec<u8>, EncodingError> {
    if let Some(alphabet) = Alphabet::of(encoding) {
        return alphabet.decode(text);
    }
    match encoding {
        Encoding::Hex => {
            let mut out = Vec::with_capacity(text.len().div_ceil(2));
            let (odd, pairs) = text.split_at_checked(text.len() % 2).ok_or(EncodingError)?;
            for sign in odd {
                out.push(digit_of(*sign)?);
            }
            for pair in pairs.chunks(2) {
                out.push(pair.iter().try_fold(0, |byte, sign| Ok(byte << 4 | digit_of(*sign)?))?);
            }
            Ok(out)
        }
        Encoding::Url => {
            let mut out = Vec::with_capacity(text.len());
            let mut signs = text.iter();
            while let Some(sign) = signs.next() {
                if *sign != b'%' {
                    out.push(*sign);
                    continue;
                }
                let mut digit = || signs.next().ok_or(EncodingError).and_then(|sign| digit_of(*sign));
                out.push(digit()? << 4 | digit()?);
            }
            Ok(out)
        }
        _ => Ok(text.to_vec()),
    }
}

impl Encoding {
    fn at(arguments: Arguments<'_, '_>, place: usize) -> Self {
        match argument(arguments, place) {
            Some(Value::Enum(word)) => Self::of_word(word),
            _ => Self::Identity,
        }
    }

    /// The one that a word of VCL names.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "BASE64" => Self::Base64,
            "BASE64URL" => Self::Base64Url,
            "BASE64URLNOPAD" => Self::Base64UrlNoPad,
            "BASE64CF" => Self::Base64Cf,
            "HEX" => Self::Hex,
            "URL" => Self::Url,
            _ => Self::Identity,
        }
    }
}

/// The encoding and case at these places, if they go together.
pub(super) fn encoding_and_case(
    arguments: Arguments<'_, '_>,
    encoding: usize,
    case: usize,
) -> Result<(Encoding, Case), Failure> {
    let (word, chosen) = (argument(arguments, encoding), Encoding::at(arguments, encoding));
    let Some(Value::Enum(case_word)) = argument(arguments, case) else { return Ok((chosen, Case::Lower)) };
    if case_word != "DEFAULT" && !matches!(chosen, Encoding::Hex | Encoding::Url) {
        let word = if let Some(Value::Enum(word)) = word { word } else { "IDENTITY" };
        return fail(format!("vmod blob error: case {case_word} is illegal with encoding {word}"));
    }
    Ok((chosen, if case_word == "UPPER" { Case::Upper } else { Case::Lower }))
}

/// The bytes of the blob at a place; none for one that is not there.
pub(super) fn bytes<'w>(arguments: Arguments<'_, 'w>, place: usize) -> &'w [u8] {
    match argument(arguments, place) {
        Some(Value::Blob(bytes)) => bytes.unwrap_or_default(),
        _ => &[],
    }
}

fn decoded(arguments: Arguments<'_, '_>, decoding: usize, length: usize, encoded: usize) -> Result<Vec<u8>, Failure> {
    let encoded = text(arguments, encoded).unwrap_or_default();
    let wanted = match argument(arguments, length) {
        Some(Value::Int(length)) if length > 0 => usize::try_from(length).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let cut = encoded.get(..wanted.min(encoded.len())).unwrap_or_default();
    decode(Encoding::at(arguments, decoding), cut).map_err(|EncodingError| {
        let shown = String::from_utf8_lossy(encoded);
        Failure::Host(format!("vmod blob error: cannot decode, illegal encoding beginning with \"{shown}\""))
    })
}

/// `blob.decode(decoding, length, encoded)`
pub(super) fn decode_call<'w>(arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Outcome<'w> {
    let bytes = decoded(arguments, 0, 1, 2)?;
    Ok(Value::Blob(Some(workspace.keep(&bytes)?)))
}

/// `blob.encode(encoding, case, blob)`
pub(super) fn encode_call<'w>(arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Outcome<'w> {
    let (encoding, case) = encoding_and_case(arguments, 0, 1)?;
    match argument(arguments, 2) {
        Some(Value::Blob(Some(bytes))) => kept(workspace, &encode(encoding, case, bytes)),
        _ => Ok(Value::String(None)),
    }
}

/// `blob.transcode(decoding, encoding, case, length, encoded)`
pub(super) fn transcode_call<'w>(arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Outcome<'w> {
    let (encoding, case) = encoding_and_case(arguments, 1, 2)?;
    let bytes = decoded(arguments, 0, 3, 4)?;
    kept(workspace, &encode(encoding, case, &bytes))
}

/// `blob.same(a, b)`: the same bytes in the same place, or both without any.
pub(super) fn is_same(arguments: Arguments<'_, '_>) -> bool {
    let (left, right) = (bytes(arguments, 0), bytes(arguments, 1));
    std::ptr::eq(left.as_ptr(), right.as_ptr()) && left.len() == right.len() || left.is_empty() && right.is_empty()
}

/// `blob.sub(blob, length, offset)`
pub(super) fn sub<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let whole = bytes(arguments, 0);
    if whole.is_empty() {
        return fail("vmod blob error: blob is empty in blob.sub()");
    }
    let number = |place| match argument(arguments, place) {
        Some(Value::Bytes(bytes)) => bytes,
        _ => 0,
    };
    let (length, offset) = (number(1), number(2));
    let (Ok(start), Ok(count)) = (usize::try_from(offset), usize::try_from(length)) else {
        return fail("vmod blob error: size or offset negative in blob.sub()");
    };
    match start.checked_add(count).and_then(|end| whole.get(start..end)) {
        Some(part) => Ok(Value::Blob(Some(part))),
        None => fail(format!(
            "vmod blob error: size {length} from offset {offset} requires more bytes than blob length {} in blob.sub()",
            whole.len()
        )),
    }
}
