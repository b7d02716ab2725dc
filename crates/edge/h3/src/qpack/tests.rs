//! Whole sections: the standard's examples, what another implementation writes, and what is wrong.

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_oneof},
    proptest,
};

use super::*;

const LIMITS: HeaderLimits = HeaderLimits { fields: 100, bytes: 16_384 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn fields(of: &[(&str, &str)]) -> Fields {
    of.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Fields, DecodeError<()>> {
    let mut fields = Vec::new();
    decoder.decode(stream, section, &LIMITS, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
        Ok(())
    })?;
    Ok(fields)
}

#[track_caller]
fn check(decoder: &mut Decoder, stream: u64, section: &str, expected: &[(&str, &str)]) {
    assert_eq!(decode(decoder, stream, &bytes(section)), Ok(fields(expected)), "{section}");
}

#[track_caller]
fn says(decoder: &mut Decoder, expected: &str) {
    assert_eq!(std::mem::take(decoder.said()), bytes(expected));
}

#[test]
fn the_standards_examples() {
    // RFC 9204 appendix B.1: a literal with the name of a static entry.
    let decoder = &mut Decoder::new(220);
    check(decoder, 0, "0000 510b 2f69 6e64 6578 2e68 746d 6c", &[(":path", "/index.html")]);
    // B.2: two entries, and a section that counts backwards from a base behind them.
    let instructions = "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468";
    assert_eq!(decoder.read_encoder_stream(&bytes(instructions)), Ok(2));
    says(decoder, "02");
    check(decoder, 4, "0381 10 11", &[(":authority", "www.example.com"), (":path", "/sample/path")]);
    says(decoder, "84");
    // B.3: a name of its own.
    let instructions = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    assert_eq!(decoder.read_encoder_stream(&bytes(instructions)), Ok(1));
    says(decoder, "01");
    // B.4: the first one again, and a section that needs all four.
    assert_eq!(decoder.read_encoder_stream(&bytes("02")), Ok(1));
    says(decoder, "01");
    let section = [(":authority", "www.example.com"), (":path", "/"), ("custom-key", "custom-value")];
    check(decoder, 8, "0500 80 c1 81", &section);
    decoder.cancel(8);
    says(decoder, "88 48");
    // B.5: another value of the third, for which the oldest has to go.
    assert_eq!(decoder.read_encoder_stream(&bytes("810d 6375 7374 6f6d 2d76 616c 7565 32")), Ok(1));
    check(
        decoder,
        12,
        "0600 80 81 82 83",
        &[
            ("custom-key", "custom-value2"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
            (":path", "/sample/path"),
        ],
    );
    assert_eq!(decode(decoder, 12, &bytes("0600 84")), Err(CompressionError::UnknownEntry(4).into()));
}

#[test]
fn what_ls_qpack_writes_is_read() {
    // Made by ls-qpack's encoder (pylsqpack 1.0.0), with a table of 4096 bytes.
    let decoder = &mut Decoder::new(4_096);
    let request = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "www.example.com"),
        (":path", "/a"),
        ("user-agent", "curl/8"),
        ("x-custom", "value-1"),
    ];
    assert_eq!(decoder.read_encoder_stream(&bytes("3fe11f")), Ok(0));
    let literal = "0000d1d7508cf1e3c2e5f23a6ba0ab90f4ff51022f615f508525b650c3df2ef2b12d424f4f85ee3a2d2ac1";
    check(decoder, 0, literal, &request);
    let instructions = "c08cf1e3c2e5f23a6ba0ab90f4ffc1022f61ff208525b650c3df66f2b12d424f4f85ee3a2d2ac1";
    assert_eq!(decode(decoder, 4, &bytes("0583d1d710111213")), Err(CompressionError::Blocked.into()));
    assert_eq!(decoder.read_encoder_stream(&bytes(instructions)), Ok(4));
    says(decoder, "04");
    check(decoder, 4, "0583d1d710111213", &request);
    says(decoder, "84");
    check(decoder, 8, "0500d1d783828180", &request);
    says(decoder, "88");
}

