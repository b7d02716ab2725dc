//! What clients may do: users of sessions, checks before a command runs, what becomes of sessions when users change.

use std::rc::Rc;

use keyspace::{Bytes, Failure};

use crate::{
    Context, Session, SessionId,
    acl::{self, CallOrigin, Denied, Entry, Reason, User},
    client_info::{self, ClientType},
    config::AclPubsub,
    session::Close,
    table::Flags,
};

use super::{FoundCommand, Server, Shared, sessions::Sessions};

impl Sessions {
    /// Looks again at what a session may do without being asked each time.
    pub(crate) fn refresh_rights(&self, session: &mut Session) {
        let Some(user) = &session.access.user else { return };
        session.access.auth_required = !session.access.authenticated && self.acl.requires_authentication();
        session.access.restricted = session.access.auth_required || session.listening.monitors || !user.may_do_all();
    }

    /// Gives a session the user that all are at first.
    pub(crate) fn become_default(&self, session: &mut Session) {
        session.access.authenticated = !self.acl.requires_authentication();
        session.access.user = Some(Rc::clone(self.acl.default_user()));
        self.refresh_rights(session);
    }

    /// The same for all sessions but the one whose command runs.
    fn refresh_all(&mut self, own: &mut Session) {
        let mut sessions = std::mem::take(&mut self.by_id);
        for session in sessions.values_mut().filter_map(Option::as_deref_mut) {
            self.refresh_rights(session);
        }
        self.by_id = sessions;
        self.refresh_rights(own);
    }
}

impl Shared {
    /// Makes a session the user of a name and a password. That it is none of them is logged.
    pub(crate) fn authenticate(&mut self, session: &mut Session, name: &[u8], password: &[u8], command: &[u8]) -> bool {
        let Some(user) = self.sessions.acl.authenticate(name, password) else {
            let place = if session.transaction.is_some() { CallOrigin::Multi } else { CallOrigin::Top };
            self.log_denied(session, Reason::Auth, place, command, name);
            return false;
        };
        session.access.user = Some(Rc::clone(user));
        session.access.authenticated = true;
        self.sessions.refresh_rights(session);
        true
    }

    /// Puts a user into the place of the one of its name, and gives it to all sessions that are this user.
    pub(crate) fn replace_user(&mut self, own: &mut Session, user: User) {
        if let Some(former) = self.sessions.acl.user(&user.name).cloned() {
            self.close_listeners(own, &former, &user);
        }
        let user = self.sessions.acl.put(user);
        let is_same = |session: &Session| session.access.user.as_ref().is_some_and(|known| known.name == user.name);
        for session in self.sessions.by_id.values_mut().filter_map(Option::as_deref_mut) {
            if is_same(session) {
                session.access.user = Some(Rc::clone(&user));
            }
        }
        if is_same(own) {
            own.access.user = Some(Rc::clone(&user));
        }
        self.sessions.refresh_all(own);
    }

    /// Closes the sessions that listen to what their user may no longer.
    fn close_listeners(&mut self, own: &mut Session, former: &User, user: &User) {
        if user.selectors().any(|selector| selector.all_channels) {
            return;
        }
        let channels = || user.selectors().flat_map(|selector| &selector.channels);
        let mut before = former.selectors().flat_map(|selector| &selector.channels);
        let had_all = former.selectors().any(|selector| selector.all_channels);
        if !had_all && before.all(|channel| channels().any(|known| known == channel)) {
            return;
        }
        let is_wrong = |session: &Session| {
            let may = |channel: &Bytes, is_pattern| acl::allows_channel(channels(), channel, is_pattern);
            let is_user = session.access.user.as_ref().is_some_and(|known| known.name == user.name);
            is_user
                && ClientType::of(session) == ClientType::Pubsub
                && !(session.listening.patterns.iter().all(|pattern| may(pattern, true))
                    && session
                        .listening
                        .channels
                        .iter()
                        .chain(&session.listening.shard_channels)
                        .all(|channel| may(channel, false)))
        };
        let wrong: Vec<SessionId> = self
            .sessions
            .by_id
            .values()
            .filter_map(Option::as_deref)
            .filter(|session| is_wrong(session))
            .map(|session| session.id)
            .collect();
        wrong.into_iter().for_each(|id| self.kill(id));
        if is_wrong(own) {
            own.close = Close::AfterOutput;
        }
    }

