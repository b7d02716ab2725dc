//! Requests through a program: pipes, bodies that are sent again, what backends may take, validation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use support::{Origin, Site, Wire, wait_until};

/// Tells the body of each request, by a status that the path says for the first one of several.
fn echo() -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |request| {
        let number = counter.fetch_add(1, SeqCst) + 1;
        let status = if request.start_line().contains("/fails") && number < 3 { 503 } else { 200 };
        let line = request.start_line().to_owned();
        let body = format!("{number} {line} [{}]", request.text());
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    (origin, count)
}

#[test]
fn a_pipe_carries_whatever_both_sides_say() {
    let (heads, seen) = channel();
    let origin = Origin::start(move |mut wire, _| {
        let head = wire.head().unwrap();
        heads.send(head).unwrap();
        wire.send("no HTTP at all\n");
        wire.expect("GET /second HTTP/1.1\r\n\r\n");
        wire.send("again\n");
        wire.expect("bye");
        wire.expect_end();
        wire.send("the last word");
    });
    let program = "vcl 4.1; sub vcl_recv { return (pipe); } sub vcl_pipe { set bereq.http.x-piped = \"1\"; }";
    let site = Site::new(program, "", &origin);
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: x-mine\r\nx-mine: 1\r\n\r\n");
    client.expect("no HTTP at all\n");
    client.send("GET /second HTTP/1.1\r\n\r\n");
    client.expect("again\n");
    client.send("bye");
    client.shut_write();
    assert_eq!(client.read_to_end(), b"the last word");
    let head = seen.recv().unwrap().to_lowercase();
    assert!(head.contains("connection: close\r\n") && head.contains("x-piped: 1\r\n"), "{head}");
    assert!(head.contains("x-varnish: ") && !head.contains("x-mine"), "{head}");
}

