//! TLS with clients and with servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use support::{Authority, Edge, LogServer, SecureWire, Wanted, Wire, free_address, wait_until};

/// Versions of a client that knows no other.
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

const DEFAULTS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 2s\n";

fn global(authority: &Authority) -> String {
    let folder = authority.folder.0.display();
    format!("global\n crt-base {folder}\n ca-base {folder}\n stats socket %FOLDER%/stats level admin\n")
}

/// What a page of the real curl is; the test is left out where there is none.
fn curl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sS", "--max-time", "10"]).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// A frontend with TLS that proxies to a server with TLS, which is a frontend as well.
fn both_sides(authority: &Authority, front: SocketAddr, back: SocketAddr, server: &str) -> String {
    format!(
        "{}{DEFAULTS}frontend site\n bind {front} ssl crt site.pem alpn h2,http/1.1\n http-request set-header X-Forwarded-Proto \
         https if {{ ssl_fc }}\n default_backend servers\nbackend servers\n retries 0\n server s1 {back} {server}\nfrontend \
         origin\n bind {back} ssl crt site.pem\n http-request return status 200 content-type text/plain lf-string \
         \"hello %[req.hdr(x-forwarded-proto)] %ft\"\n",
        global(authority)
    )
}

#[test]
fn a_page_comes_through_tls_on_both_sides() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, back) = (free_address(), free_address());
    let config = both_sides(&authority, front, back, "ssl verify required ca-file ca.pem sni str(localhost)");
    let _edge = Edge::start_single(&config);
    for versions in [rustls::ALL_VERSIONS, TLS12] {
        let mut settings = authority.client();
        settings.versions = versions;
        settings.protocols = vec![b"spdy".to_vec(), b"http/1.1".to_vec()];
        let mut client = SecureWire::connect(&settings.config(), front, "localhost").unwrap();
        assert_eq!(client.0.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        for _ in 0..3 {
            assert_eq!(client.get("/").unwrap(), "hello https origin~");
        }
        // Whoever offers nothing that is spoken is served without an agreement.
        settings.protocols = vec![b"spdy".to_vec()];
        let mut client = SecureWire::connect(&settings.config(), front, "localhost").unwrap();
        assert_eq!(client.0.conn.alpn_protocol(), None);
        assert_eq!(client.get("/").unwrap(), "hello https origin~");
    }
    let (place, url) =
        (format!("localhost:{}:{}", front.port(), front.ip()), format!("https://localhost:{}/", front.port()));
    let ca = authority.path("ca.pem");
    if let Some(page) = curl(&["--resolve", &place, "--cacert", ca.to_str().unwrap(), "-w", " %{http_code}", &url]) {
        assert_eq!(page, "hello https origin~ 200");
    }
}

#[test]
fn reloads_under_load_lose_no_request() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, back) = (free_address(), free_address());
    let config = both_sides(&authority, front, back, "ssl verify required ca-file ca.pem sni str(localhost)");
    let edge = Edge::start(&config);
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = [1, 20]
        .map(|requests| {
            let (stop, asked, client) = (Arc::clone(&stop), Arc::clone(&asked), authority.client().config());
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let mut wire = SecureWire::connect(&client, front, "localhost").unwrap();
                    for _ in 0..requests {
                        wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                        let (head, body) = wire.answer().unwrap();
                        assert_eq!(String::from_utf8_lossy(&body), "hello https origin~");
                        asked.fetch_add(1, Relaxed);
                        if head.contains("connection: close") {
                            break;
                        }
                    }
                }
            })
        })
        .into();
    let mut former = vec![SecureWire::connect(&authority.client().config(), front, "localhost").unwrap().certificate()];
    for reload in 1..=5 {
        // The certificate is replaced on disk each time.
        authority.certify("site.pem", &Wanted { serial: 100 + reload, ..Wanted::default() });
        let before = asked.load(Relaxed);
        edge.signal(rustix::process::Signal::USR2);
        let shown = || SecureWire::connect(&authority.client().config(), front, "localhost").unwrap().certificate();
        wait_until("the new certificate is shown", || !former.contains(&shown()));
        wait_until("requests go on", || asked.load(Relaxed) > before + 20);
        former.push(shown());
    }
    stop.store(true, Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

#[test]
fn what_is_no_tls_is_logged_as_haproxy_says_it() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, log) = (free_address(), LogServer::start());
    let config = format!(
        "{} log {} local0\n{DEFAULTS} log global\n option httplog\n timeout client 300ms\nfrontend site\n bind {front} ssl crt site.pem\n \
         http-request return status 200\n",
        global(&authority),
        log.address
    );
    let _edge = Edge::start_single(&config);
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"SSH-2.0-test\r\n"]
    {
        let mut wire = Wire::connect(front);
        wire.send(bytes);
        wire.read_to_end();
        log.line_with("site/1: SSL handshake failure");
    }
    drop(Wire::connect(front));
    log.line_with("site/1: Connection closed during SSL handshake");
    // One that says nothing, and one that stops in the middle.
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut wire = Wire::connect(front);
        wire.send(bytes);
        log.line_with("site/1: Timeout during SSL handshake");
        wire.read_to_end();
    }
}
