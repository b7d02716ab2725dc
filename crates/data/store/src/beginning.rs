//! What is said when a store begins anew: a word of `dir` that is written wrongly makes an empty store, and files of Redis that
//! lie there hold data that somebody expects to see.

use std::{fs, path::Path};

use crate::{import::has_something, messages};

/// The names that Redis' data has, as it was configured or as it usually is.
fn is_of_redis(name: &str) -> bool {
    let ends = [".rdb", ".aof"].iter().any(|end| name.ends_with(end));
    ends || name == "appendonlydir"
}

/// Files of Redis in a folder, in order, but for those of a server that had nothing.
pub fn files_of_redis(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| is_of_redis(name) && (!name.ends_with(".rdb") || has_something(&root.join(name))));
    names.sort();
    names
}

/// Says that a store begins in a folder that had none.
pub fn tell(root: &Path) {
    messages::notice(&format!("{} has no data yet: an empty store begins there", root.display()));
    let found = files_of_redis(root);
    if !found.is_empty() {
        messages::warn(&format!(
            "Redis' files there ({}) are not read: `tidegate import {}` brings them here",
            found.join(", "),
            root.display()
        ));
    }
}
