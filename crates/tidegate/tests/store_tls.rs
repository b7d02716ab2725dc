//! TLS with a store's clients, masters and replicas, beside Debian's redis-cli and redis-server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};
use support::{
    Authority, Folder, PATIENCE, Redis, RedisClient, SecureWire, Store, Wanted, assert_same, field, follow,
    free_address, wait_for_link, wait_until, wait_within,
};

/// Certificates as files of settings name them.
struct Certificates {
    authority: Authority,
}

impl Certificates {
    fn new() -> Self {
        let authority = Authority::new();
        authority.certify("server.pem", &Wanted::default());
        authority.certify("client.pem", &Wanted { names: &["client"], serial: 8, ..Wanted::default() });
        Self { authority }
    }

    fn path(&self, name: &str) -> String {
        self.authority.path(name).display().to_string()
    }

    /// The settings of a server that shows `server.pem` and trusts `ca.pem`.
    fn settings(&self, port: u16) -> Vec<String> {
        let (server, ca) = (self.path("server.pem"), self.path("ca.pem"));
        let pairs = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", server.clone()),
            ("--tls-key-file", server),
            ("--tls-ca-cert-file", ca),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// A client that shows its certificate.
    fn client(&self, address: SocketAddr) -> Client {
        self.client_showing(address, Some("client.pem")).unwrap()
    }

    fn client_showing(&self, address: SocketAddr, file: Option<&str>) -> std::io::Result<Client> {
        let mut settings = self.authority.client();
        if let Some(file) = file {
            settings = settings.showing(&self.authority.path(file));
        }
        let wire = SecureWire::connect(&settings.config(), address, "localhost")?;
        Ok(Client { wire, parser: ReplyParser::new(), buffer: Vec::new() })
    }

    fn redis_cli(&self, address: SocketAddr, words: &[&str]) -> Output {
        let (client, ca) = (self.path("client.pem"), self.path("ca.pem"));
        Command::new("redis-cli")
            .args([
                "-h",
                &address.ip().to_string(),
                "-p",
                &address.port().to_string(),
                "--tls",
                "--cacert",
                &ca,
                "--cert",
                &client,
                "--key",
                &client,
            ])
            .args(words)
            .output()
            .unwrap()
    }
}

/// A client that speaks Redis' protocol over TLS.
struct Client {
    wire: SecureWire,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl Client {
    fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.wire.send(&bytes).unwrap();
    }

    fn try_reply(&mut self) -> std::io::Result<Value> {
        let limits = ReplyLimits::default();
        loop {
            match self.parser.parse(&self.buffer, &limits).unwrap() {
                ReplyProgress::Complete { consumed, value } => {
                    self.buffer.drain(..consumed);
                    return Ok(value);
                }
                ReplyProgress::Incomplete { consumed, .. } => drop(self.buffer.drain(..consumed)),
            }
            let mut piece = vec![0; 256 << 10];
            match self.wire.0.read(&mut piece)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                len => self.buffer.extend_from_slice(&piece[..len]),
            }
        }
    }

    fn command(&mut self, words: &[&[u8]]) -> Value {
        self.send(words);
        self.try_reply().unwrap()
    }

    fn text(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        text_of(&self.command(&words))
    }
}

