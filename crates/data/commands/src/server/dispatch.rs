//! From bytes to commands that may run: what a client has sent is parsed, each command is found, checked, and called, queued or
//! refused.

use std::rc::Rc;

use keyspace::{Bytes, Failure, Millis, received_query::ReceivedQuery};
use resp::{Limits, Progress, Reply};
use smallvec::SmallVec;

use crate::{
    Session, SessionId, client_info,
    config::{LogLevel, Renamed},
    session::{Close, Pieces, ReplyMode, Rest},
    table::Flags,
};

use super::{
    FoundCommand, Server,
    cluster::AWAITS_LEASE,
    cross_protocol,
    execution::{OUT_OF_MEMORY, unknown_command},
    forwarding::{AWAITS_MASTER, FORWARDED},
    passing_on::PASSED_ON,
    portions::LONG_OUTPUT,
    query_run::QueryRun,
    unread::COUNTED_FROM,
};

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

/// So many looks at records of elements take about as long as a turn may: what else a client has sent waits for the next one.
const ACCESSES_MAX: u32 = 200;
/// So do so many commands that find all they need in memory.
const COMMANDS_MAX: usize = 500;
/// A reply that is longer counts among those that are made in one go in a turn.
const MADE_AT_ONCE: usize = 1 << 20;
/// A command of more words is kept where it came if it goes on over turns.
const WORDS_COPIED_MAX: usize = 1_000;
/// So is one of more bytes.
const BYTES_COPIED_MAX: usize = 64 * 1024;
/// Words of most commands fit here without an allocation.
pub(super) type WordList<'a> = SmallVec<[&'a [u8]; 16]>;

impl Server {
    /// Runs what a client has sent, as far as it is whole and the client does not wait.
    pub fn run(&mut self, id: SessionId, now: Millis) {
        self.now = now;
        self.shared.clock.now = now;
        self.run_one(id);
        self.run_runnable();
    }

    pub(super) fn run_runnable(&mut self) {
        while let Some(id) = self.shared.sessions.schedule.runnable.pop_front() {
            self.run_one(id);
        }
    }

    fn run_one(&mut self, id: SessionId) {
        let Some(mut session) = self.shared.sessions.by_id.get_mut(&id).and_then(Option::take) else { return };
        if session.postponed {
            self.bound_query(&mut session);
            self.shared.sessions.by_id.insert(id, Some(session));
            return;
        }
        // Not the first while a script is busy.
        let current = std::mem::replace(&mut self.shared.sessions.current.session, id);
        let replicas = std::mem::replace(&mut self.shared.sessions.current.replicas, session.output.promise.replicas());
        let mut run = QueryRun::begin(&mut session, self.keyspace.accesses());
        let mut output = std::mem::take(&mut session.output.bytes);
        while run.goes_on(&session) {
            let answered = output.len();
            if answered > COUNTED_FROM && self.shared.is_to_read_first(&mut session, answered) {
                break;
            }
            if self.shared.sessions.limits.made_at_once > MADE_AT_ONCE
                && self.shared.sessions.limits.made_at_once > self.shared.answered_at_once_max()
            {
                // Memory is looked at before more is made.
                self.shared.sessions.schedule.to_go_on.push(id);
                break;
            }
            let limits = Limits {
                bulk_len_max: self.shared.settings.proto_max_bulk_len.0,
                unauthenticated: session.access.auth_required,
                ..Limits::default()
            };
            match run.parser.parse(run.query.get(run.at..).unwrap_or_default(), &limits) {
                Ok(Progress::Incomplete { needed }) => {
                    run.missing = needed;
                    break;
                }
                Ok(Progress::Empty { consumed }) => run.at += consumed,
                Ok(Progress::Complete { consumed }) => {
                    let flow = self.run_parsed(&mut session, &mut output, &mut run, consumed);
                    if flow == Flow::Postponed {
                        break;
                    }
                    run.is_asked = false;
                    run.commands += 1;
                    session.output.asked_bytes = session.output.asked_bytes.saturating_add(consumed);
                    let has_done_much = run.commands >= COMMANDS_MAX
                        || self.keyspace.accesses().wrapping_sub(run.accesses) > ACCESSES_MAX;
                    if has_done_much && run.at < run.query.len() && flow == Flow::Done {
                        self.shared.sessions.schedule.to_go_on.push(id);
                        break;
                    }
                    if flow == Flow::Told {
                        // What is told of this command's changes follows its reply, as any other session's output.
                        session.output.bytes = std::mem::take(&mut output);
                        self.shared.sessions.by_id.insert(id, Some(session));
                        self.shared.deliver_invalidations();
                        match self.shared.sessions.by_id.get_mut(&id).and_then(Option::take) {
                            Some(own) => session = own,
                            None => return,
                        }
                        output = std::mem::take(&mut session.output.bytes);
                    }
                    self.bound_reply(&mut session, &mut output, answered);
                }
                Err(error) => {
                    Reply::new(&mut output, session.protocol).error(format!("ERR {error}"));
                    session.close = Close::AfterOutput;
                }
            }
        }
        let unread = run.unread;
        run.end(&mut session);
        session.output.bytes = output;
        if session.output.bytes.len() >= COUNTED_FROM {
            self.shared.count_unread(&mut session, unread);
        }
        (self.shared.sessions.current.session, self.shared.sessions.current.replicas) = (current, replicas);
        self.bound_query(&mut session);
        self.shared.sessions.account(&mut session);
        self.list_output(&mut session);
        self.shared.sessions.by_id.insert(id, Some(session));
    }

