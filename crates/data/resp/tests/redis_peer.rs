//! The same bytes to redis-server and to the parser: the same commands and the same errors have to come of them.
//!
//! An unknown command makes Redis say which words it has understood, so its replies tell how it has parsed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};
use resp::{
    Limits, Progress, ReplyLimits, ReplyParser, ReplyProgress, RequestParser, Value, encode_command, format_double,
};

struct Redis {
    process: Child,
    folder: PathBuf,
}

impl Redis {
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-resp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket", "socket", "--enable-debug-command", "yes"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Self { process, folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(redis.folder.join("socket")).is_err() {
            assert!(Instant::now() < deadline, "redis-server has not started");
            std::thread::sleep(Duration::from_millis(10));
        }
        redis
    }

    /// All that is answered to `input`. What follows it is the end of the connection, or else it ends with `quit`.
    fn answers(&self, input: &[u8]) -> Vec<u8> {
        let quits = input.ends_with(b"quit\r\n");
        let mut stream = UnixStream::connect(self.folder.join("socket")).unwrap();
        let mut answers = Vec::new();
        let mut writer = stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // It may have closed already, after an error.
                let _ = writer.write_all(input);
                if !quits {
                    let _ = writer.shutdown(Shutdown::Write);
                }
            });
            let _ = stream.read_to_end(&mut answers);
        });
        answers
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What Redis answers to commands that it does not know.
fn unknown(command: &[&[u8]]) -> Vec<u8> {
    // C's strings end at a NUL, and so do the quotations.
    let text = |bytes: &[u8]| bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    let name = text(command[0]);
    let mut quoted = Vec::new();
    for argument in &command[1..] {
        if quoted.len() >= 128 {
            break;
        }
        let argument = text(argument);
        let kept = argument.len().min(128 - quoted.len());
        quoted.extend([b"'", &argument[..kept], b"' "].concat());
    }
    let name = &name[..name.len().min(128)];
    let mut line = [b"-ERR unknown command '", name, b"', with args beginning with: ", &quoted].concat();
    for byte in &mut line {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    line.extend(b"\r\n");
    line
}

fn expected(input: &[u8], limits: &Limits) -> Vec<u8> {
    let mut parser = RequestParser::new();
    let mut rest = input;
    let mut out = Vec::new();
    loop {
        match parser.parse(rest, limits) {
            Err(error) => {
                error.write_reply(&mut out);
                return out;
            }
            Ok(Progress::Incomplete { .. }) => return out,
            Ok(Progress::Empty { consumed }) => rest = &rest[consumed..],
            Ok(Progress::Complete { consumed }) => {
                let command: Vec<&[u8]> = parser.arguments(rest).iter().collect();
                out.extend(unknown(&command));
                rest = &rest[consumed..];
            }
        }
    }
}

const MALFORMED: &[&[u8]] = &[
    b"",
    b"\r\n",
    b"\n\n\r\n   \r\nzz a\r\n",
    b"*0\r\n*-1\r\nzz\r\n",
    b"*\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"*-0\r\n",
    b"* 1\r\n",
    b"*1 \r\n",
    b"*x\r\n",
    b"*3000000000\r\n",
    b"*2147483648\r\n",
    b"*-9223372036854775809\r\n",
    b"*9999999999999999999999999\r\n",
    b"*1\n$2\nzz\n",
    b"*1\rx$2\rxzzxx*1\r\n$2\r\nyy\r\n",
    b"*1\r\nzz\r\n",
    b"*1\r\n:1\r\n",
    b"*1\r\n*1\r\n",
    b"*1\r\n\r\n",
    b"*1\r\n\n\r\n",
    b"*1\r\n\xff\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$02\r\nzz\r\n",
    b"*1\r\n$+2\r\nzz\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$2147483648\r\n",
    b"*1\r\n$99999999999999999999999\r\n",
    b"*1\r\n$2\r\nzzzz*1\r\n$2\r\nzz\r\n",
    b"*2\r\n$2\r\nzz\r\n$0\r\n\r\nzz ''\r\n",
    b"*1\r\n$3\r\nz\0z\r\n",
    b"zz\0a\r\nzz\r\n",
    b"*1\0\r\n",
    b"*1\r\n$2\0\r\n",
    b"zz \"a b\" 'c d' \"\\x41\\n\\q\" '\\'\\n'\r\n",
    b"zz \"a\r\nzz\r\n",
    b"zz 'a\r\nzz\r\n",
    b"zz \"a\"b\r\n",
    b"zz 'a'b\r\n",
    b"zz a\"b\"\r\n",
    b"zz a\"b\"'c'\r\n",
    b"zz \"a\\\"\r\n",
    b"zz \x0ba\x0bb \x0c c\r\n",
    b"zz a\r\r\n",
    b"zz \"\\x4\" \"\\xZZ\"\r\n",
    b"$1\r\nzz\r\n",
    b"zz\xff \x80\xfe\r\n",
];

fn random() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => (-1..4_i32).prop_map(|count| format!("*{count}\r\n").into_bytes()),
        6 => vec(any::<u8>(), 0..12).prop_map(|bytes| {
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
        }),
        3 => "zz[a-c \t\"'\\\\x0-9]{0,16}\r?\n".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..6),
        1 => prop::sample::select(&b"*$\r\n\0\"' -0"[..]).prop_map(|byte| vec![byte]),
    ];
    vec(part, 0..10).prop_map(|parts| parts.concat())
}

