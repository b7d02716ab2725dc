//! Asks the agent of a folder by its socket, or that of another host by TCP.

use std::{
    io::{self, Read as _},
    net::{TcpStream, ToSocketAddrs as _},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use cluster::leading::Leader;
use coord::{Coordinator as _, Etcd, keys::Keys};
use serde_json::Value;

use super::{
    Token,
    message::{self, Message, Stream},
};
use crate::{error::AgentError, options::Folder, records::CLUSTER};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection to another host may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// Says that another agent has passed a request on.
pub(super) const PASSED_ON: &str = "x-tidegate-passed-on";
/// Bytes that an answer may have: thousands of servers, or a long history.
const ANSWER_MAX: usize = 256 << 20;
/// Bytes that are read of an error.
const REFUSAL_MAX: u64 = 64 << 10;

/// Asks the agent of a folder.
///
/// # Errors
///
/// Nobody answers, or with an error, which is its text.
pub fn ask(dir: &Path, method: &str, path: &str, body: &Value) -> Result<Value, AgentError> {
    let not_running = |source| AgentError::NotRunning { dir: dir.to_owned(), source };
    let mut stream = UnixStream::connect(Folder::new(dir.to_owned()).socket()).map_err(not_running)?;
    let (status, body) = exchange(&mut stream, &head(method, path, ""), body, PATIENCE).map_err(|source| {
        let is_late = matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let source = if is_late { io::Error::other(format!("not within {PATIENCE:?}")) } else { source };
        AgentError::NotAnswered { dir: dir.to_owned(), source }
    })?;
    good(status, body)
}

/// Asks the agent at an address, `host:port`, with the cluster's token.
///
/// # Errors
///
/// Nobody answers in time, or with an error, which is its text.
pub fn ask_at(
    api: &str,
    token: &Token,
    (method, path): (&str, &str),
    body: &Value,
    patience: Duration,
) -> Result<Value, AgentError> {
    let (status, body) = passed_on(api, token, (method, path), body, patience)?;
    good(status, body)
}

/// Asks the agent that leads a cluster of several hosts, which etcd knows, with its token.
///
/// # Errors
///
/// etcd or the agent does not answer, or with an error.
pub fn ask_leader(etcd: &[String], question: (&str, &str), body: &Value) -> Result<Value, AgentError> {
    let token = token_in(etcd)?;
    let (etcd, keys) = (Etcd::new(&etcd.join(","))?, Keys::new(CLUSTER));
    let leader = etcd.read(&keys.leader())?.ok_or_else(no_cluster)?;
    let leader: Leader = serde_json::from_slice(&leader.value)
        .map_err(|error| AgentError::Unreadable { place: keys.leader(), problem: error.to_string() })?;
    ask_at(&leader.api, &token, question, body, PATIENCE)
}

/// The token of the cluster that etcd knows.
///
/// # Errors
///
/// etcd does not answer, or knows of none.
pub fn token_in(etcd: &[String]) -> Result<Token, AgentError> {
    let (etcd, keys) = (Etcd::new(&etcd.join(","))?, Keys::new(CLUSTER));
    let token = etcd.read(&keys.token())?.ok_or_else(no_cluster)?;
    Ok(Token::of_text(&String::from_utf8_lossy(&token.value)))
}

fn no_cluster() -> AgentError {
    AgentError::Other("no cluster is in this etcd (start one with `tidegate cluster up --etcd`)".into())
}

/// The same, with HTTP's number.
///
/// # Errors
///
/// Nobody answers in time.
pub fn passed_on(
    api: &str,
    token: &Token,
    (method, path): (&str, &str),
    body: &Value,
    patience: Duration,
) -> Result<(u16, Value), AgentError> {
    let silent = |error: io::Error| AgentError::Other(format!("the agent at {api} does not answer: {error}"));
    let mut stream = connected(api, patience.min(CONNECT_PATIENCE)).map_err(silent)?;
    let more = format!("host: {api}\r\nauthorization: Bearer {}\r\n{PASSED_ON}: 1\r\n", token.text());
    exchange(&mut stream, &head(method, path, &more), body, patience).map_err(silent)
}

/// A body that is read while it comes.
pub struct Fetched {
    /// How many bytes it has.
    pub len: u64,
    stream: io::Take<io::Chain<io::Cursor<Vec<u8>>, TcpStream>>,
}

impl std::fmt::Debug for Fetched {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fetched").field("len", &self.len).finish_non_exhaustive()
    }
}

impl io::Read for Fetched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

/// Fetches what the agent at an address has, with the cluster's token. It may take so long until it begins to come.
///
/// # Errors
///
/// Nobody answers in time, or with an error, which is its text.
pub fn fetch_at(api: &str, token: &Token, path: &str, patience: Duration) -> Result<Fetched, AgentError> {
    let silent = |error: io::Error| AgentError::Other(format!("the agent at {api} does not answer: {error}"));
    let mut stream = connected(api, CONNECT_PATIENCE).map_err(silent)?;
    let more = format!("host: {api}\r\nauthorization: Bearer {}\r\n{PASSED_ON}: 1\r\n", token.text());
    let head = format!("{}\r\n", head("GET", path, &more));
    message::write(&mut stream, head.as_bytes(), Instant::now() + PATIENCE).map_err(silent)?;
    let answer = Message::read_head(&mut stream, Instant::now() + patience).map_err(silent)?;
    stream.limit(PATIENCE).map_err(silent)?;
    let len = answer.body_length().map_err(silent)? as u64;
    let status = answer.first.get(1).and_then(|number| number.parse::<u16>().ok()).unwrap_or(0);
    let stream = io::Cursor::new(answer.body).chain(stream).take(len);
    if status == 200 {
        return Ok(Fetched { len, stream });
    }
    let mut body = String::new();
    // An error that does not come whole is one all the same.
    let _ = stream.take(REFUSAL_MAX).read_to_string(&mut body);
    good(status, serde_json::from_str(&body).unwrap_or(Value::Null))?;
    Err(AgentError::Other(format!("the agent at {api} does not give {path}")))
}

fn connected(api: &str, patience: Duration) -> io::Result<TcpStream> {
    let found = api.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    TcpStream::connect_timeout(&found, patience)
}

fn head(method: &str, path: &str, more: &str) -> String {
    let host = if more.is_empty() { "host: agent\r\n" } else { more };
    format!("{method} {path} HTTP/1.1\r\n{host}")
}

fn exchange(stream: &mut impl Stream, head: &str, body: &Value, patience: Duration) -> io::Result<(u16, Value)> {
    let end = Instant::now() + patience;
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let bytes = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    message::write(stream, bytes.as_bytes(), end)?;
    let answer = Message::read(stream, ANSWER_MAX, end)?;
    let status = answer.first.get(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    Ok((status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null)))
}

fn good(status: u16, body: Value) -> Result<Value, AgentError> {
    if status == 200 {
        return Ok(body);
    }
    let problem = body.get("error").and_then(Value::as_str).unwrap_or("the agent answers with an error");
    Err(AgentError::Other(problem.to_owned()))
}
