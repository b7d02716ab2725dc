//! A node of a cluster, as its clients see it.

use std::{cell::Cell, rc::Rc};

use crate::{
    Server,
    config::{Flag, Settings},
    groups::testing::Shard,
};

/// The slot of "a" is 15495, of "b" 3300, of "c" 7365, of "foo" 12182.
const TWO: &str = "m 10.0.0.1:6379@0 myself,master - 0 0 1 connected 0-9999
o 10.0.0.2:6379@0 master - 0 0 1 connected 10000-16383";

fn node(clock: &Rc<Cell<u64>>) -> Shard {
    let settings = Settings { cluster_enabled: Flag(true), ..Settings::default() };
    let clock = Rc::clone(clock);
    Shard(Server::new(settings, 7, 7, 1000, None, Rc::new(move || clock.get())))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

fn told(epoch: u64, text: &str) -> String {
    format!("CLUSTER TOPOLOGY {epoch} {}", quoted(text))
}

#[test]
fn clients_are_sent_to_the_owner() {
    let mut shard = node(&Rc::default());
    let client = shard.client();
    assert_eq!(shard.ask(client, "SET b 1"), "-CLUSTERDOWN Hash slot not served ");
    assert_eq!(shard.ask(client, &told(1, TWO)), "+OK ");
    assert_eq!(shard.ask(client, "SET b 1"), "+OK ");
    assert_eq!(shard.ask(client, "SET a 1"), "-MOVED 15495 10.0.0.2:6379 ");
    assert_eq!(shard.ask(client, "MGET b c"), "-CROSSSLOT Keys in request don't hash to the same slot ");
    assert_eq!(shard.ask(client, "EVAL \"return redis.call('get',KEYS[1])\" 1 b"), "$1 1 ");
    assert_eq!(shard.ask(client, "CLUSTER KEYSLOT foo"), ":12182 ");
    assert_eq!(shard.ask(client, "CLUSTER MYID"), "$1 m ");
    assert_eq!(shard.ask(client, "CLUSTER COUNTKEYSINSLOT 3300"), ":1 ");
    assert_eq!(shard.ask(client, "CLUSTER GETKEYSINSLOT 3300 10"), "*1 $1 b ");
    assert_eq!(shard.ask(client, "CLUSTER COUNTKEYSINSLOT 3301"), ":0 ");
    assert_eq!(shard.ask(client, "SELECT 1"), "-ERR SELECT is not allowed in cluster mode ");
    assert_eq!(shard.ask(client, &told(0, TWO)), "-STALEEPOCH this node knows epoch 1, and was told of epoch 0 ");
    assert!(shard.ask(client, "CLUSTER MEET 127.0.0.1 1").contains("`tidegate cluster` decides"));
    let statistics = shard.ask(client, "CLUSTER SLOT-STATS SLOTSRANGE 3299 3300");
    assert!(statistics.starts_with("*2 *2 :3299 *6 $9 key-count :0 $12 memory-bytes :0 $8 cpu-usec :0 *2 :3300 *6 $9 key-count :1 $12 memory-bytes :"), "{statistics}");
    let load = shard.ask(client, "CLUSTER SLOT-STATS SLOTSRANGE 3300 3300 METRIC cpu-usec");
    assert!(load.starts_with("*1 *2 :3300 *2 $8 cpu-usec :") && !load.contains(":0"), "{load}");
    assert_eq!(shard.ask(client, "CLUSTER SLOT-STATS SLOTSRANGE 12000 12001"), "*0 ", "they are another node's");
    assert!(shard.ask(client, "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 5").starts_with("-ERR syntax"));
    let proxy = shard.client();
    assert_eq!(shard.ask(proxy, "CLUSTER CONNECTION PROXY"), "+OK ");
    assert_eq!(shard.ask(proxy, "MGET b c"), "*2 $1 1 $-1 ");
    assert_eq!(shard.ask(proxy, "MGET b a"), "-MOVED 15495 10.0.0.2:6379 ");
    let mover = shard.client();
    assert_eq!(shard.ask(mover, "CLUSTER CONNECTION MOVER 15000 16000 1"), "+OK ");
    assert_eq!(shard.ask(mover, "SET a moved"), "+OK ");
    // Of two that fill a slot the last counts.
    let later = shard.client();
    assert!(shard.ask(later, "CLUSTER CONNECTION MOVER 15495 15495 0").starts_with("-STALEEPOCH"));
    assert!(shard.ask(later, "CLUSTER CONNECTION MOVER 3300 3300 1").starts_with("-STALEMOVER"));
    assert!(shard.ask(later, "CLUSTER CONNECTION MOVER").starts_with("-ERR syntax"));
    assert_eq!(shard.ask(later, "CLUSTER CONNECTION MOVER 15495 15495 2"), "+OK ");
    assert!(shard.ask(mover, "SET a late").starts_with("-STALEMOVER slot 15495"));
    assert!(shard.ask(mover, "CLUSTER DELKEYSINSLOT 15495 15495 10").starts_with("-STALEMOVER"));
    assert_eq!(shard.ask(later, "GET a"), "$5 moved ");
    // Whoever looks after the cluster removes what came, and nothing more comes.
    assert_eq!(shard.ask(client, "CLUSTER DELKEYSINSLOT 15495 15495 10"), ":1 ");
    assert!(shard.ask(later, "SET a late").starts_with("-STALEMOVER"));
}

#[test]
fn a_transaction_is_refused_when_its_slots_have_moved_since() {
    let mut shard = node(&Rc::default());
    let (client, other) = (shard.client(), shard.client());
    shard.ask(client, &told(1, TWO));
    shard.ask(client, "MULTI");
    assert_eq!(shard.ask(client, "SET b 1"), "+QUEUED ");
    shard.ask(other, &told(2, &TWO.replace("0-9999", "0-99").replace("10000-16383", "100-16383")));
    assert_eq!(shard.ask(client, "EXEC"), "-EXECABORT Transaction discarded because of: MOVED 3300 10.0.0.2:6379 ");
}

#[test]
fn commands_on_paused_slots_wait_and_follow_the_slot() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let (client, other, blocked) = (shard.client(), shard.client(), shard.client());
    shard.ask(client, &told(1, TWO));
    shard.ask(client, "SET b 1");
    assert_eq!(shard.ask(blocked, "BLPOP {b}list 0"), "");
    assert_eq!(shard.ask(other, "CLUSTER PAUSE 3300 3300 500"), "+OK ");
    assert_eq!(shard.ask(client, "GET b"), "");
    assert_eq!(shard.ask(other, "SET c 1"), "+OK ");
    let moved = TWO.replace("0-9999", "0-3299 3301-9999").replace("10000-16383", "3300 10000-16383");
    assert_eq!(shard.ask(other, &told(2, &moved)), "+OK ");
    shard.0.run(client, 1000);
    assert_eq!(shard.output(client), "-MOVED 3300 10.0.0.2:6379 ");
    assert_eq!(shard.output(blocked), "-MOVED 3300 10.0.0.2:6379 ");
    shard.log();
    assert_eq!(
        shard.ask(other, "CLUSTER DELKEYSINSLOT 0 16383 100"),
        "-ERR slot 0 is this node's own: its keys are removed by no more than DEL "
    );
    assert_eq!(shard.ask(other, "CLUSTER DELKEYSINSLOT 3300 3300 100"), ":1 ");
    assert_eq!(shard.log(), ["DEL b"]);
    assert_eq!(shard.ask(other, "CLUSTER DELKEYSINSLOT 3300 3300 100"), ":0 ");
    // A pause that nobody ends is over by itself.
    shard.ask(other, "CLUSTER PAUSE 0 9999 500");
    assert_eq!(shard.ask(client, "GET c"), "");
    clock.set(500_001);
    shard.0.tick(2000);
    shard.0.run(client, 2000);
    assert_eq!(shard.output(client), "$1 1 ");
}

