//! Connections to servers that only the client may use for whom they were opened.
//!
//! A list through the connections themselves: a client that has none, as most, keeps a pointer and no more.

use crate::pool::ServerConnection;

/// Such connections of a client, the latest first.
#[derive(Debug, Default)]
pub struct PinnedConnections(Option<Box<ServerConnection>>);

impl PinnedConnections {
    /// The connections.
    pub fn iter(&self) -> impl Iterator<Item = &ServerConnection> {
        std::iter::successors(self.0.as_deref(), |connection| connection.next.0.as_deref())
    }

    /// Takes the latest that is wanted out.
    pub fn take_where(&mut self, is_wanted: impl Fn(&ServerConnection) -> bool) -> Option<Box<ServerConnection>> {
        let mut place = &mut self.0;
        while place.as_ref().is_some_and(|connection| !is_wanted(connection)) {
            place = &mut place.as_mut()?.next.0;
        }
        let mut found = place.take()?;
        *place = found.next.0.take();
        Some(found)
    }

    /// Takes one to the server with this key out that is wanted. Those that the server has closed are let go of.
    pub fn take_to(
        &mut self,
        key: u64,
        is_wanted: impl Fn(&ServerConnection) -> bool,
    ) -> Option<Box<ServerConnection>> {
        loop {
            let found = self.take_where(|connection| connection.server.key == key && is_wanted(connection))?;
            if !found.is_stale() {
                return Some(found);
            }
        }
    }

    /// Keeps one more, unless there are as many as may be (`max-session-srv-conns`): then it is closed.
    pub fn put(&mut self, mut connection: Box<ServerConnection>, most: u32) {
        if self.iter().take(most as usize).count() >= most as usize {
            while self.take_where(ServerConnection::is_stale).is_some() {}
            if self.iter().take(most as usize).count() >= most as usize {
                return;
            }
        }
        connection.next.0 = self.0.take();
        self.0 = Some(connection);
    }
}

impl Drop for PinnedConnections {
    // NOTE: one after the other; the list may be longer than calls may be nested.
    fn drop(&mut self) {
        while let Some(mut connection) = self.0.take() {
            self.0 = connection.next.0.take();
        }
    }
}
