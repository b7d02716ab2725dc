//! What keepers and moves say is to be done, as commands to servers and records of the coordinator.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Address, GroupId, controller::Action, keeper::Step, nodes};

use super::Conductor;
use crate::{
    beginning::ELSEWHERE,
    connection::command,
    link::{Order, end_pause},
};

/// How many seconds a replica of a Redis may be silent and count for `min-replicas-to-write`.
const LAG_MAX_S: u32 = 5;

/// Orders for servers, gathered in a turn.
pub(super) type Orders = BTreeMap<Address, Vec<Order>>;

impl Conductor {
    /// Asks what is to be done, and has it done.
    pub(super) fn conduct(&mut self) {
        self.keep_links();
        let now = self.now();
        let epoch = self.records.cluster.epoch;
        let mut orders = Orders::new();
        let (mut decisions, mut wanted) = (Vec::new(), Vec::new());
        for action in self.controller.poll(now, self.records.known()) {
            match action {
                Action::Step(group, step @ (Step::WriteInSync(_) | Step::Elect { .. } | Step::Renew { .. })) => {
                    decisions.push((group, step));
                }
                Action::Step(group, step) => wanted.push((group, step)),
                Action::Unblock(server) => orders.entry(server).or_default().push(Order::Unblock),
                Action::Note(text) => self.note(&text),
                Action::Move(..) | Action::Problem(..) | Action::Waited(..) => {}
            }
        }
        for (group, step) in wanted {
            let is_store = self.records.cluster.groups.get(&group).is_some_and(|group| group.kind().is_store());
            match self.may_do(group, &step, now) {
                true if is_store => self.order(step, &mut orders),
                true => self.order_redis(step, &mut orders),
                false => {}
            }
        }
        self.conduct_moves(now, &mut orders);
        let servers: Vec<Address> = self.records.cluster.servers().map(|(_, server)| server.address.clone()).collect();
        for server in servers {
            let orders = orders.remove(&server).unwrap_or_default();
            self.begin_round(&server, orders, now);
        }
        let may_write = self.may_write(now);
        for (group, decision) in decisions {
            // What voters have promised is about the next change: after one of this turn nothing more is decided before they are asked again.
            let is_of_now = self.records.cluster.epoch == epoch;
            if is_of_now && may_write && self.may_do(group, &decision, now) {
                self.decide(group, decision);
            }
        }
        self.give_share(now);
        self.keep_pending(now);
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
            Step::Follow { server, master } => {
                // Its master is to know it by the name that the agent gives it.
                let (host, port) = (server.host().to_owned(), server.port().to_string());
                let known_as = ["CONFIG", "SET", "replica-announce-ip", &host, "replica-announce-port", &port];
                orders.entry(server.clone()).or_default().push(Order::Do(command(&known_as)));
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
            Step::Pause { server, ms, number } => {
                (server, Order::Pause { slots: (0, cluster::SLOTS - 1), ms, number, is_once: false })
            }
            Step::EndPause { server, number } => (server, end_pause(number)),
            Step::WriteInSync(_) | Step::Elect { .. } | Step::Renew { .. } => return,
        };
        orders.entry(server).or_default().push(order);
    }

    /// The same for a Redis.
    fn order_redis(&self, step: Step, orders: &mut Orders) {
        let set_least = |count: u32| {
            let (count, lag) = (count.to_string(), LAG_MAX_S.to_string());
            let least = Order::Do(command(&["CONFIG", "SET", "min-replicas-to-write", &count]));
            [Order::Do(command(&["CONFIG", "SET", "min-replicas-max-lag", &lag])), least]
        };
        let (server, todo) = match step {
            Step::Follow { server, master } => {
                let mut todo = Vec::new();
                // One that we have started has the cluster's password for that, which its master may not want.
                let is_ours =
                    self.records.cluster.servers().any(|(_, one)| one.address == server && one.host != ELSEWHERE);
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
                // What waited there is refused now, and goes to the new master.
                todo.push(Order::Do(command(&["CLIENT", "UNPAUSE"])));
                todo.extend(set_least(0));
                (server, todo)
            }
            Step::Promote { server } => {
                let mut todo: Vec<Order> = set_least(0).into();
                todo.push(Order::Do(command(&["REPLICAOF", "NO", "ONE"])));
                (server, todo)
            }
            Step::Count { server, count, .. } => (server, set_least(count.ack).into()),
            Step::Pause { server, ms, number } => {
                (server, vec![Order::Pause { slots: (0, cluster::SLOTS - 1), ms, number, is_once: false }])
            }
            Step::EndPause { server, .. } => (server, vec![Order::Once(command(&["CLIENT", "UNPAUSE"]))]),
            Step::Tell { .. } | Step::Renew { .. } | Step::WriteInSync(_) | Step::Elect { .. } => return,
        };
        orders.entry(server).or_default().extend(todo);
    }

    fn decide(&mut self, group: GroupId, decision: Step) {
        let done = match decision {
            Step::WriteInSync(in_sync) => {
                let names: Vec<String> = in_sync.members.iter().map(ToString::to_string).collect();
                let names = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
                let text = format!("group {group}: in sync with its master: {names}");
                self.records.write_in_sync(group, in_sync).map(|()| text)
            }
            Step::Elect { master, reason } => {
                let what = format!("group {group}: {master} is the master: {reason}");
                let failover = self.failover_of(group);
                let next = self.records.cluster.with_master(group, &master).map_err(Into::into);
                let done = next.and_then(|next| self.records.change(next, "failover", &what)).map(|()| what);
                if done.is_ok() {
                    self.pending.done(&failover);
                    // Who hands over sends clients to its successor: that one is to know before.
                    let now = self.now();
                    let epoch = self.records.cluster.epoch;
                    self.controller.tell_first([master], epoch, now);
                }
                done
            }
            Step::Renew { reason } => {
                let what = format!("group {group}: {reason}");
                let next = self.records.cluster.renewed();
                self.records.change(next, "failover", &what).map(|()| what)
            }
            _ => return,
        };
        match done {
            Ok(text) => self.note(&text),
            Err(error) => {
                self.note(&format!("group {group}: nothing is decided: {error}"));
                self.not_written(&error);
            }
        }
    }
}
