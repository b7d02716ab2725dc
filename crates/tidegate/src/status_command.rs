//! `tidegate status`: the processes of a running master, or the figures of a cache that varnishd runs.

use std::{fmt::Write as _, io::Write as _, process::ExitCode};

use clap::Args;
use runtime::process::{MasterStatus, WorkerState, run_file::RunFile};
use varnishtools::overview::Overview;

use crate::{
    masters::{self, Which, ask},
    style::{Colour, Style, columns, lasting, size},
};

/// Options of `tidegate status`.
#[derive(Args, Debug)]
pub struct StatusArguments {
    #[command(flatten)]
    which: Which,
    /// A cache that `tidegate varnishd` or Varnish runs instead: the name or the working directory of its instance (`-n`).
    #[arg(long = "cache", short = 'n', value_name = "NAME", conflicts_with = "which")]
    cache: Option<String>,
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
    if let Some(name) = &arguments.cache {
        let overview = Overview::of(Some(name)).map_err(|error| error.to_string())?;
        return Ok(if arguments.json { overview.json().to_string() } else { cache(&overview, Style::of_output()) });
    }
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

/// What people want to know of a cache.
fn cache(overview: &Overview, style: Style) -> String {
    let mut text = String::new();
    let state = match overview.worker.as_deref() {
        Some("running") => style.paint(Colour::Good, "serves"),
        Some(state) => style.paint(Colour::Bad, format!("does not serve: its worker is {state}")),
        None => style.paint(Colour::Doubtful, "does not tell its state"),
    };
    let _ = writeln!(text, "Cache {} {state}, up {}", overview.folder, lasting(overview.worker_uptime_s));
    if let Some(problem) = &overview.problem {
        let _ = writeln!(text, "  not asked      {problem}");
    }
    let rate =
        overview.hit_rate().map_or_else(|| "nothing looked up yet".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    let Overview { hits, misses, passes, requests, objects, expired, evicted, failed_fetches, .. } = overview;
    let _ = writeln!(text, "  hit rate       {rate}: {hits} hit, {misses} missed, {passes} passed, of {requests}");
    let _ = writeln!(text, "  objects        {objects}; {expired} expired, {evicted} removed for want of room");
    for storage in &overview.storages {
        let bound = if storage.free > 0 { format!(" of {}", size(storage.used + storage.free)) } else { String::new() };
        let _ = writeln!(text, "  storage        {}: {}{bound}", storage.name, size(storage.used));
    }
    if *failed_fetches > 0 {
        let _ = writeln!(text, "  failed fetches {}", style.paint(Colour::Doubtful, failed_fetches));
    }
    if !overview.backends.is_empty() {
        let mut rows = vec![["BACKEND", "HEALTH", "PROBES"].map(str::to_owned)];
        rows.extend(overview.backends.iter().map(|backend| {
            let colour = if backend.health == "healthy" { Colour::Good } else { Colour::Bad };
            // Varnish calls one healthy that has no probe.
            let is_by_hand = backend.admin == "sick" || backend.admin == "healthy" && backend.probes > 0;
            let by_hand = if is_by_hand { " (set by hand)" } else { "" };
            let probes = match backend.probes {
                0 => "none".to_owned(),
                probes => format!("{} of {probes} good", backend.good_probes),
            };
            [backend.name.clone(), style.paint(colour, format!("{}{by_hand}", backend.health)), probes]
        }));
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_of() {
        let storage = |name: &str, used, free| Storage { name: name.into(), used, free };
        let backend = |name: &str, health: &str, good_probes, probes| Backend {
            name: name.into(),
            admin: "probe".into(),
            good_probes,
            probes,
            health: health.into(),
            changed: 0.0,
        };
        let overview = Overview {
            folder: "/var/lib/varnish/web".into(),
            worker: Some("running".into()),
            worker_uptime_s: 65,
            requests: 5,
            hits: 3,
            misses: 1,
            passes: 1,
            objects: 2,
            storages: vec![storage("s0", 1_048_576, 1_048_576), storage("Transient", 0, 0)],
            backends: vec![backend("boot.web", "healthy", 8, 8), backend("boot.old", "sick", 0, 0)],
            ..Overview::default()
        };
        let expected = "\
Cache /var/lib/varnish/web serves, up 1m 5s
  hit rate       75.0 %: 3 hit, 1 missed, 1 passed, of 5
  objects        2; 0 expired, 0 removed for want of room
  storage        s0: 1.0 MB of 2.0 MB
  storage        Transient: 0 B

  BACKEND   HEALTH   PROBES
  boot.web  healthy  8 of 8 good
  boot.old  sick     none
";
        assert_eq!(cache(&overview, Style::default()), expected);
        let silent = cache(&Overview { problem: Some("No -T".into()), ..overview }, Style::default());
        assert!(silent.contains("not asked      No -T"), "{silent}");
    }
    use runtime::process::{ProgramStatus, WorkerStatus};
    use varnishtools::overview::{Backend, Storage};

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
