//! Farms in virtual time.

mod agents;
mod windows;

use super::*;
use crate::agent::AgentLine;
use crate::config::{CheckConfig, Observe, OnError};
use crate::event::{Event, LogLevel, ShutdownReason};
use crate::health::{AgentReport, CheckKind, CheckReport, CheckStatus, Observation};
use crate::{Algorithm, HashConfig, HashType, UriOptions};

fn server(name: &str) -> ServerConfig {
    ServerConfig { name: name.to_owned(), ..ServerConfig::default() }
}

fn farm(config: FarmConfig, servers: Vec<ServerConfig>) -> Farm<u32> {
    Farm::new(FarmConfig { name: "bk".to_owned(), ..config }, servers, 0)
}

fn checked(rise: u32, fall: u32) -> Option<CheckConfig> {
    Some(CheckConfig { inter_ms: 1_000, fastinter_ms: Some(100), downinter_ms: Some(5_000), rise, fall, window: None })
}

const FIRST: ServerId = ServerId(0);
const SECOND: ServerId = ServerId(1);

fn report(status: CheckStatus) -> CheckReport {
    CheckReport { status, code: 0, info: String::new() }
}

/// Runs one check and returns the delay to the next.
fn check(farm: &mut Farm<u32>, id: ServerId, status: CheckStatus, now_ms: u64) -> u64 {
    assert!(farm.check_begin(id, CheckKind::Health, now_ms));
    assert_eq!(farm.check_due_ms(id, CheckKind::Health), None, "a check is running");
    farm.check_end(id, report(status), now_ms + 3);
    farm.check_due_ms(id, CheckKind::Health).unwrap() - now_ms - 3
}

fn messages(farm: &mut Farm<u32>) -> Vec<String> {
    std::iter::from_fn(|| farm.poll_event())
        .filter_map(|event| match event {
            Event::Message(message) => Some(message.text),
            _ => None,
        })
        .collect()
}

fn assigned(pick: Pick) -> ServerId {
    let Pick::Assigned(server) = pick else { panic!("{pick:?}") };
    server
}

fn queued(pick: Pick) -> Ticket {
    let Pick::Queued(ticket) = pick else { panic!("{pick:?}") };
    ticket
}

fn pick(farm: &mut Farm<u32>) -> Pick {
    farm.pick(&Request::default(), 0, || 0)
}

#[test]
fn checks_go_up_and_down_at_their_own_pace() {
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { check: checked(2, 3), ..server("s1") }]);
    let mut course = Vec::new();
    let bad = CheckStatus::Layer4Connection;
    let good = CheckStatus::Layer4Ok;
    for status in [bad, bad, good, bad, good, good, bad, bad, good, bad, bad, bad] {
        let delay = check(&mut farm, FIRST, status, 0);
        course.push(format!("{} {delay}", farm.status(FIRST).unwrap()));
    }
    let expected = [
        // It starts one failure from going down.
        "DOWN 5000",
        "DOWN 5000",
        "DOWN 1/2 100",
        "DOWN 5000",
        "DOWN 1/2 100",
        "UP 1000",
        "UP 2/3 100",
        "UP 1/3 100",
        // Any good check takes it back to the top.
        "UP 1000",
        "UP 2/3 100",
        "UP 1/3 100",
        "DOWN 5000",
    ];
    assert_eq!(course, expected);
    let stats = farm.server_stats(FIRST, 0).unwrap();
    assert_eq!((stats.failed_checks, stats.went_down), (7, 2));
    assert_eq!(stats.check.unwrap().duration_ms, Some(3));
}

