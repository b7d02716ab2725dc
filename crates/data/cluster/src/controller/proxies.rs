//! What the proxies of a host are told, by whoever leads and whoever does not: which server has which slots, what requests wait for, whom
//! nobody waits for, and, where there are Redis servers, a lease that says until when they may go on without having heard.
//!
//! A lease is for orders that the proxies can read: it is not written before these are, and anew with each new ones.

use std::collections::{BTreeMap, BTreeSet};

use super::Controller;
use crate::{
    fence::Orders,
    model::{Address, Cluster, Epoch},
};

/// So many leases are written while one lasts.
const LEASES_AT_ONCE: u64 = 8;
/// How often a proxy is asked what it has done, in milliseconds.
const ASK_EACH_MS: u64 = 10;
/// A question that has not been answered for so long is not waited for, in milliseconds.
const ANSWER_MS: u64 = 1_000;

/// What is to be done about proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyAction {
    /// Let them read the cluster and these orders; then [`Controller::handle_orders_written`].
    WriteOrders(Orders),
    /// Let them read a lease: for whoever has orders of this stamp or later ones, until this time of the controller's clock.
    WriteLease {
        /// Which orders.
        stamp: u64,
        /// Until when.
        until: u64,
    },
    /// Ask a proxy which orders it has done; then [`Controller::handle_proxy`].
    Ask(Address),
}

/// What is seen of the proxies of this host.
#[derive(Clone, Copy, Debug)]
pub struct ProxiesSeen<'a> {
    /// Those whose process runs.
    pub running: &'a BTreeSet<Address>,
    /// Servers that whoever leads has given up, and that are no masters.
    pub given_up: &'a BTreeSet<Address>,
}

/// What they were told, and who is asked what of it is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The epoch, the orders, and whom they have as given up.
    orders: Option<(Epoch, u64, BTreeSet<Address>)>,
    /// The epoch for which orders got another stamp.
    renewed_for: Option<Epoch>,
    leased_at: Option<u64>,
    leased_stamp: u64,
    /// When each was asked that has not answered.
    waited_for: BTreeMap<Address, u64>,
    /// When each was asked last.
    asked_at: BTreeMap<Address, u64>,
}

impl Controller {
    /// What is to be done next about proxies; nothing: no more now. `cluster` is the record as it is known, whoever leads.
    pub fn poll_proxies(&mut self, now: u64, cluster: &Cluster, seen: ProxiesSeen<'_>) -> Option<ProxyAction> {
        if cluster.epoch == 0 {
            return None;
        }
        let has_redis = cluster.groups.values().any(|group| !group.kind().is_store());
        if has_redis && self.told.renewed_for != Some(cluster.epoch) {
            self.told.renewed_for = Some(cluster.epoch);
            self.fence.renew();
        }
        let told = &self.told.orders;
        let is_told =
            told.as_ref().is_some_and(|(epoch, stamp, _)| (*epoch, *stamp) == (cluster.epoch, self.fence.stamp()));
        if !is_told || told.as_ref().is_some_and(|(_, _, given_up)| given_up != seen.given_up) {
            let mut orders = self.fence.orders();
            orders.dead.extend(seen.given_up.iter().cloned());
            if !has_redis && orders.held.is_empty() {
                // Where there are no Redis servers nobody is ordered anything.
                orders.stamp = 0;
            }
            return Some(ProxyAction::WriteOrders(orders));
        }
        if !has_redis {
            return None;
        }
        self.poll_lease(now).or_else(|| self.poll_question(now, seen.running))
    }

    /// The proxies can read the orders of now, with those that were given up.
    pub fn handle_orders_written(&mut self, cluster: &Cluster, given_up: &BTreeSet<Address>) {
        self.told.orders = Some((cluster.epoch, self.fence.stamp(), given_up.clone()));
    }

    fn poll_lease(&mut self, now: u64) -> Option<ProxyAction> {
        let each = self.patience.lease_ms / LEASES_AT_ONCE;
        let is_due =
            self.told.leased_at.is_none_or(|at| now >= at + each) || self.told.leased_stamp != self.fence.stamp();
        if !is_due {
            return None;
        }
        let (stamp, until) = self.fence.lease(now);
        (self.told.leased_at, self.told.leased_stamp) = (Some(now), stamp);
        Some(ProxyAction::WriteLease { stamp, until })
    }

    fn poll_question(&mut self, now: u64, running: &BTreeSet<Address>) -> Option<ProxyAction> {
        self.told.waited_for.retain(|proxy, at| running.contains(proxy) && now < *at + ANSWER_MS);
        self.told.asked_at.retain(|proxy, _| running.contains(proxy));
        if self.fence.is_waiting() {
            let late = self.fence.late(running);
            let may_ask = |proxy: &&Address| {
                let is_due = self.told.asked_at.get(*proxy).is_none_or(|at| now >= at + ASK_EACH_MS);
                is_due && !self.told.waited_for.contains_key(*proxy)
            };
            if let Some(proxy) = late.iter().find(may_ask).cloned() {
                self.told.waited_for.insert(proxy.clone(), now);
                self.told.asked_at.insert(proxy.clone(), now);
                return Some(ProxyAction::Ask(proxy));
            }
        }
        self.fence.look(now, running);
        None
    }

