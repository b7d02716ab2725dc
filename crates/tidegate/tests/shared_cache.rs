//! `shared-cache` in front of real sockets: what is stored, when it answers, what makes it invalid, what the client is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use rustix::process::Signal;
use support::{Answer, Edge, Origin, Wire, free_address, wait_until};

/// An edge with a cache in front of a server.
struct Site {
    _edge: Edge,
    front: SocketAddr,
}

fn configuration(front: SocketAddr, cache: &str, origin: &Origin) -> String {
    format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         frontend site\n bind {front}\n default_backend app\n\
         backend app\n {cache}\n server s1 {} cookie one\n",
        origin.address,
    )
}

impl Site {
    #[track_caller]
    fn new(cache: &str, origin: &Origin) -> Self {
        Self::with(Edge::start_single, cache, origin)
    }

    #[track_caller]
    fn with(start: impl Fn(&str) -> Edge, cache: &str, origin: &Origin) -> Self {
        let front = free_address();
        Self { _edge: start(&configuration(front, cache, origin)), front }
    }

    fn ask(&self, method: &str, path: &str, fields: &str) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.answer_to(method == "HEAD").unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }
}

/// A server that says `PATH NUMBER` with the fields that `fields` makes of a request.
fn counting(fields: impl Fn(&Answer) -> String + Send + Sync + 'static) -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |request| {
        let number = counter.fetch_add(1, SeqCst) + 1;
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        if path.starts_with("/slow") {
            thread::sleep(Duration::from_millis(300));
        }
        let fields = fields(request);
        if let Some(fields) = fields.strip_prefix("304 ") {
            return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
        }
        let (status, fields) = match fields.strip_prefix("503 ") {
            Some(fields) => ("503 Service Unavailable", fields.to_owned()),
            None => ("200 OK", fields),
        };
        let body = format!("{path} {number}");
        let shown = if request.start_line().starts_with("HEAD") { "" } else { &body };
        format!("HTTP/1.1 {status}\r\n{fields}content-length: {}\r\n\r\n{shown}", body.len()).into_bytes()
    });
    (origin, count)
}

fn always(fields: &'static str) -> (Origin, Arc<AtomicUsize>) {
    counting(move |_| fields.to_owned())
}

#[test]
fn what_is_fresh_answers_and_says_where_it_comes_from() {
    let (origin, count) = always("cache-control: max-age=100\r\nage: 30\r\netag: \"x\"\r\nvia: 1.0 behind\r\n");
    let site = Site::new("shared-cache size 16m", &origin);
    let first = site.get("/a");
    assert_eq!((first.status(), first.text().as_str(), first.field("age")), (200, "/a 1", Some("30")));
    assert_eq!(first.field("cache-status"), Some("tidegate; fwd=miss; stored"));
    assert_eq!(first.field("via"), Some("1.0 behind, 1.1 tidegate"));
    let second = site.get("/a");
    assert_eq!((second.text().as_str(), second.field("x-varnish")), ("/a 1", None));
    assert!(second.field("age").unwrap().starts_with('3'), "{second:?}");
    assert!(second.field("cache-status").unwrap().starts_with("tidegate; hit; ttl=6"), "{second:?}");
    let part = site.ask("GET", "/a", "Range: bytes=1-2\r\n");
    assert_eq!((part.status(), part.text().as_str(), part.field("content-range")), (206, "a ", Some("bytes 1-2/4")));
    let known = site.ask("GET", "/a", "If-None-Match: \"x\"\r\n");
    assert_eq!((known.status(), known.text().as_str(), known.field("etag")), (304, "", Some("\"x\"")));
    assert_eq!(site.ask("HEAD", "/a", "").field("content-length"), Some("4"));
    assert_eq!(count.load(SeqCst), 1, "one request for all of them");
    assert_eq!(site.get("/a?b").text(), "/a?b 2", "the query is a part of the key");
    assert_eq!(site.ask("GET", "/c", "Cache-Control: only-if-cached\r\n").status(), 504);
    assert_eq!(count.load(SeqCst), 2);
    assert!(origin.last_head().contains("1.1 tidegate"), "RFC 9110 section 7.6.3: {}", origin.last_head());
}

