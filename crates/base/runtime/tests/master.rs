//! A master and its worker as real processes: death, reload, upgrade, and their ends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use runtime::process::control::{Target, request};
use support::*;

const PLAIN: &str = "workers 2\nlisten 127.0.0.1:PORT\ngreeting one\n";

#[test]
fn a_killed_worker_is_replaced_and_nobody_is_refused() {
    let service = Setup::new(PLAIN).start();
    let clients = Clients::start(service.address(), 4);
    let mut seen = vec![service.worker()];
    for _ in 0..5 {
        clients.go_on_for(50);
        kill(service.worker(), SIGKILL);
        wait_until("another worker serves", || {
            service.echo("x").is_ok_and(|answer| !seen.contains(&answer.pid)) || service.worker() == 0
        });
        wait_until("the master knows it", || {
            service.status().workers.first().is_some_and(|worker| {
                worker.state == runtime::process::WorkerState::Serving && !seen.contains(&worker.pid)
            })
        });
        seen.push(service.worker());
    }
    clients.go_on_for(50);
    let tally = clients.stop();
    assert_eq!(tally.refused, 0);
    assert!(tally.answered > 200, "{tally:?}");
    // Each death may break one connection of each client.
    assert!(tally.broken.len() <= 5 * 4, "{tally:?}");
    assert_eq!(service.status().worker_deaths, 5);
}

#[test]
fn a_worker_that_aborts_or_loses_a_thread_is_replaced_and_a_panic_costs_one_connection() {
    let service = Setup::new(PLAIN).start();
    let first = service.worker();
    let mut other = Connection::open(service.address()).unwrap();
    other.echo("before").unwrap();
    assert!(service.echo("panic").is_err());
    assert_eq!(other.echo("after").unwrap().pid, first);
    assert!(service.echo("abort").is_err());
    wait_until("another worker serves", || service.echo("x").is_ok_and(|answer| answer.pid != first));
    assert!(service.log().contains("was ended by signal 6"), "{}", service.log());
}

#[test]
fn fifty_reloads_under_load_fail_nobody_and_take_effect_at_once() {
    let service = Setup::new(PLAIN).start();
    let worker = service.worker();
    let mut kept = Connection::open(service.address()).unwrap();
    assert_eq!(kept.echo("x").unwrap().greeting, "one");
    let clients = Clients::start(service.address(), 4);
    for round in 0..50 {
        clients.go_on_for(4);
        service.configure(&format!("workers 2\nlisten 127.0.0.1:PORT\ngreeting g{round}\n"));
        service.reload();
        // From the answer on, every new connection is served by the new configuration.
        for _ in 0..4 {
            assert_eq!(service.echo("x").unwrap().greeting, format!("g{round}"));
        }
    }
    assert_flawless(&clients.stop());
    // Old connections end under the configuration that they began with, in the same process.
    let answer = kept.echo("x").unwrap();
    assert_eq!((answer.greeting.as_str(), answer.pid), ("one", worker));
    assert_eq!(service.status().reloads, 50);
}

#[test]
fn reloads_by_signal() {
    let service = Setup::new(PLAIN).start();
    for (signal, greeting) in [(SIGHUP, "two"), (SIGUSR2, "three")] {
        service.configure(&format!("listen 127.0.0.1:PORT\ngreeting {greeting}\n"));
        service.signal(signal);
        wait_until("the new configuration is served", || service.echo("x").unwrap().greeting == greeting);
    }
}

#[test]
fn workers_and_addresses_come_and_go_under_load() {
    let service = Setup::new("workers 4\nlisten 127.0.0.1:PORT\n").start();
    let (second, third) = (free_port(), free_port());
    let clients = Clients::start(service.address(), 6);
    for round in 0..12 {
        let workers = [1, 3, 2, 5][round % 4];
        let more = match round % 3 {
            0 => format!("listen 127.0.0.1:{second}\n"),
            1 => format!("listen 127.0.0.1:{second} shared\nlisten 127.0.0.1:{third} dispatch\n"),
            _ => String::new(),
        };
        service.configure(&format!("workers {workers}\nlisten 127.0.0.1:PORT\n{more}"));
        service.reload();
        clients.go_on_for(30);
    }
    assert_flawless(&clients.stop());
    // After the last round only the first address is left.
    for port in [second, third] {
        assert!(Connection::open(([127, 0, 0, 1], port).into()).is_err());
    }
}

