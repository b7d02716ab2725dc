//! Connections of which one half is closed, and sessions that a change of their server's state ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, LogServer, Origin, Scene, Wire, beside_haproxy, free_address, server_and_end, wait_until};

/// Longer than any test: who holds a connection so long does not end it.
const FOR_EVER: Duration = Duration::from_secs(100);

/// A server that takes everything, and after the client's end neither says nor ends anything.
fn silent() -> Origin {
    Origin::start(|mut wire, _| {
        wire.read_to_end();
        thread::sleep(FOR_EVER);
    })
}

/// A server that sends back what it gets.
fn echoing() -> Origin {
    Origin::start(|mut wire, _| {
        while wire.fill() > 0 {
            let bytes = std::mem::take(&mut wire.buffer);
            if !wire.try_send(bytes) {
                break;
            }
        }
    })
}

/// A server that says something, ends its half, and waits for the other one's end.
fn leaving() -> Origin {
    Origin::start(|mut wire, _| {
        wire.send("bye");
        wire.shut_write();
        wire.read_to_end();
    })
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

fn tcp(server: SocketAddr, lines: &'static str) -> impl Fn(SocketAddr) -> String {
    move |front| format!("listen site\n mode tcp\n option tcplog\n bind {front}\n{lines} server s1 {server}\n")
}

fn http(server: SocketAddr, lines: &'static str) -> impl Fn(SocketAddr) -> String {
    move |front| format!("listen site\n mode http\n option httplog\n bind {front}\n{lines} server s1 {server}\n")
}

/// What is sent to who asks nothing that can be read, to the byte.
#[test]
fn what_is_no_request_is_answered_in_haproxys_words() {
    let origin = silent();
    let told = beside_haproxy(http(origin.address, " timeout client 300ms\n"), |scene| {
        let asked =
            ["BAD\r\n\r\n", "GET /\r\n", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "GET / HT", ""];
        let said = asked.iter().flat_map(|request| [false, true].map(|ends| (request, ends)));
        let said = said.map(|(request, ends)| {
            let mut client = Wire::connect(scene.front);
            client.send(request);
            if ends {
                client.shut_write();
            }
            String::from_utf8(client.read_to_end()).unwrap()
        });
        said.collect()
    });
    assert_eq!(told.len(), 10);
    assert!(
        told[..6].iter().all(|answer| answer.starts_with("HTTP/1.1 400 Bad request\r\nContent-length: 90\r\n")),
        "{told:?}"
    );
}

#[test]
fn a_server_that_goes_on_after_the_client_has_ended_is_cut() {
    let origin = silent();
    let told = beside_haproxy(tcp(origin.address, " timeout server-fin 200ms\n"), |scene| {
        let mut client = Wire::connect(scene.front);
        client.send("x");
        client.shut_write();
        client.expect_end();
        vec![server_and_end(&scene.log.line())]
    });
    assert_eq!(told, ["site/s1 sD"]);
}

/// Who has ended has nothing more to say: its own timeouts do not cut off the other one.
#[test]
fn an_answer_that_comes_late_reaches_a_client_that_has_ended() {
    let late = Origin::start(|mut wire, _| {
        wire.read_to_end();
        thread::sleep(Duration::from_millis(600));
        wire.send("late");
    });
    for lines in [
        " timeout client-fin 200ms\n timeout server-fin 5s\n",
        " timeout client-fin 200ms\n",
        " timeout client 200ms\n timeout server-fin 5s\n",
    ] {
        let told = beside_haproxy(tcp(late.address, lines), |scene| {
            let mut client = Wire::connect(scene.front);
            client.send("x");
            client.shut_write();
            vec![String::from_utf8(client.read_to_end()).unwrap(), server_and_end(&scene.log.line())]
        });
        assert_eq!(told, ["late", "site/s1 --"], "{lines}");
    }
}

/// The same the other way round: what a client still sends reaches a server that has ended.
#[test]
fn a_client_may_go_on_after_the_server_has_ended() {
    let leaving = leaving();
    let told = beside_haproxy(tcp(leaving.address, " timeout server-fin 200ms\n timeout client-fin 5s\n"), |scene| {
        let mut client = Wire::connect(scene.front);
        client.expect("bye");
        client.expect_end();
        thread::sleep(Duration::from_millis(600));
        client.send("later");
        client.shut_write();
        vec![server_and_end(&scene.log.line())]
    });
    assert_eq!(told, ["site/s1 --"]);
}

#[test]
fn a_client_that_goes_on_after_the_server_has_ended_is_cut() {
    let origin = leaving();
    let told = beside_haproxy(tcp(origin.address, " timeout client-fin 200ms\n"), |scene| {
        let mut client = Wire::connect(scene.front);
        client.expect("bye");
        client.expect_end();
        vec![server_and_end(&scene.log.line())]
    });
    assert_eq!(told, ["site/s1 cD"]);
}

#[test]
fn tunnels_of_http_are_cut_in_the_same_way() {
    let silent = Origin::start(|mut wire, _| {
        wire.head();
        wire.send(SWITCHING);
        wire.read_to_end();
        thread::sleep(FOR_EVER);
    });
    let lines = " timeout tunnel 60s\n timeout server-fin 200ms\n timeout client-fin 60s\n";
    let told = beside_haproxy(http(silent.address, lines), |scene| {
        let mut client = Wire::connect(scene.front);
        client.send(UPGRADE);
        assert!(client.head().unwrap().starts_with("HTTP/1.1 101"));
        client.shut_write();
        client.expect_end();
        vec![server_and_end(&scene.log.line())]
    });
    assert_eq!(told, ["site/s1 sD"]);
    let leaving = Origin::start(|mut wire, _| {
        wire.head();
        wire.send(SWITCHING);
        wire.send("bye");
        wire.shut_write();
        wire.read_to_end();
    });
    // HAProxy ends both halves at once when the server ends its own, so there is nothing to compare.
    let front = free_address();
    let log = LogServer::start();
    let _edge = Edge::start_single(&format!(
        "global\n log {} local0\ndefaults\n log global\n timeout client 60s\n timeout server 60s\n timeout connect 2s\n timeout tunnel 60s\n timeout server-fin 60s\n timeout client-fin 200ms\n{}",
        log.address,
        http(leaving.address, "")(front)
    ));
    let mut client = Wire::connect(front);
    client.send(UPGRADE);
    assert!(client.head().unwrap().starts_with("HTTP/1.1 101"));
    client.expect("bye");
    client.expect_end();
    assert_eq!(server_and_end(&log.line()), "site/s1 cD");
}

/// Waits until the log says so of the server.
fn wait_state(scene: &Scene, state: &str) {
    scene.log.line_with(&format!("Server site/s1 is {state}"));
}

/// What answers the checks from now on, once they have seen it.
#[must_use]
fn come_up(scene: &Scene, address: SocketAddr) -> Origin {
    wait_state(scene, "DOWN");
    let checked = Origin::start_at(address, |_, _| {});
    wait_state(scene, "UP");
    checked
}

#[test]
fn sessions_of_a_server_that_goes_down_are_shut_where_that_is_asked_for() {
    for (word, ends) in [(" on-marked-down shutdown-sessions", true), ("", false)] {
        let origin = echoing();
        let checked_at = free_address();
        let port = checked_at.port();
        let server = origin.address;
        let told = beside_haproxy(
            |front| {
                format!(
                    "listen site\n mode tcp\n option tcplog\n bind {front}\n timeout check 5s\n server s1 {server} check port {port} inter 100ms fall 1 rise 1{word}\n"
                )
            },
            |scene| {
                let checked = come_up(scene, checked_at);
                let mut client = Wire::connect(scene.front);
                client.send("hello");
                client.expect("hello");
                drop(checked);
                if !ends {
                    wait_state(scene, "DOWN");
                    client.send("still");
                    client.expect("still");
                    drop(client);
                } else {
                    client.expect_end();
                }
                vec![server_and_end(&scene.log.line_with("site site/"))]
            },
        );
        assert_eq!(told, [if ends { "site/s1 D-" } else { "site/s1 --" }]);
    }
}

#[test]
fn a_request_whose_server_goes_down_is_answered_as_haproxy_does() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        thread::sleep(FOR_EVER);
    });
    let checked_at = free_address();
    let (server, port) = (origin.address, checked_at.port());
    beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n option httplog\n bind {front}\n timeout check 5s\n server s1 {server} check port {port} inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions\n"
            )
        },
        |scene| {
            let checked = come_up(scene, checked_at);
            let asked = origin.connections();
            let mut client = Wire::connect(scene.front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            wait_until("the server has the request", || origin.connections() > asked);
            drop(checked);
            vec![client.answer().start_line().to_owned(), server_and_end(&scene.log.line_with("site site/"))]
        },
    );
}

