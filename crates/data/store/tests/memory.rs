//! What a store takes of memory and of the disk, against the bounds that it is given.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, path::Path, thread};

use support::{Client, Folder, Running, start, wait_until};

const MB: u64 = 1 << 20;
/// What a process may take beside `maxmemory`, and what it may be beyond it until that is noticed.
const BESIDE: u64 = 36 * MB;

/// A field of `INFO`.
fn figure(client: &mut Client, name: &str) -> String {
    field(&client.text(&["INFO", "everything"]), name)
}

fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no field {name}")).trim().to_owned()
}

fn number(client: &mut Client, name: &str) -> u64 {
    figure(client, name).parse().unwrap()
}

/// The most that the machine held of a process so far, but for files: how much of the program it maps, which has debug information
/// and its tests in it, is the machine's choice.
fn peak_bytes(store: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", store.pid())).unwrap();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap()
    };
    (kilobytes("VmHWM:") - kilobytes("RssFile:")) * 1024
}

/// Values that do not compress.
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&(self.0 ^ (self.0 >> 29)).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Sets keys, many at once; how many were refused.
fn fill(client: &mut Client, keys: std::ops::Range<usize>, mut len: impl FnMut(usize) -> usize) -> usize {
    let mut noise = Noise(keys.start as u64 + 1);
    let mut refused = 0;
    for chunk in keys.collect::<Vec<_>>().chunks(32) {
        let mut bytes = Vec::new();
        for key in chunk {
            let (name, value) = (format!("key:{key}"), noise.bytes(len(*key)));
            resp::encode_command(&mut bytes, &[b"SET".as_slice(), name.as_bytes(), &value]);
        }
        assert!(client.send(&bytes));
        refused += chunk.iter().filter(|_| client.reply().expect("a reply").as_error().is_some()).count();
    }
    refused
}

#[test]
fn what_the_machine_holds_stays_within_maxmemory() {
    let folder = Folder::new();
    let bound = 40 * MB;
    let store = start(&folder.data(), &["--maxmemory", "40mb"]);
    let mut client = store.client();
    // More than twice as much, in values of all sizes, of which many change.
    for round in 0..2 {
        let refused = fill(&mut client, 0..6_000, |key| (key * 7_919 * (round + 1)) % 32_000);
        assert_eq!(refused, 0);
    }
    let peak = peak_bytes(&store);
    assert!(peak < bound + BESIDE, "{} MB", peak / MB);
    assert_eq!(client.text(&["DBSIZE"]), "6000", "nothing is lost");
    for key in [0, 1, 777, 5_999] {
        assert_eq!(client.text(&["STRLEN", &format!("key:{key}")]), (key * 7_919 * 2 % 32_000).to_string());
    }
}

/// Runs commands from several clients, each many at once, until so many bytes were sent, and looks that the process never had more
/// than its bound and a slack at the end of a turn.
fn grow(
    words: &[&str],
    bound: u64,
    slack: u64,
    bytes: usize,
    command: impl Fn(&mut Noise, usize) -> Vec<Vec<u8>> + Sync,
) {
    const CLIENTS: usize = 4;
    const AT_ONCE: usize = 16;
    let folder = Folder::new();
    let store = start(&folder.data(), words);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (mut client, command) = (store.client(), &command);
            scope.spawn(move || {
                let (mut noise, mut sent, mut step) = (Noise(number as u64 + 1), 0, number);
                while sent < bytes / CLIENTS {
                    let mut batch = Vec::new();
                    for _ in 0..AT_ONCE {
                        resp::encode_command(&mut batch, &command(&mut noise, step));
                        step += CLIENTS;
                    }
                    sent += batch.len();
                    assert!(client.send(&batch));
                    for _ in 0..AT_ONCE {
                        let reply = client.reply().expect("a reply");
                        assert!(reply.as_error().is_none(), "{reply:?}");
                    }
                }
            });
        }
    });
    let peak = number(&mut store.client(), "used_memory_peak");
    assert!(peak > bound / 2, "{} MB do not fill it", peak / MB);
    assert!(peak <= bound + slack, "{} MB of {}", peak / MB, bound / MB);
}

