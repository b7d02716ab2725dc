//! Sessions that clients may resume: tickets, and what is kept of sessions without them.
//!
//! All workers share them, and they outlive a reload. What a session was negotiated under, it can be resumed under alone: each
//! [`Acceptor`](crate::Acceptor) has a context, a digest of what it verifies clients by, which goes into keys of tickets and of the
//! cache. Keys of tickets are replaced every twelve hours by a digest of themselves, so that an old one cannot be found out from
//! a later one; the one before it is kept for as long.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
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
use thiserror::Error;

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
    /// How often a session was looked for, and how often it was not there.
    lookups: AtomicU64,
    misses: AtomicU64,
    /// There were random numbers for a key: without them everybody would know it.
    has_secret: bool,
}

struct Keys {
    current: Key,
    former: Option<Key>,
    until: Instant,
}

/// The keys of a file of `tls-ticket-keys`, as machines share them; a new one takes the place of the oldest while they are used.
pub struct TicketKeys {
    name: Arc<str>,
    /// Oldest first: the last one is to encrypt next.
    keys: RwLock<[TicketKey; 3]>,
}

/// A key of such a file.
#[derive(Clone, PartialEq, Eq)]
struct TicketKey {
    /// As it stands there: 48 or 80 bytes.
    raw: Vec<u8>,
    key: Key,
}

/// Why a key does not become one of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TicketKeyError {
    /// It is no base64.
    #[error("'set ssl tls-key' received invalid base64 encoded TLS key.")]
    Malformed,
    /// It is longer or shorter than those of the file.
    #[error("'set ssl tls-key' received a key of wrong size.")]
    Size,
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TicketKeys").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TicketKey {
    fn new(raw: Vec<u8>) -> Option<Self> {
        let key = digest(&raw, b"tls-ticket-keys");
        matches!(raw.len(), 48 | 80).then_some(Self { raw, key })
    }
}

impl TicketKeys {
    /// Those of a file of this name, oldest first: 48 or 80 bytes each; `None` where one is of another length than the first.
    #[must_use]
    pub fn new(name: Arc<str>, raw: [Vec<u8>; 3]) -> Option<Arc<Self>> {
        let [a, b, c] = raw.map(TicketKey::new);
        let keys = [a?, b?, c?];
        let [first, others @ ..] = &keys;
        let is_even = others.iter().all(|key| key.raw.len() == first.raw.len());
        is_even.then(|| Arc::new(Self { name, keys: RwLock::new(keys) }))
    }

    /// What configurations call them: their file.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The keys in base64, oldest first: the one before, the one that encrypts, the one that is to be next.
    #[must_use]
    pub fn shown(&self) -> [String; 3] {
        self.read().each_ref().map(|key| STANDARD.encode(&key.raw))
    }

    /// Takes a key in the place of the oldest: the one that was to be next encrypts from now on, this one after the next rotation.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn rotate(&self, base64: &str) -> Result<(), TicketKeyError> {
        let raw = STANDARD.decode(base64).map_err(|_| TicketKeyError::Malformed)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let new = TicketKey::new(raw).ok_or(TicketKeyError::Size)?;
        let [former, used, next] = &mut *keys;
        if new.raw.len() != former.raw.len() {
            return Err(TicketKeyError::Size);
        }
        *former = std::mem::replace(used, std::mem::replace(next, new));
        Ok(())
    }

    /// The keys by which tickets may be encrypted; the first one does it now.
    fn keys(&self) -> [Key; 3] {
        let [former, used, next] = &*self.read();
        [used.key, next.key, former.key]
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, [TicketKey; 3]> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
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
            lookups: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            has_secret,
        };
        sessions.set_lifetime(lifetime);
        Arc::new(sessions)
    }

    /// How long sessions that begin from now on can be resumed.
    pub fn set_lifetime(&self, lifetime: Duration) {
        self.lifetime_s.store(u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX), Relaxed);
    }

    /// How often a session that is kept here was looked for, and how often it was not there. Tickets are not among them.
    #[must_use]
    pub fn lookups(&self) -> (u64, u64) {
        (self.lookups.load(Relaxed), self.misses.load(Relaxed))
    }

    fn looked_for(&self, found: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.lookups.fetch_add(1, Relaxed);
        if found.is_none() {
            self.misses.fetch_add(1, Relaxed);
        }
        found
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
    /// `tls-ticket-keys`, instead of those of the process.
    pub shared: Option<Arc<TicketKeys>>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tickets")
    }
}

impl Tickets {
    /// Keys by which a ticket may be encrypted; the first one does it now.
    fn keys(&self) -> Vec<Key> {
        match &self.shared {
            Some(shared) => shared.keys().iter().map(|key| digest(key, &self.context)).collect(),
            None => {
                let (current, former) = self.sessions.keys(&self.context);
                [Some(current), former].into_iter().flatten().collect()
            }
        }
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
        self.sessions.has_secret || self.shared.is_some()
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
        self.sessions.looked_for(self.sessions.cache.get(&self.key(id)))
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.looked_for(self.sessions.cache.take(&self.key(id)))
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
        let shared = <[u8; 3]>::try_from(shared)
            .ok()
            .map(|keys| TicketKeys::new("keys".into(), keys.map(|byte| vec![byte; 48])).unwrap());
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

    #[test]
    fn a_new_key_encrypts_after_one_more_rotation() {
        let sessions = Sessions::new(1, Duration::ZERO);
        let rotated = tickets(&sessions, 1, b"abc");
        let of = |keys: &[u8; 3]| tickets(&sessions, 1, keys);
        let shared = rotated.shared.as_ref().unwrap();
        assert_eq!(shared.rotate(&STANDARD.encode([b'd'; 80])), Err(TicketKeyError::Size));
        assert_eq!(shared.rotate("%"), Err(TicketKeyError::Malformed));
        shared.rotate(&STANDARD.encode([b'd'; 48])).unwrap();
        assert_eq!(shared.shown(), [b'b', b'c', b'd'].map(|byte| STANDARD.encode([byte; 48])));
        // `c` encrypts now.
        assert!(of(b"xyc").decrypt(&rotated.encrypt(b"secret").unwrap()).is_some());
        assert!(rotated.decrypt(&of(b"xbx").encrypt(b"secret").unwrap()).is_some());
        assert!(rotated.decrypt(&of(b"xax").encrypt(b"secret").unwrap()).is_none());
    }
}
