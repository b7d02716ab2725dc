//! Streams whose nodes are records do what streams in memory do.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod support;

use commands::{
    Server, SessionId,
    config::{Allowed, Integer, Settings},
};
use keyspace::random::Random;

const NOW: i64 = 1_700_000_000_000;

struct Side {
    server: Server,
    session: SessionId,
    tables: Option<support::Shared>,
}

impl Side {
    fn new(tables: Option<support::Shared>) -> Self {
        let settings = Settings {
            collection_max_whole_entries: Integer(2),
            stream_node_max_entries: Integer(3),
            enable_debug_command: Allowed::Yes,
            ..Settings::default()
        };
        let records = tables.clone().map(|tables| Box::new(tables) as Box<dyn keyspace::Records>);
        let mut server = Server::new(settings, support::SEED, 7, NOW, records, std::rc::Rc::new(|| 0));
        server.step_limits_mut().portion_min = 2;
        let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
        Self { server, session, tables }
    }

    fn ask(&mut self, command: &str, now: i64) -> String {
        self.server.input(self.session).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        self.server.run(self.session, now);
        if let Some(tables) = &self.tables {
            support::answer_loads(&mut self.server, tables);
        }
        String::from_utf8_lossy(&std::mem::take(self.server.output(self.session).unwrap().0)).into_owned()
    }
}

fn id(random: &mut Random, step: usize) -> String {
    let back = random.below(60);
    format!("{}-{}", (step as u64).saturating_sub(back), random.below(2))
}

fn command(random: &mut Random, step: usize) -> String {
    let key = ["s", "s", "s", "t"][random.below(4) as usize];
    let (group, consumer) = (["g", "h"][random.below(2) as usize], ["a", "b"][random.below(2) as usize]);
    let (one, two, count) = (id(random, step), id(random, step), random.below(8));
    match random.below(60) {
        0..12 => format!("XADD {key} {step}-0 f {count} g {step}"),
        12..14 => format!("XADD {key} {step}-1 other {count}"),
        14 => format!("XADD {key} MAXLEN ~ {} {step}-0 f x", 20 + count),
        15 => format!("XADD {key} MAXLEN {} {step}-0 f x", 20 + count),
        16 => format!("XADD {key} MINID ~ {} {step}-0 f x", step.saturating_sub(70)),
        17..20 => format!("XDEL {key} {one} {two}"),
        20 => format!("XTRIM {key} MAXLEN {}", 10 + count),
        21 => format!("XTRIM {key} MINID {}", step.saturating_sub(50)),
        22 => format!("XTRIM {key} MAXLEN ~ 10 LIMIT {count}"),
        23..25 => format!("XRANGE {key} {one} {two}"),
        25 => format!("XRANGE {key} - + COUNT {}", count + 1),
        26 => format!("XREVRANGE {key} {two} {one} COUNT 3"),
        27 => format!("XREVRANGE {key} + -"),
        28 => format!("XRANGE {key} - +"),
        29 => format!("XREAD COUNT {count} STREAMS {key} {one}"),
        30 => format!("XREAD STREAMS s t {one} {two}"),
        31 => format!("XGROUP CREATE {key} {group} {one} MKSTREAM"),
        32..36 => format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {key} >"),
        36 => format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {key} {one}"),
        37 => format!("XACK {key} {group} {one} {two}"),
        38 => format!("XCLAIM {key} {group} {consumer} 0 {one} {two}"),
        39 => format!("XAUTOCLAIM {key} {group} {consumer} 0 {one} COUNT {}", count + 1),
        40 => format!("XPENDING {key} {group} - + 20"),
        41 => format!("XINFO STREAM {key} FULL COUNT {count}"),
        42 => format!("XINFO STREAM {key}"),
        43 => format!("XLEN {key}"),
        44 => format!("DUMP {key}"),
        45 => ["COPY s c REPLACE", "RENAME c t", "COPY t c DB 1 REPLACE", "MOVE c 1", "DEL t", "SWAPDB 0 1"]
            [count as usize % 6]
            .into(),
        46 => format!("XSETID {key} {}-5", step + 1),
        47..50 => format!("XACK {key} {group} {one} {two}"),
        50 => format!("XREADGROUP GROUP {group} {consumer} STREAMS {key} 0"),
        51 => format!("XPENDING {key} {group}"),
        52 => format!("XPENDING {key} {group} IDLE {count} {one} + 7 {consumer}"),
        53 => format!("XPENDING {key} {group} {one} {two} {count} {consumer}"),
        54 => format!("XCLAIM {key} {group} {consumer} 0 {one} {two} FORCE JUSTID"),
        55 => format!("XINFO GROUPS {key}"),
        56 => format!("XINFO CONSUMERS {key} {group}"),
        57 if count < 3 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
        57 if count == 3 => format!("XGROUP DESTROY {key} {group}"),
        58 => format!("XINFO STREAM {key} FULL"),
        _ => "DEBUG DIGEST".into(),
    }
}

