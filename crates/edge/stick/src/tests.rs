//! What a table does with entries: making, finding, tracking, expiring, making room, telling peers.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{DataType, Definition, Gpc, Key, KeyType, Layout, Learned, Query, Reading, Removal, ServerKey, Table};

fn layout(types: &[(DataType, Option<u32>, Option<u32>)]) -> Layout {
    let mut layout = Layout::default();
    for (data, elements, period) in types {
        layout.store(*data, *elements, *period).unwrap();
    }
    layout
}

fn definition(size: u32, expire_ms: u32) -> Definition {
    Definition {
        name: "t".into(),
        key: KeyType::Integer,
        key_len: 4,
        size,
        expire_ms,
        nopurge: false,
        server_key: ServerKey::Name,
        layout: layout(&[
            (DataType::Gpc0, None, None),
            (DataType::ConnCnt, None, None),
            (DataType::ConnCur, None, None),
            (DataType::HttpReqRate, None, Some(1_000)),
            (DataType::BytesInCnt, None, None),
            (DataType::ServerId, None, None),
            (DataType::ServerKey, None, None),
        ]),
    }
}

fn key(number: u32) -> Key<'static> {
    Key::integer(number)
}

#[test]
fn a_limit_is_shared() {
    let mut with_rate = definition(100, 0);
    with_rate.layout.store(DataType::BytesOutRate, None, Some(1_000)).unwrap();
    let table = Table::new(with_rate, 1);
    for users in 1..=4_u64 {
        for together in [0, 5_000] {
            let limit = crate::Limit { data: DataType::BytesOutRate, events: 100_000, together };
            let key = key(u32::try_from(users * 2 + u64::from(together == 0)).unwrap());
            let track = |_| table.track(key.bytes(), 0, |_| ()).unwrap().0;
            let mut streams: Vec<_> = (0..users).map(track).map(|handle| (handle, 0, 0_u64)).collect();
            let mut steps = 0;
            for now in 0..5_000_u64 {
                for (handle, until, got) in &mut streams {
                    while *until <= now {
                        let share = table.with(*handle, now, |entry| entry.share(&limit, 1 << 20)).unwrap();
                        assert!(share.wait_ms <= 2_000, "{share:?}");
                        table.with(*handle, now, |entry| entry.spend(&limit, share.now));
                        *got += share.now;
                        *until = now + share.wait_ms;
                        steps += usize::from(share.now > 0);
                        assert!(share.now > 0 || share.wait_ms > 0, "it would be asked for ever");
                    }
                }
            }
            let all: u64 = streams.iter().map(|(_, _, got)| got).sum();
            assert!((490_000..=530_000).contains(&all), "{users} users, {together}: {all}");
            let fair = all / users;
            assert!(streams.iter().all(|(.., got)| got.abs_diff(fair) <= fair / 5), "{users}, {together}: {streams:?}");
            assert!(steps <= 1_500, "{steps} steps");
        }
    }
    let handle = table.track(key(1).bytes(), 0, |_| ()).unwrap().0;
    let limit = crate::Limit { data: DataType::BytesOutRate, events: 1_000, together: 0 };
    let share = |wanted| table.with(handle, 10, |entry| entry.share(&limit, wanted)).unwrap();
    assert_eq!(share(7), crate::Share { now: 7, wait_ms: 0 });
    table.with(handle, 10, |entry| entry.spend(&limit, 500));
    assert_eq!(share(7), crate::Share { now: 0, wait_ms: 497 });
    let other = crate::Limit { data: DataType::BytesInRate, ..limit };
    let all = table.with(handle, 10, |entry| entry.share(&other, 70_000)).unwrap();
    assert_eq!(all, crate::Share { now: 70_000, wait_ms: 0 }, "what is not stored limits nothing");
}

/// Makes entries, or uses them, at a time.
fn touch(table: &Table, keys: &[u32], now: u64) {
    for number in keys {
        table.find_or_make(key(*number).bytes(), now, |entry| entry.touch());
    }
}

/// The keys that are there, in the order of their numbers.
fn keys(table: &Table) -> Vec<u32> {
    let mut snapshot = table.keys();
    let mut keys = Vec::new();
    while let Some(key) = snapshot.next_key() {
        keys.push(u32::from_ne_bytes(key.try_into().unwrap()));
    }
    assert_eq!(keys.len(), table.len() as usize);
    keys.sort_unstable();
    keys
}

