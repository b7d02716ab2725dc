//! Debian's Sentinel over groups of stores, and of stores with Redis: what it watches, whom it promotes, and who comes back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs::File,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use support::{Folder, Redis, RedisClient, Store, free_address, listens, wait_until, wait_within};

const LONG: Duration = Duration::from_secs(90);
const GROUP: &str = "group";

/// A Sentinel that watches a group.
struct Sentinel {
    child: Child,
    address: SocketAddr,
    folder: Folder,
}

impl Sentinel {
    fn start(master: SocketAddr, quorum: u32) -> Self {
        let (address, folder) = (free_address(), Folder::new());
        let (ip, port) = (address.ip(), address.port());
        let text = format!(
            "bind {ip}\nport {port}\ndir {}\nsentinel announce-ip {ip}\n\
             sentinel monitor {GROUP} {} {} {quorum}\nsentinel down-after-milliseconds {GROUP} 2000\n\
             sentinel failover-timeout {GROUP} 20000\nsentinel parallel-syncs {GROUP} 1\n",
            folder.0.display(),
            master.ip(),
            master.port()
        );
        let file = folder.file("sentinel.conf", text);
        let log = File::create(folder.0.join("sentinel.log")).unwrap();
        let child = Command::new("/usr/bin/redis-server")
            .arg(file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        wait_until("Sentinel listens", || listens(address));
        Self { child, address, folder }
    }

    /// Where the master is, as clients are told.
    fn master(&self) -> SocketAddr {
        let mut client = RedisClient::connect(self.address);
        let reply = client.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP]);
        let words: Vec<String> = reply
            .as_slice()
            .unwrap()
            .iter()
            .map(|word| String::from_utf8(word.as_bytes().unwrap().to_vec()).unwrap())
            .collect();
        format!("{}:{}", words[0], words[1]).parse().unwrap()
    }

    /// Whether it has seen all of the group's replicas, and nobody else, follow the master.
    ///
    /// Until then one Sentinel may still order a former master to follow, while another one is promoting it.
    fn is_settled(&self, replicas: usize) -> bool {
        let mut client = RedisClient::connect(self.address);
        let reply = client.command(&["SENTINEL", "REPLICAS", GROUP]);
        let follows = |entry: &resp::Value| {
            let words: Vec<_> = entry.as_slice().unwrap_or_default().iter().filter_map(resp::Value::as_bytes).collect();
            let field = |name: &[u8]| words.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
            field(b"flags") == Some(b"slave")
                && field(b"role-reported") == Some(b"slave")
                && field(b"master-link-status") == Some(b"ok")
        };
        reply.as_slice().is_some_and(|entries| entries.len() == replicas && entries.iter().all(follows))
    }

    /// How many replicas, and other Sentinels, it knows that are not down.
    fn knows(&self, what: &str) -> usize {
        let mut client = RedisClient::connect(self.address);
        let reply = client.command(&["SENTINEL", what, GROUP]);
        let flags = |entry: &resp::Value| format!("{entry:?}").contains("down");
        reply.as_slice().map_or(0, |entries| entries.iter().filter(|entry| !flags(entry)).count())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.0.join("sentinel.log")).unwrap_or_default();
            eprintln!("Sentinel on {} said: {log}", self.address);
        }
    }
}

fn announced(address: SocketAddr) -> Vec<String> {
    ["--replica-announce-ip", &address.ip().to_string()].map(str::to_owned).to_vec()
}

