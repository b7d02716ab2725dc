//! Checks over HTTP: what is asked, and what of the answer is looked at.

use super::*;

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
