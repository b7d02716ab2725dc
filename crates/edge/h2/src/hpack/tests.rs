//! Whole blocks: the standard's examples, what encoder and decoder make of each other, and what is wrong.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    proptest,
};

use super::*;

const LIMITS: HeaderLimits = HeaderLimits { fields: 100, bytes: 16_384 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, DecodeError<()>> {
    let mut fields = Vec::new();
    decoder.decode(block, &LIMITS, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
        Ok(())
    })?;
    Ok(fields)
}

fn check(decoder: &mut Decoder, block: &str, expected: &[(&str, &str)]) {
    let expected: Fields =
        expected.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect();
    assert_eq!(decode(decoder, &bytes(block)).unwrap(), expected, "{block}");
}

#[test]
fn single_fields() {
    // RFC 7541 appendix C.2.
    let decoder = &mut Decoder::new(TABLE_SIZE_DEFAULT);
    check(
        decoder,
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        &[("custom-key", "custom-header")],
    );
    check(decoder, "040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")]);
    check(decoder, "1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")]);
    check(decoder, "82 be", &[(":method", "GET"), ("custom-key", "custom-header")]);
}

#[test]
fn requests_with_huffman_codes() {
    // RFC 7541 appendix C.4.
    let decoder = &mut Decoder::new(TABLE_SIZE_DEFAULT);
    let usual = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    check(decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", &usual);
    check(decoder, "8286 84be 5886 a8eb 1064 9cbf", &[&usual[..], &[("cache-control", "no-cache")]].concat());
    check(
        decoder,
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
    );
}

#[test]
fn responses_that_push_each_other_out() {
    // RFC 7541 appendix C.6.
    let decoder = &mut Decoder::new(256);
    let (date, location) = ("Mon, 21 Oct 2013 20:13:21 GMT", "https://www.example.com");
    let first = [(":status", "302"), ("cache-control", "private"), ("date", date), ("location", location)];
    check(
        decoder,
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
        &first,
    );
    check(decoder, "4883 640e ffc1 c0bf", &[&[(":status", "307")], &first[1..]].concat());
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    check(
        decoder,
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
         cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        &[
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", location),
            ("content-encoding", "gzip"),
            ("set-cookie", cookie),
        ],
    );
}

#[test]
fn wrong_blocks() {
    let check = |block: &str, expected: CompressionError| {
        let decoder = &mut Decoder::new(TABLE_SIZE_DEFAULT);
        assert_eq!(decode(decoder, &bytes(block)), Err(expected.into()), "{block}");
    };
    check("80", CompressionError::UnknownEntry(0));
    check("be", CompressionError::UnknownEntry(62));
    check("7f 80 80 80 80 80 00", CompressionError::NumberTooLarge);
    check("ff ff ff ff ff 7f", CompressionError::NumberTooLarge);
    check("ff 80 80 80 80 80 80 00", CompressionError::NumberTooLarge);
    check("ff", CompressionError::Truncated);
    check("40", CompressionError::Truncated);
    check("4003 6161", CompressionError::Truncated);
    check("0f 2f 00", CompressionError::UnknownEntry(62));
    check("4081 fe 00", CompressionError::Huffman);
    check("3f e2 1f", CompressionError::TableTooLarge { wanted: 4097, allowed: 4096 });
    check("82 20", CompressionError::LateTableSize);
}

#[test]
fn what_must_shrink_does_so_first() {
    let decoder = &mut Decoder::new(TABLE_SIZE_DEFAULT);
    check(decoder, "4001 6101 62", &[("a", "b")]);
    decoder.set_table_size_max(0);
    assert_eq!(decode(decoder, &bytes("82")), Err(CompressionError::MissingTableSize.into()));
    check(decoder, "20 82", &[(":method", "GET")]);
    assert_eq!(decode(decoder, &bytes("be")), Err(CompressionError::UnknownEntry(62).into()));
}

#[test]
fn what_is_too_large_leaves_the_tables_in_step() {
    let decoder = &mut Decoder::new(TABLE_SIZE_DEFAULT);
    // One field that is kept, between references to the static table.
    let block = bytes("82 84 4001 6101 62 84 84");
    let mut told = 0;
    let limits = HeaderLimits { fields: 2, bytes: 1_000 };
    let result = decoder.decode::<()>(&block, &limits, |_| {
        told += 1;
        Ok(())
    });
    assert_eq!((result, told), (Err(DecodeError::TooLarge(Exceeded::Fields(2))), 2));
    check(decoder, "be", &[("a", "b")]);
    let limits = HeaderLimits { fields: 100, bytes: 80 };
    let result = decoder.decode::<()>(&block, &limits, |_| Ok(()));
    // `:method: GET` counts 42, `:path: /` 38, and `a: b` is too much.
    assert_eq!(result, Err(DecodeError::TooLarge(Exceeded::Bytes(80))));
    check(decoder, "be bf", &[("a", "b"), ("a", "b")]);
    let result = decoder.decode(&block, &LIMITS, |field| if field.name == b":path" { Err("no") } else { Ok(()) });
    assert_eq!(result, Err(DecodeError::Refused("no")));
    check(decoder, "c0", &[("a", "b")]);
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)], how: Indexing) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in fields {
        encoder.field(&mut block, name.as_bytes(), value.as_bytes(), how);
    }
    block
}

