//! The commands of a log, one after the other.

use keyspace::Millis;
use oplog::{Entry, Offset};
use resp::{Limits, Progress, RequestParser};

/// Takes entries of a log apart.
#[derive(Debug, Default)]
pub struct Effects {
    parser: RequestParser,
}

/// A command of a log.
#[derive(Debug, Clone, Copy)]
pub struct Effect<'a> {
    /// The offset of its first byte.
    pub offset: Offset,
    /// Its words.
    pub words: &'a [&'a [u8]],
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Effects {
    /// Calls `take` for each command of an entry, until it fails.
    ///
    /// # Errors
    ///
    /// That of `take`, or what is wrong with a command and where it is, made an error by `broken`.
    pub fn each<E>(
        &mut self,
        entry: &Entry<'_>,
        mut take: impl FnMut(Effect<'_>) -> Result<(), E>,
        broken: impl Fn(Offset, String) -> E,
    ) -> Result<(), E> {
        // No argument was longer when it came.
        let limits = Limits { bulk_len_max: u64::from(u32::MAX), ..Limits::default() };
        let mut rest = entry.commands;
        while !rest.is_empty() {
            let offset = entry.offset + (entry.commands.len() - rest.len()) as u64;
            let progress = self.parser.parse(rest, &limits).map_err(|error| broken(offset, error.to_string()))?;
            let consumed = match progress {
                Progress::Complete { consumed } => {
                    let words: Vec<&[u8]> = self.parser.arguments(rest).iter().collect();
                    let bytes = rest.get(..consumed).unwrap_or_default();
                    take(Effect { offset, words: &words, bytes })?;
                    consumed
                }
                Progress::Empty { consumed } => consumed,
                Progress::Incomplete { .. } => return Err(broken(offset, "a command is cut off".into())),
            };
            rest = rest.get(consumed..).unwrap_or_default();
        }
        Ok(())
    }
}

/// When the log got an entry.
pub(crate) fn time_of(entry: &Entry<'_>) -> Millis {
    Millis::try_from(entry.time_ms).unwrap_or(Millis::MAX)
}

/// Whether a command is of a name.
pub fn is_named(words: &[&[u8]], name: &str) -> bool {
    words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}
