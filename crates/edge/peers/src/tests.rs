//! Sections that talk to each other without sockets and with a clock of the tests' own.

use std::{collections::BTreeMap, sync::Arc};

use stick::{DataType, Definition, Key, KeyType, Kind, Layout, Reading, ServerKey, Table, Update};

use crate::{
    Action, ConnectionId, Control, Section, SectionConfig, SharedTable, Transmit,
    cache::{ReceiveCache, SendCache},
    message, table,
    table::RemoteTable,
    update,
};

/// A table that stores these types.
pub(crate) fn definition(key: KeyType, store: &[DataType]) -> Definition {
    let mut layout = Layout::default();
    for data in store {
        let period = (data.kind() == Kind::Rate).then_some(10_000);
        layout.store(*data, data.is_array().then_some(3), period).unwrap();
    }
    let key_len = key.fixed_len().unwrap_or(32);
    Definition {
        name: "clients".into(),
        key,
        key_len,
        size: 10_000,
        expire_ms: 60_000,
        nopurge: false,
        server_key: ServerKey::Name,
        layout,
    }
}

const STORE: [DataType; 5] =
    [DataType::ServerId, DataType::Gpc0, DataType::ConnCur, DataType::HttpReqRate, DataType::ServerKey];

fn section(local: &str, names: &[&str], tables: &[&Arc<Table>], has_predecessor: bool) -> Section {
    Section::new(SectionConfig {
        local: local.into(),
        peers: names.iter().map(|name| (*name).into()).collect(),
        tables: tables
            .iter()
            .map(|table| SharedTable { name: Arc::clone(&table.definition().name), table: Arc::clone(table) })
            .collect(),
        message_len_max: 16_384,
        updates_max: 200,
        process: 1,
        has_predecessor,
        seed: local.len() as u64 + 7,
    })
}

/// Processes and the wires between them.
#[derive(Default)]
struct World {
    sections: Vec<Section>,
    /// Which connection of which process is which of which other one.
    wires: BTreeMap<(usize, ConnectionId), (usize, ConnectionId)>,
    now: u64,
    /// Bytes that are handed over at once.
    chunk: usize,
    /// Processes that do not answer.
    deaf: Vec<usize>,
}

impl World {
    fn new() -> Self {
        Self { now: 1_000, chunk: 16_384, ..Self::default() }
    }

    fn index_of(&self, name: &str, not: Option<usize>) -> Option<usize> {
        let mut found = (0..self.sections.len()).filter(|index| &*self.sections[*index].config().local == name);
        found.find(|index| Some(*index) != not && !self.deaf.contains(index))
    }

    /// Lets everything happen that happens at this time.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut quiet = true;
            for index in 0..self.sections.len() {
                if self.deaf.contains(&index) {
                    continue;
                }
                if self.sections[index].poll_timeout().is_none_or(|time| time <= self.now) {
                    self.sections[index].handle_timeout(self.now);
                }
                while let Some(action) = self.sections[index].poll_action() {
                    quiet = false;
                    self.act(index, action);
                }
                let ids: Vec<_> = self.sections[index].connections.keys().copied().collect();
                for id in ids {
                    quiet &= !self.transmit(index, id);
                }
            }
            if quiet {
                return;
            }
        }
        panic!("they talk for ever");
    }

    fn act(&mut self, index: usize, action: Action) {
        match action {
            Action::Connect { connection, peer } => {
                let name = Arc::clone(&self.sections[index].config().peers[peer]);
                let other = self.index_of(&name, Some(index));
                let accepted = other.and_then(|other| Some((other, self.sections[other].handle_accepted(self.now)?)));
                match accepted {
                    Some(end) => {
                        self.wires.insert((index, connection), end);
                        self.wires.insert(end, (index, connection));
                        self.sections[index].handle_connected(connection);
                    }
                    None => self.sections[index].handle_closed(connection, self.now),
                }
            }
            Action::Close(id) => self.cut(index, id),
        }
    }

    fn cut(&mut self, index: usize, id: ConnectionId) {
        if let Some((other, end)) = self.wires.remove(&(index, id)) {
            self.wires.remove(&(other, end));
            self.sections[other].handle_closed(end, self.now);
        }
        self.sections[index].handle_closed(id, self.now);
    }

    fn transmit(&mut self, index: usize, id: ConnectionId) -> bool {
        let mut out = Vec::new();
        let outcome = self.sections[index].poll_transmit(id, &mut out, self.now);
        if let Some((other, end)) = self.wires.get(&(index, id)).copied() {
            for chunk in out.chunks(self.chunk) {
                if !self.deaf.contains(&other) {
                    self.sections[other].handle_bytes(end, chunk, self.now);
                }
            }
        }
        if outcome == Transmit::Last {
            self.cut(index, id);
        }
        !out.is_empty()
    }

    /// Goes on for some time.
    fn run(&mut self, milliseconds: u64) {
        let end = self.now + milliseconds;
        self.settle();
        while self.now < end {
            self.now = (self.now + 50).min(end);
            self.settle();
        }
    }
}

