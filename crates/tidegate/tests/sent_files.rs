//! Files that servers and programs name: `X-Accel-Redirect` and `X-Sendfile`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _};

use support::{Answer, Edge, Folder, Fpm, LogServer, Origin, Wire, free_address, wait_until};

const LARGE: usize = 3_000_000;

struct Site {
    _edge: Edge,
    front: SocketAddr,
    folder: Folder,
    log: LogServer,
}

/// A folder with files, one beside it that nobody may get, and a link that leads there.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.0.join("files/sub dir")).unwrap();
    folder.file("files/a.txt", "0123456789");
    folder.file("files/.hidden", "hidden");
    folder.file("files/sub dir/b%20c.css", "b");
    folder.file("files/large.bin", vec![7; LARGE]);
    folder.file("files/locked", "locked");
    folder.file("secret", "secret");
    std::os::unix::fs::symlink("../secret", folder.0.join("files/link")).unwrap();
    folder
}

impl Site {
    /// One whose backend has these lines, in which `%ROOT%` is the folder.
    #[track_caller]
    fn start(folder: Folder, lines: &str) -> Self {
        let (front, log) = (free_address(), LogServer::start());
        let root = folder.0.join("files").display().to_string();
        let edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n log {} local0\n\
             frontend site\n bind {front}\n option httplog\n default_backend servers\n\
             backend servers\n{}",
            log.address,
            lines.replace("%ROOT%", &root)
        ));
        Self { _edge: edge, front, folder, log }
    }

    fn ask(&self, request: &str) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(request);
        client.answer_to(request.starts_with("HEAD")).unwrap()
    }

    fn get(&self, path: &str, fields: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }
}

/// A server that answers with the fields that come behind a path's first `?`, parted by `&`.
fn server() -> Origin {
    Origin::answering(|request| {
        let target = request.start_line().split(' ').nth(1).unwrap();
        let fields = target.split_once('?').map_or("", |(_, fields)| fields);
        let fields = fields.split('&').filter(|field| !field.is_empty());
        let fields: String = fields.map(|field| field.replacen('=', ": ", 1) + "\r\n").collect();
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 4\r\n\r\nbody").into_bytes()
    })
}

