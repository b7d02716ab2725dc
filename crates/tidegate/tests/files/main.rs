//! Files as an answerer: folders over real sockets, what stands in for what, and that nothing leads out of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod changes;
mod numbers;
mod serve;
#[path = "../support/mod.rs"]
mod support;

use std::{fs, net::SocketAddr, os::unix::fs::symlink, path::PathBuf, process::Command};

use support::{Answer, Edge, Folder, LogServer, Origin, Wire, free_address, noise, wait_until};

/// A site with some files.
struct Files {
    folder: Folder,
}

impl Files {
    fn new() -> Self {
        let folder = Folder::new();
        let files = Self { folder };
        for (name, text) in [
            ("top/index.html", "<h1>top</h1>\n"),
            ("top/style.css", "p { margin: 0 }\n"),
            ("top/docs/index.html", "<h1>docs</h1>\n"),
            ("top/docs/a.txt", "a\n"),
            ("top/bare/b.txt", "b\n"),
            ("top/app.php", "<?php secret ?>\n"),
            ("top/a b+ü.txt", "odd\n"),
            ("top/.secret", "secret\n"),
            ("top/.git/config", "secret\n"),
            ("top/.well-known/x", "well\n"),
            ("top/empty", ""),
            ("other/secret", "secret\n"),
            ("topping/secret", "secret\n"),
        ] {
            files.write(name, text);
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn top(&self) -> String {
        self.path("top").display().to_string()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Puts a file in the place of another one at once.
    fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write("new", content);
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }
}

const DEFAULTS: &str = "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n";

fn site(lines: &str) -> (Edge, SocketAddr) {
    let front = free_address();
    let edge = Edge::start(&format!("{DEFAULTS}listen files\n bind {front}\n{lines}\n"));
    (edge, front)
}

#[track_caller]
fn get(front: SocketAddr, path: &str) -> Answer {
    Wire::connect(front).get(path)
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a condition protects is not there under another spelling of its path.
#[test]
fn a_file_has_one_path() {
    let files = Files::new();
    let (_edge, front) = site(&format!(
        " http-request deny if {{ path_beg /docs/ }} {{ req.hdr(x-stranger) -m found }}\n http-request set-path /docs%%2fa.txt if {{ \
         path /old/a }}\n http-request set-path /app%%2ephp if {{ path /old/app }}\n root {} unless {{ path_end .php }}",
        files.top()
    ));
    let mut wire = Wire::connect(front);
    for (path, location) in [
        ("/docs/../style.css", "/style.css"),
        ("//docs//a.txt", "/docs/a.txt"),
        ("/./docs/a.txt?b=%61&c", "/docs/a.txt?b=%61&c"),
        ("/%64ocs/a.txt", "/docs/a.txt"),
        ("/docs%2fa.txt", "/docs/a.txt"),
        ("/docs/a%2Etxt", "/docs/a.txt"),
        ("/docs/./", "/docs/"),
        ("/app%2ephp", "/app.php"),
        ("/app.ph%70", "/app.php"),
    ] {
        for _ in 0..2 {
            let stranger = if path.starts_with("/docs/") { "" } else { "X-Stranger: 1\r\n" };
            let answer = wire.ask(format!("GET {path} HTTP/1.1\r\nHost: site\r\n{stranger}\r\n"));
            assert_eq!((answer.status(), answer.field("location")), (301, Some(location)), "{path}");
        }
    }
    let refused = wire.ask("GET /docs/a.txt HTTP/1.1\r\nHost: site\r\nX-Stranger: 1\r\n\r\n");
    assert_eq!(refused.status(), 403);
    let mut wire = Wire::connect(front);
    // No file, no server.
    for path in ["/app.php", "/x/../app.php", "/%6eone", "//none", "/x/../none"] {
        assert!(matches!(wire.get(path).status(), 404 | 503), "{path}");
    }
    // What a rule has made of a path is no client's business: the lines are asked with the usual spelling.
    for _ in 0..2 {
        let answer = wire.get("/old/a");
        assert_eq!((answer.status(), &*answer.text()), (200, "a\n"));
        assert_ne!(wire.get("/old/app").status(), 200);
    }
    assert_eq!(wire.get("/a%20b+%c3%bc.txt").status(), 200);
}

/// Whatever way leads to a file or to who runs scripts, conditions on its path have seen that path.
#[test]
fn no_spelling_goes_around_a_condition() {
    let files = Files::new();
    files.write("top/private/index.php", "<?php secret ?>");
    files.write("top/docs/index.php", "<?php secret ?>");
    let origin = Origin::answering(|request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        support::ok(&format!("server {path}"))
    });
    let (top, server) = (files.top(), origin.address);
    let [plain, shared, vcl] = [free_address(), free_address(), free_address()];
    let lines = format!(
        " index index.php index.html\n root {top} unless {{ path_end .php }}\n try-files $uri $uri/ /docs/?$args if {{ path_beg /app/ \
         /docs/ /%64ocs/ /app.php }}\n server s1 {server}\n"
    );
    let rules = " http-request deny if { path_beg /private/ }\n http-request set-path /doc%%73/a.txt if { path /to-odd }\n \
                 http-request set-path /app.ph%%70 if { path /to-script }\n";
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen plain\n bind {plain}\n{rules}{lines}listen shared\n bind {shared}\n shared-cache\n{rules}{lines}listen vcl\n \
         bind {vcl}\n{rules} vcl builtin\n default_backend default\nbackend default\n{lines}"
    ));
    for front in [plain, shared, vcl] {
        let mut wire = Wire::connect(front);
        for turn in 0..3 {
            // By a slash behind the name of a script, and by what stands in for what nothing is there for.
            for path in ["/app.php/", "/docs/index.php/"] {
                let answer = wire.get(path);
                assert!(!answer.text().contains("secret"), "{path} of {front}: {answer:?}");
            }
            assert_eq!(wire.get("/app/route?x").text(), "server /docs/index.php?x", "turn {turn}");
            assert_eq!(wire.get("/docs/").text(), "server /docs/index.php");
            assert_eq!(wire.get("/private/").status(), 403);
            for (path, location) in [
                ("/%70rivate/", "/private/"),
                ("/x/../private/?a=%62", "/private/?a=%62"),
                ("/%64ocs/a.txt", "/docs/a.txt"),
            ] {
                let answer = wire.get(path);
                assert_eq!((answer.status(), answer.field("location")), (301, Some(location)), "{path} of {front}");
            }
            // What may not be sent twice is not led.
            let post = wire.ask("POST /%70rivate/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            assert!(matches!(post.status(), 400 | 502 | 503), "{front}: {post:?}");
            wire = Wire::connect(front);
            // What a rule has made is no client's business.
            let odd = wire.get("/to-odd");
            assert_eq!((odd.status(), &*odd.text()), (200, "a\n"), "{front}: {odd:?}");
            assert_eq!(wire.get("/to-script").text(), "server /app.php", "{front}");
        }
    }
}

/// One folder at two places is open for both, each with its conditions.
#[test]
fn two_lines_of_one_folder_are_two() {
    let files = Files::new();
    files.write("top/a/b.txt", "a/b\n");
    files.write("top/b.txt", "b\n");
    let top = files.top();
    let (_edge, front) =
        site(&format!(" alias /a/ {top} if {{ req.hdr(x-alias) -m found }}\n root {top}\n open-file-cache valid 1h"));
    let mut wire = Wire::connect(front);
    for _ in 0..3 {
        assert_eq!(wire.get("/a/b.txt").text(), "a/b\n");
        assert_eq!(wire.ask("GET /a/b.txt HTTP/1.1\r\nHost: a\r\nX-Alias: 1\r\n\r\n").text(), "b\n");
    }
}

#[test]
fn a_folder_answers() {
    let files = Files::new();
    let (_edge, front) = site(&format!(" root {}", files.top()));
    let mut wire = Wire::connect(front);
    for (path, status, body) in [
        ("/", 200, "<h1>top</h1>\n"),
        ("/index.html", 200, "<h1>top</h1>\n"),
        ("/style.css?v=1", 200, "p { margin: 0 }\n"),
        ("/docs/", 200, "<h1>docs</h1>\n"),
        ("/docs/a.txt", 200, "a\n"),
        ("/a%20b+%c3%bc.txt", 200, "odd\n"),
        ("/.well-known/x", 200, "well\n"),
        ("/empty", 200, ""),
    ] {
        // The second time it is open already.
        for turn in 0..2 {
            let answer = wire.get(path);
            assert_eq!((answer.status(), &*answer.text()), (status, body), "{path}, turn {turn}");
            assert!(answer.field("etag").is_some() && answer.field("last-modified").is_some(), "{}", answer.head);
            assert!(answer.field("date").is_some_and(|date| date.ends_with(" GMT")), "{}", answer.head);
            assert_eq!(answer.field("accept-ranges"), Some("bytes"));
        }
    }
    for (path, status) in [
        ("/none", 404),
        ("/docs/none", 404),
        ("/style.css/", 404),
        ("/style.css/x", 404),
        ("/.secret", 404),
        ("/.git/config", 404),
        ("/bare/", 403),
    ] {
        let answer = wire.get(path);
        assert_eq!(answer.status(), status, "{path}");
        assert!(answer.text().contains("<h1>"), "{path}: {}", answer.text());
    }
    for (path, location) in
        [("/docs", "/docs/"), ("/docs?a=b", "/docs/?a=b"), ("//docs", "/docs/"), ("/x/../docs", "/docs/")]
    {
        let answer = wire.get(path);
        assert_eq!((answer.status(), answer.field("location")), (301, Some(location)), "{path}");
    }
    assert_eq!(get(front, "/style.css").field("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(get(front, "/empty").field("content-type"), Some("application/octet-stream"));
}

#[test]
fn other_methods() {
    let files = Files::new();
    let (_edge, front) = site(&format!(" root {}", files.top()));
    let mut wire = Wire::connect(front);
    let ask =
        |wire: &mut Wire, method: &str, path: &str| wire.ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let head = ask(&mut wire, "HEAD", "/style.css");
    assert_eq!((head.status(), head.field("content-length")), (200, Some("16")));
    assert_eq!(ask(&mut wire, "HEAD", "/none").status(), 404);
    let options = ask(&mut wire, "OPTIONS", "/style.css");
    assert_eq!((options.status(), options.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
    for path in ["/style.css", "/style.css", "/docs", "/docs/"] {
        let refused = ask(&mut wire, "DELETE", path);
        assert_eq!((refused.status(), refused.field("allow")), (405, Some("GET, HEAD, OPTIONS")), "{path}");
    }
    let refused = Wire::connect(front).ask("POST /style.css HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(refused.status(), 405);
}

#[test]
fn conditions_and_ranges() {
    let files = Files::new();
    let large = noise(3_000_000, 7);
    files.write("top/large", &large);
    let (_edge, front) = site(&format!(" root {}", files.top()));
    for (path, content) in [("/style.css", &b"p { margin: 0 }\n"[..]), ("/large", &large)] {
        let mut wire = Wire::connect(front);
        wait_until("the tag is a strong one", || !wire.get(path).field("etag").unwrap().starts_with("W/"));
        let whole = wire.get(path);
        let (tag, date) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
        let mut with = |fields: &str| wire.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        for (fields, status) in [
            (format!("If-None-Match: {tag}\r\n"), 304),
            (format!("If-None-Match: \"x\", {tag}\r\n"), 304),
            ("If-None-Match: *\r\n".to_owned(), 304),
            ("If-None-Match: \"x\"\r\n".to_owned(), 200),
            (format!("If-Modified-Since: {date}\r\n"), 304),
            ("If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n".to_owned(), 200),
            ("If-Match: \"x\"\r\n".to_owned(), 412),
            ("Range: bytes=99999999-\r\n".to_owned(), 416),
        ] {
            let answer = with(&fields);
            assert_eq!(answer.status(), status, "{path} {fields}");
            if status == 304 {
                assert_eq!(answer.field("etag"), Some(tag));
            }
        }
        let last = content.len() - 1;
        for (range, part) in
            [("0-4", &content[..5]), ("5-", &content[5..]), ("-3", &content[last - 2..]), ("2-2", &content[2..3])]
        {
            let answer = with(&format!("Range: bytes={range}\r\nIf-Range: {tag}\r\n"));
            assert_eq!(answer.status(), 206, "{path} {range}");
            assert!(answer.body == part, "{path} {range}: {} bytes", answer.body.len());
            assert!(answer.field("content-range").unwrap().ends_with(&format!("/{}", content.len())));
        }
        assert!(with("Range: bytes=0-4\r\nIf-Range: \"x\"\r\n").body == content);
        let several = with("Range: bytes=0-1,4-5,-2\r\n");
        let kind = several.field("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let parts: Vec<&[u8]> = split(&several.body, format!("--{boundary}").as_bytes());
        assert_eq!(parts.len(), 5, "{}", several.text());
        for (part, bytes) in parts[1..4].iter().zip([&content[..2], &content[4..6], &content[last - 1..]]) {
            assert!(
                part.strip_suffix(b"\r\n").unwrap().ends_with(&[b"\r\n\r\n", bytes].concat()),
                "{}",
                several.text()
            );
        }
    }
}

fn split<'a>(bytes: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(by.len()).position(|window| window == by) {
        parts.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    parts.push(rest);
    parts
}

#[test]
fn large_files_arrive_whole() {
    let files = Files::new();
    let large = noise(20_000_000, 3);
    files.write("top/large", &large);
    let front2 = free_address();
    let (_edge, front) = site(&format!(" bind {front2} proto h2\n root {}", files.top()));
    let expected = files.path("top/large");
    let out = files.path("out");
    for arguments in [
        vec![format!("http://{front}/large")],
        vec!["--http2-prior-knowledge".to_owned(), format!("http://{front2}/large")],
    ] {
        let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out_text = out.display().to_string();
        all.extend(["-o", &out_text]);
        curl(&all);
        assert!(fs::read(&out).unwrap() == fs::read(&expected).unwrap(), "{arguments:?}");
    }
    // The connection goes on, and a slow reader gets all.
    let mut wire = Wire::connect(front);
    for _ in 0..2 {
        assert!(wire.get("/large").body == large);
    }
    // Several at a time.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(get(front, "/large").body == large));
        }
    });
}

#[test]
fn nothing_leads_out() {
    let files = Files::new();
    for (name, target) in [
        ("inside", "docs/a.txt"),
        ("out", "../other/secret"),
        ("outer", "../other"),
        ("round", "round"),
        ("absolute", "/etc/passwd"),
    ] {
        symlink(target, files.path("top").join(name)).unwrap();
    }
    symlink(files.path("top/docs"), files.path("top/back")).unwrap();
    assert!(Command::new("mkfifo").arg(files.path("top/pipe")).status().unwrap().success());
    let front = [free_address(), free_address(), free_address()];
    let [within, deny, follow] = front;
    let top = files.top();
    let config = format!(
        "{DEFAULTS}listen within\n bind {within}\n root {top}\nlisten deny\n bind {deny}\n root {top}\n symlinks deny\nlisten \
         follow\n bind {follow}\n root {top}\n symlinks follow\n"
    );
    let _edge = Edge::start(&config);
    for path in [
        "/../other/secret",
        "/..%2fother/secret",
        "/%2e%2e/other/secret",
        "/%2e%2e%2fother%2fsecret",
        "/docs/../../other/secret",
        "/docs/..%2f..%2fother/secret",
        "/docs/%2e%2e/%2e%2e/other/secret",
        "/..\\other\\secret",
        "/..%5cother%5csecret",
        "/%c0%ae%c0%ae/other/secret",
        "/%c0%ae%c0%ae%c0%afother%c0%afsecret",
        "/%e0%80%ae%e0%80%ae/other/secret",
        "/%252e%252e/other/secret",
        "/..%00/other/secret",
        "/docs/a.txt%00.html",
        "/%00",
        "/../topping/secret",
        "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/./.././../etc/passwd",
        "/....//....//etc/passwd",
        "/docs/.../.../other/secret",
        "/.%2e/other/secret",
        "/%2e./other/secret",
        "/%",
        "/%2",
        "/%zz",
        "/.git/config",
        "/%2egit/config",
        "/docs/%2e%2e/.git/config",
        "/.git%2fconfig",
        "/out",
        "/outer/secret",
        "/round",
        "/absolute",
        "/pipe",
        "/docs/a.txt/",
    ] {
        for front in [within, deny] {
            let answer = get(front, path);
            assert!((300..500).contains(&answer.status()), "{path}: {}", answer.head);
            assert!(!answer.text().contains("secret") && !answer.text().contains("root:"), "{path}");
        }
    }
    for (path, statuses) in [
        ("/inside", [200, 404, 200]),
        ("/back/a.txt", [200, 404, 200]),
        ("/out", [404, 404, 200]),
        ("/outer/secret", [404, 404, 200]),
        ("/pipe", [404; 3]),
    ] {
        assert_eq!(front.map(|front| get(front, path).status()), statuses, "{path}");
    }
    // Long ones.
    for path in [
        format!("/{}", "a".repeat(300)),
        format!("/{}", "a/".repeat(4_000)),
        format!("/{}etc/passwd", "../".repeat(2_000)),
    ] {
        assert!((400..500).contains(&get(within, &path).status()), "{path}");
    }
    assert_eq!(Wire::connect(within).ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status(), 400);
    assert_eq!(Wire::connect(within).ask("GET http://site/docs/a.txt HTTP/1.1\r\nHost: site\r\n\r\n").text(), "a\n");
}

#[test]
fn servers_answer_what_no_line_is_for() {
    let files = Files::new();
    let origin = Origin::answering(|request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        support::ok(&format!("server {path}"))
    });
    let log = LogServer::start();
    files.write("top/shop/index.php", "<?php secret ?>");
    let front = free_address();
    let edge = Edge::start(&format!(
        "global\n stats socket %FOLDER%/stats level admin\n{DEFAULTS}listen files\n bind {front}\n option httplog\n log {} local0\n index \
         index.php index.html\n alias /static/ {} if {{ path_beg /static/ }}\n root {} unless {{ path_end .php }}\n try-files $uri \
         $uri/ /app.php?$args if {{ hdr(x-app) -m found }}\n server s1 {}\n",
        log.address,
        files.path("top/docs").display(),
        files.top(),
        origin.address
    ));
    let mut wire = Wire::connect(front);
    for _ in 0..2 {
        for (path, body) in [
            ("/style.css", "p { margin: 0 }\n"),
            ("/app.php", "server /app.php"),
            ("/none?x=y", "server /none?x=y"),
            ("/static/a.txt", "a\n"),
            ("/static/none", "server /static/none"),
            ("/shop/?a=b", "server /shop/index.php?a=b"),
            ("/docs/", "<h1>docs</h1>\n"),
        ] {
            assert_eq!(wire.get(path).text(), body, "{path}");
        }
        let mut app = |path: &str| wire.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-App: 1\r\n\r\n")).text();
        assert_eq!(app("/route/of/app?x=y"), "server /app.php?x=y");
        assert_eq!(app("/docs/a.txt"), "a\n");
        assert_eq!(app("/docs/"), "<h1>docs</h1>\n");
    }
    let line = log.line_with("GET /style.css");
    assert!(line.contains(" files files/<FILES> ") && line.contains(" 200 ") && line.contains(" ---- "), "{line}");
    let line = log.line_with("GET /none");
    assert!(line.contains(" files files/s1 "), "{line}");
    let line = log.line_with("GET /route/of/app");
    assert!(line.contains(" files files/s1 "), "{line}");
    // The last one may not be counted yet when its answer is there.
    wait_until("statistics count twenty answers", || {
        let stats = edge.command("show stat");
        let names = stats.lines().next().unwrap().trim_start_matches("# ");
        let column = names.split(',').position(|name| name == "hrsp_2xx").unwrap();
        let row = stats.lines().find(|line| line.starts_with("files,BACKEND,")).unwrap();
        row.split(',').nth(column) == Some("20")
    });
}

#[test]
fn a_single_page_application() {
    let files = Files::new();
    let front = free_address();
    let top = files.top();
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen spa\n bind {front}\n root {top}\n try-files $uri $uri/ /index.html if {{ path_beg /app }}\n try-files $uri \
         $uri.html =410\n autoindex on\n"
    ));
    files.write("top/page.html", "page");
    let mut wire = Wire::connect(front);
    for _ in 0..2 {
        for (path, status, body) in [
            ("/app/route", 200, "<h1>top</h1>\n"),
            ("/app", 200, "<h1>top</h1>\n"),
            ("/page", 200, "page"),
            ("/style.css", 200, "p { margin: 0 }\n"),
        ] {
            let answer = wire.get(path);
            assert_eq!((answer.status(), &*answer.text()), (status, body), "{path}");
        }
        assert_eq!(wire.get("/none").status(), 410);
        assert_eq!(wire.get("/docs").status(), 410);
    }
}

