//! Servers chosen by what an expression or a cookie of RDP says, and the order of queues, beside HAProxy where it is
//! installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use support::{Origin, Wire, beside_haproxy, ok, wait_until};

#[test]
fn a_hash_of_an_expression_chooses_like_haproxys() {
    let origins = ["one", "two", "three"].map(Origin::named);
    let hashes = [
        ("req.hdr(x-user)", "map-based"),
        ("req.hdr(x-user)", "consistent crc32"),
        ("req.hdr(x-user),lower,crc32", "consistent"),
        ("req.hdr(x-user),length", "map-based djb2"),
        ("req.hdr_ip(x-user)", "consistent"),
        ("var(txn.user)", "consistent"),
        ("path,map_beg(/dev/null,-)", "map-based"),
    ];
    let server =
        |(origin, number): (&Origin, u32)| format!(" server s{number} {} weight {}\n", origin.address, number * 10);
    let servers: String = origins.iter().zip(1..).map(server).collect();
    let backend = |(place, (expression, kind)): (usize, &(&str, &str))| {
        format!("backend b{place}\n mode http\n balance hash {expression}\n hash-type {kind}\n{servers}")
    };
    let backends: String = hashes.iter().enumerate().map(backend).collect();
    let told = beside_haproxy(
        |front| {
            format!(
                "frontend web\n mode http\n bind {front}\n http-request set-var(txn.user) req.hdr(x-user)\n \
                 use_backend b%[path,regsub(^/,)]\n{backends}"
            )
        },
        |scene| {
            let mut wire = Wire::connect(scene.front);
            let user = |number: usize| match number % 4 {
                0 => format!("10.0.{number}.7"),
                1 => number.to_string(),
                2 => format!("User-{number}"),
                _ => String::new(),
            };
            let mut ask = |place: usize, number: usize| {
                let user = user(number);
                let answer = wire.ask(format!("GET /{place} HTTP/1.1\r\nHost: h\r\nx-user: {user}\r\n\r\n"));
                format!("{} {user} -> {}", hashes[place].0, answer.text())
            };
            (0..hashes.len() * 24).map(|number| ask(number / 24, number % 24)).collect()
        },
    );
    assert!(told.iter().all(|line| line.ends_with("-> one") || line.ends_with("-> two") || line.ends_with("-> three")));
}

