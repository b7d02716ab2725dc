//! PHP behind FastCGI: a front controller as WordPress has one, under a real PHP-FPM.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread};

use support::{Answer, Edge, Fpm, LogServer, Store, Wire, free_address, resident_kilobytes, wait_until};

const INDEX: &str = include_str!("php/index.php");

/// A site in PHP.
struct Site {
    edge: Edge,
    front: SocketAddr,
    fpm: Fpm,
}

impl Site {
    /// One with so many processes of PHP; `lines` are more lines of its backend, `section` of its application. None without PHP-FPM.
    #[track_caller]
    fn start(children: usize, lines: &str, section: &str) -> Option<Self> {
        let fpm = Fpm::start(children, INDEX)?;
        let front = free_address();
        let (root, socket) = (fpm.root().display().to_string(), fpm.socket().display().to_string());
        let edge = Edge::start_single(&format!(
            "global\n stats socket %FOLDER%/stats\ndefaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n\
             frontend site\n bind {front}\n default_backend php\n\
             backend php\n {lines}\n use-fcgi-app app\n server fpm unix@{socket} proto fcgi\n\
             fcgi-app app\n docroot {root}\n index index.php\n path-info ^(/index\\.php)(/.*)?$\n\
             set-param SCRIPT_FILENAME {root}/index.php\n {section}\n"
        ));
        Some(Self { edge, front, fpm })
    }

    fn ask(&self, request: &str) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(request);
        client.answer_to(request.starts_with("HEAD")).unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n"))
    }

    fn post(&self, path: &str, fields: &str, body: &[u8]) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}content-length: {}\r\n\r\n", body.len()));
        client.send(body);
        client.answer()
    }

    /// A number that `show stat` has for the server.
    fn statistic(&self, name: &str) -> u64 {
        let text = self.edge.command("show stat");
        let mut lines = text.lines();
        let column = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
        let row = lines.find(|line| line.starts_with("php,fpm,")).unwrap();
        row.split(',').nth(column).unwrap().parse().unwrap()
    }
}

/// So many bytes that are not all alike.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place * 7 + place / 251) as u8).collect()
}

#[test]
fn a_front_controller_answers() {
    let Some(site) = Site::start(2, "", "") else { return };
    let home = site.get("/");
    assert_eq!((home.status(), home.field("x-front")), (200, Some("yes")));
    assert_eq!(home.field("content-length"), Some(home.body.len().to_string().as_str()));
    assert!(home.text().starts_with("<h1>Home</h1>") && home.field("status").is_none(), "{home:?}");
    assert!(home.field("date").is_some());
    let head = site.ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status(), head.text().as_str()), (200, ""));
    let missing = site.get("/no/such/page?x=1");
    assert_eq!((missing.status(), missing.text().as_str()), (404, "no page /no/such/page"));
    assert_eq!(site.get("/empty").status(), 204);
    let form = site.post("/form?a=1", "content-type: application/x-www-form-urlencoded\r\n", b"b=2&c=%20");
    assert_eq!(form.text(), r#"{"method":"POST","get":{"a":"1"},"post":{"b":"2","c":" "}}"#);
    // A redirect by Location alone, with cookies of a session that goes on.
    let login = site.post("/login", "content-type: application/x-www-form-urlencoded\r\n", b"user=ann");
    assert_eq!((login.status(), login.field("location")), (302, Some("/account")));
    let cookies: Vec<&str> =
        login.fields("set-cookie").iter().map(|cookie| cookie.split(';').next().unwrap()).collect();
    assert_eq!(cookies.len(), 2, "{login:?}");
    let account = site.ask(&format!("GET /account HTTP/1.1\r\nHost: a\r\nCookie: {}\r\n\r\n", cookies.join("; ")));
    assert_eq!(account.text(), "hello ann dark");
    // Connections are used again.
    assert!(site.statistic("reuse") > 0);
}

