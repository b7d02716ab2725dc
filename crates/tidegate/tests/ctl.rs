//! `tidegate ctl` in socat's place: finds the stats socket, tells errors from answers, sends contents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use support::{Authority, Edge, Folder, Wanted, free_address, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// The exit code, standard output and standard error of a command whose standard input is `input`.
fn ctl(run: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("ctl").args(words).env("TIDEGATE_RUN_DIR", run).env_remove("TIDEGATE_STATS_SOCKET");
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    // A command that reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn config(name: &str) -> String {
    let front = free_address();
    format!(
        "global\n stats socket %FOLDER%/user level user\n stats socket %FOLDER%/{name} mode 600 level admin\ndefaults\n mode http\n \
         timeout client 5s\n timeout connect 1s\n timeout server 5s\nfrontend f\n bind {front}\n use_backend \
         %[path,map(%FOLDER%/paths.map)]\n default_backend b\nbackend b\n server one {} weight 7\n",
        free_address()
    )
}

/// An edge with a map, and the folder of its run file.
fn edge() -> (Edge, Folder) {
    let (folder, run) = (Folder::new(), Folder::new());
    folder.file("paths.map", "/a b\n");
    let path = folder.file("haproxy.cfg", config("stats").replace("%FOLDER%", &folder.0.display().to_string()));
    let edge = Edge::spawn_in(&run.0, PROGRAM, &["edge"], path, folder);
    wait_until("it can be found", || {
        ctl(&run.0, &["show", "version"], "").0 == 0 || edge.has_ended() && panic!("{}", edge.output())
    });
    (edge, run)
}

#[test]
fn the_socket_of_the_running_edge_is_found() {
    let (edge, run) = edge();
    let run = &run.0;
    let fine = |text: &str| (0, text.to_owned(), String::new());
    let refused = |text: &str| (1, String::new(), text.to_owned());
    assert_eq!(ctl(run, &["get", "weight", "b/one"], ""), fine("7 (initial 7)\n"));
    assert_eq!(ctl(run, &["set", "weight", "b/one", "3"], ""), fine(""));
    assert_eq!(ctl(run, &["get weight b/one; get weight b/one"], ""), fine("3 (initial 7)\n\n3 (initial 7)\n"));
    assert_eq!(ctl(run, &["disable", "server", "b/two"], ""), refused("No such server.\n"));
    let both = ctl(run, &["disable server b/two; get weight b/one"], "");
    assert_eq!((both.0, both.1.trim_start(), both.2.as_str()), (1, "3 (initial 7)\n", "No such server.\n"));
    let unknown = ctl(run, &["no-command"], "");
    assert!(unknown.0 == 1 && unknown.1.is_empty() && unknown.2.starts_with("Unknown command"), "{unknown:?}");
    // Lines of standard input; a word with a blank; contents.
    assert_eq!(
        ctl(run, &[], "get weight b/one\nget weight b/no\n"),
        (1, "3 (initial 7)\n".into(), "No such server.\n".into())
    );
    let map = format!("{}", edge.folder.0.join("paths.map").display());
    assert_eq!(ctl(run, &["add", "map", &map, "/x y", "a value"], ""), fine(""));
    assert_eq!(ctl(run, &["add", "map", &map], "/c d\n\n/e f\n"), fine(""));
    let (_, entries, _) = ctl(run, &["show", "map", &map], "");
    for entry in ["/a b\n", "/x y a value\n", "/c d\n", "/e f\n"] {
        assert!(entries.contains(entry), "{entry}: {entries}");
    }
    // Other ways to name it.
    let user = format!("unix@{}", edge.folder.0.join("user").display());
    assert_eq!(ctl(run, &["--socket", &user, "disable", "server", "b/one"], ""), refused("Permission denied\n"));
    assert_eq!(ctl(run, &["--pid", &edge.pid().to_string(), "set weight b/one 7"], ""), fine(""));
    let nowhere = Folder::new();
    assert_eq!(
        ctl(&nowhere.0, &["-f", edge.config.to_str().unwrap(), "get weight b/one"], ""),
        fine("7 (initial 7)\n")
    );
    let none = ctl(&nowhere.0, &["show info"], "");
    assert!(none.0 == 1 && none.2.contains("--socket PATH") && none.2.contains("add `stats socket"), "{none:?}");
    let absent = ctl(&nowhere.0, &["--socket", "/nothing/there", "show info"], "");
    assert!(absent.0 == 1 && absent.2.contains("/nothing/there: there is no such socket"), "{absent:?}");

    // A reload that moves the socket is followed.
    let moved = std::fs::read_to_string(&edge.config).unwrap().replace("/stats mode", "/moved mode");
    std::fs::write(&edge.config, moved).unwrap();
    let reloaded = Command::new(PROGRAM).args(["reload", "--pid", &edge.pid().to_string()]).output().unwrap();
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(ctl(run, &["get", "weight", "b/one"], ""), fine("7 (initial 7)\n"));
    assert!(edge.folder.0.join("moved").exists());
}

#[test]
fn a_certificate_comes_from_standard_input() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted { names: &["old.test"], ..Wanted::default() });
    authority.certify("new.pem", &Wanted { names: &["new.test"], ..Wanted::default() });
    let (old, new) = (authority.path("site.pem"), authority.path("new.pem"));
    let front = free_address();
    let run = Folder::new();
    let folder = Folder::new();
    let (old, new) = (old.display().to_string(), std::fs::read_to_string(new).unwrap());
    let config = format!(
        "global\n stats socket {}/stats level admin\ndefaults\n mode http\n timeout client 5s\nfrontend f\n bind {front} ssl crt {old}\n \
         http-request return status 204\n",
        folder.0.display()
    );
    let path = folder.file("haproxy.cfg", config);
    let edge = Edge::spawn_in(&run.0, PROGRAM, &["edge"], path, folder);
    wait_until("it can be found", || {
        ctl(&run.0, &["show", "version"], "").0 == 0 || edge.has_ended() && panic!("{}", edge.output())
    });
    // Files of certificates have empty lines, as those of Let's Encrypt.
    let (code, said, errors) = ctl(&run.0, &["set", "ssl", "cert", &old], &new.replace("-----BEGIN", "\n-----BEGIN"));
    assert!(code == 0 && said.contains("Transaction created"), "{said}{errors}");
    let (code, said, errors) = ctl(&run.0, &["commit", "ssl", "cert", &old], "");
    assert!(code == 0 && said.contains("Success!"), "{said}{errors}");
    let (_, shown, _) = ctl(&run.0, &["show", "ssl", "cert", &old], "");
    assert!(shown.contains("new.test"), "{shown}");
    let (code, _, errors) = ctl(&run.0, &["set", "ssl", "cert", "unknown.pem"], &new);
    assert!(code == 1 && !errors.is_empty(), "{errors}");
}

#[test]
fn haproxys_errors_are_told_too() {
    let Some(theirs) = Edge::start_haproxy(&config("stats").replace("[path,map(%FOLDER%/paths.map)]", "[str(b)]"))
    else {
        return;
    };
    let (run, socket) = (Folder::new(), theirs.folder.0.join("stats").display().to_string());
    let ask = |words: &[&str]| ctl(&run.0, &[&["--socket", &socket], words].concat(), "");
    assert_eq!(ask(&["get", "weight", "b/one"]), (0, "7 (initial 7)\n".into(), String::new()));
    assert_eq!(ask(&["disable", "server", "b/two"]), (1, String::new(), "No such server.\n".into()));
    assert_eq!(ask(&["no-command"]).0, 1);
    assert_eq!(ask(&["show", "version"]).0, 0);
}
