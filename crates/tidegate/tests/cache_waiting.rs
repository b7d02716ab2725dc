//! Many clients that want the same at once, while the server cannot give it; and on which connections it is asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, Folder, Origin, VarnishInstance, Wire, free_address, ok};

/// Clients that ask at the same time.
const CLIENTS: usize = 60;

/// How long the server takes before it fails: by then all of them have asked.
const SLOWNESS: Duration = Duration::from_millis(700);

const DEFAULTS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n";

/// Whatever keeps a site's cache running, and where it listens.
type Running = (Box<dyn std::any::Any>, SocketAddr);

fn varnishd(program: &str, origin: &Origin) -> Running {
    let program = format!("vcl 4.1; {program} backend default {{ .host = \"HOST\"; .port = \"ORIGIN\"; }}");
    let instance = VarnishInstance::ours(&program, &[], origin);
    let front = instance.front;
    (Box::new(instance), front)
}

fn program(program: &str, origin: &Origin) -> Running {
    let (folder, front) = (Folder::new(), free_address());
    let vcl = folder.file("a.vcl", format!("vcl 4.1; {program} backend default {{ .host = \"127.0.0.1\"; }}"));
    let edge = Edge::start_single(&format!(
        "{DEFAULTS}frontend f\n bind {front}\n vcl {}\nbackend default\n server s1 {}\n",
        vcl.display(),
        origin.address
    ));
    (Box::new((edge, folder)), front)
}

fn shared_cache(_: &str, origin: &Origin) -> Running {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "{DEFAULTS}listen c\n bind {front}\n shared-cache size 10m\n server s1 {}\n",
        origin.address
    ));
    (Box::new(edge), front)
}

/// Starts a cache in front of an origin, with a program if it is a kind that knows programs.
type Start = fn(&str, &Origin) -> Running;

/// All kinds of caches; the last ones know no program, and answer with HAProxy's status.
const CACHES: [(&str, Start, u16); 3] =
    [("varnishd", varnishd, 503), ("vcl", program, 503), ("shared-cache", shared_cache, 502)];

fn all_ask(front: SocketAddr) -> Vec<u16> {
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| thread::spawn(move || Wire::connect(front).get("/a").status())).collect();
    clients.into_iter().map(|client| client.join().unwrap()).collect()
}

#[test]
fn a_server_that_fails_is_asked_once_for_all_who_wait() {
    for (what, start, status) in CACHES {
        for (how, program, answer) in [
            ("closes", "", ""),
            (
                "breaks off",
                "sub vcl_backend_response { set beresp.do_stream = false; }",
                "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nab",
            ),
            ("is given up", "sub vcl_backend_error { return (abandon); }", ""),
        ] {
            if what == "shared-cache" && how == "breaks off" {
                // What has come by then has been delivered.
                continue;
            }
            let origin = Origin::start(move |mut wire, _| {
                wire.head();
                thread::sleep(SLOWNESS);
                wire.try_send(answer);
            });
            let (running, front) = start(program, &origin);
            assert_eq!(all_ask(front), [status; CLIENTS], "{what} {how}");
            assert_eq!(origin.connections(), 1, "{what} {how}");
            drop(running);
        }
    }
}

/// Who asked for what cannot be stored does not wait for the others' answers, and who gave up does not fail for them.
#[test]
fn who_gives_up_fails_for_nobody() {
    let origin = Origin::named("hello");
    let gives_up = "sub vcl_miss { if (req.http.x-first) { return (synth(418)); } }";
    for (_, start, _) in &CACHES[..2] {
        let (running, front) = start(gives_up, &origin);
        let first = Wire::connect(front).ask("GET /a HTTP/1.1\r\nHost: a\r\nx-first: 1\r\n\r\n");
        assert_eq!(first.status(), 418);
        assert_eq!(all_ask(front), [200; CLIENTS]);
        drop(running);
    }
}

/// What is fetched can always be fetched again, so it goes over connections that stand already.
#[test]
fn misses_share_connections() {
    for (what, start, _) in CACHES {
        let origin = Origin::answering(|_| ok("hello"));
        let (running, front) = start("", &origin);
        for number in 0..40 {
            assert_eq!(Wire::connect(front).get(&format!("/{number}")).status(), 200, "{what}");
        }
        // NOTE: no more than one for each worker, wherever a client's connection has come to.
        assert!(origin.connections() <= 4, "{what}: {}", origin.connections());
        drop(running);
    }
}

/// One that the server has closed just then costs nothing but another one.
#[test]
fn a_connection_that_has_been_closed_meanwhile_is_no_failure() {
    for (what, start, _) in CACHES {
        let origin = Origin::start(|mut wire, _| {
            wire.request();
            wire.send(ok("hello"));
            // The next request comes, and gets no answer.
            wire.head();
        });
        let (running, front) = start("", &origin);
        for number in 0..6 {
            assert_eq!(Wire::connect(front).get(&format!("/{number}")).status(), 200, "{what} {number}");
        }
        drop(running);
    }
}
