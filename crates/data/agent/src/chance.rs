//! Chance, as text: what nobody else has.

use std::io;

/// So many random bytes as hexadecimal digits.
///
/// # Errors
///
/// The system gives no random number.
pub fn digits<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| io::Error::other(format!("the system gives no random number: {error}")))?;
    Ok(basics::hex::lower(&bytes))
}
