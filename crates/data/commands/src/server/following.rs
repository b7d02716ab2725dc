//! A server whose changes come from the log of another one.

use super::Server;

impl Server {
    /// Says whether all changes come from the log of another server ([`replay`](Self::replay)). Then nothing changes by itself: a key
    /// whose time has come is not shown any more, and stays until that log says that it is gone.
    pub fn set_following(&mut self, is_following: bool) {
        self.keyspace.is_following = is_following;
    }

    /// Whether all changes come from the log of another server.
    pub fn is_following(&self) -> bool {
        self.keyspace.is_following
    }
}
