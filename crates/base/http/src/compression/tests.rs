use super::*;
use crate::{Limits, Parsed, RequestParser, ResponseParser};

fn request(fields: &str) -> RequestHead {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut head = RequestHead::new();
    let parsed = RequestParser::new().parse(text.as_bytes(), &Limits::default(), &mut head).unwrap();
    assert!(matches!(parsed, Parsed::Complete { .. }), "{fields}");
    head
}

fn response(text: &str) -> ResponseHead {
    let mut head = ResponseHead::new();
    let text = format!("{text}\r\n");
    let parsed = ResponseParser::new().parse(text.as_bytes(), &Limits::default(), &mut head).unwrap();
    assert!(matches!(parsed, Parsed::Complete { .. }), "{text}");
    head
}

#[track_caller]
fn chooses(fields: &str, words: &str, expected: &str) {
    let codings: Vec<_> = words.split(' ').map(|word| Coding::named(word).unwrap()).collect();
    let chosen = accepted_coding(&request(fields), &codings).map_or("", Coding::name);
    assert_eq!(chosen, expected, "{fields} with {words}");
}

#[test]
fn chooses_as_haproxy() {
    for (accept, words, expected) in [
        ("gzip", "gzip", "gzip"),
        ("GZip", "gzip", "gzip"),
        ("x-gzip", "gzip", ""),
        ("deflate, gzip", "gzip deflate", "deflate"),
        ("gzip, deflate", "gzip deflate", "gzip"),
        ("gzip;q=0.5, deflate", "gzip deflate", "deflate"),
        ("*;q=0, gzip;q=0.750, deflate;q=0.500", "gzip deflate", "gzip"),
        ("*;q=0, gzip;q=0.500, deflate;q=0.750", "gzip deflate", "deflate"),
        ("*", "gzip deflate", "deflate"),
        ("*;q=0", "gzip", ""),
        ("gzip;q=0", "gzip", ""),
        ("gzip;q=0.0001", "gzip", ""),
        ("gzip;q=7", "gzip", "gzip"),
        ("gzip;q=x", "gzip", "gzip"),
        ("gzip;a=b;q=0", "gzip", ""),
        ("gzip ; q=0", "gzip", ""),
        ("gzip;q=0, gzip", "gzip", "gzip"),
        ("", "gzip", ""),
        (", ,gzip", "gzip", "gzip"),
        ("deflate", "raw-deflate gzip", "raw-deflate"),
        ("br, gzip", "gzip", "gzip"),
        ("gzip", "deflate identity", "identity"),
        ("identity", "identity", "identity"),
    ] {
        chooses(&format!("Accept-Encoding: {accept}\r\n"), words, expected);
    }
    chooses("Accept-Encoding: gzip;q=0.1\r\nAccept-Encoding: deflate;q=0.2\r\n", "gzip deflate", "deflate");
    chooses("", "gzip", "");
    chooses("", "gzip identity", "identity");
}

#[test]
fn own_codings_go_by_the_order_of_the_configuration() {
    for (accept, words, expected) in [
        ("gzip, deflate, br, zstd", "zstd br gzip", "zstd"),
        ("gzip, deflate, br", "zstd br gzip", "br"),
        ("gzip, deflate", "zstd br gzip", "gzip"),
        ("gzip, br;q=0.9", "br gzip", "gzip"),
        ("*", "br gzip", "br"),
        ("zstd;q=0, *;q=0.1", "br gzip", "br"),
    ] {
        chooses(&format!("Accept-Encoding: {accept}\r\n"), words, expected);
    }
}

#[test]
fn agents_that_cannot() {
    for (agent, expected) in [
        ("Mozilla/5.0 (X11)", "gzip"),
        ("Mozilla/4", ""),
        ("Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)", ""),
        ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", ""),
        ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", "gzip"),
        ("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)", "gzip"),
    ] {
        chooses(&format!("Accept-Encoding: gzip\r\nUser-Agent: {agent}\r\n"), "gzip", expected);
    }
}

