//! Checks against real listeners, beside Debian's haproxy with the same configuration.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use balance::CheckStatus;

use super::*;
use crate::{
    live::{Instance, Shared},
    logs::AdminLog,
    side_by_side::{Haproxy, PATIENCE, free_port, syslog},
    test_instance,
};

/// Serves each connection on loopback in a thread of its own, until the test's process ends; the port.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::Builder::new()
        .name("server".into())
        .spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let handle = Arc::clone(&handle);
                thread::Builder::new().name("connection".into()).spawn(move || handle(stream)).unwrap();
            }
        })
        .unwrap();
    port
}

/// Reads the request and answers with `response`, then closes or, with `hold`, keeps the connection open.
fn answer(response: impl Into<Vec<u8>>, hold: bool) -> u16 {
    let response = response.into();
    serve(move |mut stream| {
        if stream.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) && stream.write_all(&response).is_ok() {
            // Until the other side closes.
            while hold && stream.read(&mut [0; 1_000]).is_ok_and(|count| count > 0) {}
        }
    })
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A port whose connections never stand: the queue of its listener is full.
fn full() -> u16 {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    for _ in 0..3 {
        let waiting = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        waiting.set_nonblocking(true).unwrap();
        let _ = waiting.connect(&address);
        // Both stay open until the test's process ends.
        std::mem::forget(waiting);
    }
    let port = address.as_socket().unwrap().port();
    std::mem::forget(socket);
    port
}

/// An instance of ours for a configuration, with its events handled.
struct Ours {
    instance: Arc<Instance>,
    board: Arc<CheckBoard>,
}

impl Ours {
    fn new(text: &str) -> Self {
        let (process, instance, outputs) = test_instance::instance(test_instance::configuration(text), 1);
        let shared = Arc::new(Shared::new(Arc::clone(&process), Arc::clone(&instance)));
        let board = Arc::new(CheckBoard::new());
        let log = Arc::new(AdminLog::new(outputs, false));
        assert!(process.farm_events.set(farm_events(shared, log, Arc::clone(&board))).is_ok());
        Self { instance, board }
    }

    /// Runs checks until `done` holds.
    fn check_until(&self, mut done: impl FnMut(&Self) -> bool) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
        runtime.block_on(async {
            prepare(&self.instance);
            let checks = start(&self.instance, &self.board, None, 0, 1);
            let patience = Instant::now() + PATIENCE;
            while !done(self) {
                assert!(Instant::now() < patience, "checks did not come to an end");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(checks);
            tokio::task::yield_now().await;
        });
    }

    fn stats(&self, backend: &str, server: &str) -> balance::ServerStats {
        let proxy = self.instance.backend(backend).unwrap();
        let now_ms = self.instance.process.milliseconds(Instant::now());
        let farm = proxy.farm();
        farm.server_stats(farm.server_by_name(server).unwrap(), now_ms).unwrap()
    }

    fn outcome(&self, backend: &str) -> Option<Outcome> {
        let stats = self.stats(backend, "s");
        let check = stats.check.filter(|check| check.status != CheckStatus::Initializing && !check.in_progress)?;
        let code = if check.status.has_code() { check.code.unwrap_or(0).to_string() } else { String::new() };
        Some(Outcome {
            status: check.status.info().into(),
            code,
            info: check.info,
            description: check.status.description().into(),
        })
    }
}

/// The columns of the statistics that tell of a check.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: String,
    code: String,
    info: String,
    description: String,
}

/// The values of a line of CSV, quotes undone.
fn csv(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                values.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            letter => values.last_mut().unwrap().push(letter),
        }
    }
    values
}

/// What haproxy says of server `s` in each backend, once all have been checked.
fn outcomes_of(haproxy: &mut Haproxy, backends: usize) -> BTreeMap<String, Outcome> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let text = haproxy.ask("show stat");
        let mut lines = text.trim_start_matches("# ").lines();
        let names = csv(lines.next().unwrap());
        let column = |name: &str| names.iter().position(|found| found == name).unwrap();
        let (status, code, info) = (column("check_status"), column("check_code"), column("last_chk"));
        let mut outcomes = BTreeMap::new();
        for row in lines.map(csv).filter(|row| row.get(1).is_some_and(|name| name == "s")) {
            let outcome = Outcome {
                status: row[status].trim_start_matches("* ").to_owned(),
                code: row[code].clone(),
                info: row[info].clone(),
                description: row[column("check_desc")].clone(),
            };
            // A check that has begun anew (`*`) has no code yet, beside the last one's status.
            let is_between = row[status].starts_with("* ") && outcome.code == "0";
            if outcome.status != "INI" && !is_between {
                outcomes.insert(row[0].clone(), outcome);
            }
        }
        if outcomes.len() == backends {
            return outcomes;
        }
        assert!(Instant::now() < patience, "haproxy has checked only {} of {backends}", outcomes.len());
        thread::sleep(Duration::from_millis(50));
    }
}

const DEFAULTS: &str = "global\n  stats socket %FOLDER%/stats\n  spread-checks 0\ndefaults\n  mode http\n  timeout connect 5s\n  \
                        timeout server 5s\n  timeout client 5s\n  default-server inter 1s rise 1 fall 1\n";

/// A backend with one server: lines of the section, address of the server, further words of the server line.
struct Case {
    name: String,
    lines: Vec<String>,
    server: String,
}