#[test]
fn who_has_no_lease_any_more_serves_nothing() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let client = shard.client();
    assert_eq!(shard.ask(client, &format!("{} LEASE 100", told(1, TWO))), "+OK ");
    assert_eq!(shard.ask(client, "SET b 1"), "+OK ");
    clock.set(100_000);
    assert_eq!(shard.ask(client, "GET b"), "-CLUSTERDOWN The cluster is down ");
    assert_eq!(shard.ask(client, "FLUSHALL"), "-CLUSTERDOWN The cluster is down ");
    assert!(shard.ask(client, "CLUSTER INFO").contains("cluster_state:fail"));
    assert_eq!(shard.ask(client, "CLUSTER LEASE 1 100"), "+OK ");
    assert_eq!(shard.ask(client, "GET b"), "$1 1 ");
    assert!(shard.ask(client, "CLUSTER LEASE 2 100").starts_with("-STALEEPOCH"));
    // From a moment that the node has told: not from when the command is run.
    assert!(shard.ask(client, "CLUSTER LEASE 1 100 SINCE 0").starts_with(':'));
    assert!(shard.ask(client, "CLUSTER LEASE 1 100 SINCE 9999999999999").starts_with("-ERR SINCE"));
    assert!(shard.ask(client, "CLUSTER LEASE 1 100 UNTIL 0").starts_with("-ERR syntax"));
}

