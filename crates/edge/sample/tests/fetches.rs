//! Every fetch on a context made by hand: what it finds, and what it says while it cannot tell.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sample::*;
use support::*;

fn inet(text: &str) -> Option<Address> {
    Some(Address::Inet(text.parse::<SocketAddr>().unwrap()))
}

fn stream() -> Stream {
    let mut stream = Stream::request("/a/b?x=1", &[("Host", "example.com"), ("Cookie", "a=1")]);
    stream.client = Some(Connection {
        source: inet("192.0.2.1:4000"),
        destination: inet("[2001:db8::2]:443"),
        original_source: inet("10.0.0.1:5000"),
        original_destination: inet("10.0.0.2:80"),
        http_major: 1,
        error_code: 31,
        error_text: "Connection closed",
        received_proxy: true,
        proxy_authority: Some(b"authority"),
        proxy_unique_id: Some(b"pp-id"),
        encrypted: true,
    });
    stream.upstream = Some(Connection {
        source: inet("10.9.0.1:33000"),
        destination: inet("10.9.0.2:8080"),
        http_major: 1,
        error_text: "Success",
        encrypted: false,
        ..Connection::default()
    });
    stream.backend = Some(Backend {
        id: 3,
        name: "app",
        server_timeout_ms: Some(30_000),
        tunnel_timeout_ms: None,
        current_server_timeout_ms: Some(1000),
        current_tunnel_timeout_ms: Some(2000),
        http: true,
    });
    stream.server = Some(Server { id: 4, name: "a" });
    stream.request_line = Some("GET /a/b?x=1 HTTP/1.1".to_owned());
    stream
}

