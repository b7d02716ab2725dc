//! HAProxy's own cache: `cache` sections, `cache-use`, `cache-store`, `show cache`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use support::{Answer, Edge, Folder, LogServer, Origin, Wire, free_address};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// An edge with a cache in front of a server that says `PATH NUMBER`.
struct Site {
    edge: Edge,
    front: SocketAddr,
    count: Arc<AtomicUsize>,
    _origin: Origin,
}

impl Site {
    #[track_caller]
    fn new(section: &str, rules: &str, fields: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let origin = Origin::answering(move |request| {
            let number = counter.fetch_add(1, SeqCst) + 1;
            let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
            let body = format!("{path} {number}");
            let fields = fields(&path);
            format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        });
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend site\n bind {front}\n default_backend app\n\
             backend app\n http-request cache-use small\n http-response cache-store small\n \
             http-response set-header x-hit %[res.cache_hit]\n http-response set-header x-name %[res.cache_name]\n {rules}\n \
             server s1 {}\n\
             cache small\n total-max-size 4\n {section}\n",
            origin.address,
        ));
        Self { edge, front, count, _origin: origin }
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

#[test]
fn what_rules_store_rules_use() {
    let site = Site::new("", "", |path| {
        let age = if path == "/aged" { "age: 3\r\n" } else { "" };
        format!("cache-control: max-age=50\r\netag: \"t\"\r\nset-cookie: a=b\r\n{age}")
    });
    let first = site.get("/a");
    assert_eq!((first.text().as_str(), first.field("x-hit"), first.field("x-name")), ("/a 1", Some("0"), Some("")));
    let second = site.get("/a");
    assert_eq!(
        (second.text().as_str(), second.field("x-hit"), second.field("x-name")),
        ("/a 1", Some("1"), Some("small"))
    );
    assert_eq!((second.field("age"), second.field("set-cookie"), second.field("via")), (Some("0"), Some("a=b"), None));
    assert_eq!(site.ask("HEAD", "/a", "").field("content-length"), Some("4"));
    let known = site.ask("GET", "/a", "If-None-Match: W/\"t\"\r\n");
    assert_eq!((known.status(), known.field("x-hit")), (304, Some("1")));
    for fields in
        ["Cache-Control: no-cache\r\n", "Pragma: no-cache\r\n", "Authorization: x\r\n", "Cache-Control: max-age=0\r\n"]
    {
        assert_eq!(site.ask("GET", "/a", fields).field("x-hit"), Some("0"), "{fields}");
    }
    assert_eq!(site.get("/a").text(), "/a 5", "what a client wants anew is stored anew");
    let aged = (site.get("/aged"), site.get("/aged"));
    assert_eq!((aged.0.field("age"), aged.1.field("age")), (None, Some("3")));
    assert_eq!(site.ask("POST", "/a", "Content-Length: 0\r\n").status(), 200);
    assert_eq!(site.get("/a").field("x-hit"), Some("0"), "a successful POST makes it invalid");
}