#[test]
fn a_majority_of_voters_lets_a_node_serve() {
    let clock = Rc::new(Cell::new(5));
    let mut shard = node(&clock);
    let client = shard.client();
    assert_eq!(shard.ask(client, &format!("{} LEASE 0 VOTERS x,y,z", told(1, TWO))), "+OK ");
    let info = shard.ask(client, "INFO server");
    let run = info
        .split("run_id:")
        .nth(1)
        .unwrap()
        .split("\r\n")
        .next()
        .unwrap_or_default()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let vote = |epoch: u64, voter: &str| format!("CLUSTER LEASE {epoch} 100 SINCE 5 VOTER {voter} RUN \"{run}\"");
    assert_eq!(shard.ask(client, &vote(1, "x")), ":5 ");
    assert_eq!(shard.ask(client, "SET b 1"), "-CLUSTERDOWN The cluster is down ");
    assert!(shard.ask(client, &vote(2, "y")).starts_with("-STALEEPOCH"));
    assert!(shard.ask(client, &vote(1, "w")).starts_with("-ERR 'w' is no voter"));
    assert!(shard.ask(client, "CLUSTER LEASE 1 100 SINCE 5 VOTER y RUN no").starts_with("-STALERUN"));
    assert_eq!(shard.ask(client, &vote(1, "y")), ":5 ");
    assert_eq!(shard.ask(client, "SET b 1"), "+OK ");
    clock.set(100_005);
    assert_eq!(shard.ask(client, "SET b 1"), "-CLUSTERDOWN The cluster is down ");
}

#[test]
fn an_agent_that_leads_no_more_steers_nothing() {
    let mut shard = node(&Rc::default());
    let (before, after) = (shard.client(), shard.client());
    assert_eq!(shard.ask(before, "CLUSTER CONNECTION AGENT 4"), "+OK ");
    assert_eq!(shard.ask(before, &told(1, TWO)), "+OK ");
    assert_eq!(shard.ask(after, "CLUSTER CONNECTION AGENT 5"), "+OK ");
    for command in ["CONFIG SET replica-ack 0", "REPLICAOF NO ONE", "CLUSTER PAUSE END", &told(2, TWO)] {
        assert!(shard.ask(before, command).starts_with("-STALETERM"), "{command}");
    }
    assert!(shard.ask(before, "CLUSTER CONNECTION AGENT 4").starts_with("-STALETERM"));
    assert_eq!(shard.ask(after, &told(2, TWO)), "+OK ");
}

#[test]
fn a_store_that_stands_alone_has_no_cluster() {
    let mut shard = Shard::new();
    let client = shard.client();
    for command in ["CLUSTER INFO", "CLUSTER HELP", "CLUSTER SLOTS", "READONLY", "ASKING", "CLUSTER LEASE 1 1"] {
        assert_eq!(shard.ask(client, command), "-ERR This instance has cluster support disabled ", "{command}");
    }
}
