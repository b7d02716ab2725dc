//! A store as a service: who is told that it serves and ends, the background, signals, and where its messages go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    os::unix::{fs::symlink, net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use support::{Folder, PATIENCE, RedisClient, free_address, listens, wait_until};

/// A process that is ended with the test, in the background or not.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// `tidegate store` with these words and variables, in a folder; its messages are in `messages` there.
    fn start(folder: &Folder, words: &[&str], variables: &[(&str, &Path)]) -> Self {
        let address = free_address();
        let messages = fs::File::create(folder.0.join("messages")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("store")
            .args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()])
            .args(["--dir", text(&folder.0.join("data"))])
            .args(words)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("UPSTART_JOB")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(messages.try_clone().unwrap())
            .stderr(messages)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    fn wait_until_it_serves(&self) -> RedisClient {
        wait_until("the store listens", || listens(self.address));
        let mut client = RedisClient::connect(self.address);
        assert_eq!(client.text(&["PING"]), "PONG");
        client
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// How it ended: its code, or the number of a signal plus 128.
    fn wait_end(&mut self) -> i32 {
        support::wait_end(&mut self.child)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a setting is.
fn setting(client: &mut RedisClient, name: &str) -> String {
    let reply = client.command(&["CONFIG", "GET", name]);
    let value = reply.as_slice().unwrap()[1].as_bytes().unwrap().to_vec();
    String::from_utf8(value).unwrap()
}

fn messages(folder: &Folder) -> String {
    fs::read_to_string(folder.0.join("messages")).unwrap()
}

/// A socket that hears what is sent to a path.
fn listener(folder: &Folder) -> (UnixDatagram, PathBuf) {
    let path = folder.0.join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (socket, path)
}

/// What is sent, up to a datagram with this in it.
fn heard_until(socket: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{wanted}: {error}, after {heard:?}"));
        heard.push(String::from_utf8_lossy(&bytes[..len]).into_owned());
        if heard.last().is_some_and(|last| last.contains(wanted)) {
            return heard;
        }
    }
}

#[test]
fn systemd_is_told_when_the_store_serves_and_when_it_ends() {
    for word in ["systemd", "auto"] {
        let folder = Folder::new();
        let (socket, path) = listener(&folder);
        // As in Redis, a process that is supervised stays in the foreground.
        let words = ["--supervised", word, "--daemonize", "yes"];
        let mut store = Process::start(&folder, &words, &[("NOTIFY_SOCKET", &path)]);
        let heard = heard_until(&socket, "READY=1");
        assert!(heard[0].starts_with("STATUS="), "{heard:?}");
        assert!(heard.iter().any(|text| text.contains("EXTEND_TIMEOUT_USEC=")), "{heard:?}");
        assert!(heard.last().unwrap().contains(&format!("MAINPID={}\n", store.child.id())), "{heard:?}");
        let mut client = RedisClient::connect(store.address);
        assert!(client.text(&["INFO", "server"]).contains("process_supervised:systemd\r\n"));
        store.send(Signal::TERM);
        heard_until(&socket, "STOPPING=1");
        assert_eq!(store.wait_end(), 0);
        assert!(messages(&folder).contains("Supervised by systemd."), "{}", messages(&folder));
    }
}

#[test]
fn a_supervisor_that_is_not_there_is_told_of() {
    for (word, expected) in
        [("systemd", "NOTIFY_SOCKET not found!"), ("upstart", "UPSTART_JOB not found!"), ("auto", "")]
    {
        let folder = Folder::new();
        let store = Process::start(&folder, &["--supervised", word], &[]);
        let mut client = store.wait_until_it_serves();
        assert!(client.text(&["INFO", "server"]).contains("process_supervised:no\r\n"));
        let messages = messages(&folder);
        assert!(messages.contains(expected), "{messages}");
        assert_eq!(messages.contains("supervis"), !expected.is_empty(), "{messages}");
    }
}

#[test]
fn upstart_is_told_by_a_stop() {
    let folder = Folder::new();
    let store = Process::start(&folder, &["--supervised", "auto"], &[("UPSTART_JOB", Path::new("store"))]);
    wait_until("it stops itself", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", store.child.id())).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    });
    assert!(listens(store.address), "it serves by then");
    store.send(Signal::CONT);
    assert!(store.wait_until_it_serves().text(&["INFO", "server"]).contains("process_supervised:upstart\r\n"));
}

/// The program under the name of redis-server, in a folder that is its current one.
fn redis_server(folder: &Folder) -> Command {
    let program = folder.0.join("redis-server");
    let _ = symlink(env!("CARGO_BIN_EXE_tidegate"), &program);
    let mut command = Command::new(program);
    command.current_dir(&folder.0).stdin(Stdio::null()).env_remove("NOTIFY_SOCKET").env_remove("UPSTART_JOB");
    command
}

/// Runs it to its end, or that of the process that a user sees.
fn run(folder: &Folder, words: &[&str], input: &str) -> Output {
    let mut command = redis_server(folder);
    let mut child =
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Ends a process in the background with the test.
struct Background(PathBuf);

impl Background {
    fn number(&self) -> i32 {
        fs::read_to_string(&self.0).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let number = fs::read_to_string(&self.0).ok().and_then(|text| text.trim().parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn in_the_background_it_serves_when_the_caller_goes_on() {
    let folder = Folder::new();
    let address = free_address();
    fs::create_dir(folder.0.join("data")).unwrap();
    // What the settings name is in the folder of the data.
    let settings = format!(
        "bind {}\nport {}\ndaemonize yes\ndir data\npidfile store.pid\nlogfile store.log\n",
        address.ip(),
        address.port()
    );
    let file = folder.file("redis.conf", settings);
    // Settings from standard input reach the other process.
    let output = run(&folder, &[text(&file), "-"], "databases 7\n");
    let background = Background(folder.0.join("data/store.pid"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut client = RedisClient::connect(address);
    assert_eq!(setting(&mut client, "databases"), "7");
    let number = background.number();
    assert!(client.text(&["INFO", "server"]).contains(&format!("process_id:{number}\r\n")));
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
    assert_eq!(fields[3], number.to_string(), "a session of its own");
    assert!(stat.contains("(redis-server)"), "{stat}");
    for descriptor in 0..3 {
        assert_eq!(fs::read_link(format!("/proc/{number}/fd/{descriptor}")).unwrap(), Path::new("/dev/null"));
    }
    assert!(fs::read_to_string(folder.0.join("data/store.log")).unwrap().contains("Ready to accept connections"));

    // A second one is told why it does not start, and does not take the file of the first one with it.
    let second = run(&folder, &[text(&file), "--dir", "other", "--pidfile", "../data/store.pid", "--logfile", ""], "");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("cannot listen on"), "{second:?}");
    assert_eq!(background.number(), number);

    client.try_command(&["SHUTDOWN"]);
    wait_until("it has ended", || !background.0.exists());
    // Its last line comes behind that.
    let log = folder.0.join("data/store.log");
    wait_until("it says so", || fs::read_to_string(&log).unwrap().contains("bye bye..."));
}

#[test]
fn a_terminal_that_is_closed_ends_nothing() {
    let folder = Folder::new();
    let mut store = Process::start(&folder, &[], &[]);
    let mut client = store.wait_until_it_serves();
    store.send(Signal::HUP);
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    assert_eq!(store.child.try_wait().unwrap(), None);
}

#[test]
fn signals_end_it_as_their_settings_say() {
    for (words, signal, has_to_run_again) in [
        (&["--shutdown-on-sigterm", "nosave"][..], Signal::TERM, true),
        (&["--shutdown-on-sigterm", "nosave"], Signal::INT, false),
        (&["--shutdown-on-sigint", "nosave", "force"], Signal::INT, true),
        (&[], Signal::TERM, false),
    ] {
        let folder = Folder::new();
        let mut store = Process::start(&folder, words, &[]);
        assert_eq!(store.wait_until_it_serves().text(&["SET", "a", "1"]), "OK");
        store.send(signal);
        assert_eq!(store.wait_end(), 0);
        let name = if signal == Signal::TERM { "SIGTERM" } else { "SIGINT" };
        assert!(
            messages(&folder).contains(&format!("Received {name} scheduling shutdown...")),
            "{}",
            messages(&folder)
        );
        let again = Process::start(&folder, &[], &[]);
        assert_eq!(again.wait_until_it_serves().text(&["GET", "a"]), "1");
        assert_eq!(messages(&folder).contains("ran again"), has_to_run_again, "{words:?}");
    }
}

#[test]
fn a_signal_while_it_starts_ends_it_at_once() {
    let folder = Folder::new();
    // It waits for the users, who are in a pipe that nobody writes to.
    let users = folder.0.join("users");
    rustix::fs::mknodat(rustix::fs::CWD, &users, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let words = ["--aclfile", text(&users), "--pidfile", "store.pid"];
    let mut store = Process::start(&folder, &words, &[]);
    let file = folder.0.join("data/store.pid");
    wait_until("it has its folder", || file.exists());
    store.send(Signal::TERM);
    assert_eq!(store.wait_end(), 0);
    assert!(messages(&folder).contains("Received shutdown signal during loading"), "{}", messages(&folder));
    assert!(!file.exists());
}

#[test]
fn whoever_insists_by_a_second_interrupt_has_it_end_at_once() {
    let folder = Folder::new();
    let mut store = Process::start(&folder, &["--enable-debug-command", "yes", "--pidfile", "store.pid"], &[]);
    let mut client = store.wait_until_it_serves();
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    client.send(b"DEBUG SLEEP 100\r\n");
    // It is asleep once it does not answer. A supervisor may say SIGTERM as often as it likes.
    wait_until("it sleeps", || {
        use std::io::Read as _;
        let mut other = std::net::TcpStream::connect(store.address).unwrap();
        other.write_all(b"PING\r\n").unwrap();
        other.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
        other.read(&mut [0; 8]).is_err()
    });
    store.send(Signal::TERM);
    wait_until("it has heard", || messages(&folder).contains("Received SIGTERM"));
    store.send(Signal::TERM);
    wait_until("it has heard again", || messages(&folder).matches("Received SIGTERM").count() == 2);
    assert_eq!(store.child.try_wait().unwrap(), None);
    store.send(Signal::INT);
    assert_eq!(store.wait_end(), 1);
    assert!(messages(&folder).contains("You insist... exiting now."), "{}", messages(&folder));
    assert!(!folder.0.join("data/store.pid").exists());
    let again = Process::start(&folder, &[], &[]);
    assert_eq!(again.wait_until_it_serves().text(&["GET", "a"]), "1");
}

#[test]
fn a_file_of_messages_may_be_moved_away() {
    let folder = Folder::new();
    let mut store = Process::start(&folder, &["--logfile", "../store.log"], &[]);
    store.wait_until_it_serves();
    let (path, moved) = (folder.0.join("store.log"), folder.0.join("store.log.1"));
    fs::rename(&path, &moved).unwrap();
    store.send(Signal::TERM);
    assert_eq!(store.wait_end(), 0);
    assert!(fs::read_to_string(&moved).unwrap().contains("Ready to accept connections"));
    assert!(fs::read_to_string(&path).unwrap().contains("bye bye..."));
}

#[test]
fn syslog_has_the_messages_too() {
    let folder = Folder::new();
    let (socket, path) = listener(&folder);
    let words = ["--syslog-enabled", "yes", "--syslog-ident", "cache", "--syslog-facility", "local5"];
    let mut store = Process::start(&folder, &words, &[("TIDEGATE_SYSLOG_SOCKET", &path)]);
    let id = store.child.id();
    let heard = heard_until(&socket, "Ready to accept connections");
    let last = heard.last().unwrap();
    assert!(
        last.starts_with("<173>") && last.ends_with(&format!(" cache[{id}]: Ready to accept connections")),
        "{last}"
    );
    store.send(Signal::TERM);
    let heard = heard_until(&socket, "SIGTERM");
    assert!(heard.last().unwrap().starts_with("<172>"), "a warning: {heard:?}");
    // Nobody reads any more, and the socket may be full: that keeps nobody from ending.
    assert_eq!(store.wait_end(), 0);
    assert!(messages(&folder).contains("Ready to accept connections"), "stdout has them all the same");
}

#[test]
fn a_syslog_that_is_not_there_is_told_of() {
    let folder = Folder::new();
    let nowhere = folder.0.join("nowhere");
    let store = Process::start(&folder, &["--syslog-enabled", "yes"], &[("TIDEGATE_SYSLOG_SOCKET", &nowhere)]);
    store.wait_until_it_serves();
    let messages = messages(&folder);
    assert!(messages.contains("syslog-enabled: ") && messages.contains("takes no messages"), "{messages}");
}

#[test]
fn users_that_commands_made_are_in_the_file_that_is_rewritten() {
    let folder = Folder::new();
    let file = folder.file("redis.conf", "# mine\nuser ann on >a ~* +@all\nuser ben on >b ~* +@all\n");
    let start = || {
        let address = free_address();
        let child = redis_server(&folder)
            .arg(&file)
            .args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string(), "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process { child, address }
    };
    let mut store = start();
    let mut client = store.wait_until_it_serves();
    let text = |folder: &Folder| fs::read_to_string(folder.0.join("redis.conf")).unwrap();
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    assert!(
        text(&folder).starts_with("# mine\nuser ann on >a ~* +@all\nuser ben on >b ~* +@all\n"),
        "{}",
        text(&folder)
    );
    for command in [
        &["ACL", "DELUSER", "ann"][..],
        &["ACL", "SETUSER", "cleo", "on", ">c", "~c:*", "+get"],
        &["CONFIG", "REWRITE"],
        &["ACL", "SETUSER", "ben", "off"],
        &["CONFIG", "SET", "requirepass", "secret"],
        &["AUTH", "secret"],
        &["CONFIG", "REWRITE"],
    ] {
        let reply = client.text(command);
        assert!(["OK", "1"].contains(&reply.as_str()), "{command:?}: {reply}");
    }
    let users = format!("{:?}", client.command(&["ACL", "LIST"]));
    assert!(!text(&folder).contains("user ann") && !text(&folder).contains("user default"), "{}", text(&folder));
    client.try_command(&["SHUTDOWN"]);
    store.wait_end();
    let again = start();
    wait_until("the store listens", || listens(again.address));
    let mut client = RedisClient::connect(again.address);
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    assert_eq!(format!("{:?}", client.command(&["ACL", "LIST"])), users);
}

#[test]
fn as_redis_server_it_keeps_data_where_redis_would() {
    for (words, is_kept) in [
        (&[][..], true),
        (&["--save", ""], false),
        (&["--save", "", "--appendonly", "no", "--pidfile", "", "--logfile", ""], false),
        (&["--save", "", "--appendonly", "yes"], true),
        (&["--save", "", "--dir", "elsewhere"], false),
        (&["--save", "", "--dir", "made"], true),
    ] {
        let folder = Folder::new();
        // A store's data that is there is served, whatever is said of keeping some.
        fs::create_dir_all(folder.0.join("made/shard-0")).unwrap();
        let address = free_address();
        let output = fs::File::create(folder.0.join("messages")).unwrap();
        let child = redis_server(&folder)
            .args(["--port", &address.port().to_string()])
            .args(words)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut process = Process { child, address };
        wait_until("it says where the data is", || {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "{words:?}: {ended:?}: {}", messages(&folder));
            messages(&folder).contains("Ready to accept connections")
        });
        let place = if words.contains(&"made") { folder.0.join("made") } else { folder.0.clone() };
        let said = format!("The data is in {}\n", place.display());
        assert_eq!(messages(&folder).contains(&said), is_kept, "{words:?}: {}", messages(&folder));
        for text in ["is in memory alone", "keeps nothing, as in Redis"] {
            assert_eq!(messages(&folder).contains(text), !is_kept, "{words:?}: {}", messages(&folder));
        }
        assert_eq!(place.join("shard-0/log").exists(), is_kept, "{words:?}");
        assert!(!messages(&folder).contains("has no effect"), "{words:?}: {}", messages(&folder));
        let mut client = RedisClient::connect(process.address);
        // Nobody is told that what is in memory alone will be kept.
        for command in [["CONFIG", "SET", "appendonly", "yes"], ["CONFIG", "SET", "save", "60 1"]] {
            let reply = client.text(&command);
            assert_eq!(reply == "OK", is_kept, "{words:?}: {reply}");
            assert!(is_kept || reply.contains("the store is in memory alone"), "{reply}");
        }
    }
}

#[test]
fn words_of_redis_server_that_ask_for_no_server() {
    let folder = Folder::new();
    for (words, code, expected) in [
        (&["-v"][..], 0, "Redis server v=7.0.15 sha="),
        (&["--version"], 0, "Redis server v=7.0.15 sha="),
        (&["-h"], 0, "Usage: redis-server [FILE]"),
        (&["--check-system"], 0, "[overcommit]..."),
        (&["--test-memory", "4"], 1, "memtester"),
        (&["sentinel.conf", "--sentinel"], 1, "Sentinel is not there"),
        (&["--prot", "7"], 1, "redis-server: the settings cannot be used"),
    ] {
        let output = run(&folder, words, "");
        let text = String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr }).into_owned();
        assert!(text.contains(expected), "{words:?}: {text}");
        // What the machine is like decides whether it is well.
        assert!(output.status.code() == Some(code) || words == ["--check-system"], "{words:?}: {output:?}");
    }
    let by_word = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["redis-server", "-v"]).output().unwrap();
    assert!(String::from_utf8_lossy(&by_word.stdout).starts_with("Redis server v="), "{by_word:?}");
    let sentinel = folder.0.join("redis-sentinel");
    symlink(env!("CARGO_BIN_EXE_tidegate"), &sentinel).unwrap();
    assert_eq!(Command::new(sentinel).output().unwrap().status.code(), Some(1));
}

#[test]
fn as_many_clients_are_let_in_as_the_system_lets_files_be_open() {
    for (limits, wanted, clients) in [("256:9000", "5000", "5000"), ("256:1000", "5000", "840"), ("165:165", "50", "5")]
    {
        let folder = Folder::new();
        let address = free_address();
        let output = fs::File::create(folder.0.join("messages")).unwrap();
        // Who may do everything may raise limits too.
        let child = Command::new("setpriv")
            .args(["--bounding-set=-sys_resource", "--inh-caps=-sys_resource"])
            .args(["prlimit", &format!("--nofile={limits}")])
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .args(["store", "--bind", &address.ip().to_string(), "--port", &address.port().to_string()])
            .args(["--dir", text(&folder.0.join("data")), "--maxclients", wanted])
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let store = Process { child, address };
        let mut client = store.wait_until_it_serves();
        assert_eq!(setting(&mut client, "maxclients"), clients, "{limits}: {}", messages(&folder));
        assert_eq!(messages(&folder).contains("maxclients has been reduced"), wanted != clients, "{limits}");
        let refusal = client.text(&["CONFIG", "SET", "maxclients", "2000000000"]);
        assert!(refusal.contains("not able to handle the specified number of clients, try with"), "{refusal}");
    }
}

#[test]
fn a_backlog_that_the_machine_does_not_let_be_is_told_of() {
    let folder = Folder::new();
    let bound: i64 = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let store = Process::start(&folder, &["--tcp-backlog", &(bound + 1).to_string()], &[]);
    store.wait_until_it_serves();
    assert!(messages(&folder).contains(&format!("TCP backlog setting of {}", bound + 1)), "{}", messages(&folder));
}