#[test]
fn the_mode_of_accepting_may_change_under_load() {
    let service = Setup::new("workers 3\nlisten 127.0.0.1:PORT\n").start();
    let clients = Clients::start(service.address(), 6);
    for round in 0..12 {
        let mode = [" shared", " dispatch", ""][round % 3];
        service.configure(&format!("workers 3\nlisten 127.0.0.1:PORT{mode}\ngreeting g{round}\n"));
        service.reload();
        assert_eq!(service.echo("x").unwrap().greeting, format!("g{round}"));
        clients.go_on_for(30);
    }
    assert_flawless(&clients.stop());
}

#[test]
fn what_waits_on_an_address_that_goes_is_served_first() {
    for mode in ["", " shared", " dispatch"] {
        let service = Setup::new(&format!("workers 2\nlisten 127.0.0.1:PORT{mode}\ngreeting old\n")).start();
        let other = free_port();
        service.signal(SIGTTOU);
        // The signal has been dealt with when a connection stays without an answer.
        let mut waiting = Vec::new();
        wait_until("the service pauses", || {
            let mut connection = TcpProbe::open(service.address());
            connection.send();
            let unanswered = connection.is_unanswered();
            if unanswered {
                waiting.push(connection);
            }
            unanswered
        });
        for _ in 0..20 {
            let mut connection = TcpProbe::open(service.address());
            connection.send();
            waiting.push(connection);
        }
        service.configure(&format!("workers 2\nlisten 127.0.0.1:{other}\n"));
        service.reload();
        for connection in waiting {
            assert_eq!(connection.answer(), "old", "mode{mode}");
        }
        assert!(std::net::TcpStream::connect(service.address()).is_err());
    }
}

/// A connection whose answer may take its time.
struct TcpProbe(std::net::TcpStream);

impl TcpProbe {
    fn open(address: std::net::SocketAddr) -> Self {
        Self(std::net::TcpStream::connect(address).unwrap())
    }

    fn send(&mut self) {
        use std::io::Write as _;
        self.0.write_all(b"x\n").unwrap();
    }

    fn is_unanswered(&mut self) -> bool {
        self.0.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        self.0.peek(&mut [0]).is_err()
    }

    fn answer(self) -> String {
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection::over(self.0).answer().unwrap().greeting
    }
}

#[test]
fn what_fails_leaves_the_service_as_it_was() {
    let service = Setup::new(PLAIN).start();
    let worker = service.worker();
    let clients = Clients::start(service.address(), 2);
    let free = free_port();
    let listeners = |service: &Service| {
        let master = Service::descriptors(service.pid);
        master.iter().filter(|link| link.starts_with("socket:")).count()
    };
    let before = listeners(&service);
    for (configuration, reason) in [
        ("nonsense\n".to_owned(), "unknown word: nonsense"),
        (format!("{PLAIN}fail-check not today\n"), "not today"),
        (format!("{PLAIN}listen 127.0.0.1:{free}\nfail-load cannot\n"), "cannot"),
        // More sockets for a port that is served: the kernel must not give them connections that nobody accepts.
        (format!("{PLAIN}workers 9\nfail-load cannot\n"), "cannot"),
        // An address of documentation, which is not ours: the error names it, and the good one is not kept.
        (
            format!("{PLAIN}listen 127.0.0.1:{free}\nlisten 192.0.2.1:80\n"),
            "cannot bind socket (Cannot assign requested address) for [192.0.2.1:80]",
        ),
        (format!("{PLAIN}listen sockpair@5\n"), "'sockpair@' is not supported"),
        (format!("{PLAIN}listen fd@77\n"), "for [fd@77]"),
    ] {
        service.configure(&configuration);
        let reply = service.ask("reload");
        assert!(!reply.success && reply.text.contains(reason), "{reason}: {}", reply.text);
        assert_eq!(service.echo("x").unwrap().greeting, "one");
        assert!(std::net::TcpStream::connect(("127.0.0.1", free)).is_err());
        clients.go_on_for(50);
    }
    assert_eq!(listeners(&service), before);
    let status = service.status();
    assert_eq!((status.failed_reloads, status.reloads, status.generation), (7, 0, 1));
    service.configure(&PLAIN.replace("one", "two"));
    service.reload();
    let answer = service.echo("x").unwrap();
    assert_eq!((answer.greeting.as_str(), answer.pid), ("two", worker));
    assert_flawless(&clients.stop());
}