    /// A proxy has said which orders it has done; nothing: it does not answer.
    pub fn handle_proxy(&mut self, proxy: &Address, done: Option<u64>, now: u64) {
        self.told.waited_for.remove(proxy);
        if let Some(stamp) = done {
            self.fence.handle_done(proxy, stamp, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::{redis, two_groups},
        fence::{Cause, Fence},
        keeper::Patience,
    };

    fn address(port: u16) -> Address {
        Address::new("h", port)
    }

    /// All that is to be done now, with the orders read at once.
    fn all(controller: &mut Controller, now: u64, cluster: &Cluster, running: &BTreeSet<Address>) -> Vec<ProxyAction> {
        let given_up = BTreeSet::new();
        let seen = ProxiesSeen { running, given_up: &given_up };
        let mut actions = Vec::new();
        while let Some(action) = controller.poll_proxies(now, cluster, seen) {
            if matches!(action, ProxyAction::WriteOrders(_)) {
                controller.handle_orders_written(cluster, &given_up);
            }
            actions.push(action);
        }
        actions
    }

    fn controller() -> Controller {
        Controller::new("h", Patience::default(), Fence::new((1_500, 100), 1_000, 0))
    }

    #[test]
    fn orders_come_before_their_lease_and_a_hold_has_proxies_asked() {
        let cluster = two_groups().with_group(3, vec![redis(7)], 0).unwrap();
        let (mut controller, running) = (controller(), BTreeSet::from([address(1), address(2)]));
        let stamps = |actions: &[ProxyAction]| {
            let told = |action: &ProxyAction| match action {
                ProxyAction::WriteOrders(orders) => format!("orders {}", orders.stamp),
                ProxyAction::WriteLease { stamp, until } => format!("lease {stamp} {until}"),
                ProxyAction::Ask(proxy) => format!("ask {proxy}"),
            };
            actions.iter().map(told).collect::<Vec<_>>()
        };
        assert_eq!(stamps(&all(&mut controller, 0, &cluster, &running)), ["orders 1001", "lease 1001 1500"]);
        assert_eq!(stamps(&all(&mut controller, 100, &cluster, &running)), Vec::<String>::new());
        assert_eq!(stamps(&all(&mut controller, 187, &cluster, &running)), ["lease 1001 1687"]);
        controller.fence.hold(Cause::Move(5), vec![], None);
        let told = stamps(&all(&mut controller, 190, &cluster, &running));
        assert_eq!(told, ["orders 1002", "lease 1002 1690", "ask h:1", "ask h:2"]);
        // Who has not answered is not asked again.
        controller.handle_proxy(&address(1), Some(1_001), 192);
        assert_eq!(stamps(&all(&mut controller, 199, &cluster, &running)), Vec::<String>::new());
        assert_eq!(stamps(&all(&mut controller, 200, &cluster, &running)), ["ask h:1"]);
        controller.handle_proxy(&address(1), Some(1_002), 205);
        controller.handle_proxy(&address(2), Some(1_002), 205);
        assert_eq!(stamps(&all(&mut controller, 210, &cluster, &running)), Vec::<String>::new());
        assert_eq!(controller.fence.done_at(Cause::Move(5)), Some(210));
    }

    #[test]
    fn orders_that_cannot_be_written_get_no_lease() {
        let cluster = two_groups().with_group(3, vec![redis(7)], 0).unwrap();
        let (mut controller, none) = (controller(), BTreeSet::new());
        let seen = ProxiesSeen { running: &none, given_up: &none };
        for now in [0, 10, 5_000] {
            let action = controller.poll_proxies(now, &cluster, seen);
            assert!(matches!(action, Some(ProxyAction::WriteOrders(Orders { stamp: 1_001, .. }))), "{action:?}");
        }
    }

    #[test]
    fn where_no_redis_is_nobody_gets_orders_or_leases() {
        let (cluster, mut controller, none) = (two_groups(), controller(), BTreeSet::new());
        let actions = all(&mut controller, 0, &cluster, &none);
        assert!(matches!(actions.as_slice(), [ProxyAction::WriteOrders(Orders { stamp: 0, .. })]), "{actions:?}");
        let given_up = BTreeSet::from([address(3)]);
        let seen = ProxiesSeen { running: &none, given_up: &given_up };
        let action = controller.poll_proxies(1, &cluster, seen);
        assert!(matches!(action, Some(ProxyAction::WriteOrders(orders)) if orders.dead == given_up));
        assert_eq!(controller.poll_proxies(1, &Cluster::default(), seen), None);
    }
}
