//! Many stores as one: `tidegate proxy` in front of real servers, beside twemproxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeSet,
    io::Write as _,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use resp::Value;
use support::{Folder, RedisClient, free_address, listens, signal_process, wait_until};

/// A process that listens, ended with the test.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(command: &mut Command, address: SocketAddr) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it listens", || listens(address));
        Self { child, address }
    }

    fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redis_at(address: SocketAddr, more: &[&str]) -> Process {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new("redis-server");
    command.args(["--bind", &host, "--port", &port, "--save", "", "--protected-mode", "no"]).args(more);
    Process::start(command.current_dir(std::env::temp_dir()), address)
}

fn redis() -> Process {
    redis_at(free_address(), &[])
}

/// A proxy in front of servers, with more directives of its pool.
struct Proxy {
    process: Process,
    folder: Folder,
}

impl Proxy {
    fn before(servers: &[&Process], directives: &str) -> Self {
        Self::with(servers, directives, &[])
    }

    fn with(servers: &[&Process], directives: &str, options: &[&str]) -> Self {
        let address = free_address();
        let mut text = format!(
            "pool:\n  listen: {address}\n  redis: true\n  hash: murmur\n  hash_tag: \"{{}}\"\n{directives}  servers:\n"
        );
        for (number, server) in servers.iter().enumerate() {
            text += &format!("   - {}:1 s{number}\n", server.address);
        }
        let folder = Folder::new();
        let file = folder.file("nutcracker.yml", text);
        let log = folder.0.join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("proxy").arg("-c").arg(file).args(["-s", "0", "-o"]).arg(log).args(options);
        Self { process: Process::start(&mut command, address), folder }
    }

    fn client(&self) -> RedisClient {
        self.process.client()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }
}

fn three() -> [Process; 3] {
    [redis(), redis(), redis()]
}

fn all(servers: &[Process]) -> Vec<&Process> {
    servers.iter().collect()
}

/// A key with this beginning that lies on a server, by asking the servers.
fn key_on(proxy: &Proxy, servers: &[Process], server: usize) -> String {
    let mut client = proxy.client();
    (0..)
        .map(|number| format!("key{number}"))
        .find(|key| {
            client.text(&["SET", key, "x"]);
            servers[server].client().text(&["EXISTS", key]) == "1"
        })
        .unwrap()
}

