//! The state of a cluster for Prometheus, and in short for whoever only asks whether it serves. Names are those of redis_exporter where
//! they mean the same.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use crate::figures::Figures;

/// What a text for Prometheus is called.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics, each with its lines.
#[derive(Default)]
struct Metrics(String);

impl Metrics {
    /// One metric: what it is, and its values by labels.
    fn add(&mut self, (name, kind, about): (&str, &str, &str), values: impl IntoIterator<Item = (String, u64)>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// Labels of a line: `{name="value",...}`.
fn labels(pairs: &[(&str, &str)]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    format!("{{{}}}", all.join(","))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is(value: &Value, name: &str, wanted: &str) -> u64 {
    u64::from(text(value, name) == wanted)
}

/// Whether the cluster serves all that was given out, and what does not.
#[must_use]
pub fn health(status: &Value) -> (u16, Value) {
    let is_ok = text(status, "state") == "ok";
    let down =
        list(status, "groups").iter().filter(|group| text(group, "state") != "ok").map(|group| number(group, "id"));
    let down: Vec<u64> = down.collect();
    (
        if is_ok { 200 } else { 503 },
        json!({ "status": text(status, "state"), "epoch": number(status, "epoch"), "groups_down": down }),
    )
}

/// All of it, of what `/api/status` says and what servers do.
#[must_use]
pub fn render(status: &Value, figures: &BTreeMap<String, Figures>) -> String {
    let mut out = Metrics::default();
    of_cluster(&mut out, status);
    let servers: Vec<(String, &Value)> = list(status, "groups")
        .iter()
        .flat_map(|group| list(group, "servers").iter().map(|server| (number(group, "id").to_string(), server)))
        .collect();
    let of = |(group, server): &(String, &Value)| {
        labels(&[("addr", text(server, "address")), ("group", group), ("role", text(server, "role"))])
    };
    let each = |value: fn(&Value) -> u64| servers.iter().map(move |one| (of(one), value(one.1))).collect::<Vec<_>>();
    out.add(
        ("redis_up", "gauge", "Whether the server answers the agent."),
        each(|server| u64::from(text(server, "state") != "down")),
    );
    out.add(
        ("tidegate_cluster_server_in_sync", "gauge", "Whether the server has all writes that were acknowledged."),
        each(|server| u64::from(server.get("in_sync").and_then(Value::as_bool).unwrap_or(false))),
    );
    out.add(
        ("redis_master_repl_offset", "gauge", "Up to where the server has its log."),
        each(|server| number(server, "offset")),
    );
    out.add(
        ("tidegate_cluster_server_starts_total", "counter", "How often its agent has started the server."),
        each(|server| number(server, "starts")),
    );
    let known: Vec<(String, &Figures)> =
        servers.iter().filter_map(|one| Some((of(one), figures.get(text(one.1, "address"))?))).collect();
    let figure = |value: fn(&Figures) -> u64| {
        known.iter().map(move |(labels, one)| (labels.clone(), value(one))).collect::<Vec<_>>()
    };
    for (name, kind, about, value) in FIGURES {
        out.add((name, kind, about), figure(*value));
    }
    out.0
}

type Row = (&'static str, &'static str, &'static str, fn(&Figures) -> u64);

/// What servers do and take.
const FIGURES: &[Row] = &[
    ("redis_connected_clients", "gauge", "Clients that are connected.", |one| one.clients),
    ("redis_memory_used_bytes", "gauge", "Memory that is in use.", |one| one.memory),
    ("redis_memory_max_bytes", "gauge", "Memory that may be used (maxmemory); 0: no limit.", |one| one.memory_max),
    ("redis_net_input_bytes_total", "counter", "Bytes from clients.", |one| one.input),
    ("redis_net_output_bytes_total", "counter", "Bytes to clients.", |one| one.output),
    ("tidegate_cluster_server_keys", "gauge", "Keys of all databases.", |one| one.keys),
    ("tidegate_cluster_server_commands_total", "counter", "Commands, without those of agents and replicas.", |one| {
        one.commands
    }),
    ("tidegate_cluster_server_errors_total", "counter", "Errors that were answered.", |one| one.errors),
];

fn of_cluster(out: &mut Metrics, status: &Value) {
    let slots = status.get("slots").unwrap_or(&Value::Null);
    let (groups, proxies) = (list(status, "groups"), list(status, "proxies"));
    let (online, moving) = (number(slots, "online"), number(slots, "migrating"));
    let served = groups.iter().filter(|group| text(group, "state") == "ok").map(|group| number(group, "slots")).sum();
    let one = |value: u64| [(String::new(), value)];
    out.add(("redis_cluster_state", "gauge", "Whether all slots are served."), one(is(status, "state", "ok")));
    out.add(("redis_cluster_slots_assigned", "gauge", "Slots that a group has."), one(online + moving));
    out.add(("redis_cluster_slots_ok", "gauge", "Slots that are served."), one(served));
    let nodes = groups.iter().map(|group| list(group, "servers").len() as u64).sum();
    out.add(("redis_cluster_known_nodes", "gauge", "Servers of all groups."), one(nodes));
    let with_slots = groups.iter().filter(|group| number(group, "slots") > 0).count() as u64;
    out.add(("redis_cluster_size", "gauge", "Groups that have slots."), one(with_slots));
    out.add(("redis_cluster_current_epoch", "gauge", "The number of the last change."), one(number(status, "epoch")));
    out.add(("tidegate_cluster_slots_moving", "gauge", "Slots that are on their way to another group."), one(moving));
    let pending = list(status, "pending").len() as u64;
    out.add(("tidegate_cluster_actions_pending", "gauge", "Actions that wait for a person."), one(pending));
    let groups =
        groups.iter().map(|group| (labels(&[("group", &number(group, "id").to_string())]), is(group, "state", "ok")));
    out.add(("tidegate_cluster_group_up", "gauge", "Whether the group serves."), groups);
    let proxies =
        proxies.iter().map(|proxy| (labels(&[("addr", text(proxy, "address"))]), is(proxy, "state", "online")));
    out.add(("tidegate_cluster_proxy_up", "gauge", "Whether the proxy takes clients."), proxies);
    let hosts = list(status, "hosts").iter();
    let hosts = hosts.map(|host| (labels(&[("host", text(host, "host"))]), is(host, "state", "up")));
    out.add(("tidegate_cluster_host_up", "gauge", "Whether the host's agent is there."), hosts);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Value {
        json!({
            "state": "down", "epoch": 7,
            "slots": { "online": 16_380, "migrating": 4, "offline": 0 },
            "groups": [
                { "id": 1, "state": "ok", "slots": 8_192, "servers": [
                    { "address": "a:1", "role": "master", "state": "up", "in_sync": true, "offset": 5, "starts": 1 },
                    { "address": "a:2", "role": "replica", "state": "down", "in_sync": false },
                ] },
                { "id": 2, "state": "down", "slots": 8_192, "servers": [] },
            ],
            "proxies": [{ "address": "a:9", "state": "online" }],
            "hosts": [{ "host": "x\"y", "state": "down" }],
            "pending": [],
        })
    }

    #[test]
    fn a_cluster_is_told_in_prometheus_words() {
        let figures = BTreeMap::from([("a:1".to_owned(), Figures { clients: 3, memory: 100, ..Figures::default() })]);
        let text = render(&status(), &figures);
        for expected in [
            "redis_cluster_state 0\n",
            "redis_cluster_slots_assigned 16384\n",
            "redis_cluster_slots_ok 8192\n",
            "redis_up{addr=\"a:1\",group=\"1\",role=\"master\"} 1\n",
            "redis_up{addr=\"a:2\",group=\"1\",role=\"replica\"} 0\n",
            "# TYPE redis_connected_clients gauge\nredis_connected_clients{addr=\"a:1\",group=\"1\",role=\"master\"} 3\n",
            "tidegate_cluster_group_up{group=\"2\"} 0\n",
            "tidegate_cluster_proxy_up{addr=\"a:9\"} 1\n",
            "tidegate_cluster_host_up{host=\"x\\\"y\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        // A metric has its help and its type once, before all its lines.
        let mut seen = std::collections::BTreeSet::new();
        assert!(text.lines().filter(|line| line.starts_with("# TYPE")).all(|line| seen.insert(line.to_owned())));
        let (code, body) = health(&status());
        assert_eq!((code, &body["groups_down"]), (503, &json!([2])));
        assert_eq!(health(&json!({ "state": "ok", "groups": [] })).0, 200);
    }
}
