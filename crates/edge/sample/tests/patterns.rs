//! ACLs, conditions, files of patterns, maps, variables and regular expressions.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use sample::*;
use support::*;

fn files(entries: &[(&str, &str)]) -> Files {
    Files(entries.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect())
}

fn condition(line: &str, acls: &mut AclSet, files: &Files) -> Result<Condition, Error> {
    let words: Vec<&str> = line.split(' ').collect();
    with_parser(files, |parser| Condition::parse(&words, acls, parser))
}

fn holds(line: &str, stream: &Stream) -> bool {
    condition(line, &mut AclSet::new(), &Files::default())
        .unwrap_or_else(|error| panic!("{line}: {error}"))
        .holds(stream, Options::REQUEST)
}

#[test]
fn a_condition_can_wait() {
    let stream = Stream { has_request: false, request_buffer: Some(b"ab".to_vec()), ..Stream::default() };
    for (line, so_far, in_the_end) in [
        ("if { path / }", Outcome::Miss, Outcome::Fail),
        ("unless { path / }", Outcome::Miss, Outcome::Pass),
        ("if !{ path / }", Outcome::Miss, Outcome::Pass),
        ("if TRUE { path / }", Outcome::Miss, Outcome::Fail),
        ("if FALSE { path / }", Outcome::Fail, Outcome::Fail),
        ("if { path / } FALSE", Outcome::Miss, Outcome::Fail),
        ("if { path / } or TRUE", Outcome::Pass, Outcome::Pass),
        ("if { path / } or FALSE", Outcome::Miss, Outcome::Fail),
        ("if WAIT_END", Outcome::Miss, Outcome::Pass),
        ("if HTTP", Outcome::Miss, Outcome::Fail),
        ("if REQ_CONTENT", Outcome::Pass, Outcome::Pass),
        ("if { req.len gt 5 }", Outcome::Miss, Outcome::Fail),
        ("if { req.len lt 5 }", Outcome::Pass, Outcome::Pass),
        ("unless { req.len lt 5 }", Outcome::Fail, Outcome::Fail),
        ("if { req.payload(0,2) -m str ab }", Outcome::Pass, Outcome::Pass),
        ("if { req.payload(0,2) -m str xy }", Outcome::Fail, Outcome::Fail),
        ("if { src 10.0.0.0/8 }", Outcome::Fail, Outcome::Fail),
        ("if RDP_COOKIE", Outcome::Miss, Outcome::Fail),
        ("if", Outcome::Fail, Outcome::Fail),
        ("unless", Outcome::Pass, Outcome::Pass),
    ] {
        let condition = condition(line, &mut AclSet::new(), &Files::default()).unwrap();
        assert_eq!(condition.evaluate(&stream, Options::REQUEST_PARTIAL), so_far, "{line} so far");
        assert_eq!(condition.evaluate(&stream, Options::REQUEST), in_the_end, "{line} in the end");
        assert_eq!(condition.text(), line);
    }
}

#[test]
fn later_lines_add_to_an_acl_already_used() {
    let stream = Stream::request("/b", &[]);
    let mut acls = AclSet::new();
    let none = Files::default();
    let declare = |acls: &mut AclSet, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        with_parser(&none, |parser| acls.declare(&words, parser)).unwrap();
    };
    declare(&mut acls, "x path /a");
    let condition = condition("if x", &mut acls, &none).unwrap();
    assert!(!condition.holds(&stream, Options::REQUEST));
    let fork = acls.clone();
    declare(&mut acls, "x path /b");
    assert!(condition.holds(&stream, Options::REQUEST));
    // A clone made before keeps to what it had.
    let old = fork.iter().find(|acl| acl.name() == "x").unwrap();
    assert_eq!(old.evaluate(&stream, Options::REQUEST), Outcome::Fail);
}

