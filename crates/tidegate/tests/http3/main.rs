//! HTTP/3 from a real client: the libraries quinn and h3.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod ends;
mod processes;

use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use support::{
    Authority, Edge, Origin, Wanted, free_address,
    http3::{Http3, block_on, receive},
    noise, ok, wait_until,
};

/// Bytes of a body that fits into no window.
const BIG: usize = 3_000_000;

/// A certificate, a server that gives back what it gets, and the address in front of it.
struct Place {
    authority: Authority,
    origin: Origin,
    front: SocketAddr,
}

impl Place {
    fn new() -> Self {
        let authority = Authority::new();
        authority.certify("site.pem", &Wanted::default());
        let origin = Origin::answering(|request| match request.head.split(' ').nth(1) {
            Some("/big") => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BIG}\r\n\r\n");
                [head.as_bytes(), &noise(BIG, 1)].concat()
            }
            Some("/echo") => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", request.body.len());
                [head.as_bytes(), &request.body].concat()
            }
            _ => ok(&request.head.replace("\r\n", "|")),
        });
        Self { authority, origin, front: free_address() }
    }

    /// A configuration; `bind` are words of the line, `rules` lines of the frontend.
    fn config(&self, workers: usize, bind: &str, rules: &str) -> String {
        let (folder, front, server) = (self.authority.folder.0.display(), self.front, self.origin.address);
        format!(
            "global\n nbthread {workers}\n crt-base {folder}\n stats socket %FOLDER%/stats level admin\n\
             defaults\n mode http\n timeout client 10s\n timeout server 10s\n timeout connect 2s\n\
             frontend site\n bind {front} ssl crt site.pem alpn h2,http/1.1\n bind quic4@{front} ssl crt site.pem {bind}\n\
             log stderr format raw local0\n error-log-format \"failed: %[fc_err_str]\"\n\
             log-format \"%HV %HM %HU %ST %B %sslv %ts %[fc_http_major]\"\n{rules}\n default_backend servers\n\
             backend servers\n server s1 {server}\n"
        )
    }
}

#[test]
fn pages_are_served_as_over_http_2() {
    let place = Place::new();
    let rules = "http-request return status 200 content-type text/plain lf-string \"%HV %[ssl_fc] %[ssl_fc_protocol] \
                 %[ssl_fc_sni] %[ssl_fc_alpn] %[src] %[dst]:%[dst_port]\" if { path /own }\n \
                 http-request deny if { path /denied }\n \
                 http-after-response add-header alt-svc 'h3=\":443\"; ma=60'";
    let edge = Edge::start(&place.config(1, "alpn h3", rules));
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        let page = client.get("/own").await.unwrap();
        let (ip, port) = (place.front.ip(), place.front.port());
        assert_eq!(page.text(), format!("HTTP/3.0 1 TLSv1.3 localhost h3 {ip} {ip}:{port}"));
        assert_eq!(page.head.headers()["alt-svc"], "h3=\":443\"; ma=60");
        let page = client.get("/some?thing").await.unwrap();
        assert!(page.text().starts_with("GET /some?thing HTTP/1.1|host: localhost|"), "{}", page.text());
        assert_eq!(client.get("/denied").await.unwrap().status, 403);
        let body = noise(BIG, 2);
        let stream = client.send("POST", "/echo", Some(Bytes::from(body.clone()))).await.unwrap();
        let page = receive(stream).await.unwrap();
        assert_eq!((page.status, page.body == body), (200, true));
        // Many at a time.
        let mut streams = Vec::new();
        for number in 0..60 {
            let path = if number % 20 == 0 { "/big" } else { "/own" };
            streams.push(client.send("GET", path, None).await.unwrap());
        }
        for stream in streams {
            assert_eq!(receive(stream).await.unwrap().status, 200);
        }
    });
    edge.wait_output("HTTP/3.0 GET https://localhost/denied 403 ");
    edge.wait_output("HTTP/3.0 POST https://localhost/echo 200 3000");
    edge.wait_output(" TLSv1.3 -- 3");
    let info = edge.command("show stat typed");
    assert!(info.contains("site"), "{info}");
}

#[test]
fn handshakes_that_fail_are_told_of_and_noise_does_no_harm() {
    let place = Place::new();
    let edge = Edge::start(&place.config(1, "alpn h3", ""));
    let settings = place.authority.client();
    block_on(async {
        let failure = Http3::offering(&settings, place.front, b"hq-interop").await.err().unwrap().to_string();
        assert!(failure.contains("peer doesn't support any known protocol") || failure.contains("120"), "{failure}");
    });
    edge.wait_output("failed: SSL handshake failure");
    let socket = UdpSocket::bind((place.front.ip(), 0)).unwrap();
    for seed in 1..300 {
        let mut datagram = noise(20 + (seed as usize * 7) % 1_400, seed);
        // Short headers, long ones of this version and of none.
        match seed % 3 {
            0 => datagram[0] = 0x40 | datagram[0] & 0x3f,
            1 => {
                let first = 0xc0 | datagram[0] & 0x3f;
                datagram[..5].copy_from_slice(&[first, 0, 0, 0, 1]);
            }
            _ => {}
        }
        socket.send_to(&datagram, place.front).unwrap();
    }
    block_on(async {
        let mut client = Http3::connect(&settings, place.front).await;
        assert_eq!(client.get("/").await.unwrap().status, 200);
    });
    assert_eq!(edge.workers().len(), 1);
}

