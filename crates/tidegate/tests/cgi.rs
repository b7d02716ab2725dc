//! CGI: programs in sh, Python and Perl answer requests, and none of them harms anybody else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use support::{Answer, Edge, Folder, LogServer, Wire, descendants, free_address, wait_until};

/// A site with programs.
struct Site {
    edge: Edge,
    front: SocketAddr,
    log: LogServer,
    folder: Folder,
}

impl Site {
    /// One with these programs, by name, and more words of the line.
    #[track_caller]
    fn start(programs: &[(&str, &str)], words: &str) -> Self {
        let (folder, front, log) = (Folder::new(), free_address(), LogServer::start());
        std::fs::create_dir(folder.0.join("sub")).unwrap();
        for (name, text) in programs {
            let path = folder.file(name, text);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder.file("plain.txt", "no program");
        let edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n\
             frontend site\n bind {front}\n log {} local0\n option httplog\n default_backend programs\n\
             backend programs\n log {} local1\n cgi /cgi-bin/ {} {words}\n",
            log.address,
            log.address,
            folder.0.display()
        ));
        Self { edge, front, log, folder }
    }

    fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(request);
        client.answer()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n"))
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut client = Wire::connect(self.front);
        client.try_send([head.as_bytes(), body].concat());
        client.answer()
    }

    /// The number that a program has written into a file of the folder.
    fn pid(&self, name: &str) -> u32 {
        let file = self.folder.0.join(name);
        let read = || std::fs::read_to_string(&file).ok()?.trim().parse().ok();
        wait_until("the program says its number", || read().is_some());
        read().unwrap()
    }
}

fn is_there(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

const SH: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv | sort\n";
const PYTHON: &str = "#!/usr/bin/python3\nimport os, sys\nbody = sys.stdin.buffer.read()\nprint('Status: 201 Made')\nprint('X-Path:', \
                      os.environ.get('PATH_INFO', '-'))\nprint()\nprint(len(body), os.environ.get('CONTENT_LENGTH'))\n";
const PERL: &str = "#!/usr/bin/perl\nprint \"Location: /elsewhere?\" . $ENV{QUERY_STRING} . \"\\r\\n\\r\\n\";\n";

#[test]
fn programs_of_any_language_answer() {
    let site = Site::start(&[("env.sh", SH), ("sub/post.py", PYTHON), ("go.pl", PERL)], "env GREETING=hello");
    let answer = site.ask(
        "GET /cgi-bin/env.sh/a%20b?c=d HTTP/1.1\r\nHost: example.com\r\nProxy: evil\r\nX-Own: 1\r\nAuthorization: x\r\n\r\n",
    );
    assert_eq!((answer.status(), answer.field("content-type")), (200, Some("text/plain")));
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    for expected in [
        "GATEWAY_INTERFACE=CGI/1.1",
        "GREETING=hello",
        "HTTP_X_OWN=1",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PATH_INFO=/a b",
        "QUERY_STRING=c=d",
        "REQUEST_METHOD=GET",
        "SCRIPT_NAME=/cgi-bin/env.sh",
        "SERVER_NAME=example.com",
        "SERVER_PROTOCOL=HTTP/1.1",
    ] {
        assert!(lines.contains(&expected), "{expected} in\n{text}");
    }
    // Nothing else: neither this process' environment nor what it would be dangerous to know.
    for name in ["HOME", "CARGO", "HTTP_PROXY", "HTTP_AUTHORIZATION", "USER", "NOTIFY_SOCKET"] {
        assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name} in\n{text}");
    }
    let answer = site.post("/cgi-bin/sub/post.py", b"12345");
    assert_eq!((answer.status(), answer.start_line()), (201, "HTTP/1.1 201 Made"));
    assert_eq!((answer.text().as_str(), answer.field("x-path")), ("5 5\n", Some("-")));
    let answer = site.get("/cgi-bin/go.pl?q");
    assert_eq!((answer.status(), answer.field("location")), (302, Some("/elsewhere?q")));
    // A body without an announced length ends where it ends.
    let chunked = "POST /cgi-bin/sub/post.py HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(site.ask(chunked).text(), "5 None\n");
    assert!(site.log.line_with("POST").contains(" programs/<CGI> "));
}

