//! What `DUMP` gives: a value, the version of the format in two bytes, and a checksum of all that.

use super::{crc64::crc64, decode_value, encode::encode};
use crate::value::ValueLimits;
use crate::{
    Value,
    encoding::{RdbError, Writer},
};

/// The version that is written: Redis 7.0's.
pub(super) const VERSION: u16 = 10;
/// The newest that is read: Redis 7.2 and Valkey 8 write what is read here too.
const VERSION_MAX: u16 = 11;

/// Appends a payload of `DUMP`.
pub fn encode_payload(value: &Value, out: &mut Vec<u8>) {
    let start = out.len();
    encode(value, &mut Writer::new(out, true));
    finish(out, start);
}

/// Appends version and checksum of what begins at a place.
pub(super) fn finish(out: &mut Vec<u8>, start: usize) {
    out.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Reads a payload.
///
/// # Errors
///
/// [`RdbError::Footer`] if version or checksum are wrong, any other if the value is.
pub fn decode_payload(payload: &[u8], limits: &ValueLimits) -> Result<Value, RdbError> {
    decode_value(verified(payload)?, limits)
}

/// The bytes of version and checksum.
pub(super) const FOOTER_LEN: usize = 10;

/// What is in front of version and checksum, if these are right.
pub(super) fn verified(payload: &[u8]) -> Result<&[u8], RdbError> {
    let covered = payload.get(..payload.len().saturating_sub(8)).unwrap_or_default();
    let body = payload.get(..payload.len().saturating_sub(FOOTER_LEN)).unwrap_or_default();
    if is_footer(payload, crc64(covered)) { Ok(body) } else { Err(RdbError::Footer) }
}

/// Whether a payload ends with a version that is known, and with this checksum.
pub(super) fn is_footer(payload: &[u8], sum: u64) -> bool {
    let Some((covered, checksum)) = payload.split_last_chunk::<8>() else { return false };
    let version = covered.last_chunk::<2>().map(|version| u16::from_le_bytes(*version));
    version.is_some_and(|version| version <= VERSION_MAX) && u64::from_le_bytes(*checksum) == sum
}
