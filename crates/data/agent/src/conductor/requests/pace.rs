//! How fast slots move.

use cluster::pace::MoveBounds;
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, change};
use crate::api::{Input, Kind, Parameter};

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/migrations/pace", Handler::Answer(shown)).named(
        "slots",
        "pace",
        "How fast slots may move, and the longest time that commands on slots had to wait.",
    ),
    Route::change("POST", "/api/migrations/pace", Handler::Answer(set))
        .named(
            "slots",
            "setPace",
            "Sets how fast slots may move, also those that are moving. Parameters that you leave out stay.",
        )
        .takes(&[
            Parameter::optional("rate", Kind::Integer, "Bytes per second of all copies together; 0: no bound."),
            Parameter::optional(
                "parallel",
                Kind::Integer,
                "How many copies run at once, each between a different pair of groups (1 to 64).",
            ),
            Parameter::optional(
                "latency_ms",
                Kind::Integer,
                "Slow copies down when a server takes longer than this to answer, in milliseconds; 0: never.",
            ),
            PLAN,
        ]),
];

fn shown(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(seen(conductor, conductor.records.cluster.moves))
}

fn seen(conductor: &Conductor, bounds: MoveBounds) -> Value {
    let mut shown = json!(bounds);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("longest_pause_ms".into(), conductor.controller.longest_pause_ms().into());
    }
    shown
}

fn set(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let mut bounds = conductor.records.cluster.moves;
    if let Some(rate) = input.maybe_integer("rate") {
        if rate > 0 && rate < MoveBounds::RATE_MIN {
            return Err(Problem::Wrong(format!("'rate' is 0, or at least {} bytes a second", MoveBounds::RATE_MIN)));
        }
        bounds.rate = (rate > 0).then_some(rate);
    }
    if let Some(parallel) = input.maybe_integer("parallel") {
        let parallel = u16::try_from(parallel).ok().filter(|count| (1..=MoveBounds::PARALLEL_MAX).contains(count));
        bounds.parallel =
            parallel.ok_or_else(|| Problem::Wrong(format!("'parallel' is 1 to {}", MoveBounds::PARALLEL_MAX)))?;
    }
    if let Some(latency_ms) = input.maybe_integer("latency_ms") {
        bounds.latency_ms = latency_ms;
    }
    if input.flag("plan") {
        return Ok(seen(conductor, bounds));
    }
    if bounds != conductor.records.cluster.moves {
        let mut next = conductor.records.cluster.clone();
        next.epoch += 1;
        next.moves = bounds;
        let rate = bounds.rate.map_or("no bound".to_owned(), |rate| format!("{rate} bytes a second"));
        let what = format!(
            "slots move with: {rate}, {} copies at once, slower when servers take more than {} ms",
            bounds.parallel, bounds.latency_ms
        );
        change(conductor, next, &what)?;
    }
    shown(conductor, input)
}
