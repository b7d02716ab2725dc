use proptest::{collection::vec, prelude::*};

use crate::*;

/// All commands of a stream, until it ends or an error does.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds `input` in pieces of `piece` bytes, as a socket would.
fn run(input: &[u8], piece: usize, limits: &Limits) -> Outcome {
    let mut parser = RequestParser::new();
    let mut commands = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.parse(&input[start..end], limits) {
            Err(error) => return (commands, Some(error)),
            Ok(Progress::Incomplete { needed }) => {
                assert!(needed > 0, "something is missing");
                if end == input.len() {
                    return (commands, None);
                }
                end = (end + piece).min(input.len());
            }
            Ok(Progress::Empty { consumed }) => {
                assert!(consumed > 0);
                start += consumed;
            }
            Ok(Progress::Complete { consumed }) => {
                let arguments = parser.arguments(&input[start..end]);
                assert!(!arguments.is_empty());
                commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                start += consumed;
            }
        }
    }
}

fn strings(outcome: Outcome) -> (Vec<Vec<String>>, Option<ProtocolError>) {
    let text = |bytes: Vec<u8>| bytes.escape_ascii().to_string();
    (outcome.0.into_iter().map(|command| command.into_iter().map(text).collect()).collect(), outcome.1)
}

#[test]
fn requests() {
    use ProtocolError::*;
    type Case<'a> = (&'a [u8], &'a [&'a [&'a str]], Option<ProtocolError>);
    let cases: &[Case<'_>] = &[
        (b"", &[], None),
        (b"*1\r\n$4\r\nPING\r\n", &[&["PING"]], None),
        (b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["GET", ""]], None),
        (b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nQUIT\r\n", &[&["PING"], &["GET", "a"], &["QUIT"]], None),
        (b"*0\r\n*-1\r\n*-10\r\n\r\n\n  \r\nPING\r\n", &[&["PING"]], None),
        (b"*1\rX$4\rXPINGXX*1\r\n$1\r\na\r\n", &[&["PING"], &["a"]], None),
        (b"*1\r\n$3\r\n\r\n\0\r\n", &[&["\\r\\n\\x00"]], None),
        (b"*2147483647\r\n", &[], None),
        (b"*2147483648\r\n", &[], Some(InvalidCount)),
        (b"*\r\n", &[], Some(InvalidCount)),
        (b"*+1\r\n", &[], Some(InvalidCount)),
        (b"*01\r\n", &[], Some(InvalidCount)),
        (b"*00\r\n", &[], Some(InvalidCount)),
        (b"*-0\r\n", &[], Some(InvalidCount)),
        (b"* 1\r\n", &[], Some(InvalidCount)),
        (b"*1 \r\n", &[], Some(InvalidCount)),
        (b"*a\r\n", &[], Some(InvalidCount)),
        (b"*-9223372036854775808\r\nPING\r\n", &[&["PING"]], None),
        (b"*-9223372036854775809\r\n", &[], Some(InvalidCount)),
        (b"*99999999999999999999999\r\n", &[], Some(InvalidCount)),
        (b"*1\r\n+4\r\nPING\r\n", &[], Some(ExpectedBulk(b'+'))),
        (b"*1\r\n\r\nPING\r\n", &[], Some(ExpectedBulk(b'\r'))),
        (b"*1\r\n\nPING\r\n", &[], Some(ExpectedBulk(b'\n'))),
        (b"*1\r\n$-1\r\n", &[], Some(InvalidLength)),
        (b"*1\r\n$\r\n", &[], Some(InvalidLength)),
        (b"*1\r\n$04\r\nPING\r\n", &[], Some(InvalidLength)),
        (b"*1\r\n$536870912\r\n", &[], None),
        (b"*1\r\n$536870913\r\n", &[], Some(InvalidLength)),
        (b"*1\r\n$9223372036854775808\r\n", &[], Some(InvalidLength)),
        (b"*1\r\n$123456789012345678901234567890\r\n", &[], Some(InvalidLength)),
        (b"set a b\n", &[&["set", "a", "b"]], None),
        (b"  set\ta \x0b b\x0bc\r\n", &[&["set", "a", "b\\x0bc"]], None),
        (b"set a \"b c\"\r\n", &[&["set", "a", "b c"]], None),
        (
            b"set 'a \\' \\n' \"\\x41\\n\\r\\t\\b\\a\\q\\xzz\\\"\"\r\n",
            &[&["set", "a \\' \\\\n", "A\\n\\r\\t\\x08\\x07qxzz\\\""]],
            None,
        ),
        (b"a\"b c\"\r\nd\r\n", &[&["ab c"], &["d"]], None),
        (b"\"\" ''\r\n", &[&["", ""]], None),
        (b"ping\r\r\n", &[&["ping"]], None),
        (b"a \"b\r\n", &[], Some(UnbalancedQuotes)),
        (b"a 'b\r\n", &[], Some(UnbalancedQuotes)),
        (b"a \"b\"c\r\n", &[], Some(UnbalancedQuotes)),
        (b"a 'b'c\r\n", &[], Some(UnbalancedQuotes)),
        (b"a \"b\\\r\n", &[], Some(UnbalancedQuotes)),
        (b"PING\0\r\nPING\r\n", &[], None),
        (b"*1\0\r\n", &[], None),
        (b"*1\r\n$\0\r\n", &[], None),
    ];
    for (input, commands, error) in cases {
        for piece in [1, 2, 3, 5, input.len().max(1)] {
            let found = strings(run(input, piece, &Limits::default()));
            let expected: Vec<Vec<String>> =
                commands.iter().map(|command| command.iter().map(ToString::to_string).collect()).collect();
            assert_eq!(found, (expected, *error), "{} in pieces of {piece}", input.escape_ascii());
        }
    }
}

#[test]
fn limits_are_kept_to_the_byte() {
    use ProtocolError::*;
    let line = |prefix: &[u8], len: usize, end: &[u8]| [prefix, &vec![b'1'; len - prefix.len()], end].concat();
    let few = Limits { unauthenticated: true, ..Limits::default() };
    let small = Limits { bulk_len_max: 3, arguments_max: 2, line_len_max: 16, unauthenticated: false };
    let cases: &[(Vec<u8>, Limits, usize, Option<ProtocolError>)] = &[
        (line(b"a", 65_536, b"\n"), Limits::default(), 1, None),
        (line(b"a", 65_537, b"\n"), Limits::default(), 0, Some(InlineTooLong)),
        (line(b"a", 65_536, b""), Limits::default(), 0, None),
        (line(b"a", 65_537, b""), Limits::default(), 0, Some(InlineTooLong)),
        (line(b"\0", 65_537, b""), Limits::default(), 0, Some(InlineTooLong)),
        (line(b"*", 65_536, b"\r\n"), Limits::default(), 0, Some(InvalidCount)),
        (line(b"*", 65_537, b"\r\n"), Limits::default(), 0, Some(CountLineTooLong)),
        ([&b"*1\r\n"[..], &line(b"$", 65_536, b"\r\n")].concat(), Limits::default(), 0, Some(InvalidLength)),
        ([&b"*1\r\n"[..], &line(b"$", 65_537, b"\r\n")].concat(), Limits::default(), 0, Some(LengthLineTooLong)),
        (b"*10\r\n".to_vec(), few, 0, None),
        (b"*11\r\n".to_vec(), few, 0, Some(UnauthenticatedCount)),
        (b"*1\r\n$16384\r\n".to_vec(), few, 0, None),
        (b"*1\r\n$16385\r\n".to_vec(), few, 0, Some(UnauthenticatedLength)),
        (b"*2\r\n$3\r\nabc\r\n$1\r\na\r\n".to_vec(), small, 1, None),
        (b"*3\r\n".to_vec(), small, 0, Some(InvalidCount)),
        (b"*1\r\n$4\r\n".to_vec(), small, 0, Some(InvalidLength)),
    ];
    for (input, limits, commands, error) in cases {
        for piece in [1, 1_000, input.len()] {
            let found = run(input, piece, limits);
            assert_eq!(
                (found.0.len(), found.1),
                (*commands, *error),
                "{piece}: {:.40}",
                input.escape_ascii().to_string()
            );
        }
    }
}

#[test]
fn a_large_argument_says_what_it_needs_and_is_not_searched_again() {
    let mut parser = RequestParser::new();
    let limits = Limits::default();
    let mut buffer = b"*2\r\n$3\r\nSET\r\n$1000000\r\n".to_vec();
    assert_eq!(parser.parse(&buffer, &limits), Ok(Progress::Incomplete { needed: 1_000_002 }));
    assert!(parser.is_within_request());
    buffer.resize(buffer.len() + 400_000, b'\r');
    assert_eq!(parser.parse(&buffer, &limits), Ok(Progress::Incomplete { needed: 600_002 }));
    buffer.resize(buffer.len() + 600_002, b'\n');
    let consumed = buffer.len();
    assert_eq!(parser.parse(&buffer, &limits), Ok(Progress::Complete { consumed }));
    assert_eq!(parser.arguments(&buffer).get(1).map(<[u8]>::len), Some(1_000_000));
    assert_eq!(parser.arguments(&buffer).get(2), None);
    assert!(!parser.is_within_request());
}

#[test]
fn a_count_alone_takes_little_memory() {
    let mut parser = RequestParser::new();
    parser.parse(b"*2147483647\r\n", &Limits::default()).unwrap();
    assert!(parser.memory_len() <= 64 * 1024);
    let mut parser = RequestParser::new();
    let mut many = b"*100000\r\n".to_vec();
    many.extend(b"$0\r\n\r\n".repeat(100_000));
    assert_eq!(parser.parse(&many, &Limits::default()), Ok(Progress::Complete { consumed: many.len() }));
    assert!(parser.memory_len() > 1_000_000);
    parser.parse(b"PING\r\n", &Limits::default()).unwrap();
    assert!(parser.memory_len() <= 64 * 1024, "a large command leaves nothing behind");
}

#[test]
fn arguments_are_views() {
    let mut parser = RequestParser::new();
    let buffer = b"mset 'a' b c\n";
    parser.parse(buffer, &Limits::default()).unwrap();
    assert_eq!(parser.ranges(), None, "quotes were taken away");
    let arguments = parser.arguments(buffer);
    assert_eq!((arguments.len(), arguments.is_empty()), (4, false));
    assert_eq!(arguments.iter().rev().map(<[u8]>::to_vec).collect::<Vec<_>>(), [&b"c"[..], b"b", b"a", b"mset"]);
    assert_eq!(arguments.from(2).iter().collect::<Vec<_>>(), [b"b", b"c"]);
    assert!(arguments.from(9).is_empty());
    assert_eq!(format!("{arguments:?}"), r#"["mset", "a", "b", "c"]"#);
    let buffer = b"mset a\n";
    parser.parse(buffer, &Limits::default()).unwrap();
    assert_eq!(parser.ranges(), Some(&[0..4, 5..6][..]));
}

#[test]
fn integers() {
    let cases: &[(&str, Option<i64>)] = &[
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("18446744073709551616", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("+1", None),
        ("007", None),
        (" 1", None),
        ("1a", None),
        ("1.0", None),
        ("000000000000000000001", None),
    ];
    for (text, number) in cases {
        assert_eq!(parse_integer(text.as_bytes()), *number, "{text}");
    }
}

#[test]
fn doubles() {
    let cases: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-17.0, "-17"),
        (3.1, "3.1000000000000001"),
        (0.1, "0.10000000000000001"),
        (0.5, "0.5"),
        (1234.5678, "1234.5678"),
        (0.0001, "0.0001"),
        (0.000_05, "5.0000000000000002e-05"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (99_999_999_999_999_984.0, "99999999999999984"),
        (1.5e300, "1.5000000000000001e+300"),
        (123_456_789_012_345_680_000.0, "1.2345678901234568e+20"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (5e-324, "4.9406564584124654e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (2.0_f64.powi(-25), "2.9802322387695312e-08"),
        (3.0 * 2.0_f64.powi(-25), "8.9406967163085938e-08"),
        (1_152_921_504_606_846_976.0, "1.152921504606847e+18"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN.copysign(1.0), "nan"),
        (f64::NAN.copysign(-1.0), "-nan"),
    ];
    for (number, text) in cases {
        let mut out = Vec::new();
        format_double(&mut out, *number);
        assert_eq!(String::from_utf8(out).unwrap(), *text);
    }
}

/// What `write` gives in each version.
fn both(write: impl Fn(&mut Reply<'_>)) -> [String; 2] {
    [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        out.escape_ascii().to_string()
    })
}

#[test]
fn replies() {
    type Write = fn(&mut Reply<'_>);
    let cases: &[(Write, &str, &str)] = &[
        (|reply| reply.ok(), r"+OK\r\n", r"+OK\r\n"),
        (|reply| reply.queued(), r"+QUEUED\r\n", r"+QUEUED\r\n"),
        (|reply| reply.simple("PONG"), r"+PONG\r\n", r"+PONG\r\n"),
        (|reply| reply.error("ERR a\r\nb\n"), r"-ERR a  b\r\n", r"-ERR a  b\r\n"),
        (|reply| reply.integer(7), r":7\r\n", r":7\r\n"),
        (|reply| reply.integer(-12), r":-12\r\n", r":-12\r\n"),
        (|reply| reply.integer(i64::MIN), r":-9223372036854775808\r\n", r":-9223372036854775808\r\n"),
        (|reply| reply.bulk(b""), r"$0\r\n\r\n", r"$0\r\n\r\n"),
        (|reply| reply.bulk(b"0123456789"), r"$10\r\n0123456789\r\n", r"$10\r\n0123456789\r\n"),
        (|reply| reply.bulk_integer(-5), r"$2\r\n-5\r\n", r"$2\r\n-5\r\n"),
        (|reply| reply.bulk_or_null(None), r"$-1\r\n", r"_\r\n"),
        (|reply| reply.verbatim(*b"txt", b"ab"), r"$2\r\nab\r\n", r"=6\r\ntxt:ab\r\n"),
        (|reply| reply.null_array(), r"*-1\r\n", r"_\r\n"),
        (|reply| reply.array(3), r"*3\r\n", r"*3\r\n"),
        (|reply| reply.map(5), r"*10\r\n", r"%5\r\n"),
        (|reply| reply.set(5), r"*5\r\n", r"~5\r\n"),
        (|reply| reply.push(2), r"*2\r\n", r">2\r\n"),
        (|reply| assert_eq!(reply.attribute(1), reply.protocol() == Protocol::Resp3), r"", r"|1\r\n"),
        (|reply| reply.double(1.5), r"$3\r\n1.5\r\n", r",1.5\r\n"),
        (|reply| reply.double(3.1), r"$18\r\n3.1000000000000001\r\n", r",3.1000000000000001\r\n"),
        (|reply| reply.double(f64::INFINITY), r"$3\r\ninf\r\n", r",inf\r\n"),
        (|reply| reply.double_text(b"10.5"), r"$4\r\n10.5\r\n", r",10.5\r\n"),
        (|reply| reply.boolean(true), r":1\r\n", r"#t\r\n"),
        (|reply| reply.boolean(false), r":0\r\n", r"#f\r\n"),
        (|reply| reply.big_number(b"-12"), r"$3\r\n-12\r\n", r"(-12\r\n"),
    ];
    for (write, older, newer) in cases {
        assert_eq!(both(write), [*older, *newer]);
    }
}

#[test]
fn deferred_headers() {
    for count in [0, 1, 9, 10, 1_234_567] {
        let [older, newer] = both(|reply| {
            reply.integer(1);
            let outer = reply.defer();
            reply.bulk(b"a");
            let inner = reply.defer();
            reply.bulk(b"b");
            reply.finish_map(inner, count);
            let set = reply.defer();
            reply.finish_set(set, count);
            reply.finish_array(outer, count);
            reply.integer(2);
        });
        let twice = count * 2;
        let expected = |map: String, set: &str| {
            format!(r":1\r\n*{count}\r\n$1\r\na\r\n{map}\r\n$1\r\nb\r\n{set}{count}\r\n:2\r\n")
        };
        assert_eq!(older, expected(format!("*{twice}"), "*"));
        assert_eq!(newer, expected(format!("%{count}"), "~"));
    }
    let [older, _] = both(|reply| {
        reply.ok();
        let position = reply.position();
        reply.integer(3);
        reply.truncate(position);
    });
    assert_eq!(older, r"+OK\r\n");
}

/// All values of a stream, fed in pieces.
fn values(input: &[u8], piece: usize, limits: &ReplyLimits) -> (Vec<Value>, Option<ReplyError>) {
    let mut parser = ReplyParser::new();
    let mut values = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.parse(&input[start..end], limits) {
            Err(error) => return (values, Some(error)),
            Ok(ReplyProgress::Complete { consumed, value }) => {
                assert!(!parser.is_within_reply());
                values.push(value);
                start += consumed;
            }
            Ok(ReplyProgress::Incomplete { consumed, needed }) => {
                assert!(needed > 0);
                start += consumed;
                if end == input.len() {
                    return (values, None);
                }
                end = (end + piece).min(input.len());
            }
        }
    }
}

#[test]
fn replies_become_values() {
    use Value::*;
    let bulk = |text: &str| Bulk(text.as_bytes().to_vec());
    let cases: &[(&[u8], Vec<Value>, Option<ReplyError>)] = &[
        (b"+OK\r\n-ERR x\r\n:-5\r\n", vec![Simple(b"OK".to_vec()), Error(b"ERR x".to_vec()), Integer(-5)], None),
        (b"$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n", vec![bulk("a\r\n"), bulk(""), Null, NullArray], None),
        (
            b"_\r\n#t\r\n#f\r\n,1.5\r\n,-inf\r\n",
            vec![Null, Boolean(true), Boolean(false), Double(1.5), Double(f64::NEG_INFINITY)],
            None,
        ),
        (b"(12345678901234567890123\r\n", vec![BigNumber(b"12345678901234567890123".to_vec())], None),
        (
            b"=5\r\ntxt:a\r\n!5\r\nERR\r\n\r\n",
            vec![Verbatim { format: *b"txt", text: b"a".to_vec() }, Error(b"ERR\r\n".to_vec())],
            None,
        ),
        (b"*2\r\n*0\r\n*1\r\n:1\r\n", vec![Array(vec![Array(vec![]), Array(vec![Integer(1)])])], None),
        (b"%1\r\n$1\r\na\r\n~1\r\n:1\r\n", vec![Map(vec![(bulk("a"), Set(vec![Integer(1)]))])], None),
        (b">2\r\n+a\r\n+b\r\n", vec![Push(vec![Simple(b"a".to_vec()), Simple(b"b".to_vec())])], None),
        (
            b"|1\r\n+ttl\r\n:9\r\n*1\r\n:1\r\n",
            vec![Attributed {
                attributes: vec![(Simple(b"ttl".to_vec()), Integer(9))],
                value: Box::new(Array(vec![Integer(1)])),
            }],
            None,
        ),
        (b"|0\r\n:1\r\n", vec![Attributed { attributes: vec![], value: Box::new(Integer(1)) }], None),
        (b"*3\r\n:1\r\n", vec![], None),
        (b"x\r\n", vec![], Some(ReplyError::UnknownType(b'x'))),
        (b"\r\n", vec![], Some(ReplyError::UnknownType(b'\r'))),
        (b"*?\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b"$-2\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b":1.5\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b",1x\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b"(1x\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b"#x\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b"=3\r\ntxt\r\n", vec![], Some(ReplyError::InvalidNumber)),
        (b"+a\rb\r\n", vec![], Some(ReplyError::NoLineBreak)),
        (b"$1\r\nabc\r\n", vec![], Some(ReplyError::NoLineBreak)),
        (b"$9223372036854775807\r\n", vec![], Some(ReplyError::TooLarge)),
        (b"%9223372036854775807\r\n", vec![], None),
    ];
    for (input, expected, error) in cases {
        for piece in [1, 2, 7, input.len()] {
            let found = values(input, piece, &ReplyLimits::default());
            assert_eq!(found, (expected.clone(), *error), "{} in pieces of {piece}", input.escape_ascii());
        }
    }
    assert!(parse_nan().is_nan());
}

fn parse_nan() -> f64 {
    match values(b",nan\r\n", 9, &ReplyLimits::default()).0.as_slice() {
        [Value::Double(number)] => *number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn replies_keep_to_their_limits() {
    let limits = ReplyLimits { depth_max: 3, memory_len_max: 4_096, line_len_max: 100 };
    let cases: &[(Vec<u8>, Option<ReplyError>)] = &[
        (b"*1\r\n".repeat(3), None),
        (b"*1\r\n".repeat(4), Some(ReplyError::TooDeep)),
        ([&b"+"[..], &[b'a'; 99]].concat(), None),
        ([&b"+"[..], &[b'a'; 100]].concat(), Some(ReplyError::LineTooLong)),
        ([&b"*1000\r\n"[..], &b":1\r\n".repeat(1_000)].concat(), Some(ReplyError::TooLarge)),
        (b"$4096\r\n".to_vec(), Some(ReplyError::TooLarge)),
    ];
    for (input, error) in cases {
        assert_eq!(values(input, 1, &limits), (vec![], *error));
        assert_eq!(values(input, input.len(), &limits), (vec![], *error));
    }
}

/// Bytes that are close to requests.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => (0..4_usize).prop_map(|count| format!("*{count}\r\n").into_bytes()),
        6 => vec(any::<u8>(), 0..12).prop_map(|bytes| {
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
        }),
        2 => "[a-z \"'\\\\x0-9]{0,12}\r?\n".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..6),
        1 => prop::sample::select(&b"*$\r\n\0\"' -0"[..]).prop_map(|byte| vec![byte]),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn pieces_make_no_difference(input in request_like(), piece in 1..20_usize, unauthenticated: bool) {
        let limits = Limits { line_len_max: 40, unauthenticated, ..Limits::default() };
        prop_assert_eq!(run(&input, piece, &limits), run(&input, usize::MAX / 2, &limits));
    }

    #[test]
    fn what_is_encoded_is_parsed(commands in vec(vec(vec(any::<u8>(), 0..40), 1..6), 0..6), piece in 1..50_usize) {
        let mut stream = Vec::new();
        for command in &commands {
            let before = stream.len();
            encode_command(&mut stream, command);
            prop_assert_eq!(stream.len() - before, encoded_command_len(command));
        }
        prop_assert_eq!(run(&stream, piece, &Limits::default()), (commands, None));
    }

    #[test]
    fn doubles_come_back(number: f64) {
        let mut out = Vec::new();
        format_double(&mut out, number);
        prop_assert!(out.len() <= DOUBLE_LEN_MAX);
        let text = std::str::from_utf8(&out).unwrap();
        if !number.is_nan() {
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn replies_in_pieces(input in vec(prop::sample::select(&b"*$+-:%~>|_#,(!=0123t\r\n\r\n\r\n"[..]), 0..80), piece in 1..20_usize) {
        let limits = ReplyLimits { depth_max: 4, memory_len_max: 4_096, line_len_max: 30 };
        prop_assert_eq!(values(&input, piece, &limits), values(&input, input.len().max(1), &limits));
    }
}

#[test]
fn what_is_quoted_is_read_again() {
    for (word, expected) in [
        (&b""[..], r#""""#),
        (b"plain words", r#""plain words""#),
        (b"\"\\", r#""\"\\""#),
        (b"\n\r\t\x07\x08", r#""\n\r\t\a\b""#),
        (b"\0\x7f\xff", r#""\x00\x7f\xff""#),
    ] {
        let mut quoted = Vec::new();
        crate::quote_argument(&mut quoted, word);
        assert_eq!(String::from_utf8(quoted.clone()).unwrap(), expected);
        let (mut scratch, mut ranges) = (Vec::new(), Vec::new());
        crate::split_arguments(&quoted, &mut scratch, &mut ranges).unwrap();
        assert_eq!(ranges.into_iter().map(|range| &scratch[range]).collect::<Vec<_>>(), [word]);
    }
}