#[test]
fn clients_prove_their_addresses_where_they_have_to() {
    let place = Place::new();
    let _edge = Edge::start(&place.config(1, "alpn h3 quic-force-retry", ""));
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(client.get("/").await.unwrap().status, 200);
    });
}

#[test]
fn a_client_that_reads_slowly_or_not_at_all_holds_nobody_up() {
    let place = Place::new();
    let edge = Edge::start(&place.config(1, "alpn h3", ""));
    block_on(async {
        let mut slow = Http3::connect(&place.authority.client(), place.front).await;
        let mut unread = Vec::new();
        for _ in 0..10 {
            unread.push(slow.send("GET", "/big", None).await.unwrap());
        }
        let mut other = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(other.get("/").await.unwrap().status, 200);
        // One is given up, the others come.
        let mut given_up = unread.pop().unwrap();
        given_up.stop_sending(http3_client::error::Code::H3_REQUEST_CANCELLED);
        for stream in unread {
            assert_eq!(receive(stream).await.unwrap().body.len(), BIG);
        }
    });
    let is_told = |line: &str| line.contains("/big ") && line.ends_with(" TLSv1.3 CD 3");
    wait_until("the one that was given up has ended", || edge.output().lines().any(is_told));
}

#[test]
fn clients_that_move_to_another_address_keep_their_connections_whatever_worker_hears_them() {
    let place = Place::new();
    let _edge = Edge::start(&place.config(4, "alpn h3", ""));
    block_on(async {
        for _ in 0..6 {
            let mut client = Http3::connect(&place.authority.client(), place.front).await;
            for _ in 0..5 {
                assert_eq!(client.get("/").await.unwrap().status, 200);
                client.endpoint.rebind(UdpSocket::bind((place.front.ip(), 0)).unwrap()).unwrap();
            }
            assert_eq!(client.get("/big").await.unwrap().body.len(), BIG);
        }
    });
}

/// First datagrams of clients whose servers do not answer: one of each.
fn first_datagrams(place: &Place, count: usize) -> Vec<Vec<u8>> {
    let catcher = UdpSocket::bind((place.front.ip(), 0)).unwrap();
    catcher.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let address = catcher.local_addr().unwrap();
    let settings = place.authority.client();
    let clients = std::thread::spawn(move || {
        block_on(async {
            let mut waiting = Vec::new();
            for _ in 0..count {
                waiting.push(Box::pin(Http3::connect(&settings, address)));
            }
            let all = async {
                for client in &mut waiting {
                    let _ = tokio::time::timeout(std::time::Duration::from_millis(10), client).await;
                }
            };
            all.await;
        });
    });
    let mut caught: Vec<Vec<u8>> = Vec::new();
    while caught.len() < count {
        let mut datagram = vec![0; 2_000];
        let (length, _) = catcher.recv_from(&mut datagram).unwrap();
        datagram.truncate(length);
        // The id that the client has made up stands there.
        if !caught.iter().any(|other| other[6..14] == datagram[6..14]) {
            caught.push(datagram);
        }
    }
    clients.join().unwrap();
    caught
}

#[test]
fn where_many_handshakes_are_unfinished_clients_prove_their_addresses() {
    const THRESHOLD: usize = 5;
    let place = Place::new();
    let text = format!("global\n tune.quic.retry-threshold {THRESHOLD}\n");
    let _edge = Edge::start(&place.config(1, "alpn h3", "").replace("global\n", &text));
    let is_retry = |datagram: Vec<u8>| {
        let socket = UdpSocket::bind((place.front.ip(), 0)).unwrap();
        socket.set_read_timeout(Some(support::PATIENCE)).unwrap();
        socket.send_to(&datagram, place.front).unwrap();
        let mut answer = [0; 2_000];
        let (length, _) = socket.recv_from(&mut answer).unwrap();
        assert!(length < 3 * datagram.len());
        answer[0] & 0xf0 == 0xf0
    };
    let answers: Vec<bool> = first_datagrams(&place, 30).into_iter().map(is_retry).collect();
    assert_eq!(answers, [vec![false; THRESHOLD], vec![true; 30 - THRESHOLD]].concat());
    // Who has an address is served.
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(client.get("/").await.unwrap().status, 200);
    });
}

#[test]
fn connections_count_against_maxconn() {
    let place = Place::new();
    let edge = Edge::start(&place.config(1, "alpn h3", "maxconn 1"));
    block_on(async {
        let mut first = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(first.get("/").await.unwrap().status, 200);
        let settings = place.authority.client();
        let waiting = tokio::spawn({
            let front = place.front;
            async move { Http3::connect(&settings, front).await.get("/").await.unwrap().status }
        });
        for _ in 0..3 {
            assert_eq!(first.get("/").await.unwrap().status, 200);
        }
        assert!(!waiting.is_finished());
        assert!(edge.command("show info").contains("CurrConns: 1\n"));
        first.quic.close(0u32.into(), b"");
        assert_eq!(waiting.await.unwrap(), 200);
    });
}
