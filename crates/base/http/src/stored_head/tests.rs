use proptest::prelude::*;

use super::*;
use crate::limits::Limits;
use crate::parser::ResponseParser;

fn head(fields: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    fields.iter().for_each(|(name, value)| head.headers.add(name.as_bytes(), value.as_bytes()));
    head
}

fn wire(head: &ResponseHead) -> String {
    let mut out = Vec::new();
    head.write_to(&mut out);
    String::from_utf8(out).unwrap()
}

fn check(head: &ResponseHead) {
    let stored = StoredHead::of(head);
    let back = stored.unpacked();
    assert_eq!(wire(&back), wire(head));
    assert_eq!(back.framing, head.framing);
    assert_eq!((back.is_in_doubt(), back.version()), (head.is_in_doubt(), head.version()));
    assert_eq!((stored.status(), stored.reason()), (head.status(), head.reason()));
    assert_eq!(stored.version_bytes(), head.version_bytes());
    let kept: Vec<_> = stored.fields().collect();
    let given: Vec<_> = head.headers.iter_known().collect();
    assert_eq!(kept, given);
    for (id, name, _) in given {
        assert_eq!(stored.first(name), head.headers.first(name));
        assert_eq!(stored.all(name).collect::<Vec<_>>(), head.headers.all(name).collect::<Vec<_>>());
        if id != HeaderId::Other {
            assert_eq!(stored.first_known(id), head.headers.first_known(id));
            assert!(back.headers.contains_known(id));
        }
    }
    assert_eq!(StoredHead::of(&back), stored, "what is unpacked takes the same");
    assert_eq!(stored.0.len(), stored.memory_bytes());
}

#[test]
fn heads_come_back_as_they_were() {
    check(&ResponseHead::default());
    check(&head(&[]));
    check(&head(&[("Content-Length", "5"), ("X-Own", ""), ("Set-Cookie", "a=b"), ("set-cookie", "c=d")]));
    check(&head(&[("Content-Encoding", "gzip"), ("ETag", &"e".repeat(127)), ("X", &"e".repeat(128))]));
    check(&head(&[("Content-Encoding", "gzip"), ("ETag", &"e".repeat(127))]));
    let long = "v".repeat(70_000);
    check(&head(&[(&"n".repeat(300), &long), ("Date", "Sat, 28 Nov 2026 12:00:00 GMT")]));
    let mut edited = head(&[("Server", "x"), ("Content-Length", "77"), ("Via", "1.1 a")]);
    edited.headers.remove_known(HeaderId::ContentLength);
    edited.set_status(404);
    edited.set_reason(b"Gone fishing");
    edited.set_version(Version::Http10);
    check(&edited);
    assert!(StoredHead::of(&edited).unpacked().headers.may_be_edited(u64::MAX));
}

#[test]
fn what_was_parsed_says_the_same_of_its_body() {
    for wire in [
        "HTTP/1.1 200 OK\r\nContent-Length: 123456789012\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX:   padded \t\r\n\r\n",
        "HTTP/1.0 301 Moved\r\nlocation:/x\r\n\r\n",
    ] {
        let mut head = ResponseHead::new();
        ResponseParser::new().parse(wire.as_bytes(), &Limits::default(), &mut head).unwrap();
        check(&head);
        assert!(!StoredHead::of(&head).unpacked().headers.may_be_edited(u64::MAX));
    }
}

/// What stands in memory is one piece of the size that it takes: six bytes and three for each field beside the text.
#[test]
fn a_head_takes_little_beside_its_text() {
    let stored = StoredHead::of(&head(&[("Content-Length", "5"), ("Cache-Control", "max-age=3600")]));
    let text = "OKContent-Length: 5\r\nCache-Control: max-age=3600\r\n".len();
    assert_eq!(stored.memory_bytes(), text + 6 + 2 * 3);
}

proptest! {
    #[test]
    fn any_head_comes_back(
        status in 100_u16..1000,
        fields in proptest::collection::vec(("(?i)etag|date|x-[a-z]{0,200}|content-length|content-encoding", "[ -~]{0,300}"), 0..12),
    ) {
        let mut head = ResponseHead::new();
        head.start(Version::Http11, status);
        fields.iter().for_each(|(name, value)| head.headers.add(name.as_bytes(), value.as_bytes()));
        check(&head);
    }

    /// Nothing but our own bytes is ever read; all the same nothing of it may panic.
    #[test]
    fn bytes_that_are_no_head_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let stored = StoredHead(bytes.into());
        let start = stored.start();
        prop_assume!(start.count < 1000);
        prop_assert!(stored.fields().count() <= start.count);
    }
}
