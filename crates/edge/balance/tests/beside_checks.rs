//! Health checks beside the installed HAProxy: the same results, one after another, must give the same states, words
//! and counters.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a helper does not find fails the test"
)]

mod beside;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use balance::{
    CheckConfig, CheckKind, CheckReport, CheckStatus, Farm, FarmConfig, Observation, Observe, OnError,
    OperationalState, Rng, ServerConfig, ServerId,
};

use beside::{Beside, Case, haproxy_is_installed, take_messages};

/// What a server does with a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Status(u16),
    Junk,
    Hang,
}

impl Act {
    fn report(self, may_pass_conditionally: bool) -> CheckReport {
        let (status, code, info) = match self {
            Self::Status(404) if may_pass_conditionally => (CheckStatus::Layer7Conditional, 404, ""),
            Self::Status(code @ 200..400) => (CheckStatus::Layer7Ok, code, ""),
            Self::Status(code) => (CheckStatus::Layer7Status, code, "Why"),
            Self::Junk => (CheckStatus::Layer7Response, 0, ""),
            Self::Hang => (CheckStatus::Layer7Timeout, 0, ""),
        };
        CheckReport { status, code, info: info.to_owned() }
    }
}

/// A server that plays a script, one act a connection, and its last act for ever. Counts its connections.
fn play(script: Vec<Act>) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let played = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&played);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let act = script[(*counter.lock().unwrap()).min(script.len() - 1)];
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = match act {
                Act::Status(code) => stream.write_all(
                    format!("HTTP/1.1 {code} Why\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").as_bytes(),
                ),
                Act::Junk => stream.write_all(b"junk\r\n\r\n"),
                // Until HAProxy gives up.
                Act::Hang => stream.read_to_end(&mut Vec::new()).map(|_| ()),
            };
            *counter.lock().unwrap() += 1;
        }
    });
    (address, played)
}

#[test]
fn results_lead_to_the_same_states_and_words() {
    if !haproxy_is_installed() {
        return;
    }
    let mut rng = Rng::new(3);
    let acts = [
        Act::Status(200),
        Act::Status(200),
        Act::Status(204),
        Act::Status(302),
        Act::Status(404),
        Act::Status(500),
        Act::Status(503),
        Act::Junk,
    ];
    let mut cases = Vec::new();
    let mut scripts = Vec::new();
    for number in 0..24 {
        // Runs of the same result, or nothing would ever go up or down.
        let mut script = Vec::new();
        for _ in 0..12 {
            let act = acts[rng.next_u32() as usize % acts.len()];
            script.extend(vec![act; 1 + rng.next_u32() as usize % 4]);
        }
        if number == 0 {
            script.extend([Act::Hang, Act::Status(200), Act::Hang, Act::Hang, Act::Hang]);
        }
        script.extend([Act::Status(200); 5]);
        let (address, played) = play(script.clone());
        let check = CheckConfig {
            inter_ms: 20,
            fastinter_ms: (number % 2 == 0).then_some(10),
            downinter_ms: (number % 3 == 0).then_some(15),
            rise: 1 + number % 4,
            fall: 1 + number / 4 % 4,
            window: None,
        };
        let checked = ServerConfig {
            name: "s1".to_owned(),
            backup: number % 5 == 4,
            check: Some(check),
            ..ServerConfig::default()
        };
        let other = ServerConfig { name: "s2".to_owned(), backup: true, weight: 7, ..ServerConfig::default() };
        let farm =
            FarmConfig { name: format!("check{number}x"), log_health_checks: number % 3 == 1, ..FarmConfig::default() };
        let servers = if number % 2 == 0 { vec![checked] } else { vec![checked, other] };
        let mut case = Case::new(farm, servers);
        case.addresses = vec![address];
        let timeout = if number == 0 { "timeout check 300ms" } else { "timeout check 20s" };
        case.lines = ["option httpchk GET /", "http-check disable-on-404", timeout].map(str::to_owned).to_vec();
        cases.push(case);
        scripts.push((script, played));
    }
    let beside = Beside::start("checks", &cases);
    for (case, (script, played)) in cases.iter().zip(&scripts) {
        let name = &case.farm.name;
        let since = Instant::now();
        while *played.lock().unwrap() < script.len() {
            assert!(since.elapsed() < Duration::from_secs(60), "{name} was not checked often enough");
            thread::sleep(Duration::from_millis(5));
        }
        let mut farm: Farm<()> = Farm::new(case.farm.clone(), case.servers.clone(), 0);
        let id = ServerId::new(0);
        for act in script {
            assert!(farm.check_begin(id, CheckKind::Health, 0));
            farm.check_end(id, act.report(farm.may_pass_conditionally(id)), 0);
        }
        beside.compare_messages(name, &take_messages(&mut farm));
        let stats = beside.stats(name);
        compare_check_stats(&farm, id, &stats["s1"], name);
        assert_eq!(farm.backend_stats(0).went_down.to_string(), stats["BACKEND"]["chkdown"], "{name}");
    }
}

