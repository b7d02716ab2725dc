//! From bytes to commands that run.

use std::rc::Rc;

use keyspace::{Bytes, Failure, Keys, Millis, Trouble, failure::until_zero, sent::Sent};
use resp::{Limits, Progress, Reply};
use smallvec::SmallVec;

use crate::{
    Context, Session, SessionId, client_info,
    config::{LogLevel, Renamed},
    context::Words,
    session::{Close, ReplyMode},
    table::{Access, Flags, Found, Wide},
};

use super::{
    Server, cross_protocol, monitor,
    pieces::Pieces,
    portions::{LONG_OUTPUT, Rest},
    slowlog,
    unread::COUNTED_FROM,
    wide::WideWork,
};

/// A command needs memory while it is full of what does not leave it.
pub(crate) const OUT_OF_MEMORY: Failure = Failure::text("OOM command not allowed when used memory > 'maxmemory'.");

/// What became of a command that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// It is done, or queued, or refused.
    Done,
    /// It is, and its client is to be told of what it changed.
    Told,
    /// It waits: until a pause is over, for a key that is busy, or for keys to be read.
    Postponed,
}

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

/// From how many missing bytes of a query on room is made for them at once.
const QUERY_ROOM_FROM: usize = 32 * 1024;
/// For how many at most, unless as many have come already: a length is easily said, and room that waits to be filled is memory that
/// others do not get.
const QUERY_ROOM_MAX: usize = 1 << 20;
/// So many looks at records of elements take about as long as a turn may: what else a client has sent waits for the next one.
const ACCESSES_MAX: u32 = 200;
/// So do so many commands that find all they need in memory.
const COMMANDS_MAX: usize = 500;
/// A query that took more keeps no room once it has run.
const QUERY_ROOM_KEPT: usize = 1 << 20;

/// A command of more words is kept where it came if it goes on over turns.
const WORDS_COPIED_MAX: usize = 1_000;
/// So is one of more bytes.
const BYTES_COPIED_MAX: usize = 64 * 1024;
/// So many words of such a command tell what it is, and are all that is shown of it.
pub(super) const HEAD: usize = 64;

/// Words of most commands fit here without an allocation.
type WordList<'a> = SmallVec<[&'a [u8]; 16]>;

impl Server {
    /// Runs what a client has sent, as far as it is whole and the client does not wait.
    pub fn run(&mut self, id: SessionId, now: Millis) {
        self.now = now;
        self.shared.now = now;
        self.run_one(id);
        self.run_runnable();
    }

    pub(super) fn run_runnable(&mut self) {
        while let Some(id) = self.shared.runnable.pop_front() {
            self.run_one(id);
        }
    }

