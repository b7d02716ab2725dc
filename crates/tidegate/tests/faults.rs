//! What breaks around the program: the disk and the server of its logs, descriptors, its master, peers that do not read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use rustix::process::Signal;
use support::{Edge, Folder, Origin, Wire, free_address, ok, resident_kilobytes, signal_process, wait_until};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 2s\n";

/// The program, started by a shell that sets something up first.
#[track_caller]
fn start_by_shell(script: &str, config: &str) -> Edge {
    let script = format!("{script} exec {} haproxy -db \"$@\"", env!("CARGO_BIN_EXE_tidegate"));
    Edge::start_as("/bin/sh", &["-c", &script, "sh"], config)
}

/// One command on a stats socket.
fn ask_socket(path: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(format!("{command}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn dropped_logs(socket: &Path) -> u64 {
    let info = ask_socket(socket, "show info");
    let line = info.lines().find_map(|line| line.strip_prefix("DroppedLogs: "));
    line.unwrap_or_else(|| panic!("no DroppedLogs: {info}")).parse().unwrap()
}

/// Requests on a connection each; all must be answered.
#[track_caller]
fn ask_many(front: SocketAddr, count: usize) {
    let mut client = Wire::connect(front);
    let path = format!("/{}", "x".repeat(900));
    for _ in 0..count {
        assert_eq!(client.get(&path).text(), "ok");
    }
}

/// A configuration that logs there, with a stats socket.
fn logging(folder: &Folder, front: SocketAddr, server: SocketAddr, target: &str) -> String {
    let socket = folder.0.join("stats");
    format!(
        "global\n nbthread 1\n stats socket {} level admin\n log {target} local0\n{DEFAULTS} log global\n option httplog\nlisten site\n bind {front}\n server s1 {server}\n",
        socket.display()
    )
}

#[test]
fn a_full_disk_under_the_log_costs_lines_alone() {
    let (origin, front, folder) = (Origin::named("ok"), free_address(), Folder::new());
    let config = logging(&folder, front, origin.address, "stdout format raw");
    let _edge = start_by_shell("exec >/dev/full;", &config);
    ask_many(front, 50);
    wait_until("dropped lines are counted", || dropped_logs(&folder.0.join("stats")) >= 50);
    ask_many(front, 50);
}

#[test]
fn a_pipe_that_nobody_reads_holds_nothing_up() {
    let (origin, front, folder) = (Origin::named("ok"), free_address(), Folder::new());
    let fifo = folder.0.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    // Both ends, so that neither side waits for the other to open it.
    let mut reader = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let config = logging(&folder, front, origin.address, "stdout format raw");
    let _edge = start_by_shell(&format!("exec >{};", fifo.display()), &config);
    // More than the 64 kB that a pipe holds.
    ask_many(front, 200);
    wait_until("dropped lines are counted", || dropped_logs(&folder.0.join("stats")) > 0);
    let mut bytes = vec![0; 65_536];
    let count = reader.read(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes[..count]);
    let whole = text.lines().filter(|line| line.contains(" site site/s1 ") && line.ends_with(" HTTP/1.1\"")).count();
    assert_eq!(whole, text.lines().count(), "lines are written whole or not at all");
    let dropped = dropped_logs(&folder.0.join("stats"));
    ask_many(front, 5);
    wait_until("lines arrive again", || reader.read(&mut bytes).unwrap() > 0);
    assert_eq!(dropped_logs(&folder.0.join("stats")), dropped);
}

#[test]
fn a_log_server_that_stops_reading_goes_and_comes_back_holds_nothing_up() {
    let (origin, front, folder) = (Origin::named("ok"), free_address(), Folder::new());
    let (path, stats) = (folder.0.join("log"), folder.0.join("stats"));
    let server = UnixDatagram::bind(&path).unwrap();
    let config = logging(&folder, front, origin.address, path.to_str().unwrap());
    let _edge = Edge::start_single(&config);
    let mut bytes = vec![0; 65_536];
    ask_many(front, 1);
    assert!(server.recv(&mut bytes).unwrap() > 0);
    // It does not read: the kernel keeps a few lines.
    ask_many(front, 100);
    wait_until("dropped lines are counted", || dropped_logs(&stats) > 0);
    // It is gone.
    drop(server);
    std::fs::remove_file(&path).unwrap();
    let dropped = dropped_logs(&stats);
    ask_many(front, 20);
    wait_until("dropped lines are counted", || dropped_logs(&stats) >= dropped + 20);
    // It is back.
    let server = UnixDatagram::bind(&path).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    wait_until("lines arrive again", || {
        ask_many(front, 1);
        server.recv(&mut bytes).is_ok_and(|count| String::from_utf8_lossy(&bytes[..count]).contains("site/s1"))
    });
}

fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn out_of_descriptors_it_waits_and_recovers() {
    let (origin, front) = (Origin::named("ok"), free_address());
    let config = format!(
        "global\n nbthread 1\n no strict-limits\n maxconn 1000\n{DEFAULTS}listen site\n bind {front}\n server s1 {}\n",
        origin.address
    );
    let edge = start_by_shell("ulimit -n 60;", &config);
    let mut clients: Vec<Wire> = (0..100).map(|_| Wire::connect(front)).collect();
    edge.wait_output("Please check 'ulimit-n'");
    // Pausing means not to spin: at most half of a processor, and it is in fact close to nothing.
    let before = processor_ticks(edge.pid());
    thread::sleep(Duration::from_millis(500));
    assert!(processor_ticks(edge.pid()) - before < 25);
    // Those that are in end, which lets the others in.
    while let Some(client) = clients.pop() {
        drop(client);
        if clients.len() == 20 {
            break;
        }
    }
    drop(clients.drain(..10));
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "ok");
    }
    drop(clients);
    ask_many(front, 1);
}

