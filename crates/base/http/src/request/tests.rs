use super::RequestHead;
use crate::version::Version;

fn head(method: &str, target: &str) -> RequestHead {
    let mut head = RequestHead::new();
    head.start(method.as_bytes(), target.as_bytes(), Version::Http11);
    head
}

#[track_caller]
fn check(head: &RequestHead, expected: &str) {
    let mut out = Vec::new();
    head.write_to(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), expected.replace('|', "\r\n"));
}

#[test]
fn writes() {
    let mut head = head("GET", "/a");
    check(&head, "GET /a HTTP/1.1||");
    head.headers.add(b"Host", b"h");
    head.set_version(Version::Http10);
    head.set_method(b"POST");
    check(&head, "POST /a HTTP/1.0|Host: h||");
    let mut out = b"before ".to_vec();
    head.write_with(&mut out, &[(b"X", b"y"), (b"Z", b"")]);
    assert_eq!(out, b"before POST /a HTTP/1.0\r\nHost: h\r\nX: y\r\nZ: \r\n\r\n");
    head.clear();
    assert_eq!((head.method(), head.target(), head.headers.len()), (&b""[..], &b""[..], 0));
}

#[test]
fn normalizes_targets() {
    for (method, target, host, expected) in [
        ("GET", "http://a:80/x?y", "a:80", "GET http://a/x?y HTTP/1.1|Host: a||"),
        ("GET", "http://a:80/x", "a", "GET http://a/x HTTP/1.1|Host: a||"),
        ("GET", "HTTP://A:80/x", "a:80", "GET HTTP://A/x HTTP/1.1|Host: A||"),
        ("GET", "https://a:443/x", "a:443", "GET https://a/x HTTP/1.1|Host: a||"),
        ("GET", "http://a:/x", "a:", "GET http://a/x HTTP/1.1|Host: a||"),
        ("GET", "http://a:80", "a:80", "GET http://a/ HTTP/1.1|Host: a||"),
        ("GET", "http://a:80?x", "a:80", "GET http://a/?x HTTP/1.1|Host: a||"),
        ("GET", "http://a", "a", "GET http://a/ HTTP/1.1|Host: a||"),
        ("GET", "http://a?x=1", "a", "GET http://a/?x=1 HTTP/1.1|Host: a||"),
        ("GET", "ws://a?", "a", "GET ws://a/? HTTP/1.1|Host: a||"),
        ("GET", "http://u@a:80", "a", "GET http://u@a/ HTTP/1.1|Host: a||"),
        ("OPTIONS", "http://a", "a", "OPTIONS http://a HTTP/1.1|Host: a||"),
        ("OPTIONS", "http://a?x", "a", "OPTIONS http://a/?x HTTP/1.1|Host: a||"),
        ("OPTIONS", "*", "a", "OPTIONS * HTTP/1.1|Host: a||"),
        ("GET", "http://[::1]:80/", "[::1]:80", "GET http://[::1]/ HTTP/1.1|Host: [::1]||"),
        ("GET", "http://u@a:80/", "a:80", "GET http://u@a/ HTTP/1.1|Host: a||"),
        ("GET", "https://a:80/x", "a:80", "GET https://a:80/x HTTP/1.1|Host: a:80||"),
        ("GET", "http://a:8080/x", "a:8080", "GET http://a:8080/x HTTP/1.1|Host: a:8080||"),
        ("GET", "ws://a:80/x", "a:80", "GET ws://a:80/x HTTP/1.1|Host: a:80||"),
        ("GET", "/x", "a:80", "GET /x HTTP/1.1|Host: a:80||"),
        ("CONNECT", "a:443", "a:443", "CONNECT a:443 HTTP/1.1|Host: a||"),
        ("CONNECT", "a:8443", "a:8443", "CONNECT a:8443 HTTP/1.1|Host: a:8443||"),
    ] {
        let mut head = head(method, target);
        head.headers.add(b"Host", host.as_bytes());
        head.normalize_target();
        check(&head, expected);
    }
    for (target, expected) in [
        ("http://a:80/x", "GET http://a/x HTTP/1.1|host: a||"),
        ("http://u@a:8080", "GET http://u@a:8080/ HTTP/1.1|host: a:8080||"),
        ("/x", "GET /x HTTP/1.1||"),
    ] {
        let mut head = head("GET", target);
        head.normalize_target();
        check(&head, expected);
    }
}

