//! What varnishlog and varnishncsa have in common: from options to groups that a query is true of.

use std::{
    fs,
    io::{self, Write},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use telemetry::{query::Query, vsl::VOCABULARY};
use vsm::reader::Start;

use crate::{
    filter::Filter,
    group::{Group, Grouper, Grouping, Kind, Limits, Transaction, entries},
    options::Specification,
    output::Output,
    source::{Event, Source, folder},
};

/// Options of both tools.
pub(crate) const OPTIONS: &[Specification] = &[
    ('a', "", "Append to the file of -w"),
    ('b', "", "Only fetches"),
    ('c', "", "Only requests of clients"),
    ('C', "", "Ignore letter case in regular expressions"),
    ('d', "", "Show the transactions in memory, and end"),
    ('D', "", "Run in the background; needs -w"),
    ('E', "", "With -c: also parts of ESI documents"),
    ('g', "grouping", "Which transactions to show together: session, request, vxid or raw"),
    ('h', "", "This help"),
    ('k', "count", "End after this many groups"),
    ('L', "count", "How many incomplete transactions to keep (1000)"),
    ('n', "name", "The instance: a name, or the path of its working directory"),
    ('P', "file", "Write the process id to this file"),
    ('q', "query", "Show only groups that match this query (man vsl-query)"),
    ('Q', "file", "Read queries from a file, one per line"),
    ('r', "file", "Read a file that -w wrote; - is the standard input"),
    ('R', "count[/time]", "Show at most this many groups per second, or per this time (10/5s)"),
    ('t', "seconds", "How long to wait for the instance; off: without a limit"),
    ('T', "seconds", "How many seconds to wait for the end of a transaction (120)"),
    ('V', "", "The version"),
    ('w', "file", "Write to this file instead of the standard output"),
];

/// What the options say.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) wants_fetches: bool,
    pub(crate) wants_requests: bool,
    pub(crate) wants_esi: bool,
    pub(crate) ignores_case: bool,
    pub(crate) grouping: Option<Grouping>,
    pub(crate) output_file: Option<String>,
    pub(crate) appends: bool,
    pub(crate) filter: Filter,
    is_background: bool,
    from_memory: bool,
    count: Option<u64>,
    limits: Limits,
    instance: Option<String>,
    pid_file: Option<String>,
    queries: Vec<String>,
    input: Option<String>,
    rate: Option<(u32, Duration)>,
    patience: Patience,
}

#[derive(Clone, Copy, Debug)]
enum Patience {
    Seconds(f64),
    Endless,
}

impl Default for Patience {
    fn default() -> Self {
        Self::Seconds(5.0)
    }
}

/// What is done with groups.
pub(crate) trait Sink {
    /// A group that the query is true of. An error ends the tool.
    fn group(&mut self, group: &Group) -> io::Result<()>;
    /// What is buffered goes out.
    fn flush(&mut self) -> io::Result<()>;
    /// The file was moved away.
    fn reopen(&mut self) -> Result<(), String>;
}

