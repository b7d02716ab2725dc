//! Commands with the replies that Redis 7.0 gives to them.
//!
//! Each file in `replies/` is a conversation with an empty server: a command as `redis-cli` would take it, below it the
//! reply as it goes over the wire, then an empty line. Bytes that cannot be printed are `\xNN`, a line of none is `\`. A line that begins with `!`
//! is for this test: `!advance MS` lets time pass, `!resp3` changes the protocol. `#` begins a comment.
//!
//! The replies were not written by hand. `RECORD=127.0.0.1:PORT cargo test -p commands --test replies` asks a real
//! redis-server, whose data are removed, and writes what it answers.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

mod support;

use commands::{
    Server, SessionId,
    config::{Allowed, Integer, Settings},
};
use keyspace::Millis;
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
    /// What is not in memory, if there is such a thing.
    tables: Option<support::Shared>,
    /// After how many commands everything leaves memory, if it does; in between, collections come back.
    forgets_after: Option<usize>,
    commands: usize,
}

impl Ours {
    fn new(settings: Settings, tables: Option<support::Shared>, forgets_after: Option<usize>) -> Self {
        let now = 1_700_000_000_000;
        let settings = Settings { enable_debug_command: Allowed::Yes, ..settings };
        let records = tables.clone().map(|tables| Box::new(tables) as Box<dyn keyspace::Records>);
        let mut server = Server::new(settings, support::SEED, 7, now, records, std::rc::Rc::new(|| 0));
        if tables.is_some() {
            server.step_limits_mut().portion_min = 1;
        }
        let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), now);
        Self { server, session, now, tables, forgets_after, commands: 0 }
    }
}

impl Peer for Ours {
    fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        self.server.input(self.session).unwrap().extend_from_slice(command);
        self.server.run(self.session, self.now);
        if let Some(tables) = &self.tables {
            support::answer_loads(&mut self.server, tables);
            self.commands += 1;
            match self.forgets_after {
                Some(after) if self.commands.is_multiple_of(after) => support::checkpoint(&mut self.server, tables),
                Some(_) => support::bring(&mut self.server, tables),
                None => {}
            }
        }
        assert_eq!(self.server.condition().broken, None);
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

/// A reply as text: a line for each of its lines; one that is empty is a lone backslash.
fn show(reply: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = reply;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\r' if rest.first() == Some(&b'\n') => {
                if text.is_empty() || text.ends_with('\n') {
                    text.push('\\');
                }
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

/// A command with its reply, or a line of another kind with none.
struct Step<'a> {
    number: usize,
    line: &'a str,
    reply: Option<String>,
}

fn steps(script: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut lines = script.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let is_command = !line.is_empty() && !line.starts_with(['#', '!']);
        let reply = is_command.then(|| {
            let reply = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.is_empty());
            reply.map(|line| format!("{line}\n")).collect()
        });
        steps.push(Step { number: number + 1, line, reply });
    }
    steps
}

/// Does what a line says; gives the reply to a command.
fn run(line: &str, peer: &mut dyn Peer) -> String {
    let Some(directive) = line.strip_prefix('!') else { return show(&peer.ask(format!("{line}\r\n").as_bytes())) };
    match directive.split_once(' ').unwrap_or((directive, "")) {
        ("advance", ms) => peer.advance(ms.parse().unwrap()),
        ("resp3", _) => drop(peer.ask(b"HELLO 3\r\n")),
        other => panic!("no such directive: {other:?}"),
    }
    String::new()
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replies");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn record(script: &str, redis: &mut Redis) -> String {
    redis.ask(b"FLUSHALL\r\n");
    redis.ask(b"FUNCTION FLUSH\r\n");
    let mut out = String::new();
    for step in steps(script) {
        writeln!(out, "{}", step.line).unwrap();
        if step.reply.is_some() || step.line.starts_with('!') {
            let reply = run(step.line, redis);
            if step.reply.is_some() {
                writeln!(out, "{reply}").unwrap();
            }
        }
    }
    out
}

/// Commands that give elements of what has no order.
const UNORDERED: &[&str] = &[
    "SMEMBERS",
    "SRANDMEMBER",
    "SPOP",
    "SSCAN",
    "SUNION",
    "SINTER",
    "SDIFF",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "HSCAN",
    "HRANDFIELD",
    "ZSCAN",
    "ZRANDMEMBER",
];

/// What of a reply has to be the same, in whatever form a collection is held.
fn essence(line: &str, reply: &str) -> Option<String> {
    let name = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
    // What these tell of a key is different, or forgotten when it leaves memory.
    if matches!(name.as_str(), "OBJECT" | "DUMP" | "DEBUG") {
        return None;
    }
    let mut lines: Vec<&str> = reply.lines().collect();
    // Large sorted sets give scores another form.
    let scores: Vec<String>;
    if name == "ZSCAN" {
        let score = |line: &str| line.parse::<f64>().map_or_else(|_| line.to_owned(), |score| score.to_string());
        scores = lines.iter().filter(|line| !line.starts_with('$')).map(|line| score(line)).collect();
        lines = scores.iter().map(String::as_str).collect();
    }
    if UNORDERED.contains(&name.as_str()) || (name == "SORT" && line.contains(" nosort")) {
        lines.sort_unstable();
    }
    Some(lines.join("\n"))
}

/// Holds all conversations with servers of ours, and says where they differ.
fn converse(mut ours: impl FnMut() -> Ours) {
    const SHOWN_MAX: usize = 20;
    let mut wrong = Vec::new();
    for path in scripts() {
        let script = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut ours = ours();
        let is_whole = ours.tables.is_none();
        for step in steps(&script) {
            if step.line.is_empty() || step.line.starts_with('#') {
                continue;
            }
            let reply = run(step.line, &mut ours);
            let differs = |expected: &String| {
                *expected != reply && (is_whole || essence(step.line, expected) != essence(step.line, &reply))
            };
            if let Some(expected) = step.reply.filter(differs) {
                wrong.push(format!("{name}:{}: {}\nredis: {expected}ours:  {reply}", step.number, step.line));
            }
        }
    }
    let count = wrong.len();
    wrong.truncate(SHOWN_MAX);
    assert!(wrong.is_empty(), "{count} replies differ:\n{}", wrong.join("\n"));
}

#[test]
fn replies_are_those_of_redis() {
    if let Ok(address) = std::env::var("RECORD") {
        for path in scripts() {
            let script = fs::read_to_string(&path).unwrap();
            let mut redis = Redis(TcpStream::connect(&address).unwrap());
            fs::write(&path, record(&script, &mut redis)).unwrap();
        }
        return;
    }
    converse(|| Ours::new(Settings::default(), None, None));
}

/// Collections of more than so many elements are records by element.
fn spreading(entries: i64) -> Settings {
    Settings { collection_max_whole_entries: Integer(entries), ..Settings::default() }
}

#[test]
fn replies_are_the_same_when_elements_are_records() {
    converse(|| Ours::new(spreading(2), Some(support::Shared::default()), None));
}

#[test]
fn replies_are_the_same_when_nothing_stays_in_memory() {
    converse(|| Ours::new(spreading(2), Some(support::Shared::default()), Some(1)));
}

#[test]
fn replies_are_the_same_when_collections_leave_and_come_back() {
    converse(|| Ours::new(spreading(2), Some(support::Shared::default()), Some(4)));
}
