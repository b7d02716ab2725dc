//! What proxies are told: which server has which slots, on which slots of Redis servers requests wait, and until when they may go on
//! without having heard. By files: the topology's, and one beside it that has the lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{Address, Epoch, fence::Fence, keeper::Patience, nodes};

use super::{Conductor, Event};
use crate::{clock::Clock, connection::Login, processes, proxy_link::ProxyLink};

/// How often a lease is written while it lasts.
const LEASES_AT_ONCE: u64 = 8;
/// How often a proxy is asked what it has done, in milliseconds.
const ASK_EACH_MS: u64 = 10;

/// What proxies were told, and who is asked what of it is done.
#[derive(Default)]
pub struct Fencing {
    links: BTreeMap<Address, ProxyLink>,
    /// The epoch and the orders that the file has.
    told: Option<(Epoch, u64)>,
    /// The masters of stores that it has as given up.
    given_up: BTreeSet<Address>,
    leased_at: Option<u64>,
    leased_stamp: u64,
}

/// What is to be held, of an agent that has just begun: nothing yet.
pub(super) fn new_fence(patience: Patience, now: u64) -> Fence {
    // Larger than those of any agent before this one.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64);
    Fence::new((patience.lease_ms, patience.margin_ms), stamp, now)
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
            self.controller.fence.renew();
        }
        let given_up = self.board.given_up();
        if self.fencing.told != Some((epoch, self.controller.fence.stamp())) || self.fencing.given_up != given_up {
            let mut orders = self.controller.fence.orders();
            orders.dead.extend(given_up.iter().cloned());
            if !self.has_redis() && orders.held.is_empty() {
                // Where there are no Redis servers nobody is ordered anything.
                orders.stamp = 0;
            }
            let text = nodes::render_file(&self.records.cluster, &orders);
            let path = self.options.folder.topology();
            match processes::replace_quickly(&path, text.as_bytes()) {
                Ok(()) => {
                    self.fencing.told = Some((epoch, self.controller.fence.stamp()));
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
        let (fencing, fence) = (&mut self.fencing, &mut self.controller.fence);
        // A lease for orders that the file does not have yet would be nobody's.
        let is_told = fencing.told.is_some_and(|(_, stamp)| stamp == fence.stamp());
        let is_due = fencing.leased_at.is_none_or(|at| now >= at + each) || fencing.leased_stamp != fence.stamp();
        if !is_told || !is_due {
            return;
        }
        let (machine_now, (stamp, until)) = (Clock::machine_ms(), fence.lease(now));
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
        if self.controller.fence.is_waiting() {
            for proxy in self.controller.fence.late(&running) {
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
        self.controller.fence.look(now, &running);
    }

    /// A proxy has said which orders it has done, or does not answer.
    pub(super) fn handle_proxy(&mut self, proxy: &Address, done: Option<u64>) {
        if let Some(link) = self.fencing.links.get_mut(proxy) {
            link.is_busy = false;
        }
        if let Some(stamp) = done {
            self.controller.fence.handle_done(proxy, stamp);
        }
    }
}
