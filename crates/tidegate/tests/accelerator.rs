//! Programs of VCL in front of real sockets: what is fetched, what is stored, who waits, what the client gets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use rustix::process::Signal;
use support::{Edge, Folder, Origin, Wire, free_address, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// An edge that runs a program of VCL in front of a server, which the program calls `default`.
struct Site {
    edge: Edge,
    front: SocketAddr,
    _folder: Folder,
}

impl Site {
    #[track_caller]
    fn new(program: &str, arguments: &str, origin: &Origin) -> Self {
        Self::with(Edge::start_single, program, arguments, origin)
    }

    #[track_caller]
    fn with(start: impl Fn(&str) -> Edge, program: &str, arguments: &str, origin: &Origin) -> Self {
        let (folder, front) = (Folder::new(), free_address());
        let path = folder.0.join("site.vcl");
        // The port is said by the section, not by the program.
        fs::write(&path, format!("{program}\nbackend default {{ .host = \"127.0.0.1\"; }}\n")).unwrap();
        let edge = start(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend site\n bind {front}\n vcl {} {arguments}\nbackend default\n server s1 {}\n",
            path.display(),
            origin.address,
        ));
        Self { edge, front, _folder: folder }
    }

    fn get(&self, path: &str) -> support::Answer {
        Wire::connect(self.front).get(path)
    }
}

/// A server that counts, and says `PATH NUMBER` with these fields.
fn counting(fields: &'static str) -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |request| {
        let number = counter.fetch_add(1, SeqCst) + 1;
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        if path.starts_with("/slow") {
            thread::sleep(Duration::from_millis(300));
        }
        let body = format!("{path} {number}");
        format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    (origin, count)
}

#[test]
fn what_is_stored_answers_the_next_request() {
    let (origin, count) = counting("etag: \"x\"\r\n");
    let site = Site::new("vcl 4.1;", "", &origin);
    let get = |path: &str| Wire::connect(site.front).ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let first = get("/a");
    assert_eq!((first.status(), first.text().as_str(), first.field("age")), (200, "/a 1", Some("0")));
    assert!(first.field("via").unwrap().starts_with("1.1 "), "{first:?}");
    let second = get("/a");
    assert_eq!(second.text(), "/a 1");
    assert_eq!(second.field("x-varnish").unwrap().split(' ').count(), 2, "its own number, and that of the fetch");
    let mut client = Wire::connect(site.front);
    let part = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n");
    assert_eq!((part.status(), part.text().as_str(), part.field("content-range")), (206, "a ", Some("bytes 1-2/4")));
    let known = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n\r\n");
    assert_eq!((known.status(), known.text().as_str()), (304, ""));
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer_to(true).unwrap().field("content-length"), Some("4"));
    let beyond = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=9-\r\n\r\n");
    assert_eq!((beyond.status(), beyond.field("content-range")), (416, Some("bytes */4")));
    assert_eq!(count.load(SeqCst), 1, "one request for all of them");
    assert!(
        origin.last_head().contains("accept-encoding: gzip") || origin.last_head().contains("Accept-Encoding: gzip")
    );
}

#[test]
fn what_is_for_one_client_is_not_stored() {
    let (origin, count) = counting("set-cookie: a=b\r\n");
    let site = Site::new("vcl 4.1;", "", &origin);
    assert_eq!((site.get("/a").text(), site.get("/a").text()), ("/a 1".to_owned(), "/a 2".to_owned()));
    // They do not wait for one another either.
    let started = std::time::Instant::now();
    let front = site.front;
    let clients: Vec<_> = (0..4).map(|_| thread::spawn(move || Wire::connect(front).get("/slow").text())).collect();
    let texts: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(count.load(SeqCst), 6, "{texts:?}");
    assert!(
        started.elapsed() < Duration::from_millis(1_100),
        "the second fetch is everybody's own: {:?}",
        started.elapsed()
    );
    let mut client = Wire::connect(site.front);
    let posted = client.ask("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(posted.text(), "/p 7");
    assert_eq!(client.ask("GET /c HTTP/1.1\r\nHost: a\r\nCookie: x=y\r\n\r\n").text(), "/c 8");
}

#[test]
fn one_fetch_serves_all_who_wait() {
    let (origin, count) = counting("");
    let site = Site::with(Edge::start, "vcl 4.1;", "", &origin);
    let front = site.front;
    let clients: Vec<_> = (0..50).map(|_| thread::spawn(move || Wire::connect(front).get("/slow").text())).collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), "/slow 1");
    }
    assert_eq!(count.load(SeqCst), 1);
}