#[test]
fn variables_are_those_of_haproxy() {
    let Some(site) = Site::start(1, "", "set-param OWN %[req.hdr(x-a)] if { path /vars }\n pass-header X-No") else {
        return;
    };
    let answer = site.ask(
        "GET /vars?q=%20 HTTP/1.1\r\nHost: example.com:81\r\nProxy: http://evil\r\nX_Under: 1\r\nX-A: 1\r\nX-A: 2\r\n\
         Authorization: Basic YW5uOnB3\r\nCookie: a=1\r\nCookie: b=2\r\nTE: trailers\r\n\r\n",
    );
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    let root = site.fpm.root().display().to_string();
    for expected in [
        "REQUEST_URI=/vars?q=%20",
        "QUERY_STRING=q=%20",
        "SCRIPT_NAME=/vars",
        "SERVER_NAME=example.com:81",
        "HTTP_HOST=example.com:81",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_X_A=1, 2",
        "REMOTE_USER=ann",
        "AUTH_TYPE=Basic",
        "GATEWAY_INTERFACE=CGI/1.1",
        "CONTENT_LENGTH=0",
        "OWN=2",
        &format!("DOCUMENT_ROOT={root}"),
        &format!("SCRIPT_FILENAME={root}/index.php"),
        &format!("SERVER_PORT={}", site.front.port()),
    ] {
        assert!(lines.contains(&expected), "{expected} in\n{text}");
    }
    for hidden in
        ["HTTP_PROXY", "HTTP_X_UNDER", "HTTP_AUTHORIZATION", "HTTP_TE", "HTTP_CONNECTION", "HTTPS=", "PATH_INFO"]
    {
        assert!(!lines.iter().any(|line| line.starts_with(hidden)), "{hidden} in\n{text}");
    }
}

#[test]
fn uploads_of_any_size_pass() {
    let Some(site) = Site::start(2, "", "") else { return };
    let file = bytes(300_000);
    let body = [
        &b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\n\r\n"[..],
        &file,
        b"\r\n--x--\r\n",
    ];
    let answer = site.post("/upload", "content-type: multipart/form-data; boundary=x\r\n", &body.concat());
    assert!(answer.text().starts_with(r#"{"f":["a.bin",300000,""#), "{answer:?}");
    // Of a body without an announced length the end must have come before a program is told its length.
    let chunked = |sizes: &[usize]| {
        let mut client = Wire::connect(site.front);
        client.send("POST /raw HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        for size in sizes {
            client.try_send([format!("{size:x}\r\n").as_bytes(), &bytes(*size), b"\r\n"].concat());
        }
        client.try_send("0\r\n\r\n");
        client.answer()
    };
    assert!(chunked(&[1, 70_000, 30_000]).text().starts_with("100001 "));
    assert!(chunked(&[]).text().starts_with("0 "));
    assert_eq!(chunked(&[500_000; 3]).status(), 413);
    let before = resident_kilobytes(site.edge.pid());
    let answer = site.post("/raw", "", &bytes(64 << 20));
    assert!(answer.text().starts_with(&format!("{} ", 64 << 20)), "{answer:?}");
    assert!(site.get("/large?mb=40").body.len() == 40 << 20);
    let grown = resident_kilobytes(site.edge.pid()).saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} kB for 64 MB up and 40 MB down");
}

#[test]
fn what_is_flushed_goes_on_at_once() {
    let Some(site) = Site::start(1, "", "") else { return };
    let mut client = Wire::connect(site.front);
    client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().unwrap();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let first = client.read_through(b"part 1\n").unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("part 2"));
    client.expect("\r\n7\r\npart 2\n\r\n7\r\npart 3\n\r\n0\r\n\r\n");
    // A client that leaves takes its request along; the only process answers the next one.
    let mut client = Wire::connect(site.front);
    client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_through(b"part 1\n").unwrap();
    drop(client);
    assert_eq!(site.get("/").status(), 200);
}

#[test]
fn more_clients_than_processes_are_all_answered() {
    let Some(site) = Site::start(2, "", "") else { return };
    // Each process serves the connection that it has accepted until that ends: idle ones must not keep the others out.
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..6 {
                    assert_eq!(site.get("/sleep?ms=5").text(), "slept");
                }
            });
        }
    });
}

#[test]
fn a_process_that_dies_or_talks_nonsense_harms_its_request_alone() {
    let Some(site) = Site::start(1, "", "") else { return };
    assert_eq!(site.get("/exit").status(), 502);
    wait_until("another process serves", || site.get("/").status() == 200);
    assert_eq!(site.get("/junk").status(), 502);
    assert_eq!(site.get("/").status(), 200);
    for path in ["/a%0ab", "/a%zz", "/a%00b", "/../x", "/a/%2e%2e/x"] {
        assert_eq!(site.get(path).status(), 400, "{path}");
    }
}

#[test]
fn complaints_are_logged_without_control_characters() {
    let log = LogServer::start();
    let section = format!("log-stderr {} local0", log.address);
    let Some(site) = Site::start(1, "", &section) else { return };
    assert_eq!(site.get("/error").status(), 500);
    let line = log.raw();
    assert!(line.starts_with("<131>"), "local0.err: {line}");
    assert!(line.contains(" app[") && line.contains("something went.[31m wrong"), "{line}");
    assert!(log.raw().contains("and more"));
}

