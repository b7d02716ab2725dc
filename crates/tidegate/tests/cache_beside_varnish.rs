//! What a program of VCL sees and does, ours beside Debian's Varnish: the same requests, the same answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::io::Write as _;

use support::{Origin, VarnishInstance, Wire, wait_until};

const PROGRAM: &str = r#"vcl 4.1;
import std as s;
backend first { .host = "HOST"; .port = "ORIGIN"; }
backend second { .host = "127.0.0.1"; .port = "9"; }
sub vcl_recv {
    set req.backend_hint = second;
    set req.backend_hint = default;
    if (req.url ~ "^/reason/") { return (synth(s.integer(regsub(req.url, "^/reason/", ""), 0))); }
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/kept") { s.cache_req_body(10KB); return (pass); }
    return (hash);
}
sub vcl_backend_fetch { if (bereq.url ~ "^/kept") { return (fetch); } }
sub vcl_backend_response {
    if (bereq.url ~ "plain") { set beresp.do_gzip = true; }
    if (bereq.url ~ "^/retries") { return (retry); }
    if (bereq.url ~ "^/later") { return (pass); }
}
sub vcl_backend_error {
    if (bereq.url == "/retries/again") { return (retry); }
    set beresp.http.x-retries = bereq.retries;
    set beresp.body = "mine";
    return (deliver);
}
sub vcl_deliver { set resp.http.x-passed = req.is_hitpass; set resp.http.x-missed = req.is_hitmiss; }
sub vcl_synth {
    set resp.http.x-all = regsuball("aaa", "a*", "x") + " " + regsuball("baaac", "a*", "x") + " " + regsuball("abc", "", "x")
        + " " + regsuball("aXbX", "X*", "-") + " " + regsuball("aab", "a*$", "x") + " " + regsuball("abab", "b", "");
    set resp.http.x-host = server.hostname;
    set resp.http.x-identity = server.identity;
    set resp.body = "";
    return (deliver);
}
"#;

