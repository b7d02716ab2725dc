//! WATCH: who is to be told that a key changed before EXEC.

use keyspace::Bytes;

use crate::Session;

use super::Server;

impl Server {
    /// Forgets what a session watches.
    pub(crate) fn unwatch(&mut self, session: &mut Session) {
        self.shared.unwatch(session);
    }

    /// Fails the transactions of all that watch a key.
    pub(super) fn fail_watchers(&mut self, db: usize, key: &Bytes) {
        if self.shared.watches.by_key.is_empty() {
            return;
        }
        let Some(ids) = self.shared.watches.by_key.get(&(db, key.clone())) else { return };
        for id in ids.clone() {
            match self.shared.session_mut(id) {
                Some(session) => session.watch.has_failed = true,
                // The session whose command runs is out of its place: it learns of it when it comes back.
                None => self.shared.watches.own_failed = Some(id),
            }
        }
    }
}

impl super::Shared {
    /// Watches a key for a session.
    pub fn watch(&mut self, session: &mut Session, key: &[u8]) {
        let watched = (session.db, Bytes::from_slice(key));
        if session.watch.keys.contains(&watched) {
            return;
        }
        self.watches.by_key.entry(watched.clone()).or_default().push(session.id);
        session.watch.keys.push(watched);
    }

    /// Forgets what a session watches.
    pub fn unwatch(&mut self, session: &mut Session) {
        for watched in session.watch.keys.drain(..) {
            if let Some(ids) = self.watches.by_key.get_mut(&watched) {
                ids.retain(|id| *id != session.id);
                if ids.is_empty() {
                    self.watches.by_key.remove(&watched);
                }
            }
        }
        session.watch.has_failed = false;
    }
}