#[test]
fn words_that_are_refused() {
    for (line, expected) in [
        ("when x", "conditions must start with either 'if' or 'unless'"),
        ("if x", "no such ACL : 'x'"),
        ("if { path /", "missing closing '}' in condition"),
        ("if { nothere x }", "unknown fetch method 'nothere' in ACL expression 'nothere'"),
        (
            "if { path -z /a }",
            "'-z' is not a valid ACL option. Please use '--' before any pattern beginning with a '-'",
        ),
        ("if { path -m str -m nothere /a }", "unknown matching method 'nothere' when parsing ACL expression"),
        ("if { method -m ip 1.2.3.4 }", "matching method 'ip' cannot be used with fetch keyword 'method'"),
        (
            "if { bin(00) 00 }",
            "matching method must be specified first (using '-m') when using a sample fetch of this type ('bin')",
        ),
        (
            "if { var(txn.x) x }",
            "matching method must be specified first (using '-m') when using a sample fetch of this type ('var')",
        ),
        (
            "if { var(txn.x) -f file }",
            "matching method must be specified first (using '-m') when using a sample fetch of this type ('var')",
        ),
        ("if { int(1) x }", "'x' is not a number"),
        ("if { int(1) 5:1 }", "'5:1' is not a valid number range"),
        ("if { int(1) gt x }", "'x' is neither a number nor a supported operator"),
        ("if { src 1.2.3 }", "'1.2.3' is not a valid IPv4 or IPv6 address"),
        ("if { src 1.2.3.4/33 }", "'1.2.3.4/33' is not a valid IPv4 or IPv6 address"),
        ("if { src ::1/129 }", "'::1/129' is not a valid IPv4 or IPv6 address"),
        ("if { path -f /not/there }", "failed to open pattern file </not/there>"),
        ("if { path -u x /a }", "the argument of -u must be an integer"),
        ("if { path_beg(1) /a }", "ACL keyword 'path_beg' : expected ')' before '1)'"),
        ("if { hdr_beg(a,-20) /a }", "in argument to 'hdr_beg', header occurrence must be >= -10"),
        ("if { path,nothere /a }", "ACL keyword 'path' : unknown converter 'nothere'"),
        (
            "if { path_beg,lower(1 /a }",
            "ACL keyword 'path_beg' : invalid arg 1 in converter 'lower' : expected ')' before '1'",
        ),
    ] {
        let error = condition(line, &mut AclSet::new(), &Files::default()).map(|_| ()).unwrap_err();
        assert!(error.message().contains(expected), "{line}: {}", error.message());
    }
    let suggested = |line: &str| {
        let error = condition(line, &mut AclSet::new(), &Files::default()).map(|_| ()).unwrap_err();
        error.suggestion().map(str::to_owned)
    };
    assert_eq!(suggested("if METH_GETT").as_deref(), Some("METH_GET"));
    assert_eq!(suggested("if { path_bge /a }").as_deref(), Some("path_beg"));
    assert_eq!(suggested("if { path -m strr /a }").as_deref(), Some("str"));
    let mut acls = AclSet::new();
    for name in ["bad!", "a/b", "or"] {
        let result = with_parser(&Files::default(), |parser| acls.declare(&[name, "path", "/a"], parser));
        assert!(result.is_err(), "{name}");
    }
}

#[test]
fn warnings() {
    let none = Files::default();
    let warned = |words: &[&str]| {
        with_parser(&none, |parser| {
            AclSet::new().declare(words, parser).unwrap();
            parser.warnings.join("\n")
        })
    };
    assert!(warned(&["x", "path"]).contains("no pattern to match against were provided"));
    assert!(warned(&["x", "hdr", "(host)", "a"]).contains("is likely a mistake"));
    for words in [&["x", "path", "--"][..], &["x", "always_true"], &["x", "path", "-m", "found"], &["x", "path", "/a"]]
    {
        assert_eq!(warned(words), "", "{words:?}");
    }
}

/// As many lines as an exporter of blocked addresses may write.
#[test]
fn fifty_thousand_lines_with_one_name() {
    const LINES: usize = 50_000;
    let none = Files::default();
    let mut acls = AclSet::new();
    with_parser(&none, |parser| {
        for number in 0..LINES {
            acls.declare(&["blocked", "path", &format!("/{number}")], parser).unwrap();
            if number % 5 == 0 {
                let condition = Condition::parse(&["if", "blocked"], &mut acls, parser).unwrap();
                assert_eq!(condition.conflict(Place::UseBackend), None);
            }
        }
    });
    let fork = acls.clone();
    drop(acls);
    let acl = fork.iter().next().unwrap();
    let outcome = |path| acl.evaluate(&Stream::request(path, &[]), Options::REQUEST);
    assert_eq!(outcome("/49999"), Outcome::Pass);
    assert_eq!(outcome("/50000"), Outcome::Fail);
}

