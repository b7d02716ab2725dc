//! The list of files, verified before the tree believes it.
//!
//! `current` names the list in force and has its checksum, which the tree writes but does not look at when it is opened: counts
//! in a damaged list would make it take memory without bound.

use std::path::Path;

use twox_hash::XxHash3_128;

use crate::{Error, Result};

/// Number of the list, its checksum, and which checksum it is.
const CURRENT_LEN: usize = 25;
/// XXH3 of 128 bits.
const XXH3: u8 = 0;

/// Whether the tree in a folder, if there is one, has the list of files that it last wrote.
pub(super) fn verify(tree: &Path) -> Result<()> {
    let current = match std::fs::read(tree.join("current")) {
        Ok(current) => current,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let Ok(current) = <[u8; CURRENT_LEN]>::try_from(current) else { return Err(damaged("its length is wrong")) };
    let [number @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, kind] = current;
    if kind != XXH3 {
        return Err(damaged("its checksum is of an unknown kind"));
    }
    let list = match std::fs::read(tree.join(format!("v{}", u64::from_le_bytes(number)))) {
        Ok(list) => list,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(damaged("it is not there")),
        Err(error) => return Err(error.into()),
    };
    let checksum = XxHash3_128::oneshot(&list).to_le_bytes();
    if current.get(8..24) != Some(checksum.as_slice()) {
        return Err(damaged("its checksum does not match"));
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::damaged(format!("the list of files: {what}"))
}
