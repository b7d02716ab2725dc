use super::*;

const NOW: i64 = 1_700_000_000;
/// `Sun, 06 Nov 1994 08:49:37 GMT`
const MODIFIED: i64 = 784_111_777;

fn request(method: &str, fields: &str) -> RequestHead {
    let mut request = RequestHead::new();
    request.start(method.as_bytes(), b"/a", Version::Http11);
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        request.headers.add(name.as_bytes(), value.as_bytes());
    }
    request
}

fn file() -> Representation<'static> {
    Representation {
        length: 100,
        modified: MODIFIED,
        tag: b"\"a\"",
        content_type: ContentType { essence: "text/plain", charset: None },
        coding: None,
        varies: false,
        expiry: None,
        ranges: RangeLimits::default(),
        prepared: None,
    }
}

fn answer(file: &Representation<'_>, method: &str, fields: &str) -> (ResponseHead, BodyPlan) {
    let mut response = ResponseHead::new();
    let plan = respond(&request(method, fields), file, NOW, || 1, &mut response);
    (response, plan)
}

fn lines(response: &ResponseHead) -> Vec<String> {
    let mut text = Vec::new();
    response.write_to(&mut text);
    String::from_utf8(text).unwrap().trim_end().lines().map(str::to_owned).collect()
}

#[test]
fn a_whole_file() {
    let (response, plan) = answer(&file(), "GET", "");
    assert_eq!(plan, BodyPlan::Whole);
    assert_eq!(
        lines(&response),
        [
            "HTTP/1.1 200 OK",
            "content-type: text/plain",
            "content-length: 100",
            "last-modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "etag: \"a\"",
            "accept-ranges: bytes"
        ]
    );
    let (head, plan) = answer(&file(), "HEAD", "");
    assert_eq!((lines(&head), plan), (lines(&response), BodyPlan::Nothing));
}

#[test]
fn a_coding_and_an_expiry() {
    let expiry = crate::Expires::After(60).expiry(NOW, 0, 0);
    let other = Representation {
        content_type: ContentType { essence: "text/html", charset: Some("utf-8") },
        coding: Some(Coding::Brotli),
        varies: true,
        expiry,
        ranges: RangeLimits { ranges_max: 0, backward_max: 0 },
        ..file()
    };
    let (response, plan) = answer(&other, "GET", "Range: bytes=0-1");
    assert_eq!(plan, BodyPlan::Whole);
    assert_eq!(
        lines(&response),
        [
            "HTTP/1.1 200 OK",
            "content-type: text/html; charset=utf-8",
            "content-length: 100",
            "last-modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "etag: \"a\"",
            "content-encoding: br",
            "vary: Accept-Encoding",
            "expires: Tue, 14 Nov 2023 22:14:20 GMT",
            "cache-control: max-age=60"
        ]
    );
    let (response, _) = answer(&other, "GET", "If-None-Match: \"a\"");
    assert_eq!(
        lines(&response),
        [
            "HTTP/1.1 304 Not Modified",
            "last-modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "etag: \"a\"",
            "vary: Accept-Encoding",
            "expires: Tue, 14 Nov 2023 22:14:20 GMT",
            "cache-control: max-age=60"
        ],
        "what RFC 9110 section 15.4.5 wants"
    );
}

