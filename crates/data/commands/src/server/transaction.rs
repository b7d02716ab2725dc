//! `EXEC`: the commands that were queued, one after the other.

use keyspace::{Bytes, Failure};
use resp::Reply;

use crate::{Session, table::Flags};

use super::{Server, dispatch::WordList};

impl Server {
    /// Whether one of some keys, all of which were valid before, has expired and nobody noticed yet.
    fn has_expired(&mut self, watched: &[(usize, Bytes)]) -> Result<bool, Failure> {
        let noticed = self.changes.before.len();
        for (db, key) in watched {
            self.keys(*db, self.now).contains(key)?;
        }
        Ok(self.changes.before.len() > noticed)
    }

    /// Runs the queued commands of a session.
    pub(super) fn execute_transaction(&mut self, session: &mut Session, output: &mut Vec<u8>) -> Result<(), Failure> {
        let transaction = session.transaction.take().ok_or(Failure::text("ERR EXEC without MULTI"))?;
        let failed = if session.watch.has_failed { Ok(true) } else { self.has_expired(&session.watch.keys) };
        self.unwatch(session);
        if transaction.refused {
            return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
        }
        let needs_memory = |words: &Vec<Bytes>| {
            let words: WordList<'_> = words.iter().map(|word| word.as_slice()).collect();
            self.shared.table.find(&words).is_some_and(|found| found.command.flags.contains(Flags::DENYOOM))
        };
        if self.shared.condition.memory_full && transaction.commands.iter().any(needs_memory) {
            return Err(Failure::text(
                "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
            ));
        }
        let writes = |words: &Vec<Bytes>| {
            let words: WordList<'_> = words.iter().map(|word| word.as_slice()).collect();
            self.shared.table.find(&words).is_some_and(|found| found.command.flags.contains(Flags::WRITE))
        };
        if let Some(reason) = &self.shared.condition.refuse_writes
            && transaction.commands.iter().any(writes)
        {
            return Err(Failure::owned(format!("EXECABORT Transaction discarded because of: {reason}")));
        }
        if failed? {
            Reply::new(output, session.protocol).null_array();
            return Ok(());
        }
        Reply::new(output, session.protocol).array(transaction.commands.len());
        let begun = self.effects.begin();
        let denied = std::mem::replace(&mut session.deny_blocking, true);
        for command in &transaction.commands {
            let words: WordList<'_> = command.iter().map(|word| word.as_slice()).collect();
            if session.access.restricted
                && let Err(failure) = self.check_queued(session, &words)
            {
                let text = failure.bytes();
                self.shared.statistics.count_error(&text);
                Reply::new(output, session.protocol).error(text);
                continue;
            }
            self.call(session, output, &words);
        }
        session.deny_blocking = denied;
        self.effects.end(begun);
        Ok(())
    }
}
