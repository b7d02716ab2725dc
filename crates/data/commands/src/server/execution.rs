//! A command that may run is called: from a client, a transaction, a script, the log, or because a key changed.

use keyspace::{Failure, Keys, Millis, ReadFailure, failure::until_zero, received_query::ReceivedQuery};
use resp::Reply;

use crate::{
    Context, Session,
    session::ReplyMode,
    table::{Access, Flags},
    words::Words,
};

use super::{FoundCommand, Server, Wide, dispatch::WordList, monitor, slowlog, wide::WideWork};

/// A command needs memory while it is full of what does not leave it.
pub(crate) const OUT_OF_MEMORY: Failure = Failure::text("OOM command not allowed when used memory > 'maxmemory'.");

/// What became of a command that has run.
pub(super) struct Ended {
    pub(super) outcome: Result<(), Failure>,
    /// Where its reply begins in the output: what it has written is taken back if it failed.
    pub(super) start: usize,
    pub(super) elapsed_us: u64,
    /// How many changes there had been before.
    pub(super) dirty: u64,
    pub(super) db: usize,
    /// How many words it has.
    pub(super) words_len: usize,
    /// It waits, and has not run yet.
    pub(super) is_waiting: bool,
}

/// So many words of such a command tell what it is, and are all that is shown of it.
pub(super) const HEAD: usize = 64;

impl Server {
    /// Runs a command that may run: from a transaction, a script, the log, or because a key changed.
    pub(crate) fn call(&mut self, session: &mut Session, output: &mut Vec<u8>, words: &[&[u8]]) {
        match self.shared.table.find(words) {
            Some(found) => {
                if !self.shared.tasks.is_empty() {
                    self.settle_tasks(found, words);
                }
                self.call_found(session, output, words, found);
            }
            None => Reply::new(output, session.protocol).error(unknown_command(words).bytes()),
        }
    }

    pub(super) fn call_found(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
        found: FoundCommand,
    ) {
        self.changes.classes = self.shared.settings.notify_keyspace_events.0;
        self.watch_changes();
        let dirty = self.changes.dirty;
        let db = session.db;
        let mut start = output.len();
        self.keyspace.begin_command();
        let begin = (self.shared.clock.stopwatch)();
        let slept = self.shared.debug.sleep_us;
        // EXEC and scripts run other commands, which only the server can do.
        let outcome = if self.keyspace.partial
            && found.command.may_change_several_keys()
            && let Err(failure) = self.read_all_keys(session, words, found)
        {
            Err(failure)
        } else if found.command.flags.contains(Flags::RUNS_TRANSACTION) {
            self.execute_transaction(session, output)
        } else if found.command.flags.contains(Flags::RUNS_SCRIPT) {
            // It is shown before what it calls.
            self.show(session, output, words, found);
            let outcome = self.evaluate(session, output, words, found.command.flags);
            if std::mem::take(&mut self.shared.scripting.has_failed)
                && let Some(statistics) = self.shared.statistics.of(found)
            {
                statistics.failed += 1;
            }
            outcome
        } else if let Some(wide) = self.is_wide(session, found, words, words.len()) {
            self.shared.tasks.begun = Some(Box::new(WideWork::new(found, wide, words, words.len())));
            Ok(())
        } else {
            let reply = Reply::new(output, session.protocol);
            let now = self.time_for(session);
            let keys = Keys::new(&mut self.keyspace, session.db, now, &mut self.changes);
            let mut context = Context { words: Words(words), reply, keys, session, shared: &mut self.shared };
            (found.command.handler)(&mut context)
        };
        let outcome = self.keyspace.take_read_failure().map_or(outcome, |trouble| Err(self.failure_of(trouble)));
        if outcome.is_err() {
            // Nothing of it comes later either.
            self.shared.cancel_portions(session);
            (self.shared.tasks.begun, session.blocked) = (None, None);
        }
        if !self.shared.scripting.pushed.is_empty() {
            // What a script's own client was told while it ran is no part of the reply.
            output.truncate(if outcome.is_err() { start } else { output.len() });
            let pushed = std::mem::take(&mut self.shared.scripting.pushed);
            let len = pushed.len();
            output.splice(start..start, pushed);
            start += len;
        }
        // Whoever runs this shard sleeps when the turn is over, but the command took that long.
        let slept = self.shared.debug.sleep_us - slept;
        let elapsed_us = (self.shared.clock.stopwatch)().saturating_sub(begin) + slept;
        if self.shared.tasks.begun.is_some() {
            self.begin_task(session, words, found, elapsed_us);
            self.flush_expired();
            return;
        }
        let is_waiting = session.blocked.is_some();
        self.end_call(
            session,
            output,
            words,
            found,
            Ended { outcome, start, elapsed_us, dirty, db, words_len: words.len(), is_waiting },
        );
    }

