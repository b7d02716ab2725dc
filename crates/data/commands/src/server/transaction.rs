//! `EXEC`: the commands that were queued, one after the other.

use keyspace::{Bytes, Failure};
use resp::Reply;

use crate::{Session, table::Flags};

use super::{Server, dispatch::WordList, execution::OUT_OF_MEMORY, replication::MASTER_DOWN};

impl Server {
    /// Whether one of some keys, all of which were valid before, has expired and nobody noticed yet.
    fn has_expired(&mut self, watched: &[(usize, Bytes)]) -> Result<bool, Failure> {
        let noticed = self.changes.before.len();
        for (db, key) in watched {
            self.keys(*db, self.now).contains(key)?;
        }
        Ok(self.changes.before.len() > noticed)
    }

    /// Why commands that could be queued are not to run any more.
    fn refused_now(&self, commands: &[Vec<Bytes>]) -> Option<Failure> {
        let flags = || {
            commands.iter().filter_map(|words| {
                let words: WordList<'_> = words.iter().map(|word| word.as_slice()).collect();
                Some(self.shared.table.find(&words)?.command.flags)
            })
        };
        let any_writes = flags().any(|flags| flags.contains(Flags::WRITE));
        if self.shared.condition.memory_full && flags().any(|flags| flags.contains(Flags::DENYOOM)) {
            return Some(OUT_OF_MEMORY);
        }
        if self.shared.is_stale_replica() && !flags().all(|flags| flags.contains(Flags::STALE)) {
            return Some(MASTER_DOWN);
        }
        let refused = self.shared.condition.refuse_writes.as_ref().filter(|_| any_writes);
        let refused = refused.map(|reason| Failure::owned(reason.clone()));
        refused.or_else(|| if any_writes { self.shared.lacks_replicas() } else { None })
    }

    /// Runs the queued commands of a session.
    pub(super) fn execute_transaction(&mut self, session: &mut Session, output: &mut Vec<u8>) -> Result<(), Failure> {
        let transaction = session.transaction.take().ok_or(Failure::text("ERR EXEC without MULTI"))?;
        let failed = if session.watch.has_failed { Ok(true) } else { self.has_expired(&session.watch.keys) };
        self.unwatch(session);
        if transaction.refused {
            return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
        }
        if let Some(reason) = self.refused_now(&transaction.commands) {
            let text = [b"EXECABORT Transaction discarded because of: ".as_slice(), &reason.bytes()].concat();
            return Err(Failure::quoting(&[&text]));
        }
        if failed? {
            Reply::new(output, session.protocol).null_array();
            return Ok(());
        }
        let first = output.len();
        Reply::new(output, session.protocol).array(transaction.commands.len());
        let begun = self.effects.begin();
        let denied = std::mem::replace(&mut session.deny_blocking, true);
        for command in &transaction.commands {
            let words: WordList<'_> = command.iter().map(|word| word.as_slice()).collect();
            let start = output.len();
            if session.access.restricted
                && let Err(failure) = self.check_queued(session, &words)
            {
                let text = failure.bytes();
                self.shared.statistics.count_error(&text);
                Reply::new(output, session.protocol).error(text);
                continue;
            }
            self.call(session, output, &words);
            self.shared.bound_transaction(session, output, (first.min(start), start));
        }
        session.deny_blocking = denied;
        self.effects.end(begun);
        Ok(())
    }
}
