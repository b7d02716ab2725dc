//! How the cluster is.

use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, TABLE};
use crate::{
    api::{self, Input},
    conductor::status,
    http::Response,
    metrics,
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
    Route::read("/api/health", Handler::Talk(health)).named(
        TAG,
        "health",
        "Whether the cluster serves: 200 if it does, 503 if not. /health is the same.",
    ),
    Route::read("/api/metrics", Handler::Answer(metrics)).named(
        TAG,
        "metrics",
        "The state and the load of all servers in Prometheus' format, as a text in JSON; /metrics is the text itself.",
    ),
    Route::read("/api/agents", Handler::Answer(agents)).named(TAG, "agents", "The agents that look after servers."),
    Route::read("/api/processes", Handler::Answer(processes)).named(TAG, "processes", "The programs that agents run."),
    Route::read("/api/openapi.json", Handler::Answer(|_, _| Ok(description()))).named(
        TAG,
        "openapi",
        "This description.",
    ),
    Route::change("POST", "/api/down", Handler::Answer(down))
        .named(TAG, "down", "Ends what runs on this host: stores, proxies and the agent.")
        .takes(&[PLAN]),
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

fn health(conductor: &mut Conductor, _: &Input) -> Result<Response, Problem> {
    let (status, body) = metrics::health(&status::whole(conductor));
    Ok(Response::Said { status, body })
}

fn metrics(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(json!({ "text": metrics::render(&status::whole(conductor), &conductor.figures.all()) }))
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

fn down(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let programs: Vec<String> = conductor.processes.declared().map(|one| one.name.clone()).collect();
    conductor.is_ending |= !input.flag("plan");
    let what = format!("the agent ends, and with it {}", programs.join(", "));
    Ok(json!({ "pid": std::process::id(), "what": what }))
}