    /// Reads those keys of a command that it does not just overwrite or remove: so it has changed none of them when it turns out that
    /// one cannot be read.
    fn read_all_keys(&mut self, session: &Session, words: &[&[u8]], found: FoundCommand) -> Result<(), Failure> {
        if self.has_many_keys(session, found, words) {
            // It changes nothing before it has gone through all of them.
            return Ok(());
        }
        for (place, access) in found.command.key_accesses(words) {
            let Some(key) = words.get(place).filter(|_| !access.intersects(Access::OW | Access::RM)) else { continue };
            let now = self.time_for(session);
            let mut keys = Keys::new(&mut self.keyspace, session.db, now, &mut self.changes);
            if !keys.is_resident(key) {
                keys.contains(key)?;
            }
        }
        Ok(())
    }

    /// Whether a command of very many words, the first of which are given, is done in steps, and how.
    #[inline(always)]
    pub(super) fn is_wide(&self, session: &Session, found: FoundCommand, head: &[&[u8]], len: usize) -> Option<Wide> {
        if len <= self.shared.step_limits.from || !session.takes_steps(len, &self.shared) {
            return None;
        }
        found
            .command
            .wide
            .filter(|wide| wide.fits(head, len) && (!wide.of_keys || len > self.shared.step_limits.keys_from))
    }

    /// Begins a command of very many words that are keys, if the first of them tell all there is to know: a list of them all would
    /// take longer than anything else that is done in this turn. Returns false if it has to be begun as any other.
    pub(super) fn begin_wide(&mut self, session: &mut Session, sent: &ReceivedQuery) -> bool {
        let is_plain = session.transaction.is_none()
            && !session.access.restricted
            && session.reply_mode == ReplyMode::On
            && !self.shared.is_looked_on()
            && self.shared.cluster.is_none();
        if !is_plain {
            return false;
        }
        let mut head: WordList<'_> = sent.words(0..HEAD).collect();
        if !self.name_command(&mut head) {
            return false;
        }
        let Some(found) = self.shared.table.find(&head) else { return false };
        let wide = self.is_wide(session, found, &head, sent.word_count()).filter(|wide| wide.of_keys);
        self.shared.sessions.current.is_unknown = false;
        let Some(wide) = wide.filter(|_| self.check(session, &head).is_ok()) else { return false };
        session.last_interaction = self.now;
        session.asked = false;
        self.shared.tasks.begun = Some(Box::new(WideWork::new(found, wide, &head, sent.word_count())));
        self.begin_task(session, &head, found, 0);
        true
    }

    /// Whether a command has so many keys among its words that it holds them step by step, before it does anything else.
    pub(super) fn has_many_keys(&self, session: &Session, found: FoundCommand, words: &[&[u8]]) -> bool {
        words.len() > self.shared.step_limits.keys_from
            && session.takes_steps(words.len(), &self.shared)
            && (found.command.many_keys
                || self.is_wide(session, found, words, words.len()).is_some_and(|wide| wide.of_keys))
    }

