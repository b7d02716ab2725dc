//! What a master is asked besides, on a connection of its own: which histories its log tells.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use replication::{parting::Histories, replica::LinkOptions};
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

use crate::secure::{Outgoing, Peer};

/// How long an answer is waited for. The master is sending all its keys meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer.
const LEN_MAX: usize = 1 << 20;

/// Why a master did not say which histories its log tells: what this server has is taken for unrelated then.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The connection cannot be made, or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What comes is no answer of a Redis.
    #[error(transparent)]
    Protocol(#[from] resp::ReplyError),
    /// It refuses: a password is wrong, or it is loading.
    #[error("{0}")]
    Refused(String),
    /// It says nothing, or never stops.
    #[error("it gives no answer")]
    NoAnswer,
    /// It has closed the connection.
    #[error("it has closed the connection")]
    Closed,
    /// Its answer has none.
    #[error("it does not say which histories its log tells")]
    NoHistories,
}

/// The histories that a master's log tells.
///
/// # Errors
///
/// It does not say so.
pub fn histories(stream: &TcpStream, peer: Option<&Peer>, options: &LinkOptions) -> Result<Histories, AskError> {
    let text = info(stream, peer, options)?;
    Histories::in_info(&text).ok_or(AskError::NoHistories)
}

fn info(stream: &TcpStream, peer: Option<&Peer>, options: &LinkOptions) -> Result<String, AskError> {
    let address = stream.peer_addr()?;
    let mut stream = Outgoing::connect(&address, PATIENCE, peer)?;
    let mut request = Vec::new();
    if let Some(password) = &options.password {
        let words = [Some(b"AUTH".as_slice()), options.user.as_deref(), Some(password)];
        resp::encode_command(&mut request, &words.into_iter().flatten().collect::<Vec<_>>());
    }
    resp::encode_command(&mut request, &["INFO", "replication"]);
    stream.write_all(&request)?;
    let (mut parser, mut buffer, mut room) = (ReplyParser::new(), Vec::new(), [0; 4096]);
    let began = Instant::now();
    loop {
        match parser.parse(&buffer, &ReplyLimits::default())? {
            ReplyProgress::Complete { consumed, value } => {
                buffer.drain(..consumed);
                match value {
                    Value::Simple(_) => {}
                    Value::Error(text) => return Err(AskError::Refused(String::from_utf8_lossy(&text).into_owned())),
                    other => {
                        return Ok(String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned());
                    }
                }
            }
            ReplyProgress::Incomplete { consumed, .. } => {
                buffer.drain(..consumed);
                if buffer.len() > LEN_MAX || began.elapsed() > PATIENCE {
                    return Err(AskError::NoAnswer);
                }
                let len = stream.read(&mut room)?;
                if len == 0 {
                    return Err(AskError::Closed);
                }
                buffer.extend_from_slice(room.get(..len).unwrap_or_default());
            }
        }
    }
}
