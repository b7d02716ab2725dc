//! Stick tables kept in step: between Tidegate and Debian's HAProxy, over restarts, and in the face of peers that misbehave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use rustix::process::Signal;

use support::{Edge, Origin, free_address, ok, signal_process, wait_until};

/// Where the peers are, and where clients connect to.
struct Place {
    a: SocketAddr,
    b: SocketAddr,
    front: SocketAddr,
    origin: SocketAddr,
}

impl Place {
    /// The configuration of one of them.
    fn config(&self, local: char) -> String {
        let Self { a, b, front, origin } = self;
        // The local peer has its address on the 'bind' line.
        let (own, others) = match local {
            'A' => (a, format!(" server A\n server B {b}\n")),
            _ => (b, format!(" server A {a}\n server B\n")),
        };
        let rates = "conn_rate(10m),sess_rate(10m),http_req_rate(10m),http_err_rate(10m),http_fail_rate(10m),\
                     bytes_in_rate(10m),bytes_out_rate(10m)";
        format!(
            "global\n stats socket %FOLDER%/stats level admin\n\
             defaults\n mode http\n timeout client 5s\n timeout connect 5s\n timeout server 5s\n\
             peers cluster\n bind {own}\n{others} table paths type string len 20 size 10k expire 10m store gpt0,gpc0,gpc1,\
             gpc0_rate(10m),gpc1_rate(10m),http_req_cnt\n\
             frontend fe\n bind {front}\n http-request track-sc0 src table ips\n \
             http-request track-sc1 path table cluster/paths\n http-request track-sc2 path,length table numbers\n \
             http-request sc-inc-gpc(1,0)\n http-request sc-inc-gpc0(1)\n http-request sc-set-gpt(1,0) 4000000000\n \
             http-request sc-set-gpt0(1) path,length\n default_backend app\n\
             backend app\n stick on path table keys\n server one {origin}\n server two {origin}\n\
             backend keys\n stick-table type string size 10k expire 10m peers cluster\n\
             backend numbers\n stick-table type integer size 10k store http_req_cnt peers cluster\n\
             backend ips\n stick-table type ip size 10k expire 10m store server_id,gpt(2),gpc(3),gpc_rate(2,10m),conn_cnt,\
             conn_cur,sess_cnt,http_req_cnt,http_err_cnt,http_fail_cnt,bytes_in_cnt,bytes_out_cnt,{rates} peers cluster\n"
        )
    }

    fn new(origin: &Origin) -> [Self; 2] {
        let (a, b) = (free_address(), free_address());
        [(); 2].map(|()| Self { a, b, front: free_address(), origin: origin.address })
    }
}

const TABLES: [&str; 4] = ["cluster/paths", "keys", "numbers", "ips"];

fn tidegate(place: &Place, local: char) -> Edge {
    let program = env!("CARGO_BIN_EXE_tidegate");
    Edge::start_as(program, &["haproxy", "-db", "-L", &local.to_string()], &place.config(local))
}

fn haproxy(place: &Place, local: char) -> Option<Edge> {
    let program = "/usr/sbin/haproxy";
    if !std::path::Path::new(program).exists() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    Some(Edge::start_as(program, &["-db", "-L", &local.to_string()], &place.config(local)))
}

