//! The same requests through Debian's varnishd and through `tidegate varnishd`: Debian's varnishlog reads the same of both, and
//! varnishstat counts the same, but for what [`allowed`] lists with its reason.
//!
//! `SHOW=1` prints every difference, the allowed ones too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod allowed;
mod cases;
mod normal;
#[path = "../support/mod.rs"]
mod support;

use std::{collections::BTreeMap, time::Duration};

use support::{Origin, VarnishInstance, Wire, is_installed, wait_within};

use cases::{CASES, Case, PROGRAM};

/// How long the log may take to say what has been.
const LOG_TIME: Duration = Duration::from_secs(5);

/// Plays all cases, one after the other, and gives what the log says of each.
fn play(instance: &VarnishInstance) -> Vec<String> {
    let (mut before, mut groups) = (0, Vec::new());
    for case in CASES {
        let mut wire = Wire::connect(instance.front);
        for (place, request) in case.requests.iter().enumerate() {
            wire.send(request);
            if place + 1 < case.requests.len() {
                wire.answer();
            }
        }
        if case.shuts {
            wire.shut_write();
        }
        wire.read_to_end();
        drop(wire);
        // NOTE: what a request leaves to do, such as a fetch in the background, is done before the next one begins.
        let began = std::time::Instant::now();
        while instance.sessions().len() == before && began.elapsed() < LOG_TIME {}
        let sessions = instance.sessions();
        groups.push(sessions.get(before..).unwrap_or_default().join("\n"));
        before = sessions.len();
    }
    groups
}

/// The lines that only one of two texts has, with their marks, by the longest common subsequence.
fn differences<'t>(left: &'t [String], right: &'t [String]) -> Vec<(char, &'t str)> {
    let mut lengths = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            lengths[i][j] =
                if left[i] == right[j] { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            found.push(('-', &*left[i]));
            i += 1;
        } else {
            found.push(('+', &*right[j]));
            j += 1;
        }
    }
    found
}

/// What differs in a case, and what of it is not allowed.
fn compare(case: &Case, theirs: &str, ours: &str) -> usize {
    let (theirs, ours) = (normal::lines(theirs), normal::lines(ours));
    let all = differences(&theirs, &ours);
    let wrong = all.iter().filter(|(_, line)| allowed::reason(case.name, line).is_none()).count();
    if wrong > 0 || (std::env::var_os("SHOW").is_some() && !all.is_empty()) {
        println!("== {} (- Varnish, + Tidegate)", case.name);
        for (side, line) in &all {
            let reason = allowed::reason(case.name, line).map_or_else(String::new, |why| format!("   ({why})"));
            println!("{side} {line}{reason}");
        }
    }
    if std::env::var_os("SHOW").is_some_and(|what| what == *case.name) {
        println!("{}", ours.join("\n"));
    }
    wrong
}

fn settled_counters(instance: &VarnishInstance) -> BTreeMap<String, u64> {
    let read = || -> BTreeMap<String, u64> {
        let all = instance.counters().into_iter();
        all.filter(|(name, _)| allowed::is_compared(name)).collect()
    };
    let mut before = read();
    let mut equal = 0;
    wait_within(Duration::from_secs(60), "the counters stand still", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = read();
        equal = if now == before { equal + 1 } else { 0 };
        before = now;
        equal == 5
    });
    before
}

#[test]
fn both_write_the_same() {
    if !is_installed("varnishlog") || !is_installed("varnishstat") || !is_installed("varnishd") {
        return;
    }
    let played = [true, false].map(|is_theirs| {
        std::thread::spawn(move || {
            let origin = Origin::start(cases::answer);
            let arguments = ["-p", "vsl_reclen=200", "-p", "thread_pool_min=5", "-p", "connect_timeout=2"];
            let start = if is_theirs { VarnishInstance::theirs } else { VarnishInstance::ours };
            let instance = start(PROGRAM, &arguments, &origin);
            let sessions = play(&instance);
            let background = instance.tool("varnishlog", &["-d", "-g", "raw", "-q", "vxid == 0"]);
            (sessions, background, settled_counters(&instance))
        })
    });
    let [(theirs, their_background, their_counters), (ours, our_background, our_counters)] =
        played.map(|thread| thread.join().unwrap());
    let mut wrong: usize =
        CASES.iter().zip(theirs.iter().zip(&ours)).map(|(case, (theirs, ours))| compare(case, theirs, ours)).sum();
    if std::env::var_os("SHOW").is_some() {
        println!("== of no transaction: Varnish\n{their_background}\n== Tidegate\n{our_background}");
    }
    for (name, value) in &their_counters {
        let found = our_counters.get(name);
        if found != Some(value) && allowed::counter(name).is_none() {
            println!("counter {name}: Varnish {value}, Tidegate {found:?}");
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "lines that differ");
}