    /// Runs the command that has been parsed, of so many bytes, and goes behind it unless it was postponed. A long one keeps its words
    /// where they came.
    #[inline(always)]
    fn run_parsed(&mut self, session: &mut Session, output: &mut Vec<u8>, run: &mut QueryRun, consumed: usize) -> Flow {
        let rest = run.query.get(run.at..).unwrap_or_default();
        let is_long = consumed > BYTES_COPIED_MAX || run.parser.arguments(rest).len() > WORDS_COPIED_MAX;
        if is_long && let Some(ranges) = run.parser.take_ranges() {
            let sent = Rc::new(ReceivedQuery::new(std::mem::take(&mut run.query), run.at, ranges));
            session.sent = Some(Rc::clone(&sent));
            let flow = if self.begin_wide(session, &sent) {
                Flow::Done
            } else {
                let mut words: WordList<'_> = sent.words(0..usize::MAX).collect();
                self.run_command(session, output, &mut words, run.is_asked)
            };
            session.sent = None;
            let at = if flow == Flow::Postponed { run.at } else { run.at + consumed };
            (run.query, run.at) = ReceivedQuery::give_back(sent, at);
            return flow;
        }
        let mut words: WordList<'_> = run.parser.arguments(rest).iter().collect();
        let flow = self.run_command(session, output, &mut words, run.is_asked);
        run.at += if flow == Flow::Postponed { 0 } else { consumed };
        flow
    }

    /// Sees to a reply that is long: more than may be there at once has its client closed, or is given over turns.
    #[inline(always)]
    fn bound_reply(&mut self, session: &mut Session, output: &mut Vec<u8>, answered: usize) {
        if output.len() > self.shared.sessions.limits.output_watched {
            session.output.bytes = std::mem::take(output);
            self.shared.bound_output(session);
            *output = std::mem::take(&mut session.output.bytes);
        }
        if output.len().saturating_sub(answered) > MADE_AT_ONCE {
            self.shared.sessions.limits.made_at_once += output.len() - answered;
        }
        if output.len().saturating_sub(answered) > LONG_OUTPUT
            && session.loading == 0
            && session.close == Close::No
            && !self.shared.bounds_output(session)
        {
            let mut pieces = Pieces::default();
            pieces.push(std::mem::take(output));
            session.go_on_with(Rest::Made(pieces), &mut self.shared);
        }
    }

    /// Whether what a command says is pushed: it is about listening, and is not queued.
    fn pushes(&self, session: &Session, words: &[&[u8]]) -> bool {
        let found = self.shared.table.find(words);
        session.transaction.is_none() && found.is_some_and(|found| found.command.flags.contains(Flags::PUSHES))
    }

    /// Runs one command of a client, unless keys have to be read for it first.
    fn run_command(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &mut [&[u8]],
        is_asked: bool,
    ) -> Flow {
        self.shared.sessions.current.is_unknown = !self.name_command(words);
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
        if !session.output.is_listed && (!session.output.bytes.is_empty() || session.close != Close::No) {
            session.output.is_listed = true;
            self.shared.sessions.schedule.with_output.push(session.id);
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
        let (flow, tells_no_keys) = self.process_unmuted(session, output, words);
        if flow == Flow::Postponed {
            return Flow::Postponed;
        }
        if let Some(blocked) = &mut session.blocked {
            blocked.muted = matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip);
            self.shared.wait(session);
        }
        match session.reply_mode {
            ReplyMode::On => {}
            // What is said of subscriptions is pushed, and no reply.
            ReplyMode::Off if self.pushes(session, words) => {}
            ReplyMode::Off => output.truncate(start),
            ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
            ReplyMode::Skip => {
                if !self.pushes(session, words) {
                    output.truncate(start);
                }
                session.reply_mode = ReplyMode::On;
            }
        }
        session.output.promise.note_command(tells_no_keys, start, output.len());
        self.shared.sessions.current.protocol = session.protocol;
        self.after_command();
        session
            .portions
            .as_mut()
            .map_or(output, |portions| &mut portions.later)
            .append(&mut self.shared.sessions.current.aside);
        if self.shared.sessions.watches.own_failed.take() == Some(session.id) {
            session.watch.has_failed = true;
        }
        if self.shared.sessions.observers.any {
            self.end_tracked(session);
            if self.shared.sessions.has_pending_invalidations() {
                return Flow::Told;
            }
        }
        Flow::Done
    }

