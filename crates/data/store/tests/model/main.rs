//! Random commands on a store and on a redis-server: the replies are the same, and in the end all data; also after the store
//! was killed in the midst of commands, stopped and started again.
//!
//! `make test-model SEED=7 MINUTES=10` runs for long. A failure names the seed of its round: `SEED=..` runs it again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod grammar;
mod random;
mod state;

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use grammar::{Compare, Generator};
use resp::Value;
use state::{DATABASES, KeyState, held};
use support::{Client, Folder, Running};

/// Commands of a round.
const ROUND: usize = 3_000;
/// Both servers have it: small values soon become large ones.
const LIMITS: &[&[&str]] = &[
    &["hash-max-listpack-entries", "8"],
    &["hash-max-listpack-value", "16"],
    &["set-max-intset-entries", "8"],
    &["zset-max-listpack-entries", "8"],
    &["zset-max-listpack-value", "16"],
    &["list-max-listpack-size", "4"],
    &["stream-node-max-entries", "5"],
];

type Words = Vec<Vec<u8>>;

/// Commands that are sent together.
type Unit = Vec<(Compare, Words)>;

/// A round: two servers and what was done to them.
struct Round {
    seed: u64,
    generator: Generator,
    folder: Folder,
    settings: Vec<String>,
    store: Running,
    ours: Client,
    _redis: Running,
    real: Client,
    db: usize,
    protocol: u8,
    history: Vec<String>,
}

impl Round {
    fn new(seed: u64) -> Self {
        let generator = Generator::new(seed);
        let mut random = random::Random(seed ^ 0x5eed);
        let folder = Folder::new();
        let mut settings = vec!["--appendfsync", *random.pick(&["always", "everysec"])];
        settings.extend(random.pick(&[["--maxmemory", "0"], ["--maxmemory", "20mb"]]));
        settings.extend(random.pick(&[["--io-threads", "1"], ["--io-threads", "2"], ["--io-threads", "3"]]));
        // Half of the time nearly every collection goes by element.
        settings.extend(["--collection-max-whole-entries", *random.pick(&["8192", "3"])]);
        let limits: Vec<String> =
            LIMITS.iter().flat_map(|limit| [format!("--{}", limit[0]), limit[1].to_owned()]).collect();
        let limits = if random.one_in(3) { &[] } else { limits.as_slice() };
        let settings: Vec<String> = settings.into_iter().map(str::to_owned).chain(limits.iter().cloned()).collect();
        let words: Vec<&str> = settings.iter().map(String::as_str).collect();
        let store = support::start(&folder.data(), &words);
        let redis = support::redis_server(&folder.0, &limits.iter().map(String::as_str).collect::<Vec<_>>());
        let protocol = *random.pick(&[2, 2, 3]);
        let (ours, real) = (store.client(), redis.client());
        let mut round = Self {
            seed,
            generator,
            folder,
            settings,
            store,
            ours,
            _redis: redis,
            real,
            db: 0,
            protocol,
            history: Vec::new(),
        };
        round.greet_both();
        round
    }

    fn greet_both(&mut self) {
        let (db, protocol) = (self.db.to_string(), self.protocol.to_string());
        for client in [&mut self.ours, &mut self.real] {
            client.command(&["HELLO", &protocol]);
            client.command(&["SELECT", &db]);
        }
    }

    fn run(&mut self, until: Instant) {
        let mut count = 0;
        while count < ROUND && Instant::now() < until {
            count += 1;
            match self.generator.random.below(1000) {
                0 | 1 => self.kill_in_the_midst(),
                2 => self.restart(),
                3..8 => self.switch(),
                8..18 => self.pop_at_random(),
                18..24 => self.add_with_time(),
                24..40 => self.move_by_dump(),
                40..46 => self.expire_soon(),
                46..56 => self.watch(),
                56 => self.empty(),
                _ => {
                    let unit = self.unit();
                    for (compare, words) in unit {
                        self.both(compare, &words);
                    }
                }
            }
        }
        self.compare_all("at the end");
    }

    /// A command, or a transaction.
    fn unit(&mut self) -> Unit {
        if !self.generator.random.one_in(25) {
            return vec![self.generator.command()];
        }
        let word = |text: &str| (Compare::Exact, vec![text.as_bytes().to_vec()]);
        let mut unit = vec![word("MULTI")];
        for _ in 0..self.generator.random.below(5) {
            // What is compared by kind or in any order is not told apart within the reply of EXEC.
            let command = loop {
                let (compare, words) = self.generator.command();
                if compare == Compare::Exact {
                    break words;
                }
            };
            unit.push((Compare::Exact, command));
        }
        unit.push(word(if self.generator.random.one_in(10) { "DISCARD" } else { "EXEC" }));
        unit
    }

