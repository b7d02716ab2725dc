//! The farm under load beside the installed HAProxy: requests are held at the servers, so that limits, queues,
//! priorities, redispatching and load-dependent choices show.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a helper does not find fails the test"
)]

mod beside;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use balance::{
    Algorithm, Claim, Farm, FarmConfig, Forced, HashConfig, HashFunction, HashType, Pick, Request, Rng, ServerConfig,
    ServerId, Ticket, UriOptions, WeightChange,
};

use beside::{Arrival, Beside, Case, haproxy_is_installed, take_messages};

const PATIENCE: Duration = Duration::from_secs(20);

/// Where a request is.
enum Place {
    At(ServerId, Arrival),
    Waiting(Ticket),
}

struct Client {
    stream: UnixStream,
    place: Place,
    request: Request,
}

struct Load<'a> {
    beside: &'a Beside,
    farm: Farm<u64>,
    name: String,
    now_ms: u64,
    clients: BTreeMap<u64, Client>,
    /// Arrivals that came before their turn.
    early: HashMap<u64, Arrival>,
    next: u64,
    log: Vec<String>,
}

impl<'a> Load<'a> {
    fn new(beside: &'a Beside, case: &Case) -> Self {
        Self {
            beside,
            farm: Farm::new(case.farm.clone(), case.servers.clone(), 0),
            name: case.farm.name.clone(),
            now_ms: 0,
            clients: BTreeMap::new(),
            early: HashMap::new(),
            next: 1,
            log: Vec::new(),
        }
    }

    /// The arrival of this client's request.
    fn arrival(&mut self, client: u64) -> Arrival {
        let since = Instant::now();
        loop {
            if let Some(arrival) = self.early.remove(&client) {
                return arrival;
            }
            let Ok(arrival) = self.beside.arrivals.recv_timeout(Duration::from_secs(10)) else {
                panic!("request {client} did not arrive at a server\n{}", self.log.join("\n"))
            };
            let number = arrival.head.lines().find_map(|line| line.strip_prefix("x-client: ")).unwrap();
            self.early.insert(number.parse().unwrap(), arrival);
            assert!(since.elapsed() < PATIENCE);
        }
    }

    fn expect_at(&mut self, client: u64, server: ServerId) -> Place {
        let arrival = self.arrival(client);
        let ours = &self.farm.server_config(server).unwrap().name;
        self.log.push(format!("  {client}: ours {ours}, HAProxy's {}", arrival.server));
        assert_eq!(*ours, arrival.server, "{} request {client}, ours left\n{}", self.name, self.log.join("\n"));
        Place::At(server, arrival)
    }

    /// Carries out a decision of the farm and checks that HAProxy took the same one.
    fn follow(&mut self, client: u64, stream: UnixStream, request: Request, pick: Pick) {
        self.log.push(format!("  {client}: {pick:?}"));
        let place = match pick {
            Pick::Assigned(server) => self.expect_at(client, server),
            Pick::Queued(ticket) => Place::Waiting(ticket),
            Pick::NoServer | Pick::QueueFull(_) => {
                let mut answer = Vec::new();
                let mut stream = stream;
                let read = stream.read_to_end(&mut answer);
                let answer = String::from_utf8_lossy(&answer).into_owned();
                assert!(answer.starts_with("HTTP/1.1 503"), "{client} {read:?} {answer}\n{}", self.log.join("\n"));
                self.farm.stream_leaves();
                return;
            }
        };
        self.clients.insert(client, Client { stream, place, request });
    }

    fn open(&mut self, uri: &str, request: Request, headers: &str) {
        self.now_ms += 1;
        // No two requests in the same millisecond: between a server's queue and the backend's, that would be a draw.
        thread::sleep(Duration::from_millis(2));
        let client = self.next;
        self.next += 1;
        let key = match &self.farm.config().algorithm {
            Algorithm::Uri(options) => Some(self.farm.hasher().uri(uri.as_bytes(), options)),
            _ => None,
        };
        let request = Request { key, ..request };
        self.log.push(format!("open {client} {uri} {headers:?}"));
        let bytes = format!("GET {uri} HTTP/1.1\r\nHost: h\r\nX-Client: {client}\r\n{headers}\r\n");
        let stream = self.beside.send(&self.name, IpAddr::V4(Ipv4Addr::LOCALHOST), bytes.as_bytes());
        self.farm.stream_enters();
        let pick = self.farm.pick(&request, self.now_ms, || client);
        self.follow(client, stream, request, pick);
        self.settle();
    }

    /// Lets a request be answered.
    fn finish(&mut self, client: u64) {
        self.now_ms += 1;
        self.log.push(format!("finish {client}"));
        let Some(Client { mut stream, place: Place::At(server, arrival), .. }) = self.clients.remove(&client) else {
            panic!("{client} is not at a server")
        };
        drop(arrival.hold);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        self.farm.release(server, self.now_ms);
        self.farm.stream_leaves();
        self.settle();
    }

