//! Messages on their way to those who listen.

use std::collections::HashSet;

use keyspace::{
    Bytes,
    changes::{Event, EventClass},
    glob,
};
use resp::Reply;

use crate::{Session, SessionId, pubsub::Medium, session::Close};

use super::{Server, Shared, sessions::Sessions};

/// What a name takes that a session listens to, in its own table and in that of all: each has a copy of it.
fn name_bytes(len: usize) -> usize {
    const ENTRIES: usize = 2 * size_of::<Bytes>() + size_of::<Vec<SessionId>>() + 4 * size_of::<SessionId>();
    ENTRIES + 2 * len
}

impl Sessions {
    /// Has a session listen. Returns whether it did not before.
    pub(crate) fn subscribe(&mut self, session: &mut Session, medium: Medium, name: &[u8]) -> bool {
        let new = session.listening(medium).insert(Bytes::from_slice(name));
        if new {
            session.listening.bytes += name_bytes(name.len());
            self.pubsub.add(medium, name, session.id);
        }
        new
    }

    /// Has a session listen no more. Returns whether it did.
    pub(crate) fn unsubscribe(&mut self, session: &mut Session, medium: Medium, name: &Bytes) -> bool {
        let names = session.listening(medium);
        let was = names.remove(name);
        if was {
            if names.is_empty() {
                *names = HashSet::new();
            }
            session.listening.bytes = session.listening.bytes.saturating_sub(name_bytes(name.len()));
            self.pubsub.remove(medium, name, session.id);
        }
        was
    }

    /// Has a session listen to nothing any more.
    pub(crate) fn unsubscribe_all(&mut self, session: &mut Session) {
        for medium in [Medium::Channel, Medium::Pattern, Medium::Shard] {
            for name in std::mem::take(session.listening(medium)) {
                self.pubsub.remove(medium, &name, session.id);
            }
        }
        session.listening.bytes = 0;
    }

    /// How many listen to a channel.
    pub(crate) fn listeners(&self, channel: &[u8]) -> usize {
        let matching = self.pubsub.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
        let by_pattern: usize = matching.map(|(_, ids)| ids.len()).sum();
        self.pubsub.channels.get(channel).map_or(0, |ids| ids.len()) + by_pattern
    }
}

impl Shared {
    /// Gives a message to all who listen, and says how many they were. The session whose command runs is not among
    /// `sessions`: it gets its copy by `own`.
    pub fn publish(&mut self, medium: Medium, channel: &[u8], text: &[u8], own: &mut Own<'_, '_>) -> usize {
        let kind: &[u8] = if medium == Medium::Shard { b"smessage" } else { b"message" };
        let direct =
            if medium == Medium::Shard { &self.sessions.pubsub.shards } else { &self.sessions.pubsub.channels };
        let mut receivers: Vec<(SessionId, Option<Bytes>)> =
            direct.get(channel).into_iter().flatten().map(|id| (*id, None)).collect();
        if medium == Medium::Channel {
            let matching = self.sessions.pubsub.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
            receivers.extend(matching.flat_map(|(pattern, ids)| ids.iter().map(|id| (*id, Some(pattern.clone())))));
        }
        for (id, pattern) in &receivers {
            let write = |reply: &mut Reply<'_>| {
                match pattern {
                    Some(pattern) => {
                        reply.push(4);
                        reply.bulk(b"pmessage");
                        reply.bulk(pattern);
                    }
                    None => {
                        reply.push(3);
                        reply.bulk(kind);
                    }
                }
                reply.bulk(channel);
                reply.bulk(text);
            };
            match own {
                Some((own, reply)) if own == id => write(reply),
                _ => self.send_with(*id, write),
            }
        }
        receivers.len()
    }

    /// Puts something into the output of a session, in its protocol. The one whose command runs gets it after the reply; if
    /// that is a script, before it.
    pub fn send_with(&mut self, id: SessionId, write: impl FnOnce(&mut Reply<'_>)) {
        if let Some(running) = self.scripting.running.as_mut().filter(|running| running.session == id) {
            if running.messages.len() <= running.messages_max {
                write(&mut Reply::new(&mut running.messages, running.protocol));
            }
            return;
        }
        if id == self.sessions.current.session && matches!(self.sessions.by_id.get(&id), Some(None)) {
            return write(&mut Reply::new(&mut self.sessions.current.aside, self.sessions.current.protocol));
        }
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.close != Close::Now) else { return };
        let protocol = session.protocol;
        write(&mut Reply::new(session.output_for_others(), protocol));
        self.send(id, b"");
    }
}

/// The session whose command runs, with its reply.
pub type Own<'a, 'b> = Option<(SessionId, &'a mut Reply<'b>)>;

impl Server {
    /// Publishes events of the keyspace.
    pub(crate) fn publish_events(&mut self, events: &[Event]) {
        let classes = self.changes.classes;
        for event in events {
            if classes.contains(EventClass::KEYSPACE) {
                let channel = [format!("__keyspace@{}__:", event.db).as_bytes(), &event.key].concat();
                self.shared.publish(Medium::Channel, &channel, event.name.as_bytes(), &mut None);
            }
            if classes.contains(EventClass::KEYEVENT) {
                let channel = format!("__keyevent@{}__:{}", event.db, event.name);
                self.shared.publish(Medium::Channel, channel.as_bytes(), &event.key, &mut None);
            }
        }
    }
}
