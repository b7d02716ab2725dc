//! Requests that are tried again, in the order in which their clients sent them.
//!
//! A client may send requests without waiting for answers. A server that is about to serve a slot, or serves it no more, may refuse some
//! of them and run others. So nothing of a client is sent again while something else of it is under way. Then its first request goes
//! alone. When that has been answered, the others follow at once.
//!
//! A server may also refuse a request and run one that was sent behind it, on the same keys. The refused one must not run any more: its
//! older value would replace the newer one, which the client may know to be written. The client is told that it was not run.

use std::collections::HashSet;

use commands::table::Flags;
use keyspace::slot::cluster_slot;
use resp::{Progress, RequestParser};

use super::{
    Proxy, Waiting,
    link::UnansweredRequest,
    redirect::{AGAIN_MS, Asker},
};

/// What a client hears of a request that others have overtaken.
const OVERTAKEN: &[u8] =
    b"-TRYAGAIN The server refused this request and then ran one that was sent behind it, so this one was not run\r\n";

/// A request that is tried again.
#[derive(Debug)]
pub struct Parked {
    due: u64,
    pool: usize,
    asker: Asker,
    kept: UnansweredRequest,
    /// What its client hears if there is no time left.
    error: Vec<u8>,
}

/// What the order of two requests depends on.
struct Concern {
    slots: Vec<u16>,
    only_reads: bool,
}

impl Concern {
    /// Whether it matters which of the two is run first.
    fn meets(&self, other: &Self) -> bool {
        let is_about_all = |one: &Self| one.slots.is_empty() && !one.only_reads;
        let share = || self.slots.iter().any(|slot| other.slots.contains(slot));
        !(self.only_reads && other.only_reads) && (is_about_all(self) || is_about_all(other) || share())
    }
}

impl Proxy {
    /// Whether requests wait to be tried again.
    #[must_use]
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty() || self.plain.has_waiting()
    }

    /// A request is tried again in a moment.
    pub(super) fn park(&mut self, pool: usize, asker: Asker, kept: UnansweredRequest, error: &[u8]) {
        self.park_until(self.now + AGAIN_MS, pool, asker, (kept, error));
    }

    /// The same when nothing else of its client is under way.
    pub(super) fn park_behind(&mut self, pool: usize, asker: Asker, kept: UnansweredRequest, error: &[u8]) {
        self.park_until(self.now, pool, asker, (kept, error));
    }

    fn park_until(&mut self, due: u64, pool: usize, asker: Asker, (kept, error): (UnansweredRequest, &[u8])) {
        if let Some(client) = self.clients.get_mut(asker.0).filter(|client| client.id == asker.1) {
            client.retries_all = false;
        }
        self.parked.push(Parked { due, pool, asker, kept, error: error.to_vec() });
    }

    /// Whether a request is the only one that its client waits for.
    pub(super) fn has_only(&self, (place, id, ..): Asker) -> bool {
        self.clients.get(place).is_none_or(|client| client.id != id || client.pending.len() <= 1)
    }

    /// Requests that wait are tried at the next look.
    pub(super) fn wake_parked(&mut self) {
        let now = self.now;
        self.parked.iter_mut().for_each(|parked| parked.due = now);
    }

    /// Tries those again whose time has come.
    pub(super) fn retry_parked(&mut self) {
        let mut parked = std::mem::take(&mut self.parked);
        parked.sort_by_key(|parked| parked.asker);
        let under_way = self.under_way();
        let (mut client, mut first, mut stays) = (None, None, false);
        for mut one in parked {
            let (place, id, request, _) = one.asker;
            if !self.has_time(one.pool, &one.kept) {
                self.complete(one.asker, &one.error);
                continue;
            }
            if client.replace((place, id)) != Some((place, id)) {
                (first, stays) = (None, under_way.contains(&(place, id)));
            }
            let is_first = *first.get_or_insert(request) == request;
            stays |= one.due > self.now || !(is_first || self.retries_all(place, id));
            if stays {
                self.parked.push(one);
                continue;
            }
            one.kept.tries = 0;
            self.resend(one.pool, one.asker, one.kept, &one.error);
        }
    }

    fn retries_all(&self, place: usize, id: u64) -> bool {
        self.clients.get(place).is_some_and(|client| client.id == id && client.retries_all)
    }

    /// The clients that servers have been asked something for, by place and number.
    fn under_way(&self) -> HashSet<(usize, u64)> {
        let waiting = self.links.iter().flat_map(|(_, link)| &link.waiting);
        let clients = waiting.filter_map(|waiting| match waiting {
            Waiting::Answer { client, id, .. } => Some((*client, *id)),
            _ => None,
        });
        clients.collect()
    }

    /// A server has run a request, or may have.
    #[cold]
    pub(super) fn was_run(&mut self, (place, id, request, _): Asker, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) {
            client.retries_all = true;
        }
        let is_before = |parked: &Parked| {
            let (its_place, its_id, its_request, _) = parked.asker;
            (its_place, its_id) == (place, id) && its_request < request
        };
        if !self.parked.iter().any(is_before) {
            return;
        }
        let run = self.concern_of(bytes);
        let (overtaken, others) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| is_before(parked) && self.concern_of(&parked.kept.bytes).meets(&run));
        self.parked = others;
        let overtaken: Vec<Parked> = overtaken;
        for parked in overtaken {
            self.complete(parked.asker, OVERTAKEN);
        }
    }

    fn concern_of(&self, bytes: &[u8]) -> Concern {
        let mut parser = RequestParser::new();
        let mut concern = Concern { slots: Vec::new(), only_reads: false };
        if !matches!(parser.parse(bytes, &self.limits), Ok(Progress::Complete { .. })) {
            return concern;
        }
        let words: Vec<&[u8]> = parser.arguments(bytes).iter().collect();
        if let Some(found) = self.table.find(words.get(..words.len().min(2)).unwrap_or_default()) {
            concern.only_reads = found.command.flags.contains(Flags::READONLY);
            let keys = found.command.key_places_of(&words).into_iter().filter_map(|place| words.get(place));
            concern.slots = keys.map(|key| cluster_slot(key)).collect();
        }
        concern
    }

    /// The slots of a request's keys.
    pub(super) fn slots_of(&self, bytes: &[u8]) -> Vec<u16> {
        self.concern_of(bytes).slots
    }

    pub(super) fn only_reads(&self, bytes: &[u8]) -> bool {
        self.concern_of(bytes).only_reads
    }
}
