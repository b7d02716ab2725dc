//! Taking over what the process that served before leaves of its stick tables.

use std::{sync::Arc, time::Instant};

use stick::handover::{Malformed, Reader};

use crate::Shared;

/// Entries that are taken over in one go, between which the control thread does something else.
const BATCH: usize = 500;

/// Takes over all of it, while the process serves.
pub async fn run(shared: Arc<Shared>, legacy: Vec<u8>) {
    if take_over(&shared, &legacy).await.is_err() {
        runtime::log::write(
            runtime::log::Level::Alert,
            format_args!("{Malformed}: the tables begin with what could be read"),
        );
    }
}

async fn take_over(shared: &Shared, legacy: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader::new(legacy)?;
    loop {
        let instance = shared.instance();
        let now = shared.process.milliseconds(Instant::now());
        if !reader.read(BATCH, now, |name| instance.tables.named(name).cloned())? {
            return Ok(());
        }
        drop(instance);
        tokio::task::yield_now().await;
    }
}
