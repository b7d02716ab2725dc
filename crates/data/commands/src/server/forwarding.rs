//! A replica that sends its clients' commands to its master, and their answers back (`replica-forward`).
//!
//! What is about keys goes to the master, reads as well as writes: a client that has written there is to find it. All else is about
//! this server, and is answered here. So are commands that wait for keys: an element that comes for a client which has gone meanwhile
//! would be lost on the way.

use keyspace::{Bytes, Failure, Millis};
use resp::{Protocol, encode_command};

use crate::{Session, SessionId, replication::MasterLink, table::Flags};

use super::{FoundCommand, Request, Server, Shared, dispatch::WordList};

/// A command that is sent to the master: not an answer to anybody.
pub(super) const FORWARDED: Failure = Failure::text("TRYAGAIN the command goes to the master");
/// One that waits until the link to the master is there: neither.
pub(super) const AWAITS_MASTER: Failure = Failure::text("TRYAGAIN the command waits for the master");

/// What is sent to a master for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Which one it is.
    pub number: u64,
    /// The database.
    pub db: usize,
    /// The client's protocol: the answer is to be in it.
    pub protocol: Protocol,
    /// One command, or a transaction from MULTI to EXEC.
    pub commands: Vec<u8>,
    /// How many answers come: the last one is the client's.
    pub answers: usize,
    /// Whose it is.
    pub session: SessionId,
}

impl Shared {
    /// Why a client's command does not run here, if it goes to the master or waits for it.
    #[inline]
    pub(super) fn not_run_here(&self, session: &Session, found: FoundCommand) -> Option<Failure> {
        if !self.settings.replica_forward.0 || !self.is_for_master(session, found) {
            return None;
        }
        let master = self.replication.master()?;
        if master.is_up() { Some(FORWARDED) } else { self.awaits(master).then_some(AWAITS_MASTER) }
    }

    /// Whether commands wait for the link to a master: not for a copy, and not for one that has been away for long.
    fn awaits(&self, master: &MasterLink) -> bool {
        let patience = self.settings.replica_forward_timeout.0;
        let since = |down_since: Millis| self.clock.now.saturating_sub(down_since);
        master.state != "sync" && master.down_since.is_none_or(|down_since| (0..patience).contains(&since(down_since)))
    }

    fn is_for_master(&self, session: &Session, found: FoundCommand) -> bool {
        const OF_KEYS: Flags =
            Flags::WRITE.union(Flags::READONLY).union(Flags::RUNS_SCRIPT).union(Flags::MAY_REPLICATE);
        let flags = found.command.flags;
        if flags.contains(Flags::RUNS_TRANSACTION) {
            // Keys are watched here, and may have changed there.
            let is_sound = |transaction: &crate::session::Transaction| !transaction.refused;
            return session.transaction.as_deref().is_some_and(is_sound) && session.watch.keys.is_empty();
        }
        // What is tracked is what is read here.
        let is_tracked_read = session.tracking.is_some() && !flags.contains(Flags::WRITE);
        flags.intersects(OF_KEYS) && !flags.intersects(Flags::BLOCKING | Flags::ADMIN) && !is_tracked_read
    }

    /// Hands a command over to whoever sends it to the master, or to other nodes. The session waits for the answer.
    pub(super) fn forward(&mut self, session: &mut Session, words: &[&[u8]], to_nodes: bool) {
        let (mut commands, mut answers) = (Vec::new(), 1);
        match session.transaction.take() {
            None => encode_command(&mut commands, words),
            Some(transaction) => {
                self.unwatch(session);
                encode_command(&mut commands, &["MULTI"]);
                for command in &transaction.commands {
                    let words: WordList<'_> = command.iter().map(Bytes::as_slice).collect();
                    encode_command(&mut commands, &words);
                }
                encode_command(&mut commands, words);
                answers += 1 + transaction.commands.len();
            }
        }
        self.migrations.number += 1;
        let number = self.migrations.number;
        let name = words.get(..1).unwrap_or_default();
        session.block(name, Vec::new(), None, Vec::new());
        if let Some(blocked) = &mut session.blocked {
            blocked.migration = number;
        }
        let (db, protocol) = (session.db, session.protocol);
        let forward = Forward { number, db, protocol, commands, answers, session: session.id };
        if to_nodes {
            session.standing.has_passed_on = true;
            self.outbox.push(Request::AskNodes(forward));
        } else {
            self.outbox.push(Request::AskMaster(forward));
        }
        self.sessions.forwards.waiting.push((number, session.id));
    }
}

impl Server {
    /// Has commands that wait for the master go on if it is there, or has been away for too long.
    pub fn look_for_master(&mut self) {
        let shared = &mut self.shared;
        if shared.sessions.forwards.is_awaited
            && !shared.replication.master().is_some_and(|master| !master.is_up() && shared.awaits(master))
        {
            shared.sessions.forwards.is_awaited = false;
            shared.let_postponed_go();
            self.run_runnable();
        }
    }

    /// What the master has answered, as bytes of the client's protocol, or why there is no answer.
    pub fn finish_forward(&mut self, number: u64, answer: Result<Vec<u8>, String>) {
        let Some(place) = self.shared.sessions.forwards.waiting.iter().position(|(waiting, _)| *waiting == number)
        else {
            return;
        };
        let (_, id) = self.shared.sessions.forwards.waiting.swap_remove(place);
        let Some(session) = self.shared.sessions.get_mut(id) else { return };
        // It may have been told of a change of roles meanwhile.
        let Some(blocked) = session.blocked.as_mut().filter(|blocked| blocked.migration == number) else { return };
        match answer {
            Ok(answer) => {
                blocked.on_timeout = answer;
                self.shared.end_blocking(id, None);
            }
            Err(reason) => {
                self.shared.end_blocking(id, Some(&reason));
            }
        }
        self.run_runnable();
    }
}
