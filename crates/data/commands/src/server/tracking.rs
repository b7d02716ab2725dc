//! Caches of clients: who has to be told that a key is not any more what it was.
//!
//! By default the keys that a client has read are remembered, and one message goes to it when the first of them changes; it
//! is remembered again when it is read again. With BCAST nothing is remembered: a client names prefixes, and at the end of
//! each turn gets all keys that begin with one of them and have changed.
//!
//! Messages about a client's own changes follow the reply of the command that made them. While a command runs its session is
//! not in its place, so what is for it waits until the command is over; [`Shared::deliver_invalidations`] sees to that.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::{
    Bytes,
    hash_index::{HashIndex, Hashed},
};
use resp::{Protocol, Reply};
use smallvec::SmallVec;

use crate::{
    Session, SessionId,
    session::{ClientTracking, Close},
    table::Flags,
};

use super::{FoundCommand, Server, Shared, sessions::Sessions};

/// The channel by which clients of the older protocol are told, if they listen to it.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// How many keys are forgotten at once when too many are remembered, the first time.
const FORGET_AT_ONCE: usize = 100;

/// What a prefix takes of memory besides its bytes: its place with the client, and that with all prefixes.
const PREFIX_BYTES: usize = 2 * size_of::<Bytes>() + size_of::<Prefix>();

/// A key that was read.
#[derive(Debug)]
struct Tracked {
    key: Bytes,
    /// By whom, in order.
    clients: SmallVec<[SessionId; 2]>,
}

impl Hashed for Tracked {
    fn name(&self) -> &[u8] {
        &self.key
    }
}

/// A prefix with those who want to know of its keys.
#[derive(Debug, Default)]
struct Prefix {
    clients: BTreeSet<SessionId>,
    /// Keys that changed in this turn, with who changed each last.
    changed: BTreeMap<Bytes, SessionId>,
}

/// What a message says.
#[derive(Debug, Clone)]
enum Stale {
    Key(Bytes),
    Keys(std::rc::Rc<[u8]>),
    All,
}

impl Stale {
    fn write(&self, reply: &mut Reply<'_>, protocol: Protocol) {
        match self {
            Self::Key(key) => {
                reply.array(1);
                reply.bulk(key);
            }
            Self::Keys(array) => reply.raw(array),
            // In the protocol of whoever had the keys, even if another one is told.
            Self::All => reply.raw(if protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" }),
        }
    }
}

/// All that is remembered. It is there as long as there is a client that wants to be told.
#[derive(Debug)]
pub struct Tracking {
    keys: HashIndex<Tracked>,
    /// Pairs of keys and clients.
    items: usize,
    prefixes: BTreeMap<Bytes, Prefix>,
    clients: usize,
    /// Clients that want to hear nothing of their own changes: they are out of their places while they make them.
    silent: BTreeSet<SessionId>,
    /// Some key of a prefix has changed.
    has_changed: bool,
    /// How many of the keys that changed have been seen to.
    seen: usize,
    /// Messages for sessions that were not in their places.
    pending: Vec<(SessionId, Stale)>,
    /// How often too many keys were left although some were forgotten.
    overruns: usize,
}

/// How much is remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackingCounts {
    /// Clients that want to be told.
    pub clients: usize,
    /// Keys that are remembered.
    pub keys: usize,
    /// Pairs of keys and clients.
    pub items: usize,
    /// Prefixes.
    pub prefixes: usize,
}

impl Tracking {
    fn new(seed: u64) -> Self {
        Self {
            keys: HashIndex::new(seed),
            items: 0,
            prefixes: BTreeMap::new(),
            clients: 0,
            silent: BTreeSet::new(),
            has_changed: false,
            seen: 0,
            pending: Vec::new(),
            overruns: 0,
        }
    }

    fn remember(&mut self, key: &[u8], id: SessionId) {
        let hash = self.keys.hash(key);
        if self.keys.get_hashed(hash, key).is_none() {
            self.keys.insert_new(hash, Tracked { key: Bytes::from_slice(key), clients: SmallVec::new() });
        }
        if let Some(tracked) = self.keys.get_mut_hashed(hash, key)
            && let Err(place) = tracked.clients.binary_search(&id)
        {
            tracked.clients.insert(place, id);
            self.items += 1;
        }
    }

