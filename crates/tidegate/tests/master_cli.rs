//! The master's command line, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use support::{Edge, Folder, PATIENCE, Wire, free_address, ok, wait_until};

/// A load balancer with a master that takes commands.
struct Master {
    edge: Edge,
    socket: PathBuf,
    _folder: Folder,
}

/// How long a master may take to answer. HAProxy's programs hold an old socket of their master, where nobody is answered.
const BRIEF: Duration = Duration::from_millis(300);

impl Master {
    fn start(program: &str, name: &str, config: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.0.join("master");
        let words: Vec<&str> =
            [name, "-W", "-S", socket.to_str().unwrap()].into_iter().filter(|word| !word.is_empty()).collect();
        let edge = Edge::start_as(program, &words, &config.replace("FRONT", &free_address().to_string()));
        let master = Self { edge, socket, _folder: folder };
        wait_until("the master answers", || {
            UnixStream::connect(&master.socket).is_ok() && master.ask_within("show proc", BRIEF).contains("worker")
        });
        master
    }

    fn ours(config: &str) -> Self {
        Self::start(env!("CARGO_BIN_EXE_tidegate"), "haproxy", config)
    }

    /// Everything that is answered until the other side has had enough.
    fn ask(&self, text: &str) -> String {
        self.ask_within(text, PATIENCE)
    }

