//! Keeps what is published in Varnish's shared memory up to date.

use std::{sync::Arc, time::Duration};

use runtime::log;
use vsm::VsmError;

use crate::{Instance, Shared, published::Shown};

/// How often sums are published.
const UPDATE_TIME: Duration = Duration::from_millis(100);

/// Publishes the sums of counters until it is dropped, and what programs, storages and backends there are. One of these runs in the
/// process, on any thread.
pub async fn run(shared: Arc<Shared>) {
    loop {
        // NOTE: looked for each time, because a reload may have turned it on.
        if let Some(published) = shared.process.published() {
            if let Err(error) = published.show(shown(&shared.instance())) {
                // The log and the other counters go on.
                log::write(log::Level::Warning, format_args!("counters cannot be published: {error}"));
            }
            published.update();
        }
        tokio::time::sleep(UPDATE_TIME).await;
    }
}

/// Shows what a configuration runs, before its first request.
///
/// # Errors
/// When the system refuses.
pub fn show(instance: &Instance) -> Result<(), VsmError> {
    instance.process.published().map_or(Ok(()), |published| published.show(shown(instance)))
}

fn shown(instance: &Instance) -> Shown {
    let mut shown = Shown::default();
    for accelerator in instance.proxies.iter().filter_map(|proxy| proxy.accelerator.as_ref()) {
        shown.caches.push(Arc::clone(&accelerator.cache));
        shown.storages.extend(accelerator.storages.named.iter().chain([&accelerator.storages.transient]).cloned());
        let (available, leaving) = accelerator.loaded();
        shown.programs.extend(available);
        shown.leaving += leaving as u64;
    }
    shown
}
