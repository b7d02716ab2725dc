//! What proxies may send to a Redis. It knows no epoch: what reaches it is done. So before slots get another server, or a group another
//! master, the proxies are told to hold requests on these slots, and are waited for:
//!
//! ```text
//! hold -> every proxy has done the order, or does not answer and the lease that it may still have is over -> the change -> release
//! ```
//!
//! A proxy that answers is waited for, whatever its lease: it has read the order, and still has requests of before under way. Such a
//! request would be answered as if nothing had changed.
//!
//! The lease is for whoever has the last orders, so it goes on for those that answer while one that does not runs out of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{Address, GroupId},
    slots::SlotRange,
};

/// What proxies are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Later orders have larger numbers.
    pub stamp: u64,
    /// Slots on which requests wait.
    pub held: Vec<SlotRange>,
    /// Servers that are given up: connections to them are closed.
    pub dead: BTreeSet<Address>,
}

/// What slots are held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The group gets another master.
    Master(GroupId),
    /// The range that begins with this slot moves.
    Move(u16),
}

#[derive(Clone, Debug)]
struct Hold {
    slots: Vec<SlotRange>,
    dead: Option<Address>,
    /// The first orders that it is in.
    stamp: u64,
    /// Since when all proxies are known to have done it.
    done_at: Option<u64>,
}

/// What proxies were told, what they have done of it, and until when they may go on without having heard.
#[derive(Clone, Debug)]
pub struct Fence {
    lease_ms: u64,
    margin_ms: u64,
    stamp: u64,
    holds: BTreeMap<Cause, Hold>,
    /// The last lease of each of the last orders: stamp and end.
    leases: BTreeMap<u64, u64>,
    /// What each proxy has done, and when it said so.
    done: BTreeMap<Address, (u64, u64)>,
}

impl Fence {
    /// Nothing is held. `first_stamp` is above all that were given before: a time will do. What was leased before is not known, so it
    /// is taken for a whole lease.
    #[must_use]
    pub fn new((lease_ms, margin_ms): (u64, u64), first_stamp: u64, now: u64) -> Self {
        let leases = BTreeMap::from([(0, now + lease_ms)]);
        Self { lease_ms, margin_ms, stamp: first_stamp, holds: BTreeMap::new(), leases, done: BTreeMap::new() }
    }

    /// The orders of now.
    #[must_use]
    pub fn orders(&self) -> Orders {
        let held = self.holds.values().flat_map(|hold| hold.slots.iter().copied()).collect();
        let dead = self.holds.values().filter_map(|hold| hold.dead.clone()).collect();
        Orders { stamp: self.stamp, held, dead }
    }

    /// Which orders these are.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The cluster has changed, so proxies are told anew.
    pub fn renew(&mut self) {
        self.stamp += 1;
    }

    /// Has requests on slots wait; `dead` is a server that is given up. Says nothing new if they do already.
    pub fn hold(&mut self, cause: Cause, slots: Vec<SlotRange>, dead: Option<Address>) {
        if self.holds.get(&cause).is_some_and(|hold| hold.slots == slots && hold.dead == dead) {
            return;
        }
        self.stamp += 1;
        self.holds.insert(cause, Hold { slots, dead, stamp: self.stamp, done_at: None });
    }

    /// Has them wait no longer; says whether they did.
    pub fn release(&mut self, cause: Cause) -> bool {
        let was_held = self.holds.remove(&cause).is_some();
        if was_held {
            self.stamp += 1;
        }
        was_held
    }

    /// Whether requests wait for this.
    #[must_use]
    pub fn holds(&self, cause: Cause) -> bool {
        self.holds.contains_key(&cause)
    }

