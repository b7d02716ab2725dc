//! Flags of the command line, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{collections::BTreeSet, path::Path, process::Command};

use support::{Edge, Folder, free_address};

const HAPROXY: &str = "/usr/sbin/haproxy";

/// What a program says of a configuration: its exit code, standard output and standard error.
fn run(program: &str, words: &[&str], config: &str) -> (i32, String, String) {
    let folder = Folder::new();
    let path = folder.file("haproxy.cfg", config);
    let name = path.display().to_string();
    let output = Command::new(program).args(words).arg("-f").arg(&path).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&name, "FILE");
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn ours(words: &[&str], config: &str) -> (i32, String, String) {
    run(env!("CARGO_BIN_EXE_tidegate"), &[&["haproxy"], words].concat(), config)
}

fn theirs(words: &[&str], config: &str) -> Option<(i32, String, String)> {
    Path::new(HAPROXY).exists().then(|| run(HAPROXY, words, config))
}

/// What is said under one of these headings, without the number of the process.
fn said<'a>(text: &'a str, headings: &[&str]) -> Vec<&'a str> {
    let is_wanted = |line: &&str| headings.iter().any(|heading| line.starts_with(heading));
    text.lines().filter(is_wanted).filter_map(|line| Some(line.split_once(" : ")?.1.trim_end())).collect()
}

const DEFAULTS: &str = "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n";

