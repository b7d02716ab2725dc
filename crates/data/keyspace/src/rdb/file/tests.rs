use super::*;
use crate::{
    Bytes, Value,
    rdb::{decode_value, encode_value},
    value::{Hash, List, Set, SortedSet, ValueLimits, list::End, set::Member, sorted_set},
};

fn building() -> ValueLimits {
    ValueLimits::redis(7)
}

/// Values of all types and forms but streams, small ones and ones that are not.
fn values() -> Vec<Value> {
    let building = building();
    let mut found = Vec::new();
    for text in [&b""[..], b"12", b"-70000", &b"word ".repeat(50), &[7; 100_000]] {
        found.push(Value::String(Bytes::from_slice(text)));
    }
    for count in [1, 3, 700] {
        let word = |number: usize| format!("word-{number}-{}", "x".repeat(number % 70)).into_bytes();
        let (mut list, mut texts, mut numbers) = (List::new(), Set::new(7), Set::new(7));
        let mut hash = Hash::new(7);
        let mut members = Vec::new();
        for number in 0..count {
            list.push(End::Tail, &word(number), building.list);
            list.push(End::Tail, number.to_string().as_bytes(), building.list);
            texts.add_member(Member::Text(&word(number)), building.integers_max);
            numbers.add_member(Member::Integer(number as i64), building.integers_max);
            hash.set(&word(number), number.to_string().as_bytes(), building.hash);
            let score = if number == 2 { f64::NEG_INFINITY } else { number as f64 / 3.0 };
            members.push(sorted_set::Member { score, name: Bytes::from_slice(&word(number)) });
        }
        let limits = ValueLimits::redis(0).sorted_set;
        found.push(Value::List(Box::new(list)));
        found.push(Value::Set(Box::new(texts)));
        found.push(Value::Set(Box::new(numbers)));
        found.push(Value::Hash(Box::new(hash)));
        found.push(Value::SortedSet(Box::new(SortedSet::from_members(7, limits, members))));
    }
    found
}

fn record(value: &Value) -> Vec<u8> {
    let mut record = Vec::new();
    encode_value(value, &mut record);
    record
}

fn file(options: FileOptions, write: impl FnOnce(&mut FileWriter<'_>)) -> Vec<u8> {
    let mut sink = Vec::new();
    let mut writer = FileWriter::new(&mut sink, options);
    write(&mut writer);
    let written = writer.finish().unwrap();
    assert_eq!(written.bytes, sink.len() as u64);
    sink
}

#[test]
fn every_value_comes_back_from_every_version() {
    for value in values() {
        let record = record(&value);
        for version in [FileVersion::Nine, FileVersion::Ten] {
            for compress in [false, true] {
                let bytes = file(FileOptions { version, compress, ..FileOptions::default() }, |writer| {
                    writer.whole(b"key", None, &record).unwrap()
                });
                assert!(bytes.starts_with(format!("REDIS{:04}", version.number()).as_bytes()));
                let form = bytes[9];
                assert!(version == FileVersion::Ten || form < 16, "{form} is unknown to Redis 6");
                assert_eq!(&bytes[10..14], b"\x03key");
                let (body, sum) = bytes.split_at(bytes.len() - 8);
                assert_eq!(sum, crc64::crc64(body).to_le_bytes());
                assert_eq!(body.last(), Some(&opcode::END));
                let again = [&[form], &body[14..body.len() - 1]].concat();
                let again = decode_value(&again, &building()).unwrap();
                assert_eq!(self::record(&again), record, "{version:?} {compress}");
            }
        }
    }
}

#[test]
fn what_stands_between_keys() {
    let one = record(&Value::String(Bytes::from_slice(b"v")));
    let bytes = file(FileOptions::default(), |writer| {
        writer.auxiliary("redis-bits", "64").unwrap();
        writer.library(b"#!lua name=l\n").unwrap();
        writer.database(0, 2, 1).unwrap();
        writer.whole(b"a", Some(258), &one).unwrap();
        writer.whole(b"b", None, &one).unwrap();
        writer.database(15, 1, 0).unwrap();
        writer.whole(b"c", None, &one).unwrap();
    });
    let expected = [
        &b"REDIS0010\xfa\x0aredis-bits\xc0\x40\xf5\x0d#!lua name=l\n\xfe\x00\xfb\x02\x01"[..],
        b"\xfc\x02\x01\0\0\0\0\0\0\0\x01a\x01v\0\x01b\x01v\xfe\x0f\xfb\x01\x00\0\x01c\x01v\xff",
    ]
    .concat();
    assert_eq!(bytes[..bytes.len() - 8], expected, "{}", bytes.escape_ascii());
    let options = FileOptions { version: FileVersion::Nine, ..FileOptions::default() };
    let mut sink = Vec::new();
    let refused = FileWriter::new(&mut sink, options).library(b"#!lua name=l\n").unwrap_err();
    assert_eq!(refused.to_string(), "RDB version 9 has no functions");
}

/// A file is never much longer in memory than a string in it.
#[test]
fn the_sink_gets_it_in_pieces() {
    struct Sink(usize);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(0);
    let mut writer = FileWriter::new(&mut sink, FileOptions::default());
    let value = record(&Value::String(Bytes::from_slice(&[7; 1000])));
    for number in 0..1000 {
        writer.whole(format!("key:{number}").as_bytes(), None, &value).unwrap();
    }
    assert!(writer.finish().unwrap().bytes > 1_000_000);
    assert!((PIECE_LEN..PIECE_LEN + 2000).contains(&sink.0), "{}", sink.0);
}

#[test]
fn damage_is_told_with_the_key() {
    let options = FileOptions { compress: true, ..FileOptions::default() };
    let words: Vec<Vec<u8>> = values().iter().map(record).collect();
    for record in words {
        for broken in [&record[..record.len() - 1], &[record.as_slice(), b"x"].concat(), b"", b"\x63x"] {
            let mut sink = Vec::new();
            let refused = FileWriter::new(&mut sink, options).whole(b"k\x01", None, broken).unwrap_err().to_string();
            assert!(refused.starts_with("the value of the key 'k\\x01' cannot be written: "), "{refused}");
        }
    }
}
