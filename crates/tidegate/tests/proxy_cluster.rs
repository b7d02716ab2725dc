//! `tidegate proxy` in front of clusters: Redis' own, and stores that are told their slots.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use support::{Folder, Redis, RedisClient, Store, free_address, listens, wait_until, wait_within};

const LONG: Duration = Duration::from_secs(90);

struct Proxy {
    child: Child,
    address: SocketAddr,
    folder: Folder,
}

impl Proxy {
    fn start(words: &[&str]) -> Self {
        let (address, folder) = (free_address(), Folder::new());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["proxy", "-s", "0", "--listen", &address.to_string(), "-o"])
            .arg(folder.0.join("log"))
            .args(words);
        let child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        wait_until("the proxy listens", || listens(address));
        Self { child, address, folder }
    }

    fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
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

/// A Redis Cluster of three masters.
fn redis_cluster() -> Vec<Redis> {
    let node = || {
        let address = free_address();
        let folder = Arc::new(Folder::new());
        let ip = address.ip().to_string();
        let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-announce-ip", &ip];
        Redis::start_at(address, folder, &words)
    };
    let nodes: Vec<Redis> = (0..3).map(|_| node()).collect();
    let places: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    let mut words = vec!["--cluster", "create"];
    words.extend(places.iter().map(String::as_str));
    redis_cli(&[words.as_slice(), &["--cluster-yes"]].concat());
    for node in &nodes {
        let mut client = node.client();
        wait_within(LONG, "the cluster is whole", || client.text(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    }
    nodes
}

fn redis_cli(words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(words).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "redis-cli {words:?}: {text}");
    text
}

/// Clients that count up keys through a proxy until they are told to stop, and what they were told.
struct Load {
    stops: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<Vec<String>>>,
}

const KEYS: usize = 50;

impl Load {
    fn on(address: SocketAddr, clients: usize) -> Self {
        let (stops, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let one = |_| {
            let (stops, done) = (Arc::clone(&stops), Arc::clone(&done));
            thread::spawn(move || {
                let mut client = RedisClient::connect(address);
                let mut errors = Vec::new();
                while !stops.load(SeqCst) {
                    for key in 0..KEYS {
                        let reply = client.command(&["INCR", &format!("count:{key}")]);
                        match reply.as_error() {
                            Some(error) => errors.push(String::from_utf8_lossy(error).into_owned()),
                            None => drop(done.fetch_add(1, SeqCst)),
                        }
                    }
                }
                errors
            })
        };
        let threads = (0..clients).map(one).collect();
        Self { stops, done, threads }
    }

    /// Waits until so many more have been done.
    fn wait(&self, more: u64) {
        let from = self.done.load(SeqCst);
        wait_within(LONG, "the load goes on", || self.done.load(SeqCst) >= from + more);
    }

    /// Stops it; no command has failed, and the keys say as much as was done.
    fn check(self, client: &mut RedisClient) {
        self.stops.store(true, SeqCst);
        let errors: Vec<String> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(errors.is_empty(), "{} commands failed: {:?}", errors.len(), &errors[..errors.len().min(5)]);
        let keys: Vec<String> = (0..KEYS).map(|key| format!("count:{key}")).collect();
        let mut words = vec!["MGET"];
        words.extend(keys.iter().map(String::as_str));
        let reply = client.command(&words);
        let number = |value: &resp::Value| String::from_utf8_lossy(value.as_bytes().unwrap()).parse::<u64>().unwrap();
        let sum: u64 = reply.as_slice().unwrap().iter().map(number).sum();
        assert_eq!(sum, self.done.load(SeqCst), "what was acknowledged is there, once");
    }
}

#[test]
fn plain_clients_use_a_redis_cluster_that_is_resharded() {
    let nodes = redis_cluster();
    let proxy = Proxy::start(&["--cluster", &nodes[1].address.to_string()]);
    let mut client = proxy.client();
    assert_eq!(client.text(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4"]), "OK");
    assert_eq!(format!("{:?}", client.command(&["MGET", "d", "none", "a"])).matches("Bulk").count(), 2);
    assert_eq!(client.text(&["EXISTS", "a", "b", "c", "d", "e"]), "4");
    assert_eq!(client.text(&["DEL", "a", "b", "x"]), "2");
    assert_eq!(client.text(&["DBSIZE"]), "2");
    assert!(client.text(&["RENAME", "c", "d"]).starts_with("CROSSSLOT"));
    assert_eq!(client.text(&["RENAME", "{c}1", "c"]), "ERR no such key");
    for words in [["MULTI"].as_slice(), &["SET", "{t}1", "x"], &["SET", "{t}2", "y"]] {
        client.command(words);
    }
    assert_eq!(client.command(&["EXEC"]).as_slice().unwrap().len(), 2);
    for key in 0..200 {
        client.text(&["SET", &format!("k:{key}"), "v"]);
    }
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.command(&["SCAN", &cursor, "COUNT", "50", "MATCH", "k:*"]);
        let parts = reply.as_slice().unwrap();
        found.extend(parts[1].as_slice().unwrap().iter().map(|key| key.as_bytes().unwrap().to_vec()));
        cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 200);
    // Slots move, key by key, while plain clients go on.
    let load = Load::on(proxy.address, 3);
    load.wait(500);
    let id = |node: &Redis| node.client().text(&["CLUSTER", "MYID"]);
    let (from, to) = (id(&nodes[0]), id(&nodes[2]));
    let (entry, count) = (nodes[0].address.to_string(), "800");
    redis_cli(&[
        "--cluster",
        "reshard",
        &entry,
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        count,
        "--cluster-yes",
    ]);
    load.wait(500);
    load.check(&mut client);
}

/// The lines that tell stores and proxies who has which slots: the first so many belong to the first store.
fn topology(stores: &[&Store], split: u16, myself: Option<usize>) -> String {
    let slots = [format!("0-{}", split - 1), format!("{split}-16383")];
    let line = |(number, store): (usize, &&Store)| {
        let mine = if myself == Some(number) { "myself," } else { "" };
        format!("n{number} {}@0 {mine}master - 0 0 1 connected {}\n", store.address, slots[number])
    };
    stores.iter().enumerate().map(line).collect()
}

fn tell(stores: &[&Store], epoch: u32, split: u16) {
    for (number, store) in stores.iter().enumerate() {
        let text = topology(stores, split, Some(number));
        assert_eq!(store.client().text(&["CLUSTER", "TOPOLOGY", &epoch.to_string(), &text]), "OK");
    }
}

#[test]
fn slots_that_change_hands_cost_no_command() {
    let node = || Store::start(&["--cluster-enabled", "yes"]);
    let (first, second) = (node(), node());
    let stores = [&first, &second];
    let folder = Folder::new();
    let file = folder.file("topology", topology(&stores, 8000, None));
    tell(&stores, 1, 8000);
    let proxy = Proxy::start(&["--topology", file.to_str().unwrap()]);
    let mut client = proxy.client();
    assert_eq!(client.text(&["MSET", "a", "1", "b", "2", "c", "3"]), "OK");
    assert_eq!(first.client().text(&["DBSIZE"]), "2", "a is of slot 15495, b of 3300, c of 7365");
    // One part of this request has keys of two slots, one of which has moved.
    for store in &stores {
        store.client().text(&["DEBUG", "SLEEP", "0"]);
    }
    assert_eq!(second.client().text(&["SET", "c", "3"]).split(' ').next(), Some("MOVED"));
    let mut mover = second.client();
    mover.text(&["CLUSTER", "CONNECTION", "MOVER", "7000", "7999", "1"]);
    mover.text(&["SET", "c", "3"]);
    tell(&stores, 2, 5000);
    assert_eq!(first.client().text(&["CLUSTER", "DELKEYSINSLOT", "5000", "16383", "100"]), "1");
    assert_eq!(client.text(&["EXISTS", "a", "b", "c"]), "3");
    let reply = client.command(&["MGET", "b", "c", "a"]);
    let values: Vec<&[u8]> = reply.as_slice().unwrap().iter().map(|value| value.as_bytes().unwrap()).collect();
    assert_eq!(values, [b"2", b"3", b"1"]);
    // Who waits for a key is sent to its new owner.
    let address = proxy.address;
    let waiting = thread::spawn(move || RedisClient::connect(address).command(&["BLPOP", "{b}list", "60"]));
    wait_until("it waits", || first.client().text(&["INFO", "clients"]).contains("blocked_clients:1"));
    // The owner's pause lasts until it has the slots no more.
    assert_eq!(first.client().text(&["CLUSTER", "PAUSE", "3000", "4000", "20000"]), "OK");
    let paused = thread::spawn(move || RedisClient::connect(address).text(&["SET", "{b}1", "x"]));
    tell(&stores, 3, 3000);
    assert_eq!(paused.join().unwrap(), "OK");
    assert_eq!(client.text(&["RPUSH", "{b}list", "found"]), "1");
    assert_eq!(waiting.join().unwrap().as_slice().unwrap().len(), 2);
    assert_eq!(second.client().text(&["GET", "{b}1"]), "x");
}

/// Where a store's log ends.
fn end_of_log(store: &Store) -> u64 {
    let text = store.client().text(&["INFO", "replication"]);
    text.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).unwrap().trim().parse().unwrap()
}

#[test]
fn half_of_the_slots_move_to_a_new_store_under_load() {
    let node = || Store::start(&["--cluster-enabled", "yes"]);
    let (first, second) = (node(), node());
    let stores = [&first, &second];
    let folder = Folder::new();
    let lines = |split, myself| topology(&stores, split, myself).replace(" 16384-16383", "");
    let file = folder.file("topology", lines(16384, None));
    let tell = |epoch: u32, split: u16, to: usize| {
        let text = lines(split, Some(to));
        assert_eq!(stores[to].client().text(&["CLUSTER", "TOPOLOGY", &epoch.to_string(), &text]), "OK");
    };
    tell(1, 16384, 0);
    tell(1, 16384, 1);
    let proxy = Proxy::start(&["--topology", file.to_str().unwrap()]);
    let mut client = proxy.client();
    for key in 0..300 {
        let name = format!("key:{key}");
        match key % 4 {
            0 => client.text(&["SET", &name, "value", "EX", "10000"]),
            1 => client.text(&["RPUSH", &name, "a", "b", "c"]),
            2 => client.text(&["HSET", &name, "field", "value"]),
            _ => client.text(&["ZADD", &name, "1", "member"]),
        };
    }
    let load = Load::on(proxy.address, 3);
    load.wait(300);
    let task = store::slotmove::Move::between(first.address, second.address, (8000, 16383));
    let mover = store::slotmove::start(task).unwrap();
    wait_within(LONG, "the mover follows", || match mover.progress().phase {
        store::slotmove::Phase::Failed(reason) => panic!("{reason}"),
        phase => phase == store::slotmove::Phase::Following,
    });
    load.wait(300);
    assert_eq!(first.client().text(&["CLUSTER", "PAUSE", "8000", "16383", "60000"]), "OK");
    let end = end_of_log(&first);
    wait_within(LONG, "the mover has everything", || mover.progress().applied >= end);
    tell(2, 8000, 1);
    tell(2, 8000, 0);
    mover.stop();
    load.wait(300);
    // The proxy was not told: it has found out.
    let other = folder.file("topology.new", lines(8000, None));
    fs::rename(other, &file).unwrap();
    loop {
        if first.client().text(&["CLUSTER", "DELKEYSINSLOT", "8000", "16383", "50"]) == "0" {
            break;
        }
    }
    load.wait(300);
    load.check(&mut client);
    let names: Vec<String> = (0..300).map(|key| format!("key:{key}")).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(names.iter().map(String::as_str)).collect();
    assert_eq!(client.text(&words), "300");
    assert_eq!(client.text(&["DBSIZE"]), (300 + KEYS).to_string());
    let moved = second.client().text(&["DBSIZE"]).parse::<usize>().unwrap();
    assert!(moved > 100 && moved < 250, "{moved}");
    assert!(client.text(&["TTL", "key:0"]).parse::<i64>().unwrap() > 9000);
}

#[test]
fn what_could_not_be_sent_is_sent_when_the_server_is_back() {
    let folder = Arc::new(Folder::new());
    let mut store = Store::start_in(Arc::clone(&folder), &[]);
    let address = store.address;
    let lines = Folder::new();
    let file = lines.file("topology", format!("one {address}@0 master - 0 0 1 connected 0-16383\n"));
    let proxy = Proxy::start(&["--topology", file.to_str().unwrap(), "--retry-for", "60000"]);
    let mut client = proxy.client();
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    store.kill();
    let place = proxy.address;
    let waiting = thread::spawn(move || RedisClient::connect(place).text(&["INCR", "a"]));
    wait_until("it is tried", || {
        fs::read_to_string(proxy.folder.0.join("log")).unwrap().contains("Connection refused")
    });
    let _store = Store::start_at(address, folder, &[]);
    assert_eq!(waiting.join().unwrap(), "2");
}

#[test]
fn who_cannot_tell_the_slots_is_named() {
    let refused = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("proxy").args(words).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let folder = Folder::new();
    let file = folder.file("topology", "a 127.0.0.1:1@2 master - 0 0 1 connected 0-99999\n");
    let said = refused(&["--topology", file.to_str().unwrap()]);
    assert!(said.contains("line 1: '0-99999' is no slot"), "{said}");
    let said = refused(&["--cluster", "127.0.0.1:1"]);
    assert!(said.contains("127.0.0.1:1: Connection refused"), "{said}");
    assert!(refused(&["--sentinel", "127.0.0.1:1"]).contains("GROUP@HOST:PORT"));
}
