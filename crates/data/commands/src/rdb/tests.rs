use super::*;

fn building() -> Building {
    Building::new(7, &Settings::default())
}

fn string(text: &[u8]) -> Value {
    Value::String(Bytes::from_slice(text))
}

fn text_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(string) => string.to_vec(),
        other => panic!("not a string: {other:?}"),
    }
}

#[test]
fn strings_come_back() {
    let long = b"abc".repeat(100);
    let large = vec![b'x'; 70_000];
    for text in [&b""[..], b"a", b"12", b"-129", b"70000", b"2147483648", b"012", b"-0", &long, &large] {
        let mut record = Vec::new();
        encode_value(&string(text), &mut record);
        assert_eq!(text_of(&decode_value(&record, &building()).unwrap()), text);
        let mut payload = Vec::new();
        encode_payload(&string(text), &mut payload);
        assert_eq!(text_of(&decode_payload(&payload, &building()).unwrap()), text);
        assert!(text.len() < 300 || payload.len() < text.len() / 10);
    }
}

/// What Redis 7.0.15 answered to DUMP.
#[test]
fn payloads_of_redis_are_read_and_written() {
    for (text, payload) in [
        (&b"bar"[..], &b"\x00\x03bar\x0a\x00\xe6\xbeI`\xeef\xfd\x17"[..]),
        (b"12", b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5"),
    ] {
        let mut written = Vec::new();
        encode_payload(&string(text), &mut written);
        assert_eq!(written, payload, "{}", payload.escape_ascii());
        assert_eq!(text_of(&decode_payload(payload, &building()).unwrap()), text);
    }
}

#[test]
fn broken_payloads_are_refused() {
    let mut payload = Vec::new();
    encode_payload(&string(b"bar"), &mut payload);
    for at in 0..payload.len() {
        let mut broken = payload.clone();
        broken[at] ^= 1;
        assert_eq!(decode_payload(&broken, &building()).unwrap_err(), RdbError::Footer);
        assert!(decode_payload(&payload[..at], &building()).is_err());
    }
    for (record, error) in [
        (&b""[..], RdbError::Truncated),
        (b"\x00", RdbError::Truncated),
        (b"\x00\x03ab", RdbError::Truncated),
        (b"\x00\x03abcd", RdbError::Surplus),
        (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", RdbError::Truncated),
        (b"\x00\x82", RdbError::Format("length")),
        (b"\x00\xc4", RdbError::Format("form of a string")),
        (b"\x00\xc3\x01\x81\xff\xff\xff\xff\xff\xff\xff\xffa", RdbError::Format("compressed string")),
        (b"\x07", RdbError::Type(7)),
    ] {
        assert_eq!(decode_value(record, &building()).unwrap_err(), error, "{}", record.escape_ascii());
    }
}
