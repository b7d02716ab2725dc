//! Keeps what is published in Varnish's shared memory up to date.

use std::{sync::Arc, time::Duration};

use vsm::VsmError;

use crate::{Instance, Process};

/// How often sums are published.
const UPDATE_TIME: Duration = Duration::from_millis(100);

/// Publishes the sums of counters until it is dropped. One of these runs in the process, on any thread.
pub async fn run(process: Arc<Process>) {
    loop {
        // NOTE: looked for each time, because a reload may have turned it on.
        if let Some(published) = process.published() {
            published.update();
        }
        tokio::time::sleep(UPDATE_TIME).await;
    }
}

/// Shows the storages and backends of the programs of a configuration that is about to run.
///
/// # Errors
/// When the system refuses.
pub fn show(instance: &Instance) -> Result<(), VsmError> {
    let Some(published) = instance.process.published() else { return Ok(()) };
    let accelerators = instance.proxies.iter().filter_map(|proxy| proxy.accelerator.as_ref());
    let programs: Vec<_> = accelerators.map(|accelerator| Arc::clone(&accelerator.loaded)).collect();
    published.show(&programs)
}
