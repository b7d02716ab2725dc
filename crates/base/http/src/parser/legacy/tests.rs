use crate::{Limits, Method, Parsed, ResponseHead, ResponseParser, response_body_length};

fn relaxed() -> Limits {
    Limits { accept_legacy: true, ..Limits::default() }
}

/// The head as it goes on, whether it is in doubt, and how many bytes behind it are left; or why it is refused.
fn passed(input: &[u8], limits: &Limits) -> Result<(String, bool, usize), &'static str> {
    let mut head = ResponseHead::new();
    match ResponseParser::new().parse(input, limits, &mut head) {
        Ok(Parsed::Complete { consumed }) => {
            let mut out = Vec::new();
            head.write_to(&mut out);
            Ok((String::from_utf8_lossy(&out).into_owned(), head.is_in_doubt(), input.len() - consumed))
        }
        Ok(Parsed::Incomplete) => Err("incomplete"),
        Err(error) => Err(error.kind.name()),
    }
}

/// What is refused otherwise, and how it goes on.
const MENDED: &[(&str, &str)] = &[
    // Line ends.
    ("HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nA: b\n\r\n", "HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nA: b\r\n\n", "HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
    ("\r\n\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    // Folds.
    ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\t d \r\n\r\n", "HTTP/1.1 200 OK\r\na: b c d\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nA:\r\n b\r\n \r\nC: d\r\n\r\n", "HTTP/1.1 200 OK\r\na: b\r\nc: d\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
    // Lengths that agree.
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\na: b\r\n\r\n",
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
    // The status line.
    ("HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    ("HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    ("HTTP/0.9 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
];

/// What passes in doubt.
const DOUBTFUL: &[(&str, &str)] = &[
    ("HTTP/1.1 99 Odd\r\n\r\n", "HTTP/1.1 99 Odd\r\n\r\n"),
    ("HTTP/1.1 099 Odd\r\n\r\n", "HTTP/1.1 099 Odd\r\n\r\n"),
    ("HTTP/1.1 1000\r\nA: b\r\n\r\n", "HTTP/1.1 1000 \r\na: b\r\n\r\n"),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"),
];

/// What never passes.
const REFUSED: &[(&str, &str)] = &[
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "repeated-length"),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", "invalid-length"),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n", "invalid-length"),
    ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "invalid-length"),
    ("HTTP/1.1 200 OK\nContent-Length: 5x\n\n", "invalid-length"),
    ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "invalid-length"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "repeated-encoding"),
    ("HTTP/1.1 200 OK\nTransfer-Encoding: identity\nContent-Length: 5\n\n", "unsupported-encoding"),
    ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked, gzip\nContent-Length: 5\n\n", "unsupported-encoding"),
    ("HTTP/1.1 200 OK\nA: b\rc\n\n", "bare-cr"),
    ("HTTP/1.1 200 OK\nA: b\0c\n\n", "nul"),
    ("HTTP/1.1 200 OK\nA: b\x01c\n\n", "control-byte"),
    ("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", "obsolete-fold"),
    ("HTTP/1.1 200 OK\nA\n\n", "missing-colon"),
    ("HTTP/1.1 200 OK\n: b\n\n", "empty-name"),
    ("HTTP/1.1 200 OK\nA B: c\n\n", "invalid-name-byte"),
    ("HTTP/1.1 0200 OK\r\n\r\n", "invalid-status"),
    ("HTTP/1.1 10000 OK\r\n\r\n", "invalid-status"),
    ("HTTP/1.1 000 OK\r\n\r\n", "invalid-status"),
    ("HTTP/1.1 2x0 OK\n\n", "invalid-status"),
    ("HTTP/1.1\nA: b\n\n", "status-line"),
    ("ICY 200 OK\n\n", "invalid-version"),
    ("junk\n\n", "invalid-version"),
    ("\n\n\n\n\n\nHTTP/1.1 200 OK\n\n", "invalid-version"),
];

#[test]
fn heads_are_put_in_order() {
    for (doubt, cases) in [(false, MENDED), (true, DOUBTFUL)] {
        for (input, expected) in cases {
            let with_body = format!("{input}body");
            assert!(passed(input.as_bytes(), &Limits::default()).is_err(), "{input:?} is refused otherwise");
            assert_eq!(passed(with_body.as_bytes(), &relaxed()), Ok(((*expected).to_owned(), doubt, 4)), "{input:?}");
        }
    }
}

#[test]
fn what_leaves_a_doubt_is_refused() {
    for (input, why) in REFUSED {
        assert_eq!(passed(input.as_bytes(), &relaxed()), Err(*why), "{input:?}");
    }
}

/// A response must not depend on how its bytes arrived.
#[test]
fn one_byte_at_a_time_makes_no_difference() {
    for (input, _) in MENDED.iter().chain(DOUBTFUL).chain(REFUSED) {
        let (limits, mut head, mut parser) = (relaxed(), ResponseHead::new(), ResponseParser::new());
        let mut parsed = Ok(Parsed::Incomplete);
        for end in 1..=input.len() {
            parsed = parser.parse(&input.as_bytes()[..end], &limits, &mut head);
            if parsed != Ok(Parsed::Incomplete) {
                break;
            }
        }
        let mut out = Vec::new();
        head.write_to(&mut out);
        let told = match parsed {
            Ok(Parsed::Complete { consumed }) => {
                Ok((String::from_utf8_lossy(&out).into_owned(), head.is_in_doubt(), input.len() - consumed))
            }
            Ok(Parsed::Incomplete) => Err("incomplete"),
            Err(error) => Err(error.kind.name()),
        };
        assert_eq!(told, passed(input.as_bytes(), &limits), "{input:?}");
    }
}

/// Whatever passes is beyond doubt for the next one who reads it, however strict.
#[test]
fn what_goes_on_is_read_in_the_same_way_by_a_strict_reader() {
    let pieces: &[&str] = &[
        "HTTP/1.1 200 OK",
        "HTTP/1.0 200 OK",
        "HTTP/1.1  404 No",
        "\r\n",
        "\n",
        "\n\n",
        "\r",
        " ",
        "\t",
        "A: b",
        "A : b",
        ": ",
        "Content-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 6",
        "Content-Length:",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "5",
        "\0",
        "x",
    ];
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut mended = 0;
    for _ in 0..20_000 {
        let mut input = pieces[next(3)].to_owned();
        for _ in 0..next(8) {
            input.push_str(["\r\n", "\n", "\r\n "][next(3)]);
            input.push_str(pieces[next(pieces.len())]);
        }
        input.push_str(["\r\n\r\n", "\n\n"][next(2)]);
        let mut head = ResponseHead::new();
        if !matches!(ResponseParser::new().parse(input.as_bytes(), &relaxed(), &mut head), Ok(Parsed::Complete { .. }))
        {
            continue;
        }
        let mut out = Vec::new();
        head.write_to(&mut out);
        let mut again = ResponseHead::new();
        let parsed = ResponseParser::new().parse(&out, &Limits::default(), &mut again);
        assert_eq!(parsed, Ok(Parsed::Complete { consumed: out.len() }), "{input:?} became {out:?}");
        let of = |head: &ResponseHead| (head.status(), response_body_length(head, Method::Get));
        assert_eq!(of(&again), of(&head), "{input:?}");
        mended += usize::from(out != input.as_bytes());
    }
    assert!(mended > 100, "{mended}");
}
