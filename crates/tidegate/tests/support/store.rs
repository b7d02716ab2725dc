//! A store under test, and a client of it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};
use rustix::process::{Pid, Signal, kill_process};

use super::{Folder, PATIENCE, free_address, listens, read_once, wait_until};

/// A running store.
#[derive(Debug)]
pub struct Store {
    child: Child,
    pub address: SocketAddr,
    pub folder: Arc<Folder>,
    output: Arc<Mutex<String>>,
}

impl Store {
    /// One with a folder of its own.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(Arc::new(Folder::new()), arguments)
    }

    /// One on a folder that may have data, once it listens.
    #[track_caller]
    pub fn start_in(folder: Arc<Folder>, arguments: &[&str]) -> Self {
        Self::start_at(free_address(), folder, arguments)
    }

    /// The same at an address that it has had before.
    #[track_caller]
    pub fn start_at(address: SocketAddr, folder: Arc<Folder>, arguments: &[&str]) -> Self {
        let store = Self::spawn(address, folder, arguments);
        wait_until("the store listens", || {
            let mut probe = store.child_has_ended();
            if let Some(output) = probe.take() {
                panic!("it ended: {output}");
            }
            listens(address)
        });
        store
    }

    /// Starts the program; it may end at once.
    pub fn spawn(address: SocketAddr, folder: Arc<Folder>, arguments: &[&str]) -> Self {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let data = folder.0.join("data").display().to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["store", "--bind", &host, "--port", &port, "--dir", &data])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let (lines, sink) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&output));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *sink.lock().unwrap() += &format!("{line}\n");
            }
        });
        Self { child, address, folder, output }
    }

    /// What it said so far.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    fn child_has_ended(&self) -> Option<String> {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        // A zombie still takes signals, so its state is asked for.
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let ended = state.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'));
        ended.then(|| self.output())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection to it.
    #[track_caller]
    pub fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits. Returns the exit code, or the signal's number plus 128.
    #[track_caller]
    pub fn stop(&mut self) -> i32 {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        self.wait_end()
    }

    #[track_caller]
    pub fn wait_end(&mut self) -> i32 {
        super::wait_end(&mut self.child)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("a store on {} (ended before: {ended:?}) said: {}", self.address, self.output());
        }
    }
}

/// A connection that speaks Redis' protocol.
#[derive(Debug)]
pub struct RedisClient {
    stream: TcpStream,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl RedisClient {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, parser: ReplyParser::new(), buffer: Vec::new() }
    }

    /// Whether somebody listens there and answers.
    pub fn connect_if_listens(address: SocketAddr) -> bool {
        listens(address) && Self::connect(address).try_command(&["PING"]).is_some()
    }

    /// Sends a command and gives its reply.
    #[track_caller]
    pub fn command(&mut self, words: &[&str]) -> Value {
        self.try_command(words).expect("the store answers")
    }

    /// The same; nothing if the connection is lost.
    pub fn try_command(&mut self, words: &[&str]) -> Option<Value> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.stream.write_all(&bytes).ok()?;
        self.reply()
    }

    /// Sends a command, and does not wait for its reply.
    pub fn send_command(&mut self, words: &[&str]) {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Whether something has come that was not read yet.
    pub fn has_come(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !self.buffer.is_empty() || peeked.is_ok()
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Some bytes that have come, whatever they are.
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut piece = [0; 16 * 1024];
        let len = read_once(&mut self.stream, &mut piece).unwrap();
        piece[..len].to_vec()
    }

    /// The next reply.
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
            let mut piece = [0; 16 * 1024];
            let len = read_once(&mut self.stream, &mut piece).ok().filter(|len| *len > 0)?;
            self.buffer.extend_from_slice(&piece[..len]);
        }
    }

    /// The reply as text: bulk strings and lines as they are, integers in digits, nothing as `(nil)`.
    #[track_caller]
    pub fn text(&mut self, words: &[&str]) -> String {
        match self.command(words) {
            Value::Integer(number) => number.to_string(),
            Value::Null | Value::NullArray => "(nil)".into(),
            other => match other.as_bytes().or_else(|| other.as_error()) {
                Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                None => format!("{other:?}"),
            },
        }
    }
}
