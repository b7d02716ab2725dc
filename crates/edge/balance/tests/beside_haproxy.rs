//! The farm's choices beside those of the installed HAProxy: same servers, same requests, same sequence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a helper does not find fails the test"
)]

mod beside;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use balance::{
    Algorithm, Farm, FarmConfig, HashConfig, HashFunction, HashType, Hasher, Pick, Request, Rng, ServerConfig,
    ServerId, UriOptions, WeightChange,
};

use beside::{Beside, Case, haproxy_is_installed, take_messages};

/// What a client sends.
#[derive(Clone, Debug)]
struct Stimulus {
    source: IpAddr,
    uri: String,
    header: Option<String>,
    body: Option<String>,
}

impl Stimulus {
    fn plain() -> Self {
        Self { source: IpAddr::V4(Ipv4Addr::LOCALHOST), uri: "/".to_owned(), header: None, body: None }
    }

    fn uri(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::plain() }
    }

    fn source(source: IpAddr) -> Self {
        Self { source, ..Self::plain() }
    }

    fn header(value: impl Into<String>) -> Self {
        Self { header: Some(value.into()), ..Self::plain() }
    }

    fn bytes(&self) -> Vec<u8> {
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let authority = self.uri.split_once("://").map_or("h", |(_, rest)| rest.split('/').next().unwrap());
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: {authority}\r\n", self.uri);
        if let Some(value) = &self.header {
            text += &format!("X-Key: {value}\r\n");
        }
        if let Some(body) = &self.body {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        text += self.body.as_deref().unwrap_or_default();
        text.into_bytes()
    }

    /// The key as the edge would compute it.
    fn key(&self, algorithm: &Algorithm, hasher: Hasher) -> Option<u32> {
        match algorithm {
            Algorithm::Source => Some(hasher.source(self.source)),
            Algorithm::Uri(options) => Some(hasher.uri(self.uri.as_bytes(), options)),
            Algorithm::UrlParam { name, .. } => hasher
                .url_param(self.uri.as_bytes(), name)
                .or_else(|| hasher.body_param(self.body.as_ref()?.as_bytes(), name)),
            Algorithm::Header { use_domain_only, .. } => {
                hasher.header(self.header.as_ref()?.as_bytes(), *use_domain_only)
            }
            _ => None,
        }
    }
}

fn servers(weights: &[u32]) -> Vec<ServerConfig> {
    weights
        .iter()
        .enumerate()
        .map(|(index, &weight)| ServerConfig { name: format!("s{}", index + 1), weight, ..ServerConfig::default() })
        .collect()
}

fn farm_config(name: &str, algorithm: Algorithm) -> FarmConfig {
    FarmConfig { name: name.to_owned(), algorithm, ..FarmConfig::default() }
}

/// A farm of the case, and both ways to ask for a server.
struct Pair<'a> {
    beside: &'a Beside,
    farm: Farm<usize>,
    name: String,
    now_ms: u64,
}

impl<'a> Pair<'a> {
    fn new(beside: &'a Beside, case: &Case) -> Self {
        let farm = Farm::new(case.farm.clone(), case.servers.clone(), 0);
        Self { beside, farm, name: case.farm.name.clone(), now_ms: 0 }
    }

    fn request(&self, stimulus: &Stimulus) -> Request {
        let key = stimulus.key(&self.farm.config().algorithm, self.farm.hasher());
        Request { key, ..Request::default() }
    }

    fn name_of(&self, server: ServerId) -> String {
        self.farm.server_config(server).unwrap().name.clone()
    }

    /// One request after another: asks both.
    fn both(&mut self, stimulus: &Stimulus) -> (String, String) {
        let theirs = self.beside.ask(&self.name, stimulus.source, &stimulus.bytes());
        self.farm.stream_enters();
        let request = self.request(stimulus);
        let Pick::Assigned(server) = self.farm.pick(&request, self.now_ms, || 0) else {
            panic!("{}: the farm has no server for {stimulus:?}", self.name)
        };
        self.farm.release(server, self.now_ms);
        self.farm.stream_leaves();
        (theirs, self.name_of(server))
    }

    /// Sends a sequence and compares it as a whole, so that a difference shows its context.
    fn compare(&mut self, stimuli: &[Stimulus]) {
        let (theirs, ours): (Vec<_>, Vec<_>) = stimuli.iter().map(|stimulus| self.both(stimulus)).unzip();
        assert_eq!(ours.join(" "), theirs.join(" "), "{}: ours is left, HAProxy's right", self.name);
    }

