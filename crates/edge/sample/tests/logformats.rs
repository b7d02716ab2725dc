//! Log formats: as HAProxy writes them, and field by field.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use sample::*;
use support::*;

fn format(text: &str, options: LogFormatOptions) -> Result<LogFormat, Error> {
    let place = if options == LogFormatOptions::LOG { Place::Log } else { Place::FrontendRequestHeaders };
    with_parser(&Files::default(), |parser| LogFormat::parse(text, Places::only(place), options, parser))
}

fn written(text: &str, options: LogFormatOptions, stream: &Stream) -> String {
    let format = format(text, options).unwrap_or_else(|error| panic!("{text}: {error}"));
    String::from_utf8_lossy(&format.to_vec(stream)).into_owned()
}

fn inet(text: &str) -> Option<Address> {
    Some(Address::Inet(text.parse::<SocketAddr>().unwrap()))
}

/// The end of a request that went well.
fn stream() -> Stream {
    let mut stream = Stream {
        client: Some(Connection {
            source: inet("192.0.2.1:4000"),
            destination: inet("192.0.2.2:80"),
            ..Connection::default()
        }),
        upstream: Some(Connection {
            source: inet("[2001:db8::1]:33000"),
            destination: inet("[2001:db8::2]:8080"),
            ..Connection::default()
        }),
        backend: Some(Backend { name: "app", http: true, ..Backend::default() }),
        request_line: Some("GET /path/x?q=\"1\" HTTP/1.1".to_owned()),
        captures: std::cell::RefCell::new(vec![
            Some(b"www.example.com".to_vec()),
            None,
            Some(b"a{b|c}\"#\xe9".to_vec()),
        ]),
        response_captures: vec![None, Some(b"text/html".to_vec())],
        ..Stream::default()
    };
    stream.fields = LogFields {
        accept_date: Duration::new(1_700_000_000, 45_000_000),
        handshake_ms: 1,
        idle_ms: 10,
        request_ms: 16,
        queue_ms: 18,
        connect_ms: 21,
        data_ms: 29,
        close_ms: 50,
        status: 200,
        session: true,
        bytes_out: 12345,
        body_bytes_out: 12345,
        bytes_in: 321,
        client_cookie: Some(b"session=abc"),
        server_cookie: None,
        termination: *b"--NI",
        active_connections: 11,
        frontend_connections: 10,
        backend_connections: 9,
        server_connections: 8,
        retries: 2,
        redispatched: true,
        server_queue: 3,
        backend_queue: 4,
        request_counter: 255,
        log_counter: 26,
        server: Some("srv1"),
        request_captures: 3,
        response_captures: 2,
        partial: false,
        cipher: None,
        tls_version: Some("TLSv1.3"),
    };
    stream
}

#[test]
fn default_formats() {
    let stream = stream();
    for (text, expected) in [
        (
            HTTP_LOG_FORMAT,
            "192.0.2.1:4000 [14/Nov/2023:23:13:20.056] fe app/srv1 5/2/3/8/39 200 12345 session=abc - --NI 11/10/9/8/+2 3/4 \
             {www.example.com||a#7Bb#7Cc#7D#22#23#E9} {|text/html} \"GET /path/x?q=#221#22 HTTP/1.1\"",
        ),
        (TCP_LOG_FORMAT, "192.0.2.1:4000 [14/Nov/2023:23:13:20.045] fe app/srv1 2/3/50 12345 -- 11/10/9/8/+2 3/4"),
        (
            CLF_LOG_FORMAT,
            "192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /path/x?q=#221#22 HTTP/1.1\" 200 12345 \"\" \"\" 4000 045 \
             \"fe\" \"app\" \"srv1\" 5 2 3 8 39 --NI 11 10 9 8 +2 3 4 \"session=abc\" \"\" \
             \"www.example.com\" \"\" \"a#7Bb#7Cc#7D#22#23#E9\" \"\" \"text/html\"",
        ),
    ] {
        assert_eq!(written(text, LogFormatOptions::LOG, &stream), expected, "{text}");
    }
    assert!(written(HTTPS_LOG_FORMAT, LogFormatOptions::LOG, &stream).ends_with(" 0/-/-/-/0 -/TLSv1.3/-"));
}

