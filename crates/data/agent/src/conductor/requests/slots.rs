//! Slots and their moves.

use std::collections::BTreeMap;

use basics::many;
use cluster::{
    SlotRange,
    plan::{self, Goal},
    slots::SlotEvent,
};
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, change, change_or_plan, group, group_number, slots_of};
use crate::{
    api::{Input, Kind, Parameter},
    conductor::status,
    survey::{Measure, Survey},
};

/// By how many thousandths groups may miss their shares, as with redis-cli (2 %).
const TOLERANCE: u64 = 20;
/// What was found of slots is good for so many milliseconds: the plan that is carried out is the one that was shown.
const FRESH_MS: u64 = 60_000;

const TAG: &str = "slots";
const FIRST: Parameter = Parameter::required("first", Kind::Integer, "The first slot.");
const LAST: Parameter = Parameter::required("last", Kind::Integer, "The last slot (inclusive).");
const SLOT: Parameter = Parameter::required("slot", Kind::Integer, "The slot, 0 to 16383.");

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/slots", Handler::Answer(all)).named(
        TAG,
        "slots",
        "Which group has which slots, as ranges with their state.",
    ),
    Route::read("/api/slots/{slot}", Handler::Answer(one))
        .named(TAG, "slot", "The group that has a slot.")
        .takes(&[SLOT]),
    Route::change("POST", "/api/slots/init", Handler::Answer(init))
        .named(TAG, "initSlots", "Gives all slots to the groups in equal shares, if no group has any yet.")
        .takes(&[PLAN]),
    Route::change("POST", "/api/slots/set", Handler::Answer(set))
        .named(TAG, "setSlots", "Gives slots that no group has to a group, or takes slots away from their groups.")
        .takes(&[
            FIRST,
            LAST,
            Parameter::optional("group", Kind::Integer, "The group; without it, no group serves the slots any more."),
            PLAN,
        ]),
    Route::read("/api/migrations", Handler::Answer(moves)).named(
        TAG,
        "migrations",
        "Moves of slots that are under way.",
    ),
    Route::change("POST", "/api/migrations", Handler::Answer(migrate))
        .named(TAG, "migrate", "Moves slots with all their keys to a group, while clients use them.")
        .takes(&[FIRST, LAST, Parameter::required("group", Kind::Integer, "The group that gets them."), PLAN]),
    Route::change("DELETE", "/api/migrations", Handler::Answer(cancel))
        .named(
            TAG,
            "cancelMigrations",
            "Cancels all moves that have not been completed: their slots stay where they are.",
        )
        .takes(&[PLAN]),
    Route::change("POST", "/api/rebalance", Handler::Answer(rebalance))
        .named(TAG, "rebalance", "Moves slots until groups have their shares, with few moves.")
        .takes(&[
            Parameter::optional("drain", Kind::Integer, "A group that gives all its slots to the others."),
            Parameter::optional(
                "by",
                Kind::Text,
                "What the groups share equally: slots (the default), keys, bytes, or load.",
            ),
            Parameter::optional(
                "weights",
                Kind::Text,
                "The weights of groups, as 1=2,3=0.5; the default is 1, and 0 is nothing.",
            ),
            Parameter::optional(
                "tolerance",
                Kind::Integer,
                "How many thousandths a group may differ from its share (20; 0 with slots).",
            ),
            PLAN,
        ]),
];

fn all(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(json!(conductor.records.cluster.slots.runs()))
}

fn one(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let slot = slots_of(input.integer("slot"), input.integer("slot"))?.first;
    let state = conductor.records.cluster.slots.state(slot);
    let mut shown = json!(state);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("slot".into(), slot.into());
        fields.insert("served_by".into(), json!(state.owner()));
    }
    Ok(shown)
}

fn moves(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::moves(conductor))
}

fn init(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    share_out(conductor, input.flag("plan"))
}

/// Gives all slots to the groups.
pub(super) fn share_out(conductor: &mut Conductor, is_plan: bool) -> Result<Value, Problem> {
    let next = conductor.records.cluster.with_slots_shared_out()?;
    let what = "all slots are given to the groups in equal shares";
    change_or_plan(conductor, next, is_plan, json!({ "what": what }))
}