#[test]
fn keys_lie_where_twemproxy_puts_them() {
    const HASHES: [&str; 12] = [
        "one_at_a_time",
        "md5",
        "crc16",
        "crc32",
        "crc32a",
        "fnv1_64",
        "fnv1a_64",
        "fnv1_32",
        "fnv1a_32",
        "hsieh",
        "murmur",
        "jenkins",
    ];
    let servers = three();
    let folder = Folder::new();
    let (mut ours, mut theirs, mut pools) = (String::new(), String::new(), Vec::new());
    for (number, hash) in HASHES.iter().enumerate() {
        for distribution in ["ketama", "modula"] {
            let addresses = (free_address(), free_address());
            let tail = |listen: SocketAddr| {
                let [a, b, c] = [0, 1, 2].map(|server| servers[server].address);
                format!(
                    "{hash}-{distribution}:\n  listen: {listen}\n  hash: {hash}\n  distribution: {distribution}\n  redis: true\n  \
                     redis_db: {number}\n  hash_tag: \"{{}}\"\n  servers:\n   - {a}:1\n   - {b}:3 second\n   - {c}:2\n"
                )
            };
            ours += &tail(addresses.0);
            theirs += &tail(addresses.1);
            pools.push((format!("{hash} {distribution}"), addresses));
        }
    }
    let (ours, theirs) = (folder.file("ours.yml", ours), folder.file("theirs.yml", theirs));
    let root = &folder.0;
    let mut nutcracker = Command::new("nutcracker");
    let port = free_address().port().to_string();
    nutcracker
        .arg("-c")
        .arg(theirs)
        .args(["-s", &port, "-p"])
        .arg(root.join("pid"))
        .arg("-o")
        .arg(root.join("theirs.log"));
    let _theirs = Process::start(&mut nutcracker, pools[0].1.1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let _ours = Process::start(command.arg("nutcracker").arg("-c").arg(ours).args(["-s", "0"]), pools[0].1.0);
    let keys: Vec<Vec<u8>> = (0..150u32)
        .map(|number| match number % 4 {
            0 => format!("user:{number}").into_bytes(),
            1 => format!("a{{tag{number}}}b").into_bytes(),
            2 => number.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(1 + number as usize % 5),
            _ => vec![0xc3 + (number % 7) as u8; 1 + number as usize % 13],
        })
        .collect();
    for (name, (ours, theirs)) in pools {
        let (mut ours, mut theirs) = (RedisClient::connect(ours), RedisClient::connect(theirs));
        let command = |words: &[&[u8]]| {
            let mut bytes = Vec::new();
            resp::encode_command(&mut bytes, words);
            bytes
        };
        let value = name.as_bytes();
        for key in &keys {
            theirs.send(&command(&[b"SET", key, value]));
        }
        assert!(keys.iter().all(|_| theirs.reply().is_some_and(|reply| reply.as_error().is_none())), "{name}");
        for key in &keys {
            ours.send(&command(&[b"GET", key]));
        }
        for key in &keys {
            let found = ours.reply().unwrap();
            assert_eq!(found.as_bytes(), Some(value), "{name}: {}", key.escape_ascii());
        }
        assert_eq!(ours.text(&["FLUSHDB"]), "OK");
    }
}

#[test]
fn several_servers_are_one_to_a_plain_client() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "");
    let mut client = proxy.client();
    let names: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
    let mut words = vec!["MSET"];
    names.iter().for_each(|name| words.extend([name.as_str(), name.as_str()]));
    assert_eq!(client.text(&words), "OK");
    let counts = servers.each_ref().map(|server| server.client().text(&["DBSIZE"]).parse::<usize>().unwrap());
    assert!(counts.iter().all(|count| *count > 40) && counts.iter().sum::<usize>() == 300, "{counts:?}");
    let mut words = vec!["MGET", "absent"];
    words.extend(names.iter().map(String::as_str));
    let Value::Array(values) = client.command(&words) else { panic!() };
    assert_eq!(values[0], Value::Null);
    assert!(names.iter().zip(&values[1..]).all(|(name, value)| value.as_bytes() == Some(name.as_bytes())));
    assert_eq!(client.text(&["DBSIZE"]), "300");
    assert_eq!(client.text(&["EXISTS", "k1", "k2", "k3", "k1", "no"]), "4");
    let Value::Array(keys) = client.command(&["KEYS", "k1?"]) else { panic!() };
    assert_eq!(keys.len(), 10);
    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let Value::Array(parts) = client.command(&["SCAN", &cursor, "COUNT", "7"]) else { panic!() };
        let Value::Array(keys) = &parts[1] else { panic!() };
        found.extend(keys.iter().map(|key| String::from_utf8_lossy(key.as_bytes().unwrap()).into_owned()));
        cursor = String::from_utf8_lossy(parts[0].as_bytes().unwrap()).into_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, names.iter().cloned().collect());
    assert!(found.contains(&client.text(&["RANDOMKEY"])));
    let script = client.text(&["SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])"]);
    assert!(names.iter().take(20).all(|name| client.text(&["EVALSHA", &script, "1", name]) == *name));
    assert_eq!(client.text(&["DEL", "k1", "k2", "k3", "no"]), "3");
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(client.text(&["DBSIZE"]), "0");
    for (words, said) in [
        (&["RENAME", "a", "b", "c"][..], "ERR wrong number of arguments for 'rename' command"),
        (&["NOSUCH", "x"], "ERR unknown command 'NOSUCH', with args beginning with: 'x' "),
        (&["SHUTDOWN"], "ERR 'shutdown' cannot go through a proxy"),
        (&["SELECT", "1"], "ERR DB index is out of range"),
        (&["HELLO", "4"], "NOPROTO unsupported protocol version"),
        (&["LPUSH", "k9"], "ERR wrong number of arguments for 'lpush' command"),
    ] {
        assert!(client.text(words).starts_with(said), "{words:?}: {}", client.text(words));
    }
    let (a, b) = (key_on(&proxy, &servers, 0), key_on(&proxy, &servers, 1));
    let said = client.text(&["RENAME", &a, &b]);
    assert!(said.starts_with("CROSSSLOT") && said.contains(&a) && said.contains(&b), "{said}");
    // In the newer protocol replies have the servers' types.
    assert!(client.text(&["HELLO", "3"]).starts_with("Map("));
    assert_eq!(client.text(&["HSET", "h", "f", "v"]), "1");
    assert!(client.text(&["HGETALL", "h"]).starts_with("Map("));
    assert!(client.text(&["HELLO", "2"]).starts_with("Array("));
    assert!(client.text(&["HGETALL", "h"]).starts_with("Array("));
}

