use proptest::prelude::*;

use super::*;

const HIDDEN: PathRules = PathRules { hidden: true };

#[track_caller]
fn check(target: &str, expected: Result<&str, PathError>) {
    let found = CleanPath::of_target(target.as_bytes(), PathRules::default());
    let found = found.as_ref().map(|path| String::from_utf8_lossy(path.as_bytes()));
    assert_eq!(found.as_deref().map_err(|error| **error), expected, "{target}");
}

#[test]
fn targets() {
    check("/", Ok("/"));
    check("/a", Ok("/a"));
    check("/a/", Ok("/a/"));
    check("/a/b.html", Ok("/a/b.html"));
    check("/a%20b", Ok("/a b"));
    check("/a+b", Ok("/a+b"));
    check("/%e4%bd%a0", Ok("/你"));
    check("/a%25b", Ok("/a%b"));
    check("/a%2541", Ok("/a%41"));
    check("/a%3fb%23c", Ok("/a?b#c"));
    check("/a...b/..c", Err(PathError::Hidden));
    check("/a../b", Ok("/a../b"));
}

#[test]
fn slashes_and_dots_as_in_nginx() {
    check("//", Ok("/"));
    check("///a//b///", Ok("/a/b/"));
    check("//evil.example/a", Ok("/evil.example/a"));
    check("/./a/./b/.", Ok("/a/b/"));
    check("/a/../b", Ok("/b"));
    check("/a/b/..", Ok("/a/"));
    check("/a/b/../", Ok("/a/"));
    check("/a/..", Ok("/"));
    check("/a//..", Ok("/"));
    check("/a%2fb", Ok("/a/b"));
    check("/a%2Fb%2f", Ok("/a/b/"));
    check("/a%2f..%2fb", Ok("/b"));
    check("/a/%2e%2e/b", Ok("/b"));
    check("/a/.%2E/b", Ok("/b"));
    check("/.git/../a", Ok("/a"));
}

#[test]
fn what_leads_elsewhere() {
    for target in [
        "/..",
        "/../",
        "/../etc/passwd",
        "/a/../..",
        "/a/../../etc/passwd",
        "//../x",
        "/%2e%2e/etc/passwd",
        "/..%2fetc/passwd",
        "/%2e%2e%2f%2e%2e%2fetc",
        "/.%2e/.%2e/",
        "/./../a",
        "/a/./../../b",
    ] {
        check(target, Err(PathError::AboveRoot));
    }
    // These are names like others: no kernel that serves files takes them for ways up.
    check("/..%5c..%5cetc", Err(PathError::Hidden));
    check("/a\\..\\b", Ok("/a\\..\\b"));
    check("/a%5c..%5cb", Ok("/a\\..\\b"));
    check("/%252e%252e/a", Ok("/%2e%2e/a"));
    check("/..;/a", Err(PathError::Hidden));
    check("/a;/../b", Ok("/b"));
}

#[test]
fn bytes_are_themselves() {
    let path = CleanPath::of_target(b"/%c0%ae%c0%ae/%ff\xfe", PathRules::default()).unwrap();
    assert_eq!(path.as_bytes(), b"/\xc0\xae\xc0\xae/\xff\xfe");
    let path = CleanPath::of_target(b"/a%c0%afb", PathRules::default()).unwrap();
    assert_eq!(path.names().count(), 1);
}

#[test]
fn malformed_targets() {
    for target in ["", "a", "*", "http://a/", "%2fa", "\\a"] {
        check(target, Err(PathError::Relative));
    }
    for target in ["/%", "/%2", "/%zz", "/a%2", "/%%20", "/%2/%20"] {
        check(target, Err(PathError::Encoding));
    }
    check("/a%00b", Err(PathError::Nul));
    check("/a%00/../b", Ok("/b"));
    check("/a\0", Err(PathError::Nul));
    let mut path = CleanPath::of_names(b"/a").unwrap();
    assert!(path.read_target(b"/%", PathRules::default()).is_err());
    assert!(path.is_root());
}

#[test]
fn hidden_names() {
    for target in ["/.git/config", "/a/.htaccess", "/.env", "/...", "/%2egit", "/a/.well-known/x", "/.well-known/.git"]
    {
        check(target, Err(PathError::Hidden));
        assert!(CleanPath::of_target(target.as_bytes(), HIDDEN).is_ok(), "{target}");
    }
    check("/.well-known/acme-challenge/token", Ok("/.well-known/acme-challenge/token"));
    check("/.well-known", Ok("/.well-known"));
    check("/.well-knownx", Err(PathError::Hidden));
    check("/a.b", Ok("/a.b"));
}

#[test]
fn long_paths() {
    check(&format!("/{}", "a".repeat(NAME_BYTES_MAX + 1)), Err(PathError::TooLong));
    check(&"/a".repeat(DEPTH_MAX + 1), Err(PathError::TooLong));
    check(&"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(100), Err(PathError::TooLong));
    assert!(CleanPath::of_target("/a".repeat(DEPTH_MAX).as_bytes(), PathRules::default()).is_ok());
    assert_eq!(PathError::TooLong.status(), 404);
    assert_eq!(PathError::AboveRoot.status(), 400);
}

#[test]
fn parts_of_paths() {
    let path = CleanPath::of_target(b"/a/b.txt", PathRules::default()).unwrap();
    assert_eq!(path.relative(), b"a/b.txt");
    assert_eq!(path.last_name(), b"b.txt");
    assert_eq!(path.folder().as_bytes(), b"/a/b.txt/");
    assert_eq!(path.folder().relative(), b"a/b.txt");
    assert!(!path.is_folder() && path.folder().is_folder() && CleanPath::root().is_folder());
    assert_eq!((CleanPath::root().relative(), CleanPath::root().last_name()), (&b"."[..], &b""[..]));
    assert_eq!(CleanPath::default().as_bytes(), b"/");
    assert_eq!(CleanPath::root().child(b"x").unwrap().as_bytes(), b"/x");
    assert_eq!(path.child(b"x").unwrap().as_bytes(), b"/a/b.txt/x");
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'a'; 256]] {
        assert_eq!(path.child(name), None);
    }
}

