//! Configurations and instances of them for tests.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use haproxycfg::{Options, model::Config, source::Bundle};
use logs::{Identity, Outputs};

use crate::{
    assemble::Assembly,
    live::{Instance, Process},
};

/// What a text that must be valid says.
pub(crate) fn configuration(text: &str) -> Config {
    let options = Options { hostname: "node".into(), ..Options::default() };
    let files = Bundle::default().with("t.cfg", text.as_bytes());
    let parsed = haproxycfg::parse(&["t.cfg".into()], &files, BTreeMap::new(), &options);
    parsed.config.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics))
}

/// The first instance of a process, with the outputs of its logs.
pub(crate) fn instance(config: Config, workers: usize) -> (Arc<Process>, Arc<Instance>, Arc<Outputs>) {
    let process = Arc::new(Process::new(workers, Instant::now(), SystemTime::now()));
    let outputs = Arc::new(Outputs::new());
    let identity = Identity::new(&config.global);
    let assembly = Assembly {
        process: &process,
        outputs: &outputs,
        identity: &identity,
        generation: 1,
        workers,
        previous: None,
        seed: 1,
    };
    let instance = assembly.build(config);
    (process, instance, outputs)
}
