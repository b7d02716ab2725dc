//! `tidegate log`: requests of a running edge as they end, in the manner of varnishlog.
//!
//! The records are read out of the workers' memory; the edge is neither asked nor slowed down, and writes them whether
//! anybody looks or not.

mod follow;
mod json;
mod line;
mod printer;
mod records;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use telemetry::{
    query::{Query, tags_named},
    ring::Tag,
};

use crate::masters::Which;

/// What is shown together, and asked together by a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// One request at a time. Sessions and checks of servers appear only when `-i` or `-q` names a record of theirs.
    Request,
    /// All transactions of a session.
    Session,
    /// Each transaction by itself: requests, sessions and checks of servers.
    Vxid,
    /// One record per line, with its transaction's number: for other programs.
    Raw,
}

/// Options of `tidegate log`.
#[derive(Args, Debug)]
pub struct RequestLogArguments {
    #[command(flatten)]
    which: Which,
    /// Which transactions to show together. All groupings except `request` and `raw` show all records, as with --long.
    #[arg(short, value_enum, default_value_t = Grouping::Request)]
    grouping: Grouping,
    /// Show only transactions that match this query, in Varnish's query language: `RespStatus >= 500`, `ReqURL ~ "^/basket"`,
    /// `Timestamp:Resp[2] > 0.5 and not Backend ~ static`. With several queries, one has to match.
    #[arg(short, value_name = "QUERY", value_parser = query)]
    query: Vec<Query>,
    /// A file with such queries, one per line.
    #[arg(short = 'Q', value_name = "FILE")]
    query_file: Vec<PathBuf>,
    /// Show only records with one of these tags: `ReqURL`, `Req*`, `ReqURL,RespStatus`.
    #[arg(short, value_name = "TAGS", value_parser = tags)]
    include: Vec<Tags>,
    /// Show no records with one of these tags.
    #[arg(short = 'x', value_name = "TAGS", value_parser = tags)]
    exclude: Vec<Tags>,
    /// Begin with the oldest requests that are still in memory.
    #[arg(short = 'd')]
    from_start: bool,
    /// End after this many requests.
    #[arg(short = 'n', value_name = "COUNT")]
    count: Option<u64>,
    /// Show the requests in memory, and end.
    #[arg(long)]
    no_wait: bool,
    /// Show all records of each request, instead of one line.
    #[arg(long)]
    long: bool,
    /// Print a JSON object per line, for other programs; with --long, the records as they are.
    #[arg(long)]
    json: bool,
    /// Name every tag and its meaning.
    #[arg(long)]
    tags: bool,
}

/// The tags of one option.
#[derive(Clone, Debug)]
struct Tags(Vec<Tag>);

fn tags(text: &str) -> Result<Tags, String> {
    let lists: Result<Vec<Vec<Tag>>, String> = text.split(',').map(|word| tags_named(word.trim())).collect();
    lists.map(|lists| Tags(lists.concat()))
}

fn query(text: &str) -> Result<Query, String> {
    Query::parse(text).map_err(|error| error.show(text))
}

impl RequestLogArguments {
    /// All queries, of which one has to be true; an error names the file.
    fn wanted(&self) -> io::Result<Option<Query>> {
        let mut queries = self.query.clone();
        for path in &self.query_file {
            let named = |text: String| io::Error::other(format!("{}: {text}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
            queries.push(query(&text).map_err(named)?);
        }
        Ok(Query::any(queries))
    }

    /// Whether records are shown, and not what they say in short.
    fn is_long(&self) -> bool {
        let chooses = !self.include.is_empty() || !self.exclude.is_empty();
        self.long || chooses || matches!(self.grouping, Grouping::Session | Grouping::Vxid)
    }
}

/// Shows the log.
pub fn run(arguments: &RequestLogArguments) -> ExitCode {
    let stdout = io::stdout().lock();
    let result = if arguments.tags { print_tags(stdout) } else { follow::follow(arguments, stdout) };
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

fn print_tags(mut output: impl Write) -> io::Result<()> {
    for tag in Tag::ALL {
        let note = if tag.is_written() { "" } else { " (not written by this version)" };
        writeln!(output, "{:<14} {}{note}", tag.name(), tag.doc())?;
    }
    Ok(())
}

/// The text with everything escaped that a terminal might act on.
fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|letter| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() })
        .collect()
}

#[cfg(test)]
mod tests;
