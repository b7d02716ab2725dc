//! What can be asked of an agent: one table, from which the command line and later the page and REST are served.

use cluster::{Address, GroupId, SlotRange, plan, slots::SlotEvent};
use serde_json::{Value, json};

use super::{Conductor, status};
use crate::{
    error::AgentError,
    http::{Request, Response},
};

type Handler = fn(&mut Conductor, &Value) -> Result<Value, Problem>;

/// Why something is not done.
#[derive(Debug)]
enum Problem {
    /// The request makes no sense.
    Wrong(String),
    /// It is not done now.
    Refused(String),
}

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        Self::Refused(said(&error))
    }
}

impl From<cluster::Refusal> for Problem {
    fn from(refusal: cluster::Refusal) -> Self {
        Self::Refused(said(&refusal))
    }
}

/// An error with what it comes from.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Everything that can be asked.
const TABLE: &[(&str, &str, Handler)] = &[
    ("GET", "/api/status", |conductor, _| Ok(status::whole(conductor))),
    ("GET", "/api/moves", |conductor, _| Ok(status::moves(conductor))),
    ("GET", "/api/history", history),
    ("POST", "/api/history/gc", forget_history),
    ("POST", "/api/servers/promote", promote),
    ("POST", "/api/slots/init", init_slots),
    ("POST", "/api/slots/set", set_slots),
    ("POST", "/api/slots/migrate", migrate),
    ("POST", "/api/slots/rebalance", rebalance),
    ("POST", "/api/slots/cancel", cancel),
    ("POST", "/api/down", down),
];

/// Answers a request.
pub fn answer(conductor: &mut Conductor, request: &Request) -> Response {
    let path = request.path.split('?').next().unwrap_or_default();
    let at_path = || TABLE.iter().filter(|(_, known, _)| *known == path);
    let Some((_, _, handler)) = at_path().find(|(method, _, _)| *method == request.method) else {
        let is_there = at_path().next().is_some();
        let (status, what) = if is_there { (405, "cannot be asked that way") } else { (404, "is not known") };
        return Response::refused(status, format!("{} {path} {what}", request.method));
    };
    match handler(conductor, &request.body) {
        Ok(body) => Response::good(body),
        Err(Problem::Wrong(text)) => Response::refused(400, text),
        Err(Problem::Refused(text)) => Response::refused(409, text),
    }
}

fn number(body: &Value, name: &str) -> Result<u64, Problem> {
    let number = body.get(name).and_then(Value::as_u64);
    number.ok_or_else(|| Problem::Wrong(format!("'{name}' is missing, or no number")))
}

fn group(body: &Value) -> Result<GroupId, Problem> {
    GroupId::try_from(number(body, "group")?).map_err(|_| Problem::Wrong("'group' is too large".into()))
}

fn slots(body: &Value) -> Result<SlotRange, Problem> {
    let slot = |name: &str| Ok::<u16, Problem>(u16::try_from(number(body, name)?).unwrap_or(u16::MAX));
    SlotRange::new(slot("first")?, slot("last")?)
        .map_err(|error: cluster::slots::NoRange| Problem::Wrong(error.to_string()))
}

fn server(body: &Value) -> Result<Address, Problem> {
    let text =
        body.get("server").and_then(Value::as_str).ok_or_else(|| Problem::Wrong("'server' is missing".into()))?;
    text.parse().map_err(|error: cluster::model::NoAddress| Problem::Wrong(error.to_string()))
}

/// Whether only a plan is wanted.
fn is_plan(body: &Value) -> bool {
    body.get("plan").and_then(Value::as_bool).unwrap_or(false)
}

fn history(conductor: &mut Conductor, _: &Value) -> Result<Value, Problem> {
    let changes = conductor.records.history()?;
    let shown = changes
        .iter()
        .map(|change| json!({ "epoch": change.epoch, "at": change.at, "by": change.by, "what": change.what }));
    Ok(shown.collect())
}

fn forget_history(conductor: &mut Conductor, body: &Value) -> Result<Value, Problem> {
    let keep = usize::try_from(number(body, "keep")?).unwrap_or(usize::MAX);
    let removed = conductor.records.forget_history(keep.max(1))?;
    Ok(json!({ "removed": removed }))
}