#[test]
fn clients_may_want_it_fresher_or_take_it_stale() {
    let (origin, _) = counting(|request| {
        let path = request.start_line();
        if path.contains("/stale") {
            "cache-control: max-age=10\r\nage: 20\r\netag: \"s\"\r\n"
        } else {
            "cache-control: max-age=100\r\n"
        }
        .to_owned()
    });
    let site = Site::new("shared-cache", &origin);
    assert_eq!(site.get("/a").text(), "/a 1");
    let validated = site.ask("GET", "/a", "Cache-Control: no-cache\r\n");
    assert_eq!(
        (validated.text().as_str(), validated.field("cache-status")),
        ("/a 2", Some("tidegate; fwd=request; stored"))
    );
    assert_eq!(site.ask("GET", "/a", "Pragma: no-cache\r\n").text(), "/a 3");
    assert_eq!(site.ask("GET", "/a", "Cache-Control: min-fresh=200\r\n").text(), "/a 4");
    assert_eq!(site.ask("GET", "/a", "Cache-Control: max-age=50\r\n").text(), "/a 4");
    assert_eq!(site.ask("GET", "/a", "Cache-Control: no-store\r\n").text(), "/a 5");
    assert_eq!(site.get("/a").text(), "/a 4", "what was asked for with no-store is not stored");
    assert_eq!(site.get("/stale").text(), "/stale 6");
    assert_eq!(site.ask("GET", "/stale", "Cache-Control: max-stale=60\r\n").text(), "/stale 6");
    assert_eq!(site.ask("GET", "/stale", "Cache-Control: max-stale=5\r\n").text(), "/stale 7");
}

#[test]
fn what_is_for_one_client_is_not_stored() {
    let (origin, count) = always("cache-control: private, max-age=100\r\n");
    let site = Site::new("shared-cache", &origin);
    let first = site.get("/a");
    assert_eq!((first.text().as_str(), site.get("/a").text().as_str()), ("/a 1", "/a 2"));
    assert_eq!(first.field("cache-status"), Some("tidegate; fwd=miss; detail=\"the response is private\""));
    // They do not wait for one another either.
    let (front, started) = (site.front, std::time::Instant::now());
    let clients: Vec<_> = (0..4).map(|_| thread::spawn(move || Wire::connect(front).get("/slow").text())).collect();
    let mut texts: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    texts.sort();
    assert_eq!(texts, ["/slow 3", "/slow 4", "/slow 5", "/slow 6"]);
    assert!(started.elapsed() < Duration::from_millis(1_100), "{:?}", started.elapsed());
    assert_eq!(count.load(SeqCst), 6);
}

#[test]
fn responses_to_authorized_requests_are_stored_where_that_is_allowed() {
    let (origin, _) = counting(|request| {
        let all = request.start_line().contains("/all");
        if all { "cache-control: s-maxage=100\r\n" } else { "cache-control: max-age=100\r\n" }.to_owned()
    });
    let site = Site::new("shared-cache", &origin);
    let authorized = |path: &str| site.ask("GET", path, "Authorization: Basic YTpi\r\n").text();
    assert_eq!((authorized("/own"), site.get("/own").text()), ("/own 1".to_owned(), "/own 2".to_owned()));
    assert_eq!((authorized("/all"), site.get("/all").text()), ("/all 3".to_owned(), "/all 3".to_owned()));
}

#[test]
fn cookies_are_not_kept_by_a_guess() {
    let (origin, _) = counting(|request| {
        let modified = "set-cookie: a=b\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        if request.start_line().contains("/said") {
            format!("cache-control: max-age=9\r\n{modified}")
        } else {
            modified.to_owned()
        }
    });
    let site = Site::new("shared-cache", &origin);
    assert_eq!((site.get("/guess").text(), site.get("/guess").text()), ("/guess 1".to_owned(), "/guess 2".to_owned()));
    assert_eq!((site.get("/said").text(), site.get("/said").field("set-cookie")), ("/said 3".to_owned(), Some("a=b")));
}