#[test]
fn one_line_caches_it() {
    let Some(site) = Site::start(1, "shared-cache size 16m", "") else { return };
    let (first, second) = (site.get("/"), site.get("/"));
    assert_eq!(first.text(), second.text());
    assert!(second.field("cache-status").unwrap().contains("hit"), "{second:?}");
    // What a session makes is nobody else's.
    site.get("/account");
    let account = site.get("/account");
    assert!(account.field("cache-status").is_some_and(|status| status.contains("fwd=")), "{account:?}");
}

#[test]
fn files_stand_beside_a_front_controller() {
    let Some(fpm) = Fpm::start(2, INDEX) else { return };
    let front = free_address();
    let (root, socket) = (fpm.root().display().to_string(), fpm.socket().display().to_string());
    fpm.folder.file("www/style.css", "body {}");
    fpm.folder.file("www/other.php", "<?php echo 'other ' . $_SERVER['SCRIPT_NAME'] . ' ' . $_SERVER['REQUEST_URI'];");
    let edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n\
         frontend site\n bind {front}\n default_backend php\n\
         backend php\n shared-cache size 16m\n root {root} unless {{ path_end .php }}\n index index.php\n try-files $uri $uri/ /index.php?$args\n\
         use-fcgi-app app\n server fpm unix@{socket} proto fcgi\n\
         fcgi-app app\n docroot {root}\n index index.php\n"
    ));
    let site = Site { edge, front, fpm };
    let style = site.get("/style.css");
    assert_eq!((style.status(), style.text().as_str(), style.field("x-front")), (200, "body {}", None));
    assert!(style.field("content-type").unwrap().starts_with("text/css"), "{style:?}");
    let page = site.get("/no/such/page?x=1");
    assert_eq!((page.status(), page.text().as_str()), (404, "no page /no/such/page"));
    assert_eq!(site.get("/other.php?q").text(), "other /other.php /other.php?q");
    // A script has one path, which conditions on it have seen.
    for path in ["/%6fther.php?q", "/x/../other.php?q"] {
        let answer = site.get(path);
        assert_eq!((answer.status(), answer.field("location")), (301, Some("/other.php?q")), "{path}");
    }
    assert_eq!(site.post("/%6fther.php", "", b"").status(), 400);
    assert!(!site.get("/other.php/").text().contains("<?php"));
    assert!(site.get("/").text().starts_with("<h1>Home</h1>"));
    assert!(site.get("/").field("cache-status").unwrap().contains("hit"));
    let form = site.post("/form?a=1", "content-type: application/x-www-form-urlencoded\r\n", b"b=2");
    assert_eq!(form.text(), r#"{"method":"POST","get":{"a":"1"},"post":{"b":"2"}}"#);
}

#[test]
fn sessions_live_in_a_store() {
    if !std::path::Path::new("/etc/php/8.2/fpm/conf.d/20-redis.ini").exists() {
        eprintln!("skipped: php-redis is not installed");
        return;
    }
    let store = Store::start(&[]);
    let lines = format!(
        "php_value[session.save_handler] = redis\nphp_value[session.save_path] = tcp://{}:{}",
        store.address.ip(),
        store.address.port()
    );
    let Some(fpm) = Fpm::start_with(1, INDEX, &lines) else { return };
    let front = free_address();
    let (root, socket) = (fpm.root().display().to_string(), fpm.socket().display().to_string());
    let edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n\
         listen site\n bind {front}\n use-fcgi-app app\n server fpm unix@{socket} proto fcgi\n\
         fcgi-app app\n docroot {root}\n set-param SCRIPT_FILENAME {root}/index.php\n"
    ));
    let site = Site { edge, front, fpm };
    let login = site.post("/login", "content-type: application/x-www-form-urlencoded\r\n", b"user=ann");
    let cookie = login.fields("set-cookie").iter().find(|cookie| cookie.starts_with("PHPSESSID=")).unwrap().to_string();
    let cookie = cookie.split(';').next().unwrap();
    let account = site.ask(&format!("GET /account HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
    assert!(account.text().starts_with("hello ann"), "{account:?}");
    let mut client = store.client();
    assert_eq!(client.text(&["DBSIZE"]), "1");
}

#[test]
fn checks_ask_by_fastcgi() {
    let Some(site) = Site::start(1, "option httpchk GET /\n default-server check inter 100ms", "") else { return };
    wait_until("a check has passed", || site.edge.command("show stat").contains("L7OK"));
    drop(site.fpm);
    wait_until("checks notice its end", || site.edge.command("show stat").contains(",DOWN,"));
}
