//! What is logged, beside what Debian's HAProxy logs of the same traffic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Case, Edge, Wire, differences};

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
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET /x?y=1 HTTP/1.1""#,
    },
    Case {
        name: "captures",
        lines: "capture request header Host len 10\n capture request header X len 5\n capture response header Server len 9\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: abc\r\nX: 1234567\r\n\r\n");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 {abc|12345} {} "GET / HTTP/1.1""#,
    },
    Case {
        name: "no server",
        lines: "server s1 127.0.0.1:1 disabled",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 503 217 - - SC-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "refused",
        lines: "retries 1\n server s1 127.0.0.1:1",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/-1/-1/N 503 217 - - SC-- 1/1/0/0/1 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "refused, and not to be tried again",
        lines: "retries 2\n retry-on none\n server s1 127.0.0.1:1",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/-1/-1/N 503 217 - - SC-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "server too slow",
        lines: "timeout server 200ms\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/slow"), 504);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 504 198 - - sH-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    },
    Case {
        name: "bad answer",
        lines: GOOD,
        play: |front| {
            assert_eq!(get(front, "/junk"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 209 - - PH-- 1/1/0/0/0 0/0 "GET /junk HTTP/1.1""#,
    },
    Case {
        name: "bad chunk with the head",
        lines: GOOD,
        play: |front| {
            assert_eq!(get(front, "/bad-chunk"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 209 - - PH-- 1/1/0/0/0 0/0 "GET /bad-chunk HTTP/1.1""#,
    },
    Case {
        name: "bad chunk later",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /later-bad-chunk HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read_to_end();
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 63 - - SD-- 1/1/0/0/0 0/0 "GET /later-bad-chunk HTTP/1.1""#,
    },
    Case {
        name: "no answer",
        lines: "retries 0\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/gone"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 209 - - SH-- 1/1/0/0/0 0/0 "GET /gone HTTP/1.1""#,
    },
    Case {
        name: "half an answer",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read_to_end();
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 56 - - SD-- 1/1/0/0/0 0/0 "GET /half HTTP/1.1""#,
    },
    Case {
        name: "client too slow",
        lines: "cookie C insert\n timeout http-request 200ms\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHo");
            assert_eq!(client.answer().status(), 408);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 408 0 - - cR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "client left within its body",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
            thread::sleep(Duration::from_millis(200));
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
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 400 206 - - CH-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    },
    Case {
        name: "two requests on a connection",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.get("/one");
            client.get("/two");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET /one HTTP/1.1""#,
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
        name: "TCP, client left the queue",
        lines: "mode tcp\n option tcplog\n option abortonclose\n timeout queue 5s\n server s1 SERVER maxconn 1",
        play: |front| {
            let mut first = Wire::connect(front);
            first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(100));
            let mut second = Wire::connect(front);
            second.send("hello");
            thread::sleep(Duration::from_millis(100));
            drop(second);
            first.answer();
        },
        expected: "CLIENT [DATE] site site/<NOSRV> N/-1/N 0 CQ 2/2/1/0/0 0/1",
    },
    Case {
        name: "client left the queue",
        lines: "option abortonclose\n timeout queue 5s\n server s1 SERVER maxconn 1",
        play: |front| {
            let mut first = Wire::connect(front);
            first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(100));
            let mut second = Wire::connect(front);
            second.send("GET /queued HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::sleep(Duration::from_millis(100));
            drop(second);
            first.answer();
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/-1/-1/N -1 0 - - CQ-- 2/2/1/0/0 0/1 "GET /queued HTTP/1.1""#,
    },
    Case {
        name: "bad request",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nno colon\r\n\r\n");
            assert_eq!(client.answer().status(), 400);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
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
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET /after HTTP/1.1""#,
    },
    Case {
        name: "denied",
        lines: "http-request deny if { path /no }\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/no"), 403);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 403 192 - - PR-- 1/1/0/0/0 0/0 "GET /no HTTP/1.1""#,
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
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/-1/-1/N 503 217 - - sQ-- 2/2/1/0/0 0/1 "GET /queued HTTP/1.1""#,
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
        name: "cookies captured",
        lines: "capture cookie SESS len 8\n http-response set-header set-cookie SESSION=of-the-server\n server s1 SERVER",
        play: |front| {
            let cookies = "Cookie: SES=1; SESSION = of-the-client; SESSX=2";
            Wire::connect(front).ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{cookies}\r\n\r\n"));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N SESSION= SESSION= ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "a cookie captured by its whole name",
        lines: "capture cookie SESS= len 60\n server s1 SERVER",
        play: |front| {
            let cookies = "Cookie: SESSION=1; SESS=\"a;b\"; SESS=2";
            Wire::connect(front).ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{cookies}\r\n\r\n"));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 SESS="a;b" - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
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
        name: "this end's address of a server's connection, opened and used again",
        lines: "http-request set-log-level silent if { path /first }\n log-format \"%bi %bp %[bc_src] %[bc_src_port]\"\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            assert_eq!(client.get("/first").status(), 200);
            assert_eq!(client.get("/").status(), 200);
        },
        expected: "127.0.0.1 N 127.0.0.1 N",
    },
    Case {
        name: "numbers of requests",
        lines: "http-request set-log-level silent if { path /first }\n log-format \"%rt %ST\"\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/first"), 200);
            let mut client = Wire::connect(front);
            assert_eq!(client.get("/first").status(), 200);
            assert_eq!(client.get("/first").status(), 200);
            drop(client);
            assert_eq!(get(front, "/"), 200);
        },
        expected: "3 200",
    },
    Case {
        name: "length of a message",
        lines: "http-request set-var(txn.in) req.len\n http-response set-var(txn.out) res.len\n log-format \"%[var(txn.in)] %[var(txn.out)]\"\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).ask("GET /x HTTP/1.1\r\nHost: abc\r\nX-One: 12345\r\n\r\n");
        },
        expected: "51 54",
    },
    Case {
        name: "no PROXY header, and no session",
        lines: "error-log-format \"%ST %ts %tsc\"\n tcp-request connection expect-proxy layer4\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\n\r\n");
            client.read_to_end();
        },
        expected: "0 PR PR--",
    },
    Case {
        name: "a client that ends what it sends before it has asked",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HT");
            client.shut_write();
            assert_eq!(client.answer().status(), 400);
        },
        expected: "CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 0 - - CR-- 1/1/0/0/0 0/0 \"<BADREQ>\"",
    },
    Case {
        name: "chunks that are none, and come with the head",
        lines: GOOD,
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
            assert_eq!(client.answer().status(), 400);
        },
        expected: "CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 0 - - PR-- 1/1/0/0/0 0/0 \"<BADREQ>\"",
    },
    Case {
        name: "error-log-format of what is no request",
        lines: "error-log-format \"ERR %ci %ST %{+Q}r %[fc_err] %[fc_err_str]\"\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).send("BAD REQ UEST\r\n\r\n");
            thread::sleep(Duration::from_millis(100));
        },
        expected: r#"ERR 127.0.0.1 400 "<BADREQ>" 0 Success"#,
    },
    Case {
        name: "error-log-format and a request that a rule refuses",
        lines: "error-log-format \"ERR %ST\"\n log-format \"FINE %ST\"\n http-request deny\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 403);
        },
        expected: "FINE 403",
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

#[test]
fn log_lines_are_exact() {
    let wrong = differences(CASES, |config| Some(Edge::start_single(config)));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn haproxy_logs_the_same() {
    let wrong = differences(CASES, Edge::start_haproxy);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
