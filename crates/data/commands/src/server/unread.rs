//! Clients that have much to read.
//!
//! A client may send as many commands as it likes before it reads a reply. If all of them ran at once, what they answer would be in
//! memory together: 2,000 GETs of 100 kB, in 60 kB of commands, are 200 MB. So no more of a client's commands run while it has so
//! much to read ([`client-unread-max`](crate::config::Settings::client_unread_max)); they go on when it has read half of that. What it
//! sends meanwhile is still taken: it may be one that begins to read when all is sent.
//!
//! Commands that are longer than their replies run in any case. To keep them would take more memory than what they answer.
//!
//! All clients together may have a sixteenth of `maxmemory` to read. While they have more, each gets one reply at a time.
//!
//! Clients whose output has a limit (`client-output-buffer-limit`, `maxmemory-clients`) are closed for it instead, as in Redis. So are
//! those who listen to channels, by default. What `MONITOR` shows is not waited for.

use crate::{Session, SessionId, session::Close};

use super::{Server, Shared, sessions::Sessions};

/// How much may be left unread while memory is short.
const UNREAD_MAX_SHORT: usize = 64 * 1024;
/// The part of `maxmemory` that all clients together may leave unread.
const MEMORY_SHARE: u64 = 16;
/// A client that has less to read is not looked at.
pub(super) const COUNTED_FROM: usize = 16 * 1024;

/// Clients with much to read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    clients: Vec<SessionId>,
    /// What they have to read together: in this turn it has only grown.
    bytes: usize,
    /// How many of them go on when they have read.
    waiting: usize,
}

impl Unread {
    /// How many clients go on when they have read.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

impl Sessions {
    fn list_unread(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut session.output.unread_listed, true) {
            self.unread.clients.push(session.id);
        }
    }
}

impl Shared {
    /// How much a client may have to read, besides as much as it has sent, when its next command begins.
    fn unread_max(&self, session: &Session) -> usize {
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let most = length(self.settings.client_unread_max.0);
        if most == 0 || self.bounds_output(session) {
            return usize::MAX;
        }
        let of_all = match self.settings.maxmemory.0 {
            0 => usize::MAX,
            bound => length(bound / MEMORY_SHARE),
        };
        match most.min(UNREAD_MAX_SHORT) {
            _ if self.sessions.unread.bytes > of_all => 0,
            least if self.condition.memory_short => least,
            least => most.min(of_all / self.sessions.unread.clients.len().max(1)).max(least),
        }
    }

    /// Takes note of what a client has been given to read, of which it had some before.
    #[cold]
    pub(super) fn count_unread(&mut self, session: &mut Session, before: usize) {
        self.sessions.unread.bytes =
            self.sessions.unread.bytes.saturating_add(session.output.bytes.len().saturating_sub(before));
        self.sessions.list_unread(session);
    }

    /// Whether a client that has so much to read is to do so before its next command runs. It goes on then.
    #[cold]
    pub(super) fn is_to_read_first(&mut self, session: &mut Session, unread: usize) -> bool {
        if unread <= self.unread_max(session).saturating_add(session.output.asked_bytes) {
            return false;
        }
        if !std::mem::replace(&mut session.output.awaits_reading, true) {
            self.sessions.unread.waiting += 1;
            self.statistics.unread_pauses += 1;
        }
        self.sessions.list_unread(session);
        true
    }

    /// Whether a client that waits has read enough to go on.
    fn has_read(&self, session: &Session) -> bool {
        session.output.awaits_reading
            && (session.output.bytes.len() <= self.unread_max(session) / 2 || session.close != Close::No)
    }
}

impl Server {
    /// How much clients have to read that have much, together.
    pub fn unread_bytes(&self) -> usize {
        self.shared.sessions.unread.bytes
    }

    /// Whether a client that had much to read can go on.
    pub(super) fn has_readers(&self) -> bool {
        let shared = &self.shared;
        let sessions = shared.sessions.unread.clients.iter().filter_map(|id| shared.sessions.by_id.get(id)?.as_deref());
        shared.sessions.unread.waiting > 0 && sessions.into_iter().any(|session| shared.has_read(session))
    }

    /// Has those go on that have read, and counts what the others have to read.
    pub(super) fn let_readers_go_on(&mut self) {
        let shared = &mut self.shared;
        (shared.sessions.unread.bytes, shared.sessions.unread.waiting) = (0, 0);
        let mut clients = std::mem::take(&mut shared.sessions.unread.clients);
        clients.retain(|id| {
            let Some(session) = shared.sessions.get_mut(*id) else { return false };
            let (len, waits) = (session.output.bytes.len(), session.output.awaits_reading);
            let stays = waits || len >= COUNTED_FROM;
            session.output.unread_listed = stays;
            shared.sessions.unread.bytes = shared.sessions.unread.bytes.saturating_add(len);
            shared.sessions.unread.waiting += usize::from(waits);
            stays
        });
        shared.sessions.unread.clients = clients;
        if shared.sessions.unread.waiting == 0 {
            return;
        }
        for at in 0..shared.sessions.unread.clients.len() {
            let Some(id) = shared.sessions.unread.clients.get(at).copied() else { break };
            let goes_on =
                shared.sessions.by_id.get(&id).and_then(Option::as_deref).is_some_and(|one| shared.has_read(one));
            let now = self.now;
            if let Some(session) = shared.sessions.get_mut(id).filter(|_| goes_on) {
                session.output.awaits_reading = false;
                session.last_interaction = now;
                shared.sessions.unread.waiting -= 1;
                shared.sessions.schedule.runnable.push_back(id);
            }
        }
    }
}
