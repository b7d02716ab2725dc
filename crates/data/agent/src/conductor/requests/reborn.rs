//! RebornDB's paths, in its forms: what its dashboard (reborn-config) and its agents (reborn-agent) answer, for scripts that were
//! written for them. What it had and a cluster here has not is refused, with the reason.

use std::collections::BTreeMap;

use cluster::{Address, GroupId, Server, ServerKind, SlotState};
use resp::Value as Reply;
use serde_json::{Value, json};

use super::{
    Conductor, GROUP, Handler, Problem, Route, actions, address_of, group, group_number, groups, proxies, slots,
    slots_of,
};
use crate::{
    api::{Input, Kind, Parameter},
    conductor::status,
    connection::{command, text},
    http::Question,
    processes::{Declared, Program},
    records::CLUSTER,
};

const TAG: &str = "reborn";
const ID: Parameter = Parameter::required("id", Kind::Integer, "The group's number.");
const ADDR: Parameter = Parameter::required("addr", Kind::Text, "The server, as host:port.");
const TASK: Parameter = Parameter::required("id", Kind::Text, "The move, as /api/migrate/tasks calls it.");
const SLOT: Parameter = Parameter::required("slot", Kind::Integer, "The slot.");
/// A server as reborn-config has it.
const SERVER: &[Parameter] = &[
    ID,
    ADDR,
    Parameter::optional("type", Kind::Text, "master or slave; here servers join as slaves."),
    Parameter::optional("group_id", Kind::Integer, "The group once more."),
];

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/overview", Handler::Answer(overview)).named(
        TAG,
        "rebornOverview",
        "Commands per second, and a short INFO of all masters.",
    ),
    Route::read("/api/server_groups", Handler::Answer(all_groups)).named(TAG, "rebornGroups", "All groups."),
    Route::read("/api/server_group/{id}", Handler::Answer(one_group))
        .named(TAG, "rebornGroup", "A group.")
        .takes(&[ID]),
    Route::change("PUT", "/api/server_groups", Handler::Answer(add_group))
        .named(TAG, "rebornAddGroup", "Adds a group.")
        .takes(&[ID, Parameter::optional("product_name", Kind::Text, "Ignored: an agent has one cluster.")]),
    Route::change("DELETE", "/api/server_group/{id}", Handler::Answer(remove_group))
        .named(TAG, "rebornRemoveGroup", "Removes a group without slots.")
        .takes(&[ID]),
    Route::change("PUT", "/api/server_group/{id}/addServer", Handler::Answer(add_server))
        .named(TAG, "rebornAddServer", "Adds a new store to a group.")
        .takes(SERVER),
    Route::change("PUT", "/api/server_group/{id}/removeServer", Handler::Answer(remove_server))
        .named(TAG, "rebornRemoveServer", "Removes a replica.")
        .takes(SERVER),
    Route::change("POST", "/api/server_group/{id}/promote", Handler::Answer(promote))
        .named(TAG, "rebornPromote", "Makes a replica the master.")
        .takes(SERVER),
    Route::read("/api/migrate/status", Handler::Answer(migrate_status)).named(
        TAG,
        "rebornMigrateStatus",
        "Moves of slots that are under way.",
    ),
    Route::read("/api/migrate/tasks", Handler::Answer(migrate_tasks)).named(
        TAG,
        "rebornMigrateTasks",
        "Moves that wait or run.",
    ),
    Route::change("POST", "/api/migrate", Handler::Answer(migrate))
        .named(TAG, "rebornMigrate", "Moves slots to a group.")
        .takes(&[
            Parameter::required("from", Kind::Integer, "The first slot."),
            Parameter::required("to", Kind::Integer, "The last slot."),
            Parameter::required("new_group", Kind::Integer, "The group that gets them."),
            Parameter::optional("delay", Kind::Integer, "Only 0: slots move by replication, not key by key."),
        ]),
    Route::change("DELETE", "/api/migrate/pending_task/{id}/remove", Handler::Answer(stop_task))
        .named(TAG, "rebornRemoveTask", "Cancels a move that waits.")
        .takes(&[TASK]),
    Route::change("DELETE", "/api/migrate/task/{id}/stop", Handler::Answer(stop_task))
        .named(TAG, "rebornStopTask", "Cancels a move that is under way.")
        .takes(&[TASK]),
    Route::read("/api/rebalance/status", Handler::Answer(rebalance_status)).named(
        TAG,
        "rebornRebalanceStatus",
        "Whether slots are moving.",
    ),
    Route::read("/api/slot/list", Handler::Answer(all_slots)).named(TAG, "rebornSlots", "All slots, one by one."),
    Route::read("/api/slot/{slot}", Handler::Answer(one_slot)).named(TAG, "rebornSlot", "A slot.").takes(&[SLOT]),
    Route::change("POST", "/api/slot", Handler::Answer(set_slots))
        .named(TAG, "rebornSetSlots", "Gives slots to a group.")
        .takes(&[
            Parameter::required("from", Kind::Integer, "The first slot."),
            Parameter::required("to", Kind::Integer, "The last slot."),
            Parameter::required("new_group", Kind::Integer, "The group."),
            Parameter::optional("status", Kind::Text, "online, which is usual, or offline."),
        ]),
    Route::read("/api/proxy/list", Handler::Answer(all_proxies)).named(TAG, "rebornProxies", "All proxies."),
    Route::change("POST", "/api/proxy", Handler::Answer(set_proxy))
        .named(TAG, "rebornSetProxy", "Sets a proxy online or offline.")
        .takes(&[
            Parameter::required("id", Kind::Text, "The proxy, as host:port."),
            Parameter::required("state", Kind::Text, "online, or mark_offline."),
        ]),
    // It forgets by GET there, so it does here; a token is needed.
    Route { access: crate::api::Access::Change, ..Route::read("/api/action/gc", Handler::Answer(gc)) }
        .named(TAG, "rebornGc", "Forgets all changes except the latest.")
        .takes(&[
            Parameter::optional("keep", Kind::Integer, "How many to keep."),
            Parameter::optional("secs", Kind::Integer, "Not here: say how many to keep."),
        ]),
    Route::read("/api/force_remove_locks", Handler::Answer(no_locks)).named(
        TAG,
        "rebornRemoveLocks",
        "Nothing: there are no locks.",
    ),
    Route::read("/api/remove_fence", Handler::Answer(no_locks)).named(
        TAG,
        "rebornRemoveFence",
        "Nothing: there are no fences.",
    ),
    Route::read("/api/redis/{addr}/stat", Handler::Ask(stat))
        .named(TAG, "rebornStat", "INFO of a server of the cluster.")
        .takes(&[ADDR]),
    Route::read("/api/redis/{addr}/{slot}/slotinfo", Handler::Ask(slot_info))
        .named(TAG, "rebornSlotInfo", "The number of keys of a slot at a server.")
        .takes(&[ADDR, SLOT]),
    Route::read("/api/redis/group/{group}/{slot}/slotinfo", Handler::Ask(group_slot_info))
        .named(TAG, "rebornGroupSlotInfo", "The number of keys of a slot at a group's master.")
        .takes(&[GROUP, SLOT]),
    Route::read("/ping", Handler::Answer(|_, _| Ok(done()))).named(TAG, "rebornPing", "Whether the agent answers."),
    Route::change("POST", "/api/start_redis", Handler::Answer(start_redis))
        .named(TAG, "startRedisByPost", START_REDIS)
        .takes(&[ADDR]),
    Route::change("PUT", "/api/start_redis", Handler::Answer(start_redis))
        .named(TAG, "startRedis", START_REDIS)
        .takes(&[ADDR]),
    Route::change("POST", "/api/start_store", Handler::Answer(start_store))
        .named(TAG, "startStoreByPost", START_STORE)
        .takes(&[ADDR]),
    Route::change("PUT", "/api/start_store", Handler::Answer(start_store))
        .named(TAG, "startStore", START_STORE)
        .takes(&[ADDR]),
    Route::change("POST", "/api/start_proxy", Handler::Answer(start_proxy))
        .named(TAG, "startProxyByPost", START_PROXY)
        .takes(&[ADDR]),
    Route::change("PUT", "/api/start_proxy", Handler::Answer(start_proxy))
        .named(TAG, "startProxy", START_PROXY)
        .takes(&[ADDR]),
    Route::change("POST", "/api/stop", Handler::Answer(stop)).named(TAG, "stopByPost", STOP).takes(STOPPED),
    Route::change("PUT", "/api/stop", Handler::Answer(stop)).named(TAG, "stopByPut", STOP).takes(STOPPED),
    Route::change("DELETE", "/api/stop", Handler::Answer(stop)).named(TAG, "stop", STOP).takes(STOPPED),
    Route::read("/api/procs", Handler::Answer(procs)).named(TAG, "procs", "The programs that the agent runs."),
    Route::read("/api/check_store", Handler::Ask(check_store))
        .named(TAG, "checkStore", "Whether a server of the cluster answers.")
        .takes(&[ADDR]),
];