fn case(name: &str, server: impl ToString, lines: &[&str]) -> Case {
    Case {
        name: name.to_owned(),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        server: server.to_string(),
    }
}

fn on(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn configuration(cases: &[Case]) -> String {
    let mut text = String::new();
    for Case { name, lines, server } in cases {
        text += &format!("backend {name}\n");
        for line in lines {
            text += &format!("  {line}\n");
        }
        text += &format!("  server s {server} check\n");
    }
    text
}

/// Runs the same checks here and in haproxy, and compares what they say.
fn compare(cases: &[Case]) {
    let backends = configuration(cases);
    let ours = Ours::new(&format!("{}{backends}", DEFAULTS.replace("  stats socket %FOLDER%/stats\n", "")));
    // Each as it is seen first: a check that begins anew forgets the words of the last one.
    let mut seen: BTreeMap<String, Outcome> = BTreeMap::new();
    ours.check_until(|ours| {
        for case in cases {
            if !seen.contains_key(&case.name)
                && let Some(outcome) = ours.outcome(&case.name)
            {
                seen.insert(case.name.clone(), outcome);
            }
        }
        seen.len() == cases.len()
    });
    let Some(mut haproxy) = Haproxy::start(&format!("{DEFAULTS}{backends}")) else { return };
    let theirs = outcomes_of(&mut haproxy, cases.len());
    let differences: Vec<_> = cases
        .iter()
        .map(|case| (&case.name, &seen[&case.name], &theirs[&case.name]))
        .filter(|(_, ours, theirs)| ours != theirs)
        .collect();
    assert!(differences.is_empty(), "name, ours, theirs: {differences:#?}");
}

const HTTP: &str = "option httpchk";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn connections() {
    let ok = answer(OK, false);
    let refused = on(free_port());
    let silent = serve(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let path = std::env::temp_dir().join(format!("tidegate-check-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let unix = UnixListener::bind(&path).unwrap();
    thread::Builder::new()
        .name("server".into())
        .spawn(move || {
            for mut stream in unix.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1_000]);
                let _ = stream.write_all(OK.as_bytes());
            }
        })
        .unwrap();
    let unix = path.to_str().unwrap();
    compare(&[
        case("tcp-ok", on(ok), &[]),
        case("tcp-refused", &refused, &[]),
        case("tcp-silent", on(silent), &[]),
        case("tcp-reset", on(serve(reset)), &[]),
        case("tcp-full", on(full()), &[]),
        case("tcp-elsewhere", format!("{refused} addr 127.0.0.1 port {ok}"), &[]),
        case("tcp-no-source", format!("{} source 192.0.2.77", on(ok)), &[]),
        case("tcp-source", format!("{} source 127.0.0.9", on(ok)), &[]),
        case("tcp-no-network", "255.255.255.255:80", &[]),
        case("unix-ok", unix, &[]),
        case("unix-none", "/no/such/socket", &[]),
        case("http-ok", on(ok), &[HTTP]),
        case("http-refused", &refused, &[HTTP]),
        case("http-silent", on(silent), &[HTTP]),
        case("http-full", on(full()), &[HTTP]),
        case("http-full-connect", on(full()), &[HTTP, "timeout check 3s", "timeout connect 200ms"]),
        case("http-silent-check", on(silent), &[HTTP, "timeout check 2s"]),
        case("http-unix-ok", unix, &[HTTP]),
        case("http-unix-none", "/no/such/socket", &[HTTP]),
        case("http-no-source", format!("{} source 192.0.2.77", on(ok)), &[HTTP]),
    ]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn responses() {
    let field = |index: usize| format!("X-{index}: {}\r\n", "y".repeat(200));
    let long_head: String = (0..100).map(field).collect();
    let many_fields: String = (0..200).map(|index| format!("X-{index}: y\r\n")).collect();
    let mut cases = Vec::new();
    for (name, response, hold) in [
        ("ok", OK.to_owned(), false),
        ("ok-hold", OK.to_owned(), true),
        ("500", "HTTP/1.1 500 Oh No\r\nContent-Length: 0\r\n\r\n".into(), false),
        ("404", "HTTP/1.1 404 Not There\r\nContent-Length: 0\r\n\r\n".into(), false),
        ("no-phrase", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n".into(), false),
        ("upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".into(), false),
        ("continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(), false),
        ("garbage", "blah blah\r\n\r\n".into(), false),
        ("garbage-hold", "blah blah\r\n\r\n".into(), true),
        ("binary", "\u{0}\u{1}\u{2}\u{3}\u{4}\u{5}".into(), false),
        ("smtp", "220 mail.example.org ESMTP\r\n".into(), true),
        ("nothing", String::new(), false),
        ("partial", "HTTP/1.1 200 OK\r\nConte".into(), false),
        ("partial-hold", "HTTP/1.1 200 OK\r\nConte".into(), true),
        ("part-of-line-hold", "HTTP/1.".into(), true),
        // NOTE: a body that ends with the connection is left out: haproxy tells the status or 0, as it happens.
        ("bad-length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".into(), false),
        ("short-body", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello".into(), false),
        ("long-head", format!("HTTP/1.1 200 OK\r\n{long_head}Content-Length: 0\r\n\r\n"), false),
        ("many-fields", format!("HTTP/1.1 200 OK\r\n{many_fields}Content-Length: 0\r\n\r\n"), false),
        ("http-1.0", "HTTP/1.0 200 OK\r\n\r\nhello".into(), false),
        ("http-0.9", "hello".into(), false),
    ] {
        cases.push(case(name, on(answer(response, hold)), &[HTTP]));
    }
    let reset_after = serve(|mut stream| {
        let _ = stream.read(&mut [0; 1_000]);
        reset(stream);
    });
    cases.push(case("reset", on(reset_after), &[HTTP]));
    compare(&cases);
}

#[test]
fn expectations() {
    let ok = on(answer(OK, false));
    let not_found = on(answer("HTTP/1.1 404 Not There\r\nContent-Length: 0\r\n\r\n", false));
    let failing = on(answer("HTTP/1.1 500 Oh No\r\nContent-Length: 0\r\n\r\n", false));
    let empty = on(answer("HTTP/1.1 200 OK\r\n\r\n", false));
    let short = on(answer("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", false));
    let short_hold = on(answer("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", true));
    let chunks = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    let chunked = on(answer(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"), false));
    let big = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}hello", "x".repeat(99_995));
    let big = on(answer(big, true));
    let old = on(answer("HTTP/1.0 200 OK\r\n\r\nhello", false));
    let fields = on(answer("HTTP/1.1 200 OK\r\nX-Abc: one, two\r\nX-B: Three\r\nContent-Length: 0\r\n\r\n", false));
    let silent = on(serve(|mut stream| drop(stream.read_to_end(&mut Vec::new()))));
    let refused = free_port();
    let mut cases = vec![
        case("disable-404", &not_found, &[HTTP, "http-check disable-on-404"]),
        case("wait-short", &short_hold, &[HTTP, "http-check expect string zzz"]),
        case("min-recv", &short_hold, &[HTTP, "http-check expect min-recv 3 string zz"]),
        case("tout-status", &silent, &[HTTP, "http-check expect tout-status L4TOUT status 200"]),
        case("string-lf", &ok, &[HTTP, "http-check expect string-lf \"%[str(hello)]\""]),
        case("string-lf-not", &ok, &[HTTP, "http-check expect string-lf \"%[str(bye)]\""]),
        case(
            "two-expects",
            &chunked,
            &[HTTP, "http-check send meth GET", "http-check expect status 200", "http-check expect string world"],
        ),
        case(
            "variable",
            &ok,
            &[
                HTTP,
                "http-check send meth GET",
                "http-check expect status 200",
                "http-check set-var(check.length) res.hdr(content-length)",
                "http-check expect on-error \"length %[var(check.length)]\" status 500",
            ],
        ),
    ];
    for (name, expect) in [
        ("status", "status 500"),
        ("status-ranges", "status 100,150-190,200-201"),
        ("status-not", "! status 200-299"),
        ("rstatus", "rstatus ^2.0$"),
        ("rstatus-not", "rstatus ^3"),
        ("string-not", "! string hello"),
        ("comment", "comment blah status 500"),
        ("on-error", "on-error \"bad %[res.hdr(content-length)] in %[be_name]/%[srv_name]\" status 500"),
        ("on-success", "on-success \"good %[status]\" status 200"),
        ("error-status", "error-status L7RSP status 500"),
        ("ok-status", "ok-status L4OK status 200"),
        ("status-code", "status-code \"res.hdr(content-length)\" status 500"),
        ("on-error-comment", "comment why on-error \"bad\" string zzz"),
    ] {
        cases.push(case(name, &ok, &[HTTP, &format!("http-check expect {expect}")]));
    }
    for (name, expect) in [
        ("hdr", "hdr name X-Abc value two"),
        ("hdr-not", "hdr name x-abc value four"),
        ("hdr-all", "fhdr name X-Abc value \"one, two\""),
        ("hdr-all-not", "fhdr name X-Abc value two"),
        ("hdr-name", "hdr name X-C"),
        ("hdr-begin", "hdr name -m beg X-A value -m beg tw"),
        ("hdr-end", "hdr name -m end -B value -m end ree"),
        ("hdr-inside", "hdr name -m sub -ab value -m sub w"),
        ("hdr-regex", "hdr name -m reg ^x-a value -m reg ^t.o$"),
        ("hdr-case", "hdr name x-b value three"),
    ] {
        cases.push(case(name, &fields, &[HTTP, &format!("http-check expect {expect}")]));
    }
    for (name, server) in [
        ("ok", &ok),
        ("empty", &empty),
        ("short", &short),
        ("chunked", &chunked),
        ("big", &big),
        ("old", &old),
        ("failing", &failing),
    ] {
        for (kind, expect) in [("string", "string hello"), ("other", "string zzz"), ("regex", "rstring he.*o")] {
            cases.push(case(&format!("{kind}-{name}"), server, &[HTTP, &format!("http-check expect {expect}")]));
        }
    }
    for (name, second, expect) in [
        ("again", "http-check connect".to_owned(), "status 201"),
        ("again-refused", format!("http-check connect port {refused}"), "status 200"),
    ] {
        let lines = [
            HTTP,
            "http-check connect",
            "http-check send meth GET uri /a",
            "http-check expect status 200",
            &second,
            "http-check send meth GET uri /b",
            &format!("http-check expect {expect}"),
        ];
        cases.push(case(name, &ok, &lines));
    }
    compare(&cases);
}

/// What each server was sent first, here and by haproxy.
#[test]
fn requests() {
    type Seen = Arc<Mutex<Vec<Vec<u8>>>>;
    let recorder = |seen: &Seen| {
        let seen = Arc::clone(seen);
        serve(move |mut stream| {
            // What comes in several segments comes within this time.
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let (mut all, mut room) = (Vec::new(), [0; 10_000]);
            while let Ok(count @ 1..) = stream.read(&mut room) {
                all.extend_from_slice(&room[..count]);
            }
            seen.lock().unwrap().push(all);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        })
    };
    let templates: [(&str, &[&str], &str); 19] = [
        ("plain", &[HTTP], ""),
        ("uri", &["option httpchk /health"], ""),
        ("head", &["option httpchk HEAD /h HTTP/1.1"], ""),
        ("fields", &[HTTP, "http-check send meth GET uri /x ver HTTP/1.1 hdr Host example.org hdr X-Foo \"a b\""], ""),
        ("body", &[HTTP, "http-check send meth POST uri /x ver HTTP/1.1 hdr Host e body \"hello\""], ""),
        (
            "formats",
            &[HTTP, "http-check send meth POST uri-lf \"/%[srv_name]\" body-lf \"%[be_name] %[srv_name]\""],
            "",
        ),
        ("connection", &[HTTP, "http-check send hdr Connection keep-alive"], ""),
        ("state", &[HTTP, "http-check send-state"], "weight 10 maxconn 50"),
        ("absolute", &["option httpchk GET http://example.org/bar HTTP/1.1"], ""),
        ("empty-field", &[HTTP, "http-check send hdr X-E \"%[var(check.none)]\" hdr X-F y"], ""),
        (
            "variable",
            &[HTTP, "http-check set-var(check.v) int(1234)", "http-check send hdr X-E \"%[var(check.v)]\""],
            "",
        ),
        ("proxy", &[HTTP], "send-proxy"),
        ("proxy-v2", &[HTTP], "send-proxy-v2"),
        ("check-proxy", &[HTTP], "check-send-proxy"),
        ("tcp-proxy", &[], "send-proxy"),
        ("port-proxy", &[HTTP], "send-proxy port %PORT%"),
        ("connect-proxy", &[HTTP, "http-check connect send-proxy", "http-check send meth GET"], ""),
        ("connect-default", &[HTTP, "http-check connect default", "http-check send meth GET"], "send-proxy"),
        ("connect", &[HTTP, "http-check connect", "http-check send meth GET"], "send-proxy"),
    ];
    // Ports of connections differ, and so do lengths and positions of what contains them.
    let mask = |bytes: &[u8], port: u16| {
        let text = String::from_utf8_lossy(bytes).replace(&port.to_string(), "PORT");
        let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        if words.first().is_some_and(|word| word == "PROXY") {
            words[4] = "SOURCE".into();
        }
        words.join(" ")
    };
    let mut sent: Vec<Vec<String>> = Vec::new();
    for ours in [true, false] {
        let seen: Vec<Seen> = templates.iter().map(|_| Seen::default()).collect();
        let ports: Vec<u16> = seen.iter().map(recorder).collect();
        let cases: Vec<_> = templates
            .iter()
            .zip(&ports)
            .map(|((name, lines, words), port)| {
                case(name, format!("{} {}", on(*port), words.replace("%PORT%", &port.to_string())), lines)
            })
            .collect();
        let backends = configuration(&cases);
        let all_seen = || seen.iter().all(|seen| !seen.lock().unwrap().is_empty());
        // The node's name is ours in one and the machine's in the other, unless both are told.
        let defaults = DEFAULTS.replace("global\n", "global\n  node somewhere\n");
        if ours {
            let text = format!("{}{backends}", defaults.replace("  stats socket %FOLDER%/stats\n", ""));
            Ours::new(&text).check_until(|_| all_seen());
        } else {
            let Some(_haproxy) = Haproxy::start(&format!("{defaults}{backends}")) else { return };
            let patience = Instant::now() + PATIENCE;
            while !all_seen() {
                assert!(Instant::now() < patience, "haproxy did not check every server");
                thread::sleep(Duration::from_millis(20));
            }
        }
        sent.push(seen.iter().zip(ports).map(|(seen, port)| mask(&seen.lock().unwrap()[0], port)).collect());
    }
    for (((ours, theirs), (name, ..)), _) in sent[0].iter().zip(&sent[1]).zip(&templates).zip(0..) {
        assert_eq!(ours, theirs, "{name}");
    }
}

/// A listener that can be closed and opened again on the same port.
struct Switch {
    port: u16,
    listener: Option<TcpListener>,
}

impl Switch {
    fn off() -> Self {
        Self { port: free_port(), listener: None }
    }

    fn on(&mut self) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], self.port)).into()).unwrap();
        socket.listen(100).unwrap();
        self.listener = Some(socket.into());
    }
}

/// Durations are not compared, and ports are each run's own.
fn mask(line: &str) -> String {
    let Some((before, after)) = line.split_once("check duration: ") else { return line.trim_end().to_owned() };
    let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{before}check duration: N{rest}").trim_end().to_owned()
}

/// The log of servers that come and go: the same lines at the same levels, in the same order for each server.
#[test]
fn log_lines_of_servers() {
    let scenario = |ours: bool| -> Option<BTreeMap<String, Vec<String>>> {
        let (log, log_port) = syslog();
        let (mut first, mut second, mut backup) = (Switch::off(), Switch::off(), Switch::off());
        backup.on();
        let text = format!(
            "global\n  spread-checks 0\ndefaults\n  mode http\n  log 127.0.0.1:{log_port} len 4096 format priority local0\n  \
             timeout connect 5s\n  timeout server 5s\n  timeout client 5s\n  default-server inter 200ms rise 2 fall 2\n\
             backend b\n  server one 127.0.0.1:{} check\n  server two 127.0.0.1:{} check weight 0\n  \
             server spare 127.0.0.1:{} check backup\n\
             backend told\n  option log-health-checks\n  server one 127.0.0.1:{} check\n\
             backend follower\n  server f 127.0.0.1:9 track b/one\n  server g 127.0.0.1:9 track b/spare\n",
            first.port, second.port, backup.port, first.port,
        );
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut step = 0;
        let take = |lines: &mut BTreeMap<String, Vec<String>>, wait: bool| {
            log.set_nonblocking(!wait).unwrap();
            let mut room = [0; 5_000];
            loop {
                let count = match log.recv(&mut room) {
                    Ok(count) => count,
                    Err(_) if wait => panic!("no more lines: {lines:#?}"),
                    Err(_) => return,
                };
                let line = mask(&String::from_utf8_lossy(&room[..count]));
                let server = line.split(' ').find(|word| word.contains('/')).unwrap_or("backends").to_owned();
                lines.entry(server).or_default().push(line);
                if wait {
                    return;
                }
            }
        };
        // Opens and closes servers when the log tells that the stage before is reached by all.
        let mut advance = |lines: &BTreeMap<String, Vec<String>>| {
            let told = |server: &str, text: &str| {
                lines.get(server).is_some_and(|lines| lines.last().is_some_and(|line| line.contains(text)))
            };
            let all = |text: &str| told("b/one", text) && told("follower/f", text) && told("told/one", text);
            match step {
                0 if all(" is DOWN") && told("b/two", " is DOWN") => {
                    first.on();
                    second.on();
                }
                1 if all(" is UP") && told("b/two", " is UP") => {
                    first.listener = None;
                    backup.listener = None;
                }
                2 if all(" is DOWN") && told("b/spare", " is DOWN") && told("follower/g", " is DOWN") => {}
                _ => return false,
            }
            step += 1;
            step == 3
        };
        if ours {
            Ours::new(&text).check_until(|_| {
                take(&mut lines, false);
                advance(&lines)
            });
        } else {
            // Without any listener haproxy would not stay.
            let _haproxy = Haproxy::start(&text.replacen("global\n", "global\n  stats socket %FOLDER%/stats\n", 1))?;
            while !advance(&lines) {
                take(&mut lines, true);
            }
        }
        Some(lines)
    };
    let ours = scenario(true).unwrap();
    assert_eq!(
        ours["b/one"].first().map(String::as_str),
        Some(
            "<129>Server b/one is DOWN, reason: Layer4 connection problem, info: \"Connection refused\", check duration: \
             Nms. 0 active and 1 backup servers left. Running on backup. 0 sessions active, 0 requeued, 0 remaining in \
             queue."
        )
    );
    let Some(theirs) = scenario(false) else { return };
    // How many servers are left depends on which of them was checked first, and whether the last line about a backend is
    // still seen on when the test stops reading.
    let compared = |lines: &BTreeMap<String, Vec<String>>| -> BTreeMap<String, Vec<String>> {
        let without_counts = |line: &String| line.split(". ").next().unwrap_or_default().to_owned();
        let mut lines: BTreeMap<_, Vec<_>> =
            lines.iter().map(|(server, lines)| (server.clone(), lines.iter().map(without_counts).collect())).collect();
        if let Some(backends) = lines.get_mut("backends") {
            backends.sort();
            backends.dedup();
        }
        lines
    };
    assert_eq!(compared(&ours), compared(&theirs));
}

fn quiet_defaults(words: &str) -> String {
    format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout server 5s\n  timeout client 5s\n  default-server {words}\n"
    )
}

#[test]
fn sessions_are_ended_when_servers_change() {
    let mut first = Switch::off();
    let mut spare = Switch::off();
    spare.on();
    let ours = Ours::new(&format!(
        "{}backend b\n  server one 127.0.0.1:{} check on-marked-down shutdown-sessions on-marked-up \
         shutdown-backup-sessions\n  server spare 127.0.0.1:{} check backup\n",
        quiet_defaults("inter 20ms rise 1 fall 1"),
        first.port,
        spare.port
    ));
    let epoch = |ours: &Ours, place: usize| {
        let proxy = ours.instance.backend("b").unwrap();
        proxy.servers[place].shut_mark() >> 8
    };
    ours.check_until(|ours| ours.stats("b", "one").status.to_string() == "DOWN");
    assert_eq!((epoch(&ours, 0), epoch(&ours, 1)), (1, 0), "sessions of the server that went down");
    let stats = ours.stats("b", "one");
    assert!(stats.failed_checks >= 1);
    assert_eq!(stats.went_down, 1);
    first.on();
    ours.check_until(|ours| ours.stats("b", "one").status.to_string() == "UP");
    assert_eq!((epoch(&ours, 0), epoch(&ours, 1)), (1, 1), "sessions of the backup server");
}

/// Errors seen in the traffic bring a check forward that would have been due in an hour.
#[test]
fn errors_in_the_traffic_make_a_check_urgent() {
    let mut server = Switch::off();
    server.on();
    let ours = Ours::new(&format!(
        "{}backend b\n  server s 127.0.0.1:{} check observe layer7 error-limit 3 on-error fastinter\n",
        quiet_defaults("inter 1h fastinter 50ms rise 1 fall 1"),
        server.port
    ));
    let checks = std::cell::Cell::new(0);
    let first_check = |ours: &Ours| ours.outcome("b").is_some();
    ours.check_until(|ours| {
        if !first_check(ours) {
            return false;
        }
        if checks.replace(checks.get() + 1) == 0 {
            server.listener = None;
            let proxy = ours.instance.backend("b").unwrap();
            for _ in 0..3 {
                let now_ms = ours.instance.process.milliseconds(Instant::now());
                let seen = balance::Observation::ResponseStatus;
                proxy.with_farm(|farm| farm.observe(balance::ServerId::new(0), seen, now_ms));
            }
        }
        ours.stats("b", "s").status.to_string() == "DOWN"
    });
}

#[test]
fn many_servers_are_spread_over_time_and_all_checked() {
    let port = serve(|mut stream| drop(stream.read(&mut [0; 10])));
    let mut text = quiet_defaults("inter 1s");
    for backend in 0..10 {
        text += &format!("backend b{backend}\n");
        for server in 0..100 {
            text += &format!("  server s{server} 127.0.0.1:{port} check\n");
        }
    }
    let ours = Ours::new(&text);
    prepare(&ours.instance);
    let due: Vec<u64> = ours
        .instance
        .proxies
        .iter()
        .flat_map(|proxy| {
            let farm = proxy.farm();
            farm.servers()
                .map(|server| farm.check_due_ms(server, balance::CheckKind::Health).unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(due.len(), 1_000);
    assert!(due.is_sorted());
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] <= 1), "one after the other");
    assert!((990..1_100).contains(&(due[999] - due[0])), "over one interval");
    ours.check_until(|ours| {
        ours.instance.proxies.iter().all(|proxy| {
            let farm = proxy.farm();
            farm.servers().all(|server| {
                let check = farm.server_stats(server, 0).unwrap().check.unwrap();
                check.status == CheckStatus::Layer4Ok
            })
        })
    });
}

/// Each server is checked by one worker, whichever; what is dropped checks no more.
#[test]
fn servers_belong_to_one_worker_each() {
    let port = serve(|mut stream| drop(stream.read(&mut [0; 10])));
    let mut text = quiet_defaults("inter 20ms");
    text += "backend b\n";
    for server in 0..30 {
        text += &format!("  server s{server} 127.0.0.1:{port} check\n");
    }
    let ours = Ours::new(&text);
    let checked = |ours: &Ours| {
        let farm = ours.instance.proxies[0].farm();
        let done = |server| farm.server_stats(server, 0).unwrap().check.unwrap().status == CheckStatus::Layer4Ok;
        farm.servers().filter(|server| done(*server)).count()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        prepare(&ours.instance);
        let mut counts = Vec::new();
        for worker in 0..3 {
            let checks = start(&ours.instance, &ours.board, None, worker, 3);
            let patience = Instant::now() + PATIENCE;
            while checked(&ours) < 10 * (worker + 1) {
                assert!(Instant::now() < patience);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
            drop(checks);
            tokio::task::yield_now().await;
            counts.push(checked(&ours));
        }
        assert_eq!(counts, [10, 20, 30]);
    });
}

/// Says `greeting`, and after each thing that it hears the next of `answers`; then it closes, or waits for the other side.
fn converse(greeting: &[u8], answers: &[&[u8]], hold: bool) -> String {
    let (greeting, answers) = (greeting.to_vec(), answers.iter().map(|answer| answer.to_vec()).collect::<Vec<_>>());
    let port = serve(move |mut stream| {
        let _ = stream.write_all(&greeting);
        for answer in &answers {
            if !stream.read(&mut [0; 10_000]).is_ok_and(|count| count > 0) {
                return;
            }
            let _ = stream.write_all(answer);
        }
        while hold && stream.read(&mut [0; 1_000]).is_ok_and(|count| count > 0) {}
    });
    on(port)
}

const TCP: &str = "option tcp-check";

#[test]
fn sequences_over_tcp() {
    let pong = converse(b"", &[b"+PONG\r\n"], true);
    let closing = converse(b"", &[b"+PONG\r\n"], false);
    let mute = converse(b"", &[b""], false);
    let silent = converse(b"", &[], true);
    let greeting = converse(b"220 mail\r\n", &[b"250 hello\r\n"], true);
    let short = converse(b"+PO", &[], true);
    let binary = converse(b"\x00\x01\xfe\xff", &[], true);
    let refused = free_port();
    let other = converse(b"other\n", &[], true);
    let other_port = other.split_once(':').unwrap().1;
    let ping = "tcp-check send PING\\r\\n";
    let mut cases = vec![
        case("tcp", &pong, &[TCP]),
        case("tcp-refused", on(refused), &[TCP]),
        case("tcp-full", on(full()), &[TCP]),
        case("connect", &pong, &[TCP, "tcp-check connect"]),
        case("connect-refused", on(refused), &[TCP, "tcp-check connect"]),
        case("connect-port-refused", &pong, &[TCP, &format!("tcp-check connect port {refused} comment \"two words\"")]),
        case("connect-no-network", &pong, &[TCP, "tcp-check connect addr 255.255.255.255"]),
        case(
            "connect-port",
            &pong,
            &[TCP, &format!("tcp-check connect port {other_port}"), "tcp-check expect string other"],
        ),
        case(
            "connect-expression",
            &pong,
            &[
                TCP,
                &format!("tcp-check set-var(check.port) int({other_port})"),
                "tcp-check connect port var(check.port)",
                "tcp-check expect string other",
            ],
        ),
        case(
            "connect-address",
            on(refused),
            &[TCP, &format!("tcp-check connect addr {other}"), "tcp-check expect string o"],
        ),
        case("send", &pong, &[TCP, ping]),
        case("send-binary-lf-empty", &pong, &[TCP, "tcp-check send-binary-lf %[var(check.none)]"]),
        case("send-binary-lf-odd", &pong, &[TCP, "tcp-check send-binary-lf 123"]),
        case("send-lf-empty", &other, &[TCP, "tcp-check send-lf %[var(check.none)]", "tcp-check expect string other"]),
        case("send-long", &pong, &[TCP, &format!("tcp-check send {}", "x".repeat(1_900))]),
        case("empty", &mute, &[TCP, ping, "tcp-check expect string +PONG"]),
        case("empty-comment", &mute, &[TCP, ping, "tcp-check expect error-status L7STS comment why string +PONG"]),
        case("silent", &silent, &[TCP, ping, "tcp-check expect string +PONG comment \"ping it\""]),
        case("silent-binary", &silent, &[TCP, "tcp-check expect binary 414200"]),
        case("silent-tout", &silent, &[TCP, "tcp-check expect tout-status L4TOUT rstring x"]),
        case("silent-timeout", &silent, &[TCP, "timeout check 200ms", "tcp-check expect ! string x"]),
        case(
            "two-connections",
            &pong,
            &[
                TCP,
                "tcp-check connect",
                ping,
                "tcp-check expect string PONG",
                &format!("tcp-check connect port {other_port}"),
                "tcp-check expect string other",
            ],
        ),
        case(
            "comment",
            &pong,
            &[TCP, "tcp-check comment \"is it up\"", ping, "tcp-check comment b", "tcp-check expect string x"],
        ),
        case(
            "row",
            &greeting,
            &[
                TCP,
                "tcp-check expect string 220",
                "tcp-check expect ! string 5",
                "tcp-check expect rstring mail",
                "tcp-check send HELO\\r\\n",
                "tcp-check expect string 250",
                "tcp-check expect ! string mail",
            ],
        ),
    ];
    for (name, server) in [("pong", &pong), ("closing", &closing)] {
        for (kind, expect) in [
            ("string", "string +PONG"),
            ("string-not", "string -ERR"),
            ("forbidden", "! string +PONG"),
            ("forbidden-not", "! string -ERR"),
            ("long", "string +PONG+PONG+PONG"),
            ("regex", "rstring ^.P[A-Z]+"),
            ("regex-not", "rstring ^P"),
            ("regex-forbidden", "! rstring ^.P"),
            ("format", "string-lf %[str(PON)]G"),
            ("format-not", "string-lf %[str(PIN)]G"),
            ("format-empty", "string-lf %[var(check.none)]"),
            ("binary", "binary 504f4e47"),
            ("binary-not", "binary 5050"),
            ("binary-regex", "rbinary ^2B504F4E470D0A$"),
            ("binary-regex-not", "rbinary ^2b"),
            ("binary-format", "binary-lf 50%[str(O),hex]"),
            ("binary-format-not", "binary-lf 50%[str(Q),hex]"),
            ("binary-format-odd", "binary-lf 5"),
            ("min-recv", "min-recv 3 string -ERR"),
            ("min-recv-none", "min-recv 0 string -ERR"),
            ("min-recv-much", "min-recv 300 string PONG"),
            ("on-success", "on-success \"%[res.payload(1,4)] in %[be_name]\" string PONG"),
            ("on-error", "on-error \"no %[res.payload(0,0),cut_crlf]\" min-recv 1 string -ERR"),
            ("on-error-comment", "comment why on-error bad min-recv 1 string -ERR"),
            ("error-status", "error-status L7STS min-recv 1 string -ERR"),
            ("ok-status", "ok-status L4OK string PONG"),
            ("status-code", "status-code int(12) ok-status L7OK string PONG"),
            ("status-code-error", "status-code res.payload(1,2) error-status L7STS min-recv 1 string -ERR"),
        ] {
            cases.push(case(&format!("{kind}-{name}"), server, &[TCP, ping, &format!("tcp-check expect {expect}")]));
        }
    }
    for (name, expect) in [("short", "string +PONG"), ("short-regex", "rstring PO"), ("short-not", "! string +PONG")] {
        cases.push(case(name, &short, &[TCP, &format!("tcp-check expect {expect}")]));
    }
    cases.push(case("bytes", &binary, &[TCP, "tcp-check expect binary 0001feff"]));
    cases.push(case("bytes-regex", &binary, &[TCP, "tcp-check expect rbinary ^0001FE"]));
    compare(&cases);
}

#[test]
fn built_in_sequences() {
    let mysql = b"\x4a\0\0\0\n8.0.19\0\n\0\0\0o<\x02^bIA\r\0\xff\xff\xff\x02\0\xff\xc7\x15\0\0\0\0\0\0\0\0\0\0|\x18!Y\x10n'a\x14C\"2\0caching_sha2_password\0";
    let refused = b"\x09\0\0\x02\xff\x15\x04#28000";
    let bind = |code: u8| vec![0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0];
    let (bound, not_bound) = (bind(0), bind(49));
    let mut hello = vec![0, 0, 0, 58, 101, 0, 0, 0, 1, 0, 0];
    for (key, value) in
        [("version", &b"\x08\x032.0"[..]), ("max-frame-size", b"\x03\xfc\xf0\x06"), ("capabilities", b"\x08\x00")]
    {
        hello.push(u8::try_from(key.len()).unwrap());
        hello.extend_from_slice(key.as_bytes());
        hello.extend_from_slice(value);
    }
    let size = u32::try_from(hello.len() - 4).unwrap().to_be_bytes();
    hello[..4].copy_from_slice(&size);
    let mut cases = Vec::new();
    for (option, conversations) in [
        (
            "redis-check",
            vec![
                (&b""[..], vec![&b"+PONG\r\n"[..]]),
                (b"", vec![b"-ERR wrong number of arguments\r\n"]),
                (b"", vec![b"-LOADING Redis is loading the dataset in memory\r\nmore"]),
                (b"", vec![b"+P"]),
            ],
        ),
        (
            "smtpchk",
            vec![
                (b"220 mail.example.org ESMTP\r\n", vec![&b"250 mail.example.org\r\n"[..], b"221 bye\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250 mail.example.org\r\n", b"421 no\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n250 SIZE 5\r\n", b"221-bye\r\n221 bye\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n250-SIZE 5\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"250-mail\r\n550 SIZE 5\r\n"]),
                (b"220 mail.example.org ESMTP\r\n", vec![b"501 no such\r\n"]),
                (b"554 go away\r\n", vec![]),
                (b"SSH-2.0\r\n", vec![]),
                (b"220\r\n", vec![b"250 \r\n", b"221\r\n"]),
                (b"220", vec![]),
            ],
        ),
        ("smtpchk EHLO there", vec![(b"220 m\r\n", vec![&b"250 there you are\r\n"[..], b"221 2.0.0 bye\r\n"])]),
        (
            "pgsql-check user me",
            vec![
                (b"", vec![&b"R\0\0\0\x08\0\0\0\0"[..]]),
                (b"", vec![b"R\0\0\0\x0c\0\0\0\x05abcd"]),
                (b"", vec![b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"]),
                (b"", vec![b"EFATAL 28000 no\0"]),
                (b"", vec![b"HTTP/1.1 400 Bad Request\r\n\r\n"]),
                (b"", vec![b"R\0"]),
            ],
        ),
        ("mysql-check", vec![(&mysql[..], vec![]), (refused, vec![]), (b"\x4a\0", vec![]), (b"HTTP/1.1 400", vec![])]),
        (
            "mysql-check user me",
            vec![
                (&mysql[..], vec![&b"\x07\0\0\x02\0\0\0\x02\0\0\0"[..]]),
                (mysql, vec![refused]),
                (mysql, vec![b"\x07\0\0\x02\0\0"]),
            ],
        ),
        ("mysql-check user me pre-41", vec![(mysql, vec![b"\x03\0\0\x02\0\0\0"])]),
        (
            "ldap-check",
            vec![
                (b"", vec![&bound[..]]),
                (b"", vec![&not_bound[..]]),
                (b"", vec![b"\x30\x0c\x02\x01\x01\x60\x07\x0a\x01\0\x04\0\x04\0"]),
                (b"", vec![b"HTTP/1.1 400 Bad Request\r\n"]),
                (b"", vec![b"\x30\x82\xff\xff2345678901234567890"]),
            ],
        ),
        ("spop-check", vec![(b"", vec![&hello[..]]), (b"", vec![b"HTTP/1.1 400 Bad"])]),
        (
            "ssl-hello-chk",
            vec![
                (b"", vec![&b"\x16\x03\0\0\x02ab"[..]]),
                (b"", vec![b"\x15\x03\0\0\x02\x02\x28"]),
                (b"", vec![b"HTTP/1.1 400"]),
            ],
        ),
    ] {
        for (number, (greeting, answers)) in conversations.into_iter().enumerate() {
            for hold in [true, false] {
                // NOTE: of a frame that never gets whole, haproxy reads what lies behind it in memory.
                if option == "spop-check" && number == 1 && !hold {
                    continue;
                }
                let server = converse(greeting, &answers, hold);
                let name = format!("{}-{number}-{hold}", option.replace(' ', "-"));
                cases.push(case(&name, server, &[&format!("option {option}")]));
            }
        }
        for (name, server) in [("refused", on(free_port())), ("mute", converse(b"", &[b""], false))] {
            cases.push(case(&format!("{}-{name}", option.replace(' ', "-")), server, &[&format!("option {option}")]));
        }
    }
    compare(&cases);
}
