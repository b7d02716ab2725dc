//! The tree's files, with what of each has to be in memory to look a record up without waiting.
//!
//! The tree keeps the same to itself. So the top blocks of indexes and filters are in memory twice: one or two ten-thousandths of
//! the data with values of 1,000 bytes.

use std::sync::Arc;

use lsm_tree::table::block::BlockType;
use lsm_tree::table::block::decoder::ParsedItem as _;
use lsm_tree::table::{Block, BlockHandle, IndexBlock, KeyedBlockHandle};
use lsm_tree::{AbstractTree as _, SeqNo, Table, TableId, Tree};

use super::disk::Disk;
use crate::Key;

/// A file of records.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) table: Table,
    /// The top of its index, if that has two levels: another one cannot be seen from here.
    pub(super) index: Option<Arc<Top>>,
    /// The top of its filter, if that has two levels.
    pub(super) filters: Option<Arc<Top>>,
    _closing: Arc<Closing>,
}

/// Has a file closed when no view has it any more: a deleted one takes its place on the disk until then.
struct Closing {
    disk: Arc<Disk>,
    table: TableId,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.disk.close(self.table);
    }
}

/// The blocks of an index or a filter, by the last key of each. The tree's own form of it is smaller, and takes twice the time to
/// find something in.
pub(super) struct Top {
    blocks: Vec<(Key, BlockHandle)>,
    /// What they take of memory.
    bytes: u64,
}

/// All files, in the order in which they are looked into; those of a run have no key in common and are ordered by it.
#[derive(Default)]
pub(super) struct Sources(Vec<Vec<Source>>);

/// Which of them.
#[derive(Clone, Copy)]
pub(super) struct SourcePosition {
    pub(super) run: usize,
    file: usize,
}

impl Source {
    fn read(disk: &Arc<Disk>, table: &Table) -> Self {
        let index = table.regions.index.and_then(|_| top(disk, table, table.regions.tli));
        let filters = table.regions.filter_tli.and_then(|handle| top(disk, table, handle));
        let closing = Arc::new(Closing { disk: Arc::clone(disk), table: table.id() });
        Self { table: table.clone(), index, filters, _closing: closing }
    }
}

/// A top block. One that cannot be read is met again by whoever reads the tree, and reported there.
fn top(disk: &Disk, table: &Table, handle: BlockHandle) -> Option<Arc<Top>> {
    let file = disk.file(table).ok()?;
    let block = Block::from_file(&file, handle, table.metadata.index_block_compression).ok()?;
    let block = (block.header.block_type == BlockType::Index).then(|| IndexBlock::new(block))?;
    let entry = |entry: KeyedBlockHandle| (Key::from(&**entry.end_key()), entry.into_inner());
    let mut blocks: Vec<_> = block.iter().map(|one| entry(one.materialize(block.as_slice()))).collect();
    blocks.shrink_to_fit();
    // Longer keys than these lie elsewhere.
    let apart: usize = blocks.iter().map(|(key, _)| if key.len() > 20 { key.len() } else { 0 }).sum();
    let bytes = (apart + blocks.capacity() * size_of::<(Key, BlockHandle)>()) as u64;
    Some(Arc::new(Top { blocks, bytes }))
}

impl Top {
    /// The block that has a key: the first whose last key is not below it.
    pub(super) fn block_of(&self, key: &[u8]) -> Option<BlockHandle> {
        let at = self.blocks.partition_point(|(last, _)| **last < *key);
        self.blocks.get(at).map(|(_, handle)| *handle)
    }
}

impl Sources {
    /// Those of a tree as it is now. What `former` has already is not read again.
    pub(super) fn of(tree: &Tree, disk: &Arc<Disk>, former: &Self) -> Self {
        let mut known: Vec<(TableId, &Source)> =
            former.0.iter().flatten().map(|source| (source.table.id(), source)).collect();
        known.sort_unstable_by_key(|(id, _)| *id);
        let source = |table: &Table| match known.binary_search_by_key(&table.id(), |(id, _)| *id) {
            Ok(at) => known.get(at).map_or_else(|| Source::read(disk, table), |(_, source)| (*source).clone()),
            Err(_) => Source::read(disk, table),
        };
        let files = tree.current_version();
        let runs = files.iter_levels().flat_map(|level| level.iter());
        Self(runs.map(|run| run.iter().map(source).collect()).collect())
    }

    /// The first file from a run on that may have a key.
    pub(super) fn next(&self, run: usize, key: &[u8]) -> Option<(SourcePosition, &Source)> {
        self.0.iter().enumerate().skip(run).find_map(|(run, sources)| {
            let file = sources.partition_point(|source| &**source.table.metadata.key_range.max() < key);
            let source = sources.get(file)?;
            (&**source.table.metadata.key_range.min() <= key).then_some((SourcePosition { run, file }, source))
        })
    }

    pub(super) fn at(&self, place: SourcePosition) -> Option<&Source> {
        self.0.get(place.run)?.get(place.file)
    }

    /// How large the files are together, in bytes.
    pub(super) fn files_bytes(&self) -> u64 {
        self.0.iter().flatten().map(|source| source.table.metadata.file_size).sum()
    }

    /// What the top blocks take of memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let tops = self.0.iter().flatten().flat_map(|source| [&source.index, &source.filters]);
        tops.flatten().map(|top| top.bytes).sum()
    }
}

/// The same in a block of the lower level.
pub(super) fn handle_of(index: &IndexBlock, key: &[u8]) -> Option<BlockHandle> {
    let mut entries = index.iter();
    entries.seek(key, SeqNo::MAX);
    Some(entries.next()?.materialize(index.as_slice()).into_inner())
}
