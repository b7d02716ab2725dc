//! The same lines given to HAProxy, if it is installed.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Case, Directory, cases, prelude, read};
use crate::diagnostics::Severity;

const HAPROXY: &str = "/usr/sbin/haproxy";
const THREADS: usize = 4;

/// Whether `haproxy -c` accepts a configuration, and what it says.
fn check(text: &str) -> (bool, String) {
    let mut child = Command::new(HAPROXY)
        .args(["-c", "-f", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It stops reading at some errors.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let accepted = matches!(output.status.code(), Some(0 | 2));
    (accepted, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The lines at which `haproxy` found errors.
fn error_lines(said: &str) -> Vec<usize> {
    let alerts = said.lines().filter(|line| line.contains("[ALERT]"));
    alerts
        .filter_map(|line| {
            let rest = line.split("/dev/stdin:").nth(1)?;
            rest.split(']').next()?.parse().ok()
        })
        .collect()
}

/// Sections in one file: its text, and which lines (from 1) belong to which case.
struct Batch<'c> {
    text: String,
    lines: usize,
    owners: Vec<(usize, &'c Case)>,
}

impl<'c> Batch<'c> {
    fn new(directory: &Directory, cases: impl IntoIterator<Item = &'c Case>) -> Self {
        let text = prelude(directory);
        let mut batch = Self { lines: text.lines().count(), text, owners: Vec::new() };
        for case in cases {
            let section = case.section(directory, case.number);
            batch.lines += section.lines().count();
            batch.text.push_str(&section);
            batch.owners.push((batch.lines, case));
        }
        batch
    }

    fn owner(&self, line: usize) -> Option<&'c Case> {
        self.owners.iter().find(|(last, _)| line <= *last).map(|(_, case)| *case)
    }
}

/// Those that HAProxy should accept, in one file: what `defaults` sections say must not reach others, so they come last.
fn wrongly_refused(directory: &Directory, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    let (whole, mut parts): (Vec<&Case>, Vec<&Case>) =
        cases.iter().filter(|case| case.accepted_by_haproxy()).partition(|case| case.context == "file");
    parts.sort_by_key(|case| case.context.contains("defaults"));
    let batch = Batch::new(directory, parts.iter().copied());
    let (accepted, said) = check(&batch.text);
    if !accepted {
        let mut known = error_lines(&said).into_iter().filter_map(|line| batch.owner(line)).peekable();
        if known.peek().is_none() {
            wrong.push(format!("haproxy refuses the accepted lines together:\n{said}"));
        }
        wrong.extend(known.map(|case| format!("refused by haproxy: {}", describe(case))));
    }
    for case in whole {
        if !check(&case.configuration(directory)).0 {
            wrong.push(format!("refused by haproxy: {}", describe(case)));
        }
    }
    wrong
}

fn describe(case: &Case) -> String {
    format!("lines.txt:{} [{}] {} {}", case.number, case.context, case.sign, case.text)
}

/// Those that HAProxy should refuse. Most errors do not keep it from reading on, so one run finds many; those that are
/// left are given to it one by one.
fn wrongly_accepted(directory: &Directory, cases: &[Case]) -> Vec<String> {
    let mut left: Vec<&Case> = cases.iter().filter(|case| !case.accepted_by_haproxy()).collect();
    // Errors in these end the reading.
    let stops = |case: &Case| case.text.starts_with("http-") && !case.text.starts_with("http-check");
    loop {
        let reads_on = left
            .iter()
            .copied()
            .filter(|case| !stops(case) && matches!(case.context, "frontend" | "tcp frontend" | "backend" | "listen"));
        let batch = Batch::new(directory, reads_on);
        let (_, said) = check(&batch.text);
        let found: Vec<usize> =
            error_lines(&said).into_iter().filter_map(|line| batch.owner(line)).map(|case| case.number).collect();
        let before = left.len();
        left.retain(|case| !found.contains(&case.number));
        if left.len() == before {
            break;
        }
    }
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if check(&case.configuration(directory)).0 {
                        wrong.lock().unwrap().push(format!("accepted by haproxy: {}", describe(case)));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

/// What only this parser warns of: where HAProxy is silent, and the line is of no use or has no effect here.
const OWN_WARNINGS: [&str; 8] = [
    "crypt(3) does not know its form",
    "' and what follows is ignored",
    "' has no effect: ",
    "so this rule changes nothing",
    "'dynamic' needs a secret",
    "sends no request in its checks",
    // HAProxy does not look at rules that are inherited.
    "'http-request' rules ignored",
    "is not a header name, and is sent as it stands",
];

/// A warning as both say it, without its place and without stops and spaces.
fn bare(warning: &str) -> String {
    let warning = warning.strip_prefix("config : ").unwrap_or(warning).replacen("config: ", "", 1);
    let text = match warning.split_once("] : ").or_else(|| warning.split_once("]: ")) {
        Some((place, rest)) if place.to_lowercase().starts_with("parsing [") => rest,
        _ => &warning,
    };
    let text = text.split(" (at test.cfg:").next().unwrap_or_default();
    text.chars().filter(|character| character.is_alphanumeric() || "'<>/-_".contains(*character)).collect()
}

/// Warnings about the lines that both accept, all in one file.
fn different_warnings(directory: &Directory, cases: &[Case]) -> Vec<String> {
    let mut parts: Vec<&Case> = cases.iter().filter(|case| case.sign == '=' && case.context != "file").collect();
    parts.sort_by_key(|case| case.context.contains("defaults"));
    let text = Batch::new(directory, parts).text;
    let (_, said) = check(&text);
    let said = said.replace("/dev/stdin", "test.cfg");
    let theirs = said.lines().filter_map(|line| Some(line.strip_prefix("[WARNING]")?.split_once(" : ")?.1));
    let mut theirs: Vec<String> = theirs.map(bare).collect();
    let parsed = read(&text);
    let warnings = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning);
    let ours: Vec<String> = warnings.map(|warning| warning.one_line()).collect();
    assert!(ours.len() > 40 && theirs.len() > 40, "{} {}", ours.len(), theirs.len());
    let mut wrong = Vec::new();
    for warning in &ours {
        let first = warning.lines().next().unwrap_or_default();
        match theirs.iter().position(|known| *known == bare(first)) {
            Some(at) => {
                theirs.swap_remove(at);
            }
            None if OWN_WARNINGS.iter().any(|own| warning.contains(own)) => {}
            None => wrong.push(format!("only here: {first}")),
        }
    }
    wrong.extend(theirs.into_iter().map(|warning| format!("only from haproxy: {warning}")));
    wrong
}

#[test]
fn haproxy_agrees() {
    if !Path::new(HAPROXY).exists() {
        println!("skipped: {HAPROXY} is not installed");
        return;
    }
    let directory = Directory::new("differential");
    let cases = cases();
    let mut wrong = wrongly_refused(&directory, &cases);
    wrong.extend(wrongly_accepted(&directory, &cases));
    wrong.extend(different_warnings(&directory, &cases));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
