//! What a store does when the disk, the clock or somebody else does not what it should.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use store::log_dump::{Dump, Form, dump};
use support::{Folder, Running, free_address, refusal, start, start_by, store_command, wait_until};

fn log_of(data: &Path) -> PathBuf {
    data.join("shard-0/log")
}

/// The files of the log, the oldest first.
fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(log_of(data)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "oplog")).collect();
    found.sort();
    found
}

/// The files of the tables' records.
fn table_files(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("shard-0/tables/tree/tables")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The first place of some bytes in a file.
fn find(path: &Path, bytes: &[u8]) -> usize {
    fs::read(path).unwrap().windows(bytes.len()).position(|window| window == bytes).expect("they are there")
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Asks for something, but does not wait long: a write may have to wait until the log can be written.
fn asked_briefly(store: &Running, words: &[&str]) -> Option<String> {
    let mut client = store.client();
    client.be_patient_for(Duration::from_millis(300));
    client.try_text(words)
}

/// Keys of so many bytes, written one after another in a thread, until one is refused or the store ends; how many were
/// acknowledged.
fn write_on(store: &Running, len: usize) -> thread::JoinHandle<usize> {
    let mut client = store.client();
    thread::spawn(move || {
        let value = "v".repeat(len);
        let is_the_end = |number: &usize| {
            client.try_text(&["SET", &format!("key:{number}"), &value]).is_none_or(|reply| reply != "OK")
        };
        (0..).find(is_the_end).unwrap()
    })
}

/// Waits until writes are refused, and says how.
fn refused(store: &Running) -> String {
    let mut reply = None;
    wait_until("writes are refused", || {
        reply = asked_briefly(store, &["SET", "probe", "1"]).filter(|reply| reply != "OK");
        reply.is_some()
    });
    reply.unwrap()
}

#[test]
fn a_log_that_cannot_be_written_refuses_writes_until_it_can() {
    let folder = Folder::new();
    let address = free_address();
    let mut command = store_command(address, &folder.data(), &["--appendfsync", "always"]);
    // A limit of files' lengths stands for a disk that fails: without the signal, a write beyond it is an error.
    let inner = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let program = command.get_program().to_string_lossy().into_owned();
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
    command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; exec {program} {inner}")]).envs(environment);
    let mut store = start_by(&mut command, address);
    let mut client = store.client();
    assert_eq!(client.text(&["SET", "before", "1"]), "OK");
    let pid = Pid::from_raw(store.pid() as i32);
    let former = prlimit(pid, Resource::Fsize, Rlimit { current: Some(4_000), maximum: None }).unwrap();
    let writer = write_on(&store, 1_000);
    let reply = refused(&store);
    assert!(reply.starts_with("MISCONF Errors writing to the log"), "{reply}");
    assert!(reply.contains(".oplog"), "{reply}");
    assert_eq!((client.text(&["GET", "before"]), client.text(&["INCR", "before"])), ("1".into(), reply));
    prlimit(pid, Resource::Fsize, former).unwrap();
    wait_until("writes are taken again", || asked_briefly(&store, &["SET", "after", "1"]).as_deref() == Some("OK"));
    store.kill();
    let written = writer.join().unwrap();
    assert!(written > 0);
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert_eq!((client.text(&["GET", "before"]), client.text(&["GET", "after"])), ("1".into(), "1".into()));
    for number in 0..written {
        assert_eq!(client.text(&["STRLEN", &format!("key:{number}")]), "1000");
    }
}

/// A small file system of its own, which nobody else sees.
struct SmallDisk {
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    fn new(folder: &Path, megabytes: usize) -> Self {
        let folder = folder.join("disk");
        fs::create_dir(&folder).unwrap();
        let place = folder.display();
        let script =
            format!("mount -t tmpfs -o size={megabytes}m small {place} && touch {place}/ready && exec sleep 1000");
        let holder = Command::new("unshare").args(["-rm", "sh", "-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        let disk = Self { holder, folder };
        wait_until("there is a small disk", || disk.outside().join("ready").exists());
        disk
    }

    /// The disk as it is seen from here.
    fn outside(&self) -> PathBuf {
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(self.folder.strip_prefix("/").unwrap())
    }

    fn run(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-U", "-m", "--preserve-credentials", program]).args(words);
        command
    }

    fn start(&self, words: &[&str]) -> Running {
        let address = free_address();
        let inner = store_command(address, &self.folder.join("data"), words);
        let arguments: Vec<_> = inner.get_args().map(|word| word.to_str().unwrap()).collect();
        let mut command = self.run(inner.get_program().to_str().unwrap(), &arguments);
        command.envs(inner.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())));
        start_by(&mut command, address)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn a_full_disk_refuses_writes_and_keeps_what_was_written() {
    let folder = Folder::new();
    let disk = SmallDisk::new(&folder.0, 24);
    let ballast = disk.outside().join("ballast");
    fs::write(&ballast, vec![1; 8 << 20]).unwrap();
    let mut store = disk.start(&["--appendfsync", "always", "--log-retention-size", "1"]);
    let mut client = store.client();
    let writer = write_on(&store, 50_000);
    let reply = refused(&store);
    assert!(reply.starts_with("MISCONF Errors writing to the log") && reply.contains("No space left"), "{reply}");
    for number in 0..10 {
        assert_eq!(client.text(&["STRLEN", &format!("key:{number}")]), "50000", "reads go on");
    }
    fs::remove_file(&ballast).unwrap();
    wait_until("there is room again", || asked_briefly(&store, &["SET", "after", "1"]).as_deref() == Some("OK"));
    store.kill();
    let written = writer.join().unwrap();
    let store = disk.start(&[]);
    let mut client = store.client();
    assert_eq!(client.text(&["GET", "after"]), "1");
    for number in 0..written {
        assert_eq!(client.text(&["STRLEN", &format!("key:{number}")]), "50000");
    }
}

#[test]
fn a_full_disk_keeps_no_store_from_ending() {
    // A merge that ends just then makes room, and nothing is left to be given up: then once more.
    assert!((0..3).any(|_| gives_up_on_a_full_disk()), "the disk was never full at the end");
}

/// Stops a store whose disk is full. Returns whether it said that it ends without something; nothing acknowledged is lost either way.
fn gives_up_on_a_full_disk() -> bool {
    let folder = Folder::new();
    let disk = SmallDisk::new(&folder.0, 24);
    let ballast = disk.outside().join("ballast");
    fs::write(&ballast, vec![1; 8 << 20]).unwrap();
    let mut store = disk.start(&["--log-retention-size", "1"]);
    let writer = write_on(&store, 50_000);
    refused(&store);
    let reply = store.client().text(&["SAVE"]);
    assert!(reply.starts_with("MISCONF Errors writing to the log"), "{reply}");
    assert_eq!(store.stop(), Some(0));
    let gave_up = store.output().contains("the store ends without what it has not acknowledged");
    let written = writer.join().unwrap();
    fs::remove_file(&ballast).unwrap();
    let store = disk.start(&[]);
    let mut client = store.client();
    for number in 0..written {
        assert_eq!(client.text(&["STRLEN", &format!("key:{number}")]), "50000");
    }
    gave_up
}

#[test]
fn a_new_store_says_so_and_what_is_not_read() {
    let folder = Folder::new();
    fs::create_dir(folder.data()).unwrap();
    fs::write(folder.data().join("dump.rdb"), "REDIS0010").unwrap();
    let mut store = start(&folder.data(), &[]);
    wait_until("it begins anew", || store.output().contains("has no data yet: an empty store begins there"));
    assert!(store.output().contains("Redis' files there (dump.rdb) are not read"), "{}", store.output());
    assert_eq!(store.stop(), Some(0));
    let messages = folder.data().join("messages");
    let store = start(&folder.data(), &["--logfile", messages.to_str().unwrap(), "--set-proc-title", "no"]);
    wait_until("it says where", || store.output().contains(&format!("messages go to {}", messages.display())));
    wait_until("and what has no effect", || store.output().contains("'set-proc-title' has no effect"));
    assert!(!fs::read_to_string(&messages).unwrap().contains("has no data yet"));
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let folder = Folder::new();
    let disk = SmallDisk::new(&folder.0, 8);
    let status = disk.run("mount", &["-o", "remount,ro", &disk.folder.display().to_string()]).status().unwrap();
    assert!(status.success());
    let inner = store_command(free_address(), &disk.folder.join("data"), &[]);
    let arguments: Vec<_> = inner.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut command = disk.run(inner.get_program().to_str().unwrap(), &arguments);
    command.envs(inner.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("cannot write") && text.contains("Read-only file system"),
        "{text}"
    );
}

/// A store with numbers from 1 on, one to a key, that was killed.
fn killed_store(folder: &Folder, count: usize) {
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    let first = client.text(&["DBSIZE"]).parse::<usize>().unwrap() + 1;
    for number in first..=count {
        client.text(&["SET", &format!("key:{number}"), &format!("value-{number}")]);
    }
    store.kill();
}

#[test]
fn a_torn_end_of_the_log_is_cut_off() {
    let folder = Folder::new();
    killed_store(&folder, 9);
    let note = folder.data().join("shard-0/log/end");
    let before = fs::read(&note).unwrap();
    killed_store(&folder, 10);
    let last = segments(&folder.data()).pop().unwrap();
    // Half of the last command is there, which was acknowledged: that is damage.
    let at = find(&last, b"value-10");
    let file = fs::OpenOptions::new().write(true).open(&last).unwrap();
    file.write_all_at(&[0; 64], at as u64).unwrap();
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("the log ends there, and was durable up to offset"), "{text}");
    // What was being written when the power went away was not noted as durable.
    fs::write(&note, before).unwrap();
    let store = start(&folder.data(), &[]);
    wait_until("it says so", || store.output().contains("the log ends at offset"));
    let mut client = store.client();
    assert_eq!((client.text(&["DBSIZE"]), client.text(&["GET", "key:9"])), ("9".into(), "value-9".into()));
    client.text(&["SET", "key:10", "again"]);
    drop(store);
    let store = start(&folder.data(), &[]);
    assert_eq!(store.client().text(&["GET", "key:10"]), "again");
}

#[test]
fn a_flipped_bit_in_the_log_is_found() {
    let folder = Folder::new();
    killed_store(&folder, 10);
    let segment = segments(&folder.data()).remove(0);
    let before = fs::read(&segment).unwrap();
    flip(&segment, find(&segment, b"value-5"));
    let damaged = fs::read(&segment).unwrap();
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains(&format!("the log is damaged in {}", segment.display())), "{text}");
    assert!(text.contains("checksum does not match") && text.contains("restore a backup"), "{text}");
    assert!(fs::read(&segment).unwrap() == damaged, "nothing is changed");
    let what = Dump {
        folder: folder.data(),
        from: None,
        to: None,
        follow: false,
        follower: None,
        form: Form::Commands,
        with_flushes: false,
    };
    let mut shown = Vec::new();
    let _ = dump(&what, &mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("value-4") && !shown.contains("value-5"), "what is good is shown: {shown}");
    // A header that a later version may have written.
    let mut later = before.clone();
    later[8] = 2;
    let crc = crc32c::crc32c(&later[..124]);
    later[124..128].copy_from_slice(&crc.to_le_bytes());
    fs::write(&segment, &later).unwrap();
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("it was written by a newer version"), "{text}");
    fs::write(&segment, before).unwrap();
    assert_eq!(start(&folder.data(), &[]).client().text(&["DBSIZE"]), "10");
}

/// A store of which the record of `key:damaged` cannot be read, besides 300 others.
fn damaged_store(folder: &Folder, words: &[&str]) -> (Running, PathBuf) {
    let mut store = start(&folder.data(), words);
    let mut client = store.client();
    // Several blocks: what the store itself has to read is in another one.
    for number in 0..300 {
        client.text(&["SET", &format!("key:{number}"), &format!("value-{number}-{}", "v".repeat(number % 200))]);
    }
    client.text(&["SET", "key:damaged", "the quick brown fox"]);
    assert_eq!(store.stop(), Some(0));
    let has_it = |path: &PathBuf| fs::read(path).unwrap().windows(9).any(|window| window == b"brown fox");
    let path = table_files(&folder.data()).into_iter().find(has_it).expect("records are not compressed yet");
    flip(&path, find(&path, b"brown fox"));
    (start(&folder.data(), words), path)
}

/// The replies to commands that are sent in one go, as text.
fn replies(client: &mut support::Client, commands: &[&[&str]]) -> Vec<String> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| resp::encode_command(&mut bytes, words));
    assert!(client.send(&bytes));
    let text = |value: resp::Value| match value.as_error().or_else(|| value.as_bytes()) {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => format!("{value:?}"),
    };
    commands.iter().map(|_| text(client.reply().expect("a reply to each command"))).collect()
}

