//! What the cache does between a server and clients of any speed: what it holds back, gives up, forgets, and keeps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

use rustix::process::Signal;
use support::{Edge, Origin, Site, Wire, resident_kilobytes, wait_until};

/// A server that counts, and says `PATH NUMBER` with these fields.
fn counting(fields: &'static str) -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |request| {
        let number = counter.fetch_add(1, SeqCst) + 1;
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let body = format!("{path} {number}");
        format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    (origin, count)
}

/// What a storage has in use, which the program says without looking anything up.
const USED: &str = "if (req.url ~ \"^/used\") { return (synth(200, \"\" + storage.s0.used_space)); }";

fn used(site: &Site) -> u64 {
    let answer = site.get("/used");
    let line = answer.start_line().to_owned();
    line.rsplit(' ').next().unwrap().trim_end_matches(".000").parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn what_is_over_gives_its_memory_back() {
    let (origin, _) = counting("");
    let program = format!(
        "vcl 4.1; sub vcl_recv {{ {USED} }}
        sub vcl_backend_response {{
            set beresp.ttl = 0.2s; set beresp.grace = 0s; set beresp.keep = 0s;
            if (bereq.url ~ \"grace\") {{ set beresp.grace = 1h; }}
            if (bereq.url ~ \"keep\") {{ set beresp.keep = 1h; }}
        }}"
    );
    let site = Site::new(&program, "storage s0=malloc,10m param shortlived=0", &origin);
    let mut client = Wire::connect(site.front);
    for number in 0..50 {
        client.get(&format!("/{number}"));
    }
    client.get("/grace");
    client.get("/keep");
    let full = used(&site);
    assert!(full > 0);
    wait_until("fifty objects have left", || used(&site) < full / 10);
    thread::sleep(Duration::from_millis(500));
    assert!(used(&site) > 0, "grace and keep are part of a life");
}

#[test]
fn bans_find_what_nobody_asks_for() {
    let (origin, _) = counting("x-kind: old\r\n");
    let program = format!(
        "vcl 4.1; sub vcl_recv {{ {USED}
            if (req.method == \"BAN\") {{ ban(\"obj.http.x-kind == old\"); return (synth(200)); }} }}"
    );
    let arguments = "storage s0=malloc,10m param ban_lurker_age=0.1 param ban_lurker_sleep=0.001";
    let site = Site::new(&program, arguments, &origin);
    let mut client = Wire::connect(site.front);
    for number in 0..50 {
        client.get(&format!("/{number}"));
    }
    assert!(used(&site) > 0);
    Wire::connect(site.front).ask("BAN / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the lurker has removed them", || used(&site) == 0);
}

/// Sends a large body without pause; tells how much of it went.
fn firehose(fields: &'static str, bytes: usize) -> (Origin, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (sent, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, over) = (Arc::clone(&sent), Arc::clone(&ended));
    let origin = Origin::start(move |mut wire, _| {
        while wire.request().is_some() {
            if !wire.try_send(format!("HTTP/1.1 200 OK\r\n{fields}content-length: {bytes}\r\n\r\n")) {
                break;
            }
            let piece = vec![b'x'; 64 << 10];
            let whole = (0..bytes / piece.len()).all(|_| {
                let went = wire.try_send(&piece);
                count.fetch_add(if went { piece.len() } else { 0 }, SeqCst);
                went
            });
            if !whole {
                break;
            }
        }
        over.fetch_add(1, SeqCst);
    });
    (origin, sent, ended)
}

/// Waits until a number has stopped growing.
fn settled(count: &AtomicUsize) -> usize {
    let mut last = (count.load(SeqCst), 0);
    wait_until("it comes to rest", || {
        thread::sleep(Duration::from_millis(50));
        let now = count.load(SeqCst);
        last = if now == last.0 && now > 0 { (now, last.1 + 1) } else { (now, 0) };
        last.1 >= 6
    });
    last.0
}

const BODY: usize = 64 << 20;

/// Of what is for one client, no more comes than a bound while that client does not read; what is for all goes on being stored.
#[test]
fn a_slow_client_holds_back_what_is_for_it_alone() {
    let private = "sub vcl_backend_response { set beresp.uncacheable = true; }";
    for (what, program, holds_back) in [
        ("pass", "vcl 4.1; sub vcl_recv { return (pass); }", true),
        ("private", &*format!("vcl 4.1; {private}"), true),
        ("stored", "vcl 4.1;", false),
    ] {
        let (origin, sent, ended) = firehose("", BODY);
        let site = Site::new(program, "storage s0=malloc,200m", &origin);
        let mut client = Wire::connect(site.front);
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read(10_000);
        let went = settled(&sent);
        // NOTE: sockets between here and there have a few megabytes of their own.
        assert_eq!(went < BODY / 2, holds_back, "{what}: {went} bytes of {BODY} were taken");
        if holds_back {
            // The client leaves: so does the server.
            drop(client);
            wait_until("the fetch has ended", || ended.load(SeqCst) == 1);
            assert!(sent.load(SeqCst) < BODY);
        } else {
            assert_eq!(client.read(BODY - 10_000).len(), BODY - 10_000);
        }
    }
}

/// The whole of a private response arrives, through a buffer that is far smaller.
#[test]
fn what_is_held_back_arrives_whole() {
    let (origin, _, _) = firehose("cache-control: no-store\r\n", 8 << 20);
    let program = "vcl 4.1; sub vcl_backend_response { set beresp.uncacheable = true; }";
    let site = Site::new(program, "param transit_buffer=64k storage Transient=malloc,1m", &origin);
    for _ in 0..3 {
        let answer = site.get("/a");
        assert_eq!((answer.status(), answer.body.len()), (200, 8 << 20));
        assert!(answer.body.iter().all(|byte| *byte == b'x'));
    }
}

#[test]
fn a_fetch_that_nobody_waits_for_is_finished_if_it_is_for_all() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |_| {
        counter.fetch_add(1, SeqCst);
        wait.lock().unwrap().recv_timeout(support::PATIENCE).unwrap();
        support::ok("done")
    });
    let site = Site::with(Edge::start_single, "vcl 4.1;", "", "option abortonclose", &origin);
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is fetched", || count.load(SeqCst) == 1);
    drop(client);
    go.send(()).unwrap();
    wait_until("it is stored", || Wire::connect(site.front).ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").text() == "done");
    assert_eq!(count.load(SeqCst), 1);
}

#[test]
fn a_client_that_leaves_while_it_waits_is_let_go() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::answering(move |_| {
        wait.lock().unwrap().recv_timeout(support::PATIENCE).unwrap();
        support::ok("done")
    });
    let options = "option abortonclose\n stats socket %FOLDER%/stats level admin";
    let site = Site::with(
        |config| {
            let config = config.replace("defaults\n", "global\n stats socket %FOLDER%/stats level admin\ndefaults\n");
            Edge::start_single(&config)
        },
        "vcl 4.1;",
        "",
        options.lines().next().unwrap(),
        &origin,
    );
    let sessions = || {
        let shown = site.edge.command("show stat");
        let line = shown.lines().find(|line| line.starts_with("site,FRONTEND")).unwrap().to_owned();
        line.split(',').nth(4).unwrap().parse::<usize>().unwrap()
    };
    let clients: Vec<_> = (0..5)
        .map(|_| {
            let mut client = Wire::connect(site.front);
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    wait_until("all wait", || sessions() == 5);
    drop(clients);
    wait_until("none waits", || sessions() == 0);
    go.send(()).unwrap();
}

#[test]
fn a_flood_of_misses_stays_within_the_bound() {
    let body = "x".repeat(100_000);
    let origin = Origin::answering(move |request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}{body}", path.len() + body.len()).into_bytes()
    });
    let site = Site::new("vcl 4.1;", "storage malloc,32m", &origin);
    let front = site.front;
    let flood = move |name: &'static str, requests: usize| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                thread::spawn(move || {
                    let mut wire = Wire::connect(front);
                    for number in 0..requests {
                        assert_eq!(wire.get(&format!("/{name}/{client}/{number}")).status(), 200);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    };
    flood("warm", 5);
    let before = resident_kilobytes(site.edge.pid());
    flood("flood", 500);
    let grown = resident_kilobytes(site.edge.pid()).saturating_sub(before);
    assert!(grown < (32 << 10) * 115 / 100, "200 MB through 32 MB: it has grown by {grown} kB");
}

#[test]
fn five_hundred_clients_ask_once() {
    const CLIENTS: usize = 500;
    for streams in [false, true] {
        let (go, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let origin = Origin::start(move |mut wire, _| {
            while wire.request().is_some() {
                counter.fetch_add(1, SeqCst);
                let half = "x".repeat(50_000);
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
                if streams {
                    wire.send(format!("{head}{half}"));
                }
                wait.lock().unwrap().recv_timeout(support::PATIENCE).unwrap();
                if !streams {
                    wire.send(format!("{head}{half}"));
                }
                wire.send(half);
            }
        });
        let site = Site::with(Edge::start, "vcl 4.1;", "", "maxconn 2000", &origin);
        let mut clients: Vec<Wire> = (0..CLIENTS)
            .map(|_| {
                let mut client = Wire::connect(site.front);
                client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
                client
            })
            .collect();
        if streams {
            for client in &mut clients {
                assert!(client.head().unwrap().starts_with("HTTP/1.1 200"));
                client.read(40_000);
            }
        } else {
            wait_until("it is fetched", || count.load(SeqCst) > 0);
        }
        go.send(()).unwrap();
        for client in &mut clients {
            let length = if streams { client.read(60_000).len() + 40_000 } else { client.answer().body.len() };
            assert_eq!(length, 100_000);
        }
        assert_eq!(count.load(SeqCst), 1);
    }
}

const KEPT: &str = "vcl 4.1;
    sub vcl_recv {
        if (req.method == \"BAN\") { ban(\"req.url ~ ^/banned\"); return (synth(200)); }
        if (req.method == \"PURGE\") { return (purge); }
        if (req.url == \"/free\") { return (synth(200, \"\" + storage.disk.free_space)); }
    }
    sub vcl_backend_response {
        set beresp.ttl = 1h;
        set beresp.storage = storage.disk;
        if (bereq.url ~ \"^/memory\") { set beresp.storage = storage.mem; }
    }
    sub vcl_deliver { set resp.http.x-storage = obj.storage; }";

#[test]
fn a_disk_survives_kill_and_restart() {
    let (origin, count) = counting("");
    let folder = support::Folder::new();
    let path = folder.0.join("cache.bin");
    let arguments = format!("storage mem=malloc,10m storage disk=file,{},20m", path.display());
    let site = Site::with(Edge::start_single, KEPT, &arguments, "", &origin);
    let ask = |site: &Site, method: &str, path: &str| {
        Wire::connect(site.front).ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    };
    let free = |site: &Site| {
        let line = ask(site, "GET", "/free").start_line().to_owned();
        line.rsplit(' ').next().unwrap().trim_end_matches(".000").parse::<u64>().unwrap()
    };
    let empty = free(&site);
    assert_eq!(ask(&site, "GET", "/kept").text(), "/kept 1");
    assert_eq!(ask(&site, "GET", "/banned").text(), "/banned 2");
    assert_eq!(ask(&site, "GET", "/purged").text(), "/purged 3");
    assert_eq!(ask(&site, "GET", "/memory").text(), "/memory 4");
    assert!(free(&site) < empty);
    assert_eq!(ask(&site, "GET", "/kept").field("x-storage"), Some("storage.disk"));
    assert_eq!(ask(&site, "GET", "/memory").field("x-storage"), Some("storage.mem"));
    ask(&site, "BAN", "/");
    ask(&site, "PURGE", "/purged");
    site.edge.signal(Signal::KILL);
    wait_until("it has ended", || site.edge.has_ended());
    drop(site);

    let site = Site::with(Edge::start_single, KEPT, &arguments, "", &origin);
    assert_eq!(ask(&site, "GET", "/kept").text(), "/kept 1", "{}", site.edge.output());
    assert_eq!(ask(&site, "GET", "/banned").text(), "/banned 5");
    assert_eq!(ask(&site, "GET", "/purged").text(), "/purged 6");
    assert_eq!(ask(&site, "GET", "/memory").text(), "/memory 7");
    site.edge.signal(Signal::TERM);
    wait_until("it has ended", || site.edge.has_ended());
    drop(site);
    let site = Site::with(Edge::start_single, KEPT, &arguments, "", &origin);
    assert_eq!(ask(&site, "GET", "/banned").text(), "/banned 5");
    assert_eq!(count.load(SeqCst), 7);
}
