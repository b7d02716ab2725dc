//! Functions by data: what is called with what, and what comes of it in Varnish.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use super::{
    blob::{Case, Encoding, decode, encode},
    fnmatch::{Flags, matches},
    time::{format_date, parse_date},
};
use crate::{
    modules::FunctionId,
    run::{Failure, Value, Workspace, pure},
};

/// What a function gives, as text.
fn shown(function: FunctionId, arguments: &[Option<Value<'_>>]) -> String {
    let workspace = Workspace::new(64 << 10);
    match pure::call(function, arguments, &workspace) {
        Some(Ok(Value::String(Some(text)))) => String::from_utf8_lossy(text).into_owned(),
        Some(Ok(Value::Ip(Some((address, port))))) => format!("{address} {port}"),
        Some(Ok(Value::Blob(Some(bytes)))) => format!("{bytes:?}"),
        Some(Ok(Value::Real(number) | Value::Duration(number) | Value::Time(number))) => format!("{number:.3}"),
        Some(Ok(Value::Int(number) | Value::Bytes(number))) => number.to_string(),
        Some(Ok(Value::Bool(value))) => value.to_string(),
        Some(Ok(other)) => format!("{other:?}"),
        Some(Err(Failure::Host(why))) => format!("failed: {why}"),
        Some(Err(why)) => format!("failed: {why}"),
        None => "the host's".to_owned(),
    }
}

fn string(text: &str) -> Option<Value<'_>> {
    Some(Value::String(Some(text.as_bytes())))
}

#[test]
fn texts_become_numbers() {
    use FunctionId::{StdBytes, StdDuration, StdInteger, StdReal, StdTime};
    for (function, text, expected) in [
        (StdInteger, "12", "12"),
        (StdInteger, " -12 ", "-12"),
        (StdInteger, "12.000", "12"),
        (StdInteger, "12.5", "failed: std.integer: conversion failed"),
        (StdInteger, "999999999999999", "999999999999999"),
        (StdInteger, "1000000000000000", "failed: std.integer: conversion failed: Too many digits"),
        (StdInteger, "", "failed: std.integer: conversion failed: Invalid number"),
        (StdInteger, "1a", "failed: std.integer: conversion failed"),
        (StdReal, "1.5", "1.500"),
        (StdReal, ".25", "0.250"),
        (StdReal, "1.23456", "1.234"),
        (StdReal, "1e3", "failed: std.real: conversion failed"),
        (StdReal, "-", "failed: std.real: conversion failed: Invalid number"),
        (StdDuration, "1.5h", "5400.000"),
        (StdDuration, "10 ms", "0.010"),
        (StdDuration, "-1d", "-86400.000"),
        (StdDuration, "10", "failed: std.duration: conversion failed"),
        (StdBytes, "10k", "10240"),
        (StdBytes, "1.5 MB", "1572864"),
        (StdBytes, "1P", "1125899906842624"),
        (StdBytes, "1.5", "failed: std.bytes: conversion failed"),
        (StdBytes, "9P", "failed: std.bytes: conversion failed"),
        (StdBytes, "-1", "failed: std.bytes: conversion failed"),
        (StdTime, "Sun, 06 Nov 1994 08:49:37 GMT", "784111777.000"),
        (StdTime, "784111777.25", "784111777.250"),
        (StdTime, "soon", "failed: std.time: conversion failed"),
    ] {
        assert_eq!(shown(function, &[string(text)]), expected, "{function:?} {text:?}");
    }
}

#[test]
fn numbers_become_others() {
    use FunctionId::{StdBytes, StdDuration, StdInteger, StdReal, StdReal2integer, StdRound};
    let no = None;
    for (function, arguments, expected) in [
        (StdInteger, vec![no, no, Some(Value::Bool(true))], "1"),
        (StdInteger, vec![no, no, no, no, Some(Value::Duration(1.9))], "1"),
        (StdInteger, vec![no, no, no, no, no, Some(Value::Real(-1.9))], "-1"),
        (StdInteger, vec![no, Some(Value::Int(7)), no, no, no, Some(Value::Real(1e17))], "7"),
        (StdInteger, vec![no, no, no, no, no, no, no], "failed: std.integer: not enough arguments"),
        (StdInteger, vec![string("1"), no, Some(Value::Bool(true))], "failed: std.integer: too many arguments"),
        (StdInteger, vec![Some(Value::String(None)), Some(Value::Int(3))], "3"),
        (StdReal, vec![no, no, Some(Value::Int(3))], "3.000"),
        (StdDuration, vec![no, no, Some(Value::Real(1.5))], "1.500"),
        (StdBytes, vec![no, Some(Value::Bytes(5)), Some(Value::Real(-0.5))], "5"),
        (StdBytes, vec![no, no, Some(Value::Real(10.9))], "10"),
        (StdRound, vec![Some(Value::Real(-0.5))], "-1.000"),
        (StdReal2integer, vec![Some(Value::Real(0.5)), Some(Value::Int(0))], "1"),
        (StdReal2integer, vec![Some(Value::Real(1e20)), Some(Value::Int(8))], "8"),
    ] {
        assert_eq!(shown(function, &arguments), expected, "{function:?} {arguments:?}");
    }
}

