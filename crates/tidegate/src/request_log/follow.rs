//! Reads the rings of a running edge.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use telemetry::ring::{OwnedBlock, RingEvent, RingReader, discover};

use super::{RequestLogArguments, printer::Printer};

/// How long to wait when there is nothing new.
const IDLE_TIME: Duration = Duration::from_millis(50);
/// Idle rounds after which it is asked whether the workers are still there.
const IDLE_ROUNDS_MAX: u32 = 20;

/// A ring, and what was read of it but not shown yet.
struct Source {
    reader: RingReader,
    next: Option<OwnedBlock>,
}

impl Source {
    /// When the next block of it began, if there is one now.
    fn next_time_us(&mut self) -> Option<u64> {
        while self.next.is_none() {
            match self.reader.poll() {
                RingEvent::Block(block) => self.next = Some(OwnedBlock::of(&block)),
                RingEvent::Lost { bytes } => eprintln!("({bytes} bytes of records came too fast and are lost)"),
                RingEvent::Idle | RingEvent::Closed => return None,
            }
        }
        self.next.as_ref().map(|block| block.block().time_us())
    }
}

/// The next block of all workers: the one that began first.
fn next_block(sources: &mut [Source]) -> Option<OwnedBlock> {
    let times = sources.iter_mut().enumerate().filter_map(|(index, source)| Some((source.next_time_us()?, index)));
    let (_, first) = times.min()?;
    sources.get_mut(first)?.next.take()
}

/// The rings of a process, or of the workers of a master.
fn sources(pid: u32, from_start: bool) -> io::Result<Vec<Source>> {
    let mut found = discover(pid)?;
    if found.is_empty() {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
            found.extend(discover(child)?);
        }
    }
    let mut sources = Vec::new();
    for ring in found {
        let mut reader = ring.reader().map_err(io::Error::other)?;
        if from_start {
            reader.to_start();
        }
        sources.push(Source { reader, next: None });
    }
    Ok(sources)
}

pub(super) fn follow(arguments: &RequestLogArguments, output: impl Write) -> io::Result<()> {
    let mut printer = Printer::new(arguments, output)?;
    let pid = arguments.which.pid("log").map_err(io::Error::other)?;
    let mut sources = sources(pid, arguments.from_start).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "it is not there (any more)".to_owned(),
            io::ErrorKind::PermissionDenied => format!("{error}; its user and root may read them"),
            _ => error.to_string(),
        };
        io::Error::other(format!("the records of process {pid} cannot be read: {reason}"))
    })?;
    if sources.is_empty() {
        return Err(io::Error::other(format!("process {pid} and its workers keep no records of transactions")));
    }
    if io::stdout().is_terminal() && !arguments.from_start && !arguments.no_wait {
        eprintln!("(Requests are shown as they end; -d begins with those that are still in memory.)");
    }
    let mut idle_rounds = 0;
    loop {
        let mut idle = true;
        while let Some(block) = next_block(&mut sources) {
            idle = false;
            printer.take(&block.block())?;
            if printer.is_done() {
                return printer.finish();
            }
        }
        printer.flush()?;
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
            renew(&mut sources, pid)?;
        }
    }
}

/// Forgets rings of processes that are gone and finds those of new ones. An error once the process itself is gone.
fn renew(known: &mut Vec<Source>, pid: u32) -> io::Result<()> {
    let gone = |error| io::Error::other(format!("process {pid} has ended: {error}"));
    std::fs::metadata(format!("/proc/{pid}")).map_err(gone)?;
    known.retain(|source| std::fs::metadata(format!("/proc/{}", source.reader.owner().1)).is_ok());
    let identity = |source: &Source| (source.reader.owner(), source.reader.created_us());
    // A worker may end while it is looked at; the next look tells.
    for new in sources(pid, true).unwrap_or_default() {
        if !known.iter().any(|source| identity(source) == identity(&new)) {
            known.push(new);
        }
    }
    Ok(())
}