/// Fetches that need more than one context, with what they find in `stream()`.
const VALUES: &[(&str, Option<&str>)] = &[
    ("always_true", Some("1")),
    ("always_false", Some("0")),
    ("bin(414243)", Some("ABC")),
    ("bool(FALSE)", Some("0")),
    ("date", Some("1700000000")),
    ("date(-10)", Some("1699999990")),
    ("date(0,ms)", Some("1700000000123")),
    ("date(1,us)", Some("1700000000123457")),
    ("date_us", Some("123456")),
    ("env(SITE)", Some("example")),
    ("hostname", Some("machine")),
    ("int(-3)", Some("-3")),
    ("ipv4(1.2.3.4)", Some("1.2.3.4")),
    ("ipv6(::1)", Some("::1")),
    ("meth(POST)", Some("POST")),
    ("nbproc", Some("1")),
    ("proc", Some("1")),
    ("thread", Some("3")),
    ("stopping", Some("0")),
    ("str(a b)", Some("a b")),
    ("src", Some("192.0.2.1")),
    ("src_port", Some("4000")),
    ("src_is_local", Some("0")),
    ("dst", Some("2001:db8::2")),
    ("dst_port", Some("443")),
    ("dst_is_local", Some("0")),
    ("fc_src", Some("10.0.0.1")),
    ("fc_src_port", Some("5000")),
    ("fc_src_is_local", Some("0")),
    ("fc_dst", Some("10.0.0.2")),
    ("fc_dst_port", Some("80")),
    ("fc_dst_is_local", Some("0")),
    ("fc_err", Some("31")),
    ("fc_err_str", Some("Connection closed")),
    ("fc_http_major", Some("1")),
    ("fc_rcvd_proxy", Some("1")),
    ("fc_pp_authority", Some("authority")),
    ("fc_pp_unique_id", Some("pp-id")),
    ("fc_rtt", Some("12")),
    ("fc_rtt(us)", Some("12345")),
    ("fc_rttvar", Some("0")),
    ("fc_rttvar(ms)", Some("0")),
    ("fc_lost", Some("3")),
    ("fc_unacked", Some("0")),
    ("fc_sacked", Some("0")),
    ("fc_retrans", Some("0")),
    ("fc_fackets", Some("0")),
    ("fc_reordering", Some("0")),
    ("bc_src", Some("10.9.0.1")),
    ("bc_src_port", Some("33000")),
    ("bc_dst", Some("10.9.0.2")),
    ("bc_dst_port", Some("8080")),
    ("bc_err", Some("0")),
    ("bc_err_str", Some("Success")),
    ("bc_http_major", Some("1")),
    ("ssl_fc", Some("1")),
    ("ssl_bc", Some("0")),
    ("ssl_fc_has_sni", Some("0")),
    ("ssl_fc_is_resumed", Some("0")),
    ("ssl_fc_has_crt", None),
    ("ssl_fc_sni", None),
    ("ssl_fc_err", None),
    ("ssl_fc_err_str", None),
    ("ssl_c_err", None),
    ("ssl_c_ca_err", None),
    ("ssl_c_used", None),
    ("ssl_c_verify", None),
    ("ssl_fc_cipher", None),
    ("ssl_fc_protocol", None),
    ("ssl_fc_alpn", None),
    ("ssl_c_ca_err_depth", None),
    ("ssl_c_chain_der", None),
    ("ssl_s_chain_der", None),
    ("ssl_fc_alg_keysize", None),
    ("ssl_fc_use_keysize", None),
    ("ssl_bc_alg_keysize", None),
    ("ssl_bc_use_keysize", None),
    ("ssl_bc_alpn", None),
    ("ssl_bc_cipher", None),
    ("ssl_bc_protocol", None),
    ("ssl_c_der", None),
    ("ssl_c_i_dn", None),
    ("ssl_c_key_alg", None),
    ("ssl_c_notafter", None),
    ("ssl_c_notbefore", None),
    ("ssl_c_s_dn", None),
    ("ssl_c_serial", None),
    ("ssl_c_sha1", None),
    ("ssl_c_sig_alg", None),
    ("ssl_c_version", None),
    ("ssl_f_der", None),
    ("ssl_f_i_dn", None),
    ("ssl_f_key_alg", None),
    ("ssl_f_notafter", None),
    ("ssl_f_notbefore", None),
    ("ssl_f_s_dn", None),
    ("ssl_f_serial", None),
    ("ssl_f_sha1", None),
    ("ssl_f_sig_alg", None),
    ("ssl_f_version", None),
    ("ssl_s_der", None),
    ("ssl_s_i_dn", None),
    ("ssl_s_key_alg", None),
    ("ssl_s_notafter", None),
    ("ssl_s_notbefore", None),
    ("ssl_s_s_dn", None),
    ("ssl_s_serial", None),
    ("ssl_s_sha1", None),
    ("ssl_s_sig_alg", None),
    ("ssl_s_version", None),
    ("ssl_bc_is_resumed", Some("0")),
    ("ssl_fc_cipherlist_bin", None),
    ("ssl_fc_cipherlist_hex", None),
    ("ssl_fc_cipherlist_str", None),
    ("ssl_fc_cipherlist_xxh", None),
    ("ssl_fc_ecformats_bin", None),
    ("ssl_fc_eclist_bin", None),
    ("ssl_fc_extlist_bin", None),
    ("ssl_fc_protocol_hello_id", None),
    ("ssl_fc_has_early", None),
    ("ssl_fc_npn", None),
    ("ssl_bc_npn", None),
    ("ssl_bc_err", None),
    ("ssl_bc_err_str", None),
    ("ssl_fc_client_random", None),
    ("ssl_fc_server_random", None),
    ("ssl_bc_client_random", None),
    ("ssl_bc_server_random", None),
    ("ssl_fc_session_key", None),
    ("ssl_fc_client_early_traffic_secret", None),
    ("ssl_fc_client_handshake_traffic_secret", None),
    ("ssl_fc_server_handshake_traffic_secret", None),
    ("ssl_fc_client_traffic_secret_0", None),
    ("ssl_fc_server_traffic_secret_0", None),
    ("ssl_fc_exporter_secret", None),
    ("avg_queue", None),
    ("avg_queue(app)", Some("3")),
    ("be_conn(app)", Some("21")),
    ("be_conn_free(app)", Some("22")),
    ("be_id", Some("3")),
    ("be_name", Some("app")),
    ("be_server_timeout", Some("30000")),
    ("be_sess_rate(app)", Some("23")),
    ("be_tunnel_timeout", Some("0")),
    ("connslots(app)", Some("-1")),
    ("cur_server_timeout", Some("1000")),
    ("cur_tunnel_timeout", Some("2000")),
    ("dst_conn", Some("17")),
    ("fe_client_timeout", Some("5000")),
    ("fe_conn", Some("11")),
    ("fe_conn(fe)", Some("11")),
    ("fe_conn(none)", None),
    ("fe_defbe", Some("app")),
    ("fe_id", Some("2")),
    ("fe_name", Some("fe")),
    ("fe_req_rate(fe)", Some("12")),
    ("fe_sess_rate(fe)", Some("13")),
    ("internal.strm.is_htx", Some("1")),
    ("last_rule_file", Some("a.cfg")),
    ("last_rule_line", Some("12")),
    ("nbsrv(app)", Some("2")),
    ("prio_class", Some("1")),
    ("prio_offset", Some("-2")),
    ("queue(app)", Some("5")),
    ("so_id", Some("9")),
    ("so_name", Some("front")),
    ("srv_conn(app/a)", Some("31")),
    ("srv_conn(a)", None),
    ("srv_conn_free(app/a)", Some("-1")),
    ("srv_id", Some("4")),
    ("srv_is_up(app/a)", Some("1")),
    ("srv_is_up(app/none)", None),
    ("srv_iweight(app/a)", Some("101")),
    ("srv_name", Some("a")),
    ("srv_queue(app/a)", Some("34")),
    ("srv_sess_rate(app/a)", Some("35")),
    ("srv_uweight(app/a)", Some("102")),
    ("srv_weight(app/a)", Some("100")),
    ("base", Some("example.com/a/b")),
    ("baseq", Some("example.com/a/b?x=1")),
    ("method", Some("GET")),
    ("path", Some("/a/b")),
    ("pathq", Some("/a/b?x=1")),
    ("query", Some("x=1")),
    ("url", Some("/a/b?x=1")),
    ("url_ip", None),
    ("url_port", None),
    ("urlp(x)", Some("1")),
    ("url_param(x)", Some("1")),
    ("urlp_val(x)", Some("1")),
    ("req.ver", Some("1.1")),
    ("req.proto_http", Some("1")),
    ("http_first_req", Some("1")),
    ("unique-id", Some("unique")),
    ("capture.req.method", Some("GET")),
    ("capture.req.uri", Some("/a/b?x=1")),
    ("capture.req.ver", Some("HTTP/1.1")),
    ("capture.req.hdr(0)", None),
    ("req.hdr(host)", Some("example.com")),
    ("hdr(host)", Some("example.com")),
    ("req.fhdr(host)", Some("example.com")),
    ("req.fhdr_cnt(host)", Some("1")),
    ("req.hdr_cnt(host)", Some("1")),
    ("hdr_cnt(host)", Some("1")),
    ("req.hdr_names", Some("host,cookie")),
    ("req.hdr_val(host)", Some("0")),
    ("hdr_val(host)", Some("0")),
    ("req.hdr_ip(host)", None),
    ("hdr_ip(host)", None),
    ("req.hdrs", Some("host: example.com\r\ncookie: a=1\r\n\r\n")),
    ("req.hdrs_bin", Some("\u{4}host\u{b}example.com\u{6}cookie\u{3}a=1\0\0")),
    ("req.cook(a)", Some("1")),
    ("cook(a)", Some("1")),
    ("cookie(a)", Some("1")),
    ("req.cook_cnt(a)", Some("1")),
    ("cook_cnt(a)", Some("1")),
    ("req.cook_val(a)", Some("1")),
    ("cook_val(a)", Some("1")),
    ("req.body", Some("")),
    ("req.body_len", Some("0")),
    ("req.body_size", Some("0")),
    ("req.body_param(x)", None),
    ("http_auth(admins)", None),
    ("http_auth_bearer", None),
    ("http_auth_group(admins)", None),
    ("http_auth_pass", None),
    ("http_auth_type", None),
    ("http_auth_user", None),
    ("var(txn.none)", None),
    ("wait_end", Some("1")),
    // The response is not looked at while the request is processed.
    ("res.hdr(server)", None),
    ("res.ver", None),
    ("status", None),
];