fn table(number: u64) -> Arc<Table> {
    let table = Arc::new(Table::new(definition(KeyType::Integer, &STORE), number));
    table.follow(|| {});
    table
}

fn count(table: &Table, key: u32, now: u64) {
    table.find_or_make(Key::integer(key).bytes(), now, |entry| {
        entry.start();
        entry.set_tag(DataType::Gpc0, 0, key + 100);
        entry.count(DataType::HttpReqCnt, DataType::HttpReqRate, 3);
        entry.set_server(4, Some(if key.is_multiple_of(2) { "even" } else { "odd" }));
        entry.touch();
    });
}

/// Everything that an entry tells peers, `conn_cur` and the time of its rates left out.
fn values(table: &Table, key: u32, now: u64) -> Option<(i64, i64, Option<Arc<str>>, i64)> {
    table.find(Key::integer(key).bytes(), now, |entry| {
        let mut number = |data| match entry.read(data, 0) {
            Some(Reading::Number(number)) => number,
            _ => -1,
        };
        let (gpc0, rate, current) = (number(DataType::Gpc0), number(DataType::HttpReqRate), number(DataType::ConnCur));
        (gpc0, rate, entry.server().1, current)
    })
}

fn expected(key: u32) -> Option<(i64, i64, Option<Arc<str>>, i64)> {
    // The connections of the other one are its own.
    Some((i64::from(key) + 100, 3, Some(if key.is_multiple_of(2) { "even".into() } else { "odd".into() }), 0))
}

fn pair() -> (World, [Arc<Table>; 2]) {
    let tables = [table(1), table(2)];
    let mut world = World::new();
    for (name, table) in ["A", "B"].into_iter().zip(&tables) {
        world.sections.push(section(name, &["A", "B"], &[table], false));
    }
    (world, tables)
}

#[test]
fn changes_go_both_ways_in_pieces_of_any_size() {
    for chunk in [1, 7, 16_384] {
        let (mut world, tables) = pair();
        world.chunk = chunk;
        world.run(3_000);
        assert_eq!(world.sections[0].counts(), (1, 1));
        for key in 0..200 {
            count(&tables[key as usize % 2], key, world.now);
        }
        world.run(100);
        for key in 0..200 {
            assert_eq!(values(&tables[1 - key as usize % 2], key, world.now), expected(key), "{key}");
        }
        // Nothing comes back.
        assert_eq!(tables[0].updates_after(0, 1_000, 0).changes.iter().filter(|change| !change.learned).count(), 100);
        // All is acknowledged.
        for section in &world.sections {
            let view = section.view(world.now);
            let other = view.peers.iter().find(|peer| !peer.is_local).unwrap();
            // What was learned has numbers too.
            assert_eq!((other.cursors[0].update, other.cursors[0].last_pushed), (100, 200));
        }
    }
}

