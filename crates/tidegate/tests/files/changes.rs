//! Files that change, and disks that answer slowly.

use std::{fs, io::Write as _, os::unix::fs::symlink, process::Command};

use rustix::process::Signal;

use crate::{
    DEFAULTS, Files, get, site,
    support::{self, Edge, LogServer, Wire, free_address, noise, wait_until},
};

#[test]
fn what_changes_is_seen() {
    let files = Files::new();
    symlink("top", files.path("current")).unwrap();
    let (_edge, front) = site(&format!(" root {}", files.path("current").display()));
    let mut wire = Wire::connect(front);
    assert_eq!(wire.get("/style.css").text(), "p { margin: 0 }\n");
    let before = wire.get("/style.css").field("etag").map(str::to_owned);
    files.replace("top/style.css", "another");
    wait_until("the new file", || wire.get("/style.css").text() == "another");
    assert_ne!(wire.get("/style.css").field("etag").map(str::to_owned), before);
    files.write("top/style.css", "written in place");
    wait_until("what was written", || wire.get("/style.css").text() == "written in place");
    fs::remove_file(files.path("top/style.css")).unwrap();
    wait_until("it is gone", || wire.get("/style.css").status() == 404);
    files.write("top/style.css", "back");
    wait_until("it is back", || wire.get("/style.css").text() == "back");
    // Another release.
    files.write("release2/style.css", "release 2");
    symlink("release2", files.path("next")).unwrap();
    fs::rename(files.path("next"), files.path("current")).unwrap();
    wait_until("the new release", || wire.get("/style.css").text() == "release 2");
}

#[test]
fn a_file_that_changes_while_it_is_sent() {
    let files = Files::new();
    let large = noise(40_000_000, 5);
    for name in ["shrinks", "grows", "replaced", "written"] {
        files.write(&format!("top/{name}"), &large);
    }
    let (_edge, front) = site(&format!(" root {}", files.top()));
    let begin = |name: &str| {
        let mut wire = Wire::connect(front);
        wire.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = wire.head().unwrap();
        assert!(head.contains("content-length: 40000000"), "{head}");
        wire
    };
    let mut wire = begin("shrinks");
    fs::OpenOptions::new().write(true).open(files.path("top/shrinks")).unwrap().set_len(1_000_000).unwrap();
    assert!(wire.read_to_end().len() < large.len(), "an answer is whole, or it ends before");
    let mut wire = begin("grows");
    fs::OpenOptions::new().append(true).open(files.path("top/grows")).unwrap().write_all(b"more").unwrap();
    assert!(wire.read(large.len()) == large);
    assert_eq!(wire.get("/docs/a.txt").text(), "a\n");
    let mut wire = begin("replaced");
    files.replace("top/replaced", "short");
    assert!(wire.read(large.len()) == large);
    // Nobody gets the beginning of one version and the end of another one.
    let mut wire = begin("written");
    wait_until("another time", || {
        files.write("top/written", vec![b'x'; large.len()]);
        true
    });
    let received = wire.read_to_end();
    assert!(received.len() < large.len(), "a mix of two versions");
    wait_until("the new file", || get(front, "/replaced").text() == "short");
}

#[test]
fn a_slow_disk_slows_only_its_own_requests() {
    let files = Files::new();
    files.write("top/slow.bin", "slow");
    let front = free_address();
    let config = files.folder.file(
        "haproxy.cfg",
        format!(
            "global\n nbthread 1\n tune.disk-threads 4\n{DEFAULTS}listen files\n bind {front}\n root {}\n",
            files.top()
        ),
    );
    // The program waits half a minute for each look at such a name, on the threads that wait for disks.
    let run = files.path("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["haproxy", "-db", "-f"])
        .arg(config)
        .env("TIDEGATE_SLOW_FILES", "slow.bin=30000")
        .env("TIDEGATE_RUN_DIR", run);
    let mut child = command.spawn().unwrap();
    wait_until("it listens", || support::listens(front));
    let slow: Vec<Wire> = (0..20)
        .map(|_| {
            let mut wire = Wire::connect(front);
            wire.send("GET /slow.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            wire
        })
        .collect();
    for _ in 0..3 {
        assert_eq!(get(front, "/style.css").status(), 200);
        assert_eq!(get(front, "/docs/a.txt").text(), "a\n");
    }
    drop(slow);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_client_that_does_not_read_is_left() {
    let files = Files::new();
    files.write("top/large", noise(40_000_000, 5));
    let log = LogServer::start();
    let (_edge, front) =
        site(&format!(" timeout client 500ms\n option httplog\n log {} local0\n root {}", log.address, files.top()));
    let mut wire = Wire::connect(front);
    wire.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let line = log.line_with("GET /large");
    assert!(line.contains(" files/<FILES> ") && line.contains(" cD-- "), "{line}");
    assert!(wire.read_to_end().len() < 40_000_000);
}

#[test]
fn a_reload_opens_its_folders_or_changes_nothing() {
    let files = Files::new();
    let front = free_address();
    let config =
        |folder: &str| format!("{DEFAULTS}listen files\n bind {front}\n root {}\n", files.path(folder).display());
    let edge = Edge::start(&config("top"));
    assert_eq!(get(front, "/style.css").status(), 200);
    fs::write(&edge.config, config("none")).unwrap();
    edge.signal(Signal::USR2);
    edge.wait_output("cannot open the folder");
    assert_eq!(get(front, "/style.css").status(), 200);
    fs::write(&edge.config, config("other")).unwrap();
    edge.signal(Signal::USR2);
    wait_until("the other folder", || get(front, "/secret").status() == 200);
    // Workers take what is new one after the other.
    wait_until("the first folder is no longer served", || get(front, "/style.css").status() == 404);
}
