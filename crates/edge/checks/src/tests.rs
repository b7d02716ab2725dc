//! Checks against real listeners, beside Debian's haproxy with the same configuration.

mod changes;
mod http;
mod tcp;

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use balance::CheckStatus;
use live::{FarmObserver, Instance, Shared};
use logs::{AdminLog, Outputs};

use super::*;
use crate::{
    side_by_side::{Haproxy, PATIENCE, free_port, syslog},
    test_instance,
};

/// Serves each connection on loopback in a thread of its own, until the test's process ends; the port.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::Builder::new()
        .name("server".into())
        .spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let handle = Arc::clone(&handle);
                thread::Builder::new().name("connection".into()).spawn(move || handle(stream)).unwrap();
            }
        })
        .unwrap();
    port
}

/// Reads the request and answers with `response`, then closes or, with `hold`, keeps the connection open.
fn answer(response: impl Into<Vec<u8>>, hold: bool) -> u16 {
    let response = response.into();
    serve(move |mut stream| {
        if stream.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) && stream.write_all(&response).is_ok() {
            // Until the other side closes.
            while hold && stream.read(&mut [0; 1_000]).is_ok_and(|count| count > 0) {}
        }
    })
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A port whose connections never stand: the queue of its listener is full.
fn full() -> u16 {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    for _ in 0..3 {
        let waiting = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        waiting.set_nonblocking(true).unwrap();
        let _ = waiting.connect(&address);
        // Both stay open until the test's process ends.
        std::mem::forget(waiting);
    }
    let port = address.as_socket().unwrap().port();
    std::mem::forget(socket);
    port
}

/// An instance of ours for a configuration, with its events handled.
struct Ours {
    instance: Arc<Instance>,
    board: Arc<CheckBoard>,
    /// Lives as long as its events are to be acted on.
    _shared: Arc<Shared>,
}

impl Ours {
    fn new(text: &str) -> Self {
        let (board, outputs) = (Arc::new(CheckBoard::new()), Arc::new(Outputs::new()));
        let log = Arc::new(AdminLog::new(Arc::clone(&outputs), false));
        let events = Arc::new(FarmEvents::new(log, Arc::clone(&board)));
        let observer: Arc<dyn FarmObserver> = Arc::<FarmEvents>::clone(&events);
        let config = test_instance::configuration(text);
        let (process, instance) = test_instance::observed_instance(config, 1, &outputs, &observer);
        let shared = Arc::new(Shared::new(process, Arc::default(), Arc::clone(&instance)));
        events.begin(&shared);
        Self { instance, board, _shared: shared }
    }

    /// Runs checks until `done` holds.
    fn check_until(&self, mut done: impl FnMut(&Self) -> bool) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
        runtime.block_on(async {
            prepare(&self.instance);
            let checks = start(&self.instance, &self.board, None, 0, 1);
            let patience = Instant::now() + PATIENCE;
            while !done(self) {
                assert!(Instant::now() < patience, "checks did not come to an end");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(checks);
            tokio::task::yield_now().await;
        });
    }

    fn stats(&self, backend: &str, server: &str) -> balance::ServerStats {
        let proxy = self.instance.backend(backend).unwrap();
        let now_ms = self.instance.process.milliseconds(Instant::now());
        let farm = proxy.farm();
        farm.server_stats(farm.server_by_name(server).unwrap(), now_ms).unwrap()
    }

    fn outcome(&self, backend: &str) -> Option<Outcome> {
        let stats = self.stats(backend, "s");
        let check = stats.check.filter(|check| check.status != CheckStatus::Initializing && !check.in_progress)?;
        let code = if check.status.has_code() { check.code.unwrap_or(0).to_string() } else { String::new() };
        Some(Outcome {
            status: check.status.info().into(),
            code,
            info: check.info,
            description: check.status.description().into(),
        })
    }
}

/// The columns of the statistics that tell of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    status: String,
    code: String,
    info: String,
    description: String,
}

/// The values of a line of CSV, quotes undone.
fn csv(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                values.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            letter => values.last_mut().unwrap().push(letter),
        }
    }
    values
}

