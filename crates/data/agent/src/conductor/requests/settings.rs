//! Settings of stores that the cluster keeps.

use std::collections::BTreeMap;

use cluster::{
    Refusal, Server, ServerKind,
    settings::{Scope, Which},
};
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, address, address_of, change, change_or_plan, group_number};
use crate::{
    api::{Input, Kind, Parameter},
    conductor::settings::Knows,
    connection::{command, text},
    http::Question,
    settings::{KeptValue, SettingProblem},
};

const TAG: &str = "settings";
const NAME: Parameter = Parameter::required("name", Kind::Text, "The setting, by its name in redis.conf.");
const GROUP: Parameter =
    Parameter::optional("group", Kind::Integer, "The group whose stores are meant, instead of all stores.");
const SERVER: Parameter =
    Parameter::optional("server", Kind::Text, "The store that is meant, as host:port, instead of all stores.");
/// Bytes of a value.
const VALUE_MAX: usize = 4 << 10;

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/config", Handler::Answer(kept)).named(
        TAG,
        "config",
        "The settings of stores that the cluster keeps, and which stores have the latest ones.",
    ),
    Route::read("/api/config/running", Handler::Ask(running))
        .named(TAG, "runningConfig", "The settings that a running store has (CONFIG GET).")
        .takes(&[Parameter::required("server", Kind::Text, "The store, as host:port.")]),
    Route::change("POST", "/api/config", Handler::Answer(set))
        .named(
            TAG,
            "setConfig",
            "Keeps a setting of all stores, of a group's or of one. Running stores are told, and each start of a store has it.",
        )
        .takes(&[NAME, Parameter::required("value", Kind::Text, "Its value."), GROUP, SERVER, PLAN]),
    Route::change("DELETE", "/api/config", Handler::Answer(unset))
        .named(TAG, "unsetConfig", "Takes a setting back: what is said of more stores counts again, or the default.")
        .takes(&[NAME, GROUP, SERVER, PLAN]),
];

impl From<SettingProblem> for Problem {
    fn from(problem: SettingProblem) -> Self {
        Self::Wrong(problem.to_string())
    }
}

fn stores(conductor: &Conductor) -> impl Iterator<Item = (u32, &Server)> {
    conductor.records.cluster.servers().filter(|(_, server)| server.kind.is_store())
}

fn kept(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    let cluster = &conductor.records.cluster;
    let known: BTreeMap<&str, String> =
        cluster.servers().map(|(_, server)| (server.id.as_str(), server.address.to_string())).collect();
    let values = cluster.settings.values().map(|(scope, name, value)| match scope {
        Scope::Cluster => json!({ "name": name, "value": value, "scope": "cluster" }),
        Scope::Group(group) => json!({ "name": name, "value": value, "scope": "group", "group": group }),
        Scope::Server(id) => {
            json!({ "name": name, "value": value, "scope": "server", "server": known.get(id.as_str()) })
        }
    });
    let values: Vec<Value> = values.collect();
    let stores = stores(conductor).map(|(group, server)| {
        let (state, problem) = match conductor.knows_settings(group, server) {
            Knows::All => ("told", String::new()),
            Knows::NotYet => ("waits", conductor.silent.get(&server.address).cloned().unwrap_or_default()),
            Knows::Refuses(answer) => ("refuses", answer.to_owned()),
        };
        let effective = conductor.records.cluster.settings.effective(Which { group, id: &server.id });
        let settings: BTreeMap<&str, Value> = effective
            .iter()
            .map(|(name, one)| {
                let from = match one.scope {
                    Scope::Cluster => "cluster",
                    Scope::Group(_) => "group",
                    Scope::Server(_) => "server",
                };
                (*name, json!({ "value": one.value, "from": from }))
            })
            .collect();
        json!({
            "server": server.address.to_string(), "group": group, "state": state, "problem": problem, "settings": settings,
        })
    });
    let stores: Vec<Value> = stores.collect();
    Ok(json!({ "kept": values, "stores": stores }))
}

fn running(conductor: &Conductor, input: &Input) -> Result<Question, Problem> {
    let server = address_of(input, "server")?;
    if !stores(conductor).any(|(_, known)| known.address == server) {
        return Err(Refusal::NoServer(server).into());
    }
    let shape = |_: &Question, reply: &resp::Value| {
        let words: Vec<String> = reply.as_slice().unwrap_or_default().iter().map(text).collect();
        let pairs = words.chunks_exact(2).filter_map(|pair| match pair {
            [name, value] => Some((name.clone(), Value::from(value.as_str()))),
            _ => None,
        });
        Value::Object(pairs.collect())
    };
    Ok(Question { server, command: command(&["CONFIG", "GET", "*"]), shape })
}

/// Whose settings are meant, and how that is called.
fn scope(conductor: &Conductor, input: &Input) -> Result<(Scope, String), Problem> {
    let cluster = &conductor.records.cluster;
    let no_redis = |kind: ServerKind, whose: String| {
        if kind.is_store() {
            return Ok(());
        }
        Err(Problem::Refused(format!(
            "{whose} has Redis servers: they keep their settings themselves (CONFIG SET, and CONFIG REWRITE where they have a file)"
        )))
    };
    match (input.maybe_integer("group"), input.text("server")) {
        (Some(_), Some(_)) => Err(Problem::Wrong("'group' and 'server': say one of both".into())),
        (None, None) => Ok((Scope::Cluster, "of all stores".into())),
        (Some(number), None) => {
            let id = group_number(number)?;
            let group = cluster.groups.get(&id).ok_or(Refusal::NoGroup(id))?;
            no_redis(group.kind(), format!("group {id}"))?;
            Ok((Scope::Group(id), format!("of group {id}")))
        }
        (None, Some(server)) => {
            let address = address(server)?;
            let found = cluster.servers().find(|(_, server)| server.address == address);
            let (group, server) = found.ok_or(Refusal::NoServer(address))?;
            no_redis(server.kind, format!("group {group}"))?;
            Ok((Scope::Server(server.id.clone()), format!("of {}", server.address)))
        }
    }
}

