//! `tidegate ctl` as a shell at a terminal, and plain words.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use support::{Edge, Folder, free_address, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// A shell behind a terminal, which util-linux' `script` makes.
struct Shell {
    child: Child,
    typed: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Shell {
    fn start(run: &Path, history: &Path) -> Self {
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{PROGRAM} ctl"), "/dev/null"]).env("TERM", "xterm");
        command.env("TIDEGATE_RUN_DIR", run).env("TIDEGATE_CTL_HISTORY", history);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("script(1)");
        let (typed, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown: Arc<Mutex<String>> = Arc::default();
        let copy = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        let mut shell = Self { child, typed, shown };
        shell.sees("edge> ");
        shell
    }

    /// Waits for a text, and forgets what was shown up to it.
    fn sees(&mut self, text: &str) {
        let shown = Arc::clone(&self.shown);
        wait_until(&format!("{text:?} is shown"), || {
            let mut shown = shown.lock().unwrap();
            let found = shown.find(text);
            if let Some(at) = found {
                *shown = shown.split_off(at + text.len());
            }
            found.is_some()
        });
    }

    fn types(&mut self, text: &str) {
        self.typed.write_all(text.as_bytes()).unwrap();
        self.typed.flush().unwrap();
    }
}

fn edge() -> (Edge, Folder) {
    let (folder, run) = (Folder::new(), Folder::new());
    let config = format!(
        "global\n stats socket {}/stats level admin\n nbthread 2\ndefaults\n mode http\n timeout client 5s\n timeout connect 1s\n \
         timeout server 5s\nfrontend www\n bind {}\n use_backend docs if {{ path_beg /docs }}\n default_backend app\nbackend app\n server \
         one {} weight 7\nbackend docs\n root {}\n",
        folder.0.display(),
        free_address(),
        free_address(),
        folder.0.display()
    );
    let path = folder.file("haproxy.cfg", config);
    let edge = Edge::spawn_in(&run.0, PROGRAM, &["edge"], path, folder);
    wait_until("it can be asked", || {
        ctl(&run.0, &["show", "version"], "").0 == 0 || edge.has_ended() && panic!("{}", edge.output())
    });
    (edge, run)
}

fn ctl(run: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("ctl").args(words).env("TIDEGATE_RUN_DIR", run).env_remove("TIDEGATE_STATS_SOCKET");
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_shell_completes_names_of_the_running_process() {
    let (_edge, run) = edge();
    let history = run.0.join("history");
    let mut shell = Shell::start(&run.0, &history);
    shell.types("get weight app/o\t");
    shell.sees("get weight app/one");
    shell.types("\r");
    shell.sees("7 (initial 7)");
    shell.types("upti\t\r");
    shell.sees("Tidegate ");
    // What is wrong is said, and the shell goes on; a mode is about the commands behind it.
    shell.types("set var proc.x int(5)\r");
    shell.sees("restricted to experimental mode");
    shell.types("experimental-mode on\rset var proc.x int(5)\rget var proc.x\r");
    shell.sees("value=<5>");
    // What is pasted is carried out line by line.
    shell.types("\x1b[200~get weight app/one\nuptime\x1b[201~\r");
    shell.sees("7 (initial 7)");
    shell.sees("Tidegate ");
    // Ctrl-C ends a command that does not end by itself, and not the shell.
    shell.types("show events buf0 -w\r");
    shell.sees("\x1b[?2004l");
    let shown = Arc::clone(&shell.shown);
    // What is typed right behind Ctrl-C is dropped, as terminals do.
    wait_until("the shell takes commands again", || {
        shell.types("\x03");
        std::thread::sleep(std::time::Duration::from_millis(50));
        shell.types("get weight app/one\r");
        shown.lock().unwrap().contains("7 (initial 7)")
    });
    // Nobody is there; another room's command from here.
    shell.types("store --\r");
    shell.sees("the store at 127.0.0.1:6379");
    shell.types("quit\r");
    wait_until("it ends", || shell.child.try_wait().unwrap().is_some());
    assert!(shell.child.wait().unwrap().success());
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("get weight app/one") && kept.contains("uptime"), "{kept}");
}

#[test]
fn plain_words_are_answered_in_tables() {
    let (_edge, run) = edge();
    for (word, parts) in [
        ("uptime", &["Tidegate ", "threads       2"][..]),
        ("workers", &["  THREAD  CONNECTIONS", "\n  1 ", "\n  2 "]),
        ("connections", &["connections now of", "\n  www "]),
        ("servers", &["\n    app/one  no check  7 "]),
        (
            "routes",
            &[
                "frontend www\n",
                "use_backend      docs if { path_beg /docs }\n",
                "default_backend  app\n",
                "backend docs\n  files ",
            ],
        ),
        ("memory", &["in memory now"]),
        ("plugins", &["\n"]),
    ] {
        let (code, told, errors) = ctl(&run.0, &[word], "");
        assert!(code == 0 && errors.is_empty(), "{word}: {errors}");
        for part in parts {
            assert!(told.contains(part), "{word}, {part:?}: {told}");
        }
        assert!(told.lines().all(|line| line.len() <= 80 || word == "routes"), "{told}");
    }
    // Of a pipe, line by line, with the exit status of all.
    let (code, told, errors) = ctl(&run.0, &[], "workers\n# a remark\nget weight app/one\nedge get weight app/no\n");
    assert!(code == 1 && told.ends_with("7 (initial 7)\n") && errors == "No such server.\n", "{told}{errors}");
    let (code, told, _) = ctl(&run.0, &[], "help get weight\nquit\nget weight app/one\n");
    assert_eq!((code, told.contains("get weight <bk>/<srv>"), told.contains("initial")), (0, true, false), "{told}");
}

#[test]
fn haproxy_is_asked_in_plain_words_too() {
    let config = format!(
        "global\n stats socket %FOLDER%/stats level admin\n nbthread 2\ndefaults\n mode http\n timeout client 5s\n timeout connect 1s\n \
         timeout server 5s\nfrontend www\n bind {}\n default_backend app\nbackend app\n server one {}\n",
        free_address(),
        free_address()
    );
    let Some(theirs) = Edge::start_haproxy(&config) else { return };
    let socket = theirs.folder.0.join("stats").display().to_string();
    let run = Folder::new();
    for (word, part) in [
        ("uptime", "HAProxy 2."),
        ("workers", "\n  2 "),
        ("connections", "\n  www "),
        ("routes", "app/one"),
        ("plugins", "no plugins"),
        ("memory", "in memory now"),
    ] {
        let (code, told, errors) = ctl(&run.0, &["--socket", &socket, word], "");
        assert!(code == 0 && told.contains(part), "{word}: {told}{errors}");
    }
}
