//! Stores and real servers under test, and clients of them.
//!
//! A program of tests starts itself as a store: what is tested is what was compiled with it.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::{
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};
use rustix::process::{Pid, Signal, kill_process};

#[global_allocator]
static ALLOCATOR: store::allocator::Counting = store::allocator::Counting;

/// How long anything may take that is to happen at all.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Has this program be a store: its words, a line each.
const WORDS: &str = "TIDEGATE_TEST_STORE";
/// Has every store of a run have so many threads of sockets, unless its test says how many.
const IO_THREADS: &str = "TIDEGATE_TEST_IO_THREADS";
/// Has them have their tables in this engine (`rocksdb` needs that feature).
const TABLES_ENGINE: &str = "TIDEGATE_TEST_TABLES_ENGINE";

/// No test, but what [`Store`] starts.
#[test]
fn this_program_as_a_store() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<String> = words.lines().map(str::to_owned).collect();
    std::process::exit(i32::from(store::command::run(&words, store::command::Manner::Tidegate) != ExitCode::SUCCESS));
}

/// Waits until something is true.
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "it did not happen that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads once. A child's end wakes any thread of this process, and a read that has a timeout is interrupted by that, although
/// nobody handles the signal.
fn read_once(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// An address of the loopback that nobody listens on.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A server in a process of its own. It is killed when it goes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pub address: SocketAddr,
    output: Arc<Mutex<String>>,
}

impl Running {
    fn spawn(command: &mut Command, address: SocketAddr) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let output = Arc::new(Mutex::new(String::new()));
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for pipe in pipes {
            let (lines, sink) = (BufReader::new(pipe).lines(), Arc::clone(&output));
            thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    *sink.lock().unwrap() += &format!("{line}\n");
                }
            });
        }
        Self { child, address, output }
    }

    #[track_caller]
    fn wait_for_it(mut self) -> Self {
        wait_until("the server listens", || {
            if self.child.try_wait().unwrap().is_some() {
                panic!("it ended: {}", self.output());
            }
            // A store listens before it has read its log, and answers after that.
            TcpStream::connect(self.address)
                .is_ok_and(|_| Client::connect(self.address).try_command(&["PING"]).is_some())
        });
        self
    }

    /// What it said so far.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits. Returns its exit code.
    #[track_caller]
    pub fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        self.wait_end()
    }

    #[track_caller]
    pub fn wait_end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The command that makes a store of this program.
pub fn store_command(address: SocketAddr, data: &Path, words: &[&str]) -> Command {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let data = data.display().to_string();
    // Small files of the log are quick to make.
    let all = ["--bind", &host, "--port", &port, "--dir", &data, "--log-segment-size", "1mb"];
    let debug = ["--enable-debug-command", "yes"];
    let count = std::env::var(IO_THREADS).unwrap_or_else(|_| "1".into());
    let threads = ["--io-threads", count.as_str()];
    let engine = std::env::var(TABLES_ENGINE).unwrap_or_else(|_| "fjall".into());
    let tables = ["--tables-engine", engine.as_str()];
    let all = [all.as_slice(), &debug, &threads, &tables, words].concat().join("\n");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "support::this_program_as_a_store", "--nocapture", "--test-threads=1"]).env(WORDS, all);
    command
}

/// Starts a store on a folder.
#[track_caller]
pub fn start(data: &Path, words: &[&str]) -> Running {
    let address = free_address();
    Running::spawn(&mut store_command(address, data, words), address).wait_for_it()
}

/// Starts a store by a command that was made by [`store_command`], and changed.
#[track_caller]
pub fn start_by(command: &mut Command, address: SocketAddr) -> Running {
    Running::spawn(command, address).wait_for_it()
}

/// Starts a store that refuses to serve; what it says.
#[track_caller]
pub fn refusal(data: &Path, words: &[&str]) -> String {
    let address = free_address();
    let mut store = Running::spawn(&mut store_command(address, data, words), address);
    let code = store.wait_end();
    assert_eq!(code, Some(1), "{}", store.output());
    wait_until("it says why", || store.output().contains("tidegate store:"));
    store.output()
}

/// Starts the real one.
#[track_caller]
pub fn redis_server(folder: &Path, words: &[&str]) -> Running {
    let address = free_address();
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", "", "--appendonly", "no"])
        .args(["--enable-debug-command", "yes", "--dir", &folder.display().to_string()])
        .args(words);
    Running::spawn(&mut command, address).wait_for_it()
}

/// A folder that goes with its value, unless the test fails.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("tidegate-store-").tempdir().unwrap().keep())
    }

    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the files are left in {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A connection that speaks Redis' protocol.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl Client {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, parser: ReplyParser::new(), buffer: Vec::new() }
    }

    /// Sends a command and gives its reply.
    #[track_caller]
    pub fn command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Value {
        self.try_command(words).expect("it answers")
    }

    /// The same; nothing if the connection is lost.
    pub fn try_command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Option<Value> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.send(&bytes).then(|| self.reply()).flatten()
    }

    /// Sends bytes as they are; false if the connection is lost.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next reply; nothing if the connection is lost.
    pub fn reply(&mut self) -> Option<Value> {
        loop {
            match self.parser.parse(&self.buffer, &ReplyLimits::default()).expect("a reply of the protocol") {
                ReplyProgress::Complete { consumed, value } => {
                    self.buffer.drain(..consumed);
                    return Some(value);
                }
                ReplyProgress::Incomplete { consumed, .. } => {
                    self.buffer.drain(..consumed);
                }
            }
            let mut piece = [0; 64 * 1024];
            let len = read_once(&mut self.stream, &mut piece).ok().filter(|len| *len > 0)?;
            self.buffer.extend_from_slice(&piece[..len]);
        }
    }

    /// How long it waits for replies.
    pub fn be_patient_for(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// The reply as text: strings and errors as they are, integers in digits, nothing as `(nil)`.
    #[track_caller]
    pub fn text(&mut self, words: &[&str]) -> String {
        self.try_text(words).expect("it answers")
    }

    /// The same; nothing if the connection is lost, or nothing comes.
    pub fn try_text(&mut self, words: &[&str]) -> Option<String> {
        Some(match self.try_command(words)? {
            Value::Integer(number) => number.to_string(),
            Value::Null | Value::NullArray => "(nil)".into(),
            other => match other.as_bytes().or_else(|| other.as_error()) {
                Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                None => format!("{other:?}"),
            },
        })
    }
}
