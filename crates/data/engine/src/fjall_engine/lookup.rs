//! Looking a record up without waiting for a disk: what is in no cache is named, and the caller reads it.
//!
//! ```text
//!   buffers -> next file -> filter -> index -> block of records -> found
//!                  ^          |         |             |
//!                  +----------+---------+-------------+   it is not there
//! ```
//!
//! The tree does the same in [`Table::get`](lsm_tree::Table::get), but reads as it goes, so that each record that no cache has
//! takes a thread of its own for as long as the disk needs. Named, many are read at once by one thread, which takes a third of the
//! CPU time: on the two cores of a virtual machine 16 us a read of 4 kB in four threads and 6 us by io_uring (fio).

use std::sync::Arc;

use lsm_tree::table::block::BlockType;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::table::{Block, BlockHandle, DataBlock, IndexBlock};
use lsm_tree::{CompressionType, SeqNo};

use super::disk::Disk;
use super::sources::{Source, SourcePosition, handle_of};
use super::views::{View, value_of};
use crate::{Key, Lookup, Piece, Result, Step};

/// A lookup on its way. It sees the state of the moment when it began.
pub(super) struct Finding {
    disk: Arc<Disk>,
    view: Arc<View>,
    key: Key,
    hash: u64,
    /// Whether the block that has the record goes into the cache.
    keeps: bool,
    /// The run that is looked into next.
    next: usize,
    wanted: Option<BlockToRead>,
    /// Nothing is to be read: what no cache has, nobody asks for.
    stays_in_memory: bool,
}

/// A block of a file that has to be read.
struct BlockToRead {
    place: SourcePosition,
    part: BlockKind,
    handle: BlockHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Filter,
    Index,
    Records,
}

/// What a block says.
enum Said {
    /// The block to look into next.
    GoOn(BlockKind, BlockHandle),
    /// The file does not have the record.
    NotHere,
    Found(Option<Key>),
}

impl Finding {
    pub(super) fn new(disk: Arc<Disk>, view: Arc<View>, key: Key, keeps: bool) -> Self {
        let hash = Builder::get_hash(&key);
        Self { disk, view, key, hash, keeps, next: 0, wanted: None, stays_in_memory: false }
    }

    /// What buffers, filters and caches say of the record; `None` if they do not suffice.
    pub(super) fn in_memory(mut self) -> Option<Option<Key>> {
        self.stays_in_memory = true;
        match self.step(None) {
            Ok(Step::Found(value)) => Some(value),
            // Whoever reads it in one go meets an error again.
            Ok(Step::Read(_) | Step::Waits) | Err(_) => None,
        }
    }

    /// Looks into files, until something has to be read.
    fn files(&mut self) -> Result<Step> {
        while let Some((place, source)) = self.view.sources().next(self.next, &self.key) {
            self.next = place.run + 1;
            let first = match (&source.table.pinned_filter_block, &source.filters, &source.index) {
                (Some(filter), ..) if !filter.maybe_contains_hash(self.hash)? => continue,
                (Some(_), _, Some(index)) => index.block_of(&self.key).map(|handle| (BlockKind::Index, handle)),
                (None, Some(filters), Some(_)) => filters.block_of(&self.key).map(|handle| (BlockKind::Filter, handle)),
                _ => return Ok(Step::Waits),
            };
            let Some((part, handle)) = first else { continue };
            if let Some(step) = self.blocks(BlockToRead { place, part, handle }, None)? {
                return Ok(step);
            }
        }
        Ok(Step::Found(None))
    }

    /// Goes through blocks of a file, the first of which may have been read already, as long as the cache has them. Returns `None`
    /// if the file does not have the record.
    fn blocks(&mut self, mut wanted: BlockToRead, mut read: Option<Block>) -> Result<Option<Step>> {
        let Some(source) = self.view.sources().at(wanted.place) else { return Ok(Some(Step::Waits)) };
        let id = (self.disk.tree, source.table.id()).into();
        loop {
            let Some(block) = read.take().or_else(|| self.disk.cache.get_block(id, wanted.handle.offset())) else {
                if self.stays_in_memory {
                    return Ok(Some(Step::Waits));
                }
                let files_bytes = || self.view.sources().files_bytes();
                let (file, align) = self.disk.file_for_block(&source.table, files_bytes)?;
                let (offset, len) = (*wanted.handle.offset(), wanted.handle.size() as usize);
                self.wanted = Some(wanted);
                return Ok(Some(Step::Read(Piece { file, offset, len, align })));
            };
            match self.ask(source, wanted.part, block)? {
                Said::GoOn(part, handle) => wanted = BlockToRead { part, handle, ..wanted },
                Said::NotHere => return Ok(None),
                Said::Found(value) => return Ok(Some(Step::Found(value))),
            }
        }
    }

    fn ask(&self, source: &Source, part: BlockKind, block: Block) -> Result<Said> {
        Ok(match part {
            BlockKind::Filter => {
                let may_have = FilterBlock::new(block).maybe_contains_hash(self.hash)?;
                match source.index.as_ref().filter(|_| may_have).and_then(|index| index.block_of(&self.key)) {
                    Some(handle) => Said::GoOn(BlockKind::Index, handle),
                    None => Said::NotHere,
                }
            }
            BlockKind::Index => match handle_of(&IndexBlock::new(block), &self.key) {
                Some(handle) => Said::GoOn(BlockKind::Records, handle),
                None => Said::NotHere,
            },
            BlockKind::Records => match DataBlock::new(block).point_read(&self.key, SeqNo::MAX) {
                Some(record) => Said::Found(value_of(record)),
                None => Said::NotHere,
            },
        })
    }

    /// Takes a block that was read. Returns `None` if it is not one.
    fn block(&self, wanted: &BlockToRead, bytes: &[u8]) -> Option<Block> {
        let table = &self.view.sources().at(wanted.place)?.table;
        let (kind, compression) = match wanted.part {
            BlockKind::Filter => (BlockType::Filter, CompressionType::None),
            BlockKind::Index => (BlockType::Index, table.metadata.index_block_compression),
            BlockKind::Records => (BlockType::Data, table.metadata.data_block_compression),
        };
        let block = Block::from_reader(&mut &*bytes, compression).ok()?;
        if block.header.block_type != kind {
            return None;
        }
        // What nobody wants would drive out what every lookup needs.
        if self.keeps || wanted.part != BlockKind::Records {
            let id = (self.disk.tree, table.id()).into();
            self.disk.cache.insert_block(id, wanted.handle.offset(), block.clone());
        }
        Some(block)
    }
}

impl Lookup for Finding {
    fn step(&mut self, read: Option<&[u8]>) -> Result<Step> {
        let (Some(wanted), Some(bytes)) = (self.wanted.take(), read) else {
            if let Some(value) = self.view.buffered(&self.key) {
                return Ok(Step::Found(value));
            }
            return self.files();
        };
        // Whoever reads it in one go finds the damage again, and says where it is.
        let Some(block) = self.block(&wanted, bytes) else { return Ok(Step::Waits) };
        match self.blocks(wanted, Some(block))? {
            Some(step) => Ok(step),
            None => self.files(),
        }
    }
}
