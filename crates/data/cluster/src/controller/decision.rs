//! What is to be written down of the cluster, and what follows once it is.

use std::collections::BTreeMap;

use super::{Controller, pending::PendingRecord};
use crate::{
    change::Refusal,
    hosts::NewAddresses,
    model::{Address, Cluster, GroupId, InSync},
    slots::{Move, SlotEvent},
};

/// By this a change is made that decides who of a group serves.
pub const FAILOVER: &str = "failover";
/// What a text about another master says.
pub const IS_MASTER: &str = "is the master";

/// Something that is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Something has happened to slots.
    Slots(Move, SlotEvent),
    /// Who of a group is in sync with its master.
    InSync(GroupId, InSync),
    /// A group has another master.
    Master {
        /// Which group.
        group: GroupId,
        /// Who.
        master: Address,
        /// Why, for people.
        reason: String,
        /// What was acknowledged may be lost by that, as the reason says.
        may_lose: bool,
    },
    /// The same cluster under the next epoch.
    Renew {
        /// Whose voters have promised something that is not needed any more.
        group: GroupId,
        /// Why, for people.
        reason: String,
    },
    /// Hosts have other addresses; who is in sync is called otherwise in the same write ([`Decision::in_sync_after`]).
    Readdress(NewAddresses),
    /// What waits for a person.
    Pending(PendingRecord),
}

impl Decision {
    /// The cluster that it makes of one; nothing if it makes none.
    ///
    /// # Errors
    ///
    /// It cannot be made of this one: somebody was quicker.
    pub fn applied(&self, cluster: &Cluster) -> Result<Option<Cluster>, Refusal> {
        match self {
            Self::Slots(what, event) => cluster.with_slots(what.slots, *event).map(Some),
            Self::Master { group, master, .. } => cluster.with_master(*group, master).map(Some),
            Self::Renew { .. } => Ok(Some(cluster.renewed())),
            Self::Readdress(new) => cluster.with_addresses(new).map(Some),
            Self::InSync(..) | Self::Pending(_) => Ok(None),
        }
    }

    /// Who of groups is in sync after it, where that is written otherwise than before. `cluster` is that before it.
    #[must_use]
    pub fn in_sync_after(
        &self,
        cluster: &Cluster,
        in_sync: &BTreeMap<GroupId, (InSync, u64)>,
    ) -> Vec<(GroupId, InSync)> {
        let Self::Readdress(new) = self else { return Vec::new() };
        let Ok(next) = cluster.with_addresses(new) else { return Vec::new() };
        let renamed = cluster.renamed(new);
        let after = next.groups.iter().filter_map(|(id, group)| {
            let before = cluster.groups.get(id)?;
            // What is about a master of before says nothing, and goes on saying nothing.
            let (known, _) = in_sync.get(id).filter(|(known, _)| known.config_epoch == before.config_epoch)?;
            Some((*id, renamed.in_sync(known, group.config_epoch)?))
        });
        after.collect()
    }

    /// The group that it is about, if it is about one.
    #[must_use]
    pub fn group(&self) -> Option<GroupId> {
        match self {
            Self::Slots(..) | Self::Pending(_) | Self::Readdress(_) => None,
            Self::InSync(group, _) | Self::Master { group, .. } | Self::Renew { group, .. } => Some(*group),
        }
    }

    /// What it is about, for people.
    #[must_use]
    pub fn about(&self) -> String {
        match (self, self.group()) {
            (Self::Slots(what, _), _) => format!("slots {}", what.slots),
            (Self::Pending(_), _) => "what waits for a person".to_owned(),
            (Self::Readdress(_), _) => "addresses of hosts".to_owned(),
            (_, group) => format!("group {}", group.unwrap_or(0)),
        }
    }

    /// By what it is done, as the history has it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Slots(..) => "move",
            Self::Readdress(_) => "address",
            _ => FAILOVER,
        }
    }

    /// What it is, for people, of a cluster that it is to be applied to.
    #[must_use]
    pub fn text(&self, cluster: &Cluster) -> String {
        match self {
            Self::Slots(Move { slots, from, to }, event) => match event {
                SlotEvent::Start => format!("slots {slots}: the copy from group {from} to group {to} begins"),
                SlotEvent::Switch => format!("slots {slots} have moved from group {from} to group {to}"),
                SlotEvent::Cleared => {
                    let owner = cluster.slots.owner(slots.first);
                    let other = if owner == Some(*from) { to } else { from };
                    format!("slots {slots}: group {other} has nothing of them any more")
                }
                _ => format!("slots {slots}: {event:?}"),
            },
            Self::InSync(group, in_sync) => {
                let names: Vec<String> = in_sync.members.iter().map(ToString::to_string).collect();
                let names = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
                format!("group {group}: in sync with its master: {names}")
            }
            Self::Master { group, master, reason, .. } => format!("group {group}: {master} {IS_MASTER}: {reason}"),
            Self::Renew { group, reason } => format!("group {group}: {reason}"),
            Self::Readdress(new) => {
                let told = |(host, address): (&String, &String)| {
                    format!("host {host} is at {address} (before: {})", cluster.address_of(host).unwrap_or("unknown"))
                };
                new.iter().map(told).collect::<Vec<_>>().join(", ")
            }
            Self::Pending(_) => "what waits for a person is written down".to_owned(),
        }
    }
}

impl Controller {
    /// A decision was written; this is the cluster after it.
    pub fn handle_written(&mut self, cluster: &Cluster, decision: &Decision, now: u64) {
        match decision {
            Decision::Readdress(_) => self.handle_readdressed(),
            Decision::Slots(what, event) => self.handle_slots_written(cluster, (*what, *event), now),
            // Who hands over sends clients to its successor: that one is to know before.
            Decision::Master { group, master, .. } => {
                self.pending.failover_done(*group);
                self.tell_first([master.clone()], cluster.epoch, now);
            }
            Decision::InSync(..) | Decision::Renew { .. } | Decision::Pending(_) => {}
        }
    }

    /// The coordinator did not answer: others are served for a moment before it is asked again.
    pub fn handle_unavailable(&mut self, now: u64) {
        self.writes_from = now + UNAVAILABLE_MS;
    }

    /// Whether the coordinator is asked to write something now.
    #[must_use]
    pub fn may_write(&self, now: u64) -> bool {
        now >= self.writes_from
    }
}

/// How long a coordinator that has not answered is left alone, in milliseconds.
const UNAVAILABLE_MS: u64 = 500;
