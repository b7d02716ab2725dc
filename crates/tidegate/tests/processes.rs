//! Master and worker process: crashes, reloads, upgrades and the end, under load from a client that counts every error.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::Signal;
use support::{
    Edge, Origin, PATIENCE, Wire, free_address, ok, read_once, resident_kilobytes, signal_process, wait_until,
};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 8s\n timeout server 8s\n timeout connect 2s\n";

fn config(front: SocketAddr, server: SocketAddr) -> String {
    format!("{DEFAULTS}listen site\n bind {front}\n server s1 {server}\n")
}

/// Clients that ask without pause and note every error.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    errors: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Half of the clients open a connection for each request, half keep theirs as long as they may.
    fn start(front: SocketAddr, clients: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (done, errors) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let clients = (0..clients)
            .map(|number| {
                let (stop, done, errors) = (Arc::clone(&stop), Arc::clone(&done), Arc::clone(&errors));
                thread::spawn(move || {
                    while !stop.load(SeqCst) {
                        if let Err(error) = requests(front, number % 2 == 0, &stop, &done) {
                            errors.lock().unwrap().push(error);
                        }
                    }
                })
            })
            .collect();
        Self { stop, done, errors, clients }
    }

    fn done(&self) -> usize {
        self.done.load(SeqCst)
    }

    #[track_caller]
    fn wait_more(&self, count: usize) {
        let before = self.done();
        wait_until("requests go on", || self.done() >= before + count);
    }

    fn finish(self) -> Vec<String> {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.join().unwrap();
        }
        self.errors.lock().unwrap().clone()
    }
}

