//! `jwt_verify`: the answers of HAProxy 2.6 for tokens that are good, wrong and malformed, and what is said of keys.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::path::{Path, PathBuf};

use sample::*;
use support::*;

const CASES: &str = include_str!("data/tokens/cases.txt");

struct Case {
    algorithm: &'static str,
    key: &'static str,
    theirs: &'static str,
    ours: &'static str,
    about: &'static str,
    token: &'static str,
}

fn cases() -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [algorithm, key, verdict, about, token] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let (theirs, ours) = verdict.split_once(' ').unwrap_or((verdict, verdict));
            Case { algorithm: algorithm.trim_matches('"'), key, theirs, ours, about, token }
        })
        .collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokens")
}

/// Every key of the folder, by its path.
fn keys() -> Files {
    let mut files = Files::default();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        files.0.insert(path.to_string_lossy().into_owned(), content);
    }
    files
}

/// The key as it stands in the configuration: secrets have no dot.
fn key(case: &Case) -> String {
    if case.key.contains('.') { folder().join(case.key).to_string_lossy().into_owned() } else { case.key.to_owned() }
}

/// Whether the algorithm may be written in the configuration.
fn is_written(case: &Case) -> bool {
    let is_known = |name: &str| {
        name == "none"
            || ["HS", "RS", "ES"]
                .iter()
                .any(|family| ["256", "384", "512"].iter().any(|bits| name == format!("{family}{bits}")))
    };
    is_known(case.algorithm)
}

fn evaluated(text: &str, case: &Case, files: &Files) -> String {
    let stream = Stream::request("/", &[("X-Token", case.token), ("X-Algorithm", case.algorithm)]);
    stream.set("txn.algorithm", Value::str(case.algorithm).into_static());
    stream.set("txn.key", Value::str(key(case)).into_static());
    verdict(&expression_with(text, files).unwrap(), &stream)
}

fn verdict(expression: &Expression, stream: &Stream) -> String {
    support::text(expression, stream, Options::REQUEST).unwrap_or_else(|| "nothing".to_owned())
}