    /// Runs a command on both.
    #[track_caller]
    fn both<W: AsRef<[u8]>>(&mut self, compare: Compare, words: &[W]) -> Value {
        self.note(words);
        let Some(ours) = self.ours.try_command(words) else {
            panic!("{}\nthe store ended: {}", self.told(words), self.store.output())
        };
        let real = self.real.command(words);
        if !same(compare, &ours, &real) {
            panic!("{}\nours: {}\nreal: {}", self.told(words), shown(&ours), shown(&real));
        }
        real
    }

    fn note<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let mut line = format!("{}>", self.db);
        for word in words {
            let word = word.as_ref();
            let cut = word.get(..60).unwrap_or(word);
            let _ = write!(line, " {}", cut.escape_ascii());
            if word.is_empty() {
                line += "\"\"";
            }
            if cut.len() < word.len() {
                let _ = write!(line, "..({})", word.len());
            }
        }
        self.history.push(line);
    }

    /// What led to a failure: the last commands that name one of the keys.
    fn told<W: AsRef<[u8]>>(&self, words: &[W]) -> String {
        let names: Vec<String> = words
            .iter()
            .skip(1)
            .map(|word| word.as_ref().get(..60).unwrap_or(word.as_ref()).escape_ascii().to_string())
            .filter(|word| word.len() > 1)
            .collect();
        let is_about = |line: &&String| {
            let is_general = line.starts_with('#') || ["SWAPDB", "FLUSH"].iter().any(|word| line.contains(word));
            is_general || line.split(' ').skip(1).any(|word| names.iter().any(|name| word == name))
        };
        let mut lines: Vec<&String> = self.history.iter().rev().filter(is_about).take(40).collect();
        lines.reverse();
        let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        format!(
            "SEED={} after {} commands, RESP{}, {:?}\n{lines}",
            self.seed,
            self.history.len(),
            self.protocol,
            self.settings
        )
    }

    fn switch(&mut self) {
        self.db = self.generator.random.below(DATABASES);
        let db = self.db.to_string();
        self.both(Compare::Exact, &["SELECT", &db]);
    }

    fn empty(&mut self) {
        const WAYS: &[&[&str]] =
            &[&["FLUSHDB"], &["FLUSHDB", "ASYNC"], &["FLUSHALL"], &["SWAPDB", "0", "1"], &["SWAPDB", "2", "0"]];
        let words = *self.generator.random.pick(WAYS);
        self.both(Compare::Exact, words);
    }

    /// What ours has taken out is taken out of the other one.
    fn pop_at_random(&mut self) {
        let key = format!("e{}", self.generator.random.below(6));
        let mut words = vec!["SPOP".to_owned(), key.clone()];
        if self.generator.random.one_in(2) {
            words.push(self.generator.random.below(5).to_string());
        }
        self.note(&words);
        let ours = self.ours.command(&words);
        let members: Vec<Vec<u8>> = match (&ours, ours.as_bytes()) {
            (_, Some(one)) => vec![one.to_vec()],
            (Value::Array(some) | Value::Set(some), _) => {
                some.iter().map(|member| member.as_bytes().unwrap().to_vec()).collect()
            }
            _ => Vec::new(),
        };
        if members.is_empty() {
            let real = self.real.command(&words);
            assert!(
                same(Compare::Exact, &ours, &real),
                "{}\nours: {}\nreal: {}",
                self.told(&words),
                shown(&ours),
                shown(&real)
            );
            return;
        }
        let mut removing = vec![b"SREM".to_vec(), key.into_bytes()];
        removing.extend(members.iter().cloned());
        let removed = self.real.command(&removing).as_integer();
        assert_eq!(removed, Some(members.len() as i64), "{}\nours: {}", self.told(&words), shown(&ours));
    }

    /// The id that ours chose is given to the other one.
    fn add_with_time(&mut self) {
        let key = format!("x{}", 6 + self.generator.random.below(2));
        let words = ["XADD", &key, "MAXLEN", "30", "*", "field", "value"];
        self.note(&words);
        let ours = self.ours.command(&words);
        let Some(id) = ours.as_bytes() else {
            let real = self.real.command(&words);
            assert!(same(Compare::Exact, &ours, &real), "{}\nours: {}", self.told(&words), shown(&ours));
            return;
        };
        let id = String::from_utf8(id.to_vec()).unwrap();
        let real = self.real.command(&["XADD", &key, "MAXLEN", "30", &id, "field", "value"]);
        assert_eq!(real.as_bytes(), Some(id.as_bytes()), "{}", self.told(&words));
    }

    /// What one of them dumps, both restore.
    fn move_by_dump(&mut self) {
        let random = &mut self.generator.random;
        let kind = *random.pick(&['s', 'l', 'h', 'e', 'z', 'g', 'p', 'x']);
        let (from, to) = (format!("{kind}{}", random.below(6)), format!("{kind}{}", random.below(6)));
        let by_ours = random.one_in(2);
        let dump = if by_ours { &mut self.ours } else { &mut self.real }.command(&["DUMP", &from]);
        let Some(bytes) = dump.as_bytes() else {
            self.both(Compare::Exact, &["DUMP", &from]);
            return;
        };
        self.history.push(format!("{}> # DUMP {from} by {}", self.db, if by_ours { "ours" } else { "redis" }));
        let words = [b"RESTORE".to_vec(), to.into_bytes(), b"0".to_vec(), bytes.to_vec(), b"REPLACE".to_vec()];
        self.both(Compare::Exact, &words);
    }

    /// A key's time comes: neither has it any more.
    fn expire_soon(&mut self) {
        let kind = *self.generator.random.pick(&['s', 'l', 'h', 'e', 'z', 'x']);
        let key = format!("{kind}{}", self.generator.random.below(6));
        self.both(Compare::Exact, &["PEXPIRE", &key, "2"]);
        thread::sleep(Duration::from_millis(6));
        self.both(Compare::Exact, &["EXISTS", &key]);
    }

    /// A transaction of one who watches a key that another one may change.
    fn watch(&mut self) {
        let (key, other) =
            (format!("s{}", self.generator.random.below(6)), format!("s{}", self.generator.random.below(6)));
        self.both(Compare::Exact, &["WATCH", &key]);
        let db = self.db.to_string();
        self.history.push(format!("{db}> # another client: APPEND {other} w"));
        for address in [self.store.address, self._redis.address] {
            let mut client = Client::connect(address);
            client.command(&["SELECT", &db]);
            client.command(&["APPEND", &other, "w"]);
        }
        self.both(Compare::Exact, &["MULTI"]);
        self.both(Compare::Exact, &["APPEND", &key, "x"]);
        self.both(Compare::Exact, &["EXEC"]);
    }

    /// Stops the store and starts it again.
    fn restart(&mut self) {
        self.history.push("# stopped and started again".into());
        let code = self.store.stop();
        assert_eq!(code, Some(0), "{}\n{}", self.told(&[""]), self.store.output());
        self.start_again();
        self.compare_all("after a restart");
    }

    fn start_again(&mut self) {
        let words: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.store = support::start(&self.folder.data(), &words);
        self.ours = self.store.client();
        self.greet_both();
    }

    /// Kills the store while commands are on their way. What it has then are the first of them, at least those that it has
    /// answered.
    fn kill_in_the_midst(&mut self) {
        let units: Vec<Unit> = (0..1 + self.generator.random.below(30)).map(|_| self.unit()).collect();
        let mut bytes = Vec::new();
        units.iter().flatten().for_each(|(_, words)| resp::encode_command(&mut bytes, words));
        let delay = Duration::from_micros(self.generator.random.next() % 4_000);
        self.history.push(format!("# killed after {delay:?}, while these were on their way:"));
        self.ours.send(&bytes);
        thread::sleep(delay);
        self.store.kill();
        let mut answered = 0;
        while self.ours.reply().is_some() {
            answered += 1;
        }
        self.start_again();
        let found = held(&mut self.ours);
        let mut now = held(&mut self.real);
        self.greet_both();
        let (mut fits, mut done, mut sent) = (found == now, 0, 0);
        let mut nearest = difference(&found, &now);
        let mut steps = format!("before: {}\n", nearest.0);
        for (index, unit) in units.iter().enumerate() {
            let is_answered = sent + unit.len() <= answered;
            if fits && !is_answered {
                break;
            }
            sent += unit.len();
            for (_, words) in unit {
                self.note(words);
                self.real.command(words);
            }
            done = index + 1;
            now = held(&mut self.real);
            self.greet_both();
            fits = found == now;
            if !fits {
                let former = std::mem::replace(&mut nearest, difference(&found, &now));
                if former.1 != nearest.1 {
                    let _ = writeln!(steps, "after {}: {}", self.history.last().unwrap(), nearest.0);
                }
            }
        }
        if !fits {
            let key = nearest.1;
            panic!(
                "{}\nafter the kill, with {answered} replies of {}, it fits no number of commands\n{steps}\nlog: {}",
                self.told(&[Vec::new(), key]),
                units.iter().map(Vec::len).sum::<usize>(),
                self.store.output()
            );
        }
        // The others did not reach it.
        for (compare, words) in units[done..].iter().flatten() {
            self.both(*compare, words);
        }
    }

    #[track_caller]
    fn compare_all(&mut self, when: &str) {
        let (ours, real) = (held(&mut self.ours), held(&mut self.real));
        self.greet_both();
        if ours != real {
            let (text, key) = difference(&ours, &real);
            panic!("{}\n{when} they differ:\n{text}", self.told(&[Vec::new(), key]));
        }
        let digests = [self.ours.text(&["DEBUG", "DIGEST"]), self.real.text(&["DEBUG", "DIGEST"])];
        // The digest of a stream has its entries alone, and is compared above.
        if !real.iter().any(|held| held.kind == b"stream") {
            assert_eq!(digests[0], digests[1], "{}\n{when} their digests differ", self.told(&[""]));
        }
    }
}

