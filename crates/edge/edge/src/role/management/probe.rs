//! Probes of VCL's backends, with Varnish's meaning: of the last `window` looks `threshold` must have been good.
//!
//! A look opens a connection of its own, sends the probe's request, and reads to the end of the connection. [`History`] has what came of
//! the last 64 looks, a bit each, the newest one lowest.

use std::{cell::RefCell, fmt::Write as _, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use live::Targets;
use net::Target;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use vcl::program::{Backend, BackendIndex, Endpoint, Probe, ProbeRequest};

/// How many good looks the average of their times is about.
const AVERAGE_OVER: f64 = 4.0;
/// Bytes of an answer that are looked at; the others are read and forgotten.
const ANSWER_BYTES: usize = 128;
const READ_BYTES: usize = 8192;

/// Where a look was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Ipv4,
    Ipv6,
    Unix,
}

/// What came of a look.
#[derive(Debug, Default)]
struct Look {
    family: Option<Family>,
    has_sent: bool,
    send_failed: bool,
    has_received: bool,
    receive_failed: bool,
    is_good: bool,
    seconds: f64,
}

/// What came of the last looks.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    ipv4: u64,
    ipv6: u64,
    unix: u64,
    send_failed: u64,
    sent: u64,
    receive_failed: u64,
    received: u64,
    happy: u64,
    average: f64,
    rate: f64,
}

impl History {
    /// The history of a probe that has not looked yet.
    fn new(probe: &Probe) -> Self {
        let mut history = Self::default();
        for _ in 0..probe.initial.min(probe.threshold) {
            history.add(&Look { is_good: true, ..Look::default() });
        }
        history
    }

    fn add(&mut self, look: &Look) {
        let bits = [
            (&mut self.ipv4, look.family == Some(Family::Ipv4)),
            (&mut self.ipv6, look.family == Some(Family::Ipv6)),
            (&mut self.unix, look.family == Some(Family::Unix)),
            (&mut self.send_failed, look.send_failed),
            (&mut self.sent, look.has_sent),
            (&mut self.receive_failed, look.receive_failed),
            (&mut self.received, look.has_received),
            (&mut self.happy, look.is_good),
        ];
        for (history, bit) in bits {
            *history = *history << 1 | u64::from(bit);
        }
        if look.is_good {
            self.rate = (self.rate + 1.0).min(AVERAGE_OVER);
            self.average += (look.seconds - self.average) / self.rate;
        }
    }

    /// Good ones among those that count.
    pub(super) fn good(&self, probe: &Probe) -> u32 {
        let window = u32::from(probe.window).min(u64::BITS);
        let mask = u64::MAX.checked_shr(u64::BITS - window).unwrap_or(0);
        (self.happy & mask).count_ones()
    }

    pub(super) fn is_healthy(&self, probe: &Probe) -> bool {
        self.good(probe) >= u32::from(probe.threshold)
    }

    /// What `backend.list -p` says.
    pub(super) fn lines(&self, probe: &Probe) -> String {
        let mut text = format!(
            " Current states  good: {:2} threshold: {:2} window: {:2}\n",
            self.good(probe),
            probe.threshold,
            probe.window
        );
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  Average response time of good probes: {:.6}", self.average);
        text.push_str("  Oldest ================================================== Newest\n");
        let rows = [
            (self.ipv4, '4', "Good IPv4", false),
            (self.ipv6, '6', "Good IPv6", false),
            (self.unix, 'U', "Good UNIX", false),
            (self.send_failed, 'x', "Error Xmit", false),
            (self.sent, 'X', "Good Xmit", false),
            (self.receive_failed, 'r', "Error Recv", false),
            (self.received, 'R', "Good Recv", false),
            (self.happy, 'H', "Happy", true),
        ];
        for (bits, letter, name, always) in rows {
            if bits != 0 || always {
                let row: String =
                    (0..u64::BITS).rev().map(|at| if bits >> at & 1 == 1 { letter } else { '-' }).collect();
                let _ = writeln!(text, "  {row} {name}");
            }
        }
        text
    }
}