    /// Returns also whether what it has answered tells of no key.
    fn process_unmuted(&mut self, session: &mut Session, output: &mut Vec<u8>, words: &[&[u8]]) -> (Flow, bool) {
        let (found, is_for_master, is_passed_on) = match self.check(session, words) {
            Ok(found) => (found, false, false),
            Err((Some(found), failure)) if failure == FORWARDED => (found, true, false),
            Err((Some(found), failure)) if failure == PASSED_ON => (found, false, true),
            Err((_, failure)) if failure == AWAITS_MASTER => {
                self.shared.sessions.forwards.is_awaited = true;
                self.put_off(session);
                return (Flow::Postponed, false);
            }
            Err((_, failure)) if failure == AWAITS_LEASE => {
                self.put_off(session);
                return (Flow::Postponed, false);
            }
            Err((None, _)) if cross_protocol::is_http(words) => {
                self.refuse_http(session);
                return (Flow::Done, true);
            }
            Err((found, failure)) => {
                if let Some(statistics) = found.and_then(|found| self.shared.statistics.of(found)) {
                    statistics.rejected += 1;
                }
                // A transaction that cannot run has come to its end, if there is one.
                if found.is_some_and(|found| found.command.flags.contains(Flags::RUNS_TRANSACTION)) {
                    if session.transaction.take().is_some() {
                        self.unwatch(session);
                    }
                    let failure = failure.bytes();
                    let reason = failure.strip_prefix(b"ERR ").unwrap_or(&failure);
                    let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
                    self.shared.statistics.count_error(&text);
                    Reply::new(output, session.protocol).error(text);
                    return (Flow::Done, true);
                }
                if let Some(transaction) = &mut session.transaction {
                    transaction.refused = true;
                }
                let text = failure.bytes();
                self.shared.statistics.count_error(&text);
                Reply::new(output, session.protocol).error(text);
                return (Flow::Done, true);
            }
        };
        if self.shared.sessions.observers.any && self.postpone(session, found, words) {
            return (Flow::Postponed, false);
        }
        if let Some(transaction) = &mut session.transaction
            && !found.command.flags.intersects(Flags::NO_MULTI | Flags::NOT_QUEUED)
        {
            transaction.bytes += words.iter().map(|word| size_of::<Bytes>() + word.len()).sum::<usize>();
            transaction.commands.push(words.iter().map(|word| Bytes::from_slice(word)).collect());
            Reply::new(output, session.protocol).queued();
            return (Flow::Done, true);
        }
        if is_for_master || is_passed_on {
            self.shared.forward(session, words, is_passed_on);
            return (Flow::Done, false);
        }
        self.call_found(session, output, words, found);
        (Flow::Done, found.command.flags.contains(Flags::TELLS_NO_KEYS))
    }

    /// Whether a client may run a command, and which one it is.
    pub(super) fn check(
        &mut self,
        session: &mut Session,
        words: &[&[u8]],
    ) -> Result<FoundCommand, (Option<FoundCommand>, Failure)> {
        let Some(found) = self.shared.table.find(words).filter(|_| !self.shared.sessions.current.is_unknown) else {
            return Err((None, unknown_command(words)));
        };
        session.last_command = Some(found.name());
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
        if session.access.restricted {
            self.check_rights(session, found, words).map_err(|failure| (Some(found), failure))?;
        }
        if session.transaction.is_some() && command.flags.contains(Flags::NO_MULTI) {
            return Err((Some(found), Failure::text("ERR Command not allowed inside a transaction")));
        }
        if session.is_subscriber_only() && !command.flags.contains(Flags::WHILE_LISTENING) {
            let name = found.full_name();
            let failure = Failure::owned(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context"
            ));
            return Err((Some(found), failure));
        }
        if self.shared.scripting.is_busy
            && !command.flags.contains(Flags::ALLOW_BUSY)
            && let Some(running) = &self.shared.scripting.running
        {
            return Err((Some(found), running.busy_failure()));
        }
        if self.shared.cluster.is_some() {
            // One look at the clock: keys expire by the lease that the command runs by.
            let now_us = self.shared.stopwatch();
            let admitted = self.shared.admitted_by_cluster(session, found, words, now_us);
            session.output.promise.is_under_lease |= admitted.map_err(|failure| (Some(found), failure))?;
            self.keyspace.expiry_paused = self.shared.do_keys_stay_at(now_us);
            self.shared.note_cluster_client(session, found);
        }
        if let Some(failure) = self.shared.not_run_here(session, found) {
            return Err((Some(found), failure));
        }
        if let Some(reason) = &self.shared.condition.refuse_writes
            && command.flags.contains(Flags::WRITE)
        {
            return Err((Some(found), Failure::owned(reason.clone())));
        }
        if let Some(failure) = self.shared.refused_by_replication(command.flags) {
            return Err((Some(found), failure));
        }
        if self.shared.condition.memory_full && command.flags.contains(Flags::DENYOOM) {
            return Err((Some(found), OUT_OF_MEMORY));
        }
        Ok(found)
    }

    /// The time of what runs now.
    pub fn now(&self) -> Millis {
        self.now
    }
}