fn check(redis: &Redis, corpus: &[Vec<u8>], limits: &Limits) {
    for input in corpus {
        let found = redis.answers(input).escape_ascii().to_string();
        let expected = expected(input, limits).escape_ascii().to_string();
        assert_eq!(expected, found, "for {:.300}", input.escape_ascii().to_string());
    }
}

#[test]
fn requests_are_parsed_as_redis_does() {
    let redis = Redis::start("requests");
    let mut runner = TestRunner::deterministic();
    let long = |prefix: &[u8], len: usize| [prefix, &vec![b'1'; len - prefix.len()]].concat();
    let mut corpus: Vec<Vec<u8>> = MALFORMED.iter().map(|input| input.to_vec()).collect();
    corpus.extend([long(b"zz", 65_536), long(b"zz", 65_537), long(b"*", 65_537), long(b"*1\r\n$", 65_541)]);
    corpus.extend((0..1_500).map(|_| random().new_tree(&mut runner).unwrap().current()));
    check(&redis, &corpus, &Limits::default());

    assert_eq!(redis.answers(b"config set requirepass secret\r\n"), b"+OK\r\n");
    let many = [&b"*10\r\n"[..], &b"$2\r\nzz\r\n".repeat(10), b"*11\r\n"].concat();
    corpus.push(many);
    corpus.extend([b"*1\r\n$16384\r\n".to_vec(), b"*1\r\n$16385\r\n".to_vec()]);
    corpus.push([&b"*1\r\n$16384\r\n"[..], &[b'z'; 16_386]].concat());
    check(&redis, &corpus, &Limits { unauthenticated: true, ..Limits::default() });
}

fn values(mut bytes: &[u8]) -> Vec<Value> {
    let mut parser = ReplyParser::new();
    let mut values = Vec::new();
    loop {
        match parser.parse(bytes, &ReplyLimits::default()).unwrap() {
            ReplyProgress::Incomplete { .. } => return values,
            ReplyProgress::Complete { consumed, value } => {
                values.push(value);
                bytes = &bytes[consumed..];
            }
        }
    }
}

#[test]
fn doubles_are_printed_as_redis_does() {
    let redis = Redis::start("doubles");
    let mut runner = TestRunner::deterministic();
    let mut numbers: Vec<f64> = (-40..40).flat_map(|power| [2.0_f64.powi(power), 3.0 * 10.0_f64.powi(power)]).collect();
    for strategy in [prop::num::f64::NORMAL, prop::num::f64::SUBNORMAL] {
        numbers.extend((0..1_500).map(|_| strategy.new_tree(&mut runner).unwrap().current()));
    }
    // With all their digits before a half of the last: ties.
    numbers.extend((0..500).map(|tie| f64::from(tie * 2 + 1) * 2.0_f64.powi(-25)));
    numbers.extend((-1.0e3 as i32..1_000).map(|cents| f64::from(cents) / 100.0));
    let mut input = Vec::new();
    for number in &numbers {
        encode_command(&mut input, &[&b"zadd"[..], b"key", format!("{number:e}").as_bytes(), b"member"]);
        encode_command(&mut input, &[&b"zscore"[..], b"key", b"member"]);
    }
    let replies = values(&redis.answers(&input));
    assert_eq!(replies.len(), numbers.len() * 2);
    for (number, reply) in numbers.iter().zip(replies.iter().skip(1).step_by(2)) {
        let mut text = Vec::new();
        format_double(&mut text, *number);
        assert_eq!(
            Some(text.escape_ascii().to_string()),
            reply.as_bytes().map(|bytes| bytes.escape_ascii().to_string())
        );
    }
}

#[test]
fn replies_of_redis_are_read_in_both_versions() {
    let redis = Redis::start("replies");
    let kinds = ["string", "integer", "double", "null", "array", "set", "map", "attrib", "verbatim", "true", "bignum"];
    let mut input = Vec::new();
    for greeting in ["hello 2\r\n", "hello 3\r\n"] {
        input.extend(greeting.bytes());
        input.extend(kinds.iter().flat_map(|kind| format!("debug protocol {kind}\r\n").into_bytes()));
    }
    input.extend(b"command docs\r\nquit\r\n");
    let replies = values(&redis.answers(&input));
    let count = kinds.len() + 1;
    assert_eq!(replies.len(), count * 2 + 2);
    let kind = |value: &Value| format!("{value:?}").split(['(', ' ']).next().map(str::to_owned);
    let found: Vec<_> = replies.iter().filter_map(kind).collect();
    assert_eq!(
        found[..count].join(" "),
        "Array Bulk Integer Bulk Null Array Array Array Bulk Bulk Integer Bulk",
        "a map is an array of both in the older version"
    );
    assert_eq!(
        found[count..].join(" "),
        "Map Bulk Integer Double Null Array Set Map Attributed Verbatim Boolean BigNumber Map Simple"
    );
    assert!(matches!(&replies[count * 2], Value::Map(pairs) if pairs.len() > 200), "of all commands");
}