/// With `retry-on` it goes to another server instead.
#[test]
fn a_request_whose_server_goes_down_is_sent_to_another_one() {
    let first = Origin::start(|mut wire, _| {
        wire.head();
        thread::sleep(FOR_EVER);
    });
    let backup = Origin::named("backup");
    let checked_at = free_address();
    let (server, other, port) = (first.address, backup.address, checked_at.port());
    for (retry, expected) in [
        ("all-retryable-errors", "HTTP/1.1 200 OK site/b1 --"),
        ("empty-response", "HTTP/1.1 200 OK site/b1 --"),
        ("conn-failure response-timeout 502", "HTTP/1.1 502 Bad Gateway site/s1 DH"),
    ] {
        let told = beside_haproxy(
            |front| {
                format!(
                    "listen site\n mode http\n option httplog\n bind {front}\n timeout check 5s\n option redispatch\n retry-on {retry}\n server s1 {server} check port {port} inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions\n server b1 {other} backup\n"
                )
            },
            |scene| {
                let checked = come_up(scene, checked_at);
                let asked = first.connections();
                let mut client = Wire::connect(scene.front);
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                wait_until("the server has the request", || first.connections() > asked);
                drop(checked);
                let answer = client.answer().start_line().to_owned();
                drop(client);
                vec![format!("{answer} {}", server_and_end(&scene.log.line_with("site site/")))]
            },
        );
        assert_eq!(told, [expected], "{retry}");
    }
}

