//! What a running server is that is to join the cluster, and whether it can.

use std::{thread, time::Duration};

use cluster::{Address, keeper::Role};
use resp::Value;

use crate::{
    connection::{command, text},
    credentials::Credentials,
    link::role_of,
    redis_link,
};

/// What an answer may take: the loop waits for it.
const PATIENCE: Duration = Duration::from_millis(600);
/// The oldest version with what is needed: `REPLICAOF`.
const VERSION_MIN: u32 = 5;

/// A server that can join.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it is.
    pub address: Address,
    /// What it is at the moment.
    pub role: Role,
    /// How many keys it has.
    pub keys: u64,
}

/// Asks servers, all at the same time.
///
/// # Errors
///
/// One of them cannot join, and why.
pub fn servers(addresses: &[Address], credentials: Option<&Credentials>) -> Result<Vec<Found>, String> {
    thread::scope(|scope| {
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| {
                scope.spawn(move || server(address, credentials).map_err(|error| format!("{address}: {error}")))
            })
            .collect();
        let heard = asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| Err("it was not asked".into())));
        heard.collect()
    })
}

fn server(address: &Address, credentials: Option<&Credentials>) -> Result<Found, String> {
    let mut open = redis_link::open(address, credentials, PATIENCE)?;
    let questions = [
        command(&["INFO", "all"]),
        command(&["CONFIG", "GET", "min-replicas-to-write"]),
        command(&["CONFIG", "GET", "masterauth"]),
    ];
    let answers = open.ask(&questions).map_err(|error| format!("{error}: is it a Redis?"))?;
    if let Some(error) = answers.iter().find_map(Value::as_error) {
        let error = String::from_utf8_lossy(error);
        let remedy = if error.starts_with("NOAUTH") { " (--password-file FILE names its password)" } else { "" };
        return Err(format!("it does not let the agent ask: {error}{remedy}"));
    }
    let info = answers.first().map(text).unwrap_or_default();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    if info.lines().any(|line| line.starts_with("tidegate_")) {
        return Err("it is a Tidegate store or proxy: stores are started by the agent (leave --redis out)".into());
    }
    // Valkey has another name for it.
    match field("redis_mode").or_else(|| field("server_mode")) {
        Some("standalone") => {}
        Some("cluster") => {
            return Err("it belongs to a Redis Cluster, which has its slots and its failover itself: `tidegate proxy --cluster HOST:PORT` \
                        stands in front of it as it is"
                .into());
        }
        other => {
            return Err(format!(
                "redis_mode is {} (INFO): a plain Redis or Valkey is needed",
                other.unwrap_or("not said")
            ));
        }
    }
    let version = field("redis_version").unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < VERSION_MIN {
        return Err(format!("its version is {version}: {VERSION_MIN} at least is needed"));
    }
    if let Some(other) =
        info.lines().find(|line| line.starts_with("db") && line.contains(":keys=") && !line.starts_with("db0:"))
    {
        let database = other.split(':').next().unwrap_or_default();
        return Err(format!("it has keys in {database}: slots have one database, number 0"));
    }
    let keys = field("db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok()).unwrap_or(0);
    Ok(Found { address: address.clone(), role: role_of(&info)?, keys })
}

/// Servers as a group: the master first. One with keys of its own cannot be a replica.
///
/// # Errors
///
/// They are no group, and why.
pub fn as_group(mut found: Vec<Found>) -> Result<Vec<Found>, String> {
    let masters: Vec<Address> =
        found.iter().filter(|one| one.role == Role::Master).map(|one| one.address.clone()).collect();
    let with_keys: Vec<&Found> = found.iter().filter(|one| one.role == Role::Master && one.keys > 0).collect();
    if let [first, second, ..] = with_keys.as_slice() {
        return Err(format!(
            "{} has {} keys and {} has {}: a replica takes over what its master has and loses its own. Make a group of each, or empty \
             one of them",
            first.address, first.keys, second.address, second.keys
        ));
    }
    let master = with_keys.first().map(|one| one.address.clone()).or_else(|| masters.first().cloned());
    let master = master.ok_or("none of them is a master: name the master first")?;
    found.sort_by_key(|one| one.address != master);
    for one in &found {
        if let Role::Replica { master: followed, .. } = &one.role
            && followed.port() != master.port()
        {
            return Err(format!("{} is a replica of {followed}, which is not among them: name it too", one.address));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(port: u16, follows: Option<u16>, keys: u64) -> Found {
        let at = |port| Address::new("h", port);
        let role = follows.map_or(Role::Master, |master| Role::Replica { master: at(master), is_linked: true });
        Found { address: at(port), role, keys }
    }

    #[test]
    fn servers_are_a_group_if_one_of_them_has_all_keys() {
        let order = |servers: Vec<Found>| {
            as_group(servers).map(|found| found.iter().map(|one| one.address.port()).collect::<Vec<_>>())
        };
        assert_eq!(order(vec![found(2, Some(1), 9), found(1, None, 9)]), Ok(vec![1, 2]));
        // An empty one becomes a replica.
        assert_eq!(order(vec![found(1, None, 0), found(2, None, 3)]), Ok(vec![2, 1]));
        for (servers, reason) in [
            (vec![found(1, None, 1), found(2, None, 3)], "h:1 has 1 keys and h:2 has 3: a replica takes over"),
            (vec![found(1, Some(7), 1)], "none of them is a master"),
            (vec![found(1, None, 1), found(2, Some(7), 3)], "h:2 is a replica of h:7, which is not among them"),
        ] {
            assert!(order(servers).unwrap_err().contains(reason), "{reason}");
        }
    }
}
