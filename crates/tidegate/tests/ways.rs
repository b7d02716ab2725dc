//! Ways to servers that are not straight: PROXY headers with fields, SOCKS4 proxies, other network namespaces; and headers
//! of those in front.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
};

use support::{Edge, Network, Origin, Scene, Wire, beside_haproxy, free_address, ok};

/// What comes before the request on each connection, and then an answer to every request.
fn before_requests() -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind(free_address()).unwrap();
    let (address, (told, heard)) = (listener.local_addr().unwrap(), mpsc::channel());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut wire, told) = (Wire::new(stream.unwrap()), told.clone());
            thread::spawn(move || {
                let Some(mut head) = wire.read_through(b"\r\n\r\n\0\r\nQUIT\n") else { return };
                head.extend(wire.read(4));
                let length = u16::from_be_bytes([head[14], head[15]]);
                head.extend(wire.read(usize::from(length)));
                let _ = told.send(head);
                while wire.request().is_some() && wire.try_send(ok("")) {}
            });
        }
    });
    (address, heard)
}

/// A header without the ports and sums that change.
fn shown(header: &[u8]) -> String {
    let addresses = if header[13] == 0x11 { 12 } else { 0 };
    let mut fields = Vec::new();
    let mut rest = &header[16 + addresses..];
    while let [kind, high, low, after @ ..] = rest {
        let (value, next) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        fields.push(match kind {
            3 => format!("sum of {}", value.len()),
            _ => format!("{kind:#x} {}", String::from_utf8_lossy(value).escape_debug()),
        });
        rest = next;
    }
    format!("{:#x} {:#x} {} {}", header[12], header[13], addresses, fields.join(", "))
}

/// Each request has a header of its own as soon as it says something else than the one before.
#[test]
fn fields_of_the_proxy_protocol() {
    let (server, heard) = before_requests();
    let play = |scene: &Scene| {
        let mut said = Vec::new();
        let mut wire = Wire::connect(scene.front);
        // Version 2, PROXY, TCP over IPv4; the authority is the client's.
        let header =
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\xC0\0\x02\x01\xC0\0\x02\x02\x30\x39\0\x50\x02\0\x05a.b.c".to_vec();
        wire.send(header);
        for path in ["/one", "/one", "/two", "/set"] {
            wire.ask(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
            said.extend(heard.try_iter().map(|header| format!("{path}: {}", shown(&header))));
        }
        said
    };
    let found = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n bind {front} accept-proxy\n unique-id-format %[path]\n http-request set-src \
                 ipv4(192.0.2.77) if {{ path /set }}\n server s {server} send-proxy-v2 proxy-v2-options \
                 crc32c,authority,unique-id,ssl"
            )
        },
        play,
    );
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], "/one: 0x21 0x11 12 sum of 4, 0x2 a.b.c, 0x5 /one, 0x20 \\0\\0\\0\\0\\0");
}

/// A connection that began with one client's header serves no other client, whatever is said about reuse.
#[test]
fn connections_with_a_header_are_not_shared() {
    let (server, heard) = before_requests();
    let play = |scene: &Scene| {
        let (mut first, mut second) = (Wire::connect(scene.front), Wire::connect(scene.front));
        for _ in 0..2 {
            first.get("/");
            second.get("/");
        }
        vec![heard.try_iter().count().to_string()]
    };
    let found = beside_haproxy(
        |front| format!("listen site\n mode http\n bind {front}\n http-reuse always\n server s {server} send-proxy-v2"),
        play,
    );
    assert_eq!(found, ["2"]);
}

/// A SOCKS4 proxy that takes connections to one place; what it was asked.
fn socks4() -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind(free_address()).unwrap();
    let (address, (told, heard)) = (listener.local_addr().unwrap(), mpsc::channel());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, told) = (stream.unwrap(), told.clone());
            thread::spawn(move || {
                let mut question = [0; 16];
                if client.read_exact(&mut question).is_err() {
                    return;
                }
                let port = u16::from_be_bytes([question[2], question[3]]);
                let ip = Ipv4Addr::new(question[4], question[5], question[6], question[7]);
                let _ = told.send(question.to_vec());
                let Ok(server) = TcpStream::connect((ip, port)) else {
                    let _ = client.write_all(&[0, 91, 0, 0, 0, 0, 0, 0]);
                    return;
                };
                // In two parts: nobody may rely on one.
                client.write_all(&[0, 90, 0]).unwrap();
                client.write_all(&[0, 0, 0, 0, 0]).unwrap();
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                let _ = std::io::copy(&mut client, &mut &server);
            });
        }
    });
    (address, heard)
}

#[test]
fn through_a_socks4_proxy() {
    let (socks, heard) = socks4();
    let origin = Origin::answering(|_| ok("behind"));
    let nobody = free_address();
    let play = |scene: &Scene| {
        let mut said = Vec::new();
        for path in ["/", "/nobody", "/checked"] {
            let answer = Wire::connect(scene.front).get(path);
            said.push(format!("{path} {} {}", answer.status(), answer.text().len()));
        }
        let questions: Vec<Vec<u8>> = heard.try_iter().collect();
        let port = origin.address.port().to_be_bytes();
        assert!(questions.iter().any(|question| question[..4] == [4, 1, port[0], port[1]]));
        assert!(questions.iter().all(|question| question.ends_with(b"HAProxy\0")));
        said
    };
    let found = beside_haproxy(
        |front| {
            format!(
                "frontend site\n mode http\n bind {front}\n use_backend nobody if {{ path /nobody }}\n use_backend \
                 checked if {{ path /checked }}\n default_backend all\nbackend all\n mode http\n server s {} socks4 \
                 {socks}\nbackend nobody\n mode http\n retries 0\n server s {nobody} socks4 {socks}\nbackend checked\n mode \
                 http\n option httpchk\n server s {} socks4 {socks} check-via-socks4 check inter 3s",
                origin.address, origin.address
            )
        },
        play,
    );
    assert_eq!(found[0], "/ 200 6");
    assert!(found[1].starts_with("/nobody 503") && found[2].starts_with("/checked 200"), "{found:?}");
}

