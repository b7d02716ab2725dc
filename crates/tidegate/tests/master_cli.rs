//! The master's command line, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
};

use support::{Edge, Folder, PATIENCE, Wire, free_address, ok, wait_until};

/// A load balancer with a master that takes commands.
struct Master {
    edge: Edge,
    socket: PathBuf,
    _folder: Folder,
}

impl Master {
    fn start(program: &str, name: &str, config: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.0.join("master");
        let words: Vec<&str> =
            [name, "-W", "-S", socket.to_str().unwrap()].into_iter().filter(|word| !word.is_empty()).collect();
        let edge = Edge::start_as(program, &words, &config.replace("FRONT", &free_address().to_string()));
        let master = Self { edge, socket, _folder: folder };
        wait_until("the master answers", || {
            UnixStream::connect(&master.socket).is_ok() && master.ask("show proc").contains("worker")
        });
        master
    }

    fn ours(config: &str) -> Self {
        Self::start(env!("CARGO_BIN_EXE_tidegate"), "haproxy", config)
    }

    /// Everything that is answered until the other side has had enough.
    fn ask(&self, text: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{text}\n").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        // An order may end the other side before it has read all.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Process numbers by their type, in order.
    fn processes(&self, kind: &str) -> Vec<String> {
        let table = self.ask("show proc");
        let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.get(1) == Some(&kind)).map(|row| row[0].to_owned()).collect()
    }
}

const CONFIG: &str = "global\n nbthread 1\ndefaults\n mode http\n timeout client 2s\n timeout server 1s\n \
    timeout connect 1s\nfrontend fe\n bind FRONT\n";

/// Answers with what differs between two programs taken out: numbers of processes, version, times.
fn answers(master: &Master, inputs: &[&str]) -> Vec<String> {
    let worker = master.processes("worker").remove(0);
    let version = master.ask("show version").trim().to_owned();
    let plain = |input: &&str| {
        let answer = master.ask(&input.replace("WORKER", &worker));
        let pid = format!("{:<15} ", master.edge.pid());
        let row = |row: &str| match row.split_whitespace().collect::<Vec<_>>()[..] {
            [pid, kind, reloads, .., _time, _version] if pid.parse::<u32>().is_ok() => format!("{kind} {reloads}"),
            _ => row.replace(&version, "VERSION").replace(&worker, "WORKER"),
        };
        answer.replace(&pid, "1 ").lines().map(row).collect::<Vec<_>>().join("\n")
    };
    inputs.iter().map(plain).collect()
}

#[test]
fn commands_reach_workers_as_in_haproxy() {
    const INPUTS: &[&str] = &[
        "show proc",
        "@master show proc",
        "@ show proc",
        "@0 show version",
        "@1 show version",
        "@!WORKER show version",
        "@1",
        "@2 show version",
        "@!1 show version",
        "@what show version",
        "@1 show version; show version; @1 show env NOPE",
        "@1; show version; @master; show cli level",
        "prompt\nquit",
        "prompt\n@1\nshow version\n@!WORKER\nshow version\n@master\nquit",
        "prompt\n@99\nquit",
        "operator; show cli level",
        "user; @1 show cli level",
        "user; @1 show env",
        "user; reload",
        "@1 operator; @1 show cli level",
        "expert-mode on; @1 expert-mode",
        "@1 expert-mode on; @1 expert-mode",
        "show cli sockets",
        "@1 set server no/no state ready; show cli level",
        "@1 set server no/no state <<\nready\n",
        "quit",
    ];
    let ours = answers(&Master::ours(CONFIG), INPUTS);
    if std::path::Path::new("/usr/sbin/haproxy").exists() {
        let theirs = answers(&Master::start("/usr/sbin/haproxy", "", CONFIG), INPUTS);
        for ((input, ours), theirs) in INPUTS.iter().zip(&ours).zip(&theirs) {
            assert_eq!(ours, theirs, "{input}");
        }
    }
    assert_eq!(ours[4], "VERSION\n");
}

#[test]
fn a_reload_is_told_of_and_former_workers_still_answer() {
    let (front, origin) = (
        free_address(),
        support::Origin::start(|mut wire, _| {
            // The first request is answered when the second one has come.
            while wire.request().is_some() {
                std::thread::sleep(std::time::Duration::from_millis(400));
                wire.send(ok("done"));
            }
        }),
    );
    let config = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         listen site\n bind {front}\n server s1 {}\n",
        origin.address
    );
    let master = Master::ours(&config);
    assert!(master.ask("reload").starts_with("Success=1\n--\n"), "the same worker takes the configuration");
    let first = master.processes("worker").remove(0);
    let mut wire = Wire::connect(front);
    wire.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    wait_until("the request is on its way", || origin.connections() > 0);
    // Another user needs another process, beside which the former one drains.
    let written = std::fs::read_to_string(&master.edge.config).unwrap();
    std::fs::write(&master.edge.config, written.replace(" nbthread 1\n", " nbthread 1\n set-dumpable\n")).unwrap();
    assert!(master.ask("reload").starts_with("Success=1"));
    let workers = master.processes("worker");
    if workers.len() == 2 {
        assert!(master.ask("show proc").contains("# old workers\n"));
        assert_eq!(master.ask(&format!("@!{first} show cli level")), "admin\n\n");
    }
    assert_eq!(wire.answer().text(), "done");
    std::fs::write(&master.edge.config, written.replace("bind", "bnid")).unwrap();
    let refused = master.ask("reload");
    assert!(refused.starts_with("Success=0\n--\n") && refused.contains("unknown keyword 'bnid'"), "{refused}");
    assert!(master.ask("prompt\nquit").starts_with("master[ReloadFailed]> "));
    let mut idle = UnixStream::connect(&master.socket).unwrap();
    idle.write_all(b"prompt\n").unwrap();
    let mut prompt = [0; 22];
    idle.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"master[ReloadFailed]> ");
    idle.shutdown(Shutdown::Write).unwrap();
    assert!(master.ask("stop").starts_with("Success=1"));
}
