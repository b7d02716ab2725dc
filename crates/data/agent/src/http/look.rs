//! Looks at a server that is to join a cluster: it must be an empty store that belongs to no other one.

use cluster::Address;
use serde_json::{Value, json};

use super::serve::SERVER_PATIENCE;
use crate::connection::{Connection, Login, command, text};

/// What a server has said.
struct Said {
    info: String,
    cluster: Result<String, String>,
    id: String,
}

/// What a server is: `{"id": ...}`, or `{"problem": ...}` with the reason why it cannot join.
pub(super) fn look(server: &Address, login: &Login) -> Value {
    let commands = [command(&["INFO"]), command(&["CLUSTER", "INFO"]), command(&["CLUSTER", "MYID"])];
    let replies =
        Connection::open_as(server, SERVER_PATIENCE, login).and_then(|mut connection| connection.ask(&commands));
    match replies.as_deref() {
        Ok([info, _, _]) if info.as_error().is_some() => json!({ "problem": format!("it answers: {}", text(info)) }),
        Ok([info, cluster, id]) => {
            let cluster = if cluster.as_error().is_some() { Err(text(cluster)) } else { Ok(text(cluster)) };
            let said = Said { info: text(info), cluster, id: text(id) };
            said.problem().map_or_else(|| json!({ "id": said.id }), |problem| json!({ "problem": problem }))
        }
        Ok(_) => json!({ "problem": "it does not answer" }),
        Err(error) => json!({ "problem": format!("nobody answers there ({error})") }),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

impl Said {
    fn problem(&self) -> Option<String> {
        if field(&self.info, "tidegate_version").is_none() {
            let version = field(&self.info, "redis_version").unwrap_or("of an unknown version");
            return Some(format!(
                "it is a Redis {version}, not a Tidegate store: `tidegate store import` and `redis-cli --cluster import` bring its keys"
            ));
        }
        let cluster = match &self.cluster {
            Ok(cluster) => cluster,
            Err(_) => return Some("it stands alone: start it with --cluster-enabled yes".into()),
        };
        if field(cluster, "cluster_current_epoch").is_some_and(|epoch| epoch != "0") {
            return Some(
                "it belongs to a cluster already: remove it there first (CLUSTER FORGET, then CLUSTER RESET at it)"
                    .into(),
            );
        }
        if field(&self.info, "role") != Some("master") {
            return Some("it is a replica: REPLICAOF NO ONE, FLUSHALL first".into());
        }
        if self.info.lines().any(|line| line.starts_with("db") && line.contains(":keys=")) {
            return Some("it has keys: only an empty store joins (FLUSHALL, or another folder)".into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_join_and_who_may_not() {
        let own = "tidegate_version:1\r\nredis_version:7.0.0\r\nrole:master\r\n";
        let lone = "cluster_state:fail\r\ncluster_current_epoch:0\r\n";
        for (info, cluster, expected) in [
            (own.to_owned(), Ok(lone), None),
            (own.replace("tidegate_version:1\r\n", ""), Ok(lone), Some("it is a Redis 7.0.0")),
            (own.to_owned(), Err("disabled"), Some("it stands alone")),
            (own.to_owned(), Ok("cluster_current_epoch:4\r\n"), Some("it belongs to a cluster already")),
            (own.replace("master", "slave"), Ok(lone), Some("it is a replica")),
            (format!("{own}db0:keys=3,expires=0\r\n"), Ok(lone), Some("it has keys")),
        ] {
            let said = Said { info, cluster: cluster.map(str::to_owned).map_err(str::to_owned), id: "x".into() };
            let problem = said.problem();
            assert!(
                match (&problem, expected) {
                    (Some(problem), Some(expected)) => problem.starts_with(expected),
                    (None, None) => true,
                    _ => false,
                },
                "{problem:?} instead of {expected:?}"
            );
        }
    }
}