#[test]
fn every_token_has_its_verdict() {
    let files = keys();
    let mut wrong = Vec::new();
    let mut check = |case: &Case, text: String| {
        let found = evaluated(&text, case, &files);
        if found != case.ours {
            wrong.push(format!(
                "{} with {}, {}: {found} instead of {}",
                case.algorithm, case.key, case.about, case.ours
            ));
        }
    };
    for case in &cases() {
        let key = key(case);
        check(case, format!("req.hdr(x-token),jwt_verify(txn.algorithm,\"{key}\")"));
        if is_written(case) {
            check(case, format!("req.hdr(x-token),jwt_verify({},\"{key}\")", case.algorithm));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn verdicts_are_those_of_haproxy() {
    if !HaProxy::is_installed() {
        return;
    }
    let cases = cases();
    let mut configuration = String::from(
        "defaults\n  mode http\n  timeout client 10s\nfrontend fe\n  bind 127.0.0.1:PORT\n  http-request set-var(txn.algorithm) req.hdr(x-algorithm)\n",
    );
    for (number, case) in cases.iter().enumerate() {
        let key = key(case);
        let variable = format!("%[req.hdr(x-token),jwt_verify(txn.algorithm,'{key}')]");
        let written = if is_written(case) {
            format!("%[req.hdr(x-token),jwt_verify({},'{key}')]", case.algorithm)
        } else {
            variable.clone()
        };
        configuration.push_str(&format!(
            "  http-request return status 200 content-type text/plain lf-string \"{variable} {written}\" if {{ path /{number} }}\n"
        ));
    }
    let haproxy = HaProxy::start(&configuration);
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let request = format!(
            "GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Token: {}\r\nX-Algorithm: {}\r\n\r\n",
            case.token, case.algorithm
        );
        let answer = haproxy.body(request.as_bytes());
        if answer != format!("{0} {0}", case.theirs) {
            wrong.push(format!("{} with {}, {}: {answer}", case.algorithm, case.key, case.about));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A key in a variable is found if some rule names its file, as the manual says.
#[test]
fn keys_in_variables() {
    let files = keys();
    let cases = cases();
    let case = cases.iter().find(|case| case.about == "good p521").unwrap();
    let path = key(case);
    let mut patterns = PatternReferences::new();
    let mut parser = ParseContext::new("test.cfg", 7, "fe", true, &files, &mut patterns);
    let mut parse = |text: &str| Expression::parse_text(text, &mut parser).unwrap();
    let by_variable = parse("req.hdr(x-token),jwt_verify(txn.algorithm,txn.key)");
    let stream = Stream::request("/", &[("X-Token", case.token)]);
    stream.set("txn.algorithm", Value::str(case.algorithm).into_static());
    assert_eq!(verdict(&by_variable, &stream), "nothing", "no key");
    stream.set("txn.key", Value::str(path.clone()).into_static());
    assert_eq!(verdict(&by_variable, &stream), "-5");
    parse(&format!("req.hdr(x-token),jwt_verify(ES512,\"{path}\")"));
    assert_eq!(verdict(&by_variable, &stream), "1");
    stream.set("txn.algorithm", Value::str("HS256").into_static());
    stream.set("txn.key", Value::str("s3cret-of-the-team").into_static());
    assert_eq!(verdict(&by_variable, &Stream::request("/", &[])), "nothing", "no token");
    assert_eq!(verdict(&by_variable, &stream), "0");
}

#[test]
fn wrong_arguments() {
    for (arguments, expected) in [
        ("", "invalid arg 2 in converter 'jwt_verify' : missing arguments (got 1/2), type 'string' expected"),
        ("HS256", "invalid arg 2 in converter 'jwt_verify' : missing arguments (got 1/2), type 'string' expected"),
        ("PS256,x", "invalid args in converter 'jwt_verify' : RSASSA-PSS JWS signing not managed yet"),
        ("FOO,x", "invalid args in converter 'jwt_verify' : unknown JWT algorithm: FOO"),
        (",x", "invalid args in converter 'jwt_verify' : unknown JWT algorithm: "),
        ("txn.,x", "invalid args in converter 'jwt_verify' : unknown JWT algorithm: txn."),
        ("secret,HS256", "invalid args in converter 'jwt_verify' : the algorithm comes first, then the key"),
        ("HS256,x,y", "invalid arg 2 in converter 'jwt_verify' : expected ')' before ',y)'"),
    ] {
        let error = expression(&format!("str(a),jwt_verify({arguments})")).unwrap_err();
        assert_eq!(error.message(), expected, "{arguments}");
    }
    for arguments in ["HS256,", "HS256,x", "none,x", "txn.a,x", "txn.a,txn.k", "RS512,missing.pem"] {
        assert!(expression(&format!("str(a),jwt_verify({arguments})")).is_ok(), "{arguments}");
    }
}

/// What a key will not do is said when the configuration is read; a secret never is.
#[test]
fn warnings_of_keys() {
    let files = keys();
    let warnings = |algorithm: &str, key: &str| {
        let path = folder().join(key).to_string_lossy().into_owned();
        let path = if key.contains('.') { path } else { key.to_owned() };
        with_parser(&files, |parser| {
            Expression::parse_text(format!("str(a),jwt_verify({algorithm},\"{path}\")"), parser).unwrap();
            parser.warnings.join("; ")
        })
        .replace(&*folder().to_string_lossy(), "DIR")
    };
    for (algorithm, key, expected) in [
        ("RS256", "rsa2048.pem", ""),
        ("ES256", "p521.pem", ""),
        ("txn.a", "p256.pem", ""),
        ("HS256", "correct-horse", ""),
        ("txn.a", "correct-horse", ""),
        ("none", "missing.pem", ""),
        (
            "HS256",
            "p256.pem",
            "jwt_verify: the key of HS algorithms is the secret itself, but 'DIR/p256.pem' is a file with a public key",
        ),
        (
            "RS256",
            "p256.pem",
            "jwt_verify: the key in 'DIR/p256.pem' is of an elliptic curve, not of RSA: it verifies no token",
        ),
        (
            "ES384",
            "rsa2048.pem",
            "jwt_verify: the key in 'DIR/rsa2048.pem' is of RSA, not of an elliptic curve: it verifies no token",
        ),
        (
            "txn.a",
            "ed.pem",
            "jwt_verify: the key in 'DIR/ed.pem' is neither of RSA nor of P-256, P-384 or P-521: it verifies no token",
        ),
        (
            "txn.a",
            "rsa2048.crt",
            "jwt_verify: no public key in PEM form in 'DIR/rsa2048.crt': every token will be refused (-5)",
        ),
        (
            "ES256",
            "missing.pem",
            "jwt_verify: cannot read the public key 'DIR/missing.pem' (No such file or directory): every token will be refused (-5)",
        ),
        (
            "txn.a",
            "missing.pem",
            "jwt_verify: cannot read the public key 'DIR/missing.pem' (No such file or directory): tokens of RS and ES algorithms will be refused (-5)",
        ),
    ] {
        assert_eq!(warnings(algorithm, key), expected, "{algorithm} {key}");
    }
}
