//! `tidegate cluster slot`: slots move whatever happens meanwhile. What kills somebody in the middle runs with `make test-cluster`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use support::{
    Folder, RedisClient,
    cluster::{Cluster, PATIENCE, Writer, free_ports, nothing_is_lost},
    signal_process, wait_within,
};

/// No master is given up because the machine is busy.
const PATIENT: [&str; 2] = ["--failover-after", "20000"];
/// A copy that takes its time.
const SLOW: &str = "64kb";
/// Keys of which a thousand slots take some seconds at that rate.
const KEYS: u32 = 3_000;

/// A text that does not become shorter when it is compressed, as copies are.
fn value_of(number: u32) -> String {
    (0..VALUE_WORDS).map(|place| format!("{:016x}", mixed(u64::from(number) << 32 | place))).collect()
}

/// Words of a value, each of 16 characters.
const VALUE_WORDS: u64 = 125;

/// A number that looks random: one step of splitmix64.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

fn fill(cluster: &Cluster) {
    let mut client = RedisClient::connect(cluster.address);
    for first in (0..KEYS).step_by(100) {
        let mut words = vec!["MSET".to_owned()];
        (first..first + 100).for_each(|number| words.extend([format!("key:{number}"), value_of(number)]));
        assert_eq!(client.text(&words.iter().map(String::as_str).collect::<Vec<_>>()), "OK");
    }
}

fn all_is_there(cluster: &Cluster) {
    let mut client = RedisClient::connect(cluster.address);
    for number in 0..KEYS {
        assert_eq!(client.text(&["GET", &format!("key:{number}")]), value_of(number), "key:{number}");
    }
}

fn keys_of(cluster: &Cluster, group: usize) -> String {
    RedisClient::connect(cluster.master(group).0.parse().unwrap()).text(&["DBSIZE"])
}

fn moves(cluster: &Cluster) -> Vec<Value> {
    let status = cluster.status();
    status["moves"].as_array().unwrap().clone()
}

fn slots(cluster: &Cluster) -> Vec<u64> {
    let status = cluster.status();
    status["groups"].as_array().unwrap().iter().map(|group| group["slots"].as_u64().unwrap()).collect()
}