#[track_caller]
fn judges(head: &str, expected: Result<(), Uncompressed>) {
    let (request, response) = (request(""), response(head));
    let body = crate::response_body_length(&response, Method::Get);
    let types = [Box::from(*b"text/"), Box::from(*b"application/json")];
    assert_eq!(may_compress(&request, Version::Http11, &response, body, &types), expected, "{head}");
}

#[test]
fn responses_that_qualify() {
    use Uncompressed::{Body, Encoded, Etag, NoTransform, Status, Type, Version};
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/html\r\n";
    judges(ok, Ok(()));
    judges(&format!("{ok}Transfer-Encoding: chunked\r\n").replace("Content-Length: 5\r\n", ""), Ok(()));
    for (more, expected) in [
        ("Content-Encoding: gzip\r\n", Err(Encoded)),
        ("Content-Encoding: identity\r\n", Err(Encoded)),
        ("Cache-Control: private, No-Transform\r\n", Err(NoTransform)),
        ("Cache-Control: no-transformers\r\n", Ok(())),
        ("ETag: \"a\"\r\n", Ok(())),
        ("ETag: W/\"a\"\r\n", Ok(())),
        ("ETag: \"W/a\"\r\n", Ok(())),
        ("ETag: \"\"\r\n", Ok(())),
        ("ETag: a\r\n", Err(Etag)),
        ("ETag: \"a\r\n", Err(Etag)),
        ("ETag: w/\"a\"\r\n", Err(Etag)),
        ("ETag: \"a\"\r\nETag: \"a\"\r\n", Err(Etag)),
    ] {
        judges(&format!("{ok}{more}"), expected);
    }
    judges(&ok.replace("200 OK", "203 X"), Ok(()));
    for status in ["204 X", "206 X", "304 X"] {
        judges(&ok.replace("200 OK", status), Err(Status));
    }
    judges(&ok.replace("HTTP/1.1", "HTTP/1.0"), Err(Version));
    judges(&ok.replace("Content-Length: 5", "Content-Length: 0"), Err(Body));
    judges(&ok.replace("Content-Length: 5\r\n", ""), Err(Body));
    judges(&ok.replace("text/html", "TEXT/plain; charset=utf-8"), Ok(()));
    judges(&ok.replace("text/html", "application/jsonx"), Ok(()));
    judges(&ok.replace("text/html", "image/png"), Err(Type));
    judges(&ok.replace("Content-Type: text/html\r\n", ""), Err(Type));
    let (request, head) = (request(""), response(&ok.replace("text/html", "multipart/mixed")));
    let judged = may_compress(&request, crate::Version::Http11, &head, BodyLength::Exact(5), &[]);
    assert_eq!(judged, Err(Type), "never, whatever is listed");
    let judged = may_compress(&request, crate::Version::Http10, &head, BodyLength::Exact(5), &[]);
    assert_eq!(judged, Err(Version));
}

#[test]
fn heads_change() {
    let check = |fields: &str, coding, expected: &str| {
        let mut head = response(&format!("HTTP/1.1 200 OK\r\n{fields}"));
        mark_compressed(&mut head, coding);
        let mut out = Vec::new();
        head.write_to(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("HTTP/1.1 200 OK\r\n{expected}\r\n"));
    };
    check(
        "Content-Length: 9\r\nETag: \"x\"\r\nServer: s\r\n",
        Coding::Gzip,
        "etag: W/\"x\"\r\nserver: s\r\ntransfer-encoding: chunked\r\nvary: Accept-Encoding\r\ncontent-encoding: gzip\r\n",
    );
    check(
        "Transfer-Encoding: chunked\r\nETag: W/\"x\"\r\nVary: Cookie\r\n",
        Coding::RawDeflate,
        "transfer-encoding: chunked\r\netag: W/\"x\"\r\nvary: Cookie\r\nvary: Accept-Encoding\r\ncontent-encoding: deflate\r\n",
    );
    check("Content-Length: 9\r\n", Coding::Identity, "transfer-encoding: chunked\r\nvary: Accept-Encoding\r\n");
}