#[test]
fn values_while_a_request_is_processed() {
    let stream = stream();
    for (name, expected) in VALUES {
        let expression = expression(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut found = text(&expression, &stream, Options::REQUEST);
        if *name == "req.hdrs_bin" {
            // As text it would end at its first zero.
            let value = expression.evaluate(&stream, Options::REQUEST).value().unwrap().into_block().unwrap();
            found = Some(String::from_utf8_lossy(&value).into_owned());
        }
        assert_eq!(found.as_deref(), *expected, "{name}");
    }
}

#[test]
fn values_while_a_response_is_processed() {
    let mut stream = Stream::response(
        404,
        &[
            ("Server", "nginx"),
            ("Set-Cookie", "session=abc; Path=/; Secure"),
            ("Set-Cookie", "other=5"),
            ("X-List", "a, b"),
            ("X-Address", "10.1.1.1"),
            ("Content-Length", "12"),
        ],
    );
    stream.body = b"Hello".to_vec();
    stream.response_captures = vec![Some(b"captured".to_vec()), None];
    stream.response_buffer = Some(b"\x02ok".to_vec());
    for (name, expected) in [
        ("status", Some("404")),
        ("res.comp", Some("0")),
        ("res.comp_algo", None),
        ("res.ver", Some("1.1")),
        ("resp_ver", Some("1.1")),
        ("res.hdr(server)", Some("nginx")),
        ("shdr(server)", Some("nginx")),
        ("hdr(server)", Some("nginx")),
        ("res.hdr(x-list)", Some("b")),
        ("res.hdr(x-list,1)", Some("a")),
        ("res.fhdr(x-list)", Some("a, b")),
        ("res.fhdr_cnt(set-cookie)", Some("2")),
        ("res.hdr_cnt(x-list)", Some("2")),
        ("shdr_cnt(x-list)", Some("2")),
        ("res.hdr_ip(x-address)", Some("10.1.1.1")),
        ("shdr_ip(x-address)", Some("10.1.1.1")),
        ("res.hdr_val(content-length)", Some("12")),
        ("shdr_val(content-length)", Some("12")),
        ("res.hdr_names", Some("server,set-cookie,set-cookie,x-list,x-address,content-length")),
        ("res.hdrs,length", Some("134")),
        ("res.hdrs_bin,bytes(1,6)", Some("server")),
        ("res.cook(session)", Some("abc")),
        ("scook(session)", Some("abc")),
        ("cookie(session)", Some("abc")),
        // Attributes are no cookies.
        ("res.cook(Path)", None),
        ("res.cook", Some("abc")),
        ("res.cook_cnt", Some("2")),
        ("scook_cnt(session)", Some("1")),
        ("res.cook_val(other)", Some("5")),
        ("scook_val(other)", Some("5")),
        ("res.body", Some("Hello")),
        ("res.body_len", Some("5")),
        ("res.body_size", Some("5")),
        ("res.len", Some("3")),
        ("res.payload(1,2)", Some("ok")),
        ("payload(1,2)", Some("ok")),
        ("res.payload_lv(0,1)", Some("ok")),
        ("res.cache_hit", Some("1")),
        ("res.cache_name", Some("pages")),
        ("res.ssl_hello_type", None),
        ("rep_ssl_hello_type", None),
        ("capture.res.hdr(0)", Some("captured")),
        ("capture.res.hdr(1)", None),
        ("capture.res.ver", Some("HTTP/1.1")),
        ("method", Some("GET")),
        // The request is gone.
        ("req.hdr(host)", None),
        ("path", None),
        ("req.cook(a)", None),
        ("req.body", None),
        ("http_auth_user", None),
    ] {
        let expression = expression(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(text(&expression, &stream, Options::RESPONSE).as_deref(), expected, "{name}");
    }
}

#[test]
fn every_supported_fetch_is_tested() {
    // Those of this file, of the comparison with HAProxy, of the tests on raw bytes below, and of stick tables.
    let of_tables = support::stick::fetches();
    let tested: BTreeSet<&str> = VALUES
        .iter()
        .map(|(name, _)| *name)
        .chain(include_str!("data/expressions.txt").lines())
        .chain(include_str!("fetches.rs").split('"'))
        .chain(include_str!("stick_tables.rs").split('"'))
        .chain(of_tables.iter().map(|(text, ..)| text.as_str()))
        .map(|text| text.split(['(', ',']).next().unwrap_or_default())
        .collect();
    for fetch in fetches().filter(|fetch| fetch.state == State::Supported) {
        let is_tested =
            std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()).any(|name| tested.contains(name));
        assert!(is_tested, "{} is in no test", fetch.name);
    }
}

#[test]
fn random_values_are_in_their_range() {
    let stream = Stream::default();
    let (rand, bounded) = (expression("rand").unwrap(), expression("rand(10)").unwrap());
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let value = rand.integer(&stream, Options::REQUEST).unwrap();
        assert!((0..1 << 32).contains(&value), "{value}");
        seen.insert(bounded.integer(&stream, Options::REQUEST).unwrap());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let uuid = text(&expression("uuid()").unwrap(), &stream, Options::REQUEST).unwrap();
    let parts: Vec<&str> = uuid.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(parts[2].starts_with('4') && "89ab".contains(&parts[3][..1]), "{uuid}");
}

#[test]
fn absolute_targets_and_others() {
    for (uri, name, expected) in [
        ("http://10.1.2.3:8080/p?q", "url_ip", Some("10.1.2.3")),
        ("http://10.1.2.3:8080/p?q", "url_port", Some("8080")),
        ("HTTPS://10.1.2.3/", "url_port", Some("443")),
        ("http://10.1.2.3", "url_port", Some("80")),
        ("ftp://10.1.2.3/", "url_port", None),
        ("http://example.com/", "url_ip", None),
        ("http://example.com/p?q", "path", Some("/p")),
        ("http://example.com/p?q", "pathq", Some("/p?q")),
        ("http://example.com/p?q", "query", Some("q")),
        ("http://example.com", "path", None),
        ("http://example.com?q/x", "path", None),
        ("*", "path", None),
        ("*", "base", None),
        ("example.com:443", "path", None),
        ("/p?", "query", Some("")),
        ("/p", "query", None),
    ] {
        let stream = Stream::request(uri, &[]);
        let found = text(&expression(name).unwrap(), &stream, Options::REQUEST);
        assert_eq!(found.as_deref(), expected, "{name} of {uri}");
    }
}

#[test]
fn what_is_not_there_yet_may_still_come() {
    let stream = Stream { has_request: false, request_buffer: Some(b"GE".to_vec()), ..Stream::default() };
    for (name, partial, complete) in [
        ("path", Fetched::NotYet, Fetched::Missing),
        ("req.hdr(host)", Fetched::NotYet, Fetched::Missing),
        ("req.proto_http", Fetched::NotYet, Fetched::Missing),
        ("wait_end", Fetched::NotYet, Fetched::Value(Value::Bool(true))),
        ("req.len", Fetched::Changing(Value::Sint(2)), Fetched::Value(Value::Sint(2))),
        ("req.len,add(1)", Fetched::Changing(Value::Sint(3)), Fetched::Value(Value::Sint(3))),
        ("req.payload(0,2)", Fetched::Value(Value::bin("GE")), Fetched::Value(Value::bin("GE"))),
        ("req.payload(0,3)", Fetched::NotYet, Fetched::Missing),
        ("req.payload(0,0)", Fetched::Changing(Value::bin("GE")), Fetched::Value(Value::bin("GE"))),
        ("req.payload(0,100000)", Fetched::Missing, Fetched::Missing),
        ("req.payload(3,0)", Fetched::NotYet, Fetched::Missing),
        ("req.payload(0,0),b64dec", Fetched::NotYet, Fetched::Missing),
        ("date,mul(0)", Fetched::Changing(Value::Sint(0)), Fetched::Value(Value::Sint(0))),
        ("str(x)", Fetched::Value(Value::str("x")), Fetched::Value(Value::str("x"))),
        ("src", Fetched::Missing, Fetched::Missing),
        ("res.len", Fetched::Changing(Value::Sint(2)), Fetched::Value(Value::Sint(2))),
    ] {
        let expression = expression(name).unwrap();
        assert_eq!(expression.evaluate(&stream, Options::REQUEST_PARTIAL), partial, "{name} so far");
        assert_eq!(expression.evaluate(&stream, Options::REQUEST), complete, "{name} in the end");
    }
}

/// A client hello with these extensions.
fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, data) in extensions {
        list.extend_from_slice(&kind.to_be_bytes());
        list.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        list.extend_from_slice(data);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&u16::try_from(list.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&list);
    let mut message = vec![1, 0];
    message.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&body);
    let mut record = vec![0x16, 3, 1];
    record.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
    record.extend_from_slice(&message);
    record
}

