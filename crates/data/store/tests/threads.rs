//! A store whose clients' sockets are read and written by threads of their own (`io-threads`), and one without such threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use resp::Value;
use support::{Client, Folder, Running, free_address, start, wait_until};

fn threaded(folder: &Folder, words: &[&str]) -> Running {
    start(&folder.data(), &[&["--io-threads", "3"], words].concat())
}

/// All kinds of stores: one thread, one whose loop has half of the clients, and one whose loop has none.
fn all_kinds(folder: &Folder, words: &[&str]) -> [Running; 3] {
    let one = start(&folder.0.join("one"), words);
    let two = start(&folder.0.join("two"), &[&["--io-threads", "2"], words].concat());
    [one, two, threaded(folder, words)]
}

/// A number that INFO has.
fn figure(client: &mut Client, name: &str) -> u64 {
    let text = client.text(&["INFO"]);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect(name);
    line.parse().expect(name)
}

fn encoded(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| resp::encode_command(&mut bytes, words));
    bytes
}

/// All that comes until the other side closes.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_pipeline_may_be_cut_anywhere() {
    let folder = Folder::new();
    let store = threaded(&folder, &[]);
    let bytes = encoded(&[&["SET", "k", "value"], &["APPEND", "k", "!"], &["GET", "k"], &["PING"]]);
    let mut client = store.client();
    for cut in 1..bytes.len() {
        client.send(&bytes[..cut]);
        // Something that comes between, of somebody else.
        assert_eq!(store.client().text(&["ECHO", "x"]), "x");
        client.send(&bytes[cut..]);
        let replies: Vec<Vec<u8>> = (0..4)
            .map(|_| match client.reply().unwrap() {
                Value::Integer(number) => number.to_string().into_bytes(),
                other => other.as_bytes().unwrap().to_vec(),
            })
            .collect();
        assert_eq!(replies, [&b"OK"[..], b"6", b"value!", b"PONG"], "cut at {cut}");
    }
}

/// A client that sends and ends its half at once, or goes as a whole: that may come in one event.
#[test]
fn a_client_that_goes_at_once_is_answered_and_forgotten() {
    let folder = Folder::new();
    for (policy, store) in ["everysec", "always"].into_iter().flat_map(|policy| {
        let place = Folder(folder.0.join(policy));
        let stores = all_kinds(&place, &["--appendfsync", policy]);
        std::mem::forget(place);
        stores.map(|store| (policy, store))
    }) {
        let mut client = store.client();
        for number in 0..20 {
            let mut half = TcpStream::connect(store.address).unwrap();
            half.write_all(&encoded(&[&["INCR", "count"], &["INCR", "count"]])).unwrap();
            half.shutdown(Shutdown::Write).unwrap();
            let expected = format!(":{}\r\n:{}\r\n", 2 * number + 1, 2 * number + 2);
            assert_eq!(String::from_utf8_lossy(&read_to_end(half)), expected, "{policy}");
            let mut gone = TcpStream::connect(store.address).unwrap();
            gone.write_all(&encoded(&[&["BLPOP", "list", "0"]])).unwrap();
        }
        wait_until("those who went are forgotten", || figure(&mut client, "connected_clients") == 1);
        assert_eq!(figure(&mut client, "blocked_clients"), 0);
        assert_eq!(client.text(&["RPUSH", "list", "1", "2"]), "2");
        assert_eq!(client.text(&["LLEN", "list"]), "2", "nobody who has gone takes elements along");
    }
}

