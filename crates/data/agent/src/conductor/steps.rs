//! What the controller says is to be done, as commands to servers and records of the coordinator.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{
    Address, Epoch,
    controller::{Action, Decision, pending::Moment},
    keeper::{RedisOrder, Step},
    nodes,
};

use super::{Conductor, policy::date_ms, requests};
use crate::{
    beginning::ELSEWHERE,
    connection::command,
    link::{Order, end_pause},
};

/// Orders for servers, gathered in a turn.
pub(super) type Orders = BTreeMap<Address, Vec<Order>>;

impl Conductor {
    /// Asks what is to be done, and has it done.
    pub(super) fn conduct(&mut self) {
        self.keep_links();
        let now = self.now();
        self.look_at_copies(now);
        let (mut orders, epoch) = (Orders::new(), self.records.cluster.epoch);
        self.tell_settings(&mut orders);
        let mut may_write = true;
        for action in self.controller.poll(self.moment(), self.records.known()) {
            match action {
                Action::Write(decision) => may_write = may_write && self.write(&decision, epoch),
                action => self.carry_out(action, &mut orders),
            }
        }
    }

    /// The time.
    pub(super) fn moment(&self) -> Moment {
        Moment { now: self.now(), date: date_ms() }
    }

    fn carry_out(&mut self, action: Action, orders: &mut Orders) {
        match action {
            Action::Step(group, step) => {
                let is_store = self.records.cluster.groups.get(&group).is_some_and(|group| group.kind().is_store());
                if is_store { self.order(step, orders) } else { self.order_redis(&step, orders) }
            }
            Action::Unblock(server) => orders.entry(server).or_default().push(Order::Unblock),
            Action::PauseSlots { server, slots, ms, number } => {
                let pause = Order::Pause { slots: (slots.first, slots.last), ms, number };
                orders.entry(server).or_default().push(pause);
            }
            Action::EndPause { server, number } => orders.entry(server).or_default().push(end_pause(number)),
            Action::Clear { server, slots, count, cursor } => {
                let clear = Order::Clear { slots: (slots.first, slots.last), count, cursor };
                orders.entry(server).or_default().push(clear);
            }
            Action::StartCopy { number, what, source, target } => self.start_copy(number, what, (source, target)),
            Action::StopCopy(number) => self.stop_copy(number),
            Action::SetPaused { number, is_paused } => {
                if let Some(copy) = self.copies.get_mut(&number) {
                    copy.set_paused(is_paused);
                }
            }
            Action::SetRate { number, bytes_per_second } => {
                if let Some(copy) = self.copies.get_mut(&number) {
                    copy.set_rate(bytes_per_second);
                }
            }
            Action::Ask { server, wants_figures } => {
                let mut orders = orders.remove(&server).unwrap_or_default();
                orders.extend(wants_figures.then_some(Order::Figures));
                if !self.links.begin(&server, orders) {
                    self.controller.handle_round(&server, false);
                }
            }
            Action::SpreadSlots => requests::spread_slots(self),
            Action::Note(text) => self.note(&text),
            Action::Write(_) => {}
        }
    }

    /// Writes what was decided in an epoch. Says whether the next decision may be written: not once one could not be.
    fn write(&mut self, decision: &Decision, epoch: Epoch) -> bool {
        if self.records.cluster.epoch != epoch {
            return false;
        }
        let (cluster, mut text) = (&self.records.cluster, decision.text(&self.records.cluster));
        if let Decision::Master { .. } = decision {
            let host = self.options.host_name();
            let address = cluster.address_of(host).unwrap_or(&self.options.host);
            text.push_str(&format!(" (decided by the agent of host {host}, {address})"));
        }
        let written = match (decision, decision.applied(cluster)) {
            (_, Err(refusal)) => {
                self.note(&format!("{}: nothing is decided: {refusal}", decision.about()));
                return true;
            }
            (Decision::Readdress(new), Ok(Some(next))) => {
                let in_sync = decision.in_sync_after(cluster, self.records.in_sync_all());
                let (known, renamed) = (self.records.known().pending, cluster.renamed(new));
                let pending = Some(known.readdressed(|address| renamed.of(address))).filter(|pending| pending != known);
                self.records.change_with(next, in_sync, pending, (decision.cause(), &text))
            }
            (_, Ok(Some(next))) => self.records.change(next, decision.cause(), &text),
            (Decision::InSync(group, in_sync), Ok(None)) => self.records.write_in_sync(*group, in_sync.clone()),
            (Decision::Pending(record), Ok(None)) => self.records.write_pending(record.clone()),
            (_, Ok(None)) => Ok(()),
        };
        match written {
            Ok(()) => {
                if !matches!(decision, Decision::Pending(_)) {
                    self.note(&text);
                }
                let now = self.now();
                self.controller.handle_written(&self.records.cluster, decision, now);
                true
            }
            Err(error) => {
                self.note(&format!("{}: nothing is decided: {error}", decision.about()));
                self.not_written(&error);
                false
            }
        }
    }

