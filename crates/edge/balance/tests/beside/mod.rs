//! Runs the installed HAProxy beside a farm.
//!
//! One HAProxy process serves all backends of a test. Clients and servers are unix sockets in a directory of the
//! test's own, so no port can collide; client addresses are claimed by PROXY protocol headers. The servers answer with
//! their name, or hold a request until they are told to answer.

#![allow(dead_code, reason = "each test binary uses its own part")]
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use balance::{Algorithm, Event, Farm, FarmConfig, HashFunction, HashType, ProxyType, ServerConfig};

pub const HAPROXY: &str = "/usr/sbin/haproxy";
/// How long to wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether HAProxy is there; says so if not.
pub fn haproxy_is_installed() -> bool {
    let installed = Path::new(HAPROXY).exists();
    if !installed {
        eprintln!("SKIPPED: {HAPROXY} is not installed, nothing to compare with");
    }
    installed
}

/// One backend under comparison.
pub struct Case {
    pub farm: FarmConfig,
    pub servers: Vec<ServerConfig>,
    /// More lines for the section.
    pub lines: Vec<String>,
    /// Where checks connect to, for servers that have them.
    pub addresses: Vec<String>,
}

impl Case {
    pub fn new(farm: FarmConfig, servers: Vec<ServerConfig>) -> Self {
        // Cases are written as `listen` sections.
        Self {
            farm: FarmConfig { proxy_type: ProxyType::Proxy, ..farm },
            servers,
            lines: Vec::new(),
            addresses: Vec::new(),
        }
    }
}

pub fn balance_line(algorithm: &Algorithm) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match algorithm {
        Algorithm::Random { draws } => format!("random({draws})"),
        Algorithm::Uri(options) => {
            let mut line = "uri".to_owned();
            if options.whole {
                line += " whole";
            }
            if options.path_only {
                line += " path-only";
            }
            if let Some(len) = options.len {
                write!(line, " len {len}").unwrap();
            }
            if let Some(depth) = options.depth {
                write!(line, " depth {depth}").unwrap();
            }
            line
        }
        Algorithm::UrlParam { name, check_post } => {
            format!("url_param {}{}", text(name), if *check_post { " check_post" } else { "" })
        }
        Algorithm::Header { name, use_domain_only } => {
            format!("hdr({}){}", text(name), if *use_domain_only { " use_domain_only" } else { "" })
        }
        other => other.name().to_owned(),
    }
}

fn section(case: &Case, directory: &Path) -> String {
    let farm = &case.farm;
    let mut text = format!("listen {}\n", farm.name);
    writeln!(text, "  bind unix@{}/{}.in accept-proxy", directory.display(), farm.name).unwrap();
    writeln!(text, "  balance {}", balance_line(&farm.algorithm)).unwrap();
    let hash_type = match farm.hash.hash_type {
        HashType::MapBased => "map-based",
        HashType::Consistent => "consistent",
    };
    let function = match farm.hash.function {
        HashFunction::Sdbm => "sdbm",
        HashFunction::Djb2 => "djb2",
        HashFunction::Wt6 => "wt6",
        HashFunction::Crc32 => "crc32",
        HashFunction::None => "none",
    };
    writeln!(text, "  hash-type {hash_type} {function}{}", if farm.hash.avalanche { " avalanche" } else { "" })
        .unwrap();
    if farm.hash_balance_factor > 0 {
        writeln!(text, "  hash-balance-factor {}", farm.hash_balance_factor).unwrap();
    }
    if farm.allbackups {
        text += "  option allbackups\n";
    }
    if farm.persist {
        text += "  option persist\n";
    }
    if farm.log_health_checks {
        text += "  option log-health-checks\n";
    }
    if let Some(interval) = farm.redispatch {
        writeln!(text, "  option redispatch {interval}").unwrap();
    }
    if farm.fullconn > 0 {
        writeln!(text, "  fullconn {}", farm.fullconn).unwrap();
    }
    for line in &case.lines {
        writeln!(text, "  {line}").unwrap();
    }
    for (index, server) in case.servers.iter().enumerate() {
        let address = case.addresses.get(index).cloned();
        let address = address.unwrap_or_else(|| format!("unix@{}/{}.srv", directory.display(), server.name));
        write!(text, "  server {} {address} weight {}", server.name, server.weight).unwrap();
        for (word, number) in
            [("id", server.id), ("maxconn", server.maxconn), ("minconn", server.minconn), ("maxqueue", server.maxqueue)]
        {
            if number > 0 {
                write!(text, " {word} {number}").unwrap();
            }
        }
        if server.backup {
            text += " backup";
        }
        if server.disabled {
            text += " disabled";
        }
        if server.slowstart_ms > 0 {
            write!(text, " slowstart {}ms", server.slowstart_ms).unwrap();
        }
        if let Some(track) = &server.track {
            write!(text, " track {track}").unwrap();
        }
        if let Some(check) = &server.check {
            write!(text, " check inter {} rise {} fall {}", check.inter_ms, check.rise, check.fall).unwrap();
            if let Some(fastinter) = check.fastinter_ms {
                write!(text, " fastinter {fastinter}").unwrap();
            }
            if let Some(downinter) = check.downinter_ms {
                write!(text, " downinter {downinter}").unwrap();
            }
        }
        text.push('\n');
    }
    text
}

