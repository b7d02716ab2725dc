//! Chooses what is shown, gathers what belongs together, and prints it.

use std::io::{self, Write};

use telemetry::{
    query::{Entry, Query},
    ring::{Block, Group, Grouper, Record, Tag, TagSet},
};

use super::{Grouping, RequestLogArguments, json, line, printable, records};
use crate::style::Style;

/// How a transaction is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In one line, as HAProxy's `option httplog` does.
    Line,
    /// With all of its records.
    Long,
    /// One record a line.
    Raw,
    Json {
        long: bool,
    },
}

pub(super) struct Printer<W: Write> {
    output: io::BufWriter<W>,
    style: Style,
    form: Form,
    grouping: Grouping,
    query: Option<Query>,
    shown: TagSet,
    /// Tags that somebody has named: what has such a record is shown though it is no request.
    named: TagSet,
    grouper: Grouper,
    left: Option<u64>,
}

impl<W: Write> Printer<W> {
    pub(super) fn new(arguments: &RequestLogArguments, output: W) -> io::Result<Self> {
        let query = arguments.wanted()?;
        let listed = |lists: &[super::Tags]| -> Vec<Tag> { lists.iter().flat_map(|tags| tags.0.clone()).collect() };
        let (included, excluded) = (listed(&arguments.include), listed(&arguments.exclude));
        let set = |tags: &[Tag]| tags.iter().fold(TagSet::NONE, |set, tag| set.with(*tag));
        let shown = if included.is_empty() { TagSet::ALL } else { set(&included) };
        let in_query = query.as_ref().map(Query::tags).unwrap_or_default();
        warn_of_unwritten(&included, query.as_ref());
        Ok(Self {
            output: io::BufWriter::new(output),
            style: Style::of_output(),
            form: match (arguments.json, arguments.grouping) {
                (true, _) => Form::Json { long: arguments.is_long() },
                (false, Grouping::Raw) => Form::Raw,
                (false, _) if arguments.is_long() => Form::Long,
                (false, _) => Form::Line,
            },
            grouping: arguments.grouping,
            named: set(&[included, in_query].concat()),
            query,
            shown: excluded.iter().fold(shown, |set, tag| set.without(*tag)),
            grouper: Grouper::new(),
            left: arguments.count,
        })
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    pub(super) fn take(&mut self, block: &Block<'_>) -> io::Result<()> {
        match self.grouping {
            // A transaction that names no session stands for itself.
            Grouping::Session if block.first(Tag::Begin).is_some() || block.first(Tag::End).is_some() => {
                let groups = self.grouper.push(block);
                groups.iter().try_for_each(|group| self.print_group(group))
            }
            Grouping::Raw => self.print_records(block),
            Grouping::Request if !is_request(block) && !self.is_named(block) => Ok(()),
            Grouping::Session | Grouping::Request | Grouping::Vxid => {
                if !self.is_wanted(&[(*block, 1)]) {
                    return Ok(());
                }
                self.count();
                self.print(block)
            }
        }
    }

    /// Whether it has a record of a tag that somebody has named.
    fn is_named(&self, block: &Block<'_>) -> bool {
        block.records().any(|record| self.named.contains(record.number))
    }

    /// Whether the query is true of these transactions, each with its level.
    fn is_wanted(&self, blocks: &[(Block<'_>, u32)]) -> bool {
        let Some(query) = &self.query else { return true };
        let entries: Vec<Entry<'_>> = blocks
            .iter()
            .flat_map(|(block, level)| block.records().map(|record| entry(block.id(), *level, record)))
            .collect();
        query.matches(&entries)
    }

    /// A session is wanted when one of its transactions is.
    fn print_group(&mut self, group: &Group) -> io::Result<()> {
        if self.is_done() {
            return Ok(());
        }
        let level = |id: u64| if id == group.root { 1 } else { 2 };
        let blocks: Vec<_> = group.blocks.iter().map(|block| (block.block(), level(block.block().id()))).collect();
        if !self.is_wanted(&blocks) {
            return Ok(());
        }
        self.count();
        blocks.iter().try_for_each(|(block, _)| self.print(block))
    }

    /// Records one by one: each is a group of its own, on no level.
    fn print_records(&mut self, block: &Block<'_>) -> io::Result<()> {
        let mut any = false;
        for record in block.records().filter(|record| self.shown.contains(record.number)) {
            let wanted = self.query.as_ref().is_none_or(|query| query.matches(&[entry(block.id(), 0, record)]));
            if wanted {
                any = true;
                match self.form {
                    Form::Json { .. } => json::record(&mut self.output, block, &record)?,
                    _ => records::raw(&mut self.output, block, &record)?,
                }
            }
        }
        if any {
            self.count();
        }
        Ok(())
    }

    fn count(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    fn print(&mut self, block: &Block<'_>) -> io::Result<()> {
        let output = &mut self.output;
        let shown = |record: &Record<'_>| self.shown.contains(record.number);
        match self.form {
            Form::Line => writeln!(output, "{}", line::line(block, self.style)),
            Form::Json { long: false } => json::summary(output, block),
            Form::Json { long: true } => json::long(output, block, shown),
            Form::Long | Form::Raw => records::long(output, block, shown),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        for group in self.grouper.drain() {
            self.print_group(&group)?;
        }
        self.output.flush()
    }
}

fn entry(id: u64, level: u32, record: Record<'_>) -> Entry<'_> {
    Entry { level, transaction: id, tag: record.number, text: record.text }
}

/// Tells of tags that are looked for and never found.
fn warn_of_unwritten(included: &[Tag], query: Option<&Query>) {
    let in_query = query.map(Query::never_found).unwrap_or_default();
    let included = included.iter().copied().filter(|_| !included.iter().any(|tag| tag.is_written()));
    let mut names: Vec<&str> = included.chain(in_query).map(Tag::name).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        eprintln!(
            "tidegate log: this version writes no records of {}, so none are found; `tidegate log --tags` tells which it writes",
            printable(names.join(", ").as_bytes())
        );
    }
}

/// Whether a block is about a request, and not about a session or a check.
pub(super) fn is_request(block: &Block<'_>) -> bool {
    match block.first(Tag::Begin) {
        Some(begin) => begin.starts_with(b"req "),
        None => block.first(Tag::SessClose).is_none(),
    }
}
