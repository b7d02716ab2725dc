//! Two sites with a slow and lossy line between them: a store moves to the other one (docs: "Move to another data centre").

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::Arc,
    thread,
};

use support::{Folder, LONG, Network, RedisClient, Store, assert_same, field, follow, wait_for_link, wait_within};

/// Makes the line between both ends slow and lossy, where the kernel can do that; it can be cut in any case.
fn make_slow(network: &Network) {
    let name = network.name();
    for end in [format!("qdisc add dev {name}a root"), format!("-n {name} qdisc add dev {name}b root")] {
        let netem = "netem delay 25ms 5ms loss 2% rate 40mbit";
        // Without it the line is slow, and loses what does not fit.
        let bucket = "tbf rate 40mbit burst 64kb latency 20ms";
        let is_done = |kind: &str| {
            let output = Command::new("tc").args(format!("{end} {kind}").split(' ')).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !is_done(netem) && !is_done(bucket) {
            eprintln!("the line is as fast as ever: this kernel makes none slower");
        }
    }
}

fn stat(client: &mut RedisClient, name: &str) -> String {
    let info = client.text(&["INFO", "stats"]);
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().to_owned()
}

/// Writes until it is told that this is a replica. Returns the last number that was answered.
fn count_up(address: SocketAddr) -> i64 {
    let mut client = RedisClient::connect(address);
    let mut last = 0;
    loop {
        let answer = client.text(&["INCR", "counter"]);
        match answer.parse() {
            Ok(number) => last = number,
            Err(_) => {
                assert!(answer.starts_with("READONLY "), "{answer}");
                return last;
            }
        }
    }
}

#[test]
fn a_store_moves_to_another_site() {
    let Some(network) = Network::new() else { return };
    make_slow(&network);
    let (here, there) = (network.here.to_string(), network.there.to_string());
    let at = |host: &str, port: u16| -> SocketAddr { format!("{host}:{port}").parse().unwrap() };
    let (old_address, new_address) = (at(&here, 6390), at(&there, 6390));
    let options = |host: &str| {
        let words = ["--enable-debug-command", "yes", "--repl-timeout", "3", "--repl-ping-replica-period", "1"];
        let more = ["--protected-mode", "no", "--replica-announce-ip", host];
        words.iter().chain(&more).map(|word| (*word).to_owned()).collect::<Vec<String>>()
    };
    let words = options(&here);
    let old_store =
        Store::start_at(old_address, Arc::new(Folder::new()), &words.iter().map(String::as_str).collect::<Vec<_>>());
    let words = options(&there);
    let _new_store = network.at_other_end(|| {
        Store::spawn(new_address, Arc::new(Folder::new()), &words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    wait_within(LONG, "the other site serves", || TcpStream::connect(new_address).is_ok());
    let (mut old, mut new) = (old_store.client(), RedisClient::connect(new_address));

    // The other site gets a copy, and the log behind.
    let value = "v".repeat(1000);
    for number in 0..2000 {
        old.text(&["SET", &format!("key:{number}"), &value]);
    }
    follow(&mut new, old_address);
    wait_for_link(&mut new);
    assert_same(&mut old, &mut new);

    // The line is cut for longer than anybody waits: the replica goes on where it was.
    network.set_connected(false);
    wait_within(LONG, "the master gives its replica up", || field(&mut old, "connected_slaves") == "0");
    for number in 0..2000 {
        old.text(&["SET", &format!("cut:{number}"), &value]);
    }
    network.set_connected(true);
    wait_within(LONG, "the replica is there again", || field(&mut old, "slave0").contains("state=online"));
    let mut new = RedisClient::connect(new_address);
    wait_for_link(&mut new);
    assert_same(&mut old, &mut new);
    assert_eq!((stat(&mut old, "sync_full"), stat(&mut old, "sync_partial_ok")), ("1".into(), "1".into()));

    // One command switches over, while clients write.
    let writers: Vec<_> = (0..3).map(|_| thread::spawn(move || count_up(old_address))).collect();
    wait_within(LONG, "clients write", || old.text(&["GET", "counter"]).parse::<i64>().is_ok_and(|number| number > 50));
    assert_eq!(old.text(&["FAILOVER", "TO", &there, "6390", "TIMEOUT", "60000"]), "OK");
    let last = writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap();
    wait_within(LONG, "the failover is over", || field(&mut old, "master_failover_state") == "no-failover");
    assert_eq!(new.text(&["GET", "counter"]), last.to_string(), "no write is lost, and none is there that was refused");
    assert_eq!(new.text(&["INCR", "counter"]), (last + 1).to_string());

    // The old site follows, for the way back.
    wait_for_link(&mut old);
    assert_same(&mut new, &mut old);
    assert_eq!(stat(&mut new, "sync_full"), "0");
}
