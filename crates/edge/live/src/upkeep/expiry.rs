//! Removing entries whose time is over.

use std::{sync::Arc, time::Duration};

use crate::Shared;

/// Expired entries are looked for no more often than this. Whoever asks for one of them does not find it meanwhile.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// And no more rarely, as entries are made that expire sooner.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Removes expired entries of all tables until it is dropped. One of these runs in the process, on any thread.
pub async fn run(shared: Arc<Shared>) {
    loop {
        let instance = shared.instance();
        let now = shared.process.milliseconds(std::time::Instant::now());
        let due = instance.tables.listed().filter_map(|table| table.purge(now)).min();
        drop(instance);
        let pause = due.map_or(PAUSE_MAX, |due| Duration::from_millis(due.saturating_sub(now)));
        tokio::time::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
    }
}
