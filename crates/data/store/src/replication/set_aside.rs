//! What an old master has that the new one has not is set aside as commands, in a file that `redis-cli --pipe` takes: nobody merges it
//! by himself, and nothing of it is lost without a word.
//!
//! ```text
//! shard-0.old/parted          up to which offset the new master has the same
//! set-aside-482113.resp.new   the commands from there on, while they are being written
//! set-aside-482113.resp       the same when all of them are there; shard-0.old goes then
//! ```
//!
//! Data that have no history in common with the master's are kept as they are, as a folder:
//!
//! ```text
//! shard-0.old/parted              says `unrelated`
//! set-aside-data-1795852800000    shard-0.old under another name: log and tables
//! ```
//!
//! So a crash in between is made up for by the next start.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use keyspace::Millis;
use oplog::Offset;
use replication::parting::Parting;

use crate::{
    archive::sync_folder,
    folder::StoreFolder,
    log_dump::{Dump, Form, dump},
    messages,
    point::Point,
};

const PARTED: &str = "parted";
const BEGIN: &str = "set-aside-";
const END: &str = ".resp";
/// What folders begin with, and what the note says of their data.
const DATA: &str = "set-aside-data-";
const UNRELATED: &str = "unrelated";

/// What has become of old data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// What nobody else has of it is set aside as commands, if there is anything.
    AsCommands,
    /// It has no history in common with what replaces it, and is to be kept.
    Unrelated,
}

/// The name of a folder of data that are kept.
pub fn data_name(now: Millis) -> String {
    format!("{DATA}{now}")
}

/// Notes in data that are about to be replaced from where on nobody else has them; or that others have all of them.
pub fn note(data: &Path, parted: Parting) -> io::Result<()> {
    let parted = match parted {
        Parting::At(offset) => offset.to_string(),
        Parting::Unrelated => UNRELATED.to_owned(),
        Parting::Nowhere => {
            return match fs::remove_file(data.join(PARTED)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
    };
    let mut file = File::create(data.join(PARTED))?;
    writeln!(file, "{parted}")?;
    file.sync_all()?;
    sync_folder(data)
}

/// Why old data cannot be set aside: they stay.
#[derive(Debug, thiserror::Error)]
pub enum SetAsideError {
    /// The note of where they part is none.
    #[error("{PARTED} has no offset: '{0}'")]
    NoOffset(String),
    /// The file of commands cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Their log cannot be read.
    #[error("{}", shard::chain(.0))]
    Log(crate::StoreError),
}

/// Sets aside what old data has that nobody else has.
///
/// # Errors
///
/// It cannot be read or written: the old data is to stay.
pub fn save(root: &Path, old: &Path) -> Result<Saved, SetAsideError> {
    let Ok(text) = fs::read_to_string(old.join(PARTED)) else { return Ok(Saved::AsCommands) };
    if text.trim() == UNRELATED {
        return Ok(Saved::Unrelated);
    }
    let parted = text.trim().parse().map(Offset).map_err(|_| SetAsideError::NoOffset(text.clone()))?;
    let path = free_name(root, parted);
    let unready = path.with_extension("resp.new");
    let failed = |source: io::Error| SetAsideError::File { path: unready.clone(), source };
    let mut file = BufWriter::new(File::create(&unready).map_err(failed)?);
    let what = Dump {
        folder: old.join("log"),
        from: Some(Point::Offset(parted)),
        to: None,
        follow: false,
        form: Form::Raw,
        follower: None,
        with_flushes: true,
    };
    let count = dump(&what, &mut file).map_err(SetAsideError::Log)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    if count == 0 {
        return fs::remove_file(&unready).map(|()| Saved::AsCommands).map_err(failed);
    }
    fs::rename(&unready, &path).and_then(|()| sync_folder(root)).map_err(failed)?;
    messages::warn(&format!(
        "{count} commands that this store had and its new master has not, from offset {parted} on, are set aside in {}: \
         `redis-cli --pipe` takes them",
        path.display()
    ));
    Ok(Saved::AsCommands)
}

/// A name that no file has.
fn free_name(root: &Path, parted: Offset) -> PathBuf {
    let first = root.join(format!("{BEGIN}{parted}{END}"));
    let others = (2..).map(|number| root.join(format!("{BEGIN}{parted}-{number}{END}")));
    std::iter::once(first).chain(others).find(|path: &PathBuf| !path.exists()).unwrap_or_default()
}

/// The files and folders that there are, by name.
pub fn files(store: &StoreFolder) -> Vec<String> {
    let Ok(entries) = fs::read_dir(store.root()) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_one = |name: &String| name.starts_with(DATA) || name.starts_with(BEGIN) && name.ends_with(END);
    let mut names: Vec<String> = names.filter(is_one).collect();
    names.sort_unstable();
    names
}
