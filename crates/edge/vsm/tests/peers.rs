//! Debian's own tools read what this crate publishes, and this crate reads what Debian's varnishd publishes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/traffic.rs"]
mod traffic;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use telemetry::vsl::VslTag;
use traffic::Instance;
use vsm::{
    WorkingDirectory,
    counters::{Main, Mgt, Sma, Vbe},
    reader::{CounterReader, LogEvent, LogReader, Reader, Start},
};

fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        // Said, so that a machine without it does not seem to have tested it.
        println!("{tool} is not installed (.ci/tools installs it): not tested");
    }
    found
}

/// What a tool prints about the instance in `folder`.
fn run(tool: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool).arg("-n").arg(folder).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn varnishstat_shows_the_counters() {
    if !is_installed("varnishstat") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut instance = Instance::begin(folder.path(), 1 << 20).unwrap();
    instance.main.set(Main::uptime, 77);
    instance.main.add(Main::n_test_gunzip, 5);
    instance.management.set(Mgt::child_start, 1);
    instance.storage.set(Sma::g_bytes, 4096);
    instance.backend.set(Vbe::helddown, 9);
    let value = |json: &serde_json::Value, name: &str| json["counters"][name]["value"].as_u64();
    let read = || serde_json::from_str::<serde_json::Value>(&run("varnishstat", folder.path(), &["-1", "-j"])).unwrap();
    let json = read();
    let expected = [
        ("MAIN.uptime", 77),
        ("MAIN.n_test_gunzip", 5),
        ("MGT.child_start", 1),
        ("SMA.s0.g_bytes", 4096),
        ("VBE.boot.default.helddown", 9),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&json, name), Some(expected), "{name}");
    }
    assert_eq!(json["counters"].as_object().unwrap().len(), 144 + 7 + 7 + 20);
    assert_eq!(json["counters"]["SMA.s0.g_bytes"]["flag"], "g");
    assert_eq!(json["counters"]["SMA.s0.g_bytes"]["format"], "B");

    // Backends come, hide and go.
    let other = instance.worker.counters::<Vbe>("VBE.boot.other").unwrap();
    assert_eq!(value(&read(), "VBE.boot.other.req"), Some(0));
    other.show(false);
    assert_eq!(value(&read(), "VBE.boot.other.req"), None);
    other.show(true);
    assert_eq!(value(&read(), "VBE.boot.other.req"), Some(0));
    instance.worker.remove(other).unwrap();
    assert_eq!(value(&read(), "VBE.boot.other.req"), None);
    // Often enough for the index to be written anew.
    for round in 0..40 {
        let passing = instance.worker.counters::<Vbe>(&format!("VBE.boot.b{round}")).unwrap();
        instance.worker.remove(passing).unwrap();
    }
    assert_eq!(read()["counters"].as_object().unwrap().len(), 144 + 7 + 7 + 20);
}

#[test]
fn varnishlog_and_varnishncsa_show_the_log() {
    if !is_installed("varnishlog") || !is_installed("varnishncsa") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let instance = Instance::begin(folder.path(), 1 << 20).unwrap();
    let writer = instance.log.writer();
    for number in 0..3 {
        instance.request(&writer, 10 + 10 * number);
    }
    let requests = run("varnishlog", folder.path(), &["-d", "-g", "request"]);
    assert_eq!(requests.matches("<< Request  >>").count(), 3, "{requests}");
    assert_eq!(requests.matches("<< BeReq    >>").count(), 3, "{requests}");
    assert!(requests.contains("-   ReqHeader      Host: example.com\n"), "{requests}");
    let sessions = run("varnishlog", folder.path(), &["-d", "-g", "session"]);
    assert_eq!(sessions.matches("<< Session  >>").count(), 3, "{sessions}");
    let queried = run("varnishlog", folder.path(), &["-d", "-q", "ReqURL eq '/page/20'", "-i", "ReqURL"]);
    assert_eq!(queried.matches("/page/20").count(), 1, "{queried}");
    assert!(!queried.contains("/page/10"));
    let lines = run("varnishncsa", folder.path(), &["-d"]);
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.starts_with("127.0.0.1 - - ["), "{lines}");
    assert!(lines.contains(r#""GET http://example.com/page/30 HTTP/1.1" 200 1000 "-" "-""#), "{lines}");
}

/// Threads write while Debian's reader and ours follow; the log goes round many times. Each transaction that is read is whole.
#[test]
fn readers_beside_writers_see_whole_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let instance = Instance::begin(folder.path(), 1 << 20).unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    let mut read = 0_u64;
    let mut overruns = 0_u64;
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let instance = &instance;
            scope.spawn(move || {
                let writer = instance.log.writer();
                let mut number = 0;
                while Instant::now() < until {
                    instance.request(&writer, (thread << 24) + 4 * number + 1);
                    number += 1;
                }
            });
        }
        let reader = Reader::attach(folder.path()).unwrap();
        let mut log = LogReader::open(&reader, Start::Oldest).unwrap().unwrap();
        // A batch is a transaction's: between Begin and End of a request its records follow each other.
        let mut current: Option<u32> = None;
        while Instant::now() < until {
            match log.next() {
                LogEvent::Record(record) => {
                    read += 1;
                    let tag = record.known_tag().expect("every record has a tag that was written");
                    match (tag, current) {
                        (VslTag::Begin, _) if !record.text.starts_with(b"sess") => current = Some(record.vxid),
                        (_, Some(vxid)) => assert_eq!(record.vxid, vxid, "{record:?}"),
                        _ => {}
                    }
                    if tag == VslTag::End {
                        current = None;
                    }
                    if tag == VslTag::ReqURL {
                        assert_eq!(record.text, format!("/page/{}", record.vxid - 1).into_bytes());
                    }
                }
                LogEvent::Nothing => std::thread::yield_now(),
                LogEvent::Overrun => (overruns, current) = (overruns + 1, None),
                LogEvent::Damaged => panic!("the log is damaged"),
            }
        }
    });
    assert!(read > 1000, "{read} records, {overruns} overruns");
    let figures = instance.log.figures();
    assert!(figures.cycles > 0, "{figures:?}");
}