#[test]
fn texts_become_addresses() {
    let no = None;
    let fallback = Some(Value::Ip(Some(("192.0.2.9".parse().unwrap(), 80))));
    for (arguments, expected) in [
        (vec![string("192.0.2.1")], "192.0.2.1 80"),
        (vec![string("192.0.2.1:443")], "192.0.2.1 443"),
        (vec![string("192.0.2.1 https")], "192.0.2.1 443"),
        (vec![string("[::1]:http"), no, no, string("8080")], "::1 80"),
        (vec![string("::1"), no, no, string("8080")], "::1 8080"),
        (vec![string("no address"), fallback, Some(Value::Bool(false))], "192.0.2.9 80"),
        (vec![string("no address"), no, Some(Value::Bool(false))], "failed: std.ip: conversion failed"),
        (vec![string("localhost")], "the host's"),
        (vec![Some(Value::String(None))], "failed: std.ip: conversion failed"),
    ] {
        assert_eq!(shown(FunctionId::StdIp, &arguments), expected, "{arguments:?}");
    }
}

#[test]
fn queries_are_sorted() {
    for (url, expected) in [
        ("/a?b=2&a=1", "/a?a=1&b=2"),
        ("/a?b&&a&", "/a?a&b"),
        ("/a?z", "/a?z"),
        ("/a", "/a"),
        ("/a?&", "/a?"),
        ("/a?b=1&a=2&b=0", "/a?a=2&b=0&b=1"),
    ] {
        assert_eq!(shown(FunctionId::StdQuerysort, &[string(url)]), expected);
    }
}

#[test]
fn names_match_patterns() {
    let plain = Flags::default();
    let path = Flags { pathname: true, ..plain };
    let period = Flags { pathname: true, period: true, no_escape: false };
    for (pattern, subject, flags, expected) in [
        ("/foo/*", "/foo/bar", path, true),
        ("/foo/*", "/foo/bar/baz", path, false),
        ("/foo/*", "/foo/bar/baz", plain, true),
        ("/foo/*/quux", "/foo/bar/quux", path, true),
        ("*/*", "a/b", path, true),
        ("a*b*c", "aXbYbZc", plain, true),
        ("a*b*c", "aXbYbZ", plain, false),
        ("/foo/?ar", "/foo/bar", path, true),
        ("/foo?bar", "/foo/bar", path, false),
        ("/foo/[!0-9]", "/foo/a", path, true),
        ("/foo/[!0-9]", "/foo/7", path, false),
        ("[]a]", "]", plain, true),
        ("[[:digit:]-]", "-", plain, true),
        ("[a", "[a", plain, true),
        ("foo[/]bar", "foo/bar", path, false),
        ("\\*", "*", plain, true),
        ("\\*", "\\x", Flags { no_escape: true, ..plain }, true),
        ("*", ".hidden", period, false),
        ("/*", "/.hidden", period, false),
        ("/.*", "/.hidden", period, true),
        ("/a*", "/a.b", period, true),
        ("", "", plain, true),
        ("***", "", plain, true),
    ] {
        assert_eq!(matches(pattern.as_bytes(), subject.as_bytes(), flags), expected, "{pattern} {subject} {flags:?}");
    }
}

#[test]
fn a_hard_name_takes_no_time() {
    let subject = vec![b'a'; 20_000];
    assert!(!matches(b"*a*a*a*a*a*a*a*a*a*b", &subject, Flags::default()));
}