#[test]
fn replies_come_in_the_order_of_the_requests_whatever_server_answers_first() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "  server_connections: 2\n");
    let mut client = proxy.client();
    let mut bytes = Vec::new();
    for number in 0..2_000 {
        let key = format!("k{}", number % 50);
        match number % 4 {
            0 => resp::encode_command(&mut bytes, &["SET", &key, &number.to_string()]),
            1 => resp::encode_command(&mut bytes, &["ECHO", &number.to_string()]),
            2 => resp::encode_command(&mut bytes, &["MGET", "k0", &key, "absent"]),
            _ => bytes.extend_from_slice(format!("ECHO \"{number}\"\r\n").as_bytes()),
        }
    }
    thread::scope(|scope| {
        let mut writer = RedisClient::connect(proxy.process.address);
        drop(scope.spawn(move || drop(writer.text(&["PING"]))));
        for piece in bytes.chunks(1_111) {
            client.send(piece);
        }
        for number in 0..2_000 {
            let reply = client.reply().unwrap();
            match number % 4 {
                0 => assert_eq!(reply.as_bytes(), Some(&b"OK"[..])),
                2 => assert!(
                    matches!(&reply, Value::Array(parts) if parts.len() == 3 && parts[2] == Value::Null),
                    "{reply:?}"
                ),
                _ => assert_eq!(reply.as_bytes(), Some(number.to_string().as_bytes())),
            }
        }
    });
    // What was written is read, although both went on at once.
    for number in 0..200 {
        let (key, value) = (format!("w{number}"), number.to_string());
        let mut both = Vec::new();
        resp::encode_command(&mut both, &["SET", &key, &value]);
        resp::encode_command(&mut both, &["GET", &key]);
        client.send(&both);
        assert_eq!(client.reply().unwrap().as_bytes(), Some(&b"OK"[..]));
        assert_eq!(client.reply().unwrap().as_bytes(), Some(value.as_bytes()));
    }
}

