use super::ResponseHead;
use crate::StoredHead;
use crate::version::Version;
use crate::{Limits, Parsed, ResponseParser};

#[track_caller]
fn check(head: &ResponseHead, expected: &str) {
    let mut out = Vec::new();
    head.write_to(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), expected.replace('|', "\r\n"));
}

#[test]
fn writes() {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    check(&head, "HTTP/1.1 200 OK||");
    head.headers.add(b"Content-Length", b"0");
    head.set_status(599);
    check(&head, "HTTP/1.1 599 Server Error|Content-Length: 0||");
    head.set_version(Version::Http10);
    head.set_reason(b"Be\r\nwell");
    check(&head, "HTTP/1.0 599 Be  well|Content-Length: 0||");
    head.set_reason(b"");
    check(&head, "HTTP/1.0 599 |Content-Length: 0||");
    head.start(Version::Http11, 7);
    check(&head, "HTTP/1.1 100 Continue||");
    head.start(Version::Http11, 1000);
    check(&head, "HTTP/1.1 999 Other||");
}

#[test]
fn what_stays_takes_no_more_than_it_needs() {
    let mut head = ResponseHead::new();
    let bytes = b"HTTP/1.1 200 Fine\r\nServer: a\r\nX-A:  1 \r\nDate: now\r\nX-B: 2\r\n\r\n";
    let parsed = ResponseParser::new().parse(bytes, &Limits::default(), &mut head);
    assert!(matches!(parsed, Ok(Parsed::Complete { .. })));
    for number in 0..20 {
        head.headers.set(b"X-B", number.to_string().as_bytes());
        head.headers.set(b"Age", b"0");
    }
    head.headers.remove(b"server");
    let (mut before, mut after) = (Vec::new(), Vec::new());
    head.write_to(&mut before);
    let stored = StoredHead::of(&head);
    assert!(stored.memory_bytes() < head.headers.memory_bytes() / 4, "{}", stored.memory_bytes());
    let mut head = stored.unpacked();
    head.write_to(&mut after);
    assert_eq!(String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
    assert_eq!((head.status(), head.reason(), head.headers.first(b"x-b")), (200, &b"Fine"[..], Some(&b"19"[..])));
    head.headers.set(b"Later", b"1");
    assert_eq!(head.headers.first(b"date"), Some(&b"now"[..]));
}
