//! What Redis servers let the agent and the proxies in by: a file of the folder that only its owner can read. It is never a word of a
//! command line, which everybody on the machine can read.

use std::{collections::BTreeMap, fs, io, path::Path};

use cluster::Address;
use serde::{Deserialize, Serialize};

use crate::{
    connection::{Command, command},
    error::AgentError,
    secrets::private,
};

/// A user, if it is not the default one, and a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// `AUTH`.
    #[must_use]
    pub fn command(&self) -> Command {
        let words: Vec<&str> =
            ["AUTH"].into_iter().chain(self.user.as_deref()).chain([self.password.as_str()]).collect();
        command(&words)
    }
}

/// Those of all servers that want them.
#[derive(Clone, Debug, Default)]
pub struct AllCredentials(BTreeMap<Address, Credentials>);

impl AllCredentials {
    /// Those of a file; none if it is not there.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or makes no sense.
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map(Self).map_err(|error| AgentError::Unreadable {
                place: path.display().to_string(),
                problem: error.to_string(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(AgentError::File { path: path.to_owned(), source }),
        }
    }

    /// Those of a server.
    #[must_use]
    pub fn of(&self, server: &Address) -> Option<&Credentials> {
        self.0.get(server)
    }

    /// Remembers those of some servers.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(&mut self, path: &Path, servers: &[Address], credentials: &Credentials) -> Result<(), AgentError> {
        self.0.extend(servers.iter().map(|server| (server.clone(), credentials.clone())));
        self.write(path)
    }

    /// Forgets those of some servers: they let everybody in.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn remove(&mut self, path: &Path, servers: &[Address]) -> Result<(), AgentError> {
        let before = self.0.len();
        self.0.retain(|server, _| !servers.contains(server));
        if self.0.len() == before { Ok(()) } else { self.write(path) }
    }

    fn write(&self, path: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| AgentError::File { path: path.to_owned(), source: io::Error::other(error) })?;
        private(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn passwords_are_kept_for_their_owner_alone_and_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("topology.secrets");
        let (first, second) = (Address::new("h", 1), Address::new("h", 2));
        let own = Credentials { user: Some("agent".into()), password: "p".into() };
        let mut all = AllCredentials::default();
        all.add(&path, &[first.clone(), second.clone()], &own).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        all.remove(&path, std::slice::from_ref(&second)).unwrap();
        let read = AllCredentials::read(&path).unwrap();
        assert_eq!((read.of(&first), read.of(&second)), (Some(&own), None));
        assert!(!format!("{own:?}").contains("\"p\""), "no log has it: {own:?}");
    }
}