#[test]
fn words_are_haproxys() {
    let mut farm = farm(
        FarmConfig::default(),
        vec![
            ServerConfig { check: checked(1, 1), shutdown_sessions_on_marked_down: true, ..server("s1") },
            ServerConfig { backup: true, ..server("s2") },
        ],
    );
    assigned(pick(&mut farm));
    assert!(farm.check_begin(FIRST, CheckKind::Health, 0));
    let info = "say \"<no>\" \u{e9}\n".to_owned();
    farm.check_end(FIRST, CheckReport { status: CheckStatus::Layer7Status, code: 503, info }, 7);
    let mut events: Vec<Event> = std::iter::from_fn(|| farm.poll_event()).collect();
    assert_eq!(events.remove(0), Event::ShutdownSessions { server: FIRST, reason: ShutdownReason::Down });
    let Event::Message(message) = events.remove(0) else { panic!("{events:?}") };
    assert_eq!(message.level, LogLevel::Alert);
    assert_eq!(
        message.text,
        "Server bk/s1 is DOWN, reason: Layer7 wrong status, code: 503, info: \"say <22><3C>no<3E><22> <C3><A9><0A>\", \
         check duration: 7ms. 0 active and 1 backup servers left. Running on backup. 1 sessions active, 0 requeued, 0 \
         remaining in queue."
    );
    farm.set_maint(SECOND, 0);
    let messages = messages(&mut farm);
    assert_eq!(
        messages,
        [
            "Backup Server bk/s2 is going DOWN for maintenance. 0 active and 0 backup servers left. 0 sessions \
             active, 0 requeued, 0 remaining in queue.",
            "backend bk has no server available!"
        ]
    );
}

#[test]
fn resolution_has_its_own_maintenance() {
    let mut farm =
        farm(FarmConfig::default(), vec![ServerConfig { hostname: Some("h.test".to_owned()), ..server("s1") }]);
    farm.set_unresolved(FIRST, "No IP for server", 0);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "MAINT (resolution)");
    farm.set_maint(FIRST, 0);
    farm.set_resolved(FIRST, 0);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "MAINT");
    farm.set_unresolved(FIRST, "No IP for server", 0);
    farm.set_ready(FIRST, 0);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "MAINT (resolution)");
    farm.set_resolved(FIRST, 0);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "no check");
    assert_eq!(
        messages(&mut farm),
        [
            "Server bk/s1 is going DOWN for maintenance (No IP for server). 0 active and 0 backup servers left. 0 \
             sessions active, 0 requeued, 0 remaining in queue.",
            "backend bk has no server available!",
            "Server bk/s1 ('h.test') resolves again but remains in maintenance.",
            "Server bk/s1 is leaving forced maintenance but remains in maintenance.",
            "Server bk/s1 ('h.test') is UP/READY (resolves again).",
        ]
    );
}

#[test]
fn a_slow_start_raises_weight_and_limit_by_the_second() {
    let warm = ServerConfig { weight: 10, maxconn: 20, slowstart_ms: 4_000, check: checked(1, 1), ..server("s1") };
    let mut farm = farm(FarmConfig::default(), vec![warm, ServerConfig { weight: 10, ..server("s2") }]);
    assert_eq!(farm.poll_timeout_ms(), None, "servers start warm");
    check(&mut farm, FIRST, CheckStatus::Layer4Connection, 10_000);
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 20_500);
    let mut course = Vec::new();
    let mut now_ms = 20_503;
    loop {
        let stats = farm.server_stats(FIRST, now_ms).unwrap();
        course.push((now_ms, stats.weight, stats.throttle, farm.limit(FIRST, now_ms).unwrap()));
        let Some(due) = farm.poll_timeout_ms() else { break };
        now_ms = due;
        farm.handle_timeout(now_ms);
    }
    let expected = [
        (20_503, 1, Some(7), 1),
        (21_503, 4, Some(32), 5),
        (22_503, 6, Some(57), 10),
        (23_503, 9, Some(82), 15),
        (24_503, 10, None, 20),
    ];
    assert_eq!(course, expected);
    let ups: Vec<String> = messages(&mut farm).into_iter().filter(|text| text.contains("is UP")).collect();
    assert_eq!(ups.len(), 2, "once when it starts and once when it is warm, as HAProxy says it: {ups:?}");
}