#[test]
fn programs_get_no_descriptors_of_ours() {
    let text = "#!/bin/sh\nprintf 'A: b\\n\\n'\nls -l /proc/self/fd | sed 's/.* \\([0-9]*\\) -> /\\1 /'\n";
    let site = Site::start(&[("fds", text)], "");
    let answer = site.get("/cgi-bin/fds");
    let body = answer.text();
    assert!(body.lines().filter(|line| line.contains(" pipe:")).count() >= 3, "{answer:?}");
    // What this test was started with is not ours.
    for ours in ["socket:", "anon_inode:", "memfd:", "stats"] {
        assert!(!body.contains(ours), "{ours} in\n{body}");
    }
}

#[test]
fn what_cannot_be_run_is_told() {
    let site = Site::start(
        &[("bare", "no interpreter"), ("junk", "#!/bin/sh\necho '<html>'\n"), ("silent", "#!/bin/sh\n")],
        "",
    );
    for (path, status) in [
        ("/cgi-bin/nothing", 404),
        ("/cgi-bin/", 404),
        ("/cgi-bin/sub", 404),
        ("/cgi-bin/a%00", 404),
        ("/cgi-bin/%zz", 400),
        ("/cgi-bin/plain.txt", 403),
        ("/cgi-bin/bare", 500),
        ("/cgi-bin/junk", 502),
        ("/cgi-bin/silent", 502),
        ("/cgi-binary", 503),
    ] {
        assert_eq!(site.get(path).status(), status, "{path}");
    }
}

/// The source of a program is not to be had, whatever folder it lies in and however its path is spelled.
#[test]
fn programs_come_before_files_and_have_one_path() {
    let site = Site::start(&[("env.sh", SH)], "");
    let folder = site.folder.0.display();
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\nlisten site\n bind {front}\n \
         http-request deny if {{ path_beg /cgi-bin/sub/ }}\n http-request set-path /cgi-bi%%6e/env.sh if {{ path /odd }}\n \
         cgi /cgi-bin/ {folder}\n alias /cgi-bin/ {folder}\n alias /programs/ {folder}\n try-files $uri /cgi-bin/env.sh\n"
    ));
    for front in [site.front, front] {
        let mut wire = Wire::connect(front);
        for (path, location) in [
            ("/cgi-bin/x/../env.sh?a", "/cgi-bin/env.sh?a"),
            ("/cgi-bin/../etc/passwd", "/etc/passwd"),
            ("/cgi-bin/%2e%2e/etc/passwd", "/etc/passwd"),
            ("/cgi-bin/x/..%2f..%2fbin/sh", "/bin/sh"),
            ("/cgi-bin/%65nv.sh", "/cgi-bin/env.sh"),
            ("/cgi-bin/%73ub/x", "/cgi-bin/sub/x"),
        ] {
            let answer = wire.get(path);
            assert_eq!((answer.status(), answer.field("location")), (301, Some(location)), "{path}");
        }
        assert!(wire.get("/cgi-bin/env.sh").text().contains("SCRIPT_NAME=/cgi-bin/env.sh"));
        let post = wire.ask("POST /cgi-bin/%65nv.sh HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(post.status(), 400);
        assert_eq!(Wire::connect(front).get("/cgi-bin/../../x").status(), 400);
    }
    let mut wire = Wire::connect(front);
    for _ in 0..2 {
        for path in ["/cgi-bin/env.sh", "/odd", "/programs/none"] {
            assert!(wire.get(path).text().contains("SCRIPT_NAME=/cgi-bin/env.sh"), "{path}");
        }
        assert_eq!(wire.get("/%63gi-bin/env.sh").field("location"), Some("/cgi-bin/env.sh"));
    }
}

