//! Callers within the process: whoever has commands run without a connection, a gateway of another protocol, say.
//!
//! ```text
//! admit -> (ask -> answer)* -> dismiss
//! ```
//!
//! A caller gives a command as words, and takes the reply as a whole, when there is one: a command that waits (`BLPOP`) is answered when
//! somebody serves it, or when its time is over. To all others a caller is a client like any other: it has a user with its rights, a
//! database, transactions, watched keys, limits, and a line in `CLIENT LIST`.
//!
//! A reply that may not go out before the log is safe is held by whoever owns the log (`Shard::answer`).

use std::rc::Rc;

use keyspace::Millis;
use resp::{Protocol, encode_command};

use crate::{SessionId, session::Close};

use super::Server;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its name, as `CLIENT LIST` shows it in the place of an address.
    pub name: String,
    /// Its user: whoever admits it has made sure that it is this one.
    pub user: Vec<u8>,
    /// Its database.
    pub db: usize,
    /// The form of its replies.
    pub protocol: Protocol,
}

/// Why a caller is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// There is no such user, or it is off.
    #[error("there is no user '{0}', or it is off")]
    User(String),
    /// There is no such database.
    #[error("there is no database {0}")]
    Database(usize),
}

/// What has become of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its reply, as bytes of the caller's protocol.
    Reply(Vec<u8>),
    /// There is none, and there will be none: the caller was closed (`CLIENT KILL`, a bound on what clients take). It is to be dismissed.
    Closed,
}

impl Server {
    /// Admits a caller.
    ///
    /// # Errors
    ///
    /// Its user or its database is not there.
    pub fn admit(&mut self, caller: Caller, now: Millis) -> Result<SessionId, NotAdmitted> {
        let Caller { name, user, db, protocol } = caller;
        if db >= self.keyspace.len() {
            return Err(NotAdmitted::Database(db));
        }
        let found = self.shared.sessions.acl.user(&user).filter(|user| user.enabled).map(Rc::clone);
        let found = found.ok_or_else(|| NotAdmitted::User(String::from_utf8_lossy(&user).into_owned()))?;
        let id = self.connect(name, String::new(), now);
        if let Some(mut session) = self.shared.sessions.by_id.get_mut(&id).and_then(Option::take) {
            (session.access.user, session.access.authenticated) = (Some(found), true);
            (session.db, session.protocol) = (db, protocol);
            session.calling = Some(Box::default());
            self.shared.sessions.refresh_rights(&mut session);
            self.shared.sessions.by_id.insert(id, Some(session));
        }
        Ok(id)
    }

    /// Has a caller's command run, or begin. The next one is asked for when this one is answered. One that waits does so until `deadline`
    /// at most.
    pub fn ask<A: AsRef<[u8]>>(&mut self, caller: SessionId, words: &[A], deadline: Option<Millis>, now: Millis) {
        let Some(session) = self.shared.sessions.get_mut(caller) else { return };
        if let Some(calling) = &mut session.calling {
            calling.deadline = deadline;
        }
        // As it may have to be run again when its keys are there, it stands where those of clients do.
        encode_command(&mut session.query.bytes, words);
        self.run(caller, now);
    }

    /// What has become of a caller's command. Nothing: it waits, for a key, for a disk, for its turn.
    pub fn answer(&mut self, caller: SessionId) -> Option<Answer> {
        let goes_on = self.has_more_to_run(caller);
        let Some(session) = self.shared.sessions.get_mut(caller) else { return Some(Answer::Closed) };
        if session.close == Close::Now {
            return Some(Answer::Closed);
        }
        let Some(calling) = &mut session.calling else { return Some(Answer::Closed) };
        // What is given in portions goes on as it is taken.
        calling.reply.append(&mut session.output.bytes);
        let is_under_way = goes_on
            || session.blocked.is_some()
            || session.loading > 0
            || session.postponed
            || session.output.awaits_reading
            || session.query.at < session.query.bytes.len();
        if is_under_way || calling.reply.is_empty() {
            return None;
        }
        calling.deadline = None;
        Some(Answer::Reply(std::mem::take(&mut calling.reply)))
    }

    /// Whether the end of a turn has not yet been told what a session is to be sent.
    pub fn is_output_listed(&mut self, id: SessionId) -> bool {
        self.shared.sessions.get_mut(id).is_some_and(|session| session.output.is_listed)
    }

    /// A caller asks for nothing any more. A command that waits is given up, a transaction too.
    pub fn dismiss(&mut self, caller: SessionId) {
        self.disconnect(caller);
    }
}

#[cfg(test)]
mod tests {
    use crate::groups::testing::Shard;

    use super::*;

    fn caller(shard: &mut Shard, user: &str) -> Result<SessionId, NotAdmitted> {
        let caller = Caller { name: "rest".into(), user: user.into(), db: 0, protocol: Protocol::Resp2 };
        shard.0.admit(caller, 1000)
    }

