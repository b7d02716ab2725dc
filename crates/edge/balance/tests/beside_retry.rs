//! Failing servers beside the installed HAProxy: how often each is tried, and who is tried instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a helper does not find fails the test"
)]

mod beside;

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use balance::{
    Algorithm, FailedAttempt, Failure, Farm, FarmConfig, Forced, Pick, Request, Retry, RetryOn, RetryPolicy,
    RetrySituation, ServerConfig, ServerId,
};

use beside::{Beside, Case, haproxy_is_installed};

/// Servers of which none can be reached.
fn servers(count: usize) -> Vec<ServerConfig> {
    (1..=count).map(|number| ServerConfig { name: format!("s{number}"), ..ServerConfig::default() }).collect()
}

/// Counts what becomes of one request when every connection is refused.
fn play(farm: &mut Farm<()>, policy: &RetryPolicy, forced: Option<ServerId>) {
    let forced = forced.map(|server| Forced { server, even_if_down: false });
    let mut request = Request { forced, ..Request::default() };
    let mut failed_before = 0;
    'pick: loop {
        let Pick::Assigned(server) = farm.pick(&request, 0, || ()) else { panic!("no server") };
        loop {
            let situation = RetrySituation {
                attempt: FailedAttempt::to_connect(Failure::ConnectionError, failed_before),
                server_state: farm.server_stats(server, 0).unwrap().state,
                active_servers: farm.active(),
                is_forced: request.forced.is_some(),
                even_if_down: false,
            };
            failed_before += 1;
            match policy.decide(&situation) {
                Retry::SameServer(_) => farm.count_retry(server),
                Retry::Redispatch(_) => {
                    farm.release(server, 0);
                    request = Request { forced: None, avoid: Some(server), ..request };
                    continue 'pick;
                }
                Retry::FreshConnection => panic!("nothing was sent on a kept connection"),
                Retry::GiveUp => {
                    farm.release(server, 0);
                    return;
                }
            }
        }
    }
}

#[test]
fn refused_connections_are_tried_alike() {
    if !haproxy_is_installed() {
        return;
    }
    // A port that nobody listens on: bound and given up again.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut cases = Vec::new();
    let mut policies = Vec::new();
    for (algorithm, count) in [
        (Algorithm::RoundRobin, 3),
        (Algorithm::RoundRobin, 1),
        (Algorithm::StaticRr, 2),
        (Algorithm::LeastConn, 3),
        (Algorithm::First, 2),
    ] {
        for retries in [0, 1, 3, 4] {
            for redispatch in [None, Some(-1), Some(-2), Some(1), Some(2)] {
                for forces in [false, true] {
                    // HAProxy divides by zero here and dies.
                    if redispatch.is_some_and(|interval| interval < 0 && retries + 1 + interval == 0) {
                        continue;
                    }
                    let name = format!("{}{count}-{retries}-{redispatch:?}-{forces}", algorithm.name())
                        .replace(['(', ')'], "");
                    let farm = FarmConfig { name, algorithm: algorithm.clone(), redispatch, ..FarmConfig::default() };
                    let mut case = Case::new(farm, servers(count));
                    case.addresses = vec![format!("127.0.0.1:{port}"); count];
                    case.lines = vec![format!("retries {retries}"), "timeout connect 2ms".to_owned()];
                    if forces {
                        case.lines.push("use-server s1 if TRUE".to_owned());
                    }
                    policies.push((
                        RetryPolicy {
                            retries: retries.unsigned_abs(),
                            redispatch,
                            retry_on: RetryOn::DEFAULT,
                            connect_timeout_ms: Some(2),
                            is_hash: algorithm.is_hash(),
                        },
                        forces,
                    ));
                    cases.push(case);
                }
            }
        }
    }
    let beside = Beside::start("retry", &cases);
    for (case, (policy, forces)) in cases.iter().zip(&policies) {
        let name = &case.farm.name;
        let mut farm = Farm::new(case.farm.clone(), case.servers.clone(), 0);
        for _ in 0..5 {
            let answer = beside.refused(name, IpAddr::V4(Ipv4Addr::LOCALHOST), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            play(&mut farm, policy, forces.then(|| ServerId::new(0)));
        }
        let stats = beside.stats(name);
        for id in farm.servers() {
            let ours = farm.server_stats(id, 0).unwrap();
            let theirs = &stats[&ours.name];
            let context = format!("{name}/{}", ours.name);
            assert_eq!(ours.retries.to_string(), theirs["wretr"], "{context} wretr");
            assert_eq!(ours.redispatches.to_string(), theirs["wredis"], "{context} wredis");
            assert_eq!(ours.chosen.to_string(), theirs["lbtot"], "{context} lbtot");
        }
        let ours = farm.backend_stats(0);
        assert_eq!(ours.retries.to_string(), stats["BACKEND"]["wretr"], "{name} wretr");
        assert_eq!(ours.redispatches.to_string(), stats["BACKEND"]["wredis"], "{name} wredis");
    }
}