fn on_bytes(name: &str, bytes: &[u8], options: Options) -> Fetched<'static> {
    let stream = Stream { has_request: false, request_buffer: Some(bytes.to_vec()), ..Stream::default() };
    let expression = expression(name).unwrap();
    match expression.evaluate(&stream, options) {
        Fetched::Value(value) => Fetched::Value(value.into_static()),
        Fetched::Changing(value) => Fetched::Changing(value.into_static()),
        Fetched::Missing => Fetched::Missing,
        Fetched::NotYet => Fetched::NotYet,
    }
}

#[test]
fn tls_client_hello() {
    let sni = b"\x00\x0e\x00\x00\x0bexample.com";
    let alpn = b"\x00\x0c\x02h2\x08http/1.1";
    let full = hello(&[(0, sni), (10, b"\x00\x02\x00\x1d"), (16, alpn), (35, b"")]);
    let bare = hello(&[]);
    for (name, bytes, expected) in [
        ("req.ssl_sni", &full, Fetched::Value(Value::str("example.com"))),
        ("req_ssl_sni", &full, Fetched::Value(Value::str("example.com"))),
        ("req.ssl_alpn", &full, Fetched::Value(Value::str("h2"))),
        ("req.ssl_ec_ext", &full, Fetched::Value(Value::Bool(true))),
        ("req.ssl_st_ext", &full, Fetched::Value(Value::Sint(1))),
        ("req.ssl_hello_type", &full, Fetched::Value(Value::Sint(1))),
        ("req.ssl_ver", &full, Fetched::Value(Value::Sint(0x3_0003))),
        ("req.ssl_sni", &bare, Fetched::Missing),
        ("req.ssl_alpn", &bare, Fetched::Missing),
        ("req.ssl_ec_ext", &bare, Fetched::Missing),
        ("req.ssl_ver", &bare, Fetched::Value(Value::Sint(0x3_0003))),
    ] {
        assert_eq!(on_bytes(name, bytes, Options::REQUEST), expected, "{name}");
    }
    let expression = expression("req.ssl_alpn").unwrap();
    let stream = Stream { request_buffer: Some(full.clone()), ..Stream::default() };
    let mut protocols = Vec::new();
    expression.each(&stream, Options::REQUEST, |value| {
        protocols.push(String::from_utf8_lossy(&value.into_text().unwrap()).into_owned());
        true
    });
    assert_eq!(protocols, ["h2", "http/1.1"]);
    // At every length before the last one nobody can tell, and nothing but a hello is a hello.
    for length in 0..full.len() {
        let prefix = &full[..length];
        for name in ["req.ssl_sni", "req.ssl_hello_type"] {
            assert_eq!(on_bytes(name, prefix, Options::REQUEST_PARTIAL), Fetched::NotYet, "{name} of {length} bytes");
        }
    }
    for other in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-x"] {
        assert_eq!(on_bytes("req.ssl_sni", other, Options::REQUEST_PARTIAL), Fetched::Missing);
        assert_eq!(on_bytes("req.ssl_hello_type", other, Options::REQUEST_PARTIAL), Fetched::Missing);
    }
    // Whatever bytes follow, they are read within their bounds.
    let mut random = 1u32;
    for _ in 0..2000 {
        let mut bytes = full.clone();
        for _ in 0..4 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (random >> 8) as usize % bytes.len();
            bytes[at] = random.to_be_bytes()[0];
        }
        for name in ["req.ssl_sni", "req.ssl_alpn", "req.ssl_ver", "req.ssl_st_ext", "req.ssl_hello_type"] {
            let _ = on_bytes(name, &bytes, Options::REQUEST);
        }
    }
}

