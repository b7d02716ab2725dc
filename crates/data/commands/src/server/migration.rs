//! Keys on their way to another server.

use keyspace::{
    Bytes, Failure, Keys, Millis,
    changes::EventClass,
    digest::{self, Digest},
    rdb,
};
use resp::Reply;

use crate::{Session, SessionId};

use super::{Request, Server, Shared};

/// Who one is to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; nothing for the default one.
    pub user: Option<Bytes>,
    /// Its password.
    pub password: Bytes,
}

/// A key that is sent.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Its name.
    pub key: Bytes,
    /// Its value, as `DUMP` gives it.
    pub payload: Vec<u8>,
    /// How long it lives from now on, in milliseconds; 0 if it does not expire.
    pub ttl: Millis,
    pub(crate) expire_at: Millis,
    pub(crate) digest: Digest,
    pub(crate) is_stream: bool,
}

/// Keys for another server. Whoever runs the shard sends them, and says then what became of them
/// ([`Server::finish_migration`]).
#[derive(Debug, Clone)]
pub struct Migration {
    /// Which one it is.
    pub number: u64,
    /// The other server.
    pub host: String,
    /// Its port, as the command has it.
    pub port: String,
    /// Its database.
    pub db: i64,
    /// How long it may stay silent, in milliseconds.
    pub timeout_ms: u64,
    /// What it asks for first.
    pub credentials: Option<Credentials>,
    /// The keys stay.
    pub copy: bool,
    /// Keys that are there are overwritten.
    pub replace: bool,
    /// The keys.
    pub parcels: Vec<Parcel>,
}

/// What became of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Which one it was.
    pub number: u64,
    /// For each key whether the other server has it.
    pub accepted: Vec<bool>,
    /// The error reply; nothing if all went well.
    pub error: Option<String>,
}

/// One that has no outcome yet.
#[derive(Debug)]
pub(crate) struct Pending {
    number: u64,
    session: SessionId,
    db: usize,
    copy: bool,
    keys: Vec<SentKey>,
}

/// A key as it was when it left.
#[derive(Debug)]
struct SentKey {
    key: Bytes,
    expire_at: Millis,
    digest: Digest,
    /// The checksum at the end of a stream's payload: its consumer groups are no part of the digest.
    checksum: Option<[u8; 8]>,
}

impl SentKey {
    fn of(parcel: &Parcel) -> Self {
        let checksum = parcel.payload.last_chunk().filter(|_| parcel.is_stream).copied();
        Self { key: parcel.key.clone(), expire_at: parcel.expire_at, digest: parcel.digest, checksum }
    }

    /// Whether it is still the same, or gone.
    fn is_unchanged(&self, keys: &mut Keys<'_>) -> Result<bool, Failure> {
        let Some(entry) = keys.peek(&self.key)? else { return Ok(true) };
        if entry.expire_at != self.expire_at {
            return Ok(false);
        }
        if let (Some(checksum), Some(value)) = (self.checksum, &entry.value) {
            let mut payload = Vec::new();
            rdb::encode_payload(value, &mut payload);
            return Ok(payload.ends_with(&checksum));
        }
        Ok(digest::of_key(keys, &self.key)? == self.digest)
    }
}

impl Shared {
    /// Hands keys over to whoever sends them. The session waits.
    pub(crate) fn begin_migration(&mut self, session: &mut Session, mut migration: Migration) {
        self.migrations.number += 1;
        migration.number = self.migrations.number;
        if let Some(blocked) = &mut session.blocked {
            blocked.migration = migration.number;
        }
        let keys = migration.parcels.iter().map(SentKey::of);
        self.migrations.pending.push(Pending {
            number: migration.number,
            session: session.id,
            db: session.db,
            copy: migration.copy,
            keys: keys.collect(),
        });
        self.outbox.push(Request::Migrate(migration));
    }
}

impl Server {
    /// Removes the keys that have gone, and answers the client. A key that has changed on its way stays.
    pub fn finish_migration(&mut self, migrated: &Migrated, now: Millis) {
        let Some(place) = self.shared.migrations.pending.iter().position(|pending| pending.number == migrated.number)
        else {
            return;
        };
        let pending = self.shared.migrations.pending.swap_remove(place);
        self.now = now;
        if pending.keys.iter().any(|sent| self.keyspace.busy.has(&sent.key)) {
            self.finish_tasks();
        }
        self.watch_changes();
        let mut error = migrated.error.clone();
        let mut gone: Vec<Bytes> = Vec::new();
        let accepted = pending.keys.iter().zip(&migrated.accepted).filter(|(_, accepted)| **accepted && !pending.copy);
        for (sent, _) in accepted {
            let key = &sent.key;
            let mut keys = self.keys(pending.db, now);
            if !matches!(sent.is_unchanged(&mut keys), Ok(true)) {
                error.get_or_insert_with(|| {
                    let key = String::from_utf8_lossy(key);
                    format!("ERR '{key}' has changed on its way: it stays here, and the other server has what it was")
                });
            } else if matches!(keys.remove(key), Ok(true)) {
                keys.modified(key);
                keys.notify(EventClass::GENERIC, "del", key);
                gone.push(key.clone());
            }
        }
        self.flush_expired();
        if !gone.is_empty() {
            let mut words = vec![b"DEL".as_slice()];
            words.extend(gone.iter().map(Bytes::as_slice));
            self.effects.push(pending.db, words.into_iter());
        }
        self.answer_migration(pending.session, pending.number, error);
        self.after_command();
    }

    fn answer_migration(&mut self, id: SessionId, number: u64, error: Option<String>) {
        let Some(session) = self.shared.sessions.by_id.get_mut(&id).and_then(Option::as_deref_mut) else { return };
        let Some(blocked) = session.blocked.as_mut().filter(|blocked| blocked.migration == number) else { return };
        if let Some(error) = error {
            self.shared.end_blocking(id, Some(&error));
            return;
        }
        blocked.on_timeout.clear();
        Reply::new(&mut blocked.on_timeout, session.protocol).ok();
        self.shared.end_blocking(id, None);
    }
}
