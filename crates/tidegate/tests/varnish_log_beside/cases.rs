//! What is played: a program, what clients send, and what the origin answers.

use crate::support::Wire;

pub const PROGRAM: &str = r#"
vcl 4.1;
import std;
backend default { .host = "HOST"; .port = "ORIGIN"; }
backend down { .host = "127.0.0.1"; .port = "1"; }
backend nowhere none;
acl locals { "localhost"; "127.0.0.0"/8; }
acl strangers { "192.0.2.0"/24; }
sub vcl_recv {
    if (req.url ~ "^/log") { std.log("told: " + req.url); }
    if (req.url ~ "^/synth") { return (synth(700, "foo")); }
    if (req.url ~ "^/plain-synth") { return (synth(404)); }
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/pipe") { return (pipe); }
    if (req.url ~ "^/down") { set req.backend_hint = down; }
    if (req.url ~ "^/none") { set req.backend_hint = nowhere; }
    if (req.url ~ "^/failed") { return (fail); }
    if (req.url ~ "^/again" && req.restarts == 0) { return (restart); }
    if (req.url ~ "^/forever") { return (restart); }
    if (req.url ~ "^/always-miss") { set req.hash_always_miss = true; }
    if (req.url ~ "^/rewrite") {
        set req.url = "/rewritten?x";
        set req.http.X = "1";
        set req.http.X = "2";
        unset req.http.Y;
        unset req.http.Absent;
        set req.http.Two = req.http.X + "-" + req.http.Z;
        set req.method = "GET";
    }
    if (req.url ~ "^/acl" && (client.ip ~ strangers || client.ip ~ locals)) { set req.http.Local = "yes"; }
    if (req.url ~ "^/cookie") { unset req.http.Cookie; }
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") {
        ban("req.url == " + req.http.What);
        return (synth(200, "Banned"));
    }
}
sub vcl_backend_fetch {
    if (bereq.url ~ "^/rewritten") { set bereq.http.Z = "q"; set bereq.url = "/zz"; unset bereq.http.X; }
    if (bereq.url ~ "^/abandon-early") { return (abandon); }
}
sub vcl_backend_response {
    if (bereq.url ~ "^/gzip") { set beresp.do_gzip = true; }
    if (bereq.url ~ "^/gunzip") { set beresp.do_gunzip = true; }
    if (bereq.url ~ "^/esi") { set beresp.do_esi = true; }
    if (bereq.url ~ "^/whole") { set beresp.do_stream = false; }
    if (bereq.url ~ "^/hfm") { set beresp.uncacheable = true; return (deliver); }
    if (bereq.url ~ "^/hfp") { return (pass(7s)); }
    if (bereq.url ~ "^/retry" && bereq.retries == 0) { return (retry); }
    if (bereq.url ~ "^/abandoned") { return (abandon); }
    if (bereq.url ~ "^/error") { return (error(555, "Made")); }
    if (bereq.url ~ "^/fail-response") { return (fail); }
    if (bereq.url ~ "^/stale") { set beresp.ttl = 0.001s; set beresp.grace = 1h; return (deliver); }
    if (bereq.url ~ "^/lives") { set beresp.ttl = 50s; set beresp.grace = 5s; set beresp.keep = 1m; }
    if (bereq.url ~ "^/validated") { set beresp.ttl = 0.001s; set beresp.grace = 0s; set beresp.keep = 1h; return (deliver); }
    if (bereq.url ~ "^/changed") {
        set beresp.http.New = "1"; unset beresp.http.Server; set beresp.status = 203; set beresp.reason = "Mine";
    }
}
sub vcl_deliver {
    if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
    if (req.url ~ "^/deliver-synth") { return (synth(418, "Pot")); }
    if (req.url ~ "^/log") { set resp.http.A = "b"; unset resp.http.Server; set resp.status = 201; }
}
sub vcl_synth {
    if (resp.reason == "Pot") { set resp.http.Content-Type = "text/plain"; synthetic("short"); return (deliver); }
}
"#;

/// Requests of one connection.
pub struct Case {
    pub name: &'static str,
    pub requests: &'static [&'static str],
    /// The client closes its half behind them.
    pub shuts: bool,
}

macro_rules! one {
    ($name:literal $line:literal $($fields:literal)?) => {
        Case {
            name: $name,
            requests: &[concat!($line, " HTTP/1.1\r\nHost: example.com\r\n", $($fields,)? "Connection: close\r\n\r\n")],
            shuts: false,
        }
    };
}