#[test]
fn old_client_hello() {
    // SSL 2.0 format: 9 + 3 + 0 + 16 bytes follow the length.
    let mut bytes = vec![0x80, 28, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 5];
    bytes.extend_from_slice(&[9; 16]);
    assert_eq!(on_bytes("req_ssl_ver", &bytes, Options::REQUEST), Fetched::Value(Value::Sint(0x3_0001)));
    assert_eq!(on_bytes("req_ssl_ver", &bytes[..20], Options::REQUEST_PARTIAL), Fetched::NotYet);
    assert_eq!(on_bytes("req_ssl_ver", &bytes[..2], Options::REQUEST_PARTIAL), Fetched::NotYet);
    bytes[10] = 15;
    assert_eq!(on_bytes("req_ssl_ver", &bytes, Options::REQUEST), Fetched::Missing);
}

#[test]
fn lengths_before_bytes() {
    let bytes = b"\x01\x03abcdef";
    for (name, expected) in [
        ("req.payload_lv(1,1)", Fetched::Value(Value::bin("abc"))),
        ("payload_lv(1,1)", Fetched::Value(Value::bin("abc"))),
        ("req.payload_lv(1,1,4)", Fetched::Value(Value::bin("cde"))),
        ("req.payload_lv(1,1,+1)", Fetched::Value(Value::bin("bcd"))),
        ("req.payload_lv(1,1,-2)", Fetched::Value(Value::bin("\u{1}\u{3}a"))),
        ("req.payload_lv(0,1)", Fetched::Value(Value::bin("\u{3}"))),
        ("req.payload_lv(0,2)", Fetched::NotYet),
        ("req.payload_lv(0,2,16200)", Fetched::Missing),
        ("req.payload_lv(100,2)", Fetched::NotYet),
        ("payload(2,3)", Fetched::Value(Value::bin("abc"))),
    ] {
        assert_eq!(on_bytes(name, bytes, Options::REQUEST_PARTIAL), expected, "{name}");
    }
}