fn words_of(name: &str, key: &str) -> Vec<Vec<u8>> {
    vec![name.as_bytes().to_vec(), key.as_bytes().to_vec()]
}

#[test]
fn collections_that_grow_stay_within_maxmemory() {
    const ELEMENTS: usize = 10;
    let command = |noise: &mut Noise, step: usize| {
        let (name, key) = [("ZADD", "z"), ("HSET", "h"), ("SADD", "s"), ("RPUSH", "l"), ("XADD", "x")][step / 4 % 5];
        let mut words = words_of(name, key);
        match name {
            "XADD" => words.extend([b"*".to_vec(), b"field".to_vec(), noise.bytes(3_000)]),
            _ => {
                for _ in 0..ELEMENTS {
                    match name {
                        "ZADD" => words.extend([(noise.0 >> 20).to_string().into_bytes(), noise.bytes(200)]),
                        "HSET" => words.extend([noise.bytes(20), noise.bytes(300)]),
                        _ => words.push(noise.bytes(200)),
                    }
                }
            }
        }
        words
    };
    grow(&["--maxmemory", "32mb"], 32 * MB, 0, 12 << 20, command);
}

#[test]
fn keys_that_come_fast_stay_within_maxmemory() {
    let command = |noise: &mut Noise, step: usize| match step % 32 {
        0..28 => {
            let mut words = words_of("SET", "key:");
            words[1].extend_from_slice(&noise.bytes(12));
            words.push(noise.bytes(300 + step % 7 * 200));
            words
        }
        _ => {
            let script = "for i = 1, 20 do redis.call('SET', KEYS[1] .. i, ARGV[1] .. i) end return 1";
            let mut words = words_of("EVAL", script);
            words.extend([b"1".to_vec(), noise.bytes(12), noise.bytes(500)]);
            words
        }
    };
    grow(&["--maxmemory", "32mb"], 32 * MB, 0, 14 << 20, command);
}

#[test]
fn long_values_that_come_at_once_stay_within_maxmemory() {
    const LEN: usize = 2 << 20;
    /// Each client's query may be there, and one that runs is there more than once.
    const SLACK: u64 = 8 * LEN as u64;
    let value = Noise(1).bytes(LEN);
    let command = |_: &mut Noise, step: usize| {
        let mut words = words_of("SET", &format!("key:{}", step % 10));
        words.push(value.clone());
        words
    };
    grow(&["--maxmemory", "64mb"], 64 * MB, SLACK, 100 << 20, command);
}

/// As large as they come in a small memory: what makes files of them takes some times as much as one.
#[test]
fn very_long_values_of_many_clients_stay_near_maxmemory() {
    const CLIENTS: usize = 8;
    const SETS: usize = 8;
    const LEN: usize = 5 << 20;
    const BOUND: u64 = 100 * MB;
    const SLACK: u64 = 8 * LEN as u64;
    let folder = Folder::new();
    for threads in ["1", "3"] {
        let data = folder.0.join(threads);
        let store = start(&data, &["--maxmemory", "100mb", "--io-threads", threads]);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let mut client = store.client();
                scope.spawn(move || {
                    let value = Noise(number as u64 + 1).bytes(LEN);
                    for step in 0..SETS {
                        let key = format!("key:{}", (number * 7 + step * 11) % 40);
                        let mut bytes = Vec::new();
                        resp::encode_command(&mut bytes, &[b"SET".as_slice(), key.as_bytes(), &value]);
                        assert!(client.send(&bytes), "nobody is closed for what he writes");
                        let reply = client.reply().expect("nobody is closed for what he writes");
                        assert!(reply.as_error().is_none(), "{reply:?}");
                    }
                });
            }
        });
        let mut client = store.client();
        let peak = number(&mut client, "used_memory_peak");
        assert!(peak > BOUND / 2, "{} MB do not fill it", peak / MB);
        assert!(peak <= BOUND + SLACK, "{} MB of {}", peak / MB, BOUND / MB);
        // More than memory holds is looked at.
        let read = number(&mut client, "keys_read_from_tables");
        let digest = client.text(&["DEBUG", "DIGEST"]);
        assert!(number(&mut client, "keys_read_from_tables") > read + 10, "most keys had left memory");
        assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
        let peak = number(&mut client, "used_memory_peak");
        assert!(peak <= BOUND + SLACK, "{} MB of {} after digests", peak / MB, BOUND / MB);
    }
}

