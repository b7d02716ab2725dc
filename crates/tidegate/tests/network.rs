//! Networks that are cut in the middle of things. Needs root and network name spaces; skipped where there are none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::Read,
    net::{IpAddr, SocketAddr},
    thread,
};

use support::{Network, Origin, Scene, Wire, beside_haproxy, ok, server_and_end, wait_until};

/// A server that sends a small answer, or begins a large one and goes on with it for ever.
fn serve(mut wire: Wire, _: usize) {
    while let Some(request) = wire.request() {
        if !request.head.starts_with("GET /large") {
            wire.send(ok("small"));
            continue;
        }
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        while wire.try_send([b'x'; 50_000]) {}
    }
}

fn far_server(network: &Network) -> Origin {
    let address = SocketAddr::new(IpAddr::V4(network.there), 8000);
    network.at_other_end(|| Origin::start_at(address, serve))
}

fn get(scene: &Scene) -> (u16, String) {
    let status = Wire::connect(scene.front).get("/").status();
    (status, server_and_end(&scene.log.line_with("site site/")))
}

#[test]
fn a_server_behind_a_cut_cable_is_noticed_and_comes_back() {
    let Some(network) = Network::new() else { return };
    let origin = far_server(&network);
    let section = |front| {
        format!(
            " mode http\n option httplog\n timeout server 400ms\n timeout connect 300ms\n timeout check 200ms\n retries 0\nlisten site\n bind {front}\n server s1 {} check inter 700ms fall 2 rise 1\n",
            origin.address
        )
    };
    let told = beside_haproxy(section, |scene| {
        network.set_connected(true);
        wait_until("the server answers", || get(scene).0 == 200);
        let mut told = Vec::new();
        // In the middle of a transfer: `timeout server`.
        let mut client = Wire::connect(scene.front);
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        client.head().unwrap();
        client.read(10_000);
        network.set_connected(false);
        client.read_to_end();
        told.push(server_and_end(&scene.log.line_with("site site/")));
        // The checks find out as well, and then nobody has to wait for a timeout any more.
        let mut answers = Vec::new();
        wait_until("the server is down", || {
            answers.push(get(scene));
            answers.last().unwrap().1 == "site/<NOSRV> SC"
        });
        answers.dedup();
        // How many requests there were before is a matter of luck.
        answers.retain(|(_, end)| end != "site/s1 sC");
        told.extend(answers.into_iter().map(|(status, end)| format!("{status} {end}")));
        network.set_connected(true);
        wait_until("the server is back", || get(scene).0 == 200);
        told
    });
    assert_eq!(told, ["site/s1 sD", "503 site/<NOSRV> SC"]);
}

#[test]
fn a_connect_that_nothing_answers_is_a_timeout() {
    let Some(network) = Network::new() else { return };
    let origin = far_server(&network);
    let section = |front| {
        format!(
            " mode http\n option httplog\n timeout connect 200ms\n retries 1\nlisten site\n bind {front}\n server s1 {}\n",
            origin.address
        )
    };
    let told = beside_haproxy(section, |scene| {
        network.set_connected(true);
        wait_until("the server answers", || get(scene).0 == 200);
        network.set_connected(false);
        let (status, end) = get(scene);
        vec![format!("{status} {end}")]
    });
    assert_eq!(told, ["503 site/s1 sC"]);
}

#[test]
fn clients_behind_a_cut_cable_are_let_go() {
    let Some(network) = Network::new() else { return };
    let origin = Origin::start(serve);
    let far_front = SocketAddr::new(IpAddr::V4(network.here), 8001);
    let expected = [["site/<NOSRV> cR", "site/s1 cD"], ["site/s1 cD", "site/s1 cD"]];
    for ((mode, log), expected) in [("http", "httplog"), ("tcp", "tcplog")].into_iter().zip(expected) {
        let section = |front| {
            format!(
                " mode {mode}\n option {log}\n timeout client 400ms\nlisten site\n bind {front}\n bind {far_front}\n server s1 {}\n",
                origin.address
            )
        };
        let told = beside_haproxy(section, |scene| {
            network.set_connected(true);
            let (mut reading, mut sending) = (network.connect(far_front), network.connect(far_front));
            reading.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            reading.head().unwrap();
            let reader =
                thread::spawn(move || while reading.stream.read(&mut [0; 10_000]).is_ok_and(|count| count > 0) {});
            sending.send("GET / HTTP/1.1\r\nHo");
            network.set_connected(false);
            let mut ends: Vec<String> = (0..2).map(|_| server_and_end(&scene.log.line_with("site site/"))).collect();
            ends.sort();
            network.set_connected(true);
            drop(sending);
            reader.join().unwrap();
            ends
        });
        assert_eq!(told, expected, "{mode}");
    }
}
