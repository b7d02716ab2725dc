//! Client connections that are silent for so long that they have no task: see `parking` in the edge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, Origin, Wire, free_address, wait_until};

/// Longer than a silent connection keeps its task.
const SILENCE: Duration = Duration::from_millis(1_500);

fn edge(lines: &str, server: SocketAddr) -> (Edge, SocketAddr) {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "global\n nbthread 1\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 60s\n \
         timeout server 5s\n timeout connect 1s\n{lines}\nlisten site\n bind {front}\n server s1 {server}\n"
    ));
    (edge, front)
}

fn connections(edge: &Edge) -> usize {
    edge.command("show sess idle").lines().filter(|line| line.contains("fe=site")).count()
}

#[test]
fn silent_clients_are_served_when_they_speak_again() {
    let origin = Origin::named("hello");
    let (_edge, front) = edge("", origin.address);
    let mut clients: Vec<Wire> = (0..20).map(|_| Wire::connect(front)).collect();
    let mut silent = Wire::connect(front);
    for _ in 0..2 {
        for client in &mut clients {
            assert_eq!(client.get("/").text(), "hello");
        }
        thread::sleep(SILENCE);
    }
    assert_eq!(silent.get("/").text(), "hello", "one that has never spoken too");
    // Two requests at once after a silence, and half of one.
    let client = &mut clients[0];
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHo");
    assert_eq!(client.answer().text(), "hello");
    thread::sleep(SILENCE);
    client.send("st: a\r\n\r\n");
    assert_eq!(client.answer().text(), "hello");
}

#[test]
fn silent_clients_end_with_their_timeout_or_when_they_leave() {
    let origin = Origin::named("hello");
    let (edge, front) = edge(" timeout http-keep-alive 2500ms", origin.address);
    let mut late = Wire::connect(front);
    assert_eq!(late.get("/").text(), "hello");
    let mut leaving = Wire::connect(front);
    assert_eq!(leaving.get("/").text(), "hello");
    thread::sleep(SILENCE);
    assert_eq!(connections(&edge), 2);
    drop(leaving);
    wait_until("the one that left is gone", || connections(&edge) < 2);
    late.expect_end();
    wait_until("nobody is left", || connections(&edge) == 0);
}

#[test]
fn silent_clients_hold_up_no_stop_and_can_be_shut_down() {
    let origin = Origin::named("hello");
    let (mut edge, front) = edge("", origin.address);
    let mut clients: Vec<Wire> = (0..3).map(|_| Wire::connect(front)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "hello");
    }
    thread::sleep(SILENCE);
    let sessions = edge.command("show sess idle");
    let first = sessions.split_whitespace().next().unwrap().trim_end_matches(':').to_string();
    edge.command(&format!("shutdown session {first}"));
    wait_until("one of them is shut down", || connections(&edge) == 2);
    edge.signal(rustix::process::Signal::USR1);
    assert_eq!(edge.wait_end(), 0);
}