    fn run_one(&mut self, id: SessionId) {
        let Some(mut session) = self.shared.sessions.get_mut(&id).and_then(Option::take) else { return };
        if session.postponed {
            self.bound_query(&mut session);
            self.shared.sessions.insert(id, Some(session));
            return;
        }
        // Not the first while a script is busy.
        let current = std::mem::replace(&mut self.shared.current, id);
        let mut query = std::mem::take(&mut session.query);
        let mut output = std::mem::take(&mut session.output);
        let mut parser = std::mem::take(&mut session.parser);
        let mut at = std::mem::take(&mut session.query_at);
        session.query_running = query.len().saturating_sub(at);
        let mut missing = 0;
        let unread = output.len();
        if output.is_empty() {
            session.asked_bytes = 0;
        }
        let accesses = self.keyspace.accesses();
        let mut commands = 0;
        // The command that the query begins with had its keys read: it runs now, whatever has left memory again since.
        let mut is_asked = session.asked;
        while at < query.len() && session.blocked.is_none() && session.loading == 0 && session.close == Close::No {
            let answered = output.len();
            if answered > COUNTED_FROM && self.shared.is_to_read_first(&mut session, answered) {
                break;
            }
            let limits = Limits {
                bulk_len_max: self.shared.settings.proto_max_bulk_len.0,
                unauthenticated: session.auth_required,
                ..Limits::default()
            };
            let rest = query.get(at..).unwrap_or_default();
            match parser.parse(rest, &limits) {
                Ok(Progress::Incomplete { needed }) => {
                    missing = needed;
                    break;
                }
                Ok(Progress::Empty { consumed }) => at += consumed,
                Ok(Progress::Complete { consumed }) => {
                    let is_long = consumed > BYTES_COPIED_MAX || parser.arguments(rest).len() > WORDS_COPIED_MAX;
                    let ranges = if is_long { parser.take_ranges() } else { None };
                    let flow = if let Some(ranges) = ranges {
                        let sent = Rc::new(Sent::new(std::mem::take(&mut query), at, ranges));
                        session.sent = Some(Rc::clone(&sent));
                        let flow = if self.begin_wide(&mut session, &sent) {
                            Flow::Done
                        } else {
                            let mut words: WordList<'_> = sent.words(0..usize::MAX).collect();
                            self.run_command(&mut session, &mut output, &mut words, is_asked)
                        };
                        session.sent = None;
                        let run = if flow == Flow::Postponed { at } else { at + consumed };
                        (query, at) = Sent::give_back(sent, run);
                        flow
                    } else {
                        let mut words: WordList<'_> = parser.arguments(rest).iter().collect();
                        let flow = self.run_command(&mut session, &mut output, &mut words, is_asked);
                        at += if flow == Flow::Postponed { 0 } else { consumed };
                        flow
                    };
                    if flow == Flow::Postponed {
                        break;
                    }
                    is_asked = false;
                    commands += 1;
                    session.asked_bytes = session.asked_bytes.saturating_add(consumed);
                    let has_done_much =
                        commands >= COMMANDS_MAX || self.keyspace.accesses().wrapping_sub(accesses) > ACCESSES_MAX;
                    if has_done_much && at < query.len() && flow == Flow::Done {
                        self.shared.to_go_on.push(id);
                        break;
                    }
                    if flow == Flow::Told {
                        // What is told of this command's changes follows its reply, as any other session's output.
                        session.output = std::mem::take(&mut output);
                        self.shared.sessions.insert(id, Some(session));
                        self.shared.deliver_invalidations();
                        match self.shared.sessions.get_mut(&id).and_then(Option::take) {
                            Some(own) => session = own,
                            None => return,
                        }
                        output = std::mem::take(&mut session.output);
                    }
                    if output.len() > self.shared.limits.output_watched {
                        session.output = output;
                        self.shared.bound_output(&mut session);
                        output = std::mem::take(&mut session.output);
                    }
                    if output.len().saturating_sub(answered) > LONG_OUTPUT
                        && session.loading == 0
                        && session.close == Close::No
                        && !self.shared.bounds_output(&session)
                    {
                        let mut pieces = Pieces::default();
                        pieces.push(std::mem::take(&mut output));
                        session.go_on_with(Rest::Made(pieces), &mut self.shared);
                    }
                }
                Err(error) => {
                    Reply::new(&mut output, session.protocol).error(format!("ERR {error}"));
                    session.close = Close::AfterOutput;
                }
            }
        }
        if session.close != Close::No {
            // What else it sends is not read any more.
            query = Vec::new();
        } else if at < query.len().saturating_sub(at) {
            // What is left of much does not move each time that some of it has run.
            session.query_at = at;
        } else if at < query.len() {
            query.drain(..at);
        } else if query.capacity() > QUERY_ROOM_KEPT {
            query = Vec::new();
        } else {
            query.clear();
        }
        if missing > QUERY_ROOM_FROM {
            // As much as is to come: growing by doubling would take up to twice of it.
            query.reserve_exact(missing.min(query.len().max(QUERY_ROOM_MAX)));
        }
        session.query_running = 0;
        session.query_missing = missing;
        session.query = query;
        session.parser = parser;
        session.output = output;
        if session.output.len() >= COUNTED_FROM {
            self.shared.count_unread(&mut session, unread);
        }
        self.shared.current = current;
        self.bound_query(&mut session);
        self.shared.account(&mut session);
        self.list_output(&mut session);
        self.shared.sessions.insert(id, Some(session));
    }

    /// Runs one command of a client, unless keys have to be read for it first.
    fn run_command(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &mut [&[u8]],
        is_asked: bool,
    ) -> Flow {
        self.shared.is_unknown = !self.name_command(words);
        if !is_asked && self.ask_for_keys(session, words) {
            session.asked = true;
            return Flow::Postponed;
        }
        session.asked = false;
        self.process(session, output, words)
    }

