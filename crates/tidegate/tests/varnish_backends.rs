//! What `backend.list` and `VBE.*.happy` say of backends and directors, beside Debian's varnishd where that is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use support::{Origin, VarnishInstance, is_installed, wait_until};

const PROGRAM: &str = r#"
vcl 4.1;
import directors;
backend one { .host = "HOST"; .port = "ORIGIN"; }
backend two { .host = "HOST"; .port = "ORIGIN"; }
backend once { .host = "HOST"; .port = "ORIGIN"; .probe = { .url = "/"; .interval = 1h; .initial = 0; } }
sub vcl_init {
    new robin = directors.round_robin();
    robin.add_backend(one);
    robin.add_backend(two);
    new chance = directors.random();
    chance.add_backend(one, 3);
    chance.add_backend(two, 1);
    chance.add_backend(once, 1);
    new first = directors.fallback();
    first.add_backend(once);
    first.add_backend(two);
    new sticky = directors.fallback(sticky = true);
    sticky.add_backend(two);
    new ring = directors.shard();
    ring.add_backend(one);
    ring.add_backend(two, ident = "second");
    ring.reconfigure();
    new nested = directors.fallback();
    nested.add_backend(robin.backend());
    new nobody = directors.round_robin();
}
sub vcl_recv { set req.backend_hint = robin.backend(); }
"#;

const PROBED: &str = r#"
vcl 4.1;
backend default {
    .host = "HOST"; .port = "ORIGIN";
    .probe = { .url = "/"; .interval = 50ms; .window = 4; .threshold = 3; .initial = 0; }
}
"#;

fn answer(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fn origin() -> Origin {
    Origin::answering(|_| answer("200 OK"))
}

/// Without times.
fn timeless(line: &str) -> Option<&str> {
    let is_time = ["Average response time", "\"last_change\"", "[ 3, ["].iter().any(|time| line.contains(time));
    // The date, which is the last column.
    let end = if line.ends_with(" GMT") { line.len() - "Sat, 28 Nov 2026 10:52:01 GMT".len() } else { line.len() };
    (!is_time).then(|| line[..end].trim_end())
}

/// What `backend.list` says while one backend is sick by an administrator's word and another one's probe has found it once.
fn lists(instance: &VarnishInstance) -> String {
    wait_until("the probe has been there", || instance.tool("varnishadm", &["backend.list"]).contains("1/8"));
    let mut said = String::new();
    for health in ["auto", "sick"] {
        instance.tool("varnishadm", &["backend.set_health", "two", health]);
        for arguments in [&["backend.list"][..], &["backend.list", "-p"], &["backend.list", "-p", "-j"]] {
            let list = instance.tool("varnishadm", arguments);
            said += &list.lines().filter_map(timeless).collect::<Vec<_>>().join("\n");
            said += "\n";
        }
    }
    said
}

#[test]
fn backends_and_directors_are_listed_as_in_varnish() {
    if !is_installed("varnishadm") || !is_installed("/usr/sbin/varnishd") {
        return;
    }
    let origin = origin();
    let ours = lists(&VarnishInstance::ours(PROGRAM, &[], &origin));
    let theirs = lists(&VarnishInstance::theirs(PROGRAM, &[], &origin));
    assert_eq!(ours, theirs, "ours:\n{ours}\ntheirs:\n{theirs}");
}

/// A change is noted when it happens, not when somebody asks; and the counter has the results of the probe.
#[test]
fn a_probes_results_are_counted_and_a_change_has_its_time() {
    if !is_installed("varnishadm") || !is_installed("varnishstat") {
        return;
    }
    let fails = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&fails);
    let origin = Origin::answering(move |_| answer(if state.load(SeqCst) { "503 No" } else { "200 OK" }));
    let instance = VarnishInstance::ours(PROBED, &[], &origin);
    let happy = || instance.counters().get("VBE.boot.default.happy").copied().unwrap_or_default();
    let change = || {
        let list = instance.tool("varnishadm", &["backend.list"]);
        list.lines().find(|line| line.starts_with("boot.default")).unwrap().to_owned()
    };
    wait_until("four probes were good", || happy() & 0b1111 == 0b1111);
    let healthy_since = change();
    assert!(healthy_since.contains("4/4      healthy"), "{healthy_since}");
    fails.store(true, SeqCst);
    wait_until("four probes were not", || happy() & 0b1111 == 0 && happy() != 0);
    let sick_since = change();
    assert!(sick_since.contains("sick") && sick_since != healthy_since, "{sick_since}");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(change(), sick_since, "asking changes nothing");
}
