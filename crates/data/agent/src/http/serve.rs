//! Listens on the folder's socket and by TCP; a thread for each connection, and a bound for how many there are.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    Question, Request, Response, Token,
    client::{self, PASSED_ON},
    guard::{Given, No, Situation, Wish},
    look,
    message::{self, BODY_MAX, Message, Stream},
};
use crate::{
    api::Access,
    backups::{Archivist, BackupError, Content, Task},
    board::EXCHANGE,
    connection::{Connection, Login, text},
    error::AgentError,
    metrics,
    options::Folder,
    page,
};

/// How long a request may take to come, and an answer to go.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take that is asked for somebody.
pub(super) const SERVER_PATIENCE: Duration = Duration::from_secs(5);
/// Connections of each kind at the same time.
const CONNECTIONS_MAX: usize = 64;
/// How long to wait when no connection can be taken: there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of a file is read at once.
const PIECE_LEN: usize = 256 << 10;

/// Where requests go.
pub struct Desk {
    /// Hands one over, with a way back; says whether somebody is there.
    pub hand_over: Box<dyn Fn(Request, Sender<Response>) -> bool + Send + Sync>,
    /// Whether a request changes something.
    pub access: fn(&str, &str) -> Option<Access>,
    /// What another agent of the cluster is told, whose token is right.
    pub exchange: Box<dyn Fn(Value) -> Option<Value> + Send + Sync>,
    /// The cluster's token: other agents are asked with it.
    pub token: Token,
    /// The servers' password.
    pub login: Login,
    /// How many are being served.
    pub serving: Arc<AtomicUsize>,
    /// What makes backups.
    pub archivist: Option<Arc<dyn Archivist>>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Desk")
    }
}

/// Listens on the folder's socket.
///
/// # Errors
///
/// The socket cannot be made.
pub fn listen(folder: &Folder, desk: Arc<Desk>) -> Result<(), AgentError> {
    let path = folder.socket();
    let failed = |source| AgentError::File { path: path.clone(), source };
    // Whoever was here before has ended: the coordinator's lock is ours.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let take = move || listener.accept().map(|(stream, _)| (stream, ()));
    let serve = move |mut stream, ()| {
        desk.serving.fetch_add(1, Ordering::SeqCst);
        let served = serve_owner(&mut stream, &desk);
        drop(served);
        desk.serving.fetch_sub(1, Ordering::SeqCst);
    };
    accept("requests", take, serve).map_err(failed)
}

/// Listens by TCP: the page, and requests of those who may ask.
///
/// # Errors
///
/// No thread can be started.
pub fn listen_tcp(listener: TcpListener, desk: Arc<Desk>) -> io::Result<()> {
    let take = move || listener.accept();
    accept("api", take, move |mut stream: TcpStream, peer: SocketAddr| {
        // Who goes away in the middle has no answer to wait for.
        desk.serving.fetch_add(1, Ordering::SeqCst);
        let _ = serve_guest(&mut stream, peer, &desk);
        desk.serving.fetch_sub(1, Ordering::SeqCst);
    })
}

