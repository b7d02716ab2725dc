//! `cgi`: programs of a folder answer requests.

use std::{path::PathBuf, time::Duration};

use super::{
    accelerator::bytes_of,
    condition_at,
    words::{is_condition, section_problem, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Cgi, Mode},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

/// How long a program may run where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Programs at a time where nothing is said.
const PROCESSES: usize = 16;
/// Requests that wait for each of them where nothing is said.
const QUEUE_FACTOR: usize = 4;
/// Programs at a time, or requests that wait, at most.
const COUNT_MAX: usize = 10_000;
/// Less memory than that starts no program.
const MEMORY_BYTES_MIN: u64 = 4 << 20;

const WORDS: [&str; 6] = ["timeout", "memory", "processes", "queue", "output", "env"];

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::new(
    Group::Proxy,
    "cgi",
    "<prefix> <folder> [timeout <time>] [memory <size>] [processes <number>] [queue <number>] [output <size>] \
     [env <name>=<value>]... [ { if | unless } <condition> ]",
    "",
)
.sections(Sections::BACKEND)
.doc(
    "Has programs of a folder answer paths that begin with a prefix, by CGI/1.1: each request starts one, without a shell. The limits are those of one program, of programs at a time, and of requests that wait for one.",
    "cgi /cgi-bin/ /usr/lib/cgi-bin timeout 10s memory 256m processes 8",
)
.line(cgi)];

fn cgi(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let prefix = args::required(line, 1, "a prefix of paths, as /cgi-bin/.")?;
    if !prefix.starts_with('/') || prefix.contains(['%', '?', '#']) {
        return Err(wrong(format!("'cgi' : '{prefix}' is no prefix of paths."), 1).expected("a path, as /cgi-bin/"));
    }
    let folder = args::required(line, 2, "a folder with programs.")?;
    if !folder.starts_with('/') {
        return Err(wrong(format!("'cgi' : '{folder}' is no absolute path."), 2).expected("a folder, from / on"));
    }
    let mut cgi = Cgi {
        prefix: line.bytes(1).to_vec(),
        folder: PathBuf::from(folder),
        timeout: TIMEOUT,
        memory_bytes_max: None,
        processes_max: PROCESSES,
        queue_max: 0,
        output_bytes_max: None,
        environment: Vec::new(),
        condition: None,
    };
    let (mut queue, mut word) = (None, 3);
    while !line.word(word).is_empty() && !is_condition(line.word(word)) {
        match line.word(word) {
            "timeout" => {
                cgi.timeout = args::time(scope, line, word + 1, Unit::Millisecond)?;
                if cgi.timeout.is_zero() {
                    return Err(wrong("'cgi' : a program needs some time.", word + 1).expected("a time, as 30s"));
                }
            }
            "memory" => cgi.memory_bytes_max = Some(size(line, word + 1, MEMORY_BYTES_MIN)?),
            "output" => cgi.output_bytes_max = Some(size(line, word + 1, 1)?),
            "processes" => cgi.processes_max = args::integer(line, word + 1, 1..=COUNT_MAX)?,
            "queue" => queue = Some(args::integer(line, word + 1, 0..=COUNT_MAX)?),
            "env" => {
                let text = args::required(line, word + 1, "a variable, as NAME=value.")?;
                let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                    return Err(wrong(format!("'cgi' : '{text}' sets no variable."), word + 1).expected("NAME=value"));
                };
                cgi.environment.push((name.to_owned(), value.to_owned()));
            }
            other => {
                return Err(wrong(format!("'cgi' : unknown argument '{other}'."), word)
                    .expected(WORDS.join(", "))
                    .nearest(other, WORDS));
            }
        }
        word += 2;
    }
    cgi.queue_max = queue.unwrap_or_else(|| (cgi.processes_max * QUEUE_FACTOR).min(COUNT_MAX));
    let places = scope.request_places();
    cgi.condition = condition_at(scope, line, word, places)?;
    scope.proxy().proxy.cgi.push(cgi);
    Ok(())
}

fn size(line: &Line, word: usize, least: u64) -> Result<u64, Problem> {
    let text = args::required(line, word, "a size, as 64m.")?;
    bytes_of(text).filter(|bytes| *bytes >= least).ok_or_else(|| {
        wrong(format!("'cgi' : '{text}' is no size."), word).expected("a number with k, m, g or t, as 64m")
    })
}

/// Programs answer requests of HTTP.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    if draft.proxy.mode == Mode::Http || draft.proxy.cgi.is_empty() {
        return;
    }
    let message = format!("proxy '{}': 'cgi' cannot be used in non-HTTP mode.", draft.proxy.name);
    if let Some(line) = draft.line.clone() {
        scope.alert(&line, section_problem(message).expected("'mode http'"));
    }
}
