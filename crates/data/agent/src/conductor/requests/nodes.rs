//! What nodes pass on: commands by which clients of Redis Cluster change a cluster (`redis-cli --cluster` is one), each made what it
//! means here. Errors are Redis' own where Redis has one. What takes its time is waited for by the node: it is told so, and asks again.

use cluster::{
    Address, Cluster, Group, GroupId, Refusal, Server, SlotRange, plan::Move, slots::NoStep, slots::SlotEvent,
    slots::SlotState,
};
use serde_json::{Value, json};

use super::{Conductor, Handler, Problem, Route, address, groups, settings, slots, slots_of};
use crate::{
    api::{Input, Kind, Parameter},
    http::Response,
};

mod waiting;

use waiting::Wait;

pub(super) const ROUTES: &[Route] = &[Route::change("POST", "/api/nodes/command", Handler::Talk(command))
    .named(
        "nodes",
        "nodeCommand",
        "Does what a node was told by a command that changes the cluster (CLUSTER MEET, SETSLOT and so on). It answers with \"reply\", \
         or with \"wait\", which is to be sent along with the same request after \"ms\" milliseconds.",
    )
    .takes(&[
        Parameter::required("node", Kind::Text, "The node's name (CLUSTER MYID)."),
        Parameter::required("command", Kind::Text, "The command behind CLUSTER; slots are ranges, as in 0-5460."),
        Parameter::optional("address", Kind::Text, "The address of the node, if it belongs to no cluster yet."),
        Parameter::optional("settings", Kind::Text, "What is set on the node, as a JSON object (CONFIG REWRITE)."),
        Parameter::optional("wait", Kind::Text, "What the last answer said."),
        Parameter::optional("found", Kind::Text, "What a server has said of itself that is to join."),
    ])];

/// Who has been told.
struct Caller {
    /// Where it is; nothing if it did not say and is unknown.
    address: Option<Address>,
    /// Its group, if it belongs to the cluster.
    group: Option<GroupId>,
}

impl Caller {
    fn of(conductor: &Conductor, input: &Input) -> Result<Self, Problem> {
        let id = input.text("node").unwrap_or_default();
        let known = conductor.records.cluster.servers().find(|(_, server)| server.id == id);
        if let Some((group, server)) = known {
            return Ok(Self { address: Some(server.address.clone()), group: Some(group) });
        }
        let told = input.text("address").filter(|text| !text.is_empty());
        Ok(Self { address: told.map(address).transpose()?, group: None })
    }

    /// Its group and itself, if it is a group's master.
    fn master<'a>(&self, cluster: &'a Cluster) -> Option<(GroupId, &'a Group)> {
        let id = self.group?;
        let group = cluster.groups.get(&id)?;
        (Some(&group.master) == self.address.as_ref()).then_some((id, group))
    }

    fn is_replica(&self, cluster: &Cluster) -> bool {
        self.group.is_some() && self.master(cluster).is_none()
    }
}

fn refused<T>(text: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Refused(text.into()))
}

fn done() -> Result<Response, Problem> {
    Ok(Response::good(json!({ "reply": "OK" })))
}

fn command(conductor: &mut Conductor, input: &Input) -> Result<Response, Problem> {
    if let Some(wait) = input.text("wait") {
        return waiting::look(conductor, wait);
    }
    let caller = Caller::of(conductor, input)?;
    let words: Vec<&str> = input.text("command").unwrap_or_default().split_ascii_whitespace().collect();
    let found = input.text("found");
    match words.as_slice() {
        ["ADDSLOTS", ranges @ ..] => add_slots(conductor, &caller, &parsed(ranges)?, found),
        ["DELSLOTS", ranges @ ..] => del_slots(conductor, &parsed(ranges)?),
        ["FLUSHSLOTS"] => flush_slots(conductor, &caller),
        ["MEET", place] => meet(conductor, &caller, &address(place)?, found),
        ["REPLICATE", id] => replicate(conductor, &caller, id),
        ["FORGET", id] => forget(conductor, &caller, id),
        ["FAILOVER", how @ ..] => failover(conductor, &caller, how == ["FORCE"]),
        ["RESET"] => reset(&caller),
        ["REWRITE"] => rewrite(conductor, &caller, input),
        ["SETSLOT", slot, how @ ..] => {
            let slot = slot.parse().map_err(|_| Problem::Wrong("Invalid or out of range slot".into()))?;
            set_slot(conductor, &caller, slots_of(slot, slot)?, how)
        }
        _ => Err(Problem::Wrong(format!("'{}' is nothing that a node passes on", words.join(" ")))),
    }
}