fn promote(conductor: &mut Conductor, body: &Value) -> Result<Value, Problem> {
    let (id, server, now) = (group(body)?, server(body)?, conductor.now());
    let cluster = &conductor.records.cluster;
    cluster.with_master(id, &server)?;
    let Some(found) = cluster.groups.get(&id).cloned() else { return Err(cluster::Refusal::NoGroup(id).into()) };
    let plan = json!({ "group": id, "from": found.master.to_string(), "to": server.to_string() });
    if is_plan(body) {
        return Ok(plan);
    }
    let in_sync = conductor.records.in_sync(id);
    let Some(keeper) = conductor.keepers.get_mut(&id) else {
        return Err(Problem::Refused(format!("group {id} has not been looked at yet: try again")));
    };
    keeper.hand_over(&server, &found, &in_sync, now).map_err(|error| Problem::Refused(error.to_string()))?;
    Ok(plan)
}

fn change(conductor: &mut Conductor, next: cluster::Cluster, what: &str) -> Result<(), Problem> {
    conductor.records.change(next, "operator", what)?;
    conductor.note(what);
    Ok(())
}

fn init_slots(conductor: &mut Conductor, _: &Value) -> Result<Value, Problem> {
    let next = conductor.records.cluster.with_slots_shared_out()?;
    change(conductor, next, "all slots are given to the groups in equal shares")?;
    Ok(json!({}))
}

fn set_slots(conductor: &mut Conductor, body: &Value) -> Result<Value, Problem> {
    let slots = slots(body)?;
    let (event, what) = match body.get("group") {
        Some(Value::Null) | None => (SlotEvent::Release, format!("slots {slots} are set offline")),
        Some(_) => {
            let id = group(body)?;
            (SlotEvent::Assign(id), format!("slots {slots} are given to group {id}"))
        }
    };
    let next = conductor.records.cluster.with_slots(slots, event)?;
    if !is_plan(body) {
        change(conductor, next, &what)?;
    }
    Ok(json!({ "what": what }))
}

fn moves_json(moves: &[plan::Move]) -> Value {
    let shown = moves
        .iter()
        .map(|one| json!({ "first": one.slots.first, "last": one.slots.last, "from": one.from, "to": one.to }));
    let slots: u32 = moves.iter().map(|one| u32::from(one.slots.count())).sum();
    json!({ "moves": shown.collect::<Vec<_>>(), "slots": slots })
}

fn begin_moves(conductor: &mut Conductor, body: &Value, moves: &[plan::Move], what: &str) -> Result<Value, Problem> {
    let next = conductor.records.cluster.with_moves(moves)?;
    if conductor.mover.is_none() {
        return Err(Problem::Refused("this version cannot copy slots while they are served yet".into()));
    }
    if !is_plan(body) && !moves.is_empty() {
        change(conductor, next, what)?;
    }
    Ok(moves_json(moves))
}

fn migrate(conductor: &mut Conductor, body: &Value) -> Result<Value, Problem> {
    let (slots, to) = (slots(body)?, group(body)?);
    let moves = plan::to_group(&conductor.records.cluster, slots, to)?;
    begin_moves(conductor, body, &moves, &format!("slots {slots} are to move to group {to}"))
}

fn rebalance(conductor: &mut Conductor, body: &Value) -> Result<Value, Problem> {
    let moves = plan::rebalance(&conductor.records.cluster, |_| 1)?;
    begin_moves(
        conductor,
        body,
        &moves,
        &format!("groups are to have the same share: {} ranges are to move", moves.len()),
    )
}

fn cancel(conductor: &mut Conductor, _: &Value) -> Result<Value, Problem> {
    let mut next = conductor.records.cluster.clone();
    let mut cancelled = Vec::new();
    for (one, phase) in conductor.records.cluster.moving() {
        // What has moved stays there.
        if phase != cluster::slots::Phase::Clearing {
            next = next.with_slots(one.slots, SlotEvent::Cancel)?;
            cancelled.push(one);
        }
    }
    if !cancelled.is_empty() {
        next.epoch = conductor.records.cluster.epoch + 1;
        change(conductor, next, &format!("{} ranges stay where they are: their moves are cancelled", cancelled.len()))?;
    }
    Ok(moves_json(&cancelled))
}

fn down(conductor: &mut Conductor, _: &Value) -> Result<Value, Problem> {
    conductor.is_ending = true;
    Ok(json!({ "pid": std::process::id() }))
}
