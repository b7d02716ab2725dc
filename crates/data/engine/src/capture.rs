//! A scan of tables that another thread makes.

use std::sync::Arc;

use crate::batch::Change;
use crate::merge::{Layer, Merge};
use crate::{Bounds, Direction, Key, Records, Result, Value};

/// All that a scan of [`Tables`](crate::Tables) needs, as it was when it was captured.
pub struct Capture {
    changes: Vec<(Key, Change)>,
    /// Nothing if all of it is about to be removed.
    below: Option<Arc<dyn Records>>,
    /// What this capture covers.
    bounds: Bounds,
    /// What comes behind it.
    rest: Option<Bounds>,
    direction: Direction,
}

/// Records that a scan found.
#[derive(Debug, Default)]
pub struct Page {
    /// In the direction of the scan.
    pub records: Vec<(Key, Value)>,
    /// What has not been looked at: a new capture of it goes on where this one ended. `None` at the end.
    pub rest: Option<Bounds>,
}

impl Capture {
    pub(crate) fn new(
        merge: &mut Merge<'_>,
        below: Option<Arc<dyn Records>>,
        bounds: Bounds,
        direction: Direction,
        changes_max: usize,
    ) -> Self {
        let changes_max = changes_max.max(1);
        // Layers in memory have no errors.
        let changes: Vec<_> = std::iter::from_fn(|| merge.next_change()?.ok()).take(changes_max).collect();
        let cut = (changes.len() == changes_max).then(|| changes.last().map(|(key, _)| key)).flatten();
        let (covered, rest) = match cut {
            Some(key) => (bounds.until(key, direction), Some(bounds.behind(key, direction))),
            None => (bounds, None),
        };
        Self { changes, below, bounds: covered, rest, direction }
    }

    /// Makes the scan, until it has that many records or bytes of keys and values.
    pub fn run(self, records_max: usize, bytes_max: usize) -> Result<Page> {
        let Self { changes, below, bounds, rest, direction } = self;
        let below = below.map(|below| below.scan(&bounds, direction));
        let mut merge = Merge::new(std::iter::once(Layer::Owned(changes.into_iter())), below, direction);
        let mut page = Page { records: Vec::new(), rest };
        let mut bytes = 0;
        loop {
            if page.records.len() >= records_max || bytes >= bytes_max {
                if let Some((key, _)) = page.records.last() {
                    // The end of the capture is the end of nothing else: what is left begins behind the last record.
                    page.rest = Some(match &page.rest {
                        Some(rest) => join(&bounds, rest, direction).behind(key, direction),
                        None => bounds.behind(key, direction),
                    });
                }
                return Ok(page);
            }
            match merge.next() {
                Some(record) => {
                    let (key, value) = record?;
                    bytes += key.len() + value.len();
                    page.records.push((key, value));
                }
                None => return Ok(page),
            }
        }
    }
}

/// The interval from the beginning of `first` to the end of `second`, seen in that direction.
fn join(first: &Bounds, second: &Bounds, direction: Direction) -> Bounds {
    match direction {
        Direction::Forward => Bounds { from: first.from.clone(), to: second.to.clone() },
        Direction::Backward => Bounds { from: second.from.clone(), to: first.to.clone() },
    }
}