#[test]
fn without_descriptors_for_servers_clients_are_told() {
    let (origin, front) = (Origin::named("ok"), free_address());
    let config = format!(
        "global\n nbthread 1\n no strict-limits\n maxconn 1000\n{DEFAULTS} retries 0\nlisten site\n bind {front}\n server s1 {}\n",
        origin.address
    );
    let edge = start_by_shell("ulimit -n 60;", &config);
    let mut clients: Vec<Wire> = (0..100).map(|_| Wire::connect(front)).collect();
    edge.wait_output("Please check 'ulimit-n'");
    // The first ones were let in, and there is no descriptor left for a connection to the server.
    assert_eq!(clients[0].get("/").status(), 503);
    clients.truncate(5);
    wait_until("there are descriptors again", || clients[0].get("/").status() == 200);
}

/// Clients come and go in bursts: what they leave idle at servers is in the way of others.
#[test]
fn idle_connections_to_servers_give_way_when_descriptors_are_short() {
    let (origin, front) = (Origin::named("ok"), free_address());
    let servers: String = (0..8).map(|number| format!(" server s{number} {}\n", origin.address)).collect();
    // The second is as HAProxy never has it: idle connections may take all descriptors.
    for lines in ["", " tune.pool-high-fd-ratio 100\n tune.pool-low-fd-ratio 100\n"] {
        let config = format!(
            "global\n nbthread 2\n{lines}{DEFAULTS} retries 0\n http-reuse safe\nlisten site\n bind {front}\n{servers}"
        );
        let _edge = start_by_shell("ulimit -n 160;", &config);
        let refused = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for client in 0..50 {
                let refused = &refused;
                scope.spawn(move || {
                    for round in 0..12 {
                        let mut wire = Wire::connect(front);
                        for _ in 0..1 + (client + round) % 3 {
                            if wire.get("/").status() != 200 {
                                refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(refused.into_inner(), 0, "{lines}");
    }
}

#[test]
fn without_maxconn_there_are_as_many_connections_as_descriptors_are_for() {
    let (origin, front, folder) = (Origin::named("ok"), free_address(), Folder::new());
    let stats = folder.0.join("stats");
    let config = format!(
        "global\n nbthread 1\n stats socket {} level admin\n{DEFAULTS} http-reuse never\nlisten site\n bind {front}\n server s1 {}\n",
        stats.display(),
        origin.address
    );
    let edge = start_by_shell("ulimit -n 100;", &config);
    let info = ask_socket(&stats, "show info");
    let maxconn: usize = info.lines().find_map(|line| line.strip_prefix("Maxconn: ")).unwrap().parse().unwrap();
    assert!((35..=45).contains(&maxconn), "{maxconn}");
    edge.wait_output(&format!("FD limit (100) is enough for maxconn={maxconn} only"));
    // Those who come too many wait in the kernel, and nobody is told that there is no descriptor.
    let mut clients: Vec<Wire> = (0..80).map(|_| Wire::connect(front)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer().text(), "ok");
    }
    assert!(!edge.output().contains("cannot accept"), "{}", edge.output());
}

/// The number is reckoned in another way, but an operator who moves finds it where it was.
#[test]
fn descriptors_are_enough_for_as_many_connections_as_in_haproxy() {
    let (front, folder) = (free_address(), Folder::new());
    let stats = folder.0.join("stats");
    let config = folder.file(
        "haproxy.cfg",
        format!(
            "global\n nbthread 2\n stats socket {}\n{DEFAULTS}listen site\n bind {front}\n server s1 {front}\n",
            stats.display()
        ),
    );
    let maxconn = |program: &str, limit: u32| {
        let script = format!("ulimit -n {limit}; exec {program} -db -f {}", config.display());
        let mut child = std::process::Command::new("/bin/sh").args(["-c", &script]).spawn().unwrap();
        wait_until("it listens", || support::listens(front));
        let info = ask_socket(&stats, "show info");
        child.kill().unwrap();
        child.wait().unwrap();
        info.lines().find_map(|line| line.strip_prefix("Maxconn: ")).unwrap().parse::<i32>().unwrap()
    };
    if !Path::new("/usr/sbin/haproxy").exists() {
        return;
    }
    for limit in [1_024, 4_096, 20_000] {
        let theirs = maxconn("/usr/sbin/haproxy", limit);
        let ours = maxconn(&format!("{} haproxy", env!("CARGO_BIN_EXE_tidegate")), limit);
        assert!((ours - theirs).abs() * 100 < theirs, "{limit}: {ours} beside {theirs}");
    }
}

#[test]
fn more_connections_than_descriptors_are_refused_as_haproxy_does() {
    let folder = Folder::new();
    let path = folder.file(
        "haproxy.cfg",
        format!("global\n nbthread 1\n maxconn 1000\n{DEFAULTS}listen site\n bind {}\n", free_address()),
    );
    let start = |program: &str| {
        let script = format!("ulimit -n 60; exec {program} -db -f {}", path.display());
        let output = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let said = text.lines().find_map(|line| line.split_once("Cannot raise FD limit to "));
        (output.status.code(), said.unwrap_or_else(|| panic!("{text}")).1.split_once(", ").unwrap().1.to_owned())
    };
    let ours = start(&format!("{} haproxy", env!("CARGO_BIN_EXE_tidegate")));
    assert_eq!(ours, (Some(1), "limit is 60.".to_owned()));
    // Who may raise limits has nothing to compare.
    if Path::new("/usr/sbin/haproxy").exists() {
        assert_eq!(start("/usr/sbin/haproxy"), ours);
    }
}

#[test]
fn a_worker_whose_master_is_killed_finishes_what_it_has_and_ends() {
    let origin = Origin::start(|mut wire, _| {
        wire.request();
        thread::sleep(Duration::from_millis(400));
        wire.send(ok("slow"));
    });
    let front = free_address();
    let config = format!("{DEFAULTS}listen site\n bind {front}\n server s1 {}\n", origin.address);
    let mut edge = Edge::start(&config);
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request is on its way", || origin.connections() == 1);
    let worker = edge.workers()[0];
    edge.signal(Signal::KILL);
    edge.wait_end();
    wait_until("nothing listens any more", || !support::listens(front));
    // A service manager starts it again at once, while the former worker still has something to do.
    let second = Edge::start(&config);
    assert_eq!(client.answer().text(), "slow");
    client.expect_end();
    wait_until("the worker is gone", || !is_running(worker));
    assert_eq!(Wire::connect(front).get("/").text(), "slow");
    drop(second);
}

#[test]
fn a_worker_whose_master_is_killed_is_bounded_by_hard_stop_after() {
    let origin = Origin::start(|mut wire, _| {
        wire.read_to_end();
    });
    let front = free_address();
    let config = format!(
        "global\n hard-stop-after 300ms\n{DEFAULTS}listen site\n mode tcp\n bind {front}\n server s1 {}\n",
        origin.address
    );
    let mut edge = Edge::start(&config);
    let mut client = Wire::connect(front);
    client.send("x");
    wait_until("the connection is there", || origin.connections() == 1);
    let worker = edge.workers()[0];
    edge.signal(Signal::KILL);
    edge.wait_end();
    client.expect_end();
    wait_until("the worker is gone", || !is_running(worker));
}

/// Not so of one that has ended and that nobody has asked about yet.
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// An endless answer, for as long as it is taken; counts the bytes that the other side took.
fn endless() -> Origin {
    Origin::start(|mut wire, _| {
        wire.stream.set_write_timeout(None).unwrap();
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        let block = vec![b'x'; 100_000];
        for _ in 0..10_000 {
            if !wire.try_send(&block) {
                break;
            }
        }
    })
}

#[test]
fn clients_that_hardly_read_cost_no_memory() {
    let (origin, front) = (endless(), free_address());
    let config = format!("global\n nbthread 1\n{DEFAULTS}listen site\n bind {front}\n server s1 {}\n", origin.address);
    let edge = Edge::start_single(&config);
    let start = |front| {
        let mut client = Wire::connect(front);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.head().unwrap().contains(" 200 "));
        client
    };
    let mut clients: Vec<Wire> = (0..5).map(|_| start(front)).collect();
    let trickle = |clients: &mut [Wire]| {
        for _ in 0..10 {
            for client in &mut *clients {
                let mut byte = [0];
                client.stream.read_exact(&mut byte).unwrap();
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    trickle(&mut clients);
    let few = resident_kilobytes(edge.pid());
    clients.extend((0..40).map(|_| start(front)));
    trickle(&mut clients);
    let many = resident_kilobytes(edge.pid());
    // Two buffers a connection, and what the kernel holds for it, which is not the program's.
    assert!(many < few + 40 * 64 + 1_000, "memory grew from {few} to {many} kB for 40 clients");
    // Nor does it hold up anyone else.
    start(front);
}

#[test]
fn servers_that_hardly_read_cost_no_memory() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        loop {
            let mut byte = [0];
            if !matches!(wire.stream.read(&mut byte), Ok(1)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let front = free_address();
    let config = format!("global\n nbthread 1\n{DEFAULTS}listen site\n bind {front}\n server s1 {}\n", origin.address);
    let edge = Edge::start_single(&config);
    let block = vec![b'x'; 100_000];
    let start = |front| {
        let mut stream = TcpStream::connect(front).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
        // As much as anyone takes.
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut sent = 0;
        while let Ok(count) = stream.write(&block) {
            sent += count;
            assert!(sent < 100_000_000, "somebody holds all of this");
        }
        stream
    };
    let mut clients: Vec<TcpStream> = vec![start(front)];
    let few = resident_kilobytes(edge.pid());
    clients.extend((0..5).map(|_| start(front)));
    let many = resident_kilobytes(edge.pid());
    assert!(many < few + 5 * 64 + 1_000, "memory grew from {few} to {many} kB for 5 clients");
    signal_process(edge.pid(), Signal::TERM);
}

#[test]
fn interim_responses_wait_for_a_client_that_does_not_read() {
    /// What stands in sockets and buffers is much less.
    const MOST: usize = 64 << 20;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, front) = (listener.local_addr().unwrap(), free_address());
    let flood = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).unwrap() > 0);
        let interim = format!("HTTP/1.1 102 Processing\r\nx-fill: {}\r\n\r\n", "x".repeat(4_000)).repeat(16);
        let mut written = 0;
        while written < MOST && stream.write_all(interim.as_bytes()).is_ok() {
            written += interim.len();
        }
        written
    });
    let _edge = Edge::start_single(&format!("{DEFAULTS}listen site\n bind {front}\n server s1 {server}\n"));
    let mut client = TcpStream::connect(front).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let written = flood.join().unwrap();
    assert!(written < MOST, "the server could send {written} bytes that nobody reads");
}
