//! What can be asked of an agent: one table, from which the command line, REST and the page are served.

mod actions;
mod backups;
mod cut;
mod giving_up;
mod groups;
mod hosts;
mod nodes;
mod overview;
mod pace;
mod policy;
mod proxies;
mod reborn;
mod redis;
mod settings;
mod slots;

use std::sync::LazyLock;

use cluster::{Address, GroupId, Refusal, SlotRange};
use serde_json::{Value, json};

use super::Conductor;
use crate::{
    api::{self, Access, Input, Kind, Parameter, RouteMatch},
    backups::Task,
    error::AgentError,
    http::{Question, Request, Response},
    probe::ProbeError,
    survey::Survey,
};

/// What a route does.
#[derive(Clone, Copy)]
pub enum Handler {
    /// The loop answers.
    Answer(fn(&mut Conductor, &Input) -> Result<Value, Problem>),
    /// The loop answers, or says what is to be found out first.
    Talk(fn(&mut Conductor, &Input) -> Result<Response, Problem>),
    /// A server is asked, by whoever serves the request: the loop waits for nobody.
    Ask(fn(&Conductor, &Input) -> Result<Question, Problem>),
    /// Something about a backup, by whoever serves the request.
    Backup(fn(&Conductor, &Input) -> Result<Task, Problem>),
}

pub(super) use actions::shown;
pub(super) use giving_up::ack_hint;

type Route = api::Route<Handler>;

/// Why something is not done.
#[derive(Debug)]
pub enum Problem {
    /// The request makes no sense.
    Wrong(String),
    /// There is no such thing.
    NotThere(String),
    /// It is not done now.
    Refused(String),
    /// It is to be known first what slots have.
    Unmeasured(Survey),
}

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Refused(refusal) => refusal.into(),
            error => Self::Refused(said(&error)),
        }
    }
}

impl From<ProbeError> for Problem {
    fn from(error: ProbeError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let text = said(&refusal);
        match refusal {
            Refusal::NoGroup(_) | Refusal::NoServer(_) | Refusal::NoProxy(_) | Refusal::NoHost(_) => {
                Self::NotThere(text)
            }
            Refusal::Range(_) => Self::Wrong(text),
            _ => Self::Refused(text),
        }
    }
}

/// An error with what it comes from.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

/// Everything that can be asked.
pub static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let own = [overview::ROUTES, groups::ROUTES, slots::ROUTES, pace::ROUTES, proxies::ROUTES];
    let more = [
        hosts::ROUTES,
        actions::ROUTES,
        policy::ROUTES,
        settings::ROUTES,
        nodes::ROUTES,
        cut::ROUTES,
        backups::ROUTES,
        reborn::ROUTES,
    ];
    [own.concat(), more.concat()].concat()
});

/// Whether a request changes something; nothing if there is no such route.
#[must_use]
pub fn access(method: &str, path: &str) -> Option<Access> {
    match api::find(&TABLE, method, path) {
        RouteMatch::Route(route, _) => Some(route.access),
        _ => None,
    }
}

/// What is about the host of the agent that is asked, not about the cluster.
const OF_HOST: [&str; 7] = [
    "/api/down",
    "/api/openapi.json",
    "/api/processes",
    "/api/procs",
    "/api/start_redis",
    "/api/start_store",
    "/api/stop",
];

/// Whether a request is about this host alone, so that it is answered by whichever agent is asked.
#[must_use]
pub fn is_of_host(path: &str) -> bool {
    OF_HOST.contains(&path) || path.starts_with(backups::PLACE)
}

/// Answers a request.
pub fn answer(conductor: &mut Conductor, request: &Request) -> Response {
    let (method, path) = (&request.method, &request.path);
    let (route, values) = match api::find(&TABLE, method, path) {
        RouteMatch::Route(route, values) => (route, values),
        RouteMatch::OtherMethod(methods) => {
            let methods = methods.join(" and ");
            return Response::refused(405, format!("{path} is asked with {methods}, not with {method}"));
        }
        RouteMatch::Nothing => {
            return Response::refused(404, format!("there is no {path}: /api/openapi.json lists what can be asked"));
        }
    };
    let input = match Input::of(route, values, &request.query, &request.body) {
        Ok(input) => input,
        Err(problem) => return Response::refused(400, problem.to_string()),
    };
    if let Some(measured) = &request.measured {
        conductor.measured = Some((conductor.now(), measured.clone()));
    }
    let result = match route.handler {
        Handler::Answer(handler) => handler(conductor, &input).map(Response::good),
        Handler::Talk(handler) => handler(conductor, &input),
        Handler::Ask(handler) => handler(conductor, &input).map(Response::Ask),
        Handler::Backup(handler) => handler(conductor, &input).map(Response::Backup),
    };
    result.unwrap_or_else(|problem| match problem {
        Problem::Wrong(text) => Response::refused(400, text),
        Problem::NotThere(text) => Response::refused(404, text),
        Problem::Refused(text) => Response::refused(409, text),
        Problem::Unmeasured(survey) => Response::Measure(survey),
    })
}

