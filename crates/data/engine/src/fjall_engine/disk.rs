//! The files that single records are read from.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{Cache, DescriptorTable, Table, TableId, TreeId};
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};

use super::page_cache::PageCache;

/// How often it is asked whether the page cache has room.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// What reads past the page cache are aligned to where the kernel does not say (before Linux 6.1): a page.
const PAGE: u32 = 4096;

/// What files are read with, and where their blocks are kept.
pub(super) struct Disk {
    pub(super) tree: TreeId,
    pub(super) cache: Arc<Cache>,
    /// Files that are read through the page cache: the tree's own.
    through: Arc<DescriptorTable>,
    /// Files that are read past it.
    past: DescriptorTable,
    page_cache: PageCache,
    /// Whether they are read past it now, and when that was decided, in milliseconds since the beginning.
    is_past: AtomicBool,
    decided: AtomicU64,
    beginning: Instant,
    /// What reads past the page cache are aligned to, in bytes; 0: not known yet; `u64::MAX`: they are not possible.
    align: AtomicU64,
}

impl Disk {
    pub(super) fn new(
        tree: TreeId,
        cache: Arc<Cache>,
        through: Arc<DescriptorTable>,
        files_max: usize,
        page_cache: PageCache,
    ) -> Self {
        Self {
            tree,
            cache,
            through,
            past: DescriptorTable::new(files_max),
            page_cache,
            is_past: AtomicBool::new(false),
            decided: AtomicU64::new(u64::MAX),
            beginning: Instant::now(),
            align: AtomicU64::new(0),
        }
    }

    /// The open file of a table, to be read through the page cache.
    pub(super) fn file(&self, table: &Table) -> io::Result<Arc<File>> {
        let id = (self.tree, table.id()).into();
        if let Some(file) = self.through.access_for_table(&id) {
            return Ok(file);
        }
        let file = Arc::new(File::open(&*table.path)?);
        self.through.insert_for_table(id, Arc::clone(&file));
        Ok(file)
    }

    /// The open file of a table to read a single block from, and what the read has to be aligned to. `files_bytes` is how large all
    /// files are.
    pub(super) fn file_for_block(
        &self,
        table: &Table,
        files_bytes: impl FnOnce() -> u64,
    ) -> io::Result<(Arc<File>, u32)> {
        if self.is_past(files_bytes)
            && let Some((file, align)) = self.file_past_cache(table)?
        {
            return Ok((file, align));
        }
        Ok((self.file(table)?, 1))
    }

    /// Closes the file of a table that is read past the page cache. The tree sees to the others.
    pub(super) fn close(&self, table: TableId) {
        self.past.remove_for_table(&(self.tree, table).into());
    }

    fn is_past(&self, files_bytes: impl FnOnce() -> u64) -> bool {
        let now = self.beginning.elapsed().as_millis() as u64;
        let decided = self.decided.load(Ordering::Relaxed);
        if decided == u64::MAX || now.saturating_sub(decided) > ASK_AGAIN.as_millis() as u64 {
            self.decided.store(now, Ordering::Relaxed);
            self.is_past.store(self.page_cache.is_past(files_bytes()), Ordering::Relaxed);
        }
        self.is_past.load(Ordering::Relaxed)
    }

    /// `None` if the file system cannot do it.
    fn file_past_cache(&self, table: &Table) -> io::Result<Option<(Arc<File>, u32)>> {
        let align = self.align.load(Ordering::Relaxed);
        if align == u64::MAX {
            return Ok(None);
        }
        let id = (self.tree, table.id()).into();
        if let (Some(file), Ok(align @ 1..)) = (self.past.access_for_table(&id), u32::try_from(align)) {
            return Ok(Some((file, align)));
        }
        let options = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).clone();
        let file = match options.open(&*table.path) {
            Ok(file) => Arc::new(file),
            // EINVAL is what a file system says that has no such thing.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.align.store(u64::MAX, Ordering::Relaxed);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let align = alignment(&file);
        self.align.store(align.map_or(u64::MAX, u64::from), Ordering::Relaxed);
        let Some(align) = align else { return Ok(None) };
        self.past.insert_for_table(id, Arc::clone(&file));
        Ok(Some((file, align)))
    }
}

/// What offsets and lengths of reads past the page cache have to be multiples of. `None` if they are not possible.
fn alignment(file: &File) -> Option<u32> {
    match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) => {
            // Memory is aligned to a page.
            let is_possible = (1..=PAGE).contains(&found.stx_dio_offset_align) && found.stx_dio_mem_align <= PAGE;
            is_possible.then_some(found.stx_dio_offset_align)
        }
        _ => Some(PAGE),
    }
}
