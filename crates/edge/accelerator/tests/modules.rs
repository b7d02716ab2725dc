//! Functions and objects of modules, called by programs: what a request that runs them becomes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use std::sync::Arc;

use accelerator::{
    Connection,
    client::{Client, DeliveredBody, Step},
    load::load,
    loaded::{AllHealthy, Backends, Loaded, Parts, Storages},
    settings::Settings,
};
use cache::{index::Cache, storage::Stevedore};
use http::{Limits, RequestHead, RequestParser};
use vcl::{Options, program::BackendIndex};

/// A backend that is sick: the second one of each program.
struct SecondIsSick;

impl Backends for SecondIsSick {
    fn is_healthy(&self, backend: BackendIndex) -> bool {
        backend.0 != 1
    }
}

fn loaded(text: &str, backends: Arc<dyn Backends>) -> Result<Arc<Loaded>, String> {
    let compiled =
        vcl::compile("test.vcl", text, &Options::default()).unwrap_or_else(|wrong| panic!("{}", wrong.message()));
    let storages = Storages::new(Vec::new(), Arc::new(Stevedore::malloc("Transient", 1 << 20)));
    let parts = Parts {
        name: "test".to_owned(),
        settings: Settings::default(),
        cache: Cache::new(),
        storages: Arc::new(storages),
        backends,
        lasting: Arc::default(),
    };
    load(Arc::new(compiled.program), parts).map_err(|why| why.to_string())
}

fn request(fields: &str) -> RequestHead {
    let bytes = format!("GET /a?b=1 HTTP/1.1\r\nHost: www.example.com\r\n{fields}\r\n");
    let mut head = RequestHead::default();
    let parsed = RequestParser::new().parse(bytes.as_bytes(), &Limits::default(), &mut head);
    assert!(parsed.is_ok(), "{parsed:?}");
    head
}

/// What the field `x` is after `vcl_recv` has run, or why it failed.
fn outcome(loaded: &Arc<Loaded>, fields: &str, connection: Connection) -> String {
    let mut client = Client::new(loaded, request(fields), connection, 1_000_000.0, std::rc::Rc::new(|| 7), false);
    let Step::Deliver(delivery) = client.begin() else { panic!("not delivered") };
    assert!(matches!(delivery.body, DeliveredBody::Made(_)));
    if delivery.head.reason() == b"VCL failed" {
        return format!("failed: {}", client.error().unwrap_or_default());
    }
    let x = client.request().headers.first(b"x").map(<[u8]>::to_vec);
    x.map_or_else(|| "unset".to_owned(), |x| String::from_utf8(x).unwrap())
}

const MODULES: &str = "import std; import directors; import blob; import cookie; import header; import purge; import unix; \
                       import proxy; import vtc; import xkey; import vsthrottle;";

fn program(init: &str, recv: &str) -> String {
    format!(
        "vcl 4.1;\n{MODULES}\nbackend s1 {{ .host = \"192.0.2.1\"; }}\nbackend s2 {{ .host = \"192.0.2.2\"; }}\n\
         backend s3 {{ .host = \"192.0.2.3\"; }}\nsub vcl_init {{ {init} }}\n\
         sub vcl_recv {{ if (req.url == \"\") {{ set req.backend_hint = s2; set req.backend_hint = s3; }} {recv} return (synth(200)); }}"
    )
}

fn check(cases: &[(&str, &str, &str)]) {
    for (init, recv, expected) in cases {
        let loaded = loaded(&program(init, recv), Arc::new(SecondIsSick)).unwrap_or_else(|why| panic!("{init}: {why}"));
        let found = outcome(&loaded, "Cookie: a=1; b=2;c=3\r\nY: 1\r\nY: 2\r\n", Connection::default());
        assert_eq!(found, *expected, "{init} {recv}");
    }
}

