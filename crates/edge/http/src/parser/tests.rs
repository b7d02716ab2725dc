use super::{Parsed, RequestParser};
use crate::error::ParseError;
use crate::limits::Limits;
use crate::request::RequestHead;

fn request(input: &[u8], limits: &Limits) -> Result<(Parsed, RequestHead), ParseError> {
    let mut head = RequestHead::new();
    RequestParser::new().parse(input, limits, &mut head).map(|parsed| (parsed, head))
}

#[test]
fn plain_request() {
    let input = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.org\r\nX-Odd:  value \r\n\r\nbody";
    let (parsed, head) = request(input, &Limits::default()).unwrap();
    assert_eq!(parsed, Parsed::Complete { consumed: input.len() - 4 });
    assert_eq!(head.method(), b"GET");
    assert_eq!(head.path(), b"/a/b");
    assert_eq!(head.query(), Some(&b"c=d"[..]));
    let mut out = Vec::new();
    head.write_to(&mut out);
    assert_eq!(out, b"GET /a/b?c=d HTTP/1.1\r\nHost: example.org\r\nX-Odd: value\r\n\r\n");
}