#[test]
fn listings() {
    let files = Files::new();
    let (_edge, front) = site(&format!(" root {}\n autoindex on unless {{ path_beg /bare }}", files.top()));
    files.write("top/list/<b>&.txt", "x");
    files.write("top/list/sub/x", "x");
    files.write("top/list/.hidden", "x");
    symlink("/etc/passwd", files.path("top/list/out")).unwrap();
    let page = get(front, "/list/");
    assert_eq!((page.status(), page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    let text = page.text();
    assert!(text.contains("&lt;b&gt;&amp;.txt") && text.contains("sub/"), "{text}");
    assert!(!text.contains("./.hidden") && !text.contains("passwd") && !text.contains(">out<"), "{text}");
    let json = get(front, "/list/?format=json");
    assert_eq!(json.field("content-type"), Some("application/json"));
    assert!(json.text().contains("\"<b>&.txt\""), "{}", json.text());
    assert_eq!(get(front, "/bare/").status(), 403);
    assert_eq!(get(front, "/list").status(), 301);
    let head = Wire::connect(front).ask("HEAD /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status(), head.field("content-length")), (200, Some(&*text.len().to_string())));
}

#[test]
fn a_folder_of_very_many_files() {
    let files = Files::new();
    for number in 0..10_050 {
        let name = files.path(&format!("top/many/{number}"));
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::File::create(name).unwrap();
    }
    let (_edge, front) = site(&format!(" root {}\n autoindex on", files.top()));
    let text = get(front, "/many/?format=text").text();
    // The last line says that there are more.
    assert_eq!(text.lines().count(), 10_001, "{:?}", text.lines().last());
    assert_eq!(get(front, "/many/10049").status(), 200);
}

#[test]
fn caches_and_compression_take_files_as_what_servers_answer() {
    let files = Files::new();
    let large = noise(200_000, 9);
    files.write("top/large", &large);
    files.write("top/page.html", "<p>compressible</p>\n".repeat(5_000));
    let top = files.top();
    let front = [free_address(), free_address(), free_address()];
    let [shared, vcl, compressed] = front;
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen shared\n bind {shared}\n shared-cache\n root {top}\n expires 1h\nlisten vcl\n bind {vcl}\n vcl builtin\n \
         default_backend default\nbackend default\n root {top}\nlisten compressed\n bind {compressed}\n root {top}\n compression algo gzip\n \
         compression type text/html\n http-response set-header x-rule \"%[status]\"\n"
    ));
    for (front, what) in [(shared, "shared-cache"), (vcl, "vcl")] {
        for turn in 0..3 {
            let answer = get(front, "/large");
            assert!(answer.body == large, "{what}, turn {turn}: {}", answer.head);
        }
        assert_eq!(get(front, "/none").status(), 404, "{what}");
        assert_eq!(get(front, "/docs/a.txt").text(), "a\n", "{what}");
    }
    let page = Wire::connect(compressed).ask("GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!((page.field("content-encoding"), page.field("x-rule")), (Some("gzip"), Some("200")));
    assert!(page.fields("vary").join(",").to_ascii_lowercase().contains("accept-encoding"), "{}", page.head);
    let url = format!("http://{compressed}/page.html");
    assert_eq!(curl(&["--compressed", &url]), "<p>compressible</p>\n".repeat(5_000));
}

#[test]
fn precompressed_files_and_what_is_said_of_files() {
    let files = Files::new();
    for (name, text) in [
        ("app.js", "plain"),
        ("app.js.gz", "as gzip"),
        ("app.js.br", "as brotli"),
        ("old.js", "x"),
        ("old.js.gz", "older"),
    ] {
        files.write(&format!("top/{name}"), text);
    }
    let old = Command::new("touch").args(["-d", "2001-01-01"]).arg(files.path("top/old.js.gz")).status().unwrap();
    assert!(old.success());
    files.write("types", "text/x-special special\n");
    files.write("top/a.special", "x");
    let (_edge, front) = site(&format!(
        " root {}\n precompressed br gzip\n mime-types {}\n mime-type text/x-other other\n charset iso-8859-1\n expires 1h if {{ path_end \
         .js }}\n expires off",
        files.top(),
        files.path("types").display()
    ));
    let ask = |path: &str, accept: &str| {
        Wire::connect(front).ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n"))
    };
    for _ in 0..2 {
        for (accept, coding, body) in [
            ("gzip", Some("gzip"), "as gzip"),
            ("gzip, br", Some("br"), "as brotli"),
            ("gzip;q=0.9, br;q=0.1", Some("gzip"), "as gzip"),
            ("identity", None, "plain"),
            ("zstd", None, "plain"),
        ] {
            let answer = ask("/app.js", accept);
            assert_eq!((answer.field("content-encoding"), &*answer.text()), (coding, body), "{accept}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{}", answer.head);
            assert_eq!(answer.field("cache-control"), Some("max-age=3600"));
        }
        assert_eq!(ask("/old.js", "gzip").text(), "x", "a compressed file that is older is another version");
    }
    assert_eq!(get(front, "/a.special").field("content-type"), Some("text/x-special; charset=iso-8859-1"));
    assert_eq!(get(front, "/style.css").field("cache-control"), None);
}

#[test]
fn error_pages_are_those_of_the_proxy() {
    let files = Files::new();
    files.write("404.http", "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost");
    let (_edge, front) = site(&format!(
        " root {}\n errorfile 404 {}\n http-error status 403 content-type text/plain string \"not for you\"",
        files.top(),
        files.path("404.http").display()
    ));
    let lost = get(front, "/none");
    assert_eq!((lost.status(), &*lost.text()), (404, "lost"));
    assert_eq!(get(front, "/bare/").text(), "not for you");
}