#[test]
fn a_peer_that_starts_again_learns_everything() {
    let (mut world, tables) = pair();
    for key in 0..1_000 {
        count(&tables[0], key, world.now);
    }
    world.run(3_000);
    assert_eq!(tables[1].len(), 1_000);
    // B is killed, and comes back with nothing.
    world.deaf.push(1);
    let ids: Vec<_> = world.sections[1].connections.keys().copied().collect();
    ids.into_iter().for_each(|id| world.cut(1, id));
    let fresh = table(5);
    world.sections.push(section("B", &["A", "B"], &[&fresh], false));
    world.run(3_000);
    for key in 0..1_000 {
        assert_eq!(values(&fresh, key, world.now), expected(key), "{key}");
    }
    // And goes on to hear of changes.
    count(&tables[0], 5_000, world.now);
    world.run(50);
    assert_eq!(values(&fresh, 5_000, world.now), expected(5_000));
}

#[test]
fn a_new_process_learns_from_the_one_before() {
    let (old, new) = (table(1), table(2));
    let mut world = World::new();
    world.sections.push(section("A", &["A", "B"], &[&old], false));
    world.run(100);
    for key in 0..3_000 {
        count(&old, key, world.now);
    }
    world.sections.push(section("A", &["A", "B"], &[&new], true));
    world.run(100);
    assert_eq!(new.len(), 0);
    world.sections[0].handle_stop(world.now);
    world.run(200);
    assert!(world.sections[0].is_over());
    for key in 0..3_000 {
        assert_eq!(values(&new, key, world.now), expected(key), "{key}");
    }
    // The old one had given up on others after five seconds, or not yet: then the new one asks them.
    assert!(world.sections[1].view(world.now).peers[0].connection.is_none());
}

#[test]
fn a_process_without_a_successor_ends_at_once() {
    let mut world = World::new();
    world.sections.push(section("A", &["A", "B"], &[&table(1)], false));
    world.run(10);
    world.sections[0].handle_stop(world.now);
    world.settle();
    assert!(world.sections[0].is_over());
    assert_eq!(world.sections[0].poll_timeout(), None);
}

#[test]
fn of_two_connections_at_the_same_time_one_stays() {
    let [mut a, mut b] = ["A", "B"].map(|name| section(name, &["A", "B"], &[&table(1)], false));
    let open = |section: &mut Section| {
        section.handle_timeout(1_000);
        let Some(Action::Connect { connection, .. }) = section.poll_action() else { panic!() };
        section.handle_connected(connection);
        (connection, said(section, connection).0)
    };
    let ((from_a, hello_a), (from_b, hello_b)) = (open(&mut a), open(&mut b));
    let (at_a, at_b) = (a.handle_accepted(1_000).unwrap(), b.handle_accepted(1_000).unwrap());
    a.handle_bytes(at_a, &hello_b, 1_000);
    b.handle_bytes(at_b, &hello_a, 1_000);
    assert_eq!(said(&mut a, at_a), (b"300\n".to_vec(), Transmit::Last));
    let (status, outcome) = said(&mut b, at_b);
    assert_eq!((&status[..4], outcome), (&b"200\n"[..], Transmit::All));
    assert_eq!(b.poll_action(), Some(Action::Close(from_b)));
    a.handle_bytes(from_a, &status, 1_000);
    assert_eq!((a.counts(), b.counts()), ((1, 1), (1, 1)));
}

#[test]
fn a_silent_peer_is_connected_again() {
    let (mut world, tables) = pair();
    world.run(3_000);
    world.deaf.push(1);
    world.run(11_000);
    assert_eq!(world.sections[0].view(world.now).peers[1].silences, 1);
    world.deaf.clear();
    count(&tables[0], 1, world.now);
    world.run(11_000);
    assert_eq!(values(&tables[1], 1, world.now).map(|(gpc0, ..)| gpc0), Some(101));
}

