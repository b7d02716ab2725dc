//! What takes a change back. It is no return to a former state, which others have built on since: what differs between the cluster
//! before a change and after it is turned round in the cluster of today, by the same means as anything else, or refused.

use crate::{
    model::{Address, Cluster, Group, GroupId},
    slots::{Move, Phase, SLOTS, SlotRange, SlotState},
};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Slots go back. Those that have not left yet stay where they are.
    MoveSlots {
        /// Moves that end.
        cancelled: Vec<SlotRange>,
        /// Moves that begin.
        moves: Vec<Move>,
    },
    /// A group gets its former master.
    Promote {
        /// Whose.
        group: GroupId,
        /// Who.
        server: Address,
    },
    /// A server leaves.
    RemoveServer {
        /// Whose.
        group: GroupId,
        /// Who.
        server: Address,
    },
    /// A group leaves, with its servers.
    RemoveGroup(GroupId),
    /// A proxy leaves.
    RemoveProxy(Address),
    /// A proxy comes again.
    AddProxy(Address),
    /// A proxy takes clients, or takes none.
    SetProxyOffline {
        /// Which.
        proxy: Address,
        /// Whether it takes none.
        is_offline: bool,
    },
}

/// Why a change is not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUndo {
    /// It is the first.
    #[error("with it the cluster began: `tidegate cluster down` ends it")]
    Beginning,
    /// A step of a move.
    #[error(
        "it is a step of a move: undo the change that began it ('are to move'), or `slot cancel` what has not moved yet"
    )]
    Step,
    /// Slots were given out.
    #[error("slots were given to groups, and may have keys now: `slot migrate` or `slot rebalance` moves them")]
    SlotsGiven,
    /// A server went with its data.
    #[error(
        "{server} left group {group}, and what it had is no longer up to date: `server add {group}` adds a new one"
    )]
    ServerLeft {
        /// Which.
        server: Address,
        /// Whose.
        group: GroupId,
    },
    /// A group went.
    #[error("group {0} left with its servers: `server add-group {0}` adds an empty one of that number")]
    GroupLeft(GroupId),
    /// What it was about has changed since.
    #[error("slot {slot} has gone another way since (it is {now}): `slot migrate {slot} {slot} {from}` moves it")]
    SlotChanged {
        /// Which.
        slot: u16,
        /// What it is.
        now: String,
        /// Where it was before.
        from: GroupId,
    },
    /// Others have changed what it was about.
    #[error("{0} has another master since: `server promote` changes that")]
    MasterChanged(String),
    /// It was about what agents do by themselves.
    #[error("it changed the policy: `tidegate cluster policy set` changes it again")]
    Policy,
    /// It was about settings of stores.
    #[error("it changed settings of stores: `tidegate cluster config set` and `config unset` change them again")]
    Settings,
    /// There is nothing to take back.
    #[error("all is as it was before it already")]
    Nothing,
    /// It does more than one thing.
    #[error("it changed several things at once; undo them one by one")]
    Several,
}

/// What takes a change back, by the cluster before and after it, in the cluster of today.
///
/// # Errors
///
/// It cannot be taken back, and what to do instead.
pub fn undo(before: &Cluster, after: &Cluster, now: &Cluster) -> Result<Undo, NoUndo> {
    if before.epoch == 0 {
        return Err(NoUndo::Beginning);
    }
    let mut found = Vec::new();
    found.extend(undo_slots(before, after, now)?);
    found.extend(undo_groups(before, after, now)?);
    found.extend(undo_proxies(before, after, now));
    match found.len() {
        0 if before.policy != after.policy => Err(NoUndo::Policy),
        0 if before.settings != after.settings => Err(NoUndo::Settings),
        0 => Err(NoUndo::Nothing),
        1 => found.pop().ok_or(NoUndo::Nothing),
        _ => Err(NoUndo::Several),
    }
}