#[test]
fn std_changes_and_asks() {
    check(&[
        ("", "std.collect(req.http.y); set req.http.x = req.http.y;", "1, 2"),
        ("", "std.collect(req.http.y, \"; \"); set req.http.x = req.http.y;", "1; 2"),
        ("", "set req.http.x = std.strstr(\"abcd\", \"bc\");", "bcd"),
        ("", "set req.http.x = std.healthy(s1) + \" \" + std.healthy(s2);", "true false"),
        (
            "",
            "set req.http.x = std.syntax(4.0) + \" \" + std.syntax(4.1) + \" \" + std.syntax(4.2);",
            "true true false",
        ),
        ("", "set req.http.x = std.getenv(\"NO_SUCH_NAME\") + \"-\";", "-"),
        ("", "set req.http.x = std.file_exists(\"/\") + \" \" + std.file_exists(\"/no/such\");", "true false"),
        ("", "set req.http.x = std.fileread(\"/no/such\") + \"-\";", "-"),
        ("", "set req.http.x = std.integer(real=-std.real(\"2.5\"));", "-2"),
        ("", "set req.http.x = std.duration(\"x\", 5s);", "5.000"),
        ("", "set req.http.x = std.duration(\"x\");", "failed: std.duration: conversion failed"),
        (
            "",
            "set req.http.x = std.ip(\"localhost\") + \" \" + std.port(std.ip(\"localhost\", p=\"81\"));",
            "127.0.0.1 81",
        ),
        ("", "set req.http.x = std.ip(\"no.such.name\", \"192.0.2.9\");", "192.0.2.9"),
        ("", "set req.http.x = std.ban(\"req.url ~ /\") + std.ban_error();", "true"),
        ("", "set req.http.x = std.ban(\"nonsense\");", "false"),
        (
            "",
            "set req.url = \"/changed\"; set req.http.z = \"1\"; std.rollback(req); set req.http.x = req.url + req.http.z;",
            "/a?b=1",
        ),
        ("", "set req.http.x = std.cache_req_body(1KB);", "true"),
        ("", "set req.http.x = std.fnmatch(\"/a*\", req.url);", "true"),
    ]);
}

#[test]
fn chance_is_another_one_each_time() {
    let text = program("", "set req.http.x = std.random(10, 20);");
    let loaded = loaded(&text, Arc::new(AllHealthy)).unwrap();
    let drawn: std::collections::BTreeSet<String> =
        (0..50).map(|_| outcome(&loaded, "", Connection::default())).collect();
    assert!(drawn.len() > 45, "{drawn:?}");
    assert!(drawn.iter().all(|number| (10.0..20.0).contains(&number.parse::<f64>().unwrap())));
}