    /// An administrative command for both.
    fn set_weight(&mut self, server: usize, weight: &str) {
        let id = ServerId::new(server);
        let theirs = self.beside.command(&format!("set weight {}/{} {weight}", self.name, self.name_of(id)));
        let ours = WeightChange::parse(weight).and_then(|change| self.farm.set_weight(id, change, self.now_ms));
        assert_eq!(ours.map_err(|error| error.to_string()).err().unwrap_or_default(), theirs.trim(), "{weight}");
    }

    fn set_state(&mut self, server: usize, state: &str) {
        let id = ServerId::new(server);
        self.beside.command(&format!("set server {}/{} state {state}", self.name, self.name_of(id)));
        match state {
            "maint" => self.farm.set_maint(id, self.now_ms),
            "drain" => self.farm.set_drain(id, self.now_ms),
            _ => self.farm.set_ready(id, self.now_ms),
        }
    }

    /// Compares what both statistics say.
    fn compare_stats(&mut self) {
        let stats = self.beside.stats(&self.name);
        for id in self.farm.servers() {
            let name = self.name_of(id);
            let ours = self.farm.server_stats(id, self.now_ms).unwrap();
            let theirs = |field: &str| stats[&name][field].clone();
            let context = format!("{}/{name}", self.name);
            assert_eq!(ours.status.to_string(), theirs("status"), "{context} status");
            assert_eq!(ours.weight.to_string(), theirs("weight"), "{context} weight");
            assert_eq!(ours.user_weight.to_string(), theirs("uweight"), "{context} uweight");
            assert_eq!(ours.chosen.to_string(), theirs("lbtot"), "{context} lbtot");
            assert_eq!(ours.served.to_string(), theirs("scur"), "{context} scur");
            assert_eq!(ours.queued.to_string(), theirs("qcur"), "{context} qcur");
            assert_eq!(ours.queue_max.to_string(), theirs("qmax"), "{context} qmax");
            assert_eq!(ours.number.to_string(), theirs("sid"), "{context} sid");
        }
        let ours = self.farm.backend_stats(self.now_ms);
        let theirs = |field: &str| stats["BACKEND"][field].clone();
        assert_eq!(ours.active.to_string(), theirs("act"), "{} act", self.name);
        assert_eq!(ours.backup.to_string(), theirs("bck"), "{} bck", self.name);
        assert_eq!(ours.weight.to_string(), theirs("weight"), "{} weight", self.name);
        assert_eq!(ours.chosen.to_string(), theirs("lbtot"), "{} lbtot", self.name);
        assert_eq!(ours.went_down.to_string(), theirs("chkdown"), "{} chkdown", self.name);
        assert_eq!(if ours.is_up { "UP" } else { "DOWN" }, theirs("status"), "{} status", self.name);
    }
}

const WEIGHT_SETS: &[&[u32]] =
    &[&[1, 1], &[1, 1, 1], &[3, 2, 1], &[5, 1, 1], &[10, 20, 30], &[256, 1], &[100, 99, 7, 3], &[1, 0, 2], &[13]];

#[test]
fn turns_follow_the_weights() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRr, Algorithm::LeastConn, Algorithm::First] {
        for (number, weights) in WEIGHT_SETS.iter().enumerate() {
            let name = format!("{}-{number}", algorithm.name());
            cases.push(Case::new(farm_config(&name, algorithm.clone()), servers(weights)));
        }
    }
    let beside = Beside::start("turns", &cases);
    for case in &cases {
        let mut pair = Pair::new(&beside, case);
        pair.compare(&vec![Stimulus::plain(); 100]);
        pair.compare_stats();
    }
}