#[test]
fn keys_go_before_replies_that_nobody_reads_fill_memory() {
    const BOUND: u64 = 24 * MB;
    let folder = Folder::new();
    let store = start(
        &folder.data(),
        &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru", "--client-unread-max", "0"],
    );
    let mut client = store.client();
    assert_eq!(fill(&mut client, 0..50, |_| 200_000), 0);
    let asks = b"*2\r\n$4\r\nMGET\r\n$5\r\nkey:1\r\n".repeat(40);
    let mut silent: Vec<Client> = (0..20).map(|_| store.client()).collect();
    for client in &mut silent {
        assert!(client.send(&asks));
    }
    wait_until("nearly all have run", || {
        let text = client.text(&["INFO", "commandstats"]);
        let calls =
            text.split_once("cmdstat_mget:calls=").and_then(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok());
        calls.is_some_and(|calls| calls > 600)
    });
    let peak = number(&mut client, "used_memory_peak");
    // The replies to one client come on top.
    assert!(peak < BOUND + 16 * MB, "{} MB", peak / MB);
}

#[test]
fn figures_of_the_allocator_are_its_own_and_free_memory_is_given_back() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert!(figure(&mut client, "mem_allocator").starts_with("jemalloc-5."));
    fill(&mut client, 0..2_000, |_| 20_000);
    client.text(&["SAVE"]);
    let full = number(&mut client, "used_memory_rss");
    client.text(&["FLUSHALL"]);
    client.text(&["SAVE"]);
    // The buffers of the tables keep something; what was in the keyspace is free.
    wait_until("memory is given back", || {
        client.text(&["MEMORY", "PURGE"]);
        number(&mut client, "used_memory_rss") + 30 * MB < full
    });
    // Of one moment: threads of the tables still work.
    let text = client.text(&["INFO", "memory"]);
    let [allocated, active, resident] =
        ["allocator_allocated:", "allocator_active:", "allocator_resident:"].map(|name| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            found.trim().parse::<u64>().unwrap()
        });
    assert!(0 < allocated && allocated <= active && active <= resident, "{allocated} {active} {resident}");
    let ratio: f64 = figure(&mut client, "allocator_frag_ratio").parse().unwrap();
    assert!((ratio - active as f64 / allocated as f64).abs() < 0.5, "{ratio}");
    assert!(client.text(&["MEMORY", "MALLOC-STATS"]).contains("jemalloc-5."));
}

#[test]
fn with_a_policy_keys_that_are_only_on_the_disk_are_let_go_too() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--maxmemory", "96mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = store.client();
    assert_eq!(fill(&mut client, 0..3_000, |_| 10_000), 0);
    assert_eq!(client.text(&["DBSIZE"]), "3000", "they fit");
    assert_eq!(store.stop(), Some(0));

    // Half of the memory: nobody asks for any key, and they go all the same, from the disk too.
    let mut store = start(
        &folder.data(),
        &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru", "--client-unread-max", "0"],
    );
    let mut client = store.client();
    wait_until("keys go that nobody asked for", || number(&mut client, "evicted_keys") > 300);
    // New ones find room, and what goes for them is gone.
    assert_eq!(fill(&mut client, 5_000..6_200, |_| 10_000), 0);
    wait_until("what is left fits", || client.text(&["DBSIZE"]).parse::<u64>().unwrap() < 2_500);
    let left = client.text(&["DBSIZE"]).parse::<u64>().unwrap();
    assert_eq!(store.stop(), Some(0));
    let store = start(&folder.data(), &[]);
    let count = (0..3_000).chain(5_000..6_200).filter(|key| store_has(&mut store.client(), *key)).count() as u64;
    assert!(count <= left, "{count} of {left}: a start brings none back");
}

fn store_has(client: &mut Client, key: usize) -> bool {
    client.text(&["EXISTS", &format!("key:{key}")]) == "1"
}