/// What an RDP client begins with: the headers of TPKT and X.224, then its cookie.
fn connection_request(cookie: &str) -> Vec<u8> {
    let cookie = format!("Cookie: {cookie}\r\n");
    let length = u8::try_from(cookie.len()).unwrap();
    let mut bytes = vec![3, 0, 0, 11 + length, 6 + length, 0xe0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(cookie.as_bytes());
    bytes
}

/// The cookie by which an RDP server is found again.
fn token(address: SocketAddr) -> String {
    let IpAddr::V4(ip) = address.ip() else { panic!("IPv4") };
    format!("msts={}.{}.0000", u32::from_le_bytes(ip.octets()), address.port().swap_bytes())
}

#[test]
fn clients_of_rdp_go_where_their_cookie_says() {
    let origins = ["one", "two", "three"].map(|name| {
        Origin::start(move |mut wire, _| {
            wire.read(12);
            wire.send(name);
        })
    });
    let server = |(origin, number): (&Origin, u32)| format!(" server s{number} {}\n", origin.address);
    let servers: String = origins.iter().zip(1..).map(server).collect();
    let balances = ["rdp-cookie", "rdp-cookie(mstshash)\n hash-type consistent", "leastconn"];
    let at = |front: SocketAddr, place: u16| SocketAddr::new(front.ip(), front.port() + 20_000 + place);
    let told = beside_haproxy(
        |front| {
            let section = |(place, balance): (u16, &&str)| {
                format!(
                    "listen rdp{place}\n mode tcp\n bind {}\n tcp-request inspect-delay 2s\n \
                     tcp-request content accept if RDP_COOKIE\n persist rdp-cookie\n balance {balance}\n{servers}",
                    at(front, place)
                )
            };
            (0..).zip(&balances).map(section).collect()
        },
        |scene| {
            let ask = |place: u16, cookie: &str| {
                let mut wire = Wire::connect(at(scene.front, place));
                wire.send(connection_request(cookie));
                format!("{place} {cookie} -> {}", String::from_utf8(wire.read_to_end()).unwrap())
            };
            let by_name = (0..8).map(|number| format!("mstshash=user{number}"));
            let by_token = origins.iter().map(|origin| token(origin.address));
            let broken = ["msts=1.2.3", "msts=x.1.0", "msts=12", "msts=99999999999999999999999.1.0"].map(str::to_owned);
            let cookies: Vec<String> = by_name.chain(by_token).chain(broken).collect();
            (0..3)
                .flat_map(|place| cookies.iter().map(move |cookie| (place, cookie)))
                .map(|(place, cookie)| ask(place, cookie))
                .collect()
        },
    );
    for (origin, name) in origins.iter().zip(["one", "two", "three"]) {
        let expected = format!("{} -> {name}", token(origin.address));
        assert_eq!(told.iter().filter(|line| line.ends_with(&expected)).count(), 3, "{told:#?}");
    }
}

/// Requests wait while the only connection is taken, and are served by class, then by arrival and offset.
#[test]
fn a_queue_is_served_by_priority() {
    let told = beside_haproxy(
        |front| {
            // The address of the only server goes in when it is known: here, so that each program has its own.
            format!(
                "listen web\n mode http\n bind {front}\n timeout queue 10s\n \
                 http-request set-priority-class req.hdr_val(class)\n http-request set-priority-offset req.hdr_val(offset)\n \
                 http-after-response set-header prio %[prio_class]/%[prio_offset]\n server s {} maxconn 1\n",
                front_of_server(front)
            )
        },
        |scene| {
            let (release, held) = mpsc::channel::<()>();
            let (held, served) = (Mutex::new(held), Arc::new(Mutex::new(Vec::new())));
            let seen = Arc::clone(&served);
            let origin = Origin::answering_at(front_of_server(scene.front), move |request| {
                let name = request.field("name").unwrap_or_default().to_owned();
                if name == "first" {
                    held.lock().unwrap().recv().unwrap();
                }
                seen.lock().unwrap().push(name);
                ok("")
            });
            let ask = |name: &str, class: &str, offset: &str| {
                let mut wire = Wire::connect(scene.front);
                wire.send(format!(
                    "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nname: {name}\r\nclass: {class}\r\noffset: {offset}\r\n\r\n"
                ));
                wire
            };
            let mut first = ask("first", "0", "0");
            wait_until("the server works", || origin.connections() == 1);
            let mut others = Vec::new();
            for (name, class, offset) in [
                ("plain", "0", "0"),
                ("later", "0", "60000"),
                ("sooner", "0", "-60000"),
                ("low", "10", "0"),
                ("high", "-10", "0"),
                ("highest", "-5000", "0"),
                ("second-high", "-10", "0"),
            ] {
                others.push(ask(name, class, offset));
                // One after the other, for they are to arrive in this order.
                thread::sleep(std::time::Duration::from_millis(30));
            }
            release.send(()).unwrap();
            let mut told = vec![first.answer().field("prio").unwrap_or_default().to_owned()];
            told.extend(others.iter_mut().map(|wire| wire.answer().field("prio").unwrap_or_default().to_owned()));
            told.extend(served.lock().unwrap().clone());
            told
        },
    );
    let order = ["first", "highest", "high", "second-high", "sooner", "plain", "later", "low"];
    assert_eq!(told[8..], order, "{told:?}");
}

/// An address that belongs to the one of a frontend.
fn front_of_server(front: SocketAddr) -> SocketAddr {
    SocketAddr::new(front.ip(), front.port() + 20_000)
}