#[test]
fn connections_that_live_stay() {
    let (mut world, _) = pair();
    world.run(60_000);
    let [a, b] = [0, 1].map(|index| world.sections[index].view(world.now));
    assert!(a.peers[1].connections + b.peers[0].connections <= 6, "{a:?} {b:?}");
    assert!(a.peers[1].heartbeats.0 > 10 && a.peers[1].heartbeats.1 > 10, "{a:?}");
    assert_eq!(a.peers[1].silences + b.peers[0].silences, 0);
}

/// A connection with `A` that came from outside and speaks for `B`.
fn stranger(section: &mut Section) -> ConnectionId {
    let id = section.handle_accepted(1_000).unwrap();
    section.handle_bytes(id, b"HAProxyS 2.1\nA\nB 1 1\n", 1_000);
    id
}

fn said(section: &mut Section, id: ConnectionId) -> (Vec<u8>, Transmit) {
    let mut out = Vec::new();
    let outcome = section.poll_transmit(id, &mut out, 1_000);
    (out, outcome)
}

#[test]
fn greetings_are_answered() {
    for (hello, expected) in [
        (&b"HAProxyS 2.1\nA\nB 1 1\n"[..], (&b"200\n"[..], Transmit::All)),
        (b"HAProxyS 2.2\n", (b"502\n", Transmit::Last)),
        (b"GET / HTTP/1.1\r\n", (b"501\n", Transmit::Last)),
        (b"HAProxyS 2.1\nB\n", (b"503\n", Transmit::Last)),
        (b"HAProxyS 2.1\nA\nC 1 1\n", (b"504\n", Transmit::Last)),
        (b"HAProxyS 2.1\nA\nA", (b"", Transmit::All)),
        (&[b'x'; 5_000], (b"", Transmit::Last)),
    ] {
        let mut section = section("A", &["A", "B"], &[&table(1)], false);
        let id = section.handle_accepted(1_000).unwrap();
        section.handle_bytes(id, hello, 1_000);
        let (out, outcome) = said(&mut section, id);
        assert_eq!((&out[..], outcome), expected);
    }
    // Not more of them than there can be.
    let mut section = section("A", &["A", "B"], &[&table(1)], false);
    let accepted = (0..10).filter(|_| section.handle_accepted(1_000).is_some()).count();
    assert_eq!(accepted, 6);
    section.handle_timeout(6_000);
    assert!(section.connections.values().all(|connection| connection.peer.is_some()));
}

#[test]
fn what_makes_no_sense_ends_the_connection() {
    for (bytes, expected) in [
        (&[255_u8, 0][..], &[1_u8, 0][..]),
        (&[10, 0x82, 0], &[1, 0]),
        (&[10, 0x84, 1, 1], &[1, 0]),
        (&[10, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff], &[1, 0]),
        (&[10, 0x80, 0xff, 0xff, 0xff, 0x7f], &[1, 1]),
    ] {
        let mut section = section("A", &["A", "B"], &[&table(1)], false);
        let id = stranger(&mut section);
        said(&mut section, id);
        section.handle_bytes(id, bytes, 1_000);
        assert_eq!(said(&mut section, id), (expected.to_vec(), Transmit::Last), "{bytes:?}");
        assert_eq!(section.counts(), (0, 0));
    }
}

#[test]
fn a_table_that_differs_is_left_alone() {
    let (a, b) = (table(1), Arc::new(Table::new(definition(KeyType::String, &STORE), 2)));
    b.follow(|| {});
    let (c, d) = (
        Arc::new(Table::new(Definition { name: "other".into(), ..definition(KeyType::Integer, &STORE) }, 1)),
        Arc::new(Table::new(
            Definition { name: "other".into(), ..definition(KeyType::Integer, &[DataType::Gpt, DataType::ServerKey]) },
            1,
        )),
    );
    c.follow(|| {});
    d.follow(|| {});
    let mut world = World::new();
    world.sections.push(section("A", &["A", "B"], &[&a, &c], false));
    world.sections.push(section("B", &["A", "B"], &[&b, &d], false));
    for key in 0..50 {
        count(&a, key, world.now);
        count(&c, key, world.now);
    }
    world.run(3_000);
    assert_eq!(b.len(), 0);
    // What both store is learned, words among it that were sent with a table that is not known here.
    assert_eq!(d.len(), 50);
    d.find(Key::integer(3).bytes(), world.now, |entry| {
        assert_eq!(entry.server().1.as_deref(), Some("odd"));
        assert_eq!(entry.read(DataType::Gpt, 0), Some(Reading::Number(0)));
    });
    assert_eq!(world.sections[1].view(world.now).peers[0].protocol_errors, 0);
}