    fn forget(&mut self, key: &[u8]) -> SmallVec<[SessionId; 2]> {
        let clients = self.keys.remove(key).map(|tracked| tracked.clients).unwrap_or_default();
        self.items -= clients.len();
        clients
    }

    fn note_change(&mut self, key: &Bytes, by: SessionId) {
        for (prefix, state) in &mut self.prefixes {
            if key.starts_with(prefix) {
                state.changed.insert(key.clone(), by);
                self.has_changed = true;
            }
        }
    }
}

impl Sessions {
    /// How much is remembered for clients' caches.
    pub(crate) fn tracking_counts(&self) -> TrackingCounts {
        self.observers.tracking.as_ref().map_or_else(TrackingCounts::default, |tracking| TrackingCounts {
            clients: tracking.clients,
            keys: tracking.keys.len(),
            items: tracking.items,
            prefixes: tracking.prefixes.len(),
        })
    }

    fn tell_later(&mut self, id: SessionId, stale: Stale) {
        if let Some(tracking) = &mut self.observers.tracking {
            tracking.pending.push((id, stale));
        }
    }

    /// Whether there are messages for sessions that were not in their places.
    pub(super) fn has_pending_invalidations(&self) -> bool {
        self.observers.tracking.as_ref().is_some_and(|tracking| !tracking.pending.is_empty())
    }

    /// Remembers what a client has read by a command.
    fn remember_keys(&mut self, session: &Session, found: FoundCommand, words: &[&[u8]]) {
        let Some(tracking) = self.observers.tracking.as_mut().filter(|_| session.caches()) else { return };
        if found.command.flags.contains(Flags::PUBSUB) {
            return;
        }
        for place in found.command.key_places_of(words) {
            if let Some(key) = words.get(place) {
                tracking.remember(key, session.id);
            }
        }
    }
}

impl Shared {
    /// Has a session told of stale keys, as `options` say; prefixes are added to those that it has.
    pub(crate) fn track(&mut self, session: &mut Session, options: ClientTracking) {
        let seed = self.random.draw();
        let tracking = self.sessions.observers.tracking.get_or_insert_with(|| Box::new(Tracking::new(seed)));
        let former = session.tracking.take();
        tracking.clients += usize::from(former.is_none());
        let mut prefixes = former.map(|former| former.prefixes).unwrap_or_default();
        prefixes.extend(options.prefixes);
        if options.broadcast && prefixes.is_empty() {
            prefixes.insert(Bytes::new());
        }
        for prefix in &prefixes {
            tracking.prefixes.entry(prefix.clone()).or_default().clients.insert(session.id);
        }
        if options.no_loop {
            tracking.silent.insert(session.id);
        } else {
            tracking.silent.remove(&session.id);
        }
        let prefix_bytes = prefixes.iter().map(|prefix| PREFIX_BYTES + prefix.len()).sum();
        session.tracking = Some(Box::new(ClientTracking { prefixes, prefix_bytes, ..options }));
        self.refresh_onlookers();
    }

    /// Has a session told of nothing any more. Where it is remembered is found out when the key changes.
    pub(crate) fn untrack(&mut self, session: &mut Session) {
        let (Some(former), Some(tracking)) = (session.tracking.take(), &mut self.sessions.observers.tracking) else {
            return;
        };
        for prefix in former.prefixes {
            if let Some(state) = tracking.prefixes.get_mut(&prefix) {
                state.clients.remove(&session.id);
                if state.clients.is_empty() {
                    tracking.prefixes.remove(&prefix);
                }
            }
        }
        tracking.silent.remove(&session.id);
        tracking.clients -= 1;
        if tracking.clients == 0 {
            self.sessions.observers.tracking = None;
        }
        self.refresh_onlookers();
    }

