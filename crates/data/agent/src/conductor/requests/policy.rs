//! What agents do by themselves and what waits for a person.

use cluster::policy::{Action, Mode, NoPolicy};
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, change};
use crate::api::{Input, Kind, Parameter};

const TAG: &str = "policy";
const NUMBER: Parameter = Parameter::required("number", Kind::Integer, "Its number, from /api/pending.");

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/policy", Handler::Answer(show)).named(
        TAG,
        "policy",
        "Which actions agents take by themselves (auto), which wait for a person (ask), and which a person takes (off).",
    ),
    Route::change("POST", "/api/policy", Handler::Answer(set))
        .named(TAG, "setPolicy", "Sets who decides about an action.")
        .takes(&[
            Parameter::required("action", Kind::Text, "failover, restart, rejoin or rebalance."),
            Parameter::required("mode", Kind::Text, "auto, ask or off."),
            PLAN,
        ]),
    Route::read("/api/pending", Handler::Answer(pending)).named(
        TAG,
        "pending",
        "Actions that wait for a person, with their numbers; state is waits, confirmed, refused or off.",
    ),
    Route::change(
        "POST",
        "/api/pending/{number}/confirm",
        Handler::Answer(|conductor, input| answer(conductor, input, true)),
    )
    .named(
        TAG,
        "confirm",
        "Confirms a waiting action: the agent carries it out. Of something that may have been lost, it takes note: it is told no more.",
    )
    .takes(&[NUMBER, PLAN]),
    Route::change(
        "POST",
        "/api/pending/{number}/refuse",
        Handler::Answer(|conductor, input| answer(conductor, input, false)),
    )
    .named(TAG, "refuse", "Refuses an action for as long as its cause lasts.")
    .takes(&[NUMBER, PLAN]),
];

fn show(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let policy = conductor.records.cluster.policy;
    let shown = |action: &Action| json!({ "action": action, "mode": policy.mode(*action), "about": action.about() });
    Ok(Action::ALL.iter().map(shown).collect())
}

fn set(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let wrong = |error: NoPolicy| Problem::Wrong(error.to_string());
    let action: Action = input.text("action").unwrap_or_default().parse().map_err(wrong)?;
    let mode: Mode = input.text("mode").unwrap_or_default().parse().map_err(wrong)?;
    let what = format!("policy: {action} is {mode}");
    let cluster = &conductor.records.cluster;
    if cluster.policy.mode(action) != mode && !input.flag("plan") {
        let next = cluster.with_policy(cluster.policy.with(action, mode));
        change(conductor, next, &what)?;
    }
    Ok(json!({ "what": what }))
}

fn pending(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(conductor.shown_pending())
}

fn answer(conductor: &mut Conductor, input: &Input, is_confirmed: bool) -> Result<Value, Problem> {
    let number = input.integer("number");
    let what = if input.flag("plan") {
        conductor.plan_answer(number, is_confirmed)?
    } else {
        conductor.answer_pending(number, is_confirmed)?
    };
    Ok(json!({ "what": what }))
}
