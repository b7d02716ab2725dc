//! TCP mode, the PROXY protocol and unix sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

use support::{Edge, Folder, Origin, Wire, free_address, noise, ok, wait_until};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n";

#[test]
fn either_side_may_end_first() {
    let origin = Origin::start(|mut wire, _| {
        let request = wire.read_to_end();
        wire.send(format!("got {}", request.len()));
    });
    let talker = Origin::start(|mut wire, _| {
        wire.send("bye");
        wire.shut_write();
        assert_eq!(wire.read_to_end(), b"still here");
    });
    let (front, other) = (free_address(), free_address());
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen a\n mode tcp\n bind {front}\n server s1 {}\nlisten b\n mode tcp\n bind {other}\n server s1 {}\n",
        origin.address, talker.address
    ));
    let mut client = Wire::connect(front);
    client.send(noise(500_000, 9));
    client.shut_write();
    client.expect("got 500000");
    client.expect_end();
    let mut client = Wire::connect(other);
    client.expect("bye");
    client.expect_end();
    client.send("still here");
}

#[test]
fn ten_megabytes_pass_unchanged_both_ways_at_once() {
    let origin = Origin::start(|mut wire, _| {
        while wire.fill() > 0 {
            let bytes = std::mem::take(&mut wire.buffer);
            wire.send(bytes);
        }
    });
    let front = free_address();
    let _edge = Edge::start(&format!("{DEFAULTS}listen a\n mode tcp\n bind {front}\n server s1 {}\n", origin.address));
    let mut client = Wire::connect(front);
    let body = noise(10_000_000, 10);
    let (mut sender, copy) = (client.stream.try_clone().unwrap(), body.clone());
    let sending = thread::spawn(move || {
        sender.write_all(&copy).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
    });
    assert!(client.read_to_end() == body);
    sending.join().unwrap();
}

#[test]
fn proxy_headers_are_believed_and_sent() {
    let v1 = Origin::start(|mut wire, _| {
        let line = String::from_utf8(wire.read_through(b"\r\n").unwrap()).unwrap();
        let request = wire.head().unwrap();
        wire.send(ok(&format!("{line}{request}")));
    });
    let v2 = Origin::start(|mut wire, _| {
        let head = wire.read(28);
        wire.head();
        wire.send(ok(&format!("{head:?}")));
    });
    let (one, two) = (free_address(), free_address());
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen a\n bind {one} accept-proxy\n option forwardfor\n server s1 {} send-proxy\nlisten b\n bind {two} accept-proxy\n server s1 {} send-proxy-v2\n",
        v1.address, v2.address
    ));
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = Wire::connect(one);
    let seen = client.ask(format!("PROXY TCP4 192.0.2.7 198.51.100.1 5555 80\r\n{request}")).text();
    assert!(seen.starts_with("PROXY TCP4 192.0.2.7 198.51.100.1 5555 80\r\n"), "{seen}");
    assert!(seen.to_ascii_lowercase().contains("x-forwarded-for: 192.0.2.7\r\n"), "{seen}");
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend_from_slice(&[192, 0, 2, 8, 198, 51, 100, 1, 0x15, 0xb3, 0, 80]);
    let mut client = Wire::connect(two);
    let answer = client.ask([header.as_slice(), request.as_bytes()].concat());
    assert_eq!(answer.text(), format!("{header:?}"));
    let mut liar = Wire::connect(one);
    liar.send(request);
    liar.expect_end();
}

#[test]
fn unix_sockets_serve_on_both_sides() {
    let folder = Folder::new();
    let (front, back) = (folder.0.join("front"), folder.0.join("back"));
    let listener = UnixListener::bind(&back).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 1000];
        let count = stream.read(&mut bytes).unwrap();
        assert!(bytes[..count].starts_with(b"GET /unix HTTP/1.1\r\n"));
        stream.write_all(&ok("from a unix socket")).unwrap();
    });
    let tcp = free_address();
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen a\n bind {tcp}\n bind unix@{}\n server s1 unix@{}\n",
        front.display(),
        back.display()
    ));
    wait_until("the socket is there", || UnixStream::connect(&front).is_ok());
    let mut client = UnixStream::connect(&front).unwrap();
    client.write_all(b"GET /unix HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("from a unix socket"), "{answer}");
}

#[test]
fn use_server_and_force_persist_choose_in_tcp_mode() {
    let say = |name: &'static str| {
        Origin::start(move |mut wire, _| {
            wire.send(name);
            wire.shut_write();
        })
    };
    let (one, two) = (say("one"), say("two"));
    let section = |front| {
        format!(
            "listen a\n mode tcp\n bind {front}\n use-server down if TRUE\n use-server two if TRUE\n server down 127.0.0.1:1 disabled\n server one {}\n server two {}\n",
            one.address, two.address
        )
    };
    let front = free_address();
    let _edge = Edge::start(&format!("{DEFAULTS}{}", section(front)));
    for _ in 0..3 {
        Wire::connect(front).expect("two");
    }
    let front = free_address();
    let _edge = Edge::start(&format!("{DEFAULTS} retries 0\n{} force-persist if TRUE\n", section(front)));
    Wire::connect(front).expect_end();
}
