//! Tests of the whole: a client and what applications send.

use std::net::SocketAddr;

use pcre::Regex;
use proptest::prelude::*;

use super::*;
use crate::record::{write_header, write_stream};

const ALONE: Settings = Settings { keeps_connection: true, requests_max: 1 };
const SEVERAL: Settings = Settings { requests_max: 3, ..ALONE };

fn end(id: u16, status: u8) -> Vec<u8> {
    let mut out = Vec::new();
    write_header(Kind::EndRequest, id, 8, &mut out);
    out.extend_from_slice(&[0, 0, 0, 7, status, 0, 0, 0]);
    out
}

fn record(kind: Kind, id: u16, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match content {
        [] => write_header(kind, id, 0, &mut out),
        content => write_stream(kind, id, content, &mut out),
    }
    out
}

fn padded(kind: u8, id: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut out = vec![1, kind, 0, id, length[0], length[1], padding, 0xee];
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(b'p', usize::from(padding)));
    out
}

/// What comes of `input`, given in pieces of so many bytes: text for each event, where bytes that follow each other are one.
fn events(client: &mut Client, input: &[u8], piece: usize) -> Result<Vec<String>, RecordError> {
    let (mut found, mut held): (Vec<(String, Vec<u8>)>, Vec<u8>) = (Vec::new(), Vec::new());
    for bytes in input.chunks(piece.max(1)) {
        held.extend_from_slice(bytes);
        let mut used = 0;
        while let Some(event) = client.next(&held, &mut used)? {
            let (name, content) = match event {
                Event::Stdout { key, from, to } => (format!("out {}", key.slot()), held[from..to].to_vec()),
                Event::Stderr { key, from, to } => (format!("err {}", key.slot()), held[from..to].to_vec()),
                Event::StdoutEnd(key) => (format!("closed {}", key.slot()), Vec::new()),
                Event::End { key, status } => (format!("end {} {status:?}", key.slot()), Vec::new()),
                Event::Values(values) => (format!("{values:?}"), Vec::new()),
            };
            match found.last_mut() {
                Some((last, all)) if *last == name => all.extend_from_slice(&content),
                _ => found.push((name, content)),
            }
        }
        held.drain(..used);
    }
    let text = |(name, content): (String, Vec<u8>)| match content.len() {
        0 => name,
        _ => format!("{name}: {}", String::from_utf8_lossy(&content)),
    };
    Ok(found.into_iter().map(text).collect())
}

#[test]
fn a_request_is_written() {
    let mut out = Vec::new();
    let mut client = Client::new(ALONE);
    assert!(out.is_empty());
    let key = client.begin(b"ab", &mut out).unwrap();
    client.write_stdin(key, b"body", &mut out);
    client.write_stdin(key, b"", &mut out);
    client.end_stdin(key, &mut out);
    client.end_stdin(key, &mut out);
    client.write_stdin(key, b"more", &mut out);
    let expected = [
        &[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0][..],
        &[1, 4, 0, 1, 0, 2, 0, 0, b'a', b'b', 1, 4, 0, 1, 0, 0, 0, 0],
        &[1, 5, 0, 1, 0, 4, 0, 0, b'b', b'o', b'd', b'y', 1, 5, 0, 1, 0, 0, 0, 0],
    ];
    assert_eq!(out, expected.concat());
    assert_eq!(client.begin(b"", &mut out), None);
}

#[test]
fn long_streams_are_cut_into_records() {
    // Lengths have two bytes: what is longer must not be cut off, whatever the size of buffers is.
    for length in [65_527, 65_528, 65_529, 65_535, 65_536, 200_000] {
        let (body, mut out) = (vec![b'x'; length], Vec::new());
        write_stream(Kind::Stdin, 1, &body, &mut out);
        let (mut at, mut all) = (0, 0);
        while at < out.len() {
            let size = usize::from(u16::from_be_bytes([out[at + 4], out[at + 5]]));
            assert_eq!((out[at + 1], out[at + 6]), (5, 0));
            assert!(size > 0 && out[at + 8..at + 8 + size].iter().all(|byte| *byte == b'x'));
            (at, all) = (at + 8 + size, all + size);
        }
        assert_eq!((at, all), (out.len(), length));
    }
}