#[test]
fn programs_answer_restart_purge_and_ban() {
    let (origin, _) = counting("");
    let program = "vcl 4.1;
        import std;
        sub vcl_recv {
            if (req.method == \"PURGE\") { return (purge); }
            if (req.method == \"BAN\") { ban(\"req.url ~ \" + req.http.x-what); return (synth(200, \"Banned\")); }
            if (req.url == \"/teapot\") { return (synth(418, \"Teapot\")); }
            if (req.url == \"/old\" && req.restarts == 0) { set req.url = \"/new\"; return (restart); }
            set req.url = std.querysort(req.url);
        }
        sub vcl_synth { if (resp.status == 418) { synthetic(\"short and stout\"); return (deliver); } }
        sub vcl_deliver { set resp.http.x-hits = obj.hits; }";
    let site = Site::new(program, "", &origin);
    let teapot = site.get("/teapot");
    assert_eq!((teapot.status(), teapot.text().as_str()), (418, "short and stout"));
    assert_eq!(site.get("/old").text(), "/new 1");
    assert_eq!(site.get("/new").field("x-hits"), Some("1"));
    assert_eq!(site.get("/q?b=1&a=2").text(), "/q?a=2&b=1 2");
    assert_eq!(site.get("/q?a=2&b=1").text(), "/q?a=2&b=1 2");
    let purged = Wire::connect(site.front).ask("PURGE /new HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(purged.status(), 200);
    let host = "Host: h\r\n";
    let get = |path: &str| Wire::connect(site.front).ask(format!("GET {path} HTTP/1.1\r\n{host}\r\n")).text();
    let (one, other) = (get("/ban/one"), get("/other"));
    let banned = Wire::connect(site.front).ask(format!("BAN / HTTP/1.1\r\n{host}x-what: ^/ban\r\n\r\n"));
    assert_eq!(banned.start_line(), "HTTP/1.1 200 Banned");
    assert_ne!(get("/ban/one"), one);
    assert_eq!(get("/other"), other);
}

#[test]
fn stale_objects_answer_while_they_are_fetched_again() {
    let (origin, count) = counting("cache-control: max-age=1\r\n");
    let site =
        Site::new("vcl 4.1; sub vcl_backend_response { set beresp.ttl = 0.2s; set beresp.grace = 1m; }", "", &origin);
    assert_eq!(site.get("/slow").text(), "/slow 1");
    thread::sleep(Duration::from_millis(250));
    let started = std::time::Instant::now();
    assert_eq!(site.get("/slow").text(), "/slow 1");
    assert!(started.elapsed() < Duration::from_millis(250), "nobody waits for the refresh");
    wait_until("it has been fetched again", || count.load(SeqCst) == 2);
    wait_until("the new one answers", || site.get("/slow").text() == "/slow 2");
}

/// "Speed Up Your Web Site with Varnish": hits are told by `X-Hit`, in the right way and in the mistaken one.
#[test]
fn the_articles_program_tells_hits() {
    let (origin, _) = counting("");
    let right = "sub vcl_hit { set req.http.tempheader = \"1\"; }
        sub vcl_miss { set req.http.tempheader = \"0\"; }
        sub vcl_deliver {
            set resp.http.X-Hit = \"0\";
            if (req.http.tempheader) { set resp.http.X-Hit = req.http.tempheader; unset req.http.tempheader; }
        }
        sub vcl_recv { if (req.url ~ \"^/images\") { unset req.http.cookie; } }
        sub vcl_fetch { if (req.url ~ \"\\.(png|gif|jpg)$\") { unset beresp.http.set-cookie; set beresp.ttl = 1h; } }";
    let site = Site::new(right, "", &origin);
    assert_eq!((site.get("/a").field("x-hit"), site.get("/a").field("x-hit")), (Some("0"), Some("1")));
    let wrong = "sub vcl_hit { set req.http.tempheader = \"1\"; }
        sub vcl_miss { set req.http.tempheader = \"0\"; }
        sub vcl_fetch {
            set beresp.http.X-Hit = \"0\";
            if (req.http.tempheader) { set beresp.http.X-Hit = req.http.tempheader; unset req.http.tempheader; }
        }";
    let site = Site::new(wrong, "", &origin);
    assert_eq!((site.get("/a").field("x-hit"), site.get("/a").field("x-hit")), (Some("0"), Some("0")));
}

#[test]
fn a_small_storage_serves_more_than_it_holds() {
    let body = "x".repeat(50_000);
    let origin = Origin::answering(move |request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}{body}", path.len() + body.len()).into_bytes()
    });
    let site = Site::new("vcl 4.1;", "storage malloc,1m", &origin);
    let mut client = Wire::connect(site.front);
    for number in 0..200 {
        let path = format!("/{number}");
        let answer = client.get(&path);
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert!(answer.text().starts_with(&path) && answer.text().len() == path.len() + 50_000);
    }
}

#[test]
fn what_is_stored_survives_a_reload() {
    let (origin, count) = counting("");
    let site = Site::with(Edge::start, "vcl 4.1;", "storage malloc,10m", &origin);
    assert_eq!(site.get("/a").text(), "/a 1");
    site.edge.signal(Signal::USR2);
    wait_until("the reload is over", || site.edge.output().contains("eload") || site.get("/b").status() == 200);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(site.get("/a").text(), "/a 1", "{}", site.edge.output());
    assert!(count.load(SeqCst) <= 2);
}

#[test]
fn a_fetch_that_breaks_off_is_no_object() {
    let origin = Origin::start(|mut wire, number| {
        wire.request();
        if number == 0 {
            wire.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
        } else {
            wire.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole");
        }
    });
    let site = Site::new("vcl 4.1;", "", &origin);
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = String::from_utf8(client.read_to_end()).unwrap();
    assert!(text.ends_with("half"), "the client sees that it is not whole, by the end of the connection: {text}");
    assert_eq!(Wire::connect(site.front).ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").text(), "whole");
}

#[test]
fn gzip_is_stored_once_and_taken_out_for_who_cannot_read_it() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&b"plain text, ".repeat(100)).unwrap();
    let packed = encoder.finish().unwrap();
    let length = packed.len();
    let origin = Origin::answering(move |_| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\netag: \"g\"\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), &packed].concat()
    });
    let site = Site::new("vcl 4.1;", "", &origin);
    let mut client = Wire::connect(site.front);
    let packed = client.ask("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!((packed.field("content-encoding"), packed.body.len()), (Some("gzip"), length));
    let plain = client.ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((plain.field("content-encoding"), plain.text()), (None, "plain text, ".repeat(100)));
    assert_eq!(plain.field("etag"), Some("W/\"g\""));
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_damaged_gzip_is_not_taken_for_whole() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&b"plain text, ".repeat(100)).unwrap();
    let mut damaged = encoder.finish().unwrap();
    let length = damaged.len();
    // Its sum is another one.
    damaged[length - 6] ^= 1;
    let origin = Origin::answering(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), &damaged].concat()
    });
    let site = Site::new("vcl 4.1;", "", &origin);
    for number in 1..=2 {
        let mut client = Wire::connect(site.front);
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
        let got = client.read_to_end();
        let head = got.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        assert!(got.len() - head < length, "its end tells the client");
        assert_eq!(origin.heads().len(), number, "it is not stored");
    }
}

#[test]
fn a_backend_that_fails_is_told_by_the_program() {
    let (origin, _) = counting("");
    let dead = free_address();
    let program = "vcl 4.1; sub vcl_backend_error { set beresp.http.x-why = beresp.reason; set beresp.ttl = 0s; return (deliver); }";
    let folder = Folder::new();
    let (path, front) = (folder.0.join("a.vcl"), free_address());
    fs::write(&path, format!("{program} backend default {{ .host = \"127.0.0.1\"; }}")).unwrap();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n retries 0\n\
         frontend site\n bind {front}\n vcl {}\nbackend default\n server s1 {dead}\n",
        path.display()
    ));
    let answer = Wire::connect(front).get("/a");
    assert_eq!((answer.status(), answer.field("x-why")), (503, Some("Backend fetch failed")));
    drop(origin);
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let folder = Folder::new();
    let check = |program: &str, more: &str| {
        let (vcl, config) = (folder.0.join("a.vcl"), folder.0.join("a.cfg"));
        fs::write(&vcl, program).unwrap();
        fs::write(
            &config,
            format!(
                "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
                 frontend site\n bind {}\n vcl {} {more}\nbackend app\n server s1 127.0.0.1:1\n",
                free_address(),
                vcl.display()
            ),
        )
        .unwrap();
        let output = Command::new(PROGRAM).args(["edge", "-c", "-f"]).arg(&config).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check("vcl 4.1; import std;", "storage malloc,1m param default_grace=1h").0, Some(0));
    for (program, more, why) in [
        ("vcl 4.1; sub vcl_recv { set req.foo = 1; }", "", "Symbol not found: 'req.foo'"),
        ("vcl 4.1; backend gone { .host = \"127.0.0.1\"; }", "", "backend 'gone'"),
        ("vcl 4.1;", "storage flie,/x,1m", "storage 'flie,/x,1m' is of a kind that is not there: 'flie'"),
        ("vcl 4.1;", "storage file,/x", "says no path, or not how large it may become"),
        ("vcl 4.1;", "storage a=malloc storage a=malloc", "there are two storages 'a'"),
        ("vcl 4.1;", "param default_tttl=1", "unknown parameter 'default_tttl'"),
        ("vcl 4.1;", "sotrage malloc", "unknown argument 'sotrage'"),
        ("vcl 4.1; sub vcl_init { return (fail(\"no\")); }", "", "vcl_init of"),
    ] {
        let (code, text) = check(program, more);
        assert!(code == Some(1) && text.contains(why), "{program}: {code:?} {text}");
    }
}

#[test]
fn varnishds_command_line_runs_it() {
    let (origin, count) = counting("");
    let (folder, front) = (Folder::new(), free_address());
    let program = folder.0.join("default.vcl");
    let (host, port) = (origin.address.ip(), origin.address.port());
    fs::write(&program, format!("vcl 4.1; backend default {{ .host = \"{host}\"; .port = \"{port}\"; }}")).unwrap();
    let mut child = Command::new(PROGRAM)
        .arg("varnishd")
        .args(["-F", "-s", "malloc,16m", "-p", "default_ttl=60", "-a", &front.to_string(), "-f"])
        .arg(&program)
        .arg("-n")
        .arg(folder.0.join("instance"))
        .spawn()
        .unwrap();
    wait_until("it listens", || std::net::TcpStream::connect(front).is_ok());
    let texts = (Wire::connect(front).get("/a").text(), Wire::connect(front).get("/a").text());
    support::signal_process(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert_eq!(texts, ("/a 1".to_owned(), "/a 1".to_owned()));
    assert_eq!(count.load(SeqCst), 1);
    fs::write(&program, "vcl 4.1; backend a { .host = \"127.0.0.1\"; } sub vcl_recv { set req.foo = 1; }").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["varnishd", "-F", "-f"]).arg(&program).arg("-n").arg(folder.0.join("instance"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("Message from VCC-compiler:\nSymbol not found: 'req.foo'"), "{text}");
}

#[test]
fn objects_go_by_the_keys_that_they_name() {
    let (origin, count) = counting("xkey: news sports\r\n");
    let program = "vcl 4.1; import xkey; sub vcl_recv { if (req.method == \"PURGE\") { set req.http.n = xkey.purge(req.http.key); \
                   return (synth(200, req.http.n)); } }";
    let site = Site::new(program, "", &origin);
    assert_eq!((site.get("/a").text(), site.get("/a").text()), ("/a 1".to_owned(), "/a 1".to_owned()));
    site.get("/b");
    let purge = |key: &str| {
        let answer = Wire::connect(site.front).ask(format!("PURGE / HTTP/1.1\r\nHost: a\r\nKey: {key}\r\n\r\n"));
        answer.start_line().to_owned()
    };
    assert_eq!(purge("weather"), "HTTP/1.1 200 0");
    assert_eq!(purge("sports"), "HTTP/1.1 200 2");
    assert_eq!(site.get("/a").text(), "/a 3");
    assert_eq!(count.load(SeqCst), 3);
}

/// Servers and backends behind a program count what is fetched, once: misses and what is passed, with their bytes, and no hits.
#[test]
fn what_is_fetched_is_counted() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let origin = Origin::answering(move |_| {
        let answer = b"HTTP/1.1 200 OK\r\ncache-control: max-age=50\r\ncontent-length: 1000\r\n\r\n".to_vec();
        let answer = [answer, vec![b'x'; 1000]].concat();
        counter.fetch_add(answer.len(), SeqCst);
        answer
    });
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         frontend site\n bind {front}\n vcl builtin\n default_backend default\nbackend default\n server s1 {}\n",
        origin.address,
    ));
    for _ in 0..5 {
        assert_eq!(Wire::connect(front).get("/a").text().len(), 1000);
    }
    let mut client = Wire::connect(front);
    client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n");
    client.send("y".repeat(300));
    assert_eq!(client.answer().text().len(), 1000);
    let received: usize = 300 + origin.heads().iter().map(String::len).sum::<usize>();
    // NOTE: heads are counted as they are before the last fields are added, so bytes are not the same to the byte.
    let about = |counted: usize, real: usize| counted.abs_diff(real) < 100;
    // The end of an exchange is counted when its client has its answer.
    wait_until("all is counted, and once", || {
        let mut socket = std::os::unix::net::UnixStream::connect(edge.folder.0.join("stats")).unwrap();
        socket.write_all(b"show stat\n").unwrap();
        let table = std::io::read_to_string(socket).unwrap();
        let names: Vec<&str> = table.lines().next().unwrap().trim_start_matches("# ").split(',').collect();
        let row = |row: &str| {
            let values: Vec<&str> = table.lines().find(|line| line.starts_with(row)).unwrap().split(',').collect();
            ["lbtot", "hrsp_2xx", "bin", "bout"].map(|name| {
                values[names.iter().position(|known| *known == name).unwrap()].parse::<usize>().unwrap_or(0)
            })
        };
        let rows = [row("default,s1"), row("default,BACKEND")];
        println!("{rows:?}, {received} bytes came, {} went", sent.load(SeqCst));
        rows.iter().all(|[chosen, answers, into, out]| {
            (*chosen, *answers) == (2, 2) && about(*into, received) && about(*out, sent.load(SeqCst))
        })
    });
}
