//! Reads from replicas: which server a read goes to, and which replicas may be read from.
//!
//! Every second the proxy asks masters and replicas for their `ROLE`. A replica serves reads while it says that its link to its master
//! stands, and answers in time. It is left out as soon as its connection fails, or it refuses a read; such a read goes to the master.
//! A client keeps to one of several replicas, so what it reads does not jump back in time while that one serves.

use super::{LinkFailure, LinkState, Proxy, Waiting, link::LinkKind, requests::Request};
use crate::{
    frame::{bulk, elements},
    policy::ReadFrom,
};

/// How often servers are asked for their role, in milliseconds.
const PROBE_EVERY_MS: u64 = 1_000;
/// For how long a server may leave that unanswered before it is left out, in milliseconds.
const PROBE_PATIENCE_MS: u64 = 1_000;
/// Servers that are at most so many microseconds farther away than the nearest one are as near as that.
const AS_NEAR_MICROS: u64 = 200;
/// The share that a new measurement has in what is known of a latency: one of so many.
const LATENCY_SHARE: u64 = 4;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The server.
    pub server: usize,
    /// It is asked as a replica.
    pub reads_replica: bool,
}

impl From<usize> for Destination {
    fn from(server: usize) -> Self {
        Self { server, reads_replica: false }
    }
}

/// What is known of a server that may be read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Whether it may be.
    pub state: WatchState,
    /// How long it takes to answer, in microseconds; 0 before it has.
    pub latency: u64,
}

/// Whether a server may be read from as a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchState {
    /// It has not answered, or failed since, or loads its data.
    #[default]
    Away,
    /// It answers, but does not follow its master now.
    Stale,
    /// It follows its master, or is one.
    Current,
}

impl Watch {
    fn measured(&mut self, micros: u64) {
        self.latency = match self.latency {
            0 => micros.max(1),
            known => ((known * (LATENCY_SHARE - 1) + micros) / LATENCY_SHARE).max(1),
        };
    }
}

/// What a server says of its role.
fn state_of(reply: &[u8]) -> WatchState {
    if let Some(error) = reply.strip_prefix(b"-") {
        // NOTE: a user who may not ask for it may read all the same.
        let may_not_ask = error.starts_with(b"NOPERM") || error.starts_with(b"ERR");
        return if may_not_ask { WatchState::Current } else { WatchState::Away };
    }
    let parts = elements(reply).unwrap_or_default();
    let word = |place: usize| parts.get(place).and_then(|part| bulk(part)).unwrap_or_default();
    match word(0) {
        b"slave" if word(3) == b"connected" => WatchState::Current,
        b"slave" => WatchState::Stale,
        b"master" => WatchState::Current,
        _ => WatchState::Away,
    }
}

impl Proxy {
    /// Where a request goes whose keys belong to a server: there, or to one that reads are allowed from.
    #[inline]
    pub(super) fn destination(&self, index: usize, master: usize, request: Request<'_>) -> Destination {
        let policy = self.pool_of(index).and_then(|pool| pool.slots.as_ref()).map(|slots| slots.read_from);
        match policy {
            None | Some(ReadFrom::Master) => master.into(),
            Some(policy) if self.routes.only_reads(request.found.index) => self.reader(index, master, policy),
            Some(_) => master.into(),
        }
    }

    fn reader(&self, index: usize, master: usize, policy: ReadFrom) -> Destination {
        let to_master = Destination::from(master);
        let Some((client, pool)) = self.clients.get(index).zip(self.pool_of(index)) else { return to_master };
        let Some(slots) = &pool.slots else { return to_master };
        let replicas = slots.replicas_of(master);
        let watch = |place: usize| pool.servers.get(place).map(|server| server.watch).unwrap_or_default();
        let is_calm = |place: usize| pool.servers.get(place).is_some_and(|server| server.breaker.is_calm());
        let in_state = |state: WatchState| {
            let fits = move |place: &usize| watch(*place).state == state && is_calm(*place);
            replicas.iter().copied().filter(fits)
        };
        let as_replica = |server: usize| Destination { server, reads_replica: true };
        let stale = || turn(client.id, in_state(WatchState::Stale)).map(as_replica);
        match policy {
            ReadFrom::Nearest => {
                let known = |place: usize| Some(watch(place).latency).filter(|latency| *latency > 0);
                let masters = is_calm(master).then(|| known(master)).flatten();
                let least = in_state(WatchState::Current).filter_map(known).chain(masters).min();
                let Some(least) = least else {
                    return if is_calm(master) { to_master } else { stale().unwrap_or(to_master) };
                };
                let bound = least + AS_NEAR_MICROS.max(least / 4);
                if masters.is_some_and(|latency| latency <= bound) {
                    return to_master;
                }
                let near = |place: &usize| known(*place).is_some_and(|latency| latency <= bound);
                turn(client.id, in_state(WatchState::Current).filter(near)).map_or(to_master, as_replica)
            }
            _ => match turn(client.id, in_state(WatchState::Current)) {
                Some(replica) => as_replica(replica),
                None if is_calm(master) => to_master,
                None => stale().unwrap_or(to_master),
            },
        }
    }

