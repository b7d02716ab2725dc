//! What a store that runs says of itself: for people a table, for programs JSON. It is asked as any client would ask it, so Redis
//! and Valkey have a status too.

mod text;

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};

use crate::{
    client::{Access, Client},
    error::chain,
    folder::ShardFolder,
    running::{Running, disk_bytes, is_served},
};

pub use text::table;

/// How long a store may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to end: what is in memory alone goes to the disk.
const END_PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked whether it has ended.
const LOOK_EACH: Duration = Duration::from_millis(20);

/// Which store is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one that serves a folder.
    Folder(PathBuf),
    /// The one at HOST:PORT or at the path of a socket.
    Address(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nobody serves the folder.
    #[error("no store runs on {}", .0.display())]
    NotRunning(PathBuf),
    /// Whoever serves it does not say where it listens.
    #[error("the store on {} does not say where it listens: name its --port or --socket", .0.display())]
    Silent(PathBuf),
    /// It listens where TLS is spoken, and nowhere else.
    #[error(
        "the store on {} speaks TLS alone: say --tls with --cacert, and --cert and --key unless `tls-auth-clients` lets clients in \
         without", .0.display()
    )]
    SecureAlone(PathBuf),
    /// Nobody answers, or with an error.
    #[error("the store at {address}: {reason}")]
    Address {
        /// Where.
        address: String,
        /// What came of it.
        reason: String,
    },
    /// It does not end.
    #[error("process {pid} has not ended within {} minutes", END_PATIENCE.as_secs() / 60)]
    StillThere {
        /// Which.
        pid: u32,
    },
    /// It cannot be told to end.
    #[error("process {pid} cannot be told to end: {source}")]
    Signal {
        /// Which.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// The folder cannot be read.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What `INFO` says, by names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info(Vec<(String, String)>);

impl Info {
    /// Takes the answer of `INFO` apart.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// A field; nothing if there is none of the name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A field that is a number; 0 if there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Databases that have keys: number, keys, those that expire.
    #[must_use]
    pub fn databases(&self) -> Vec<(u64, u64, u64)> {
        let of = |value: &str, name: &str| {
            let found = value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            found.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let databases = self.0.iter().filter_map(|(name, value)| {
            let number = name.strip_prefix("db")?.parse().ok()?;
            Some((number, of(value, "keys"), of(value, "expires")))
        });
        databases.collect()
    }

    /// All fields as JSON has them: numbers as numbers.
    #[must_use]
    pub fn json(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, value)| (name.clone(), json_of(value))).collect()
    }
}

/// A number if it is written as one, else text: an id of many zeros is none.
fn json_of(text: &str) -> Value {
    let is_plain = !(text.len() > 1 && text.starts_with('0') && !text.starts_with("0."));
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain && is_number {
        if let Ok(number) = text.parse::<i64>() {
            return number.into();
        }
        if let Ok(number) = text.parse::<f64>() {
            return number.into();
        }
    }
    text.into()
}

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Where it was asked.
    pub address: String,
    /// Where else it listens, as its folder says.
    pub running: Option<Running>,
    /// Its folder, if it has one and tells it.
    pub folder: Option<PathBuf>,
    /// What its files take of the disk, if they are on this machine: tables and log.
    pub disk: Option<(u64, u64)>,
    /// Its figures.
    pub info: Info,
    /// How many slow commands are remembered.
    pub slow: Option<u64>,
}

impl Status {
    /// Asks a store.
    ///
    /// # Errors
    ///
    /// None runs there, or it does not answer.
    pub fn of(which: &Which, access: Access<'_>) -> Result<Self, StatusError> {
        let (address, mut client, running) = connect(which, access)?;
        let failed = |error: io::Error| StatusError::Address { address: address.clone(), reason: error.to_string() };
        let info = Info::parse(&client.ask_text(&["INFO", "everything"]).map_err(failed)?);
        let slow = client.ask(&["SLOWLOG", "LEN"]).ok().and_then(|value| match value {
            resp::Value::Integer(count) => u64::try_from(count).ok(),
            _ => None,
        });
        let folder = match which {
            Which::Folder(dir) => Some(dir.clone()),
            // Who may not ask for settings sees the rest.
            Which::Address(_) => client.setting("dir").ok().flatten().filter(|dir| !dir.is_empty()).map(PathBuf::from),
        };
        let shard = folder.as_deref().filter(|dir| is_served(dir)).map(ShardFolder::first);
        let disk = shard.map(|shard| (disk_bytes(&shard.tables()), disk_bytes(&shard.log())));
        let running = running.or_else(|| Running::find(folder.as_deref()?).ok().flatten());
        Ok(Self { address, running, folder, disk, info, slow })
    }

    /// All of it as JSON: the fields of `INFO` by their names, and a few besides.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut fields = self.info.json();
        fields.insert("address".into(), self.address.as_str().into());
        if let Some(folder) = &self.folder {
            fields.insert("folder".into(), folder.display().to_string().into());
        }
        if let Some(running) = &self.running {
            fields.insert("listens".into(), running.listens.clone().into());
            fields.insert("listens_tls".into(), running.secure.clone().into());
            fields.insert("page".into(), running.page.clone().into());
        }
        if let Some((tables, log)) = self.disk {
            fields.insert("tables_disk_bytes".into(), tables.into());
            fields.insert("log_disk_bytes".into(), log.into());
        }
        fields.insert("slowlog_len".into(), self.slow.into());
        Value::Object(fields)
    }
}