    fn order(&self, step: Step, orders: &mut Orders) {
        let (server, order) = match step {
            Step::Tell { server } => {
                let cluster = &self.records.cluster;
                let text = nodes::render(cluster, Some(&server), &BTreeSet::new());
                // No vote, but from now on it needs those of most voters.
                let (epoch, voters) = (cluster.epoch.to_string(), cluster.voters().join(","));
                let mut words = command(&["CLUSTER", "TOPOLOGY", &epoch, &text, "LEASE", "0", "VOTERS", &voters]);
                if cluster.servers().any(|(_, known)| known.address == server && known.host.is_empty()) {
                    // Nobody has started it with that.
                    words.extend(command(&["AGENT", &self.socket()]));
                }
                (server, Order::Do(words))
            }
            Step::Follow { server, master, since, keeps } => {
                // Its master is to know it by the name that the agent gives it.
                let (host, port) = (server.host().to_owned(), server.port().to_string());
                let known_as = ["CONFIG", "SET", "replica-announce-ip", &host, "replica-announce-port", &port];
                let since = since.to_string();
                let keep = keeps.then_some("KEEP");
                let id = self.records.cluster.servers().find(|(_, known)| known.address == master);
                let node = id.map(|(_, known)| ["NODE", &known.id]).into_iter().flatten();
                let head = ["CLUSTER", "CONNECTION", "MASTER", &since];
                let said: Vec<&str> = head.into_iter().chain(keep).chain(node).collect();
                let todo = orders.entry(server.clone()).or_default();
                todo.extend([Order::Do(command(&known_as)), Order::Do(command(&said))]);
                let words = ["REPLICAOF", master.host(), &master.port().to_string()];
                (server, Order::Do(command(&words)))
            }
            Step::Promote { server } => (server, Order::Do(command(&["REPLICAOF", "NO", "ONE"]))),
            Step::Count { server, serial, count } => {
                let term = self.controller.term().unwrap_or(0).to_string();
                let mut words = command(&["CLUSTER", "ACK", &term, &serial.to_string(), &count.ack.to_string()]);
                words.extend(count.members.iter().map(ToString::to_string));
                (server, Order::Do(words))
            }
            Step::Pause { server, ms, number } => (server, Order::Pause { slots: (0, cluster::SLOTS - 1), ms, number }),
            Step::EndPause { server, number } => (server, end_pause(number)),
            Step::WriteInSync(_) | Step::Elect { .. } | Step::Renew { .. } => return,
        };
        orders.entry(server).or_default().push(order);
    }

    /// The same for a Redis.
    fn order_redis(&self, step: &Step, orders: &mut Orders) {
        let Some((server, told)) = RedisOrder::of(step) else { return };
        let own = self.records.cluster.servers().find(|(_, one)| one.address == *server);
        // One that we have started has the cluster's password, which its master may not want.
        let is_ours = own.is_some_and(|(_, one)| one.host != ELSEWHERE);
        let todo = orders.entry(server.clone()).or_default();
        for order in told {
            match order {
                RedisOrder::NeedReplicas { count, lag_s } => {
                    let (count, lag) = (count.to_string(), lag_s.to_string());
                    todo.push(Order::Do(command(&["CONFIG", "SET", "min-replicas-max-lag", &lag])));
                    todo.push(Order::Do(command(&["CONFIG", "SET", "min-replicas-to-write", &count])));
                }
                RedisOrder::Follow(master) => {
                    let (user, password) = match self.credentials.of(&master) {
                        Some(known) => (known.user.as_deref(), Some(known.password.as_str())),
                        None => (None, is_ours.then_some("")),
                    };
                    if let Some(user) = user {
                        todo.push(Order::Do(command(&["CONFIG", "SET", "masteruser", user])));
                    }
                    if let Some(password) = password {
                        todo.push(Order::Do(command(&["CONFIG", "SET", "masterauth", password])));
                    }
                    todo.push(Order::Do(command(&["REPLICAOF", master.host(), &master.port().to_string()])));
                }
                RedisOrder::FollowNobody => todo.push(Order::Do(command(&["REPLICAOF", "NO", "ONE"]))),
                RedisOrder::Pause { ms, number } => {
                    todo.push(Order::Pause { slots: (0, cluster::SLOTS - 1), ms, number });
                }
                RedisOrder::EndPause => todo.push(Order::Do(command(&["CLIENT", "UNPAUSE"]))),
            }
        }
    }
}