/// What haproxy says of server `s` in each backend, once all have been checked.
fn outcomes_of(haproxy: &mut Haproxy, backends: usize) -> BTreeMap<String, Outcome> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let text = haproxy.ask("show stat");
        let mut lines = text.trim_start_matches("# ").lines();
        let names = csv(lines.next().unwrap());
        let column = |name: &str| names.iter().position(|found| found == name).unwrap();
        let (status, code, info) = (column("check_status"), column("check_code"), column("last_chk"));
        let mut outcomes = BTreeMap::new();
        for row in lines.map(csv).filter(|row| row.get(1).is_some_and(|name| name == "s")) {
            let outcome = Outcome {
                status: row[status].trim_start_matches("* ").to_owned(),
                code: row[code].clone(),
                info: row[info].clone(),
                description: row[column("check_desc")].clone(),
            };
            // A check that has begun anew (`*`) has no code yet, beside the last one's status.
            let is_between = row[status].starts_with("* ") && outcome.code == "0";
            if outcome.status != "INI" && !is_between {
                outcomes.insert(row[0].clone(), outcome);
            }
        }
        if outcomes.len() == backends {
            return outcomes;
        }
        assert!(Instant::now() < patience, "haproxy has checked only {} of {backends}", outcomes.len());
        thread::sleep(Duration::from_millis(50));
    }
}

const DEFAULTS: &str = "global\n  stats socket %FOLDER%/stats\n  spread-checks 0\ndefaults\n  mode http\n  timeout connect 5s\n  \
                        timeout server 5s\n  timeout client 5s\n  default-server inter 1s rise 1 fall 1\n";

/// A backend with one server: lines of the section, address of the server, further words of the server line.
struct Case {
    name: String,
    lines: Vec<String>,
    server: String,
}

fn case(name: &str, server: impl ToString, lines: &[&str]) -> Case {
    Case {
        name: name.to_owned(),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        server: server.to_string(),
    }
}

fn on(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn configuration(cases: &[Case]) -> String {
    let mut text = String::new();
    for Case { name, lines, server } in cases {
        text += &format!("backend {name}\n");
        for line in lines {
            text += &format!("  {line}\n");
        }
        text += &format!("  server s {server} check\n");
    }
    text
}

/// Runs the same checks here and in haproxy, and compares what they say.
fn compare(cases: &[Case]) {
    // A deadline that falls together with what it waits for comes out either way, here and in haproxy: what differs is
    // played again, and has to differ each time.
    const TIMES: usize = 3;
    let mut differences = play(cases);
    for _ in 1..TIMES {
        if differences.is_empty() {
            return;
        }
        let again = play(cases);
        differences.retain(|(name, ..)| again.iter().any(|(other, ..)| other == name));
    }
    assert!(differences.is_empty(), "name, ours, theirs: {differences:#?}");
}

/// Plays cases here and with haproxy; gives those that differ.
fn play(cases: &[Case]) -> Vec<(String, Outcome, Outcome)> {
    let backends = configuration(cases);
    let ours = Ours::new(&format!("{}{backends}", DEFAULTS.replace("  stats socket %FOLDER%/stats\n", "")));
    // Each as it is seen first: a check that begins anew forgets the words of the last one.
    let mut seen: BTreeMap<String, Outcome> = BTreeMap::new();
    ours.check_until(|ours| {
        for case in cases {
            if !seen.contains_key(&case.name)
                && let Some(outcome) = ours.outcome(&case.name)
            {
                seen.insert(case.name.clone(), outcome);
            }
        }
        seen.len() == cases.len()
    });
    let Some(mut haproxy) = Haproxy::start(&format!("{DEFAULTS}{backends}")) else { return Vec::new() };
    let theirs = outcomes_of(&mut haproxy, cases.len());
    cases
        .iter()
        .map(|case| (case.name.clone(), seen[&case.name].clone(), theirs[&case.name].clone()))
        .filter(|(_, ours, theirs)| ours != theirs)
        .collect()
}

const HTTP: &str = "option httpchk";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
