//! Passes commands that change the cluster on to the agent that looks after this node, by the agent's socket, and hears what becomes of
//! them. Each has a thread of its own: slots that move take their time, and the loop waits for nobody.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, TcpStream, ToSocketAddrs as _},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use commands::{
    config::Settings,
    server::{AgentAnswer, AgentRequest},
};
use mio::Waker;
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value, encode_command};
use serde_json::json;

/// How long the agent, or another node, may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long an agent may be away that has begun something: it goes on with it when it is there again.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// How often an agent that is away is looked for.
const LOOK_EACH: Duration = Duration::from_millis(200);
/// Commands that are on their way at the same time.
const UNDER_WAY_MAX: usize = 64;
/// Bytes of an answer.
const ANSWER_MAX: u64 = 64 << 10;

/// What the threads need to know of the node.
#[derive(Debug, Clone)]
struct Own {
    bind: Option<IpAddr>,
    port: u16,
    credentials: Option<(String, String)>,
}

impl Own {
    fn of(settings: &Settings) -> Self {
        let first = settings.bind.0.split_ascii_whitespace().next();
        let bind = first.and_then(|text| text.trim_start_matches('-').parse().ok());
        let password = settings.masterauth.0.clone();
        Self {
            bind: bind.filter(|address: &IpAddr| !address.is_unspecified()),
            port: u16::try_from(settings.port.0).unwrap_or(0),
            credentials: (!password.is_empty()).then(|| (settings.masteruser.0.clone(), password)),
        }
    }
}

/// What has become of a command, by its number.
type Outcome = (u64, AgentAnswer);

/// The threads, seen from the loop.
#[derive(Debug)]
pub struct AgentLink {
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
    under_way: Arc<AtomicUsize>,
    waker: Arc<Waker>,
}

impl AgentLink {
    /// One that has nothing to do yet.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { outcomes: mpsc::channel(), under_way: Arc::default(), waker }
    }

    /// Has a command passed on.
    pub fn send(&self, request: AgentRequest, settings: &Settings) {
        let (sender, waker, count) = (self.outcomes.0.clone(), Arc::clone(&self.waker), Arc::clone(&self.under_way));
        let number = request.number;
        let refuse = |text: String| {
            let _ = self.outcomes.0.send((number, AgentAnswer::Refused(text)));
            let _ = self.waker.wake();
        };
        if count.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
            count.fetch_sub(1, Ordering::Relaxed);
            return refuse(format!(
                "ERR {UNDER_WAY_MAX} changes of the cluster wait at this node already: ask again later"
            ));
        }
        let own = Own::of(settings);
        let started = thread::Builder::new().name("agent".into()).spawn(move || {
            let answer = passed_on(&own, &request);
            count.fetch_sub(1, Ordering::Relaxed);
            let _ = sender.send((request.number, answer));
            let _ = waker.wake();
        });
        if let Err(error) = started {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            refuse(format!("ERR the system has no thread to ask the cluster's agent by: {error}"));
        }
    }

    /// What has become of one.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.1.try_recv().ok()
    }
}

fn passed_on(own: &Own, request: &AgentRequest) -> AgentAnswer {
    let done = match &request.other {
        Some(other) if request.socket.is_empty() => meet(own, other),
        _ => by_agent(own, request),
    };
    done.unwrap_or_else(AgentAnswer::Refused)
}