fn set(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let slots = slots_of(input.integer("first"), input.integer("last"))?;
    give(conductor, slots, input.maybe_integer("group"), input.flag("plan"))
}

/// Gives slots to a group, or takes them away from theirs.
pub(super) fn give(
    conductor: &mut Conductor,
    slots: SlotRange,
    group: Option<u64>,
    is_plan: bool,
) -> Result<Value, Problem> {
    let (event, what) = match group {
        None => (SlotEvent::Release, format!("slots {slots} are set offline")),
        Some(id) => (SlotEvent::Assign(group_number(id)?), format!("slots {slots} are given to group {id}")),
    };
    let next = conductor.records.cluster.with_slots(slots, event)?;
    change_or_plan(conductor, next, is_plan, json!({ "what": what }))
}

/// Moves as JSON.
pub(super) fn moves_json(moves: &[plan::Move]) -> Value {
    let shown = moves
        .iter()
        .map(|one| json!({ "first": one.slots.first, "last": one.slots.last, "from": one.from, "to": one.to }));
    let slots: u32 = moves.iter().map(|one| u32::from(one.slots.count())).sum();
    json!({ "moves": shown.collect::<Vec<_>>(), "slots": slots })
}

/// Begins moves, or says what they would be.
pub(super) fn begin_moves(
    conductor: &mut Conductor,
    moves: &[plan::Move],
    what: &str,
    is_plan: bool,
) -> Result<Value, Problem> {
    let next = conductor.records.cluster.with_moves(moves)?;
    if conductor.mover.is_none() {
        return Err(Problem::Refused("this version cannot copy slots while they are served".into()));
    }
    let sizes = moves.iter().map(|one| conductor.size_about(*one));
    let (keys, bytes) = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    if !is_plan && !moves.is_empty() {
        change(conductor, next, what)?;
    }
    let mut answer = moves_json(moves);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("what".into(), what.into());
        fields.insert("keys_about".into(), keys.into());
        fields.insert("bytes_about".into(), bytes.into());
    }
    Ok(answer)
}

fn migrate(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let slots = slots_of(input.integer("first"), input.integer("last"))?;
    move_slots(conductor, slots, group(input)?, input.flag("plan"))
}

/// Moves slots to a group.
pub(super) fn move_slots(
    conductor: &mut Conductor,
    slots: SlotRange,
    to: cluster::GroupId,
    is_plan: bool,
) -> Result<Value, Problem> {
    let moves = plan::to_group(&conductor.records.cluster, slots, to)?;
    begin_moves(conductor, &moves, &format!("slots {slots} are to move to group {to}"), is_plan)
}

fn rebalance(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let by = input.text("by").unwrap_or("slots");
    let by =
        Measure::parse(by).ok_or_else(|| Problem::Wrong(format!("'by' is slots, keys, bytes or load, not {by}")))?;
    let shares = shares_of(input.text("weights").unwrap_or_default())?;
    // Slots can be counted out; everything else changes while it is moved.
    let usual = if by == Measure::Slots { 0 } else { TOLERANCE };
    let goal = Goal { shares, tolerance: input.maybe_integer("tolerance").unwrap_or(usual) };
    spread(conductor, input.maybe_integer("drain"), &Wish { by, goal }, input.flag("plan"))
}

/// `1=2,3=0.5`: how much groups are to have beside the others.
fn shares_of(text: &str) -> Result<BTreeMap<cluster::GroupId, u64>, Problem> {
    let wrong = |part: &str| Problem::Wrong(format!("'{part}' is no share of a group: 3=1.5 is expected (0 to 1000)"));
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (group, share) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let group = group.parse().map_err(|_| wrong(part))?;
            let share: f64 = share.parse().map_err(|_| wrong(part))?;
            if !(0.0..=1_000.0).contains(&share) {
                return Err(wrong(part));
            }
            Ok((group, (share * Goal::ONE as f64).round() as u64))
        })
        .collect()
}

/// How groups are to share the slots.
#[derive(Debug)]
pub(super) struct Wish {
    by: Measure,
    goal: Goal,
}