/// The cells of a line of comma separated values.
fn csv(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

/// Leaves out how long checks took.
fn without_durations(line: &str) -> String {
    match line.split_once("check duration: ") {
        Some((before, after)) => {
            format!("{before}check duration: N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    }
}

/// Takes what the farm has said since the last time.
pub fn take_messages<W>(farm: &mut Farm<W>) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(event) = farm.poll_event() {
        if let Event::Message(message) = event {
            messages.push(message.console_text);
        }
    }
    messages
}

/// A request that arrived at a server.
pub struct Arrival {
    /// The name of the server.
    pub server: String,
    /// The request, up to the end of its headers.
    pub head: String,
    /// Drop it to let the server answer.
    pub hold: Sender<()>,
}

/// A running HAProxy and the servers behind it.
pub struct Beside {
    child: Child,
    directory: PathBuf,
    pub arrivals: Receiver<Arrival>,
    stderr: Arc<Mutex<String>>,
}

impl Beside {
    pub fn start(test: &str, cases: &[Case]) -> Self {
        Self::start_with(test, cases, "")
    }

    /// The same, with one more line in the global section.
    pub fn start_with(test: &str, cases: &[Case], global: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("balance-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let mut text = format!(
            "global\n  nbthread 1\n  {global}\n  stats socket {0}/admin level admin\n  stats timeout 1h\ndefaults\n  mode http\n  \
             timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n  timeout queue 60s\n  option httpclose\n  \
             http-reuse never\n",
            directory.display()
        );
        let (arrived, arrivals) = channel();
        let mut names: Vec<&str> = Vec::new();
        for case in cases {
            text += &section(case, &directory);
            names.extend(case.servers.iter().map(|server| server.name.as_str()));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            serve(name.to_owned(), &directory, arrived.clone());
        }
        let config = directory.join("haproxy.cfg");
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new(HAPROXY)
            .args(["-db", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (sink, source) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                let mut sink = sink.lock().unwrap();
                sink.push_str(&line);
                sink.push('\n');
            }
        });
        let beside = Self { child, directory, arrivals, stderr };
        let since = Instant::now();
        while UnixStream::connect(beside.directory.join("admin")).is_err() {
            assert!(since.elapsed() < PATIENCE, "haproxy did not start:\n{}", beside.stderr());
            thread::sleep(Duration::from_millis(5));
        }
        beside
    }

    /// What HAProxy has printed so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Compares what the farm has said about a backend with what HAProxy has printed about it.
    pub fn compare_messages(&self, backend: &str, ours: &[String]) {
        self.compare_messages_but(backend, ours, |line| line);
    }

    /// The same, after something that may differ was taken out of both.
    pub fn compare_messages_but(&self, backend: &str, ours: &[String], tidy: fn(String) -> String) {
        let (server, quoted) = (format!("{backend}/"), format!("'{backend}'"));
        let since = Instant::now();
        loop {
            let theirs: Vec<String> = self
                .stderr()
                .lines()
                .filter(|line| line.contains(&server) || line.contains(&quoted))
                .map(|line| line.split_once(") : ").unwrap().1.to_owned())
                .map(|line| tidy(without_durations(&line)))
                .collect();
            if theirs.len() >= ours.len() || since.elapsed() > PATIENCE {
                let ours: Vec<String> = ours.iter().map(|line| tidy(without_durations(line))).collect();
                assert_eq!(ours.join("\n"), theirs.join("\n"), "ours is left, HAProxy's right");
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a command to the stats socket.
    pub fn command(&self, command: &str) -> String {
        let mut socket = UnixStream::connect(self.directory.join("admin")).unwrap();
        socket.write_all(command.as_bytes()).unwrap();
        socket.write_all(b"\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The statistics of a backend's section: a map of fields for each server, and one for `BACKEND`.
    pub fn stats(&self, proxy: &str) -> HashMap<String, HashMap<String, String>> {
        let text = self.command(&format!("show stat {proxy} -1 -1"));
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
        lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let cells = csv(line);
                let fields = header.iter().zip(&cells).map(|(name, cell)| ((*name).to_owned(), cell.clone()));
                (cells[1].clone(), fields.collect())
            })
            .collect()
    }

    /// Waits until a field of `show stat` has this value.
    pub fn wait_for_stat(&self, proxy: &str, server: &str, field: &str, wanted: &str) {
        let since = Instant::now();
        loop {
            let found = self.stats(proxy)[server][field].clone();
            if found == wanted {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{proxy}/{server} {field} is {found} and not {wanted}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Opens a connection from this address and sends a request.
    pub fn send(&self, backend: &str, source: IpAddr, request: &[u8]) -> UnixStream {
        let mut client = UnixStream::connect(self.directory.join(format!("{backend}.in"))).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (family, destination) = if source.is_ipv4() { ("TCP4", "127.0.0.1") } else { ("TCP6", "::1") };
        let mut bytes = format!("PROXY {family} {source} {destination} 1000 80\r\n").into_bytes();
        bytes.extend_from_slice(request);
        client.write_all(&bytes).unwrap();
        client
    }

    /// Waits for a request to arrive at a server.
    pub fn arrival(&self) -> Arrival {
        self.arrivals.recv_timeout(PATIENCE).expect("no request arrived at a server")
    }

    /// Sends a request that no server will see, and returns the answer.
    pub fn refused(&self, backend: &str, source: IpAddr, request: &[u8]) -> String {
        let mut answer = Vec::new();
        self.send(backend, source, request).read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request, lets it be answered, and returns the name of the server.
    pub fn ask(&self, backend: &str, source: IpAddr, request: &[u8]) -> String {
        let mut client = self.send(backend, source, request);
        let Ok(arrival) = self.arrivals.recv_timeout(PATIENCE) else {
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer);
            panic!("{}\nwas answered by\n{}", String::from_utf8_lossy(request), String::from_utf8_lossy(&answer));
        };
        drop(arrival.hold);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        arrival.server
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("haproxy printed:\n{}", self.stderr());
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A server that reports each request and answers with its name when it is allowed to.
fn serve(name: String, directory: &Path, arrived: Sender<Arrival>) {
    let listener = UnixListener::bind(directory.join(format!("{name}.srv"))).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (name, arrived) = (name.clone(), arrived.clone());
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut buffer = [0; 4096];
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => return,
                        Ok(count) => head.extend_from_slice(&buffer[..count]),
                    }
                }
                let (hold, held) = channel();
                let text = String::from_utf8_lossy(&head).into_owned();
                if arrived.send(Arrival { server: name.clone(), head: text, hold }).is_err() {
                    return;
                }
                let _ = held.recv();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut head);
            });
        }
    });
}