/// A store on an address, that follows a master if there is one.
fn store(folder: Arc<Folder>, address: SocketAddr, master: Option<SocketAddr>) -> Store {
    let mut words = announced(address);
    words.extend(["--repl-ping-replica-period".into(), "1".into()]);
    if let Some(master) = master {
        words.extend(["--replicaof".to_owned(), master.ip().to_string(), master.port().to_string()]);
    }
    Store::start_at(address, folder, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn new_store(master: Option<SocketAddr>) -> Store {
    store(Arc::new(Folder::new()), free_address(), master)
}

/// What a server answers to a connection of its own: Sentinel closes those of clients when it changes a role. Nothing while it does not.
fn asked(address: SocketAddr, words: &[&str]) -> String {
    let Ok(stream) = std::net::TcpStream::connect(address) else { return String::new() };
    drop(stream);
    let reply = RedisClient::connect(address).try_command(words);
    let bytes = reply.as_ref().and_then(|value| value.as_bytes().or_else(|| value.as_error()));
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

fn sentinels(master: SocketAddr, replicas: usize) -> Vec<Sentinel> {
    let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(master, 2)).collect();
    for sentinel in &sentinels {
        wait_within(LONG, "Sentinel knows the group", || {
            sentinel.knows("REPLICAS") == replicas && sentinel.knows("SENTINELS") == 2
        });
    }
    sentinels
}

#[test]
fn sentinel_promotes_a_store_and_the_old_master_follows_it() {
    let mut first = new_store(None);
    let second = new_store(Some(first.address));
    let third = new_store(Some(first.address));
    let mut client = first.client();
    client.text(&["SET", "before", "1"]);
    assert_eq!(client.text(&["WAIT", "2", "30000"]), "2");
    let sentinels = sentinels(first.address, 2);
    let (address, folder) = (first.address, Arc::clone(&first.folder));
    client.text(&["SET", "last", "2"]);
    assert_eq!(client.text(&["WAIT", "2", "30000"]), "2");
    first.kill();
    wait_within(LONG, "another one is the master", || sentinels.iter().all(|sentinel| sentinel.master() != address));
    let promoted = sentinels[0].master();
    assert!([second.address, third.address].contains(&promoted), "{promoted}");
    wait_within(LONG, "it takes writes", || asked(promoted, &["SET", "after", "3"]) == "OK");
    assert_eq!(asked(promoted, &["GET", "last"]), "2");
    let other = if promoted == second.address { &third } else { &second };
    wait_within(LONG, "the other one follows it", || asked(other.address, &["GET", "after"]) == "3");
    let stats = asked(promoted, &["INFO", "stats"]);
    assert!(stats.contains("sync_full:0\r\n"), "without another copy: {stats}");
    // The old master comes back as one, and is told that it is none any more.
    let _first = store(folder, address, None);
    wait_within(LONG, "the old master follows", || asked(address, &["INFO", "replication"]).contains("role:slave"));
    wait_within(LONG, "it has what came since", || asked(address, &["GET", "after"]) == "3");
    // Somebody asks for a failover.
    fail_over(&sentinels, 2);
    wait_within(LONG, "yet another one is the master", || {
        sentinels.iter().all(|sentinel| sentinel.master() != promoted)
    });
    let newest = sentinels[0].master();
    wait_within(LONG, "it takes writes", || asked(newest, &["SET", "again", "4"]) == "OK");
    wait_within(LONG, "the last master follows", || asked(promoted, &["GET", "again"]) == "4");
}

/// Has Sentinel make another one the master, as soon as all of them agree on how things are, and one is fit.
fn fail_over(sentinels: &[Sentinel], replicas: usize) {
    for sentinel in sentinels {
        wait_within(LONG, "Sentinel has seen who follows", || sentinel.is_settled(replicas));
    }
    wait_within(LONG, "Sentinel takes a failover", || {
        asked(sentinels[0].address, &["SENTINEL", "FAILOVER", GROUP]) == "OK"
    });
}

#[test]
fn sentinel_moves_a_group_from_redis_to_a_store_and_back() {
    let address = free_address();
    let words = announced(address);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut redis = Redis::start_at(address, Arc::new(Folder::new()), &words);
    let store = new_store(Some(address));
    let mut client = redis.client();
    client.text(&["SET", "of", "redis"]);
    assert_eq!(client.text(&["WAIT", "1", "30000"]), "1");
    let sentinels = sentinels(address, 1);
    redis.kill();
    wait_within(LONG, "the store is the master", || {
        sentinels.iter().all(|sentinel| sentinel.master() == store.address)
    });
    wait_within(LONG, "it takes writes", || asked(store.address, &["SET", "now", "a-store"]) == "OK");
    assert_eq!(asked(store.address, &["GET", "of"]), "redis");
    let _redis = Redis::start_at(address, Arc::clone(&redis.folder), &words);
    wait_within(LONG, "Redis follows the store", || asked(address, &["GET", "now"]) == "a-store");
    fail_over(&sentinels, 1);
    wait_within(LONG, "Redis is the master", || sentinels.iter().all(|sentinel| sentinel.master() == address));
    wait_within(LONG, "it takes writes", || asked(address, &["SET", "back", "again"]) == "OK");
    wait_within(LONG, "the store follows Redis", || asked(store.address, &["GET", "back"]) == "again");
}
