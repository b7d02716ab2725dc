//! The part of a group in a backup of the cluster: its master's folder is here, or the agent of its host makes it and it is fetched.

use std::{path::PathBuf, time::Duration};

use agent::{
    http::{self, Token},
    options::Folder,
    processes,
};
use serde_json::{Value, json};
use store::{
    archive::Archive,
    backup::{self, AtMoment, Begun, Made},
};

use super::{CommandError, WhichArguments, at};
use crate::access::OwnedAccess;

/// How long an agent may take for a short answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an agent may read the data of a store before it says what it is.
const READ_PATIENCE: Duration = Duration::from_secs(3_600);

/// Where a master's folder is.
pub enum MasterFolder {
    /// On this machine.
    Here(PathBuf),
    /// Its host's agent knows.
    Host {
        /// The master.
        server: String,
        /// Where the agent's REST is.
        api: String,
        /// What it is asked with.
        token: Token,
    },
}

/// Finds it.
pub fn master_folder(which: &WhichArguments, status: &Value, group: &Value) -> Result<MasterFolder, CommandError> {
    let master = at(group, "master").as_str().unwrap_or_default();
    let mut servers = at(group, "servers").as_array().into_iter().flatten();
    let host = servers.find(|server| at(server, "address").as_str() == Some(master));
    let host = host.and_then(|server| at(server, "host").as_str()).unwrap_or_default();
    if which.coordinator.is_empty() {
        let folder = Folder::new(which.dir.clone());
        let declared = processes::declared(&folder)?;
        if let Some(own) = declared.iter().find(|one| one.address.to_string() == master) {
            return Ok(MasterFolder::Here(folder.store(&own.name)));
        }
    }
    let mut agents = at(status, "agents").as_array().into_iter().flatten();
    let agent = agents.find(|agent| !host.is_empty() && at(agent, "host").as_str() == Some(host));
    let api = agent
        .and_then(|agent| at(agent, "page").as_str())
        .map(|page| page.trim_start_matches("http://").trim_end_matches('/').to_owned());
    if let Some(api) = api {
        let token = match which.coordinator.as_slice() {
            [] => Token::read(&Folder::new(which.dir.clone()))?,
            etcd => http::token_in(etcd)?,
        };
        return Ok(MasterFolder::Host { server: master.to_owned(), api, token });
    }
    // No agent has started it.
    let dir = backup::folder_of(master, OwnedAccess::by_password().as_ref()).map_err(CommandError::backup)?;
    if dir.is_dir() {
        return Ok(MasterFolder::Here(dir));
    }
    Err(CommandError::FolderElsewhere { master: master.to_owned(), dir })
}

/// One that was begun.
pub enum BegunGroupBackup {
    Here(Begun),
    Host(BackupOnHost),
}

/// One of whose files all are held.
pub enum GroupBackupAtMoment {
    Here(AtMoment),
    Host(BackupOnHost),
}

/// One that an agent makes. It is told when this is not needed any more.
pub struct BackupOnHost {
    api: String,
    token: Token,
    number: u64,
}

impl Drop for BackupOnHost {
    fn drop(&mut self) {
        // An agent that does not hear of it gives it up by itself.
        let _ = self.ask("DELETE", "", &Value::Null);
    }
}

impl BackupOnHost {
    fn path(&self, more: &str) -> String {
        format!("/api/backups/{}{more}", self.number)
    }

    fn ask(&self, method: &str, more: &str, body: &Value) -> Result<Value, CommandError> {
        Ok(http::ask_at(&self.api, &self.token, (method, &self.path(more)), body, PATIENCE)?)
    }

    fn fetch(&self, more: &str) -> std::io::Result<http::Fetched> {
        let fetched = http::fetch_at(&self.api, &self.token, &self.path(more), READ_PATIENCE);
        fetched.map_err(|error| std::io::Error::other(error.to_string()))
    }

    fn copy_to(&self, archive: &dyn Archive) -> Result<Made, CommandError> {
        let mut description = Vec::new();
        let fetched = self.fetch("").and_then(|mut body| std::io::Read::read_to_end(&mut body, &mut description));
        fetched.map_err(CommandError::backup)?;
        let mut get = |item: &backup::Item| -> std::io::Result<Box<dyn std::io::Read>> {
            Ok(Box::new(self.fetch(&format!("/files/{}", item.digest))?))
        };
        backup::take(&description, archive, &mut get).map_err(CommandError::backup)
    }
}

impl BegunGroupBackup {
    /// Begins it.
    pub fn begin(place: MasterFolder) -> Result<Self, CommandError> {
        match place {
            MasterFolder::Here(dir) => Begun::of(&dir).map(Self::Here).map_err(CommandError::backup),
            MasterFolder::Host { server, api, token } => {
                let begun =
                    http::ask_at(&api, &token, ("POST", "/api/backups"), &json!({ "server": server }), PATIENCE);
                let number = at(&begun?, "number").as_u64().ok_or(CommandError::NoNumber)?;
                Ok(Self::Host(BackupOnHost { api, token, number }))
            }
        }
    }

    /// It goes up to an offset; also from where the newest one of its archive ended.
    pub fn cut(self, until: u64, archive: &dyn Archive) -> Result<GroupBackupAtMoment, CommandError> {
        let former_end = backup::end_of_newest(archive).map_err(CommandError::backup)?;
        match self {
            Self::Here(begun) => {
                begun.up_to(until, former_end).map(GroupBackupAtMoment::Here).map_err(CommandError::backup)
            }
            Self::Host(part) => {
                let mut body = json!({ "until": until });
                if let (Some(end), Some(fields)) = (former_end, body.as_object_mut()) {
                    fields.insert("former_end".into(), end.into());
                }
                part.ask("POST", "/cut", &body)?;
                Ok(GroupBackupAtMoment::Host(part))
            }
        }
    }
}

impl GroupBackupAtMoment {
    /// Copies it into an archive.
    pub fn copy_to(self, archive: &dyn Archive) -> Result<Made, CommandError> {
        match self {
            Self::Here(cut) => cut.copy_to(archive).map_err(CommandError::backup),
            Self::Host(part) => part.copy_to(archive),
        }
    }
}