const START_REDIS: &str = "Starts a redis-server that belongs to no group yet; adding a server of this address puts it into one of Redis servers.";
const START_STORE: &str =
    "Starts a store that belongs to no group yet; adding a server of this address puts it into one.";
const START_PROXY: &str = "Adds a proxy.";
const STOP: &str = "Ends a program and takes it off the list: a proxy, or a store that belongs to no group.";
const STOPPED: &[Parameter] =
    &[Parameter::required("id", Kind::Text, "The program, as /api/procs calls it, or its host:port.")];

/// What reborn-config says when something was done.
fn done() -> Value {
    json!({ "ret": 0, "msg": "OK" })
}

fn id(input: &Input) -> Result<GroupId, Problem> {
    group_number(input.integer("id"))
}

fn overview(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let masters: Vec<Address> = conductor.records.cluster.groups.values().map(|group| group.master.clone()).collect();
    let ops: u64 = masters.iter().map(|master| conductor.figures.rate(master)).sum();
    let infos: Vec<Value> = masters
        .iter()
        .map(|master| {
            let (keys, bytes) = conductor.figures.size(master);
            json!({
                "addr": master.to_string(),
                "used_memory": bytes.to_string(),
                "keys": keys.to_string(),
                "instantaneous_ops_per_sec": conductor.figures.rate(master).to_string(),
            })
        })
        .collect();
    Ok(json!({ "product": CLUSTER, "ops": ops, "redis_infos": infos }))
}

