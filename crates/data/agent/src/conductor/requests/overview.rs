//! How the cluster is.

use serde_json::{Value, json};

use super::{Conductor, Handler, Problem, Route, TABLE};
use crate::{
    api::{self, Input},
    conductor::status,
};

const TAG: &str = "cluster";

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/status", Handler::Answer(whole)).named(
        TAG,
        "status",
        "Groups, servers, proxies, moves of slots.",
    ),
    Route::read("/api/live", Handler::Answer(live)).named(
        TAG,
        "live",
        "The same with figures of the last minute and the last changes, for the page.",
    ),
    Route::read("/api/agents", Handler::Answer(agents)).named(TAG, "agents", "The agents that look after servers."),
    Route::read("/api/processes", Handler::Answer(processes)).named(TAG, "processes", "The programs that agents run."),
    Route::read("/api/openapi.json", Handler::Answer(|_, _| Ok(description()))).named(
        TAG,
        "openapi",
        "This description.",
    ),
    Route::change("POST", "/api/down", Handler::Answer(down)).named(
        TAG,
        "down",
        "Ends the cluster: all its stores, proxies and the agent.",
    ),
];

/// The description of all routes.
pub(super) fn description() -> Value {
    api::describe(
        &TABLE,
        "Tidegate cluster",
        "What can be asked of the agent of a cluster. What moves data or roles says with \"plan\": true what it would do. \
         Routes of the tag reborn are RebornDB's, in its forms.",
    )
}

fn whole(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::whole(conductor))
}

fn live(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::live(conductor))
}

fn agents(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::agents(conductor))
}

fn processes(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::processes(conductor))
}

fn down(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    conductor.is_ending = true;
    Ok(json!({ "pid": std::process::id() }))
}