#[test]
fn wrong_sections() {
    let check = |section: &str, expected: CompressionError| {
        let decoder = &mut Decoder::new(64);
        assert_eq!(decode(decoder, 0, &bytes(section)), Err(expected.into()), "{section}");
    };
    check("", CompressionError::Truncated);
    check("00", CompressionError::Truncated);
    // Behind the last static entry.
    check("0000 ff24", CompressionError::UnknownEntry(99));
    check("0000 5f54 00", CompressionError::UnknownEntry(99));
    // No table, and nothing in it.
    check("0000 80", CompressionError::UnknownEntry(0));
    check("0000 40 00", CompressionError::UnknownEntry(0));
    check("0000 10", CompressionError::UnknownEntry(0));
    check("0000 00 00", CompressionError::UnknownEntry(0));
    check("0200", CompressionError::Blocked);
    // More entries than 64 bytes can have; a base below none.
    check("0500", CompressionError::RequiredCount);
    check("0080", CompressionError::RequiredCount);
    check("0000 2361", CompressionError::Truncated);
    check("0000 2161", CompressionError::Truncated);
    check("0000 29fe 00", CompressionError::Huffman);
    check("0000 ffffffffff7f", CompressionError::NumberTooLarge);
    let decoder = &mut Decoder::new(0);
    assert_eq!(decode(decoder, 0, &bytes("0200")), Err(CompressionError::RequiredCount.into()));
}

#[test]
fn wrong_instructions() {
    let check = |capacity: usize, instructions: &str, expected: CompressionError| {
        let decoder = &mut Decoder::new(capacity);
        assert_eq!(decoder.read_encoder_stream(&bytes(instructions)), Err(expected), "{instructions}");
    };
    check(0, "21", CompressionError::TableTooLarge { wanted: 1, allowed: 0 });
    check(0, "41 61 01 62", CompressionError::EntryTooLarge);
    check(64, "41 61 01 62", CompressionError::EntryTooLarge);
    check(
        64,
        "3f21 41 61 20 6161616161616161616161616161616161616161616161616161616161616161",
        CompressionError::EntryTooLarge,
    );
    check(64, "3f21 00", CompressionError::UnknownEntry(0));
    check(64, "3f21 80 00", CompressionError::UnknownEntry(0));
    check(64, "3f21 ff24 00", CompressionError::UnknownEntry(99));
    check(64, "3f ffffffff7f", CompressionError::NumberTooLarge);
    // What would never be kept is not gathered.
    let decoder = &mut Decoder::new(64);
    let start = [&[0x41, b'a', 0x7f, 0xff, 0xff, 0x03][..], &[b'x'; 300]].concat();
    assert_eq!(decoder.read_encoder_stream(&start), Ok(0));
    assert_eq!(decoder.read_encoder_stream(&[b'x'; 100]), Err(CompressionError::EntryTooLarge));
    // Nothing was sent that could be acknowledged.
    for (said, expected) in [
        ("40 7f01 41", Ok(3)),
        ("7f80808080808080808001", Err(CompressionError::NumberTooLarge)),
        ("80", Err(CompressionError::UnknownEntry(0))),
        ("01", Err(CompressionError::UnknownEntry(0))),
    ] {
        assert_eq!(DecoderStream::default().read(&bytes(said)), expected, "{said}");
        let mut stream = DecoderStream::default();
        let bitwise = bytes(said).iter().try_fold(0, |sum, byte| stream.read(&[*byte]).map(|count| sum + count));
        assert_eq!(bitwise, expected, "{said}");
    }
}

#[test]
fn limits_count_each_field() {
    let decoder = &mut Decoder::new(0);
    let section = [vec![0, 0], vec![0xd1; 1_000]].concat();
    let mut told = 0;
    let mut count = |limits: HeaderLimits| {
        told = 0;
        let result = decoder.decode::<()>(0, &section, &limits, |_| {
            told += 1;
            Ok(())
        });
        (result, told)
    };
    assert_eq!(
        count(HeaderLimits { fields: 100, bytes: 100_000 }),
        (Err(DecodeError::TooLarge(Exceeded::Fields(100))), 100)
    );
    // `:method: GET` counts 42.
    assert_eq!(
        count(HeaderLimits { fields: 10_000, bytes: 420 }),
        (Err(DecodeError::TooLarge(Exceeded::Bytes(420))), 10)
    );
}

