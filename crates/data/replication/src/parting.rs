//! Where two logs have parted: what an old master has that the new one has not begins there.

use oplog::{Offset, ReplicationId};

/// So many histories of a log are told: those of as many starts of its masters.
pub const HISTORIES_MAX: usize = 48;

/// The histories that a log tells, the oldest first, each with the offset from which on it does; and where the log ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histories {
    /// The histories.
    pub begun: Vec<(ReplicationId, Offset)>,
    /// The log's end.
    pub end: Offset,
}

impl Histories {
    /// Those that a master tells of in `INFO replication`: all of them if it is a store, the last two if it is a Redis.
    #[must_use]
    pub fn in_info(text: &str) -> Option<Self> {
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let id = |text: &str| ReplicationId::parse(text.as_bytes());
        let end = Offset(field("master_repl_offset")?.parse().ok()?);
        if let Some(all) = field("log_histories") {
            return Some(Self { begun: begun_of(all)?, end });
        }
        let mut begun = vec![(id(field("master_replid")?)?, Offset(0))];
        // Redis names the first byte that is another, counted from 1.
        let parted = field("second_repl_offset")?.parse::<i64>().ok()?;
        if let Some(former) = field("master_replid2").and_then(id)
            && let Some(parted) = parted.checked_sub(1).and_then(|parted| u64::try_from(parted).ok())
        {
            begun.insert(0, (former, Offset(0)));
            if let Some((_, from)) = begun.last_mut() {
                *from = Offset(parted);
            }
        }
        Some(Self { begun, end })
    }

    /// As one field of `INFO`.
    #[must_use]
    pub fn field(&self) -> String {
        field_of(&self.begun)
    }

    /// The same without what was written after a moment at which the log ended there at the latest, if that could be mistaken: where both
    /// tell the same history at their ends, one of them has lost its end, and nothing but offsets tells them apart.
    #[must_use]
    pub fn no_later_than(self, offset: Offset, own: &Self) -> Self {
        let last = |all: &Self| all.begun.last().map(|(history, _)| *history);
        let end = if last(&self) == last(own) { self.end.min(offset) } else { self.end };
        Self { end, ..self }
    }

    /// Up to where a history is told.
    fn until(&self, place: usize) -> Offset {
        self.begun.get(place + 1).map_or(self.end, |(_, from)| *from)
    }
}

/// Histories as one word, each with the offset from which on it is told.
#[must_use]
pub fn field_of(begun: &[(ReplicationId, Offset)]) -> String {
    let all: Vec<String> = begun.iter().map(|(history, from)| format!("{history}@{from}")).collect();
    all.join(",")
}

/// Those of such a word.
#[must_use]
pub fn begun_of(word: &str) -> Option<Vec<(ReplicationId, Offset)>> {
    let one = |text: &str| {
        let (history, offset) = text.split_once('@')?;
        Some((ReplicationId::parse(history.as_bytes())?, Offset(offset.parse().ok()?)))
    };
    word.split(',').map(one).collect()
}

/// Up to where both logs have the same; nothing if they have no history in common.
#[must_use]
pub fn parted_at(own: &Histories, other: &Histories) -> Option<Offset> {
    let newest_first = own.begun.iter().enumerate().rev();
    newest_first.into_iter().find_map(|(place, (history, _))| {
        let there = other.begun.iter().rposition(|(id, _)| id == history)?;
        Some(own.until(place).min(other.until(there)))
    })
}

/// What the own data have that a master's have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// Nothing.
    Nowhere,
    /// What stands in the log from there on.
    At(Offset),
    /// Everything, as far as anybody can tell: both have no history in common.
    Unrelated,
}

impl Parting {
    /// Of a log that a copy of the other one is to replace.
    #[must_use]
    pub fn between(own: &Histories, other: &Histories) -> Self {
        match parted_at(own, other) {
            None => Self::Unrelated,
            Some(parted) if parted < own.end => Self::At(parted),
            Some(_) => Self::Nowhere,
        }
    }