#[test]
fn a_slow_start_takes_its_share_of_turns() {
    let warm = ServerConfig { weight: 10, slowstart_ms: 10_000, check: checked(1, 1), ..server("s1") };
    let mut farm = farm(FarmConfig::default(), vec![warm, ServerConfig { weight: 10, ..server("s2") }]);
    check(&mut farm, FIRST, CheckStatus::Layer4Connection, 0);
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 0);
    let mut shares = Vec::new();
    for _ in 0..11 {
        let before = farm.server_stats(FIRST, 0).unwrap().chosen;
        for _ in 0..1_000 {
            let server = assigned(pick(&mut farm));
            farm.release(server, 0);
        }
        shares.push(farm.server_stats(FIRST, 0).unwrap().chosen - before);
        if let Some(due) = farm.poll_timeout_ms() {
            farm.handle_timeout(due);
        }
    }
    assert!(shares.is_sorted(), "{shares:?}");
    assert!(shares[0] < 80 && shares[10] == 500, "{shares:?}");
}

#[test]
fn time_down_is_counted() {
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { check: checked(1, 1), ..server("s1") }]);
    check(&mut farm, FIRST, CheckStatus::Layer4Connection, 10_000);
    assert_eq!(farm.server_stats(FIRST, 17_500).unwrap().down_time_s, 7);
    assert_eq!(farm.backend_stats(17_500).down_time_s, 7);
    assert_eq!(farm.backend_stats(17_500).last_change_s, 7);
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 20_000);
    let (stats, backend) = (farm.server_stats(FIRST, 25_000).unwrap(), farm.backend_stats(25_000));
    assert_eq!((stats.down_time_s, stats.last_change_s), (10, 5));
    assert_eq!((backend.down_time_s, backend.last_change_s, backend.went_down), (10, 5, 1));
}

#[test]
fn maintenance_pauses_checks() {
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { check: checked(2, 2), ..server("s1") }]);
    farm.schedule_check(FIRST, CheckKind::Health, 500);
    farm.set_maint(FIRST, 400);
    assert!(!farm.check_begin(FIRST, CheckKind::Health, 500));
    assert_eq!(farm.check_due_ms(FIRST, CheckKind::Health), Some(1_500));
    assert!(!farm.check_begin(FIRST, CheckKind::Health, 9_700), "late");
    assert_eq!(farm.check_due_ms(FIRST, CheckKind::Health), Some(10_500), "and no check is made up for");
    farm.set_ready(FIRST, 10_000);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "UP 1/2", "up, but the next check decides");
    assert!(farm.check_begin(FIRST, CheckKind::Health, 10_500));
    farm.set_maint(FIRST, 10_501);
    farm.check_end(FIRST, report(CheckStatus::Layer4Ok), 10_502);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "MAINT", "a check that ends in maintenance changes nothing");
    assert!(farm.set_check_enabled(FIRST, CheckKind::Health, false).is_ok());
    farm.set_ready(FIRST, 11_000);
    assert!(!farm.check_begin(FIRST, CheckKind::Health, 12_000));
}

#[test]
fn observed_errors_bring_the_next_check_forward() {
    let observed = ServerConfig {
        check: checked(2, 3),
        observe: Observe::Layer4,
        error_limit: 3,
        on_error: OnError::Fastinter,
        ..server("s1")
    };
    let mut farm = farm(FarmConfig::default(), vec![observed]);
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 0);
    assert_eq!(farm.check_due_ms(FIRST, CheckKind::Health), Some(1_003));
    for (number, observation) in [
        Observation::ConnectionError,
        Observation::ConnectionError,
        Observation::ConnectionOk,
        Observation::ConnectionError,
        Observation::ResponseStatus,
        Observation::ConnectionError,
        Observation::ConnectionError,
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(farm.check_due_ms(FIRST, CheckKind::Health), Some(1_003), "before {number}");
        farm.observe(FIRST, observation, 50);
    }
    assert_eq!(farm.check_due_ms(FIRST, CheckKind::Health), Some(150));
    let rescheduled =
        std::iter::from_fn(|| farm.poll_event()).any(|event| event == Event::CheckRescheduled { server: FIRST });
    assert!(rescheduled);
    assert_eq!(farm.server_stats(FIRST, 0).unwrap().failed_observations, 1);
}