/// Serves connections as they come, each by a thread.
fn accept<S: Stream + Send + 'static, P: Send + 'static>(
    name: &'static str,
    mut take: impl FnMut() -> io::Result<(S, P)> + Send + 'static,
    serve: impl Fn(S, P) + Send + Sync + 'static,
) -> io::Result<()> {
    let (count, serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
    let accept = move || {
        loop {
            let Ok((mut stream, peer)) = take() else {
                thread::sleep(PAUSE);
                continue;
            };
            let (count, serve) = (Arc::clone(&count), Arc::clone(&serve));
            if count.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                count.fetch_sub(1, Ordering::Relaxed);
                let full = Response::refused(503, format!("{CONNECTIONS_MAX} requests are being served: ask again"));
                // The few bytes find room in the socket, or are not sent.
                let _ = stream.limit(PAUSE).and_then(|()| stream.write_all(&bytes_of(full, true)));
                continue;
            }
            let counted = Arc::clone(&count);
            let started = thread::Builder::new().name("request".into()).spawn(move || {
                serve(stream, peer);
                counted.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(accept).map(drop)
}

fn serve_owner(stream: &mut impl Stream, desk: &Desk) -> io::Result<()> {
    let read = Message::read(stream, BODY_MAX, Instant::now() + PATIENCE);
    let response = match read.and_then(request_of) {
        Ok(request) => answered(desk, request),
        Err(error) => unreadable(&error),
    };
    send(stream, answer_of(response, true))
}

fn serve_guest(stream: &mut TcpStream, peer: SocketAddr, desk: &Desk) -> io::Result<()> {
    let read = Message::read(stream, BODY_MAX, Instant::now() + PATIENCE);
    let answer = match read {
        Ok(message) => guest_answer(message, peer, desk),
        Err(error) => Answer::Bytes(bytes_of(unreadable(&error), true)),
    };
    send(stream, answer)
}

/// What goes over a connection.
enum Answer {
    /// All of it.
    Bytes(Vec<u8>),
    /// What is read while it goes.
    Content(Content),
}

fn answer_of(response: Response, has_body: bool) -> Answer {
    match response {
        Response::Content(content) => Answer::Content(content),
        other => Answer::Bytes(bytes_of(other, has_body)),
    }
}

fn send(stream: &mut impl Stream, answer: Answer) -> io::Result<()> {
    let Content { len, mut bytes } = match answer {
        Answer::Bytes(bytes) => return message::write(stream, &bytes, Instant::now() + PATIENCE),
        Answer::Content(content) => content,
    };
    let head = head_of(200, "application/octet-stream", page::NOT_KEPT, len);
    message::write(stream, &head, Instant::now() + PATIENCE)?;
    let mut piece = vec![0; PIECE_LEN];
    loop {
        match bytes.read(&mut piece)? {
            0 => return Ok(()),
            read => message::write(stream, piece.get(..read).unwrap_or_default(), Instant::now() + PATIENCE)?,
        }
    }
}

fn guest_answer(message: Message, peer: SocketAddr, desk: &Desk) -> Answer {
    let given = match message.header("authorization") {
        None => Given::Nothing,
        Some(text) if desk.token.is_in(text) => Given::Right,
        Some(_) => Given::Wrong,
    };
    let situation = Situation::of(&message, peer.ip(), given);
    let mut request = match request_of(message) {
        Ok(request) => request,
        Err(error) => return Answer::Bytes(bytes_of(unreadable(&error), true)),
    };
    let wants_metrics = request.path == "/metrics";
    if let Some((_, path)) = WATCHED.iter().find(|(path, _)| *path == request.path) {
        (*path).clone_into(&mut request.path);
    }
    if given == Given::Right && request.path == EXCHANGE {
        let answer = (desk.exchange)(request.body).map_or_else(
            || Response::refused(400, "this is nothing that an agent says: do both run the same version?"),
            Response::good,
        );
        return answer_of(answer, true);
    }
    let has_body = request.method != "HEAD";
    let is_fetch = matches!(request.method.as_str(), "GET" | "HEAD");
    let file = page::find(&request.path).filter(|_| is_fetch);
    let access = (desk.access)(&request.method, &request.path).unwrap_or(Access::Read);
    let wish = if file.is_some() { Wish::File } else { Wish::Route(access) };
    match (situation.judge(wish), file) {
        (Err(no), _) => Answer::Bytes(refusal(no, has_body)),
        (Ok(()), Some(file)) => Answer::Bytes(framed(200, file.content_type, file.cache, &file.body, has_body)),
        (Ok(()), None) => {
            let response = answered(desk, request);
            match prometheus(&response).filter(|_| wants_metrics) {
                Some(text) => {
                    Answer::Bytes(framed(200, metrics::CONTENT_TYPE, page::NOT_KEPT, text.as_bytes(), has_body))
                }
                None => answer_of(response, has_body),
            }
        }
    }
}

/// What programs that watch look for, without a prefix.
const WATCHED: [(&str, &str); 2] = [("/health", "/api/health"), ("/metrics", "/api/metrics")];

/// The text for Prometheus, as a body of its own.
fn prometheus(response: &Response) -> Option<&str> {
    match response {
        Response::Said { status: 200, body } => body.get("text")?.as_str(),
        _ => None,
    }
}

fn unreadable(error: &io::Error) -> Response {
    Response::refused(400, format!("the request cannot be read: {error}"))
}

fn request_of(message: Message) -> io::Result<Request> {
    let bad = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    let [method, target, version] = message.first.as_slice() else { return Err(bad("no request line")) };
    if !version.starts_with("HTTP/1.") {
        return Err(bad("not HTTP/1.1"));
    }
    if !target.starts_with('/') {
        return Err(bad("its path does not begin with /"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_form =
        message.header("content-type").is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    let is_json = message.body.first().is_some_and(|byte| *byte == b'{');
    let mut query = query.to_owned();
    let body = match message.body.as_slice() {
        [] => Value::Null,
        // Agents of RebornDB take forms. What curl sends without being told otherwise calls itself one.
        form if is_form && !is_json => {
            let form = std::str::from_utf8(form).map_err(|_| bad("its form is no text"))?;
            query = [query.as_str(), form.trim()].join("&");
            Value::Null
        }
        json => serde_json::from_slice(json).map_err(|error| bad(&format!("its body is no JSON: {error}")))?,
    };
    let is_passed_on = message.header(PASSED_ON).is_some();
    Ok(Request { method: method.clone(), path: path.to_owned(), query, body, is_passed_on, measured: None })
}

fn answered(desk: &Desk, request: Request) -> Response {
    let mut again = request.clone();
    match handed_over(desk, request) {
        Response::Ask(question) => asked(&question, &desk.login),
        Response::Look(server) => {
            if let Some(fields) = again.body.as_object_mut() {
                fields.insert("found".into(), look::look(&server, &desk.login).to_string().into());
            }
            handed_over(desk, again)
        }
        Response::Measure(survey) => match survey.run(&desk.login) {
            Ok(measured) => handed_over(desk, Request { measured: Some(measured), ..again }),
            Err(problem) => Response::refused(502, format!("what slots have cannot be learned: {problem}")),
        },
        Response::Backup(task) => kept(desk, task),
        said @ (Response::Said { .. } | Response::PassOn { .. } | Response::Content(_)) => said,
    }
}

fn kept(desk: &Desk, task: Task) -> Response {
    let Some(archivist) = &desk.archivist else {
        return Response::refused(409, "this agent makes no backups");
    };
    let done = match task {
        Task::Begin { dir } => {
            archivist.begin(&dir).map(|number| Response::good(serde_json::json!({ "number": number })))
        }
        Task::Cut { number, until, former_end } => {
            archivist.cut(number, until, former_end).map(|()| Response::good(serde_json::json!({ "number": number })))
        }
        Task::Describe { number } => archivist.describe(number).map(Response::Content),
        Task::File { number, digest } => archivist.file(number, &digest).map(Response::Content),
        Task::End { number } => {
            archivist.end(number);
            Ok(Response::good(serde_json::json!({ "number": number })))
        }
    };
    done.unwrap_or_else(|error| {
        let status = if matches!(error, BackupError::NoBackup(_)) { 404 } else { 409 };
        Response::refused(status, error)
    })
}

fn handed_over(desk: &Desk, request: Request) -> Response {
    let (answer, answered) = mpsc::channel();
    let gone = || Response::refused(503, "the agent is ending, or too busy to answer");
    if !(desk.hand_over)(request, answer) {
        return gone();
    }
    match answered.recv_timeout(PATIENCE).unwrap_or_else(|_| gone()) {
        Response::PassOn { api, request } => {
            let path = if request.query.is_empty() { request.path } else { [request.path, request.query].join("?") };
            match client::passed_on(&api, &desk.token, (&request.method, &path), &request.body, PATIENCE) {
                Ok((status, body)) => Response::Said { status, body },
                Err(error) => Response::refused(503, format!("{error}; it leads the cluster")),
            }
        }
        other => other,
    }
}

fn asked(question: &Question, login: &Login) -> Response {
    let replies = Connection::open_as(&question.server, SERVER_PATIENCE, login)
        .and_then(|mut connection| connection.ask(std::slice::from_ref(&question.command)));
    match replies.as_deref() {
        Ok([reply, ..]) if reply.as_error().is_none() => Response::good((question.shape)(question, reply)),
        Ok([reply, ..]) => Response::refused(502, format!("{} answers: {}", question.server, text(reply))),
        Ok([]) => Response::refused(502, format!("{} does not answer", question.server)),
        Err(error) => Response::refused(502, format!("{}: {error}", question.server)),
    }
}

fn refusal(no: No, has_body: bool) -> Vec<u8> {
    bytes_of(Response::refused(no.status(), no.text()), has_body)
}

fn bytes_of(response: Response, has_body: bool) -> Vec<u8> {
    let (status, body) = match response {
        Response::Said { status, body } => (status, body),
        Response::Measure(_) => (502, serde_json::json!({ "error": "what slots have was not asked" })),
        Response::Ask(Question { server, .. }) | Response::Look(server) => {
            (502, serde_json::json!({ "error": format!("{server} was not asked") }))
        }
        Response::Backup(_) | Response::Content(_) => (502, serde_json::json!({ "error": "nobody was asked" })),
        Response::PassOn { api, .. } => (502, serde_json::json!({ "error": format!("{api} was not asked") })),
    };
    framed(status, "application/json", page::NOT_KEPT, body.to_string().as_bytes(), has_body)
}

fn framed(status: u16, content_type: &str, cache: &str, body: &[u8], has_body: bool) -> Vec<u8> {
    let mut bytes = head_of(status, content_type, cache, body.len() as u64);
    if has_body {
        bytes.extend_from_slice(body);
    }
    bytes
}

fn head_of(status: u16, content_type: &str, cache: &str, len: u64) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    };
    let challenge = if status == 401 { "www-authenticate: Bearer realm=\"Tidegate cluster\"\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\ncache-control: {cache}\r\n{challenge}\
         content-security-policy: {}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        len,
        webpage::POLICY
    )
    .into_bytes()
}
