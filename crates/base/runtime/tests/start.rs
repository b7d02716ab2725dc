//! Starting: alone, as a daemon, after an old process, and under a service manager.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use support::*;

const PLAIN: &str = "workers 2\nlisten 127.0.0.1:PORT\n";

#[test]
fn a_single_process_serves_reloads_and_drains() {
    let mut service = Setup::new(PLAIN).arguments(&["--single", "--pidfile", "DIR/pid"]).start();
    let answer = service.echo("x").unwrap();
    assert_eq!(answer.pid, service.pid);
    assert_eq!(runtime::process::control::read_pidfile(&service.folder.0.join("pid")).unwrap(), service.pid);
    let clients = Clients::start(service.address(), 2);
    service.configure("workers 3\nlisten 127.0.0.1:PORT\ngreeting two\n");
    service.signal(SIGUSR2);
    wait_until("it reloads", || service.echo("x").unwrap().greeting == "two");
    service.configure("nonsense\n");
    service.signal(SIGUSR2);
    wait_until("it says why not", || service.log().contains("unknown word: nonsense"));
    service.signal(SIGHUP);
    assert_eq!(service.echo("x").unwrap().greeting, "two");
    assert_flawless(&clients.stop());
    let mut kept = Connection::open(service.address()).unwrap();
    kept.echo("x").unwrap();
    service.signal(SIGUSR1);
    wait_until("nobody is let in", || std::net::TcpStream::connect(service.address()).is_err());
    kept.echo("y").unwrap();
    drop(kept);
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn a_single_process_is_ended_by_the_signals() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [SIGTERM, SIGINT] {
        let mut service = Setup::new(PLAIN).arguments(&["--single"]).start();
        let mut kept = Connection::open(service.address()).unwrap();
        kept.echo("x").unwrap();
        service.signal(signal);
        assert_eq!(service.wait().signal(), Some(signal));
    }
}

/// Starts a process that takes over from `old`.
fn take_over(old: &Service, arguments: &[&str]) -> Service {
    let mut setup = Setup::new(PLAIN);
    setup.port = old.port;
    setup.configure("workers 2\nlisten 127.0.0.1:PORT\ngreeting new\n");
    setup.arguments(arguments).start_without_waiting()
}

#[test]
fn old_processes_finish_or_end_once_the_new_one_serves() {
    for mode in [&[][..], &["--single"]] {
        for how in ["--sf", "--st"] {
            let mut old = Setup::new(PLAIN).arguments(&["--single"]).start();
            let mut kept = Connection::open(old.address()).unwrap();
            kept.echo("x").unwrap();
            let pid = old.pid.to_string();
            let new = take_over(&old, &[mode, &[how, &pid]].concat());
            wait_until("the new one serves", || new.echo("x").is_ok_and(|answer| answer.greeting == "new"));
            if how == "--sf" {
                assert_eq!(kept.echo("y").unwrap().pid, old.pid);
                drop(kept);
            }
            old.wait();
            for _ in 0..10 {
                assert_eq!(new.echo("x").unwrap().greeting, "new");
            }
        }
    }
}

#[test]
fn sockets_are_taken_from_an_old_process() {
    for mode in [&[][..], &["--single"]] {
        let old_configuration =
            format!("{PLAIN}listen unix@DIR/echo\nlisten abns@tidegate-x-PORT\nsockets DIR/sockets\n");
        let mut old = Setup::new(&old_configuration).arguments(&["--single"]).start();
        let inode = |pid| {
            let mut links: Vec<String> = Service::descriptors(pid);
            links.retain(|link| link.starts_with("socket:"));
            links.sort();
            links.dedup();
            links
        };
        let before = inode(old.pid);
        let clients = Clients::start(old.address(), 4);
        clients.go_on_for(50);
        let folder = old.folder.0.to_str().unwrap().to_owned();
        let pid = old.pid.to_string();
        let mut setup = Setup::new("");
        setup.port = old.port;
        setup.configure(
            &"workers 2\nlisten 127.0.0.1:PORT\nlisten unix@OLD/echo\nlisten abns@tidegate-x-PORT\ngreeting new\n"
                .replace("OLD", &folder),
        );
        let path = format!("{folder}/sockets");
        let new = setup.arguments(&[mode, &["--sf", &pid, "-x", &path]].concat()).start_without_waiting();
        old.wait();
        clients.go_on_for(50);
        // An abstract name cannot be bound twice, so only the old socket itself can be it; and no connection that
        // the kernel had accepted was lost.
        assert_flawless(&clients.stop());
        assert_eq!(new.echo("x").unwrap().greeting, "new");
        let held = inode(new.pid);
        assert!(before.iter().filter(|link| held.contains(link)).count() >= 4, "{before:?} {held:?}");
        let name = format!("tidegate-x-{}", new.port);
        let address = runtime::abstract_address(&name).unwrap();
        let stream = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
        assert_eq!(Connection::over(stream).echo("x").unwrap().greeting, "new");
        let stream = std::os::unix::net::UnixStream::connect(format!("{folder}/echo")).unwrap();
        assert_eq!(Connection::over(stream).echo("x").unwrap().greeting, "new");
    }
}

