//! How a master shows its processes.

use super::role::MasterStatus;
use std::fmt::Write as _;

impl MasterStatus {
    /// All of it, for programs to read: a line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// HAProxy's table of processes; `version` is that of the program that runs.
    #[must_use]
    pub fn table(&self, version: &str) -> String {
        let mut table = String::new();
        let attempts = self.reloads + self.failed_reloads;
        row(&mut table, &["#<PID>", "<type>", "<reloads>", "<uptime>", "<version>"]);
        let reloads = format!("{attempts} [failed: {}]", self.failed_reloads);
        row(&mut table, &[&self.pid.to_string(), "master", &reloads, &uptime(self.uptime_s), version]);
        let (current, old) = self.workers.split_at(self.workers.len().min(1));
        for (heading, workers) in [("# workers\n", current), ("# old workers\n", old)] {
            if !workers.is_empty() || !heading.contains("old") {
                table.push_str(heading);
            }
            for worker in workers {
                let (pid, reloads) = (worker.pid.to_string(), worker.reloads.to_string());
                row(&mut table, &[&pid, "worker", &reloads, &uptime(worker.uptime_s), version]);
            }
        }
        for (heading, is_old) in [("# programs\n", false), ("# old programs\n", true)] {
            let programs: Vec<_> = self.programs.iter().filter(|program| program.is_old == is_old).collect();
            if !programs.is_empty() || !is_old {
                table.push_str(heading);
            }
            for program in programs {
                let (pid, reloads) = (program.pid.to_string(), program.reloads.to_string());
                row(&mut table, &[&pid, &program.name, &reloads, &uptime(program.uptime_s), "-"]);
            }
        }
        table
    }
}

fn row(table: &mut String, cells: &[&str; 5]) {
    let [pid, kind, reloads, time, version] = cells;
    let _ = writeln!(table, "{pid:<15} {kind:<15} {reloads:<15} {time:<15} {version:<15}");
}

fn uptime(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    format!("{}d{:02}h{minutes:02}m{seconds:02}s", hours / 24, hours % 24)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::role::{ProgramStatus, WorkerState, WorkerStatus};

    #[test]
    fn processes_are_shown_as_haproxy_shows_them() {
        let worker =
            |pid, uptime_s| WorkerStatus { pid, generation: 1, state: WorkerState::Serving, uptime_s, reloads: 1 };
        let program = |pid, is_old| ProgramStatus { name: "sleeper".into(), pid, uptime_s: 5, reloads: 0, is_old };
        let mut status =
            MasterStatus { pid: 14_864, uptime_s: 22, reloads: 1, failed_reloads: 1, ..Default::default() };
        status.workers = vec![worker(16_036, 90_061)];
        let expected = "\
#<PID>          <type>          <reloads>       <uptime>        <version>      \n\
14864           master          2 [failed: 1]   0d00h00m22s     2.6.12         \n\
# workers\n\
16036           worker          1               1d01h01m01s     2.6.12         \n";
        assert_eq!(status.table("2.6.12"), format!("{expected}# programs\n"));
        status.workers.push(worker(7, 1));
        status.programs = vec![program(8, false), program(9, true)];
        let more = format!(
            "{expected}# old workers\n\
             7               worker          1               0d00h00m01s     2.6.12         \n\
             # programs\n\
             8               sleeper         0               0d00h00m05s     -              \n\
             # old programs\n\
             9               sleeper         0               0d00h00m05s     -              \n"
        );
        assert_eq!(status.table("2.6.12"), more);
    }
}
