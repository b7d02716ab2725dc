//! Stores whose folder has been emptied, by a disk that was replaced say. One that had what was acknowledged is not started empty: it would be
//! the master as before, and those who still have everything would copy nothing from it.

use std::{fs, path::Path};

use cluster::Address;

use super::Conductor;
use crate::processes::Program;

/// How often it is looked again.
const LOOK_EACH_MS: u64 = 500;

impl Conductor {
    /// Puts off what would begin empty though others count on what it had. Somebody in sync takes its place, or it is found out of sync;
    /// then it may begin empty, and copies all from the master.
    pub(super) fn put_off_emptied(&mut self) {
        let now = self.now();
        let due = self.processes.due(now).filter(|one| one.program == Program::Store);
        let due: Vec<(Address, String)> = due.map(|one| (one.address.clone(), one.name.clone())).collect();
        for (address, name) in due {
            let folder = self.options.folder.store(&name);
            if !is_empty(&folder) || !self.is_counted_on(&address) {
                self.emptied.remove(&address);
                continue;
            }
            self.processes.put_off(&address, now + LOOK_EACH_MS);
            if self.emptied.insert(address.clone()) {
                self.note(&format!(
                    "{address} is not started: {} is empty, and the cluster counts on what it had. A server that is in sync takes its place; \
                     after that it begins empty and copies everything. If nobody else has it either, bring the folder back; if it is lost for \
                     good, put an empty file into the folder",
                    folder.display()
                ));
                self.heard_exit(&address, now);
            }
        }
    }

    /// Whether a server is among those who have all that was acknowledged, as far as is written down. Where no replica has ever been in
    /// sync, a master that begins cannot be told from one that has been emptied.
    fn is_counted_on(&self, address: &Address) -> bool {
        let Some(id) = self.records.cluster.group_of(address) else { return false };
        let Some(group) = self.records.cluster.groups.get(&id) else { return false };
        let in_sync = self.records.in_sync(id).of(group);
        !in_sync.members.is_empty() && (group.master == *address || in_sync.members.contains(address))
    }
}

/// Whether nothing stands in a folder, or there is none.
fn is_empty(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