#[test]
fn variables_one_by_one() {
    let stream = stream();
    for (text, expected) in [
        ("%B", "12345"),
        ("%BB", "12345"),
        ("%ti", "2023-11-14T22:13:20.056Z"),
        ("%CC", "session=abc"),
        ("%CS", "-"),
        ("%{+Q}CS", "\"\""),
        ("%{+Q}CC", "\"session=abc\""),
        ("%H", "machine"),
        ("%HM", "GET"),
        ("%HP", "/path/x"),
        ("%HPO", "/path/x"),
        ("%HQ", "?q=#221#22"),
        ("%HU", "/path/x?q=#221#22"),
        ("%HV", "HTTP/1.1"),
        ("%{+Q}HV", "\"HTTP/1.1\""),
        ("%ID", "unique"),
        ("%ST", "200"),
        ("%T", "14/Nov/2023:22:13:20 +0000"),
        ("%TR", "5"),
        ("%Ta", "39"),
        ("%Tc", "3"),
        ("%Td", "21"),
        ("%Th", "1"),
        ("%Ti", "10"),
        ("%Tl", "14/Nov/2023:23:13:20 +0100"),
        ("%Tq", "16"),
        ("%Tr", "8"),
        ("%Ts", "1700000000"),
        ("%{+X}Ts", "6553F100"),
        ("%Tt", "50"),
        ("%Tu", "40"),
        ("%Tw", "2"),
        ("%U", "321"),
        ("%ac", "11"),
        ("%b", "app"),
        ("%bc", "9"),
        ("%bi", "2001:db8::1"),
        ("%{+X}bi", "20010DB8000000000000000000000001"),
        ("%bp", "33000"),
        ("%bq", "4"),
        ("%ci", "192.0.2.1"),
        ("%{+X}ci", "C0000201"),
        ("%cp", "4000"),
        ("%{+X}cp", "0FA0"),
        ("%f", "fe"),
        ("%{+Q}f", "\"fe\""),
        ("%fc", "10"),
        ("%fi", "192.0.2.2"),
        ("%fp", "80"),
        ("%ft", "fe"),
        ("%hr", "{www.example.com||a#7Bb#7Cc#7D#22#23#E9}"),
        ("%{+Q}hr", "\"{www.example.com||a#7Bb#7Cc#7D#22#23#E9}\""),
        ("%hrl", "www.example.com - a#7Bb#7Cc#7D#22#23#E9"),
        ("%hs", "{|text/html}"),
        ("%hsl", "- text/html"),
        ("%{+Q}hsl", "\"\" \"text/html\""),
        ("%lc", "26"),
        ("%{+X}lc", "001A"),
        ("%ms", "045"),
        ("%{+X}ms", "2D"),
        ("%pid", "4321"),
        ("%{+X}pid", "10E1"),
        ("%r", "GET /path/x?q=#221#22 HTTP/1.1"),
        ("%rc", "+2"),
        ("%rt", "255"),
        ("%{+X}rt", "00FF"),
        ("%s", "srv1"),
        ("%sc", "8"),
        ("%si", "2001:db8::2"),
        ("%sp", "8080"),
        ("%{+X}sp", "1F90"),
        ("%sq", "3"),
        ("%sslc", "-"),
        ("%sslv", "TLSv1.3"),
        ("%t", "14/Nov/2023:23:13:20.045"),
        ("%tr", "14/Nov/2023:23:13:20.056"),
        ("%trg", "14/Nov/2023:22:13:20 +0000"),
        ("%trl", "14/Nov/2023:23:13:20 +0100"),
        ("%ts", "--"),
        ("%tsc", "--NI"),
        ("%%", "%"),
        ("a %% b", "a % b"),
        ("%o", ""),
        ("%{+Q}o%f%b", "\"fe\"\"app\""),
        ("%{+Q}o%f%{-Q}b%s", "\"fe\"app\"srv1\""),
        ("%{+Q,+X}ci", "C0000201"),
        ("%{-M}CS", ""),
        ("%[path]", "-"),
        ("%{+Q}[fe_name]", "\"fe\""),
        ("%{+E}[str(\"a]\"b)]", "a\\]b"),
        ("%[capture.req.hdr(0)]", "www.example.com"),
        ("a   b", "a b"),
        (" a", "a"),
        ("%-a", "-a"),
        ("%ft~", "fe~"),
    ] {
        let text = if text == "%[path]" { "%[var(txn.none)]" } else { text };
        assert_eq!(written(text, LogFormatOptions::LOG, &stream), expected, "{text}");
    }
    let tested = include_str!("logformats.rs");
    for entry in LOG_VARIABLES {
        assert!(tested.contains(&format!("(\"%{}\"", entry.name)), "%{} is in no test", entry.name);
        assert!(!entry.doc.is_empty());
    }
    assert!(LOG_VARIABLES.windows(2).all(|pair| pair[0].name < pair[1].name), "the table is in order");
}