#[test]
fn netscaler_headers() {
    let origin = Origin::answering(|request| ok(request.field("x-ends").unwrap_or_default()));
    let mut headers = vec![0; 40];
    headers[0] = 0x45;
    headers[9] = 6;
    headers[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    headers[20..24].copy_from_slice(&[0x30, 0x39, 0x00, 0x50]);
    let older = [&[0, 0, 0, 77, 0, 0, 0, 40][..], &headers].concat();
    let newer = [&[0, 0, 0, 77, 0, 0, 0, 44, 0, 0, 0, 40][..], &headers].concat();
    let wrong = [&[0, 0, 0, 78, 0, 0, 0, 40][..], &headers].concat();
    let play = |scene: &Scene| {
        let tell = |header: &[u8]| {
            let mut wire = Wire::connect(scene.front);
            wire.send([header, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"].concat());
            wire.answer_to(false).map(|answer| answer.text())
        };
        let said = tell(&older);
        assert_eq!(tell(&newer), said, "both forms say the same");
        vec![format!("{said:?} {:?}", tell(&wrong))]
    };
    let found = beside_haproxy(
        |front| {
            format!(
                "listen site\n mode http\n bind {front} accept-netscaler-cip 77\n http-request set-header x-ends \
                 %[src]:%[src_port]-%[dst]:%[dst_port]\n server s {}",
                origin.address
            )
        },
        play,
    );
    assert_eq!(found, ["Some(\"192.0.2.1:12345-192.0.2.2:80\") None"]);
}

/// A server that only another network namespace reaches, and a listener that is only there.
#[test]
fn other_namespaces() {
    let Some(network) = Network::new() else { return };
    let (inside, front) = (free_address(), free_address());
    let name = network.name();
    let listener = network.at_other_end(|| TcpListener::bind(("127.0.0.1", inside.port())).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut wire = Wire::new(stream.unwrap());
            while wire.request().is_some() && wire.try_send(ok("inside")) {}
        }
    });
    let port = inside.port();
    let edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n \
         server s 127.0.0.1:{port} namespace {name}\nfrontend there\n bind :{} namespace {name}\n http-request \
         return status 200 content-type text/plain string there\n",
        port + 1
    ));
    assert_eq!(Wire::connect(front).get("/").text(), "inside");
    let there = SocketAddr::from((network.there, port + 1));
    assert_eq!(Wire::connect(there).get("/").text(), "there");
    drop(edge);
}

/// Addresses of clients, in place of this machine's own.
#[test]
fn sources() {
    let origin = Origin::start(|mut wire, _| {
        let from = wire.stream.peer_addr().unwrap().ip().to_string();
        while wire.request().is_some() && wire.try_send(ok(&from)) {}
    });
    let play = |scene: &Scene| {
        let ask = |path: &str, header: &str| {
            let mut wire = Wire::connect(scene.front);
            wire.ask(format!("GET {path} HTTP/1.1\r\nhost: h\r\n{header}\r\n"))
        };
        let mut said = Vec::new();
        for (path, header) in [
            ("/clientip", ""),
            ("/client", ""),
            ("/address", ""),
            ("/header", "x-from: 127.0.0.21, 127.0.0.22\r\n"),
            ("/first", "x-from: 127.0.0.21, 127.0.0.22\r\n"),
            ("/header", ""),
            ("/lo", ""),
        ] {
            let answer = ask(path, header);
            let text = if answer.status() == 200 { answer.text() } else { String::new() };
            said.push(format!("{path} {} {text}", answer.status()));
        }
        said
    };
    let found = beside_haproxy(
        |front| {
            let backend = |name: &str, words: &str| {
                format!(
                    "backend {name}\n mode http\n retries 0\n http-request set-src ipv4(127.0.0.20) if {{ path /clientip }}\n \
                     server s {} source {words}\n",
                    origin.address
                )
            };
            [
                format!("frontend site\n mode http\n bind {front}\n use_backend %[path,field(2,/)]\n"),
                backend("clientip", "0.0.0.0 usesrc clientip"),
                backend("client", "0.0.0.0 usesrc client"),
                backend("address", "0.0.0.0 usesrc 127.0.0.23"),
                backend("header", "0.0.0.0 usesrc hdr_ip(x-from)"),
                backend("first", "0.0.0.0 usesrc hdr_ip(x-from,1)"),
                backend("lo", "127.0.0.24 interface lo"),
            ]
            .concat()
        },
        play,
    );
    assert_eq!(found[0], "/clientip 200 127.0.0.20");
    assert_eq!(found[3..], ["/header 200 127.0.0.22", "/first 200 127.0.0.21", "/header 500 ", "/lo 200 127.0.0.24"]);
}