    fn ask_within(&self, text: &str, time: Duration) -> String {
        let Ok(mut stream) = UnixStream::connect(&self.socket) else { return String::new() };
        stream.set_read_timeout(Some(time)).unwrap();
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
        "@1; user; show cli level",
        "@1; operator; show cli level; @1 show cli level; @master; show cli level",
        "@1 user; @1 show cli level",
        "user; operator; show cli level",
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

/// As long as the client says nothing of an end, more may come: also without a prompt.
#[test]
fn commands_may_follow_each_other_as_in_haproxy() {
    let play = |master: &Master| {
        let mut stream = UnixStream::connect(&master.socket).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        ["show cli level", "@1 show cli level", "@1;show cli level", "user;show cli level"].map(|command| {
            stream.write_all(format!("{command}\n").as_bytes()).unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\n\n") {
                let mut part = [0; 64];
                let count = support::read_once(&mut stream, &mut part).unwrap();
                assert_ne!(count, 0, "{command}: closed after {answer:?}");
                answer.extend_from_slice(&part[..count]);
            }
            String::from_utf8_lossy(&answer).trim_end().to_owned()
        })
    };
    let ours = play(&Master::ours(CONFIG));
    assert_eq!(ours, ["admin", "admin", "admin", "user"]);
    if std::path::Path::new("/usr/sbin/haproxy").exists() {
        assert_eq!(ours, play(&Master::start("/usr/sbin/haproxy", "", CONFIG)));
    }
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

/// Notes what it is told, and ends when told to.
const NOTES: &str = "sh -c \"trap 'echo usr1 \\$0 >>%FOLDER%/notes' USR1; trap 'exit 143' TERM; echo start \\$0 \\$COLOUR \\$HAPROXY_MWORKER \\$HAPROXY_CFGFILES >>%FOLDER%/notes; while :; do sleep 0.05; done\"";

/// What is said of programs, without the numbers of their processes.
fn said_of_programs(edge: &Edge) -> Vec<String> {
    let text = edge.output();
    let lines =
        text.lines().filter(|line| ["rogram", "exit-on", "All workers", "execute"].iter().any(|it| line.contains(it)));
    lines
        .map(|line| {
            let (tag, text) = line.split_once(" : ").unwrap();
            let numbers = |word: &&str| !word.trim_matches(['(', ')']).parse::<u32>().is_ok_and(|number| number > 255);
            format!(
                "{} {}",
                tag.split(']').next().unwrap(),
                text.split(' ').filter(numbers).collect::<Vec<_>>().join(" ")
            )
        })
        .collect()
}

/// Names, reloads and headings of the programs.
fn listed_programs(master: &Master) -> String {
    let table = master.ask_within("show proc", BRIEF);
    let programs = table.split_once("# programs").unwrap_or_default().1;
    programs.lines().map(|row| row.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ") + ";").collect()
}

/// Plays programs that are started, told at reloads, and one that fails; returns everything that can be seen of it.
fn play_programs(program: &str, name: &str) -> (Vec<String>, Vec<String>) {
    let config = format!(
        "global\n nbthread 1\n setenv COLOUR blue\ndefaults\n mode http\n timeout client 2s\n timeout server 1s\n \
         timeout connect 1s\nfrontend fe\n bind FRONT\nprogram again\n command {NOTES} again\nprogram kept\n no option \
         start-on-reload\n command {NOTES} kept\nprogram brief\n user root\n group root\n \
         command sleep 100\n"
    );
    let mut master = Master::start(program, name, &config);
    let folder = master.edge.folder.0.display().to_string();
    let notes = || std::fs::read_to_string(format!("{folder}/notes")).unwrap_or_default().replace(&folder, "FOLDER");
    let mut seen = Vec::new();
    let mut expect = |expected: &str| {
        wait_until(&format!("programs are {expected}: {}", listed_programs(&master)), || {
            listed_programs(&master) == expected
        });
        seen.push(listed_programs(&master));
    };
    expect(";again 0;kept 0;brief 0;;");
    wait_until("both have begun", || notes().lines().count() == 2);
    master.edge.signal(rustix::process::Signal::USR2);
    expect(";again 0;brief 0;old programs;again 1;kept 1;;");
    wait_until("both are told", || notes().matches("usr1").count() == 2 && notes().matches("start").count() == 3);
    let last = master.processes("again").remove(0).parse().unwrap();
    support::signal_process(last, rustix::process::Signal::KILL);
    seen.push(format!("code {}", master.edge.wait_end()));
    let mut notes: Vec<String> = notes().lines().map(str::to_owned).collect();
    notes.sort();
    seen.extend(notes);
    let mut said = said_of_programs(&master.edge);
    said.sort();
    (seen, said)
}

#[test]
fn programs_run_beside_the_workers_as_in_haproxy() {
    let ours = play_programs(env!("CARGO_BIN_EXE_tidegate"), "haproxy");
    assert_eq!(ours.0[2], "code 137", "{ours:?}");
    let line = "[ALERT Current program 'again' exited with code 137 (Killed)";
    assert!(ours.1.iter().any(|said| said == line), "{:?}", ours.1);
    if std::path::Path::new("/usr/sbin/haproxy").exists() {
        assert_eq!(ours, play_programs("/usr/sbin/haproxy", ""));
    }
}

#[test]
fn a_program_that_cannot_be_started_ends_the_service_as_in_haproxy() {
    let config = |front| {
        format!(
            "defaults\n mode http\n timeout client 2s\n timeout server 1s\n timeout connect 1s\nfrontend fe\n bind {front}\n\
             program nope\n command /nonexistent/program x\n user nobody\n group nogroup\n"
        )
        .replace("bind", "bind ")
    };
    let play = |program: &str, words: &[&str]| {
        let folder = Folder::new();
        let path = folder.file("haproxy.cfg", config(free_address()));
        let mut edge = Edge::spawn(program, words, path, folder);
        let code = edge.wait_end();
        wait_until("all is said", || edge.output().contains("All workers exited"));
        // Two processes speak, each when it comes to it.
        let mut said = said_of_programs(&edge);
        said.sort();
        (code, said)
    };
    let ours = play(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-W"]);
    assert_eq!(ours.0, 1, "{:?}", ours.1);
    assert!(ours.1.contains(&"[ALERT Cannot execute /nonexistent/program: No such file or directory".to_owned()));
    if std::path::Path::new("/usr/sbin/haproxy").exists() {
        assert_eq!(ours, play("/usr/sbin/haproxy", &["-W"]));
    }
    let alone = play_alone(&config(free_address()));
    assert!(alone.contains("Can't use a 'program' section without master worker mode."), "{alone}");
}

/// What is said of a configuration that is refused.
fn play_alone(config: &str) -> String {
    let folder = Folder::new();
    let path = folder.file("haproxy.cfg", config);
    let mut edge = Edge::spawn(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-c"], path, folder);
    assert_eq!(edge.wait_end(), 1);
    edge.wait_output("Fatal errors");
    edge.output()
}