/// A worker that has as many descriptors as it may have cannot take new sockets, and loses no connection for that.
#[test]
fn a_worker_without_room_for_sockets_refuses_them_and_serves_on() {
    let service = Setup::new(PLAIN).start();
    let worker = service.worker();
    let clients = Clients::start(service.address(), 2);
    let mut connection = Connection::open(service.address()).unwrap();
    assert_eq!(connection.echo("x").unwrap().pid, worker);
    let limit = |descriptors: &str| {
        let arguments = [format!("--nofile={descriptors}"), format!("--pid={worker}")];
        assert!(std::process::Command::new("prlimit").args(arguments).status().unwrap().success());
    };
    let more: String = (0..40).map(|_| format!("listen 127.0.0.1:{}\n", free_port())).collect();
    service.configure(&format!("{PLAIN}{more}").replace("one", "two"));
    // Some room, then none at all, not even for the configuration.
    for room in [20, 0] {
        limit(&format!("{}:4096", Service::descriptors(worker).len() + room));
        let reply = service.ask("reload");
        assert!(!reply.success && reply.text.contains("too many open files"), "{}", reply.text);
        let answer = connection.echo("x").unwrap();
        assert_eq!((answer.greeting.as_str(), answer.pid), ("one", worker));
    }
    limit("4096:4096");
    service.reload();
    let answer = service.echo("x").unwrap();
    assert_eq!((answer.greeting.as_str(), answer.pid), ("two", worker));
    assert_flawless(&clients.stop());
}

#[test]
fn a_configuration_that_kills_the_worker_is_refused() {
    let service = Setup::new(PLAIN).start();
    service.configure(&format!("{PLAIN}crash-at-load\n"));
    let reply = service.ask("reload");
    assert!(!reply.success && reply.text.contains("was ended by signal 6"), "{}", reply.text);
    wait_until("the former configuration is served", || service.echo("x").is_ok_and(|answer| answer.greeting == "one"));
}

#[test]
fn a_bad_first_configuration_ends_with_code_1() {
    for (configuration, reason) in [
        ("nonsense\n", "unknown word: nonsense"),
        ("listen 192.0.2.1:80\n", "for [192.0.2.1:80]"),
        ("listen 127.0.0.1:PORT\nfail-load cannot\n", "cannot"),
        ("listen 127.0.0.1:PORT\ncrash-at-load\n", "was ended by signal 6"),
        ("listen 127.0.0.1:PORT\nchroot /nonexistent\n", "Cannot chroot(/nonexistent)"),
    ] {
        for arguments in [&[][..], &["--single"]] {
            if configuration.contains("crash") && !arguments.is_empty() {
                continue;
            }
            let mut service = Setup::new(configuration).arguments(arguments).start_without_waiting();
            let status = service.wait();
            assert_eq!(status.code(), Some(1), "{configuration} {arguments:?}");
            assert!(service.log().contains(reason), "{configuration}: {}", service.log());
        }
    }
}

