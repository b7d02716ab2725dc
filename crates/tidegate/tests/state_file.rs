//! States of servers out of a file, as Debian's HAProxy reads them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

use support::{Edge, Folder, Origin, Wire, free_address};

/// What a command of the stats socket answers.
fn ask(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{command}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Backend, server, state, administrative state and weights of each server.
fn states(answer: &str) -> Vec<String> {
    let rows = answer.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    rows.map(|row| {
        let fields: Vec<&str> = row.split(' ').collect();
        [fields[1], fields[3], fields[5], fields[6], fields[7], fields[8]].join(" ")
    })
    .collect()
}

/// Starts with a file of states and returns what became of the servers.
fn play(start: fn(&str) -> Option<Edge>) -> Option<(Vec<String>, String)> {
    let (origin, folder, front) = (Origin::named("hello"), Folder::new(), free_address());
    let line = |backend: &str, server: &str, rest: &str| {
        format!("9 {backend} 1 {server} 127.0.0.1 {rest} 1 0 0 0 0 0 0 0 - 80 - 0 0 - - 0\n")
    };
    let header = "1\n# be_id be_name srv_id srv_name srv_addr ...\n";
    folder.file(
        "all",
        [
            header,
            &line("app", "maint", "0 1 1 1 60"),
            &line("app", "drained", "2 8 10 10 60"),
            &line("app", "light", "2 0 3 10 60"),
            &line("app", "changed", "2 0 3 5 60"),
            &line("other", "gone", "2 0 3 10 60"),
        ]
        .concat(),
    );
    folder.file("own", [header, &line("own", "s1", "2 0 4 10 60")].concat());
    let socket = folder.0.join("socket");
    let (server, base) = (origin.address, folder.0.display());
    let edge = start(&format!(
        "global\n nbthread 1\n stats socket {} level admin\n server-state-base {base}\n server-state-file all\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nbackend app\n load-server-state-from-file global\n server maint {server}\n server drained {server} weight 10\n server light {server} weight 10\n server changed {server} weight 10\n server new {server} weight 10\nbackend own\n load-server-state-from-file local\n server-state-file-name own\n server s1 {server} weight 10\nbackend missing\n load-server-state-from-file local\n server-state-file-name nowhere\n server s1 {server}\nbackend without\n server maint {server}\nlisten site\n bind {front}\n server s1 {server}\n",
        socket.display()
    ))?;
    let found = states(&ask(&socket, "show servers state"));
    Some((found, edge.output().replace(&base.to_string(), "BASE")))
}

#[test]
fn states_are_taken_up() {
    let check = |(found, output): (Vec<String>, String)| {
        let expected = [
            "app maint 0 1 1 1",
            "app drained 2 8 10 10",
            "app light 2 0 3 10",
            "app changed 2 0 10 10",
            "app new 2 0 10 10",
            "own s1 2 0 4 10",
            "missing s1 2 0 1 1",
            "without maint 2 0 1 1",
            "site s1 2 0 1 1",
        ];
        assert_eq!(found, expected);
        assert!(
            output.contains("Proxy 'missing': Can't open server state file 'BASE/nowhere': No such file or directory."),
            "{output}"
        );
    };
    check(play(|config| Some(Edge::start_single(config))).unwrap());
    if let Some(theirs) = play(Edge::start_haproxy) {
        check(theirs);
    }
}

/// A port that was changed at run time outlives a restart.
#[test]
fn ports_are_taken_up() {
    let play = |start: fn(&str) -> Option<Edge>| {
        let (configured, saved) = (Origin::named("configured"), Origin::named("saved"));
        let (folder, front) = (Folder::new(), free_address());
        let line = |server: &str, port: u16| {
            let address = saved.address.ip();
            format!("2 site 1 {server} {address} 2 0 1 1 60 1 0 2 0 0 0 0 - {port} - 0 0 - - 0\n")
        };
        folder.file("all", ["1\n", &line("s1", saved.address.port()), &line("s2", 0)].concat());
        let (server, base) = (configured.address, folder.0.display());
        let _edge = start(&format!(
            "global\n nbthread 1\n server-state-base {base}\n server-state-file all\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n load-server-state-from-file global\nlisten site\n bind {front}\n use-server s2 if {{ path /two }}\n server s1 {server}\n server s2 {server}\n",
        ))?;
        Some(["/one", "/two"].map(|path| Wire::connect(front).get(path).text()))
    };
    assert_eq!(play(|config| Some(Edge::start_single(config))).unwrap(), ["saved", "configured"]);
    if let Some(theirs) = play(Edge::start_haproxy) {
        assert_eq!(theirs[0], "saved");
    }
}
