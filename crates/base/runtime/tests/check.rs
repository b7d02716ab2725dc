//! The check of a configuration, which is another process' business than the master's.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use runtime::process::control::{Target, request};
use support::*;

const PLAIN: &str = "listen 127.0.0.1:PORT\ngreeting one\n";
const SLOW: &str = "listen 127.0.0.1:PORT\ngreeting two\ncheck-waits-for DIR/go\n";

#[test]
fn a_check_that_takes_long_keeps_the_master_from_nothing() {
    let service = Setup::new(PLAIN).start();
    let (first, master) = (service.worker(), service.pid);
    service.configure(SLOW);
    let reload = std::thread::spawn(move || request(&Target::Pid(master), "reload").unwrap());
    wait_until("the check has begun", || service.children().len() == 2);
    kill(first, SIGKILL);
    wait_until("another worker serves", || service.echo("x").is_ok_and(|answer| answer.pid != first));
    assert_eq!(service.echo("x").unwrap().greeting, "one");
    std::fs::write(service.folder.0.join("go"), "").unwrap();
    let reply = reload.join().unwrap();
    assert!(reply.success, "{}", reply.text);
    assert_eq!(service.echo("x").unwrap().greeting, "two");
    assert_eq!(service.children(), [service.worker()], "nothing is left of the check");
}

#[test]
fn a_check_under_way_does_not_hold_up_the_end() {
    for signal in [SIGTERM, SIGUSR1] {
        let mut service = Setup::new(PLAIN).start();
        service.configure(SLOW);
        service.signal(SIGUSR2);
        wait_until("the check has begun", || service.children().len() == 2);
        let started = service.children();
        service.signal(signal);
        assert_eq!(service.wait().code(), Some(0));
        std::fs::write(service.folder.0.join("go"), "").unwrap();
        // NOTE: the folder goes with the service, and who has not found the file by then would look for it for ever.
        wait_until("nothing is left", || !started.iter().any(|pid| exists(*pid)));
    }
}

#[test]
fn a_check_that_crashes_refuses_the_configuration() {
    let service = Setup::new(PLAIN).start();
    let worker = service.worker();
    service.configure("listen 127.0.0.1:PORT\ngreeting two\ncrash-at-check\n");
    let reply = service.ask("reload");
    assert!(!reply.success && reply.text.contains("ended without an answer"), "{}", reply.text);
    let answer = service.echo("x").unwrap();
    assert_eq!((answer.greeting.as_str(), answer.pid), ("one", worker));
    service.configure("listen 127.0.0.1:PORT\ngreeting three\n");
    service.reload();
    assert_eq!(service.echo("x").unwrap().greeting, "three");
}

#[test]
fn a_long_refusal_arrives_whole() {
    let service = Setup::new(PLAIN).start();
    let text = "a line of many ".repeat(10_000);
    service.configure(&format!("listen 127.0.0.1:PORT\nfail-check {text}\n"));
    let reply = service.ask("reload");
    assert!(!reply.success && reply.text.contains(text.trim_end()), "{} bytes", reply.text.len());
}

#[test]
fn processes_are_listed_by_the_name_of_the_program() {
    let service = Setup::new(PLAIN).start();
    for pid in [service.pid, service.worker()] {
        assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "echo\n");
    }
}
