//! What a server sends to one client stays that client's, and what answers one request alone answers no other, behind `shared-cache`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Answer, Edge, Origin, Wire, free_address, wait_until};

/// A cache in front of a server whose answers have these fields; `true` says that the request asks whether something has changed.
struct Site {
    _edge: Edge,
    front: SocketAddr,
    origin: Origin,
}

impl Site {
    fn new(answer: impl Fn(&Answer, bool) -> String + Send + Sync + 'static) -> Self {
        let origin = Origin::answering(move |request| {
            let said = answer(request, request.field("if-none-match").is_some());
            let shown = if said.starts_with("200") && !request.start_line().starts_with("HEAD") { "page" } else { "" };
            let length = if said.starts_with("304") { String::new() } else { "content-length: 4\r\n".to_owned() };
            let length = if said.starts_with("41") { "content-length: 0\r\n".to_owned() } else { length };
            format!("HTTP/1.1 {said}\r\n{length}\r\n{shown}").into_bytes()
        });
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n retries 0\n\
             frontend site\n bind {front}\n default_backend app\n\
             backend app\n shared-cache\n server s1 {}\n",
            origin.address,
        ));
        Self { _edge: edge, front, origin }
    }

    fn ask(&self, method: &str, path: &str, fields: &str) -> Answer {
        let mut client = Wire::connect(self.front);
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.answer_to(method == "HEAD").unwrap()
    }

    fn get(&self, path: &str, who: &str) -> Answer {
        self.ask("GET", path, &format!("X-Who: {who}\r\n"))
    }

    fn server_dies(&mut self) {
        let address = self.origin.address;
        self.origin = Origin::answering(|_| Vec::new());
        wait_until("nobody listens", || !support::listens(address));
    }
}

fn who(request: &Answer) -> String {
    request.field("x-who").unwrap_or("nobody").to_owned()
}

/// A lifetime that is over when it comes.
const STALE: &str = "age: 20\r\nCache-Control: max-age=10";

#[test]
fn fields_for_one_client_go_to_no_other() {
    for directive in ["private", "no-cache"] {
        let site = Site::new(move |request, asks| match asks {
            true => "304 Not Modified\r\netag: \"a\"\r\nCache-Control: max-age=100".to_owned(),
            false => format!(
                "200 OK\r\netag: \"a\"\r\n{STALE}, {directive}=\"set-cookie, x-name\"\r\nSet-Cookie: id={0}\r\nX-Name: {0}",
                who(request)
            ),
        });
        let seen = |who| {
            let answer = site.get("/a", who);
            assert_eq!(answer.text(), "page");
            (answer.field("set-cookie").map(str::to_owned), answer.field("x-name").map(str::to_owned))
        };
        assert_eq!(seen("ann"), (Some("id=ann".to_owned()), Some("ann".to_owned())), "{directive}");
        assert_eq!(seen("bob"), (None, None), "validated: {directive}");
        assert_eq!(seen("eve"), (None, None), "stored: {directive}");
    }
}

#[test]
fn a_cookie_that_comes_with_not_modified_is_for_one_client() {
    let site = Site::new(|request, asks| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let cookie = format!("Set-Cookie: id={}", who(request));
        match (asks || request.start_line().starts_with("HEAD"), path.as_str()) {
            (false, _) => format!("200 OK\r\netag: \"a\"\r\n{STALE}"),
            (true, "/said") => format!("304 Not Modified\r\netag: \"a\"\r\nCache-Control: max-age=100\r\n{cookie}"),
            (true, "/head") => format!("200 OK\r\netag: \"a\"\r\n{cookie}"),
            (true, _) => format!("304 Not Modified\r\netag: \"a\"\r\n{cookie}"),
        }
    });
    let cookie = |path, who| site.get(path, who).field("set-cookie").map(str::to_owned);
    assert_eq!((cookie("/a", "ann"), cookie("/a", "bob")), (None, Some("id=bob".to_owned())));
    assert_eq!(site.ask("GET", "/a", "Cache-Control: only-if-cached\r\n").field("set-cookie"), None);
    assert_eq!((cookie("/said", "ann"), cookie("/said", "bob")), (None, Some("id=bob".to_owned())));
    assert_eq!(cookie("/said", "eve"), Some("id=bob".to_owned()), "its server says for how long all may have it");
    assert_eq!(cookie("/head", "ann"), None);
    assert_eq!(site.ask("HEAD", "/head", "X-Who: bob\r\n").field("set-cookie"), Some("id=bob"));
    let stored = site.ask("GET", "/head", "Cache-Control: only-if-cached\r\n");
    assert_eq!((stored.status(), stored.field("set-cookie")), (200, None));
}

#[test]
fn cookies_are_stored_only_with_a_lifetime() {
    for lifetime in ["", "Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n", "Cache-Control: public\r\n"] {
        let site = Site::new(move |request, asks| match asks {
            true => "304 Not Modified\r\netag: \"a\"".to_owned(),
            false => format!("200 OK\r\netag: \"a\"\r\n{lifetime}Set-Cookie: id={}", who(request)),
        });
        for who in ["ann", "bob"] {
            let answer = site.get("/a", who);
            assert_eq!(answer.field("set-cookie"), Some(&*format!("id={who}")), "{lifetime}");
        }
    }
}

#[test]
fn what_has_no_lifetime_is_never_delivered_unasked() {
    let mut site = Site::new(|request, asks| match asks {
        true => "304 Not Modified\r\nConnection: close\r\netag: \"a\"".to_owned(),
        false => format!("200 OK\r\nConnection: close\r\netag: \"a\"\r\nX-Name: {}", who(request)),
    });
    assert_eq!(site.get("/a", "ann").field("x-name"), Some("ann"));
    let validated = site.get("/a", "bob");
    assert_eq!(
        (validated.field("x-name"), site.origin.heads().len()),
        (Some("ann"), 2),
        "the server says that it is the same"
    );
    assert_eq!(site.ask("GET", "/a", "Cache-Control: max-stale\r\n").status(), 200);
    assert_eq!(site.origin.heads().len(), 3, "no client decides that it gets what is another's");
    site.server_dies();
    assert_eq!(site.get("/a", "eve").status(), 503);
}

#[test]
fn what_fails_for_one_request_is_not_the_response_for_all() {
    for status in ["412 Precondition Failed", "416 Range Not Satisfiable", "417 Expectation Failed"] {
        let site = Site::new(move |request, _| {
            let status = if request.field("range").is_some() { status } else { "200 OK" };
            format!("{status}\r\nCache-Control: max-age=100")
        });
        assert_eq!(site.ask("GET", "/a", "Range: bytes=100-\r\n").status().to_string(), status[..3]);
        assert_eq!(site.ask("GET", "/a", "").text(), "page", "{status}");
    }
}