/// Connects to a store, by the first of its addresses that answers.
fn connect(which: &Which, access: Access<'_>) -> Result<(String, Client, Option<Running>), StatusError> {
    let (addresses, running) = match which {
        Which::Address(address) => (vec![address.clone()], None),
        Which::Folder(dir) => {
            let running = find(dir)?;
            let addresses = running.reachable(access.peer.is_some());
            if addresses.is_empty() && access.peer.is_none() && !running.secure.is_empty() {
                return Err(StatusError::SecureAlone(dir.clone()));
            }
            (addresses, Some(running))
        }
    };
    let mut reasons = Vec::new();
    for address in addresses {
        match Client::connect(&address, access, PATIENCE) {
            Ok(client) => return Ok((address, client, running)),
            Err(error) => reasons.push((address, error)),
        }
    }
    match (reasons.into_iter().next(), which) {
        (Some((address, error)), _) => {
            let hint =
                if error.kind() == io::ErrorKind::Other { " (the password comes from REDISCLI_AUTH)" } else { "" };
            Err(StatusError::Address { address, reason: format!("{error}{hint}") })
        }
        (None, Which::Folder(dir)) => Err(StatusError::Silent(dir.clone())),
        (None, Which::Address(address)) => {
            Err(StatusError::Address { address: address.clone(), reason: "it is no address".into() })
        }
    }
}

fn find(dir: &Path) -> Result<Running, StatusError> {
    if !is_served(dir) {
        return Err(StatusError::NotRunning(dir.to_owned()));
    }
    let found = Running::find(dir).map_err(|source| StatusError::Folder { path: dir.to_owned(), source })?;
    found.ok_or_else(|| StatusError::Silent(dir.to_owned()))
}

/// Ends a store, and waits until it has ended. Returns what ended.
///
/// # Errors
///
/// None runs there, it may not be told, or it does not end.
pub fn stop(which: &Which, access: Access<'_>) -> Result<String, StatusError> {
    match which {
        Which::Folder(dir) => {
            let pid = find(dir)?.pid;
            // Who may end the process needs no password.
            let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let told = process.map_or(Err(rustix::io::Errno::SRCH), |process| kill_process(process, Signal::TERM));
            told.map_err(|error| StatusError::Signal { pid, source: error.into() })?;
            wait_end(dir, pid)?;
            Ok(format!("the store on {} (process {pid}) has ended", dir.display()))
        }
        Which::Address(address) => {
            let status = Status::of(which, access)?;
            let failed =
                |error: io::Error| StatusError::Address { address: address.clone(), reason: error.to_string() };
            let mut client = Client::connect(address, access, END_PATIENCE).map_err(failed)?;
            match client.ask(&["SHUTDOWN"]) {
                // Whoever ends closes the connection and says nothing more.
                Err(error) if is_end(error.kind()) => {}
                Err(error) => return Err(failed(error)),
                Ok(_) => return Err(failed(io::Error::other("it answers SHUTDOWN and goes on"))),
            }
            let pid = u32::try_from(status.info.number("process_id")).unwrap_or(0);
            if let Some(folder) = &status.folder {
                wait_end(folder, pid)?;
            }
            Ok(format!("the store at {address} (process {pid}) has ended"))
        }
    }
}

fn is_end(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Waits until nobody has the folder any more.
fn wait_end(dir: &Path, pid: u32) -> Result<(), StatusError> {
    let start = Instant::now();
    while is_served(dir) {
        if start.elapsed() > END_PATIENCE {
            return Err(StatusError::StillThere { pid });
        }
        std::thread::sleep(LOOK_EACH);
    }
    Ok(())
}

impl StatusError {
    /// Whether the answer is that none runs.
    #[must_use]
    pub fn is_not_running(&self) -> bool {
        matches!(self, Self::NotRunning(_))
    }

    /// As text, with its causes.
    #[must_use]
    pub fn text(&self) -> String {
        chain(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:90061\r\nrun_id:0012\r\n\r\n# Memory\r\n\
                        mem_fragmentation_ratio:1.05\r\n# Keyspace\r\ndb0:keys=1200,expires=7,avg_ttl=1\r\ndb3:keys=5,expires=0,avg_ttl=0\r\n";

    #[test]
    fn figures_are_taken_apart() {
        let info = Info::parse(INFO);
        assert_eq!(info.get("redis_version"), Some("7.0.15"));
        assert_eq!((info.number("uptime_in_seconds"), info.number("nothing")), (90061, 0));
        assert_eq!(info.databases(), [(0, 1200, 7), (3, 5, 0)]);
        let json = Value::Object(info.json());
        assert_eq!(json["mem_fragmentation_ratio"], 1.05);
        assert_eq!(json["uptime_in_seconds"], 90061);
        assert_eq!((&json["run_id"], &json["redis_version"]), (&"0012".into(), &"7.0.15".into()));
    }
}
