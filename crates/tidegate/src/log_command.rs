//! `tidegate log`: shows transactions of a running edge as they end, in the manner of varnishlog.
//!
//! The records are read out of the workers' memory; the edge is neither asked nor slowed down, and writes them whether
//! anybody looks or not.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};
use store::{
    log_dump::{self, Dump, Form},
    point::Point,
};
use telemetry::ring::{Block, Filter, Group, Grouper, Record, RingEvent, RingReader, Tag, TagSet, discover};

use crate::{backup_command::with_causes, control_command::Which};

/// How long to wait when there is nothing new.
const IDLE_TIME: Duration = Duration::from_millis(50);
/// Idle rounds after which it is asked whether the workers are still there.
const IDLE_ROUNDS_MAX: u32 = 20;

/// What is shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// One request at a time. Sessions and checks of servers only come with what `-i` or `-q` ask of them.
    Request,
    /// All transactions of a session.
    Session,
    /// One record a line, with its transaction's number: for other programs.
    Raw,
}

/// What else there is to show.
#[derive(Subcommand, Debug)]
enum Other {
    /// Show the log of a store as commands, also while it is served.
    Dump(DumpArguments),
}

/// Options of `tidegate log dump`.
#[derive(Args, Debug)]
struct DumpArguments {
    /// The folder of the store, or one with files of its log.
    #[arg(long)]
    dir: std::path::PathBuf,
    /// Begin at this point; a folder `log-after-N` at N: an offset, a time in UTC (2026-03-01T12:00:00Z, @1772366400), or how long ago it was (-10m).
    #[arg(long, value_parser = log_dump::point, allow_hyphen_values = true)]
    from: Option<Point>,
    /// End before this offset, or behind this time.
    #[arg(long, value_parser = log_dump::point, allow_hyphen_values = true)]
    to: Option<Point>,
    /// Go on as the log grows.
    #[arg(long, short)]
    follow: bool,
    /// Commands alone, as redis-cli takes them from its standard input.
    #[arg(long, conflicts_with = "raw")]
    commands: bool,
    /// As they are in the log, in RESP: what `redis-cli --pipe` takes.
    #[arg(long)]
    raw: bool,
    /// Write commands that empty a database or all of them (FLUSHALL, FLUSHDB, FUNCTION FLUSH) as well; without this, --commands and
    /// --raw stop in front of one.
    #[arg(long)]
    with_flushes: bool,
}

/// Options of `tidegate log`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LogArguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    which: Which,
    /// What is shown together.
    #[arg(short, value_enum, default_value_t = Grouping::Request)]
    grouping: Grouping,
    /// Only transactions that have such a record: `RespStatus:503`, `ReqURL:/basket`, or `Retry` for any text. More than
    /// one must all be there.
    #[arg(short, value_name = "TAG[:TEXT]", value_parser = having)]
    query: Vec<(Tag, String)>,
    /// Only records with this tag.
    #[arg(short, value_name = "TAG", value_parser = tag)]
    include: Vec<Tag>,
    /// No records with this tag.
    #[arg(short = 'x', value_name = "TAG", value_parser = tag)]
    exclude: Vec<Tag>,
    /// Begin with what is still in memory.
    #[arg(short = 'd')]
    from_start: bool,
    /// End after that many transactions.
    #[arg(short = 'n', value_name = "COUNT")]
    count: Option<u64>,
    /// Show what is there and end.
    #[arg(long)]
    no_wait: bool,
    /// Name every tag and say what it means.
    #[arg(long)]
    tags: bool,
}

fn tag(name: &str) -> Result<Tag, String> {
    Tag::named(name).ok_or_else(|| format!("there is no tag '{name}'; --tags names them all"))
}

fn having(text: &str) -> Result<(Tag, String), String> {
    let (name, text) = text.split_once(':').unwrap_or((text, ""));
    Ok((tag(name)?, text.to_owned()))
}

