//! How an entry of a table that never changes is found.

/// A name and a value.
pub type Entry = (&'static [u8], &'static [u8]);

const SLOTS: usize = 256;

/// Where the entries of a table of less than 255 stand: the first of each name, and each of them. To be made while the program is
/// compiled.
#[derive(Debug)]
pub struct StaticIndex {
    /// Places and one, by the hash of the name; 0 is none.
    by_name: [u8; SLOTS],
    /// The same by the hash of name and value.
    by_field: [u8; SLOTS],
}

impl StaticIndex {
    /// That of `entries`.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "runs while the program is compiled")]
    pub const fn of(entries: &[Entry]) -> Self {
        assert!(entries.len() < SLOTS - 1);
        let mut made = Self { by_name: [0; SLOTS], by_field: [0; SLOTS] };
        let mut index = entries.len();
        // From the last to the first, and the first of a name takes the place of those behind it.
        while index > 0 {
            let (name, value) = entries[index - 1];
            let by_name = hash_of_name(name);
            let mut at = by_name as usize % SLOTS;
            while made.by_name[at] != 0 && !is_same(entries[made.by_name[at] as usize - 1].0, name) {
                at = (at + 1) % SLOTS;
            }
            made.by_name[at] = index as u8;
            let mut at = hash(by_name, value) as usize % SLOTS;
            while made.by_field[at] != 0 {
                at = (at + 1) % SLOTS;
            }
            made.by_field[at] = index as u8;
            index -= 1;
        }
        made
    }

    /// The place of the first entry with this name, of which `by_name` is the [`hash_of_name`].
    #[must_use]
    #[inline]
    pub fn name(&self, entries: &[Entry], by_name: u64, name: &[u8]) -> Option<usize> {
        find(&self.by_name, entries, by_name, |(known, _)| *known == name)
    }

    /// The place of the entry with this name and value, of which `by_field` is the [`hash`] upon that of the name.
    #[must_use]
    #[inline]
    pub fn field(&self, entries: &[Entry], by_field: u64, name: &[u8], value: &[u8]) -> Option<usize> {
        find(&self.by_field, entries, by_field, |entry| *entry == (name, value))
    }
}

#[inline]
fn find(slots: &[u8; SLOTS], entries: &[Entry], hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<usize> {
    let mut at = hash as usize % SLOTS;
    loop {
        let place = slots.get(at).copied().and_then(|place| usize::from(place).checked_sub(1))?;
        if entries.get(place).is_some_and(&is_it) {
            return Some(place);
        }
        at = (at + 1) % SLOTS;
    }
}

#[expect(clippy::indexing_slicing, reason = "runs while the program is compiled")]
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The hash of a name, upon which that of a field is made.
#[must_use]
#[inline]
pub const fn hash_of_name(name: &[u8]) -> u64 {
    hash(0, name)
}

/// A hash for the indexes. Who knows how to make two fields collide gains nothing by it: the index forgets one of them.
#[must_use]
#[inline]
pub const fn hash(seed: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (mut hash, mut rest) = (seed ^ bytes.len() as u64, bytes);
    while let Some((chunk, left)) = rest.split_first_chunk::<8>() {
        hash = (hash ^ u64::from_le_bytes(*chunk)).wrapping_mul(FACTOR).rotate_left(29);
        rest = left;
    }
    let mut last = 0;
    while let Some((byte, left)) = rest.split_first() {
        last = last << 8 | *byte as u64;
        rest = left;
    }
    let hash = (hash ^ last).wrapping_mul(FACTOR);
    hash ^ (hash >> 32)
}