#[test]
fn a_folder_has_one_instance() {
    let folder = tempfile::tempdir().unwrap();
    let first = WorkingDirectory::create(folder.path()).unwrap();
    let error = WorkingDirectory::create(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
    drop(first);
    WorkingDirectory::create(folder.path()).unwrap();
}

#[test]
fn a_restart_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let directory = WorkingDirectory::create(folder.path()).unwrap();
    let mut manager = directory.manager().unwrap();
    manager.publish("Arg", "-T", b"127.0.0.1 6082\n").unwrap();
    let mut reader = Reader::attach(folder.path()).unwrap();
    assert_eq!(reader.text("Arg", "-T").unwrap().as_deref(), Some("127.0.0.1 6082\n"));
    manager.publish("Arg", "-T", b"127.0.0.1 6083\n").unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.text("Arg", "-T").unwrap().as_deref(), Some("127.0.0.1 6083\n"));
    assert!(!reader.refresh().unwrap().has_worker);
    let mut worker = directory.worker().unwrap();
    worker.log(1 << 20).unwrap();
    let change = reader.refresh().unwrap();
    assert!(change.has_worker && change.changed && change.restarted, "{change:?}");
    let log = LogReader::open(&reader, Start::Tail).unwrap().unwrap();
    assert!(log.is_current(&reader));
    drop(worker);
    let change = reader.refresh().unwrap();
    assert!(!change.has_worker && change.changed, "{change:?}");
    assert!(!log.is_current(&reader));
}

#[test]
fn names_that_an_index_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = WorkingDirectory::create(folder.path()).unwrap();
    let mut worker = directory.worker().unwrap();
    for name in ["", "a b", "a\nb", "a\"b", "é"] {
        assert!(worker.counters::<Vbe>(name).is_err(), "{name:?}");
    }
    assert!(worker.log(4096).unwrap_err().to_string().contains("from 1048576 to"));
}

/// Debian's varnishd, until it is dropped.
struct Varnishd(Child);

impl Drop for Varnishd {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn debians_varnishd_is_read() {
    if !is_installed("varnishd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let working = folder.path().join("v");
    let vcl = folder.path().join("a.vcl");
    std::fs::write(&vcl, "vcl 4.1; backend default { .host = \"127.0.0.1\"; .port = \"9\"; }").unwrap();
    let child = Command::new("varnishd")
        .args(["-F", "-j", "none", "-a", "127.0.0.1:0", "-n"])
        .arg(&working)
        .arg("-f")
        .arg(&vcl)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _varnishd = Varnishd(child);
    let until = Instant::now() + Duration::from_secs(60);
    let mut counters = CounterReader::default();
    let mut names: Vec<String> = Vec::new();
    while Instant::now() < until && !names.iter().any(|name| name == "VBE.boot.default.req") {
        std::thread::sleep(Duration::from_millis(100));
        if let Ok(reader) = Reader::attach(&working) {
            counters.refresh(&reader);
            names = counters.values().map(|value| value.name).collect();
        }
    }
    let reader = Reader::attach(&working).unwrap();
    counters.refresh(&reader);
    // Every counter that Debian's varnishstat sees, with its kind and format.
    let json: serde_json::Value = serde_json::from_str(&run("varnishstat", &working, &["-1", "-j"])).unwrap();
    let theirs = json["counters"].as_object().unwrap();
    let ours: Vec<_> = counters.values().collect();
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().all(|value| theirs.contains_key(&value.name)));
    // Our table has what Varnish's has: names, kinds, formats and places.
    for (table, prefix) in [
        (vsm::counters::Main::ALL.len(), "MAIN."),
        (vsm::counters::Mgt::ALL.len(), "MGT."),
        (vsm::counters::Vbe::ALL.len(), "VBE.boot.default."),
        (vsm::counters::Sma::ALL.len(), "SMA.s0."),
    ] {
        assert_eq!(ours.iter().filter(|value| value.name.starts_with(prefix)).count(), table, "{prefix}");
    }
    use vsm::counters::CounterTable as _;
    for counter in Main::TABLE.counters {
        let value = ours.iter().find(|value| value.name == format!("MAIN.{}", counter.name)).unwrap();
        let described = (value.description.kind, value.description.format, value.description.level);
        assert_eq!(described, (counter.kind, counter.format, counter.level), "{}", counter.name);
    }
    let mut log = LogReader::open(&reader, Start::Oldest).unwrap().unwrap();
    let mut texts = Vec::new();
    while let LogEvent::Record(record) = log.next() {
        texts.push((record.known_tag().unwrap(), String::from_utf8_lossy(&record.text).into_owned()));
    }
    assert!(texts.iter().any(|(tag, text)| *tag == VslTag::CLI && text.contains("start")), "{texts:?}");
}