/// Tells what it has seen of a request's fields.
fn origin() -> Origin {
    Origin::answering(|request| {
        let path = request.start_line().split(' ').nth(1).unwrap();
        let zipped: &[u8] =
            &[31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];
        let (fields, body) = match path {
            path if path.contains("zipped") => ("content-encoding: gzip\r\n", zipped.to_vec()),
            path if path.contains("nothing") => ("content-encoding: gzip\r\n", Vec::new()),
            path if path.contains("plain") => ("", b"hello".repeat(50)),
            "/later/0" => ("cache-control: max-age=0\r\n", b"ok".to_vec()),
            _ => {
                let seen =
                    ["cache-control", "pragma", "range", "proxy-authorization", "content-length", "transfer-encoding"];
                let seen = seen.map(|name| format!("{name}={}", request.field(name).unwrap_or("none")));
                ("", format!("{} [{}]", seen.join(" "), request.text()).into_bytes())
            }
        };
        [format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
    })
}

/// Requests, one after the other; fields stand behind the path.
const REQUESTS: &[(&str, &str)] = &[
    ("/pass/zipped", "Accept-Encoding: gzip\r\n"),
    ("/pass/zipped", ""),
    ("/pass/plain", "Accept-Encoding: gzip\r\n"),
    ("/zipped", "Accept-Encoding: gzip\r\n"),
    ("/zipped", ""),
    ("/pass/nothing", ""),
    ("/nothing", ""),
    ("/nothing", "Accept-Encoding: gzip\r\n"),
    ("/seen", "Cache-Control: no-cache\r\nPragma: no-cache\r\nRange: bytes=0-1\r\nProxy-Authorization: a\r\n"),
    ("/pass/seen", "Cache-Control: no-cache\r\nPragma: no-cache\r\n"),
    ("/retries", ""),
    ("/retries/again", ""),
    ("/later/120", ""),
    ("/later/120", ""),
    ("/later/0", ""),
    ("/later/0", ""),
    ("/reason/200", ""),
    ("/reason/302", ""),
    ("/reason/408", ""),
    ("/reason/416", ""),
    ("/reason/418", ""),
    ("/reason/502", ""),
    ("/reason/505", ""),
];

#[test]
fn the_same_answers() {
    if !std::path::Path::new("/usr/sbin/varnishd").exists() {
        return;
    }
    let (for_ours, for_theirs) = (origin(), origin());
    let ours = VarnishInstance::ours(PROGRAM, &[], &for_ours);
    let theirs = VarnishInstance::theirs(PROGRAM, &[], &for_theirs);
    let told = |front, (path, fields): &(&str, &str)| {
        let answer = Wire::connect(front).ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let names = ["vary", "content-encoding", "x-retries", "x-passed", "x-missed", "x-all", "x-host", "x-identity"];
        let fields = names.map(|name| format!("{name}={}", answer.field(name).unwrap_or("-")));
        // NOTE: pages that are made where nothing is said differ, and so does what an encoder makes.
        let is_plain = answer.field("content-encoding").is_none() && answer.status() == 200;
        let body = if is_plain { answer.text() } else { String::new() };
        format!("{} {} {body}", answer.start_line(), fields.join(" "))
    };
    for request in REQUESTS {
        assert_eq!(told(ours.front, request), told(theirs.front, request), "{request:?}");
    }
    let kept =
        "POST /kept HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n";
    let [ours, theirs] = [ours.front, theirs.front].map(|front| Wire::connect(front).ask(kept).text());
    assert_eq!(ours, theirs);
    assert!(ours.contains("content-length=8 transfer-encoding=none [helloabc]"), "{ours}");
}

/// A 304 is about what is stored, and a 206 about a part of something: what a program wants done to bodies is done to neither.
#[test]
fn what_is_stored_or_a_part_is_not_recoded() {
    const RECODES: &str = "vcl 4.1; backend default { .host = \"HOST\"; .port = \"ORIGIN\"; }
        sub vcl_recv { if (req.url ~ \"^/part\") { return (pass); } }
        sub vcl_backend_fetch { if (bereq.http.x-range) { set bereq.http.range = bereq.http.x-range; } }
        sub vcl_backend_response {
            set beresp.ttl = 0.1s; set beresp.grace = 0s; set beresp.keep = 1h;
            set beresp.do_gzip = bereq.http.x-do == \"gzip\";
            set beresp.do_gunzip = bereq.http.x-do == \"gunzip\";
            set beresp.do_esi = bereq.http.x-do == \"esi\";
            set beresp.http.x-was = beresp.was_304;
        }";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(b"<p>what is packed</p>").unwrap();
    let packed = packed.finish().unwrap();
    let origin = Origin::answering(move |request| {
        let zip = request.start_line().contains(" /zip");
        let (coding, body) =
            if zip { ("content-encoding: gzip\r\n", packed.clone()) } else { ("", b"<p>what is plain</p>".to_vec()) };
        let (status, body) = match (request.field("if-none-match"), request.field("x-range")) {
            (Some(_), _) => ("304 Not Modified", Vec::new()),
            (_, Some(_)) => ("206 Partial Content\r\ncontent-range: bytes 0-4/20", b"<p>wh".to_vec()),
            _ => ("200 OK", body),
        };
        let length =
            if status.starts_with("304") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        [format!("HTTP/1.1 {status}\r\netag: \"1\"\r\n{coding}{length}\r\n").into_bytes(), body].concat()
    });
    let ours = VarnishInstance::ours(RECODES, &[], &origin);
    let mut fronts = vec![ours.front];
    let theirs =
        std::path::Path::new("/usr/sbin/varnishd").exists().then(|| VarnishInstance::theirs(RECODES, &[], &origin));
    fronts.extend(theirs.as_ref().map(|theirs| theirs.front));
    for front in fronts {
        for (path, then, expected) in [
            ("/plain/gzip", "gzip", "<p>what is plain</p>"),
            ("/plain/esi", "esi", "<p>what is plain</p>"),
            ("/zip/gunzip", "gunzip", "<p>what is packed</p>"),
            ("/zip/esi", "esi", "<p>what is packed</p>"),
        ] {
            let ask = |wanted: &str, more: &str| {
                let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nx-do: {wanted}\r\n{more}\r\n");
                Wire::connect(front).ask(head)
            };
            let first = ask("nothing", "");
            assert_eq!(first.text(), expected, "{path}");
            wait_until("it is validated", || ask(then, "").field("x-was") == Some("true"));
            let plain = ask(then, "");
            assert_eq!((plain.field("content-encoding"), plain.text().as_str()), (None, expected), "{path}");
            let as_it_is = ask(then, "accept-encoding: gzip\r\n");
            let is_packed = as_it_is.body.starts_with(&[0x1f, 0x8b]);
            assert_eq!(as_it_is.field("content-encoding").is_some(), is_packed, "{path}: {:?}", as_it_is.body);
            assert_eq!(is_packed, path.starts_with("/zip"), "{path}");
        }
    }
    let part = "GET /part HTTP/1.1\r\nHost: a\r\nx-do: gzip\r\nx-range: bytes=0-4\r\naccept-encoding: gzip\r\n\r\n";
    let part = Wire::connect(ours.front).ask(part);
    assert_eq!((part.status(), part.field("content-encoding"), part.text().as_str()), (206, None, "<p>wh"));
}