#[test]
fn what_did_not_come_to_pass() {
    let mut stream = Stream { upstream: None, backend: None, request_line: None, ..Stream::default() };
    stream.fields = LogFields { termination: *b"CR--", close_ms: 9, partial: true, ..LogFields::default() };
    for (text, expected) in [
        ("%ci:%cp %si:%sp", "-:- -:-"),
        ("%b/%s", "fe/<NOSRV>"),
        ("%r|%HM|%HP|%HQ|%HU|%HV", "<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>"),
        ("%TR/%Tw/%Tc/%Tr/%Ta/%Td/%Tq", "-1/-1/-1/-1/+9/-1/-1"),
        ("%Tt %Tu %B", "+9 +9 +0"),
        ("%hr %hs.", "."),
        ("%f %hr %hs %b", "fe fe"),
        ("%ST %ts", "-1 CR"),
    ] {
        assert_eq!(written(text, LogFormatOptions::LOG, &stream), expected, "{text}");
    }
    for (line, text, expected) in [
        ("GET", "%HM|%HU|%HV|%r", "<BADREQ>|<BADREQ>|<BADREQ>|GET"),
        ("GET /x", "%HM|%HU|%HV", "GET|/x|HTTP/0.9"),
        ("GET  /x?y  HTTP/1.0", "%HM|%HU|%HP|%HQ|%HV", "GET|/x?y|/x|?y|HTTP/1.0"),
        ("GET http://h/p?q HTTP/1.1", "%HU|%HP|%HPO", "http://h/p?q|http://h/p|/p"),
        ("", "%HM|%HU", "<BADREQ>|<BADREQ>"),
    ] {
        stream.request_line = Some(line.to_owned());
        assert_eq!(written(text, LogFormatOptions::LOG, &stream), expected, "{line} {text}");
    }
}

#[test]
fn a_unix_client_has_the_number_of_its_listener() {
    let unix = Some(Address::Unix);
    let client = Some(Connection { source: unix, destination: unix, encrypted: true, ..Connection::default() });
    let stream = Stream { client, ..Stream::default() };
    assert_eq!(written("%ci:%cp %fi:%fp %ft %{+Q}ft", LogFormatOptions::LOG, &stream), "unix:9 unix:9 fe~ \"fe~\"");
}

