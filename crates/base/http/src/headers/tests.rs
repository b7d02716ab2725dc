use super::{Headers, Span};
use crate::header_id::HeaderId;

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.add(name.as_bytes(), value.as_bytes());
    }
    headers
}

#[track_caller]
fn check(headers: &Headers, expected: &str) {
    let mut out = Vec::new();
    headers.write_to(&mut out);
    let lines = String::from_utf8_lossy(&out).replace("\r\n", "|");
    assert_eq!(lines, expected);
    assert_eq!(headers.len(), headers.iter().count());
    for (id, name, _) in headers.iter_known() {
        assert_eq!(id, HeaderId::of(name));
    }
}

const PLAIN: &[(&str, &str)] = &[("Host", "a"), ("X-One", "1"), ("x-one", "2"), ("Via", "v")];

#[test]
fn looks_up() {
    let headers = headers(PLAIN);
    assert_eq!(headers.first(b"HOST"), Some(&b"a"[..]));
    assert_eq!(headers.first(b"X-ONE"), Some(&b"1"[..]));
    assert_eq!(headers.last(b"X-ONE"), Some(&b"2"[..]));
    assert_eq!(headers.all(b"x-One").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(headers.first_known(HeaderId::Via), Some(&b"v"[..]));
    assert_eq!(headers.first(b"X-On"), None);
    assert_eq!(headers.at(1), Some((&b"X-One"[..], &b"1"[..])));
    assert_eq!(headers.at(4), None);
    assert!(headers.contains(b"via") && headers.contains(b"x-one") && !headers.contains(b"x-two"));
    assert!(headers.contains_known(HeaderId::Host) && !headers.contains_known(HeaderId::Cookie));
}

#[test]
fn adds_and_removes() {
    let mut headers = headers(PLAIN);
    check(&headers, "Host: a|X-One: 1|x-one: 2|Via: v|");
    assert!(headers.remove(b"X-ONE"));
    assert!(!headers.remove(b"X-ONE"));
    check(&headers, "Host: a|Via: v|");
    headers.add_front(b"First", b"f");
    headers.insert_at(2, b"Middle", b"m");
    headers.insert_at(100, b"Last", b"l");
    headers.add_known(HeaderId::ETag, b"e");
    headers.add_parts(b"Parts", &[b"a", b"", b"b"]);
    check(&headers, "First: f|Host: a|Middle: m|Via: v|Last: l|etag: e|Parts: ab|");
    assert!(headers.remove_known(HeaderId::Host));
    assert!(headers.remove_at(0));
    assert!(!headers.remove_at(100));
    check(&headers, "Middle: m|Via: v|Last: l|etag: e|Parts: ab|");
    headers.clear();
    check(&headers, "");
}

#[test]
fn replaces() {
    let mut headers = headers(PLAIN);
    headers.set(b"x-ONE", b"3");
    check(&headers, "Host: a|Via: v|x-ONE: 3|");
    headers.set_known(HeaderId::Host, b"b");
    check(&headers, "Via: v|x-ONE: 3|host: b|");
    assert!(headers.set_value_at(0, b"w"));
    assert!(!headers.set_value_at(3, b"w"));
    check(&headers, "Via: w|x-ONE: 3|host: b|");
    assert!(headers.rename(b"via", b"Host"));
    assert!(!headers.rename(b"via", b"Host"));
    check(&headers, "Host: w|x-ONE: 3|host: b|");
    headers.rewrite_known(HeaderId::Host, |value| (value == b"b").then(|| b"longer than before".to_vec()));
    check(&headers, "Host: w|x-ONE: 3|host: longer than before|");
    headers.rewrite(|name, value| (name == b"x-ONE").then(|| [value, b"4"].concat()));
    check(&headers, "Host: w|x-ONE: 34|host: longer than before|");
    headers.retain(|_, value| value != b"34");
    check(&headers, "Host: w|host: longer than before|");
}

#[test]
fn rules_cannot_write_lines() {
    let mut headers = headers(&[("A", "1\r\nB: 2"), ("C", "\0\n")]);
    check(&headers, "A: 1  B: 2|C:   |");
    headers.set_value_at(0, b"\r");
    headers.add_parts(b"D", &[b"\r", b"\n"]);
    check(&headers, "A:  |C:   |D:   |");
}

#[test]
fn recycles_memory() {
    let mut headers = headers(PLAIN);
    let bytes = headers.memory_bytes();
    for _ in 0..100 {
        headers.clear();
        for (name, value) in PLAIN {
            headers.add(name.as_bytes(), value.as_bytes());
        }
    }
    assert_eq!(headers.memory_bytes(), bytes);
}

#[test]
fn names_received_are_put_into_lower_case_and_nothing_else_is() {
    let every: Vec<u8> = (0..=255).collect();
    for len in 1..40 {
        for name in every.windows(len).step_by(len.min(7)) {
            for behind in 0..12 {
                let head = [b"AB", name, &b": VALUE\r\nX"[..behind.min(10)]].concat();
                let mut headers = Headers::new();
                let (start, end) = (2, 2 + len);
                headers.push_parsed(Span::between(start, end), Span::between(end, head.len()), HeaderId::Other, false);
                headers.adopt(&head, false);
                let lower = name.to_ascii_lowercase();
                assert_eq!(headers.at(0), Some((&lower[..], &head[end..])));
                assert_eq!(&headers.arena[..start], b"AB");
            }
        }
    }
}
