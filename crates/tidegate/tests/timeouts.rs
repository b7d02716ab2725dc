//! Slow clients and slow servers are cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, LogServer, Origin, Wire, free_address, ok};

/// An edge with these lines and a log server.
#[track_caller]
fn edge(lines: &str, server: SocketAddr) -> (Edge, LogServer, SocketAddr) {
    let (log, front) = (LogServer::start(), free_address());
    let edge = Edge::start_single(&format!(
        "global\n nbthread 1\n log {} local0\ndefaults\n log global\n mode http\n option httplog\n timeout client 8s\n timeout server 8s\n timeout connect 2s\nlisten site\n bind {front}\n {lines}\n server s1 {server}\n",
        log.address
    ));
    (edge, log, front)
}

#[test]
fn a_request_byte_by_byte_is_cut_all_the_same() {
    let origin = Origin::named("hello");
    let (_edge, log, front) = edge("timeout http-request 300ms", origin.address);
    let mut client = Wire::connect(front);
    let mut slow = Wire::new(client.stream.try_clone().unwrap());
    let trickle = thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ".iter().chain(&[b'x'; 400]) {
            if !slow.try_send([*byte]) {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    });
    assert_eq!(client.answer().status(), 408);
    assert!(trickle.join().unwrap(), "the connection was cut");
    assert!(log.line().contains(" 408 "));
    assert_eq!(origin.connections(), 0);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = Origin::named("hello");
    let (_edge, log, front) = edge("timeout http-keep-alive 200ms", origin.address);
    let mut client = Wire::connect(front);
    client.get("/");
    log.line();
    client.expect_end();
    assert_eq!(log.lines_so_far(), Vec::<String>::new());
}

#[test]
fn a_slow_body_of_a_client_is_cut_by_the_time_of_the_server() {
    let origin = Origin::named("hello");
    let (_edge, log, front) = edge("timeout server 300ms", origin.address);
    let mut client = Wire::connect(front);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
    assert_eq!(client.answer().status(), 504);
    let line = log.line();
    assert!(line.contains(" sH-- "), "{line}");
}

#[test]
fn a_silent_server_is_504_and_a_server_that_stops_midway_ends_the_answer() {
    let origin = Origin::start(|mut wire, number| {
        wire.head();
        if number == 1 {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        }
        let _ = wire.read_to_end();
    });
    let (_edge, log, front) = edge("timeout server 300ms", origin.address);
    assert_eq!(Wire::connect(front).get("/").status(), 504);
    assert!(log.line().contains(" 504 "));
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(client.read_to_end(), b"half");
    let line = log.line();
    assert!(line.contains(" sD-- "), "{line}");
}

#[test]
fn a_server_that_accepts_nothing_is_a_connect_timeout() {
    // A full backlog of one drops every further SYN.
    let address = free_address();
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let _fill: Vec<_> =
        (0..3).map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100))).collect();
    let (_edge, log, front) = edge("timeout connect 200ms\n retries 0", address);
    assert_eq!(Wire::connect(front).get("/").status(), 503);
    let line = log.line();
    assert!(line.contains(" sC-- "), "{line}");
}

#[test]
fn a_silent_tunnel_ends() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        let _ = wire.read_to_end();
    });
    let (_edge, _log, front) = edge("timeout tunnel 300ms", origin.address);
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert!(client.head().unwrap().starts_with("HTTP/1.1 101"));
    client.expect_end();
}

#[test]
fn a_client_that_leaves_early_ends_its_request() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        thread::sleep(Duration::from_millis(400));
        wire.try_send(ok("late"));
    });
    let (_edge, log, front) = edge("option abortonclose", origin.address);
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    thread::sleep(Duration::from_millis(100));
    drop(client);
    let line = log.line();
    assert!(line.contains(" CH-- "), "{line}");
}
