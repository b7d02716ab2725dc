//! How people find their way without having read anything: commands find the master that runs, an edge starts without a
//! configuration, and who else listens on an address is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs::File,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;
use support::{Edge, Folder, Origin, Wire, descendants, free_address, listens, signal_process, wait_end, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// The exit code of a command for masters with files in `run`, and what it says on both streams.
fn said(run: &Path, words: &[&str]) -> (i32, String) {
    let output = Command::new(PROGRAM).args(words).env("TIDEGATE_RUN_DIR", run).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

fn config(front: SocketAddr) -> String {
    format!("defaults\n mode http\n timeout client 5s\nfrontend f\n bind {front}\n http-request return status 204\n")
}

/// An edge whose run file is in `run`, once it serves.
fn start(run: &Path, front: SocketAddr) -> Edge {
    let folder = Folder::new();
    let path = folder.file("haproxy.cfg", config(front));
    let edge = Edge::spawn_in(run, PROGRAM, &["edge"], path, folder);
    wait_until("it listens", || listens(front) || edge.has_ended() && panic!("{}", edge.output()));
    wait_until("it can be found", || said(run, &["status", "--pid", &edge.pid().to_string()]).1.contains("listens on"));
    edge
}

#[test]
fn commands_find_the_only_master() {
    let run = Folder::new();
    let front = free_address();
    let mut edge = start(&run.0, front);
    let (code, text) = said(&run.0, &["status"]);
    assert_eq!(code, 0, "{text}");
    for expected in [
        format!("Master {} serves, up ", edge.pid()),
        format!("  configuration  {}\n", edge.config.display()),
        format!("  listens on     {front}\n"),
        "  reloads        0\n".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    assert!(!text.contains('\x1b'), "nothing is coloured without a terminal");
    let (_, json) = said(&run.0, &["status", "--json"]);
    assert!(json.starts_with(&format!("{{\"pid\":{}", edge.pid())), "{json}");

    // The run file follows the configuration.
    let other = free_address();
    std::fs::write(&edge.config, config(front) + &format!(" bind {other}\n")).unwrap();
    let (code, text) = said(&run.0, &["reload"]);
    assert!(code == 0 && text.contains("serves the new configuration"), "{text}");
    let (_, text) = said(&run.0, &["status"]);
    assert!(
        text.contains(&format!("listens on     {front}, {other}\n")) && text.contains("reloads        1\n"),
        "{text}"
    );

    assert_eq!(Wire::connect(front).get("/here").status(), 204);
    let (_, text) = said(&run.0, &["log", "-d", "-n", "1"]);
    assert!(
        text.starts_with("127.") && text.contains("] f f/<NOSRV> ") && text.ends_with(" LRNN \"GET /here\"\n"),
        "{text}"
    );

    let (code, text) = said(&run.0, &["stop"]);
    assert!(code == 0 && text.contains("ending now"), "{text}");
    edge.wait_end();
    assert_eq!(std::fs::read_dir(&run.0).unwrap().count(), 0, "the run file goes with the master");
    let (code, text) = said(&run.0, &["status"]);
    let expected = "tidegate status: no master of `tidegate edge` runs (none has a file in ";
    assert!(code == 1 && text.starts_with(expected) && text.contains("tidegate edge -f FILE"), "{text}");
}

#[test]
fn of_several_masters_one_is_to_be_named() {
    let run = Folder::new();
    let (front, other) = (free_address(), free_address());
    let (first, second) = (start(&run.0, front), start(&run.0, other));
    for command in ["status", "reload", "log", "stop"] {
        let (code, text) = said(&run.0, &[command]);
        assert!(code == 1 && text.starts_with(&format!("tidegate {command}: 2 masters run; name one")), "{text}");
        for (edge, address) in [(&first, front), (&second, other)] {
            let line = text.lines().find(|line| line.trim_start().starts_with(&edge.pid().to_string())).unwrap();
            assert!(
                line.contains(&edge.config.display().to_string()) && line.ends_with(&address.to_string()),
                "{text}"
            );
        }
    }
    let (code, text) = said(&run.0, &["reload", &second.pid().to_string()]);
    assert!(code == 0 && text.contains("serves the new configuration"), "{text}");

    // One that is killed leaves a file that nobody takes for a master.
    let workers = descendants(second.pid());
    signal_process(second.pid(), Signal::KILL);
    wait_until("it has ended", || second.has_ended());
    let (code, text) = said(&run.0, &["status"]);
    assert!(code == 0 && text.starts_with(&format!("Master {} serves", first.pid())), "{text}");
    assert_eq!(std::fs::read_dir(&run.0).unwrap().count(), 1, "the stale file is removed");
    for worker in workers {
        signal_process(worker, Signal::KILL);
    }
}

#[test]
fn who_else_listens_on_an_address_is_told() {
    let run = Folder::new();
    let front = free_address();
    let first = start(&run.0, front);
    let second = start(&run.0, front);
    second.wait_output(&format!(
        "process {} (tidegate) listens on [{front}], too: each connection goes to one of both",
        first.pid()
    ));
    assert!(second.output().contains(&format!("'-sf {}' replaces it", first.pid())), "{}", second.output());
    assert!(!first.output().contains("too:"), "{}", first.output());
    let (code, _) = said(&run.0, &["reload", &second.pid().to_string()]);
    assert_eq!(code, 0);
    assert_eq!(second.output().matches("too:").count(), 1, "what was told stays so");

    // Who takes over is not warned of whom it replaces.
    let folder = Folder::new();
    let path = folder.file("haproxy.cfg", config(front));
    let pids = [first.pid().to_string(), second.pid().to_string()];
    let third = Edge::spawn_in(&run.0, PROGRAM, &["edge", "-sf", &pids[0], &pids[1]], path, folder);
    wait_until("the others have ended", || first.has_ended() && second.has_ended());
    assert_eq!(Wire::connect(front).get("/").status(), 204);
    assert!(!third.output().contains("too:"), "{}", third.output());
}

#[test]
fn who_has_an_address_that_cannot_be_bound_is_told() {
    let taken = std::net::TcpListener::bind(free_address()).unwrap();
    let address = taken.local_addr().unwrap();
    let folder = Folder::new();
    let path = folder.file("haproxy.cfg", config(address));
    let edge = Edge::spawn(PROGRAM, &["edge"], path, folder);
    edge.wait_output(&format!(
        "cannot bind socket (Address already in use) for [{address}]: process {} (",
        std::process::id()
    ));
}

/// An edge without a configuration of its own. Ended when dropped.
struct QuickStart {
    child: Child,
    run: Folder,
}

impl QuickStart {
    fn start(words: &[&str]) -> Self {
        let run = Folder::new();
        let output = File::create(run.0.join("output")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("edge").args(words).env("TIDEGATE_RUN_DIR", run.0.join("run"));
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        Self { child: command.spawn().unwrap(), run }
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.run.0.join("output")).unwrap()
    }
}

impl Drop for QuickStart {
    fn drop(&mut self) {
        let workers = descendants(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        for worker in workers {
            signal_process(worker, Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("--- output of the program ---\n{}", self.output());
        }
    }
}

#[test]
fn an_edge_starts_without_a_configuration() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let (front, stats) = (free_address(), free_address());
    let words = [front, one.address, two.address, stats].map(|address| address.to_string());
    let words = ["--from", &words[0], "--to", &words[1], &words[2], "--stats", &words[3]];
    let edge = QuickStart::start(&words);
    wait_until("it says where it listens", || edge.output().contains("--print\n"));
    let options = words.join(" ");
    let greeting =
        format!("Listening on http://{front}/ for {}, {}.\nStatistics: http://{stats}/\n", one.address, two.address);
    assert!(edge.output().contains(&greeting), "{}", edge.output());
    let mut answers = [Wire::connect(front).get("/").text(), Wire::connect(front).get("/").text()];
    answers.sort();
    assert_eq!(answers, ["one", "two"]);
    let page = Wire::connect(stats).get("/;csv").text();
    assert!(page.contains("\napp,s2,") && page.contains("\nweb,FRONTEND,"), "{page}");
    let run = edge.run.0.join("run");
    let (_, text) = said(&run, &["status"]);
    assert!(text.contains(&format!("configuration  {options}\n")), "{text}");
    let (_, text) = said(&run, &["log", "-d", "--no-wait", "-q", "ReqURL eq \"/;csv\""]);
    assert!(text.contains("] stats stats/<STATS> ") && text.ends_with(" LRNN \"GET /;csv\"\n"), "{text}");
    let (code, text) = said(&run, &["reload"]);
    assert!(code == 0 && text.contains("serves the new configuration"), "{text}");

    // What it stands for runs as it is, here and in HAProxy.
    let mut printing = words.to_vec();
    printing.splice(0..0, ["edge"]);
    printing.push("--print");
    let (code, text) = said(&run, &printing);
    assert!(code == 0 && text.starts_with(&format!("# What `tidegate edge {options}` stands for.\n")), "{text}");
    drop(edge);
    wait_until("the address is free", || !listens(front));
    let edge = Edge::start(&text);
    assert!(["one", "two"].contains(&Wire::connect(front).get("/").text().as_str()));
    let file = edge.config.display().to_string();
    drop(edge);
    let haproxy = "/usr/sbin/haproxy";
    if Path::new(haproxy).exists() {
        let folder = Folder::new();
        let file = folder.file("haproxy.cfg", &text);
        let output = Command::new(haproxy).args(["-c", "-f"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains("WARNING"), "{file:?}: {text}");
    } else {
        eprintln!("skipped: {haproxy} is not installed ({file})");
    }
}

#[test]
fn a_started_edge_without_a_configuration_ends_with_its_reason() {
    let mut edge = QuickStart::start(&["--from", ":0", "--to", "app:80"]);
    assert_eq!(wait_end(&mut edge.child), 1);
    assert!(edge.output().contains("option '--from': ':0' is no address to listen on"), "{}", edge.output());
}