#[test]
fn unresolved_servers_are_tolerated() {
    let config = format!("{DEFAULTS}listen l\n bind 127.0.0.1:1\n server s1 no.such.host.invalid:80\n");
    let strict = ours(&["-c"], &config);
    assert_eq!(strict.0, 1);
    let tolerant = ours(&["-c", "-dr"], &config);
    assert_eq!((tolerant.0, tolerant.1.as_str()), (0, "Warnings were found.\nConfiguration file is valid\n"));
    let warnings = said(&tolerant.2, &["[WARNING]"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("could not resolve address 'no.such.host.invalid', disabling server."));
    if let Some(other) = theirs(&["-c", "-dr"], &config) {
        assert_eq!((other.0, &other.1, said(&other.2, &["[WARNING]"])), (tolerant.0, &tolerant.1, warnings));
    }
    let config = config.replace("127.0.0.1:1\n", &format!("{}\n", free_address()));
    let config = format!("global\n stats socket %FOLDER%/stats\n{config}");
    let edge = Edge::start_as(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-W", "-dr"], &config);
    let state = edge.command("show stat");
    assert!(state.lines().any(|line| line.starts_with("l,s1,") && line.contains(",MAINT (resolution),")), "{state}");
}

#[test]
fn diagnostics_are_said_when_asked_for() {
    let config = format!(
        "{DEFAULTS}.diag \"old\"\nlisten l\n bind 127.0.0.1:1\n server a 127.0.0.1:2 cookie x\n server b 127.0.0.1:3 cookie x\n \
         server c 127.0.0.1:3 cookie x backup\nglobal\n zero-warning\n"
    );
    let found = ours(&["-c", "-dD"], &config);
    assert_eq!(found.0, 0, "{}", found.2);
    let place = |text: &str| text.replace("]: ", "] : ");
    let diagnostics: Vec<String> = said(&found.2, &["[DIAG]"]).into_iter().map(place).collect();
    assert_eq!(diagnostics.len(), 3, "{diagnostics:?}");
    assert!(diagnostics[2].contains("'server b' : same cookie value"), "{diagnostics:?}");
    assert_eq!(said(&ours(&["-c"], &config).2, &["[DIAG]"]), [""; 0]);
    // HAProxy 2.6 looks at cookies only when it starts.
    if let Some(other) = theirs(&["-c", "-dD"], &config) {
        let other: Vec<String> = said(&other.2, &["[DIAG]"]).into_iter().map(place).collect();
        assert_eq!(diagnostics[..2], other[..]);
    }
}

#[test]
fn keywords_and_files_are_listed() {
    let config = format!("{DEFAULTS}frontend f\n bind 127.0.0.1:1\n");
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    for class in ["help", "acl", "cnv", "smp", "cli"] {
        let flag = format!("-dK{class}");
        let found = ours(&["-c", "-q", &flag], &config);
        assert_eq!((found.0, found.2.as_str()), (0, ""));
        let Some(other) = theirs(&["-c", "-q", &flag], &config) else { continue };
        let (found, other) = (lines(&found.1), lines(&other.1));
        if matches!(class, "help" | "acl") {
            assert_eq!(found, other, "{class}");
        } else {
            let same = found.intersection(&other).count();
            assert!(same * 10 > other.len() * 6, "{class}: {same} of {}", other.len());
        }
    }
    let listed = ours(&["-c", "-dL"], &config).1;
    assert!(listed.starts_with("List of loaded object files:\n/"), "{listed}");
    assert!(listed.contains("/libc.so.6\n") && listed.ends_with("\nConfiguration file is valid\n"), "{listed}");
}

#[test]
fn memory_is_bounded_and_connections_with_it() {
    let config =
        |front| format!("global\n nbthread 1\n stats socket %FOLDER%/stats\n{DEFAULTS}frontend f\n bind {front}\n");
    let info = |edge: &Edge| -> Vec<String> {
        let wanted = ["Memmax_MB:", "Maxconn:", "Memmax_bytes:"];
        let info = edge.command("show info");
        info.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
    };
    let program = env!("CARGO_BIN_EXE_tidegate");
    let edge = Edge::start_as(program, &["haproxy", "-W", "-m", "100"], &config(free_address()));
    assert_eq!(info(&edge), ["Memmax_MB: 100", "Maxconn: 2800", "Memmax_bytes: 104857600"]);
    if Path::new(HAPROXY).exists() {
        assert_eq!(info(&edge), info(&Edge::start_as(HAPROXY, &["-db", "-m", "100"], &config(free_address()))));
    }
    let worker = edge.workers().pop().unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert_eq!(limit.split_whitespace().nth(3), Some("104857600"), "{limit}");
}

#[test]
fn flags_without_effect_say_so_once() {
    let config = format!("{DEFAULTS}frontend f\n bind {}\n", free_address());
    let edge = Edge::start_as(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-W", "-de", "-dM0"], &config);
    edge.wait_output("'-dM0' has no effect: ");
    let output = edge.output();
    let warnings = said(&output, &["[WARNING]"]);
    assert_eq!(warnings[0], "'-de' has no effect: epoll is the only poller here.");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn a_folder_that_is_relative_is_entered_once() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("inner")).unwrap();
    let front = free_address();
    std::fs::write(folder.0.join("inner/haproxy.cfg"), format!("{DEFAULTS}frontend f\n bind {front}\n")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["haproxy", "-W", "-C", "inner", "-f", "haproxy.cfg"])
        .current_dir(&folder.0)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    support::wait_until("it listens", || support::listens(front));
    support::signal_process(child.id(), rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn names_are_looked_up_where_haproxy_does() {
    let config = |name: &str| {
        format!(
            "{DEFAULTS}resolvers r\n nameserver n {name}:53\nfrontend f\n bind {name}:7\nbackend b\n source {name}\n option httpchk\n \
             http-check connect addr {name} port 80\n server s 127.0.0.1:1 check agent-check agent-port 5 agent-addr {name}\n \
             server t 127.0.0.1:1 check addr {name}\nbackend c\n dispatch {name}:80\n"
        )
    };
    let alerts = |text: &str| -> Vec<String> {
        let lines = said(text, &["[ALERT]"]).into_iter().map(|line| line.trim_end_matches('.').to_owned());
        lines.filter(|line| line.contains("no.such.host")).collect()
    };
    assert_eq!(ours(&["-c"], &config("localhost")).0, 0);
    let found = ours(&["-c"], &config("no.such.host.invalid"));
    assert_eq!((found.0, alerts(&found.2).len()), (1, 7), "{}", found.2);
    if let Some(other) = theirs(&["-c"], &config("localhost")) {
        assert_eq!(other.0, 0, "{}", other.2);
    }
    if let Some(other) = theirs(&["-c"], &config("no.such.host.invalid")) {
        assert_eq!(alerts(&other.2), alerts(&found.2));
    }
}

/// Exit codes and standard output to the letter; of errors, that there are some and that they name the line.
#[test]
fn checks_end_as_haproxys() {
    let good = format!("{DEFAULTS}frontend f\n bind 127.0.0.1:1\n");
    let wrong = format!("{DEFAULTS}frontend f\n bnid 127.0.0.1:1\n");
    let unknown_user = format!("global\n user no-such-user\n{good}");
    let unknown_group = format!("{good}\nglobal\n stats socket /tmp/x group no-such-group\n");
    for (words, config, code, place) in [
        (&["-c"][..], &good, 0, ""),
        (&["-c", "-q"], &wrong, 1, ""),
        (&["-c"], &wrong, 1, "[FILE:7]"),
        (&["-c"], &unknown_user, 1, "[FILE:2]"),
        (&["-c"], &unknown_group, 1, "[FILE:10]"),
        (&["-c", "-S", "/tmp/no/such/socket"], &good, 0, "master CLI socket was defined"),
    ] {
        let found = ours(words, config);
        assert_eq!(found.0, code, "{words:?} {}", found.2);
        assert_eq!(found.2.is_empty(), place.is_empty(), "{words:?} {}", found.2);
        assert!(found.2.contains(place), "{words:?} {}", found.2);
        if let Some(other) = theirs(words, config) {
            assert_eq!((other.0, &other.1), (found.0, &found.1), "{words:?} {}", other.2);
            assert!(other.2.contains(place), "{words:?} {}", other.2);
        }
    }
}

/// Nothing is listened on that the machine does not have; the line that asks for it is told.
#[test]
fn what_cannot_be_bound_is_told_with_its_line() {
    let config = format!("{DEFAULTS}frontend f\n bind {}\n bind 192.0.2.1:80\n", free_address());
    let told =
        "Binding [FILE:8] for frontend f: cannot bind socket (Cannot assign requested address) for [192.0.2.1:80]";
    let found = ours(&["-W"], &config);
    assert_eq!((found.0, said(&found.2, &["[ALERT]"])), (1, vec![told]), "{}", found.2);
    if let Some(other) = theirs(&["-W"], &config) {
        assert_eq!((other.0, said(&other.2, &["[ALERT]"])[0]), (1, told), "{}", other.2);
    }
}