#[test]
fn thousands_come_and_go() {
    const EACH: usize = 400;
    let folder = Folder::new();
    let store = threaded(&folder, &[]);
    let address = store.address;
    let threads: Vec<_> = (0..6)
        .map(|number| {
            thread::spawn(move || {
                for round in 0..EACH {
                    let mut client = Client::connect(address);
                    match (number + round) % 4 {
                        // Gone before anything of it could be read, or in the midst of a command.
                        0 => {}
                        1 => drop(client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk")),
                        // Gone without looking at what is answered.
                        2 => drop(client.send(&encoded(&[&["INCR", "seen"], &["LRANGE", "big", "0", "-1"]]))),
                        _ => {
                            let name = format!("{number}:{round}");
                            assert_eq!(client.text(&["ECHO", &name]), name);
                            assert_eq!(client.text(&["INCR", "answered"]).parse::<u64>().map(|_| ()), Ok(()));
                        }
                    }
                }
            })
        })
        .collect();
    let mut client = store.client();
    for _ in 0..2_000 {
        client.command(&["RPUSH", "big", &"x".repeat(100)]);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wait_until("all have gone", || figure(&mut client, "connected_clients") == 1);
    assert_eq!(client.text(&["GET", "answered"]), (6 * EACH / 4).to_string());
    wait_until("what was sent ran", || client.text(&["GET", "seen"]) == (6 * EACH / 4).to_string());
    assert!(figure(&mut client, "io_threaded_reads_processed") > 600);
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", store.pid())).unwrap().count();
    assert!(descriptors < 100, "{descriptors} files are open");
}

#[test]
fn one_that_reads_slowly_gets_all_in_order_and_stops_nobody() {
    let folder = Folder::new();
    let store = threaded(&folder, &["--client-output-buffer-limit", "normal", "0", "0", "0"]);
    let (mut slow, mut other) = (store.client(), store.client());
    let value = |number: usize| format!("{number:06}").repeat(50_000);
    (0..10).for_each(|number| assert_eq!(other.text(&["SET", &format!("k{number}"), &value(number)]), "OK"));
    // 60 MB, which no socket takes at once, from a pipeline that is longer than one read.
    let commands: Vec<Vec<String>> = (0..200)
        .flat_map(|at| [vec!["GET".into(), format!("k{}", at % 10)], vec!["ECHO".into(), "e".repeat(900)]])
        .collect();
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| resp::encode_command(&mut bytes, words));
    assert!(slow.send(&bytes));
    let waits_for = |client: &mut Client| {
        let list = client.text(&["CLIENT", "LIST"]);
        let sizes = list.lines().filter_map(|line| line.split(" omem=").nth(1)?.split(' ').next()?.parse::<u64>().ok());
        sizes.max().unwrap()
    };
    wait_until("no more is made for it", || figure(&mut other, "clients_to_read") == 1);
    let waiting = waits_for(&mut other);
    assert!((500_000..2_000_000).contains(&waiting), "{waiting}");
    (0..100).for_each(|_| assert_eq!(other.text(&["PING"]), "PONG"));
    for at in 0..200 {
        assert_eq!(slow.reply().unwrap().as_bytes(), Some(value(at % 10).as_bytes()), "reply {at}");
        assert_eq!(slow.reply().unwrap().as_bytes(), Some("e".repeat(900).as_bytes()), "reply {at}");
    }
    assert_eq!(slow.text(&["PING"]), "PONG");
}

/// One that sends without a pause, and reads what it is given: others wait as little as if it paused, and its replies do not pile up.
#[test]
fn who_sends_without_a_pause_has_nobody_wait() {
    const ASKED: usize = 30;
    const AHEAD_MAX: u64 = 32 << 20;
    for fsync in ["everysec", "always"] {
        let folder = Folder::new();
        for (number, store) in all_kinds(&folder, &["--appendfsync", fsync]).into_iter().enumerate() {
            let mut other = store.client();
            assert_eq!(other.text(&["SET", "key", "value"]), "OK");
            let begin = figure(&mut other, "used_memory");
            let mut sends = TcpStream::connect(store.address).unwrap();
            let mut reads = sends.try_clone().unwrap();
            // Counted by hand: the end may be a reset, with which `copy` forgets what it has read.
            let reading = thread::spawn(move || {
                let (mut piece, mut count) = (vec![0; 1 << 16], 0);
                while let Ok(len @ 1..) = reads.read(&mut piece) {
                    count += len;
                }
                count
            });
            let (stop, stopped) = mpsc::channel::<()>();
            let sending = thread::spawn(move || {
                let block = encoded(&[&["GET", "key"]]).repeat(8_000);
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) && sends.write_all(&block).is_ok() {}
                sends.shutdown(Shutdown::Both).unwrap();
            });
            let run = |client: &mut Client| figure(client, "total_commands_processed");
            let mut between = Vec::new();
            for _ in 0..ASKED {
                let before = run(&mut other);
                between.push(run(&mut other) - before);
                let taken = figure(&mut other, "used_memory").saturating_sub(begin);
                assert!(taken < AHEAD_MAX, "{fsync} {number}: {taken}");
            }
            between.sort_unstable();
            assert!(between[ASKED / 2] < 3_000, "{fsync} {number}: {between:?}");
            wait_until("its commands run meanwhile", || run(&mut other) > 10_000);
            drop(stop);
            sending.join().unwrap();
            assert!(reading.join().unwrap() > 0, "{fsync} {number}");
        }
    }
}

