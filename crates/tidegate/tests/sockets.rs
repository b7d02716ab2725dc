//! Sockets: which workers serve a listener, buffers, TCP Fast Open, abstract names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    os::{linux::net::SocketAddrExt as _, unix::net::UnixDatagram},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use support::{Edge, Folder, Network, Origin, Wire, beside_haproxy, free_address, ok};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 2s\n timeout server 2s\n timeout connect 1s\n";

/// The workers that answer on an address, as they call themselves.
fn workers_of(address: SocketAddr) -> BTreeSet<String> {
    (0..24).map(|_| Wire::connect(address).get("/").text()).collect()
}

#[test]
fn listeners_are_served_by_the_threads_that_they_name() {
    let fronts: Vec<SocketAddr> = (0..7).map(|_| free_address()).collect();
    // The words of each listener, and who may answer; `accept` is an addition of ours.
    let words = ["thread 1", "thread 2", "thread even", "thread 2-9", "process 1/1", "", "thread 1 thread 2"];
    let ways = ["", "accept shared", "accept dispatch"];
    let config = |way: &str| {
        let binds = fronts.iter().zip(words).map(|(front, words)| format!(" bind {front} {words} {way}\n"));
        let answer = "http-request return status 200 content-type text/plain lf-string \"%[thread]\"";
        format!("global\n nbthread 2\n{DEFAULTS}frontend f\n{} {answer}\n", binds.collect::<String>())
    };
    let all: BTreeSet<String> = ["0", "1"].map(str::to_owned).into();
    let expected: Vec<BTreeSet<String>> =
        ["0", "1", "1", "1", "0"].iter().map(|worker| [(*worker).to_owned()].into()).collect();
    let check = |edge: Edge| {
        for ((front, expected), words) in fronts.iter().zip(&expected).zip(words) {
            assert_eq!(workers_of(*front), *expected, "{words}");
        }
        assert!(fronts[5..].iter().all(|front| workers_of(*front).is_subset(&all)));
        drop(edge);
    };
    for way in ways {
        check(Edge::start_single(&config(way)));
    }
    if let Some(edge) = Edge::start_haproxy(&config("")) {
        check(edge);
    }
}

