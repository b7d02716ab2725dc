//! Where a cluster's folder is, what is in it, and how a new cluster begins.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use cluster::{Address, Server, keeper::Patience, model::LONE_HOST};

use crate::{
    credentials::Credentials,
    error::AgentError,
    names,
    secrets::Secret,
    settings::{NoSettings, SettingsTable},
};

/// How an agent runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of everything.
    pub folder: Folder,
    /// The address that stores and the proxy listen on, or a name of it.
    pub host: String,
    /// Somebody has said so; otherwise it is what the folder knows.
    pub is_host_said: bool,
    /// How this host is called in a cluster of several ([`crate::identity`]); empty until that is known.
    pub name: String,
    /// Where etcd is, by its members' URLs; none: the coordinator is a file of the folder, and the cluster is of this machine alone.
    pub etcd: Vec<String>,
    /// How many hosts a new cluster waits for.
    pub hosts: usize,
    /// Who may talk to stores.
    pub secret: Secret,
    /// The proxy's port. Stores get those above it.
    pub port: u16,
    /// Somebody has said so.
    pub is_port_said: bool,
    /// What a new cluster has; nothing: as many as it has, or the usual.
    pub shape: Shape,
    /// The program that stores and proxies are run by.
    pub program: PathBuf,
    /// The program that Redis servers are run by: a path, or a name that is looked for where commands are.
    pub redis_program: PathBuf,
    /// Running Redis servers with which a new cluster begins: they are its first group and have all slots.
    pub redis: Vec<Address>,
    /// What they let the agent and the proxies in by.
    pub redis_credentials: Option<Credentials>,
    /// How patient it is with silent servers.
    pub patience: Patience,
    /// How often servers are asked, in milliseconds.
    pub ask_each_ms: u64,
    /// Where REST and the page are.
    pub api: Api,
    /// What is known of stores' settings.
    pub settings: Arc<dyn SettingsTable>,
    /// Settings of all stores of a new cluster: names with values.
    pub set: Vec<(String, String)>,
    /// The store that a new cluster begins with: it has all keys.
    pub adopted: Option<Server>,
    /// It only waits for a rescue, and ends when that is done.
    pub is_rescue: bool,
}

/// Hosts that a new cluster waits for if nobody says.
pub const HOSTS: usize = 3;

/// The address of a host that has told none.
pub const DEFAULT_HOST: &str = "127.0.0.1";
/// How often servers are asked if nobody says, in milliseconds.
const ASK_EACH_MS: u64 = 100;
/// The port of the proxy if nobody says.
pub const PORT: u16 = 6379;

impl Options {
    /// The usual ones, of a folder.
    #[must_use]
    pub fn of(folder: Folder) -> Self {
        Self {
            folder,
            host: DEFAULT_HOST.to_owned(),
            is_host_said: false,
            name: String::new(),
            etcd: Vec::new(),
            hosts: HOSTS,
            secret: Secret { password: None, is_open: false },
            port: PORT,
            is_port_said: false,
            shape: Shape::default(),
            program: PathBuf::from("tidegate"),
            redis_program: PathBuf::from("redis-server"),
            redis: Vec::new(),
            redis_credentials: None,
            patience: Patience::default(),
            ask_each_ms: ASK_EACH_MS,
            api: Api::default(),
            settings: Arc::new(NoSettings),
            set: Vec::new(),
            adopted: None,
            is_rescue: false,
        }
    }

    /// How this host is called in the cluster.
    #[must_use]
    pub fn host_name(&self) -> &str {
        if self.etcd.is_empty() { LONE_HOST } else { &self.name }
    }

    /// Looks whether they make sense together.
    ///
    /// # Errors
    ///
    /// They do not, and what to do.
    pub fn check(&self) -> Result<(), AgentError> {
        let address = names::resolved(&self.host).map_err(|error| {
            AgentError::Other(format!(
                "--host {}: an address of this machine is expected, such as 10.0.0.1, or a name of one: {error}",
                self.host
            ))
        })?;
        if !address.is_loopback() && self.secret.password.is_none() && !self.secret.is_open {
            return Err(AgentError::Other(format!(
                "--host {address} can be reached by other machines: say which password clients and stores need \
                 (--requirepass-file FILE), or that none is needed (--protected-mode no)"
            )));
        }
        if self.etcd.is_empty() {
            return Ok(());
        }
        if address.is_unspecified() {
            return Err(AgentError::Other(format!(
                "--host {address} is no address that other hosts can connect to: name this host's own"
            )));
        }
        if self.api == Api::Off {
            return Err(AgentError::Other("--api off: agents of several hosts talk to each other there".into()));
        }
        Ok(())
    }
}

/// Where REST and the page are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// Where they were the last time, or at a free port near the proxy's.
    #[default]
    Usual,
    /// There.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

/// What a new cluster has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Groups.
    pub groups: Option<u32>,
    /// Replicas of each group's master.
    pub replicas: Option<u32>,
    /// How many of them must have a write.
    pub ack: Option<u32>,
}

impl Shape {
    /// Groups of a cluster of which nothing else was said.
    pub const GROUPS: u32 = 2;
    /// Replicas likewise.
    pub const REPLICAS: u32 = 1;
    /// Acknowledgements likewise.
    pub const ACK: u32 = 1;
}

/// A cluster's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at a path.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The coordinator's folder.
    #[must_use]
    pub fn coordinator(&self) -> PathBuf {
        self.0.join("coordinator")
    }

    /// The list of programs that are to run.
    #[must_use]
    pub fn processes(&self) -> PathBuf {
        self.0.join("processes.json")
    }

    /// Which host this is.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.0.join("host.json")
    }

    /// A copy of the coordinator's record.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// How far servers were.
    #[must_use]
    pub fn heights(&self) -> PathBuf {
        self.0.join("heights.json")
    }

    /// What proxies read.
    #[must_use]
    pub fn topology(&self) -> PathBuf {
        self.0.join("topology.nodes")
    }

    /// What Redis servers let the agent and the proxies in by: these look for it beside what they read.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.topology().with_extension("secrets")
    }

    /// The agent's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.0.join("agent.sock")
    }

    /// The token by which the cluster is changed by TCP.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.0.join("api.token")
    }

    /// Where REST and the page were the last time.
    #[must_use]
    pub fn api_address(&self) -> PathBuf {
        self.0.join("api.address")
    }

    /// The password of stores, as a file that they read.
    #[must_use]
    pub fn stores_secret(&self) -> PathBuf {
        self.0.join("stores.conf")
    }

    /// The same for proxies.
    #[must_use]
    pub fn proxies_secret(&self) -> PathBuf {
        self.0.join("proxies.password")
    }

    /// What the agent has to say.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("logs").join("agent.log")
    }

    /// What a program has to say.
    #[must_use]
    pub fn log_of(&self, name: &str) -> PathBuf {
        self.0.join("logs").join(format!("{name}.log"))
    }

    /// Whether there is something of a store.
    #[must_use]
    pub fn has_data(&self, name: &str) -> bool {
        std::fs::read_dir(self.store(name)).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Which node of the cluster a store is: the store looks for it beside its folder.
    #[must_use]
    pub fn node_of(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.node"))
    }

    /// The data of a store.
    #[must_use]
    pub fn store(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