#[test]
fn clients_are_bounded_as_without_threads() {
    let folder = Folder::new();
    let words = ["--client-output-buffer-limit", "normal", "2mb", "0", "0", "--client-query-buffer-limit", "1mb"];
    for store in all_kinds(&folder, &[&words[..], &["--maxclients", "4"]].concat()) {
        let mut other = store.client();
        assert_eq!(other.text(&["SET", "big", &"x".repeat(500_000)]), "OK");
        // Output that is not read.
        let mut deaf = store.client();
        deaf.send(&encoded(&[&["GET", "big"][..]; 100]));
        wait_until("it is closed", || figure(&mut other, "connected_clients") == 1);
        // A query that does not end.
        let mut endless = store.client();
        let piece = vec![b'x'; 100_000];
        endless.send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
        let sent = (0..1000).take_while(|_| endless.send(&piece)).count();
        assert!(sent < 1000, "it was never closed");
        wait_until("it is closed", || figure(&mut other, "connected_clients") == 1);
        // More clients than there may be.
        let mut more: Vec<Client> = (0..3).map(|_| store.client()).collect();
        more.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        let refused = read_to_end(TcpStream::connect(store.address).unwrap());
        assert_eq!(refused, b"-ERR max number of clients reached\r\n");
        // One that is killed, and one that says good bye: its replies come before.
        let id = more[0].text(&["CLIENT", "ID"]);
        assert_eq!(other.text(&["CLIENT", "KILL", "ID", &id]), "1");
        assert_eq!(more[0].try_text(&["PING"]), None);
        more[1].send(&encoded(&[&["ECHO", "last"], &["QUIT"], &["ECHO", "never"]]));
        assert_eq!(more[1].reply().unwrap().as_bytes(), Some(&b"last"[..]));
        assert_eq!(more[1].reply().unwrap().as_bytes(), Some(&b"OK"[..]));
        assert_eq!(more[1].reply(), None);
        wait_until("two are left", || figure(&mut other, "connected_clients") == 2);
        // Killed by its address, which it is listed with, and its socket is another one than others have.
        let list = other.text(&["CLIENT", "LIST"]);
        let field = |name: &str| -> Vec<String> {
            list.lines().map(|line| line.split(name).nth(1).unwrap().split(' ').next().unwrap().to_owned()).collect()
        };
        let (addresses, descriptors) = (field(" addr="), field(" fd="));
        assert!(descriptors[0] != descriptors[1] && descriptors.iter().all(|fd| fd.parse::<u32>().is_ok()), "{list}");
        assert_eq!(other.text(&["CLIENT", "KILL", "ADDR", &addresses[1], "SKIPME", "no"]), "1");
        assert_eq!(more[2].try_text(&["PING"]), None);
    }
}

