//! Sessions that clients may resume: tickets, and what is kept of sessions without them.
//!
//! All workers share them, and they outlive a reload. What a session was negotiated under, it can be resumed under alone: each
//! [`Acceptor`](crate::Acceptor) has a context, a digest of what it verifies clients by, which goes into keys of tickets and of the
//! cache. Keys of tickets are replaced every twelve hours by a digest of themselves, so that an old one cannot be found out from
//! a later one; the one before it is kept for as long.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};

/// How long a key of tickets is used.
const ROTATION: Duration = Duration::from_secs(12 * 3_600);

/// Bytes of a key.
type Key = [u8; 32];

/// Bytes that tell keys of tickets apart.
const NAME: usize = 8;

/// The sessions of a process.
pub struct Sessions {
    keys: Mutex<Keys>,
    cache: Arc<ServerSessionMemoryCache>,
    lifetime_s: AtomicU32,
    /// There were random numbers for a key: without them everybody would know it.
    has_secret: bool,
}

struct Keys {
    current: Key,
    former: Option<Key>,
    until: Instant,
}

/// A key of `tls-ticket-keys`, as machines share it.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey(Key);

impl fmt::Debug for TicketKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TicketKey")
    }
}

impl TicketKey {
    /// That of 48 or 80 bytes in base64.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        Self::new(&STANDARD.decode(text).ok()?)
    }

    /// That of 48 or 80 bytes; `None` for another length.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        matches!(bytes.len(), 48 | 80).then(|| Self(digest(bytes, b"tls-ticket-keys")))
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sessions")
    }
}

fn digest(key: &[u8], text: &[u8]) -> Key {
    let mut digest = [0; 32];
    let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    for (byte, from) in digest.iter_mut().zip(signed.as_ref()) {
        *byte = *from;
    }
    digest
}

impl Sessions {
    /// None yet; so many are kept at most, each for so long.
    #[must_use]
    pub fn new(cached_max: usize, lifetime: Duration) -> Arc<Self> {
        let mut current = [0; 32];
        let has_secret = SystemRandom::new().fill(&mut current).is_ok();
        let keys = Keys { current, former: None, until: Instant::now() + ROTATION };
        let sessions = Self {
            keys: Mutex::new(keys),
            cache: ServerSessionMemoryCache::new(cached_max.max(1)),
            lifetime_s: AtomicU32::new(0),
            has_secret,
        };
        sessions.set_lifetime(lifetime);
        Arc::new(sessions)
    }

    /// How long sessions that begin from now on can be resumed.
    pub fn set_lifetime(&self, lifetime: Duration) {
        self.lifetime_s.store(u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX), Relaxed);
    }

    /// The key that encrypts now and the one before it, for a context.
    fn keys(&self, context: &[u8]) -> (Key, Option<Key>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if keys.until <= now {
            let next = digest(&keys.current, b"next");
            keys.former = Some(std::mem::replace(&mut keys.current, next));
            keys.until = now + ROTATION;
        }
        (digest(&keys.current, context), keys.former.as_ref().map(|former| digest(former, context)))
    }
}

/// Tickets of one context.
pub struct Tickets {
    pub sessions: Arc<Sessions>,
    pub context: Key,
    /// `tls-ticket-keys`, instead of those of the process; the last but one encrypts.
    pub shared: Vec<TicketKey>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tickets")
    }
}

impl Tickets {
    /// Keys by which a ticket may be encrypted; the first one does it now.
    fn keys(&self) -> Vec<Key> {
        let Some(last) = self.shared.len().checked_sub(1) else {
            let (current, former) = self.sessions.keys(&self.context);
            return [Some(current), former].into_iter().flatten().collect();
        };
        let used = last.saturating_sub(1);
        let of = |key: &TicketKey| digest(&key.0, &self.context);
        let first = self.shared.get(used).map(of);
        let others = self.shared.iter().enumerate().filter(|(index, _)| *index != used).map(|(_, key)| of(key));
        first.into_iter().chain(others).collect()
    }
}

