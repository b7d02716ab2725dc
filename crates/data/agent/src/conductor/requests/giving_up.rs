//! Servers that are gone for good, says a person: the group goes on without them, with what the others have.

use cluster::{
    Address, GroupId,
    controller::losses::NewLoss,
    keeper::{GivingUpError, Keeper},
    model::InSync,
};
use serde_json::{Value, json};

use super::{Conductor, Problem, groups::found};
use crate::conductor::policy::date_ms;

fn refused(error: &GivingUpError) -> Problem {
    Problem::Refused(error.to_string())
}

/// What `--ack` a command needs that removes a replica of a group.
pub fn ack_hint(conductor: &Conductor, id: GroupId) -> String {
    let Some(group) = conductor.records.cluster.groups.get(&id) else { return String::new() };
    let left = group.replicas().count().saturating_sub(1);
    if group.ack as usize > left { format!(" --ack {left}") } else { String::new() }
}

fn keeper_of(conductor: &mut Conductor, id: GroupId) -> Result<&mut Keeper, Problem> {
    let keeper = conductor.controller.keeper_mut(id);
    keeper.ok_or_else(|| Problem::Refused(format!("group {id} has not been looked at yet: try again")))
}

/// Removes a replica in sync that a group waits for.
pub(super) fn remove(
    conductor: &mut Conductor,
    (id, server): (GroupId, &Address),
    ack: Option<u32>,
    is_plan: bool,
) -> Result<Value, Problem> {
    let (group, in_sync) = (found(conductor, id)?.clone(), conductor.records.in_sync(id));
    let now = conductor.now();
    let is_believed = conductor.controller.is_believed(conductor.records.known());
    let of = (&group, &in_sync.of(&group));
    let (InSync { members, ack: left, .. }, may_lose) =
        keeper_of(conductor, id)?.may_give_up(now, of, server, is_believed).map_err(|error| refused(&error))?;
    let next = conductor.records.cluster.without_server(id, server, ack)?;
    let in_sync = InSync { members, ack: left, serial: in_sync.serial + 1, ..in_sync };
    let what = format!("{server} is removed from group {id}, which waits for it no longer");
    let what = match may_lose {
        true => format!("{what}: what was acknowledged and it alone had may be lost"),
        false => format!("{what}: the others have all that was acknowledged"),
    };
    if !is_plan {
        let loss = NewLoss { group: id, ends: 0, at: date_ms(), what: &what };
        let pending = may_lose.then(|| conductor.controller.pending.record.with_loss(loss));
        conductor.records.change_with(next, vec![(id, in_sync)], pending.clone(), ("operator", &what))?;
        if let Some(pending) = pending {
            conductor.controller.pending.record = pending;
        }
        conductor.note(&what);
    }
    Ok(json!({ "what": what, "group": id, "server": server.to_string(), "epoch": conductor.records.cluster.epoch }))
}

/// Has a replica take the place of a master that is gone for good, whatever it lacks.
pub(super) fn replace_master(
    conductor: &mut Conductor,
    id: GroupId,
    server: &Address,
    is_plan: bool,
) -> Result<Value, Problem> {
    conductor.records.cluster.with_master(id, server)?;
    let (now, group, in_sync) = (conductor.now(), found(conductor, id)?.clone(), conductor.records.in_sync(id));
    if !group.kind().is_store() {
        return Err(Problem::Refused(format!(
            "group {id} is of Redis servers: the replica that has most takes the master's place by itself"
        )));
    }
    let is_believed = conductor.controller.is_believed(conductor.records.known());
    let keeper = keeper_of(conductor, id)?;
    // A plan is refused like the thing itself: it is tried on a copy.
    let mut tried = keeper.clone();
    let keeper = if is_plan { &mut tried } else { keeper };
    let of = (&group, &in_sync.of(&group));
    let reason = keeper.give_master_up(now, of, server, is_believed).map_err(|error| refused(&error))?;
    let what = format!("{server} becomes the master of group {id}: {reason}");
    if !is_plan {
        conductor.note(&what);
    }
    Ok(json!({ "what": what, "group": id, "from": group.master.to_string(), "to": server.to_string() }))
}
