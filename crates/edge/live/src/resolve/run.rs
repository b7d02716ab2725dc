//! The tasks of `resolvers` sections.

use std::sync::{Arc, Weak};

use logs::AdminLog;
use tokio::sync::Notify;

use crate::{
    instance::Instance,
    resolvers::{LiveResolvers, transport::Transports},
};

/// Runs the sections of an instance, each as a task of this thread, until the instance is gone.
pub fn run_all(instance: &Arc<Instance>, log: &Arc<AdminLog>) {
    for section in &instance.resolvers {
        let task = run(Arc::downgrade(section), section.wake(), Arc::downgrade(instance), Arc::clone(log));
        tokio::task::spawn_local(task);
    }
}

async fn run(section: Weak<LiveResolvers>, wake: Arc<Notify>, instance: Weak<Instance>, log: Arc<AdminLog>) {
    let Some(mut transports) = section.upgrade().map(|section| Transports::new(&section.config)) else { return };
    loop {
        // NOTE: nothing of the instance is held while the task waits, or it would keep it alive.
        let due_ms = {
            let (Some(section), Some(instance)) = (section.upgrade(), instance.upgrade()) else { return };
            section.turn(&instance.proxies, &log, &mut transports)
        };
        let received = transports.receive(&wake, due_ms).await;
        let (Some(section), Some(instance)) = (section.upgrade(), instance.upgrade()) else { return };
        if let Some(received) = received {
            section.handle_response(&instance.proxies, &log, received);
        }
    }
}