#[test]
fn threads_that_are_not_there_are_refused() {
    let config = format!("global\n nbthread 2\n{DEFAULTS}frontend f\n bind 127.0.0.1:1 thread 3-\n");
    let said = |program: &str, words: &[&str]| {
        let folder = Folder::new();
        let path = folder.file("haproxy.cfg", &config);
        let output = Command::new(program).args(words).arg("-f").arg(&path).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let line = text.lines().find(|line| line.contains("Proxy 'f'")).unwrap_or_default();
        (
            output.status.code(),
            line.split_once("config : ").unwrap_or_default().1.replace(path.to_str().unwrap(), "FILE"),
        )
    };
    let ours = said(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-c"]);
    let text =
        "Proxy 'f': 'thread' directive contains threads that belong to no group in 'bind 127.0.0.1:1' at [FILE:9].";
    assert_eq!(ours, (Some(1), text.to_owned()));
    if std::path::Path::new("/usr/sbin/haproxy").exists() {
        assert_eq!(said("/usr/sbin/haproxy", &["-c"]), ours);
    }
}

/// The sizes of the buffers of sockets of a process between two ports: `rb4608 tb9216`.
fn buffers(filter: &str) -> String {
    let output = Command::new("ss").args(["-Htnm", "state", "established", filter]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sizes = text.split(['(', ',', ')']).filter(|part| {
        (part.starts_with("rb") || part.starts_with("tb")) && part[2..].bytes().all(|byte| byte.is_ascii_digit())
    });
    sizes.collect::<Vec<_>>().join(" ")
}

#[test]
fn buffers_have_the_sizes_that_are_configured() {
    let origin = Origin::named("hello");
    let section = |front| {
        format!(
            " mode http\nglobal\n tune.rcvbuf.client 4000\n tune.sndbuf.client 6000\n tune.rcvbuf.server 8000\n \
             tune.sndbuf.server 12000\nlisten site\n bind {front}\n server s1 {}\n",
            origin.address
        )
    };
    let told = beside_haproxy(section, |scene| {
        let mut client = Wire::connect(scene.front);
        assert_eq!(client.get("/").text(), "hello");
        vec![
            buffers(&format!("( sport = {} )", scene.front.port())),
            buffers(&format!("( dport = {} )", origin.address.port())),
        ]
    });
    // The system takes them twice for what it needs itself.
    assert_eq!(told, ["rb8000 tb12000", "rb16000 tb24000"]);
}

/// Connections that began with data, at the other end of a network.
fn fast_opened(network: &Network) -> u64 {
    let text = network.at_other_end(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "TCPFastOpenPassive").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn requests_go_with_the_first_packet() {
    let Some(network) = Network::new() else { return };
    let address = SocketAddr::new(IpAddr::V4(network.there), 8000);
    // Clients and servers may, and every listener does.
    network.at_other_end(|| std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1027").unwrap());
    let origin = network.at_other_end(|| {
        Origin::start_at(address, |mut wire, _| {
            while wire.request().is_some() {
                wire.send(ok("hello"));
            }
        })
    });
    let front = free_address();
    let config = |word: &str| {
        format!(
            "{DEFAULTS}listen site\n bind {front}\n option http-server-close\n retry-on conn-failure empty-response \
             response-timeout\n server s1 {} {word}\n",
            origin.address
        )
    };
    for (word, expected) in [("", 0), ("tfo", 2)] {
        let edge = Edge::start_single(&config(word));
        let before = fast_opened(&network);
        let mut client = Wire::connect(front);
        // The first connection asks for the cookie that the others show.
        for _ in 0..3 {
            assert_eq!(client.get("/").text(), "hello");
        }
        assert_eq!(fast_opened(&network) - before, expected, "'{word}'");
        drop(edge);
    }
}

#[test]
fn what_a_tcp_client_has_said_goes_with_the_first_packet() {
    let Some(network) = Network::new() else { return };
    let address = SocketAddr::new(IpAddr::V4(network.there), 8000);
    network.at_other_end(|| std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1027").unwrap());
    let origin = network.at_other_end(|| {
        Origin::start_at(address, |mut wire, _| {
            wire.send("welcome");
            let said = wire.read_to_end();
            wire.try_send(said);
        })
    });
    let (front, quiet) = (free_address(), free_address());
    let _edge = Edge::start_single(&format!(
        "{DEFAULTS}listen site\n mode tcp\n bind {front}\n tcp-request inspect-delay 5s\n \
         tcp-request content accept if {{ req.len gt 0 }}\n server s1 {} tfo\nlisten silent\n mode tcp\n \
         bind {quiet}\n server s1 {} tfo\n",
        origin.address, origin.address
    ));
    let before = fast_opened(&network);
    for _ in 0..3 {
        let mut client = Wire::connect(front);
        client.send("hello");
        client.expect("welcome");
        client.shut_write();
        client.expect("hello");
    }
    // The first connection asks for the cookie that the others show.
    assert_eq!(fast_opened(&network) - before, 2);
    // A server that speaks first is not kept waiting for its client.
    Wire::connect(quiet).expect("welcome");
    assert_eq!(fast_opened(&network) - before, 2);
}

#[test]
fn a_server_that_refuses_a_fast_opened_connection_is_down_for_its_client() {
    let config = format!(
        "{DEFAULTS}.diag x\nlisten site\n bind {}\n retries 1\n server s1 {} tfo\n",
        free_address(),
        free_address()
    );
    let edge = Edge::start_single(&config);
    let warning = "server has tfo activated, the backend should be configured with at least 'conn-failure'";
    edge.wait_output(warning);
    let front = config.split("bind ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert_eq!(Wire::connect(front).get("/").status(), 503);
}

/// Names of abstract sockets are filled up to the longest possible one wherever they are: those who listen, connect, check
/// and log mean the same by one name, and the same as HAProxy.
#[test]
fn abstract_sockets_find_each_other() {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let origin = Origin::named("behind");
    let name = || format!("tidegate-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let logged = name();
    let section = |front| {
        let tier = name();
        format!(
            " log abns@{logged} local0\n mode http\nlisten front\n bind {front}\n server tier abns@{tier} send-proxy-v2 check inter \
             50ms\nlisten back\n bind abns@{tier} accept-proxy\n http-response set-header local %[src_is_local],%[fc_src_is_local]\n \
             server s1 {}\n",
            origin.address
        )
    };
    let padded = [logged.as_bytes(), &vec![0; 107 - logged.len()]].concat();
    let log = UnixDatagram::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(padded).unwrap()).unwrap();
    log.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let told = beside_haproxy(section, |scene| {
        let answer = Wire::connect(scene.front).ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut logged = [0, 1].map(|_| {
            let mut line = [0; 1024];
            let count = log.recv(&mut line).unwrap();
            String::from_utf8_lossy(&line[..count]).split('(').next_back().unwrap().trim_end().to_owned()
        });
        logged.sort();
        vec![answer.text(), answer.field("local").unwrap().to_owned(), logged.concat()]
    });
    assert_eq!(told, ["behind", "1,1", "back/HTTP)front/HTTP)"]);
}

/// A port whose connection stands, or has just ended, leads nowhere else at the moment: the next one of the range does.
#[test]
fn a_range_of_source_ports_serves_one_connection_after_the_other() {
    let origin = Origin::start(|mut wire, _| {
        let from = wire.stream.peer_addr().unwrap();
        while wire.request().is_some() {
            wire.send(ok(&from.to_string()));
        }
    });
    let low = free_address().port();
    let (front, source) = (free_address(), IpAddr::from([127, 77, 1, u8::try_from(low % 250).unwrap() + 1]));
    let section = format!(
        "{DEFAULTS} retries 0\nlisten site\n bind {front}\n http-reuse never\n \
         server s1 {} source {source}:{low}-{} check inter 50ms\n",
        origin.address,
        low + 7
    );
    let _edge = Edge::start_single(&section);
    let ask = |wire: &mut Wire| wire.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text();
    // Some stand, and some have ended, the server's end first or last.
    let mut kept: Vec<Wire> = (0..3).map(|_| Wire::connect(front)).collect();
    let mut from: BTreeSet<String> = kept.iter_mut().map(ask).collect();
    for _ in 0..3 {
        from.insert(ask(&mut Wire::connect(front)));
    }
    assert!(from.len() >= 3, "{from:?}");
    assert!(from.iter().all(|from| from.starts_with(&format!("{source}:"))), "{from:?}");
}
