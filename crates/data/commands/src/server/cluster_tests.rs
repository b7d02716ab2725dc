//! A node of a cluster, as its clients see it.

use std::{cell::Cell, rc::Rc};

use crate::{
    Server, SessionId,
    config::{Flag, Settings},
    groups::testing::Shard,
};

use super::Request;

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
    assert!(shard.ask(client, "CLUSTER MEET nowhere 1").starts_with("-ERR Invalid node address specified"));
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
fn a_walk_of_own_slots_ends_where_the_next_one_is_anothers() {
    let mut shard = node(&Rc::default());
    let (client, mover) = (shard.client(), shard.client());
    shard.ask(client, &told(1, TWO));
    shard.ask(client, "SET b 1");
    shard.ask(client, "SET c 1");
    // What is on its way here is not told.
    shard.ask(mover, "CLUSTER CONNECTION MOVER 10000 16383 1");
    assert_eq!(shard.ask(mover, "SET a 1"), "+OK ");
    let end = keyspace::slot::cursor(10_000);
    assert_eq!(
        shard.ask(client, "SCAN 0 COUNT 100 SLOTS OWN"),
        format!("*2 ${} {end} *2 $1 b $1 c ", end.to_string().len())
    );
    assert_eq!(shard.ask(client, &format!("SCAN {end} SLOTS OWN")), "-MOVED 10000 10.0.0.2:6379 ");
    assert_eq!(shard.ask(client, "SCAN 0 COUNT 1 SLOTS ALL"), "-ERR syntax error ");
    // Of its slots there are two ranges.
    shard.ask(client, &told(2, &TWO.replace("0-9999", "0-3300 7365-16383").replace("10000-16383", "3301-7364")));
    let (end, next) = (keyspace::slot::cursor(3_301), keyspace::slot::cursor(7_365));
    assert_eq!(
        shard.ask(client, "SCAN 0 COUNT 100 SLOTS OWN"),
        format!("*2 ${} {end} *1 $1 b ", end.to_string().len())
    );
    assert_eq!(shard.ask(client, &format!("SCAN {next} COUNT 100 SLOTS OWN")), "*2 $1 0 *2 $1 c $1 a ");
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
    // It has just become the master: its first lease is on its way.
    let waits = shard.client();
    assert_eq!(shard.ask(waits, "SET b 0"), "");
    assert!(shard.ask(client, &vote(2, "y")).starts_with("-STALEEPOCH"));
    assert!(shard.ask(client, &vote(1, "w")).starts_with("-ERR 'w' is no voter"));
    assert!(shard.ask(client, "CLUSTER LEASE 1 100 SINCE 5 VOTER y RUN no").starts_with("-STALERUN"));
    assert_eq!(shard.ask(client, &vote(1, "y")), ":5 ");
    shard.0.run(waits, 1000);
    assert_eq!(shard.output(waits), "+OK ");
    assert_eq!(shard.ask(client, "SET b 1"), "+OK ");
    clock.set(100_005);
    assert_eq!(shard.ask(client, "SET b 1"), "-CLUSTERDOWN The cluster is down ");
}

#[test]
fn a_new_master_has_commands_wait_for_its_first_lease_and_not_for_long() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let (client, agent) = (shard.client(), shard.client());
    assert_eq!(shard.ask(agent, &format!("{} LEASE 0", told(1, TWO))), "+OK ");
    assert_eq!(shard.ask(client, "SET b 1"), "");
    assert_eq!(shard.ask(agent, "CLUSTER LEASE 1 100"), "+OK ");
    shard.0.run(client, 1000);
    assert_eq!(shard.output(client), "+OK ");
    // A lease that has ended was not the first one.
    clock.set(200_000);
    assert_eq!(shard.ask(client, "GET b"), "-CLUSTERDOWN The cluster is down ");
    // Once more the master, and nobody gives it a lease.
    assert_eq!(shard.ask(agent, &format!("{} LEASE 0", told(2, &TWO.replace("0 0 1", "0 0 2")))), "+OK ");
    assert_eq!(shard.ask(client, "GET b"), "");
    clock.set(1_200_001);
    shard.0.tick(2000);
    shard.0.run(client, 2000);
    assert_eq!(shard.output(client), "-CLUSTERDOWN The cluster is down ");
}

