//! `http-request use-service plugin.whoami`: a plugin answers as a server would.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::Command,
};

use support::{Edge, Folder, free_address};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

fn ask(address: &SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_plugin_is_on_the_road_of_every_answer() {
    let front = free_address();
    let log = Folder::new();
    let config = format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout connect 1s\n timeout server 5s\n \
         log file@{0}/log daemon\n option httplog\nfrontend www\n bind {front}\n http-request set-header x-by rules\n http-request \
         use-service plugin.whoami \"hello there\" if {{ path_beg /front }}\n http-response set-header x-seen yes\n default_backend b\nbackend \
         b\n compression algo gzip\n compression type text/plain\n http-request use-service plugin.whoami unless {{ path /404 }}\n http-request \
         return status 404\n",
        log.0.display()
    );
    let edge = Edge::start(&config);
    // In a frontend, with an argument; rules before and behind work.
    let told = ask(&front, "GET /front?a=b HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n") && told.contains("\r\nx-seen: yes\r\n"), "{told}");
    assert!(told.contains("hello there\nGET /front?a=b\n") && told.contains("\nx-by: rules\n"), "{told}");
    // In a backend; a body of chunks, and one that the client sends when it is asked to.
    let body = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    assert!(ask(&front, body).ends_with("\n7 bytes of a body\n"));
    let mut stream = TcpStream::connect(front).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n").unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    // The client's connection goes on.
    stream.write_all(b"GET /second HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut both = String::new();
    stream.read_to_string(&mut both).unwrap();
    assert!(both.contains("\n3 bytes of a body\n") && both.contains("\nGET /second\n"), "{both}");
    // More than it takes; HEAD; filters; the other rule.
    let large = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", 2 << 20);
    assert!(ask(&front, &(large + &"x".repeat(2 << 20))).starts_with("HTTP/1.1 413 "));
    let head = ask(&front, "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let mut stream = TcpStream::connect(front).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n").unwrap();
    let mut packed = Vec::new();
    stream.read_to_end(&mut packed).unwrap();
    assert!(String::from_utf8_lossy(&packed).contains("content-encoding: gzip"), "{packed:?}");
    assert!(ask(&front, "GET /404 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").starts_with("HTTP/1.1 404 "));
    // It is listed, and logged.
    let plugins =
        Command::new(PROGRAM).args(["ctl", "--socket"]).arg(edge.folder.0.join("stats")).arg("plugins").output();
    let plugins = String::from_utf8(plugins.unwrap().stdout).unwrap();
    assert!(plugins.contains("plugin.whoami: ") && plugins.contains(":13 hello there\n"), "{plugins}");
    let lines = || std::fs::read_to_string(log.0.join("log")).unwrap_or_default();
    support::wait_until("it is logged", || lines().contains(" b/<PLUGIN> ") && lines().contains(" www/<PLUGIN> "));
}

#[test]
fn what_is_wrong_with_a_rule_is_said_when_it_is_read() {
    let folder = Folder::new();
    for (service, expected) in [
        ("plugin.whoam", "the program has no plugin of that name; did you mean 'plugin.whoami'?"),
        ("plugin.whoami a b", "plugin.whoami: it takes one text, 'b' is one too many."),
        ("plugins.whoami", "unknown service name"),
    ] {
        let config = format!(
            "defaults\n mode http\n timeout client 5s\nfrontend f\n bind {}\n http-request use-service {service}\n",
            free_address()
        );
        let path = folder.file("haproxy.cfg", config);
        let checked = Command::new(PROGRAM).args(["edge", "-c", "-f"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && said.contains(expected) && said.contains("cfg:6]"), "{said}");
    }
}
