//! Lists.

use std::collections::VecDeque;

use crate::Bytes;

/// Elements from head to tail.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The elements.
    pub elements: VecDeque<Bytes>,
}
