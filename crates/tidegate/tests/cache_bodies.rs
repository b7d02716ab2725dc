//! Bodies of requests that go through a cache, by every way by which a request leaves: what a client calls a body never becomes a
//! request of its own, whatever its framing and whenever the server answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use support::{Edge, Origin, Site, VarnishInstance, Wire, free_address};

/// What the body of the attacker's request says.
const SMUGGLED: &str = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";

/// The server, in a program of varnishd's.
const BACKEND: &str = "backend default { .host = \"HOST\"; .port = \"ORIGIN\"; }";

/// How long the server leaves between the head and the body of an answer.
const PAUSE: Duration = Duration::from_millis(8);

/// A server that answers before it reads the body of a request, and pauses between the head and the body of its answer. It reads what
/// comes strictly by its framing. Tells the heads that it has read.
fn origin() -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    let origin = Origin::start(move |mut wire, _| {
        while let Some(head) = wire.head() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let before = seen.lock().unwrap().iter().filter(|head| head.contains(&path)).count();
            seen.lock().unwrap().push(head.clone());
            let status = if path.contains("fails") && before < 1 { 503 } else { 200 };
            let body = match path.as_str() {
                "/page" => "<esi:include src=\"/part\"/>",
                path => path,
            };
            wire.try_send(format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len()));
            wire.is_silent_for(PAUSE);
            if !wire.try_send(body) || !wire.skip_body(&head) {
                break;
            }
        }
    });
    (origin, heads)
}

