//! Filters over real sockets: which responses are compressed, beside Debian's HAProxy; that nothing is held back; limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::Read as _,
    net::SocketAddr,
    sync::{Mutex, mpsc},
    time::{Duration, Instant},
};

use support::{Edge, Origin, Wire, beside_haproxy, free_address};

/// Answers with the head fields that the path spells, `;` between them, and with a body that compresses well.
fn origin() -> Origin {
    Origin::answering(|request| {
        let path = request.start_line().split(' ').nth(1).unwrap().trim_start_matches('/').replace('+', " ");
        let (status, fields) = path.split_once('?').unwrap_or(("200", &path));
        let fields: String =
            fields.split(';').filter(|field| !field.is_empty()).map(|field| format!("{field}\r\n")).collect();
        let body = "<li>compressible</li>\n".repeat(20);
        let is_head = request.start_line().starts_with("HEAD");
        if fields.contains("chunked") {
            return format!("HTTP/1.1 {status} X\r\n{fields}\r\n{:x}\r\n{body}\r\n3\r\nend\r\n0\r\n\r\n", body.len())
                .into_bytes();
        }
        let body = if fields.contains("X-Empty") { String::new() } else { body };
        let shown = if is_head { "" } else { &body };
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{fields}\r\n{shown}", body.len()).into_bytes()
    })
}

/// What a client sees of an answer: its head in lower case, sorted, and the body in plain.
fn seen(wire: &mut Wire, request: &str) -> String {
    let answer = wire.ask(request);
    let mut fields: Vec<String> = answer
        .head
        .lines()
        .skip(1)
        .map(str::to_ascii_lowercase)
        .filter(|line| !line.is_empty() && !line.starts_with("date:"))
        .collect();
    fields.sort();
    let mut body = Vec::new();
    match answer.field("content-encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut body).unwrap()),
        Some("deflate") => drop(flate2::read::ZlibDecoder::new(&answer.body[..]).read_to_end(&mut body).unwrap()),
        _ => body.clone_from(&answer.body),
    }
    let body = String::from_utf8(body).unwrap();
    format!("{} {} | {} bytes, {}", answer.status(), fields.join(", "), body.len(), body.lines().last().unwrap_or(""))
}

#[test]
fn compresses_what_haproxy_compresses() {
    let server = origin();
    let section = |front: SocketAddr| {
        format!(
            "global\n nbthread 1\n stats socket %FOLDER%/stats\nfrontend site\n mode http\n bind {front}\n log-format \"%ST %B %[res.comp] \
             %HM\"\n http-response set-header x-comp %[res.comp],%[res.comp_algo]\n http-after-response set-header x-after \
             %[res.hdr(content-encoding)].\n default_backend app\nbackend app\n mode http\n compression algo gzip deflate\n \
             compression type text/ application/json\n server s1 {}\n",
            server.address
        )
    };
    let html = "200?Content-Type:+text/html";
    let told = beside_haproxy(section, |scene| {
        let mut told = Vec::new();
        let mut ask = |method: &str, path: &str, fields: &str| {
            let request = format!("{method} /{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let seen = seen(&mut Wire::connect(scene.front), &request);
            told.push(format!("{method} {path} {fields}: {seen}"));
        };
        for accept in ["gzip", "deflate", "gzip;q=0", "*", "br", "gzip;q=0.5, deflate;q=0.6", "identity", "GZIP"] {
            ask("GET", html, &format!("Accept-Encoding: {accept}\r\n"));
        }
        ask("GET", html, "");
        for more in [
            ";ETag:+\"a\"",
            ";ETag:+W/\"a\"",
            ";ETag:+a",
            ";ETag:+\"a\";ETag:+\"b\"",
            ";Vary:+Cookie",
            ";Cache-Control:+no-transform",
            ";Cache-Control:+public,no-transform",
            ";Content-Encoding:+x",
            ";X-Empty:+1",
            ";Transfer-Encoding:+chunked",
        ] {
            ask("GET", &format!("{html}{more}"), "Accept-Encoding: gzip\r\n");
        }
        for path in [
            "201?Content-Type:+application/json",
            "206?Content-Type:+text/html",
            "404?Content-Type:+text/html",
            "200?Content-Type:+image/png",
            "200?Content-Type:+multipart/mixed",
            "200?X:+y",
        ] {
            ask("GET", path, "Accept-Encoding: gzip\r\n");
        }
        ask("GET", html, "Accept-Encoding: gzip\r\nUser-Agent: Mozilla/4.0\r\n");
        ask("HEAD", html, "Accept-Encoding: gzip\r\n");
        for _ in 0..told.len() {
            told.push(scene.log.line());
        }
        let stat = scene.edge.command("show stat");
        for name in ["FRONTEND", "BACKEND"] {
            let line = stat.lines().find(|line| line.split(',').nth(1) == Some(name)).unwrap();
            let columns: Vec<&str> = line.split(',').collect();
            // comp_in and comp_rsp; what it becomes differs, and trailers count in HAProxy's inner form.
            let taken: u64 = columns[51].parse().unwrap();
            assert!(columns[52].parse::<u64>().unwrap() < taken, "smaller");
            told.push(format!(
                "{name}: about {} bytes, {} bypassed, {} responses",
                taken / 100,
                columns[53],
                columns[54]
            ));
        }
        told
    });
    assert!(told.iter().filter(|line| line.contains("content-encoding: gzip")).count() > 5, "{told:#?}");
}

#[test]
fn nothing_is_held_back() {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let server = Origin::start(move |mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for event in ["data: one\n\n", "data: two\n\n"] {
            wire.send(format!("{:x}\r\n{event}\r\n", event.len()));
            // The next one follows when the client has seen this one.
            receiver.lock().unwrap().recv().unwrap();
        }
        wire.send("0\r\nX-Sum: 7\r\n\r\n");
    });
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n \
         compression algo gzip\n server s1 {}\n",
        server.address
    ));
    let mut wire = Wire::connect(front);
    wire.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert!(wire.head().unwrap().contains("content-encoding: gzip"));
    let mut inflate = flate2::Decompress::new(false);
    let (mut text, mut is_first) = (Vec::with_capacity(1_000), true);
    for expected in ["data: one\n\n", "data: one\n\ndata: two\n\n"] {
        while text != expected.as_bytes() {
            let size = wire.read_through(b"\r\n").unwrap();
            let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
            let chunk = wire.read(size + 2);
            // Without the header of gzip.
            let data = if std::mem::take(&mut is_first) { &chunk[10..size] } else { &chunk[..size] };
            inflate.decompress_vec(data, &mut text, flate2::FlushDecompress::Sync).unwrap();
        }
        sender.send(()).unwrap();
    }
    let rest = wire.read_through(b"\r\n0\r\nX-Sum: 7\r\n\r\n").unwrap();
    assert!(rest.len() < 50, "the end of gzip and of the chunks, with trailers");
}