#[test]
fn suffixes() {
    let check = |path: &str, suffix: &str, expected: Option<&str>| {
        let path = CleanPath::of_names(path.as_bytes()).unwrap();
        let found = path.with_suffix(suffix.as_bytes(), PathRules::default()).ok();
        let found = found.map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap());
        assert_eq!(found.as_deref(), expected, "{suffix}");
    };
    check("/a", ".html", Some("/a.html"));
    check("/a%20", ".html", Some("/a%20.html"));
    check("/a", "/index.html", Some("/a/index.html"));
    check("/a/", "/", Some("/a/"));
    check("/a/", ".html", None);
    check("/", ".html", None);
    check("/a", "/../..", None);
}

#[test]
fn spellings() {
    for usual in [
        "/",
        "/a",
        "/a/",
        "/a/b.c-d_e~f",
        "/a%20b",
        "/%C3%BC",
        "/%c3%bc",
        "/a%25",
        "/.well-known/x",
        "/a..",
        "/a!b",
        "/a%21b",
        "/...",
    ] {
        assert!(is_usual_spelling(usual.as_bytes()), "{usual}");
    }
    for other in
        ["//", "/a//b", "/a/./b", "/a/.", "/a/../b", "/a/..", "/%61", "/a%2ephp", "/a%2Fb", "/%7euser", "/a%2D", "//a"]
    {
        assert!(!is_usual_spelling(other.as_bytes()), "{other}");
    }
}

#[test]
fn aliases_are_of_whole_names() {
    let check = |path: &str, folder: &str, expected: Option<&str>| {
        let path = CleanPath::of_names(path.as_bytes()).unwrap();
        let found = path.beneath(&CleanPath::of_names(folder.as_bytes()).unwrap());
        let found = found.map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap());
        assert_eq!(found.as_deref(), expected, "{folder}");
    };
    check("/i/a/b", "/i/", Some("/a/b"));
    check("/i/a/b", "/i", Some("/a/b"));
    check("/i/a/", "/i", Some("/a/"));
    check("/i/", "/i", Some("/"));
    check("/i", "/i/", Some("/"));
    check("/a", "/", Some("/a"));
    check("/", "/", Some("/"));
    check("/images", "/i", None);
    check("/i../secret", "/i", None);
    check("/", "/i", None);
}

#[test]
fn locations() {
    let check = |path: &[u8], query: Option<&str>, expected: &str| {
        let path = CleanPath::of_target(path, PathRules::default()).unwrap();
        let location = path.location_of_folder(query.map(str::as_bytes));
        assert_eq!(String::from_utf8(location).unwrap(), expected);
    };
    check(b"/a", None, "/a/");
    check(b"/a", Some("b=c"), "/a/?b=c");
    check(b"/a", Some(""), "/a/?");
    check(b"//evil.example", None, "/evil.example/");
    check(b"/\\evil.example", None, "/%5Cevil.example/");
    check(b"/%5c%5cevil.example", None, "/%5C%5Cevil.example/");
    check(b"/a%0d%0aSet-Cookie:%20b", None, "/a%0D%0ASet-Cookie:%20b/");
    check(b"/a%3fb%23c%25", None, "/a%3Fb%23c%25/");
    check(b"/\xff%fe", None, "/%FF%FE/");
    check(b"/a\"'<>&;", None, "/a%22%27%3C%3E%26%3B/");
}

proptest! {
    /// Whatever is asked: no name leads upwards, and what a URL says of a path is that path.
    #[test]
    fn any_target(target in "(/|\\.|%2e|%2f|%5c|%00|%|[a-c]|\\\\|%c0%ae|é){0,40}") {
        let target = format!("/{target}");
        for rules in [PathRules::default(), HIDDEN] {
            let Ok(path) = CleanPath::of_target(target.as_bytes(), rules) else { continue };
            prop_assert!(path.names().all(|name| !matches!(name, b"" | b"." | b"..") && !name.contains(&0)));
            prop_assert!(!path.as_bytes().windows(2).any(|pair| pair == b"//"));
            let mut url = Vec::new();
            path.push_url(&mut url);
            prop_assert_eq!(CleanPath::of_target(&url, rules), Ok(path.clone()));
            prop_assert!(!url.starts_with(b"//") && is_usual_spelling(&url));
        }
    }

    #[test]
    fn any_bytes(target in prop::collection::vec(any::<u8>(), 0..200)) {
        let target = [b"/".as_slice(), &target].concat();
        if let Ok(path) = CleanPath::of_target(&target, HIDDEN) {
            prop_assert!(path.as_bytes().starts_with(b"/") && !path.relative().starts_with(b"/"));
            prop_assert!(path.names().all(|name| name != b".."));
        }
    }
}
