//! Answers that break the rules of HTTP/1: refused as a rule, and put in order for servers with `accept-legacy-http-response`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Edge, Origin, Wire, free_address};

/// Answers, how they come to the client with the switch, and whether the server's connection is used again.
const ANSWERS: &[(&str, &str, bool)] = &[
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        true,
    ),
    ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", true),
    (
        "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nx-a: b c\r\ncontent-length: 5\r\n\r\nhello",
        true,
    ),
    ("HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", true),
    (
        "HTTP/1.1 99 Odd\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 99 Odd\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        false,
    ),
    (
        "HTTP/1.1 1000 Odd\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 1000 Odd\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        false,
    ),
];

/// What no switch lets pass: it is not sure where such answers end, or what they are.
const NEVER: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\nhello",
    "HTTP/1.1 200 OK\nX-A: b\rc\nContent-Length: 5\n\nhello",
    "HTTP/1.1 200 OK\n Content-Length: 5\n\nhello",
    "hello\n\n",
];

/// Gives the answer that a path names by its number.
fn origin(answers: Vec<String>) -> Origin {
    Origin::start(move |mut wire, _| {
        while let Some(request) = wire.request() {
            let number: usize = request.start_line().split(' ').nth(1).unwrap()[1..].parse().unwrap();
            if !wire.try_send(&answers[number]) {
                return;
            }
        }
    })
}

fn config(front: SocketAddr, server: SocketAddr, word: &str) -> String {
    format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 2s\n\
         listen site\n bind {front}\n http-reuse always\n server s1 {server} {word}\n"
    )
}

fn get(front: SocketAddr, number: usize) -> String {
    let mut client = Wire::connect(front);
    client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let head = client.head().unwrap();
    if head.starts_with("HTTP/1.1 502") {
        return "502".to_owned();
    }
    let body = if head.contains("chunked") { "5\r\nhello\r\n0\r\n\r\n" } else { "hello" };
    client.expect(body);
    if head.contains("connection: close") {
        client.expect_end();
    }
    format!("{head}{body}")
}

#[test]
fn legacy_answers_are_refused_unless_the_server_may_give_them() {
    let all: Vec<String> =
        ANSWERS.iter().map(|(answer, ..)| *answer).chain(NEVER.iter().copied()).map(str::to_owned).collect();
    for word in ["", "accept-legacy-http-response no-accept-legacy-http-response"] {
        let (origin, front) = (origin(all.clone()), free_address());
        let _edge = Edge::start_single(&config(front, origin.address, word));
        for (number, answer) in all.iter().enumerate() {
            assert_eq!(get(front, number), "502", "{answer:?} {word}");
        }
    }
}

#[test]
fn with_the_switch_they_are_put_in_order() {
    for (number, (answer, expected, is_kept)) in ANSWERS.iter().enumerate() {
        let all = ANSWERS.iter().map(|(answer, ..)| (*answer).to_owned()).collect();
        let (origin, front) = (origin(all), free_address());
        let _edge = Edge::start_single(&config(front, origin.address, "accept-legacy-http-response"));
        for _ in 0..2 {
            assert_eq!(get(front, number), *expected, "{answer:?}");
        }
        assert_eq!(origin.connections(), if *is_kept { 1 } else { 2 }, "{answer:?}");
    }
}

#[test]
fn what_leaves_a_doubt_never_passes() {
    let (origin, front) = (origin(NEVER.iter().map(|answer| (*answer).to_owned()).collect()), free_address());
    let edge = Edge::start_single(&config(front, origin.address, "accept-legacy-http-response"));
    for (number, answer) in NEVER.iter().enumerate() {
        assert_eq!(get(front, number), "502", "{answer:?}");
    }
    drop(edge);
}

/// Debian's HAProxy lets all of these pass, so whoever has such a server finds the switch.
#[test]
fn haproxy_passes_the_same_bodies() {
    let all: Vec<String> = ANSWERS.iter().map(|(answer, ..)| (*answer).to_owned()).collect();
    let (origin, front) = (origin(all), free_address());
    let Some(_edge) = Edge::start_haproxy(&config(front, origin.address, "")) else { return };
    for (number, (answer, ..)) in ANSWERS.iter().enumerate() {
        let mut client = Wire::connect(front);
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let head = client.head().unwrap();
        assert!(!head.starts_with("HTTP/1.1 502"), "{answer:?}");
    }
}
