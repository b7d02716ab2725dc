//! Settings of stores that the cluster keeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use agent::settings::{KeptValue, SettingProblem, SettingsTable};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    CommandError, LOOK_EACH, WhichArguments,
    change::{self, Change, Outcome},
    confirm::Consent,
    get, show, shown,
};
use crate::style::columns;

/// How long it is waited for that running stores have a setting.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Keep a setting of stores: running stores get it at once, and each store has it at each start.
    Set {
        /// The setting, by its name in redis.conf.
        name: String,
        /// Its value.
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        scope: ScopeArguments,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Show settings, where each value comes from, and which running stores differ.
    Get {
        /// Settings whose names match, such as 'maxmemory*'. Without it: those that the cluster keeps, and those by which a running store
        /// differs.
        pattern: Option<String>,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Take a setting back: what is kept for more stores counts again, or the default.
    Unset {
        /// The setting, by its name in redis.conf.
        name: String,
        #[command(flatten)]
        scope: ScopeArguments,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
}

/// Whose setting it is.
#[derive(Args, Debug)]
pub struct ScopeArguments {
    /// Only the stores of this group, instead of all stores.
    #[arg(long, value_name = "N", conflicts_with = "server")]
    group: Option<u32>,
    /// Only this store, as host:port.
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
}

/// What this program's stores know of settings.
#[derive(Debug)]
pub struct Table {
    defaults: BTreeMap<&'static str, String>,
}

impl Table {
    pub fn new() -> Self {
        Self { defaults: store::kept::defaults().collect() }
    }
}

impl SettingsTable for Table {
    fn read(&self, name: &str, value: &str) -> Result<KeptValue, SettingProblem> {
        let read = store::kept::read(name, value).map_err(|error| SettingProblem(error.to_string()))?;
        Ok(KeptValue {
            name: read.name.to_owned(),
            text: read.text,
            is_at_start: read.is_at_start,
            is_of_one_store: read.is_of_one_store,
            note: read.note,
        })
    }

    fn default(&self, name: &str) -> Option<String> {
        self.defaults.get(name).cloned()
    }
}

/// A setting, as `--set` has it.
pub fn assignment(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected, such as maxmemory=1gb")?;
    if name.is_empty() { Err("NAME=VALUE is expected, such as maxmemory=1gb") } else { Ok((name.into(), value.into())) }
}

/// Commands about settings.
pub fn config(command: &ConfigCommand) -> Result<String, CommandError> {
    match command {
        ConfigCommand::Set { name, value, scope, consent, which } => {
            let body = json!({ "name": name, "value": value, "group": scope.group, "server": scope.server });
            changed(which, *consent, &Change::new("POST", "/api/config", body))
        }
        ConfigCommand::Unset { name, scope, consent, which } => {
            let body = json!({ "name": name, "group": scope.group, "server": scope.server });
            changed(which, *consent, &Change::new("DELETE", "/api/config", body))
        }
        ConfigCommand::Get { pattern, which } => {
            let found = settings(which, pattern.as_deref())?;
            Ok(shown(which, &found, table))
        }
    }
}

fn changed(which: &WhichArguments, consent: Consent, change: &Change<'_>) -> Result<String, CommandError> {
    let done = match change::with_consent(which, consent, change, show::what)? {
        Outcome::Done(done) => done,
        Outcome::NotDone(said) => return Ok(said),
    };
    let stores: BTreeSet<&str> = list(&done, "stores").iter().filter_map(Value::as_str).collect();
    let at_start = done.get("needs_restart").and_then(Value::as_bool).unwrap_or(false);
    let waiting = if at_start { Vec::new() } else { wait(which, &stores)? };
    if which.json {
        return Ok(done.to_string());
    }
    let mut out = show::done(&done);
    if let Some(note) = done.get("note").and_then(Value::as_str) {
        out.push_str(&format!("\n{note}"));
    }
    if at_start && !stores.is_empty() {
        let all = stores.iter().copied().collect::<Vec<_>>().join(", ");
        out.push_str(&format!(
            "\nstores take it when they start: restart {all} one by one. A replica: `redis-cli -h HOST -p PORT SHUTDOWN`; the agent starts it \
             again; then wait for `tidegate cluster check`. A master: `tidegate cluster server promote GROUP REPLICA` first"
        ));
    } else if waiting.is_empty() && !stores.is_empty() {
        out.push_str(&format!("\n{} been told", basics::many(stores.len(), "store has", "stores have")));
    }
    for store in &waiting {
        out.push_str(&format!("\n{} does not have it yet: {}", store.server, store.why));
    }
    // It is kept all the same: a store that can do it may come, and who reads this decides.
    if waiting.iter().any(|store| store.is_refused) { Err(CommandError::SettingRefused(out)) } else { Ok(out) }
}

/// A store that does not have what is kept for it.
struct Waiting {
    server: String,
    why: String,
    is_refused: bool,
}

/// Waits until stores have what is kept for them. Gives those that do not, and why.
fn wait(which: &WhichArguments, stores: &BTreeSet<&str>) -> Result<Vec<Waiting>, CommandError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let kept = get(which, "/api/config")?;
        let concerned = list(&kept, "stores").iter().filter(|store| stores.contains(text(store, "server")));
        let not_yet = concerned.filter(|store| text(store, "state") != "told");
        let waiting: Vec<Waiting> = not_yet
            .map(|store| {
                let is_refused = text(store, "state") == "refuses";
                let why = match text(store, "problem") {
                    answer if is_refused => format!("it answers: {answer} (`config unset` takes the setting back)"),
                    "" => "it is told as soon as it answers".to_owned(),
                    problem => format!("it is told as soon as it answers ({problem})"),
                };
                Waiting { server: text(store, "server").to_owned(), why, is_refused }
            })
            .collect();
        let refused = waiting.iter().any(|store| store.is_refused);
        if waiting.is_empty() || refused || Instant::now() >= end {
            return Ok(waiting);
        }
        thread::sleep(LOOK_EACH);
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Settings with where their values come from, and which running stores have others.
fn settings(which: &WhichArguments, pattern: Option<&str>) -> Result<Value, CommandError> {
    let (kept, table) = (get(which, "/api/config")?, Table::new());
    let mut running: BTreeMap<&str, Value> = BTreeMap::new();
    for store in list(&kept, "stores") {
        let server = text(store, "server");
        match get(which, &format!("/api/config/running?server={server}")) {
            Ok(found) => drop(running.insert(server, found)),
            // One that is down has no running values; `check` says so.
            Err(_) => drop(running.insert(server, Value::Null)),
        }
    }
    let is_wanted =
        |name: &str| pattern.is_none_or(|pattern| store::matches_ignoring_case(pattern.as_bytes(), name.as_bytes()));
    let mut found = Vec::new();
    for (name, default) in table.defaults.iter().filter(|(name, _)| is_wanted(name)) {
        let values: Vec<&Value> = list(&kept, "kept").iter().filter(|one| text(one, "name") == *name).collect();
        let differs = differing(&kept, &running, &table, (name, default));
        if pattern.is_none() && values.is_empty() && differs.is_empty() {
            continue;
        }
        found.push(json!({ "name": name, "default": default, "kept": values, "differs": differs }));
    }
    Ok(Value::Array(found))
}

/// Running stores that have another value of a setting than they are to have.
fn differing(
    kept: &Value,
    running: &BTreeMap<&str, Value>,
    table: &Table,
    (name, default): (&str, &str),
) -> Vec<Value> {
    let differs = |store: &Value| {
        let server = text(store, "server");
        let has = running.get(server)?.get(name)?.as_str()?.to_owned();
        let wanted = store.get("settings").and_then(|all| all.get(name)).map_or(default, |one| text(one, "value"));
        let wanted = table.read(name, wanted).ok()?;
        if wanted.text == has {
            return None;
        }
        let why = match (wanted.is_at_start, text(store, "state")) {
            (true, _) => "it takes this when it starts again".to_owned(),
            (false, "refuses") if text(store, "problem").contains(&format!("'{name}'")) => {
                format!("it answers: {}", text(store, "problem"))
            }
            (false, "waits") => "it is being told".to_owned(),
            _ => "a CONFIG SET that was not kept: the next start forgets it (CONFIG REWRITE there keeps it)".to_owned(),
        };
        Some(json!({ "server": server, "value": has, "why": why }))
    };
    list(kept, "stores").iter().filter_map(differs).collect()
}

fn table(found: &Value) -> String {
    let mut rows = vec![["SETTING", "VALUE", "FROM"].map(str::to_owned)];
    let mut notes = Vec::new();
    for one in found.as_array().map(Vec::as_slice).unwrap_or_default() {
        let name = text(one, "name");
        let values = list(one, "kept");
        if !values.iter().any(|value| text(value, "scope") == "cluster") {
            rows.push([name.to_owned(), value_of(text(one, "default")), "default".to_owned()]);
        }
        for value in values {
            let from = match text(value, "scope") {
                "group" => format!("group {}", value.get("group").unwrap_or(&Value::Null)),
                "server" => format!("server {}", text(value, "server")),
                other => other.to_owned(),
            };
            rows.push([name.to_owned(), value_of(text(value, "value")), from]);
        }
        for store in list(one, "differs") {
            let (server, value, why) = (text(store, "server"), value_of(text(store, "value")), text(store, "why"));
            notes.push(format!("{server} runs with {name} {value}: {why}"));
        }
    }
    let mut out = if rows.len() == 1 {
        "no setting is kept: all stores have the defaults (`config get '*'` shows them)\n".to_owned()
    } else {
        columns(&rows)
    };
    if !notes.is_empty() {
        out.push_str(&format!("\n{}\n", notes.join("\n")));
    }
    out
}

fn value_of(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_where_they_come_from() {
        let kept = json!({
            "kept": [],
            "stores": [
                { "server": "a:1", "state": "told", "settings": { "maxmemory": { "value": "1gb", "from": "cluster" } } },
                { "server": "a:2", "state": "told", "settings": { "maxmemory": { "value": "1gb", "from": "cluster" } } },
                { "server": "a:3", "state": "waits", "settings": {} },
            ],
        });
        let running = BTreeMap::from([
            ("a:1", json!({ "maxmemory": "1073741824", "io-threads": "1" })),
            ("a:2", json!({ "maxmemory": "5", "io-threads": "4" })),
            ("a:3", Value::Null),
        ]);
        let table_of = Table::new();
        let found = differing(&kept, &running, &table_of, ("maxmemory", "0"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(text(&found[0], "server"), "a:2");
        let threads = differing(&kept, &running, &table_of, ("io-threads", "1"));
        assert_eq!(text(&threads[0], "why"), "it takes this when it starts again");
        let shown = table(&json!([
            { "name": "maxmemory", "default": "0", "kept": [{ "scope": "cluster", "value": "1gb" }], "differs": found },
            { "name": "save", "default": "", "kept": [{ "scope": "group", "group": 2, "value": "9" }], "differs": [] },
        ]));
        for expected in [
            "maxmemory  1gb    cluster",
            "save       \"\"     default",
            "save       9      group 2",
            "a:2 runs with maxmemory 5: a CONFIG SET",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
        assert!(table(&json!([])).starts_with("no setting is kept"));
    }

    #[test]
    fn assignments_are_read() {
        assert_eq!(assignment("save=\"900 1\"").unwrap(), ("save".into(), "\"900 1\"".into()));
        assert_eq!(assignment("save=").unwrap(), ("save".into(), String::new()));
        assert!(assignment("save").is_err() && assignment("=1").is_err());
    }
}
