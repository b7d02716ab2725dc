//! Why something was not cached: `tidegate log` says it of each request.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::process::Command;

use support::{Edge, Origin, Wire, free_address, ok, wait_until};

fn origin() -> Origin {
    Origin::answering(|request| {
        let fields = match request.start_line().split(' ').nth(1).unwrap() {
            "/cookie" => "set-cookie: a=b\r\n",
            "/private" => "cache-control: private\r\n",
            "/never" => "cache-control: max-age=0\r\n",
            _ => "cache-control: max-age=60\r\n",
        };
        let answer = String::from_utf8(ok("hello")).unwrap();
        answer.replacen("\r\n", &format!("\r\n{fields}"), 1).into_bytes()
    })
}

fn lines(edge: &Edge, arguments: &[&str]) -> Vec<String> {
    let pid = edge.pid().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["log", "--pid", &pid, "-d", "--no-wait"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[track_caller]
fn check(cache: &str, requests: &[(&str, &str, &str)]) {
    let (origin, front) = (origin(), free_address());
    let edge = Edge::start_single(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         frontend site\n bind {front}\n {cache}\n default_backend app\nbackend app\n server s1 {}\n",
        origin.address
    ));
    for (line, fields, _) in requests {
        Wire::connect(front).ask(format!("{line} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    }
    wait_until("all are in the log", || lines(&edge, &[]).len() >= requests.len());
    for (line, (request, fields, expected)) in lines(&edge, &[]).iter().zip(requests) {
        assert!(line.contains(&format!("\"{request}\"")) && line.contains(expected), "{request} {fields}: {line}");
    }
    let missed = lines(&edge, &["-q", "Cache ~ miss", "--json"]);
    assert!(missed.iter().all(|line| line.contains("\"cache\":")) && !missed.is_empty(), "{missed:?}");
}

#[test]
fn a_program_says_what_became_of_each_request() {
    check(
        "vcl builtin",
        &[
            ("GET /a", "", "(miss, stored)"),
            ("GET /a", "", "(hit)"),
            ("GET /a", "cookie: a=b\r\n", "(pass, passed in vcl_recv; the request has a Cookie)"),
            ("GET /a", "authorization: Basic eA==\r\n", "(pass, passed in vcl_recv; the request has Authorization)"),
            ("POST /a", "content-length: 0\r\n", "(pass, the method is neither GET nor HEAD)"),
            ("GET /cookie", "", "(miss, not stored: the response sets a cookie)"),
            ("GET /cookie", "", "(miss, not stored: the response sets a cookie)"),
            ("GET /private", "", "(miss, not stored: Cache-Control says private)"),
        ],
    );
}

#[test]
fn a_cache_without_a_program_says_it_as_to_the_client() {
    check(
        "shared-cache",
        &[
            ("GET /a", "", "(fwd=miss; stored)"),
            ("GET /a", "", "(hit; ttl="),
            ("GET /private", "", "(fwd=miss; detail=\"the response is private\")"),
            ("POST /a", "content-length: 0\r\n", "(fwd=method)"),
        ],
    );
}
