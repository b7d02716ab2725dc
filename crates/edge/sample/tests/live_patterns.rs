//! Lists of patterns that change while they are used.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use sample::*;
use support::*;

fn file(name: &str, content: &str) -> Files {
    Files([(name.to_owned(), content.as_bytes().to_vec())].into())
}

/// An ACL, what it tests, and the list of its patterns.
fn acl(line: &str) -> (Condition, Arc<PatternReference>) {
    let words: Vec<&str> = line.split(' ').collect();
    let (none, mut patterns) = (Files::default(), PatternReferences::new());
    let mut parser = ParseContext::new("t.cfg", 1, "p", true, &none, &mut patterns);
    let condition = Condition::parse(&words, &mut AclSet::new(), &mut parser).unwrap();
    patterns.finish();
    let reference = Arc::clone(patterns.numbered(0).unwrap());
    (condition, reference)
}

#[test]
fn patterns_that_stand_in_an_acl_change_too() {
    for (line, yes, added, no_longer) in [
        ("if { url /a /b }", "/a", "/c9", "/a"),
        ("if { url -i -m beg /a /b }", "/A1", "/c", "/a"),
        ("if { url -m end a b c d e f }", "/xa", "c9", "a"),
        ("if { url -m sub a b }", "/xay", "c9", "a"),
        ("if { url -m dir /a/ b }", "/x/a/y", "c9", "/a/"),
        ("if { url -m reg ^/a ^/b }", "/ab", "^/c9$", "^/a"),
        ("if { url -m len 2 4:6 }", "/a", "9", "2"),
        ("if { url_beg /a }", "/a1", "/c", "/a"),
    ] {
        let (condition, reference) = acl(line);
        let holds = |path: &str| condition.holds(&Stream::request(path, &[]), Options::REQUEST);
        assert!(holds(yes), "{line}");
        let by_added = if line.contains("len") { "/12345678" } else { "/c9" };
        assert!(!holds(by_added) && holds(yes), "{line}");
        reference.add(None, added.as_bytes(), None).unwrap();
        assert!(holds(by_added) && holds(yes), "{line}");
        assert!(reference.delete(no_longer.as_bytes()) && !reference.delete(no_longer.as_bytes()), "{line}");
        assert!(holds(by_added) && !holds(yes), "{line}");
        reference.clear(None);
        assert!(!holds(by_added) && !holds(yes), "{line}");
        assert_eq!(reference.entry_count(), 0);
    }
}

#[test]
fn groups_of_users_may_be_added() {
    let (condition, reference) = acl("if { http_auth_group(admins) dev }");
    let stream = Stream::request("/", &[("Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")]);
    assert!(!condition.holds(&stream, Options::REQUEST));
    reference.add(None, b"ops", None).unwrap();
    assert!(condition.holds(&stream, Options::REQUEST));
    reference.clear(None);
    assert!(!condition.holds(&stream, Options::REQUEST));
}

