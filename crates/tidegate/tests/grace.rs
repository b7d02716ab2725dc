//! `grace` and `stats maxconn`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use rustix::process::Signal;
use support::{Edge, Folder, Origin, Wire, free_address, wait_until};

#[test]
fn connections_are_still_accepted_for_a_while() {
    for master in [false, true] {
        let (origin, front) = (Origin::named("hello"), free_address());
        let config = format!(
            "global\n nbthread 1\n grace 2s\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n server s1 {}\n",
            origin.address
        );
        let mut edge = if master { Edge::start(&config) } else { Edge::start_single(&config) };
        edge.signal(Signal::USR1);
        edge.wait_output("Ending when all connections have");
        assert_eq!(Wire::connect(front).get("/").text(), "hello");
        assert_eq!(edge.wait_end(), 0);
        wait_until("nobody listens any more", || !support::listens(front));
    }
}

#[test]
fn commands_beyond_the_limit_wait() {
    let (folder, front) = (Folder::new(), free_address());
    let socket = folder.0.join("socket");
    let _edge = Edge::start_single(&format!(
        "global\n nbthread 1\n stats socket {} level admin\n stats maxconn 1\ndefaults\n mode http\n timeout client 5s\nfrontend site\n bind {front}\n",
        socket.display()
    ));
    let connect = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"prompt\n").unwrap();
        stream
    };
    let mut byte = [0];
    let mut first = connect();
    first.read_exact(&mut byte).unwrap();
    let mut second = connect();
    second.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(second.read_exact(&mut byte).is_err(), "the first one is still there");
    drop(first);
    second.set_read_timeout(Some(support::PATIENCE)).unwrap();
    second.read_exact(&mut byte).unwrap();
}

/// An answer that its reader takes slowly is given whole, although nothing else keeps the process.
#[test]
fn who_has_asked_is_answered_before_the_end() {
    let front = free_address();
    let backends: String =
        (0..1_000).map(|number| format!("backend number-{number}\n server s1 127.0.0.1:1\n")).collect();
    let mut edge = Edge::start_single(&format!(
        "global\n nbthread 1\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nfrontend site\n bind {front}\n{backends}"
    ));
    let connect = || {
        let stream = UnixStream::connect(edge.folder.0.join("stats")).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        stream
    };
    let (mut silent, mut asking) = (connect(), connect());
    silent.write_all(b"prompt\n").unwrap();
    let mut byte = [0];
    silent.read_exact(&mut byte).unwrap();
    asking.write_all(b"show stat\n").unwrap();
    asking.read_exact(&mut byte).unwrap();
    edge.signal(Signal::USR1);
    edge.wait_output("Ending when all connections have");
    // Who says nothing any more is let go.
    silent.read_to_end(&mut Vec::new()).unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("number-999,BACKEND"), "{} bytes", answer.len());
    assert_eq!(edge.wait_end(), 0);
}
