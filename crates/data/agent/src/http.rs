//! Requests on the folder's socket: HTTP with JSON, one request a connection. Whoever may open the socket may ask: it is the owner's.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read, Write as _},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{error::AgentError, options::Folder};

/// Bytes that a request's head may have.
const HEAD_MAX: u64 = 16 << 10;
/// Bytes that a body may have.
const BODY_MAX: usize = 1 << 20;
/// How long anybody waits for the other side.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that is asked.
#[derive(Debug)]
pub struct Request {
    /// GET or POST.
    pub method: String,
    /// What.
    pub path: String,
    /// With what; null if nothing.
    pub body: Value,
}

/// What is said to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// HTTP's number.
    pub status: u16,
    /// What.
    pub body: Value,
}

impl Response {
    /// It is so.
    #[must_use]
    pub fn good(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// It is not done, and why.
    #[must_use]
    pub fn refused(status: u16, problem: impl ToString) -> Self {
        Self { status, body: serde_json::json!({ "error": problem.to_string() }) }
    }
}

/// Listens on the folder's socket; each request goes where it is told, with a way back.
///
/// # Errors
///
/// The socket cannot be made.
pub fn listen(
    folder: &Folder,
    requests: impl Fn(Request, Sender<Response>) -> bool + Send + Sync + Clone + 'static,
) -> Result<(), AgentError> {
    let path = folder.socket();
    let failed = |source| AgentError::File { path: path.clone(), source };
    // Whoever was here before has ended: the coordinator's lock is ours.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let accept = move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let requests = requests.clone();
            // A client that cannot be served is closed.
            let _ = thread::Builder::new().name("request".into()).spawn(move || serve(&stream, &requests));
        }
    };
    thread::Builder::new().name("requests".into()).spawn(accept).map_err(failed)?;
    Ok(())
}

fn serve(stream: &UnixStream, requests: &impl Fn(Request, Sender<Response>) -> bool) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let response = match read(stream) {
        Ok(request) => {
            let (answer, answered) = mpsc::channel();
            let gone = || Response::refused(503, "the agent is ending");
            if requests(request, answer) { answered.recv_timeout(PATIENCE).unwrap_or_else(|_| gone()) } else { gone() }
        }
        Err(error) => Response::refused(400, format!("the request cannot be read: {error}")),
    };
    let body = response.body.to_string();
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        response.status,
        if response.status == 200 { "OK" } else { "Error" },
        body.len()
    );
    let mut writer = stream;
    writer.write_all(head.as_bytes())?;
    writer.write_all(body.as_bytes())
}

fn bad(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_owned())
}

/// The first line's words, and the body.
fn read_message(stream: &UnixStream) -> io::Result<(Vec<String>, Vec<u8>)> {
    let mut reader = BufReader::new(stream.take(HEAD_MAX));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(bad("its head has no end"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(|_| bad("content-length is no number"))?;
        }
    }
    if length > BODY_MAX {
        return Err(bad("its body is too long"));
    }
    let mut body = vec![0; length];
    reader.get_mut().set_limit(BODY_MAX as u64);
    reader.read_exact(&mut body)?;
    Ok((first.split_ascii_whitespace().map(str::to_owned).collect(), body))
}

fn read(stream: &UnixStream) -> io::Result<Request> {
    let (words, body) = read_message(stream)?;
    let [method, path, version] = words.as_slice() else { return Err(bad("no request line")) };
    if !version.starts_with("HTTP/1.") {
        return Err(bad("not HTTP/1.1"));
    }
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Request { method: method.clone(), path: path.clone(), body })
}

/// Asks the agent of a folder.
///
/// # Errors
///
/// Nobody answers, or with an error, which is its text.
pub fn ask(dir: &Path, method: &str, path: &str, body: &Value) -> Result<Value, AgentError> {
    let not_running = |source| AgentError::NotRunning { dir: dir.to_owned(), source };
    let stream = UnixStream::connect(Folder::new(dir.to_owned()).socket()).map_err(not_running)?;
    let asked = || {
        stream.set_read_timeout(Some(PATIENCE * 2))?;
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: agent\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        (&stream).write_all(head.as_bytes())?;
        read_message(&stream)
    };
    let (words, body) = asked().map_err(not_running)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if words.get(1).map(String::as_str) == Some("200") {
        return Ok(body);
    }
    let problem = body.get("error").and_then(Value::as_str).unwrap_or("the agent answers with an error");
    Err(AgentError::Other(problem.to_owned()))
}