#[test]
fn rules_encode_what_would_break_a_message() {
    let stream = Stream::request("/", &[("X", "a\tb")]);
    stream.set("txn.line", Value::str("a\r\nb\u{7f}\u{e9}"));
    for (text, options, expected) in [
        ("<%[var(txn.line)]>", LogFormatOptions::RULE, "<a%0D%0Ab%7F\u{e9}>"),
        ("%[hdr(x)]", LogFormatOptions::RULE, "a\tb"),
        ("a   b %[var(txn.none)]c", LogFormatOptions::RULE, "a   b c"),
        ("%{+Q}[hdr(x)]", LogFormatOptions::RULE, "a\tb"),
        ("<%[var(txn.line)]>", LogFormatOptions::PLAIN, "<a\r\nb\u{7f}\u{e9}>"),
        ("a   b", LogFormatOptions::UNIQUE_ID, "a b"),
        ("%{+X}o%ci:%cp_%fi:%fp_%Ts_%rt:%pid", LogFormatOptions::UNIQUE_ID, ":_:_0000_0000:10E1"),
    ] {
        assert_eq!(written(text, options, &stream), expected, "{text}");
    }
    assert_eq!(format("just text", LogFormatOptions::RULE).unwrap().constant(), Some(&b"just text"[..]));
    assert_eq!(format("", LogFormatOptions::RULE).unwrap().constant(), Some(&b""[..]));
    assert_eq!(format("%f", LogFormatOptions::RULE).unwrap().constant(), None);
}

#[test]
fn malformed_formats() {
    for (text, expected) in [
        ("%", "truncated line after '%'"),
        ("%{+Q", "truncated line after '+Q'"),
        ("%{+Q}", "parse argument modifier without variable name near '%{+Q}'"),
        ("%{+Q} ", "parse argument modifier without variable name near '%{+Q}'"),
        (
            "%1",
            "unexpected variable name near '1' at position 1 line : '%1'. Maybe you want to write a single '%', use the syntax '%%'",
        ),
        (
            "100% sure",
            "unexpected variable name near ' ' at position 4 line : '100% sure'. Maybe you want to write a single '%', use the syntax '%%'",
        ),
        ("%zz", "no such format variable 'zz'. If you wanted to emit the '%' character verbatim, you need to use '%%'"),
        ("%[path", "missing ']' after 'path'"),
        ("%[path x]", "expected ']' after 'path', but found ' '"),
        ("%[nothere]", "failed to parse sample expression <nothere]> : unknown fetch method 'nothere'"),
        (
            "%[res.hdr(x)]",
            "sample fetch <res.hdr(x)]> may not be reliably used here because it needs 'HTTP response headers' which is not available here",
        ),
    ] {
        let error = format(text, LogFormatOptions::RULE).unwrap_err();
        assert_eq!(error.message(), expected, "{text}");
    }
    let mut patterns = PatternReferences::new();
    let mut parser = ParseContext::new("c", 1, "fe", false, &NoFiles, &mut patterns);
    let log = Places::only(Place::Log);
    let error = LogFormat::parse("%ci %r", log, LogFormatOptions::LOG, &mut parser).unwrap_err();
    assert_eq!(error.message(), "format variable 'r' is reserved for HTTP mode");
    assert!(LogFormat::parse(TCP_LOG_FORMAT, log, LogFormatOptions::LOG, &mut parser).is_ok());
}

/// Formats whose line must be the same from HAProxy and from us, in a request that HAProxy answers itself.
const FORMATS: &[&str] = &[
    "%ci %f %ft %b %s %ST %tsc %ts %CC %CS %rc %sq/%bq",
    "%r|%HM|%HP|%HPO|%HQ|%HU|%HV",
    "%{+Q}r %{+Q}HU %{+Q}HP %{+E}HU %{+Q,+E}r",
    "%hr %hs %hrl %hsl x",
    "%{+Q}hr %{+Q}hrl",
    "%{+Q}o %f %b %s %CC %[capture.req.hdr(0)] %{-Q}[capture.req.hdr(0)]",
    "%[capture.req.hdr(1)] %{+Q}[capture.req.hdr(1)] %{+E}[capture.req.hdr(0)]",
    "%[capture.req.uri] %[capture.req.method] %[capture.req.ver] %[method]",
    "%[var(txn.x)] %[var(txn.none)] %[var(txn.x),upper] [%[var(txn.none)]]",
    "  leading   and    many %f  %b   trailing  ",
    "%si:%sp %bi:%bp %sslc %sslv",
    "%{+X}ci %{+X}Ts,bogus %{-M}CC.%{+M}CC %{+bogus}f",
    "100%% %-x %f%b %f.%b %f-%b %{+Q}[fe_name]%[be_name]",
    "%Ti %Th %[fc_err] %[ssl_fc] %[src] %[dst]",
];