/// The first key that differs, told, and its name.
fn difference(ours: &[KeyState], real: &[KeyState]) -> (String, Vec<u8>) {
    let place = |held: &KeyState| (held.db, held.key.clone());
    for held in real {
        match ours.iter().find(|other| place(other) == place(held)) {
            Some(other) if other == held => {}
            Some(other) => {
                let head = |held: &KeyState| format!("{} expires {}", held.kind.escape_ascii(), held.expires);
                let (name, at) = (told_name(held), apart(&other.content, &held.content));
                return (format!("{name}: ours {}, real {}{at}", head(other), head(held)), held.key.clone());
            }
            None => return (format!("ours has not: {}", told_key(held)), held.key.clone()),
        }
    }
    let more = ours.iter().find(|other| !real.iter().any(|held| place(held) == place(other)));
    more.map_or_else(Default::default, |other| (format!("ours alone has: {}", told_key(other)), other.key.clone()))
}

fn told_name(held: &KeyState) -> String {
    format!("{}> {}", held.db, held.key.get(..60).unwrap_or(&held.key).escape_ascii())
}

fn told_key(held: &KeyState) -> String {
    format!("{} {} {}", told_name(held), held.kind.escape_ascii(), shown(&held.content))
}

/// The first place where two values differ, and what is there.
fn apart(ours: &Value, real: &Value) -> String {
    match (ours.as_slice(), real.as_slice()) {
        (Some(ours), Some(real)) if ours.len() == real.len() => {
            let place = ours.iter().zip(real).position(|(ours, real)| ours != real);
            place.map_or_else(String::new, |place| format!(" [{place}]{}", apart(&ours[place], &real[place])))
        }
        _ if ours == real => String::new(),
        _ => format!("\nours: {}\nreal: {}", shown(ours), shown(real)),
    }
}