impl Default for Wish {
    fn default() -> Self {
        Self { by: Measure::Slots, goal: Goal::default() }
    }
}

/// What slots weigh.
fn weights(conductor: &Conductor, measure: Measure) -> Result<BTreeMap<u16, u64>, Problem> {
    let now = conductor.now();
    let fresh = conductor.measured.as_ref().filter(|(at, found)| found.measure == measure && now < at + FRESH_MS);
    if let Some((_, found)) = fresh {
        return Ok(found.weights.clone());
    }
    let groups = &conductor.records.cluster.groups;
    if let Some((id, _)) = groups.iter().find(|(_, group)| !group.kind().is_store()) {
        return Err(Problem::Refused(format!(
            "group {id} is of Redis servers, which do not say what each slot has: `--by slots` shares the slots themselves"
        )));
    }
    let masters = groups.values().map(|group| group.master.clone()).collect();
    Err(Problem::Unmeasured(Survey { masters, measure }))
}

/// Moves slots so that groups have the shares that are wished for, or one of them none.
pub(super) fn spread(
    conductor: &mut Conductor,
    drained: Option<u64>,
    wish: &Wish,
    is_plan: bool,
) -> Result<Value, Problem> {
    let cluster = &conductor.records.cluster;
    let (moves, what) = match drained {
        None if wish.by == Measure::Slots => {
            let moves = plan::rebalance(cluster, |_| 1, &wish.goal)?;
            let what = format!("groups are to have the same share: {} to move", ranges(moves.len()));
            (moves, what)
        }
        None => {
            // Before everybody is asked it is looked whether it makes sense at all.
            plan::rebalance(cluster, |_| 1, &wish.goal)?;
            let weights = weights(conductor, wish.by)?;
            let moves = plan::rebalance(cluster, |slot| weights.get(&slot).copied().unwrap_or(0), &wish.goal)?;
            let by = wish.by.word();
            let what = format!("groups are to have the same share of {by}: {} to move", ranges(moves.len()));
            (moves, what)
        }
        Some(id) => {
            let moves = plan::drain(cluster, group_number(id)?)?;
            let what = format!("group {id} is to have no slots: {} to move to the others", ranges(moves.len()));
            (moves, what)
        }
    };
    begin_moves(conductor, &moves, &what, is_plan)
}

/// Ranges of slots that something is about to happen to.
pub(super) fn ranges(count: usize) -> String {
    many(count, "range is", "ranges are")
}

fn cancel(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    if input.flag("plan") { cancelled(conductor, None).map(|(_, all)| moves_json(&all)) } else { stay(conductor, None) }
}

/// The cluster without moves that can still be cancelled, and these moves.
fn cancelled(
    conductor: &Conductor,
    which: Option<&[SlotRange]>,
) -> Result<(cluster::Cluster, Vec<cluster::plan::Move>), Problem> {
    let mut next = conductor.records.cluster.clone();
    let mut cancelled = Vec::new();
    for (one, phase) in conductor.records.moving().iter().copied() {
        let is_meant = which.is_none_or(|ranges| ranges.iter().any(|range| range.overlaps(one.slots)));
        // What has moved stays there.
        if is_meant && matches!(phase, cluster::slots::Phase::Planned | cluster::slots::Phase::Copying) {
            next = next.with_slots(one.slots, SlotEvent::Cancel)?;
            cancelled.push(one);
        }
    }
    Ok((next, cancelled))
}

/// Lets slots stay where they are: all that have not moved yet, or those of some ranges.
pub(super) fn stay(conductor: &mut Conductor, which: Option<&[SlotRange]>) -> Result<Value, Problem> {
    let (mut next, cancelled) = cancelled(conductor, which)?;
    if !cancelled.is_empty() {
        next.epoch = conductor.records.cluster.epoch + 1;
        let (one, more) = ("range stays where it is: its move is", "ranges stay where they are: their moves are");
        change(conductor, next, &format!("{} cancelled", many(cancelled.len(), one, more)))?;
    }
    Ok(moves_json(&cancelled))
}