#[test]
fn versions_replace_each_other_at_once() {
    let (files, mut patterns) = (file("m", "a 1\nb 2\n"), PatternReferences::new());
    let mut parser = ParseContext::new("t.cfg", 3, "p", true, &files, &mut patterns);
    let find = Expression::parse_text("url,map(m,none)", &mut parser).unwrap();
    let count = Expression::parse_text("url,map_str_int(m,-1)", &mut parser).unwrap();
    patterns.finish();
    let map = patterns.of_file("m").unwrap();
    let found = |key: &str| {
        let stream = Stream::request(key, &[]);
        (text(&find, &stream, Options::REQUEST).unwrap(), count.integer(&stream, Options::REQUEST).unwrap())
    };
    let keys = |version| {
        let mut keys = String::new();
        map.each(version, |_, key, _| keys.push_str(&String::from_utf8_lossy(key)));
        keys
    };
    let pair = |text: &str, number| (text.to_owned(), number);
    assert_eq!((found("a"), found("z")), (pair("1", 1), pair("none", -1)));
    assert_eq!((map.prepare(), map.prepare()), (1, 2));
    map.add(Some(2), b"c", Some(b"3")).unwrap();
    map.add(Some(1), b"d", Some(b"4")).unwrap();
    map.add(Some(2), b"a", Some(b"7")).unwrap();
    assert_eq!((found("a"), found("c")), (pair("1", 1), pair("none", -1)));
    // What goes by key goes for all versions.
    map.set(b"a", b"8").unwrap();
    assert_eq!(found("a"), pair("8", 8));
    assert!(map.add(Some(2), b"e", Some(b"five")).is_err());
    assert_eq!((keys(None), keys(Some(1)), keys(Some(2))), ("ab".to_owned(), "d".to_owned(), "ca".to_owned()));
    assert!(!map.commit(3) && !map.commit(0));
    assert!(map.commit(2) && !map.commit(2) && !map.commit(1));
    assert_eq!((found("a"), found("b"), found("c")), (pair("8", 8), pair("none", -1), pair("3", 3)));
    assert_eq!((keys(None), keys(Some(1)), keys(Some(0))), ("ca".to_owned(), String::new(), String::new()));
    assert_eq!(map.versions(), (2, 2));
    // An unreadable value of one of the maps is refused by all.
    map.put(b"c", b"x");
    map.put(b"f", b"x");
    assert_eq!((found("c"), found("f")), (pair("3", 3), pair("none", -1)));
    map.put(b"f", b"6");
    assert_eq!(found("f"), pair("6", 6));
}

#[test]
fn of_equal_keys_the_first_counts() {
    let (files, mut patterns) = (file("m", "a 1\na 2\n"), PatternReferences::new());
    let mut parser = ParseContext::new("t.cfg", 3, "p", true, &files, &mut patterns);
    let find = Expression::parse_text("url,map(m,none)", &mut parser).unwrap();
    let map = patterns.of_file("m").unwrap();
    let found = || text(&find, &Stream::request("a", &[]), Options::REQUEST).unwrap();
    let mut handles = Vec::new();
    map.each(None, |handle, _, _| handles.push(handle));
    assert_eq!(found(), "1");
    map.set_by_handle(handles[1], b"4").unwrap();
    assert!(
        map.delete_by_handle(handles[0]) && !map.delete_by_handle(handles[0]) && !map.delete_by_handle(handles[0] + 1)
    );
    assert_eq!(found(), "4");
    map.add(None, b"a", Some(b"5")).unwrap();
    assert_eq!(found(), "4");
    assert!(map.delete(b"a"));
    assert_eq!(found(), "none");
    assert_eq!(map.set_by_handle(handles[1], b"x"), Err("key or pattern not found".to_owned()));
}