/// Only what would be done is wanted.
const PLAN: Parameter = Parameter::optional("plan", Kind::Flag, "Return the plan, and change nothing.");
/// Which group.
const GROUP: Parameter = Parameter::required("group", Kind::Integer, "The group's number.");

fn group(input: &Input) -> Result<GroupId, Problem> {
    group_number(input.integer("group"))
}

fn group_number(number: u64) -> Result<GroupId, Problem> {
    GroupId::try_from(number)
        .map_err(|_| Problem::Wrong(format!("there is no group {number}: the number is too large")))
}

fn slots_of(first: u64, last: u64) -> Result<SlotRange, Problem> {
    let slot = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
    SlotRange::new(slot(first), slot(last)).map_err(|error| Problem::Wrong(error.to_string()))
}

fn address(text: &str) -> Result<Address, Problem> {
    text.parse().map_err(|error: cluster::model::NoAddress| Problem::Wrong(error.to_string()))
}

/// An address that must be there.
fn address_of(input: &Input, name: &str) -> Result<Address, Problem> {
    address(input.text(name).unwrap_or_default())
}

/// Moves slots until all groups have the same share, as the policy says.
pub(super) fn spread_slots(conductor: &mut Conductor) {
    if let Err(Problem::Wrong(text) | Problem::NotThere(text) | Problem::Refused(text)) =
        slots::spread(conductor, None, &slots::Wish::default(), false)
    {
        conductor.note(&format!("slots are not spread: {text}"));
    }
}

/// Changes the cluster as an operator has asked; says what was done.
fn change(conductor: &mut Conductor, next: cluster::Cluster, what: &str) -> Result<(), Problem> {
    conductor.records.change(next, "operator", what)?;
    conductor.note(what);
    Ok(())
}

/// Changes the cluster, or only says what would be done.
fn change_or_plan(
    conductor: &mut Conductor,
    next: cluster::Cluster,
    is_plan: bool,
    mut answer: Value,
) -> Result<Value, Problem> {
    if !is_plan {
        let what = answer.get("what").and_then(Value::as_str).unwrap_or_default().to_owned();
        change(conductor, next, &what)?;
    }
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("epoch".into(), json!(conductor.records.cluster.epoch));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        let mut seen = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for route in TABLE.iter() {
            assert!(seen.insert((route.method, route.path)), "{} {} is there twice", route.method, route.path);
            assert!(ids.insert(route.id), "{} is there twice", route.id);
            for name in route.path_names() {
                assert!(
                    route.parameters.iter().any(|parameter| parameter.name == name && parameter.is_required),
                    "{}: {name} is not declared",
                    route.path
                );
            }
            assert!(route.about.ends_with('.') && !route.tag.is_empty(), "{}", route.id);
        }
    }

    #[test]
    fn the_description_is_that_of_the_table() {
        let described = overview::description();
        let paths = described["paths"].as_object().unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (method.to_ascii_uppercase(), path.clone()))
            })
            .collect();
        let known: BTreeSet<(String, String)> =
            TABLE.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
        assert_eq!(described, known);
    }

    #[test]
    fn what_changes_something_says_so() {
        // Dashboards of RebornDB forget history by a GET.
        for route in TABLE.iter().filter(|route| route.method != "GET") {
            assert_eq!(route.access, Access::Change, "{} {}", route.method, route.path);
        }
        assert_eq!(access("GET", "/api/action/gc"), Some(Access::Change));
        assert_eq!(access("GET", "/api/status"), Some(Access::Read));
        assert_eq!(access("GET", "/api/nothing"), None);
    }
}