#[test]
fn times_are_read_and_written() {
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "1994-11-06T08:49:37",
    ] {
        assert_eq!(parse_date(text.as_bytes()), Some(784_111_777.0), "{text}");
    }
    for text in
        ["Mon, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37", "1994-02-29T00:00:00", "1994-13-01T00:00:00"]
    {
        assert_eq!(parse_date(text.as_bytes()), None, "{text}");
    }
    assert_eq!(format_date(784_111_777.9), "Sun, 06 Nov 1994 08:49:37 GMT");
    for (format, expected) in [
        ("%Y%m%dT%H%M%SZ", "19941106T084937Z"),
        ("%a %A %b %B %e %j %y", "Sun Sunday Nov November  6 310 94"),
        ("%U %W %V %G %u %w", "45 44 44 1994 7 0"),
        (
            "%c|%D|%F|%r|%s|%z|%Z|%%|%Q",
            "Sun Nov  6 08:49:37 1994|11/06/94|1994-11-06|08:49:37 AM|784111777|+0000|GMT|%|%Q",
        ),
    ] {
        let arguments = [Some(Value::Time(784_111_777.0)), string(format)];
        assert_eq!(shown(FunctionId::StdStrftime, &arguments), expected);
    }
}

#[test]
fn bytes_are_encoded() {
    use Encoding::{Base64, Base64Cf, Base64Url, Base64UrlNoPad, Hex, Identity, Url};
    for (encoding, bytes, expected) in [
        (Identity, &b"foo"[..], "foo"),
        (Base64, b"foobarbaz", "Zm9vYmFyYmF6"),
        (Base64, b"f", "Zg=="),
        (Base64, &[0xfb, 0xff], "+/8="),
        (Base64Url, &[0xfb, 0xff], "-_8="),
        (Base64UrlNoPad, &[0xfb, 0xff], "-_8"),
        (Base64Cf, &[0xfb, 0xff], "-~8_"),
        (Hex, &[0, 0xaf], "00af"),
        (Url, b"foo bar/~", "foo%20bar%2f~"),
    ] {
        let encoded = encode(encoding, Case::Lower, bytes);
        assert_eq!(String::from_utf8_lossy(&encoded), expected, "{encoding:?}");
        assert_eq!(decode(encoding, &encoded).as_deref(), Ok(bytes), "{encoding:?}");
    }
    assert_eq!(encode(Url, Case::Upper, b"/"), b"%2F");
    assert_eq!(decode(Hex, b"abcdef0"), Ok(vec![0x0a, 0xbc, 0xde, 0xf0]));
    for (encoding, text) in [
        (Hex, "0g"),
        (Base64, "Zg==="),
        (Base64, "Z"),
        (Base64, "Zm 9"),
        (Base64UrlNoPad, "Zg=="),
        (Url, "%2"),
        (Url, "%gg"),
    ] {
        assert!(decode(encoding, text.as_bytes()).is_err(), "{encoding:?} {text}");
    }
}

#[test]
fn blobs_are_cut_and_compared() {
    let blob = Some(Value::Blob(Some(b"abcdef")));
    let (length, offset) = (Some(Value::Bytes(2)), Some(Value::Bytes(3)));
    assert_eq!(shown(FunctionId::BlobSub, &[blob, length, offset]), "[100, 101]");
    let wide = Some(Value::Bytes(9));
    let too_long = "failed: vmod blob error: size 9 from offset 3 requires more bytes than blob length 6 in blob.sub()";
    assert_eq!(shown(FunctionId::BlobSub, &[blob, wide, offset]), too_long);
    let copy = b"abcdef".to_vec();
    let other = Some(Value::Blob(Some(&copy)));
    assert_eq!(shown(FunctionId::BlobEqual, &[blob, other]), "true");
    assert_eq!(shown(FunctionId::BlobSame, &[blob, other]), "false");
    assert_eq!(shown(FunctionId::BlobSame, &[blob, blob]), "true");
    assert_eq!(shown(FunctionId::BlobSame, &[Some(Value::Blob(None)), Some(Value::Blob(Some(b"")))]), "true");
    let upper = [Some(Value::Enum("BASE64")), Some(Value::Enum("UPPER")), blob];
    assert_eq!(
        shown(FunctionId::BlobEncode, &upper),
        "failed: vmod blob error: case UPPER is illegal with encoding BASE64"
    );
    let transcoded =
        [Some(Value::Enum("HEX")), Some(Value::Enum("BASE64")), None, Some(Value::Int(0)), string("666f6f")];
    assert_eq!(shown(FunctionId::BlobTranscode, &transcoded), "Zm9v");
}