#[test]
fn sessions_that_began_before_a_reload_are_shut_as_well() {
    let origin = echoing();
    let (front, log, checked_at) = (free_address(), LogServer::start(), free_address());
    let section = |round: u32| {
        format!(
            "global\n log {} local0\ndefaults\n log global\n timeout client 60s\n timeout server 60s\n timeout connect 2s\n# {round}\nlisten site\n mode tcp\n option tcplog\n bind {front}\n timeout check 5s\n server s1 {} check port {} inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions\n",
            log.address,
            origin.address,
            checked_at.port()
        )
    };
    let checked = Origin::start_at(checked_at, |_, _| {});
    let edge = Edge::start(&section(0));
    let mut client = Wire::connect(front);
    client.send("hello");
    client.expect("hello");
    edge.folder.file("haproxy.cfg", section(1));
    edge.signal(rustix::process::Signal::USR2);
    edge.wait_output("serves the new configuration");
    drop(checked);
    client.expect_end();
    assert_eq!(server_and_end(&log.line_with("site site/")), "site/s1 D-");
}

#[test]
fn sessions_of_backup_servers_are_shut_when_a_better_one_is_there_again() {
    let (origin, backup) = (Origin::named("first"), echoing());
    let checked_at = free_address();
    let (port, first, second) = (checked_at.port(), origin.address, backup.address);
    let told = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode tcp\n option tcplog\n bind {front}\n timeout check 5s\n server s1 {first} check port {port} inter 100ms fall 1 rise 1 on-marked-up shutdown-backup-sessions\n server b1 {second} backup\n"
            )
        },
        |scene| {
            wait_state(scene, "DOWN");
            let mut client = Wire::connect(scene.front);
            client.send("hello");
            client.expect("hello");
            let _checked = Origin::start_at(checked_at, |_, _| {});
            client.expect_end();
            vec![server_and_end(&scene.log.line_with("site site/"))]
        },
    );
    assert_eq!(told, ["site/b1 U-"]);
}

