//! What twemproxy's statistics port says: one JSON object, then the connection ends.

use serde_json::{Map, Value, json};

use crate::proxy::{Pool, Proxy};

/// A snapshot of what is counted, which those of other threads can be added to.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Map<String, Value>);

impl Snapshot {
    /// Of one thread's proxy.
    #[must_use]
    pub fn of(proxy: &Proxy) -> Self {
        Self(proxy.pools.iter().map(|pool| (pool.config.name.clone(), pool_value(proxy, pool))).collect())
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Self) {
        add(&mut self.0, other.0);
    }

    /// The text that is sent.
    #[must_use]
    pub fn text(&self, host: &str, uptime: u64, seconds: u64) -> String {
        let connections: u64 = self.0.values().filter_map(|pool| pool.get("client_connections")?.as_u64()).sum();
        let mut all = Map::new();
        all.insert("service".into(), "nutcracker".into());
        all.insert("source".into(), host.into());
        all.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        all.insert("uptime".into(), uptime.into());
        all.insert("timestamp".into(), seconds.into());
        all.insert("curr_connections".into(), connections.into());
        all.extend(self.0.clone());
        let mut text = Value::Object(all).to_string();
        text.push('\n');
        text
    }
}

fn add(to: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (to.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(value)) => add(known, value),
            // When it was last ejected, not how often.
            (Some(known), Value::Number(number)) if name == "server_ejected_at" => {
                *known = known.as_u64().max(number.as_u64()).unwrap_or(0).into();
            }
            (Some(known), Value::Number(number)) => {
                *known = (known.as_u64().unwrap_or(0) + number.as_u64().unwrap_or(0)).into();
            }
            (_, value) => drop(to.insert(name, value)),
        }
    }
}

fn pool_value(proxy: &Proxy, pool: &Pool) -> Value {
    let counts = &pool.counts;
    let mut value = json!({
        "client_eof": counts.client_eof,
        "client_err": counts.client_err,
        "client_connections": counts.client_connections,
        "server_ejects": counts.server_ejects,
        "forward_error": counts.forward_error,
        "fragments": counts.fragments,
    });
    for (server, config) in pool.servers.iter().zip(&pool.config.servers) {
        let (mut queue, mut queue_bytes) = (0, 0);
        for link in server.all_links().filter_map(|link| proxy.links.get(link)) {
            queue += link.waiting.len();
            queue_bytes += link.output.len() - link.sent;
        }
        let counts = &server.counts;
        let server = json!({
            "server_eof": counts.server_eof,
            "server_err": counts.server_err,
            "server_timedout": counts.server_timedout,
            "server_connections": counts.server_connections,
            "server_ejected_at": counts.server_ejected_at,
            "requests": counts.requests,
            "request_bytes": counts.request_bytes,
            "responses": counts.responses,
            "response_bytes": counts.response_bytes,
            "in_queue": 0,
            "in_queue_bytes": queue_bytes,
            "out_queue": queue,
            "out_queue_bytes": 0,
            "breaker_open": u64::from(server.breaker.is_open()),
            "breaker_trips": server.breaker.trips,
            "breaker_refused": server.breaker.refused,
        });
        if let Some(all) = value.as_object_mut() {
            all.insert(config.name.clone(), server);
        }
    }
    value
}

/// What the counts are, as `nutcracker --describe-stats` prints it.
pub const DESCRIPTION: &str = "\
pool stats:
  client_eof          \"# eof on client connections\"
  client_err          \"# errors on client connections\"
  client_connections  \"# active client connections\"
  server_ejects       \"# times backend server was ejected\"
  forward_error       \"# times we encountered a forwarding error\"
  fragments           \"# fragments created from a multi-vector request\"

server stats:
  server_eof          \"# eof on server connections\"
  server_err          \"# errors on server connections\"
  server_timedout     \"# timeouts on server connections\"
  server_connections  \"# active server connections\"
  server_ejected_at   \"timestamp when server was ejected in usec since epoch\"
  requests            \"# requests\"
  request_bytes       \"total request bytes\"
  responses           \"# responses\"
  response_bytes      \"total response bytes\"
  in_queue            \"# requests in incoming queue\"
  in_queue_bytes      \"current request bytes in incoming queue\"
  out_queue           \"# requests in outgoing queue\"
  out_queue_bytes     \"current request bytes in outgoing queue\"
";