#[test]
fn remote_desktop_cookies() {
    let header = [3u8, 0, 0, 40, 35, 0xe0, 0, 0, 0, 0, 0];
    let request = |text: &str| [&header[..], text.as_bytes()].concat();
    for (name, text, expected) in [
        ("req.rdp_cookie", "Cookie: mstshash=user\r\n", Fetched::Value(Value::str("user"))),
        ("req.rdp_cookie(mstshash)", "Cookie: mstshash=user\r\n", Fetched::Value(Value::str("user"))),
        ("rdp_cookie(MSTShash)", "cookie:mstshash=user\r\n", Fetched::Value(Value::str("user"))),
        ("req.rdp_cookie(msts)", "Cookie: mstshash=user\r\n", Fetched::Missing),
        ("req.rdp_cookie_cnt(msts)", "Cookie: msts=1.2\r\n", Fetched::Value(Value::Sint(1))),
        ("rdp_cookie_cnt(msts)", "Cookie: mstshash=user\r\n", Fetched::Value(Value::Sint(0))),
        ("req.rdp_cookie", "Cookie: mstshash=us", Fetched::NotYet),
        ("req.rdp_cookie_cnt", "Cookie: mstshash=us", Fetched::NotYet),
        ("req.rdp_cookie", "Cook", Fetched::NotYet),
        ("req.rdp_cookie", "Cookie: nothing\r\n", Fetched::Missing),
        ("req.rdp_cookie", "Something else", Fetched::Missing),
    ] {
        assert_eq!(on_bytes(name, &request(text), Options::REQUEST_PARTIAL), expected, "{name} of {text:?}");
    }
}

