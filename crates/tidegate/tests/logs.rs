//! What is logged, beside what Debian's HAProxy logs of the same traffic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, LogServer, Origin, Wire, free_address, ok};

/// One way of using a proxy, named by what is special about it.
struct Case {
    name: &'static str,
    /// Lines of the `listen` section; `SERVER` stands for the server's address.
    lines: &'static str,
    play: fn(SocketAddr),
    /// The log line of it, with numbers that change replaced; empty when nothing is logged.
    expected: &'static str,
}

fn get(front: SocketAddr, path: &str) -> u16 {
    Wire::connect(front).get(path).status()
}

const GOOD: &str = "server s1 SERVER";

const CASES: &[Case] = &[
    Case {
        name: "normal request",
        lines: GOOD,
        play: |front| {
            assert_eq!(get(front, "/x?y=1"), 200);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 43 - - ---- 1/1/0/0/0 0/0 "GET /x?y=1 HTTP/1.1""#,
    },
    Case {
        name: "captures",
        lines: "capture request header Host len 10\n capture request header X len 5\n capture response header Server len 9\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: abc\r\nX: 1234567\r\n\r\n");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 43 - - ---- 1/1/0/0/0 0/0 {abc|12345} {} "GET / HTTP/1.1""#,
    },
    Case {
        name: "no server",
        lines: "server s1 127.0.0.1:1 disabled",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 503 214 - - SC-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "refused",
        lines: "retries 1\n server s1 127.0.0.1:1",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/-1/-1/N 503 214 - - SC-- 1/1/0/0/1 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "server too slow",
        lines: "timeout server 200ms\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/slow"), 504);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 504 195 - - sH-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    },
    Case {
        name: "bad answer",
        lines: GOOD,
        play: |front| {
            assert_eq!(get(front, "/junk"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 206 - - PH-- 1/1/0/0/0 0/0 "GET /junk HTTP/1.1""#,
    },
    Case {
        name: "no answer",
        lines: "retries 0\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/gone"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 206 - - SH-- 1/1/0/0/0 0/0 "GET /gone HTTP/1.1""#,
    },
    Case {
        name: "half an answer",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read_to_end();
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 45 - - SD-- 1/1/0/0/0 0/0 "GET /half HTTP/1.1""#,
    },
    Case {
        name: "client too slow",
        lines: "timeout http-request 200ms\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHo");
            assert_eq!(client.answer().status(), 408);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 408 233 - - cR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "client left within its body",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
            thread::sleep(Duration::from_millis(50));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N -1 0 - - CD-- 1/1/0/0/0 0/0 "POST / HTTP/1.1""#,
    },
    Case {
        name: "client left while the server thinks",
        lines: "option abortonclose\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(50));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 400 0 - - CH-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    },
    Case {
        name: "two requests on a connection",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.get("/one");
            client.get("/two");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 43 - - ---- 1/1/0/0/0 0/0 "GET /one HTTP/1.1""#,
    },
    Case {
        name: "TCP, server refuses",
        lines: "mode tcp\n option tcplog\n retries 0\n server s1 127.0.0.1:1",
        play: |front| {
            Wire::connect(front).read_to_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/-1/N 0 SC 1/1/0/0/0 0/0",
    },
    Case {
        name: "TCP, client silent",
        lines: "mode tcp\n option tcplog\n timeout client 200ms\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).read_to_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 0 cD 1/1/0/0/0 0/0",
    },
    Case {
        name: "TCP, server silent",
        lines: "mode tcp\n option tcplog\n timeout server 200ms\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).read_to_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 0 sD 1/1/0/0/0 0/0",
    },
    Case {
        name: "bad request",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nno colon\r\n\r\n");
            assert_eq!(client.answer().status(), 400);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 207 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "client left within the request",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHo");
            client.shut_write();
            client.read_to_end();
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 0 - - CR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "client left within the body",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read(1000);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - CD-- 1/1/0/0/0 0/0 "GET /endless HTTP/1.1""#,
    },
    Case {
        name: "nothing sent, logged",
        lines: GOOD,
        play: |front| Wire::connect(front).shut_write(),
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 0 - - CR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "nothing sent, not logged",
        lines: "option dontlognull\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).shut_write();
            get(front, "/after");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 43 - - ---- 1/1/0/0/0 0/0 "GET /after HTTP/1.1""#,
    },
    Case {
        name: "denied",
        lines: "http-request deny if { path /no }\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/no"), 403);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 403 189 - - PR-- 1/1/0/0/0 0/0 "GET /no HTTP/1.1""#,
    },
    Case {
        name: "redirected",
        lines: "redirect location /there\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 302);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 302 N - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "queue timeout",
        lines: "timeout queue 200ms\n server s1 SERVER maxconn 1",
        play: |front| {
            let mut first = Wire::connect(front);
            first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(100));
            assert_eq!(get(front, "/queued"), 503);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/-1/-1/N 503 214 - - sQ-- 2/2/1/0/0 0/1 "GET /queued HTTP/1.1""#,
    },
    Case {
        name: "cookie inserted",
        lines: "cookie SRV insert indirect\n server s1 SERVER cookie one",
        play: |front| {
            assert_eq!(get(front, "/"), 200);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - --NI 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "log-format",
        lines: "log-format \"%ci %ft %b/%s %ST %ts %HM %HU %[capture.req.method,lower] %{+Q}HV\"\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/abc?d"), 200);
        },
        expected: r#"127.0.0.1 site site/s1 200 -- GET /abc?d get "HTTP/1.1""#,
    },
    Case {
        name: "TCP",
        lines: "mode tcp\n option tcplog\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 43 -- 1/1/0/0/0 0/0",
    },
];

