//! Keys of records.

use twox_hash::XxHash3_64;

use super::NotARecord;
use super::tail::{self, Tail};
use crate::{Bounds, Key};

/// Slot, kind and database.
const PREFIX_LEN: usize = 4;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An element of a collection.
    Element = b'e',
    /// A key with all that it needs, or with the elements elsewhere.
    Key = b'k',
    /// Something about a slot and a database.
    Meta = b'm',
    /// A deleted collection, whose elements are still there.
    Orphan = b'o',
    /// A key's deadline, in order of time.
    Expiry = b'x',
}

impl Kind {
    /// All, in order of records.
    pub const ALL: [Self; 5] = [Self::Element, Self::Key, Self::Meta, Self::Orphan, Self::Expiry];
}

/// A record's key, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKey<'a> {
    /// A key.
    Key {
        /// Its slot.
        slot: u16,
        /// Its database.
        db: u8,
        /// [`hash`] of the whole key, with the seed of its tables.
        hash: u64,
        /// The key.
        key: Tail<'a>,
    },
    /// An element of a collection.
    Element {
        /// Slot of the collection's key.
        slot: u16,
        /// Its database.
        db: u8,
        /// The collection's version.
        version: u64,
        /// What the type calls the element.
        element: Tail<'a>,
    },
    /// A deadline.
    Expiry {
        /// Slot of the key.
        slot: u16,
        /// Its database.
        db: u8,
        /// Milliseconds since 1970.
        at_ms: u64,
        /// The key.
        key: Tail<'a>,
    },
    /// A deleted collection.
    Orphan {
        /// Slot of what was its key.
        slot: u16,
        /// Its database.
        db: u8,
        /// Its version.
        version: u64,
    },
    /// Something about a slot and a database.
    Meta {
        /// The slot.
        slot: u16,
        /// The database.
        db: u8,
        /// What it is called.
        name: &'a [u8],
    },
}

/// The hash that stands in a key's record: XXH3 of 64 bits. The seed is that of the tables, a secret: nobody outside can make
/// keys whose hashes are equal.
pub fn hash(seed: u64, key: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, key)
}

/// Key of a key's record.
pub fn key(seed: u64, slot: u16, db: u8, key: &[u8]) -> Key {
    with_tail(slot, Kind::Key, db, Some(hash(seed, key)), key)
}

/// Key of an element's record.
pub fn element(slot: u16, db: u8, version: u64, element: &[u8]) -> Key {
    with_tail(slot, Kind::Element, db, Some(version), element)
}

/// Key of a deadline's record.
pub fn expiry(slot: u16, db: u8, at_ms: u64, key: &[u8]) -> Key {
    with_tail(slot, Kind::Expiry, db, Some(at_ms), key)
}

/// Key of an orphan's record.
pub fn orphan(slot: u16, db: u8, version: u64) -> Key {
    with_tail(slot, Kind::Orphan, db, Some(version), b"")
}

/// Key of a record about a slot and a database. Names are short; a longer one is cut like a key.
pub fn meta(slot: u16, db: u8, name: &[u8]) -> Key {
    with_tail(slot, Kind::Meta, db, None, name)
}

fn with_tail(slot: u16, kind: Kind, db: u8, number: Option<u64>, tail: &[u8]) -> Key {
    let mut out = Vec::with_capacity(PREFIX_LEN + 8 + tail.len().min(tail::CUT_LEN));
    out.extend_from_slice(&slot.to_be_bytes());
    out.push(kind as u8);
    out.push(db);
    if let Some(number) = number {
        out.extend_from_slice(&number.to_be_bytes());
    }
    tail::encode(tail, &mut out);
    Key::from(out)
}

/// Takes a record's key apart. Whether the hash of a [`RecordKey::Key`] is that of its key, [`has_hash`] says.
pub fn decode(bytes: &[u8]) -> Result<RecordKey<'_>, NotARecord> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX_LEN>().ok_or(NotARecord("its key is too short"))?;
    let [high, low, kind, db] = *prefix;
    let slot = u16::from_be_bytes([high, low]);
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(NotARecord("its kind is unknown"))?;
    if kind == Kind::Meta {
        return Ok(RecordKey::Meta { slot, db, name: Tail::decode(rest)?.bytes() });
    }
    let (number, rest) = rest.split_first_chunk::<8>().ok_or(NotARecord("its key is too short"))?;
    let number = u64::from_be_bytes(*number);
    let tail = Tail::decode(rest)?;
    Ok(match kind {
        Kind::Key => RecordKey::Key { slot, db, hash: number, key: tail },
        Kind::Element => RecordKey::Element { slot, db, version: number, element: tail },
        Kind::Expiry => RecordKey::Expiry { slot, db, at_ms: number, key: tail },
        Kind::Orphan if rest.is_empty() => RecordKey::Orphan { slot, db, version: number },
        Kind::Orphan | Kind::Meta => return Err(NotARecord("its key is too long")),
    })
}

/// Whether a key has that hash. Of one that was cut, that cannot be said.
///
/// # Errors
///
/// It is the hash of another key, or was made with another seed.
pub fn has_hash(seed: u64, of: u64, key: Tail<'_>) -> Result<(), NotARecord> {
    match key {
        Tail::Whole(key) if hash(seed, key) != of => Err(NotARecord("the hash is that of another key")),
        _ => Ok(()),
    }
}

/// Intervals of records.
pub mod range {
    use std::ops::Bound;

    use super::{Bounds, Key, Kind, PREFIX_LEN};

    /// All of a slot.
    pub fn slot(slot: u16) -> Bounds {
        Bounds::prefix(&slot.to_be_bytes())
    }

    /// All of a kind in a slot, of all databases.
    pub fn kind(slot: u16, kind: Kind) -> Bounds {
        let [high, low] = slot.to_be_bytes();
        Bounds::prefix(&[high, low, kind as u8])
    }

    /// All of a kind in a slot and a database.
    pub fn database(slot: u16, kind: Kind, db: u8) -> Bounds {
        Bounds::prefix(&prefix(slot, kind, db))
    }

    /// Keys of a slot and a database whose hash is that or larger: where SCAN goes on.
    pub fn keys_from(slot: u16, db: u8, hash: u64) -> Bounds {
        let from = number(slot, Kind::Key, db, hash);
        Bounds { from: Bound::Included(from), to: database(slot, Kind::Key, db).to }
    }

    /// All elements of a collection.
    pub fn elements(slot: u16, db: u8, version: u64) -> Bounds {
        Bounds::prefix(&number(slot, Kind::Element, db, version))
    }

    /// Deadlines of a slot and a database up to and with that time.
    pub fn expired(slot: u16, db: u8, now_ms: u64) -> Bounds {
        let all = database(slot, Kind::Expiry, db);
        let to = match now_ms.checked_add(1) {
            Some(end) => Bound::Excluded(number(slot, Kind::Expiry, db, end)),
            None => all.to,
        };
        Bounds { from: all.from, to }
    }

    fn prefix(slot: u16, kind: Kind, db: u8) -> [u8; PREFIX_LEN] {
        let [high, low] = slot.to_be_bytes();
        [high, low, kind as u8, db]
    }

    fn number(slot: u16, kind: Kind, db: u8, number: u64) -> Key {
        Key::from([prefix(slot, kind, db).as_slice(), &number.to_be_bytes()].concat())
    }
}
