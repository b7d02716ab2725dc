//! Connections to servers: when they are shared, and what happens when one has gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Edge, Origin, Wire, beside_haproxy, free_address, ok, wait_until};

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

#[test]
fn a_client_keeps_connections_of_its_own_to_several_servers() {
    let origins: Vec<Origin> = (0..3).map(|_| Origin::named("hello")).collect();
    let seen = || origins.iter().map(Origin::connections).collect::<Vec<_>>();
    let connections = |limit: &'static str| {
        let told = beside_haproxy(
            |front| {
                let servers = origins.iter().enumerate().map(|(number, origin)| {
                    format!(" server s{number} {}\n use-server s{number} if {{ path /{number} }}\n", origin.address)
                });
                format!(
                    " mode http\nlisten site\n bind {front}\n http-reuse never\n {limit}\n{}",
                    servers.collect::<String>()
                )
            },
            |scene| {
                let before = seen();
                let mut client = Wire::connect(scene.front);
                for path in ["/0", "/1", "/2", "/0", "/1", "/2", "/2"] {
                    assert_eq!(client.get(path).text(), "hello");
                }
                seen().iter().zip(before).map(|(now, before)| (now - before).to_string()).collect()
            },
        );
        told.join(" ")
    };
    assert_eq!(connections(""), "1 1 1");
    assert_eq!(connections("max-session-srv-conns 2"), "1 1 3");
    assert_eq!(connections("max-session-srv-conns 0"), "2 2 3");
}

#[test]
fn the_last_server_is_not_waited_for_in_a_long_queue() {
    let origin = |name: &'static str| {
        Origin::answering(move |request| {
            if request.start_line().contains("slow") {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            ok(name)
        })
    };
    let (one, two) = (origin("one"), origin("two"));
    let answered_by = |limit: &'static str| {
        let told = beside_haproxy(
            |front| {
                format!(
                    " mode http\nglobal\n stats socket %FOLDER%/stats\nlisten site\n bind {front}\n http-reuse never\n option prefer-last-server\n {limit}\n use-server one if {{ path /slow /other }}\n server one {} maxconn 1\n server two {}\n",
                    one.address, two.address
                )
            },
            |scene| {
                let column = |name: &str, row: &str| {
                    let table = scene.edge.command("show stat");
                    let heading = table.lines().next().unwrap_or_default().to_owned();
                    let at = heading.split(',').position(|found| found == name).unwrap();
                    let row = table.lines().find(|line| line.starts_with(row)).unwrap_or_default().to_owned();
                    row.split(',').nth(at).unwrap_or_default().to_owned()
                };
                let mut client = Wire::connect(scene.front);
                let first = client.get("/").text();
                let mut busy = Wire::connect(scene.front);
                busy.send("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n");
                wait_until("it is busy", || column("scur", "site,one,") == "1");
                let mut waiting = Wire::connect(scene.front);
                waiting.send("GET /other HTTP/1.1\r\nhost: a\r\n\r\n");
                wait_until("somebody waits", || column("qcur", "site,one,") == "1");
                let second = client.get("/").text();
                assert_eq!((busy.answer().text(), waiting.answer().text()), ("one".into(), "one".into()));
                vec![first, second]
            },
        );
        told.join(" ")
    };
    assert_eq!(answered_by(""), "one one");
    assert_eq!(answered_by("max-keep-alive-queue 1"), "one two");
}

#[test]
fn idle_clients_may_ask_once_more_when_the_service_ends() {
    let origin = Origin::named("hello");
    for (option, expected) in [("", "closed"), (" option idle-close-on-response\n", "200 close")] {
        let section =
            |front| format!(" mode http\nlisten site\n bind {front}\n{option} server s1 {}\n", origin.address);
        let told = beside_haproxy(section, |scene| {
            let mut client = Wire::connect(scene.front);
            assert_eq!(client.get("/").status(), 200);
            scene.edge.signal(rustix::process::Signal::USR1);
            wait_until("nobody listens", || !support::listens(scene.front));
            if option.is_empty() {
                client.expect_end();
                return vec!["closed".to_owned()];
            }
            assert!(client.is_silent_for(std::time::Duration::from_millis(300)));
            let answer = client.get("/");
            let told = format!("{} {}", answer.status(), answer.field("connection").unwrap_or_default());
            client.expect_end();
            vec![told]
        });
        assert_eq!(told, [expected]);
    }
}

#[test]
fn workers_use_each_others_idle_connections() {
    for (setting, shared) in [("on", true), ("off", false)] {
        let origin = Origin::named("hello");
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "global\n nbthread 2\n tune.idle-pool.shared {setting}\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n \
             timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front} accept reuseport\n \
             http-reuse always\n server s1 {}\n",
            origin.address
        ));
        let idle = || edge.command("show servers conn site").contains(" - 5000 0 ");
        for _ in 0..20 {
            assert_eq!(Wire::connect(front).get("/").text(), "hello");
            if shared {
                wait_until("the connection is idle again", || idle() || origin.connections() > 1);
            }
        }
        assert_eq!(origin.connections() == 1, shared, "{}: {}", setting, origin.connections());
        // The row says how many lie at which worker, as its head promises (`idle_per_thr[2]`).
        wait_until("all are idle", || {
            let answer = edge.command("show servers conn site");
            let row = answer.lines().find(|line| line.starts_with("site/s1 ")).unwrap();
            let numbers: Vec<usize> = row.split(' ').skip(12).map(|number| number.parse().unwrap()).collect();
            let [idle, first, second] = numbers[..] else { panic!("{answer}") };
            idle == origin.connections() && first + second == idle
        });
    }
}

/// A connection that its server has closed is no reason to close another one.
#[test]
fn a_closed_connection_takes_no_place_among_the_idle_ones() {
    let origin = Origin::start(|mut wire, number| {
        while wire.request().is_some() {
            wire.send(ok("hello"));
            if number == 0 {
                return;
            }
        }
    });
    let (_edge, front) = edge("http-reuse safe", origin.address);
    assert_eq!(Wire::connect(front).get("/").text(), "hello");
    let mut client = Wire::connect(front);
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "hello");
    }
    assert_eq!(origin.connections(), 2);
}
