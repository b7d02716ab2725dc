//! What a master is asked besides, on a connection of its own: which histories its log tells.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use replication::{parting::Histories, replica::LinkOptions};
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

/// How long an answer is waited for. The master is sending all its keys meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer.
const LEN_MAX: usize = 1 << 20;

/// The histories that a master's log tells; why not, if it does not say so.
pub fn histories(stream: &TcpStream, options: &LinkOptions) -> Result<Histories, String> {
    let text = info(stream, options)?;
    Histories::in_info(&text).ok_or_else(|| "it does not say which histories its log tells".into())
}

fn info(stream: &TcpStream, options: &LinkOptions) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let address = stream.peer_addr().map_err(failed)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut request = Vec::new();
    if let Some(password) = &options.password {
        let words = [Some(b"AUTH".as_slice()), options.user.as_deref(), Some(password)];
        resp::encode_command(&mut request, &words.into_iter().flatten().collect::<Vec<_>>());
    }
    resp::encode_command(&mut request, &["INFO", "replication"]);
    stream.write_all(&request).map_err(failed)?;
    let (mut parser, mut buffer, mut room) = (ReplyParser::new(), Vec::new(), [0; 4096]);
    let began = Instant::now();
    loop {
        match parser.parse(&buffer, &ReplyLimits::default()).map_err(|error| error.to_string())? {
            ReplyProgress::Complete { consumed, value } => {
                buffer.drain(..consumed);
                match value {
                    Value::Simple(_) => {}
                    Value::Error(text) => return Err(String::from_utf8_lossy(&text).into_owned()),
                    other => {
                        return Ok(String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned());
                    }
                }
            }
            ReplyProgress::Incomplete { consumed, .. } => {
                buffer.drain(..consumed);
                if buffer.len() > LEN_MAX || began.elapsed() > PATIENCE {
                    return Err("it gives no answer".into());
                }
                let len = stream.read(&mut room).map_err(failed)?;
                if len == 0 {
                    return Err("it has closed the connection".into());
                }
                buffer.extend_from_slice(room.get(..len).unwrap_or_default());
            }
        }
    }
}
