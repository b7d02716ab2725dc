//! Changes that were made, and taking them back.

use cluster::{
    Cluster, Epoch,
    undo::{self, Undo},
};
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, groups, proxies, slots};
use crate::{
    api::{Input, Kind, Parameter},
    records::Change,
};

const TAG: &str = "actions";

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/actions", Handler::Answer(history)).named(
        TAG,
        "actions",
        "The changes of the cluster, the oldest first.",
    ),
    Route::change("POST", "/api/actions/gc", Handler::Answer(gc))
        .named(TAG, "forgetActions", "Forgets all changes except the latest.")
        .takes(&[Parameter::required("keep", Kind::Integer, "How many to keep."), PLAN]),
    Route::change("POST", "/api/actions/{epoch}/undo", Handler::Answer(take_back))
        .named(TAG, "undo", "Undoes a change, if that is possible.")
        .takes(&[Parameter::required("epoch", Kind::Integer, "The change, by the epoch that it made."), PLAN]),
];

fn history(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(conductor.records.history()?.iter().map(shown).collect())
}

/// A change without the cluster after it.
pub fn shown(change: &Change) -> Value {
    json!({ "epoch": change.epoch, "at": change.at, "by": change.by, "what": change.what })
}

fn gc(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let keep = input.integer("keep");
    if input.flag("plan") {
        let kept = usize::try_from(keep).unwrap_or(usize::MAX).max(1);
        return Ok(json!({ "removed": conductor.records.history()?.len().saturating_sub(kept) }));
    }
    forget(conductor, keep)
}

/// Forgets all but the last changes.
pub(super) fn forget(conductor: &mut Conductor, keep: u64) -> Result<Value, Problem> {
    let removed = conductor.records.forget_history(usize::try_from(keep).unwrap_or(usize::MAX).max(1))?;
    Ok(json!({ "removed": removed }))
}

fn take_back(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let (epoch, is_plan) = (input.integer("epoch"), input.flag("plan"));
    let (before, after) = around(&conductor.records.history()?, epoch)?;
    let found = undo::undo(&before, &after, &conductor.records.cluster);
    let found = found.map_err(|problem| Problem::Refused(format!("change {epoch} is not taken back: {problem}")))?;
    do_undo(conductor, epoch, found, is_plan)
}

/// The cluster before a change and after it.
fn around(history: &[Change], epoch: Epoch) -> Result<(Cluster, Cluster), Problem> {
    let place = history.iter().position(|change| change.epoch == epoch);
    let change = place.and_then(|place| history.get(place)).ok_or_else(|| {
        Problem::NotThere(format!(
            "there is no change {epoch}, or it has been forgotten (see `tidegate cluster action history`)"
        ))
    })?;
    let before = place.and_then(|place| place.checked_sub(1)).and_then(|place| history.get(place));
    match before {
        Some(before) if before.epoch + 1 == epoch => Ok((before.cluster.clone(), change.cluster.clone())),
        _ if epoch == 1 => Ok((Cluster::default(), change.cluster.clone())),
        _ => Err(Problem::Refused(format!(
            "the change before {epoch} has been forgotten: what it was about is not known"
        ))),
    }
}

fn do_undo(conductor: &mut Conductor, epoch: Epoch, undo: Undo, is_plan: bool) -> Result<Value, Problem> {
    match undo {
        Undo::MoveSlots { cancelled, moves } => {
            let what = format!("change {epoch} is taken back: {} to move back", slots::ranges(moves.len()));
            let stays = cancelled.len();
            if !is_plan && !cancelled.is_empty() {
                slots::stay(conductor, Some(&cancelled))?;
            }
            let mut answer = slots::begin_moves(conductor, &moves, &what, is_plan)?;
            if let Some(fields) = answer.as_object_mut() {
                fields.insert("cancelled".into(), json!(cancelled));
                if stays > 0 {
                    fields.insert("what".into(), format!("{what}, {stays} stay where they are").into());
                }
            }
            Ok(answer)
        }
        Undo::Promote { group, server } => groups::hand_over(conductor, group, &server, is_plan),
        Undo::RemoveServer { group, server } => groups::end_server(conductor, (group, &server), None, is_plan),
        Undo::RemoveGroup(group) => groups::end_group(conductor, group, is_plan),
        Undo::RemoveProxy(proxy) => proxies::end_proxy(conductor, &proxy, is_plan),
        Undo::AddProxy(proxy) => proxies::begin_proxy(conductor, Some(proxy), is_plan),
        Undo::SetProxyOffline { proxy, is_offline } => proxies::set_offline(conductor, &proxy, is_offline, is_plan),
    }
}