#[test]
fn an_answer_is_read_however_it_arrives() {
    let input = [
        padded(6, 1, b"Status: 200\r\n", 3),
        padded(7, 1, b"a complaint\n", 255),
        padded(6, 1, b"\r\nbody", 0),
        // Not for a web server, or about nothing that is known.
        padded(99, 1, b"unknown", 1),
        padded(99, 0, b"unknown", 1),
        padded(5, 1, b"stdin", 1),
        padded(6, 9, b"of another", 2),
        padded(3, 9, &[0; 8], 2),
        padded(6, 1, b"", 9),
        padded(6, 1, b"behind the end", 0),
        padded(3, 1, &[0, 0, 0, 3, 0, 0, 0, 0], 4),
        padded(6, 1, b"behind the request", 0),
    ]
    .concat();
    let expected = ["out 0: Status: 200\r\n", "err 0: a complaint\n", "out 0: \r\nbody", "closed 0", "end 0 Complete"];
    for piece in [1, 2, 3, 7, 8, 9, 64, 10_000] {
        let mut client = Client::new(ALONE);
        let key = client.begin(b"", &mut Vec::new()).unwrap();
        assert!(client.is_open(key) && !client.is_idle());
        assert_eq!(events(&mut client, &input, piece).unwrap(), expected, "{piece}");
        assert!(!client.is_open(key) && client.is_idle());
    }
}

#[test]
fn what_makes_no_sense_ends_the_connection() {
    let fails = |input: &[u8]| {
        let mut client = Client::new(SEVERAL);
        client.begin(b"", &mut Vec::new()).unwrap();
        let errors = [1, 5, 100].map(|piece| {
            let mut client = Client::new(SEVERAL);
            client.begin(b"", &mut Vec::new()).unwrap();
            events(&mut client, input, piece).unwrap_err()
        });
        let error = events(&mut client, input, 1_000_000).unwrap_err();
        assert_eq!(errors, [error; 3]);
        error
    };
    assert_eq!(fails(&[2, 6, 0, 1, 0, 0, 0, 0]), RecordError::Version(2));
    assert_eq!(fails(b"HTTP/1.1 400 Bad"), RecordError::Version(b'H'));
    // Stream 0 is the connection's: no record about a request may have it.
    for kind in [1, 2, 3, 4, 5, 6, 7, 8] {
        assert_eq!(fails(&padded(kind, 0, b"12345678", 0)), RecordError::IdZero);
    }
    assert_eq!(fails(&padded(3, 1, b"1234567", 0)), RecordError::TooShort(7));
    assert_eq!(fails(&padded(3, 1, b"", 0)), RecordError::TooShort(0));
    assert_eq!(fails(&padded(3, 1, &[0; 5000], 0)), RecordError::TooLong(5000));
    assert_eq!(fails(&padded(10, 0, &[0xff; 5000], 0)), RecordError::TooLong(5000));
    assert_eq!(fails(&padded(10, 0, b"\x0f\x01FCGI_MPXS_CON", 0)), RecordError::Values);
}

#[test]
fn statuses() {
    for (code, expected) in
        [(0, "Complete"), (1, "CannotMultiplex"), (2, "Overloaded"), (3, "UnknownRole"), (9, "UnknownRole")]
    {
        let mut client = Client::new(ALONE);
        client.begin(b"", &mut Vec::new()).unwrap();
        assert_eq!(events(&mut client, &end(1, code), 100).unwrap(), [format!("end 0 {expected}")]);
    }
}