#[test]
fn a_program_that_takes_too_long_is_ended() {
    let slow = "#!/bin/sh\necho $$ >slow.pid\ntrap '' TERM\nsleep 30\n";
    let half = "#!/bin/sh\necho $$ >half.pid\nprintf 'A: b\\n\\nhalf'\nexec sleep 30\n";
    let site = Site::start(&[("slow", slow), ("half", half)], "timeout 400ms");
    assert_eq!(site.get("/cgi-bin/slow").status(), 504);
    let mut client = Wire::connect(site.front);
    client.send("GET /cgi-bin/half HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = String::from_utf8(client.read_to_end()).unwrap();
    assert!(text.contains("half\r\n") && !text.contains("\r\n0\r\n"), "not whole, and not said to be: {text}");
    for name in ["slow.pid", "half.pid"] {
        let pid = site.pid(name);
        wait_until("it is gone", || !is_there(pid));
    }
    wait_until("no child is left", || descendants(site.edge.pid()).is_empty());
}

#[test]
fn a_client_that_leaves_takes_its_program_along() {
    let text = "#!/bin/sh\necho $$ >pid\nprintf 'A: b\\n\\nbegun'\nexec sleep 60\n";
    let site = Site::start(&[("long", text)], "");
    let mut client = Wire::connect(site.front);
    client.send("GET /cgi-bin/long HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_through(b"begun").unwrap();
    let pid = site.pid("pid");
    assert!(is_there(pid));
    drop(client);
    wait_until("it is gone", || !is_there(pid));
    wait_until("no child is left", || descendants(site.edge.pid()).is_empty());
}

#[test]
fn what_a_program_leaves_behind_keeps_nobody_waiting() {
    let text = "#!/bin/sh\nprintf 'A: b\\n\\n'\nsleep 8 &\necho $! >pid\necho done\n";
    let site = Site::start(&[("forks", text)], "");
    let began = Instant::now();
    assert_eq!(site.get("/cgi-bin/forks").text(), "done\n");
    assert!(is_there(site.pid("pid")), "it goes on: {:?}", began.elapsed());
    support::signal_process(site.pid("pid"), rustix::process::Signal::KILL);
}

#[test]
fn memory_and_output_have_limits() {
    let large = "#!/usr/bin/python3\nx = bytearray(400 << 20)\nprint('A: b\\n\\nmuch')\n";
    let flood = "#!/bin/sh\nprintf 'A: b\\n\\n'\nexec yes\n";
    let site = Site::start(&[("large", large), ("flood", flood)], "memory 128m output 300k");
    assert_eq!(site.get("/cgi-bin/large").status(), 502);
    site.log.line_with("MemoryError");
    let mut client = Wire::connect(site.front);
    client.send("GET /cgi-bin/flood HTTP/1.1\r\nHost: a\r\n\r\n");
    let came = client.read_to_end().len();
    assert!((200_000..400_000).contains(&came), "{came}");
    wait_until("no child is left", || descendants(site.edge.pid()).is_empty());
}

#[test]
fn only_so_many_run_at_a_time() {
    let text = "#!/bin/sh\n: >run.$$\nwhile [ ! -e go ]; do sleep 0.02; done\nprintf 'A: b\\n\\nran'\n";
    let site = Site::start(&[("wait", text)], "processes 2 queue 1");
    let running = || {
        let names = std::fs::read_dir(&site.folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("run.")).count()
    };
    thread::scope(|scope| {
        let asked: Vec<_> = (0..2).map(|_| scope.spawn(|| site.get("/cgi-bin/wait").text())).collect();
        wait_until("two run", || running() == 2);
        // One waits, and the next one is told to come back.
        let mut clients: Vec<Wire> = (0..3).map(|_| Wire::connect(site.front)).collect();
        clients.iter_mut().for_each(|client| client.send("GET /cgi-bin/wait HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut refused = None;
        wait_until("one is refused", || {
            let at = clients.iter_mut().position(|client| !client.is_silent_for(Duration::from_millis(50)));
            refused = at.map(|at| clients[at].answer());
            refused.is_some()
        });
        let refused = refused.unwrap();
        assert_eq!((refused.status(), refused.field("retry-after")), (503, Some("1")));
        site.folder.file("go", "");
        for asked in asked {
            assert_eq!(asked.join().unwrap(), "ran");
        }
    });
}

#[test]
fn bodies_of_any_size_pass_and_slow_programs_hold_up_nobody() {
    let count = "#!/bin/sh\nprintf 'A: b\\n\\n'\nwc -c\n";
    let closes = "#!/bin/sh\nexec 0<&-\nprintf 'A: b\\n\\nread nothing'\n";
    let sleeps = "#!/bin/sh\nsleep 2\nprintf 'A: b\\n\\nslept'\n";
    let streams = "#!/bin/sh\nprintf 'A: b\\n\\none\\n'\nread line\nprintf 'two %s' \"$line\"\n";
    let programs = [("count", count), ("closes", closes), ("sleeps", sleeps), ("streams", streams)];
    let site = Site::start(&programs, "");
    let body = vec![b'x'; 20 << 20];
    thread::scope(|scope| {
        let slow: Vec<_> = (0..4).map(|_| scope.spawn(|| site.get("/cgi-bin/sleeps").text())).collect();
        assert_eq!(site.post("/cgi-bin/count", &body).text().trim(), (20 << 20).to_string());
        assert_eq!(site.post("/cgi-bin/closes", &body[..100_000]).text(), "read nothing");
        let mut client = Wire::connect(site.front);
        client.send("POST /cgi-bin/streams HTTP/1.1\r\nHost: a\r\ncontent-length: 6\r\n\r\n");
        client.read_through(b"one\n").unwrap();
        client.send("hello\n");
        client.read_through(b"two hello").unwrap();
        assert!(slow.into_iter().all(|slow| slow.join().unwrap() == "slept"));
    });
}

#[test]
fn complaints_are_logged() {
    let text = "#!/bin/sh\nprintf 'bad \\033[1m thing\\n' >&2\nprintf 'A: b\\n\\nfine'\n";
    let site = Site::start(&[("complains", text)], "");
    assert_eq!(site.get("/cgi-bin/complains").text(), "fine");
    assert!(site.log.line_with("bad ").contains("bad .[1m thing"));
}

#[test]
fn a_program_names_another_path_to_answer_with() {
    let programs = [
        ("env", SH),
        ("local", "#!/bin/sh\nprintf 'Location: /cgi-bin/env/info?x=1\\n\\n'\n"),
        ("circle", "#!/bin/sh\necho run >> \"$0.runs\"\nprintf 'Location: /cgi-bin/circle\\n\\n'\n"),
        ("cookie", "#!/bin/sh\nprintf 'Location: /cgi-bin/env\\nSet-Cookie: a=1\\n\\n'\n"),
        ("far", "#!/bin/sh\nprintf 'Location: //example.net/\\n\\n'\n"),
        ("status", "#!/bin/sh\nprintf 'Status: 302 Found\\nLocation: /cgi-bin/env\\n\\n'\n"),
    ];
    let site = Site::start(&programs, "");
    let answer = site.get("/cgi-bin/local?own=2");
    let text = answer.text();
    assert_eq!((answer.status(), answer.field("location")), (200, None), "{answer:?}");
    for expected in ["PATH_INFO=/info", "QUERY_STRING=x=1", "REQUEST_METHOD=GET", "REQUEST_URI=/cgi-bin/local?own=2"] {
        assert!(text.lines().any(|line| line == expected), "{expected} in\n{text}");
    }
    // What leads in a circle ends.
    assert_eq!(site.get("/cgi-bin/circle").status(), 502);
    let runs = std::fs::read_to_string(site.folder.0.join("circle.runs")).unwrap();
    assert_eq!(runs.lines().count(), 11);
    // All else is for the client.
    for (path, location) in [("cookie", "/cgi-bin/env"), ("far", "//example.net/"), ("status", "/cgi-bin/env")] {
        let answer = site.get(&format!("/cgi-bin/{path}"));
        assert_eq!((answer.status(), answer.field("location")), (302, Some(location)), "{path}");
    }
    assert_eq!(site.post("/cgi-bin/local", b"abc").status(), 302);
}

/// Where something else stands for a path, or a program names one, conditions on that other path count all the same.
#[test]
fn what_stands_for_a_path_is_run_and_rules_are_not_gone_around() {
    let programs = [("index.cgi", SH), ("local.cgi", "#!/bin/sh\nprintf 'Location: /index.cgi\\n\\n'\n")];
    let site = Site::start(&programs, "");
    let folder = site.folder.0.display();
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\nlisten site\n bind {front}\n \
         http-request deny if {{ path /never }}\n root {folder}\n index index.cgi\n cgi / {folder} if {{ path_end .cgi }}\n \
         try-files $uri $uri/ /index.cgi\n"
    ));
    let mut wire = Wire::connect(front);
    for _ in 0..3 {
        for path in ["/", "/index.cgi", "/no/such/page"] {
            let answer = wire.get(path);
            assert!(answer.text().contains("SCRIPT_NAME=/index.cgi"), "{path}: {answer:?}");
        }
        // There are rules, which have not seen the path that is named.
        let answer = wire.get("/local.cgi");
        assert_eq!((answer.status(), answer.field("location")), (302, Some("/index.cgi")));
    }
}
