//! Somebody who looks without a connection of the protocol: the page of figures. Who may see what is decided as for clients, by users
//! and their rules; what is looked at is counted nowhere.

use keyspace::Keys;
use resp::Reply;

use crate::{Context, Server, Session, SessionId, table::Flags, words::Words};

/// Who looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visitor {
    /// The name and password that came with the question; without a name, the default user's.
    pub credentials: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether it came from this machine.
    pub is_local: bool,
    /// Whether it was asked by a name that nobody else can have pointed here: a page of another site asks by its own.
    pub is_own_host: bool,
}

/// Why nothing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Name and password are missing, or wrong.
    Password,
    /// There is no password, and the question came from another machine (`protected-mode`).
    Protected,
    /// The user needs no password, and the question may come from a page of another site.
    Host,
    /// The user may not run the command.
    Command(&'static str),
}

impl Server {
    /// The replies to some commands that only look. The default user is who names none.
    ///
    /// # Errors
    ///
    /// The visitor may not see one of them.
    pub fn visit(&mut self, visitor: &Visitor, questions: &[&[&[u8]]]) -> Result<Vec<Vec<u8>>, Refusal> {
        let acl = &self.shared.sessions.acl;
        let user = match &visitor.credentials {
            Some((name, password)) => {
                let name = if name.is_empty() { b"default".as_slice() } else { name };
                acl.authenticate(name, password).ok_or(Refusal::Password)?
            }
            None if acl.requires_authentication() => return Err(Refusal::Password),
            None => acl.default_user(),
        };
        if acl.default_user().nopass && self.shared.settings.protected_mode.0 && !visitor.is_local {
            return Err(Refusal::Protected);
        }
        // Whatever was said for a password then: a page can say that too.
        if user.nopass && !visitor.is_own_host {
            return Err(Refusal::Host);
        }
        let mut found = Vec::new();
        for words in questions {
            let command = self.shared.table.find(words).ok_or(Refusal::Command("a command that is not there"))?;
            debug_assert!(!command.command.flags.intersects(Flags::WRITE | Flags::RUNS_SCRIPT), "it only looks");
            user.check(command, words).map_err(|_| Refusal::Command(command.command.name))?;
            found.push(command);
        }
        // One of its own, so that nobody's is changed.
        let mut session = Session::new(SessionId(0), self.now());
        let now = self.now();
        let mut replies = Vec::new();
        for (words, found) in questions.iter().zip(found) {
            let mut output = Vec::new();
            let reply = Reply::new(&mut output, session.protocol);
            let keys = Keys::new(&mut self.keyspace, 0, now, &mut self.changes);
            let mut context =
                Context { words: Words(words), reply, keys, session: &mut session, shared: &mut self.shared };
            if let Err(failure) = (found.command.handler)(&mut context) {
                output.clear();
                Reply::new(&mut output, session.protocol).error(failure.to_string());
            }
            replies.push(output);
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::testing::Shard;

    const INFO: &[&[u8]] = &[b"INFO", b"clients"];
    const SLOW: &[&[u8]] = &[b"SLOWLOG", b"GET", b"5"];

    fn visitor(credentials: Option<(&str, &str)>, is_local: bool) -> Visitor {
        let credentials = credentials.map(|(name, password)| (name.into(), password.into()));
        Visitor { credentials, is_local, is_own_host: true }
    }

    #[test]
    fn who_looks_is_asked_as_clients_are() {
        let mut shard = Shard::new();
        let client = shard.client();
        let looks = |shard: &mut Shard, who: Visitor| shard.0.visit(&who, &[INFO, SLOW]).map(|replies| replies.len());
        assert_eq!(looks(&mut shard, visitor(None, true)), Ok(2));
        assert_eq!(looks(&mut shard, visitor(None, false)), Err(Refusal::Protected));
        shard.ask(client, "CONFIG SET protected-mode no");
        assert_eq!(looks(&mut shard, visitor(None, false)), Ok(2));
        let elsewhere = |credentials| Visitor { is_own_host: false, ..visitor(credentials, true) };
        for credentials in [None, Some(("", "x")), Some(("default", ""))] {
            assert_eq!(looks(&mut shard, elsewhere(credentials)), Err(Refusal::Host), "{credentials:?}");
        }
        shard.ask(client, "CONFIG SET requirepass secret");
        assert_eq!(looks(&mut shard, elsewhere(Some(("", "secret")))), Ok(2));
        assert_eq!(looks(&mut shard, visitor(None, true)), Err(Refusal::Password));
        assert_eq!(looks(&mut shard, visitor(Some(("", "wrong")), true)), Err(Refusal::Password));
        for name in ["", "default"] {
            assert_eq!(looks(&mut shard, visitor(Some((name, "secret")), false)), Ok(2));
        }
        shard.ask(client, "ACL SETUSER metrics on >other +info");
        assert_eq!(looks(&mut shard, visitor(Some(("metrics", "other")), false)), Err(Refusal::Command("GET")));
        assert_eq!(
            shard.0.visit(&visitor(Some(("metrics", "other")), false), &[INFO]).map(|replies| replies.len()),
            Ok(1)
        );
    }

    #[test]
    fn looking_is_no_command() {
        let mut shard = Shard::new();
        let client = shard.client();
        shard.ask(client, "PING");
        let before = shard.0.shared.statistics.processed;
        let replies = shard.0.visit(&visitor(None, true), &[INFO]).unwrap();
        assert!(String::from_utf8_lossy(&replies[0]).contains("connected_clients:1\r\n"), "{replies:?}");
        assert_eq!(shard.0.shared.statistics.processed, before);
    }
}
