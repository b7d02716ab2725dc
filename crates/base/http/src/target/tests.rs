use super::{Target, TargetForm, host_matches};
use crate::method::Method;

#[track_caller]
fn check(target: &str, form: TargetForm, scheme: &str, authority: &str, path: &str, query: Option<&str>) {
    let parts = Target::split(Method::Get, target.as_bytes());
    let (scheme, authority) = (scheme.as_bytes(), authority.as_bytes());
    let expected = Target { form, scheme, authority, path: path.as_bytes(), query: query.map(str::as_bytes) };
    assert_eq!(parts, expected, "{target}");
}

#[test]
fn splits() {
    use TargetForm::{Absolute, Asterisk, Origin, Unknown};
    check("/", Origin, "", "", "/", None);
    check("/a/b?c=d?e", Origin, "", "", "/a/b", Some("c=d?e"));
    check("/?", Origin, "", "", "/", Some(""));
    check("//host/path", Origin, "", "", "//host/path", None);
    check("http://host", Absolute, "http", "host", "", None);
    check("http://host:80/a?b", Absolute, "http", "host:80", "/a", Some("b"));
    check("HTTPS://[::1]:80?b", Absolute, "HTTPS", "[::1]:80", "", Some("b"));
    check("a+b-c.1://u@h/", Absolute, "a+b-c.1", "u@h", "/", None);
    check("http:///a", Absolute, "http", "", "/a", None);
    check("http://h#f/a", Absolute, "http", "h", "#f/a", None);
    check("*", Asterisk, "", "", "", None);
    check("*a", Unknown, "", "", "*a", None);
    check("a?b", Unknown, "", "", "a", Some("b"));
    check("1http://h/", Unknown, "", "", "1http://h/", None);
    check("http:/h/", Unknown, "", "", "http:/h/", None);
    check("://h/", Unknown, "", "", "://h/", None);
    check("", Unknown, "", "", "", None);
}

#[test]
fn splits_connect() {
    let parts = Target::split(Method::Connect, b"host:443");
    assert_eq!((parts.form, parts.authority, parts.path), (TargetForm::Authority, &b"host:443"[..], &b""[..]));
}

#[test]
fn leaves_out_user_information() {
    for (target, expected) in [("http://u:p@h:1/", "h:1"), ("http://a@b@h/", "h"), ("http://h/@", "h"), ("/@", "")] {
        let parts = Target::split(Method::Get, target.as_bytes());
        assert_eq!(parts.host_and_port(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn compares_hosts() {
    use TargetForm::{Absolute, Authority};
    for (form, scheme, authority, host, expected) in [
        (Absolute, "http", "a.b", "a.b", true),
        (Absolute, "http", "a.b", "A.B", true),
        (Absolute, "http", "a.b:80", "a.b", true),
        (Absolute, "HTTP", "a.b", "a.b:80", true),
        (Absolute, "http", "a.b:443", "a.b", false),
        (Absolute, "https", "a.b:443", "a.b", true),
        (Absolute, "https", "a.b:80", "a.b", false),
        (Absolute, "ftp", "a.b:80", "a.b", false),
        (Absolute, "ftp", "a.b", "A.B", true),
        (Absolute, "http", "a.b:8080", "a.b", false),
        (Absolute, "http", "a.b", "a.bc", false),
        (Absolute, "http", "a.b", "", false),
        (Authority, "", "a.b:443", "a.b", true),
        (Authority, "", "a.b:80", "a.b", true),
        (Authority, "", "a.b:443", "a.b:80", false),
        (Authority, "", "a.b:22", "a.b", false),
        (Authority, "", "a.b:22", "a.b:22", true),
    ] {
        let found = host_matches(form, scheme.as_bytes(), authority.as_bytes(), host.as_bytes());
        assert_eq!(found, expected, "{scheme} {authority} {host}");
    }
}