fn group_form(conductor: &Conductor, id: GroupId, servers: &[Server], master: &Address) -> Value {
    let servers: Vec<Value> = servers
        .iter()
        .map(|server| {
            let is_up = !conductor.silent.contains_key(&server.address);
            let kind = match (server.address == *master, is_up) {
                (true, _) => "master",
                (false, true) => "slave",
                (false, false) => "offline",
            };
            json!({ "type": kind, "group_id": id, "addr": server.address.to_string() })
        })
        .collect();
    json!({ "id": id, "product_name": CLUSTER, "servers": servers })
}

fn all_groups(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let groups = conductor.records.cluster.groups.iter();
    Ok(groups.map(|(id, group)| group_form(conductor, *id, &group.servers, &group.master)).collect())
}

fn one_group(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let id = id(input)?;
    let group = conductor.records.cluster.groups.get(&id).ok_or(cluster::Refusal::NoGroup(id))?;
    Ok(group_form(conductor, id, &group.servers, &group.master))
}

fn add_group(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    // Servers are added one by one there, the first as the master.
    groups::begin_group(conductor, (id(input)?, ServerKind::Store), (0, 0), false).map(|_| done())
}

fn remove_group(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    groups::end_group(conductor, id(input)?, false).map(|_| done())
}

fn add_server(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    if input.text("type").is_some_and(|kind| kind != "slave") {
        return Err(Problem::Refused("a server joins a group as a slave; promote makes it the master".into()));
    }
    groups::begin_server(conductor, id(input)?, Some(address_of(input, "addr")?), false).map(|_| done())
}

fn remove_server(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    groups::end_server(conductor, (id(input)?, &address_of(input, "addr")?), None, false).map(|_| done())
}

fn promote(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    groups::hand_over(conductor, id(input)?, &address_of(input, "addr")?, false).map(|_| done())
}