#[test]
fn conditions_in_their_order() {
    let (before, at, after) =
        ("Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
    for (fields, expected) in [
        ("", 200),
        ("If-Match: \"a\"", 200),
        ("If-Match: *", 200),
        ("If-Match: \"b\", \"a\"", 200),
        ("If-Match: \"b\"", 412),
        ("If-Match: W/\"a\"", 412),
        (&format!("If-Match: \"a\"\nIf-Unmodified-Since: {before}"), 200),
        (&format!("If-Unmodified-Since: {before}"), 412),
        (&format!("If-Unmodified-Since: {at}"), 200),
        ("If-Unmodified-Since: yesterday", 200),
        ("If-None-Match: \"a\"", 304),
        ("If-None-Match: W/\"a\"", 304),
        ("If-None-Match: \"b\"\nIf-None-Match: \"c\", \"a\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"b\"", 200),
        (&format!("If-None-Match: \"b\"\nIf-Modified-Since: {after}"), 200),
        (&format!("If-None-Match: \"a\"\nIf-Modified-Since: {before}"), 304),
        (&format!("If-Modified-Since: {before}"), 200),
        (&format!("If-Modified-Since: {at}"), 304),
        (&format!("If-Modified-Since: {after}"), 304),
        ("If-Modified-Since: never", 200),
        ("If-Match: \"b\"\nIf-None-Match: \"a\"", 412),
        ("If-None-Match: \"a\"\nRange: bytes=0-1", 304),
        ("If-Match: \"b\"\nRange: bytes=0-1", 412),
    ] {
        for method in ["GET", "HEAD"] {
            let (response, plan) = answer(&file(), method, fields);
            assert_eq!(response.status(), expected, "{method} {fields}");
            assert_eq!(plan == BodyPlan::Whole, expected == 200 && method == "GET", "{method} {fields}");
        }
    }
}

#[test]
fn ranges_and_their_condition() {
    let at = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, expected) in [
        ("Range: bytes=0-9", 206),
        ("Range: bytes=0-9\nIf-Range: \"a\"", 206),
        ("Range: bytes=0-9\nIf-Range: \"b\"", 200),
        ("Range: bytes=0-9\nIf-Range: W/\"a\"", 200),
        (&format!("Range: bytes=0-9\nIf-Range: {at}"), 206),
        ("Range: bytes=0-9\nIf-Range: Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("Range: bytes=0-9\nIf-Range: soon", 200),
        ("Range: bytes=200-\nIf-Range: \"b\"", 200),
        ("Range: bytes=200-", 416),
        ("Range: bytes=0-1,4-5", 206),
        ("Range: chapters=1", 200),
    ] {
        let (response, plan) = answer(&file(), "GET", fields);
        assert_eq!(response.status(), expected, "{fields}");
        assert_eq!(matches!(plan, BodyPlan::Part(_) | BodyPlan::Parts(_)), expected == 206, "{fields}");
        let (response, plan) = answer(&file(), "HEAD", fields);
        assert_eq!((response.status(), plan), (200, BodyPlan::Nothing), "RFC 9110 section 14.2: {fields}");
    }
}

#[test]
fn heads_of_parts() {
    let (response, plan) = answer(&file(), "GET", "Range: bytes=10-19");
    assert_eq!(plan, BodyPlan::Part(Span { start: 10, end: 20 }));
    let lines_found = lines(&response);
    assert!(lines_found.contains(&"content-length: 10".to_owned()), "{lines_found:?}");
    assert!(lines_found.contains(&"content-range: bytes 10-19/100".to_owned()), "{lines_found:?}");

    let (response, plan) = answer(&file(), "GET", "Range: bytes=0-1,4-5");
    let BodyPlan::Parts(parts) = plan else { panic!("parts") };
    let lines_found = lines(&response);
    assert!(lines_found.contains(&format!("content-length: {}", parts.length)), "{lines_found:?}");
    assert!(lines_found.contains(&"content-type: multipart/byteranges; boundary=00000000000000000001".to_owned()));
    assert!(!response.headers.contains_known(HeaderId::ContentRange), "RFC 9110 section 15.3.7.2");

    let (response, plan) = answer(&file(), "GET", "Range: bytes=100-");
    let lines_found = lines(&response);
    assert_eq!(plan, BodyPlan::Nothing);
    assert!(lines_found.contains(&"content-range: bytes */100".to_owned()), "{lines_found:?}");
    assert!(lines_found.contains(&"content-length: 0".to_owned()), "{lines_found:?}");
}

#[test]
fn a_file_of_the_future_is_of_now() {
    let ahead = Representation { modified: NOW + 1_000, ..file() };
    let (response, _) = answer(&ahead, "GET", "");
    assert_eq!(response.headers.first_known(HeaderId::LastModified), Some(&http_date(NOW as u64)[..]));
    let (response, _) = answer(&ahead, "GET", "Range: bytes=0-1\nIf-Range: Tue, 14 Nov 2023 22:13:20 GMT");
    assert_eq!(response.status(), 200, "what was made in the second of its modification is no strong validator");
    let (response, _) = answer(&Representation { modified: -5, ..file() }, "GET", "");
    assert_eq!(response.headers.first_known(HeaderId::LastModified), Some(&http_date(0)[..]));
}

#[test]
fn methods() {
    assert_eq!(asked(Method::Get), Asked::File);
    assert_eq!(asked(Method::Options), Asked::Options);
    assert_eq!(asked(Method::Post), Asked::Nothing);
    let mut response = ResponseHead::new();
    refuse_method(&mut response);
    assert_eq!(lines(&response), ["HTTP/1.1 405 Method Not Allowed", "allow: GET, HEAD, OPTIONS"]);
    respond_options(&mut response);
    assert_eq!(lines(&response), ["HTTP/1.1 204 No Content", "allow: GET, HEAD, OPTIONS"]);
}

#[test]
fn without_a_tag_or_a_type() {
    let bare = Representation { tag: b"", content_type: ContentType::default(), ..file() };
    let (response, _) = answer(&bare, "GET", "If-None-Match: \"\"");
    assert_eq!(response.status(), 200);
    assert!(
        !response.headers.contains_known(HeaderId::ETag) && !response.headers.contains_known(HeaderId::ContentType)
    );
    let (response, _) = answer(&bare, "GET", "If-None-Match: *");
    assert_eq!(response.status(), 304);
}

/// Heads that were made before say what those say that are made for a request, whatever it asks.
#[test]
fn prepared_heads_are_the_same() {
    let expiry = crate::Expires::After(60).expiry(NOW, 0, 0);
    let files = [
        file(),
        Representation { expiry, coding: Some(Coding::Gzip), varies: true, ..file() },
        Representation { tag: b"", content_type: ContentType::default(), ..file() },
        Representation { length: 0, ..file() },
        // Those of the future and of before 1970 say another time of modification.
        Representation { modified: NOW + 100, ..file() },
        Representation { modified: -1, ..file() },
    ];
    let requests = [
        "",
        "If-None-Match: \"a\"",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Match: \"b\"",
        "Range: bytes=0-1",
        "Range: bytes=200-",
        "Range: bytes=0-1,50-60",
    ];
    for file in files {
        let heads = PreparedHeads::of(&file);
        let prepared = Representation { prepared: Some(&heads), ..file };
        for (method, fields) in ["GET", "HEAD"].into_iter().flat_map(|method| requests.map(|fields| (method, fields))) {
            let (expected, found) = (answer(&file, method, fields), answer(&prepared, method, fields));
            assert_eq!((lines(&found.0), found.1), (lines(&expected.0), expected.1), "{method} {fields} {file:?}");
        }
    }
}
