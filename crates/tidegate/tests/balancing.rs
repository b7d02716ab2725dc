//! Balancing real web servers, surviving their death, persistence, and what rules do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{collections::HashMap, net::SocketAddr, sync::mpsc, thread, time::Duration};

use support::{Edge, LogServer, Origin, Wire, free_address, nginx, nginx_at, ok, python, wait_until};

const DEFAULTS: &str =
    "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n timeout queue 5s\n";

#[track_caller]
fn get(front: SocketAddr, path: &str) -> String {
    Wire::connect(front).get(path).text()
}

/// Who answers so many requests.
#[track_caller]
fn shares(front: SocketAddr, count: usize) -> HashMap<String, usize> {
    let mut shares = HashMap::new();
    for _ in 0..count {
        *shares.entry(get(front, "/")).or_default() += 1;
    }
    shares
}

#[test]
fn round_robin_survives_the_death_of_a_real_server() {
    let (Some(mut one), Some(two)) = (nginx("one"), nginx("two")) else { return };
    let (log, front) = (LogServer::start(), free_address());
    let _edge = Edge::start(&format!(
        "global\n log {} local0\n{DEFAULTS} log global\nfrontend front\n bind {front}\n default_backend web\nbackend web\n balance roundrobin\n option redispatch\n server s1 {} check inter 100ms fall 2 rise 2\n server s2 {} check inter 100ms fall 2 rise 2\n",
        log.address, one.address, two.address
    ));
    assert_eq!(shares(front, 10), HashMap::from([("one".into(), 5), ("two".into(), 5)]));
    let address = one.address;
    one.kill();
    assert!(log.line_with("is DOWN").starts_with("Server web/s1 is DOWN, reason: Layer4 connection problem"));
    assert_eq!(shares(front, 20), HashMap::from([("two".into(), 20)]));
    let _one = nginx_at(address, "one").unwrap();
    assert!(log.line_with("is UP").starts_with("Server web/s1 is UP, reason: Layer4 check passed"));
    assert_eq!(shares(front, 10), HashMap::from([("one".into(), 5), ("two".into(), 5)]));
}

#[test]
fn a_page_is_checked_and_pythons_server_serves() {
    let (Some(one), Some(two)) = (python("one"), nginx("two")) else { return };
    let (log, front) = (LogServer::start(), free_address());
    let _edge = Edge::start(&format!(
        "global\n log {} local0\n{DEFAULTS} log global\nlisten web\n bind {front}\n timeout check 5s\n option httpchk GET /missing\n http-check expect status 404\n server s1 {} check inter 100ms\n server s2 {} check inter 100ms\n",
        log.address, one.address, two.address
    ));
    assert_eq!(shares(front, 4), HashMap::from([("one".into(), 2), ("two".into(), 2)]));
    two.file("missing", b"found after all");
    let line = log.line_with("is DOWN");
    assert!(line.starts_with("Server web/s2 is DOWN, reason: Layer7 wrong status, code: 200"), "{line}");
    assert_eq!(shares(front, 4), HashMap::from([("one".into(), 4)]));
}

#[test]
fn a_refused_connection_is_tried_elsewhere_without_checks() {
    let (two, front) = (Origin::named("two"), free_address());
    let nobody = free_address();
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen web\n bind {front}\n retries 2\n option redispatch 1\n server s1 {nobody}\n server s2 {}\n",
        two.address
    ));
    assert_eq!(shares(front, 6), HashMap::from([("two".into(), 6)]));
}

#[test]
fn backups_serve_when_no_other_does() {
    let (log, backup, front) = (LogServer::start(), Origin::named("backup"), free_address());
    let late = free_address();
    let _edge = Edge::start(&format!(
        "global\n log {} local0\n{DEFAULTS} log global\nlisten web\n bind {front}\n server s1 {late} check inter 100ms rise 1 fall 1\n server b1 {} backup\n",
        log.address, backup.address
    ));
    log.line_with("Server web/s1 is DOWN");
    assert_eq!(shares(front, 4), HashMap::from([("backup".into(), 4)]));
    let _main = Origin::named_at(late, "main");
    log.line_with("Server web/s1 is UP");
    assert_eq!(shares(front, 4), HashMap::from([("main".into(), 4)]));
}

