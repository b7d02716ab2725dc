//! A short run of the fuzz targets: masters and replicas that send what they should, damaged, or anything.

#[path = "../../../../fuzz/src/replication.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

const MARK: &str = "0123456789abcdef0123456789abcdef01234567";

/// What a master may say after the handshake.
fn said(place: usize) -> Vec<u8> {
    let id = "a".repeat(40);
    match place {
        0 => format!("+CONTINUE {id}\r\n").into_bytes(),
        1 => format!("+FULLRESYNC {id} 100\r\n$EOF:{MARK}\r\nREDIS0010{MARK}").into_bytes(),
        2 => format!("+FULLRESYNC {id} 100\r\n\n\n$9\r\nREDIS0010").into_bytes(),
        3 => b"*1\r\n$5\r\nMULTI\r\n".to_vec(),
        4 => b"*1\r\n$4\r\nEXEC\r\n".to_vec(),
        5 => b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_vec(),
        6 => b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n".to_vec(),
        7 => b"-ERR no\r\n".to_vec(),
        _ => b"\n".to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn anything(bytes in vec(any::<u8>(), 0..300)) {
        target::master(&bytes);
        target::replica(&bytes);
    }

    #[test]
    fn masters(step: u8, places in vec(0..9_usize, 0..12), edits in vec((any::<u16>(), any::<u8>()), 0..3), cut: u16) {
        let mut bytes = vec![step];
        bytes.extend_from_slice(b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n");
        if step & 1 == 1 {
            bytes.extend_from_slice(b"+OK\r\n");
        }
        places.iter().for_each(|place| bytes.extend(said(*place)));
        target::master(&bytes);
        target::master(&bytes[..usize::from(cut) % (bytes.len() + 1)]);
        for (at, byte) in edits {
            let len = bytes.len();
            bytes[usize::from(at) % len] = byte;
        }
        target::master(&bytes);
    }

    #[test]
    fn replicas(offsets in vec(any::<i64>(), 0..6), edits in vec((any::<u16>(), any::<u8>()), 0..2)) {
        let mut bytes = Vec::new();
        for offset in offsets {
            resp::encode_command(&mut bytes, &["REPLCONF", "ACK", &offset.to_string(), "FACK", "3"]);
            bytes.push(b'\n');
        }
        target::replica(&bytes);
        for (at, byte) in edits {
            let len = bytes.len().max(1);
            if let Some(place) = bytes.get_mut(usize::from(at) % len) {
                *place = byte;
            }
        }
        target::replica(&bytes);
    }
}
