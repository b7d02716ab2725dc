//! Servers that know no slots: a Redis without a cluster of its own. It answers for any key, also for one that is another server's by
//! now. So whoever looks after the cluster tells the proxies, and waits for them:
//!
//! ```text
//! orders: these slots are on hold -> requests on them wait here -> what was under way is answered -> the orders are acknowledged
//! ```
//!
//! A proxy that does not answer is not waited for longer than its lease: beyond that it sends nothing to such a server, and believes
//! nothing that it reads from one. What it has read in time the server has done in time. What it finds later, because its process was
//! stopped say, may have been done when the keys were another server's already: it is left unread until a lease comes that is for the
//! orders of before. If there are other orders by then, its connections end instead: reads are asked again, and whoever waits for a write
//! hears that nobody knows whether it was done.

use std::collections::BTreeMap;

use commands::cluster::{SLOTS, SlotRange, Topology};
use keyspace::slot::cluster_slot;

use super::{LinkFailure, LinkState, Proxy, Waiting, own::Purpose, requests::Request};
use crate::route::Route;

/// The pool that a cluster's topology is about.
pub(super) const POOL: usize = 0;

/// By what a server lets a client in: a user, if it is not the default one, and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// The words of `AUTH`.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        ["AUTH"].into_iter().chain(self.user.as_deref()).chain([self.password.as_str()]).collect()
    }
}

/// What a proxy is told about such servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Which of the orders it is: later ones have larger numbers.
    pub stamp: u64,
    /// The servers, with what they let clients in by.
    pub servers: Vec<(String, u16, Option<Credentials>)>,
    /// Slots on hold.
    pub held: Vec<SlotRange>,
}

/// Until when such servers may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// It is for whoever has these orders, or later ones.
    pub stamp: u64,
    /// Milliseconds of the machine's clock since it was started.
    pub until: u64,
}

/// What a proxy knows of such servers.
#[derive(Debug, Default)]
pub struct Plain {
    stamp: u64,
    /// There are such servers.
    pub is_there: bool,
    /// By slot; empty if none is on hold.
    held: Vec<bool>,
    /// There is no lease, so none of them is used.
    has_no_lease: bool,
    /// The end of the last lease for these orders: what is read from such a server by then counts. By the clock of leases.
    trusted_until: u64,
    /// Since when nothing is believed that they say.
    distrusted_since: Option<u64>,
    /// Connections, and how many requests must have been taken off each before the orders are done.
    goals: Vec<(usize, u64)>,
    /// Clients, by place and number, whose next request waits, and since when.
    waiting: BTreeMap<(usize, u64), u64>,
    /// The last orders that all threads have done.
    pub acknowledged: u64,
}

impl Plain {
    /// Whether some requests must wait: usually none, and nobody looks.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.has_no_lease || !self.held.is_empty()
    }

    fn holds(&self, slot: u16) -> bool {
        self.held.get(usize::from(slot)).copied().unwrap_or(false)
    }

    /// Whether clients wait to be tried again.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether what such servers say is not believed for the moment.
    #[inline]
    pub(super) fn is_distrusted(&self) -> bool {
        self.distrusted_since.is_some()
    }
}

/// Why connections end whose answers would not count.
const TOO_LATE: &str = "the proxy has had no lease for it";

