//! The tools beside Debian's own, on the same running varnishd of Debian's: both print the same.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Debian's varnishd before an origin, until it is dropped.
struct Varnishd {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Drop for Varnishd {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// An origin that answers each request on a connection of its own.
fn origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend(&buffer[..count]),
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            let _ = stream.write_all(answer);
        }
    });
    port
}

impl Varnishd {
    /// Nothing if it is not installed.
    fn start() -> Option<Self> {
        if Command::new("varnishd").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            println!("varnishd is not installed (.ci/tools installs it): not tested");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let vcl = folder.path().join("a.vcl");
        let program = format!(
            r#"vcl 4.1; import std;
            backend default {{ .host = "127.0.0.1"; .port = "{}"; }}
            sub vcl_recv {{
                std.log("key:value of " + req.url);
                if (req.url ~ "^/pass") {{ return (pass); }}
                if (req.url ~ "^/synth") {{ return (synth(404, "Nope")); }}
                if (req.url ~ "^/again" && req.restarts == 0) {{ return (restart); }}
            }}"#,
            origin()
        );
        std::fs::write(&vcl, program).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("varnishd");
        command.args(["-F", "-j", "none", "-T", "127.0.0.1:0", "-p", "vsl_mask=+Debug,+Hash", "-a"]);
        command.arg(format!("127.0.0.1:{port}")).arg("-f").arg(&vcl).arg("-n").arg(folder.path().join("v"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let varnishd = Self { child, folder, port };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "varnishd does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(varnishd)
    }

    fn instance(&self) -> PathBuf {
        self.folder.path().join("v")
    }

    /// Requests, and a wait until the session's end is in the log.
    fn traffic(&self) {
        let paths = ["/one", "/one", "/two?a=b", "/pass", "/synth", "/again"];
        for path in paths {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: example.com\r\nUser-Agent: te\"st\r\nAuthorization: Basic dXNlcjpwYXNz\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        let sessions = || {
            run(Command::new("varnishlog").arg("-n").arg(self.instance()).args([
                "-d",
                "-g",
                "session",
                "-i",
                "SessClose",
            ]))
        };
        while sessions().matches("SessClose").count() <= paths.len() {
            assert!(Instant::now() < until, "sessions do not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ours(tool: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg(tool);
    command
}

#[track_caller]
fn check_same(tool: &str, instance: &Path, options: &[&str]) {
    let expected = run(Command::new(tool).arg("-n").arg(instance).args(options));
    let found = run(ours(tool).arg("-n").arg(instance).args(options));
    assert!(!expected.is_empty(), "{tool} {options:?} prints nothing");
    if expected != found {
        let line = expected.lines().zip(found.lines()).position(|(left, right)| left != right).unwrap_or(0);
        let near = |text: &str| text.lines().skip(line.saturating_sub(3)).take(8).collect::<Vec<_>>().join("\n");
        panic!("{tool} {options:?}: line {line}\n--- Debian's\n{}\n--- ours\n{}", near(&expected), near(&found));
    }
}

#[test]
fn both_print_the_same() {
    let Some(varnishd) = Varnishd::start() else { return };
    varnishd.traffic();
    let instance = varnishd.instance();
    let logs: &[&[&str]] = &[
        &["-d"],
        &["-d", "-g", "request"],
        &["-d", "-g", "session"],
        &["-d", "-g", "vxid", "-v"],
        &["-d", "-g", "request", "-c"],
        &["-d", "-b"],
        &["-d", "-i", "ReqURL,Resp*"],
        &["-d", "-x", "*Header", "-g", "request"],
        &["-d", "-I", "ReqHeader:^Host", "-g", "request"],
        &["-d", "-X", "Timestamp:Start", "-i", "Timestamp"],
        &["-d", "-C", "-I", "EXAMPLE"],
        &["-d", "-g", "request", "-q", "ReqURL eq '/one'"],
        &["-d", "-g", "request", "-q", "RespStatus >= 400 or ReqURL ~ pass"],
        &["-d", "-g", "request", "-q", "{2+}BereqMethod eq GET and not Timestamp:Start[3] > 10."],
        &["-d", "-q", "vxid >= 2"],
        &["-d", "-k", "3"],
    ];
    for options in logs {
        check_same("varnishlog", &instance, options);
    }
    let lines: &[&[&str]] = &[
        &["-d"],
        &["-d", "-b"],
        &["-d", "-b", "-c", "-g", "request"],
        &["-d", "-F", "%h %l %u %t %r %s %b %I %O %m %H %U %q %{Host}i %{Server}o %{nope}i"],
        &[
            "-d",
            "-F",
            "%{Varnish:hitmiss}x %{Varnish:handling}x %{Varnish:side}x %{Varnish:vxid}x %{Varnish:time_firstbyte}x",
        ],
        &[
            "-d",
            "-F",
            "%{VCL_Log:key}x\\t%{VSL:Timestamp:Start[1]}x %{VSL:ReqAcct[3]}x %{VSL:TTL}x %{%Y-%m-%d %H:%M:%S %j %a %B}t %{sec}t %T",
        ],
        &["-d", "-j", "-F", "{\"a\": \"%{User-Agent}i\", \"b\": %b, \"c\": \"%{x}i\"}"],
        &["-d", "-q", "ReqURL ~ two"],
    ];
    for options in lines {
        check_same("varnishncsa", &instance, options);
    }
    // What one writes the other reads.
    let file = varnishd.folder.path().join("log");
    let read = |command: &mut Command| run(command.arg("-r").arg(&file).args(["-g", "request"]));
    run(Command::new("varnishlog").arg("-n").arg(&instance).arg("-d").arg("-w").arg(&file));
    let (expected, found) = (read(&mut Command::new("varnishlog")), read(&mut ours("varnishlog")));
    assert_eq!(expected, found);
    run(ours("varnishlog").arg("-n").arg(&instance).arg("-d").arg("-w").arg(&file));
    assert_eq!(read(&mut Command::new("varnishlog")), read(&mut ours("varnishlog")));
    assert_eq!(read(&mut Command::new("varnishlog")), expected);
}

#[test]
fn counters_and_commands() {
    let Some(varnishd) = Varnishd::start() else { return };
    varnishd.traffic();
    let instance = varnishd.instance();
    let json = |command: &mut Command| -> serde_json::Value {
        serde_json::from_str(&run(command.arg("-n").arg(&instance).args(["-1", "-j"]))).unwrap()
    };
    let (theirs, ours_now) = (json(&mut Command::new("varnishstat")), json(&mut ours("varnishstat")));
    let (theirs, found) = (theirs["counters"].as_object().unwrap(), ours_now["counters"].as_object().unwrap());
    assert_eq!(theirs.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    for (name, counter) in theirs {
        for key in ["description", "flag", "format"] {
            assert_eq!(counter[key], found[name][key], "{name}");
        }
    }
    assert_eq!(theirs["MAIN.client_req"]["value"], found["MAIN.client_req"]["value"]);
    check_same("varnishstat", &instance, &["-1", "-f", "MAIN.cache_*", "-f", "VBE.*.req"]);
    check_same("varnishstat", &instance, &["-1", "-I", "SMA.*", "-X", "*"]);

    // `tidegate status` has the same figures, and asks about the backends.
    let status = |arguments: &[&str]| run(ours("status").arg("-n").arg(&instance).args(arguments));
    let overview: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
    for (key, counter) in [("requests", "MAIN.client_req"), ("passes", "MAIN.s_pass"), ("objects", "MAIN.n_object")] {
        assert_eq!(overview[key], theirs[counter]["value"], "{key}: {overview}");
    }
    assert_eq!(overview["worker"], "running");
    let backend = &overview["backends"][0];
    assert_eq!((&backend["name"], &backend["health"]), (&"boot.default".into(), &"healthy".into()), "{overview}");
    let text = status(&[]);
    assert!(text.starts_with(&format!("Cache {} serves, up ", instance.display())), "{text}");
    assert!(text.contains("boot.default  healthy  none"), "{text}");

    for command in
        [&["status"][..], &["vcl.list"], &["param.show", "default_ttl"], &["-p", "ban.list"], &["vcl.show", "boot"]]
    {
        check_same("varnishadm", &instance, command);
    }
    let failed = ours("varnishadm").arg("-n").arg(&instance).args(["vcl.use", "nope"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&failed.stderr), "Command failed with error code 106\n");
    let mut piped =
        ours("varnishadm").arg("-n").arg(&instance).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let commands = b"vcl.inline other << END\nvcl 4.1;\nbackend default none;\nEND\nvcl.use other\n";
    piped.stdin.take().unwrap().write_all(commands).unwrap();
    let output = piped.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("VCL 'other' now active"), "{output:?}");
}
