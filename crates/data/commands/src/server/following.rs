//! A server whose changes come from the log of another one.

use crate::scripting::Functions;

use super::Server;

impl Server {
    /// Says whether all changes come from the log of another server ([`replay`](Self::replay)). Then nothing changes by itself: a key
    /// whose time has come is not shown any more, and stays until that log says that it is gone.
    pub fn set_following(&mut self, is_following: bool) {
        self.keyspace.is_following = is_following;
    }

    /// All keys are about to be others: whoever watches one is told that it has changed, and functions are to be read anew.
    pub fn data_is_replaced(&mut self) {
        let watched: Vec<_> = self.shared.sessions.watches.by_key.keys().cloned().collect();
        for (db, key) in watched {
            self.fail_watchers(db, &key);
        }
        self.shared.scripting.functions = Functions::default();
    }

    /// Whether all changes come from the log of another server.
    pub fn is_following(&self) -> bool {
        self.keyspace.is_following
    }
}