#[test]
fn the_oldest_entry_makes_room() {
    let table = Table::new(definition(3, 10_000), 1);
    touch(&table, &[1], 0);
    touch(&table, &[2], 1);
    touch(&table, &[3], 2);
    // 1 was used again, so 2 is the oldest.
    touch(&table, &[1], 3);
    touch(&table, &[4], 4);
    assert_eq!(keys(&table), [1, 3, 4]);
    // As in HAProxy, two entries are looked at for each that goes: when both were used meanwhile, there is no room.
    touch(&table, &[3, 1], 5);
    assert_eq!(table.find_or_make(key(5).bytes(), 6, |_| ()), None);
    assert_eq!(table.find_or_make(key(5).bytes(), 6, |_| ()), Some(()));
    assert_eq!(keys(&table), [1, 3, 5]);
}

#[test]
fn tables_of_any_number_of_shards_evict_in_order() {
    for size in [10, 5_000, 100_000] {
        let table = Table::new(definition(size, 1_000_000), 7);
        for number in 0..size {
            touch(&table, &[number], u64::from(number));
        }
        touch(&table, &[size], u64::from(size));
        let gone = (size >> 8) + 1;
        assert_eq!(keys(&table), (gone..=size).collect::<Vec<_>>(), "size {size}");
    }
}

#[test]
fn nopurge_refuses() {
    let table = Table::new(Definition { nopurge: true, ..definition(2, 100) }, 1);
    touch(&table, &[1, 2, 3], 0);
    assert_eq!(keys(&table), [1, 2]);
    // Those whose time is over make room all the same, once they are removed.
    table.purge(200);
    touch(&table, &[3], 200);
    assert_eq!(keys(&table), [3]);
}

#[test]
fn tracked_entries_stay() {
    let table = Table::new(definition(2, 100), 1);
    let (handle, ()) = table.track(key(1).bytes(), 0, |entry| entry.start()).unwrap();
    touch(&table, &[2], 1);
    touch(&table, &[3], 2);
    assert_eq!(keys(&table), [1, 3]);
    assert_eq!(table.remove(key(1).bytes(), 2, |_| false), Removal::InUse);
    table.purge(1_000);
    assert_eq!(keys(&table), [1]);
    assert_eq!(table.with(handle, 1_000, |entry| entry.references()), Some(1));
    // The last one who lets go of it removes it.
    table.release(handle, 1_000, |_| {});
    assert_eq!(keys(&table), Vec::<u32>::new());
}

#[test]
fn connections_are_counted_while_they_are_tracked() {
    let table = Table::new(definition(2, 1_000), 1);
    let track = || table.track(key(1).bytes(), 0, |entry| entry.start()).unwrap().0;
    let read = |data| table.find(key(1).bytes(), 0, |entry| entry.read(data, 0)).flatten();
    let (one, two) = (track(), track());
    assert_eq!(one, two);
    assert_eq!(read(DataType::ConnCur), Some(Reading::Number(2)));
    table.release(one, 0, |entry| entry.stop());
    assert_eq!(read(DataType::ConnCur), Some(Reading::Number(1)));
    table.release(two, 0, |entry| entry.stop());
    assert_eq!(read(DataType::ConnCur), Some(Reading::Number(0)));
    assert_eq!(read(DataType::ConnCnt), Some(Reading::Number(2)));
    // It never falls below nothing, though a command may have set it.
    table.find(key(1).bytes(), 0, |entry| entry.stop());
    assert_eq!(read(DataType::ConnCur), Some(Reading::Number(0)));
}

#[test]
fn entries_expire() {
    let table = Table::new(definition(10, 100), 1);
    touch(&table, &[1], 0);
    touch(&table, &[2], 50);
    assert_eq!(table.purge(99), Some(100));
    touch(&table, &[1], 90);
    assert_eq!(table.purge(120), Some(150));
    assert_eq!(keys(&table), [1, 2]);
    assert_eq!(table.purge(150), Some(190));
    assert_eq!(keys(&table), [1]);
    // Whoever asks does not find it, whether it was removed or not.
    assert_eq!(table.find(key(1).bytes(), 189, |entry| entry.remaining_ms()), Some(1));
    assert_eq!(table.find(key(1).bytes(), 190, |_| ()), None);
    assert_eq!(table.purge(1_000), None);
    assert!(table.is_empty());
}

#[test]
fn without_a_time_entries_stay() {
    let table = Table::new(definition(2, 0), 1);
    touch(&table, &[1, 2], 5);
    assert_eq!(table.purge(u64::MAX), None);
    assert_eq!(table.find(key(1).bytes(), 1 << 40, |entry| entry.remaining_ms()), Some(0));
    touch(&table, &[3], 6);
    assert_eq!(keys(&table), [2, 3]);
}

