//! A client over a blocking stream.

use std::{
    io::{self, Read, Write},
    time::SystemTime,
};

use crate::{CHALLENGE_BYTES, Instance, Session};

const READ_BYTES: usize = 16 * 1024;

/// Serves a client until it goes. `challenge` is random letters ([`crate::auth::challenge_of`]), or `None` where no secret is asked for.
///
/// # Errors
/// When the stream fails.
pub fn serve(
    stream: &mut (impl Read + Write),
    challenge: Option<[u8; CHALLENGE_BYTES]>,
    instance: &mut dyn Instance,
) -> io::Result<()> {
    let (mut session, greeting) = match challenge {
        Some(challenge) => Session::challenged(challenge, instance),
        None => Session::open(instance),
    };
    stream.write_all(&greeting)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let output = session.receive(buffer.get(..count).unwrap_or_default(), instance, SystemTime::now());
        stream.write_all(&output.bytes)?;
        if output.closes {
            return Ok(());
        }
    }
}