#[test]
fn places_where_a_condition_cannot_hold() {
    let none = Files::default();
    let mut acls = AclSet::new();
    with_parser(&none, |parser| {
        acls.declare(&["answer", "res.hdr(x)", "y"], parser).unwrap();
        acls.declare(&["mixed", "res.hdr(x)", "y"], parser).unwrap();
        acls.declare(&["mixed", "path", "/"], parser).unwrap();
    });
    for (line, place, expected) in [
        ("if { path / }", Place::UseBackend, None),
        (
            "if { res.hdr(x) y }",
            Place::UseBackend,
            Some(
                "anonymous acl will never match because it uses keyword 'res.hdr' which is incompatible with 'frontend use-backend rule'",
            ),
        ),
        (
            "if answer",
            Place::UseBackend,
            Some(
                "acl 'answer' will never match because it only involves keywords that are incompatible with 'frontend use-backend rule'",
            ),
        ),
        (
            "if mixed",
            Place::UseBackend,
            Some("acl 'mixed' involves keywords 'res.hdr' which is incompatible with 'frontend use-backend rule'"),
        ),
        (
            "if { path_beg / }",
            Place::Log,
            Some("anonymous acl will never match because it uses keyword 'path_beg' which is incompatible with 'logs'"),
        ),
        ("if { src 1.2.3.4 } TRUE", Place::FrontendConnection, None),
    ] {
        let condition = condition(line, &mut acls, &none).unwrap();
        assert_eq!(condition.conflict(place).as_deref(), expected, "{line}");
    }
    let both = condition("if { path / } { res.hdr(x) y }", &mut acls, &none).unwrap();
    assert!(both.places().is_empty());
    let either = condition("if { path / } or { res.hdr(x) y }", &mut acls, &none).unwrap();
    assert!(either.places().contains(Place::UseBackend) && either.places().contains(Place::BackendResponseHeaders));
    assert!(either.sources().intersects(Sources::HTTP) && !either.sources().intersects(Sources::BUFFERS));
}

#[test]
fn groups_of_users() {
    let stream = Stream::request("/", &[("Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")]);
    assert!(holds("if { http_auth(admins) }", &stream));
    assert!(!holds("if { http_auth(others) }", &stream));
    assert!(holds("if { http_auth_group(admins) ops }", &stream));
    assert!(holds("if { http_auth_group(admins) dev ops }", &stream));
    assert!(!holds("if { http_auth_group(admins) dev }", &stream));
    let wrong = Stream::request("/", &[("Authorization", "Basic QWxhZGRpbjp3cm9uZw==")]);
    assert!(!holds("if { http_auth_group(admins) ops }", &wrong));
    with_parser(&Files::default(), |parser| {
        Condition::parse(&["if", "{", "http_auth_group(admins)", "ops", "}"], &mut AclSet::new(), parser).unwrap();
        assert_eq!(parser.references.last().unwrap().name, "admins/ops");
    });
}

#[test]
fn versions_of_tls_are_compared_as_two_numbers() {
    // An old hello that says 3.1.
    let mut bytes = vec![0x80, 28, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 5];
    bytes.extend_from_slice(&[9; 16]);
    let stream = Stream { request_buffer: Some(bytes), ..Stream::default() };
    for (line, expected) in [
        ("if { req_ssl_ver 3.1 }", true),
        ("if { req_ssl_ver 3 }", false),
        ("if { req.ssl_ver gt 3 }", true),
        ("if { req.ssl_ver lt 3.1 }", false),
        ("if { req.ssl_ver 2.0:3.5 }", true),
        ("if { req.ssl_ver 3.2: }", false),
    ] {
        assert_eq!(holds(line, &stream), expected, "{line}");
    }
}

struct Hosts;

impl Loader for Hosts {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("none".to_owned())
    }

    fn resolve(&self, name: &str) -> Option<IpAddr> {
        (name == "office.example").then(|| IpAddr::from([192, 0, 2, 1]))
    }
}

#[test]
fn host_names_are_resolved_once() {
    let stream = Stream {
        client: Some(Connection {
            source: Some(Address::Inet("192.0.2.1:1".parse().unwrap())),
            ..Connection::default()
        }),
        ..Stream::default()
    };
    let mut patterns = PatternReferences::new();
    let mut parser = ParseContext::new("c", 1, "fe", true, &Hosts, &mut patterns);
    let mut acls = AclSet::new();
    let found = Condition::parse(&["if", "{", "src", "office.example", "}"], &mut acls, &mut parser).unwrap();
    assert!(found.holds(&stream, Options::REQUEST));
    for words in [["if", "{", "src", "other.example", "}", ""], ["if", "{", "src", "-n", "office.example", "}"]] {
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        assert!(Condition::parse(&words, &mut acls, &mut parser).is_err(), "{words:?}");
    }
}