/// A backend that is looked at, until this is dropped.
#[derive(Debug)]
pub(super) struct Prober {
    pub(super) history: Rc<RefCell<History>>,
    task: JoinHandle<()>,
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is looked at.
pub(super) struct Subject {
    pub(super) backend: Backend,
    pub(super) probe: Probe,
    pub(super) index: BackendIndex,
    pub(super) place: Target,
    pub(super) targets: Arc<Targets>,
}

impl Prober {
    /// Begins to look, and tells the program's targets what comes of it.
    pub(super) fn start(subject: Subject) -> Self {
        let history = Rc::new(RefCell::new(History::new(&subject.probe)));
        subject.targets.set_sick(subject.index, !history.borrow().is_healthy(&subject.probe));
        let own = Rc::clone(&history);
        let task = tokio::task::spawn_local(async move {
            let request = request(&subject.probe, &subject.backend);
            loop {
                let look = look(&subject, &request).await;
                own.borrow_mut().add(&look);
                subject.targets.set_sick(subject.index, !own.borrow().is_healthy(&subject.probe));
                sleep(Duration::from_secs_f64(subject.probe.interval.max(0.01))).await;
            }
        });
        Self { history, task }
    }
}

/// What is sent: a PROXY header if the backend wants one, and the request.
fn request(probe: &Probe, backend: &Backend) -> Vec<u8> {
    let host = match (&backend.host_header, &backend.endpoint) {
        (Some(host), _) | (None, Endpoint::Host { host, .. }) => host.as_str(),
        _ => "0.0.0.0",
    };
    match &probe.request {
        ProbeRequest::Url(url) => {
            format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
        }
        ProbeRequest::Lines(lines) => {
            let mut text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            text.push_str("\r\n");
            text.into_bytes()
        }
    }
}

/// A PROXY header for a connection that is about nobody: version 1 has the connection's own addresses.
fn proxy_header(version: Option<u8>, own: Option<SocketAddr>) -> Vec<u8> {
    const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    match (version, own) {
        (None, _) => Vec::new(),
        (Some(1), Some(own)) => {
            let (family, ip, port) = (if own.is_ipv4() { "TCP4" } else { "TCP6" }, own.ip(), own.port());
            format!("PROXY {family} {ip} {ip} {port} {port}\r\n").into_bytes()
        }
        (Some(1), None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (Some(_), _) => LOCAL.to_vec(),
    }
}

async fn look(subject: &Subject, request: &[u8]) -> Look {
    let begun = Instant::now();
    let mut look = Look::default();
    let expected = subject.probe.expected_response;
    let patience = Duration::from_secs_f64(subject.probe.timeout.max(0.001));
    let version = subject.backend.proxy_header;
    let answer = timeout(patience, async {
        match &subject.place {
            Target::Inet(address) => {
                let stream = TcpStream::connect(address).await.ok()?;
                look.family = Some(if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 });
                let header = proxy_header(version, stream.local_addr().ok());
                ask(stream, &[&header, request].concat(), &mut look).await
            }
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.ok()?;
                look.family = Some(Family::Unix);
                ask(stream, &[&proxy_header(version, None), request].concat(), &mut look).await
            }
            Target::Abstract(_) | Target::Unresolved => None,
        }
    })
    .await;
    match answer {
        Ok(Some(answer)) if !answer.is_empty() => {
            look.has_received = true;
            look.seconds = begun.elapsed().as_secs_f64();
            look.is_good = status_of(&answer) == Some(expected);
        }
        Ok(_) => {}
        Err(_) => look.receive_failed = look.has_sent,
    }
    look
}

/// Sends a request and reads all that comes; gives the beginning of it.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8], look: &mut Look) -> Option<Vec<u8>> {
    if stream.write_all(bytes).await.is_err() {
        look.send_failed = true;
        return None;
    }
    look.has_sent = true;
    let mut answer = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return Some(answer),
            Ok(count) => {
                let room = ANSWER_BYTES.saturating_sub(answer.len()).min(count);
                answer.extend_from_slice(buffer.get(..room).unwrap_or_default());
            }
            Err(_) => {
                look.receive_failed = true;
                return None;
            }
        }
    }
}

/// The status in the first line of an answer.
fn status_of(answer: &[u8]) -> Option<u16> {
    let end = answer.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(answer.len());
    let line = std::str::from_utf8(answer.get(..end)?).ok()?;
    let (version, rest) = line.strip_prefix("HTTP/")?.split_once(' ')?;
    version.parse::<f64>().ok()?;
    let digits: &str = rest.trim_start();
    digits.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(window: u8, threshold: u8, initial: u8) -> Probe {
        Probe {
            name: None,
            request: ProbeRequest::Url("/".to_owned()),
            expected_response: 200,
            timeout: 1.0,
            interval: 1.0,
            window,
            threshold,
            initial,
        }
    }

    #[test]
    fn of_the_last_looks_so_many_must_be_good() {
        let probe = probe(4, 3, 2);
        let mut history = History::new(&probe);
        assert!(!history.is_healthy(&probe), "two are not three");
        let table =
            [(true, 3, true), (false, 3, true), (false, 2, false), (true, 2, false), (true, 2, false), (true, 3, true)];
        for (is_good, good, healthy) in table {
            history.add(&Look { is_good, ..Look::default() });
            assert_eq!((history.good(&probe), history.is_healthy(&probe)), (good, healthy), "{history:?}");
        }
        let lines = history.lines(&probe);
        let row = lines.lines().last().unwrap();
        assert_eq!(row, format!("  {}HHH--HHH Happy", "-".repeat(56)));
    }

    #[test]
    fn statuses() {
        let cases: [(&[u8], Option<u16>); 5] = [
            (b"HTTP/1.1 200 OK\r\n", Some(200)),
            (b"HTTP/1.0 404\n", Some(404)),
            (b"FROBOZ 200 OK\r\n", None),
            (b"HTTP/1.1 abc\r\n", None),
            (b"", None),
        ];
        for (answer, status) in cases {
            assert_eq!(status_of(answer), status);
        }
    }
}
