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
