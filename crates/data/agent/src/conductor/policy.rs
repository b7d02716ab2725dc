//! The cluster's policy, between what is decided and what is done: some of it waits for a person, some is left to one.

use cluster::{
    Address, GroupId,
    keeper::Step,
    policy::{Action, Mode},
};
use serde_json::Value;

use super::{Conductor, pending::Subject, requests, status};

impl Conductor {
    /// The whole path of the agent's socket.
    pub(super) fn socket(&self) -> String {
        let path = self.options.folder.socket();
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    /// What waits for a person, for people and programs.
    #[must_use]
    pub fn shown_pending(&self) -> Value {
        let policy = self.records.cluster.policy;
        self.pending.shown(|action| policy.mode(action), self.now())
    }

    fn admits(&mut self, subject: Subject, what: &str, now: u64) -> bool {
        let mode = self.records.cluster.policy.mode(subject.action);
        let (may, is_new) = self.pending.admits(mode, subject, what, now);
        if is_new && mode == Mode::Ask {
            self.note(&format!("this waits for a person (`tidegate cluster action pending`): {what}"));
        } else if is_new {
            self.note(&format!("the policy leaves this to a person: {what}"));
        }
        may
    }

    /// Whether a keeper's step is done now.
    pub(super) fn may_do(&mut self, group: GroupId, step: &Step, now: u64) -> bool {
        match step {
            Step::Elect { master, reason } => {
                let is_wanted = self.keepers.get(&group).is_some_and(|keeper| keeper.handing_over_to().is_some());
                // Who was asked for as the master need not be confirmed as well.
                if is_wanted {
                    return true;
                }
                let subject = Subject { action: Action::Failover, group: Some(group), server: None };
                let what = format!("group {group}: {master} becomes the master: {reason}");
                let may = self.admits(subject.clone(), &what, now);
                if may {
                    self.pending.done(&subject);
                    let former = self.records.cluster.groups.get(&group).map(|group| group.master.clone());
                    self.replaced.extend(former);
                    self.replaced.remove(master);
                }
                may
            }
            Step::Follow { server, master } if self.replaced.contains(server) => {
                let subject = Subject { action: Action::Rejoin, group: Some(group), server: Some(server.clone()) };
                let what = format!(
                    "group {group}: {server}, the former master, follows {master}; what it has alone is set aside in its folder"
                );
                let may = self.admits(subject.clone(), &what, now);
                if may {
                    self.pending.done(&subject);
                    self.replaced.remove(server);
                }
                may
            }
            _ => true,
        }
    }

    /// Lets programs start again that have ended, if they may.
    pub(super) fn let_held_start(&mut self, now: u64) {
        let held: Vec<Address> = self.processes.held().cloned().collect();
        // A person is answered by the agent that leads: the others have nobody to ask.
        if self.records.led_term().is_none() {
            held.iter().for_each(|address| self.processes.release(address, now));
            return;
        }
        for address in held {
            let subject = Subject { action: Action::Restart, group: None, server: Some(address.clone()) };
            if self.admits(subject.clone(), &format!("{address} has ended by itself and is started again"), now) {
                self.pending.done(&subject);
                self.processes.release(&address, now);
            }
        }
    }

    /// Gives a group that was added its share of the slots, once it is whole, if the policy says so.
    pub(super) fn give_share(&mut self, now: u64) {
        let Some(group) = self.grown else { return };
        let cluster = &self.records.cluster;
        if cluster.policy.mode(Action::Rebalance) == Mode::Off
            || !cluster.groups.contains_key(&group)
            || cluster.slots.count_of(group) > 0
        {
            self.grown = None;
            return;
        }
        if !self.records.moving().is_empty() || !status::group_serves(self, group) {
            return;
        }
        let subject = Subject { action: Action::Rebalance, group: Some(group), server: None };
        let what = format!("group {group} was added: slots move to it until all groups have the same share");
        if self.admits(subject.clone(), &what, now) {
            self.pending.done(&subject);
            self.grown = None;
            requests::give_share(self);
        }
    }

    /// A group was added.
    pub(super) fn note_grown(&mut self, group: GroupId) {
        self.grown = Some(group);
    }
}
