use std::io::Cursor;

use super::*;

/// Takes down what it is given.
#[derive(Debug, Default)]
struct Seen {
    entries: Vec<Entry>,
    commands: Vec<String>,
    is_cut: bool,
}

impl Taker for Seen {
    fn entry(&mut self, entry: Entry) -> Result<(), Problem> {
        self.entries.push(entry);
        Ok(())
    }

    fn command(&mut self, words: Vec<Vec<u8>>, _: u64, _: u64) -> Result<(), Problem> {
        self.commands.push(String::from_utf8_lossy(&words.join(&b' ')).into_owned());
        Ok(())
    }

    fn cut(&mut self, _: Problem) -> Result<(), Problem> {
        self.is_cut = true;
        Ok(())
    }
}

fn seen(bytes: &[u8]) -> Result<Seen, Problem> {
    let mut seen = Seen::default();
    read(&mut Source::new(Cursor::new(bytes)), u64::MAX, &mut seen)?;
    Ok(seen)
}

/// Values of all forms, as they stand in a file. Strings are of one byte, `s`, or numbers and compressed ones.
fn values() -> Vec<(u8, Vec<u8>)> {
    const STRING: &[u8] = &[1, b's'];
    // A number of two bytes, and nine times an `a` that was compressed.
    const SPECIAL: &[u8] = &[0xc1, 1, 2];
    const COMPRESSED: &[u8] = &[0xc3, 5, 9, 0, b'a', 0xc0, 0x00, 0x00];
    let of = |parts: &[&[u8]]| parts.concat();
    let id = [0; 16];
    let group = |counts: usize, times: usize| {
        of(&[&[1], STRING, &vec![7; counts], &[1], &id, &[0; 8], &[1], &[1], STRING, &vec![0; times], &[1], &id])
    };
    vec![
        (0, STRING.to_vec()),
        (0, SPECIAL.to_vec()),
        (0, COMPRESSED.to_vec()),
        (0, of(&[&[0x40, 100], &[b'x'; 100]])),
        (0, of(&[&[0x80, 0, 0, 0, 3], b"abc"])),
        (0, of(&[&[0x81, 0, 0, 0, 0, 0, 0, 0, 3], b"abc"])),
        (1, of(&[&[2], STRING, SPECIAL])),
        (2, of(&[&[1], STRING])),
        (3, of(&[&[3], STRING, &[2, b'1', b'5'], STRING, &[254], STRING, &[255]])),
        (4, of(&[&[1], STRING, STRING])),
        (5, of(&[&[1], STRING, &[0; 8]])),
        (9, STRING.to_vec()),
        (10, STRING.to_vec()),
        (14, of(&[&[2], STRING, STRING])),
        (16, STRING.to_vec()),
        (18, of(&[&[2, 1], STRING, &[2], STRING])),
        (20, STRING.to_vec()),
        (15, of(&[&[1], STRING, STRING, &[1, 2, 3], &group(2, 8)])),
        (19, of(&[&[1], STRING, STRING, &[1, 2, 3, 4, 5, 6, 7, 8], &group(3, 8)])),
        (21, of(&[&[1], STRING, STRING, &[1, 2, 3, 4, 5, 6, 7, 8], &group(3, 16)])),
    ]
}

