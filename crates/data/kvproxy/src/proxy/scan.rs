//! `SCAN` over all servers.
//!
//! Where slots are spread over stores, the walk goes from slot to slot, whoever has them: the store is asked for its own slots from the
//! cursor on and stops where the next one is another store's; one that does not have the slot of the cursor any more says so. The cursor
//! has the server's number besides: where the slot has another one by now, its walk begins anew, as what has been seen of it there may
//! stand elsewhere here. So a key that is there all the time is met, wherever its slot goes.
//!
//! A Redis cannot walk by slots. Where one has slots, and where servers are spread otherwise, one server is walked after the other. A
//! cursor says which of the two it is of: it is refused where the other one is done by now, as it would leave keys out.

use keyspace::slot;
use resp::Arguments;

use super::{Pool, Proxy, client::Pending, merge::cursor_of, redirect::Asker, requests::Request};

/// Servers that a cursor of `SCAN` can tell apart where they come and go.
const CURSOR_SERVERS: usize = 1024;
/// What a cursor has above everything else if servers are walked one after the other although they have slots. Clients read cursors as
/// signed numbers, so one bit is left; a store's position takes 52.
const BY_SERVERS: u64 = 1 << 62;

const GONE: &str = "ERR the server that this cursor leads to is not there any more: scan again from 0";
const OTHERWISE: &str =
    "ERR servers that cannot be walked by slots have come or gone since this walk began: scan again from 0";

/// How a reply to `SCAN` becomes the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The server that was asked.
    pub server: usize,
    /// How many there are.
    pub servers: usize,
    /// The one after it, if servers are walked one after the other.
    pub next: Option<usize>,
    /// What is added to its cursor.
    pub kind: u64,
}

impl Pool {
    /// Whether the walk goes from slot to slot: no server with slots is known to be anything but a store.
    fn walks_slots(&self) -> bool {
        let may_be_store = |place: &usize| {
            self.servers.get(*place).is_some_and(|server| !server.is_plain && server.is_store != Some(false))
        };
        self.slots.as_ref().is_some_and(|slots| !slots.of_one_server && slots.servers().iter().all(may_be_store))
    }
}

impl Proxy {
    pub(super) fn scan(&mut self, index: usize, request: Request<'_>) {
        // Where servers come and go, each keeps its number: a cursor leads to the same one.
        let Some(pool) = self.pool_of(index) else { return };
        let (servers, kind) = match &pool.slots {
            Some(_) if pool.walks_slots() => (CURSOR_SERVERS, 0),
            Some(_) => (CURSOR_SERVERS, BY_SERVERS),
            None => (pool.servers.len(), 0),
        };
        let text = request.words.get(1).and_then(|word| std::str::from_utf8(word).ok());
        let Some(cursor) = text.and_then(|text| text.parse::<u64>().ok()) else {
            return self.refuse(index, "ERR invalid cursor");
        };
        let begins = cursor == 0;
        if pool.slots.is_some() && !begins && cursor & BY_SERVERS != kind {
            return self.refuse(index, OTHERWISE);
        }
        let known = cursor_of(cursor - if begins { 0 } else { kind }, servers);
        if pool.walks_slots() {
            let Some(owner) = pool.slots.as_ref().and_then(|slots| slots.owner(slot_at(known.1))) else {
                return self.refuse_for_want_of_servers(index);
            };
            let cursor = if owner == known.0 { known.1 } else { slot::cursor(slot::of_cursor(known.1)) };
            let bytes = command(request.words, cursor, true);
            return self.walk(index, Walk { server: owner, servers, next: None, kind }, &bytes);
        }
        let all = pool.with_keys();
        let (server, cursor) = if begins { (all.first().copied().unwrap_or(0), 0) } else { known };
        if !all.contains(&server) {
            return self.refuse(index, GONE);
        }
        let next = all.iter().copied().find(|other| *other > server);
        let bytes = command(request.words, cursor, false);
        self.walk(index, Walk { server, servers, next, kind }, &bytes);
    }

    fn walk(&mut self, index: usize, walk: Walk, bytes: &[u8]) {
        if walk.server >= walk.servers {
            return self.refuse(index, "ERR the proxy has met more servers than a cursor can tell apart: restart it");
        }
        self.forward(index, walk.server.into(), bytes, Pending::Scan(walk));
    }

    /// The same once more, as the server does not have the slot: whoever has it walks it from its beginning. Returns the server, and what is
    /// sent to it.
    pub(super) fn scan_again(&mut self, pool: usize, asker: Asker, words: Arguments<'_>) -> Option<(usize, Vec<u8>)> {
        let cursor = std::str::from_utf8(words.get(1)?).ok()?.parse::<u64>().ok()?;
        let pool = self.pools.get(pool).filter(|pool| pool.walks_slots())?;
        let owner = pool.slots.as_ref()?.owner(slot_at(cursor))?;
        let bytes = command(words, slot::cursor(slot::of_cursor(cursor)), false);
        self.walk_of(asker)?.server = owner;
        Some((owner, bytes))
    }

    /// A walk that has just begun as one by slots, at a server that turns out to be none of ours: server by server then. Returns the first
    /// one, and what is sent to it.
    pub(super) fn scan_by_servers(
        &mut self,
        pool: usize,
        asker: Asker,
        words: Arguments<'_>,
    ) -> Option<(usize, Vec<u8>)> {
        let pool = self.pools.get(pool).filter(|pool| !pool.walks_slots())?;
        let all = pool.with_keys();
        let (first, next) = (all.first().copied()?, all.get(1).copied());
        if words.get(1) != Some(b"0") || words.get(words.len().checked_sub(2)?) != Some(b"SLOTS") {
            return None;
        }
        let mut bytes = Vec::new();
        resp::encode_command_header(&mut bytes, words.len() - 2);
        words.from(0).iter().take(words.len() - 2).for_each(|word| resp::encode_argument(&mut bytes, word));
        let walk = self.walk_of(asker)?;
        (walk.server, walk.next, walk.kind) = (first, next, BY_SERVERS);
        Some((first, bytes))
    }

    fn walk_of(&mut self, (place, id, number, _): Asker) -> Option<&mut Walk> {
        let client = self.clients.get_mut(place).filter(|client| client.id == id)?;
        let offset = usize::try_from(number.checked_sub(client.first)?).ok()?;
        match client.pending.get_mut(offset) {
            Some(Pending::Scan(walk)) => Some(walk),
            _ => None,
        }
    }
}

/// The slot that a store's cursor is at.
fn slot_at(cursor: u64) -> u16 {
    u16::try_from(slot::of_cursor(cursor)).unwrap_or(u16::MAX)
}

/// `SCAN` with another cursor.
fn command(words: Arguments<'_>, cursor: u64, of_own_slots: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode_command_header(&mut bytes, words.len() + if of_own_slots { 2 } else { 0 });
    resp::encode_argument(&mut bytes, b"SCAN");
    resp::encode_argument(&mut bytes, cursor.to_string().as_bytes());
    words.from(2).iter().for_each(|word| resp::encode_argument(&mut bytes, word));
    if of_own_slots {
        resp::encode_argument(&mut bytes, b"SLOTS");
        resp::encode_argument(&mut bytes, b"OWN");
    }
    bytes
}
