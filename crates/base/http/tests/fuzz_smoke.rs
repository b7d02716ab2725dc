//! A short run of every fuzz target of this crate: the corpus, and seeded mutations of it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;
#[path = "../../../../fuzz/src/http_codec.rs"]
mod http_codec;

use std::panic::{AssertUnwindSafe, catch_unwind};

use http_codec::Random;

const MUTATIONS: usize = 4_000;

/// Pieces that make an input interesting where random bytes would not.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\"",
    b"\\",
    b"=",
    b"0\r\n\r\n",
    b"\r\n\r\n",
    b"chunked",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: h\r\n",
    b" HTTP/1.1\r\n",
    b"HTTP/1.0",
    b"http://h/",
    b"*",
    b"CONNECT",
    b"HEAD",
    b"ffffffffffffffff",
    b"PROXY ",
    b"UNKNOWN",
    b"\x21\x11\0\x0c",
    b"\x7f",
    b"\xff",
];

fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(5) {
            0 => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.below(256) as u8),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
    bytes
}

fn run(body: fn(&[u8]), seeds: &[Vec<u8>]) {
    let seed = 0x7469_6465_6761_7465;
    let mut random = Random(seed);
    for round in 0..seeds.len() + MUTATIONS {
        let input = match seeds.get(round) {
            Some(seed) => seed.clone(),
            None => mutate(&seeds[random.below(seeds.len())], &mut random),
        };
        if catch_unwind(AssertUnwindSafe(|| body(&input))).is_err() {
            panic!("seed {seed:#x}, round {round}: {:?}", String::from_utf8_lossy(&input));
        }
    }
}

/// The messages of a file, each after the two bytes that choose cuts and strictness, in all four.
fn messages(text: &str) -> Vec<Vec<u8>> {
    let cases = corpus::cases(text);
    let short = cases.iter().filter(|case| case.bytes.len() < 2_000);
    short.flat_map(|case| (0..4).map(|flags| [&[case.bytes[0], flags], &case.bytes[..]].concat())).collect()
}

#[test]
fn request() {
    run(http_codec::request, &messages(include_str!("smuggling/requests.txt")));
}

#[test]
fn response() {
    run(http_codec::response, &messages(include_str!("smuggling/responses.txt")));
}

#[test]
fn chunked() {
    let cases = corpus::cases(include_str!("smuggling/requests.txt"));
    let bodies = cases.iter().filter_map(|case| {
        let start = case.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        Some([b"\x05\0", &case.bytes[start + 4..]].concat())
    });
    run(http_codec::chunked, &bodies.filter(|body| body.len() < 2_000).collect::<Vec<_>>());
}

#[test]
fn edits() {
    let mut random = Random(1);
    let seeds: Vec<Vec<u8>> =
        (0..50).map(|_| (0..random.below(300)).map(|_| random.below(256) as u8).collect()).collect();
    run(http_codec::edits, &seeds);
}

#[test]
fn values() {
    let seeds = [
        &b"a, \"b, c\" ,d"[..],
        b"a=b; c=\"d;e\"; $v=1",
        b"a=b&c=d;e",
        b"a%20b+c?d+e",
        b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    ];
    run(http_codec::values, &seeds.map(<[u8]>::to_vec));
}

#[test]
fn proxy_protocol() {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let seeds = [
        b"PROXY TCP4 1.2.3.4 5.6.7.8 90 65535\r\nGET".to_vec(),
        b"PROXY TCP6 ::1 2001:db8::a 1 2\r\n".to_vec(),
        b"PROXY UNKNOWN whatever\r\n".to_vec(),
        [&signature[..], b"\x21\x11\0\x14\x01\x02\x03\x04\x05\x06\x07\x08\0\x5a\xff\xff\x02\0\x0512345GET"].concat(),
        [&signature[..], b"\x21\x21\0\x24", &[7; 36], b"GET"].concat(),
        [&signature[..], b"\x21\x31\0\xd8", &[0; 216]].concat(),
        [&signature[..], b"\x20\0\0\0GET"].concat(),
    ];
    run(http_codec::proxy_protocol, &seeds);
}

#[test]
fn netscaler() {
    let mut v4 = vec![0; 40];
    v4[0] = 0x45;
    v4[9] = 6;
    let mut v6 = vec![0; 60];
    v6[0] = 0x60;
    v6[6] = 6;
    let seeds = [
        [&b"\0\0\0\x4d\0\0\0\x28"[..], &v4, b"GET"].concat(),
        [&b"\0\0\0\x4d\0\0\0\x2c\0\0\0\x28"[..], &v4, b"GET"].concat(),
        [&b"\0\0\0\x4d\0\0\0\x3c"[..], &v6, b"GET"].concat(),
    ];
    run(http_codec::netscaler, &seeds);
}