#[test]
fn an_entry_that_comes_back_is_empty() {
    let table = Table::new(definition(1, 1_000), 1);
    table.find_or_make(key(1).bytes(), 0, |entry| {
        entry.count(DataType::BytesInCnt, DataType::BytesInRate, u64::MAX - 1);
        entry.set_server(3, Some("s3"));
    });
    touch(&table, &[2], 1);
    let found = table.find(key(2).bytes(), 1, |entry| (entry.read(DataType::BytesInCnt, 0), entry.server()));
    assert_eq!(found, Some((Some(Reading::Long(0)), (0, None))));
    assert_eq!(table.remove(key(2).bytes(), 1, |_| false), Removal::Removed);
    assert_eq!(table.remove(key(2).bytes(), 1, |_| false), Removal::Absent);
}

#[test]
fn questions_and_answers() {
    let table = Table::new(definition(5, 1_000), 1);
    let ask = |query: Query| table.find_or_make(key(1).bytes(), 100, |entry| query.answer(entry)).unwrap();
    for (query, expected) in [
        (Query::Exists, Some(1)),
        (Query::Trackers, Some(0)),
        (Query::Increment(Gpc::First), Some(1)),
        (Query::Increment(Gpc::First), Some(2)),
        (Query::Value(DataType::Gpc0, 0), Some(2)),
        (Query::Clear(Gpc::First), Some(2)),
        (Query::Value(DataType::Gpc0, 0), Some(0)),
        (Query::Value(DataType::Gpc1, 0), None),
        (Query::Increment(Gpc::Second), Some(0)),
        (Query::Clear(Gpc::Second), None),
        (Query::Increment(Gpc::Element(0)), Some(0)),
        (Query::CountConnection, Some(1)),
        (Query::Kilobytes(DataType::BytesInCnt), Some(0)),
        (Query::Kilobytes(DataType::BytesOutCnt), None),
        (Query::Expire, Some(1_000)),
        (Query::Idle, Some(0)),
    ] {
        assert_eq!(ask(query), expected, "{query:?}");
    }
    let rates = Definition {
        layout: layout(&[(DataType::GpcRate, Some(2), Some(1_000)), (DataType::Gpc, Some(1), None)]),
        ..definition(5, 1_000)
    };
    let table = Table::new(rates, 1);
    let ask = |query: Query| table.find_or_make(key(1).bytes(), 100, |entry| query.answer(entry)).unwrap();
    // Without a counter, the answer is what the rate has counted.
    assert_eq!(ask(Query::Increment(Gpc::Second)), Some(1));
    assert_eq!(ask(Query::Increment(Gpc::Second)), Some(2));
    assert_eq!(ask(Query::Value(DataType::Gpc1Rate, 0)), Some(2));
    assert_eq!(ask(Query::Increment(Gpc::First)), Some(1));
    assert_eq!(ask(Query::Value(DataType::Gpc0, 0)), Some(1));
}

#[test]
fn keys_of_any_length() {
    for (key_type, len, keys) in [
        (KeyType::String, 10, [&b"a"[..], b"", b"abcdefghij"]),
        (KeyType::Binary, 3, [b"abc", b"\0\0\0", b"ab\0"]),
        (KeyType::Ipv6, 16, [&[1; 16], &[0; 16], &[255; 16]]),
    ] {
        let table = Table::new(Definition { key: key_type, key_len: len, ..definition(10, 1_000) }, 1);
        for (number, key) in keys.iter().enumerate() {
            table.find_or_make(key, 0, |entry| entry.set(DataType::Gpc0, 0, number as i64));
        }
        for (number, key) in keys.iter().enumerate() {
            let found = table.find(key, 0, |entry| entry.read(DataType::Gpc0, 0));
            assert_eq!(found, Some(Some(Reading::Number(number as i64))), "{key:?}");
        }
        let mut snapshot = table.keys();
        let mut listed: Vec<Vec<u8>> = Vec::new();
        while let Some(key) = snapshot.next_key() {
            listed.push(key.to_vec());
        }
        assert!(listed.is_sorted() && listed.len() == 3, "{listed:?}");
    }
}

