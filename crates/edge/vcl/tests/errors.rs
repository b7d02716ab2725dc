//! What is no program is told in Varnish's words, with the place.

/// Each text with what its message says. `B` stands for a backend.
const CASES: &[(&str, &str)] = &[
    ("sub vcl_recv { set req.http.a = req.nope; }", "Unknown property 'nope' for type HTTP"),
    ("sub vcl_recv { set req.http.a = beresp.ttl; }", "Not available in subroutine 'vcl_recv'."),
    ("sub vcl_recv { return (fetch); }", "Invalid return \"fetch\""),
    ("sub vcl_recv { set req.ttl = 12 foo; }", "Unknown duration unit 'foo'"),
    ("sub vcl_recv { set req.ttl = \"1s\"; }", "Expression has type STRING, expected DURATION"),
    ("sub vcl_recv { set req.time = now; }", "Variable is read only."),
    ("sub vcl_recv { unset req.url; }", "Variable cannot be unset."),
    ("sub vcl_recv { set req.url = \"a\" }", "Expected ';' got '}'"),
    ("sub vcl_recv { call foo; }", "Undefined sub foo, first reference:"),
    ("sub foo { }", "Unused sub foo, defined:"),
    ("acl foo { \"192.0.2.1\"; }", "Unused acl foo, defined:"),
    ("sub vcl_nope { }", "The names 'vcl_*' are reserved for subroutines."),
    ("sub foo { set beresp.ttl = 1s; } sub vcl_hit { call foo; }", "Cannot be set from subroutine 'vcl_hit'."),
    ("sub one { call two; } sub two { call one; } sub vcl_recv { call one; }", "Subroutine recurses on"),
    ("sub vcl_recv { if (req.url ~ \"(a\") {} }", "Regexp compilation error:\nunclosed group"),
    ("sub vcl_recv { if (req.url == 1) {} }", "Comparison of different types: STRING '==' INT"),
    ("sub vcl_recv { if (client.ip > client.ip) {} }", "Operator > not possible on IP"),
    ("sub vcl_recv { if (2 * 1s > 1s) {} }", "INT * DURATION not possible."),
    ("sub vcl_recv { if (req.url && 1.0) {} }", "'&&' must be followed by BOOL, found REAL."),
    ("sub vcl_recv { set req.http.a = std.tolower(\"A\"); }", "Symbol not found: 'std"),
    ("import std; sub vcl_recv { set req.http.a = std.nope(); }", "Symbol not found: 'std.nope'"),
    ("import std; sub vcl_recv { set req.http.a = std.tolower(); }", "Argument 's' missing"),
    (
        "import std; sub vcl_recv { set req.http.a = -std.tolower(\"a\"); }",
        "'-' must be followed by a number, found STRING.",
    ),
    (
        "import directors; sub vcl_init { new a.b = directors.hash(); }",
        "Name of VCL object, 'a.b', contains illegal character '.'",
    ),
    ("import nope;", "Could not find VMOD nope"),
    ("C{ int i; }C", "Inline-C not allowed"),
    ("sub vcl_recv { /* never ends }", "Unterminated /* ... */ comment, starting at"),
    ("sub vcl_recv { set req.url = \"never ends; }", "Unterminated string, starting at"),
    ("probe p { .window = 65; }", "Window must be 64 or less"),
    ("backend c { .host = \"a\"; .prt = \"80\"; }", "Unknown field: 'prt' at"),
];

#[test]
fn messages_are_varnishs() {
    for (text, expected) in CASES {
        let text = format!("vcl 4.1;\nbackend b {{ .host = \"127.0.0.1\"; }}\n{text}");
        match vcl::compile("test.vcl", &text, &vcl::Options::default()) {
            Ok(_) => panic!("compiles: {text}"),
            Err(wrong) => {
                let message = wrong.message();
                assert!(message.contains(expected), "{text}\n{message}");
                assert!(message.contains("('test.vcl' Line 3 Pos "), "{message}");
            }
        }
    }
}

#[test]
fn a_mark_stands_below_the_word() {
    let text = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\nsub vcl_recv {\n\treturn (fetch);\n}\n";
    let message = vcl::compile("/etc/v.vcl", text, &vcl::Options::default()).unwrap_err().message();
    let expected =
        "Invalid return \"fetch\"\n('/etc/v.vcl' Line 4 Pos 17)\n        return (fetch);\n----------------#####--\n";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn versions_have_their_own_variables() {
    for (version, variable, is_there) in [
        ("4.0", "local.socket", false),
        ("4.1", "local.socket", true),
        ("4.0", "beresp.backend.ip", true),
        ("4.1", "beresp.backend.ip", false),
    ] {
        let (subroutine, message) =
            if variable.starts_with("beresp") { ("vcl_backend_response", "beresp") } else { ("vcl_recv", "req") };
        let text = format!(
            "vcl {version};\nbackend b {{ .host = \"127.0.0.1\"; }}\nsub {subroutine} {{ set {message}.http.x = {variable}; }}"
        );
        let compiled = vcl::compile("t", &text, &vcl::Options::default());
        assert_eq!(compiled.is_ok(), is_there, "{version} {variable}");
    }
}

#[test]
fn nothing_is_nested_without_bound() {
    for (open, close) in [("(", ")"), ("!", ""), ("{", "}")] {
        let body = if open == "{" {
            format!("{}{}", open.repeat(5_000), close.repeat(5_000))
        } else {
            format!("if ({}true{}) {{}}", open.repeat(5_000), close.repeat(5_000))
        };
        let text = format!("vcl 4.1;\nbackend b {{ .host = \"127.0.0.1\"; }}\nsub vcl_recv {{ {body} }}");
        let message = vcl::compile("t", &text, &vcl::Options::default()).unwrap_err().message();
        assert!(message.contains("nested more than"), "{message}");
    }
}
