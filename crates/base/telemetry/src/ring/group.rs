//! Gathers the transactions of a session, which come one by one and among those of others.

use std::collections::{HashMap, VecDeque};

use super::{Block, Tag};

/// Sessions that are gathered at the same time; the oldest one is given out unfinished when another comes.
const SESSIONS_MAX: usize = 4_096;
/// Bytes of records that are held back; beyond it the oldest session is given out unfinished.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A block that outlives the reader's next step.
#[derive(Clone, Debug)]
pub struct OwnedBlock(Vec<u8>);

impl OwnedBlock {
    /// A copy.
    #[must_use]
    pub fn of(block: &Block<'_>) -> Self {
        Self(block.bytes().to_vec())
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> Block<'_> {
        Block::of_copy(&self.0)
    }
}

/// The transactions of a session.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The session's id, or the transaction's own when it has no parent.
    pub root: u64,
    /// Its blocks in the order of arrival.
    pub blocks: Vec<OwnedBlock>,
    /// Whether the session's end was seen.
    pub complete: bool,
}

/// Gathers blocks by session.
#[derive(Debug, Default)]
pub struct Grouper {
    groups: HashMap<u64, Group>,
    /// Roots in the order of their first block; may name groups that are gone.
    order: VecDeque<u64>,
    bytes: usize,
}

/// The session that a block belongs to: the parent that its `Begin` record names, or itself.
fn root_of(block: &Block<'_>) -> Option<u64> {
    let begin = block.first(Tag::Begin)?;
    let parent = begin.split(|byte| *byte == b' ').nth(1)?;
    let parent = std::str::from_utf8(parent).ok()?.parse().ok()?;
    Some(if parent == 0 { block.id() } else { parent })
}

impl Grouper {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a block in and gives out the sessions that are finished or have no room any more.
    pub fn push(&mut self, block: &Block<'_>) -> Vec<Group> {
        let root = root_of(block).unwrap_or(block.id());
        let group = self.groups.entry(root).or_insert_with(|| {
            self.order.push_back(root);
            Group { root, ..Group::default() }
        });
        group.blocks.push(OwnedBlock::of(block));
        self.bytes += block.bytes().len();
        let mut done = Vec::new();
        if block.id() == root && block.first(Tag::End).is_some() {
            group.complete = true;
            done.extend(self.take(root));
        }
        while self.groups.len() > SESSIONS_MAX || self.bytes > BYTES_MAX || self.order.len() > 2 * SESSIONS_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            done.extend(self.take(oldest));
        }
        done
    }

    fn take(&mut self, root: u64) -> Option<Group> {
        let group = self.groups.remove(&root)?;
        self.bytes -= group.blocks.iter().map(|block| block.0.len()).sum::<usize>();
        if self.order.front() == Some(&root) {
            self.order.pop_front();
        }
        Some(group)
    }

    /// Gives out everything that is left, finished or not: for the end of the input.
    pub fn drain(&mut self) -> Vec<Group> {
        self.bytes = 0;
        let mut groups: Vec<Group> =
            std::mem::take(&mut self.order).iter().filter_map(|root| self.groups.remove(root)).collect();
        groups.extend(self.groups.drain().map(|(_, group)| group));
        groups
    }
}