#[test]
fn a_queue_is_served_in_order_of_arrival() {
    let origin = Origin::answering(|request| {
        thread::sleep(Duration::from_millis(50));
        ok(request.start_line())
    });
    let front = free_address();
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen web\n bind {front}\n http-reuse always\n server s1 {} maxconn 1\n",
        origin.address
    ));
    let (sender, done) = mpsc::channel();
    for number in 0..6 {
        let mut client = Wire::connect(front);
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let sender = sender.clone();
        thread::spawn(move || sender.send(client.answer().text()));
        thread::sleep(Duration::from_millis(15));
    }
    let order: Vec<String> = (0..6).map(|_| done.recv_timeout(support::PATIENCE).unwrap()).collect();
    let expected: Vec<String> = (0..6).map(|number| format!("GET /{number} HTTP/1.1")).collect();
    assert_eq!(order, expected);
}

#[test]
fn least_connections_and_source() {
    let (slow, fast) = (
        Origin::start(|mut wire, _| {
            wire.read_to_end();
        }),
        Origin::named("fast"),
    );
    let (front, by_source) = (free_address(), free_address());
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let _edge = Edge::start(&format!(
        "global\n nbthread 1\n{DEFAULTS}listen least\n bind {front}\n balance leastconn\n server s1 {}\n server s2 {}\nlisten source\n bind {by_source}\n balance source\n server s1 {}\n server s2 {}\n",
        slow.address, fast.address, one.address, two.address
    ));
    let mut busy = Wire::connect(front);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the slow server is busy", || slow.connections() == 1);
    assert_eq!(shares(front, 5), HashMap::from([("fast".into(), 5)]));
    assert_eq!(shares(by_source, 6).len(), 1);
}

#[test]
fn cookies_lead_back_to_their_server_until_it_dies() {
    let (log, front, two) = (LogServer::start(), free_address(), Origin::named("two"));
    let Some(mut one) = nginx("one") else { return };
    let _edge = Edge::start(&format!(
        "global\n log {} local0\n{DEFAULTS} log global\nlisten web\n bind {front}\n cookie SRV insert indirect nocache\n option redispatch\n server s1 {} cookie a check inter 100ms fall 1\n server s2 {} cookie b\n",
        log.address, one.address, two.address
    ));
    let mut client = Wire::connect(front);
    let first = client.get("/");
    assert_eq!((first.text().as_str(), first.field("set-cookie")), ("one", Some("SRV=a; path=/")));
    assert_eq!(first.field("cache-control"), Some("private"));
    for _ in 0..4 {
        let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1; SRV=b\r\n\r\n");
        assert_eq!((answer.text().as_str(), answer.field("set-cookie")), ("two", None));
    }
    assert!(!two.last_head().contains("SRV"), "{}", two.last_head());
    assert!(two.last_head().contains("x=1"));
    one.kill();
    log.line_with("Server web/s1 is DOWN");
    let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nCookie: SRV=a\r\n\r\n");
    assert_eq!((answer.text().as_str(), answer.field("set-cookie")), ("two", Some("SRV=b; path=/")));
}

#[test]
fn cookies_of_servers_are_prefixed_and_rewritten() {
    let answer =
        |_: &support::Answer| b"HTTP/1.1 200 OK\r\nSet-Cookie: ID=7; path=/\r\nContent-Length: 0\r\n\r\n".to_vec();
    let (one, two) = (Origin::answering(answer), Origin::answering(answer));
    let (prefix, rewrite) = (free_address(), free_address());
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen prefix\n bind {prefix}\n cookie ID prefix\n server s1 {} cookie a\n server s2 {} cookie b\nlisten rewrite\n bind {rewrite}\n cookie ID rewrite\n server s1 {} cookie a\n",
        one.address, two.address, one.address
    ));
    let mut client = Wire::connect(prefix);
    assert_eq!(client.get("/").field("set-cookie"), Some("ID=a~7; path=/"));
    for _ in 0..3 {
        let before = two.heads().len();
        client.ask("GET / HTTP/1.1\r\nHost: a\r\nCookie: ID=b~9\r\n\r\n");
        assert_eq!(two.heads().len(), before + 1);
        assert!(two.last_head().contains("ID=9\r\n"), "{}", two.last_head());
    }
    assert_eq!(Wire::connect(rewrite).get("/").field("set-cookie"), Some("ID=a; path=/"));
}

#[test]
fn without_servers_there_is_a_maintenance_page() {
    let front = free_address();
    let folder = support::Folder::new();
    let page = "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\nRetry-After: 60\r\n\r\n<h1>We will be back</h1>\n";
    let file = folder.file("503.http", page);
    let _edge = Edge::start(&format!(
        "{DEFAULTS}listen web\n bind {front}\n monitor-uri /alive\n errorfile 503 {}\n server s1 127.0.0.1:1 disabled\n",
        file.display()
    ));
    let answer = Wire::connect(front).get("/");
    assert_eq!((answer.status(), answer.text().as_str()), (503, "<h1>We will be back</h1>\n"));
    assert_eq!(answer.field("retry-after"), Some("60"));
    assert_eq!(Wire::connect(front).get("/alive").status(), 200);
}

