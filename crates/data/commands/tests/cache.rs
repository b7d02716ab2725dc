//! What a policy may let go when not all keys are in memory.

#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use commands::config::Settings;
use keyspace::MaxmemoryPolicy;

const NOW: i64 = 1_700_000_000_000;

struct Store(support::Client);

impl Store {
    fn new(policy: MaxmemoryPolicy) -> Self {
        Self(support::Client::new(Settings { maxmemory_policy: policy, ..Settings::default() }, NOW))
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.ask(command, NOW)
    }

    fn fill(&mut self, count: usize) {
        for number in 0..count {
            let expiry = if number % 4 == 0 { " EX 1000" } else { "" };
            assert_eq!(self.ask(&format!("SET key{number} x{expiry}")), "+OK\r\n");
        }
    }

    /// One that has so many keys, all of them in the tables.
    fn written(count: usize) -> Self {
        let mut store = Self::new(MaxmemoryPolicy::AllkeysLru);
        store.fill(count);
        store.checkpoint();
        store
    }

    fn read(&mut self, count: usize) {
        for number in 0..count {
            assert_eq!(self.ask(&format!("GET key{number}")), "$1\r\nx\r\n");
        }
    }

    /// Brings everything to the tables, and nothing stays in memory.
    fn checkpoint(&mut self) {
        support::checkpoint(&mut self.0.server, &self.0.tables);
    }

    fn len(&self) -> usize {
        self.0.server.keyspace.database(0).unwrap().len()
    }

    fn in_memory(&self) -> usize {
        self.0.server.keyspace.database(0).unwrap().entries().count()
    }
}

#[test]
fn all_keys_come_into_memory_bit_by_bit_and_then_all_may_go() {
    let mut store = Store::new(MaxmemoryPolicy::AllkeysLru);
    store.fill(500);
    assert_eq!(store.ask("SELECT 3"), "+OK\r\n");
    store.fill(20);
    store.checkpoint();
    assert!(store.0.server.keyspace.is_partial());
    assert!(store.0.server.evict(&|| 0).is_none(), "nothing is in memory");
    let mut steps = 0;
    while store.0.server.bring_keys(10) {
        steps += 1;
        if steps == 20 {
            // What leaves meanwhile is brought again.
            store.0.server.keyspace.forget_clean();
        }
    }
    assert!(steps > 50, "{steps}");
    if store.0.server.keyspace.is_partial() {
        while store.0.server.bring_keys(10) {}
    }
    assert!(!store.0.server.keyspace.is_partial());
    assert_eq!((store.len(), store.in_memory()), (500, 500));
    while store.0.server.evict(&|| 0).is_some() {}
    assert_eq!((store.len(), store.0.server.keyspace.database(3).unwrap().len()), (0, 0));
    store.checkpoint();
    assert_eq!(store.ask("EXISTS key3"), ":0\r\n", "they are gone from the tables");
}

#[test]
fn keys_go_while_writes_wait_for_room_and_not_in_a_pause() {
    let mut store = Store::new(MaxmemoryPolicy::AllkeysLru);
    store.fill(50);
    store.0.server.set_no_room(true);
    assert!(store.0.server.evict(&|| 0).is_some(), "it makes room");
    assert_eq!(store.ask("CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    assert!(store.0.server.evict(&|| 0).is_none());
    store.0.server.set_no_room(false);
    assert!(store.0.server.evict(&|| 0).is_none());
    assert_eq!(store.ask("CLIENT UNPAUSE"), "+OK\r\n");
    assert!(store.0.server.evict(&|| 0).is_some());
}

#[test]
fn what_is_not_there_leaves_memory_and_is_not_asked_for_once_all_keys_are_here() {
    let mut store = Store::written(50);
    for number in 0..200 {
        assert_eq!(store.ask(&format!("GET nothing{number}")), "$-1\r\n");
    }
    store.read(50);
    let mut random = keyspace::random::Random::new(1);
    let mut gone = 0;
    while store.0.server.keyspace.evict_absent(&mut random, 10) {
        gone += 1;
    }
    // The last few are hard to find by chance.
    assert!((50..=200).contains(&gone), "{gone}");
    assert_eq!(store.in_memory(), 50, "no key leaves");
    while store.0.server.bring_keys(10) {}
    assert!(!store.0.server.keyspace.is_partial());
    let loads = store.0.server.keyspace.loads;
    assert_eq!(store.ask("GET nothing1"), "$-1\r\n");
    assert_eq!(store.0.server.keyspace.loads, loads, "nobody has to look");
}

#[test]
fn for_the_disk_keys_go_that_are_not_in_memory_first() {
    let mut store = Store::written(400);
    store.read(100);
    while store.len() > 100 {
        assert!(store.0.server.evict_from_disk());
    }
    let kept = (0..100).filter(|number| store.ask(&format!("EXISTS key{number}")) == ":1\r\n").count();
    assert!(kept > 60, "{kept}");
    store.checkpoint();
    let kept = (0..400).filter(|number| store.ask(&format!("EXISTS key{number}")) == ":1\r\n").count();
    assert_eq!(kept, 100);
}

#[test]
fn for_the_disk_too_only_keys_go_that_the_policy_lets_go() {
    for policy in [MaxmemoryPolicy::VolatileLru, MaxmemoryPolicy::VolatileTtl, MaxmemoryPolicy::VolatileRandom] {
        let mut store = Store::new(policy);
        store.fill(400);
        store.checkpoint();
        let mut gone = 0;
        while store.0.server.evict_from_disk() {
            gone += 1;
        }
        let left = store.len();
        // The last few are hard to find by chance.
        assert!((300..330).contains(&left), "{policy:?}: {left} left, {gone} gone");
        assert!(
            (0..400)
                .filter(|number| number % 4 != 0)
                .all(|number| store.ask(&format!("EXISTS key{number}")) == ":1\r\n")
        );
    }
    let mut store = Store::new(MaxmemoryPolicy::NoEviction);
    store.fill(4);
    store.checkpoint();
    assert!(!store.0.server.evict_from_disk());
}

#[test]
fn who_needs_no_disk_waits_for_none() {
    let mut store = Store::written(50);
    assert!(store.0.server.keyspace.is_partial());
    let mut send = |is_cached: bool, commands: &str| {
        store.0.tables.0.is_cached.set(is_cached);
        let (server, session) = (&mut store.0.server, store.0.session);
        server.input(session).unwrap().extend_from_slice(commands.as_bytes());
        server.run(session, NOW);
        let (loads, _) = support::wanted(server);
        (std::mem::take(server.output(session).unwrap().0), loads.len())
    };
    let all = "SET new x NX\r\nGET key3\r\nGET nothing\r\nSET key4 x NX\r\nMSET key5 y new2 y\r\n";
    let (output, loads) = send(true, all);
    assert_eq!((String::from_utf8(output).unwrap().as_str(), loads), ("+OK\r\n$1\r\nx\r\n$-1\r\n$-1\r\n+OK\r\n", 0));
    // The others do.
    let (output, loads) = send(false, "SET new3 x NX\r\nGET key3\r\n");
    assert_eq!((output.len(), loads), (0, 1));
    assert_eq!(store.len(), 52);
}
