//! The log and the counters of `tidegate varnishd`, read by Debian's tools.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use support::{Origin, VarnishInstance, is_installed, wait_until};

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

fn ask(front: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(front).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn debians_tools_read_the_log_and_the_counters() {
    if !is_installed("varnishlog") || !is_installed("varnishstat") || !is_installed("varnishncsa") {
        return;
    }
    let origin = origin();
    let instance = VarnishInstance::ours(PROGRAM, &[], &origin);
    for request in REQUESTS {
        ask(instance.front, request);
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

/// HTTP/2 is not spoken: its preface ends the connection without a word, on a connection that was used before too. What only begins like
/// it is no request.
#[test]
fn http2_is_ended_as_in_varnish() {
    if !is_installed("varnishlog") || !is_installed("varnishstat") {
        return;
    }
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let origin = origin();
    let check = |instance: &VarnishInstance| {
        assert_eq!(ask(instance.front, PREFACE), "");
        let answer = ask(instance.front, &format!("GET /a HTTP/1.1\r\nHost: x\r\n\r\n{PREFACE}"));
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        assert_eq!(ask(instance.front, "PRI * HTTP/2.0\r\nHost: a\r\n\r\n"), "HTTP/1.1 400 Bad Request\r\n\r\n");
        wait_until("the sessions have ended", || instance.counters().get("MAIN.sc_req_http20") == Some(&2));
        let sessions = instance.sessions();
        let ended: Vec<&String> = sessions.iter().filter(|session| session.contains("REQ_HTTP20")).collect();
        assert_eq!(ended.len(), 2, "{sessions:?}");
        assert!(!ended.iter().any(|session| session.contains("HttpGarbage")), "{ended:?}");
    };
    check(&VarnishInstance::ours(PROGRAM, &[], &origin));
    if is_installed("/usr/sbin/varnishd") {
        check(&VarnishInstance::theirs(PROGRAM, &[], &origin));
    }
}