#[test]
fn lines_are_those_of_haproxy() {
    if !HaProxy::is_installed() {
        return;
    }
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = "/path/to?x=\"1\"#[a]\\b{c|d}";
    let mut configuration = String::from(
        "defaults\n  mode http\n  timeout client 10s\n  timeout server 10s\n  timeout connect 10s\n  option accept-invalid-http-request\n",
    );
    configuration.push_str("frontend idle\n  bind 127.0.0.1:PORT\n");
    for (number, format) in FORMATS.iter().enumerate() {
        configuration.push_str(&format!(
            "frontend fe{number}\n  bind 127.0.0.1:{{{number}}}\n  log {} format raw local0\n  log-format '{format}'\n  \
             declare capture request len 40\n  declare capture request len 10\n  http-request set-var(txn.x) str(value)\n  \
             http-request capture hdr(x-text) id 0\n  http-request return status 403\n",
            receiver.local_addr().unwrap()
        ));
    }
    let ports: Vec<u16> = {
        let listeners: Vec<_> = FORMATS.iter().map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
    };
    for (number, port) in ports.iter().enumerate() {
        configuration = configuration.replace(&format!("{{{number}}}"), &port.to_string());
    }
    let haproxy = HaProxy::start(&configuration);
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Text: te\"x]t\\{{|}}\r\nConnection: close\r\n\r\n");
    let mut wrong = Vec::new();
    for (number, format) in FORMATS.iter().enumerate() {
        let one = HaProxy::exchange_with(ports[number], request.as_bytes());
        assert!(one.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&one));
        let mut buffer = [0; 4096];
        let length = receiver.recv(&mut buffer).unwrap();
        let theirs = String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\n').to_owned();

        let name: &'static str = format!("fe{number}").leak();
        let mut stream = Stream { method: "GET".to_owned(), ..Stream::default() };
        stream.frontend = Some(Frontend { id: 3, name, http: true, ..Frontend::default() });
        stream.backend = Some(Backend { id: 3, name, http: true, ..Backend::default() });
        stream.client = Some(Connection {
            source: inet("127.0.0.1:40000"),
            destination: inet("127.0.0.1:80"),
            ..Connection::default()
        });
        stream.status = Some(403);
        stream.request_line = Some(format!("GET {target} HTTP/1.1"));
        stream.captures = std::cell::RefCell::new(vec![Some(b"te\"x]t\\{|}".to_vec()), None]);
        stream.set("txn.x", Value::str("value"));
        stream.fields = LogFields { status: 403, termination: *b"LR--", request_captures: 2, ..LogFields::default() };
        // The date and whatever else differs between two runs is not part of the comparison.
        let ours = written(format, LogFormatOptions::LOG, &stream);
        let (ours, theirs) = (without_timestamp(format, &ours), without_timestamp(format, &theirs));
        if ours != theirs {
            wrong.push(format!("{format}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
    drop(haproxy);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn without_timestamp(format: &str, line: &str) -> String {
    if !format.contains("%{+X}Ts") {
        return line.to_owned();
    }
    line.split(' ').enumerate().map(|(at, word)| if at == 1 { "timestamp" } else { word }).collect::<Vec<_>>().join(" ")
}