/// A command that goes on while the test does.
fn begin(cluster: &Cluster, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("cluster").args(words).arg("--dir").arg(&cluster.folder.0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn wait_for_copy(cluster: &Cluster) {
    wait_within(PATIENCE, "keys are being copied", || {
        moves(cluster).iter().any(|one| one["phase"] == "copying" && one["progress"]["keys"].as_u64() > Some(20))
    });
}

fn wait_for_rest(cluster: &Cluster) {
    wait_within(PATIENCE, "all has moved", || moves(cluster).is_empty());
}

#[test]
fn a_move_is_cancelled_leaves_nothing_behind_and_is_done_later() {
    let cluster = Cluster::up(&[&["--groups", "2", "--replicas", "0"], &PATIENT[..]].concat());
    fill(&cluster);
    let before = [keys_of(&cluster, 0), keys_of(&cluster, 1)];
    let said = cluster.done(&["slot", "rate", SLOW, "--parallel", "2", "--latency", "0"]);
    assert!(said.contains("64.0 kB a second, 2 copies at once, however long"), "{said}");
    cluster.refused(&["slot", "rate", "5"], "'rate' is 0, or at least 65536 bytes a second");
    cluster.refused(&["slot", "rate", "--parallel", "0"], "'parallel' is 1 to 64");
    let mut moving = begin(&cluster, &["slot", "migrate", "0", "8191", "2"]);
    wait_for_copy(&cluster);
    // Ranges beside each other move one after the other.
    let under_way = moves(&cluster);
    assert!(under_way.len() > 4, "{under_way:?}");
    assert_eq!(under_way.iter().filter(|one| one["phase"] == "copying").count(), 1, "{under_way:?}");
    wait_within(PATIENCE, "it is said what slows it", || moves(&cluster).iter().any(|one| one["slowed"] == "rate"));
    cluster.done(&["slot", "cancel"]);
    assert!(moving.wait().unwrap().success());
    wait_for_rest(&cluster);
    // What had moved goes back; of what had not, nothing is left where it does not belong.
    cluster.done(&["slot", "rate", "off"]);
    cluster.done(&["slot", "rebalance"]);
    assert_eq!(slots(&cluster), [8192, 8192]);
    let counts = |counts: &[String]| counts.iter().map(|count| count.parse::<u32>().unwrap()).sum::<u32>();
    assert_eq!(counts(&[keys_of(&cluster, 0), keys_of(&cluster, 1)]), counts(&before), "what had been copied is gone");
    cluster.done(&["slot", "rate", SLOW]);
    // Whoever ends the command ends no move.
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let mut moving = begin(&cluster, &["slot", "migrate", "3000", "4000", "2"]);
    wait_for_copy(&cluster);
    moving.kill().unwrap();
    moving.wait().unwrap();
    cluster.done(&["slot", "rate", "off"]);
    wait_for_rest(&cluster);
    assert_eq!(slots(&cluster), [7191, 9193]);
    writer.wait_more(20);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
    nothing_is_lost(cluster.address, "b", &done);
    all_is_there(&cluster);
}

#[test]
fn large_keys_move_in_pieces() {
    let cluster = Cluster::up(&[&["--groups", "2", "--replicas", "0"], &PATIENT[..]].concat());
    let mut client = RedisClient::connect(cluster.address);
    // All of slot 3300, of group 1.
    let text = "x".repeat(2_500_000);
    assert_eq!(client.text(&["SET", "{b}string", &text]), "OK");
    for first in 0..20 {
        for (command, key, pair) in [
            ("HSET", "{b}hash", true),
            ("SADD", "{b}set", false),
            ("RPUSH", "{b}list", false),
            ("ZADD", "{b}zset", true),
        ] {
            let mut words = vec![command.to_owned(), key.to_owned()];
            for number in first * 500..(first + 1) * 500 {
                words.extend(pair.then(|| format!("{number}")));
                words.push(format!("member:{number}"));
            }
            client.text(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    for number in 0..100 {
        client.text(&["XADD", "{b}stream", &format!("{}-1", number + 1), "field", "value"]);
    }
    client.text(&["PEXPIREAT", "{b}hash", "4000000000000"]);
    let content = |client: &mut RedisClient| {
        let lines = |value: &resp::Value, is_sorted: bool| {
            let words = value.as_slice().unwrap().iter().map(|word| format!("{word:?}"));
            let mut words: Vec<String> = words.collect();
            if is_sorted {
                words.sort();
            }
            words
        };
        [
            vec![client.text(&["GET", "{b}string"])],
            lines(&client.command(&["HGETALL", "{b}hash"]), true),
            lines(&client.command(&["SMEMBERS", "{b}set"]), true),
            lines(&client.command(&["LRANGE", "{b}list", "0", "-1"]), false),
            lines(&client.command(&["ZRANGE", "{b}zset", "0", "-1", "WITHSCORES"]), false),
            lines(&client.command(&["XRANGE", "{b}stream", "-", "+"]), false),
        ]
    };
    let before = content(&mut RedisClient::connect(cluster.master(0).0.parse().unwrap()));
    assert_eq!(before.each_ref().map(Vec::len), [1, 20_000, 10_000, 10_000, 20_000, 100]);
    cluster.done(&["slot", "migrate", "3300", "3300", "2"]);
    let mut there = RedisClient::connect(cluster.master(1).0.parse().unwrap());
    assert!(content(&mut there) == before, "the values are other ones");
    assert_eq!(there.text(&["PEXPIRETIME", "{b}hash"]), "4000000000000");
    assert_eq!(keys_of(&cluster, 0), "0");
}

#[test]
fn groups_share_by_keys_bytes_load_and_weight() {
    let cluster = Cluster::up(&[&["--groups", "2", "--replicas", "0"], &PATIENT[..]].concat());
    let mut client = RedisClient::connect(cluster.address);
    // 40 slots of group 1 have all keys.
    for slot in 0..40 {
        let tag = tag_of(slot);
        for number in 0..5 {
            client.text(&["SET", &format!("{{{tag}}}{number}"), &"v".repeat(100)]);
        }
    }
    assert_eq!([keys_of(&cluster, 0), keys_of(&cluster, 1)], ["200", "0"]);
    cluster.refused(&["slot", "rebalance", "--weight", "7=1"], "there is no group 7");
    cluster.refused(&["slot", "rebalance", "--weight", "1:2"], "'1:2' is no share of a group: 3=1.5 is expected");
    let said = cluster.done(&["slot", "rebalance", "--by", "keys"]);
    assert!(said.contains("20 slots have moved"), "{said}");
    assert_eq!([keys_of(&cluster, 0), keys_of(&cluster, 1)], ["100", "100"]);
    assert_eq!(slots(&cluster), [8172, 8212]);
    for by in ["keys", "bytes"] {
        let said = cluster.done(&["slot", "rebalance", "--by", by]);
        assert!(said.contains("no slot is to move"), "{by}: {said}");
    }
    // Without load there is nothing to share.
    assert!(cluster.done(&["slot", "rebalance", "--by", "load"]).contains("done"));
    cluster.done(&["slot", "rebalance", "--weight", "1=0.5", "--weight", "2=1.5"]);
    assert_eq!(slots(&cluster), [4096, 12288]);
    assert_eq!(client.text(&["DBSIZE"]), "200");
}

/// Some text of a slot.
fn tag_of(slot: u16) -> String {
    (0..).map(|number: u32| format!("t{number}")).find(|tag| keyspace_slot(tag) == slot).unwrap()
}

/// Redis Cluster's CRC16 (XMODEM), bit by bit.
fn keyspace_slot(tag: &str) -> u16 {
    let sum = tag.bytes().fold(0_u16, |sum, byte| {
        (0..8).fold(sum ^ u16::from(byte) << 8, |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 })
    });
    sum % 16_384
}

/// Slots move slowly, `harm` is done in the middle, and then they go on to their end with nothing lost.
fn with_harm(arguments: &[&str], harm: impl FnOnce(&mut Cluster)) {
    let mut cluster = Cluster::up(arguments);
    fill(&cluster);
    cluster.done(&["slot", "rate", SLOW, "--latency", "0"]);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let mut moving = begin(&cluster, &["slot", "migrate", "3000", "3999", "2"]);
    wait_for_copy(&cluster);
    harm(&mut cluster);
    assert!(!moves(&cluster).is_empty(), "the harm was done when slots had moved: {}", cluster.log());
    let _ = moving.kill();
    let _ = moving.wait();
    writer.wait_more(20);
    cluster.wait_well();
    cluster.done(&["slot", "rate", "off"]);
    wait_for_rest(&cluster);
    assert_eq!(slots(&cluster), [7192, 9192]);
    writer.wait_more(20);
    let (done, _) = writer.end();
    nothing_is_lost(cluster.address, "b", &done);
    all_is_there(&cluster);
}

/// The address of a master; its process may have just ended.
fn master_of(cluster: &Cluster, group: usize) -> String {
    cluster.status()["groups"][group]["master"].as_str().unwrap().to_owned()
}

/// Groups whose replicas take over when a master dies.
const SAFE: [&str; 6] = ["--groups", "2", "--replicas", "1", "--ack", "1"];

#[test]
#[ignore = "kills servers: make test-cluster"]
fn a_target_that_dies_is_copied_to_anew() {
    with_harm(&SAFE, |cluster| {
        let (former, pid) = cluster.master(1);
        signal_process(pid, Signal::KILL);
        wait_within(PATIENCE, "another one is the master", || master_of(cluster, 1) != former);
    });
}

#[test]
#[ignore = "kills servers: make test-cluster"]
fn a_source_that_dies_is_copied_from_anew() {
    with_harm(&SAFE, |cluster| {
        let (former, pid) = cluster.master(0);
        signal_process(pid, Signal::KILL);
        wait_within(PATIENCE, "another one is the master", || master_of(cluster, 0) != former);
    });
}

#[test]
#[ignore = "stops servers: make test-cluster"]
fn a_target_that_hangs_is_replaced_and_fenced() {
    with_harm(&SAFE, |cluster| {
        let (former, pid) = cluster.master(1);
        signal_process(pid, Signal::STOP);
        wait_within(PATIENCE, "another one is the master", || master_of(cluster, 1) != former);
        signal_process(pid, Signal::CONT);
    });
}

#[test]
#[ignore = "kills the agent: make test-cluster"]
fn an_agent_that_dies_goes_on_where_it_was() {
    with_harm(&[&SAFE[..], &PATIENT[..]].concat(), |cluster| {
        cluster.agent.kill().unwrap();
        cluster.agent.wait().unwrap();
        cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &PATIENT);
        wait_within(PATIENCE, "the agent answers", || cluster.try_status().is_some());
        assert!(!moves(cluster).is_empty(), "the move is known");
    });
}

/// Moves that are cancelled.
const ROUNDS: u64 = 20;
/// A move that is not slowed is over by then, in milliseconds.
const MOMENT_MAX: f64 = 2_000.0;

/// When a move is cancelled: any moment, early ones more often, as most phases are short.
fn moment(seed: u64, round: u64) -> u64 {
    let share = (mixed(seed << 32 | round) >> 11) as f64 / (1_u64 << 53) as f64;
    (share * share * MOMENT_MAX) as u64
}

#[test]
#[ignore = "takes a minute: make test-cluster"]
fn a_move_may_be_cancelled_at_any_moment() {
    let cluster = Cluster::up(&[&["--groups", "2", "--replicas", "0"], &PATIENT[..]].concat());
    fill(&cluster);
    let writer = Writer::start(cluster.address, "b");
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for round in 0..ROUNDS {
        let wait_ms = moment(seed, round);
        eprintln!("SEED={seed}: round {round} cancels after {wait_ms} ms");
        let mut moving = begin(&cluster, &["slot", "migrate", "3000", "3500", "2"]);
        wait_within(PATIENCE, "slots are on their way", || !moves(&cluster).is_empty() || slots(&cluster)[1] > 8192);
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        cluster.done(&["slot", "cancel"]);
        moving.wait().unwrap();
        wait_for_rest(&cluster);
        // It has moved, or has not: it goes back.
        if slots(&cluster)[0] != 8192 {
            cluster.done(&["slot", "migrate", "3000", "3500", "1"]);
        }
        assert_eq!(slots(&cluster), [8192, 8192]);
        writer.wait_more(5);
    }
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
    nothing_is_lost(cluster.address, "b", &done);
    all_is_there(&cluster);
    let counts = [keys_of(&cluster, 0), keys_of(&cluster, 1)].map(|count| count.parse::<usize>().unwrap());
    assert_eq!(counts[0] + counts[1], KEYS as usize + done.len(), "no key is left where it does not belong");
}

#[test]
#[ignore = "fills a target's memory: make test-cluster"]
fn a_target_that_takes_no_more_stops_nobody() {
    let cluster = Cluster::up(&[&["--groups", "2", "--replicas", "0"], &PATIENT[..]].concat());
    fill(&cluster);
    let mut target = RedisClient::connect(cluster.master(1).0.parse().unwrap());
    assert_eq!(target.text(&["CONFIG", "SET", "min-replicas-to-write", "5"]), "OK");
    let before = keys_of(&cluster, 0);
    let mut moving = begin(&cluster, &["slot", "migrate", "0", "99", "2"]);
    wait_within(PATIENCE, "it is told why", || {
        let moves = moves(&cluster);
        moves.first().and_then(|one| one["problem"].as_str()).is_some_and(|problem| problem.contains("NOREPLICAS"))
    });
    assert!(!cluster.command(&["check"]).status.success());
    assert_eq!(keys_of(&cluster, 0), before);
    cluster.done(&["slot", "cancel"]);
    target.text(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    moving.wait().unwrap();
    wait_for_rest(&cluster);
    assert_eq!((slots(&cluster), json!(keys_of(&cluster, 0))), (vec![8192, 8192], json!(before)));
    all_is_there(&cluster);
}

/// A cluster whose stores get an error, and no signal, for a file that becomes longer than it may: as if the disk were full.
fn up_with_files_that_may_end() -> Cluster {
    let (address, folder) = (free_ports(), std::sync::Arc::new(Folder::new()));
    let output = std::fs::File::create(folder.0.join("up.out")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" cluster up \"$@\"", env!("CARGO_BIN_EXE_tidegate")]);
    command.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.arg("--dir").arg(&folder.0).args(["--groups", "2", "--replicas", "0"]).args(PATIENT);
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let cluster = Cluster { agent: command.spawn().unwrap(), address, folder };
    wait_within(PATIENCE, "the cluster serves", || cluster.is_well());
    cluster
}

#[test]
#[ignore = "fills a target's disk: make test-cluster"]
fn a_target_whose_disk_is_full_stops_nobody_and_gets_the_slots_when_it_is_not() {
    let cluster = up_with_files_that_may_end();
    fill(&cluster);
    cluster.done(&["slot", "rate", SLOW, "--latency", "0"]);
    let writer = Writer::start(cluster.address, "b");
    let mut moving = begin(&cluster, &["slot", "migrate", "3000", "3999", "2"]);
    wait_for_copy(&cluster);
    let pid = Pid::from_raw(cluster.master(1).1 as i32);
    let former = prlimit(pid, Resource::Fsize, Rlimit { current: Some(4_000), maximum: None }).unwrap();
    // What the target had taken when it could write no more it does not answer: that is waited for first.
    wait_within(2 * PATIENCE, "it is told why", || {
        let moves = moves(&cluster);
        moves.iter().filter_map(|one| one["problem"].as_str()).any(|problem| problem.contains("MISCONF"))
    });
    // The slots are where they were, and are written there.
    assert_eq!(slots(&cluster), [8192, 8192]);
    writer.wait_more(50);
    prlimit(pid, Resource::Fsize, former).unwrap();
    cluster.done(&["slot", "rate", "off"]);
    wait_for_rest(&cluster);
    moving.wait().unwrap();
    assert_eq!(slots(&cluster), [7192, 9192]);
    writer.wait_more(20);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
    nothing_is_lost(cluster.address, "b", &done);
    all_is_there(&cluster);
}
