//! Clients that wait for keys.
//!
//! A command that finds nothing asks its session to [`block`](crate::Session::block). When one of its keys has changed, the
//! same command is run again, first come, first served, until it no longer blocks. So a blocking command is written like
//! any other, and all types wait in the same way.

use resp::Reply;

use crate::{Bytes, Millis, Session, SessionId};

use super::Server;

impl Server {
    /// Puts a session into the queues of the keys that it waits for.
    pub(super) fn wait(&mut self, session: &mut Session) {
        let Some(blocked) = &mut session.blocked else { return };
        self.shared.blocked_order += 1;
        blocked.order = self.shared.blocked_order;
        for key in &blocked.keys {
            let queue = self.shared.waiting.entry((blocked.db, key.clone())).or_default();
            if !queue.contains(&session.id) {
                queue.push_back(session.id);
            }
        }
        self.shared.statistics.blocked += 1;
        if let Some(deadline) = blocked.deadline {
            self.shared.deadlines.insert((deadline, session.id));
        }
    }

    /// Takes a session out of the queues of keys.
    pub(crate) fn unblock(&mut self, session: &mut Session) {
        let Some(blocked) = session.blocked.take() else { return };
        for key in &blocked.keys {
            let name = (blocked.db, key.clone());
            if let Some(queue) = self.shared.waiting.get_mut(&name) {
                queue.retain(|id| *id != session.id);
                if queue.is_empty() {
                    self.shared.waiting.remove(&name);
                }
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.shared.deadlines.remove(&(deadline, session.id));
        }
        self.shared.statistics.blocked -= 1;
    }

    /// Runs the commands again that wait for a key, as long as they find something.
    pub(super) fn serve_waiting(&mut self, db: usize, key: &Bytes) {
        let Some(queue) = self.shared.waiting.get(&(db, key.clone())) else { return };
        let ids: Vec<SessionId> = queue.iter().copied().collect();
        for id in ids {
            self.retry(id);
        }
    }

    fn retry(&mut self, id: SessionId) {
        let Some(mut session) = self.shared.sessions.get_mut(&id).and_then(Option::take) else { return };
        if let Some(blocked) = session.blocked.take() {
            let words: Vec<&[u8]> = blocked.words.iter().map(|word| word.as_slice()).collect();
            let db = std::mem::replace(&mut session.db, blocked.db);
            let mut output = std::mem::take(&mut session.output);
            session.retrying = true;
            self.call(&mut session, &mut output, &words);
            session.retrying = false;
            session.output = output;
            session.db = db;
            let still = session.blocked.take().is_some();
            // The place in the queues stays the one it had.
            drop(words);
            session.blocked = Some(blocked);
            if !still {
                self.unblock(&mut session);
                self.shared.runnable.push_back(id);
                self.list_output(&mut session);
            }
        }
        self.shared.sessions.insert(id, Some(session));
    }

    /// Answers those whose time is over.
    pub(super) fn time_out_blocked(&mut self, now: Millis) {
        while let Some((deadline, id)) = self.shared.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.shared.deadlines.remove(&(deadline, id));
            self.end_blocking(id, None);
        }
    }

    /// Ends a session's waiting: with an error, or as if its time were over. Returns whether it waited.
    pub fn end_blocking(&mut self, id: SessionId, error: Option<&str>) -> bool {
        let Some(mut session) = self.shared.sessions.get_mut(&id).and_then(Option::take) else { return false };
        let waited = session.blocked.is_some();
        if let Some(blocked) = &session.blocked {
            match error {
                None => session.output.extend_from_slice(&blocked.on_timeout),
                Some(error) => Reply::new(&mut session.output, session.protocol).error(error),
            }
            self.unblock(&mut session);
            self.list_output(&mut session);
            self.shared.runnable.push_back(id);
        }
        self.shared.sessions.insert(id, Some(session));
        waited
    }

    pub(super) fn blocked_deadline(&self) -> Option<Millis> {
        self.shared.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