#[test]
fn what_a_replica_is_read_for_is_told_without_a_lease() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let (client, mover) = (shard.client(), shard.client());
    assert_eq!(shard.ask(mover, "CLUSTER CONNECTION MOVER 0 16383 0"), "+OK ");
    assert_eq!(shard.ask(mover, "SET b 1"), "+OK ");
    let replica = TWO.replace("myself,master - ", "myself,slave o ").replace(" 0-9999", "").replace("10000-", "0-");
    assert_eq!(shard.ask(mover, &format!("{} LEASE 0", told(1, &replica))), "+OK ");
    assert!(
        shard.ask(mover, "CLUSTER INFO").starts_with("$")
            && shard.ask(mover, "CLUSTER INFO").contains("cluster_state:ok")
    );
    assert_eq!(shard.ask(client, "GET b"), "-MOVED 3300 10.0.0.2:6379 ");
    assert_eq!(shard.ask(client, "READONLY"), "+OK ");
    assert_eq!(shard.ask(client, "GET b"), "$1 1 ");
    assert!(!shard.0.shared.sessions.get_mut(client).unwrap().output.promise.is_under_lease);
    assert_eq!(shard.ask(client, "READWRITE"), "+OK ");
    assert_eq!(shard.ask(client, "GET b"), "-MOVED 3300 10.0.0.2:6379 ");
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

/// What was passed on to other nodes since this was asked last, as words.
fn passed_on(shard: &mut Shard) -> Vec<String> {
    let all = std::iter::from_fn(|| shard.0.poll_request());
    let words = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let words = text.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ")
    };
    all.filter_map(
        |request| if let Request::AskNodes(forward) = request { Some(words(&forward.commands)) } else { None },
    )
    .collect()
}

/// Who wants nothing of other nodes any more.
fn left(shard: &Shard) -> Vec<SessionId> {
    let requests = shard.0.shared.outbox.iter();
    requests.filter_map(|request| if let Request::LeaveNodes(id) = request { Some(*id) } else { None }).collect()
}

/// Answers what was passed on last.
fn answered(shard: &mut Shard, answer: &str, is_bound: bool) {
    let number = shard.0.shared.sessions.forwards.waiting.last().unwrap().0;
    shard.0.finish_passed_on(number, answer.as_bytes().to_vec(), is_bound);
}

fn proxying() -> (Shard, SessionId) {
    let settings = Settings { cluster_enabled: Flag(true), cluster_proxy: Flag(true), ..Settings::default() };
    let mut shard = Shard(Server::new(settings, 7, 7, 1000, None, Rc::new(|| 0)));
    let client = shard.client();
    shard.ask(client, &told(1, TWO));
    (shard, client)
}

#[test]
fn commands_of_plain_clients_are_passed_on_to_the_nodes_that_have_their_keys() {
    let (mut shard, client) = proxying();
    for command in
        ["SET b 1", "MGET b c", "MSET b 1 c 2", "PING", "MULTI", "GET b", "EXEC", "SUBSCRIBE x", "UNSUBSCRIBE x"]
    {
        assert!(!shard.ask(client, command).is_empty(), "{command}");
        assert_eq!(passed_on(&mut shard), Vec::<String>::new(), "{command}");
    }
    for command in
        ["SET a 1", "MGET a b", "SINTER a b", "BLPOP a 0", "EVAL x 1 a", "SCAN 0", "DBSIZE", "FLUSHALL", "PUBLISH x y"]
    {
        assert_eq!(shard.ask(client, command), "", "{command}");
        assert_eq!(passed_on(&mut shard), [command]);
        answered(&mut shard, "+X\r\n", false);
        assert_eq!(shard.output(client), "+X ", "{command}");
    }
    // Commands behind it wait, so they run in order.
    shard.ask(client, "SET a 1");
    assert_eq!(shard.ask(client, "GET b"), "");
    answered(&mut shard, "+OK\r\n", false);
    assert_eq!(shard.output(client), "+OK $1 1 ");
    passed_on(&mut shard);
    // Without the setting, and for those who know clusters, nothing is.
    shard.ask(client, "CONFIG SET cluster-proxy no");
    assert_eq!(shard.ask(client, "SET a 1"), "-MOVED 15495 10.0.0.2:6379 ");
    shard.ask(client, "CONFIG SET cluster-proxy yes");
    for word in ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "READONLY", "ASKING", "CLUSTER CONNECTION PROXY"] {
        let knowing = shard.client();
        shard.ask(knowing, word);
        assert_eq!(shard.ask(knowing, "SET a 1"), "-MOVED 15495 10.0.0.2:6379 ", "{word}");
        assert_eq!(shard.ask(knowing, "DBSIZE"), ":2 ", "{word}");
    }
}

