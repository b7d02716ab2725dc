//! From fields to sections (RFC 9204 section 4.5).

use h2h3::{Indexing, hash, hash_of_name, integer, write_string};

use super::static_table::{INDEX, STATIC};

/// Begins a section: it needs no entry of any table that changes (RFC 9204 section 4.5.1).
#[inline]
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Writes a field. Its name is in lower case.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8], how: Indexing) {
    let by_name = hash_of_name(name);
    let named = INDEX.name(&STATIC, by_name, name);
    let never = how == Indexing::Never;
    match named {
        // 1, T: an entry of the static table.
        Some(_) if !never && let Some(place) = INDEX.field(&STATIC, hash(by_name, value), name, value) => {
            integer::encode(out, 0b1100_0000, 6, place);
        }
        Some(place) => {
            // 0, 1, N, T: the name of an entry of the static table.
            integer::encode(out, if never { 0b0111_0000 } else { 0b0101_0000 }, 4, place);
            write_string(out, 0, 7, value, true);
        }
        None => {
            // 0, 0, 1, N.
            write_string(out, if never { 0b0011_0000 } else { 0b0010_0000 }, 3, name, true);
            write_string(out, 0, 7, value, true);
        }
    }
}