#[test]
fn a_reply_that_needs_a_damaged_key_is_an_error_and_the_next_ones_are_theirs() {
    for threads in ["1", "2"] {
        let folder = Folder::new();
        let (store, path) = damaged_store(&folder, &["--maxmemory", "64mb", "--io-threads", threads]);
        let mut client = store.client();
        let is_error = |reply: &String| reply.starts_with("ERR cannot read from disk");
        let damaged: &[&str] = &["MGET", "key:1", "key:damaged", "key:200"];
        for command in [damaged, &["GET", "key:damaged"], &["SINTERCARD", "2", "none", "key:damaged"]] {
            let all = replies(&mut client, &[command, &["PING"], &["ECHO", "own"]]);
            assert!(is_error(&all[0]) && all[1] == "PONG" && all[2] == "own", "{command:?}: {all:?}");
        }
        let all = replies(&mut client, &[&["MULTI"], damaged, &["ECHO", "x"], &["EXEC"], &["PING"]]);
        assert!(all[3].contains("Error(") && all[4] == "PONG", "{all:?}");
        let said = "key \"key:damaged\" cannot be read: cannot read from disk: the tables are damaged at record";
        wait_until("the log tells of it", || {
            store.output().lines().any(|line| line.contains(said) && line.contains(path.to_str().unwrap()))
        });
        for _ in 0..50 {
            client.text(damaged);
        }
        let lines = store.output().lines().filter(|line| line.contains(said)).count();
        assert!(lines <= 10, "{lines} lines of one key");
        // It can be overwritten, and is then as any other; so after a crash and after a checkpoint.
        assert_eq!(client.text(&["SET", "key:damaged", "mended"]), "OK");
        assert_eq!((client.text(&["GET", "key:damaged"]), client.text(&["DBSIZE"])), ("mended".into(), "301".into()));
        assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK");
        assert_eq!((client.text(&["GET", "key:damaged"]), client.text(&["DBSIZE"])), ("mended".into(), "301".into()));
    }
}

