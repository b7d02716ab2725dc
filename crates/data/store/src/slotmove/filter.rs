//! Which part of a source's commands is about some slots.

use commands::{
    cluster::{SLOTS, SlotRange},
    server::Table,
    table::Flags,
};
use keyspace::slot::cluster_slot;

/// The slots that move, and what commands are about.
pub struct Filter {
    is_moved: Vec<bool>,
    table: Table,
}

/// What becomes of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Passed<'a> {
    /// It is about other slots, or about no keys.
    Nothing,
    /// It goes on with these words.
    Words(Vec<&'a [u8]>),
    /// All keys of the slots go.
    Emptied,
}

/// A command that cannot be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It has keys of both.
    #[error("'{0}' has keys of slots that move and of others: the move is to be begun anew")]
    Mixed(String),
    /// It is about another database.
    #[error("the source has keys in database {0}: slots have one database, number 0")]
    Database(String),
}

impl Filter {
    /// Of these slots.
    #[must_use]
    pub fn new(slots: &[SlotRange]) -> Self {
        let mut is_moved = vec![false; SLOTS];
        for (first, last) in slots {
            let range = usize::from(*first)..=usize::from(*last);
            is_moved.get_mut(range).into_iter().flatten().for_each(|moved| *moved = true);
        }
        Self { is_moved, table: commands::groups::table() }
    }

    /// Whether a key moves.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.is_moved.get(usize::from(cluster_slot(key))).copied().unwrap_or(false)
    }

    /// What of a command is about the slots.
    ///
    /// # Errors
    ///
    /// It cannot be told apart.
    pub fn pass<'a>(&self, words: &[&'a [u8]]) -> Result<Passed<'a>, FilterError> {
        let Some(found) = self.table.find(words) else { return Ok(Passed::Nothing) };
        let name = found.command.name;
        match name {
            "SELECT" => {
                let number = words.get(1).copied().unwrap_or_default();
                let is_first = number == b"0";
                return if is_first { Ok(Passed::Nothing) } else { Err(FilterError::Database(text(number))) };
            }
            "FLUSHALL" | "FLUSHDB" => return Ok(Passed::Emptied),
            _ if !found.command.flags.contains(Flags::WRITE) => return Ok(Passed::Nothing),
            _ => {}
        }
        let places = found.command.key_places_of(words);
        let is_moved = |place: &usize| words.get(*place).is_some_and(|key| self.has(key));
        let moved = places.iter().filter(|place| is_moved(place)).count();
        if moved == 0 {
            return Ok(Passed::Nothing);
        }
        if moved == places.len() {
            return Ok(Passed::Words(words.to_vec()));
        }
        let each = match name {
            "MSET" => 2,
            "DEL" | "UNLINK" => 1,
            _ => return Err(FilterError::Mixed(found.full_name())),
        };
        let mut part = words.get(..1).unwrap_or_default().to_vec();
        for place in places.iter().filter(|place| is_moved(place)) {
            part.extend(words.get(*place..place + each).unwrap_or_default());
        }
        Ok(Passed::Words(part))
    }
}

fn text(word: &[u8]) -> String {
    word.get(..20).unwrap_or(word).escape_ascii().to_string()
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.is_moved.iter().filter(|moved| **moved).count();
        formatter.debug_struct("Filter").field("slots", &count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot of "a" is 15495, of "b" 3300, of "c" 7365.
    fn passed(command: &str) -> String {
        let filter = Filter::new(&[(3300, 3300), (7000, 8000)]);
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        match filter.pass(&words) {
            Ok(Passed::Nothing) => "-".into(),
            Ok(Passed::Emptied) => "emptied".into(),
            Ok(Passed::Words(words)) => {
                words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_about_the_slots_goes_on() {
        for (command, expected) in [
            ("SET b 1", "SET b 1"),
            ("SET a 1", "-"),
            ("MSET a 1 b 2 c 3", "MSET b 2 c 3"),
            ("DEL c a", "DEL c"),
            ("RENAME {b}1 {b}2", "RENAME {b}1 {b}2"),
            ("RENAME a b", "'rename' has keys of slots that move and of others: the move is to be begun anew"),
            ("SELECT 0", "-"),
            ("SELECT 3", "the source has keys in database 3: slots have one database, number 0"),
            ("FLUSHALL", "emptied"),
            ("PUBLISH b x", "-"),
            ("MULTI", "-"),
            ("PING", "-"),
            ("REPLCONF GETACK *", "-"),
            ("NONSENSE b", "-"),
        ] {
            assert_eq!(passed(command), expected, "{command}");
        }
    }
}
