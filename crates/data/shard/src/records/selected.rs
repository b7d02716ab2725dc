//! Which database is selected where the tables' part of the log ends.
//!
//! A log of our own names the database in each piece that is written together. That of a Redis master, which a follower keeps as it is,
//! names it when it changes.

use engine::record;

use super::ShardTables;

/// The name of the record.
const SELECTED: &[u8] = b"selected";

impl ShardTables {
    /// Hands in which database is selected at the mark.
    pub fn put_selected(&self, db: usize) {
        let name = record::meta(0, 0, SELECTED);
        self.with(|tables| tables.put_marked(name, (db as u64).to_be_bytes().to_vec()));
    }

    /// The same record, for whoever makes tables.
    pub fn selected_record(db: usize) -> (engine::Key, engine::Value) {
        let value: Vec<u8> = (db as u64).to_be_bytes().to_vec();
        (record::meta(0, 0, SELECTED), value.into())
    }

    /// Which database is selected; the first one where nobody has said so.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn selected(&self) -> Result<usize, engine::Error> {
        self.with(|tables| selected_in(|name| tables.get(name)))
    }
}

/// The same of records that are asked for by name.
///
/// # Errors
///
/// They cannot be read.
pub fn selected_in(
    get: impl FnOnce(&engine::Key) -> Result<Option<engine::Value>, engine::Error>,
) -> Result<usize, engine::Error> {
    let value = get(&record::meta(0, 0, SELECTED))?;
    let db = value.and_then(|bytes| <[u8; 8]>::try_from(&*bytes).ok()).map_or(0, u64::from_be_bytes);
    Ok(usize::try_from(db).unwrap_or(0))
}
