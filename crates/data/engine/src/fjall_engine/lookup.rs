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
use super::sources::{Source, handle_of};
use super::views::{View, value_of};
use crate::{Key, Lookup, Piece, Result, Step};

/// A lookup on its way. It sees the state of the moment when it began.
pub(super) struct Finding {
    disk: Arc<Disk>,
    view: Arc<View>,
    key: Key,
    hash: u64,
    /// The run that is looked into when this file does not have it.
    next: usize,
    wanted: Option<Wanted>,
}

/// A block of a file that has to be read.
struct Wanted {
    source: Source,
    part: Part,
    handle: BlockHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Filter,
    Index,
    Records,
}

/// What a block says.
enum Said {
    /// The block to look into next.
    GoOn(Part, BlockHandle),
    /// The file does not have the record.
    NotHere,
    Found(Option<Key>),
}

impl Finding {
    pub(super) fn new(disk: Arc<Disk>, view: Arc<View>, key: Key) -> Self {
        let hash = Builder::get_hash(&key);
        Self { disk, view, key, hash, next: 0, wanted: None }
    }

    /// Looks into files, until something has to be read.
    fn files(&mut self) -> Result<Step> {
        while let Some((next, source)) = self.view.sources().next(self.next, &self.key) {
            self.next = next;
            let first = match (&source.table.pinned_filter_block, &source.filters, &source.index) {
                (Some(filter), ..) if !filter.maybe_contains_hash(self.hash)? => continue,
                (Some(_), _, Some(index)) => handle_of(index, &self.key).map(|handle| (Part::Index, handle)),
                (None, Some(filters), Some(_)) => handle_of(filters, &self.key).map(|handle| (Part::Filter, handle)),
                _ => return Ok(Step::Waits),
            };
            let Some((part, handle)) = first else { continue };
            let source = source.clone();
            if let Some(step) = self.blocks(source, part, handle)? {
                return Ok(step);
            }
        }
        Ok(Step::Found(None))
    }

    /// Goes through blocks of a file that the cache has. Returns `None` if the file does not have the record.
    fn blocks(&mut self, source: Source, mut part: Part, mut handle: BlockHandle) -> Result<Option<Step>> {
        loop {
            let id = (self.disk.tree, source.table.id()).into();
            let Some(block) = self.disk.cache.get_block(id, handle.offset()) else {
                let files_bytes = || self.view.sources().files_bytes();
                let (file, align) = self.disk.file_for_block(&source.table, files_bytes)?;
                let piece = Piece { file, offset: *handle.offset(), len: handle.size() as usize, align };
                self.wanted = Some(Wanted { source, part, handle });
                return Ok(Some(Step::Read(piece)));
            };
            match self.ask(&source, part, block)? {
                Said::GoOn(next, there) => (part, handle) = (next, there),
                Said::NotHere => return Ok(None),
                Said::Found(value) => return Ok(Some(Step::Found(value))),
            }
        }
    }

    fn ask(&self, source: &Source, part: Part, block: Block) -> Result<Said> {
        Ok(match part {
            Part::Filter => {
                let may_have = FilterBlock::new(block).maybe_contains_hash(self.hash)?;
                match source.index.as_ref().filter(|_| may_have).and_then(|index| handle_of(index, &self.key)) {
                    Some(handle) => Said::GoOn(Part::Index, handle),
                    None => Said::NotHere,
                }
            }
            Part::Index => match handle_of(&IndexBlock::new(block), &self.key) {
                Some(handle) => Said::GoOn(Part::Records, handle),
                None => Said::NotHere,
            },
            Part::Records => match DataBlock::new(block).point_read(&self.key, SeqNo::MAX) {
                Some(record) => Said::Found(value_of(record)),
                None => Said::NotHere,
            },
        })
    }

    /// Takes a block that was read. Returns `None` if it is not one.
    fn block(&self, wanted: &Wanted, bytes: &[u8]) -> Option<Block> {
        let metadata = &wanted.source.table.metadata;
        let (kind, compression) = match wanted.part {
            Part::Filter => (BlockType::Filter, CompressionType::None),
            Part::Index => (BlockType::Index, metadata.index_block_compression),
            Part::Records => (BlockType::Data, metadata.data_block_compression),
        };
        let block = Block::from_reader(&mut &*bytes, compression).ok()?;
        if block.header.block_type != kind {
            return None;
        }
        let id = (self.disk.tree, wanted.source.table.id()).into();
        self.disk.cache.insert_block(id, wanted.handle.offset(), block.clone());
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
        let step = match self.ask(&wanted.source, wanted.part, block)? {
            Said::GoOn(part, handle) => self.blocks(wanted.source, part, handle)?,
            Said::NotHere => None,
            Said::Found(value) => return Ok(Step::Found(value)),
        };
        step.map_or_else(|| self.files(), Ok)
    }
}