impl Proxy {
    /// Takes over how the cluster is, and what is ordered about servers that know no slots. [`Proxy::set_lease`] is to be called right
    /// before: whether the lease of before is over makes a difference.
    pub fn set_view(&mut self, topology: &Topology, orders: &Orders) {
        let is_after_gap = self.plain.is_distrusted() && self.plain.stamp != orders.stamp;
        let late = if is_after_gap { self.plain_links_with_requests() } else { Vec::new() };
        let mut is_plain = BTreeMap::new();
        for (host, port, credentials) in &orders.servers {
            if let Some(server) = self.server_at(POOL, host, *port) {
                is_plain.insert(server, credentials.clone());
            }
        }
        if let Some(pool) = self.pools.get_mut(POOL) {
            for (place, server) in pool.servers.iter_mut().enumerate() {
                server.is_plain = is_plain.contains_key(&place);
                server.credentials = is_plain.get(&place).cloned().flatten();
            }
        }
        if let Some(slots) = self.pools.get_mut(POOL).and_then(|pool| pool.slots.as_mut()) {
            slots.says_all = true;
        }
        self.plain.is_there = !is_plain.is_empty();
        self.plain.has_no_lease &= self.plain.is_there;
        self.plain.stamp = orders.stamp;
        self.plain.held = Vec::new();
        if !orders.held.is_empty() {
            self.plain.held = vec![false; SLOTS];
            for (first, last) in &orders.held {
                let range = usize::from(*first)..=usize::from(*last);
                self.plain.held.get_mut(range).into_iter().flatten().for_each(|held| *held = true);
            }
            self.end_transactions();
        }
        // Who has had the slots until now still has what was sent to it.
        let mut concerned = self.servers_of_held();
        self.set_topology(POOL, topology);
        // Meanwhile the keys may have been another server's.
        for index in late.into_iter().filter(|index| !self.waits_rightly(*index)).collect::<Vec<_>>() {
            self.link_failed(index, &LinkFailure::Other(TOO_LATE.into()));
        }
        concerned.extend(self.servers_of_held());
        let goals = self.links.iter().filter(|(_, link)| link.pool == POOL && concerned.contains(&link.server));
        self.plain.goals = goals
            .filter(|(_, link)| link.waiting.iter().any(|waiting| matches!(waiting, Waiting::Answer { .. })))
            .map(|(index, link)| (index, link.taken + link.waiting.len() as u64))
            .collect();
        self.resume_waiting();
    }

