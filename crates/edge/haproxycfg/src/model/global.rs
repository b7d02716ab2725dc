//! The `global` section.

use std::{collections::BTreeMap, time::Duration};

use accelerator::publication::Publication;

use super::{Location, LogTarget, SetVariable, StatsSocket, TlsTune, Tune, UnixOptions};

/// Process-wide settings.
#[derive(Clone, Debug, Default)]
pub struct Global {
    /// `acme.scheduler off`: certificates are asked for by command alone.
    pub acme_scheduler_off: bool,
    /// `nbthread`: workers; `None` means one per usable core.
    pub nbthread: Option<u32>,
    /// `cpu-map`: cores by worker, from 1; 0 stands for all workers.
    pub cpu_map: Vec<(u32, Vec<usize>)>,
    /// `maxconn`: connections of the process.
    pub maxconn: Option<u32>,
    /// `-m`: megabytes that the process may use; 0 is no limit.
    pub memory_max_mb: u64,
    /// `maxconnrate`, `maxsessrate`: per second; 0 is no limit.
    pub maxconnrate: u32,
    /// Sessions a second; 0 is no limit.
    pub maxsessrate: u32,
    /// Connections over which TLS is spoken, with clients and with servers; 0 is no limit.
    pub maxsslconn: u32,
    /// Clients a second that begin to speak TLS; 0 is no limit.
    pub maxsslrate: u32,
    /// `daemon`.
    pub daemon: bool,
    /// `master-worker`.
    pub master_worker: bool,
    /// `master-worker no-exit-on-failure`: a program that fails leaves the rest alone.
    pub no_exit_on_failure: bool,
    /// `pidfile`.
    pub pidfile: Option<String>,
    /// `user` or `uid`, and where it stands.
    pub user: Option<(Identity, Location)>,
    /// `group` or `gid`, and where it stands.
    pub group: Option<(Identity, Location)>,
    /// `chroot`.
    pub chroot: Option<String>,
    /// `ulimit-n`.
    pub ulimit_n: Option<u64>,
    /// `set-dumpable`.
    pub set_dumpable: bool,
    /// `node`, or the host's name.
    pub node: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `localpeer`.
    pub localpeer: Option<String>,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `log-tag`.
    pub log_tag: Option<String>,
    /// `log-send-hostname`; empty text (no argument) is the name of the machine.
    pub log_send_hostname: Option<String>,
    /// `stats socket` lines.
    pub stats_sockets: Vec<StatsSocket>,
    /// `stats timeout`.
    pub stats_timeout: Option<Duration>,
    /// `stats maxconn`.
    pub stats_maxconn: Option<u32>,
    /// `hard-stop-after`.
    pub hard_stop_after: Option<Duration>,
    /// `grace`.
    pub grace: Option<Duration>,
    /// `spread-checks`: percent.
    pub spread_checks: u32,
    /// `max-spread-checks`.
    pub max_spread_checks: Option<Duration>,
    /// `server-state-base`, `server-state-file`.
    pub server_state_base: Option<String>,
    /// The global server state file.
    pub server_state_file: Option<String>,
    /// `set-var`, `set-var-fmt` on the proc scope.
    pub set_vars: Vec<SetVariable>,
    /// The environment, on which `setenv`, `presetenv` and the others have acted.
    pub environment: BTreeMap<String, String>,
    /// `cluster-secret`.
    pub cluster_secret: Option<String>,
    /// The `tune.*` settings.
    pub tune: Tune,
    /// `tune.ssl.*`.
    pub tls: TlsTune,
    /// `external-check`.
    pub external_check: bool,
    /// `insecure-fork-wanted`.
    pub insecure_fork: bool,
    /// `insecure-setuid-wanted`: started programs may gain rights.
    pub insecure_setuid: bool,
    /// `strict-limits`.
    pub strict_limits: bool,
    /// `pp2-never-send-local`: checks send addresses in the PROXY header too.
    pub pp2_never_send_local: bool,
    /// `zero-warning`.
    pub zero_warning: bool,
    /// `quiet`.
    pub quiet: bool,
    /// Whether a keyword is used that needs `expose-experimental-directives`.
    pub uses_experimental: bool,
    /// `no-memory-trimming`: what a rush of connections left behind is kept for the next one.
    pub no_memory_trimming: bool,
    /// `varnish-workdir`: counters and log in Varnish's shared memory.
    pub publication: Option<Publication>,
    /// `unix-bind` defaults.
    pub unix_bind: UnixOptions,
    /// `h1-case-adjust` and its file: from lower case to wanted case.
    pub h1_case_adjust: BTreeMap<String, String>,
}

/// A user or group by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Looked up at start.
    Name(String),
    /// As it is.
    Number(u32),
}
