//! The demo, driven as a person would.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

struct Demo {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    port: u16,
    seen: Vec<String>,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ports in a row that nobody uses at the moment.
fn free_ports() -> u16 {
    let mut port = 20_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    loop {
        let taken: Result<Vec<TcpListener>, _> =
            (port..port + 30).map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))).collect();
        if taken.is_ok() {
            return port;
        }
        port += 30;
    }
}

fn start() -> Demo {
    let port = free_ports();
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["demo", "--ports-from", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = process.stdout.take().unwrap();
    let input = process.stdin.take().unwrap();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Demo { process, input, lines, port, seen: Vec::new() }
}

impl Demo {
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("no line with {text:?} after:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The number that follows `before` in what was printed.
    fn number_after(&self, before: &str) -> i32 {
        let text = self.seen.join("\n");
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in:\n{text}"));
        rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    fn get(&self, target: &str, accept: &str) -> (u16, String) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nhost: demo\r\naccept: {accept}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {answer:?}")).parse().unwrap();
        (status, answer)
    }

    /// The sites that answer `count` requests, none of which may fail.
    fn sites(&self, count: usize) -> Vec<String> {
        let site = |_| {
            let (status, answer) = self.get("/", "*/*");
            assert_eq!(status, 200, "{answer}");
            let (_, rest) = answer.split_once("x-site: ").expect("the site's header");
            rest.split("\r\n").next().unwrap().to_owned()
        };
        (0..count).map(site).collect()
    }

    fn wait_for_status(&self, server: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let (status, table) = self.get("/haproxy?stats;csv", "*/*");
            assert_eq!(status, 200);
            let column = table
                .lines()
                .find_map(|line| line.strip_prefix("# "))
                .expect("a heading")
                .split(',')
                .position(|name| name == "status")
                .expect("a column `status`");
            let line = table.lines().find(|line| line.starts_with(&format!("sites,{server},"))).expect("the server");
            if line.split(',').nth(column) == Some(wanted) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{server} is not {wanted}: {line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn interrupt(&mut self) -> ExitStatus {
        kill_process(pid(i32::try_from(self.process.id()).unwrap()), Signal::INT).unwrap();
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "Ctrl-C ends nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).unwrap()
}

fn tidegate(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
    )
}

#[test]
fn sites_answer_in_turn_and_for_each_other() {
    let mut demo = start();
    let configuration = demo.wait_for("haproxy.cfg:");
    demo.wait_for("Ctrl-C ends everything");
    let (edge, reef, dune) = (
        demo.number_after("The edge is process "),
        demo.number_after("reef alone, process "),
        demo.number_after("dune alone, process "),
    );
    let store = demo.number_after("count visits, process ");

    // Both sites, one after the other.
    let sites = demo.sites(6);
    assert_eq!(sites.iter().filter(|site| *site == "reef").count(), 3, "{sites:?}");
    assert!(sites.windows(2).all(|two| two[0] != two[1]), "{sites:?}");
    let (_, page) = demo.get("/", "text/html");
    assert!(page.contains("<!doctype html>") && page.contains("through the edge for 127.0.0.1"), "{page}");
    let (status, page) = demo.get("/haproxy?stats", "text/html");
    assert!(status == 200 && page.contains("reef") && page.contains("dune"), "{status}");

    // One is ended as the demo says: no request fails, before and after the checks have found out.
    kill_process(pid(reef), Signal::TERM).unwrap();
    assert!(demo.sites(10).iter().all(|site| site == "dune"));
    demo.wait_for("reef has ended");
    demo.wait_for_status("reef", "DOWN");
    assert!(demo.sites(4).iter().all(|site| site == "dune"));

    // It is started again by its number.
    demo.input.write_all(b"1\n").unwrap();
    demo.wait_for("reef runs again");
    demo.wait_for_status("reef", "UP");
    let sites = demo.sites(4);
    assert!(sites.contains(&"reef".to_owned()) && sites.contains(&"dune".to_owned()), "{sites:?}");

    // And the other one is stopped by its number.
    demo.input.write_all(b"2\n").unwrap();
    demo.wait_for("dune is stopped");
    assert!(demo.sites(4).iter().all(|site| site == "reef"));

    // Both sites count in the store, which is killed and goes on where it was.
    let count = |demo: &Demo| {
        let (_, answer) = demo.get("/", "*/*");
        answer.split_once("visit ").map(|(_, rest)| rest.split(' ').next().unwrap().parse::<u64>().unwrap())
    };
    let before = count(&demo).expect("the store counts");
    assert_eq!(count(&demo), Some(before + 1));
    demo.input.write_all(b"3\n").unwrap();
    demo.wait_for("the store is stopped");
    assert_eq!(count(&demo), None);
    demo.input.write_all(b"3\n").unwrap();
    demo.wait_for("the store runs again");
    let begun = Instant::now();
    let after = loop {
        if let Some(number) = count(&demo) {
            break number;
        }
        assert!(begun.elapsed() < PATIENCE, "the store does not come back");
        std::thread::sleep(Duration::from_millis(20));
    };
    // A site that asked while the store was starting may have counted without an answer.
    assert!(after >= before + 2, "{after} after {before}");

    // A cache is switched on in front of the slow page, and the statistics tell how often it answers.
    assert!(!demo.get("/slow", "*/*").1.contains("Cache-Status"));
    demo.input.write_all(b"4\n").unwrap();
    demo.wait_for("The cache is on");
    let begun = Instant::now();
    while !demo.get("/slow", "*/*").1.contains("; hit") {
        assert!(begun.elapsed() < PATIENCE, "nothing comes from the cache");
    }
    let (_, live) = demo.get("/haproxy?stats;json;live", "*/*");
    assert!(live.contains("\"cache\":{\"lookups\":"), "{live}");

    // A cluster is started and written to, a master of it killed: nothing is lost.
    demo.input.write_all(b"6\n5\n").unwrap();
    demo.wait_for("There is no cluster yet");
    demo.wait_for("A client writes to it now");
    demo.wait_for("7 to add a group");
    demo.input.write_all(b"6\n").unwrap();
    demo.wait_for("is killed");
    let told = demo.wait_for("has taken its place");
    assert!(told.contains("none is lost"), "{told}");

    // What else it says to try.
    let edge_text = edge.to_string();
    let (success, log) = tidegate(&["log", &edge_text, "-d", "--no-wait", "-q", "Backend eq \"sites dune\"", "--long"]);
    assert!(success && log.contains("RespStatus     200"), "{log}");
    let (success, answer) = tidegate(&["reload", "--pid", &edge_text]);
    assert!(success && answer.contains("serves the new configuration"), "{answer}");
    let file = configuration.trim_end_matches(':').to_owned();
    std::fs::write(&file, "frontend web\n    bnd :80\n").unwrap();
    let (success, answer) = tidegate(&["reload", "--pid", &edge_text]);
    assert!(!success && answer.contains("bnd") && answer.contains("bind"), "{answer}");
    assert!(demo.sites(2).iter().all(|site| site == "reef"), "a refused configuration changes nothing");

    // Ctrl-C ends all of it.
    assert!(demo.interrupt().success());
    for process in [edge, reef, dune, store] {
        assert!(test_kill_process(pid(process)).is_err(), "process {process} is left");
    }
    assert!(!Path::new(&file).exists(), "{file} is left");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, demo.port)).is_err(), "someone still listens");
}

#[test]
fn the_demo_says_which_port_is_taken() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let (success, text) = tidegate(&["demo", "--ports-from", &port.min(65_500).to_string()]);
    assert!(!success);
    assert!(text.contains("cannot be used") && text.contains("--ports-from"), "{text}");
}

#[test]
fn a_process_that_is_no_master_is_an_error() {
    let own = std::process::id().to_string();
    for words in [["reload", "--pid", &own], ["status", "--pid", &own], ["log", "--pid", &own]] {
        let (success, text) = tidegate(&words);
        assert!(!success && text.starts_with("tidegate "), "{words:?}: {text}");
    }
    let (success, text) = tidegate(&["reload", "--pidfile", "/nowhere/tidegate.pid"]);
    assert!(!success && text.contains("/nowhere/tidegate.pid"), "{text}");
}
