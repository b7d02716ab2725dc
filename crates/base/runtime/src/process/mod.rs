//! Running a role as processes: see the crate's documentation for the picture.
//!
//! | signal | master | process without a master |
//! |---|---|---|
//! | SIGHUP | reload | [`Service::hang_up`] |
//! | SIGUSR2 | reload; upgrade if the program on disk is another one | reload |
//! | SIGUSR1 | drain, then exit with 0 | the same |
//! | SIGTERM | end now, exit with 0 | end now |
//! | SIGINT | end now, exit with 130 | end now |
//! | SIGTTOU, SIGTTIN | passed on to the workers | [`Service::pause`] |
//! | SIGQUIT | tells its memory | tells its memory |
//! | SIGPIPE | ignored | ignored |

mod beginning;
mod channel;
mod check;
pub mod control;
mod conversation;
mod footprint;
mod handoff;
mod host;
mod launch;
mod machine;
mod master;
mod message;
mod notify;
mod old;
mod options;
mod privileges;
mod program;
mod role;
pub mod run_file;
mod signals;
mod single;
mod started;
mod table;
mod talk;
pub mod transfer;
mod worker;

pub use conversation::{Conversation, Order, Plain, Step};
pub use options::{EndOldProcesses, Introduction, Mode, OldProcesses, Options};
pub use privileges::{group_id, user_group_id, user_id};
pub use role::{
    CheckReason, DrainReason, Load, MasterStatus, Plan, ProcessSettings, ProgramSpec, ProgramStatus, Programs, Role,
    Service, WorkerState, WorkerStatus,
};

use crate::log;
use crate::workers::panic_text;
use beginning::Beginning;
use launch::ProcessPart;
use master::Master;
use message::PlanFile;
use started::Started;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

/// Runs `role` until it is told to end, and returns the exit code of the process.
///
/// Call it from `main`, on the main thread, before any other thread is started. It does not return in every case: a
/// process ends at once when its service has.
pub fn run<R: Role>(role: R, options: Options) -> ExitCode {
    match start(role, options) {
        Ok(code) => code,
        Err(error) => {
            log::alert!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start<R: Role>(role: R, options: Options) -> io::Result<ExitCode> {
    launch::restore_name();
    let caller = match launch::part()? {
        ProcessPart::Start if options.daemon => return started::start_daemon(),
        ProcessPart::Start => None,
        ProcessPart::Daemon(caller) => {
            rustix::process::setsid()?;
            Some(caller)
        }
        ProcessPart::Worker(socket) => return block_on(worker::serve(role, socket)),
        ProcessPart::Probe(socket) => return block_on(master::upgrade::answer_probe(role, socket)),
        ProcessPart::Program(spec) => return Err(program::turn_into(&spec)),
        ProcessPart::Check(socket) => return block_on(check::answer(role, socket)),
        ProcessPart::Master(file) => {
            let Beginning { plan, pidfile, caller } = Beginning::read(file)?;
            let started = Started::new(pidfile, caller);
            return block_on(async { Master::begin(role, options, plan, started)?.run().await });
        }
        ProcessPart::Successor(file) => {
            let state = handoff::State::read(file)?;
            return block_on(async { Master::succeed(role, options, state)?.run().await });
        }
    };
    match options.mode {
        Mode::MasterWorker => begin(role, options, caller),
        Mode::Single => {
            let started = Started::new(options.pidfile.clone(), caller);
            block_on(single::serve(role, options, started))
        }
    }
}

/// Checks the first configuration and becomes a master that serves by it.
fn begin<R: Role>(mut role: R, options: Options, caller: Option<OwnedFd>) -> io::Result<ExitCode> {
    match caught_check(&mut role, CheckReason::Start) {
        Ok(plan) => {
            let plan = PlanFile::new(master::FIRST_GENERATION, plan)?;
            Err(Beginning { plan, pidfile: options.pidfile, caller }.go_on()?)
        }
        Err(text) => {
            log::alert!("{text}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Whether this process is one that was told what to do by another one of the same service: a worker, for example. Then
/// [`run`] needs nothing of its [`Options`] that a configuration might say.
#[must_use]
pub fn is_told() -> bool {
    launch::is_told()
}

/// Whether a user has started this process, and not another process of ours.
#[must_use]
pub fn is_first() -> bool {
    launch::is_first()
}

fn block_on(main: impl Future<Output = io::Result<i32>>) -> io::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let code = runtime.block_on(main)?;
    // At once: threads that are still at work after `hard-stop-after` must not hold the process up.
    std::process::exit(code)
}

/// The time that the processes of this crate go by: the same in all of them, and it never goes back.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// [`Role::check`], with a panic as one more reason to refuse the configuration.
fn caught_check<R: Role>(role: &mut R, reason: CheckReason) -> Result<Plan, String> {
    match catch_unwind(AssertUnwindSafe(|| role.check(reason))) {
        Ok(result) => result,
        Err(panic) => Err(format!("the check of the configuration panicked: {}", panic_text(&*panic))),
    }
}