#[test]
fn transactions_run_on_the_server_of_their_keys() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "");
    let (mut client, mut other) = (proxy.client(), proxy.client());
    let keys: Vec<String> = (0..3).map(|server| key_on(&proxy, &servers, server)).collect();
    for key in &keys {
        assert_eq!(client.text(&["MULTI"]), "OK");
        assert_eq!(client.text(&["SET", key, "1"]), "QUEUED");
        assert_eq!(client.text(&["INCR", key]), "QUEUED");
        assert_eq!(client.text(&["PING"]), "QUEUED");
        let Value::Array(replies) = client.command(&["EXEC"]) else { panic!() };
        assert_eq!((replies.len(), &replies[1]), (3, &Value::Integer(2)));
        assert_eq!(client.text(&["GET", key]), "2");
    }
    // What was watched and changed.
    assert_eq!(client.text(&["WATCH", &keys[0]]), "OK");
    assert_eq!(other.text(&["SET", &keys[0], "7"]), "OK");
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["INCR", &keys[0]]), "QUEUED");
    assert_eq!(client.command(&["EXEC"]), Value::NullArray);
    assert_eq!(client.text(&["GET", &keys[0]]), "7");
    // Keys of two servers.
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["INCR", &keys[0]]), "QUEUED");
    assert!(client.text(&["INCR", &keys[1]]).starts_with("CROSSSLOT"));
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    assert_eq!(client.text(&["GET", &keys[0]]), "7");
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert!(matches!(client.command(&["EXEC"]), Value::Array(replies) if replies.is_empty()));
    assert!(client.text(&["EXEC"]).starts_with("ERR EXEC without MULTI"));
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["SET", &keys[2], "gone"]), "QUEUED");
    assert_eq!(client.text(&["DISCARD"]), "OK");
    assert_eq!(client.text(&["GET", &keys[2]]), "2");
    // All in one go, other commands around it.
    let mut bytes = Vec::new();
    for words in [
        &["SET", &keys[1], "1"][..],
        &["WATCH", &keys[1]],
        &["MULTI"],
        &["INCR", &keys[1]],
        &["EXEC"],
        &["GET", &keys[1]],
    ] {
        resp::encode_command(&mut bytes, words);
    }
    client.send(&bytes);
    let replies: Vec<Value> = (0..6).map(|_| client.reply().unwrap()).collect();
    assert_eq!(replies[4], Value::Array(vec![Value::Integer(2)]), "{replies:?}");
    assert_eq!(replies[5].as_bytes(), Some(&b"2"[..]));
}

#[test]
fn commands_that_wait_hold_up_nobody_else() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "  timeout: 300\n");
    let mut waiting: Vec<RedisClient> = (0..20).map(|_| proxy.client()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &["BLPOP", &format!("list{number}"), "30"]);
        resp::encode_command(&mut bytes, &["ECHO", "behind it"]);
        client.send(&bytes);
    }
    // Longer than the timeout: what waits may.
    let began = Instant::now();
    let mut client = proxy.client();
    while began.elapsed() < Duration::from_millis(700) {
        assert_eq!(client.text(&["INCRBY", "counter", "1"]).parse::<u64>().map(|count| count > 0), Ok(true));
    }
    for (number, waiting) in waiting.iter_mut().enumerate() {
        assert_eq!(client.text(&["LPUSH", &format!("list{number}"), "x"]), "1");
        let Value::Array(parts) = waiting.reply().unwrap() else { panic!() };
        assert_eq!(parts[1].as_bytes(), Some(&b"x"[..]));
        assert_eq!(waiting.reply().unwrap().as_bytes(), Some(&b"behind it"[..]));
    }
    // Who leaves while it waits takes nothing along.
    let mut gone = proxy.client();
    gone.send(b"*3\r\n$5\r\nBLPOP\r\n$4\r\nleft\r\n$1\r\n0\r\n");
    let blocked = || {
        let count = |server: &Process| {
            let info = server.client().text(&["INFO", "clients"]);
            info.split("blocked_clients:").nth(1).unwrap().split("\r\n").next().unwrap().parse::<u64>().unwrap()
        };
        servers.iter().map(count).sum::<u64>()
    };
    wait_until("it waits", || blocked() == 1);
    drop(gone);
    wait_until("nobody waits", || blocked() == 0);
    assert_eq!(client.text(&["LPUSH", "left", "kept"]), "1");
    assert_eq!(client.text(&["LLEN", "left"]), "1");
}

