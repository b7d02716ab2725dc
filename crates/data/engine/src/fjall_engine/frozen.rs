//! Records on disk that nobody writes to: a copy of an engine's folder, made of links or restored from a backup.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::{AbstractTree as _, Config, SequenceNumberCounter};

use super::{Instant, Snapshot, manifest, open_tree};
use crate::{Error, Records, Result};

/// Opens a copy of an engine's folder for reading. Files in it that are no part of the records are removed; none is written.
///
/// # Errors
///
/// It is not one, or it is damaged.
pub fn open_frozen(folder: &Path) -> Result<Arc<dyn Records>> {
    let tree = folder.join("tree");
    manifest::verify(&tree)?;
    if !tree.join("current").exists() {
        return Err(Error::Engine("there are no tables in the folder".into()));
    }
    let seqno = SequenceNumberCounter::default();
    let config = Config::new(tree, seqno.clone(), SequenceNumberCounter::default());
    let tree = open_tree(config)?;
    let seqno = tree.get_highest_seqno().map_or(1, |highest| highest + 1);
    Ok(Arc::new(Snapshot(Instant::of(&tree, seqno))))
}