fn parsed(ranges: &[&str]) -> Result<Vec<SlotRange>, Problem> {
    let wrong = || Problem::Wrong("Invalid or out of range slot".into());
    let range = |text: &&str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        slots_of(first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?)
    };
    ranges.iter().map(range).collect()
}

/// Writes a change down, and has the node wait until all servers know of it.
fn change(conductor: &mut Conductor, next: Cluster, what: &str) -> Result<Response, Problem> {
    let next = Cluster { epoch: conductor.records.cluster.epoch + 1, ..next };
    conductor.records.change(next, "node", what)?;
    conductor.note(what);
    Ok(waiting::told(conductor))
}

fn with_all(cluster: &Cluster, ranges: &[SlotRange], event: SlotEvent) -> Result<Cluster, Problem> {
    let step = |next: Cluster, range: &SlotRange| next.with_slots(*range, event);
    ranges.iter().try_fold(cluster.clone(), step).map_err(|refusal| match refusal {
        Refusal::Slot { slot, problem: NoStep::Served(_) } => Problem::Refused(format!("Slot {slot} is already busy")),
        other => other.into(),
    })
}

fn shown(ranges: &[SlotRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn add_slots(
    conductor: &mut Conductor,
    caller: &Caller,
    ranges: &[SlotRange],
    found: Option<&str>,
) -> Result<Response, Problem> {
    if caller.is_replica(&conductor.records.cluster) {
        return refused("a replica has no slots: give them to its master");
    }
    let (cluster, group, joins) = match caller.master(&conductor.records.cluster) {
        Some((group, _)) => (conductor.records.cluster.clone(), group, String::new()),
        // Nodes of a new cluster get their slots before they meet.
        None => match joined(conductor, caller.address.as_ref(), found)? {
            Joined::Ask(response) => return Ok(response),
            Joined::There(cluster, group, what) => (*cluster, group, format!("{what}; ")),
        },
    };
    let next = with_all(&cluster, ranges, SlotEvent::Assign(group))?;
    change(conductor, next, &format!("{joins}slots {} are given to group {group}", shown(ranges)))
}

fn del_slots(conductor: &mut Conductor, ranges: &[SlotRange]) -> Result<Response, Problem> {
    let cluster = &conductor.records.cluster;
    let mut all = ranges.iter().flat_map(|range| range.iter());
    if let Some(slot) = all.find(|slot| cluster.slots.state(*slot) == SlotState::Offline) {
        return refused(format!("Slot {slot} is already unassigned"));
    }
    let next = with_all(cluster, ranges, SlotEvent::Release)?;
    change(conductor, next, &format!("slots {} are set offline", shown(ranges)))
}

fn flush_slots(conductor: &mut Conductor, caller: &Caller) -> Result<Response, Problem> {
    let Some((group, _)) = caller.master(&conductor.records.cluster) else {
        return refused("only a master has slots: send CLUSTER FLUSHSLOTS to one");
    };
    let ranges = conductor.records.cluster.slots.owned_by(group);
    if ranges.is_empty() {
        return done();
    }
    let next = with_all(&conductor.records.cluster, &ranges, SlotEvent::Release)?;
    change(conductor, next, &format!("slots {} are set offline", shown(&ranges)))
}

/// A cluster that a server has joined, or what is still to be asked.
enum Joined {
    /// The server is to be looked at first.
    Ask(Response),
    /// The cluster with it, its group, and what has happened.
    There(Box<Cluster>, GroupId, String),
}

/// With a server that joins as Redis' nodes do: a master without slots.
fn joined(conductor: &Conductor, server: Option<&Address>, found: Option<&str>) -> Result<Joined, Problem> {
    let Some(server) = server else {
        return refused("the node does not know by which address others reach it: start it with --bind ADDRESS");
    };
    let Some(found) = found else { return Ok(Joined::Ask(Response::Look(server.clone()))) };
    let found: Value = serde_json::from_str(found).map_err(|error| Problem::Wrong(format!("'found': {error}")))?;
    if let Some(problem) = found.get("problem").and_then(Value::as_str) {
        return refused(format!("{server} cannot join: {problem}"));
    }
    let id = found.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    if id.is_empty() {
        return refused(format!("{server} cannot join: it does not say its name (CLUSTER MYID)"));
    }
    let host = conductor.host_of(server);
    let cluster = &conductor.records.cluster;
    let group = cluster.groups.keys().max().map_or(1, |last| last.saturating_add(1));
    let next = cluster.with_group(
        group,
        vec![Server { address: server.clone(), id, host, kind: cluster::ServerKind::Store }],
        0,
    )?;
    Ok(Joined::There(Box::new(next), group, format!("{server} joins, as group {group} without slots")))
}

fn meet(conductor: &mut Conductor, caller: &Caller, other: &Address, found: Option<&str>) -> Result<Response, Problem> {
    let is_member = conductor.records.cluster.group_of(other).is_some();
    let joins = match (caller.group, is_member) {
        (Some(_), true) => return done(),
        (Some(_), false) => Some(other),
        (None, true) => caller.address.as_ref(),
        (None, false) => {
            return refused(format!(
                "neither this node nor {other} belongs to the cluster of the agent that looks after this node: CLUSTER MEET leads to a node \
                 that does, and the first one gets its slots before (CLUSTER ADDSLOTS)"
            ));
        }
    };
    match joined(conductor, joins, found)? {
        Joined::Ask(response) => Ok(response),
        Joined::There(cluster, _, what) => change(conductor, *cluster, &what),
    }
}

fn by_id<'a>(cluster: &'a Cluster, id: &str) -> Option<(GroupId, &'a Group, &'a Server)> {
    let (group, server) = cluster.servers().find(|(_, server)| server.id == id)?;
    Some((group, cluster.groups.get(&group)?, server))
}

fn unknown<T>(id: &str) -> Result<T, Problem> {
    Err(Problem::NotThere(format!("Unknown node {id}")))
}

fn replicate(conductor: &mut Conductor, caller: &Caller, id: &str) -> Result<Response, Problem> {
    let cluster = conductor.records.cluster.clone();
    let (Some(former), Some(own)) = (caller.group, &caller.address) else {
        return refused(
            "this node belongs to no cluster yet: CLUSTER MEET first (redis-cli --cluster add-node does both)",
        );
    };
    let Some((target, group, master)) = by_id(&cluster, id) else { return unknown(id) };
    if group.master != master.address {
        return refused("I can only replicate a master, not a replica.");
    }
    if former == target {
        return done();
    }
    let server = cluster.groups.get(&former).and_then(|group| group.server(own)).cloned();
    let server = server.ok_or_else(|| Problem::from(Refusal::NoServer(own.clone())))?;
    let left = match caller.master(&cluster) {
        Some((_, group)) if group.servers.len() > 1 => {
            return refused(
                "this master has replicas: have them replicate another master first, or remove them (CLUSTER FORGET)",
            );
        }
        Some(_) => cluster.without_group(former).map_err(|refusal| match refusal {
            Refusal::HasSlots { .. } => {
                Problem::Refused("To set a master the node must be empty and without assigned slots.".into())
            }
            other => other.into(),
        })?,
        None => cluster.without_server(former, own, None)?,
    };
    let next = left.with_server(target, server)?;
    // What was set on it alone goes with it.
    let next = Cluster { settings: cluster.settings.clone(), ..next }.without_settings_of_gone();
    change(conductor, next, &format!("{own} becomes a replica of {} in group {target}", master.address))
}

fn forget(conductor: &mut Conductor, caller: &Caller, id: &str) -> Result<Response, Problem> {
    let cluster = conductor.records.cluster.clone();
    let Some((group_id, group, server)) = by_id(&cluster, id) else {
        // All nodes are told, one after the other; the first one was enough.
        let history = conductor.records.history()?;
        let was_there = |change: &crate::records::Change| by_id(&change.cluster, id).is_some();
        return if history.iter().any(was_there) { done() } else { unknown(id) };
    };
    let address = server.address.clone();
    let next = if group.master != address {
        cluster.without_server(group_id, &address, None)?
    } else if caller.group == Some(group_id) {
        return refused("Can't forget my master!");
    } else if group.servers.len() > 1 {
        return Err(Refusal::IsMaster(address).into());
    } else {
        cluster.without_group(group_id)?
    };
    // It is not ended: whoever removes it tells it so (CLUSTER RESET), and may use it again.
    conductor.loosen(&address);
    change(conductor, next, &format!("{address} is removed from group {group_id}"))
}

fn failover(conductor: &mut Conductor, caller: &Caller, is_forced: bool) -> Result<Response, Problem> {
    let (Some(id), Some(own)) = (caller.group, caller.address.clone()) else {
        return refused("this node belongs to no cluster");
    };
    if caller.master(&conductor.records.cluster).is_some() {
        return refused("You should send CLUSTER FAILOVER to a replica");
    }
    if crate::conductor::status::group_serves(conductor, id) {
        groups::hand_over(conductor, id, &own, false)?;
    } else if !is_forced {
        return refused("Master is down or failed, please use CLUSTER FAILOVER FORCE");
    }
    Ok(Wait::master(id, own).answer())
}

fn rewrite(conductor: &mut Conductor, caller: &Caller, input: &Input) -> Result<Response, Problem> {
    let id = input.text("node").unwrap_or_default();
    let Some(group) = caller.group else {
        return refused("Rewriting config file: this node belongs to no cluster, which would keep its settings");
    };
    let is_news = settings::rewrite(conductor, (group, id), input.text("settings").unwrap_or("{}"))?;
    if is_news { Ok(waiting::told(conductor)) } else { done() }
}

fn reset(caller: &Caller) -> Result<Response, Problem> {
    if caller.group.is_some() {
        return refused(
            "this node belongs to the cluster: CLUSTER FORGET at another node removes it first (redis-cli --cluster del-node does both)",
        );
    }
    Ok(Response::good(json!({ "reply": "RESET" })))
}

fn set_slot(conductor: &mut Conductor, caller: &Caller, slot: SlotRange, how: &[&str]) -> Result<Response, Problem> {
    let number = slot.first;
    let cluster = conductor.records.cluster.clone();
    let Some((own, _)) = caller.master(&cluster) else {
        return refused("Please use SETSLOT only with masters.");
    };
    let state = cluster.slots.state(number);
    let node = |id: &str| {
        let Some((group, found, server)) = by_id(&cluster, id) else {
            return Err(Problem::NotThere(format!("I don't know about node {id}")));
        };
        if found.master == server.address { Ok(group) } else { refused("Target node is not a master") }
    };
    match how {
        ["STABLE"] => {
            slots::stay(conductor, Some(&[slot]))?;
            done()
        }
        ["IMPORTING", id] => {
            node(id)?;
            if state.owner() == Some(own) {
                return refused(format!("I'm already the owner of hash slot {number}"));
            }
            // The move begins when its source is told.
            done()
        }
        ["MIGRATING", id] => {
            let to = node(id)?;
            match state {
                SlotState::Online { group } if group == own && to == own => {
                    return refused(format!("Can't move slot {number} to its owner"));
                }
                SlotState::Online { group } if group == own => {
                    let what = format!("slot {number} is to move to group {to}");
                    slots::begin_moves(conductor, &[Move { slots: slot, from: own, to }], &what, false)?;
                }
                SlotState::Migrating { from, to: known, .. } if from == own && known == to => {}
                _ => return refused(format!("I'm not the owner of hash slot {number}")),
            }
            Ok(Wait::Moved { slot: number, to }.answer())
        }
        ["NODE", id] => {
            let to = node(id)?;
            match state {
                SlotState::Offline => {
                    let next = cluster.with_slots(slot, SlotEvent::Assign(to))?;
                    change(conductor, next, &format!("slot {number} is given to group {to}"))
                }
                state if state.owner() == Some(to) => Ok(waiting::told(conductor)),
                _ => refused(format!(
                    "slot {number} is another master's, and its keys with it: CLUSTER SETSLOT {number} MIGRATING {id}, sent to its owner, \
                     moves both"
                )),
            }
        }
        _ => Err(Problem::Wrong("Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP".into())),
    }
}