/// Shows the log.
pub fn run(arguments: &LogArguments) -> ExitCode {
    if let Some(Other::Dump(arguments)) = &arguments.other {
        return dump(arguments);
    }
    let stdout = io::stdout().lock();
    let result = if arguments.tags { print_tags(stdout) } else { follow(arguments, stdout) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate log: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dump(arguments: &DumpArguments) -> ExitCode {
    let form = match (arguments.commands, arguments.raw) {
        (_, true) => Form::Raw,
        (true, false) => Form::Commands,
        (false, false) => Form::Lines,
    };
    let what = Dump {
        folder: arguments.dir.clone(),
        from: arguments.from,
        to: arguments.to,
        follow: arguments.follow,
        form,
        with_flushes: arguments.with_flushes,
    };
    match log_dump::dump(&what, &mut io::BufWriter::new(io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate log dump: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn print_tags(mut output: impl Write) -> io::Result<()> {
    for tag in Tag::ALL {
        writeln!(output, "{:<14} {}", tag.name(), tag.doc())?;
    }
    Ok(())
}

fn filter(arguments: &LogArguments) -> Filter {
    let mut tags = match arguments.include.as_slice() {
        [] => TagSet::ALL,
        include => include.iter().fold(TagSet::NONE, |tags, tag| tags.with(*tag)),
    };
    for tag in &arguments.exclude {
        tags = tags.without(*tag);
    }
    let having = arguments.query.iter().map(|(tag, text)| (*tag, text.clone().into_bytes())).collect();
    Filter { tags, ids: Vec::new(), having }
}

/// The rings of a process, or of the workers of a master.
fn readers(pid: u32, from_start: bool) -> io::Result<Vec<RingReader>> {
    let mut found = discover(pid)?;
    if found.is_empty() {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
            found.extend(discover(child)?);
        }
    }
    let mut readers = Vec::new();
    for ring in found {
        let mut reader = ring.reader().map_err(io::Error::other)?;
        if from_start {
            reader.to_start();
        }
        readers.push(reader);
    }
    Ok(readers)
}

fn follow(arguments: &LogArguments, output: impl Write) -> io::Result<()> {
    let pid = arguments.which.pid().map_err(io::Error::other)?;
    let mut rings = readers(pid, arguments.from_start).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "it is not there (any more)".to_owned(),
            io::ErrorKind::PermissionDenied => format!("{error}; its user and root may read them"),
            _ => error.to_string(),
        };
        io::Error::other(format!("the records of process {pid} cannot be read: {reason}"))
    })?;
    if rings.is_empty() {
        return Err(io::Error::other(format!("process {pid} and its workers keep no records of transactions")));
    }
    let mut printer = Printer::new(arguments, output);
    let mut idle_rounds = 0;
    loop {
        let mut idle = true;
        for ring in &mut rings {
            loop {
                match ring.poll() {
                    RingEvent::Block(block) => {
                        idle = false;
                        printer.take(&block)?;
                    }
                    RingEvent::Lost { bytes } => eprintln!("({bytes} bytes of records came too fast and are lost)"),
                    RingEvent::Idle | RingEvent::Closed => break,
                }
                if printer.is_done() {
                    return printer.finish();
                }
            }
        }
        printer.output.flush()?;
        if !idle {
            idle_rounds = 0;
            continue;
        }
        if arguments.no_wait {
            return printer.finish();
        }
        std::thread::sleep(IDLE_TIME);
        idle_rounds += 1;
        if idle_rounds >= IDLE_ROUNDS_MAX {
            idle_rounds = 0;
            renew(&mut rings, pid)?;
        }
    }
}

/// Forgets rings of processes that are gone and finds those of new ones. An error once the process itself is gone.
fn renew(rings: &mut Vec<RingReader>, pid: u32) -> io::Result<()> {
    let gone = |error| io::Error::other(format!("process {pid} has ended: {error}"));
    std::fs::metadata(format!("/proc/{pid}")).map_err(gone)?;
    rings.retain(|ring| std::fs::metadata(format!("/proc/{}", ring.owner().1)).is_ok());
    // A worker may end while it is looked at; the next look tells.
    for new in readers(pid, true).unwrap_or_default() {
        if !rings.iter().any(|ring| (ring.owner(), ring.created_us()) == (new.owner(), new.created_us())) {
            rings.push(new);
        }
    }
    Ok(())
}

/// Filters, gathers and prints.
struct Printer<W: Write> {
    output: io::BufWriter<W>,
    filter: Filter,
    grouping: Grouping,
    /// Whether tags are named.
    chosen: bool,
    grouper: Grouper,
    left: Option<u64>,
}

impl<W: Write> Printer<W> {
    fn new(arguments: &LogArguments, output: W) -> Self {
        Self {
            output: io::BufWriter::new(output),
            filter: filter(arguments),
            grouping: arguments.grouping,
            chosen: !arguments.include.is_empty() || !arguments.query.is_empty(),
            grouper: Grouper::new(),
            left: arguments.count,
        }
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    fn take(&mut self, block: &Block<'_>) -> io::Result<()> {
        // A transaction that names no session stands for itself.
        if self.grouping == Grouping::Session && (block.first(Tag::Begin).is_some() || block.first(Tag::End).is_some())
        {
            let groups = self.grouper.push(block);
            return groups.iter().try_for_each(|group| self.print_group(group));
        }
        let shown = || block.records().any(|record| self.filter.shows(&record));
        let wanted = self.grouping != Grouping::Request || is_request(block) || self.chosen && shown();
        if !wanted || !self.filter.selects(block) {
            return Ok(());
        }
        self.count();
        self.print(block)
    }

    /// A session is wanted when one of its transactions is.
    fn print_group(&mut self, group: &Group) -> io::Result<()> {
        if self.is_done() || !group.blocks.iter().any(|block| self.filter.selects(&block.block())) {
            return Ok(());
        }
        self.count();
        group.blocks.iter().try_for_each(|block| self.print(&block.block()))
    }

    fn count(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    fn print(&mut self, block: &Block<'_>) -> io::Result<()> {
        let raw = self.grouping == Grouping::Raw;
        if !raw {
            let cut = if block.is_truncated() { ", cut" } else { "" };
            writeln!(self.output, "*   transaction {}, {}{cut}", block.id(), clock(block.time_us()))?;
        }
        for record in block.records().filter(|record| self.filter.shows(record)) {
            if raw {
                write!(self.output, "{:>10} ", block.id())?;
            } else {
                write!(self.output, "-   ")?;
            }
            let name = record.tag().map_or_else(|| record.number.to_string(), |tag| tag.name().to_owned());
            writeln!(self.output, "{name:<14} {}", printable(&record))?;
        }
        if !raw {
            writeln!(self.output)?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        for group in self.grouper.drain() {
            self.print_group(&group)?;
        }
        self.output.flush()
    }
}

/// Whether a block is about a request, and not about a session or a check.
fn is_request(block: &Block<'_>) -> bool {
    match block.first(Tag::Begin) {
        Some(begin) => begin.starts_with(b"req "),
        None => block.first(Tag::SessClose).is_none(),
    }
}

/// The time of day in UTC.
fn clock(time_us: u64) -> String {
    let (seconds, microseconds) = (time_us / 1_000_000, time_us % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{microseconds:06} UTC")
}

/// The text with everything escaped that a terminal might act on.
fn printable(record: &Record<'_>) -> String {
    String::from_utf8_lossy(record.text)
        .chars()
        .map(|letter| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::ring::RingWriter;

    fn arguments(words: &str) -> LogArguments {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: LogArguments,
        }
        <Line as clap::Parser>::parse_from(["log"].into_iter().chain(words.split_whitespace())).arguments
    }

    fn shown(words: &str) -> String {
        let writer = RingWriter::anonymous(1, 64 * 1024, 0).unwrap();
        let mut reader = writer.reader().unwrap();
        for (id, status) in [(1, "200"), (2, "503")] {
            let mut transaction = writer.transaction();
            transaction.begin(id, 3_661_000_007);
            transaction.record(Tag::ReqURL, b"/a\x1b[31m");
            transaction.record(Tag::RespStatus, status.as_bytes());
            transaction.record(Tag::End, b"");
            writer.commit(&mut transaction);
        }
        let mut output = Vec::new();
        let mut printer = Printer::new(&arguments(words), &mut output);
        while let RingEvent::Block(block) = reader.poll() {
            if printer.is_done() {
                break;
            }
            printer.take(&block).unwrap();
        }
        printer.finish().unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn shows_what_is_asked_for() {
        assert_eq!(
            shown("-n 1"),
            "*   transaction 1, 01:01:01.000007 UTC\n-   ReqURL         /a\\u{1b}[31m\n-   RespStatus     200\n-   End            \n\n"
        );
        for (words, expected) in [
            ("-g raw -i RespStatus", "         1 RespStatus     200\n         2 RespStatus     503\n"),
            ("-g raw -i RespStatus -q RespStatus:503", "         2 RespStatus     503\n"),
            ("-g raw -q Retry", ""),
            ("-g raw -n 1 -x ReqURL -x End", "         1 RespStatus     200\n"),
            (
                "-g session -i RespStatus -q RespStatus:503",
                "*   transaction 2, 01:01:01.000007 UTC\n-   RespStatus     503\n\n",
            ),
        ] {
            assert_eq!(shown(words), expected, "{words}");
        }
    }
}