#[test]
fn several_requests_at_a_time() {
    let mut out = Vec::new();
    let mut client = Client::new(SEVERAL);
    let keys = [(); 3].map(|()| client.begin(b"", &mut out).unwrap());
    assert_eq!(keys.map(RequestKey::slot), [0, 1, 2]);
    assert_eq!(client.begin(b"", &mut out), None);
    let input =
        [record(Kind::Stdout, 3, b"c"), record(Kind::Stdout, 1, b"a"), end(2, 0), record(Kind::Stdout, 3, b"d")];
    let found = events(&mut client, &input.concat(), 5).unwrap();
    assert_eq!(found, ["out 2: c", "out 0: a", "end 1 Complete", "out 2: d"]);
    // The application hears that the body is over which it has not waited for.
    assert!(!client.has_finished());
    out.clear();
    client.finish(&mut out);
    assert_eq!(out, [1, 5, 0, 2, 0, 0, 0, 0]);
    assert!(client.has_finished());
    // A place is taken again, by another request, whose id is another one: what else is said of the former reaches nobody.
    let next = client.begin(b"", &mut out).unwrap();
    let late = [record(Kind::Stdout, 2, b"late"), end(2, 0)];
    assert_eq!(events(&mut client, &late.concat(), 100).unwrap(), [""; 0]);
    assert_eq!(events(&mut client, &record(Kind::Stdout, 4, b"e"), 100).unwrap(), ["out 1: e"]);
    assert_eq!(next.slot(), 1);
    assert_ne!(next, keys[1]);
    assert!(!client.is_open(keys[1]) && client.is_open(next));
    // One that nobody wants keeps its place until the application has ended it.
    out.clear();
    client.abort(keys[0], &mut out);
    client.abort(keys[0], &mut out);
    assert_eq!(out, [&[1, 2, 0, 1, 0, 0, 0, 0][..], &[1, 5, 0, 1, 0, 0, 0, 0]].concat());
    assert_eq!((client.active(), client.begin(b"", &mut out)), (3, None));
    let input = [record(Kind::Stdout, 1, b"late"), record(Kind::Stderr, 1, b"late"), end(1, 0), end(1, 0)];
    assert_eq!(events(&mut client, &input.concat(), 100).unwrap(), [""; 0]);
    assert_eq!((client.active(), client.begin(b"", &mut out).unwrap().slot()), (2, 0));
}

#[test]
fn no_id_is_given_twice() {
    let (mut out, mut client) = (Vec::new(), Client::new(ALONE));
    for id in 1..=u16::MAX {
        assert!(client.has_ids());
        let key = client.begin(b"", &mut out).unwrap();
        assert_eq!(out[2..4], id.to_be_bytes());
        client.end_stdin(key, &mut out);
        assert_eq!(events(&mut client, &end(id, 0), 100).unwrap(), ["end 0 Complete"]);
        out.clear();
    }
    assert!(!client.has_ids() && client.has_finished());
    assert_eq!(client.begin(b"", &mut out), None);
}

#[test]
fn values() {
    let answer = |pairs: &[(&str, &str)]| {
        let mut content = Vec::new();
        pairs.iter().for_each(|(name, value)| write_pair(name.as_bytes(), value.as_bytes(), &mut content));
        record(Kind::GetValuesResult, 0, &content)
    };
    let learns = |input: &[u8]| {
        let mut out = Vec::new();
        let mut client = Client::new(ALONE);
        client.ask_values(&mut out);
        assert_eq!(out[..8], [1, 9, 0, 0, 0, 32, 0, 0]);
        let mut used = 0;
        let Some(Event::Values(values)) = client.next(input, &mut used).unwrap() else { panic!("no values") };
        assert_eq!(client.next(input, &mut used), Ok(None));
        (values.requests_at_a_time((false, 1)), values.requests_at_a_time((true, 5)))
    };
    assert_eq!(learns(&answer(&[("FCGI_MAX_REQS", "7"), ("FCGI_MPXS_CONNS", "1"), ("FCGI_OTHER", "")])), (7, 7));
    assert_eq!(learns(&answer(&[("FCGI_MAX_REQS", "7"), ("FCGI_MPXS_CONNS", "0")])), (1, 1));
    assert_eq!(learns(&answer(&[("FCGI_MPXS_CONNS", "1"), ("FCGI_MAX_REQS", "many")])), (1, 5));
    assert_eq!(learns(&answer(&[("FCGI_MPXS_CONNS", "1"), ("FCGI_MAX_REQS", "99999999")])), (1024, 1024));
    assert_eq!(learns(&answer(&[("FCGI_MPXS_CONNS", "1"), ("FCGI_MAX_REQS", "0")])), (1, 1));
    assert_eq!(learns(&answer(&[])), (1, 5));
    assert_eq!(learns(&record(Kind::UnknownType, 0, &[9, 0, 0, 0, 0, 0, 0, 0])), (1, 5));
}

