//! Small things that clients and logs see, played beside Debian's HAProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fmt::Write as _, thread, time::Duration};

use support::{Answer, Origin, Scene, Wire, beside_haproxy, ok, wait_until};

fn ask(scene: &Scene, request: &str) -> Answer {
    Wire::connect(scene.front).ask(request)
}

fn get_with(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n")
}

#[test]
fn reason_phrases() {
    let mut rules = String::new();
    let pages = [400, 401, 403, 404, 405, 407, 408, 410, 413, 421, 422, 425, 429, 500, 501, 502, 503, 504];
    let redirects = [301, 302, 303, 307, 308];
    for status in 200..600 {
        writeln!(rules, " http-request return status {status} if {{ path /made/{status} }}").unwrap();
    }
    for status in pages {
        writeln!(rules, " http-request deny deny_status {status} if {{ path /page/{status} }}").unwrap();
    }
    for status in redirects {
        writeln!(rules, " http-request redirect code {status} location / if {{ path /go/{status} }}").unwrap();
    }
    let made = (200..600).map(|status| format!("/made/{status}"));
    let paths: Vec<String> = made
        .chain(pages.map(|status| format!("/page/{status}")))
        .chain(redirects.map(|status| format!("/go/{status}")))
        .collect();
    let told = beside_haproxy(
        |front| format!("listen site\n mode http\n bind {front}\n{rules} server s1 {front}\n"),
        |scene| {
            let line = |path: &String| {
                let mut client = Wire::connect(scene.front);
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
                client.head().unwrap().lines().next().unwrap().to_owned()
            };
            paths.iter().map(line).collect()
        },
    );
    assert!(told.contains(&"HTTP/1.1 302 Moved Temporarily".to_owned()));
    assert!(told.contains(&"HTTP/1.1 302 Found".to_owned()));
}

/// The cookie is looked at when a rule denies the request, and when it goes to a server; not when something else answers.
#[test]
fn cookies_of_requests_that_go_to_no_server() {
    for (rule, with_valid, with_other) in [
        ("http-request deny", "PR PRVN SRV=c1", "PR PRIN SRV=zz"),
        ("http-request tarpit\n timeout tarpit 10", "PT PTVN SRV=c1", "PT PTIN SRV=zz"),
        ("http-request return status 200", "LR LRNN -", "LR LRNN -"),
        ("redirect location /x", "LR LRNN -", "LR LRNN -"),
        ("http-request auth", "LR LRNN -", "LR LRNN -"),
        ("http-request reject", "PR PRNN -", "PR PRNN -"),
    ] {
        let told = beside_haproxy(
            |front| {
                format!(
                    "listen site\n mode http\n bind {front}\n log-format \"%ts %tsc %CC\"\n cookie SRV insert\n \
                     capture cookie SRV= len 20\n {rule}\n server s1 {front} cookie c1\n"
                )
            },
            |scene| {
                let of = |cookie: &str| {
                    let mut client = Wire::connect(scene.front);
                    client.send(get_with(&format!("Cookie: SRV={cookie}\r\n")));
                    client.read_to_end();
                    scene.log.line()
                };
                vec![of("c1"), of("zz")]
            },
        );
        assert_eq!(told, [with_valid, with_other], "{rule}");
    }
}

#[test]
fn statistics_have_a_realm_of_their_own() {
    for (rule, expected) in [
        ("stats enable\n stats uri /\n stats http-request auth", "Basic realm=\"HAProxy Statistics\""),
        ("stats enable\n stats uri /\n stats http-request auth realm Mine", "Basic realm=\"Mine\""),
        ("http-request auth", "Basic realm=\"site\""),
    ] {
        let told = beside_haproxy(
            |front| format!("listen site\n mode http\n bind {front}\n {rule}\n server s1 {front}\n"),
            |scene| vec![ask(scene, &get_with("")).field("www-authenticate").unwrap().to_owned()],
        );
        assert_eq!(told, [expected], "{rule}");
    }
}

#[test]
fn queries_of_targets_that_have_none() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        wire.send(ok(head.lines().next().unwrap()));
    });
    let server = origin.address;
    for (rules, expected) in [
        ("http-request set-query a=b", "OPTIONS *?a=b HTTP/1.1"),
        ("http-request set-query a=b\n http-request set-query c=d", "OPTIONS *?c=d HTTP/1.1"),
        ("http-request set-query a=b\n http-request set-path /z", "OPTIONS /z?a=b HTTP/1.1"),
        ("http-request set-query a=b\n http-request set-pathq /z", "OPTIONS /z HTTP/1.1"),
        ("http-request set-path /z", "OPTIONS /z HTTP/1.1"),
    ] {
        let told = beside_haproxy(
            |front| format!("listen site\n mode http\n bind {front}\n {rules}\n server s1 {server}\n"),
            |scene| vec![ask(scene, "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").text()],
        );
        assert_eq!(told, [expected], "{rules}");
    }
}

