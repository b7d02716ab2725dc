//! As much of HTTP as the page needs: one request a connection, heads of a few kilobytes, no bodies.
//!
//! Who may see the figures is decided by the store (`Server::visit`). A page of another site must not read them by a name that it has
//! point here (DNS rebinding): where no password is needed, only requests that name an address of numbers or `localhost` are answered.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use commands::server::{Refusal, Visitor};
use resp::Value as Reply;

use crate::{folder::ShardFolder, messages, running::disk_bytes};

use super::{
    assets, live, metrics,
    requests::{NoAnswer, Questions},
};

/// The longest head.
const HEAD_LEN_MAX: usize = 16 << 10;
/// How long a head may take, and a part of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections are served at once.
const CONNECTIONS_MAX: usize = 32;
/// How long to wait when no connection can be taken: there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// How far back the page may look, in seconds.
const WINDOWS: [i64; 3] = [60, 600, 3600];
/// What metrics are made of. Who may not run the others gets what is in the first.
const INFO: &[&[&[u8]]] = &[&[b"INFO", b"everything"]];
const INFO_AND_SLOW: &[&[&[u8]]] = &[&[b"INFO", b"everything"], &[b"SLOWLOG", b"LEN"], &[b"SLOWLOG", b"GET", b"1"]];

/// What is served.
pub struct Site {
    questions: Arc<Questions>,
    folder: Option<PathBuf>,
    connections: AtomicUsize,
}

impl Site {
    pub fn new(questions: Arc<Questions>, folder: Option<PathBuf>) -> Self {
        Self { questions, folder, connections: AtomicUsize::new(0) }
    }
}

/// Begins to serve.
pub fn start(listener: TcpListener, site: Site) -> io::Result<()> {
    let site = Arc::new(site);
    thread::Builder::new().name("page".into()).spawn(move || accept(&listener, &site)).map(drop)
}

fn accept(listener: &TcpListener, site: &Arc<Site>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        if site.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            site.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let served = Arc::clone(site);
        let started = thread::Builder::new().name("page-client".into()).spawn(move || {
            // Who goes away in the middle has no answer to wait for.
            let _ = serve(stream, &served);
            served.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = started {
            site.connections.fetch_sub(1, Ordering::Relaxed);
            messages::warn(&format!("the page cannot be served: {error}"));
        }
    }
}

fn serve(mut stream: TcpStream, site: &Site) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let is_local = stream.peer_addr().is_ok_and(|peer| is_loopback(peer.ip()));
    let Some(head) = read_head(&mut stream)? else { return Ok(()) };
    let request = Request::parse(&head, is_local);
    let answer = match &request {
        Some(request) => answer(request, site),
        None => Answer::text(400, "This is no request of HTTP/1."),
    };
    let has_body = request.is_none_or(|request| request.method != "HEAD");
    stream.write_all(&answer.bytes(has_body))
}

/// Whether an address is this machine's own.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(address.is_loopback(), |mapped| mapped.is_loopback()),
        IpAddr::V4(address) => address.is_loopback(),
    }
}

/// The bytes up to the empty line; nothing if it does not come.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let start = Instant::now();
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let len = stream.read(&mut piece)?;
        head.extend_from_slice(piece.get(..len).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if len == 0 || head.len() > HEAD_LEN_MAX || start.elapsed() > PATIENCE {
            return Ok(None);
        }
    }
}

/// What a head asks for.
struct Request {
    method: String,
    path: String,
    query: String,
    /// The name of the machine, as it was asked for.
    host: String,
    visitor: Visitor,
}

impl Request {
    fn parse(head: &[u8], is_local: bool) -> Option<Self> {
        let head = std::str::from_utf8(head).ok()?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() || !target.starts_with('/') {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: String::new(),
            visitor: Visitor { credentials: None, is_local, is_own_host: false },
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("host") {
                value.clone_into(&mut request.host);
            } else if name.eq_ignore_ascii_case("authorization") {
                request.visitor.credentials = credentials(value);
            }
        }
        request.visitor.is_own_host = request.is_own_host();
        Some(request)
    }

    /// A parameter of the query.
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether nobody else can have made this name point here.
    fn is_own_host(&self) -> bool {
        let host = match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.host.split(':').next().unwrap_or_default(),
        };
        self.host.is_empty() || host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    }
}

/// Name and password of `Basic ...`.
fn credentials(value: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let at = decoded.iter().position(|byte| *byte == b':')?;
    let (name, password) = decoded.split_at(at);
    Some((name.to_vec(), password.get(1..).unwrap_or_default().to_vec()))
}

/// What is answered.
struct Answer {
    status: u16,
    content_type: &'static str,
    /// Another line of the head.
    more: &'static str,
    body: Vec<u8>,
}

const NOT_KEPT: &str = "Cache-Control: no-store\r\n";
const KEPT: &str = "Cache-Control: public, max-age=31536000, immutable\r\n";
const ASKS_FOR_PASSWORD: &str =
    "Cache-Control: no-store\r\nWWW-Authenticate: Basic realm=\"Tidegate store\", charset=\"UTF-8\"\r\n";

impl Answer {
    fn text(status: u16, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self { status, content_type: "text/plain; charset=utf-8", more: NOT_KEPT, body }
    }