fn undo_slots(before: &Cluster, after: &Cluster, now: &Cluster) -> Result<Option<Undo>, NoUndo> {
    let (mut cancelled, mut back) = (Vec::new(), Vec::new());
    let mut differs = false;
    for slot in 0..SLOTS {
        let (was, became) = (before.slots.state(slot), after.slots.state(slot));
        if was == became {
            continue;
        }
        differs = true;
        let (SlotState::Online { group: from }, SlotState::Migrating { to, phase: Phase::Planned, .. }) = (was, became)
        else {
            let is_step = matches!(was, SlotState::Migrating { .. }) || matches!(became, SlotState::Migrating { .. });
            return Err(if is_step { NoUndo::Step } else { NoUndo::SlotsGiven });
        };
        match now.slots.state(slot) {
            SlotState::Online { group } if group == from => {}
            SlotState::Online { group } if group == to => back.push((slot, to, from)),
            SlotState::Migrating { from: source, to: target, phase: Phase::Undoing, .. }
                if (source, target) == (from, to) => {}
            SlotState::Migrating { from: source, to: target, phase, .. }
                if (source, target) == (from, to) && phase != Phase::Clearing =>
            {
                cancelled.push(slot);
            }
            other => return Err(NoUndo::SlotChanged { slot, now: state_text(other), from }),
        }
    }
    if !differs {
        return Ok(None);
    }
    if cancelled.is_empty() && back.is_empty() {
        return Err(NoUndo::Nothing);
    }
    Ok(Some(Undo::MoveSlots { cancelled: ranges(&cancelled), moves: crate::plan::joined(back) }))
}

fn state_text(state: SlotState) -> String {
    match state {
        SlotState::Offline => "offline".into(),
        SlotState::Online { group } => format!("in group {group}"),
        SlotState::Migrating { from, to, .. } => format!("on its way from group {from} to group {to}"),
    }
}

/// Slots as ranges.
fn ranges(slots: &[u16]) -> Vec<SlotRange> {
    let mut ranges: Vec<SlotRange> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == *slot => range.last = *slot,
            _ => ranges.push(SlotRange { first: *slot, last: *slot }),
        }
    }
    ranges
}

fn undo_groups(before: &Cluster, after: &Cluster, now: &Cluster) -> Result<Vec<Undo>, NoUndo> {
    let mut found = Vec::new();
    if let Some(id) = before.groups.keys().find(|id| !after.groups.contains_key(*id)) {
        return Err(NoUndo::GroupLeft(*id));
    }
    for (id, became) in &after.groups {
        match before.groups.get(id) {
            None if now.groups.contains_key(id) => found.push(Undo::RemoveGroup(*id)),
            None => {}
            Some(was) => found.extend(undo_group(*id, was, became, now)?),
        }
    }
    Ok(found)
}

fn undo_group(id: GroupId, was: &Group, became: &Group, now: &Cluster) -> Result<Vec<Undo>, NoUndo> {
    let mut found = Vec::new();
    if let Some(gone) = was.servers.iter().find(|server| became.server(&server.address).is_none()) {
        return Err(NoUndo::ServerLeft { server: gone.address.clone(), group: id });
    }
    let present = now.groups.get(&id);
    for server in became.servers.iter().filter(|server| was.server(&server.address).is_none()) {
        if present.is_some_and(|group| group.server(&server.address).is_some()) {
            found.push(Undo::RemoveServer { group: id, server: server.address.clone() });
        }
    }
    if was.master != became.master {
        match present.map(|group| &group.master) {
            Some(master) if *master == was.master => {}
            Some(master) if *master == became.master => {
                found.push(Undo::Promote { group: id, server: was.master.clone() });
            }
            _ => return Err(NoUndo::MasterChanged(format!("group {id}"))),
        }
    }
    Ok(found)
}

