use super::{cookies, elements, set_cookie};

#[test]
fn parts_lists() {
    let check = |value: &str, expected: &[&str]| {
        let found: Vec<_> = elements(value.as_bytes()).map(String::from_utf8_lossy).collect();
        assert_eq!(found, expected, "{value}");
    };
    check("", &[]);
    check(" , ,", &[]);
    check("a", &["a"]);
    check(" a ,b\t,, c", &["a", "b", "c"]);
    check("\"a, b\", c", &["\"a, b\"", "c"]);
    check("\"a\\\", b\", c", &["\"a\\\", b\"", "c"]);
    check("\\\"a, b\", c", &["\\\"a, b\"", "c"]);
    check("\"open, b", &["\"open, b"]);
    check("a b, c;q=0.5", &["a b", "c;q=0.5"]);
}

#[test]
fn parts_cookies() {
    let check = |value: &str, expected: &[(&str, &str)]| {
        let found: Vec<_> = cookies(value.as_bytes()).collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(found, expected, "{value}");
    };
    check("", &[]);
    check("a=b", &[("a", "b")]);
    check("a=b; c=d;e=f, g=h", &[("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]);
    check(" a = b ; c = ", &[("a", "b"), ("c", "")]);
    check("a=b=c", &[("a", "b=c")]);
    check("noequals; a=b", &[("a", "b")]);
    check("$Version=1; a=b; $Path=/", &[("a", "b")]);
    check("a=\"b;c\"; d=e", &[("a", "\"b;c\""), ("d", "e")]);
}

#[test]
fn parts_set_cookie() {
    let check = |value: &str, expected: Option<(&str, &str, &str)>| {
        let expected = expected.map(|(name, value, rest)| (name.as_bytes(), value.as_bytes(), rest.as_bytes()));
        assert_eq!(set_cookie(value.as_bytes()), expected, "{value}");
    };
    check("a=b", Some(("a", "b", "")));
    check("a=b; Path=/; Secure", Some(("a", "b", "; Path=/; Secure")));
    check("a = b,c ;", Some(("a", "b,c", ";")));
    check("a", None);
    check("; a=b", None);
}