/// Reads a value that is to be kept there.
fn checked(conductor: &Conductor, scope: &Scope, name: &str, value: &str) -> Result<KeptValue, Problem> {
    if value.len() > VALUE_MAX {
        return Err(Problem::Wrong(format!("'{name}': a value has {VALUE_MAX} bytes at most")));
    }
    let kept = conductor.options.settings.read(name, value)?;
    if kept.is_of_one_store && !matches!(scope, Scope::Server(_)) {
        return Err(Problem::Wrong(format!(
            "'{}': no two stores can have the same: say of which one it is (--server ADDRESS)",
            kept.name
        )));
    }
    Ok(kept)
}

/// Changes what is kept of a setting, and says which stores that is about.
fn changed(
    conductor: &mut Conductor,
    (scope, whose): (Scope, String),
    (name, value): (&KeptValue, Option<&str>),
    is_plan: bool,
) -> Result<Value, Problem> {
    let before = conductor.records.cluster.settings.clone();
    let what = match value {
        Some(value) => format!("setting {whose}: {} is {value}", name.name),
        None => format!("setting {whose}: {} is taken back", name.name),
    };
    let next = conductor.records.cluster.with_settings(&scope, &[(name.name.clone(), value.map(str::to_owned))]);
    let has_changed = next.settings.value(&scope, &name.name) != before.value(&scope, &name.name);
    let concerned = |(group, server): (u32, &Server)| {
        let which = Which { group, id: &server.id };
        let of = |settings: &cluster::settings::StoreSettings| {
            settings.effective(which).get(name.name.as_str()).map(|one| one.value.to_owned())
        };
        (of(&before) != of(&next.settings)).then(|| server.address.to_string())
    };
    let stores: Vec<String> = stores(conductor).filter_map(concerned).collect();
    let answer = json!({
        "what": what, "name": name.name, "stores": stores, "needs_restart": name.is_at_start, "note": name.note,
    });
    change_or_plan(conductor, next, is_plan || !has_changed, answer)
}

fn set(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let (scope, whose) = scope(conductor, input)?;
    let (name, value) = (input.text("name").unwrap_or_default(), input.text("value").unwrap_or_default());
    let kept = checked(conductor, &scope, name, value)?;
    changed(conductor, (scope, whose), (&kept, Some(value)), input.flag("plan"))
}

fn unset(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let (scope, whose) = scope(conductor, input)?;
    let name = input.text("name").unwrap_or_default();
    let settings = &conductor.records.cluster.settings;
    let lower = name.to_ascii_lowercase();
    let Some(value) = settings.value(&scope, &lower).map(str::to_owned) else {
        return Err(Problem::NotThere(format!(
            "no setting {name} {whose} is kept: `tidegate cluster config get {name}` shows where its value comes from"
        )));
    };
    // One that this version does not know goes like any other.
    let unknown = |_| KeptValue {
        name: lower.clone(),
        text: value.clone(),
        is_at_start: false,
        is_of_one_store: false,
        note: None,
    };
    let kept = conductor.options.settings.read(name, &value).unwrap_or_else(unknown);
    changed(conductor, (scope, whose), (&kept, None), input.flag("plan"))
}

/// `CONFIG REWRITE` at a store: what is set on it and is not what the cluster keeps for it becomes a setting of that store alone.
pub(super) fn rewrite(conductor: &mut Conductor, (group, id): (u32, &str), set_there: &str) -> Result<bool, Problem> {
    let there: BTreeMap<String, String> =
        serde_json::from_str(set_there).map_err(|error| Problem::Wrong(format!("'settings': {error}")))?;
    let server = conductor.records.cluster.servers().map(|(_, server)| server).find(|server| server.id == id);
    let knows = server.map(|server| conductor.knows_settings(group, server));
    // What it has of before would become its own.
    if knows != Some(Knows::All) {
        return Err(Problem::Refused(
            "Rewriting config file: this node does not have the latest settings that the cluster keeps for it: try again, or see \
             `tidegate cluster config get`"
                .into(),
        ));
    }
    let (scope, table) = (Scope::Server(id.to_owned()), &*conductor.options.settings);
    let effective = conductor.records.cluster.settings.effective(Which { group, id });
    let mut changes = Vec::new();
    let names = there.keys().map(String::as_str).chain(effective.keys().copied());
    let names: std::collections::BTreeSet<&str> = names.collect();
    for name in names {
        let Some(default) = table.default(name) else { continue };
        let running = there.get(name).unwrap_or(&default);
        let kept = effective.get(name).map_or(default.as_str(), |one| one.value);
        // What is refused is the cluster's, and what counts at starts alone is as it was started.
        let Ok(kept) = table.read(name, kept) else { continue };
        if kept.text != *running && !kept.is_at_start {
            changes.push((name.to_owned(), Some(checked(conductor, &scope, name, running)?.text)));
        }
    }
    if changes.is_empty() {
        return Ok(false);
    }
    let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    let address = stores(conductor).find(|(_, server)| server.id == id).map(|(_, server)| server.address.to_string());
    let what = format!("settings of {} are kept (CONFIG REWRITE): {}", address.unwrap_or_default(), names.join(", "));
    let next = conductor.records.cluster.with_settings(&scope, &changes);
    change(conductor, next, &what)?;
    Ok(true)
}