    /// A client goes away while it waits.
    fn abort(&mut self, client: u64) {
        self.now_ms += 1;
        self.log.push(format!("abort {client}"));
        let Some(Client { stream, place: Place::Waiting(ticket), .. }) = self.clients.remove(&client) else {
            panic!("{client} does not wait")
        };
        drop(stream);
        self.farm.cancel(ticket, self.now_ms);
        self.farm.stream_leaves();
        self.settle();
    }

    /// Follows everyone whose wait has ended, and then compares the numbers.
    fn settle(&mut self) {
        while let Some(client) = self.farm.poll_wake() {
            let Some(Client { stream, place: Place::Waiting(ticket), request }) = self.clients.remove(&client) else {
                panic!("{client} was woken but does not wait")
            };
            match self.farm.claim(ticket) {
                Claim::Granted { server, .. } => {
                    let place = self.expect_at(client, server);
                    self.clients.insert(client, Client { stream, place, request });
                }
                Claim::Redispatch { from, .. } => {
                    let request = Request { avoid: Some(from), forced: None, ..request };
                    let pick = self.farm.pick(&request, self.now_ms, || client);
                    self.follow(client, stream, request, pick);
                }
                other => panic!("{other:?}"),
            }
        }
        let since = Instant::now();
        loop {
            let (ours, theirs) = (self.our_numbers(), self.their_numbers());
            if ours == theirs {
                return;
            }
            if since.elapsed() > PATIENCE {
                assert_eq!(ours, theirs, "{}\n{}", self.name, self.log.join("\n"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn our_numbers(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .farm
            .servers()
            .map(|id| {
                let stats = self.farm.server_stats(id, self.now_ms).unwrap();
                format!(
                    "{} {} scur {} smax {} qcur {} qmax {} lbtot {} wretr {} wredis {}",
                    stats.name,
                    stats.status,
                    stats.served,
                    stats.served_max,
                    stats.queued,
                    stats.queue_max,
                    stats.chosen,
                    stats.retries,
                    stats.redispatches
                )
            })
            .collect();
        let stats = self.farm.backend_stats(self.now_ms);
        lines.push(format!(
            "BACKEND scur {} smax {} qcur {} qmax {} lbtot {} wretr {} wredis {} act {} bck {}",
            stats.streams,
            stats.streams_max,
            stats.queued,
            stats.queue_max,
            stats.chosen,
            stats.retries,
            stats.redispatches,
            stats.active,
            stats.backup
        ));
        lines
    }

    fn their_numbers(&self) -> Vec<String> {
        let stats = self.beside.stats(&self.name);
        let line = |name: &str, fields: &str| {
            let mut text = name.to_owned();
            for field in fields.split(' ') {
                text += &if field == "status" {
                    format!(" {}", stats[name][field])
                } else {
                    format!(" {field} {}", stats[name][field])
                };
            }
            text
        };
        let mut lines: Vec<String> = self
            .farm
            .servers()
            .map(|id| {
                let name = &self.farm.server_config(id).unwrap().name;
                line(name, "status scur smax qcur qmax lbtot wretr wredis")
            })
            .collect();
        lines.push(line("BACKEND", "scur smax qcur qmax lbtot wretr wredis act bck"));
        lines
    }

    fn set_state(&mut self, server: ServerId, state: &str) {
        let name = self.farm.server_config(server).unwrap().name.clone();
        self.log.push(format!("{name} {state}"));
        self.beside.command(&format!("set server {}/{name} state {state}", self.name));
        match state {
            "maint" => self.farm.set_maint(server, self.now_ms),
            "drain" => self.farm.set_drain(server, self.now_ms),
            _ => self.farm.set_ready(server, self.now_ms),
        }
        self.settle();
    }

    fn set_weight(&mut self, server: ServerId, weight: u32) {
        let name = self.farm.server_config(server).unwrap().name.clone();
        self.log.push(format!("{name} weight {weight}"));
        let theirs = self.beside.command(&format!("set weight {}/{name} {weight}", self.name));
        let ours = self.farm.set_weight(server, WeightChange::Absolute(i64::from(weight)), self.now_ms);
        assert_eq!(ours.is_ok(), theirs.trim().is_empty(), "{ours:?} {theirs}");
        self.settle();
    }

    fn set_maxconn(&mut self, server: ServerId, maxconn: u32) {
        let name = self.farm.server_config(server).unwrap().name.clone();
        self.log.push(format!("{name} maxconn {maxconn}"));
        self.beside.command(&format!("set maxconn server {}/{name} {maxconn}", self.name));
        self.farm.set_maxconn(server, maxconn, self.now_ms);
        self.settle();
    }

    /// A client at a server, or one that waits, at random.
    fn some_client(&self, rng: &mut Rng, waiting: bool) -> Option<u64> {
        let numbers: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| matches!(client.place, Place::Waiting(_)) == waiting)
            .map(|(number, _)| *number)
            .collect();
        (!numbers.is_empty()).then(|| numbers[rng.next_u32() as usize % numbers.len()])
    }
}

/// What the random walk may do besides opening and finishing.
#[derive(Clone, Copy, Default)]
struct Walk {
    steps: u32,
    most_clients: usize,
    aborts: bool,
    priorities: bool,
    forces: bool,
    states: bool,
    weights: bool,
    limits: bool,
}

fn walk(load: &mut Load<'_>, seed: u64, walk: Walk) {
    let mut rng = Rng::new(seed);
    let servers: Vec<ServerId> = load.farm.servers().collect();
    for _ in 0..walk.steps {
        let server = servers[rng.next_u32() as usize % servers.len()];
        // NOTE: when a server comes up, HAProxy 2.6 gives it requests of the backend's queue without counting them
        // against its `maxconn`. The farm counts them, so the two part there, and states only change while nobody waits.
        let walk = Walk { states: walk.states && load.farm.queued() == 0, ..walk };
        match rng.next_u32() % 20 {
            0 if walk.states => load.set_state(server, "maint"),
            1 if walk.states => load.set_state(server, "drain"),
            2..=4 if walk.states => load.set_state(server, "ready"),
            5 if walk.weights => load.set_weight(server, 1 + rng.next_u32() % 20),
            6 if walk.limits => load.set_maxconn(server, 1 + rng.next_u32() % 4),
            7 if walk.aborts => {
                if let Some(client) = load.some_client(&mut rng, true) {
                    load.abort(client);
                }
            }
            8..=12 => {
                if let Some(client) = load.some_client(&mut rng, false) {
                    load.finish(client);
                }
            }
            _ if load.clients.len() >= walk.most_clients => {
                if let Some(client) = load.some_client(&mut rng, false) {
                    load.finish(client);
                }
            }
            _ => {
                let mut request = Request::default();
                let mut headers = String::new();
                if walk.priorities {
                    request.priority_class = [-5000, -3, 0, 0, 0, 7][rng.next_u32() as usize % 6];
                    request.priority_offset = [-60_000, 0, 0, 60_000][rng.next_u32() as usize % 4];
                    headers +=
                        &format!("X-Class: {}\r\nX-Offset: {}\r\n", request.priority_class, request.priority_offset);
                }
                if walk.forces && rng.next_u32().is_multiple_of(2) {
                    request.forced = Some(Forced { server, even_if_down: false });
                    headers += &format!("X-Force: {}\r\n", load.farm.server_config(server).unwrap().name);
                }
                load.open(&format!("/{}", rng.next_u32() % 30), request, &headers);
            }
        }
    }
    // Down to nothing: every ticket must come out.
    while let Some(client) = load.some_client(&mut rng, false) {
        load.finish(client);
    }
    assert!(load.clients.is_empty(), "{} wait forever", load.clients.len());
}

/// Servers with these weights; `set` gives them their limits.
fn servers(weights: &[u32], set: impl Fn(usize, &mut ServerConfig)) -> Vec<ServerConfig> {
    weights
        .iter()
        .enumerate()
        .map(|(index, &weight)| {
            let mut server = ServerConfig { name: format!("s{}", index + 1), weight, ..ServerConfig::default() };
            set(index, &mut server);
            server
        })
        .collect()
}

fn case(name: &str, algorithm: Algorithm, servers: Vec<ServerConfig>) -> Case {
    Case::new(FarmConfig { name: name.to_owned(), algorithm, ..FarmConfig::default() }, servers)
}

fn uri() -> Algorithm {
    Algorithm::Uri(UriOptions::default())
}

/// Runs a walk over each case.
fn compare(test: &str, cases: Vec<(Case, Walk)>) {
    let (cases, walks): (Vec<Case>, Vec<Walk>) = cases.into_iter().unzip();
    let beside = Beside::start(test, &cases);
    for (seed, (case, plan)) in cases.iter().zip(walks).enumerate() {
        let mut load = Load::new(&beside, case);
        load.log.push(format!("{} seed {seed}", case.farm.name));
        walk(&mut load, seed as u64, plan);
        beside.compare_messages(&case.farm.name, &take_messages(&mut load.farm));
    }
}

#[test]
fn limits_and_the_backend_queue() {
    if !haproxy_is_installed() {
        return;
    }
    let plan = Walk { steps: 150, most_clients: 16, ..Walk::default() };
    let mut cases = Vec::new();
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRr, Algorithm::First, Algorithm::LeastConn] {
        let limited = servers(&[3, 1, 2], |index, server| server.maxconn = index as u32 + 2);
        cases.push((case(&format!("{}-limited", algorithm.name()), algorithm.clone(), limited), plan));
        let dynamic = servers(&[1, 4, 1], |index, server| {
            server.maxconn = 6;
            server.minconn = index as u32 + 1;
        });
        let mut dynamic = case(&format!("{}-dynamic", algorithm.name()), algorithm.clone(), dynamic);
        dynamic.farm.fullconn = 14;
        cases.push((dynamic, plan));
        let free = servers(&[5, 1, 3], |_, _| {});
        cases.push((case(&format!("{}-free", algorithm.name()), algorithm.clone(), free), plan));
        let mut mixed = case(
            &format!("{}-mixed", algorithm.name()),
            algorithm.clone(),
            servers(&[5, 1, 3], |_, server| {
                server.maxconn = 2;
                server.maxqueue = 2;
            }),
        );
        mixed.lines.push("option abortonclose".to_owned());
        cases.push((mixed, Walk { aborts: true, limits: true, weights: algorithm != Algorithm::StaticRr, ..plan }));
    }
    compare("limits", cases);
}

#[test]
fn server_queues_of_hashed_requests() {
    if !haproxy_is_installed() {
        return;
    }
    let plan = Walk { steps: 150, most_clients: 20, aborts: true, ..Walk::default() };
    let mut cases = Vec::new();
    for hash_type in [HashType::MapBased, HashType::Consistent] {
        for maxqueue in [0, 2] {
            let limited = servers(&[3, 1, 2], |_, server| {
                server.maxconn = 3;
                server.maxqueue = maxqueue;
            });
            let mut case = case(&format!("hash-{hash_type:?}-{maxqueue}"), uri(), limited);
            case.farm.hash = HashConfig { hash_type, function: HashFunction::Sdbm, avalanche: true };
            case.lines.push("option abortonclose".to_owned());
            cases.push((case, Walk { limits: true, ..plan }));
        }
    }
    compare("hashed", cases);
}

#[test]
fn bounded_loads_of_consistent_hashes() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for factor in [101, 125, 150, 300] {
        for (number, weights) in [&[1, 1, 1, 1][..], &[5, 1, 3], &[10, 20]].into_iter().enumerate() {
            let mut case = case(&format!("bounded-{factor}-{number}"), uri(), servers(weights, |_, _| {}));
            case.farm.hash =
                HashConfig { hash_type: HashType::Consistent, function: HashFunction::Sdbm, avalanche: true };
            case.farm.hash_balance_factor = factor;
            cases.push((case, Walk { steps: 120, most_clients: 20, ..Walk::default() }));
        }
    }
    compare("bounded", cases);
}

#[test]
fn priorities_order_the_queues() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for (algorithm, forces) in [(Algorithm::RoundRobin, false), (Algorithm::RoundRobin, true), (uri(), false)] {
        let limited = servers(&[1, 1], |_, server| server.maxconn = 1);
        let mut case = case(&format!("priority-{}-{forces}", algorithm.name()), algorithm, limited);
        case.lines.push("http-request set-priority-class req.hdr(x-class)".to_owned());
        case.lines.push("http-request set-priority-offset req.hdr(x-offset)".to_owned());
        case.lines.push("use-server %[req.hdr(x-force)] if { req.hdr(x-force) -m found }".to_owned());
        cases.push((case, Walk { steps: 200, most_clients: 16, priorities: true, forces, ..Walk::default() }));
    }
    compare("priorities", cases);
}

#[test]
fn wanted_servers_and_changes_of_state() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for redispatch in [None, Some(-1)] {
        for persist in [false, true] {
            for maxqueue in [0, 1] {
                for algorithm in [Algorithm::RoundRobin, Algorithm::LeastConn, uri()] {
                    let limited = servers(&[3, 1, 2, 1, 1], |index, server| {
                        server.maxconn = 2;
                        server.maxqueue = maxqueue;
                        server.backup = index >= 3;
                    });
                    let name = format!("wanted-{redispatch:?}-{persist}-{maxqueue}-{}", algorithm.name())
                        .replace(['(', ')'], "");
                    let mut case = case(&name, algorithm, limited);
                    case.farm.redispatch = redispatch;
                    case.farm.persist = persist;
                    case.farm.allbackups = maxqueue == 1;
                    case.lines.push("use-server %[req.hdr(x-force)] if { req.hdr(x-force) -m found }".to_owned());
                    cases.push((
                        case,
                        Walk { steps: 120, most_clients: 14, forces: true, states: true, ..Walk::default() },
                    ));
                }
            }
        }
    }
    compare("wanted", cases);
}
