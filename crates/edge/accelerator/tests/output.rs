//! What goes to the client.
#![allow(clippy::unwrap_used, reason = "tests")]

use accelerator::output::{Part, finish};
use http::{HeaderId, RequestHead, ResponseHead, Version};

#[test]
fn a_part_says_how_long_it_is() {
    let mut request = RequestHead::new();
    request.start(b"GET", b"/", Version::Http11);
    request.headers.add(b"range", b"bytes=2-5");
    let mut response = ResponseHead::new();
    response.start(Version::Http11, 200);
    response.headers.add(b"content-length", b"15");
    assert_eq!(finish(&request, &mut response, Some(15), true, 1e9), Part::Bytes { start: 2, end: 6 });
    assert_eq!(response.status(), 206);
    assert_eq!(response.headers.first_known(HeaderId::ContentLength), Some(&b"4"[..]));
    assert_eq!(response.headers.first(b"content-range"), Some(&b"bytes 2-5/15"[..]));
}