#[test]
fn with_a_bound_on_the_disk_memory_is_a_cache_of_the_cache() {
    let folder = Folder::new();
    let words = ["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru", "--tables-size-max", "20mb"];
    let store = start(&folder.data(), &words);
    let mut client = store.client();
    assert_eq!(fill(&mut client, 0..1_200, |_| 10_000), 0);
    client.text(&["SAVE"]);
    assert_eq!(
        client.text(&["DBSIZE"]),
        "1200",
        "12 MB: they do not fit beside the tables' own memory, but on the disk"
    );
    assert_eq!(client.text(&["STRLEN", "key:0"]), "10000");
    assert_eq!(fill(&mut client, 1_200..3_600, |_| 10_000), 0);
    let tables = folder.data().join("shard-0/tables");
    let mut left = 0;
    wait_until("keys go and the tables are within their bound", || {
        left = client.text(&["DBSIZE"]).parse::<u64>().unwrap();
        left < 2_100 && size_of(&tables) <= 20 * MB
    });
    assert!(left > 800, "{left}");
}

/// What the files below a folder have.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some(if meta.is_dir() { size_of(&entry.path()) } else { meta.len() })
        })
        .sum()
}

#[test]
fn the_tables_do_not_fall_behind_without_a_bound() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--tables-behind-max", "4mb"]);
    let mut client = store.client();
    let mut most = 0;
    for step in 0..6 {
        assert_eq!(fill(&mut client, step * 200..step * 200 + 200, |_| 10_000), 0);
        // Both of the same moment.
        let text = client.text(&["INFO", "everything"]);
        let [end, applied] =
            ["master_repl_offset", "tables_applied_offset"].map(|name| field(&text, name).parse::<u64>().unwrap());
        most = most.max(end - applied);
    }
    // What one turn of the loop brings comes on top.
    assert!(most < 5 * MB, "{most}");
    assert_eq!(client.text(&["DBSIZE"]), "1200");
}

#[test]
fn who_only_reads_goes_on_while_there_is_no_room_for_more() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--tables-behind-max", "100kb"]);
    let (mut writer, mut reader) = (store.client(), store.client());
    writer.text(&["SET", "key", "value"]);
    let writing = std::thread::spawn(move || fill(&mut writer, 0..3_000, |_| 10_000));
    // A command that waits counts as one of a client that is blocked.
    wait_until("one who writes waits, and one who reads does not", || {
        assert_eq!(reader.text(&["GET", "key"]), "value");
        number(&mut reader, "blocked_clients") == 1
    });
    assert_eq!(writing.join().unwrap(), 0, "nothing is refused");
    assert_eq!(reader.text(&["DBSIZE"]), "3001");
}

#[test]
fn who_writes_does_not_wait_for_tables_that_have_everything() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--maxmemory", "24mb"]);
    let mut client = store.client();
    for words in [&["SADD", "set", "a"][..], &["ZADD", "sorted", "1", "a"], &["HSET", "hash", "a", "1"], &["BGSAVE"]] {
        client.text(words);
    }
    wait_until("the tables have everything", || {
        number(&mut client, "tables_applied_offset") == number(&mut client, "master_repl_offset")
    });
    // These look at what they would change, and the log gets nothing.
    for words in [["SREM", "set", "b"], ["ZREM", "sorted", "b"], ["HDEL", "hash", "b"]] {
        client.text(&words);
    }
    // Memory is full of what no key takes, and none of these clients takes much.
    let mut slow: Vec<Client> = (0..12).map(|_| store.client()).collect();
    for client in &mut slow {
        assert!(client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2500000\r\n"));
        assert!(client.send(&vec![b'x'; 2_400_000]));
    }
    wait_until("memory is full", || number(&mut client, "used_memory_peak") > 24 * MB);
    let reply = client.command(&["SET", "small", "value"]);
    assert!(reply.as_error().is_none_or(|error| error.starts_with(b"OOM")), "{reply:?}");
}

