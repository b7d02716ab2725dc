//! The statistics port. Who connects and says nothing gets twemproxy's JSON, as from twemproxy; who speaks HTTP gets the same, or how the
//! proxy is: `/health` says 200 while clients may come, 503 with the reason while they should go elsewhere.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;

use super::worker::Shared;
use crate::statistics::Snapshot;

/// For how long is waited whether who connects speaks HTTP.
const HTTP_PATIENCE: Duration = Duration::from_millis(50);
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest head of a request.
const HEAD_MAX: usize = 8 * 1024;
/// Connections that are answered at the same time; others wait.
const CONNECTIONS_MAX: usize = 16;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// A thread that has not told how it is for so long does not serve.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// What is shown.
struct Page {
    shared: Arc<Shared>,
    began: Instant,
    host: String,
}

/// Answers each who connects, until the process ends.
pub fn serve(listener: &TcpListener, shared: Arc<Shared>) {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let page = Arc::new(Page { shared, began: Instant::now(), host });
    let busy = Arc::new(AtomicUsize::new(0));
    while !page.shared.stops.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        while busy.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            std::thread::sleep(HTTP_PATIENCE);
        }
        busy.fetch_add(1, Ordering::AcqRel);
        let (page, mine) = (Arc::clone(&page), Arc::clone(&busy));
        let answers = std::thread::Builder::new().name("statistics".into()).spawn(move || {
            // Who has left does not miss the answer.
            let _ = page.answer(stream);
            mine.fetch_sub(1, Ordering::AcqRel);
        });
        if answers.is_err() {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Page {
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = head(&mut stream)? else { return stream.write_all(self.statistics().as_bytes()) };
        let mut words = head.split(|byte| *byte == b' ');
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default().split(|byte| *byte == b'?').next().unwrap_or_default();
        let (status, body) = match (method, path) {
            (b"GET" | b"HEAD", b"/health") => self.health(),
            (b"GET" | b"HEAD", b"/" | b"/stats") => ("200 OK", self.statistics()),
            (b"GET" | b"HEAD", _) => ("404 Not Found", "{\"error\": \"there are /health and /stats\"}\n".to_owned()),
            _ => ("405 Method Not Allowed", "{\"error\": \"GET and HEAD are answered\"}\n".to_owned()),
        };
        let length = body.len();
        let body = if method == b"HEAD" { "" } else { &body };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n{body}"
        )
    }

    fn statistics(&self) -> String {
        let mut all = Snapshot::default();
        for one in self.shared.snapshots.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.add(one.clone());
        }
        all.text(&self.host, self.began.elapsed().as_secs(), basics::clock::microseconds() / 1_000_000)
    }

    fn health(&self) -> (&'static str, String) {
        let (mut reasons, mut degraded) = (Vec::new(), Vec::new());
        if self.shared.leaves.load(Ordering::Relaxed) {
            reasons.push("the proxy shuts down".to_owned());
        }
        for (number, told) in self.shared.healths.lock().unwrap_or_else(PoisonError::into_inner).iter().enumerate() {
            match told {
                Some((_, at)) if at.elapsed() > SILENCE_MAX => {
                    reasons.push(format!("thread {number} has not moved for {} s", at.elapsed().as_secs()));
                }
                Some((health, _)) => {
                    reasons.extend(health.reasons.iter().cloned());
                    degraded.extend(health.degraded.iter().cloned());
                }
                None => reasons.push(format!("thread {number} starts")),
            }
        }
        for list in [&mut reasons, &mut degraded] {
            list.sort();
            list.dedup();
        }
        let (status, word) =
            if reasons.is_empty() { ("200 OK", "ok") } else { ("503 Service Unavailable", "unavailable") };
        (status, format!("{}\n", json!({ "status": word, "reasons": reasons, "degraded": degraded })))
    }
}

/// The head of a request of HTTP; nothing if who connected says nothing.
fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let began = Instant::now();
    stream.set_read_timeout(Some(HTTP_PATIENCE))?;
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) if head.is_empty() => return Ok(None),
            Ok(0) => return Ok(Some(head)),
            Ok(count) => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if head.is_empty() {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error),
        }
        let is_whole = head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n");
        if is_whole || head.len() > HEAD_MAX || began.elapsed() > PATIENCE {
            return Ok(Some(head));
        }
    }
}
