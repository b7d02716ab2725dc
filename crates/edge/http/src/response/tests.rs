use super::ResponseHead;
use crate::version::Version;

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
