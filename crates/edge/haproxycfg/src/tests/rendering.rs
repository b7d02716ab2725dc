//! How errors look, and which of them come together.

use super::*;

fn render(text: &str) -> String {
    read(text).diagnostics.iter().map(|diagnostic| diagnostic.render(42)).collect()
}

#[test]
fn an_error_shows_the_line_a_caret_and_what_was_expected() {
    let text = "global\n\tmaxcon 100\ndefaults\n    mode htp # the web\n    timeout client 5x\n";
    assert_eq!(
        render(text),
        "\
[ALERT]    (42) : config : parsing [t.cfg:2] : unknown keyword 'maxcon' in 'global' section; did you mean 'maxconn' maybe ?
  2 | maxcon 100
    | ^^^^^^
[ALERT]    (42) : config : parsing [t.cfg:4] : unknown proxy mode 'htp'.
  4 | mode htp # the web
    |      ^^^
  expected 'http' or 'tcp'
[ALERT]    (42) : config : parsing [t.cfg:5] : unexpected character 'x' in argument to <timeout client>.
  5 | timeout client 5x
    |                 ^
  expected a number with a unit out of us, ms, s, m, h, d, as 500ms or 10s
[ALERT]    (42) : config : Error(s) found in configuration file : t.cfg
[ALERT]    (42) : config : Fatal errors found in configuration.
"
    );
}

#[test]
fn carets_stand_under_wide_text_and_in_long_lines() {
    assert!(
        render("global\n  description \"größe\" \"\" x\n")
            .contains("\n  2 | description \"größe\" \"\" x\n    |                     ^^\n")
    );
    let long = format!("backend b\n  server s 192.0.2.1:80 {}nosuch x\n", "weight 10 ".repeat(20));
    let rendered = render(&long);
    let shown: Vec<&str> = rendered.lines().filter(|line| line.contains(" | ")).collect();
    assert!(shown.iter().all(|line| line.chars().count() <= 120), "{rendered}");
    // What is left out is seen to be, and the caret still stands under its word.
    let [line, carets] = shown.as_slice() else { panic!("{rendered}") };
    let column = carets.find('^').unwrap();
    assert!(line.contains("| ...") && line.get(column..).unwrap().starts_with("nosuch"), "{rendered}");
    let cut = render(&format!("frontend a\n  bnd :80 {}\n", "x".repeat(200)));
    assert!(cut.contains("xxx...\n"), "{cut}");
    assert!(!render("frontend a\n  bnd :80\n").contains("..."));
    assert!(!render("frontend a\n  bind :\x01\n").contains('\x01'));
}

#[test]
fn a_word_of_another_place_is_told_apart() {
    let rendered = render("frontend a\n  daemon\n");
    assert!(
        rendered.contains("expected a keyword of this section; 'daemon' belongs to the global section"),
        "{rendered}"
    );
}

#[test]
fn a_message_without_place_shows_it_below() {
    assert_eq!(
        render("frontend a\n  bind :80\n  timeout client 1s\n  default_backend lots\nbackend lost\n"),
        "\
[ALERT]    (42) : config : Proxy 'a': unable to find required default_backend: 'lots'; did you mean 'lost' maybe ?
  at t.cfg:4
  4 | default_backend lots
    |                 ^^^^
[ALERT]    (42) : config : Fatal errors found in configuration.
"
    );
}

#[test]
fn all_errors_are_collected() {
    let text = "\
global
  nosuch 1
frontend web
  bind :80 nosuch
  http-request nosuch
  use_backend missing if { path /x }
  default_backend lost
backend app
  server a 192.0.2.1:80 nosuch
  server a 192.0.2.1:80 check
  balance nosuch
";
    let alerts = messages(&read(text), Severity::Alert);
    let lines: Vec<&str> = alerts.iter().map(|alert| alert.split(" : ").next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "parsing [t.cfg:2]",
            "parsing [t.cfg:4]",
            "parsing [t.cfg:5]",
            "[t.cfg:9]",
            "parsing [t.cfg:11]",
            "Proxy 'web': unable to find required default_backend: 'lost'",
            "parsing [t.cfg:6]",
            "parsing [t.cfg:10]",
        ]
        .map(|line| line),
        "{alerts:#?}"
    );
}

