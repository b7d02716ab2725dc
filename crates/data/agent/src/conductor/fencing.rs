//! Tells proxies what [`cluster::controller`] has for them: by files, the topology's and one beside it that has the lease. A thread for each
//! proxy asks what it has done.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{
    Address,
    controller::{ProxiesSeen, ProxyAction},
    fence::Fence,
    keeper::Patience,
    nodes,
};

use super::{Conductor, Event};
use crate::{connection::Login, processes, proxy_link::ProxyLink};

/// Who is asked what proxies have done.
#[derive(Default)]
pub struct Fencing {
    links: BTreeMap<Address, ProxyLink>,
}

/// What is to be held, of an agent that has just begun: nothing yet.
pub(super) fn new_fence(patience: Patience, now: u64) -> Fence {
    // Larger than those of any agent before this one.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64);
    Fence::new((patience.lease_ms, patience.margin_ms), stamp, now)
}

impl Conductor {
    /// Does what is to be done about proxies now: writes what they read, and asks them.
    pub(super) fn tell_proxies(&mut self) {
        let (running, given_up) = (self.running_proxies(), self.board.given_up());
        let cluster = Arc::clone(&self.records.shared);
        let seen = ProxiesSeen { running: &running, given_up: &given_up };
        self.fencing.links.retain(|proxy, _| running.contains(proxy));
        let now = self.now();
        while let Some(action) = self.controller.poll_proxies(now, &cluster, seen) {
            match action {
                ProxyAction::WriteOrders(orders) => {
                    let text = nodes::render_file(&cluster, &orders);
                    if !self.let_proxies_read(&self.options.folder.topology(), &text) {
                        // They are written in the next turn.
                        return;
                    }
                    self.controller.handle_orders_written(&cluster, &given_up);
                }
                ProxyAction::WriteLease { stamp, until } => {
                    let text = format!("{stamp} {}\n", self.clock.machine_ms_at(until));
                    self.let_proxies_read(&self.options.folder.topology().with_extension("lease"), &text);
                }
                ProxyAction::Ask(proxy) => self.ask_proxy(&proxy),
            }
        }
    }

    fn let_proxies_read(&mut self, path: &Path, text: &str) -> bool {
        let written = processes::replace_quickly(path, text.as_bytes());
        if let Err(error) = &written {
            self.note(&format!("{} cannot be written: {error}", path.display()));
        }
        written.is_ok()
    }

    /// The proxies whose process runs here.
    fn running_proxies(&self) -> BTreeSet<Address> {
        let all = self.records.cluster.proxies.iter().map(|proxy| &proxy.address);
        all.filter(|address| self.processes.pid(address).is_some()).cloned().collect()
    }

    fn ask_proxy(&mut self, proxy: &Address) {
        if !self.fencing.links.contains_key(proxy) {
            let (sender, from) = (self.sender.clone(), proxy.clone());
            // A proxy knows no terms.
            let login = Login { term: None, ..self.login.clone() };
            let report = move |done| sender.send(Event::Proxy(from.clone(), done)).is_ok();
            match ProxyLink::start(proxy.clone(), login, report) {
                Ok(link) => drop(self.fencing.links.insert(proxy.clone(), link)),
                Err(error) => self.note(&format!("no thread for {proxy}: {error}")),
            }
        }
        if let Some(link) = self.fencing.links.get_mut(proxy) {
            link.ask();
        }
    }
}
