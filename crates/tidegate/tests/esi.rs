//! Pages that include others, in front of real sockets, and beside Debian's varnishd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    sync::Mutex,
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use support::{Answer, Origin, Site, Varnish, Wire};

const PROGRAM: &str = "vcl 4.1;
    sub vcl_recv {
        if (req.url ~ \"^/synth\") { return (synth(200, \"made\")); }
        if (req.url ~ \"^/raw\") { set req.http.x-raw = \"1\"; }
        if (req.url ~ \"^/pass\") { return (pass); }
        if (req.url ~ \"^/pipe\") { return (pipe); }
        if (req.url == \"/restarted\" && req.restarts == 0) { set req.url = \"/part?restarted\"; return (restart); }
        set req.http.x-level = req.esi_level;
        set req.http.x-top = req_top.url + \" \" + req_top.method + \" \" + req_top.http.x-mine;
    }
    sub vcl_backend_response {
        set beresp.do_esi = bereq.url !~ \"^/part\";
        if (beresp.http.x-gzip) { set beresp.do_gzip = true; }
        if (beresp.http.x-private) { set beresp.uncacheable = true; }
        if (beresp.http.x-short) { set beresp.ttl = 0s; set beresp.grace = 1h; }
    }
    sub vcl_deliver {
        set resp.http.x-esi = obj.can_esi;
        if (req.http.x-raw) { set resp.do_esi = false; }
    }
    sub vcl_synth { synthetic(\"[made \" + req.esi_level + \"]\"); return (deliver); }";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// What the server has at a path: fields, and a body.
fn page(path: &str) -> (&'static str, String) {
    let name = path.split('?').next().unwrap();
    let body = match name {
        "/plain" => "<p>nothing to include</p>",
        "/one" => "<p>a<esi:include src=\"/part\"/>b</p>",
        "/two" => "<p><esi:include src=\"/part?1\"/>-<esi:include src=\"part?2\"/></p>",
        "/nested" | "/zip/nested" => "<n>(<esi:include src=\"/one\"/>)<esi:include src=\"/zip/part\"/></n>",
        "/deep" => "<d>1<esi:include src=\"/deep\"/>2</d>",
        "/removed" => "<r>a<esi:remove>gone</esi:remove><!--esi b-->c<esi:comment text=\"x\"/></r>",
        "/missing" => "<m>a<esi:include src=\"/part/404\"/>b<esi:include src=\"/part/500\" onerror=\"continue\"/>c</m>",
        "/made" => "<s>a<esi:include src=\"/synth\"/>b</s>",
        "/passing" => "<s>a<esi:include src=\"/pass/part\"/>b<esi:include src=\"/pipe/part\"/>c</s>",
        "/again" => "<s>a<esi:include src=\"/restarted\"/>b</s>",
        "/bytes" => "no xml, <esi:include src=\"/part\"/>",
        "/broken" => "<b>a<esi:include src=\"/part\"",
        "/zip/page" => "<z>a<esi:include src=\"/part\"/>b<esi:include src=\"/zip/part\"/>c</z>",
        "/made-zip" => "<z>a<esi:include src=\"/part\"/>b<esi:include src=\"/zip/part\"/>c</z>",
        "/zip/plain" => "<z>nothing</z>",
        "/private" => "<p>mine <esi:include src=\"/part\"/></p>",
        "/other-host" => "<p><esi:include src=\"http://elsewhere/part\"/></p>",
        "/raw" => "<p><esi:include src=\"/part\"/></p>",
        "/pass/page" => "<p><esi:include src=\"/part\"/></p>",
        "/empty" => "",
        _ => "",
    };
    let fields = match name {
        "/zip/page" | "/zip/nested" | "/zip/plain" | "/zip/part" => "content-encoding: gzip\r\n",
        "/made-zip" => "x-gzip: 1\r\netag: \"z\"\r\n",
        "/private" => "x-private: 1\r\n",
        "/one" => "etag: \"one\"\r\nlast-modified: Mon, 23 Nov 2020 12:00:00 GMT\r\n",
        _ => "",
    };
    (fields, body.to_owned())
}

fn origin() -> Origin {
    Origin::answering(|request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let (fields, mut body) = page(&path);
        if path.contains("part") {
            let said = |name: &str| request.field(name).unwrap_or("-").to_owned();
            body = format!("[{path} {} level {} top {}]", said("host"), said("x-level"), said("x-top"));
        }
        let status = if path.ends_with("404") {
            404
        } else if path.ends_with("500") {
            500
        } else {
            200
        };
        let body = if fields.contains("gzip\r\n") { gzip(body.as_bytes()) } else { body.into_bytes() };
        let head = format!("HTTP/1.1 {status} Something\r\n{fields}content-length: {}\r\n\r\n", body.len());
        [head.into_bytes(), body].concat()
    })
}

/// What of an answer says how it was made.
fn summary(answer: &Answer) -> String {
    let packed = answer.field("content-encoding") == Some("gzip");
    let body = if packed && !answer.body.is_empty() { gunzip(&answer.body) } else { answer.body.clone() };
    let mut text = answer.start_line().to_owned();
    for name in
        ["content-encoding", "etag", "content-length", "transfer-encoding", "x-esi", "accept-ranges", "content-range"]
    {
        // NOTE: how well something is compressed is nobody's business, and of what is unpacked Varnish knows the length.
        let is_length = matches!(name, "content-length" | "transfer-encoding");
        if !(is_length && (packed || body.starts_with(b"<z>nothing"))) {
            text += &format!("\n{name}: {}", answer.field(name).unwrap_or("-"));
        }
    }
    format!("{text}\n{}", String::from_utf8_lossy(&body))
}

fn requests() -> Vec<String> {
    let paths = [
        "/plain",
        "/one",
        "/one",
        "/two",
        "/nested",
        "/deep",
        "/removed",
        "/missing",
        "/made",
        "/passing",
        "/again",
        "/bytes",
        "/broken",
        "/zip/page",
        "/made-zip",
        "/zip/plain",
        "/zip/nested",
        "/private",
        "/private",
        "/other-host",
        "/raw",
        "/pass/page",
        "/empty",
    ];
    let get = |path: &str, version: &str, fields: &str| {
        format!("GET {path} HTTP/{version}\r\nHost: site\r\nx-mine: yes\r\nConnection: close\r\n{fields}\r\n")
    };
    let mut requests: Vec<_> = paths.iter().map(|path| get(path, "1.1", "")).collect();
    requests.extend(paths.iter().map(|path| get(path, "1.1", "Accept-Encoding: gzip\r\n")));
    requests.extend(["/one", "/zip/page", "/private"].iter().map(|path| get(path, "1.0", "")));
    requests.extend(["/one", "/zip/page", "/plain"].iter().map(|path| get(path, "1.1", "").replacen("GET", "HEAD", 1)));
    requests.push(get("/one", "1.1", "If-None-Match: \"one\"\r\n"));
    requests.push(get("/one", "1.1", "If-None-Match: W/\"one\"\r\n"));
    requests.push(get("/one", "1.1", "Range: bytes=1-3\r\n"));
    requests.push(get("/plain", "1.1", "Range: bytes=1-3\r\n"));
    requests.push(get("/raw", "1.1", "Range: bytes=1-3\r\n"));
    requests
}

#[test]
fn pages_are_those_of_varnish() {
    let (origin, other) = (origin(), origin());
    let site = Site::new(PROGRAM, "", &origin);
    let Some(varnish) = Varnish::start(PROGRAM, &[], &other) else { return };
    let mut differences = Vec::new();
    for request in requests() {
        let ask = |address| {
            let mut wire = Wire::connect(address);
            wire.send(&request);
            wire.answer_to(request.starts_with("HEAD")).map_or_else(|| "nothing".to_owned(), |answer| summary(&answer))
        };
        let (ours, theirs) = (ask(site.front), ask(varnish.front));
        if ours != theirs {
            differences.push(format!("{request}\nours: {ours}\ntheirs: {theirs}\n"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn includes_are_requests_of_their_own() {
    let origin = origin();
    let site = Site::new(PROGRAM, "", &origin);
    let page = site.get("/two").text();
    let part = |number: u8| format!("[/part?{number} site level 1 top /two GET]");
    assert_eq!(page, format!("<p>{}-{}</p>", part(1), part(2)));
    let requests = origin.heads().len();
    assert_eq!(site.get("/two").text(), page);
    assert_eq!(origin.heads().len(), requests, "page and parts are stored");
    let deep = site.get("/deep").text();
    assert_eq!(deep.matches("<d>").count(), 6, "the page and max_esi_depth levels: {deep}");
}

/// A part is what is waited for; what stands before it is there already, whoever is slow.
#[test]
fn a_page_goes_out_while_its_parts_are_fetched() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::answering(move |request| {
        let path = request.start_line().split(' ').nth(1).unwrap().to_owned();
        let body = if path == "/part" {
            wait.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap();
            "late".to_owned()
        } else {
            "<p>soon<esi:include src=\"/part\"/></p>".to_owned()
        };
        support::ok(&body)
    });
    for encoding in ["", "Accept-Encoding: gzip\r\n"] {
        let site = Site::new(
            "vcl 4.1; sub vcl_backend_response { set beresp.do_esi = true; set beresp.do_gzip = true; }",
            "",
            &origin,
        );
        let mut client = Wire::connect(site.front);
        client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\n{encoding}\r\n"));
        let head = client.head().unwrap();
        assert!(head.contains("chunked"), "{head}");
        let first = client.read_through(b"\r\n").unwrap();
        assert_ne!(first, b"0\r\n");
        if encoding.is_empty() {
            assert!(client.read_through(b"soon").is_some());
        }
        go.send(()).unwrap();
        assert!(client.read_through(b"\r\n0\r\n\r\n").is_some());
    }
}

#[test]
fn a_client_that_leaves_ends_its_page() {
    let (left, noticed) = channel::<()>();
    let left: Mutex<Sender<()>> = Mutex::new(left);
    let origin = Origin::start(move |mut wire, _| {
        let Some(request) = wire.request() else { return };
        if !request.head.contains("/endless") {
            wire.send(support::ok("<p><esi:include src=\"/endless\"/></p>"));
            return;
        }
        wire.send("HTTP/1.1 200 OK\r\ncache-control: no-store\r\ntransfer-encoding: chunked\r\n\r\n");
        while wire.try_send([b"4000\r\n".as_slice(), &vec![b'x'; 0x4000], b"\r\n"].concat()) {}
        left.lock().unwrap().send(()).unwrap();
    });
    let site = Site::new(
        "vcl 4.1; sub vcl_backend_response {
            if (bereq.url == \"/endless\") { set beresp.uncacheable = true; } else { set beresp.do_esi = true; }
        }",
        "",
        &origin,
    );
    let mut client = Wire::connect(site.front);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read(100_000);
    drop(client);
    noticed.recv_timeout(support::PATIENCE).expect("the part's fetch ends");
    thread::yield_now();
}
