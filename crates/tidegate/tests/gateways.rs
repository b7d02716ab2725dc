//! SCGI and uwsgi: a WSGI application under a real uWSGI answers requests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Answer, Edge, Folder, Origin, Uwsgi, Wire, free_address, resident_kilobytes};

const APPLICATION: &str = r"
def application(environ, start_response):
    path, size = environ['PATH_INFO'], 0
    while True:
        piece = environ['wsgi.input'].read(65536)
        if not piece:
            break
        size += len(piece)
    if path.startswith('/big/'):
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return (b'x' * 1000 for _ in range(int(path[5:])))
    if path == '/vars':
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return [''.join(f'{name}={environ[name]}\n' for name in sorted(environ) if name.upper() == name).encode()]
    if path == '/redirect':
        start_response('303 See There', [('Location', '/there'), ('Set-Cookie', 'a=1'), ('Set-Cookie', 'b=2')])
        return []
    start_response('201 Made', [('X-App', 'yes')])
    return [f'{path} {size}'.encode()]
";

struct Site {
    edge: Edge,
    front: SocketAddr,
}

impl Site {
    fn start(protocol: &str, server: SocketAddr, lines: &str) -> Self {
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 2s\n\
             frontend site\n bind {front}\n default_backend app\n\
             backend app\n server s {server} proto {protocol}\n {lines}\n"
        ));
        Self { edge, front }
    }

    fn ask(&self, request: &str) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(request);
        client.answer_to(request.starts_with("HEAD")).unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n"))
    }
}

#[test]
fn an_application_answers_by_either() {
    let Some(server) = Uwsgi::start(APPLICATION) else { return };
    for (protocol, address) in [("uwsgi", server.uwsgi), ("scgi", server.scgi)] {
        let site = Site::start(protocol, address, "");
        let made = site.get("/a%20b?c=1");
        assert_eq!(
            (made.status(), made.text().as_str(), made.field("x-app")),
            (201, "/a b 0", Some("yes")),
            "{protocol}"
        );
        let there = site.get("/redirect");
        assert_eq!(
            (there.status(), there.field("location"), there.fields("set-cookie").len()),
            (303, Some("/there"), 2)
        );
        let head = site.ask("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status(), head.text().as_str()), (201, ""));
        let vars = site.ask(
            "GET /vars?q=%20 HTTP/1.1\r\nHost: example.com:81\r\nProxy: http://evil\r\nX_Under: 1\r\nX-A: 1\r\nX-A: 2\r\nCookie: a=1\r\n\r\n",
        );
        let text = vars.text();
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "PATH_INFO=/vars",
            "QUERY_STRING=q=%20",
            "REQUEST_URI=/vars?q=%20",
            "REQUEST_METHOD=GET",
            "HTTP_HOST=example.com:81",
            "HTTP_X_A=1, 2",
            "HTTP_COOKIE=a=1",
            &format!("SERVER_PORT={}", site.front.port()),
        ] {
            assert!(lines.contains(&expected), "{protocol}: {expected} in\n{text}");
        }
        for hidden in ["HTTP_PROXY", "HTTP_X_UNDER", "PATH_TRANSLATED", "SCRIPT_FILENAME"] {
            assert!(!lines.iter().any(|line| line.starts_with(hidden)), "{protocol}: {hidden} in\n{text}");
        }
        // Clients' connections go on, though each request has one of the application's.
        let mut client = Wire::connect(site.front);
        (0..5).for_each(|_| assert_eq!(client.get("/again").status(), 201));
    }
}

#[test]
fn bodies_of_any_size_pass() {
    let Some(server) = Uwsgi::start(APPLICATION) else { return };
    for (protocol, address) in [("uwsgi", server.uwsgi), ("scgi", server.scgi)] {
        let site = Site::start(protocol, address, "");
        let before = resident_kilobytes(site.edge.pid());
        let mut client = Wire::connect(site.front);
        client.send(format!("POST /up HTTP/1.1\r\nHost: a\r\ncontent-length: {}\r\n\r\n", 20 << 20));
        let piece = vec![b'u'; 1 << 20];
        (0..20).for_each(|_| client.send(&piece));
        assert_eq!(client.answer().text(), format!("/up {}", 20 << 20), "{protocol}");
        let chunked = site.ask(
            "POST /chunks HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n...\r\n0\r\n\r\n",
        );
        assert_eq!(chunked.text(), "/chunks 8", "{protocol}");
        assert_eq!(site.get("/big/20000").body.len(), 20_000_000, "{protocol}");
        let grown = resident_kilobytes(site.edge.pid()).saturating_sub(before);
        assert!(grown < 8 * 1024, "{protocol}: {grown} kB");
    }
}

#[test]
fn a_section_says_more() {
    let Some(server) = Uwsgi::start(APPLICATION) else { return };
    let lines = "use-fcgi-app app\n\
                 fcgi-app app\n docroot /srv\n path-info ^(/vars)()$\n set-param PATH_INFO /vars\n set-param OWN yes\n pass-header Authorization";
    let site = Site::start("uwsgi", server.uwsgi, lines);
    let answer = site.ask("GET /vars HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n");
    let text = answer.text();
    for expected in
        ["OWN=yes", "DOCUMENT_ROOT=/srv", "SCRIPT_NAME=/vars", "REMOTE_USER=a", "HTTP_AUTHORIZATION=Basic YTpi"]
    {
        assert!(text.lines().any(|line| line == expected), "{expected} in\n{text}");
    }
}

#[test]
fn what_breaks_off_is_an_error() {
    let broken = Origin::start(|mut wire, number| {
        let _ = wire.read_through(b",");
        match number {
            0 => {}
            1 => wire.send("Status: 20"),
            2 => wire.send("no head\r\n\r\n"),
            _ => wire.send("Status: 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        }
    });
    let site = Site::start("scgi", broken.address, "retries 0");
    let statuses: Vec<u16> = (0..3).map(|_| site.get("/").status()).collect();
    assert_eq!(statuses, [502, 502, 502]);
    let mut client = Wire::connect(site.front);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let whole = client.read_to_end();
    assert!(whole.starts_with(b"HTTP/1.1 200") && whole.ends_with(b"abc"), "{whole:?}");
}

#[test]
fn lines_are_checked() {
    let says = |lines: &str, expected: &str| {
        let folder = Folder::new();
        let path = folder.file("t.cfg", format!("listen l\n bind 127.0.0.1:1\n {lines}\n"));
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["edge", "-c", "-f", path.to_str().unwrap()])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{lines}: {text}");
    };
    says("mode tcp\n server s 127.0.0.1:2 proto uwsgi", "MUX protocol 'uwsgi' is not usable for server 's'");
    says("mode http\n option httpchk\n server s 127.0.0.1:2 proto scgi check", "HTTP checks do not speak 'scgi'");
    says("mode http\n server s 127.0.0.1:2 check-proto scgi check", "unknown MUX protocol 'scgi'");
    says("mode http\n server s 127.0.0.1:2 proto uwsgy", "unknown MUX protocol 'uwsgy'");
}
