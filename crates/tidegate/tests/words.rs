//! Words of the configuration of which each changes one thing, played beside Debian's HAProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Case, Edge, Wire, differences};

fn get(front: SocketAddr, path: &str) -> u16 {
    Wire::connect(front).get(path).status()
}

/// A value of 12,000 bytes in `txn.long`: twice of it is more than a buffer.
macro_rules! long {
    ($rest:literal) => {
        concat!(
            " http-request set-var(txn.hundred) str(0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789)\n",
            " http-request set-var-fmt(txn.thousand) %[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]%[var(txn.hundred)]\n",
            " http-request set-var-fmt(txn.long) %[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]%[var(txn.thousand)]\n ",
            $rest,
            "\n server s1 SERVER"
        )
    };
}

const CASES: &[Case] = &[
    Case {
        name: "rules see neither close nor keep-alive, and no default port",
        lines: " http-request return status 200 content-type text/plain lf-string \"%[req.fhdr(connection)] %[req.hdr_names] %[url] %[hdr(host)]\"\n server s1 SERVER",
        play: |front| {
            for (fields, expected) in [
                ("Connection: close\r\n", " host http://a/b a"),
                ("Connection: Keep-Alive\r\n", " host http://a/b a"),
                ("Connection: keep-alive, Upgrade\r\n", "Upgrade host,connection http://a/b a"),
            ] {
                let request = format!("GET http://a:80/b HTTP/1.1\r\nHost: a:80\r\n{fields}\r\n");
                assert_eq!(Wire::connect(front).ask(request).text(), expected, "{fields}");
            }
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 200 90 - - LR-- 1/1/0/0/0 0/0 "GET http://a/b HTTP/1.1""#,
    },
    Case {
        name: "wait-for-body: chunks that are none",
        lines: " http-request wait-for-body time 20s\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
            thread::sleep(Duration::from_millis(50));
            assert_eq!(client.ask("none\r\n").status(), 400);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 400 N - - PR-- 1/1/0/0/0 0/0 "POST / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode: a rewrite of a request that does not fit",
        lines: long!("http-request set-header X-One %[var(txn.long)]\n http-request set-header X-Two %[var(txn.long)]"),
        play: |front| {
            assert_eq!(get(front, "/"), 500);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 500 N - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode off: the rewrite is left out",
        lines: long!(
            "http-request strict-mode off\n http-request set-header X-One %[var(txn.long)]\n http-request set-header X-Two %[var(txn.long)]\n http-request return status 200 content-type text/plain lf-string \"%[req.hdr(X-One),length] %[req.hdr_cnt(X-Two)]\""
        ),
        play: |front| {
            assert_eq!(Wire::connect(front).get("/").text(), "12000 0");
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 200 N - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode off ends with its set",
        lines: long!(
            "http-request strict-mode off\n http-response set-header X-One %[var(txn.long)]\n http-response set-header X-Two %[var(txn.long)]"
        ),
        play: |front| {
            assert_eq!(get(front, "/"), 500);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 500 N - - PH-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode of http-after-response",
        lines: long!(
            "http-after-response set-header X-One %[var(txn.long)]\n http-after-response set-header X-Two %[var(txn.long)]"
        ),
        play: |front| {
            let answer = Wire::connect(front).get("/");
            assert_eq!(answer.status(), 500);
            assert_eq!(answer.field("x-one"), None, "nothing changes the page");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 500 N - - PH-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode off of http-response",
        lines: long!(
            "http-response strict-mode off\n http-response set-header X-One %[var(txn.long)]\n http-response set-header X-Two %[var(txn.long)]"
        ),
        play: |front| {
            let answer = Wire::connect(front).get("/");
            assert_eq!(answer.field("x-one").unwrap().len(), 12_000);
            assert_eq!((answer.field("x-two"), answer.text()), (None, "hello".to_owned()));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "strict-mode: a path that does not fit",
        lines: long!("http-request set-path /%[var(txn.long)]%[var(txn.long)]"),
        play: |front| {
            assert_eq!(get(front, "/"), 500);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 500 N - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "logasap: when the head is there",
        lines: "option logasap\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
            client.head();
            thread::sleep(Duration::from_millis(100));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/+N 200 +N - - ---- 1/1/1/1/0 0/0 "GET /endless HTTP/1.1""#,
    },
    Case {
        name: "logasap: what has no response is logged at its end",
        lines: "option logasap\n server s1 127.0.0.1:1 disabled",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/+N 503 +N - - SC-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "logasap: TCP, when the server is connected",
        lines: "mode tcp\n option tcplog\n option logasap\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        },
        expected: "CLIENT [DATE] site site/s1 N/N/+N +0 -- 1/1/1/1/0 0/0",
    },
    Case {
        name: "logasap: in a format",
        lines: "option logasap\n log-format \"%B %U\"\n server s1 127.0.0.1:1 disabled",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: "+N N",
    },
    Case {
        name: "dispatch",
        lines: "dispatch SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            assert_eq!((client.get("/").text(), client.get("/").status()), ("hello".to_owned(), 200));
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "dispatch: refused",
        lines: "dispatch 127.0.0.1:1\n timeout connect 50ms\n retries 2\n option redispatch",
        play: |front| {
            assert_eq!(get(front, "/"), 503);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/-1/-1/N 503 N - - SC-- 1/1/0/0/2 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "dispatch: the server does not answer",
        lines: "dispatch SERVER",
        play: |front| {
            assert_eq!(get(front, "/gone"), 502);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/N/-1/N 502 N - - SH-- 1/1/0/0/0 0/0 "GET /gone HTTP/1.1""#,
    },
    Case {
        name: "dispatch: TCP",
        lines: "mode tcp\n option tcplog\n log-format \"%s %si:%sp %ts %B\"\n dispatch SERVER",
        play: |front| {
            Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        },
        expected: "<NOSRV> CLIENT -- 43",
    },
    Case {
        name: "dispatch is not asked where there is balancing",
        lines: "balance roundrobin\n dispatch 127.0.0.1:1\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 200);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "dispatch: a cookie still leads to its server",
        lines: "dispatch 127.0.0.1:1\n cookie SRV insert\n server s1 SERVER cookie one",
        play: |front| {
            let answer = Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\nCookie: SRV=one\r\n\r\n");
            assert_eq!(answer.text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - --VN 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "transparent: where the client wanted to go",
        lines: "option transparent\n http-request set-dst-port int(PORT)",
        play: |front| {
            assert_eq!(Wire::connect(front).get("/").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "transparent: TCP",
        lines: "mode tcp\n option tcplog\n option transparent\n tcp-request connection set-dst-port int(PORT)",
        play: |front| {
            Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        },
        expected: "CLIENT [DATE] site site/<NOSRV> N/N/N 43 -- 1/1/0/0/0 0/0",
    },
    Case {
        name: "a server without an address is where the client wanted to go",
        lines: "http-request set-dst-port int(PORT)\n server s1 \"${NOTHING}:${NOTHING}\"",
        play: |front| {
            assert_eq!(Wire::connect(front).get("/").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "a server with a port alone",
        lines: "server s1 :PORT",
        play: |front| {
            assert_eq!(Wire::connect(front).get("/").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "tcp-response content reject: TCP",
        lines: "mode tcp\n option tcplog\n tcp-response content reject\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).expect_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 0 PD 1/1/0/0/0 0/0",
    },
    Case {
        name: "tcp-response content close: TCP",
        lines: "mode tcp\n option tcplog\n tcp-response content close\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).expect_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 0 -- 1/1/0/0/0 0/0",
    },
    Case {
        name: "tcp-response content: what it asks about is awaited",
        lines: "mode tcp\n option tcplog\n tcp-response inspect-delay 5s\n tcp-response content reject if { res.payload(0,12) -m str \"HTTP/1.1 200\" }\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 45 PD 1/1/0/0/0 0/0",
    },
    Case {
        name: "tcp-response content: nothing is awaited without a delay",
        lines: "mode tcp\n option tcplog\n tcp-response content reject if { res.payload(0,12) -m str \"HTTP/1.1 200\" }\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_to_end().len(), 45);
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 45 -- 1/1/0/0/0 0/0",
    },
    Case {
        name: "tcp-response content: the delay is over",
        lines: "mode tcp\n option tcplog\n tcp-response inspect-delay 100ms\n tcp-response content accept if { res.payload(0,12) -m found }\n tcp-response content reject\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).expect_end();
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 0 PD 1/1/0/0/0 0/0",
    },
    Case {
        name: "tcp-response content: variables of what came",
        lines: "mode tcp\n option tcplog\n tcp-response inspect-delay 5s\n tcp-response content set-var(sess.x) res.payload(9,3) if { res.payload(0,12) -m found }\n log-format \"%[var(sess.x)] %U %B\"\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_to_end().len(), 45);
        },
        expected: "200 31 45",
    },
    Case {
        name: "tcp-response content: HTTP, when the head is there",
        lines: "tcp-response inspect-delay 5s\n tcp-response content reject if { status 200 }\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_end();
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 200 54 - - PD-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "tcp-response content: HTTP, when the server is connected",
        lines: "tcp-response content reject\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_end();
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N -1 0 - - PD-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    },
    Case {
        name: "tcp-response content: HTTP, too early",
        lines: "tcp-response content reject if { status 200 }\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 200);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-response wait-for-body",
        lines: "http-response wait-for-body time 5s\n http-response set-header x-body \"%[res.body_len] %[res.body_size] %[res.body]\"\n server s1 SERVER",
        play: |front| {
            let answer = Wire::connect(front).get("/two");
            assert_eq!(answer.field("x-body"), Some("10 10 helloworld"));
            assert_eq!(answer.text(), "helloworld");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 60 - - ---- 1/1/0/0/0 0/0 "GET /two HTTP/1.1""#,
    },
    Case {
        name: "http-response wait-for-body: enough",
        lines: "http-response wait-for-body time 5s at-least 5\n http-response set-header x-body \"%[res.body_len] %[res.body_size]\"\n server s1 SERVER",
        play: |front| {
            let answer = Wire::connect(front).get("/two");
            assert_eq!((answer.field("x-body"), answer.text()), (Some("5 10"), "helloworld".to_owned()));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 60 - - ---- 1/1/0/0/0 0/0 "GET /two HTTP/1.1""#,
    },
    Case {
        name: "http-response wait-for-body: too late",
        lines: "http-response wait-for-body time 200ms\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/never"), 504);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 504 253 - - sR-- 1/1/0/0/0 0/0 "GET /never HTTP/1.1""#,
    },
    Case {
        name: "bodies of requests as far as they are there",
        lines: "http-request set-var(txn.len) req.body_len\n http-request set-var(txn.size) req.body_size\n http-request set-var(txn.body) req.body\n log-format \"%ST %[var(txn.len)] %[var(txn.size)] %[var(txn.body)] %U\"\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde");
        },
        expected: "200 5 5 abcde 59",
    },
    Case {
        name: "chunked bodies of requests as far as they are there",
        lines: "http-request set-var(txn.len) req.body_len\n http-request set-var(txn.size) req.body_size\n log-format \"%ST %[var(txn.len)] %[var(txn.size)] %U\"\n server s1 SERVER",
        play: |front| {
            Wire::connect(front)
                .ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n");
        },
        expected: "200 5 5 69",
    },
    Case {
        name: "the response of an old server",
        lines: "http-response set-header x-version %[res.ver]\n server s1 SERVER",
        play: |front| {
            let answer = Wire::connect(front).get("/old");
            assert_eq!(answer.start_line(), "HTTP/1.0 200 OK");
            assert_eq!(
                (answer.field("x-version"), answer.field("connection"), answer.text()),
                (Some("1.0"), None, "hello".to_owned())
            );
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 48 - - ---- 1/1/0/0/0 0/0 "GET /old HTTP/1.1""#,
    },
    Case {
        name: "the response of an old server that keeps its connection",
        lines: "server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            let answer = client.get("/old-kept");
            assert_eq!((answer.start_line(), answer.field("connection")), ("HTTP/1.0 200 OK", Some("keep-alive")));
            assert_eq!(client.get("/").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET /old-kept HTTP/1.1""#,
    },
    Case {
        name: "chunks count without their framing",
        lines: "server s1 SERVER",
        play: |front| {
            assert_eq!(Wire::connect(front).get("/chunks").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 64 - - ---- 1/1/0/0/0 0/0 "GET /chunks HTTP/1.1""#,
    },
    Case {
        name: "a slow body is the time of the server",
        lines: "timeout server 200ms\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhalf");
            assert_eq!(client.answer().status(), 504);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 504 198 - - sH-- 1/1/0/0/0 0/0 "POST / HTTP/1.1""#,
    },
    Case {
        name: "a slow body that is awaited",
        lines: "timeout http-request 200ms\n option http-buffer-request\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhalf");
            assert_eq!(client.answer().status(), 408);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N 408 232 - - cR-- 1/1/0/0/0 0/0 "POST / HTTP/1.1""#,
    },
    Case {
        name: "bytes above 127 are what they are",
        lines: "http-request set-var(txn.a) str(\\xe8)\n http-request return status 200 content-type text/\\xe9 hdr x-a \\xe9\\xff lf-string \"\\xe9%[var(txn.a)]\\xff\\x80\"",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = client.read_to_end();
            for part in [&b"content-type: text/\xe9\r\n"[..], b"x-a: \xe9\xff\r\n", b"\r\n\r\n\xe9\xe8\xff\x80"] {
                assert!(answer.windows(part.len()).any(|found| found == part), "{part:?}");
            }
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 200 76 - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "bytes above 127 in paths, patterns and redirects",
        lines: "http-request set-path /\\xe9\n http-request replace-path \"/(\\xe9)\" /\\1\\xe8\n http-request redirect location \"/%[path]\\xff\" if { path /\\xe9\\xe8 }\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let (answer, part) = (client.read_to_end(), b"location: //\xe9\xe8\xff\r\n");
            assert!(answer.windows(part.len()).any(|found| found == part));
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 302 86 - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "auth",
        lines: "http-request auth realm Staff",
        play: |front| {
            let answer = Wire::connect(front).get("/");
            assert_eq!((answer.status(), answer.field("www-authenticate")), (401, Some("Basic realm=\"Staff\"")));
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 401 250 - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-restrict-req-hdr-names delete",
        lines: "option http-restrict-req-hdr-names delete\n http-request set-header x-before %[req.hdr_cnt(x_y)]\n http-response set-header x-seen \"%[var(txn.n)]\"\n http-request set-var(txn.n) req.hdr_cnt(x_y)\n server s1 SERVER",
        play: |front| {
            Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\nX_Y: 1\r\nX-Z: 2\r\n\r\n");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-restrict-req-hdr-names reject",
        lines: "option http-restrict-req-hdr-names reject\n server s1 SERVER",
        play: |front| {
            assert_eq!(Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\nX_Y: 1\r\nX-Z: 2\r\n\r\n").status(), 403);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 403 192 - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "tune.http.logurilen",
        lines: "GLOBAL tune.http.logurilen 20\nserver s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/a-path-that-is-longer-than-that"), 200);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET /a-path-that-is-""#,
    },
    Case {
        name: "redir",
        lines: "server s1 SERVER redir http://other",
        play: |front| {
            let answer = Wire::connect(front).get("/a?b");
            assert_eq!((answer.status(), answer.field("location")), (302, Some("http://other/a?b")));
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/-1/-1/N 302 112 - - LC-- 1/1/0/0/0 0/0 "GET /a?b HTTP/1.1""#,
    },
    Case {
        name: "redir: POST goes to the server",
        lines: "server s1 SERVER redir http://other",
        play: |front| {
            let mut client = Wire::connect(front);
            assert_eq!(client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").text(), "hello");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "POST / HTTP/1.1""#,
    },
    Case {
        name: "h1-case-adjust",
        lines: "GLOBAL h1-case-adjust content-length CoNtEnT-LeNgTh\noption h1-case-adjust-bogus-client\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = client.head().unwrap();
            assert!(head.contains("\r\nCoNtEnT-LeNgTh: 5\r\n"), "{head}");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 N - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-use-proxy-header",
        lines: "option http-use-proxy-header\n http-request auth",
        play: |front| {
            let mut client = Wire::connect(front);
            let answer = client.ask("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!((answer.status(), answer.field("proxy-authenticate")), (407, Some("Basic realm=\"site\"")));
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 407 251 - - LR-- 1/1/0/0/0 0/0 "GET http://a/ HTTP/1.1""#,
    },
    Case {
        name: "an absolute URI alone makes no proxy",
        lines: "http-request auth",
        play: |front| {
            let mut client = Wire::connect(front);
            assert_eq!(client.ask("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n").status(), 401);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 401 249 - - LR-- 1/1/0/0/0 0/0 "GET http://a/ HTTP/1.1""#,
    },
    Case {
        name: "prefer-last-server",
        lines: "option prefer-last-server\n http-reuse never\n balance roundrobin\n http-response set-header x-server %s\n server s1 SERVER\n server s2 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            let mut ask = || client.get("/").field("x-server").unwrap().to_owned();
            assert_eq!([ask(), ask(), ask()], ["s1"; 3]);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/N/N 200 54 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "independent-streams",
        lines: "mode tcp\n option tcplog\n option independent-streams\n timeout client 300ms\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /trickle HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_to_end().len(), 160);
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 160 cD 1/1/0/0/0 0/0",
    },
    Case {
        name: "without independent-streams",
        lines: "mode tcp\n option tcplog\n timeout client 300ms\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET /trickle HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_to_end().len(), 160);
        },
        expected: "CLIENT [DATE] site site/s1 N/N/N 160 -- 1/1/0/0/0 0/0",
    },
    Case {
        name: "silent-drop",
        lines: "http-request silent-drop\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(client.is_silent_for(Duration::from_millis(300)), "neither an answer nor an end");
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N -1 0 - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "what the system knows of the connection",
        lines: "http-request set-var(txn.rtt) fc_rtt(us)\n http-request set-var(txn.lost) fc_lost\n http-request return status 200 content-type text/plain lf-string \"%[var(txn.rtt),bool] %[var(txn.lost)]\"",
        play: |front| {
            assert_eq!(Wire::connect(front).get("/").text(), "1 0");
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> N/-1/-1/-1/N 200 74 - - LR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-request reject",
        lines: "http-request reject\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_end();
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N -1 0 - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-request tarpit",
        lines: "timeout tarpit 100ms\n http-request tarpit\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 500);
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/N/-1/-1/N 500 208 - - PT-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-response silent-drop",
        lines: "http-response silent-drop\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(client.is_silent_for(Duration::from_millis(300)), "neither an answer nor an end");
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 200 54 - - PR-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-response deny",
        lines: "http-response deny\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 502);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 502 263 - - PH-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-response return",
        lines: "http-response return status 204\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 204);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 204 N - - LH-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "http-response redirect",
        lines: "http-response redirect location /x\n server s1 SERVER",
        play: |front| {
            assert_eq!(get(front, "/"), 302);
        },
        expected: r#"CLIENT [DATE] site site/s1 N/N/N/-1/N 302 137 - - LH-- 1/1/0/0/0 0/0 "GET / HTTP/1.1""#,
    },
    Case {
        name: "tcp-request content reject: HTTP",
        lines: "tcp-request content reject\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_end();
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N -1 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
    Case {
        name: "tcp-request content silent-drop: HTTP",
        lines: "tcp-request content silent-drop\n server s1 SERVER",
        play: |front| {
            let mut client = Wire::connect(front);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(client.is_silent_for(Duration::from_millis(300)), "neither an answer nor an end");
        },
        expected: r#"CLIENT [DATE] site site/<NOSRV> -1/-1/-1/-1/N -1 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    },
];

#[test]
fn words_have_their_effects() {
    let wrong = differences(CASES, |config| Some(Edge::start_single(config)));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn haproxy_does_the_same() {
    let wrong = differences(CASES, Edge::start_haproxy);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