fn compare_check_stats(farm: &Farm<()>, id: ServerId, theirs: &HashMap<String, String>, context: &str) {
    let ours = farm.server_stats(id, 0).unwrap();
    let check = ours.check.unwrap();
    assert_eq!(ours.status.to_string(), theirs["status"], "{context} status");
    assert_eq!(ours.failed_checks.to_string(), theirs["chkfail"], "{context} chkfail");
    assert_eq!(ours.went_down.to_string(), theirs["chkdown"], "{context} chkdown");
    assert_eq!(check.status.info(), theirs["check_status"].trim_start_matches("* "), "{context} check_status");
    assert_eq!(check.status.description(), theirs["check_desc"], "{context} check_desc");
    // While the next check runs, HAProxy shows the status of the last one but not its code.
    if !theirs["check_status"].starts_with("* ") {
        let code = check.code.map(|code| code.to_string()).unwrap_or_default();
        assert_eq!(code, theirs["check_code"], "{context} check_code");
    }
    assert_eq!(check.health.to_string(), theirs["check_health"], "{context} check_health");
    assert_eq!(check.config.rise.to_string(), theirs["check_rise"], "{context} check_rise");
    assert_eq!(check.config.fall.to_string(), theirs["check_fall"], "{context} check_fall");
}

#[test]
fn commands_change_checked_servers_alike() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for number in 0..8 {
        let server = |name: &str, backup| ServerConfig {
            name: name.to_owned(),
            backup,
            disabled: number % 4 == 3,
            // Never checked again after the first time, so that only commands change anything.
            check: Some(CheckConfig { inter_ms: 3_600_000, rise: 1 + number % 3, fall: 2, ..CheckConfig::default() }),
            ..ServerConfig::default()
        };
        let farm = FarmConfig {
            name: format!("command{number}x"),
            log_health_checks: number % 2 == 1,
            ..FarmConfig::default()
        };
        let follower =
            ServerConfig { check: None, track: Some(format!("command{number}x/s1")), ..server("s4", number % 2 == 0) };
        let servers = vec![server("s1", false), server("s2", false), server("s3", true), follower];
        let mut case = Case::new(farm, servers);
        let (address, _) = play(vec![Act::Status(200)]);
        case.addresses = vec![address; 4];
        case.lines.push("option httpchk GET /".to_owned());
        cases.push(case);
    }
    // First checks are spread over the shortest interval, here an hour, unless that is bounded.
    let beside = Beside::start_with("commands", &cases, "max-spread-checks 1ms");
    for (seed, case) in cases.iter().enumerate() {
        let name = &case.farm.name;
        let mut rng = Rng::new(seed as u64);
        let mut farm: Farm<()> = Farm::new(case.farm.clone(), case.servers.clone(), 0);
        for id in farm.servers() {
            if farm.check_begin(id, CheckKind::Health, 0) {
                beside.wait_for_stat(name, &format!("s{}", id.index() + 1), "check_status", "L7OK");
                farm.check_end(id, Act::Status(200).report(true), 0);
            }
        }
        let (leader, follower) = (ServerId::new(0), ServerId::new(3));
        let mut messages = take_messages(&mut farm);
        // At the start, when nothing is said.
        farm.follow(follower, &farm.followed(leader).unwrap(), 0);
        take_messages(&mut farm);
        for _ in 0..40 {
            let id = ServerId::new(rng.next_u32() as usize % 4);
            let server = format!("{name}/s{}", id.index() + 1);
            let choice = ["maint", "drain", "ready", "ready", "up", "stopping", "down"][rng.next_u32() as usize % 7];
            match choice {
                "maint" => farm.set_maint(id, 0),
                "drain" => farm.set_drain(id, 0),
                "ready" => farm.set_ready(id, 0),
                "up" => drop(farm.force_health(id, OperationalState::Running, 0)),
                "stopping" => drop(farm.force_health(id, OperationalState::Stopping, 0)),
                _ => drop(farm.force_health(id, OperationalState::Stopped, 0)),
            }
            // What changes the follower alone must leave it in line with its leader without being told again.
            if id == leader {
                farm.follow(follower, &farm.followed(leader).unwrap(), 0);
            }
            let what = if ["maint", "drain", "ready"].contains(&choice) { "state" } else { "health" };
            beside.command(&format!("set server {server} {what} {choice}"));
            let stats = beside.stats(name);
            for id in farm.servers() {
                let server = format!("s{}", id.index() + 1);
                let ours = farm.server_stats(id, 0).unwrap();
                assert_eq!(ours.status.to_string(), stats[&server]["status"], "{name}/{server} after {choice}");
                if ours.check_enabled {
                    assert_eq!(ours.went_down.to_string(), stats[&server]["chkdown"], "{name}/{server} after {choice}");
                }
            }
            assert_eq!(farm.active().to_string(), stats["BACKEND"]["act"], "{name} after {choice}");
            assert_eq!(farm.backup().to_string(), stats["BACKEND"]["bck"], "{name} after {choice}");
        }
        messages.extend(take_messages(&mut farm));
        beside.compare_messages(name, &messages);
    }
}

