//! Access logs in files: what web servers write, as their readers want it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, path::Path};

use rustix::process::Signal;
use support::{Edge, Folder, Wire, free_address, nginx_with, wait_until};

fn site(front: std::net::SocketAddr, formats: &str) -> String {
    format!(
        "global\n nbthread 1\n stats socket unix@%FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout connect 5s\n \
         timeout server 5s\nfrontend site\n bind {front}\n{formats} http-request return status 404 content-type text/plain \
         string nothing if {{ path /none }}\n http-request return status 200 content-type text/plain string hello\n"
    )
}

const REQUESTS: [&str; 6] = [
    "GET /a?b=c HTTP/1.1\r\nHost: x.example\r\nReferer: https://a.example/x\r\nUser-Agent: curl/8\r\nConnection: close\r\n\r\n",
    "GET /none HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: x.example\r\nUser-Agent: a b\r\nConnection: close\r\n\r\n",
    "POST /form HTTP/1.1\r\nHost: x.example\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    "GET / HTTP/1.1\r\nHost: x.example\r\nAuthorization: Basic amFuZTpzZWNyZXQ=\r\nConnection: close\r\n\r\n",
    "GET /%22x%22 HTTP/1.0\r\n\r\n",
];

/// The lines without their dates.
fn dateless(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let without = |line: &str| {
        let (before, rest) = line.split_once(" [")?;
        let (date, after) = rest.split_once("] ")?;
        assert!(date.len() == "29/Nov/2026:04:22:19 +0000".len(), "{line}");
        Some(format!("{before} [] {after}"))
    };
    text.lines().map(|line| without(line).unwrap_or_else(|| panic!("no date: {line}"))).collect()
}

#[test]
fn combined_lines_are_those_of_nginx() {
    let folder = Folder::new();
    let ours = folder.0.join("ours.log");
    let log = format!(" log file@{} local0\n option httplog combined\n", ours.display());
    let (front, front_of_nginx) = (free_address(), free_address());
    let _edge = Edge::start_single(&site(front, &log));
    let lines = "location = /none { return 404 nothing; } location / { return 200 hello; }";
    let Some(nginx) = nginx_with(front_of_nginx, "", lines) else { return };
    let theirs = nginx.folder().join("access.log");
    for request in REQUESTS {
        for address in [front, front_of_nginx] {
            let mut client = Wire::connect(address);
            client.send(request);
            client.read_to_end();
        }
    }
    wait_until("all lines are there", || dateless(&ours).len() >= 6 && dateless(&theirs).len() >= 6);
    // NOTE: whether nginx listens was asked without a request.
    assert_eq!(dateless(&ours), dateless(&theirs));
}

#[test]
fn common_and_json_say_the_same_and_json_is_json() {
    let folder = Folder::new();
    for format in ["common", "json"] {
        let path = folder.0.join(format);
        let log = format!(" log file@{} local0\n option httplog {format}\n", path.display());
        let front = free_address();
        let _edge = Edge::start_single(&site(front, &log));
        let evil =
            "GET /\"\\x HTTP/1.1\r\nHost: x\r\nUser-Agent: \"quoted\" \\ and \u{fc}\r\nConnection: close\r\n\r\n";
        for request in REQUESTS.into_iter().chain([evil]) {
            let mut client = Wire::connect(front);
            client.send(request);
            client.read_to_end();
        }
        wait_until("all lines are there", || fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 7));
        let text = fs::read_to_string(&path).unwrap();
        if format == "common" {
            assert_eq!(dateless(&path)[0], "127.0.0.1 - - [] \"GET /a?b=c HTTP/1.1\" 200 5");
            assert_eq!(dateless(&path)[4], "127.0.0.1 - jane [] \"GET / HTTP/1.1\" 200 5");
            continue;
        }
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["uri"], "/a?b=c");
        assert_eq!(lines[0]["referer"], "https://a.example/x");
        assert_eq!((&lines[1]["status"], &lines[1]["bytes"]), (&404.into(), &7.into()));
        assert_eq!((&lines[1]["user_agent"], &lines[1]["user"]), (&"".into(), &"".into()));
        assert_eq!(lines[4]["user"], "jane");
        let time = lines[0]["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        let agent = lines[6]["user_agent"].as_str().unwrap();
        assert!(agent.starts_with("\"quoted\" \\ and "), "{agent}");
    }
}

#[test]
fn rotation_loses_no_line() {
    let folder = Folder::new();
    let (path, first, second) = (folder.0.join("a.log"), folder.0.join("a.log.1"), folder.0.join("a.log.2"));
    let log = format!(" log file@{} local0\n option httplog common\n", path.display());
    let front = free_address();
    let edge = Edge::start(&site(front, &log));
    let mut asked = 0;
    let mut ask = |count: usize| {
        for _ in 0..count {
            asked += 1;
            assert_eq!(Wire::connect(front).get(&format!("/{asked}")).status(), 200);
        }
    };
    ask(10);
    wait_until("lines are written", || path.exists() && dateless(&path).len() == 10);
    fs::rename(&path, &first).unwrap();
    wait_until("the writer sees that the file was moved", || {
        ask(1);
        path.exists()
    });
    fs::rename(&path, &second).unwrap();
    edge.signal(Signal::HUP);
    wait_until("a reload opens it at once", || path.exists());
    ask(5);
    let lines = || [&path, &first, &second].map(|path| fs::read_to_string(path).unwrap_or_default()).concat();
    wait_until("every line is somewhere", || lines().lines().count() == asked);
    for number in 1..=asked {
        assert!(lines().contains(&format!("\"GET /{number} HTTP/1.1\"")), "{number}");
    }
}