#[test]
fn peers_hear_of_changes_in_order_and_once() {
    let table = Table::new(definition(5_000, 10_000), 1);
    touch(&table, &[9], 0);
    assert_eq!(table.last_update(), 0);
    let calls = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&calls);
    table.follow(move || {
        seen.fetch_add(1, Relaxed);
    });
    // What was there before counts as a change, of which nobody has to be told at once.
    assert_eq!((table.last_update(), calls.load(Relaxed)), (1, 0));
    touch(&table, &[1, 2, 1, 3], 1);
    assert_eq!(calls.load(Relaxed), 4);
    let ids_and_keys = |after, limit| {
        let updates = table.updates_after(after, limit, 5);
        let changes = updates.changes.iter().map(|update| (update.id, update.key.to_vec()));
        (changes.collect::<Vec<_>>(), updates.upto)
    };
    let bytes = |number: u32| number.to_ne_bytes().to_vec();
    // 1 changed again before anyone had asked: it keeps its number.
    assert_eq!(ids_and_keys(0, 10), (vec![(1, bytes(9)), (2, bytes(1)), (3, bytes(2)), (4, bytes(3))], 4));
    assert_eq!(ids_and_keys(2, 1), (vec![(3, bytes(2))], 3));
    assert_eq!(table.committed(), 4);
    touch(&table, &[1], 6);
    assert_eq!(ids_and_keys(4, 10), (vec![(5, bytes(1))], 5));
    assert_eq!(ids_and_keys(1, 10), (vec![(3, bytes(2)), (4, bytes(3)), (5, bytes(1))], 5));
    assert_eq!(ids_and_keys(5, 10), (vec![], 5));
}

#[test]
fn changes_of_many_shards_come_in_order_and_whole() {
    let table = Table::new(definition(100_000, 10_000), 1);
    table.follow(|| {});
    let numbers: Vec<u32> = (0..5_000).collect();
    touch(&table, &numbers, 1);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let updates = table.updates_after(after, 100, 2);
        assert!(updates.changes.len() <= 100);
        if updates.upto == after {
            break;
        }
        after = updates.upto;
        seen.extend(updates.changes.iter().map(|update| update.id));
    }
    assert_eq!(seen, (1..=5_000).collect::<Vec<u64>>());
}

#[test]
fn a_table_learns_what_another_one_holds() {
    let teacher = Table::new(definition(10, 10_000), 1);
    teacher.follow(|| {});
    teacher.find_or_make(key(1).bytes(), 1_000, |entry| {
        entry.start();
        entry.count(DataType::HttpReqCnt, DataType::HttpReqRate, 5);
        entry.count(DataType::BytesInCnt, DataType::BytesInRate, 1 << 40);
        entry.set_server(2, Some("s2"));
    });
    let updates = teacher.updates_after(0, 10, 1_200);
    let [update] = &updates.changes[..] else { panic!("{updates:?}") };
    let pupil = Table::new(definition(10, 10_000), 2);
    pupil.follow(|| {});
    let learned = Learned { key: &update.key, remaining_ms: Some(update.remaining_ms), values: &update.values };
    // Its clock shows another time.
    assert!(pupil.learn(&learned, 77_000));
    pupil.find(key(1).bytes(), 77_300, |entry| {
        assert_eq!(entry.remaining_ms(), 9_500);
        assert_eq!(entry.server(), (2, Some("s2".into())));
        assert_eq!(entry.read(DataType::BytesInCnt, 0), Some(Reading::Long(1 << 40)));
        assert_eq!(entry.read(DataType::HttpReqRate, 0), Some(Reading::Number(5)));
    });
    // What it learned it can teach, as learned; what changes then is its own.
    let learned = |now| pupil.updates_after(0, 10, now).changes.iter().map(|update| update.learned).collect::<Vec<_>>();
    touch(&pupil, &[2], 77_200);
    assert_eq!(learned(77_300), [true, false]);
    touch(&pupil, &[1], 77_400);
    assert_eq!(learned(77_400), [false, false]);
    // Even if nobody has asked since it was learned.
    pupil.remove(key(1).bytes(), 77_400, |_| false);
    assert!(pupil.learn(&Learned { key: key(1).bytes(), remaining_ms: None, values: &[] }, 77_400));
    touch(&pupil, &[1], 77_400);
    assert_eq!(learned(77_400), [false, false]);
}

#[test]
fn many_threads_lose_no_count_and_exceed_no_size() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 2_000;
    let hot = Arc::new(Table::new(definition(4_096, 60_000), 3));
    let full = Arc::new(Table::new(definition(64, 60_000), 4));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (hot, full) = (Arc::clone(&hot), Arc::clone(&full));
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let hot_key = key(round % 7);
                    let (handle, ()) = hot.track(hot_key.bytes(), 10, |entry| entry.start()).unwrap();
                    hot.with(handle, 10, |entry| entry.count(DataType::Gpc0, DataType::HttpReqRate, 1));
                    hot.release(handle, 10, |entry| entry.stop());
                    let now = u64::from(round);
                    if let Some((handle, ())) = full.track(key(thread * ROUNDS + round).bytes(), now, |_| ()) {
                        assert!(full.len() <= 64);
                        full.release(handle, now, |_| {});
                    }
                }
            });
        }
    });
    let mut total = 0;
    for number in 0..7 {
        hot.find(key(number).bytes(), 10, |entry| {
            assert_eq!(entry.references(), 0);
            assert_eq!(entry.read(DataType::ConnCur, 0), Some(Reading::Number(0)));
            let Some(Reading::Number(count)) = entry.read(DataType::Gpc0, 0) else { panic!() };
            total += count;
        });
    }
    assert_eq!(total, i64::from(THREADS * ROUNDS));
    assert!(full.len() <= 64 && keys(&full).len() == full.len() as usize);
}

