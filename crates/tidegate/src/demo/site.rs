//! A sample web site: a small HTTP server with one page, made to be looked at and to be killed.

use std::{
    convert::Infallible,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    page::{self, Visit},
    visits::Visits,
};

/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: u64 = 16 * 1024;
/// How long the slow page takes.
const SLOW_TIME: Duration = Duration::from_millis(500);
/// How long a connection may be idle.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// What of a request the site looks at.
#[derive(Debug, Default)]
struct Request {
    method: String,
    path: String,
    wants_html: bool,
    forwarded_for: Option<String>,
    has_body: bool,
    close: bool,
}

/// The site's numbers.
#[derive(Debug)]
struct Counters {
    requests: AtomicU64,
    /// Those for the slow page.
    slow: AtomicU64,
    connections: AtomicUsize,
    visits: Visits,
}

/// Serves the site until the process is ended.
pub fn serve(name: &str, port: u16, store: u16) -> io::Result<Infallible> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let counters = Arc::new(Counters {
        requests: AtomicU64::new(0),
        slow: AtomicU64::new(0),
        connections: AtomicUsize::new(0),
        visits: Visits::new(store),
    });
    let name: Arc<str> = name.into();
    loop {
        // A client that left while it waited is nobody's fault; nor is a lack of descriptors, which passes.
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if counters.connections.load(Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        counters.connections.fetch_add(1, Relaxed);
        let (thread_name, thread_counters) = (Arc::clone(&name), Arc::clone(&counters));
        let spawned = std::thread::Builder::new().name("demo-client".into()).spawn(move || {
            // An error is the end of this connection, whatever it was.
            let _ = converse(&stream, &thread_name, port, &thread_counters);
            thread_counters.connections.fetch_sub(1, Relaxed);
        });
        if spawned.is_err() {
            counters.connections.fetch_sub(1, Relaxed);
        }
    }
}

fn converse(stream: &TcpStream, name: &str, port: u16, counters: &Counters) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIME_MAX))?;
    stream.set_write_timeout(Some(IDLE_TIME_MAX))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        // Bodies are of no use here; closing is the way to be rid of one.
        let close = request.close || request.has_body;
        let answer = answer(&request, name, port, counters, close);
        (&*stream).write_all(&answer)?;
        if close {
            break;
        }
    }
    Ok(())
}

fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut request = Request::default();
    let mut head = reader.take(HEAD_BYTES_MAX);
    let mut line = String::new();
    let mut first = true;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end();
        if first {
            let mut words = text.split(' ');
            request.method = words.next().unwrap_or_default().to_owned();
            let target = words.next().unwrap_or_default();
            request.path = target.split('?').next().unwrap_or_default().to_owned();
            request.close = words.next() != Some("HTTP/1.1");
            first = false;
        } else if text.is_empty() {
            return Ok(Some(request));
        } else if let Some((field, value)) = text.split_once(':') {
            let value = value.trim();
            match field.to_ascii_lowercase().as_str() {
                "accept" => request.wants_html = value.contains("text/html"),
                "x-forwarded-for" => request.forwarded_for = Some(value.to_owned()),
                "connection" => request.close |= value.eq_ignore_ascii_case("close"),
                "content-length" => request.has_body = value != "0",
                "transfer-encoding" => request.has_body = true,
                _ => {}
            }
        }
    }
}

fn answer(request: &Request, name: &str, port: u16, counters: &Counters, close: bool) -> Vec<u8> {
    let (status, media_type, body) = match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/health") => ("200 OK", "text/plain; charset=utf-8", "well\n".to_owned()),
        ("GET" | "HEAD", "/") => {
            let number = counters.requests.fetch_add(1, Relaxed) + 1;
            let together = counters.visits.count();
            let visit = Visit { name, port, number, together, forwarded_for: request.forwarded_for.as_deref() };
            if request.wants_html {
                ("200 OK", "text/html; charset=utf-8", page::html(&visit))
            } else {
                ("200 OK", "text/plain; charset=utf-8", page::plain(&visit))
            }
        }
        ("GET" | "HEAD", "/slow") => {
            std::thread::sleep(SLOW_TIME);
            let number = counters.slow.fetch_add(1, Relaxed) + 1;
            let text =
                format!("{name} has worked half a second on this page, for the {} time\n", basics::ordinal(number));
            ("200 OK", "text/plain; charset=utf-8", text)
        }
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain; charset=utf-8", "There are only two pages: / and /slow\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "This site only answers GET.\n".to_owned()),
    };
    let life = if request.path == "/slow" { "max-age=10" } else { "no-store" };
    let connection = if close { "close" } else { "keep-alive" };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: {connection}\r\n\
         vary: accept\r\ncache-control: {life}\r\nx-site: {name}\r\n\r\n",
        body.len()
    );
    if request.method != "HEAD" {
        answer += &body;
    }
    answer.into_bytes()
}
