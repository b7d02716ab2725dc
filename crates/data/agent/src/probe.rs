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

/// Why a server cannot join, with the remedy where there is one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// One of the servers.
    #[error("{server}: {source}")]
    Server {
        /// Which.
        server: Address,
        /// Why it cannot.
        source: NotFit,
    },
    /// A thread of this program.
    #[error("it was not asked")]
    NotAsked,
    /// Two of them have keys.
    #[error(
        "{0} has {1} keys and {2} has {3}: a replica takes over what its master has and loses its own. Make a group of each, or empty \
             one of them"
    )]
    TwoHaveKeys(Address, u64, Address, u64),
    /// All are replicas.
    #[error("none of them is a master: name the master first")]
    NoMaster,
    /// One follows somebody else.
    #[error("{0} is a replica of {1}, which is not among them: name it too")]
    MasterNotNamed(Address, Address),
}

/// What is wrong with a server that is to join.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFit {
    /// It cannot be reached, or does not let the agent in.
    #[error("{0}")]
    Connection(String),
    /// It answers what no Redis does.
    #[error("{0}: is it a Redis?")]
    NoRedis(String),
    /// It refuses questions.
    #[error("it does not let the agent ask: {error}{}", remedy(error))]
    Refuses {
        /// What it says.
        error: String,
    },
    /// A store, or a proxy.
    #[error("it is a Tidegate store or proxy: stores are started by the agent (leave --redis out)")]
    Tidegate,
    /// A node of a Redis Cluster.
    #[error(
        "it belongs to a Redis Cluster, which has its slots and its failover itself: `tidegate proxy --cluster HOST:PORT` \
             stands in front of it as it is"
    )]
    OfCluster,
    /// Something else than a Redis that serves.
    #[error("redis_mode is {0} (INFO): a plain Redis or Valkey is needed")]
    Mode(String),
    /// Too old.
    #[error("its version is {0}: {least} at least is needed", least = VERSION_MIN)]
    Version(String),
    /// Keys in another database than the first.
    #[error("it has keys in {0}: slots have one database, number 0")]
    Databases(String),
}

fn remedy(error: &str) -> &'static str {
    if error.starts_with("NOAUTH") { " (--password-file FILE names its password)" } else { "" }
}

/// A server that can join.
#[derive(Clone, Debug)]
pub struct RunningRedis {
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
pub fn servers(addresses: &[Address], credentials: Option<&Credentials>) -> Result<Vec<RunningRedis>, ProbeError> {
    thread::scope(|scope| {
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| {
                let failed = |source| ProbeError::Server { server: address.clone(), source };
                scope.spawn(move || server(address, credentials).map_err(failed))
            })
            .collect();
        let heard = asked.into_iter().map(|asked| asked.join().unwrap_or(Err(ProbeError::NotAsked)));
        heard.collect()
    })
}

fn server(address: &Address, credentials: Option<&Credentials>) -> Result<RunningRedis, NotFit> {
    let mut open =
        redis_link::open(address, credentials, PATIENCE).map_err(|error| NotFit::Connection(error.to_string()))?;
    let questions = [
        command(&["INFO", "all"]),
        command(&["CONFIG", "GET", "min-replicas-to-write"]),
        command(&["CONFIG", "GET", "masterauth"]),
    ];
    let answers = open.ask(&questions).map_err(|error| NotFit::NoRedis(error.to_string()))?;
    if let Some(error) = answers.iter().find_map(Value::as_error) {
        return Err(NotFit::Refuses { error: String::from_utf8_lossy(error).into_owned() });
    }
    let info = answers.first().map(text).unwrap_or_default();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    if info.lines().any(|line| line.starts_with("tidegate_")) {
        return Err(NotFit::Tidegate);
    }
    // Valkey has another name for it.
    match field("redis_mode").or_else(|| field("server_mode")) {
        Some("standalone") => {}
        Some("cluster") => return Err(NotFit::OfCluster),
        other => return Err(NotFit::Mode(other.unwrap_or("not said").to_owned())),
    }
    let version = field("redis_version").unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < VERSION_MIN {
        return Err(NotFit::Version(version.to_owned()));
    }
    if let Some(other) =
        info.lines().find(|line| line.starts_with("db") && line.contains(":keys=") && !line.starts_with("db0:"))
    {
        return Err(NotFit::Databases(other.split(':').next().unwrap_or_default().to_owned()));
    }
    let keys = field("db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok()).unwrap_or(0);
    Ok(RunningRedis {
        address: address.clone(),
        role: role_of(&info).map_err(|error| NotFit::Connection(error.to_string()))?,
        keys,
    })
}

/// Servers as a group: the master first. One with keys of its own cannot be a replica.
///
/// # Errors
///
/// They are no group, and why.
pub fn as_group(mut found: Vec<RunningRedis>) -> Result<Vec<RunningRedis>, ProbeError> {
    let masters: Vec<Address> =
        found.iter().filter(|one| one.role == Role::Master).map(|one| one.address.clone()).collect();
    let with_keys: Vec<&RunningRedis> = found.iter().filter(|one| one.role == Role::Master && one.keys > 0).collect();
    if let [first, second, ..] = with_keys.as_slice() {
        let (one, other) = (first.address.clone(), second.address.clone());
        return Err(ProbeError::TwoHaveKeys(one, first.keys, other, second.keys));
    }
    let master = with_keys.first().map(|one| one.address.clone()).or_else(|| masters.first().cloned());
    let master = master.ok_or(ProbeError::NoMaster)?;
    found.sort_by_key(|one| one.address != master);
    for one in &found {
        if let Role::Replica { master: followed, .. } = &one.role
            && followed.port() != master.port()
        {
            return Err(ProbeError::MasterNotNamed(one.address.clone(), followed.clone()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(port: u16, follows: Option<u16>, keys: u64) -> RunningRedis {
        let at = |port| Address::new("h", port);
        let role = follows.map_or(Role::Master, |master| Role::Replica { master: at(master), is_linked: true });
        RunningRedis { address: at(port), role, keys }
    }

    #[test]
    fn servers_are_a_group_if_one_of_them_has_all_keys() {
        let order = |servers: Vec<RunningRedis>| {
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
            assert!(order(servers).unwrap_err().to_string().contains(reason), "{reason}");
        }
    }
}
