//! Asks the agent of a folder, by its socket.

use std::{
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::message::{self, Message};
use crate::{error::AgentError, options::Folder};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that an answer may have: thousands of servers, or a long history.
const ANSWER_MAX: usize = 256 << 20;

/// Asks the agent of a folder.
///
/// # Errors
///
/// Nobody answers, or with an error, which is its text.
pub fn ask(dir: &Path, method: &str, path: &str, body: &Value) -> Result<Value, AgentError> {
    let not_running = |source| AgentError::NotRunning { dir: dir.to_owned(), source };
    let mut stream = UnixStream::connect(Folder::new(dir.to_owned()).socket()).map_err(not_running)?;
    let end = Instant::now() + PATIENCE;
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!("{method} {path} HTTP/1.1\r\nhost: agent\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    message::write(&mut stream, head.as_bytes(), end).map_err(not_running)?;
    let answer = Message::read(&mut stream, ANSWER_MAX, end).map_err(not_running)?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    if answer.first.get(1).map(String::as_str) == Some("200") {
        return Ok(body);
    }
    let problem = body.get("error").and_then(Value::as_str).unwrap_or("the agent answers with an error");
    Err(AgentError::Other(problem.to_owned()))
}