    /// Closes all sessions of users that are gone.
    pub(crate) fn close_users(&mut self, own: &mut Session, is_gone: impl Fn(&User) -> bool) {
        let gone = |session: &Session| session.access.user.as_ref().is_some_and(|user| is_gone(user));
        let ids: Vec<SessionId> = self
            .sessions
            .by_id
            .values()
            .filter_map(Option::as_deref)
            .filter(|one| gone(one))
            .map(|one| one.id)
            .collect();
        ids.into_iter().for_each(|id| self.kill(id));
        if gone(own) {
            self.sessions.become_default(own);
            own.access.authenticated = false;
            own.close = Close::AfterOutput;
        }
        self.sessions.refresh_all(own);
    }

    /// Takes all users from their file.
    pub(crate) fn load_users(&mut self, own: &mut Session) -> Result<(), String> {
        let all_channels = self.new_users_have_channels();
        self.sessions.acl.load_file(&self.table, all_channels)?;
        self.close_users(own, |user| user.name.as_slice() != acl::DEFAULT);
        let default = Rc::clone(self.sessions.acl.default_user());
        for session in self.sessions.by_id.values_mut().filter_map(Option::as_deref_mut) {
            session.access.user = session.access.user.as_ref().map(|_| Rc::clone(&default));
        }
        own.access.user = own.access.user.as_ref().map(|_| default);
        self.sessions.refresh_all(own);
        Ok(())
    }

    /// What `acl-pubsub-default` says.
    pub(crate) fn new_users_have_channels(&self) -> bool {
        self.settings.acl_pubsub_default == AclPubsub::AllChannels
    }

    /// `requirepass` was set: the password of the default user.
    pub(crate) fn set_default_password(&mut self, own: &mut Session) {
        let mut user = User::clone(self.sessions.acl.default_user());
        acl::set_password(&mut user, &self.settings.requirepass.0, &self.table);
        self.replace_user(own, user);
    }

    /// Closes a session that is not the one whose command runs, at once: it gets nothing any more, and waits for nothing.
    pub(crate) fn kill(&mut self, id: SessionId) {
        let Some(mut session) = self.sessions.by_id.get_mut(&id).and_then(Option::take) else { return };
        self.release(&mut session);
        session.close = Close::Now;
        session.output.bytes = Vec::new();
        session.drop_query();
        self.sessions.by_id.insert(id, Some(session));
        self.send(id, b"");
    }

    /// Takes a session that goes out of everything that knows it.
    pub(super) fn release(&mut self, session: &mut Session) {
        self.unblock(session);
        self.unwatch(session);
        self.sessions.unsubscribe_all(session);
        self.untrack(session);
        self.end_monitoring(session);
        self.forget_postponed(session);
        self.sessions.forget_memory(session);
        self.replication.note_promise(session.output.promise.replicas(), 0);
        session.output.promise.set_replicas(0);
    }

    fn log_denied(&mut self, session: &Session, reason: Reason, place: CallOrigin, object: &[u8], user: &[u8]) {
        let at_most = usize::try_from(self.settings.acllog_max_len.0).unwrap_or(usize::MAX);
        let entry = Entry {
            count: 1,
            reason,
            place,
            object: Bytes::from_slice(object),
            user: Bytes::from_slice(user),
            at: session.last_interaction,
            client: client_info::describe(session, session.last_interaction, 0),
        };
        self.sessions.acl.log.add(entry, at_most);
    }

    /// Whether a session's user may run a command; if not, that is logged.
    ///
    /// # Errors
    ///
    /// What it may not.
    pub(crate) fn check_user(
        &mut self,
        session: &Session,
        found: FoundCommand,
        words: &[&[u8]],
        place: CallOrigin,
    ) -> Result<(), Denied> {
        let Some(user) = session.access.user.clone() else { return Ok(()) };
        let checked = user.check(found, words);
        if let Err(denied) = checked {
            let (reason, word) = denied.reason();
            let name = found.full_name();
            let object = word.map_or(name.as_bytes(), |word| words.get(word).copied().unwrap_or_default());
            self.log_denied(session, reason, place, object, &user.name);
        }
        checked
    }
}

