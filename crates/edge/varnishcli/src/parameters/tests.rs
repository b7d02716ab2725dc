use proptest::prelude::*;

use super::{table, value::Value, *};

#[test]
fn every_row_is_sound() {
    let parameters = Parameters::default();
    assert!(table::ALL.is_sorted_by_key(|specification| specification.name));
    for specification in table::ALL {
        let name = specification.name;
        if specification.effect == Effect::Unavailable {
            continue;
        }
        let value = Value::parse(&specification.kind, specification.default, None)
            .unwrap_or_else(|error| panic!("{name} = {}: {error}", specification.default));
        // It is shown as it stands in the table.
        assert_eq!(value.text(&specification.kind), specification.default, "{name}");
        assert!(parameters.is_default(name), "{name}");
        let (least, most) = parameters.bounds(name);
        value
            .check(&specification.kind, least.as_deref(), most.as_deref())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!specification.doc.is_empty() && !specification.doc.ends_with(char::is_whitespace), "{name}");
    }
}

#[test]
fn values_are_read_and_shown_as_in_varnish() {
    let cases = [
        ("default_ttl", "10", Ok("10.000")),
        ("default_ttl", "0.5", Ok("0.500")),
        ("default_ttl", "x", Err("Invalid number (x)\n")),
        ("default_ttl", "-1", Err("Must be greater or equal to 0.000\n")),
        ("default_ttl", "1e3", Err("Invalid number (1e3)\n")),
        ("acceptor_sleep_decay", "0.25", Ok("0.25")),
        ("acceptor_sleep_decay", "2", Err("Must be less than or equal to 1\n")),
        ("auto_restart", "FALSE", Ok("off")),
        ("auto_restart", "maybe", Err("use \"on\" or \"off\"\n")),
        ("thread_pools", "99", Err("Must be no more than 32\n")),
        ("thread_pools", "0", Err("Must be at least 1\n")),
        ("max_retries", "unlimited", Ok("unlimited")),
        ("max_retries", "0x10", Ok("16")),
        ("max_retries", "4x", Err("Not a number (4x)\n")),
        ("vsl_space", "1048576", Ok("1M")),
        ("vsl_space", "1.5M", Ok("1.50M")),
        ("vsl_space", "100", Err("Must be at least 1M\n")),
        ("cli_limit", "1000b", Ok("1000b")),
        ("workspace_client", "256k", Ok("0.25M")),
        ("pool_req", "1,2,3", Ok("1,2,3")),
        ("pool_req", "3,2,1", Err("min_pool cannot be larger than max_pool\n")),
        ("feature", "+http2", Ok("+http2,+validate_headers")),
        ("feature", "-validate_headers", Ok("none")),
        ("feature", "none", Ok("none")),
        ("feature", "xx", Err("Missing '+' or '-' (xx)\n")),
        ("feature", "+xx", Err("Unknown feature bit (+xx)\n")),
        ("debug", "+syncvsl, +vclrel", Ok("+syncvsl,+vclrel")),
        ("vcl_path", "/a:/b", Ok("/a:/b")),
    ];
    for (name, text, expected) in cases {
        let mut parameters = Parameters::default();
        let result = parameters.set(name, text).map_err(|error| error.to_string());
        match expected {
            Ok(expected) => {
                assert_eq!(result, Ok(()), "{name} {text}");
                assert_eq!(parameters.text(name), expected, "{name} {text}");
                parameters.reset(name).unwrap();
            }
            Err(expected) => assert_eq!(result, Err(expected.to_owned()), "{name} {text}"),
        }
        assert!(parameters.is_default(name), "{name} {text}");
    }
}

#[test]
fn bounds_follow_other_parameters() {
    let mut parameters = Parameters::default();
    parameters.set("thread_pool_max", "200").unwrap();
    assert!(parameters.set("thread_pool_min", "201").is_err());
    parameters.set("vsl_reclen", "1000").unwrap();
    assert_eq!(parameters.set("vsl_buffer", "500").unwrap_err().to_string(), "Must be at least 1012\n");
}

#[test]
fn what_is_protected_or_refused_stays() {
    let mut parameters = Parameters::default();
    parameters.protect("cc_command,vcc_allow_inline_c").unwrap();
    assert_eq!(parameters.set("vcc_allow_inline_c", "on").unwrap_err().status, Status::Authentication);
    assert!(parameters.protect("nope").is_err());
    let mut parameters = Parameters::default();
    assert_eq!(parameters.set("vcc_allow_inline_c", "on").unwrap_err().status, Status::Cannot);
    parameters.set("vcc_allow_inline_c", "off").unwrap();
    assert_eq!(parameters.set("accept_filter", "on").unwrap_err().status, Status::Cannot);
}

#[test]
fn sets_are_asked_by_name() {
    let mut parameters = Parameters::default();
    assert!(parameters.has(Param::feature, "validate_headers"));
    assert!(parameters.has(Param::vsl_mask, "VCL_trace"));
    parameters.set("vsl_mask", "+VCL_trace").unwrap();
    assert!(!parameters.has(Param::vsl_mask, "VCL_trace"));
    parameters.set("vsl_mask", "default").unwrap();
    assert!(parameters.is_default("vsl_mask"));
}

proptest! {
    /// What is shown can be set again, and is the same then.
    #[test]
    fn what_is_shown_is_read_again(at in 0..table::ALL.len(), text in "[-+0-9a-zA-Z.,_ ]{0,12}") {
        let name = table::ALL[at].name;
        let mut parameters = Parameters::default();
        if parameters.set(name, &text).is_ok() && !matches!(table::ALL[at].kind, Kind::Timeout | Kind::Bits { .. } | Kind::Bytes) {
            let shown = parameters.text(name);
            let mut other = Parameters::default();
            prop_assert_eq!(other.set(name, &shown), Ok(()));
            prop_assert_eq!(other.text(name), shown);
        }
    }
}