#[test]
fn rules_answer_change_and_refuse() {
    let (origin, front) = (
        Origin::answering(|request| {
            format!(
                "HTTP/1.1 200 OK\r\nServer: secret\r\nContent-Length: {}\r\n\r\n{}",
                request.head.len(),
                request.head
            )
            .into_bytes()
        }),
        free_address(),
    );
    let _edge = Edge::start(&format!(
        "userlist staff\n user ann insecure-password pass\n{DEFAULTS}listen web\n bind {front}
 acl private path_beg /private
 http-request return status 200 content-type text/plain string \"made here\" if {{ path /made }}
 http-request deny deny_status 429 if {{ path /many }}
 http-request deny if {{ path /no }}
 http-request auth realm staff if private !{{ http_auth(staff) }}
 http-request redirect location /new code 301 if {{ path /old }}
 redirect prefix https://other if {{ path_beg /moved }}
 http-request set-header X-Client %[src]
 http-request add-header X-Two 2
 http-request del-header X-Evil
 http-request replace-header X-Name (.*)n(.*) \\1N\\2
 http-request replace-path /a/(.*) /b/\\1
 http-request set-query %[query,upper] if {{ query -m found }}
 http-request set-method PUT if {{ path /method }}
 http-request set-var(txn.name) path
 http-response set-header X-Path %[var(txn.name)]
 http-response del-header server
 server s1 {}\n",
        origin.address
    ));
    let mut client = Wire::connect(front);
    let made = client.get("/made");
    assert_eq!(
        (made.status(), made.text().as_str(), made.field("content-type")),
        (200, "made here", Some("text/plain"))
    );
    assert_eq!(client.get("/many").status(), 429);
    assert_eq!(Wire::connect(front).get("/no").status(), 403);
    let mut client = Wire::connect(front);
    let refused = client.get("/private/x");
    assert_eq!((refused.status(), refused.field("www-authenticate")), (401, Some("Basic realm=\"staff\"")));
    let mut client = Wire::connect(front);
    let let_in = client.ask("GET /private/x HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOnBhc3M=\r\n\r\n");
    assert_eq!(let_in.status(), 200);
    let moved = client.get("/old");
    assert_eq!((moved.status(), moved.field("location")), (301, Some("/new")));
    let mut client = Wire::connect(front);
    assert_eq!(client.get("/moved/x").field("location"), Some("https://other/moved/x"));
    let mut client = Wire::connect(front);
    let seen = client.ask("GET /a/page?q=word HTTP/1.1\r\nHost: a\r\nX-Evil: 1\r\nX-Name: anna\r\n\r\n");
    let head = seen.text().to_ascii_lowercase();
    assert!(seen.text().starts_with("GET /b/page?Q=WORD HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-client: 127.0.0.1\r\n") && head.contains("x-two: 2\r\n"), "{head}");
    assert!(seen.text().contains(": anNa\r\n") && !head.contains("x-evil"), "{head}");
    assert_eq!((seen.field("x-path"), seen.field("server")), (Some("/b/page"), None));
    assert!(client.get("/method").text().starts_with("PUT /method"));
}

/// A client that asks one thing after the other, on connections of both workers: what one worker has just served must not
/// count as running on the other.
#[test]
fn least_connections_serve_one_client_on_two_workers_evenly() {
    let servers = ["1", "2", "3"].map(Origin::named);
    for start in [Edge::start_haproxy, |config: &str| Some(Edge::start(config))] {
        let front = free_address();
        let lines: String =
            servers.iter().zip(1..).map(|(server, number)| format!(" server s{number} {}\n", server.address)).collect();
        let config = format!("global\n nbthread 2\n{DEFAULTS}listen web\n bind {front}\n balance leastconn\n{lines}");
        let Some(_edge) = start(&config) else { continue };
        let mut clients: Vec<Wire> = (0..8).map(|_| Wire::connect(front)).collect();
        let mut shares = HashMap::<String, u32>::new();
        for turn in 0..1_200 {
            *shares.entry(clients[turn % 8].get("/").text()).or_default() += 1;
        }
        // The order is not promised, by HAProxy neither: now and then a slot is given back late.
        assert!(shares.len() == 3 && shares.values().all(|share| (360..=440).contains(share)), "{shares:?}");
    }
}
