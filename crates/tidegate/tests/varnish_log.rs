//! The log and the counters of `tidegate varnishd`, read by Debian's tools.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use support::{Folder, Origin, free_address, listens, wait_until, wait_within};

const PROGRAM: &str = r#"
vcl 4.1;
import std;
backend default { .host = "HOST"; .port = "ORIGIN"; }
backend down { .host = "127.0.0.1"; .port = "1"; }
sub vcl_recv {
    std.log("told: " + req.url);
    set req.http.X = "1";
    unset req.http.Y;
    if (req.url ~ "^/synth") { return (synth(700, "foo")); }
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/down") { set req.backend_hint = down; }
    if (req.url ~ "^/failed") { return (fail); }
    if (req.url ~ "^/rewrite") { set req.url = "/rewritten?x"; }
    if (req.method == "PURGE") { return (purge); }
}
sub vcl_backend_fetch {
    if (bereq.url ~ "^/rewritten") { set bereq.http.Z = "q"; set bereq.url = "/zz"; }
}
sub vcl_backend_response {
    if (bereq.url ~ "^/gzip") { set beresp.do_gzip = true; }
    if (bereq.url ~ "^/hfm") { set beresp.uncacheable = true; }
    if (bereq.url ~ "^/hfp") { return (pass(7s)); }
    if (bereq.url ~ "^/retry" && bereq.retries == 0) { return (retry); }
    set beresp.ttl = 50s;
}
sub vcl_deliver {
    if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
    set resp.http.A = "b";
}
"#;

/// Requests, each on a connection of its own.
const REQUESTS: [&str; 4] = [
    "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /pass HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /synth HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
];

fn origin() -> Origin {
    Origin::answering(|request| {
        let mut words = request.start_line().split(' ');
        let (_, path) = (words.next(), words.next().unwrap().to_owned());
        let body = "hello world ".repeat(10);
        let status = if path == "/404" { "404 Not Found" } else { "200 OK" };
        let date = "Date: Mon, 23 Nov 2026 16:20:53 GMT\r\n";
        let more = match path.as_str() {
            "/etag" => "ETag: \"x\"\r\n",
            "/age" => "Cache-Control: max-age=170\r\nAge: 3\r\n",
            "/chunked" => {
                let head = format!("HTTP/1.1 200 OK\r\n{date}Transfer-Encoding: chunked\r\n\r\n");
                return format!("{head}5\r\nhello\r\n0\r\n\r\n").into_bytes();
            }
            _ => "",
        };
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{date}{more}Content-Length: {length}\r\nContent-Type: text/html\r\n\r\n{body}")
            .into_bytes()
    })
}

fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("{tool} is not installed (.ci/tools installs it): not tested");
    }
    found
}

/// An instance of a varnishd, until it is dropped.
struct Instance {
    child: Child,
    front: SocketAddr,
    workdir: PathBuf,
    _folder: Folder,
}

impl Drop for Instance {
    fn drop(&mut self) {
        support::signal_process(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Instance {
    fn start(mut command: Command, origin: &Origin) -> Self {
        let (folder, front) = (Folder::new(), free_address());
        let vcl = folder.file(
            "a.vcl",
            PROGRAM
                .replace("HOST", &origin.address.ip().to_string())
                .replace("ORIGIN", &origin.address.port().to_string()),
        );
        let workdir = folder.0.join("v");
        command.args(["-F", "-s", "malloc,16m", "-a", &front.to_string(), "-f"]).arg(vcl).arg("-n").arg(&workdir);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let instance = Self { child, front, workdir, _folder: folder };
        wait_within(Duration::from_secs(60), "it listens", || listens(front));
        instance
    }

    fn ours(origin: &Origin) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("varnishd");
        Self::start(command, origin)
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.front).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tool(&self, tool: &str, arguments: &[&str]) -> String {
        tool_at(&self.workdir, tool, arguments)
    }

    /// The sessions with requests, each with all that belongs to it.
    fn sessions(&self) -> Vec<String> {
        let log = self.tool("varnishlog", &["-d", "-g", "session"]);
        log.split("\n\n").filter(|group| group.contains("ReqURL")).map(str::to_owned).collect()
    }

    fn counters(&self) -> HashMap<String, u64> {
        let lines = self.tool("varnishstat", &["-1"]);
        let counter = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        };
        lines.lines().filter_map(counter).collect()
    }
}

fn tool_at(workdir: &Path, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).arg("-n").arg(workdir).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn debians_tools_read_the_log_and_the_counters() {
    if !is_installed("varnishlog") || !is_installed("varnishstat") || !is_installed("varnishncsa") {
        return;
    }
    let origin = origin();
    let instance = Instance::ours(&origin);
    for request in REQUESTS {
        instance.ask(request);
    }
    wait_until("all sessions have ended", || instance.sessions().len() == REQUESTS.len());
    let sessions = instance.sessions();
    for (session, records) in sessions.iter().zip([
        ["VCL_return     fetch", "BackendOpen", "VCL_Log        told: /a", "Storage        malloc s0"],
        ["Hit            ", "VCL_call       HIT", "RespHeader     A: b", "ReqAcct"],
        ["Link           bereq", "VCL_call       PASS", "VCL_call       BACKEND_RESPONSE", "BereqAcct"],
        ["RespStatus     700", "RespReason     foo", "VCL_call       SYNTH", "SessClose      REQ_CLOSE"],
    ]) {
        for record in records {
            assert!(session.contains(record), "no {record}:\n{session}");
        }
    }
    let lines = instance.tool("varnishncsa", &["-d"]);
    assert_eq!(lines.lines().count(), REQUESTS.len(), "{lines}");
    let expected = [("MAIN.client_req", 4), ("MAIN.cache_hit", 1), ("MAIN.cache_miss", 1), ("MAIN.s_pass", 1)];
    wait_until("the counters have been published", || {
        let counters = instance.counters();
        expected.iter().all(|(name, value)| counters.get(*name) == Some(value))
    });
}
