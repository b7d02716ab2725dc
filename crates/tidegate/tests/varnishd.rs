//! varnishd's management: Debian's varnishadm on a running instance, programs that are swapped under load.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use rustix::process::Signal;
use support::{Folder, Origin, Wire, free_address, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// An instance in the foreground, until it is dropped.
struct Varnishd {
    child: Child,
    front: SocketAddr,
    folder: Folder,
}

impl Drop for Varnishd {
    fn drop(&mut self) {
        support::signal_process(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// An origin that says its name, and the path.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let body = format!("{name} {path}");
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

fn program(origin: &Origin, more: &str) -> String {
    let (host, port) = (origin.address.ip(), origin.address.port());
    format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n{more}\n")
}

impl Varnishd {
    fn start(text: &str, arguments: &[&str]) -> Self {
        let (folder, front) = (Folder::new(), free_address());
        let path = folder.0.join("boot.vcl");
        fs::write(&path, text).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["varnishd", "-F", "-a", &front.to_string(), "-f"]).arg(&path).arg("-n").arg(folder.0.join("n"));
        let child = command.args(arguments).spawn().unwrap();
        wait_until("it listens", || TcpStream::connect(front).is_ok());
        Self { child, front, folder }
    }

    fn workdir(&self) -> PathBuf {
        self.folder.0.join("n")
    }

    /// A command by varnishadm: Debian's if it is there, else our own. Whether it was done, and what it said.
    fn try_adm(&self, words: &[&str]) -> (bool, String) {
        let is_there =
            Command::new("varnishadm").arg("-V").stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok();
        let mut command = Command::new(if is_there { "varnishadm" } else { PROGRAM });
        if !is_there {
            command.arg("varnishadm");
        }
        let output = command.arg("-n").arg(self.workdir()).args(words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn adm(&self, words: &[&str]) -> String {
        let (done, text) = self.try_adm(words);
        assert!(done, "{words:?}: {text}");
        text
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        let (done, text) = self.try_adm(words);
        assert!(!done, "{words:?}: {text}");
        text
    }

    fn get(&self, path: &str) -> String {
        Wire::connect(self.front).get(path).text()
    }

    /// Writes a program to a file, for `vcl.load`.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

#[test]
fn varnishadm_manages_it() {
    let first = origin("first");
    let site = Varnishd::start(&program(&first, ""), &["-p", "default_ttl=60", "-s", "malloc,8m"]);
    assert_eq!(site.get("/a"), "first /a");
    assert_eq!(site.adm(&["status"]).trim(), "Child in state running");
    assert!(site.adm(&["ping"]).starts_with("PONG "));
    assert!(site.adm(&["banner"]).contains("varnish-7.1.1"));
    assert!(site.adm(&["help"]).contains("vcl.load <configname> <filename>"));
    assert_eq!(site.adm(&["pid"]).lines().next().unwrap(), format!("Master: {:>10}", site.child.id()));
    assert!(site.adm(&["vcl.list"]).contains("active   auto    warm         0    boot"));
    assert_eq!(site.adm(&["vcl.show"]).trim(), program(&first, "").trim());
    assert!(site.adm(&["storage.list"]).contains("storage.s0 = malloc"));
    assert!(site.adm(&["param.show", "default_ttl"]).contains("Value is: 60.000 [seconds]"));
    assert!(site.adm(&["backend.list"]).contains("boot.default"));
    let port = site.front.port().to_string();
    assert!(site.adm(&["debug.listen_address"]).contains(&port));
    assert!(site.refused(&["panic.show"]).contains("Child has not panicked"));
    assert!(site.refused(&["nonsense"]).contains("Unknown request"));
}

#[test]
fn parameters_and_bans_act_at_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let counting = Origin::answering(move |_| {
        let body = format!("{}", counter.fetch_add(1, SeqCst) + 1);
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let site = Varnishd::start(&program(&counting, ""), &[]);
    assert_eq!((site.get("/a"), site.get("/a")), ("1".to_owned(), "1".to_owned()));
    site.adm(&["ban", "req.url", "==", "/a"]);
    assert_eq!(site.get("/a"), "2");
    assert!(site.adm(&["ban.list"]).contains("req.url == /a"));
    assert!(site.refused(&["ban", "req.url", "=", "/a"]).contains("106"));
    site.adm(&["param.set", "default_ttl", "0"]);
    assert_eq!((site.get("/b"), site.get("/b")), ("3".to_owned(), "4".to_owned()), "nothing is kept any more");
    site.adm(&["param.reset", "default_ttl"]);
    assert_eq!((site.get("/c"), site.get("/c")), ("5".to_owned(), "5".to_owned()));
    assert!(site.refused(&["param.set", "default_ttl", "soon"]).contains("Invalid number"));
}

#[test]
fn an_administrator_says_what_is_sick() {
    let first = origin("first");
    let site = Varnishd::start(&program(&first, ""), &[]);
    site.adm(&["backend.set_health", "default", "sick"]);
    assert!(site.adm(&["backend.list"]).contains("sick"));
    assert_eq!(Wire::connect(site.front).get("/a").status(), 503);
    site.adm(&["backend.set_health", "boot.default", "auto"]);
    assert_eq!(site.get("/b"), "first /b");
    assert!(site.refused(&["backend.set_health", "nobody", "sick"]).contains("No Backends matches"));
}

#[test]
fn programs_come_and_go() {
    let (first, second) = (origin("first"), origin("second"));
    let site = Varnishd::start(&program(&first, ""), &["-p", "default_ttl=0", "-p", "default_grace=0"]);
    let file = site.file("second.vcl", &program(&second, ""));
    assert_eq!(site.adm(&["vcl.load", "second", &file]).trim(), "VCL compiled.");
    assert_eq!(site.get("/a"), "first /a");
    assert!(site.adm(&["vcl.use", "second"]).contains("VCL 'second' now active"));
    assert_eq!(site.get("/a"), "second /a");
    assert!(site.refused(&["vcl.discard", "second"]).contains("Cannot discard active VCL program second"));
    assert!(site.refused(&["vcl.load", "second", &file]).contains("Already a VCL named second"));
    let wrong = site.file("wrong.vcl", &program(&second, "sub vcl_recv { set req.foo = 1; }"));
    let said = site.refused(&["vcl.load", "wrong", &wrong]);
    assert!(said.contains("Message from VCC-compiler:") && said.contains("Symbol not found: 'req.foo'"), "{said}");
    let refuses = site.file("refuses.vcl", &program(&second, "sub vcl_init { return (fail(\"no\")); }"));
    assert!(site.refused(&["vcl.load", "refuses", &refuses]).contains("Failed initialization"));
    site.adm(&["vcl.use", "boot"]);
    site.adm(&["vcl.discard", "second"]);
    assert_eq!(site.get("/a"), "first /a");
    assert!(!site.adm(&["vcl.list"]).contains("second"));
}

#[test]
fn a_label_takes_requests_over() {
    let (first, second) = (origin("first"), origin("second"));
    let site = Varnishd::start(&program(&first, ""), &["-p", "default_ttl=0", "-p", "default_grace=0"]);
    let file = site.file("second.vcl", &program(&second, "sub vcl_recv { set req.url = \"/labelled\" + req.url; }"));
    site.adm(&["vcl.load", "second", &file]);
    let main =
        program(&first, "sub vcl_recv { if (req.url == \"/api\") { set req.url = \"/changed\"; return (vcl(api)); } }");
    let main = site.file("main.vcl", &main);
    assert!(site.refused(&["vcl.load", "main", &main]).contains("No VCL labeled api"));
    site.adm(&["vcl.label", "api", "second"]);
    site.adm(&["vcl.load", "main", &main]);
    site.adm(&["vcl.use", "main"]);
    assert_eq!((site.get("/a"), site.get("/api")), ("first /a".to_owned(), "second /labelled/api".to_owned()));
    assert!(site.refused(&["vcl.discard", "second"]).contains("Cannot discard labeled VCL"));
}

#[test]
fn a_stop_keeps_programs_and_ports() {
    let first = origin("first");
    let site = Varnishd::start(&program(&first, ""), &[]);
    assert_eq!(site.get("/a"), "first /a");
    site.adm(&["stop"]);
    assert_eq!(site.adm(&["status"]).trim(), "Child in state stopped");
    assert!(TcpStream::connect(site.front).is_err());
    let file = site.file("second.vcl", &program(&first, ""));
    site.adm(&["vcl.load", "second", &file]);
    site.adm(&["start"]);
    assert_eq!(site.get("/a"), "first /a");
    assert!(site.adm(&["vcl.list"]).contains("second"));
}

#[test]
fn a_worker_that_dies_comes_back_with_its_programs() {
    let (first, second) = (origin("first"), origin("second"));
    let site = Varnishd::start(&program(&first, ""), &[]);
    let file = site.file("second.vcl", &program(&second, ""));
    site.adm(&["vcl.load", "second", &file]);
    site.adm(&["vcl.use", "second"]);
    let pids = site.adm(&["pid"]);
    let worker: u32 = pids.split("Worker:").nth(1).unwrap().trim().parse().unwrap();
    support::signal_process(worker, Signal::KILL);
    wait_until("another worker serves", || {
        let (done, text) = site.try_adm(&["pid"]);
        done && text.contains("Worker:") && !text.contains(&worker.to_string())
    });
    wait_until("it listens", || TcpStream::connect(site.front).is_ok());
    assert_eq!(site.get("/a"), "second /a");
    assert!(site.adm(&["panic.show"]).contains(&format!("Child ({worker}) ended")));
    site.adm(&["panic.clear"]);
    assert!(site.refused(&["panic.show"]).contains("Child has not panicked"));
}

/// Fifty swaps while clients ask all the time: every request is answered, by a program that was there.
#[test]
fn programs_are_swapped_under_load() {
    let (first, second) = (origin("first"), origin("second"));
    let site = Varnishd::start(&program(&first, ""), &["-p", "default_ttl=0", "-p", "default_grace=0"]);
    let files = [site.file("a.vcl", &program(&first, "")), site.file("b.vcl", &program(&second, ""))];
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (is_over, front) = (Arc::clone(&is_over), site.front);
            thread::spawn(move || {
                let mut counts = [0, 0];
                let mut wire = Wire::connect(front);
                while !is_over.load(SeqCst) {
                    let answer = wire.get("/x");
                    assert_eq!(answer.status(), 200, "{answer:?}");
                    counts[usize::from(answer.text().starts_with("second"))] += 1;
                }
                counts
            })
        })
        .collect();
    let mut former = "boot".to_owned();
    for number in 0..50 {
        let name = format!("program{number}");
        site.adm(&["vcl.load", &name, &files[(number + 1) % 2]]);
        site.adm(&["vcl.use", &name]);
        site.adm(&["vcl.discard", &former]);
        former = name;
    }
    is_over.store(true, SeqCst);
    let counts: Vec<[u32; 2]> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    for side in 0..2 {
        assert!(counts.iter().map(|count| count[side]).sum::<u32>() > 0, "both have answered: {counts:?}");
    }
    wait_until("what was discarded is gone", || !site.adm(&["vcl.list"]).contains("discarded"));
}

#[test]
fn a_request_ends_with_the_program_that_it_began_with() {
    let slow = Arc::new(AtomicBool::new(false));
    let waits = Arc::clone(&slow);
    let first = Origin::answering(move |_| {
        while waits.load(SeqCst) {
            thread::yield_now();
        }
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst".to_vec()
    });
    let second = origin("second");
    let site = Varnishd::start(&program(&first, "sub vcl_deliver { set resp.http.by = \"first\"; }"), &[]);
    let file = site.file("second.vcl", &program(&second, "sub vcl_deliver { set resp.http.by = \"second\"; }"));
    slow.store(true, SeqCst);
    let mut wire = Wire::connect(site.front);
    wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the origin is asked", || !site.adm(&["vcl.list"]).contains("0    boot"));
    site.adm(&["vcl.load", "second", &file]);
    site.adm(&["vcl.use", "second"]);
    site.adm(&["vcl.discard", "boot"]);
    assert!(site.adm(&["vcl.list"]).contains("discarded"));
    assert_eq!(Wire::connect(site.front).get("/b").field("by"), Some("second"));
    slow.store(false, SeqCst);
    let answer = wire.answer();
    assert_eq!((answer.text().as_str(), answer.field("by")), ("first", Some("first")));
    wait_until("it is gone", || !site.adm(&["vcl.list"]).contains("boot"));
}

#[test]
fn a_terminal_and_one_that_is_connected_to_manage_it() {
    let first = origin("first");
    let (folder, front) = (Folder::new(), free_address());
    let caller = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["varnishd", "-d", "-a", &front.to_string(), "-T", "none", "-n"])
        .arg(folder.0.join("n"))
        .args(["-M", &caller.local_addr().unwrap().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut called, _) = caller.accept().unwrap();
    let mut head = [0; 13];
    called.read_exact(&mut head).unwrap();
    assert!(head.starts_with(b"107 "), "it asks for the secret");
    let mut input = child.stdin.take().unwrap();
    let text = program(&first, "");
    write!(input, "vcl.inline one << END\n{text}\nEND\nvcl.use one\nstart\n").unwrap();
    wait_until("it listens", || TcpStream::connect(front).is_ok());
    assert_eq!(Wire::connect(front).get("/a").text(), "first /a");
    drop(input);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("VCL compiled.") && said.contains("VCL 'one' now active"), "{said}");
    assert!(child.wait().unwrap().success());
    assert!(TcpStream::connect(front).is_err());
}

#[test]
fn it_goes_into_the_background_and_is_alone_there() {
    let first = origin("first");
    let (folder, front) = (Folder::new(), free_address());
    let path = folder.0.join("boot.vcl");
    fs::write(&path, program(&first, "")).unwrap();
    let start = |front: SocketAddr| {
        let mut command = Command::new(PROGRAM);
        command.args(["varnishd", "-a", &front.to_string(), "-f"]).arg(&path).arg("-n").arg(folder.0.join("n"));
        command.arg("-P").arg(folder.0.join("pid")).output().unwrap()
    };
    let output = start(front);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Wire::connect(front).get("/a").text(), "first /a");
    let pid: u32 = fs::read_to_string(folder.0.join("pid")).unwrap().trim().parse().unwrap();
    let again = start(free_address());
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{text}");
    assert!(text.contains(&format!("already running (pid={pid})")), "{text}");
    support::signal_process(pid, Signal::TERM);
    wait_until("it is gone", || TcpStream::connect(front).is_err() && !folder.0.join("pid").exists());
}

#[test]
fn a_probe_decides_as_in_varnish() {
    let fails = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&fails);
    let probed = Origin::answering(move |_| {
        let status = if state.load(SeqCst) { "503 No" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").into_bytes()
    });
    let (host, port) = (probed.address.ip(), probed.address.port());
    let probe = "{ .interval = 50ms; .timeout = 1s; .window = 4; .threshold = 3; .initial = 0; }";
    let text = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; .probe = {probe} }}\n");
    let site = Varnishd::start(&text, &["-p", "default_ttl=0", "-p", "default_grace=0"]);
    wait_until("it is healthy", || site.adm(&["backend.list"]).contains("healthy"));
    assert_eq!(Wire::connect(site.front).get("/a").status(), 200);
    let details = site.adm(&["backend.list", "-p"]);
    assert!(details.contains("threshold:  3 window:  4") && details.contains("HHH Happy"), "{details}");
    fails.store(true, SeqCst);
    wait_until("it is sick", || site.adm(&["backend.list"]).contains("sick"));
    assert_eq!(Wire::connect(site.front).get("/b").status(), 503);
    site.adm(&["backend.set_health", "default", "healthy"]);
    assert_eq!(Wire::connect(site.front).get("/c").status(), 503, "the origin itself says so");
    assert!(site.adm(&["backend.list"]).contains("healthy"));
}

/// `-j` as Debian's unit has it: who serves is somebody else than who manages, also after it has died, and goes on publishing.
#[test]
fn the_worker_gives_up_its_rights() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let origin = origin("one");
    let varnishd = Varnishd::start(&program(&origin, ""), &["-j", "unix,user=nobody"]);
    let worker = || {
        let manager = varnishd.child.id();
        let children = fs::read_to_string(format!("/proc/{manager}/task/{manager}/children")).unwrap_or_default();
        children.split_whitespace().next().map(str::to_owned)
    };
    let user_of = |worker: &str| {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:\t"))
            .map(|uid| uid.split('\t').map(str::to_owned).collect())
    };
    let serves = || Wire::connect(varnishd.front).get("/a").text() == "one /a";
    assert!(serves());
    let first = worker().unwrap();
    let users: Vec<String> = user_of(&first).unwrap();
    assert!(users.iter().all(|user| *user == users[0] && user != "0"), "{users:?}");
    let path = varnishd.folder.file("two.vcl", program(&origin, "sub vcl_deliver { set resp.http.two = 2; }"));
    assert!(varnishd.try_adm(&["vcl.load", "two", path.to_str().unwrap()]).0);
    assert!(varnishd.try_adm(&["vcl.use", "two"]).0);
    support::signal_process(first.parse().unwrap(), Signal::KILL);
    wait_until("another one serves", || {
        worker().is_some_and(|next| next != first && user_of(&next) == Some(users.clone()))
            && TcpStream::connect(varnishd.front).is_ok()
    });
    wait_until("it answers by the program", || Wire::connect(varnishd.front).get("/a").field("two") == Some("2"));
}

#[test]
fn a_program_is_tried_beside_an_instance() {
    let origin = origin("one");
    let varnishd = Varnishd::start(&program(&origin, ""), &[]);
    for (text, is_valid) in [(program(&origin, ""), true), ("vcl 4.1; nonsense".to_owned(), false)] {
        let path = varnishd.folder.file("tried.vcl", text);
        let mut command = Command::new(PROGRAM);
        command
            .args(["varnishd", "-C", "-a", &varnishd.front.to_string(), "-n"])
            .arg(varnishd.workdir())
            .arg("-f")
            .arg(path);
        assert_eq!(command.output().unwrap().status.success(), is_valid);
        assert_eq!(Wire::connect(varnishd.front).get("/a").text(), "one /a");
        assert!(varnishd.try_adm(&["ping"]).0, "it is still found");
    }
}