#[test]
fn files_are_read_once_and_for_one_purpose() {
    let files = files(&[("list", "a\nb\n"), ("bad", "1.2.3.4\nx\n")]);
    with_parser(&files, |parser| {
        let mut acls = AclSet::new();
        acls.declare(&["one", "path", "-f", "list"], parser).unwrap();
        acls.declare(&["two", "path_end", "-i", "-f", "list", "c"], parser).unwrap();
        assert_eq!(parser.patterns.paths().collect::<Vec<_>>(), ["list"]);
        let error = Expression::parse_text("path,map(list)", parser).unwrap_err();
        assert!(error.message().ends_with(
            "The file \"list\" is already used as one column file and cannot be used by as two column file."
        ));
        let error = acls.declare(&["three", "src", "-f", "bad"], parser).unwrap_err();
        assert_eq!(error.message(), "'x' is not a valid IPv4 or IPv6 address at line 2 of file 'bad'");
        acls.declare(&["four", "path", "-u", "5", "/a"], parser).unwrap();
        let error = acls.declare(&["five", "path", "-u", "5", "/a"], parser).unwrap_err();
        assert_eq!(error.message(), "the id is already used");
        let error = acls.declare(&["six", "path", "-f", "list", "-m", "beg"], parser).unwrap_err();
        assert!(error.message().starts_with("'-m' must only be specified before patterns and files"));
    });
}

#[test]
fn malformed_maps() {
    let files =
        files(&[("ints", "a 1\nb x\n"), ("addresses", "a 1.2.3\n"), ("networks", "1.2.3.4/40 a\n"), ("fine", "a 1\n")]);
    for (text, expected) in [
        ("path,map_str_int(ints)", "unable to parse 'x' at line 2 of file 'ints'"),
        ("path,map_str_ip(addresses)", "unable to parse '1.2.3' at line 1 of file 'addresses'"),
        ("src,map_ip(networks)", "'1.2.3.4/40' is not a valid IPv4 or IPv6 address at line 1 of file 'networks'"),
        ("path,map_str_ip(fine,x)", "unable to parse '1' at line 1 of file 'fine'"),
        ("path,map_str_int(fine,x)", "failed to parse 'x' as type 'integer' at position 2"),
    ] {
        let error = expression_with(text, &files).unwrap_err();
        assert!(error.message().contains(expected), "{text}: {}", error.message());
    }
}

/// Every index must answer as a comparison one by one would.
#[test]
fn many_patterns_match_like_few() {
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 12) % below
    };
    let mut word = |most: u32| {
        let length = 1 + next(most);
        (0..length).map(|_| ["a", "b", "A", "/", "."][next(5) as usize]).collect::<String>()
    };
    let patterns: Vec<String> = (0..40).map(|_| word(6)).collect();
    let subjects: Vec<String> = (0..300).map(|_| word(9)).collect();
    let none = Files::default();
    for method in ["str", "beg", "end", "sub", "dir", "dom"] {
        for flag in ["-m", "-i"] {
            let parse = |patterns: &[String]| {
                let mut words = vec!["if", "{", "req.fhdr(x)", "-m", method];
                if flag == "-i" {
                    words.push("-i");
                }
                words.push("--");
                words.extend(patterns.iter().map(String::as_str));
                words.push("}");
                with_parser(&none, |parser| Condition::parse(&words, &mut AclSet::new(), parser)).unwrap()
            };
            let all = parse(&patterns);
            let single: Vec<Condition> = patterns.chunks(1).map(parse).collect();
            for subject in &subjects {
                let stream = Stream::request("/", &[("X", subject)]);
                let one_by_one = single.iter().any(|condition| condition.holds(&stream, Options::REQUEST));
                assert_eq!(all.holds(&stream, Options::REQUEST), one_by_one, "{method} {flag} {subject}");
            }
        }
    }
}