#[test]
fn five_upgrades_under_load_fail_nobody() {
    let service = Setup::new(PLAIN).own_program().start();
    let clients = Clients::start(service.address(), 4);
    // Those who command the master notice nothing either.
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let commanders: Vec<_> = (0..3)
        .map(|_| {
            let (over, target) = (std::sync::Arc::clone(&over), Target::Pid(service.pid));
            std::thread::spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    request(&target, "status").unwrap();
                }
            })
        })
        .collect();
    let mut kept = Vec::new();
    let mut workers = Vec::new();
    for round in 0..5 {
        let mut connection = Connection::open(service.address()).unwrap();
        workers.push(connection.echo("x").unwrap().pid);
        kept.push(connection);
        clients.go_on_for(20);
        service.replace_program(None);
        service.configure(&PLAIN.replace("one", &format!("g{round}")));
        let program = |service: &Service| std::fs::read_link(format!("/proc/{}/exe", service.pid)).unwrap();
        assert!(program(&service).ends_with("echo (deleted)"));
        if round % 2 == 0 {
            let reply = service.ask("upgrade");
            assert!(reply.success, "{}", reply.text);
        } else {
            service.signal(SIGUSR2);
            wait_until("the upgrade is done", || service.status().reloads == round + 1);
        }
        assert_eq!(service.echo("x").unwrap().greeting, format!("g{round}"));
        assert!(program(&service).ends_with("echo"), "the old program runs on");
    }
    assert_flawless(&clients.stop());
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    commanders.into_iter().for_each(|commander| commander.join().unwrap());
    // Every former worker still serves the connection that it has, and ends when that does.
    assert_eq!(service.status().workers.len(), 6);
    for (connection, worker) in kept.iter_mut().zip(&workers) {
        assert_eq!(connection.echo("x").unwrap().pid, *worker);
    }
    drop(kept);
    wait_until("former workers end", || service.status().workers.len() == 1);
    // The successor is a full master.
    kill(service.worker(), SIGKILL);
    wait_until("the worker is started again", || service.echo("x").is_ok());
    service.configure(&PLAIN.replace("one", "last"));
    service.reload();
    assert_eq!(service.echo("x").unwrap().greeting, "last");
}

#[test]
fn an_upgrade_that_fails_leaves_the_service_as_it_was() {
    let service = Setup::new(PLAIN).own_program().start();
    let worker = service.worker();
    let clients = Clients::start(service.address(), 2);
    let good = std::fs::read(example()).unwrap();
    let truth = std::fs::read("/bin/true").unwrap();
    for (program, configuration, reason) in [
        (&b"not a program"[..], PLAIN.to_owned(), "Exec format error"),
        (truth.as_slice(), PLAIN.to_owned(), "it ended without an answer"),
        (good.as_slice(), "nonsense\n".to_owned(), "unknown word: nonsense"),
        (good.as_slice(), format!("{PLAIN}listen 192.0.2.1:80\n"), "for [192.0.2.1:80]"),
        (good.as_slice(), format!("{PLAIN}fail-load cannot\n"), "cannot"),
        (good.as_slice(), format!("{PLAIN}crash-at-load\n"), "was ended by signal 6"),
    ] {
        service.replace_program(Some(program));
        service.configure(&configuration);
        let reply = service.ask("upgrade");
        assert!(!reply.success && reply.text.contains(reason), "{reason}: {}", reply.text);
        let answer = service.echo("x").unwrap();
        assert_eq!((answer.greeting.as_str(), answer.pid), ("one", worker));
    }
    std::fs::remove_file(service.folder.0.join("echo")).unwrap();
    let reply = service.ask("upgrade");
    assert!(!reply.success && reply.text.contains("No such file"), "{}", reply.text);
    // A worker that dies meanwhile is started again from the program that runs, not from that on disk.
    kill(worker, SIGKILL);
    wait_until("another worker serves", || service.echo("x").is_ok_and(|answer| answer.pid != worker));
    service.configure(&PLAIN.replace("one", "two"));
    service.reload();
    assert_eq!(service.echo("x").unwrap().greeting, "two");
    assert_eq!(clients.stop().refused, 0);
}

