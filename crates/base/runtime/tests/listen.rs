//! Kinds of addresses, ways of accepting, and privileges, with real processes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use support::*;

/// How many connections each worker got of `count` that are open at the same time.
fn spread(service: &Service, count: usize) -> BTreeMap<usize, usize> {
    let mut connections = Vec::new();
    let mut workers = BTreeMap::new();
    for _ in 0..count {
        let mut connection = Connection::open(service.address()).unwrap();
        *workers.entry(connection.echo("x").unwrap().worker).or_default() += 1;
        connections.push(connection);
    }
    workers
}

#[test]
fn reuseport_spreads_over_all_workers() {
    let service = Setup::new("workers 4\nlisten 127.0.0.1:PORT\n").start();
    let spread = spread(&service, 200);
    assert_eq!(spread.len(), 4, "{spread:?}");
}

#[test]
fn shared_uses_more_than_one_worker() {
    let service = Setup::new("workers 4\nlisten 127.0.0.1:PORT shared\n").start();
    let clients = Clients::start(service.address(), 16);
    clients.go_on_for(200);
    let mut seen = BTreeMap::new();
    wait_until("two workers have been seen", || {
        for (worker, count) in spread(&service, 20) {
            *seen.entry(worker).or_insert(0) += count;
        }
        seen.len() >= 2
    });
    assert_flawless(&clients.stop());
}

#[test]
fn dispatch_gives_each_connection_to_the_worker_with_the_fewest() {
    let service = Setup::new("workers 4\nlisten 127.0.0.1:PORT dispatch\n").start();
    wait_until("connections of the start are gone", || spread(&service, 20).values().all(|count| *count == 5));
}

#[test]
fn a_burst_larger_than_every_queue_is_served() {
    for mode in ["", " shared", " dispatch"] {
        let service = Setup::new(&format!("workers 2\nlisten 127.0.0.1:PORT{mode}\n")).start();
        let mut connections: Vec<_> = (0..900).map(|_| Connection::open(service.address()).unwrap()).collect();
        for connection in &mut connections {
            connection.send("x").unwrap();
        }
        for mut connection in connections {
            connection.answer().unwrap();
        }
    }
}

#[test]
fn running_out_of_descriptors_pauses_and_recovers() {
    for mode in ["", " shared", " dispatch"] {
        let setup = Setup::new(&format!("workers 2\nlisten 127.0.0.1:PORT{mode}\n"));
        // The hard limit of the shell becomes that of the service.
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg("ulimit -n 80; exec \"$@\"").arg("sh").arg(&setup.program);
        let log = std::fs::File::create(setup.folder.0.join("log")).unwrap();
        command.arg(setup.folder.0.join("configuration")).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let pid = child.id();
        let service = Service { folder: setup.folder, port: setup.port, child: Some(child), pid };
        wait_until("it serves", || service.log().contains("serves"));
        let mut connections: Vec<_> = (0..120).map(|_| Connection::open(service.address()).unwrap()).collect();
        for connection in &mut connections {
            connection.send("x").unwrap();
        }
        wait_until("it says so", || service.log().contains("Please check 'ulimit-n'"));
        // Pausing means not to spin: the worker's processor time hardly grows.
        let worker = service.worker();
        let before = processor_ticks(worker);
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(processor_ticks(worker) - before < 25, "mode{mode}");
        // Each one that ends makes room for another, in the order in which the kernel gives them out.
        wait_until("all are served", || {
            connections.retain_mut(|connection| !connection.is_answered());
            connections.is_empty()
        });
        service.echo("x").unwrap();
    }
}

fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn unix_sockets_of_both_kinds() {
    let configuration =
        "workers 2\nlisten 127.0.0.1:PORT\nlisten unix@DIR/socket\nlisten abns@tidegate-test-PORT dispatch\n";
    let setup = Setup::new(configuration);
    let (path, name) = (setup.folder.0.join("socket"), format!("tidegate-test-{}", setup.port));
    // What stands in the way from a former run is replaced.
    std::fs::write(&path, "").unwrap();
    let mut service = setup.start();
    let abstract_address = runtime::abstract_address(&name).unwrap();
    let through_file = |service: &Service| {
        let stream = UnixStream::connect(service.folder.0.join("socket")).unwrap();
        Connection::over(stream).echo("x").unwrap()
    };
    for _ in 0..20 {
        through_file(&service);
        Connection::over(UnixStream::connect_addr(&abstract_address).unwrap()).echo("x").unwrap();
    }
    let inode = std::fs::metadata(&path).unwrap().ino();
    service.reload();
    through_file(&service);
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode, "a reload keeps the socket");
    // A configuration that fails to bind elsewhere leaves the file alone and no temporary one behind.
    service.configure(&format!("{configuration}listen unix@DIR/other\nlisten 192.0.2.1:80\n"));
    assert!(!service.ask("reload").success);
    through_file(&service);
    let left: Vec<_> = std::fs::read_dir(&service.folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("other") || name.contains(".tmp"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    kill(service.worker(), SIGKILL);
    wait_until("the worker is back", || service.echo("x").is_ok());
    through_file(&service);
    service.signal(SIGUSR1);
    assert_eq!(service.wait().code(), Some(0));
    assert!(UnixStream::connect(&path).is_err());
}

#[test]
fn inherited_sockets() {
    use std::os::fd::{AsRawFd as _, OwnedFd};
    for arguments in [&[][..], &["--single"]] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut setup = Setup::new("workers 2\nlisten fd@0\n").arguments(arguments);
        // Standard input is a descriptor that gets to the service without unsafe code.
        setup.input = Some(OwnedFd::from(listener.try_clone().unwrap()));
        assert!(listener.as_raw_fd() > 2);
        setup.port = address.port();
        let service = setup.start();
        for _ in 0..20 {
            service.echo("x").unwrap();
        }
        if arguments.is_empty() {
            service.reload();
            kill(service.worker(), SIGKILL);
            wait_until("the worker is back", || service.echo("x").is_ok());
        }
    }
}

#[test]
fn options_of_sockets_are_set_and_changed() {
    let service = Setup::new("workers 1\nlisten 127.0.0.1:PORT tfo defer-accept tcp-ut mss lo\n").start();
    service.echo("x").unwrap();
    // A deferred connection is not there for the service until it says something.
    let mut silent = Connection::open(service.address()).unwrap();
    silent.echo("x").unwrap();
    service.configure("workers 1\nlisten 127.0.0.1:PORT lo\ngreeting two\n");
    service.reload();
    assert_eq!(service.echo("x").unwrap().greeting, "two");
    // Another interface is another socket.
    service.configure("workers 1\nlisten 127.0.0.1:PORT\ngreeting three\n");
    service.reload();
    assert_eq!(service.echo("x").unwrap().greeting, "three");
}

#[test]
fn the_worker_gives_its_privileges_up_and_the_master_does_not() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let root = Folder::new();
    std::fs::set_permissions(&root.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!("user nobody\nchroot {}\n", root.0.display());
    for arguments in [&[][..], &["--single"]] {
        let service = Setup::new(&format!("workers 2\nlisten 127.0.0.1:PORT\n{settings}")).arguments(arguments).start();
        let answer = service.echo("x").unwrap();
        assert_eq!(answer.uid, 65534);
        let status = std::fs::read_to_string(format!("/proc/{}/status", answer.pid)).unwrap();
        for line in ["Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "Groups:\t \n"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        for task in std::fs::read_dir(format!("/proc/{}/task", answer.pid)).unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "every thread: {status}");
        }
        assert_eq!(std::fs::read_link(format!("/proc/{}/root", answer.pid)).unwrap(), root.0);
        if !arguments.is_empty() {
            continue;
        }
        assert_eq!(std::fs::read_link(format!("/proc/{}/root", service.pid)).unwrap().to_str(), Some("/"));
        // A port that only root may bind, at a reload; then another user, for which the worker is replaced.
        let low = (600..1000).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
        let both = format!("workers 2\nlisten 127.0.0.1:PORT\nlisten 127.0.0.1:{low}\n");
        service.configure(&format!("{both}{settings}"));
        service.reload();
        assert_eq!(service.worker(), answer.pid);
        assert_eq!(Connection::open(([127, 0, 0, 1], low).into()).unwrap().echo("x").unwrap().uid, 65534);
        let clients = Clients::start(service.address(), 2);
        service.configure(&format!("{both}user daemon\n"));
        service.reload();
        let answer_after = service.echo("x").unwrap();
        assert_ne!((answer_after.uid, answer_after.pid), (65534, answer.pid));
        clients.go_on_for(20);
        assert_flawless(&clients.stop());
    }
}