#[test]
fn turns_follow_changes_of_weight_and_state() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRr, Algorithm::LeastConn, Algorithm::First] {
        for seed in 0..4 {
            for allbackups in [false, true] {
                let name = format!("{}-{seed}-{allbackups}", algorithm.name());
                let mut servers = servers(&[3, 7, 1, 20, 5, 2]);
                for server in servers.iter_mut().skip(4) {
                    server.backup = true;
                }
                let farm = FarmConfig { allbackups, ..farm_config(&name, algorithm.clone()) };
                cases.push(Case::new(farm, servers));
            }
        }
    }
    let beside = Beside::start("changes", &cases);
    for (seed, case) in cases.iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let mut pair = Pair::new(&beside, case);
        for _ in 0..60 {
            let server = rng.next_u32() as usize % case.servers.len();
            match rng.next_u32() % 8 {
                0 => pair.set_weight(server, &(rng.next_u32() % 30).to_string()),
                1 => pair.set_weight(server, ["0%", "50%", "100%", "250%"][rng.next_u32() as usize % 4]),
                2 => pair.set_state(server, "maint"),
                3 => pair.set_state(server, "drain"),
                _ => pair.set_state(server, "ready"),
            }
            if pair.farm.usable() > 0 {
                let count = rng.next_u32() as usize % 12;
                pair.compare(&vec![Stimulus::plain(); count]);
            }
            pair.compare_stats();
        }
        beside.compare_messages(&case.farm.name, &take_messages(&mut pair.farm));
    }
}

const FUNCTIONS: [HashFunction; 4] = [HashFunction::Sdbm, HashFunction::Djb2, HashFunction::Wt6, HashFunction::Crc32];

/// Every way of hashing, over servers of unequal weights, ids among them.
fn hash_cases(prefix: &str, algorithm: &Algorithm) -> Vec<Case> {
    let mut cases = Vec::new();
    for hash_type in [HashType::MapBased, HashType::Consistent] {
        for function in FUNCTIONS {
            for avalanche in [false, true] {
                let name = format!("{prefix}-{hash_type:?}-{function:?}-{avalanche}");
                let mut servers = servers(&[4, 2, 7, 1, 3]);
                servers[1].id = 77;
                let hash = HashConfig { hash_type, function, avalanche };
                cases.push(Case::new(FarmConfig { hash, ..farm_config(&name, algorithm.clone()) }, servers));
            }
        }
    }
    cases
}

#[test]
fn hashes_choose_the_same_servers() {
    if !haproxy_is_installed() {
        return;
    }
    let mut rng = Rng::new(7);
    let sources: Vec<Stimulus> = (0..60)
        .map(|number| {
            Stimulus::source(match number % 3 {
                0 => IpAddr::V4(Ipv4Addr::from(0x7f00_0000 | (rng.next_u32() & 0xff_ffff))),
                1 => IpAddr::V4(Ipv4Addr::from(rng.next_u32())),
                _ => IpAddr::V6(Ipv6Addr::from((u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))),
            })
        })
        .collect();
    let mut uris = vec![
        "/".to_owned(),
        "/?".to_owned(),
        "/a/b/c/d/e".to_owned(),
        "//double//slash".to_owned(),
        "*".to_owned(),
        "http://example.com".to_owned(),
        "http://example.com/".to_owned(),
        "https://example.com/a/b/c?d=/e".to_owned(),
    ];
    uris.extend((0..50).map(|_| {
        let mut uri = String::new();
        for _ in 0..rng.next_u32() % 5 {
            uri += &format!("/d{}", rng.next_u32() % 20);
        }
        format!("/{uri}/f{}?q={}&r=/{}", rng.next_u32() % 100, rng.next_u32() % 10, rng.next_u32() % 10)
    }));
    // `*` is only allowed with OPTIONS, and HAProxy adds the slash that an authority lacks.
    uris.retain(|uri| uri != "*" && uri != "http://example.com");
    let uris: Vec<Stimulus> = uris.into_iter().map(Stimulus::uri).collect();
    let mut params: Vec<Stimulus> = (0..40)
        .map(|number| match number % 5 {
            0 => Stimulus::uri(format!("/?id={}", rng.next_u32())),
            1 => Stimulus::uri(format!("/x?a=b&id={}&c=d", rng.next_u32())),
            2 => Stimulus::uri(format!("/x?aid={}&id=&c", rng.next_u32())),
            3 => Stimulus::uri("/none?i=d"),
            _ => Stimulus { body: Some(format!("a=b&id={}&c=d", rng.next_u32())), ..Stimulus::uri("/post") },
        })
        .collect();
    for body in ["id=", "id= x", "id=%41", "id=\u{e9}", "x", "", "id=a b&id=c", "xid=1&id=2"] {
        params.push(Stimulus { body: Some(body.to_owned()), ..Stimulus::uri("/post?x=y") });
    }
    let mut headers: Vec<Stimulus> = ["", "a", "a.b", "a.b.c", ".a", "a.", "a..b", "..", "www.example.com", "x.y.z:80"]
        .map(Stimulus::header)
        .to_vec();
    headers.push(Stimulus::plain());
    headers.extend((0..40).map(|_| Stimulus::header(format!("h{}.d{}.org", rng.next_u32() % 9, rng.next_u32() % 9))));
    let whole = UriOptions { whole: true, ..UriOptions::default() };
    let depth = UriOptions { depth: Some(2), ..UriOptions::default() };
    let len = UriOptions { len: Some(9), ..UriOptions::default() };
    let path_only = UriOptions { path_only: true, ..UriOptions::default() };
    let all = UriOptions { whole: true, path_only: true, depth: Some(3), len: Some(20) };
    let header = |use_domain_only| Algorithm::Header { name: b"x-key".to_vec(), use_domain_only };
    let groups: Vec<(&str, Algorithm, Vec<Stimulus>)> = vec![
        ("source", Algorithm::Source, sources),
        ("uri", Algorithm::Uri(UriOptions::default()), uris.clone()),
        ("whole", Algorithm::Uri(whole), uris.clone()),
        ("depth", Algorithm::Uri(depth), uris.clone()),
        ("len", Algorithm::Uri(len), uris.clone()),
        ("path", Algorithm::Uri(path_only), uris.clone()),
        ("all", Algorithm::Uri(all), uris),
        ("param", Algorithm::UrlParam { name: b"id".to_vec(), check_post: true }, params),
        ("header", header(false), headers.clone()),
        ("domain", header(true), headers),
    ];
    let cases: Vec<Case> = groups.iter().flat_map(|(name, algorithm, _)| hash_cases(name, algorithm)).collect();
    let stimuli: HashMap<&str, &Vec<Stimulus>> = groups.iter().map(|(name, _, stimuli)| (*name, stimuli)).collect();
    let beside = Beside::start("hashes", &cases);
    for case in &cases {
        let group = case.farm.name.split('-').next().unwrap();
        Pair::new(&beside, case).compare(stimuli[group]);
    }
}

