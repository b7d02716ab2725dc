//! Where a store that runs on this machine has its data.

use std::{path::PathBuf, time::Duration};

use crate::{
    StoreError,
    client::{Access, Client},
    running::is_served,
};

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a store for its folder, at HOST:PORT or the path of its socket. It must be on this machine, where the store has it locked.
///
/// # Errors
///
/// It does not answer, or its folder is not here.
pub fn folder_of(address: &str, access: Access<'_>) -> Result<PathBuf, StoreError> {
    let refused = |reason: String| StoreError::NotAsked { address: address.to_owned(), reason };
    let asked = Client::connect(address, access, PATIENCE).and_then(|mut client| client.setting("dir"));
    let dir = asked.map_err(|error| refused(error.to_string()))?.unwrap_or_default();
    if dir.is_empty() {
        return Err(refused("it has no folder (--dir), so all of its data is in memory".into()));
    }
    let dir = PathBuf::from(dir);
    if !is_served(&dir) {
        let text =
            format!("its folder {} is not on this machine, or not to be read; run this where it is", dir.display());
        return Err(refused(text));
    }
    Ok(dir)
}
