//! The log and the counters of `tidegate varnishd` beside those of Debian's varnishd: the same program of VCL, the same requests, read by
//! Debian's tools. Numbers of transactions, times, addresses and descriptors are masked; all else is the same.

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
backend default { .host = "127.0.0.1"; .port = "ORIGIN"; }
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
const REQUESTS: [&str; 25] = [
    "GET /a HTTP/1.1\r\nHost: x\r\nY: z\r\nConnection: close\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\n\r\n",
    "GET /pass HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, br\r\nConnection: close\r\n\r\n",
    "GET /synth HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /restart HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /hfm HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /hfm HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /gzip HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, br\r\nConnection: close\r\n\r\n",
    "GET /gzip HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    "GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=3-6\r\nConnection: close\r\n\r\n",
    "HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /etag HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /etag HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"x\"\r\nConnection: close\r\n\r\n",
    "GET /chunked HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /404 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /age HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /b HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "PURGE /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /hfp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /hfp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /down HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /retry HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /failed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /rewrite HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
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
        let vcl = folder.file("a.vcl", PROGRAM.replace("ORIGIN", &origin.address.port().to_string()));
        let workdir = folder.0.join("v");
        command.args(["-F", "-s", "malloc,16m", "-a", &front.to_string(), "-f"]).arg(vcl).arg("-n").arg(&workdir);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let instance = Self { child, front, workdir, _folder: folder };
        wait_within(Duration::from_secs(60), "it listens", || listens(front));
        instance
    }

    fn debians(origin: &Origin) -> Self {
        let mut command = Command::new("varnishd");
        command.args(["-j", "none", "-T", "127.0.0.1:0"]);
        Self::start(command, origin)
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

/// A group without what differs from run to run.
fn masked(group: &str) -> String {
    let mut numbers: Vec<String> = Vec::new();
    group.lines().map(|line| masked_line(line.trim_end(), &mut numbers) + "\n").collect()
}

fn masked_line(line: &str, numbers: &mut Vec<String>) -> String {
    let mut number = |number: &str| {
        let place = numbers.iter().position(|known| known == number).unwrap_or_else(|| {
            numbers.push(number.to_owned());
            numbers.len() - 1
        });
        format!("#{place}")
    };
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let Some(tag) = words.get(1).cloned() else { return line.to_owned() };
    match tag.as_str() {
        "<<" => words[4] = number(&words[4].clone()),
        "Begin" | "Link" => words[3] = number(&words[3].clone()),
        "Timestamp" => words.truncate(3),
        "ReqStart" => words[3] = "PORT".to_owned(),
        "SessOpen" => (3..9).filter(|at| *at != 4).for_each(|at| words[at] = "-".to_owned()),
        "SessClose" => words.truncate(3),
        "BackendOpen" => [2, 5, 7].into_iter().for_each(|at| words[at] = "-".to_owned()),
        "BackendClose" => words[2] = "-".to_owned(),
        "Hit" | "HitMiss" | "HitPass" => words[2..].iter_mut().for_each(|word| *word = "-".to_owned()),
        "TTL" => words.iter_mut().filter(|word| word.len() == 10).for_each(|word| *word = "TIME".to_owned()),
        _ if line.contains("Date: ") => words.truncate(3),
        _ if line.contains("X-Varnish: ") => words[3..].iter_mut().for_each(|word| *word = "-".to_owned()),
        // Numbers have as many digits as they happen to have.
        "ReqAcct" | "BereqAcct" => [2, 4, 5, 7].into_iter().for_each(|at| words[at] = "-".to_owned()),
        _ => {}
    }
    words.join(" ")
}

#[test]
fn records_are_those_of_varnish() {
    if !is_installed("varnishd") || !is_installed("varnishlog") {
        return;
    }
    let origin = origin();
    let read = |instance: &Instance| {
        for request in REQUESTS {
            instance.ask(request);
        }
        wait_until("all sessions have ended", || instance.sessions().len() == REQUESTS.len());
        instance.sessions()
    };
    let theirs = read(&Instance::debians(&origin));
    let ours = read(&Instance::ours(&origin));
    let different: Vec<String> = REQUESTS
        .iter()
        .zip(theirs.iter().zip(&ours))
        .filter_map(|(request, (theirs, ours))| {
            let (theirs, ours) = (masked(theirs), masked(ours));
            (theirs != ours).then(|| format!("{request}varnishd:\n{theirs}\ntidegate:\n{ours}\n"))
        })
        .collect();
    assert!(different.is_empty(), "{} sessions differ:\n{}", different.len(), different.join("\n"));
}
