//! Commands with the replies that Redis 7.0 gives to them.
//!
//! Each file in `replies/` is a conversation with an empty server: a command as `redis-cli` would take it, below it the
//! reply as it goes over the wire, then an empty line. Bytes that cannot be printed are `\xNN`. A line that begins with `!`
//! is for this test: `!advance MS` lets time pass, `!resp3` changes the protocol. `#` begins a comment.
//!
//! The replies were not written by hand. `RECORD=127.0.0.1:PORT cargo test -p commands --test replies` asks a real
//! redis-server, whose data are removed, and writes what it answers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use commands::{Millis, Server, SessionId, config::Settings};
use resp::{ReplyLimits, ReplyParser, ReplyProgress};

/// Whoever answers commands.
trait Peer {
    /// Sends bytes and gives the reply's.
    fn ask(&mut self, command: &[u8]) -> Vec<u8>;
    /// Lets time pass.
    fn advance(&mut self, ms: u64);
}

struct Ours {
    server: Server,
    session: SessionId,
    now: Millis,
}

impl Ours {
    fn new() -> Self {
        let now = 1_700_000_000_000;
        let mut server = Server::new(Settings::default(), 7, 7, now, None, Box::new(|| 0));
        let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), now);
        Self { server, session, now }
    }
}

impl Peer for Ours {
    fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        self.server.input(self.session).unwrap().extend_from_slice(command);
        self.server.run(self.session, self.now);
        std::mem::take(self.server.output(self.session).unwrap().0)
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms as Millis;
        self.server.tick(self.now);
    }
}

struct Redis(TcpStream);

impl Peer for Redis {
    fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        self.0.write_all(command).unwrap();
        let mut reply = Vec::new();
        let mut parser = ReplyParser::new();
        let mut at = 0;
        loop {
            match parser.parse(&reply[at..], &ReplyLimits::default()).unwrap() {
                ReplyProgress::Complete { .. } => return reply,
                ReplyProgress::Incomplete { consumed, .. } => at += consumed,
            }
            let mut bytes = [0; 65536];
            let len = self.0.read(&mut bytes).unwrap();
            assert!(len > 0, "the server has closed");
            reply.extend_from_slice(&bytes[..len]);
        }
    }

    fn advance(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}

/// A reply as text: a line for each of its lines.
fn show(reply: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = reply;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\r' if rest.first() == Some(&b'\n') => {
                text.push('\n');
                rest = &rest[1..];
            }
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            byte => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text
}

/// Goes through a conversation; gives it with the replies of this peer.
fn replay(script: &str, peer: &mut dyn Peer) -> String {
    let mut out = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        } else if let Some(directive) = line.strip_prefix('!') {
            writeln!(out, "{line}").unwrap();
            match directive.split_once(' ').unwrap_or((directive, "")) {
                ("advance", ms) => peer.advance(ms.parse().unwrap()),
                ("resp3", _) => drop(peer.ask(b"HELLO 3\r\n")),
                other => panic!("no such directive: {other:?}"),
            }
        } else {
            let reply = peer.ask(format!("{line}\r\n").as_bytes());
            writeln!(out, "{line}\n{}", show(&reply)).unwrap();
            // The former reply, up to an empty line.
            for line in lines.by_ref() {
                if line.is_empty() {
                    break;
                }
            }
        }
    }
    out
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replies");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn replies_are_those_of_redis() {
    let mut wrong = String::new();
    for path in scripts() {
        let script = fs::read_to_string(&path).unwrap();
        if let Ok(address) = std::env::var("RECORD") {
            let mut redis = Redis(TcpStream::connect(address).unwrap());
            redis.ask(b"FLUSHALL\r\n");
            fs::write(&path, replay(&script, &mut redis)).unwrap();
            continue;
        }
        let ours = replay(&script, &mut Ours::new());
        let mut command = "";
        let mut shown = 0;
        for (line, (ours, expected)) in ours.lines().zip(script.lines()).enumerate() {
            if line == 0 || script.lines().nth(line - 1) == Some("") {
                command = expected;
            }
            if ours != expected && shown < 20 {
                let name = path.file_name().unwrap().to_string_lossy();
                writeln!(wrong, "{name}:{}: {command}\n  redis: {expected}\n  ours:  {ours}", line + 1).unwrap();
                shown += 1;
            }
        }
        if shown == 0 && ours != script {
            writeln!(wrong, "{}: not as many lines", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