#[test]
fn tickets_keep_their_order_around_the_clock() {
    // The 20 bits of time in a ticket's key wrap here.
    for start in [0u64, 1 << 20, (1 << 20) - 3, (1 << 19) - 3, (1 << 32) - 3] {
        let mut farm = farm(FarmConfig::default(), vec![ServerConfig { maxconn: 1, ..server("s1") }]);
        farm.pick(&Request::default(), start, || 0);
        let data = [(0, 0, 2), (0, 0, 3), (0, 5_000, 5), (-1, 0, 0), (0, -5_000, 1), (0, 0, 4), (1, -9_000, 6)];
        let mut order = Vec::new();
        for (late, (class, offset, rank)) in (0u64..).zip(data) {
            let request = Request { priority_class: class, priority_offset: offset, ..Request::default() };
            queued(farm.pick(&request, start + late, || rank));
        }
        for _ in 0..data.len() {
            farm.release(FIRST, start + 10);
            order.push(farm.poll_wake().unwrap());
            assert_eq!(farm.poll_wake(), None);
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6], "from {start}");
    }
}

#[test]
fn positions_count_those_who_left_before() {
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { maxconn: 1, ..server("s1") }]);
    assigned(pick(&mut farm));
    let tickets: Vec<Ticket> = (0..3).map(|_| queued(pick(&mut farm))).collect();
    let to_first = Request { forced: Some(Forced { server: FIRST, even_if_down: false }), ..Request::default() };
    let own = queued(farm.pick(&to_first, 1, || 0));
    assert_eq!(farm.cancel(tickets[1], 1), QueuePosition { server: 0, backend: 1 });
    farm.release(FIRST, 2);
    assert_eq!(
        farm.claim(tickets[0]),
        Claim::Granted { server: FIRST, position: QueuePosition { server: 0, backend: 1 } }
    );
    farm.release(FIRST, 2);
    assert_eq!(
        farm.claim(tickets[2]),
        Claim::Granted { server: FIRST, position: QueuePosition { server: 0, backend: 2 } }
    );
    farm.release(FIRST, 2);
    assert_eq!(farm.claim(own), Claim::Granted { server: FIRST, position: QueuePosition { server: 1, backend: 0 } });
    assert_eq!(farm.claim(own), Claim::Unknown);
}

#[test]
fn a_slot_granted_to_someone_who_left_goes_on() {
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { maxconn: 1, ..server("s1") }]);
    assigned(pick(&mut farm));
    let gone = queued(farm.pick(&Request::default(), 0, || 1));
    let next = queued(farm.pick(&Request::default(), 0, || 2));
    farm.release(FIRST, 0);
    assert_eq!(farm.poll_wake(), Some(1));
    farm.cancel(gone, 0);
    assert_eq!(farm.poll_wake(), Some(2));
    assert!(matches!(farm.claim(next), Claim::Granted { server: FIRST, .. }));
    assert_eq!((farm.served(FIRST), farm.queued_total()), (1, 0));
    assert_eq!(farm.set_waiter(gone, 7), Err(7));
    assert_eq!(farm.cancel(gone, 0), QueuePosition::default(), "a ticket that is gone is gone");
    assert_eq!(farm.served(FIRST), 1);
}

#[test]
fn wanted_servers_are_taken_unless_they_are_down() {
    let limited = |name| ServerConfig { maxconn: 1, maxqueue: 1, check: checked(1, 1), ..server(name) };
    for (persist, even_if_down, redispatch) in [
        (false, false, None),
        (true, false, None),
        (false, true, None),
        (false, false, Some(-1)),
        (false, true, Some(-1)),
    ] {
        let config = FarmConfig { persist, redispatch, ..FarmConfig::default() };
        let mut farm = farm(config, vec![limited("s1"), limited("s2")]);
        let request = Request { forced: Some(Forced { server: SECOND, even_if_down }), ..Request::default() };
        assert_eq!(farm.pick(&request, 0, || 0), Pick::Assigned(SECOND));
        queued(farm.pick(&request, 0, || 0));
        assert_eq!(farm.server_queued(SECOND), 1);
        let third = farm.pick(&request, 0, || 0);
        if redispatch.is_some() && !even_if_down {
            assert_eq!(third, Pick::Assigned(FIRST), "its queue is full, and others will do");
            farm.release(FIRST, 0);
        } else {
            assert_eq!(third, Pick::QueueFull(SECOND));
        }
        check(&mut farm, SECOND, CheckStatus::Layer4Connection, 0);
        let redispatched = farm.poll_wake().is_some();
        assert_eq!(redispatched, redispatch.is_some() && !even_if_down, "{persist} {even_if_down} {redispatch:?}");
        let insists = persist || even_if_down;
        assert_eq!(farm.accepts_forced(request.forced.unwrap()), insists);
        let pick = farm.pick(&request, 0, || 0);
        assert_eq!(pick, if insists { Pick::QueueFull(SECOND) } else { Pick::Assigned(FIRST) });
    }
}