    /// Has a client closed that has sent more than it may and that cannot run.
    fn bound_query(&mut self, session: &mut Session) {
        if session.query_len() > self.shared.settings.client_query_buffer_limit.0 as usize {
            let client = client_info::describe(session, self.now, 0);
            self.shared
                .say(LogLevel::Warning, format!("Closing client that reached max query buffer length: {client}"));
            session.close = Close::Now;
            session.drop_query();
            self.list_output(session);
        }
    }

    pub(super) fn list_output(&mut self, session: &mut Session) {
        if !session.output_listed && (!session.output.is_empty() || session.close != Close::No) {
            session.output_listed = true;
            self.shared.with_output.push(session.id);
        }
    }

    /// Gives a command its own name if it has another one (`rename-command`). Returns whether there is such a command, as far as
    /// that goes.
    pub(crate) fn name_command(&self, words: &mut [&[u8]]) -> bool {
        let Some(name) = words.first_mut() else { return true };
        match self.shared.settings.renames.look_up(name) {
            Renamed::Same => true,
            Renamed::To(own) => {
                *name = own.as_bytes();
                true
            }
            Renamed::Gone => false,
        }
    }

    /// Runs one command of a client: checks whether it may, queues it in a transaction, or calls it.
    fn process(&mut self, session: &mut Session, output: &mut Vec<u8>, words: &[&[u8]]) -> Flow {
        let start = output.len();
        session.last_interaction = self.now;
        if self.process_unmuted(session, output, words) == Flow::Postponed {
            return Flow::Postponed;
        }
        if let Some(blocked) = &mut session.blocked {
            blocked.muted = matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip);
            self.shared.wait(session);
        }
        match session.reply_mode {
            ReplyMode::On => {}
            // What is said of subscriptions is pushed, and no reply.
            ReplyMode::Off if subscribes(words) && session.transaction.is_none() => {}
            ReplyMode::Off => output.truncate(start),
            ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
            ReplyMode::Skip => {
                if !subscribes(words) || session.transaction.is_some() {
                    output.truncate(start);
                }
                session.reply_mode = ReplyMode::On;
            }
        }
        self.shared.current_protocol = session.protocol;
        self.after_command();
        session.portions.as_mut().map_or(output, |portions| &mut portions.later).append(&mut self.shared.aside);
        if self.shared.watch_failed_self.take() == Some(session.id) {
            session.watch_failed = true;
        }
        if self.shared.onlookers {
            self.end_tracked(session);
            if self.shared.has_pending_invalidations() {
                return Flow::Told;
            }
        }
        Flow::Done
    }

    fn process_unmuted(&mut self, session: &mut Session, output: &mut Vec<u8>, words: &[&[u8]]) -> Flow {
        let found = match self.check(session, words) {
            Ok(found) => found,
            Err((None, _)) if cross_protocol::is_http(words) => {
                self.refuse_http(session);
                return Flow::Done;
            }
            Err((found, failure)) => {
                if let Some(statistics) = found.and_then(|found| self.shared.statistics.of(found)) {
                    statistics.rejected += 1;
                }
                // A transaction that cannot run has come to its end, if there is one.
                if found.is_some_and(|found| found.command.name == "EXEC") {
                    if session.transaction.take().is_some() {
                        self.unwatch(session);
                    }
                    let failure = failure.bytes();
                    let reason = failure.strip_prefix(b"ERR ").unwrap_or(&failure);
                    let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
                    self.shared.statistics.count_error(&text);
                    Reply::new(output, session.protocol).error(text);
                    return Flow::Done;
                }
                if let Some(transaction) = &mut session.transaction {
                    transaction.refused = true;
                }
                let text = failure.bytes();
                self.shared.statistics.count_error(&text);
                Reply::new(output, session.protocol).error(text);
                return Flow::Done;
            }
        };
        if self.shared.onlookers && self.postpone(session, found, words) {
            return Flow::Postponed;
        }
        if let Some(transaction) = &mut session.transaction
            && !found.command.flags.contains(Flags::NO_MULTI)
            && !matches!(found.command.name, "EXEC" | "DISCARD" | "MULTI" | "WATCH" | "QUIT" | "RESET")
        {
            transaction.bytes += words.iter().map(|word| size_of::<Bytes>() + word.len()).sum::<usize>();
            transaction.commands.push(words.iter().map(|word| Bytes::from_slice(word)).collect());
            Reply::new(output, session.protocol).queued();
            return Flow::Done;
        }
        self.call_found(session, output, words, found);
        Flow::Done
    }

    /// Whether a client may run a command, and which one it is.
    fn check(&mut self, session: &mut Session, words: &[&[u8]]) -> Result<Found, (Option<Found>, Failure)> {
        let Some(found) = self.shared.table.find(words).filter(|_| !self.shared.is_unknown) else {
            return Err((None, unknown_command(words)));
        };
        session.last_command = Some(found);
        let command = found.command;
        if found.container.is_none() && !command.subcommands.is_empty() && words.len() > 1 {
            let word = words.get(1).copied().unwrap_or_default();
            let word = word.get(..128).unwrap_or(word);
            let name = command.name.as_bytes();
            let failure = Failure::quoting(&[b"ERR unknown subcommand '", word, b"'. Try ", name, b" HELP."]);
            return Err((Some(found), failure));
        }
        if !command.takes(words.len()) {
            let name = found.full_name();
            let failure = Failure::owned(format!("ERR wrong number of arguments for '{name}' command"));
            return Err((Some(found), failure));
        }
        if session.restricted {
            self.check_rights(session, found, words).map_err(|failure| (Some(found), failure))?;
        }
        if session.transaction.is_some() && command.flags.contains(Flags::NO_MULTI) {
            return Err((Some(found), Failure::text("ERR Command not allowed inside a transaction")));
        }
        if session.is_subscriber_only() && !for_subscribers(command.name) {
            let name = found.full_name();
            let failure = Failure::owned(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context"
            ));
            return Err((Some(found), failure));
        }
        if self.shared.is_busy
            && !command.flags.contains(Flags::ALLOW_BUSY)
            && let Some(running) = &self.shared.running
        {
            return Err((Some(found), running.busy_failure()));
        }
        if let Some(reason) = &self.shared.refuse_writes
            && command.flags.contains(Flags::WRITE)
        {
            return Err((Some(found), Failure::owned(reason.clone())));
        }
        if self.shared.memory_full && command.flags.contains(Flags::DENYOOM) {
            return Err((Some(found), OUT_OF_MEMORY));
        }
        Ok(found)
    }

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

    fn call_found(&mut self, session: &mut Session, output: &mut Vec<u8>, words: &[&[u8]], found: Found) {
        self.changes.classes = self.shared.settings.notify_keyspace_events.0;
        self.watch_changes();
        let dirty = self.changes.dirty;
        let db = session.db;
        let mut start = output.len();
        self.keyspace.begin_command();
        let begin = (self.shared.stopwatch)();
        let slept = self.shared.sleep_us;
        // EXEC and scripts run other commands, which only the server can do.
        let outcome = if self.keyspace.partial
            && found.command.may_change_several_keys()
            && let Err(failure) = self.read_all_keys(session, words, found)
        {
            Err(failure)
        } else if found.command.name == "EXEC" {
            self.execute_transaction(session, output)
        } else if found.command.flags.contains(Flags::RUNS_SCRIPT) {
            // It is shown before what it calls.
            self.show(session, output, words, found);
            let outcome = self.evaluate(session, output, words);
            if std::mem::take(&mut self.shared.script_failed)
                && let Some(statistics) = self.shared.statistics.of(found)
            {
                statistics.failed += 1;
            }
            outcome
        } else if let Some(wide) = self.is_wide(session, found, words, words.len()) {
            session.work = Some(Box::new(WideWork::new(found, wide, words, words.len())));
            Ok(())
        } else {
            let reply = Reply::new(output, session.protocol);
            let keys = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes);
            let mut context = Context { words: Words(words), reply, keys, session, shared: &mut self.shared };
            (found.command.handler)(&mut context)
        };
        let outcome = self.keyspace.take_trouble().map_or(outcome, |trouble| Err(self.failure_of(trouble)));
        if outcome.is_err() {
            // Nothing of it comes later either.
            self.shared.cancel_portions(session);
            (session.work, session.blocked) = (None, None);
        }
        if !self.shared.pushed.is_empty() {
            // What a script's own client was told while it ran is no part of the reply.
            output.truncate(if outcome.is_err() { start } else { output.len() });
            let pushed = std::mem::take(&mut self.shared.pushed);
            let len = pushed.len();
            output.splice(start..start, pushed);
            start += len;
        }
        // Whoever runs this shard sleeps when the turn is over, but the command took that long.
        let slept = self.shared.sleep_us - slept;
        let elapsed_us = (self.shared.stopwatch)().saturating_sub(begin) + slept;
        if session.work.is_some() {
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
    fn read_all_keys(&mut self, session: &Session, words: &[&[u8]], found: Found) -> Result<(), Failure> {
        if self.has_many_keys(session, found, words) {
            // It changes nothing before it has gone through all of them.
            return Ok(());
        }
        for (place, access) in found.command.key_accesses(words) {
            let Some(key) = words.get(place).filter(|_| !access.intersects(Access::OW | Access::RM)) else { continue };
            let mut keys = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes);
            if !keys.is_resident(key) {
                keys.contains(key)?;
            }
        }
        Ok(())
    }

    /// Whether a command of very many words, the first of which are given, is done in steps, and how.
    #[inline(always)]
    pub(super) fn is_wide(&self, session: &Session, found: Found, head: &[&[u8]], len: usize) -> Option<Wide> {
        if len <= self.shared.pace.from || !session.takes_steps(len, &self.shared) {
            return None;
        }
        found.command.wide.filter(|wide| wide.fits(head, len) && (!wide.of_keys || len > self.shared.pace.keys_from))
    }

    /// Begins a command of very many words that are keys, if the first of them tell all there is to know: a list of them all would
    /// take longer than anything else that is done in this turn. Returns false if it has to be begun as any other.
    fn begin_wide(&mut self, session: &mut Session, sent: &Sent) -> bool {
        let is_plain = session.transaction.is_none()
            && !session.restricted
            && session.reply_mode == ReplyMode::On
            && !self.shared.is_looked_on();
        if !is_plain {
            return false;
        }
        let mut head: WordList<'_> = sent.words(0..HEAD).collect();
        if !self.name_command(&mut head) {
            return false;
        }
        let Some(found) = self.shared.table.find(&head) else { return false };
        let wide = self.is_wide(session, found, &head, sent.word_count()).filter(|wide| wide.of_keys);
        self.shared.is_unknown = false;
        let Some(wide) = wide.filter(|_| self.check(session, &head).is_ok()) else { return false };
        session.last_interaction = self.now;
        session.asked = false;
        session.work = Some(Box::new(WideWork::new(found, wide, &head, sent.word_count())));
        self.begin_task(session, &head, found, 0);
        true
    }

    /// Whether a command has so many keys among its words that it holds them step by step, before it does anything else.
    pub(super) fn has_many_keys(&self, session: &Session, found: Found, words: &[&[u8]]) -> bool {
        words.len() > self.shared.pace.keys_from
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
        found: Found,
        ended: Ended,
    ) {
        let Ended { outcome, start, elapsed_us, dirty, db, words_len, is_waiting: blocked } = ended;
        let tracks = self.shared.settings.latency_tracking.0;
        let statistics = &mut self.shared.statistics;
        // One that waits is counted as it begins, and takes its time when it is served.
        let is_new = !session.retrying;
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
        if elapsed_us >= self.shared.slow_us && !blocked {
            self.note_slow(session, (words, words_len), found, elapsed_us);
        }
        if let Err(failure) = outcome {
            let text = failure.bytes();
            // A reply is whole or an error: what it had said by then would have what follows taken for elements of it.
            output.truncate(start);
            if !std::mem::take(&mut self.shared.error_is_counted) {
                self.shared.statistics.count_error(&text);
            }
            Reply::new(output, session.protocol).error(text);
        }
        if self.shared.onlookers {
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
            self.effects.push_sent(db, words, session.sent.as_ref());
        }
    }

    /// Keeps a command that took long, as settings say.
    #[cold]
    fn note_slow(&mut self, session: &Session, (words, words_len): (&[&[u8]], usize), found: Found, time_us: u64) {
        let flags = found.command.flags;
        let event = if flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        self.shared.took(event, self.now, time_us / 1000);
        let threshold = self.shared.settings.slowlog_log_slower_than.0;
        let is_slow = u64::try_from(threshold).is_ok_and(|threshold| time_us >= threshold);
        if is_slow && !flags.contains(Flags::SKIP_SLOWLOG) {
            let len_max = usize::try_from(self.shared.settings.slowlog_max_len.0).unwrap_or(usize::MAX);
            let sent: WordList<'_> = session.waited_as.iter().flatten().map(|word| word.as_slice()).collect();
            let (words, words_len) = if sent.is_empty() { (words, words_len) } else { (&sent[..], sent.len()) };
            let words = monitor::redacted(found, words.get(..slowlog::WORDS_MAX).unwrap_or(words));
            self.shared.slowlog.push(
                (&words, words_len),
                self.now / 1000,
                time_us,
                &session.address,
                &session.name,
                len_max,
            );
        }
    }

    /// Has changes noted that somebody wants to know of.
    pub(super) fn watch_changes(&mut self) {
        let shared = &self.shared;
        self.changes.flushed = false;
        self.changes.watched = !shared.watched.is_empty() || !shared.waiting.is_empty() || shared.tracking.is_some();
    }

    /// The error of a command that met what cannot be read, whatever it has made of that itself. Nothing of it is propagated.
    #[cold]
    pub(super) fn failure_of(&mut self, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Refused(failure) => {
                self.changes.instead = Some(Vec::new());
                self.changes.encoded = None;
                failure
            }
            Trouble::Halved(reason) => {
                let failure = Failure::owned(reason.clone());
                self.shared.broken = Some(reason);
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

    /// Whether one of some keys, all of which were valid before, has expired and nobody noticed yet.
    fn has_expired(&mut self, watched: &[(usize, Bytes)]) -> Result<bool, Failure> {
        let noticed = self.changes.before.len();
        for (db, key) in watched {
            self.keys(*db, self.now).contains(key)?;
        }
        Ok(self.changes.before.len() > noticed)
    }

    fn execute_transaction(&mut self, session: &mut Session, output: &mut Vec<u8>) -> Result<(), Failure> {
        let transaction = session.transaction.take().ok_or(Failure::text("ERR EXEC without MULTI"))?;
        let failed = if session.watch_failed { Ok(true) } else { self.has_expired(&session.watching) };
        self.unwatch(session);
        if transaction.refused {
            return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
        }
        let needs_memory = |words: &Vec<Bytes>| {
            let words: WordList<'_> = words.iter().map(|word| word.as_slice()).collect();
            self.shared.table.find(&words).is_some_and(|found| found.command.flags.contains(Flags::DENYOOM))
        };
        if self.shared.memory_full && transaction.commands.iter().any(needs_memory) {
            return Err(Failure::text(
                "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
            ));
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
            if session.restricted
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

    /// Tells those who wait for or watch what has changed.
    pub(super) fn after_command(&mut self) {
        // What a script has changed so far is seen when it has come to its end.
        if self.shared.is_busy {
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
            if self.shared.onlookers {
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

    /// The time of what runs now.
    pub fn now(&self) -> Millis {
        self.now
    }
}

/// Whether a command begins or ends listening.
fn subscribes(words: &[&[u8]]) -> bool {
    const NAME: &[u8] = b"SUBSCRIBE";
    let name = words.first().copied().unwrap_or_default();
    name.len()
        .checked_sub(NAME.len())
        .and_then(|from| name.get(from..))
        .is_some_and(|end| end.eq_ignore_ascii_case(NAME))
}

fn for_subscribers(name: &str) -> bool {
    matches!(
        name,
        "PING"
            | "SUBSCRIBE"
            | "SSUBSCRIBE"
            | "UNSUBSCRIBE"
            | "SUNSUBSCRIBE"
            | "PSUBSCRIBE"
            | "PUNSUBSCRIBE"
            | "QUIT"
            | "RESET"
    )
}

fn unknown_command(words: &[&[u8]]) -> Failure {
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
