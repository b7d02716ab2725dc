//! The tables against what the real HAProxy says of itself (`-dK`), and against our own rules for entries.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use sample::{PLACES, State, Type, acl_keywords, converters, fetches};

/// What HAProxy prints of its keywords, or nothing where it is not installed.
fn dump(class: &str) -> Option<String> {
    let output =
        Command::new("/usr/sbin/haproxy").args([&format!("-dK{class}"), "-q", "-c", "-f", "/dev/null"]).output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            println!("haproxy is not installed: nothing to compare with");
            None
        }
    }
}

#[test]
fn fetches_are_those_of_haproxy() {
    let Some(dump) = dump("smp") else { return };
    let ours: BTreeMap<&str, _> = fetches()
        .flat_map(|fetch| {
            std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()).map(move |name| (name, fetch))
        })
        .collect();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for line in dump.lines().filter(|line| line.starts_with('[')) {
        let (places, rest) = line[1..].split_once(']').unwrap();
        let (signature, output) = rest.trim().rsplit_once(": ").unwrap();
        let name = signature.split('(').next().unwrap();
        seen += 1;
        let Some(fetch) = ours.get(name) else {
            wrong.push(format!("{name}: not in the table"));
            continue;
        };
        // HAProxy declares these as integers and gives addresses.
        let output = if matches!(name, "bc_src" | "bc_dst") { "ipv4" } else { output };
        if fetch.output.name() != output {
            wrong.push(format!("{name}: output {} instead of {output}", fetch.output));
        }
        let places: Vec<bool> = places.split_whitespace().map(|mark| mark == "Y").collect();
        for (place, expected) in PLACES.into_iter().zip(places) {
            // HAProxy gives these two more places than the response that they read has.
            if fetch.places().contains(place) != expected && !name.starts_with("res.cache_") {
                wrong.push(format!("{name}: at {} it should be {expected}", place.name()));
            }
        }
        let parameters = signature.split_once('(').map_or("", |(_, parameters)| parameters);
        let count = if parameters.is_empty() { 0 } else { parameters.matches(',').count() + 1 };
        if fetch.arguments.len() != count {
            wrong.push(format!("{name}: {} arguments instead of {count}", fetch.arguments.len()));
        }
        let expected = format!("{}{}", name, fetch.signature().strip_prefix(fetch.name).unwrap());
        if expected != signature {
            wrong.push(format!("{name}: signature {expected} instead of {signature}"));
        }
    }
    assert!(seen > 400, "only {seen} fetches in the dump");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn converters_are_those_of_haproxy() {
    let Some(dump) = dump("cnv") else { return };
    let ours: BTreeMap<&str, _> = converters()
        .flat_map(|found| {
            std::iter::once(found.name).chain(found.aliases.iter().copied()).map(move |name| (name, found))
        })
        .collect();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for line in dump.lines().filter(|line| !line.starts_with('#') && line.contains(" => ")) {
        let (signature, types) = line.split_once(": ").unwrap();
        // The dump names the output first.
        let (output, input) = types.split_once(" => ").unwrap();
        let name = signature.split('(').next().unwrap();
        seen += 1;
        let Some(converter) = ours.get(name) else {
            wrong.push(format!("{name}: not in the table"));
            continue;
        };
        if converter.output.name() != output || converter.input.name() != input {
            wrong.push(format!("{name}: {} => {} instead of {input} => {output}", converter.input, converter.output));
        }
        let expected = format!("{}{}", name, converter.signature().strip_prefix(converter.name).unwrap());
        if expected != signature {
            wrong.push(format!("{name}: signature {expected} instead of {signature}"));
        }
    }
    assert!(seen > 120, "only {seen} converters in the dump");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn acl_keywords_are_those_of_haproxy() {
    let Some(dump) = dump("acl") else { return };
    let ours: BTreeMap<&str, _> = acl_keywords().map(|keyword| (keyword.name, keyword)).collect();
    let mut seen = 0;
    for line in dump.lines().filter(|line| line.contains(" -m ")) {
        let (name, rest) = line.split_once(" = ").unwrap();
        let (fetch, method) = rest.split_once(" -m ").unwrap();
        let keyword = ours.get(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        seen += 1;
        assert_eq!(keyword.fetch, fetch, "{name}");
        // These have methods of their own, which -m cannot name.
        if !matches!(name, "method" | "http_auth_group" | "req.ssl_ver" | "req_ssl_ver") {
            assert_eq!(keyword.method.name(), method, "{name}");
        }
    }
    assert!(seen > 70, "only {seen} ACL keywords in the dump");
}

#[test]
fn entries_are_complete_and_unique() {
    let mut names = BTreeSet::new();
    let mut supported = 0;
    for fetch in fetches() {
        for name in std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()) {
            assert!(names.insert(name.to_owned()), "{name} is declared twice");
        }
        assert!(fetch.required <= fetch.arguments.len(), "{}", fetch.name);
        assert!(!fetch.places().is_empty(), "{} can be used nowhere", fetch.name);
        assert!(fetch.doc.ends_with('.'), "{} has no doc", fetch.name);
        assert_ne!(fetch.output, Type::Addr, "{}", fetch.name);
        if fetch.state == State::Supported {
            supported += 1;
            assert!(!fetch.example.is_empty(), "{} has no example", fetch.name);
        }
    }
    assert!(supported > 150, "only {supported} fetches work");
    names.clear();
    supported = 0;
    for converter in converters() {
        for name in std::iter::once(converter.name).chain(converter.aliases.iter().copied()) {
            assert!(names.insert(name.to_owned()), "{name} is declared twice");
        }
        assert!(converter.required <= converter.arguments.len(), "{}", converter.name);
        assert!(converter.doc.ends_with('.'), "{} has no doc", converter.name);
        if converter.state == State::Supported {
            supported += 1;
            assert!(!converter.example.is_empty(), "{} has no example", converter.name);
        }
    }
    assert!(supported > 85, "only {supported} converters work");
}
