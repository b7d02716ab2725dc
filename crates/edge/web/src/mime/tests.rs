use std::collections::HashSet;

use super::*;

#[track_caller]
fn check(types: &MimeTypes, name: &str, expected: &str) {
    let found = String::from_utf8(types.of(name.as_bytes(), Some("utf-8")).parts().concat()).unwrap();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn our_own_table() {
    let types = MimeTypes::built_in();
    for (name, expected) in [
        ("index.html", "text/html; charset=utf-8"),
        ("INDEX.HTM", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.min.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.avif", "image/avif"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.tar.gz", "application/gzip"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.mp4", "video/mp4"),
        ("a", DEFAULT_TYPE),
        ("a.", DEFAULT_TYPE),
        (".html", DEFAULT_TYPE),
        ("", DEFAULT_TYPE),
        ("a.unknown", DEFAULT_TYPE),
        ("a.html/b", DEFAULT_TYPE),
        (&format!("a.{}", "x".repeat(300)), DEFAULT_TYPE),
    ] {
        check(&types, name, expected);
    }
    assert!(types.len() > 400 && !types.is_empty());
}

#[test]
fn the_table_has_each_extension_once_and_as_it_is_looked_up() {
    let (mut extensions, mut kinds) = (HashSet::new(), HashSet::new());
    for (essence, list) in builtin::TYPES {
        assert!(kinds.insert(*essence), "{essence}");
        assert!(media_type(essence.as_bytes(), 1).is_ok(), "{essence}");
        for extension in list.split(' ') {
            assert!(extensions.insert(extension), "{extension}");
            assert!((1..=EXTENSION_BYTES_MAX).contains(&extension.len()) && extension.to_lowercase() == extension);
        }
    }
}

#[test]
fn the_format_of_nginx() {
    let mut types = MimeTypes::empty();
    types
        .read(b"# a comment; with {\ntypes {\n  text/html html HTM; # more\n  'text/x' x\n y ;\n\"text/z;charset=a\" z;}\ntypes { a/b c; }\n")
        .unwrap();
    check(&types, "a.htm", "text/html; charset=utf-8");
    check(&types, "a.y", "text/x; charset=utf-8");
    check(&types, "a.z", "text/z;charset=a");
    check(&types, "a.c", "a/b");
    types.read(b"text/plain\t c;").unwrap();
    types.set_default("text/html");
    check(&types, "a.c", "text/plain; charset=utf-8");
    check(&types, "a.other", "text/html; charset=utf-8");
    types.set("application/x-own", ".Own", 1).unwrap();
    check(&types, "a.own", "application/x-own");
}

#[test]
fn the_format_of_apache() {
    let mut types = MimeTypes::empty();
    types.read(b"# text/none\n\ntext/html\thtml htm # more\r\napplication/of-nobody\n  image/x  X y\n").unwrap();
    check(&types, "a.htm", "text/html; charset=utf-8");
    check(&types, "a.x", "image/x");
    assert_eq!(types.len(), 4);
    types.read(b"application/x-tgz tar.gz\napplication/gzip gz\n").unwrap();
    check(&types, "a.b.TAR.gz", "application/x-tgz");
    check(&types, "a.gz", "application/gzip");
    check(&types, ".tar.gz", "application/gzip");
    check(&types, &format!("{}.tar.gz", "x.".repeat(200)), "application/x-tgz");
    assert!(MimeTypes::empty().read(b"").is_ok());
}

#[test]
fn what_cannot_be_read() {
    for (text, expected) in [
        ("types {\n text/html html\n}", "line 3: '}' is not expected here"),
        ("types {\n text/html html;", "line 2: the file ends before '}'"),
        ("text/html html;\ntext/plain txt", "line 2: the file ends before ';'"),
        ("types { html text/html; }", "line 1: 'html' is no media type"),
        ("types { types { } }", "line 1: 'types' is not expected"),
        ("types { text/html { } }", "line 1: '{' is not expected"),
        ("}", "line 1: '}' is no media type"),
        ("; }", "line 1: ';' is not expected"),
        ("server { listen 80; }", "line 1: 'server' is no media type"),
        ("text/html html\nhtml", "line 2: 'html' is no media type"),
        ("text/html .html", "line 1: '.html' is no extension"),
        ("text/html a/b", "line 1: 'a/b' is no extension"),
        ("text/\u{e4} a", "is no media type"),
    ] {
        let error = MimeTypes::empty().read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(MimeTypes::empty().set("text", "a", 7).unwrap_err().to_string().starts_with("line 7: 'text'"));
}

/// What Debian's nginx and Apache say; a machine without these files has nothing to compare.
#[test]
fn files_of_this_machine_are_read() {
    for path in ["/etc/nginx/mime.types", "/etc/mime.types", "/etc/apache2/mime.types"] {
        let Ok(text) = std::fs::read(path) else { continue };
        let mut types = MimeTypes::empty();
        types.read(&text).unwrap();
        check(&types, "a.html", "text/html; charset=utf-8");
        check(&types, "a.png", "image/png");
    }
}