#[test]
fn a_damaged_key_can_be_removed() {
    let folder = Folder::new();
    let (mut store, _) = damaged_store(&folder, &[]);
    let mut client = store.client();
    assert_eq!((client.text(&["DEL", "key:damaged"]), client.text(&["DBSIZE"])), ("1".into(), "300".into()));
    assert_eq!(client.text(&["GET", "key:damaged"]), "(nil)");
    // The log has it, and runs again on the same tables.
    store.kill();
    let store = start(&folder.data(), &[]);
    assert_eq!(store.client().text(&["GET", "key:damaged"]), "(nil)");
    assert_eq!(store.client().text(&["DBSIZE"]), "300");
}

#[test]
fn a_flipped_bit_in_the_tables_is_never_served() {
    let folder = Folder::new();
    let (store, _) = damaged_store(&folder, &[]);
    let mut client = store.client();
    let reply = client.text(&["GET", "key:damaged"]);
    assert!(reply.starts_with("ERR") && reply.contains("damaged"), "{reply}");
    assert!(client.text(&["EVAL", "return redis.call('GET',KEYS[1])", "1", "key:damaged"]).contains("damaged"));
    assert_eq!(client.text(&["PING"]), "PONG");
    // The list of the tables' files.
    drop(store);
    let tree = folder.data().join("shard-0/tables/tree");
    let list = fs::read_dir(&tree)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('v')));
    let list = list.unwrap();
    let middle = fs::metadata(&list).unwrap().len() as usize / 2;
    flip(&list, middle);
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("the tables are damaged") && text.contains("the list of files"), "{text}");
    assert!(text.contains("`tidegate restore`"), "{text}");
}

