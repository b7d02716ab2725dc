//! `program` sections: what the master is to run, and who it is to be.

use admin::{cli::address, stats::view::Product};
use haproxycfg::{
    diagnostics::{Diagnostic, Severity},
    model::Config,
};
use runtime::process::{ProgramSpec, Programs};

use super::{EdgeOptions, identities};

/// What is wrong with the programs on this machine.
pub fn problems(config: &Config, options: &EdgeOptions) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    if !config.programs.is_empty() && !options.has_master && !config.global.master_worker {
        let message = "Can't use a 'program' section without master worker mode.";
        said.push(Diagnostic::whole(Severity::Alert, message));
    }
    said
}

/// What the master is to run.
pub fn plan(config: &Config, options: &EdgeOptions) -> Programs {
    if config.programs.is_empty() {
        return Programs::default();
    }
    let spec = |program: &haproxycfg::model::Program| ProgramSpec {
        name: program.name.to_string(),
        command: program.command.clone(),
        uid: identities::user(program.user.as_ref().map(|(user, _)| user)),
        gid: identities::group(program.group.as_ref().map(|(group, _)| group)),
        start_on_reload: program.start_on_reload,
    };
    let sockets = config.global.stats_sockets.iter().map(|socket| address(&socket.bind.address));
    let mut environment = config.global.environment.clone();
    for (name, value) in [
        ("HAPROXY_MWORKER", "1".to_owned()),
        ("HAPROXY_CLI", sockets.collect::<Vec<_>>().join(";")),
        ("HAPROXY_MASTER_CLI", options.master_sockets.join(";")),
        ("HAPROXY_STARTUP_VERSION", Product::default().version.into_owned()),
    ] {
        if !value.is_empty() {
            environment.insert(name.to_owned(), value);
        }
    }
    Programs {
        list: config.programs.iter().map(spec).collect(),
        environment,
        may_fail: config.global.no_exit_on_failure,
    }
}