#[test]
fn pairs_of_any_length() {
    // Names too can be longer than 127 bytes.
    for (name, value) in [(0, 0), (1, 127), (127, 128), (128, 127), (300, 70_000), (70_000, 0)] {
        let (name, value, mut out) = (vec![b'n'; name], vec![b'v'; value], Vec::new());
        write_pair(&name, &value, &mut out);
        write_pair(b"next", b"1", &mut out);
        let found: Vec<_> = Pairs::new(&out).collect::<Result<_, ()>>().unwrap();
        assert_eq!(found, [(&*name, &*value), (b"next", b"1")]);
        for cut in [1, 2, out.len() / 2] {
            assert!(Pairs::new(&out[..out.len() - cut]).any(|pair| pair.is_err()), "{cut}");
        }
    }
    // A length beyond what is there, and one that would overflow.
    assert_eq!(Pairs::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'a']).collect::<Vec<_>>(), [Err(())]);
    assert_eq!(Pairs::new(&[5, 0, b'a']).collect::<Vec<_>>(), [Err(())]);
}

#[test]
fn other_protocols() {
    let pairs = || [(&b"REQUEST_METHOD"[..], &b"POST"[..]), (b"CONTENT_LENGTH", b"9"), (b"A", b"")].into_iter();
    let mut out = Vec::new();
    write_scgi(9, pairs(), &mut out).unwrap();
    assert_eq!(out, b"47:CONTENT_LENGTH\x009\0SCGI\x001\0REQUEST_METHOD\0POST\0A\0\0,");
    assert_eq!(write_scgi(0, [(&b"A"[..], &b"\0"[..])].into_iter(), &mut out), Err(PairError::Nul));
    out.clear();
    write_uwsgi(pairs().take(1), &mut out).unwrap();
    assert_eq!(out, b"\0\x16\0\0\x0e\0REQUEST_METHOD\x04\0POST");
    let long = vec![b'x'; 65_536];
    assert_eq!(write_uwsgi([(&b"A"[..], &*long)].into_iter(), &mut out), Err(PairError::TooLong(65_536)));
    let half = vec![b'x'; 40_000];
    assert!(write_uwsgi([(&b"A"[..], &*half), (b"B", &*half)].into_iter(), &mut out).is_err());
}

fn program(path_info: Option<&Regex>) -> Program<'_> {
    Program { docroot: b"/srv", index: Some(b"index.php"), path_info }
}

#[test]
fn scripts() {
    let both = Regex::new(br"^(/.+\.php)(/.*)?$", false).unwrap();
    let first = Regex::new(br"^(/.+\.php)", false).unwrap();
    let none = Regex::new(br"^/nothing", false).unwrap();
    let check = |regex: Option<&Regex>, path: &str, name: &str, rest: &str| {
        let script = Script::of(path.as_bytes(), &program(regex)).unwrap();
        let found = (String::from_utf8(script.name).unwrap(), String::from_utf8(script.path_info).unwrap());
        assert_eq!(found, (name.to_owned(), rest.to_owned()), "{path}");
    };
    check(None, "/", "/index.php", "");
    check(None, "/a%20b/", "/a b/index.php", "");
    check(None, "/a.php/rest", "/a.php/rest", "");
    check(Some(&both), "/a.php/re%73t/", "/a.php", "/rest/");
    check(Some(&both), "/a.php", "/a.php", "");
    check(Some(&both), "/folder/", "/folder/index.php", "");
    check(Some(&first), "/a.php/rest", "/a.php", "");
    check(Some(&none), "/nothing/", "/nothing/index.php", "");
    check(None, "/%0a", "/\n", "");
    let fails = |regex, path: &[u8]| Script::of(path, &program(regex)).unwrap_err();
    assert_eq!(fails(Some(&both), b"/%0a.php"), PathError::ForbiddenCharacter);
    assert_eq!(fails(Some(&both), b"/a%00.php"), PathError::ForbiddenCharacter);
    assert_eq!(fails(None, b"/a%00"), PathError::ForbiddenCharacter);
    for path in [&b"/.."[..], b"/../x", b"/a/../b", b"/a/%2e%2E/b", b"/a/.%2e"] {
        assert_eq!(fails(None, path), PathError::Parent);
    }
    check(None, "/..a/b..", "/..a/b..", "");
    assert_eq!(fails(None, b"/%zz"), PathError::Encoding);
    assert_eq!(fails(None, b"/%a"), PathError::Encoding);
    assert_eq!(fails(None, b""), PathError::NoPath);
    // An index is appended however long the path is.
    let long = format!("/{}/", "x".repeat(100_000));
    assert_eq!(Script::of(long.as_bytes(), &program(None)).unwrap().name.len(), long.len() + 9);
}