/// Asks the agent until it is done or refused.
fn by_agent(own: &Own, request: &AgentRequest) -> Result<AgentAnswer, String> {
    let mut body = json!({ "node": request.node, "address": address(own, request), "command": request.command });
    if let (Some(settings), Some(fields)) = (&request.settings, body.as_object_mut()) {
        let settings: serde_json::Map<_, _> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        fields.insert("settings".into(), serde_json::Value::Object(settings).to_string().into());
    }
    let mut heard_at = None;
    loop {
        let answer = match ask(&request.socket, &body) {
            Ok(answer) => answer,
            // It was there: it is being started again, and what it has begun goes on.
            Err(_) if heard_at.is_some_and(|at: Instant| at.elapsed() < AWAY_MAX) => {
                thread::sleep(LOOK_EACH);
                continue;
            }
            Err(error) => {
                let socket = &request.socket;
                return Err(format!("ERR the agent that looks after this node does not answer at {socket}: {error}"));
            }
        };
        heard_at = Some(Instant::now());
        let text = |name: &str| answer.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
        if let Some(problem) = text("error") {
            return Err(format!("ERR {problem}"));
        }
        let Some(wait) = text("wait") else {
            return match text("reply") {
                Some(reply) if reply == "RESET" => Ok(AgentAnswer::Reset),
                Some(reply) => Ok(AgentAnswer::Done(reply)),
                None => Err(
                    "ERR the cluster's agent answers with something else than it is asked for: is it an older version?"
                        .into(),
                ),
            };
        };
        let ms = answer.get("ms").and_then(serde_json::Value::as_u64).unwrap_or(100);
        thread::sleep(Duration::from_millis(ms));
        if let Some(fields) = body.as_object_mut() {
            fields.insert("wait".into(), wait.into());
        }
    }
}

/// Where others reach this node: where it listens, or where it comes from when it goes to the node that it is to meet.
fn address(own: &Own, request: &AgentRequest) -> String {
    let by_way = || {
        let (host, port) = request.other.as_ref()?;
        let stream =
            TcpStream::connect_timeout(&(host.as_str(), *port).to_socket_addrs().ok()?.next()?, LOOK_EACH).ok()?;
        Some(stream.local_addr().ok()?.ip())
    };
    let ip = own.bind.or_else(by_way);
    ip.map_or_else(String::new, |ip| format!("{ip}:{}", own.port))
}

fn ask(socket: &str, body: &serde_json::Value) -> io::Result<serde_json::Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let text = body.to_string();
    let head =
        format!("POST /api/nodes/command HTTP/1.1\r\nhost: agent\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "its answer cannot be read");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(bad)?;
    serde_json::from_slice(answer.get(end + 4..).unwrap_or_default()).map_err(|_| bad())
}

/// A node that nobody looks after asks the other one to take it in: that one has an agent.
fn meet(own: &Own, (host, port): &(String, u16)) -> Result<AgentAnswer, String> {
    let failed = |error: io::Error| format!("ERR the node at {host}:{port} does not answer: {error}");
    let place = (host.as_str(), *port).to_socket_addrs().map_err(failed)?.next();
    let place = place.ok_or_else(|| format!("ERR {host} has no address"))?;
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(failed)?;
    let ip = own.bind.map_or_else(|| stream.local_addr().map(|address| address.ip()), Ok).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut replies = 1;
    if let Some((user, password)) = &own.credentials {
        let words: Vec<&str> = ["AUTH", user, password].into_iter().filter(|word| !word.is_empty()).collect();
        encode_command(&mut bytes, &words);
        replies += 1;
    }
    encode_command(&mut bytes, &["CLUSTER", "MEET", &ip.to_string(), &own.port.to_string()]);
    stream.write_all(&bytes).map_err(failed)?;
    let mut parser = ReplyParser::new();
    let (mut received, mut last) = (Vec::new(), Value::Null);
    while replies > 0 {
        match parser.parse(&received, &ReplyLimits::default()) {
            Ok(ReplyProgress::Complete { consumed, value }) => {
                received.drain(..consumed);
                parser = ReplyParser::new();
                replies -= 1;
                last = value;
                continue;
            }
            Ok(ReplyProgress::Incomplete { consumed, .. }) => drop(received.drain(..consumed)),
            Err(error) => return Err(format!("ERR the node at {host}:{port} answers with no reply: {error}")),
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Ok(len) => received.extend_from_slice(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match last.as_error() {
        Some(error) => Err(String::from_utf8_lossy(error).into_owned()),
        None => Ok(AgentAnswer::Done("OK".into())),
    }
}