#[test]
fn bandwidth_is_limited() {
    let server = Origin::answering(|request| {
        let length: usize = request.field("content-length").map_or(0, |length| length.parse().unwrap());
        support::ok(&"x".repeat(if length > 0 { 1 } else { 60_000 }))
    });
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 600ms\n timeout server 600ms\n timeout connect 1s\nlisten site\n bind {front}\n \
         filter bwlim-out down default-limit 25k default-period 1s min-size 40k\n filter bwlim-in up default-limit 200k \
         default-period 1s\n http-request set-bandwidth-limit down if {{ path /slow }}\n http-request set-bandwidth-limit up \
         limit 100k period 500ms if {{ path /up }}\n server s1 {}\n",
        server.address
    ));
    let timed = |request: String, expected: usize| {
        let began = Instant::now();
        let answer = Wire::connect(front).ask(request);
        assert_eq!((answer.status(), answer.body.len()), (200, expected));
        began.elapsed()
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    timed(get("/fast"), 60_000);
    // 40 kB may go at once, the rest takes its time, longer than the timeouts, which count no such pause.
    let took = timed(get("/slow"), 60_000);
    assert!(took >= Duration::from_millis(700), "{took:?}");
    let body = "y".repeat(40_000);
    let took = timed(format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n{body}"), 1);
    assert!(took >= Duration::from_millis(150), "{took:?}");
}

#[test]
fn bandwidth_is_limited_in_tcp_mode_and_shared() {
    let server = Origin::answering(|_| support::ok(&"x".repeat(30_000)));
    let front = free_address();
    let shared = free_address();
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n timeout client 400ms\n timeout server 400ms\n timeout connect \
         1s\nlisten alone\n mode tcp\n bind {front}\n filter bwlim-out down default-limit 50k default-period 1s\n \
         tcp-request content set-bandwidth-limit down limit 60k\n server s1 {0}\nlisten together\n mode http\n bind \
         {shared}\n stick-table type ip size 10 store bytes_out_rate(1s)\n filter bwlim-out down limit 100k key src\n \
         http-request set-bandwidth-limit down\n server s1 {0}\n",
        server.address
    ));
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let fetch = |front| {
        let answer = Wire::connect(front).ask(get);
        assert_eq!((answer.status(), answer.body.len()), (200, 30_000));
    };
    let began = Instant::now();
    fetch(front);
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| fetch(shared));
        }
        std::thread::sleep(Duration::from_millis(300));
        let table = edge.command("show table together");
        assert!(table.contains("use=3") && table.contains("bytes_out_rate(1000)="), "{table}");
    });
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
}

#[test]
fn traces_show_what_passes() {
    let server = Origin::answering(|_| support::ok("hello"));
    let (front, tcp) = (free_address(), free_address());
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n timeout client 1s\n timeout server 1s\n timeout connect \
         1s\nlisten site\n mode http\n bind {front}\n http-request set-var(txn.path) path,debug(here)\n filter trace name T \
         hexdump\n server s1 {0}\nlisten raw\n bind {tcp}\n filter trace quiet hexdump\n server s1 {0}\n",
        server.address
    ));
    Wire::connect(front).ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    Wire::connect(tcp).ask("PUT / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(edge.command("show events buf0").contains(" [debug] here: type=str </>"));
    edge.wait_output("|PUT / HTTP/1.1..|");
    let text = edge.output();
    for expected in [
        "trace_http_payload       : channel=RESPONSE   - mode=HTTP  (frontend) - offset=0 - len=5 - forward=5",
        "\t0x000000: 68 65 6c 6c 6f                                      |hello|",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}
