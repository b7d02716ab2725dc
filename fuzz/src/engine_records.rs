//! What a disk may hold: anything.

use engine::record::{self, Header, RecordKey};

/// The seed of the hashes.
const SEED: u64 = 5;

/// Keys and headers: what is accepted is written again as it was.
pub fn record(data: &[u8]) {
    if let Ok(key) = record::decode(data) {
        let again = match key {
            // A cut tail stands for something longer that is not here.
            RecordKey::Key { key: record::Tail::Cut(_), .. }
            | RecordKey::Element { element: record::Tail::Cut(_), .. }
            | RecordKey::Expiry { key: record::Tail::Cut(_), .. } => None,
            RecordKey::Meta { name, .. } if name.len() > record::WHOLE_LEN_MAX => None,
            // The seed that the samples have; with another one the hash is that of another key.
            RecordKey::Key { slot, db, hash, key } => {
                record::has_hash(SEED, hash, key).is_ok().then(|| record::key(SEED, slot, db, key.bytes()))
            }
            RecordKey::Element { slot, db, version, element } => {
                Some(record::element(slot, db, version, element.bytes()))
            }
            RecordKey::Expiry { slot, db, at_ms, key } => Some(record::expiry(slot, db, at_ms, key.bytes())),
            RecordKey::Orphan { slot, db, version } => Some(record::orphan(slot, db, version)),
            RecordKey::Meta { slot, db, name } => Some(record::meta(slot, db, name)),
        };
        assert!(again.is_none_or(|again| *again == *data));
        let tails = match key {
            RecordKey::Key { key, .. } | RecordKey::Expiry { key, .. } => Some(key),
            RecordKey::Element { element, .. } => Some(element),
            _ => None,
        };
        if let Some(tail) = tails {
            let _ = record::split_whole(tail, data);
        }
    }
    if let Ok((header, inline)) = Header::decode(data) {
        let mut again = Vec::new();
        header.encode(&mut again);
        again.extend_from_slice(inline);
        assert_eq!(again, data);
    }
}
