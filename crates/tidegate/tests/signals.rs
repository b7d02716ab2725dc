//! What signals do to a process that serves, and what is said of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use rustix::process::Signal;
use support::{Edge, LogServer, Origin, Wire, free_address, ok, signal_process, wait_until};

/// A frontend, a `listen` section and a backend that log to `log`.
fn config(log: &LogServer, more: &str) -> (String, [std::net::SocketAddr; 2], Origin) {
    let (front, tunnel) = (free_address(), free_address());
    let origin = Origin::start(|mut wire, _| {
        while let Some(request) = wire.request() {
            if request.start_line().starts_with("GET /wait") {
                let _ = wire.read_to_end();
                return;
            }
            wire.send(ok("done"));
        }
    });
    let config = format!(
        "global\n nbthread 1\n log {} local0\n stats socket %FOLDER%/stats level admin\n {more}\ndefaults\n mode http\n log global\n \
         option httplog\n timeout client 20s\n timeout server 20s\n timeout connect 1s\nfrontend web\n bind {front}\n \
         default_backend app\nlisten raw\n mode tcp\n option tcplog\n bind {tunnel}\n server s1 {}\nbackend app\n server s1 {}\n",
        log.address, origin.address, origin.address
    );
    (config, [front, tunnel], origin)
}

fn asks(front: std::net::SocketAddr, path: &str) -> Wire {
    let mut wire = Wire::connect(front);
    wire.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    wire
}

/// The texts of what was logged, up to the one that holds `last`.
fn lines_until(log: &LogServer, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        lines.push(log.line());
        if lines.last().is_some_and(|line| line.contains(last)) {
            return lines;
        }
    }
}

#[test]
fn signals_that_only_ask_end_nothing() {
    let log = LogServer::start();
    let (config, [front, _], _origin) = config(&log, "");
    let edge = Edge::start_single(&config);
    let mut wire = asks(front, "/");
    assert_eq!(wire.answer().text(), "done");
    for signal in [Signal::QUIT, Signal::ALARM] {
        edge.signal(signal);
    }
    edge.wait_output("SIGQUIT: ");
    assert_eq!(wire.get("/").text(), "done");
}

#[test]
fn a_hang_up_shows_servers_and_proxies() {
    let log = LogServer::start();
    let (config, [front, _], _origin) = config(&log, "");
    let edge = Edge::start_single(&config);
    let mut wire = asks(front, "/");
    assert_eq!(wire.answer().text(), "done");
    lines_until(&log, "GET / ");
    edge.signal(Signal::HUP);
    let last = "SIGHUP: Proxy app has 1 active servers and 0 backup servers available. Conn: act(FE+BE): 0+0, 0 pend (0 unass), \
                tot(FE+BE): 0+1.";
    let lines = lines_until(&log, "Proxy app has");
    assert_eq!(lines[0], "SIGHUP received, dumping servers states for proxy web.");
    assert!(lines[1].starts_with("SIGHUP: Proxy web has no servers. Conn: act(FE+BE): 1+0, "), "{lines:?}");
    assert!(lines.contains(&"SIGHUP: Server app/s1 is UP. Conn: 0 act, 0 pend, 1 tot.".to_owned()), "{lines:?}");
    assert_eq!(lines.last().unwrap(), last);
    edge.wait_output("SIGHUP received, dumping servers states.");
    edge.wait_output(last);
}

#[test]
fn pauses_and_the_end_are_logged() {
    let log = LogServer::start();
    let (config, [front, _], _origin) = config(&log, "");
    let mut edge = Edge::start_single(&config);
    edge.signal(Signal::TTOU);
    assert_eq!(lines_until(&log, "proxy")[..], ["Paused frontend web.", "Paused proxy raw."]);
    edge.signal(Signal::TTIN);
    assert_eq!(lines_until(&log, "proxy")[..], ["Resumed frontend web.", "Resumed proxy raw."]);
    assert!(edge.command("show stat").contains("web,FRONTEND,"), "the stats socket goes on, too");
    assert_eq!(asks(front, "/").answer().text(), "done");
    lines_until(&log, "GET / ");
    edge.signal(Signal::USR1);
    let lines = lines_until(&log, "Proxy app");
    assert!(lines[0].starts_with("Proxy web stopped (cumulated conns: FE: "), "{lines:?}");
    assert!(lines[1].starts_with("Proxy raw stopped (cumulated conns: FE: "), "{lines:?}");
    assert_eq!(lines[2], "Proxy app stopped (cumulated conns: FE: 0, BE: 1).");
    assert_eq!(edge.wait_end(), 0);
}

#[test]
fn who_is_cut_off_by_a_hard_stop_is_answered_and_logged() {
    let log = LogServer::start();
    let (config, [front, tunnel], origin) = config(&log, "hard-stop-after 500ms");
    let mut edge = Edge::start_single(&config);
    let mut waits = asks(front, "/wait");
    let mut open = asks(tunnel, "/");
    assert_eq!(open.answer().text(), "done");
    wait_until("the request is on its way", || origin.connections() >= 2);
    edge.signal(Signal::USR1);
    assert_eq!(waits.answer().status(), 502);
    open.expect_end();
    assert_eq!(edge.wait_end(), 0);
    let mut lines = log.lines_so_far();
    lines.retain(|line| !line.contains("stopped (cum") && !line.contains("<BADREQ>"));
    let says = |text: &str| assert!(lines.iter().any(|line| line.contains(text)), "{text}: {lines:#?}");
    says("soft-stop running for too long, performing a hard-stop.");
    says("Proxy web hard-stopped (1 remaining conns will be closed).");
    says("Proxy raw hard-stopped (1 remaining conns will be closed).");
    says(" 502 209 - - KH-- ");
    says(" K- ");
}

#[test]
fn a_worker_that_drains_can_be_asked_about_its_sessions() {
    let log = LogServer::start();
    let (config, [_, tunnel], _origin) = config(&log, "");
    let socket = support::Folder::new();
    let control = format!("{}", socket.0.join("master").display());
    let edge = Edge::start_as(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-W", "-S", &control], &config);
    let mut open = asks(tunnel, "/");
    assert_eq!(open.answer().text(), "done");
    let worker = edge.workers()[0];
    signal_process(worker, Signal::USR1);
    wait_until("another worker serves", || edge.workers().len() == 2);
    let ask = |command: &str| {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(&control).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        stream.write_all(format!("@!{worker} {command}\n").as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    wait_until("it drains", || ask("show info").contains("Stopping: 1"));
    let sessions = ask("show sess");
    let row = sessions.lines().find(|row| row.contains(" fe=raw be=raw srv=s1 ")).expect(&sessions);
    let id = row.split(':').next().unwrap();
    assert_eq!(ask(&format!("shutdown session {id}")).trim(), "");
    open.expect_end();
    wait_until("it is gone", || !edge.workers().contains(&worker));
}