#[test]
fn those_who_wait_and_listen_are_told_across_threads() {
    const LISTENERS: usize = 7;
    let folder = Folder::new();
    let store = threaded(&folder, &["--notify-keyspace-events", "Kl"]);
    let mut listeners: Vec<Client> = (0..LISTENERS).map(|_| store.client()).collect();
    let mut waiters: Vec<Client> = (0..LISTENERS).map(|_| store.client()).collect();
    let mut monitor = store.client();
    assert_eq!(monitor.text(&["MONITOR"]), "OK");
    for client in &mut listeners {
        client.command(&["SUBSCRIBE", "news"]);
        client.command(&["PSUBSCRIBE", "__keyspace*"]);
    }
    let mut other = store.client();
    for (number, client) in waiters.iter_mut().enumerate() {
        client.send(&encoded(&[&["BLPOP", "list", "0"], &["ECHO", "after"]]));
        wait_until("it waits", || figure(&mut other, "blocked_clients") == number as u64 + 1);
    }
    for round in 0..50 {
        assert_eq!(other.text(&["PUBLISH", "news", &round.to_string()]), LISTENERS.to_string());
        for client in &mut listeners {
            let message = format!("{:?}", client.reply().unwrap());
            assert!(message.contains(&format!("{:?}", round.to_string().as_bytes())), "{message}");
        }
    }
    // First come, first served.
    for (number, client) in waiters.iter_mut().enumerate() {
        other.command(&["RPUSH", "list", &number.to_string()]);
        let popped = format!("{:?}", client.reply().unwrap());
        assert!(popped.contains(&format!("{:?}", number.to_string().as_bytes())), "{popped}");
        assert_eq!(client.reply().unwrap().as_bytes(), Some(&b"after"[..]));
    }
    for client in &mut listeners {
        for event in ["rpush", "lpop"].repeat(LISTENERS) {
            let message = format!("{:?}", client.reply().unwrap());
            assert!(message.contains(&format!("{:?}", event.as_bytes())), "{message}");
        }
    }
    let mut shown = Vec::new();
    while shown.len() < 50 {
        let line = format!("{}", String::from_utf8_lossy(monitor.reply().unwrap().as_bytes().unwrap()));
        shown.extend(line.split_once("\"PUBLISH\" \"news\" ").map(|(_, round)| round.to_owned()));
    }
    assert_eq!(shown, (0..50).map(|round| format!("\"{round}\"")).collect::<Vec<_>>());
}