#[test]
fn a_response_whose_body_makes_no_sense_while_a_rule_waits_for_it() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        // Behind what came with the head.
        thread::sleep(Duration::from_millis(50));
        wire.try_send("zz\r\n");
        wire.read_to_end();
    });
    let server = origin.address;
    let told = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n bind {front}\n log-format \"%ts %ST\"\n \
                 http-response wait-for-body time 10s at-least 100\n server s1 {server}\n"
            )
        },
        |scene| vec![ask(scene, &get_with("")).status().to_string(), scene.log.line()],
    );
    assert_eq!(told, ["502", "PH 502"]);
}

/// What was written into a configuration by mistake goes out as it stands.
#[test]
fn names_that_are_no_header_names_are_sent() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        let line = head.lines().find(|line| line.starts_with("x-forwarded-proto")).unwrap();
        wire.send(ok(line));
    });
    let server = origin.address;
    let told = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n bind {front}\n http-request set-header X-Forwarded-Proto: https\n server s1 {server}\n"
            )
        },
        |scene| vec![ask(scene, &get_with("")).text()],
    );
    assert_eq!(told, ["x-forwarded-proto:: https"]);
}

/// Forms of the statistics page that change nothing, and bytes that no server sent.
#[test]
fn statistics_of_what_is_not_there() {
    let told = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n bind {front}\n stats enable\n stats uri /s\n stats admin if TRUE\n server s1 {front}\n"
            )
        },
        |scene| {
            let outcome = |action: &str| {
                let body = format!("s=s1&action={action}&b=site");
                let length = body.len();
                let request = format!(
                    "POST /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
                );
                ask(scene, &request).field("location").unwrap().to_owned()
            };
            let mut told: Vec<String> = ["arunn", "adown", "eagent", "ehlth", "explode"].map(outcome).into();
            let csv = ask(scene, "GET /s;csv HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").text();
            let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
            let column = |name: &str| rows[0].iter().position(|title| *title == name).unwrap();
            let backend = rows.iter().find(|row| row[1] == "BACKEND").unwrap();
            told.extend(["h1_bytes_in", "h1_bytes_out"].map(|name| backend[column(name)].to_owned()));
            told
        },
    );
    assert_eq!(told, ["/s;st=NONE", "/s;st=NONE", "/s;st=NONE", "/s;st=NONE", "/s;st=ERRP", "0", "0"]);
}

#[test]
fn requests_in_flight_are_counted() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.read_to_end();
    });
    let server = origin.address;
    let told = beside_haproxy(
        |front| {
            format!(
                "global\n stats socket %FOLDER%/stats level admin\nlisten site\n mode http\n bind {front}\n option httplog\n server s1 {server}\n"
            )
        },
        |scene| {
            let in_flight = |wanted: &str, command: &str| {
                wait_until(&format!("{wanted} requests are in flight"), || {
                    scene.edge.command(command);
                    let csv = scene.edge.command("show stat");
                    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
                    let column = rows[0].iter().position(|title| *title == "h1_open_streams").unwrap();
                    rows[1][1] == "FRONTEND" && rows[1][column] == wanted
                });
                wanted.to_owned()
            };
            let mut told = vec![in_flight("0", "show info")];
            let mut clients: Vec<Wire> = (0..2).map(|_| Wire::connect(scene.front)).collect();
            for client in &mut clients {
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            told.push(in_flight("2", "show info"));
            // Those that are broken off end too. One that is only on its way to the server is not found there yet.
            told.push(in_flight("0", "shutdown sessions server site/s1"));
            told
        },
    );
    assert_eq!(told, ["0", "2", "0"]);
}

