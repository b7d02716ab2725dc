//! What a role implements, and what it is told.

use super::conversation::{Conversation, Plain};
use crate::listen::{ListenSpec, Listener};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// A service that [`super::run`] runs.
///
/// The same program is started again for each of its processes, with the same arguments, so `main` builds the same role
/// there and calls [`super::run`] again. In a worker process that calls [`Role::open`]; in a process that checks a
/// configuration for the master it calls [`Role::check`], once; in the master neither. A single process calls both.
pub trait Role: 'static {
    /// The part that serves, in the worker process.
    type Service: Service;

    /// Reads and checks the configuration, and says what it needs. The text of an error is what is shown.
    ///
    /// Called at start, for each reload, and in the new program before and after an upgrade. Messages that it prints are
    /// from the process that [`crate::log::process_number`] names. The answer must hold everything
    /// that the service needs ([`Plan::blob`]): the worker may have another user and another root directory.
    fn check(&mut self, reason: CheckReason) -> Result<Plan, String>;

    /// Makes the service, in the worker process, before it gives its privileges up and before any thread is started.
    /// The place to open what is out of reach later. `first` is what [`Service::load`] will get.
    fn open(&mut self, first: &Load) -> Result<Self::Service, String>;

    /// Begins a conversation on one of the master's control sockets: on that which was declared with this name
    /// ([`super::Options::control`]), or on the one that is found by the master's number, which has none.
    fn conversation(&self, name: &str) -> Box<dyn Conversation> {
        let _ = name;
        Box::new(Plain::default())
    }
}

/// The serving part of a role: lives on the control thread of the worker process, inside a tokio `LocalRuntime`
/// (`spawn_local` works), and owns the [`crate::Workers`].
pub trait Service: 'static {
    /// Takes a configuration: the first one or, at a reload, the next one. When it returns `Ok`, new connections are
    /// served by it. When it returns an error, everything must be as before.
    fn load(&mut self, load: Load) -> impl Future<Output = Result<(), String>>;

    /// Stops accepting, lets what runs come to its end, and returns when nothing is left. The process then exits. It
    /// is cut short by `hard-stop-after` and by the signals that stop at once.
    fn drain(&mut self, reason: DrainReason) -> impl Future<Output = ()>;

    /// What the process that serves from now on is to have of this one, if anything. Asked for when this one is told to end
    /// because it was replaced.
    fn legacy(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Takes what a process that served before left ([`Service::legacy`]). It comes once this one serves.
    fn inherit(&mut self, legacy: Vec<u8>) {
        drop(legacy);
    }

    /// What is done with a socket on which someone talks with this process through its master. Asked for once, after
    /// the first load; called on the service's thread, also while it drains.
    fn talker(&self) -> Box<dyn Fn(OwnedFd)> {
        Box::new(drop)
    }

    /// `hard-stop-after` is over while this drains: whatever is left is to end now. The process exits when this returns, or
    /// soon after if it does not.
    fn hard_stop(&mut self) -> impl Future<Output = ()> {
        crate::log::warning!("hard-stop-after: ending with connections still open");
        std::future::ready(())
    }

    /// SIGHUP in a process that serves (its master reloads then): HAProxy writes the state of its servers to its logs.
    fn hang_up(&mut self) {}

    /// SIGTTOU (`true`) and SIGTTIN (`false`): stop and go on accepting.
    fn pause(&mut self, paused: bool) {
        let _ = paused;
    }
}

/// Why a configuration is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckReason {
    /// The first one of this master.
    Start,
    /// A reload was asked for.
    Reload,
    /// This is a new program that a running master wants to be replaced with. Nothing is kept but the verdict.
    Probe,
}

/// A checked configuration: what the master needs to know of it.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The configuration as the service will get it. Opaque here.
    pub blob: Vec<u8>,
    /// What to listen on.
    pub listeners: Vec<ListenSpec>,
    /// How many workers will serve: the number of sockets of each `reuseport` listener.
    pub workers: usize,
    /// What the worker process sets up before it serves.
    pub settings: ProcessSettings,
    /// What the master runs besides workers. A process without a master runs none.
    pub programs: Programs,
}