    fn ask(shard: &mut Shard, caller: SessionId, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split(' ').collect();
        shard.0.ask(caller, &words, None, 1000);
        answer(shard, caller)
    }

    fn answer(shard: &mut Shard, caller: SessionId) -> Option<String> {
        match shard.0.answer(caller)? {
            Answer::Reply(reply) => Some(String::from_utf8(reply).unwrap().replace("\r\n", " ")),
            Answer::Closed => Some("closed".into()),
        }
    }

    #[test]
    fn a_caller_waits_for_a_key_and_has_its_element() {
        let mut shard = Shard::new();
        let (one, other) = (caller(&mut shard, "default").unwrap(), caller(&mut shard, "default").unwrap());
        assert_eq!(ask(&mut shard, one, "BLPOP queue 0"), None);
        assert_eq!(ask(&mut shard, other, "RPUSH queue job"), Some(":1 ".into()));
        assert_eq!(answer(&mut shard, one), Some("*2 $5 queue $3 job ".into()));
        assert_eq!(answer(&mut shard, one), None, "once");
        assert_eq!(shard.log(), ["RPUSH queue job", "LPOP queue"]);
        // It does not wait for longer than it said.
        shard.0.ask(one, &["BLPOP", "queue", "0"], Some(5_000), 1000);
        shard.0.tick(4_999);
        assert_eq!(answer(&mut shard, one), None);
        shard.0.tick(5_001);
        assert_eq!(answer(&mut shard, one), Some("*-1 ".into()));
        // The deadline was that command's.
        assert_eq!(ask(&mut shard, one, "BLPOP queue 0"), None);
        shard.0.tick(50_000);
        assert_eq!(answer(&mut shard, one), None);
        shard.0.dismiss(one);
        assert_eq!(ask(&mut shard, other, "RPUSH queue next"), Some(":1 ".into()), "nobody takes it");
        assert_eq!(answer(&mut shard, one), Some("closed".into()));
    }

    #[test]
    fn a_caller_has_transactions_rights_and_a_place_among_clients() {
        let mut shard = Shard::new();
        let client = shard.client();
        shard.ask(client, "ACL SETUSER reader on nopass ~a* +@read +multi +exec");
        let (one, reader) = (caller(&mut shard, "default").unwrap(), caller(&mut shard, "reader").unwrap());
        for (command, reply) in [
            ("WATCH watched", "+OK "),
            ("MULTI", "+OK "),
            ("SET a 1", "+QUEUED "),
            ("INCR a", "+QUEUED "),
            ("EXEC", "*2 +OK :2 "),
        ] {
            assert_eq!(ask(&mut shard, one, command).as_deref(), Some(reply), "{command}");
        }
        assert_eq!(shard.log(), ["MULTI", "SET a 1", "INCR a", "EXEC"]);
        ask(&mut shard, one, "WATCH a");
        ask(&mut shard, one, "MULTI");
        ask(&mut shard, one, "SET a 5");
        shard.ask(client, "SET a 3");
        assert_eq!(ask(&mut shard, one, "EXEC").as_deref(), Some("*-1 "), "somebody has changed it");
        assert_eq!(ask(&mut shard, reader, "GET a").as_deref(), Some("$1 3 "));
        assert!(ask(&mut shard, reader, "SET a 4").unwrap().starts_with("-NOPERM"));
        assert!(ask(&mut shard, reader, "GET b").unwrap().starts_with("-NOPERM"));
        assert!(shard.ask(client, "CLIENT LIST").contains("addr=rest"));
        assert_eq!(caller(&mut shard, "nobody"), Err(NotAdmitted::User("nobody".into())));
        shard.ask(client, "ACL SETUSER reader off");
        assert_eq!(caller(&mut shard, "reader"), Err(NotAdmitted::User("reader".into())));
    }

    #[test]
    fn a_reply_that_is_given_in_portions_comes_as_a_whole() {
        let mut shard = Shard::new();
        let one = caller(&mut shard, "default").unwrap();
        for _ in 0..50 {
            let words: Vec<String> =
                ["RPUSH", "list"].map(str::to_owned).into_iter().chain((0..100).map(|_| "x".repeat(100))).collect();
            shard.0.ask(one, &words, None, 1000);
            answer(&mut shard, one).unwrap();
        }
        let mut reply = ask(&mut shard, one, "LRANGE list 0 -1");
        assert_eq!(reply, None, "it takes several turns");
        for _ in 0..1_000 {
            shard.0.go_on(1000);
            reply = reply.or_else(|| answer(&mut shard, one));
        }
        let reply = reply.unwrap();
        assert!(reply.starts_with("*5000 ") && reply.len() == 6 + 5_000 * (5 + 101), "{}", reply.len());
    }
}