/// Each way reads the same; who allows no io_uring gets threads.
#[test]
fn keys_that_left_memory_are_read_in_every_way() {
    const KEYS: usize = 6_000;
    let folder = Folder::new();
    let value = |key: usize| format!("{key}-").repeat(400);
    for (round, way) in ["auto", "cached", "direct", "threads"].into_iter().enumerate() {
        let store = start(&folder.data(), &["--maxmemory", "16mb", "--tables-read", way]);
        let mut client = store.client();
        if round == 0 {
            for chunk in (0..KEYS).collect::<Vec<_>>().chunks(50) {
                let mut bytes = Vec::new();
                for key in chunk {
                    resp::encode_command(
                        &mut bytes,
                        &[b"SET", format!("key:{key}").as_bytes(), value(*key).as_bytes()],
                    );
                }
                assert!(client.send(&bytes));
                chunk.iter().for_each(|_| assert_eq!(client.reply().unwrap().as_error(), None));
            }
        }
        let by = figure(&mut client, "tables_read_by");
        assert!(by == "threads" || way != "threads", "{way}: {by}");
        let mut readers: Vec<Client> = (0..8).map(|_| store.client()).collect();
        for (at, chunk) in (0..KEYS).collect::<Vec<_>>().chunks(40).enumerate() {
            // In no order, several at once, from several clients; some are not there.
            let keys: Vec<usize> = chunk.iter().map(|key| key * 7_919 % (KEYS + 500)).collect();
            let client = &mut readers[at % 8];
            let mut bytes = Vec::new();
            keys.iter().for_each(|key| resp::encode_command(&mut bytes, &[b"GET", format!("key:{key}").as_bytes()]));
            assert!(client.send(&bytes));
            for key in keys {
                let expected = (key < KEYS).then(|| value(key).into_bytes());
                assert_eq!(client.reply().unwrap().as_bytes().map(<[u8]>::to_vec), expected, "{way}: {key}");
            }
        }
        assert!(number(&mut client, "keys_read_from_tables") > 1_000, "{way}");
    }
}