#[test]
fn a_transaction_of_a_plain_client_runs_where_its_keys_are() {
    let (mut shard, client) = proxying();
    shard.ask(client, "MULTI");
    assert_eq!((shard.ask(client, "SET a 1"), shard.ask(client, "GET a")), ("+QUEUED ".into(), "+QUEUED ".into()));
    assert_eq!(shard.ask(client, "EXEC"), "");
    assert_eq!(passed_on(&mut shard), ["MULTI SET a 1 GET a EXEC"]);
    answered(&mut shard, "*2\r\n+OK\r\n$1\r\n1\r\n", false);
    assert_eq!(shard.output(client), "*2 +OK $1 1 ");
    // One that had a wrong command does not run anywhere.
    for command in ["MULTI", "SET a", "SET a 1"] {
        shard.ask(client, command);
    }
    assert!(shard.ask(client, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(passed_on(&mut shard), Vec::<String>::new());
    // What watches a key elsewhere has a connection there, and goes there until that is over.
    shard.ask(client, "WATCH a");
    answered(&mut shard, "+OK\r\n", true);
    shard.output(client);
    for (command, is_bound) in [("GET b", true), ("MULTI", true), ("SET a 2", true), ("EXEC", false)] {
        assert_eq!(shard.ask(client, command), "");
        answered(&mut shard, "+X\r\n", is_bound);
        shard.output(client);
    }
    assert_eq!(passed_on(&mut shard), ["WATCH a", "GET b", "MULTI", "SET a 2", "EXEC"]);
    assert_eq!(shard.ask(client, "GET b"), "$-1 ");
    // Watched here and changed elsewhere cannot be one.
    for command in ["WATCH b", "MULTI", "SET a 1"] {
        shard.ask(client, command);
    }
    assert!(shard.ask(client, "EXEC").starts_with("-EXECABORT Transaction discarded because of: CROSSSLOT"));
    shard.ask(client, "WATCH b");
    assert!(shard.ask(client, "WATCH a").starts_with("-CROSSSLOT"));
}

#[test]
fn what_another_node_was_asked_is_answered_though_this_one_becomes_a_replica() {
    let (mut shard, client) = proxying();
    let waiting = shard.client();
    shard.ask(waiting, "BLPOP b 0");
    shard.ask(client, "BLPOP a 0");
    assert_eq!(passed_on(&mut shard), ["BLPOP a 0"]);
    shard.0.unblock_all();
    assert!(shard.output(waiting).starts_with("-UNBLOCKED "));
    assert_eq!(shard.output(client), "");
    answered(&mut shard, "*2\r\n$1\r\na\r\n$1\r\nx\r\n", false);
    assert_eq!(shard.output(client), "*2 $1 a $1 x ");
}

#[test]
fn keys_of_slots_on_their_way_expire_when_their_owner_says_so() {
    let mut shard = node(&Rc::default());
    let (client, mover) = (shard.client(), shard.client());
    assert_eq!(shard.ask(client, &told(1, TWO)), "+OK ");
    assert_eq!(shard.ask(mover, "CLUSTER CONNECTION MOVER 15495 15495 1"), "+OK ");
    // A copy is of some time ago: by then the owner has given its keys other times, which come behind it.
    for (copied, changed) in [("PEXPIREAT a 500", "PEXPIREAT a 9000"), ("PEXPIREAT a 1500", "PERSIST a")] {
        assert_eq!(shard.ask(mover, "SET a 1"), "+OK ");
        assert_eq!(shard.ask(mover, copied), ":1 ");
        assert_eq!(shard.ask(client, "SET b 1 PX 100"), "+OK ");
        shard.0.tick(2000);
        assert_eq!(shard.ask(mover, changed), ":1 ", "{copied}");
        shard.0.run(client, 2000);
        assert_eq!(shard.ask(mover, "GET a"), "$1 1 ");
    }
    assert_eq!(shard.ask(mover, "PEXPIREAT a 500"), ":1 ");
    assert_eq!(shard.ask(mover, "PEXPIRE a 100"), ":1 ");
    assert_eq!(shard.ask(mover, "PEXPIRETIME a"), ":1100 ");
    assert_eq!(shard.ask(mover, "PTTL a"), ":100 ");
    assert_eq!(shard.ask(mover, "PEXPIREAT a 9000"), ":1 ");
    // They are its own from now on.
    let all = TWO.replace("0-9999", "0-16383").replace(" 10000-16383", "");
    assert_eq!(shard.ask(client, &told(2, &all)), "+OK ");
    shard.0.tick(8000);
    assert_eq!(shard.ask(client, "GET a"), "$1 1 ");
    assert_eq!(shard.ask(client, "DBSIZE"), ":1 ", "its own have gone again");
    shard.0.tick(9000);
    assert_eq!(shard.ask(client, "DBSIZE"), ":0 ");
}

/// What it logged without a lease, others would have to have: who may serve judges it by where its log ends.
#[test]
fn a_node_that_may_not_serve_removes_no_key_whoever_looks() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let client = shard.client();
    assert_eq!(shard.ask(client, &format!("{} LEASE 100", told(1, TWO))), "+OK ");
    assert_eq!(shard.ask(client, "SET b 1 PX 100"), "+OK ");
    assert_eq!(shard.ask(client, "SET c 1 PX 100"), "+OK ");
    shard.log();
    clock.set(100_000);
    // By then their time has come.
    let ask = |shard: &mut Shard, command: &str| {
        shard.0.input(client).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        shard.0.run(client, 2000);
        shard.output(client)
    };
    assert_eq!(ask(&mut shard, "SCAN 0"), "*2 $1 0 *0 ");
    assert_eq!(ask(&mut shard, "EVAL \"return redis.call('SCAN', '0')\" 0"), "*2 $1 0 *0 ");
    // Nothing is removed, so that it would be drawn for ever.
    let drawn = ask(&mut shard, "RANDOMKEY");
    assert!(drawn == "$1 b " || drawn == "$1 c ", "{drawn}");
    shard.0.tick(2000);
    assert_eq!(shard.log(), [""; 0]);
    // With a lease they go when somebody looks.
    assert_eq!(ask(&mut shard, "CLUSTER LEASE 1 100"), "+OK ");
    assert_eq!(ask(&mut shard, "SCAN 0"), "*2 $1 0 *0 ");
    let mut log = shard.log();
    log.sort();
    assert_eq!(log, ["DEL b", "DEL c"]);
}

#[test]
fn who_waits_for_a_key_is_sent_elsewhere_without_a_lease() {
    let clock = Rc::new(Cell::new(0));
    let mut shard = node(&clock);
    let (client, mover) = (shard.client(), shard.client());
    assert_eq!(shard.ask(mover, &format!("{} LEASE 1000", told(1, TWO))), "+OK ");
    assert_eq!(shard.ask(client, "BLPOP b 0"), "");
    let is_under_lease =
        |shard: &mut Shard| shard.0.shared.sessions.get_mut(client).unwrap().output.promise.is_under_lease;
    assert!(is_under_lease(&mut shard));
    let replica = TWO.replace("myself,master - ", "myself,slave o ").replace(" 0-9999", "").replace("10000-", "0-");
    assert_eq!(shard.ask(mover, &format!("{} LEASE 0", told(2, &replica))), "+OK ");
    assert!(!is_under_lease(&mut shard));
    assert_eq!(shard.output(client), "-MOVED 3300 10.0.0.2:6379 ");
}

#[test]
fn who_leaves_is_told_to_whoever_passes_commands_on() {
    let (mut shard, client) = proxying();
    let other = shard.client();
    shard.ask(client, "BLPOP a 0");
    shard.ask(other, "PING");
    shard.0.disconnect(client);
    shard.0.disconnect(other);
    assert_eq!(left(&shard), [client]);
    // Its answer is nobody's.
    answered(&mut shard, "*2\r\n$1\r\na\r\n$1\r\nx\r\n", false);
    let next = shard.client();
    shard.ask(next, "GET a");
    answered(&mut shard, "$-1\r\n", false);
    shard.output(next);
    assert_eq!(shard.ask(next, "RESET"), "+RESET ");
    assert_eq!(left(&shard), [client, next]);
}

/// A process that keeps terms.
struct Keeping(Rc<std::cell::Cell<u64>>);

impl crate::host::Host for Keeping {
    fn kept_term(&self) -> u64 {
        self.0.get()
    }

    fn keep_term(&self, term: u64) -> Result<(), String> {
        if term > 99 {
            return Err("no space left".to_owned());
        }
        self.0.set(term);
        Ok(())
    }
}

#[test]
fn an_agent_that_leads_no_more_is_refused_after_a_restart_too() {
    let kept = Rc::new(std::cell::Cell::new(0));
    let start = || {
        let mut shard = node(&Rc::default());
        shard.0.shared.set_host(Box::new(Keeping(Rc::clone(&kept))));
        shard
    };
    let mut shard = start();
    let agent = shard.client();
    assert_eq!(shard.ask(agent, "CLUSTER CONNECTION AGENT 7"), "+OK ");
    let mut shard = start();
    let (late, agent) = (shard.client(), shard.client());
    assert!(shard.ask(late, "CLUSTER CONNECTION AGENT 6").starts_with("-STALETERM an agent leads since 7"));
    assert_eq!(shard.ask(agent, "CLUSTER CONNECTION AGENT 7"), "+OK ");
    // A term that cannot be kept is not obeyed.
    assert!(shard.ask(agent, "CLUSTER CONNECTION AGENT 100").starts_with("-ERR the term of the agent cannot be kept"));
    assert_eq!(shard.ask(agent, "CLUSTER CONNECTION AGENT 8"), "+OK ");
    assert_eq!(kept.get(), 8);
}

#[test]
fn a_command_of_a_node_looks_at_the_clock_once_more() {
    let count = |is_node: bool| {
        let looks = Rc::new(Cell::new(0_u64));
        let counted = Rc::clone(&looks);
        let clock = Rc::new(move || {
            counted.set(counted.get() + 1);
            5
        });
        let settings = Settings { cluster_enabled: Flag(is_node), ..Settings::default() };
        let mut shard = Shard(Server::new(settings, 7, 7, 1000, None, clock));
        let client = shard.client();
        if is_node {
            assert_eq!(shard.ask(client, &told(1, TWO)), "+OK ");
        }
        assert_eq!(shard.ask(client, "SET b 1"), "+OK ");
        let before = looks.get();
        assert_eq!(shard.ask(client, "GET b"), "$1 1 ");
        looks.get() - before
    };
    assert_eq!(count(true), count(false) + 1);
}

#[test]
fn the_end_of_a_pause_has_no_keys_expire_where_the_node_may_not_serve() {
    let mut shard = node(&Rc::default());
    let client = shard.client();
    assert_eq!(shard.ask(client, &format!("{} LEASE 0 VOTERS x", told(1, TWO))), "+OK ");
    for command in ["CLIENT PAUSE 1000 WRITE", "CLIENT UNPAUSE"] {
        assert_eq!(shard.ask(client, command), "+OK ");
    }
    assert!(shard.0.keyspace.expiry_paused);
}