#[test]
fn many_networks_match_like_few() {
    let mut random = 3u32;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random >> 8
    };
    let networks: Vec<String> = (0..60)
        .map(|at| {
            let [_, a, b, c] = (next() & 0x03_03_03).to_be_bytes();
            match at % 3 {
                0 => format!("{a}.{b}.{c}.0/{}", next() % 25),
                1 => format!("::ffff:{a}.{b}.{c}.0/{}", 96 + next() % 33),
                _ => format!("{a}.{b}.{c}.1/255.0.3.255"),
            }
        })
        .collect();
    let none = Files::default();
    let parse = |networks: &[String]| {
        let mut words = vec!["if", "{", "req.hdr_ip(x)"];
        words.extend(networks.iter().map(String::as_str));
        words.push("}");
        with_parser(&none, |parser| Condition::parse(&words, &mut AclSet::new(), parser)).unwrap()
    };
    let all = parse(&networks);
    let single: Vec<Condition> = networks.chunks(1).map(parse).collect();
    for at in 0..400 {
        let [_, a, b, c] = (next() & 0x07_03_03).to_be_bytes();
        let text = if at % 2 == 0 { format!("{a}.{b}.{c}.1") } else { format!("::ffff:{a}.{b}.{c}.1") };
        let stream = Stream::request("/", &[("X", &text)]);
        let one_by_one = single.iter().any(|condition| condition.holds(&stream, Options::REQUEST));
        assert_eq!(all.holds(&stream, Options::REQUEST), one_by_one, "{text}");
    }
}

#[test]
fn regular_expressions() {
    for (pattern, ignore_case, subject, expected) in [
        ("^/a(.*)b$", false, "/axxb", true),
        ("^/a(.*)b$", false, "/axxB", false),
        ("^/a(.*)b$", true, "/AXXB", true),
        ("(?i)abc", false, "ABC", true),
        ("a{2,3}", false, "xaax", true),
        ("foo(?=bar)", false, "foobar", true),
        ("foo(?=bar)", false, "foobaz", false),
        ("(?<!x)y", false, "xy", false),
        ("(a|b)\\1", false, "aa", true),
        ("(a|b)\\1", false, "ab", false),
        ("(?>a+)b", false, "aaab", true),
        ("a++b", false, "aaab", true),
        ("[[:alpha:]]+\\d", false, "ab1", true),
        ("\\bword\\b", false, "a word!", true),
        ("^\\Q.*\\E$", false, ".*", true),
        ("^\\Qa\\E.", false, "ab", true),
        ("\\Q(", false, "(", true),
        ("^/{id}$", false, "/{id}", true),
        ("^a{,2}$", false, "a{,2}", true),
        ("^a{2,}$", false, "aaa", true),
        ("^[[]$", false, "[", true),
        ("^[]a]+$", false, "]a", true),
        ("^[^]a]$", false, "b", true),
        ("^[a&&b]+$", false, "a&b", true),
        ("^[+--]$", false, ",", true),
        ("^[[:digit:]x[]+$", false, "1x[", true),
        ("^\\<a\\>$", false, "<a>", true),
        ("^\\h+$", false, " \t", true),
        ("^\\h+$", false, "a", false),
        ("^[\\h]+$", false, " \t", true),
        ("^\\H+$", false, "abc", true),
        ("^a\\Rb$", false, "a\r\nb", true),
        ("^\\v$", false, "\n", true),
        ("^\\e\\012\\0$", false, "\u{1b}\n\0", true),
        ("^\\/a\\-b\\_$", false, "/a-b_", true),
        ("a\\Z", false, "ba", true),
        ("a\\Kb", false, "ab", true),
    ] {
        let found = Regex::new(pattern.as_bytes(), ignore_case).map(|regex| regex.is_match(subject.as_bytes()));
        assert_eq!(found, Ok(expected), "{pattern} on {subject}");
    }
    for pattern in ["(", "[", "a{2", "*", "\\"] {
        let _ = Regex::new(pattern.as_bytes(), false);
    }
    assert!(Regex::new(b"(", false).unwrap_err().contains("unclosed group"));
    // Bytes that are no UTF-8, in the pattern and in the subject.
    let regex = Regex::new(b"a\xe9(.)\xff", false).unwrap();
    assert_eq!(regex.groups(b"xa\xe9\xfe\xff").unwrap(), [Some(1..5), Some(3..4)]);
    let regex = Regex::new(b"\xe9(?=\xff)", false).unwrap();
    assert_eq!(regex.groups(b"ab\xe9\xff").unwrap(), [Some(2..3)]);
    // A pattern that takes for ever where backtracking has no bound.
    let regex = Regex::new(b"^(?=a)(a+)+$", false).unwrap();
    assert!(!regex.is_match(&[b"a".repeat(60), b"b".to_vec()].concat()));
}

