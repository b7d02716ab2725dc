//! `tidegate proxy`: reads from replicas, health for load balancers, draining, databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use support::{Folder, Redis, RedisClient, free_address, listens, signal_process, wait_end, wait_until, wait_within};

const LONG: Duration = Duration::from_secs(60);

struct Proxy {
    child: Child,
    address: SocketAddr,
    statistics: SocketAddr,
    folder: Folder,
}

impl Proxy {
    fn start(words: &[&str]) -> Self {
        let (address, statistics, folder) = (free_address(), free_address(), Folder::new());
        let (port, host) = (statistics.port().to_string(), statistics.ip().to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["proxy", "-s", &port, "-a", &host, "--listen", &address.to_string(), "-o"])
            .arg(folder.0.join("log"))
            .args(words);
        let child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        wait_until("the proxy listens", || listens(address) && listens(statistics));
        Self { child, address, statistics, folder }
    }

    fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
    }

    /// What the statistics port answers to a request of HTTP: the status and the body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.statistics).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn terminate(&self) {
        signal_process(self.child.id(), rustix::process::Signal::TERM);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the proxy said: {}", fs::read_to_string(self.folder.0.join("log")).unwrap_or_default());
        }
    }
}

/// How often a server has run a command.
fn calls(server: &Redis, command: &str) -> u64 {
    let text = server.client().text(&["INFO", "commandstats"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn reads_of_a_redis_cluster_go_to_its_replica_and_to_the_master_without_it() {
    let node = || {
        let address = free_address();
        let ip = address.ip().to_string();
        let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "30000", "--cluster-announce-ip", &ip];
        Redis::start_at(address, Arc::new(Folder::new()), &words)
    };
    let (master, mut replica) = (node(), node());
    let id = master.client().text(&["CLUSTER", "MYID"]);
    assert_eq!(master.client().text(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    let (host, port) = (master.address.ip().to_string(), master.address.port().to_string());
    assert_eq!(replica.client().text(&["CLUSTER", "MEET", &host, &port]), "OK");
    wait_within(LONG, "the replica follows", || replica.client().text(&["CLUSTER", "REPLICATE", &id]) == "OK");
    wait_within(LONG, "it is in sync", || {
        replica.client().text(&["INFO", "replication"]).contains("master_link_status:up")
            && master.client().text(&["CLUSTER", "NODES"]).contains("slave")
            && master.client().text(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    });
    let seed = master.address.to_string();
    let proxy = Proxy::start(&["--cluster", &seed, "--read-from", "prefer-replica"]);
    let mut client = proxy.client();
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    wait_within(LONG, "reads go to the replica", || {
        client.text(&["GET", "a"]);
        calls(&replica, "get") > 0
    });
    let before = (calls(&master, "get"), calls(&replica, "get"));
    for _ in 0..50 {
        assert_eq!(client.text(&["GET", "a"]), "1");
        assert!(client.text(&["INCR", "count"]).parse::<u64>().is_ok());
    }
    assert_eq!((calls(&master, "get") - before.0, calls(&replica, "get") - before.1), (0, 50));
    assert_eq!(client.text(&["INFO", "proxy"]).matches("read_from:prefer-replica").count(), 1);
    // Without it nothing fails.
    replica.kill();
    for _ in 0..50 {
        assert_eq!(client.text(&["GET", "a"]), "1");
    }
    assert!(calls(&master, "get") > before.0);
}

#[test]
fn the_health_check_tells_the_truth() {
    let folder = Folder::new();
    let server = Redis::start(&[]);
    let line = |slots: &str| format!("m {}@0 master - 0 0 1 connected {slots}\n", server.address);
    let file = folder.file("topology", line("0-100"));
    let proxy = Proxy::start(&["--topology", file.to_str().unwrap()]);
    wait_until("slots are missing", || {
        let (status, body) = proxy.get("/health");
        status == 503 && body.contains("16283 of 16384 slots have no server")
    });
    folder.file("next", line("0-16383"));
    fs::rename(folder.0.join("next"), &file).unwrap();
    wait_until("all slots are served", || proxy.get("/health").0 == 200);
    assert_eq!(proxy.get("/health").1, "{\"degraded\":[],\"reasons\":[],\"status\":\"ok\"}\n");
    assert_eq!((proxy.get("/elsewhere").0, proxy.get("/stats").0), (404, 200));
    // Who says nothing gets what twemproxy says.
    let mut text = String::new();
    TcpStream::connect(proxy.statistics).unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with('{') && text.contains("\"service\":\"nutcracker\""), "{text}");
}

#[test]
fn who_is_being_answered_is_answered_when_the_proxy_is_told_to_end() {
    let server = Redis::start(&[]);
    let mut proxy = Proxy::start(&["--server", &server.address.to_string(), "--shutdown-notice", "700"]);
    let (mut idle, mut busy, mut waiting) = (proxy.client(), proxy.client(), proxy.client());
    assert_eq!(idle.text(&["PING"]), "PONG");
    server.client().send_command(&["DEBUG", "SLEEP", "1.5"]);
    busy.send_command(&["SET", "a", "1"]);
    waiting.send_command(&["BLPOP", "list", "0"]);
    proxy.terminate();
    wait_until("the health check says so", || {
        let (status, body) = proxy.get("/health");
        status == 503 && body.contains("the proxy shuts down")
    });
    assert_eq!(proxy.client().text(&["PING"]), "PONG", "clients may still come");
    assert_eq!(busy.reply().unwrap().as_bytes(), Some(&b"OK"[..]));
    assert!(idle.reply().is_none() && waiting.reply().is_none());
    assert_eq!(wait_end(&mut proxy.child), 0);
    assert!(!listens(proxy.address));
}

#[test]
fn haproxy_sends_nobody_to_a_proxy_that_leaves() {
    let server = Redis::start(&[]);
    let place = server.address.to_string();
    let words = ["--server", &place, "--shutdown-notice", "2000"];
    let (mut leaving, staying) = (Proxy::start(&words), Proxy::start(&words));
    let (front, folder) = (free_address(), Folder::new());
    let one = |name: &str, proxy: &Proxy| {
        format!(
            "    server {name} {} check addr {} port {} inter 200ms fall 1 rise 1\n",
            proxy.address,
            proxy.statistics.ip(),
            proxy.statistics.port()
        )
    };
    // As docs/many-stores.md has it.
    let text = format!(
        "defaults\n    mode tcp\n    timeout connect 1s\n    timeout client 1h\n    timeout server 1h\n\nlisten redis\n    bind {front}\n    \
         option httpchk GET /health\n    http-check expect status 200\n    balance leastconn\n{}{}",
        one("proxy1", &leaving),
        one("proxy2", &staying)
    );
    let file = folder.file("haproxy.cfg", text);
    let mut haproxy = Command::new("haproxy").arg("-db").arg("-f").arg(file).stdin(Stdio::null()).spawn().unwrap();
    wait_until("haproxy listens", || listens(front));
    let (stops, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = {
        let (stops, done) = (Arc::clone(&stops), Arc::clone(&done));
        thread::spawn(move || {
            let mut failed = 0;
            while !stops.load(SeqCst) {
                // A connection for each command.
                let reply = RedisClient::connect(front).try_command(&["INCR", "count"]);
                match reply {
                    Some(value) if value.as_error().is_none() => drop(done.fetch_add(1, SeqCst)),
                    _ => failed += 1,
                }
            }
            failed
        })
    };
    wait_until("commands are served", || done.load(SeqCst) > 20);
    leaving.terminate();
    let code = wait_end(&mut leaving.child);
    let at_end = done.load(SeqCst);
    wait_until("commands go on", || done.load(SeqCst) > at_end + 20);
    stops.store(true, SeqCst);
    let failed = load.join().unwrap();
    let _ = haproxy.kill();
    let _ = haproxy.wait();
    assert_eq!((failed, code), (0, 0));
}

#[test]
fn databases_of_one_server_are_its_own() {
    let server = Redis::start(&["--requirepass", "secret"]);
    let folder = Folder::new();
    let file = folder.file("nutcracker.yml", Vec::new());
    let address = free_address();
    fs::write(
        &file,
        format!(
            "pool:\n  listen: {address}\n  redis: true\n  redis_auth: secret\n  servers:\n   - {}:1\n",
            server.address
        ),
    )
    .unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["proxy", "-s", "0", "-c"])
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the proxy listens", || listens(address));
    let (mut client, mut other) = (RedisClient::connect(address), RedisClient::connect(address));
    assert!(client.text(&["GET", "a"]).starts_with("NOAUTH"));
    for client in [&mut client, &mut other] {
        assert_eq!(client.text(&["AUTH", "default", "secret"]), "OK");
    }
    assert_eq!((client.text(&["SELECT", "3"]), client.text(&["SET", "a", "3"])), ("OK".into(), "OK".into()));
    assert_eq!((other.text(&["GET", "a"]), client.text(&["GET", "a"])), ("(nil)".into(), "3".into()));
    assert!(client.text(&["SELECT", "16"]).starts_with("ERR DB index is out of range"));
    assert_eq!(client.text(&["GET", "a"]), "3");
    let text = client.text(&["INFO"]);
    for line in ["db3:keys=1,", "maxmemory_policy:noeviction", "redis_version:", "connected_clients:2", "# Memory"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(
        client.text(&["CLIENT", "TRACKING", "ON"]).starts_with("ERR client-side caching cannot go through a proxy")
    );
    assert!(client.text(&["CLIENT", "LIST"]).contains("db=3"));
    // A blocking command and a transaction are in that database too.
    assert_eq!(client.text(&["RPUSH", "list", "x"]), "1");
    assert_eq!(client.command(&["BLPOP", "list", "1"]).as_slice().unwrap().len(), 2);
    assert_eq!((client.text(&["MULTI"]), client.text(&["INCR", "a"])), ("OK".into(), "QUEUED".into()));
    client.command(&["EXEC"]);
    assert_eq!((client.text(&["GET", "a"]), other.text(&["DBSIZE"])), ("4".into(), "0".into()));
    let _ = child.kill();
    let _ = child.wait();
}