#[test]
fn an_emptied_database_is_removed_from_the_tables_also_while_others_save() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    for command in ["SET key value", "SAVE", "FLUSHALL"] {
        client.text(&command.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(number(&mut client, "tables_emptied_databases"), 1);
    // Each waits for a checkpoint, and is told what else the tables' thread has done meanwhile.
    for _ in 0..20 {
        client.text(&["INCR", "count"]);
        assert_eq!(client.text(&["SAVE"]), "OK");
    }
    wait_until("the tables have nothing of it any more", || number(&mut client, "tables_emptied_databases") == 0);
}

#[test]
fn keys_that_expire_are_counted_whether_they_are_in_memory_or_not() {
    let folder = Folder::new();
    let keyspace = |client: &mut Client| field(&client.text(&["INFO", "keyspace"]), "db0");
    let ask = |client: &mut Client, command: &str| client.text(&command.split(' ').collect::<Vec<_>>());
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    for number in 0..10 {
        ask(&mut client, &format!("SET expiring{number} x EX 1000"));
        ask(&mut client, &format!("SET lasting{number} x"));
    }
    let counts = keyspace(&mut client);
    assert!(counts.starts_with("keys=20,expires=10,avg_ttl=99"), "{counts}");
    store.stop();
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert!(keyspace(&mut client).starts_with("keys=20,expires=10,"));
    for command in ["DEL expiring0", "PERSIST expiring1", "SET expiring2 y", "EXPIRE lasting0 500", "DEL lasting1"] {
        ask(&mut client, command);
    }
    assert!(keyspace(&mut client).starts_with("keys=18,expires=8,"));
    store.kill();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert!(keyspace(&mut client).starts_with("keys=18,expires=8,"));
    ask(&mut client, "FLUSHALL");
    ask(&mut client, "SET key x EX 5");
    assert!(keyspace(&mut client).starts_with("keys=1,expires=1,"));
}

/// 2,000 times 100 kB are asked for in one go by each of some clients, none of which reads before all have sent.
#[test]
fn replies_that_nobody_has_read_yet_are_not_made() {
    const CLIENTS: usize = 12;
    const GETS: usize = 500;
    const LEN: usize = 100_000;
    for words in [["--maxmemory", "100mb", "--io-threads", "1"], ["--maxmemory", "100mb", "--io-threads", "3"]] {
        let folder = Folder::new();
        let store = start(&folder.data(), &words);
        let mut client = store.client();
        assert_eq!(fill(&mut client, 0..1, |_| LEN), 0);
        let mut pipeline = Vec::new();
        (0..GETS).for_each(|_| resp::encode_command(&mut pipeline, &["GET", "key:0"]));
        let mut readers: Vec<Client> = (0..CLIENTS).map(|_| store.client()).collect();
        readers.iter_mut().for_each(|reader| assert!(reader.send(&pipeline)));
        wait_until("all of them have much to read", || number(&mut client, "clients_to_read") == CLIENTS as u64);
        let (fixed, peak) = (40 * MB, peak_bytes(&store));
        assert!(peak < fixed + 2 * CLIENTS as u64 * MB, "{words:?}: {} MB", peak / MB);
        // Others are served meanwhile, and whoever reads gets everything.
        assert_eq!(client.text(&["STRLEN", "key:0"]), LEN.to_string());
        let threads: Vec<_> = readers
            .into_iter()
            .map(|mut reader| {
                thread::spawn(move || {
                    let is_whole = |_: &usize| {
                        reader.reply().is_some_and(|reply| reply.as_bytes().is_some_and(|bytes| bytes.len() == LEN))
                    };
                    (0..GETS).filter(is_whole).count()
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), GETS);
        }
        let peak = peak_bytes(&store);
        assert!(peak < fixed + 2 * CLIENTS as u64 * MB, "{words:?}: {} MB", peak / MB);
        assert_eq!((number(&mut client, "evicted_clients"), number(&mut client, "clients_to_read")), (0, 0));
        assert!(number(&mut client, "client_unread_pauses") > CLIENTS as u64);
    }
}

/// As a client library does with a long pipeline: it sends all of it, then it reads.
#[test]
fn a_client_that_reads_when_it_has_sent_everything_is_served() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--client-unread-max", "64kb"]);
    let mut client = store.client();
    assert_eq!(fill(&mut client, 0..1, |_| 1_000), 0);
    // More than the system has room for on the way.
    let count = 400_000;
    let mut pipeline = Vec::new();
    (0..count).for_each(|_| resp::encode_command(&mut pipeline, &["GETRANGE", "key:0", "0", "99"]));
    assert!(client.send(&pipeline));
    for _ in 0..count {
        assert!(client.reply().expect("a reply to each").as_bytes().is_some_and(|bytes| bytes.len() == 100));
    }
}

/// What is made for a script outside of Lua counts as its memory too.
#[test]
fn a_script_has_no_more_memory_than_it_may() {
    const SCRIPT_MAX: u64 = 256 * MB;
    for (script, is_refused) in [
        ("local s='x' while true do s=s..s end", true),
        ("return #string.rep('x', 200*1024*1024)", true),
        ("return #string.rep('x', 100*1024*1024)", false),
        ("local s='x' while true do s=string.gsub(s,'x','xxxxxxxxxx') end", true),
        ("local s='x' while true do s=s:gsub('.+', function(all) return all..all end) end", true),
        ("local t, s={}, string.rep('x', 2^20) for i=1,250 do t[i]=s end return #cjson.encode(t)", true),
        ("local t, s={}, string.rep('x', 2^20) for i=1,250 do t[i]=s end return #cmsgpack.pack(t)", true),
        ("local t, s={}, string.rep('x', 2^20) for i=1,70 do t[i]=s end return #cjson.encode(t)", false),
    ] {
        let folder = Folder::new();
        let store = start(&folder.data(), &[]);
        let mut client = store.client();
        let before = peak_bytes(&store);
        let reply = client.text(&["EVAL", script, "0"]);
        assert_eq!(reply.contains("not enough memory"), is_refused, "{script}: {reply}");
        let taken = peak_bytes(&store) - before;
        assert!(taken < SCRIPT_MAX + 16 * MB, "{script}: {} MB", taken / MB);
        assert_eq!(client.text(&["EVAL", "return #string.rep('x', 50*1024*1024)", "0"]), "52428800", "after {script}");
    }
}
