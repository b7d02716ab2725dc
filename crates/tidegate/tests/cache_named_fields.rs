//! Fields that a client declares to be for its connection (RFC 9110 section 7.6.1), where a cache answers: neither may they take away what
//! a proxy says, nor may an answer to a request without them be stored for one with them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::SocketAddr;

use support::{Edge, Folder, Origin, VarnishInstance, Wire, free_address};

/// What `vcl_recv` says itself, in each program.
const PROGRAM: &str = "vcl 4.1; sub vcl_recv { set req.http.X-Forwarded-Proto = \"https\"; }";

/// Tells what it has seen of a request; its answers vary by Origin and can be stored.
fn origin() -> Origin {
    Origin::answering(|request| {
        let seen = |name: &str| request.field(name).unwrap_or("none").to_owned();
        let body = ["host", "origin", "x-forwarded-proto", "x-own"].map(seen).join(" ");
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nvary: Origin\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    })
}

/// Whatever keeps a site's cache running, and where it listens.
type Running = (Box<dyn std::any::Any>, SocketAddr);

fn by_varnishd(origin: &Origin) -> Running {
    let program = format!("{PROGRAM} backend default {{ .host = \"HOST\"; .port = \"ORIGIN\"; }}");
    let ours = VarnishInstance::ours(&program, &[], origin);
    let front = ours.front;
    (Box::new(ours), front)
}

fn by_varnish(origin: &Origin) -> Running {
    let program = format!("{PROGRAM} backend default {{ .host = \"HOST\"; .port = \"ORIGIN\"; }}");
    let theirs = VarnishInstance::theirs(&program, &[], origin);
    let front = theirs.front;
    (Box::new(theirs), front)
}

/// A section with a program: a frontend's, or a backend's behind a frontend that knows nothing of it.
fn by_program(origin: &Origin, is_behind: bool) -> Running {
    let (folder, front) = (Folder::new(), free_address());
    let vcl = folder.file("a.vcl", format!("{PROGRAM} backend default {{ .host = \"127.0.0.1\"; }}"));
    let vcl = format!("vcl {}", vcl.display());
    let sections = match is_behind {
        true => format!(
            "frontend f\n bind {front}\n http-request set-header X-Own mine\n default_backend c\nbackend c\n {vcl}"
        ),
        false => format!("frontend f\n bind {front}\n http-request set-header X-Own mine\n {vcl}"),
    };
    let edge = Edge::start_single(&format!("{DEFAULTS}{sections}\nbackend default\n server s1 {}\n", origin.address));
    (Box::new((edge, folder)), front)
}

fn by_shared_cache(origin: &Origin) -> Running {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "{DEFAULTS}frontend f\n bind {front}\n http-request set-header X-Own mine\n \
         http-request set-header X-Forwarded-Proto https\n default_backend c\n\
         backend c\n shared-cache size 10m\n server s1 {}\n",
        origin.address
    ));
    (Box::new(edge), front)
}

const DEFAULTS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n";

fn each_cache(origin: &Origin, check: impl Fn(&str, SocketAddr)) {
    let (instance, front) = by_varnishd(origin);
    check("varnishd", front);
    drop(instance);
    for is_behind in [false, true] {
        let (instance, front) = by_program(origin, is_behind);
        check("a program", front);
        drop(instance);
    }
    let (instance, front) = by_shared_cache(origin);
    check("shared-cache", front);
    drop(instance);
    if std::path::Path::new("/usr/sbin/varnishd").exists() {
        let (instance, front) = by_varnish(origin);
        check("Varnish", front);
        drop(instance);
    }
}

fn ask(front: SocketAddr, path: &str, fields: &str) -> String {
    let answer = Wire::connect(front).ask(format!("GET {path} HTTP/1.1\r\nHost: victim\r\n{fields}\r\n"));
    assert_eq!(answer.status(), 200, "{fields}");
    answer.text()
}

#[test]
fn what_is_for_the_backend_is_not_for_the_connection() {
    let origin = origin();
    each_cache(&origin, |what, front| {
        for name in
            ["Host", "Content-Length", "close, host", "Cookie", "Authorization", "Range", "X-Forwarded-For", "Vary"]
        {
            let mut client = Wire::connect(front);
            let answer = client.ask(format!("GET /a HTTP/1.1\r\nHost: victim\r\nConnection: {name}\r\n\r\n"));
            assert_eq!(answer.status(), 400, "{what}: {name}");
        }
        for name in ["close", "keep-alive", "Te", "Upgrade", "Transfer-Encoding", "Foo", "Accept-Ranges", ","] {
            ask(front, "/b", &format!("Connection: {name}\r\n"));
        }
    });
}

#[test]
fn what_a_proxy_says_stays() {
    let origin = origin();
    each_cache(&origin, |what, front| {
        for (number, fields) in
            ["", "Connection: X-Forwarded-Proto, X-Own\r\nX-Forwarded-Proto: no\r\n"].iter().enumerate()
        {
            let seen = ask(front, &format!("/{number}"), fields);
            let own = if what.to_lowercase().contains("varnish") { "none" } else { "mine" };
            assert_eq!(seen, format!("victim none https {own}"), "{what}: {fields}");
        }
    });
}

#[test]
fn what_is_stored_is_the_variant_that_was_asked_for() {
    let origin = origin();
    each_cache(&origin, |what, front| {
        let attack = "Origin: shop\r\nConnection: Origin\r\n";
        let seen = |text: String| text.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(seen(ask(front, "/a", attack)), "none", "{what}");
        assert_eq!(seen(ask(front, "/a", "Origin: shop\r\n")), "shop", "{what}");
        assert_eq!(seen(ask(front, "/a", "")), "none", "{what}");
        assert_eq!(seen(ask(front, "/a", "Origin: shop\r\n")), "shop", "{what}");
    });
}
