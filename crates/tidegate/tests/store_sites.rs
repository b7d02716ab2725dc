//! Two sites with a slow and lossy line between them: a store moves to the other one (docs: "Move to another data centre").

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
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

/// A client of a site, which goes on while masters change.
struct Writer {
    last: Arc<AtomicI64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Counts up, and reads what it has written. No command fails.
    fn start(address: SocketAddr) -> Self {
        let (last, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (told, ends) = (Arc::clone(&last), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut client = RedisClient::connect(address);
            while !ends.load(Relaxed) {
                let answer = client.text(&["INCR", "counter"]);
                let number = answer.parse().unwrap_or_else(|_| panic!("a command has failed: {answer}"));
                let read = client.text(&["GET", "counter"]);
                assert!(read.parse().is_ok_and(|read: i64| read >= number), "{number} was written, {read} is there");
                told.store(number, Relaxed);
            }
        });
        Self { last, is_over, thread }
    }

    /// Waits until it has written some more.
    #[track_caller]
    fn wait_for_more(&self) {
        let before = self.last.load(Relaxed);
        wait_within(LONG, "clients write", || self.last.load(Relaxed) > before + 20 || self.thread.is_finished());
        assert!(!self.thread.is_finished(), "a client has failed");
    }

    /// Has it stop; gives the last number that it was answered.
    fn stop(self) -> i64 {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap();
        self.last.load(Relaxed)
    }
}

/// Hands over, and waits until that is done and the former master is a replica.
#[track_caller]
fn switch_over(from: &mut RedisClient, to: &mut RedisClient, host: &str) {
    assert_eq!(from.text(&["FAILOVER", "TO", host, "6390", "TIMEOUT", "60000"]), "OK");
    wait_within(LONG, "the failover is over", || field(from, "master_failover_state") == "no-failover");
    assert_eq!(field(to, "role"), "master");
    wait_for_link(from);
    wait_within(LONG, "the replica is online", || field(to, "slave0").contains("state=online"));
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
    let mut old_store =
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

    // One command switches over, while clients write at the old site: none of their commands fails.
    for site in [&mut old, &mut new] {
        assert_eq!(site.text(&["CONFIG", "SET", "replica-forward", "yes"]), "OK");
    }
    let writers: Vec<Writer> = (0..3).map(|_| Writer::start(old_address)).collect();
    writers.iter().for_each(Writer::wait_for_more);
    switch_over(&mut old, &mut new, &there);
    writers.iter().for_each(Writer::wait_for_more);
    // There are clients at the new site by now; and there is a way back.
    let at_new_site = Writer::start(new_address);
    at_new_site.wait_for_more();
    switch_over(&mut new, &mut old, &here);
    writers.iter().chain([&at_new_site]).for_each(Writer::wait_for_more);
    switch_over(&mut old, &mut new, &there);
    writers.iter().chain([&at_new_site]).for_each(Writer::wait_for_more);
    let last = writers.into_iter().chain([at_new_site]).map(Writer::stop).max().unwrap();
    assert_eq!(new.text(&["GET", "counter"]), last.to_string(), "no write is lost");
    assert_same(&mut new, &mut old);
    assert_eq!(stat(&mut new, "sync_full"), "0");
    // Nobody asks the old site any more.
    assert_eq!(old_store.stop(), 0);
    assert_eq!(new.text(&["INCR", "counter"]), (last + 1).to_string());
}