#[test]
fn what_is_stale_is_asked_about_and_gets_what_has_changed() {
    let (origin, count) = counting(|request| match request.field("if-none-match") {
        Some(_) => "304 etag: \"v\"\r\ncache-control: max-age=100\r\nx-new: 2\r\n".to_owned(),
        None => "cache-control: max-age=10\r\nage: 20\r\netag: \"v\"\r\nx-old: 1\r\nx-new: 1\r\n".to_owned(),
    });
    let site = Site::new("shared-cache", &origin);
    assert_eq!(site.get("/a").text(), "/a 1");
    let validated = site.get("/a");
    assert_eq!((validated.status(), validated.text().as_str(), validated.field("age")), (200, "/a 1", Some("0")));
    assert_eq!((validated.field("x-old"), validated.field("x-new")), (Some("1"), Some("2")));
    assert_eq!(validated.field("cache-status"), Some("tidegate; fwd=stale; fwd-status=304; stored"));
    let fresh = site.get("/a");
    assert_eq!((fresh.text().as_str(), fresh.field("x-new"), count.load(SeqCst)), ("/a 1", Some("2"), 2));
}

#[test]
fn heads_refresh_what_is_stored_or_make_it_invalid() {
    let (origin, count) = counting(|request| {
        let is_head = request.start_line().starts_with("HEAD");
        let tag = if is_head && request.start_line().contains("/other") { "\"b\"" } else { "\"a\"" };
        let age = if is_head { 0 } else { 20 };
        format!("cache-control: max-age=10\r\nage: {age}\r\netag: {tag}\r\n")
    });
    let site = Site::new("shared-cache", &origin);
    assert_eq!((site.get("/a").text(), site.ask("HEAD", "/a", "").status()), ("/a 1".to_owned(), 200));
    assert_eq!((site.get("/a").text(), count.load(SeqCst)), ("/a 1".to_owned(), 2));
    assert_eq!((site.get("/other").text(), site.ask("HEAD", "/other", "").status()), ("/other 3".to_owned(), 200));
    assert_eq!(site.get("/other").text(), "/other 5");
    assert!(!origin.last_head().to_lowercase().contains("if-none-match"), "{}", origin.last_head());
}

#[test]
fn unsafe_methods_make_invalid() {
    let (origin, _) = counting(|request| {
        let fails = request.start_line().starts_with("DELETE");
        let fields = "cache-control: max-age=100\r\nlocation: /b\r\n";
        if fails { format!("503 {fields}") } else { fields.to_owned() }
    });
    let site = Site::new("shared-cache", &origin);
    let seen = || (site.get("/a").text(), site.get("/b").text());
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(seen(), pair("/a 1", "/b 2"));
    assert_eq!(site.ask("DELETE", "/a", "").status(), 503);
    assert_eq!(seen(), pair("/a 1", "/b 2"), "what fails changes nothing");
    assert_eq!(site.ask("POST", "/a", "Content-Length: 0\r\n").text(), "/a 4");
    assert_eq!(seen(), pair("/a 5", "/b 6"));
}

#[test]
fn a_request_with_a_body_goes_through() {
    let (origin, _) = always("");
    let site = Site::new("shared-cache", &origin);
    let mut client = Wire::connect(site.front);
    assert_eq!(client.ask("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab").text(), "/p 1");
    assert_eq!(client.ask("GET /c HTTP/1.1\r\nHost: a\r\n\r\n").text(), "/c 2", "the connection goes on");
}

#[test]
fn stale_objects_answer_while_they_are_fetched_again() {
    let (origin, count) = always("cache-control: max-age=10, stale-while-revalidate=1000\r\nage: 20\r\n");
    let site = Site::new("shared-cache", &origin);
    assert_eq!(site.get("/slow").text(), "/slow 1");
    let started = std::time::Instant::now();
    assert_eq!(site.get("/slow").text(), "/slow 1");
    assert!(started.elapsed() < Duration::from_millis(250), "nobody waits for the refresh");
    wait_until("it has been fetched again", || count.load(SeqCst) == 2);
    wait_until("the new one answers", || site.get("/slow").text() != "/slow 1");
}