fn variables(fields: &[(&str, &str)], overrides: &[(&str, &str)]) -> Vec<String> {
    let overrides: Vec<Override> = overrides
        .iter()
        .map(|(name, value)| Override { name: variable_name(name.as_bytes()), value: value.as_bytes().to_vec() })
        .collect();
    let remote: SocketAddr = "192.0.2.1:1234".parse().unwrap();
    let local: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    let script = Script { name: b"/a.php".to_vec(), path_info: b"/rest".to_vec() };
    let facts = Facts {
        method: b"POST",
        uri: b"/a.php/rest?q=1",
        query: Some(b"q=1"),
        protocol: b"HTTP/1.1",
        content_length: Some(3),
        remote: Some(remote),
        local: Some(local),
        is_secure: true,
        docroot: b"/srv",
        software: b"S 1",
    };
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut found = Vec::new();
    Variables { facts, script: &script, fields, overrides: &overrides }.for_each(|name, value| {
        found.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    });
    found.sort();
    found
}

#[test]
fn variables_of_a_request() {
    let fields = [
        ("host", "example.com:8080"),
        ("cookie", "a=1"),
        ("accept", "text/html"),
        ("x-two_words", "1"),
        ("Cookie", "b=2"),
        ("Accept", "*/*"),
        ("x-two-words", "2"),
        ("content-type", "text/plain"),
        ("content-length", "3"),
        ("x-empty", ""),
    ];
    let expected = [
        "CONTENT_LENGTH=3",
        "CONTENT_TYPE=text/plain",
        "DOCUMENT_ROOT=/srv",
        "GATEWAY_INTERFACE=CGI/1.1",
        "HTTPS=on",
        "HTTP_ACCEPT=text/html, */*",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_HOST=example.com:8080",
        "HTTP_X_EMPTY=",
        "HTTP_X_TWO_WORDS=1, 2",
        "PATH_INFO=/rest",
        "PATH_TRANSLATED=/srv/rest",
        "QUERY_STRING=q=1",
        "REMOTE_ADDR=192.0.2.1",
        "REMOTE_PORT=1234",
        "REQUEST_METHOD=POST",
        "REQUEST_URI=/a.php/rest?q=1",
        "SCRIPT_FILENAME=/srv/a.php",
        "SCRIPT_NAME=/a.php",
        "SERVER_NAME=example.com:8080",
        "SERVER_PORT=443",
        "SERVER_PROTOCOL=HTTP/1.1",
        "SERVER_SOFTWARE=S 1",
    ];
    assert_eq!(variables(&fields, &[]), expected);
    assert!(variables(&[], &[]).contains(&"SERVER_NAME=2001:db8::1".to_owned()));
}

#[test]
fn a_configuration_has_the_last_word() {
    let overrides = [
        ("script-name", "/front.php"),
        ("https", "yes"),
        ("DOCUMENT_ROOT", "/elsewhere"),
        ("own", "1"),
        ("HTTP_HOST", "internal"),
        ("Content_Length", "0"),
        ("query_string", "x"),
    ];
    let found = variables(&[("host", "example.com")], &overrides);
    let with = |name: &str| {
        let found: Vec<&String> = found.iter().filter(|line| line.starts_with(&format!("{name}="))).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|line| line[name.len() + 1..].to_owned())
    };
    assert_eq!(with("SCRIPT_NAME").unwrap(), "/front.php");
    assert_eq!(with("SCRIPT_FILENAME").unwrap(), "/elsewhere/front.php");
    assert_eq!((with("PATH_INFO"), with("PATH_TRANSLATED")), (None, None));
    assert_eq!((with("HTTPS").unwrap(), with("OWN").unwrap()), ("yes".to_owned(), "1".to_owned()));
    assert_eq!(with("HTTP_HOST").unwrap(), "internal");
    assert_eq!((with("CONTENT_LENGTH").unwrap(), with("QUERY_STRING").unwrap()), ("0".to_owned(), "x".to_owned()));
}