/// Requests on one connection, until the edge says that it closes.
fn requests(front: SocketAddr, keeps: bool, stop: &AtomicBool, done: &AtomicUsize) -> Result<(), String> {
    let mut stream = TcpStream::connect(front).map_err(|error| format!("connect: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let close = if keeps { "" } else { "Connection: close\r\n" };
    for number in 0..50 {
        let sent = stream.write_all(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n{close}\r\n").as_bytes());
        let mut answer = Vec::new();
        let mut bytes = [0; 4096];
        while !answer.ends_with(b"\r\n\r\nok") {
            match read_once(&mut stream, &mut bytes) {
                // A kept connection may be closed while nothing is asked: HTTP lets such a request be sent again.
                Ok(0) if answer.is_empty() && number > 0 => return Ok(()),
                Ok(0) => return Err(format!("ended after {answer:?} (send: {sent:?})")),
                Ok(count) => answer.extend_from_slice(&bytes[..count]),
                Err(error) if answer.is_empty() && number > 0 => {
                    return Err(format!("idle connection was reset: {error}"));
                }
                Err(error) => return Err(format!("request {number}: {error}")),
            }
            if answer.windows(4).any(|window| window == b"\r\n\r\n") && !answer.starts_with(b"HTTP/1.1 200") {
                return Err(String::from_utf8_lossy(&answer).into_owned());
            }
        }
        done.fetch_add(1, SeqCst);
        let said_close = answer.to_ascii_lowercase().windows(17).any(|window| window == b"connection: close");
        if !keeps || said_close || stop.load(SeqCst) {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_killed_worker_is_replaced_and_refuses_no_connection() {
    let origin = Origin::named("ok");
    let front = free_address();
    let edge = Edge::start(&config(front, origin.address));
    assert_eq!(Wire::connect(front).get("/").text(), "ok");
    let load = Load::start(front, 4);
    load.wait_more(100);
    for _ in 0..3 {
        let workers = edge.workers();
        assert_eq!(workers.len(), 1, "one worker process");
        signal_process(workers[0], Signal::KILL);
        wait_until("there is a new worker", || edge.workers().first().is_some_and(|pid| *pid != workers[0]));
        load.wait_more(50);
    }
    let errors = load.finish();
    // What was in flight is lost with its process: at most one request of each of the four clients each time.
    assert!(errors.len() <= 12, "{errors:?}");
    assert!(errors.iter().all(|error| !error.starts_with("connect")), "refused: {errors:?}");
}

#[test]
fn reloads_under_load_fail_no_request() {
    let (one, two) = (Origin::named("ok"), Origin::named("ok"));
    let front = free_address();
    let edge = Edge::start(&config(front, one.address));
    assert_eq!(Wire::connect(front).get("/").text(), "ok");
    let load = Load::start(front, 4);
    for round in 0..20 {
        let server = if round % 2 == 0 { two.address } else { one.address };
        edge.folder.file("haproxy.cfg", config(front, server));
        let (before, other) = if round % 2 == 0 { (two.heads().len(), &two) } else { (one.heads().len(), &one) };
        edge.signal(Signal::USR2);
        wait_until("the new server is asked", || other.heads().len() > before);
        load.wait_more(20);
    }
    let done = load.done();
    assert_eq!(load.finish(), Vec::<String>::new(), "of {done} requests");
    assert_eq!(edge.workers().len(), 1, "a reload swaps within the worker");
}

#[test]
fn a_broken_configuration_is_refused_and_nothing_changes() {
    let origin = Origin::named("ok");
    let front = free_address();
    let edge = Edge::start(&config(front, origin.address));
    let workers = edge.workers();
    let mut client = Wire::connect(front);
    assert_eq!(client.get("/").text(), "ok");
    edge.folder.file("haproxy.cfg", format!("{}\n balnce roundrobin\n", config(front, origin.address)));
    edge.signal(Signal::USR2);
    edge.wait_output("haproxy.cfg:10]");
    edge.wait_output("balnce");
    edge.wait_output("balance");
    assert_eq!(client.get("/").text(), "ok", "the connection lives on");
    assert_eq!(Wire::connect(front).get("/").text(), "ok");
    assert_eq!(edge.workers(), workers);
}

#[test]
fn sigusr1_lets_requests_in_flight_complete() {
    let origin = Origin::start(|mut wire, _| {
        wire.request();
        thread::sleep(Duration::from_millis(500));
        wire.send(ok("slow"));
    });
    let front = free_address();
    let mut edge = Edge::start(&config(front, origin.address));
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request is on its way", || origin.connections() == 1);
    edge.signal(Signal::USR1);
    wait_until("nothing listens any more", || !support::listens(front));
    assert_eq!(client.answer().text(), "slow");
    client.expect_end();
    assert_eq!(edge.wait_end(), 0);
}

#[test]
fn sigterm_ends_at_once() {
    let origin = Origin::start(|mut wire, _| {
        let _ = wire.read_to_end();
    });
    let front = free_address();
    let mut edge = Edge::start(&config(front, origin.address));
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request is on its way", || origin.connections() == 1);
    let workers = edge.workers();
    edge.signal(Signal::TERM);
    edge.wait_end();
    client.expect_end();
    for pid in workers {
        wait_until("the worker is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// systemd waits for the process that it started; Debian's haproxy.cfg has `daemon`.
#[test]
fn ws_stays_in_the_foreground_whatever_the_file_says() {
    let origin = Origin::named("hello");
    let front = free_address();
    let config = format!("global\n daemon\n{}", config(front, origin.address).replace("global\n", ""));
    for program in ["edge", "haproxy"] {
        let mut edge = Edge::start_as(env!("CARGO_BIN_EXE_tidegate"), &[program, "-Ws"], &config);
        assert_eq!(Wire::connect(front).get("/").text(), "hello");
        assert!(!edge.has_ended() && !edge.workers().is_empty(), "{}", edge.output());
        edge.signal(Signal::TERM);
        assert_eq!(edge.wait_end(), 0);
    }
}

/// Opens a connection that was upgraded; the server sends back what it gets.
#[track_caller]
fn websocket(front: SocketAddr) -> Wire {
    let mut client = Wire::connect(front);
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert!(client.head().unwrap().starts_with("HTTP/1.1 101 "));
    client
}

fn echoing() -> Origin {
    Origin::start(|mut wire, _| {
        while let Some(head) = wire.head() {
            if head.contains("/ws") {
                wire.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
                while wire.fill() > 0 {
                    let bytes = std::mem::take(&mut wire.buffer);
                    wire.send(bytes);
                }
                return;
            }
            wire.send(ok("ok"));
        }
    })
}

#[track_caller]
fn echo_all(clients: &mut [Wire], text: &str) {
    for client in clients {
        client.send(text);
        client.expect(text);
    }
}

#[test]
fn websockets_survive_reloads() {
    let origin = echoing();
    let front = free_address();
    let edge = Edge::start(&config(front, origin.address));
    let mut clients: Vec<Wire> = (0..10).map(|_| websocket(front)).collect();
    for round in 0..5 {
        edge.folder.file("haproxy.cfg", format!("# {round}\n{}", config(front, origin.address)));
        edge.signal(Signal::USR2);
        assert_eq!(Wire::connect(front).get("/").text(), "ok");
        echo_all(&mut clients, &format!("round {round}"));
    }
}

/// Has a master do something by the program's own command, which ends when it is done.
#[track_caller]
fn tell(edge: &Edge, command: &str) {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args([command, "--pid", &edge.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{command}: {}{}", String::from_utf8_lossy(&output.stderr), edge.output());
}

#[test]
fn reloads_and_upgrades_fail_no_request_and_break_no_websocket() {
    let origin = echoing();
    let front = free_address();
    let folder = support::Folder::new();
    let program = folder.0.join("tidegate");
    std::fs::copy(env!("CARGO_BIN_EXE_tidegate"), &program).unwrap();
    let edge = Edge::start_as(program.to_str().unwrap(), &["edge"], &config(front, origin.address));
    let mut clients: Vec<Wire> = (0..10).map(|_| websocket(front)).collect();
    let load = Load::start(front, 4);
    load.wait_more(50);
    let mut served_by = edge.workers();
    for round in 0..13 {
        let text = format!("{} http-response set-header x-round {round}\n", config(front, origin.address));
        edge.folder.file("haproxy.cfg", text);
        if round % 4 == 2 {
            let new = folder.0.join("new");
            std::fs::copy(env!("CARGO_BIN_EXE_tidegate"), &new).unwrap();
            std::fs::rename(&new, &program).unwrap();
            tell(&edge, "upgrade");
            served_by.push(*edge.workers().last().unwrap());
            // One more that the newest worker will have to keep through the next upgrade.
            clients.push(websocket(front));
        } else {
            tell(&edge, "reload");
        }
        let answer = Wire::connect(front).get("/");
        assert_eq!(answer.field("x-round"), Some(round.to_string().as_str()), "whoever comes now sees what is new");
        load.wait_more(20);
        echo_all(&mut clients, &format!("round {round}"));
    }
    served_by.dedup();
    assert_eq!(served_by.len(), 4, "each upgrade has started a worker: {served_by:?}");
    let done = load.done();
    assert_eq!(load.finish(), Vec::<String>::new(), "of {done} requests");
    // The former processes live as long as what goes through them, and no longer.
    echo_all(&mut clients, "to the end");
    assert_eq!(edge.workers().len(), 4);
    drop(clients);
    wait_until("the former workers have ended", || edge.workers() == served_by[3..]);
}

#[test]
fn an_upgrade_by_signal_takes_the_program_on_disk() {
    let origin = Origin::named("ok");
    let front = free_address();
    let folder = support::Folder::new();
    let program = folder.0.join("tidegate");
    std::fs::copy(env!("CARGO_BIN_EXE_tidegate"), &program).unwrap();
    let edge = Edge::start_as(program.to_str().unwrap(), &["edge"], &config(front, origin.address));
    let (before, load) = (edge.workers(), Load::start(front, 4));
    let new = folder.0.join("new");
    std::fs::copy(env!("CARGO_BIN_EXE_tidegate"), &new).unwrap();
    std::fs::rename(&new, &program).unwrap();
    edge.signal(Signal::USR2);
    wait_until("only a worker of the new binary is left", || {
        let workers = edge.workers();
        workers.len() == 1 && workers != before
    });
    load.wait_more(100);
    let done = load.done();
    assert_eq!(load.finish(), Vec::<String>::new(), "of {done} requests");
    let pid = edge.pid();
    assert!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap() == program, "the master is the new program");
}

#[test]
fn hard_stop_after_ends_tunnels_of_a_replaced_process() {
    let origin = echoing();
    let front = free_address();
    let text = format!("global\n hard-stop-after 300ms\n{}", config(front, origin.address));
    let edge = Edge::start(&text);
    let mut old = websocket(front);
    let before = edge.workers();
    tell(&edge, "upgrade");
    let mut new = websocket(front);
    old.expect_end();
    wait_until("the former worker has ended", || !edge.workers().contains(&before[0]));
    echo_all(std::slice::from_mut(&mut new), "still here");
}

#[test]
fn a_second_process_takes_over_with_sf() {
    let origin = Origin::named("ok");
    let front = free_address();
    let folder = support::Folder::new();
    let socket = folder.0.join("stats");
    let text = format!(
        "global\n stats socket {} mode 600 level admin expose-fd listeners\n{}",
        socket.display(),
        config(front, origin.address)
    );
    let mut first = Edge::start_single(&text);
    let load = Load::start(front, 4);
    load.wait_more(50);
    let pid = first.pid().to_string();
    let second_folder = support::Folder::new();
    let path = second_folder.file("haproxy.cfg", &text);
    let arguments = ["haproxy", "-db", "-x", socket.to_str().unwrap(), "-sf", &pid];
    let second = Edge::spawn(env!("CARGO_BIN_EXE_tidegate"), &arguments, path, second_folder);
    assert_eq!(first.wait_end(), 0);
    load.wait_more(100);
    assert!(!second.has_ended(), "{}", second.output());
    let done = load.done();
    assert_eq!(load.finish(), Vec::<String>::new(), "of {done} requests");
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn reloads_leave_nothing_behind() {
    let origin = Origin::named("ok");
    let front = free_address();
    // With connections to the server that every request may use, none are opened for each.
    let base = format!("{} http-reuse always\n", config(front, origin.address));
    let edge = Edge::start(&base);
    let worker = edge.workers()[0];
    let reload = |round: usize| {
        let name = format!("r{round}");
        edge.folder.file("haproxy.cfg", format!("{base} http-response set-header x-round {name}\n"));
        edge.signal(Signal::USR2);
        wait_until("the new configuration serves", || {
            Wire::connect(front).get("/").field("x-round") == Some(name.as_str())
        });
    };
    (0..60).for_each(reload);
    let measure = |pid| (descriptors(pid), resident_kilobytes(pid));
    let before = (measure(edge.pid()), measure(worker));
    (60..200).for_each(reload);
    let after = (measure(edge.pid()), measure(worker));
    assert_eq!(edge.workers(), [worker]);
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        assert!(after.0 <= before.0 + 6, "descriptors grew from {} to {}", before.0, after.0);
        assert!(after.1 <= before.1 + 3_000, "memory grew from {} to {} kB", before.1, after.1);
    }
}