#[test]
fn files_stay_as_they_were_read_first() {
    let path = std::env::temp_dir().join(format!("tidegate-modules-{}", std::process::id()));
    std::fs::write(&path, "one\n").unwrap();
    let recv = format!(
        "set req.http.x = std.fileread(\"{0}\") + blob.encode(HEX, blob=std.blobread(\"{0}\"));",
        path.display()
    );
    let loaded = loaded(
        &program(
            "",
            &recv.replace("std.fileread(", "regsub(std.fileread(").replace(") + blob", "), \"\\n\", \"\") + blob"),
        ),
        Arc::new(AllHealthy),
    )
    .unwrap();
    assert_eq!(outcome(&loaded, "", Connection::default()), "one6f6e650a");
    std::fs::write(&path, "two\n").unwrap();
    assert_eq!(outcome(&loaded, "", Connection::default()), "one6f6e650a");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn cookies_are_kept_and_filtered() {
    let parsed = "cookie.parse(req.http.cookie);";
    let cases: Vec<(String, &str)> = [
        ("", "a=1; b=2; c=3;"),
        ("cookie.keep(\"a, c\");", "a=1; c=3;"),
        ("cookie.filter(\"a,c\");", "b=2;"),
        ("cookie.keep_re(\"^[ab]$\");", "a=1; b=2;"),
        ("cookie.filter_re(\"^[ab]$\");", "c=3;"),
        ("cookie.delete(\"b\"); cookie.set(\"a\", \"9\"); cookie.set(\"d\", \"\");", "a=9; c=3;"),
        ("cookie.clean();", ""),
        ("cookie.parse(\"x=1=2; =3; y; z=5\");", "x=1=2; y; z=5;"),
    ]
    .into_iter()
    .map(|(recv, expected)| (format!("{parsed} {recv} set req.http.x = cookie.get_string();"), expected))
    .collect();
    for (recv, expected) in &cases {
        check(&[("", recv, expected)]);
    }
    check(&[
        (
            "",
            "cookie.parse(\"a=1\"); set req.http.x = cookie.get(\"a\") + cookie.isset(\"a\") + cookie.isset(\"b\") + cookie.get_re(\"^a\");",
            "1truefalse1",
        ),
        ("", "set req.http.x = cookie.format_date(std.time(integer=784111777), 1h);", "Sun, 06 Nov 1994 09:49:37 GMT"),
        (
            "",
            "set req.http.x = cookie.format_rfc1123(std.time(integer=784111777), 1h);",
            "Sun, 06 Nov 1994 09:49:37 GMT",
        ),
    ]);
}

#[test]
fn fields_with_one_name_are_told_apart() {
    check(&[
        ("", "set req.http.x = header.get(req.http.y, \"2\");", "2"),
        ("", "header.remove(req.http.y, \"1\"); set req.http.x = req.http.y;", "2"),
        ("", "header.append(req.http.y, \"3\"); std.collect(req.http.y); set req.http.x = req.http.y;", "1, 2, 3"),
        ("", "header.copy(req.http.y, req.http.x); std.collect(req.http.x);", "1, 2"),
        ("", "header.regsub(req, \"^Y: \", \"x: \"); std.collect(req.http.x);", "1, 2"),
        (
            "",
            "header.regsub(req, \"[12]\", \"9\", true); std.collect(req.http.y); set req.http.x = req.http.y;",
            "9, 9",
        ),
    ]);
}

#[test]
fn blobs_become_texts() {
    check(&[
        ("", "set req.http.x = blob.encode(HEX, UPPER, blob.decode(BASE64, encoded=\"+/8=\"));", "FBFF"),
        ("", "set req.http.x = blob.transcode(encoded=\"foo bar\", encoding=URL);", "foo%20bar"),
        (
            "",
            "set req.http.x = blob.encode(blob=blob.decode(HEX, encoded=\"6g\"));",
            "failed: vmod blob error: cannot decode, illegal encoding beginning with \"6g\"",
        ),
        ("", "set req.http.x = blob.encode(BASE64, blob=blob.sub(blob.decode(encoded=\"foobar\"), 3B, 3B));", "YmFy"),
        (
            "new b = blob.blob(BASE64, \"YmxvYg==\");",
            "set req.http.x = b.encode() + \" \" + b.encode(HEX, UPPER) + \" \" + blob.same(b.get(), b.get());",
            "blob 626C6F62 true",
        ),
        ("", "set req.http.x = blob.length(blob.decode(encoded=\"\"));", "0"),
    ]);
    let bad = program("new b = blob.blob(HEX, \"xy\");", "");
    let why = loaded(&bad, Arc::new(AllHealthy)).unwrap_err();
    assert_eq!(why, "vmod blob error: cannot create blob b, illegal encoding beginning with \"xy\"");
}

#[test]
fn directors_choose() {
    check(&[
        (
            "new d = directors.round_robin(); d.add_backend(s1); d.add_backend(s2); d.add_backend(s3);",
            "set req.http.x = d.backend() + \" \" + d.backend().resolve() + \" \" + d.backend().resolve() + \" \" + d.backend().resolve();",
            "d s1 s3 s1",
        ),
        (
            "new d = directors.fallback(); d.add_backend(s2); d.add_backend(s3);",
            "set req.http.x = d.backend().resolve();",
            "s3",
        ),
        (
            "new d = directors.random(); d.add_backend(s2, 10); d.add_backend(s3, 1);",
            "set req.http.x = d.backend().resolve() + \" \" + std.healthy(d.backend());",
            "s3 true",
        ),
        (
            "new d = directors.random(); d.add_backend(s2, 10);",
            "set req.http.x = d.backend().resolve() + \"-\" + std.healthy(d.backend());",
            "-false",
        ),
        (
            "new d = directors.hash(); d.add_backend(s1, 1); d.add_backend(s2, 1); d.add_backend(s3, 1);",
            "set req.http.x = d.backend(\"/1\") + \" \" + d.backend(\"/3\");",
            "s3 s1",
        ),
        (
            "new d = directors.round_robin(); d.add_backend(directors.lookup(\"s3\"));",
            "set req.http.x = d.backend().resolve();",
            "s3",
        ),
        (
            "",
            "set req.backend_hint = directors.lookup(\"s3\");",
            "failed: lookup() may only be called from vcl_init / vcl_fini",
        ),
        (
            "new d = directors.round_robin();",
            "d.add_backend(vtc.no_backend());",
            "failed: d: None backend cannot be added",
        ),
    ]);
}

const RING: &str = "new d = directors.shard(); d.add_backend(s1); d.add_backend(s2); d.add_backend(s3);";

#[test]
fn a_shard_director_goes_by_keys() {
    let healthy = |init: &str, recv: &str| {
        let loaded = loaded(&program(init, recv), Arc::new(AllHealthy)).unwrap();
        outcome(&loaded, "", Connection::default())
    };
    let explicit = format!("{RING} d.reconfigure(25);");
    let by_blob =
        |key: &str| format!("set req.http.x = d.backend(by=BLOB, key_blob=blob.decode(HEX, encoded=\"{key}\"));");
    for (key, expected) in [("68b902f8", "s1"), ("39dc4614", "s2"), ("c7793506", "s3")] {
        assert_eq!(healthy(&explicit, &by_blob(key)), expected);
    }
    // Without `reconfigure` the ring is made at the end of vcl_init. The key of the cache is there for backends only.
    let by_key = healthy(RING, "set req.http.x = d.backend(by=KEY, key=d.key(req.url));");
    assert_eq!(healthy(RING, "set req.http.x = d.backend(by=URL);"), by_key);
    assert_eq!(healthy(RING, "set req.http.x = d.backend();"), by_key);
    assert!(by_key.starts_with('s'), "{by_key}");
    for (recv, expected) in [
        (
            "set req.http.x = d.backend(by=KEY);",
            "failed: vmod_directors: shard d: shard.backend() missing key argument with by=KEY",
        ),
        (
            "set req.http.x = d.backend(by=KEY, key=-1);",
            "failed: vmod_directors: shard d: shard.backend() invalid key argument -1 with by=KEY",
        ),
        (
            "set req.http.x = d.backend(alt=-1);",
            "failed: vmod_directors: shard d: shard.backend() invalid alt argument -1",
        ),
        (
            "set req.http.x = d.backend(resolve=LAZY, alt=1);",
            "failed: vmod_directors: shard d: .backend(resolve=LAZY) with other parameters can only be used in backend/pipe context",
        ),
        (
            "set req.http.x = d.backend(param=blob.decode(encoded=\"x\"));",
            "failed: vmod_directors: shard d: .backend(key_blob) param invalid",
        ),
        ("set req.http.x = d.backend(resolve=LAZY);", "d"),
        ("set req.http.x = d.remove_backend(s1) + d.clear() + d.reconfigure();", "truetruefalse"),
    ] {
        assert_eq!(healthy(RING, recv), expected, "{recv}");
    }
    let set =
        format!("{RING} new p = directors.shard_param(); p.set(by=KEY, key=1760116472, alt=1); d.associate(p.use());");
    assert_eq!(
        healthy(&set, "set req.http.x = p.get_by() + p.get_key() + p.get_alt() + p.get_rampup() + p.get_healthy();"),
        "KEY17601164721trueCHOSEN"
    );
    let (associated, said) = (
        healthy(&set, "set req.http.x = d.backend();"),
        healthy(RING, "set req.http.x = d.backend(by=KEY, key=1760116472, alt=1);"),
    );
    assert_eq!(associated, said);
    assert_eq!(
        healthy(&set, "p.set(alt=2);"),
        "failed: vmod_directors: shard p: shard_param.set() may only be used in vcl_init and in backend/pipe context"
    );
}

#[test]
fn who_asks_too_much_is_denied() {
    check(&[
        (
            "",
            "set req.http.x = vsthrottle.is_denied(\"k\", 1, 10s) + \" \" + vsthrottle.is_denied(\"k\", 1, 10s) + \" \" + vsthrottle.remaining(\"k\", 1, 10s);",
            "false true 0",
        ),
        (
            "",
            "if (vsthrottle.is_denied(\"k\", 1, 10s)) { } vsthrottle.return_token(\"k\", 1, 10s); set req.http.x = vsthrottle.remaining(\"k\", 1, 10s);",
            "1",
        ),
        (
            "",
            "set req.http.x = vsthrottle.is_denied(req.http.none, 1, 10s) + \" \" + vsthrottle.blocked(\"k\", 1, 10s, 5s);",
            "true 0.000",
        ),
    ]);
}

#[test]
fn what_is_not_here_is_said() {
    check(&[
        ("", "set req.http.x = unix.uid() + \" \" + unix.user() + \"-\";", "-1 -"),
        ("", "set req.http.x = proxy.is_ssl() + proxy.alpn() + proxy.ssl_verify_result();", "false0"),
        ("", "vtc.panic(\"now\");", "failed: vtc.panic(\"now\") is refused: a program cannot end the worker"),
        ("", "set req.http.x = vtc.typesize(\"cpi\");", "24"),
        (
            "",
            "set req.http.x = blob.encode(blob=vtc.proxy_header(v1, \"192.0.2.1\", \"192.0.2.2\")) ;",
            "failed: Bad header x: its value has a line break",
        ),
        ("", "set req.http.x = xkey.purge(\"a b\");", "0"),
        ("", "vtc.workspace_alloc(client, 10);", "failed: vtc.workspace_alloc() is not there yet"),
    ]);
}

#[test]
fn purging_is_for_hits_and_misses() {
    let text = program("", "return (hash);")
        .replace("sub vcl_recv", "sub vcl_miss { set req.http.x = purge.hard() + \" \" + purge.soft(0s, 10s); return (synth(200)); } sub vcl_recv");
    let loaded = loaded(&text, Arc::new(AllHealthy)).unwrap();
    assert_eq!(outcome(&loaded, "", Connection::default()), "0 0");
    check(&[("", "set req.http.x = purge.hard();", "failed: purge can only happen in vcl_hit{} or vcl_miss{}")]);
}

#[test]
fn connections_tell_who_is_there() {
    let text =
        program("", "set req.http.x = unix.uid() + \" \" + unix.gid() + \" \" + unix.user() + \" \" + unix.group();");
    let of_root = Connection { credentials: Some((0, 0)), ..Connection::default() };
    assert_eq!(outcome(&loaded(&text, Arc::new(AllHealthy)).unwrap(), "", of_root), "0 0 root root");

    let text = program(
        "",
        "set req.http.x = proxy.authority() + \" \" + proxy.alpn() + \" \" + proxy.is_ssl() + \" \" + \
                            proxy.client_has_cert_conn() + \" \" + proxy.ssl_verify_result() + \" \" + proxy.ssl_version() + \" \" + proxy.client_cert_cn();",
    );
    let mut tls = vec![3, 0, 0, 0, 9];
    for (kind, value) in [(0x21_u8, &b"TLSv1.3"[..]), (0x22, b"me")] {
        tls.extend([kind, 0, value.len() as u8]);
        tls.extend(value);
    }
    let mut tlvs = Vec::new();
    for (kind, value) in [(2_u8, &b"example.com"[..]), (1, b"h2"), (0x20, &tls)] {
        tlvs.extend([kind, 0, value.len() as u8]);
        tlvs.extend(value);
    }
    let connection = Connection { proxy_tlvs: Some(tlvs.into()), ..Connection::default() };
    let found = outcome(&loaded(&text, Arc::new(AllHealthy)).unwrap(), "", connection);
    assert_eq!(found, "example.com h2 true true 9 TLSv1.3 me");
}

/// Wrong calls, in Varnish's words.
#[test]
fn wrong_calls_do_not_compile() {
    for (recv, expected) in [
        ("std.nope();", "Symbol not found: 'std.nope'"),
        ("set req.http.x = std.random(1.0);", "Argument 'hi' missing"),
        ("set req.http.x = std.duration(real=\"a\");", "Expression has type STRING, expected REAL"),
        ("set req.http.x = std.duration(nope=1);", "Unknown argument 'nope'"),
        ("set req.http.x = std.duration(\"1s\", s=\"2s\");", "Argument 's' already used"),
        ("set req.http.x = blob.encode(ROT13, blob=blob.decode(encoded=\"a\"));", "Wrong enum value."),
        ("set req.http.x = proxy.alpn(1);", "Expected ')' got '1'"),
        ("new d = directors.shard();", "Not available in subroutine 'vcl_recv'."),
    ] {
        let text = program("", recv);
        let message = match vcl::compile("test.vcl", &text, &Options { unused_is_error: false, ..Options::default() }) {
            Ok(_) => panic!("compiles: {recv}"),
            Err(wrong) => wrong.message(),
        };
        assert!(message.contains(expected), "{recv}\n{message}");
    }
}