fn encode(fields: &[(&str, &str)], how: Indexing) -> Vec<u8> {
    let mut section = Vec::new();
    begin(&mut section);
    for (name, value) in fields {
        field(&mut section, name.as_bytes(), value.as_bytes(), how);
    }
    section
}

#[test]
fn what_is_encoded_is_short() {
    // ls-qpack writes the same.
    let answer = [
        (":status", "200"),
        ("content-type", "text/html; charset=utf-8"),
        ("x-frame-options", "deny"),
        ("etag", "\"abc\""),
    ];
    assert_eq!(encode(&answer, Indexing::Plain), bytes("0000 d9 f4 ff22 5705 2261 6263 22"));
    assert_eq!(encode(&[("set-cookie", "id=1")], Indexing::Never), bytes("0000 7e 83 349007"));
    assert_eq!(encode(&[("x-key", "aaa")], Indexing::Plain), bytes("0000 2c f2b7 52fa 82 18c7"));
}

#[test]
fn what_is_sensitive_stays_so() {
    let section = encode(&[("set-cookie", "id=1"), ("x-key", "secret"), (":method", "GET")], Indexing::Never);
    let mut sensitive = Vec::new();
    Decoder::new(0)
        .decode::<()>(0, &section, &LIMITS, |field| {
            sensitive.push(field.is_sensitive);
            Ok(())
        })
        .unwrap();
    assert_eq!(sensitive, [true, true, true]);
}

#[test]
fn each_static_entry_is_found() {
    for (nth, (name, value)) in static_table::STATIC.iter().enumerate() {
        let mut section = Vec::new();
        field(&mut section, name, value, Indexing::Plain);
        let expected = if nth < 63 { vec![0xc0 | nth as u8] } else { vec![0xff, nth as u8 - 63] };
        assert_eq!(section, expected, "{}", String::from_utf8_lossy(name));
    }
}

/// An encoder that uses its table as much as it can, for tests.
#[derive(Default)]
struct Model {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    size_max: usize,
}

impl Model {
    /// Numbers of the entries that are in the table.
    fn alive(&self) -> std::ops::Range<usize> {
        let mut size = 0;
        let kept = self
            .entries
            .iter()
            .rev()
            .take_while(|(name, value)| {
                size += name.len() + value.len() + FIELD_OVERHEAD;
                size <= self.size_max
            })
            .count();
        self.entries.len() - kept..self.entries.len()
    }

    fn insert(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], how: u8) {
        if name.len() + value.len() + FIELD_OVERHEAD > self.size_max {
            return;
        }
        let by_name = self.alive().rev().find(|number| self.entries[*number].0 == name);
        match by_name {
            Some(number) if how == 0 && self.entries[number].1 == value => {
                h2h3::integer::encode(out, 0, 5, self.entries.len() - 1 - number);
            }
            Some(number) if how < 2 => {
                h2h3::integer::encode(out, 0x80, 6, self.entries.len() - 1 - number);
                h2h3::write_string(out, 0, 7, value, how == 1);
            }
            _ => {
                h2h3::write_string(out, 0x40, 5, name, how == 1);
                h2h3::write_string(out, 0, 7, value, how == 1);
            }
        }
        self.entries.push((name.to_vec(), value.to_vec()));
    }

    /// A section of fields, with a base so far before the table's end.
    fn section(&self, fields: &[(Vec<u8>, Vec<u8>)], back: usize, capacity_max: usize) -> Vec<u8> {
        let (alive, inserted) = (self.alive(), self.entries.len());
        let base = inserted - back.min(alive.len());
        let mut lines = Vec::new();
        let mut required = 0;
        for (name, value) in fields {
            let whole = alive.clone().find(|number| self.entries[*number] == (name.clone(), value.clone()));
            let named = alive.clone().find(|number| self.entries[*number].0 == *name);
            match (whole, named) {
                (Some(number), _) if number < base => {
                    h2h3::integer::encode(&mut lines, 0x80, 6, base - 1 - number);
                }
                (Some(number), _) => h2h3::integer::encode(&mut lines, 0x10, 4, number - base),
                (None, Some(number)) if number < base => {
                    h2h3::integer::encode(&mut lines, 0x40, 4, base - 1 - number);
                    h2h3::write_string(&mut lines, 0, 7, value, true);
                }
                (None, Some(number)) => {
                    h2h3::integer::encode(&mut lines, 0, 3, number - base);
                    h2h3::write_string(&mut lines, 0, 7, value, false);
                }
                (None, None) => super::field(&mut lines, name, value, Indexing::Plain),
            }
            required = required.max(whole.or(named).map_or(0, |number| number + 1));
        }
        let mut section = Vec::new();
        let range = 2 * (capacity_max / FIELD_OVERHEAD);
        h2h3::integer::encode(&mut section, 0, 8, if required == 0 { 0 } else { required % range + 1 });
        if base >= required {
            h2h3::integer::encode(&mut section, 0, 7, base - required);
        } else {
            h2h3::integer::encode(&mut section, 0x80, 7, required - base - 1);
        }
        section.extend_from_slice(&lines);
        section
    }
}