#[test]
fn a_redirect_leads_to_a_file() {
    let origin = server();
    let lines = format!(" server s {}\n x-accel-redirect /protected/ alias %ROOT%\n", origin.address);
    let site = Site::start(folder(), &lines);
    let answer = site.get("/x?X-Accel-Redirect=/protected/a.txt", "");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "0123456789"));
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.fields("content-length"), ["10"]);
    assert!(answer.field("x-accel-redirect").is_none() && answer.field("etag").is_some(), "{answer:?}");
    assert_eq!(answer.fields("date").len(), 1);
    // What the server says of the exchange stays, what it says of its body goes, and what is nginx' alone too.
    let answer = site.get(
        "/x?X-Accel-Redirect=/protected/a.txt&Content-Type=text/csv&Set-Cookie=a=1&Set-Cookie=b=2&Cache-Control=private&\
         Content-Disposition=attachment&ETag=\"theirs\"&Content-Encoding=gzip&X-Accel-Buffering=no",
        "",
    );
    assert_eq!((answer.field("content-type"), answer.field("cache-control")), (Some("text/csv"), Some("private")));
    assert_eq!((answer.fields("set-cookie").len(), answer.field("content-disposition")), (2, Some("attachment")));
    assert!(answer.field("content-encoding").is_none() && answer.field("x-accel-buffering").is_none());
    let tag = answer.field("etag").unwrap().to_owned();
    assert_ne!(tag, "\"theirs\"");
    // Conditions and ranges are about the file.
    let path = "/x?X-Accel-Redirect=/protected/a.txt&Set-Cookie=a=1&Content-Type=text/csv";
    let part = site.get(path, "Range: bytes=2-4\r\n");
    assert_eq!((part.status(), part.text().as_str(), part.field("content-range")), (206, "234", Some("bytes 2-4/10")));
    let same = site.get(path, &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status(), same.field("set-cookie"), same.field("content-type")), (304, Some("a=1"), None));
    assert_eq!(site.get(path, "Range: bytes=50-\r\n").status(), 416);
    let head = site.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!((head.status(), head.field("content-length")), (200, Some("10")));
    let post = site.ask(&format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
    assert_eq!((post.status(), post.text().as_str()), (200, "0123456789"));
    // Names are encoded as in a URL, and what follows a question mark is no part of them.
    let encoded = site.get("/x?X-Accel-Redirect=/protected/sub%20dir/b%2520c.css?x=1", "");
    assert_eq!((encoded.status(), encoded.text().as_str()), (200, "b"));
    assert_eq!(site.get("/x?X-Accel-Redirect=/protected/.hidden", "").text(), "hidden");
    let large = site.get("/x?X-Accel-Redirect=/protected/large.bin", "");
    assert!(large.body == vec![7; LARGE]);
    // Clients do not get there by themselves, and `X-Sendfile` means nothing here.
    assert_eq!(site.get("/protected/a.txt", "").text(), "body");
    let other = site.get("/x?X-Sendfile=/etc/passwd", "");
    assert_eq!((other.text().as_str(), other.field("x-sendfile")), ("body", Some("/etc/passwd")));
    assert!(site.log.lines_so_far().iter().any(|line| line.contains("servers/s ")), "{:?}", site.log.lines_so_far());
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let origin = server();
    let folder = folder();
    let file = folder.0.join("files/locked");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let root = folder.0.join("files").display().to_string();
    let lines = format!(
        " server s {}\n x-accel-redirect /protected/ alias %ROOT%\n x-accel-redirect /kept root %ROOT%\n x-sendfile %ROOT%\n",
        origin.address
    );
    let site = Site::start(folder, &lines);
    for path in [
        "/protected/../secret",
        "/protected/%2e%2e/secret",
        "/protected/..%2fsecret",
        "/protected/link",
        "/protected/nothing",
        "/protected/",
        "/protected",
        "/protectedly/a.txt",
        "/protected/a.txt%00",
        "/protected/%zz",
        "/etc/passwd",
        "protected/a.txt",
        "@named",
        "",
        "/kept/../../secret",
    ] {
        let answer = site.get(&format!("/x?X-Accel-Redirect={path}"), "");
        assert_eq!(answer.status(), 404, "{path}: {answer:?}");
        assert!(answer.field("x-accel-redirect").is_none(), "{path}");
        assert!(!answer.text().contains("secret"));
    }
    for path in [
        "/etc/passwd",
        "/%2e%2e/secret",
        &format!("{root}/../secret"),
        &format!("{root}/%2e%2e/secret"),
        &format!("{root}/link"),
        &format!("{root}x/a.txt"),
        &format!("{root}/"),
        &root,
        "a.txt",
        "files/a.txt",
    ] {
        for field in ["X-Sendfile", "x-lighttpd-send-file"] {
            let answer = site.get(&format!("/x?{field}={path}"), "");
            assert_eq!((answer.status(), answer.field(field)), (404, None), "{path}: {answer:?}");
        }
    }
    let sent = site.get(&format!("/x?X-Sendfile={root}/a.txt"), "");
    assert_eq!((sent.status(), sent.text().as_str()), (200, "0123456789"));
    assert_eq!(site.get(&format!("/x?X-Sendfile={root}/sub%20dir/b%2520c.css"), "").text(), "b");
    let kept = site.folder.0.join("files/kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("d"), "kept").unwrap();
    assert_eq!(site.get("/x?X-Accel-Redirect=/kept/d", "").text(), "kept");
    // The log says which file was named, and why it was not sent.
    let lines = site.log.lines_so_far();
    let says = |text: &str| assert!(lines.iter().any(|line| line.contains(text)), "{text} in {lines:#?}");
    says("a response names the file '/protected/nothing': there is no such file");
    says("a response names the file '/etc/passwd': no 'x-accel-redirect' line of the backend is for that path");
    says("a response names the file '/etc/passwd': it is in no folder that an 'x-sendfile' line of the backend names");
}

#[test]
fn without_a_line_nothing_is_sent() {
    let origin = server();
    let site = Site::start(folder(), &format!(" server s {}\n", origin.address));
    let answer = site.get("/x?X-Accel-Redirect=/protected/a.txt", "");
    assert_eq!((answer.text().as_str(), answer.field("x-accel-redirect")), ("body", Some("/protected/a.txt")));
}

#[test]
fn lines_have_conditions_and_other_statuses_stay() {
    let origin = Origin::answering(|request| match request.start_line().contains("/missing") {
        true => b"HTTP/1.1 404 Gone away\r\nX-Accel-Redirect: /p/a.txt\r\nContent-Length: 0\r\n\r\n".to_vec(),
        false => b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /p/a.txt\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let lines =
        format!(" server s {}\n x-accel-redirect /p/ alias %ROOT% if {{ path_beg /may /missing }}\n", origin.address);
    let site = Site::start(folder(), &lines);
    assert_eq!(site.get("/may", "").text(), "0123456789");
    assert_eq!(site.get("/may-not", "").text(), "0123456789");
    assert_eq!(site.get("/other", "").status(), 404);
    let missing = site.get("/missing", "Range: bytes=0-1\r\n");
    assert_eq!((missing.status(), missing.text().as_str()), (404, "0123456789"));
    // The server's connection is used again.
    let mut client = Wire::connect(site.front);
    (0..20).for_each(|_| assert_eq!(client.get("/may").text(), "0123456789"));
    assert!(origin.connections() < 6, "{}", origin.connections());
}

#[test]
fn a_cache_keeps_what_was_sent() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /p/a.txt\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"
            .to_vec()
    });
    let lines = format!(" shared-cache size 8m\n server s {}\n x-accel-redirect /p/ alias %ROOT%\n", origin.address);
    let site = Site::start(folder(), &lines);
    for _ in 0..3 {
        assert_eq!(site.get("/c", "").text(), "0123456789");
        assert_eq!(site.get("/c", "Range: bytes=1-2\r\n").text(), "12");
    }
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn php_and_cgi_name_files() {
    let (files, root) = (folder(), "/protected");
    let program = files.file(
        "send.cgi",
        "#!/bin/sh\necho \"X-Accel-Redirect: $QUERY_STRING\"\necho 'Content-Type: text/x-cgi'\necho\nsleep 0.3\ntouch \"$0.done\"\n",
    );
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = files.0.display().to_string();
    let site = Site::start(files, &format!(" cgi /cgi/ {place}\n x-accel-redirect {root} alias %ROOT%\n"));
    let answer = site.get("/cgi/send.cgi?/protected/a.txt", "");
    assert_eq!((answer.text().as_str(), answer.field("content-type")), ("0123456789", Some("text/x-cgi")));
    // The program was not ended.
    let done = site.folder.0.join("send.cgi.done");
    wait_until("the program comes to its end", || done.exists());

    let script = "<?php header('X-Sendfile: ' . $_GET['f']); header('Content-Type: image/x-php'); setcookie('a', '1');";
    let Some(fpm) = Fpm::start(1, script) else { return };
    let site = Site::start(
        folder(),
        &format!(
            " use-fcgi-app app\n server fpm unix@{} proto fcgi\n x-sendfile %ROOT%\n\
             fcgi-app app\n docroot {}\n index index.php\n",
            fpm.socket().display(),
            fpm.root().display()
        ),
    );
    let path = format!("/?f={}/files/large.bin", site.folder.0.display());
    let mut client = Wire::connect(site.front);
    for _ in 0..5 {
        let answer = client.get(&path);
        assert!(answer.body == vec![7; LARGE]);
        assert_eq!((answer.field("content-type"), answer.field("x-sendfile")), (Some("image/x-php"), None));
        assert!(answer.field("set-cookie").is_some());
    }
    assert_eq!(client.get("/?f=/etc/passwd").status(), 404);
}

#[test]
fn lines_are_checked() {
    let says = |line: &str, expected: &str| {
        let text = format!("listen l\n mode http\n bind 127.0.0.1:1\n {line}\n server s 127.0.0.1:2\n");
        let folder = Folder::new();
        let path = folder.file("t.cfg", text);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["edge", "-c", "-f", path.to_str().unwrap()])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{line}: {text}");
    };
    says("x-accel-redirect", "the beginning of a path");
    says("x-accel-redirect relative alias /tmp", "is no beginning of a path");
    says("x-accel-redirect /p/ /tmp", "'alias' or 'root'");
    says("x-accel-redirect /p/ alias /no/such/folder", "'x-accel-redirect' : cannot open the folder '/no/such/folder'");
    says("x-sendfile", "a folder");
    says("x-sendfile files", "is no absolute path");
    says("x-sendfile /tmp extra", "unexpected argument 'extra'");
}
