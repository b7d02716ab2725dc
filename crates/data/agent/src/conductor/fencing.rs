//! What proxies are told: which server has which slots, on which slots of Redis servers requests wait, and until when they may go on
//! without having heard. By files: the topology's, and one beside it that has the lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{
    Address, Epoch, GroupId,
    fence::{Cause, Fence},
    keeper::{Patience, Wanted},
    nodes,
};

use super::{Conductor, Event};
use crate::{clock::Clock, connection::Login, processes, proxy_link::ProxyLink};

/// How often a lease is written while it lasts.
const LEASES_AT_ONCE: u64 = 8;
/// How often a proxy is asked what it has done, in milliseconds.
const ASK_EACH_MS: u64 = 10;

/// What proxies were told, and who is asked what of it is done.
pub struct Fencing {
    /// What is held, and what is done.
    pub fence: Fence,
    links: BTreeMap<Address, ProxyLink>,
    /// The epoch and the orders that the file has.
    told: Option<(Epoch, u64)>,
    /// The masters of stores that it has as given up.
    given_up: BTreeSet<Address>,
    leased_at: Option<u64>,
    leased_stamp: u64,
}

impl Fencing {
    /// Nobody was told anything yet.
    #[must_use]
    pub fn new(patience: Patience, now: u64) -> Self {
        // Larger than those of any agent before this one.
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64);
        Self {
            fence: Fence::new((patience.lease_ms, patience.margin_ms), stamp, now),
            links: BTreeMap::new(),
            told: None,
            given_up: BTreeSet::new(),
            leased_at: None,
            leased_stamp: 0,
        }
    }

    /// The first slots of ranges on which requests wait because they move.
    #[must_use]
    pub fn held_for_moves(&self) -> Vec<u16> {
        self.fence
            .causes()
            .filter_map(|cause| if let Cause::Move(first) = cause { Some(first) } else { None })
            .collect()
    }

    /// Proxies have been told what is so by now.
    #[must_use]
    pub fn is_told(&self, epoch: Epoch) -> bool {
        self.told == Some((epoch, self.fence.stamp()))
    }
}

impl Conductor {
    fn has_redis(&self) -> bool {
        self.records.cluster.groups.values().any(|group| !group.kind().is_store())
    }

    /// Writes what proxies read, when it has changed, and the lease, when it is time.
    pub(super) fn tell_proxies(&mut self) {
        let epoch = self.records.cluster.epoch;
        if epoch == 0 {
            return;
        }
        let is_new_epoch = self.fencing.told.is_none_or(|(told, _)| told != epoch);
        if is_new_epoch && self.has_redis() {
            self.fencing.fence.renew();
        }
        let given_up = self.board.given_up();
        if !self.fencing.is_told(epoch) || self.fencing.given_up != given_up {
            let mut orders = self.fencing.fence.orders();
            orders.dead.extend(given_up.iter().cloned());
            if !self.has_redis() && orders.held.is_empty() {
                // Where there are no Redis servers nobody is ordered anything.
                orders.stamp = 0;
            }
            let text = nodes::render_file(&self.records.cluster, &orders);
            let path = self.options.folder.topology();
            match processes::replace_quickly(&path, text.as_bytes()) {
                Ok(()) => {
                    self.fencing.told = Some((epoch, self.fencing.fence.stamp()));
                    self.fencing.given_up = given_up;
                }
                Err(error) => self.note(&format!("{} cannot be written: {error}", path.display())),
            }
        }
        if self.has_redis() {
            self.write_lease();
            self.ask_proxies();
        }
    }

    fn write_lease(&mut self) {
        let now = self.now();
        let each = self.options.patience.lease_ms / LEASES_AT_ONCE;
        let fencing = &mut self.fencing;
        // A lease for orders that the file does not have yet would be nobody's.
        let is_told = fencing.told.is_some_and(|(_, stamp)| stamp == fencing.fence.stamp());
        let is_due =
            fencing.leased_at.is_none_or(|at| now >= at + each) || fencing.leased_stamp != fencing.fence.stamp();
        if !is_told || !is_due {
            return;
        }
        let (machine_now, (stamp, until)) = (Clock::machine_ms(), fencing.fence.lease(now));
        fencing.leased_at = Some(now);
        fencing.leased_stamp = stamp;
        let path = self.options.folder.topology().with_extension("lease");
        let text = format!("{stamp} {}\n", machine_now + until.saturating_sub(now));
        if let Err(error) = processes::replace_quickly(&path, text.as_bytes()) {
            self.note(&format!("{} cannot be written: {error}", path.display()));
        }
    }

    /// The proxies whose process runs here.
    fn running_proxies(&self) -> BTreeSet<Address> {
        let all = self.records.cluster.proxies.iter().map(|proxy| &proxy.address);
        all.filter(|address| self.processes.pid(address).is_some()).cloned().collect()
    }

    fn ask_proxies(&mut self) {
        let now = self.now();
        let running = self.running_proxies();
        self.fencing.links.retain(|proxy, _| running.contains(proxy));
        if self.fencing.fence.is_waiting() {
            for proxy in self.fencing.fence.late(&running) {
                if !self.fencing.links.contains_key(&proxy) {
                    let (sender, from) = (self.sender.clone(), proxy.clone());
                    // A proxy knows no terms.
                    let login = Login { term: None, ..self.login.clone() };
                    let report = move |done| sender.send(Event::Proxy(from.clone(), done)).is_ok();
                    match ProxyLink::start(proxy.clone(), login, report) {
                        Ok(link) => drop(self.fencing.links.insert(proxy.clone(), link)),
                        Err(error) => self.note(&format!("no thread for {proxy}: {error}")),
                    }
                }
                if let Some(link) = self.fencing.links.get_mut(&proxy).filter(|link| !link.is_busy)
                    && now >= link.asked_at + ASK_EACH_MS
                {
                    link.ask(now);
                }
            }
        }
        self.fencing.fence.look(now, &running);
    }

    /// A proxy has said which orders it has done, or does not answer.
    pub(super) fn handle_proxy(&mut self, proxy: &Address, done: Option<u64>) {
        if let Some(link) = self.fencing.links.get_mut(proxy) {
            link.is_busy = false;
        }
        if let Some(stamp) = done {
            self.fencing.fence.handle_done(proxy, stamp);
        }
    }

    /// Has requests to a group wait, or not, as its keeper wants it.
    pub(super) fn hold_group(&mut self, id: GroupId, wanted: Option<Wanted>) {
        let cause = Cause::Master(id);
        let Some(group) = self.records.cluster.groups.get(&id) else {
            self.fencing.fence.release(cause);
            return;
        };
        let Some(wanted) = wanted else {
            if self.fencing.fence.release(cause) {
                self.note(&format!("group {id}: requests wait no longer"));
            }
            return;
        };
        let dead = (wanted == Wanted::GivenUp).then(|| group.master.clone());
        let slots = self.records.cluster.slots.owned_by(id);
        if !self.fencing.fence.holds(cause) {
            let why = match wanted {
                Wanted::GivenUp => format!("{} is given up", group.master),
                Wanted::HandOver => "it gets another master".to_owned(),
            };
            self.note(&format!("group {id}: requests wait at the proxies: {why}"));
        }
        self.fencing.fence.hold(cause, slots, dead);
    }
}
