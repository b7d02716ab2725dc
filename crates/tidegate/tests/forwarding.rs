//! HTTP/1 through the edge, byte by byte, between a scripted client and scripted servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use support::{
    Answer, Edge, Origin, Wire, beside_haproxy, free_address, nginx, noise, ok, resident_kilobytes, wait_until,
};

const TIMEOUTS: &str = "timeout client 8s\n timeout server 8s\n timeout connect 2s\n timeout http-request 5s";

/// An edge in front of one server.
#[track_caller]
fn edge_before(server: SocketAddr, more: &str) -> (Edge, SocketAddr) {
    let front = free_address();
    let edge = Edge::start(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n {TIMEOUTS}\nlisten site\n bind {front}\n {more}\n server s1 {server}\n"
    ));
    (edge, front)
}

#[test]
fn connections_stay_open_on_both_sides() {
    let origin = Origin::named("hello");
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    for _ in 0..20 {
        let answer = client.get("/x");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
        assert_eq!(answer.field("connection"), None);
    }
    assert_eq!(origin.connections(), 1);
    assert_eq!(origin.heads().len(), 20);
    assert_eq!(origin.last_head().to_ascii_lowercase(), "get /x http/1.1\r\nhost: site\r\n\r\n");
}

/// Servers that keep what fields come first, or last, find them where HAProxy puts them.
#[test]
fn fields_are_added_in_haproxys_order() {
    let origin = Origin::named("one");
    let section = |front| {
        format!(
            "listen site\n mode http\n bind {front}\n option forwardfor\n option originalto\n unique-id-format %pid\n \
             unique-id-header X-Id\n server s1 {}\n",
            origin.address
        )
    };
    let told = beside_haproxy(section, |scene| {
        Wire::connect(scene.front).get("/");
        let head = origin.last_head();
        vec![head.lines().skip(1).filter_map(|line| line.split(':').next()).collect::<Vec<_>>().join(" ")]
    });
    assert_eq!(told, ["host x-id x-forwarded-for x-original-to "]);
}

