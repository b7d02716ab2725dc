//! Configurations and instances of them for tests, of this crate and of those above.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use haproxycfg::{Options, model::Config, source::Bundle};
use live::{FarmObserver, Instance, Process, assemble::Assembly};
use logs::{Identity, Outputs};

/// What a text that must be valid says.
pub fn configuration(text: &str) -> Config {
    let options = Options { hostname: "node".into(), ..Options::default() };
    let files = Bundle::default().with("t.cfg", text.as_bytes());
    let parsed = haproxycfg::parse(&["t.cfg".into()], &files, BTreeMap::new(), &options);
    parsed.config.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics))
}

/// The first instance of a process, with the outputs of its logs.
pub fn instance(config: Config, workers: usize) -> (Arc<Process>, Arc<Instance>, Arc<Outputs>) {
    let outputs = Arc::new(Outputs::new());
    let observer: Arc<dyn FarmObserver> = Arc::new(());
    let (process, instance) = observed_instance(config, workers, &outputs, &observer);
    (process, instance, outputs)
}

/// The same on these outputs, with someone who is told what happens to its servers.
pub fn observed_instance(
    config: Config,
    workers: usize,
    outputs: &Arc<Outputs>,
    observer: &Arc<dyn FarmObserver>,
) -> (Arc<Process>, Arc<Instance>) {
    let process = Process::new(workers, Instant::now(), SystemTime::now(), Arc::clone(outputs), Arc::new(()));
    let process = Arc::new(process);
    let identity = Identity::new(&config.global);
    let assembly = Assembly {
        process: &process,
        observer,
        identity: &identity,
        generation: 1,
        workers,
        previous: None,
        beside: &[],
        seed: 1,
    };
    let instance = assembly.build(config);
    (process, instance)
}