#[derive(Clone, Debug)]
enum Step {
    Add(String),
    Delete(String),
    Set(String),
    Clear,
    Swap(Vec<String>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || "[ab./]{1,4}";
    let step = prop_oneof![
        8 => key().prop_map(Step::Add),
        4 => key().prop_map(Step::Delete),
        2 => key().prop_map(Step::Set),
        1 => Just(Step::Clear),
        1 => prop::collection::vec(key(), 0..30).prop_map(Step::Swap),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is done to a map, each way of matching finds what looking at its entries one by one would.
    #[test]
    fn maps_find_like_one_by_one(steps in steps(), subjects in prop::collection::vec("[ab./]{0,9}", 1..12)) {
        let (files, mut patterns) = (file("m", "a 0\nb 1\n"), PatternReferences::new());
        let mut parser = ParseContext::new("t.cfg", 3, "p", true, &files, &mut patterns);
        let methods = ["str", "beg", "end", "sub", "dir", "dom"];
        let maps = methods.map(|method| {
            Expression::parse_text(format!("url,map_{method}(m,none)"), &mut parser).unwrap()
        });
        let map = patterns.of_file("m").unwrap();
        let mut entries: Vec<(String, String)> = vec![("a".into(), "0".into()), ("b".into(), "1".into())];
        for (number, step) in steps.into_iter().enumerate() {
            let value = format!("v{number}");
            match step {
                Step::Add(key) => {
                    map.add(None, key.as_bytes(), Some(value.as_bytes())).unwrap();
                    entries.push((key, value));
                }
                Step::Delete(key) => {
                    let before = entries.len();
                    entries.retain(|(other, _)| *other != key);
                    prop_assert_eq!(map.delete(key.as_bytes()), entries.len() < before);
                }
                Step::Set(key) => {
                    let found = entries.iter_mut().filter(|(other, _)| *other == key);
                    let count = found.map(|(_, old)| old.clone_from(&value)).count();
                    prop_assert_eq!(map.set(key.as_bytes(), value.as_bytes()).is_ok(), count > 0);
                }
                Step::Clear => {
                    map.clear(None);
                    entries.clear();
                }
                Step::Swap(keys) => {
                    let version = map.prepare();
                    for key in &keys {
                        map.add(Some(version), key.as_bytes(), Some(value.as_bytes())).unwrap();
                    }
                    prop_assert!(map.commit(version));
                    entries = keys.into_iter().map(|key| (key, value.clone())).collect();
                }
            }
        }
        for subject in &subjects {
            for (method, map) in methods.iter().zip(&maps) {
                let mut matching = entries.iter().filter(|(key, _)| matches(method, key, subject));
                let expected = match *method {
                    "beg" => {
                        let longest = matching.clone().map(|(key, _)| key.len()).max();
                        matching.find(|(key, _)| Some(key.len()) == longest)
                    }
                    _ => matching.next(),
                };
                let expected = expected.map_or("none", |(_, value)| value.as_str());
                let found = text(map, &Stream::request(subject, &[]), Options::REQUEST).unwrap();
                prop_assert_eq!(&found, expected, "{} {:?} in {:?}", method, subject, entries);
            }
        }
    }
}

fn matches(method: &str, key: &str, subject: &str) -> bool {
    let word = |delimiters: &[char]| {
        let key = key.trim_matches(delimiters);
        let starts = |start: usize| start == 0 || subject[..start].ends_with(delimiters);
        let ends = |end: usize| end == subject.len() || subject[end..].starts_with(delimiters);
        !key.is_empty()
            && (0..subject.len())
                .any(|start| subject[start..].starts_with(key) && starts(start) && ends(start + key.len()))
    };
    match method {
        "str" => key == subject,
        "beg" => subject.starts_with(key),
        "end" => subject.ends_with(key),
        "sub" => subject.contains(key),
        "dir" => word(&['/', '?']),
        _ => word(&['/', '?', '.', ':']),
    }
}

/// 20,000 lines are read and changed one by one within the test's patience, which anything quadratic would exceed by far.
#[test]
fn twenty_thousand_lines_change_one_by_one() {
    const LINES: usize = 20_000;
    let lines: String = (0..LINES).map(|number| format!("host{number}.example.com backend{number}\n")).collect();
    let (files, mut patterns) = (file("m", &lines), PatternReferences::new());
    let mut parser = ParseContext::new("t.cfg", 3, "p", true, &files, &mut patterns);
    let find = Expression::parse_text("url,map(m,none)", &mut parser).unwrap();
    let part = Expression::parse_text("url,map_dom(m,none)", &mut parser).unwrap();
    let end = Expression::parse_text("url,map_end(m,none)", &mut parser).unwrap();
    let map = patterns.of_file("m").unwrap();
    for number in 0..LINES {
        map.put(format!("host{number}.example.com").as_bytes(), b"other");
        map.put(format!("new{number}").as_bytes(), b"new");
        map.delete(format!("host{}.example.com", number / 2).as_bytes());
    }
    let found =
        |expression: &Expression, key: &str| text(expression, &Stream::request(key, &[]), Options::REQUEST).unwrap();
    assert_eq!(found(&find, "new19999"), "new");
    assert_eq!(found(&find, "host1.example.com"), "none");
    assert_eq!(found(&part, "www.host19999.example.com:80"), "other");
    assert_eq!(found(&end, "www.host19999.example.com"), "other");
    assert_eq!(map.versions(), (0, 0));
}