#[test]
fn a_folder_is_of_one_store() {
    let folder = Folder::new();
    let _store = start(&folder.data(), &[]);
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("is in use by another process"), "{text}");
}

#[test]
fn no_write_that_was_acknowledged_is_lost_by_kills() {
    for (policy, threads) in [("always", "1"), ("everysec", "1"), ("always", "2"), ("always", "3")] {
        let folder = Folder::new();
        let mut acknowledged = [0u64; 3];
        for round in 0..4 {
            let mut store = start(&folder.data(), &["--appendfsync", policy, "--io-threads", threads]);
            let mut client = store.client();
            for (key, count) in acknowledged.iter_mut().enumerate() {
                let found: u64 = client.text(&["GET", &format!("count:{key}")]).parse().unwrap_or(0);
                // One may have been on its way.
                assert!((*count..=*count + 1).contains(&found), "{policy}: {found} is there, {count} was acknowledged");
                // What is read is acknowledged too, if nothing else is until the next kill.
                *count = found;
            }
            let writers: Vec<_> = acknowledged
                .iter()
                .enumerate()
                .map(|(key, _)| {
                    let mut client = store.client();
                    thread::spawn(move || {
                        let mut last = None;
                        while let Some(reply) = client.try_command(&["INCR", &format!("count:{key}")]) {
                            last = reply.as_integer();
                        }
                        last
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(30 + round * 17));
            store.kill();
            for (count, writer) in acknowledged.iter_mut().zip(writers) {
                *count = writer.join().unwrap().map_or(*count, |last| last as u64);
            }
        }
    }
}

#[test]
fn a_clock_that_jumps_harms_nothing() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1");
    let library =
        if library.exists() { library } else { Path::new("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1") };
    assert!(library.exists(), "install faketime");
    let folder = Folder::new();
    let times = folder.0.join("time");
    let set = |offset: &str| {
        fs::write(folder.0.join("time.new"), offset).unwrap();
        fs::rename(folder.0.join("time.new"), &times).unwrap();
    };
    set("+0");
    let address = free_address();
    let mut command = store_command(address, &folder.data(), &[]);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &times)
        .env("FAKETIME_NO_CACHE", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .process_group(0);
    let mut store = start_by(&mut command, address);
    let mut client = store.client();
    client.text(&["SET", "hour", "x", "EX", "3600"]);
    client.text(&["SET", "second", "x", "PX", "1500"]);
    // Back: nothing expires, what is done each now and then is done, and whoever waits does so for as long as he said.
    let mut waiter = store.client();
    waiter.send(b"BLPOP none 1\r\n");
    wait_until("somebody waits", || client.text(&["INFO", "clients"]).contains("blocked_clients:1"));
    set("-7200");
    client.text(&["SET", "while back", "x", "PX", "100"]);
    let left: i64 = client.text(&["TTL", "hour"]).parse().unwrap();
    assert!((10_700..=10_800).contains(&left), "{left}");
    wait_until("a short time is over", || client.text(&["DBSIZE"]) == "2");
    assert_eq!(client.text(&["EXISTS", "second"]), "1");
    wait_until("the waiting is over", || client.text(&["INFO", "clients"]).contains("blocked_clients:0"));
    assert!(store.output().contains("the clock was set by -7"), "{}", store.output());
    // Forth: what is due goes, and only that.
    let mut waiter = store.client();
    waiter.send(b"BLPOP none 1000\r\n");
    wait_until("somebody waits", || client.text(&["INFO", "clients"]).contains("blocked_clients:1"));
    set("+1800");
    client.text(&["SET", "while ahead", "x", "EX", "7200"]);
    wait_until("a second is over", || client.text(&["EXISTS", "second"]) == "0");
    assert_eq!(client.text(&["EXISTS", "hour"]), "1");
    assert!(client.text(&["INFO", "clients"]).contains("blocked_clients:1"), "whoever waits goes on waiting");
    set("+0");
    let left: i64 = client.text(&["TTL", "while ahead"]).parse().unwrap();
    assert!((8_900..=9_000).contains(&left), "{left}");
    client.text(&["SET", "last", "x"]);
    assert_eq!(store.stop(), Some(0));
    let what = Dump {
        folder: folder.data(),
        from: None,
        to: None,
        follow: false,
        follower: None,
        form: Form::Lines,
        with_flushes: false,
    };
    let mut lines = Vec::new();
    dump(&what, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let times: Vec<&str> = lines.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert!(times.is_sorted() && times.len() >= 6, "{lines}");
    let store = start(&folder.data(), &[]);
    assert_eq!(store.client().text(&["EXISTS", "hour", "while ahead", "last"]), "3");
}