impl Watch {
    /// Takes an option. `false` if it is none of these.
    pub(crate) fn take(&mut self, option: char, value: &str) -> Result<bool, String> {
        let number = || value.parse().map_err(|_| format!("-{option} needs a number, not '{value}'"));
        match option {
            'a' => self.appends = true,
            'b' => self.wants_fetches = true,
            'c' => self.wants_requests = true,
            'C' => self.ignores_case = true,
            'd' => self.from_memory = true,
            'D' => self.is_background = true,
            'E' => (self.wants_esi, self.wants_requests) = (true, true),
            'g' => {
                let grouping = Grouping::named(value);
                self.grouping =
                    Some(grouping.ok_or_else(|| format!("-g is session, request, vxid or raw, not '{value}'"))?);
            }
            'i' | 'I' | 'x' | 'X' => self.filter.add(option, value, self.ignores_case)?,
            'k' => self.count = Some(number()?),
            'L' => self.limits.transactions_max = usize::try_from(number()?).unwrap_or(usize::MAX).max(1),
            'n' => self.instance = Some(value.to_owned()),
            'P' => self.pid_file = Some(value.to_owned()),
            'q' => self.queries.push(value.to_owned()),
            'Q' => {
                let text = fs::read_to_string(value).map_err(|error| format!("cannot read {value}: {error}"))?;
                self.queries.push(text);
            }
            'r' => self.input = Some(value.to_owned()),
            'R' => self.rate = Some(rate(value)?),
            't' if value.eq_ignore_ascii_case("off") => self.patience = Patience::Endless,
            't' => self.patience = Patience::Seconds(seconds(value)?.as_secs_f64()),
            'T' => self.limits.timeout = seconds(value)?,
            'w' => self.output_file = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether a transaction is one that -b and -c want.
    pub(crate) fn wants(&self, transaction: &Transaction) -> bool {
        if !self.wants_fetches && !self.wants_requests {
            return true;
        }
        match transaction.kind {
            Kind::Request => self.wants_requests && (self.wants_esi || !transaction.is_esi),
            Kind::Fetch => self.wants_fetches,
            // A record on its own says whose it is.
            Kind::Raw => transaction
                .records
                .iter()
                .any(|record| self.wants_requests && record.is_client || self.wants_fetches && record.is_backend),
            Kind::Session | Kind::Unknown => false,
        }
    }

    pub(crate) fn open_output(&self, head: &'static [u8]) -> Result<Output, String> {
        Output::open(self.output_file.as_deref(), self.appends, head)
    }

    /// Has another process do it in the background, if that is wished. Then there is nothing more to do here.
    pub(crate) fn go_to_background(&self, tool: &str, words: &[String]) -> Result<bool, String> {
        if !self.is_background || std::env::var_os(crate::background::IN_BACKGROUND).is_some() {
            return Ok(false);
        }
        if self.output_file.as_deref().is_none_or(|file| file == "-") {
            return Err("-D needs -w with a file".to_owned());
        }
        crate::background::spawn_in_background(tool, words)?;
        Ok(true)
    }

    /// Hands groups to `sink` until there are no more, or somebody ends it.
    pub(crate) fn run(&self, sink: &mut dyn Sink) -> Result<ExitCode, String> {
        let grouping = self.grouping.unwrap_or(Grouping::Vxid);
        let query = match self.queries.as_slice() {
            [] => None,
            queries => {
                let text = queries.join("\n");
                Some(Query::parse_for(&VOCABULARY, &text).map_err(|error| format!("-q: {}", error.show(&text)))?)
            }
        };
        let mut source = match &self.input {
            Some(path) => Source::file(path)?,
            None => {
                let start = if self.from_memory { Start::Oldest } else { Start::Tail };
                let patience = match self.patience {
                    Patience::Seconds(seconds) => Some(Duration::from_secs_f64(seconds)),
                    Patience::Endless => None,
                };
                Source::instance(&folder(self.instance.as_deref()), start, self.from_memory, patience)?
            }
        };
        if let Some(path) = &self.pid_file {
            fs::write(path, format!("{}\n", std::process::id()))
                .map_err(|error| format!("cannot write {path}: {error}"))?;
        }
        let mut run = Run {
            grouper: Grouper::new(grouping, self.limits),
            query,
            left: self.count,
            rate: self.rate.map(|(count, time)| Rate { count, time, credits: f64::from(count), last: Instant::now() }),
            sink,
        };
        let signals = Signals::listen().map_err(|error| format!("cannot listen to signals: {error}"))?;
        let result = run.follow(&mut source, &signals);
        if let Some(path) = &self.pid_file {
            // It is there for others only while this process is.
            let _ = fs::remove_file(path);
        }
        match result {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(Stop::Pipe) => Ok(ExitCode::SUCCESS),
            Err(Stop::Failure(message)) => Err(message),
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("'{text}' is no number of seconds"))
}

/// `10`, `10/5s`, `100/1m`.
fn rate(text: &str) -> Result<(u32, Duration), String> {
    let wrong = || format!("-R is a number, or a number and a time as 10/5s, not '{text}'");
    let (count, time) = text.split_once('/').unwrap_or((text, "1s"));
    let split = time.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(time.len());
    let (number, unit) = time.split_at(split);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = if number.is_empty() { 1.0 } else { number.parse().map_err(|_| wrong())? };
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if count > 0 && !time.is_zero() { Ok((count, time)) } else { Err(wrong()) }
}

struct Rate {
    count: u32,
    time: Duration,
    credits: f64,
    last: Instant,
}

impl Rate {
    fn allows(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.last).as_secs_f64() / self.time.as_secs_f64() * f64::from(self.count);
        self.credits = (self.credits + earned).min(f64::from(self.count));
        self.last = now;
        let allows = self.credits >= 1.0;
        self.credits -= f64::from(u8::from(allows));
        allows
    }
}

enum Stop {
    /// Nobody reads any more.
    Pipe,
    Failure(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Failure(format!("cannot write: {error}")),
        }
    }
}

struct Signals {
    end: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
    flush: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let signals = Self { end: Arc::default(), hang_up: Arc::default(), flush: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, signals.end.clone())?;
        }
        signal_hook::flag::register(SIGHUP, signals.hang_up.clone())?;
        signal_hook::flag::register(SIGUSR1, signals.flush.clone())?;
        Ok(signals)
    }
}

struct Run<'a> {
    grouper: Grouper,
    query: Option<Query>,
    left: Option<u64>,
    rate: Option<Rate>,
    sink: &'a mut dyn Sink,
}

impl Run<'_> {
    fn follow(&mut self, source: &mut Source, signals: &Signals) -> Result<(), Stop> {
        while self.left != Some(0) && !signals.end.load(Ordering::Relaxed) {
            if signals.hang_up.swap(false, Ordering::Relaxed) {
                self.sink.flush()?;
                self.sink.reopen().map_err(Stop::Failure)?;
            }
            if signals.flush.swap(false, Ordering::Relaxed) {
                let groups = self.grouper.flush("flush");
                self.hand_over(groups)?;
            }
            match source.next().map_err(Stop::Failure)? {
                Event::Record(record) => {
                    let groups = self.grouper.push(record, Instant::now());
                    self.hand_over(groups)?;
                }
                Event::Idle => self.sink.flush()?,
                Event::Gap(reason) => {
                    eprintln!("Log {reason}");
                    let groups = self.grouper.flush(reason);
                    self.hand_over(groups)?;
                }
                Event::End => {
                    let groups = self.grouper.flush("flush");
                    self.hand_over(groups)?;
                    break;
                }
            }
        }
        Ok(self.sink.flush()?)
    }

    fn hand_over(&mut self, groups: Vec<Group>) -> Result<(), Stop> {
        for group in groups {
            if self.left == Some(0) {
                break;
            }
            if self.query.as_ref().is_some_and(|query| !query.matches(&entries(&group))) {
                continue;
            }
            if self.rate.as_mut().is_some_and(|rate| !rate.allows(Instant::now())) {
                continue;
            }
            self.sink.group(&group)?;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(())
    }
}

/// What an output has in common.
pub(crate) fn write(output: &mut Output, bytes: &[u8], is_unbuffered: bool) -> io::Result<()> {
    output.write_all(bytes)?;
    if is_unbuffered { output.flush() } else { Ok(()) }
}