#[test]
fn backups_serve_the_queue_when_their_time_comes() {
    for allbackups in [false, true] {
        let limited = |name, backup| ServerConfig { maxconn: 1, backup, ..server(name) };
        let config = FarmConfig { allbackups, ..FarmConfig::default() };
        let mut farm = farm(config, vec![limited("a", false), limited("b", true), limited("c", true)]);
        assert_eq!(farm.usable(), 1);
        assigned(pick(&mut farm));
        let tickets: Vec<Ticket> = (0..3).map(|_| queued(pick(&mut farm))).collect();
        // Its session goes on, but nobody new comes in: those who wait go to the backups at once.
        farm.set_drain(FIRST, 0);
        assert_eq!(farm.usable(), if allbackups { 2 } else { 1 });
        let granted: Vec<bool> =
            tickets.into_iter().map(|ticket| matches!(farm.claim(ticket), Claim::Granted { .. })).collect();
        assert_eq!(granted, [true, allbackups, false]);
    }
}

#[test]
fn weights_are_read_and_bounded() {
    let data: &[(&str, Result<WeightChange, WeightError>)] = &[
        ("7", Ok(WeightChange::Absolute(7))),
        ("-3", Ok(WeightChange::Absolute(-3))),
        ("50%", Ok(WeightChange::Percent(50))),
        ("", Err(WeightError::Missing)),
        ("%", Err(WeightError::NotANumber)),
        ("x", Err(WeightError::NotANumber)),
        ("7x", Err(WeightError::TrailingGarbage)),
        ("7%%", Err(WeightError::TrailingGarbage)),
        ("99999999999999999999", Err(WeightError::OutOfRange)),
    ];
    for (text, expected) in data {
        assert_eq!(WeightChange::parse(text), *expected, "{text}");
    }
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { weight: 100, ..server("s1") }]);
    let mut weight = |change| farm.set_weight(FIRST, change, 0).map(|()| farm.server_stats(FIRST, 0).unwrap().weight);
    assert_eq!(weight(WeightChange::Percent(50)), Ok(50));
    assert_eq!(weight(WeightChange::Percent(1_000_000)), Ok(256));
    assert_eq!(weight(WeightChange::Percent(-1)), Err(WeightError::NegativePercent));
    assert_eq!(weight(WeightChange::Absolute(257)), Err(WeightError::OutOfRange));
    assert_eq!(weight(WeightChange::Absolute(-1)), Err(WeightError::OutOfRange));
    assert_eq!(farm.set_weight(ServerId(9), WeightChange::Absolute(1), 0), Err(WeightError::UnknownServer));
}