    /// A key has changed: tells those who have it. If `by_itself`, who wants to hear nothing of its own changes hears nothing.
    fn invalidate(&mut self, key: &Bytes, by_itself: bool) {
        let Some(tracking) = &mut self.sessions.observers.tracking else { return };
        let silent = Some(self.sessions.current.session).filter(|id| by_itself && tracking.silent.contains(id));
        for id in tracking.forget(key) {
            if silent != Some(id) {
                self.tell(id, Stale::Key(key.clone()));
            }
        }
    }

    /// Tells a client that something is stale. If a session that it takes is not in its place, that waits.
    fn tell(&mut self, id: SessionId, stale: Stale) {
        let client = match self.sessions.by_id.get(&id) {
            Some(Some(client)) => client,
            Some(None) => return self.sessions.tell_later(id, stale),
            None => return,
        };
        let Some(tracking) = &client.tracking else { return };
        // What was remembered before a client changed to prefixes is no matter any more.
        if tracking.broadcast && matches!(stale, Stale::Key(_)) {
            return;
        }
        let protocol = client.protocol;
        let receiver = if tracking.redirect == 0 { id } else { SessionId(tracking.redirect) };
        let (is_newer, is_listening) = match self.sessions.by_id.get(&receiver) {
            Some(Some(other)) if other.close == Close::No => {
                (other.protocol == Protocol::Resp3, receiver != id && other.is_subscriber())
            }
            Some(None) => return self.sessions.tell_later(id, stale),
            _ => return self.tell_broken(id),
        };
        if !is_newer && !is_listening {
            return;
        }
        self.send_with(receiver, |reply| {
            if is_newer {
                reply.push(2);
                reply.bulk(b"invalidate");
            } else {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
            }
            stale.write(reply, protocol);
        });
    }

    /// Tells a client that whoever was to be told instead of it has gone.
    fn tell_broken(&mut self, id: SessionId) {
        let Some(client) = self.sessions.get_mut(id) else { return };
        let Some(tracking) = &mut client.tracking else { return };
        tracking.broken = true;
        let redirect = i64::try_from(tracking.redirect).unwrap_or(i64::MAX);
        if client.protocol == Protocol::Resp3 && tracking.redirect != 0 {
            self.send_with(id, |reply| {
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.integer(redirect);
            });
        }
    }

    /// Tells what waited until its session is in its place.
    pub(super) fn deliver_invalidations(&mut self) {
        let Some(tracking) = &mut self.sessions.observers.tracking else { return };
        for (id, stale) in std::mem::take(&mut tracking.pending) {
            self.tell(id, stale);
        }
    }

    /// Everything is stale.
    pub(super) fn invalidate_all(&mut self) {
        let Some(tracking) = &mut self.sessions.observers.tracking else { return };
        tracking.keys = HashIndex::new(tracking.keys.seed());
        tracking.items = 0;
        let mut ids: Vec<SessionId> = self
            .sessions
            .by_id
            .iter()
            .filter(|(_, session)| session.as_ref().is_none_or(|session| session.tracking.is_some()))
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.tell(id, Stale::All));
    }

    /// At the end of a turn: tells who named prefixes which of their keys have changed.
    pub(super) fn broadcast_invalidations(&mut self) {
        self.deliver_invalidations();
        let Some(tracking) = &mut self.sessions.observers.tracking else { return };
        if !std::mem::take(&mut tracking.has_changed) {
            return;
        }
        let mut messages: Vec<(SessionId, Stale)> = Vec::new();
        for prefix in tracking.prefixes.values_mut() {
            let changed = std::mem::take(&mut prefix.changed);
            if changed.is_empty() {
                continue;
            }
            let all: std::rc::Rc<[u8]> = keys_array(changed.keys()).into();
            for id in &prefix.clients {
                let session = self.sessions.by_id.get(id).and_then(Option::as_deref);
                let is_silent =
                    session.and_then(|session| session.tracking.as_ref()).is_some_and(|tracking| tracking.no_loop);
                if !is_silent {
                    messages.push((*id, Stale::Keys(std::rc::Rc::clone(&all))));
                } else if changed.values().any(|by| by != id) {
                    let others: Vec<&Bytes> = changed.iter().filter(|(_, by)| *by != id).map(|(key, _)| key).collect();
                    messages.push((*id, Stale::Keys(keys_array(others.into_iter()).into())));
                }
            }
        }
        messages.into_iter().for_each(|(id, stale)| self.tell(id, stale));
    }

    /// Forgets keys, which counts as a change of each, while more are remembered than `tracking-table-max-keys` says.
    pub(super) fn limit_tracking(&mut self) {
        let most = usize::try_from(self.settings.tracking_table_max_keys.0).unwrap_or(usize::MAX);
        let Some(tracking) = &mut self.sessions.observers.tracking else { return };
        if most == 0 || tracking.keys.len() <= most {
            tracking.overruns = 0;
            return;
        }
        tracking.overruns += 1;
        let effort = FORGET_AT_ONCE.saturating_mul(tracking.overruns);
        for _ in 0..effort {
            let random = self.random.draw();
            let Some(tracking) =
                self.sessions.observers.tracking.as_ref().filter(|tracking| tracking.keys.len() > most)
            else {
                break;
            };
            let Some(key) = tracking.keys.random(random).map(|tracked| tracked.key.clone()) else { break };
            self.invalidate(&key, false);
        }
    }
}