#[test]
fn what_programs_do_not_see() {
    for name in ["Proxy", "authorization", "Connection", "TE", "upgrade"] {
        assert!(is_hidden(name.as_bytes()), "{name}");
    }
    assert!(!is_hidden(b"proxy-something") && !is_hidden(b"cookie"));
}

#[test]
fn heads() {
    let check = |head: &str, expected: &str| {
        let mut out = Vec::new();
        let found = AnswerHead::write(head.as_bytes(), &mut out).map(|_| String::from_utf8(out).unwrap());
        assert_eq!(found.unwrap().replace("\r\n", "|"), expected, "{head:?}");
    };
    check("Content-Type: a/b\r\n\r\n", "HTTP/1.1 200 OK|Content-Type: a/b|");
    check("Content-Type: a/b\n\nbody: x\n\n", "HTTP/1.1 200 OK|Content-Type: a/b|");
    check("Status: 404 Not here\nA: b\n\n", "HTTP/1.1 404 Not here|A: b|");
    check("A: b\nstatus:  503\n\n", "HTTP/1.1 503 Service Unavailable|A: b|");
    check("Location: /there\n\n", "HTTP/1.1 302 Found|Location: /there|");
    check("Location: https://a/\nStatus: 301\n\n", "HTTP/1.1 301 Moved Permanently|Location: https://a/|");
    check("Status: 201 Created\nLocation: /x\n\n", "HTTP/1.1 201 Created|Location: /x|");
    check("HTTP/1.0 299 Odd\r\nA: b\r\n\r\n", "HTTP/1.1 299 Odd|A: b|");
    check("Connection: close\nKeep-Alive: 1\n more\nA: b\n c\n\n", "HTTP/1.1 200 OK|A: b c|");
    check("\r\n", "HTTP/1.1 200 OK|");
    let fails = |head: &str| AnswerHead::write(head.as_bytes(), &mut Vec::new()).unwrap_err();
    for status in ["x", "", "20", "100 Continue", "101", "2000", "20x", "-20", "+20"] {
        assert_eq!(fails(&format!("Status: {status}\n\n")), HeadError::Status, "{status}");
    }
    assert_eq!(fails("<html>\n\n"), HeadError::Line);
    assert_eq!(fails("HTTP/1.1\n\n"), HeadError::Status);
    let mut out = Vec::new();
    let found = AnswerHead::write(b"Content-Length: 3\nTransfer-Encoding: chunked\nDate: x\n\n", &mut out).unwrap();
    assert!(found.has_length && found.has_transfer_encoding && found.has_date);
}

#[test]
fn ends_of_heads() {
    for (text, expected) in [
        ("", None),
        ("\n", Some(1)),
        ("\r", None),
        ("\r\n", Some(2)),
        ("A: b\n", None),
        ("A: b\n\n", Some(6)),
        ("A: b\r\n\r\nbody", Some(8)),
        ("A: b\n\r\nbody\n\n", Some(7)),
        ("A: b\r\n\r", None),
        ("A: b\r\n\rx\n\n", Some(10)),
    ] {
        assert_eq!(head_end(text.as_bytes(), 0), expected, "{text:?}");
        // Looked at byte by byte it is the same.
        let found = (0..=text.len()).find_map(|length| head_end(&text.as_bytes()[..length], length.saturating_sub(1)));
        assert_eq!(found, expected, "{text:?} in pieces");
    }
}

proptest! {
    #[test]
    fn any_input_is_read_the_same_in_any_pieces(input: Vec<u8>, piece in 1usize..20, asks_values: bool) {
        let read = |piece| {
            let mut client = Client::new(SEVERAL);
            if asks_values {
                client.ask_values(&mut Vec::new());
            }
            client.begin(b"", &mut Vec::new());
            events(&mut client, &input, piece)
        };
        let (whole, parts) = (read(usize::MAX), read(piece));
        prop_assert_eq!(whole.is_ok(), parts.is_ok());
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            prop_assert_eq!(whole, parts);
        }
    }

    #[test]
    fn what_is_written_is_read(pairs: Vec<(Vec<u8>, Vec<u8>)>) {
        let mut out = Vec::new();
        pairs.iter().for_each(|(name, value)| write_pair(name, value, &mut out));
        let found: Vec<_> = Pairs::new(&out).map(|pair| pair.unwrap()).map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        prop_assert_eq!(found, pairs);
    }
}
