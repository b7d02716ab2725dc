use std::collections::HashSet;

use super::*;
use crate::{
    diagnostics::Severity,
    source::Bundle,
    tests::{messages, read_with, tls::with_examples},
};

#[test]
fn each_directive_is_there_once() {
    let mut known = HashSet::new();
    for name in names() {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
        assert!(known.insert(name.clone()), "{name}");
    }
    assert!(known.len() > 300, "{}", known.len());
}

#[test]
fn sentences_are_readable() {
    for directive in GROUPS.iter().flat_map(|group| group.directives) {
        assert!(directive.here.ends_with('.') && !directive.here.contains('\n'), "{}", directive.names);
        assert_eq!(directive.here.matches('`').count() % 2, 0, "{}", directive.names);
    }
}

#[test]
fn words_are_explained() {
    for (word, expected) in [
        ("try_files", "try_files (a directive of nginx)\n  'try-files', with the same words"),
        ("try_files;", "root /srv/www\n        try-files $uri $uri/ /index.html\n"),
        ("PROXY_PASS", "proxy_pass (a directive of nginx)"),
        ("fastcgi_read_timeout", "fastcgi_read_timeout (a directive of nginx)\n  'timeout server'"),
        ("uwsgi_cache_lock", "always: requests for the same thing wait for one fetch"),
        ("gzip_comp_level", "Compression (docs/compression.md)"),
        ("upstream", "    backend app\n        balance leastconn\n"),
    ] {
        let text = explain(word).unwrap();
        assert!(text.contains(expected), "{word}: {text}");
    }
    for word in ["", "try-files", "balance", "fastcgi_what", "proxy_"] {
        assert_eq!(explain(word), None, "{word}");
    }
}

#[test]
fn the_page_has_every_name() {
    let page = page();
    for name in names() {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

/// Whoever copies an example gets no error.
#[test]
fn examples_are_right() {
    const DEFAULTS: &str =
        "defaults\n    mode http\n    timeout client 1m\n    timeout server 1m\n    timeout connect 5s\n\n";
    const BACKENDS: [&str; 6] = ["shop", "images", "php", "site", "trial", "app"];
    let indented = |lines: &str| lines.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let mut problems = Vec::new();
    for (group, directive) in GROUPS.iter().flat_map(|group| group.directives.iter().map(move |one| (group, one))) {
        let backends: String = BACKENDS.map(|name| format!("\nbackend {name}\n    server s 127.0.0.1:1\n")).concat();
        let text = match directive.example {
            Example::Nothing => continue,
            Example::Global(lines) => format!("global\n{}\n{DEFAULTS}{backends}", indented(lines)),
            Example::Frontend(lines) => {
                let own = if lines.contains("default_backend") { "" } else { "    default_backend site\n" };
                format!("{DEFAULTS}frontend f\n    bind 127.0.0.1:81\n{}{own}{backends}", indented(lines))
            }
            // Words about files want a folder.
            Example::Backend(lines) if group.title == "Files" && !lines.contains("root /") => {
                format!("{DEFAULTS}backend b\n    root /srv\n{}", indented(lines))
            }
            Example::Backend(lines) => format!("{DEFAULTS}backend b\n{}", indented(lines)),
            Example::Sections(text) => format!("{DEFAULTS}{text}\n"),
        };
        let files = Bundle::default()
            .with("/etc/tidegate/hosts.map", b"a b\n")
            .with("/etc/tidegate/zones.map", b"10.0.0.0/8 here\n")
            .with("/etc/tidegate/users", b"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
            .with("/etc/nginx/mime.types", b"types { text/html html; }");
        let parsed = read_with(&text, with_examples(files), &[]);
        for severity in [Severity::Alert, Severity::Warning] {
            let messages = messages(&parsed, severity);
            if !messages.is_empty() {
                problems.push(format!("{}:\n{text}{}", directive.names, messages.join("\n")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
