//! WATCH: who is to be told that a key changed before EXEC.

use keyspace::Bytes;

use super::Server;
use crate::{Session, SessionId, pubsub::fit};

/// What a watched key takes in the session's list and in the table of all, but for its own bytes.
const ENTRIES: usize = 2 * size_of::<(usize, Bytes)>() + size_of::<Vec<SessionId>>() + 4 * size_of::<SessionId>();

impl Server {
    /// Forgets what a session watches.
    pub(crate) fn unwatch(&mut self, session: &mut Session) {
        self.shared.unwatch(session);
    }

    /// Fails the transactions of all that watch a key.
    pub(super) fn fail_watchers(&mut self, db: usize, key: &Bytes) {
        if self.shared.sessions.watches.by_key.is_empty() {
            return;
        }
        let Some(ids) = self.shared.sessions.watches.by_key.get(&(db, key.clone())) else { return };
        for id in ids.clone() {
            match self.shared.sessions.get_mut(id) {
                Some(session) => session.watch.has_failed = true,
                // The session whose command runs is out of its place: it learns of it when it comes back.
                None => self.shared.sessions.watches.own_failed = Some(id),
            }
        }
    }
}

impl super::Shared {
    /// Watches a key for a session.
    pub fn watch(&mut self, session: &mut Session, key: &[u8]) {
        let watched = (session.db, Bytes::from_slice(key));
        let ids = self.sessions.watches.by_key.entry(watched.clone()).or_default();
        // Either list may be long: of the keys of one session, and of the sessions of one key.
        let is_by_key = ids.len() < session.watch.keys.len();
        let is_known = if is_by_key { ids.contains(&session.id) } else { session.watch.keys.contains(&watched) };
        if is_known {
            return;
        }
        ids.push(session.id);
        session.watch.bytes += ENTRIES + 2 * key.len();
        session.watch.keys.push(watched);
    }

    /// Forgets what a session watches.
    pub fn unwatch(&mut self, session: &mut Session) {
        session.watch.bytes = 0;
        for watched in std::mem::take(&mut session.watch.keys) {
            if let Some(ids) = self.sessions.watches.by_key.get_mut(&watched) {
                ids.retain(|id| *id != session.id);
                if ids.is_empty() {
                    self.sessions.watches.by_key.remove(&watched);
                    fit(&mut self.sessions.watches.by_key);
                }
            }
        }
        session.watch.has_failed = false;
    }
}
