//! `tidegate status`: the processes of a running master.

use std::{fmt::Write as _, io::Write as _, process::ExitCode};

use clap::Args;
use runtime::process::{MasterStatus, WorkerState, run_file::RunFile};

use crate::{
    masters::{self, Which, ask},
    style::{Colour, Style, columns, lasting},
};

/// Options of `tidegate status`.
#[derive(Args, Debug)]
pub struct StatusArguments {
    #[command(flatten)]
    which: Which,
    /// Print JSON, for other programs.
    #[arg(long)]
    json: bool,
}

/// Shows how things stand.
pub fn run(arguments: &StatusArguments) -> ExitCode {
    match answer(arguments) {
        Ok(text) => {
            // Whoever reads it may have seen enough.
            let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("tidegate status: {message}");
            ExitCode::FAILURE
        }
    }
}

fn answer(arguments: &StatusArguments) -> Result<String, String> {
    let reply = ask(&arguments.which.target("status")?, "status")?;
    if !reply.success {
        return Err(reply.text);
    }
    if arguments.json {
        return Ok(reply.text);
    }
    let status: MasterStatus = serde_json::from_str(&reply.text)
        .map_err(|error| format!("the answer cannot be read ({error}); --json shows it as it is"))?;
    let run_file = masters::running().ok().and_then(|all| all.into_iter().find(|master| master.pid == status.pid));
    Ok(table(&status, run_file.as_ref(), Style::of_output()))
}

/// What people want to know, the most important first.
fn table(status: &MasterStatus, run_file: Option<&RunFile>, style: Style) -> String {
    let mut text = String::new();
    let serving = status.workers.iter().any(|worker| worker.state == WorkerState::Serving);
    let state = if serving { style.paint(Colour::Good, "serves") } else { style.paint(Colour::Bad, "does not serve") };
    let _ = writeln!(text, "Master {} {state}, up {}", status.pid, lasting(status.uptime_s));
    if let Some(run_file) = run_file {
        let _ = writeln!(text, "  configuration  {}", run_file.configuration.join(" "));
        let _ = writeln!(text, "  listens on     {}", run_file.addresses.join(", "));
    }
    let mut reloads = status.reloads.to_string();
    if status.failed_reloads > 0 {
        let _ = write!(reloads, ", {} refused", status.failed_reloads);
    }
    if status.last_reload_failed {
        let refused = style.paint(Colour::Bad, "the last one was refused: the configuration before it is served");
        let _ = write!(reloads, "; {refused}");
    }
    let _ = writeln!(text, "  reloads        {reloads}");
    if status.worker_deaths > 0 {
        let deaths = style.paint(Colour::Doubtful, status.worker_deaths);
        let _ = writeln!(text, "  worker deaths  {deaths}");
    }
    let mut rows = vec![["PROCESS", "PID", "UP", "RELOADS", "STATE"].map(str::to_owned)];
    rows.extend(status.workers.iter().map(|worker| {
        let (colour, state) = match worker.state {
            WorkerState::Starting => (Colour::Doubtful, "starting"),
            WorkerState::Serving => (Colour::Good, "serving"),
            WorkerState::Draining => (Colour::Doubtful, "draining: ends when its connections have"),
        };
        let (up, reloads) = (lasting(worker.uptime_s), worker.reloads.to_string());
        ["worker".to_owned(), worker.pid.to_string(), up, reloads, style.paint(colour, state)]
    }));
    rows.extend(status.programs.iter().map(|program| {
        let state =
            if program.is_old { style.paint(Colour::Doubtful, "replaced") } else { style.paint(Colour::Good, "runs") };
        let name = format!("program {}", program.name);
        [name, program.pid.to_string(), lasting(program.uptime_s), program.reloads.to_string(), state]
    }));
    text.push('\n');
    text.push_str(&columns(&rows));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::process::{ProgramStatus, WorkerStatus};

    #[test]
    fn what_is_not_as_it_should_be_is_said() {
        let worker = |pid, state| WorkerStatus { pid, generation: 2, state, uptime_s: 65, reloads: 1 };
        let program = ProgramStatus { name: "exporter".into(), pid: 9, uptime_s: 5, reloads: 0, is_old: false };
        let status = MasterStatus {
            pid: 7,
            uptime_s: 7_500,
            reloads: 3,
            failed_reloads: 1,
            last_reload_failed: true,
            worker_deaths: 2,
            workers: vec![worker(12, WorkerState::Serving), worker(11, WorkerState::Draining)],
            programs: vec![program],
            ..MasterStatus::default()
        };
        let run_file = RunFile {
            pid: 7,
            started: 1,
            configuration: vec!["/etc/a.cfg".into()],
            addresses: vec!["0.0.0.0:80".into(), "unix@/run/s".into()],
            command_sockets: vec!["unix@/run/s".into()],
        };
        let expected = "\
Master 7 serves, up 2h 5m
  configuration  /etc/a.cfg
  listens on     0.0.0.0:80, unix@/run/s
  reloads        3, 1 refused; the last one was refused: the configuration before it is served
  worker deaths  2

  PROCESS           PID  UP     RELOADS  STATE
  worker            12   1m 5s  1        serving
  worker            11   1m 5s  1        draining: ends when its connections have
  program exporter  9    5s     0        runs
";
        assert_eq!(table(&status, Some(&run_file), Style::default()), expected);
        let none = table(&MasterStatus { pid: 7, ..MasterStatus::default() }, None, Style::default());
        assert!(none.starts_with("Master 7 does not serve, up 0s\n  reloads        0\n"), "{none}");
    }
}