    /// Asks servers for their role, where reads may go to replicas, and leaves those out that do not say.
    pub(super) fn watch_replicas(&mut self) {
        let (now, micros) = (self.now, self.now_micros);
        let mut asked = Vec::new();
        for (number, pool) in self.pools.iter_mut().enumerate() {
            let Some(slots) = pool.slots.as_mut().filter(|slots| slots.read_from != ReadFrom::Master) else { continue };
            if slots.watched_at.is_some_and(|at| now.saturating_sub(at) < PROBE_EVERY_MS) {
                continue;
            }
            slots.watched_at = Some(now);
            for master in slots.servers() {
                asked.push((number, Destination::from(*master)));
                let replicas = slots.replicas_of(*master).iter();
                asked.extend(replicas.map(|server| (number, Destination { server: *server, reads_replica: true })));
            }
        }
        for (pool, destination) in asked {
            self.watch(pool, destination, micros);
        }
    }

    fn watch(&mut self, pool: usize, destination: Destination, micros: u64) {
        let kind = LinkKind { reads_replica: destination.reads_replica, ..LinkKind::default() };
        let Some(link) = self.first_link(pool, destination.server, kind) else { return };
        let Some(known) = self.links.get(link) else { return };
        let asked = known.waiting.iter().find_map(|waiting| match waiting {
            Waiting::Role { since } => Some(*since),
            _ => None,
        });
        match asked {
            Some(since) if micros.saturating_sub(since) >= PROBE_PATIENCE_MS * 1000 => {
                self.leave_out(pool, destination.server);
                self.take_reads_back(pool, destination.server);
            }
            Some(_) => {}
            None if known.state == LinkState::Opening => {}
            None => self.send(link, b"*1\r\n$4\r\nROLE\r\n", Some(Waiting::Role { since: micros })),
        }
    }

    /// A server has said what its role is.
    pub(super) fn role_told(&mut self, (pool, place): (usize, usize), since: u64, reply: &[u8]) {
        let micros = self.now_micros.saturating_sub(since);
        let Some(server) = self.pools.get_mut(pool).and_then(|pool| pool.servers.get_mut(place)) else { return };
        server.watch.state = state_of(reply);
        server.watch.measured(micros);
    }

    /// Reads that wait for a replica that is silent go to its master.
    fn take_reads_back(&mut self, pool: usize, place: usize) {
        let Some(server) = self.pools.get(pool).and_then(|pool| pool.servers.get(place)) else { return };
        let of_replica = server.shared.iter().filter(|(kind, _)| kind.reads_replica);
        for link in of_replica.flat_map(|(_, links)| links.clone()).collect::<Vec<_>>() {
            self.link_failed(link, &LinkFailure::TimedOut);
        }
    }

    /// Nothing is read from a replica until it says again how it is.
    pub(super) fn leave_out(&mut self, pool: usize, place: usize) {
        if let Some(server) = self.pools.get_mut(pool).and_then(|pool| pool.servers.get_mut(place)) {
            server.watch = Watch::default();
        }
    }
}

/// The one of some servers that a client keeps to.
#[inline]
fn turn(id: u64, servers: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let count = servers.clone().count();
    let place = usize::try_from(id).unwrap_or(0).checked_rem(count)?;
    servers.clone().nth(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read() {
        let replica = |state: &str| {
            format!("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n${}\r\n{state}\r\n:7\r\n", state.len())
        };
        for (reply, state) in [
            (replica("connected"), WatchState::Current),
            (replica("connect"), WatchState::Stale),
            (replica("sync"), WatchState::Stale),
            ("*3\r\n$6\r\nmaster\r\n:7\r\n*0\r\n".into(), WatchState::Current),
            ("*2\r\n$8\r\nsentinel\r\n*0\r\n".into(), WatchState::Away),
            ("-LOADING Redis is loading the dataset in memory\r\n".into(), WatchState::Away),
            ("-NOPERM this user has no permissions\r\n".into(), WatchState::Current),
            ("+OK\r\n".into(), WatchState::Away),
        ] {
            assert_eq!(state_of(reply.as_bytes()), state, "{reply}");
        }
    }

    #[test]
    fn a_latency_is_the_mean_of_what_was_measured_lately() {
        let mut watch = Watch::default();
        watch.measured(1000);
        assert_eq!(watch.latency, 1000);
        (0..30).for_each(|_| watch.measured(100));
        assert!((100..110).contains(&watch.latency), "{}", watch.latency);
    }
}