#[test]
fn stale_objects_answer_when_the_origin_does_not() {
    let dies = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&dies);
    let (mut origin, _) = counting(move |request| {
        let strict = if request.start_line().contains("/strict") { ", must-revalidate" } else { "" };
        let error = if told.load(SeqCst) == 1 { "503 " } else { "" };
        format!("{error}cache-control: max-age=10, stale-if-error=60{strict}\r\nage: 20\r\netag: \"a\"\r\n")
    });
    let site = Site::new("shared-cache", &origin);
    assert_eq!((site.get("/a").text(), site.get("/strict").text()), ("/a 1".to_owned(), "/strict 2".to_owned()));
    dies.store(1, SeqCst);
    let stale = site.get("/a");
    assert_eq!((stale.status(), stale.text().as_str()), (200, "/a 1"));
    assert!(stale.field("cache-status").unwrap().ends_with("; detail=\"stale-if-error\""), "{stale:?}");
    assert_eq!(site.get("/strict").status(), 503);
    let address = origin.address;
    origin = Origin::answering(|_| Vec::new());
    wait_until("nobody listens", || !support::listens(address));
    assert_eq!((site.get("/a").status(), site.get("/strict").status()), (200, 503));
    drop(origin);
}

#[test]
fn one_fetch_serves_all_who_wait() {
    let (origin, count) = always("cache-control: max-age=100\r\n");
    let site = Site::with(Edge::start, "shared-cache", &origin);
    let front = site.front;
    let clients: Vec<_> = (0..50).map(|_| thread::spawn(move || Wire::connect(front).get("/slow").text())).collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), "/slow 1");
    }
    assert_eq!(count.load(SeqCst), 1);
}

#[test]
fn what_was_cut_off_is_never_taken_for_whole() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::start(move |mut wire, _| {
        while wire.request().is_some() {
            let length = if counter.fetch_add(1, SeqCst) == 0 { 9 } else { 4 };
            wire.send(format!("HTTP/1.1 200 OK\r\ncache-control: max-age=100\r\ncontent-length: {length}\r\n\r\nabcd"));
            if length == 9 {
                return;
            }
        }
    });
    let site = Site::new("shared-cache", &origin);
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let got = String::from_utf8(client.read_to_end()).unwrap().to_lowercase();
    assert!(got.contains("content-length: 9\r\n") && got.ends_with("\r\nabcd"), "its end tells the client: {got}");
    assert_eq!((site.get("/a").text().as_str(), count.load(SeqCst)), ("abcd", 2));
}

/// What is larger than a part of the storage goes through, at the client's pace and without memory of its own.
#[test]
fn large_responses_pass_a_small_cache() {
    const LENGTH: usize = 8 << 20;
    let origin = Origin::answering(|request| {
        let body = support::noise(LENGTH, 7);
        let head = if request.start_line().contains("/chunked") {
            let mut whole =
                b"HTTP/1.1 200 OK\r\ncache-control: no-store\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for chunk in body.chunks(100_000) {
                whole.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                whole.extend_from_slice(chunk);
                whole.extend_from_slice(b"\r\n");
            }
            whole.extend_from_slice(b"0\r\n\r\n");
            return whole;
        } else {
            format!("HTTP/1.1 200 OK\r\ncache-control: max-age=100\r\ncontent-length: {LENGTH}\r\n\r\n")
        };
        [head.as_bytes(), &body].concat()
    });
    let site = Site::new("shared-cache size 1m", &origin);
    for path in ["/known", "/known", "/chunked"] {
        let answer = site.get(path);
        assert!(answer.body == support::noise(LENGTH, 7), "{path}: {} bytes", answer.body.len());
    }
}