/// A rule says whether what follows a 101 is a tunnel: a client that was refused must not reach the server.
#[test]
fn rules_on_answers_that_begin_a_tunnel() {
    let origin = Origin::start(|mut wire, _| {
        let Some(head) = wire.head() else { return };
        wire.send(if head.starts_with("CONNECT") {
            "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"
        } else {
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: foo\r\nX: y\r\n\r\n"
        });
        if wire.fill() > 0 {
            wire.try_send("through");
        }
    });
    let server = origin.address;
    const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n";
    const CONNECT: &str = "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n";
    for (request, rule, expected) in [
        (UPGRADE, "http-after-response set-header A b if { status 101 }", "101 b through"),
        (UPGRADE, "http-after-response del-header X", "101 - through"),
        (UPGRADE, "http-after-response set-status 403", "403 - "),
        (UPGRADE, "http-response set-status 403", "403 - "),
        (UPGRADE, "http-response set-status 204", "204 - "),
        (CONNECT, "http-after-response set-header A b", "200 b through"),
        (CONNECT, "http-after-response set-status 403", "403 - "),
        (CONNECT, "http-response set-status 502", "502 - "),
    ] {
        let told = beside_haproxy(
            |front| format!("listen site\n mode http\n bind {front}\n {rule}\n server s1 {server}\n"),
            |scene| {
                let mut client = Wire::connect(scene.front);
                client.send(request);
                let head = client.head().unwrap();
                let field = head.lines().find_map(|line| line.strip_prefix("a: ")).unwrap_or("-").to_owned();
                let status = head.split(' ').nth(1).unwrap().to_owned();
                client.send("into the tunnel");
                client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
                let mut buffer = [0; 7];
                let through =
                    std::io::Read::read_exact(&mut client.stream, &mut buffer).is_ok() && &buffer == b"through";
                vec![format!("{status} {field} {}", if through { "through" } else { "" })]
            },
        );
        assert_eq!(told, [expected], "{rule}");
    }
}

/// Who is waited for is told to go on, whether it has begun to send its body or not; the server is not asked again.
#[test]
fn rules_that_wait_for_a_body_answer_expectations() {
    let origin = Origin::answering(|request| {
        let expects = request.head.to_ascii_lowercase().contains("expect");
        ok(&format!("{expects} {}", request.text()))
    });
    let server = origin.address;
    for rule in ["http-request wait-for-body time 10s", "option http-buffer-request\n timeout http-request 10s"] {
        for first in ["", "abc", "abcdef"] {
            let told = beside_haproxy(
                |front| format!("listen site\n mode http\n bind {front}\n {rule}\n server s1 {server}\n"),
                |scene| {
                    let mut client = Wire::connect(scene.front);
                    let fields = "Expect: 100-continue\r\nContent-Length: 6";
                    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{first}"));
                    let interim = client.head().unwrap();
                    client.send(&"abcdef"[first.len()..]);
                    vec![interim, client.answer().text()]
                },
            );
            assert_eq!(told, ["HTTP/1.1 100 Continue\r\n\r\n", "false abcdef"], "{rule} {first}");
        }
    }
}

/// With `retry-on` that has no client hear of a connection closed meanwhile, a client's first request need not open one.
#[test]
fn first_requests_on_idle_connections() {
    const LOST: &str = "conn-failure empty-response response-timeout";
    for (reuse, retry_on, expected) in [
        ("safe", LOST, 1),
        ("aggressive", "all-retryable-errors", 1),
        ("safe", "conn-failure empty-response", 3),
        ("aggressive", "empty-response response-timeout", 3),
        ("never", LOST, 3),
        ("always", "none", 1),
    ] {
        let origin = std::cell::RefCell::new(Vec::new());
        let told = beside_haproxy(
            |front| {
                let server = Origin::named("hello");
                let address = server.address;
                origin.borrow_mut().push(server);
                format!(
                    "global\n nbthread 1\nlisten site\n mode http\n bind {front}\n http-reuse {reuse}\n retry-on {retry_on}\n server s1 {address}\n"
                )
            },
            |scene| {
                for _ in 0..3 {
                    assert_eq!(ask(scene, &get_with("")).text(), "hello");
                }
                vec![origin.borrow().last().unwrap().connections().to_string()]
            },
        );
        assert_eq!(told, [expected.to_string()], "{reuse} {retry_on}");
    }
}

/// Servers of that time take a body there for the next request.
#[test]
fn bodies_of_old_requests_whose_method_has_none() {
    let origin = Origin::named("hello");
    let server = origin.address;
    let told = beside_haproxy(
        |front| format!("listen site\n mode http\n bind {front}\n server s1 {server}\n"),
        |scene| {
            let asked = ["GET", "HEAD", "DELETE", "POST", "OPTIONS", "X"].into_iter().flat_map(|method| {
                ["Content-Length: 3\r\n\r\nabc", "Content-Length: 0\r\n\r\n"]
                    .map(|rest| format!("{method} / HTTP/1.0\r\n{rest}"))
            });
            asked
                .map(|request| {
                    let mut client = Wire::connect(scene.front);
                    client.send(&request);
                    let head = client.head().unwrap();
                    head.split(' ').nth(1).unwrap().to_owned()
                })
                .collect()
        },
    );
    assert_eq!(told, ["413", "200", "413", "200", "413", "200", "200", "200", "200", "200", "200", "200"]);
}