/// Nothing is resumed.
#[derive(Debug)]
pub struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

fn name_of(key: &Key) -> [u8; NAME] {
    let [a, b, c, d, e, f, g, h, ..] = digest(key, b"name");
    [a, b, c, d, e, f, g, h]
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.sessions.has_secret || !self.shared.is_empty()
    }

    fn lifetime(&self) -> u32 {
        self.sessions.lifetime_s.load(Relaxed)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        /// It holds what the client has shown. Two go out at a time, and not even one of a long chain would be worth it.
        const PLAIN_BYTES_MAX: usize = 12 << 10;
        if plain.len() > PLAIN_BYTES_MAX {
            return None;
        }
        let key = self.keys().into_iter().next()?;
        let name = name_of(&key);
        let mut sealed = plain.to_vec();
        let sealing = RandomizedNonceKey::new(&AES_256_GCM, &key).ok()?;
        let nonce = sealing.seal_in_place_append_tag(Aad::from(name), &mut sealed).ok()?;
        Some([&name[..], &nonce.as_ref()[..], &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let key = self.keys().into_iter().find(|key| name_of(key) == name)?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opening = RandomizedNonceKey::new(&AES_256_GCM, &key).ok()?;
        let length = opening.open_in_place(nonce, Aad::from(name), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// Sessions without tickets, of one context.
#[derive(Debug)]
pub struct CachedSessions {
    pub sessions: Arc<Sessions>,
    pub context: Key,
}

impl CachedSessions {
    fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.context[..], id].concat()
    }
}

impl StoresServerSessions for CachedSessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.cache.put(self.key(&id), value)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.cache.get(&self.key(id))
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.cache.take(&self.key(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// A context of what a client is verified by.
pub fn context(parts: &[&[u8]]) -> Key {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, b"context"));
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    for (byte, from) in digest.iter_mut().zip(context.sign().as_ref()) {
        *byte = *from;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(sessions: &Arc<Sessions>, context: u8, shared: &[u8]) -> Tickets {
        let shared = shared.iter().map(|byte| TicketKey::new(&[*byte; 48]).unwrap()).collect();
        Tickets { sessions: Arc::clone(sessions), context: [context; 32], shared }
    }

    #[test]
    fn a_ticket_is_good_for_its_context_alone() {
        let sessions = Sessions::new(10, Duration::from_secs(300));
        let ticket = tickets(&sessions, 1, &[]).encrypt(b"secret").unwrap();
        assert_eq!(tickets(&sessions, 1, &[]).decrypt(&ticket).unwrap(), b"secret");
        assert!(tickets(&sessions, 2, &[]).decrypt(&ticket).is_none());
        assert!(tickets(&Sessions::new(10, Duration::ZERO), 1, &[]).decrypt(&ticket).is_none());
        let mut changed = ticket.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(tickets(&sessions, 1, &[]).decrypt(&changed).is_none());
        assert!(tickets(&sessions, 1, &[]).decrypt(&ticket[..10]).is_none());
    }

    #[test]
    fn a_key_outlives_its_time_once() {
        let sessions = Sessions::new(10, Duration::from_secs(300));
        let ticket = tickets(&sessions, 1, &[]).encrypt(b"secret").unwrap();
        for is_known in [true, false] {
            sessions.keys.lock().unwrap().until = Instant::now();
            assert_eq!(tickets(&sessions, 1, &[]).decrypt(&ticket).is_some(), is_known);
        }
    }

    #[test]
    fn machines_share_keys() {
        let (one, other) = (Sessions::new(1, Duration::ZERO), Sessions::new(1, Duration::ZERO));
        let ticket = tickets(&one, 1, b"abc").encrypt(b"secret").unwrap();
        // The next machine has been given one key more already.
        assert_eq!(tickets(&other, 1, b"bcd").decrypt(&ticket).unwrap(), b"secret");
        assert!(tickets(&other, 1, b"cde").decrypt(&ticket).is_none());
    }
}