#[test]
fn templates() {
    for (template, expected) in [
        ("<\\1>", "<b>"),
        ("\\0\\0", "abcabc"),
        ("\\2\\9x", "x"),
        ("\\x41\\x4a", "AJ"),
        ("\\xzz", "\\xzz"),
        ("\\a\\\\", "a\\"),
        ("plain", "plain"),
        ("end\\", "end"),
    ] {
        let mut output = Vec::new();
        expand(template.as_bytes(), b"abc", &[Some(0..3), Some(1..2), None], &mut output);
        assert_eq!(String::from_utf8_lossy(&output), expected, "{template}");
    }
}

#[test]
fn variables_live_as_long_as_their_scope() {
    let process = Arc::new(ProcessVariables::new());
    let mut stream = StreamVariables::new(Arc::clone(&process), VariableLimits::default());
    let name = |text: &str| VariableName::parse(text.as_bytes()).unwrap();
    let names = ["proc.a", "sess.a", "txn.a", "req.a", "res.a", "check.a"].map(name);
    let set = |stream: &mut StreamVariables| names.clone().map(|name| stream.set(&name, Value::Sint(1)));
    let found = |stream: &StreamVariables| names.clone().map(|name| stream.find(&name).is_some());
    assert_eq!(set(&mut stream), [true, true, false, false, false, false]);
    stream.start_request();
    assert_eq!(set(&mut stream), [true, true, true, true, false, false]);
    assert_eq!(found(&stream), [true, true, true, true, false, false]);
    stream.start_response();
    assert_eq!(found(&stream), [true, true, true, false, false, false]);
    assert_eq!(set(&mut stream), [true, true, true, false, true, false]);
    stream.start_request();
    assert_eq!(found(&stream), [true, true, false, false, false, false]);
    assert!(stream.unset(&names[1]) && !stream.unset(&names[4]));
    assert_eq!(found(&stream), [true, false, false, false, false, false]);
    drop(stream);
    let other = StreamVariables::new(Arc::clone(&process), VariableLimits::default());
    assert_eq!(found(&other), [true, false, false, false, false, false]);
    assert_eq!(process.list(), [("a".to_owned(), Value::Sint(1))]);
}

#[test]
fn streams_of_a_session_see_its_variables_and_no_others() {
    let name = |text: &str| VariableName::parse(text.as_bytes()).unwrap();
    let weigh = VARIABLE_OVERHEAD;
    let limits = VariableLimits { global: Some(100 * weigh), session: Some(3 * weigh), ..VariableLimits::default() };
    let process = Arc::new(ProcessVariables::new());
    let session = StreamVariables::new(Arc::clone(&process), limits);
    let (mut one, mut other) = (session.of_same_session(), session.of_same_session());
    one.start_request();
    other.start_request();
    assert!(one.set(&name("txn.a"), Value::Sint(1)) && other.set(&name("sess.b"), Value::Sint(2)));
    assert_eq!(one.find(&name("sess.b")), Some(Value::Sint(2)));
    assert_eq!(other.find(&name("txn.a")), None);
    // All of them count against the session's limit, as long as they are there.
    assert!(other.set(&name("req.c"), Value::Sint(3)) && !other.set(&name("req.d"), Value::Sint(4)));
    one.start_request();
    assert!(other.set(&name("req.d"), Value::Sint(4)));
    drop((one, other));
    assert_eq!(session.find(&name("sess.b")), Some(Value::Sint(2)));
    assert!(session.has_session_variables());
    let mut last = session.of_same_session();
    drop(session);
    last.start_request();
    assert!(last.set(&name("req.c"), Value::Sint(3)) && last.set(&name("req.d"), Value::Sint(4)));
    assert!(!last.set(&name("req.e"), Value::Sint(5)));
}

