//! What the commands say to somebody who uses them for the first time, or wrongly: what, where, and what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::process::Command;

use support::{Edge, Folder, Wire, free_address};

/// The exit code, and what is said on both streams.
fn said(words: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn each_command_says_what_is_wrong_and_where() {
    let folder = Folder::new();
    let empty = folder.file("file", "").parent().unwrap().display().to_string();
    let socket = format!("{empty}/none.sock");
    let no_process = "4194999";
    for (words, code, expected) in [
        (&["--version"][..], 0, "tidegate 0."),
        (&["edge", "-h"], 0, "Usage: tidegate edge [-f"),
        (&["edge", "--help"], 0, "-x <socket>"),
        (&["haproxy", "-h"], 0, "Usage: haproxy [-f"),
        (&["varnishd", "--help"], 0, "Usage: varnishd"),
        (&["varnishlog", "--help"], 0, "Usage: varnishlog"),
        (&["varnishncsa", "--help"], 0, "Usage: varnishncsa"),
        (&["varnishstat", "--help"], 0, "Usage: varnishstat"),
        (&["varnishadm", "--help"], 0, "Usage: varnishadm"),
        (&["varnishlog", "--odd"], 1, "unknown option --odd"),
        (&["vinyld", "-V"], 0, "varnish-7.1.1"),
        // Programs that stand in another's place have its codes, Tidegate's own commands have one.
        (&["edge", "--form", ":80", "--to", "app:80"], 2, "did you mean '--from'?"),
        (&["haproxy", "--odd"], 1, "unknown option '--odd'"),
        (&["proxy", "--odd"], 2, "--odd"),
        (&["nutcracker", "--odd"], 1, "--odd"),
        (&["version", "--odd"], 2, "--odd"),
        (&["edge", "a.cfg"], 2, "'a.cfg' is not an option; a file or folder of configuration is named with -f"),
        (&["explain", "option", "httpchk"], 0, "option httpchk ["),
        (&["explain", "hset"], 0, "HSET (a command of the store)"),
        (&["explain", "balanc"], 1, "Nearest: balance"),
        (&["explain", ""], 1, "explain what?"),
        (&["explain", "leastconn"], 0, "a value of 'balance'"),
        (&["explain", "show", "stat"], 0, "show stat ["),
        (&["explain", "HGETALLL"], 1, "Nearest: HGETALL"),
        (&["-v"], 0, "tidegate 0."),
        (&["version"], 0, "edge: the language of HAProxy 2.6."),
        (&["edge", "--from", ":80"], 1, "option '--to' is missing"),
        (&["edge", "--from", ":80", "--to", "app:80", "-f", "a.cfg"], 1, "'-f' cannot stand beside them"),
        (&["log", "-q", "RespStatus:503", "1"], 2, "write RespStatus == 503"),
        (&["status", "--pid", no_process], 1, "process 4194999 does not answer: it is not there"),
        (&["reload", "--pid", "1"], 1, "process 1 does not answer: it is no master"),
        (&["stop", "--socket", &socket], 1, "none.sock does not answer: No such file"),
        (&["log", "--pid", no_process], 1, "the records of process 4194999 cannot be read: it is not there"),
        (&["log", "--socket", &socket], 1, "none.sock does not answer: No such file"),
        (&["log", "dump", "--dir", &empty], 1, "has no log of a store"),
        (&["log", "dump", "--dir", &socket], 1, "No such file"),
        (&["backup", "--list", "--to", &empty], 0, "there are no backups in"),
        (&["restore", "--from", &empty, "--dir", &socket], 1, "there is no such backup in"),
        (&["store", "--bind", "192.0.2.1", "--port", "9"], 1, "is it an address of this machine?"),
    ] {
        let (ended, text) = said(words);
        assert!(ended == code && text.contains(expected), "{words:?}: {ended} {text}");
    }
}

#[test]
fn who_has_read_enough_ends_a_command_quietly() {
    let folder = Folder::new();
    let archive = folder.0.join("archive");
    std::fs::create_dir_all(archive.join("backups")).unwrap();
    std::fs::write(archive.join("backups/2026-01-01T00-00-00Z"), "").unwrap();
    let archive = archive.display().to_string();
    for words in [
        &["version"][..],
        &["edge", "-vv"],
        &["varnishd", "-V"],
        &["varnishlog", "-h"],
        &["backup", "--list", "--to", &archive],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).stdout(writer).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.is_empty() && output.status.code() == Some(141), "{words:?}: {:?} {text}", output.status);
    }
}

#[test]
fn programs_are_known_by_the_names_of_vinyl_cache_too() {
    let folder = Folder::new();
    for (name, expected) in
        [("vinyld", "varnishd (varnish-7.1.1"), ("vinyllog", "varnish-7.1.1"), ("vinyladm", "varnish-7.1.1")]
    {
        let path = folder.0.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tidegate"), &path).unwrap();
        let output = Command::new(&path).arg("-V").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn the_log_is_found_by_the_masters_socket() {
    let front = free_address();
    let folder = Folder::new();
    let socket = folder.file("file", "").with_file_name("master");
    let socket = socket.display().to_string();
    let config = format!(
        "defaults\n mode http\n timeout client 5s\nfrontend f\n bind {front}\n http-request return status 204\n"
    );
    let _edge = Edge::start_as(env!("CARGO_BIN_EXE_tidegate"), &["edge", "-S", &socket], &config);
    assert_eq!(Wire::connect(front).get("/here").status(), 204);
    let (code, text) = said(&["log", "--socket", &socket, "-d", "-n", "1", "--long"]);
    assert!(code == 0 && text.contains("ReqURL         /here"), "{text}");
}