#[test]
fn interim_responses_reach_who_has_it_fetched() {
    let origin = Origin::start(|mut wire, _| {
        while wire.request().is_some() {
            wire.send("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\ncache-control: max-age=100\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let site = Site::new("shared-cache", &origin);
    let mut client = Wire::connect(site.front);
    let hints = client.ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((hints.status(), hints.field("link")), (103, Some("</a.css>")));
    assert_eq!(client.answer().text(), "ok");
    assert_eq!(client.ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200, "they are not stored");
}

#[test]
fn an_upgrade_becomes_a_tunnel() {
    let origin = Origin::start(|mut wire, _| {
        let request = wire.request().unwrap();
        assert_eq!(request.field("upgrade"), Some("echo"));
        wire.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
        let said = wire.read(4);
        wire.send(said);
    });
    let site = Site::new("shared-cache", &origin);
    let mut client = Wire::connect(site.front);
    let answer = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(answer.status(), 101);
    client.send("ping");
    assert_eq!(client.read(4), b"ping");
}

/// A cache does not part clients from their servers: what is for one client binds it, what is for all binds nobody.
#[test]
fn cookies_bind_clients_to_servers() {
    let (origin, _) = counting(|request| {
        let is_private = request.start_line().contains("/own");
        if is_private { "cache-control: private\r\n" } else { "cache-control: max-age=100\r\n" }.to_owned()
    });
    let cache = format!("shared-cache\n cookie SRV insert indirect\n server s2 {} cookie two", origin.address);
    let site = Site::new(&cache, &origin);
    let bound = site.ask("GET", "/own", "");
    assert!(bound.fields("set-cookie").iter().any(|field| field.starts_with("SRV=")), "{bound:?}");
    let asked = site.ask("GET", "/own/again", "Cookie: SRV=two\r\n");
    assert_eq!(asked.field("set-cookie"), None, "it is bound already, and went there: {asked:?}");
    assert_eq!((site.get("/all").field("set-cookie"), site.get("/all").field("set-cookie")), (None, None));
}

#[test]
fn a_disk_outlives_the_process() {
    let (origin, count) = always("cache-control: max-age=1000\r\netag: \"a\"\r\n");
    let folder = support::Folder::new();
    let cache = format!("shared-cache size 4m disk {} disk-size 16m", folder.0.join("cache").display());
    let front = free_address();
    let edge = Edge::start_single(&configuration(front, &cache, &origin));
    assert_eq!(Wire::connect(front).get("/a").text(), "/a 1");
    assert_eq!(Wire::connect(front).get("/a").text(), "/a 1");
    edge.signal(Signal::KILL);
    drop(edge);
    wait_until("the port is free", || !support::listens(front));
    let _edge = Edge::start_single(&configuration(front, &cache, &origin));
    let answer = Wire::connect(front).get("/a");
    assert_eq!((answer.text().as_str(), answer.field("etag"), count.load(SeqCst)), ("/a 1", Some("\"a\""), 1));
}

#[test]
fn a_frontend_has_one_for_all_its_backends() {
    let (origin, count) = always("cache-control: max-age=100\r\n");
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         frontend site\n bind {front}\n shared-cache name front.example\n http-response set-header x-rule yes\n\
         use_backend other if {{ path_beg /other }}\n default_backend app\n\
         backend app\n server s1 {0}\nbackend other\n http-request deny if FALSE\n server s1 {0}\n",
        origin.address,
    ));
    for path in ["/a", "/other"] {
        let (first, second) = (Wire::connect(front).get(path), Wire::connect(front).get(path));
        assert_eq!(first.text(), second.text());
        assert_eq!(second.field("x-rule"), Some("yes"), "rules see what the cache delivers");
        assert!(second.field("cache-status").unwrap().starts_with("front.example; hit"), "{second:?}");
    }
    assert_eq!(count.load(SeqCst), 2);
}

/// A server counts what it has sent to the cache, and a backend behind a frontend's cache what was asked of it.
#[test]
fn what_is_fetched_is_counted() {
    for in_frontend in [true, false] {
        let (origin, _) = counting(|_| "cache-control: max-age=50\r\n".to_owned());
        let front = free_address();
        let (first, second) = if in_frontend { ("shared-cache size 4m", "") } else { ("", "shared-cache size 4m") };
        let edge = Edge::start_single(&format!(
            "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend site\n bind {front}\n {first}\n default_backend app\nbackend app\n {second}\n server s1 {}\n",
            origin.address,
        ));
        for _ in 0..5 {
            assert_eq!(Wire::connect(front).get("/a").text(), "/a 1");
        }
        let mut socket = std::os::unix::net::UnixStream::connect(edge.folder.0.join("stats")).unwrap();
        std::io::Write::write_all(&mut socket, b"show stat\n").unwrap();
        let table = std::io::read_to_string(socket).unwrap();
        let row = |name: &str| {
            let row = table.lines().find(|line| line.starts_with(name)).unwrap();
            let columns: Vec<u64> = row.split(',').map(|column| column.parse().unwrap_or(0)).collect();
            (columns[7], columns[8] > 0, columns[9] > 0)
        };
        assert_eq!(row("app,s1"), (1, true, true), "{table}");
        assert_eq!(row("app,BACKEND"), (if in_frontend { 1 } else { 5 }, true, true), "{table}");
    }
}
