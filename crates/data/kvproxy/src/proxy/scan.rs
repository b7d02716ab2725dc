//! `SCAN` over all servers.
//!
//! Where whoever looks after the cluster says which store has which slots, the walk goes from slot to slot, whoever has them: the store is
//! asked for its own slots from the cursor on and stops where the next one is another store's; one that does not have the slot of the
//! cursor any more says so. The cursor has the server's number besides: where the slot has another one by now, its walk begins anew,
//! as what has been seen of it there may stand elsewhere here. So a key that is there all the time is met, wherever its slot goes.
//!
//! Elsewhere one server is walked after the other.

use keyspace::slot;
use resp::Arguments;

use super::{Pool, Proxy, client::Pending, merge::cursor_of, redirect::Asker, requests::Request};

/// Servers that a cursor of `SCAN` can tell apart where they come and go.
const CURSOR_SERVERS: usize = 1024;

/// How a reply to `SCAN` becomes the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The server that was asked.
    pub server: usize,
    /// How many there are.
    pub servers: usize,
    /// The one after it, if servers are walked one after the other.
    pub next: Option<usize>,
}

impl Pool {
    /// Whether the walk goes from slot to slot: all servers are stores that know their slots.
    fn walks_slots(&self) -> bool {
        let are_stores = || self.servers.iter().all(|server| !server.is_plain);
        self.slots.as_ref().is_some_and(|slots| slots.says_all && !slots.of_one_server) && are_stores()
    }
}

impl Proxy {
    pub(super) fn scan(&mut self, index: usize, request: Request<'_>) {
        // Where servers come and go, each keeps its number: a cursor leads to the same one.
        let Some(pool) = self.pool_of(index) else { return };
        let servers = if pool.slots.is_some() { CURSOR_SERVERS } else { pool.servers.len() };
        let text = request.words.get(1).and_then(|word| std::str::from_utf8(word).ok());
        let Some(cursor) = text.and_then(|text| text.parse::<u64>().ok()) else {
            return self.refuse(index, "ERR invalid cursor");
        };
        let known = cursor_of(cursor, servers);
        if pool.walks_slots() {
            let Some(owner) = pool.slots.as_ref().and_then(|slots| slots.owner(slot_at(known.1))) else {
                return self.refuse_for_want_of_servers(index);
            };
            let cursor = if owner == known.0 { known.1 } else { slot::cursor(slot::of_cursor(known.1)) };
            let bytes = command(request.words, cursor, true);
            return self.forward(
                index,
                owner.into(),
                &bytes,
                Pending::Scan(Walk { server: owner, servers, next: None }),
            );
        }
        let all = pool.with_keys();
        let (server, cursor) = if cursor == 0 { (all.first().copied().unwrap_or(0), 0) } else { known };
        if !all.contains(&server) {
            return self
                .refuse(index, "ERR the server that this cursor leads to is not there any more: scan again from 0");
        }
        let next = all.iter().copied().find(|other| *other > server);
        let bytes = command(request.words, cursor, false);
        self.forward(index, server.into(), &bytes, Pending::Scan(Walk { server, servers, next }));
    }

    /// The same once more, as the server does not have the slot: whoever has it walks it from its beginning. Returns the server, and what is
    /// sent to it.
    pub(super) fn scan_again(&mut self, pool: usize, asker: Asker, words: Arguments<'_>) -> Option<(usize, Vec<u8>)> {
        let cursor = std::str::from_utf8(words.get(1)?).ok()?.parse::<u64>().ok()?;
        let pool = self.pools.get(pool).filter(|pool| pool.walks_slots())?;
        let owner = pool.slots.as_ref()?.owner(slot_at(cursor))?;
        let bytes = command(words, slot::cursor(slot::of_cursor(cursor)), false);
        let (place, id, number, _) = asker;
        let client = self.clients.get_mut(place).filter(|client| client.id == id)?;
        let offset = usize::try_from(number.checked_sub(client.first)?).ok()?;
        let Some(Pending::Scan(walk)) = client.pending.get_mut(offset) else { return None };
        walk.server = owner;
        Some((owner, bytes))
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
