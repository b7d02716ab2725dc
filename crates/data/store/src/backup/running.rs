//! Where a store that runs on this machine has its data.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    time::Duration,
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

use crate::StoreError;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a store for its folder. It must be on this machine, where the store has it locked.
///
/// # Errors
///
/// It does not answer, or its folder is not here.
pub fn folder_of(address: &str, password: Option<&str>) -> Result<PathBuf, StoreError> {
    let refused = |reason: String| StoreError::NotAsked { address: address.to_owned(), reason };
    let dir = ask(address, password).map_err(refused)?;
    let is_locked = File::open(dir.join("lock"))
        .is_ok_and(|lock| rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).is_err());
    if !is_locked {
        let text =
            format!("its folder {} is not on this machine, or not to be read; run this where it is", dir.display());
        return Err(refused(text));
    }
    Ok(dir)
}

fn ask(address: &str, password: Option<&str>) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut bytes = Vec::new();
    if let Some(password) = password {
        resp::encode_command(&mut bytes, &["AUTH", password]);
    }
    resp::encode_command(&mut bytes, &["CONFIG", "GET", "dir"]);
    stream.write_all(&bytes).map_err(failed)?;
    let mut parser = ReplyParser::new();
    let mut buffer = Vec::new();
    loop {
        match parser.parse(&buffer, &ReplyLimits::default()).map_err(|error| error.to_string())? {
            ReplyProgress::Complete { consumed, value } => {
                buffer.drain(..consumed);
                if let Some(text) = value.as_error() {
                    return Err(String::from_utf8_lossy(text).into_owned());
                }
                if let Value::Array(words) = &value {
                    let dir = words.get(1).and_then(Value::as_bytes).unwrap_or_default();
                    let dir = String::from_utf8_lossy(dir).into_owned();
                    return if dir.is_empty() {
                        Err("it has no folder (--dir)".into())
                    } else {
                        Ok(PathBuf::from(dir))
                    };
                }
                continue;
            }
            ReplyProgress::Incomplete { consumed, .. } => {
                buffer.drain(..consumed);
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).map_err(failed)? {
            0 => return Err("it closed the connection".into()),
            len => buffer.extend_from_slice(piece.get(..len).unwrap_or_default()),
        }
    }
}
