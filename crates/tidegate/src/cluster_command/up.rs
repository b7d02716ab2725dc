//! `tidegate cluster up`: how the agent is to run.

use std::{
    io::Write as _,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

use agent::{
    Options, adopting,
    options::{Api, DEFAULT_HOST, Folder, HOSTS, PORT, Shape},
    secrets::Secret,
};
use clap::Args;
use cluster::keeper::Patience;

use super::{CommandError, LoginArguments, address_of, archivist, change, config, confirm::DryRun, slot_mover};

/// Options of `tidegate cluster up`.
#[derive(Args, Debug)]
pub struct UpArguments {
    /// How many groups a new cluster has (2). Each group has its part of the keys.
    #[arg(long)]
    pub groups: Option<u32>,
    /// In a new cluster: how many replicas each master has (1).
    #[arg(long)]
    pub replicas: Option<u32>,
    /// In a new cluster: how many replicas must have a write before the master answers it (1, or 0 without replicas).
    #[arg(long)]
    pub ack: Option<u32>,
    /// In a new cluster: a setting of all stores, by its name in redis.conf, such as maxmemory=1gb. You may repeat it. `config set`
    /// changes it later.
    #[arg(long, value_name = "NAME=VALUE", value_parser = config::assignment)]
    pub set: Vec<(String, String)>,
    #[command(flatten)]
    pub dry: DryRun,
    /// The folder for the cluster's data, configuration and logs.
    #[arg(long, default_value = "tidegate-cluster")]
    pub dir: PathBuf,
    /// The port for clients of a new cluster (6379). Stores get the ports above it.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The address that proxies and stores listen on, or a name of it (127.0.0.1). With --etcd, it is where the other hosts reach this one.
    /// It may be another one at each start; without it, it is the last one.
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<String>,
    /// The members of an etcd cluster, as http://HOST:PORT, this host's own first. All hosts that name the same etcd are one cluster.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// How many hosts a new cluster waits for before it begins (3 with --etcd).
    #[arg(long, value_name = "N", requires = "etcd", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub hosts: Option<u32>,
    /// The password of stores and proxies, the same on all hosts. It appears in the list of processes; `--requirepass-file` avoids that.
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
    /// A file whose first line is the password of stores and proxies, the same on all hosts.
    #[arg(long, value_name = "FILE", conflicts_with = "requirepass")]
    pub requirepass_file: Option<PathBuf>,
    /// `no`: anybody who reaches this host may use its stores without a password.
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = ["yes", "no"])]
    pub protected_mode: String,
    /// How many milliseconds a master may be silent before a replica takes its place.
    #[arg(long, value_name = "MS", default_value_t = Patience::default().master_ms, value_parser = clap::value_parser!(u64).range(200..=60_000))]
    pub failover_after: u64,
    /// The address of the REST interface and the page, as address:port, or `off`. Without it, they stay where they were; in a new cluster,
    /// they are near the port.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = api_of)]
    pub api: Option<Api>,
    /// Begin a new cluster with running Redis servers, a master and its replicas. They become group 1 with all slots, and keep their data.
    /// --groups then says how many groups of stores there are besides (0), to which you can move slots.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = address_of)]
    pub redis: Vec<cluster::Address>,
    #[command(flatten)]
    pub login: LoginArguments,
    /// The program that runs Redis servers: a path, or a name to find in PATH.
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub redis_server: PathBuf,
}

impl UpArguments {
    /// The password, from wherever it is given.
    fn password(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.requirepass_file else { return Ok(self.requirepass.clone()) };
        let failed = |source| CommandError::RequirepassFile { path: path.clone(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
    }

    /// How the agent is to run.
    pub fn options(&self) -> Result<(Options, Secret), CommandError> {
        let dir = std::path::absolute(&self.dir).map_err(CommandError::Dir)?;
        let program = std::env::current_exe().map_err(CommandError::Program)?;
        let silent_ms = self.failover_after;
        let patience = Patience {
            master_ms: silent_ms,
            // A lease must outlast the pause between two of them, and is over soon after a master is given up.
            lease_ms: silent_ms + silent_ms / 2,
            ..Patience::default()
        };
        let is_open = self.protected_mode == "no";
        let secret = match self.password()? {
            Some(password) => Secret::with_password(&password, is_open)?,
            None => Secret { password: None, is_open },
        };
        let options = Options {
            host: self.host.clone().unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            is_host_said: self.host.is_some(),
            etcd: self.etcd.clone(),
            hosts: self.hosts.map_or(HOSTS, |hosts| hosts as usize),
            secret: secret.clone(),
            port: self.port.unwrap_or(PORT),
            is_port_said: self.port.is_some(),
            settings: Arc::new(config::Table::new()),
            set: self.set.clone(),
            shape: Shape { groups: self.groups, replicas: self.replicas, ack: self.ack },
            program,
            patience,
            api: self.api.unwrap_or_default(),
            redis_program: self.redis_server.clone(),
            redis: self.redis.clone(),
            redis_credentials: self.login.credentials()?,
            ..Options::of(Folder::new(dir))
        };
        agent::said::settings(&options).map_err(CommandError::Setting)?;
        Ok((options, secret))
    }
}

/// Where REST and the page are to be.
fn api_of(text: &str) -> Result<Api, String> {
    if text == "off" {
        return Ok(Api::Off);
    }
    text.parse().map(Api::At).map_err(|_| "address:port is expected, such as 127.0.0.1:7379, or off".to_owned())
}

/// Runs a cluster.
pub fn up(arguments: &UpArguments) -> Result<String, CommandError> {
    let (options, secret) = arguments.options()?;
    adopting::refuse(&options)?;
    if arguments.dry.is_dry {
        return Ok(format!("{}\n{}", agent::dry_run::plan(&options)?, change::NOT_DONE));
    }
    run_agent(options, secret).map(|()| String::new())
}

/// Runs the cluster of a folder until it is told to end.
pub fn run_agent(options: Options, secret: Secret) -> Result<(), CommandError> {
    let ready = |text: &str| {
        let _ = writeln!(std::io::stdout(), "{text}");
        let _ = std::io::stdout().flush();
    };
    let mover = slot_mover::SlotMover { password: secret.password, term: AtomicU64::new(0) };
    let archivist = archivist::Backups::default();
    Ok(agent::run(options, Some(Box::new(mover)), Some(Arc::new(archivist)), ready)?)
}
