//! A client's query, and the room that it has.

use resp::RequestParser;

use crate::{Session, session::Close};

/// A query that is longer than this is long: it may have to wait before more of it is read, if memory is short.
pub const LONG_QUERY: usize = 256 * 1024;
/// From how many missing bytes of a query on room is made for them at once.
const QUERY_ROOM_FROM: usize = 32 * 1024;
/// Room is made again when less than this is left of it: about as much as is read at once.
const QUERY_ROOM_LOW: usize = 64 * 1024;
/// Room for a query until it is long, at most, with what is read behind that: a length is easily said, and room that waits to be filled is
/// memory that others do not get.
const QUERY_ROOM_FIRST: usize = LONG_QUERY + 2 * QUERY_ROOM_LOW;
/// From then on room is made for so many times what has come already. Each time that it is made, what has come moves; a small factor
/// would have a long query move many times.
const QUERY_ROOM_FACTOR: usize = 7;
/// A query that took more keeps no room once it has run, and no more than it needs while the next one comes: what many clients keep
/// is memory that keys do not get.
const QUERY_ROOM_KEPT: usize = 128 * 1024;

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
/// what has come vouches for. Without it a vector would grow by doubling, and take up to twice of what the query needs. Room that a
/// longer query has left is given back.
fn make_room(query: &mut Vec<u8>, missing: usize) {
    let left = query.capacity() - query.len();
    if missing > QUERY_ROOM_FROM && left < QUERY_ROOM_LOW {
        let vouched = match QUERY_ROOM_FIRST.checked_sub(query.len()) {
            Some(first) if query.len() < LONG_QUERY => first,
            _ => query.len().saturating_mul(QUERY_ROOM_FACTOR),
        };
        // Behind the last of it there may be the beginning of the next one.
        query.reserve_exact(missing.saturating_add(QUERY_ROOM_LOW).min(vouched));
    }
    let needed = query.len().saturating_add(missing).saturating_add(QUERY_ROOM_LOW);
    if query.capacity() > QUERY_ROOM_KEPT && query.capacity() / 2 > needed {
        query.shrink_to(needed.max(QUERY_ROOM_KEPT));
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
            most = most.max(query.capacity().saturating_sub(QUERY_ROOM_FIRST) / query.len());
        }
        assert!(query.capacity() <= len + QUERY_ROOM_LOW + read, "no more than it took");
        (made, most)
    }

    #[test]
    fn pipelines_of_long_queries_take_little_more_than_one_of_them() {
        for len in [100_000, 300_000, 1_000_000, 5_000_000] {
            let (mut query, mut most) = (Vec::new(), 0);
            for _ in 0..100 * len / (64 << 10) {
                query.resize(query.len() + (64 << 10), b'x');
                most = most.max(query.capacity());
                query.drain(..query.len() / len * len);
                let missing = len - query.len();
                make_room(&mut query, missing);
            }
            assert!(most <= (len + 3 * QUERY_ROOM_LOW).max(2 * QUERY_ROOM_KEPT), "{most} for {len}");
            query.drain(..);
            make_room(&mut query, 0);
            assert!(query.capacity() <= QUERY_ROOM_KEPT.max(2 * QUERY_ROOM_LOW), "the next is short");
        }
    }

    #[test]
    fn a_long_query_moves_a_few_times_and_its_room_follows_what_came() {
        for (len, made_max) in [(10_000, 2), (200_000, 2), (1 << 20, 3), (32 << 20, 5), (100 << 20, 6)] {
            for read in [10_000, 64 << 10] {
                let (made, most) = receive(len, read);
                assert!(made <= made_max, "room of {len} was made {made} times");
                assert!(most <= 1 + QUERY_ROOM_FACTOR, "room of {len} was {most} times what had come");
            }
        }
    }
}