#[test]
fn a_section_has_its_bounds() {
    let site = Site::new("max-object-size 150\nmax-age 30", "", |path| match path {
        "/large" => format!("cache-control: max-age=50\r\nx-pad: {}\r\n", "p".repeat(150)),
        "/private" => "cache-control: private, max-age=50\r\n".to_owned(),
        "/nothing" => String::new(),
        "/vary" => "cache-control: max-age=50\r\nvary: accept-encoding\r\n".to_owned(),
        _ => "cache-control: max-age=50\r\n".to_owned(),
    });
    for path in ["/large", "/private", "/nothing", "/vary"] {
        assert_eq!((site.get(path).field("x-hit"), site.get(path).field("x-hit")), (Some("0"), Some("0")), "{path}");
    }
    assert_eq!((site.get("/a").field("x-hit"), site.get("/a").field("x-hit")), (Some("0"), Some("1")));
    let shown = site.edge.command("show cache");
    let mut lines = shown.lines();
    assert!(lines.next().unwrap().contains(": small (shctx:0x"), "{shown}");
    let line = lines.next().unwrap();
    assert!(line.contains(" hash:") && line.contains(" vary:0x0000000000000000 size:"), "{shown}");
    let left: i64 = line.rsplit("expire:").next().unwrap().trim().parse().unwrap();
    assert!((28..=30).contains(&left), "max-age of the section: {shown}");
    let columns = site.edge.command("show stat");
    let names: Vec<&str> = columns.lines().next().unwrap().trim_start_matches("# ").split(',').collect();
    let row: Vec<&str> = columns.lines().find(|line| line.starts_with("app,BACKEND")).unwrap().split(',').collect();
    let value = |name: &str| row[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!((value("cache_lookups"), value("cache_hits")), ("10", "1"));
}

#[test]
fn what_varies_is_stored_for_those_alike() {
    let site = Site::new("process-vary on\nmax-secondary-entries 2", "", |path| {
        let coding = if path == "/gzip" { "content-encoding: gzip\r\n" } else { "" };
        let by = if path == "/referer" { "referer" } else { "accept-encoding" };
        format!("cache-control: max-age=50\r\nvary: {by}\r\n{coding}")
    });
    let hit = |path: &str, fields: &str| site.ask("GET", path, fields).field("x-hit") == Some("1");
    assert!(!hit("/gzip", "Accept-Encoding: gzip\r\n"));
    assert!(hit("/gzip", "Accept-Encoding: br, gzip;q=0.5\r\n"));
    assert!(hit("/gzip", ""), "who says nothing takes everything");
    assert!(!hit("/gzip", "Accept-Encoding: br\r\n"));
    assert!(!hit("/gzip", "Accept-Encoding: gzip;q=0\r\n"));
    for name in ["x", "y", "z"] {
        assert!(!hit("/referer", &format!("Referer: {name}\r\n")));
    }
    assert!(hit("/referer", "Referer: x\r\n") && hit("/referer", "Referer: y\r\n"));
    assert!(!hit("/referer", "Referer: z\r\n"), "there are two already");
}

#[test]
fn what_is_stored_is_what_the_server_has_sent() {
    let site = Site::new("", "compression algo gzip\n compression type text/plain", |_| {
        format!("cache-control: max-age=50\r\ncontent-type: text/plain\r\nx-pad: {}\r\n", "p".repeat(50))
    });
    let gzip = "Accept-Encoding: gzip\r\n";
    assert_eq!(site.ask("GET", "/a", gzip).field("content-encoding"), Some("gzip"));
    let plain = site.get("/a");
    assert_eq!(
        (plain.text().as_str(), plain.field("content-encoding"), plain.field("x-hit")),
        ("/a 1", None, Some("1"))
    );
    let again = site.ask("GET", "/a", gzip);
    assert_eq!((again.field("content-encoding"), again.field("x-hit")), (Some("gzip"), Some("1")));
    assert_eq!(site.count.load(SeqCst), 1);
}

/// Messages are those of HAProxy 2.6.
#[test]
fn mistakes_are_shown() {
    let folder = Folder::new();
    let proxy = "defaults\nmode http\ntimeout client 1s\ntimeout server 1s\ntimeout connect 1s\n";
    for (text, message) in [
        ("cache\n", "'cache' expects a <name> argument"),
        ("cache c\n", "Size not specified for cache 'c'"),
        ("cache c\ntotal-max-size 4\ncache c\ntotal-max-size 4\n", "Duplicate cache name 'c'."),
        ("cache c\ntotal-max-size x\n", "total-max-size wrong value 'x'"),
        ("cache c\ntotal-max-size 4096\n", "\"total-max-size\" (4096) must not be greater than 4095"),
        (
            "cache c\ntotal-max-size 4\nmax-object-size 3000000\n",
            "\"max-object-size\" is limited to an half of \"total-max-size\" => 2097152",
        ),
        ("cache c\ntotal-max-size 4\nmax-secondary-entries 0\n", "max-secondary-entries wrong value '0'"),
        ("backend b\nhttp-request cache-use\nserver s 127.0.0.1:1\n", "expects a cache name"),
        (
            "backend b\nhttp-request cache-use none\nserver s 127.0.0.1:1\n",
            "config: backend 'b': unable to find the cache 'none' referenced by the filter 'cache'.",
        ),
        (
            "cache c\ntotal-max-size 4\nbackend b\nfilter cache\nserver s 127.0.0.1:1\n",
            "cache : expects a <name> argument",
        ),
        (
            "cache c\ntotal-max-size 4\nbackend b\nfilter cache c\nfilter cache c\nserver s 127.0.0.1:1\n",
            "multiple explicit declarations of the cache filter 'c'",
        ),
        (
            "cache c\ntotal-max-size 4\nbackend b\nfilter compression\nfilter cache c\nserver s 127.0.0.1:1\n",
            "unable to enable the compression filter before the cache 'c'.",
        ),
        (
            "cache c\ntotal-max-size 4\nbackend b\nfilter trace\nhttp-request cache-use c\nserver s 127.0.0.1:1\n",
            "require an explicit filter declaration to use the cache 'c'.",
        ),
    ] {
        let path = folder.file("haproxy.cfg", format!("{proxy}{text}frontend f\nbind 127.0.0.1:1\n"));
        let output = Command::new(PROGRAM).args(["edge", "-c", "-f"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{text}\nwants: {message}\nsays: {said}");
    }
}

/// What a client wants anew is stored anew; what comes of the store counts as much as what comes of a server.
#[test]
fn requests_that_refresh_and_what_is_counted() {
    let number = |start: fn(&str) -> Option<Edge>| {
        let count = Arc::new(AtomicUsize::new(0));
        let origin = Origin::answering(move |_| {
            let body = format!("body {}", count.fetch_add(1, SeqCst));
            format!("HTTP/1.1 200 OK\r\ncache-control: max-age=50\r\ncontent-length: 6\r\n\r\n{body}").into_bytes()
        });
        let (front, log) = (free_address(), LogServer::start());
        let _edge = start(&format!(
            "global\n log {} local0\ndefaults\n log global\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend site\n bind {front}\n log-format \"%s %ts %B\"\n default_backend app\n\
             backend app\n http-request cache-use small\n http-response cache-store small\n server s1 {}\n\
             cache small\n total-max-size 4\n max-age 50\n",
            log.address, origin.address,
        ))?;
        let asked = [
            "",
            "",
            "Cache-Control: no-cache\r\n",
            "",
            "Pragma: no-cache\r\n",
            "",
            "Cache-Control: max-age=0\r\n",
            "",
            "Authorization: x\r\n",
            "",
            "Cache-Control: no-store\r\n",
        ];
        let told = asked.map(|fields| {
            let mut client = Wire::connect(front);
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let text = client.answer().text();
            drop(client);
            format!("{text}: {}", log.line())
        });
        Some(told.to_vec())
    };
    let ours = number(|config| Some(Edge::start_single(config))).unwrap();
    let hit = |number: u32| format!("body {number}: <CACHE> LR 82");
    let miss = |number: u32| format!("body {number}: s1 -- 78");
    let expected = [miss(0), hit(0), miss(1), hit(1), miss(2), hit(2), miss(3), hit(3), miss(4), hit(3), hit(3)];
    assert_eq!(ours, expected);
    if let Some(theirs) = number(Edge::start_haproxy) {
        assert_eq!(ours, theirs);
    }
}