#[test]
fn distcc_tokens() {
    let bytes = b"DIST00000001ARGC00000002ARGV00000003gccARGV00000002-cDOTI00000005";
    for (name, expected) in [
        ("distcc_param(DIST)", Fetched::Value(Value::Sint(1))),
        ("distcc_param(ARGV)", Fetched::Value(Value::Sint(3))),
        ("distcc_param(ARGV,2)", Fetched::Value(Value::Sint(2))),
        ("distcc_body(ARGV,2)", Fetched::Value(Value::bin("-c"))),
        ("distcc_body(ARGV)", Fetched::Value(Value::bin("gcc"))),
        ("distcc_body(DOTI)", Fetched::Changing(Value::bin(""))),
        ("distcc_param(NONE)", Fetched::NotYet),
    ] {
        assert_eq!(on_bytes(name, bytes, Options::REQUEST_PARTIAL), expected, "{name}");
    }
    assert_eq!(on_bytes("distcc_param(DIST)", b"not a distcc token", Options::REQUEST_PARTIAL), Fetched::Missing);
}

#[test]
fn references_are_kept_for_the_end() {
    let files = Files::default();
    with_parser(&files, |parser| {
        for text in ["nbsrv(other)", "nbsrv", "srv_is_up(b/s)", "srv_is_up(s)", "http_auth(list)", "fe_conn"] {
            Expression::parse_text(text, parser).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let found: Vec<_> = parser.references.iter().map(|found| (found.kind, found.name.as_str())).collect();
        let expected = [
            (ReferenceKind::Backend, "other"),
            (ReferenceKind::Backend, "fe"),
            (ReferenceKind::Server, "b/s"),
            (ReferenceKind::Server, "fe/s"),
            (ReferenceKind::UserList, "list"),
            (ReferenceKind::Frontend, "fe"),
        ];
        assert_eq!(found, expected);
        assert_eq!((parser.references[0].line, parser.references[0].position), (7, 1));
    });
}

#[test]
fn what_is_not_supported_says_so() {
    let error = expression("ssl_fc_session_id").unwrap_err();
    let expected = "fetch method 'ssl_fc_session_id' is not supported yet: it comes with identifiers and keys of TLS sessions, which the library of TLS does not give away";
    assert_eq!((error.to_string().as_str(), error.kind()), (expected, ErrorKind::Unsupported));
    let error = expression("pathh").unwrap_err();
    assert_eq!(error.to_string(), "unknown fetch method 'pathh', did you mean 'path' ?");
    assert_eq!((error.culprit(), error.suggestion()), (Some("pathh"), Some("path")));
    assert_eq!(expression("path,lowr").unwrap_err().suggestion(), Some("lower"));
}