#[test]
fn messages_reach_whoever_listens() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "");
    let (mut listener, mut client) = (proxy.client(), proxy.client());
    listener.send(b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$10\r\nPSUBSCRIBE\r\n$2\r\nn*\r\n");
    for count in 1..=3 {
        let Value::Array(parts) = listener.reply().unwrap() else { panic!() };
        assert_eq!(parts[2], Value::Integer(count));
    }
    assert_eq!(client.text(&["PUBLISH", "b", "hello"]), "1");
    assert_eq!(client.text(&["PUBLISH", "news", "there"]), "1");
    let Value::Array(parts) = listener.reply().unwrap() else { panic!() };
    assert_eq!(parts[2].as_bytes(), Some(&b"hello"[..]));
    let Value::Array(parts) = listener.reply().unwrap() else { panic!() };
    assert_eq!(parts[3].as_bytes(), Some(&b"there"[..]));
    assert!(listener.text(&["GET", "x"]).starts_with("ERR Can't execute 'get'"));
    assert!(matches!(listener.command(&["PING", "x"]), Value::Array(parts) if parts.len() == 2));
    // Once it listens to nothing it is a client like any other.
    listener.send(b"UNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nSET k v\r\nGET k\r\n");
    for _ in 0..3 {
        assert!(matches!(listener.reply().unwrap(), Value::Array(_)));
    }
    assert_eq!(listener.reply().unwrap().as_bytes(), Some(&b"OK"[..]));
    assert_eq!(listener.reply().unwrap().as_bytes(), Some(&b"v"[..]));
    assert_eq!(client.text(&["PUBLISH", "b", "nobody"]), "0");
}

#[test]
fn a_dead_server_takes_only_its_own_keys_along() {
    let mut servers = three();
    let proxy = Proxy::before(&all(&servers), "");
    let keys: Vec<String> = (0..3).map(|server| key_on(&proxy, &servers, server)).collect();
    let mut client = proxy.client();
    servers[1].kill();
    let place = servers[1].address.to_string();
    wait_until("its keys are refused", || client.text(&["GET", &keys[1]]).starts_with("ERR Connection refused"));
    let said = client.text(&["GET", &keys[1]]);
    assert!(said.contains(&place), "{said}");
    assert_eq!((client.text(&["GET", &keys[0]]), client.text(&["GET", &keys[2]])), ("x".into(), "x".into()));
    let said = client.text(&["MGET", &keys[0], &keys[1]]);
    assert!(said.starts_with("ERR Connection refused"), "{said}");
    wait_until("the log says so", || proxy.log().contains(&place));
    servers[1] = redis_at(servers[1].address, &[]);
    assert_eq!(client.text(&["SET", &keys[1], "again"]), "OK");
}

#[test]
fn keys_of_an_ejected_server_go_to_others_until_it_is_back() {
    let mut servers = three();
    let settings = "  auto_eject_hosts: true\n  server_failure_limit: 2\n  server_retry_timeout: 700\n";
    let proxy = Proxy::before(&all(&servers), settings);
    let key = key_on(&proxy, &servers, 2);
    let mut client = proxy.client();
    servers[2].kill();
    let mut refused = 0;
    wait_until("another server has it", || {
        let said = client.text(&["SET", &key, "elsewhere"]);
        refused += usize::from(said.starts_with("ERR "));
        said == "OK"
    });
    assert!((1..=3).contains(&refused), "{refused}");
    assert_eq!(client.text(&["GET", &key]), "elsewhere");
    servers[2] = redis_at(servers[2].address, &[]);
    wait_until("it has its keys again", || client.text(&["GET", &key]) == "(nil)");
}