    fn bytes(&self, has_body: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Service Unavailable",
        };
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Content-Security-Policy: {}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            self.more,
            webpage::POLICY
        )
        .into_bytes();
        if has_body {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

fn answer(request: &Request, site: &Site) -> Answer {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Answer::text(405, "Only GET and HEAD are answered here.");
    }
    if let Some(asset) = request.path.strip_prefix("/asset/").and_then(assets::find) {
        let body = asset.body.as_bytes().to_vec();
        return Answer { status: 200, content_type: asset.content_type, more: KEPT, body };
    }
    if !matches!(request.path.as_str(), "/" | "/live.json" | "/metrics") {
        return Answer::text(
            404,
            "There is / (the page), /metrics (for Prometheus) and /live.json (what the page draws).",
        );
    }
    let folder = site.folder.as_deref();
    let made = match request.path.as_str() {
        "/" => site.questions.ask(request.visitor.clone(), INFO).map(|_| Answer {
            status: 200,
            content_type: "text/html; charset=utf-8",
            more: NOT_KEPT,
            body: assets::markup().into_bytes(),
        }),
        "/metrics" => all_metrics(request, site).map(|text| Answer {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            more: NOT_KEPT,
            body: text.into_bytes(),
        }),
        _ => {
            let window = request.parameter("window").and_then(|text| text.parse().ok());
            let window = window.filter(|window| WINDOWS.contains(window)).unwrap_or(60);
            live::live(&site.questions, request.visitor.clone(), folder, window).map(|value| Answer {
                status: 200,
                content_type: "application/json",
                more: NOT_KEPT,
                body: value.to_string().into_bytes(),
            })
        }
    };
    made.unwrap_or_else(refused)
}

fn refused(reason: NoAnswer) -> Answer {
    match reason {
        NoAnswer::Refused(Refusal::Password) => Answer {
            more: ASKS_FOR_PASSWORD,
            ..Answer::text(401, "Name and password of a user of the store are needed.")
        },
        NoAnswer::Refused(Refusal::Protected) => Answer::text(
            403,
            "The store runs in protected mode (protected-mode yes) and has no password: it answers this machine alone. Set a \
             password (requirepass), or protected-mode no.",
        ),
        NoAnswer::Refused(Refusal::Host) => Answer::text(
            403,
            "Without a password (requirepass) this page is shown by addresses of numbers and as localhost only: any site could \
             read it by a name that points here.",
        ),
        NoAnswer::Refused(Refusal::Command(name)) => Answer {
            more: ASKS_FOR_PASSWORD,
            ..Answer::text(401, &format!("This user may not run {name}, which the page is made of (ACL SETUSER)."))
        },
        NoAnswer::Busy => Answer::text(503, "The store does not answer: it reads its log, or is busy with a script."),
    }
}

fn all_metrics(request: &Request, site: &Site) -> Result<String, NoAnswer> {
    let asked = site.questions.ask(request.visitor.clone(), INFO_AND_SLOW);
    let replies = match asked {
        // A user for monitoring may have INFO alone.
        Err(NoAnswer::Refused(Refusal::Command(_))) => site.questions.ask(request.visitor.clone(), INFO)?,
        other => other?,
    };
    let info = live::info(replies.first().map(Vec::as_slice).unwrap_or_default());
    let slow = replies.get(1).and_then(|len| {
        let Reply::Integer(len) = live::reply(len) else { return None };
        let last = live::reply(replies.get(2)?);
        let last = last.as_slice().and_then(|entries| match entries.first()?.as_slice()? {
            [Reply::Integer(id), _, Reply::Integer(time_us), ..] => {
                Some((u64::try_from(*id).ok()?, *time_us as f64 / 1e6))
            }
            _ => None,
        });
        Some((u64::try_from(len).ok()?, last))
    });
    let disk = site.folder.as_deref().map(|folder| {
        let shard = ShardFolder::first(folder);
        (disk_bytes(&shard.tables()), disk_bytes(&shard.log()))
    });
    Ok(metrics::text(&info, slow, disk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Option<Request> {
        Request::parse(format!("{}\r\n\r\n", head.replace('\n', "\r\n")).as_bytes(), true)
    }

    #[test]
    fn heads_are_taken_apart() {
        let found =
            request("GET /live.json?window=600&x=1 HTTP/1.1\nHost: localhost:8379\nauthorization: basic dTpwOnE=")
                .unwrap();
        assert_eq!(
            (found.path.as_str(), found.parameter("window"), found.parameter("w")),
            ("/live.json", Some("600"), None)
        );
        assert_eq!(found.visitor.credentials, Some((b"u".to_vec(), b"p:q".to_vec())));
        for head in ["GET / HTTP/2", "GET /", "GET http://x/ HTTP/1.1", "", "GET / HTTP/1.1 x"] {
            assert!(request(head).is_none(), "{head}");
        }
    }

    #[test]
    fn names_that_anybody_can_point_here_are_not_ours() {
        for (host, is_own) in [
            ("127.0.0.1:8379", true),
            ("[::1]:8379", true),
            ("localhost", true),
            ("LocalHost:80", true),
            ("evil.example:8379", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(
                request(&format!("GET / HTTP/1.1\nHost: {host}")).unwrap().visitor.is_own_host,
                is_own,
                "{host}"
            );
        }
    }
}
