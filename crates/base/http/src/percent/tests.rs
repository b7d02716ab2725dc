use super::{Plus, percent_decode, push_encoded, query_parameters};

#[track_caller]
fn check(input: &str, plus: Plus, expected: Option<&str>) {
    let mut out = b"before".to_vec();
    let decoded = percent_decode(input.as_bytes(), plus, &mut out);
    assert_eq!(decoded.is_some(), expected.is_some(), "{input}");
    assert_eq!(out, ["before", expected.unwrap_or_default()].concat().as_bytes(), "{input}");
}

#[test]
fn decodes() {
    check("", Plus::Literal, Some(""));
    check("a%20b%2Fc%2f", Plus::Literal, Some("a b/c/"));
    check("a+b", Plus::Literal, Some("a+b"));
    check("a+b", Plus::Space, Some("a b"));
    check("a+b?c+d", Plus::SpaceInQuery, Some("a+b?c d"));
    check("a+b?c+d", Plus::Literal, Some("a+b?c+d"));
    check("%25%32%35", Plus::Literal, Some("%25"));
    for malformed in ["%", "%2", "a%2", "%2g", "%g2", "%%20", "a%20%"] {
        check(malformed, Plus::Literal, None);
    }
}

#[test]
fn encodes_every_byte() {
    for byte in 0..=255 {
        let mut encoded = Vec::new();
        push_encoded(byte, &mut encoded);
        assert_eq!(encoded, format!("%{byte:02X}").as_bytes());
        let mut decoded = Vec::new();
        assert!(percent_decode(&encoded, Plus::Literal, &mut decoded).is_some());
        assert_eq!(decoded, [byte]);
    }
}

#[test]
fn parameters() {
    let check = |query: &str, expected: &[(&str, &str)]| {
        let found: Vec<_> = query_parameters(query.as_bytes()).collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(found, expected, "{query}");
    };
    check("", &[]);
    check("a=b", &[("a", "b")]);
    check("a=b&c=d;e=f", &[("a", "b"), ("c", "d"), ("e", "f")]);
    check("a=b=c&&d&=e", &[("a", "b=c"), ("d", ""), ("", "e")]);
}