#[test]
fn observed_errors_lead_to_the_same_states_and_words() {
    if !haproxy_is_installed() {
        return;
    }
    let mut cases = Vec::new();
    for (word, on_error) in [
        ("fastinter", OnError::Fastinter),
        ("fail-check", OnError::FailCheck),
        ("sudden-death", OnError::SuddenDeath),
        ("mark-down", OnError::MarkDown),
    ] {
        for (layer, observe) in [("layer4", Observe::Layer4), ("layer7", Observe::Layer7)] {
            let server = ServerConfig {
                name: "s1".to_owned(),
                check: Some(CheckConfig { inter_ms: 3_600_000, rise: 2, fall: 3, ..CheckConfig::default() }),
                observe,
                on_error,
                error_limit: 2,
                ..ServerConfig::default()
            };
            let farm = FarmConfig { name: format!("observe-{word}-{layer}"), ..FarmConfig::default() };
            let mut case = Case::new(farm, vec![server]);
            // One good check, and then nothing but errors for requests.
            let (address, _) = play(vec![Act::Status(200), Act::Status(500)]);
            case.addresses = vec![address];
            case.lines = vec![
                "option httpchk GET /".to_owned(),
                "retries 0".to_owned(),
                format!("default-server observe {layer} error-limit 2 on-error {word}"),
            ];
            cases.push(case);
        }
    }
    let beside = Beside::start_with("observe", &cases, "max-spread-checks 1ms");
    for case in &cases {
        let name = &case.farm.name;
        let mut farm: Farm<()> = Farm::new(case.farm.clone(), case.servers.clone(), 0);
        let id = ServerId::new(0);
        beside.wait_for_stat(name, "s1", "check_status", "L7OK");
        assert!(farm.check_begin(id, CheckKind::Health, 0));
        farm.check_end(id, Act::Status(200).report(true), 0);
        for _ in 0..9 {
            let answer = beside.refused(name, IpAddr::V4(Ipv4Addr::LOCALHOST), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            if farm.usable() == 0 {
                assert!(answer.starts_with("HTTP/1.1 503"), "{name} {answer}");
                continue;
            }
            assert!(answer.starts_with("HTTP/1.1 500"), "{name} {answer}");
            farm.observe(id, Observation::ConnectionOk, 0);
            farm.observe(id, Observation::ResponseStatus, 0);
        }
        // The request whose error was the last may count as active or not, as HAProxy comes to close it.
        let tidy = |line: String| line.replace(". 1 sessions active", ". 0 sessions active");
        beside.compare_messages_but(name, &take_messages(&mut farm), tidy);
        let stats = beside.stats(name);
        compare_check_stats(&farm, id, &stats["s1"], name);
        let ours = farm.server_stats(id, 0).unwrap();
        assert_eq!(ours.failed_observations.to_string(), stats["s1"]["hanafail"], "{name} hanafail");
        assert_eq!(ours.check.unwrap().info, stats["s1"]["last_chk"], "{name} last_chk");
    }
}
