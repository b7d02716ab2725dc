//! The histories that the log tells, in the folder (`histories`): longer than the log's files are kept, and as the master has told them, which
//! knows of those that began and ended between two looks of this replica.
//!
//! ```text
//! tidegate histories 1
//! 1f0c...  0                   from this offset on the log tells this history
//! 77ab...  5120                and from this one on that: perhaps behind the log's end, as a master has told it
//! ```
//!
//! The log names a history too, in each of its files. What the file says counts as long as both agree on the last one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use oplog::{Offset, ReplicationId};
use replication::parting::HISTORIES_MAX;

use crate::{messages, replace::replace};

const HEAD: &str = "tidegate histories 1";

/// A history, and from which offset on it is told.
pub type Begun = (ReplicationId, Offset);

/// Those of a folder.
#[derive(Debug, Default)]
pub struct KeptHistories {
    path: PathBuf,
    known: Vec<Begun>,
}

impl KeptHistories {
    /// Reads them; what cannot be read is written anew in time.
    pub fn of(root: &Path) -> Self {
        let path = root.join("histories");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known = text.strip_prefix(HEAD).and_then(|text| text.lines().skip(1).map(parsed).collect());
        Self { path, known: known.unwrap_or_default() }
    }

    /// All that the log tells, the oldest first. `told` by its files; it ends at `end`.
    pub fn all(&self, told: Vec<Begun>, end: Offset) -> Vec<Begun> {
        let last = told.last().and_then(|(last, _)| self.known.iter().rposition(|(history, _)| history == last));
        // NOTE: what begins at the end is known before the log says so: a store that has ended in between knows the others all the same.
        let is_whole = |place: usize| self.known.iter().skip(place + 1).all(|(_, from)| *from >= end);
        if !last.is_some_and(is_whole) {
            return told;
        }
        let all: Vec<Begun> = self.known.iter().filter(|(_, from)| *from <= end).copied().collect();
        if all.is_empty() { told } else { all }
    }

    /// Where the next one begins that a master has told of, behind the log's end.
    pub fn next_behind(&self, end: Offset) -> Option<Offset> {
        self.known.iter().map(|(_, from)| *from).filter(|from| *from > end).min()
    }

    /// Another history begins at the log's end: before the log says so.
    pub fn begin(&mut self, history: ReplicationId, (told, end): (Vec<Begun>, Offset)) {
        let mut all = self.all(told, end);
        if all.last().is_none_or(|(last, _)| *last != history) {
            all.push((history, end));
        }
        self.take(all);
    }

    /// These are told from now on, as a master says of its log, which the own one is a part of.
    pub fn take(&mut self, mut all: Vec<Begun>) {
        let surplus = all.len().saturating_sub(HISTORIES_MAX);
        all.drain(..surplus);
        if all == self.known {
            return;
        }
        self.known = all;
        let lines: String = self.known.iter().map(|(history, from)| format!("{history} {from}\n")).collect();
        if let Err(error) = replace(&self.path, format!("{HEAD}\n{lines}").as_bytes()) {
            // Without it a replica may need a copy of all keys some day.
            messages::warn(&format!("the log's histories cannot be written into {}: {error}", self.path.display()));
        }
    }
}

fn parsed(line: &str) -> Option<Begun> {
    let (history, from) = line.split_once(' ')?;
    Some((ReplicationId::parse(history.as_bytes())?, Offset(from.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ReplicationId {
        ReplicationId::from_random([byte; 20])
    }

    fn begun(all: &[(u8, u64)]) -> Vec<Begun> {
        all.iter().map(|(byte, from)| (id(*byte), Offset(*from))).collect()
    }

    #[test]
    fn what_the_file_knows_counts_where_the_log_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = KeptHistories::of(dir.path());
        assert_eq!(kept.all(begun(&[(1, 0)]), Offset(70)), begun(&[(1, 0)]));
        kept.begin(id(2), (begun(&[(1, 0)]), Offset(70)));
        // The log's first file is gone.
        assert_eq!(kept.all(begun(&[(2, 70)]), Offset(90)), begun(&[(1, 0), (2, 70)]));
        // It follows a master that has begun two histories since, one of them where this log has not come to yet.
        kept.take(begun(&[(1, 0), (2, 70), (3, 100), (4, 500)]));
        let kept = KeptHistories::of(dir.path());
        assert_eq!(kept.all(begun(&[(2, 70), (4, 90)]), Offset(90)), begun(&[(1, 0), (2, 70)]));
        assert_eq!((kept.next_behind(Offset(90)), kept.next_behind(Offset(500))), (Some(Offset(100)), None));
        assert_eq!(kept.all(begun(&[(2, 70), (4, 90)]), Offset(300)), begun(&[(1, 0), (2, 70), (3, 100)]));
        // The store has ended after a history was noted, and before its log said so.
        let mut ended = KeptHistories::of(tempfile::tempdir().unwrap().path());
        ended.known = begun(&[(1, 0), (2, 70), (3, 90)]);
        assert_eq!(ended.all(begun(&[(2, 70)]), Offset(90)), begun(&[(1, 0), (2, 70), (3, 90)]));
        // The log tells another one by now: the file is of before.
        assert_eq!(kept.all(begun(&[(2, 70), (9, 300)]), Offset(600)), begun(&[(2, 70), (9, 300)]));
        assert_eq!(kept.all(begun(&[(3, 100)]), Offset(600)), begun(&[(3, 100)]));
        fs::write(dir.path().join("histories"), "tidegate histories 1\nx y\n").unwrap();
        assert_eq!(KeptHistories::of(dir.path()).known, []);
    }

    #[test]
    fn they_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = KeptHistories::of(dir.path());
        let many: Vec<Begun> = (0..200).map(|number| (id(number), Offset(u64::from(number)))).collect();
        kept.take(many);
        assert_eq!(kept.known.len(), HISTORIES_MAX);
        assert_eq!(kept.all(begun(&[(199, 199)]), Offset(500)).last(), Some(&(id(199), Offset(199))));
    }
}