    /// What requests wait for.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        self.holds.keys().copied()
    }

    /// Whether somebody waits until proxies have done an order.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.holds.values().any(|hold| hold.done_at.is_none())
    }

    /// A lease that is to be written now: for which orders, and until when.
    pub fn lease(&mut self, now: u64) -> (u64, u64) {
        let until = now + self.lease_ms;
        self.leases.insert(self.stamp, until);
        (self.stamp, until)
    }

    /// A proxy has done all orders up to this one.
    pub fn handle_done(&mut self, proxy: &Address, stamp: u64, now: u64) {
        self.done.insert(proxy.clone(), (stamp, now));
    }

    /// Looks who has done what. `proxies` are those that run.
    pub fn look(&mut self, now: u64, proxies: &BTreeSet<Address>) {
        self.done.retain(|proxy, _| proxies.contains(proxy));
        let patience = self.lease_ms + self.margin_ms;
        for hold in self.holds.values_mut().filter(|hold| hold.done_at.is_none()) {
            // Who has not heard of it has one of the leases before.
            let before = self.leases.range(..hold.stamp).map(|(_, until)| *until).max().unwrap_or(0);
            let is_over = now >= before + self.margin_ms;
            let has_done = |proxy: &Address| {
                let said = self.done.get(proxy);
                let is_silent = said.is_none_or(|(_, at)| now >= at + patience);
                said.is_some_and(|(stamp, _)| *stamp >= hold.stamp) || (is_over && is_silent)
            };
            if proxies.iter().all(has_done) {
                hold.done_at = Some(now);
            }
        }
        self.leases.retain(|stamp, until| *stamp == self.stamp || now < *until + self.margin_ms);
    }

    /// Since when no proxy sends anything to the slots' server any more.
    #[must_use]
    pub fn done_at(&self, cause: Cause) -> Option<u64> {
        self.holds.get(&cause)?.done_at
    }

    /// The proxies that have not done the last orders.
    #[must_use]
    pub fn late(&self, proxies: &BTreeSet<Address>) -> Vec<Address> {
        let is_late = |proxy: &&Address| self.done.get(*proxy).is_none_or(|(stamp, _)| *stamp < self.stamp);
        proxies.iter().filter(is_late).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(ports: &[u16]) -> BTreeSet<Address> {
        ports.iter().map(|port| Address::new("h", *port)).collect()
    }

    #[test]
    fn a_hold_waits_for_every_proxy_or_for_the_end_of_its_lease() {
        let mut fence = Fence::new((1_500, 100), 1_000, 0);
        let all = proxies(&[1, 2]);
        assert_eq!(fence.lease(0), (1_000, 1_500));
        fence.hold(Cause::Move(5), vec![SlotRange::new(5, 9).unwrap()], None);
        assert_eq!(fence.orders().stamp, 1_001);
        // The lease goes on for whoever has heard.
        assert_eq!(fence.lease(1_000), (1_001, 2_500));
        fence.look(1_000, &all);
        assert_eq!(fence.done_at(Cause::Move(5)), None);
        fence.handle_done(&Address::new("h", 1), 1_001, 1_000);
        fence.look(1_100, &all);
        assert_eq!((fence.done_at(Cause::Move(5)), fence.late(&all)), (None, vec![Address::new("h", 2)]));
        // The second one does not answer: what it may have is the lease before.
        fence.look(1_599, &all);
        assert_eq!(fence.done_at(Cause::Move(5)), None);
        fence.look(1_600, &all);
        assert_eq!(fence.done_at(Cause::Move(5)), Some(1_600));
        // With both having heard nothing is waited for.
        fence.hold(Cause::Master(1), vec![], Some(Address::new("h", 7)));
        fence.lease(1_700);
        for port in [1, 2] {
            fence.handle_done(&Address::new("h", port), 1_002, 1_700);
        }
        fence.look(1_701, &all);
        assert_eq!(fence.done_at(Cause::Master(1)), Some(1_701));
        assert!(fence.release(Cause::Move(5)) && !fence.release(Cause::Move(5)));
        assert_eq!(fence.orders().held, vec![]);
        assert_eq!(fence.orders().stamp, 1_003);
    }

    #[test]
    fn a_proxy_that_answers_is_waited_for_beyond_its_lease() {
        let mut fence = Fence::new((1_500, 100), 1_000, 0);
        let (all, cause) = (proxies(&[1]), Cause::Move(5));
        fence.lease(0);
        fence.hold(cause, vec![], None);
        // It has requests of before under way.
        for now in (0..5_000).step_by(500) {
            fence.lease(now);
            fence.handle_done(&Address::new("h", 1), 1_000, now);
            fence.look(now, &all);
            assert_eq!(fence.done_at(cause), None, "{now}");
        }
        // It says nothing more, and has no lease either by then.
        fence.look(6_099, &all);
        assert_eq!(fence.done_at(cause), None);
        fence.look(6_100, &all);
        assert_eq!(fence.done_at(cause), Some(6_100));
    }

    #[test]
    fn an_agent_that_has_just_begun_waits_for_leases_of_the_one_before() {
        let mut fence = Fence::new((1_500, 100), 1_000, 50);
        fence.hold(Cause::Move(5), vec![], None);
        fence.lease(60);
        fence.look(1_649, &proxies(&[1]));
        assert_eq!(fence.done_at(Cause::Move(5)), None);
        fence.look(1_650, &proxies(&[1]));
        assert_eq!(fence.done_at(Cause::Move(5)), Some(1_650));
        // Where no proxy runs nobody has to hear.
        fence.hold(Cause::Move(6), vec![], None);
        fence.look(1_651, &proxies(&[]));
        assert_eq!(fence.done_at(Cause::Move(6)), Some(1_651));
    }
}
