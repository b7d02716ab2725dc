//! `tidegate-min` at a real socket.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

struct Served {
    child: Child,
    address: String,
    folder: PathBuf,
}

impl Served {
    fn start(name: &str, options: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let site = folder.join("site");
        fs::create_dir_all(site.join("sub dir")).unwrap();
        fs::create_dir_all(site.join("with-index")).unwrap();
        fs::write(site.join("hello.txt"), "hello, world\n").unwrap();
        fs::write(site.join(".secret"), "no").unwrap();
        fs::write(site.join("with-index/index.html"), "<h1>index</h1>").unwrap();
        fs::write(site.join("large"), vec![b'x'; 5 << 20]).unwrap();
        fs::write(folder.join("outside"), "no").unwrap();
        let _ = symlink("../outside", site.join("escape"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-min"))
            .arg(&site)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says which port the system has chosen.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().trim_end_matches('/').to_owned();
        Self { child, address, folder }
    }

    fn send(&self, request: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// The status, the head and the body of the answer to one request.
    fn get(&self, target: &str, fields: &str) -> (u16, String, Vec<u8>) {
        let answer = self.send(&format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n"));
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head[9..12].parse().unwrap(), head, answer[end + 4..].to_vec())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn files_are_served_as_the_edge_serves_them() {
    let site = Served::start("files", &[]);
    let (status, head, body) = site.get("/hello.txt", "");
    assert_eq!((status, body.as_slice()), (200, &b"hello, world\n"[..]), "{head}");
    for field in
        ["content-length: 13", "content-type: text/plain; charset=utf-8", "etag: ", "last-modified: ", "date: "]
    {
        assert!(head.contains(field), "{field}: {head}");
    }
    let modified = head.lines().find_map(|line| line.strip_prefix("last-modified: ")).unwrap().to_owned();
    assert_eq!(site.get("/hello.txt", &format!("if-modified-since: {modified}\r\n")).0, 304);
    let (status, head, body) = site.get("/hello.txt", "range: bytes=7-11\r\n");
    assert_eq!((status, body.as_slice()), (206, &b"world"[..]), "{head}");
    let (status, _, body) = site.get("/hello.txt", "range: bytes=0-0,7-8\r\n");
    assert!(status == 206 && String::from_utf8_lossy(&body).contains("bytes 7-8/13"));
    assert_eq!(site.get("/large", "").2.len(), 5 << 20);
    // Folders.
    assert_eq!(site.get("/with-index/", "").2, b"<h1>index</h1>");
    let (status, head, _) = site.get("/sub%20dir?a=b", "");
    assert!(status == 301 && head.contains("location: /sub%20dir/?a=b"), "{head}");
    let (status, head, _) = site.get("//with-index", "");
    assert!(status == 301 && head.contains("location: /with-index/"), "{head}");
    let (_, _, listing) = site.get("/", "accept: application/json\r\n");
    let listing = String::from_utf8(listing).unwrap();
    assert!(listing.contains("hello.txt") && !listing.contains(".secret"), "{listing}");
    // What nobody gets.
    for (target, status) in [
        ("/none", 404),
        ("/.secret", 404),
        ("/../outside", 400),
        ("/%2e%2e/outside", 400),
        ("/escape", 403),
        ("/hello.txt/", 404),
        ("/%00", 400),
    ] {
        assert_eq!(site.get(target, "").0, status, "{target}");
    }
}

#[test]
fn connections_go_on_and_bad_ones_end() {
    let site = Served::start("connections", &["--no-listing", "--connections", "3"]);
    // Requests that come together, the last of them in pieces.
    let mut stream = TcpStream::connect(&site.address).unwrap();
    let one = "GET /hello.txt HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(one.repeat(40).as_bytes()).unwrap();
    for piece in "HEAD /hello.txt HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!((answers.matches("HTTP/1.1 200").count(), answers.matches("hello, world").count()), (41, 40));
    for (request, status) in [
        ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "404"),
        ("POST /hello.txt HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc", "405"),
        ("OPTIONS /hello.txt HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "204"),
        ("GET /hello.txt HTTP/1.0\r\n\r\n", "200"),
        ("GET /hello.txt HTTP/1.1\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = site.send(request);
        assert_eq!(String::from_utf8_lossy(&answer[9..12]), status, "{request}");
    }
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    assert!(String::from_utf8_lossy(&site.send(&long)).starts_with("HTTP/1.1 400"));
    // More than may be at a time wait, and have their turn.
    let idle: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&site.address).unwrap()).collect();
    let mut waiting = TcpStream::connect(&site.address).unwrap();
    waiting.write_all(b"GET /hello.txt HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    drop(idle);
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("hello, world\n"), "{answer}");
}

#[test]
fn an_application_gets_its_page_for_every_path() {
    let site = Served::start("application", &["--spa"]);
    fs::write(site.folder.join("site/index.html"), "<h1>app</h1>").unwrap();
    assert_eq!(site.get("/some/where", "").2, b"<h1>app</h1>");
    assert_eq!(site.get("/hello.txt", "").2, b"hello, world\n");
}