impl Server {
    /// Whether a session with limited rights may send a command.
    pub(super) fn check_rights(
        &mut self,
        session: &Session,
        found: FoundCommand,
        words: &[&[u8]],
    ) -> Result<(), Failure> {
        let flags = found.command.flags;
        if session.access.auth_required && !flags.contains(Flags::NO_AUTH) {
            return Err(Failure::text("NOAUTH Authentication required."));
        }
        let is_queued = session.transaction.is_some();
        if is_queued && flags.contains(Flags::NO_MULTI) {
            return Err(Failure::text("ERR Command not allowed inside a transaction"));
        }
        let place = if is_queued { CallOrigin::Multi } else { CallOrigin::Top };
        self.shared.check_user(session, found, words, place).map_err(|denied| match denied {
            Denied::Command => {
                let name = found.full_name();
                Failure::owned(format!("NOPERM this user has no permissions to run the '{name}' command"))
            }
            Denied::Key(_) => {
                Failure::text("NOPERM this user has no permissions to access one of the keys used as arguments")
            }
            Denied::Channel(_) => {
                Failure::text("NOPERM this user has no permissions to access one of the channels used as arguments")
            }
        })?;
        if session.listening.monitors && flags.intersects(Flags::WRITE | Flags::READONLY | Flags::MAY_REPLICATE) {
            return Err(Failure::text("ERR Replica can't interact with the keyspace"));
        }
        Ok(())
    }

    /// Whether a queued command may still run when its transaction does.
    pub(super) fn check_queued(&mut self, session: &Session, words: &[&[u8]]) -> Result<(), Failure> {
        let Some(found) = self.shared.table.find(words) else { return Ok(()) };
        self.shared.check_user(session, found, words, CallOrigin::Multi).map_err(|denied| {
            let reason = match denied {
                Denied::Command => "no permission to execute the command or subcommand",
                Denied::Key(_) => "no permission to touch the specified keys",
                Denied::Channel(_) => "no permission to access one of the channels used as arguments",
            };
            Failure::owned(format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: {reason}"
            ))
        })
    }

    /// Whether a script's caller may run what the script calls.
    pub(crate) fn check_script(
        &mut self,
        session: &Session,
        found: FoundCommand,
        words: &[&[u8]],
    ) -> Result<(), String> {
        if !session.access.restricted {
            return Ok(());
        }
        self.shared.check_user(session, found, words, CallOrigin::Lua).map_err(|denied| {
            let reason = match denied {
                Denied::Command => "can't run this command or subcommand",
                Denied::Key(_) => "can't access at least one of the keys mentioned in the command arguments",
                Denied::Channel(_) => "can't publish to the channel mentioned in the command",
            };
            format!("ERR The user executing the script {reason}")
        })
    }

    /// Takes the users of redis.conf or of their file, before there are clients.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn load_users(&mut self, file: Option<Box<dyn acl::UserFile>>) -> Result<(), String> {
        let shared = &mut self.shared;
        let all_channels = shared.new_users_have_channels();
        let has_lines = !shared.settings.users.is_empty();
        if has_lines && file.is_some() {
            return Err("users are defined by `user` lines or in the file that `aclfile` names, not in both".into());
        }
        shared.sessions.acl.load_lines(&shared.settings.users, &shared.table, all_channels)?;
        shared.sessions.acl.file = file;
        if shared.sessions.acl.file.is_some() {
            shared.sessions.acl.load_file(&shared.table, all_channels)?;
        }
        Ok(())
    }
}

impl Context<'_> {
    /// Whether the user may read keys that the command's words do not name.
    pub fn may_read_all_keys(&self) -> bool {
        if !self.session.access.restricted {
            return true;
        }
        let Some(user) = &self.session.access.user else { return true };
        let found = self.shared.table.find(self.words.0);
        found.is_none_or(|found| user.may_read_all(found, self.words.0))
    }
}
