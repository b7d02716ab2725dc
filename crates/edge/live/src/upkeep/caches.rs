//! Caches are tended: what is over leaves them, and bans are completed.

use std::{sync::Arc, time::Duration};

use crate::Shared;

/// How often it is looked whether there is a cache at all.
const PAUSE: Duration = Duration::from_secs(1);

/// Tends the caches of what runs until it is dropped. One of these runs in the process, on any thread.
pub async fn run(shared: Arc<Shared>) {
    loop {
        let instance = shared.instance();
        let background = &shared.process.background;
        let pauses = instance.proxies.iter().flat_map(|proxy| {
            let of_program = proxy.accelerator.as_ref().map(|cache| cache.tend(background));
            let of_shared = proxy.shared_cache.as_ref().map(|cache| cache.tend(background));
            [of_program, of_shared]
        });
        let of_sections = instance.caches.iter().map(|section| section.tend());
        let pause = pauses.flatten().chain(of_sections).min();
        drop(instance);
        match pause.unwrap_or(PAUSE) {
            Duration::ZERO => tokio::task::yield_now().await,
            pause => tokio::time::sleep(pause).await,
        }
    }
}
