//! A client's query, and the room that it has.

use resp::RequestParser;

use crate::{Session, session::Close};

/// From how many missing bytes of a query on room is made for them at once.
const QUERY_ROOM_FROM: usize = 32 * 1024;
/// For how many at most, unless [`QUERY_ROOM_FACTOR`] is more: a length is easily said, and room that waits to be filled is memory
/// that others do not get.
const QUERY_ROOM_MAX: usize = 1 << 20;
/// Room is made for so many times what has come already. Each time that it is made, what has come moves; a small factor would have
/// a long query move many times.
const QUERY_ROOM_FACTOR: usize = 7;
/// Room is made again when less than this is left of it: about as much as is read at once.
const QUERY_ROOM_LOW: usize = 64 * 1024;
/// A query that took more keeps no room once it has run.
const QUERY_ROOM_KEPT: usize = 1 << 20;

/// How long a client's query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLens {
    /// What has come.
    pub came: usize,
    /// What is known to be missing.
    pub missing: usize,
    /// How much of that has its room already.
    pub has_room: usize,
}

/// A client's query while its commands run.
pub(super) struct QueryRun {
    pub(super) query: Vec<u8>,
    /// How far it has been run.
    pub(super) at: usize,
    pub(super) parser: RequestParser,
    /// How much of its last command is known to be still to come.
    pub(super) missing: usize,
    /// How much there was to be read by the client before.
    pub(super) unread: usize,
    /// How many commands have run, and how often elements had been looked at before.
    pub(super) commands: usize,
    pub(super) accesses: u32,
    /// The command that it begins with had its keys read: it runs now, whatever has left memory again since.
    pub(super) is_asked: bool,
}

impl QueryRun {
    /// Takes it from its session.
    #[inline(always)]
    pub(super) fn begin(session: &mut Session, accesses: u32) -> Self {
        let query = std::mem::take(&mut session.query.bytes);
        let at = std::mem::take(&mut session.query.at);
        session.query.running = query.len().saturating_sub(at);
        if session.output.bytes.is_empty() {
            session.output.asked_bytes = 0;
            session.forget_promise();
        }
        Self {
            query,
            at,
            parser: std::mem::take(&mut session.query.parser),
            missing: 0,
            unread: session.output.bytes.len(),
            commands: 0,
            accesses,
            is_asked: session.asked,
        }
    }

    /// Whether there is more, and the client does not wait.
    #[inline(always)]
    pub(super) fn goes_on(&self, session: &Session) -> bool {
        self.at < self.query.len() && session.blocked.is_none() && session.loading == 0 && session.close == Close::No
    }

    /// Gives its session back what has not run.
    #[inline(always)]
    pub(super) fn end(mut self, session: &mut Session) {
        if session.close != Close::No {
            // What else it sends is not read any more.
            self.query = Vec::new();
        } else if self.at < self.query.len().saturating_sub(self.at) {
            // What is left of much does not move each time that some of it has run.
            session.query.at = self.at;
        } else if self.at < self.query.len() {
            self.query.drain(..self.at);
        } else if self.query.capacity() > QUERY_ROOM_KEPT {
            self.query = Vec::new();
        } else {
            self.query.clear();
        }
        make_room(&mut self.query, self.missing);
        session.query.running = 0;
        session.query.missing = self.missing;
        session.query.bytes = self.query;
        session.query.parser = self.parser;
    }
}

/// Makes room for the rest of a query of which so many bytes are known to be still to come: as much as is to come, or as much as
/// what has come vouches for. Without it a vector would grow by doubling, and take up to twice of what the query needs.
fn make_room(query: &mut Vec<u8>, missing: usize) {
    let left = query.capacity() - query.len();
    if missing > QUERY_ROOM_FROM && left < missing.min(QUERY_ROOM_LOW) {
        query.reserve_exact(missing.min(query.len().saturating_mul(QUERY_ROOM_FACTOR).max(QUERY_ROOM_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives a query of so many bytes in reads of so many. Returns how often room was made for it, and the most room for what had
    /// come.
    fn receive(len: usize, read: usize) -> (usize, usize) {
        let mut query = Vec::new();
        let (mut made, mut most) = (0, 0);
        while query.len() < len {
            let room = query.capacity();
            query.resize(len.min(query.len() + read), b'x');
            let missing = len - query.len();
            make_room(&mut query, missing);
            made += usize::from(query.capacity() != room);
            most = most.max(query.capacity().saturating_sub(QUERY_ROOM_MAX) / query.len());
        }
        assert!(query.capacity() <= len.max(QUERY_ROOM_MAX) + read, "no more than it took");
        (made, most)
    }

    #[test]
    fn a_long_query_moves_a_few_times_and_its_room_follows_what_came() {
        for (len, made_max) in [(10_000, 2), (200_000, 3), (1 << 20, 3), (32 << 20, 5), (100 << 20, 6)] {
            for read in [10_000, 64 << 10] {
                let (made, most) = receive(len, read);
                assert!(made <= made_max, "room of {len} was made {made} times");
                assert!(most <= 1 + QUERY_ROOM_FACTOR, "room of {len} was {most} times what had come");
            }
        }
    }
}