#[test]
fn variables_take_no_more_than_they_may() {
    let weigh = VARIABLE_OVERHEAD + 4;
    let limits = VariableLimits {
        global: Some(10 * weigh),
        session: Some(4 * weigh),
        transaction: Some(2 * weigh),
        request_response: Some(weigh),
        ..VariableLimits::default()
    };
    let process = Arc::new(ProcessVariables::new());
    let mut stream = StreamVariables::new(Arc::clone(&process), limits);
    stream.start_request();
    let mut set = |text: &str, value: &'static str| {
        stream.set(&VariableName::parse(text.as_bytes()).unwrap(), Value::str(value).into_static())
    };
    assert!(set("req.a", "1234"));
    assert!(!set("req.b", ""), "the message is full");
    assert!(!set("req.a", "12345"), "a longer value does not fit either");
    assert!(set("req.a", "43"), "a shorter one does");
    assert!(set("req.a", "1234"));
    assert!(set("txn.a", "1234"));
    assert!(!set("txn.b", "1234"), "the message counts for the transaction");
    assert!(set("sess.a", "1234") && set("sess.b", "1234"));
    assert!(!set("sess.c", "1234"), "both count for the session");
    assert!(set("proc.a", "1234"), "which does not count for the process alone");
    stream.start_response();
    let name = |text: &str| VariableName::parse(text.as_bytes()).unwrap();
    assert!(stream.set(&name("res.a"), Value::str("1234").into_static()), "what is forgotten is free");
    stream.end_transaction();
    assert!(stream.set(&name("sess.c"), Value::str("1234").into_static()));
    assert!(stream.unset(&name("sess.c")));
    // All sessions together have a limit too, and give back what they had when they end.
    let mut others: Vec<StreamVariables> = Vec::new();
    let mut count = 0;
    for _ in 0..5 {
        let mut other = StreamVariables::new(Arc::clone(&process), limits);
        while other.set(&name(&format!("sess.v{count}")), Value::str("1234").into_static()) {
            count += 1;
        }
        others.push(other);
    }
    assert_eq!(count, 7, "ten less the three that are set");
    drop(others);
    let mut last = StreamVariables::new(process, limits);
    assert!(last.set(&name("sess.again"), Value::str("1234").into_static()));
}

#[test]
fn conditions_of_set_var() {
    let (process, transaction) = (VariableName::parse(b"proc.x").unwrap(), VariableName::parse(b"txn.x").unwrap());
    let (number, more, text, empty) = (Value::Sint(5), Value::Sint(9), Value::str("a"), Value::str(""));
    for (word, name, old, new, expected) in [
        (&b"ifexists"[..], &transaction, None, &text, false),
        (b"ifexists", &transaction, Some(&text), &text, true),
        (b"ifexists", &process, None, &text, true),
        (b"ifnotexists", &transaction, None, &text, true),
        (b"ifnotexists", &process, None, &text, false),
        (b"ifset", &process, None, &text, false),
        (b"ifnotset", &process, None, &text, true),
        (b"ifempty", &transaction, None, &empty, true),
        (b"ifempty", &transaction, None, &text, false),
        (b"ifempty", &transaction, None, &number, false),
        (b"ifnotempty", &transaction, None, &empty, false),
        (b"ifnotempty", &transaction, None, &number, true),
        (b"ifgt", &transaction, Some(&more), &number, true),
        (b"ifgt", &transaction, Some(&number), &more, false),
        (b"iflt", &transaction, Some(&number), &more, true),
        (b"iflt", &transaction, Some(&text), &more, true),
        (b"iflt", &transaction, None, &more, true),
    ] {
        let condition = SetCondition::parse(word).unwrap();
        assert_eq!(condition.allows_for(name, old, new), expected, "{condition:?} {name:?} {old:?} {new:?}");
    }
    assert_eq!(SetCondition::parse(b"never"), None);
}

#[test]
fn what_expressions_change() {
    let stream = Stream::request("/", &[("Host", "example.com")]);
    let run = |text: &str| text_of(text, &stream);
    assert_eq!(run("hdr(host),capture-req(1),length").as_deref(), Some("11"));
    assert_eq!(run("capture.req.hdr(1)").as_deref(), Some("example.co"));
    assert_eq!(run("hdr(host),capture-res(1)"), None);
    assert_eq!(run("hdr(host),upper,set-var(txn.h),length").as_deref(), Some("11"));
    assert_eq!(run("var(txn.h)").as_deref(), Some("EXAMPLE.COM"));
    assert_eq!(run("str(x),unset-var(txn.h)").as_deref(), Some("x"));
    assert_eq!(run("var(txn.h)"), None);
    assert_eq!(run("int(5),debug(here,stderr),add(1)").as_deref(), Some("6"));
    run("str(a\\tb),debug");
    run("str(80),hex,hex2i,bool,debug(x)");
    assert_eq!(
        *stream.debugged.borrow(),
        ["stderr [debug] here: type=sint <5>", "buf0 [debug] : type=str <a.b>", "buf0 [debug] x: type=bool <1>"]
    );
    assert_eq!(run("int(1700000000),ltime(%H:%M %z %Z)").as_deref(), Some("23:13 +0100 +0100"));
    let mut found = Stream { backend: Some(Backend { name: "app", ..Backend::default() }), ..Stream::default() };
    found.offset = 0;
    assert_eq!(text_of("str(a),srv_queue", &found).as_deref(), Some("34"));
    assert_eq!(text_of("str(app/a),srv_queue", &found).as_deref(), Some("34"));
    assert_eq!(text_of("str(x),srv_queue", &found), None);
    assert_eq!(text_of("int(0),ltime(%Z)", &found).as_deref(), Some("UTC"));
}