pub const CASES: &[Case] = &[
    one!("miss" "GET /a" "User-Agent: test\r\n"),
    one!("hit" "GET /a" "User-Agent: test\r\n"),
    one!("another host" "GET /a?b=c" "X-Forwarded-For: 192.0.2.1\r\n"),
    one!("said and changed in deliver" "GET /log"),
    one!("pass" "GET /pass"),
    Case {
        name: "post",
        requests: &["POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"],
        shuts: false,
    },
    Case {
        name: "post in chunks",
        requests: &[
            "POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ],
        shuts: false,
    },
    one!("cookie" "GET /private" "Cookie: a=b\r\n"),
    one!("cookie removed" "GET /cookie" "Cookie: a=b\r\n"),
    one!("authorization" "GET /private" "Authorization: Basic eA==\r\n"),
    one!("synth" "GET /synth"),
    one!("synth with Varnish's page" "GET /plain-synth"),
    one!("synth from deliver" "GET /deliver-synth"),
    one!("failed in recv" "GET /failed"),
    one!("restart from recv" "GET /again"),
    one!("restart from deliver" "GET /restart"),
    one!("too many restarts" "GET /forever"),
    one!("retry" "GET /retry"),
    one!("rewritten" "POST /rewrite" "Y: 1\r\nZ: 2\r\nContent-Length: 0\r\n"),
    one!("acl" "GET /acl"),
    one!("not found" "GET /404"),
    one!("no content" "GET /204"),
    one!("not cacheable by head" "GET /private-response"),
    one!("set-cookie" "GET /set-cookie"),
    one!("set-cookie again" "GET /set-cookie"),
    one!("aged" "GET /age"),
    one!("expires" "GET /expires"),
    one!("lives as the program says" "GET /lives"),
    one!("changed" "GET /changed"),
    one!("hit for miss is made" "GET /hfm"),
    one!("hit for miss" "GET /hfm"),
    one!("hit for pass is made" "GET /hfp"),
    one!("hit for pass" "GET /hfp"),
    one!("always miss" "GET /always-miss"),
    one!("always miss again" "GET /always-miss"),
    one!("stale" "GET /stale"),
    one!("grace and fetch in the background" "GET /stale"),
    one!("to be validated" "GET /validated"),
    one!("validated" "GET /validated"),
    one!("has a validator" "GET /etag"),
    one!("not modified" "GET /etag" "If-None-Match: \"x\"\r\n"),
    one!("modified" "GET /etag" "If-None-Match: \"y\"\r\n"),
    one!("not modified since" "GET /etag" "If-Modified-Since: Mon, 23 Nov 2026 16:20:53 GMT\r\n"),
    one!("range" "GET /a" "Range: bytes=1-3\r\n"),
    one!("open range" "GET /a" "Range: bytes=5-\r\n"),
    one!("range that does not lie in it" "GET /a" "Range: bytes=1000-\r\n"),
    one!("range of what is not there" "GET /range-miss" "Range: bytes=1-3\r\n"),
    one!("head of what is there" "HEAD /a"),
    one!("head of what is not there" "HEAD /head"),
    one!("head passed" "HEAD /pass"),
    one!("options" "OPTIONS /options"),
    one!("unknown method" "FETCH /method"),
    one!("purge" "PURGE /a"),
    one!("after the purge" "GET /a"),
    one!("ban" "BAN /" "What: /a\r\n"),
    one!("after the ban" "GET /a"),
    one!("vary" "GET /vary" "X: 1\r\n"),
    one!("vary, other" "GET /vary" "X: 2\r\n"),
    one!("vary, known" "GET /vary" "X: 1\r\n"),
    one!("no connection" "GET /down"),
    one!("no backend" "GET /none"),
    one!("backend closes" "GET /gone"),
    one!("backend speaks rubbish" "GET /junk"),
    one!("backend breaks off" "GET /short"),
    one!("backend breaks off, whole" "GET /whole-short"),
    one!("error from response" "GET /error"),
    one!("failure in response" "GET /fail-response"),
    one!("abandoned" "GET /abandoned"),
    one!("abandoned before the fetch" "GET /abandon-early"),
    one!("compressed here" "GET /gzip" "Accept-Encoding: gzip, br\r\n"),
    one!("compressed here, known" "GET /gzip" "Accept-Encoding: gzip\r\n"),
    one!("compressed here, delivered plain" "GET /gzip"),
    one!("compressed there" "GET /zipped" "Accept-Encoding: gzip\r\n"),
    one!("compressed there, delivered plain" "GET /zipped"),
    one!("decompressed here" "GET /gunzip-zipped" "Accept-Encoding: gzip\r\n"),
    one!("chunks" "GET /chunked"),
    one!("until the end" "GET /eof"),
    one!("not streamed" "GET /whole"),
    one!("page" "GET /esi"),
    one!("page, known" "GET /esi"),
    one!("page in a page" "GET /esi-outer"),
    one!("page, broken" "GET /esi-broken"),
    one!("page, compressed" "GET /esi" "Accept-Encoding: gzip\r\n"),
    Case { name: "pipe", requests: &["GET /pipe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"], shuts: true },
    Case {
        name: "two requests",
        requests: &[
            "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        ],
        shuts: false,
    },
    Case { name: "old client", requests: &["GET /a HTTP/1.0\r\nHost: example.com\r\n\r\n"], shuts: false },
    Case {
        name: "old client that keeps its connection",
        requests: &[
            "GET /a HTTP/1.0\r\nHost: example.com\r\nConnection: keep-alive\r\n\r\n",
            "GET /a HTTP/1.0\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        ],
        shuts: false,
    },
    Case { name: "no host", requests: &["GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"], shuts: false },
    Case { name: "rubbish", requests: &["GARBAGE\r\n\r\n"], shuts: false },
    Case { name: "bad field", requests: &["GET /a HTTP/1.1\r\nHost: a\r\nnothing here\r\n\r\n"], shuts: false },
    Case {
        name: "absolute url",
        requests: &["GET http://www.example.com/a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"],
        shuts: false,
    },
    Case {
        name: "expects to go on",
        requests: &[
            "POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello",
        ],
        shuts: false,
    },
    Case {
        name: "long field",
        requests: &[concat!(
            "GET /a HTTP/1.1\r\nHost: example.com\r\nLong: ",
            "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
            "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
            "\r\nConnection: close\r\n\r\n"
        )],
        shuts: false,
    },
];

const DATE: &str = "Date: Mon, 23 Nov 2026 16:20:53 GMT\r\nServer: origin\r\n";

/// An answer with a body of a known length.
fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{DATE}{fields}Content-Length: {}\r\nContent-Type: text/html\r\n\r\n{body}", body.len())
}

/// Plays a connection of the origin.
pub fn answer(mut wire: Wire, _: usize) {
    while let Some(request) = wire.request() {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let is_head = request.start_line().starts_with("HEAD");
        let text = "hello world ".repeat(10);
        let is_conditional = request.field("if-none-match").is_some();
        let (answer, closes) = match &*path {
            "/404" => (ok("", &text).replace("200 OK", "404 Not Found"), false),
            "/204" => (format!("HTTP/1.1 204 No Content\r\n{DATE}\r\n"), false),
            "/private-response" => (ok("Cache-Control: private\r\n", &text), false),
            "/set-cookie" => (ok("Set-Cookie: a=b\r\n", &text), false),
            "/age" => (ok("Cache-Control: max-age=170\r\nAge: 3\r\n", &text), false),
            "/expires" => (ok("Expires: Mon, 23 Nov 2026 17:20:53 GMT\r\n", &text), false),
            "/etag" => (ok("ETag: \"x\"\r\nLast-Modified: Mon, 23 Nov 2026 16:20:53 GMT\r\n", &text), false),
            "/validated" if is_conditional => {
                (format!("HTTP/1.1 304 Not Modified\r\n{DATE}ETag: \"v\"\r\nX-New: 1\r\n\r\n"), false)
            }
            "/validated" => (ok("ETag: \"v\"\r\n", &text), false),
            "/vary" => (ok("Vary: X\r\n", &text), false),
            "/gone" => return,
            "/junk" => ("220 junk\r\n\r\n".to_owned(), true),
            "/short" | "/whole-short" => (format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 100\r\n\r\nshort"), true),
            "/chunked" => {
                let head = format!("HTTP/1.1 200 OK\r\n{DATE}Transfer-Encoding: chunked\r\n\r\n");
                (format!("{head}5\r\nhello\r\n0\r\n\r\n"), false)
            }
            "/eof" => (format!("HTTP/1.1 200 OK\r\n{DATE}Connection: close\r\n\r\nhello"), true),
            "/esi" => (ok("", "<p><esi:include src=\"/part\"/></p><esi:remove>no</esi:remove>"), false),
            "/esi-outer" => (ok("", "<p><esi:include src=\"/esi\"/></p><esi:include src=\"/part\"/>"), false),
            "/esi-broken" => (ok("", "<p><esi:include/><esi:remove></p>"), false),
            "/pipe" => (ok("Connection: close\r\n", &text), true),
            "/zipped" | "/gunzip-zipped" => {
                wire.try_send(zipped(&text));
                continue;
            }
            _ if is_head => (ok("", "").replace("Content-Length: 0", "Content-Length: 120"), false),
            _ => (ok("", &text), false),
        };
        let closes = closes || request.field("connection") == Some("close");
        if !wire.try_send(answer) || closes {
            break;
        }
    }
}

fn zipped(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    let length = body.len();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{DATE}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    answer.extend(body);
    answer
}