#[test]
fn reading_stops_after_many_errors() {
    let text = format!("global\n{}", "  nosuch\n".repeat(1000));
    let alerts = messages(&read(&text), Severity::Alert);
    assert_eq!(alerts.len(), crate::diagnostics::FATAL_ERRORS_MAX + 1);
    assert_eq!(alerts.last().unwrap(), "parsing [t.cfg:52] : too many fatal errors (50), stopping now.");
}

#[test]
fn malformed_files() {
    check_errors(
        "global\n  daemon",
        &["parsing [t.cfg:2] : Missing LF on last line, file might have been truncated at position 9."],
    );
    check_errors("global\n  da\0emon\n  nosuch\n", &["parsing [t.cfg:2] : Stray NUL character at position 5."]);
    check_errors("mode http\n", &["parsing [t.cfg:1] : unknown keyword 'mode' out of section."]);
    check_errors(".if 1\n", &["parsing [t.cfg:1] : non-terminated '.if' block."]);
    check_errors("global\r\n  daemon\r\n", &[]);
    check_errors("", &[]);
    let parsed = parse(&["missing.cfg".to_owned()], &Bundle::default(), BTreeMap::new(), &options());
    assert_eq!(
        messages(&parsed, Severity::Alert),
        ["Cannot open configuration file/directory missing.cfg : No such file or directory"]
    );
    let deep = ".if 1\n".repeat(200);
    assert_eq!(messages(&read(&deep), Severity::Alert), ["parsing [t.cfg:100] : too many nested '.if', max is 100."]);
}

#[test]
fn verdicts_are_haproxys_exit_codes() {
    for (text, verdict, code) in [
        ("listen a\n  bind :80\n", Verdict::Valid, 0),
        ("backend a\n", Verdict::NoListener, 2),
        ("listen a\n  bind :80\n  disabled\n", Verdict::NoListener, 2),
        ("listen a\n  bind :80\n  nosuch\n", Verdict::Invalid, 1),
        ("global\n  zero-warning\nlisten a\n  bind :80\n", Verdict::Invalid, 1),
    ] {
        let parsed = read(text);
        assert_eq!((parsed.verdict(), parsed.verdict().exit_code()), (verdict, code), "{text}");
    }
    assert!(Verdict::Valid.message().is_some());
    assert!(read("listen a\n  bind :80\n").has_warnings());
}

#[test]
fn warnings_of_the_whole() {
    check_warnings(
        "frontend a\n  mode http\n  timeout client 1s\nbackend b\n  server s 192.0.2.1:80\n",
        &[
            "frontend 'a' has no 'bind' directive. Please declare it as a backend if this was intended.",
            "missing timeouts for backend 'b'.\n   | While not properly invalid, you will certainly encounter various \
             problems\n   | with such a configuration. To fix this, please ensure that all following\n   | timeouts are \
             set to a non-zero value: 'client', 'connect', 'server'.",
        ],
    );
    check_warnings(
        "peers mates\n  peer other 192.0.2.1:1024\nring lines\n  timeout connect 1s\n  server s 192.0.2.1:514\n",
        &[
            "missing timeouts for backend 'lines'.\n   | While not properly invalid, you will certainly encounter various \
             problems\n   | with such a configuration. To fix this, please ensure that all following\n   | timeouts are \
             set to a non-zero value: 'client', 'connect', 'server'.",
            "Removing incomplete section 'peers mates' (no peer named 'front1').",
        ],
    );
    check_warnings(
        "frontend a\n  bind 127.0.0.1:1\n  timeout client 1s\n  maxconn x\n  backlog 5x\n",
        &[
            "parsing [t.cfg:4] : 'maxconn' : 'x' is no number and is read as 0.",
            "parsing [t.cfg:5] : 'backlog' : '5x' is read as 5, what follows the number is ignored.",
        ],
    );
    check_warnings(
        "backend b\n  mode tcp\n  option forwardfor\n  option checkcache\n  fullconn 5\n  maxconn 5\n",
        &[
            "parsing [t.cfg:6] : 'maxconn' ignored because backend 'b' has no frontend capability. Maybe you want \
             'fullconn' instead ?",
            "'option forwardfor' ignored for backend 'b' as it requires HTTP mode.",
            "'option checkcache' ignored for backend 'b' as it requires HTTP mode.",
        ],
    );
}