fn server() -> Origin {
    Origin::start(|mut wire, _| {
        while let Some(request) = wire.request() {
            match request.start_line().split(' ').nth(1).unwrap() {
                "/slow" => thread::sleep(Duration::from_millis(800)),
                "/gone" => return,
                "/junk" => {
                    wire.try_send("220 junk\r\n\r\n");
                    return;
                }
                "/half" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello");
                    return;
                }
                "/endless" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n");
                    while wire.try_send([b'x'; 10000]) {}
                    return;
                }
                _ => {}
            }
            if !wire.try_send(ok("hello")) {
                return;
            }
        }
    })
}

fn config(case: &Case, front: SocketAddr, log: &LogServer, server: &Origin) -> String {
    format!(
        "global\n log {} local0\n nbthread 1\ndefaults\n log global\n mode http\n option httplog\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n {}\n",
        log.address,
        case.lines.replace("SERVER", &server.address.to_string()),
    )
}

/// Replaces what differs from run to run: the client, dates and times that were measured.
fn normalize(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        if word.starts_with("127.0.0.1:") {
            "CLIENT".clone_into(word);
        } else if word.starts_with('[') && word.contains(':') {
            "[DATE]".clone_into(word);
        }
    }
    if words.len() > 5 && words[1] == "[DATE]" {
        let times: Vec<&str> = words[4].split('/').map(|time| if time == "-1" { time } else { "N" }).collect();
        words[4] = times.join("/");
    }
    words.join(" ")
}

fn matches(expected: &str, found: &str) -> bool {
    let (mut left, mut right) = (expected.split(' '), found.split(' '));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some("N"), Some(number)) if number.parse::<u64>().is_ok() => {}
            (left, right) if left == right => {}
            _ => return false,
        }
    }
}

fn logged(case: &Case, start: impl FnOnce(&str) -> Option<Edge>) -> Option<String> {
    let (log, server, front) = (LogServer::start(), server(), free_address());
    let edge = start(&config(case, front, &log, &server))?;
    (case.play)(front);
    let line = loop {
        let line = log.line();
        if !line.starts_with("Proxy ")
            && !line.contains("Server ")
            && !line.contains("has no server")
            && !line.contains("is going")
        {
            break line;
        }
    };
    drop(edge);
    Some(normalize(&line))
}

/// What each case gives beside what it should, for those that differ; cases run beside each other.
fn differences(start: fn(&str) -> Option<Edge>, view: fn(&str) -> String) -> Vec<String> {
    let check = |case: &Case| {
        let found = logged(case, start)?;
        let differs = !matches(&view(case.expected), &view(&found));
        differs.then(|| format!("{}:\n expected {}\n found    {found}", case.name, case.expected))
    };
    thread::scope(|scope| {
        let running: Vec<_> = CASES
            .chunks(CASES.len().div_ceil(4))
            .map(|part| scope.spawn(move || part.iter().filter_map(check).collect()))
            .collect();
        running.into_iter().flat_map(|part| -> Vec<String> { part.join().unwrap() }).collect()
    })
}

#[test]
fn log_lines_are_exact() {
    let wrong = differences(|config| Some(Edge::start_single(config)), str::to_owned);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Without the bytes of an HTTP answer: HAProxy counts its own form of heads, which is longer than what it sends, and
/// nothing for an answer to a request that it could not read; the edge counts what it sends.
fn without_bytes(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    if words.len() > 10 && words[1] == "[DATE]" {
        words[6] = "0";
    }
    words.join(" ")
}

#[test]
fn haproxy_logs_the_same() {
    let wrong = differences(Edge::start_haproxy, without_bytes);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
