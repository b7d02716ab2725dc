use proptest::prelude::*;

use super::*;

fn span(start: u64, end: u64) -> Span {
    Span { start, end }
}

#[track_caller]
fn check(value: &str, expected: Wanted) {
    assert_eq!(wanted(value.as_bytes(), 100, RangeLimits::default()), expected, "{value}");
}

#[test]
fn one_range() {
    check("bytes=0-9", Wanted::Part(span(0, 10)));
    check("bytes=90-", Wanted::Part(span(90, 100)));
    check("bytes=-10", Wanted::Part(span(90, 100)));
    check("bytes=-1000", Wanted::Part(span(0, 100)));
    check("bytes=0-1000", Wanted::Part(span(0, 100)));
    check("bytes=0-", Wanted::Part(span(0, 100)));
    check("bytes=99-99", Wanted::Part(span(99, 100)));
    check("bytes=100-", Wanted::Unsatisfiable);
    check("bytes=-0", Wanted::Unsatisfiable);
}

#[test]
fn what_is_ignored() {
    for value in
        ["", "bytes", "bytes=", "bytes=,", "bytes=9-0", "bytes=a-b", "bytes=0-1,x", "lines=0-1", "bytes=-", "bytes=0"]
    {
        check(value, Wanted::Whole);
    }
}

#[test]
fn several_ranges() {
    check("bytes=0-1,50-59", Wanted::Parts(vec![span(0, 2), span(50, 60)]));
    check("bytes=-10,0-1", Wanted::Parts(vec![span(90, 100), span(0, 2)]));
    check("bytes=0-1, 200-", Wanted::Part(span(0, 2)));
    check("bytes=100-,200-", Wanted::Unsatisfiable);
}

#[test]
fn bombs_are_answered_with_the_whole() {
    check("bytes=0-,0-,0-", Wanted::Whole);
    check("bytes=0-50,50-99", Wanted::Whole);
    check("bytes=0-49,50-99", Wanted::Parts(vec![span(0, 50), span(50, 100)]));
    let many = |count: usize| format!("bytes={}", vec!["0-0"; count].join(","));
    check(&many(21), Wanted::Parts(vec![span(0, 1); 21]));
    check(&many(22), Wanted::Whole);
    let forward = |count: usize| (0..count).map(|at| format!("{at}-{at}")).collect::<Vec<_>>().join(",");
    check(&format!("bytes={}", forward(101)), Wanted::Whole);
    assert!(matches!(
        wanted(format!("bytes={}", forward(100)).as_bytes(), 1_000, RangeLimits::default()),
        Wanted::Parts(parts) if parts.len() == 100
    ));
    let none = RangeLimits { ranges_max: 0, ..RangeLimits::default() };
    assert_eq!(wanted(b"bytes=0-1", 100, none), Wanted::Whole);
    // Unsatisfiable ones count, too.
    let one = RangeLimits { ranges_max: 1, ..RangeLimits::default() };
    assert_eq!(wanted(b"bytes=200-,0-1", 100, one), Wanted::Whole);
}

#[test]
fn an_empty_file_has_no_ranges() {
    for value in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=0-0,-1"] {
        assert_eq!(wanted(value.as_bytes(), 0, RangeLimits::default()), Wanted::Unsatisfiable, "{value}");
    }
}

#[test]
fn a_body_of_parts() {
    let body = multipart(&[span(0, 2), span(10, 13)], 20, &[b"text/plain", b"; charset=", b"utf-8"], 7);
    let text: Vec<u8> = body
        .pieces
        .iter()
        .flat_map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::File(span) => vec![b'x'; usize::try_from(span.len()).unwrap()],
        })
        .collect();
    let expected = "\r\n--00000000000000000007\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 0-1/20\r\n\r\nxx\
                    \r\n--00000000000000000007\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 10-12/20\r\n\r\nxxx\
                    \r\n--00000000000000000007--\r\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    assert_eq!(body.length, expected.len() as u64);
    assert_eq!(body.content_type, b"multipart/byteranges; boundary=00000000000000000007");
}

proptest! {
    #[test]
    fn no_answer_is_much_longer_than_the_file(
        value in "bytes=([0-9]{0,3}-[0-9]{0,3},?){0,130}",
        length in 0_u64..1_000,
    ) {
        let limits = RangeLimits::default();
        match wanted(value.as_bytes(), length, limits) {
            Wanted::Part(span) => prop_assert!(span.start < span.end && span.end <= length),
            Wanted::Parts(spans) => {
                prop_assert!(spans.len() >= 2 && spans.len() <= limits.ranges_max);
                prop_assert!(spans.iter().all(|span| span.start < span.end && span.end <= length));
                prop_assert!(spans.iter().map(|span| span.len()).sum::<u64>() <= length);
                let body = multipart(&spans, length, &[b"text/plain"], u64::MAX);
                prop_assert!(body.length <= length + 150 * (spans.len() as u64 + 1));
            }
            Wanted::Whole | Wanted::Unsatisfiable => {}
        }
    }
}
