//! `INFO`: what is the proxy's own, and what its servers say of their data, as if they were one.

use std::fmt::Write as _;

use super::{Proxy, client::Pending, merge::Gathering, requests::Request};
use crate::{frame::bulk, route::Merge};

/// Sections that the proxy answers from what it knows itself.
const OWN: [&str; 6] = ["server", "clients", "replication", "cluster", "orders", "proxy"];
/// Words that mean all sections.
const ALL: [&str; 3] = ["default", "all", "everything"];
/// Numbers of servers that are added; of other fields that of the first server is shown.
const ADDED: [&str; 24] = [
    "used_memory",
    "used_memory_rss",
    "used_memory_peak",
    "used_memory_lua",
    "used_memory_dataset",
    "maxmemory",
    "total_commands_processed",
    "instantaneous_ops_per_sec",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "instantaneous_input_kbps",
    "instantaneous_output_kbps",
    "expired_keys",
    "evicted_keys",
    "keyspace_hits",
    "keyspace_misses",
    "pubsub_channels",
    "pubsub_patterns",
    "total_error_replies",
    "rdb_changes_since_last_save",
    "loading",
    "used_cpu_sys",
    "used_cpu_user",
    "total_blocking_keys",
];

/// Which sections are asked for, and of whom.
#[derive(Debug, PartialEq, Eq)]
struct Sections {
    own: Vec<String>,
    /// Sections of servers; nothing of them if there are none, all if that is wanted.
    of_servers: Option<Vec<String>>,
}

fn sections(words: &[&[u8]]) -> Sections {
    let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    if words.is_empty() || words.iter().any(|word| ALL.contains(&word.as_str())) {
        return Sections { own: OWN.map(str::to_owned).into(), of_servers: Some(Vec::new()) };
    }
    let (own, others): (Vec<String>, Vec<String>) = words.into_iter().partition(|word| OWN.contains(&word.as_str()));
    Sections { own, of_servers: (!others.is_empty()).then_some(others) }
}

impl Proxy {
    /// Answers `INFO`.
    pub(super) fn inform(&mut self, index: usize, request: Request<'_>) {
        let Sections { own, of_servers } = sections(&request.words.from(1).iter().collect::<Vec<_>>());
        let text = self.own_sections(index, &own);
        let servers = self.pool_of(index).map(super::Pool::with_keys).unwrap_or_default();
        let Some(sections) = of_servers.filter(|_| !servers.is_empty()) else {
            return self.answer(index, |reply| reply.bulk(text.as_bytes()));
        };
        let Some(client) = self.clients.get_mut(index) else { return };
        let (id, pool) = (client.id, client.pool);
        let mut gathering = Gathering::new(Merge::Information, servers.len() + 1, Vec::new());
        let mut mine = Vec::new();
        resp::Reply::new(&mut mine, resp::Protocol::Resp2).bulk(text.as_bytes());
        gathering.take(0, &mine);
        let number = client.wait(Pending::Many(Box::new(gathering)));
        // NOTE: one section at a time is what all versions take.
        let mut bytes = Vec::new();
        match sections.as_slice() {
            [section] => resp::encode_command(&mut bytes, &["INFO", section]),
            _ => resp::encode_command(&mut bytes, &["INFO"]),
        }
        for (part, server) in (1..).zip(servers) {
            self.forward_part(pool, server.into(), &bytes, (index, id, number, part));
        }
    }