#[test]
fn strange_servers_change_nothing() {
    let mut farm = farm(FarmConfig::default(), vec![server("s1")]);
    let strange = ServerId(7);
    farm.release(strange, 0);
    farm.set_maint(strange, 0);
    farm.set_ready(strange, 0);
    farm.set_maxconn(strange, 1, 0);
    farm.count_retry(strange);
    farm.schedule_check(strange, CheckKind::Health, 0);
    farm.observe(strange, Observation::ConnectionError, 0);
    farm.check_end(strange, report(CheckStatus::Layer4Ok), 0);
    assert!(!farm.check_begin(strange, CheckKind::Health, 0));
    assert!(!farm.force_health(strange, OperationalState::Stopped, 0));
    assert_eq!(farm.server_stats(strange, 0), None);
    assert_eq!(farm.snapshot(strange, 0), None);
    assert_eq!(farm.limit(strange, 0), None);
    let request = Request {
        avoid: Some(strange),
        forced: Some(Forced { server: strange, even_if_down: true }),
        ..Request::default()
    };
    assert_eq!(farm.pick(&request, 0, || 0), Pick::Assigned(FIRST));
    assert_eq!(farm.claim(Ticket { slot: 3, generation: 0 }), Claim::Unknown);
}

#[test]
fn no_server_is_no_server() {
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::StaticRr,
        Algorithm::LeastConn,
        Algorithm::First,
        Algorithm::Random { draws: 2 },
        Algorithm::Uri(UriOptions::default()),
    ] {
        for hash_type in [HashType::MapBased, HashType::Consistent] {
            for servers in [vec![], vec![ServerConfig { disabled: true, ..server("s1") }]] {
                let hash = HashConfig { hash_type, ..HashConfig::default() };
                let config = FarmConfig { algorithm: algorithm.clone(), hash, ..FarmConfig::default() };
                let mut farm = farm(config, servers);
                assert_eq!(farm.pick(&Request { key: Some(1), ..Request::default() }, 0, || 0), Pick::NoServer);
                assert_eq!(farm.pick(&Request::default(), 0, || 0), Pick::NoServer);
                assert!(!farm.backend_stats(0).is_up);
            }
        }
    }
}

#[test]
fn random_draws_prefer_the_less_loaded_by_weight() {
    let config = FarmConfig { algorithm: Algorithm::Random { draws: 2 }, seed: 1, ..FarmConfig::default() };
    let weights = [10, 20, 30];
    let servers = weights.iter().map(|&weight| ServerConfig { weight, ..server("s") }).collect();
    let mut farm = farm(config, servers);
    // Held, so that load counts.
    for _ in 0..600 {
        assigned(pick(&mut farm));
    }
    let served: Vec<u32> = farm.servers().map(|id| farm.served(id)).collect();
    for (served, weight) in served.iter().zip(weights) {
        assert!(served.abs_diff(weight * 10) < 40, "{served:?} for {weight}");
    }
}

#[test]
fn configurations_decide_at_a_restore() {
    let changed = |disabled, weight| ServerConfig { disabled, weight, ..server("s1") };
    // Old configuration, what was done, new configuration, status and weight in the end.
    type Row = (bool, u32, &'static [&'static str], bool, u32, &'static str, u32);
    let data: &[Row] = &[
        (false, 10, &["maint"], false, 10, "MAINT", 10),
        (false, 10, &["drain", "5"], false, 10, "DRAIN", 5),
        (false, 10, &["5"], false, 20, "no check", 20),
        (true, 10, &["ready"], true, 10, "no check", 10),
        (true, 10, &[], false, 10, "no check", 10),
        (false, 10, &[], true, 10, "MAINT", 10),
        (true, 10, &["ready", "drain"], true, 10, "DRAIN", 10),
        (false, 0, &["drain"], false, 10, "no check", 10),
    ];
    for (number, (old_disabled, old_weight, done, new_disabled, new_weight, status, weight)) in data.iter().enumerate()
    {
        let mut old = farm(FarmConfig::default(), vec![changed(*old_disabled, *old_weight)]);
        for what in *done {
            match *what {
                "maint" => old.set_maint(FIRST, 0),
                "drain" => old.set_drain(FIRST, 0),
                "ready" => old.set_ready(FIRST, 0),
                weight => old.set_weight(FIRST, WeightChange::parse(weight).unwrap(), 0).unwrap(),
            }
        }
        let mut new = farm(FarmConfig::default(), vec![changed(*new_disabled, *new_weight)]);
        new.restore(FIRST, &old.snapshot(FIRST, 0).unwrap(), 0);
        let stats = new.server_stats(FIRST, 0).unwrap();
        assert_eq!((stats.status.to_string().as_str(), stats.user_weight), (*status, *weight), "{number}");
        assert_eq!(messages(&mut new), [""; 0], "{number}");
    }
}