#[test]
fn addresses_that_are_released_late_are_waited_for() {
    // Without SO_REUSEPORT the address is in use until the old process, told by SIGTTOU, lets go.
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut setup = Setup::new(PLAIN).arguments(&["--st", &sleeper.id().to_string()]);
    setup.port = port;
    setup.configure(PLAIN);
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(holder);
    });
    let service = setup.start_without_waiting();
    wait_until("it serves", || service.log().contains("serves"));
    release.join().unwrap();
    service.echo("x").unwrap();
    // Stopped by SIGTTOU, but SIGTERM came after all.
    kill(sleeper.id(), 18);
    assert!(!sleeper.wait().unwrap().success());
}

#[test]
fn a_daemon_says_whether_it_serves() {
    for mode in [&[][..], &["--single"]] {
        let setup = Setup::new(PLAIN).arguments(&[mode, &["--daemon", "--pidfile", "DIR/pid"]].concat());
        let status = setup.command().status().unwrap();
        assert_eq!(status.code(), Some(0));
        let pid = runtime::process::control::read_pidfile(&setup.folder.0.join("pid")).unwrap();
        // It serves already, has a session of its own, and holds no terminal or pipe of its caller.
        let service = Service { folder: setup.folder, port: setup.port, child: None, pid };
        service.echo("x").unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(fields[3], pid.to_string(), "the session");
        for number in 0..3 {
            let target = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap();
            assert_eq!(target.to_str(), Some("/dev/null"), "{number}");
        }
        if mode.is_empty() {
            service.configure("listen 127.0.0.1:PORT\ngreeting two\n");
            service.reload();
            assert_eq!(service.echo("x").unwrap().greeting, "two");
        }
        service.signal(SIGTERM);
        wait_until("it ends", || !exists(pid));
    }
}

#[test]
fn a_daemon_that_cannot_serve_says_so() {
    for mode in [&[][..], &["--single"]] {
        let setup = Setup::new("nonsense\n").arguments(&[mode, &["--daemon"]].concat());
        assert_eq!(setup.command().status().unwrap().code(), Some(1));
        let log = std::fs::read_to_string(setup.folder.0.join("log")).unwrap();
        assert!(log.contains("unknown word: nonsense"), "{log}");
    }
}

#[test]
fn a_pidfile_that_cannot_be_written_is_an_error() {
    for mode in [&[][..], &["--single"]] {
        let mut service =
            Setup::new(PLAIN).arguments(&[mode, &["--pidfile", "DIR/missing/pid"]].concat()).start_without_waiting();
        assert_eq!(service.wait().code(), Some(1));
        assert!(service.log().contains("Cannot create pidfile"), "{}", service.log());
    }
}

fn next_notification(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let count = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

#[test]
fn the_service_manager_is_told() {
    for is_abstract in [true, false] {
        let folder = Folder::new();
        let (socket, name) = if is_abstract {
            let name = format!("tidegate-notify-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
        } else {
            let path = folder.0.join("notify");
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned())
        };
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut service = Setup::new(PLAIN).own_program().environment("NOTIFY_SOCKET", &name).start();
        let ready = format!("READY=1\nMAINPID={}\nSTATUS=serving", service.pid);
        assert!(next_notification(&socket).starts_with(&ready));
        let is_reload = |text: &str| {
            let time = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.split('\n').next());
            time.is_some_and(|time| time.parse::<u64>().is_ok())
        };
        for (configuration, success) in [(PLAIN, true), ("nonsense\n", false)] {
            service.configure(configuration);
            assert_eq!(service.ask("reload").success, success);
            assert!(is_reload(&next_notification(&socket)));
            assert!(next_notification(&socket).starts_with(&ready));
        }
        service.configure(PLAIN);
        assert!(service.ask("upgrade").success);
        assert!(is_reload(&next_notification(&socket)));
        assert!(next_notification(&socket).starts_with(&ready));
        service.signal(SIGUSR1);
        assert!(next_notification(&socket).starts_with("STOPPING=1\n"));
        assert_eq!(service.wait().code(), Some(0));
    }
}