#[test]
fn another_table_takes_over_what_fits() {
    use crate::handover::{Reader, Writer};
    use std::sync::Arc;
    let now = 100_000;
    let mut old = definition(100, 60_000);
    old.key = KeyType::String;
    old.key_len = 20;
    let old = Table::new(old, 1);
    for name in ["one", "two", "a rather long name"] {
        old.find_or_make(name.as_bytes(), now, |entry| {
            entry.set(DataType::Gpc0, 0, 5);
            entry.set(DataType::BytesInCnt, 0, 1 << 40);
            entry.start();
            entry.count(DataType::HttpReqRate, DataType::HttpReqRate, 7);
            entry.set_server(3, Some("web"));
        });
    }
    let read =
        |table: &Table, key: &str, data| table.find(key.as_bytes(), now + 100, |entry| entry.read(data, 0)).flatten();
    // Into a table with another length of keys, another period and fewer types; one has been there meanwhile.
    let make = |size| {
        let mut new = definition(size, 30_000);
        new.key = KeyType::String;
        new.key_len = 8;
        new.layout = layout(&[
            (DataType::Gpc0, None, None),
            (DataType::ConnCur, None, None),
            (DataType::HttpReqRate, None, Some(1_000)),
            (DataType::BytesInCnt, None, None),
            (DataType::ServerKey, None, None),
        ]);
        let new = Table::new(new, 2);
        new.find_or_make(b"two", now + 50, |entry| {
            entry.set(DataType::Gpc0, 0, 2);
            entry.start();
        });
        Arc::new(new)
    };
    let check = |new: &Table| {
        assert_eq!(read(new, "one", DataType::Gpc0), Some(Reading::Number(5)));
        assert_eq!(read(new, "two", DataType::Gpc0), Some(Reading::Number(7)), "both have counted");
        assert_eq!(read(new, "a rather", DataType::BytesInCnt), Some(Reading::Long(1 << 40)));
        assert_eq!(read(new, "one", DataType::ConnCur), Some(Reading::Number(0)), "nobody tracks it here");
        assert_eq!(read(new, "two", DataType::ConnCur), Some(Reading::Number(1)));
        assert_eq!(read(new, "one", DataType::HttpReqRate), Some(Reading::Number(7)));
        assert_eq!(read(new, "one", DataType::ServerKey), Some(Reading::Word(Some("web".into()))));
        let remaining = new.find(b"one", now + 100, |entry| entry.remaining_ms()).unwrap();
        assert!((29_000..=30_000).contains(&remaining), "{remaining}");
    };
    let by_reload = make(100);
    by_reload.adopt_all(&old, now + 60);
    check(&by_reload);
    let mut writer = Writer::new(10_000);
    writer.table(&old, now + 60);
    let (bytes, left_out) = writer.finish();
    assert_eq!(left_out, 0);
    let by_file = make(100);
    let mut reader = Reader::new(&bytes).unwrap();
    while reader.read(2, now + 60, |name| (name == "t").then(|| Arc::clone(&by_file))).unwrap() {}
    check(&by_file);
    for end in 0..bytes.len() {
        let table = make(100);
        let outcome = Reader::new(&bytes[..end]).and_then(|mut reader| {
            while reader.read(9, now + 60, |_| Some(Arc::clone(&table)))? {}
            Ok(())
        });
        assert!(outcome.is_err(), "cut at {end}");
    }
    // There is room for two: those that are there are not made to go.
    let small = make(2);
    small.adopt_all(&old, now + 60);
    assert_eq!(small.len(), 2);
    assert_eq!(read(&small, "two", DataType::ConnCur), Some(Reading::Number(1)));
    let other_keys = Table::new(definition(10, 0), 1);
    other_keys.adopt_all(&old, now);
    assert!(other_keys.is_empty());
    let mut writer = Writer::new(100);
    writer.table(&old, now);
    let (bytes, left_out) = writer.finish();
    assert!(bytes.len() <= 100 && left_out > 0, "{} bytes, {left_out}", bytes.len());
}
