//! `tidegate cluster adopt`: a store that stood alone becomes a cluster of one group.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use agent::{
    adopting,
    beginning::Ports,
    connection::{Connection, Login, command, text},
    options::DEFAULT_HOST,
};
use cluster::Address;

use super::{
    CommandError,
    change::NOT_DONE,
    up::{UpArguments, run_agent},
};

/// How long the store may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// Adopts a store, and runs the cluster.
pub fn adopt(arguments: &UpArguments) -> Result<String, CommandError> {
    for (option, is_said) in [
        ("--groups", arguments.groups.is_some_and(|groups| groups != 1)),
        ("--redis", !arguments.redis.is_empty()),
        ("--etcd", !arguments.etcd.is_empty()),
    ] {
        if is_said {
            return Err(CommandError::NotForAdopt(option));
        }
    }
    let (options, secret) = arguments.options()?;
    let folder = options.folder.path().to_owned();
    if !adopting::is_begun(&options) && adopting::is_store(&options) && !options.folder.coordinator().exists() {
        let others = keys_elsewhere(&options.program, &folder)?;
        if !others.is_empty() {
            return Err(CommandError::OtherDatabases { dir: folder, others: others.join(", ") });
        }
    }
    if arguments.dry.is_dry {
        let what = adopting::plan(&options)?;
        return Ok(format!("{what}\n{NOT_DONE}"));
    }
    let options = adopting::prepare(options)?;
    run_agent(options, secret).map(|()| String::new())
}

/// The store of a folder, while it is asked.
struct Asked(Child);

impl Drop for Asked {
    fn drop(&mut self) {
        // It has been told to end already, if it could be.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Databases beside the first that have keys: nodes of a cluster serve the first alone.
fn keys_elsewhere(program: &Path, folder: &Path) -> Result<Vec<String>, CommandError> {
    let mut ports = Ports { host: DEFAULT_HOST.to_owned(), next: 20_000, is_own: true };
    let address: Address = ports.take()?;
    let log = tempfile::NamedTempFile::new().map_err(CommandError::Dir)?;
    // One place in the file for both, or they would write over each other.
    let output = log.as_file().try_clone().map_err(CommandError::Dir)?;
    let errors = output.try_clone().map_err(CommandError::Dir)?;
    // Nobody else is let in meanwhile.
    let password =
        std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(CommandError::Dir)?.trim().to_owned();
    let port = address.port().to_string();
    let words = ["store", "--bind", DEFAULT_HOST, "--port", &port, "--requirepass", &password, "--dir"];
    let login = Login { password: Some(password.as_str().into()), ..Login::default() };
    let started = Command::new(program)
        .args(words)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(CommandError::Program)?;
    let mut store = Asked(started);
    loop {
        if let Ok(Some(_)) = store.0.try_wait() {
            let said = std::fs::read_to_string(log.path()).unwrap_or_default();
            let last = said.trim_end().lines().last().unwrap_or("it said nothing").to_owned();
            return Err(CommandError::StoreNotOpened { dir: folder.to_owned(), said: last });
        }
        let asked = Connection::open_as(&address, PATIENCE, &login).and_then(|mut connection| {
            let found = connection.ask(&[command(&["INFO", "keyspace"])])?;
            // It closes the connection.
            let _ = connection.ask(&[command(&["SHUTDOWN"])]);
            Ok(found)
        });
        match asked.as_deref() {
            Ok([info]) if info.as_error().is_none() => {
                let _ = store.0.wait();
                return Ok(others(&text(info)));
            }
            _ => thread::sleep(LOOK_EACH),
        }
    }
}

fn others(info: &str) -> Vec<String> {
    let database = |line: &str| {
        let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        let keys = rest.split(',').next()?;
        (number != "0").then(|| format!("database {number} ({keys})"))
    };
    info.lines().filter_map(database).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_databases_are_found() {
        let info = "# Keyspace\r\ndb0:keys=5,expires=0\r\ndb3:keys=1,expires=0\r\n";
        assert_eq!(others(info), ["database 3 (1)"]);
        assert!(others("# Keyspace\r\ndb0:keys=5\r\n").is_empty());
    }
}
