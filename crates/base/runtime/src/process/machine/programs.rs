//! Programs beside the workers: started with a configuration, started anew or kept by the next one, and gone.
//!
//! As HAProxy has it. A configuration that is taken makes former programs old: they are told by SIGUSR1 that others are
//! there now, and whether they end is up to them. One that is not started at reloads is told as well, and is listed as old
//! from then on. A program of the configuration that is served must not fail: its failure ends the whole service.

use super::event::SIGUSR1;
use super::{Action, Generation, Machine, Phase, SIGTERM, Status};
use crate::log::Level;
use crate::process::role::ProgramStatus;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Numbers the programs that a master has started, upgrades included.
pub(crate) type ProgramId = u32;

/// A program of a configuration that is prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedProgram {
    pub(crate) name: String,
    pub(crate) start_on_reload: bool,
}

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) id: ProgramId,
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) started: Duration,
    pub(crate) reloads: u64,
    /// It belongs to a configuration that is not served any more.
    pub(crate) is_old: bool,
}

impl Machine {
    /// Whether a failing program of the configuration that is served ends everything.
    pub(crate) fn set_exit_on_failure(&mut self, exits: bool) {
        self.exit_on_failure = exits;
    }

    /// The configuration is taken: its programs start, those that are there are told.
    pub(super) fn change_programs(&mut self, generation: Generation) {
        let is_reload = self.phase != Phase::First;
        let former = std::mem::take(&mut self.memory.programs);
        for (index, planned) in std::mem::take(&mut self.planned_programs).into_iter().enumerate() {
            if is_reload && !planned.start_on_reload {
                continue;
            }
            self.memory.next_program += 1;
            let id = self.memory.next_program;
            let PlannedProgram { name, .. } = planned;
            self.memory.programs.push(Program { id, name, pid: None, started: self.now, reloads: 0, is_old: false });
            self.act(Action::StartProgram { program: id, generation, index });
        }
        // A failure before this reload has been lived with.
        self.exit_code = 0;
        for program in former {
            let program = Program { reloads: program.reloads + 1, is_old: true, ..program };
            if let Some(pid) = program.pid {
                self.act(Action::Kill { pid, signal: SIGUSR1 });
            }
            self.memory.programs.push(program);
        }
    }

    pub(super) fn program_spawned(&mut self, id: ProgramId, pid: u32) {
        let Some(program) = self.memory.programs.iter_mut().find(|program| program.id == id) else { return };
        program.pid = Some(pid);
        let text = format!("New program '{}' ({pid}) forked", program.name);
        self.log(Level::Notice, text);
    }

    pub(super) fn program_not_spawned(&mut self, id: ProgramId, text: &str) {
        let Some(program) = self.memory.programs.iter().find(|program| program.id == id) else { return };
        let text = format!("Cannot fork program '{}': {text}.", program.name);
        self.log(Level::Alert, text);
        self.memory.programs.retain(|program| program.id != id);
        self.program_failed(1);
    }

    pub(super) fn program_exited(&mut self, pid: u32, status: Status) {
        let Some(index) = self.memory.programs.iter().position(|program| program.pid == Some(pid)) else { return };
        let program = self.memory.programs.remove(index);
        let code = status.shell_code();
        let end = format!("'{}' ({pid}) exited with code {code} ({})", program.name, status.reason());
        if program.is_old {
            self.log(Level::Warning, format!("Former program {end}"));
        } else {
            self.log(Level::Alert, format!("Current program {end}"));
            self.program_failed(code);
        }
        if matches!(self.phase, Phase::Draining | Phase::Stopping { .. }) {
            self.exit_if_alone();
        }
    }

    /// A program of the current configuration ended with this code, which may be that of success.
    fn program_failed(&mut self, code: i32) {
        // SIGTERM and SIGINT are how programs are ended on purpose; only the latter is reported.
        if self.exit_code == 0 && code != 0 && code != 128 + SIGTERM {
            self.exit_code = code;
        }
        let is_failure = code != 0 && code != 128 + SIGTERM && code != 130;
        // NOTE: not in a drain, as HAProxy would: whoever waits for the last connections does not want them cut because
        // a program does not know the signal that it was told by.
        if is_failure && self.exit_on_failure && matches!(self.phase, Phase::First | Phase::Serving) {
            self.log(Level::Alert, "exit-on-failure: killing every processes with SIGTERM".to_owned());
            self.stop_all(SIGTERM, code);
        }
    }

    pub(super) fn signal_programs(&mut self, signal: i32) {
        let pids = self.memory.programs.iter().filter_map(|program| program.pid);
        self.actions.extend(pids.map(|pid| Action::Kill { pid, signal }));
    }

    pub(super) fn program_statuses(&self, now: Duration) -> Vec<ProgramStatus> {
        let status = |program: &Program| ProgramStatus {
            name: program.name.clone(),
            pid: program.pid.unwrap_or(0),
            uptime_s: now.saturating_sub(program.started).as_secs(),
            reloads: program.reloads,
            is_old: program.is_old,
        };
        self.memory.programs.iter().map(status).collect()
    }
}
