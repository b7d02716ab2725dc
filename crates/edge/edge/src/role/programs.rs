//! `program` sections: what the master is to run, and who it is to be.

use haproxycfg::{
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{Config, Identity, Location},
};
use runtime::process::{ProgramSpec, Programs, group_id, user_id};

use super::EdgeOptions;
use crate::{cli::address, stats::view::Product};

type Find = fn(&str) -> std::io::Result<Option<u32>>;

fn find(identity: Option<&(Identity, Location)>, find: Find) -> Option<u32> {
    match identity.map(|(identity, _)| identity)? {
        Identity::Number(number) => Some(*number),
        Identity::Name(name) => find(name).ok().flatten(),
    }
}

/// What is wrong with the programs on this machine.
pub fn problems(config: &Config, options: &EdgeOptions) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    for program in &config.programs {
        for (identity, kind, find) in
            [(&program.user, "user", user_id as Find), (&program.group, "group", group_id as Find)]
        {
            let Some((Identity::Name(name), location)) = identity else { continue };
            let reason = match find(name) {
                Ok(Some(_)) => continue,
                Ok(None) => "0:Success".to_owned(),
                Err(error) => format!("{}:{error}", error.raw_os_error().unwrap_or(0)),
            };
            said.push(Diagnostic {
                prefix: Prefix::Parsing,
                location: Some(location.clone()),
                ..Diagnostic::whole(Severity::Alert, format!("cannot find {kind} id for '{name}' ({reason})"))
            });
        }
    }
    if !config.programs.is_empty() && !options.has_master && !config.global.master_worker {
        let message = "Can't use a 'program' section without master worker mode.";
        said.push(Diagnostic::whole(Severity::Alert, message));
    }
    if !said.is_empty() {
        said.push(Diagnostic::whole(Severity::Alert, "Fatal errors found in configuration."));
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
        uid: find(program.user.as_ref(), user_id),
        gid: find(program.group.as_ref(), group_id),
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
