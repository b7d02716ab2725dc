//! Loading a program: its `vcl_init` makes what the program works with.

use std::sync::Arc;

use cache::{index::Cache, storage::Stevedore};
use vcl::{
    action::Action,
    program::Program,
    run::{self, Failure, Workspace},
    subroutine::Subroutine,
};

use crate::{
    common::{Common, Connection},
    loaded::{AllHealthy, Loaded, Parts, Storages},
    modules::InitHost,
    settings::Settings,
};

/// Loads a program.
///
/// # Errors
/// Why it cannot be used.
pub fn load(program: Arc<Program>, parts: Parts) -> Result<Arc<Loaded>, Failure> {
    let loaded = Loaded::new(program, parts);
    let workspace = Workspace::new(loaded.settings.workspace_client);
    let mut host = InitHost { common: Common::new(&loaded, Connection::default(), 0.0) };
    let answer = run::run(&loaded.program, Subroutine::Init, &mut host, &workspace)?;
    match answer.action {
        Action::Ok => Ok(Arc::clone(&loaded)),
        _ => {
            let why = answer.text.map(|text| String::from_utf8_lossy(text).into_owned());
            Err(Failure::Host(why.unwrap_or_else(|| "vcl_init returned fail".to_owned())))
        }
    }
}

/// Ends a program that nothing runs any more: its `vcl_fini`.
///
/// # Errors
/// Why that failed; it is over all the same.
pub fn unload(loaded: &Arc<Loaded>) -> Result<(), Failure> {
    let workspace = Workspace::new(loaded.settings.workspace_client);
    let mut host = InitHost { common: Common::new(loaded, Connection::default(), 0.0) };
    host.common.subroutine = Subroutine::Fini;
    run::run(&loaded.program, Subroutine::Fini, &mut host, &workspace).map(|_| ())
}

/// Tries whether a program can be loaded, without anything that lasts.
///
/// # Errors
/// Why it cannot.
pub fn try_to_load(program: &Arc<Program>, settings: &Settings) -> Result<(), Failure> {
    let storages = Storages::new(Vec::new(), Arc::new(Stevedore::malloc("Transient", 1 << 20)));
    let parts = Parts {
        name: "try".to_owned(),
        settings: settings.clone(),
        cache: Cache::new(),
        storages: Arc::new(storages),
        backends: Arc::new(AllHealthy),
        lasting: Arc::default(),
    };
    load(Arc::clone(program), parts).map(|_| ())
}