fn ask(front: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(front).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Everything that a process knows, without addresses in memory and times.
fn everything(edge: &Edge) -> Vec<String> {
    let mut lines = Vec::new();
    for table in TABLES {
        let shown = edge.command(&format!("show table {table}"));
        for line in shown.lines().filter(|line| line.starts_with("0x")) {
            let words = line.split(' ').filter(|word| !word.starts_with("0x") && !word.starts_with("exp="));
            lines.push(format!("{table} {}", words.collect::<Vec<_>>().join(" ")));
        }
    }
    lines.sort();
    lines
}

/// Waits until both know the same, which is at least so many entries.
#[track_caller]
fn wait_same(one: &Edge, other: &Edge, least: usize) {
    let mut seen = (Vec::new(), Vec::new());
    let began = std::time::Instant::now();
    while began.elapsed() < support::PATIENCE {
        seen = (everything(one), everything(other));
        if seen.0 == seen.1 && seen.0.len() >= least {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{:#?}\n{:#?}\n{}\n{}", seen.0, seen.1, one.command("show peers"), other.command("show peers"));
}

fn kill(edge: Edge) {
    for worker in edge.workers() {
        signal_process(worker, Signal::KILL);
    }
    signal_process(edge.pid(), Signal::KILL);
    wait_until("it has ended", || edge.has_ended());
}

#[test]
fn entries_and_counters_go_both_ways_and_survive_either_side() {
    let origin = Origin::answering(|_| ok("x"));
    let [at_a, at_b] = Place::new(&origin);
    let ours = tidegate(&at_a, 'A');
    let Some(theirs) = haproxy(&at_b, 'B') else { return };
    for path in ["/", "/one", "/another", "/cut-because-it-is-too-long"] {
        ask(at_a.front, path);
        ask(at_a.front, path);
    }
    wait_same(&ours, &theirs, 12);
    for path in ["/from-b", "/one", "/1234567"] {
        ask(at_b.front, path);
    }
    wait_same(&ours, &theirs, 15);
    let shown = ours.command("show peers cluster");
    assert!(shown.contains("id=B(remote,active)") && shown.contains("last_status=ESTA"), "{shown}");
    assert!(ours.command("show peers dict").contains("0 -> one"), "{shown}");
    let info = ours.command("show info");
    assert!(info.contains("ActivePeers: 1\n") && info.contains("ConnectedPeers: 1\n"), "{info}");
    // Either one that is killed knows everything again when it is back.
    kill(theirs);
    let theirs = haproxy(&at_b, 'B').unwrap();
    wait_same(&ours, &theirs, 15);
    kill(ours);
    let ours = tidegate(&at_a, 'A');
    wait_same(&ours, &theirs, 15);
    ask(at_a.front, "/later");
    wait_same(&ours, &theirs, 16);
}

#[test]
fn another_process_learns_from_the_one_that_ends_for_it() {
    let origin = Origin::answering(|_| ok("x"));
    let [place, _] = Place::new(&origin);
    let mut old = tidegate(&place, 'A');
    for number in 0..30 {
        ask(place.front, &format!("/{number}"));
    }
    let known = everything(&old);
    assert!(known.len() > 60, "{known:#?}");
    let pid = old.pid().to_string();
    let program = env!("CARGO_BIN_EXE_tidegate");
    let new = Edge::start_as(program, &["haproxy", "-db", "-L", "A", "-sf", &pid], &place.config('A'));
    assert_eq!(old.wait_end(), 0);
    assert_eq!(everything(&new), known);
}

#[test]
fn a_reload_keeps_entries_and_connections() {
    let origin = Origin::answering(|_| ok("x"));
    let [at_a, at_b] = Place::new(&origin);
    let program = env!("CARGO_BIN_EXE_tidegate");
    let one = Edge::start_as(program, &["haproxy", "-W", "-db", "-L", "A"], &at_a.config('A'));
    let other = tidegate(&at_b, 'B');
    ask(at_a.front, "/before");
    wait_same(&one, &other, 4);
    // The ends of the connection, as the one shows it that it came in on.
    let shown = |edge: &Edge| -> Vec<String> {
        let shown = edge.command("show peers");
        shown.lines().filter(|line| line.contains("new_conn=") || line.contains("xprt=")).map(str::to_owned).collect()
    };
    let counts = |lines: Vec<String>| -> Vec<String> {
        let words = lines.iter().flat_map(|line| line.split(' '));
        words.filter(|word| word.starts_with("new_conn=") || word.starts_with("src=")).map(str::to_owned).collect()
    };
    let before = (counts(shown(&one)), counts(shown(&other)));
    one.signal(Signal::USR2);
    one.wait_output("Reload succeeded");
    ask(at_a.front, "/after");
    wait_same(&one, &other, 7);
    assert_eq!((counts(shown(&one)), counts(shown(&other))), before);
    // A worker that dies takes nothing along: the next one asks the other peer.
    signal_process(*one.workers().last().unwrap(), Signal::KILL);
    wait_same(&one, &other, 7);
}

#[test]
fn peers_that_misbehave_harm_nobody() {
    let origin = Origin::answering(|_| ok("x"));
    let [place, _] = Place::new(&origin);
    let listener = TcpListener::bind(place.a).unwrap();
    let edge = tidegate(&place, 'B');
    let (first, _) = listener.accept().unwrap();
    let greet = |hello: &[u8]| {
        let mut peer = TcpStream::connect(place.b).unwrap();
        peer.set_read_timeout(Some(support::PATIENCE)).unwrap();
        peer.write_all(hello).unwrap();
        let mut status = [0; 4];
        peer.read_exact(&mut status).unwrap();
        (peer, String::from_utf8_lossy(&status).into_owned())
    };
    for (hello, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "501\n"),
        (b"HAProxyS 3.0\n", "502\n"),
        (b"HAProxyS 2.1\nC\n", "503\n"),
        (b"HAProxyS 2.1\nB\nC 1 1\n", "504\n"),
    ] {
        let (mut peer, status) = greet(hello);
        assert_eq!(status, expected);
        assert_eq!(peer.read(&mut [0]).unwrap_or(0), 0);
    }
    // It connects while there is a connection: the older one ends.
    let hello = b"HAProxyS 2.1\nB\nA 1 1\n";
    let (mut peer, status) = greet(hello);
    assert_eq!(status, "200\n");
    first.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let mut rest = Vec::new();
    let _ = (&first).read_to_end(&mut rest);
    assert!(rest.starts_with(b"HAProxyS 2.1\nA\nB "), "{}", String::from_utf8_lossy(&rest));
    // A table of another type is ignored, and a message that is cut short changes nothing.
    let definition = [&[10, 0x82, 13, 1, 7][..], b"numbers", &[6, 33, 0, 0]].concat();
    peer.write_all(&[&definition[..], &[0, 0], &[10, 0x80, 20, 0, 0, 0, 1]].concat()).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    let _ = peer.read_to_end(&mut rest);
    // It asked for a lesson before.
    assert!(rest.starts_with(&[0, 0]), "{rest:?}");
    // What makes no sense is answered so.
    let (mut peer, status) = greet(hello);
    assert_eq!(status, "200\n");
    peer.write_all(&[255, 255, 1, 2, 3]).unwrap();
    let mut rest = Vec::new();
    let _ = peer.read_to_end(&mut rest);
    assert!(rest.ends_with(&[1, 0]), "{rest:?}");
    wait_until("it is counted", || edge.command("show peers").contains("proto_err=1"));
    // The edge lives, and speaks to the next one.
    ask(place.front, "/fine");
    let (mut peer, status) = greet(hello);
    assert_eq!(status, "200\n");
    peer.write_all(&[0, 0]).unwrap();
    let mut seen = Vec::new();
    wait_until("the lesson came", || {
        let mut some = [0; 4096];
        let count = support::read_once(&mut peer, &mut some).unwrap();
        seen.extend_from_slice(&some[..count]);
        seen.windows(5).any(|window| window == b"/fine")
    });
}