fn text_of(value: &Value) -> String {
    if let Some(values) = value.as_slice() {
        return values.iter().map(text_of).collect::<Vec<_>>().join(" ");
    }
    let bytes = value.as_error().or_else(|| value.as_bytes());
    match (bytes, value.as_integer()) {
        (Some(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => format!("{value:?}"),
    }
}

/// A store with TLS at a port beside that without.
struct SecureStore {
    store: Store,
    address: SocketAddr,
}

impl SecureStore {
    fn start(certificates: &Certificates, more: &[&str]) -> Self {
        let address = free_address();
        let folder = Arc::new(Folder::new());
        let log = folder.0.join("store.log").display().to_string();
        let settings = certificates.settings(address.port());
        let mut words: Vec<&str> = settings.iter().map(String::as_str).collect();
        words.extend(["--logfile", &log]);
        words.extend(more);
        // Both ports have one host.
        let store = Store::start_at(free_address(), folder, &words);
        let address = SocketAddr::new(store.address.ip(), address.port());
        Self { store, address }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.store.folder.0.join("store.log")).unwrap_or_default()
    }

    fn wait_for_log(&self, wanted: &str) {
        wait_until(&format!("the log has '{wanted}'"), || self.log().contains(wanted));
    }

    fn plain(&self) -> RedisClient {
        self.store.client()
    }
}

fn set(client: &mut RedisClient, words: &[&str]) -> String {
    let words: Vec<&str> = ["CONFIG", "SET"].iter().chain(words).copied().collect();
    text_of(&client.command(&words))
}

#[test]
fn redis_cli_speaks_tls_and_clients_need_what_the_setting_says() {
    let certificates = Certificates::new();
    let store = SecureStore::start(&certificates, &[]);
    let port = store.address.port();
    let output = certificates.redis_cli(store.address, &["SET", "a", "1"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "OK", "{output:?}");
    let output = certificates.redis_cli(store.address, &["CONFIG", "GET", "tls-port"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("tls-port\n{port}\n"));
    // In TLS 1.3 a client learns that it is refused when it reads.
    let refused = |file| {
        let client = certificates.client_showing(store.address, file);
        client.is_err() || client.is_ok_and(|mut client| client.try_reply().is_err())
    };
    assert!(refused(None));
    store.wait_for_log("Error accepting a client connection: the client showed no certificate (addr=127.0.0.1:");
    let other = Authority::new();
    other.certify("other.pem", &Wanted::default());
    std::fs::copy(other.path("other.pem"), certificates.authority.path("other.pem")).unwrap();
    certificates.authority.certify("expired.pem", &Wanted { until: 2021, ..Wanted::default() });
    for (file, reason) in [("other.pem", "certificate signature failure"), ("expired.pem", "certificate has expired")] {
        assert!(refused(Some(file)), "{file}");
        store.wait_for_log(&format!("Error accepting a client connection: {reason}"));
    }
    let mut plain = store.plain();
    assert_eq!(set(&mut plain, &["tls-auth-clients", "optional"]), "OK");
    assert!(!refused_now(&certificates, store.address, None) && refused(Some("other.pem")));
    assert_eq!(set(&mut plain, &["tls-auth-clients", "no"]), "OK");
    assert!(!refused_now(&certificates, store.address, None));
    assert_eq!(certificates.client(store.address).text(&["GET", "a"]), "1");
    // What speaks no TLS is told of, and ends.
    let mut text = TcpStream::connect(store.address).unwrap();
    text.set_read_timeout(Some(PATIENCE)).unwrap();
    text.write_all(b"PING\r\nPING\r\n").unwrap();
    let mut end = Vec::new();
    let _ = text.read_to_end(&mut end);
    store.wait_for_log("Error accepting a client connection: what came is no TLS");
    // The same of what speaks TLS where nobody else does.
    assert!(certificates.client_showing(store.store.address, None).is_err());
    store.wait_for_log("Error accepting a client connection: it speaks TLS, and this port does not");
    assert!(plain.text(&["INFO", "server"]).contains(&format!("tcp_port:{}\r\n", store.store.address.port())));
}

fn refused_now(certificates: &Certificates, address: SocketAddr, file: Option<&str>) -> bool {
    certificates.client_showing(address, file).map(|mut client| client.text(&["PING"])).ok().as_deref() != Some("PONG")
}

#[test]
fn everything_works_over_it_with_threads_and_without() {
    let certificates = Certificates::new();
    for threads in ["1", "2", "4"] {
        let store = SecureStore::start(&certificates, &["--io-threads", threads, "--maxmemory", "1gb"]);
        let mut client = certificates.client(store.address);
        // Pipelines: all commands in one piece, and in pieces that end anywhere.
        const COUNT: usize = 5_000;
        let mut bytes = Vec::new();
        for number in 0..COUNT {
            resp::encode_command(&mut bytes, &[b"SET".as_slice(), format!("key:{number}").as_bytes(), b"value"]);
        }
        for piece in bytes.chunks(77_777) {
            client.wire.send(piece).unwrap();
        }
        for _ in 0..COUNT {
            assert_eq!(text_of(&client.try_reply().unwrap()), "OK");
        }
        // Large values both ways.
        let large: Vec<u8> =
            (0..48 << 20_u32).map(|place: u32| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert_eq!(text_of(&client.command(&[b"SET", b"large", &large])), "OK");
        assert!(client.command(&[b"GET", b"large"]).as_bytes() == Some(large.as_slice()));
        assert_eq!(client.text(&["DBSIZE"]), (COUNT + 1).to_string());
        // Whoever waits, listens or watches.
        let mut waiting = certificates.client(store.address);
        waiting.send(&[b"BLPOP", b"list", b"0"]);
        let mut listening = certificates.client(store.address);
        assert_eq!(listening.text(&["SUBSCRIBE", "news"]), "subscribe news 1");
        let mut watching = certificates.client(store.address);
        assert_eq!(watching.text(&["MONITOR"]), "OK");
        assert_eq!(client.text(&["LPUSH", "list", "element"]), "1");
        assert_eq!(text_of(&waiting.try_reply().unwrap()), "list element");
        assert_eq!(client.text(&["PUBLISH", "news", "hello"]), "1");
        assert_eq!(text_of(&listening.try_reply().unwrap()), "message news hello");
        wait_until("the watcher sees the message", || text_of(&watching.try_reply().unwrap()).contains("\"PUBLISH\""));
        // What clients are told of each other.
        let list = client.text(&["CLIENT", "LIST"]);
        assert_eq!(list.lines().filter(|line| line.contains(&format!("laddr={}", store.address))).count(), 4, "{list}");
        assert!(client.text(&["CLIENT", "KILL", "TYPE", "pubsub"]).parse::<u32>().unwrap() >= 1);
        assert!(listening.try_reply().is_err());
        // The end of what a client sends comes with its last commands.
        let mut last = certificates.client(store.address);
        last.send(&[b"INCR", b"counter"]);
        last.wire.0.conn.send_close_notify();
        last.wire.0.flush().unwrap();
        assert_eq!(text_of(&last.try_reply().unwrap()), "1");
        assert!(last.try_reply().is_err());
        drop((waiting, watching, last));
        wait_until("those who went are gone", || client.text(&["CLIENT", "LIST"]).lines().count() == 1);
    }
}

#[test]
fn who_does_not_read_is_bounded_and_who_breaks_a_record_ends() {
    let certificates = Certificates::new();
    let limit = "normal 1mb 0 0";
    for threads in ["1", "3"] {
        let store =
            SecureStore::start(&certificates, &["--io-threads", threads, "--client-output-buffer-limit", limit]);
        let mut client = certificates.client(store.address);
        assert_eq!(text_of(&client.command(&[b"SET", b"large", &vec![b'x'; 512 << 10]])), "OK");
        let mut slow = certificates.client(store.address);
        assert_eq!(slow.text(&["CLIENT", "SETNAME", "slow"]), "OK");
        let mut bytes = Vec::new();
        for _ in 0..200 {
            resp::encode_command(&mut bytes, &["GET", "large"]);
        }
        slow.wire.send(&bytes).unwrap();
        wait_until("the slow one is closed", || !client.text(&["CLIENT", "LIST"]).contains("name=slow"));
        // A record that was changed on its way, and one that is cut off.
        let broken = certificates.client(store.address);
        let mut socket = broken.wire.0.sock.try_clone().unwrap();
        socket.write_all(&[23, 3, 3, 0, 40]).unwrap();
        socket.write_all(&[7; 40]).unwrap();
        let mut end = Vec::new();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.read_to_end(&mut end).unwrap();
        let cut = certificates.client(store.address);
        cut.wire.0.sock.try_clone().unwrap().write_all(&[23, 3, 3, 1, 0, 9]).unwrap();
        drop(cut);
        wait_until("both have gone", || client.text(&["CLIENT", "LIST"]).lines().count() == 1);
        assert_eq!(client.text(&["PING"]), "PONG");
    }
}

#[test]
fn certificates_and_ports_change_while_it_runs() {
    let certificates = Certificates::new();
    let store = SecureStore::start(&certificates, &[]);
    let mut plain = store.plain();
    let mut before = certificates.client(store.address);
    // The same name, another authority: those who are there stay.
    let other = Certificates::new();
    for file in ["server.pem", "ca.pem"] {
        std::fs::copy(other.path(file), certificates.path(file)).unwrap();
    }
    assert_eq!(set(&mut plain, &["tls-cert-file", &certificates.path("server.pem")]), "OK");
    assert!(certificates.client_showing(store.address, Some("client.pem")).is_err(), "it is of the former authority");
    assert_eq!(other.client(store.address).text(&["PING"]), "PONG");
    assert_eq!(before.text(&["PING"]), "PONG");
    // What cannot be used changes nothing.
    let failed = "ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - Unable to update TLS configuration. \
                  Check server logs.";
    assert_eq!(set(&mut plain, &["tls-cert-file", "/nowhere/a.pem"]), failed);
    store.wait_for_log("'tls-cert-file': cannot read /nowhere/a.pem");
    assert!(set(&mut plain, &["tls-protocols", "TLSv1.2 SSLv9"]).contains("'tls-protocols') - Unable to update"));
    assert!(set(&mut plain, &["tls-ca-cert-file", ""]).contains("'tls-ca-cert-file') - Unable to update"));
    store.wait_for_log("Either tls-ca-cert-file or tls-ca-cert-dir must be specified");
    assert_eq!(other.client(store.address).text(&["PING"]), "PONG");
    // The version is that of the setting.
    assert_eq!(set(&mut plain, &["tls-protocols", "TLSv1.2"]), "OK");
    let secure = other.client(store.address);
    assert_eq!(secure.wire.0.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    // Ports come, go and change places.
    let next = free_address().port().to_string();
    assert_eq!(set(&mut plain, &["tls-port", &next]), "OK");
    wait_until("the former port is closed", || TcpStream::connect(store.address).is_err());
    let at_next = SocketAddr::new(store.address.ip(), next.parse().unwrap());
    assert_eq!(other.client(at_next).text(&["PING"]), "PONG");
    let plain_port = store.store.address.port().to_string();
    let taken = set(&mut plain, &["tls-port", &plain_port]);
    assert!(taken.contains("'tls-port') - Unable to listen on this port. Check server logs."), "{taken}");
    assert_eq!(set(&mut plain, &["port", &next, "tls-port", &plain_port]), "OK");
    assert_eq!(other.client(store.store.address).text(&["PING"]), "PONG");
    let mut plain = RedisClient::connect(at_next);
    assert_eq!(plain.text(&["PING"]), "PONG");
    assert_eq!(set(&mut plain, &["port", "0"]), "OK");
    let mut only = other.client(store.store.address);
    assert!(only.text(&["INFO", "server"]).contains(&format!("tcp_port:{plain_port}\r\n")));
    assert_eq!(only.text(&["CONFIG", "SET", "tls-port", "0", "port", &next]), "OK");
    let mut plain = RedisClient::connect(at_next);
    assert_eq!(plain.text(&["PING"]), "PONG");
    // What changes while nobody speaks TLS is read when somebody does again.
    certificates.authority.certify("server.pem", &Wanted::default());
    assert_eq!(set(&mut plain, &["tls-cert-file", &certificates.path("server.pem")]), "OK");
    assert_eq!(set(&mut plain, &["tls-auth-clients", "no", "tls-port", &plain_port]), "OK");
    assert!(!refused_now(&certificates, store.store.address, None));
}

#[test]
fn replicas_and_masters_speak_it_with_redis_both_ways() {
    let certificates = Certificates::new();
    let replicating = ["--tls-replication", "yes", "--enable-debug-command", "yes"];
    let first = SecureStore::start(&certificates, &replicating);
    let (second, third) = (SecureStore::start(&certificates, &replicating), free_address());
    let settings = certificates.settings(third.port());
    let mut words: Vec<&str> = settings.iter().map(String::as_str).collect();
    words.extend(replicating);
    let redis = Redis::start(&words);
    let of_redis = SocketAddr::new(redis.address.ip(), third.port());
    let (mut store, mut other, mut real) = (first.plain(), second.plain(), redis.client());
    for number in 0..3_000 {
        store.text(&["SET", &format!("key:{number}"), &"v".repeat(number)]);
    }
    // A store and a Redis follow a store.
    follow(&mut other, first.address);
    follow(&mut real, first.address);
    wait_for_link(&mut other);
    wait_for_link(&mut real);
    store.text(&["SET", "late", "1"]);
    assert_same(&mut store, &mut other);
    assert_same(&mut store, &mut real);
    assert_eq!(store.text(&["WAIT", "2", "10000"]), "2");
    // They give the port where others reach them as they reach it.
    let info = store.text(&["INFO", "replication"]);
    for port in [second.address.port(), third.port()] {
        assert!(info.contains(&format!("port={port},state=online")), "{info}");
    }
    // Commands of a replica's clients go to the master over it.
    assert_eq!(set(&mut other, &["replica-forward", "yes"]), "OK");
    wait_until("the master answers through the replica", || {
        text_of(&other.command(&["INCR", "forwarded"])).parse::<u32>().is_ok()
    });
    // A store follows Redis.
    assert_eq!(real.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    real.text(&["SET", "of-redis", "1"]);
    follow(&mut store, of_redis);
    wait_for_link(&mut store);
    wait_until("it has what Redis has", || store.text(&["GET", "of-redis"]) == "1");
    assert_same(&mut real, &mut store);
    // A master that nobody vouches for is not followed, and the log says why.
    let strange = Certificates::new();
    let stranger = SecureStore::start(&strange, &[]);
    follow(&mut store, stranger.address);
    first.wait_for_log("is down: no TLS with");
    first.wait_for_log("certificate signature failure");
    assert_eq!(field(&mut store, "master_link_status"), "down");
}

#[test]
fn migrate_speaks_it_where_tls_cluster_says_so() {
    let certificates = Certificates::new();
    let from = SecureStore::start(&certificates, &["--tls-cluster", "yes"]);
    let to = SecureStore::start(&certificates, &[]);
    let (mut source, mut target) = (from.plain(), to.plain());
    source.text(&["SET", "key", "value"]);
    let (host, port) = (to.address.ip().to_string(), to.address.port().to_string());
    assert_eq!(text_of(&source.command(&["MIGRATE", &host, &port, "key", "0", "5000"])), "OK");
    assert_eq!(target.text(&["GET", "key"]), "value");
}

#[test]
fn a_start_says_what_is_wrong_and_what_to_do() {
    let certificates = Certificates::new();
    let (server, ca) = (certificates.path("server.pem"), certificates.path("ca.pem"));
    let all = ["--tls-port", "7999", "--tls-cert-file", &server, "--tls-key-file", &server, "--tls-ca-cert-file", &ca];
    let cases: [(&[&str], &str); 5] = [
        (&["--tls-port", "7999"], "'tls-cert-file' is not set"),
        (&all[..6], "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        (&[&all[..], &["--tls-cert-file", &ca]].concat(), "certificate and private key do not belong together"),
        (&[&all[..], &["--cluster-enabled", "yes"]].concat(), "'tls-port': a node of a cluster has no TLS yet"),
        (&[&all[..], &["--tls-protocols", "TLSv1.1"]].concat(), "write \"TLSv1.2 TLSv1.3\""),
    ];
    for (words, expected) in cases {
        let mut store = Store::spawn(free_address(), Arc::new(Folder::new()), words);
        assert_ne!(store.wait_end(), 0, "{words:?}");
        wait_until("it says why", || store.output().contains(expected));
    }
}

#[test]
fn a_key_may_be_under_a_password() {
    let certificates = Certificates::new();
    let server = certificates.path("server.pem");
    let key = certificates.path("encrypted.key");
    let made = Command::new("openssl")
        .args(["pkey", "-in", &server, "-aes256", "-passout", "pass:secret", "-out", &key])
        .status();
    assert!(made.unwrap().success() && Path::new(&key).exists());
    let store = SecureStore::start(&certificates, &["--tls-key-file", &key, "--tls-key-file-pass", "secret"]);
    assert_eq!(certificates.client(store.address).text(&["PING"]), "PONG");
    let mut plain = store.plain();
    assert!(set(&mut plain, &["tls-key-file-pass", "other"]).contains("Unable to update TLS configuration"));
    store.wait_for_log("the password of its private key is wrong ('tls-key-file-pass')");
}

/// It takes as long as handshakes may.
#[test]
#[ignore = "takes over ten seconds; make test-store-tls"]
fn who_does_not_negotiate_is_closed_in_time() {
    let certificates = Certificates::new();
    for threads in ["1", "3"] {
        let store = SecureStore::start(&certificates, &["--io-threads", threads]);
        let mut client = certificates.client(store.address);
        let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(store.address).unwrap()).collect();
        silent.iter().take(10).for_each(|mut stream| stream.write_all(&[22, 3, 1, 0, 200, 1]).unwrap());
        wait_until("they are clients", || client.text(&["CLIENT", "LIST"]).lines().count() == 21);
        wait_within(PATIENCE * 3, "they are closed", || client.text(&["CLIENT", "LIST"]).lines().count() == 1);
        store.wait_for_log("the TLS handshake took too long");
    }
}