    /// What the proxy knows itself.
    fn own_sections(&self, index: usize, sections: &[String]) -> String {
        let mut text = String::new();
        for section in sections {
            let _ = match section.as_str() {
                "server" => write!(
                    text,
                    "# Server\r\nredis_version:{}\r\nredis_mode:standalone\r\nos:{} {}\r\narch_bits:64\r\ntidegate_role:proxy\r\n\
                     tidegate_version:{}\r\nprocess_id:{}\r\nuptime_in_seconds:{}\r\nuptime_in_days:{}\r\n\r\n",
                    commands::REDIS_VERSION,
                    std::env::consts::OS,
                    std::env::consts::ARCH,
                    env!("CARGO_PKG_VERSION"),
                    std::process::id(),
                    self.uptime(),
                    self.uptime() / 86_400,
                ),
                "clients" => {
                    let blocked = self.clients.iter().filter(|(_, client)| client.may_wait()).count();
                    write!(
                        text,
                        "# Clients\r\nconnected_clients:{}\r\nblocked_clients:{blocked}\r\n\r\n",
                        self.clients.len()
                    )
                }
                "replication" => write!(text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"),
                "orders" => write!(text, "# Orders\r\norders_done:{}\r\n\r\n", self.plain.acknowledged),
                "cluster" => write!(text, "# Cluster\r\ncluster_enabled:0\r\n\r\n"),
                _ => {
                    self.write_servers(index, &mut text);
                    Ok(())
                }
            };
        }
        text
    }

    fn write_servers(&self, index: usize, text: &mut String) {
        let Some(pool) = self.pool_of(index) else { return };
        let read_from = pool.slots.as_ref().map(|slots| slots.read_from).unwrap_or_default();
        let _ = write!(
            text,
            "# Proxy\r\npool:{}\r\nservers:{}\r\nread_from:{read_from}\r\n",
            pool.config.name,
            pool.servers.len()
        );
        for (number, (server, config)) in pool.servers.iter().zip(&pool.config.servers).enumerate() {
            let state = match (server.ejected_until > 0, server.breaker.is_open()) {
                (true, _) => "ejected",
                (_, true) => "broken",
                _ => "used",
            };
            let _ = write!(
                text,
                "server{number}:name={},address={},state={state},connections={},requests={},refused={},latency_us={}\r\n",
                config.name,
                config.address,
                server.counts.server_connections,
                server.counts.requests,
                server.breaker.refused,
                server.watch.latency,
            );
        }
        text.push_str("\r\n");
    }
}

/// The texts of all as one: the first part is the proxy's own, those of servers follow. Of a section that servers have, the proxy's is
/// shown.
pub fn merged(replies: &[Vec<u8>]) -> String {
    let texts: Vec<String> =
        replies.iter().filter_map(|reply| bulk(reply)).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let Some((own, servers)) = texts.split_first() else { return String::new() };
    let mut out = own.clone();
    // The sections in the order in which they come, with their lines.
    let mut sections: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for text in servers {
        let mut name = String::new();
        for line in text.lines().map(str::trim_end) {
            if let Some(title) = line.strip_prefix("# ") {
                title.clone_into(&mut name);
            }
            let Some((field, value)) = line.split_once(':').filter(|_| !line.starts_with('#')) else { continue };
            if OWN.contains(&name.to_ascii_lowercase().as_str()) || field.ends_with("_human") {
                continue;
            }
            let place = sections.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                sections.push((name.clone(), Vec::new()));
                sections.len() - 1
            });
            let Some((_, lines)) = sections.get_mut(place) else { continue };
            match lines.iter_mut().find(|(known, _)| known == field) {
                Some((_, known)) => add(field, known, value),
                None => lines.push((field.to_owned(), value.to_owned())),
            }
        }
    }
    for (name, lines) in sections {
        let _ = write!(out, "# {name}\r\n");
        for (field, value) in lines {
            let _ = write!(out, "{field}:{value}\r\n");
            if matches!(field.as_str(), "used_memory" | "used_memory_rss" | "used_memory_peak" | "maxmemory") {
                let _ = write!(out, "{field}_human:{}\r\n", human(value.parse().unwrap_or(0)));
            }
        }
        out.push_str("\r\n");
    }
    out
}

/// Adds what another server says, where that makes sense.
fn add(field: &str, known: &mut String, value: &str) {
    let is_database = field.strip_prefix("db").is_some_and(|number| number.parse::<u32>().is_ok());
    if is_database {
        let number = |text: &str, name: &str| {
            let found = text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            found.and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0)
        };
        let keys = number(known, "keys") + number(value, "keys");
        let expires = number(known, "expires") + number(value, "expires");
        *known = format!("keys={keys},expires={expires},avg_ttl=0");
    } else if ADDED.contains(&field) {
        if let (Ok(a), Ok(b)) = (known.parse::<u64>(), value.parse::<u64>()) {
            *known = a.saturating_add(b).to_string();
        } else if let (Ok(a), Ok(b)) = (known.parse::<f64>(), value.parse::<f64>()) {
            *known = format!("{:.2}", a + b);
        }
    }
}

/// Bytes for people, as Redis writes them.
fn human(bytes: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    match units.into_iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<u8> {
        format!("${}\r\n{text}\r\n", text.len()).into_bytes()
    }

    #[test]
    fn servers_are_one() {
        let text = merged(&[
            of("# Server\r\nredis_version:7\r\n\r\n"),
            of(
                "# Server\r\nredis_version:6\r\n# Memory\r\nused_memory:1048576\r\nused_memory_human:x\r\nmaxmemory_policy:noeviction\r\n\r\n\
                # Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=9\r\n",
            ),
            b"-ERR gone\r\n".to_vec(),
            of(
                "# Memory\r\nused_memory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n\
                db1:keys=1,expires=0,avg_ttl=0\r\n",
            ),
        ]);
        assert_eq!(
            text,
            "# Server\r\nredis_version:7\r\n\r\n# Memory\r\nused_memory:2097152\r\nused_memory_human:2.00M\r\n\
             maxmemory_policy:noeviction\r\n\r\n# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\n\
             db1:keys=1,expires=0,avg_ttl=0\r\n\r\n"
        );
    }

    #[test]
    fn sections_are_the_proxys_or_the_servers() {
        assert_eq!(sections(&[b"Server"]), Sections { own: vec!["server".into()], of_servers: None });
        assert_eq!(sections(&[b"memory"]), Sections { own: vec![], of_servers: Some(vec!["memory".into()]) });
        assert_eq!(sections(&[]).own.len(), OWN.len());
        assert_eq!(sections(&[b"ALL"]).of_servers, Some(vec![]));
    }
}