/// Ends the connection with a reset.
fn reset(client: &Wire) {
    rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
}

/// What a client asked before it left is done all the same, unless `option abortonclose` says otherwise.
#[test]
fn what_was_asked_is_done_although_the_client_has_left() {
    let slow = Origin::start(|mut wire, _| {
        wire.head();
        thread::sleep(Duration::from_millis(250));
        wire.try_send(support::ok("late"));
        wire.read_to_end();
    });
    let half = Origin::start(|mut wire, _| {
        wire.head();
        wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        wire.read_to_end();
    });
    const ABORT: &str = " log-format \"%s %ST %ts %B\"\n option abortonclose\n timeout server 600ms\n";
    const FINISH: &str = " log-format \"%s %ST %ts %B\"\n timeout server 600ms\n";
    let leave = |server: SocketAddr, lines: &'static str, by_reset: bool| {
        beside_haproxy(http(server, lines), move |scene| {
            let mut client = Wire::connect(scene.front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(80));
            let mut said = String::new();
            if by_reset {
                reset(&client);
                drop(client);
            } else {
                client.shut_write();
                said = client.head().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
            }
            vec![scene.log.line(), said]
        })
    };
    for (server, lines, by_reset, expected) in [
        (slow.address, FINISH, true, "s1 200 CD 53"),
        (slow.address, FINISH, false, "s1 200 -- 53"),
        (slow.address, ABORT, true, "s1 -1 CD 0"),
        (slow.address, ABORT, false, "s1 400 CH 206"),
        (half.address, ABORT, true, "s1 200 CD 54"),
        (half.address, ABORT, false, "s1 200 CD 54"),
        (half.address, FINISH, false, "s1 200 sD 54"),
    ] {
        let told = leave(server, lines, by_reset);
        assert_eq!(told[0], expected, "{lines} {by_reset}");
    }
}

/// Probes that only connect are no sessions to `option dontlognull`.
#[test]
fn sessions_in_which_the_client_says_nothing_are_not_logged() {
    let origin = leaving();
    let told = beside_haproxy(tcp(origin.address, " option dontlognull\n"), |scene| {
        for said in ["", "x"] {
            let mut client = Wire::connect(scene.front);
            client.expect("bye");
            client.send(said);
            client.shut_write();
            client.expect_end();
        }
        let line = scene.log.line();
        thread::sleep(Duration::from_millis(50));
        vec![server_and_end(&line), scene.log.lines_so_far().len().to_string()]
    });
    assert_eq!(told, ["site/s1 --", "0"]);
}

/// What came of a body is counted whatever becomes of it, and who has sent it whole may ask again.
#[test]
fn a_body_that_is_not_answered_is_counted() {
    let silent = silent();
    let refusing = free_address();
    const LINES: &str = " log-format \"%ST %ts %U\"\n timeout server 300ms\n retries 0\n";
    for (server, body, expected) in [
        (silent.address, "0123456789", "504 sH 65"),
        (silent.address, "0123", "504 sH 59"),
        (refusing, "0123456789", "503 SC 65"),
    ] {
        let told = beside_haproxy(http(server, LINES), |scene| {
            let mut client = Wire::connect(scene.front);
            let answer = client.ask(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{body}"));
            let kept = answer.field("connection").is_none() && body.len() == 10;
            vec![scene.log.line(), kept.to_string()]
        });
        assert_eq!(told[0], expected);
        assert_eq!(told[1] == "true", body.len() == 10);
    }
}
