//! Messages that two parsers could read in two ways, over real sockets: none may get past the edge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Edge, Origin, Wire, free_address, ok};

const CONFIG: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 2s\n";

/// Requests that are refused as soon as their head is there.
const HEADS: &[(&str, &str)] = &[
    ("both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (
        "both lengths, turned",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    ),
    ("two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"),
    ("two equal lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
    ("list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\nabcd"),
    ("signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd"),
    ("hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd"),
    ("huge length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\nabcd"),
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("chunked not last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    ("unknown encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("encoding behind a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("chunks in 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("bare LF", "GET / HTTP/1.1\nHost: a\n\n"),
    ("bare LF in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\nY: 2\r\n\r\n"),
    ("bare CR in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n"),
    ("folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"),
    ("folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    ("blank before the colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd"),
    ("no name", "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n"),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"),
    ("host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ("no host", "GET / HTTP/1.1\r\n\r\n"),
    ("other host in the target", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("NUL in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\x002\r\n\r\n"),
    ("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("no version", "GET /\r\nHost: a\r\n\r\n"),
    ("version 1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    ("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n"),
];

/// Bodies that go wrong after their head, behind `Transfer-Encoding: chunked`.
const BODIES: &[(&str, &str)] = &[
    ("size that is no number", "zz\r\nabc\r\n0\r\n\r\n"),
    ("signed size", "+3\r\nabc\r\n0\r\n\r\n"),
    ("size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
    ("size too large", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    ("blank before the size's end", "3 \r\nabc\r\n0\r\n\r\n"),
    ("size line ended by LF", "3\nabc\r\n0\r\n\r\n"),
    ("chunk longer than its size", "3\r\nabcd\r\n0\r\n\r\n"),
    ("LF within an extension", "3;a=\nb\r\nabc\r\n0\r\n\r\n"),
    ("extension that is no token", "3;\x01\r\nabc\r\n0\r\n\r\n"),
    ("length as trailer", "3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n"),
];

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_server_cannot_open_a_tunnel_that_nobody_asked_for() {
    for (request, fields) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "Connection: upgrade\r\nUpgrade: x\r\n"),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", ""),
    ] {
        let server = Origin::start(move |mut wire, _| {
            wire.request();
            wire.try_send(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n"));
            wire.read_to_end();
        });
        for start in [|config: &str| Some(Edge::start(config)), Edge::start_haproxy] {
            let front = free_address();
            let config = format!(
                "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten web\n bind {front}\n server s {}\n",
                server.address
            );
            let Some(_edge) = start(&config) else { continue };
            assert_eq!(Wire::connect(front).ask(request).status(), 502, "{request}");
        }
    }
}

#[test]
fn ambiguous_requests_never_reach_a_server() {
    let origin = Origin::named("hello");
    let front = free_address();
    let _edge = Edge::start(&format!("{CONFIG}listen site\n bind {front}\n server s1 {}\n", origin.address));
    for (what, request) in HEADS {
        let mut client = Wire::connect(front);
        client.send(format!("{request}{SMUGGLED}"));
        let answer = client.answer_to(false).unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status(), 400, "{what}");
        client.expect_end();
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.heads());
    assert_eq!(Wire::connect(front).get("/").status(), 200, "the edge serves on");
}

#[test]
fn broken_chunks_of_requests_end_the_connection() {
    let origin = Origin::named("hello");
    let front = free_address();
    let _edge = Edge::start(&format!("{CONFIG}listen site\n bind {front}\n server s1 {}\n", origin.address));
    for (what, body) in BODIES {
        let mut client = Wire::connect(front);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{SMUGGLED}"));
        let answer = client.answer_to(false).unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status(), 400, "{what}");
        client.expect_end();
    }
    assert_eq!(origin.heads(), Vec::<String>::new());
}

/// Answers that a client could misread.
const ANSWERS: &[(&str, &str)] = &[
    ("both lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc"),
    ("folded line", "HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 3\r\n\r\nabc"),
    ("blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc"),
    ("NUL in a field", "HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 3\r\n\r\nabc"),
    ("unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("no status", "HTTP/1.1 OK\r\nContent-Length: 3\r\n\r\nabc"),
    ("not HTTP", "220 mail.example ESMTP\r\n\r\n"),
    ("nothing", ""),
];

#[test]
fn ambiguous_answers_become_502_and_their_connections_are_not_used_again() {
    for (what, bytes) in ANSWERS {
        let origin = Origin::start(move |mut wire, number| {
            while wire.request().is_some() {
                if number == 0 {
                    wire.send(bytes);
                    if bytes.is_empty() {
                        return;
                    }
                } else {
                    wire.send(ok("good"));
                }
            }
        });
        let front = free_address();
        let _edge = Edge::start_single(&format!(
            "{CONFIG}listen site\n bind {front}\n retries 0\n http-reuse always\n server s1 {}\n",
            origin.address
        ));
        let mut client = Wire::connect(front);
        assert_eq!(client.get("/").status(), 502, "{what}");
        assert_eq!(Wire::connect(front).get("/").text(), "good", "{what}");
        assert_eq!(origin.connections(), 2, "{what}");
    }
}

#[test]
fn bytes_behind_an_answer_are_not_the_next_answer() {
    let origin = Origin::start(|mut wire, number| {
        while wire.request().is_some() {
            let mut answer = ok("good");
            if number == 0 {
                answer.extend_from_slice(&ok("poison"));
            }
            wire.send(answer);
        }
    });
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "global\n nbthread 1\n{CONFIG}listen site\n bind {front}\n http-reuse always\n server s1 {}\n",
        origin.address
    ));
    for _ in 0..3 {
        assert_eq!(Wire::connect(front).get("/").text(), "good");
    }
    assert_eq!(origin.connections(), 2);
}

/// Whatever rules make of methods, statuses and lengths: who reads an answer by its head finds the next one behind it.
#[test]
fn rules_part_no_answer_from_its_length() {
    let plain = |head: bool| -> Vec<u8> {
        let body = if head { "" } else { "hello" };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").into()
    };
    let chunked = |head: bool| -> Vec<u8> {
        let body = if head { "" } else { "5\r\nhello\r\n0\r\n\r\n" };
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into()
    };
    let origin = Origin::answering(move |request| {
        let is_head = request.start_line().starts_with("HEAD ");
        if request.start_line().contains("chunked") { chunked(is_head) } else { plain(is_head) }
    });
    let odd = " if { capture.req.uri -m sub odd }\n";
    for rule in [
        "http-request set-method GET",
        "http-request set-method HEAD",
        "http-request set-method OPTIONS",
        "http-response set-status 204",
        "http-response set-status 304",
        "http-response set-header Content-Length 3",
        "http-response del-header Content-Length",
        "http-response set-header Transfer-Encoding chunked",
        "http-response del-header Transfer-Encoding",
        "http-after-response set-status 204",
        "http-after-response set-status 304",
        "http-after-response set-header Content-Length 3",
        "http-after-response del-header Content-Length",
        "http-after-response set-header Transfer-Encoding chunked",
        "http-after-response del-header Transfer-Encoding",
    ] {
        let front = free_address();
        let _edge = Edge::start_single(&format!(
            "{CONFIG}listen site\n bind {front}\n http-request deny if {{ path_beg /own }}\n {rule}{odd} server s1 {}\n",
            origin.address
        ));
        for (method, path) in [
            ("GET", "/odd"),
            ("HEAD", "/odd"),
            ("GET", "/odd-chunked"),
            ("HEAD", "/odd-chunked"),
            ("GET", "/own-odd"),
            ("HEAD", "/own-odd"),
        ] {
            let mut client = Wire::connect(front);
            let first = client.ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_ne!(first.status(), 502, "{rule} {method} {path}");
            let second = client.get("/plain");
            assert_eq!((second.status(), second.text().as_str()), (200, "hello"), "{rule} {method} {path}");
        }
    }
}

/// A server may answer before it has got all of the request. What is left of that must not be read as a request of its own.
#[test]
fn a_body_that_nobody_takes_is_no_request() {
    let origin = Origin::start(|mut wire, _| {
        while let Some(head) = wire.head() {
            let path = head.split(' ').nth(1).unwrap_or_default();
            wire.send(ok(path));
        }
    });
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "{CONFIG}listen site\n bind {front}\n filter bwlim-in up default-limit 10 default-period 60s\n \
         http-request set-bandwidth-limit up if METH_POST\n server s1 {}\n",
        origin.address
    ));
    let mut client = Wire::connect(front);
    let body = format!("{}GET /stolen HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(50));
    let length = body.len();
    let answer = client.ask(format!("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
    assert_eq!((answer.status(), answer.text().as_str()), (200, "/early"));
    assert_eq!(client.get("/next").text(), "/next");
}