/// Ways by which a request leaves: a name, a program, and the attacker's path.
const WAYS: &[(&str, &str, &str)] = &[
    ("pass by the built-in program", "", "/a"),
    ("pass", "sub vcl_recv { return (pass); }", "/a"),
    ("pass with its body", "sub vcl_recv { return (pass); } sub vcl_backend_fetch { return (fetch); }", "/a"),
    (
        "pass from vcl_hit",
        "sub vcl_recv { unset req.http.cookie; return (hash); } sub vcl_hit { return (pass); }",
        "/warm",
    ),
    (
        "hit-for-pass",
        "sub vcl_recv { unset req.http.cookie; return (hash); }
         sub vcl_backend_response { if (bereq.url == \"/warm\") { return (pass(1h)); } }",
        "/warm",
    ),
    ("miss", "sub vcl_recv { unset req.http.cookie; return (hash); }", "/a"),
    ("hit", "sub vcl_recv { unset req.http.cookie; return (hash); }", "/warm"),
    (
        "miss with its body",
        "sub vcl_recv { unset req.http.cookie; return (hash); } sub vcl_backend_fetch { return (fetch); }",
        "/a",
    ),
    (
        "a response that becomes an object",
        "sub vcl_recv { return (pass); } sub vcl_backend_response { set beresp.do_stream = false; }",
        "/a",
    ),
    (
        "a response that becomes an object, with its body",
        "sub vcl_recv { return (pass); } sub vcl_backend_fetch { return (fetch); }
         sub vcl_backend_response { set beresp.do_stream = false; }",
        "/a",
    ),
    (
        "retry",
        "sub vcl_recv { return (pass); }
         sub vcl_backend_response { if (beresp.status == 503 && bereq.retries < 1) { return (retry); } }",
        "/fails",
    ),
    (
        "retry without the body",
        "sub vcl_recv { return (pass); }
         sub vcl_backend_fetch { if (bereq.retries > 0) { unset bereq.body; } return (fetch); }
         sub vcl_backend_response { if (beresp.status == 503 && bereq.retries < 1) { return (retry); } }",
        "/fails",
    ),
    (
        "restart as a pass",
        "sub vcl_recv { return (pass); }
         sub vcl_deliver { if (req.restarts < 1) { return (restart); } }",
        "/a",
    ),
    (
        "restart as a miss, with its body",
        "sub vcl_recv { unset req.http.cookie; if (req.restarts < 1) { return (pass); } return (hash); }
         sub vcl_backend_fetch { return (fetch); }
         sub vcl_deliver { if (req.restarts < 1) { return (restart); } }",
        "/a",
    ),
    ("kept body", "sub vcl_recv { std.cache_req_body(10KB); return (pass); }", "/a"),
    (
        "kept body that goes along",
        "sub vcl_recv { std.cache_req_body(10KB); return (pass); } sub vcl_backend_fetch { return (fetch); }",
        "/a",
    ),
    (
        "kept body that goes along twice",
        "sub vcl_recv { std.cache_req_body(10KB); return (pass); } sub vcl_backend_fetch { return (fetch); }
         sub vcl_backend_response { if (beresp.status == 503 && bereq.retries < 1) { return (retry); } }",
        "/fails",
    ),
    (
        "page that includes",
        "sub vcl_recv { if (req.url == \"/part\") { return (pass); } unset req.http.cookie; return (hash); }
         sub vcl_backend_response { if (bereq.url == \"/page\") { set beresp.do_esi = true; } }",
        "/page",
    ),
    (
        "page that is passed",
        "sub vcl_recv { return (pass); } sub vcl_backend_fetch { return (fetch); }
         sub vcl_backend_response { if (bereq.url == \"/page\") { set beresp.do_esi = true; } }",
        "/page",
    ),
    (
        "background fetch",
        "sub vcl_recv { unset req.http.cookie; return (hash); }
         sub vcl_backend_response { set beresp.ttl = 0.001s; set beresp.grace = 1h; }",
        "/warm",
    ),
    (
        "background fetch with its body",
        "sub vcl_recv { unset req.http.cookie; return (hash); } sub vcl_backend_fetch { return (fetch); }
         sub vcl_backend_response { set beresp.ttl = 0.001s; set beresp.grace = 1h; }",
        "/warm",
    ),
    ("pipe", "sub vcl_recv { if (req.http.cookie) { return (pipe); } }", "/a"),
    ("answer by the program", "sub vcl_recv { if (req.http.cookie) { return (synth(200)); } }", "/a"),
];

/// The attacker's request, framed both ways; the method too is the attacker's.
fn attacks(path: &str) -> Vec<String> {
    let head = |method: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\n");
    let length = SMUGGLED.len();
    ["GET", "POST"]
        .into_iter()
        .flat_map(|method| {
            [
                format!("{}Content-Length: {length}\r\n\r\n{SMUGGLED}", head(method)),
                format!("{}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", head(method)),
            ]
        })
        .collect()
}

/// Has the attacker ask, and then victims: the server must never see what the body says as a request, nor may a victim get what
/// another one asked for.
fn attack(what: &str, front: SocketAddr, path: &str, heads: &Mutex<Vec<String>>) {
    Wire::connect(front).get("/warm");
    for (number, request) in attacks(path).into_iter().enumerate() {
        for is_late in [false, true] {
            let what = format!("{what}, attack {number}{}", if is_late { ", its body late" } else { "" });
            heads.lock().unwrap().retain(|head| !head.contains("fails"));
            let mut attacker = Wire::connect(front);
            let (head, body) = request.split_at(request.find("\r\n\r\n").unwrap() + 4);
            attacker.send(if is_late { head } else { &request });
            if is_late {
                // NOTE: the server has answered by then, or waits for what is announced.
                attacker.is_silent_for(PAUSE * 3);
                attacker.try_send(body);
            }
            attacker.answer_to(false);
            for victim in 0..3 {
                let path = format!("/victim-{number}-{is_late}-{victim}");
                let answer = Wire::connect(front).get(&path);
                assert_eq!((answer.status(), answer.text()), (200, path), "{what}");
            }
        }
    }
    let heads = heads.lock().unwrap();
    assert!(!heads.iter().any(|head| head.contains("/evil")), "{what}: {heads:#?}");
}

/// Tries all of them, several at a time: most of it is waiting.
fn by_every_way(attack: impl Fn(&str, &str, &str) + Sync) {
    for ways in WAYS.chunks(8) {
        thread::scope(|scope| {
            for (what, program, path) in ways {
                scope.spawn(|| attack(what, program, path));
            }
        });
    }
}

#[test]
fn no_body_becomes_a_request_in_a_section_with_a_program() {
    by_every_way(|what, program, path| {
        let (origin, heads) = origin();
        let site = Site::new(&format!("vcl 4.1; import std; {program}"), "", &origin);
        attack(what, site.front, path, &heads);
    });
}

#[test]
fn no_body_becomes_a_request_in_varnishd() {
    by_every_way(|what, program, path| {
        let (origin, heads) = origin();
        let program = format!("vcl 4.1; import std; {program} {BACKEND}");
        let varnishd = VarnishInstance::ours(&program, &[], &origin);
        attack(what, varnishd.front, path, &heads);
    });
}

#[test]
fn no_body_becomes_a_request_behind_other_caches() {
    for (what, cache) in [
        ("shared-cache", "shared-cache size 10m"),
        ("cache section", "http-request cache-use c\n http-response cache-store c"),
        ("none", ""),
    ] {
        let (origin, heads) = origin();
        let front = free_address();
        let _edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n http-reuse always\n\
             cache c\n total-max-size 4\nlisten site\n bind {front}\n {cache}\n server s1 {}\n",
            origin.address,
        ));
        attack(what, front, "/warm", &heads);
        attack(what, front, "/a", &heads);
    }
}
