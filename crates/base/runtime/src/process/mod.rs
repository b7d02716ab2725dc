//! Running a role as processes: see the crate's documentation for the picture.

mod options;
mod role;

pub use options::{EndOldProcesses, Mode, OldProcesses, Options};
pub use role::{
    CheckReason, DrainReason, Load, MasterStatus, Plan, ProcessSettings, Role, Service, WorkerState, WorkerStatus,
};

use std::process::ExitCode;

/// Runs `role` until it is told to end, and returns the exit code of the process.
///
/// Call it from `main`, on the main thread, before any other thread is started.
pub fn run<R: Role>(role: R, options: Options) -> ExitCode {
    let _ = (role, options);
    ExitCode::FAILURE
}