    /// Counts a command that has run (of one that went on over turns the first words may suffice), answers if it failed, and propagates what it changed.
    #[inline(always)]
    pub(super) fn end_call(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
        found: FoundCommand,
        ended: Ended,
    ) {
        let Ended { outcome, start, elapsed_us, dirty, db, words_len, is_waiting: blocked } = ended;
        let tracks = self.shared.settings.latency_tracking.0;
        let statistics = &mut self.shared.statistics;
        // One that waits is counted as it begins, and takes its time when it is served.
        let is_new = session.retry.is_none();
        statistics.processed += u64::from(is_new);
        if let Some(statistics) = statistics.of(found) {
            statistics.calls += u64::from(is_new);
            if !blocked {
                statistics.time_us += elapsed_us;
                statistics.failed += u64::from(outcome.is_err());
                if tracks {
                    statistics.times.get_or_insert_default().record(elapsed_us);
                }
            }
        }
        if let Some(membership) = &mut self.shared.cluster {
            membership.count_load(elapsed_us);
        }
        if elapsed_us >= self.shared.slow.from_us && !blocked {
            self.note_slow(session, (words, words_len), found, elapsed_us);
        }
        if let Err(failure) = outcome {
            let text = failure.bytes();
            // A reply is whole or an error: what it had said by then would have what follows taken for elements of it.
            output.truncate(start);
            if !std::mem::take(&mut self.shared.scripting.error_is_counted) {
                self.shared.statistics.count_error(&text);
            }
            Reply::new(output, session.protocol).error(text);
        }
        if self.shared.sessions.observers.any {
            // One that has waited was shown when it came.
            if !monitor::is_script(found) && is_new {
                self.show(session, output, words, found);
            }
            self.track_command(session, found, words);
        }
        self.flush_expired();
        if let Some(instead) = self.changes.instead.take() {
            for words in &instead {
                self.effects.push(db, words.iter().map(|word| word.as_slice()));
            }
            if let Some(encoded) = self.changes.encoded.take() {
                self.effects.push_encoded(db, encoded);
            }
        } else if self.changes.dirty != dirty && found.command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            self.effects.push_received(db, words, session.sent.as_ref());
        }
    }

    /// Keeps a command that took long, as settings say.
    #[cold]
    fn note_slow(
        &mut self,
        session: &Session,
        (words, words_len): (&[&[u8]], usize),
        found: FoundCommand,
        time_us: u64,
    ) {
        let flags = found.command.flags;
        let event = if flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        self.shared.took(event, self.now, time_us / 1000);
        let threshold = self.shared.settings.slowlog_log_slower_than.0;
        let is_slow = u64::try_from(threshold).is_ok_and(|threshold| time_us >= threshold);
        if is_slow && !flags.contains(Flags::SKIP_SLOWLOG) {
            let len_max = usize::try_from(self.shared.settings.slowlog_max_len.0).unwrap_or(usize::MAX);
            let sent: WordList<'_> = session
                .retry
                .iter()
                .flat_map(|retry| retry.received_as.iter().flatten())
                .map(|word| word.as_slice())
                .collect();
            let (words, words_len) = if sent.is_empty() { (words, words_len) } else { (&sent[..], sent.len()) };
            let words = monitor::redacted(found, words.get(..slowlog::WORDS_MAX).unwrap_or(words));
            self.shared.slow.log.push(
                (&words, words_len),
                self.now / 1000,
                time_us,
                &session.connection.address,
                &session.name,
                len_max,
            );
        }
    }

    /// Has changes noted that somebody wants to know of.
    pub(super) fn watch_changes(&mut self) {
        let shared = &self.shared;
        self.changes.flushed = false;
        self.changes.watched = !shared.sessions.watches.by_key.is_empty()
            || !shared.sessions.blocked.queues.is_empty()
            || shared.sessions.observers.tracking.is_some();
    }

    /// The error of a command that met what cannot be read, whatever it has made of that itself. Nothing of it is propagated.
    #[cold]
    pub(super) fn failure_of(&mut self, trouble: ReadFailure) -> Failure {
        match trouble {
            ReadFailure::Refused(failure) => {
                self.changes.instead = Some(Vec::new());
                self.changes.encoded = None;
                failure
            }
            ReadFailure::Halved(reason) => {
                let failure = Failure::owned(reason.clone());
                self.shared.condition.broken = Some(reason);
                failure
            }
        }
    }

    /// Propagates the removal of keys that were found expired.
    pub(super) fn flush_expired(&mut self) {
        for (db, words) in self.changes.before.drain(..) {
            self.effects.push(db, words.iter().map(|word| word.as_slice()));
        }
    }

    /// Tells those who wait for or watch what has changed.
    pub(super) fn after_command(&mut self) {
        // What a script has changed so far is seen when it has come to its end.
        if self.shared.scripting.is_busy {
            return;
        }
        loop {
            if !self.changes.events.is_empty() {
                let events = std::mem::take(&mut self.changes.events);
                self.publish_events(&events);
            }
            if self.changes.modified.is_empty() {
                return;
            }
            if self.shared.sessions.observers.any {
                self.invalidate_modified();
                self.restart_tracking();
            }
            let modified = std::mem::take(&mut self.changes.modified);
            for (db, key) in &modified {
                self.fail_watchers(*db, key);
            }
            for (db, key) in &modified {
                self.serve_waiting(*db, key);
            }
        }
    }

    /// Runs a command of the log again. Nothing is answered, nothing logged.
    /// No key expires meanwhile: what expired stands in the log.
    pub fn replay(&mut self, session: &mut Session, words: &[&[u8]]) -> Result<(), String> {
        self.now = Millis::MIN;
        let mut output = Vec::new();
        self.call(session, &mut output, words);
        self.effects.clear();
        self.changes.modified.clear();
        self.changes.events.clear();
        if output.first() == Some(&b'-') {
            return Err(String::from_utf8_lossy(&output).trim_end().to_owned());
        }
        Ok(())
    }
}

pub(super) fn unknown_command(words: &[&[u8]]) -> Failure {
    const LEN_MAX: usize = 128;
    let name = words.first().copied().unwrap_or_default();
    let mut pieces: Vec<&[u8]> = vec![b"ERR unknown command '"];
    pieces.extend([name.get(..LEN_MAX).unwrap_or(name), b"', with args beginning with: "]);
    let mut len = 0;
    for word in words.get(1..).unwrap_or_default() {
        if len >= LEN_MAX {
            break;
        }
        let word = until_zero(word);
        let word = word.get(..LEN_MAX - len).unwrap_or(word);
        len += word.len() + 3;
        pieces.extend([b"'".as_slice(), word, b"' "]);
    }
    Failure::quoting(&pieces)
}
