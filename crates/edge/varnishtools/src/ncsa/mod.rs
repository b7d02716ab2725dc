//! `varnishncsa`: a line for each request, in the formats of web servers' logs.

mod format;
mod request;
mod time;

use std::{
    fs,
    io::{self, Write},
    process::ExitCode,
};

use crate::{
    VERSION, fail,
    group::{Group, Grouping},
    options::{self, Specification},
    output::Output,
    watch::{self, Sink, Watch},
};
use format::Format;
use request::Request;

const TOOL: &str = "varnishncsa";
const DEFAULT_FORMAT: &str = r#"%h %l %u %t "%r" %s %b "%{Referer}i" "%{User-agent}i""#;

const OWN_OPTIONS: &[Specification] = &[
    ('F', "format", "The format of lines: Apache's, with %{...}x for Varnish's extensions"),
    ('f', "file", "Read the format from the first line of a file"),
    ('j', "", "Escape for JSON"),
];

/// Shows requests of an instance as lines.
#[must_use]
pub fn varnishncsa(words: &[String]) -> ExitCode {
    run(words).unwrap_or_else(|message| fail(TOOL, &message))
}

fn run(words: &[String]) -> Result<ExitCode, String> {
    let known: Vec<Specification> = watch::OPTIONS.iter().chain(OWN_OPTIONS).copied().collect();
    let parsed = options::parse(words, &known)?;
    let mut watch = Watch::default();
    let (mut is_json, mut format) = (false, None);
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
            'F' | 'f' if format.is_some() => return Err("one -F or -f is enough".to_owned()),
            'F' => format = Some(value.clone()),
            'f' => {
                let text = fs::read_to_string(value).map_err(|error| format!("cannot read {value}: {error}"))?;
                let line = text.lines().next().filter(|line| !line.is_empty());
                format = Some(line.ok_or_else(|| format!("{value} has no format in its first line"))?.to_owned());
            }
            'j' => is_json = true,
            _ => _ = watch.take(*option, value)?,
        }
    }
    if let Some(word) = parsed.rest.first() {
        return Err(format!("'{word}' cannot stand here (-h names the options)"));
    }
    if !watch.wants_fetches && !watch.wants_requests {
        watch.wants_requests = true;
    }
    if matches!(watch.grouping, Some(Grouping::Session | Grouping::Raw)) {
        return Err("-g is vxid or request here".to_owned());
    }
    let format = Format::parse(format.as_deref().unwrap_or(DEFAULT_FORMAT), is_json)?;
    if watch.go_to_background(TOOL, words)? {
        return Ok(ExitCode::SUCCESS);
    }
    let output = watch.open_output(&[])?;
    watch.run(&mut Printer { watch: &watch, output, format })
}

struct Printer<'a> {
    watch: &'a Watch,
    output: Output,
    format: Format,
}

impl Sink for Printer<'_> {
    fn group(&mut self, group: &Group) -> io::Result<()> {
        for transaction in group.iter().filter(|transaction| self.watch.wants(transaction)) {
            let Some(request) = Request::of(transaction) else { continue };
            if let Some(line) = self.format.line(&request) {
                self.output.write_all(&line)?;
                self.output.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.output.reopen()
    }
}
