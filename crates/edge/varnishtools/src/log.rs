//! `varnishlog`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use vsm::reader::Record;

use crate::{
    VERSION, fail,
    group::{Group, Kind},
    options::{self, Specification},
    output::Output,
    source::FILE_MARKER,
    watch::{self, Sink, Watch},
};

const TOOL: &str = "varnishlog";

const OWN_OPTIONS: &[Specification] = &[
    ('A', "", "Write text to the file of -w"),
    ('i', "tags", "Show only records with one of these tags: ReqURL,Resp*"),
    ('I', "[tags:]regex", "Show only records that match"),
    ('u', "", "Write each group at once"),
    ('v', "", "Show all records, with their number and side"),
    ('x', "tags", "Show no records with one of these tags"),
    ('X', "[tags:]regex", "Show no records that match"),
];

/// Shows the log of an instance.
#[must_use]
pub fn varnishlog(words: &[String]) -> ExitCode {
    run(words).unwrap_or_else(|message| fail(TOOL, &message))
}

fn run(words: &[String]) -> Result<ExitCode, String> {
    let known: Vec<Specification> = watch::OPTIONS.iter().chain(OWN_OPTIONS).copied().collect();
    let parsed = options::parse(words, &known)?;
    let mut watch = Watch::default();
    let (mut is_text, mut is_unbuffered, mut is_verbose) = (false, false, false);
    for (option, value) in &parsed.options {
        match option {
            'h' => {
                print!("{}", options::usage(TOOL, "", &known));
                return Ok(ExitCode::SUCCESS);
            }
            'V' => {
                println!("{TOOL} ({VERSION})");
                return Ok(ExitCode::SUCCESS);
            }
            'A' => is_text = true,
            'u' => is_unbuffered = true,
            'v' => is_verbose = true,
            _ => _ = watch.take(*option, value)?,
        }
    }
    if let Some(word) = parsed.rest.first() {
        return Err(format!("'{word}' cannot stand here (-h names the options)"));
    }
    if watch.go_to_background(TOOL, words)? {
        return Ok(ExitCode::SUCCESS);
    }
    let is_text = is_text || watch.output_file.is_none();
    let output = watch.open_output(if is_text { &[] } else { &FILE_MARKER })?;
    let mut printer = Printer { watch: &watch, output, is_text, is_unbuffered, is_verbose };
    watch.run(&mut printer)
}

struct Printer<'a> {
    watch: &'a Watch,
    output: Output,
    is_text: bool,
    is_unbuffered: bool,
    is_verbose: bool,
}

impl Sink for Printer<'_> {
    fn group(&mut self, group: &Group) -> io::Result<()> {
        let bytes = if self.is_text { self.text(group) } else { self.binary(group) };
        watch::write(&mut self.output, &bytes, self.is_unbuffered)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.output.reopen()
    }
}

impl Printer<'_> {
    fn binary(&self, group: &Group) -> Vec<u8> {
        let records = group.iter().flat_map(|transaction| &transaction.records);
        records.filter(|record| self.watch.filter.shows(record)).flat_map(Record::to_bytes).collect()
    }

    fn text(&self, group: &Group) -> Vec<u8> {
        let mut text = Vec::new();
        let mut has_heading = false;
        for transaction in group.iter().filter(|transaction| self.watch.wants(transaction)) {
            let level = transaction.level;
            let is_verbose = self.is_verbose || transaction.kind == Kind::Raw;
            if level > 0 {
                let (number, side) = if is_verbose { (11, 2) } else { (0, 0) };
                let heading = transaction.kind.heading();
                let line =
                    format!("{}{:number$}{heading} {:side$}{:<10}\n", marks(level, '*'), "", "", transaction.vxid);
                text.extend(line.bytes());
                has_heading = true;
            }
            for record in transaction.records.iter().filter(|record| self.watch.filter.shows(record)) {
                if level > 0 {
                    text.extend(marks(level, '-').bytes());
                }
                print(record, is_verbose, &mut text);
            }
        }
        if has_heading {
            text.push(b'\n');
        }
        text
    }
}

/// What stands before the lines of a transaction: `*   `, `--  `, `-4- `.
fn marks(level: u32, mark: char) -> String {
    match level {
        0..=3 => format!("{:<3} ", mark.to_string().repeat(level as usize)),
        _ => format!("{mark}{level:1}{mark} "),
    }
}

fn print(record: &Record, is_verbose: bool, text: &mut Vec<u8>) {
    let tag = record.known_tag();
    let name = tag.map_or_else(|| format!("Tag{}", record.tag), |tag| tag.name().to_owned());
    let side = match (record.is_client, record.is_backend) {
        (true, _) => 'c',
        (_, true) => 'b',
        _ => '-',
    };
    let line = if is_verbose { format!("{:>10} {name:<14} {side} ", record.vxid) } else { format!("{name:<14} ") };
    text.extend(line.bytes());
    if tag.is_some_and(|tag| tag.is_unsafe()) {
        text.push(b'"');
        for byte in &record.text {
            match byte {
                b' '..=b'~' => text.push(*byte),
                _ => text.extend(format!("%{byte:02x}").bytes()),
            }
        }
        // With the zero byte behind the text, as Varnish's own shows it.
        text.extend(b"%00\"");
    } else if tag.is_some_and(|tag| tag.is_binary()) {
        let digits = basics::hex::lower(&record.text);
        text.extend(format!("[{digits}]").bytes());
    } else {
        text.extend(record.text.split(|byte| *byte == 0).next().unwrap_or_default());
    }
    text.push(b'\n');
}