#[test]
fn a_restored_server_that_was_down_stays_down() {
    let config = || vec![ServerConfig { check: checked(2, 3), ..server("s1") }];
    let mut old = farm(FarmConfig::default(), config());
    check(&mut old, FIRST, CheckStatus::Layer4Timeout, 60_000);
    let mut new = farm(FarmConfig::default(), config());
    new.restore(FIRST, &old.snapshot(FIRST, 100_000).unwrap(), 100_000);
    assert_eq!(new.status(FIRST).unwrap().to_string(), "DOWN");
    assert_eq!(new.usable(), 0);
    let stats = new.server_stats(FIRST, 100_000).unwrap();
    assert_eq!((stats.last_change_s, stats.down_time_s, stats.went_down), (40, 40, 0));
    assert_eq!(stats.check.unwrap().status, CheckStatus::Layer4Timeout);
    check(&mut new, FIRST, CheckStatus::Layer4Ok, 101_000);
    check(&mut new, FIRST, CheckStatus::Layer4Ok, 102_000);
    assert_eq!(new.status(FIRST).unwrap().to_string(), "UP");
}

#[test]
fn changes_raise_events() {
    let active = |name| ServerConfig {
        check: checked(1, 1),
        shutdown_sessions_on_marked_down: true,
        shutdown_backup_sessions_on_marked_up: true,
        ..server(name)
    };
    let mut farm = farm(FarmConfig::default(), vec![active("s1"), ServerConfig { backup: true, ..server("s2") }]);
    let events = |farm: &mut Farm<u32>| -> Vec<Event> {
        std::iter::from_fn(|| farm.poll_event()).filter(|event| !matches!(event, Event::Message(_))).collect()
    };
    let changed = |server, state| Event::StateChanged { server, state };
    let down = Event::ShutdownSessions { server: FIRST, reason: ShutdownReason::Down };
    let up = Event::ShutdownSessions { server: SECOND, reason: ShutdownReason::Up };
    check(&mut farm, FIRST, CheckStatus::Layer4Timeout, 0);
    assert_eq!(events(&mut farm), [down.clone(), changed(FIRST, OperationalState::Stopped)]);
    check(&mut farm, FIRST, CheckStatus::Layer4Timeout, 0);
    assert_eq!(events(&mut farm), [], "nothing new");
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 0);
    assert_eq!(events(&mut farm), [up.clone(), changed(FIRST, OperationalState::Running)]);
    farm.set_maint(FIRST, 0);
    assert_eq!(
        events(&mut farm),
        [down, Event::CloseIdle { server: FIRST }, changed(FIRST, OperationalState::Stopped)]
    );
    farm.set_ready(FIRST, 0);
    assert_eq!(events(&mut farm), [up, changed(FIRST, OperationalState::Running)]);
    farm.set_maint(SECOND, 0);
    assert_eq!(
        events(&mut farm),
        [Event::CloseIdle { server: SECOND }, changed(SECOND, OperationalState::Stopped)],
        "its sessions may end by themselves"
    );
}