/// Money that is moved by transactions, scripts and optimistic ones, of which nothing comes and nothing goes.
#[test]
fn a_sum_stays_whatever_is_moved() {
    const ACCOUNTS: usize = 5;
    const EACH: i64 = 1_000;
    let folder = Folder::new();
    let mut store = threaded(&folder, &["--appendfsync", "always"]);
    let mut client = store.client();
    let names: Vec<String> = (0..ACCOUNTS).map(|number| format!("account:{number}")).collect();
    names.iter().for_each(|name| assert_eq!(client.text(&["SET", name, &EACH.to_string()]), "OK"));
    let sum = |client: &mut Client| -> i64 {
        let words: Vec<&str> = ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let Value::Array(values) = client.command(&words) else { panic!("no array") };
        values.iter().map(|value| String::from_utf8_lossy(value.as_bytes().unwrap()).parse::<i64>().unwrap()).sum()
    };
    let moves = Arc::new(AtomicUsize::new(0));
    let movers: Vec<_> = (0..8)
        .map(|mover| {
            let (mut client, names, moves) = (store.client(), names.clone(), Arc::clone(&moves));
            thread::spawn(move || {
                let script = "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";
                for round in 0.. {
                    let (from, to) = (&names[(mover + round) % ACCOUNTS], &names[(mover * 3 + round * 2) % ACCOUNTS]);
                    let amount = (round % 7).to_string();
                    let went = match (mover + round) % 3 {
                        0 => {
                            client.send(&encoded(&[
                                &["MULTI"],
                                &["DECRBY", from, &amount],
                                &["INCRBY", to, &amount],
                                &["EXEC"],
                            ]));
                            (0..4).all(|_| client.reply().is_some())
                        }
                        1 => client.try_command(&["EVAL", script, "2", from, to, &amount]).is_some(),
                        _ => (|| {
                            client.try_text(&["WATCH", from, to])?;
                            let had: i64 = client.try_text(&["GET", from])?.parse().unwrap();
                            let left = (had - amount.parse::<i64>().unwrap()).to_string();
                            client.try_text(&["MULTI"])?;
                            client.try_text(&["SET", from, &left])?;
                            client.try_text(&["INCRBY", to, if from == to { "0" } else { &amount }])?;
                            if from == to {
                                return client.try_text(&["DISCARD"]);
                            }
                            client.try_text(&["EXEC"])
                        })()
                        .is_some(),
                    };
                    if !went {
                        break;
                    }
                    moves.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    wait_until("much was moved", || {
        assert_eq!(sum(&mut client), EACH * ACCOUNTS as i64);
        moves.load(Ordering::Relaxed) > 300
    });
    store.kill();
    movers.into_iter().for_each(|mover| mover.join().unwrap());
    let store = threaded(&folder, &[]);
    assert_eq!(sum(&mut store.client()), EACH * ACCOUNTS as i64, "after a kill");
}

/// Replies wait until the log is safe, and whoever sends on meanwhile gets all in order.
#[test]
fn what_is_sent_behind_a_write_that_is_not_safe_yet_waits() {
    let folder = Folder::new();
    let store = threaded(&folder, &["--appendfsync", "always"]);
    let mut client = store.client();
    for round in 0..50 {
        for number in 0..20 {
            client.send(&encoded(&[&["INCR", "count"], &["GET", "count"]]));
            if number % 5 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
        }
        for number in 0..20 {
            let count = round * 20 + number + 1;
            assert_eq!(client.reply().unwrap().as_integer(), Some(count));
            assert_eq!(client.reply().unwrap().as_bytes(), Some(count.to_string().as_bytes()));
        }
    }
}

#[test]
fn the_store_goes_on_while_its_sockets_and_data_change() {
    let folder = Folder::new();
    let path = folder.0.join("socket");
    let mut store = threaded(&folder, &["--unixsocket", &path.display().to_string(), "--timeout", "0"]);
    let (mut client, mut paused) = (store.client(), store.client());
    let mut local = UnixStream::connect(&path).unwrap();
    local.write_all(&encoded(&[&["SET", "k", "1"], &["CLIENT", "LIST"]])).unwrap();
    let mut piece = [0; 9];
    local.read_exact(&mut piece).unwrap();
    assert_eq!(&piece[..5], b"+OK\r\n");
    assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK");
    assert_eq!(paused.text(&["GET", "k"]), "1");
    // Another address: clients that are there stay.
    let other = free_address();
    assert_eq!(client.text(&["CONFIG", "SET", "port", &other.port().to_string()]), "OK");
    assert_eq!(Client::connect(other).text(&["INCR", "k"]), "2");
    assert_eq!(paused.text(&["INCR", "k"]), "3");
    wait_until("the former address is closed", || TcpStream::connect(store.address).is_err());
    // A pause, in which nothing that writes runs.
    assert_eq!(client.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
    paused.send(&encoded(&[&["INCR", "k"], &["GET", "k"]]));
    wait_until("it waits", || figure(&mut client, "blocked_clients") == 1);
    assert_eq!(client.text(&["GET", "k"]), "3");
    assert_eq!(client.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(paused.reply().unwrap().as_integer(), Some(4));
    assert_eq!(paused.reply().unwrap().as_bytes(), Some(&b"4"[..]));
    assert_eq!(client.text(&["DEBUG", "SLEEP", "0.05"]), "OK");
    // Both names say the same.
    for name in ["io-threads", "shards"] {
        assert_eq!(format!("{:?}", client.command(&["CONFIG", "GET", name])).matches("51").count(), 1);
    }
    // Those who are silent for too long are closed, and those who wait are not.
    paused.send(&encoded(&[&["BLPOP", "none", "0"]]));
    wait_until("it waits", || figure(&mut client, "blocked_clients") == 1);
    assert_eq!(client.text(&["CONFIG", "SET", "timeout", "1"]), "OK");
    assert_eq!(client.reply(), None);
    let mut client = Client::connect(other);
    assert_eq!(figure(&mut client, "connected_clients"), 2);
    // All that was acknowledged is there when it has ended, and it tells those who are connected that it ends.
    assert_eq!(client.text(&["INCR", "k"]), "5");
    assert_eq!(store.stop(), Some(0));
    assert_eq!(paused.reply(), None);
    let store = threaded(&folder, &[]);
    assert_eq!(store.client().text(&["GET", "k"]), "5");
}

/// Memory that is short has clients wait, not fail.
#[test]
fn clients_go_at_the_pace_of_the_tables() {
    let folder = Folder::new();
    let store = threaded(&folder, &["--maxmemory", "20mb"]);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut client = store.client();
            thread::spawn(move || {
                let value = "v".repeat(4_000);
                for round in 0..40 {
                    let words: Vec<[String; 3]> =
                        (0..50).map(|at| ["SET".into(), format!("{writer}:{round}:{at}"), value.clone()]).collect();
                    let mut bytes = Vec::new();
                    words.iter().for_each(|words| resp::encode_command(&mut bytes, words));
                    assert!(client.send(&bytes));
                    (0..50).for_each(|_| assert_eq!(client.reply().unwrap().as_bytes(), Some(&b"OK"[..])));
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(store.client().text(&["DBSIZE"]), "8000");
}

/// Half of the clients are the loop's own, until they send pipelines: what is sent meanwhile is answered in order.
#[test]
fn who_sends_pipelines_is_given_to_the_other_thread() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--io-threads", "2", "--appendfsync", "always"]);
    let mut clients = vec![store.client()];
    // Those who looked whether it listens would count as clients of the loop's.
    wait_until("they have gone", || figure(&mut clients[0], "connected_clients") == 1);
    clients.extend((0..5).map(|_| store.client()));
    assert_eq!(clients[0].text(&["CONFIG", "RESETSTAT"]), "OK");
    for client in &mut clients {
        assert_eq!(client.text(&["PING"]), "PONG");
    }
    let reads = figure(&mut clients[0], "io_threaded_reads_processed");
    assert!((3..=5).contains(&reads), "of six clients, three: {reads}");
    assert_eq!(clients[0].text(&["CONFIG", "RESETSTAT"]), "OK");
    let mut expected = [0; 6];
    for _ in 0..40 {
        for client in &mut clients {
            client.send(&encoded(&[&["INCR", "sum"][..]; 5]));
        }
        for (client, last) in clients.iter_mut().zip(&mut expected) {
            for _ in 0..5 {
                let sum = client.reply().unwrap().as_integer().unwrap();
                assert!(sum > *last, "{sum} after {last}");
                *last = sum;
            }
        }
    }
    assert_eq!(clients[0].text(&["GET", "sum"]), "1200");
    let before = figure(&mut clients[0], "io_threaded_reads_processed");
    for client in &mut clients {
        assert_eq!(client.text(&["PING"]), "PONG");
    }
    // All of them are with the other thread: these six, and the question that was asked last.
    assert_eq!(figure(&mut clients[0], "io_threaded_reads_processed"), before + 7);
}