#[test]
fn hashes_follow_changes_of_weight_and_state() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for hash_type in [HashType::MapBased, HashType::Consistent] {
        for backups in [0, 2] {
            for allbackups in [false, true] {
                let name = format!("changing-{hash_type:?}-{backups}-{allbackups}");
                let mut servers = servers(&[3, 7, 1, 20, 5, 2]);
                for server in servers.iter_mut().skip(6 - backups) {
                    server.backup = true;
                }
                let algorithm = Algorithm::Header { name: b"x-key".to_vec(), use_domain_only: false };
                let hash = HashConfig { hash_type, function: HashFunction::Sdbm, avalanche: true };
                let farm = FarmConfig { allbackups, hash, ..farm_config(&name, algorithm) };
                cases.push(Case::new(farm, servers));
            }
        }
    }
    let beside = Beside::start("hashchanges", &cases);
    for (seed, case) in cases.iter().enumerate() {
        let mut rng = Rng::new(100 + seed as u64);
        let mut pair = Pair::new(&beside, case);
        for _ in 0..80 {
            let server = rng.next_u32() as usize % case.servers.len();
            match rng.next_u32() % 8 {
                0 => pair.set_weight(server, &(rng.next_u32() % 30).to_string()),
                1 => pair.set_weight(server, ["0%", "50%", "100%", "250%"][rng.next_u32() as usize % 4]),
                2 => pair.set_state(server, "maint"),
                3 => pair.set_state(server, "drain"),
                _ => pair.set_state(server, "ready"),
            }
            // Backup servers in turn for active ones, without keys: HAProxy goes on where it was on the ring of the
            // others, and so sends requests to backup servers while there are active ones. The farm does not.
            let may_lack_keys = case.farm.hash.hash_type == HashType::MapBased || !case.servers[5].backup;
            if pair.farm.usable() > 0 {
                let stimuli: Vec<Stimulus> = (0..rng.next_u32() % 12)
                    .map(|_| match rng.next_u32() % 3 {
                        0 if may_lack_keys => Stimulus::plain(),
                        _ => Stimulus::header(format!("key{}", rng.next_u32() % 1000)),
                    })
                    .collect();
                pair.compare(&stimuli);
            }
            pair.compare_stats();
        }
        beside.compare_messages(&case.farm.name, &take_messages(&mut pair.farm));
    }
}