#[test]
fn updates_come_back_with_every_type_of_data() {
    for key in KeyType::ALL {
        let definition = definition(key, &DataType::ALL);
        let source = Table::new(definition.clone(), 1);
        source.follow(|| {});
        let bytes = vec![7; definition.key_len];
        source.find_or_make(&bytes, 5_000, |entry| {
            for data in DataType::ALL {
                entry.set(data, 0, 77_777);
            }
            entry.set(DataType::BytesInCnt, 0, 1 << 40);
            entry.set(DataType::GpcRate, 2, 5);
            entry.set_server(-3, Some("s1"));
            entry.touch();
        });
        let updates = source.updates_after(0, 10, 6_000);
        let [change] = &updates.changes[..] else { panic!() };
        let (mut sent, mut received) = (SendCache::default(), ReceiveCache::default());
        let (remote, _) = RemoteTable::decode(&table::encode(&definition, "t", 1)).unwrap();
        for (incremental, timed) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut out = Vec::new();
            let form = update::Form { incremental, timed };
            assert!(update::encode(&mut out, &definition, change, form, &mut sent, 16_384));
            let frame = message::frame(&out, 16_384).unwrap().unwrap();
            let decode = |payload: &[u8], cache: &mut ReceiveCache| {
                update::decode(frame.kind, payload, &remote, &definition.layout, cache)
            };
            let back = decode(frame.payload, &mut received).unwrap();
            assert_eq!(back.id, (!incremental).then_some(1));
            assert_eq!(back.remaining_ms, timed.then_some(59_000));
            assert_eq!(back.key, bytes);
            let all: Vec<_> = change.values.iter().filter(|(data, ..)| !data.is_local()).cloned().collect();
            assert_eq!(back.values, all);
            for len in 0..frame.payload.len() {
                assert_eq!(decode(&frame.payload[..len], &mut received.clone()), None);
            }
        }
        let Update { id, .. } = change;
        assert_eq!(*id, 1);
        let form = update::Form { incremental: false, timed: false };
        let mut out = Vec::new();
        assert!(!update::encode(&mut out, &definition, change, form, &mut SendCache::default(), 10));
        assert!(out.is_empty());
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_harm_nobody(pieces in proptest::collection::vec(
        proptest::prop_oneof![
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
            (0x80_u8..0x88, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)).prop_map(|(kind, payload)| {
                let mut out = Vec::new();
                message::put(&mut out, kind, &payload);
                out
            }),
            proptest::prelude::Just({
                let mut out = Vec::new();
                let definition = definition(KeyType::Integer, &DataType::ALL);
                message::put(&mut out, message::DEFINE, &table::encode(&definition, "clients", 1));
                out
            }),
            proptest::prelude::Just(Control::ResyncRequest.bytes().to_vec()),
        ], 0..20))
    {
        let mut section = section("A", &["A", "B"], &[&table(1)], false);
        let id = stranger(&mut section);
        for piece in pieces {
            section.handle_bytes(id, &piece, 1_000);
            said(&mut section, id);
            section.handle_timeout(1_000);
            let kept: usize = section.connections.values().map(|connection| connection.input.len()).sum();
            assert!(kept <= section.input_len_max());
        }
    }
}

use proptest::strategy::Strategy as _;
