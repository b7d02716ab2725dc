//! What is done to segments beside the shard's thread: spares are made, those given up are removed.

use std::sync::Arc;

use crate::{
    LogError,
    disk::{Disk, DiskFile},
    segment::{SPARE_PREFIX, Segment, UNREADY_PREFIX},
    shared::Shared,
};

/// How much is filled with zeros at once.
const FILL_LEN: usize = 256 * 1024;
/// After how much filled it is synced: a sync of the log would have to wait behind more.
const FILL_SYNC_LEN: u64 = 1024 * 1024;

/// Prepares spare segments and removes those that retention gave up. It reads and writes whole files, so it has a thread of
/// its own.
#[derive(Debug)]
pub struct Maintainer<D: Disk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> Maintainer<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// Whether [`run`](Self::run) would find something to do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        let lists = self.shared.lists();
        !lists.garbage.is_empty() || lists.spares.len() < self.shared.options.spare_segments
    }

    /// Does all that is to be done; it can be tried again if it fails.
    ///
    /// # Errors
    ///
    /// The disk's. That there is no room for a spare is no misfortune yet: the log makes its segments itself then.
    pub fn run(&mut self) -> Result<(), LogError> {
        self.shared.check()?;
        loop {
            // NOTE: the oldest first, one by one, so that a crash leaves no gap.
            let Some(segment) = self.shared.lists().garbage.pop_front() else { break };
            if let Err(error) = self.give_back(&segment) {
                self.shared.lists().garbage.push_front(segment);
                return Err(error);
            }
        }
        while self.shared.lists().spares.len() < self.shared.options.spare_segments {
            self.prepare()?;
        }
        Ok(())
    }

    fn give_back(&self, segment: &Arc<Segment>) -> Result<(), LogError> {
        let Shared { disk, folder, options, .. } = &*self.shared;
        let path = &segment.path;
        let wanted = self.shared.lists().spares.len() < options.spare_segments;
        // A reader that still has it open must not see it change.
        let fits = wanted && Arc::strong_count(segment) == 1 && {
            let file = disk.open(path).map_err(LogError::io("open", path))?;
            let len = file.len().map_err(LogError::io("open", path))?;
            // A backup under way has it by another name.
            len == options.segment_len && !file.has_other_names().map_err(LogError::io("open", path))?
        };
        if fits {
            let spare = folder.join(format!("{SPARE_PREFIX}{}", self.shared.new_number()));
            disk.rename(path, &spare).map_err(LogError::io("rename", path))?;
            disk.sync_folder(folder).map_err(LogError::io("sync", folder))?;
            self.shared.lists().spares.push(spare);
        } else {
            disk.remove(path).map_err(LogError::io("remove", path))?;
            disk.sync_folder(folder).map_err(LogError::io("sync", folder))?;
        }
        Ok(())
    }

    fn prepare(&self) -> Result<(), LogError> {
        let Shared { disk, folder, options, .. } = &*self.shared;
        let number = self.shared.new_number();
        let path = folder.join(format!("{UNREADY_PREFIX}{number}"));
        let spare = folder.join(format!("{SPARE_PREFIX}{number}"));
        let file = disk.create(&path).map_err(LogError::io("create", &path))?;
        let make = || {
            file.preallocate(options.segment_len)?;
            let zeros = vec![0; FILL_LEN];
            let (mut filled, mut synced) = (0, 0);
            while filled < options.segment_len {
                let len = usize::try_from(options.segment_len - filled).unwrap_or(FILL_LEN).min(FILL_LEN);
                file.write_all_at(zeros.get(..len).unwrap_or_default(), filled)?;
                filled += len as u64;
                if filled - synced >= FILL_SYNC_LEN {
                    file.sync()?;
                    synced = filled;
                }
            }
            file.sync()?;
            disk.rename(&path, &spare)?;
            disk.sync_folder(folder)
        };
        make().map_err(LogError::io("prepare", &path)).inspect_err(|_| {
            let _ = disk.remove(&path);
        })?;
        self.shared.lists().spares.push(spare);
        Ok(())
    }
}