fn shown(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        let _ = match value {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
                out.push('[');
                for element in elements {
                    write(element, out);
                    out.push(' ');
                }
                write!(out, "]")
            }
            Value::Error(text) => write!(out, "-{}", text.escape_ascii()),
            other => match other.as_bytes() {
                Some(bytes) => write!(out, "\"{}\"", bytes.get(..100).unwrap_or(bytes).escape_ascii()),
                None => write!(out, "{other:?}"),
            },
        };
    }
    let mut out = String::new();
    write(value, &mut out);
    out.truncate(out.floor_char_boundary(1500));
    out
}

fn same(compare: Compare, ours: &Value, real: &Value) -> bool {
    match compare {
        Compare::Exact => ours == real,
        Compare::Kind => ours.as_error().is_some() == real.as_error().is_some(),
        Compare::Near => match (ours.as_integer(), real.as_integer()) {
            (Some(ours), Some(real)) => (ours - real).abs() <= 5 + real.abs() / 50,
            _ => ours == real,
        },
        Compare::Unordered => match (ours, real) {
            (Value::Array(ours), Value::Array(real)) | (Value::Set(ours), Value::Set(real)) => {
                state::sorted(ours.clone()) == state::sorted(real.clone())
            }
            (Value::Map(ours), Value::Map(real)) => {
                let sorted = |pairs: &[(Value, Value)]| {
                    state::sorted(
                        pairs.iter().map(|(name, value)| Value::Array(vec![name.clone(), value.clone()])).collect(),
                    )
                };
                sorted(ours) == sorted(real)
            }
            _ => ours == real,
        },
    }
}

#[test]
fn random_commands_have_the_replies_of_redis() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SEED").unwrap_or(1);
    let time = number("MINUTES").map_or(Duration::from_secs(4), |minutes| Duration::from_secs(60 * minutes));
    let until = Instant::now() + time;
    for seed in seed.. {
        if Instant::now() >= until {
            break;
        }
        if number("MINUTES").is_some() {
            eprintln!("round {seed}");
        }
        Round::new(seed).run(until);
    }
}