#[test]
fn a_closing_client_is_closed_and_its_server_is_kept() {
    let origin = Origin::named("hello");
    let (_edge, front) = edge_before(origin.address, "http-reuse always");
    for _ in 0..3 {
        let mut client = Wire::connect(front);
        let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(answer.field("connection"), Some("close"));
        client.expect_end();
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::answering(|request| ok(request.start_line()));
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    for expected in ["GET /1 HTTP/1.1", "POST /2 HTTP/1.1", "GET /3 HTTP/1.1"] {
        assert_eq!(client.answer().text(), expected);
    }
}

#[test]
fn chunks_and_trailers_pass_both_ways() {
    let seen = Arc::new(Mutex::new(None));
    let sink = Arc::clone(&seen);
    let origin = Origin::answering(move |request| {
        *sink.lock().unwrap() = Some(request.clone());
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 7\r\n\r\n"
            .to_vec()
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    let mut answer = client.ask(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;name=value\r\n!\r\n0\r\nX-Trail: yes\r\n\r\n",
    );
    answer.trailers.make_ascii_lowercase();
    assert_eq!((answer.text().as_str(), answer.trailers.as_str()), ("abc0123456789abcdef", "x-sum: 7\r\n"));
    let mut request = seen.lock().unwrap().take().unwrap();
    request.trailers.make_ascii_lowercase();
    assert_eq!((request.text().as_str(), request.trailers.as_str()), ("hello!", "x-trail: yes\r\n"));
    assert_eq!(client.get("/again").status(), 200);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_server_may_ask_for_the_body() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        assert!(head.to_ascii_lowercase().contains("expect: 100-continue"), "{head}");
        assert!(wire.is_silent_for(Duration::from_millis(50)));
        wire.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = wire.read(4);
        wire.send(ok(&String::from_utf8(body).unwrap()));
        let _ = wire.read_to_end();
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.head().unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    assert_eq!(client.answer().text(), "body");
}

#[test]
fn a_server_may_refuse_the_body_and_a_client_need_not_wait() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        if head.starts_with("PUT /refuse") {
            wire.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno");
        } else {
            let body = wire.read(4);
            wire.send("HTTP/1.1 100 Continue\r\n\r\n");
            wire.send(ok(&String::from_utf8(body).unwrap()));
        }
        let _ = wire.read_to_end();
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    let answer = client.ask("PUT /refuse HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!((answer.status(), answer.text().as_str()), (417, "no"));
    let mut client = Wire::connect(front);
    client.send("PUT /eager HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody");
    let mut answer = client.answer();
    if answer.status() == 100 {
        answer = client.answer();
    }
    assert_eq!((answer.status(), answer.text().as_str()), (200, "body"));
}

#[test]
fn answers_without_bodies_leave_the_connection_usable() {
    let origin = Origin::answering(|request| match request.start_line().split(' ').nth(1).unwrap() {
        "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        "/304" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n".to_vec(),
        "/head" => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec(),
        _ => ok("last"),
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    assert_eq!(client.ask("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n").field("content-length"), Some("1000"));
    assert_eq!(client.get("/204").status(), 204);
    assert_eq!(client.get("/304").status(), 304);
    assert_eq!(client.get("/").text(), "last");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_early_answer_reaches_the_client_before_its_body_is_sent() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.send(ok("early"));
        let _ = wire.read_to_end();
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nfirst bytes");
    assert_eq!(client.answer().text(), "early");
}

/// Sends a body in a thread and reads the answer meanwhile.
#[track_caller]
fn post(front: SocketAddr, head: &str, body: Vec<u8>) -> Answer {
    let mut client = Wire::connect(front);
    let mut sender = client.stream.try_clone().unwrap();
    client.send(head);
    let sending = thread::spawn(move || sender.write_all(&body));
    let answer = client.answer();
    sending.join().unwrap().unwrap();
    answer
}

#[test]
fn ten_megabytes_pass_unchanged_both_ways() {
    let body = noise(10_000_000, 1);
    let back = noise(10_000_000, 2);
    let (expected, sent) = (body.clone(), back.clone());
    let origin = Origin::answering(move |request| {
        let intact = request.body == expected;
        let head = format!("HTTP/1.1 200 OK\r\nx-intact: {intact}\r\ncontent-length: {}\r\n\r\n", sent.len());
        [head.as_bytes(), &sent].concat()
    });
    let (_edge, front) = edge_before(origin.address, "");
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = post(front, &head, body);
    assert_eq!(answer.field("x-intact"), Some("true"));
    assert!(answer.body == back);
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 100_000);
    for (number, chunk) in body.chunks(70_001).enumerate() {
        // Some chunks are tiny, so that their sizes fall on every place of a buffer.
        for part in [&chunk[..number % 7], &chunk[number % 7..]] {
            if !part.is_empty() {
                write!(bytes, "{:x}\r\n", part.len()).unwrap();
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
        }
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

#[test]
fn ten_megabytes_in_chunks_pass_unchanged_both_ways() {
    let body = noise(10_000_000, 3);
    let back = noise(10_000_000, 4);
    let (expected, sent) = (body.clone(), back.clone());
    let origin = Origin::answering(move |request| {
        let intact = request.body == expected;
        let head = format!("HTTP/1.1 200 OK\r\nx-intact: {intact}\r\ntransfer-encoding: chunked\r\n\r\n");
        [head.as_bytes(), &chunked(&sent)].concat()
    });
    let (_edge, front) = edge_before(origin.address, "");
    let answer = post(front, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(&body));
    assert_eq!(answer.field("x-intact"), Some("true"));
    assert!(answer.body == back);
}

#[test]
fn a_client_of_1_0_gets_chunks_as_plain_bytes_to_the_end() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".to_vec()
    });
    let front = free_address();
    // Whatever else the body goes through: filters, and a cache that stores it.
    let _edge = Edge::start(&format!(
        "defaults\n mode http\n {TIMEOUTS}\nlisten site\n bind {front}\n filter bwlim-out down default-limit 1m \
         default-period 1s\n filter trace random-forwarding quiet\n filter cache small\n filter compression\n \
         compression algo gzip\n http-request set-bandwidth-limit down if {{ path /slow }}\n http-request cache-use small \
         if {{ path /stored }}\n http-response cache-store small\n server s1 {}\ncache small\n total-max-size 4\n",
        origin.address
    ));
    for path in ["/", "/slow", "/stored", "/stored"] {
        let answer =
            Wire::connect(front).ask(format!("GET {path} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        assert_eq!(answer.field("transfer-encoding"), None);
        assert_eq!(answer.text(), "abcde", "{path}");
    }
}

#[test]
fn an_answer_that_ends_with_the_connection_is_whole() {
    let body = noise(300_000, 5);
    let sent = body.clone();
    let origin = Origin::start(move |mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\n\r\n");
        wire.send(&sent);
    });
    let (_edge, front) = edge_before(origin.address, "");
    for version in ["1.1", "1.0"] {
        let mut client = Wire::connect(front);
        let answer = client.ask(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        assert!(answer.body == body, "HTTP/{version}");
    }
}

#[test]
fn absolute_targets_are_accepted_when_they_agree_with_host() {
    let origin = Origin::named("hello");
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    assert_eq!(client.ask("GET http://site/x?y HTTP/1.1\r\nHost: site\r\n\r\n").status(), 200);
    let first = origin.last_head().lines().next().unwrap().to_owned();
    assert!(first == "GET http://site/x?y HTTP/1.1" || first == "GET /x?y HTTP/1.1", "{first}");
    assert_eq!(client.ask("GET http://site/x HTTP/1.1\r\nHost: other\r\n\r\n").status(), 400);
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn an_upgraded_connection_carries_bytes_only_after_the_servers_101() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        assert!(head.to_ascii_lowercase().contains("upgrade: websocket"), "{head}");
        let is_silent = wire.is_silent_for(Duration::from_millis(150));
        let verdict = if is_silent { "101 Switching Protocols" } else { "500 Came Too Early" };
        wire.send(format!("HTTP/1.1 {verdict}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nfirst"));
        assert_eq!(wire.read(5), b"hasty");
        wire.send("reply");
        assert_eq!(wire.read(4), b"more");
        wire.send("end");
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nhasty");
    let head = client.head().unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client.expect("first");
    client.expect("reply");
    client.send("more");
    client.expect("end");
    client.expect_end();
}

#[test]
fn a_refused_upgrade_is_an_ordinary_answer() {
    let origin = Origin::named("no upgrade");
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    let answer = client.ask("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert_eq!(answer.text(), "no upgrade");
    assert_eq!(client.get("/").text(), "no upgrade");
}

#[test]
fn connect_opens_a_tunnel_when_the_server_agrees() {
    let origin = Origin::start(|mut wire, _| {
        let head = wire.head().unwrap();
        assert!(head.starts_with("CONNECT other:443 HTTP/1.1\r\n"), "{head}");
        wire.send("HTTP/1.1 200 Connected\r\n\r\n");
        assert_eq!(wire.read(5), b"hello");
        wire.send("world");
    });
    let (_edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send("CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n");
    let head = client.head().unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    client.send("hello");
    client.expect("world");
    client.expect_end();
}

#[test]
fn a_slow_reader_holds_its_server_back() {
    const SIZE: usize = 100_000_000;
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let origin = Origin::start(move |mut wire, _| {
        wire.request();
        wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        let block = [b'x'; 65536];
        while wire.try_send(block) {
            counter.fetch_add(block.len(), SeqCst);
        }
    });
    let (edge, front) = edge_before(origin.address, "");
    let mut client = Wire::connect(front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let before: u64 = edge.workers().into_iter().map(resident_kilobytes).sum();
    let mut last = usize::MAX;
    wait_until("the server is held back", || {
        thread::sleep(Duration::from_millis(200));
        let now = written.load(SeqCst);
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    // Kernel buffers of two connections take some megabytes; the edge itself must not take the rest.
    assert!(last < SIZE / 3, "{last} bytes were taken from the server");
    let after: u64 = edge.workers().into_iter().map(resident_kilobytes).sum();
    assert!(after < before + 8_000, "memory grew from {before} to {after} kB");
}

#[test]
fn a_real_server_gives_the_same_file_through_the_edge() {
    let Some(peer) = nginx("real") else { return };
    let content = noise(3_000_000, 6);
    peer.file("file", &content);
    let (_edge, front) = edge_before(peer.address, "");
    let mut client = Wire::connect(front);
    for _ in 0..2 {
        assert!(client.get("/file").body == content);
    }
    let answer = client.ask("GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=10-19\r\n\r\n");
    assert_eq!((answer.status(), answer.body.as_slice()), (206, &content[10..20]));
    assert_eq!(client.get("/missing").status(), 404);
}