#[test]
fn what_repeats_is_sent_once() {
    let (encoder, decoder) = (&mut Encoder::new(), &mut Decoder::new(TABLE_SIZE_DEFAULT));
    let fields = [(":status", "200"), ("content-type", "text/html; charset=utf-8"), ("x-served-by", "web-17")];
    let expected: Fields =
        fields.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect();
    let sizes = [0; 4].map(|_| {
        let block = encode(encoder, &fields, Indexing::Index);
        assert_eq!(decode(decoder, &block).unwrap(), expected);
        block.len()
    });
    assert_eq!(sizes[2..], [3, 3], "a byte each");
    assert!(sizes[0] > 40 && sizes[1] < sizes[0], "{sizes:?}");
    // Values that never repeat push nothing out.
    for number in 0..1_000 {
        let block = encode(encoder, &[("etag", &number.to_string())], Indexing::Index);
        decode(decoder, &block).unwrap();
    }
    assert_eq!(encode(encoder, &fields, Indexing::Index).len(), 3);
}

#[test]
fn what_is_sensitive_stays_out_of_tables() {
    let encoder = &mut Encoder::new();
    for _ in 0..3 {
        let block = encode(encoder, &[("set-cookie", "id=1"), ("x-key", "secret")], Indexing::Never);
        let mut sensitive = Vec::new();
        Decoder::new(0)
            .decode::<()>(&block, &LIMITS, |field| {
                sensitive.push(field.is_sensitive);
                Ok(())
            })
            .unwrap();
        assert_eq!(sensitive, [true, true]);
    }
}

#[test]
fn each_static_entry_is_found() {
    for (nth, (name, value)) in static_table::STATIC.iter().enumerate() {
        let mut block = Vec::new();
        Encoder::new().field(&mut block, name, value, Indexing::Plain);
        assert_eq!(block, [0x80 | (nth + 1) as u8], "{}", String::from_utf8_lossy(name));
    }
}

/// A step of a connection's life.
#[derive(Clone, Debug)]
enum Step {
    Block(Vec<(usize, usize, bool)>),
    Resize(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = vec((0..12_usize, 0..30_usize, any::<bool>()), 0..12).prop_map(Step::Block);
    let resize = prop_oneof![Just(0), Just(60), Just(200), Just(4096), Just(100_000)].prop_map(Step::Resize);
    vec(prop_oneof![6 => block, 1 => resize], 0..60)
}

proptest! {
    #[test]
    fn both_ends_stay_in_step(steps in steps()) {
        let (encoder, decoder) = (&mut Encoder::new(), &mut Decoder::new(TABLE_SIZE_DEFAULT));
        for step in steps {
            match step {
                Step::Resize(size) => {
                    // The other end's setting; the encoder learns of it when it is acknowledged.
                    decoder.set_table_size_max(size.min(TABLE_SIZE_DEFAULT));
                    encoder.set_table_size_max(size);
                }
                Step::Block(fields) => {
                    let mut block = Vec::new();
                    let mut expected = Vec::new();
                    encoder.begin(&mut block);
                    for (name, value, plain) in fields {
                        let name = match name {
                            0..4 => static_table::STATIC[name * 13].0.to_vec(),
                            _ => format!("x-name-{name}").into_bytes(),
                        };
                        let value = "v".repeat(value).into_bytes();
                        encoder.field(&mut block, &name, &value, if plain { Indexing::Plain } else { Indexing::Index });
                        expected.push((name, value));
                    }
                    assert_eq!(decode(decoder, &block).unwrap(), expected);
                }
            }
        }
    }

    #[test]
    fn anything_is_read_in_bounds(blocks in vec(vec(any::<u8>(), 0..80), 0..20)) {
        let mut decoder = Decoder::new(300);
        for block in blocks {
            let mut told = 0;
            let _ = decoder.decode::<()>(&block, &HeaderLimits { fields: 10, bytes: 600 }, |field| {
                told += field.name.len() + field.value.len() + FIELD_OVERHEAD;
                Ok(())
            });
            assert!(told <= 600);
        }
    }
}
