//! Connections to servers: when they are shared, and what happens when one has gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Edge, Origin, Wire, free_address, ok, wait_until};

#[track_caller]
fn edge(lines: &str, server: SocketAddr) -> (Edge, SocketAddr) {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n {lines}\n server s1 {server}\n"
    ));
    (edge, front)
}

/// Connections that a server sees from three clients one after the other, each asking three times.
#[track_caller]
fn connections_with(policy: &str) -> usize {
    let origin = Origin::named("hello");
    let (_edge, front) = edge(&format!("http-reuse {policy}"), origin.address);
    for _ in 0..3 {
        let mut client = Wire::connect(front);
        for _ in 0..3 {
            assert_eq!(client.get("/").text(), "hello");
        }
    }
    origin.connections()
}

#[test]
fn policies_share_connections_as_they_say() {
    assert_eq!(connections_with("never"), 3);
    assert_eq!(connections_with("safe"), 3);
    assert_eq!(connections_with("aggressive"), 1);
    assert_eq!(connections_with("always"), 1);
}

/// A server that closes its first connection instead of answering the second request on it.
fn forgetful() -> Origin {
    Origin::start(|mut wire, number| {
        let mut served = 0;
        while wire.request().is_some() {
            if number == 0 && served == 1 {
                return;
            }
            wire.send(ok("hello"));
            served += 1;
        }
    })
}

#[test]
fn a_get_is_sent_again_when_its_reused_connection_closes() {
    let origin = forgetful();
    let (_edge, front) = edge("http-reuse always", origin.address);
    let mut client = Wire::connect(front);
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_post_is_not_sent_twice() {
    let origin = forgetful();
    let (_edge, front) = edge("http-reuse always", origin.address);
    let mut client = Wire::connect(front);
    assert_eq!(client.get("/").text(), "hello");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    let answer = client.answer_to(false);
    assert!(answer.is_none_or(|answer| answer.status() == 502));
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_idle_connection_that_its_server_closed_is_not_used() {
    let origin = Origin::start(|mut wire, _| {
        wire.request();
        wire.send(ok("once"));
    });
    let (_edge, front) = edge("http-reuse always", origin.address);
    let mut client = Wire::connect(front);
    for number in 1..4 {
        // A POST cannot be sent again, so a stale connection would show.
        let answer = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(answer.text(), "once");
        assert_eq!(origin.connections(), number);
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

#[test]
fn http_server_close_opens_a_connection_for_each_request() {
    let origin = Origin::named("hello");
    let (_edge, front) = edge("option http-server-close", origin.address);
    let mut client = Wire::connect(front);
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "hello");
    }
    wait_until("each had its own", || origin.connections() == 3);
}
