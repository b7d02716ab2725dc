//! Libraries of functions as `FUNCTION DUMP` gives them: each with its form's byte, then version and checksum as in `DUMP`.

use super::payload;
use crate::encoding::{RdbError, Reader, Writer};

/// A library as its text.
const LIBRARY: u8 = 245;
/// The form of the versions before 7.0 came out: name, engine, description, text without the first line.
const LIBRARY_EARLY: u8 = 246;

/// Why bytes are no libraries, in Redis' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LibrariesError {
    /// Version or checksum are wrong.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// There is something else.
    #[error("given type is not a function")]
    NoLibrary,
    /// A library is cut off.
    #[error("Failed loading library payload")]
    Truncated,
}

/// A payload of some libraries' texts.
pub fn encode_libraries<'a>(codes: impl Iterator<Item = &'a [u8]>, compress: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        let mut writer = Writer::new(&mut out, compress);
        writer.byte(LIBRARY);
        writer.string(code);
    }
    payload::finish(&mut out, 0);
    out
}

/// The texts of the libraries in a payload.
///
/// # Errors
///
/// It is none.
pub fn decode_libraries(bytes: &[u8]) -> Result<Vec<Vec<u8>>, LibrariesError> {
    let body = payload::verified(bytes).map_err(|_| LibrariesError::Footer)?;
    let mut reader = Reader::new(body);
    let mut codes = Vec::new();
    while !reader.is_empty() {
        let code = match reader.byte().map_err(|_| LibrariesError::Truncated)? {
            LIBRARY => reader.string().map(std::borrow::Cow::into_owned),
            LIBRARY_EARLY => early(&mut reader),
            _ => return Err(LibrariesError::NoLibrary),
        };
        codes.push(code.map_err(|_| LibrariesError::Truncated)?);
    }
    Ok(codes)
}

fn early(reader: &mut Reader<'_>) -> Result<Vec<u8>, RdbError> {
    let name = reader.string()?.into_owned();
    let engine = reader.string()?.into_owned();
    if reader.number()? != 0 {
        reader.string()?;
    }
    let text = reader.string()?;
    Ok([b"#!".as_slice(), &engine, b" name=", &name, b"\n", &text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_back_and_damage_is_found() {
        let long = b"#!lua name=long\n".repeat(100);
        let codes: Vec<&[u8]> = vec![b"#!lua name=a\nx", &long];
        for compress in [false, true] {
            let payload = encode_libraries(codes.iter().copied(), compress);
            assert_eq!(decode_libraries(&payload).unwrap(), codes);
            for at in 0..payload.len() {
                let mut damaged = payload.clone();
                damaged[at] ^= 1;
                assert_eq!(decode_libraries(&damaged), Err(LibrariesError::Footer));
            }
        }
        assert_eq!(decode_libraries(&encode_libraries(std::iter::empty(), true)).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_is_no_library_is_refused() {
        let check = |body: &[u8], expected: Result<Vec<Vec<u8>>, LibrariesError>| {
            let mut payload = body.to_vec();
            payload::finish(&mut payload, 0);
            assert_eq!(decode_libraries(&payload), expected, "{body:?}");
        };
        check(b"\x00\x01a", Err(LibrariesError::NoLibrary));
        check(b"\xf5", Err(LibrariesError::Truncated));
        check(b"\xf5\x05a", Err(LibrariesError::Truncated));
        check(b"\xf6\x01a\x03lua\x00\x01x", Ok(vec![b"#!lua name=a\nx".to_vec()]));
        check(b"\xf6\x01a\x03lua\x01\x01d\x01x", Ok(vec![b"#!lua name=a\nx".to_vec()]));
    }
}