fn a_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = prop_oneof![0..8_u8, 0..8_u8, 90..98_u8];
    (name, 0..6_usize, 0..30_usize).prop_map(|(name, value, length)| {
        let name = match name {
            90.. => static_table::STATIC[usize::from(name)].0.to_vec(),
            _ => format!("x-name-{name}").into_bytes(),
        };
        let value = [format!("value-{value}").into_bytes(), vec![b'v'; length / 10 * 10]].concat();
        (name, value)
    })
}

proptest! {
    /// An encoder that inserts, duplicates and evicts, and refers to entries on both sides of the base.
    #[test]
    fn tables_stay_in_step(
        steps in vec((vec((a_field(), 0..3_u8), 0..6), vec(a_field(), 0..8), 0..10_usize), 1..40),
        size_max in prop_oneof![0..100_usize, 100..600_usize],
        cut in 1..50_usize,
    ) {
        let mut model = Model { size_max, ..Model::default() };
        let decoder = &mut Decoder::new(600);
        let mut instructions = Vec::new();
        h2h3::integer::encode(&mut instructions, 0x20, 5, size_max);
        for (nth, (inserts, fields, back)) in steps.into_iter().enumerate() {
            for ((name, value), how) in inserts {
                model.insert(&mut instructions, &name, &value, how);
            }
            for piece in instructions.chunks(cut) {
                decoder.read_encoder_stream(piece).unwrap();
            }
            instructions.clear();
            let section = model.section(&fields, back, 600);
            assert_eq!(decode(decoder, nth as u64 * 4, &section), Ok(fields));
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(fields in vec((a_field(), any::<bool>()), 0..30)) {
        let mut section = Vec::new();
        begin(&mut section);
        for ((name, value), plain) in &fields {
            field(&mut section, name, value, if *plain { Indexing::Plain } else { Indexing::Never });
        }
        let expected = fields.into_iter().map(|(field, _)| field).collect::<Fields>();
        assert_eq!(decode(&mut Decoder::new(0), 0, &section), Ok(expected));
    }

    #[test]
    fn anything_is_read_in_bounds(pieces in vec((any::<bool>(), vec(any::<u8>(), 0..80)), 0..20)) {
        let mut decoder = Decoder::new(300);
        for (is_instruction, piece) in pieces {
            if is_instruction {
                if decoder.read_encoder_stream(&piece).is_err() {
                    return Ok(());
                }
                continue;
            }
            let mut told = 0;
            let _ = decoder.decode::<()>(0, &piece, &HeaderLimits { fields: 10, bytes: 600 }, |field| {
                told += field.name.len() + field.value.len() + FIELD_OVERHEAD;
                Ok(())
            });
            assert!(told <= 600);
        }
    }
}
