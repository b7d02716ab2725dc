//! The calendar clock jumps, and nothing but dates in logs moves. The clock is libfaketime's: skipped without it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{path::PathBuf, thread, time::Duration};

use support::{Edge, Folder, LogServer, Origin, Wire, free_address, ok, wait_until};

/// The library that stands between a program and the clock.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: libfaketime is not installed (Debian: apt-get install faketime)");
    }
    found
}

/// The numbers in the five timers of a line of `option httplog`, and the day of its date.
fn timers_and_day(line: &str) -> (Vec<i64>, String) {
    let timers = line.split(' ').find(|word| word.matches('/').count() == 4).unwrap_or_else(|| panic!("{line}"));
    let timers = timers.split('/').map(|number| number.trim_start_matches('+').parse().unwrap()).collect();
    let date = line.split_once('[').unwrap().1;
    (timers, date.split(':').next().unwrap().to_owned())
}

#[test]
fn jumps_of_the_calendar_clock_move_no_timeout_no_queue_and_no_check() {
    let Some(library) = library() else { return };
    let origin = Origin::answering(|request| {
        if request.head.contains("/slow") {
            thread::sleep(Duration::from_millis(400));
        }
        ok("ok")
    });
    let (front, log, folder) = (free_address(), LogServer::start(), Folder::new());
    let checked_at = free_address();
    let checked = Origin::start_at(checked_at, |_, _| {});
    let offset = folder.file("offset", "+0\n");
    let config = format!(
        "global\n nbthread 1\n log {} local0\ndefaults\n log global\n mode http\n option httplog\n timeout client 20s\n timeout server 20s\n timeout connect 20s\n timeout check 5s\n timeout queue 20s\n timeout http-request 20s\n timeout http-keep-alive 20s\nlisten site\n bind {front}\n server s1 {} maxconn 1 check port {} inter 100ms fall 1 rise 1\n",
        log.address,
        origin.address,
        checked_at.port()
    );
    let script = format!(
        "export LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1; exec {} haproxy -db \"$@\"",
        library.display(),
        offset.display(),
        env!("CARGO_BIN_EXE_tidegate")
    );
    let _edge = Edge::start_as("/bin/sh", &["-c", &script, "sh"], &config);
    let mut days = Vec::new();
    for jump in ["+0", "+1d", "-2d", "+400d", "+0"] {
        let mut kept = Wire::connect(front);
        assert_eq!(kept.get("/").text(), "ok");
        let mut half = Wire::connect(front);
        half.send("GET / HTTP/1.1\r\nHo");
        // One is served, the other one waits for its place.
        let before = origin.heads().len();
        let mut slow: Vec<Wire> = (0..2).map(|_| Wire::connect(front)).collect();
        for client in &mut slow {
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        wait_until("one is being served", || origin.heads().len() > before);
        std::fs::write(&offset, format!("{jump}\n")).unwrap();
        for client in &mut slow {
            let answer = client.answer();
            assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"), "after {jump}");
        }
        assert_eq!(kept.get("/").text(), "ok", "after {jump}");
        half.send("st: a\r\n\r\n");
        assert_eq!(half.answer().text(), "ok", "after {jump}");
        for _ in 0..5 {
            let (timers, day) = timers_and_day(&log.line_with(" site site/s1 "));
            assert!(timers.iter().all(|timer| (0..10_000).contains(timer)), "{jump}: {timers:?}");
            days.push(day);
        }
    }
    days.sort();
    days.dedup();
    assert!(days.len() >= 4, "the clock did jump: {days:?}");
    drop(checked);
    log.line_with("Server site/s1 is DOWN");
    assert_eq!(Wire::connect(front).get("/").status(), 503);
}
