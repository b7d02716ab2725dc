//! Long queries take turns while memory is short.
//!
//! Parts of many long queries could fill memory, and none of them would ever come to run. So a client whose query is long is
//! *admitted* before more of it is read: the first one always, further ones if there is room for all that those before them will
//! take and for what they will take themselves. Who is silent for a while makes place for others; what it has sent stays. Those who
//! wait are admitted in the order in which they came.

use commands::{
    Server, SessionId,
    server::{LONG_QUERY, QueryLens},
};
use keyspace::Millis;

/// A query that is longer than this is long.
pub const LONG: usize = LONG_QUERY;
/// How often a query's bytes are in memory besides when it runs: as a value, as an effect, in the log, in a record.
const COPIES: u64 = 4;
/// For how long an admitted client may be silent while others wait.
const SILENT_MS: Millis = 100;

/// The clients that are admitted and those that wait, and when each was read or asked for last.
#[derive(Debug, Default)]
pub struct LongQueries {
    admitted: Vec<(SessionId, Millis)>,
    waiting: Vec<(SessionId, Millis)>,
}

impl LongQueries {
    /// Whether a client with a long query may be read on, and is admitted then. `used` is what is allocated, `short_from` from
    /// how much on memory is short.
    pub fn admits(&mut self, session: SessionId, server: &mut Server, now: Millis, used: u64, short_from: u64) -> bool {
        self.forget_old(server, now);
        let others = self.admitted.iter().filter(|(id, _)| *id != session);
        let promised: u64 = others.map(|(id, _)| to_come(server, *id)).sum();
        let has_room = used.saturating_add(promised).saturating_add(to_come(server, session)) <= short_from;
        if !has_room && server.is_waiting(session) {
            // What it has sent could not run: more of it would only be more.
            return false;
        }
        if let Some((_, at)) = self.admitted.iter_mut().find(|(id, _)| *id == session) {
            *at = now;
            return true;
        }
        let is_next = self.waiting.first().is_none_or(|(id, _)| *id == session);
        if is_next && (has_room || self.admitted.is_empty()) {
            self.waiting.retain(|(id, _)| *id != session);
            self.admitted.push((session, now));
            return true;
        }
        match self.waiting.iter_mut().find(|(id, _)| *id == session) {
            Some((_, at)) => *at = now,
            None => self.waiting.push((session, now)),
        }
        false
    }

    /// What the admitted ones will still take of memory.
    pub fn promised(&mut self, server: &mut Server, now: Millis) -> u64 {
        if self.admitted.is_empty() {
            return 0;
        }
        self.forget_old(server, now);
        self.admitted.iter().map(|(id, _)| to_come(server, *id)).sum()
    }

    /// Forgets those whose query has run, who have gone, or who were silent for long, but for what cannot run yet.
    fn forget_old(&mut self, server: &mut Server, now: Millis) {
        // Time may have been set back.
        let is_recent = |at: Millis| (0..SILENT_MS).contains(&(now - at));
        self.admitted.retain(|(id, at)| {
            let is_long = server.query_lens(*id).is_some_and(|lens| lens.came > LONG);
            is_long && (is_recent(*at) || server.is_waiting(*id))
        });
        self.waiting.retain(|(_, at)| is_recent(*at));
    }
}

/// What a client's query will still take: the rest of it, as far as it has no room yet, and its copies.
fn to_come(server: &mut Server, session: SessionId) -> u64 {
    server.query_lens(session).map_or(0, |QueryLens { came, missing, has_room }| {
        let whole = (came as u64).saturating_add(missing as u64);
        (missing as u64).saturating_sub(has_room as u64).saturating_add(whole.saturating_mul(COPIES))
    })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use commands::config::Settings;

    use super::*;

    const MB: u64 = 1 << 20;

    /// Has clients of a server send the beginning of a value of 10 MB each.
    fn clients(count: usize, sent: usize) -> (Server, Vec<SessionId>) {
        let mut server = Server::new(Settings::default(), 1, 1, 0, None, Rc::new(|| 0));
        let clients = (0..count).map(|_| server.connect(String::new(), String::new(), 0)).collect::<Vec<_>>();
        for id in &clients {
            let query = server.input(*id).unwrap();
            query.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n");
            query.resize(sent, b'x');
            server.run(*id, 0);
        }
        (server, clients)
    }

    #[test]
    fn as_many_are_read_as_there_is_room_for_all_of_each() {
        let (mut server, ids) = clients(4, 1 << 20);
        // 9 MB are missing, 7 of which have their room, and 4 copies of 10 MB are to come.
        for (short_from, admitted, promised) in [(0, 1, 39), (60, 1, 39), (83, 1, 39), (84, 2, 79), (200, 4, 158)] {
            let mut long = LongQueries::default();
            let is_admitted = |id: &&SessionId| long.admits(**id, &mut server, 0, 4 * MB, short_from * MB);
            assert_eq!(ids.iter().filter(is_admitted).count(), admitted, "{short_from}");
            assert_eq!(long.promised(&mut server, 0) / MB, promised, "{short_from}");
        }
    }

    #[test]
    fn those_who_wait_keep_their_order() {
        let (mut server, ids) = clients(3, 1 << 20);
        let mut long = LongQueries::default();
        let admits = |long: &mut LongQueries, server: &mut Server, id: usize| long.admits(ids[id], server, 0, MB, 0);
        assert!(admits(&mut long, &mut server, 0));
        assert!(!admits(&mut long, &mut server, 1) && !admits(&mut long, &mut server, 2));
        // It has run, and comes again at once.
        server.input(ids[0]).unwrap().clear();
        assert!(!admits(&mut long, &mut server, 2), "it was not the first to wait");
        server.input(ids[0]).unwrap().resize(LONG + 1, b'x');
        assert!(!admits(&mut long, &mut server, 0));
        assert!(admits(&mut long, &mut server, 1) && !admits(&mut long, &mut server, 2));
    }

    #[test]
    fn who_is_silent_makes_place() {
        let (mut server, ids) = clients(2, 1 << 20);
        let mut long = LongQueries::default();
        for (at, id, expected) in
            [(0, 0, true), (1, 1, false), (99, 0, true), (198, 1, false), (199, 1, true), (200, 0, false)]
        {
            assert_eq!(long.admits(ids[id], &mut server, at, MB, 0), expected, "{at}");
        }
        assert!(long.admits(ids[0], &mut server, 100, MB, 0), "time was set back");
        server.disconnect(ids[0]);
        assert!(long.admits(ids[1], &mut server, 101, MB, 0), "who has gone needs none");
    }
}