#[test]
fn they_do_what_streams_in_memory_do() {
    for (seed, forgets, is_cold) in [(1, 0, false), (2, 20, false), (3, 1, false), (4, 50, true), (5, 7, true)] {
        let mut random = Random::new(seed);
        let tables = support::Shared::default();
        let (mut ours, mut model) = (Side::new(Some(tables.clone())), Side::new(None));
        let (mut spread, mut spilled) = (0, 0);
        for step in 1..900 {
            let command = command(&mut random, step * 2);
            let now = NOW + step as i64;
            ours.server.keyspace.set_cold(is_cold);
            assert_eq!(ours.ask(&command, now), model.ask(&command, now), "{command} at {step} of {seed}");
            if forgets > 0 && random.below(forgets) == 0 {
                support::checkpoint(&mut ours.server, &tables);
            }
            spread = spread.max(tables.0.collections().len());
            spilled = spilled.max(tables.0.count(b'p'));
        }
        assert_eq!(ours.server.condition().broken, None);
        assert!(spread >= 2);
        assert_eq!(tables.0.warmed.1.get() > 100, is_cold);
        assert!(spilled >= 10, "{spilled} entries spilled at most");
        for key in ["s", "t", "c"] {
            ours.ask(&format!("DEL {key}"), NOW);
        }
        ours.ask("FLUSHALL", NOW);
        let of_dropped = |disk: u8| ours.server.keyspace.layout().dropped.contains(&disk);
        assert!(tables.0.collections().iter().all(|of| of_dropped(of.disk)));
    }
}

#[test]
fn a_command_that_cannot_read_changes_nothing() {
    let tables = support::Shared::default();
    let mut store = Side::new(Some(tables.clone()));
    for number in 1..50 {
        store.ask(&format!("XADD s {number}-0 f {number}"), NOW);
    }
    store.ask("XGROUP CREATE s g 0", NOW);
    store.ask("XREADGROUP GROUP g a COUNT 10 STREAMS s >", NOW);
    let before = (store.ask("DEBUG DIGEST", NOW), store.ask("XINFO STREAM s FULL", NOW));
    for command in [
        "XRANGE s 1 20",
        "XREAD COUNT 1 STREAMS s 0",
        "XDEL s 5-0",
        "XTRIM s MAXLEN 5",
        "XCLAIM s g b 0 3-0",
        "XAUTOCLAIM s g a 0 0",
        "XINFO STREAM s",
        "DUMP s",
        "COPY s t",
        "XPENDING s g",
        "XPENDING s g - + 10",
        "XPENDING s g - + 10 a",
        "XREADGROUP GROUP g a COUNT 3 STREAMS s 0",
        "XACK s g 2-0",
        "XGROUP DELCONSUMER s g a",
        "XINFO STREAM s FULL",
    ] {
        // What is known of the first node is forgotten.
        support::checkpoint(&mut store.server, &tables);
        tables.0.fails_after.set(Some(0));
        let reply = store.ask(command, NOW);
        tables.0.fails_after.set(None);
        assert!(reply.starts_with("-ERR cannot read"), "{command}: {reply}");
        assert_eq!(store.server.condition().broken, None, "{command}");
        assert_eq!((store.ask("DEBUG DIGEST", NOW), store.ask("XINFO STREAM s FULL", NOW)), before, "{command}");
    }
}

#[test]
fn what_has_been_pending_for_long_is_not_written_again() {
    const ENTRIES: usize = 3_000;
    let mut store =
        support::Client::new(Settings { collection_max_whole_entries: Integer(800), ..Settings::default() }, NOW);
    for number in 1..=ENTRIES {
        store.ask(&format!("XADD s {number}-0 f v"), NOW);
    }
    store.ask("XGROUP CREATE s g 0", NOW);
    store.ask("XGROUP CREATE s h 0", NOW);
    for number in 0..ENTRIES / 10 {
        let reply = store.ask(&format!("XREADGROUP GROUP g c{} COUNT 10 STREAMS s >", number % 3), NOW);
        assert!(reply.starts_with("*1"), "{reply}");
    }
    support::checkpoint(&mut store.server, &store.tables);
    // An eighth of what is kept whole, some 40 bytes each.
    assert!(store.tables.0.key_len(b"s") < 10_000, "{}", store.tables.0.key_len(b"s"));
    assert_eq!(store.tables.0.count(b'p'), ENTRIES - 100);
    assert_eq!(store.ask("XPENDING s g - + 1", NOW), "*1\r\n*4\r\n$3\r\n1-0\r\n$2\r\nc0\r\n:0\r\n:1\r\n");
    assert!(store.ask("XPENDING s g", NOW).starts_with("*4\r\n:3000\r\n$3\r\n1-0\r\n$6\r\n3000-0\r\n"));
    assert_eq!(store.ask("XACK s g 1-0 2-0 1-0 2999-0 9999-0", NOW), ":3\r\n");
    assert_eq!(store.ask("XGROUP DELCONSUMER s g c1", NOW), ":1000\r\n");
    store.server.keyspace.set_cold(true);
    assert_eq!(store.ask("XACK s g 3-0 1-0 3000-0 4-0", NOW), ":3\r\n");
    assert_eq!(store.tables.0.warmed.0.get(), 2, "those that have records");
    assert_eq!(store.ask("XADD s 9999-0 f v", NOW), "$6\r\n9999-0\r\n");
    support::checkpoint(&mut store.server, &store.tables);
    assert!(store.ask("XPENDING s g", NOW).starts_with("*4\r\n:1994\r\n$3\r\n5-0\r\n$6\r\n2998-0\r\n"));
    let collections = store.tables.0.collections().len();
    assert_eq!(store.ask("XGROUP DESTROY s g", NOW), ":1\r\n");
    assert_eq!(store.tables.0.collections().len(), collections - 1);
}
