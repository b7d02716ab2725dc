//! What must hold for any sequence of requests, answers, failures and commands.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a helper does not find fails the test"
)]

use std::collections::{BTreeMap, HashSet};

use balance::{
    Algorithm, CheckConfig, CheckKind, CheckReport, CheckStatus, Claim, Event, Farm, FarmConfig, Forced, HashConfig,
    HashFunction, HashType, Hasher, Observation, Observe, OnError, Pick, Request, RetryOn, ServerConfig, ServerId,
    Ticket, UriOptions, WeightChange,
};
use proptest::prelude::*;

fn algorithms() -> impl Strategy<Value = (Algorithm, HashType)> {
    prop::sample::select(vec![
        (Algorithm::RoundRobin, HashType::MapBased),
        (Algorithm::StaticRr, HashType::MapBased),
        (Algorithm::LeastConn, HashType::MapBased),
        (Algorithm::First, HashType::MapBased),
        (Algorithm::Random { draws: 2 }, HashType::MapBased),
        (Algorithm::Uri(UriOptions::default()), HashType::MapBased),
        (Algorithm::Uri(UriOptions::default()), HashType::Consistent),
    ])
}

#[derive(Clone, Debug)]
enum Step {
    Open { key: Option<u32>, forced: Option<(usize, bool)>, class: i32, offset: i32 },
    Finish(usize),
    Cancel(usize),
    Maint(usize),
    Drain(usize),
    Ready(usize),
    Weight(usize, i64),
    MaxConn(usize, u32),
    Check(usize, CheckStatus),
    Observe(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let statuses = prop::sample::select(vec![
        CheckStatus::Layer7Ok,
        CheckStatus::Layer7Conditional,
        CheckStatus::Layer4Connection,
    ]);
    let step = prop_oneof![
        12 => (
            prop::option::of(any::<u32>()),
            prop::option::weighted(0.3, (0usize..8, any::<bool>())),
            -3i32..3,
            -100_000i32..100_000,
        ).prop_map(|(key, forced, class, offset)| Step::Open { key, forced, class, offset }),
        9 => any::<prop::sample::Index>().prop_map(|index| Step::Finish(index.index(1 << 16))),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::Cancel(index.index(1 << 16))),
        1 => (0usize..8).prop_map(Step::Maint),
        1 => (0usize..8).prop_map(Step::Drain),
        3 => (0usize..8).prop_map(Step::Ready),
        1 => (0usize..8, 0i64..300).prop_map(|(server, weight)| Step::Weight(server, weight)),
        1 => (0usize..8, 0u32..5).prop_map(|(server, maxconn)| Step::MaxConn(server, maxconn)),
        4 => (0usize..8, statuses).prop_map(|(server, status)| Step::Check(server, status)),
        2 => (0usize..8).prop_map(Step::Observe),
        3 => (0u64..3_000_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

/// A farm, and what its users know.
struct World {
    farm: Farm<u64>,
    now_ms: u64,
    next: u64,
    /// Slots held, by request.
    held: BTreeMap<u64, ServerId>,
    waiting: BTreeMap<u64, (Ticket, Request)>,
    /// Limits never grow on their own, so that whoever waits for the backend waits for good reason.
    steady: bool,
}

impl World {
    fn server(&self, index: usize) -> ServerId {
        ServerId::new(index % self.farm.servers().count())
    }

    fn request(&mut self, number: u64, request: Request) {
        match self.farm.pick(&request, self.now_ms, || number) {
            Pick::Assigned(server) => {
                let limit = self.farm.limit(server, self.now_ms);
                assert!(limit.is_none_or(|limit| self.farm.served(server) <= limit));
                self.hold(number, server);
            }
            Pick::Queued(ticket) => {
                assert_eq!(self.farm.claim(ticket), Claim::Waiting);
                self.waiting.insert(number, (ticket, request));
            }
            Pick::NoServer => {
                assert_eq!(self.farm.usable(), 0);
                self.farm.stream_leaves();
            }
            Pick::QueueFull(server) => {
                let limit = self.farm.server_config(server).unwrap().maxqueue;
                assert!(limit > 0 && self.farm.server_queued(server) >= limit);
                self.farm.stream_leaves();
            }
        }
    }

    fn hold(&mut self, number: u64, server: ServerId) {
        let served = self.farm.served(server);
        let maxconn = self.farm.server_stats(server, self.now_ms).unwrap().maxconn;
        assert!(maxconn == 0 || served <= maxconn, "{served} of {maxconn}");
        assert!(self.held.insert(number, server).is_none());
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Open { key, forced, class, offset } => {
                let forced = forced.map(|(server, even_if_down)| Forced { server: self.server(server), even_if_down });
                self.farm.stream_enters();
                self.next += 1;
                let request = Request { key, avoid: None, forced, priority_class: class, priority_offset: offset };
                self.request(self.next, request);
            }
            Step::Finish(index) => {
                if let Some(number) = self.held.keys().nth(index % self.held.len().max(1)).copied() {
                    let server = self.held.remove(&number).unwrap();
                    self.farm.release(server, self.now_ms);
                    self.farm.stream_leaves();
                }
            }
            Step::Cancel(index) => {
                if let Some(number) = self.waiting.keys().nth(index % self.waiting.len().max(1)).copied() {
                    let (ticket, _) = self.waiting.remove(&number).unwrap();
                    self.farm.cancel(ticket, self.now_ms);
                    assert_eq!(self.farm.claim(ticket), Claim::Unknown);
                    self.farm.stream_leaves();
                }
            }
            Step::Maint(server) => self.farm.set_maint(self.server(server), self.now_ms),
            Step::Drain(server) => self.farm.set_drain(self.server(server), self.now_ms),
            Step::Ready(server) => self.farm.set_ready(self.server(server), self.now_ms),
            Step::Weight(server, weight) => {
                let _ = self.farm.set_weight(self.server(server), WeightChange::Absolute(weight), self.now_ms);
            }
            Step::MaxConn(server, maxconn) => self.farm.set_maxconn(self.server(server), maxconn, self.now_ms),
            Step::Check(server, status) => {
                let server = self.server(server);
                if self.farm.check_begin(server, CheckKind::Health, self.now_ms) {
                    let report = CheckReport { status, code: 0, info: String::new() };
                    self.farm.check_end(server, report, self.now_ms);
                    assert!(self.farm.check_due_ms(server, CheckKind::Health).unwrap() > self.now_ms);
                }
            }
            Step::Observe(server) => {
                self.farm.observe(self.server(server), Observation::ConnectionError, self.now_ms);
            }
            Step::Wait(ms) => {
                let until = self.now_ms + ms;
                while let Some(due) = self.farm.poll_timeout_ms().filter(|&due| due <= until) {
                    self.now_ms = self.now_ms.max(due);
                    self.farm.handle_timeout(self.now_ms);
                }
                self.now_ms = until;
            }
        }
        self.follow();
    }

    /// Everyone who was woken acts, some late.
    fn follow(&mut self) {
        let mut woken = HashSet::new();
        while let Some(number) = self.farm.poll_wake() {
            assert!(woken.insert(number), "{number} was woken twice");
            // Given up in the meantime.
            let Some((ticket, request)) = self.waiting.remove(&number) else { continue };
            match self.farm.claim(ticket) {
                Claim::Granted { server, .. } => self.hold(number, server),
                Claim::Redispatch { from, .. } => {
                    self.request(number, Request { avoid: Some(from), forced: None, ..request });
                }
                other => panic!("{number} was woken for {other:?}"),
            }
            assert_eq!(self.farm.claim(ticket), Claim::Unknown);
        }
        while let Some(event) = self.farm.poll_event() {
            if let Event::Message(message) = event {
                assert!(message.text.ends_with(['.', '!']), "{}", message.text);
            }
        }
        self.check();
    }

    fn check(&self) {
        let farm = &self.farm;
        for id in farm.servers() {
            let held = self.held.values().filter(|&&server| server == id).count();
            assert_eq!(farm.served(id) as usize, held);
            let stats = farm.server_stats(id, self.now_ms).unwrap();
            assert!(stats.weight <= 256);
            assert!(stats.throttle.is_none_or(|throttle| throttle <= 100));
        }
        assert_eq!(farm.queued_total() as usize, self.waiting.len());
        assert_eq!(farm.streams() as usize, self.held.len() + self.waiting.len());
        let usable = |backup: bool| {
            let is_counted = |id: &ServerId| farm.is_usable(*id) && farm.server_config(*id).unwrap().backup == backup;
            farm.servers().filter(is_counted).count()
        };
        assert_eq!(farm.active() as usize, usable(false));
        assert_eq!(farm.backup() as usize, usable(true));
        assert_eq!(farm.backend_stats(self.now_ms).is_up, farm.usable() > 0);
        for (ticket, _) in self.waiting.values() {
            assert_eq!(farm.clone().claim(*ticket), Claim::Waiting);
        }
        if self.steady && farm.queued() > 0 && farm.active() > 0 {
            for id in farm.servers().filter(|&id| farm.is_usable(id) && !farm.server_config(id).unwrap().backup) {
                let limit = farm.limit(id, self.now_ms);
                assert!(limit.is_some_and(|limit| farm.served(id) >= limit), "someone waits and {id:?} is free");
            }
        }
    }
}

prop_compose! {
    fn servers()(servers in prop::collection::vec(
        (1u32..20, prop::bool::weighted(0.25), 0u32..4, 0u32..3, 0u64..4, prop::bool::weighted(0.2), any::<u8>()),
        1..8,
    )) -> Vec<ServerConfig> {
        servers
            .into_iter()
            .enumerate()
            .map(|(index, (weight, backup, maxconn, maxqueue, slowstart, disabled, bits))| ServerConfig {
                name: format!("s{index}"),
                weight,
                backup,
                maxconn,
                minconn: if bits & 1 == 0 { 0 } else { maxconn / 2 },
                maxqueue,
                slowstart_ms: slowstart * 1_500,
                disabled,
                check: (bits & 2 == 0).then(|| CheckConfig {
                    rise: u32::from(bits >> 4 & 3),
                    fall: u32::from(bits >> 6 & 3),
                    ..CheckConfig::default()
                }),
                observe: if bits & 4 == 0 { Observe::Layer4 } else { Observe::Layer7 },
                error_limit: 2,
                on_error: if bits & 8 == 0 { OnError::MarkDown } else { OnError::FailCheck },
                ..ServerConfig::default()
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_passed_and_no_ticket_is_lost(
        (algorithm, hash_type) in algorithms(),
        servers in servers(),
        steps in steps(),
        redispatch in prop::option::of(-2i32..3),
        (allbackups, persist, start) in (any::<bool>(), any::<bool>(), any::<u32>()),
    ) {
        let is_random = matches!(algorithm, Algorithm::Random { .. });
        let is_dynamic = servers.iter().any(|server| server.minconn > 0 || server.slowstart_ms > 0);
        let steady = !is_random && !is_dynamic;
        let config = FarmConfig {
            name: "bk".to_owned(),
            algorithm,
            hash: HashConfig { hash_type, ..HashConfig::default() },
            allbackups,
            persist,
            redispatch,
            fullconn: 10,
            spread_checks: 20,
            ..FarmConfig::default()
        };
        let now_ms = u64::from(start);
        let farm = Farm::new(config, servers, now_ms);
        let mut world =
            World { farm, now_ms, next: 0, held: BTreeMap::new(), waiting: BTreeMap::new(), steady };
        for step in steps {
            world.run(step);
        }
        // In the end everyone gets out, if there is a server to go to.
        for index in 0..8 {
            world.run(Step::Ready(index));
            // Static algorithms take no other weight than none and all.
            let _ = world.farm.set_weight(world.server(index), WeightChange::Percent(100), world.now_ms);
            world.run(Step::Weight(index, 5));
            for _ in 0..8 {
                world.run(Step::Check(index, CheckStatus::Layer7Ok));
            }
        }
        while !world.held.is_empty() {
            world.run(Step::Finish(0));
        }
        if is_random {
            // A draw of full servers may queue a request while others are free; the next answer frees it.
            world.run(Step::Open { key: None, forced: None, class: 0, offset: 0 });
            while !world.held.is_empty() {
                world.run(Step::Finish(0));
            }
        }
        prop_assert!(world.waiting.is_empty(), "{} wait for ever", world.waiting.len());
    }

    /// Over as many turns as the weights sum up to, in the units in which they count, each server gets its own:
    /// exactly in `static-rr`, nearly in `roundrobin`.
    #[test]
    fn turns_follow_the_weights_over_cycles(weights in prop::collection::vec(1u32..40, 1..8), is_static in any::<bool>()) {
        let servers: Vec<ServerConfig> =
            weights.iter().map(|&weight| ServerConfig { weight, ..ServerConfig::default() }).collect();
        let algorithm = if is_static { Algorithm::StaticRr } else { Algorithm::RoundRobin };
        let mut farm: Farm<()> = Farm::new(FarmConfig { algorithm, ..FarmConfig::default() }, servers, 0);
        let scale = if is_static { 1 } else { 16 };
        for cycle in 1..=4 {
            for _ in 0..weights.iter().sum::<u32>() * scale {
                let Pick::Assigned(server) = farm.pick(&Request::default(), 0, || ()) else { panic!() };
                farm.release(server, 0);
            }
            for (index, &weight) in weights.iter().enumerate() {
                let chosen = farm.server_stats(ServerId::new(index), 0).unwrap().chosen;
                let expected = u64::from(weight * scale * cycle);
                let tolerance = if is_static { 0 } else { 8 + expected / 50 };
                prop_assert!(chosen.abs_diff(expected) <= tolerance);
            }
        }
    }

    /// A server that goes takes only its own keys along, and has them again when it is back.
    #[test]
    fn consistent_hashes_move_few_keys(
        weights in prop::collection::vec(1u32..20, 2..8),
        leaver in any::<prop::sample::Index>(),
        by_weight in any::<bool>(),
    ) {
        let servers: Vec<ServerConfig> =
            weights.iter().map(|&weight| ServerConfig { weight, ..ServerConfig::default() }).collect();
        let config = FarmConfig {
            algorithm: Algorithm::Source,
            hash: HashConfig { hash_type: HashType::Consistent, avalanche: true, ..HashConfig::default() },
            ..FarmConfig::default()
        };
        let mut farm: Farm<()> = Farm::new(config, servers, 0);
        let leaver = ServerId::new(leaver.index(weights.len()));
        let choices = |farm: &mut Farm<()>| -> Vec<ServerId> {
            (0..500u32)
                .map(|number| {
                    let key = Some(number.wrapping_mul(0x9e37_79b9));
                    let Pick::Assigned(server) = farm.pick(&Request { key, ..Request::default() }, 0, || ()) else {
                        panic!()
                    };
                    farm.release(server, 0);
                    server
                })
                .collect()
        };
        let before = choices(&mut farm);
        if by_weight {
            farm.set_weight(leaver, WeightChange::Absolute(0), 0).unwrap();
        } else {
            farm.set_maint(leaver, 0);
        }
        for (before, without) in before.iter().zip(choices(&mut farm)) {
            prop_assert_ne!(without, leaver);
            prop_assert!(*before == leaver || *before == without);
        }
        farm.set_ready(leaver, 0);
        farm.set_weight(leaver, WeightChange::Percent(100), 0).unwrap();
        prop_assert_eq!(choices(&mut farm), before);
    }

    /// With a balance factor no server holds more than its share of it.
    #[test]
    fn bounded_loads_are_bounded(
        weights in prop::collection::vec(1u32..20, 1..8),
        factor in 101u32..400,
        keys in prop::collection::vec(0u32..3, 1..200),
    ) {
        let servers: Vec<ServerConfig> =
            weights.iter().map(|&weight| ServerConfig { weight, ..ServerConfig::default() }).collect();
        let config = FarmConfig {
            algorithm: Algorithm::Source,
            hash: HashConfig { hash_type: HashType::Consistent, avalanche: true, ..HashConfig::default() },
            hash_balance_factor: factor,
            ..FarmConfig::default()
        };
        let mut farm: Farm<()> = Farm::new(config, servers, 0);
        let total: u32 = weights.iter().sum();
        for (count, key) in keys.into_iter().enumerate() {
            let Pick::Assigned(server) =
                farm.pick(&Request { key: Some(key), ..Request::default() }, 0, || ()) else { panic!() };
            let slots = ((count as u32 + 1) * factor).div_ceil(100);
            let share = f64::from(slots) * f64::from(weights[server.index()]) / f64::from(total);
            prop_assert!(f64::from(farm.served(server)) <= share.ceil().max(1.0));
        }
    }

    #[test]
    fn snapshots_keep_what_the_configuration_left_open(servers in servers(), steps in steps()) {
        let config = FarmConfig { name: "bk".to_owned(), ..FarmConfig::default() };
        let farm = Farm::new(config.clone(), servers.clone(), 0);
        let mut world =
            World { farm, now_ms: 0, next: 0, held: BTreeMap::new(), waiting: BTreeMap::new(), steady: false };
        for step in steps {
            world.run(step);
        }
        // Past all slow starts.
        world.run(Step::Wait(60_000));
        let now_ms = world.now_ms;
        let mut restored: Farm<u64> = Farm::new(config, servers, now_ms);
        for id in world.farm.servers() {
            let snapshot = world.farm.snapshot(id, now_ms).unwrap();
            restored.restore(id, &snapshot, now_ms);
            let events = std::iter::from_fn(|| restored.poll_event()).any(|event| matches!(event, Event::Message(_)));
            prop_assert!(!events, "said something");
        }
        for id in world.farm.servers() {
            let (ours, theirs) =
                (restored.server_stats(id, now_ms).unwrap(), world.farm.server_stats(id, now_ms).unwrap());
            prop_assert_eq!(ours.admin, theirs.admin);
            prop_assert_eq!(ours.state, theirs.state);
            prop_assert_eq!(ours.user_weight, theirs.user_weight);
            // The weight in force of a server that is out is that of the time before.
            prop_assert!(!restored.is_usable(id) || ours.weight == theirs.weight);
            prop_assert_eq!(ours.maxconn, theirs.maxconn);
            prop_assert_eq!(ours.last_change_s, theirs.last_change_s);
            prop_assert_eq!(ours.down_time_s, theirs.down_time_s);
        }
        prop_assert_eq!(restored.active(), world.farm.active());
        prop_assert_eq!(restored.backup(), world.farm.backup());
    }

    #[test]
    fn any_bytes_can_be_hashed(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        name in prop::collection::vec(any::<u8>(), 0..4),
        whole in any::<bool>(),
        path_only in any::<bool>(),
        len in prop::option::of(any::<u32>()),
        depth in prop::option::of(any::<u32>()),
        avalanche in any::<bool>(),
    ) {
        for function in
            [HashFunction::Sdbm, HashFunction::Djb2, HashFunction::Wt6, HashFunction::Crc32, HashFunction::None]
        {
            let hasher = Hasher::new(HashConfig { function, avalanche, ..HashConfig::default() });
            hasher.uri(&bytes, &UriOptions { whole, path_only, len, depth });
            hasher.url_param(&bytes, &name);
            hasher.body_param(&bytes, &name);
            hasher.header(&bytes, whole);
        }
    }

    #[test]
    fn any_words_can_be_read(text in "[-+0-9% ]{0,24}|\\PC{0,8}") {
        let _ = WeightChange::parse(&text);
        let _ = RetryOn::DEFAULT.with_word(&text);
    }
}