#[test]
fn a_server_that_is_silent_is_given_up_after_the_timeout() {
    let servers = three();
    let proxy = Proxy::before(&all(&servers), "  timeout: 200\n");
    let key = key_on(&proxy, &servers, 0);
    let other = key_on(&proxy, &servers, 1);
    let pid = servers[0].child.id();
    signal_process(pid, rustix::process::Signal::STOP);
    let (mut client, began) = (proxy.client(), Instant::now());
    let said = client.text(&["GET", &key]);
    signal_process(pid, rustix::process::Signal::CONT);
    assert!(said.starts_with("ERR Connection timed out"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(client.text(&["GET", &other]), "x");
    assert_eq!(client.text(&["GET", &key]), "x");
}

#[test]
fn the_password_is_asked_for_and_given() {
    let server = redis_at(free_address(), &["--requirepass", "secret"]);
    let proxy = Proxy::before(&[&server], "  redis_auth: secret\n  redis_db: 5\n");
    let mut client = proxy.client();
    assert!(client.text(&["GET", "a"]).starts_with("NOAUTH"));
    assert!(client.text(&["AUTH", "wrong"]).starts_with("WRONGPASS"));
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    let mut direct = server.client();
    assert_eq!(direct.text(&["AUTH", "secret"]), "OK");
    assert_eq!(direct.text(&["SELECT", "5"]), "OK");
    assert_eq!(direct.text(&["GET", "a"]), "1");
    let wrong = Proxy::before(&[&server], "  redis_auth: other\n");
    let mut client = wrong.client();
    assert_eq!(client.text(&["AUTH", "other"]), "OK");
    let said = client.text(&["GET", "a"]);
    assert!(said.contains("the server refused the proxy: WRONGPASS"), "{said}");
}

/// Each client has keys of its own, and must read what it wrote or hear of an error, never what is another's.
#[test]
fn nothing_is_mixed_up_while_servers_die_and_come_back() {
    let mut servers = three();
    let proxy = Proxy::with(&all(&servers), "  timeout: 1000\n", &["--workers", "2"]);
    let ends = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (ends, address) = (Arc::clone(&ends), proxy.process.address);
            thread::spawn(move || {
                let (mut client, mut done) = (RedisClient::connect(address), 0u64);
                while !ends.load(SeqCst) {
                    let mut bytes = Vec::new();
                    for place in 0..10 {
                        let key = format!("{number}:{place}:{}", done % 100);
                        resp::encode_command(&mut bytes, &["SET", &key, &key]);
                        resp::encode_command(&mut bytes, &["GET", &key]);
                    }
                    client.send(&bytes);
                    for place in 0..10 {
                        let key = format!("{number}:{place}:{}", done % 100);
                        let (set, get) = (client.reply().unwrap(), client.reply().unwrap());
                        let is_written = set.as_bytes() == Some(b"OK");
                        assert!(is_written || set.as_error().is_some(), "{set:?}");
                        let is_read = get.as_bytes() == Some(key.as_bytes());
                        assert!(is_read || get == Value::Null || get.as_error().is_some(), "{key}: {get:?}");
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    for round in 0..4 {
        thread::sleep(Duration::from_millis(150));
        servers[round % 3].kill();
        thread::sleep(Duration::from_millis(100));
        servers[round % 3] = redis_at(servers[round % 3].address, &[]);
    }
    ends.store(true, SeqCst);
    for client in clients {
        assert!(client.join().unwrap() > 10);
    }
}

#[test]
fn a_client_that_reads_nothing_costs_no_more_than_its_limit() {
    let server = redis();
    let proxy = Proxy::with(&[&server], "", &["--client-output-limit", "20mb"]);
    let mut client = proxy.client();
    assert_eq!(client.text(&["SETRANGE", "big", "1048575", "x"]), "1048576");
    let mut greedy = std::net::TcpStream::connect(proxy.process.address).unwrap();
    greedy.write_all(&b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(500)).unwrap();
    wait_until("it is closed", || proxy.log().contains("reads too slowly"));
    let resident = support::resident_kilobytes(proxy.process.child.id());
    assert!(resident < 120_000, "{resident} kB");
    assert_eq!(client.text(&["STRLEN", "big"]), "1048576");
}