#[test]
fn sigusr1_drains() {
    for workers in [1, 3] {
        for mode in ["", " shared", " dispatch"] {
            let configuration = format!("workers {workers}\nlisten 127.0.0.1:PORT{mode}\n");
            let mut service = Setup::new(&configuration).start();
            let mut kept = Connection::open(service.address()).unwrap();
            kept.echo("x").unwrap();
            service.signal(SIGUSR1);
            wait_until("nobody is let in", || std::net::TcpStream::connect(service.address()).is_err());
            kept.echo("y").unwrap();
            assert!(service.is_running());
            drop(kept);
            assert_eq!(service.wait().code(), Some(0));
        }
    }
}

#[test]
fn hard_stop_after_cuts_a_drain_short() {
    let mut service = Setup::new("listen 127.0.0.1:PORT\nhard-stop-after 300\n").start();
    let mut kept = Connection::open(service.address()).unwrap();
    kept.echo("x").unwrap();
    service.signal(SIGUSR1);
    assert_eq!(service.wait().code(), Some(0));
    assert!(kept.is_closed());
    assert!(service.log().contains("hard-stop-after"), "{}", service.log());
}

#[test]
fn ends_with_the_exit_codes_of_haproxy() {
    for (signal, code) in [(SIGTERM, 0), (SIGINT, 130)] {
        let mut service = Setup::new(PLAIN).start();
        let mut kept = Connection::open(service.address()).unwrap();
        kept.echo("x").unwrap();
        let worker = service.worker();
        service.signal(signal);
        assert_eq!(service.wait().code(), Some(code));
        assert!(kept.is_closed());
        assert!(!exists(worker));
    }
    let mut service = Setup::new(PLAIN).start();
    assert!(service.ask("stop").success);
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn workers_end_when_their_master_is_killed() {
    let mut service = Setup::new(PLAIN).start();
    let worker = service.worker();
    let mut kept = Connection::open(service.address()).unwrap();
    kept.echo("x").unwrap();
    service.signal(SIGKILL);
    service.wait();
    wait_until("nobody is let in", || std::net::TcpStream::connect(service.address()).is_err());
    assert_eq!(kept.echo("y").unwrap().pid, worker);
    drop(kept);
    wait_until("the worker ends", || !exists(worker));
}

#[test]
fn a_worker_told_to_drain_is_replaced_at_once() {
    let service = Setup::new(PLAIN).start();
    let worker = service.worker();
    let clients = Clients::start(service.address(), 2);
    clients.go_on_for(20);
    kill(worker, SIGUSR1);
    wait_until("another worker serves", || service.worker() != worker && service.echo("x").is_ok());
    clients.go_on_for(20);
    assert_flawless(&clients.stop());
    assert_eq!(service.status().worker_deaths, 0);
}

#[test]
fn pauses_and_goes_on() {
    let service = Setup::new("workers 2\nlisten 127.0.0.1:PORT shared\n").start();
    service.signal(SIGTTOU);
    let mut waiting = None;
    wait_until("the service pauses", || {
        let mut connection = TcpProbe::open(service.address());
        connection.send();
        let unanswered = connection.is_unanswered();
        waiting = Some(connection);
        unanswered
    });
    service.signal(SIGTTIN);
    assert_eq!(waiting.unwrap().answer(), "echo");
}

#[test]
fn suspended_sockets_refuse_until_they_go_on() {
    for mode in ["", " shared", " dispatch"] {
        let service =
            Setup::new(&format!("workers 2\nlisten 127.0.0.1:PORT{mode}\nlisten unix@DIR/socket\npause-refuses\n"))
                .start();
        let mut held = Connection::open(service.address()).unwrap();
        held.echo("before").unwrap();
        for _ in 0..3 {
            service.signal(SIGTTOU);
            wait_until("connections are refused", || {
                // Each worker closes its own socket's ears.
                (0..20).all(|_| std::net::TcpStream::connect(service.address()).is_err())
            });
            held.echo("meanwhile").unwrap();
            // Unix sockets cannot refuse: who connects to one waits.
            let waiting = std::os::unix::net::UnixStream::connect(service.folder.0.join("socket")).unwrap();
            waiting.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut waiting = Connection::over(waiting);
            waiting.send("x").unwrap();
            service.signal(SIGTTIN);
            waiting.answer().unwrap();
            wait_until("connections are served", || (0..20).all(|_| service.echo("x").is_ok()));
        }
        let (worker, before) = (service.worker(), processor_ticks(service.worker()));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(processor_ticks(worker) - before < 10, "mode{mode}: it spins");
        service.signal(SIGTTOU);
        wait_until("connections are refused", || std::net::TcpStream::connect(service.address()).is_err());
        service.reload();
        wait_until("a reload listens again", || (0..20).all(|_| service.echo("x").is_ok()));
    }
}

fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn two_hundred_reloads_leave_nothing_behind() {
    let configuration = "workers 2\nlisten 127.0.0.1:PORT\nlisten unix@DIR/socket\nlisten abns@tidegate-leak-PORT\n";
    let service = Setup::new(configuration).start();
    let worker = service.worker();
    let extra = free_port();
    let change = |round: usize| {
        let mode = ["", " shared", " dispatch"][round % 3];
        let more = if round.is_multiple_of(2) { format!("listen 127.0.0.1:{extra}{mode}\n") } else { String::new() };
        service.configure(&format!("{configuration}{more}"));
        service.reload();
        service.echo("x").unwrap();
    };
    let count = |pid| Service::descriptors(pid).len();
    // Whatever is made once has been made after some rounds.
    (0..20).for_each(change);
    wait_until("connections are gone", || count(worker) <= count(worker));
    service.configure(configuration);
    service.reload();
    let settled = |goal: Option<(usize, usize)>| {
        let mut counts = (count(service.pid), count(worker));
        if let Some(goal) = goal {
            wait_until(&format!("descriptors are closed: {goal:?}"), || {
                counts = (count(service.pid), count(worker));
                counts.0 <= goal.0 && counts.1 <= goal.1
            });
        }
        counts
    };
    std::thread::sleep(std::time::Duration::from_millis(200));
    let before = settled(None);
    let memory = (Service::resident_kb(service.pid), Service::resident_kb(worker));
    (0..200).for_each(change);
    service.configure(configuration);
    service.reload();
    settled(Some(before));
    let after = (Service::resident_kb(service.pid), Service::resident_kb(worker));
    assert!(after.0 <= memory.0 + 512 && after.1 <= memory.1 + 1024, "{memory:?} kB became {after:?} kB");
    assert_eq!(service.worker(), worker);
}

#[test]
fn the_control_socket_answers() {
    let address = format!("127.0.0.1:{}", free_port());
    let service = Setup::new(PLAIN).arguments(&["--control", "DIR/control", "--control", &address]).start();
    let path = Target::Path(service.folder.0.join("control"));
    let table = request(&path, "show proc").unwrap().text;
    assert!(table.contains(&format!("{:<15} master", service.pid)), "{table}");
    assert!(table.contains(&format!("# workers\n{:<15} worker", service.worker())), "{table}");
    assert!(request(&path, "reload").unwrap().success);
    assert!(request(&path, "what").unwrap().text.contains("reload"));
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    std::io::Write::write_all(&mut stream, b"show proc\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.contains("master"), "{text}");
    // Clients that say nothing, too much, or go away do no harm.
    use std::io::Write as _;
    let connect = || std::os::unix::net::UnixStream::connect(service.folder.0.join("control")).unwrap();
    let silent = connect();
    drop(connect());
    let _ = connect().write_all(&vec![b'x'; 100_000]);
    assert!(request(&path, "reload").unwrap().success);
    drop(silent);
    assert!(service.status().reloads == 2);
}