    /// The servers without slots of their own that have slots on hold, and their replicas, which may be read from.
    fn servers_of_held(&self) -> Vec<usize> {
        let Some(pool) = self.pools.get(POOL) else { return Vec::new() };
        let Some(slots) = &pool.slots else { return Vec::new() };
        let mut found: Vec<usize> = (0..SLOTS as u16)
            .filter(|slot| self.plain.holds(*slot))
            .filter_map(|slot| slots.owner(slot))
            .flat_map(|server| [server].into_iter().chain(slots.replicas_of(server).iter().copied()))
            .filter(|server| pool.servers.get(*server).is_some_and(|server| server.is_plain))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Transactions and watched keys on slots that are on hold are lost: their server may not be the keys' any more at `EXEC`.
    fn end_transactions(&mut self) {
        let is_concerned = |client: &super::Client| {
            let own = client.own.as_ref()?;
            let is_open = matches!(own.purpose, Purpose::Watching { .. } | Purpose::Transaction { .. });
            let is_plain = self.pools.get(POOL)?.servers.get(own.server?)?.is_plain;
            (is_open && is_plain && client.pool == POOL && own.slots.iter().any(|slot| self.plain.holds(*slot)))
                .then_some(own.link)?
        };
        let links: Vec<usize> = self.clients.iter().filter_map(|(_, client)| is_concerned(client)).collect();
        for link in links {
            self.link_failed(link, &LinkFailure::Other("the keys' slots are about to have another server".into()));
        }
    }

    /// The last orders, once all that they forbid has come to its end.
    pub fn done_orders(&mut self) -> Option<u64> {
        let links = &self.links;
        let is_open = |(index, goal): &(usize, u64)| {
            links.get(*index).is_some_and(|link| link.state != LinkState::Closed && link.taken < *goal)
        };
        self.plain.goals.retain(is_open);
        self.plain.goals.is_empty().then_some(self.plain.stamp)
    }

    /// The connections to servers that know no slots on which somebody waits for an answer.
    fn plain_links_with_requests(&self) -> Vec<usize> {
        let has_request = |link: &super::Link| link.waiting.iter().any(|one| matches!(one, Waiting::Answer { .. }));
        let links = self.links.iter().filter(|(index, link)| has_request(link) && self.is_plain_link(*index));
        links.map(|(index, _)| index).collect()
    }

    /// Whether nothing has come by a connection but that a command waits there, as long as it likes, for keys that are its server's.
    fn waits_rightly(&self, index: usize) -> bool {
        let Some(link) = self.links.get(index).filter(|link| self.is_waiting_only(link)) else { return false };
        let slots = self.pools.get(link.pool).and_then(|pool| pool.slots.as_ref());
        let is_there =
            |slot: &u16| slots.and_then(|slots| slots.owner(*slot)) == Some(link.server) && !self.plain.holds(*slot);
        link.kept.iter().all(|kept| self.slots_of(&kept.bytes).iter().all(is_there))
    }

    /// Whether a connection is a client's own, for a command that waits, and nothing has come yet.
    fn is_waiting_only(&self, link: &super::Link) -> bool {
        link.owner.is_some_and(|owner| self.has_waiting_command(owner)) && link.input.is_empty() && link.unsent() == 0
    }

    /// Whether a client, by place and number, has a connection for itself for a command that waits as long as it likes.
    pub(super) fn has_waiting_command(&self, (place, id): (usize, u64)) -> bool {
        let client = self.clients.get(place).filter(|client| client.id == id);
        let purpose = client.and_then(|client| client.own.as_ref()).map(|own| own.purpose);
        purpose == Some(Purpose::OneReply { may_wait: true })
    }

    /// Looks whether what servers say that know no slots is believed: until the end of the last lease for the orders that are known.
    fn look_at_trust(&mut self, lease: Lease, now: u64) {
        if !self.plain.is_there {
            self.plain.distrusted_since = None;
            return;
        }
        if now >= self.plain.trusted_until && !self.plain.is_distrusted() {
            self.plain.distrusted_since = Some(self.now);
            // Whoever has given the orders may have waited for them no longer than the lease.
            let goals = std::mem::take(&mut self.plain.goals);
            for (index, goal) in goals {
                if self.links.get(index).is_some_and(|link| link.taken < goal) {
                    self.link_failed(index, &LinkFailure::Other(TOO_LATE.into()));
                }
            }
        }
        if self.plain.stamp < lease.stamp || now >= lease.until {
            return;
        }
        self.plain.trusted_until = self.plain.trusted_until.max(lease.until);
        if self.plain.distrusted_since.take().is_some() {
            let unread = self.links.iter().filter(|(index, link)| !link.input.is_empty() && self.is_plain_link(*index));
            let unread: Vec<usize> = unread.map(|(index, _)| index).collect();
            unread.into_iter().for_each(|index| self.link_received(index, &[]));
        }
    }

    /// Who waits for an answer that is not believed hears so in the end.
    pub(super) fn give_up_distrusted(&mut self) {
        let Some(since) = self.plain.distrusted_since else { return };
        if self.now.saturating_sub(since) < self.retry_for() {
            return;
        }
        for index in self.plain_links_with_requests() {
            if self.links.get(index).is_some_and(|link| !self.is_waiting_only(link)) {
                self.link_failed(index, &LinkFailure::Other(TOO_LATE.into()));
            }
        }
    }

    fn retry_for(&self) -> u64 {
        self.pools.get(POOL).and_then(|pool| pool.slots.as_ref()).map_or(0, |slots| slots.retry_for)
    }

    /// Says until when servers that know no slots may be used, and what time it is by the same clock. To be called often, before
    /// [`Proxy::set_view`], and between reading from such a server and [`Proxy::link_received`].
    pub fn set_lease(&mut self, lease: Lease, now: u64) {
        self.look_at_trust(lease, now);
        let has_none = self.plain.is_there && (now >= lease.until || self.plain.stamp < lease.stamp);
        if has_none == self.plain.has_no_lease {
            return;
        }
        self.plain.has_no_lease = has_none;
        if has_none {
            self.work
                .messages
                .push("nobody has told for a while which Redis has which slots: requests to them wait".to_owned());
            // What has not been sent yet may belong elsewhere by the time that it would be.
            let late: Vec<usize> = self
                .links
                .iter()
                .filter(|(index, link)| link.unsent() > 0 && self.is_plain_link(*index))
                .map(|(i, _)| i)
                .collect();
            for index in late {
                self.link_failed(index, &LinkFailure::Other("the proxy has no lease for it".into()));
            }
        } else {
            self.work.messages.push("it is known again which Redis has which slots".to_owned());
            self.resume_waiting();
            self.wake_parked();
        }
    }

    /// Whether a connection is one to a server that knows no slots.
    #[must_use]
    pub fn is_plain_link(&self, index: usize) -> bool {
        let Some(link) = self.links.get(index).filter(|link| link.pool == POOL) else { return false };
        self.is_plain_server(link.server)
    }

    fn is_plain_server(&self, server: usize) -> bool {
        let server = self.pools.get(POOL).and_then(|pool| pool.servers.get(server));
        server.is_some_and(|server| server.is_plain)
    }

    /// Whether nothing is to be sent to the server of a slot for the moment.
    pub(super) fn is_barred(&self, slot: u16, server: usize) -> bool {
        self.plain.holds(slot) || (self.plain.has_no_lease && self.is_plain_server(server))
    }

    /// Whether a client's next request waits. One that has waited for too long is refused.
    #[cold]
    pub(super) fn must_wait(&mut self, index: usize, request: Request<'_>) -> bool {
        let Some(client) = self.clients.get(index).filter(|client| client.pool == POOL) else { return false };
        let who = (index, client.id);
        let retry_for = self.retry_for();
        let has_waited = self.plain.waiting.get(&who).is_some_and(|since| self.now.saturating_sub(*since) >= retry_for);
        if has_waited || !self.is_request_barred(index, request) {
            self.plain.waiting.remove(&who);
            return false;
        }
        self.plain.waiting.entry(who).or_insert(self.now);
        if let Some(client) = self.clients.get_mut(index) {
            client.holds = true;
        }
        true
    }

    fn is_request_barred(&self, index: usize, request: Request<'_>) -> bool {
        let Some(pool) = self.pools.get(POOL) else { return false };
        let words: Vec<&[u8]> = request.words.iter().collect();
        let places = request.found.command.key_places_of(&words);
        if !places.is_empty() {
            return places.iter().any(|place| {
                let slot = cluster_slot(words.get(*place).copied().unwrap_or_default());
                let server = pool.slots.as_ref().and_then(|slots| slots.owner(slot));
                self.is_barred(slot, server.unwrap_or(usize::MAX))
            });
        }
        match self.route_of(request) {
            Route::Everywhere(_) | Route::Scan => true,
            Route::First | Route::Keys | Route::Subscription => {
                let first = self.first_server(index).ok();
                self.plain.has_no_lease && first.is_some_and(|first| self.is_plain_server(first))
            }
            Route::Transaction => {
                let own = self.clients.get(index).and_then(|client| client.own.as_ref()?.server);
                self.plain.has_no_lease && own.is_some_and(|own| self.is_plain_server(own))
            }
            _ => false,
        }
    }

    /// Clients whose requests wait try again: something has changed.
    fn resume_waiting(&mut self) {
        let who: Vec<(usize, u64)> = self.plain.waiting.keys().copied().collect();
        who.into_iter().for_each(|who| self.resume_one(who));
        if !self.plain.is_active() {
            // Nobody looks at requests then: how long one has waited is not counted for the next.
            self.plain.waiting.clear();
        }
    }

    fn resume_one(&mut self, (place, id): (usize, u64)) {
        match self.clients.get_mut(place).filter(|client| client.id == id) {
            // One that has requests under way goes on after these.
            Some(client) if client.is_settled() => {
                client.holds = false;
                self.work.resume.push(place);
            }
            Some(_) => {}
            None => drop(self.plain.waiting.remove(&(place, id))),
        }
    }

    /// Those that have waited for too long go on, and hear so.
    pub(super) fn look_at_waiting(&mut self) {
        let retry_for = self.retry_for();
        let late = self.plain.waiting.iter().filter(|(_, since)| self.now.saturating_sub(**since) >= retry_for);
        let late: Vec<(usize, u64)> = late.map(|(who, _)| *who).collect();
        late.into_iter().for_each(|who| self.resume_one(who));
    }
}