#[test]
fn servers_come_and_go() {
    let consistent = HashConfig { hash_type: HashType::Consistent, ..HashConfig::default() };
    for (algorithm, hash) in [
        (Algorithm::RoundRobin, HashConfig::default()),
        (Algorithm::LeastConn, HashConfig::default()),
        (Algorithm::First, HashConfig::default()),
        (Algorithm::Random { draws: 2 }, HashConfig::default()),
        (Algorithm::Source, consistent),
    ] {
        let mut farm = farm(FarmConfig { algorithm, hash, ..FarmConfig::default() }, vec![server("s1")]);
        assert!(farm.is_dynamic());
        let added = farm.add_server(server("s2"), false, 1_000);
        assert_eq!((added, farm.server_by_number(2)), (SECOND, Some(SECOND)));
        assert_eq!(farm.status(added), Some(ServerStatus::Maint));
        let picks = |farm: &mut Farm<u32>| -> Vec<ServerId> {
            // Keys that lie far apart, for those who hash.
            let keys = (0..20_u32).map(|key| key.wrapping_mul(0x9e37_79b9));
            keys.map(|key| {
                let id = assigned(farm.pick(&Request { key: Some(key), ..Request::default() }, 1_000, || 0));
                farm.release(id, 1_000);
                id
            })
            .collect()
        };
        assert!(picks(&mut farm).iter().all(|id| *id == FIRST), "it begins in maintenance");
        farm.set_ready(added, 1_000);
        assert_eq!(farm.usable(), 2);
        farm.set_maint(FIRST, 1_000);
        assert!(picks(&mut farm).iter().all(|id| *id == added));
        let slot = assigned(pick(&mut farm));
        assert_eq!(farm.remove_server(added), Err(RemovalError::NotInMaintenance));
        farm.set_maint(added, 1_000);
        assert_eq!(farm.remove_server(added), Err(RemovalError::InUse));
        farm.release(slot, 1_000);
        assert_eq!(farm.remove_server(added), Ok(()));
        assert_eq!(farm.remove_server(added), Err(RemovalError::UnknownServer));
        assert_eq!((farm.status(added), farm.servers().count()), (None, 1));
        // What still names it does nothing.
        farm.set_ready(added, 1_000);
        farm.release(added, 1_000);
        assert_eq!(pick(&mut farm), Pick::NoServer);
        let again = farm.add_server(server("s3"), true, 2_000);
        assert_eq!((again, farm.server_by_name("s3"), farm.server_by_name("s2")), (added, Some(added), None));
        assert_eq!(assigned(pick(&mut farm)), again);
    }
    let fixed = farm(FarmConfig { algorithm: Algorithm::StaticRr, ..FarmConfig::default() }, vec![server("s1")]);
    assert!(!fixed.is_dynamic());
}

#[test]
fn numbers_of_servers_that_come_fill_gaps() {
    let numbered = |name, id| ServerConfig { id, ..server(name) };
    let mut farm = farm(FarmConfig::default(), vec![numbered("s1", 1), numbered("s2", 3), numbered("s3", 7)]);
    let mut add = |name, id| farm.add_server(numbered(name, id), false, 0);
    add("s4", 0);
    add("s5", 9);
    add("s6", 0);
    let numbers: Vec<u32> =
        farm.servers().filter_map(|id| farm.server_stats(id, 0)).map(|stats| stats.number).collect();
    assert_eq!(numbers, [1, 3, 7, 2, 9, 4]);
}

/// A farm with one server that an agent is asked about, checked too or not.
#[test]
fn a_follower_that_leaves_maintenance_is_as_the_one_it_follows() {
    let follower = ServerConfig { track: Some("bk/s1".to_owned()), ..server("s2") };
    let mut farm = farm(FarmConfig::default(), vec![ServerConfig { check: checked(2, 3), ..server("s1") }, follower]);
    let follow = |farm: &mut Farm<u32>| {
        let followed = farm.followed(FIRST).unwrap();
        farm.follow(SECOND, &followed, 0);
    };
    follow(&mut farm);
    // Nobody tells it again what has not changed.
    farm.set_maint(SECOND, 0);
    farm.set_ready(SECOND, 0);
    assert_eq!(farm.status(SECOND).unwrap().to_string(), farm.status(FIRST).unwrap().to_string());
    assert!(farm.is_usable(SECOND));
    farm.set_maint(SECOND, 0);
    for _ in 0..4 {
        check(&mut farm, FIRST, CheckStatus::Layer4Connection, 0);
    }
    follow(&mut farm);
    messages(&mut farm);
    farm.set_ready(SECOND, 0);
    assert_eq!(messages(&mut farm), ["Server bk/s2 is DOWN/READY (leaving forced maintenance)."]);
    // Whether it is checked is told when it changes.
    farm.set_check_enabled(FIRST, CheckKind::Health, false).unwrap();
    assert_eq!(farm.poll_event(), Some(Event::HealthChanged { server: FIRST }));
}
