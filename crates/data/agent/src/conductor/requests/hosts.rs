//! Hosts and their votes.

use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, change_or_plan};
use crate::{
    api::{Input, Kind, Parameter},
    conductor::{start, status},
};

const TAG: &str = "hosts";

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/hosts", Handler::Answer(all)).named(
        TAG,
        "hosts",
        "All hosts: their addresses, votes, and whether their agents are there.",
    ),
    Route::change("DELETE", "/api/hosts/{host}", Handler::Answer(remove))
        .named(TAG, "removeHost", "Removes a host that is gone for good: its vote, its replicas and its proxies.")
        .takes(&[Parameter::required("host", Kind::Text, "The host's name or its address."), PLAN]),
    Route::read("/api/record", Handler::Answer(record)).named(
        TAG,
        "record",
        "The record of the cluster, as the folder of this host has it: what `cluster rescue` takes.",
    ),
    Route::change("POST", "/api/rescue", Handler::Answer(rescue))
        .named(TAG, "rescue", "Makes a cluster anew whose coordinator is gone, if it is.")
        .takes(&[
            Parameter::optional("words", Kind::Text, "The words that a plan has asked for; without them, the plan."),
            Parameter::optional("gist", Kind::Text, "What a plan has said in short: another plan is refused."),
            Parameter::optional("record", Kind::Text, "A record that was kept elsewhere."),
        ]),
];

fn record(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(serde_json::to_value(conductor.copy.copy()).unwrap_or_default())
}

fn rescue(_: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Err(Problem::Refused(start::NOTHING_TO_RESCUE.into()))
}

fn all(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::hosts(conductor))
}

fn remove(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let cluster = &conductor.records.cluster;
    let wanted = input.text("host").unwrap_or_default();
    let host = cluster.host_with(wanted).unwrap_or(wanted).to_owned();
    let address = cluster.address_of(&host).unwrap_or_default().to_owned();
    if cluster.hosts.contains(&host) && conductor.is_host_up(&host) {
        return Err(Problem::Refused(format!(
            "host {host} ({address}) is there: end it first, by `tidegate cluster down --dir DIR` on it"
        )));
    }
    let next = cluster.without_host(&host)?;
    if !conductor.controller.do_masters_know(conductor.now(), cluster) {
        return Err(Problem::Refused(
            "not all groups are served, or a master does not know the last change yet: `tidegate cluster check` says which; then ask again"
                .into(),
        ));
    }
    let (voters, majority) = (next.voters().len(), next.majority());
    let gone: Vec<String> = cluster
        .servers()
        .filter(|(_, server)| server.host == host)
        .map(|(_, server)| server.address.to_string())
        .collect();
    let replicas = if gone.is_empty() { String::new() } else { format!(", with its replicas {}", gone.join(", ")) };
    let what =
        format!("host {host} ({address}) is removed{replicas}; {majority} of {voters} votes let a master serve then");
    change_or_plan(conductor, next, input.flag("plan"), json!({ "what": what, "host": host }))
}
