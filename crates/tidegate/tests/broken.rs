//! Connections that break rather than end: who is told, and what the log says of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{io::Read as _, net::SocketAddr, sync::mpsc, thread, time::Duration};

use support::{Edge, LogServer, Origin, Wire, beside_haproxy, free_address, server_and_end};

/// Ends the connection with a reset.
fn break_off(wire: Wire) {
    rustix::net::sockopt::set_socket_linger(&wire.stream, Some(Duration::ZERO)).unwrap();
    drop(wire);
}

/// Long enough for what was sent to be there, and to be dealt with.
fn a_moment() {
    thread::sleep(Duration::from_millis(80));
}

fn tcp(server: SocketAddr, lines: &'static str) -> impl Fn(SocketAddr) -> String {
    move |front| format!("listen site\n mode tcp\n option tcplog\n bind {front}\n{lines} server s1 {server}\n")
}

/// An end of stream would mean to the server that it has got everything.
#[test]
fn a_server_is_told_that_its_client_broke_off() {
    let (ends, told) = mpsc::channel();
    let origin = Origin::start(move |mut wire, _| {
        wire.expect("a part");
        let _ = ends.send(wire.stream.read(&mut [0; 8]).map_err(|error| error.kind()));
    });
    let told = beside_haproxy(tcp(origin.address, ""), |scene| {
        let mut client = Wire::connect(scene.front);
        client.send("a part");
        a_moment();
        break_off(client);
        let end = told.recv_timeout(support::PATIENCE).unwrap();
        vec![format!("{end:?}"), server_and_end(&scene.log.line())]
    });
    assert_eq!(told, ["Err(ConnectionReset)", "site/s1 CD"]);
}

/// Nobody reads from a side that has ended, so what becomes of it later has to be noticed otherwise. HAProxy goes on until a
/// timeout.
#[test]
fn a_side_that_breaks_after_its_end_ends_the_tunnel() {
    let play = |origin: &Origin, play: fn(Wire) -> Option<Wire>| {
        let (log, front) = (LogServer::start(), free_address());
        let section = tcp(origin.address, "")(front);
        let _edge = Edge::start_single(&format!(
            "global\n log {} local0\ndefaults\n log global\n timeout client 60s\n timeout server 60s\n timeout connect 1s\n{section}",
            log.address
        ));
        let _open = play(Wire::connect(front));
        server_and_end(&log.line())
    };
    let silent = Origin::start(|mut wire, _| {
        wire.read_to_end();
        thread::sleep(support::PATIENCE);
    });
    let ends_and_breaks_off = |mut client: Wire| {
        client.send("x");
        client.shut_write();
        a_moment();
        break_off(client);
        None
    };
    assert_eq!(play(&silent, ends_and_breaks_off), "site/s1 CD");
    let leaving = Origin::start(|wire, _| {
        wire.shut_write();
        a_moment();
        break_off(wire);
    });
    let stays = |mut client: Wire| {
        client.expect_end();
        Some(client)
    };
    assert_eq!(play(&leaving, stays), "site/s1 SD");
}

/// Who breaks off a request within its body waits for no answer, though it has begun.
#[test]
fn a_body_that_breaks_off_while_it_is_answered_ends_both_sides() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        wire.read_to_end();
    });
    let server = origin.address;
    let section = |front| {
        format!(
            "listen site\n mode http\n bind {front}\n timeout server 2s\n log-format \"%s %ST %ts %B\"\n server s1 {server}\n"
        )
    };
    for by_reset in [true, false] {
        let told = beside_haproxy(section, |scene| {
            let mut client = Wire::connect(scene.front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
            client.head();
            client.expect("half");
            if by_reset {
                break_off(client);
            } else {
                client.shut_write();
                client.expect_end();
            }
            vec![scene.log.line()]
        });
        assert_eq!(told, ["s1 200 CD 54"]);
    }
}

#[test]
fn a_client_that_breaks_off_while_rules_wait_is_to_blame() {
    let origin = Origin::start(|mut wire, _| {
        wire.send("x");
        wire.read_to_end();
    });
    for (rules, expected) in [
        (" tcp-request inspect-delay 5s\n tcp-request content reject if { req.len gt 0 }\n", "site/<NOSRV> CR"),
        (" tcp-response inspect-delay 5s\n tcp-response content accept if { res.len gt 9 }\n", "site/s1 CD"),
    ] {
        let told = beside_haproxy(tcp(origin.address, rules), |scene| {
            let client = Wire::connect(scene.front);
            a_moment();
            break_off(client);
            vec![server_and_end(&scene.log.line())]
        });
        assert_eq!(told, [expected]);
    }
}