fn migrate_status(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let moving = conductor.records.moving();
    let slots: Vec<Value> =
        moving.iter().flat_map(|(what, _)| what.slots.iter()).map(|slot| slot_form(conductor, slot)).collect();
    let task = moving.first().map(|(what, _)| format!("{}-{}", what.slots.first, what.slots.last));
    Ok(json!({ "migrate_slots": slots, "migrate_task": task }))
}

fn migrate_tasks(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let shown = conductor.shown_moves().into_iter().map(|one| {
        let (first, last) = (one.what.slots.first, one.what.slots.last);
        let status = match (one.phase, &one.seen.problem) {
            (_, Some(_)) => "error",
            (cluster::slots::Phase::Planned, None) => "pending",
            _ => "migrating",
        };
        json!({
            "id": format!("{first}-{last}"), "from": first, "to": last, "new_group": one.what.to, "delay": 0, "status": status,
        })
    });
    Ok(shown.collect())
}

fn migrate(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    if input.integer("delay") != 0 {
        return Err(Problem::Wrong("'delay' is 0: slots move by replication, not key by key with pauses".into()));
    }
    let slots = slots_of(input.integer("from"), input.integer("to"))?;
    slots::move_slots(conductor, slots, group_number(input.integer("new_group"))?, false).map(|_| done())
}

fn stop_task(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let wanted = input.text("id").unwrap_or_default();
    let range = wanted.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let Some((first, last)) = range else {
        return Err(Problem::Wrong(format!("'{wanted}' is no move: it is called by its slots, such as 0-99")));
    };
    let range = slots_of(first, last)?;
    if !conductor.records.moving().iter().any(|(what, _)| what.slots == range) {
        return Err(Problem::NotThere(format!("there is no move {wanted} (any more)")));
    }
    slots::stay(conductor, Some(&[range])).map(|_| done())
}

fn rebalance_status(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(json!({ "is_rebalancing": !conductor.records.moving().is_empty() }))
}

fn slot_form(conductor: &Conductor, slot: u16) -> Value {
    let state = conductor.records.cluster.slots.state(slot);
    let (name, from, to) = match state {
        SlotState::Offline => ("offline", -1, -1),
        SlotState::Online { .. } => ("online", -1, -1),
        SlotState::Migrating { from, to, phase: cluster::slots::Phase::Planned, .. } => {
            ("pre_migrate", i64::from(from), i64::from(to))
        }
        SlotState::Migrating { from, to, .. } => ("migrate", i64::from(from), i64::from(to)),
    };
    json!({
        "product_name": CLUSTER,
        "id": slot,
        "group_id": state.owner().map_or(-1, i64::from),
        "state": { "status": name, "migrate_status": { "from": from, "to": to } },
    })
}

fn all_slots(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok((0..cluster::SLOTS).map(|slot| slot_form(conductor, slot)).collect())
}

fn one_slot(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let slot = slots_of(input.integer("slot"), input.integer("slot"))?.first;
    Ok(slot_form(conductor, slot))
}

fn set_slots(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let slots = slots_of(input.integer("from"), input.integer("to"))?;
    let group = match input.text("status") {
        None | Some("" | "online") => Some(input.integer("new_group")),
        Some("offline") => None,
        Some(other) => return Err(Problem::Wrong(format!("'status' is online or offline, not {other}"))),
    };
    slots::give(conductor, slots, group, false).map(|_| done())
}

fn all_proxies(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let Value::Array(proxies) = status::proxies(conductor) else { return Ok(json!([])) };
    let shown = proxies.iter().map(|proxy| {
        json!({ "id": proxy["address"], "addr": proxy["address"], "state": proxy["state"], "pid": proxy["pid"] })
    });
    Ok(shown.collect())
}

fn set_proxy(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let is_offline = match input.text("state").unwrap_or_default() {
        "online" => false,
        "mark_offline" | "offline" => true,
        other => return Err(Problem::Wrong(format!("'state' is online or mark_offline, not {other}"))),
    };
    proxies::set_offline(conductor, &address_of(input, "id")?, is_offline, false).map(|_| done())
}

fn gc(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let Some(keep) = input.maybe_integer("keep") else {
        return Err(Problem::Wrong(
            "'keep' is missing: how many changes are kept; they are not forgotten by age here".into(),
        ));
    };
    actions::forget(conductor, keep).map(|_| done())
}

