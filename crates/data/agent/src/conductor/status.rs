//! How things are, for programs as JSON.

use std::{
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use basics::many;
use cluster::{Address, GroupId, SLOTS, Server, SlotState, keeper::Role};
use serde_json::{Value, json};

use super::{Conductor, requests};
use crate::board::FRESH_MS;

/// Within so many milliseconds masters hear of a change.
const TOLD_MS: u64 = 1_000;
/// How many groups are listed when the cluster serves.
const GREETED_MAX: usize = 8;

/// Whether every slot that is given out is served, and a proxy takes clients.
#[must_use]
pub fn serves(conductor: &Conductor) -> bool {
    let cluster = &conductor.records.cluster;
    // The proxies are asked last, those of this host first: that costs a connection.
    let takes_clients = |is_here: bool| {
        let mut proxies = cluster.proxies.iter().filter(|proxy| !proxy.is_offline);
        proxies.any(|proxy| (proxy.host == conductor.options.host_name()) == is_here && is_reached(&proxy.address))
    };
    cluster.groups.keys().all(|group| group_serves(conductor, *group)) && (takes_clients(true) || takes_clients(false))
}

/// Whether somebody listens there. A host that is gone answers nothing at all, and must not be waited for by who leads.
fn is_reached(address: &Address) -> bool {
    const PATIENCE: Duration = Duration::from_millis(200);
    let Ok(mut found) = (address.host(), address.port()).to_socket_addrs() else { return false };
    found.any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

/// Whether a group serves.
pub(super) fn group_serves(conductor: &Conductor, id: GroupId) -> bool {
    conductor.controller.serves(&conductor.records.cluster, id, conductor.now())
}

/// Whether a group serves, for people. A master that is about to hear of a change which is not about it serves on as it did.
pub(super) fn is_served(conductor: &Conductor, id: GroupId) -> bool {
    if group_serves(conductor, id) {
        return true;
    }
    let (now, cluster) = (conductor.now(), &conductor.records.cluster);
    let (Some((epoch, since)), Some(group)) = (conductor.reconciled, cluster.groups.get(&id)) else { return false };
    // What was written a moment ago is followed in the next turn.
    let is_new = epoch < cluster.epoch || now < since + TOLD_MS;
    let seen = conductor.controller.fresh(cluster, &group.master, now);
    is_new
        && seen.is_some_and(|seen| {
            seen.role == Role::Master && seen.serves && (group.config_epoch..cluster.epoch).contains(&seen.epoch)
        })
}

/// What is said when the cluster serves.
#[must_use]
pub fn greeting(conductor: &Conductor) -> String {
    let cluster = &conductor.records.cluster;
    let redis = cluster.servers().filter(|(_, server)| !server.kind.is_store()).count();
    let count = cluster.servers().count() - redis;
    let redis = if redis == 0 { String::new() } else { format!(", {}", many(redis, "Redis server", "Redis servers")) };
    let (groups, count) = (many(cluster.groups.len(), "group", "groups"), many(count, "store", "stores"));
    let proxy = cluster.proxies.first().map(|proxy| &proxy.address);
    let dir = conductor.options.folder.path().display();
    let stores = listed_stores(conductor);
    let connect =
        proxy.map_or(String::new(), |address| format!("redis-cli -h {} -p {}", address.host(), address.port()));
    let page = conductor.site.as_ref().map_or(String::new(), |address| {
        format!("\n  page      http://{address}/ (to change things there: tidegate cluster page --dir {dir})")
    });
    format!(
        "the cluster serves: {groups}, {count}{redis}\n  clients   {connect}\n  stores    {stores}{page}\n  status    tidegate cluster status --dir {dir}\n  \
         end       Ctrl-C, or tidegate cluster down --dir {dir}"
    )
}

/// Stores by group, the master first, as many as fit on a screen.
fn listed_stores(conductor: &Conductor) -> String {
    let groups = &conductor.records.cluster.groups;
    let line = |(id, group): (&GroupId, &cluster::Group)| {
        let replicas = group.servers.iter().filter(|server| server.address != group.master);
        let replicas: Vec<String> = replicas.map(|server| server.address.to_string()).collect();
        let behind = if replicas.is_empty() {
            String::new()
        } else {
            format!(", {} {}", if replicas.len() == 1 { "replica" } else { "replicas" }, replicas.join(" "))
        };
        format!("group {id}: master {}{behind}", group.master)
    };
    let mut lines: Vec<String> = groups.iter().take(GREETED_MAX).map(line).collect();
    if groups.len() > GREETED_MAX {
        lines.push(format!("and {} more groups", groups.len() - GREETED_MAX));
    }
    lines.join("\n            ")
}

fn server_status(conductor: &Conductor, group: GroupId, server: &Server) -> Value {
    let now = conductor.now();
    let address = &server.address;
    let is_master = conductor.records.cluster.groups.get(&group).is_some_and(|group| group.master == *address);
    let seen = conductor.controller.keepers().get(&group).and_then(|keeper| keeper.fresh(address, now));
    let in_sync = conductor.records.in_sync(group).members.contains(address);
    let running = conductor.running(address);
    let (state, link) = match seen {
        None => ("down", Value::Null),
        Some(seen) => match (&seen.role, is_master) {
            (Role::Master, true) => ("up", Value::Null),
            (Role::Replica { is_linked: true, .. }, false) => ("up", "up".into()),
            (Role::Replica { .. }, false) => ("up", "down".into()),
            _ => ("changing", Value::Null),
        },
    };
    json!({
        "address": address.to_string(),
        "id": server.id,
        "host": server.host,
        "kind": server.kind,
        "role": if is_master { "master" } else { "replica" },
        "pid": running.as_ref().and_then(|running| running.pid),
        "state": state,
        "link": link,
        "in_sync": is_master || in_sync,
        "offset": seen.map(|seen| seen.offset),
        "epoch": seen.map(|seen| seen.epoch),
        "starts": running.as_ref().map_or(0, |running| running.starts),
        "refuses": seen.and_then(|seen| seen.bond?.refusal).map(|lost| json!([lost.until, lost.end])),
        "problem": conductor.silent.get(address),
        "refused_setting": conductor.refused_setting(group, server),
    })
}

/// What may have been lost, as far as nobody has taken note of it.
fn losses(conductor: &Conductor) -> Value {
    let losses = conductor.records.known().pending.losses.iter();
    losses
        .map(|loss| json!({ "number": loss.number, "group": loss.group, "at": loss.at / 1_000, "what": loss.what }))
        .collect()
}

/// A group, if it is there.
#[must_use]
pub fn group(conductor: &Conductor, id: GroupId) -> Option<Value> {
    let cluster = &conductor.records.cluster;
    let group = cluster.groups.get(&id)?;
    let servers: Vec<Value> = group.servers.iter().map(|server| server_status(conductor, id, server)).collect();
    let ranges: Vec<Value> = cluster.slots.owned_by(id).iter().map(|range| json!([range.first, range.last])).collect();
    Some(json!({
        "id": id,
        "state": if is_served(conductor, id) { "ok" } else { "down" },
        "kind": group.kind(),
        "master": group.master.to_string(),
        "ack": group.ack,
        "waits_for": conductor.awaited(id),
        "advice": conductor.advice(id),
        "config_epoch": group.config_epoch,
        "slots": cluster.slots.count_of(id),
        "ranges": ranges,
        "servers": servers,
    }))
}

/// All groups.
#[must_use]
pub fn groups(conductor: &Conductor) -> Value {
    conductor.records.cluster.groups.keys().filter_map(|id| group(conductor, *id)).collect()
}

/// All servers, with their groups.
#[must_use]
pub fn servers(conductor: &Conductor) -> Value {
    let shown = conductor.records.cluster.servers().map(|(id, server)| {
        let mut shown = server_status(conductor, id, server);
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("group".into(), id.into());
        }
        shown
    });
    shown.collect()
}

/// All proxies.
#[must_use]
pub fn proxies(conductor: &Conductor) -> Value {
    let shown = conductor.records.cluster.proxies.iter().map(|proxy| {
        let pid = conductor.running(&proxy.address).and_then(|running| running.pid);
        let state = match (proxy.is_offline, pid) {
            (true, _) => "offline",
            (false, Some(_)) => "online",
            (false, None) => "down",
        };
        json!({ "address": proxy.address.to_string(), "host": proxy.host, "pid": pid, "state": state })
    });
    shown.collect()
}

/// Whether the proxies of this host take clients.
#[must_use]
pub fn own_proxies_listen(conductor: &Conductor) -> bool {
    let own = conductor.records.cluster.proxies.iter().filter(|proxy| proxy.host == conductor.options.host_name());
    let mut own = own.filter(|proxy| !proxy.is_offline).peekable();
    own.peek().is_some() && own.all(|proxy| TcpStream::connect((proxy.address.host(), proxy.address.port())).is_ok())
}

/// The agents of all hosts.
#[must_use]
pub fn agents(conductor: &Conductor) -> Value {
    let now = conductor.now();
    let leader = conductor.records.leader().map(|leader| leader.host.clone());
    let board = conductor.board.look();
    let others = conductor.records.cluster.hosts.iter().filter(|host| *host != conductor.options.host_name());
    let others: Vec<Value> = others
        .map(|host| {
            let peer = board.peers.get(host);
            let agent = conductor.records.agents.get(host);
            json!({
                "host": host,
                "address": conductor.records.cluster.address_of(host),
                "pid": peer.map(|peer| peer.view.pid),
                "state": if peer.is_some_and(|peer| peer.heard_at + FRESH_MS >= now) { "up" } else { "down" },
                "leads": leader.as_ref() == Some(host),
                "epoch": peer.map(|peer| peer.view.epoch),
                "record_problem": peer.and_then(|peer| peer.view.record_problem.as_deref()),
                "page": agent.map(|agent| format!("http://{}/", agent.api)),
                "version": agent.map(|agent| agent.version.clone()),
            })
        })
        .collect();
    drop(board);
    std::iter::once(agent(conductor)).chain(others).collect()
}

/// All hosts: those that have votes, and those that are about to get one.
#[must_use]
pub fn hosts(conductor: &Conductor) -> Value {
    let cluster = &conductor.records.cluster;
    let agents = conductor.records.agents.keys().map(String::as_str);
    let more = agents.filter(|host| !cluster.voters().contains(host));
    let leader = conductor.records.leader().map(|leader| leader.host.as_str());
    let shown = cluster.voters().into_iter().chain(more).map(|host| {
        let told = conductor.records.told_address(host);
        json!({
            "host": host,
            "address": cluster.address_of(host).or(told),
            "told_address": told,
            "state": if conductor.is_host_up(host) { "up" } else { "down" },
            "votes": cluster.voters().contains(&host),
            "leads": leader == Some(host),
            "servers": cluster.servers().filter(|(_, server)| server.host == host).count(),
            "proxies": cluster.proxies.iter().filter(|proxy| proxy.host == host).count(),
        })
    });
    shown.collect()
}

/// This agent.
#[must_use]
pub fn agent(conductor: &Conductor) -> Value {
    json!({
        "host": conductor.options.host_name(),
        "address": conductor.options.host,
        "state": "up",
        "leads": conductor.leads(),
        "epoch": conductor.records.cluster.epoch,
        "record_problem": conductor.copy.problem(),
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "dir": conductor.options.folder.path().display().to_string(),
        "page": conductor.site.map(|address| format!("http://{address}/")),
    })
}

/// The programs that this agent runs.
#[must_use]
pub fn processes(conductor: &Conductor) -> Value {
    let shown = conductor.processes.declared().map(|one| {
        json!({
            "name": one.name,
            "program": one.program,
            "address": one.address,
            "pid": conductor.processes.pid(&one.address),
            "starts": conductor.processes.starts(&one.address),
            "group": conductor.records.cluster.group_of(&one.address),
            "log": conductor.options.folder.log_of(&one.name).display().to_string(),
        })
    });
    shown.collect()
}

/// Everything.
#[must_use]
pub fn whole(conductor: &Conductor) -> Value {
    let cluster = &conductor.records.cluster;
    let count = |wanted: fn(SlotState) -> bool| (0..SLOTS).filter(|slot| wanted(cluster.slots.state(*slot))).count();
    let all_ok = cluster.groups.keys().all(|id| is_served(conductor, *id) || cluster.slots.count_of(*id) == 0);
    let offline = count(|state| state == SlotState::Offline);
    json!({
        "state": if all_ok && offline == 0 { "ok" } else { "down" },
        "epoch": cluster.epoch,
        "groups": groups(conductor),
        "proxies": proxies(conductor),
        "slots": {
            "online": count(|state| matches!(state, SlotState::Online { .. })),
            "migrating": count(|state| matches!(state, SlotState::Migrating { .. })),
            "offline": offline,
        },
        "moves": moves(conductor),
        "policy": cluster.policy,
        "pending": conductor.shown_pending(),
        "agent": agent(conductor),
        "agents": agents(conductor),
        "hosts": hosts(conductor),
        "has_leader": !conductor.is_leader_gone(),
        "losses": losses(conductor),
        "coordinator": conductor.health.as_ref().map(|health| health.shown()),
    })
}

/// Everything, with what servers do and take, and the last changes.
#[must_use]
pub fn live(conductor: &Conductor) -> Value {
    let mut shown = whole(conductor);
    let figures: serde_json::Map<String, Value> = conductor
        .records
        .cluster
        .servers()
        .map(|(_, server)| (server.address.to_string(), conductor.figures.shown(&server.address)))
        .collect();
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("figures".into(), figures.into());
        fields.insert("changes".into(), conductor.records.last_changes().iter().map(requests::shown).collect());
        fields.insert("now".into(), json!(unix_ms()));
        fields.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    }
    shown
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Slots on their way.
#[must_use]
pub fn moves(conductor: &Conductor) -> Value {
    let shown = conductor.shown_moves().into_iter().map(|shown| {
        json!({
            "first": shown.what.slots.first,
            "last": shown.what.slots.last,
            "from": shown.what.from,
            "to": shown.what.to,
            "phase": shown.phase,
            "progress": shown.seen.progress,
            "keys_about": shown.keys_about,
            "keys_per_second": shown.seen.keys_per_second,
            "bytes_per_second": shown.seen.bytes_per_second,
            "slowed": shown.seen.slowed,
            "attempts": shown.seen.attempts,
            "problem": shown.seen.problem,
        })
    });
    shown.collect()
}
