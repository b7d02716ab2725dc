//! Why a command is not done.

use std::{error::Error, io, path::PathBuf, time::Duration};

use agent::AgentError;

use crate::backup_command::with_causes;

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The agent cannot be asked, or refuses.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The file with a Redis' password.
    #[error("--password-file {}: {source}", path.display())]
    PasswordFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The same has nothing in it.
    #[error("--password-file {}: its first line is empty; the password stands there", .0.display())]
    EmptyPassword(PathBuf),
    /// The file with the cluster's password.
    #[error("--requirepass-file {} cannot be read: {source}", path.display())]
    RequirepassFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder's name.
    #[error("--dir: {0}")]
    Dir(io::Error),
    /// The system does not say.
    #[error("where this program is, is not known: {0}")]
    Program(io::Error),
    /// Whoever was asked cannot be heard.
    #[error("{0}")]
    Terminal(io::Error),
    /// A cluster of several hosts.
    #[error("down ends what runs on one host: run it there, with --dir")]
    DownOfSeveral,
    /// A rescue of a cluster of several hosts without agents.
    #[error(
        "no agent runs on {}, and the cluster has several hosts: run `tidegate cluster up` with an etcd that answers on each host that is \
         left. Each waits there; then run this once more",
        .0.display()
    )]
    RescueWithoutAgents(PathBuf),
    /// The agent of a rescue has ended.
    #[error("the agent that was to look at the folder has ended")]
    NoRescue,
    /// Nobody can type words.
    #[error("nothing has been changed: say --words '{0}' to have that done")]
    WordsNeeded(String),
    /// A record that was kept elsewhere.
    #[error("--record {}: {source}", path.display())]
    Record {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is none.
    #[error("--record {}: there is no record of a cluster in it; a backup of an earlier version has none", .0.display())]
    NoRecord(PathBuf),
    /// Servers that were added, as they are.
    #[error("{0}: it was added, and does not run yet; see the logs in the folder, and `server list`")]
    NotRunning(String),
    /// A promotion that takes too long.
    #[error("{server} has not become the master within {within:?}: see logs/agent.log in the folder")]
    NotPromoted {
        /// Who.
        server: String,
        /// How long was waited.
        within: Duration,
    },
    /// A setting of `--set` that makes no sense.
    #[error(transparent)]
    Setting(agent::settings::SettingProblem),
    /// A setting that was kept, and that running stores refuse.
    #[error("{0}")]
    SettingRefused(String),
    /// An option that makes no sense with a store that becomes a cluster.
    #[error(
        "{0} is not for `adopt`: it makes a cluster of one machine and one group. `server add-group` adds groups to it"
    )]
    NotForAdopt(&'static str),
    /// A store with keys that a cluster cannot serve.
    #[error(
        "{} has keys in {others}: a cluster serves database 0 alone, as Redis Cluster does. Start the store, move these keys (MOVE key 0) or \
         remove them (FLUSHDB), and end it",
        dir.display()
    )]
    OtherDatabases {
        /// The store's folder.
        dir: PathBuf,
        /// Which.
        others: String,
    },
    /// A store that does not start.
    #[error("the store in {} does not start, so its keys are not known: {said}", dir.display())]
    StoreNotOpened {
        /// The store's folder.
        dir: PathBuf,
        /// What it said last.
        said: String,
    },
    /// There is no page.
    #[error("REST and the page are off: `up` was begun with --api off")]
    NoPage,
    /// There is no proxy to restore into.
    #[error("no proxy is online: --into says where the keys go")]
    NoProxy,
    /// An archive, or a store's part of a backup.
    #[error("{}", with_causes(&**.0))]
    Backup(Box<dyn Error>),
    /// A file of an archive that is not as it should be.
    #[error("{archive}/{path}: {problem}")]
    Description {
        /// Which archive.
        archive: String,
        /// Which file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of an archive.
    #[error("{archive}/{path} cannot be written: {source}")]
    NotWritten {
        /// Which archive.
        archive: String,
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// An archive whose backups cannot be listed.
    #[error("{archive} cannot be listed: {source}")]
    NotListed {
        /// Which archive.
        archive: String,
        /// Why.
        source: io::Error,
    },
    /// Nothing can be made of a description.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Another backup was asked for than there are.
    #[error("{from} has no backup {name} of a cluster; there are: {known}")]
    NoSuchBackup {
        /// Which archive.
        from: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// An archive without any.
    #[error("there is no backup of a cluster in {0}")]
    NoBackup(String),
    /// The folder for temporary files.
    #[error("--work-dir {}: {source}", path.display())]
    WorkDir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A temporary file.
    #[error("{}: {source}", path.display())]
    WorkFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The target of a restore.
    #[error("{into} refused {count} of them: {reasons}")]
    KeysRefused {
        /// Where.
        into: String,
        /// How many keys.
        count: u64,
        /// Why.
        reasons: String,
    },
    /// A part of a restore.
    #[error("group {group}: {source}; {keys} keys were restored before that (--replace begins again)")]
    Restored {
        /// Which group's.
        group: u64,
        /// Why.
        source: Box<CommandError>,
        /// What was done before.
        keys: u64,
    },
    /// A part of a backup.
    #[error("group {group}: {source}")]
    Group {
        /// Which group's.
        group: u64,
        /// Why.
        source: Box<CommandError>,
    },
    /// A group of servers that keep no log.
    #[error(
        "group {0} is of Redis servers, which keep no log that could be copied up to a moment: move its slots to stores first \
             (`slot rebalance --drain {0}`), or copy its servers by themselves (`redis-cli --rdb`)"
    )]
    RedisGroup(u64),
    /// Words that are none of the command's.
    #[error(transparent)]
    Words(#[from] clap::Error),
    /// A group that serves nobody.
    #[error("it has no master that serves; `cluster check` says why")]
    NoMaster,
    /// A group whose master is another one by now.
    #[error("group {0} has another master than a moment ago")]
    AnotherMaster(u64),
    /// An agent that makes a part of a backup.
    #[error("the agent gives the backup no number")]
    NoNumber,
    /// A master's folder is nowhere.
    #[error("no agent has started its master {master}, and its folder {} is not on this machine: run the backup where it is", dir.display())]
    FolderElsewhere {
        /// The master.
        master: String,
        /// Its folder.
        dir: PathBuf,
    },
}

impl CommandError {
    /// Of what archives and stores say.
    pub fn backup(error: impl Into<Box<dyn Error>>) -> Self {
        Self::Backup(error.into())
    }
}