fn text_of(name: &str, stream: &Stream) -> Option<String> {
    text(&expression(name).unwrap_or_else(|error| panic!("{name}: {error}")), stream, Options::REQUEST)
}

#[test]
fn every_supported_converter_is_tested() {
    let tested: String =
        [include_str!("data/expressions.txt"), include_str!("data/messages.txt"), include_str!("patterns.rs")].concat();
    let of_tables = support::stick::converters();
    let of_tables: Vec<&str> = of_tables.iter().map(|(text, ..)| support::stick::name(text)).collect();
    for converter in converters().filter(|converter| converter.state == State::Supported) {
        if of_tables.contains(&converter.name) {
            continue;
        }
        let names = std::iter::once(converter.name).chain(converter.aliases.iter().copied());
        let is_tested = names.into_iter().any(|name| {
            [format!(",{name}\n"), format!(",{name}("), format!(",{name},"), format!(",{name}\"")]
                .iter()
                .any(|text| tested.contains(text))
        });
        assert!(is_tested, "{} is in no test", converter.name);
    }
}

#[test]
fn maps_by_every_method() {
    let files = files(&[
        ("str", "a 1\nb 2\na 3\n"),
        ("beg", "/a 1\n/a/b 2\n"),
        ("ranges", "1:5 10\n6: 20\n"),
        ("nets", "10.0.0.0/8 1\n10.1.0.0/16 2\n2001:db8::/32 3\n"),
        ("addresses", "x 192.0.2.1\n^y 2001:db8::1\n5 10.0.0.5\n10.0.0.0/8 10.9.9.9\n"),
    ]);
    let stream = Stream::default();
    for (name, expected) in [
        ("str(a),map_str(str)", Some("1")),
        ("str(xbx),map_sub_int(str)", Some("2")),
        ("str(x/b/x),map_dir_int(str)", Some("2")),
        ("str(x.b.x),map_dom_int(str)", Some("2")),
        ("str(xb),map_reg_int(str)", Some("2")),
        ("str(/a/b/c),map_beg(beg)", Some("2")),
        ("str(/a/c),map_beg(beg)", Some("1")),
        ("int(3),map_int(ranges)", Some("10")),
        ("int(30),map_int_int(ranges)", Some("20")),
        ("int(-1),map_int(ranges,none)", Some("none")),
        ("ipv4(10.1.2.3),map_ip(nets)", Some("2")),
        ("ipv4(10.2.2.3),map_ip_int(nets)", Some("1")),
        ("ipv6(2001:db8::9),map_ip(nets)", Some("3")),
        ("ipv6(::ffff:10.1.0.1),map_ip(nets)", Some("2")),
        ("str(10.1.2.3),map_ip(nets)", Some("2")),
        ("str(x),map_beg_ip(addresses)", Some("192.0.2.1")),
        ("str(ax),map_end_ip(addresses)", Some("192.0.2.1")),
        ("str(axa),map_sub_ip(addresses)", Some("192.0.2.1")),
        ("str(a/x/a),map_dir_ip(addresses)", Some("192.0.2.1")),
        ("str(a.x.a),map_dom_ip(addresses)", Some("192.0.2.1")),
        ("str(yes),map_reg_ip(addresses)", Some("2001:db8::1")),
    ] {
        let expression = expression_with(name, &files).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(text(&expression, &stream, Options::REQUEST).as_deref(), expected, "{name}");
    }
    let numbers = Files(BTreeMap::from([("n".to_owned(), b"5 10.0.0.5\n".to_vec())]));
    let found = expression_with("int(5),map_int_ip(n)", &numbers).unwrap();
    assert_eq!(text(&found, &stream, Options::REQUEST).as_deref(), Some("10.0.0.5"));
    let nets = Files(BTreeMap::from([("n".to_owned(), b"10.0.0.0/8 10.9.9.9\n".to_vec())]));
    let found = expression_with("ipv4(10.0.0.1),map_ip_ip(n)", &nets).unwrap();
    assert_eq!(text(&found, &stream, Options::REQUEST).as_deref(), Some("10.9.9.9"));
}