#[test]
fn nobody_gets_past_a_program_that_opens_no_pipe() {
    let origin = Origin::answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret".to_vec());
    let program = "vcl 4.1; sub vcl_recv { if (req.url ~ \"secret\") { return (synth(403)); } return (pass); }";
    let site = Site::new(program, "", &origin);
    for first in ["CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nUpgrade: h2c\r\n"]
    {
        let mut client = Wire::connect(site.front);
        assert_eq!(client.ask(format!("{first}\r\n")).status(), 503, "{first}");
        client.send("GET /secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let got = String::from_utf8(client.read_to_end()).unwrap();
        assert!(got.starts_with("HTTP/1.1 403") || got.is_empty(), "{got}");
    }
}

#[test]
fn a_silent_pipe_ends() {
    let origin = Origin::start(|mut wire, _| {
        wire.head();
        wire.send("x");
        wire.expect_end();
    });
    let site = Site::new("vcl 4.1; sub vcl_recv { return (pipe); }", "param pipe_timeout=0.3", &origin);
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.expect("x");
    client.expect_end();
}

#[test]
fn a_kept_body_is_sent_with_each_attempt() {
    let program = "vcl 4.1; import std;
        sub vcl_recv { set req.http.x-kept = std.cache_req_body(100KB); return (pass); }
        sub vcl_backend_response { if (beresp.status == 503 && bereq.retries < 1) { return (retry); } }
        sub vcl_deliver {
            if (resp.status == 503 && req.restarts < 1) { return (restart); }
            set resp.http.x-kept = req.http.x-kept;
        }";
    for chunked in [false, true] {
        let (origin, count) = echo();
        let site = Site::new(program, "", &origin);
        let mut client = Wire::connect(site.front);
        let body = "b".repeat(50_000);
        let answer = if chunked {
            client.send("POST /fails HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.ask(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
        } else {
            client.ask(format!("POST /fails HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{body}"))
        };
        assert_eq!((answer.status(), answer.field("x-kept")), (200, Some("true")), "{answer:?}");
        assert!(answer.text().ends_with(&format!("[{body}]")), "{}", &answer.text()[..60]);
        assert_eq!(count.load(SeqCst), 3, "a retry and a restart");
        assert_eq!(client.get("/b").field("x-kept"), Some("true"), "nothing is easily kept");
        // One that is too large ends the connection, as in Varnish.
        client.try_send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 150000\r\n\r\n");
        client.try_send("c".repeat(150_000));
        assert_eq!(client.read_to_end(), b"");
    }
}

#[test]
fn a_body_that_is_not_kept_is_sent_once() {
    let (origin, count) = echo();
    let program = "vcl 4.1;
        sub vcl_recv { return (pass); }
        sub vcl_backend_fetch { if (bereq.url == \"/dropped\") { unset bereq.body; } }
        sub vcl_backend_response { if (beresp.status == 503) { return (retry); } }";
    let site = Site::new(program, "", &origin);
    let mut client = Wire::connect(site.front);
    let answer = client.ask("POST /fails HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!((answer.status(), count.load(SeqCst)), (503, 1));
    let mut client = Wire::connect(site.front);
    let answer = client.ask("POST /dropped HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert!(answer.text().ends_with("[]"), "{}", answer.text());
}

/// What is fetched for all has no body, whatever the request that has it fetched came with.
#[test]
fn a_lookup_with_a_body_is_fetched_without() {
    let (origin, _) = echo();
    let site = Site::new("vcl 4.1;", "", &origin);
    let mut client = Wire::connect(site.front);
    let answer = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "1 GET /a HTTP/1.1 []"));
    assert!(!origin.last_head().to_lowercase().contains("content-length"));
    assert_eq!(client.get("/b").text(), "2 GET /b HTTP/1.1 []");
}

#[test]
fn a_client_is_asked_for_its_body() {
    let (origin, _) = echo();
    for recv in ["return (pass);", "std.cache_req_body(1KB); return (pass);"] {
        let program = format!("vcl 4.1; import std; sub vcl_recv {{ {recv} }}");
        let site = Site::new(&program, "", &origin);
        let mut client = Wire::connect(site.front);
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.head().unwrap(), "HTTP/1.1 100 Continue\r\n\r\n", "{recv}");
        client.send("ab");
        assert!(client.answer().text().ends_with("[ab]"));
        assert!(!origin.last_head().to_lowercase().contains("expect"));
    }
}

#[test]
fn backends_have_the_time_that_the_program_gives() {
    let origin = Origin::start(|mut wire, _| {
        while let Some(request) = wire.request() {
            let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
            if path.contains("late") {
                thread::sleep(Duration::from_millis(1_500));
            }
            wire.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab");
            if path.contains("stops") {
                thread::sleep(Duration::from_millis(1_500));
            }
            if !wire.try_send("cd") {
                break;
            }
        }
    });
    let program = "vcl 4.1;
        sub vcl_recv { if (req.url ~ \"^/pass\") { return (pass); } }
        sub vcl_backend_fetch {
            if (bereq.url !~ \"declared\") { set bereq.first_byte_timeout = 0.3s; set bereq.between_bytes_timeout = 0.3s; }
        }";
    let site = Site::new(program, "param first_byte_timeout=0.3", &origin);
    for path in ["/late", "/pass/late", "/declared/late"] {
        let start = Instant::now();
        assert_eq!(site.get(path).status(), 503, "{path}");
        assert!(start.elapsed() < Duration::from_millis(1_400), "{path}: {:?}", start.elapsed());
    }
    for path in ["/stops", "/pass/stops"] {
        let mut client = Wire::connect(site.front);
        let start = Instant::now();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let text = String::from_utf8(client.read_to_end()).unwrap();
        assert!(text.ends_with("ab") && start.elapsed() < Duration::from_millis(1_400), "{path}: {text}");
    }
}

#[test]
fn what_has_not_changed_is_not_sent_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |request| {
        let number = counter.fetch_add(1, SeqCst) + 1;
        match request.field("if-none-match") {
            Some("\"one\"") => format!("HTTP/1.1 304 Same\r\netag: \"one\"\r\nx-number: {number}\r\n\r\n").into_bytes(),
            _ => format!(
                "HTTP/1.1 200 OK\r\netag: \"one\"\r\nx-number: {number}\r\nx-old: 1\r\ncontent-length: 4\r\n\r\nbody"
            )
            .into_bytes(),
        }
    });
    let program = "vcl 4.1; sub vcl_backend_response {
            set beresp.ttl = 0.1s; set beresp.grace = 0s; set beresp.keep = 1h;
            if (bereq.url ~ \"grace\") { set beresp.grace = 1h; }
            set beresp.http.x-304 = beresp.was_304; set beresp.http.x-background = bereq.is_bgfetch;
        }";
    let site = Site::new(program, "", &origin);
    assert_eq!((site.get("/a").text(), site.get("/a").field("x-304")), ("body".to_owned(), Some("false")));
    wait_until("it is stale", || site.get("/a").field("x-304") == Some("true"));
    let again = site.get("/a");
    assert_eq!((again.status(), again.text().as_str(), again.field("x-old")), (200, "body", Some("1")));
    assert_ne!(again.field("x-number"), Some("1"), "fields are those of the 304");
    assert_eq!(site.get("/grace").field("x-304"), Some("false"));
    wait_until("it is refreshed behind its back", || {
        let answer = site.get("/grace");
        assert_eq!(answer.text(), "body");
        (answer.field("x-304"), answer.field("x-background")) == (Some("true"), Some("true"))
    });
}

#[test]
fn attempts_are_bounded() {
    let (origin, count) = echo();
    let program = "vcl 4.1;
        sub vcl_recv { if (req.url == \"/restarts\") { return (restart); } if (req.url == \"/pass/fails\") { return (pass); } }
        sub vcl_backend_response { if (bereq.url ~ \"retries\") { return (retry); } set beresp.http.x-tries = bereq.retries; }
        sub vcl_synth { set resp.http.x-restarts = req.restarts; }";
    let site = Site::new(program, "param max_restarts=2 param max_retries=3", &origin);
    let answer = site.get("/restarts");
    assert_eq!((answer.status(), answer.field("x-restarts"), count.load(SeqCst)), (503, Some("3"), 0));
    assert_eq!((site.get("/retries").status(), count.load(SeqCst)), (503, 4));
}

#[test]
fn old_clients_get_what_they_understand() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\nx-trailer: 1\r\n\r\n"
            .to_vec()
    });
    let site = Site::new("vcl 4.1; sub vcl_recv { if (req.url ~ \"pass\") { return (pass); } }", "", &origin);
    for path in ["/a", "/a", "/pass"] {
        let mut client = Wire::connect(site.front);
        client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "abcdef"), "{path}");
        assert_eq!(answer.field("transfer-encoding"), None);
        let answer = site.get(path);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "abcdef"), "{path}");
    }
    let mut client = Wire::connect(site.front);
    client.send("HEAD /b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer_to(true).unwrap().status(), 200);
    assert!(origin.last_head().starts_with("GET /b "), "an object is fetched whole");
    assert_eq!(client.get("/a").text(), "abcdef");
}

#[test]
fn a_request_can_be_rolled_back() {
    let (origin, _) = echo();
    let program = "vcl 4.1; import std;
        sub vcl_recv { set req.url = \"/changed\"; set req.http.x-a = \"1\"; if (req.http.x-back) { std.rollback(req); } return (pass); }";
    let site = Site::new(program, "", &origin);
    assert!(site.get("/a").text().contains("/changed"));
    let answer = Wire::connect(site.front).ask("GET /a HTTP/1.1\r\nHost: a\r\nx-back: 1\r\n\r\n");
    assert!(answer.text().contains("GET /a "), "{}", answer.text());
    assert!(!origin.last_head().contains("x-a:"));
}