    /// What is set aside of it: data that have nothing in common with the master's are only if there are keys, and a setting wants that.
    #[must_use]
    pub fn set_aside(self, has_keys: bool, is_wanted: bool) -> Self {
        if self == Self::Unrelated && !(has_keys && is_wanted) { Self::Nowhere } else { self }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_replaces_is_set_aside_as_far_as_the_master_lacks_it() {
        let own = log(&[(1, 0)], 700);
        assert_eq!(Parting::between(&own, &log(&[(1, 0), (2, 500)], 900)), Parting::At(Offset(500)));
        assert_eq!(Parting::between(&own, &log(&[(1, 0), (2, 800)], 900)), Parting::Nowhere);
        let unrelated = Parting::between(&own, &log(&[(2, 0)], 900));
        assert_eq!(unrelated, Parting::Unrelated);
        assert_eq!(unrelated.set_aside(true, true), Parting::Unrelated);
        assert_eq!(unrelated.set_aside(false, true), Parting::Nowhere, "there is nothing");
        assert_eq!(unrelated.set_aside(true, false), Parting::Nowhere);
        assert_eq!(Parting::At(Offset(500)).set_aside(true, false), Parting::At(Offset(500)));
    }

    fn id(byte: u8) -> ReplicationId {
        ReplicationId::from_random([byte; 20])
    }

    fn log(begun: &[(u8, u64)], end: u64) -> Histories {
        Histories { begun: begun.iter().map(|(byte, from)| (id(*byte), Offset(*from))).collect(), end: Offset(end) }
    }

    #[test]
    fn logs_part_where_the_last_common_history_ends_in_one_of_them() {
        for (own, other, expected) in [
            // The old master went on, and the new one was promoted at 500.
            (log(&[(1, 0)], 700), log(&[(1, 0), (2, 500)], 900), Some(500)),
            // It has nothing more.
            (log(&[(1, 0)], 400), log(&[(1, 0), (2, 500)], 900), Some(400)),
            // Two failovers since.
            (log(&[(1, 0)], 700), log(&[(1, 0), (2, 500), (3, 800)], 900), Some(500)),
            // It was started anew after a crash, and wrote.
            (log(&[(1, 0), (4, 600)], 700), log(&[(1, 0), (2, 500)], 900), Some(500)),
            (log(&[(1, 0), (4, 450)], 700), log(&[(1, 0), (2, 500)], 900), Some(450)),
            // It is ahead of a master that has lost its end.
            (log(&[(1, 0)], 700), log(&[(1, 0)], 650), Some(650)),
            (log(&[(1, 0)], 700), log(&[(2, 0)], 900), None),
        ] {
            assert_eq!(parted_at(&own, &other), expected.map(Offset), "{own:?} {other:?}");
        }
    }

    #[test]
    fn what_a_master_has_written_since_counts_where_its_history_tells_so() {
        let one = log(&[(1, 0)], 700);
        for (own, other, expected) in [
            // It lost its end at 650, and has written since.
            (one.clone(), log(&[(1, 0)], 720), Some(600)),
            // This one was promoted at 500, the master went on; tables that are copied are of 600, or of much earlier.
            (log(&[(1, 0), (2, 500)], 700), log(&[(1, 0)], 720), Some(500)),
            (log(&[(1, 0), (2, 650)], 700), log(&[(1, 0)], 720), Some(650)),
            (one, log(&[(1, 0), (2, 680)], 720), Some(680)),
            // Promoted before anything was written.
            (log(&[(1, 500), (2, 500)], 700), log(&[(1, 0)], 720), Some(500)),
        ] {
            let found = parted_at(&own, &other.clone().no_later_than(Offset(600), &own));
            assert_eq!(found, expected.map(Offset), "{own:?} {other:?}");
        }
    }

    #[test]
    fn histories_are_read_from_what_masters_say() {
        let (first, second) = (id(1), id(2));
        let of_redis = format!(
            "role:master\r\nmaster_replid:{second}\r\nmaster_replid2:{first}\r\nmaster_repl_offset:900\r\n\
             second_repl_offset:501\r\n"
        );
        let expected = log(&[(1, 0), (2, 500)], 900);
        assert_eq!(Histories::in_info(&of_redis), Some(expected.clone()));
        let none = "0".repeat(40);
        let alone = format!(
            "master_replid:{second}\r\nmaster_replid2:{none}\r\nmaster_repl_offset:900\r\nsecond_repl_offset:-1\r\n"
        );
        assert_eq!(Histories::in_info(&alone), Some(log(&[(2, 0)], 900)));
        let of_store = format!("master_repl_offset:900\r\nlog_histories:{}\r\n", expected.field());
        assert_eq!(Histories::in_info(&of_store), Some(expected));
        for text in ["", "master_repl_offset:x", "master_repl_offset:1\r\nlog_histories:1@2", "master_repl_offset:1"] {
            assert_eq!(Histories::in_info(text), None, "{text}");
        }
    }
}