fn undo_proxies(before: &Cluster, after: &Cluster, now: &Cluster) -> Vec<Undo> {
    let mut found = Vec::new();
    for proxy in &after.proxies {
        let address = &proxy.address;
        let Some(present) = now.proxy(address) else { continue };
        match before.proxy(address) {
            None => found.push(Undo::RemoveProxy(address.clone())),
            Some(was) if was.is_offline != proxy.is_offline && present.is_offline != was.is_offline => {
                found.push(Undo::SetProxyOffline { proxy: address.clone(), is_offline: was.is_offline });
            }
            Some(_) => {}
        }
    }
    let gone = before.proxies.iter().filter(|proxy| after.proxy(&proxy.address).is_none());
    found.extend(
        gone.filter(|proxy| now.proxy(&proxy.address).is_none()).map(|proxy| Undo::AddProxy(proxy.address.clone())),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::{proxy, server, two_groups},
        slots::SlotEvent,
    };

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    #[test]
    fn slots_go_back_from_wherever_they_are() {
        let before = two_groups();
        let range = SlotRange::new(5, 9).unwrap();
        let begun = before.with_moves(&[Move { slots: range, from: 1, to: 2 }]).unwrap();
        let cancel = Undo::MoveSlots { cancelled: vec![range], moves: Vec::new() };
        assert_eq!(undo(&before, &begun, &begun), Ok(cancel.clone()));
        let copying = begun.with_slots(range, SlotEvent::Start).unwrap();
        assert_eq!(undo(&before, &begun, &copying), Ok(cancel));
        assert_eq!(undo(&begun, &copying, &copying), Err(NoUndo::Step));
        let switched = copying.with_slots(range, SlotEvent::Switch).unwrap();
        assert!(matches!(undo(&before, &begun, &switched), Err(NoUndo::SlotChanged { slot: 5, .. })));
        let moved = switched.with_slots(range, SlotEvent::Cleared).unwrap();
        let back = Undo::MoveSlots { cancelled: Vec::new(), moves: vec![Move { slots: range, from: 2, to: 1 }] };
        assert_eq!(undo(&before, &begun, &moved), Ok(back));
        // Two of them have gone back already.
        let mut part = moved.with_moves(&[Move { slots: SlotRange::new(5, 6).unwrap(), from: 2, to: 1 }]).unwrap();
        for event in [SlotEvent::Start, SlotEvent::Switch, SlotEvent::Cleared] {
            part = part.with_slots(SlotRange::new(5, 6).unwrap(), event).unwrap();
        }
        let rest = vec![Move { slots: SlotRange::new(7, 9).unwrap(), from: 2, to: 1 }];
        assert_eq!(undo(&before, &begun, &part), Ok(Undo::MoveSlots { cancelled: Vec::new(), moves: rest }));
        let given = Cluster::default().with_group(1, vec![server(1)], 0).unwrap();
        let init = given.with_slots_shared_out().unwrap();
        assert_eq!(undo(&given, &init, &init), Err(NoUndo::SlotsGiven));
    }

    #[test]
    fn servers_groups_and_masters_too() {
        let before = two_groups();
        let promoted = before.with_master(1, &address(2)).unwrap();
        assert_eq!(undo(&before, &promoted, &promoted), Ok(Undo::Promote { group: 1, server: address(1) }));
        assert_eq!(undo(&before, &promoted, &before), Err(NoUndo::Nothing));
        let added = before.with_server(1, server(5)).unwrap();
        assert_eq!(undo(&before, &added, &added), Ok(Undo::RemoveServer { group: 1, server: address(5) }));
        let other = added.with_master(1, &address(5)).unwrap();
        assert_eq!(undo(&before, &promoted, &other), Err(NoUndo::MasterChanged("group 1".into())));
        let removed = added.without_server(1, &address(5), None).unwrap();
        assert!(matches!(undo(&added, &removed, &removed), Err(NoUndo::ServerLeft { group: 1, .. })));
        let grown = before.with_group(3, vec![server(6)], 0).unwrap();
        assert_eq!(undo(&before, &grown, &grown), Ok(Undo::RemoveGroup(3)));
        let shrunk = grown.without_group(3).unwrap();
        assert_eq!(undo(&grown, &shrunk, &shrunk), Err(NoUndo::GroupLeft(3)));
        assert_eq!(undo(&before, &grown, &shrunk), Err(NoUndo::Nothing));
        assert_eq!(undo(&Cluster::default(), &before, &before), Err(NoUndo::Beginning));
    }

    #[test]
    fn proxies_too() {
        let before = two_groups();
        let offline = before.with_proxy_offline(&address(10), true).unwrap();
        let online = Undo::SetProxyOffline { proxy: address(10), is_offline: false };
        assert_eq!(undo(&before, &offline, &offline), Ok(online));
        assert_eq!(undo(&before, &offline, &before), Err(NoUndo::Nothing));
        let more = before.with_proxy(proxy(11)).unwrap();
        assert_eq!(undo(&before, &more, &more), Ok(Undo::RemoveProxy(address(11))));
        let fewer = before.without_proxy(&address(10)).unwrap();
        assert_eq!(undo(&before, &fewer, &fewer), Ok(Undo::AddProxy(address(10))));
        assert_eq!(undo(&before, &fewer, &before), Err(NoUndo::Nothing));
    }
}