impl Session {
    /// Whether the keys that its command reads are remembered.
    pub(crate) fn caches(&self) -> bool {
        self.tracking.as_ref().is_some_and(|client| {
            let is_left_out = client.opt_in && !client.caching || client.opt_out && client.caching;
            !client.broadcast && !is_left_out
        })
    }
}

/// Keys as an array.
fn keys_array<'a>(keys: impl ExactSizeIterator<Item = &'a Bytes>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, Protocol::Resp2);
    reply.array(keys.len());
    keys.for_each(|key| reply.bulk(key));
    bytes
}

impl Server {
    /// After a command, while there is anybody who wants to be told: sees to what changed, then remembers what was read.
    pub(super) fn track_command(&mut self, session: &mut Session, found: FoundCommand, words: &[&[u8]]) {
        self.invalidate_modified();
        let reads = found.command.flags.contains(Flags::READONLY);
        let Some(tracking) = &mut self.shared.sessions.observers.tracking else { return };
        if !reads || found.command.flags.contains(Flags::RUNS_SCRIPT) {
            return;
        }
        match &self.shared.scripting.running {
            // A script reads the keys that it declares, whenever it calls a command that reads: what it changes then is told.
            Some(running) if session.internal => {
                running.cached.iter().for_each(|key| tracking.remember(key, running.session));
            }
            _ => self.shared.sessions.remember_keys(session, found, words),
        }
    }

    /// Tells of the keys that have changed since this was asked last.
    pub(super) fn invalidate_modified(&mut self) {
        let Some(tracking) = &mut self.shared.sessions.observers.tracking else { return };
        if std::mem::take(&mut self.changes.flushed) {
            // That the keys are gone which somebody watches is said with it.
            tracking.seen = self.changes.modified.len();
            self.shared.invalidate_all();
            return;
        }
        let current = self.shared.sessions.current.session;
        let from = std::mem::replace(&mut tracking.seen, self.changes.modified.len());
        for (_, key) in self.changes.modified.get(from..).unwrap_or_default() {
            if let Some(tracking) = &mut self.shared.sessions.observers.tracking {
                tracking.note_change(key, current);
            }
            self.shared.invalidate(key, true);
        }
    }

    /// The keys that have changed are forgotten: others follow.
    pub(super) fn restart_tracking(&mut self) {
        if let Some(tracking) = &mut self.shared.sessions.observers.tracking {
            tracking.seen = 0;
        }
    }

    /// After a whole command of a client that wants to be told: CLIENT CACHING was about one command.
    pub(super) fn end_tracked(&mut self, session: &mut Session) {
        let container = session.last_command.and_then(|name| self.shared.table.by_name(name.container?.as_bytes()));
        let keeps_caching = container.is_some_and(|found| found.command.flags.contains(Flags::KEEPS_CACHING));
        if let Some(tracking) = &mut session.tracking
            && session.transaction.is_none()
            && !keeps_caching
        {
            tracking.caching = false;
        }
        self.shared.limit_tracking();
    }
}