fn no_locks(_: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(
        json!({ "ret": 0, "msg": "there are none: who changes the cluster says what he has seen, and nobody waits for a lock" }),
    )
}

/// A question to a server, which must be one of the cluster: agents ask nobody else for strangers.
fn question(
    conductor: &Conductor,
    server: Address,
    words: &[&str],
    shape: fn(&Question, &Reply) -> Value,
) -> Result<Question, Problem> {
    if conductor.records.cluster.group_of(&server).is_none() {
        return Err(cluster::Refusal::NoServer(server).into());
    }
    Ok(Question { server, command: command(words), shape })
}

fn stat(conductor: &Conductor, input: &Input) -> Result<Question, Problem> {
    question(conductor, address_of(input, "addr")?, &["INFO"], |_, reply| {
        let text = text(reply);
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let fields: BTreeMap<String, String> =
            fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        json!(fields)
    })
}

fn keys_of_slot(conductor: &Conductor, server: Address, slot: u64) -> Result<Question, Problem> {
    let slot = slots_of(slot, slot)?.first.to_string();
    question(conductor, server, &["CLUSTER", "COUNTKEYSINSLOT", &slot], |asked, reply| {
        let slot: Option<u16> = asked.command.last().and_then(|slot| slot.parse().ok());
        json!({ "keys": reply.as_integer(), "slot_id": slot, "addr": asked.server.to_string() })
    })
}

fn slot_info(conductor: &Conductor, input: &Input) -> Result<Question, Problem> {
    keys_of_slot(conductor, address_of(input, "addr")?, input.integer("slot"))
}

fn group_slot_info(conductor: &Conductor, input: &Input) -> Result<Question, Problem> {
    let id = group(input)?;
    let found = conductor.records.cluster.groups.get(&id).ok_or(cluster::Refusal::NoGroup(id))?;
    keys_of_slot(conductor, found.master.clone(), input.integer("slot"))
}

fn check_store(conductor: &Conductor, input: &Input) -> Result<Question, Problem> {
    question(conductor, address_of(input, "addr")?, &["PING"], |_, _| done())
}

fn start_redis(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    conductor.may_run_redis()?;
    start_server(conductor, input, ServerKind::Redis)
}

fn start_store(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    start_server(conductor, input, ServerKind::Store)
}

fn start_server(conductor: &mut Conductor, input: &Input, kind: ServerKind) -> Result<Value, Problem> {
    let address = address_of(input, "addr")?;
    if conductor.processes.declared().any(|one| one.address == address) {
        return Err(Problem::Refused(format!("{address} belongs to a program of this agent already (see /api/procs)")));
    }
    conductor.may_start_at(&address)?;
    let declared = conductor.start_loose(address, kind)?;
    Ok(json!({ "id": declared.name, "type": declared.program, "addr": declared.address.to_string() }))
}

fn start_proxy(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    proxies::begin_proxy(conductor, Some(address_of(input, "addr")?), false)
}

fn stop(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let wanted = input.text("id").unwrap_or_default();
    let is_meant = |one: &&Declared| one.name == wanted || one.address.to_string() == wanted;
    let found = conductor.processes.declared().find(is_meant).cloned();
    let found = found.ok_or_else(|| Problem::NotThere(format!("there is no program {wanted} (see /api/procs)")))?;
    match (conductor.records.cluster.group_of(&found.address), found.program) {
        (Some(group), _) => Err(Problem::Refused(format!(
            "{} is a server of group {group}, and would be started again: `tidegate cluster server remove {group} {}` removes it",
            found.name, found.address
        ))),
        (None, Program::Proxy) => proxies::end_proxy(conductor, &found.address, false),
        (None, Program::Store | Program::Redis) => {
            let now = conductor.now();
            conductor.processes.stop(&found.address, now);
            conductor.write_declared();
            Ok(done())
        }
    }
}

fn procs(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let shown = conductor.processes.declared().map(|one| {
        let pid = conductor.processes.pid(&one.address);
        json!({ "id": one.name, "type": one.program, "addr": one.address.to_string(), "pid": pid, "running": pid.is_some() })
    });
    Ok(shown.collect())
}