#[test]
fn tells_parts() {
    for (method, target, path, query, path_and_query, authority) in [
        ("GET", "/a?b", "/a", Some("b"), "/a?b", ""),
        ("GET", "/a", "/a", None, "/a", ""),
        ("GET", "http://u@h:1/a?b", "/a", Some("b"), "/a?b", "h:1"),
        ("GET", "http://h", "/", None, "", "h"),
        ("GET", "http://h?b", "/", Some("b"), "?b", "h"),
        ("OPTIONS", "*", "", None, "", ""),
        ("CONNECT", "h:443", "", None, "", "h:443"),
    ] {
        let head = head(method, target);
        assert_eq!(head.path(), path.as_bytes(), "{target}");
        assert_eq!(head.query(), query.map(str::as_bytes), "{target}");
        assert_eq!(head.path_and_query(), path_and_query.as_bytes(), "{target}");
        assert_eq!(head.authority(), authority.as_bytes(), "{target}");
    }
}

#[test]
fn sets_path() {
    for (target, path, expected) in [
        ("/a?b", "/new", "/new?b"),
        ("/a", "/new/longer", "/new/longer"),
        ("http://h/a?b", "/new", "http://h/new?b"),
        ("http://h", "/new", "http://h/new"),
        ("http://h?b", "/new", "http://h/new?b"),
        ("*", "/new", "/new"),
        ("/a?b", "/n w\r\n", "/n%20w%0D%0A?b"),
    ] {
        let mut head = head("GET", target);
        head.set_path(path.as_bytes());
        assert_eq!(head.target(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn sets_path_and_query() {
    for (target, new, expected) in [
        ("/a?b", "/new", "/new"),
        ("/a", "/new?x=y", "/new?x=y"),
        ("http://h/a?b", "/new?", "http://h/new?"),
        ("http://h?b", "/new", "http://h/new"),
        ("*", "/new", "/new"),
    ] {
        let mut head = head("GET", target);
        head.set_path_and_query(new.as_bytes());
        assert_eq!(head.target(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn sets_query() {
    for (target, query, expected) in [
        ("/a?b", "c=d", "/a?c=d"),
        ("/a?b", "", "/a?"),
        ("/a", "c", "/a?c"),
        ("/a", "", "/a"),
        ("http://h", "c", "http://h?c"),
        ("http://h/a?b?c", "d", "http://h/a?d"),
        ("/a?b", "c d", "/a?c%20d"),
    ] {
        let mut head = head("GET", target);
        head.set_query(query.as_bytes());
        assert_eq!(head.target(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn sets_authority() {
    for (method, target, host, expected) in [
        ("GET", "http://h/a?b", "new:1", "http://new:1/a?b"),
        ("GET", "http://me@h:80", "new", "http://me@new"),
        ("GET", "/a//h", "new", "/a//h"),
        ("GET", "http://h/h", "h", "http://h/h"),
        ("CONNECT", "h:443", "new:444", "new:444"),
        ("OPTIONS", "*", "new", "*"),
    ] {
        let mut head = head(method, target);
        head.set_authority(host.as_bytes());
        assert_eq!(head.target(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn rules_cannot_write_lines() {
    let mut head = head("GET", "/");
    head.set_target(b"/ HTTP/1.1\r\nX: y\x7f");
    head.set_method(b"G T");
    check(&head, "G%20T /%20HTTP/1.1%0D%0AX:%20y%7F HTTP/1.1||");
}
