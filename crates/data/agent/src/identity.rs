//! Who a host is: a name that it keeps in its folder, with the data of its servers, and never changes. Its address is what it tells of
//! itself; it may be another one at each start.

use std::{fs, io};

use cluster::{Cluster, model::LONE_HOST};
use coord::{Coordinator, keys::Keys};
use serde::{Deserialize, Serialize};

use crate::{
    chance,
    error::AgentError,
    options::{Folder, Options},
    processes::{self, Declared},
};

/// Bytes of chance in a name.
const CHANCE: usize = 5;

/// What a folder says of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The host's name in the cluster.
    pub id: String,
    /// The address that it had last.
    pub address: String,
}

impl Identity {
    /// That of a folder, if it has one.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(folder: &Folder) -> Result<Option<Self>, AgentError> {
        let path = folder.identity();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(AgentError::File { path, source }),
        };
        let unreadable = |error: serde_json::Error| AgentError::Unreadable {
            place: path.display().to_string(),
            problem: format!("{error}; restore it from a backup of the folder: it says which host this is"),
        };
        serde_json::from_str(&text).map(Some).map_err(unreadable)
    }

    /// Has a folder say it.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn write(&self, folder: &Folder) -> Result<(), AgentError> {
        let path = folder.identity();
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        processes::replace(&path, format!("{text}\n").as_bytes()).map_err(|source| AgentError::File { path, source })
    }

    fn made(address: &str) -> Result<Self, AgentError> {
        let digits = chance::digits::<CHANCE>().map_err(|error| AgentError::Other(error.to_string()))?;
        Ok(Self { id: format!("h{digits}"), address: address.to_owned() })
    }
}

/// The options with the address that the folder knows, if none was said.
///
/// # Errors
///
/// The folder's file cannot be read.
pub fn with_known_address(mut options: Options) -> Result<Options, AgentError> {
    if !options.is_host_said
        && let Some(known) = Identity::read(&options.folder)?
    {
        options.host = known.address;
    }
    Ok(options)
}

/// The options with the host's name, as its folder and the record say. A folder without a name gets one that it keeps.
///
/// # Errors
///
/// The coordinator does not answer, or a file cannot be read or written.
pub fn settled(mut options: Options, coordinator: &dyn Coordinator, keys: &Keys) -> Result<Options, AgentError> {
    let known = Identity::read(&options.folder)?;
    let state = coordinator.read(&keys.state())?;
    // One that makes no sense is told of when the record is read.
    let record: Cluster = state.and_then(|state| serde_json::from_slice(&state.value).ok()).unwrap_or_default();
    if options.etcd.is_empty() {
        if known.is_none()
            && !options.is_host_said
            && let Some(address) = record.address_of(LONE_HOST)
        {
            address.clone_into(&mut options.host);
        }
        return Ok(options);
    }
    let identity = match known {
        Some(known) => known,
        None => {
            let declared = processes::declared(&options.folder)?;
            let address = options.host.clone();
            let known = host_of(&record, &declared).or_else(|| record.host_with(&address));
            match known.map(str::to_owned) {
                Some(id) => Identity { id, address },
                None => Identity::made(&address)?,
            }
        }
    };
    let identity = Identity { address: options.host.clone(), ..identity };
    identity.write(&options.folder)?;
    options.name = identity.id;
    Ok(options)
}

/// The host whose servers a folder has.
fn host_of<'a>(record: &'a Cluster, declared: &[Declared]) -> Option<&'a str> {
    let is_declared = |program: &Declared| declared.iter().any(|one| one.name == program.name);
    let mut servers = record.servers().map(|(_, server)| server);
    servers.find(|server| is_declared(&crate::beginning::program_of(server))).map(|server| server.host.as_str())
}

/// Remembers the address of a machine whose cluster has only this one.
///
/// # Errors
///
/// The file cannot be written.
pub fn remember(options: &Options) -> Result<(), AgentError> {
    let identity = Identity { id: options.host_name().to_owned(), address: options.host.clone() };
    if Identity::read(&options.folder).ok().flatten().as_ref() == Some(&identity) {
        return Ok(());
    }
    identity.write(&options.folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;

    use cluster::{Address, Group, Server, ServerKind};
    use coord::{Embedded, Transaction};

    use super::*;
    use crate::options::DEFAULT_HOST;

    fn options(folder: PathBuf, host: &str) -> Options {
        let etcd = vec!["http://127.0.0.1:2379".to_owned()];
        Options { etcd, host: host.to_owned(), is_host_said: true, ..Options::of(Folder::new(folder)) }
    }

    #[test]
    fn a_host_keeps_its_name_whatever_its_address() {
        let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (coordinator, keys) = (Embedded::open(records.path()).unwrap(), Keys::new("main"));
        let settle = |address: &str| settled(options(place.path().to_owned(), address), &coordinator, &keys).unwrap();
        let first = settle("10.0.0.1");
        assert!(first.host_name().starts_with('h') && first.host_name().len() == 1 + 2 * CHANCE);
        assert_eq!(settle("10.9.9.9").host_name(), first.host_name());
        // What was not said is what it was.
        let unsaid = Options { is_host_said: false, ..options(place.path().to_owned(), DEFAULT_HOST) };
        assert_eq!(with_known_address(unsaid).unwrap().host, "10.9.9.9");
    }

    /// Hosts of before had their addresses as names, and no file.
    #[test]
    fn a_folder_without_a_name_is_known_by_its_servers_or_its_address() {
        let records = tempfile::tempdir().unwrap();
        let (coordinator, keys) = (Embedded::open(records.path()).unwrap(), Keys::new("main"));
        let address = Address::new("10.0.0.1", 7000);
        let server = Server {
            address: address.clone(),
            id: "abcdef0123".into(),
            host: "10.0.0.1".into(),
            kind: ServerKind::Store,
        };
        let program = crate::beginning::program_of(&server);
        let group =
            Group { servers: vec![server], master: address, ack: 0, is_strict: false, config_epoch: 1, reign: None };
        let hosts = vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        let cluster = Cluster { epoch: 1, hosts, groups: [(1, group)].into(), ..Cluster::default() };
        let state = serde_json::to_vec(&cluster).unwrap();
        coordinator.commit(Transaction::new().put(keys.state(), state)).unwrap();
        let (same, moved) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = |place: &tempfile::TempDir, address: &str| {
            let options = settled(options(place.path().to_owned(), address), &coordinator, &keys).unwrap();
            options.host_name().to_owned()
        };
        assert_eq!(name(&same, "10.0.0.2"), "10.0.0.2");
        processes::declare(&Folder::new(moved.path().to_owned()), &[program]).unwrap();
        assert_eq!(name(&moved, "10.5.5.5"), "10.0.0.1");
        assert_eq!(name(&moved, "10.6.6.6"), "10.0.0.1");
    }
}