/// A file with all of them, in which every second key expires.
fn file() -> Vec<u8> {
    let mut bytes = b"REDIS0010\xfa\x01a\x01b\xfe\x03\xfb\x05\x01\xf5\x02ab".to_vec();
    for (index, (form, value)) in values().into_iter().enumerate() {
        if index % 2 == 1 {
            bytes.push(252);
            bytes.extend_from_slice(&(index as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&[249, 7, 248, 9, form, 1, index as u8]);
        bytes.extend_from_slice(&value);
    }
    bytes.push(255);
    let sum = keyspace::rdb::crc64::crc64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn values_of_all_forms_end_where_the_next_key_begins() {
    let seen = seen(&file()).unwrap();
    let mut entries = seen.entries.into_iter();
    assert_eq!(entries.next(), Some(Entry::Database(3)));
    assert_eq!(entries.next(), Some(Entry::Library(b"ab".to_vec())));
    for (index, (form, value)) in values().into_iter().enumerate() {
        let Some(Entry::Key { name, expires, payload }) = entries.next() else { panic!("{form} {index}") };
        assert_eq!((name, expires), (vec![index as u8], (index % 2 == 1).then_some(index as u64)));
        assert_eq!(payload.get(..payload.len() - 10).unwrap(), [&[form][..], &value].concat(), "{form}");
    }
    assert_eq!(entries.next(), None);
}

#[test]
fn a_file_that_is_cut_or_changed_is_refused() {
    let whole = file();
    for len in 1..whole.len() {
        // In front of the checksum, which old files have not, it may end.
        let outcome = seen(whole.get(..len).unwrap());
        assert!(outcome.is_err() || len == whole.len() - 8, "{len}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            *bytes.get_mut(at).unwrap() ^= 1 << bit;
            // What says that it has no checksum, or is older, is believed.
            let is_version = (5..9).contains(&at);
            assert!(seen(&bytes).is_err() || is_version, "{at} {bit}");
        }
    }
    for bytes in [&b"REDIS0099\xff"[..], b"REDIS", b"REDISabcd", b"REDIS0010\x07\x01a\x00", b"REDIS0010\x40\x01a\x00"] {
        assert!(seen(bytes).is_err(), "{bytes:?}");
    }
    // A length beyond all bounds takes no memory.
    assert!(seen(b"REDIS0010\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    assert!(seen(b"REDIS0010\x01\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
}

#[test]
fn commands_are_read_up_to_where_they_are_whole() {
    let text = "#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n";
    let whole = ["SELECT 0", "MULTI", "DEL a", "EXEC"];
    assert_eq!(seen(text.as_bytes()).unwrap().commands, whole);
    let mut behind = file();
    behind.extend_from_slice(text.as_bytes());
    assert_eq!(seen(&behind).unwrap().commands, whole, "an old AOF begins with an RDB file");
    for len in 0..text.len() {
        let seen = seen(text.as_bytes().get(..len).unwrap()).unwrap();
        assert!(whole.starts_with(&seen.commands.iter().map(String::as_str).collect::<Vec<_>>()), "{len}");
    }
    for wrong in ["*1\r\n$x\r\n", "PING\r\n", "*1\r\n$4\r\nPINGPONG\r\n", "*9999999\r\n", "*1\r\n:1\r\n", "*-1\r\n"] {
        assert!(seen(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn half_a_transaction_is_left_out() {
    let text = "*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n";
    let mut checking = Checking { is_last: true, ..Checking::default() };
    let mut source = Source::new(Cursor::new(text));
    read(&mut source, u64::MAX, &mut checking).unwrap();
    assert!(checking.note(Path::new("x"), source.at).unwrap().contains("the last 29 bytes are left out"));
    let mut some = Seen::default();
    read(&mut Source::new(Cursor::new(text)), checking.until, &mut some).unwrap();
    assert_eq!(some.commands, ["PING"]);
}

#[test]
fn a_manifest_names_files_in_order() {
    let text = "file a.1.base.rdb seq 1 type b\nfile a.0.incr.aof seq 0 type h\nfile a.1.incr.aof seq 1 type i\n";
    let files = aof::files_of_manifest(Path::new("/d/a.manifest"), text).unwrap();
    assert_eq!(files, [Path::new("/d/a.1.base.rdb"), Path::new("/d/a.1.incr.aof")]);
    for wrong in ["file ../x seq 1 type b", "seq 1", "file a seq 1 type z"] {
        assert!(aof::files_of_manifest(Path::new("a"), wrong).is_err(), "{wrong}");
    }
}