/// Programs that a master starts when it takes a configuration, and ends with itself (HAProxy's `program` sections).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Programs {
    /// The programs, in the order in which they start.
    pub list: Vec<ProgramSpec>,
    /// Their environment.
    pub environment: BTreeMap<String, String>,
    /// Whether the failure of one leaves the rest alone (`master-worker no-exit-on-failure`).
    pub may_fail: bool,
}

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// What the master calls it.
    pub name: String,
    /// The program, looked for in `PATH`, and its arguments.
    pub command: Vec<String>,
    /// User to become.
    pub uid: Option<u32>,
    /// Group to become.
    pub gid: Option<u32>,
    /// Whether a reload starts another one of it.
    pub start_on_reload: bool,
}

/// What the worker process is to be. All but `hard_stop_after` and `grace` take effect when a worker process starts, not at a
/// reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSettings {
    /// User to become (`uid`, or `user` through [`super::user_id`]).
    pub uid: Option<u32>,
    /// Group to become (`gid`, or `group` through [`super::group_id`]).
    pub gid: Option<u32>,
    /// Supplementary groups. `None` with a `gid`: none at all.
    pub groups: Option<Vec<u32>>,
    /// Root directory to change to.
    pub chroot: Option<PathBuf>,
    /// Descriptors that may be open (`ulimit-n`). `None`: as many as the hard limit allows.
    pub descriptors_max: Option<u64>,
    /// Bytes of memory that the process may have for itself (`-m`). What would need more ends the process.
    pub memory_max: Option<u64>,
    /// Whether a limit of descriptors or memory that the system does not grant is a reason to go on all the same
    /// (`no strict-limits`).
    pub lax_limits: bool,
    /// Whether the process may dump core though its user changed (`set-dumpable`).
    pub dumpable: bool,
    /// Whether programs that it starts may gain rights that it has not, as by a setuid bit (`insecure-setuid-wanted`).
    pub gains_rights: bool,
    /// How long a drain may last (`hard-stop-after`). `None`: for ever.
    pub hard_stop_after: Option<Duration>,
    /// How long connections are still accepted once the service is to end (`grace`).
    pub grace: Option<Duration>,
}

/// A configuration to serve by.
#[derive(Debug)]
pub struct Load {
    /// Counts up with every configuration that a master has accepted.
    pub generation: u64,
    /// [`Plan::blob`].
    pub blob: Vec<u8>,
    /// [`Plan::listeners`], bound, in the same order. All of them at every load: open acceptors for these, then stop
    /// the acceptors of the previous load. Keep none of them longer than the load: an address that is to be closed
    /// stays open until its [`Listener`] is dropped.
    pub listeners: Vec<Listener>,
    /// [`Plan::workers`].
    pub workers: usize,
    /// [`Plan::settings`].
    pub settings: ProcessSettings,
}

/// Why a service drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainReason {
    /// The whole service ends.
    Stop,
    /// Another process serves from now on.
    Replaced,
    /// The master is gone.
    Orphaned,
}

/// What the master knows of its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterStatus {
    /// The master's process number.
    pub pid: u32,
    /// Seconds since it was started, the programs that it replaced included.
    pub uptime_s: u64,
    /// The generation that is served.
    pub generation: u64,
    /// Reloads that were accepted.
    pub reloads: u64,
    /// Reloads and upgrades that were refused.
    pub failed_reloads: u64,
    /// Whether the last reload or upgrade was refused.
    pub last_reload_failed: bool,
    /// Workers that ended without being told to.
    pub worker_deaths: u64,
    /// Workers, the current one first.
    pub workers: Vec<WorkerStatus>,
    /// Programs that were started beside the workers, those of the configuration that is served first.
    pub programs: Vec<ProgramStatus>,
}

/// What the master knows of one worker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Process number.
    pub pid: u32,
    /// The generation that it serves.
    pub generation: u64,
    /// Starting, serving or draining.
    pub state: WorkerState,
    /// Seconds since it was started.
    pub uptime_s: u64,
    /// Reloads it has seen, upgrades included.
    pub reloads: u64,
}

/// What the master knows of a program that runs beside the workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its name.
    pub name: String,
    /// Process number.
    pub pid: u32,
    /// Seconds since it was started.
    pub uptime_s: u64,
    /// Reloads it has seen.
    pub reloads: u64,
    /// Whether another one has taken its place, or none is wanted any more.
    pub is_old: bool,
}

/// What a worker process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// Not ready yet.
    Starting,
    /// Takes connections.
    Serving,
    /// Finishes what it has.
    Draining,
}
